//! VLANs of a fabric: forwarding tables and how hosts choose among VLANs.

use pauseframe_routing::verify::Tables;
use pauseframe_units::{NodeId, PortId, Priority};
use std::collections::BTreeMap;

/// How a sender picks one of the VLANs that lead to its destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VlanChoice {
    /// Uniformly at random.
    Random,
    /// The better of two random ones: its busiest link has fewer open flows per rate.
    BestOfTwo,
    /// The one whose busiest link has the fewest open flows per rate.
    LeastLoaded,
    /// The VLAN that was assigned to the pair (position in the tables); pairs without one pick at random.
    Assigned(BTreeMap<(NodeId, NodeId), u16>),
}

/// Forwarding tables, and how hosts use them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VlanRoutes {
    /// The forwarding tables; every pair of hosts must be served.
    pub tables: Tables,
    /// The priority of each lane.
    pub lanes: Vec<Priority>,
    /// How the VLAN is picked.
    pub choice: VlanChoice,
    /// Pick a VLAN per packet instead of per flow; only with random choice.
    pub per_packet: bool,
    /// How many links longer than the shortest route a candidate may be.
    pub slack: u16,
}

impl VlanRoutes {
    /// Links on the shortest route between two hosts, their own links included; 0 from a host to itself.
    ///
    /// # Panics
    /// If no VLAN serves the pair.
    pub fn link_count(&self, from: NodeId, to: NodeId) -> u32 {
        if from == to {
            return 0;
        }
        let vlans = 0..self.tables.vlans().len();
        let shortest = vlans.filter_map(|vlan| self.tables.length(vlan, from, to)).min();
        u32::from(shortest.expect("every pair of hosts is served")) + 2
    }

    /// The ports of the shortest route between two hosts, in the first VLAN that has it.
    pub(crate) fn shortest_path(&self, from: NodeId, to: NodeId) -> Vec<PortId> {
        let mut vlans = Vec::new();
        self.tables.vlans_between(from, to, 0, &mut vlans);
        self.path_in_vlan(*vlans.first().expect("every pair of hosts is served"), from, to)
    }

    /// The ports of all candidate routes of a sender.
    pub(crate) fn candidate_paths(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = Vec<PortId>> {
        let mut vlans = Vec::new();
        self.tables.vlans_between(from, to, self.slack, &mut vlans);
        vlans.into_iter().map(move |vlan| self.path_in_vlan(vlan, from, to))
    }

    /// The ports of the route in a VLAN.
    pub(crate) fn path_in_vlan(&self, vlan: u16, from: NodeId, to: NodeId) -> Vec<PortId> {
        let graph = self.tables.graph();
        let mut path = vec![graph.uplink(from)];
        self.tables.follow(usize::from(vlan), from, to, |port| path.push(port));
        path.push(graph.uplink(to).reverse());
        path
    }
}
