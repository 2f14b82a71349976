//! Loss detection at an ACK with recovery refinements: delivered data, RACK, D-SACK, and spurious timeouts (F-RTO).

use super::RecoveryPhase;
use super::delivery::RackLossDetectionResult;
use super::frto::FrtoState;
use super::settings::RtoGrowth;
use crate::cc::{AckSample, CongestionAlgorithm};
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::segment::{Segment, TcpOptions};
use crate::sender::Sender;
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};

/// What an ACK shows without its SACK option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckKind {
    /// It acknowledges new data.
    Advances,
    /// A segment without data and with the window of before (RFC 5681 §2).
    PureDuplicate,
    /// Data of the peer, another window, or an old ACK.
    Other,
}

impl AckKind {
    /// The kind of an ACK that acknowledges nothing new.
    pub(crate) fn without_progress(segment: &Segment, window_changed: bool) -> AckKind {
        if segment.len == 0 && !window_changed { AckKind::PureDuplicate } else { AckKind::Other }
    }
}

impl Sender {
    /// Prepares for an ACK; call before processing it. `to`: the offset that it acknowledges.
    #[cold]
    pub(crate) fn prepare_for_ack(&mut self, to: u64, now: Time) {
        self.restore_timer();
        self.prepare_delivery_sample();
        let was = self.take_timer_purpose();
        let high_ack = self.scoreboard.highest_sacked().max(self.snd_una);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        refined.was_special = was;
        refined.delivery.reset(now, high_ack, self.recover);
        if to > self.snd_una {
            self.scoreboard.record_acked(self.snd_una, to, &mut refined.delivery);
            if !self.sack && self.scoreboard.has_resent_below(to) {
                // `tcp_clean_rtx_queue`: without SACK the retransmission may have brought the progress.
                refined.delivery.original = false;
            }
        }
    }

    /// Shows congestion control an ACK that does not advance `snd_una`, with what SACK newly reports: Linux calls `in_ack_event` for every ACK. So a
    /// request that finds nothing in flight ends DCTCP's window, and alpha decays once more.
    pub(crate) fn record_ack_without_progress(&mut self, ece: bool, now: Time, config: &TcpConfig) {
        if !self.scoreboard.counts_packets() || !config.is_enabled(Mechanism::AlphaOfRequest) {
            return;
        }
        let sample = AckSample {
            acked: self.newly_delivered(0),
            ece,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            now,
            rtt: Span::ZERO,
            srtt: self.rtt.srtt().unwrap_or(Span::ZERO),
            open: self.phase == RecoveryPhase::Open,
        };
        self.cc.on_ack_without_progress(&mut self.window, &sample);
    }

    /// Takes an RTT sample from an ACK whose cumulative part gives none, because it does not advance or covers a retransmission (Karn's rule). Uses
    /// the first newly sacked segment, else the echoed timestamp in whole milliseconds (Linux `tcp_ack_update_rtt`). The sample ends the back-off.
    pub(super) fn sample_rtt_from_options(
        &mut self,
        segment: &Segment,
        advanced: bool,
        now: Time,
        config: &TcpConfig,
    ) {
        if !self.scoreboard.counts_packets() {
            return;
        }
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let sacked = refined.delivery.first_sacked.filter(|_| config.is_enabled(Mechanism::RttOfSack));
        let echoed = segment.stamps.round_trip(now).filter(|_| advanced && config.times_by_stamps());
        if let Some(sent_at) = sacked {
            self.rtt.add_sample(now.saturating_since(sent_at), &config.rto);
            // `tcp_clean_rtx_queue`: not if the segment was sent after the head, because this would postpone the timeout forever.
            let older = self.scoreboard.head_sent_at().is_some_and(|head| sent_at < head);
            refined.delivery.restarts_timer = older;
        } else if let Some(rtt) = echoed {
            self.rtt.add_sample(rtt, &config.rto);
        } else {
            return;
        }
        if (advanced && self.snd_una < self.snd_nxt) || refined.delivery.restarts_timer {
            self.rto_deadline = self.rtt.rto_deadline(now, &config.rto);
        }
    }

