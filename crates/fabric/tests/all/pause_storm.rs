//! Storms of pause frames, ports with flow control in one direction, the watchdog's alert and polls, shared headroom.

use crate::common::*;
use pauseframe_engine::RunEnding;
use pauseframe_fabric::{
    DropReason, HeadroomPoolSettings, LossReason, Network, ObeyedPausePriorities, PauseStorm, PfcPorts,
    PfcSettings, PfcWatchdogSettings, PortPriorityReport, PortStateChange, ProtocolSettings, Settings,
    SlowReceiverSettings, StateLogRow, TransportSettings, UdpSettings, WatchdogAction,
};
use pauseframe_topology::Topology;
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};

const US: u64 = 1_000_000;

fn star() -> Topology {
    star_of(&["a", "b", "c"].map(|name| (name, link(10, Span::from_us(1)))))
}

fn datagrams(gbps: u64, code_point: u8) -> TransportSettings {
    let datagrams = UdpSettings { rate: BitRate::gbps(gbps), payload: 1472, ecn: false };
    TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(code_point) }
}

/// Lossless datagrams (transport 0) and lossy ones (transport 1), each at 1 Gb/s.
fn settings() -> Settings {
    let transports = vec![datagrams(1, LOSSLESS), datagrams(1, 0)];
    Settings { transports, nic_buffer: 1 << 30, ..lossless(config(), 1 << 20) }
}

/// From a to b, both kinds, for 2 ms.
fn flows(topology: &Topology) -> Vec<pauseframe_fabric::FlowSpec> {
    let stop = Some(Time(2000 * US));
    let one =
        |transport| pauseframe_fabric::FlowSpec { transport, stop, ..flow(topology, "a", "b", u64::MAX) };
    vec![one(0), one(1)]
}

fn storm(topology: &Topology, code_points: &[u8]) -> PauseStorm {
    PauseStorm {
        port: port(topology, "b", "s"),
        priorities: code_points.iter().map(|p| priority(*p)).collect(),
        every: None,
        quanta: u16::MAX,
        start: Time(100 * US),
        stop: Some(Time(1000 * US)),
    }
}

fn of(network: &Network, ending: &RunEnding, port: PortId, code_point: u8) -> PortPriorityReport {
    let reports = network.port_reports(ending.now);
    let found = reports.iter().find(|r| r.port == port && r.priority == priority(code_point));
    *found.expect("a port that did something")
}

fn stormed(settings: &Settings, storm: PauseStorm) -> (Network, RunEnding) {
    let topology = star();
    let mut network = build(&topology, settings, &flows(&topology));
    network.add_pause_storms(vec![storm]);
    let ending = proceed(&mut network, Time::MAX);
    (network, ending)
}

/// One frame stops its priority for its quanta of 51.2 ns, and no other priority.
#[test]
fn a_frame_stops_its_priority_for_its_time() {
    let topology = star();
    let (mut network, ending) = stormed(&settings(), storm(&topology, &[LOSSLESS]));
    let to_b = port(&topology, "s", "b");
    let paused = of(&network, &ending, to_b, LOSSLESS);
    // EndpointCounters of the pause time is 1.68 ms: the storm is over before a second frame.
    assert_eq!((paused.pauses_sent, paused.pauses_received), (1, 1));
    assert_eq!(paused.paused, Span(65_535 * 51_200));
    let other = of(&network, &ending, to_b, 0);
    // At a port that is paused in any class a packet is queued before it is sent, and no other waits behind it.
    assert_eq!((other.pauses_received, other.paused, other.backlog_max), (0, Span::ZERO, FRAME));
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.flow_records(ending.now).iter().all(|r| r.datagrams.lost == 0));
}

