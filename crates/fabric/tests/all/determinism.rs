//! The same scenario gives the same run, watched or not, and the same as it did when `fingerprints.csv` was written.

use crate::common::*;
use crate::properties::draw;
use pauseframe_engine::RunEnding;
use pauseframe_fabric::{
    BufferPolicy, FlowRecord, FlowSpec, FrameOverhead, MarkAt, Marker, NetworkPlan, NicQueue, NotEctAction,
    PfcSettings, PortPriorityReport, QueueLengthThreshold, SamplePlan, Settings, StepMarker, ValueByPort,
};
use pauseframe_topology::generate::{dumbbell, fat_tree, leaf_spine, line, ring, star};
use pauseframe_topology::{Channel, Topology};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

const WRITE: &str = "PAUSEFRAME_WRITE_FINGERPRINTS";

#[derive(PartialEq, Debug)]
struct Outcome {
    ending: RunEnding,
    flows: Vec<FlowRecord>,
    ports: Vec<PortPriorityReport>,
}

fn outcome(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> Outcome {
    let (mut network, ending) = run(topology, settings, flows);
    Outcome { ending, flows: network.flow_records(ending.now), ports: network.port_reports(ending.now) }
}

#[test]
fn the_same_run_twice_is_the_same_run() {
    for seed in 200..230 {
        let scenario = draw(seed);
        let once = outcome(&scenario.topology, &scenario.settings, &scenario.flows);
        assert_eq!(once, outcome(&scenario.topology, &scenario.settings, &scenario.flows), "seed {seed}");
    }
}

#[test]
fn another_seed_is_another_run() {
    let topology = fat_tree(4, link(10, Span::from_us(1)), link(10, Span::from_us(1))).unwrap();
    let flows = [flow(&topology, "host0", "host15", 100 * MSS)];
    let settings = |seed, hop_choice| Settings { seed, hop_choice, ..settings(config()) };
    for spray in [None, Some(pauseframe_fabric::HopChoice::Spray)] {
        let prints =
            (0..8).map(|seed| outcome(&topology, &settings(seed, spray), &flows).ending.fingerprint.as_u64());
        let mut prints: Vec<_> = prints.collect();
        prints.sort_unstable();
        prints.dedup();
        assert!(prints.len() >= 3, "four paths, eight seeds: {prints:x?}");
    }
}

/// Samples and captures change nothing that they look at.
#[test]
fn a_watched_run_is_the_same_run() {
    for seed in 200..230 {
        let scenario = draw(seed);
        let bare = outcome(&scenario.topology, &scenario.settings, &scenario.flows);
        let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
        let ports: Vec<_> = (0..scenario.topology.port_count() as u32).map(PortId).collect();
        network.enable_frame_capture(&ports, 10_000);
        let some = ports[..4.min(ports.len())].to_vec();
        network.enable_sampling(SamplePlan { every: Span(33_333_333), ports: some, workloads: vec![true] });
        let ending = proceed(&mut network, Time::MAX);
        assert!(
            !network.take_metric_samples().is_empty() && !network.take_captured_frames().is_empty(),
            "seed {seed}"
        );
        assert_eq!(ending.fingerprint, bare.ending.fingerprint, "seed {seed}");
        assert_eq!(ending.events, bare.ending.events, "seed {seed}");
        assert_eq!(network.flow_records(ending.now), bare.flows, "seed {seed}");
    }
}

/// Everything that a run shows.
#[derive(PartialEq, Debug)]
struct Seen {
    outcome: Outcome,
    samples: Vec<pauseframe_fabric::Sample>,
    frames: Vec<pauseframe_fabric::CapturedFrame>,
    pauses: Vec<pauseframe_fabric::PauseInterval>,
    states: Vec<pauseframe_fabric::StateLogRow>,
    deadlocks: Vec<pauseframe_fabric::Deadlock>,
    throughput: Vec<Vec<u64>>,
    under_way: usize,
}

/// A run with everything recorded and some links failing, with the nodes assigned at random to `partitions` partitions.
fn seen(scenario: &crate::properties::Scenario, seed: u64, partitions: u64) -> Seen {
    let (topology, settings) = (&scenario.topology, &scenario.settings);
    let mut network = build(topology, settings, &scenario.flows);
    let mut rng = pauseframe_engine::random_stream(seed, "cells", partitions);
    let nodes = topology.nodes().len() as u64;
    let mut partition_of: Vec<u16> = (0..nodes).map(|_| rng.uniform_below(partitions) as u16).collect();
    (0..partitions).for_each(|partition| partition_of[partition as usize] = partition as u16);
    for (host, ports) in topology.ports_of_hosts() {
        for port in ports {
            partition_of[port.0 as usize] = partition_of[host.0 as usize];
        }
    }
    // Ports of one host may have left a partition empty.
    let used: std::collections::BTreeSet<u16> = partition_of.iter().copied().collect();
    for partition in &mut partition_of {
        *partition = used.range(..*partition).count() as u16;
    }
    network.divide_into_partitions(&partition_of);
    let ports: Vec<_> = (0..topology.port_count() as u32).map(PortId).collect();
    network.enable_frame_capture(&ports, 5_000);
    if seed.is_multiple_of(2) {
        network.capture_first_hop_only();
    }
    network.enable_sampling(SamplePlan { every: Span(3_333_333), ports, workloads: vec![true] });
    network.enable_state_log(Span(7_777_777), 2_000);
    network.enable_pause_log(500);
    network.enable_deadlock_detection(Span::from_us(20), false);
    if seed.is_multiple_of(3) {
        let what = pauseframe_fabric::FailedElement::Link(pauseframe_units::LinkId(
            seed as u32 % topology.links().len() as u32,
        ));
        let failure = pauseframe_fabric::ScheduledFailure {
            is_silent: false,
            what,
            down: Time(50_000_000),
            up: Some(Time(90_000_000)),
        };
        network.schedule_failures(vec![failure], Span::from_us(10));
    }
    let ending = proceed(&mut network, Time(2_000_000_000));
    network.finish_observers(ending.now);
    Seen {
        outcome: Outcome {
            ending,
            flows: network.flow_records(ending.now),
            ports: network.port_reports(ending.now),
        },
        samples: network.take_metric_samples(),
        frames: network.take_captured_frames(),
        pauses: network.pause_intervals().to_vec(),
        states: network.state_log_rows().to_vec(),
        deadlocks: network.detected_deadlocks().to_vec(),
        throughput: network.throughput_series().goodput_by_interval().map(<[u64]>::to_vec).collect(),
        under_way: network.packets_in_network(),
    }
}

/// However the nodes are divided among partitions, each on another thread, all results are those of one partition.
#[test]
fn a_divided_network_is_the_same_network() {
    for seed in 300..340 {
        let scenario = draw(seed);
        let whole = seen(&scenario, seed, 1);
        assert!(whole.outcome.ending.events > 0);
        for partitions in [2, 3] {
            let parts = seen(&scenario, seed, partitions.min(scenario.topology.nodes().len() as u64));
            let (a, b) = (&whole.outcome, &parts.outcome);
            assert_eq!(a.ending, b.ending, "seed {seed}, {partitions} partitions");
            assert!(whole == parts, "seed {seed}, {partitions} partitions: another run with the same events");
        }
    }
}

/// A row of `fingerprints.csv`.
type Pinned = (&'static str, Topology, Settings, Vec<FlowSpec>);

fn wire() -> Channel {
    link(10, Span::from_us(1))
}

fn newreno() -> TcpConfig {
    TcpConfig { initial_window: 10 * MSS, receive_window: 1 << 22, ..config() }
}

fn dctcp_switches() -> Settings {
    Settings { marker: step(22_500), ..settings(dctcp(10 * MSS)) }
}

fn bolt() -> Settings {
    Settings { marker: step(22_500), ..lossless(dctcp(40 * MSS), 60_000) }
}

fn shared(size: u64, alpha: f64) -> BufferPolicy {
    shared_buffer(size, alpha, 1000)
}

fn incasts() -> Vec<Pinned> {
    let topology = star(9, wire()).unwrap();
    let flows: Vec<_> = (1..9).map(|i| flow(&topology, &format!("host{i}"), "host0", 300_000)).collect();
    let small = Settings { buffer: per_port(40_000), ..settings(newreno()) };
    let handshake = settings(TcpConfig { handshake: true, ..newreno() }).transports;
    let dequeue = Marker::StepMarker(StepMarker {
        k: ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(22_500))),
        at: MarkAt::Dequeue,
        not_ect: NotEctAction::Drop,
    });
    let slow = PfcSettings { reaction: Some(Span::from_ns(600)), quanta: 500, ..pfc() };
    let stack =
        Settings { tx_delay: Span::from_us(9), rx_delay: Span::from_us(24), nic_buffer: 500_000, ..bolt() };
    [
        ("incast-newreno", small.clone()),
        ("incast-handshake", Settings { transports: handshake, ..small }),
        ("incast-dctcp", dctcp_switches()),
        ("incast-dequeue", Settings { marker: dequeue, ..dctcp_switches() }),
        ("incast-bolt", bolt()),
        ("incast-pfc", Settings { pfc: Some(slow), ..lossless(config(), 40_000) }),
        ("incast-shared", Settings { buffer: shared(400_000, 1.0), ..settings(newreno()) }),
        ("incast-stack", stack),
        ("incast-latency", Settings { switch_latency: Span::from_ns(300), ..settings(newreno()) }),
    ]
    .map(|(name, settings)| (name, topology.clone(), settings, flows.clone()))
    .into()
}

