//! Data above a gap: the reassembly list, the SACK blocks that report it (RFC 2018 §4, RFC 2883), and a limit of its
//! length, as FreeBSD has one (cee Table I: 200 segments).
//!
//! The list holds ranges, not segments, so the limit counts equivalent full segments. Left out: reneging (RFC 2018 §8).

use super::Receiver;
use crate::segment::{SackBlocks, Segment, TcpFlags};

/// Data above a gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfOrderRange {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Larger for the range that grew last: SACK reports it first.
    stamp: u32,
}

impl Receiver {
    /// RFC 5681 §4.2: a segment out of order, or one that fills a gap, is acknowledged at once.
    #[cold]
    pub(super) fn on_ofo_data(&mut self, segment: &Segment) {
        self.ack_now = true;
        let ahead = i64::from(self.space.distance(segment.seq, self.rcv_nxt));
        let end = ahead.saturating_add(i64::from(segment.len)).min(i64::from(self.window));
        let start = ahead.max(0);
        if ahead < 0 {
            self.record_old_duplicate(self.rcv_nxt.saturating_add_signed(ahead), segment.len);
        }
        if end <= start {
            // Old data, or data beyond the window (RFC 9293 §3.10.7.4): only an ACK is sent.
            let announced = self.announced_window();
            if let Some(adaptive) = &mut self.adaptive {
                adaptive.on_unacceptable_data(announced);
            }
            return;
        }
        let (start, end) = (self.rcv_nxt + start as u64, self.rcv_nxt + end as u64);
        if !self.can_insert(start, end) {
            return;
        }
        self.record_overlap(start, end);
        if start > self.rcv_nxt {
            self.flush_held_report(start, end);
        }
        self.insert_range(start, end);
        if segment.flags.contains(TcpFlags::PSH) {
            self.push = self.space.wire_seq(end);
        }
        if self.ranges[0].start <= self.rcv_nxt {
            let filled = self.ranges.remove(0).end;
            self.advance_rcv_nxt(filled);
            if self.ranges.is_empty() && self.push == self.space.wire_seq(self.rcv_nxt) {
                self.release_reassembly();
            }
        }
    }

    /// RFC 2883 §4.1.1: a segment that begins below RCV.NXT is at least partly a duplicate.
    fn record_old_duplicate(&mut self, start: u64, len: u32) {
        let end = (start + u64::from(len)).min(self.rcv_nxt);
        if let Some(adaptive) = &mut self.adaptive
            && start < end
        {
            adaptive.record_duplicate(start, end);
        }
    }

    /// RFC 2883 §4.1.2: the part of `start..end` that is already in the list is a duplicate.
    fn record_overlap(&mut self, start: u64, end: u64) {
        let Some(adaptive) = &mut self.adaptive else { return };
        let overlap = self.ranges.iter().find(|range| range.start < end && start < range.end);
        if let Some(range) = overlap {
            adaptive.record_duplicate(start.max(range.start), end.min(range.end));
        }
    }

    /// Whether the list has space for `start..end`. The next in-order segment always has, because it shortens the list (as FreeBSD's `tcp_reass`).
    fn can_insert(&self, start: u64, end: u64) -> bool {
        let Some(adaptive) = &self.adaptive else { return true };
        let limit = adaptive.max_reassembly_bytes();
        start <= self.rcv_nxt || self.bytes_above_gap() + (end - start) <= limit
    }

    /// How many ranges grew more recently than the one that `start..end` makes larger, or all ranges if it makes a new one.
    pub(super) fn ranges_before(&self, start: u64, end: u64) -> usize {
        let touched = self.ranges.iter().filter(|range| range.start <= end && start <= range.end);
        let Some(newest) = touched.map(|range| range.stamp).max() else { return self.ranges.len() };
        self.ranges.iter().filter(|range| range.stamp > newest).count()
    }

    /// Bytes in the list.
    pub(super) fn bytes_above_gap(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Adds `start..end` and merges adjacent ranges.
    fn insert_range(&mut self, start: u64, end: u64) {
        self.stamp = self.stamp.wrapping_add(1);
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end);
        if first == last {
            self.ranges.insert(first, OutOfOrderRange { start, end, stamp: self.stamp });
            return;
        }
        let end = end.max(self.ranges[last - 1].end);
        let joined = &mut self.ranges[first];
        *joined = OutOfOrderRange { start: start.min(joined.start), end, stamp: self.stamp };
        self.ranges.drain(first + 1..last);
    }

    /// Whether the ranges are in order, disjoint and above `rcv_nxt`.
    pub(crate) fn has_ordered_ranges(&self) -> bool {
        let before = std::iter::once(self.rcv_nxt).chain(self.ranges.iter().map(|range| range.end));
        before.zip(&self.ranges).all(|(before, range)| before < range.start && range.start < range.end)
    }

    /// Moves the first range below `rcv_nxt`, for tests of the recount.
    #[cfg(test)]
    pub(crate) fn corrupt_first_range(&mut self) {
        self.ranges[0].start = self.rcv_nxt;
    }

    /// The blocks of a SACK option: a duplicate first (RFC 2883), then ranges, most recently changed first (RFC 2018 §4).
    pub(crate) fn build_sack_blocks(&mut self, limit: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let duplicate = self.adaptive.as_mut().and_then(|adaptive| adaptive.take_duplicate());
        if let Some((start, end)) = duplicate {
            blocks.blocks[0] = (self.space.wire_seq(start), self.space.wire_seq(end));
            blocks.count = 1;
        }
        let mut recent: [Option<&OutOfOrderRange>; 4] = [None; 4];
        for range in &self.ranges {
            let mut carried = range;
            for slot in recent.iter_mut().take(limit - usize::from(blocks.count)) {
                match slot {
                    Some(held) if held.stamp >= carried.stamp => {}
                    _ => match slot.replace(carried) {
                        Some(older) => carried = older,
                        None => break,
                    },
                }
            }
        }
        for range in recent.into_iter().flatten() {
            blocks.blocks[usize::from(blocks.count)] =
                (self.space.wire_seq(range.start), self.space.wire_seq(range.end));
            blocks.count += 1;
        }
        blocks
    }
}
