//! Orders frames of several ports that compete: those that arrive at the same instant, and those that arrive within one frame time at a full queue
//! (`switching/serving.rs`). The order is a hash of the run's seed, the instant and the port.
//!
//! By arrival and the smaller port alone, one host would always find the place that has just become free in a full queue, and its competitors never.
//! The hash keeps no state, so the order depends on nothing but the seed: not on the run's history or on threads. The smallest of n hashes is that of
//! each frame equally often, whatever their order.

use pauseframe_engine::stream;
use pauseframe_units::{PortId, Time};

/// The bits of an event's code between its kind and its port.
const BITS: u64 = 0xff_ffff << 32;

/// Breaks ties between arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ties {
    key: u64,
    /// [`BITS`], or nothing where the smaller port goes first.
    mask: u64,
}

impl Ties {
    pub(crate) fn new(seed: u64, random: bool) -> Ties {
        Ties { key: stream(seed, "ties", 0).next_u64(), mask: if random { BITS } else { 0 } }
    }

    /// What stands above the port in the code of an arrival.
    #[inline(always)]
    pub(crate) fn of(self, at: Time, port: PortId) -> u64 {
        // One product of 128 bits, folded (Wang Yi's wyhash): a difference of ports or of times reaches all bits.
        let port = u64::from(port.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.key;
        let product = u128::from(at.0 ^ self.key.rotate_left(32)) * u128::from(port);
        ((product >> 64) as u64 ^ product as u64) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `ports` comes first at instants that are `every` ps apart.
    fn wins(seed: u64, ports: &[u32], every: u64) -> Vec<u32> {
        let ties = Ties::new(seed, true);
        let mut wins = vec![0; ports.len()];
        for turn in 0..20_000 {
            let at = Time(1_000_000 + turn * every);
            let first = (0..ports.len()).min_by_key(|index| ties.of(at, PortId(ports[*index]))).unwrap();
            wins[first] += 1;
        }
        wins
    }

    #[test]
    fn every_port_comes_first_equally_often() {
        // Frame times at 100 and 10 Gb/s and at 1 Gb/s, and a power of two.
        for every in [123_040, 1_230_400, 12_304_000, 1 << 20] {
            for ports in [&[0, 2][..], &[1, 3], &[0, 2, 4], &[6, 1, 800], &[0, 2, 4, 6, 8, 10, 12, 14]] {
                let wins = wins(3, ports, every);
                let fair = 20_000.0 / ports.len() as f64;
                // Five standard deviations.
                let most = 5.0 * (fair * (1.0 - 1.0 / ports.len() as f64)).sqrt();
                assert!(
                    wins.iter().all(|n| (f64::from(*n) - fair).abs() < most),
                    "{every} {ports:?}: {wins:?}"
                );
            }
        }
    }

    #[test]
    fn the_order_at_one_instant_tells_nothing_of_the_next() {
        let ties = Ties::new(1, true);
        let first = |turn: u64| {
            let at = Time(turn * 123_040);
            ties.of(at, PortId(0)) < ties.of(at, PortId(2))
        };
        let changes = (0..20_000).filter(|turn| first(*turn) != first(*turn + 1)).count();
        assert!(changes.abs_diff(10_000) < 354, "{changes}");
    }

    #[test]
    fn ideal_clocks_leave_the_order_to_the_ports() {
        let ties = Ties::new(1, false);
        assert_eq!(ties.of(Time(123), PortId(7)), 0);
        let random = Ties::new(1, true);
        assert_eq!(random.of(Time(123), PortId(7)) & !BITS, 0);
    }
}
