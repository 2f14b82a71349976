//! Everything that can happen, and the written order of what happens at the same instant.
//!
//! An event is packed into one word, its kind above its index. At equal times the smaller word goes first: ports
//! finish before frames arrive, frames arrive before pauses take effect, hosts act after that, timers and new
//! flows follow, samples come last; within a kind the smaller port, host or flow goes first. Each event exists at
//! most once at a time, so this is a total order that no insertion order can disturb.

use pauseframe_units::PortId;

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A port that has more to send has finished its frame.
    TxDone(PortId),
    /// The first frame on the way from this port reaches the other end, whole.
    Arrive(PortId),
    /// A received pause frame takes effect at this port, after the reaction time.
    PauseEffect(PortId),
    /// The pause timer of this (port, class) may have run out.
    PauseExpiry(u32),
    /// The pause that we asked this (port, class) for must be renewed.
    PauseRefresh(u32),
    /// The receive side of this host's stack is through with a packet.
    HostReceive(u32),
    /// The send side of this host's stack is through with a packet.
    HostSend(u32),
    /// A deadline of this connection end (flow * 2 + side).
    Timer(u32),
    /// This workload's next flow starts.
    FlowStart(u32),
    /// This long flow stops sending.
    FlowStop(u32),
    /// A slow receiver is through with a frame of its buffer.
    HostDrain(u32),
    /// A stream's next datagram is due.
    DatagramDue(u32),
    /// A packet of a flow queue limited by QCN may go on.
    RateRelease(u32),
    /// A cycle of a QCN limiter's timer is over.
    RateTimer(u32),
    /// A link or node goes down or comes back (failure * 2, + 1 for its end).
    Failure(u32),
    /// Routing has learnt of that.
    Reroute(u32),
    /// The watchdog of this (port, class) looks at it.
    Watchdog(u32),
    /// Time to take samples: observation, outside the fingerprint.
    Sample,
    /// Time to look for deadlocks: observation as well.
    Detect,
    /// Time to look at queues and links for the log of states: observation as well.
    States,
}

const KIND_SHIFT: u32 = 32;
/// Codes from here on are observation.
pub(crate) const OBSERVATION: u64 = 63 << KIND_SHIFT;

impl Event {
    /// The word that the event queue orders by.
    #[inline]
    pub fn code(self) -> u64 {
        let (kind, index) = match self {
            Event::TxDone(port) => (0, port.0),
            Event::Arrive(port) => (1, port.0),
            Event::PauseEffect(port) => (2, port.0),
            Event::PauseExpiry(lane) => (3, lane),
            Event::PauseRefresh(lane) => (4, lane),
            Event::HostReceive(host) => (5, host),
            Event::HostSend(host) => (6, host),
            Event::Timer(end) => (7, end),
            Event::FlowStart(workload) => (8, workload),
            Event::FlowStop(flow) => (9, flow),
            Event::HostDrain(host) => (32, host),
            Event::DatagramDue(stream) => (33, stream),
            Event::RateRelease(limiter) => (34, limiter),
            Event::RateTimer(limiter) => (35, limiter),
            Event::Failure(number) => (36, number),
            Event::Reroute(number) => (37, number),
            Event::Watchdog(lane) => (38, lane),
            Event::Sample => (OBSERVATION >> KIND_SHIFT, 0),
            Event::Detect => (OBSERVATION >> KIND_SHIFT, 1),
            Event::States => (OBSERVATION >> KIND_SHIFT, 2),
        };
        kind << KIND_SHIFT | u64::from(index)
    }

    /// The event of a word that [`Event::code`] made.
    #[inline]
    pub fn from_code(code: u64) -> Event {
        let index = code as u32;
        match code >> KIND_SHIFT {
            0 => Event::TxDone(PortId(index)),
            1 => Event::Arrive(PortId(index)),
            2 => Event::PauseEffect(PortId(index)),
            3 => Event::PauseExpiry(index),
            4 => Event::PauseRefresh(index),
            5 => Event::HostReceive(index),
            6 => Event::HostSend(index),
            7 => Event::Timer(index),
            8 => Event::FlowStart(index),
            9 => Event::FlowStop(index),
            32 => Event::HostDrain(index),
            33 => Event::DatagramDue(index),
            34 => Event::RateRelease(index),
            35 => Event::RateTimer(index),
            36 => Event::Failure(index),
            37 => Event::Reroute(index),
            38 => Event::Watchdog(index),
            _ if index == 0 => Event::Sample,
            _ if index == 1 => Event::Detect,
            _ => Event::States,
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
            Event::PauseExpiry(u32::MAX),
            Event::PauseRefresh(1),
            Event::HostReceive(2),
            Event::HostSend(2),
            Event::Timer(9),
            Event::FlowStart(0),
            Event::FlowStop(4),
            Event::HostDrain(3),
            Event::DatagramDue(0),
            Event::RateRelease(1),
            Event::RateTimer(0),
            Event::Failure(1),
            Event::Reroute(1),
            Event::Watchdog(8),
            Event::Sample,
            Event::Detect,
            Event::States,
        ];
        for event in all {
            assert_eq!(Event::from_code(event.code()), event);
        }
        assert!(all.windows(2).all(|pair| pair[0].code() < pair[1].code()));
        assert!(Event::Sample.code() >= OBSERVATION && Event::Watchdog(u32::MAX).code() < OBSERVATION);
    }
}
