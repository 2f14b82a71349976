//! Starts of flows: records, orders to both hosts, and messages on kept connections.

use super::{OpenConnection, Traffic, hosts_of_side};
use crate::flow::{ApplicationMessage, FlowRecord, FlowSpec, KeptConnection};
use crate::host_ports::{FlowEnds, HostPorts};
use crate::order::{EndpointExchange, EndpointOpeningParameters, EndpointOrder, MultipathRole};
use crate::vlan::PickedVlanAndClass;
use pauseframe_units::{NodeId, Span, Time};
use std::cmp::Reverse;

/// The ports of a flow, by side.
#[derive(Debug)]
pub(super) struct PortsOfFlow {
    /// The nodes of the ports that packets leave and reach.
    nodes: [[NodeId; 2]; 2],
    /// The same in the intact network.
    intact: [[NodeId; 2]; 2],
    turns: [u32; 2],
    loads: [bool; 2],
}

impl PortsOfFlow {
    /// Those of an MPTCP connection, whose subflows have the ports.
    fn of_hosts(spec: &FlowSpec) -> PortsOfFlow {
        PortsOfFlow::only([0, 1].map(|side| hosts_of_side(spec, side)), [false; 2])
    }

    /// Those of hosts with one port each.
    fn only(nodes: [[NodeId; 2]; 2], loads: [bool; 2]) -> PortsOfFlow {
        PortsOfFlow { nodes, intact: nodes, turns: [0; 2], loads }
    }

    /// By side: the nodes of the ports that packets leave and reach.
    pub(super) fn ways(&self) -> [[NodeId; 2]; 2] {
        self.nodes
    }

    /// By side: the ports that packets would leave and reach in the intact network.
    pub(super) fn intact_ways(&self) -> [[NodeId; 2]; 2] {
        self.intact
    }
}

impl Traffic {
    pub(super) fn open_flow(&mut self, mut spec: FlowSpec, now: Time) {
        // The flow reacts to a report that the application has just received.
        spec.start = spec.start.max(now);
        if self.goes_within_server(&spec) {
            self.open_within_server(&spec, now);
            return;
        }
        if let Some(pairs) = self.plan.settings.flow_queue_pairs(&spec) {
            self.open_bundle(spec, pairs, false, now);
            return;
        }
        let flow = self.records.len() as u32;
        let kept = spec.kept.and_then(|kept| self.kept.get(&(spec.workload, kept.number)).copied());
        let subflows = self.plan.settings.subflows(spec.transport);
        let ports = match subflows {
            1 => self.ports_of_flow(&spec, flow, kept),
            _ => PortsOfFlow::of_hosts(&spec),
        };
        let sends_datagrams = self.transport_uses_datagrams(spec.transport);
        let ideal =
            if sends_datagrams { Span::ZERO } else { self.ideal.ideal_fct_by_ways(&spec, ports.intact) };
        self.records.push(&FlowRecord::new(spec, ideal, now));
        self.new_hosts.push(ports.nodes.map(|[leaves, _]| leaves));
        self.active += 1;
        self.register_flow_start(flow);
        let reply = if spec.reply > 0 { spec.reply } else { u64::MAX };
        // The source expects a reply, if there is one; the destination expects the request or all data.
        let (reply_delay, idle, operation) = (spec.reply_delay, Span::ZERO, spec.operation);
        let exchanges = [
            EndpointExchange {
                flow,
                writes: spec.size,
                expects: reply,
                reply: 0,
                reply_delay: idle,
                operation,
            },
            EndpointExchange {
                flow,
                writes: 0,
                expects: spec.size,
                reply: spec.reply,
                reply_delay,
                operation,
            },
        ];
        if let Some(opener) = kept {
            if subflows > 1 {
                let parts = self.records.carriers(opener);
                let ways: Vec<_> =
                    parts.map(|part| self.ports_of_flow(&spec, part, Some(part)).intact_ways()).collect();
                self.set_ideal_of_subflows(flow, &ways);
            }
            self.continue_on_connection(opener, exchanges, now);
            return;
        }
        if let Some(kept) = spec.kept.filter(|kept| !kept.last) {
            self.kept.insert((spec.workload, kept.number), flow);
        }
        if let Some(stop) = spec.stop.filter(|_| !sends_datagrams) {
            self.stop_flow_at(flow, stop.max(now));
        }
        if subflows > 1 {
            let ways = self.open_multipath(flow, &ports, exchanges, now);
            self.set_ideal_of_subflows(flow, &ways);
            return;
        }
        self.open_both_endpoints(flow, &ports, exchanges, &MultipathRole::None, now);
    }

