//! When Linux 6.1 acknowledges: quick ACKs, the adaptive timeout `ato`, interactive ("pingpong") mode, ACKs of pushed
//! data, and compressed SACKs (`net/ipv4/tcp_input.c`, `tcp_output.c`, `tcp_timer.c`).
//!
//! Intervals between segments are whole ticks, like jiffies in the kernel. `rcv_mss`, the kernel's estimate of the peer's segment size, starts at 536
//! bytes.

use super::adaptive::{SACK_COMPRESSION_LIMITS, SACK_COMPRESSION_SLACK};
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::rtt::RttEstimator;
use crate::segment::{EcnCodepoint, Segment, TcpFlags};
use pauseframe_units::{Span, Time};

/// `TCP_MSS_DEFAULT`.
const INITIAL_RCV_MSS: u32 = 536;
/// `TCP_DELACK_MAX` (HZ/5), in interactive mode and for pushed data; else HZ/2.
const MAX_ACK_DELAYS: [Span; 2] = [Span::from_ms(200), Span::from_ms(500)];

/// `TCP_FASTRETRANS_THRESH`, whatever `tcp_reordering` is.
const FASTRETRANS_THRESH: u32 = 3;

/// The state of `inet_csk(sk)->icsk_ack`.
#[derive(Clone, Debug)]
pub(crate) struct LinuxDelayedAckState {
    /// Timeout of the delayed ACK.
    ato: Span,
    /// Initial timeout (`TCP_ATO_MIN`).
    min_ato: Span,
    /// `TCP_MAX_QUICKACKS`.
    max_quick_acks: u32,
    /// Arrival of the last data, if any.
    last_data: Option<Time>,
    /// RCV.NXT of the gap that the counts `reported` (immediate ACKs) and `compressed` (delayed ACKs) belong to.
    gap: u64,
    mss: u32,
    rcv_mss: u32,
    /// Length of the last segment below `rcv_mss`.
    last_small: u32,
    /// Remaining quick ACKs.
    quick_acks_left: u32,
    reported: u32,
    compressed: u32,
    /// Number of small or pushed segments since the last ACK, at most two.
    pushed: u8,
    pingpong: bool,
    /// A segment with ECT or CE has come.
    ecn_seen: bool,
}

impl LinuxDelayedAckState {
    pub(super) fn new(mss: u32, config: &TcpConfig) -> LinuxDelayedAckState {
        LinuxDelayedAckState {
            ato: Span::ZERO,
            min_ato: config.delayed_ack.timeout,
            max_quick_acks: config.quick_acks,
            last_data: None,
            gap: 0,
            mss,
            rcv_mss: INITIAL_RCV_MSS.min(mss),
            last_small: 0,
            quick_acks_left: 0,
            reported: 0,
            compressed: 0,
            pushed: 0,
            pingpong: false,
            ecn_seen: false,
        }
    }

    /// `tcp_event_data_recv`, with `window` announced to the peer; `frame`: the length of each of the frames that make the segment.
    pub(super) fn on_data(
        &mut self,
        segment: &Segment,
        frame: u32,
        now: Time,
        window: u32,
        config: &TcpConfig,
        rtt: &RttEstimator,
    ) {
        self.update_rcv_mss(frame, segment.flags.contains(TcpFlags::PSH));
        let least = config.delayed_ack.timeout;
        let rto = rtt.rto(&config.rto);
        match self.last_data.replace(now) {
            None => {
                self.grant_quick_acks(u32::MAX, window);
                self.ato = least;
            }
            Some(before) => {
                let pause = config.rto.elapsed_in_ticks(before, now);
                if pause <= least / 2 {
                    self.ato = self.ato / 2 + least / 2;
                } else if pause < self.ato {
                    self.ato = (self.ato / 2 + pause).min(rto);
                } else if pause > rto {
                    // The peer may have restarted from a small window.
                    self.grant_quick_acks(u32::MAX, window);
                }
            }
        }
    }

    /// `tcp_measure_rcv_mss`.
    fn update_rcv_mss(&mut self, len: u32, push: bool) {
        if len >= self.rcv_mss {
            self.rcv_mss = len.min(self.mss);
            self.last_small = 0;
            self.pushed = self.pushed.max(u8::from(push));
            return;
        }
        let telling = len >= INITIAL_RCV_MSS || !push;
        if telling && len == std::mem::replace(&mut self.last_small, len) {
            // Two equal lengths in a row are taken as the peer's segment size.
            self.rcv_mss = len.max(1);
            return;
        }
        self.pushed = (self.pushed + 1).min(2);
    }

