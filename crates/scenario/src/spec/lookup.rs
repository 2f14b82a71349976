//! Finds ports, links and nodes of a topology by their names in scenarios.

use pauseframe_fabric::{all_ports, matches_glob};
use pauseframe_schema::value::did_you_mean;
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, NodeId, PortId};

/// The links between two hosts or switches, all ports of a host included.
pub(crate) fn between(graph: &Topology, a: NodeId, b: NodeId) -> Vec<LinkId> {
    let ports = ports_at(graph, a).into_iter();
    ports.filter(|port| graph.host_of(graph.peer(*port)) == b).map(PortId::link).collect()
}

/// All ports of a host or switch.
pub(crate) fn ports_at(graph: &Topology, node: NodeId) -> Vec<PortId> {
    let further = graph.ports_of_hosts();
    let own = [node];
    let nodes = further.get(&node).map_or(own.as_slice(), Vec::as_slice);
    nodes.iter().flat_map(|node| graph.nodes()[*node].ports.iter().copied()).collect()
}

/// The ports that match globs, and all ports of the nodes that match.
pub(crate) fn ports_of(globs: &[String], topology: &Topology) -> Vec<PortId> {
    let named = |port: &PortId| {
        let owner = topology.host_of(topology.owner(*port));
        let node = topology.nodes()[owner].name.clone();
        let names = [topology.port_name(*port), topology.numbered_port_name(*port), node];
        globs.iter().any(|glob| names.iter().any(|name| matches_glob(glob, name)))
    };
    all_ports(topology).filter(named).collect()
}

/// Number of ports or nodes that a hint names.
pub(crate) const NAMED_MAX: usize = 8;

/// The error about an unknown node.
pub(crate) fn no_such_node(graph: &Topology, name: &str) -> (String, String) {
    let names = graph.nodes().iter().map(|node| node.name.as_str());
    let near = did_you_mean(name, names.clone());
    let hint = if near.is_empty() {
        let switches = graph.switches().take(NAMED_MAX).map(|node| graph.nodes()[node].name.as_str());
        format!("switches are {}", switches.collect::<Vec<_>>().join(", "))
    } else {
        near
    };
    (format!("there is no node {name:?}"), hint)
}
