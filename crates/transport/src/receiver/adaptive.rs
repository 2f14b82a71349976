//! Extensions of the basic receiver, in one box per connection: ACK policy, receive buffer and window, reader, D-SACK (RFC 2883), reassembly limit
//! and GRO.
//!
//! The order of work for a segment is Linux 6.1's (`tcp_rcv_established`, `tcp_event_data_recv`, `__tcp_ack_snd_check`,
//! then the reader with `tcp_rcv_space_adjust` and `tcp_cleanup_rbuf`); before it comes GRO (`gro.rs`). Left out: the socket backlog, memory
//! pressure.

use super::buffer::{ReceiveBufferState, window_scale_for};
use super::gro::{GroResult, GroState, MergedSegment};
use super::linux_acks::LinuxDelayedAckState;
use super::reader::PacedApplicationReader;
use super::{PendingAck, Receiver};
use crate::config::{DelayedAckForm, ReceiveBuffer, TcpConfig};
use crate::rtt::RttEstimator;
use crate::segment::{EcnCodepoint, SackBlocks, Segment, TcpFlags};
use pauseframe_units::{Span, Time};

/// State that only extended receivers have.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverExtensions {
    pub(super) acks: Option<LinuxDelayedAckState>,
    pub(super) buffer: ReceiveBufferState,
    pub(super) reader: Option<PacedApplicationReader>,
    /// When the delayed (or compressed) ACK must go out.
    ack_at: Time,
    /// Duplicate range that the next SACK option reports.
    duplicate: Option<(u64, u64)>,
    /// The report that leaves before any other ACK, and whether another one is due after it.
    early: Option<(SackBlocks, bool)>,
    /// When an old segment without data was last answered.
    old_answered: Option<Time>,
    dsack: bool,
    /// Bytes that the reassembly list may hold.
    limit: u64,
    pub(super) gro: Option<Box<GroState>>,
}

/// `tcp_invalid_ratelimit`
const OLD_SEGMENT_ANSWER_INTERVAL: Span = Span::from_ms(500);

impl ReceiverExtensions {
    /// Creates the extensions, if the settings need any.
    pub(super) fn new(config: &TcpConfig, mss: u32, opens: bool) -> Option<Box<ReceiverExtensions>> {
        let acks = config.delayed_ack_form == DelayedAckForm::Linux;
        let plain = !acks
            && config.receive_buffer == ReceiveBuffer::Fixed
            && !config.dsack
            && config.reassembly_limit == 0
            && config.read_rate.is_none()
            && config.offload.gro == Span::ZERO;
        let limit = match config.reassembly_limit {
            0 => u64::MAX,
            segments => u64::from(segments) * u64::from(mss),
        };
        (!plain).then(|| {
            Box::new(ReceiverExtensions {
                acks: acks.then(|| LinuxDelayedAckState::new(mss, config)),
                buffer: ReceiveBufferState::new(config, mss, opens),
                reader: config.read_rate.map(|rate| PacedApplicationReader::new(rate, mss)),
                ack_at: Time::MAX,
                duplicate: None,
                early: None,
                old_answered: None,
                dsack: config.dsack,
                limit,
                gro: GroState::new(config),
            })
        })
    }

    /// `tcp_oow_rate_limited`
    pub(super) fn may_answer_old(&mut self, now: Time) -> bool {
        let recent = |before| now.saturating_since(before) < OLD_SEGMENT_ANSWER_INTERVAL;
        if self.acks.is_some() && self.old_answered.is_some_and(recent) {
            return false;
        }
        self.old_answered = Some(now);
        true
    }

    /// The window of a SYN or SYN-ACK, or the first one without a handshake.
    pub(super) fn initial_receive_window(&self) -> u32 {
        self.buffer.initial_receive_window()
    }

