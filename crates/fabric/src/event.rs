//! All events, and their fixed order at equal times.
//!
//! An event is packed into one word, its kind above its index. At equal times the smaller word goes first: departures, arrivals, pause effects,
//! hosts, timers, then application orders. Within a kind the smaller port, host or flow goes first, but arrivals have random bits above their port
//! (`ties.rs`). (Failures precede all events of their instant, and samples follow them, between two windows: `network.rs`.) An event is pending at
//! most once, so the order is total and does not depend on insertion order.

use crate::ids::{HostId, NicQueueId, SlotId, SwitchId};
use pauseframe_units::PortId;

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A port with more frames to send has finished one.
    TxDone(PortId),
    /// The first frame in flight from this port has completely arrived.
    Arrive(PortId),
    /// A received pause frame takes effect at this port, after the reaction time.
    PauseEffect(PortId),
    /// The pause timer of this (port, class) may have run out.
    PauseExpiry(SlotId),
    /// The pause that this node requested from this (port, class) must be renewed.
    PauseRefresh(SlotId),
    /// The receive side of this host's stack has processed a packet.
    HostReceive(HostId),
    /// The send side of this host's stack has processed a packet.
    HostSend(HostId),
    /// A deadline of this endpoint (flow * 2 + side).
    Timer(u32),
    /// Orders of applications on this host are due, in the order in which they were given.
    Order(HostId),
    /// A slow receiver has drained a frame from its buffer.
    HostDrain(HostId),
    /// The network card of this port interrupts the CPU of its switch, a Linux machine.
    Interrupt(PortId),
    /// A rate-limited flow queue may release a packet.
    RateRelease(QcnRateLimiterId),
    /// A timer cycle of a QCN rate limiter has ended.
    RateTimer(QcnRateLimiterId),
    /// The watchdog of this (port, class) checks it.
    Watchdog(SlotId),
    /// The next frames of this storm of pause frames are due.
    PauseStorm(u32),
    /// Packets that a leaf holds for an earlier one on another path may be due.
    HoldTimer(HeldFlowId),
    /// The CPU of a Linux machine that switches has forwarded a super-packet.
    SuperPacketForwarded(SwitchId),
    /// The first packet from this port in the forwarding pipeline of its switch has passed it.
    Forward(PortId),
    /// A stack outside of the simulator acts.
    External,
}

/// Identifies a QCN rate limiter: its host and its NIC queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QcnRateLimiterId {
    /// The host.
    pub(crate) host: HostId,
    /// The queue; below 2^24.
    pub(crate) nic_queue: NicQueueId,
}

impl QcnRateLimiterId {
    const NIC_QUEUE_BITS: u32 = 24;

    /// Packs the identifier into one number.
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        debug_assert!(
            self.nic_queue.0 < 1 << Self::NIC_QUEUE_BITS,
            "a NIC has sixteen million queues at most"
        );
        u64::from(self.host.0) << Self::NIC_QUEUE_BITS | u64::from(self.nic_queue.0)
    }

    fn unpack(index: u64) -> QcnRateLimiterId {
        let queue = index & ((1 << Self::NIC_QUEUE_BITS) - 1);
        QcnRateLimiterId {
            host: HostId((index >> Self::NIC_QUEUE_BITS) as u32),
            nic_queue: NicQueueId(queue as u32),
        }
    }
}

/// Identifies a flow whose packets a leaf may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldFlowId {
    /// The leaf; below 2^24.
    pub(crate) switch: SwitchId,
    /// The end (flow * 2 + side) that the packets go to.
    pub(crate) to: u32,
}

/// The kind occupies the bits above an index of up to 56 bits.
const EVENT_KIND_SHIFT: u32 = 56;

impl Event {
    /// The code that the event queue orders by; for an arrival without tie bits.
    #[inline(always)]
    pub(crate) fn encode(self) -> u64 {
        let (kind, index) = match self {
            Event::TxDone(port) => (0, port.0),
            Event::Arrive(port) => (1, port.0),
            Event::PauseEffect(port) => (2, port.0),
            Event::PauseExpiry(slot) => (3, slot.0),
            Event::PauseRefresh(slot) => (4, slot.0),
            Event::HostReceive(host) => (5, host.0),
            Event::HostSend(host) => (6, host.0),
            Event::Timer(end) => (7, end),
            Event::Order(host) => (8, host.0),
            Event::HostDrain(host) => (32, host.0),
            Event::Interrupt(port) => (33, port.0),
            Event::RateRelease(limiter) => return 34 << EVENT_KIND_SHIFT | limiter.pack(),
            Event::RateTimer(limiter) => return 35 << EVENT_KIND_SHIFT | limiter.pack(),
            Event::Watchdog(slot) => (36, slot.0),
            Event::PauseStorm(number) => (37, number),
            Event::HoldTimer(HeldFlowId { switch, to }) => {
                debug_assert!(switch.0 < 1 << 24, "a network has sixteen million switches at most");
                return 38 << EVENT_KIND_SHIFT | u64::from(switch.0) << 32 | u64::from(to);
            }
            Event::SuperPacketForwarded(switch) => (39, switch.0),
            Event::Forward(port) => (40, port.0),
            Event::External => (41, 0),
        };
        kind << EVENT_KIND_SHIFT | u64::from(index)
    }

