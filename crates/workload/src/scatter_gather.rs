//! Two-level queries (cee §III-C1: Crisan et al., "Short and fat: TCP performance in CEE datacenter networks", HOTI
//! 2011): a high-level aggregator asks a random host of each rack, its mid-level aggregator. This one asks all other
//! servers of the rack, waits for all (a strict barrier) and answers. The query ends when all racks have answered.
//!
//! Each exchange has one connection. The connection between a mid-level aggregator and a server carries request and
//! response; the mid-level aggregator opens another one for its answer. Not modelled: think time, and answers before
//! all servers have responded.

use super::arrivals::Agenda;
use super::queries::Queries;
use super::random::{exponential, standard_normal};
use super::context::{Context, SIZES, TIME_MAX, TIMES, hosts_or, known_host, refuse_again, stop};
use super::maker::{IdealOfQuery, Maker, QueryNumbers, Source, at};
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, QueryRecord, Workload};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{kinds, table};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

table! {
    /// Queries (cee §III-C1): an aggregator sends requests to one host per rack, which queries all servers of
    /// its rack and then responds
    pub struct ScatterGatherSpec {
        /// Hosts that start queries
        aggregators: Vec<String> = required() => {
            check_aggregators(t, aggregators.as_deref(), context);
            refuse_again(t, "aggregators", aggregators.as_deref());
        };
        /// Hosts that respond; a query asks one host per rack, which asks all others of its rack
        servers: Option<Vec<String>> = by(hosts_or, "all hosts that are not aggregators", context) => {
            check_servers(t, aggregators.as_deref(), servers.as_deref(), context);
            refuse_again(t, "servers", servers.as_deref());
        };
        /// Times between the queries of an aggregator
        gaps: GapsSpec = try_section(gaps);
        // The request and response sizes of Alizadeh et al., "Data center TCP", SIGCOMM 2010, §2.2.
        /// Size of a request, at both levels
        request: Bytes = or_in(Bytes(1600), SIZES);
        /// Size of a response, at both levels
        response: Bytes = or_in(Bytes::kb(20), SIZES);
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// No new flow starts after this time
        stop: Span = try_by(stop, start, context);
    }
    pub fn try_read(t, context: &Context);
}

kinds! {
    /// Times between events
    #[derive(Copy)]
    pub enum GapsSpec {
        "exponential" => Exponential(Exponential);
        "log_normal" => LogNormal(LogNormal);
    }
    pub fn read(t);
}

/// 188,000 queries in ten minutes to 45 servers (Alizadeh et al., "Data center TCP", SIGCOMM 2010, §4.3): one every 144
/// ms at each; cee §III-C1 uses a rate 100 times higher.
const MEAN_GAP: Span = Span::from_us(1436);

table! {
    /// Exponential times between events with this mean: a Poisson process
    #[derive(Copy)]
    pub struct Exponential {
        /// Mean time between two queries of an aggregator
        mean: Span = or_in(MEAN_GAP, Span::from_ns(1)..=TIME_MAX);
    }
    pub fn read(t);
}

table! {
    /// Times between events with this mean; `sigma` is the standard deviation of their logarithm
    // Long pauses and clusters: the coefficient of variation is sqrt(exp(sigma^2) - 1).
    #[derive(Copy)]
    pub struct LogNormal {
        /// Mean time between two queries of an aggregator
        mean: Span = or_in(MEAN_GAP, Span::from_ns(1)..=TIME_MAX);
        /// Standard deviation of the logarithm of the times between events
        sigma: f64 = or_in(1.5, 0.0..=4.0);
    }
    pub fn read(t);
}

fn gaps(t: &mut Table) -> Option<GapsSpec> {
    let default = Some(("exponential", Origin::Default, "exponential"));
    GapsSpec::read(t, "kind", default, "Distribution of the time between two queries of an aggregator")
}

fn check_aggregators(t: &mut Table, aggregators: Option<&[String]>, context: &Context) {
    for name in aggregators.into_iter().flatten() {
        known_host(t, "aggregators", name, context);
    }
    let some = aggregators.is_none_or(|names| !names.is_empty());
    t.check(some, "aggregators", || "[] names no host".to_owned(), "name one");
}

fn check_servers(
    t: &mut Table,
    aggregators: Option<&[String]>,
    servers: Option<&[String]>,
    context: &Context,
) {
    let is_aggregator = |name: &&String| aggregators.is_some_and(|names| names.contains(*name));
    let both = servers.into_iter().flatten().find(is_aggregator);
    let message = || format!("{:?} is an aggregator too", both.map_or("", String::as_str));
    t.check(both.is_none(), "servers", message, "leave it out of one of them");
    let none_left = servers.is_none()
        && context.hosts.zip(aggregators).is_some_and(|(hosts, names)| hosts.count() <= names.len());
    t.check(!none_left, "aggregators", || "no host is left to answer".to_owned(), "enlarge the topology");
}

