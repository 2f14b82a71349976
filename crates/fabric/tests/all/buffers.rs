//! Who may hold how much, to the packet: fixed limits, the dynamic threshold, marking.

use crate::common::*;
use pauseframe_fabric::{
    BufferPolicy, DropReason, FlowSpec, FlowStatus, MarkAt, Marker, NotEctAction, QueueLengthThreshold,
    SamplePlan, SampledMetric, Settings, StepMarker, TransportSettings, ValueByPort,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_transport::{EcnMode, RtoConfig, TcpConfig};
use pauseframe_units::{Bytes, Span, Time};
use std::sync::Arc;

const US: u64 = 1_000_000;

/// `count` hosts send one full packet each to `host0`, all at once: the first goes straight to the wire, the k-th
/// of the others finds k - 1 waiting.
fn burst(count: u32, transport: u16) -> (Topology, Vec<FlowSpec>) {
    let topology = star(count + 1, link(10, Span::from_us(1))).unwrap();
    let flows =
        (1..=count).map(|i| FlowSpec { transport, ..flow(&topology, &format!("host{i}"), "host0", MSS) });
    let flows = flows.collect();
    (topology, flows)
}

/// One retransmission is far away.
const SOON: Time = Time(1000 * US);

#[test]
fn a_fixed_limit_drops_the_packet_that_would_exceed_it() {
    let (topology, flows) = burst(20, 0);
    for (limit, kept) in [(5 * FRAME, 5), (5 * FRAME - 1, 4), (6 * FRAME - 1, 5), (0, 0), (19 * FRAME, 19)] {
        let settings = Settings { buffer: per_port(limit), ..settings(config()) };
        let (mut network, ending) = run_until(&topology, &settings, &flows, SOON);
        assert_eq!(drops(&network, &ending), [19 - kept, 0, 0, 0, 0, 0], "{limit} bytes");
        let records = network.flow_records(ending.now);
        let finished: Vec<bool> =
            records.iter().map(|record| record.status == FlowStatus::Finished).collect();
        // Tail drop: the first ones are in.
        assert_eq!(finished, (0..20).map(|i| i <= kept).collect::<Vec<_>>());
        let egress = report(&network, &ending, port(&topology, "switch", "host0"));
        assert_eq!(
            (egress.backlog_max, egress.drops[DropReason::BufferFull as usize]),
            (kept * FRAME, 19 - kept)
        );
    }
}

/// A limit in packets holds for full ones and for short ones (Linux pfifo), and bytes still count.
#[test]
fn a_limit_in_packets_counts_them_however_short() {
    for (size, limit, bytes, kept) in
        [(MSS, 5, 1 << 20, 5), (100, 5, 1 << 20, 5), (100, 19, 1 << 20, 19), (MSS, 5, 3 * FRAME, 3)]
    {
        let (topology, flows) = burst(20, 0);
        let flows: Vec<_> = flows.into_iter().map(|flow| FlowSpec { size, ..flow }).collect();
        let settings = Settings { buffer: per_port(bytes), queue_packets: Some(limit), ..settings(config()) };
        let (network, ending) = run_until(&topology, &settings, &flows, SOON);
        assert_eq!(drops(&network, &ending), [19 - kept, 0, 0, 0, 0, 0], "{limit} packets of {size} bytes");
    }
}

/// Choudhury and Hahne 1998: of n congested queues each gets alpha / (1 + n alpha) of the pool.
#[test]
fn a_shared_pool_gives_queues_their_dynamic_threshold() {
    let pool = 300_000;
    for (alpha, queues) in [(0.5, 1), (1.0, 1), (4.0, 1), (0.5, 2), (1.0, 2), (4.0, 2), (1.0, 3)] {
        let senders = 24;
        let topology = star(senders + 3, link(10, Span::from_us(1))).unwrap();
        // Every sink is offered far more than its link carries and its queue may hold.
        let flows: Vec<_> = (0..senders)
            .flat_map(|i| (0..queues).map(move |to| (i, to)))
            .map(|(i, to)| flow(&topology, &format!("host{}", i + 3), &format!("host{to}"), 300 * MSS))
            .collect();
        let buffer = shared_buffer(pool, alpha, 0);
        let mut network = build(&topology, &Settings { buffer, ..settings(config()) }, &flows);
        let sinks: Vec<_> = (0..queues).map(|to| port(&topology, "switch", &format!("host{to}"))).collect();
        let plan = SamplePlan { every: Span::from_us(1), ports: sinks.clone(), workloads: vec![] };
        network.enable_sampling(plan);
        let ending = proceed(&mut network, Time(300 * US));
        assert!(drops(&network, &ending)[DropReason::BufferFull as usize] > 100);
        let share = pool as f64 * alpha / (1.0 + f64::from(queues) * alpha);
        // The first to come may hold the share of one; that is over when its excess has drained.
        let samples = network.take_metric_samples();
        let steady = samples.iter().filter(|s| s.metric == SampledMetric::Backlog && s.time > Time(150 * US));
        let values: Vec<_> = steady.map(|sample| sample.value).collect();
        assert_eq!(values.len(), 150 * sinks.len());
        for value in values {
            assert!(
                (value - share).abs() <= 3.0 * FRAME as f64,
                "alpha {alpha}, {queues} queues: {value}, not {share}"
            );
        }
        if queues == 1 {
            // Exactly: packet by packet while q + s <= alpha (pool - q).
            let fits = |k: &u64| (k * FRAME) as f64 <= (alpha * (pool - (k - 1) * FRAME) as f64).floor();
            let most = (1..1000).take_while(fits).last().unwrap() * FRAME;
            assert_eq!(report(&network, &ending, sinks[0]).backlog_max, most);
        }
    }
}

/// A queue may reach its threshold: with alpha 1 the k-th packet finds k - 1 in the pool, and 2k - 1 fit.
#[test]
fn a_queue_reaches_its_dynamic_threshold_exactly() {
    let (topology, flows) = burst(20, 0);
    for (pool, kept) in [(11 * FRAME, 6), (11 * FRAME - 1, 5), (13 * FRAME, 7)] {
        let settings = Settings { buffer: shared_buffer(pool, 1.0, 0), ..settings(config()) };
        let (network, ending) = run_until(&topology, &settings, &flows, SOON);
        let egress = report(&network, &ending, port(&topology, "switch", "host0"));
        assert_eq!(egress.backlog_max, kept * FRAME, "{pool} bytes");
    }
}

/// With alpha above 1 the threshold of a queue is more than what is free; the pool is still not overdrawn.
#[test]
fn a_large_alpha_does_not_overdraw_the_pool() {
    let (topology, flows) = burst(40, 0);
    let (_, lossless_flows) = burst(40, 1);
    let size = 10 * FRAME + 700;
    let buffer = shared_buffer(size, 64.0, 0);
    let settings = Settings { buffer, ..settings(config()) };
    let (network, ending) = run_until(&topology, &settings, &flows, SOON);
    assert_eq!(report(&network, &ending, port(&topology, "switch", "host0")).backlog_max, 10 * FRAME);
    assert_eq!(drops(&network, &ending), [29, 0, 0, 0, 0, 0]);

    // Lossless: what the pool cannot take goes to the headroom, and nothing is lost.
    let transport = TransportSettings::of_tcp(Arc::new(config()), priority(LOSSLESS));
    let size = 41 * 40_000;
    let buffer = shared_buffer(size, 64.0, 0);
    let transports = vec![settings.transports[0].clone(), transport];
    let settings = Settings { buffer, transports, pfc: Some(pfc()), ..settings };
    let flows: Vec<_> = lossless_flows.iter().map(|flow| FlowSpec { size: 100 * MSS, ..*flow }).collect();
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
}

/// What bursts leave behind: each is treated as the first was. Bytes that are not given back would add up.
#[test]
fn a_drained_pool_is_as_large_as_a_new_one() {
    const ROUNDS: u64 = 100;
    let (topology, first) = burst(20, 0);
    let round =
        |round: u64| first.iter().map(move |flow| FlowSpec { start: Time(round * 200 * US), ..*flow });
    let flows: Vec<_> = (0..ROUNDS).flat_map(round).collect();
    // No retransmission comes between the rounds.
    let rto = RtoConfig { initial: Span::from_secs(9), ..config().rto };
    let config = TcpConfig { rto, ..config() };
    // Lossy by egress: a pool of 20 KB beside 21 reserves. Lossless by ingress: some of it in the headroom.
    let lossy = Settings { buffer: shared(21 * 1000 + 20_000), ..settings(config.clone()) };
    let lossless = Settings { buffer: shared(21 * 1000 + 160_000), ..lossless(config, 0) };
    for (settings, kept) in [(lossy, Some(7)), (lossless, None)] {
        let (mut network, ending) = run_until(&topology, &settings, &flows, Time(ROUNDS * 200 * US));
        let records = network.flow_records(ending.now);
        let outcomes: Vec<_> =
            records.iter().map(|r| (r.status == FlowStatus::Finished).then(|| fct(r))).collect();
        let expected = &outcomes[..20];
        // With kept: 1000 reserved, then while q - 1000 <= pool - (what it has of the pool).
        let finished = expected.iter().flatten().count();
        assert_eq!(finished, kept.map_or(20, |kept| kept + 1));
        for (number, outcome) in outcomes.chunks(20).enumerate() {
            assert_eq!(outcome, expected, "round {number}");
        }
    }
}

fn shared(size: u64) -> BufferPolicy {
    shared_buffer(size, 1.0, 1000)
}

fn ecn_settings(marker: Marker, ecn: EcnMode) -> Settings {
    let config = TcpConfig { ecn, ..config() };
    Settings { marker, ..settings(config) }
}

/// Which of the packets of a burst of `count` were marked, and how many were dropped.
fn marked(marker: Marker, ecn: EcnMode, count: u32) -> (Vec<u32>, [u64; 6]) {
    let (topology, flows) = burst(count, 0);
    let (mut network, ending) = run_until(&topology, &ecn_settings(marker, ecn), &flows, SOON);
    let marks = (0..).zip(network.flow_records(ending.now)).filter(|(_, r)| r.ce_packets > 0).map(|(i, _)| i);
    let marks = marks.collect::<Vec<u32>>();
    let egress = report(&network, &ending, port(&topology, "switch", "host0"));
    assert_eq!(egress.ecn_marks, marks.len() as u64);
    (marks, drops(&network, &ending))
}

#[test]
fn step_marking_at_enqueue_marks_what_finds_more_than_k() {
    let at = |k: u64| {
        Marker::StepMarker(StepMarker {
            k: ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(k))),
            at: MarkAt::Enqueue,
            not_ect: NotEctAction::Queue,
        })
    };
    for ecn in [EcnMode::Dctcp, EcnMode::Classic] {
        // Packet 0 meets an idle port, packet i finds i - 1 waiting: more than three from packet 5 on.
        assert_eq!(marked(at(3 * FRAME), ecn, 10), ((5..10).collect(), [0; 6]));
        assert_eq!(marked(at(3 * FRAME - 1), ecn, 10), ((4..10).collect(), [0; 6]));
        assert_eq!(marked(at(0), ecn, 10), ((2..10).collect(), [0; 6]));
        assert_eq!(marked(at(9 * FRAME), ecn, 10), (vec![], [0; 6]));
    }
    assert_eq!(marked(at(3 * FRAME), EcnMode::Off, 10), (vec![], [0; 6]), "only what is ECN-capable");
}