/// At a rate: a frame each 10 us from 100 us on and before 1 ms are 90; the pause lasts from the first to 1000 quanta after the last.
#[test]
fn frames_come_at_their_rate() {
    let topology = star();
    let every = Some(Span::from_us(10));
    let (network, ending) =
        stormed(&settings(), PauseStorm { every, quanta: 1000, ..storm(&topology, &[LOSSLESS]) });
    let paused = of(&network, &ending, port(&topology, "s", "b"), LOSSLESS);
    assert_eq!((paused.pauses_sent, paused.pauses_received), (90, 90));
    assert_eq!(
        (paused.paused, paused.paused_longest),
        (Span::from_us(890) + Span(1000 * 51_200), paused.paused)
    );
    // Without a rate, whenever half of the pause time (25.6 us) is over: 36 frames.
    let (network, ending) =
        stormed(&settings(), PauseStorm { quanta: 1000, ..storm(&topology, &[LOSSLESS]) });
    let paused = of(&network, &ending, port(&topology, "s", "b"), LOSSLESS);
    assert_eq!((paused.pauses_received, paused.paused), (36, Span(35 * 25_600_000 + 51_200_000)));
}

/// The state log has one request for a storm, however many frames that has; frames of zero quanta request none.
#[test]
fn a_storm_is_one_request_in_the_state_log() {
    let topology = star();
    for (quanta, requests) in [(1000, vec![Time(100 * US)]), (0, vec![])] {
        let mut network = build(&topology, &settings(), &flows(&topology));
        let every = Some(Span::from_us(10));
        network.add_pause_storms(vec![PauseStorm { every, quanta, ..storm(&topology, &[LOSSLESS]) }]);
        network.enable_state_log(Span::from_us(10), 10_000);
        proceed(&mut network, Time::MAX);
        let rows = network.state_log_rows().iter();
        let asks = |row: &&StateLogRow| matches!(row.state, PortStateChange::PauseRequested(_));
        assert_eq!(rows.filter(asks).map(|row| row.time).collect::<Vec<_>>(), requests, "{quanta}");
    }
}

/// The storm of one partition stops a port of another, at the same times.
#[test]
fn a_storm_crosses_cells() {
    let topology = star();
    let run = |partitions: Option<[u16; 4]>| {
        let mut network = build(&topology, &settings(), &flows(&topology));
        if let Some(partitions) = partitions {
            network.divide_into_partitions(&partitions);
        }
        network.add_pause_storms(vec![storm(&topology, &[LOSSLESS])]);
        let ending = proceed(&mut network, Time::MAX);
        (network.port_reports(ending.now), ending.fingerprint)
    };
    assert_eq!(run(None), run(Some([0, 1, 0, 0])));
}

#[test]
fn who_obeys_none_is_not_stopped_and_who_obeys_all_is_in_every_priority() {
    let topology = star();
    let to_b = port(&topology, "s", "b");
    let with = |obeys| {
        let ports = vec![topology.port_name(to_b)];
        let ports = vec![PfcPorts { ports, obeys: Some(obeys), ..PfcPorts::default() }];
        Settings { pfc: Some(PfcSettings { ports, ..pfc() }), ..settings() }
    };
    let paused = |obeys, code_point| {
        let (network, ending) = stormed(&with(obeys), storm(&topology, &[0, LOSSLESS]));
        of(&network, &ending, to_b, code_point).paused
    };
    let once = Span(65_535 * 51_200);
    assert_eq!(
        [paused(ObeyedPausePriorities::None, LOSSLESS), paused(ObeyedPausePriorities::None, 0)],
        [Span::ZERO; 2]
    );
    assert_eq!(
        [paused(ObeyedPausePriorities::Lossless, LOSSLESS), paused(ObeyedPausePriorities::Lossless, 0)],
        [once, Span::ZERO]
    );
    assert_eq!(
        [paused(ObeyedPausePriorities::All, LOSSLESS), paused(ObeyedPausePriorities::All, 0)],
        [once; 2]
    );
}