    /// `tcp_incr_quickack`: one for each two segments of the announced `window`, and at most `most`.
    #[cold]
    fn grant_quick_acks(&mut self, most: u32, window: u32) {
        let most = most.min(self.max_quick_acks);
        let affordable = match window / (2 * self.rcv_mss) {
            0 => 2,
            acks => acks,
        };
        self.quick_acks_left = self.quick_acks_left.max(affordable.min(most));
    }

    /// `__tcp_ecn_check_ce`: two quick ACKs at the first CE after a CWR (not with DCTCP), and for what is probably sent
    /// again, since it is not ECT: the sender's window may be small.
    #[inline]
    pub(super) fn on_ecn(&mut self, (codepoint, first_ce): (EcnCodepoint, bool), window: u32) {
        let not_ect = codepoint == EcnCodepoint::NotEct;
        if first_ce || (not_ect && self.ecn_seen) {
            self.enter_quick_ack_mode(2, window);
        }
        self.ecn_seen |= !not_ect;
    }

    /// Grants a quick ACK to announce a larger window (`tcp_grow_window`).
    pub(super) fn grant_quick_ack(&mut self) {
        self.quick_acks_left |= 1;
    }

    /// `tcp_enter_quickack_mode`: at most `most` quick ACKs, and no interactive mode until data are sent again.
    #[cold]
    pub(super) fn enter_quick_ack_mode(&mut self, most: u32, window: u32) {
        self.grant_quick_acks(most, window);
        self.pingpong = false;
        self.ato = self.min_ato;
    }

    /// `__tcp_ack_snd_check`.
    pub(super) fn needs_immediate_ack(&self, unacked: u64, config: &TcpConfig) -> bool {
        self.is_ack_due(unacked, config) || self.has_quick_ack()
    }

    fn is_ack_due(&self, unacked: u64, config: &TcpConfig) -> bool {
        unacked > u64::from(config.delayed_ack.segments.saturating_sub(1)) * u64::from(self.rcv_mss)
    }

    /// `tcp_in_quickack_mode`.
    fn has_quick_ack(&self) -> bool {
        self.max_quick_acks > 0 && self.quick_acks_left > 0 && !self.pingpong
    }

    /// `tcp_cleanup_rbuf`: a read acknowledges more than a segment, and pushed data if it has emptied (`drained`) the buffer. Quick ACKs are only
    /// for arrivals.
    pub(super) fn needs_ack_after_read(&self, unacked: u64, drained: bool, config: &TcpConfig) -> bool {
        let is_ack_of_push_due = (self.pushed == 2 || (self.pushed == 1 && !self.pingpong))
            && config.is_enabled(Mechanism::AckOfPush);
        self.is_ack_due(unacked, config) || (drained && is_ack_of_push_due)
    }

    /// `tcp_send_delayed_ack`.
    pub(super) fn delayed_ack_timeout(&self, config: &TcpConfig, rtt: &RttEstimator) -> Span {
        let least = config.delayed_ack.timeout;
        // Whatever the minimum of the RTO: the bound below it (`tcp_delack_max`) is of Linux 6.7.
        if self.ato <= least {
            return self.ato;
        }
        let most = MAX_ACK_DELAYS[usize::from(!self.pingpong && self.pushed == 0)];
        self.ato.min(rtt.srtt().map_or(most, |srtt| most.min(srtt.max(least))))
    }

    /// `tcp_delack_timer_handler`: the delayed ACK was not overtaken by data. (The end of SACK compression has a timer of its
    /// own in Linux, `tcp_compressed_ack_kick`, and says nothing of that.)
    pub(super) fn on_timeout(&mut self, config: &TcpConfig, rtt: &RttEstimator) {
        if self.compressed > 0 {
            return;
        }
        if self.pingpong {
            self.pingpong = false;
            self.ato = config.delayed_ack.timeout;
        } else {
            self.ato = (self.ato * 2).min(rtt.rto(&config.rto));
        }
    }

    /// `tcp_event_ack_sent`; `scheduled`: data had arrived since the last ACK.
    pub(super) fn on_ack_sent(&mut self, scheduled: bool) {
        if scheduled && self.quick_acks_left > 0 {
            self.quick_acks_left -= 1;
            if self.quick_acks_left == 0 {
                self.ato = self.min_ato;
            }
        }
        self.pushed = 0;
        self.compressed = 0;
    }

    /// `tcp_event_data_sent`: a reply within the timeout.
    pub(super) fn on_data_sent(&mut self, now: Time, config: &TcpConfig) {
        if self.last_data.is_some_and(|last| config.rto.elapsed_in_ticks(last, now) < self.ato) {
            self.pingpong = true;
        }
    }

