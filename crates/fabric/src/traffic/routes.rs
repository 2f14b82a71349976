//! Paths of flows: by ECMP at the start of a flow and after each change of routes.

use super::{OpenConnection, Traffic, hosts_of_side};
use crate::flow::FlowSpec;
use crate::host_ports::bond::{FlowAddresses, FlowKind};
use crate::host_ports::{FlowEnds, HostPorts, PortReach};
use crate::order::{EndpointReroute, PacketWay};
use crate::rows::{TUNNEL_BEGINS, TUNNEL_ENDS};
use crate::vlan::PickedVlanAndClass;
use pauseframe_routing::{FlowsByNextHop, NextHops};
use pauseframe_units::{NodeId, PortId, Time};
use std::sync::Arc;

impl Traffic {
    /// The ECMP path of a flow between two ports; the destination node if switches look up next hops.
    pub(crate) fn add_ecmp_row(&mut self, ports: [NodeId; 2], ends: &FlowEnds) -> u32 {
        if !self.rows.packets_carry_paths() {
            return ports[1].0;
        }
        let path = self.find_path_row(ports, ends);
        self.rows.add_row(path)
    }

    /// The ways that packets of one side take in turn, with rows for their paths; empty if all take the same.
    pub(super) fn add_packet_ways(&mut self, ends: &FlowEnds) -> Vec<PacketWay> {
        let Some(host_ports) = &self.host_ports else { return Vec::new() };
        let ways = host_ports.packet_ways(ends, &self.routes);
        let way = |ports| PacketWay { ports, route: self.add_ecmp_row(ports, ends) };
        ways.into_iter().map(way).collect()
    }

    /// The same for frames of programs in a kernel; `choice` stands for the number of a flow.
    pub(crate) fn add_program_row(&mut self, hosts: [NodeId; 2], choice: u32) -> u32 {
        let row = self.add_ecmp_row(hosts, &ends_of_program(hosts, choice));
        self.choice_of_program_row.insert(row, choice);
        row
    }

    /// Frees rows that no sender uses any more.
    pub(crate) fn retire_rows(&mut self, rows: impl Iterator<Item = u32>, now: Time) {
        if self.rows.packets_carry_paths() {
            rows.for_each(|row| self.rows.schedule_retirement(row, now));
        }
    }

    /// The path of a flow as its packets carry it: with the places at which they enter and leave a tunnel.
    fn find_path_row(&self, ports: [NodeId; 2], ends: &FlowEnds) -> Vec<PortId> {
        self.find_path_row_from(ports[0], ports, ends)
    }

    /// The same from the node `start` on, which a packet from `ports[0]` has reached.
    pub(super) fn find_path_row_from(
        &self,
        start: NodeId,
        ports: [NodeId; 2],
        ends: &FlowEnds,
    ) -> Vec<PortId> {
        let (mut path, tunnel) = self.find_path_and_tunnel(start, ports, ends);
        if let Some(begins) = tunnel {
            path.insert(path.len() - 1, TUNNEL_ENDS);
            path.insert(begins, TUNNEL_BEGINS);
        }
        path
    }

    pub(super) fn find_ecmp_path(&self, ports: [NodeId; 2], ends: &FlowEnds) -> Vec<PortId> {
        self.find_path_and_tunnel(ports[0], ports, ends).0
    }

    /// The path from `start` of a flow between two ports, and the place in it of the port by which packets enter a tunnel.
    fn find_path_and_tunnel(
        &self,
        start: NodeId,
        ports: [NodeId; 2],
        ends: &FlowEnds,
    ) -> (Vec<PortId>, Option<usize>) {
        let known = self.host_ports.as_ref();
        let entry = known.map_or(ports[1], |known| known.entry(ends, [start, ports[1]], &self.routes));
        let mut path = self.shortest_path(start, [ports[0], entry], ends);
        if entry == ports[1] {
            return (path, None);
        }
        // The switch at the entry does not deliver: it is the standby ToR, or has lost its link to the host.
        let Some(last) = path.pop() else { return (path, None) };
        let (begins, topology) = (path.len(), &self.plan.topology);
        if let Some(by) = self.host_ports.as_ref().and_then(|known| known.peer_link_of(entry)) {
            path.extend([by, topology.nodes()[ports[1]].ports[0].reverse()]);
            return (path, None);
        }
        let entered_at = topology.owner(last);
        path.extend(self.path_in_tunnel(entered_at, [entered_at, ports[1]], ends));
        (path, Some(begins))
    }

