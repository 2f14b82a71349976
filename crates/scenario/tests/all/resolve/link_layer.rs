//! QCN, PAUSE of whole links, slow receivers and datagram sources: the settings that their keys give, and the
//! values that are refused.

use super::resolve_as;
use pauseframe_scenario::Resolved;
use pauseframe_scenario::spec::Fixed;
use pauseframe_scenario::spec::{BurstSpec, NicQueue, SizesSpec, WorkloadKind};
use pauseframe_units::{BitRate, Bytes, Span};

const BASE: &str = r#"stop = "10 ms"

[topology]
kind = "star"
hosts = 4

[[workload]]
kind = "udp"
rate = "5 Gbps"
"#;

fn good(addition: &str) -> Resolved {
    let text = format!("{BASE}{addition}");
    let resolved = resolve_as("s.toml", &text, &[], None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let written = resolved.to_toml();
    let again =
        resolve_as("s.toml", &written, &[], None).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!((again.scenario.clone(), again.to_toml()), (resolved.scenario.clone(), written));
    resolved
}

fn errors(addition: &str) -> String {
    let text = format!("{BASE}{addition}");
    match resolve_as("s.toml", &text, &[], None) {
        Ok(resolved) => panic!("this was accepted:\n{}", resolved.to_toml()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn qcn_presets_are_those_of_cee() {
    assert_eq!(good("").scenario.qcn, None);
    let qcn = good("[qcn]\npreset = \"qcn66\"\n").scenario.qcn.unwrap();
    assert_eq!((qcn.q_eq, qcn.min_rate), (Bytes(66_000), BitRate(100_000)));
    assert_eq!((qcn.w, qcn.sample, qcn.byte_counter), (2.0, Bytes(150_000), Bytes(150_000)));
    assert_eq!((qcn.timer, qcn.fast_recovery, qcn.min_decrease), (Span::from_ms(15), 5, 0.5));
    assert_eq!((qcn.active_increase, qcn.hyper_active_increase), (BitRate(5_000_000), BitRate(50_000_000)));
    // The largest rate cut is one half.
    assert!(qcn.g_d * 63.0 < 0.5 && qcn.g_d * 64.0 >= 0.5 && qcn.extra_fast_recovery);
    let qcn = good("[qcn]\npreset = \"qcn20\"\ntimer = \"5 ms\"\n").scenario.qcn.unwrap();
    assert_eq!((qcn.q_eq, qcn.timer, qcn.preset.as_str()), (Bytes(20_000), Span::from_ms(5), "qcn20"));
    let short = resolve_as("s.toml", &format!("qcn = \"qcn20\"\n{BASE}"), &[], None).unwrap();
    assert_eq!(short.scenario.qcn.unwrap().q_eq, Bytes(20_000));
}

#[test]
fn a_nic_has_a_queue_for_each_flow_unless_qcn_limits_destinations() {
    let queue = |addition: &str| good(addition).scenario.host.nic_queue;
    assert_eq!(queue(""), NicQueue::PerFlow);
    assert_eq!(queue("[qcn]\n"), NicQueue::PerDestination);
    assert_eq!(queue("[host]\nnic_queue = \"per_destination\"\n"), NicQueue::PerDestination);
    let off = resolve_as("s.toml", &format!("qcn = false\n{BASE}"), &[], None).unwrap();
    assert_eq!(off.scenario.host.nic_queue, NicQueue::PerFlow);
    // Nothing else changes it, such as a queue pair.
    let other = "[transports.q]\npreset = \"roce_dcqcn\"\n";
    assert_eq!(queue(other), NicQueue::PerFlow);
    let buffer = |addition: &str| good(addition).scenario.host.nic_buffer;
    assert_eq!(buffer(""), Bytes(1 << 20));
    assert_eq!(buffer("[host]\nnic_queue = \"fifo\"\n"), Bytes::kb(512));
}

#[test]
fn qcn_needs_queues_of_destinations_and_a_way_for_cnms() {
    assert_eq!(
        errors("[qcn]\npreset = \"qcn6\"\npriorities = [9]\n[host]\nnic_queue = \"fifo\"\n"),
        "s.toml:11: qcn.preset: \"qcn6\" is not one of standard, qcn20, qcn66; did you mean \"qcn66\"?\n\
         s.toml:12: qcn.priorities: element 0: 9 is outside 0 to 7\n\
         s.toml:14: host.nic_queue: fifo, but QCN limits the queue of one destination; use per_destination, or qcn = false"
    );
    let text = "[qcn]\n[switch]\npfc = { priorities = [0, 7] }\n";
    assert!(
        errors(text).contains("qcn.cnm_priority: 7 is lossless (switch.pfc.priorities)"),
        "{}",
        errors(text)
    );
}

#[test]
fn datagrams_come_all_the_time_or_in_bursts() {
    let WorkloadKind::Udp(udp) = &good("").scenario.workload[0].kind else { panic!("a udp workload") };
    assert_eq!((udp.rate, udp.datagram, udp.priority.code_point()), (BitRate::gbps(5), Bytes(1472), 0));
    assert_eq!((&udp.burst, udp.size, udp.stop), (&None, None, Span::from_ms(10)));
    let resolved =
        good("destinations = [\"host0\", \"host1\"]\nburst = { sizes = \"28 KB\", idle = \"1 ms\" }\n");
    let WorkloadKind::Udp(udp) = &resolved.scenario.workload[0].kind else { panic!("a udp workload") };
    let sizes = SizesSpec::Fixed(Fixed { size: Bytes(28_000) });
    assert_eq!(udp.burst, Some(BurstSpec { sizes, idle: Span::from_ms(1) }));
    assert_eq!(resolved.warnings, [""; 0]);
}

#[test]
fn wrong_datagram_sources_are_refused() {
    assert_eq!(
        errors("transport = \"default\"\n"),
        "s.toml:10: workload.0.transport: there is no transport \"default\" of kind \"udp\"; add [transports.default] with \
         preset = \"udp\", or leave transport out"
    );
    assert_eq!(
        errors("datagram = \"1473 B\"\n"),
        "s.toml:10: workload.0.datagram: 1473 B and 28 bytes of headers are more than host.mtu; at most 1472 B"
    );
    let found = errors(
        "sources = [\"host9\", \"host1\"]\ndestinations = [\"host1\"]\nburst = { sizes = \"1 KB\" }\n",
    );
    for expected in
        ["sources.0: there is no host \"host9\"", "\"host1\" would send to itself", "burst.idle: is required"]
    {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn slow_receivers_are_hosts() {
    let resolved = good("[host]\nslow_receivers = [{ host = \"host0\", rate = \"1 Gbps\" }]\n");
    let receiver = &resolved.scenario.host.slow_receivers[0];
    assert_eq!((receiver.rate, receiver.buffer, receiver.stop), (BitRate::gbps(1), Bytes::kb(512), None));
    let row = "{ host = \"host0\", rate = \"1 Gbps\" }";
    let found = errors(&format!(
        "[host]\nslow_receivers = [{row}, {row}, {{ host = \"hst1\", rate = \"1 Gbps\" }}]\n"
    ));
    for expected in ["is in an earlier row too", "there is no host \"hst1\"", "did you mean \"host1\""] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn a_paused_link_needs_no_lossless_transport() {
    let resolved = good("[switch]\npfc = { whole_link = true }\n");
    assert!(resolved.scenario.switch.pfc.unwrap().whole_link);
    assert_eq!(resolved.warnings, [""; 0]);
    let resolved = good("priority = 3\n[switch]\npfc = true\n");
    assert_eq!(resolved.warnings, [""; 0]);
}
