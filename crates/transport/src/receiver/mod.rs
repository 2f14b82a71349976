//! The receiving half of a connection: reassembly, delayed ACKs (RFC 9293 §3.8.6.3, RFC 5681 §4.2), SACK blocks (RFC
//! 2018 §4), and the ECN echo of RFC 3168 §6.1.3 and RFC 8257 §3.2.
//!
//! This file is the basic receiver: a fixed window, and an application that reads immediately. `adaptive.rs` has the extensions of operating systems
//! (quick ACKs, growing windows, a slow reader, D-SACK, a reassembly limit) behind one pointer, which is null if none is used.

mod adaptive;
mod buffer;
mod gro;
mod linux_acks;
mod reader;
mod reassembly;

use crate::config::{EcnMode, TcpConfig};
use crate::rtt::RttEstimator;
use crate::segment::{EcnCodepoint, Segment, TcpFlags};
use crate::sequence::SequenceSpace;
use adaptive::ReceiverExtensions;
pub use gro::{ForwardedFrame, ForwardingGro};
pub(crate) use gro::{GroResult, MergedSegment};
use pauseframe_units::{Span, Time};
use reassembly::OutOfOrderRange;

/// An ACK to send: the acknowledged offset and the ECE flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingAck {
    pub(crate) offset: u64,
    pub(crate) ece: bool,
}

/// No offset.
const NO_OFFSET: u64 = u64::MAX;

/// The receiving half. Offsets in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    rcv_nxt: u64,
    /// Offset of the last ACK sent.
    acked: u64,
    /// When [`Self::on_timeout`] is due: the delayed ACK, or the next read of a slow reader. [`Time::MAX`]: nothing is.
    pub(crate) deadline: Time,
    /// In ascending order, disjoint and not adjacent, all above `rcv_nxt`.
    ranges: Vec<OutOfOrderRange>,
    /// RFC 8257 §3.2: end of what came before CE changed, whose ACK is due with the old state; [`NONE`]: nothing.
    before_change: u64,
    /// Extensions of the basic receiver, if any.
    adaptive: Option<Box<ReceiverExtensions>>,
    space: SequenceSpace,
    stamp: u32,
    /// Sequence number at the end of the last segment with PSH above a gap.
    push: u32,
    /// An ACK goes out when more than this many bytes are unacknowledged.
    delay_bytes: u32,
    /// How far beyond `rcv_nxt` the window reaches.
    window: u32,
    ecn: EcnMode,
    /// Value of ECE: the last packet had CE (RFC 8257), or CE arrived and no CWR since (RFC 3168).
    echo: bool,
    ack_now: bool,
    /// The pending ACK is not piggybacked on data.
    alone: bool,
}

