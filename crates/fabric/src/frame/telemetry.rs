//! The telemetry that packets of HPCC carry, in a list beside the packets: a frame stays one cache line.

use super::{Content, Packet, PacketId, PacketPool, RdmaFrame, TelemetryId};
use pauseframe_rdma::cc::hpcc::{Hop, Telemetry};

/// The telemetry of all packets of a partition.
#[derive(Debug, Default)]
pub(super) struct Telemetries {
    all: Vec<Telemetry>,
    free: Vec<TelemetryId>,
}

impl PacketPool {
    /// A place for the telemetry of a packet.
    pub(crate) fn add_telemetry(&mut self, telemetry: Telemetry) -> TelemetryId {
        let Telemetries { all, free } = &mut self.telemetries;
        if let Some(place) = free.pop() {
            all[place.0 as usize] = telemetry;
            return place;
        }
        all.push(telemetry);
        TelemetryId((all.len() - 1) as u32)
    }

    /// What a packet carries; empty where it carries none.
    pub(crate) fn telemetry(&self, frame: &RdmaFrame) -> Telemetry {
        self.telemetries.all.get(frame.telemetry.0 as usize).copied().unwrap_or_default()
    }

    /// A switch port adds its own.
    pub(crate) fn push_telemetry(&mut self, index: PacketId, hop: Hop) {
        if let Content::Rdma(frame) = self[index].content
            && frame.packet.opcode.is_data()
            && let Some(telemetry) = self.telemetries.all.get_mut(frame.telemetry.0 as usize)
        {
            telemetry.push(hop);
        }
    }

    /// Gives the place back that a frame names.
    pub(super) fn drop_telemetry(&mut self, content: &Content) {
        if let Content::Rdma(frame) = content
            && frame.telemetry != TelemetryId::NONE
        {
            self.telemetries.free.push(frame.telemetry);
        }
    }

    /// A packet from another pool names its telemetry by the place among these.
    pub(super) fn adopt_telemetry(&mut self, packet: &mut Packet, telemetries: &[Telemetry]) {
        if let Content::Rdma(frame) = &mut packet.content
            && frame.telemetry != TelemetryId::NONE
        {
            frame.telemetry = self.add_telemetry(telemetries[frame.telemetry.0 as usize]);
        }
    }

    /// The telemetry of a packet that leaves goes to the end of these; `copy` names it there.
    pub(super) fn part_with_telemetry(
        &mut self,
        index: PacketId,
        copy: &mut Packet,
        telemetries: &mut Vec<Telemetry>,
    ) {
        let content = self[index].content;
        let (Content::Rdma(frame), Content::Rdma(stays)) = (content, &mut self[index].content) else {
            return;
        };
        if frame.telemetry == TelemetryId::NONE {
            return;
        }
        stays.telemetry = TelemetryId::NONE;
        telemetries.push(self.telemetry(&frame));
        self.telemetries.free.push(frame.telemetry);
        if let Content::Rdma(leaves) = &mut copy.content {
            leaves.telemetry = TelemetryId((telemetries.len() - 1) as u32);
        }
    }
}
