//! `ConWeave` at the leaf of the sender: it asks for a reply once an epoch and leaves the path if the reply is late.

use crate::frame::PathControlKind;
use crate::frame::path_tag::{LeafPath, PathMark, PathTag};
use pauseframe_units::{NodeId, Span, Time};

/// What the first leaf knows of the packets to one endpoint.
#[derive(Debug)]
pub(super) struct SourceFlow {
    path: LeafPath,
    epoch: Time,
    /// When its last packet came.
    pub(super) last: Time,
    /// When the reply is late; `None`: nothing is awaited, or its lateness has been acted on.
    reply_by: Option<Time>,
    /// The tail of this epoch has left.
    is_rerouted: bool,
    tail: Time,
    /// The next packet begins an epoch on the same path.
    is_settled: bool,
}

impl SourceFlow {
    pub(super) fn new(path: LeafPath) -> SourceFlow {
        let (epoch, last, tail) = (Time::ZERO, Time::ZERO, Time::ZERO);
        SourceFlow { path, epoch, last, reply_by: None, is_rerouted: false, tail, is_settled: true }
    }

    pub(super) fn path(&self) -> &LeafPath {
        &self.path
    }

    /// Whether the gap before a packet at `now` begins an epoch, on any path.
    pub(super) fn is_idle(&self, now: Time, idle: Span) -> bool {
        self.epoch > Time::ZERO && self.last + idle < now
    }

    /// Takes a path without a tail on the old one; whether it is another.
    pub(super) fn move_to(&mut self, path: LeafPath) -> bool {
        self.is_settled = true;
        std::mem::replace(&mut self.path, path) != path
    }

    /// The tag of a packet that goes on at `now`. `draw`: a path that is not known to be busy; `reply_time`: when the reply to a packet on a
    /// path is late. Also whether later packets take another path.
    pub(super) fn tag_packet(
        &mut self,
        now: Time,
        from: NodeId,
        draw: impl FnOnce() -> Option<LeafPath>,
        reply_time: impl FnOnce(&LeafPath) -> Span,
    ) -> (PathTag, bool) {
        self.last = now;
        let mut is_rerouted = false;
        let mut tag = PathTag {
            path: self.path,
            epoch: self.epoch,
            sent: now,
            tail: self.tail,
            from,
            mark: PathMark::None,
            rerouted: self.is_rerouted,
        };
        if std::mem::take(&mut self.is_settled) {
            (self.epoch, self.is_rerouted, self.tail) = (now, false, Time::ZERO);
            self.reply_by = Some(now + reply_time(&self.path));
            tag = PathTag { epoch: now, tail: Time::ZERO, mark: PathMark::Request, rerouted: false, ..tag };
        } else if self.reply_by.is_some_and(|by| by < now) {
            (self.reply_by, self.is_rerouted, self.tail) = (None, true, now);
            tag = PathTag { tail: now, mark: PathMark::Tail, ..tag };
            if let Some(path) = draw().filter(|path| *path != self.path) {
                (self.path, is_rerouted) = (path, true);
            }
        }
        (tag, is_rerouted)
    }

    /// A control frame about this flow has come, with what the last leaf returned of a tag.
    pub(super) fn on_control(&mut self, kind: PathControlKind, tag: &PathTag, now: Time) {
        let settles = match kind {
            PathControlKind::Reply => !self.is_rerouted && self.reply_by.is_some_and(|by| now < by),
            PathControlKind::Clear => self.is_rerouted,
            PathControlKind::Busy => false,
        };
        if settles && tag.epoch == self.epoch {
            (self.is_settled, self.reply_by) = (true, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::path_tag::PATH_PORTS_MAX;
    use pauseframe_units::PortId;

    const FROM: NodeId = NodeId(0);
    const OLD: LeafPath = [PortId(1); PATH_PORTS_MAX];
    const NEW: LeafPath = [PortId(2); PATH_PORTS_MAX];

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn tag(flow: &mut SourceFlow, us: u64, draw: Option<LeafPath>) -> PathTag {
        flow.tag_packet(at(us), FROM, || draw, |_| Span::from_us(10)).0
    }

    #[test]
    fn a_late_reply_leaves_one_tail_on_the_old_path() {
        let mut flow = SourceFlow::new(OLD);
        let first = tag(&mut flow, 1, Some(NEW));
        assert_eq!((first.mark, first.path, first.epoch), (PathMark::Request, OLD, at(1)));
        assert_eq!(tag(&mut flow, 11, Some(NEW)).mark, PathMark::None, "due at 11 us, not before");
        let tail = tag(&mut flow, 12, Some(NEW));
        assert_eq!((tail.mark, tail.path, tail.rerouted, tail.tail), (PathMark::Tail, OLD, false, at(12)));
        flow.on_control(PathControlKind::Reply, &first, at(13));
        let next = tag(&mut flow, 14, Some(OLD));
        assert_eq!((next.mark, next.path, next.rerouted, next.tail), (PathMark::None, NEW, true, at(12)));
        assert_eq!(tag(&mut flow, 99, Some(OLD)).path, NEW, "once an epoch");
        flow.on_control(PathControlKind::Clear, &next, at(99));
        let second = tag(&mut flow, 100, Some(OLD));
        assert_eq!((second.mark, second.path, second.rerouted), (PathMark::Request, NEW, false));
        assert_eq!(second.epoch, at(100));
    }

    #[test]
    fn a_reply_in_time_keeps_the_path_and_one_of_another_epoch_does_nothing() {
        let mut flow = SourceFlow::new(OLD);
        let first = tag(&mut flow, 1, None);
        let stale = PathTag { epoch: at(0), ..first };
        flow.on_control(PathControlKind::Reply, &stale, at(5));
        assert_eq!(tag(&mut flow, 6, None).mark, PathMark::None);
        flow.on_control(PathControlKind::Clear, &first, at(6));
        assert_eq!(tag(&mut flow, 7, None).mark, PathMark::None, "there was no tail");
        flow.on_control(PathControlKind::Reply, &first, at(8));
        assert_eq!(tag(&mut flow, 9, None).mark, PathMark::Request);
    }

    #[test]
    fn without_a_good_path_the_tail_is_followed_on_the_old_one() {
        let mut flow = SourceFlow::new(OLD);
        tag(&mut flow, 1, None);
        assert_eq!(tag(&mut flow, 20, None).mark, PathMark::Tail);
        let next = tag(&mut flow, 21, None);
        assert_eq!((next.path, next.rerouted), (OLD, true));
    }

    #[test]
    fn a_gap_counts_from_the_last_packet() {
        let mut flow = SourceFlow::new(OLD);
        assert!(!flow.is_idle(at(500), Span::from_us(300)), "it has not sent yet");
        tag(&mut flow, 500, None);
        assert!(!flow.is_idle(at(800), Span::from_us(300)));
        assert!(flow.is_idle(at(801), Span::from_us(300)));
        assert!(flow.move_to(NEW) && !flow.move_to(NEW));
        assert_eq!(tag(&mut flow, 801, None).mark, PathMark::Request);
    }
}
