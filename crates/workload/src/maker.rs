//! The interface of workloads and their network, and the trait that each kind implements.

use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowSpec, FrameOverhead, ScaleUpSettings, Workload};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, PortId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The trait of a kind of workload.
pub trait Source: Debug {
    /// Makes the workload.
    fn build(&self, maker: &Maker) -> Box<dyn Workload>;

    /// The starts of flows that are known in advance, or the earliest possible start.
    fn starts(&self) -> Vec<Span>;

    /// Flows that begin if the run is long enough and none fails, of those with a start before `end`; `None`: no number
    /// is planned.
    fn planned_flows(&self, _topology: &Topology, _end: Option<Span>) -> Option<u64> {
        None
    }

    /// Estimate of the number of concurrent flows among `hosts` hosts; it sizes the recording of their state.
    fn at_once(&self, hosts: u64) -> u64 {
        hosts
    }

    /// Estimate of the flows of an open loop that start before `end`; `None` if [`Source::at_once`] gives the number.
    fn open_loop(&self, _topology: &Topology, _end: Span) -> Option<OpenLoop> {
        None
    }
}

/// Flows that start independently of the end of others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OpenLoop {
    /// Expected number.
    pub flows: f64,
    /// Mean time that the bytes of a flow take at the link rate of a host, seconds.
    pub serialisation: f64,
    /// Offered load relative to the link of a host.
    pub load: f64,
    /// Flows that are open at the end, because they offer more than the links carry.
    pub backlog: f64,
}

/// Bytes on the wire of the shortest frame, which every flow sends.
const SHORTEST_FRAME: f64 = 84.0;

impl OpenLoop {
    /// `per_second` flows of `bytes` for each of `hosts` hosts, during `window` and the run.
    pub(crate) fn poisson(
        topology: &Topology,
        hosts: f64,
        per_second: f64,
        bytes: f64,
        window: Range<Span>,
        end: Span,
    ) -> OpenLoop {
        let seconds = (window.end.min(end).as_secs_f64() - window.start.as_secs_f64()).max(0.0);
        let serialisation = bytes * 8.0 / mean_host_rate(topology);
        let (flows, load) = (hosts * per_second * seconds, per_second * serialisation);
        let on_wire = load + per_second * SHORTEST_FRAME * 8.0 / mean_host_rate(topology);
        OpenLoop { flows, serialisation, load, backlog: flows * (1.0 - 1.0 / on_wire).max(0.0) }
    }
}

/// Mean rate of the hosts, of all their ports together, in bit/s.
pub(crate) fn mean_host_rate(topology: &Topology) -> f64 {
    sending_rates(topology).values().sum::<f64>() / topology.hosts().count().max(1) as f64
}

/// By host: bits per second that it can send, by all its ports together.
pub(crate) fn sending_rates(topology: &Topology) -> BTreeMap<NodeId, f64> {
    rates(topology, |port| port)
}

/// By host: bits per second that it can receive, by all its ports together.
pub(crate) fn receiving_rates(topology: &Topology) -> BTreeMap<NodeId, f64> {
    rates(topology, PortId::reverse)
}

fn rates(topology: &Topology, direction: impl Fn(PortId) -> PortId) -> BTreeMap<NodeId, f64> {
    let mut rates = BTreeMap::new();
    for node in topology.host_ports() {
        let ports = topology.nodes()[node].ports.iter();
        let rate = ports.map(|port| topology.channel(direction(*port)).rate.0 as f64).sum::<f64>();
        *rates.entry(topology.host_of(node)).or_insert(0.0) += rate;
    }
    rates
}

/// The completion time of a query with these flows in an idle network ([`pauseframe_fabric::QueryRecord`]).
pub type IdealOfQuery = Arc<dyn Fn(&[FlowSpec]) -> Span + Send + Sync>;

