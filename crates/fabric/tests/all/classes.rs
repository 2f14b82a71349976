//! What differs by class: scheduling, marking, shares of the buffer, pFabric's queue; worked out by hand or in closed form.

use crate::common::*;
use pauseframe_fabric::{
    BufferPolicy, ClassSettings, DropReason, Ets, EtsGroup, FlowSpec, FlowStatus, IdealOutputQueuedBuffer,
    MarkAt, MarkSpacing, Marker, Network, NotEctAction, ProtocolSettings, QueueDiscipline,
    QueueLengthThreshold, Red, SamplePlan, SampledMetric, Scheduler, Settings, SharedBuffer, StepMarker,
    TransportSettings, UdpSettings, ValueByPort,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_transport::{EcnMode, TcpConfig};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::sync::Arc;

const US: u64 = 1_000_000;

/// The settings of `settings` with a transport for each of `priorities`.
fn with_priorities(settings: Settings, config: &TcpConfig, priorities: &[u8]) -> Settings {
    let transport = |p: &u8| TransportSettings::of_tcp(Arc::new(config.clone()), priority(*p));
    Settings { transports: priorities.iter().map(transport).collect(), ..settings }
}

fn class(priorities: &[u8]) -> ClassSettings {
    ClassSettings {
        priorities: priorities.iter().map(|p| priority(*p)).collect(),
        marker: None,
        queue: None,
        codel: None,
        alpha: None,
        reserved: None,
    }
}

fn ets(shares: &[(&[u8], u8)]) -> Scheduler {
    let group = |(priorities, share): &(&[u8], u8)| EtsGroup {
        priorities: priorities.iter().map(|p| priority(*p)).collect(),
        share: *share,
    };
    Scheduler::Ets(Ets { groups: shares.iter().map(group).collect() })
}

/// `count` hosts for each of `transports` transports send `packets` full packets each to `host0`.
fn many_to_one(transports: u16, count: u32, packets: u64) -> (Topology, Vec<FlowSpec>) {
    let topology = star(count * u32::from(transports) + 1, link(10, Span::from_us(1))).unwrap();
    let flows = (0..count * u32::from(transports)).map(|i| FlowSpec {
        transport: (i % u32::from(transports)) as u16,
        ..flow(&topology, &format!("host{}", i + 1), "host0", packets * MSS)
    });
    let flows = flows.collect();
    (topology, flows)
}

/// Bytes sent by the port to `host0` in `priority` up to `now`.
fn sent(network: &Network, topology: &Topology, now: Time, code_point: u8) -> u64 {
    let sink = port(topology, "switch", "host0");
    let reports = network.port_reports(now);
    let of = reports.iter().find(|r| r.port == sink && r.priority == priority(code_point));
    of.map_or(0, |report| report.tx_bytes)
}

/// Each class counts what was sent in it, to the byte, whether it met an idle port or waited: the first of them is counted as what the others
/// leave of the port's sum.
#[test]
fn each_class_counts_its_own_bytes() {
    let (topology, flows) = many_to_one(3, 1, 1);
    let packets = [100, 70, 30];
    let flows: Vec<_> =
        flows.iter().zip(packets).map(|(flow, count)| FlowSpec { size: count * MSS, ..*flow }).collect();
    let settings = with_priorities(settings(config()), &config(), &[0, 2, 5]);
    let (network, ending) = run(&topology, &settings, &flows);
    // A packet of priority 0 has no tag.
    let bytes = [(0, FRAME), (2, TAGGED), (5, TAGGED)];
    for ((code_point, size), count) in bytes.into_iter().zip(packets) {
        assert_eq!(sent(&network, &topology, ending.now, code_point), count * size, "priority {code_point}");
    }
    let reports = network.port_reports(ending.now);
    let nic = |host| reports.iter().find(|r| r.port == port(&topology, host, "switch")).expect("it has sent");
    let of_nics = ["host1", "host2", "host3"].map(|host| (nic(host).tx_packets, nic(host).priority));
    assert_eq!(of_nics, [(100, priority(0)), (70, priority(2)), (30, priority(5))]);
}

#[test]
fn ets_divides_a_link_as_it_says() {
    // 1230 ns a packet: about 1600 packets.
    let until = Time(2000 * US);
    let (topology, flows) = many_to_one(3, 2, 2000);
    let base = with_priorities(settings(config()), &config(), &[1, 2, 3]);
    for shares in [[50, 30, 20], [10, 10, 80], [1, 33, 66], [34, 33, 33]] {
        let groups = ets(&[(&[1], shares[0]), (&[2], shares[1]), (&[3, 7], shares[2])]);
        let settings = Settings { scheduler: groups, ..base.clone() };
        let (network, ending) = run_until(&topology, &settings, &flows, until);
        let bytes = [1, 2, 3].map(|p| sent(&network, &topology, ending.now, p));
        let total: u64 = bytes.iter().sum();
        assert!(total > 1500 * FRAME);
        for (share, bytes) in shares.iter().zip(bytes) {
            let off = bytes as f64 / total as f64 - f64::from(*share) / 100.0;
            assert!(off.abs() < 0.01, "{shares:?}: {bytes} of {total}");
        }
    }
    // Strict: the highest has all of it; beside ETS it has what it wants first.
    let (network, ending) = run_until(&topology, &base, &flows, until);
    assert!(sent(&network, &topology, ending.now, 1) <= 2 * TAGGED);
    let mixed = Settings { scheduler: ets(&[(&[1], 75), (&[2], 25)]), ..base };
    let flows: Vec<_> = flows
        .iter()
        .map(|f| if f.transport == 2 { FlowSpec { size: 100 * MSS, ..*f } } else { *f })
        .collect();
    let (mut network, ending) = run_until(&topology, &mixed, &flows, until);
    let [first, second] = [1, 2].map(|p| sent(&network, &topology, ending.now, p) as f64);
    assert!((first / (first + second) - 0.75).abs() < 0.01);
    let strict = network.flow_records(ending.now).into_iter().filter(|f| f.spec.transport == 2);
    // Two flows of 100 packets share the link alone: 200 packets, at 1542 bytes on the wire.
    let alone = Span::from_us(260);
    assert!(
        strict.clone().count() == 2
            && strict.clone().all(|f| f.status == FlowStatus::Finished && fct(&f) < alone)
    );
}

/// One group alone in use: priorities outside of it go first, whatever their numbers, and its own priorities are one queue.
#[test]
fn a_group_alone_is_below_the_strict_ones() {
    let until = Time(2000 * US);
    let (topology, flows) = many_to_one(2, 2, 2000);
    let base = with_priorities(settings(config()), &config(), &[1, 3]);
    let shares = |scheduler: Scheduler| {
        let settings = Settings { scheduler, ..base.clone() };
        let (network, ending) = run_until(&topology, &settings, &flows, until);
        let [low, high] = [1, 3].map(|p| sent(&network, &topology, ending.now, p) as f64);
        low / (low + high)
    };
    let above = shares(ets(&[(&[3], 100)]));
    assert!(above > 0.99, "priority 1 is strict, above the group of 3: {above}");
    assert!(shares(ets(&[(&[1], 100)])) < 0.01);
    let one_queue = shares(ets(&[(&[1, 3], 100)]));
    assert!((one_queue - 0.5).abs() < 0.02, "in the order of arrival: {one_queue}");
}

/// A NIC obeys the same shares (DCBX lets the switch tell them): two classes of one host, both waiting in the NIC.
#[test]
fn hosts_divide_their_link_too() {
    let topology = star(3, link(10, Span::from_us(1))).unwrap();
    let flows: Vec<_> = (0..2)
        .map(|i| FlowSpec { transport: i, ..flow(&topology, "host1", &format!("host{}", 2 * i), 3000 * MSS) })
        .collect();
    let base = with_priorities(settings(config()), &config(), &[2, 5]);
    let settings = Settings { scheduler: ets(&[(&[2], 30), (&[5], 70)]), ..base };
    let (network, ending) = run_until(&topology, &settings, &flows, Time(2000 * US));
    let nic = port(&topology, "host1", "switch");
    let reports = network.port_reports(ending.now);
    let bytes = [2, 5].map(|p| {
        reports.iter().find(|r| r.port == nic && r.priority == priority(p)).map_or(0, |r| r.tx_bytes) as f64
    });
    assert!((bytes[0] / (bytes[0] + bytes[1]) - 0.3).abs() < 0.01, "{bytes:?}");
}

/// A paused class is skipped, and what it shares with goes on at the full rate.
#[test]
fn a_paused_group_leaves_the_link_to_the_others() {
    // Behind a slow link: class 3 is paused most of the time, class 1 goes elsewhere.
    let topology = star_of(&[
        ("a", link(10, Span::from_us(1))),
        ("slow", link(1, Span::from_us(1))),
        ("fast", link(10, Span::from_us(1))),
    ]);
    let flows = [
        FlowSpec { transport: 0, ..flow(&topology, "a", "slow", 1500 * MSS) },
        FlowSpec { transport: 1, ..flow(&topology, "a", "fast", 1500 * MSS) },
    ];
    let base = with_priorities(lossless(config(), 60_000), &config(), &[LOSSLESS, 1]);
    let settings = Settings { scheduler: ets(&[(&[LOSSLESS], 90), (&[1], 10)]), ..base };
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert_eq!(drops(&network, &ending), [0; 6]);
    let records = network.flow_records(ending.now);
    // 1500 packets of 1542 bytes at 10 Gb/s are 1.85 ms; class 3 takes 1 Gb/s and its first buffer full of that.
    assert!(fct(&records[1]) < Span::from_us(2200), "{}", fct(&records[1]));
    assert!(fct(&records[0]) < Span::from_us(18_800), "{}", fct(&records[0]));
}

/// Choudhury and Hahne 1998 with a factor for each class: a queue has its own over one plus all of them.
#[test]
fn each_class_has_its_own_dynamic_threshold() {
    let pool = 300_000;
    for alphas in [[1.0, 0.25], [4.0, 1.0], [0.5, 0.5], [8.0, 0.125]] {
        let (topology, flows) = many_to_one(2, 20, 400);
        let classes = vec![
            ClassSettings { alpha: Some(alphas[0]), ..class(&[1]) },
            ClassSettings { alpha: Some(alphas[1]), ..class(&[2]) },
        ];
        let buffer = shared_buffer(pool, 99.0, 0);
        // Datagrams that no loss slows down, twice the link in each class, keep both queues at their limits.
        let mut base = with_priorities(settings(config()), &config(), &[1, 2]);
        for transport in &mut base.transports {
            let udp = UdpSettings { rate: BitRate(1_000_000_000), payload: 1460, ecn: false };
            transport.protocol = ProtocolSettings::Udp(udp);
        }
        let scheduler = ets(&[(&[1], 50), (&[2], 50)]);
        let mut network = build(&topology, &Settings { buffer, classes, scheduler, ..base }, &flows);
        let sink = port(&topology, "switch", "host0");
        let plan = SamplePlan { every: Span::from_us(1), ports: vec![sink], workloads: vec![] };
        network.enable_sampling(plan);
        proceed(&mut network, Time(600 * US));
        let samples = network.take_metric_samples();
        let steady: Vec<_> = samples
            .iter()
            .filter(|s| s.metric == SampledMetric::Backlog && s.time > Time(400 * US))
            .collect();
        assert_eq!(steady.len(), 400);
        let sum = 1.0 + alphas[0] + alphas[1];
        for (class, alpha) in alphas.into_iter().enumerate() {
            let share = pool as f64 * alpha / sum;
            let values = steady.iter().skip(class).step_by(2).map(|sample| sample.value);
            let fullest = values.fold(0.0, f64::max);
            // Sources come at the same moments, and a queue is at its limit then. It lacks up to a packet, and one that
            // the other lacks leaves at most as much more room here.
            let slack = 2.0 * TAGGED as f64;
            assert!((fullest - share).abs() <= slack, "alphas {alphas:?}: {fullest} not {share}");
        }
    }
}

/// What a class reserves is its own even when the pool is taken.
#[test]
fn reserved_bytes_are_there_when_the_pool_is_not() {
    // Class 2 comes 20 us later and finds the pool taken by class 1, up to alpha = 1e6 times what is free.
    let (topology, mut flows) = many_to_one(2, 30, 1);
    flows.sort_by_key(|f| f.transport);
    for flow in &mut flows {
        flow.size = if flow.transport == 0 { 100 * MSS } else { MSS };
        flow.start = Time(u64::from(flow.transport) * 20 * US);
    }
    for (reserved, kept) in [(0, 0), (5 * TAGGED, 5)] {
        let classes = vec![ClassSettings { reserved: Some(Bytes(reserved)), ..class(&[1]) }];
        let size = 200_000 + 31 * 2 * reserved;
        let buffer = shared_buffer(size, 1e6, 0);
        // The class that comes late has the lower priority: it waits.
        let base = with_priorities(settings(config()), &config(), &[2, 1]);
        let (network, ending) =
            run_until(&topology, &Settings { buffer, classes, ..base }, &flows, Time(60 * US));
        let sink = port(&topology, "switch", "host0");
        let reports = network.port_reports(ending.now);
        let late = reports.iter().find(|r| r.port == sink && r.priority == priority(1)).unwrap();
        // Of the pool, the packets that leave free a little: one or two more can slip in.
        let held = late.backlog_max / TAGGED;
        assert!((kept..=kept + 2).contains(&held), "{reserved}: {held}");
    }
}

/// Two pools: lossy traffic that fills its own takes nothing from lossless traffic.
#[test]
fn lossy_traffic_has_its_own_pool() {
    let (topology, flows) = many_to_one(2, 8, 40);
    let base = with_priorities(lossless(config(), 0), &config(), &[0, LOSSLESS]);
    // 8 ports and their headroom for one class; the lossy pool is 100 KB.
    let size = Bytes(1_500_000);
    for (egress_pool, most) in [(None, u64::MAX), (Some(Bytes(100_000)), 100_000)] {
        let buffer =
            BufferPolicy::Shared(SharedBuffer { size, alpha: 1e6, reserved: Bytes::ZERO, egress_pool });
        let settings = Settings { buffer, ..base.clone() };
        let (network, ending) = run_until(&topology, &settings, &flows, Time(3000 * US));
        let sink = port(&topology, "switch", "host0");
        let reports = network.port_reports(ending.now);
        let lossy = reports.iter().find(|r| r.port == sink && r.priority == priority(0)).unwrap();
        assert!(lossy.backlog_max <= most);
        assert_eq!(lossy.drops[DropReason::BufferFull as usize] > 0, egress_pool.is_some());
        assert_eq!(lossy.backlog_max > 100_000, egress_pool.is_none());
        let all = drops(&network, &ending);
        assert_eq!(all[DropReason::HeadroomExceeded as usize], 0);
    }
}

/// cee §III-B4: an egress queue may hold what all inputs may; an input holds its own bytes and not one more.
#[test]
fn an_ideal_output_queue_holds_what_all_inputs_own() {
    let (topology, flows) = many_to_one(1, 5, 40);
    let size = 10 * FRAME;
    let buffer = BufferPolicy::IdealOutputQueued(IdealOutputQueuedBuffer { size: Bytes(size) });
    let (network, ending) =
        run_until(&topology, &Settings { buffer, ..settings(config()) }, &flows, Time(100 * US));
    let sink = report(&network, &ending, port(&topology, "switch", "host0"));
    assert!(sink.drops[DropReason::BufferFull as usize] > 0);
    let inputs = (1..=5).map(|i| report(&network, &ending, port(&topology, &format!("host{i}"), "switch")));
    assert_eq!(inputs.map(|r| r.ingress_max).collect::<Vec<_>>(), [size; 5]);
    assert!(sink.backlog_max > 4 * size && sink.backlog_max <= 5 * size, "{}", sink.backlog_max);
    // Lossless: cee's thresholds, 97 and 80 of 100 KB, and nothing is lost with the headroom of so short a link.
    let pfc = pauseframe_fabric::PfcSettings { xoff: Some(Bytes(80_000)), ..pfc() };
    let buffer = BufferPolicy::IdealOutputQueued(IdealOutputQueuedBuffer { size: Bytes::kb(100) });
    let (topology, flows) = many_to_one(1, 5, 400);
    let settings = Settings { buffer, pfc: Some(pfc), ..lossless(config(), 0) };
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.flow_records(ending.now).iter().all(|f| f.status == FlowStatus::Finished));
    let sink = report(&network, &ending, port(&topology, "switch", "host0"));
    assert!(sink.backlog_max > 5 * 79_000 && sink.backlog_max <= 5 * 100_000, "{}", sink.backlog_max);
}

