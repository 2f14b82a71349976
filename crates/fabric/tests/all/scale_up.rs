//! Scale-up links: flows and messages between hosts of a server, beside the network.

use crate::common::*;
use pauseframe_fabric::{
    ApplicationMessage, FlowSpec, FlowStatus, IdealFctCalculator, Network, ScaleUpSettings, Settings,
    Workload,
};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_units::{BitRate, NodeId, Span, Time};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// One byte a nanosecond.
const RATE: BitRate = BitRate::gbps(8);
const LATENCY: Span = Span::from_ns(25);

/// Servers of two hosts.
fn with_servers(topology: &Topology, settings: Settings) -> Settings {
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let servers = hosts.chunks(2).map(<[NodeId]>::to_vec).collect();
    Settings { scale_up: Some(Arc::new(ScaleUpSettings::new(servers, RATE, LATENCY))), ..settings }
}

fn network(topology: &Topology, settings: Settings, workload: Box<dyn Workload>) -> Network {
    let routes = Arc::new(NextHops::shortest(topology).unwrap());
    Network::new(Arc::new(topology.clone()), routes, Arc::new(settings), vec![workload], true)
}

fn listed(flows: Vec<FlowSpec>) -> Box<dyn Workload> {
    Box::new(FlowList(flows.into()))
}

fn sent_packets(network: &Network) -> u64 {
    network.total_packet_hops()
}

#[test]
fn flows_within_a_server_take_latency_and_bytes_over_rate_and_no_port() {
    let topology = star(4, link(10, Span::from_us(1))).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let pair = FlowSpec::new(hosts[0], hosts[1], 10_000);
    let reply = FlowSpec {
        reply: 3_000,
        reply_delay: Span::from_us(7),
        start: Time::ZERO + Span::from_us(100),
        ..FlowSpec::new(hosts[3], hosts[2], 1_000)
    };
    // The two to host 1 share its rate until the first of them has ended.
    let shared = [20_000, 5_000].map(|size| FlowSpec {
        start: Time::ZERO + Span::from_us(200),
        ..FlowSpec::new(hosts[0], hosts[1], size)
    });
    let flows = listed(vec![pair, reply, shared[0], shared[1]]);
    let mut network = network(&topology, with_servers(&topology, settings(config())), flows);
    let end = proceed(&mut network, Time::ZERO + Span::from_secs(1)).now;
    let records = network.flow_records(end);
    let us = |ns: u64| Span::from_ns(ns);
    let times: Vec<Span> = records.iter().map(|record| record.end - record.spec.start).collect();
    assert_eq!(times, [us(10_025), us(1_025 + 7_000 + 3_025), us(25_025), us(10_025)]);
    assert_eq!((records[0].ideal, records[1].ideal), (times[0], times[1]));
    let delivered: Vec<u64> = records.iter().map(|record| record.delivered).collect();
    assert_eq!(delivered, [10_000, 4_000, 20_000, 5_000]);
    assert!(records.iter().all(|record| record.status == FlowStatus::Finished));
    assert_eq!(sent_packets(&network), 0);
    assert_eq!(end, records[2].end, "the run ends with the last flow");
    assert_eq!(network.path_of_flow(0), Some(Vec::new()));
}

#[test]
fn flows_between_servers_and_without_servers_are_what_they_were() {
    let topology = star(4, link(10, Span::from_us(1))).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let far = FlowSpec::new(hosts[0], hosts[2], 100_000);
    let run = |settings: Settings, flows: Vec<FlowSpec>| {
        let mut network = network(&topology, settings, listed(flows));
        let ending = proceed(&mut network, Time::ZERO + Span::from_secs(1));
        (network.flow_records(ending.now)[0], ending.fingerprint)
    };
    let plain = run(settings(config()), vec![far]);
    let beside = run(with_servers(&topology, settings(config())), vec![far]);
    assert_eq!(plain, beside);
    // What goes within a server changes the fingerprint, as every event does.
    let near = FlowSpec::new(hosts[0], hosts[1], 5);
    let both = run(with_servers(&topology, settings(config())), vec![far, near]);
    assert_eq!(both.0, plain.0);
    assert_ne!(both.1, plain.1);
}

