//! Converts the workloads of a scenario into flows of the fluid model.
//!
//! A flow with a reply becomes two fluid flows: the request, then the reply in the opposite direction. Start
//! times are rounded up to whole picoseconds, so a flow that waits for the end of another starts at most one
//! picosecond late.

use super::Ways;
use crate::build::overhead;
use crate::spec::{Scenario, WorkloadKind, WorkloadSpec};
use pauseframe_fabric::host_ports::bond::{FlowAddresses, FlowKind};
use pauseframe_fabric::host_ports::{FlowEnds, HostPorts};
use pauseframe_fabric::path_hash::{PathHash, PathHashSettings};
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, HostPortSettings, Workload};
use pauseframe_flowlevel::demand::Pair;
use pauseframe_flowlevel::routes::{Chooser, NoVlan, VlanChoice};
use pauseframe_flowlevel::{Arrival, Outcome, Source};
use pauseframe_results::RunError;
use pauseframe_routing::verify::Tables;
use pauseframe_routing::{FlowsByNextHop, NextHops};
use pauseframe_topology::Topology;
use pauseframe_units::{BitRate, Bytes, NodeId, PortId, Span, Time};
use pauseframe_workload::{self as workload, QueryNumbers, WorkloadContext};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// Size of a flow without end: 2^53 bytes take 5 hours at 4 Tbps, and an `f64` still represents their bits
/// accurately enough.
const ENDLESS: u64 = 1 << 53;

/// Weight of a datagram source for each bit per second: a datagram source does not give way to a connection,
/// whose weight is 1.
const UNRESPONSIVE: f64 = 1e-3;

/// The way in which the flows of a workload send: as connections or as datagrams.
#[derive(Clone, Copy, Debug)]
enum Sender {
    /// A connection sends as fast as the network allows, up to the read rate of the receiver.
    Connection { read: Option<BitRate>, is_queue_pair: bool },
    /// Datagrams are sent at this rate in application bits per second, even if they are lost.
    Datagrams { rate: BitRate },
}

impl Sender {
    fn of(workload: &WorkloadSpec, scenario: &Scenario) -> Sender {
        if let WorkloadKind::Udp(udp) = &workload.kind {
            let payload = udp.datagram.0 as u32;
            let wire = overhead(scenario).datagram_wire_size(payload, udp.priority);
            let rate = udp.rate.0 as f64 * f64::from(payload) / f64::from(wire);
            return Sender::Datagrams { rate: BitRate((rate.round() as u64).max(1)) };
        }
        let transport = scenario.transport_named(&workload.transport);
        let read = transport.tcp().and_then(|tcp| tcp.config.read_rate);
        Sender::Connection { read, is_queue_pair: transport.rdma().is_some() }
    }

    fn kind(self) -> FlowKind {
        match self {
            Sender::Connection { is_queue_pair: true, .. } => FlowKind::QueuePair,
            Sender::Connection { .. } => FlowKind::Tcp,
            Sender::Datagrams { .. } => FlowKind::Datagrams,
        }
    }

    /// The fluid flow of one direction. A datagram flow ends when its last datagram is sent, not when the
    /// network has delivered as many bytes.
    fn arrival(self, start: Time, size: u64, stop: Option<Time>) -> Arrival {
        let plain = Arrival { start, size: Bytes(size), weight: 1.0, cap: None, stop };
        match self {
            Sender::Connection { read, .. } => Arrival { cap: read, ..plain },
            Sender::Datagrams { rate } => {
                let sent = start.saturating_add(Span::from_secs_f64(size as f64 * 8.0 / rate.0 as f64));
                let stop = Some(stop.map_or(sent, |stop| stop.min(sent)));
                Arrival { cap: Some(rate), weight: rate.0 as f64 * UNRESPONSIVE, stop, ..plain }
            }
        }
    }
}

/// Chooses the ports of the hosts that have several.
#[derive(Debug)]
pub(super) struct Ports {
    chooser: HostPorts,
    hops: NextHops,
    /// The open flows, by number.
    open: BTreeMap<u32, OpenFlow>,
}

/// The ports of both directions of a flow, and which of them it loads.
#[derive(Clone, Copy, Debug)]
struct OpenFlow {
    ways: [Pair; 2],
    loads: [bool; 2],
}

