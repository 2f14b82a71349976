//! The life of connections: kept ones, refused and unanswered ones, FIN, and what the next connection inherits.

use crate::common::{
    MSS, build_with, config, fct, flow, goodputs, link, port, proceed, report, run, settings,
};
use pauseframe_fabric::{FlowSpec, FlowStatus, KeptConnection, Settings, Workload};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_transport::{CachePolicy, ConnectionFailure, DelayedAckConfig, TcpConfig};
use pauseframe_units::{Span, Time};

/// A microsecond, ps.
const US: u64 = 1_000_000;
/// A full packet on 10 Gb/s, ps.
const FULL: u64 = 1_538 * 800;

fn star_10g() -> Topology {
    star(3, link(10, Span::from_us(1))).unwrap()
}

fn request(topology: &Topology) -> FlowSpec {
    FlowSpec { reply: 20 * MSS, ..flow(topology, "host0", "host1", 1600) }
}

fn kept(number: u32, first: bool, last: bool) -> KeptConnection {
    KeptConnection { number, first, last }
}

/// The second request needs no handshake: exactly two round trips less than the formula of the first.
#[test]
fn a_kept_connection_is_opened_once() {
    let topology = star_10g();
    let settings = settings(TcpConfig { handshake: true, ..config() });
    let exchange = (2 * FULL + 174_400 + 2 * US) + (21 * FULL + 2 * US);
    let flows: Vec<_> = (0..3)
        .map(|i| FlowSpec {
            start: Time(i * 1000 * US),
            kept: Some(kept(7, i == 0, i == 2)),
            ..request(&topology)
        })
        .collect();
    let (mut network, ending) = run(&topology, &settings, &flows);
    let records = network.flow_records(ending.now);
    let handshake = 2 * (2 * 72_000 + 2 * US);
    assert_eq!(fct(&records[0]).0, handshake + exchange);
    for record in &records {
        assert_eq!(record.status, FlowStatus::Finished);
        assert_eq!(record.delivered, 1600 + 20 * MSS, "counted for its own flow only");
        assert_eq!(record.ideal, fct(record), "alone in the idle network");
    }
    assert_eq!((fct(&records[1]).0, fct(&records[2]).0), (exchange, exchange));
}

/// The server thinks for 7 us, no more and no less; the idle network's time has them too.
#[test]
fn a_reply_comes_after_its_delay() {
    let topology = star_10g();
    let settings = settings(TcpConfig { handshake: true, ..config() });
    let [at_once, late] = [Span::ZERO, Span::from_us(7)].map(|reply_delay| {
        let flow = FlowSpec { reply_delay, ..request(&topology) };
        let (mut network, ending) = run(&topology, &settings, &[flow]);
        network.flow_records(ending.now)[0]
    });
    assert_eq!(fct(&late), fct(&at_once) + Span::from_us(7));
    assert_eq!((late.ideal, late.status), (fct(&late), FlowStatus::Finished));
}

/// One flow that is requested before its start time.
#[derive(Debug)]
struct Early(Option<FlowSpec>);

impl Workload for Early {
    fn next_start_time(&self) -> Option<Time> {
        self.0.map(|_| Time::ZERO)
    }

    fn next_flow(&mut self) -> FlowSpec {
        self.0.take().unwrap()
    }
}

/// A connection that is opened ahead: the request leaves at its time, and pays for no handshake.
#[test]
fn a_connection_can_be_opened_ahead() {
    let topology = star_10g();
    let settings = settings(TcpConfig { handshake: true, ..config() });
    let start = Time(100 * US);
    let flow = FlowSpec { start, kept: Some(kept(0, false, true)), ..request(&topology) };
    let mut network = build_with(&topology, &settings, vec![Box::new(Early(Some(flow)))]);
    let ending = proceed(&mut network, Time::MAX);
    let record = network.flow_records(ending.now)[0];
    assert!(record.connected.is_some_and(|at| at < start), "{record:?}");
    assert_eq!(fct(&record).0, (2 * FULL + 174_400 + 2 * US) + (21 * FULL + 2 * US));
    assert_eq!(record.ideal, fct(&record));
}

/// What a kept connection carries is the goodput of the flow that has it, each byte once.
#[test]
fn the_goodput_of_kept_flows_adds_up() {
    let topology = star_10g();
    let settings = settings(TcpConfig { handshake: true, ..config() });
    let flows: Vec<_> = (0..3)
        .map(|i| FlowSpec {
            start: Time(i * 1000 * US),
            kept: Some(kept(7, i == 0, i == 2)),
            ..request(&topology)
        })
        .collect();
    let every = Span::from_us(30);
    let rows = goodputs(&topology, &settings, &flows, every, Time(3000 * US));
    for flow in 0..3 {
        let bits: f64 = rows.iter().map(|row| row[flow] * 1e9 * every.as_secs_f64()).sum();
        let expected = (1600 + 20 * MSS) as f64 * 8.0;
        assert!((bits - expected).abs() < 1e-3, "flow {flow}: {bits} bits of {expected}");
    }
}

