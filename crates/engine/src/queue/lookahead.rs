//! The lookahead buffer: the next events in order, taken from their buckets early, so that a model can prefetch for them.
//!
//! All of them are earlier than the events left in the buckets. So a new event belongs here if it is earlier than the last one in the buffer. That
//! one came from the open bucket or an earlier one, so a push to a later bucket need not check the buffer. Do not mix draining with and without the
//! buffer.

use super::{BUCKET_MASK, BucketListNode, EventQueue, NIL_NODE, PendingEvent, WIDTH_REVIEW_INTERVAL};
use crate::memory::{
    element_at_index_or_first, prefetch_element_at_index_or_first, prefetch_first_cache_line,
};
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
    pub(super) fn first_buffered_event(&self) -> Option<&PendingEvent> {
        self.entries.get(self.first)
    }

    #[inline]
    pub(super) fn last_buffered_event(&self) -> Option<&PendingEvent> {
        self.entries[self.first..].last()
    }

    #[inline(always)]
    fn buffered_event_count(&self) -> usize {
        self.entries.len() - self.first
    }

    /// Whether `entry` belongs into the lookahead buffer.
    #[inline]
    pub(super) fn belongs_in_lookahead_buffer(&self, entry: PendingEvent) -> bool {
        self.last_buffered_event().is_some_and(|last| entry.time_and_code_key() < last.time_and_code_key())
    }

    /// Inserts an event that is earlier than the last one. Returns the last one if the buffer is full.
    pub(super) fn insert_in_lookahead_buffer(&mut self, entry: PendingEvent) -> Option<PendingEvent> {
        let leaves =
            if self.buffered_event_count() >= LOOKAHEAD_CAPACITY { self.entries.pop() } else { None };
        let waiting = &self.entries[self.first..];
        let sooner = waiting
            .iter()
            .rev()
            .skip_while(|other| entry.time_and_code_key() < other.time_and_code_key())
            .count();
        self.entries.insert(self.first + sooner, entry);
        leaves
    }
}

impl EventQueue {
    /// Fills the buffer with the next events, at least `wanted` (up to 64); false if fewer are pending.
    #[inline(always)]
    pub fn fill_lookahead_buffer(&mut self, wanted: usize) -> bool {
        self.lookahead.buffered_event_count() >= wanted || self.refill_lookahead_buffer(wanted)
    }

    #[inline(never)]
    fn refill_lookahead_buffer(&mut self, wanted: usize) -> bool {
        if self.lookahead.first >= LOOKAHEAD_CAPACITY {
            self.lookahead.entries.drain(..self.lookahead.first);
            self.lookahead.first = 0;
        }
        while self.lookahead.buffered_event_count() < wanted {
            let near = self.next_occupied_bucket();
            if !self.open.is_empty() {
                // Events that are sorted already.
                let later = self.open.len().saturating_sub(LOOKAHEAD_CAPACITY / 2);
                self.lookahead.entries.extend(self.open.drain(later..).rev());
            } else if near < self.far_bucket {
                self.move_bucket_to_lookahead(near);
            } else {
                // Events in the heap stay there until they are due.
                if self.lookahead.buffered_event_count() > 0 {
                    return false;
                }
                let Some(entry) = self.open_bucket_from_heap(near) else { return false };
                self.lookahead.entries.push(entry);
            }
        }
        true
    }

    /// Opens a bucket and moves all its events to the buffer, in order.
    #[inline(always)]
    fn move_bucket_to_lookahead(&mut self, bucket: u64) {
        self.open_bucket = bucket;
        let count = self.move_sorted_bucket_to_lookahead(bucket);
        self.long += 1;
        self.gathered += count as u32;
        if self.pushed >= WIDTH_REVIEW_INTERVAL {
            self.adapt_bucket_width();
        }
        self.prefetch_next_buckets();
    }

    /// Moves the bucket's list to the buffer in order (of a crowded bucket only the next events); returns their number.
    #[inline(always)]
    fn move_sorted_bucket_to_lookahead(&mut self, bucket: u64) -> usize {
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
            self.sort_open_bucket();
        } else {
            self.lookahead.entries[before..].sort_unstable_by_key(|entry| entry.time_and_code_key());
        }
        self.free_bucket_list(slot, last);
        count
    }

    /// The codes of the events at these positions in the buffer; `None` if the buffer does not reach the first position, which is the largest.
    #[inline(always)]
    pub fn upcoming_event_codes<const PLACES: usize>(
        &self,
        places: [usize; PLACES],
    ) -> Option<[u64; PLACES]> {
        let waiting = self.lookahead.entries.get(self.lookahead.first..)?.get(..=places[0])?;
        Some(places.map(|place| waiting[place].code))
    }

    /// Takes the first event of the buffer if it is before `end`.
    #[inline(always)]
    pub fn pop_lookahead_event_before(&mut self, end: Time) -> Option<(Time, u64)> {
        if !self.fill_lookahead_buffer(1) {
            return None;
        }
        let entry = *self.lookahead.first_buffered_event()?;
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
    pub fn prefetch_next_bucket_list_nodes<const LISTS: usize>(&mut self) {
        for next_node in &mut self.next_nodes[..LISTS] {
            if let Some(node) = element_at_index_or_first(&self.nodes, *next_node as usize) {
                *next_node = node.next;
                prefetch_element_at_index_or_first(&self.nodes, node.next as usize);
            }
        }
    }

    /// Starts one list walk for each of the next two buckets; the first walk continues where the second was.
    #[inline(always)]
    fn prefetch_next_buckets(&mut self) {
        let open = self.open_bucket;
        self.open_bucket = self.next_occupied_bucket().wrapping_add(1);
        let second = if self.open_bucket == 0 { 0 } else { self.next_occupied_bucket() };
        self.open_bucket = open;
        let head = self.heads[(second & BUCKET_MASK) as usize];
        self.next_nodes = [self.next_nodes[1], head];
        prefetch_first_cache_line(self.nodes.get(head as usize));
    }
}
