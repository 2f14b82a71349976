//! Hosts with several ports: which port a flow takes, what happens when one dies, and that one host receives.

use crate::common::*;
use crate::rdma::{NO_CONTROL, rdma, roce};
use pauseframe_fabric::host_ports::bond::FlowKind;
use pauseframe_fabric::host_ports::{FlowEnds, HostPorts};
use pauseframe_fabric::{
    FailedElement, FlowSpec, FlowStatus, HashPolicy, HostPortSettings, Network, PauseStorm, PortChoice,
    ProtocolSettings, ScheduledFailure, Settings, SlowReceiverSettings, TransportSettings, UdpSettings,
};
use pauseframe_rdma::QueuePairSettings;
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::{Homes, leaf_spine, star};
use pauseframe_topology::interchange::Labels;
use pauseframe_transport::{RtoConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, NodeId, Span, Time};

const GBPS_100: u64 = 100;

pub(crate) fn split(topology: &Topology) -> Topology {
    Labels::default().split_hosts(topology).unwrap().0
}

/// `leaves` leaves in pairs, `hosts` hosts at each with a port at both of the pair, two spines.
fn dual_homed(leaves: u32, hosts: u32) -> Topology {
    let wire = link(GBPS_100, Span::from_us(1));
    let homes = Homes { ports_per_host: 2, ..Homes::SINGLE };
    split(&homes.apply(leaf_spine(leaves, 2, hosts, wire, wire).unwrap()).unwrap())
}

/// A star for each of `planes` ports of every host.
pub(crate) fn planes(hosts: u32, planes: u32) -> Topology {
    let homes = Homes { planes, ..Homes::SINGLE };
    split(&homes.apply(star(hosts, link(GBPS_100, Span::from_us(1))).unwrap()).unwrap())
}

pub(crate) fn with_choice(choice: PortChoice, settings: Settings) -> Settings {
    Settings { host_ports: HostPortSettings { choice, ..HostPortSettings::DEFAULT }, ..settings }
}

/// Bytes that a host has sent by each of its ports.
pub(crate) fn sent_by_ports(network: &Network, topology: &Topology, host: &str, now: Time) -> Vec<u64> {
    let host = topology.find(host).unwrap();
    let ports = topology.ports_of_hosts().remove(&host).unwrap();
    let reports = network.port_reports(now);
    let of_port = |node: &NodeId| {
        let port = topology.nodes()[*node].ports[0];
        reports.iter().filter(|report| report.port == port).map(|report| report.tx_bytes).sum()
    };
    ports.iter().map(of_port).collect()
}

/// Consecutive queue pairs take turns at ports, whatever their addresses (mlx5: `++n % ports`).
#[test]
fn queue_affinity_spreads_queue_pairs_exactly() {
    let topology = planes(2, 2);
    let settings = with_choice(PortChoice::QueueAffinity, roce(NO_CONTROL));
    for (pairs, shares) in [(8, [4, 4]), (3, [2, 1]), (1, [1, 0])] {
        let flows = vec![flow(&topology, "host0", "host1", 1 << 20); pairs];
        let (network, ending) = run(&topology, &settings, &flows);
        let sent = sent_by_ports(&network, &topology, "host0", ending.now);
        let one = sent.iter().sum::<u64>() / pairs as u64;
        assert_eq!(sent, shares.map(|share| share * one), "{pairs} queue pairs");
    }
}

/// Packets take turns at ports (bonding mode 0): both carry the same, within the packets of a turn.
#[test]
fn round_robin_spreads_the_packets_of_a_flow() {
    let topology = planes(2, 2);
    let tcp = TransportSettings::of_tcp(impatient().into(), priority(LOSSLESS));
    for transport in [tcp, rdma(NO_CONTROL)] {
        for packets_per_slave in [1, 8] {
            let host_ports = HostPortSettings {
                choice: PortChoice::RoundRobin,
                packets_per_slave,
                ..HostPortSettings::DEFAULT
            };
            let settings = Settings { transports: vec![transport.clone()], host_ports, ..roce(NO_CONTROL) };
            let flows = [flow(&topology, "host0", "host1", 1 << 20)];
            let (mut network, ending) = run(&topology, &settings, &flows);
            let records = network.flow_records(ending.now);
            assert_eq!(records[0].status, FlowStatus::Finished);
            for host in ["host0", "host1"] {
                let sent = sent_by_ports(&network, &topology, host, ending.now);
                let turn = u64::from(packets_per_slave) * 2_000;
                assert!(sent[0].abs_diff(sent[1]) <= turn && sent[0] > 0, "{host}: {sent:?}");
            }
        }
    }
}

