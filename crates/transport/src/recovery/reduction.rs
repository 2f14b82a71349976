//! Window reductions after a loss or a mark: immediate or proportional to delivered data (`prr.rs`), and their undo if spurious (`undo.rs`).

use super::RecoveryPhase;
use super::prr::Prr;
use crate::cc::{CongestionAlgorithm, CongestionCause, CongestionWindow};
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::sender::{MUST_RETRANSMIT, Sender};

impl Sender {
    /// The window after a loss. If ECE has already reduced it in this window of data, half of the window before that: a window of data shrinks once,
    /// by the stronger of its causes (RFC 3168 §6.1.2; RFC 8257 §3.5 for DCTCP, whose cut for ECE can be slight). Linux: the cut for ECE stands, but
    /// DCTCP halves what PRR has left by now (`dctcp_react_to_loss`).
    pub(super) fn reduce_for_loss(&mut self, config: &TcpConfig) -> u64 {
        let mut struck = self.window;
        if self.is_window_owned() {
            return self.cc.on_congestion(&struck, CongestionCause::Loss);
        }
        if self.phase == RecoveryPhase::Cwr
            && config.recovery.count_packets
            && config.is_enabled(Mechanism::DctcpLoss)
        {
            let reduced = self.cc.on_loss_in_cwr(&struck);
            return self.scoreboard.round_to_segments(reduced).max(u64::from(self.window.mss));
        }
        if self.phase == RecoveryPhase::Cwr {
            struck.cwnd = self.prior_cwnd;
            return self.reduced_ssthresh(struck, CongestionCause::Loss).min(self.window.ssthresh);
        }
        // RFC 5681 eq. (4): FlightSize without the excess of limited transmit. Under PRR it is cwnd, as in Linux, because the reduction is
        // proportional to it.
        if !config.recovery.prr {
            struck.cwnd = self.scoreboard.flight_space(self.flight_size()).min(self.window.cwnd);
        }
        self.reduced_ssthresh(struck, CongestionCause::Loss)
    }

    /// Reduces the window at once for a loss that only the tail loss probe repaired (RFC 8985 §7.4.2). Linux (`tcp_process_tlp_ack`) passes through
    /// state CWR, where DCTCP applies its reduction for ECE, and ends a reduction in progress.
    pub(super) fn reduce_for_tail_loss(&mut self, config: &TcpConfig) {
        if self.is_window_owned() {
            self.reduce_for_loss(config);
            return;
        }
        self.window.ssthresh = if config.recovery.count_packets {
            self.phase = RecoveryPhase::Open;
            self.reduced_ssthresh(self.window, CongestionCause::Ecn)
        } else if self.phase == RecoveryPhase::Cwr {
            self.reduce_for_loss(config)
        } else {
            // Not from the flight size, which is small at the tail.
            self.reduced_ssthresh(self.window, CongestionCause::Loss)
        };
        self.window.cwnd = self.window.ssthresh;
        self.discard_undo();
        self.cwr_due = true;
    }

    /// The ssthresh that congestion control computes from window `struck`, in whole segments if these are counted.
    pub(super) fn reduced_ssthresh(&mut self, struck: CongestionWindow, cause: CongestionCause) -> u64 {
        let reduced = self.cc.on_congestion(&struck, cause);
        self.discard_credit();
        self.scoreboard.round_to_segments(reduced).max(u64::from(self.window.mss))
    }

    /// If windows count packets, a reduction discards the credit towards the next one.
    pub(super) fn discard_credit(&mut self) {
        if self.scoreboard.counts_packets() {
            self.cc.discard_credit();
        }
    }

    /// Whether PRR reduces the window.
    pub(super) fn reduces_by_prr(&self, config: &TcpConfig) -> bool {
        config.recovery.prr && !self.is_window_owned()
    }