    /// The ideal time of a flow whose subflows have chosen their ports.
    fn set_ideal_of_subflows(&mut self, flow: u32, ways: &[[[NodeId; 2]; 2]]) {
        if self.host_ports.is_some() {
            let ideal = self.ideal.ideal_fct_of_subflows(&self.records.flow_record(flow).spec, ways);
            self.records.update(flow, |record| record.ideal = ideal);
        }
    }

    /// Stops a long flow at `at`.
    pub(super) fn stop_flow_at(&mut self, flow: u32, at: Time) {
        self.stops.push(Reverse((at, flow)));
    }

    /// The ports of a new flow: those of the connection `kept` that carries it, or newly chosen ones.
    pub(super) fn ports_of_flow(&mut self, spec: &FlowSpec, flow: u32, kept: Option<u32>) -> PortsOfFlow {
        let hosts = [0, 1].map(|side| hosts_of_side(spec, side));
        let kind = self.flow_kind(spec);
        let intact = |host_ports: &mut HostPorts, flow, turns: [u32; 2], used: [[NodeId; 2]; 2]| {
            [0, 1].map(|side| {
                let ends = FlowEnds { hosts: hosts[side], flow, forward: side == 0, kind };
                host_ports.choose_intact(&ends, turns[side], used[side], self.ideal.routes())
            })
        };
        if let Some((opener, open)) = kept.and_then(|opener| Some((opener, self.open.get(&opener)?))) {
            let (nodes, turns, loads) = (open.ports, open.turns, open.loads);
            let of_host_ports = |ports: &mut HostPorts| intact(ports, opener, turns, nodes);
            let intact = self.host_ports.as_mut().map_or(nodes, of_host_ports);
            return PortsOfFlow { nodes, intact, turns, loads };
        }
        let loads = [true, spec.reply > 0 || spec.kept.is_some()];
        let Some(host_ports) = &mut self.host_ports else {
            return PortsOfFlow::only(hosts, loads);
        };
        let turns = host_ports.assign_turns(hosts[0], flow, kind);
        let nodes = [0, 1].map(|side| {
            let ends = FlowEnds { hosts: hosts[side], flow, forward: side == 0, kind };
            let nodes = host_ports.choose(&ends, turns[side], &self.routes);
            if loads[side] {
                host_ports.count_open(nodes[0], true);
            }
            nodes
        });
        let intact = intact(host_ports, flow, turns, nodes);
        PortsOfFlow { nodes, intact, turns, loads }
    }

    /// Links between the ports of a flow if its control has a target that follows from them, otherwise 0.
    fn target_links(&self, spec: &FlowSpec, [from, to]: [NodeId; 2]) -> u32 {
        let transport = &self.plan.settings.transports[usize::from(spec.transport)];
        let follows_links = transport.rdma().is_some_and(|rdma| rdma.pair.control.follows_links());
        if follows_links && self.vlans.is_none() { self.routes.distance(from, to) } else { 0 }
    }

