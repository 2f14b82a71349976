//! The boundary of a partition: frames that leave for a node of another partition, and frames that arrive from one.
//!
//! Only frames cross. When a frame goes on a cross-partition link it is copied with its arrival time, and at the end of the window the other
//! partition schedules the same `Arrive` event. The original stays as the only frame on the wire here and represents the frame in service. Links
//! inside a partition pay nothing for this.

use crate::frame::Packet;
use crate::frame::path_tag::PathTag;
use pauseframe_engine::memory::prefetch_push_slot;
use pauseframe_rdma::cc::hpcc::Telemetry;
use pauseframe_transport::TcpOptions;
use pauseframe_units::{PortId, Time};

/// Frames from one partition to another, in the order of their departures.
///
/// One core writes them and another reads them, so each takes one cache line; rare parts are stored separately.
#[derive(Debug, Default)]
pub(crate) struct CrossPartitionFrameBuffer {
    /// The ports that sent them.
    pub(super) ports: Vec<PortId>,
    pub(super) packets: Vec<Packet>,
    /// Their variable options; packets refer to them by index.
    pub(super) options: Vec<TcpOptions>,
    /// Their telemetry; packets refer to it by index.
    pub(super) telemetries: Vec<Telemetry>,
    /// If leaves measure their paths: the tag of each.
    pub(super) path_tags: Vec<PathTag>,
    /// With captures: whether each frame has been captured already.
    pub(super) written: Vec<bool>,
}

/// Distance at which an outbox slot is prefetched from the core that read it last. If that core has another L3 cache, the transfer takes as long as
/// several hops.
const OUTBOX_PREFETCH_DISTANCE: usize = 8;

impl CrossPartitionFrameBuffer {
    #[inline]
    pub(super) fn push(&mut self, port: PortId, packet: Packet) {
        prefetch_push_slot(&self.ports, 2 * OUTBOX_PREFETCH_DISTANCE);
        prefetch_push_slot(&self.packets, OUTBOX_PREFETCH_DISTANCE);
        self.ports.push(port);
        self.packets.push(packet);
    }

    /// Prefetches the first slots.
    fn prefetch_first(&self) {
        prefetch_push_slot(&self.ports, 0);
        (0..OUTBOX_PREFETCH_DISTANCE).for_each(|place| prefetch_push_slot(&self.packets, place));
    }

    pub(super) fn clear(&mut self) {
        let CrossPartitionFrameBuffer { ports, packets, options, telemetries, path_tags, written } = self;
        ports.clear();
        packets.clear();
        options.clear();
        telemetries.clear();
        path_tags.clear();
        written.clear();
    }
}

/// Outboxes to other partitions.
#[derive(Debug, Default)]
pub(crate) struct PartitionOutboxes {
    /// Number of links that end in other partitions.
    pub(super) cut: usize,
    /// By partition: frames that left for it in this window.
    outboxes: Vec<CrossPartitionFrameBuffer>,
    /// Earliest arrival among the frames that have left.
    first: Option<Time>,
}

impl PartitionOutboxes {
    /// Sets the number of partitions.
    pub(crate) fn set_partition_count(&mut self, partitions: usize) {
        self.outboxes.resize_with(partitions, CrossPartitionFrameBuffer::default);
    }

    /// Prefetches outbox slots at the start of a window.
    pub(crate) fn prefetch_outboxes(&self) {
        self.outboxes.iter().for_each(CrossPartitionFrameBuffer::prefetch_first);
    }

    /// The outbox for a frame that arrives in partition `to` at `at`.
    pub(super) fn outbox_for_arrival(&mut self, to: u16, at: Time) -> &mut CrossPartitionFrameBuffer {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        &mut self.outboxes[usize::from(to)]
    }

    /// The outbox of a partition, to be swapped for an empty one.
    pub(crate) fn outbox_to(&mut self, to: usize) -> &mut CrossPartitionFrameBuffer {
        &mut self.outboxes[to]
    }

    /// Takes the earliest arrival among the frames that have left.
    pub(crate) fn take_first_arrival(&mut self) -> Option<Time> {
        self.first.take()
    }

    /// Number of local copies of frames that have left, one per cross-partition link.
    pub(crate) fn local_copy_count(&self) -> usize {
        self.cut
    }
}
