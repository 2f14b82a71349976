//! How a hash becomes one of several next hops: by remainder, by thresholds in proportion to weights, or by a table of buckets that keeps its
//! other entries when a next hop is lost.

use pauseframe_routing::NextHops;
use pauseframe_schema::choices;
use pauseframe_topology::Topology;
use pauseframe_units::NodeId;
use std::sync::Arc;

choices! {
    /// How the hash becomes the number of a next hop
    pub enum HashIndex {
        /// Its remainder by the number of next hops: the loss of one of n moves all flows but 1/n
        Modulo = "modulo",
        /// Its place among thresholds in proportion to weights, as in Linux's routing
        Threshold = "threshold",
        /// Its remainder by the number of buckets, each of which has a next hop: a loss moves the flows of its buckets only
        Resilient = "resilient",
    }
}

choices! {
    /// The weights of equal next hops
    pub enum HopWeights {
        /// One each
        Equal = "equal",
        /// What the links between switches on shortest paths behind each can carry (WCMP)
        Capacity = "capacity",
    }
}

/// How the hash of a switch becomes a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashIndexSettings {
    /// The rule.
    pub index: HashIndex,
    /// Weights for thresholds and buckets.
    pub weights: HopWeights,
    /// Buckets of a table.
    pub buckets: u32,
}

impl HashIndexSettings {
    /// By remainder.
    pub const MODULO: HashIndexSettings =
        HashIndexSettings { index: HashIndex::Modulo, weights: HopWeights::Equal, buckets: 128 };
}

/// Rounded shares of `whole` up to each weight.
fn cumulative(weights: &[u64], whole: u64) -> impl Iterator<Item = u64> {
    let total = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>().max(1);
    let rounded = move |sum: u128| ((2 * sum * u128::from(whole) + total) / (2 * total)) as u64;
    weights
        .iter()
        .scan(0_u128, |sum, weight| {
            *sum += u128::from(*weight);
            Some(*sum)
        })
        .map(rounded)
}

/// The largest 31-bit hash of each next hop (Linux `fib_rebalance` in `net/ipv4/fib_semantics.c`).
pub fn thresholds(weights: &[u64]) -> Vec<u32> {
    cumulative(weights, 1 << 31).map(|bound| bound.saturating_sub(1) as u32).collect()
}

/// The number of the next hop of each bucket, in proportion to weights (Linux `nh_res_group_rebalance` in `net/ipv4/nexthop.c`).
pub fn bucket_owners(weights: &[u64], buckets: u32) -> Vec<usize> {
    let bounds: Vec<u64> = cumulative(weights, u64::from(buckets)).collect();
    (0..u64::from(buckets)).map(|bucket| bounds.partition_point(|bound| *bound <= bucket)).collect()
}

/// The same when only the next hops `left`, ascending, are left of all: they share the buckets of the lost ones in proportion to their weights.
pub fn owners_after_loss(weights: &[u64], left: &[usize], buckets: u32) -> Vec<usize> {
    let mut owners = bucket_owners(weights, buckets);
    let lost: Vec<usize> = (0..owners.len()).filter(|bucket| !left.contains(&owners[*bucket])).collect();
    let of_left: Vec<u64> = left.iter().map(|hop| weights[*hop]).collect();
    for (bucket, heir) in lost.iter().zip(bucket_owners(&of_left, lost.len() as u32)) {
        owners[*bucket] = left[heir];
    }
    owners
}

impl HopWeights {
    /// The weights of the next hops of `at` towards a host port.
    pub fn of_hops(self, topology: &Topology, routes: &NextHops, [at, to]: [NodeId; 2]) -> Arc<[u64]> {
        match self {
            HopWeights::Equal => vec![1; routes.ports(at, to).len()].into(),
            HopWeights::Capacity => routes.capacities(topology, at, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_those_of_linux() {
        assert_eq!(thresholds(&[1, 2, 5]), [268_435_455, 805_306_367, 2_147_483_647]);
        assert_eq!(thresholds(&[1, 1]), [1_073_741_823, 2_147_483_647]);
        // Weights in bits per second do not overflow.
        assert_eq!(thresholds(&[100_000_000_000; 4])[3], 2_147_483_647);
    }

    /// Of 60 buckets over 5, the loss of any one moves exactly its 12, three to each of the others.
    #[test]
    fn a_loss_moves_the_buckets_of_the_lost_next_hop_only() {
        let before = bucket_owners(&[1; 5], 60);
        for lost in 0..5 {
            let left: Vec<usize> = (0..5).filter(|hop| *hop != lost).collect();
            let after = owners_after_loss(&[1; 5], &left, 60);
            let moved: Vec<usize> = (0..60).filter(|bucket| before[*bucket] != after[*bucket]).collect();
            assert_eq!(moved.len(), 12);
            assert!(moved.iter().all(|bucket| before[*bucket] == lost));
            for hop in left {
                assert_eq!(after.iter().filter(|owner| **owner == hop).count(), 15);
            }
        }
        // Two losses at once: 24 buckets over three.
        let after = owners_after_loss(&[1; 5], &[0, 2, 4], 60);
        assert!([0, 2, 4].iter().all(|hop| after.iter().filter(|owner| *owner == hop).count() == 20));
    }

    #[test]
    fn buckets_follow_weights() {
        let owners = bucket_owners(&[1, 2, 5], 16);
        assert_eq!([0, 1, 2].map(|hop| owners.iter().filter(|owner| **owner == hop).count()), [2, 4, 10]);
    }
}
