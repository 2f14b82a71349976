//! Partition-aggregate jobs (bolt §IV-A3: Stephens et al., "Practical DCB for improved data center networks",
//! INFOCOM 2014): each host, at Poisson times, requests a response of one size from each of `fan_in` distinct
//! other hosts; the job is complete when the last response has arrived.
//!
//! With a request size, every server gets a request flow whose reply is the response; without one, the responses start
//! with the job. Not modelled: think time at the server, and jobs that give up.

use super::arrivals::Poisson;
use super::context::{Context, SIZE_MAX, SIZES, TIMES, others, stop};
use super::maker::{IdealOfQuery, Maker, OpenLoop, QueryNumbers, Source, at};
use super::queries::Queries;
use super::random;
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, QueryRecord, Workload};
use pauseframe_schema::bounds::{Above, Each};
use pauseframe_schema::table;
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, Span, Time};
use std::collections::VecDeque;
use std::fmt;

table! {
    /// Partition-aggregate (bolt §IV-A3): each host requests responses from `fan_in` random other hosts,
    /// `rate` times per second
    // The defaults of bolt §IV-A3: 200 jobs per second and host, ten servers, 2, 4 or 8 KB.
    pub struct IncastSpec {
        /// Jobs per second and host (Poisson arrivals)
        rate: f64 = or_in(200.0, RATES);
        /// Servers per job, drawn from the other hosts
        fan_in: u32 = or(10) => { others(t, "fan_in", fan_in, context); };
        /// Response sizes; each job draws one size for all its servers
        response: Vec<Bytes> = or_in(vec![Bytes::kb(2), Bytes::kb(4), Bytes::kb(8)], Each(SIZES)) => {
            let message = || "[] has no size".to_owned();
            t.check(!response.is_empty(), "response", message, "name one, as in [\"2 KB\"]");
        };
        /// Size of the request; 0 B: responses start with the job
        request: Bytes = or_in(Bytes::ZERO, Bytes::ZERO..=SIZE_MAX);
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// No new flow starts after this time
        stop: Span = try_by(stop, start, context);
    }
    pub fn try_read(t, context: &Context);
}

/// No host can start more than one job per nanosecond.
pub(crate) const RATES: Above = Above(0.0, 1e9, "");

