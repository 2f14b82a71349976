//! The three-tier fat tree of equal switches (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008): k pods, each of k/2
//! edge and k/2 aggregation switches, and (k/2)^2 core switches.

use super::{Family, GenerateError, add_hosts, bound_links, refuse};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;
use pauseframe_units::NodeId;

const FAMILY: &str = "fat_tree";

table! {
    /// Three-tier fat tree of `k`-port switches: k^3/4 hosts
    pub struct FatTree {
        /// Ports per switch, an even number; the fabric has k^3/4 hosts
        k: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for FatTree {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        fat_tree(self.k, host, fabric)
    }
}

/// Generates a fat tree of `k`-port switches with k^3/4 hosts and 5k^2/4 switches.
///
/// Names: `host0`.., `edge{pod}_{i}`, `agg{pod}_{i}`, `core{i}`; levels 0 to 3. Aggregation switch i of every
/// pod is linked to the core switches i k/2 to (i+1) k/2 - 1.
///
/// # Errors
/// If `k` is odd or below 2, or the fabric too large.
pub fn fat_tree(k: u32, host_link: Channel, fabric_link: Channel) -> Result<Topology, GenerateError> {
    if k < 2 || !k.is_multiple_of(2) {
        return refuse(FAMILY, "k", k.to_string(), "it must be even and at least 2");
    }
    let (ports, half) = (u64::from(k), u64::from(k / 2));
    bound_links(FAMILY, &[&[3, ports, half, half]])?;

    let half = k / 2;
    let mut topology = Topology::new();
    let hosts = add_hosts(&mut topology, "host", k * half * half);
    let edges = add_pods(&mut topology, "edge", k, 1);
    let aggs = add_pods(&mut topology, "agg", k, 2);
    let cores = super::add_switches(&mut topology, "core", half * half, Some(3));

    let half = half as usize;
    for (i, host) in hosts.iter().enumerate() {
        topology.add_link(*host, edges[i / half], host_link);
    }
    for (edge_pod, agg_pod) in edges.chunks(half).zip(aggs.chunks(half)) {
        for edge in edge_pod {
            for agg in agg_pod {
                topology.add_link(*edge, *agg, fabric_link);
            }
        }
    }
    for (i, agg) in aggs.iter().enumerate() {
        for core in &cores[i % half * half..][..half] {
            topology.add_link(*agg, *core, fabric_link);
        }
    }
    Ok(topology)
}

/// Adds k/2 switches in each of k pods.
fn add_pods(topology: &mut Topology, prefix: &str, k: u32, level: u8) -> Vec<NodeId> {
    let places = (0..k).flat_map(|pod| (0..k / 2).map(move |i| (pod, i)));
    places
        .map(|(pod, i)| topology.add_node(format!("{prefix}{pod}_{i}"), NodeKind::Switch, Some(level)))
        .collect()
}
