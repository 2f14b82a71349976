//! Rails: GPU r of every server at the switch of rail r.

use super::{GenerateError, groups_of_switches, is_host, refuse};
use crate::Topology;
use pauseframe_units::NodeId;
use std::collections::BTreeMap;

const ALLOWED: &str = "with rails, as many consecutive switches with hosts as a server has GPUs form a segment: they have the same number \
                       of hosts, and in a tree the same switches above";

/// Links each host of a server, which are `gpus_per_server` consecutive hosts, to the switch of its rail.
///
/// As many consecutive switches with hosts as a server has GPUs form a segment, with the servers of all hosts that were linked to them. Other
/// links stay. NVIDIA's pods of DGX servers, and Alibaba's HPN (SIGCOMM 2024), are built so.
///
/// # Errors
/// If the switches with hosts do not form such segments, or those of one have different numbers of hosts.
pub fn by_rail(topology: &Topology, gpus_per_server: u32) -> Result<Topology, GenerateError> {
    let rails = gpus_per_server as usize;
    let refuse = || refuse("rails", "scale_up.gpus_per_server", gpus_per_server.to_string(), ALLOWED);
    let hosts_of = |switch: &NodeId| {
        let peers = topology.nodes()[*switch].ports.iter().map(|port| topology.peer(*port));
        peers.filter(|peer| is_host(topology, *peer)).collect::<Vec<NodeId>>()
    };
    let mut rail_of: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let Some(segments) = groups_of_switches(topology, rails) else { return refuse() };
    for segment in segments {
        let hosts: Vec<Vec<NodeId>> = segment.iter().map(hosts_of).collect();
        if segment.len() != rails || hosts.iter().any(|of_one| of_one.len() != hosts[0].len()) {
            return refuse();
        }
        let mut hosts = hosts.concat();
        hosts.sort_unstable();
        rail_of.extend(hosts.into_iter().zip(segment.into_iter().cycle()));
    }
    let mut graph = topology.without_all_links();
    for link in topology.links() {
        let [a, b] = link.ends;
        let moved = |end: NodeId, other: NodeId| rail_of.get(&other).copied().unwrap_or(end);
        graph.add_asymmetric_link(moved(a, b), moved(b, a), link.channels);
    }
    Ok(graph)
}
