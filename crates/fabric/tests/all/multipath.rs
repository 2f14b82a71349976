//! MPTCP: shares of a bottleneck, sums of paths, order of data over subflows, opening, failures, messages either way.

use crate::common::*;
use crate::host_ports::{planes, sent_by_ports, with_choice};
use crate::messages::{run_echo, told_by};
use pauseframe_fabric::{
    FailedElement, FlowSpec, FlowStatus, FrameOverhead, MarkAt, MarkSpacing, Marker, NotEctAction,
    PortChoice, Red, ScheduledFailure, Settings, TransportSettings, ValueByPort,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_transport::{
    CachePolicy, CongestionControlConfig, ConnectionFailure, RtoConfig, SendBuffer, TcpConfig,
};
use pauseframe_units::{Bytes, Span, Time};
use std::sync::Arc;

const MB: u64 = 1_000_000;
/// Bytes of the option DSS beside data and without.
const DSS: [u64; 2] = [28, 12];

fn over(subflows: u32) -> TcpConfig {
    TcpConfig { subflows, mss: MSS as u32 - 28 * u32::from(subflows > 1), ..config() }
}

/// Linux's window and buffers, so that the scheduler has something to decide.
fn linux(subflows: u32) -> TcpConfig {
    TcpConfig {
        initial_window: 10 * MSS,
        send_buffer: SendBuffer::Linux,
        send_buffer_initial: 87_380,
        send_buffer_max: 4_194_304,
        timestamps: true,
        mss: over(subflows).mss - 12,
        handshake: true,
        cache: CachePolicy::Linux,
        ..over(subflows)
    }
}

/// One segment over two subflows: DSS makes it 28 bytes longer, its acknowledgement 12, and nothing else differs from TCP.
#[test]
fn a_segment_carries_the_option_and_takes_its_time() {
    let topology = star(2, link(1, Span::from_us(1))).unwrap();
    let run_with = |config: TcpConfig| {
        let flows = [flow(&topology, "host0", "host1", 1000)];
        let (mut network, ending) = run(&topology, &settings(config), &flows);
        let record = network.flow_records(ending.now)[0];
        assert_eq!(
            (record.status, record.delivered, network.packets_in_network()),
            (FlowStatus::Finished, 1000, 0)
        );
        assert!(record.ideal == fct(&record), "{} against {}", record.ideal, fct(&record));
        let sent = |host: &str| report(&network, &ending, port(&topology, host, "switch")).tx_bytes;
        (fct(&record), sent("host0"), sent("host1"))
    };
    let (one, two) = (run_with(over(1)), run_with(over(2)));
    assert_eq!(two.0.0 - one.0.0, 2 * DSS[0] * 8000, "two links of 1 Gb/s");
    // An acknowledgement has 40 bytes in a frame of at least 64, which has 46 of payload.
    assert_eq!([two.1 - one.1, two.2 - one.2], [DSS[0], 40 + DSS[1] - 46]);
}

/// With a handshake the ACK that ends it leaves before the data, since the connection gives them to a subflow that is established.
#[test]
fn data_follow_the_ack_that_ends_the_handshake() {
    let topology = star(2, link(1, Span::from_us(1))).unwrap();
    let flows = [flow(&topology, "host0", "host1", 1000)];
    let took = [1, 2].map(|subflows| {
        let (mut network, ending) =
            run(&topology, &settings(TcpConfig { handshake: true, ..over(subflows) }), &flows);
        let record = network.flow_records(ending.now)[0];
        assert_eq!(record.ideal, fct(&record));
        fct(&record).0
    });
    // Bytes: SYN and SYN-ACK have 40 + 12 and with the option 52 + 12, twice on two links; an ACK has 52 with 18 of Ethernet and 20 of the wire.
    let ether = |ip: u64| (ip + 18).max(64) + 20;
    let syn = 4 * (ether(40 + 12 + 12) - ether(40 + 12));
    assert_eq!(took[1] - took[0], (syn + ether(52) + 2 * DSS[0]) * 8000);
}

/// Two planes: the flow is as fast as both ports together, and each carries half. Its ideal time is a bound.
#[test]
fn subflows_use_all_ports_of_their_host() {
    let topology = planes(2, 2);
    for choice in [PortChoice::Rail, PortChoice::LeastLoaded] {
        let with = |subflows| with_choice(choice, settings(linux(subflows)));
        let run_with = |settings: &Settings, bytes| {
            let (mut network, ending) = run(&topology, settings, &[flow(&topology, "host0", "host1", bytes)]);
            let record = network.flow_records(ending.now)[0];
            assert_eq!((record.status, record.delivered), (FlowStatus::Finished, bytes));
            assert!(record.ideal <= fct(&record), "{choice:?}: {} against {}", record.ideal, fct(&record));
            (fct(&record), record.ideal, sent_by_ports(&network, &topology, "host0", ending.now))
        };
        let two = run_with(&with(2), 200 * MB);
        let one = run_with(&with(1), 100 * MB);
        assert!(
            (0.98..1.06).contains(&(two.0.as_secs_f64() / one.0.as_secs_f64())),
            "{} against {}",
            two.0,
            one.0
        );
        assert!(
            (0.97..=1.0).contains(&(two.1.as_secs_f64() / two.0.as_secs_f64())),
            "{choice:?}: {} of {}",
            two.1,
            two.0
        );
        let share = two.2[0] as f64 / (two.2[0] + two.2[1]) as f64;
        assert!((0.48..0.52).contains(&share), "{choice:?}: {share}");
    }
}

/// Two links of different rate: at least 95 % of their sum.
#[test]
fn links_of_different_rate_add_up() {
    let topology = unequal_planes();
    let bytes = 300 * MB;
    let settings = with_choice(PortChoice::Rail, settings(linux(2)));
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", bytes)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Finished, bytes));
    // A frame takes 1538 bytes of the wire, with timestamps and DSS.
    let payload = MSS - 12 - 28;
    let both = bytes as f64 / payload as f64 * 1538.0 * 8.0 / 12.5e9;
    let share = both / fct(&record).as_secs_f64();
    assert!((0.95..=1.0).contains(&share), "{share} of the sum");
    assert!(record.ideal <= fct(&record));
}

/// Hosts a and b with a port of 10 Gb/s in one plane and one of 2.5 Gb/s in another.
fn unequal_planes() -> Topology {
    use pauseframe_topology::interchange::Labels;
    use pauseframe_topology::{Channel, NodeKind};
    use pauseframe_units::BitRate;
    let mut topology = Topology::new();
    let hosts = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
    for (name, rate) in [("fast", 10_000), ("slow", 2_500)] {
        let switch = topology.add_node(name, NodeKind::Switch, None);
        for host in hosts {
            topology.add_link(host, switch, Channel { rate: BitRate(rate * MB), delay: Span::from_us(5) });
        }
    }
    Labels::default().split_hosts(&topology).unwrap().0
}

/// Share of the MPTCP connection beside one TCP at one link of 1 Gb/s, over 4 s.
fn share_beside_tcp(control: &CongestionControlConfig, seed: u64) -> f64 {
    let topology = star(3, link(1, Span::from_us(100))).unwrap();
    let of = |subflows, congestion_control| {
        let rto = RtoConfig { min: Span::from_ms(5), ..config().rto };
        TcpConfig { congestion_control, initial_window: 10 * MSS, rto, ..over(subflows) }
    };
    let of_tcp = |config| TransportSettings::of_tcp(Arc::new(config), priority(0));
    let settings = Settings {
        seed,
        // Random drops: with tail drop the two subflows of one host lose packets less often than two hosts would.
        marker: Marker::Red(Red {
            min: ValueByPort::All(Bytes(5 * FRAME)),
            max: ValueByPort::All(Bytes(100 * FRAME)),
            at: MarkAt::Enqueue,
            w_q: 1.0,
            p_max: ValueByPort::All(0.1),
            average_packet: Bytes::kb(1),
            gentle: false,
            spacing: MarkSpacing::Geometric,
            not_ect: NotEctAction::Drop,
        }),
        transports: vec![of_tcp(of(2, *control)), of_tcp(of(1, CongestionControlConfig::NewReno))],
        ..real_clocks(settings(config()))
    };
    let stop = Some(Time::ZERO + Span::from_secs(4));
    let flows = [("host0", 0), ("host1", 1)].map(|(host, transport)| FlowSpec {
        transport,
        stop,
        ..flow(&topology, host, "host2", u64::MAX)
    });
    let (mut network, ending) = run(&topology, &settings, &flows);
    let records = network.flow_records(ending.now);
    let [multipath, tcp] = [0, 1].map(|flow| records[flow].delivered as f64);
    assert!((multipath + tcp) * 8.0 > 0.9 * 4e9 * MSS as f64 / 1538.0, "the link is busy");
    multipath / (multipath + tcp)
}

/// Two uncoupled subflows take two shares of three. Coupled by LIA they take that of one TCP, and a little more: alpha is the larger window's part of both
/// (RFC 6356 §3), which exceeds 1/2 while they differ. With windows that vary by 0.4 of their mean it is 0.61 on average, and the share 0.526; sixty seeds
/// give 0.529.
#[test]
fn shares_of_a_bottleneck_follow_the_coupling() {
    let mean = |control: CongestionControlConfig| {
        (1..=4).map(|seed| share_beside_tcp(&control, seed)).sum::<f64>() / 4.0
    };
    let uncoupled = mean(CongestionControlConfig::NewReno);
    assert!((uncoupled * 3.0 / 2.0 - 1.0).abs() < 0.05, "{uncoupled} of 2/3");
    let coupled = mean(CongestionControlConfig::Lia);
    assert!((0.5..0.54).contains(&coupled), "{coupled} of 1/2");
}

/// The second subflow opens when the first is established, a round trip later; a flow that is over by then never waits for it.
#[test]
fn further_subflows_open_after_the_first() {
    let topology = star(2, link(10, Span::from_us(50))).unwrap();
    let settings = settings(linux(2));
    let mut network = build(&topology, &settings, &[flow(&topology, "host0", "host1", 2000)]);
    network.enable_frame_capture(&[port(&topology, "host0", "switch")], 1 << 20);
    let ending = proceed(&mut network, Time::MAX);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.failure, record.delivered), (FlowStatus::Finished, None, 2000));
    assert_eq!(network.packets_in_network(), 0);
    let frames = network.take_captured_frames();
    let times: Vec<u64> = frames.iter().map(|frame| frame.time.0).collect();
    let connected = record.connected.unwrap().0;
    assert!(times[0] < 1_000_000 && times[1] >= connected, "{times:?}, connected at {connected}");
}

