//! The traffic: all applications of all hosts, beside the partitions, and the records of what they had carried.
//!
//! It acts between windows, in the order of time. Applications that start something in answer to a completion do so after
//! `Settings::reaction`, zero by default: at the very time of the completion. Where that is shorter than a window, the network is a
//! single partition, which stops at each report. Everything else (closing connections, books of open-loop workloads) follows one window after
//! the report, so the traffic may act ahead of the partitions up to the end of a window, however hosts are divided among them.

mod closing;
mod jobs;
mod opening;
mod reports;
mod routes;

use crate::contention::Count;
use crate::flow::{FlowSpec, FlowStatus, QueryRecord, Workload};
use crate::ideal::IdealTime;
use crate::order::{Addressed, EndpointCounters, EndpointEvent, Order, Report, SharedUpdate};
use crate::plan::Plan;
use crate::records::FlowRecords;
use crate::rows::Rows;
use crate::vlan::VlanPicker;
use jobs::Job;
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{NodeId, Span, Time};
use reports::Reports;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// A connection or a flow of datagrams that is open, by the flow that opened it.
#[derive(Debug)]
struct Open {
    /// The flow that it carries now, or carried last.
    current: u32,
    /// By side: its path, or the destination node where switches look up the next hop; its VLAN, and whether that has been left.
    routes: [u32; 2],
    vlans: [Option<u16>; 2],
    /// By side: nothing is under way any more.
    quiet: [bool; 2],
    /// Of datagrams: when their source had sent all and how many, and how many were lost on the way, the last one then.
    over: Option<(Time, u64)>,
    lost: u64,
    last_loss: Time,
}

/// All applications, and what they know.
#[derive(Debug)]
pub(crate) struct Traffic {
    plan: Arc<Plan>,
    routes: Arc<NextHops>,
    ideal: IdealTime,
    workloads: Vec<Box<dyn Workload>>,
    /// When each workload is due: the earliest time that is in `due` for it.
    due_at: Vec<Option<Time>>,
    due: BinaryHeap<Reverse<(Time, u32)>>,
    /// Long flows that stop.
    stops: BinaryHeap<Reverse<(Time, u32)>>,
    /// Completions of closed-loop workloads, whose applications answer them.
    answered: Reports,
    /// All other reports, which nobody answers: they end connections and flows.
    other: Reports,
    /// By workload: its flows depend on completions.
    closed_loop: Vec<bool>,
    /// Flows that the records show as ended before the traffic acts on it: when it will, and how many.
    ended: Vec<(Time, u64)>,
    contention: Count,
    records: FlowRecords,
    open: BTreeMap<u32, Open>,
    /// Connections that wait for their next flow: workload and number, to the flow that opened them.
    kept: BTreeMap<(u16, u32), u32>,
    /// By workload and number, those of which a part is under way on a kept connection.
    jobs: BTreeMap<(u16, u32), Job>,
    vlans: Option<VlanPicker>,
    pub(crate) rows: Rows,
    active: u64,
    finished: u64,
    stop_when_finished: bool,
    /// Something else than flows goes on.
    is_held: bool,
    /// When it had nothing left to do.
    over: Option<Time>,
    pub(crate) orders: Vec<Addressed>,
    /// The hosts of flows that the partitions have not been told of.
    new_hosts: Vec<[NodeId; 2]>,
}

