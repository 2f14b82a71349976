//! The forwarding pipeline of switches: what is in it waits for nothing, and counts in no queue.

use crate::common::*;
use crate::rdma::{NO_CONTROL, roce};
use pauseframe_fabric::{FlowSpec, FlowStatus, ProtocolSettings, Settings, TransportSettings, UdpSettings};
use pauseframe_topology::generate::star;
use pauseframe_units::{BitRate, Span, Time};

fn udp(latency: Span, buffer: u64) -> Settings {
    let datagrams = UdpSettings { rate: BitRate(9_900_000_000), payload: 1472, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(0) };
    Settings {
        transports: vec![transport],
        switch_latency: latency,
        buffer: per_port(buffer),
        ..settings(config())
    }
}

/// A lone flow below line rate finds an empty queue after the pipeline, however much is in it.
#[test]
fn a_lone_flow_is_neither_dropped_nor_marked() {
    let wire = link(10, Span::from_us(1));
    let topology = star(2, wire).unwrap();
    for latency in [Span::ZERO, Span::from_us(1), Span::from_us(20), Span::from_ms(1)] {
        let flows = [flow(&topology, "host1", "host0", 2_000_000)];
        let (network, ending) = run(&topology, &udp(latency, 20_000), &flows);
        assert_eq!(drops(&network, &ending), [0; 6], "{latency}");
        let reports = network.port_reports(ending.now);
        let most = reports.iter().map(|report| report.backlog_max).max().unwrap();
        assert!(most <= 1538, "{latency}: {most}");
    }
}

/// Packets that come by several ports at one time leave the pipeline at one time, and then queue.
#[test]
fn what_leaves_the_pipeline_at_one_time_queues() {
    let topology = star(5, link(10, Span::from_us(1))).unwrap();
    let flows: Vec<FlowSpec> =
        (1..5).map(|host| flow(&topology, &format!("host{host}"), "host0", 1024)).collect();
    let finish = |latency: Span| {
        let settings = Settings { switch_latency: latency, ..roce(NO_CONTROL) };
        let (mut network, ending) = run(&topology, &settings, &flows);
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|record| record.status == FlowStatus::Finished));
        let mut ends: Vec<Time> = records.iter().map(|record| record.end).collect();
        ends.sort_unstable();
        ends
    };
    let (without, with) = (finish(Span::ZERO), finish(Span::from_us(3)));
    let later: Vec<Time> = without.iter().map(|end| *end + Span::from_us(3)).collect();
    assert_eq!(with, later);
}