    /// Runs after the SACK option: RACK, D-SACK, the tail loss probe, and undo of a spurious reduction.
    pub(crate) fn process_sack_evidence(
        &mut self,
        segment: &Segment,
        kind: AckKind,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &ConnectionStats,
    ) {
        let mss = u64::from(self.window.mss);
        let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        if let (TcpOptions::Sack(blocks), true) = (&segment.options, self.sack) {
            refined.process_dsack(blocks, self.space, snd_una, mss, stats.retransmits, &self.scoreboard);
        }
        refined.rack.update_from_delivery(&refined.delivery, now, snd_una, snd_nxt);
        let silent = kind == AckKind::PureDuplicate && refined.delivery.bytes == 0;
        let lost = refined.probe.process_ack(snd_una, silent, refined.delivery.probe_dsack);
        if lost && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr) {
            self.reduce_for_tail_loss(config);
        }
        if ece {
            self.forbid_undo();
        }
        if self.phase == RecoveryPhase::Open
            || self.phase == RecoveryPhase::Recovery
            || (self.phase == RecoveryPhase::Loss && kind == AckKind::Advances)
        {
            self.try_undo(config);
        }
    }

    /// Processes a duplicate ACK (with SACK, one with new information) after a timeout. Without SACK it counts as a delivered segment
    /// ([`Self::add_reno_sack`] if packets are counted).
    pub(super) fn process_duplicate_ack(&mut self, duplicate: bool, config: &TcpConfig) {
        let mss = u64::from(self.window.mss);
        if duplicate && !self.sack && !self.counts_duplicates() {
            if let Some(refined) = self.refined.as_deref_mut() {
                refined.delivery.bytes = mss;
            }
            if self.phase == RecoveryPhase::Loss && self.snd_nxt > self.recover {
                // Data that F-RTO sent beyond the gap have arrived, so they no longer occupy the window.
                self.inflation = (self.inflation + mss).min(self.flight_size());
            }
        }
        if self.phase == RecoveryPhase::Loss {
            self.run_frto(false, duplicate, config);
        }
    }

    /// Whether losses are detected by time (RACK).
    pub(super) fn uses_rack(&self, config: &TcpConfig) -> bool {
        config.recovery.rack && self.sack && config.fast_retransmit
    }

    /// RFC 8985 §6.2 step 5: marks the segments that count as lost now.
    pub(super) fn detect_losses(&mut self, now: Time, config: &TcpConfig) -> RackLossDetectionResult {
        let before = self.scoreboard.bytes_to_retransmit();
        let Some(refined) = self.refined.as_deref_mut() else { return RackLossDetectionResult::default() };
        let in_recovery_or_dup_thresh = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss)
            || self.scoreboard.has_sacked(config.dup_thresh);
        let age =
            refined.rack.loss_threshold(in_recovery_or_dup_thresh, refined.delivery.min_rtt, self.rtt.srtt());
        let detected = self.scoreboard.mark_lost_by_time(refined.rack.latest, age, now, self.snd_una);
        refined.delivery.loss |= detected.loss;
        self.count_losses(before);
        detected
    }

    /// Runs RACK after an ACK in any phase: marks losses and enters recovery.
    pub(super) fn run_rack(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> RackLossDetectionResult {
        let detected = self.detect_losses(now, config);
        let enter = match self.phase {
            // Linux `tcp_time_to_recover`: segments lost during recovery count as losses after its end, retransmitted or not.
            RecoveryPhase::Open | RecoveryPhase::Cwr if config.is_enabled(Mechanism::RecoveryAgain) => {
                self.scoreboard.has_unrecovered_loss()
            }
            RecoveryPhase::Open | RecoveryPhase::Cwr => self.scoreboard.has_lost_segment(),
            RecoveryPhase::Recovery => false,
            // The retransmission after the timeout is lost too.
            RecoveryPhase::Loss => detected.retransmission,
        };
        if enter {
            self.enter_recovery(config, stats);
        }
        detected
    }

    /// RTT within which segments sent before a timeout are not marked lost (Linux).
    pub(super) fn rack_rtt(&self, config: &TcpConfig) -> Option<Span> {
        let refined = self.refined.as_deref()?;
        self.uses_rack(config).then_some(refined.rack.rtt)
    }

    /// The last step of an ACK: the window under PRR, limited transmit, the timer.
    pub(super) fn finish_ack(
        &mut self,
        advanced: bool,
        detected: RackLossDetectionResult,
        now: Time,
        config: &TcpConfig,
    ) {
        let Some(refined) = self.refined.as_deref() else { return };
        let (bytes, loss, was) = (refined.delivery.bytes, refined.delivery.loss, refined.was_special);
        let restarted = advanced || refined.delivery.restarts_timer;
        let controls = refined.rate.is_some();
        if self.uses_rack(config)
            && config.limited_transmit
            && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr)
        {
            // sacked data make room for new data (RFC 3042, without its limit, as in Linux).
            self.inflation = self.scoreboard.bytes_not_in_network();
        }
        if controls {
            self.control_window(now, config);
        } else if config.recovery.prr && matches!(self.phase, RecoveryPhase::Cwr | RecoveryPhase::Recovery) {
            self.apply_prr(bytes, advanced && !loss);
        }
        if !restarted {
            self.restore_timer_purpose(was);
        }
        self.rearm_after_ack(restarted, detected.wait, was, now, config);
    }

    /// Newly delivered data of an ACK of `acked` bytes, in packets if these are counted, without data that SACK had reported (Linux `delivered`).
    #[inline]
    pub(crate) fn newly_delivered(&self, acked: u64) -> u64 {
        match self.refined.as_deref() {
            Some(refined) if self.scoreboard.counts_packets() => refined.delivery.bytes,
            _ => acked,
        }
    }

    /// Bytes by which an ACK in phase Loss may grow the window.
    pub(super) fn growth_after_timeout(&self, sample: &AckSample, config: &TcpConfig) -> u64 {
        match (config.recovery.rto_growth, self.refined.as_deref()) {
            (RtoGrowth::Delivered, Some(refined)) => refined.delivery.bytes.min(sample.acked),
            // RFC 3465 §2.3: after a timeout, an ACK that jumps over a filled gap counts for one segment.
            _ => sample.acked.min(u64::from(self.window.mss)),
        }
    }

    /// Notes the RTT of the handshake, often the smallest (Linux `tcp_synack_rtt_meas`). RACK uses it to decide whether an ACK can acknowledge a
    /// retransmission.
    pub(crate) fn record_handshake_rtt(&mut self, rtt: Span) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.min_rtt = rtt;
        }
    }

    /// Starts F-RTO after a timeout outside of a recovery, or after another one without progress (RFC 5682 §2.1 step 1, Linux `tcp_enter_loss`).
    pub(super) fn begin_frto(&mut self, config: &TcpConfig) {
        let watches = matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr) || self.retries > 1;
        self.set_frto(if config.recovery.frto && watches { FrtoState::Watching } else { FrtoState::Off });
    }

    pub(super) fn set_frto(&mut self, state: FrtoState) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.frto = state;
        }
    }

    /// Processes an ACK after a timeout (RFC 5682). `duplicate`: it acknowledges nothing new, or its SACK option has new information.
    pub(super) fn run_frto(&mut self, advanced: bool, duplicate: bool, config: &TcpConfig) {
        let Some(refined) = self.refined.as_deref() else { return };
        if refined.frto == FrtoState::Off {
            return;
        }
        if refined.delivery.original {
            // §3.1 step 3b
            self.set_frto(FrtoState::Off);
            self.undo_reduction(config);
        } else if self.snd_nxt > self.recover {
            // Step 3a: the segments after the gap arrive, the gap is real.
            self.set_frto(if duplicate { FrtoState::Off } else { FrtoState::Watching });
        } else if advanced && self.snd_una < self.recover {
            // Step 2b, if there is anything new to send.
            let possible = self.next_sendable_len().is_some();
            self.set_frto(if possible { FrtoState::NewOnly } else { FrtoState::Off });
        }
    }
}