impl Ports {
    /// `None` if every host has one port.
    ///
    /// # Errors
    /// If some pairs of hosts have no path.
    pub(super) fn new(
        topology: &Topology,
        settings: HostPortSettings,
        seed: u64,
    ) -> Result<Option<Ports>, RunError> {
        let Some(chooser) = HostPorts::new(topology, settings, seed) else { return Ok(None) };
        let hops = NextHops::shortest(topology).map_err(|error| RunError::Build(error.to_string()))?;
        Ok(Some(Ports { chooser, hops, open: BTreeMap::new() }))
    }

    /// Opens a flow: chooses the ports of both directions and counts the flow at those that it `loads`, as a
    /// packet-level run does. So a host that answers many requests spreads its replies.
    pub(super) fn open(&mut self, hosts: Pair, flow: u32, kind: FlowKind, loads: [bool; 2]) -> [Pair; 2] {
        let of_sides = [[hosts.from, hosts.to], [hosts.to, hosts.from]];
        let turns = self.chooser.assign_turns(of_sides[0], flow, kind);
        let ways = [0, 1].map(|side| {
            let ends = FlowEnds { hosts: of_sides[side], flow, forward: side == 0, kind };
            let [from, to] = self.chooser.choose(&ends, turns[side], &self.hops);
            if loads[side] {
                self.chooser.count_open(from, true);
            }
            Pair { from, to }
        });
        self.open.insert(flow, OpenFlow { ways, loads });
        ways
    }

    /// The ports of the reply of an open flow.
    fn way_back(&self, flow: u32) -> Option<Pair> {
        self.open.get(&flow).map(|open| open.ways[1])
    }

    fn close(&mut self, flow: u32) {
        let Some(OpenFlow { ways, loads }) = self.open.remove(&flow) else { return };
        for (way, _) in ways.iter().zip(loads).filter(|(_, loads)| *loads) {
            self.chooser.count_open(way.from, false);
        }
    }
}

/// Chooses the path of each flow.
#[derive(Debug)]
pub(super) enum Router<'a> {
    Ecmp { topology: &'a Topology, hops: Box<NextHops>, hash: PathHash, is_ideal: bool, seed: u64 },
    Tables { tables: &'a Tables, chooser: Chooser<'a>, choice: VlanChoice },
}

impl<'a> Router<'a> {
    /// # Errors
    /// If some pairs of hosts have no path.
    pub(super) fn new(
        topology: &'a Topology,
        ways: Ways<'a>,
        hash: &PathHashSettings,
        seed: u64,
    ) -> Result<Router<'a>, RunError> {
        match ways {
            Ways::Ecmp => {
                let hops =
                    NextHops::shortest(topology).map_err(|error| RunError::Build(error.to_string()))?;
                let is_ideal = hash.is_ideal();
                let hash = PathHash::new(topology, &hops, hash.clone(), seed);
                Ok(Router::Ecmp { topology, hops: Box::new(hops), hash, is_ideal, seed })
            }
            Ways::Tables { tables, choice, slack, assigned } => {
                let chooser = Chooser::new(topology, tables, slack, choice, seed).with_assigned(assigned);
                Ok(Router::Tables { tables, chooser, choice })
            }
        }
    }

    /// Chooses the path and the VLAN number of flow `flow`.
    fn route(
        &mut self,
        flow: usize,
        ends: &FlowEnds,
        pair: Pair,
        path: &mut Vec<PortId>,
    ) -> Result<Option<u16>, NoVlan> {
        match self {
            Router::Ecmp { topology, hops, hash, is_ideal: false, .. } => {
                let FlowEnds { hosts, flow, forward, kind } = *ends;
                let addresses = FlowAddresses::of_flow(hosts, flow, forward, kind);
                hash.path((topology, hops), [pair.from, pair.to], flow, &addresses, path);
                Ok(None)
            }
            Router::Ecmp { topology, hops, seed, .. } => {
                // Each flow has its own random stream, so other flows never change a flow's draw.
                let mut rng = pauseframe_engine::random_stream(*seed, "flow_level/ecmp", flow as u64);
                hops.ecmp_path(topology, pair.from, pair.to, rng.next_u64(), |node| u64::from(node.0), path);
                Ok(None)
            }
            Router::Tables { tables, chooser, .. } => {
                let (vlan, chosen) = chooser.choose(pair)?;
                path.extend_from_slice(chosen);
                Ok(Some(tables.vlans()[usize::from(vlan)].id))
            }
        }
    }

    fn leave(&mut self, path: &[PortId]) {
        match self {
            Router::Tables { chooser, choice, .. } if *choice != VlanChoice::Random => chooser.leave(path),
            _ => {}
        }
    }
}

