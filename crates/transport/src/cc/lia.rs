//! LIA: the coupled increase of MPTCP (RFC 6356 §3). Subflows of one connection together take a bottleneck's share of one TCP, and move to the path
//! with the fewest losses. Slow start and the halving are Reno's. Without further subflows it is Reno.

use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};
use pauseframe_units::Span;

/// What the windows of all subflows of a connection determine together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coupling {
    /// Aggressiveness: windows together grow by `alpha` segments a round trip at most.
    alpha: f64,
    /// Sum of the windows in bytes.
    total: f64,
}

impl Coupling {
    /// From the congestion window in bytes and the smoothed round-trip time of each subflow; `None` before the first round trip.
    pub fn of_subflows(subflows: impl Iterator<Item = (u64, Span)>) -> Option<Coupling> {
        let (mut total, mut best, mut sum) = (0.0, 0.0_f64, 0.0);
        for (cwnd, rtt) in subflows.filter(|(_, rtt)| *rtt > Span::ZERO) {
            let (cwnd, rtt) = (cwnd as f64, rtt.0 as f64);
            total += cwnd;
            best = best.max(cwnd / (rtt * rtt));
            sum += cwnd / rtt;
        }
        // RFC 6356 §3: alpha = total * max(cwnd / rtt^2) / (sum of cwnd / rtt)^2.
        (sum > 0.0).then(|| Coupling { alpha: total * best / (sum * sum), total })
    }
}

/// LIA's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lia {
    coupling: Option<Coupling>,
    /// Bytes earned but not yet added to the window, less than a segment.
    credit: f64,
}

impl Lia {
    pub(crate) fn new() -> Lia {
        Lia { coupling: None, credit: 0.0 }
    }

    pub(crate) fn couple(&mut self, coupling: Option<Coupling>) {
        self.coupling = coupling;
    }
}

impl CongestionAlgorithm for Lia {
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        let rest = window.slow_start(ack.acked);
        let mss = f64::from(window.mss);
        let alone = rest as f64 * mss / window.cwnd as f64;
        let coupled = self.coupling.map_or(alone, |of| of.alpha * rest as f64 * mss / of.total);
        self.credit += alone.min(coupled);
        if self.credit >= mss && rest == ack.acked {
            // At most one segment per ACK, because an ACK covers at most one window.
            self.credit = (self.credit - mss).min(mss);
            window.cwnd += u64::from(window.mss);
        }
    }

    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        (window.cwnd / 2).max(window.segments_to_bytes(2))
    }

    fn discard_credit(&mut self) {
        self.credit = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::{ack_sample, window_of};

    fn segments_a_round(coupling: Option<Coupling>, segments: u64, rounds: u64) -> u64 {
        let mut lia = Lia::new();
        lia.couple(coupling);
        let mss = 1000;
        let mut window =
            CongestionWindow { ssthresh: segments * mss, ..window_of(segments) };
        for _ in 0..rounds * segments {
            lia.increase_window(&mut window, &ack_sample(mss, 0, 0));
        }
        window.cwnd / mss - segments
    }

    /// Two subflows with equal windows and round trips grow by half a segment a round trip together, a quarter each: the share of one TCP, which
    /// grows by one and halves a window twice as large.
    #[test]
    fn equal_subflows_grow_like_one_connection() {
        let rtt = Span::from_us(100);
        let two = Coupling::of_subflows([(100_000, rtt), (100_000, rtt)].into_iter());
        assert_eq!(two, Some(Coupling { alpha: 0.5, total: 200_000.0 }));
        assert_eq!(segments_a_round(two, 100, 8), 2);
        let one = Coupling::of_subflows([(100_000, rtt)].into_iter());
        assert_eq!(one, Some(Coupling { alpha: 1.0, total: 100_000.0 }));
        assert_eq!([segments_a_round(one, 100, 2), segments_a_round(None, 100, 2)], [1, 1], "Reno");
    }

    /// A subflow never grows faster than Reno, whatever its partner's round trip (RFC 6356 §3, the minimum).
    #[test]
    fn a_subflow_is_no_faster_than_one_connection() {
        let (near, far) = (Span::from_us(10), Span::from_ms(10));
        let coupling = Coupling::of_subflows([(10_000, near), (1_000_000, far)].into_iter());
        assert_eq!(segments_a_round(coupling, 10, 5), segments_a_round(None, 10, 5));
        assert_eq!(Coupling::of_subflows([(10_000, Span::ZERO)].into_iter()), None);
    }

    #[test]
    fn a_loss_halves_the_window() {
        let mut lia = Lia::new();
        assert_eq!(lia.on_congestion(&window_of(80), CongestionCause::Loss), 40_000);
        assert_eq!(lia.on_congestion(&window_of(3), CongestionCause::Loss), 2_000);
    }
}