/// Two ports carry two queue pairs at once: as fast as each alone, to the picosecond.
#[test]
fn two_ports_carry_two_flows_at_once() {
    let topology = planes(2, 2);
    let settings = with_choice(PortChoice::Rail, roce(NO_CONTROL));
    let flows = vec![flow(&topology, "host0", "host1", 1 << 20); 2];
    let (mut network, ending) = run(&topology, &settings, &flows);
    let records = network.flow_records(ending.now);
    assert!(records.iter().all(|record| fct(record) == record.ideal), "{records:?}");
}

/// The mean share of the busiest of two ports is E[max of Binomial(m, 1/2)] / m.
#[test]
fn a_hash_spreads_flows_as_the_binomial_distribution_says() {
    let topology = dual_homed(4, 8);
    let routes = NextHops::shortest(&topology).unwrap();
    let mut ports = HostPorts::new(&topology, HostPortSettings::DEFAULT, 1).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    for (flows, expected) in [(2_u32, 0.75), (4, 0.6875), (8, 0.637)] {
        let draws = 4_000;
        let busiest = |draw: u32| {
            let source = hosts[draw as usize % hosts.len()];
            let mut first = 0;
            for number in 0..flows {
                let mixed = draw.wrapping_mul(2_654_435_761).wrapping_add(number.wrapping_mul(40_503_711));
                let destination =
                    hosts[(draw as usize + 1 + mixed as usize % (hosts.len() - 1)) % hosts.len()];
                let ends = FlowEnds {
                    hosts: [source, destination],
                    flow: mixed,
                    forward: true,
                    kind: FlowKind::Tcp,
                };
                first += u32::from(ports.choose(&ends, 0, &routes)[0] == source);
            }
            f64::from(first.max(flows - first)) / f64::from(flows)
        };
        let mean = (0..draws).map(busiest).sum::<f64>() / f64::from(draws);
        assert!((mean / expected - 1.0).abs() < 0.02, "{flows} flows: {mean}, expected {expected}");
    }
    // The kernel's default hashes MAC addresses alone: a pair of hosts keeps to one port.
    let layer2 = HostPortSettings { hash: HashPolicy::Layer2, ..HostPortSettings::DEFAULT };
    let mut ports = HostPorts::new(&topology, layer2, 1).unwrap();
    let ends = |flow| FlowEnds { hosts: [hosts[0], hosts[9]], flow, forward: true, kind: FlowKind::Tcp };
    let first = ports.choose(&ends(0), 0, &routes)[0];
    assert!((0..100).all(|flow| ports.choose(&ends(flow), 0, &routes)[0] == first));
}

/// Frames never change planes, with any choice.
#[test]
fn nothing_crosses_planes() {
    let topology = planes(6, 3);
    for choice in [PortChoice::Lacp, PortChoice::ActiveBackup, PortChoice::LeastLoaded, PortChoice::Rail] {
        let settings = with_choice(choice, roce(NO_CONTROL));
        let names: Vec<String> = (0..6).map(|host| format!("host{host}")).collect();
        let pairs = names.iter().flat_map(|a| names.iter().filter(move |b| a != *b).map(move |b| (a, b)));
        let flows: Vec<FlowSpec> = pairs.map(|(a, b)| flow(&topology, a, b, 50_000)).collect();
        let (mut network, ending) = run(&topology, &settings, &flows);
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|record| record.status == FlowStatus::Finished), "{choice:?}");
        let used: Vec<bool> =
            sent_by_ports(&network, &topology, "host2", ending.now).iter().map(|sent| *sent > 0).collect();
        if choice == PortChoice::Lacp {
            continue;
        }
        assert_eq!(
            used,
            if choice == PortChoice::ActiveBackup { [true, false, false] } else { [true; 3] },
            "{choice:?}"
        );
    }
}

fn impatient() -> TcpConfig {
    let rto = RtoConfig { initial: Span::from_ms(1), min: Span::from_ms(1), ..config().rto };
    TcpConfig { rto, ..config() }
}

