//! Inference with prefill and decode on different GPUs: the KV cache of each prompt goes from those that computed it to
//! those that decode.
//!
//! An instance is `tp` GPUs, each a host. A request takes the prefill instance that is free first, and waits for it; its decode
//! instance is drawn, since instances in turns would pair with those of prefill in step. GPU k of the one sends its share to GPU k of the other, on a connection that they keep: a WRITE on
//! queue pairs; over TCP the receiver answers. The times of prefill depend on nothing in the network. Not modelled: decoding,
//! batches of several prompts, and memory that is full.

use super::context::{Context, SIZE_MAX, SIZES, TIME_MAX, TIMES, known_host, stop, two_hosts};
use super::kv_trace::RequestTrace;
use super::arrivals::Poisson;
use super::background::SIZES_DOC;
use super::hosts::Hosts;
use super::incast::RATES;
use super::maker::{IdealOfQuery, Maker, OpenLoop, QueryNumbers, Source, at, mean_host_rate, sending_rates};
use super::queries::Queries;
use super::sizes::SizesSpec;
use super::storage::ANSWER;
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, KeptConnection, QueryRecord, StorageOperation, Workload};
use pauseframe_schema::bounds::Above;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{kinds, table};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::fmt;

/// 2 (keys and values) · 80 layers · 8 heads · 128 values · 2 bytes.
const LLAMA_3_70B: Bytes = Bytes(327_680);

table! {
    /// KV caches of prompts, sent from the GPUs of prefill to those of decode; each request is a query
    pub struct KvTransferSpec {
        /// GPUs of the prefill instances, each a host; tp in a row form an instance
        prefill: Option<Vec<String>> = by(gpus, "the first half of the hosts, or those that are not in decode", context);
        /// GPUs of the decode instances
        decode: Option<Vec<String>> = by(gpus, "all hosts that are not in prefill", context) => {
            two_hosts(t, context);
            let (first, second) = (prefill.as_deref().unwrap_or_default(), decode.as_deref().unwrap_or_default());
            let both = second.iter().find(|name| first.contains(name));
            let message = || format!("{:?} is in prefill too", both.map_or("", String::as_str));
            t.check(both.is_none(), "decode", message, "leave it out of one of them");
        };
        /// GPUs of an instance, which share a cache evenly
        tp: u32 = or_in(1, 1..=1024) => {
            check_instances(t, tp, [prefill.as_deref(), decode.as_deref()], context);
        };
        /// The requests
        requests: RequestsOfKv = try_section(|t| {
            RequestsOfKv::read(t, "kind", None, "Where requests come from", context)
        });
        /// Bytes of the cache of a token, in all layers
        #[source = "Llama 3 70B: 2 · 80 layers · 8 heads · 128 · 2 B"]
        bytes_per_token: Bytes = or_in(LLAMA_3_70B, SIZES) => {
            let tokens = requests.as_ref().map_or(0, RequestsOfKv::most_tokens);
            let message = || format!("a prompt of {tokens} tokens would have more than {SIZE_MAX}");
            t.check(tokens.saturating_mul(bytes_per_token.0) <= SIZE_MAX.0, "bytes_per_token", message, "lower it");
        };
        /// Tokens that a prefill instance computes in a second
        prefill_rate: Option<f64> = optional_in(Above(0.0, 1e12, ""), "none: prefill takes no time") => {
            let has_bytes = matches!(requests, Some(RequestsOfKv::PoissonRequests(_)));
            let is_idle = has_bytes && prefill_rate.is_none() && bytes_per_token != LLAMA_3_70B;
            t.warn_if_idle("bytes_per_token", is_idle, "requests have sizes in bytes, and without prefill_rate no time per token");
        };
        /// Equal parts of a cache, each sent when its share of the prefill is done: 1, or the layers of the model
        layers: u32 = or_in(1, 1..=1024) => {
            if layers > 1 && prefill_rate.is_none() {
                t.ledger.warn(format!("{}: without prefill_rate all parts are sent at once", t.at("layers")));
            }
        };
    }
    pub fn try_read(t, context: &Context);
}

kinds! {
    /// Where requests come from
    pub enum RequestsOfKv {
        "poisson" => PoissonRequests(PoissonRequests);
        "trace" => RequestTrace(RequestTrace);
    }
    pub fn read(t, context: &Context);
}

impl RequestsOfKv {
    /// Tokens of the longest prompt of a trace.
    fn most_tokens(&self) -> u64 {
        let RequestsOfKv::RequestTrace(trace) = self else { return 0 };
        trace.requests.iter().map(|request| request.tokens).max().unwrap_or(0)
    }
}