    /// Begins a reduction to ssthresh, or continues one in progress.
    pub(super) fn begin_prr(&mut self, config: &TcpConfig) {
        let in_flight = self.scoreboard.flight_space(self.flight_size()) - self.scoreboard.sacked_bytes();
        let of_window = self.scoreboard.counts_packets() && config.is_enabled(Mechanism::PrrFromWindow);
        self.prior_cwnd = self.window.cwnd;
        if let Some(refined) = self.refined.as_deref_mut() {
            // RFC 9937 §6.1: includes the data that this ACK delivers.
            let from = if of_window { self.prior_cwnd } else { in_flight + refined.delivery.bytes };
            refined.prr = Prr::begin(from);
        }
    }

    /// Sets cwnd after an ACK that delivered `delivered` bytes. `clean`: `snd_una` moved on and nothing was newly lost.
    pub(super) fn apply_prr(&mut self, delivered: u64, clean: bool) {
        if delivered == 0 {
            return;
        }
        let pipe = self.pipe();
        if let Some(refined) = self.refined.as_deref_mut() {
            self.window.cwnd = refined.prr.cwnd_after_ack(delivered, clean, pipe, &self.window);
        }
    }

    /// Linux `tcp_current_ssthresh`: the ssthresh that corresponds to the current window outside a reduction.
    pub(super) fn current_ssthresh(&self) -> u64 {
        match self.phase {
            RecoveryPhase::Cwr | RecoveryPhase::Recovery => self.window.ssthresh,
            RecoveryPhase::Open | RecoveryPhase::Loss => {
                let (half, quarter) = (self.window.cwnd / 2, self.window.cwnd / 4);
                let most =
                    self.scoreboard.round_to_segments(half) + self.scoreboard.round_to_segments(quarter);
                self.window.ssthresh.max(most)
            }
        }
    }

    /// Saves the window at the start of a loss reduction; call before the window changes. `resent`: bytes of retransmissions in flight.
    pub(super) fn init_undo(&mut self, resent: u64) {
        let resent = resent.div_ceil(u64::from(self.window.mss)) as u32;
        // A window that ECE has reduced is not restored.
        let before = (self.phase != RecoveryPhase::Cwr).then(|| (self.window.cwnd, self.current_ssthresh()));
        if let Some(refined) = self.refined.as_deref_mut() {
            let copies = resent + u32::from(refined.probe.is_retransmission());
            refined.undo.begin_reduction(self.snd_una, before, copies);
        }
    }

    /// Discards the saved window at the start of a reduction for ECE.
    pub(super) fn discard_undo(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.discard();
        }
    }

    /// Forbids undo after an ACK with ECE, because the network is congested.
    pub(super) fn forbid_undo(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.forbid();
        }
    }

    /// Undoes the last reduction if all its retransmissions were needless.
    pub(super) fn try_undo(&mut self, config: &TcpConfig) {
        if config.recovery.undo
            && self.refined.as_deref().is_some_and(|refined| refined.undo.were_all_needless())
        {
            self.undo_reduction(config);
        }
    }

    /// Undoes the last reduction, and the loss marks of a timeout.
    pub(super) fn undo_reduction(&mut self, config: &TcpConfig) {
        if self.phase == RecoveryPhase::Loss {
            self.scoreboard.remove_loss_marks(self.snd_una);
        }
        let owned = self.is_window_owned();
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undone += 1;
            if let Some((cwnd, ssthresh)) = refined.undo.end_reduction()
                && !owned
            {
                self.window.cwnd = self.window.cwnd.max(cwnd);
                if ssthresh > self.window.ssthresh {
                    self.window.ssthresh = ssthresh;
                    self.cwr_due = false;
                }
            }
        }
        if owned {
            self.notify_undo(config);
        }
        self.detour &= !MUST_RETRANSMIT;
        self.retries = 0;
        if !self.is_reopen_prevented() {
            self.phase = RecoveryPhase::Open;
            self.inflation = 0;
        }
    }
}
