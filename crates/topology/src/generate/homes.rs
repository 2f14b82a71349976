//! Hosts with several ports, for every family: each host linked to a group of switches, or into several planes.

use super::{GenerateError, LINKS_MAX, groups_of_switches, is_host, refuse};
use crate::{Channel, Topology};
use pauseframe_units::NodeId;
use std::collections::BTreeSet;

const FAMILY: &str = "ports of hosts";

/// Ports of the hosts of a generated fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Homes {
    /// Links of each host: one to each of as many consecutive switches with hosts (dual-homed racks, rails), or all to the one switch of a star.
    pub ports_per_host: u32,
    /// Copies of all switches and their links; each host has its ports in each.
    pub planes: u32,
    /// Links between the switches of each pair that shares hosts (MLAG), with two ports a host.
    pub peer_links: u32,
}

impl Homes {
    /// One port a host.
    pub const SINGLE: Homes = Homes { ports_per_host: 1, planes: 1, peer_links: 0 };

    /// Gives the hosts of `topology`, which have one link each, these ports.
    ///
    /// Peer links have the rate and delay of `peer`.
    ///
    /// # Errors
    /// If the switches with hosts do not form such groups, or the fabric becomes too large.
    pub fn apply_with_peer_links(self, topology: Topology, peer: Channel) -> Result<Topology, GenerateError> {
        let mut graph = Homes { planes: 1, peer_links: 0, ..self }.apply(topology)?;
        if self.peer_links > 0 {
            if self.ports_per_host != 2 {
                let allowed = "peer links join two switches that share hosts: ports_per_host = 2";
                return refuse(FAMILY, "peer_links", self.peer_links.to_string(), allowed);
            }
            add_peer_links(&mut graph, self.peer_links, peer)?;
        }
        Ok(if self.planes > 1 { in_planes(&graph, self.planes) } else { graph })
    }

    /// The same without peer links.
    ///
    /// # Errors
    /// If the switches with hosts do not form such groups, or the fabric becomes too large.
    pub fn apply(self, topology: Topology) -> Result<Topology, GenerateError> {
        let factor = u64::from(self.ports_per_host) * u64::from(self.planes);
        let links = factor.saturating_mul(topology.links().len() as u64);
        if links > LINKS_MAX {
            return Err(GenerateError::TooLarge { family: FAMILY, links });
        }
        let topology =
            if self.ports_per_host > 1 { homed(&topology, self.ports_per_host as usize)? } else { topology };
        Ok(if self.planes > 1 { in_planes(&topology, self.planes) } else { topology })
    }
}

/// Links each host to all switches of its switch's group.
fn homed(topology: &Topology, ports: usize) -> Result<Topology, GenerateError> {
    let Some(groups) = groups_of_switches(topology, ports) else {
        let allowed = "it must divide the number of switches with hosts, and in a tree the switches of a group must have the same switches above";
        return refuse(FAMILY, "ports_per_host", ports.to_string(), allowed);
    };
    let group_of = |switch: NodeId| groups.iter().find(|group| group.contains(&switch));
    let mut graph = topology.without_all_links();
    for link in topology.links() {
        let [a, b] = link.ends;
        let host_first = is_host(topology, a);
        let switch = if host_first { b } else { a };
        if !(host_first || is_host(topology, b)) {
            graph.add_asymmetric_link(a, b, link.channels);
        } else if let Some(group) = group_of(switch) {
            for switch in group.iter().cycle().take(ports) {
                let ends = if host_first { [a, *switch] } else { [*switch, b] };
                graph.add_asymmetric_link(ends[0], ends[1], link.channels);
            }
        } else {
            return refuse(FAMILY, "ports_per_host", ports.to_string(), "hosts are linked to each other");
        }
    }
    Ok(graph)
}

/// Joins the two switches of each pair that shares hosts.
fn add_peer_links(graph: &mut Topology, count: u32, peer: Channel) -> Result<(), GenerateError> {
    let mut pairs: BTreeSet<[NodeId; 2]> = BTreeSet::new();
    for host in graph.hosts() {
        let switches: BTreeSet<NodeId> =
            graph.nodes()[host].ports.iter().map(|port| graph.peer(*port)).collect();
        let switches: Vec<NodeId> = switches.into_iter().collect();
        if let [one, other] = switches[..] {
            pairs.insert([one, other]);
        }
    }
    if pairs.is_empty() {
        return refuse(FAMILY, "peer_links", count.to_string(), "no two switches share hosts");
    }
    for [one, other] in pairs {
        for _ in 0..count {
            graph.add_link(one, other, peer);
        }
    }
    Ok(())
}

/// Copies the switches and all links; "leaf0" becomes "leaf0-p0", "leaf0-p1" ...
fn in_planes(topology: &Topology, planes: u32) -> Topology {
    let mut graph = Topology::new();
    let hosts: Vec<Option<NodeId>> = topology
        .nodes()
        .iter_enumerated()
        .map(|(id, node)| {
            is_host(topology, id).then(|| graph.add_node(node.name.clone(), node.kind, node.level))
        })
        .collect();
    for plane in 0..planes {
        let copies: Vec<NodeId> = topology
            .nodes()
            .iter()
            .zip(&hosts)
            .map(|(node, host)| {
                host.unwrap_or_else(|| {
                    graph.add_node(format!("{}-p{plane}", node.name), node.kind, node.level)
                })
            })
            .collect();
        for link in topology.links() {
            let [a, b] = link.ends.map(|end| copies[end.0 as usize]);
            graph.add_asymmetric_link(a, b, link.channels);
        }
    }
    graph
}
