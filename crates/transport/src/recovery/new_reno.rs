//! Fast recovery without SACK (RFC 6582).
//!
//! The RFC inflates cwnd by a segment for each duplicate ACK. Here cwnd stays at ssthresh, and a separate inflation lowers the pipe: the same
//! segments leave at the same time, and cwnd keeps its meaning. The retransmission timer restarts at every partial ACK ("slow-but-steady", §4).
//!
//! Linux counts packets: `dup_acks` is then its `sacked_out`. A duplicate ACK stands for one delivered packet in every phase, lowers the pipe, and
//! counts for PRR and congestion control; a partial ACK takes back what duplicates stood for. If more packets seem delivered than can be, the network
//! reorders, and more duplicates are needed to show a loss.
// Deviates from RFC 6582 §3.2 step 5: the deflation stops at zero. It would go below only if duplicate ACKs were lost, but their data have left the
// network nevertheless (as in Linux).

use super::RecoveryPhase;
use crate::config::TcpConfig;
use crate::sender::{MUST_RETRANSMIT, Sender};

/// Linux `tcp_max_reordering`.
const MAX_REORDERING: u32 = 300;

impl Sender {
    /// Whether duplicate ACKs stand for delivered packets, as in Linux without SACK.
    #[inline]
    pub(crate) fn counts_duplicates(&self) -> bool {
        !self.sack && self.refined.as_deref().is_some_and(|refined| refined.counts_duplicates)
    }