fn trees() -> Vec<Pinned> {
    let topology = fat_tree(4, wire(), wire()).unwrap();
    let permutation: Vec<_> = (0..16)
        .map(|i| flow(&topology, &format!("host{i}"), &format!("host{}", (i + 5) % 16), 200_000))
        .collect();
    let requests = permutation.iter().map(|flow| FlowSpec { size: 100, reply: 50_000, ..*flow }).collect();
    let spray = Settings {
        hop_choice: Some(pauseframe_fabric::HopChoice::Spray),
        ..settings(TcpConfig { fast_retransmit: false, ..newreno() })
    };
    vec![
        ("tree-newreno", topology.clone(), settings(newreno()), permutation.clone()),
        ("tree-dctcp", topology.clone(), dctcp_switches(), permutation.clone()),
        ("tree-bolt", topology.clone(), bolt(), permutation.clone()),
        ("tree-spray", topology.clone(), spray, permutation),
        ("tree-replies", topology, bolt(), requests),
    ]
}

fn leaves() -> Vec<Pinned> {
    let topology = leaf_spine(3, 2, 3, wire(), link(40, Span::from_ns(500))).unwrap();
    let flows: Vec<_> = (0..9)
        .map(|i| {
            let start = Time(i * 1_000_000);
            FlowSpec {
                start,
                ..flow(&topology, &format!("host{i}"), &format!("host{}", (i + 4) % 9), 150_000)
            }
        })
        .collect();
    let mut both = bolt();
    both.transports.push(settings(newreno()).transports[0].clone());
    let classes = (0..9).map(|i| FlowSpec { transport: i % 2, ..flows[usize::from(i)] }).collect();
    let pool = Settings { buffer: shared(900_000, 0.5), ..lossless(config(), 0) };
    vec![
        ("leaves-fifo", topology.clone(), Settings { nic_queue: NicQueue::Fifo, ..bolt() }, flows.clone()),
        ("leaves-shared-pfc", topology.clone(), pool, flows),
        ("leaves-two-classes", topology, both, classes),
    ]
}

