//! Matches messages with receives as MPI defines it (MPI 4.0 §3.5): communicator, source and tag must agree,
//! messages of one sender do not overtake each other, a message matches the receive that was posted first,
//! and a receive matches the message that arrived first.

use std::collections::{BTreeMap, VecDeque};

/// The messages that a receive accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// World rank of the sender; `None` for any sender.
    pub(super) from: Option<u32>,
    /// Tag; `None` for any tag.
    pub(super) tag: Option<i32>,
    /// Context: the communicator, and whether the traffic is collective.
    pub(super) context: u32,
}

impl Wanted {
    fn takes_tag(&self, tag: i32) -> bool {
        self.tag.is_none_or(|wanted| wanted == tag)
    }
}

/// Queues by (context, source), in the order of their sequence numbers.
type Lines<T> = BTreeMap<(u32, u32), VecDeque<(u64, T)>>;

/// Receives that wait for a message, and messages that wait for a receive; `M` is the type of a message.
#[derive(Debug)]
pub(super) struct Matching<M> {
    /// Receives from a specific source: (tag, request).
    posted: Lines<(Option<i32>, u32)>,
    /// Receives from any source.
    posted_any: VecDeque<(u64, Wanted, u32)>,
    /// Messages that arrived before their receive: (tag, message).
    early: Lines<(i32, M)>,
    /// Sequence number for receives and messages.
    count: u64,
}

impl<M> Default for Matching<M> {
    fn default() -> Self {
        let (posted, early) = (BTreeMap::new(), BTreeMap::new());
        Matching { posted, posted_any: VecDeque::new(), early, count: 0 }
    }
}

impl<M> Matching<M> {
    /// Takes the message that matches a new receive, if one has arrived.
    pub(super) fn take_early(&mut self, wanted: Wanted) -> Option<M> {
        let key = match wanted.from {
            Some(from) => (wanted.context, from),
            None => self.first_from_any(wanted)?,
        };
        let line = self.early.get_mut(&key)?;
        let at = line.iter().position(|&(_, (tag, _))| wanted.takes_tag(tag))?;
        let taken = line.remove(at);
        if line.is_empty() {
            self.early.remove(&key);
        }
        taken.map(|(_, (_, message))| message)
    }

    /// The queue whose first message arrived first among the messages that a receive from any source accepts.
    fn first_from_any(&self, wanted: Wanted) -> Option<(u32, u32)> {
        let of_context = (wanted.context, 0)..=(wanted.context, u32::MAX);
        let first = |line: &VecDeque<(u64, (i32, M))>| {
            line.iter().find(|&&(_, (tag, _))| wanted.takes_tag(tag)).map(|&(count, _)| count)
        };
        let lines = self.early.range(of_context);
        lines.filter_map(|(&key, line)| Some((first(line)?, key))).min().map(|(_, key)| key)
    }

    /// Stores a receive for which no message has arrived.
    pub(super) fn post(&mut self, wanted: Wanted, request: u32) {
        self.count += 1;
        match wanted.from {
            Some(from) => {
                let line = self.posted.entry((wanted.context, from)).or_default();
                line.push_back((self.count, (wanted.tag, request)));
            }
            None => self.posted_any.push_back((self.count, wanted, request)),
        }
    }

    /// Takes the receive that matches an arriving message, if one waits.
    pub(super) fn take_posted(&mut self, context: u32, from: u32, tag: i32) -> Option<u32> {
        let named = self.posted.get(&(context, from)).and_then(|line| {
            let takes =
                |&(_, (wanted, _)): &(u64, (Option<i32>, u32))| wanted.is_none_or(|wanted| wanted == tag);
            line.iter().position(takes).map(|at| (line[at].0, at))
        });
        let takes = |(_, wanted, _): &(u64, Wanted, u32)| wanted.context == context && wanted.takes_tag(tag);
        let any = self.posted_any.iter().position(takes).map(|at| (self.posted_any[at].0, at));
        match (named, any) {
            (None, None) => None,
            (Some((named, _)), Some((any, at))) if any < named => self.take_any(at),
            (None, Some((_, at))) => self.take_any(at),
            (Some((_, at)), _) => {
                let line = self.posted.get_mut(&(context, from))?;
                let taken = line.remove(at);
                if line.is_empty() {
                    self.posted.remove(&(context, from));
                }
                taken.map(|(_, (_, request))| request)
            }
        }
    }

    fn take_any(&mut self, at: usize) -> Option<u32> {
        self.posted_any.remove(at).map(|(_, _, request)| request)
    }

    /// Stores a message that no receive accepts yet.
    pub(super) fn keep(&mut self, context: u32, from: u32, tag: i32, message: M) {
        self.count += 1;
        self.early.entry((context, from)).or_default().push_back((self.count, (tag, message)));
    }

    /// Messages that no receive has accepted.
    pub(super) fn unreceived(&self) -> impl Iterator<Item = &M> {
        self.early.values().flatten().map(|(_, (_, message))| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn wanted(from: Option<u32>, tag: Option<i32>) -> Wanted {
        Wanted { from, tag, context: 0 }
    }

    #[test]
    fn a_message_takes_the_receive_posted_first_whether_it_names_its_source_or_not() {
        let mut matching: Matching<()> = Matching::default();
        matching.post(wanted(Some(3), Some(7)), 0);
        matching.post(wanted(None, Some(7)), 1);
        matching.post(wanted(Some(3), None), 2);
        assert_eq!(matching.take_posted(0, 4, 7), Some(1));
        assert_eq!(matching.take_posted(0, 3, 8), Some(2));
        assert_eq!(matching.take_posted(1, 3, 7), None, "another communicator");
        assert_eq!(matching.take_posted(0, 3, 7), Some(0));
        assert_eq!(matching.take_posted(0, 3, 7), None);
    }

    #[test]
    fn a_receive_takes_the_message_that_came_first() {
        let mut matching = Matching::default();
        for (from, tag, message) in [(5, 1, 'a'), (2, 9, 'b'), (2, 1, 'c'), (5, 1, 'd')] {
            matching.keep(0, from, tag, message);
        }
        assert_eq!(matching.take_early(wanted(None, Some(9))), Some('b'));
        assert_eq!(matching.take_early(wanted(None, None)), Some('a'));
        assert_eq!(matching.take_early(wanted(Some(5), Some(2))), None);
        assert_eq!(matching.take_early(wanted(None, Some(1))), Some('c'));
        assert_eq!(matching.take_early(wanted(Some(5), None)), Some('d'));
        assert_eq!(matching.unreceived().count(), 0);
    }
}
