//! The scoreboard of segments in flight (RFC 6675): one record per segment with its send time and state.
//!
//! It provides RTT samples (Karn's rule), the pipe, the next retransmission and go-back-N after a timeout. Without SACK only the marks "lost" and
//! "retransmitted" are used.
//!
//! A segment counts as lost (RFC 6675 `IsLost`) when `dup_thresh` segments sent above it were sacked.
// Deviates from RFC 6675 §4: segments are counted, as Linux does, where the RFC counts bytes; for full segments that
// is the same, for short ones it detects a loss where the RFC waits for the timeout.

use crate::recovery::{NewlyDelivered, RackLossDetectionResult};
use crate::segment::SackBlocks;
use crate::sequence::SequenceSpace;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// Reported by SACK: it has left the network.
const SACKED: u8 = 1;
/// Presumed lost.
const LOST: u8 = 2;
/// Retransmitted since it was last presumed lost; the copy is in the network.
const RETRANSMITTED: u8 = 4;
/// Sent more than once: no RTT sample from it (Karn's rule).
const AMBIGUOUS: u8 = 8;
/// Presumed lost and retransmitted.
const RESENT: u8 = LOST | RETRANSMITTED;

/// One segment in flight. It begins where the one before it ends (the first at `snd_una`).
#[derive(Clone, Copy, Debug)]
struct SentSegment {
    end: u64,
    sent_at: Time,
    state: u8,
}

impl SentSegment {
    #[inline]
    fn has_any(self, state: u8) -> bool {
        self.state & state != 0
    }
}

/// A segment to retransmit, with its index in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retransmission {
    index: usize,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// The segments in flight, in the order of their sequence numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    queue: VecDeque<SentSegment>,
    /// Weight of a segment in the sums below, as Linux windows count packets; 0: its bytes.
    weight: u32,
    /// Bytes sacked.
    sacked: u64,
    /// Bytes presumed lost and not yet retransmitted. (No sum exceeds a window, which fits 32 bits.)
    lost: u32,
    /// Bytes retransmitted without being presumed lost (RFC 6675 `NextSeg` rules 3 and 4), so in the network twice.
    doubled: u32,
    /// Bytes presumed lost and retransmitted.
    resent: u32,
    /// End of the highest sacked segment.
    high_sacked: u64,
    /// [`Self::mark_lost`] has checked everything below.
    judged: u64,
    /// No segment below is waiting for its retransmission.
    high_rxt: u64,
    /// The blocks of the last SACK option, whose data are already marked.
    seen: Option<Box<SackBlocks>>,
}

impl Scoreboard {
    /// Every segment counts as `mss` bytes, however short it is.
    pub(crate) fn counting_packets(mss: u32) -> Scoreboard {
        Scoreboard { weight: mss, ..Scoreboard::default() }
    }

    /// Window space of a segment of `len` bytes.
    #[inline]
    pub(crate) fn segment_space(&self, len: u64) -> u64 {
        if self.weight == 0 { len } else { u64::from(self.weight) }
    }

    /// Window space of the `bytes` between `snd_una` and `snd_nxt`.
    #[inline]
    pub(crate) fn flight_space(&self, bytes: u64) -> u64 {
        if self.weight == 0 { bytes } else { self.queue.len() as u64 * u64::from(self.weight) }
    }

    /// Whether segments are counted, not bytes.
    #[inline]
    pub(crate) fn counts_packets(&self) -> bool {
        self.weight != 0
    }

    /// Rounds a window of `bytes` to whole segments, if segments are counted.
    pub(crate) fn round_to_segments(&self, bytes: u64) -> u64 {
        if self.weight == 0 { bytes } else { bytes - bytes % u64::from(self.weight) }
    }

