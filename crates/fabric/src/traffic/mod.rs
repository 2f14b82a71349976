//! The traffic: the applications of all hosts, outside the partitions, and the flow records.
//!
//! It acts between windows, in the order of time. Applications react to a completion after `Settings::reaction`, by default zero. If that is shorter
//! than a window, the network has a single partition, which stops at each report. Everything else (closing connections, records of open-loop
//! workloads) follows one window after the report, so the traffic can act ahead of the partitions up to the end of a window, for any partitioning.

mod closing;
mod dead_links;
mod frame_routes;
mod jobs;
mod multipath;
mod opening;
mod queue_pairs;
mod reports;
mod rounds;
mod routes;
mod scale_up;
mod within_servers;

use crate::flow::{FlowSpec, FlowStatus, QueryRecord, Workload};
use crate::host_ports::HostPorts;
use crate::host_ports::bond::FlowKind;
use crate::ideal::IdealFctCalculator;
use crate::order::{
    EndpointCounters, EndpointEvent, EndpointOrder, EndpointReport, PacketWay, PartitionUpdate,
    TimedEndpointOrder,
};
use crate::path_hash::PathHash;
use crate::plan::NetworkPlan;
use crate::records::FlowRecords;
use crate::rows::TrafficPathTable;
use crate::vlan::VlanPicker;
pub(crate) use frame_routes::FramePosition;
use jobs::JobOnKeptConnections;
use pauseframe_routing::NextHops;
use pauseframe_units::{NodeId, Span, Time};
use queue_pairs::Bundle;
use reports::EndpointReportDelayLine;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use within_servers::TrafficWithinServers;

/// An open connection or datagram flow.
#[derive(Debug)]
struct OpenConnection {
    /// Its current or last flow.
    current: u32,
    /// Operations under way, oldest first.
    operations: VecDeque<u32>,
    /// By side: the nodes of the ports that its packets leave and reach.
    ports: [[NodeId; 2]; 2],
    /// By side: its place among the flows of its host ([`HostPorts`]).
    turns: [u32; 2],
    /// By side: whether it counts as load of its port, since it sends data.
    loads: [bool; 2],
    /// By side: its path, or the destination node if switches look up next hops.
    routes: [u32; 2],
    /// By side: the ways that its packets take in turn; empty if all take the same.
    ways: [Vec<PacketWay>; 2],
    /// By side: its VLAN; `None` once its load has been removed.
    vlans: [Option<u16>; 2],
    /// By side: whether nothing is in flight.
    quiet: [bool; 2],
    /// Datagram flows: when the source finished, and the number of datagrams.
    over: Option<(Time, u64)>,
    /// Datagrams lost on the way.
    lost: u64,
    /// Time of the last loss.
    last_loss: Time,
}

/// All applications and their state.
#[derive(Debug)]
pub(crate) struct Traffic {
    plan: Arc<NetworkPlan>,
    routes: Arc<NextHops>,
    ideal: IdealFctCalculator,
    workloads: Vec<Box<dyn Workload>>,
    /// By workload: its earliest time in `due`.
    due_at: Vec<Option<Time>>,
    due: BinaryHeap<Reverse<(Time, u32)>>,
    /// Stop times of long flows.
    stops: BinaryHeap<Reverse<(Time, u32)>>,
    /// Completions of closed-loop workloads, to which applications react.
    answered: EndpointReportDelayLine,
    /// All other reports: they end connections and flows.
    other: EndpointReportDelayLine,
    /// By workload: whether its flows depend on completions.
    closed_loop: Vec<bool>,
    records: FlowRecords,
    open: BTreeMap<u32, OpenConnection>,
    /// Connections of several queue pairs, by the flow that opened each.
    bundles: BTreeMap<u32, Bundle>,
    /// Kept connections by workload and number, with the flow that opened each.
    kept: BTreeMap<(u16, u32), u32>,
    /// Jobs with running flows on kept connections, by workload and number.
    jobs: BTreeMap<(u16, u32), JobOnKeptConnections>,
    vlans: Option<VlanPicker>,
    /// The ports of hosts, if some have several.
    host_ports: Option<HostPorts>,
    hash: PathHash,
    /// What goes over scale-up links, if servers have these.
    within_servers: Option<Box<TrafficWithinServers>>,
    pub(crate) rows: TrafficPathTable,
    /// By row of frames of programs: the choice that stands for the number of a flow.
    choice_of_program_row: BTreeMap<u32, u32>,
    active: u64,
    finished: u64,
    stop_when_finished: bool,
    /// Programs of an external stack still run.
    is_held: bool,
    /// When all work was finished.
    over: Option<Time>,
    pub(crate) orders: Vec<TimedEndpointOrder>,
    /// Hosts of flows that partitions have not received.
    new_hosts: Vec<[NodeId; 2]>,
    /// The same of queue pairs of flows with several.
    new_hosts_of_parts: Vec<[NodeId; 2]>,
}