/// A flow of a workload, which is one or two fluid flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) spec: FlowSpec,
    pub(super) status: FlowStatus,
    /// End of the flow in seconds; for an unfinished flow, the end of the run.
    pub(super) end: f64,
    pub(super) delivered: f64,
    /// Ideal completion time in seconds, alone in the network; 0 for flows without one.
    pub(super) ideal: f64,
    pub(super) vlan: Option<u16>,
    /// Number of links between switches on the path from source to destination.
    pub(super) hops: u32,
}

/// The index of a fluid flow's record, and whether the fluid flow is the reply.
#[derive(Clone, Copy, Debug)]
struct Part {
    record: u32,
    is_reply: bool,
}

/// All workloads of a scenario; yields their flows in the order of start times.
#[derive(Debug)]
pub(super) struct Workloads<'a> {
    topology: &'a Topology,
    router: Router<'a>,
    /// If some hosts have several ports.
    ports: Option<Ports>,
    sources: Vec<Box<dyn Workload>>,
    /// The name and the kind of sender of each workload.
    names: Vec<String>,
    senders: Vec<Sender>,
    records: Vec<Record>,
    parts: Vec<Part>,
    /// Pending replies: (start, index of the record).
    replies: BinaryHeap<Reverse<(Time, u32)>>,
    failure: Option<NoVlan>,
}

