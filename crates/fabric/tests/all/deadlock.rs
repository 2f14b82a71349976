//! Deadlock under PFC: a ring whose routes form a cycle of channels stops for good, the detector names the cycle and who
//! holds it; where the routes have no cycle it stays silent; and the watchdog gets the ring going again.

use crate::common::*;
use crate::properties::draw;
use pauseframe_fabric::{
    BufferPolicy, FlowSpec, FlowStatus, IdealOutputQueuedBuffer, LossReason, PauseInterval, PfcSettings,
    PfcWatchdogSettings, ProtocolSettings, Settings, SlowReceiverSettings, TransportSettings, UdpSettings,
    WatchdogAction,
};
use pauseframe_routing::NextHops;
use pauseframe_topology::generate::{line, ring};
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::{RtoConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};
use std::collections::BTreeSet;

const US: u64 = 1_000_000;
/// Odd, so that two steps ahead have one shortest path, clockwise.
const SWITCHES: u32 = 5;

/// Claim B-M06 has three switches and routes that go round them. Shortest paths in a ring of three never pass a third
/// switch, so this is the smallest ring in which shortest paths do and are unique: five, each host sending two switches on.
fn round_the_ring(topology: &Topology, size: u64) -> Vec<FlowSpec> {
    (0..SWITCHES)
        .map(|i| flow(topology, &format!("host{i}"), &format!("host{}", (i + 2) % SWITCHES), size))
        .collect()
}

fn patient() -> TcpConfig {
    TcpConfig {
        rto: RtoConfig { initial: Span::from_ms(400), min: Span::from_ms(400), ..config().rto },
        ..config()
    }
}

fn settings(buffer: pauseframe_fabric::BufferPolicy) -> Settings {
    let pfc = PfcSettings { xoff: Some(Bytes(40_000)), ..pfc() };
    Settings { pfc: Some(pfc), buffer, ..lossless(patient(), 100_000) }
}

fn fixed_buffers() -> Settings {
    settings(per_port(100_000))
}

fn five() -> Topology {
    let wire = link(10, Span::from_us(1));
    ring(SWITCHES, 1, wire, wire).unwrap()
}

/// The clockwise ports, s0 to s1 first.
fn clockwise(topology: &Topology) -> Vec<PortId> {
    (0..SWITCHES).map(|i| port(topology, &format!("s{i}"), &format!("s{}", (i + 1) % SWITCHES))).collect()
}

#[test]
fn a_ring_with_cyclic_routes_stops_and_the_detector_names_its_links() {
    let topology = five();
    let flows = round_the_ring(&topology, 4_000 * MSS);
    let shared = shared_buffer(400_000, 0.5, 0);
    for settings in [fixed_buffers(), settings(shared)] {
        let mut network = build(&topology, &settings, &flows);
        network.enable_deadlock_detection(Span::from_us(500), false);
        let ending = proceed(&mut network, Time(20_000 * US));
        let hops = network.total_packet_hops();
        let [deadlock] = network.detected_deadlocks() else { panic!("{:?}", network.detected_deadlocks()) };
        let ports: BTreeSet<PortId> = deadlock.cycle.iter().map(|queue| queue.port).collect();
        assert_eq!(ports, clockwise(&topology).into_iter().collect());
        // Each waits for the next.
        for (queue, next) in deadlock.cycle.iter().zip(deadlock.cycle.iter().cycle().skip(1)) {
            assert_eq!(topology.peer(queue.port), topology.owner(next.port));
            let waiting = settings.pfc.as_ref().unwrap().xon.map_or(30_000, |xon| xon.0);
            assert!(queue.packets > 0 && queue.bytes > waiting && !queue.flows.is_empty());
        }
        let holders: BTreeSet<u32> = deadlock.cycle.iter().flat_map(|queue| queue.flows.clone()).collect();
        assert_eq!(holders, (0..SWITCHES).collect());
        assert_eq!(deadlock.victims, u64::from(SWITCHES), "the hosts' ports");
        assert!(deadlock.cycle_closed_at() < deadlock.found && deadlock.found < Time(5_000 * US));
        // B-M06: no progress for more than 10 ms.
        assert!(ending.now - deadlock.found > Span::from_ms(10));
        let ending = proceed(&mut network, Time(80_000 * US));
        assert_eq!(network.total_packet_hops(), hops, "something has moved");
        assert!(network.flow_records(ending.now).iter().all(|r| r.status == FlowStatus::Running));
        assert_eq!(drops(&network, &ending), [0; 6]);
    }
}

