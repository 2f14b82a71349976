//! Random graphs and look-ups for several tests.

use pauseframe_routing::verify::Tables;
use pauseframe_routing::{ForwardingTables, verify};
use pauseframe_topology::{Channel, NodeKind, Topology};
use pauseframe_units::{BitRate, LinkId, NodeId, Span};
use proptest::prelude::*;

pub(crate) const LINK: Channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };

/// A connected multigraph of switches as an edge list; some switches have hosts (switch 0 and the last switch
/// always).
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) topology: Topology,
    pub(crate) hosts: Vec<NodeId>,
    /// Links between switches.
    pub(crate) fabric: Vec<LinkId>,
}

pub(crate) fn build(switches: usize, edges: &[(usize, usize)], hosts_at: &[usize]) -> Drawn {
    let mut topology = Topology::new();
    let nodes: Vec<_> =
        (0..switches).map(|i| topology.add_node(format!("s{i}"), NodeKind::Switch, None)).collect();
    let mut hosts = Vec::new();
    for (i, at) in hosts_at.iter().enumerate() {
        let host = topology.add_node(format!("h{i}"), NodeKind::Host, None);
        topology.add_link(nodes[*at], host, LINK);
        hosts.push(host);
    }
    let fabric = edges.iter().map(|(a, b)| topology.add_link(nodes[*a], nodes[*b], LINK)).collect();
    Drawn { topology, hosts, fabric }
}

/// A random tree plus random further links (also parallel links), plus hosts.
pub(crate) fn connected(most: usize) -> impl Strategy<Value = Drawn> {
    (2..=most).prop_flat_map(|n| {
        let parents = (1..n).map(|i| 0..i).collect::<Vec<_>>();
        let extra = prop::collection::vec((0..n, 0..n), 0..3 * n);
        let hosts = prop::collection::vec(0..n, 0..n);
        (parents, extra, hosts).prop_map(move |(parents, extra, mut hosts)| {
            let mut edges: Vec<_> = parents.into_iter().enumerate().map(|(i, p)| (i + 1, p)).collect();
            edges.extend(extra.into_iter().filter(|(a, b)| a != b));
            hosts.extend([0, n - 1]);
            build(n, &edges, &hosts)
        })
    })
}

/// The tables of a plan, and whether they have no cycle of dependencies.
pub(crate) fn proved(topology: &Topology, plan: &ForwardingTables) -> (Tables, bool) {
    let tables = Tables::of_plan(plan, 1);
    let is_acyclic = verify::dependency_graph(topology, &[&tables]).unwrap().is_acyclic();
    (tables, is_acyclic)
}

/// The indices of the VLANs with the shortest routes from host to host, and the number of links of these routes
/// with the links of the hosts.
pub(crate) fn shortest(tables: &Tables, from: NodeId, to: NodeId) -> (Vec<u16>, u32) {
    let mut vlans = Vec::new();
    tables.vlans_between(from, to, 0, &mut vlans);
    let links = tables.length(usize::from(vlans[0]), from, to).unwrap();
    (vlans, if from == to { 0 } else { u32::from(links) + 2 })
}
