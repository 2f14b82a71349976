//! The event queue: a ring of time buckets for the near future, a heap for the far one.
//!
//! An event is a time and a 64-bit code. Events leave in the order of (time, code). The code says what happens
//! where, so simultaneous events have an order that depends neither on who was inserted first nor on how a run
//! might be split; a model keeps at most one pending event of a code (ARCHITECTURE.md, "Order and randomness").
//!
//! Insertion puts an event in front of its bucket's list, unsorted. When time reaches a bucket, the queue searches a short list for its first event;
//! nearly all lists are short. It sorts a long list once. New events for a sorted bucket are inserted in order among at most a few others. The later
//! events of a crowded bucket wait in the heap, so no insertion order costs more than a logarithm per event. The width of a bucket follows the load:
//! it doubles when too many events fall beyond the ring and halves when buckets grow long. The order of events does not depend on it. (After the
//! calendar queue of Brown 1988 and the ladder queue of Tang, Goh and Thng 2005, cut down to what a packet simulator needs.)

mod lookahead;
#[cfg(test)]
mod tests;
mod width;

use self::lookahead::LookaheadBuffer;
use pauseframe_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Buckets in the ring; 64 words of 64 bits say which are occupied.
const BUCKET_COUNT: u64 = 4096;
const BUCKET_MASK: u64 = BUCKET_COUNT - 1;
const NIL_NODE: u32 = u32::MAX;
/// Number of events between two reviews of the bucket width.
const WIDTH_REVIEW_INTERVAL: u32 = 16_384;
/// Most events that an insertion into the open bucket may shift; beyond that the bucket counts as crowded.
const CROWDED_BUCKET_LENGTH: usize = 64;
/// Events further ahead than this many rings, such as most timers, stay in the heap whatever the bucket width.
const MAX_RINGS_AHEAD: u64 = 64;
/// Longest list that is searched linearly for its first event instead of being sorted.
const LINEAR_SEARCH_MAX: u32 = 4;
/// Longest list that is sorted by insertion.
const INSERTION_SORT_MAX: usize = 24;
/// First width, 2^13 ps = 8 ns.
const INITIAL_BUCKET_SHIFT: u32 = 13;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PendingEvent {
    time: u64,
    code: u64,
}

impl PendingEvent {
    /// (time, code) as one number: a single comparison.
    #[inline]
    fn sort_key(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.code)
    }
}

#[derive(Clone, Copy, Debug)]
struct BucketListNode {
    entry: PendingEvent,
    next: u32,
}

