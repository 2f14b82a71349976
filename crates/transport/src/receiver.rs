//! The receiving half of a connection: reassembly, delayed ACKs (RFC 9293 §3.8.6.3, RFC 5681 §4.2), SACK blocks (RFC
//! 2018 §4), and the ECN echo of RFC 3168 §6.1.3 and RFC 8257 §3.2.
//!
//! The application reads at once, so the receive window is always the configured one. Left out: duplicate SACK (RFC
//! 2883), a limit of the reassembly list, Linux's quick ACKs at the start.

use crate::config::{Config, EcnMode};
use crate::segment::{Ecn, Flags, SackBlocks, Segment};
use crate::sequence::SequenceSpace;
use pauseframe_units::{Span, Time};

/// Data above a gap.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// Larger for the range that grew last: SACK reports it first.
    stamp: u32,
}

/// An ACK to send: the offset that it acknowledges and its ECE flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    pub(crate) offset: u64,
    pub(crate) ece: bool,
}

/// The receiving half. Offsets in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    rcv_nxt: u64,
    /// What the last ACK that was sent acknowledged.
    acked: u64,
    /// When the delayed ACK must go out; [`Time::MAX`]: none is waiting.
    pub(crate) ack_deadline: Time,
    /// In ascending order, disjoint and not adjacent, all above `rcv_nxt`.
    ranges: Vec<Range>,
    /// RFC 8257 §3.2: the ACK for what came before CE changed.
    before_change: Option<Ack>,
    space: SequenceSpace,
    stamp: u32,
    /// Number on the wire where the last segment with PSH above a gap ended.
    push: u32,
    /// An ACK goes out when more than this many bytes are unacknowledged.
    delay_bytes: u32,
    window: u32,
    ecn: EcnMode,
    /// What ECE says: whether the last packet had CE (RFC 8257), or CE came and no CWR since (RFC 3168).
    echo: bool,
    ack_now: bool,
}

impl Receiver {
    pub(crate) fn new(config: &Config, ecn: EcnMode, peer_iss: u32, mss: u32) -> Receiver {
        Receiver {
            rcv_nxt: 0,
            acked: 0,
            ack_deadline: Time::MAX,
            ranges: Vec::new(),
            before_change: None,
            space: SequenceSpace::after_syn(peer_iss),
            stamp: 0,
            push: peer_iss,
            // With 2 segments: at once when more than one full segment waits, as in Linux.
            delay_bytes: config.delayed_ack.segments.saturating_sub(1).saturating_mul(mss),
            window: config.receive_window,
            ecn,
            echo: false,
            ack_now: false,
        }
    }