impl<'a> Workloads<'a> {
    pub(super) fn new(
        scenario: &Scenario,
        topology: &'a Topology,
        router: Router<'a>,
        ports: Option<Ports>,
    ) -> Workloads<'a> {
        // Queries have no table at flow level, so their ideal time is never read.
        let ideal_of_query = Arc::new(|_: &[FlowSpec]| Span::ZERO);
        let query_numbers = QueryNumbers::default();
        let context = WorkloadContext {
            scale_up: None,
            // Nothing is gained by an early handshake where none takes time.
            opens_ahead: false,
            overhead: overhead(scenario),
            topology,
            seed: scenario.seed,
            ideal_of_query,
            query_numbers,
            placed: std::collections::BTreeMap::new(),
            queue_pairs: std::iter::once(&scenario.transport)
                .chain(scenario.transports.iter().map(|(_, transport)| transport))
                .map(|transport| transport.rdma().is_some())
                .collect(),
            reaction: Span::ZERO,
        };
        let index_of = |name: &String| {
            let position = scenario.transports.iter().position(|(other, _)| other == name);
            position.map_or(0, |position| position as u16 + 1)
        };
        let specs = scenario.workload.iter().enumerate();
        let workloads =
            specs.map(|(i, spec)| workload::build(spec, i as u16, index_of(&spec.transport), &context));
        Workloads {
            topology,
            router,
            ports,
            sources: workloads.collect(),
            names: scenario.workload.iter().map(|spec| spec.name.clone()).collect(),
            senders: scenario.workload.iter().map(|spec| Sender::of(spec, scenario)).collect(),
            records: Vec::new(),
            parts: Vec::new(),
            replies: BinaryHeap::new(),
            failure: None,
        }
    }

    /// Records of all flows; an unfinished flow has its state at the end of `outcome`.
    ///
    /// # Errors
    /// If a flow has no route.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Result<Vec<Record>, RunError> {
        if let Some(failure) = self.failure {
            return Err(RunError::Input(failure.to_string()));
        }
        for (flow, part) in self.parts.iter().enumerate() {
            let record = &mut self.records[part.record as usize];
            record.delivered += outcome.sizes[flow].0 as f64 - outcome.left[flow] / 8.0;
            if record.status == FlowStatus::Running {
                record.end = outcome.end;
            }
        }
        Ok(self.records)
    }

    /// A warning if datagrams are lost beyond a link that others share: the model sends only what arrives, on all links
    /// of the path, so these others have too much of the links before the loss.
    pub(super) fn warning_of_lost_datagrams(&self, outcome: &Outcome) -> Option<String> {
        if !self.senders.iter().any(|sender| matches!(sender, Sender::Datagrams { .. })) {
            return None;
        }
        // By port: the sources of datagrams, and `None` for connections.
        let mut users: BTreeMap<PortId, BTreeSet<Option<NodeId>>> = BTreeMap::new();
        for (flow, part) in self.parts.iter().enumerate() {
            for port in outcome.paths.of(flow) {
                users.entry(*port).or_default().insert(self.source_of_datagrams(*part));
            }
        }
        let is_shared = |port: &PortId, source| users[port].iter().any(|user| *user != Some(source));
        let mut losing: BTreeSet<u16> = BTreeSet::new();
        for (flow, part) in self.parts.iter().enumerate() {
            let (Some(source), Some((_, before))) =
                (self.source_of_datagrams(*part), outcome.paths.of(flow).split_last())
            else {
                continue;
            };
            let is_shared = before.iter().any(|port| is_shared(port, source));
            if is_shared && self.loses_datagrams(flow, part.record, outcome) {
                losing.insert(self.records[part.record as usize].spec.workload);
            }
        }
        let names: Vec<&str> =
            losing.iter().map(|workload| self.names[usize::from(*workload)].as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "workload {}: datagrams are lost, and at flow level they do not load the links before the loss: flows \
                 that share these links may be slower with packets (pauseframe run)",
                names.join(", ")
            )
        })
    }

    /// By switch and its equal next hops: the flows that take each, without their replies, as in a packet-level run;
    /// empty with forwarding tables.
    pub(super) fn flows_by_next_hop(&self, outcome: &Outcome) -> FlowsByNextHop {
        let mut flows = FlowsByNextHop::new();
        if let Router::Ecmp { topology, hops, .. } = &self.router {
            for (flow, _) in self.parts.iter().enumerate().filter(|(_, part)| !part.is_reply) {
                hops.count_choices(topology, outcome.paths.of(flow), &mut flows);
            }
        }
        flows
    }

    /// The source of datagrams; `None` for a connection.
    fn source_of_datagrams(&self, part: Part) -> Option<NodeId> {
        let spec = self.records[part.record as usize].spec;
        let sender = self.senders[usize::from(spec.workload)];
        matches!(sender, Sender::Datagrams { .. }).then_some(spec.source)
    }

    /// Whether a flow of datagrams delivers less than it sends, apart from rounding.
    fn loses_datagrams(&self, flow: usize, record: u32, outcome: &Outcome) -> bool {
        const ROUNDING: f64 = 1e-6;
        let spec = self.records[record as usize].spec;
        let Sender::Datagrams { rate } = self.senders[usize::from(spec.workload)] else { return false };
        let time = outcome.finish[flow].min(outcome.end) - spec.start.as_secs_f64();
        let sent = (rate.0 as f64 * time / 8.0).min(outcome.sizes[flow].0 as f64);
        let delivered = outcome.sizes[flow].0 as f64 - outcome.left[flow] / 8.0;
        delivered < sent * (1.0 - ROUNDING)
    }

    fn next_workload(&self) -> Option<(Time, usize)> {
        let starts = self.sources.iter().enumerate();
        starts.filter_map(|(index, workload)| Some((workload.next_start_time()?, index))).min()
    }

    /// Transmission time of `bytes` alone on `path`, in seconds.
    fn alone(&self, path: &[PortId], bytes: u64) -> f64 {
        let slowest = path.iter().map(|port| self.topology.channel(*port).rate.0).min();
        slowest.map_or(0.0, |rate| bytes as f64 * 8.0 / rate as f64)
    }

    fn begin(&mut self, part: Part, hosts: Pair, path: &mut Vec<PortId>) {
        let workload = usize::from(self.records[part.record as usize].spec.workload);
        let kind = self.senders[workload].kind();
        let ends =
            FlowEnds { hosts: [hosts.from, hosts.to], flow: part.record, forward: !part.is_reply, kind };
        let spec = self.records[part.record as usize].spec;
        let loads = [true, spec.reply > 0 || spec.kept.is_some()];
        let pair = match &mut self.ports {
            None => hosts,
            Some(ports) if part.is_reply => ports.way_back(part.record).unwrap_or(hosts),
            Some(ports) => ports.open(hosts, part.record, kind, loads)[0],
        };
        match self.router.route(self.parts.len(), &ends, pair, path) {
            Ok(vlan) if !part.is_reply => self.records[part.record as usize].vlan = vlan,
            Ok(_) => {}
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
        self.parts.push(part);
    }

    fn ended_record(&mut self, record: u32, at: f64, status: FlowStatus) {
        let now = time(at);
        let entry = &mut self.records[record as usize];
        (entry.status, entry.end) = (status, at);
        let flow = FlowRecord {
            status,
            delivered: entry.spec.size.saturating_add(entry.spec.reply),
            ..FlowRecord::new(entry.spec, Span::from_secs_f64(entry.ideal), now)
        };
        let workload = &mut self.sources[usize::from(flow.spec.workload)];
        workload.on_flow_finished(&flow, now);
        // The queries are drained, so that they do not accumulate in memory.
        workload.take_completed_queries();
    }
}

