//! The lookahead buffer: the next events in order, taken from their buckets early, so that a model can prefetch for them.
//!
//! All of them are earlier than the events left in the buckets. So a new event belongs here if it is earlier than the last one in the buffer. That
//! one came from the open bucket or an earlier one, so a push to a later bucket need not check the buffer. Do not mix draining with and without the
//! buffer.

use super::{BUCKET_MASK, BucketListNode, EventQueue, NIL_NODE, PendingEvent, WIDTH_REVIEW_INTERVAL};
use crate::memory::{element_or_first, prefetch_element_or_first, prefetch_first_line};
use pauseframe_units::Time;

/// Maximum number of events in the lookahead buffer.
const LOOKAHEAD_CAPACITY: usize = 128;

/// Events in order, earliest first.
#[derive(Debug)]
pub(super) struct LookaheadBuffer {
    /// Entries before `first` have been taken; the next refill removes them.
    entries: Vec<PendingEvent>,
    first: usize,
}

impl LookaheadBuffer {
    pub(super) fn new() -> LookaheadBuffer {
        LookaheadBuffer { entries: Vec::with_capacity(2 * LOOKAHEAD_CAPACITY), first: 0 }
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<&PendingEvent> {
        self.entries.get(self.first)
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&PendingEvent> {
        self.entries[self.first..].last()
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.entries.len() - self.first
    }

    /// Whether `entry` belongs into the lookahead buffer.
    #[inline]
    pub(super) fn covers(&self, entry: PendingEvent) -> bool {
        self.last().is_some_and(|last| entry.sort_key() < last.sort_key())
    }

    /// Inserts an event that is earlier than the last one. Returns the last one if the buffer is full.
    pub(super) fn insert(&mut self, entry: PendingEvent) -> Option<PendingEvent> {
        let leaves = if self.len() >= LOOKAHEAD_CAPACITY { self.entries.pop() } else { None };
        let waiting = &self.entries[self.first..];
        let sooner = waiting.iter().rev().skip_while(|other| entry.sort_key() < other.sort_key()).count();
        self.entries.insert(self.first + sooner, entry);
        leaves
    }
}

impl EventQueue {
    /// Fills the buffer with the next events, at least `wanted` (up to 64); false if fewer are pending.
    #[inline(always)]
    pub fn fill_lookahead(&mut self, wanted: usize) -> bool {
        self.lookahead.len() >= wanted || self.refill_lookahead(wanted)
    }

    #[inline(never)]
    fn refill_lookahead(&mut self, wanted: usize) -> bool {
        if self.lookahead.first >= LOOKAHEAD_CAPACITY {
            self.lookahead.entries.drain(..self.lookahead.first);
            self.lookahead.first = 0;
        }
        while self.lookahead.len() < wanted {
            let near = self.next_occupied();
            if !self.open.is_empty() {
                // Events that are sorted already.
                let later = self.open.len().saturating_sub(LOOKAHEAD_CAPACITY / 2);
                self.lookahead.entries.extend(self.open.drain(later..).rev());
            } else if near < self.far_bucket {
                self.move_bucket_to_lookahead(near);
            } else {
                // Events in the heap stay there until they are due.
                if self.lookahead.len() > 0 {
                    return false;
                }
                let Some(entry) = self.open_from_heap(near) else { return false };
                self.lookahead.entries.push(entry);
            }
        }
        true
    }

    /// Opens a bucket and moves all its events to the buffer, in order.
    #[inline(always)]
    fn move_bucket_to_lookahead(&mut self, bucket: u64) {
        self.open_bucket = bucket;
        let count = self.move_sorted_to_lookahead(bucket);
        self.long += 1;
        self.gathered += count as u32;
        if self.pushed >= WIDTH_REVIEW_INTERVAL {
            self.adapt_width();
        }
        self.prefetch_next_buckets();
    }

    /// Moves the bucket's list to the buffer in order (of a crowded bucket only the next events); returns their number.
    #[inline(always)]
    fn move_sorted_to_lookahead(&mut self, bucket: u64) -> usize {
        let slot = (bucket & BUCKET_MASK) as usize;
        let before = self.lookahead.entries.len();
        let (mut index, mut last) = (self.heads[slot], NIL_NODE);
        while let Some(BucketListNode { entry, next }) = self.nodes.get(index as usize) {
            self.lookahead.entries.push(*entry);
            (last, index) = (index, *next);
        }
        let count = self.lookahead.entries.len() - before;
        if count > LOOKAHEAD_CAPACITY / 2 {
            self.open.extend(self.lookahead.entries.drain(before..));
            self.sort_open();
        } else {
            self.lookahead.entries[before..].sort_unstable_by_key(|entry| entry.sort_key());
        }
        self.free_list(slot, last);
        count
    }

    /// The codes of the events at these positions in the buffer; `None` if the buffer does not reach the first position, which is the largest.
    #[inline(always)]
    pub fn upcoming_codes<const PLACES: usize>(&self, places: [usize; PLACES]) -> Option<[u64; PLACES]> {
        let waiting = self.lookahead.entries.get(self.lookahead.first..)?.get(..=places[0])?;
        Some(places.map(|place| waiting[place].code))
    }

    /// Takes the first event of the buffer if it is before `end`.
    #[inline(always)]
    pub fn pop_lookahead_before(&mut self, end: Time) -> Option<(Time, u64)> {
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

    /// In a large network list nodes miss the cache, and each names the next. Each call prefetches one node, so that all are cached when the bucket
    /// is opened.
    #[inline(always)]
    pub fn prefetch_list_nodes<const LISTS: usize>(&mut self) {
        for next_node in &mut self.next_nodes[..LISTS] {
            if let Some(node) = element_or_first(&self.nodes, *next_node as usize) {
                *next_node = node.next;
                prefetch_element_or_first(&self.nodes, node.next as usize);
            }
        }
    }

    /// Starts one list walk for each of the next two buckets; the first walk continues where the second was.
    #[inline(always)]
    fn prefetch_next_buckets(&mut self) {
        let open = self.open_bucket;
        self.open_bucket = self.next_occupied().wrapping_add(1);
        let second = if self.open_bucket == 0 { 0 } else { self.next_occupied() };
        self.open_bucket = open;
        let head = self.heads[(second & BUCKET_MASK) as usize];
        self.next_nodes = [self.next_nodes[1], head];
        prefetch_first_line(self.nodes.get(head as usize));
    }
}
