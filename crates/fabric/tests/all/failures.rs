//! Links that go down and come back, damaged frames, new routes: what is lost, what is kept, and when, to the picosecond
//! where it can be worked out; and in random networks every packet is accounted for and every flow still finishes.

use crate::common::*;
use crate::properties::draw;
use pauseframe_engine::{RunEnding, random_stream};
use pauseframe_fabric::{
    CapturedFrameContent, ErrorModel, FailedElement, FlowSpec, FlowStatus, LossReason, Network, PfcSettings,
    ProtocolSettings, ScheduledFailure, Settings, TransportSettings, UdpSettings,
};
use pauseframe_topology::generate::{leaf_spine, line, star};
use pauseframe_topology::{Channel, Topology};
use pauseframe_transport::{RtoConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};

const US: u64 = 1_000_000;
/// A full frame (1518 + 20 bytes) at 10 Gb/s.
const FULL: u64 = 1_230_400;

fn link_down(topology: &Topology, a: &str, b: &str, down: u64, up: Option<u64>) -> ScheduledFailure {
    ScheduledFailure {
        is_silent: false,
        what: FailedElement::Link(port(topology, a, b).link()),
        down: Time(down),
        up: up.map(Time),
    }
}

/// Timeouts after a millisecond, so that a test does not wait for long.
fn impatient(window: u64) -> TcpConfig {
    let rto = RtoConfig { initial: Span::from_ms(1), min: Span::from_ms(1), ..config().rto };
    TcpConfig { rto, initial_window: window, ..config() }
}

/// Frames begin every FULL at a and take a microsecond to the switch. At 10.5 FULL the link of the receiver goes:
/// lost are what is in service and on the wire there, what waits, and what comes until it is back.
#[test]
fn what_a_dead_link_holds_and_gets_is_lost() {
    let wire = link(10, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    let settings = settings(impatient(100 * MSS));
    let flows = [flow(&topology, "a", "b", 100 * MSS)];
    let (down, up) = (10 * FULL + FULL / 2, 20 * FULL + FULL / 2);
    let mut network = build(&topology, &settings, &flows);
    network.schedule_failures(vec![link_down(&topology, "s", "b", down, Some(up))], Span::ZERO);
    network.enable_frame_capture(&[port(&topology, "a", "s"), port(&topology, "s", "b")], 1 << 20);
    let ending = proceed(&mut network, Time::MAX);

    // Frame k (from 0) is whole at s at (k + 1) FULL + 1 us, then in service for FULL, and 1 us on the wire.
    let at_switch = |k: u64| (k + 1) * FULL + US;
    let lost = (0..100).filter(|k| at_switch(*k) < up && at_switch(*k) + FULL + US > down).count() as u64;
    let egress = report(&network, &ending, port(&topology, "s", "b"));
    assert_eq!(egress.lost, [lost, 0, 0]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Finished, 100 * MSS));
    assert!(u64::from(record.retransmits) >= lost);
    assert_eq!(network.packets_in_network(), 0);
    // Between the failure and the repair nothing begins on the dead link.
    let frames = network.take_captured_frames();
    let dead = frames.iter().filter(|f| f.port == port(&topology, "s", "b")).map(|f| f.time.0);
    assert!(dead.into_iter().all(|t| t < down || t >= up));
}