    /// Sets the peer's MSS.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        if self.weight != 0 {
            self.weight = mss;
        }
    }

    /// Notes that bytes up to `end` were sent for the first time. A SYN is a segment without bytes.
    #[inline]
    pub(crate) fn record_sent(&mut self, end: u64, now: Time) {
        self.queue.push_back(SentSegment { end, sent_at: now, state: 0 });
    }

    /// Extends the last segment, just sent, by the FIN.
    pub(crate) fn extend_by_fin(&mut self, end: u64) {
        if let Some(last) = self.queue.back_mut() {
            last.end = end;
        }
    }

    /// Whether nothing is in flight.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes between `snd_una` and `snd_nxt` that are not in the network, minus those that are there twice: pipe = flight size - this.
    #[inline]
    pub(crate) fn bytes_not_in_network(&self) -> u64 {
        (self.sacked + u64::from(self.lost)).saturating_sub(u64::from(self.doubled))
    }

    /// The first segment, which the next ACK reads.
    #[inline]
    pub(crate) fn first_segment(&self) -> Option<&impl Sized> {
        self.queue.front()
    }

    /// Whether a segment waits for its retransmission.
    #[inline]
    pub(crate) fn has_lost_segment(&self) -> bool {
        self.lost > 0
    }

    /// Whether a segment presumed lost has not been reported as arrived, retransmitted or not (Linux `lost_out`).
    pub(crate) fn has_unrecovered_loss(&self) -> bool {
        self.lost > 0 || self.resent > 0
    }

    /// Bytes presumed lost and retransmitted whose copy has not been reported as arrived.
    pub(crate) fn retransmitted_bytes_in_flight(&self) -> u64 {
        u64::from(self.resent)
    }

    /// Bytes whose retransmission has not been reported as arrived (Linux `retrans_out`).
    pub(crate) fn copies_in_flight(&self) -> u64 {
        u64::from(self.resent) + u64::from(self.doubled)
    }

    /// Bytes sacked.
    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked
    }

    /// Bytes that wait for their retransmission.
    pub(crate) fn bytes_to_retransmit(&self) -> u64 {
        u64::from(self.lost)
    }

    /// Removes the segments that a cumulative ACK from `una` to `to` covers. Returns the send times of the oldest and the newest of them as RTT
    /// samples, if none was sent twice (RFC 6298 §3). The newest is one without an earlier SACK, if there is one.
    #[inline]
    pub(crate) fn remove_acked(&mut self, una: u64, to: u64) -> Option<(Time, Time)> {
        let mut start = una;
        let mut sent: Option<(Time, Time)> = None;
        let mut ambiguous = false;
        while let Some(segment) = self.queue.front() {
            let SentSegment { end, sent_at, state } = *segment;
            if state != 0 {
                if self.weight == 0 || end <= to {
                    self.subtract_segment(state, end.min(to) - start);
                }
                ambiguous |= state & AMBIGUOUS != 0 && end <= to;
            }
            if end > to {
                break;
            }
            self.queue.pop_front();
            sent = match sent {
                Some(span) if state & SACKED != 0 => Some(span),
                Some((oldest, _)) => Some((oldest, sent_at)),
                None => Some((sent_at, sent_at)),
            };
            if end == to {
                break;
            }
            start = end;
        }
        if ambiguous { None } else { sent }
    }

    /// Subtracts `len` bytes of a segment in `state` from the sums.
    #[cold]
    #[inline(never)]
    fn subtract_segment(&mut self, state: u8, len: u64) {
        let len = self.segment_space(len);
        match state & (SACKED | LOST | RETRANSMITTED) {
            LOST => self.lost -= len as u32,
            RETRANSMITTED => self.doubled -= len as u32,
            RESENT => self.resent -= len as u32,
            state if state & SACKED != 0 => self.sacked -= len,
            _ => {}
        }
    }

    /// Changes the state of a segment of `len` bytes and updates the sums.
    fn set_state(&mut self, index: usize, state: u8, len: u64) {
        self.subtract_segment(self.queue[index].state, len);
        let len = self.segment_space(len);
        match state & (SACKED | LOST | RETRANSMITTED) {
            LOST => self.lost += len as u32,
            RETRANSMITTED => self.doubled += len as u32,
            RESENT => self.resent += len as u32,
            state if state & SACKED != 0 => self.sacked += len,
            _ => {}
        }
        self.queue[index].state = state;
    }

    /// Start of the segment at `index`.
    fn segment_start(&self, index: usize, una: u64) -> u64 {
        if index == 0 { una } else { self.queue[index - 1].end }
    }

    /// The first segment that ends above `offset`.
    fn first_ending_above(&self, offset: u64) -> usize {
        self.queue.partition_point(|segment| segment.end <= offset)
    }

    /// Marks the data that `blocks` report (RFC 6675 §4 `Update`) and returns the newly sacked bytes. Ignores blocks outside the flight, which are
    /// old or invalid. `delivery` collects the newly reported data, if needed.
    pub(crate) fn mark_sacked(
        &mut self,
        blocks: &SackBlocks,
        space: SequenceSpace,
        una: u64,
        nxt: u64,
        mut delivery: Option<&mut NewlyDelivered>,
    ) -> u64 {
        let before = self.sacked;
        for &(left, right) in blocks.blocks.iter().take(usize::from(blocks.count)) {
            let (left, right) = self.new_block_part(left, right);
            let from = una.saturating_add_signed(i64::from(space.distance(left, una)));
            let to = una.saturating_add_signed(i64::from(space.distance(right, una)));
            if una <= from && from < to && to <= nxt {
                self.mark_range_sacked(from, to, una, delivery.as_deref_mut());
            }
        }
        match &mut self.seen {
            Some(seen) => **seen = *blocks,
            none => *none = Some(Box::new(*blocks)),
        }
        self.sacked - before
    }

    /// The part of a block that the last SACK option did not report: options repeat blocks, and long blocks grow at one end.
    fn new_block_part(&self, left: u32, right: u32) -> (u32, u32) {
        let Some(seen) = &self.seen else { return (left, right) };
        for &(l, r) in seen.blocks.iter().take(usize::from(seen.count)) {
            if l == left && right.wrapping_sub(r) as i32 >= 0 {
                return (r, right);
            }
            if r == right && l.wrapping_sub(left) as i32 >= 0 {
                return (left, l);
            }
        }
        (left, right)
    }

    fn mark_range_sacked(&mut self, from: u64, to: u64, una: u64, mut delivery: Option<&mut NewlyDelivered>) {
        let mut index = self.first_ending_above(from);
        let mut start = self.segment_start(index, una);
        if start < from {
            // The block begins inside this segment, whose first part has not been reported.
            start = self.queue[index].end;
            index += 1;
        }
        while let Some(&segment) = self.queue.get(index) {
            if segment.end > to {
                break;
            }
            if !segment.has_any(SACKED) {
                self.set_state(index, segment.state | SACKED, segment.end - start);
                self.high_sacked = self.high_sacked.max(segment.end);
                if let Some(delivery) = delivery.as_deref_mut() {
                    delivery.bytes += self.segment_space(segment.end - start);
                    delivery.record_sacked(segment.sent_at, start, segment.end, segment.has_any(AMBIGUOUS));
                }
            }
            start = segment.end;
            index += 1;
        }
    }

    /// Notes the data that an ACK from `una` to `to` newly reports as delivered; call before processing the ACK.
    #[inline]
    pub(crate) fn record_acked(&self, una: u64, to: u64, delivery: &mut NewlyDelivered) {
        let mut start = una;
        for segment in &self.queue {
            if start >= to {
                return;
            }
            if !segment.has_any(SACKED) {
                if segment.end <= to {
                    delivery.bytes += self.segment_space(segment.end - start);
                    delivery.record_acked(segment.sent_at, start, segment.end, segment.has_any(AMBIGUOUS));
                } else if self.weight == 0 {
                    delivery.bytes += to - start;
                }
            }
            start = segment.end;
        }
    }

    /// End of the highest sacked segment.
    pub(crate) fn highest_sacked(&self) -> u64 {
        self.high_sacked
    }

    /// Whether at least `count` segments are sacked.
    pub(crate) fn has_sacked(&self, count: u32) -> bool {
        self.sacked > 0
            && self
                .queue
                .iter()
                .filter(|segment| segment.has_any(SACKED))
                .nth(count.max(1) as usize - 1)
                .is_some()
    }

    /// Segments in flight.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether one segment is in flight.
    pub(crate) fn is_single_segment(&self) -> bool {
        self.queue.len() == 1
    }

    /// When the first segment was last sent.
    pub(crate) fn head_sent_at(&self) -> Option<Time> {
        self.queue.front().map(|head| head.sent_at)
    }

    /// When the last segment was last sent.
    pub(crate) fn tail_sent_at(&self) -> Option<Time> {
        self.queue.back().map(|last| last.sent_at)
    }

    /// RFC 8985 §6.2 step 5: marks segments that were sent before `latest` (time and end of a segment) and are at least `age` old.
    pub(crate) fn mark_lost_by_time(
        &mut self,
        latest: (Time, u64),
        age: Span,
        now: Time,
        una: u64,
    ) -> RackLossDetectionResult {
        let mut detected = RackLossDetectionResult::default();
        for index in 0..self.queue.len() {
            let segment = self.queue[index];
            if (segment.sent_at, segment.end) >= latest {
                if !segment.has_any(AMBIGUOUS) {
                    // It was sent once, so everything behind it was sent later.
                    break;
                }
                continue;
            }
            if segment.has_any(SACKED) || segment.state & (LOST | RETRANSMITTED) == LOST {
                continue;
            }
            let due = segment.sent_at.saturating_add(age);
            if due > now {
                detected.wait = detected.wait.max(Some(due.saturating_since(now)));
            } else {
                detected.loss = true;
                detected.retransmission |= segment.has_any(RETRANSMITTED);
                self.mark_for_retransmission(index, una);
            }
        }
        detected
    }

    /// Number of segments at the head of the queue with at least `dup_thresh` sacked segments above them.
    fn count_lost(&self, dup_thresh: u32) -> usize {
        let mut missing = dup_thresh.max(1);
        let mut index = if self.sacked == 0 {
            0
        } else {
            (self.first_ending_above(self.high_sacked - 1) + 1).min(self.queue.len())
        };
        while index > 0 {
            index -= 1;
            if self.queue[index].has_any(SACKED) {
                missing -= 1;
                if missing == 0 {
                    return index;
                }
            }
        }
        0
    }

    /// RFC 6675 `IsLost(HighACK + 1)`, unless it has already been retransmitted.
    pub(crate) fn is_head_lost(&self, dup_thresh: u32) -> bool {
        self.queue.front().is_some_and(|head| !head.has_any(SACKED | RETRANSMITTED))
            && self.count_lost(dup_thresh) > 0
    }

    /// Marks every segment that counts as lost now.
    pub(crate) fn mark_lost(&mut self, dup_thresh: u32, una: u64) {
        let overtaken = self.count_lost(dup_thresh);
        if overtaken == 0 {
            return;
        }
        let first = self.first_ending_above(self.judged);
        for index in first..overtaken {
            if !self.queue[index].has_any(SACKED | LOST) {
                self.mark_segment_lost(index, una);
            }
        }
        self.judged = self.judged.max(self.queue[overtaken - 1].end);
    }

    /// Marks the first segment as lost, so that it is retransmitted.
    pub(crate) fn mark_head_lost(&mut self, una: u64) {
        if self.queue.front().is_some_and(|head| !head.has_any(SACKED)) {
            self.mark_for_retransmission(0, una);
        }
    }

    /// Whether the first segment is presumed lost, retransmitted or not.
    pub(crate) fn is_first_lost(&self) -> bool {
        self.queue.front().is_some_and(|head| head.has_any(LOST))
    }

    /// Whether a segment that ends at or below `to` was sent more than once.
    pub(crate) fn has_resent_below(&self, to: u64) -> bool {
        let mut below = self.queue.iter().take_while(|segment| segment.end <= to);
        below.any(|segment| segment.has_any(AMBIGUOUS))
    }

    /// Number of segments between `from` and `to` that were sent more than once.
    pub(crate) fn count_resent(&self, from: u64, to: u64) -> u32 {
        let within = self.queue.range(self.first_ending_above(from)..);
        let within = within.take_while(|segment| segment.end <= to);
        within.filter(|segment| segment.has_any(AMBIGUOUS)).count() as u32
    }

    /// Marks all segments lost after a timeout, except sacked ones, also retransmissions (RFC 6675 §5.1). If the first segment is sacked, the
    /// receiver has discarded it, and all SACKs are forgotten (RFC 2018 §8). Segments behind the first that were sent after `recent` are not marked.
    pub(crate) fn mark_all_lost(&mut self, una: u64, recent: Option<Time>) {
        if self.queue.front().is_some_and(|head| head.has_any(SACKED)) {
            self.forget_sacks(una);
        }
        for index in 0..self.queue.len() {
            let segment = self.queue[index];
            let spared = index > 0 && recent.is_some_and(|recent| segment.sent_at > recent);
            if !segment.has_any(SACKED) && !spared {
                self.mark_for_retransmission(index, una);
            }
        }
        self.judged = self.judged.max(self.queue.back().map_or(0, |last| last.end));
    }

    fn forget_sacks(&mut self, una: u64) {
        for index in 0..self.queue.len() {
            let segment = self.queue[index];
            if segment.has_any(SACKED) {
                let len = segment.end - self.segment_start(index, una);
                self.set_state(index, segment.state & AMBIGUOUS, len);
            }
        }
        self.high_sacked = una;
        self.seen = None;
    }

    /// Removes the loss marks of a spurious timeout.
    pub(crate) fn remove_loss_marks(&mut self, una: u64) {
        for index in 0..self.queue.len() {
            let segment = self.queue[index];
            if segment.has_any(LOST) {
                let len = segment.end - self.segment_start(index, una);
                self.set_state(index, segment.state & !LOST, len);
            }
        }
    }

    /// Adds the mark "lost" and keeps the mark "retransmitted". Segments are marked in ascending order, so `high_rxt` lies below.
    fn mark_segment_lost(&mut self, index: usize, una: u64) {
        let segment = self.queue[index];
        self.set_state(index, segment.state | LOST, segment.end - self.segment_start(index, una));
    }

    /// Marks a segment as lost and not retransmitted.
    fn mark_for_retransmission(&mut self, index: usize, una: u64) {
        let start = self.segment_start(index, una);
        let segment = self.queue[index];
        self.set_state(index, (segment.state & AMBIGUOUS) | LOST, segment.end - start);
        self.high_rxt = self.high_rxt.min(start);
    }

    /// The first lost segment that has not been retransmitted: RFC 6675 `NextSeg` rule 1.
    pub(crate) fn take_next_lost(&mut self, una: u64) -> Option<Retransmission> {
        if self.lost == 0 {
            return None;
        }
        let first = self.first_ending_above(self.high_rxt);
        let index = (first..self.queue.len())
            .find(|&i| self.queue[i].state & (SACKED | LOST | RETRANSMITTED) == LOST)?;
        let found = self.retransmission_at(index, una);
        self.high_rxt = found.offset;
        Some(found)
    }

    /// The first segment below the highest sacked one that is neither sacked nor retransmitted: rule 3, used if there is no new data to send.
    pub(crate) fn next_hole(&self, una: u64) -> Option<Retransmission> {
        if self.sacked == 0 {
            return None;
        }
        let end = self.first_ending_above(self.high_sacked - 1);
        let first = self.first_ending_above(self.judged).min(end);
        let index = (first..end).find(|&i| !self.queue[i].has_any(SACKED | LOST | RETRANSMITTED))?;
        Some(self.retransmission_at(index, una))
    }

    /// The last segment, if it is neither sacked nor retransmitted: rule 4, the rescue retransmission.
    pub(crate) fn last_hole(&self, una: u64) -> Option<Retransmission> {
        let index = (0..self.queue.len()).rev().find(|&i| !self.queue[i].has_any(SACKED))?;
        (!self.queue[index].has_any(LOST | RETRANSMITTED)).then(|| self.retransmission_at(index, una))
    }

    /// The last segment, unless it is sacked: a tail loss probe retransmits it.
    pub(crate) fn last_unsacked(&self, una: u64) -> Option<Retransmission> {
        let index = self.queue.len().checked_sub(1)?;
        (!self.queue[index].has_any(SACKED)).then(|| self.retransmission_at(index, una))
    }

    /// Records that `what` was retransmitted as a probe, which does not count as in the network (as Linux).
    pub(crate) fn record_probe(&mut self, what: Retransmission, now: Time) {
        self.queue[what.index].state |= AMBIGUOUS;
        self.queue[what.index].sent_at = now;
    }

    fn retransmission_at(&self, index: usize, una: u64) -> Retransmission {
        let offset = self.segment_start(index, una);
        Retransmission { index, offset, len: (self.queue[index].end - offset) as u32 }
    }

    /// Records the retransmission of `what`. The scoreboard must not have changed since it was chosen.
    pub(crate) fn record_retransmission(&mut self, what: Retransmission, now: Time) {
        let state = self.queue[what.index].state | RETRANSMITTED | AMBIGUOUS;
        self.set_state(what.index, state, u64::from(what.len));
        self.queue[what.index].sent_at = now;
    }

    /// Records the retransmission of the SYN, the only segment in the queue.
    pub(crate) fn record_syn_retransmission(&mut self) {
        if let Some(syn) = self.queue.front_mut() {
            syn.state |= AMBIGUOUS;
        }
    }

    /// Frees the memory; nothing may be in flight.
    pub(crate) fn release_memory(&mut self) {
        debug_assert!(self.queue.is_empty() && self.sacked == 0 && self.lost == 0 && self.doubled == 0);
        self.queue = VecDeque::new();
        self.seen = None;
    }

    /// Bytes of heap in use.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<SentSegment>()
            + self.seen.as_ref().map_or(0, |_| size_of::<SackBlocks>())
    }

    /// Makes a sum wrong, for tests of the recount.
    #[cfg(test)]
    pub(crate) fn corrupt_sacked_bytes(&mut self) {
        self.sacked += 1;
    }

    /// Whether the sums agree with the records, and these with the data in flight; takes time linear in the flight.
    pub(crate) fn is_consistent(&self, una: u64, nxt: u64) -> bool {
        let mut start = una;
        let (mut sacked, mut lost, mut doubled, mut resent) = (0, 0, 0, 0);
        for segment in &self.queue {
            let Some(bytes) = segment.end.checked_sub(start) else { return false };
            let len = self.segment_space(bytes);
            match segment.state & (SACKED | LOST | RETRANSMITTED) {
                LOST => lost += len as u32,
                RETRANSMITTED => doubled += len as u32,
                RESENT => resent += len as u32,
                state if state & SACKED != 0 => sacked += len,
                _ => {}
            }
            start = segment.end;
        }
        (sacked, lost, doubled, resent) == (self.sacked, self.lost, self.doubled, self.resent)
            && (start == nxt || self.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Segments of 1000 bytes that were sent at these microseconds.
    fn sent(times: &[u64]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for (end, us) in (1..).zip(times) {
            board.record_sent(1000 * end, at(*us));
        }
        board
    }

    /// The first bytes of the lost segments, in the order in which they are sent again.
    fn lost(board: &mut Scoreboard) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some(what) = board.take_next_lost(0) {
            board.record_retransmission(what, at(1000));
            found.push(what.offset);
        }
        found
    }

    /// RFC 8985 §6.2, `RACK_sent_after`: of two segments sent at the same time the one with the higher end was sent later. The last one delivered is not
    /// lost itself, nor is one that was sent less than `age` ago.
    #[test]
    fn only_what_was_sent_before_the_last_delivery_is_lost() {
        for (latest, age, gone, wait) in [
            ((1, 1000), 0, vec![], None),
            ((1, 1001), 0, vec![0], None),
            ((2, 2000), 0, vec![0], None),
            ((2, 3000), 0, vec![0, 1000], None),
            ((2, 3000), 5, vec![0, 1000], None),
            ((2, 3000), 6, vec![0], Some(1)),
            ((2, 3000), 9, vec![], Some(4)),
        ] {
            let mut board = sent(&[1, 2, 2, 3]);
            let latest = (at(latest.0), latest.1);
            let found = board.mark_lost_by_time(latest, Span::from_us(age), at(7), 0);
            assert_eq!(
                (found.loss, found.wait),
                (!gone.is_empty(), wait.map(Span::from_us)),
                "{latest:?} {age}"
            );
            assert_eq!(lost(&mut board), gone, "{latest:?} {age}");
        }
    }

    /// `tcp_timeout_mark_lost`: what was sent less than a round trip ago is spared, except the first segment, whose timer has expired.
    #[test]
    fn a_timeout_spares_recent_segments_but_not_the_first() {
        for (recent, gone) in [
            (None, vec![0, 1000, 2000]),
            (Some(3), vec![0, 1000, 2000]),
            (Some(2), vec![0, 1000]),
            (Some(1), vec![0]),
            (Some(0), vec![0]),
        ] {
            let mut board = sent(&[1, 2, 3]);
            board.mark_all_lost(0, recent.map(at));
            assert_eq!(lost(&mut board), gone, "{recent:?}");
        }
    }
}
