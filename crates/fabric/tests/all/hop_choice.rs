//! Switches that choose next hops by themselves: what a choice by flowlet or by queue does, in numbers that can be worked out.

use crate::common::*;
use crate::rdma::{NO_CONTROL, rdma, roce};
use pauseframe_fabric::hash_index::{HashIndex, HashIndexSettings, HopWeights};
use pauseframe_fabric::path_hash::{HashFunction, PathHashSettings};
use pauseframe_fabric::{
    ArsMode, ArsSettings, FailedElement, FlowSpec, FlowStatus, HopChoice, Network, ProtocolSettings,
    ScheduledFailure, Settings, TransportSettings, UdpSettings,
};
use pauseframe_rdma::{DpOrdering, QueuePairSettings};
use pauseframe_topology::generate::leaf_spine;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, PortId, Span, Time};

/// Two leaves with `hosts` hosts each, and `spines` spines, all at 10 Gb/s.
fn fabric(spines: u32, hosts: u32) -> Topology {
    let wire = link(10, Span::from_us(1));
    leaf_spine(2, spines, hosts, wire, wire).unwrap()
}

fn with_choice(choice: HopChoice, settings: Settings) -> Settings {
    Settings { hop_choice: Some(choice), ..settings }
}

/// Data packets that leaf0 has sent to each spine.
pub(crate) fn packets_to_spines(network: &Network, topology: &Topology, now: Time) -> Vec<u64> {
    let leaf = topology.find("leaf0").unwrap();
    let reports = network.port_reports(now);
    let of_port = |port: &pauseframe_units::PortId| {
        let rows = reports.iter().filter(|report| report.port == *port);
        rows.map(|report| report.tx_packets).sum()
    };
    let name =
        |port: &&pauseframe_units::PortId| topology.nodes()[topology.peer(**port)].name.starts_with("spine");
    topology.nodes()[leaf].ports.iter().filter(name).map(of_port).collect()
}

/// A paced queue pair at 10 Gb/s has gaps of 0.9 us, so a gap of 100 us begins no flowlet: the flow keeps its path.
#[test]
fn a_paced_flow_is_one_flowlet() {
    let topology = fabric(4, 1);
    let settings = with_choice(HopChoice::LetFlow { gap: Span::from_us(100) }, roce(NO_CONTROL));
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", 10_000_000)]);
    assert_eq!(network.flow_records(ending.now)[0].retransmits, 0);
    assert_eq!(network.flowlet_moves(), 0);
    let used =
        packets_to_spines(&network, &topology, ending.now).iter().filter(|packets| **packets > 0).count();
    assert_eq!(used, 1);
}

/// Datagrams with gaps above the threshold are a flowlet each: of n next hops a flowlet moves with probability 1 - 1/n.
#[test]
fn gaps_begin_flowlets() {
    let topology = fabric(4, 1);
    let udp = UdpSettings { rate: BitRate::gbps(1), payload: 1_000, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(udp), priority: priority(0) };
    let settings = Settings { transports: vec![transport], ..settings(config()) };
    // A datagram takes 8.5 us at 1 Gb/s.
    for (gap, moves) in [(Span::from_us(5), 3_750.0), (Span::from_us(20), 0.0)] {
        let settings = with_choice(HopChoice::LetFlow { gap }, settings.clone());
        let (network, _) = run(&topology, &settings, &[flow(&topology, "host0", "host1", 5_000_000)]);
        let seen = network.flowlet_moves() as f64;
        assert!(
            (seen - moves).abs()
                <= 5.0 * (5_000.0 * 0.75 * 0.25_f64).sqrt() * f64::from(u8::from(moves > 0.0)),
            "{seen}"
        );
    }
}