impl Receiver {
    /// `opens`: this side sends the SYN.
    pub(crate) fn new(config: &TcpConfig, ecn: EcnMode, peer_iss: u32, mss: u32, opens: bool) -> Receiver {
        let adaptive = ReceiverExtensions::new(config, mss, opens);
        Receiver {
            rcv_nxt: 0,
            acked: 0,
            deadline: Time::MAX,
            ranges: Vec::new(),
            before_change: NO_OFFSET,
            window: adaptive
                .as_ref()
                .map_or(config.receive_window, |adaptive| adaptive.initial_receive_window()),
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

    /// End of the data that came in order.
    pub(crate) fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// Offset of the last ACK sent.
    pub(crate) fn acked_offset(&self) -> u64 {
        self.acked
    }

    /// Acknowledges more than came, for tests of the recount.
    #[cfg(test)]
    pub(crate) fn corrupt_acked_offset(&mut self) {
        self.acked = self.rcv_nxt + 1;
    }

    /// In-order bytes that the application has read so far.
    #[inline]
    pub(crate) fn delivered_bytes(&self) -> u64 {
        match &self.adaptive {
            None => self.rcv_nxt,
            Some(adaptive) => self.rcv_nxt - adaptive.unread_bytes(),
        }
    }

    /// Bytes that have come, each counted once, those above a gap included.
    #[inline]
    pub(crate) fn received_bytes(&self) -> u64 {
        let above_gap = self.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        self.rcv_nxt + above_gap + self.new_gro_bytes()
    }

    /// Bytes that wait for the end of a NIC poll and have not come before: not those that were sent again.
    fn new_gro_bytes(&self) -> u64 {
        let held = self.adaptive.as_ref().and_then(|adaptive| adaptive.held_segment());
        let Some(&Segment { seq, len, .. }) = held else { return 0 };
        let ahead = i64::from(self.space.distance(seq, self.rcv_nxt));
        let offset = |ahead: i64| self.rcv_nxt + ahead.clamp(0, i64::from(self.window)) as u64;
        let (start, end) = (offset(ahead), offset(ahead + i64::from(len)));
        let overlap = |range: &OutOfOrderRange| range.end.min(end).saturating_sub(range.start.max(start));
        end - start - self.ranges.iter().map(overlap).sum::<u64>()
    }

    /// Whether frames are merged (GRO) before processing.
    #[inline]
    pub(crate) fn is_gro_enabled(&self) -> bool {
        self.adaptive.as_ref().is_some_and(|adaptive| adaptive.gro.is_some())
    }

    /// The acknowledgement number of `offset`.
    #[inline]
    pub(crate) fn wire_seq(&self, offset: u64) -> u32 {
        self.space.wire_seq(offset)
    }

    /// How far `seq` lies ahead of RCV.NXT (behind it, if negative).
    pub(crate) fn distance_ahead(&self, seq: u32) -> i32 {
        self.space.distance(seq, self.rcv_nxt)
    }

    /// Whether `seq` is not beyond the last ACK that was sent.
    pub(crate) fn begins_by_last_ack(&self, seq: u32) -> bool {
        self.space.distance(seq, self.acked) <= 0
    }

    /// Whether `seq` lies before the last ACK that was sent (Linux `tcp_sequence`; the RFC compares with RCV.NXT).
    #[inline]
    pub(crate) fn begins_before_last_ack(&self, seq: u32) -> bool {
        self.space.distance(seq, self.acked) < 0
    }

    /// An unacceptable segment without data arrived (RFC 9293 §3.10.7.4); Linux answers one in 500 ms (`tcp_invalid_ratelimit`).
    #[cold]
    pub(crate) fn answer_old_segment(&mut self, now: Time) {
        if self.adaptive.as_deref_mut().is_none_or(|adaptive| adaptive.may_answer_old(now)) {
            self.ack_now = true;
        }
    }

    /// Processes the data of a segment that arrived with `codepoint`.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        segment: &Segment,
        codepoint: EcnCodepoint,
        now: Time,
        config: &TcpConfig,
        rtt: &RttEstimator,
    ) {
        let ce = codepoint == EcnCodepoint::Ce;
        let first_ce = self.ecn != EcnMode::Off && self.update_ecn_echo(segment.flags, ce);
        if self.adaptive.is_some() {
            self.on_data_extended(segment, (codepoint, first_ce), now, config, rtt);
        } else if self.is_in_order(segment) {
            self.rcv_nxt += u64::from(segment.len);
            self.schedule_ack(segment.flags, now, config.delayed_ack.timeout);
        } else {
            self.on_ofo_data(segment);
        }
    }

    /// Whether a segment continues the data without a gap, and fits.
    #[inline]
    fn is_in_order(&self, segment: &Segment) -> bool {
        segment.seq == self.space.wire_seq(self.rcv_nxt)
            && self.ranges.is_empty()
            && segment.len <= self.window
    }

    /// RFC 5681 §4.2: at least every second full segment is acknowledged, and within `delay`.
    #[inline]
    fn schedule_ack(&mut self, flags: TcpFlags, now: Time, delay: Span) {
        if self.rcv_nxt - self.acked > u64::from(self.delay_bytes) {
            self.ack_now = true;
        } else if self.deadline == Time::MAX {
            self.deadline = now.saturating_add(delay);
        }
        self.on_push(flags);
    }

    #[inline]
    fn on_push(&mut self, flags: TcpFlags) {
        if flags.contains(TcpFlags::PSH) {
            self.release_reassembly();
        }
    }

    /// Frees the reassembly list of an idle connection without a gap.
    fn release_reassembly(&mut self) {
        self.ranges = Vec::new();
    }

    /// Advances RCV.NXT to `offset`. A fixed window slides along; an adaptive one keeps its announced right edge.
    fn advance_rcv_nxt(&mut self, offset: u64) {
        if self.adaptive.is_some() {
            self.window = self.window.saturating_sub((offset - self.rcv_nxt) as u32);
        }
        self.rcv_nxt = offset;
    }

    /// Sets the state as if `offset` bytes had arrived.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.rcv_nxt = offset;
        self.acked = offset;
    }

