//! Adapts the bucket width to the load.

use super::{BUCKET_COUNT, EventQueue, NIL_NODE, PendingEvent};
use std::cmp::Reverse;

/// Mean number of events per bucket above which buckets are not widened.
const MAX_BUCKET_LENGTH: f64 = 128.0;
/// The bounds of the shift: 4 ps to 1 ms.
const BUCKET_SHIFT_RANGE: std::ops::RangeInclusive<u32> = 2..=30;

impl EventQueue {
    /// Widens the buckets when more than a few events go to the heap, narrows them when their lists are long. Events of the same time share a bucket
    /// however narrow it is, so lists of two or three are no reason. Buckets that were too narrow before are narrowed again only under a much larger
    /// load, because the heap of a large network costs more than sorting a long bucket.
    #[cold]
    pub(super) fn adapt_width(&mut self) {
        // A rebuild costs time in proportion to the pending events, so at least as many events must pass between two rebuilds.
        if (self.pushed as usize) < self.open.len() + self.far.len() + self.nodes.len() {
            return;
        }
        let far = f64::from(self.went_far) / f64::from(self.pushed);
        let length = f64::from(self.gathered) / f64::from(self.long.max(1));
        (self.pushed, self.went_far, self.long, self.gathered) = (0, 0, 0, 0);
        let long = if self.shift > self.narrowest { 3.0 } else { 2.0 * MAX_BUCKET_LENGTH };
        let shift = if far > 0.02 && length < MAX_BUCKET_LENGTH {
            self.narrowest = self.shift + 1;
            self.shift + 1
        } else if far < 0.004 && length > long {
            self.shift - 1
        } else {
            return;
        };
        if BUCKET_SHIFT_RANGE.contains(&shift) {
            self.rebuild_buckets(shift);
        }
    }

    fn rebuild_buckets(&mut self, shift: u32) {
        let mut entries: Vec<PendingEvent> = std::mem::take(&mut self.open);
        for slot in 0..BUCKET_COUNT as usize {
            let mut index = std::mem::replace(&mut self.heads[slot], NIL_NODE);
            while index != NIL_NODE {
                entries.push(self.nodes[index as usize].entry);
                index = self.nodes[index as usize].next;
            }
        }
        entries.extend(std::mem::take(&mut self.far).into_iter().map(|Reverse(entry)| entry));
        self.nodes.clear();
        self.free = NIL_NODE;
        self.far_bucket = u64::MAX;
        self.occupied = [0; 64];
        self.shift = shift;
        // All remaining events are at or after the first entry, so its bucket becomes the open one. If none remain, all are in the lookahead buffer.
        let reached = self.lookahead.last().map_or(self.now, |last| last.time);
        let first = entries.iter().map(|entry| entry.time).min().unwrap_or(reached);
        self.open_bucket = first >> shift;
        for entry in entries {
            self.insert(entry);
        }
        self.went_far = 0;
    }
}
