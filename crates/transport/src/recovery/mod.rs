//! Loss recovery: when a loss is inferred, what the window becomes, and how recovery ends.
//!
//! The states are Linux's. What differs between SACK (RFC 6675, in `sack.rs`) and plain NewReno (RFC 6582, in
//! `new_reno.rs`) is how a duplicate ACK counts and what a partial ACK does; the rest is common and stands here.
//! What goes beyond these is optional. Its state and arithmetic stand in files that know no sender: losses found by time
//! (`rack.rs`), the tail loss probe (`tlp.rs`), proportional rate reduction (`prr.rs`), the undoing of needless reductions
//! (`undo.rs`, `frto.rs`), the window after idle (`idle.rs`), pacing (`pacing.rs`), all in the box of `refined.rs`. The sender meets
//! them at an ACK (`evidence.rs`), at a reduction (`reduction.rs`), where the timer is set (`timer.rs`) and where it sends
//! (`turns.rs`).

mod delivery;
mod evidence;
mod frto;
mod idle;
mod new_reno;
mod pacing;
mod phase;
mod prr;
mod rack;
mod reduction;
mod refined;
mod sack;
mod settings;
mod timer;
mod tlp;
mod turns;
mod undo;

pub(crate) use delivery::{Delivery, Detected};
pub(crate) use phase::Phase;
pub(crate) use refined::Refined;
pub use settings::{IdleRestart, PacingConfig, RecoveryConfig, RtoGrowth};