/// Which packets arrive with CE of a burst of `count` packets sent at once, each by another host and flow.
fn marked(settings: &Settings, count: u32) -> (Vec<u32>, [u64; 6]) {
    let (topology, flows) = many_to_one(1, count, 1);
    let (mut network, ending) = run_until(&topology, settings, &flows, Time(1000 * US));
    let records = network.flow_records(ending.now);
    let marks = records.iter().enumerate().filter(|(_, r)| r.ce_packets > 0).map(|(i, _)| i as u32).collect();
    (marks, drops(&network, &ending))
}

fn ecn(ecn: EcnMode) -> TcpConfig {
    TcpConfig { ecn, ect_on_syn: true, ect_on_ack: true, ..config() }
}

#[test]
fn a_threshold_in_packets_counts_packets() {
    for (at, not_ect) in [(MarkAt::Enqueue, NotEctAction::Drop), (MarkAt::Dequeue, NotEctAction::Queue)] {
        let marker = Marker::StepMarker(StepMarker {
            k: ValueByPort::All(QueueLengthThreshold::Packets(3)),
            at,
            not_ect,
        });
        let base = settings(ecn(EcnMode::Dctcp));
        let settings = Settings { marker, ..base };
        let (marks, dropped) = marked(&settings, 10);
        // As with 3 full frames in bytes: at enqueue from packet 5 on, at dequeue while more than 3 are left.
        let expected: Vec<u32> = if at == MarkAt::Dequeue { (1..7).collect() } else { (5..10).collect() };
        assert_eq!((marks, dropped), (expected, [0; 6]), "{at:?}");
    }
    let marker = Marker::StepMarker(StepMarker {
        k: ValueByPort::All(QueueLengthThreshold::Packets(3)),
        at: MarkAt::Enqueue,
        not_ect: NotEctAction::Drop,
    });
    let settings = Settings { marker, ..settings(config()) };
    assert_eq!(marked(&settings, 10), (vec![], [0, 0, 5, 0, 0, 0]));
}