/// RST comes back after two small packets each way; SYNs that nobody answers are given up after their back-off.
#[test]
fn refused_and_unanswered_flows_fail_and_say_why() {
    let topology = star_10g();
    let host = topology.find("host1").unwrap();
    let base = settings(TcpConfig { handshake: true, syn_retries: 2, ..config() });
    let refusing = Settings { refusing: vec![host], ..base.clone() };
    let (mut network, ending) = run(&topology, &refusing, &[request(&topology)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.failure), (FlowStatus::Failed, Some(ConnectionFailure::Refused)));
    // SYN 84 B on the wire with its options; RST the smallest frame, 84 B too.
    assert!(fct(&record) < Span::from_us(5) && record.timeouts == 0, "{record:?}");

    let initial = base.transports[0].tcp().expect("a transport of TCP").rto.initial;
    let silent = Settings { silent: vec![host], ..base };
    let (mut network, ending) = run(&topology, &silent, &[request(&topology)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.failure), (FlowStatus::Failed, Some(ConnectionFailure::SynTimeout)));
    assert_eq!((record.retransmits, record.timeouts, record.delivered), (2, 2, 0));
    assert_eq!(fct(&record), initial * 7, "1 + 2 + 4 times the initial RTO");
}

/// Both applications close when they have learnt that the data are in, and the FINs cross: each is a separate packet, as the ACK
/// that the receiver owes has gone by then, and each side acknowledges the other's. The flow is over no later.
#[test]
fn fin_costs_four_packets_and_no_time() {
    let topology = star_10g();
    let ends = |fin: bool| {
        let settings = settings(TcpConfig { fin, ..config() });
        let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", 50 * MSS)]);
        let record = network.flow_records(ending.now)[0];
        assert_eq!(record.status, FlowStatus::Finished);
        let packets = |host| report(&network, &ending, port(&topology, host, "switch")).tx_packets;
        (fct(&record), packets("host0"), packets("host1"))
    };
    let (without, with) = (ends(false), ends(true));
    assert_eq!(without.0, with.0);
    assert_eq!((with.1 - without.1, with.2 - without.2), (2, 2));
}

/// A flow that is over gives back both of its ends as soon as its last ACK is in, however long ACKs may be delayed.
#[test]
fn finished_flows_keep_no_ends() {
    let topology = star_10g();
    for (fin, handshake) in [(false, false), (false, true), (true, true)] {
        let delayed_ack = DelayedAckConfig { segments: 2, timeout: Span::from_secs(1) };
        let settings = settings(TcpConfig { fin, handshake, delayed_ack, ..config() });
        let short =
            |i: u64| FlowSpec { start: Time(i * 50 * US), ..flow(&topology, "host0", "host1", 1_000) };
        let (mut network, ending) = run(&topology, &settings, &(0..500).map(short).collect::<Vec<_>>());
        let records = network.flow_records(ending.now);
        assert!(
            records.iter().all(|record| record.status == FlowStatus::Finished && record.retransmits == 0)
        );
        assert_eq!(network.peak_endpoints(), 2, "fin {fin}, handshake {handshake}");
    }
}

/// The second connection starts from half of the window of the first, as cee's kernel does.
#[test]
fn the_cache_hands_on_the_window() {
    let topology = star_10g();
    let second = |cache| {
        let settings = settings(TcpConfig { cache, initial_window: 2 * MSS, ..config() });
        let first = flow(&topology, "host0", "host1", 200 * MSS);
        let flows = [first, FlowSpec { start: Time(100_000 * US), ..first }];
        let (mut network, ending) = run(&topology, &settings, &flows);
        let records = network.flow_records(ending.now);
        (fct(&records[0]), fct(&records[1]))
    };
    let plain = second(CachePolicy::None);
    assert_eq!(plain.0, plain.1);
    let inherited = second(CachePolicy::Cee);
    assert_eq!(inherited.0, plain.0);
    assert!(inherited.1 < plain.1, "{inherited:?}");
}

/// Linux and FreeBSD keep the metrics of both ends: what the server of the first connection learnt by its reply speeds up its next
/// reply, and a connection that it opens itself.
#[test]
fn the_end_that_accepts_hands_on_its_window() {
    let topology = star_10g();
    let reply = FlowSpec { reply: 200 * MSS, ..flow(&topology, "host0", "host1", 1600) };
    for next in [reply, flow(&topology, "host1", "host0", 200 * MSS)] {
        let [plain, inherited] = [CachePolicy::None, CachePolicy::Cee].map(|cache| {
            let settings =
                settings(TcpConfig { cache, handshake: true, initial_window: 2 * MSS, ..config() });
            let flows = [reply, FlowSpec { start: Time(100_000 * US), ..next }];
            let (mut network, ending) = run(&topology, &settings, &flows);
            let records = network.flow_records(ending.now);
            (fct(&records[0]), fct(&records[1]))
        });
        assert_eq!(inherited.0, plain.0);
        assert!(inherited.1 < plain.1, "{inherited:?} {plain:?}");
    }
}