impl Source for IncastSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(Incast::new(self.clone(), maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn open_loop(&self, topology: &Topology, end: Span) -> Option<OpenLoop> {
        let bytes = self.response.iter().map(|size| size.0 as f64).sum::<f64>() / self.response.len().max(1) as f64;
        let per_second = self.rate * f64::from(self.fan_in);
        let hosts = topology.hosts().count() as f64;
        Some(OpenLoop::poisson(topology, hosts, per_second, bytes, self.start..self.stop, end))
    }
}

struct Incast {
    spec: IncastSpec,
    /// The common settings of the flows.
    template: FlowSpec,
    hosts: Vec<NodeId>,
    arrivals: Poisson,
    servers: Vec<Rng>,
    sizes: Vec<Rng>,
    ideal_of_query: IdealOfQuery,
    /// Flows of the job that began last.
    ready: VecDeque<FlowSpec>,
    next_query: QueryNumbers,
    /// One query per job.
    under_way: Queries<()>,
}

impl Incast {
    fn new(spec: IncastSpec, maker: &Maker) -> Incast {
        let hosts = maker.hosts();
        let count = hosts.len();
        assert!((spec.fan_in as usize) < count, "incast: fan_in {} with {count} hosts", spec.fan_in);
        assert!(spec.fan_in > 0 && !spec.response.is_empty(), "incast: jobs without responses");
        let rates = hosts.iter().map(|_| spec.rate);
        let window = at(spec.start)..at(spec.stop);
        Incast {
            arrivals: Poisson::new(rates, maker.streams("arrivals", count), window),
            servers: maker.streams("servers", count),
            sizes: maker.streams("sizes", count),
            template: maker.flow(hosts[0], hosts[0], spec.request, Time::ZERO),
            ideal_of_query: maker.context.ideal_of_query.clone(),
            spec,
            hosts,
            ready: VecDeque::new(),
            next_query: maker.context.query_numbers.clone(),
            under_way: Queries::new(),
        }
    }

    /// Draws the job that `host` begins at `start`, and queues its flows.
    fn begin(&mut self, host: usize, start: Time) {
        let choices = &self.spec.response;
        let response = choices[self.sizes[host].uniform_below(choices.len() as u64) as usize].0.max(1);
        let fan_in = self.spec.fan_in as usize;
        let others = random::distinct(&mut self.servers[host], fan_in, self.hosts.len() - 1);
        // `other` is an index among all hosts except `host`.
        let servers = others.into_iter().map(|other| self.hosts[other + usize::from(other >= host)]);
        let (aggregator, query) = (self.hosts[host], self.next_query.take());
        let template = FlowSpec { start, query: Some(query), ..self.template };
        let flow = |server| match self.spec.request {
            Bytes(0) => FlowSpec { source: server, destination: aggregator, size: response, ..template },
            Bytes(request) => FlowSpec {
                source: aggregator,
                destination: server,
                size: request,
                reply: response,
                ..template
            },
        };
        self.ready = servers.map(flow).collect();
        let record = QueryRecord {
            query,
            workload: template.workload,
            aggregator,
            fan_in: self.spec.fan_in,
            response,
            start,
            finish: None,
            ideal: (self.ideal_of_query)(self.ready.make_contiguous()),
            timeouts: 0,
        };
        self.under_way.begin(record, self.spec.fan_in, ());
    }
}

impl Workload for Incast {
    fn is_open_loop(&self) -> bool {
        true
    }

    fn next_start_time(&self) -> Option<Time> {
        self.ready.front().map(|flow| flow.start).or_else(|| self.arrivals.next())
    }

    fn next_flow(&mut self) -> FlowSpec {
        if self.ready.is_empty() {
            let (start, host) =
                self.arrivals.take().expect("asked for a flow only while next_start gives a time");
            self.begin(host, start);
        }
        self.ready.pop_front().expect("a job has at least one flow")
    }

    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        self.under_way.end_flow(flow, now);
    }

    fn take_completed_queries(&mut self) -> Vec<QueryRecord> {
        self.under_way.take()
    }

    fn unfinished_queries(&self) -> Vec<QueryRecord> {
        self.under_way.unfinished()
    }
}

