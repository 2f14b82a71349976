//! The event queue: a ring of time buckets for the near future, a heap for the far one.
//!
//! An event is a time and a 64-bit code. Events leave in the order of (time, code). The code says what happens
//! where, so simultaneous events have an order that depends neither on who was inserted first nor on how a run
//! might be split; a model keeps at most one pending event of a code (ARCHITECTURE.md, "Order and randomness").
//!
//! Insertion puts an event in front of its bucket's list, unsorted. When time reaches a bucket its first event is looked for in the
//! list if that is short, as nearly all are; a long one is sorted, once. Events for a bucket that has been sorted are put in their place
//! there, among no more than a few: of a crowded bucket the later events wait in the heap, so no order of insertions costs
//! more than a logarithm an event.
//! The width of a bucket follows the load: it doubles when too many events fall beyond the ring and halves when
//! buckets grow long. The order of events does not depend on it. (After the calendar queue of Brown 1988 and the
//! ladder queue of Tang, Goh and Thng 2005, cut down to what a packet simulator needs.)

mod lookahead;
#[cfg(test)]
mod tests;
mod width;

use self::lookahead::Lookahead;
use pauseframe_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Buckets in the ring; 64 words of 64 bits say which are occupied.
const BUCKETS: u64 = 4096;
const MASK: u64 = BUCKETS - 1;
const NIL: u32 = u32::MAX;
/// The width is looked at after so many events.
const REVIEW_EVERY: u32 = 16_384;
/// An event for the open bucket is put in its place there if it goes before no more than so many others.
const CROWD: usize = 64;
/// What lies more rings ahead than this, such as most timers, stays in the heap whatever the width.
const RINGS_IN_REACH: u64 = 64;
/// Of a list up to this length the first event is looked for each time.
const FEW: u32 = 4;
/// Up to this length a bucket is sorted as it is gathered.
const SORTED_BY_INSERTION: usize = 24;
/// First width, 2^13 ps = 8 ns.
const FIRST_SHIFT: u32 = 13;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    time: u64,
    code: u64,
}

impl Entry {
    /// (time, code) as one number: a single comparison.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.code)
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: Entry,
    next: u32,
}

/// Pending events, earliest first.
#[derive(Debug)]
pub struct EventQueue {
    /// Events of the open bucket once it is sorted, and others that come before it, latest first: the next event is at the end. While the
    /// open bucket has a list, what is here comes before all of that.
    open: Vec<Entry>,
    /// Earlier than all else, where a model looks ahead.
    lookahead: Lookahead,
    /// Number of the open bucket: time >> shift.
    open_bucket: u64,
    shift: u32,
    /// In narrower buckets too many events were too far ahead.
    narrowest: u32,
    heads: [u32; BUCKETS as usize],
    occupied: [u64; 64],
    nodes: Vec<Node>,
    free: u32,
    /// Events beyond the ring; and those of a crowded open bucket that are later than all in `open`.
    far: BinaryHeap<Reverse<Entry>>,
    /// The bucket of the first entry of `far`, `u64::MAX` if there is none: the open one if that is crowded.
    far_bucket: u64,
    now: u64,
    /// A node of each of the two buckets behind the open one, where a model looks ahead.
    next_nodes: [u32; 2],
    /// Since the last review of the width: events, those that went to `far` for want of width, buckets that held several
    /// events, and the events in those.
    pushed: u32,
    went_far: u32,
    long: u32,
    gathered: u32,
    /// Entries moved or compared in `open`, and given to `far`: the work that an order of insertions makes.
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
            lookahead: Lookahead::new(),
            open_bucket: 0,
            shift: FIRST_SHIFT,
            narrowest: 0,
            heads: [NIL; BUCKETS as usize],
            occupied: [0; 64],
            nodes: Vec::with_capacity(1024),
            free: NIL,
            far: BinaryHeap::new(),
            far_bucket: u64::MAX,
            now: 0,
            next_nodes: [NIL; 2],
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

    /// The time of the last event that was taken.
    #[inline]
    pub fn now(&self) -> Time {
        Time(self.now)
    }

    /// Something else than an event happens at `now`, between two events; the time before.
    pub fn set_now(&mut self, now: Time) -> Time {
        Time(std::mem::replace(&mut self.now, now.0))
    }

    /// Adds an event.
    ///
    /// # Panics
    /// If `time` has passed: an event may not change the past.
    #[inline(always)]
    pub fn push(&mut self, time: Time, code: u64) {
        let entry = Entry { time: time.0, code };
        let bucket = entry.time >> self.shift;
        self.pushed += 1;
        // One comparison for the usual case: a bucket of the ring behind the open one.
        let ahead = bucket.wrapping_sub(self.open_bucket).wrapping_sub(1);
        if ahead < BUCKETS - 1 {
            self.insert_ring(bucket, entry);
        } else {
            self.push_out_of_ring(entry);
        }
    }