impl Source for ScatterGatherSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(ScatterGather::new(self, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }
}

/// The servers below one switch.
type Rack = Vec<NodeId>;

/// For each rack: its mid-level aggregator, and the number of responses that it waits for.
type Waits = Vec<(NodeId, usize)>;

pub(crate) struct ScatterGather {
    gaps: GapsSpec,
    request: u64,
    response: u64,
    aggregators: Vec<NodeId>,
    racks: Vec<Rack>,
    /// The common settings of the flows.
    template: FlowSpec,
    agenda: Agenda,
    /// One per aggregator.
    gap_streams: Vec<Rng>,
    server_streams: Vec<Rng>,
    ideal_of_query: IdealOfQuery,
    /// Flows that are due.
    ready: VecDeque<FlowSpec>,
    next_query: QueryNumbers,
    under_way: Queries<Waits>,
}

impl ScatterGather {
    fn new(spec: &ScatterGatherSpec, maker: &Maker) -> ScatterGather {
        let aggregators = maker.named(Some(&spec.aggregators));
        let mut servers = maker.named(spec.servers.as_deref());
        servers.retain(|host| !aggregators.contains(host));
        let racks = by_rack(maker.context.topology, &servers);
        assert!(!racks.is_empty(), "scatter_gather: nobody answers");
        let mut workload = ScatterGather {
            gaps: spec.gaps,
            request: spec.request.0,
            response: spec.response.0,
            template: maker.flow(aggregators[0], racks[0][0], spec.request, Time::ZERO),
            agenda: Agenda::until(at(spec.stop)),
            gap_streams: maker.streams("gaps", aggregators.len()),
            server_streams: maker.streams("servers", aggregators.len()),
            ideal_of_query: maker.context.ideal_of_query.clone(),
            aggregators,
            racks,
            ready: VecDeque::new(),
            next_query: maker.context.query_numbers.clone(),
            under_way: Queries::new(),
        };
        for aggregator in 0..workload.aggregators.len() {
            workload.enter_next(at(spec.start), aggregator);
        }
        workload
    }

    fn enter_next(&mut self, after: Time, aggregator: usize) {
        let gap = gap(self.gaps, &mut self.gap_streams[aggregator]);
        self.agenda.enter(after.saturating_add(gap), aggregator);
    }

    /// Draws the mid-level aggregators of a query that begins at `start`, and queues the requests to them.
    fn begin(&mut self, aggregator: usize, start: Time) {
        let (source, query, rng) =
            (self.aggregators[aggregator], self.next_query.take(), &mut self.server_streams[aggregator]);
        let waits: Waits = self
            .racks
            .iter()
            .map(|rack| (rack[rng.uniform_below(rack.len() as u64) as usize], rack.len() - 1))
            .collect();
        let servers: usize = waits.iter().map(|(_, others)| others).sum();
        let record = QueryRecord {
            query,
            workload: self.template.workload,
            aggregator: source,
            fan_in: servers as u32,
            response: self.response,
            start,
            finish: None,
            ideal: self.ideal(source, &waits, start),
            timeouts: 0,
        };
        let template = FlowSpec { source, start, query: Some(query), ..self.template };
        self.ready.extend(waits.iter().map(|(mid, _)| FlowSpec { destination: *mid, ..template }));
        self.under_way.begin(record, waits.len() as u32, waits);
    }

    /// The slowest rack in the idle network: its stages in sequence.
    fn ideal(&self, source: NodeId, waits: &[(NodeId, usize)], start: Time) -> Span {
        let rack_alone = |rack: &Rack, mid: NodeId| {
            let template = FlowSpec { source, start, ..self.template };
            let asked = (self.ideal_of_query)(&[FlowSpec { destination: mid, ..template }]);
            let requests: Vec<FlowSpec> = self.requests(rack, mid, &template).collect();
            let gathered = if requests.is_empty() { Span::ZERO } else { (self.ideal_of_query)(&requests) };
            let answered = (self.ideal_of_query)(&[self.answer(mid, source, &template)]);
            asked.saturating_add(gathered).saturating_add(answered)
        };
        self.racks.iter().zip(waits).map(|(rack, (mid, _))| rack_alone(rack, *mid)).max().unwrap_or_default()
    }

