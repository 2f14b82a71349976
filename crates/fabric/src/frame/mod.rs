//! A frame on its way, one cache line: what every frame has, and what only its kind has.

mod chain;
mod pool;
mod telemetry;

pub(crate) use chain::Fifo;
pub(crate) use pool::PacketPool;

pub(crate) use crate::ids::PacketId;
use pauseframe_transport::{Ecn, Flags, Stamps};
use pauseframe_units::{PortId, Time};

/// A frame. Aligned, so that none lies across two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// On a link: when the last bit of the frame behind it arrives, or its own if it is the last. So who takes a frame off the link
    /// need not look at the next one, which lies elsewhere. In a queue: when it joined.
    pub(crate) at: Time,
    /// The packet behind this one.
    pub(crate) next: PacketId,
    /// The port whose frame this was when it came into the switch that holds it: PFC accounts by it.
    pub(crate) ingress: PortId,
    /// Offset of its path, or the destination node where switches look up the next hop.
    pub(crate) route: u32,
    pub(crate) content: Content,
    /// Bytes that it occupies in buffers: the frame without preamble and gap.
    pub(crate) size: u16,
    /// Position of its VLAN in the tables, where packets have one.
    pub(crate) vlan: u16,
    /// Where in its path the port stands that it takes next.
    pub(crate) hop: u8,
    /// Index of its priority among the priorities in use.
    pub(crate) class: u8,
    /// The class in which it came into the switch that holds it: another one only where tables change the lane.
    pub(crate) ingress_class: u8,
}

// Whatever a frame carries, it is one cache line.
const _: () = assert!(size_of::<Packet>() == 64);

/// What a frame is, and what it carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// A TCP segment in an IP packet.
    Segment(Carried),
    /// A UDP datagram in an IP packet, addressed to flow * 2 + 1, with so many bytes.
    Datagram { to: u32, len: u16, ecn: Ecn },
    /// A `RoCEv2` packet.
    Rdma(RdmaFrame),
    /// A TCP segment of a stack outside of the simulator, addressed to flow * 2 + the side: its bytes lie in the pool.
    Foreign { to: u32, bytes: BytesId, ecn: Ecn },
    /// A PFC pause frame (IEEE 802.1Qbb): its class-enable vector and the quanta; 0 resumes.
    Pause { classes: u8, quanta: u16 },
    /// A congestion notification message.
    Cnm(Cnm),
    /// A frame that was damaged on the wire: discarded where it arrives.
    Damaged { was_pause: bool },
    /// A frame whose link went down: it never arrives, but keeps its place on the link.
    Lost,
}

/// A segment as a packet carries it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// Flow * 2 + the side (0 or 1) that it is addressed to.
    pub(crate) to: u32,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u32,
    /// What its flow had left when it was sent, bytes: its rank in a pFabric queue.
    pub(crate) remaining: u32,
    /// Where its variable options are.
    pub(crate) options: OptionsId,
    pub(crate) stamps: Stamps,
    pub(crate) len: u16,
    pub(crate) ecn: Ecn,
    pub(crate) flags: Flags,
}

/// The bytes of a frame, from its Ethernet header on.
pub(crate) type FrameBytes = Vec<u8>;

/// The place of a frame's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BytesId(u32);

/// A `RoCEv2` packet as a frame carries it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaFrame {
    /// Flow * 2 + the side (0 or 1) that it is addressed to.
    pub(crate) to: u32,
    pub(crate) packet: pauseframe_rdma::Packet,
    /// Where its telemetry is.
    pub(crate) telemetry: TelemetryId,
    pub(crate) ecn: Ecn,
}

/// The place of a packet's telemetry.
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

/// The place of a segment's variable options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OptionsId(u32);

impl OptionsId {
    pub(crate) const NONE: OptionsId = OptionsId(u32::MAX);
}

impl Packet {
    /// A frame of `size` bytes in `class` that has come from nowhere and is bound nowhere.
    #[inline(always)]
    pub(crate) fn new(content: Content, size: u16, class: u8) -> Packet {
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

    /// Whether this is a packet of a flow.
    #[inline(always)]
    pub(crate) fn is_data(&self) -> bool {
        matches!(
            self.content,
            Content::Segment(_) | Content::Datagram { .. } | Content::Rdma(_) | Content::Foreign { .. }
        )
    }

    /// Whether it asks for a connection, or answers who does.
    pub(crate) fn is_syn(&self) -> bool {
        matches!(self.content, Content::Segment(Carried { flags, .. }) if flags.has(Flags::SYN))
    }

    /// Whether its time on the wire is that of a packet: not of a pause frame, nor of what is cut off.
    pub(crate) fn is_counted(&self) -> bool {
        !matches!(self.content, Content::Pause { .. } | Content::Damaged { was_pause: true } | Content::Lost)
    }

    /// The ECN field of its IP header; a frame without one is not ECN-capable.
    #[inline]
    pub(crate) fn ecn(&self) -> Ecn {
        match self.content {
            Content::Segment(Carried { ecn, .. })
            | Content::Datagram { ecn, .. }
            | Content::Foreign { ecn, .. }
            | Content::Rdma(RdmaFrame { ecn, .. }) => ecn,
            _ => Ecn::NotEct,
        }
    }

    /// The end (flow * 2 + side) that it is addressed to, if it is.
    pub(crate) fn to(&self) -> Option<u32> {
        match self.content {
            Content::Segment(Carried { to, .. })
            | Content::Datagram { to, .. }
            | Content::Foreign { to, .. }
            | Content::Rdma(RdmaFrame { to, .. })
            | Content::Cnm(Cnm { to, .. }) => Some(to),
            Content::Pause { .. } | Content::Damaged { .. } | Content::Lost => None,
        }
    }

    /// Its rank in a pFabric queue: smaller ones go first. What is no segment has nothing behind it.
    pub(crate) fn rank(&self) -> u32 {
        if let Content::Segment(Carried { remaining, .. }) = self.content { remaining } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_packet_fits_a_cache_line() {
        assert_eq!(size_of::<super::Packet>(), 64);
    }
}
