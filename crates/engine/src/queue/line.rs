//! The next events in order, taken from their buckets before their turn, so that a model can see what comes.
//!
//! All of them are earlier than what is left in the buckets. So an event belongs here if it is earlier than the last one in line; as that
//! came from the open bucket or one before, a push to any bucket behind needs no look at the line. A queue is emptied either by way of its
//! line or without one, not in turn.

use super::{Entry, EventQueue, MASK, NIL, Node, REVIEW_EVERY};
use crate::memory::{bring, bring_guess, guess};
use pauseframe_units::Time;

/// No more than so many stand in line at once.
const MOST: usize = 128;

/// Events in order, earliest first.
#[derive(Debug)]
pub(super) struct Line {
    /// Those that have left stand before the first until the line is filled up.
    entries: Vec<Entry>,
    first: usize,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { entries: Vec::with_capacity(2 * MOST), first: 0 }
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

    /// Whether it has to wait here.
    #[inline]
    pub(super) fn concerns(&self, entry: Entry) -> bool {
        self.last().is_some_and(|last| entry.key() < last.key())
    }

    /// Lets an event in that is earlier than the last one; that has to leave if the line is too long for both.
    pub(super) fn let_in(&mut self, entry: Entry) -> Option<Entry> {
        let leaves = if self.length() >= MOST { self.entries.pop() } else { None };
        let waiting = &self.entries[self.first..];
        let sooner = waiting.iter().rev().skip_while(|other| entry.key() < other.key()).count();
        self.entries.insert(self.first + sooner, entry);
        leaves
    }
}

impl EventQueue {
    /// Lets the next events stand in line, `wanted` of them at least, up to 64; false if there are not so many.
    #[inline(always)]
    pub fn line_up(&mut self, wanted: usize) -> bool {
        self.line.length() >= wanted || self.fill_up(wanted)
    }

    #[inline(never)]
    fn fill_up(&mut self, wanted: usize) -> bool {
        if self.line.first >= MOST {
            self.line.entries.drain(..self.line.first);
            self.line.first = 0;
        }
        while self.line.length() < wanted {
            let near = self.next_occupied();
            if !self.open.is_empty() {
                // What is in order already.
                let later = self.open.len().saturating_sub(MOST / 2);
                self.line.entries.extend(self.open.drain(later..).rev());
            } else if near < self.far_bucket {
                self.let_bucket_in(near);
            } else {
                // What waits in the heap is looked at when its turn has come.
                if self.line.length() > 0 {
                    return false;
                }
                let Some(entry) = self.open_far(near) else { return false };
                self.line.entries.push(entry);
            }
        }
        true
    }

    /// Opens a bucket and lets all of it stand in line, in order.
    #[inline(always)]
    fn let_bucket_in(&mut self, bucket: u64) {
        self.open_bucket = bucket;
        let count = self.let_in_whole(bucket);
        self.long += 1;
        self.gathered += count as u32;
        if self.pushed >= REVIEW_EVERY {
            self.review_width();
        }
        self.send_scouts();
    }

    /// Lets its list stand in line, in order, or of a crowd what comes next; how many there are.
    #[inline(always)]
    fn let_in_whole(&mut self, bucket: u64) -> usize {
        let slot = (bucket & MASK) as usize;
        let before = self.line.entries.len();
        let (mut index, mut last) = (self.heads[slot], NIL);
        while let Some(Node { entry, next }) = self.nodes.get(index as usize) {
            self.line.entries.push(*entry);
            (last, index) = (index, *next);
        }
        let count = self.line.entries.len() - before;
        if count > MOST / 2 {
            self.open.extend(self.line.entries.drain(before..));
            self.sort_open();
        } else {
            self.line.entries[before..].sort_unstable_by_key(|entry| entry.key());
        }
        self.take_list(slot, last);
        count
    }

    /// The codes of events in line, each so many places behind the first; none if fewer stand there than the first of these places says,
    /// which is the largest.
    #[inline(always)]
    pub fn coming<const PLACES: usize>(&self, places: [usize; PLACES]) -> Option<[u64; PLACES]> {
        let waiting = self.line.entries.get(self.line.first..)?.get(..=places[0])?;
        Some(places.map(|place| waiting[place].code))
    }

    /// Takes the first event in line if it is before `end`.
    #[inline(always)]
    pub fn pop_in_line(&mut self, end: Time) -> Option<(Time, u64)> {
        if !self.line_up(1) {
            return None;
        }
        let entry = *self.line.first()?;
        if entry.time >= end.0 {
            return None;
        }
        self.line.first += 1;
        self.now = entry.time;
        Some((Time(entry.time), entry.code))
    }

    /// In a large network the nodes of a list lie in far memory, and each names the next: one is fetched each time, so that they are near
    /// when the bucket is opened.
    #[inline(always)]
    pub fn scout<const LISTS: usize>(&mut self) {
        for scout in &mut self.scouts[..LISTS] {
            if let Some(node) = guess(&self.nodes, *scout as usize) {
                *scout = node.next;
                bring_guess(&self.nodes, node.next as usize);
            }
        }
    }

    /// One to each of the next two buckets; where the second was, the first goes on.
    #[inline(always)]
    fn send_scouts(&mut self) {
        let open = self.open_bucket;
        self.open_bucket = self.next_occupied().wrapping_add(1);
        let second = if self.open_bucket == 0 { 0 } else { self.next_occupied() };
        self.open_bucket = open;
        let head = self.heads[(second & MASK) as usize];
        self.scouts = [self.scouts[1], head];
        bring(self.nodes.get(head as usize));
    }
}
