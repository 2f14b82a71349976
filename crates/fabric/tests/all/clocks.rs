//! Real clocks: random ties between ports. They change no lone flow, and keep competing ones from locking in phase.

use crate::common::*;
use pauseframe_fabric::{
    FlowRecord, FlowSpec, FrameOverhead, LinkHeadroom, ProtocolSettings, Settings, TransportSettings,
    UdpSettings,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::{dumbbell, fat_tree, leaf_spine, line, star};
use pauseframe_transport::{CongestionControlConfig, CubicConfig, TcpConfig};
use pauseframe_units::{BitRate, Span, Time};

const MS: u64 = 1_000_000_000;

fn records(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> Vec<FlowRecord> {
    let (mut network, ending) = run_until(topology, settings, flows, Time(400 * MS));
    network.flow_records(ending.now)
}

/// The controls, and what starts with ten segments, with all at once, and with a stack.
fn transports() -> Vec<TcpConfig> {
    let cubic = CongestionControlConfig::Cubic(CubicConfig::DEFAULT);
    let slow = |config: TcpConfig| TcpConfig { initial_window: 10 * MSS, ..config };
    vec![
        config(),
        slow(config()),
        slow(TcpConfig { congestion_control: cubic, ..config() }),
        slow(TcpConfig { handshake: true, timestamps: true, mss: 1448, ..dctcp(0) }),
    ]
}

/// To the picosecond, whatever the fabric, the transport and the size.
#[test]
fn a_lone_flow_is_as_exact_as_with_ideal_clocks() {
    let wire = |gbps| link(gbps, Span::from_ns(700));
    let fabrics = [
        star(4, wire(100)).unwrap(),
        dumbbell(2, 2, wire(10), wire(1)).unwrap(),
        leaf_spine(2, 2, 2, wire(25), wire(100)).unwrap(),
        fat_tree(4, wire(10), wire(10)).unwrap(),
    ];
    for topology in &fabrics {
        let hosts: Vec<String> = topology.hosts().map(|host| topology.nodes()[host].name.clone()).collect();
        let ends = [(&hosts[0], &hosts[hosts.len() - 1]), (&hosts[1], &hosts[0])];
        for config in transports() {
            // Buffers that drop (or pause) and that do not, stacks that take time and that take none.
            let all = [
                settings(config.clone()),
                Settings { buffer: per_port(30_000), ..settings(config.clone()) },
                Settings {
                    tx_delay: Span::from_us(3),
                    rx_delay: Span::from_us(2),
                    hop_choice: Some(pauseframe_fabric::HopChoice::Spray),
                    ..settings(config.clone())
                },
                Settings { marker: step(22_500), ..lossless(config.clone(), 225_000) },
                Settings {
                    tx_delay: Span::from_us(3),
                    nic_buffer: 20_000,
                    ..lossless(config.clone(), 80_000)
                },
            ];
            for settings in all {
                for size in [1, 5 * MSS, 300 * MSS + 17] {
                    // One after the other: the second starts long after the first is over.
                    let flows = [0, 300].map(|start| FlowSpec {
                        start: Time(start * MS + 7_654_321),
                        reply: size / 2,
                        ..flow(topology, ends[0].0, ends[0].1, size)
                    });
                    let ideal = records(topology, &settings, &flows);
                    let real = records(topology, &real_clocks(settings.clone()), &flows);
                    let facts = |records: &[FlowRecord]| {
                        records
                            .iter()
                            .map(|r| (r.end, r.delivered, r.retransmits, r.ce_packets))
                            .collect::<Vec<_>>()
                    };
                    assert_eq!(facts(&ideal), facts(&real), "{settings:?} {size}");
                    let lone = [FlowSpec { start: Time::ZERO, ..flow(topology, ends[1].0, ends[1].1, size) }];
                    let ideal = records(topology, &settings, &lone);
                    assert_eq!(
                        facts(&ideal),
                        facts(&records(topology, &real_clocks(settings.clone()), &lone))
                    );
                }
            }
        }
    }
}

/// The share of its datagrams that each of `senders` loses. All send to host 0 at `rate`, each from another phase on.
fn losses(topology: &Topology, settings: &Settings, payload: u32, rate: BitRate, phases: &[u64]) -> Vec<f64> {
    let datagrams = UdpSettings { rate, payload, ecn: false };
    let like = settings.transports[0].clone();
    let transports = vec![TransportSettings { protocol: ProtocolSettings::Udp(datagrams), ..like }];
    let settings = Settings { transports, ..settings.clone() };
    let hosts: Vec<String> = topology.hosts().map(|host| topology.nodes()[host].name.clone()).collect();
    let mut flows: Vec<FlowSpec> = phases
        .iter()
        .enumerate()
        .map(|(sender, phase)| FlowSpec {
            start: Time(*phase),
            stop: Some(Time(10 * MS)),
            ..flow(topology, &hosts[sender + 1], &hosts[0], u64::MAX)
        })
        .collect();
    flows.sort_by_key(|flow| flow.start);
    let (mut network, ending) = run_until(topology, &settings, &flows, Time(12 * MS));
    let records = network.flow_records(ending.now);
    records.iter().map(|r| r.datagrams.lost as f64 / r.datagrams.sent as f64).collect()
}

fn spread(losses: &[f64]) -> f64 {
    let most = losses.iter().copied().fold(0.0, f64::max);
    most - losses.iter().copied().fold(1.0, f64::min)
}

/// htsim's issue 39: a switch that two senders fill at the rate of the port lets one of them through and drops the other's, for good. A real one splits the loss.
#[test]
fn senders_at_line_rate_lose_alike() {
    let topology = star(5, link(100, Span::from_us(1))).unwrap();
    let ideal = Settings { buffer: per_port(1_000_000), ..settings(config()) };
    assert!(spread(&losses(&topology, &ideal, 1472, BitRate::gbps(100), &[0, 0])) > 0.9);
    for phases in [&[0, 0][..], &[0, 40_000], &[0, 61_520, 100_001], &[5, 7, 99_000, 123_039]] {
        let losses = losses(&topology, &real_clocks(ideal.clone()), 1472, BitRate::gbps(100), phases);
        // 81,000 datagrams each.
        assert!(spread(&losses) < 0.03, "{phases:?}: {losses:?}");
    }
}

/// A host at line rate fills a queue that another one has filled. Frames of a third at any phase find room or compete for it,
/// whatever their size: a smaller frame loses no more than an equal one.
#[test]
fn frames_of_any_size_find_places_in_a_full_queue() {
    let topology = star(3, link(10, Span::from_us(1))).unwrap();
    let udp = |rate, payload| UdpSettings { rate, payload, ecn: false };
    let probe = BitRate(12_312_300);
    for buffer in [per_port(225_000), shared_buffer(450_000, 1.0, 0), shared_buffer(450_000, 1.0, 20_000)] {
        let settings = real_clocks(Settings { buffer, ..settings(config()) });
        for payload in [1472, 1471, 1400, 1000, 300, 200] {
            let like = settings.transports[0].clone();
            let of = |udp| TransportSettings { protocol: ProtocolSettings::Udp(udp), ..like.clone() };
            let transports = vec![of(udp(BitRate::gbps(10), 1472)), of(udp(probe, payload))];
            let bulk = FlowSpec { stop: Some(Time(200 * MS)), ..flow(&topology, "host1", "host0", u64::MAX) };
            let fill = flow(&topology, "host2", "host0", 441_600);
            let probes = FlowSpec {
                start: Time(5 * MS),
                stop: Some(Time(190 * MS)),
                transport: 1,
                ..flow(&topology, "host2", "host0", u64::MAX)
            };
            let (mut network, ending) = run_until(
                &topology,
                &Settings { transports, ..settings.clone() },
                &[bulk, fill, probes],
                Time(210 * MS),
            );
            let datagrams = network.flow_records(ending.now)[2].datagrams;
            let share = datagrams.lost as f64 / datagrams.sent as f64;
            // 190 datagrams at least: four standard deviations.
            assert!(
                share < 0.5 + 4.0 * (0.25 / datagrams.sent as f64).sqrt(),
                "{payload}: {share} of {}",
                datagrams.sent
            );
        }
    }
}

/// Saturated links between switches deliver frames evenly spaced, whatever jitter the hosts have; a full queue behind them still splits the loss.
#[test]
fn senders_behind_saturated_links_lose_alike() {
    let wire = link(100, Span::from_us(1));
    // Where three senders come by two spines, those that share a spine get a quarter each: only pairs are even there.
    let phases = [&[0, 0][..], &[0, 40_000], &[0, 61_520, 100_001]];
    let cases = [(2, &phases[..2]), (1, &phases[..])]
        .map(|(spines, phases)| (leaf_spine(4, spines, 1, wire, wire).unwrap(), phases));
    let buffers = [per_port(1_000_000), shared_buffer(2_000_000, 1.0, 0)];
    for ((topology, phases), buffer) in cases.iter().flat_map(|case| buffers.map(|buffer| (case, buffer))) {
        for (seed, phases) in (1..=2).flat_map(|seed| phases.iter().map(move |phases| (seed, phases))) {
            let settings = real_clocks(Settings { seed, buffer, ..settings(config()) });
            let losses = losses(topology, &settings, 1472, BitRate::gbps(100), phases);
            assert!(spread(&losses) < 0.03, "seed {seed} {phases:?}: {losses:?}");
        }
    }
}

/// Frames of one instant go in any order, and the same with each seed.
#[test]
fn ties_alone_part_senders_of_one_phase() {
    let topology = star(3, link(100, Span::from_us(1))).unwrap();
    let ties = |seed| Settings { seed, random_ties: true, buffer: per_port(1_000_000), ..settings(config()) };
    let of = |seed| losses(&topology, &ties(seed), 1472, BitRate::gbps(100), &[0, 0]);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert!(spread(&of(1)) < 0.02, "{:?}", of(1));
}

/// Random ties touch nothing that does not meet: messages on their own paths take as long as ever, however many flows are under way.
#[test]
fn a_message_on_its_own_path_is_as_exact_as_alone() {
    let topology = star(6, link(10, Span::from_us(1))).unwrap();
    let long = |from, to| flow(&topology, from, to, u64::MAX);
    let message = |start| FlowSpec { start: Time(start), ..flow(&topology, "host4", "host5", 50_000) };
    let mut flows = vec![long("host0", "host1"), long("host2", "host3")];
    // Some start while the one before is in the NIC.
    flows.extend((1..100).map(|i| message(i * 31_234_567)));
    let tcp = TcpConfig { initial_window: 10 * MSS, receive_window: 100_000, ..config() };
    for base in [settings(tcp.clone()), lossless(tcp, 400_000)] {
        let of = |settings: &Settings| {
            let (mut network, ending) = run_until(&topology, settings, &flows, Time(10 * MS));
            let records = network.flow_records(ending.now);
            records[2..].iter().map(fct).collect::<Vec<_>>()
        };
        assert_eq!(of(&base), of(&real_clocks(base.clone())));
    }
}

/// The headroom covers the jitter that `wire_jitters` names, and nothing else: clocks have no part in it.
#[test]
fn the_headroom_covers_the_jitter_of_host_links() {
    let jitter = Span::from_us(7);
    for gbps in [1, 10, 100, 400] {
        let wire = link(gbps, Span::from_us(1));
        let topology = star(3, wire).unwrap();
        let pure = real_clocks(lossless(config(), 4_000_000));
        let mut transports = pure.transports.clone();
        transports.extend(settings(config()).transports);
        let mixed = Settings { transports, ..pure.clone() };
        let late = Settings { wire_jitters: jitter_to_switch(&topology, jitter), ..mixed.clone() };
        let needed =
            |settings: &Settings| build(&topology, settings, &[]).network_plan().headroom_reports()[0].needed;
        let plain = LinkHeadroom::new(wire, wire, TAGGED as u32, FrameOverhead::ETHERNET, Span::ZERO, 1);
        assert_eq!(needed(&pure), plain);
        assert_eq!(needed(&mixed), plain);
        let terms = plain.with_jitter(jitter, Span::ZERO, wire.rate, FrameOverhead::ETHERNET);
        assert_eq!(needed(&late), terms);
        let grows = wire.rate.bytes_in(jitter).0 * 1522 / 1542;
        assert!((terms.headroom_bytes().0 - plain.headroom_bytes().0).abs_diff(grows) <= 2);
    }
}

/// Lossy and lossless flows from the same hosts into one port, with no more headroom than is needed: nothing lossless is dropped (a run stops where it is).
#[test]
fn nothing_lossless_is_dropped_behind_late_lossy_frames() {
    for seed in 1..=8 {
        let wire = link([10, 100][seed as usize % 2], Span::from_us(1 + seed));
        let topology = line(2, 3, wire, wire).unwrap();
        let base = real_clocks(lossless(config(), 400_000));
        let mut transports = base.transports.clone();
        transports.extend(settings(dctcp(100 * MSS)).transports);
        let wire_jitters = if seed > 4 { jitter_to_switch(&topology, Span::from_us(seed)) } else { vec![] };
        let settings = Settings { seed, transports, wire_jitters, ..base };
        let pairs = [("host0", 0), ("host0", 1), ("host1", 0), ("host1", 1), ("host2", 0), ("host2", 1)];
        let flows =
            pairs.map(|(from, transport)| FlowSpec { transport, ..flow(&topology, from, "host5", u64::MAX) });
        let (network, ending) = run_until(&topology, &settings, &flows, Time(2 * MS));
        let reports = network.port_reports(ending.now);
        let lossless: Vec<_> = reports.iter().filter(|port| port.priority == priority(LOSSLESS)).collect();
        assert!(lossless.iter().all(|port| port.drops == [0; 6]));
        assert!(lossless.iter().any(|port| port.pauses_received > 10), "nothing was ever full");
    }
}

/// Random ties alone keep lossless flows even.
#[test]
fn ties_keep_lossless_flows_even() {
    for gbps in [10, 25, 100] {
        let topology = star(3, link(gbps, Span::from_us(1))).unwrap();
        let bolt = Settings { marker: step(22_500), ..lossless(dctcp(10 * MSS), 225_000) };
        let flows = ["host0", "host1"].map(|from| flow(&topology, from, "host2", u64::MAX));
        let least = |settings: &Settings| {
            let (mut network, ending) = run_until(&topology, settings, &flows, Time(50 * MS));
            let got: Vec<u64> =
                network.flow_records(ending.now).iter().map(|record| record.delivered).collect();
            got[0].min(got[1]) as f64 / (got[0] + got[1]) as f64
        };
        let real = least(&real_clocks(bolt));
        assert!(real > 0.45, "{gbps} Gb/s: {real}");
    }
}