#[test]
fn a_run_ends_at_a_deadlock_if_told_to_and_looking_changes_nothing_before() {
    let topology = five();
    let flows = round_the_ring(&topology, 4_000 * MSS);
    let run = |detector: Option<(u64, bool)>, until| {
        let mut network = build(&topology, &fixed_buffers(), &flows);
        if let Some((after, stops)) = detector {
            network.enable_deadlock_detection(Span::from_us(after), stops);
        }
        let ending = proceed(&mut network, Time(until));
        (network.detected_deadlocks().to_vec(), ending)
    };
    let (found, ending) = run(Some((500, true)), 20_000 * US);
    assert_eq!((found.len(), ending.now), (1, found[0].found));
    let (_, silent) = run(None, ending.now.0);
    assert_eq!((silent.fingerprint, silent.events), (ending.fingerprint, ending.events));
    let (_, silent) = run(None, 20_000 * US);
    let (_, watched) = run(Some((7, false)), 20_000 * US);
    assert_eq!((silent.fingerprint, silent.events), (watched.fingerprint, watched.events));
}

/// A single partition runs long where nobody reacts to anything, and has to stop in time to be looked at.
#[test]
fn a_deadlock_is_found_at_the_same_time_whole_and_divided() {
    let topology = five();
    let flows = round_the_ring(&topology, 4_000 * MSS);
    for after in [1, 20, 500] {
        let found = |partitions: u16| {
            let mut network = build(&topology, &fixed_buffers(), &flows);
            let partition_of: Vec<u16> =
                (0..topology.nodes().len() as u16).map(|node| node % partitions).collect();
            network.divide_into_partitions(&partition_of);
            network.enable_deadlock_detection(Span::from_us(after), true);
            let ending = proceed(&mut network, Time(20_000 * US));
            (ending, network.detected_deadlocks().to_vec())
        };
        let whole = found(1);
        assert_eq!(whole.1.len(), 1, "after {after} us");
        assert_eq!(whole, found(2), "after {after} us");
    }
}

/// A host that is too slow pauses its port for good too, but no switch waits for a switch there: the detector looks once a pause that a switch
/// requests is old enough.
#[test]
fn pauses_of_a_slow_host_do_not_hasten_the_detector() {
    let mut topology = five();
    let s0 = topology.find("s0").unwrap();
    let [from, slow] = ["from", "slow"].map(|name| topology.add_node(name, NodeKind::Host, None));
    for host in [from, slow] {
        topology.add_link(host, s0, link(10, Span::from_us(1)));
    }
    let mut settings = fixed_buffers();
    // 77 datagrams of 1.23 us: 100 KB are full, and what waits at the switch pauses nobody (40 KB).
    let datagrams = UdpSettings { rate: BitRate::gbps(10), payload: 1472, ecn: false };
    let protocol = ProtocolSettings::Udp(datagrams);
    settings.transports.push(TransportSettings { protocol, ..settings.transports[0].clone() });
    settings.receivers =
        vec![SlowReceiverSettings { host: slow, rate: BitRate(1000), buffer: Bytes(100_000), stop: None }];
    let stop = Some(Time(95 * US));
    let mut flows = vec![FlowSpec { transport: 1, stop, ..flow(&topology, "from", "slow", u64::MAX) }];
    let around = round_the_ring(&topology, 4_000 * MSS);
    flows.extend(around.into_iter().map(|flow| FlowSpec { start: Time(1000 * US), ..flow }));
    let mut network = build(&topology, &settings, &flows);
    let after = Span::from_ms(2);
    network.enable_pause_log(1 << 20);
    network.enable_deadlock_detection(after, false);
    proceed(&mut network, Time(20_000 * US));
    let standing = |by_host: bool| {
        let peer = |port| topology.nodes()[topology.peer(port)].kind;
        let of = |interval: &&PauseInterval| (peer(interval.port) == NodeKind::Host) == by_host;
        let open = network.pause_intervals().iter().filter(|interval| interval.end.is_none());
        open.filter(of).map(|interval| interval.start).min().expect("one stands")
    };
    assert!(standing(true) < Time(100 * US));
    assert_eq!(network.detected_deadlocks()[0].found, standing(false) + after);
}

/// The same load on the ring without its closing link, a line: its routes have no cycle, and it does not stop.
#[test]
fn without_the_closing_link_nothing_stops() {
    let wire = link(10, Span::from_us(1));
    let topology = line(SWITCHES, 1, wire, wire).unwrap();
    let flows = round_the_ring(&topology, 4_000 * MSS);
    let mut network = build(&topology, &fixed_buffers(), &flows);
    network.enable_deadlock_detection(Span::from_us(5), true);
    let ending = proceed(&mut network, Time::MAX);
    assert!(network.detected_deadlocks().is_empty());
    assert!(network.flow_records(ending.now).iter().all(|r| r.status == FlowStatus::Finished));
    let paused = network.port_reports(ending.now).iter().map(|r| r.paused_longest).max().unwrap();
    assert!(paused > Span::from_us(5), "the detector has looked: {paused:?}");
}

