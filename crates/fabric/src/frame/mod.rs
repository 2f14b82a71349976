//! A frame in one cache line: common fields, and content by kind.

mod chain;
pub(crate) mod path_tag;
mod pool;
pub(crate) mod telemetry;

pub(crate) use chain::PacketFifo;
pub(crate) use pool::PacketPool;

pub(crate) use crate::ids::PacketId;
use pauseframe_rdma::Opcode;
use pauseframe_transport::{EcnCodepoint, TcpFlags, Timestamps};
use pauseframe_units::{PortId, Time};

/// A frame. Aligned, so that none lies across two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// On a link: arrival time of the frame behind it (its own if it is the last), so taking a frame off the link need not read the next one. In a
    /// queue: when the frame joined.
    pub(crate) at: Time,
    /// The packet behind this one.
    pub(crate) next: PacketId,
    /// The sending port of the link by which it entered its current switch; PFC accounts by it.
    pub(crate) ingress: PortId,
    /// Offset of its path, or the destination node where switches look up the next hop.
    pub(crate) route: u32,
    pub(crate) content: FrameContent,
    /// Bytes that it occupies in buffers: the frame without preamble and gap.
    pub(crate) size: u16,
    /// Index of its VLAN in the tables, if VLANs are used; in a tunnel, 1 + its class outside. No network has both.
    pub(crate) vlan: u16,
    /// Index in its path of the next port.
    pub(crate) hop: u8,
    /// Index of its priority among the priorities in use.
    pub(crate) class: u8,
    /// The class in which it entered its current switch; differs from `class` only if VLAN tables change the lane.
    pub(crate) ingress_class: u8,
}

// A frame of any kind fits one cache line.
const _: () = assert!(size_of::<Packet>() == 64);

/// The kind of a frame, with its content.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FrameContent {
    /// A TCP segment in an IP packet.
    Segment(CompactTcpSegment),
    /// A UDP datagram of `len` bytes in an IP packet; `to` is flow * 2 + 1.
    Datagram { to: u32, len: u16, ecn: EcnCodepoint },
    /// A `RoCEv2` packet.
    Rdma(RdmaFrame),
    /// A TCP segment of a stack outside of the simulator, addressed to flow * 2 + the side: its bytes lie in the pool.
    Foreign { to: u32, bytes: FrameBytesId, ecn: EcnCodepoint },
    /// A PFC pause frame (IEEE 802.1Qbb): its class-enable vector and the quanta; 0 resumes.
    Pause { classes: u8, quanta: u16 },
    /// A congestion notification message.
    Cnm(Cnm),
    /// A reply or notice from leaf to leaf about a path; its tag says which.
    PathControl(PathControl),
    /// A frame that was damaged on the wire: discarded where it arrives.
    Damaged(DamagedFrame),
    /// A frame whose link went down: it never arrives, but keeps its place on the link.
    Lost,
}

/// What a damaged frame was, as far as its discarding is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DamagedFrame {
    /// A pause frame.
    Pause,
    /// A datagram of `len` bytes; `to` is flow * 2 + 1.
    Datagram { to: u32, len: u16 },
    /// Any other frame.
    Other,
}

/// A TCP segment in compact form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactTcpSegment {
    /// Flow * 2 + the side (0 or 1) that it is addressed to.
    pub(crate) to: u32,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u32,
    /// Remaining bytes of its flow when it was sent: its rank in a pFabric queue.
    pub(crate) remaining: u32,
    /// Index of its variable options in the pool.
    pub(crate) options: TcpOptionsId,
    pub(crate) stamps: Timestamps,
    pub(crate) len: u16,
    pub(crate) ecn: EcnCodepoint,
    pub(crate) flags: TcpFlags,
}

/// The bytes of a frame, from its Ethernet header on.
pub(crate) type FrameBytes = Vec<u8>;

/// The place of a frame's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameBytesId(u32);

/// A `RoCEv2` packet as a frame carries it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaFrame {
    /// Flow * 2 + the side (0 or 1) that it is addressed to.
    pub(crate) to: u32,
    pub(crate) packet: pauseframe_rdma::Packet,
    /// Index of its telemetry in the pool.
    pub(crate) telemetry: TelemetryId,
    pub(crate) ecn: EcnCodepoint,
}

/// Index of a packet's telemetry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TelemetryId(u32);

impl TelemetryId {
    pub(crate) const NONE: TelemetryId = TelemetryId(u32::MAX);
}

/// A congestion notification message (IEEE 802.1Qau).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cnm {
    /// The end (flow * 2 + side) that sent the sampled frame.
    pub(crate) to: u32,
    pub(crate) q_off: i32,
    pub(crate) q_delta: i32,
    /// The congestion point.
    pub(crate) point: PortId,
    /// The quantised feedback.
    pub(crate) fb: u8,
    /// The class of the sampled frame.
    pub(crate) sampled_class: u8,
}

/// A control frame of `ConWeave`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathControl {
    /// The end (flow * 2 + side) that the packets go to whose path this is about.
    pub(crate) about: u32,
    pub(crate) kind: PathControlKind,
}

