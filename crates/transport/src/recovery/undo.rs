//! What duplicate SACK tells (RFC 2883): a retransmission was needless. Once all those of a reduction are known to be so, the
//! reduction is taken back (RFC 3708, Linux). ECE in the meantime forbids it: the network was congested.
//!
//! Left out: Eifel detection by timestamps (RFC 3522); the simulated option carries no values.

use super::Phase;
use crate::config::Config;
use crate::segment::SackBlocks;
use crate::sender::{MUST_RETRANSMIT, Sender};
use crate::stats::Stats;

/// What is needed to take a reduction back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Undo {
    /// `snd_una` when the reduction began; `None`: nothing to take back.
    marker: Option<u64>,
    /// Retransmissions since then that no D-SACK has reported; `None`: none sent yet.
    needless: Option<u32>,
    /// cwnd and ssthresh before; `None`: not to be restored.
    before: Option<(u64, u64)>,
    /// D-SACK reports over the life of the connection, segments.
    reports: u32,
}

impl Sender {
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

    /// A reduction for a loss begins; call before the window changes.
    pub(super) fn remember_for_undo(&mut self) {
        // In a window that ECE has reduced there is nothing to give back.
        let before = (self.phase != Phase::Cwr).then(|| (self.window.cwnd, self.current_ssthresh()));
        let marker = Some(self.snd_una);
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo = Undo { marker, needless: None, before, ..refined.undo };
        }
    }

    /// A reduction for ECE begins: what went before stays.
    pub(super) fn forget_undo(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.marker = None;
        }
    }

    /// Data were sent again.
    pub(super) fn count_retransmission(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut()
            && refined.undo.marker.is_some()
        {
            refined.undo.needless = Some(refined.undo.needless.unwrap_or(0) + 1);
        }
    }

    /// The first block is a D-SACK if it lies below the ACK or within the second (RFC 2883 §4).
    pub(super) fn on_d_sack(&mut self, blocks: &SackBlocks, stats: &Stats) {
        let (left, right) = blocks.blocks[0];
        let offset = |wire: u32| i64::from(self.space.distance(wire, self.snd_una));
        let (start, end) = (offset(left), offset(right));
        let within = blocks.count > 1 && {
            let (outer_start, outer_end) = (offset(blocks.blocks[1].0), offset(blocks.blocks[1].1));
            outer_start <= start && end <= outer_end
        };
        if blocks.count == 0 || start >= end || !(end <= 0 || within) {
            return;
        }
        let mss = u64::from(self.window.mss);
        let segments = (end - start).unsigned_abs().div_ceil(mss).min(u64::from(u32::MAX)) as u32;
        let end = self.snd_una.saturating_add_signed(end);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let undo = &mut refined.undo;
        undo.reports = undo.reports.saturating_add(segments);
        if undo.reports > stats.retransmits {
            // More than was ever sent twice: the network doubled it.
            return;
        }
        if refined.probe.is_for(end) {
            refined.delivery.probe_dsack = true;
        } else {
            refined.delivery.dsack = true;
        }
        refined.delivery.bytes += u64::from(segments) * mss;
        if undo.marker.is_some_and(|marker| end > marker) && end <= self.snd_una {
            undo.needless = undo.needless.map(|needless| needless.saturating_sub(segments));
        }
    }

    /// Takes the last reduction back if all its retransmissions are known to have been needless.
    pub(super) fn try_undo(&mut self, config: &Config) {
        let needless = |undo: &Undo| undo.marker.is_some() && undo.needless == Some(0);
        if config.recovery.undo && self.refined.as_deref().is_some_and(|refined| needless(&refined.undo)) {
            self.undo();
        }
    }

    /// Takes the last reduction back, and the marks of a timeout with it.
    pub(super) fn undo(&mut self) {
        if self.phase == Phase::Loss {
            self.scoreboard.unmark_lost(self.snd_una);
        }
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.marker = None;
            refined.undone += 1;
            if let Some((cwnd, ssthresh)) = refined.undo.before {
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

    /// An ACK with ECE: the network is congested whatever was needless.
    pub(super) fn forbid_undo(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.undo.before = None;
        }
    }
}