impl Traffic {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        routes: &Arc<NextHops>,
        workloads: Vec<Box<dyn Workload>>,
        stop_when_finished: bool,
        rows: Rows,
    ) -> Traffic {
        let mut traffic = Traffic {
            ideal: IdealTime::new(Arc::clone(&plan.topology), Arc::clone(routes), Arc::clone(&plan.settings)),
            answered: Reports::after(plan.settings.reaction),
            other: Reports::after(plan.window),
            closed_loop: workloads.iter().map(|workload| !workload.is_open_loop()).collect(),
            due_at: vec![None; workloads.len()],
            due: BinaryHeap::new(),
            stops: BinaryHeap::new(),
            ended: Vec::new(),
            contention: Count::default(),
            records: FlowRecords::default(),
            open: BTreeMap::new(),
            kept: BTreeMap::new(),
            jobs: BTreeMap::new(),
            vlans: VlanPicker::of(plan),
            rows,
            active: 0,
            finished: 0,
            stop_when_finished,
            is_held: false,
            over: None,
            orders: Vec::new(),
            new_hosts: Vec::new(),
            workloads,
            plan: Arc::clone(plan),
            routes: Arc::clone(routes),
        };
        for workload in 0..traffic.workloads.len() as u16 {
            traffic.schedule(workload, Time::ZERO);
        }
        traffic.check_over(Time::ZERO);
        traffic
    }

    /// When it acts next.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let stop = self.stops.peek().map(|Reverse((time, _))| *time);
        let due = self.due.peek().map(|Reverse((time, _))| *time);
        [self.answered.next_time(), self.other.next_time(), stop, due].into_iter().flatten().min()
    }

    /// The shortest time from a report to what follows from it.
    pub(crate) fn reaction(&self) -> Span {
        if self.closed_loop.contains(&true) {
            self.answered.delay.min(self.other.delay)
        } else {
            self.other.delay
        }
    }

    /// When it had nothing left to do, if a run is to end then.
    pub(crate) fn over(&self) -> Option<Time> {
        self.over
    }

    /// Reports of a window that is over, in the order of time and address. What was counted is in the records at once.
    pub(crate) fn receive(&mut self, reports: impl Iterator<Item = Report>) {
        for report in reports {
            match report.event {
                EndpointEvent::Counted(counters) => self.count(&counters),
                EndpointEvent::Lost(bytes) => {
                    self.records.update(report.address / 2, |record| record.datagrams.lose(bytes));
                    self.other.push(report);
                }
                EndpointEvent::Complete
                | EndpointEvent::Failed(_)
                | EndpointEvent::Delivered(_)
                | EndpointEvent::Sent(_)
                    if self.closed_loop[usize::from(self.workload_of(&report))] =>
                {
                    self.answered.push(report);
                }
                _ => self.other.push(report),
            }
        }
    }

    fn workload_of(&self, report: &Report) -> u16 {
        self.records.get(report.address / 2).spec.workload
    }

    /// Adds what an end has counted to the record of its flow.
    pub(crate) fn count(&mut self, counters: &EndpointCounters) {
        self.records.update(counters.flow, |record| {
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
            record.datagrams.join(&counters.datagrams);
            record.rdma.join(&counters.rdma);
        });
    }

    /// Does what is to be done before `end`, unless it is over.
    pub(crate) fn act(&mut self, end: Time) {
        while let Some(now) = self.next_time().filter(|time| *time < end && self.over.is_none()) {
            self.step(now);
            // Who reads the records knows of an end before its time comes; the network does not.
            self.ended.retain(|(at, _)| *at > now);
            let ended = self.ended.iter().map(|(_, flows)| flows).sum::<u64>();
            self.contention.set(self.active + ended, now);
            self.check_over(now);
        }
    }

    fn step(&mut self, now: Time) {
        if let Some((report, is_learnt)) = self.answered.take(now).or_else(|| self.other.take(now)) {
            if !is_learnt {
                self.record(&report, now);
            }
            self.handle_report(&report, now);
        } else if self.stops.peek().is_some_and(|Reverse((time, _))| *time == now) {
            let Some(Reverse((_, flow))) = self.stops.pop() else { return };
            self.stop(flow, now);
        } else if let Some(Reverse((_, workload))) = self.due.pop() {
            self.on_due(workload as u16, now);
        }
    }

    /// The run stands still: applications know all that has happened, though they have not reacted to it yet.
    pub(crate) fn record_all(&mut self) {
        let reports: Vec<(Time, Report)> =
            self.answered.take_unlearnt().chain(self.other.take_unlearnt()).collect();
        for (now, report) in reports {
            let before = self.active;
            self.record(&report, now);
            self.ended.push((now, before - self.active));
        }
    }

    /// The run has nothing left to show: no open flow, and no workload that could start one.
    fn check_over(&mut self, now: Time) {
        let idle = || self.workloads.iter().all(|workload| workload.next_start().is_none());
        if self.stop_when_finished && !self.is_held && self.active == 0 && idle() {
            self.over.get_or_insert(now);
        }
    }

    /// Something else than flows goes on: the run is not over without it.
    pub(crate) fn hold(&mut self) {
        (self.is_held, self.over) = (true, None);
    }

    /// That is over too.
    pub(crate) fn release(&mut self, now: Time) {
        if std::mem::take(&mut self.is_held) {
            self.check_over(now);
        }
    }

    /// A workload's next flows are due.
    fn on_due(&mut self, workload: u16, now: Time) {
        let index = usize::from(workload);
        if self.due_at[index] == Some(now) {
            self.due_at[index] = None;
        }
        if self.workloads[index].next_start().is_some_and(|start| start <= now) {
            self.workloads[index].wake(now);
            self.serve(workload, now);
            while self.workloads[index].next_start().is_some_and(|start| start <= now) {
                let spec = self.workloads[index].next_flow();
                self.open_flow(spec, now);
            }
        }
        self.schedule(workload, now);
    }

    /// Keeps the next start of a workload among what is due.
    fn schedule(&mut self, workload: u16, now: Time) {
        let index = usize::from(workload);
        let Some(start) = self.workloads[index].next_start() else { return };
        let start = start.max(now);
        if self.due_at[index].is_none_or(|pending| start < pending) {
            self.due_at[index] = Some(start);
            self.due.push(Reverse((start, u32::from(workload))));
        }
    }

    /// Sends what a workload has to send; one that is over ends its connections.
    fn serve(&mut self, workload: u16, now: Time) {
        while let Some(message) = self.workloads[usize::from(workload)].next_message() {
            self.send_message(workload, &message, now);
        }
        if !self.workloads[usize::from(workload)].is_over() {
            return;
        }
        let own = (workload, 0)..=(workload, u32::MAX);
        let openers: Vec<u32> = self.kept.range(own).map(|(_, opener)| *opener).collect();
        for opener in openers {
            self.forget_kept(opener);
            self.end_flow(opener, FlowStatus::Finished, now);
            self.close(opener, Order::Close, now);
        }
    }

    /// What the partitions have to know; nothing where that is nothing.
    pub(crate) fn take_update(&mut self) -> Option<SharedUpdate> {
        let (rows, mut hosts) = (self.rows.take_fresh(), std::mem::take(&mut self.new_hosts));
        if self.plan.settings.qcn.is_none() {
            hosts.clear();
        }
        let contention = std::mem::take(&mut self.contention.changes);
        let is_empty = rows.is_empty() && hosts.is_empty() && contention.is_empty();
        (!is_empty).then_some(SharedUpdate { rows, hosts, contention })
    }

    fn sends_datagrams(&self, transport: u16) -> bool {
        self.plan.settings.transports[usize::from(transport)].datagrams.is_some()
    }

    fn order(&mut self, address: u32, order: Order, at: Time) {
        let FlowSpec { source, destination, .. } = self.records.get(address / 2).spec;
        let host = if address & 1 == 0 { source } else { destination };
        self.orders.push(Addressed { at, host, address, order });
    }

    /// What a report says is in the records, and the application knows it.
    fn record(&mut self, report: &Report, now: Time) {
        let Report { at, address, event } = *report;
        let Some(open) = self.open.get(&(address / 2)) else { return };
        let (current, workload) = (open.current, usize::from(self.records.get(address / 2).spec.workload));
        match event {
            EndpointEvent::Complete => self.end_flow(current, FlowStatus::Finished, at),
            EndpointEvent::Failed(failure) => {
                // Of a flow that is over the connection may still fail: its last ACKs were lost.
                self.records.update(current, |record| {
                    record.failure =
                        (record.status == FlowStatus::Running).then_some(failure).or(record.failure);
                });
                self.end_flow(current, FlowStatus::Failed, at);
            }
            EndpointEvent::DatagramsReceived(last) => {
                let end = open.over.map_or(last, |(over, _)| over.max(last).max(open.last_loss));
                self.end_flow(current, FlowStatus::Stopped, end);
            }
            EndpointEvent::Delivered(token) => self.workloads[workload].on_delivered(token, now),
            EndpointEvent::Sent(token) => self.workloads[workload].on_sent(token, now),
            EndpointEvent::Drained
            | EndpointEvent::Counted(_)
            | EndpointEvent::Lost(_)
            | EndpointEvent::DatagramsOver(_) => {}
        }
    }

    /// What follows from a report.
    fn handle_report(&mut self, report: &Report, now: Time) {
        let Report { address, event, at } = *report;
        let opener = address / 2;
        let workload = self.records.get(opener).spec.workload;
        match event {
            EndpointEvent::Complete => self.go_on_or_close(opener, now),
            EndpointEvent::Failed(_) => {
                self.forget_kept(opener);
                self.end_part(self.carried_by(opener), now);
                // The other end has nobody to talk to.
                self.order(address ^ 1, Order::Free, now);
                self.forget_connection(opener, now);
            }
            EndpointEvent::Drained => self.on_drained(address, now),
            EndpointEvent::Delivered(_) | EndpointEvent::Sent(_) => self.serve(workload, now),
            EndpointEvent::Lost(_) => {
                if let Some(open) = self.open.get_mut(&opener) {
                    (open.lost, open.last_loss) = (open.lost + 1, at);
                    self.await_datagrams(opener, now);
                }
            }
            EndpointEvent::DatagramsOver(left) => {
                if let Some(open) = self.open.get_mut(&opener) {
                    open.over = Some((at, left));
                    self.await_datagrams(opener, now);
                }
            }
            EndpointEvent::DatagramsReceived(_) => {
                if self.open.contains_key(&opener) {
                    self.order(opener * 2, Order::FreeDatagrams, now);
                    self.order(opener * 2 + 1, Order::FreeDatagrams, now);
                    self.forget_connection(opener, now);
                }
            }
            EndpointEvent::Counted(_) => {}
        }
        self.schedule(workload, now);
    }

    pub(crate) fn records(&self) -> &FlowRecords {
        &self.records
    }

    /// The records, those of flows that still run as they stand at `now`.
    pub(crate) fn records_at(&mut self, now: Time) -> &FlowRecords {
        self.records.end_running(now);
        &self.records
    }

    pub(crate) fn into_records(self) -> FlowRecords {
        self.records
    }

    /// Flows started and flows finished so far.
    pub(crate) fn flow_counts(&self) -> (u64, u64) {
        (self.records.len() as u64, self.finished)
    }

    pub(crate) fn workload(&self, index: usize) -> &dyn Workload {
        self.workloads[index].as_ref()
    }

    /// The jobs of all workloads that have any: the complete ones, then those that still run; each with the timeouts of its flows.
    pub(crate) fn queries(&mut self) -> Vec<QueryRecord> {
        let mut timeouts: BTreeMap<(u16, u32), u32> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.timeouts > 0) {
            if let Some(query) = record.spec.query {
                *timeouts.entry((record.spec.workload, query)).or_default() += record.timeouts;
            }
        }
        let of = |workload: &mut Box<dyn Workload>| {
            let mut queries = workload.take_queries();
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

/// Where a side of a flow sends from and to.
fn ends(spec: &FlowSpec, side: u32) -> [NodeId; 2] {
    if side == 0 { [spec.source, spec.destination] } else { [spec.destination, spec.source] }
}