/// One plane swallows all frames from 1 ms on, and no host notices: after the timer of the connection, fragments of the silent subflow go to the
/// other one, and after more than four silent intervals all of its data. The flow ends long before the subflow would have given up.
#[test]
fn data_of_a_silent_plane_take_the_other_one() {
    let topology = planes(2, 2);
    let rto = RtoConfig { initial: Span::from_ms(10), min: Span::from_ms(10), ..config().rto };
    let settings = with_choice(PortChoice::Rail, settings(TcpConfig { rto, retries: 15, ..linux(2) }));
    let bytes = 100 * MB;
    let mut network = build(&topology, &settings, &[flow(&topology, "host0", "host1", bytes)]);
    let host = topology.ports_of_hosts()[&topology.find("host0").unwrap()][0];
    let dead = topology.nodes()[host].ports[0].link();
    let failure = ScheduledFailure {
        is_silent: true,
        what: FailedElement::Link(dead),
        down: Time::ZERO + Span::from_ms(1),
        up: None,
    };
    network.schedule_failures(vec![failure], Span::ZERO);
    let ending = proceed(&mut network, Time::ZERO + Span::from_secs(2));
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Finished, bytes));
    // 100 MB take 8.6 ms by one port.
    let took = fct(&record);
    assert!((Span::from_ms(15)..Span::from_ms(200)).contains(&took), "{took}");
    assert!(record.timeouts > 0);
}

