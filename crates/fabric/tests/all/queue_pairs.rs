//! Messages over several queue pairs: times, bytes and ports that can be worked out, the busiest of equal links, order, failures.

use crate::common::*;
use crate::hop_choice::any_order;
use crate::host_ports::{planes, sent_by_ports, split, with_choice};
use crate::rdma::{NO_CONTROL, roce};
use pauseframe_fabric::host_ports::bond::{FlowAddresses, FlowKind};
use pauseframe_fabric::path_hash::{PathHash, PathHashSettings};
use pauseframe_fabric::{
    ApplicationMessage, ConnectionQueuePairs, FlowSpec, FlowStatus, IdealFctCalculator, Network, PortChoice,
    ProtocolSettings, Settings, Workload,
};
use pauseframe_routing::NextHops;
use pauseframe_topology::generate::{leaf_spine, star};
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::ConnectionFailure;
use pauseframe_units::{NodeId, Span, Time};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Time of a full packet of 1024 B at 100 Gb/s: RETH, priority tag, preamble and gap included.
const PACKET: u64 = (1024 + 44 + 16 + 18 + 4 + 20) * 80;

fn connected(count: u32, splits: bool, settings: Settings) -> Settings {
    let mut settings = settings;
    if let ProtocolSettings::Rdma(rdma) = &mut settings.transports[0].protocol {
        rdma.connection = ConnectionQueuePairs { count, splits };
    }
    settings
}

/// 1 MiB over four queue pairs of one port: as fast as over one, with three more RETHs and at most three more acknowledgements.
#[test]
fn a_split_message_takes_as_long_as_a_whole_one_on_one_port() {
    let topology = star(2, link(100, Span::from_us(1))).unwrap();
    let run_with = |count| {
        let settings = connected(count, true, roce(NO_CONTROL));
        let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", MIB)]);
        let records = network.flow_records(ending.now);
        assert_eq!((records.len(), records[0].status), (1, FlowStatus::Finished));
        assert_eq!((records[0].delivered, records[0].spec.size, records[0].retransmits), (MIB, MIB, 0));
        let sent = |host: &str| report(&network, &ending, port(&topology, host, "switch"));
        (fct(&records[0]), records[0].ideal, sent("host0").tx_bytes, sent("host1").tx_packets)
    };
    let (one, four) = (run_with(1), run_with(4));
    assert!(four.0.0.abs_diff(one.0.0) <= PACKET, "{} against {}", four.0, one.0);
    assert!(four.1 <= four.0 && four.0.0 - four.1.0 <= PACKET, "{} against {}", four.0, four.1);
    assert_eq!(four.2 - one.2, 3 * 16);
    assert!((one.3..=one.3 + 3).contains(&four.3), "{} acknowledgements against {}", four.3, one.3);
}

/// Over two ports it takes half of the time, and each port carries half.
#[test]
fn a_split_message_uses_all_ports_of_its_host() {
    let topology = planes(2, 2);
    for choice in [PortChoice::QueueAffinity, PortChoice::Rail, PortChoice::LeastLoaded] {
        let settings = with_choice(choice, connected(4, true, roce(NO_CONTROL)));
        let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", MIB)]);
        let record = network.flow_records(ending.now)[0];
        let alone = with_choice(choice, roce(NO_CONTROL));
        let (mut of_half, end) = run(&topology, &alone, &[flow(&topology, "host0", "host1", MIB / 2)]);
        let half = fct(&of_half.flow_records(end.now)[0]);
        assert!(fct(&record).0.abs_diff(half.0) <= PACKET, "{choice:?}: {} against {half}", fct(&record));
        assert!(record.ideal <= fct(&record) && record.ideal >= half, "{choice:?}: {}", record.ideal);
        let sent = sent_by_ports(&network, &topology, "host0", ending.now);
        assert_eq!(sent[0], sent[1], "{choice:?}");
    }
}