/// The frame that a failure cuts off has kept its port busy up to then, and no longer.
#[test]
fn a_cut_frame_counts_as_far_as_it_was_sent() {
    let wire = link(10, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    let flows = [flow(&topology, "a", "b", 100 * MSS)];
    for down in [10 * FULL, 10 * FULL + FULL / 2, 11 * FULL - 10] {
        let mut network = build(&topology, &settings(impatient(100 * MSS)), &flows);
        network.schedule_failures(vec![link_down(&topology, "a", "s", down, None)], Span::ZERO);
        let ending = proceed(&mut network, Time(20 * FULL));
        assert_eq!(report(&network, &ending, port(&topology, "a", "s")).busy.0, down);
    }
}

/// A host keeps its packets: its queue loses nothing, and the host sends again at the instant of the repair.
#[test]
fn a_host_keeps_its_queue_and_goes_on_when_the_link_is_back() {
    let wire = link(10, Span::from_us(1));
    let topology = star_of(&[("a", wire), ("b", wire)]);
    let settings =
        settings(TcpConfig { rto: RtoConfig { initial: Span::from_ms(50), ..config().rto }, ..config() });
    let mut network = build(&topology, &settings, &[flow(&topology, "a", "b", 100 * MSS)]);
    let (down, up) = (10 * FULL, 500 * US);
    network.schedule_failures(vec![link_down(&topology, "a", "s", down, Some(up))], Span::ZERO);
    let a = port(&topology, "a", "s");
    network.enable_frame_capture(&[a], 1 << 20);
    let ending = proceed(&mut network, Time(600 * US));
    // At 10 FULL the tenth frame has just ended and is on the wire for a microsecond; the eleventh does not begin, as failures
    // come before all else of their instant.
    assert_eq!(report(&network, &ending, a).lost, [1, 0, 0]);
    let begun: Vec<u64> = network.take_captured_frames().iter().map(|frame| frame.time.0).collect();
    assert_eq!(begun[..10], (0..10).map(|k| k * FULL).collect::<Vec<_>>());
    assert_eq!(begun[10..12], [up, up + FULL]);
}

/// Down for less than the frame in service would take: the next one waits for its end.
#[test]
fn a_flap_within_a_frame_loses_that_frame_alone() {
    let topology = star_of(&[("a", link(10, Span::ZERO)), ("b", link(10, Span::ZERO))]);
    let settings = settings(impatient(10 * MSS));
    let mut network = build(&topology, &settings, &[flow(&topology, "a", "b", 10 * MSS)]);
    let flap = link_down(&topology, "a", "s", 3 * FULL + 100, Some(3 * FULL + 200));
    network.schedule_failures(vec![flap], Span::ZERO);
    let a = port(&topology, "a", "s");
    network.enable_frame_capture(&[a], 10);
    let ending = proceed(&mut network, Time::MAX);
    assert_eq!(report(&network, &ending, a).lost, [1, 0, 0]);
    let begun: Vec<u64> = network.take_captured_frames().iter().map(|frame| frame.time.0).collect();
    assert_eq!(begun, (0..10).map(|k| k * FULL).collect::<Vec<_>>());
    assert_eq!(network.flow_records(ending.now)[0].status, FlowStatus::Finished);
}

/// A silent failure damages what is on the wire at its begin and at its end, as one with carrier loses it: here the fourth frame, which
/// is in service, and the third one, which has left its port less than a microsecond ago.
#[test]
fn a_silent_flap_damages_the_frames_on_the_wire() {
    let topology = star_of(&[("a", link(10, Span::from_us(1))), ("b", link(10, Span::from_us(1)))]);
    for (begin, lost) in [(3 * FULL + 100, 2), (3 * FULL + US, 1)] {
        let mut network =
            build(&topology, &settings(impatient(10 * MSS)), &[flow(&topology, "a", "b", 10 * MSS)]);
        let flap = link_down(&topology, "a", "s", begin, Some(begin + 100));
        network.schedule_failures(vec![ScheduledFailure { is_silent: true, ..flap }], Span::ZERO);
        let ending = proceed(&mut network, Time::MAX);
        let report = report(&network, &ending, port(&topology, "a", "s"));
        assert_eq!(report.lost[LossReason::Corrupted as usize], lost, "from {begin}");
        assert_eq!(network.flow_records(ending.now)[0].status, FlowStatus::Finished);
    }
}

/// Two spines; the flow's goes down. Until the routes have converged its packets are lost, then they take the other, and
/// after the repair and as long again they are back on the first.
#[test]
fn routes_follow_a_failure_after_the_convergence_time() {
    let wire = link(10, Span::from_us(1));
    let topology = leaf_spine(2, 2, 1, wire, wire).unwrap();
    let names: Vec<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
    let spines: Vec<&str> = names.iter().filter(|name| name.starts_with("spine")).copied().collect();
    let hosts: Vec<&str> = names.iter().filter(|name| name.starts_with("host")).copied().collect();
    let leaf = topology.peer(topology.nodes()[topology.find(hosts[0]).unwrap()].ports[0]);
    let leaf = topology.nodes()[leaf].name.clone();
    let flows = [flow(&topology, hosts[0], hosts[1], 20_000 * MSS)];
    let uplinks: Vec<PortId> = spines.iter().map(|spine| port(&topology, &leaf, spine)).collect();
    // No more than 64 packets are in flight.
    let settings = settings(TcpConfig { receive_window: 64 * MSS as u32, ..impatient(64 * MSS) });
    let (network, ending) = run(&topology, &settings, &flows);
    let used = network.port_reports(ending.now);
    let first = usize::from(!used.iter().any(|r| r.port == uplinks[0] && r.tx_packets > 10_000));

    let (down, up, convergence) = (2000 * US, 9000 * US, 500 * US);
    let mut network = build(&topology, &settings, &flows);
    let failure = link_down(&topology, &leaf, spines[first], down, Some(up));
    network.schedule_failures(vec![failure], Span(convergence));
    network.enable_frame_capture(&uplinks, u64::MAX);
    let ending = proceed(&mut network, Time::MAX);
    let frames = network.take_captured_frames();
    let times = |port: PortId| frames.iter().filter(move |f| f.port == port).map(|f| f.time.0);
    let (own, other) = (uplinks[first], uplinks[1 - first]);
    // Data of the flow alone: its ACKs go the other way.
    assert!(times(other).all(|t| t >= down + convergence && t < up + convergence + 2 * FULL));
    assert!(times(own).all(|t| t < down || t >= up + convergence));
    assert!(times(other).count() > 1000 && times(own).count() > 1000);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Finished, 20_000 * MSS));
    assert!(record.timeouts >= 1);
}