/// A port that sends no pause frames overflows: its lossless packets are dropped and counted, which is no bug.
#[test]
fn who_sends_no_pauses_drops_lossless_packets() {
    let topology = star();
    let from_a = port(&topology, "s", "a");
    for buffer in [per_port(200_000), shared_buffer(400_000, 0.5, 0)] {
        let drops_with = |sends| {
            let ports = vec![topology.port_name(from_a)];
            let ports = vec![PfcPorts { ports, sends: Some(sends), ..PfcPorts::default() }];
            let transports = vec![datagrams(10, LOSSLESS), datagrams(1, 0)];
            let pfc = Some(PfcSettings { ports, ..pfc() });
            let settings = Settings { buffer, pfc, transports, ..settings() };
            let (network, ending) = stormed(&settings, storm(&topology, &[LOSSLESS]));
            let paused = of(&network, &ending, port(&topology, "a", "s"), LOSSLESS).pauses_received;
            (drops(&network, &ending)[DropReason::HeadroomExceeded as usize], paused)
        };
        let (dropped, paused) = drops_with(true);
        assert_eq!((dropped, paused > 0), (0, true), "{buffer:?}");
        let (dropped, paused) = drops_with(false);
        assert_eq!((dropped > 0, paused), (true, 0), "{buffer:?}");
    }
}

/// XON frames end the pauses of a slow receiver, whose buffer then overflows.
#[test]
fn xon_frames_end_pauses_that_are_wanted() {
    let topology = star();
    let host = topology.find("b").unwrap();
    let slow = SlowReceiverSettings { host, rate: BitRate(10_000_000), buffer: Bytes(100_000), stop: None };
    let settings = Settings { receivers: vec![slow], ..settings() };
    let xon = PauseStorm { every: Some(Span::from_us(10)), quanta: 0, ..storm(&topology, &[LOSSLESS]) };
    let (network, ending) = stormed(&settings, PauseStorm { stop: Some(Time(2000 * US)), ..xon });
    let to_b = of(&network, &ending, port(&topology, "s", "b"), LOSSLESS);
    assert!(to_b.resumes_received > 100, "{to_b:?}");
    let lost = of(&network, &ending, port(&topology, "b", "s"), LOSSLESS).drops;
    assert!(lost[DropReason::HeadroomExceeded as usize] > 0, "{lost:?}");
}

fn guarded(action: WatchdogAction, poll: Span) -> (PortPriorityReport, u64) {
    let topology = star();
    let mut network = build(&topology, &settings(), &flows(&topology));
    network.add_pause_storms(vec![PauseStorm { quanta: 1000, ..storm(&topology, &[LOSSLESS]) }]);
    let (detection, restoration) = (Span::from_us(200), Span::from_us(200));
    network.enable_watchdog(PfcWatchdogSettings { detection, action, restoration, poll });
    let ending = proceed(&mut network, Time::MAX);
    let lost = network.flow_records(ending.now)[0].datagrams.lost;
    (of(&network, &ending, port(&topology, "s", "b"), LOSSLESS), lost)
}

#[test]
fn an_alert_counts_a_storm_and_changes_nothing() {
    let (alert, lost) = guarded(WatchdogAction::Alert, Span::ZERO);
    assert_eq!((alert.watchdog_storms, lost), (1, 0));
    let topology = star();
    let (network, ending) =
        stormed(&settings(), PauseStorm { quanta: 1000, ..storm(&topology, &[LOSSLESS]) });
    let bare = of(&network, &ending, port(&topology, "s", "b"), LOSSLESS);
    assert_eq!(PortPriorityReport { watchdog_storms: 0, ..alert }, bare);
    let (drop, lost) = guarded(WatchdogAction::Drop, Span::ZERO);
    assert_eq!((drop.watchdog_storms, drop.lost[LossReason::Watchdog as usize]), (1, lost));
}

