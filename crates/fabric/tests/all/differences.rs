//! Switches and ports whose buffer and flow control differ from those of the others.

use crate::common::*;
use pauseframe_engine::RunEnding;
use pauseframe_fabric::{
    ErrorModel, FlowSpec, LossReason, Network, PauseStorm, PfcPorts, PfcSettings, PfcWatchdogSettings,
    ProtocolSettings, Settings, SwitchOverride, TransportSettings, UdpSettings, WatchdogAction,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::line;
use pauseframe_units::{BitRate, Bytes, Span, Time};

const MS: u64 = 1_000_000_000;

fn star() -> Topology {
    star_of(&["a", "b", "c", "d"].map(|name| (name, link(10, Span::from_us(1)))))
}

fn datagrams(payload: u32) -> TransportSettings {
    let datagrams = UdpSettings { rate: BitRate::gbps(9), payload, ecn: false };
    TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(LOSSLESS) }
}

fn settings() -> Settings {
    Settings { transports: vec![datagrams(1472)], nic_buffer: 1 << 30, ..lossless(config(), 300_000) }
}

/// From a to c and from b to d for 1 ms, while both receivers have paused their links.
fn held(settings: &Settings) -> (Network, RunEnding) {
    let topology = star();
    let stop = Some(Time(MS));
    let one = |from, to| FlowSpec { stop, ..flow(&topology, from, to, u64::MAX) };
    let mut network = build(&topology, settings, &[one("a", "c"), one("b", "d")]);
    let storm = |host| PauseStorm {
        port: port(&topology, host, "s"),
        priorities: vec![priority(LOSSLESS)],
        every: None,
        quanta: u16::MAX,
        start: Time::ZERO,
        stop: Some(Time(MS)),
    };
    network.add_pause_storms(vec![storm("c"), storm("d")]);
    let ending = proceed(&mut network, Time(MS));
    (network, ending)
}

/// Most bytes that a switch held of what came from a host.
fn most(network: &Network, ending: &RunEnding, host: &str) -> u64 {
    let from = port(&star(), host, "s");
    let reports = network.port_reports(ending.now);
    reports.iter().find(|r| r.port == from && r.priority == priority(LOSSLESS)).expect("traffic").ingress_max
}

fn row(ports: &str) -> PfcPorts {
    PfcPorts { ports: vec![ports.to_owned()], ..PfcPorts::default() }
}

#[test]
fn a_port_has_its_own_thresholds_and_headroom() {
    let (plain, ending) = held(&settings());
    let [from_a, from_b] = ["a", "b"].map(|host| most(&plain, &ending, host));
    assert_eq!(from_a, from_b);
    let own = PfcPorts {
        xoff: Some(Bytes(40_000)),
        xon: Some(Bytes(10_000)),
        headroom: Some(Bytes(25_000)),
        ..row("s:0")
    };
    let settings = Settings { pfc: Some(PfcSettings { ports: vec![own], ..pfc() }), ..settings() };
    let (network, ending) = held(&settings);
    let limits = |host| network.network_plan().pause_thresholds(port(&star(), host, "s"), priority(LOSSLESS));
    let of_a = limits("a").expect("lossless");
    assert_eq!((of_a.xoff, of_a.xon, of_a.headroom), (40_000, 10_000, 25_000));
    assert_ne!(limits("b"), limits("a"));
    let held_of_a = most(&network, &ending, "a");
    assert!((40_001..=65_000).contains(&held_of_a), "{held_of_a}");
    assert_eq!(most(&network, &ending, "b"), from_b);
}

#[test]
fn of_two_rows_the_later_decides_key_by_key() {
    let first = PfcPorts { xoff: Some(Bytes(40_000)), headroom: Some(Bytes(30_000)), ..row("s:*") };
    let second = PfcPorts { xoff: Some(Bytes(20_000)), ..row("s:0") };
    let settings = Settings { pfc: Some(PfcSettings { ports: vec![first, second], ..pfc() }), ..settings() };
    let network = build(&star(), &settings, &[]);
    let limits = |host: &str| {
        let thresholds =
            network.network_plan().pause_thresholds(port(&star(), host, "s"), priority(LOSSLESS));
        thresholds.map(|limits| (limits.xoff, limits.headroom))
    };
    assert_eq!([limits("a"), limits("b")], [Some((20_000, 30_000)), Some((40_000, 30_000))]);
}