/// Star links with a long delay: a query within a server takes none of them, and one from two servers waits for the far
/// server alone.
#[test]
fn a_query_within_a_server_has_no_last_link() {
    let topology = star(4, link(10, Span::from_us(1))).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let settings = Arc::new(with_servers(&topology, settings(config())));
    let routes = Arc::new(NextHops::shortest(&topology).unwrap());
    let ideal = IdealFctCalculator::new(Arc::new(topology), routes, settings);
    let to_first = |source: usize, size| FlowSpec::new(hosts[source], hosts[0], size);
    let (near, far) = (to_first(1, 100), to_first(2, 100_000));
    assert_eq!(ideal.query_completion_time(&[near]), Span::from_ns(125));
    let alone = ideal.query_completion_time(&[far]);
    assert_eq!(ideal.query_completion_time(&[near, far]), alone);
    assert_eq!(ideal.query_completion_time(&[far, near]), alone);
    assert_eq!(ideal.query_completion_time(&[to_first(1, 1_000_000), far]), Span::from_ns(1_000_025));
}

#[test]
fn long_flows_count_what_they_have_sent() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let long = |source: usize, stop: u64| FlowSpec {
        stop: Some(Time::ZERO + Span::from_us(stop)),
        ..FlowSpec::new(hosts[source], hosts[1 - source], u64::MAX)
    };
    let flows = listed(vec![long(0, 40), long(1, 90)]);
    let mut network = network(&topology, with_servers(&topology, settings(config())), flows);
    let end = proceed(&mut network, Time::ZERO + Span::from_us(60)).now;
    let read = |network: &mut Network| {
        let records = network.flow_records(end);
        records.iter().map(|record| (record.status, record.delivered)).collect::<Vec<_>>()
    };
    let expected = [(FlowStatus::Stopped, 40_000), (FlowStatus::Running, 60_000)];
    assert_eq!((read(&mut network), read(&mut network)), (expected.to_vec(), expected.to_vec()));
}

/// Sends messages at the start, each on its connection, and records when they are sent and delivered.
#[derive(Debug)]
struct Messages {
    due: VecDeque<ApplicationMessage>,
    has_begun: bool,
    left: usize,
    log: Vec<(u32, bool, Time)>,
}

impl Workload for Messages {
    fn next_start_time(&self) -> Option<Time> {
        (!self.has_begun).then_some(Time::ZERO)
    }
    fn next_flow(&mut self) -> FlowSpec {
        unreachable!("it has messages only")
    }
    fn on_start_time(&mut self, _now: Time) {
        self.has_begun = true;
    }
    fn next_message(&mut self) -> Option<ApplicationMessage> {
        if self.has_begun { self.due.pop_front() } else { None }
    }
    fn on_message_delivered(&mut self, token: u32, now: Time) {
        self.left -= 1;
        self.log.push((token, true, now));
    }
    fn on_message_sent(&mut self, token: u32, now: Time) {
        self.log.push((token, false, now));
    }
    fn has_sent_all(&self) -> bool {
        self.left == 0
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

#[test]
fn messages_keep_their_order_on_a_connection_and_share_among_connections() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let message = |connection, token, bytes, notify| ApplicationMessage {
        connection,
        from: hosts[0],
        to: hosts[1],
        bytes,
        token,
        notify,
        transport: 0,
    };
    let due =
        VecDeque::from([message(0, 0, 900, true), message(0, 1, 100, false), message(1, 2, 500, false)]);
    let messages = Messages { left: due.len(), due, has_begun: false, log: Vec::new() };
    let settings = Settings { reaction: Span::from_us(1), ..with_servers(&topology, settings(config())) };
    let mut network = network(&topology, settings, Box::new(messages));
    let end = proceed(&mut network, Time::ZERO + Span::from_secs(1)).now;
    let told = network.workload(0).as_any().unwrap().downcast_ref::<Messages>().unwrap();
    // Until 1000 ns both connections have half of the rate, then the first has all of it; an application learns of
    // each message a microsecond later.
    let at = |ns: u64| Time::ZERO + Span::from_ns(ns) + Span::from_us(1);
    let expected = [(2, true, at(1_025)), (0, false, at(1_400)), (0, true, at(1_425)), (1, true, at(1_525))];
    assert_eq!(told.log, expected);
    let records = network.flow_records(end);
    let sizes: Vec<(u64, u64)> = records.iter().map(|record| (record.spec.size, record.delivered)).collect();
    assert_eq!(sizes, [(1_000, 1_000), (500, 500)]);
    assert!(records.iter().all(|record| record.status == FlowStatus::Finished));
}
