//! The receiving half of a connection: reassembly, delayed ACKs (RFC 9293 §3.8.6.3, RFC 5681 §4.2), SACK blocks (RFC
//! 2018 §4), and the ECN echo of RFC 3168 §6.1.3 and RFC 8257 §3.2.
//!
//! This file is the plain receiver: a fixed window, an application that reads at once. What an operating system adds
//! (quick ACKs, windows that grow, a slow reader, D-SACK, a limit of the list) stands in `adaptive.rs` and is reached
//! through one pointer, which is null where nothing of it is asked for.

mod adaptive;
mod buffer;
mod gro;
mod linux_acks;
mod reader;
mod reassembly;

use crate::config::{Config, EcnMode};
use crate::rtt::Rtt;
use crate::segment::{Ecn, Flags, Segment};
use crate::sequence::SequenceSpace;
use adaptive::Adaptive;
pub(crate) use gro::{Merged, Taken};
use pauseframe_units::{Span, Time};
use reassembly::Range;

/// An ACK to send: the offset that it acknowledges and its ECE flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    pub(crate) offset: u64,
    pub(crate) ece: bool,
}

/// No offset.
const NONE: u64 = u64::MAX;

/// The receiving half. Offsets in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    rcv_nxt: u64,
    /// What the last ACK that was sent acknowledged.
    acked: u64,
    /// When [`Self::on_timeout`] is due: the delayed ACK, or the next read of a slow reader. [`Time::MAX`]: nothing is.
    pub(crate) deadline: Time,
    /// In ascending order, disjoint and not adjacent, all above `rcv_nxt`.
    ranges: Vec<Range>,
    /// RFC 8257 §3.2: end of what came before CE changed, whose ACK is due with the old state; [`NONE`]: nothing.
    before_change: u64,
    /// What goes beyond the plain receiver, if anything.
    adaptive: Option<Box<Adaptive>>,
    space: SequenceSpace,
    stamp: u32,
    /// Number on the wire where the last segment with PSH above a gap ended.
    push: u32,
    /// An ACK goes out when more than this many bytes are unacknowledged.
    delay_bytes: u32,
    /// How far beyond `rcv_nxt` the window reaches.
    window: u32,
    ecn: EcnMode,
    /// What ECE says: whether the last packet had CE (RFC 8257), or CE came and no CWR since (RFC 3168).
    echo: bool,
    ack_now: bool,
    /// The ACK that is due goes by itself.
    alone: bool,
}

impl Receiver {
    pub(crate) fn new(config: &Config, ecn: EcnMode, peer_iss: u32, mss: u32) -> Receiver {
        let adaptive = Adaptive::new(config, mss);
        Receiver {
            rcv_nxt: 0,
            acked: 0,
            deadline: Time::MAX,
            ranges: Vec::new(),
            before_change: NONE,
            window: adaptive.as_ref().map_or(config.receive_window, |adaptive| adaptive.first_window()),
            adaptive,
            space: SequenceSpace::after_syn(peer_iss),
            stamp: 0,
            push: peer_iss,
            // With 2 segments: at once when more than one full segment waits, as in Linux.
            delay_bytes: config.delayed_ack.segments.saturating_sub(1).saturating_mul(mss),
            ecn,
            echo: false,
            ack_now: false,
            alone: false,
        }
    }