    /// The code of [`Event::Arrive`] with tie bits between ports (`ties.rs`) in bits 32 to 55.
    #[inline(always)]
    pub(crate) fn encode_arrival(port: PortId, tie: u64) -> u64 {
        debug_assert_eq!(tie & !(0xff_ffff << 32), 0, "a tie is between kind and port");
        Event::Arrive(port).encode() | tie
    }

    /// The endpoint key, if it is a deadline of an endpoint.
    #[inline(always)]
    pub(crate) fn decode_timer(code: u64) -> Option<u32> {
        (code >> EVENT_KIND_SHIFT == Event::Timer(0).encode() >> EVENT_KIND_SHIFT).then_some(code as u32)
    }

    /// Decodes the event if it is a departure or an arrival, the two events of every hop.
    #[inline(always)]
    pub(crate) fn decode_port_event(code: u64) -> Option<Event> {
        match code >> EVENT_KIND_SHIFT {
            0 => Some(Event::TxDone(PortId(code as u32))),
            1 => Some(Event::Arrive(PortId(code as u32))),
            _ => None,
        }
    }

    /// Whether it is a departure, whether it is an arrival, and its port, without a branch.
    #[inline(always)]
    pub(crate) fn decode_port_branchless(code: u64) -> (bool, bool, PortId) {
        let kind = code >> EVENT_KIND_SHIFT;
        (kind == 0, kind == 1, PortId(code as u32))
    }

    /// Decodes a code of [`Event::encode`].
    #[inline(always)]
    pub(crate) fn decode(code: u64) -> Event {
        let index = code as u32;
        match code >> EVENT_KIND_SHIFT {
            0 => Event::TxDone(PortId(index)),
            1 => Event::Arrive(PortId(index)),
            2 => Event::PauseEffect(PortId(index)),
            3 => Event::PauseExpiry(SlotId(index)),
            4 => Event::PauseRefresh(SlotId(index)),
            5 => Event::HostReceive(HostId(index)),
            6 => Event::HostSend(HostId(index)),
            7 => Event::Timer(index),
            8 => Event::Order(HostId(index)),
            32 => Event::HostDrain(HostId(index)),
            33 => Event::Interrupt(PortId(index)),
            34 => Event::RateRelease(QcnRateLimiterId::unpack(code & ((1 << EVENT_KIND_SHIFT) - 1))),
            35 => Event::RateTimer(QcnRateLimiterId::unpack(code & ((1 << EVENT_KIND_SHIFT) - 1))),
            36 => Event::Watchdog(SlotId(index)),
            37 => Event::PauseStorm(index),
            38 => {
                Event::HoldTimer(HeldFlowId { switch: SwitchId((code >> 32) as u32 & 0xff_ffff), to: index })
            }
            39 => Event::SuperPacketForwarded(SwitchId(index)),
            40 => Event::Forward(PortId(index)),
            _ => Event::External,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_departures_come_first() {
        let all = [
            Event::TxDone(PortId(7)),
            Event::Arrive(PortId(0)),
            Event::PauseEffect(PortId(3)),
            Event::PauseExpiry(SlotId(u32::MAX)),
            Event::PauseRefresh(SlotId(1)),
            Event::HostReceive(HostId(2)),
            Event::HostSend(HostId(2)),
            Event::Timer(9),
            Event::Order(HostId(4)),
            Event::HostDrain(HostId(3)),
            Event::Interrupt(PortId(4)),
            Event::RateRelease(QcnRateLimiterId { host: HostId(u32::MAX), nic_queue: NicQueueId(7) }),
            Event::RateTimer(QcnRateLimiterId { host: HostId(0), nic_queue: NicQueueId((1 << 24) - 1) }),
            Event::Watchdog(SlotId(8)),
            Event::PauseStorm(1),
            Event::HoldTimer(HeldFlowId { switch: SwitchId((1 << 24) - 1), to: u32::MAX }),
            Event::SuperPacketForwarded(SwitchId(2)),
            Event::Forward(PortId(6)),
            Event::External,
        ];
        for event in all {
            assert_eq!(Event::decode(event.encode()), event);
        }
        assert!(all.windows(2).all(|pair| pair[0].encode() < pair[1].encode()));
        let late = Event::encode_arrival(PortId(3), 0xff_ffff << 32);
        assert_eq!(
            (Event::decode(late), Event::decode_port_event(late)),
            (Event::Arrive(PortId(3)), Some(Event::Arrive(PortId(3))))
        );
        assert_eq!(Event::decode_port_branchless(late), (false, true, PortId(3)));
        assert!(
            Event::TxDone(PortId(u32::MAX)).encode() < late && late < Event::PauseEffect(PortId(0)).encode()
        );
    }
}