impl Traffic {
    pub(crate) fn new(
        plan: &Arc<NetworkPlan>,
        routes: &Arc<NextHops>,
        workloads: Vec<Box<dyn Workload>>,
        stop_when_finished: bool,
        rows: TrafficPathTable,
    ) -> Traffic {
        let mut traffic = Traffic {
            ideal: IdealFctCalculator::new(
                Arc::clone(&plan.topology),
                Arc::clone(routes),
                Arc::clone(&plan.settings),
            ),
            answered: EndpointReportDelayLine::new(plan.settings.reaction),
            other: EndpointReportDelayLine::new(plan.window),
            closed_loop: workloads.iter().map(|workload| !workload.is_open_loop()).collect(),
            due_at: vec![None; workloads.len()],
            due: BinaryHeap::new(),
            stops: BinaryHeap::new(),
            records: FlowRecords::default(),
            open: BTreeMap::new(),
            bundles: BTreeMap::new(),
            kept: BTreeMap::new(),
            jobs: BTreeMap::new(),
            vlans: VlanPicker::from_plan(plan),
            host_ports: HostPorts::new(&plan.topology, plan.settings.host_ports, plan.settings.seed)
                .map(|ports| ports.with_dual_tor(plan.settings.dual_tor.as_ref())),
            within_servers: TrafficWithinServers::from_settings(&plan.settings, workloads.len()),
            hash: PathHash::new(&plan.topology, routes, plan.settings.path_hash.clone(), plan.settings.seed)
                .with_whole_graph(routes),
            rows,
            choice_of_program_row: BTreeMap::new(),
            active: 0,
            finished: 0,
            stop_when_finished,
            is_held: false,
            over: None,
            orders: Vec::new(),
            new_hosts: Vec::new(),
            new_hosts_of_parts: Vec::new(),
            workloads,
            plan: Arc::clone(plan),
            routes: Arc::clone(routes),
        };
        for workload in 0..traffic.workloads.len() as u16 {
            traffic.schedule_next_start(workload, Time::ZERO);
        }
        traffic.finish_if_idle(Time::ZERO);
        traffic
    }

    /// Time of its next action.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let stop = self.stops.peek().map(|Reverse((time, _))| *time);
        let due = self.due.peek().map(|Reverse((time, _))| *time);
        let within = self.within_servers.as_ref().and_then(|within| within.next_time());
        [self.answered.next_report_time(), self.other.next_report_time(), stop, due, within]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether some workload reacts to reports.
    pub(crate) fn has_closed_loops(&self) -> bool {
        self.closed_loop.contains(&true)
    }

    /// The shortest time from a report to a reaction.
    pub(crate) fn min_reaction_time(&self) -> Span {
        if self.has_closed_loops() { self.answered.delay.min(self.other.delay) } else { self.other.delay }
    }

    /// When all work was finished, if the run should end then.
    pub(crate) fn finished_at(&self) -> Option<Time> {
        self.over
    }

    /// Receives the reports of a finished window, in the order of time and endpoint key. Adds counters to the records immediately.
    pub(crate) fn receive_reports(&mut self, reports: impl Iterator<Item = EndpointReport>) {
        for report in reports {
            match report.event {
                EndpointEvent::Counted(counters) => self.record_counters(&counters),
                EndpointEvent::Lost(bytes) => {
                    self.records.update(report.endpoint_key / 2, |record| {
                        record.datagrams.count_lost(bytes);
                    });
                    self.other.push(report);
                }
                EndpointEvent::Complete
                | EndpointEvent::Failed(_)
                | EndpointEvent::Delivered(_)
                | EndpointEvent::Sent(_)
                    if self.closed_loop[usize::from(self.workload_of_report(&report))] =>
                {
                    self.answered.push(report);
                }
                _ => self.other.push(report),
            }
        }
    }

