//! State of what goes beyond the basic algorithms, in one box that a plain connection does not have, and the places where
//! it meets the ordinary path: before and after an ACK, and around each transmission.

use super::Phase;
use super::delivery::{Delivery, Detected};
use super::frto::Frto;
use super::idle::Usage;
use super::pacing::Pacer;
use super::prr::Prr;
use super::rack::Rack;
use super::settings::RtoGrowth;
use super::tlp::{Probe, Special};
use super::undo::Undo;
use crate::cc::{AckSample, Congestion};
use crate::config::Config;
use crate::segment::{Options, Segment};
use crate::sender::{Kind, Outgoing, Sender};
use crate::small_queue::SmallQueue;
use crate::stats::Stats;
use crate::super_packets::SuperPackets;
use crate::writing::Writer;
use pauseframe_units::{Span, Time};

/// State of the refinements that are on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refined {
    pub(super) delivery: Delivery,
    pub(super) rack: Rack,
    pub(super) prr: Prr,
    pub(super) probe: Probe,
    /// What the timer stands for, and when it was set to expire.
    pub(super) special: Option<(Special, Time)>,
    /// The timer as it was before the pacer took it.
    pub(super) behind_pacing: (Time, Option<(Special, Time)>),
    /// What the timer stood for before the ACK that is being worked on.
    was_special: Option<Special>,
    pub(super) undo: Undo,
    pub(super) frto: Frto,
    pub(super) usage: Usage,
    pub(super) pacer: Pacer,
    pub(crate) writer: Option<Box<Writer>>,
    pub(crate) small_queue: SmallQueue,
    pub(crate) supers: Option<Box<SuperPackets>>,
    /// Tail loss probes sent.
    pub(crate) loss_probes: u32,
    /// Reductions taken back.
    pub(crate) undone: u32,
}

impl Refined {
    /// The state that `config` needs.
    pub(crate) fn new(config: &Config) -> Option<Box<Refined>> {
        Refined::is_needed(config).then(|| {
            let (writer, supers) = (Writer::new(config), SuperPackets::new(config));
            Box::new(Refined { writer, supers, ..Refined::default() })
        })
    }

    /// The smallest round-trip time so far; zero: none yet.
    pub(crate) fn min_rtt(&self) -> Span {
        self.delivery.min_rtt
    }