/// Mean flows of line rate on the busiest of n uplinks, when n messages are split over q queue pairs each.
fn busiest_uplink(n: u32, pairs: u32, draws: u64) -> f64 {
    let wire = link(100, Span::from_us(1));
    let topology = leaf_spine(2, n, n, wire, wire).unwrap();
    let flows: Vec<FlowSpec> = (0..n)
        .map(|host| {
            flow(&topology, &format!("host{host}"), &format!("host{}", n + host), 128 * u64::from(pairs))
        })
        .collect();
    let leaf = topology.find("leaf0").unwrap();
    let busiest = |seed| {
        let settings = Settings { seed, ..connected(pairs, true, roce(NO_CONTROL)) };
        let (network, _) = run(&topology, &settings, &flows);
        let counts = network.flows_by_next_hop();
        let own = counts.iter().find(|((at, _), _)| *at == leaf).unwrap();
        assert_eq!(own.1.iter().sum::<u32>(), n * pairs);
        f64::from(*own.1.iter().max().unwrap()) / f64::from(pairs)
    };
    (0..draws).map(busiest).sum::<f64>() / draws as f64
}

/// The busiest uplink of n equal ones has the load of a maximum of a multinomial distribution.
#[test]
fn queue_pairs_spread_over_equal_links() {
    for (n, pairs, draws, expected) in
        [(8, 1, 900, 2.58), (8, 4, 300, 1.76), (16, 2, 150, 2.43), (8, 16, 100, 1.37)]
    {
        let mean = busiest_uplink(n, pairs, draws);
        assert!(
            (mean / expected - 1.0).abs() < 0.03,
            "{n} messages over {pairs}: {mean}, expected {expected}"
        );
    }
}

/// The same for all of the table, by the hash alone.
#[test]
fn the_busiest_of_equal_links_has_the_load_of_the_table() {
    let table = [
        (8, [2.58, 2.09, 1.76, 1.53, 1.37]),
        (16, [3.08, 2.43, 1.97, 1.66, 1.47]),
        (32, [3.54, 2.71, 2.16, 1.80, 1.55]),
        (64, [3.97, 2.98, 2.34, 1.92, 1.63]),
    ];
    let wire = link(100, Span::from_us(1));
    for (n, row) in table {
        let topology = leaf_spine(2, n, n, wire, wire).unwrap();
        let routes = NextHops::shortest(&topology).unwrap();
        let host = |number| topology.find(&format!("host{number}")).unwrap();
        let ends: Vec<[NodeId; 2]> = (0..n).map(|from| [host(from), host(n + from)]).collect();
        for (pairs, expected) in [1, 2, 4, 8, 16].into_iter().zip(row) {
            let draws = 12_000 / n.max(pairs);
            let busiest = |seed| {
                let hash = PathHash::new(&topology, &routes, PathHashSettings::IDEAL, seed);
                let mut loads = BTreeMap::new();
                for (number, hosts) in ends.iter().enumerate() {
                    for pair in 0..pairs {
                        let flow = number as u32 * pairs + pair;
                        let addresses = FlowAddresses::of_flow(*hosts, flow, true, FlowKind::QueuePair);
                        let mut path = Vec::new();
                        hash.path((&topology, &routes), *hosts, flow, &addresses, &mut path);
                        *loads.entry(path[1]).or_insert(0) += 1;
                    }
                }
                f64::from(*loads.values().max().unwrap()) / f64::from(pairs)
            };
            let mean = (0..u64::from(draws)).map(busiest).sum::<f64>() / f64::from(draws);
            assert!((mean / expected - 1.0).abs() < 0.03, "{n} over {pairs}: {mean}, expected {expected}");
        }
    }
}