impl fmt::Debug for Incast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incast")
            .field("spec", &self.spec)
            .field("next_query", &self.next_query)
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, drain, ended, make, racks};
    use crate::{IncastSpec, WorkloadKind};
    use pauseframe_fabric::{FlowSpec, FlowStatus, Workload};
    use pauseframe_units::{Bytes, Span, Time};
    use std::collections::{BTreeMap, BTreeSet};

    /// The settings of bolt §IV-A3: 200 jobs per second and host, 10 servers, 2, 4 or 8 KB.
    fn incast(hosts: usize, request: u64, ms: u64) -> Box<dyn Workload> {
        let kind = WorkloadKind::Incast(IncastSpec {
            rate: 200.0,
            fan_in: 10,
            response: vec![Bytes::kb(2), Bytes::kb(4), Bytes::kb(8)],
            request: Bytes(request),
            start: Span::from_ms(1),
            stop: Span::from_ms(1 + ms),
        });
        make(kind, &racks(1, hosts))
    }

    fn by_query(flows: &[FlowSpec]) -> BTreeMap<u32, Vec<FlowSpec>> {
        let mut jobs: BTreeMap<u32, Vec<FlowSpec>> = BTreeMap::new();
        for flow in flows {
            jobs.entry(flow.query.unwrap()).or_default().push(*flow);
        }
        jobs
    }

    #[test]
    fn a_job_asks_distinct_others_at_once_for_one_size() {
        let jobs = by_query(&drain(&mut *incast(12, 0, 1000)));
        let expected = 200.0 * 12.0;
        assert_within(jobs.len() as f64, expected, 4.0 * expected.sqrt());
        let mut sizes = BTreeMap::new();
        let mut asked = BTreeMap::new();
        for flows in jobs.values() {
            let servers: BTreeSet<_> = flows.iter().map(|flow| flow.source).collect();
            assert_eq!((flows.len(), servers.len()), (10, 10));
            let alike = |f: &FlowSpec| (f.destination, f.size, f.start, f.reply);
            assert!(flows.iter().all(|flow| alike(flow) == alike(&flows[0])));
            *sizes.entry(flows[0].size).or_insert(0u32) += 1;
            for server in servers {
                *asked.entry(server).or_insert(0u32) += 1;
            }
        }
        let n = jobs.len() as f64;
        for size in [2000, 4000, 8000] {
            assert_within(f64::from(sizes[&size]), n / 3.0, 4.0 * (n * 2.0 / 9.0).sqrt());
        }
        for count in asked.values() {
            // Each of the 12 hosts is a server of 10/12 of the jobs (10 of the 11 other hosts).
            assert_within(f64::from(*count), n * 10.0 / 12.0, 5.0 * (n * 10.0 / 144.0 + n / 12.0).sqrt());
        }
    }

    #[test]
    fn requests_carry_the_response_as_their_reply() {
        let (plain, requests) = (drain(&mut *incast(12, 0, 50)), drain(&mut *incast(12, 1600, 50)));
        assert!(!plain.is_empty() && plain.len() == requests.len());
        for (plain, request) in plain.iter().zip(&requests) {
            // The same draws in the other direction.
            assert_eq!((request.source, request.destination), (plain.destination, plain.source));
            assert_eq!((request.size, request.reply, request.start), (1600, plain.size, plain.start));
        }
    }

    #[test]
    fn a_further_host_moves_no_job_of_the_others() {
        let starts = |hosts| -> BTreeSet<_> {
            let flows = drain(&mut *incast(hosts, 0, 100));
            flows.iter().map(|flow| (flow.destination, flow.start, flow.size)).collect()
        };
        // `racks` gives the switch id 0 and the hosts the ids 1, 2, ...: the first twelve hosts keep their
        // ids.
        let (twelve, thirteen) = (starts(12), starts(13));
        assert!(thirteen.len() > twelve.len());
        assert!(twelve.is_subset(&thirteen));
    }

    #[test]
    fn a_job_ends_with_its_last_flow() {
        let mut workload = incast(12, 0, 1000);
        let flows: Vec<_> = (0..30).map(|_| workload.next_flow()).collect();
        let at = |us| Time::ZERO + Span::from_us(us);
        for (i, flow) in flows[..10].iter().enumerate() {
            assert_eq!(workload.take_completed_queries(), []);
            workload.on_flow_finished(&ended(*flow, FlowStatus::Finished, at(i as u64), 1), at(i as u64));
        }
        let done = workload.take_completed_queries();
        assert_eq!((done.len(), done[0].query, done[0].finish), (1, 0, Some(at(9))));
        assert_eq!((done[0].start, done[0].ideal, done[0].fan_in), (flows[0].start, Span::from_us(10), 10));
        assert_eq!((done[0].aggregator, done[0].response), (flows[0].destination, flows[0].size));
        assert_eq!(workload.take_completed_queries(), []);

        // The second job loses a flow permanently; the third is active when the run ends.
        for flow in &flows[10..20] {
            workload.on_flow_finished(&ended(*flow, FlowStatus::Failed, at(20), 0), at(20));
        }
        assert_eq!(workload.take_completed_queries()[0].finish, None);
        workload.on_flow_finished(&ended(flows[20], FlowStatus::Finished, at(30), 2), at(30));
        let left = workload.unfinished_queries();
        assert_eq!((left.len(), left[0].query, left[0].finish), (1, 2, None));
    }
}
