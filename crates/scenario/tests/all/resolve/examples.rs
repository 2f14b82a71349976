//! Valid scenarios: their resolved values, the origin of each value, and the round trip through TOML.

use super::{EXAMPLES, base_dir, resolve_as};
use pauseframe_scenario::resolve::options;
use pauseframe_scenario::spec::{BackgroundSpec, Cdf, FlowsSpec, PerPortBuffer, SharedBuffer, StepMarker};
use pauseframe_scenario::spec::{
    BufferPolicy, InitialWindow, MarkAt, Marker, NotEctAction, PfcSettings, QueueLengthThreshold,
    RoutingKind, SizesSpec, ValueByPort, WorkloadKind,
};
use pauseframe_scenario::{Resolved, ScenarioError, presets};
use pauseframe_transport::EcnMode;
use pauseframe_units::{BitRate, Bytes, Priority, Span};

fn example(name: &str, overrides: &[(&str, &str)]) -> Result<Resolved, ScenarioError> {
    let text = EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    resolve_as(name, text.expect("the example exists"), overrides, None)
}

fn good(name: &str) -> Resolved {
    example(name, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// The text "value (origin)" of a key.
fn explained(resolved: &Resolved, path: &str) -> String {
    let entry = resolved.explain().iter().find(|entry| entry.path == path);
    entry.map_or_else(|| format!("{path} is missing"), |entry| format!("{} ({})", entry.value, entry.origin))
}

#[test]
fn every_example_survives_being_written_down() {
    for (name, _) in EXAMPLES {
        let first = good(name);
        let text = first.to_toml();
        let second =
            resolve_as("again.toml", &text, &[], None).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        assert_eq!(second.scenario, first.scenario, "{name}");
        assert_eq!(second.to_toml(), text, "{name}");
        let is_complete =
            second.explain().iter().all(|entry| entry.automatic || entry.origin.to_string() == "file");
        assert!(is_complete, "{name}: a key of {text} was still filled in");
    }
}

#[test]
fn tcp_bolt_brings_its_switches_along() {
    let resolved = good("incast.toml");
    let scenario = &resolved.scenario;
    assert_eq!((scenario.name.as_str(), scenario.seed), ("incast", 7));
    assert_eq!(scenario.transport.tcp().expect("TCP").config.congestion_control.name(), "dctcp");
    assert_eq!(scenario.transport.tcp().expect("TCP").initial_window, InitialWindow::Bdp);
    assert_eq!((scenario.transport.priority.code_point(), scenario.transport.lossless), (3, true));
    let step = Marker::StepMarker(StepMarker {
        k: ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(22_500))),
        at: MarkAt::Enqueue,
        not_ect: NotEctAction::Queue,
    });
    assert_eq!(scenario.switch.marker, step);
    assert_eq!(scenario.switch.buffer, BufferPolicy::PerPort(PerPortBuffer { size: Bytes::kb(225) }));
    let pfc = PfcSettings {
        priorities: vec![Priority::new(3).unwrap()],
        whole_link: false,
        xoff: None,
        xon: None,
        headroom: None,
        reaction: None,
        quanta: 65_535,
        watchdog: None,
        headroom_pool: None,
        ports: Vec::new(),
    };
    assert_eq!(scenario.switch.pfc, Some(pfc));
    assert_eq!(scenario.workload[1].name, "background");
    let WorkloadKind::Background(BackgroundSpec {
        sizes: SizesSpec::Cdf(Cdf { source, points }), stop, ..
    }) = &scenario.workload[1].kind
    else {
        panic!("{:?}", scenario.workload[1].kind)
    };
    assert_eq!((source.as_str(), *stop), ("web_search", Span::from_ms(50)));
    assert_eq!(points.last().map(|(_, p)| *p), Some(1.0));
    let [held] = &resolved.warnings[..] else { panic!("{:?}", resolved.warnings) };
    assert!(held.starts_with("transport.delayed_ack_timeout: an ACK is held for up to 40 ms"), "{held}");
}

#[test]
fn every_value_says_where_it_came_from() {
    let overrides = [("switch.marker.k", "40 KB"), ("workload.1.arrivals.load", "0.5")];
    let resolved = resolve_as("incast.toml", EXAMPLES[0].1, &overrides, Some(9)).unwrap();
    for (path, expected) in [
        ("name", "\"incast\" (default)"),
        ("seed", "9 (--seed)"),
        ("stop.time", "\"50 ms\" (file)"),
        ("stop.when_finished", "true (default)"),
        ("topology.fabric_link.delay", "\"1 us\" (computed: as topology.link.delay)"),
        ("switch.marker.kind", "\"step\" (default)"),
        ("switch.marker.k", "\"40 KB\" (--set)"),
        ("switch.pfc.priorities", "[3] (computed: because transport.lossless = true)"),
        ("transport.ecn", "\"dctcp\" (preset tcp_bolt)"),
        ("transport.initial_window", "\"bdp\" (preset tcp_bolt)"),
        ("transport.rto_min", "\"2 ms\" (file)"),
        ("transport.rto_max", "\"120 s\" (default)"),
        ("transport.priority", "3 (computed: the first of switch.pfc.priorities)"),
        ("workload.0.stop", "\"50 ms\" (computed: stop.time)"),
        ("workload.1.arrivals.load", "0.5 (--set)"),
        ("record.series", "false (default)"),
    ] {
        assert_eq!(explained(&resolved, path), expected, "{path}");
    }
    let automatic = resolved.explain().iter().find(|entry| entry.path == "switch.pfc.xon").unwrap();
    assert!(automatic.automatic && automatic.value.contains("two frames"), "{automatic:?}");
}