/// A switch that fails takes its links with it; hosts behind it cannot be reached until it is back.
#[test]
fn a_failed_switch_cuts_its_hosts_off() {
    let wire = link(10, Span::from_us(1));
    let topology = line(3, 1, wire, wire).unwrap();
    let flows =
        [flow(&topology, "host0", "host2", 1000 * MSS), flow(&topology, "host0", "host1", 1000 * MSS)];
    let middle = topology.find("s1").unwrap();
    let failure = ScheduledFailure {
        is_silent: false,
        what: FailedElement::Node(middle),
        down: Time(300 * US),
        up: Some(Time(5000 * US)),
    };
    for hop_choice in [None, Some(pauseframe_fabric::HopChoice::Spray)] {
        let settings = Settings { hop_choice, ..settings(impatient(64 * MSS)) };
        let mut network = build(&topology, &settings, &flows);
        network.schedule_failures(vec![failure], Span::from_us(100));
        let ending = proceed(&mut network, Time::MAX);
        let sent = report(&network, &ending, port(&topology, "s0", "s1"));
        assert!(sent.lost[LossReason::LinkDown as usize] > 0);
        for record in network.flow_records(ending.now) {
            assert_eq!(record.status, FlowStatus::Finished);
            assert!(record.end > Time(5000 * US));
        }
        assert_eq!(network.packets_in_network(), 0);
    }
}

/// The pause ends with the link, and when the link is back the switch, still above XOFF, asks for it at once.
#[test]
fn the_pause_state_of_a_link_starts_anew() {
    let wire = link(10, Span::from_us(1));
    let slow = Channel { rate: BitRate(1_000_000), delay: Span::ZERO };
    let topology = star_of(&[("a", wire), ("r", slow)]);
    let pfc = PfcSettings { xoff: Some(Bytes(5 * TAGGED)), ..pfc() };
    let settings = Settings { pfc: Some(pfc), ..lossless(config(), 1 << 20) };
    let mut network = build(&topology, &settings, &[flow(&topology, "a", "r", 400 * MSS)]);
    let (a, to_a) = (port(&topology, "a", "s"), port(&topology, "s", "a"));
    let (down, up) = (50 * US, 80 * US);
    network.schedule_failures(vec![link_down(&topology, "a", "s", down, Some(up))], Span::ZERO);
    network.enable_frame_capture(&[a, to_a], 1 << 20);
    network.enable_pause_log(100);
    let ending = proceed(&mut network, Time(100 * US));
    let pauses: Vec<u64> = network
        .take_captured_frames()
        .iter()
        .filter(|f| {
            f.port == to_a && matches!(f.content, CapturedFrameContent::Pause { quanta, .. } if quanta > 0)
        })
        .map(|f| f.time.0)
        .collect();
    assert_eq!(pauses.len(), 2);
    assert_eq!(pauses[1], up);
    let intervals = network.pause_intervals();
    assert_eq!(intervals.len(), 2);
    assert_eq!(intervals[0].end, Some(Time(down)));
    // 64 + 20 bytes and a microsecond later.
    assert_eq!((intervals[1].start, intervals[1].end), (Time(up + 67_200 + US), None));
    assert_eq!(report(&network, &ending, a).pauses_received, 2);
}