/// With `w_q` = 1 the average is the backlog, and with `p_max` = 1 and a maximum just above the minimum RED is a step.
#[test]
fn red_without_memory_is_a_step() {
    let red = Red {
        min: ValueByPort::All(Bytes(3 * FRAME)),
        max: ValueByPort::All(Bytes(3 * FRAME + 1)),
        w_q: 1.0,
        p_max: ValueByPort::All(1.0),
        gentle: false,
        average_packet: Bytes(1000),
        at: MarkAt::Enqueue,
        spacing: MarkSpacing::Uniform,
        not_ect: NotEctAction::Drop,
    };
    // Packet i finds i - 1 waiting. At the minimum itself the probability is 0.
    let all = Settings { marker: Marker::Red(red.clone()), ..settings(ecn(EcnMode::Dctcp)) };
    assert_eq!(marked(&all, 10), ((5..10).collect(), [0; 6]));
    let not_ect = Settings { marker: Marker::Red(red.clone()), ..settings(config()) };
    assert_eq!(marked(&not_ect, 10), (vec![], [0, 0, 5, 0, 0, 0]));
    let queued = Red { not_ect: NotEctAction::Queue, ..red.clone() };
    let not_ect = Settings { marker: Marker::Red(queued), ..settings(config()) };
    assert_eq!(marked(&not_ect, 10), (vec![], [0; 6]));
    // A real weight: a short burst moves the average too little.
    let slow = Red { w_q: 0.002, ..red };
    let settings = Settings { marker: Marker::Red(slow), ..settings(ecn(EcnMode::Dctcp)) };
    assert_eq!(marked(&settings, 10), (vec![], [0; 6]));
}

