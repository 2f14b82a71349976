//! Leaf-spine: every leaf switch linked once to every spine switch (a folded Clos network of two tiers).

use super::{Family, GenerateError, add_hosts, add_switches, at_least_one, bound_links};
use crate::{Channel, Topology};
use pauseframe_schema::table;

const FAMILY: &str = "leaf_spine";

table! {
    /// Every leaf linked to every spine
    pub struct LeafSpine {
        /// Leaf switches
        leaves: u32 = required();
        /// Spine switches; every leaf has a link to each
        spines: u32 = required();
        /// Hosts at each leaf
        hosts_per_leaf: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for LeafSpine {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        leaf_spine(self.leaves, self.spines, self.hosts_per_leaf, host, fabric)
    }
}

/// Generates `leaves` leaf switches with `hosts_per_leaf` hosts each, all linked to all `spines` spine
/// switches.
///
/// Names: `host{n}`, `leaf{i}`, `spine{j}`; levels 0, 1, 2.
///
/// # Errors
/// If a number is zero or the fabric too large.
pub fn leaf_spine(
    leaves: u32,
    spines: u32,
    hosts_per_leaf: u32,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    at_least_one(FAMILY, "leaves", leaves)?;
    at_least_one(FAMILY, "spines", spines)?;
    at_least_one(FAMILY, "hosts_per_leaf", hosts_per_leaf)?;
    let wide = u64::from;
    bound_links(FAMILY, &[&[wide(leaves), wide(hosts_per_leaf)], &[wide(leaves), wide(spines)]])?;

    let mut topology = Topology::new();
    let hosts = add_hosts(&mut topology, "host", leaves * hosts_per_leaf);
    let leaves = add_switches(&mut topology, "leaf", leaves, Some(1));
    let spines = add_switches(&mut topology, "spine", spines, Some(2));
    for (i, host) in hosts.iter().enumerate() {
        topology.add_link(*host, leaves[i / hosts_per_leaf as usize], host_link);
    }
    for leaf in &leaves {
        for spine in &spines {
            topology.add_link(*leaf, *spine, fabric_link);
        }
    }
    Ok(topology)
}