/// What a control frame of `ConWeave` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathControlKind {
    /// The packet that asked for a reply has arrived.
    Reply,
    /// Packets of the old path no longer hold up those of the new one.
    Clear,
    /// A packet on the path was marked.
    Busy,
}

/// Index of a segment's variable options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TcpOptionsId(u32);

impl TcpOptionsId {
    pub(crate) const NONE: TcpOptionsId = TcpOptionsId(u32::MAX);
}

impl Packet {
    /// A frame of `size` bytes in `class`, without ingress port or route.
    #[inline(always)]
    pub(crate) fn new(content: FrameContent, size: u16, class: u8) -> Packet {
        Packet {
            at: Time::ZERO,
            next: PacketId::NONE,
            ingress: PortId::NONE,
            route: u32::MAX,
            content,
            size,
            vlan: 0,
            hop: 1,
            class,
            ingress_class: class,
        }
    }

    /// Its class outside of the tunnel that it is in, if it is in one (only in networks with tunnels).
    pub(crate) fn outer_class(&self) -> Option<u8> {
        self.vlan.checked_sub(1).map(|class| class as u8)
    }

    /// Enters a tunnel, outside of which it has this class, or leaves it (`None`).
    pub(crate) fn set_outer_class(&mut self, class: Option<u8>) {
        self.vlan = class.map_or(0, |class| u16::from(class) + 1);
    }

    /// Whether this is a packet of a flow.
    #[inline(always)]
    pub(crate) fn is_flow_packet(&self) -> bool {
        matches!(
            self.content,
            FrameContent::Segment(_)
                | FrameContent::Datagram { .. }
                | FrameContent::Rdma(_)
                | FrameContent::Foreign { .. }
        )
    }

    /// Whether it is a SYN or a SYN-ACK.
    pub(crate) fn is_syn(&self) -> bool {
        matches!(self.content, FrameContent::Segment(CompactTcpSegment { flags, .. }) if flags.contains(TcpFlags::SYN))
    }

    /// Whether its transmission time counts for packets: false for pause frames and frames cut off by a failure.
    pub(crate) fn counts_as_transmission(&self) -> bool {
        !matches!(
            self.content,
            FrameContent::Pause { .. } | FrameContent::Damaged(DamagedFrame::Pause) | FrameContent::Lost
        )
    }

    /// The ECN field of its IP header; a frame without one is not ECN-capable.
    #[inline]
    pub(crate) fn ecn_codepoint(&self) -> EcnCodepoint {
        match self.content {
            FrameContent::Segment(CompactTcpSegment { ecn, .. })
            | FrameContent::Datagram { ecn, .. }
            | FrameContent::Foreign { ecn, .. }
            | FrameContent::Rdma(RdmaFrame { ecn, .. }) => ecn,
            _ => EcnCodepoint::NotEct,
        }
    }

    /// Sets CE if the packet is ECN-capable and has none; whether it did.
    #[inline]
    pub(crate) fn mark_ce(&mut self) -> bool {
        if let FrameContent::Segment(CompactTcpSegment { ecn, .. })
        | FrameContent::Datagram { ecn, .. }
        | FrameContent::Foreign { ecn, .. }
        | FrameContent::Rdma(RdmaFrame { ecn, .. }) = &mut self.content
            && matches!(ecn, EcnCodepoint::Ect0 | EcnCodepoint::Ect1)
        {
            *ecn = EcnCodepoint::Ce;
            return true;
        }
        false
    }

    /// The endpoint key (flow * 2 + side) of its destination endpoint, if it has one.
    pub(crate) fn destination_endpoint_key(&self) -> Option<u32> {
        match self.content {
            FrameContent::Segment(CompactTcpSegment { to, .. })
            | FrameContent::Datagram { to, .. }
            | FrameContent::Foreign { to, .. }
            | FrameContent::Rdma(RdmaFrame { to, .. })
            | FrameContent::Cnm(Cnm { to, .. }) => Some(to),
            FrameContent::PathControl(_)
            | FrameContent::Pause { .. }
            | FrameContent::Damaged(_)
            | FrameContent::Lost => None,
        }
    }

    /// Whether it is more than an acknowledgement or a congestion notification.
    pub(crate) fn carries_data_or_requests(&self) -> bool {
        match &self.content {
            FrameContent::Segment(CompactTcpSegment { len, flags, .. }) => {
                *len > 0 || flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::FIN)
            }
            FrameContent::Rdma(RdmaFrame { packet, .. }) => {
                !matches!(packet.opcode, Opcode::Acknowledge | Opcode::Cnp)
            }
            FrameContent::Datagram { .. } | FrameContent::Foreign { .. } => true,
            _ => false,
        }
    }

    /// Its rank in a pFabric queue: smaller ranks go first. Frames other than segments have rank 0.
    pub(crate) fn pfabric_rank(&self) -> u32 {
        if let FrameContent::Segment(CompactTcpSegment { remaining, .. }) = self.content {
            remaining
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_packet_fits_a_cache_line() {
        assert_eq!(size_of::<super::Packet>(), 64);
    }
}
