//! What an ACK says about losses where refinements are on: what it delivered, what RACK and D-SACK make of it, and whether a
//! timeout was spurious (F-RTO).

use super::Phase;
use super::delivery::Detected;
use super::frto::Frto;
use super::settings::RtoGrowth;
use crate::cc::AckSample;
use crate::config::Config;
use crate::mechanisms::Mechanism;
use crate::segment::{Options, Segment, clock};
use crate::sender::Sender;
use crate::stats::Stats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// An ACK comes that may bring news; call before anything of it is taken in. `to`: what it acknowledges.
    #[cold]
    pub(crate) fn begin_ack(&mut self, to: u64, now: Time) {
        self.end_pacing_wait();
        let was = self.take_special();
        let high_ack = self.scoreboard.high_sacked().max(self.snd_una);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        refined.was_special = was;
        refined.delivery.begin(now, high_ack, self.recover);
        if to > self.snd_una {
            self.scoreboard.survey(self.snd_una, to, &mut refined.delivery);
        }
    }

    /// The round-trip time of an ACK whose cumulative part gives none, for it stands still or covers a retransmission (Karn's rule): of
    /// the first segment that SACK newly reports, else by the echoed timestamp, in whole milliseconds (Linux `tcp_ack_update_rtt`).
    /// It ends the back-off.
    pub(super) fn sample_otherwise(&mut self, segment: &Segment, advanced: bool, now: Time, config: &Config) {
        if !self.scoreboard.counts_packets() || self.snd_una == self.snd_nxt && !advanced {
            return;
        }
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let sacked = refined.delivery.first_sacked.filter(|_| config.has(Mechanism::RttOfSack));
        let echo = segment.stamps.echo;
        if let Some(sent_at) = sacked {
            self.rtt.sample(now.saturating_since(sent_at), &config.rto);
            // `tcp_clean_rtx_queue`: not where the segment was sent after the head, or the timeout would be put off without end.
            let older = self.scoreboard.head_sent_at().is_some_and(|head| sent_at < head);
            refined.delivery.restarts_timer = !advanced && older;
        } else if advanced && config.timestamps && echo != 0 && config.has(Mechanism::RttOfTimestamp) {
            let ticks = clock(now).wrapping_sub(echo).max(1);
            self.rtt.sample(Span::from_ms(1) * u64::from(ticks), &config.rto);
        } else {
            return;
        }
        if (advanced && self.snd_una < self.snd_nxt) || refined.delivery.restarts_timer {
            self.rto_deadline = self.rtt.deadline(now, &config.rto);
        }
    }

    /// After the SACK option: RACK, D-SACK, the probe, and whether the last reduction was needless.
    pub(crate) fn weigh_evidence(
        &mut self,
        segment: &Segment,
        advanced: bool,
        ece: bool,
        now: Time,
        config: &Config,
        stats: &Stats,
    ) {
        let mss = u64::from(self.window.mss);
        let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        if let (Options::Sack(blocks), true) = (&segment.options, self.sack) {
            refined.on_d_sack(blocks, self.space, snd_una, mss, stats.retransmits);
        }
        refined.rack.advance(&refined.delivery, now, snd_una, snd_nxt);
        let silent = !advanced && segment.len == 0 && refined.delivery.bytes == 0;
        let lost = refined.probe.showed_loss(snd_una, silent, refined.delivery.probe_dsack);
        if lost && matches!(self.phase, Phase::Open | Phase::Cwr) {
            self.reduce_for_probe(config);
        }
        if ece {
            self.forbid_undo();
        }
        if self.phase == Phase::Open
            || self.phase == Phase::Recovery
            || (self.phase == Phase::Loss && advanced)
        {
            self.try_undo(config);
        }
    }

    /// A duplicate ACK, or with SACK one with news, in the light of a timeout; without SACK it stands for a segment.
    pub(super) fn weigh_duplicate(&mut self, duplicate: bool) {
        let mss = u64::from(self.window.mss);
        if duplicate && !self.sack {
            if let Some(refined) = self.refined.as_deref_mut() {
                refined.delivery.bytes = mss;
            }
            if self.phase == Phase::Loss && self.snd_nxt > self.recover {
                // What F-RTO sent beyond the gap has arrived: it holds no place in the window.
                self.inflation = (self.inflation + mss).min(self.flight_size());
            }
        }
        if self.phase == Phase::Loss {
            self.on_ack_after_timeout(false, duplicate);
        }
    }

    /// Whether losses are found by time.
    pub(super) fn uses_rack(&self, config: &Config) -> bool {
        config.recovery.rack && self.sack && config.fast_retransmit
    }

    /// RFC 8985 §6.2 step 5: marks what is lost by now.
    pub(super) fn detect_by_time(&mut self, now: Time, config: &Config) -> Detected {
        let Some(refined) = self.refined.as_deref_mut() else { return Detected::default() };
        let hurry = matches!(self.phase, Phase::Recovery | Phase::Loss)
            || self.scoreboard.has_sacked(config.dup_thresh);
        let age = refined.rack.age(hurry, refined.delivery.min_rtt, self.rtt.srtt());
        let detected = self.scoreboard.mark_older(refined.rack.latest, age, now, self.snd_una);
        refined.delivery.loss |= detected.loss;
        detected
    }

    /// RACK after an ACK, whatever the phase: marks losses, enters recovery.
    pub(super) fn infer_by_time(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Detected {
        let detected = self.detect_by_time(now, config);
        let enter = match self.phase {
            // Linux `tcp_time_to_recover`: what was lost while recovery was on is a loss after its end, sent again or not.
            Phase::Open | Phase::Cwr if config.has(Mechanism::RecoveryAgain) => {
                self.scoreboard.is_loss_open()
            }
            Phase::Open | Phase::Cwr => self.scoreboard.has_lost(),
            Phase::Recovery => false,
            // The copy that followed a timeout is lost too.
            Phase::Loss => detected.retransmission,
        };
        if enter {
            self.enter_recovery(config, stats);
        }
        detected
    }

    /// What a timeout need not take for lost: it was sent less than a round trip ago (Linux).
    pub(super) fn rack_rtt(&self, config: &Config) -> Option<Span> {
        let refined = self.refined.as_deref()?;
        (self.uses_rack(config) && refined.rack.rtt > Span::ZERO).then_some(refined.rack.rtt)
    }

    /// The last step of an ACK: the window under PRR, limited transmit, the timer.
    pub(super) fn finish_ack(&mut self, advanced: bool, detected: Detected, now: Time, config: &Config) {
        let Some(refined) = self.refined.as_deref() else { return };
        let (bytes, loss, was) = (refined.delivery.bytes, refined.delivery.loss, refined.was_special);
        let restarted = advanced || refined.delivery.restarts_timer;
        if self.uses_rack(config) && config.limited_transmit && matches!(self.phase, Phase::Open | Phase::Cwr)
        {
            // What was sacked makes room for new data (RFC 3042, without end as in Linux).
            self.inflation = self.scoreboard.absent();
        }
        if config.recovery.prr && matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            self.reduce_proportionally(bytes, advanced && !loss);
        }
        if !restarted {
            self.restore_special(was);
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
    pub(super) fn growth_after_timeout(&self, sample: &AckSample, config: &Config) -> u64 {
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
    pub(super) fn begin_frto(&mut self, first: bool, config: &Config) {
        self.set_frto(if config.recovery.frto && first { Frto::Watching } else { Frto::Off });
    }

    pub(super) fn set_frto(&mut self, state: Frto) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.frto = state;
        }
    }

    /// An ACK after a timeout (RFC 5682). `duplicate`: it acknowledges nothing new, or has news in its SACK option.
    pub(super) fn on_ack_after_timeout(&mut self, advanced: bool, duplicate: bool) {
        let Some(refined) = self.refined.as_deref() else { return };
        if refined.frto == Frto::Off {
            return;
        }
        if refined.delivery.original {
            // §3.1 step 3b
            self.set_frto(Frto::Off);
            self.undo();
        } else if self.snd_nxt > self.recover {
            // Step 3a: the segments after the gap arrive, the gap is real.
            self.set_frto(if duplicate { Frto::Off } else { Frto::Watching });
        } else if advanced && self.snd_una < self.recover {
            // Step 2b, if there is anything new to send.
            let possible = self.fits_peer().is_some();
            self.set_frto(if possible { Frto::NewOnly } else { Frto::Off });
        }
    }
}