    fn workload_of_report(&self, report: &EndpointReport) -> u16 {
        self.workload_of_endpoint(report.endpoint_key)
    }

    pub(crate) fn workload_of_endpoint(&self, endpoint_key: u32) -> u16 {
        self.records.flow_record(endpoint_key / 2).spec.workload
    }

    /// Adds the counters of an endpoint to the record of its flow.
    pub(crate) fn record_counters(&mut self, counters: &EndpointCounters) {
        self.records.update(self.records.flow_of(counters.flow), |record| {
            record.delivered += counters.delivered;
            record.retransmits += counters.retransmits;
            record.timeouts += counters.timeouts;
            record.ce_packets += counters.ce_packets;
            record.loss_probes += counters.loss_probes;
            if counters.replies {
                record.of_reply.retransmits += counters.retransmits;
                record.of_reply.timeouts += counters.timeouts;
                record.of_reply.loss_probes += counters.loss_probes;
            }
            record.undone += counters.undone;
            record.connected = record.connected.or(counters.connected);
            record.datagrams.merge(&counters.datagrams);
            record.rdma.merge(&counters.rdma);
        });
    }

    /// Performs all actions before `end`, unless the run has finished.
    pub(crate) fn run_until(&mut self, end: Time) {
        while let Some(now) = self.next_time().filter(|time| *time < end && self.over.is_none()) {
            self.run_at(now);
            if let Some(within) = &mut self.within_servers {
                within.settle();
            }
            self.finish_if_idle(now);
        }
    }

    fn run_at(&mut self, now: Time) {
        if let Some((report, is_learnt)) = self.answered.take_due(now).or_else(|| self.other.take_due(now)) {
            if !is_learnt {
                self.record_report(&report, now);
            }
            self.react_to_report(&report, now);
        } else if self.stops.peek().is_some_and(|Reverse((time, _))| *time == now) {
            let Some(Reverse((_, flow))) = self.stops.pop() else { return };
            self.stop_flow(flow, now);
        } else if self.within_servers.as_ref().is_some_and(|within| within.next_time() == Some(now)) {
            self.act_within_servers(now);
        } else if let Some(Reverse((_, workload))) = self.due.pop() {
            self.start_due_flows(workload as u16, now);
        }
    }

    /// Records all pending reports when the run stops, without reactions of applications.
    pub(crate) fn record_pending_reports(&mut self) {
        let reports: Vec<(Time, EndpointReport)> =
            self.answered.take_unrecorded().chain(self.other.take_unrecorded()).collect();
        for (now, report) in reports {
            self.record_report(&report, now);
        }
    }

    /// Checks whether the run has finished: no open flow, and no workload that could start one.
    fn finish_if_idle(&mut self, now: Time) {
        let idle = || self.workloads.iter().all(|workload| workload.next_start_time().is_none());
        if self.stop_when_finished && !self.is_held && self.active == 0 && idle() {
            self.over.get_or_insert(now);
        }
    }

    /// Keeps the run from being over until [`Self::allow_finish`] is called.
    pub(crate) fn keep_running(&mut self) {
        (self.is_held, self.over) = (true, None);
    }

    /// Ends [`Self::keep_running`].
    pub(crate) fn allow_finish(&mut self, now: Time) {
        if std::mem::take(&mut self.is_held) {
            self.finish_if_idle(now);
        }
    }

    /// Starts the due flows of a workload.
    fn start_due_flows(&mut self, workload: u16, now: Time) {
        let index = usize::from(workload);
        if self.due_at[index] == Some(now) {
            self.due_at[index] = None;
        }
        if self.workloads[index].next_start_time().is_some_and(|start| start <= now) {
            self.workloads[index].on_start_time(now);
            self.send_messages(workload, now);
            while self.workloads[index].next_start_time().is_some_and(|start| start <= now) {
                let spec = self.workloads[index].next_flow();
                self.open_flow(spec, now);
            }
        }
        self.schedule_next_start(workload, now);
    }

    /// Schedules the next start of a workload.
    fn schedule_next_start(&mut self, workload: u16, now: Time) {
        let index = usize::from(workload);
        let Some(start) = self.workloads[index].next_start_time() else { return };
        let start = start.max(now);
        if self.due_at[index].is_none_or(|pending| start < pending) {
            self.due_at[index] = Some(start);
            self.due.push(Reverse((start, u32::from(workload))));
        }
    }