    /// In-order bytes that the application has not read yet.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.unread)
    }

    /// Bytes that the reassembly list may hold.
    pub(super) fn max_reassembly_bytes(&self) -> u64 {
        self.limit
    }

    /// Records the duplicate `start..end` for the next SACK option.
    pub(super) fn record_duplicate(&mut self, start: u64, end: u64) {
        if self.dsack {
            self.duplicate = Some((start, end));
        }
    }

    /// Old data, or data beyond the `announced` window: the sender may be retransmitting needlessly, so Linux sends
    /// quick ACKs (`tcp_data_queue`).
    pub(super) fn on_unacceptable_data(&mut self, announced: u32) {
        if let Some(acks) = &mut self.acks {
            acks.enter_quick_ack_mode(u32::MAX, announced);
        }
    }

    pub(super) fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    pub(super) fn take_duplicate(&mut self) -> Option<(u64, u64)> {
        self.duplicate.take()
    }

    /// The next deadline.
    fn deadline(&self) -> Time {
        let at = self.reader.as_ref().map_or(self.ack_at, |reader| self.ack_at.min(reader.next));
        self.gro.as_ref().map_or(at, |gro| at.min(gro.ends))
    }

    /// What waits for the end of a NIC poll.
    pub(super) fn held_segment(&self) -> Option<&Segment> {
        self.gro.as_ref()?.held_segment()
    }

    /// Queues `bytes` for the application, which reads at its own rate.
    fn queue_for_reader(&mut self, bytes: u64, now: Time) {
        if let Some(reader) = &mut self.reader {
            reader.add_unread(bytes, now);
        }
    }
}

impl Receiver {
    /// Passes a frame to GRO.
    pub(crate) fn gro_receive(&mut self, segment: &Segment, codepoint: EcnCodepoint, now: Time) -> GroResult {
        let gro = self.adaptive.as_deref_mut().and_then(|adaptive| adaptive.gro.as_deref_mut());
        let taken = gro.map_or(GroResult::Passed(None), |gro| gro.receive(segment, codepoint, now));
        self.update_deadline();
        taken
    }

    /// Takes the merged segment of a poll that has ended by `now`.
    pub(crate) fn end_gro_poll(&mut self, now: Time) -> Option<MergedSegment> {
        let gro = self.adaptive.as_deref_mut()?.gro.as_deref_mut().filter(|gro| gro.ends <= now)?;
        let merged = gro.flush();
        self.update_deadline();
        merged
    }

    /// [`Self::on_data`] of a receiver with a box. `ecn`: the codepoint of the segment, and whether this is the first CE
    /// since a CWR.
    pub(super) fn on_data_extended(
        &mut self,
        segment: &Segment,
        ecn: (EcnCodepoint, bool),
        now: Time,
        config: &TcpConfig,
        rtt: &RttEstimator,
    ) {
        let before = self.rcv_nxt;
        // Of CWR, or because CE has changed.
        let ack_now = self.ack_now;
        let in_order = self.is_in_order(segment);
        let [held_before, held] = if in_order {
            self.advance_rcv_nxt(before + u64::from(segment.len));
            [0; 2]
        } else {
            self.queue_ofo(segment)
        };
        let fresh = self.rcv_nxt - before;
        let announced = self.announced_window();
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let frame = adaptive.gro.as_ref().map_or(segment.len, |gro| gro.infer_segment_size(segment.len));
        if let Some(acks) = &mut adaptive.acks {
            if fresh > 0 {
                acks.on_data(segment, frame, now, announced, config, rtt);
            }
            acks.on_ecn(ecn, announced);
        }
        let unread = adaptive.unread_bytes() + fresh;
        let grown = if fresh > 0 {
            adaptive.buffer.on_data(segment, frame, now, self.rcv_nxt, u64::from(announced), unread + held)
        } else {
            // Without SACK the sender counts only ACKs with the same window as duplicates.
            held > held_before
                && config.sack
                && adaptive.buffer.on_ofo_data(segment.len, frame, unread + held_before)
        };
        if grown && let Some(acks) = &mut adaptive.acks {
            acks.grant_quick_ack();
        }
        adaptive.queue_for_reader(fresh, now);
        if in_order {
            self.send_or_delay_ack(segment.flags, now, config, rtt);
        } else if !self.ranges.is_empty() && !ack_now {
            self.compress_sacks(now, config, rtt);
        }
        if fresh > 0 {
            self.on_read(now);
        }
        self.keep_early_report_due();
        self.update_deadline();
    }

