//! What each queue pair or connection sent through each port of switches, and in which order it came there. Nothing in the simulation reads it back.

use crate::frame::{CompactTcpSegment, FrameContent, Packet, RdmaFrame};
use pauseframe_units::{NodeId, PortId};
use std::collections::BTreeMap;

/// Packets of one direction of a queue pair, connection or datagram flow that a switch has sent by one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRow {
    /// The flow.
    pub flow: u32,
    /// Which of its queue pairs; 0 if it has one.
    pub queue_pair: u32,
    /// Whether the packets go from the source of the flow to its destination.
    pub forward: bool,
    /// The port.
    pub port: PortId,
    /// What was counted.
    pub counts: PathCounts,
}

/// Counts at one port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames, without preamble and gap.
    pub bytes: u64,
    /// Packets marked at this port.
    pub marks: u64,
    /// Packets whose predecessor left the switch by another port.
    pub moves: u64,
    /// Data packets that came after one with a higher sequence number: overtaken, or sent again.
    pub late: u64,
    /// The largest distance of a late packet to the highest sequence number: packets of a queue pair, bytes of TCP.
    pub depth: u64,
}

/// The last packets of an endpoint at a switch.
#[derive(Clone, Copy, Debug)]
struct Last {
    port: PortId,
    /// The highest sequence number.
    highest: Option<u32>,
}

/// The counts of one partition.
#[derive(Debug, Default)]
pub(crate) struct PathLog {
    /// By endpoint key of the receiver and port.
    counts: BTreeMap<(u32, PortId), PathCounts>,
    /// By endpoint key of the receiver and switch.
    last: BTreeMap<(u32, NodeId), Last>,
}

/// The sequence number of a packet that carries data, and its bits.
fn sequence_number(packet: &Packet) -> Option<(u32, u32)> {
    match &packet.content {
        FrameContent::Rdma(RdmaFrame { packet, .. }) if packet.opcode.is_data() => Some((packet.psn, 24)),
        FrameContent::Segment(CompactTcpSegment { seq, len, .. }) if *len > 0 => Some((*seq, 32)),
        _ => None,
    }
}

/// How far `later` is ahead of `earlier` in numbers of so many bits; negative if it is behind.
fn distance(later: u32, earlier: u32, bits: u32) -> i64 {
    let shift = u32::BITS - bits;
    i64::from((later.wrapping_sub(earlier) << shift).cast_signed() >> shift)
}

impl PathLog {
    /// A switch sends a packet by a port.
    pub(crate) fn count_packet(&mut self, packet: &Packet, switch: NodeId, port: PortId) {
        let Some(key) = packet.destination_endpoint_key().filter(|_| packet.is_flow_packet()) else { return };
        let counts = self.counts.entry((key, port)).or_default();
        counts.packets += 1;
        counts.bytes += u64::from(packet.size);
        let last = self.last.entry((key, switch)).or_insert(Last { port, highest: None });
        counts.moves += u64::from(last.port != port);
        last.port = port;
        let Some((number, bits)) = sequence_number(packet) else { return };
        let ahead = last.highest.map_or(1, |highest| distance(number, highest, bits));
        if ahead > 0 {
            last.highest = Some(number);
        } else {
            counts.late += 1;
            counts.depth = counts.depth.max(ahead.unsigned_abs());
        }
    }

    /// A packet is marked in the queue of a port.
    pub(crate) fn count_mark(&mut self, packet: &Packet, port: PortId) {
        if let Some(counts) =
            packet.destination_endpoint_key().and_then(|key| self.counts.get_mut(&(key, port)))
        {
            counts.marks += 1;
        }
    }

    /// Takes the mark of a packet at `port` back.
    pub(crate) fn take_mark_back(&mut self, packet: &Packet, port: PortId) {
        if let Some(counts) =
            packet.destination_endpoint_key().and_then(|key| self.counts.get_mut(&(key, port)))
        {
            counts.marks -= 1;
        }
    }

    /// By endpoint key and port.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, PortId, PathCounts)> {
        self.counts.iter().map(|((key, port), counts)| (*key, *port, *counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!([distance(1, 0xff_ffff, 24), distance(0xff_fff0, 2, 24)], [2, -18]);
        assert_eq!([distance(5, u32::MAX, 32), distance(7, 9, 32)], [6, -2]);
    }
}