/// Receivers that take packets in any order lose nothing to a choice by packet; m senders at line rate keep queues at m packets.
#[test]
fn a_choice_by_queue_keeps_queues_short() {
    let topology = fabric(8, 8);
    let mut transport = rdma(NO_CONTROL);
    if let ProtocolSettings::Rdma(rdma) = &mut transport.protocol {
        rdma.pair = QueuePairSettings { selective_repeat: true, unordered: true, ..rdma.pair };
    }
    let settings = Settings { transports: vec![transport], ..roce(NO_CONTROL) };
    let flows: Vec<FlowSpec> = (0..8)
        .map(|host| flow(&topology, &format!("host{host}"), &format!("host{}", 8 + host), 4_000_000))
        .collect();
    let worst = |choice| {
        let (mut network, ending) = run(&topology, &with_choice(choice, settings.clone()), &flows);
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|record| record.status == FlowStatus::Finished), "{choice:?}");
        assert!(records.iter().all(|record| record.retransmits == 0), "{choice:?}");
        let leaf = topology.find("leaf0").unwrap();
        let reports = network.port_reports(ending.now);
        let own = reports.iter().filter(|report| topology.owner(report.port) == leaf);
        own.map(|report| report.backlog_max).max().unwrap()
    };
    let frame = 1024 + 44 + 18 + 4;
    let [spray, drill, adaptive] =
        [HopChoice::Spray, HopChoice::Drill { samples: 2 }, HopChoice::Adaptive].map(worst);
    assert!(adaptive <= 3 * frame, "{adaptive}");
    assert!(drill <= 8 * frame, "{drill}");
    assert!(spray > 2 * drill, "{spray} against {drill}");
}

