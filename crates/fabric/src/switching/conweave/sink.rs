//! `ConWeave` at the leaf of the receiver: it holds packets of the new path until the last one of the old path has come.

use crate::frame::PacketFifo;
use crate::frame::path_tag::{PathMark, PathTag};
use crate::settings::ConWeaveSettings;
use pauseframe_units::{PortId, Time};

/// What the last leaf knows of the packets to one endpoint.
#[derive(Debug)]
pub(super) struct SinkFlow {
    epoch: Time,
    /// When its last packet came.
    pub(super) last: Time,
    /// The tail of this epoch has come, or is no longer waited for.
    is_past_tail: bool,
    /// When the last packet of the old path left the first leaf, and when it came.
    before: Option<(Time, Time)>,
    /// When the tail left the first leaf.
    tail: Time,
    pub(super) held: HeldPackets,
    /// When the newest packet that was passed on left the first leaf.
    newest: Time,
    /// The earliest pending timer.
    pub(super) timer: Option<Time>,
}

/// The packets that a leaf holds for one flow.
#[derive(Debug)]
pub(super) struct HeldPackets {
    pub(super) fifo: PacketFifo,
    /// The port to the receiver.
    pub(super) port: PortId,
    pub(super) packets: u64,
    /// When the first came, and when they go on at the latest.
    pub(super) since: Time,
    pub(super) until: Time,
}

/// What happens to a packet at the last leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// It goes on.
    Pass,
    /// It is the tail: it goes on, and then all that is held.
    Tail,
    /// It is held.
    Hold,
}

impl SinkFlow {
    pub(super) fn new(port: PortId) -> SinkFlow {
        let held =
            HeldPackets { fifo: PacketFifo::EMPTY, port, packets: 0, since: Time::ZERO, until: Time::ZERO };
        SinkFlow {
            epoch: Time::ZERO,
            last: Time::ZERO,
            is_past_tail: false,
            before: None,
            tail: Time::ZERO,
            held,
            newest: Time::ZERO,
            timer: None,
        }
    }

    pub(super) fn holds_packets(&self) -> bool {
        !self.held.fifo.is_empty()
    }

    /// Whether packets of an epoch before that of `tag` are held.
    pub(super) fn holds_earlier_epoch(&self, tag: &PathTag) -> bool {
        self.holds_packets() && tag.epoch > self.epoch
    }

    /// A packet has come, and no packet of an earlier epoch is held: what becomes of it.
    pub(super) fn on_packet(&mut self, tag: &PathTag, now: Time, settings: &ConWeaveSettings) -> Arrival {
        self.last = now;
        if tag.epoch < self.epoch {
            return Arrival::Pass;
        }
        if tag.epoch > self.epoch {
            (self.epoch, self.is_past_tail, self.before) = (tag.epoch, false, None);
        }
        if tag.rerouted || tag.mark == PathMark::Tail {
            self.tail = tag.tail;
        }
        if !tag.rerouted {
            self.before = Some((tag.sent, now));
            if tag.mark == PathMark::Tail {
                self.is_past_tail = true;
                return Arrival::Tail;
            }
            if self.holds_packets() {
                self.held.until = self.expected_tail(now, settings);
            }
            return Arrival::Pass;
        }
        if self.is_past_tail {
            return Arrival::Pass;
        }
        if !self.holds_packets() {
            (self.held.since, self.held.until) = (now, self.expected_tail(now, settings));
        }
        Arrival::Hold
    }

    /// When the tail should have come: as long after the last packet of the old path as it left the first leaf after that, and the slack.
    fn expected_tail(&self, now: Time, settings: &ConWeaveSettings) -> Time {
        let tail = match self.before {
            Some((sent, came)) => came + self.tail.saturating_since(sent),
            None => now + settings.blind_wait,
        };
        now.max(tail + settings.tail_slack)
    }

    /// The tail is no longer waited for.
    pub(super) fn give_up_tail(&mut self) {
        self.is_past_tail = true;
    }