/// judd §7.1: DCTCP and TCP in separate queues. Only the class that has a marker marks or drops.
#[test]
fn a_marker_is_its_classes_own() {
    let k = QueueLengthThreshold::Bytes(Bytes(3 * TAGGED));
    let marker = Marker::StepMarker(StepMarker {
        k: ValueByPort::All(k),
        at: MarkAt::Enqueue,
        not_ect: NotEctAction::Drop,
    });
    let classes = vec![ClassSettings { marker: Some(marker), ..class(&[1]) }];
    let both = with_priorities(settings(config()), &config(), &[0, 1]);
    let (topology, flows) = many_to_one(2, 12, 1);
    let (network, ending) = run_until(&topology, &Settings { classes, ..both }, &flows, Time(1000 * US));
    let sink = port(&topology, "switch", "host0");
    let reports = network.port_reports(ending.now);
    let dropped: Vec<_> = reports.iter().filter(|r| r.port == sink).map(|r| r.drops).collect();
    // A packet without a tag is the first to be in, so all twelve of class 1 meet a busy port: four wait, the fifth finds
    // more than three.
    assert_eq!(dropped, [[0; 6], [0, 0, 8, 0, 0, 0]]);
}

fn pfabric(buffer: u64) -> Settings {
    Settings { queue: QueueDiscipline::Pfabric, buffer: per_port(buffer), ..settings(config()) }
}