/// The link of a host's port goes down at `down`: settings, and the network with flows to and from the host.
fn with_dead_port(settings: &Settings, down: Span, up: Option<Span>) -> (Topology, Network) {
    let topology = dual_homed(4, 2);
    let mut flows: Vec<FlowSpec> = Vec::new();
    for number in 0..8 {
        // Ports and addresses that count in step would cancel in the hash.
        let [near, far] = ["host0".to_owned(), format!("host{}", 4 + number / 2)];
        flows.push(flow(&topology, &near, &far, 15_000_000));
        flows.push(flow(&topology, &far, &near, 15_000_000));
    }
    let mut network = build(&topology, settings, &flows);
    let host = topology.find("host0").unwrap();
    let what = FailedElement::Link(topology.nodes()[host].ports[0].link());
    let [down, up] = [Some(down), up].map(|at| at.map(|at| Time::ZERO + at));
    let failure = ScheduledFailure { is_silent: false, what, down: down.unwrap(), up };
    network.schedule_failures(vec![failure], Span::from_us(100));
    (topology, network)
}

/// Every flow of a host outlives one of its two ports, whatever the transport and the choice; flows come back with the port.
#[test]
fn flows_move_away_from_a_dead_port_and_back() {
    let carrier = Span::from_us(500);
    for transport in [TransportSettings::of_tcp(impatient().into(), priority(LOSSLESS)), rdma(NO_CONTROL)] {
        for choice in [
            PortChoice::Lacp,
            PortChoice::ActiveBackup,
            PortChoice::QueueAffinity,
            PortChoice::LeastLoaded,
            PortChoice::Rail,
            PortChoice::RoundRobin,
        ] {
            let host_ports = HostPortSettings { choice, carrier, ..HostPortSettings::DEFAULT };
            let settings = Settings { transports: vec![transport.clone()], host_ports, ..roce(NO_CONTROL) };
            for up in [None, Some(Span::from_ms(4))] {
                let (topology, mut network) = with_dead_port(&settings, Span::from_ms(1), up);
                let ending = proceed(&mut network, Time::ZERO + Span::from_secs(60));
                let records = network.flow_records(ending.now);
                let done = records.iter().filter(|record| record.status == FlowStatus::Finished).count();
                assert_eq!(done, records.len(), "{choice:?}, up {up:?}");
                let sent = sent_by_ports(&network, &topology, "host0", ending.now);
                // 12.5 MB pass in the millisecond before, and 6.5 more if nobody notices for half of one.
                assert!(up.is_some() || sent[0] < 19_000_000, "{choice:?}: by the dead port: {sent:?}");
                // Without a primary port the backup stays the active one.
                let returns =
                    up.is_some() && !matches!(choice, PortChoice::ActiveBackup | PortChoice::RoundRobin);
                assert!(!returns || sent[0] > 19_000_000, "{choice:?}: back on the port: {sent:?}");
                assert_eq!(drops(&network, &ending), [0; 6], "a switch dropped for want of room");
            }
        }
    }
}

/// A host that never looks at its carrier keeps sending into the dead port: its flows there stand still.
#[test]
fn without_monitoring_nothing_moves() {
    let host_ports =
        HostPortSettings { choice: PortChoice::Xor, carrier: Span::ZERO, ..HostPortSettings::DEFAULT };
    let settings = Settings { host_ports, ..roce(NO_CONTROL) };
    let (_, mut network) = with_dead_port(&settings, Span::from_us(100), None);
    let ending = proceed(&mut network, Time::ZERO + Span::from_ms(50));
    let stuck = network
        .flow_records(ending.now)
        .iter()
        .filter(|record| record.status != FlowStatus::Finished)
        .count();
    assert!(stuck > 0);
}

/// A look at the carrier comes once an interval, at a phase of the host: the delay is uniform below the interval. LACP needs three intervals.
#[test]
fn dead_ports_are_noticed_at_the_next_look() {
    let settings = HostPortSettings::DEFAULT;
    let from = |at: Time, noticed: Option<Time>| (noticed.unwrap() - at).as_secs_f64();
    // From the first instant on, at which no host has looked yet.
    for at in [Span::ZERO, Span::from_ms(1), Span::from_secs(500)].map(|since| Time::ZERO + since) {
        let delays: Vec<f64> =
            (0..2_000).map(|host| from(at, settings.notices_carrier(NodeId(host), at, 1))).collect();
        assert!(delays.iter().all(|delay| (0.0..=0.1).contains(delay)));
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean - 0.05).abs() < 0.002, "{mean}");
        for (lacp, range) in [(Span::from_secs(1), 2.0..=3.0), (Span::from_secs(30), 60.0..=90.0)] {
            let settings = HostPortSettings { lacp, ..settings };
            let mut delays = (0..500).map(|host| from(at, settings.notices_silence(NodeId(host), at, 1)));
            assert!(delays.all(|delay| range.contains(&delay)));
        }
    }
    let at = Time::ZERO + Span::from_secs(500);
    assert_eq!(HostPortSettings { carrier: Span::ZERO, ..settings }.notices_carrier(NodeId(0), at, 1), None);
    assert_eq!(
        HostPortSettings { choice: PortChoice::Xor, ..settings }.notices_silence(NodeId(0), at, 1),
        None
    );
}

