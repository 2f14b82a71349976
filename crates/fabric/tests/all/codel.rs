//! CoDel and FQ-CoDel at the ports of switches and hosts.

use crate::common::*;
use QueueDiscipline::{Codel, Fifo, FqCodel};
use pauseframe_fabric::{
    CodelSettings, DropReason, FlowSpec, NicQueue, PortPriorityReport, QueueDiscipline, Settings,
};
use pauseframe_topology::{Channel, Topology};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{BitRate, Bytes, Span, Time};

const MS: u64 = 1_000_000_000;
const TARGET: Span = Span::from_us(100);

/// Three hosts of 10 Gb/s send to one of 1 Gb/s.
fn topology() -> Topology {
    let fast = link(10, Span::from_us(5));
    star_of(&[("a", fast), ("b", fast), ("c", fast), ("sink", link(1, Span::from_us(5)))])
}

/// CoDel for round trips of 2 ms.
fn settings_of(queue: QueueDiscipline, config: TcpConfig) -> Settings {
    let codel = CodelSettings { target: TARGET, interval: Span::from_ms(2), ..CodelSettings::of(queue) };
    Settings {
        queue,
        codel: queue.has_codel().then_some(codel),
        buffer: per_port(3_000_000),
        ..settings(config)
    }
}

/// Two flows of 60 MB, stopped after 300 ms: the report of the port to the sink.
fn bulk(settings: &Settings) -> (PortPriorityReport, u64) {
    let topology = topology();
    let flows = ["a", "b"].map(|from| flow(&topology, from, "sink", 60_000_000));
    let (mut network, ending) = run_until(&topology, settings, &flows, Time(300 * MS));
    let delivered = network.flow_records(ending.now).iter().map(|record| record.delivered).sum();
    (report(&network, &ending, port(&topology, "s", "sink")), delivered)
}

/// NewReno fills the buffer of 3 MB (24 ms) of a FIFO; CoDel keeps the standing queue near the target and the link busy.
#[test]
fn codel_keeps_the_queue_short_and_the_link_busy() {
    let config = || TcpConfig { initial_window: 10 * MSS, ..config() };
    let (fifo, delivered) = bulk(&settings_of(Fifo, config()));
    assert_eq!((fifo.drops[DropReason::Codel as usize], fifo.sojourn_max), (0, Span::ZERO));
    assert!(fifo.backlog_mean > 1_000_000.0, "{fifo:?}");
    for queue in [Codel, FqCodel] {
        let (port, sent) = bulk(&settings_of(queue, config()));
        let mean = Span((port.backlog_mean * 8.0 * 1000.0) as u64);
        assert!(port.drops[DropReason::Codel as usize] > 10 && port.ecn_marks == 0, "{port:?}");
        assert!(
            mean < TARGET * 3 && sent * 100 > delivered * 90,
            "{queue:?}: {mean}, {sent} of {delivered} bytes"
        );
        assert_eq!(port.new_flows > 0, queue == FqCodel);
        assert!(port.sojourn_max > TARGET);
    }
}

/// ECN-capable packets are marked instead, and nothing is dropped.
#[test]
fn codel_marks_packets_that_are_capable_of_it() {
    let (port, _) = bulk(&settings_of(FqCodel, dctcp(10 * MSS)));
    assert!(port.ecn_marks > 50 && port.drops == [0; 6], "{port:?}");
    let mut settings = settings_of(FqCodel, dctcp(10 * MSS));
    settings.codel = settings.codel.map(|codel| CodelSettings { ecn: false, ..codel });
    let (port, _) = bulk(&settings);
    assert!(port.ecn_marks == 0 && port.drops[DropReason::Codel as usize] > 0, "{port:?}");
    settings.codel =
        settings.codel.map(|codel| CodelSettings { ce_threshold: Some(Span::from_us(30)), ..codel });
    let (port, _) = bulk(&settings);
    assert!(port.ecn_marks > 50 && port.drops[DropReason::Codel as usize] == 0, "{port:?}");
}

