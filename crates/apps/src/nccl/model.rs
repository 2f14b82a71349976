//! NCCL's model of times, which chooses the algorithm (`src/graph/tuning.cc`): latency plus size over bandwidth, for
//! protocol Simple on Hopper with an Intel CPU.

use super::{Layout, Nccl, Pattern};

/// Latencies in microseconds: start of the operation, step within a server, step over the network.
const BASE_US: f64 = 8.4;
const RING_STEPS_US: [f64; 2] = [3.4, 14.0];
const TREE_STEPS_US: [f64; 2] = [4.0, 14.0];
/// Part of the bandwidth of a ring that a tree reaches.
const TREE_BANDWIDTH: f64 = 0.92;
/// Corrections of a tree's bandwidth for vectors from 64 B on, by powers of two (`treeCorrectionFactor`).
const TREE_CORRECTION: [f64; 24] = [
    0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8,
    0.9, 0.9, 0.9,
];

/// The algorithm of a reduction of `bytes` to all ranks.
pub(super) fn choose(settings: &Nccl, layout: &Layout, ranks: u32, bytes: u64) -> Pattern {
    if layout.server_count() == 1 {
        return Pattern::Ring;
    }
    let [ring, tree] = times_us(settings, layout, ranks, bytes);
    if tree < ring { Pattern::Tree } else { Pattern::Ring }
}

/// The times of a ring and of a tree, in microseconds.
pub(super) fn times_us(settings: &Nccl, layout: &Layout, ranks: u32, bytes: u64) -> [f64; 2] {
    let power = (bytes >> 6).checked_ilog2().and_then(|power| TREE_CORRECTION.get(power as usize));
    let correction = power.copied().unwrap_or(1.0);
    let (ranks, bytes) = (f64::from(ranks), bytes as f64);
    let (servers, local) = (f64::from(layout.server_count()), f64::from(layout.ranks_per_server()));
    let [within, between] = settings.rates;
    let bandwidth = within.min(between * layout.rings.len() as f64) / 1e6;
    let (steps, between) = (2.0 * (ranks - 1.0), 2.0 * (servers - 1.0));
    let ring = BASE_US + (steps - between) * RING_STEPS_US[0] + between * RING_STEPS_US[1];
    let tree = BASE_US + 2.0 * ((local - 1.0) * TREE_STEPS_US[0] + servers.log2() * TREE_STEPS_US[1]);
    let of_tree = bandwidth * TREE_BANDWIDTH * correction * 0.5;
    [ring + bytes * steps / ranks / bandwidth, tree + bytes / of_tree]
}