    /// Sends the messages of a workload; closes its connections if no more will follow.
    fn send_messages(&mut self, workload: u16, now: Time) {
        while let Some(message) = self.workloads[usize::from(workload)].next_message() {
            self.send_message(workload, &message, now);
        }
        if !self.workloads[usize::from(workload)].has_sent_all() {
            return;
        }
        let own = (workload, 0)..=(workload, u32::MAX);
        let kept: Vec<((u16, u32), u32)> =
            self.kept.range(own).map(|(number, opener)| (*number, *opener)).collect();
        for (number, opener) in kept {
            self.kept.remove(&number);
            self.end_flow(opener, FlowStatus::Finished, now);
            if !self.is_within_server(opener) {
                self.close_connection(opener, false, now);
            }
        }
    }

    /// Takes the update for the partitions; `None` if nothing changed.
    pub(crate) fn take_partition_update(&mut self) -> Option<PartitionUpdate> {
        let (rows, mut hosts) = (self.rows.take_new_rows(), std::mem::take(&mut self.new_hosts));
        let mut hosts_of_parts = std::mem::take(&mut self.new_hosts_of_parts);
        if self.plan.settings.qcn.is_none() {
            hosts.clear();
            hosts_of_parts.clear();
        }
        let is_empty = rows.is_empty() && hosts.is_empty() && hosts_of_parts.is_empty();
        (!is_empty).then_some(PartitionUpdate { rows, hosts, hosts_of_parts })
    }

    fn transport_uses_datagrams(&self, transport: u16) -> bool {
        self.plan.settings.transports[usize::from(transport)].udp().is_some()
    }

    fn flow_kind(&self, spec: &FlowSpec) -> FlowKind {
        let transport = &self.plan.settings.transports[usize::from(spec.transport)];
        match (transport.tcp(), transport.rdma()) {
            (Some(_), _) => FlowKind::Tcp,
            (_, Some(_)) => FlowKind::QueuePair,
            (None, None) => FlowKind::Datagrams,
        }
    }

    fn send_order(&mut self, endpoint_key: u32, order: EndpointOrder, at: Time) {
        let (flow, side) = (endpoint_key / 2, (endpoint_key & 1) as usize);
        let open = self.host_ports.as_ref().and_then(|_| self.open.get(&flow));
        let host = open.map_or_else(
            || hosts_of_side(&self.records.flow_record(flow).spec, side)[0],
            |open| open.ports[side][0],
        );
        self.orders.push(TimedEndpointOrder { at, host, endpoint_key, order });
    }

    /// Enters a report into the records and informs the workload.
    fn record_report(&mut self, report: &EndpointReport, now: Time) {
        let EndpointReport { at, endpoint_key, event } = *report;
        if self.is_subflow(endpoint_key / 2) {
            return; // Its connection tells what there is to tell.
        }
        let Some(open) = self.open.get_mut(&(endpoint_key / 2)) else { return };
        let workload = usize::from(self.records.flow_record(endpoint_key / 2).spec.workload);
        match event {
            EndpointEvent::Complete => {
                let oldest = open.operations.pop_front().unwrap_or(open.current);
                self.end_flow(oldest, FlowStatus::Finished, at);
            }
            EndpointEvent::Failed(failure) => {
                let current = open.current;
                let flow = self.records.flow_of(current);
                for operation in std::mem::take(&mut open.operations) {
                    self.records.update(operation, |record| record.failure = Some(failure));
                    self.end_flow(operation, FlowStatus::Failed, at);
                }
                // The connection of a finished flow can still fail, if its last ACKs were lost.
                self.records.update(flow, |record| {
                    record.failure =
                        (record.status == FlowStatus::Running).then_some(failure).or(record.failure);
                });
                self.end_flow(current, FlowStatus::Failed, at);
            }
            EndpointEvent::DatagramsReceived(last) => {
                let end = open.over.map_or(last, |(over, _)| over.max(last).max(open.last_loss));
                let current = open.current;
                self.end_flow(current, FlowStatus::Stopped, end);
            }
            EndpointEvent::Delivered(token) => {
                for token in self.complete_messages(endpoint_key, token, false) {
                    self.workloads[workload].on_message_delivered(token, now);
                }
            }
            EndpointEvent::Sent(token) => {
                for token in self.complete_messages(endpoint_key, token, true) {
                    self.workloads[workload].on_message_sent(token, now);
                }
            }
            EndpointEvent::Drained
            | EndpointEvent::Counted(_)
            | EndpointEvent::Lost(_)
            | EndpointEvent::DatagramsOver(_) => {}
        }
    }

