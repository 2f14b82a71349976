//! Static demands by name: `permutation`, `rack_permutation`, `all_to_all`, `n_to_1:16`, `skewed:1.2`.

use pauseframe_flowlevel::demand::{self, DemandError, Pair};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::NodeId;
use std::fmt;
use std::str::FromStr;

/// A static demand: the pairs of hosts that send all the time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Demand {
    /// Every host sends to one other host, and receives from one other host.
    Permutation,
    /// All hosts of a switch send to the hosts of one other switch.
    RackPermutation,
    /// Every host sends to every other host.
    AllToAll,
    /// The given number of hosts send to one host.
    NToOne(usize),
    /// Every host sends to one other host, drawn by Zipf's law with the given exponent.
    Skewed(f64),
}

impl Demand {
    /// The sending and receiving hosts of the demand.
    ///
    /// # Errors
    /// If there are too few hosts, or the exponent is outside of its range.
    pub fn pairs(
        self,
        topology: &Topology,
        graph: &SwitchGraph,
        seed: u64,
    ) -> Result<Vec<Pair>, DemandError> {
        let hosts: Vec<NodeId> = topology.hosts().collect();
        match self {
            Demand::Permutation => demand::permutation(&hosts, seed),
            Demand::RackPermutation => demand::rack_permutation(graph, seed),
            Demand::AllToAll => demand::all_to_all(&hosts),
            Demand::NToOne(senders) => demand::n_to_1(&hosts, senders, seed),
            Demand::Skewed(exponent) => demand::skewed(&hosts, exponent, seed),
        }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Demand::Permutation => f.write_str("permutation"),
            Demand::RackPermutation => f.write_str("rack_permutation"),
            Demand::AllToAll => f.write_str("all_to_all"),
            Demand::NToOne(senders) => write!(f, "n_to_1:{senders}"),
            Demand::Skewed(exponent) => write!(f, "skewed:{exponent}"),
        }
    }
}

impl FromStr for Demand {
    type Err = String;
    fn from_str(text: &str) -> Result<Demand, String> {
        let wrong = || {
            format!(
                "{text:?} is not a demand: use permutation, rack_permutation, all_to_all, n_to_1:SENDERS or \
                 skewed:EXPONENT"
            )
        };
        match text.split_once(':') {
            None if text == "permutation" => Ok(Demand::Permutation),
            None if text == "rack_permutation" => Ok(Demand::RackPermutation),
            None if text == "all_to_all" => Ok(Demand::AllToAll),
            Some(("n_to_1", senders)) => senders.parse().map(Demand::NToOne).map_err(|_| wrong()),
            Some(("skewed", exponent)) => exponent.parse().map(Demand::Skewed).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}