/// A slow receiver reads both of its ports at one rate and pauses both.
#[test]
fn a_slow_receiver_shares_its_rate_among_its_ports() {
    let topology = planes(3, 2);
    let receiver = SlowReceiverSettings {
        host: topology.find("host0").unwrap(),
        rate: pauseframe_units::BitRate::gbps(40),
        buffer: Bytes(1_000_000),
        stop: None,
    };
    let settings = with_choice(PortChoice::Rail, Settings { receivers: vec![receiver], ..roce(NO_CONTROL) });
    let size = 20_000_000;
    let flows = ["host1", "host1", "host2", "host2"].map(|source| flow(&topology, source, "host0", size));
    let (mut network, ending) = run(&topology, &settings, &flows);
    let records = network.flow_records(ending.now);
    let last = records.iter().map(|record| record.end).max().unwrap();
    let rate = 4.0 * size as f64 * 8.0 / (last - Time::ZERO).as_secs_f64() / 1e9;
    // 40 Gb/s less headers of 66 in 1,090 bytes.
    assert!((rate / (40.0 * 1024.0 / 1090.0) - 1.0).abs() < 0.01, "{rate}");
    let pauses = network.port_reports(ending.now);
    let host = receiver.host;
    for node in &topology.ports_of_hosts()[&host] {
        let port = topology.nodes()[*node].ports[0];
        let sent: u64 = pauses
            .iter()
            .filter(|report| report.port == port.reverse())
            .map(|report| report.pauses_sent)
            .sum();
        assert!(sent > 0, "{} pauses", topology.port_name(port));
    }
}

/// Datagrams reach their sink by any port, and their source moves too.
#[test]
fn datagrams_move_too() {
    let udp = UdpSettings { rate: pauseframe_units::BitRate::gbps(1), payload: 1000, ecn: false };
    let transport =
        TransportSettings { protocol: pauseframe_fabric::ProtocolSettings::Udp(udp), priority: priority(0) };
    let host_ports =
        HostPortSettings { choice: PortChoice::Xor, carrier: Span::from_us(50), ..HostPortSettings::DEFAULT };
    let settings = Settings { transports: vec![transport], host_ports, ..settings(config()) };
    let topology = dual_homed(4, 2);
    let flows: Vec<FlowSpec> =
        (4..8).map(|host| flow(&topology, "host0", &format!("host{host}"), 1_000_000)).collect();
    let mut network = build(&topology, &settings, &flows);
    let what = FailedElement::Link(topology.nodes()[topology.find("host0").unwrap()].ports[0].link());
    network.schedule_failures(
        vec![ScheduledFailure {
            is_silent: false,
            what,
            down: Time(1_000_000_000),
            up: Some(Time(5_000_000_000)),
        }],
        Span::from_us(10),
    );
    let ending = proceed(&mut network, Time::MAX);
    for record in network.flow_records(ending.now) {
        let counts = record.datagrams;
        assert_eq!(counts.sent, counts.delivered + counts.lost, "{counts:?}");
        assert!(counts.delivered > 990);
    }
}

/// A link that damages every frame keeps its carrier: LACP alone finds it, at both ends, and flows move; without LACP they stand still.
#[test]
fn silent_links_are_found_by_lacp_alone() {
    let topology = dual_homed(4, 2);
    let flows: Vec<FlowSpec> = (0..8)
        .map(|number| flow(&topology, &format!("host{}", 4 + number / 2), "host0", 4_000_000))
        .collect();
    for (choice, is_found) in [(PortChoice::Lacp, true), (PortChoice::Xor, false)] {
        let lacp = Span::from_us(400);
        let host_ports =
            HostPortSettings { choice, lacp, carrier: Span::from_us(1), ..HostPortSettings::DEFAULT };
        let settings = Settings { host_ports, ..roce(NO_CONTROL) };
        let mut network = build(&topology, &settings, &flows);
        let second = topology.find("host0.eth2").unwrap();
        let what = FailedElement::Link(topology.nodes()[second].ports[0].link());
        let failure =
            ScheduledFailure { what, down: Time::ZERO + Span::from_us(200), up: None, is_silent: true };
        network.schedule_failures(vec![failure], Span::from_us(10));
        let ending = proceed(&mut network, Time::ZERO + Span::from_ms(15));
        let records = network.flow_records(ending.now);
        let done = records.iter().filter(|record| record.status == FlowStatus::Finished).count();
        assert_eq!(done == records.len(), is_found, "{choice:?}: {done} of {} finished", records.len());
    }
}