#[test]
fn damaged_frames_are_counted_where_they_were_sent_and_sent_again() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let settings = settings(impatient(64 * MSS));
    let flows = [flow(&topology, "host0", "host1", 20_000 * MSS)];
    let up = port(&topology, "host0", "switch");
    let run = |model| {
        let mut network = build(&topology, &settings, &flows);
        network.add_error_models(&[(up, model)], &(Time::ZERO..Time::MAX));
        let ending = proceed(&mut network, Time::MAX);
        let record = network.flow_records(ending.now)[0];
        assert_eq!((record.status, record.delivered), (FlowStatus::Finished, 20_000 * MSS));
        assert_eq!(network.packets_in_network(), 0);
        let sent = report(&network, &ending, up);
        let arrived = report(&network, &ending, port(&topology, "switch", "host1"));
        let corrupted = sent.lost[LossReason::Corrupted as usize];
        assert_eq!(sent.tx_packets - arrived.tx_packets, corrupted);
        (corrupted, sent.tx_packets, ending.fingerprint.as_u64())
    };
    // 200 of 20,000 expected, standard deviation 14: five deviations.
    let (corrupted, sent, fingerprint) = run(ErrorModel::FrameErrors(0.01));
    assert!((corrupted as f64 - sent as f64 * 0.01).abs() < 71.0, "{corrupted} of {sent}");
    assert_eq!(run(ErrorModel::FrameErrors(0.01)), (corrupted, sent, fingerprint));
    // 1 - (1 - 1e-6)^(1518 * 8) = 1.207 %.
    let (corrupted, sent, _) = run(ErrorModel::BitErrors(1e-6));
    assert!((corrupted as f64 - sent as f64 * 0.012_07).abs() < 78.0, "{corrupted} of {sent}");
}

#[test]
fn a_wire_that_is_mended_damages_nothing_more() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let settings = settings(impatient(64 * MSS));
    let up = port(&topology, "host0", "switch");
    let stop = Time(3_000 * US);
    let mut network = build(&topology, &settings, &[flow(&topology, "host0", "host1", 2_000 * MSS)]);
    network.add_error_models(&[(up, ErrorModel::FrameErrors(1.0))], &(Time::ZERO..stop));
    // Frames that were sent before arrive up to a serialisation and a delay later.
    let lost = |network: &Network, ending: RunEnding| {
        report(network, &ending, up).lost[LossReason::Corrupted as usize]
    };
    let ending = proceed(&mut network, stop + Span::from_us(3));
    let before = lost(&network, ending);
    let ending = proceed(&mut network, Time::MAX);
    assert!(before > 0, "the flow has begun before");
    assert_eq!(lost(&network, ending), before);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Finished, 2_000 * MSS));
}

/// A resume frame that is damaged does not stop the port for good: the pause runs out.
#[test]
fn lost_pause_frames_do_not_stop_a_port_for_ever() {
    let topology = star(5, link(10, Span::from_us(1))).unwrap();
    let pfc = PfcSettings { xoff: Some(Bytes(20_000)), quanta: 2000, ..pfc() };
    let settings = Settings { pfc: Some(pfc), ..lossless(impatient(1 << 20), 200_000) };
    let flows: Vec<FlowSpec> =
        (1..5).map(|i| flow(&topology, &format!("host{i}"), "host0", 500_000)).collect();
    let mut network = build(&topology, &settings, &flows);
    let back: Vec<_> = (1..5)
        .map(|i| (port(&topology, "switch", &format!("host{i}")), ErrorModel::FrameErrors(0.3)))
        .collect();
    network.add_error_models(&back, &(Time::ZERO..Time::MAX));
    let ending = proceed(&mut network, Time::MAX);
    let reports = network.port_reports(ending.now);
    assert!(reports.iter().any(|r| r.pauses_received < r.pauses_sent), "some pause frames were lost");
    assert!(network.flow_records(ending.now).iter().all(|r| r.status == FlowStatus::Finished));
}

