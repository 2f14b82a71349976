//! Loss recovery: when a loss is inferred, what the window becomes, and how recovery ends.
//!
//! The states are Linux's. SACK recovery (RFC 6675, in `sack.rs`) and NewReno (RFC 6582, in `new_reno.rs`) differ in how they count duplicate ACKs
//! and handle partial ACKs; the common rest is here. Everything else is optional. Its state and arithmetic are in files independent of the sender:
//! losses found by time (`rack.rs`), the tail loss probe (`tlp.rs`), proportional rate reduction (`prr.rs`), the undoing of needless reductions
//! (`undo.rs`, `frto.rs`), the window after idle (`idle.rs`), pacing (`pacing.rs`), delivery rates (`rate.rs`), all in the box of `refined.rs`. The sender uses them at an ACK
//! (`evidence.rs`), at a reduction (`reduction.rs`), where the timer is set (`timer.rs`) and where it sends (`turns.rs`).

mod delivery;
mod evidence;
mod frto;
mod idle;
mod new_reno;
mod pacing;
mod phase;
mod prr;
mod rack;
mod rate;
mod reduction;
mod refined;
mod sack;
mod settings;
mod timer;
mod tlp;
mod turns;
mod undo;

pub(crate) use delivery::{NewlyDelivered, RackLossDetectionResult};
pub(crate) use evidence::AckKind;
pub(crate) use phase::RecoveryPhase;
pub(crate) use refined::RecoveryRefinementState;
pub use settings::{IdleRestart, PacingConfig, RecoveryConfig, RtoGrowth};

