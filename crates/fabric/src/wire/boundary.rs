//! The border of a partition: frames that leave it for a node of another one, and those that come.
//!
//! A frame that leaves is all that crosses: as it goes on a wire that is cut it is copied, with the time at which it arrives, and at the
//! end of the window it makes the same `Arrive` event in the other partition as it would have made here. The copy that stays is the only frame
//! on the wire here: it says what is in service. A wire that is not cut costs a hop nothing.

use crate::frame::Packet;
use pauseframe_engine::memory::prefetch_push;
use pauseframe_rdma::cc::hpcc::Telemetry;
use pauseframe_transport::Options;
use pauseframe_units::{PortId, Time};

/// Frames that cross from one partition to another, in the order in which they have left.
///
/// One core writes them and another reads them, so they are as small as they can be: a cache line each, and what few of them have beside it.
#[derive(Debug, Default)]
pub(crate) struct CrossingFrames {
    /// The ports that sent them.
    pub(super) ports: Vec<PortId>,
    pub(super) packets: Vec<Packet>,
    /// Their variable options, which they name by the place here.
    pub(super) options: Vec<Options>,
    /// The same of their telemetry.
    pub(super) telemetries: Vec<Telemetry>,
    /// Where frames are captured: whether each is in the file.
    pub(super) written: Vec<bool>,
}

/// So many places ahead, a place in a box is asked from the core that has read it last: from one with another third-level cache it takes
/// as long as several hops.
const AHEAD: usize = 8;

impl CrossingFrames {
    #[inline]
    pub(super) fn push(&mut self, port: PortId, packet: Packet) {
        prefetch_push(&self.ports, 2 * AHEAD);
        prefetch_push(&self.packets, AHEAD);
        self.ports.push(port);
        self.packets.push(packet);
    }

    /// Asks for the first places.
    fn prefetch_push(&self) {
        prefetch_push(&self.ports, 0);
        (0..AHEAD).for_each(|place| prefetch_push(&self.packets, place));
    }

    pub(super) fn clear(&mut self) {
        let CrossingFrames { ports, packets, options, telemetries, written } = self;
        ports.clear();
        packets.clear();
        options.clear();
        telemetries.clear();
        written.clear();
    }
}

/// What goes to other partitions.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    /// Wires that end in others.
    pub(super) cut: usize,
    /// By partition: what has left for it in this window.
    outboxes: Vec<CrossingFrames>,
    /// The first arrival of what has left.
    first: Option<Time>,
}

impl Boundary {
    /// There are so many partitions.
    pub(crate) fn open(&mut self, partitions: usize) {
        self.outboxes.resize_with(partitions, CrossingFrames::default);
    }

    /// A window begins.
    pub(crate) fn prefetch_push(&self) {
        self.outboxes.iter().for_each(CrossingFrames::prefetch_push);
    }

    /// Where a frame is put that leaves for a partition, where it arrives at `at`.
    pub(super) fn send(&mut self, to: u16, at: Time) -> &mut CrossingFrames {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        &mut self.outboxes[usize::from(to)]
    }

    /// What has left for a partition, to be changed for an empty box.
    pub(crate) fn outbox(&mut self, to: usize) -> &mut CrossingFrames {
        &mut self.outboxes[to]
    }

    /// When the first of what has left arrives; it is on its way now.
    pub(crate) fn take_first(&mut self) -> Option<Time> {
        self.first.take()
    }

    /// Copies of frames that have left, one for each wire.
    pub(crate) fn local_copies(&self) -> usize {
        self.cut
    }
}