#[test]
fn two_transports_share_the_switches() {
    let resolved = good("coexistence.toml");
    let scenario = &resolved.scenario;
    let [(name, reno)] = &scenario.transports[..] else { panic!("{:?}", scenario.transports) };
    let tcp = &reno.tcp().expect("TCP").config;
    assert_eq!((name.as_str(), tcp.ecn, tcp.sack), ("reno", EcnMode::Off, false));
    assert_eq!(reno.priority, Priority::default());
    assert_eq!(scenario.switch.pfc, None);
    let shared = BufferPolicy::Shared(SharedBuffer {
        size: Bytes::kb(2000),
        alpha: 0.5,
        reserved: Bytes::kb(3),
        egress_pool: None,
    });
    assert_eq!(scenario.switch.buffer, shared);
    assert_eq!(scenario.topology.fabric_link.rate, BitRate::gbps(10));
    assert_eq!(resolved.warnings, [""; 0], "what is marked as it leaves is not dropped");
}

#[test]
fn flow_lists_become_part_of_the_scenario() {
    let resolved = good("custom.toml");
    let WorkloadKind::Flows(FlowsSpec { flows }) = &resolved.scenario.workload[0].kind else { panic!() };
    assert_eq!(flows.len(), 3);
    assert_eq!(
        (flows[1].src.as_str(), flows[1].size, flows[1].start),
        ("b", Bytes(2000), Span::from_ns(12_500))
    );
    assert!(!resolved.to_toml().contains("flows.csv"));
    let rates: Vec<u64> =
        resolved.topology().links().iter().map(|link| link.channels[0].rate.0 / 1_000_000_000).collect();
    assert_eq!(rates, [10, 10, 40, 100]);
}

#[test]
fn spraying_turns_fast_retransmit_off_unless_the_file_says_else() {
    let sprayed = good("spray.toml");
    assert_eq!(sprayed.scenario.routing.kind, RoutingKind::Hops(pauseframe_fabric::HopChoice::Spray));
    let why = "false (computed: because routing.kind = spray)";
    assert_eq!(explained(&sprayed, "transport.fast_retransmit"), why);
    assert_eq!(explained(&sprayed, "workload.1.receiver"), "\"host0\" (computed: the first host)");
    let hashed = example("spray.toml", &[("routing.kind", "ecmp")]).unwrap();
    assert_eq!(explained(&hashed, "transport.fast_retransmit"), "true (default)");
    let kept = example("spray.toml", &[("transport.fast_retransmit", "true")]).unwrap();
    assert_eq!(explained(&kept, "transport.fast_retransmit"), "true (--set)");
}

#[test]
fn another_preset_leaves_what_the_file_says() {
    let resolved = example("incast.toml", &[("transport.preset", "dctcp")]).unwrap();
    assert_eq!(explained(&resolved, "transport.rto_min"), "\"2 ms\" (file)");
    assert_eq!(explained(&resolved, "transport.initial_window"), "\"10 segments\" (default)");
    assert_eq!(explained(&resolved, "transport.ecn"), "\"dctcp\" (preset dctcp)");
    assert_eq!(explained(&resolved, "switch.pfc"), "false (computed: no transport in use is lossless)");
    assert_eq!(resolved.scenario.transport.priority, Priority::default());
}