    /// Delay of an ACK that reports data above the gap at `rcv_nxt`; `None`: it leaves immediately.
    pub(super) fn sack_compression_delay(
        &mut self,
        rcv_nxt: u64,
        rtt: Option<Span>,
        config: &TcpConfig,
    ) -> Option<Span> {
        if !config.sack_compression {
            return None;
        }
        if self.gap != rcv_nxt || self.reported == 0 {
            (self.gap, self.reported, self.compressed) = (rcv_nxt, 0, 0);
        }
        if !config.sack || self.reported < FASTRETRANS_THRESH || self.compressed >= SACK_COMPRESSION_LIMITS.1
        {
            self.reported += 1;
            return None;
        }
        self.compressed += 1;
        Some((rtt? / 20).min(SACK_COMPRESSION_LIMITS.0) + SACK_COMPRESSION_SLACK)
    }

    /// Whether compression holds a report back.
    pub(super) fn holds_report(&self) -> bool {
        self.compressed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DelayedAckConfig, DelayedAckForm};

    /// `__tcp_ack_snd_check`: each gap has three reports at once, then so many that wait for a twentieth of the round trip.
    #[test]
    fn each_gap_has_its_reports_at_once() {
        let config = TcpConfig {
            delayed_ack_form: DelayedAckForm::Linux,
            sack_compression: true,
            sack: true,
            dup_thresh: 8,
            ..TcpConfig::PLAIN
        };
        let mut acks = LinuxDelayedAckState::new(1000, &config);
        let (longest, most) = SACK_COMPRESSION_LIMITS;
        let mut of = |gap, rtt| acks.sack_compression_delay(gap, Some(Span::from_us(rtt)), &config);
        let late = Some(Span::from_us(5) + SACK_COMPRESSION_SLACK);
        assert_eq!([0; 5].map(|gap| of(gap, 100)), [None, None, None, late, late]);
        assert_eq!([5000; 5].map(|gap| of(gap, 100)), [None, None, None, late, late]);
        assert_eq!(of(5000, 1_000_000), Some(longest + SACK_COMPRESSION_SLACK));
        let compressed = (0..200).filter(|_| of(9000, 100).is_some()).count();
        assert_eq!(compressed, most as usize);
    }

    fn linux(quick_acks: u32) -> LinuxDelayedAckState {
        let config = TcpConfig { delayed_ack_form: DelayedAckForm::Linux, quick_acks, ..TcpConfig::PLAIN };
        LinuxDelayedAckState { rcv_mss: 1000, ..LinuxDelayedAckState::new(1000, &config) }
    }

    /// `tcp_incr_quickack`: one for two segments of the window, two if there is not one, never fewer than there are.
    #[test]
    fn the_window_bounds_quick_acks() {
        for (window, left) in [(0, 2), (1999, 2), (2000, 1), (3999, 1), (4000, 2), (31_999, 15), (90_000, 16)]
        {
            let mut acks = linux(16);
            acks.grant_quick_acks(u32::MAX, window);
            assert_eq!(acks.quick_acks_left, left, "{window}");
            acks.grant_quick_acks(1, window);
            assert_eq!(acks.quick_acks_left, left, "{window}");
        }
        let mut none = linux(0);
        none.grant_quick_acks(u32::MAX, 90_000);
        none.grant_quick_ack();
        assert!(!none.has_quick_ack());
    }

    /// `tcp_measure_rcv_mss`: the second of two equal segments shorter than the known size is taken as the new size, unless it is below 536 bytes and has
    /// PSH. A different length starts the count again.
    #[test]
    fn two_equal_short_segments_set_the_size_of_the_peer() {
        for (len, push, known) in
            [(536, true, 536), (535, true, 1000), (535, false, 535), (999, true, 999), (999, false, 999)]
        {
            let mut acks = linux(16);
            for (len, after) in [(len, 1000), (700, 1000), (len, 1000), (len, known)] {
                acks.update_rcv_mss(len, push);
                assert_eq!(acks.rcv_mss, after, "{len} {push}");
            }
        }
    }

