//! A client that sends requests to a server one at a time (repro: 20 KB responses in sequence on a persistent
//! connection beside long flows), or to several servers at once in rounds, each after the last response of the previous
//! round: synchronised incast.
//!
//! A request is a flow with a reply. A persistent connection keeps its window, RTT estimate and all other TCP state
//! between requests; otherwise each request has a new connection. A round of several servers is a row of the `queries`
//! table. Not modelled: pipelining.

use super::random::exponential;
use super::context::{Context, SIZES, TIMES, host, known_host, two_hosts};
use super::maker::{IdealOfQuery, Maker, QueryNumbers, Source, at};
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, KeptConnection, QueryRecord, Workload};
use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, Span, Time};
use std::fmt;

table! {
    /// A client that sends requests to a server, one at a time; or to all `servers` at once, in rounds
    // Defaults of repro: 20 KB responses in sequence on a persistent connection.
    pub struct RequestsSpec {
        /// Host that sends the requests
        client: String = try_by(asking, context);
        /// Host that sends the responses
        server: Option<String> = optional("none: see servers");
        /// Hosts that respond to the same request; the next round starts after the last response
        servers: Vec<String> = or(Vec::new()) => {
            check_servers(t, client.as_deref(), server.as_deref(), &servers, context);
        };
        /// Size of a request
        request: Bytes = or_in(Bytes(100), SIZES);
        /// Size of a response
        response: Bytes = or_in(Bytes::kb(20), SIZES);
        /// Number of consecutive requests
        count: u32 = or_in(1000, 1..=100_000_000);
        /// Time from the end of a response to the next request
        pause: Span = or_in(Span::ZERO, TIMES);
        /// One connection for all requests, or one per request
        persistent: bool = or(true);
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// How early persistent connections are opened, so that the first request needs no handshake
        connect_ahead: Span = or_in(Span::ZERO, TIMES) => {
            let message = || "needs connections that are kept".to_owned();
            let able = connect_ahead == Span::ZERO || persistent;
            t.check(able, "connect_ahead", message, "set persistent = true");
            let message = || format!("{connect_ahead} is more than start ({start})");
            t.check(connect_ahead <= start, "connect_ahead", message, "raise start, or lower it");
        };
        /// Time between the requests to two servers of a round
        spacing: Span = or_in(Span::ZERO, TIMES);
        /// Time from a request to its response, according to reply_law
        reply_delay: Span = or_in(Span::ZERO, TIMES);
        /// Meaning of reply_delay: constant, maximum of a uniform law, mean of an exponential law, or step from one
        /// server to the next (staggered)
        reply_law: ReplyLaw = or(ReplyLaw::Constant) => {
            let is_one = servers.len() + usize::from(server.is_some()) == 1;
            let (has_law, is_delayed) = (reply_law != ReplyLaw::Constant, reply_delay > Span::ZERO);
            let is_staggered = reply_law == ReplyLaw::Staggered;
            t.warn_if_idle("reply_law", has_law && !is_delayed, "reply_delay is 0 s");
            let why = "with reply_law = \"staggered\" the one server responds at once";
            t.warn_if_idle("reply_delay", is_staggered && is_delayed && is_one, why);
            t.warn_if_idle("spacing", spacing > Span::ZERO && is_one, "there is one server");
            t.warn_if_idle("persistent", !persistent && count == 1, "there is one request");
            t.warn_if_idle("pause", pause > Span::ZERO && count == 1, "there is one request");
        };
    }
    pub fn try_read(t, context: &Context);
}

choices! {
    /// Distribution of the reply delay
    pub enum ReplyLaw {
        /// Constant
        Constant = "constant",
        /// Uniform from zero to `time`
        Uniform = "uniform",
        /// Exponential with mean `time`
        Exponential = "exponential",
        /// The first server responds at once, each further server `time` later
        Staggered = "staggered",
    }
}

