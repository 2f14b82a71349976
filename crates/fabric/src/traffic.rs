//! The traffic: all applications of all hosts, beside the cells, and the records of what they had carried.
//!
//! It acts between windows, in the order of time, and ahead of the cells: what happens up to the end of a window follows from what it
//! has been told before, as an application learns of a completion one reaction time after it, and no window is longer than that. The
//! reaction time is a constant of the topology (`network.rs`), so nothing here depends on how hosts are divided among cells.

use crate::flow::{Datagrams, FlowRecord, FlowSpec, FlowStatus, Kept, Message, QueryRecord, Workload};
use crate::ideal::IdealTime;
use crate::order::{Exchange, Half, News, Opening, Order, Report};
use crate::plan::Plan;
use crate::rows::Rows;
use crate::vlan::{Picked, VlanPicker};
use pauseframe_engine::mix;
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{NodeId, Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// An order and whom it is for.
#[derive(Debug)]
pub(crate) struct Addressed {
    pub(crate) at: Time,
    pub(crate) host: NodeId,
    pub(crate) address: u32,
    pub(crate) order: Order,
}

/// A connection or a stream that is open, by the flow that opened it.
#[derive(Debug)]
struct Open {
    /// The flow that it carries now, or carried last.
    current: u32,
    /// By side: its path, or the destination node where switches look up the next hop; its VLAN, and whether that has been left.
    routes: [u32; 2],
    vlans: [Option<u16>; 2],
    /// By side: nothing is under way any more.
    quiet: [bool; 2],
    /// A stream: when its source had sent all and how many, and how many were lost on the way, the last one then.
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
    /// How long after it has happened an application learns of a completion.
    reaction: Span,
    workloads: Vec<Box<dyn Workload>>,
    /// When each workload is due: the earliest time that is in `due` for it.
    due_at: Vec<Option<Time>>,
    due: BinaryHeap<Reverse<(Time, u32)>>,
    /// Long flows that stop.
    stops: BinaryHeap<Reverse<(Time, u32)>>,
    /// What has been reported, in the order of time; the first of them have been learnt already.
    reports: VecDeque<Report>,
    learnt: usize,
    records: Vec<FlowRecord>,
    open: BTreeMap<u32, Open>,
    /// Connections that wait for their next flow: workload and number, to the flow that opened them.
    kept: BTreeMap<(u16, u32), u32>,
    vlans: Option<VlanPicker>,
    pub(crate) rows: Rows,
    active: u64,
    finished: u64,
    stop_when_finished: bool,
    /// When it had nothing left to do.
    over: Option<Time>,
    pub(crate) orders: Vec<Addressed>,
    /// The hosts of flows that the cells have not been told of.
    pub(crate) new_hosts: Vec<[NodeId; 2]>,
}

impl Traffic {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        routes: &Arc<NextHops>,
        workloads: Vec<Box<dyn Workload>>,
        (reaction, stop_when_finished): (Span, bool),
        rows: Rows,
    ) -> Traffic {
        let mut traffic = Traffic {
            ideal: IdealTime::new(Arc::clone(&plan.topology), Arc::clone(routes), Arc::clone(&plan.settings)),
            reaction,
            due_at: vec![None; workloads.len()],
            due: BinaryHeap::new(),
            stops: BinaryHeap::new(),
            reports: VecDeque::new(),
            learnt: 0,
            records: Vec::new(),
            open: BTreeMap::new(),
            kept: BTreeMap::new(),
            vlans: VlanPicker::of(plan),
            rows,
            active: 0,
            finished: 0,
            stop_when_finished,
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
        let report = self.reports.front().map(|report| report.at + self.reaction);
        let stop = self.stops.peek().map(|Reverse((time, _))| *time);
        let due = self.due.peek().map(|Reverse((time, _))| *time);
        [report, stop, due].into_iter().flatten().min()
    }

    /// When it had nothing left to do, if a run is to end then.
    pub(crate) fn over(&self) -> Option<Time> {
        self.over
    }

    /// Reports of a window that is over, in the order of time and address. What was counted is in the records at once.
    pub(crate) fn hear(&mut self, reports: impl Iterator<Item = Report>) {
        for report in reports {
            match report.news {
                News::Counted(half) => self.count(&half),
                News::Lost(bytes) => {
                    self.records[(report.address / 2) as usize].datagrams.lose(bytes);
                    self.reports.push_back(report);
                }
                _ => self.reports.push_back(report),
            }
        }
    }

    /// Adds what an end has counted to the record of its flow.
    pub(crate) fn count(&mut self, half: &Half) {
        let record = &mut self.records[half.flow as usize];
        record.delivered += half.delivered;
        record.retransmits += half.retransmits;
        record.timeouts += half.timeouts;
        record.ce_packets += half.ce_packets;
        record.loss_probes += half.loss_probes;
        record.undone += half.undone;
        record.connected = record.connected.or(half.connected);
        record.datagrams.join(&half.datagrams);
    }

    /// Does what is to be done before `end`, unless it is over.
    pub(crate) fn act(&mut self, end: Time) {
        while let Some(now) = self.next_time().filter(|time| *time < end && self.over.is_none()) {
            self.step(now);
            self.check_over(now);
        }
    }

    fn step(&mut self, now: Time) {
        if self.reports.front().is_some_and(|report| report.at + self.reaction == now) {
            let Some(report) = self.reports.pop_front() else { return };
            if self.learnt > 0 {
                self.learnt -= 1;
            } else {
                self.learn(&report);
            }
            self.react(&report, now);
        } else if self.stops.peek().is_some_and(|Reverse((time, _))| *time == now) {
            let Some(Reverse((_, flow))) = self.stops.pop() else { return };
            self.stop(flow, now);
        } else if let Some(Reverse((_, workload))) = self.due.pop() {
            self.on_due(workload as u16, now);
        }
    }

    /// The run stands still: applications know all that has happened, though they have not reacted to it yet.
    pub(crate) fn learn_all(&mut self) {
        for index in self.learnt..self.reports.len() {
            let report = self.reports[index];
            self.learn(&report);
        }
        self.learnt = self.reports.len();
    }

    /// The run has nothing left to show: no open flow, and no workload that could start one.
    fn check_over(&mut self, now: Time) {
        let idle = || self.workloads.iter().all(|workload| workload.next_start().is_none());
        if self.stop_when_finished && self.active == 0 && idle() {
            self.over.get_or_insert(now);
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

    fn is_stream(&self, transport: u16) -> bool {
        self.plan.settings.transports[usize::from(transport)].datagrams.is_some()
    }

    fn order(&mut self, address: u32, order: Order, at: Time) {
        let FlowSpec { source, destination, .. } = self.records[(address / 2) as usize].spec;
        let host = if address & 1 == 0 { source } else { destination };
        self.orders.push(Addressed { at, host, address, order });
    }

    fn open_flow(&mut self, mut spec: FlowSpec, now: Time) {
        // Started in answer to something that the application has just learnt.
        spec.start = spec.start.max(now);
        let flow = self.records.len() as u32;
        let is_stream = self.is_stream(spec.transport);
        let ideal = if is_stream { Span::ZERO } else { self.ideal.of_flow(&spec) };
        self.records.push(FlowRecord {
            spec,
            status: FlowStatus::Running,
            end: now,
            delivered: 0,
            ideal,
            retransmits: 0,
            timeouts: 0,
            loss_probes: 0,
            undone: 0,
            ce_packets: 0,
            datagrams: Datagrams::default(),
            connected: None,
            failure: None,
        });
        self.new_hosts.push([spec.source, spec.destination]);
        self.active += 1;
        let kept = spec.kept.and_then(|kept| self.kept.get(&(spec.workload, kept.number)).copied());
        let reply = if spec.reply > 0 { spec.reply } else { u64::MAX };
        // The source waits for a reply, if there is one; the destination for the request, or for all.
        let (reply_delay, idle) = (spec.reply_delay, Span::ZERO);
        let exchanges = [
            Exchange { flow, writes: spec.size, expects: reply, reply: 0, reply_delay: idle },
            Exchange { flow, writes: 0, expects: spec.size, reply: spec.reply, reply_delay },
        ];
        if let Some(opener) = kept {
            self.continue_on(opener, exchanges, now);
            return;
        }
        if let Some(kept) = spec.kept.filter(|kept| !kept.last) {
            self.kept.insert((spec.workload, kept.number), flow);
        }
        if let Some(stop) = spec.stop.filter(|_| !is_stream) {
            self.stops.push(Reverse((stop.max(now), flow)));
        }
        self.open_ends(flow, exchanges, now);
    }

    fn open_ends(&mut self, flow: u32, exchanges: [Exchange; 2], now: Time) {
        let spec = self.records[flow as usize].spec;
        let is_stream = self.is_stream(spec.transport);
        let mut open = Open {
            current: flow,
            routes: [0; 2],
            vlans: [None; 2],
            quiet: [false; 2],
            over: None,
            lost: 0,
            last_loss: Time::ZERO,
        };
        for (side, exchange) in (0..).zip(exchanges) {
            let ends = ends(&spec, side);
            let class = self.plan.class_of_transport[usize::from(spec.transport)];
            // The end of a stream sends nothing at all.
            let silent = is_stream && side == 1;
            let route = if silent { u32::MAX } else { self.find_route(ends, flow) };
            let sends_data = side == 0 || spec.reply > 0;
            let picked = match &mut self.vlans {
                Some(vlans) if !silent => vlans.pick(ends, class, sends_data),
                _ => Picked { vlan: 0, class, among: Box::default() },
            };
            open.routes[side as usize] = route;
            open.vlans[side as usize] =
                (self.vlans.is_some() && sends_data && !silent).then_some(picked.vlan);
            let opening = Box::new(Opening { spec, route, picked, exchange });
            let order = if is_stream { Order::OpenStream(opening) } else { Order::Open(opening) };
            self.order(flow * 2 + side, order, now);
        }
        self.open.insert(flow, open);
    }

    /// The next exchange on a connection that flow `opener` opened.
    fn continue_on(&mut self, opener: u32, exchanges: [Exchange; 2], now: Time) {
        let flow = exchanges[0].flow;
        if let Some(open) = self.open.get_mut(&opener) {
            open.current = flow;
        }
        if self.records[flow as usize].spec.kept.is_some_and(|kept| kept.last) {
            self.forget_kept(opener);
        }
        for (side, exchange) in (0..).zip(exchanges) {
            self.order(opener * 2 + side, Order::Continue(exchange), now);
        }
    }

    /// The connection that `opener` opened takes no further flow.
    fn forget_kept(&mut self, opener: u32) {
        self.kept.retain(|_, open| *open != opener);
    }

    fn send_message(&mut self, workload: u16, message: &Message, now: Time) {
        let Message { connection, from, bytes, token, .. } = *message;
        let opener = self.kept.get(&(workload, connection)).copied();
        let flow = opener.unwrap_or_else(|| self.open_for_messages(workload, message, now));
        let spec = &mut self.records[flow as usize].spec;
        let side = u32::from(spec.source != from);
        debug_assert!([message.from, message.to].contains(&spec.destination));
        if opener.is_some() {
            *(if side == 0 { &mut spec.size } else { &mut spec.reply }) += bytes;
        }
        let notify = message.notify.then_some(token);
        let write = Order::Write { bytes, token: notify, written: opener.is_none() };
        self.order(flow * 2 + side, write, now);
        self.order(flow * 2 + (1 - side), Order::Await { bytes, token }, now);
    }

    /// The connection of two that have not talked yet, with the first message on it.
    fn open_for_messages(&mut self, workload: u16, message: &Message, now: Time) -> u32 {
        let flow = self.records.len() as u32;
        let spec = FlowSpec {
            source: message.from,
            destination: message.to,
            size: message.bytes,
            reply: 0,
            reply_delay: Span::ZERO,
            start: now,
            stop: None,
            transport: message.transport,
            workload,
            query: None,
            kept: Some(Kept { number: message.connection, first: true, last: false }),
        };
        self.open_flow(spec, now);
        // Its time is that of the application, which no idle network knows.
        self.records[flow as usize].ideal = Span::ZERO;
        flow
    }

    /// What a report says is in the records, and the application knows it.
    fn learn(&mut self, report: &Report) {
        let Report { at, address, news } = *report;
        let Some(open) = self.open.get(&(address / 2)) else { return };
        let (current, workload) =
            (open.current, usize::from(self.records[(address / 2) as usize].spec.workload));
        match news {
            News::Complete => self.end_flow(current, FlowStatus::Finished, at),
            News::Failed(failure) => {
                let record = &mut self.records[current as usize];
                // Of a flow that is over the connection may still fail: its last ACKs were lost.
                if record.status == FlowStatus::Running {
                    record.failure = Some(failure);
                }
                self.end_flow(current, FlowStatus::Failed, at);
            }
            News::StreamReceived(last) => {
                let end = open.over.map_or(last, |(over, _)| over.max(last).max(open.last_loss));
                self.end_flow(current, FlowStatus::Stopped, end);
            }
            News::Delivered(token) => self.workloads[workload].on_delivered(token, at + self.reaction),
            News::Sent(token) => self.workloads[workload].on_sent(token, at + self.reaction),
            News::Quiet | News::Counted(_) | News::Lost(_) | News::StreamOver(_) => {}
        }
    }

    /// The flow is over for its applications; its connection may still have ACKs to exchange.
    fn end_flow(&mut self, flow: u32, status: FlowStatus, at: Time) {
        let record = &mut self.records[flow as usize];
        if record.status != FlowStatus::Running {
            return;
        }
        (record.status, record.end) = (status, at);
        self.active = self.active.checked_sub(1).expect("a flow ended twice");
        self.finished += u64::from(status == FlowStatus::Finished);
        let record = *record;
        self.workloads[usize::from(record.spec.workload)].on_finished(&record, at);
    }

    /// What follows from a report.
    fn react(&mut self, report: &Report, now: Time) {
        let Report { address, news, at } = *report;
        let opener = address / 2;
        let workload = self.records[opener as usize].spec.workload;
        match news {
            News::Complete => self.go_on_or_close(opener, now),
            News::Failed(_) => {
                self.forget_kept(opener);
                // The other end has nobody to talk to.
                self.order(address ^ 1, Order::Free, now);
                self.close_books(opener, now);
            }
            News::Quiet => self.on_quiet(address, now),
            News::Delivered(_) | News::Sent(_) => self.serve(workload, now),
            News::Lost(_) => {
                if let Some(open) = self.open.get_mut(&opener) {
                    (open.lost, open.last_loss) = (open.lost + 1, at);
                    self.await_datagrams(opener, now);
                }
            }
            News::StreamOver(left) => {
                if let Some(open) = self.open.get_mut(&opener) {
                    open.over = Some((at, left));
                    self.await_datagrams(opener, now);
                }
            }
            News::StreamReceived(_) => {
                if self.open.contains_key(&opener) {
                    self.order(opener * 2, Order::FreeStream, now);
                    self.order(opener * 2 + 1, Order::FreeStream, now);
                    self.close_books(opener, now);
                }
            }
            News::Counted(_) => {}
        }
        self.schedule(workload, now);
    }

    /// An exchange is over: its connection waits for the next one, or ends.
    fn go_on_or_close(&mut self, opener: u32, now: Time) {
        let spec = &self.records[opener as usize].spec;
        let is_kept = spec.kept.is_some_and(|kept| self.kept.contains_key(&(spec.workload, kept.number)));
        if is_kept {
            self.order(opener * 2, Order::EndExchange, now);
            self.order(opener * 2 + 1, Order::EndExchange, now);
        } else {
            self.close(opener, Order::Close, now);
        }
    }

    /// Both applications have nothing more to send; the source's says so with `order`.
    fn close(&mut self, opener: u32, order: Order, now: Time) {
        self.leave_vlans(opener);
        self.order(opener * 2, order, now);
        self.order(opener * 2 + 1, Order::Close, now);
    }

    /// A long flow stops: nothing new is sent, what is under way arrives.
    fn stop(&mut self, flow: u32, now: Time) {
        if self.records[flow as usize].status == FlowStatus::Running {
            self.end_flow(flow, FlowStatus::Stopped, now);
            self.close(flow, Order::Stop, now);
            let workload = self.records[flow as usize].spec.workload;
            self.schedule(workload, now);
        }
    }

    /// Nothing is under way from one end; when that is so at both, they go.
    fn on_quiet(&mut self, address: u32, now: Time) {
        let opener = address / 2;
        let Some(open) = self.open.get_mut(&opener) else { return };
        open.quiet[(address & 1) as usize] = true;
        if open.quiet == [true; 2] {
            self.order(opener * 2, Order::Free, now);
            self.order(opener * 2 + 1, Order::Free, now);
            self.close_books(opener, now);
        }
    }

    /// The connection or stream that `opener` opened is no more.
    fn close_books(&mut self, opener: u32, now: Time) {
        self.leave_vlans(opener);
        let Some(open) = self.open.remove(&opener) else { return };
        if self.rows.are_used() {
            for route in open.routes.into_iter().filter(|route| *route != u32::MAX) {
                self.rows.retire(route, now);
            }
        }
    }

    /// Its ends are no load of their VLANs any more.
    fn leave_vlans(&mut self, opener: u32) {
        let spec = self.records[opener as usize].spec;
        let (Some(vlans), Some(open)) = (&mut self.vlans, self.open.get_mut(&opener)) else { return };
        for (side, vlan) in (0..).zip(&mut open.vlans) {
            if let Some(vlan) = vlan.take() {
                vlans.leave(vlan, ends(&spec, side));
            }
        }
    }

    /// The destination of a stream that is over is told how many datagrams there are to come.
    fn await_datagrams(&mut self, flow: u32, now: Time) {
        let Some(open) = self.open.get(&flow) else { return };
        let Some((_, left)) = open.over else { return };
        let order = Order::AwaitDatagrams(left - open.lost);
        self.order(flow * 2 + 1, order, now);
    }

    /// The path of a flow's packets between two hosts, by ECMP; packets that switches look up name their destination.
    fn find_route(&mut self, [here, there]: [NodeId; 2], flow: u32) -> u32 {
        if !self.rows.are_used() {
            return there.0;
        }
        let path = self.path([here, there], flow);
        self.rows.add(&path)
    }

    fn path(&self, [here, there]: [NodeId; 2], flow: u32) -> Vec<pauseframe_units::PortId> {
        // The 5-tuple of a flow: its hosts, and ports that differ from flow to flow.
        let tuple = mix(u64::from(here.0) << 32 | u64::from(there.0)) ^ mix(u64::from(flow));
        let seed = self.plan.settings.seed;
        let salt = |switch: NodeId| mix(seed ^ mix(u64::from(switch.0)));
        let mut path = Vec::new();
        self.routes.ecmp_path(&self.plan.topology, here, there, mix(tuple), salt, &mut path);
        path
    }

    /// Routes have changed: every open flow takes its path anew. The ends with another path: host, address, row.
    pub(crate) fn reroute(&mut self, routes: &Arc<NextHops>, now: Time) -> Vec<(NodeId, u32, u32)> {
        self.routes = Arc::clone(routes);
        let mut changed = Vec::new();
        if !self.rows.are_used() {
            return changed;
        }
        let mut open = std::mem::take(&mut self.open);
        for (flow, state) in &mut open {
            let spec = self.records[*flow as usize].spec;
            for (side, route) in (0..).zip(&mut state.routes).filter(|(_, route)| **route != u32::MAX) {
                let ends = ends(&spec, side);
                let path = self.path(ends, *flow);
                if !self.rows.is(*route, &path) {
                    self.rows.retire(*route, now);
                    *route = self.rows.add(&path);
                    changed.push((ends[0], flow * 2 + side, *route));
                }
            }
        }
        self.open = open;
        changed
    }

    pub(crate) fn records(&self) -> &[FlowRecord] {
        &self.records
    }

    /// The records, those of flows that still run as they stand at `now`.
    pub(crate) fn records_at(&mut self, now: Time) -> &[FlowRecord] {
        for record in &mut self.records {
            if record.status == FlowStatus::Running {
                record.end = now;
            }
        }
        &self.records
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
        for FlowRecord { spec, timeouts: of_flow, .. } in &self.records {
            if let Some(query) = spec.query.filter(|_| *of_flow > 0) {
                *timeouts.entry((spec.workload, query)).or_default() += of_flow;
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