    /// Bytes of heap in use.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<OutOfOrderRange>()
            + self.adaptive.as_ref().map_or(0, |_| size_of::<ReceiverExtensions>())
    }

    /// Returns whether this is the first CE since a CWR.
    #[inline]
    fn update_ecn_echo(&mut self, flags: TcpFlags, ce: bool) -> bool {
        if flags.contains(TcpFlags::CWR) {
            // As Linux: a sender that has just shrunk its window must not wait for a delayed ACK.
            self.ack_now = true;
            if self.ecn == EcnMode::Classic {
                self.echo = false;
            }
        }
        if self.ecn == EcnMode::Classic {
            let first = ce && !self.echo;
            self.echo |= ce;
            return first;
        }
        if ce != self.echo {
            self.update_dctcp_echo(ce);
        }
        false
    }

    /// RFC 8257 §3.2: each ACK covers packets that were all marked or all unmarked. Packets before the change get an ACK with the old state; as in
    /// Linux, the packet with the change is acknowledged at once too.
    #[cold]
    fn update_dctcp_echo(&mut self, ce: bool) {
        if self.acked < self.rcv_nxt {
            // If the host has not yet sent the ACK of an earlier change, both are combined.
            self.before_change = self.rcv_nxt;
        }
        self.echo = ce;
        self.ack_now = true;
    }

    /// Whether a SACK option is needed: data wait above a gap, or duplicates arrived.
    #[inline]
    pub(crate) fn needs_sack(&self) -> bool {
        !self.ranges.is_empty() || self.adaptive.as_ref().is_some_and(|adaptive| adaptive.has_duplicate())
    }

    /// Whether a pending ACK must not be piggybacked: it reports a gap or a duplicate, it was due before the data, or it covers data before a change
    /// of CE.
    #[inline]
    pub(crate) fn needs_separate_ack(&self) -> bool {
        self.before_change != NO_OFFSET || (self.ack_now && (self.alone || !self.ranges.is_empty()))
    }

    /// Whether an ACK is due.
    #[inline]
    pub(crate) fn owes_ack(&self) -> bool {
        self.ack_now
    }

    /// Whether all received data have been acknowledged and read.
    pub(crate) fn is_quiescent(&self) -> bool {
        !self.ack_now && self.before_change == NO_OFFSET && self.deadline == Time::MAX
    }

    /// Processes the FIN after all data; it takes one sequence number.
    pub(crate) fn consume_fin(&mut self) {
        self.before_change = NO_OFFSET;
        self.space = self.space.after_fin();
    }

    /// Called before the application writes. In Linux a due ACK leaves before the application is woken, so the ACK of a request does not wait for the
    /// reply.
    pub(crate) fn send_due_ack(&mut self) {
        self.alone = self.ack_now && self.adaptive.as_ref().is_some_and(|adaptive| adaptive.acks.is_some());
    }

    /// Whether received data are still unacknowledged.
    pub(crate) fn has_unacked_data(&self) -> bool {
        self.acked < self.rcv_nxt
    }

    /// Requests an immediate ACK.
    pub(crate) fn request_ack(&mut self) {
        self.ack_now = true;
    }

    /// Handles the deadline.
    pub(crate) fn on_timeout(&mut self, now: Time, config: &TcpConfig, rtt: &RttEstimator) {
        self.deadline = Time::MAX;
        if self.adaptive.is_some() {
            self.on_timeout_extended(now, config, rtt);
        } else {
            self.ack_now = true;
        }
    }

    /// Takes the ACK for the next segment. After [`Self::needs_separate_ack`] it may be the ACK for data before a change of CE; a further ACK is then
    /// due.
    #[inline]
    pub(crate) fn take_ack(&mut self) -> PendingAck {
        if self.before_change != NO_OFFSET {
            let offset = std::mem::replace(&mut self.before_change, NO_OFFSET);
            self.acked = offset;
            return PendingAck { offset, ece: !self.echo };
        }
        let scheduled = self.ack_now || self.acked < self.rcv_nxt;
        self.acked = self.rcv_nxt;
        self.ack_now = false;
        self.alone = false;
        self.deadline = Time::MAX;
        if self.adaptive.is_some() {
            self.on_ack_sent(scheduled);
        }
        PendingAck { offset: self.rcv_nxt, ece: self.echo }
    }

    /// The window to announce with `ack`, in bytes beyond it.
    #[inline]
    pub(crate) fn window_for_ack(&self, ack: PendingAck) -> u32 {
        match &self.adaptive {
            None => self.window,
            // The right edge stays where it is, whatever offset the ACK has.
            Some(_) => self.window + (self.rcv_nxt - ack.offset) as u32,
        }
    }
}
