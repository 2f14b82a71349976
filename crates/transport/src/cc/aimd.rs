//! AIMD(a, b): the window grows by `a` segments a round trip and loses the share `b` at congestion (Yang and Lam, "General
//! AIMD Congestion Control", ICNP 2000). a = 1 and b = 1/2 are Reno's. Slow start is Reno's as well.

use pauseframe_plugin::constants;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};

constants! {
    /// The constants of AIMD(a, b).
    pub struct AimdConfig for "aimd" {
        /// Segments that AIMD(a, b) adds a round trip
        a: f64 = 1.0, in 0.0, 100.0;
        /// Share of the window that AIMD(a, b) gives up at congestion
        b: f64 = 0.5, in 0.0, 1.0;
    }
}

/// AIMD's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aimd {
    constants: AimdConfig,
    /// Fraction of a segment earned but not yet added to the window.
    credit: f64,
}

impl Aimd {
    pub(crate) fn new(constants: AimdConfig) -> Aimd {
        Aimd { constants, credit: 0.0 }
    }
}

impl CongestionAlgorithm for Aimd {
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        let rest = window.slow_start(ack.acked);
        self.credit += self.constants.a * rest as f64 / window.cwnd as f64;
        if self.credit >= 1.0 && rest == ack.acked {
            // Never faster than slow start, however large `a` is.
            let step = (self.credit as u64).min((rest / u64::from(window.mss)).max(1));
            window.cwnd += step * u64::from(window.mss);
            self.credit = self.credit.fract();
        }
    }

    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        self.credit = 0.0;
        let kept = (window.cwnd as f64 * (1.0 - self.constants.b)) as u64;
        kept.max(window.segments_to_bytes(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::{ack_sample, window_of};

    #[test]
    fn adds_a_segments_a_window_and_keeps_a_share() {
        let mut aimd = Aimd::new(AimdConfig { a: 0.25, b: 0.125 });
        let mut window = CongestionWindow { ssthresh: 8_000, ..window_of(8) };
        for acks in 1..=32 {
            assert_eq!(window.cwnd, 8_000, "before ACK {acks}");
            aimd.increase_window(&mut window, &ack_sample(1000, 0, 0));
        }
        assert_eq!(window.cwnd, 9_000, "a quarter of a segment a window");
        assert_eq!(aimd.on_congestion(&window_of(80), CongestionCause::Loss), 70_000);
    }
}