table! {
    /// Requests at random times
    pub struct PoissonRequests {
        /// Mean number of requests in a second, for all instances together
        per_second: f64 = required_in(RATES);
        /// Distribution of the bytes of a cache
        sizes: SizesSpec = try_section(|t| SizesSpec::read(t, "kind", None, SIZES_DOC, context));
        /// No request arrives before this time
        start: Span = or_in(Span::ZERO, TIMES);
        /// No request arrives after this time
        stop: Span = try_by(stop, start, context);
    }
    pub fn try_read(t, context: &Context);
}

fn gpus(t: &mut Table, key: &'static str, doc: &str, rule: &str, context: &Context) -> Option<Vec<String>> {
    let names: Option<Vec<String>> = t.optional(key, rule, doc);
    for (index, name) in names.iter().flatten().enumerate() {
        known_host(t, &format!("{key}.{index}"), name, context);
    }
    if let Some(names) = &names {
        let unique: BTreeSet<&String> = names.iter().collect();
        t.check(unique.len() == names.len(), key, || "a host is named twice".to_owned(), "name each once");
        t.check(!names.is_empty(), key, || "[] names no host".to_owned(), "name one, or remove it");
    }
    names
}

fn check_instances(t: &mut Table, tp: u32, given: [Option<&[String]>; 2], context: &Context) {
    let Some(all) = context.hosts.map(Hosts::count) else { return };
    let [prefill, decode] = given.map(|names| names.map(<[String]>::len));
    let first = prefill.unwrap_or_else(|| decode.map_or(all / 2, |decode| all.saturating_sub(decode)));
    let second = decode.unwrap_or_else(|| all.saturating_sub(first));
    for (key, gpus, is_given) in [("prefill", first, prefill.is_some()), ("decode", second, decode.is_some())] {
        let message = || format!("no host is left for {key}");
        t.check(gpus > 0, if is_given { key } else { "kind" }, message, "name fewer, or enlarge the topology");
        let message = || format!("the {gpus} hosts of {key} do not divide into instances of {tp}");
        t.check(gpus.is_multiple_of(tp as usize), "tp", message, "name the hosts of prefill and decode, or change tp");
    }
}

/// A request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Request {
    pub(crate) arrival: Time,
    /// Bytes that prefill makes, and that are sent.
    pub(crate) bytes: u64,
}

impl KvTransferSpec {
    /// Time of a prefill.
    fn prefill_time(&self, bytes: u64) -> Span {
        let rate = self.prefill_rate.map(|rate| rate * self.bytes_per_token.0 as f64);
        rate.map_or(Span::ZERO, |rate| Span::from_secs_f64(bytes as f64 / rate))
    }

    /// The GPUs of prefill and of decode.
    fn gpus(&self, topology: &Topology) -> [Vec<NodeId>; 2] {
        let all: Vec<NodeId> = topology.hosts().collect();
        let find = |name: &String| topology.find(name).expect("resolve knows its hosts");
        let named = |names: &Option<Vec<String>>| -> Option<Vec<NodeId>> { Some(names.as_ref()?.iter().map(find).collect()) };
        let without = |others: &[NodeId]| all.iter().copied().filter(|host| !others.contains(host)).collect::<Vec<_>>();
        let decode = named(&self.decode);
        let prefill = named(&self.prefill)
            .unwrap_or_else(|| decode.as_ref().map_or(all[..all.len() / 2].to_vec(), |decode| without(decode)));
        let decode = decode.unwrap_or_else(|| without(&prefill));
        [prefill, decode]
    }
}