fn others() -> Vec<Pinned> {
    let pair = dumbbell(4, 4, wire(), wire()).unwrap();
    let across: Vec<_> = (0..4).map(|i| flow(&pair, &format!("l{i}"), &format!("r{i}"), 1_000_000)).collect();
    let lot = line(3, 2, wire(), wire()).unwrap();
    let along =
        [("host0", "host5"), ("host1", "host3"), ("host2", "host4")].map(|(a, b)| flow(&lot, a, b, 500_000));
    let odd = Channel { rate: BitRate(3_333_333_333), delay: Span(123_457) };
    let round = ring(5, 1, odd, odd).unwrap();
    let around =
        (0..5).map(|i| flow(&round, &format!("host{i}"), &format!("host{}", (i + 2) % 5), 100_000)).collect();
    vec![
        ("dumbbell-newreno", pair.clone(), settings(newreno()), across.clone()),
        ("dumbbell-bolt", pair, bolt(), across),
        ("line-pfc", lot, lossless(config(), 50_000), along.into()),
        ("ring-odd-rates", round, Settings { overhead: FrameOverhead::NONE, ..settings(newreno()) }, around),
    ]
}

/// A changed row is a changed result: say so in CHANGELOG.md under "Changed results" and write the file again.
#[test]
fn fingerprints_are_those_on_record() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fingerprints.csv");
    let mut now = String::from("name,fingerprint,finish_ps\n");
    for (name, topology, settings, flows) in [incasts(), trees(), leaves(), others()].concat() {
        let outcome = outcome(&topology, &settings, &flows);
        let finish = outcome.flows.iter().map(|flow| flow.end.0).max().unwrap_or(0);
        writeln!(now, "{name},{},{finish}", outcome.ending.fingerprint).unwrap();
    }
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let differing: Vec<_> = now.lines().filter(|line| !recorded.lines().any(|old| old == *line)).collect();
    assert!(
        differing.is_empty() && recorded.lines().count() == now.lines().count(),
        "not as on record in {}:\n{}\nIf that is meant, say so in CHANGELOG.md under \"Changed results\" and run \
         the test with {WRITE}=1.",
        path.display(),
        differing.join("\n")
    );
}