/// Ideal times are those of the intact network, also of flows that begin while a port is dead or just after its repair.
#[test]
fn ideal_times_know_no_failures() {
    let topology = dual_homed(4, 2);
    let starts = [0, 300, 600, 1_010, 2_000].map(Span::from_us);
    let flows: Vec<FlowSpec> = (0..40)
        .map(|number| FlowSpec {
            start: Time::ZERO + starts[number / 8],
            ..flow(&topology, &format!("host{}", 4 + number % 4), &format!("host{}", number % 3), 20_000)
        })
        .collect();
    let choices = [
        PortChoice::Lacp,
        PortChoice::Xor,
        PortChoice::ActiveBackup,
        PortChoice::QueueAffinity,
        PortChoice::Rail,
    ];
    for choice in choices {
        let ideals = |fails: bool| {
            let settings = with_choice(choice, roce(NO_CONTROL));
            let mut network = build(&topology, &settings, &flows);
            let port = topology.find("host0.eth2").unwrap();
            let what = FailedElement::Link(topology.nodes()[port].ports[0].link());
            let [down, up] = [200, 1_000].map(|time| Time::ZERO + Span::from_us(time));
            let failure = ScheduledFailure { what, down, up: Some(up), is_silent: false };
            network.schedule_failures(if fails { vec![failure] } else { Vec::new() }, Span::from_us(20));
            let ending = proceed(&mut network, Time::ZERO + Span::from_ms(15));
            network.flow_records(ending.now).iter().map(|record| record.ideal).collect::<Vec<_>>()
        };
        assert_eq!(ideals(true), ideals(false), "{choice:?}");
    }
}

/// Packets that take turns at two ports share the links behind them, and a queue pair is paced at the rate of one port.
#[test]
fn ideal_times_of_ports_in_turn_know_what_is_slower() {
    let fast = link(GBPS_100, Span::from_us(1));
    let round_robin = |transport: TransportSettings| {
        let mut settings = with_choice(PortChoice::RoundRobin, roce(NO_CONTROL));
        settings.transports = vec![transport];
        settings
    };
    let slowdown = |topology: &Topology, settings: &Settings, to: &str| {
        let (mut network, ending) = run(topology, settings, &[flow(topology, "host0", to, 8 << 20)]);
        let record = network.flow_records(ending.now)[0];
        assert_eq!(record.status, FlowStatus::Finished);
        fct(&record).0 as f64 / record.ideal.0 as f64
    };
    let mut unordered = rdma(NO_CONTROL);
    if let ProtocolSettings::Rdma(rdma) = &mut unordered.protocol {
        rdma.pair = QueuePairSettings { selective_repeat: true, unordered: true, ..rdma.pair };
    }
    for count in [2, 4] {
        let of_pair = slowdown(&planes(2, count), &round_robin(unordered.clone()), "host1");
        assert!((1.0..1.01).contains(&of_pair), "{count} planes: {of_pair}");
    }
    let homes = Homes { ports_per_host: 2, ..Homes::SINGLE };
    let tcp = TransportSettings::of_tcp(impatient().into(), priority(LOSSLESS));
    // Behind the same two switches, and two hops further.
    for (rate, to) in [(100, "host1"), (100, "host4"), (10, "host4")] {
        let slow = link(rate, Span::from_us(1));
        let behind = split(&homes.apply(leaf_spine(4, 1, 2, fast, slow).unwrap()).unwrap());
        let of_flow = slowdown(&behind, &round_robin(tcp.clone()), to);
        assert!((1.0..1.1).contains(&of_flow), "{rate} Gb/s to {to}: {of_flow}");
    }
}