impl Source for KvTransferSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(KvTransfer::new(self, maker))
    }

    fn starts(&self) -> Vec<Span> {
        match &self.requests {
            RequestsOfKv::PoissonRequests(poisson) => vec![poisson.start],
            RequestsOfKv::RequestTrace(trace) => {
                trace.requests(self.bytes_per_token).map(|request| Span(request.arrival.0)).collect()
            }
        }
    }

    fn at_once(&self, hosts: u64) -> u64 {
        self.prefill.as_ref().map_or(hosts, |gpus| gpus.len() as u64)
    }

    fn open_loop(&self, topology: &Topology, end: Span) -> Option<OpenLoop> {
        let parts = f64::from(self.tp) * f64::from(self.layers);
        let hosts = self.gpus(topology)[0].len().max(1) as f64;
        match &self.requests {
            RequestsOfKv::PoissonRequests(PoissonRequests { per_second, sizes, start, stop }) => {
                // No more begin than prefill instances finish.
                let prefill = self.prefill_time(sizes.mean() as u64).as_secs_f64();
                let most = hosts / f64::from(self.tp) / prefill.max(f64::MIN_POSITIVE);
                let (per_host, bytes) = (per_second.min(most) * parts / hosts, sizes.mean() / parts);
                Some(OpenLoop::poisson(topology, hosts, per_host, bytes, *start..*stop, end))
            }
            RequestsOfKv::RequestTrace(trace) => {
                let all = trace.requests(self.bytes_per_token).filter(|request| request.arrival < at(end));
                let (count, bytes) =
                    all.fold((0.0, 0.0), |(count, bytes), request| (count + 1.0, bytes + request.bytes as f64));
                let seconds = bytes * 8.0 / mean_host_rate(topology);
                let load = seconds / hosts / end.as_secs_f64().max(f64::MIN_POSITIVE);
                let serialisation = seconds / f64::max(count * parts, 1.0);
                Some(OpenLoop { flows: count * parts, serialisation, load, backlog: 0.0 })
            }
        }
    }
}

/// Requests that have not arrived, in order.
enum Arrivals {
    Poisson { times: Poisson, sizes: SizesSpec, rng: Rng },
    Trace(std::vec::IntoIter<Request>),
}

impl Arrivals {
    fn next(&self) -> Option<Time> {
        match self {
            Arrivals::Poisson { times, .. } => times.next(),
            Arrivals::Trace(requests) => requests.as_slice().first().map(|request| request.arrival),
        }
    }

    fn take(&mut self) -> Option<Request> {
        match self {
            Arrivals::Poisson { times, sizes, rng } => {
                times.take().map(|(arrival, _)| Request { arrival, bytes: sizes.draw(rng) })
            }
            Arrivals::Trace(requests) => requests.next(),
        }
    }
}

/// A request that has its instances, ordered by what is sent next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Planned {
    /// When the next layer is done.
    due: Time,
    number: u32,
    /// Layers that have been sent.
    layer: u32,
    begin: Time,
    prefill: Span,
    /// Instances of prefill and of decode.
    instances: [u32; 2],
    bytes: u64,
    /// Its query, once something has been sent.
    query: u32,
}

struct KvTransfer {
    spec: KvTransferSpec,
    prefill: Vec<NodeId>,
    decode: Vec<NodeId>,
    arrivals: Arrivals,
    /// When each prefill instance is free.
    free: Vec<Time>,
    /// Draws instances of decode.
    draws: Rng,
    /// Number of planned requests.
    requests: u32,
    planned: BinaryHeap<Reverse<Planned>>,
    /// Parts of a layer that are due.
    ready: VecDeque<FlowSpec>,
    /// Numbers of connections that are open, by their ends; those of two instances open together.
    open: BTreeMap<[NodeId; 2], u32>,
    /// The common settings of the parts.
    template: FlowSpec,
    ideal_of_query: IdealOfQuery,
    /// No host sends faster, bit/s.
    fastest: f64,
    numbers: QueryNumbers,
    under_way: Queries<()>,
    /// Start of the latest part.
    latest: Time,
}

/// The rate of the fastest host, of all its ports together.
fn fastest_host(maker: &Maker) -> f64 {
    if maker.context.scale_up.is_some() {
        return f64::INFINITY;
    }
    sending_rates(maker.context.topology).into_values().fold(1.0, f64::max)
}

impl KvTransfer {
    fn new(spec: &KvTransferSpec, maker: &Maker) -> KvTransfer {
        let [prefill, decode] = spec.gpus(maker.context.topology);
        let arrivals = match &spec.requests {
            RequestsOfKv::PoissonRequests(poisson) => {
                let (window, streams) = (at(poisson.start)..at(poisson.stop), vec![maker.stream("arrivals", 0)]);
                let times = Poisson::new(std::iter::once(poisson.per_second), streams, window);
                Arrivals::Poisson { times, sizes: poisson.sizes.clone(), rng: maker.stream("sizes", 0) }
            }
            RequestsOfKv::RequestTrace(trace) => {
                let mut requests: Vec<Request> = trace.requests(spec.bytes_per_token).collect();
                requests.sort_by_key(|request| request.arrival);
                Arrivals::Trace(requests.into_iter())
            }
        };
        let is_queue_pair = maker.context.is_queue_pair(maker.transport);
        let template = FlowSpec {
            reply: if is_queue_pair { 0 } else { ANSWER.0 },
            operation: Some(StorageOperation::Write),
            ..maker.flow(prefill[0], decode[0], Bytes::ZERO, Time::ZERO)
        };
        let mut workload = KvTransfer {
            free: vec![Time::ZERO; prefill.len() / spec.tp as usize],
            draws: maker.stream("decode", 0),
            spec: spec.clone(),
            prefill,
            decode,
            arrivals,
            requests: 0,
            planned: BinaryHeap::new(),
            ready: VecDeque::new(),
            open: BTreeMap::new(),
            template,
            ideal_of_query: maker.context.ideal_of_query.clone(),
            fastest: fastest_host(maker),
            numbers: maker.context.query_numbers.clone(),
            under_way: Queries::new(),
            latest: Time::ZERO,
        };
        workload.plan_ahead();
        workload
    }