#[test]
fn step_marking_at_dequeue_marks_what_leaves_more_than_k_with_itself() {
    let at = |k: u64| {
        Marker::StepMarker(StepMarker {
            k: ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(k))),
            at: MarkAt::Dequeue,
            not_ect: NotEctAction::Queue,
        })
    };
    // Packet i leaves when those from i on are there: 10 - i of them.
    assert_eq!(marked(at(3 * FRAME), EcnMode::Dctcp, 10), ((1..7).collect(), [0; 6]));
    assert_eq!(marked(at(3 * FRAME - 1), EcnMode::Dctcp, 10), ((1..8).collect(), [0; 6]));
    assert_eq!(marked(at(3 * FRAME), EcnMode::Off, 10), (vec![], [0; 6]));
}

#[test]
fn what_is_not_ect_is_dropped_above_k_where_it_is_asked_for() {
    let marker = Marker::StepMarker(StepMarker {
        k: ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(3 * FRAME))),
        at: MarkAt::Enqueue,
        not_ect: NotEctAction::Drop,
    });
    // The queue stays at four packets: 0 on the wire, 1 to 4 waiting.
    assert_eq!(marked(marker.clone(), EcnMode::Off, 10), (vec![], [0, 0, 5, 0, 0, 0]));
    assert_eq!(marked(marker.clone(), EcnMode::Dctcp, 10), ((5..10).collect(), [0; 6]));
    // A lossless class keeps them: losing them would be no better than not marking them.
    let (topology, flows) = burst(10, 0);
    let settings = Settings { marker, ..lossless(config(), 100_000) };
    let (network, ending) = run_until(&topology, &settings, &flows, SOON);
    assert_eq!(drops(&network, &ending), [0; 6]);
}

/// A packet that is dropped because the buffer is full has not been marked.
#[test]
fn a_packet_that_is_dropped_is_not_counted_as_marked() {
    let (topology, flows) = burst(10, 0);
    let settings = Settings { buffer: per_port(5 * FRAME), ..ecn_settings(step(3 * FRAME), EcnMode::Dctcp) };
    let (network, ending) = run_until(&topology, &settings, &flows, SOON);
    let egress = report(&network, &ending, port(&topology, "switch", "host0"));
    assert_eq!((egress.drops, egress.ecn_marks), ([4, 0, 0, 0, 0, 0], 1));
}
