//! Switches that choose next hops by themselves: what a choice by flowlet or by queue does, in numbers that can be worked out.

use crate::common::*;
use crate::rdma::{NO_CONTROL, rdma, roce};
use pauseframe_fabric::{
    FlowSpec, FlowStatus, HopChoice, Network, ProtocolSettings, Settings, TransportSettings, UdpSettings,
};
use pauseframe_rdma::QueuePairSettings;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::leaf_spine;
use pauseframe_units::{BitRate, Span, Time};

/// Two leaves with `hosts` hosts each, and `spines` spines, all at 10 Gb/s.
fn fabric(spines: u32, hosts: u32) -> Topology {
    let wire = link(10, Span::from_us(1));
    leaf_spine(2, spines, hosts, wire, wire).unwrap()
}

fn with_choice(choice: HopChoice, settings: Settings) -> Settings {
    Settings { hop_choice: Some(choice), ..settings }
}

/// Data packets that leaf0 has sent to each spine.
fn packets_to_spines(network: &Network, topology: &Topology, now: Time) -> Vec<u64> {
    let leaf = topology.find("leaf0").unwrap();
    let reports = network.port_priority_reports(now);
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
        let reports = network.port_priority_reports(ending.now);
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
