//! Orders frames of several ports that compete: those that arrive at the same instant, and those that arrive within one frame time at a full queue
//! (`switching/serving.rs`). The order is a hash of the run's seed, the instant and the port.
//!
//! With ties broken by the smaller port, one host would always get the place that has just become free in a full queue, and its competitors never.
//! The hash has no state, so the order depends only on the seed, not on the run's history or on threads. Each of n frames has the smallest hash
//! equally often.

use pauseframe_engine::random_stream;
use pauseframe_units::{PortId, Time};

/// Tie bits of an event code, between kind and port.
const TIE_BITS: u64 = 0xff_ffff << 32;

/// Breaks ties between arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivalTieBreaker {
    key: u64,
    /// [`TIE_BITS`], or 0 if the smaller port goes first.
    mask: u64,
}

impl ArrivalTieBreaker {
    pub(crate) fn new(seed: u64, random: bool) -> ArrivalTieBreaker {
        ArrivalTieBreaker {
            key: random_stream(seed, "ties", 0).next_u64(),
            mask: if random { TIE_BITS } else { 0 },
        }
    }

    /// The tie bits of an arrival.
    #[inline(always)]
    pub(crate) fn tie_bits(self, at: Time, port: PortId) -> u64 {
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
        let ties = ArrivalTieBreaker::new(seed, true);
        let mut wins = vec![0; ports.len()];
        for turn in 0..20_000 {
            let at = Time(1_000_000 + turn * every);
            let first =
                (0..ports.len()).min_by_key(|index| ties.tie_bits(at, PortId(ports[*index]))).unwrap();
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
        let ties = ArrivalTieBreaker::new(1, true);
        let first = |turn: u64| {
            let at = Time(turn * 123_040);
            ties.tie_bits(at, PortId(0)) < ties.tie_bits(at, PortId(2))
        };
        let changes = (0..20_000).filter(|turn| first(*turn) != first(*turn + 1)).count();
        assert!(changes.abs_diff(10_000) < 354, "{changes}");
    }

    #[test]
    fn ideal_clocks_leave_the_order_to_the_ports() {
        let ties = ArrivalTieBreaker::new(1, false);
        assert_eq!(ties.tie_bits(Time(123), PortId(7)), 0);
        let random = ArrivalTieBreaker::new(1, true);
        assert_eq!(random.tie_bits(Time(123), PortId(7)) & !TIE_BITS, 0);
    }
}