/// A receiver that never answers: the first queue pair that gives up fails the flow, once.
#[test]
fn a_queue_pair_that_fails_fails_its_flow() {
    let topology = star(2, link(100, Span::from_us(1))).unwrap();
    let silent = vec![topology.find("host1").unwrap()];
    let settings = Settings { silent, ..connected(3, true, roce(NO_CONTROL)) };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", MIB)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!(
        (record.status, record.failure),
        (FlowStatus::Failed, Some(ConnectionFailure::RetriesExhausted))
    );
    assert_eq!((record.delivered, network.flow_counts()), (0, (1, 0)));
    assert!(ending.now < Time(Span::from_ms(100).0), "the other queue pairs stop: {}", ending.now);
}

/// Sends messages of these sizes from the first host to the second at the start, and notes when each is complete.
#[derive(Debug)]
struct Sequence {
    hosts: [NodeId; 2],
    due: VecDeque<(u32, u64)>,
    begun: bool,
    delivered: Vec<(u32, Time)>,
    sent: Vec<u32>,
    count: usize,
}

impl Workload for Sequence {
    fn next_start_time(&self) -> Option<Time> {
        (!self.begun).then_some(Time::ZERO)
    }
    fn next_flow(&mut self) -> FlowSpec {
        unreachable!("it has messages only")
    }
    fn on_start_time(&mut self, _now: Time) {
        self.begun = true;
    }
    fn next_message(&mut self) -> Option<ApplicationMessage> {
        let (token, bytes) = if self.begun { self.due.pop_front()? } else { return None };
        let [from, to] = self.hosts;
        Some(ApplicationMessage { connection: 0, from, to, bytes, token, notify: true, transport: 0 })
    }
    fn on_message_delivered(&mut self, token: u32, now: Time) {
        self.delivered.push((token, now));
    }
    fn on_message_sent(&mut self, token: u32, _now: Time) {
        self.sent.push(token);
    }
    fn has_sent_all(&self) -> bool {
        self.delivered.len() == self.count && self.sent.len() == self.count
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

fn run_sequence(topology: &Topology, settings: Settings, sizes: &[u64]) -> (Network, Vec<(u32, Time)>, Time) {
    let hosts: Vec<NodeId> = topology.hosts().take(2).collect();
    let sequence = Sequence {
        hosts: [hosts[0], hosts[1]],
        due: (0..).zip(sizes.iter().copied()).collect(),
        begun: false,
        delivered: Vec::new(),
        sent: Vec::new(),
        count: sizes.len(),
    };
    let routes = Arc::new(NextHops::shortest(topology).unwrap());
    let (topology, settings) = (Arc::new(topology.clone()), Arc::new(settings));
    let mut network = Network::new(topology, routes, settings, vec![Box::new(sequence)], true);
    let ending = proceed(&mut network, Time::ZERO + Span::from_secs(1));
    let told = network.workload(0).as_any().unwrap().downcast_ref::<Sequence>().unwrap();
    assert!(told.has_sent_all(), "{told:?}");
    let delivered = told.delivered.clone();
    (network, delivered, ending.now)
}

/// Whole messages take turns at queue pairs, and so at ports; parts are equal. Either way they are complete in the order in which they were sent.
#[test]
fn messages_take_turns_or_are_split() {
    let topology = planes(2, 2);
    let sizes = [MIB, 1024, 1024, 1024, MIB, 2048];
    for (splits, shares) in [(false, [2 * MIB + 1024, 4096]), (true, [MIB + 2560, MIB + 2560])] {
        let settings = with_choice(PortChoice::QueueAffinity, connected(2, splits, roce(NO_CONTROL)));
        let (mut network, delivered, now) = run_sequence(&topology, settings, &sizes);
        assert_eq!(delivered.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert!(delivered.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{delivered:?}");
        // The second message takes the other port and is there at once, but waits for the first.
        assert!(splits || delivered[1].1 == delivered[0].1, "{delivered:?}");
        let record = network.flow_records(now)[0];
        let total: u64 = sizes.iter().sum();
        assert_eq!((record.spec.size, record.delivered, record.status), (total, total, FlowStatus::Finished));
        let sent = sent_by_ports(&network, &topology, "host0", now);
        for (sent, share) in sent.iter().zip(shares) {
            // Headers of at most 106 bytes a packet, and acknowledgements of the other direction elsewhere.
            let packets = share / 512 + 6;
            assert!(*sent >= share && *sent <= share + packets * 106, "{splits}: {sent}, expected {share}");
        }
    }
}

/// Behind links between switches that are slower than those of hosts, the parts of a message take several paths, so a query is not bound by one.
#[test]
fn the_ideal_of_a_query_is_a_bound_for_split_messages() {
    let topology = leaf_spine(2, 4, 1, link(100, Span::from_us(1)), link(25, Span::from_ns(100))).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let query = [FlowSpec::new(hosts[0], hosts[1], MIB)];
    let ideal = |count| {
        let settings = Arc::new(connected(count, true, roce(NO_CONTROL)));
        let routes = Arc::new(NextHops::shortest(&topology).unwrap());
        IdealFctCalculator::new(Arc::new(topology.clone()), routes, settings).query_completion_time(&query)
    };
    let (one, four) = (ideal(1), ideal(4));
    assert!(four < one / 3 && four > one / 5, "{four} against {one}");
    let (mut network, ending) = run(&topology, &connected(4, true, roce(NO_CONTROL)), &query);
    let took = fct(&network.flow_records(ending.now)[0]);
    assert!(took >= four && took < one, "{took} between {four} and {one}");
}

/// Four queue pairs of a message over two uplinks of a tenth of the host's rate: the uplinks bound the ideal time.
#[test]
fn a_split_message_shares_the_links_between_switches() {
    let [fast, slow] = [100, 10].map(|rate| link(rate, Span::from_us(1)));
    let topology = leaf_spine(2, 2, 2, fast, slow).unwrap();
    let ideal = |count| {
        let settings = connected(count, true, roce(NO_CONTROL));
        let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host2", MIB)]);
        let record = network.flow_records(ending.now)[0];
        assert!(fct(&record) >= record.ideal, "{count}: {} against {}", fct(&record), record.ideal);
        record.ideal.0 as f64
    };
    let ratio = ideal(4) / ideal(1);
    assert!((0.5..0.51).contains(&ratio), "{ratio}");
}

/// Parts that leave or reach ports of a host which together are slower or faster than those of the other share no link but the slower ports.
#[test]
fn the_ideal_of_parts_knows_which_ports_they_share() {
    for [senders, receivers] in
        [[&[10, 10][..], &[100]], [&[100], &[10, 10]], [&[10, 10, 10], &[40]], [&[25, 25], &[25, 25]]]
    {
        let mut topology = Topology::new();
        let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
        let switch = topology.add_node("s", NodeKind::Switch, None);
        for (host, rates) in [(a, senders), (b, receivers)] {
            for rate in rates {
                topology.add_link(host, switch, link(*rate, Span::from_us(1)));
            }
        }
        let topology = split(&topology);
        let slower = senders.iter().sum::<u64>().min(receivers.iter().sum());
        for choice in [PortChoice::Rail, PortChoice::QueueAffinity, PortChoice::RoundRobin] {
            let settings =
                with_choice(choice, connected(senders.len().max(receivers.len()) as u32, true, any_order()));
            let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", MIB)]);
            let record = network.flow_records(ending.now)[0];
            assert_eq!(record.status, FlowStatus::Finished);
            let slowdown = fct(&record).0 as f64 / record.ideal.0 as f64;
            assert!(slowdown >= 1.0, "{choice:?}, {senders:?} to {receivers:?}: {slowdown}");
            assert!(
                record.ideal >= Span::from_ns(MIB * 8 / slower),
                "{choice:?}, {senders:?} to {receivers:?}"
            );
        }
    }
}
