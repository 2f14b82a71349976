//! Proportional rate reduction (RFC 9937, which follows RFC 6937) as Linux does it: the window goes down to ssthresh over a
//! round trip instead of at once, in fast recovery and after ECE alike.
//!
//! Below ssthresh the window grows back by what is delivered, and by a segment more where the ACK advanced and
//! nothing else was lost (slow start reduction bound); else by what is delivered alone (conservative bound).
//!
//! The RFC counts bytes. Linux counts packets (`tcp_cwnd_reduction`), and so does `count_packets`: a short segment is as good as a
//! full one, both when it is sent and when it is delivered.
//! What is reduced is the RFC's `RecoverFS`, what is in flight; in Linux 6.1 it is cwnd (`prior_cwnd`). Where a timeout was
//! taken back under ECE a window of one or two stands against many more in flight, and while every ACK has ECE each reduction of
//! Linux then keeps what is in flight: its proportion is one.

use crate::config::Config;
use crate::mechanisms::Mechanism;
use crate::sender::Sender;

/// Counters of one reduction, bytes, or with `count_packets` as if every segment were full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Prr {
    /// What was in flight when it began, or in Linux the window.
    from: u64,
    /// Delivered since it began.
    delivered: u64,
    /// Sent since it began.
    pub(crate) out: u64,
}

impl Sender {
    /// A reduction to ssthresh begins. One that is under way goes on.
    pub(super) fn begin_proportional(&mut self, config: &Config) {
        let in_flight = self.scoreboard.flight(self.flight_size()) - self.scoreboard.sacked();
        let of_window = self.scoreboard.counts_packets() && config.has(Mechanism::PrrFromWindow);
        self.prior_cwnd = self.window.cwnd;
        if let Some(refined) = self.refined.as_deref_mut() {
            // RFC 9937 §6.1: with what this ACK delivers.
            let from = if of_window { self.prior_cwnd } else { in_flight + refined.delivery.bytes };
            refined.prr = Prr { from, ..Prr::default() };
        }
    }

    /// Sets cwnd after an ACK that delivered `delivered` bytes. `clean`: `snd_una` moved on and nothing was newly lost.
    pub(super) fn reduce_proportionally(&mut self, delivered: u64, clean: bool) {
        if delivered == 0 {
            return;
        }
        let pipe = self.pipe();
        let mss = u64::from(self.window.mss);
        let ssthresh = self.window.ssthresh;
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let prr = &mut refined.prr;
        prr.delivered += delivered;
        let due = prr.delivered.saturating_sub(prr.out);
        let mut send = if pipe > ssthresh {
            // Whole segments, rounded up, as Linux counts.
            let share = u128::from(ssthresh) * u128::from(prr.delivered);
            let whole = share.div_ceil(u128::from(prr.from.max(1)) * u128::from(mss));
            (whole as u64 * mss).saturating_sub(prr.out)
        } else {
            (ssthresh - pipe).min(due.max(delivered) + if clean { mss } else { 0 })
        };
        if prr.out == 0 {
            // The fast retransmit itself.
            send = send.max(mss);
        }
        self.window.cwnd = (pipe + send).max(mss);
    }
}