    /// Plans all requests of which something may be due before the first that is known: prefill begins in the order of
    /// arrivals. Others wait where they come from, so that a long queue takes no memory.
    fn plan_ahead(&mut self) {
        while let Some(arrival) = self.arrivals.next() {
            let begin = self.free.iter().min().map_or(arrival, |free| arrival.max(*free));
            if self.planned.peek().is_some_and(|Reverse(first)| first.due <= begin) {
                return;
            }
            let request = self.arrivals.take().expect("there is one");
            self.plan(request.bytes, begin);
        }
    }

    /// Gives a request its instances.
    fn plan(&mut self, bytes: u64, begin: Time) {
        let instance = (0..self.free.len()).min_by_key(|instance| self.free[*instance]).expect("there is one");
        let prefill = self.spec.prefill_time(bytes);
        self.free[instance] = begin.saturating_add(prefill);
        let among = self.decode.len() as u64 / u64::from(self.spec.tp);
        let other = self.draws.uniform_below(among) as u32;
        let (instances, number) = ([instance as u32, other], self.requests);
        let planned = Planned { due: begin, number, layer: 0, begin, prefill, instances, bytes, query: 0 };
        self.planned.push(Reverse(Planned { due: self.due(&planned, 0), ..planned }));
        self.requests += 1;
    }

    /// Parts of a request's cache for each GPU: no more than its bytes.
    fn layers(&self, request: &Planned) -> u32 {
        let bytes = request.bytes / u64::from(self.spec.tp);
        u64::from(self.spec.layers).min(bytes).max(1) as u32
    }

    /// When a layer is done, from 0.
    fn due(&self, request: &Planned, layer: u32) -> Time {
        let layers = u128::from(self.layers(request));
        let done = u128::from(request.prefill.0) * u128::from(layer + 1) / layers;
        request.begin.saturating_add(Span(done as u64))
    }

    /// The parts of a layer, one from each GPU.
    fn parts(&self, request: &Planned, layer: u32) -> Vec<FlowSpec> {
        let (tp, layers) = (self.spec.tp, self.layers(request));
        let cut = |part: u64| (u128::from(request.bytes) * u128::from(part) / u128::from(layers * tp)) as u64;
        let part = |gpu: u32| {
            let [from, to] = request.instances.map(|instance| (instance * tp + gpu) as usize);
            let ends = [self.prefill[from], self.decode[to]];
            let known = self.open.get(&ends).copied();
            let number = known.unwrap_or(self.open.len() as u32 + gpu);
            let place = u64::from(layer * tp + gpu);
            FlowSpec {
                source: ends[0],
                destination: ends[1],
                size: (cut(place + 1) - cut(place)).max(1),
                start: self.due(request, layer),
                kept: Some(KeptConnection { number, first: known.is_none(), last: false }),
                ..self.template
            }
        };
        (0..tp).map(part).collect()
    }

    /// What a request waits for at least: its last parts alone, behind those that the time of the prefill was too short for.
    fn ideal(&self, request: &Planned) -> Span {
        let (tp, layers) = (self.spec.tp, self.layers(request));
        let mut last = self.parts(request, layers - 1);
        // Only the first part of a request opens a connection.
        last.iter_mut().filter_map(|part| part.kept.as_mut()).for_each(|kept| kept.first &= layers == 1);
        let alone = last.iter().map(|part| (self.ideal_of_query)(std::slice::from_ref(part))).max();
        let before = request.bytes / u64::from(tp) / u64::from(layers) * u64::from(layers - 1);
        let sending = Span::from_secs_f64(before as f64 * 8.0 / self.fastest);
        let meanwhile = self.due(request, layers - 1).saturating_since(self.due(request, 0));
        alone.unwrap_or_default().saturating_add(Span(sending.0.saturating_sub(meanwhile.0)))
    }

