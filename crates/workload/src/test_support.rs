//! Helpers of the workload tests.

use super::{QueryNumbers, WorkloadContext, build};
use crate::{WorkloadKind, WorkloadSpec};
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, FrameOverhead, Workload};
use pauseframe_topology::{Channel, NodeKind, PortOfHost, Topology};
use pauseframe_units::{BitRate, Span, Time};
use std::sync::Arc;

/// A stream for tests.
pub(crate) fn rng(purpose: &str) -> Rng {
    pauseframe_engine::random_stream(12, purpose, 0)
}

/// Asserts |value - expected| <= band.
#[track_caller]
pub(crate) fn assert_within(value: f64, expected: f64, band: f64) {
    assert!((value - expected).abs() <= band, "{value} is not within {band} of {expected}");
}

/// A line of `racks` switches with `hosts` hosts each; hosts are named "h0", "h1", ... and have 10 Gb/s
/// links.
pub(crate) fn racks(racks: usize, hosts: usize) -> Topology {
    let channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };
    let mut topology = Topology::new();
    let mut previous = None;
    for rack in 0..racks {
        let switch = topology.add_node(format!("s{rack}"), NodeKind::Switch, None);
        for host in 0..hosts {
            let host = topology.add_node(format!("h{}", rack * hosts + host), NodeKind::Host, None);
            topology.add_link(host, switch, channel);
        }
        if let Some(previous) = previous.replace(switch) {
            topology.add_link(previous, switch, channel);
        }
    }
    topology
}

/// A star in which each host has two ports, of 10 Gb/s and of 100 Gb/s; hosts with an odd number have the faster one first.
pub(crate) fn two_ports(hosts: usize) -> Topology {
    let mut topology = Topology::new();
    let switch = topology.add_node("s0", NodeKind::Switch, None);
    let own: Vec<_> =
        (0..hosts).map(|host| topology.add_node(format!("h{host}"), NodeKind::Host, None)).collect();
    for (index, host) in own.into_iter().enumerate() {
        let second = topology.add_node(format!("h{index}.1"), NodeKind::Host, None);
        topology.set_port_of(second, PortOfHost { host, number: 1 }).unwrap();
        let [first, last] = if index % 2 == 0 { [10, 100] } else { [100, 10] };
        for (port, rate) in [(host, first), (second, last)] {
            topology.add_link(port, switch, Channel { rate: BitRate::gbps(rate), delay: Span::from_us(1) });
        }
    }
    topology
}

/// Makes the workload `kind` with the name "w", workload 3, transport 2, seed 9. The ideal time of a query is
/// one microsecond per flow and the longest reply delay.
pub(crate) fn make(kind: WorkloadKind, topology: &Topology) -> Box<dyn Workload> {
    let spec = WorkloadSpec { name: "w".into(), transport: "default".into(), kind };
    let longest = |flows: &[FlowSpec]| flows.iter().map(|flow| flow.reply_delay).max().unwrap_or_default();
    let ideal_of_query =
        Arc::new(move |flows: &[FlowSpec]| Span::from_us(flows.len() as u64) + longest(flows));
    build(
        &spec,
        3,
        2,
        &WorkloadContext {
            topology,
            seed: 9,
            ideal_of_query,
            query_numbers: QueryNumbers::default(),
            placed: std::collections::BTreeMap::new(),
            scale_up: None,
            overhead: FrameOverhead::ETHERNET,
            queue_pairs: Vec::new(),
            opens_ahead: true,
            reaction: Span::ZERO,
        },
    )
}

/// Takes all flows of an open workload.
pub(crate) fn drain(workload: &mut dyn Workload) -> Vec<FlowSpec> {
    let mut flows = Vec::new();
    while let Some(start) = workload.next_start_time() {
        let flow = workload.next_flow();
        assert_eq!(flow.start, start);
        assert!(flow.source != flow.destination && flow.size > 0);
        assert_eq!((flow.workload, flow.transport), (3, 2));
        flows.push(flow);
    }
    assert!(flows.is_sorted_by_key(|flow| flow.start), "starts go back in time");
    flows
}

/// The record of `spec` if the flow ends at `end` with `timeouts` timeouts.
pub(crate) fn ended(spec: FlowSpec, status: FlowStatus, end: Time, timeouts: u32) -> FlowRecord {
    FlowRecord {
        status,
        delivered: spec.size,
        retransmits: timeouts,
        timeouts,
        ..FlowRecord::new(spec, Span::from_us(1), end)
    }
}