/// Pause frames of one of two ports leave what the other port carries unchanged to the byte, in planes and in one fabric.
#[test]
fn a_pause_storm_at_one_port_leaves_the_other_alone() {
    let rail = with_choice(PortChoice::Rail, roce(NO_CONTROL));
    for topology in [planes(3, 2), dual_homed(2, 2)] {
        // Flows take turns at ports: each port of host1 receives one from host0.
        let flows = vec![flow(&topology, "host0", "host1", 20_000_000); 2];
        let run_with = |storms: bool| {
            let mut network = build(&topology, &rail, &flows);
            let host = topology.find("host1").unwrap();
            let [first, second] = [0, 1].map(|number| topology.ports_of_hosts()[&host][number]);
            let storm = PauseStorm {
                port: topology.nodes()[first].ports[0],
                priorities: vec![priority(LOSSLESS)],
                every: None,
                quanta: u16::MAX,
                start: Time::ZERO + Span::from_us(100),
                stop: Some(Time::ZERO + Span::from_ms(1)),
            };
            network.add_pause_storms(storms.then_some(storm).into_iter().collect());
            let received = |network: &Network, port: NodeId, now| -> u64 {
                let into = topology.nodes()[port].ports[0].reverse();
                let rows = network.port_reports(now).into_iter().filter(|report| report.port == into);
                rows.map(|report| report.tx_bytes).sum()
            };
            let counts = [200, 500, 900, 3_000].map(|us| {
                let ending = proceed(&mut network, Time::ZERO + Span::from_us(us));
                [first, second].map(|port| received(&network, port, ending.now))
            });
            let ending = proceed(&mut network, Time::MAX);
            (counts, network.flow_records(ending.now).iter().map(fct).collect::<Vec<Span>>())
        };
        let (calm, stormed) = (run_with(false), run_with(true));
        assert_eq!(calm.0.map(|row| row[1]), stormed.0.map(|row| row[1]));
        assert_eq!(calm.1[1], stormed.1[1]);
        // The storm itself holds the first port for its time.
        let lost = calm.0[2][0] - stormed.0[2][0];
        // 12,278 bytes a microsecond: of 1,126 on the wire 20 are preamble and gap.
        assert!(lost.abs_diff(800 * 12_278) < 50_000, "{lost}");
        assert!(stormed.1[0] > calm.1[0] + Span::from_us(850), "{:?}", stormed.1);
    }
}

/// Once one of two planes has lost its port of a host, all traffic to it comes by the other plane within the detection time: half of it moves.
#[test]
fn a_plane_without_the_port_of_a_host_loses_half_of_its_traffic_to_the_other() {
    const SENDERS: u32 = 4;
    let topology = planes(SENDERS + 1, 2);
    let [before_at, dead_at, detected_at] = [200, 500, 610].map(|us| Time::ZERO + Span::from_us(us));
    let receiver = topology.find("host0").unwrap();
    let into = topology.ports_of_hosts()[&receiver].clone();
    let into: Vec<_> = into.iter().map(|port| topology.nodes()[*port].ports[0].reverse()).collect();
    // Each sender offers a sixteenth of a port by each of its two flows, so both planes have room for all.
    let stop = Some(Time::ZERO + Span::from_ms(2));
    let one = |from| FlowSpec { stop, ..flow(&topology, &format!("host{from}"), "host0", u64::MAX) };
    let flows: Vec<FlowSpec> = (1..=SENDERS).flat_map(|from| [one(from), one(from)]).collect();
    let udp = UdpSettings { rate: BitRate::gbps(6), payload: 1472, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(udp), priority: priority(LOSSLESS) };
    let settings =
        Settings { transports: vec![transport], ..with_choice(PortChoice::Rail, roce(NO_CONTROL)) };
    let mut network = build(&topology, &settings, &flows);
    let what = FailedElement::Link(into[0].link());
    network.schedule_failures(
        vec![ScheduledFailure { is_silent: false, what, down: dead_at, up: None }],
        Span::from_us(100),
    );
    let mut counts_at = |until: Time| -> Vec<u64> {
        let ending = proceed(&mut network, until);
        let reports = network.port_reports(ending.now);
        let of = |port| reports.iter().filter(|row| row.port == port).map(|row| row.tx_packets).sum();
        into.iter().map(|port| of(*port)).collect()
    };
    let after_at = Time::ZERO + Span::from_us(910);
    let counts = [before_at, dead_at, detected_at, after_at].map(&mut counts_at);
    let between = |span: usize, plane: usize| counts[span + 1][plane] - counts[span][plane];
    let before = [0, 1].map(|plane| between(0, plane));
    assert!(before[0].abs_diff(before[1]) <= u64::from(SENDERS), "{before:?}");
    let after = [0, 1].map(|plane| between(2, plane));
    assert_eq!(after[0], 0);
    assert!(after[1].abs_diff(before[0] + before[1]) <= 2 * u64::from(SENDERS), "{before:?}, then {after:?}");
}
