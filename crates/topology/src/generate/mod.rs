//! Generators of common topology families. Each family has a file with its keys and its graph, and a line in
//! the registry (`docs/how-to/extend-the-core.md`). Scenarios and short texts such as `fat_tree:k=6`
//! (`named.rs`) can use every family.
//!
//! Hosts get the smallest node ids, in the order of their names; the switches follow, level by level. A
//! generator checks every parameter before it builds anything.

mod homes;
mod named;
mod rails;

pub use dragonfly::dragonfly;
pub use dumbbell::dumbbell;
pub use fat_tree::fat_tree;
pub use homes::Homes;
pub use jellyfish::{Jellyfish, jellyfish};
pub use leaf_spine::leaf_spine;
pub use line::line;
pub use named::{NamedError, families, named};
pub use pgft::pgft;
pub use rails::by_rail;
pub use ring::ring;
pub use star::star;
pub use torus::torus;
pub use xgft::{xgft, xgft_with_external};

use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::registry;
use pauseframe_units::NodeId;
use std::collections::BTreeSet;
use thiserror::Error;

registry! {
    /// The topology families
    pub enum FamilyKind {
        "fat_tree" => fat_tree::FatTree(FatTree);
        "xgft" => xgft::Xgft(Xgft);
        "pgft" => pgft::Pgft(Pgft);
        "leaf_spine" => leaf_spine::LeafSpine(LeafSpine);
        "dumbbell" => dumbbell::Dumbbell(Dumbbell);
        "star" => star::Star(Star);
        "line" => line::Line(Line);
        "ring" => ring::Ring(Ring);
        "jellyfish" => jellyfish::Jellyfish(JellyfishSpec);
        "torus" => torus::Torus(Torus);
        "dragonfly" => dragonfly::Dragonfly(Dragonfly);
    }
    pub fn read(t);
    impl Family;
}

/// A topology family that can generate its graph.
pub trait Family {
    /// Generates the graph with `host` channels between hosts and switches and `fabric` channels between
    /// switches.
    ///
    /// # Errors
    /// If a parameter is out of bounds.
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError>;
}

/// The most links that a generator builds; a larger number is most likely a typing error.
pub const LINKS_MAX: u64 = 4_000_000;

/// Reasons why a generator rejects its parameters.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum GenerateError {
    /// A parameter is out of bounds.
    #[error("{family}: {parameter} = {value} is not possible: {allowed}")]
    Parameter {
        /// The topology family.
        family: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// The fabric would have more than [`LINKS_MAX`] links.
    #[error("{family}: this fabric would have {links} links; at most {LINKS_MAX} are allowed")]
    TooLarge {
        /// The topology family.
        family: &'static str,
        /// Number of links that the fabric would have (saturating).
        links: u64,
    },
}

fn refuse<T>(
    family: &'static str,
    parameter: &'static str,
    value: impl Into<String>,
    allowed: &'static str,
) -> Result<T, GenerateError> {
    Err(GenerateError::Parameter { family, parameter, value: value.into(), allowed })
}

fn at_least_one(family: &'static str, parameter: &'static str, value: u32) -> Result<(), GenerateError> {
    if value == 0 { refuse(family, parameter, value.to_string(), "it must be at least 1") } else { Ok(()) }
}

fn is_host(topology: &Topology, node: NodeId) -> bool {
    topology.nodes()[node].kind == NodeKind::Host
}

/// The switches with hosts in groups of `size` consecutive ones, or the only one; in a tree those of a group have the same switches above. `None` if they form none.
fn groups_of_switches(topology: &Topology, size: usize) -> Option<Vec<Vec<NodeId>>> {
    let peers = |switch: NodeId| topology.nodes()[switch].ports.iter().map(|port| topology.peer(*port));
    let leaves: Vec<NodeId> =
        topology.switches().filter(|switch| peers(*switch).any(|peer| is_host(topology, peer))).collect();
    if leaves.len() == 1 {
        return Some(vec![leaves]);
    }
    let above = |leaf: &NodeId| -> BTreeSet<NodeId> {
        let has_levels = topology.nodes()[*leaf].level.is_some();
        peers(*leaf).filter(|peer| has_levels && !is_host(topology, *peer)).collect()
    };
    let alike = |group: &[NodeId]| group.iter().all(|leaf| above(leaf) == above(&group[0]));
    let are_groups = leaves.len().is_multiple_of(size) && leaves.chunks(size).all(alike);
    are_groups.then(|| leaves.chunks(size).map(<[NodeId]>::to_vec).collect())
}

/// Rejects fabrics with more than [`LINKS_MAX`] links. The number of links is the sum of `terms`; each term
/// is a product of numbers.
fn bound_links(family: &'static str, terms: &[&[u64]]) -> Result<(), GenerateError> {
    let product = |term: &&[u64]| term.iter().fold(1_u64, |all, factor| all.saturating_mul(*factor));
    let links = terms.iter().map(product).fold(0, u64::saturating_add);
    if links > LINKS_MAX { Err(GenerateError::TooLarge { family, links }) } else { Ok(()) }
}

/// Adds `count` hosts with the names `{prefix}0`, `{prefix}1` ...
fn add_hosts(topology: &mut Topology, prefix: &str, count: u32) -> Vec<NodeId> {
    (0..count).map(|i| topology.add_node(format!("{prefix}{i}"), NodeKind::Host, Some(0))).collect()
}

/// Adds `count` switches with the names `{prefix}0`, `{prefix}1` ...
fn add_switches(topology: &mut Topology, prefix: &str, count: u32, level: Option<u8>) -> Vec<NodeId> {
    (0..count).map(|i| topology.add_node(format!("{prefix}{i}"), NodeKind::Switch, level)).collect()
}

/// Adds `count` switches "s0", "s1" ... with `hosts_per_switch` hosts "host0", "host1" ... at each; returns the
/// switches.
fn add_switches_with_hosts(
    topology: &mut Topology,
    count: u32,
    hosts_per_switch: u32,
    host_link: Channel,
) -> Vec<NodeId> {
    let hosts = add_hosts(topology, "host", count * hosts_per_switch);
    let switches = add_switches(topology, "s", count, None);
    for (hosts, switch) in hosts.chunks(hosts_per_switch as usize).zip(&switches) {
        for host in hosts {
            topology.add_link(*host, *switch, host_link);
        }
    }
    switches
}