    /// `tcp_add_reno_sack`: a duplicate ACK. After a timeout it counts only for new data that F-RTO sent (`tcp_process_loss`).
    pub(super) fn add_reno_sack(&mut self, config: &TcpConfig) {
        let held = self.is_reopen_prevented();
        if self.phase == RecoveryPhase::Loss && (held || self.snd_nxt <= self.recover) {
            return;
        }
        let before = self.dup_acks;
        self.dup_acks += 1;
        self.check_reno_reordering(0);
        let news = self.window.segments_to_bytes(self.dup_acks.saturating_sub(before));
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.bytes += news;
        }
        self.set_inflation(config);
    }

    /// `tcp_remove_reno_sacks`: a cumulative ACK repairs one hole, and takes back the duplicates for the rest of what it covers.
    pub(crate) fn remove_reno_sacks(&mut self, config: &TcpConfig) {
        let mss = u64::from(self.window.mss);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let acked = (refined.delivery.bytes / mss) as u32;
        if acked == 0 {
            return;
        }
        let delivered = acked.saturating_sub(self.dup_acks).max(1);
        refined.delivery.bytes = u64::from(delivered) * mss;
        self.dup_acks = self.dup_acks.saturating_sub(acked - 1);
        self.check_reno_reordering(acked);
        self.set_inflation(config);
    }

    /// `tcp_check_reno_reordering`: beside the holes no more can have arrived than was sent; more duplicates show reordering.
    fn check_reno_reordering(&mut self, acked: u32) {
        let out = self.scoreboard.len() as u32;
        let lost = self.scoreboard.bytes_to_retransmit() + self.scoreboard.retransmitted_bytes_in_flight();
        let holes = ((lost / u64::from(self.window.mss)) as u32).max(1).min(out);
        if self.dup_acks + holes <= out {
            return;
        }
        self.dup_acks = out - holes;
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.reordering = refined.reordering.max(out + acked).min(MAX_REORDERING);
        }
    }

    /// Outside recovery duplicates make room for new data only with limited transmit (RFC 3042, without its limit, as in Linux).
    pub(super) fn set_inflation(&mut self, config: &TcpConfig) {
        let in_recovery = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        let counted = if in_recovery || config.limited_transmit { self.dup_acks } else { 0 };
        self.inflation = self.window.segments_to_bytes(counted);
    }

    /// `tcp_reset_reno_sack`
    pub(super) fn forget_duplicates(&mut self) {
        (self.dup_acks, self.inflation) = (0, 0);
    }

    /// Linux keeps the state until data beyond those of the recovery are acknowledged (`tcp_is_non_sack_preventing_reopen`): the same rule as
    /// [`Self::may_fast_retransmit`].
    pub(super) fn is_reopen_prevented(&self) -> bool {
        self.snd_una == self.recover && self.counts_duplicates()
    }

    /// Duplicate ACKs that show a loss.
    pub(super) fn effective_dup_thresh(&self, config: &TcpConfig) -> u32 {
        match self.refined.as_deref() {
            Some(refined) if self.counts_duplicates() => refined.reordering,
            _ => config.dup_thresh,
        }
    }

    /// Linux `reordering`; `None`: SACK has shown reordering, whose degree is not modelled.
    pub(crate) fn linux_reordering(&self, config: &TcpConfig) -> Option<u32> {
        if self.counts_duplicates() {
            return Some(self.effective_dup_thresh(config));
        }
        let seen = self.refined.as_deref().is_some_and(|refined| refined.rack.has_seen_reordering());
        (!seen).then_some(config.dup_thresh)
    }

    /// §3.2 step 2: no second fast retransmit for data of the last recovery. Duplicate ACKs that its needless
    /// retransmissions cause would otherwise start one.
    pub(super) fn may_fast_retransmit(&self) -> bool {
        self.snd_una > self.recover || self.recover == 0
    }

    /// RFC 5681 §3.2 step 3: each duplicate ACK means that one segment has left the network.
    pub(super) fn enter_new_reno(&mut self, dup_thresh: u32) {
        self.inflation = self.window.segments_to_bytes(dup_thresh);
    }

    /// RFC 5681 §3.2 step 4; no more can have left than was in flight.
    pub(super) fn add_inflation(&mut self) {
        self.inflation = (self.inflation + u64::from(self.window.mss)).min(self.flight_size());
    }

    /// §3.2 step 5, partial ACK: retransmits the next hole at once; in Linux when PRR has room for it (`tcp_newreno_mark_lost`).
    pub(super) fn on_partial_ack(&mut self, acked: u64) {
        if self.counts_duplicates() {
            let lost = self.scoreboard.bytes_to_retransmit();
            if !self.scoreboard.is_first_lost() {
                self.scoreboard.mark_head_lost(self.snd_una);
            }
            if let Some(refined) = self.refined.as_deref_mut() {
                refined.delivery.loss |= self.scoreboard.bytes_to_retransmit() > lost;
            }
            return;
        }
        let mss = u64::from(self.window.mss);
        let before = self.inflation;
        self.inflation = self.inflation.saturating_sub(acked);
        if acked >= mss {
            self.inflation += mss;
        }
        if let Some(refined) = self.refined.as_deref_mut() {
            // RFC 9937 §6.2: data signalled by duplicate ACKs were already counted then.
            refined.delivery.bytes = acked.saturating_sub(before.saturating_sub(self.inflation)).max(mss);
            refined.delivery.loss = true;
        }
        self.scoreboard.mark_head_lost(self.snd_una);
        self.detour |= MUST_RETRANSMIT;
    }

    /// §3.2 step 5, full ACK, option 1: no burst where little is in flight.
    pub(super) fn on_full_ack(&mut self) {
        let mss = u64::from(self.window.mss);
        self.window.cwnd = self.window.ssthresh.min(self.flight_size().max(mss) + mss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6582 §3.2 step 5: an ACK of at least a segment gives one back to the inflated window.
    #[test]
    fn a_partial_ack_gives_a_segment_back() {
        for (acked, inflation) in [(999, 4001), (1000, 5000), (2000, 4000)] {
            let config = TcpConfig { mss: 1000, ..TcpConfig::PLAIN };
            let mut sender = Sender::new(&config, 1);
            sender.inflation = 5000;
            sender.on_partial_ack(acked);
            assert_eq!(sender.inflation, inflation, "{acked}");
        }
    }
}
