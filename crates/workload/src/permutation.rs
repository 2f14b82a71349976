//! Every host sends one flow and receives one: a uniformly random cyclic permutation (Sattolo 1986), so that
//! no host sends to itself.

use super::context::{Context, SIZES, TIMES, two_hosts};
use super::maker::{Listed, Maker, Source, at};
use pauseframe_engine::Rng;
use pauseframe_fabric::Workload;
use pauseframe_schema::table;
use pauseframe_units::{Bytes, Span};

table! {
    /// Every host sends to one other host and receives from one other host
    pub struct Permutation {
        /// Size of each flow
        size: Bytes = required_in(SIZES) => { two_hosts(t, context); };
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
    }
    pub fn try_read(t, context: &Context);
}

impl Source for Permutation {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(build(self.size, self.start, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }
}

fn build(size: Bytes, start: Span, maker: &Maker) -> Listed {
    let hosts = maker.hosts();
    let to = one_cycle(hosts.len(), &mut maker.stream("permutation", 0));
    Listed::new(
        hosts.iter().zip(to).map(|(&source, to)| maker.flow(source, hosts[to], size, at(start))).collect(),
    )
}

/// Draws a permutation of 0..n that is a single cycle; all (n - 1)! cycles are equally likely (Sattolo 1986:
/// a shuffle that leaves no element in place).
fn one_cycle(n: usize, rng: &mut Rng) -> Vec<usize> {
    let mut items: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        items.swap(last, rng.uniform_below(last as u64) as usize);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{drain, make, racks, rng};
    use super::*;
    use crate::WorkloadKind;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_one_cycle_through_all(n in 2usize..300, seed: u64) {
            let to = one_cycle(n, &mut pauseframe_engine::random_stream(seed, "cycle", 0));
            let (mut at, mut steps) = (to[0], 1);
            while at != 0 {
                at = to[at];
                steps += 1;
                prop_assert!(steps <= n);
            }
            prop_assert_eq!(steps, n);
        }
    }

    #[test]
    fn all_cycles_are_equally_likely() {
        let (draws, mut rng) = (60_000, rng("sattolo"));
        let mut seen = BTreeMap::new();
        for _ in 0..draws {
            *seen.entry(one_cycle(4, &mut rng)).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 6);
        let chi2: f64 = seen.values().map(|count| (f64::from(*count) - 1e4).powi(2) / 1e4).sum();
        // Chi-square with 5 degrees of freedom: 99.99 % quantile.
        assert!(chi2 < 25.7, "chi2 {chi2}: {seen:?}");
    }

    #[test]
    fn every_host_sends_once_and_receives_once() {
        let topology = racks(4, 5);
        let kind = WorkloadKind::Permutation(Permutation { size: Bytes::kb(70), start: Span::from_us(3) });
        let flows = drain(&mut *make(kind, &topology));
        let hosts: Vec<_> = topology.hosts().collect();
        assert_eq!(flows.iter().map(|flow| flow.source).collect::<Vec<_>>(), hosts);
        let mut receivers: Vec<_> = flows.iter().map(|flow| flow.destination).collect();
        receivers.sort_unstable();
        assert_eq!(receivers, hosts);
        assert!(flows.iter().all(|flow| flow.size == 70_000 && flow.start == at(Span::from_us(3))));
    }
}