#[test]
fn overrides_reach_short_forms_lists_and_absent_tables() {
    let overrides = [
        ("switch.buffer.policy", "shared"),
        ("stop", "5 ms"),
        ("topology.links.2.rate", "25 Gbps"),
        ("workload.name", "only"),
        ("record.series.every", "1 us"),
        ("transports.extra.preset", "dctcp"),
        ("host.mtu", "\"9000 B\""),
    ];
    let resolved = example("custom.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    let scenario = &resolved.scenario;
    assert_eq!(scenario.stop.time, Some(Span::from_ms(5)));
    assert_eq!(scenario.workload[0].name, "only");
    assert_eq!(scenario.host.mtu, Bytes(9000));
    assert_eq!(scenario.transports[0].0, "extra");
    assert_eq!(scenario.record.series.as_ref().map(|series| series.every), Some(Span::from_us(1)));
    assert!(resolved.to_toml().contains("rate = \"25 Gbps\""));
    assert_eq!(resolved.warnings, ["transports.extra: no workload uses it"]);
}

#[test]
fn workloads_of_one_kind_are_numbered() {
    let names: Vec<String> =
        good("ring.toml").scenario.workload.into_iter().map(|workload| workload.name).collect();
    assert_eq!(names, ["background", "background_2", "flows"]);
}

#[test]
fn the_resolved_text_is_grouped_by_table() {
    let text = good("spray.toml").to_toml();
    let headers: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
    let expected = [
        "[stop]",
        "[topology]",
        "[topology.link]",
        "[topology.fabric_link]",
        "[routing]",
        "[host]",
        "[switch]",
        "[switch.buffer]",
        "[switch.marker]",
        "[switch.pfc]",
        "[switch.scheduler]",
        "[transport]",
        "[[workload]]",
        "[[workload]]",
        "[record]",
        "[remember]",
    ];
    assert_eq!(headers, expected);
    let text = text
        .strip_prefix("#:schema https://")
        .and_then(|text| text.split_once("\n\n"))
        .map_or("", |(_, text)| text);
    assert!(
        text.starts_with(
            "name = \"spray\"\nseed = 1\nclocks = \"real\"\nqcn = false\n\n[stop]\n# time: none"
        ),
        "{text}"
    );
}

#[test]
fn the_reference_lists_the_keys_of_every_kind() {
    let find =
        |path: &str, when: &str| options().iter().find(|option| option.path == path && option.when == when);
    for (path, when) in [
        ("seed", ""),
        ("topology.k", "topology.kind = fat_tree"),
        ("topology.links[].ends", "topology.kind = custom"),
        ("topology.links[].delay", "topology.kind = custom"),
        ("switch.buffer.alpha", "switch.buffer.policy = shared"),
        ("switch.marker.k", "switch.marker.kind = step"),
        ("switch.marker.gentle", "switch.marker.kind = red"),
        ("switch.scheduler.groups[].share", "switch.scheduler.kind = ets"),
        ("switch.classes.NAME.marker.w_q", "switch.classes.NAME.marker.kind = red"),
        ("switch.pfc.headroom", ""),
        ("transport.retries", "transport.kind = tcp"),
        ("transport.rdma_timeout", "transport.kind = rdma"),
        ("transport.ecn", "transport.kind = udp"),
        ("transports", ""),
        ("workload.size", "workload.kind = permutation"),
        ("workload.senders", "workload.kind = n_to_1"),
        ("workload.flows[].stop", "workload.kind = long_flows"),
        ("workload.stop", "workload.kind = incast"),
        ("workload.arrivals.load", "workload.kind = background and workload.arrivals.kind = load"),
        ("workload.sizes.points", "workload.kind = background and workload.sizes.kind = cdf"),
        ("record.packets.limit", ""),
    ] {
        let option = find(path, when).unwrap_or_else(|| panic!("{path} ({when}) is not in the reference"));
        assert!(
            !option.doc.is_empty() && !option.kind.is_empty() && !option.default.is_empty(),
            "{option:?}"
        );
    }
    let mtu = find("host.mtu", "").unwrap();
    assert_eq!((mtu.kind.as_str(), mtu.default.as_str()), ("size", "\"1500 B\""));
    assert_eq!(mtu.doc, "Largest IP packet (576 B to 9216 B)");
}

/// The reference contains each key of a resolved scenario, because both come from the same declarations.
#[test]
fn the_reference_knows_every_key_that_is_resolved() {
    for (name, _) in EXAMPLES {
        for entry in good(name).explain() {
            let is_number = |segment: &&str| segment.parse::<usize>().is_ok();
            let path: Vec<&str> = entry.path.split('.').filter(|segment| !is_number(segment)).collect();
            let path =
                path.join(".").replace("transports.reno", "transport").replace("transports.tcp", "transport");
            let path = path.replace("classes.dctcp", "classes.NAME").replace("classes.tcp", "classes.NAME");
            assert!(options().iter().any(|option| option.path == path), "{name}: {path}");
        }
    }
}

#[test]
fn presets_are_rows_of_known_keys() {
    for preset in presets::PRESETS {
        let row = pauseframe_scenario::resolve::expanded(preset);
        assert!(row.len() >= if preset.name == "udp" { 6 } else { 25 }, "{}: {row:?}", preset.name);
        for value in preset.row {
            let (_, expanded) = row.iter().find(|(key, _)| key == value.key).expect("a key of [transport]");
            assert_eq!(expanded.trim_matches('"'), value.value, "{}.{}", preset.name, value.key);
            assert!(!value.source.is_empty());
        }
    }
    assert!(base_dir().join("flows.csv").is_file());
}