    #[inline(never)]
    fn push_out_of_ring(&mut self, entry: Entry) {
        let (time, now) = (Time(entry.time), Time(self.now));
        assert!(time >= now, "an event was scheduled at {time}, in the past of {now}");
        self.insert(entry);
        if self.pushed >= REVIEW_EVERY {
            self.review_width();
        }
    }

    fn insert(&mut self, entry: Entry) {
        let entry = if self.lookahead.covers(entry) {
            let Some(leaves) = self.lookahead.insert(entry) else { return };
            leaves
        } else {
            entry
        };
        let bucket = entry.time >> self.shift;
        if bucket < self.open_bucket || (bucket == self.open_bucket && self.is_sorted()) {
            self.insert_open(entry);
        } else if bucket - self.open_bucket < BUCKETS {
            self.insert_ring(bucket, entry);
        } else {
            self.went_far += u32::from(bucket - self.open_bucket < RINGS_IN_REACH * BUCKETS);
            self.far.push(Reverse(entry));
            self.far_bucket = self.far_bucket.min(bucket);
        }
    }

    /// Whether events for the open bucket belong in `open`, not in its list.
    fn is_sorted(&self) -> bool {
        let has_list = self.heads[(self.open_bucket & MASK) as usize] != NIL;
        !has_list && (!self.open.is_empty() || self.far_bucket <= self.open_bucket)
    }

    #[inline(always)]
    fn insert_ring(&mut self, bucket: u64, entry: Entry) {
        let slot = (bucket & MASK) as usize;
        let (free, next) = (self.free, self.heads[slot]);
        if let Some(place) = self.nodes.get_mut(free as usize) {
            self.free = place.next;
            // Field by field: a whole node would be put together in memory first.
            place.entry.time = entry.time;
            place.entry.code = entry.code;
            place.next = next;
            self.heads[slot] = free;
        } else {
            self.insert_new(slot, entry);
        }
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Puts an event in front of a list where no node is free.
    #[cold]
    #[inline(never)]
    fn insert_new(&mut self, slot: usize, entry: Entry) {
        let new = self.nodes.len() as u32;
        self.nodes.push(Node { entry, next: self.heads[slot] });
        self.heads[slot] = new;
    }

    #[inline]
    fn insert_open(&mut self, entry: Entry) {
        if self.open.len() >= CROWD || self.far_bucket <= self.open_bucket {
            self.insert_crowded(entry);
        } else {
            self.place(entry);
        }
    }

    /// Puts an event in its place in `open`, from the end on.
    #[inline]
    fn place(&mut self, entry: Entry) {
        let key = entry.key();
        let mut place = self.open.len();
        self.open.push(entry);
        while place > 0 && self.open[place - 1].key() < key {
            self.open[place] = self.open[place - 1];
            place -= 1;
        }
        self.open[place] = entry;
        #[cfg(test)]
        {
            self.moved += (self.open.len() - place) as u64;
        }
    }

    /// The same where `open` is long, or its bucket has later events in the heap: those that this one would have to be put
    /// before join them there, but for the next few.
    #[inline(never)]
    fn insert_crowded(&mut self, entry: Entry) {
        let crowded = self.far_bucket <= self.open_bucket;
        if crowded && self.far.peek().is_some_and(|Reverse(first)| first.key() < entry.key()) {
            self.defer(entry);
            return;
        }
        let later = self.open.len().checked_sub(CROWD).map(|place| self.open[place]);
        if later.is_some_and(|later| later.key() < entry.key()) {
            // It goes before more than CROWD others: all but half as many of the next make room, once for many events.
            let deferred = self.open.len() - CROWD / 2;
            for place in 0..deferred {
                self.defer(self.open[place]);
            }
            self.open.drain(..deferred);
            self.defer(entry);
            return;
        }
        self.place(entry);
    }

    /// Gives an event of the open bucket, later than all in `open`, to the heap.
    fn defer(&mut self, entry: Entry) {
        #[cfg(test)]
        {
            self.moved += 1;
        }
        self.far.push(Reverse(entry));
        self.far_bucket = self.open_bucket;
    }

    /// Takes the earliest event of the buckets.
    #[inline(always)]
    fn take_next(&mut self) -> Option<Entry> {
        match self.open.pop() {
            Some(entry) => Some(entry),
            None => self.open_next(),
        }
    }

    /// Takes the earliest event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Time, u64)> {
        debug_assert!(self.lookahead.first().is_none(), "events stand in line");
        let entry = self.take_next()?;
        self.now = entry.time;
        Some((Time(entry.time), entry.code))
    }

    /// Takes the earliest event if it is before `end`.
    #[inline(always)]
    pub fn pop_before(&mut self, end: Time) -> Option<(Time, u64)> {
        let entry = self.take_next()?;
        if entry.time >= end.0 {
            self.insert(entry);
            return None;
        }
        self.now = entry.time;
        Some((Time(entry.time), entry.code))
    }

    /// The time of the earliest event.
    pub fn next_time(&mut self) -> Option<Time> {
        if let Some(first) = self.lookahead.first() {
            return Some(Time(first.time));
        }
        if self.open.is_empty() {
            let entry = self.open_next()?;
            self.insert(entry);
            return Some(Time(entry.time));
        }
        self.open.last().map(|entry| Time(entry.time))
    }

