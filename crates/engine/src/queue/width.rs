//! Adapts the bucket width to the load.

use super::{BUCKETS, Entry, EventQueue, NIL};
use std::cmp::Reverse;

/// Buckets are not made wider that hold so many events.
const LENGTH_MAX: f64 = 128.0;
/// The bounds of the shift: 4 ps to 1 ms.
const SHIFTS: std::ops::RangeInclusive<u32> = 2..=30;

impl EventQueue {
    /// Widens the buckets when the heap is used for more than a few events, narrows them when they are long. Events
    /// at the very same time share a bucket however narrow it is: pairs and triples are no reason. Once they were too narrow, they
    /// become so again only when far more comes: a heap of a large network costs more than to sort a long bucket.
    #[cold]
    pub(super) fn review_width(&mut self) {
        // A rebuild handles all that is pending: not before as many events have come since the last one.
        if (self.pushed as usize) < self.open.len() + self.far.len() + self.nodes.len() {
            return;
        }
        let far = f64::from(self.went_far) / f64::from(self.pushed);
        let length = f64::from(self.gathered) / f64::from(self.long.max(1));
        (self.pushed, self.went_far, self.long, self.gathered) = (0, 0, 0, 0);
        let long = if self.shift > self.narrowest { 3.0 } else { 2.0 * LENGTH_MAX };
        let shift = if far > 0.02 && length < LENGTH_MAX {
            self.narrowest = self.shift + 1;
            self.shift + 1
        } else if far < 0.004 && length > long {
            self.shift - 1
        } else {
            return;
        };
        if SHIFTS.contains(&shift) {
            self.rebuild(shift);
        }
    }

    fn rebuild(&mut self, shift: u32) {
        let mut entries: Vec<Entry> = std::mem::take(&mut self.open);
        for slot in 0..BUCKETS as usize {
            let mut index = std::mem::replace(&mut self.heads[slot], NIL);
            while index != NIL {
                entries.push(self.nodes[index as usize].entry);
                index = self.nodes[index as usize].next;
            }
        }
        entries.extend(std::mem::take(&mut self.far).into_iter().map(|Reverse(entry)| entry));
        self.nodes.clear();
        self.free = NIL;
        self.far_bucket = u64::MAX;
        self.occupied = [0; 64];
        self.shift = shift;
        // All that is left lies at or after the first entry: its bucket is the open one. Where nothing is left, all stand in line.
        let reached = self.lookahead.last().map_or(self.now, |last| last.time);
        let first = entries.iter().map(|entry| entry.time).min().unwrap_or(reached);
        self.open_bucket = first >> shift;
        for entry in entries {
            self.insert(entry);
        }
        self.went_far = 0;
    }
}
