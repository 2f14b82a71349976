//! Proportional rate reduction (RFC 9937, which follows RFC 6937) as Linux does it: the window goes down to ssthresh over a
//! round trip instead of at once, in fast recovery and after ECE alike.
//!
//! Below ssthresh the window grows back by what is delivered, and by a segment more where the ACK advanced and
//! nothing else was lost (slow start reduction bound); else by what is delivered alone (conservative bound).
//!
//! The RFC counts bytes. Linux counts packets (`tcp_cwnd_reduction`), and so does `count_packets`: a short segment counts like a full one when sent
//! and when delivered. The RFC reduces from `RecoverFS`, the flight size; Linux 6.1 reduces from cwnd (`prior_cwnd`). If a timeout is undone under
//! ECE, a window of one or two segments meets a much larger flight, and while every ACK has ECE each reduction of Linux keeps the flight, because the
//! proportion is one.

use crate::cc::CongestionWindow;

/// Counters of one reduction, bytes, or with `count_packets` as if every segment were full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Prr {
    /// Flight size at its start; in Linux the window.
    from: u64,
    /// Delivered since it began.
    delivered: u64,
    /// Sent since it began.
    pub(super) out: u64,
}

impl Prr {
    /// A reduction begins, of a window or a flight of `from` bytes.
    pub(super) fn begin(from: u64) -> Prr {
        Prr { from, ..Prr::default() }
    }

    /// cwnd after an ACK that delivered `delivered` bytes and left `pipe` in flight. `clean`: `snd_una` moved on and nothing was
    /// newly lost.
    pub(super) fn cwnd_after_ack(
        &mut self,
        delivered: u64,
        clean: bool,
        pipe: u64,
        window: &CongestionWindow,
    ) -> u64 {
        let (mss, ssthresh) = (u64::from(window.mss), window.ssthresh);
        self.delivered += delivered;
        let due = self.delivered.saturating_sub(self.out);
        let mut send = if pipe > ssthresh {
            // Whole segments, rounded up, as Linux counts.
            let share = u128::from(ssthresh) * u128::from(self.delivered);
            let whole = share.div_ceil(u128::from(self.from.max(1)) * u128::from(mss));
            (whole as u64 * mss).saturating_sub(self.out)
        } else {
            (ssthresh - pipe).min(due.max(delivered) + if clean { mss } else { 0 })
        };
        if self.out == 0 {
            // The fast retransmit itself.
            send = send.max(mss);
        }
        (pipe + send).max(mss)
    }
}
