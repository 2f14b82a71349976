//! Telemetry of HPCC packets, stored outside the packets so that a frame stays one cache line.

use super::{FrameKind, Packet, PacketId, PacketPool, RdmaFrame, TelemetryId};
use pauseframe_engine::memory::prefetch_element_or_first;
use pauseframe_rdma::cc::hpcc::{Hop, Telemetry};
use std::hint::select_unpredictable;

/// The telemetry of all packets of a partition.
#[derive(Debug, Default)]
pub(super) struct TelemetryPool {
    all: Vec<Telemetry>,
    free: Vec<TelemetryId>,
}

impl PacketPool {
    /// Stores the telemetry of a packet.
    pub(crate) fn add_telemetry(&mut self, telemetry: &Telemetry) -> TelemetryId {
        let TelemetryPool { all, free } = &mut self.telemetries;
        if let Some(place) = free.pop() {
            all[place.0 as usize] = *telemetry;
            return place;
        }
        all.push(*telemetry);
        TelemetryId((all.len() - 1) as u32)
    }

    /// The telemetry of a packet; empty if it has none.
    pub(crate) fn telemetry(&self, frame: &RdmaFrame) -> &Telemetry {
        self.telemetries.all.get(frame.telemetry.0 as usize).unwrap_or(&Telemetry::EMPTY)
    }

    /// The telemetry to which switch ports append. Acknowledgements carry a copy that stays as it is.
    pub(crate) fn growing_telemetry(&self, index: PacketId) -> Option<TelemetryId> {
        let FrameKind::Rdma(frame) = &self[index].content else { return None };
        (frame.packet.opcode.is_data() && frame.telemetry != TelemetryId::NONE).then_some(frame.telemetry)
    }

    /// Prefetches the telemetry of a packet, if its next node reads it: switches pass that of acknowledgements on.
    #[inline(always)]
    pub(crate) fn prefetch_telemetry(&self, packet: &Packet, to_host: bool) {
        if let FrameKind::Rdma(frame) = &packet.content {
            let place = frame.telemetry.0 as usize;
            let is_read = to_host | frame.packet.opcode.is_data();
            prefetch_element_or_first(&self.telemetries.all, select_unpredictable(is_read, place, 0));
        }
    }

    /// Appends the telemetry of a switch port.
    pub(crate) fn append_hop_telemetry(&mut self, telemetry: TelemetryId, hop: Hop) {
        self.telemetries.all[telemetry.0 as usize].push(hop);
    }

    /// Frees the telemetry of a frame.
    pub(super) fn free_telemetry(&mut self, content: &FrameKind) {
        if let FrameKind::Rdma(frame) = content
            && frame.telemetry != TelemetryId::NONE
        {
            self.telemetries.free.push(frame.telemetry);
        }
    }

    /// Imports the telemetry of a packet from another pool, where the packet has its index in `telemetries`.
    pub(super) fn import_telemetry(&mut self, packet: &mut Packet, telemetries: &[Telemetry]) {
        if let FrameKind::Rdma(frame) = &mut packet.content
            && frame.telemetry != TelemetryId::NONE
        {
            frame.telemetry = self.add_telemetry(&telemetries[frame.telemetry.0 as usize]);
        }
    }

    /// Moves the telemetry of a leaving packet to the end of `telemetries`, where `copy` refers to it.
    pub(super) fn export_telemetry(
        &mut self,
        index: PacketId,
        copy: &mut Packet,
        telemetries: &mut Vec<Telemetry>,
    ) {
        let content = self[index].content;
        let (FrameKind::Rdma(frame), FrameKind::Rdma(stays)) = (content, &mut self[index].content) else {
            return;
        };
        if frame.telemetry == TelemetryId::NONE {
            return;
        }
        stays.telemetry = TelemetryId::NONE;
        telemetries.push(*self.telemetry(&frame));
        self.telemetries.free.push(frame.telemetry);
        if let FrameKind::Rdma(leaves) = &mut copy.content {
            leaves.telemetry = TelemetryId((telemetries.len() - 1) as u32);
        }
    }
}