/// No false alarm: acyclic networks of all kinds, looked at as often as can be.
#[test]
fn the_detector_is_silent_where_everything_finishes() {
    let mut paused = 0;
    for seed in 0..60 {
        let scenario = draw(seed);
        let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
        network.enable_deadlock_detection(Span::from_ns(300), false);
        let ending = proceed(&mut network, Time::MAX);
        assert!(network.detected_deadlocks().is_empty(), "seed {seed}");
        paused += u64::from(network.port_reports(ending.now).iter().any(|r| r.pauses_received > 0));
    }
    assert!(paused >= 10, "{paused} of 60 networks have paused");
}

/// The ring stands still for the detection time, then a queue is emptied or sends, and all flows finish.
#[test]
fn the_watchdog_breaks_a_deadlock() {
    let topology = five();
    let flows = round_the_ring(&topology, 4_000 * MSS);
    let detection = Span::from_ms(5);
    for action in [WatchdogAction::Drop, WatchdogAction::Forward] {
        let mut settings = fixed_buffers();
        *tcp_mut(&mut settings.transports[0]).expect("a transport of TCP") = TcpConfig {
            rto: RtoConfig { initial: Span::from_ms(2), min: Span::from_ms(2), ..config().rto },
            retries: 100,
            ..config()
        };
        let mut network = build(&topology, &settings, &flows);
        network.enable_deadlock_detection(Span::from_us(500), false);
        network.enable_watchdog(PfcWatchdogSettings {
            detection,
            action,
            restoration: Span::from_ms(2),
            poll: Span::ZERO,
        });
        let ending = proceed(&mut network, Time(2_000_000 * US));
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|r| r.status == FlowStatus::Finished), "{action:?}: {records:?}");
        assert!(!network.detected_deadlocks().is_empty());
        let reports = network.port_reports(ending.now);
        let storms: u64 = reports.iter().map(|r| r.watchdog_storms).sum();
        let lost: u64 = reports.iter().map(|r| r.lost[LossReason::Watchdog as usize]).sum();
        assert!(storms >= 1, "{action:?}");
        assert_eq!(lost > 0, action == WatchdogAction::Drop);
        // Hosts have no watchdog.
        assert!(reports.iter().all(
            |r| r.watchdog_storms == 0 || topology.nodes()[topology.owner(r.port)].name.starts_with('s')
        ));
        // Not before its time: the first pause came some microseconds after the start.
        let first = network.detected_deadlocks()[0].cycle_closed_at();
        assert!(records.iter().all(|r| r.end > first + detection));
    }
}

/// A pause that is long but moves on is no storm, and a network without storms runs as without a watchdog.
#[test]
fn the_watchdog_leaves_ordinary_pauses_alone() {
    let wire = link(10, Span::from_us(1));
    let topology = line(SWITCHES, 1, wire, wire).unwrap();
    assert!(NextHops::shortest(&topology).is_ok());
    let flows = round_the_ring(&topology, 4_000 * MSS);
    let mut network = build(&topology, &fixed_buffers(), &flows);
    let (detection, restoration) = (Span::from_ms(5), Span::from_ms(5));
    network.enable_watchdog(PfcWatchdogSettings {
        detection,
        action: WatchdogAction::Drop,
        restoration,
        poll: Span::ZERO,
    });
    let ending = proceed(&mut network, Time::MAX);
    let (mut bare, bare_ending) = run(&topology, &fixed_buffers(), &flows);
    assert_eq!(network.flow_records(ending.now), bare.flow_records(bare_ending.now));
    let reports = network.port_reports(ending.now);
    assert!(reports.iter().all(|r| r.watchdog_storms == 0));
    assert!(reports.iter().any(|r| r.pauses_received > 10));
}