/// Packets of a flow in turn: uplinks carry equally many, within one. m senders at line rate keep queues at m packets.
#[test]
fn a_turn_for_each_packet_loads_uplinks_equally() {
    for spines in [2, 3, 8] {
        let topology = fabric(spines, 1);
        let settings = with_choice(HopChoice::RoundRobin, any_order());
        let (network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host1", 4_000_000)]);
        let sent = packets_to_spines(&network, &topology, ending.now);
        assert!(sent.iter().max().unwrap() - sent.iter().min().unwrap() <= 1, "{sent:?}");
    }
    let topology = fabric(8, 8);
    let flows: Vec<FlowSpec> = (0..8)
        .map(|host| flow(&topology, &format!("host{host}"), &format!("host{}", 8 + host), 1_000_000))
        .collect();
    let settings = with_choice(HopChoice::RoundRobin, any_order());
    let (network, ending) = run(&topology, &settings, &flows);
    let leaf = topology.find("leaf0").unwrap();
    let reports = network.port_reports(ending.now);
    let to_spines = reports.iter().filter(|report| {
        topology.owner(report.port) == leaf
            && topology.nodes()[topology.peer(report.port)].name.starts_with("spine")
    });
    let longest = to_spines.map(|report| report.backlog_max).max().unwrap();
    assert!(longest <= 8 * (1024 + 44 + 18 + 4), "{longest}");
}

const ARS: ArsSettings = ArsSettings {
    mode: ArsMode::FlowletQuality,
    idle: Span::from_us(256),
    flow_states: 512,
    sampling: Span::from_us(16),
    low: 20,
    high: 80,
};

pub(crate) fn any_order() -> Settings {
    let mut transport = rdma(NO_CONTROL);
    if let ProtocolSettings::Rdma(rdma) = &mut transport.protocol {
        rdma.pair = QueuePairSettings { selective_repeat: true, unordered: true, ..rdma.pair };
    }
    Settings { transports: vec![transport], ..roce(NO_CONTROL) }
}

/// Flows of line rate that begin one after another find an idle uplink each by quality, and keep it: paced, they make no flowlets.
#[test]
fn flowlets_go_where_the_load_is_low() {
    let topology = fabric(4, 4);
    let start = |host: u64| Time::ZERO + Span::from_us(200 * host);
    let flows: Vec<FlowSpec> = (0..4_u64)
        .map(|host| FlowSpec {
            start: start(host),
            ..flow(&topology, &format!("host{host}"), &format!("host{}", 4 + host), 2_000_000)
        })
        .collect();
    for mode in [ArsMode::FlowletQuality, ArsMode::Fixed] {
        let settings = with_choice(HopChoice::Ars(ArsSettings { mode, ..ARS }), roce(NO_CONTROL));
        for seed in 1..=5 {
            let (mut network, ending) = run(&topology, &Settings { seed, ..settings.clone() }, &flows);
            let records = network.flow_records(ending.now);
            assert!(records.iter().all(|record| fct(record) == record.ideal), "seed {seed}: {records:?}");
            assert_eq!(network.flowlet_moves(), 0);
        }
    }
}

/// A fixed flow keeps its port over gaps, moves when that is lost, and does not come back.
#[test]
fn a_fixed_flow_keeps_its_port_until_that_is_lost() {
    let topology = fabric(4, 1);
    let udp = UdpSettings { rate: BitRate::gbps(1), payload: 1_000, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(udp), priority: priority(0) };
    let settings = Settings { transports: vec![transport], ..settings(config()) };
    let ars = ArsSettings { mode: ArsMode::Fixed, idle: Span::from_us(5), ..ARS };
    let settings = with_choice(HopChoice::Ars(ars), settings);
    let flows = [flow(&topology, "host0", "host1", 5_000_000)];
    let used = |network: &Network, now| -> Vec<usize> {
        let sent = packets_to_spines(network, &topology, now);
        (0..4).filter(|spine| sent[*spine] > 0).collect()
    };
    let (network, ending) = run(&topology, &settings, &flows);
    let alone = used(&network, ending.now);
    assert_eq!((alone.len(), network.flowlet_moves()), (1, 0));

    let mut network = build(&topology, &settings, &flows);
    let what = FailedElement::Link(port(&topology, "leaf0", &format!("spine{}", alone[0])).link());
    let [down, up] = [10, 20].map(|ms| Time::ZERO + Span::from_ms(ms));
    let failure = ScheduledFailure { is_silent: false, what, down, up: Some(up) };
    network.schedule_failures(vec![failure], Span::from_us(100));
    let before = proceed(&mut network, Time::ZERO + Span::from_ms(19));
    let after_loss = packets_to_spines(&network, &topology, before.now);
    let ending = proceed(&mut network, Time::MAX);
    let at_end = packets_to_spines(&network, &topology, ending.now);
    assert_eq!(used(&network, ending.now).len(), 2);
    assert_eq!(after_loss[alone[0]], at_end[alone[0]]);
}

/// Flowlets to random ports move as often as `LetFlow`'s, unless flows share a state.
#[test]
fn random_flowlets_of_ars_are_those_of_letflow() {
    let topology = fabric(4, 1);
    let udp = UdpSettings { rate: BitRate::gbps(1), payload: 1_000, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(udp), priority: priority(0) };
    let settings = Settings { transports: vec![transport], ..settings(config()) };
    let ars = ArsSettings { mode: ArsMode::FlowletRandom, idle: Span::from_us(5), ..ARS };
    let settings = with_choice(HopChoice::Ars(ars), settings);
    let (network, _) = run(&topology, &settings, &[flow(&topology, "host0", "host1", 5_000_000)]);
    let moves = network.flowlet_moves() as f64;
    assert!((moves - 3_750.0).abs() <= 5.0 * (5_000.0 * 0.75 * 0.25_f64).sqrt(), "{moves}");
}

/// Packets by quality keep queues short while samples are fresh; with old samples all packets of an interval go one way.
#[test]
fn old_samples_make_packets_crowd() {
    let topology = fabric(8, 8);
    let flows: Vec<FlowSpec> = (0..8)
        .map(|host| flow(&topology, &format!("host{host}"), &format!("host{}", 8 + host), 1_000_000))
        .collect();
    let worst = |sampling| {
        let ars = ArsSettings { mode: ArsMode::PacketQuality, sampling, ..ARS };
        let settings = with_choice(HopChoice::Ars(ars), any_order());
        let (mut network, ending) = run(&topology, &settings, &flows);
        let records = network.flow_records(ending.now);
        assert!(
            records.iter().all(|record| record.status == FlowStatus::Finished && record.retransmits == 0)
        );
        let leaf = topology.find("leaf0").unwrap();
        let reports = network.port_reports(ending.now);
        reports
            .iter()
            .filter(|report| topology.owner(report.port) == leaf)
            .map(|report| report.backlog_max)
            .max()
    };
    let [fresh, old] = [Span::from_us(1), Span::from_us(64)].map(|sampling| worst(sampling).unwrap());
    assert!(2 * fresh < old, "{fresh} against {old}");
}

fn hashed(index: HashIndexSettings, settings: Settings) -> Settings {
    let path_hash = PathHashSettings { function: HashFunction::Crc32, index, ..PathHashSettings::IDEAL };
    Settings { path_hash, ..settings }
}

/// The uplinks that flows take at leaf0 before and after a link to a spine is lost.
fn uplinks_around_a_loss(index: HashIndexSettings, lost: &str) -> Vec<[PortId; 2]> {
    const FLOWS: usize = 2_000;
    let topology = fabric(5, 1);
    let flows = vec![flow(&topology, "host0", "host1", 100); FLOWS];
    let mut network = build(&topology, &hashed(index, settings(config())), &flows);
    let what = FailedElement::Link(port(&topology, "leaf0", lost).link());
    let failure = ScheduledFailure { is_silent: false, what, down: Time::ZERO + Span::from_ms(20), up: None };
    network.schedule_failures(vec![failure], Span::from_us(1));
    let uplinks = |network: &Network| -> Vec<PortId> {
        (0..FLOWS as u32).map(|flow| network.path_of_flow(flow).unwrap()[1]).collect()
    };
    proceed(&mut network, Time::ZERO + Span::from_ms(10));
    let before = uplinks(&network);
    proceed(&mut network, Time::ZERO + Span::from_ms(30));
    before.into_iter().zip(uplinks(&network)).map(|(before, after)| [before, after]).collect()
}

/// The loss of one of five next hops: a remainder keeps a fifth of the flows, thresholds a half (RFC 2992), buckets all but those of the lost one.
#[test]
fn what_a_lost_next_hop_moves_depends_on_the_index() {
    let with = |index| HashIndexSettings { index, weights: HopWeights::Equal, buckets: 60 };
    let topology = fabric(5, 1);
    let lost = port(&topology, "leaf0", "spine4");
    for (index, kept) in [(HashIndex::Modulo, 0.2), (HashIndex::Threshold, 0.5), (HashIndex::Resilient, 0.8)]
    {
        let moves = uplinks_around_a_loss(with(index), "spine4");
        let same = moves.iter().filter(|[before, after]| before == after).count() as f64 / moves.len() as f64;
        let sigma = (kept * (1.0 - kept) / moves.len() as f64).sqrt();
        assert!((same - kept).abs() < 4.0 * sigma, "{index:?}: {same}, expected {kept}");
        assert!(moves.iter().all(|[_, after]| *after != lost));
        if index == HashIndex::Resilient {
            assert!(moves.iter().all(|[before, after]| (before == after) == (*before != lost)));
        }
    }
}

/// Uplinks of 100 and 300 Gb/s get flows in proportion to their rates, however fast the hosts are.
#[test]
fn weights_follow_capacity() {
    for of_hosts in [10, 400] {
        let mut topology = Topology::new();
        let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
        let [left, right, narrow, wide] =
            ["left", "right", "narrow", "wide"].map(|name| topology.add_node(name, NodeKind::Switch, None));
        let wire = |gbps| link(gbps, Span::from_us(1));
        for (from, to, gbps) in
            [(a, left, of_hosts), (b, right, of_hosts), (left, narrow, 100), (left, wide, 300)]
        {
            topology.add_link(from, to, wire(gbps));
        }
        // Behind the first link the narrow way stays narrow, and the wide one narrows to 200.
        topology.add_link(narrow, right, wire(100));
        topology.add_link(wide, right, wire(200));
        let flows = vec![flow(&topology, "a", "b", 100); 3_000];
        for index in [HashIndex::Threshold, HashIndex::Resilient] {
            let index = HashIndexSettings { index, weights: HopWeights::Capacity, buckets: 120 };
            let (network, _) = run(&topology, &hashed(index, settings(config())), &flows);
            let to_wide = port(&topology, "left", "wide");
            let wide =
                (0..3_000).filter(|flow| network.path_of_flow(*flow).unwrap()[1] == to_wide).count() as f64;
            assert!((wide - 2_000.0).abs() < 4.0 * (3_000.0 * 2.0 / 9.0_f64).sqrt(), "{index:?}: {wide}");
        }
    }
}

/// A flow of 100 Gb/s over n uplinks of 10 Gb/s takes size / (n 10 Gb/s) and what is added before and after the first packet, whatever chooses the
/// uplink of each packet, and alone it takes hardly longer.
#[test]
fn ideal_times_know_the_links_between_switches() {
    const SIZE: u64 = 3_000_000;
    let [fast, slow] = [100, 10].map(|rate| link(rate, Span::from_us(1)));
    for spines in [1, 2, 4] {
        let topology = leaf_spine(2, spines, 2, fast, slow).unwrap();
        for choice in [HopChoice::Adaptive, HopChoice::Drill { samples: 2 }, HopChoice::Spray] {
            let settings = with_choice(choice, any_order());
            let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "host0", "host2", SIZE)]);
            let record = network.flow_records(ending.now)[0];
            let packets = SIZE.div_ceil(1024);
            // Headers, frame, preamble and gap of each; the first packet has the RETH.
            let wire = SIZE + packets * (44 + 18 + 4 + 20) + 16;
            let together = Span(wire * 800 / u64::from(spines));
            let way = Span::from_us(4 + 4);
            assert!(record.ideal >= together, "{choice:?}, {spines}: {} is below {together}", record.ideal);
            assert!(record.ideal <= together + way, "{choice:?}, {spines}: {}", record.ideal);
            let slowdown = fct(&record).0 as f64 / record.ideal.0 as f64;
            assert!((1.0..1.1).contains(&slowdown), "{choice:?}, {spines}: {slowdown}");
        }
    }
}