/// What is decided before a run takes time in proportion to the ports: their square (393,216 of them) would outlast the limit of tests.
#[test]
fn a_fabric_of_65_536_hosts_is_divided_soon() {
    let topology = Arc::new(fat_tree(64, wire(), wire()).unwrap());
    let plan = NetworkPlan::new(topology, Arc::new(settings(config())));
    assert_eq!(plan.useful_partition_count(8), 8);
    let partition_of = plan.assign_nodes(8);
    assert!((0..8).all(|partition| partition_of.contains(&partition)));
}

/// Pods stay whole, partitions have equal sizes, and their number is at most that of the leaf switches.
#[test]
fn a_fat_tree_is_divided_by_pods() {
    let topology = fat_tree(4, wire(), wire()).unwrap();
    let plan = build(&topology, &settings(config()), &[]);
    let plan = plan.network_plan();
    for (partitions, hosts) in [(1, 16), (2, 8), (4, 4)] {
        let partition_of = plan.assign_nodes(partitions);
        let partition = |node: pauseframe_units::NodeId| usize::from(partition_of[node.0 as usize]);
        for number in 0..partitions {
            assert_eq!(topology.hosts().filter(|host| partition(*host) == number).count(), hosts);
            assert!(
                topology.switches().filter(|switch| partition(*switch) == number).count() >= 20 / partitions
            );
        }
        for host in topology.hosts() {
            let leaf = topology.peer(topology.nodes()[host].ports[0]);
            assert_eq!(partition(leaf), partition(host));
        }
    }
    assert_eq!(plan.assign_nodes(100).iter().max(), Some(&7), "eight leaf switches");
    assert_eq!(plan.useful_partition_count(64), 1, "sixteen hosts are work for one thread");
}