    pub(super) fn open_both_endpoints(
        &mut self,
        flow: u32,
        ports: &PortsOfFlow,
        exchanges: [EndpointExchange; 2],
        multipath: &MultipathRole,
        now: Time,
    ) {
        let spec = self.records.flow_record(flow).spec;
        let sends_datagrams = self.transport_uses_datagrams(spec.transport);
        let mut open = OpenConnection {
            current: flow,
            operations: spec.operation.map(|_| flow).into_iter().collect(),
            ports: ports.nodes,
            turns: ports.turns,
            loads: ports.loads,
            routes: [0; 2],
            ways: [Vec::new(), Vec::new()],
            vlans: [None; 2],
            quiet: [false; 2],
            over: None,
            lost: 0,
            last_loss: Time::ZERO,
        };
        let links = self.target_links(&spec, ports.nodes[0]);
        let kind = self.flow_kind(&spec);
        let mut orders = Vec::with_capacity(2);
        for (side, exchange) in (0..).zip(exchanges) {
            let ends = ports.nodes[side as usize];
            let class = self.plan.class_of_transport[usize::from(spec.transport)];
            // The sink of a datagram flow sends nothing, nor does an MPTCP connection itself.
            let silent =
                sends_datagrams && side == 1 || matches!(multipath, MultipathRole::Connection { .. });
            let way = FlowEnds { hosts: hosts_of_side(&spec, side as usize), flow, forward: side == 0, kind };
            let route = if silent { u32::MAX } else { self.add_ecmp_row(ends, &way) };
            let ways = if silent { Vec::new() } else { self.add_packet_ways(&way) };
            open.ways[side as usize].clone_from(&ways);
            let sends_data = side == 0 || spec.reply > 0;
            let picked = match &mut self.vlans {
                Some(vlans) if !silent => vlans.pick(ends, class, sends_data),
                _ => PickedVlanAndClass { vlan: 0, class, among: Box::default() },
            };
            open.routes[side as usize] = route;
            open.vlans[side as usize] =
                (self.vlans.is_some() && sends_data && !silent).then_some(picked.vlan);
            let opening = Box::new(EndpointOpeningParameters {
                spec,
                ports: ends,
                route,
                picked,
                ways,
                exchange,
                multipath: multipath.clone(),
                links,
            });
            orders.push(EndpointOrder::Open(opening));
        }
        self.open.insert(flow, open);
        for (side, order) in (0..).zip(orders) {
            self.send_order(flow * 2 + side, order, now);
        }
    }

    /// The next exchange on a connection that flow `opener` opened.
    pub(super) fn continue_on_connection(
        &mut self,
        opener: u32,
        exchanges: [EndpointExchange; 2],
        now: Time,
    ) {
        let flow = exchanges[0].flow;
        if let Some(open) = self.open.get_mut(&opener) {
            open.current = flow;
            open.operations.extend(exchanges[0].operation.map(|_| flow));
        }
        if self.records.flow_record(flow).spec.kept.is_some_and(|kept| kept.last) {
            self.stop_keeping_connection(opener);
        }
        for (side, exchange) in (0..).zip(exchanges) {
            self.send_order(opener * 2 + side, EndpointOrder::Continue(exchange), now);
        }
    }

    pub(super) fn send_message(&mut self, workload: u16, message: &ApplicationMessage, now: Time) {
        if self.sent_within_server(workload, message, now) {
            return;
        }
        let ApplicationMessage { connection, from, bytes, token, .. } = *message;
        let opener = self.kept.get(&(workload, connection)).copied();
        let flow = opener.unwrap_or_else(|| self.open_message_connection(workload, message, now));
        let spec = self.records.flow_record(flow).spec;
        let side = u32::from(spec.source != from);
        debug_assert!([message.from, message.to].contains(&spec.destination));
        if opener.is_some() {
            let add = |FlowRecord { spec, .. }: &mut FlowRecord| {
                *(if side == 0 { &mut spec.size } else { &mut spec.reply }) += bytes;
            };
            self.records.update(flow, add);
        }
        if self.bundles.contains_key(&flow) {
            self.send_over_bundle(flow, side, message, now);
            return;
        }
        let notify = message.notify.then_some(token);
        let write = EndpointOrder::Write { bytes, token: notify, written: opener.is_none() };
        self.send_order(flow * 2 + side, write, now);
        self.send_order(flow * 2 + (1 - side), EndpointOrder::Await { bytes, token }, now);
    }

    /// Opens a connection for messages between two hosts, with the first message.
    pub(super) fn open_message_connection(
        &mut self,
        workload: u16,
        message: &ApplicationMessage,
        now: Time,
    ) -> u32 {
        let flow = self.records.len() as u32;
        let spec = FlowSpec {
            start: now,
            transport: message.transport,
            workload,
            kept: Some(KeptConnection { number: message.connection, first: true, last: false }),
            ..FlowSpec::new(message.from, message.to, message.bytes)
        };
        match self.plan.settings.several_queue_pairs(message.transport) {
            Some(pairs) => self.open_bundle(spec, pairs, true, now),
            None => self.open_flow(spec, now),
        }
        // Its duration depends on the application, so it has no ideal time.
        self.records.update(flow, |record| record.ideal = Span::ZERO);
        flow
    }
}
