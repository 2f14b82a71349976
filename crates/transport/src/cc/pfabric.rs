//! The rate control of pFabric (Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §4.2).
//!
//! Flows start at line rate: the initial window is the bandwidth-delay product, and it grows by a segment a round trip from there. Only a small fixed
//! timeout detects losses; the flow then slow-starts up to half of its window. After several consecutive timeouts it enters probe mode: it sends a
//! single byte at each timeout until an ACK arrives.
//!
//! Window and timer are settings of the transport (preset `pfabric`), and the queue discipline orders packets. This file defines how the window
//! changes and when probing begins.

use super::new_reno::AdditiveIncrease;
use pauseframe_plugin::constants;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};

constants! {
    /// The constants of pFabric's rate control.
    pub struct PfabricConfig for "pfabric" {
        /// Timeouts in a row after which pFabric sends single bytes until an ACK comes (SIGCOMM 2013 §4.2: 5)
        probe_after: u32 = 5, in 1, 255;
    }
}

/// pFabric's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pfabric {
    increase: AdditiveIncrease,
    probe_after: u32,
}

impl Pfabric {
    pub(crate) fn new(constants: PfabricConfig) -> Pfabric {
        Pfabric { increase: AdditiveIncrease::default(), probe_after: constants.probe_after }
    }
}

impl CongestionAlgorithm for Pfabric {
    fn on_ack(&mut self, window: &mut CongestionWindow, _ack: &AckSample) {
        if window.ssthresh == u64::MAX {
            // The window is the bandwidth-delay product from the start: no slow start before the first loss.
            window.ssthresh = window.cwnd;
        }
    }

    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        self.increase.grow_window(window, ack.acked);
    }

    fn on_congestion(&mut self, window: &CongestionWindow, _cause: CongestionCause) -> u64 {
        self.increase.reset_count();
        (window.cwnd / 2).max(window.segments_to_bytes(2))
    }

    fn timeouts_before_probing(&self) -> u32 {
        self.probe_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::{ack_sample, window_of};

    #[test]
    fn starts_with_additive_increase() {
        let mut pfabric = Pfabric::new(PfabricConfig::default());
        let mut window = window_of(12);
        for _ in 0..12 {
            assert_eq!(window.cwnd, 12_000);
            let ack = ack_sample(1000, 0, 0);
            pfabric.on_ack(&mut window, &ack);
            pfabric.increase_window(&mut window, &ack);
        }
        assert_eq!((window.cwnd, window.ssthresh), (13_000, 12_000));
        assert_eq!(pfabric.on_congestion(&window, CongestionCause::Loss), 6_500);
    }
}
