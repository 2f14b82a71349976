//! The log of paths: it counts what ports count, changes nothing, and shows moves and overtaken packets where they are.

use crate::common::*;
use crate::rdma::{NO_CONTROL, rdma, roce};
use pauseframe_fabric::{
    FlowSpec, HopChoice, Network, PathRow, ProtocolSettings, Settings, TransportSettings, UdpSettings,
};
use pauseframe_rdma::QueuePairSettings;
use pauseframe_topology::generate::leaf_spine;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, Span, Time};

fn fabric() -> Topology {
    let wire = link(10, Span::from_us(1));
    leaf_spine(2, 4, 4, wire, wire).unwrap()
}

fn logged(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> (Network, Time, Vec<PathRow>) {
    let plain = run(topology, settings, flows).1.fingerprint;
    let mut network = build(topology, settings, flows);
    network.enable_path_log();
    let ending = proceed(&mut network, Time::MAX);
    assert_eq!(ending.fingerprint, plain, "the log changes nothing");
    let rows = network.path_rows();
    (network, ending.now, rows)
}

fn permutation(topology: &Topology, size: u64) -> Vec<FlowSpec> {
    (0..4).map(|host| flow(topology, &format!("host{host}"), &format!("host{}", 4 + host), size)).collect()
}

/// The sum of the rows of a port is what the port has sent and marked, whether flows have paths or switches choose.
#[test]
fn rows_add_up_to_what_ports_count() {
    let topology = fabric();
    let mut marks = 0;
    for hop_choice in [None, Some(HopChoice::Spray), Some(HopChoice::LetFlow { gap: Span::from_us(5) })] {
        let settings = Settings { hop_choice, marker: step(5_000), ..settings(dctcp(40 * MSS)) };
        let (network, now, rows) = logged(&topology, &settings, &permutation(&topology, 300_000));
        let of_switches = |port| topology.nodes()[topology.owner(port)].kind == NodeKind::Switch;
        for report in network.port_reports(now).iter().filter(|report| of_switches(report.port)) {
            let own = || rows.iter().filter(|row| row.port == report.port).map(|row| row.counts);
            let sums = (own().map(|counts| counts.packets).sum(), own().map(|counts| counts.bytes).sum());
            assert_eq!(sums, (report.tx_packets, report.tx_bytes), "{hop_choice:?}");
            assert_eq!(own().map(|counts| counts.marks).sum::<u64>(), report.ecn_marks, "{hop_choice:?}");
            marks += report.ecn_marks;
        }
        let moved: u64 = rows.iter().map(|row| row.counts.moves).sum();
        if matches!(hop_choice, Some(HopChoice::LetFlow { .. })) {
            assert_eq!(moved, network.flowlet_moves());
        }
        assert_eq!(moved > 0, hop_choice == Some(HopChoice::Spray) || network.flowlet_moves() > 0);
    }
    assert!(marks > 0);
}

/// One path keeps order; sprayed packets come late, by at most as many packets as the queues of all paths hold.
#[test]
fn overtaken_packets_are_counted_where_they_come_late() {
    let topology = fabric();
    let mut transport = rdma(NO_CONTROL);
    if let ProtocolSettings::Rdma(rdma) = &mut transport.protocol {
        rdma.pair = QueuePairSettings { selective_repeat: true, unordered: true, ..rdma.pair };
    }
    for (hop_choice, is_kept) in [(None, true), (Some(HopChoice::Spray), false)] {
        let settings = Settings { hop_choice, transports: vec![transport.clone()], ..roce(NO_CONTROL) };
        let (_, _, rows) = logged(&topology, &settings, &permutation(&topology, 1_000_000));
        let at_receivers = rows
            .iter()
            .filter(|row| row.forward && topology.nodes()[topology.peer(row.port)].kind == NodeKind::Host);
        for row in at_receivers {
            assert_eq!(row.counts.packets, 977, "{row:?}");
            assert_eq!((row.counts.late == 0, row.counts.depth == 0), (is_kept, is_kept), "{row:?}");
            assert!(row.counts.depth < 100, "{row:?}");
        }
        // Leaves send in order: what is late there is what spines have mixed.
        let first =
            |row: &&PathRow| row.forward && topology.nodes()[topology.owner(row.port)].name == "leaf0";
        assert!(rows.iter().filter(first).all(|row| row.counts.late == 0), "{hop_choice:?}");
    }
}

/// Datagrams have no numbers, but rows like others.
#[test]
fn datagrams_are_counted() {
    let topology = fabric();
    let udp = UdpSettings { rate: BitRate::gbps(1), payload: 1_000, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(udp), priority: priority(0) };
    let settings = Settings { transports: vec![transport], ..settings(config()) };
    let (_, _, rows) = logged(&topology, &settings, &[flow(&topology, "host0", "host4", 100_000)]);
    assert_eq!(rows.len(), 3, "leaf, spine, leaf");
    assert!(rows.iter().all(|row| row.counts.packets == 100 && row.counts.late == 0 && row.forward));
}