/// A short flow meets the queue of long ones: first in, first out it waits for all of it, in pFabric for the frame in
/// service and, where the queue is behind its own host, for nothing.
#[test]
fn a_short_flow_passes_the_queue() {
    let (topology, mut flows) = many_to_one(1, 5, 400);
    flows[4] = FlowSpec { size: 4 * MSS, start: Time(200 * US), ..flows[4] };
    let short = |settings: &Settings| {
        let (mut network, ending) = run(&topology, settings, &flows);
        assert_eq!(drops(&network, &ending), [0; 6]);
        let record = network.flow_records(ending.now)[4];
        (fct(&record), record.ideal)
    };
    let frame = Span::from_ns(1231);
    let (time, ideal) = short(&pfabric(1 << 30));
    assert!(time <= ideal + frame * 2, "{time} for an ideal of {ideal}");
    let (time, ideal) = short(&Settings { queue: QueueDiscipline::Fifo, ..pfabric(1 << 30) });
    // 200 us at four times the rate of the link: 600 us of backlog.
    assert!(time > ideal + Span::from_us(500), "{time}");
}

/// Alizadeh et al. 2013: shortest remaining first. Flows that all begin at once end in the order of their sizes.
#[test]
fn flows_end_in_the_order_of_their_sizes() {
    let (topology, mut flows) = many_to_one(1, 6, 1);
    for (flow, packets) in flows.iter_mut().zip([60, 10, 50, 20, 40, 30]) {
        flow.size = packets * MSS;
    }
    let (mut network, ending) = run(&topology, &pfabric(1 << 30), &flows);
    let mut records = network.flow_records(ending.now);
    assert!(records.iter().all(|r| r.status == FlowStatus::Finished && r.retransmits == 0));
    records.sort_by_key(|record| record.end);
    let sizes: Vec<_> = records.iter().map(|record| record.spec.size / MSS).collect();
    assert_eq!(sizes, [10, 20, 30, 40, 50, 60]);
}