    /// In-order bytes that the application has read so far.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        match &self.adaptive {
            None => self.rcv_nxt,
            Some(adaptive) => self.rcv_nxt - adaptive.unread(),
        }
    }

    /// Bytes that have come, each counted once, those above a gap included.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        let held = self.adaptive.as_ref().map_or(0, |adaptive| adaptive.held_by_gro());
        self.rcv_nxt + held + self.ranges.iter().map(|range| range.end - range.start).sum::<u64>()
    }

    /// Whether frames are merged before they are taken in.
    #[inline]
    pub(crate) fn merges(&self) -> bool {
        self.adaptive.as_ref().is_some_and(|adaptive| adaptive.gro.is_some())
    }

    /// The acknowledgement number of `offset`.
    #[inline]
    pub(crate) fn wire(&self, offset: u64) -> u32 {
        self.space.wire(offset)
    }

    /// How far `seq` lies ahead of RCV.NXT (behind it, if negative).
    pub(crate) fn ahead(&self, seq: u32) -> i32 {
        self.space.distance(seq, self.rcv_nxt)
    }

    /// Whether `seq` is not beyond the last ACK that was sent.
    pub(crate) fn is_at_last_ack(&self, seq: u32) -> bool {
        self.space.distance(seq, self.acked) <= 0
    }

    /// Takes in the data of a segment that arrived with `codepoint`.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        segment: &Segment,
        codepoint: Ecn,
        now: Time,
        config: &Config,
        rtt: &Rtt,
    ) {
        if self.ecn != EcnMode::Off {
            self.on_codepoint(segment.flags, codepoint == Ecn::Ce);
        }
        if self.adaptive.is_some() {
            self.on_data_adaptively(segment, now, config, rtt);
        } else if self.is_next(segment) {
            self.rcv_nxt += u64::from(segment.len);
            self.in_order(segment.flags, now, config.delayed_ack.timeout);
        } else {
            self.on_data_out_of_order(segment);
        }
    }

    /// Whether a segment continues the data without a gap, and fits.
    #[inline]
    fn is_next(&self, segment: &Segment) -> bool {
        segment.seq == self.space.wire(self.rcv_nxt) && self.ranges.is_empty() && segment.len <= self.window
    }

    /// RFC 5681 §4.2: at least every second full segment is acknowledged, and within `delay`.
    #[inline]
    fn in_order(&mut self, flags: Flags, now: Time, delay: Span) {
        if self.rcv_nxt - self.acked > u64::from(self.delay_bytes) {
            self.ack_now = true;
        } else if self.deadline == Time::MAX {
            self.deadline = now.saturating_add(delay);
        }
        self.after_push(flags);
    }

    #[inline]
    fn after_push(&mut self, flags: Flags) {
        if flags.has(Flags::PSH) && self.ranges.capacity() > 0 {
            self.release();
        }
    }

    /// The peer has nothing more for now, and there is no gap: an idle connection keeps no list.
    fn release(&mut self) {
        self.ranges = Vec::new();
    }

    /// Data up to `offset` are in order now. A fixed window slides along; another reaches as far as it was announced.
    fn advance_to(&mut self, offset: u64) {
        if self.adaptive.is_some() {
            self.window = self.window.saturating_sub((offset - self.rcv_nxt) as u32);
        }
        self.rcv_nxt = offset;
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
            + self.adaptive.as_ref().map_or(0, |_| size_of::<Adaptive>())
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
            self.before_change = self.rcv_nxt;
        }
        self.echo = ce;
        self.ack_now = true;
    }

    /// Whether a SACK option has something to say: data wait above a gap, or came twice.
    #[inline]
    pub(crate) fn has_news_for_sack(&self) -> bool {
        !self.ranges.is_empty() || self.adaptive.as_ref().is_some_and(|adaptive| adaptive.has_duplicate())
    }

    /// Whether an ACK may not wait for data to travel with: there is a gap or a duplicate to report, it was due before the data were there,
    /// or one is owed for what came before a change of CE.
    #[inline]
    pub(crate) fn owes_separate_ack(&self) -> bool {
        self.before_change != NONE || (self.ack_now && (self.alone || !self.ranges.is_empty()))
    }

    /// Whether an ACK is due.
    #[inline]
    pub(crate) fn owes_ack(&self) -> bool {
        self.ack_now
    }

    /// Whether everything that came has been acknowledged and read.
    pub(crate) fn is_quiescent(&self) -> bool {
        !self.ack_now && self.before_change == NONE && self.deadline == Time::MAX
    }

    /// All data have come, and the FIN after them, which takes a number too.
    pub(crate) fn on_fin(&mut self) {
        self.before_change = NONE;
        self.space = self.space.after_fin();
    }

    /// The application is about to write. In Linux an ACK that is due by now has gone out, before the application was woken: the ACK of
    /// a request does not wait for the reply.
    pub(crate) fn part_ack(&mut self) {
        self.alone = self.ack_now && self.adaptive.as_ref().is_some_and(|adaptive| adaptive.acks.is_some());
    }

    /// Whether data are in that no ACK has acknowledged.
    pub(crate) fn is_behind(&self) -> bool {
        self.acked < self.rcv_nxt
    }

    /// Asks for an ACK at once.
    pub(crate) fn request_ack(&mut self) {
        self.ack_now = true;
    }

    /// The deadline has come.
    pub(crate) fn on_timeout(&mut self, now: Time, config: &Config, rtt: &Rtt) {
        self.deadline = Time::MAX;
        if self.adaptive.is_some() {
            self.on_adaptive_timeout(now, config, rtt);
        } else {
            self.ack_now = true;
        }
    }

    /// The ACK that the next segment carries, which ends the waiting for it. After [`Self::owes_separate_ack`] it can
    /// be the one for what came before a change of CE; the next one is due then.
    #[inline]
    pub(crate) fn take_ack(&mut self) -> Ack {
        if self.before_change != NONE {
            let offset = std::mem::replace(&mut self.before_change, NONE);
            self.acked = offset;
            return Ack { offset, ece: !self.echo };
        }
        self.acked = self.rcv_nxt;
        self.ack_now = false;
        self.alone = false;
        self.deadline = Time::MAX;
        if self.adaptive.is_some() {
            self.after_ack();
        }
        Ack { offset: self.rcv_nxt, ece: self.echo }
    }

    /// The window to announce beside `ack`, in bytes beyond it.
    #[inline]
    pub(crate) fn window_beside(&self, ack: Ack) -> u32 {
        match &self.adaptive {
            None => self.window,
            // The right edge stays where it is, whatever offset the ACK has.
            Some(_) => self.window + (self.rcv_nxt - ack.offset) as u32,
        }
    }
}