/// Random networks with random failures: every packet ends somewhere, every byte arrives once all is repaired, and the
/// same run comes out twice.
#[test]
fn nothing_is_forgotten_in_random_networks_with_failures() {
    let mut lossy = 0;
    for seed in 0..40 {
        let mut scenario = draw(seed);
        for config in scenario.settings.transports.iter_mut().filter_map(tcp_mut) {
            config.rto = RtoConfig { initial: Span::from_ms(5), min: Span::from_ms(5), ..config.rto };
            // A failed handshake or flow is no loss of packets, but here every flow has to come through.
            (config.syn_retries, config.retries) = (40, 40);
        }
        let mut rng = random_stream(seed, "failures", 0);
        let links = scenario.topology.links().len() as u64;
        let plan: Vec<ScheduledFailure> = (0..=rng.uniform_below(4))
            .map(|_| {
                let down = Time(rng.uniform_below(2_000_000_000));
                let what = if rng.uniform_below(3) == 0 {
                    let switches: Vec<_> = scenario.topology.switches().collect();
                    FailedElement::Node(switches[rng.uniform_below(switches.len() as u64) as usize])
                } else {
                    FailedElement::Link(pauseframe_units::LinkId(rng.uniform_below(links) as u32))
                };
                ScheduledFailure {
                    is_silent: false,
                    what,
                    down,
                    up: Some(down + Span(1 + rng.uniform_below(3_000_000_000))),
                }
            })
            .collect();
        let convergence = Span(rng.uniform_below(2_000_000_000));
        let errors = ErrorModel::FrameErrors(0.002);
        let corrupt: Vec<_> = (0..rng.uniform_below(3))
            .map(|_| (PortId(rng.uniform_below(2 * links) as u32), errors))
            .collect();
        let once = || {
            let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
            network.schedule_failures(plan.clone(), convergence);
            network.add_error_models(&corrupt, &(Time::ZERO..Time::MAX));
            let ending = proceed(&mut network, Time::MAX);
            (network, ending)
        };
        let (mut network, ending) = once();
        assert_eq!(network.packets_in_network(), 0, "seed {seed}");
        let reports = network.port_reports(ending.now);
        let lost: u64 = reports.iter().flat_map(|r| r.lost).sum();
        let sent: u64 = reports.iter().map(|r| r.tx_packets).sum();
        assert!(
            sent >= network.total_packet_hops() && sent - network.total_packet_hops() <= lost,
            "seed {seed}"
        );
        lossy += u64::from(lost > 0);
        for record in network.flow_records(ending.now) {
            assert_eq!(record.status, FlowStatus::Finished, "seed {seed}: {record:?}, {plan:?}");
            assert_eq!(record.delivered, record.spec.size + record.spec.reply, "seed {seed}");
        }
        assert_eq!(once().1.fingerprint, ending.fingerprint, "seed {seed}");
    }
    assert!(lossy >= 20, "failures cost packets in {lossy} of 40 networks");
}

/// Two times of bit errors, and frames that are too large all the while, damage what each damages alone.
#[test]
fn models_of_one_wire_act_beside_each_other() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let up = port(&topology, "host0", "switch");
    let lost = |models: &[(ErrorModel, std::ops::Range<Time>)]| {
        // 1518 bytes each 12.304 us: a tenth of the link.
        let settings = settings(impatient(64 * MSS));
        let datagrams = UdpSettings { rate: BitRate::gbps(1), payload: 1472, ecn: false };
        let like = settings.transports[0].clone();
        let transports = vec![TransportSettings { protocol: ProtocolSettings::Udp(datagrams), ..like }];
        let flow = FlowSpec { stop: Some(Time(2_000 * US)), ..flow(&topology, "host0", "host1", u64::MAX) };
        let mut network = build(&topology, &Settings { transports, ..settings }, &[flow]);
        for (model, time) in models {
            network.add_error_models(&[(up, *model)], time);
        }
        let ending = proceed(&mut network, Time(2_100 * US));
        report(&network, &ending, up).lost[LossReason::Corrupted as usize]
    };
    let all = ErrorModel::FrameErrors(1.0);
    let (first, second) = ((all, Time(100 * US)..Time(223 * US)), (all, Time(1_100 * US)..Time(1_223 * US)));
    let each = [first.clone(), second.clone()].map(|model| lost(&[model]));
    assert_eq!(each, [10, 10]);
    assert_eq!(lost(&[first.clone(), second.clone()]), 20);
    assert_eq!(lost(&[second, first.clone()]), 20);
    let none = (ErrorModel::LargerThan(9000), Time::ZERO..Time::MAX);
    assert_eq!(lost(&[first, none]), 10);
}
