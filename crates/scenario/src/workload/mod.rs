//! Workloads: what makes flows. One file for each story; all are pulled lazily, in the order of starts.
//!
//! Every draw comes from a stream named after the workload, the purpose and the host ("incast/arrivals", 5),
//! so that another workload, another transport or a further host shifts no other draw: variants of a
//! scenario that share a seed see the same traffic (common random numbers).

pub(crate) mod application;
mod arrivals;
mod background;
pub(crate) mod cdf;
mod distributions;
pub(crate) mod flow_dag;
pub(crate) mod flow_list;
mod hotspot;
mod incast;
mod long_flows;
mod n_to_one;
mod permutation;
mod queries;
mod random;
mod requests;
mod scatter_gather;
mod sizes;
#[cfg(test)]
mod test_support;
mod udp;

pub use cdf::{builtin, builtin_names, read_cdf};
pub(crate) use flow_list::read_flow_list;

use crate::spec::{WorkloadKind, WorkloadSpec};
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowSpec, Workload};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The completion time of a query with these flows in the idle network ([`pauseframe_fabric::QueryRecord`]).
pub type IdealOfQuery = Arc<dyn Fn(&[FlowSpec]) -> Span + Send + Sync>;

/// What a workload may know of the rest of the scenario.
pub struct WorkloadContext<'a> {
    /// The graph: hosts, their racks and link rates.
    pub topology: &'a Topology,
    /// The master seed.
    pub seed: u64,
    /// The hosts of each application's ranks, by position of the workload.
    pub placed: BTreeMap<usize, Vec<NodeId>>,
    /// Asked once for every partition-aggregate job.
    pub ideal_of_query: IdealOfQuery,
    /// Where all workloads of a run take the numbers of their queries from.
    pub query_numbers: QueryNumbers,
}

/// Numbers queries in the order in which they begin, over all workloads of a run.
#[derive(Clone, Debug, Default)]
pub struct QueryNumbers(Arc<AtomicU32>);

impl QueryNumbers {
    /// The next number.
    fn take(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Makes the workload that `spec` describes. `index` is its position in the scenario, `transport` that of
/// its transport in the network; both are copied into every [`FlowSpec`].
///
/// # Panics
/// If `spec` names a host that the topology has not, or needs more hosts than there are: `resolve` refuses
/// such scenarios.
pub fn build(
    spec: &WorkloadSpec,
    index: u16,
    transport: u16,
    context: &WorkloadContext,
) -> Box<dyn Workload> {
    let maker = Maker { context, name: &spec.name, workload: index, transport };
    match &spec.kind {
        WorkloadKind::Flows { flows } => flow_list::build(flows, &maker),
        WorkloadKind::Permutation { size, start } => Box::new(permutation::build(*size, *start, &maker)),
        WorkloadKind::NToOne { senders, receiver, size, start, spread } => {
            Box::new(n_to_one::build(*senders, receiver, *size, *start..*start + *spread, &maker))
        }
        WorkloadKind::LongFlows { flows } => Box::new(long_flows::build(flows, &maker)),
        WorkloadKind::Incast { rate, fan_in, response, request, start, stop } => {
            let jobs = incast::Jobs { fan_in: *fan_in, response: response.clone(), request: *request };
            Box::new(incast::Incast::new(jobs, *rate, at(*start)..at(*stop), &maker))
        }
        WorkloadKind::Requests {
            client,
            servers,
            request,
            response,
            count,
            pause,
            persistent,
            start,
            connect_ahead,
            spacing,
            reply_delay,
        } => {
            let exchange = requests::Exchange {
                request: *request,
                response: *response,
                pause: *pause,
                reply_delay: *reply_delay,
                spacing: *spacing,
            };
            let series = requests::Series {
                exchange,
                count: *count,
                persistent: *persistent,
                connect_ahead: *connect_ahead,
            };
            Box::new(requests::Requests::new(series, client, servers, at(*start), &maker))
        }
        WorkloadKind::Background { sizes, arrivals, intra_rack, hosts, start, stop } => {
            let window = at(*start)..at(*stop);
            let among = background::Among { hosts: maker.named(hosts.as_deref()), intra_rack: *intra_rack };
            Box::new(background::Background::new(sizes.clone(), *arrivals, among, window, &maker))
        }
        WorkloadKind::ScatterGather(spec) => Box::new(scatter_gather::ScatterGather::new(spec, &maker)),
        WorkloadKind::Hotspot(spec) => Box::new(hotspot::Hotspot::new(spec, &maker)),
        WorkloadKind::Udp(spec) => Box::new(udp::Udp::new(spec, &maker)),
        WorkloadKind::Application(spec) => {
            let hosts =
                context.placed.get(&usize::from(index)).cloned().expect("all applications are placed");
            Box::new(application::ApplicationWorkload::new(spec, hosts, &maker))
        }
    }
}

/// A workload that never has a flow.
pub(crate) fn nothing() -> Box<dyn Workload> {
    Box::new(Listed::new(Vec::new()))
}

/// What the constructors of this folder share: who is asking, and in which network.
struct Maker<'a> {
    context: &'a WorkloadContext<'a>,
    name: &'a str,
    workload: u16,
    transport: u16,
}

impl Maker<'_> {
    /// A one-way flow of this workload.
    fn flow(&self, source: NodeId, destination: NodeId, size: Bytes, start: Time) -> FlowSpec {
        FlowSpec {
            source,
            destination,
            size: size.0,
            reply: 0,
            start,
            stop: None,
            transport: self.transport,
            workload: self.workload,
            query: None,
            kept: None,
            reply_delay: Span::ZERO,
        }
    }

    fn hosts(&self) -> Vec<NodeId> {
        self.context.topology.hosts().collect()
    }

    /// The hosts of these names, ascending, each once; all for `None`.
    fn named(&self, names: Option<&[String]>) -> Vec<NodeId> {
        let Some(names) = names else { return self.hosts() };
        let find = |name: &String| self.context.topology.find(name).expect("resolve knows its hosts");
        names.iter().map(find).collect::<BTreeSet<NodeId>>().into_iter().collect()
    }

    /// The stream for one purpose of one host (by its position among the hosts).
    fn stream(&self, purpose: &str, host: usize) -> Rng {
        pauseframe_engine::stream(self.context.seed, &format!("{}/{purpose}", self.name), host as u64)
    }

    /// One stream a host.
    fn streams(&self, purpose: &str, hosts: usize) -> Vec<Rng> {
        (0..hosts).map(|host| self.stream(purpose, host)).collect()
    }
}

/// The moment `since_start` into the run.
fn at(since_start: Span) -> Time {
    Time::ZERO + since_start
}

/// Flows that are known in full before the run.
#[derive(Debug)]
struct Listed {
    flows: std::vec::IntoIter<FlowSpec>,
}

impl Listed {
    /// Sorts by start; flows that start together keep their order.
    fn new(mut flows: Vec<FlowSpec>) -> Listed {
        flows.sort_by_key(|flow| flow.start);
        Listed { flows: flows.into_iter() }
    }
}

impl Workload for Listed {
    fn next_start(&self) -> Option<Time> {
        self.flows.as_slice().first().map(|flow| flow.start)
    }

    fn next_flow(&mut self) -> FlowSpec {
        self.flows.next().expect("asked for a flow only while next_start gives a time")
    }
}
