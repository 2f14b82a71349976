//! Fabrics of several planes: parts without a link between them, each with ports of the same hosts.
//!
//! A packet stays in the plane of the port by which it leaves. So each plane has its own routes and VLANs, which
//! no other plane uses, and a cycle of buffers lies within one plane: a plan is deadlock-free if its planes are.

use super::{ForwardingTables, RoutingEngine, RoutingError};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Plans each plane with `engine`; VLANs count over all planes, in their order.
pub(crate) fn plan<E: RoutingEngine + ?Sized>(
    engine: &E,
    topology: &Topology,
    graph: &SwitchGraph,
    watch: &mut dyn Watch,
) -> Result<ForwardingTables, RoutingError> {
    check(topology, graph)?;
    if graph.part_count() < 2 {
        return engine.plan_part(topology, graph, 1, watch);
    }
    let plane = |part| engine.plan_part(topology, &graph.only_part(part), graph.part_count(), watch);
    let planes: Vec<ForwardingTables> = (0..graph.part_count()).map(plane).collect::<Result<_, _>>()?;
    ForwardingTables::of_planes(graph, &planes)
}

/// Rejects a graph in which two hosts have no ports in a common part.
pub(crate) fn check(topology: &Topology, graph: &SwitchGraph) -> Result<(), RoutingError> {
    let groups = HostGroups::new(topology, graph);
    let Some(pair) = groups.pairs_apart().next() else { return Ok(()) };
    let [from, to] = pair.map(|hosts| topology.nodes()[hosts[0]].name.clone());
    Err(RoutingError::Unreachable { from, to })
}

/// Hosts by the parts in which they have ports.
pub(crate) struct HostGroups(Vec<(BTreeSet<u32>, Vec<NodeId>)>);

impl HostGroups {
    pub(crate) fn new(topology: &Topology, graph: &SwitchGraph) -> HostGroups {
        let mut parts: BTreeMap<NodeId, BTreeSet<u32>> = BTreeMap::new();
        for port in topology.host_ports() {
            let part = graph.attachment(port).and_then(|switch| graph.part(switch));
            parts.entry(topology.host_of(port)).or_default().extend(part);
        }
        let mut groups: BTreeMap<BTreeSet<u32>, Vec<NodeId>> = BTreeMap::new();
        for (host, parts) in parts {
            groups.entry(parts).or_default().push(host);
        }
        HostGroups(groups.into_iter().collect())
    }

    /// Pairs of groups without a common part: no packet gets from one to the other.
    pub(crate) fn pairs_apart(&self) -> impl Iterator<Item = [&[NodeId]; 2]> {
        let pairs =
            self.0.iter().enumerate().flat_map(|(i, one)| self.0[i + 1..].iter().map(move |o| (one, o)));
        pairs.filter(|(one, other)| one.0.is_disjoint(&other.0)).map(|(one, other)| [&*one.1, &*other.1])
    }
}