/// At 1 Gb/s a datagram comes each 12.3 us. Paused at 101 us, a storm from 301 us on; with polls each 500 us from 500 us on. The last
/// pause frame is at 997 us: over at 1.2 ms, or at the poll of 1.5 ms. Packets that wait as it begins are lost either way.
#[test]
fn polls_delay_what_the_watchdog_does() {
    let lost_until = |micros: f64| ((micros - 101.0) / 12.304).round() as i64;
    for (poll, over) in [(Span::ZERO, 1197.0), (Span::from_us(500), 1500.0)] {
        let (report, lost) = guarded(WatchdogAction::Drop, poll);
        assert_eq!(report.watchdog_storms, 1);
        assert!((lost as i64 - lost_until(over)).abs() <= 3, "{poll}: {lost}, not {}", lost_until(over));
    }
}

/// Two hosts into a third over a pool of headroom that both must fill: with less than they need, what comes beyond is dropped for
/// a separate reason, and never more is held.
#[test]
fn a_pool_of_headroom_that_is_too_small_drops() {
    let topology = star();
    let transports = vec![datagrams(10, LOSSLESS), datagrams(1, 0)];
    let flows = ["a", "c"].map(|from| pauseframe_fabric::FlowSpec {
        stop: Some(Time(1000 * US)),
        ..flow(&topology, from, "b", u64::MAX)
    });
    let run = |headroom_pool| {
        let buffer = shared_buffer(300_000, 1.0, 0);
        // A reaction of 10 us lets 12.5 KB come after XOFF.
        let pfc = PfcSettings { headroom_pool, reaction: Some(Span::from_us(10)), ..pfc() };
        let settings = Settings { buffer, pfc: Some(pfc), transports: transports.clone(), ..settings() };
        let mut network = build(&topology, &settings, &flows);
        let warned = network.warnings().iter().filter(|w| w.contains("headroom_pool")).count();
        let ending = proceed(&mut network, Time::MAX);
        (drops(&network, &ending), warned)
    };
    assert_eq!(run(None), ([0; 6], 0));
    assert_eq!(run(Some(HeadroomPoolSettings { size: None, over_subscription: 1.0 })), ([0; 6], 0));
    let (dropped, warned) =
        run(Some(HeadroomPoolSettings { size: Some(Bytes(15_000)), over_subscription: 1.0 }));
    assert!(dropped[DropReason::HeadroomPool as usize] > 0 && warned == 1, "{dropped:?}");
    assert_eq!(dropped[DropReason::HeadroomExceeded as usize], 0);
}

/// Frames of two ports compete for the last place of a queue if the second arrives within the time of a frame (`ties.rs`): 1,538 bytes at 10 Gb/s.
/// The queue stands still, so that no place becomes free.
#[test]
fn frames_of_two_ports_compete_within_the_time_of_a_frame() {
    const PLACES: u64 = 130;
    let (topology, frame) = (star(), Span(1_230_400));
    let first_loses = |seed, apart| {
        let ports = vec![topology.port_name(port(&topology, "s", "b"))];
        let obeys = Some(ObeyedPausePriorities::All);
        let pfc =
            Some(PfcSettings { ports: vec![PfcPorts { ports, obeys, ..PfcPorts::default() }], ..pfc() });
        let (buffer, transports) = (per_port(PLACES * FRAME), vec![datagrams(10, 0)]);
        let settings = Settings { seed, random_ties: true, buffer, transports, pfc, ..settings() };
        let start = Time(200 * US);
        let mut flows =
            [("a", PLACES * 1472), ("c", 1472)].map(|(from, size)| flow(&topology, from, "b", size));
        (flows[0].start, flows[1].start) = (start, start + frame * (PLACES - 1) + apart);
        let mut network = build(&topology, &settings, &flows);
        network.add_pause_storms(vec![storm(&topology, &[0])]);
        let ending = proceed(&mut network, Time::MAX);
        let lost =
            network.flow_records(ending.now).iter().map(|record| record.datagrams.lost).collect::<Vec<_>>();
        assert_eq!(lost.iter().sum::<u64>(), 1, "{lost:?}");
        lost[0] == 1
    };
    let loses = |apart| (1..=16).filter(|seed| first_loses(*seed, apart)).count();
    assert!((1..16).contains(&loses(frame - Span(1))));
    assert_eq!(loses(frame), 0);
}