    /// Opens the next bucket that holds anything, or goes on with the open one, and takes the first event.
    #[inline(always)]
    fn open_next(&mut self) -> Option<Entry> {
        let near = self.next_occupied();
        if near >= self.far_bucket {
            return self.open_far(near);
        }
        self.open_bucket = near;
        let slot = (near & MASK) as usize;
        let head = self.heads[slot];
        let Node { entry, next } = self.nodes[head as usize];
        if next == NIL {
            // The usual case, one event: it goes straight out.
            self.take_list(slot, head);
            return Some(entry);
        }
        let second = self.nodes[next as usize];
        if second.next != NIL {
            return Some(self.first_of_several(slot));
        }
        // If there are several, there are two most often: the bucket is taken whole, and the later one waits in order.
        self.long += 1;
        self.gathered += 2;
        self.take_list(slot, next);
        let in_order = entry.key() <= second.entry.key();
        let (sooner, later) = if in_order { (entry, second.entry) } else { (second.entry, entry) };
        self.open.push(later);
        Some(sooner)
    }

    /// The next bucket holds several events: the first of a few is looked for, many are sorted.
    #[inline(never)]
    fn first_of_several(&mut self, slot: usize) -> Entry {
        let head = self.heads[slot];
        let Node { entry: mut first, next: mut index } = self.nodes[head as usize];
        // Where it is, and behind which one; then the last that was looked at.
        let (mut place, mut behind, mut last, mut length) = (head, NIL, head, 1);
        while let Some(Node { entry, next }) = self.nodes.get(index as usize) {
            length += 1;
            if length > FEW {
                return self.first_of_many(slot);
            }
            if entry.key() < first.key() {
                (first, place, behind) = (*entry, index, last);
            }
            (last, index) = (index, *next);
        }
        self.long += 1;
        self.gathered += length;
        let rest = std::mem::replace(&mut self.nodes[place as usize].next, self.free);
        self.free = place;
        if behind == NIL {
            self.heads[slot] = rest;
        } else {
            self.nodes[behind as usize].next = rest;
        }
        first
    }

    #[inline(never)]
    fn first_of_many(&mut self, slot: usize) -> Entry {
        self.long += 1;
        self.gather(slot);
        self.gathered += self.open.len() as u32;
        let first = self.open.pop().expect("a bucket of several events has a first");
        if self.pushed >= REVIEW_EVERY {
            self.review_width();
        }
        first
    }

    /// Empties a bucket whose list ends with `last`; its nodes are free.
    #[inline]
    fn take_list(&mut self, slot: usize, last: u32) {
        self.nodes[last as usize].next = self.free;
        self.free = std::mem::replace(&mut self.heads[slot], NIL);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
    }

    /// The next event is in the heap, or nothing is pending at all.
    #[cold]
    fn open_far(&mut self, near: u64) -> Option<Entry> {
        let bucket = self.far_bucket;
        if bucket == u64::MAX && self.far.is_empty() {
            return None;
        }
        // What is left of a crowded bucket comes back bit by bit, as later events may have to go before it.
        let crowded = bucket <= self.open_bucket;
        let most = if crowded { CROWD / 2 } else { usize::MAX };
        self.open_bucket = self.open_bucket.max(bucket);
        // If the open bucket has a list, all of that comes after the crowd.
        if near == bucket && !crowded {
            self.gather((bucket & MASK) as usize);
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
    fn gather(&mut self, slot: usize) {
        let (mut index, mut last) = (self.heads[slot], NIL);
        while index != NIL {
            let Node { entry, next } = self.nodes[index as usize];
            if self.open.len() < SORTED_BY_INSERTION {
                self.place(entry);
            } else {
                self.open.push(entry);
            }
            (last, index) = (index, next);
        }
        self.take_list(slot, last);
        if self.open.len() > SORTED_BY_INSERTION {
            self.sort_open();
        }
    }

    fn sort_open(&mut self) {
        self.open.sort_unstable_by_key(|entry| Reverse(entry.key()));
    }

    /// Number of the first occupied bucket from the open one on, `u64::MAX` if the ring is empty.
    #[inline(always)]
    fn next_occupied(&self) -> u64 {
        let start = self.open_bucket;
        let slot = (start & MASK) as usize;
        let here = self.occupied[slot / 64] >> (slot % 64);
        if here != 0 { start + u64::from(here.trailing_zeros()) } else { self.next_word() }
    }

    /// The same if it is not in the word of the open one.
    #[inline(never)]
    fn next_word(&self) -> u64 {
        let start = self.open_bucket;
        let word = (start & MASK) as usize / 64;
        // The words behind this one and then, round the ring, those up to and including it.
        for step in 1..=64 {
            let word = (word + step) % 64;
            if self.occupied[word] != 0 {
                let found = word as u64 * 64 + u64::from(self.occupied[word].trailing_zeros());
                return start + (found.wrapping_sub(start) & MASK);
            }
        }
        u64::MAX
    }
}