    /// The first part of a request is sent. Its query counts from the end of the prefill: what decoding waits for.
    fn begin(&mut self, request: &Planned) -> u32 {
        let (tp, layers) = (self.spec.tp, self.layers(request));
        let query = self.numbers.take();
        let record = QueryRecord {
            query,
            workload: self.template.workload,
            aggregator: self.decode[(request.instances[1] * tp) as usize],
            fan_in: tp,
            response: (request.bytes / u64::from(tp)).max(1),
            start: self.due(request, layers - 1),
            finish: None,
            ideal: self.ideal(request),
            timeouts: 0,
        };
        self.under_way.begin(record, tp * layers, ());
        query
    }

    /// Takes the next layer of the request that is first.
    fn take_layer(&mut self) {
        let Reverse(mut request) =
            self.planned.pop().expect("asked for a flow only while next_start gives a time");
        if request.layer == 0 {
            request.query = self.begin(&request);
        }
        let parts = self.parts(&request, request.layer);
let numbers = parts.iter().filter_map(|part| Some(([part.source, part.destination], part.kept?.number)));
        self.open.extend(numbers);
        self.ready.extend(parts.into_iter().map(|part| FlowSpec { query: Some(request.query), ..part }));
        self.latest = request.due;
        request.layer += 1;
        if request.layer < self.layers(&request) {
            request.due = self.due(&request, request.layer);
            self.planned.push(Reverse(request));
        }
        self.plan_ahead();
    }
}

impl Workload for KvTransfer {
    fn is_open_loop(&self) -> bool {
        true
    }

    fn next_start_time(&self) -> Option<Time> {
        let planned = || self.planned.peek().map(|Reverse(request)| request.due);
        // What comes after all times of scenarios never comes.
        self.ready.front().map(|part| part.start).or_else(planned).filter(|start| *start <= at(TIME_MAX))
    }

    fn next_flow(&mut self) -> FlowSpec {
        if self.ready.is_empty() {
            self.take_layer();
        }
        self.ready.pop_front().expect("a layer has a part")
    }

    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        self.under_way.end_flow(flow, now);
    }

    fn take_completed_queries(&mut self) -> Vec<QueryRecord> {
        self.under_way.take()
    }

    /// A request whose prefill goes on waits for nothing yet.
    fn unfinished_queries(&self) -> Vec<QueryRecord> {
        let mut all = self.under_way.unfinished();
        all.retain(|query| query.start <= self.latest);
        all
    }
}