    /// The requests of the mid-level aggregator to the other servers of its rack.
    fn requests<'a>(
        &'a self,
        rack: &'a Rack,
        mid: NodeId,
        template: &FlowSpec,
    ) -> impl Iterator<Item = FlowSpec> + use<'a> {
        let template = FlowSpec { source: mid, size: self.request, reply: self.response, ..*template };
        rack.iter()
            .filter(move |server| **server != mid)
            .map(move |server| FlowSpec { destination: *server, ..template })
    }

    fn answer(&self, mid: NodeId, aggregator: NodeId, template: &FlowSpec) -> FlowSpec {
        FlowSpec { source: mid, destination: aggregator, size: self.response, reply: 0, ..*template }
    }

    /// The successors of a finished flow: the requests within the rack, or the answer.
    fn follow(&mut self, flow: &FlowSpec, query: u32, now: Time) {
        let Some((record, waits)) = self.under_way.get_mut(query) else { return };
        let aggregator = record.aggregator;
        if flow.destination == aggregator {
            return; // an answer: nothing follows
        }
        let mid = if flow.source == aggregator { flow.destination } else { flow.source };
        let rack = waits.iter().position(|(host, _)| *host == mid);
        let rack = rack.expect("a flow of a query leads to or from the aggregator of a rack");
        let template = FlowSpec { start: now, query: Some(query), ..self.template };
        let waits = &mut waits[rack].1;
        let next: Vec<FlowSpec> = if flow.source == aggregator && *waits > 0 {
            self.requests(&self.racks[rack], mid, &template).collect()
        } else {
            *waits = waits.saturating_sub(1);
            if *waits > 0 {
                return;
            }
            vec![self.answer(mid, aggregator, &template)]
        };
        self.under_way.add_flows(query, next.len() as u32);
        self.ready.extend(next);
    }
}

/// Groups `servers` by the switch of their first link, in the order of the switches.
fn by_rack(topology: &Topology, servers: &[NodeId]) -> Vec<Rack> {
    let mut racks: BTreeMap<NodeId, Rack> = BTreeMap::new();
    for server in servers {
        if let Some(port) = topology.nodes()[*server].ports.first() {
            racks.entry(topology.peer(*port)).or_default().push(*server);
        }
    }
    racks.into_values().collect()
}

fn gap(law: GapsSpec, rng: &mut Rng) -> Span {
    let (mean, factor) = match law {
        GapsSpec::Exponential(Exponential { mean }) => (mean, exponential(rng)),
        GapsSpec::LogNormal(LogNormal { mean, sigma }) => {
            (mean, libm::exp(sigma * standard_normal(rng) - sigma * sigma / 2.0))
        }
    };
    Span::from_secs_f64(mean.0 as f64 * 1e-12 * factor)
}

impl Workload for ScatterGather {
    fn next_start_time(&self) -> Option<Time> {
        self.ready.front().map(|flow| flow.start).or_else(|| self.agenda.next())
    }

    fn next_flow(&mut self) -> FlowSpec {
        if self.ready.is_empty() {
            let (start, aggregator) =
                self.agenda.take().expect("asked for a flow only while next_start gives a time");
            self.begin(aggregator, start);
            self.enter_next(start, aggregator);
        }
        self.ready.pop_front().expect("a query has at least one flow")
    }

    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        let query = flow.spec.query.expect("every flow of this workload is a part of a query");
        if flow.status == FlowStatus::Finished {
            self.follow(&flow.spec, query, now);
        }
        self.under_way.end_flow(flow, now);
    }

    fn take_completed_queries(&mut self) -> Vec<QueryRecord> {
        self.under_way.take()
    }

    fn unfinished_queries(&self) -> Vec<QueryRecord> {
        self.under_way.unfinished()
    }
}