    /// The path from `start` in a tunnel from the switch `ends_of[0]` to the port `ends_of[1]` of a host.
    pub(super) fn path_in_tunnel(&self, start: NodeId, ends_of: [NodeId; 2], ends: &FlowEnds) -> Vec<PortId> {
        if !self.hash.reads_outer_headers() {
            return self.shortest_path(start, ends_of, ends);
        }
        let topology = &self.plan.topology;
        let exit = topology.peer(topology.nodes()[ends_of[1]].ports[0]);
        let addresses = FlowAddresses::of_tunnel([ends_of[0], exit]);
        self.hashed_path(start, ends_of, ends.flow, &addresses)
    }

    /// The shortest path from `start` to `ports[1]` by the hash of a flow from `ports[0]`.
    pub(super) fn shortest_path(&self, start: NodeId, ports: [NodeId; 2], ends: &FlowEnds) -> Vec<PortId> {
        let FlowEnds { hosts, flow, forward, kind } = *ends;
        self.hashed_path(start, ports, flow, &FlowAddresses::of_flow(hosts, flow, forward, kind))
    }

    fn hashed_path(
        &self,
        start: NodeId,
        ports: [NodeId; 2],
        flow: u32,
        addresses: &FlowAddresses,
    ) -> Vec<PortId> {
        let mut path = Vec::new();
        let graph = (&*self.plan.topology, &*self.routes);
        self.hash.path_from(start, graph, ports, flow, addresses, &mut path);
        path
    }

    /// By switch and its equal next hops: the number of flows that take each; flows whose path is not known are left out.
    pub(crate) fn flows_by_next_hop(&self) -> FlowsByNextHop {
        let mut flows = FlowsByNextHop::new();
        for carrier in self.records.all_carriers() {
            let path = self.path_of_carrier(carrier).unwrap_or_default();
            self.routes.count_choices(&self.plan.topology, &path, &mut flows);
        }
        flows
    }

    pub(super) fn ends_of_side(&self, flow: u32, side: usize) -> FlowEnds {
        let spec = self.records.flow_record(flow).spec;
        FlowEnds { hosts: hosts_of_side(&spec, side), flow, forward: side == 0, kind: self.flow_kind(&spec) }
    }

    /// The ports that the data of a flow cross; `None` if it has several queue pairs, switches look up next hops, or ports of hosts are no longer
    /// known.
    pub(crate) fn path_of_flow(&self, flow: u32) -> Option<Vec<PortId>> {
        if self.is_within_server(flow) {
            return Some(Vec::new());
        }
        let carriers = self.records.carriers(flow);
        (carriers.len() == 1).then(|| self.path_of_carrier(carriers.start)).flatten()
    }

    fn path_of_carrier(&self, flow: u32) -> Option<Vec<PortId>> {
        let ports = match (&self.host_ports, self.open.get(&flow)) {
            (_, Some(open)) => open.ports[0],
            (None, None) => hosts_of_side(&self.records.flow_record(flow).spec, 0),
            (Some(_), None) => return None,
        };
        self.rows.packets_carry_paths().then(|| self.find_ecmp_path(ports, &self.ends_of_side(flow, 0)))
    }

    /// Recomputes the paths of open flows after a change of routes. `host_ports`: nodes of ports of hosts with several, and how the network reaches
    /// them.
    pub(crate) fn on_new_routes(
        &mut self,
        routes: &Arc<NextHops>,
        host_ports: &[(NodeId, PortReach)],
        now: Time,
    ) -> Vec<EndpointReroute> {
        self.routes = Arc::clone(routes);
        for (port, reach) in host_ports {
            self.host_ports.iter_mut().for_each(|ports| ports.set_reach(*port, *reach));
        }
        self.reroute_open_flows(now)
    }

    /// A host has noticed whether the link of one of its ports is down: its flows move.
    pub(crate) fn on_port_noticed(&mut self, port: NodeId, is_down: bool, now: Time) -> Vec<EndpointReroute> {
        self.host_ports.iter_mut().for_each(|ports| ports.set_given_up(port, is_down));
        self.reroute_open_flows(now)
    }

