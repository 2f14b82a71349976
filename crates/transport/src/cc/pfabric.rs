//! The rate control of pFabric (Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §4.2).
//!
//! Flows start at line rate: the initial window is the bandwidth-delay product, and it grows by a segment a round trip from
//! there. Losses show by a small fixed timeout only, after which the flow goes into slow start up to half of its window. After a
//! number of timeouts in a row it is in probe mode: a single byte is sent at each timeout until an ACK comes.
//!
//! The window and the timer are settings of the transport (preset `pfabric`), the order of packets is the queue's; here is
//! how the window moves and when probing begins.

use super::new_reno::AdditiveIncrease;
use super::parameter::constants;
use super::{AckSample, Algorithm, Congestion, Window};

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

impl Algorithm for Pfabric {
    fn on_ack(&mut self, window: &mut Window, _ack: &AckSample) {
        if window.ssthresh == u64::MAX {
            // The window is the bandwidth-delay product from the start: no slow start before the first loss.
            window.ssthresh = window.cwnd;
        }
    }

    fn increase(&mut self, window: &mut Window, ack: &AckSample) {
        self.increase.increase(window, ack.acked);
    }

    fn reduced(&mut self, window: &Window, _cause: Congestion) -> u64 {
        self.increase.restart();
        (window.cwnd / 2).max(window.segments(2))
    }

    fn probe_after(&self) -> u32 {
        self.probe_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::contract::{sample, window_of};

    #[test]
    fn starts_with_additive_increase() {
        let mut pfabric = Pfabric::new(PfabricConfig::default());
        let mut window = window_of(12);
        for _ in 0..12 {
            assert_eq!(window.cwnd, 12_000);
            let ack = sample(1000, 0, 0);
            pfabric.on_ack(&mut window, &ack);
            pfabric.increase(&mut window, &ack);
        }
        assert_eq!((window.cwnd, window.ssthresh), (13_000, 12_000));
        assert_eq!(pfabric.reduced(&window, Congestion::Loss), 6_500);
    }
}