/// A packet of a third flow waits for the frame in service and one of each of the others, and in a FIFO for all that is queued.
#[test]
fn a_sparse_flow_passes_bulk_flows() {
    let topology = topology();
    let start = Time(5 * MS);
    let mut flows = ["a", "b", "c"].map(|from| flow(&topology, from, "sink", 2_000_000));
    flows[2] = FlowSpec { size: MSS, start, ..flows[2] };
    let wait = |queue| {
        let (mut network, ending) = run(&topology, &settings_of(queue, config()), &flows);
        let record = network.flow_records(ending.now)[2];
        fct(&record) - record.ideal
    };
    let frame = Span::from_ns(12_304);
    assert!(wait(FqCodel) <= frame * 2, "{}", wait(FqCodel));
    assert!(wait(Fifo) > Span::from_ms(10), "{}", wait(Fifo));
}

/// A full queue drops packets of the longest flow, so a short one loses nothing, by packets and by bytes.
#[test]
fn a_full_fq_codel_queue_drops_from_the_longest_flow() {
    let topology = topology();
    let flows = [flow(&topology, "a", "sink", 2_000_000), flow(&topology, "b", "sink", 20 * MSS)];
    let base = settings_of(FqCodel, config());
    let codel = base.codel.expect("it has CoDel");
    let limits =
        [CodelSettings { limit: 200, ..codel }, CodelSettings { memory_limit: Bytes(200 * FRAME), ..codel }];
    for codel in limits {
        let settings = Settings { codel: Some(codel), ..base.clone() };
        let (mut network, ending) = run(&topology, &settings, &flows);
        let port = report(&network, &ending, port(&topology, "s", "sink"));
        assert!(port.drops[DropReason::BufferFull as usize] > 500, "{port:?}");
        assert!(port.backlog_max <= 200 * FRAME, "{port:?}");
        let records = network.flow_records(ending.now);
        assert_eq!(records[1].retransmits, 0);
        assert!(records[0].retransmits > 500 && records[0].delivered == 2_000_000);
    }
    // CoDel without flows drops the packets that come.
    let codel = CodelSettings { limit: 200, ..settings_of(Codel, config()).codel.expect("it has CoDel") };
    let settings = Settings { queue: Codel, codel: Some(codel), ..base };
    let (network, ending) = run(&topology, &settings, &flows);
    let port = report(&network, &ending, port(&topology, "s", "sink"));
    assert!(port.drops[DropReason::BufferFull as usize] > 500 && port.backlog_max <= 200 * FRAME, "{port:?}");
}

/// CoDel of a host: twenty flows of one host hold at least 40 frames, 6 ms at 80 Mb/s, which is above Linux's target of 5 ms.
#[test]
fn codel_of_a_host_acts_on_what_its_sockets_send() {
    let slow = Channel { rate: BitRate(80_000_000), delay: Span::from_us(5) };
    let topology = star_of(&[("a", slow), ("sink", link(1, Span::from_us(5)))]);
    let flows: Vec<FlowSpec> = (0..20).map(|_| flow(&topology, "a", "sink", 1_000_000)).collect();
    let nic = |nic_queue, config: TcpConfig| {
        let settings = Settings { nic_queue, ..settings(config) };
        let (mut network, ending) = run(&topology, &settings, &flows);
        assert!(network.flow_records(ending.now).iter().all(|flow| flow.delivered == 1_000_000));
        assert_eq!(network.packets_in_network(), 0);
        report(&network, &ending, port(&topology, "a", "s"))
    };
    let small = || TcpConfig { initial_window: 4 * MSS, ..config() };
    let plain = nic(NicQueue::PerFlow, small());
    assert!(plain.drops == [0; 6] && plain.sojourn_max == Span::ZERO, "{plain:?}");
    for nic_queue in [NicQueue::Codel, NicQueue::FqCodel] {
        let port = nic(nic_queue, small());
        assert!(port.drops[DropReason::Codel as usize] > 0 && port.ecn_marks == 0, "{nic_queue:?}: {port:?}");
        assert!(port.sojourn_max > Span::from_ms(5), "{port:?}");
        assert_eq!(port.new_flows > 0, nic_queue == NicQueue::FqCodel);
    }
    // Linux's fq_codel marks what is capable of it, codel does not.
    let marked = nic(NicQueue::FqCodel, dctcp(4 * MSS));
    assert!(marked.ecn_marks > 0 && marked.drops == [0; 6], "{marked:?}");
    assert!(nic(NicQueue::Codel, dctcp(4 * MSS)).drops[DropReason::Codel as usize] > 0);
}

#[test]
#[should_panic(expected = "CoDel drops packets")]
fn a_lossless_class_has_no_codel() {
    let topology = topology();
    build(&topology, &Settings { queue: Codel, ..lossless(config(), 100_000) }, &[]);
}