    /// Counts a packet as passed on; true if one that left the first leaf later already was.
    pub(super) fn passes_late(&mut self, tag: &PathTag) -> bool {
        let late = tag.sent < self.newest;
        self.newest = self.newest.max(tag.sent);
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::path_tag::PATH_PORTS_MAX;
    use crate::frame::{FrameContent, Packet, PacketPool};
    use pauseframe_units::{NodeId, Priority, Span};

    const SETTINGS: ConWeaveSettings = ConWeaveSettings {
        reply_slack: Span::from_us(4),
        path_busy: Span::from_us(16),
        idle: Span::from_us(300),
        tail_slack: Span::from_us(16),
        blind_wait: Span::from_us(200),
        hold_queues: 9,
        control_priority: Priority::new(7).unwrap(),
    };

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn packet(epoch: u64, sent: u64, mark: PathMark, rerouted: bool) -> PathTag {
        let (path, tail) = ([PortId::NONE; PATH_PORTS_MAX], at(if rerouted { 20 } else { 0 }));
        let tail = if mark == PathMark::Tail { at(sent) } else { tail };
        PathTag { path, epoch: at(epoch), sent: at(sent), tail, from: NodeId(0), mark, rerouted }
    }

    /// A flow that holds a packet from 25 us on; its last packet on the old path left at 10 us and came at 22 us.
    fn holding() -> SinkFlow {
        let mut pool = PacketPool::new();
        let mut sink = SinkFlow::new(PortId(0));
        assert_eq!(
            sink.on_packet(&packet(1, 10, PathMark::Request, false), at(22), &SETTINGS),
            Arrival::Pass
        );
        assert_eq!(sink.on_packet(&packet(1, 21, PathMark::None, true), at(25), &SETTINGS), Arrival::Hold);
        let index = pool.insert(Packet::new(FrameContent::Lost, 64, 0));
        sink.held.fifo.push_back(&mut pool, index);
        sink
    }

    #[test]
    fn new_path_waits_for_tail() {
        let mut sink = holding();
        // The tail left 10 us after the packet that came at 22 us.
        assert_eq!((sink.held.since, sink.held.until), (at(25), at(22 + 10 + 16)));
        assert_eq!(sink.on_packet(&packet(1, 12, PathMark::None, false), at(30), &SETTINGS), Arrival::Pass);
        assert_eq!(sink.held.until, at(30 + 8 + 16), "each packet of the old path gives a new estimate");
        assert_eq!(sink.on_packet(&packet(1, 20, PathMark::Tail, false), at(33), &SETTINGS), Arrival::Tail);
        assert_eq!(sink.on_packet(&packet(1, 22, PathMark::None, true), at(34), &SETTINGS), Arrival::Pass);
    }

    #[test]
    fn nothing_is_held_after_the_timer() {
        let mut sink = holding();
        sink.give_up_tail();
        assert_eq!(sink.on_packet(&packet(1, 22, PathMark::None, true), at(50), &SETTINGS), Arrival::Pass);
        assert!(!sink.passes_late(&packet(1, 22, PathMark::None, true)));
        assert!(sink.passes_late(&packet(1, 20, PathMark::Tail, false)), "the tail is late now");
    }

    #[test]
    fn without_a_packet_of_the_old_path_the_wait_is_blind() {
        let mut sink = SinkFlow::new(PortId(0));
        assert_eq!(sink.on_packet(&packet(1, 21, PathMark::None, true), at(25), &SETTINGS), Arrival::Hold);
        assert_eq!(sink.held.until, at(25 + 200 + 16));
    }

    #[test]
    fn epochs_are_told_apart() {
        let mut sink = holding();
        assert!(sink.holds_earlier_epoch(&packet(2, 30, PathMark::Request, false)));
        assert!(!sink.holds_earlier_epoch(&packet(1, 30, PathMark::None, false)));
        sink.held.fifo = PacketFifo::EMPTY;
        assert_eq!(
            sink.on_packet(&packet(2, 30, PathMark::Request, false), at(40), &SETTINGS),
            Arrival::Pass
        );
        assert_eq!(sink.on_packet(&packet(1, 23, PathMark::None, true), at(41), &SETTINGS), Arrival::Pass);
        assert_eq!(sink.on_packet(&packet(2, 31, PathMark::None, true), at(42), &SETTINGS), Arrival::Hold);
    }
}