/// The settings of queue pairs that place packets in any order, or take them in order.
fn placing(dp_ordering: DpOrdering, selective_repeat: bool) -> Settings {
    let mut transport = rdma(NO_CONTROL);
    if let ProtocolSettings::Rdma(rdma) = &mut transport.protocol {
        rdma.pair = QueuePairSettings { dp_ordering, selective_repeat, ..rdma.pair };
    }
    Settings { transports: vec![transport], ..roce(NO_CONTROL) }
}

/// Whatever chooses by packet, at 25 to 400 Gb/s: nothing is sent again where cards place packets in any order. With a random choice much is where they do not.
#[test]
fn placement_in_any_order_sends_nothing_again() {
    let by_packet = ArsSettings { mode: ArsMode::PacketQuality, ..ARS };
    let choices = [
        HopChoice::Spray,
        HopChoice::RoundRobin,
        HopChoice::Drill { samples: 2 },
        HopChoice::Adaptive,
        HopChoice::Ars(by_packet),
    ];
    for (rate, choice) in [25, 100, 400].into_iter().flat_map(|rate| choices.map(|choice| (rate, choice))) {
        let wire = link(rate, Span::from_us(1));
        let topology = leaf_spine(2, 4, 4, wire, wire).unwrap();
        let flows: Vec<FlowSpec> = (0..4)
            .map(|host| flow(&topology, &format!("host{host}"), &format!("host{}", 4 + host), 1_000_000))
            .collect();
        let again = |dp_ordering, selective_repeat| {
            let settings = with_choice(choice, placing(dp_ordering, selective_repeat));
            let (mut network, ending) = run(&topology, &settings, &flows);
            let records = network.flow_records(ending.now);
            assert!(records.iter().all(|record| record.status == FlowStatus::Finished), "{choice:?}");
            records.iter().map(|record| record.retransmits).sum::<u32>()
        };
        for selective_repeat in [false, true] {
            assert_eq!(again(DpOrdering::OooRw, selective_repeat), 0, "{rate} {choice:?}");
        }
        // Four flows on four equal paths may keep their order where queues or turns decide.
        if choice == HopChoice::Spray {
            assert!(again(DpOrdering::InOrder, false) > 0, "{rate}");
        }
    }
}

/// Flows of line rate between two racks over as many uplinks: independent hashes use 1 - (1 - 1/n)^n of these, and so much of the rate arrives.
#[test]
fn a_permutation_over_independent_hashes_gets_its_share() {
    const N: u32 = 32;
    let topology = fabric(N, N);
    let span = Span::from_us(200);
    let delivered = |hosts: u32, seed| {
        let pair = |host| flow(&topology, &format!("host{host}"), &format!("host{}", N + host), u64::MAX);
        let flows: Vec<FlowSpec> = (0..hosts).map(pair).collect();
        let mut network = build(&topology, &Settings { seed, ..roce(NO_CONTROL) }, &flows);
        let mut sum_at = |time: Span| {
            let ending = proceed(&mut network, Time::ZERO + time);
            network.flow_records(ending.now).iter().map(|record| record.delivered).sum::<u64>() as f64
        };
        let before = sum_at(span);
        sum_at(span * 2) - before
    };
    let alone = delivered(1, 1);
    let share = |seed| delivered(N, seed) / alone / f64::from(N);
    let mean = (1..=20).map(share).sum::<f64>() / 20.0;
    assert!((mean / 0.632 - 1.0).abs() < 0.02, "{mean}");
}