    /// In-order bytes so far.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.rcv_nxt
    }

    /// The acknowledgement number of `offset`.
    #[inline]
    pub(crate) fn wire(&self, offset: u64) -> u32 {
        self.space.wire(offset)
    }

    /// Takes in the data of a segment that arrived with `codepoint`.
    #[inline]
    pub(crate) fn on_data(&mut self, segment: &Segment, codepoint: Ecn, now: Time, delay: Span) {
        if self.ecn != EcnMode::Off {
            self.on_codepoint(segment.flags, codepoint == Ecn::Ce);
        }
        if segment.seq == self.space.wire(self.rcv_nxt)
            && self.ranges.is_empty()
            && segment.len <= self.window
        {
            self.rcv_nxt += u64::from(segment.len);
            self.in_order(segment.flags, now, delay);
        } else {
            self.on_data_out_of_order(segment);
        }
    }

    /// RFC 5681 §4.2: at least every second full segment is acknowledged, and within `delay`.
    #[inline]
    fn in_order(&mut self, flags: Flags, now: Time, delay: Span) {
        if self.rcv_nxt - self.acked > u64::from(self.delay_bytes) {
            self.ack_now = true;
        } else if self.ack_deadline == Time::MAX {
            self.ack_deadline = now.saturating_add(delay);
        }
        if flags.has(Flags::PSH) && self.ranges.capacity() > 0 {
            self.release();
        }
    }

    /// The peer has nothing more for now, and there is no gap: an idle connection keeps no list.
    fn release(&mut self) {
        self.ranges = Vec::new();
    }

    /// As if `offset` bytes had come.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.rcv_nxt = offset;
        self.acked = offset;
    }

    /// Bytes of heap in use.
    #[cfg(test)]
    pub(crate) fn heap(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>()
    }

    #[inline]
    fn on_codepoint(&mut self, flags: Flags, ce: bool) {
        if flags.has(Flags::CWR) {
            // As Linux: a sender that has just shrunk its window must not wait for a delayed ACK.
            self.ack_now = true;
            if self.ecn == EcnMode::Classic {
                self.echo = false;
            }
        }
        if self.ecn == EcnMode::Classic {
            self.echo |= ce;
        } else if ce != self.echo {
            self.change_echo(ce);
        }
    }

    /// RFC 8257 §3.2: each ACK stands for packets that were all marked or all unmarked. What waits for its ACK
    /// gets it with the old state; as in Linux, the packet that brings the change is acknowledged at once too.
    #[cold]
    fn change_echo(&mut self, ce: bool) {
        if self.acked < self.rcv_nxt {
            // Where the host has not sent the ACK of an earlier change yet, the two become one.
            self.before_change = Some(Ack { offset: self.rcv_nxt, ece: self.echo });
        }
        self.echo = ce;
        self.ack_now = true;
    }

    /// RFC 5681 §4.2: a segment out of order, or one that fills a gap, is acknowledged at once.
    #[cold]
    fn on_data_out_of_order(&mut self, segment: &Segment) {
        self.ack_now = true;
        let ahead = i64::from(self.space.distance(segment.seq, self.rcv_nxt));
        let end = ahead.saturating_add(i64::from(segment.len)).min(i64::from(self.window));
        let start = ahead.max(0);
        if end <= start {
            // Old, or beyond the window (RFC 9293 §3.10.7.4): the ACK is all the answer.
            return;
        }
        let (start, end) = (self.rcv_nxt + start as u64, self.rcv_nxt + end as u64);
        self.insert(start, end);
        if segment.flags.has(Flags::PSH) {
            self.push = self.space.wire(end);
        }
        if self.ranges[0].start <= self.rcv_nxt {
            self.rcv_nxt = self.ranges.remove(0).end;
            if self.ranges.is_empty() && self.push == self.space.wire(self.rcv_nxt) {
                self.release();
            }
        }
    }

    /// Adds `start..end`, joining the ranges that it meets.
    fn insert(&mut self, start: u64, end: u64) {
        self.stamp = self.stamp.wrapping_add(1);
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end);
        if first == last {
            self.ranges.insert(first, Range { start, end, stamp: self.stamp });
            return;
        }
        let end = end.max(self.ranges[last - 1].end);
        let joined = &mut self.ranges[first];
        *joined = Range { start: start.min(joined.start), end, stamp: self.stamp };
        self.ranges.drain(first + 1..last);
    }

    /// The blocks of a SACK option, the most recently changed first (RFC 2018 §4).
    pub(crate) fn sack_blocks(&self, limit: usize) -> SackBlocks {
        let mut recent: [Option<&Range>; 4] = [None; 4];
        for range in &self.ranges {
            let mut carried = range;
            for slot in recent.iter_mut().take(limit) {
                match slot {
                    Some(held) if held.stamp >= carried.stamp => {}
                    _ => match slot.replace(carried) {
                        Some(older) => carried = older,
                        None => break,
                    },
                }
            }
        }
        let mut blocks = SackBlocks::default();
        for range in recent.into_iter().flatten() {
            blocks.blocks[usize::from(blocks.count)] =
                (self.space.wire(range.start), self.space.wire(range.end));
            blocks.count += 1;
        }
        blocks
    }

    /// Whether data wait above a gap.
    #[inline]
    pub(crate) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether an ACK may not wait for data to travel with: there is a gap to report, or one is owed for what came
    /// before a change of CE.
    #[inline]
    pub(crate) fn owes_separate_ack(&self) -> bool {
        self.before_change.is_some() || (self.ack_now && !self.ranges.is_empty())
    }

    /// Whether an ACK is due.
    #[inline]
    pub(crate) fn owes_ack(&self) -> bool {
        self.ack_now
    }

    /// Whether everything that came has been acknowledged.
    pub(crate) fn is_quiescent(&self) -> bool {
        !self.ack_now && self.before_change.is_none() && self.ack_deadline == Time::MAX
    }

    /// Asks for an ACK at once.
    pub(crate) fn request_ack(&mut self) {
        self.ack_now = true;
    }

    /// The ACK that the next segment carries, which ends the waiting for it. After [`Self::owes_separate_ack`] it can
    /// be the one for what came before a change of CE; the next one is due then.
    #[inline]
    pub(crate) fn take_ack(&mut self) -> Ack {
        if let Some(ack) = self.before_change.take() {
            self.acked = ack.offset;
            return ack;
        }
        self.acked = self.rcv_nxt;
        self.ack_now = false;
        self.ack_deadline = Time::MAX;
        Ack { offset: self.rcv_nxt, ece: self.echo }
    }
}
