//! What a loss or a mark makes of the window: the reduction, at once or in proportion to what is delivered (`prr.rs`), and the
//! way back where it was needless (`undo.rs`).

use super::Phase;
use super::prr::Prr;
use crate::cc::{Algorithm, Congestion, Window};
use crate::config::Config;
use crate::mechanisms::Mechanism;
use crate::sender::{MUST_RETRANSMIT, Sender};

impl Sender {
    /// The window that a loss leaves. In a window that ECE reduced already, half of the one before that: a window of data
    /// shrinks once, by the stronger of its causes (RFC 3168 §6.1.2; RFC 8257 §3.5 for DCTCP, whose cut for ECE
    /// can be slight). Linux: the cut for ECE stands, but DCTCP halves what PRR has left by now (`dctcp_react_to_loss`).
    pub(super) fn reduce_for_loss(&mut self, config: &Config) -> u64 {
        let mut struck = self.window;
        if self.phase == Phase::Cwr && config.recovery.count_packets && config.has(Mechanism::DctcpLoss) {
            let reduced = self.cc.loss_after_ecn(&struck);
            return self.scoreboard.whole(reduced).max(u64::from(self.window.mss));
        }
        if self.phase == Phase::Cwr {
            struck.cwnd = self.prior_cwnd;
            return self.reduced(struck, Congestion::Loss).min(self.window.ssthresh);
        }
        // RFC 5681 eq. (4): FlightSize, without what limited transmit sent beyond the window. Under PRR cwnd, as
        // Linux: the reduction is a proportion of it.
        if !config.recovery.prr {
            struck.cwnd = self.scoreboard.flight(self.flight_size()).min(self.window.cwnd);
        }
        self.reduced(struck, Congestion::Loss)
    }

    /// A loss that only the probe repaired (RFC 8985 §7.4.2): the window is cut at once. In Linux (`tcp_process_tlp_ack`) that is
    /// a passage through CWR, which DCTCP answers by its cut for ECE, and the end of one under way.
    pub(super) fn reduce_for_probe(&mut self, config: &Config) {
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

    /// What congestion control makes of the window `struck`, in whole segments where they are counted.
    pub(super) fn reduced(&mut self, struck: Window, cause: Congestion) -> u64 {
        let reduced = self.cc.reduced(&struck, cause);
        self.forget_earned();
        self.scoreboard.whole(reduced).max(u64::from(self.window.mss))
    }

    /// Where windows count packets, a reduction takes what is earned towards the next one.
    pub(super) fn forget_earned(&mut self) {
        if self.scoreboard.counts_packets() {
            self.cc.forget_earned();
        }
    }

    /// A reduction to ssthresh begins. One that is under way goes on.
    pub(super) fn begin_proportional(&mut self, config: &Config) {
        let in_flight = self.scoreboard.flight(self.flight_size()) - self.scoreboard.sacked();
        let of_window = self.scoreboard.counts_packets() && config.has(Mechanism::PrrFromWindow);
        self.prior_cwnd = self.window.cwnd;
        if let Some(refined) = self.refined.as_deref_mut() {
            // RFC 9937 §6.1: with what this ACK delivers.
            let from = if of_window { self.prior_cwnd } else { in_flight + refined.delivery.bytes };
            refined.prr = Prr::begin(from);
        }
    }

    /// Sets cwnd after an ACK that delivered `delivered` bytes. `clean`: `snd_una` moved on and nothing was newly lost.
    pub(super) fn reduce_proportionally(&mut self, delivered: u64, clean: bool) {
        if delivered == 0 {
            return;
        }
        let pipe = self.pipe();
        if let Some(refined) = self.refined.as_deref_mut() {
            self.window.cwnd = refined.prr.cwnd(delivered, clean, pipe, &self.window);
        }
    }

    /// Linux `tcp_current_ssthresh`: what is remembered of the window while it is not being reduced.
    pub(super) fn current_ssthresh(&self) -> u64 {
        match self.phase {
            Phase::Cwr | Phase::Recovery => self.window.ssthresh,
            Phase::Open | Phase::Loss => {
                let (half, quarter) = (self.window.cwnd / 2, self.window.cwnd / 4);
                let most = self.scoreboard.whole(half) + self.scoreboard.whole(quarter);
                self.window.ssthresh.max(most)
            }
        }
    }

    /// A reduction for a loss begins; call before the window changes. `resent`: bytes of copies on their way.
    pub(super) fn remember_for_undo(&mut self, resent: u64) {
        let resent = resent.div_ceil(u64::from(self.window.mss)) as u32;
        // In a window that ECE has reduced there is nothing to give back.
        let before = (self.phase != Phase::Cwr).then(|| (self.window.cwnd, self.current_ssthresh()));
        if let Some(refined) = self.refined.as_deref_mut() {
            let copies = resent + u32::from(refined.probe.is_copy());
            refined.undo.begin(self.snd_una, before, copies);
        }
    }

    /// A reduction for ECE begins: what went before stays.
    pub(super) fn forget_undo(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.forget();
        }
    }

    /// An ACK with ECE: the network is congested whatever was needless.
    pub(super) fn forbid_undo(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.forbid();
        }
    }

    /// Takes the last reduction back if all its retransmissions are known to have been needless.
    pub(super) fn try_undo(&mut self, config: &Config) {
        if config.recovery.undo && self.refined.as_deref().is_some_and(|refined| refined.undo.is_due()) {
            self.undo();
        }
    }

    /// Takes the last reduction back, and the marks of a timeout with it.
    pub(super) fn undo(&mut self) {
        if self.phase == Phase::Loss {
            self.scoreboard.unmark_lost(self.snd_una);
        }
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undone += 1;
            if let Some((cwnd, ssthresh)) = refined.undo.take() {
                self.window.cwnd = self.window.cwnd.max(cwnd);
                if ssthresh > self.window.ssthresh {
                    self.window.ssthresh = ssthresh;
                    self.cwr_due = false;
                }
            }
        }
        self.phase = Phase::Open;
        self.inflation = 0;
        self.detour &= !MUST_RETRANSMIT;
        self.retries = 0;
    }
}
