//! Telemetry of HPCC packets, stored outside the packets so that a frame stays one cache line.

use super::{FrameContent, Packet, PacketId, PacketPool, TelemetryId};
use pauseframe_engine::memory::prefetch_element_or_first;
use pauseframe_rdma::cc::hpcc::{Hop, Quantum, Telemetry};
use pauseframe_units::{BitRate, LineRate, Time};
use std::hint::select_unpredictable;

/// What switches need to stamp telemetry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TelemetryStamper {
    pub(crate) quantum: Quantum,
    /// The rate of most ports, and the same in kb/s: spares a division a hop.
    usual: (LineRate, u32),
}

impl TelemetryStamper {
    /// For the rates of the fastest host link and the fastest link. The unit follows the host link, as in the scripts of the HPCC
    /// simulator: a coarser one makes the busiest of several hops look busier.
    pub(crate) fn for_fastest_links(host: BitRate, link: BitRate) -> TelemetryStamper {
        let line = LineRate::new(link);
        TelemetryStamper { quantum: Quantum::for_line(host.0), usual: (line, rate_in_kbps(line)) }
    }

    /// The telemetry of a port with this rate: bytes in its queue, bytes sent, and the time.
    #[inline(always)]
    pub(crate) fn build_hop(self, rate: LineRate, queue: u64, sent: u64, now: Time) -> Hop {
        let line = if rate == self.usual.0 { self.usual.1 } else { rate_in_kbps(rate) };
        self.quantum.stamp(line, queue, sent, now.0 / 1000)
    }
}

fn rate_in_kbps(rate: LineRate) -> u32 {
    u32::try_from(rate.rate().0 / 1000).unwrap_or(u32::MAX)
}

/// The telemetry of all packets of a partition.
#[derive(Debug, Default)]
pub(super) struct PacketTelemetryPool {
    all: Vec<CacheLineAlignedTelemetry>,
    free: Vec<TelemetryId>,
}

/// Telemetry in a separate cache line.
#[derive(Debug)]
#[repr(align(64))]
struct CacheLineAlignedTelemetry(Telemetry);

const _: () = assert!(size_of::<CacheLineAlignedTelemetry>() == 64);

impl PacketPool {
    /// Empty telemetry for a packet.
    pub(crate) fn add_empty_telemetry(&mut self) -> TelemetryId {
        let PacketTelemetryPool { all, free } = &mut self.telemetries;
        if let Some(place) = free.pop() {
            all[place.0 as usize].0.clear();
            return place;
        }
        all.push(CacheLineAlignedTelemetry(Telemetry::EMPTY));
        TelemetryId((all.len() - 1) as u32)
    }

    /// The telemetry of a packet; empty if it has none.
    pub(crate) fn telemetry(&self, telemetry: TelemetryId) -> &Telemetry {
        self.telemetries.all.get(telemetry.0 as usize).map_or(&Telemetry::EMPTY, |line| &line.0)
    }

    /// The telemetry to which switch ports append. Acknowledgements return that of a data packet as it is.
    #[inline]
    pub(crate) fn appendable_telemetry(&self, index: PacketId) -> Option<TelemetryId> {
        let FrameContent::Rdma(frame) = &self[index].content else { return None };
        (frame.packet.opcode.is_data() && frame.telemetry != TelemetryId::NONE).then_some(frame.telemetry)
    }

    /// Prefetches the telemetry of a packet, if its next node reads it: switches pass that of acknowledgements on.
    #[inline(always)]
    pub(crate) fn prefetch_telemetry(&self, packet: &Packet, to_host: bool) {
        if let FrameContent::Rdma(frame) = &packet.content {
            let place = frame.telemetry.0 as usize;
            let is_read = to_host | frame.packet.opcode.is_data();
            prefetch_element_or_first(&self.telemetries.all, select_unpredictable(is_read, place, 0));
        }
    }

    /// Appends the telemetry of a switch port.
    pub(crate) fn append_hop(&mut self, telemetry: TelemetryId, hop: Hop) {
        self.telemetries.all[telemetry.0 as usize].0.push(hop);
    }

    /// Exchanges the telemetry of a packet, which may be none, for another.
    #[inline]
    pub(crate) fn swap_telemetry(&mut self, index: PacketId, other: &mut TelemetryId) {
        if let FrameContent::Rdma(frame) = &mut self[index].content {
            std::mem::swap(&mut frame.telemetry, other);
        }
    }

    /// Frees telemetry, if it is any.
    #[inline]
    pub(crate) fn free_telemetry(&mut self, telemetry: TelemetryId) {
        if telemetry != TelemetryId::NONE {
            self.telemetries.free.push(telemetry);
        }
    }

    /// Imports the telemetry of a packet from another pool, where the packet has its index in `telemetries`.
    pub(super) fn import_telemetry(&mut self, packet: &mut Packet, telemetries: &[Telemetry]) {
        if let FrameContent::Rdma(frame) = &mut packet.content
            && frame.telemetry != TelemetryId::NONE
        {
            let telemetry = self.add_empty_telemetry();
            self.telemetries.all[telemetry.0 as usize].0 = telemetries[frame.telemetry.0 as usize];
            frame.telemetry = telemetry;
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
        let (FrameContent::Rdma(frame), FrameContent::Rdma(stays)) = (content, &mut self[index].content)
        else {
            return;
        };
        if frame.telemetry == TelemetryId::NONE {
            return;
        }
        stays.telemetry = TelemetryId::NONE;
        telemetries.push(*self.telemetry(frame.telemetry));
        self.free_telemetry(frame.telemetry);
        if let FrameContent::Rdma(leaves) = &mut copy.content {
            leaves.telemetry = TelemetryId((telemetries.len() - 1) as u32);
        }
    }
}