impl fmt::Debug for ScatterGather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScatterGather")
            .field("racks", &self.racks)
            .field("next_query", &self.next_query)
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, ended, make, racks};
    use super::*;
    use crate::WorkloadKind;
    use pauseframe_units::Bytes;
    use std::collections::BTreeSet;

    /// Three racks of four hosts: "h0" starts queries, the other eleven hosts respond.
    fn workload(gaps: GapsSpec, ms: u64) -> (Topology, Box<dyn Workload>) {
        let topology = racks(3, 4);
        let spec = ScatterGatherSpec {
            aggregators: vec!["h0".into()],
            servers: None,
            gaps,
            request: Bytes(1600),
            response: Bytes::kb(20),
            start: Span::from_ms(1),
            stop: Span::from_ms(1 + ms),
        };
        let made = make(WorkloadKind::ScatterGather(spec), &topology);
        (topology, made)
    }

    fn exponential_ms() -> GapsSpec {
        GapsSpec::Exponential(Exponential { mean: Span::from_ms(1) })
    }

    fn rack_of(topology: &Topology, host: NodeId) -> NodeId {
        topology.peer(topology.nodes()[host].ports[0])
    }

    /// Takes due flows without starting the next query.
    fn due(workload: &mut dyn Workload, now: Time) -> Vec<FlowSpec> {
        let mut flows = Vec::new();
        while workload.next_start_time() == Some(now) {
            flows.push(workload.next_flow());
        }
        flows
    }

    #[test]
    fn a_query_goes_down_and_up_again_with_a_barrier_in_each_rack() {
        let (topology, mut workload) = workload(exponential_ms(), 100);
        let hla = topology.find("h0").unwrap();
        let start = workload.next_start_time().unwrap();
        let asked = due(&mut *workload, start);
        let asked_racks: BTreeSet<_> = asked.iter().map(|f| rack_of(&topology, f.destination)).collect();
        assert_eq!((asked.len(), asked_racks.len()), (3, 3), "one in each rack");
        assert!(asked.iter().all(|f| (f.source, f.size, f.reply) == (hla, 1600, 0)));
        let mut now = start;
        let mut answers = Vec::new();
        for (rack, request) in asked.into_iter().enumerate() {
            now += Span::from_us(50);
            let (mid, others) = (request.destination, if rack == 0 { 2 } else { 3 });
            workload.on_flow_finished(&ended(request, FlowStatus::Finished, now, 0), now);
            let requests = due(&mut *workload, now);
            assert_eq!(
                requests.len(),
                others,
                "all other servers of the rack, not the aggregator of queries"
            );
            assert!(requests.iter().all(|f| (f.source, f.size, f.reply) == (mid, 1600, 20_000)));
            let to: BTreeSet<_> = requests.iter().map(|f| f.destination).collect();
            assert!(to.len() == others && !to.contains(&mid) && !to.contains(&hla));
            for (i, request) in requests.into_iter().enumerate() {
                now += Span::from_us(10);
                workload.on_flow_finished(&ended(request, FlowStatus::Finished, now, 1), now);
                let next = due(&mut *workload, now);
                assert_eq!(next.len(), usize::from(i + 1 == others), "the answer waits for all");
                answers.extend(next);
            }
        }
        assert!(answers.iter().all(|f| (f.destination, f.size, f.reply) == (hla, 20_000, 0)));
        assert!(workload.take_completed_queries().is_empty());
        assert_eq!(workload.unfinished_queries().len(), 1);
        for answer in answers {
            now += Span::from_us(5);
            workload.on_flow_finished(&ended(answer, FlowStatus::Finished, now, 0), now);
        }
        let done = workload.take_completed_queries();
        assert_eq!(done.len(), 1);
        assert_eq!((done[0].start, done[0].finish, done[0].fan_in), (start, Some(now), 8));
        assert_eq!((done[0].aggregator, done[0].response), (hla, 20_000));
        // In this test each flow takes 1 us: request, three servers, answer.
        assert_eq!(done[0].ideal, Span::from_us(5));
    }

    #[test]
    fn a_query_with_a_flow_that_failed_does_not_finish() {
        let (_, mut workload) = workload(exponential_ms(), 100);
        let start = workload.next_start_time().unwrap();
        for request in due(&mut *workload, start) {
            workload.on_flow_finished(&ended(request, FlowStatus::Failed, start, 2), start);
        }
        let done = workload.take_completed_queries();
        assert_eq!((done.len(), done[0].finish), (1, None));
        assert!(workload.next_start_time().is_some_and(|next| next > start));
    }

    #[test]
    fn gaps_have_their_mean_and_spread() {
        let sigma = 0.8f64;
        let spread = (sigma * sigma).exp_m1().sqrt();
        let log_normal = GapsSpec::LogNormal(LogNormal { mean: Span::from_ms(1), sigma });
        for (gaps, variation) in [(exponential_ms(), 1.0), (log_normal, spread)] {
            let (_, mut workload) = workload(gaps, 20_000);
            let starts: BTreeSet<Time> =
                std::iter::from_fn(|| workload.next_start_time().map(|_| workload.next_flow().start)).collect();
            // The number of events of a renewal process in time t: t / mean, with standard deviation variation * sqrt(t
            // / mean).
            assert_within(starts.len() as f64, 20_000.0, 4.0 * variation * 20_000f64.sqrt());
        }
    }
}
