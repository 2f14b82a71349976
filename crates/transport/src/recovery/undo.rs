//! Undo by D-SACK (RFC 2883), which reports needless retransmissions. Once all retransmissions of a reduction are known to be needless, the reduction
//! is undone (RFC 3708, Linux). ECE in the meantime forbids this, because the network was congested.
//!
//! Left out: Eifel detection by timestamps (RFC 3522); the simulated option carries no values.

use crate::segment::SackBlocks;
use crate::sequence::SequenceSpace;

/// State for undoing a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UndoState {
    /// `snd_una` when the reduction began; `None`: nothing to undo.
    marker: Option<u64>,
    /// Retransmissions since then, or on their way then, that no D-SACK has reported; `None`: none sent yet.
    needless: Option<u32>,
    /// cwnd and ssthresh before; `None`: not to be restored.
    before: Option<(u64, u64)>,
    /// D-SACK reports over the life of the connection, segments.
    reports: u32,
}

impl UndoState {
    /// Begins a loss reduction. `before`: cwnd and ssthresh, if they may be restored. `copies`: retransmissions already in flight, which D-SACK may
    /// still report (Linux `tcp_init_undo`).
    pub(super) fn begin_reduction(&mut self, snd_una: u64, before: Option<(u64, u64)>, copies: u32) {
        *self =
            UndoState { marker: Some(snd_una), needless: (copies > 0).then_some(copies), before, ..*self };
    }

    /// Discards the saved state: the reduction stays.
    pub(super) fn discard(&mut self) {
        self.marker = None;
    }

    /// Forbids restoring the windows.
    pub(super) fn forbid(&mut self) {
        self.before = None;
    }

    /// Counts a retransmission.
    pub(super) fn count_retransmission(&mut self) {
        if self.marker.is_some() {
            self.needless = Some(self.needless.unwrap_or(0) + 1);
        }
    }

    /// Counts `segments` reported by D-SACK. False: more than the `retransmits` ever sent, so the network duplicated them.
    pub(super) fn count_dsack(&mut self, segments: u32, retransmits: u32) -> bool {
        self.reports = self.reports.saturating_add(segments);
        self.reports <= retransmits
    }

    /// Counts needless retransmissions of `segments` that end at `end`.
    pub(super) fn count_needless(&mut self, segments: u32, end: u64) {
        if self.marker.is_some_and(|marker| end > marker) {
            self.needless = self.needless.map(|needless| needless.saturating_sub(segments));
        }
    }

    /// Whether all retransmissions of the last reduction are known to have been needless.
    pub(super) fn were_all_needless(&self) -> bool {
        self.marker.is_some() && self.needless == Some(0)
    }

    /// Ends the reduction and returns the cwnd and ssthresh to restore.
    pub(super) fn end_reduction(&mut self) -> Option<(u64, u64)> {
        self.marker = None;
        self.before
    }
}

/// The duplicate range of a D-SACK block relative to `snd_una`. The first block is a D-SACK if it lies below the ACK or within the second block (RFC
/// 2883 §4).
pub(super) fn dsack_range(blocks: &SackBlocks, space: SequenceSpace, snd_una: u64) -> Option<(i64, i64)> {
    let offset = |wire: u32| i64::from(space.distance(wire, snd_una));
    let (start, end) = (offset(blocks.blocks[0].0), offset(blocks.blocks[0].1));
    let within = blocks.count > 1 && {
        let (outer_start, outer_end) = (offset(blocks.blocks[1].0), offset(blocks.blocks[1].1));
        outer_start <= start && end <= outer_end
    };
    (blocks.count > 0 && start < end && (end <= 0 || within)).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tcp_check_dsack`: a report counts if it ends above the start of the reduction.
    #[test]
    fn retransmissions_before_the_reduction_do_not_count() {
        for (end, is_needless) in [(1000, false), (1001, true), (5000, true)] {
            let mut undo = UndoState::default();
            undo.begin_reduction(1000, Some((10_000, 8000)), 0);
            undo.count_retransmission();
            undo.count_needless(1, end);
            assert_eq!(undo.were_all_needless(), is_needless, "{end}");
        }
    }

    /// RFC 2883 §4: the first block lies below the ACK, or within the second one. A block without bytes is none (`tcp_is_sackblock_valid`).
    #[test]
    fn a_dsack_block_lies_below_the_ack_or_within_the_second_block() {
        let space = SequenceSpace::after_syn(99);
        let wire = |range: (u64, u64)| (space.wire_seq(range.0), space.wire_seq(range.1));
        for (first, second, found) in [
            ((1000, 2000), None, Some((-4000, -3000))),
            ((4000, 5000), None, Some((-1000, 0))),
            ((4000, 5001), None, None),
            ((4000, 4000), None, None),
            ((7500, 7500), Some((6000, 9000)), None),
            ((7000, 8000), None, None),
            ((7000, 8000), Some((6000, 9000)), Some((2000, 3000))),
            ((7000, 8000), Some((7000, 8000)), Some((2000, 3000))),
            ((7000, 8000), Some((7001, 9000)), None),
            ((7000, 8000), Some((6000, 7999)), None),
        ] {
            let blocks = [wire(first), wire(second.unwrap_or_default()), (0, 0), (0, 0)];
            let blocks = SackBlocks { count: 1 + u8::from(second.is_some()), blocks };
            assert_eq!(dsack_range(&blocks, space, 5000), found, "{first:?} {second:?}");
        }
    }
}