    /// Performs the reactions to a report.
    fn react_to_report(&mut self, report: &EndpointReport, now: Time) {
        let EndpointReport { endpoint_key, event, at } = *report;
        let opener = endpoint_key / 2;
        let workload = self.records.flow_record(opener).spec.workload;
        match event {
            EndpointEvent::Failed(_) if self.is_subflow(opener) => {
                self.send_order(endpoint_key ^ 1, EndpointOrder::Free, now);
                self.remove_connection(opener, now);
            }
            EndpointEvent::Complete => self.reuse_or_close(opener, now),
            EndpointEvent::Failed(_) => {
                self.stop_keeping_connection(self.records.flow_of(opener));
                self.stop_other_parts(opener, now);
                self.register_flow_end(self.current_flow(opener), now);
                // The other endpoint has lost its peer.
                self.send_order(endpoint_key ^ 1, EndpointOrder::Free, now);
                self.remove_connection(opener, now);
            }
            EndpointEvent::Drained => self.on_endpoint_drained(endpoint_key, now),
            EndpointEvent::Delivered(_) | EndpointEvent::Sent(_) => {
                self.send_messages(workload, now);
            }
            EndpointEvent::Lost(_) => {
                if let Some(open) = self.open.get_mut(&opener) {
                    (open.lost, open.last_loss) = (open.lost + 1, at);
                    self.send_datagram_count(opener, now);
                }
            }
            EndpointEvent::DatagramsOver(left) => {
                if let Some(open) = self.open.get_mut(&opener) {
                    open.over = Some((at, left));
                    self.send_datagram_count(opener, now);
                }
            }
            EndpointEvent::DatagramsReceived(_) => {
                if self.open.contains_key(&opener) {
                    self.send_order(opener * 2, EndpointOrder::Free, now);
                    self.send_order(opener * 2 + 1, EndpointOrder::Free, now);
                    self.remove_connection(opener, now);
                }
            }
            EndpointEvent::Counted(_) => {}
        }
        self.schedule_next_start(workload, now);
    }

    pub(crate) fn flow_records(&self) -> &FlowRecords {
        &self.records
    }

    /// The records, with running flows in their state at `now`.
    pub(crate) fn flow_records_at(&mut self, now: Time) -> &FlowRecords {
        self.count_bytes_within_servers(now);
        self.records.end_running_flows(now);
        &self.records
    }

    pub(crate) fn into_flow_records(self) -> FlowRecords {
        self.records
    }

    /// Flows started and flows finished so far.
    pub(crate) fn flow_counts(&self) -> (u64, u64) {
        (self.records.len() as u64, self.finished)
    }

    pub(crate) fn workload(&self, index: usize) -> &dyn Workload {
        self.workloads[index].as_ref()
    }

    /// Job records of all workloads, completed ones first, then running ones, each with the timeouts of its flows.
    pub(crate) fn query_records(&mut self) -> Vec<QueryRecord> {
        let mut timeouts: BTreeMap<(u16, u32), u32> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.timeouts > 0) {
            if let Some(query) = record.spec.query {
                *timeouts.entry((record.spec.workload, query)).or_default() += record.timeouts;
            }
        }
        let of = |workload: &mut Box<dyn Workload>| {
            let mut queries = workload.take_completed_queries();
            queries.extend(workload.unfinished_queries());
            queries
        };
        let mut queries: Vec<QueryRecord> = self.workloads.iter_mut().flat_map(of).collect();
        for query in &mut queries {
            query.timeouts = timeouts.get(&(query.workload, query.query)).copied().unwrap_or(0);
        }
        queries
    }
}

/// Sending and receiving host of one side of a flow.
fn hosts_of_side(spec: &FlowSpec, side: usize) -> [NodeId; 2] {
    if side == 0 { [spec.source, spec.destination] } else { [spec.destination, spec.source] }
}