/// Pending events, earliest first.
#[derive(Debug)]
pub struct EventQueue {
    /// Sorted events of the open bucket and of earlier times, latest first: the next event is at the end. They precede all events that are still in
    /// the list of the open bucket.
    open: Vec<PendingEvent>,
    /// The earliest events, if the model prefetches.
    lookahead: LookaheadBuffer,
    /// Number of the open bucket: time >> shift.
    open_bucket: u64,
    shift: u32,
    /// Smallest useful shift: with narrower buckets too many events fell beyond the ring.
    narrowest: u32,
    heads: [u32; BUCKET_COUNT as usize],
    occupied: [u64; 64],
    nodes: Vec<BucketListNode>,
    free: u32,
    /// Events beyond the ring, and events of a crowded open bucket that are later than all of `open`.
    far: BinaryHeap<Reverse<PendingEvent>>,
    /// The bucket of the first entry of `far` (the open bucket if that is crowded); `u64::MAX` if `far` is empty.
    far_bucket: u64,
    now: u64,
    /// A list node of each of the next two buckets, to prefetch from, if the model prefetches.
    next_nodes: [u32; 2],
    /// Counts since the last review of the width: all events, events that went to `far` because buckets were too narrow, buckets with several events,
    /// and the events in those buckets.
    pushed: u32,
    went_far: u32,
    long: u32,
    gathered: u32,
    /// Entries moved or compared in `open`, plus entries given to `far`: the cost of insertions, for tests.
    #[cfg(test)]
    moved: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl EventQueue {
    /// A queue at time zero without events.
    pub fn new() -> EventQueue {
        EventQueue {
            open: Vec::with_capacity(64),
            lookahead: LookaheadBuffer::new(),
            open_bucket: 0,
            shift: INITIAL_BUCKET_SHIFT,
            narrowest: 0,
            heads: [NIL_NODE; BUCKET_COUNT as usize],
            occupied: [0; 64],
            nodes: Vec::with_capacity(1024),
            free: NIL_NODE,
            far: BinaryHeap::new(),
            far_bucket: u64::MAX,
            now: 0,
            next_nodes: [NIL_NODE; 2],
            pushed: 0,
            went_far: 0,
            long: 0,
            gathered: 0,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        let taken = self.lookahead.first().is_none() && self.open.is_empty();
        taken && self.far.is_empty() && self.next_occupied() == u64::MAX
    }

    /// The time of the last event taken from the queue.
    #[inline]
    pub fn now(&self) -> Time {
        Time(self.now)
    }

    /// Moves the clock to `now` between two events; returns the previous time.
    pub fn set_now(&mut self, now: Time) -> Time {
        Time(std::mem::replace(&mut self.now, now.0))
    }

    /// Adds an event.
    ///
    /// # Panics
    /// If `time` has passed: an event may not change the past.
    #[inline(always)]
    pub fn push(&mut self, time: Time, code: u64) {
        let entry = PendingEvent { time: time.0, code };
        let bucket = entry.time >> self.shift;
        self.pushed += 1;
        // The usual case needs one comparison: a bucket of the ring after the open one.
        let ahead = bucket.wrapping_sub(self.open_bucket).wrapping_sub(1);
        if ahead < BUCKET_COUNT - 1 {
            self.insert_in_ring(bucket, entry);
        } else {
            self.push_outside_ring(entry);
        }
    }

    #[inline(never)]
    fn push_outside_ring(&mut self, entry: PendingEvent) {
        let (time, now) = (Time(entry.time), Time(self.now));
        assert!(time >= now, "an event was scheduled at {time}, in the past of {now}");
        self.insert(entry);
        if self.pushed >= WIDTH_REVIEW_INTERVAL {
            self.adapt_width();
        }
    }

    fn insert(&mut self, entry: PendingEvent) {
        let entry = if self.lookahead.covers(entry) {
            let Some(leaves) = self.lookahead.insert(entry) else { return };
            leaves
        } else {
            entry
        };
        let bucket = entry.time >> self.shift;
        if bucket < self.open_bucket || (bucket == self.open_bucket && self.is_open_bucket_sorted()) {
            self.insert_in_open(entry);
        } else if bucket - self.open_bucket < BUCKET_COUNT {
            self.insert_in_ring(bucket, entry);
        } else {
            self.went_far += u32::from(bucket - self.open_bucket < MAX_RINGS_AHEAD * BUCKET_COUNT);
            self.far.push(Reverse(entry));
            self.far_bucket = self.far_bucket.min(bucket);
        }
    }

    /// Whether the open bucket is sorted, so that its new events belong in `open` and not in its list.
    fn is_open_bucket_sorted(&self) -> bool {
        let has_list = self.heads[(self.open_bucket & BUCKET_MASK) as usize] != NIL_NODE;
        !has_list && (!self.open.is_empty() || self.far_bucket <= self.open_bucket)
    }

    #[inline(always)]
    fn insert_in_ring(&mut self, bucket: u64, entry: PendingEvent) {
        let slot = (bucket & BUCKET_MASK) as usize;
        let (free, next) = (self.free, self.heads[slot]);
        if let Some(place) = self.nodes.get_mut(free as usize) {
            self.free = place.next;
            // Written field by field, because the compiler would build a whole node in memory first.
            place.entry.time = entry.time;
            place.entry.code = entry.code;
            place.next = next;
            self.heads[slot] = free;
        } else {
            self.insert_node(slot, entry);
        }
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Puts an event in front of a list, with a newly allocated node.
    #[cold]
    #[inline(never)]
    fn insert_node(&mut self, slot: usize, entry: PendingEvent) {
        let new = self.nodes.len() as u32;
        self.nodes.push(BucketListNode { entry, next: self.heads[slot] });
        self.heads[slot] = new;
    }

    #[inline]
    fn insert_in_open(&mut self, entry: PendingEvent) {
        if self.open.len() >= CROWDED_BUCKET_LENGTH || self.far_bucket <= self.open_bucket {
            self.insert_in_crowded(entry);
        } else {
            self.insert_sorted(entry);
        }
    }

    /// Inserts an event into `open` in order, searching from the end.
    #[inline]
    fn insert_sorted(&mut self, entry: PendingEvent) {
        let key = entry.sort_key();
        let mut place = self.open.len();
        self.open.push(entry);
        while place > 0 && self.open[place - 1].sort_key() < key {
            self.open[place] = self.open[place - 1];
            place -= 1;
        }
        self.open[place] = entry;
        #[cfg(test)]
        {
            self.moved += (self.open.len() - place) as u64;
        }
    }

    /// Inserts into a crowded `open`, or one whose bucket has later events in the heap. All but the next few events after the new one move to the
    /// heap.
    #[inline(never)]
    fn insert_in_crowded(&mut self, entry: PendingEvent) {
        let crowded = self.far_bucket <= self.open_bucket;
        if crowded && self.far.peek().is_some_and(|Reverse(first)| first.sort_key() < entry.sort_key()) {
            self.defer_to_heap(entry);
            return;
        }
        let later = self.open.len().checked_sub(CROWDED_BUCKET_LENGTH).map(|place| self.open[place]);
        if later.is_some_and(|later| later.sort_key() < entry.sort_key()) {
            // The event precedes more than `CROWDED_BUCKET_LENGTH` others. Moving all but half of that to the heap pays off over many insertions.
            let deferred = self.open.len() - CROWDED_BUCKET_LENGTH / 2;
            for place in 0..deferred {
                self.defer_to_heap(self.open[place]);
            }
            self.open.drain(..deferred);
            self.defer_to_heap(entry);
            return;
        }
        self.insert_sorted(entry);
    }

    /// Moves an event of the open bucket that is later than all of `open` to the heap.
    fn defer_to_heap(&mut self, entry: PendingEvent) {
        #[cfg(test)]
        {
            self.moved += 1;
        }
        self.far.push(Reverse(entry));
        self.far_bucket = self.open_bucket;
    }

    /// Takes the earliest event of the buckets.
    #[inline(always)]
    fn pop_from_buckets(&mut self) -> Option<PendingEvent> {
        match self.open.pop() {
            Some(entry) => Some(entry),
            None => self.open_next_bucket(),
        }
    }

    /// Takes the earliest event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Time, u64)> {
        debug_assert!(self.lookahead.first().is_none(), "events stand in line");
        let entry = self.pop_from_buckets()?;
        self.now = entry.time;
        Some((Time(entry.time), entry.code))
    }

    /// Takes the earliest event if it is before `end`.
    #[inline(always)]
    pub fn pop_before(&mut self, end: Time) -> Option<(Time, u64)> {
        let entry = self.pop_from_buckets()?;
        if entry.time >= end.0 {
            self.insert(entry);
            return None;
        }
        self.now = entry.time;
        Some((Time(entry.time), entry.code))
    }

    /// The time of the earliest event.
    pub fn next_event_time(&mut self) -> Option<Time> {
        if let Some(first) = self.lookahead.first() {
            return Some(Time(first.time));
        }
        if self.open.is_empty() {
            let entry = self.open_next_bucket()?;
            self.insert(entry);
            return Some(Time(entry.time));
        }
        self.open.last().map(|entry| Time(entry.time))
    }

    /// Opens the next occupied bucket, or continues with the open one, and takes the first event.
    #[inline(always)]
    fn open_next_bucket(&mut self) -> Option<PendingEvent> {
        let near = self.next_occupied();
        if near >= self.far_bucket {
            return self.open_from_heap(near);
        }
        self.open_bucket = near;
        let slot = (near & BUCKET_MASK) as usize;
        let head = self.heads[slot];
        let BucketListNode { entry, next } = self.nodes[head as usize];
        if next == NIL_NODE {
            // The usual case: the bucket has one event, which is returned directly.
            self.free_list(slot, head);
            return Some(entry);
        }
        let second = self.nodes[next as usize];
        if second.next != NIL_NODE {
            return Some(self.pop_earliest(slot));
        }
        // Most buckets with several events have two: the bucket is emptied, and the later event waits in `open`.
        self.long += 1;
        self.gathered += 2;
        self.free_list(slot, next);
        let in_order = entry.sort_key() <= second.entry.sort_key();
        let (sooner, later) = if in_order { (entry, second.entry) } else { (second.entry, entry) };
        self.open.push(later);
        Some(sooner)
    }

    /// Takes the first event of a bucket with several: searches a short list, sorts a long one.
    #[inline(never)]
    fn pop_earliest(&mut self, slot: usize) -> PendingEvent {
        let head = self.heads[slot];
        let BucketListNode { entry: mut first, next: mut index } = self.nodes[head as usize];
        // The first event so far, its predecessor, and the last node visited.
        let (mut place, mut behind, mut last, mut length) = (head, NIL_NODE, head, 1);
        while let Some(BucketListNode { entry, next }) = self.nodes.get(index as usize) {
            length += 1;
            if length > LINEAR_SEARCH_MAX {
                return self.sort_and_pop(slot);
            }
            if entry.sort_key() < first.sort_key() {
                (first, place, behind) = (*entry, index, last);
            }
            (last, index) = (index, *next);
        }
        self.long += 1;
        self.gathered += length;
        let rest = std::mem::replace(&mut self.nodes[place as usize].next, self.free);
        self.free = place;
        if behind == NIL_NODE {
            self.heads[slot] = rest;
        } else {
            self.nodes[behind as usize].next = rest;
        }
        first
    }

    #[inline(never)]
    fn sort_and_pop(&mut self, slot: usize) -> PendingEvent {
        self.long += 1;
        self.move_to_open(slot);
        self.gathered += self.open.len() as u32;
        let first = self.open.pop().expect("a bucket of several events has a first");
        if self.pushed >= WIDTH_REVIEW_INTERVAL {
            self.adapt_width();
        }
        first
    }

    /// Empties a bucket whose list ends with `last` and frees its nodes.
    #[inline]
    fn free_list(&mut self, slot: usize, last: u32) {
        self.nodes[last as usize].next = self.free;
        self.free = std::mem::replace(&mut self.heads[slot], NIL_NODE);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
    }

    /// Takes the next event from the heap; `None` if nothing is pending.
    #[cold]
    fn open_from_heap(&mut self, near: u64) -> Option<PendingEvent> {
        let bucket = self.far_bucket;
        if bucket == u64::MAX && self.far.is_empty() {
            return None;
        }
        // The rest of a crowded bucket returns from the heap in small portions, because new events may precede it.
        let crowded = bucket <= self.open_bucket;
        let most = if crowded { CROWDED_BUCKET_LENGTH / 2 } else { usize::MAX };
        self.open_bucket = self.open_bucket.max(bucket);
        // If the open bucket has a list, all its events follow those in the heap.
        if near == bucket && !crowded {
            self.move_to_open((bucket & BUCKET_MASK) as usize);
        }
        self.far_bucket = u64::MAX;
        let listed = self.open.len();
        while let Some(Reverse(entry)) = self.far.peek().copied() {
            let its = entry.time >> self.shift;
            if its > bucket || self.open.len() - listed >= most {
                self.far_bucket = its;
                break;
            }
            self.far.pop();
            self.open.push(entry);
        }
        self.sort_open();
        self.open.pop()
    }

    /// Moves the list of one bucket, sorted, to `open`.
    fn move_to_open(&mut self, slot: usize) {
        let (mut index, mut last) = (self.heads[slot], NIL_NODE);
        while index != NIL_NODE {
            let BucketListNode { entry, next } = self.nodes[index as usize];
            if self.open.len() < INSERTION_SORT_MAX {
                self.insert_sorted(entry);
            } else {
                self.open.push(entry);
            }
            (last, index) = (index, next);
        }
        self.free_list(slot, last);
        if self.open.len() > INSERTION_SORT_MAX {
            self.sort_open();
        }
    }

    fn sort_open(&mut self) {
        self.open.sort_unstable_by_key(|entry| Reverse(entry.sort_key()));
    }

    /// Number of the first occupied bucket, starting with the open one; `u64::MAX` if the ring is empty.
    #[inline(always)]
    fn next_occupied(&self) -> u64 {
        let start = self.open_bucket;
        let slot = (start & BUCKET_MASK) as usize;
        let here = self.occupied[slot / 64] >> (slot % 64);
        if here != 0 { start + u64::from(here.trailing_zeros()) } else { self.next_occupied_elsewhere() }
    }

    /// [`Self::next_occupied`] if the word of the open bucket has no occupied bucket.
    #[inline(never)]
    fn next_occupied_elsewhere(&self) -> u64 {
        let start = self.open_bucket;
        let word = (start & BUCKET_MASK) as usize / 64;
        // The words after this one, then around the ring up to and including it.
        for step in 1..=64 {
            let word = (word + step) % 64;
            if self.occupied[word] != 0 {
                let found = word as u64 * 64 + u64::from(self.occupied[word].trailing_zeros());
                return start + (found.wrapping_sub(start) & BUCKET_MASK);
            }
        }
        u64::MAX
    }
}
