//! Fast recovery without SACK (RFC 6582).
//!
//! The RFC inflates cwnd by a segment for each duplicate ACK. Here cwnd stays at ssthresh, and a separate inflation lowers the pipe: the same
//! segments leave at the same time, and cwnd keeps its meaning. The retransmission timer restarts at every partial ACK ("slow-but-steady", §4).
// Deviates from RFC 6582 §3.2 step 5: the deflation stops at zero. It would go below only if duplicate ACKs were lost, but their data have left the
// network nevertheless (as in Linux).

use crate::sender::{MUST_RETRANSMIT, Sender};

impl Sender {
    /// §3.2 step 2: no second fast retransmit for data of the last recovery. Duplicate ACKs that its needless
    /// retransmissions cause would otherwise start one.
    pub(super) fn may_enter_new_reno_recovery(&self) -> bool {
        self.snd_una > self.recover || self.recover == 0
    }

    /// RFC 5681 §3.2 step 3: each duplicate ACK means that one segment has left the network.
    pub(super) fn enter_new_reno_recovery(&mut self, dup_thresh: u32) {
        self.inflation = self.window.segments_to_bytes(dup_thresh);
    }

    /// RFC 5681 §3.2 step 4; no more can have left than was in flight.
    pub(super) fn on_duplicate_ack_in_new_reno_recovery(&mut self) {
        self.inflation = (self.inflation + u64::from(self.window.mss)).min(self.flight_size());
    }

    /// §3.2 step 5, partial ACK: retransmits the next hole at once.
    pub(super) fn on_partial_ack_in_new_reno_recovery(&mut self, acked: u64) {
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
    pub(super) fn on_full_ack_in_new_reno_recovery(&mut self) {
        let mss = u64::from(self.window.mss);
        self.window.cwnd = self.window.ssthresh.min(self.flight_size().max(mss) + mss);
    }
}