use crate::cc::{AckSample, CongestionAlgorithm, CongestionCause};
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::segment::Segment;
use crate::sender::{MUST_RETRANSMIT, Sender};
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// Processes an ACK of new data that needs more than a window increase; SACK newly reports `news` bytes.
    #[cold]
    pub(crate) fn on_ack_slow_path(
        &mut self,
        segment: &Segment,
        sample: &AckSample,
        news: u64,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) {
        if !self.counts_duplicates() {
            self.dup_acks = 0;
        }
        if self.refined.is_some() {
            self.record_delivery_rtt(sample.rtt);
            if sample.rtt == Span::ZERO {
                self.sample_rtt_from_options(segment, true, now, config);
            }
            self.process_sack_evidence(segment, AckKind::Advances, sample.ece, now, config, stats);
        }
        if self.phase == RecoveryPhase::Loss {
            self.run_frto(true, news > 0, config);
        }
        let before = self.phase;
        self.update_phase(sample, config, stats);
        let mut detected = RackLossDetectionResult::default();
        if self.uses_rack(config) {
            detected = self.run_rack(now, config, stats);
        } else if news > 0
            && config.fast_retransmit
            && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr)
        {
            // RFC 6675 §2: with news in its SACK option it still counts as a duplicate.
            self.count_duplicate_ack(config, stats);
        }
        if sample.ece
            && self.phase == RecoveryPhase::Open
            && matches!(before, RecoveryPhase::Open | RecoveryPhase::Cwr)
        {
            self.on_ece(config, stats);
        }
        if self.refined.is_some() {
            self.finish_ack(true, detected, now, config);
        }
        self.grow_window(before, sample, config);
    }

    /// Updates the recovery phase after an ACK of new data.
    fn update_phase(&mut self, sample: &AckSample, config: &TcpConfig, stats: &mut ConnectionStats) {
        match self.phase {
            RecoveryPhase::Open => self.forget_duplicates(),
            RecoveryPhase::Cwr => {
                self.forget_duplicates();
                // Past the end, not at it, so that a segment with CWR has been acknowledged (as Linux).
                if self.snd_una > self.cwr_end {
                    self.phase = RecoveryPhase::Open;
                    if self.reduces_by_prr(config) {
                        self.window.cwnd = self.window.ssthresh;
                    }
                }
            }
            RecoveryPhase::Recovery if self.snd_una < self.recover => {
                if self.sack {
                    self.mark_lost(config);
                } else {
                    self.on_partial_ack(sample.acked);
                }
            }
            RecoveryPhase::Loss if self.snd_una < self.recover => self.forget_duplicates(),
            RecoveryPhase::Recovery | RecoveryPhase::Loss if self.is_reopen_prevented() => {
                self.forget_duplicates();
            }
            RecoveryPhase::Recovery | RecoveryPhase::Loss => self.leave_recovery(config, stats),
        }
    }

    /// RFC 6675 in recovery: marks what duplicates have overtaken.
    fn mark_lost(&mut self, config: &TcpConfig) {
        if self.uses_rack(config) {
            return;
        }
        let before = self.scoreboard.bytes_to_retransmit();
        self.scoreboard.mark_lost(config.dup_thresh, self.snd_una);
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.loss |= self.scoreboard.bytes_to_retransmit() > before;
        }
        self.count_losses(before);
    }

    /// Increases the window after an ACK, given the phase `before` it.
    fn grow_window(&mut self, before: RecoveryPhase, sample: &AckSample, config: &TcpConfig) {
        if self.is_window_owned() {
            return;
        }
        let acked = match (before, self.phase) {
            (RecoveryPhase::Open | RecoveryPhase::Cwr, RecoveryPhase::Open) => sample.acked,
            (RecoveryPhase::Loss, RecoveryPhase::Loss) => self.growth_after_timeout(sample, config),
            // Linux `tcp_may_raise_cwnd`: the ACK that ends it too, so that a window of one segment is not left behind.
            (RecoveryPhase::Loss, RecoveryPhase::Open)
                if config.recovery.rto_growth == RtoGrowth::Delivered =>
            {
                self.growth_after_timeout(sample, config)
            }
            // Linux `tcp_cong_control`: with the state as it is then, by what it newly delivers.
            (RecoveryPhase::Recovery, RecoveryPhase::Open)
                if config.recovery.count_packets && config.is_enabled(Mechanism::GrowthAtEnd) =>
            {
                sample.acked
            }
            // An ACK that ends recovery covers data that arrived long before: it does not open the window.
            _ => return,
        };
        if self.is_cwnd_limited() {
            let open = self.phase == RecoveryPhase::Open;
            self.cc.increase_window(&mut self.window, &AckSample { acked, open, ..*sample });
        }
    }

    /// An ACK that acknowledges nothing new, with its ECE flag, while data are in flight.
    #[cold]
    pub(crate) fn on_duplicate_ack(
        &mut self,
        segment: &Segment,
        window_changed: bool,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) {
        if self.refined.is_some() {
            self.prepare_for_ack(self.snd_una, now);
        }
        let news = self.on_sack(segment);
        // RFC 5681 §2: no data, the same window. RFC 6675 §2: instead, news in the SACK option.
        let kind = AckKind::without_progress(segment, window_changed);
        let duplicate = if self.sack { news > 0 } else { kind == AckKind::PureDuplicate };
        if self.refined.is_some() {
            if duplicate && self.counts_duplicates() {
                self.add_reno_sack(config);
            }
            self.record_ack_without_progress(ece, now, config);
            self.sample_rtt_from_options(segment, false, now, config);
            self.process_sack_evidence(segment, kind, ece, now, config, stats);
            self.process_duplicate_ack(duplicate, config);
        }
        if ece && self.phase == RecoveryPhase::Open {
            self.on_ece(config, stats);
        }
        let mut detected = RackLossDetectionResult::default();
        if self.uses_rack(config) {
            detected = self.run_rack(now, config, stats);
        } else if duplicate && config.fast_retransmit {
            match self.phase {
                RecoveryPhase::Open | RecoveryPhase::Cwr => self.count_duplicate_ack(config, stats),
                RecoveryPhase::Recovery if self.sack => self.mark_lost(config),
                RecoveryPhase::Recovery if self.counts_duplicates() => {}
                RecoveryPhase::Recovery => self.add_inflation(),
                // RFC 6582 §3.2 step 6, RFC 6675 §5.1: no fast retransmit for data sent before a timeout.
                RecoveryPhase::Loss => {}
            }
        }
        if self.refined.is_some() {
            self.finish_ack(false, detected, now, config);
        }
    }

    /// An ACK below `snd_una` that was overtaken: in Linux its SACK option counts, but PRR is not told (`tcp_ack`, `old_ack`).
    #[cold]
    pub(crate) fn on_old_ack(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) {
        let counts = self.scoreboard.counts_packets() && config.is_enabled(Mechanism::SackOfOldAck);
        if !counts || self.snd_una == self.snd_nxt {
            return;
        }
        self.prepare_for_ack(self.snd_una, now);
        self.on_sack(segment);
        self.process_sack_evidence(segment, AckKind::Other, ece, now, config, stats);
        let detected = if self.uses_rack(config) {
            self.run_rack(now, config, stats)
        } else {
            RackLossDetectionResult::default()
        };
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.bytes = 0;
        }
        self.finish_ack(false, detected, now, config);
    }

    /// A duplicate ACK outside recovery.
    fn count_duplicate_ack(&mut self, config: &TcpConfig, stats: &mut ConnectionStats) {
        let counted = self.counts_duplicates();
        if !counted {
            self.dup_acks = self.dup_acks.saturating_add(1);
        }
        if self.is_loss_inferred(config) {
            self.enter_recovery(config, stats);
        } else if !counted && config.limited_transmit && self.dup_acks < config.dup_thresh {
            // RFC 3042: a new segment for each of the first duplicate ACKs; the window stays.
            self.inflation += u64::from(self.window.mss);
        }
    }

    fn is_loss_inferred(&self, config: &TcpConfig) -> bool {
        if self.sack {
            self.dup_acks >= config.dup_thresh || self.scoreboard.is_head_lost(config.dup_thresh)
        } else {
            let hidden = config.recovery.ecn_hides_loss && self.phase == RecoveryPhase::Cwr;
            self.dup_acks >= self.effective_dup_thresh(config) && self.may_fast_retransmit() && !hidden
        }
    }

    /// Fast retransmit (RFC 5681 §3.2 steps 2 and 3, RFC 6675 §5 step 4).
    pub(super) fn enter_recovery(&mut self, config: &TcpConfig, stats: &mut ConnectionStats) {
        self.init_undo(self.scoreboard.retransmitted_bytes_in_flight());
        let reduced = self.reduce_for_loss(config);
        if !self.is_window_owned() {
            if !config.recovery.prr {
                self.window.cwnd = reduced;
            } else if self.phase != RecoveryPhase::Cwr {
                self.begin_prr(config);
            }
            self.window.ssthresh = reduced;
        }
        // Linux: a reduction that is under way goes on, and ends where it would have (`tcp_enter_recovery`).
        let goes_on = self.phase == RecoveryPhase::Cwr && config.recovery.count_packets;
        self.recover = if goes_on { self.cwr_end } else { self.snd_nxt };
        self.phase = RecoveryPhase::Recovery;
        self.cwr_due = true;
        if !goes_on {
            // PRR allows one new segment at once.
            self.detour |= MUST_RETRANSMIT;
        }
        self.rescued = false;
        self.inflation = 0;
        self.end_tlp();
        if !self.uses_rack(config) {
            let before = self.scoreboard.bytes_to_retransmit();
            self.scoreboard.mark_head_lost(self.snd_una);
            if self.sack {
                self.scoreboard.mark_lost(config.dup_thresh, self.snd_una);
            } else if self.counts_duplicates() {
                self.set_inflation(config);
            } else {
                self.enter_new_reno(config.dup_thresh);
            }
            self.count_losses(before);
        }
        stats.fast_retransmits += 1;
    }

    /// Ends recovery: all data sent before the loss was detected are acknowledged.
    fn leave_recovery(&mut self, config: &TcpConfig, stats: &mut ConnectionStats) {
        if self.phase == RecoveryPhase::Recovery {
            if self.reduces_by_prr(config) {
                self.window.cwnd = self.window.ssthresh;
            } else if !self.sack {
                self.on_full_ack();
            }
        }
        self.phase = RecoveryPhase::Open;
        self.inflation = 0;
        self.detour &= !MUST_RETRANSMIT;
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.rack.end_recovery();
        }
        if self.uses_rack(config) {
            return;
        }
        // Segments sent during recovery can be lost as well, and what showed it may have come already.
        let lost = self.scoreboard.has_lost_segment() || self.scoreboard.is_head_lost(config.dup_thresh);
        if self.sack && config.fast_retransmit && lost {
            self.enter_recovery(config, stats);
        }
    }

    /// Congestion experienced: reduce the window, once for the data now in flight (RFC 3168 §6.1.2).
    fn on_ece(&mut self, config: &TcpConfig, stats: &mut ConnectionStats) {
        self.prior_cwnd = self.window.cwnd;
        let reduced = self.reduced_ssthresh(self.window, CongestionCause::Ecn);
        if !self.is_window_owned() {
            self.window.ssthresh = reduced;
            if config.recovery.prr {
                self.begin_prr(config);
            } else {
                self.window.cwnd = reduced;
            }
        }
        self.phase = RecoveryPhase::Cwr;
        self.cwr_end = self.snd_nxt;
        self.cwr_due = true;
        self.discard_undo();
        self.end_tlp();
        stats.ecn_reductions += 1;
    }

    /// A retransmission timeout with data in flight (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1). Go back: all that is not
    /// sacked counts as lost and is sent again as the window opens.
    pub(crate) fn on_rto(&mut self, now: Time, config: &TcpConfig, stats: &mut ConnectionStats) {
        self.rtt.double_rto();
        self.rto_deadline = self.rtt.rto_deadline(now, &config.rto);
        let shrunk = self.snd_una + u64::from(self.snd_wnd) < self.snd_nxt;
        if shrunk && !config.sends_empty_probes() {
            // The peer has closed its window: this repeats a window probe and says nothing of congestion.
            self.scoreboard.mark_head_lost(self.snd_una);
            self.detour |= MUST_RETRANSMIT;
            return;
        }
        stats.timeouts += 1;
        let again = match self.phase {
            RecoveryPhase::Open => false,
            // Linux: once a window, whatever the cause (`tcp_enter_loss`).
            RecoveryPhase::Cwr => config.recovery.count_packets && self.snd_una < self.cwr_end,
            // RFC 5681 §3.1: ssthresh is not lowered twice for the same segment or the same window.
            RecoveryPhase::Recovery => self.snd_una < self.recover,
            RecoveryPhase::Loss => self.retries > 1 && self.snd_una < self.recover,
        };
        self.begin_frto(config);
        if !again {
            self.init_undo(0);
            let reduced = self.reduce_for_loss(config);
            if !self.is_window_owned() {
                self.window.ssthresh = reduced;
            }
        }
        self.cc.on_timeout();
        self.discard_credit();
        let recent = self.rack_rtt(config).map(|rtt| Time(now.0.saturating_sub(rtt.0)));
        let before = self.scoreboard.bytes_to_retransmit();
        self.scoreboard.mark_all_lost(self.snd_una, recent);
        self.count_losses(before);
        self.phase = RecoveryPhase::Loss;
        self.recover = self.snd_nxt;
        self.cwr_due = true;
        self.inflation = 0;
        self.window.cwnd = u64::from(self.window.mss);
        if recent.is_some() {
            // Linux: what was sent less than a round trip ago is taken to be on its way.
            self.window.cwnd += self.pipe();
        }
        self.notify_loss_state(now, config);
        self.end_tlp();
        self.dup_acks = 0;
        self.detour &= !MUST_RETRANSMIT;
        self.probing = false;
        if self.retries >= self.cc.timeouts_before_probing() {
            self.probing_path = true;
            self.probe_path_due = true;
        }
    }

    /// The current retransmission timeout.
    pub(crate) fn rto(&self, config: &TcpConfig) -> Span {
        self.rtt.rto(&config.rto)
    }
}