/// The time of an application for its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReplyDelay {
    law: ReplyLaw,
    /// The constant, the maximum, the mean, or the step of the delay, depending on its distribution.
    time: Span,
}

fn asking(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<String> {
    two_hosts(t, context);
    host(t, key, doc, context)
}

/// `server` or `servers`: hosts other than the client, without duplicates.
fn check_servers(
    t: &mut Table,
    client: Option<&str>,
    server: Option<&str>,
    servers: &[String],
    context: &Context,
) {
    let either = server.is_some() == servers.is_empty();
    t.check(either, "server", || "needs either server or servers".to_owned(), "name the host that answers");
    let listed = servers.iter().map(String::as_str).enumerate();
    let all: Vec<(String, &str)> = listed
        .map(|(index, name)| (format!("servers.{index}"), name))
        .chain(server.map(|name| ("server".to_owned(), name)))
        .collect();
    for (index, (key, name)) in all.iter().enumerate() {
        known_host(t, key, name, context);
        let itself = client == Some(*name);
        t.check(!itself, key, || "client and server are the same host".to_owned(), "");
        let twice = all[..index].iter().any(|(_, other)| other == name);
        t.check(!twice, key, || format!("{name:?} is there twice"), "name each host once");
    }
}

impl RequestsSpec {
    /// All servers.
    pub fn all_servers(&self) -> Vec<String> {
        self.servers.iter().chain(&self.server).cloned().collect()
    }
}

impl Source for RequestsSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        let exchange = Exchange {
            request: self.request,
            response: self.response,
            pause: self.pause,
            reply_delay: ReplyDelay { law: self.reply_law, time: self.reply_delay },
            spacing: self.spacing,
        };
        let &RequestsSpec { count, persistent, .. } = self;
        let connect_ahead = if maker.context.opens_ahead { self.connect_ahead } else { Span::ZERO };
        let series = Series { exchange, count, persistent, connect_ahead };
        Box::new(Requests::new(series, &self.client, &self.all_servers(), at(self.start), maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn planned_flows(&self, _: &Topology, _: Option<Span>) -> Option<u64> {
        Some(u64::from(self.count) * self.all_servers().len() as u64)
    }

    fn at_once(&self, _: u64) -> u64 {
        self.all_servers().len() as u64
    }
}

/// One request and its response.
#[derive(Debug)]
struct Exchange {
    request: Bytes,
    response: Bytes,
    /// Time from the response to the next request.
    pause: Span,
    /// Time between the requests to two servers.
    spacing: Span,
    /// Time from the request to the response.
    reply_delay: ReplyDelay,
}

/// Number of requests.
#[derive(Debug)]
struct Series {
    exchange: Exchange,
    count: u32,
    persistent: bool,
    /// Lead time for opening the connections before the first request.
    connect_ahead: Span,
}

struct Requests {
    series: Series,
    /// The least time between two rounds.
    reaction: Span,
    /// One flow per server, as sent in each round.
    templates: Vec<FlowSpec>,
    /// Number of rounds begun.
    rounds: u32,
    /// The current or next round; `None` while responses are awaited and after the last round.
    start: Option<Time>,
    /// Flows of this round that have been requested, and those that have ended.
    asked: usize,
    ended: usize,
    failed: bool,
    /// The round as a query, with several servers.
    query: Option<QueryRecord>,
    ideal_of_query: IdealOfQuery,
    /// Known ideals of rounds without and with a handshake; random delays have none.
    ideals: [Option<Span>; 2],
    next_query: QueryNumbers,
    /// Draws reply delays, one stream per server.
    delays: Vec<Rng>,
    /// The reply delays of this round, by server.
    reply_delays: Vec<Span>,
    finished: Vec<QueryRecord>,
}

impl Requests {
    fn new(
        series: Series,
        client: &str,
        servers: &[String],
        start: Time,
        maker: &Maker,
    ) -> Requests {
        let host =
            |name: &str| maker.context.topology.find(name).expect("resolve has checked the host's name");
        let template = |server: &String| {
            let flow = maker.flow(host(client), host(server), series.exchange.request, start);
            FlowSpec { reply: series.exchange.response.0, ..flow }
        };
        let templates: Vec<FlowSpec> = servers.iter().map(template).collect();
        let query = (templates.len() > 1).then(|| QueryRecord {
            query: 0,
            workload: maker.workload,
            aggregator: host(client),
            fan_in: templates.len() as u32,
            response: series.exchange.response.0,
            start,
            finish: None,
            ideal: Span::ZERO,
            timeouts: 0,
        });
        Requests {
            start: (series.count > 0).then_some(start),
            delays: maker.streams("reply delay", templates.len()),
            series,
            reaction: maker.context.reaction,
            templates,
            rounds: 0,
            asked: 0,
            ended: 0,
            failed: false,
            query,
            ideal_of_query: maker.context.ideal_of_query.clone(),
            ideals: [None; 2],
            next_query: maker.context.query_numbers.clone(),
            reply_delays: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Whether the first requests of this round open their connections: those that are opened early need no handshake.
    fn opens(&self) -> bool {
        self.rounds == 0 && self.series.connect_ahead == Span::ZERO
    }

    /// Draws the delays of a round that starts at `start`.
    fn begin_round(&mut self, start: Time) {
        self.reply_delays = (0..self.templates.len()).map(|number| self.reply_delay(number)).collect();
        if let Some(query) = self.query {
            let (number, ideal) = (self.next_query.take(), self.ideal());
            self.query = Some(QueryRecord { query: number, start, ideal, ..query });
        }
    }

    /// The ideal time of this round. A request that is sent later counts as a response that comes later.
    fn ideal(&mut self) -> Span {
        let first = self.opens();
        let Exchange { spacing, reply_delay, .. } = self.series.exchange;
        let is_random = matches!(reply_delay.law, ReplyLaw::Uniform | ReplyLaw::Exponential);
        if let Some(known) = self.ideals[usize::from(first)].filter(|_| !is_random) {
            return known;
        }
        let flow = |(number, (flow, delay)): (usize, (&FlowSpec, &Span))| {
            let number = number as u32;
            let kept = self.series.persistent.then_some(KeptConnection { number, first, last: false });
            let reply_delay = delay.saturating_add(times(spacing, number));
            FlowSpec { kept, reply_delay, ..*flow }
        };
        let flows: Vec<FlowSpec> = self.templates.iter().zip(&self.reply_delays).enumerate().map(flow).collect();
        let ideal = (self.ideal_of_query)(&flows);
        self.ideals[usize::from(first)] = Some(ideal);
        ideal
    }

    /// The delay of the next reply of server `number`.
    fn reply_delay(&mut self, number: usize) -> Span {
        let ReplyDelay { law, time } = self.series.exchange.reply_delay;
        match law {
            _ if time == Span::ZERO => Span::ZERO,
            ReplyLaw::Constant => time,
            ReplyLaw::Uniform => Span(self.delays[number].uniform_below(time.0 + 1)),
            ReplyLaw::Exponential => {
                Span((exponential(&mut self.delays[number]) * time.0 as f64).round() as u64)
            }
            ReplyLaw::Staggered => times(time, number as u32),
        }
    }

    /// All flows of the round have ended. A client that was refused or gave up sends no more requests.
    fn end_round(&mut self, now: Time) {
        if let Some(query) = &self.query {
            let finish = (!self.failed).then_some(now);
            self.finished.push(QueryRecord { finish, ..*query });
        }
        (self.asked, self.ended) = (0, 0);
        if self.rounds < self.series.count && !self.failed {
            self.start = Some(now + self.series.exchange.pause.max(self.reaction));
        }
    }
}

/// `number` times a span, at most the range of the clock.
fn times(span: Span, number: u32) -> Span {
    Span(span.0.saturating_mul(u64::from(number)))
}

impl Workload for Requests {
    fn is_open_loop(&self) -> bool {
        self.series.count == 1
    }

    fn next_start_time(&self) -> Option<Time> {
        let ahead = if self.rounds == 0 { self.series.connect_ahead } else { Span::ZERO };
        let offset = times(self.series.exchange.spacing, self.asked as u32);
        self.start.map(|start| Time(start.saturating_add(offset).0.saturating_sub(ahead.0)))
    }

    fn next_flow(&mut self) -> FlowSpec {
        let start = self.start.expect("asked for a flow only while next_start gives a time");
        let (first, last) = (self.opens(), self.rounds + 1 == self.series.count);
        let number = self.asked;
        let kept = self.series.persistent.then_some(KeptConnection { number: number as u32, first, last });
        if number == 0 {
            self.begin_round(start);
        }
        let reply_delay = self.reply_delays[number];
        self.asked += 1;
        if self.asked == self.templates.len() {
            self.rounds += 1;
            self.start = None;
        }
        let query = self.query.map(|query| query.query);
        let start = start.saturating_add(times(self.series.exchange.spacing, number as u32));
        FlowSpec { start, kept, query, reply_delay, ..self.templates[number] }
    }

    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        self.ended += 1;
        self.failed |= flow.status != FlowStatus::Finished;
        if self.ended == self.templates.len() {
            self.end_round(now);
        }
    }

    fn take_completed_queries(&mut self) -> Vec<QueryRecord> {
        std::mem::take(&mut self.finished)
    }

    fn unfinished_queries(&self) -> Vec<QueryRecord> {
        self.query.filter(|_| self.asked > 0).into_iter().collect()
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("series", &self.series)
            .field("rounds", &self.rounds)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{ended, make, racks};
    use super::*;
    use crate::WorkloadKind;

    fn requests(persistent: bool) -> WorkloadKind {
        WorkloadKind::Requests(RequestsSpec {
            client: "h1".into(),
            servers: vec!["h0".into()],
            request: Bytes(100),
            response: Bytes::kb(20),
            count: 3,
            pause: Span::from_us(5),
            persistent,
            start: Span::from_us(10),
            connect_ahead: Span::ZERO,
            spacing: Span::ZERO,
            reply_delay: Span::ZERO,
            reply_law: ReplyLaw::Constant,
            server: None,
        })
    }

    #[test]
    fn each_request_waits_for_the_response_before_it() {
        let topology = racks(1, 2);
        let mut workload = make(requests(true), &topology);
        let mut now = Time::ZERO + Span::from_us(10);
        for i in 0..3 {
            assert_eq!(workload.next_start_time(), Some(now), "request {i}");
            let flow = workload.next_flow();
            assert_eq!((flow.size, flow.reply), (100, 20_000));
            assert_eq!(flow.kept, Some(KeptConnection { number: 0, first: i == 0, last: i == 2 }));
            assert_eq!(workload.next_start_time(), None, "one at a time");
            let end = now + Span::from_us(100);
            workload.on_flow_finished(&ended(flow, FlowStatus::Finished, end, 0), end);
            now = end + Span::from_us(5);
        }
        assert_eq!(workload.next_start_time(), None);
    }

    #[test]
    fn connections_of_their_own_are_not_kept_and_a_failure_ends_the_series() {
        let topology = racks(1, 2);
        let mut workload = make(requests(false), &topology);
        let flow = workload.next_flow();
        assert_eq!(flow.kept, None);
        workload.on_flow_finished(&ended(flow, FlowStatus::Failed, flow.start, 6), flow.start);
        assert_eq!(workload.next_start_time(), None);
    }

    /// The query waits for what its flows wait for: their delays, and requests that are sent later.
    #[test]
    fn the_ideal_of_a_round_counts_delays_and_spacing() {
        let WorkloadKind::Requests(plain) = requests(true) else { panic!() };
        let servers: Vec<String> = ["h0", "h2", "h3"].map(String::from).into();
        let us = Span::from_us;
        for (law, delay, spacing, expected) in [
            (ReplyLaw::Constant, us(100), us(0), Some(us(103))),
            (ReplyLaw::Staggered, us(100), us(0), Some(us(203))),
            (ReplyLaw::Constant, us(0), us(10), Some(us(23))),
            (ReplyLaw::Staggered, us(100), us(10), Some(us(223))),
            (ReplyLaw::Uniform, us(100), us(0), None),
            (ReplyLaw::Exponential, us(100), us(10), None),
        ] {
            let kind = RequestsSpec { servers: servers.clone(), reply_law: law, reply_delay: delay, spacing, ..plain.clone() };
            let mut workload = make(WorkloadKind::Requests(kind), &racks(1, 4));
            let mut ideals = Vec::new();
            for _ in 0..3 {
                let flows: Vec<FlowSpec> = (0..3).map(|_| workload.next_flow()).collect();
                let delays = flows.iter().map(|flow| flow.start - flows[0].start + flow.reply_delay);
                let ideal = delays.max().unwrap() + us(3);
                assert!(expected.is_none_or(|expected| expected == ideal));
                for flow in &flows {
                    workload.on_flow_finished(&ended(*flow, FlowStatus::Finished, flow.start, 0), flow.start);
                }
                let query = workload.take_completed_queries()[0];
                assert_eq!(query.ideal, ideal, "{law:?}");
                ideals.push(ideal);
            }
            assert_eq!(ideals[1] == ideals[2], expected.is_some(), "random delays differ from round to round");
        }
    }

    /// A round waits for its last response and is one query.
    #[test]
    fn rounds_of_several_servers_do_not_overlap() {
        let topology = racks(1, 4);
        let WorkloadKind::Requests(RequestsSpec { client, request, response, pause, reply_delay, .. }) = requests(true)
        else {
            panic!()
        };
        let (connect_ahead, spacing) = (Span::from_us(4), Span::from_us(1));
        let servers: Vec<String> = ["h0", "h2", "h3"].map(String::from).into();
        let (count, persistent, start) = (2, true, Span::from_us(10));
        let kind = WorkloadKind::Requests(RequestsSpec {
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
            reply_law: ReplyLaw::Constant,
            server: None,
        });
        let mut workload = make(kind, &topology);
        let mut now = Time::ZERO + Span::from_us(10);
        for round in 0..2 {
            let flows: Vec<FlowSpec> = (0..3)
                .map(|number| {
                    // The connections of the first round are opened early.
                    let ahead = if round == 0 { connect_ahead } else { Span::ZERO };
                    let due = now + spacing * u64::from(number);
                    assert_eq!(workload.next_start_time(), Some(Time(due.0 - ahead.0)));
                    let flow = workload.next_flow();
                    assert_eq!(flow.start, due);
                    assert_eq!(flow.kept, Some(KeptConnection { number, first: false, last: round == 1 }));
                    assert_eq!(flow.query, Some(round));
                    flow
                })
                .collect();
            assert_eq!(workload.unfinished_queries().len(), 1);
            for (flow, us) in flows.iter().zip([100, 30, 900]) {
                assert_eq!(workload.next_start_time(), None);
                workload.on_flow_finished(
                    &ended(*flow, FlowStatus::Finished, now + Span::from_us(us), 1),
                    now + Span::from_us(us),
                );
            }
            let queries = workload.take_completed_queries();
            assert_eq!(queries.len(), 1);
            let query = queries[0];
            assert_eq!((query.query, query.fan_in, query.start), (round, 3, now));
            assert_eq!(query.finish, Some(now + Span::from_us(900)));
            now += Span::from_us(905);
        }
        assert_eq!(workload.next_start_time(), None);
        assert!(workload.unfinished_queries().is_empty());
    }
}
