//! Common demands of routing studies: lists of pairs of hosts with one flow per pair.
//!
//! Random demands draw from PCG XSL RR 128/64 (O'Neill 2014), seeded by the caller.

use pauseframe_topology::SwitchGraph;
use pauseframe_units::NodeId;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thiserror::Error;

/// The two hosts of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
}

/// Reasons why a demand cannot be made.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum DemandError {
    /// The fabric has fewer hosts (or switches with hosts) than the demand needs, or nobody sends.
    #[error("this demand needs {needed} or more {what}; there are {given}")]
    TooFew {
        /// The kind of nodes: hosts, switches with hosts, or senders.
        what: &'static str,
        /// Number of nodes that the demand needs.
        needed: usize,
        /// Number of nodes that exist.
        given: usize,
    },
    /// The exponent of a skewed demand is negative or not finite.
    #[error("the exponent of a skewed demand is {0}; it must be finite and not negative")]
    Exponent(f64),
}

fn at_least(what: &'static str, given: usize, needed: usize) -> Result<(), DemandError> {
    if given < needed { Err(DemandError::TooFew { what, needed, given }) } else { Ok(()) }
}

/// Every host sends to one other host and receives from one other host: a random cycle through all hosts
/// (Sattolo 1986).
///
/// # Errors
/// With fewer than two hosts.
pub fn permutation(hosts: &[NodeId], seed: u64) -> Result<Vec<Pair>, DemandError> {
    at_least("hosts", hosts.len(), 2)?;
    let to = cycle(hosts.len(), seed);
    Ok(hosts.iter().zip(to).map(|(from, to)| Pair { from: *from, to: hosts[to] }).collect())
}

/// All hosts of a switch send to the hosts of one other switch, in a random cycle of the switches. The i-th
/// host sends to the i-th host of the other switch, modulo its number of hosts.
///
/// # Errors
/// If fewer than two switches have hosts.
pub fn rack_permutation(graph: &SwitchGraph, seed: u64) -> Result<Vec<Pair>, DemandError> {
    let racks = graph.attachments();
    at_least("switches with hosts", racks.len(), 2)?;
    let to = cycle(racks.len(), seed);
    let pairs = racks.iter().zip(to).flat_map(|(rack, to)| {
        let receivers = graph.hosts(racks[to]);
        let senders = graph.hosts(*rack).iter().enumerate();
        senders.map(|(i, from)| Pair { from: *from, to: receivers[i % receivers.len()] })
    });
    Ok(pairs.collect())
}

/// Every host sends to every other host.
///
/// # Errors
/// With fewer than two hosts.
pub fn all_to_all(hosts: &[NodeId]) -> Result<Vec<Pair>, DemandError> {
    at_least("hosts", hosts.len(), 2)?;
    let pairs = hosts.iter().flat_map(|from| hosts.iter().map(|to| Pair { from: *from, to: *to }));
    Ok(pairs.filter(|pair| pair.from != pair.to).collect())
}

/// `senders` random hosts send to one other host (incast).
///
/// # Errors
/// If there is no sender, or there are fewer than `senders` + 1 hosts.
pub fn n_to_1(hosts: &[NodeId], senders: usize, seed: u64) -> Result<Vec<Pair>, DemandError> {
    at_least("senders", senders, 1)?;
    at_least("hosts", hosts.len(), senders.saturating_add(1))?;
    let mut drawn = hosts.to_vec();
    let (drawn, _) = drawn.partial_shuffle(&mut Pcg64::seed_from_u64(seed), senders + 1);
    Ok(drawn[1..].iter().map(|from| Pair { from: *from, to: drawn[0] }).collect())
}

/// Every host sends to one other host, drawn by Zipf's law: the k-th most popular host of a random ranking
/// has a probability proportional to k to the power of `-exponent`. With exponent zero all hosts are equally
/// likely.
///
/// # Errors
/// If there are fewer than two hosts or the exponent is out of bounds.
pub fn skewed(hosts: &[NodeId], exponent: f64, seed: u64) -> Result<Vec<Pair>, DemandError> {
    at_least("hosts", hosts.len(), 2)?;
    if !exponent.is_finite() || exponent < 0.0 {
        return Err(DemandError::Exponent(exponent));
    }
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut ranking = hosts.to_vec();
    ranking.shuffle(&mut rng);
    let popularity = (1..=hosts.len()).map(|rank| libm::pow(rank as f64, -exponent));
    let cumulative: Vec<f64> = popularity
        .scan(0.0, |sum, p| {
            *sum += p;
            Some(*sum)
        })
        .collect();
    let total = cumulative[cumulative.len() - 1];
    let mut draw = || {
        let at: f64 = rng.random_range(0.0..total);
        ranking[cumulative.partition_point(|sum| *sum <= at).min(ranking.len() - 1)]
    };
    // The most popular host would most often draw itself; instead, it sends to the second most popular host.
    let second = |from: NodeId| if ranking[0] == from { ranking[1] } else { ranking[0] };
    let mut pairs = Vec::with_capacity(hosts.len());
    for from in hosts {
        let to = (0..64).map(|_| draw()).find(|to| to != from).unwrap_or_else(|| second(*from));
        pairs.push(Pair { from: *from, to });
    }
    Ok(pairs)
}

/// A random cycle of `0..count`, as a list of successors (Sattolo 1986).
fn cycle(count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut to: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        to.swap(last, rng.random_range(0..last));
    }
    to
}
