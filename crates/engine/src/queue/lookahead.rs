//! The next events in order, taken from their buckets before their turn, so that a model can see what comes.
//!
//! All of them are earlier than what is left in the buckets. So an event belongs here if it is earlier than the last one in line; as that
//! came from the open bucket or one before, a push to any bucket behind needs no look at the line. A queue is emptied either by way of its
//! line or without one, not in turn.

use super::{Entry, EventQueue, MASK, NIL, Node, REVIEW_EVERY};
use crate::memory::{get_or_first, prefetch_line, prefetch_or_first};
use pauseframe_units::Time;

/// Maximum number of events in the lookahead buffer.
const CAPACITY: usize = 128;

/// Events in order, earliest first.
#[derive(Debug)]
pub(super) struct Lookahead {
    /// Those that have left stand before the first until the line is filled up.
    entries: Vec<Entry>,
    first: usize,
}

impl Lookahead {
    pub(super) fn new() -> Lookahead {
        Lookahead { entries: Vec::with_capacity(2 * CAPACITY), first: 0 }
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.get(self.first)
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&Entry> {
        self.entries[self.first..].last()
    }

    #[inline(always)]
    fn length(&self) -> usize {
        self.entries.len() - self.first
    }

    /// Whether `entry` belongs into the lookahead buffer.
    #[inline]
    pub(super) fn covers(&self, entry: Entry) -> bool {
        self.last().is_some_and(|last| entry.key() < last.key())
    }

    /// Lets an event in that is earlier than the last one; that has to leave if the line is too long for both.
    pub(super) fn insert(&mut self, entry: Entry) -> Option<Entry> {
        let leaves = if self.length() >= CAPACITY { self.entries.pop() } else { None };
        let waiting = &self.entries[self.first..];
        let sooner = waiting.iter().rev().skip_while(|other| entry.key() < other.key()).count();
        self.entries.insert(self.first + sooner, entry);
        leaves
    }
}

impl EventQueue {
    /// Lets the next events stand in line, `wanted` of them at least, up to 64; false if there are not so many.
    #[inline(always)]
    pub fn fill_lookahead(&mut self, wanted: usize) -> bool {
        self.lookahead.length() >= wanted || self.refill_lookahead(wanted)
    }

    #[inline(never)]
    fn refill_lookahead(&mut self, wanted: usize) -> bool {
        if self.lookahead.first >= CAPACITY {
            self.lookahead.entries.drain(..self.lookahead.first);
            self.lookahead.first = 0;
        }
        while self.lookahead.length() < wanted {
            let near = self.next_occupied();
            if !self.open.is_empty() {
                // What is in order already.
                let later = self.open.len().saturating_sub(CAPACITY / 2);
                self.lookahead.entries.extend(self.open.drain(later..).rev());
            } else if near < self.far_bucket {
                self.take_bucket(near);
            } else {
                // What waits in the heap is looked at when its turn has come.
                if self.lookahead.length() > 0 {
                    return false;
                }
                let Some(entry) = self.open_far(near) else { return false };
                self.lookahead.entries.push(entry);
            }
        }
        true
    }

    /// Opens a bucket and lets all of it stand in line, in order.
    #[inline(always)]
    fn take_bucket(&mut self, bucket: u64) {
        self.open_bucket = bucket;
        let count = self.take_bucket_sorted(bucket);
        self.long += 1;
        self.gathered += count as u32;
        if self.pushed >= REVIEW_EVERY {
            self.review_width();
        }
        self.prefetch_next_buckets();
    }

    /// Lets its list stand in line, in order, or of a crowd what comes next; how many there are.
    #[inline(always)]
    fn take_bucket_sorted(&mut self, bucket: u64) -> usize {
        let slot = (bucket & MASK) as usize;
        let before = self.lookahead.entries.len();
        let (mut index, mut last) = (self.heads[slot], NIL);
        while let Some(Node { entry, next }) = self.nodes.get(index as usize) {
            self.lookahead.entries.push(*entry);
            (last, index) = (index, *next);
        }
        let count = self.lookahead.entries.len() - before;
        if count > CAPACITY / 2 {
            self.open.extend(self.lookahead.entries.drain(before..));
            self.sort_open();
        } else {
            self.lookahead.entries[before..].sort_unstable_by_key(|entry| entry.key());
        }
        self.take_list(slot, last);
        count
    }

    /// The codes of events in line, each so many places behind the first; none if fewer stand there than the first of these places says,
    /// which is the largest.
    #[inline(always)]
    pub fn upcoming<const PLACES: usize>(&self, places: [usize; PLACES]) -> Option<[u64; PLACES]> {
        let waiting = self.lookahead.entries.get(self.lookahead.first..)?.get(..=places[0])?;
        Some(places.map(|place| waiting[place].code))
    }

    /// Takes the first event in line if it is before `end`.
    #[inline(always)]
    pub fn pop_lookahead(&mut self, end: Time) -> Option<(Time, u64)> {
        if !self.fill_lookahead(1) {
            return None;
        }
        let entry = *self.lookahead.first()?;
        if entry.time >= end.0 {
            return None;
        }
        self.lookahead.first += 1;
        self.now = entry.time;
        Some((Time(entry.time), entry.code))
    }

    /// In a large network the nodes of a list lie in far memory, and each names the next: one is fetched each time, so that they are near
    /// when the bucket is opened.
    #[inline(always)]
    pub fn prefetch_bucket_nodes<const LISTS: usize>(&mut self) {
        for next_node in &mut self.next_nodes[..LISTS] {
            if let Some(node) = get_or_first(&self.nodes, *next_node as usize) {
                *next_node = node.next;
                prefetch_or_first(&self.nodes, node.next as usize);
            }
        }
    }

    /// One to each of the next two buckets; where the second was, the first goes on.
    #[inline(always)]
    fn prefetch_next_buckets(&mut self) {
        let open = self.open_bucket;
        self.open_bucket = self.next_occupied().wrapping_add(1);
        let second = if self.open_bucket == 0 { 0 } else { self.next_occupied() };
        self.open_bucket = open;
        let head = self.heads[(second & MASK) as usize];
        self.next_nodes = [self.next_nodes[1], head];
        prefetch_line(self.nodes.get(head as usize));
    }
}