/// A lone ingress takes alpha / (1 + alpha) of the pool before it pauses: 1/9 and 8/9.
#[test]
fn a_port_has_its_own_dynamic_threshold() {
    let own = PfcPorts { alpha: Some(0.125), ..row("s:0") };
    let pfc = PfcSettings { ports: vec![own], headroom: Some(Bytes(20_000)), ..pfc() };
    let buffer = shared_buffer(980_000, 8.0, 0);
    let with = |from: &str, to: &str| {
        let settings = Settings { buffer, pfc: Some(pfc.clone()), ..settings() };
        let topology = star();
        let mut network = build(&topology, &settings, &[flow(&topology, from, to, 10_000_000)]);
        network.add_pause_storms(vec![PauseStorm {
            port: port(&topology, to, "s"),
            priorities: vec![priority(LOSSLESS)],
            every: None,
            quanta: u16::MAX,
            start: Time::ZERO,
            stop: Some(Time(2 * MS)),
        }]);
        let ending = proceed(&mut network, Time(MS));
        most(&network, &ending, from)
    };
    let pool = 980_000 - 4 * 20_000;
    for (held, share) in [(with("a", "c"), pool / 9), (with("b", "c"), pool * 8 / 9)] {
        assert!((share - FRAME..share + 20_000).contains(&held), "{held} beside {share}");
    }
}

#[test]
fn a_switch_has_its_own_buffer() {
    let topology = line(2, 1, link(10, Span::from_us(1)), link(10, Span::from_us(1))).unwrap();
    let row = SwitchOverride {
        switches: vec!["s1".to_owned()],
        buffer: Some(Bytes(2_000_000)),
        headroom_pool: None,
    };
    let settings =
        Settings { buffer: shared_buffer(1_000_000, 1.0, 0), switch_overrides: vec![row], ..settings() };
    let network = build(&topology, &settings, &[]);
    let xoff = |from: &str, to: &str| {
        let limits = network.network_plan().pause_thresholds(port(&topology, from, to), priority(LOSSLESS));
        limits.expect("lossless").xoff
    };
    assert_eq!([xoff("s1", "s0"), xoff("s0", "s1")], [1_000_000, 2_000_000]);
}

#[test]
fn the_watchdog_leaves_a_port_alone() {
    let watchdog = PfcWatchdogSettings {
        detection: Span::from_us(200),
        restoration: Span::from_us(200),
        action: WatchdogAction::Drop,
        poll: Span::ZERO,
    };
    let exempt = PfcPorts { watchdog: Some(false), ..row("s:2") };
    let topology = star();
    let settings = Settings {
        pfc: Some(PfcSettings { watchdog: Some(watchdog), ports: vec![exempt], ..pfc() }),
        ..settings()
    };
    let stop = Some(Time(MS));
    let one = |from, to| FlowSpec { stop, ..flow(&topology, from, to, u64::MAX) };
    let mut network = build(&topology, &settings, &[one("a", "c"), one("b", "d")]);
    network.enable_watchdog(watchdog);
    let storm = |host| PauseStorm {
        port: port(&topology, host, "s"),
        priorities: vec![priority(LOSSLESS)],
        every: None,
        quanta: u16::MAX,
        start: Time::ZERO,
        stop: Some(Time(MS)),
    };
    network.add_pause_storms(vec![storm("c"), storm("d")]);
    let ending = proceed(&mut network, Time(MS));
    let storms = |host| {
        let to = port(&topology, "s", host);
        let reports = network.port_reports(ending.now);
        reports
            .iter()
            .find(|r| r.port == to && r.priority == priority(LOSSLESS))
            .expect("traffic")
            .watchdog_storms
    };
    assert_eq!((storms("c"), storms("d") > 0), (0, true));
}

/// A port with a smaller MTU loses what is larger, and nothing else.
#[test]
fn a_port_loses_frames_that_are_too_large() {
    let topology = star();
    let up = port(&topology, "s", "c");
    let lost_with = |payload| {
        let settings = Settings { transports: vec![datagrams(payload)], ..settings() };
        let stop = Some(Time(MS));
        let flows = [FlowSpec { stop, ..flow(&topology, "a", "c", u64::MAX) }];
        let mut network = build(&topology, &settings, &flows);
        network.add_error_models(&[(up, ErrorModel::LargerThan(1018))], &(Time::ZERO..Time::MAX));
        let ending = proceed(&mut network, Time::MAX);
        let reports = network.port_reports(ending.now);
        let report = reports.iter().find(|r| r.port == up && r.tx_packets > 0).expect("traffic");
        (report.tx_packets, report.lost[LossReason::Corrupted as usize])
    };
    // 972 bytes of data, 28 of headers and 18 of the frame; its tag does not count.
    assert_eq!(lost_with(972).1, 0);
    let (sent, lost) = lost_with(973);
    assert_eq!((sent > 0, lost), (true, sent));
}