    /// Linux `tcp_sack_new_ofo_skb`: data that are about to change another than the two most recent blocks release the report that compression has
    /// held back, as it is now.
    pub(super) fn flush_held_report(&mut self, start: u64, end: u64) {
        let acks = self.adaptive.as_ref().and_then(|adaptive| adaptive.acks.as_ref());
        if !acks.is_some_and(LinuxDelayedAckState::holds_report)
            || self.ranges_before(start, end) < SACK_BLOCKS_EXPECTED
        {
            return;
        }
        let blocks = self.build_sack_blocks(4);
        self.acked = self.rcv_nxt;
        self.on_ack_sent(true);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.early = Some((blocks, false));
        }
    }

    /// An early report is due now, whether the one behind it is or not.
    fn keep_early_report_due(&mut self) {
        if let Some((_, then)) = self.adaptive.as_mut().and_then(|adaptive| adaptive.early.as_mut()) {
            *then = std::mem::replace(&mut self.ack_now, true);
        }
    }

    /// Takes the report that leaves before any other ACK, with at most `limit` blocks; the ACK for data before a change of CE precedes it.
    pub(crate) fn take_early_report(&mut self, limit: usize) -> Option<(PendingAck, SackBlocks)> {
        if self.before_change != super::NO_OFFSET {
            return None;
        }
        let (mut blocks, then) = self.adaptive.as_mut()?.early.take()?;
        self.ack_now = then;
        blocks.count = blocks.count.min(limit as u8);
        Some((PendingAck { offset: self.acked, ece: self.echo }, blocks))
    }

    /// Returns the bytes above a gap before and after.
    #[cold]
    fn queue_ofo(&mut self, segment: &Segment) -> [u64; 2] {
        if let Some(adaptive) = &mut self.adaptive {
            // A report that compression held back is forgotten (`tcp_data_queue`).
            adaptive.duplicate = None;
        }
        let before = self.bytes_above_gap();
        self.on_ofo_data(segment);
        [before, self.bytes_above_gap()]
    }

    /// The window of the last ACK.
    pub(super) fn announced_window(&self) -> u32 {
        self.window + (self.rcv_nxt - self.acked) as u32
    }

    /// Decides whether an ACK of in-order data leaves now, or when.
    fn send_or_delay_ack(&mut self, flags: TcpFlags, now: Time, config: &TcpConfig, rtt: &RttEstimator) {
        let unacked = self.rcv_nxt - self.acked;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let (due, delay) = match &adaptive.acks {
            None => (unacked > u64::from(self.delay_bytes), config.delayed_ack.timeout),
            Some(acks) => {
                // Without a rate the application reads at once.
                let due = acks.needs_immediate_ack(unacked, config)
                    || (adaptive.reader.is_none() && acks.needs_ack_after_read(unacked, true, config));
                (due, acks.delayed_ack_timeout(config, rtt))
            }
        };
        if due {
            self.ack_now = true;
        } else if adaptive.acks.is_none() {
            adaptive.ack_at = adaptive.ack_at.min(now.saturating_add(delay));
        } else {
            let at = config.rto.timer_expiry(now, delay);
            // `tcp_send_delayed_ack`: what would expire soon anyway goes out now.
            if adaptive.ack_at <= now.saturating_add(delay / 4) {
                self.ack_now = true;
            }
            adaptive.ack_at = adaptive.ack_at.min(at);
        }
        self.on_push(flags);
    }

    /// Linux holds back ACKs that only report further data above a gap, after the first three (`tcp_comp_sack_*`).
    fn compress_sacks(&mut self, now: Time, config: &TcpConfig, rtt: &RttEstimator) {
        let rcv_nxt = self.rcv_nxt;
        let unacked = rcv_nxt - self.acked;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let Some(acks) = &mut adaptive.acks else { return };
        let estimate = adaptive.buffer.rcv_rtt().into_iter().chain(rtt.srtt()).min();
        if self.before_change != super::NO_OFFSET || acks.needs_immediate_ack(unacked, config) {
            return;
        }
        if let Some(hold) = acks.sack_compression_delay(rcv_nxt, estimate, config) {
            self.ack_now = false;
            adaptive.ack_at = adaptive.ack_at.min(now.saturating_add(hold));
        }
    }

    /// After a read the buffer may grow, and a sufficiently larger window is announced.
    fn on_read(&mut self, now: Time) {
        let read = self.delivered_bytes();
        let held = self.bytes_above_gap();
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        adaptive.buffer.on_read(read, now);
        let held = held + adaptive.unread_bytes();
        if adaptive.reader.is_some() && adaptive.buffer.needs_window_update(held, self.window) {
            self.ack_now = true;
        }
    }

    /// Updates the announced window when an ACK is sent. The right edge never moves back (RFC 9293 §3.8.6).
    pub(super) fn on_ack_sent(&mut self, scheduled: bool) {
        let held = self.bytes_above_gap();
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let offer = adaptive.buffer.select_window(held + adaptive.unread_bytes());
        if offer < self.window {
            self.window = adaptive.buffer.same_edge_window(self.window);
        } else {
            self.window = offer;
        }
        adaptive.ack_at = Time::MAX;
        if let Some(acks) = &mut adaptive.acks {
            acks.on_ack_sent(scheduled);
        }
        self.update_deadline();
    }

    /// The window of a SYN or SYN-ACK.
    pub(crate) fn syn_window(&self) -> u32 {
        self.window
    }

    /// The shift that lets every window of this receiver be written in 16 bits.
    pub(crate) fn window_scale(&self) -> u8 {
        let largest = self.adaptive.as_ref().map_or(self.window, |adaptive| adaptive.buffer.max_window());
        window_scale_for(largest)
    }

    /// Starts measurements after the handshake.
    pub(crate) fn on_established(&mut self, now: Time) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.buffer.on_established(now);
        }
    }

    /// Data were sent at `now`: if they reply to data, the exchange is interactive and ACKs can be piggybacked.
    pub(crate) fn on_data_sent(&mut self, now: Time, config: &TcpConfig) {
        if let Some(acks) = self.adaptive.as_mut().and_then(|adaptive| adaptive.acks.as_mut()) {
            acks.on_data_sent(now, config);
        }
    }

    /// A segment of the connection left at `now` (RFC 7323: its ACK can be echoed).
    pub(crate) fn on_timestamp_sent(&mut self, stamp: u32) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.buffer.on_timestamp_sent(stamp);
        }
    }

    /// [`Self::on_timeout`] of a receiver with a box.
    pub(super) fn on_timeout_extended(&mut self, now: Time, config: &TcpConfig, rtt: &RttEstimator) {
        let unacked = self.rcv_nxt - self.acked;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        if now >= adaptive.ack_at {
            adaptive.ack_at = Time::MAX;
            self.ack_now = true;
            if let Some(acks) = &mut adaptive.acks {
                acks.on_timeout(config, rtt);
            }
        }
        if adaptive.reader.as_mut().is_some_and(|reader| reader.read_if_due(now)) {
            let drained = adaptive.unread_bytes() == 0;
            let acks = &adaptive.acks;
            self.ack_now |=
                acks.as_ref().is_some_and(|acks| acks.needs_ack_after_read(unacked, drained, config));
            self.on_read(now);
        }
        self.update_deadline();
    }

    fn update_deadline(&mut self) {
        self.deadline = self.adaptive.as_ref().map_or(Time::MAX, |adaptive| adaptive.deadline());
    }
}