    /// `tcp_event_data_recv`: the timeout follows the pauses between segments; one longer than the RTO, here 300 ms, brings quick ACKs again.
    #[test]
    fn the_timeout_follows_the_pauses() {
        let rto = crate::config::RtoConfig { initial: Span::from_ms(300), ..TcpConfig::PLAIN.rto };
        let delayed_ack = DelayedAckConfig { segments: 2, timeout: Span::from_ms(40) };
        let config = TcpConfig { rto, delayed_ack, ..TcpConfig::PLAIN };
        for (ato, pause, after, quick_acks) in [
            (100, 20, 70, 0),
            (100, 21, 71, 0),
            (100, 99, 149, 0),
            (100, 100, 100, 0),
            (290, 200, 300, 0),
            (100, 300, 100, 0),
            (100, 301, 100, 16),
        ] {
            let (mut acks, segment) = (linux(16), Segment { len: 1000, ..Segment::default() });
            (acks.ato, acks.last_data) = (Span::from_ms(ato), Some(Time::ZERO));
            let now = Time::ZERO + Span::from_ms(pause);
            acks.on_data(&segment, 1000, now, 90_000, &config, &RttEstimator::new(&config.rto));
            assert_eq!((acks.ato, acks.quick_acks_left), (Span::from_ms(after), quick_acks), "{ato} {pause}");
        }
    }

    /// `tcp_event_data_sent`: a reply before the timeout is part of a dialogue.
    #[test]
    fn a_reply_within_the_timeout_is_interactive() {
        for (ms, is_interactive) in [(39, true), (40, false)] {
            let mut acks = linux(16);
            (acks.ato, acks.last_data) = (Span::from_ms(40), Some(Time::ZERO));
            acks.on_data_sent(Time::ZERO + Span::from_ms(ms), &TcpConfig::PLAIN);
            assert_eq!(acks.pingpong, is_interactive, "{ms}");
        }
    }

    /// `tcp_send_delayed_ack`: half a second at most, and 200 ms in a dialogue or with pushed data.
    #[test]
    fn a_dialogue_and_pushed_data_have_the_shorter_delay() {
        for (pingpong, pushed, ms) in [(false, 0, 500), (false, 1, 200), (true, 0, 200), (true, 1, 200)] {
            let acks = LinuxDelayedAckState { ato: Span::from_secs(1), pingpong, pushed, ..linux(0) };
            let config = TcpConfig::PLAIN;
            let delay = acks.delayed_ack_timeout(&config, &RttEstimator::new(&config.rto));
            assert_eq!(delay, Span::from_ms(ms), "{pingpong} {pushed}");
        }
    }

    /// `tcp_dec_quickack_mode`: only ACKs of data are counted, and the last one deflates the timeout.
    #[test]
    fn acks_of_data_spend_quick_acks() {
        let mut acks = linux(16);
        acks.ato = Span::from_secs(1);
        acks.grant_quick_acks(2, 90_000);
        for (scheduled, left) in [(false, 2), (true, 1), (false, 1)] {
            acks.on_ack_sent(scheduled);
            assert_eq!((acks.quick_acks_left, acks.ato), (left, Span::from_secs(1)));
        }
        acks.on_ack_sent(true);
        assert_eq!((acks.quick_acks_left, acks.ato), (0, acks.min_ato));
        acks.ato = Span::from_secs(1);
        acks.on_ack_sent(true);
        assert_eq!((acks.quick_acks_left, acks.ato), (0, Span::from_secs(1)));
    }

    /// `tcp_send_delayed_ack`: with pushed data 200 ms bound what is above the least timeout, and only that.
    #[test]
    fn the_least_timeout_has_no_bound() {
        let delay = |least, ato| {
            let timeout = Span::from_ms(least);
            let config = TcpConfig {
                delayed_ack: DelayedAckConfig { segments: 2, timeout },
                delayed_ack_form: DelayedAckForm::Linux,
                ..TcpConfig::PLAIN
            };
            let acks = LinuxDelayedAckState { ato: Span::from_ms(ato), pushed: 1, ..linux(0) };
            acks.delayed_ack_timeout(&config, &RttEstimator::new(&config.rto))
        };
        for (least, ato, expected) in [(40, 40, 40), (40, 41, 41), (40, 201, 200), (300, 300, 300)] {
            assert_eq!(delay(least, ato), Span::from_ms(expected), "{least} {ato}");
        }
    }

    /// `__tcp_ecn_check_ce`: what is not ECT counts once ECT has been seen.
    #[test]
    fn ecn_brings_two_quick_acks_and_ends_interactive_mode() {
        let mut acks = linux(16);
        let mut after = |codepoint, first_ce| {
            (acks.quick_acks_left, acks.pingpong) = (0, true);
            acks.on_ecn((codepoint, first_ce), 90_000);
            (acks.quick_acks_left, acks.pingpong)
        };
        assert_eq!(after(EcnCodepoint::NotEct, false), (0, true));
        assert_eq!(after(EcnCodepoint::Ect0, false), (0, true));
        assert_eq!(after(EcnCodepoint::NotEct, false), (2, false));
        assert_eq!(after(EcnCodepoint::Ce, false), (0, true));
        assert_eq!(after(EcnCodepoint::Ce, true), (2, false));
    }
}