    /// Whether anything of it is on.
    pub(crate) fn is_needed(config: &Config) -> bool {
        !config.recovery.is_plain()
            || Writer::new(config).is_some()
            || config.offload.tso > 0
            || config.small_queues
    }
}

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
        if let (Options::Sack(blocks), true) = (&segment.options, self.sack) {
            self.on_d_sack(blocks, stats);
        }
        let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        refined.rack.advance(&refined.delivery, now, snd_una, snd_nxt);
        let silent = !advanced && segment.len == 0 && refined.delivery.bytes == 0;
        if self.probe_showed_loss(silent) && matches!(self.phase, Phase::Open | Phase::Cwr) {
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

    /// A loss that only the probe repaired (RFC 8985 §7.4.2): the window is cut at once. In Linux (`tcp_process_tlp_ack`) that is
    /// a passage through CWR, which DCTCP answers by its cut for ECE, and the end of one under way.
    fn reduce_for_probe(&mut self, config: &Config) {
        self.window.ssthresh = if config.recovery.count_packets {
            self.phase = Phase::Open;
            self.reduced(self.window, Congestion::Ecn)
        } else if self.phase == Phase::Cwr {
            self.reduce_for_loss(config)
        } else {
            // Not from the flight: at the tail hardly any is left.
            self.reduced(self.window, Congestion::Loss)
        };
        self.window.cwnd = self.window.ssthresh;
        self.forget_undo();
        self.cwr_due = true;
    }

    /// RACK after an ACK, whatever the phase: marks losses, enters recovery.
    pub(super) fn infer_by_time(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Detected {
        let detected = self.detect_by_time(now, config);
        let enter = match self.phase {
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

    /// The last step of an ACK: the window under PRR, limited transmit, the timer.
    pub(super) fn finish_ack(&mut self, advanced: bool, detected: Detected, now: Time, config: &Config) {
        let Some(refined) = self.refined.as_deref() else { return };
        let (bytes, loss, was) = (refined.delivery.bytes, refined.delivery.loss, refined.was_special);
        if self.uses_rack(config) && config.limited_transmit && matches!(self.phase, Phase::Open | Phase::Cwr)
        {
            // What was sacked makes room for new data (RFC 3042, without end as in Linux).
            self.inflation = self.scoreboard.absent();
        }
        if config.recovery.prr && matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            self.reduce_proportionally(bytes, advanced && !loss);
        }
        if !advanced {
            self.restore_special(was);
        }
        self.arm_after_ack(advanced, detected.wait, was, now, config);
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

    /// The next segment where refinements are on: the probe, what the pacer lets through, and the books of both.
    #[cold]
    pub(crate) fn next_refined(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Option<Outgoing> {
        self.end_pacing_wait();
        self.restart_after_idle(now, config);
        let offloads = self.offloads();
        let (outgoing, probes) = if offloads {
            self.next_offloaded(now, config, stats)?
        } else {
            self.next_in_turn(now, config, stats)?
        };
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.prr.out += self.scoreboard.weigh(u64::from(outgoing.len));
        }
        match outgoing.kind {
            Kind::New => {
                if outgoing.len < self.window.mss {
                    self.note_small();
                }
                if offloads {
                    self.note_super_packet();
                }
                self.arm_after_sending(now, config);
            }
            Kind::Retransmission if !probes => self.count_retransmission(),
            Kind::Retransmission | Kind::WindowProbe => {}
        }
        self.note_sent(now);
        self.note_on_line(outgoing.len, now);
        self.charge_pacer(outgoing.len, now, config);
        self.validate_window(now, config);
        Some(outgoing)
    }

    /// The probe, or what else is next; whether it is the probe.
    #[inline(always)]
    fn next_in_turn(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Option<(Outgoing, bool)> {
        match self.next_probe(now, config, stats) {
            Some(probe) => Some((probe, true)),
            None if self.is_held_back(now, config) => None,
            None => self.next_unprobed(now, config, stats).map(|outgoing| (outgoing, false)),
        }
    }

    /// The same with super-packets: one that leaves goes first, and where none may leave the application may write.
    #[cold]
    #[inline(never)]
    fn next_offloaded(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Option<(Outgoing, bool)> {
        if self.is_leaving() {
            return self.next_of_super_packet(now, config).map(|outgoing| (outgoing, false));
        }
        if let Some(next) = self.next_in_turn(now, config, stats) {
            return Some(next);
        }
        if self.is_held_back(now, config) || !self.writes_more() {
            return None;
        }
        self.next_unprobed(now, config, stats).map(|outgoing| (outgoing, false))
    }

    #[inline(always)]
    fn next_unprobed(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Option<Outgoing> {
        if self.is_new_only() {
            let new = self.next_in_frto(now, config);
            if new.is_some() || self.is_new_only() {
                return new;
            }
        }
        self.next_plain(now, config, stats)
    }

    /// The handshake is the first measurement of the path, and where data queue up the smallest (Linux
    /// `tcp_synack_rtt_meas`): RACK judges by it whether an ACK can be the answer to a retransmission.
    pub(crate) fn note_handshake_rtt(&mut self, rtt: Span) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.min_rtt = rtt;
        }
    }

    /// Tail loss probes sent, and reductions taken back.
    pub(crate) fn refined_counts(&self) -> (u32, u32) {
        self.refined.as_deref().map_or((0, 0), |refined| (refined.loss_probes, refined.undone))
    }
}