/// When the queue is full the packet with the most left goes, even if it came first.
#[test]
fn a_full_queue_gives_up_what_has_the_most_left() {
    let (topology, mut flows) = many_to_one(1, 12, 1);
    // Twelve packets at once: the first goes to the wire, and there is room for 4000 bytes of frames.
    for (flow, bytes) in
        flows.iter_mut().zip([1460, 700, 1400, 800, 1300, 900, 1200, 1000, 1100, 600, 500, 400])
    {
        flow.size = bytes;
    }
    let (mut network, ending) = run_until(&topology, &pfabric(4_000), &flows, Time(1000 * US));
    let records = network.flow_records(ending.now);
    let finished: Vec<u64> =
        records.iter().filter(|r| r.status == FlowStatus::Finished).map(|r| r.spec.size).collect();
    // Shorter packets are in earlier: which one is on the wire when the others come depends on that, what waits does not.
    let smallest: Vec<u64> = vec![400, 500, 600, 700, 800, 900];
    let mut kept = finished.clone();
    kept.sort_unstable();
    assert!(smallest.iter().all(|size| kept.contains(size)), "{kept:?}");
    let dropped = drops(&network, &ending)[DropReason::BufferFull as usize];
    assert_eq!(dropped as usize, 12 - kept.len());
    assert!(dropped >= 4);
}
