//! The record of who pauses whom agrees with the counters of the ports, and its causes are those of a congestion that spreads.

use crate::common::*;
use crate::properties::draw;
use pauseframe_fabric::{Network, PauseInterval};
use pauseframe_topology::generate::line;
use pauseframe_topology::{Channel, NodeKind, Topology};
use pauseframe_transport::{DelayedAckConfig, TcpConfig};
use pauseframe_units::{BitRate, Span, Time};

const US: u64 = 1_000_000;

fn check_against_counters(network: &Network, now: Time) -> usize {
    let intervals = network.pause_intervals();
    for report in network.port_reports(now) {
        let of = |i: &&PauseInterval| i.port == report.port && i.priority == report.priority;
        let lengths: Vec<Span> =
            intervals.iter().filter(of).map(|i| i.end.unwrap_or(now) - i.start).collect();
        assert_eq!(lengths.iter().fold(Span::ZERO, |sum, length| sum + *length), report.paused);
        assert_eq!(lengths.iter().copied().max().unwrap_or(Span::ZERO), report.paused_longest);
    }
    intervals.len()
}

fn check_causes(topology: &Topology, intervals: &[PauseInterval]) {
    assert!(intervals.is_sorted_by_key(|i| i.start));
    for (number, interval) in intervals.iter().enumerate() {
        assert!(interval.asked <= interval.start && interval.end.is_none_or(|end| end >= interval.start));
        let depths = interval.parents.iter().map(|parent| intervals[*parent as usize].depth + 1);
        assert_eq!(interval.depth, depths.max().unwrap_or(0));
        for parent in &interval.parents {
            let cause = &intervals[*parent as usize];
            assert!((*parent as usize) < number && cause.start <= interval.asked);
            // The switch that asked is the one whose egress had been stopped.
            assert_eq!(topology.owner(cause.port), topology.peer(interval.port));
            assert_eq!(cause.priority, interval.priority);
        }
    }
}

#[test]
fn intervals_add_up_to_the_counters_in_random_networks() {
    let mut seen = 0;
    for seed in 0..60 {
        let scenario = draw(seed);
        let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
        network.enable_pause_log(1 << 20);
        let ending = proceed(&mut network, Time::MAX);
        seen += check_against_counters(&network, ending.now);
        check_causes(&scenario.topology, network.pause_intervals());
        let (_, bare) = run(&scenario.topology, &scenario.settings, &scenario.flows);
        assert_eq!(bare.fingerprint, ending.fingerprint, "recording changes nothing");
    }
    assert!(seen > 1000, "{seen} intervals");
}

/// A blocked receiver at the end of a line: each switch is stopped because of the one behind it, the host at the head last.
#[test]
fn congestion_spreads_up_a_line_as_a_chain_of_causes() {
    let wire = link(10, Span::from_us(1));
    let mut topology = line(4, 1, wire, wire).unwrap();
    let last = topology.find("s3").unwrap();
    let sink = topology.add_node("sink", NodeKind::Host, None);
    topology.add_link(sink, last, Channel { rate: BitRate(1_000_000), delay: Span::ZERO });
    let silent = TcpConfig {
        delayed_ack: DelayedAckConfig { segments: 1 << 20, timeout: Span::from_secs(1) },
        ..config()
    };
    let settings = lossless(silent, 60_000);
    let mut network = build(&topology, &settings, &[flow(&topology, "host0", "sink", 1000 * MSS)]);
    network.enable_pause_log(100);
    proceed(&mut network, Time(2000 * US));
    let intervals = network.pause_intervals();
    let paused: Vec<&str> =
        intervals.iter().map(|i| topology.nodes()[topology.owner(i.port)].name.as_str()).collect();
    assert_eq!(paused, ["s2", "s1", "s0", "host0"]);
    let depths: Vec<u32> = intervals.iter().map(|i| i.depth).collect();
    let parents: Vec<&[u32]> = intervals.iter().map(|i| i.parents.as_slice()).collect();
    assert_eq!(depths, [0, 1, 2, 3]);
    assert_eq!(parents, [&[][..], &[0], &[1], &[2]]);
    check_causes(&topology, intervals);

    // The limit is kept, and a warning names what it left out.
    let mut network = build(&topology, &settings, &[flow(&topology, "host0", "sink", 1000 * MSS)]);
    network.enable_pause_log(3);
    proceed(&mut network, Time(2000 * US));
    assert_eq!((network.pause_intervals().len(), network.unrecorded_pause_count()), (3, 1));
}