/// `TCP_SACK_BLOCKS_EXPECTED`
const SACK_BLOCKS_EXPECTED: usize = 2;

/// How long at most Linux compresses SACKs (`tcp_comp_sack_delay_ns`), and how many (`tcp_comp_sack_nr`).
pub(super) const SACK_COMPRESSION_LIMITS: (Span, u32) = (Span::from_ms(1), 44);

/// How much later the timer expires where nothing else interrupts the processor (`tcp_comp_sack_slack_ns`).
pub(super) const SACK_COMPRESSION_SLACK: Span = Span::from_us(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EcnMode;
    use crate::segment::Timestamps;

    /// `tcp_rcv_space_adjust` measures between reads: a segment above a gap, of which nothing is read, does not begin another measurement. Within the
    /// millisecond that the receiver sees as round trip eleven segments are read, more than ten at the beginning.
    #[test]
    fn a_segment_above_a_gap_ends_no_measurement_of_reads() {
        let config = TcpConfig {
            mss: 1000,
            receive_buffer: ReceiveBuffer::Linux,
            receive_buffer_initial: 65_536,
            receive_buffer_max: 6 << 20,
            ..TcpConfig::PLAIN
        };
        let mut receiver = Receiver::new(&config, EcnMode::Off, 0, config.mss, false);
        receiver.on_established(Time::ZERO);
        let rtt = RttEstimator::new(&config.rto);
        assert!(!receiver.needs_sack());
        // 6 MB are 96 times 2^16.
        assert_eq!(receiver.window_scale(), 7);
        let mut receive = |number: u32, us| {
            let stamps = Timestamps { value: 1, echo: 1 };
            let segment = Segment { seq: 1 + number * 1000, len: 1000, stamps, ..Segment::default() };
            receiver.on_data(&segment, EcnCodepoint::NotEct, Time::ZERO + Span::from_us(us), &config, &rtt);
            receiver.adaptive.as_ref().expect("a growing buffer").buffer.size()
        };
        for number in 0..9 {
            assert_eq!(receive(number, 0), 65_536);
        }
        assert_eq!(receive(10, 1000), 65_536);
        assert!(receive(9, 1100) > 65_536);
    }
}
