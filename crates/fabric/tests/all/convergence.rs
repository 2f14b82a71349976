//! Routes after a failure: from the convergence time on, what a dead link still gets is what was on the way to it, wherever frames waited before.

use crate::common::*;
use crate::host_ports::{split, with_choice};
use crate::rdma::{NO_CONTROL, roce};
use pauseframe_fabric::{
    FailedElement, FlowSpec, HopChoice, LossReason, NicQueue, PortChoice, ProtocolSettings, ScheduledFailure,
    Settings, TransportSettings, UdpSettings,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::{Homes, leaf_spine};
use pauseframe_transport::{RtoConfig, TcpConfig};
use pauseframe_units::{BitRate, Span, Time};

const CONVERGENCE: Span = Span::from_us(10);
/// Full frames of 1.23 us at 10 Gb/s: nine in the convergence time and the microsecond from the host, the others in service and on the wires of the
/// switch that fails.
const FRAMES: u64 = 12;
const DOWN: Time = Time(1_000_000_000);
const QUEUES: [NicQueue; 5] =
    [NicQueue::PerFlow, NicQueue::PerDestination, NicQueue::Fifo, NicQueue::Codel, NicQueue::FqCodel];

fn two_spines() -> Topology {
    let wire = link(10, Span::from_us(1));
    leaf_spine(2, 2, 1, wire, wire).unwrap()
}

/// A megabyte in flight from the first instant on, and timeouts after the failure.
fn window(subflows: u32) -> TcpConfig {
    let rto = RtoConfig { initial: Span::from_ms(20), min: Span::from_ms(20), ..config().rto };
    TcpConfig { rto, initial_window: 1_000_000, receive_window: 1_000_000, subflows, ..config() }
}

fn udp(gbps: u64) -> Settings {
    let datagrams = UdpSettings { rate: BitRate::gbps(gbps), payload: 1472, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(0) };
    Settings { transports: vec![transport], nic_buffer: 2_000_000, ..settings(config()) }
}

/// Packets that dead links lose if each of these elements fails in turn: the largest number.
fn lost(
    topology: &Topology,
    settings: &Settings,
    flows: &[FlowSpec],
    failures: impl IntoIterator<Item = FailedElement>,
) -> u64 {
    let lost_by = |what| {
        let mut network = build(topology, settings, flows);
        let failure = ScheduledFailure { is_silent: false, what, down: DOWN, up: None };
        network.schedule_failures(vec![failure], CONVERGENCE);
        let ending = proceed(&mut network, DOWN + Span::from_ms(5));
        let reports = network.port_reports(ending.now);
        reports.iter().map(|report| report.lost[LossReason::LinkDown as usize]).sum::<u64>()
    };
    failures.into_iter().map(lost_by).max().unwrap_or_default()
}

fn spines(topology: &Topology) -> impl Iterator<Item = FailedElement> {
    ["spine0", "spine1"].map(|name| FailedElement::Node(topology.find(name).unwrap())).into_iter()
}

fn several(topology: &Topology, count: usize, size: u64) -> Vec<FlowSpec> {
    vec![flow(topology, "host0", "host1", size); count]
}

/// Frames that wait in the queue of a NIC, whatever its kind, take the new path.
#[test]
fn frames_in_a_nic_take_the_new_path() {
    let topology = two_spines();
    let size = 20_000_000;
    // Retransmissions and acknowledgements add to the full frames of one direction.
    for nic_queue in QUEUES {
        for (transport, with, flows, at_most) in [
            ("UDP", udp(20), several(&topology, 1, size), FRAMES),
            ("TCP", settings(window(1)), several(&topology, 8, size), 2 * FRAMES),
            ("MPTCP", settings(window(4)), several(&topology, 2, size), 2 * FRAMES),
            (
                "RoCE",
                Settings { nic_buffer: u64::MAX, ..roce(NO_CONTROL) },
                several(&topology, 64, size),
                3 * FRAMES,
            ),
        ] {
            if transport == "RoCE" && matches!(nic_queue, NicQueue::Codel | NicQueue::FqCodel) {
                continue; // Its class is lossless.
            }
            let lost = lost(&topology, &Settings { nic_queue, ..with }, &flows, spines(&topology));
            assert!((1..=at_most).contains(&lost), "{transport}, {nic_queue:?}: {lost} packets lost");
        }
    }
}

/// The same of frames that are still in the stack of their host, of replies, and where switches choose the next hop of each packet.
#[test]
fn frames_in_the_stack_take_the_new_path() {
    let topology = two_spines();
    let delayed = |settings| Settings { tx_delay: Span::from_us(500), ..settings };
    let size = 20_000_000;
    let reply = FlowSpec { reply: size, ..flow(&topology, "host0", "host1", 1000) };
    for (name, with, flows, at_most) in [
        ("UDP", delayed(udp(9)), several(&topology, 1, size), FRAMES),
        ("TCP", delayed(settings(window(1))), several(&topology, 8, size), 2 * FRAMES),
        ("replies", delayed(settings(window(1))), vec![reply; 8], 2 * FRAMES),
        ("RoCE", delayed(roce(NO_CONTROL)), several(&topology, 8, size), 3 * FRAMES),
        (
            "spray",
            Settings { hop_choice: Some(HopChoice::Spray), ..delayed(udp(9)) },
            several(&topology, 1, size),
            FRAMES,
        ),
    ] {
        let lost = lost(&topology, &with, &flows, spines(&topology));
        assert!((1..=at_most).contains(&lost), "{name}: {lost} packets lost");
    }
}

/// Frames in the queue of a leaf go to the spine whose link to the receiver has failed, and turn round there.
#[test]
fn frames_at_switches_are_looked_up_at_the_next_one() {
    let (host, fabric) = (link(100, Span::from_us(1)), link(10, Span::from_us(1)));
    let topology = leaf_spine(2, 2, 1, host, fabric).unwrap();
    let failures =
        ["spine0", "spine1"].map(|spine| FailedElement::Link(port(&topology, spine, "leaf1").link()));
    for settings in [settings(window(1)), roce(NO_CONTROL)] {
        let flows = several(&topology, 8, 20_000_000);
        let lost = lost(&topology, &settings, &flows, failures);
        assert!((1..=3 * FRAMES).contains(&lost), "{lost} packets lost");
    }
}

/// After a repair all frames take the repaired path, those that wait in their host too.
#[test]
fn a_repair_moves_waiting_frames_too() {
    let topology = two_spines();
    let uplinks = ["spine0", "spine1"].map(|spine| port(&topology, "leaf0", spine));
    for what in spines(&topology) {
        let mut network = build(&topology, &udp(20), &several(&topology, 1, 20_000_000));
        let up = DOWN + Span::from_ms(2);
        let failure = ScheduledFailure { is_silent: false, what, down: DOWN, up: Some(up) };
        network.schedule_failures(vec![failure], CONVERGENCE);
        network.enable_frame_capture(&uplinks, u64::MAX);
        proceed(&mut network, up + Span::from_ms(1));
        let frames = network.take_captured_frames();
        let used = |from: Time, to: Time| {
            uplinks
                .map(|port| frames.iter().any(|frame| frame.port == port && (from..to).contains(&frame.time)))
        };
        // The leaf may be sending a frame.
        let settled = up + CONVERGENCE + Span::from_us(2);
        assert_eq!(used(settled, Time::MAX), used(Time::ZERO, DOWN));
    }
}

/// Where switches look up the next hop, frames of a host with several ports go to a port of the receiver that works.
#[test]
fn frames_go_to_another_port_of_the_receiver() {
    let wire = link(10, Span::from_us(1));
    let homes = Homes { ports_per_host: 2, ..Homes::SINGLE };
    let topology = split(&homes.apply(leaf_spine(4, 2, 1, wire, wire).unwrap()).unwrap());
    let host = topology.find("host2").unwrap();
    let ports = topology.ports_of_hosts().remove(&host).unwrap();
    let links = ports.into_iter().map(|node| FailedElement::Link(topology.nodes()[node].ports[0].link()));
    let links: Vec<FailedElement> = links.collect();
    let tx_delay = Span::from_us(500);
    for hop_choice in [None, Some(HopChoice::Spray)] {
        for choice in [PortChoice::Xor, PortChoice::RoundRobin] {
            let settings = with_choice(choice, Settings { hop_choice, tx_delay, ..udp(9) });
            let flows = vec![flow(&topology, "host0", "host2", 20_000_000)];
            let lost = lost(&topology, &settings, &flows, links.clone());
            assert!((1..=2 * FRAMES).contains(&lost), "{hop_choice:?}, {choice:?}: {lost} packets lost");
        }
    }
}