/// What a workload may read of the rest of the scenario.
pub struct WorkloadContext<'a> {
    /// The graph: hosts, their racks and link rates.
    pub topology: &'a Topology,
    /// The master seed.
    pub seed: u64,
    /// For each application, by position of the workload, the hosts of its ranks.
    pub placed: BTreeMap<usize, Vec<NodeId>>,
    /// Called once per partition-aggregate job.
    pub ideal_of_query: IdealOfQuery,
    /// The source of query numbers for all workloads of a run.
    pub query_numbers: QueryNumbers,
    /// What frames add to packets.
    pub overhead: FrameOverhead,
    /// Links between the hosts of a server.
    pub scale_up: Option<Arc<ScaleUpSettings>>,
    /// By transport: whether its flows go on queue pairs.
    pub queue_pairs: Vec<bool>,
    /// Whether persistent connections can be opened before their first request.
    pub opens_ahead: bool,
    /// Time from a completion until an application can react.
    pub reaction: Span,
}

impl WorkloadContext<'_> {
    /// Whether the flows of a transport go on queue pairs.
    pub(crate) fn is_queue_pair(&self, transport: u16) -> bool {
        self.queue_pairs.get(usize::from(transport)).is_some_and(|is_queue_pair| *is_queue_pair)
    }
}

/// Numbers queries in the order of their start, over all workloads of a run.
#[derive(Clone, Debug, Default)]
pub struct QueryNumbers(Arc<AtomicU32>);

impl QueryNumbers {
    /// The next number.
    pub fn take(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A workload without flows.
pub fn nothing() -> Box<dyn Workload> {
    Box::new(Listed::new(Vec::new()))
}

/// Common arguments of the constructors: the workload and its network.
#[derive(Clone, Copy)]
pub struct Maker<'a> {
    /// The network and the seed of the run.
    pub context: &'a WorkloadContext<'a>,
    /// Name of the workload.
    pub name: &'a str,
    /// Position of the workload in the scenario.
    pub workload: u16,
    /// Position of its transport in the network.
    pub transport: u16,
}

impl Maker<'_> {
    /// Makes a one-way flow of this workload.
    pub fn flow(&self, source: NodeId, destination: NodeId, size: Bytes, start: Time) -> FlowSpec {
        let Maker { transport, workload, .. } = *self;
        FlowSpec { start, transport, workload, ..FlowSpec::new(source, destination, size.0) }
    }

    /// All hosts of the topology.
    pub fn hosts(&self) -> Vec<NodeId> {
        self.context.topology.hosts().collect()
    }

    /// The hosts of these names, ascending and unique; all for `None`.
    pub fn named(&self, names: Option<&[String]>) -> Vec<NodeId> {
        let Some(names) = names else { return self.hosts() };
        let find = |name: &String| self.context.topology.find(name).expect("resolve knows its hosts");
        names.iter().map(find).collect::<BTreeSet<NodeId>>().into_iter().collect()
    }

    /// The random stream for one purpose of one host (by its index among the hosts).
    pub fn stream(&self, purpose: &str, host: usize) -> Rng {
        pauseframe_engine::random_stream(self.context.seed, &format!("{}/{purpose}", self.name), host as u64)
    }

    /// One stream per host.
    pub fn streams(&self, purpose: &str, hosts: usize) -> Vec<Rng> {
        (0..hosts).map(|host| self.stream(purpose, host)).collect()
    }
}

/// The time `since_start` into the run.
pub fn at(since_start: Span) -> Time {
    Time::ZERO + since_start
}

/// Flows that are all known before the run.
#[derive(Debug)]
pub struct Listed {
    flows: std::vec::IntoIter<FlowSpec>,
}

impl Listed {
    /// Sorts flows by start; simultaneous flows keep their order.
    pub fn new(mut flows: Vec<FlowSpec>) -> Listed {
        flows.sort_by_key(|flow| flow.start);
        Listed { flows: flows.into_iter() }
    }
}

impl Workload for Listed {
    fn is_open_loop(&self) -> bool {
        true
    }

    fn next_start_time(&self) -> Option<Time> {
        self.flows.as_slice().first().map(|flow| flow.start)
    }

    fn next_flow(&mut self) -> FlowSpec {
        self.flows.next().expect("asked for a flow only while next_start gives a time")
    }
}