impl fmt::Debug for KvTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvTransfer")
            .field("requests", &self.requests)
            .field("free", &self.free)
            .field("planned", &self.planned)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::kv_trace::TraceRequest;
    use super::super::sizes::Fixed;
    use super::super::test_support::{assert_within, drain, ended, make, racks};
    use super::*;
    use crate::WorkloadKind;
    use pauseframe_fabric::FlowStatus;

    fn us(time: u64) -> Span {
        Span::from_us(time)
    }

    /// Two prefill instances (h0 h1, h2 h3), one of decode (h4 h5); 1000 bytes and a microsecond of prefill for a token.
    fn spec(arrivals: &[(u64, u64)]) -> KvTransferSpec {
        let request = |(arrival, tokens): &(u64, u64)| TraceRequest { arrival: us(*arrival), tokens: *tokens, cached: 0 };
        KvTransferSpec {
            prefill: Some(["h0", "h1", "h2", "h3"].map(String::from).into()),
            decode: None,
            tp: 2,
            requests: RequestsOfKv::RequestTrace(RequestTrace { requests: arrivals.iter().map(request).collect(), time_scale: 1.0 }),
            bytes_per_token: Bytes(1000),
            prefill_rate: Some(1e6),
            layers: 1,
        }
    }

    fn flows(spec: KvTransferSpec) -> Vec<FlowSpec> {
        drain(&mut *make(WorkloadKind::KvTransfer(spec), &racks(1, 6)))
    }

    #[test]
    fn a_request_waits_for_the_instance_that_is_free_first() {
        // The third comes while both compute, and the first is done before the second.
        let all = flows(spec(&[(0, 30), (5, 100), (10, 40)]));
        let starts: Vec<Time> = all.iter().step_by(2).map(|flow| flow.start).collect();
        assert_eq!(starts, [30, 70, 105].map(|time| at(us(time))));
        let name = |flow: &FlowSpec| (flow.source.0 - 1, flow.destination.0 - 1, flow.size);
        let of = [(0, 4, 15_000), (1, 5, 15_000), (0, 4, 20_000), (1, 5, 20_000), (2, 4, 50_000), (3, 5, 50_000)];
        assert_eq!(all.iter().map(name).collect::<Vec<_>>(), of);
        let firsts: Vec<bool> = all.iter().map(|flow| flow.kept.unwrap().first).collect();
        assert_eq!(firsts, [true, true, false, false, true, true]);
    }

    #[test]
    fn layers_leave_during_the_prefill_and_add_up() {
        let all = flows(KvTransferSpec { layers: 4, ..spec(&[(0, 101)]) });
        let of_gpu: Vec<&FlowSpec> = all.iter().filter(|flow| flow.source.0 == 1).collect();
        assert_eq!(of_gpu.iter().map(|flow| flow.start.0).collect::<Vec<_>>(), [25_250_000, 50_500_000, 75_750_000, 101_000_000]);
        assert_eq!(all.iter().map(|flow| flow.size).sum::<u64>(), 101_000);
    }

    #[test]
    fn a_cache_with_fewer_bytes_than_layers_is_sent_in_parts_of_a_byte() {
        let few = KvTransferSpec { layers: 10, bytes_per_token: Bytes(1), ..spec(&[(0, 6)]) };
        let all = flows(few);
        assert_eq!(all.iter().map(|flow| flow.size).collect::<Vec<_>>(), [1; 6]);
        assert_eq!(all.last().map(|flow| flow.start), Some(at(us(6))));
    }

    #[test]
    fn a_query_counts_from_the_end_of_the_prefill_to_the_last_share() {
        let mut workload = make(WorkloadKind::KvTransfer(KvTransferSpec { layers: 2, ..spec(&[(0, 40)]) }), &racks(1, 6));
        let first: Vec<FlowSpec> = (0..2).map(|_| workload.next_flow()).collect();
        assert_eq!(workload.unfinished_queries(), []);
        let last: Vec<FlowSpec> = (0..2).map(|_| workload.next_flow()).collect();
        assert_eq!(workload.unfinished_queries().len(), 1);
        for (end, flow) in (41..).zip(first.iter().chain(&last)) {
            workload.on_flow_finished(&ended(*flow, FlowStatus::Finished, at(us(end)), 0), at(us(end)));
        }
        let [query] = workload.take_completed_queries()[..] else { panic!("one query") };
        assert_eq!((query.start, query.finish), (at(us(40)), Some(at(us(44)))));
        assert_eq!((query.fan_in, query.response), (2, 20_000));
    }

    /// In turns, the fifth request would pair the instances of the first again, and no receiver would have two senders.
    #[test]
    fn instances_of_decode_are_drawn_evenly() {
        let sizes = SizesSpec::Fixed(Fixed { size: Bytes(4000) });
        let poisson = PoissonRequests { per_second: 1e4, sizes, start: us(0), stop: Span::from_ms(200) };
        let requests = RequestsOfKv::PoissonRequests(poisson);
        let spec = KvTransferSpec { requests, prefill: None, tp: 1, prefill_rate: None, ..spec(&[]) };
        let all = drain(&mut *make(WorkloadKind::KvTransfer(spec), &racks(1, 8)));
        let mut pairs: BTreeMap<[NodeId; 2], f64> = BTreeMap::new();
        for flow in &all {
            *pairs.entry([flow.source, flow.destination]).or_default() += 1.0;
        }
        assert_eq!(pairs.len(), 16);
        let mean = all.len() as f64 / 16.0;
        assert!(pairs.values().all(|count| (count - mean).abs() < 5.0 * mean.sqrt()), "{pairs:?}");
    }

    #[test]
    fn random_requests_come_at_their_rate() {
        let sizes = SizesSpec::Fixed(Fixed { size: Bytes(4000) });
        let poisson = PoissonRequests { per_second: 1e4, sizes, start: us(0), stop: Span::from_ms(200) };
        let all = flows(KvTransferSpec { requests: RequestsOfKv::PoissonRequests(poisson), prefill_rate: None, ..spec(&[]) });
        assert_within(all.len() as f64 / 2.0, 2000.0, 4.0 * 2000f64.sqrt());
        assert!(all.iter().all(|flow| flow.size == 2000));
    }
}