use crate::cc::{AckSample, Algorithm, Congestion};
use crate::config::Config;
use crate::mechanisms::Mechanism;
use crate::segment::Segment;
use crate::sender::{MUST_RETRANSMIT, Sender};
use crate::stats::Stats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// An ACK of new data that needs more than opening the window.
    #[cold]
    pub(crate) fn on_eventful_ack(
        &mut self,
        segment: &Segment,
        sample: &AckSample,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) {
        let news = self.on_sack_option(segment);
        self.dup_acks = 0;
        if self.refined.is_some() {
            if sample.rtt == Span::ZERO {
                self.sample_otherwise(segment, true, now, config);
            }
            self.weigh_evidence(segment, true, sample.ece, now, config, stats);
        }
        if self.phase == Phase::Loss {
            self.on_ack_after_timeout(true, news > 0);
        }
        let before = self.phase;
        self.leave_or_stay(sample, config, stats);
        let mut detected = Detected::default();
        if self.uses_rack(config) {
            detected = self.infer_by_time(now, config, stats);
        } else if news > 0 && config.fast_retransmit && matches!(self.phase, Phase::Open | Phase::Cwr) {
            // RFC 6675 §2: with news in its SACK option it counts as a duplicate all the same.
            self.count_duplicate_ack(config, stats);
        }
        if sample.ece && self.phase == Phase::Open && matches!(before, Phase::Open | Phase::Cwr) {
            self.on_ece(config, stats);
        }
        if self.refined.is_some() {
            self.finish_ack(true, detected, now, config);
        }
        self.grow_after(before, sample, config);
    }

    /// What an ACK of new data does to the phase.
    fn leave_or_stay(&mut self, sample: &AckSample, config: &Config, stats: &mut Stats) {
        match self.phase {
            Phase::Open => self.inflation = 0,
            Phase::Cwr => {
                self.inflation = 0;
                // Past the end, not at it, so that a segment with CWR has been acknowledged (as Linux).
                if self.snd_una > self.cwr_end {
                    self.phase = Phase::Open;
                    if config.recovery.prr {
                        self.window.cwnd = self.window.ssthresh;
                    }
                }
            }
            Phase::Recovery if self.snd_una < self.recover => {
                if self.sack {
                    self.mark_by_counting(config);
                } else {
                    self.new_reno_partial_ack(sample.acked);
                }
            }
            Phase::Loss if self.snd_una < self.recover => self.inflation = 0,
            Phase::Recovery | Phase::Loss => self.leave_recovery(config, stats),
        }
    }

    /// RFC 6675 in recovery: marks what duplicates have overtaken.
    fn mark_by_counting(&mut self, config: &Config) {
        if self.uses_rack(config) {
            return;
        }
        let before = self.scoreboard.lost();
        self.scoreboard.mark_lost(config.dup_thresh, self.snd_una);
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.loss |= self.scoreboard.lost() > before;
        }
    }

    /// Opens the window for an ACK that found the sender in phase `before`.
    fn grow_after(&mut self, before: Phase, sample: &AckSample, config: &Config) {
        let acked = match (before, self.phase) {
            (Phase::Open | Phase::Cwr, Phase::Open) => sample.acked,
            (Phase::Loss, Phase::Loss) => self.growth_after_timeout(sample, config),
            // Linux `tcp_may_raise_cwnd`: the ACK that ends it too, so that a window of one segment is not left behind.
            (Phase::Loss, Phase::Open) if config.recovery.rto_growth == RtoGrowth::Delivered => {
                self.growth_after_timeout(sample, config)
            }
            // Linux `tcp_cong_control`: with the state as it is then, by what it newly delivers.
            (Phase::Recovery, Phase::Open)
                if config.recovery.count_packets && config.has(Mechanism::GrowthAtEnd) =>
            {
                sample.acked
            }
            // An ACK that ends recovery covers data that arrived long before: it does not open the window.
            _ => return,
        };
        if self.is_cwnd_limited() {
            let open = self.phase == Phase::Open;
            self.cc.increase(&mut self.window, &AckSample { acked, open, ..*sample });
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
        config: &Config,
        stats: &mut Stats,
    ) {
        if self.refined.is_some() {
            self.begin_ack(self.snd_una, now);
        }
        let news = self.on_sack_option(segment);
        // RFC 5681 §2: no data, the same window. RFC 6675 §2: instead, news in the SACK option.
        let duplicate = if self.sack { news > 0 } else { segment.len == 0 && !window_changed };
        if self.refined.is_some() {
            self.sample_otherwise(segment, false, now, config);
            self.weigh_evidence(segment, false, ece, now, config, stats);
            self.weigh_duplicate(duplicate);
        }
        if ece && self.phase == Phase::Open {
            self.on_ece(config, stats);
        }
        let mut detected = Detected::default();
        if self.uses_rack(config) {
            detected = self.infer_by_time(now, config, stats);
        } else if duplicate && config.fast_retransmit {
            match self.phase {
                Phase::Open | Phase::Cwr => self.count_duplicate_ack(config, stats),
                Phase::Recovery if self.sack => self.mark_by_counting(config),
                Phase::Recovery => self.new_reno_duplicate_ack(),
                // RFC 6582 §3.2 step 6, RFC 6675 §5.1: no fast retransmit for data sent before a timeout.
                Phase::Loss => {}
            }
        }
        if self.refined.is_some() {
            self.finish_ack(false, detected, now, config);
        }
    }

    /// A duplicate ACK outside recovery.
    fn count_duplicate_ack(&mut self, config: &Config, stats: &mut Stats) {
        self.dup_acks = self.dup_acks.saturating_add(1);
        if self.is_loss_inferred(config) {
            self.enter_recovery(config, stats);
        } else if config.limited_transmit && self.dup_acks < config.dup_thresh {
            // RFC 3042: a new segment for each of the first duplicate ACKs; the window stays.
            self.inflation += u64::from(self.window.mss);
        }
    }

    fn is_loss_inferred(&self, config: &Config) -> bool {
        if self.sack {
            self.dup_acks >= config.dup_thresh || self.scoreboard.is_head_lost(config.dup_thresh)
        } else {
            let hidden = config.recovery.ecn_hides_loss && self.phase == Phase::Cwr;
            self.dup_acks >= config.dup_thresh && self.new_reno_may_enter() && !hidden
        }
    }

    /// Fast retransmit (RFC 5681 §3.2 steps 2 and 3, RFC 6675 §5 step 4).
    pub(super) fn enter_recovery(&mut self, config: &Config, stats: &mut Stats) {
        self.remember_for_undo(self.scoreboard.resent());
        let reduced = self.reduce_for_loss(config);
        if !config.recovery.prr {
            self.window.cwnd = reduced;
        } else if self.phase != Phase::Cwr {
            self.begin_proportional(config);
        }
        self.window.ssthresh = reduced;
        // Linux: a reduction that is under way goes on, and ends where it would have (`tcp_enter_recovery`).
        let goes_on = self.phase == Phase::Cwr && config.recovery.count_packets;
        self.recover = if goes_on { self.cwr_end } else { self.snd_nxt };
        self.phase = Phase::Recovery;
        self.cwr_due = true;
        if !goes_on {
            // One of its own is due by PRR at once.
            self.detour |= MUST_RETRANSMIT;
        }
        self.rescued = false;
        self.inflation = 0;
        self.end_probe();
        if !self.uses_rack(config) {
            self.scoreboard.mark_head_lost(self.snd_una);
            if self.sack {
                self.scoreboard.mark_lost(config.dup_thresh, self.snd_una);
            } else {
                self.new_reno_enter(config.dup_thresh);
            }
        }
        stats.fast_retransmits += 1;
    }

    /// Everything sent before the loss was found is acknowledged.
    fn leave_recovery(&mut self, config: &Config, stats: &mut Stats) {
        if self.phase == Phase::Recovery {
            if config.recovery.prr {
                self.window.cwnd = self.window.ssthresh;
            } else if !self.sack {
                self.new_reno_full_ack();
            }
        }
        self.phase = Phase::Open;
        self.inflation = 0;
        self.detour &= !MUST_RETRANSMIT;
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.rack.end_recovery();
        }
        if self.uses_rack(config) {
            return;
        }
        // Segments sent during recovery can be lost as well, and what showed it may have come already.
        let lost = self.scoreboard.has_lost() || self.scoreboard.is_head_lost(config.dup_thresh);
        if self.sack && config.fast_retransmit && lost {
            self.enter_recovery(config, stats);
        }
    }

    /// Congestion experienced: reduce the window, once for the data now in flight (RFC 3168 §6.1.2).
    fn on_ece(&mut self, config: &Config, stats: &mut Stats) {
        self.prior_cwnd = self.window.cwnd;
        let reduced = self.reduced(self.window, Congestion::Ecn);
        self.window.ssthresh = reduced;
        if config.recovery.prr {
            self.begin_proportional(config);
        } else {
            self.window.cwnd = reduced;
        }
        self.phase = Phase::Cwr;
        self.cwr_end = self.snd_nxt;
        self.cwr_due = true;
        self.forget_undo();
        self.end_probe();
        stats.ecn_reductions += 1;
    }

    /// A retransmission timeout with data in flight (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1). Go back: all that is not
    /// sacked counts as lost and is sent again as the window opens.
    pub(crate) fn on_retransmission_timeout(&mut self, now: Time, config: &Config, stats: &mut Stats) {
        self.rtt.back_off();
        self.rto_deadline = self.rtt.deadline(now, &config.rto);
        if self.snd_una + u64::from(self.snd_wnd) < self.snd_nxt {
            // The peer has closed its window: this repeats a window probe and says nothing of congestion.
            self.scoreboard.mark_head_lost(self.snd_una);
            self.detour |= MUST_RETRANSMIT;
            return;
        }
        stats.timeouts += 1;
        let again = match self.phase {
            Phase::Open => false,
            // Linux: once a window, whatever the cause (`tcp_enter_loss`).
            Phase::Cwr => config.recovery.count_packets && self.snd_una < self.cwr_end,
            // RFC 5681 §3.1: ssthresh is not lowered twice for the same segment or the same window.
            Phase::Recovery => true,
            Phase::Loss => self.retries > 1,
        };
        self.begin_frto(!again || self.phase == Phase::Loss, config);
        if !again {
            self.remember_for_undo(0);
            self.window.ssthresh = self.reduce_for_loss(config);
        }
        self.cc.on_timeout();
        self.forget_earned();
        let recent = self.rack_rtt(config).map(|rtt| Time(now.0.saturating_sub(rtt.0)));
        self.scoreboard.mark_all_lost(self.snd_una, recent);
        self.phase = Phase::Loss;
        self.recover = self.snd_nxt;
        self.cwr_due = true;
        self.inflation = 0;
        self.window.cwnd = u64::from(self.window.mss);
        if recent.is_some() {
            // Linux: what was sent less than a round trip ago is taken to be on its way.
            self.window.cwnd += self.pipe();
        }
        self.end_probe();
        self.dup_acks = 0;
        self.detour &= !MUST_RETRANSMIT;
        self.probing = false;
        if self.retries >= self.cc.probe_after() {
            self.probing_path = true;
            self.probe_path_due = true;
        }
    }

    /// The time that the retransmission timer runs with now.
    pub(crate) fn rto(&self, config: &Config) -> Span {
        self.rtt.rto(&config.rto)
    }
}