impl Source for Workloads<'_> {
    fn next_start(&self) -> Option<Time> {
        if self.failure.is_some() {
            return None;
        }
        let reply = self.replies.peek().map(|Reverse((start, _))| *start);
        let next = self.next_workload().map(|(start, _)| start);
        [reply, next].into_iter().flatten().min()
    }

    fn next_flow(&mut self, path: &mut Vec<PortId>) -> Arrival {
        let next = self.next_workload();
        let reply = self.replies.peek().map(|Reverse((start, _))| *start);
        if let Some(start) = reply.filter(|start| next.is_none_or(|(other, _)| *start <= other)) {
            let record = self.replies.pop().map_or(0, |Reverse((_, record))| record);
            let spec = self.records[record as usize].spec;
            let pair = Pair { from: spec.destination, to: spec.source };
            self.begin(Part { record, is_reply: true }, pair, path);
            self.records[record as usize].ideal += self.alone(path, spec.reply);
            return self.senders[usize::from(spec.workload)].arrival(start, spec.reply, None);
        }
        let workload = next.map_or(0, |(_, workload)| workload);
        let spec = self.sources[workload].next_flow();
        let record = self.records.len() as u32;
        let status = FlowStatus::Running;
        self.records.push(Record { spec, status, end: 0.0, delivered: 0.0, ideal: 0.0, vlan: None, hops: 0 });
        let pair = Pair { from: spec.source, to: spec.destination };
        self.begin(Part { record, is_reply: false }, pair, path);
        let size = spec.size.min(ENDLESS);
        let sender = self.senders[workload];
        // As in a packet-level run, a flow without end and a datagram flow have no ideal time.
        let has_ideal = spec.size != u64::MAX && matches!(sender, Sender::Connection { .. });
        let ideal = if has_ideal { self.alone(path, size) } else { 0.0 };
        let entry = &mut self.records[record as usize];
        (entry.ideal, entry.hops) = (ideal, path.len().saturating_sub(2) as u32);
        sender.arrival(spec.start, size, spec.stop)
    }

    fn ended(&mut self, flow: usize, path: &[PortId], at: f64) {
        self.router.leave(path);
        let Part { record, is_reply } = self.parts[flow];
        let spec = self.records[record as usize].spec;
        if !is_reply && spec.reply > 0 {
            self.replies.push(Reverse((time(at), record)));
        } else {
            self.ports.iter_mut().for_each(|ports| ports.close(record));
            let is_stream = matches!(self.senders[usize::from(spec.workload)], Sender::Datagrams { .. });
            let endless = spec.size == u64::MAX;
            let status = if endless || is_stream { FlowStatus::Stopped } else { FlowStatus::Finished };
            self.ended_record(record, at, status);
        }
    }
}

/// Rounds `seconds` up to the next picosecond.
fn time(seconds: f64) -> Time {
    Time((seconds * 1e12).ceil() as u64)
}

/// Name of a host for the tables; `node` may stand for one of its further ports.
pub(super) fn name(topology: &Topology, node: NodeId) -> String {
    topology.nodes()[topology.host_of(node)].name.clone()
}
