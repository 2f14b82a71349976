//! The window of Reno and NewReno (RFC 5681 §3): slow start, one segment per round trip, halving.
//!
//! What makes it NewReno, the recovery from several losses, is in `recovery/new_reno.rs`.

use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};

/// Additive increase by counting bytes (RFC 5681 §3.1, RFC 3465 §2.1): one segment for each window acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AdditiveIncrease {
    bytes_acked: u64,
}

impl AdditiveIncrease {
    /// Slow start below ssthresh, else congestion avoidance.
    #[inline]
    pub(crate) fn grow_window(&mut self, window: &mut CongestionWindow, acked: u64) {
        let rest = window.slow_start(acked);
        if rest == 0 {
            return;
        }
        self.bytes_acked += rest;
        if self.bytes_acked >= window.cwnd {
            // At most one segment per ACK, because an ACK covers at most one window.
            self.bytes_acked = (self.bytes_acked - window.cwnd).min(window.cwnd);
            window.cwnd += u64::from(window.mss);
        }
    }

    /// Resets the byte count after a reduction.
    pub(crate) fn reset_count(&mut self) {
        self.bytes_acked = 0;
    }
}

/// Reno's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NewReno {
    increase: AdditiveIncrease,
}

impl NewReno {
    pub(crate) fn new() -> NewReno {
        NewReno::default()
    }
}

impl CongestionAlgorithm for NewReno {
    #[inline]
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        self.increase.grow_window(window, ack.acked);
    }

    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        self.increase.reset_count();
        // RFC 5681 eq. (4); RFC 3168 §6.1.2 has the same for ECN.
        (window.cwnd / 2).max(window.segments_to_bytes(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::ack_sample;

    fn acked(bytes: u64) -> AckSample {
        ack_sample(bytes, 0, 0)
    }

    #[test]
    fn slow_start_doubles_and_hands_over_at_ssthresh() {
        let mut reno = NewReno::default();
        let mut window = CongestionWindow { cwnd: 10_000, ssthresh: 25_000, mss: 1000 };
        reno.increase_window(&mut window, &acked(10_000));
        assert_eq!(window.cwnd, 20_000);
        // 5000 bytes up to ssthresh, 15000 of the 25000 that the next segment takes.
        reno.increase_window(&mut window, &acked(20_000));
        assert_eq!(window.cwnd, 25_000);
        reno.increase_window(&mut window, &acked(9_000));
        assert_eq!(window.cwnd, 25_000);
        reno.increase_window(&mut window, &acked(1_000));
        assert_eq!(window.cwnd, 26_000);
    }

    #[test]
    fn avoidance_adds_one_segment_a_window_with_or_without_delayed_acks() {
        for segments_per_ack in [1, 2, 10] {
            let mut reno = NewReno::default();
            let mut window = CongestionWindow { cwnd: 20_000, ssthresh: 20_000, mss: 1000 };
            for _ in 0..20 / segments_per_ack {
                assert_eq!(window.cwnd, 20_000);
                reno.increase_window(&mut window, &acked(segments_per_ack * 1000));
            }
            assert_eq!(window.cwnd, 21_000);
        }
    }

    #[test]
    fn halves_with_a_floor_of_two_segments() {
        let mut reno = NewReno::default();
        let window = |cwnd| CongestionWindow { cwnd, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(reno.on_congestion(&window(21_000), CongestionCause::Loss), 10_500);
        assert_eq!(reno.on_congestion(&window(3_000), CongestionCause::Ecn), 2_000);
    }
    /// A window that ECE has reduced is not reduced again for a loss in it (`tcp_enter_cwr`, `tcp_enter_recovery`).
    #[test]
    fn a_loss_after_ece_leaves_the_reduced_window() {
        let window = CongestionWindow { cwnd: 10_000, ssthresh: 7000, mss: 1000 };
        assert_eq!(NewReno::default().on_loss_in_cwr(&window), 7000);
    }
}
