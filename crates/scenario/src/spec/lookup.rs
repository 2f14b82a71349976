//! Finds ports, links and nodes of a topology by their names in scenarios.

use pauseframe_fabric::{all_ports_of_topology, matches_glob};
use pauseframe_schema::value::did_you_mean;
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, NodeId, PortId};

/// The links between two nodes.
pub(crate) fn between(graph: &Topology, a: NodeId, b: NodeId) -> Vec<LinkId> {
    let ports = graph.nodes()[a].ports.iter();
    ports.filter(|port| graph.peer(**port) == b).map(|port| port.link()).collect()
}

/// The ports that match globs, and all ports of the nodes that match.
pub(crate) fn ports_of(globs: &[String], topology: &Topology) -> Vec<PortId> {
    let named = |port: &PortId| {
        let (port, node) = (topology.port_name(*port), &topology.nodes()[topology.owner(*port)].name);
        globs.iter().any(|glob| matches_glob(glob, &port) || matches_glob(glob, node))
    };
    all_ports_of_topology(topology).filter(named).collect()
}

/// The error about an unknown node.
pub(crate) fn no_such_node(graph: &Topology, name: &str) -> (String, String) {
    let names = graph.nodes().iter().map(|node| node.name.as_str());
    (format!("there is no node {name:?}"), did_you_mean(name, names))
}