    /// Chooses ports and paths of open flows again; returns the endpoints for which they are others.
    fn reroute_open_flows(&mut self, now: Time) -> Vec<EndpointReroute> {
        let mut changed = Vec::new();
        if !self.rows.packets_carry_paths() && self.host_ports.is_none() {
            return changed;
        }
        let mut open = std::mem::take(&mut self.open);
        for (flow, state) in &mut open {
            for side in 0..2 {
                // The sink of datagrams sends nothing.
                if state.routes[side] != u32::MAX {
                    changed.extend(self.reroute_side(*flow, side, state, now));
                }
            }
        }
        self.open = open;
        changed
    }

    fn reroute_side(
        &mut self,
        flow: u32,
        side: usize,
        state: &mut OpenConnection,
        now: Time,
    ) -> Option<EndpointReroute> {
        let spec = self.records.flow_record(flow).spec;
        let before = state.ports[side];
        let ends = self.ends_of_side(flow, side);
        let choose = |host_ports: &mut HostPorts| host_ports.choose(&ends, state.turns[side], &self.routes);
        let ports = self.host_ports.as_mut().map_or(before, choose);
        if !state.ways[side].is_empty() {
            return Some(self.reroute_packets(&ends, side, state, ports, now));
        }
        if self.rows.packets_carry_paths() {
            let path = self.find_path_row(ports, &ends);
            if ports == before && self.rows.row_equals(state.routes[side], &path) {
                return None;
            }
            self.rows.schedule_retirement(state.routes[side], now);
            state.routes[side] = self.rows.add_row(path);
        } else if ports == before {
            return None;
        } else {
            state.routes[side] = ports[1].0;
        }
        if let Some(host_ports) =
            self.host_ports.as_mut().filter(|_| state.loads[side] && ports[0] != before[0])
        {
            host_ports.count_open(before[0], false);
            host_ports.count_open(ports[0], true);
        }
        state.ports[side] = ports;
        let picked = (ports != before).then(|| self.pick_vlan_again(&spec, side, state, before)).flatten();
        let (endpoint_key, route) = (flow * 2 + side as u32, state.routes[side]);
        Some(EndpointReroute { holder: before[0], endpoint_key, ports, route, ways: Vec::new(), picked })
    }

    /// New ways for an endpoint whose packets take ports in turn.
    fn reroute_packets(
        &mut self,
        ends: &FlowEnds,
        side: usize,
        state: &mut OpenConnection,
        ports: [NodeId; 2],
        now: Time,
    ) -> EndpointReroute {
        let holder = state.ports[side][0];
        let before = std::mem::take(&mut state.ways[side]);
        let stale = before.iter().map(|way| way.route).chain([state.routes[side]]);
        self.retire_rows(stale, now);
        let (route, ways) = (self.add_ecmp_row(ports, ends), self.add_packet_ways(ends));
        (state.routes[side], state.ports[side]) = (route, ports);
        state.ways[side].clone_from(&ways);
        let endpoint_key = ends.flow * 2 + side as u32;
        EndpointReroute { holder, endpoint_key, ports, route, ways, picked: None }
    }

    /// A VLAN for the new ports of a side, if there are VLANs.
    fn pick_vlan_again(
        &mut self,
        spec: &FlowSpec,
        side: usize,
        state: &mut OpenConnection,
        before: [NodeId; 2],
    ) -> Option<PickedVlanAndClass> {
        let class = self.plan.class_of_transport[usize::from(spec.transport)];
        let vlans = self.vlans.as_mut()?;
        let counted = state.vlans[side].take();
        if let Some(vlan) = counted {
            vlans.remove_load(vlan, before);
        }
        let picked = vlans.pick(state.ports[side], class, counted.is_some());
        state.vlans[side] = counted.map(|_| picked.vlan);
        Some(picked)
    }
}

/// The ends of frames of programs; `choice` stands for the number of a flow.
pub(super) fn ends_of_program(hosts: [NodeId; 2], choice: u32) -> FlowEnds {
    FlowEnds { hosts, flow: choice, forward: true, kind: FlowKind::Tcp }
}
