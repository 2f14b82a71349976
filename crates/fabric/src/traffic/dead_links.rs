//! Flows that cannot finish because links are down.

use super::{Traffic, hosts_of_side};
use crate::flow::FlowStatus;
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, NodeId, PortId};
use std::collections::BTreeSet;

impl Traffic {
    /// The number of unfinished flows whose packets need one of these links, by the routes of now.
    pub(crate) fn flows_over(&self, down: &[LinkId]) -> usize {
        let down: BTreeSet<LinkId> = down.iter().copied().collect();
        let needs = |flow: &u32| self.is_unfinished(*flow) && self.flow_needs(*flow, &down);
        (0..self.records.len() as u32).filter(needs).count()
    }

    fn is_unfinished(&self, flow: u32) -> bool {
        matches!(self.records.flow_record(flow).status, FlowStatus::Running | FlowStatus::Failed)
    }

    /// A flow waits for each of its queue pairs; the subflows of MPTCP do without one that is dead.
    fn flow_needs(&self, flow: u32, down: &BTreeSet<LinkId>) -> bool {
        if self.is_within_server(flow) {
            return false;
        }
        let mut carriers = self.records.carriers(flow).filter(|carrier| self.is_unfinished(*carrier));
        let needs = |carrier: u32| (0..2).any(|side| self.side_needs(carrier, side, down));
        if self.plan.settings.subflows(self.records.flow_record(flow).spec.transport) > 1 {
            return carriers.all(needs);
        }
        carriers.any(needs)
    }

    /// Whether the packets that one side sends, data or acknowledgements, need one of the links.
    fn side_needs(&self, carrier: u32, side: usize, down: &BTreeSet<LinkId>) -> bool {
        let Some(open) = self.open.get(&carrier) else {
            // The ports of a flow that was given up are no longer known.
            let pairs = self.pairs_of_ports(hosts_of_side(&self.records.flow_record(carrier).spec, side));
            return pairs.into_iter().all(|ports| self.way_needs(carrier, side, ports, None, down));
        };
        if open.routes[side] == u32::MAX {
            return false;
        }
        let ways = open.ways[side].iter().map(|way| way.ports);
        let ways: Vec<_> = if open.ways[side].is_empty() { vec![open.ports[side]] } else { ways.collect() };
        ways.into_iter().any(|ports| self.way_needs(carrier, side, ports, open.vlans[side], down))
    }

    fn pairs_of_ports(&self, hosts: [NodeId; 2]) -> Vec<[NodeId; 2]> {
        let several = self.plan.topology.ports_of_hosts();
        let [own, reached] = hosts.map(|host| several.get(&host).cloned().unwrap_or_else(|| vec![host]));
        own.iter().flat_map(|own| reached.iter().map(|reached| [*own, *reached])).collect()
    }

    fn way_needs(
        &self,
        carrier: u32,
        side: usize,
        ports: [NodeId; 2],
        vlan: Option<u16>,
        down: &BTreeSet<LinkId>,
    ) -> bool {
        let crosses = |path: Vec<PortId>| path.iter().any(|port| down.contains(&port.link()));
        if let Some(vlans) = &self.plan.settings.vlans {
            if let Some(vlan) = vlan.filter(|_| !vlans.per_packet) {
                return crosses(vlans.path_in_vlan(vlan, ports[0], ports[1]));
            }
            return vlans.candidate_paths(ports[0], ports[1]).all(crosses);
        }
        if self.rows.packets_carry_paths() {
            return crosses(self.find_ecmp_path(ports, &self.ends_of_side(carrier, side)));
        }
        !self.avoids(ports, down)
    }

    /// Whether some next hops, each of which a switch may choose for a packet, lead around the links.
    fn avoids(&self, [from, to]: [NodeId; 2], down: &BTreeSet<LinkId>) -> bool {
        let topology: &Topology = &self.plan.topology;
        let (mut seen, mut waiting) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = waiting.pop() {
            if at == to {
                return true;
            }
            let up = self.routes.ports(at, to).iter().filter(|port| !down.contains(&port.link()));
            waiting.extend(up.map(|port| topology.peer(*port)).filter(|next| seen.insert(*next)));
        }
        false
    }
}