/// Two hundred short flows, one after the other, that abandon 15 subflows each: places of endpoints are used again.
#[test]
fn abandoned_subflows_leave_nothing_behind() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let at = |number: u64| FlowSpec {
        start: Time(number * 100_000_000),
        ..flow(&topology, "host0", "host1", 1000)
    };
    let flows: Vec<FlowSpec> = (0..200).map(at).collect();
    // Replies of some lengths end while further subflows are half open, at either end.
    for (fin, reply) in [(false, 0), (true, 0), (true, 1), (true, 1000), (true, 5000)] {
        let flows: Vec<FlowSpec> = flows.iter().map(|flow| FlowSpec { size: 1, reply, ..*flow }).collect();
        let settings = settings(TcpConfig { fin, ..linux(16) });
        let (mut network, ending) = run(&topology, &settings, &flows);
        assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
        let places = network.peak_endpoints();
        assert!(places <= 3 * 34, "fin {fin}, reply {reply}: {places}");
    }
}

/// Nobody listens: the flow fails once, with the reason of its first subflow.
#[test]
fn a_refused_connection_fails_its_flow_once() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    for (silent, reason) in [(false, ConnectionFailure::Refused), (true, ConnectionFailure::SynTimeout)] {
        let nobody = vec![topology.find("host1").unwrap()];
        let base = settings(TcpConfig { syn_retries: 1, ..linux(3) });
        let settings =
            if silent { Settings { silent: nobody, ..base } } else { Settings { refusing: nobody, ..base } };
        let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", MB)]);
        let record = network.flow_records(ending.now)[0];
        assert_eq!((record.status, record.failure, record.delivered), (FlowStatus::Failed, Some(reason), 0));
        assert_eq!(network.packets_in_network(), 0);
    }
}

/// Requests and replies on a connection that is kept, and messages: each is complete, in order.
#[test]
fn replies_and_messages_cross_all_subflows() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let request = FlowSpec { reply: 3 * MB, ..flow(&topology, "host0", "host1", 2 * MB) };
    let settings = Settings { overhead: FrameOverhead::ETHERNET, ..settings(linux(3)) };
    let (mut network, ending) = run(&topology, &settings, &[request]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Finished, 5 * MB));
    let sizes = [10, 200_000, 1, 70_000];
    let networks = [1, 3].map(|subflows| run_echo(&topology, &sizes, linux(subflows)).0);
    let [one, three] = [0, 1].map(|run| told_by(&networks[run]));
    assert_eq!(one.delivered.len(), 2 * sizes.len());
    let order = |all: &[(u32, Time)]| -> Vec<u32> {
        all.iter().map(|(token, _)| *token).filter(|token| *token < 100).collect()
    };
    assert_eq!([order(&one.delivered), order(&three.delivered)], [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
    assert_eq!(three.delivered.len(), 2 * sizes.len());
    assert_eq!(three.sent.len(), 2 * sizes.len());
}
