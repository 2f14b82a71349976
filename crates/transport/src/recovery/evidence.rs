//! What an ACK says about losses where refinements are on: what it delivered, what RACK and D-SACK make of it, and whether a
//! timeout was spurious (F-RTO).

use super::RecoveryPhase;
use super::delivery::RackDetection;
use super::frto::FrtoState;
use super::settings::RtoGrowth;
use crate::cc::AckSample;
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::segment::{Segment, TcpOptions, timestamp_clock};
use crate::sender::Sender;
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// An ACK comes that may bring news; call before anything of it is taken in. `to`: what it acknowledges.
    #[cold]
    pub(crate) fn begin_ack(&mut self, to: u64, now: Time) {
        self.end_pacing_wait();
        let was = self.take_timer_purpose();
        let high_ack = self.scoreboard.high_sacked().max(self.snd_una);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        refined.was_special = was;
        refined.delivery.begin_ack(now, high_ack, self.recover);
        if to > self.snd_una {
            self.scoreboard.note_newly_acked(self.snd_una, to, &mut refined.delivery);
        }
    }

    /// The round-trip time of an ACK whose cumulative part gives none, for it stands still or covers a retransmission (Karn's rule): of
    /// the first segment that SACK newly reports, else by the echoed timestamp, in whole milliseconds (Linux `tcp_ack_update_rtt`).
    /// It ends the back-off.
    pub(super) fn sample_rtt_from_sack_or_timestamp(
        &mut self,
        segment: &Segment,
        advanced: bool,
        now: Time,
        config: &TcpConfig,
    ) {
        if !self.scoreboard.counts_packets() || self.snd_una == self.snd_nxt && !advanced {
            return;
        }
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let sacked = refined.delivery.first_sacked.filter(|_| config.has_mechanism(Mechanism::RttOfSack));
        let echo = segment.stamps.echo;
        if let Some(sent_at) = sacked {
            self.rtt.add_sample(now.saturating_since(sent_at), &config.rto);
            // `tcp_clean_rtx_queue`: not where the segment was sent after the head, or the timeout would be put off without end.
            let older = self.scoreboard.head_sent_at().is_some_and(|head| sent_at < head);
            refined.delivery.restarts_timer = !advanced && older;
        } else if advanced
            && config.timestamps
            && echo != 0
            && config.has_mechanism(Mechanism::RttOfTimestamp)
        {
            let ticks = timestamp_clock(now).wrapping_sub(echo).max(1);
            self.rtt.add_sample(Span::from_ms(1) * u64::from(ticks), &config.rto);
        } else {
            return;
        }
        if (advanced && self.snd_una < self.snd_nxt) || refined.delivery.restarts_timer {
            self.rto_deadline = self.rtt.timer_deadline(now, &config.rto);
        }
    }

    /// After the SACK option: RACK, D-SACK, the probe, and whether the last reduction was needless.
    pub(crate) fn process_sack_evidence(
        &mut self,
        segment: &Segment,
        advanced: bool,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &ConnectionStats,
    ) {
        let mss = u64::from(self.window.mss);
        let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        if let (TcpOptions::Sack(blocks), true) = (&segment.options, self.sack) {
            refined.on_dsack_block(blocks, self.space, snd_una, mss, stats.retransmits);
        }
        refined.rack.update_from_delivery(&refined.delivery, now, snd_una, snd_nxt);
        let silent = !advanced && segment.len == 0 && refined.delivery.bytes == 0;
        let lost = refined.probe.reveals_loss(snd_una, silent, refined.delivery.probe_dsack);
        if lost && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr) {
            self.reduce_for_tail_loss(config);
        }
        if ece {
            self.forbid_undo();
        }
        if self.phase == RecoveryPhase::Open
            || self.phase == RecoveryPhase::Recovery
            || (self.phase == RecoveryPhase::Loss && advanced)
        {
            self.try_undo(config);
        }
    }

    /// A duplicate ACK, or with SACK one with news, in the light of a timeout; without SACK it stands for a segment.
    pub(super) fn process_duplicate_ack(&mut self, duplicate: bool) {
        let mss = u64::from(self.window.mss);
        if duplicate && !self.sack {
            if let Some(refined) = self.refined.as_deref_mut() {
                refined.delivery.bytes = mss;
            }
            if self.phase == RecoveryPhase::Loss && self.snd_nxt > self.recover {
                // What F-RTO sent beyond the gap has arrived: it holds no place in the window.
                self.inflation = (self.inflation + mss).min(self.flight_size());
            }
        }
        if self.phase == RecoveryPhase::Loss {
            self.on_ack_after_timeout(false, duplicate);
        }
    }

    /// Whether losses are found by time.
    pub(super) fn uses_rack(&self, config: &TcpConfig) -> bool {
        config.recovery.rack && self.sack && config.fast_retransmit
    }

    /// RFC 8985 §6.2 step 5: marks what is lost by now.
    pub(super) fn detect_losses_by_time(&mut self, now: Time, config: &TcpConfig) -> RackDetection {
        let Some(refined) = self.refined.as_deref_mut() else { return RackDetection::default() };
        let hurry = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss)
            || self.scoreboard.has_sacked_segments(config.dup_thresh);
        let age = refined.rack.loss_threshold(hurry, refined.delivery.min_rtt, self.rtt.srtt());
        let detected = self.scoreboard.mark_lost_by_time(refined.rack.latest, age, now, self.snd_una);
        refined.delivery.loss |= detected.loss;
        detected
    }

    /// RACK after an ACK, whatever the phase: marks losses, enters recovery.
    pub(super) fn run_rack(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> RackDetection {
        let detected = self.detect_losses_by_time(now, config);
        let enter = match self.phase {
            // Linux `tcp_time_to_recover`: what was lost while recovery was on is a loss after its end, sent again or not.
            RecoveryPhase::Open | RecoveryPhase::Cwr if config.has_mechanism(Mechanism::RecoveryAgain) => {
                self.scoreboard.has_unrecovered_loss()
            }
            RecoveryPhase::Open | RecoveryPhase::Cwr => self.scoreboard.has_lost_segment(),
            RecoveryPhase::Recovery => false,
            // The copy that followed a timeout is lost too.
            RecoveryPhase::Loss => detected.retransmission,
        };
        if enter {
            self.enter_recovery(config, stats);
        }
        detected
    }

    /// What a timeout need not take for lost: it was sent less than a round trip ago (Linux).
    pub(super) fn rack_rtt_at_timeout(&self, config: &TcpConfig) -> Option<Span> {
        let refined = self.refined.as_deref()?;
        (self.uses_rack(config) && refined.rack.rtt > Span::ZERO).then_some(refined.rack.rtt)
    }

    /// The last step of an ACK: the window under PRR, limited transmit, the timer.
    pub(super) fn finish_ack(
        &mut self,
        advanced: bool,
        detected: RackDetection,
        now: Time,
        config: &TcpConfig,
    ) {
        let Some(refined) = self.refined.as_deref() else { return };
        let (bytes, loss, was) = (refined.delivery.bytes, refined.delivery.loss, refined.was_special);
        let restarted = advanced || refined.delivery.restarts_timer;
        if self.uses_rack(config)
            && config.limited_transmit
            && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr)
        {
            // What was sacked makes room for new data (RFC 3042, without end as in Linux).
            self.inflation = self.scoreboard.bytes_not_in_network();
        }
        if config.recovery.prr && matches!(self.phase, RecoveryPhase::Cwr | RecoveryPhase::Recovery) {
            self.apply_prr(bytes, advanced && !loss);
        }
        if !restarted {
            self.restore_timer_purpose(was);
        }
        self.arm_after_ack(restarted, detected.wait, was, now, config);
    }

    /// What an ACK of `acked` bytes delivers: in packets where they are counted, without those that SACK had reported (Linux
    /// `delivered`).
    #[inline]
    pub(crate) fn newly_delivered(&self, acked: u64) -> u64 {
        match self.refined.as_deref() {
            Some(refined) if self.scoreboard.counts_packets() => refined.delivery.bytes,
            _ => acked,
        }
    }

    /// The bytes that open the window for an ACK in phase Loss.
    pub(super) fn growth_after_timeout(&self, sample: &AckSample, config: &TcpConfig) -> u64 {
        match (config.recovery.rto_growth, self.refined.as_deref()) {
            (RtoGrowth::Delivered, Some(refined)) => refined.delivery.bytes.min(sample.acked),
            // RFC 3465 §2.3: after a timeout, an ACK that jumps over a filled gap counts for one segment.
            _ => sample.acked.min(u64::from(self.window.mss)),
        }
    }

    /// The handshake is the first measurement of the path, and where data queue up the smallest (Linux
    /// `tcp_synack_rtt_meas`): RACK judges by it whether an ACK can be the answer to a retransmission.
    pub(crate) fn note_handshake_rtt(&mut self, rtt: Span) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.min_rtt = rtt;
        }
    }

    /// A timeout struck. `first`: not in a recovery, or not the first timeout in a row.
    pub(super) fn begin_frto(&mut self, first: bool, config: &TcpConfig) {
        self.set_frto(if config.recovery.frto && first { FrtoState::Watching } else { FrtoState::Off });
    }

    pub(super) fn set_frto(&mut self, state: FrtoState) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.frto = state;
        }
    }

    /// An ACK after a timeout (RFC 5682). `duplicate`: it acknowledges nothing new, or has news in its SACK option.
    pub(super) fn on_ack_after_timeout(&mut self, advanced: bool, duplicate: bool) {
        let Some(refined) = self.refined.as_deref() else { return };
        if refined.frto == FrtoState::Off {
            return;
        }
        if refined.delivery.original {
            // §3.1 step 3b
            self.set_frto(FrtoState::Off);
            self.undo_reduction();
        } else if self.snd_nxt > self.recover {
            // Step 3a: the segments after the gap arrive, the gap is real.
            self.set_frto(if duplicate { FrtoState::Off } else { FrtoState::Watching });
        } else if advanced && self.snd_una < self.recover {
            // Step 2b, if there is anything new to send.
            let possible = self.next_length_in_peer_window().is_some();
            self.set_frto(if possible { FrtoState::NewOnly } else { FrtoState::Off });
        }
    }
}