/// A receiver that hardly drains keeps its port paused, renewal after renewal: one storm, which lasts as long as pause frames
/// come, and not one for each restoration time.
#[test]
fn a_storm_lasts_as_long_as_pauses_come() {
    let wire = link(10, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    let host = topology.find("b").unwrap();
    let slow = SlowReceiverSettings { host, rate: BitRate(1_000_000), buffer: Bytes(100_000), stop: None };
    let pfc = PfcSettings { quanta: 1000, ..pfc() };
    let settings = Settings {
        pfc: Some(pfc),
        receivers: vec![slow],
        nic_buffer: 100_000,
        ..lossless(patient(), 100_000)
    };
    let flows = [flow(&topology, "a", "b", 100_000 * MSS)];
    for action in [WatchdogAction::Drop, WatchdogAction::Forward] {
        let mut network = build(&topology, &settings, &flows);
        let (detection, restoration) = (Span::from_ms(1), Span::from_ms(1));
        network.enable_watchdog(PfcWatchdogSettings { detection, action, restoration, poll: Span::ZERO });
        let ending = proceed(&mut network, Time(30_000 * US));
        let egress = report(&network, &ending, port(&topology, "s", "b"));
        assert_eq!(egress.watchdog_storms, 1, "{action:?}");
        assert!(egress.pauses_received > 1000, "a frame every 25.6 us: {}", egress.pauses_received);
        if action == WatchdogAction::Drop {
            // Nothing goes to b any more: 100 KB of buffer and what was on the way.
            assert!(egress.tx_packets < 80, "{}", egress.tx_packets);
        }
    }
}

/// Rings whose routes go round them, buffers of every kind, PFC and whole links: whatever stops for good is reported, at
/// the latest at the end of the run, and what is reported has stopped for good.
#[test]
fn every_run_that_stops_for_good_is_reported() {
    let (mut stuck, mut fine) = (0, 0);
    for seed in 0..80 {
        let mut rng = pauseframe_engine::random_stream(seed, "stops", 0);
        let wire = link(10, Span::from_us(1));
        let hosts = 1 + rng.uniform_below(3) as u32;
        let topology = ring(SWITCHES, hosts, wire, wire).unwrap();
        let alpha = [0.25, 1.0, 4.0][rng.uniform_below(3) as usize];
        let size = Bytes(150_000 + rng.uniform_below(250_000));
        let buffer = match rng.uniform_below(3) {
            0 => per_port(40_000 + rng.uniform_below(60_000)),
            1 => BufferPolicy::IdealOutputQueued(IdealOutputQueuedBuffer {
                size: Bytes(40_000 + rng.uniform_below(60_000)),
            }),
            _ => shared_buffer(size.0, alpha, rng.uniform_below(2) * 2_000),
        };
        let pfc = PfcSettings { whole_link: rng.uniform_below(2) == 0, xoff: None, ..pfc() };
        let mut settings = Settings { pfc: Some(pfc), buffer, ..settings(buffer) };
        // Two transports, so that a link has more than one class.
        let other = TransportSettings { priority: priority(5), ..settings.transports[0].clone() };
        settings.transports.push(other);
        settings.pfc.as_mut().unwrap().priorities.push(priority(5));
        let all: Vec<_> = topology.hosts().collect();
        let flows: Vec<FlowSpec> = (0..all.len() * 2)
            .map(|i| FlowSpec {
                source: all[i % all.len()],
                // Mostly two switches on, clockwise.
                destination: all
                    [(i + 1 + (hosts as usize * 2 - 1 + rng.uniform_below(2) as usize)) % all.len()],
                transport: rng.uniform_below(2) as u16,
                ..flow(&topology, "host0", "host1", (20 + rng.uniform_below(3_000)) * MSS)
            })
            .collect();
        let mut network = build(&topology, &settings, &flows);
        network.enable_deadlock_detection(Span::from_us(200), false);
        let ending = proceed(&mut network, Time(300_000 * US));
        network.finish_observers(ending.now);
        let open =
            network.flow_records(ending.now).iter().filter(|r| r.status == FlowStatus::Running).count();
        let found = network.detected_deadlocks().len();
        assert_eq!(open > 0, found > 0, "seed {seed}: {open} flows open, {found} deadlocks, {settings:?}");
        *(if open > 0 { &mut stuck } else { &mut fine }) += 1;
    }
    assert!(stuck >= 10 && fine >= 10, "{stuck} stuck, {fine} finished");
}

/// A circle that closes just before the end of the run is reported too.
#[test]
fn a_deadlock_at_the_end_is_not_missed() {
    let topology = five();
    let flows = round_the_ring(&topology, 4_000 * MSS);
    let mut network = build(&topology, &fixed_buffers(), &flows);
    network.enable_deadlock_detection(Span::from_ms(100), false);
    let ending = proceed(&mut network, Time(5_000 * US));
    assert!(network.detected_deadlocks().is_empty());
    network.finish_observers(ending.now);
    assert_eq!(network.detected_deadlocks().len(), 1);
    assert_eq!(network.detected_deadlocks()[0].found, ending.now);
}
