//! QCN end to end: a queue held near its set point, limiters in NICs, CNMs on the wire (`docs/models/qcn.md`).

use crate::common::*;
use pauseframe_fabric::{
    CapturedFrame, CapturedFrameContent, FlowSpec, Network, ProtocolSettings, QcnSettings, SamplePlan,
    SampledEntity, SampledMetric, Settings, TransportSettings, UdpSettings,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::dumbbell;
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};
use std::sync::Arc;

/// cee Table I with `Q_eq` 66 KB.
fn qcn66() -> QcnSettings {
    QcnSettings { q_eq: Bytes(66_000), min_rate: BitRate(100_000), ..QcnSettings::default() }
}

/// Cuts to a quarter that last: no recovery within a run.
fn lasting() -> QcnSettings {
    QcnSettings {
        byte_counter: Bytes(1_000_000_000),
        timer: Span::from_secs(1),
        jitter: 0.0,
        g_d: 1.0,
        min_decrease: 0.25,
        ..qcn66()
    }
}

/// Datagrams at the rate of the hosts' links: sources that only QCN can slow down.
fn greedy(qcn: Option<QcnSettings>) -> Settings {
    let datagrams = UdpSettings { rate: BitRate::gbps(10), payload: 1472, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(0) };
    Settings { qcn, transports: vec![transport], ..settings(config()) }
}

fn two_to_two() -> Topology {
    let wire = link(10, Span::from_ns(500));
    dumbbell(2, 2, wire, wire).expect("parameters in their bounds")
}

fn sources(topology: &Topology, until: Time) -> Vec<FlowSpec> {
    let source = |from, to| FlowSpec { stop: Some(until), ..flow(topology, from, to, u64::MAX) };
    vec![source("l0", "r0"), source("l1", "r1")]
}

/// The one port of the dumbbell where two links meet one.
fn bottleneck(topology: &Topology) -> PortId {
    port(topology, "left", "right")
}

/// Backlogs of the bottleneck and limited rates of both flows after `from`, and the network.
fn watched(settings: &Settings, from: Time, until: Time) -> (Vec<f64>, Vec<f64>, Network) {
    let topology = two_to_two();
    let mut network = build(&topology, settings, &sources(&topology, until));
    let plan =
        SamplePlan { every: Span::from_us(10), ports: vec![bottleneck(&topology)], workloads: vec![true] };
    network.enable_sampling(plan);
    proceed(&mut network, until);
    let samples = network.take_metric_samples();
    let of = |metric| {
        let wanted = samples.iter().filter(|s| s.metric == metric && s.time >= from);
        wanted.map(|s| s.value).collect::<Vec<_>>()
    };
    let queues = samples.iter().filter(|s| s.metric == SampledMetric::Backlog && s.time >= from);
    let queues = queues.filter(|s| matches!(s.entity, SampledEntity::PortPriority(_, p) if p == priority(0)));
    (queues.map(|s| s.value).collect(), of(SampledMetric::QcnRate), network)
}

#[test]
fn the_queue_stays_near_its_set_point() {
    let until = Time::ZERO + Span::from_ms(200);
    let (queues, rates, network) = watched(&greedy(Some(qcn66())), Time::ZERO + Span::from_ms(50), until);
    let mean = queues.iter().sum::<f64>() / queues.len() as f64;
    assert!((33_000.0..99_000.0).contains(&mean), "mean queue {mean}, set point 66 KB");
    let most = queues.iter().copied().fold(0.0, f64::max);
    assert!(most < 4.0 * 66_000.0, "longest queue {most}");
    // Both are limited, to the bottleneck's rate together.
    let sum = rates.iter().sum::<f64>() / rates.len() as f64 * 2.0;
    assert!((9.0..11.0).contains(&sum), "limiters allow {sum} Gb/s together");
    let reports = network.port_reports(until);
    let sent: u64 = reports.iter().map(|report| report.cnms_sent).sum();
    let received: u64 = reports.iter().map(|report| report.cnms_received).sum();
    assert!(sent > 100 && sent - received <= 1, "{sent} CNMs sent, {received} received");
    let busy = report(&network, &ended(until), bottleneck(&two_to_two()));
    assert!(busy.busy.0 as f64 / until.0 as f64 > 0.95, "{busy:?}");
}

/// Without QCN the same sources fill any buffer.
#[test]
fn without_it_the_queue_grows_without_bound() {
    let until = Time::ZERO + Span::from_ms(10);
    let (queues, rates, _) = watched(&greedy(None), Time::ZERO, until);
    // 10 Gb/s too much for 10 ms, less preamble and gap.
    assert!(queues.last().is_some_and(|last| *last > 12e6), "{:?}", queues.last());
    assert!(rates.is_empty());
}

fn ended(now: Time) -> pauseframe_engine::RunEnding {
    let (_, ending) = run_until(&two_to_two(), &settings(config()), &[], now);
    pauseframe_engine::RunEnding { now, ..ending }
}

fn captured(settings: &Settings, ports: &[PortId], until: Time) -> Vec<CapturedFrame> {
    let topology = two_to_two();
    let mut network = build(&topology, settings, &sources(&topology, until));
    network.enable_frame_capture(ports, 1_000_000);
    proceed(&mut network, until);
    network.take_captured_frames()
}

/// The first CNM, by hand: when it is sent, what it says, where it goes, and what the NIC makes of it.
#[test]
fn the_first_cnm_goes_back_to_the_source() {
    let topology = two_to_two();
    let settings = greedy(Some(QcnSettings { jitter: 0.0, ..qcn66() }));
    let until = Time::ZERO + Span::from_ms(1);
    let down = [port(&topology, "left", "l0"), port(&topology, "left", "l1")];
    let frames = captured(&settings, &down, until);
    let cnms: Vec<_> =
        frames.iter().filter(|f| matches!(f.content, CapturedFrameContent::Cnm { .. })).collect();
    let CapturedFrameContent::Cnm {
        congestion_point, destination, priority: own, fb, q_off, q_delta, ..
    } = cnms[0].content
    else {
        unreachable!("filtered")
    };
    assert_eq!((congestion_point, own), (bottleneck(&topology), priority(7)));
    assert_eq!(destination, topology.owner(cnms[0].port.reverse()));
    // The sampled queue was above the set point by what the frame says, in steps of 66 KB * 5 / 63.
    let expected = f64::from(q_off + 2 * q_delta) * 63.0 / 330_000.0;
    assert_eq!(fb, expected as u8);
    // Samples come with the 99th frame of 1518 bytes (150,282 bytes) at the earliest: one of each source each 1230.4 ns.
    assert!(cnms[0].time >= Time::ZERO + Span::from_ns(49 * 1230), "{}", cnms[0].time);
}

/// A limited source sends a frame of n wire bytes each 8 n / rate: measured between its frames on the wire.
#[test]
fn the_limiter_spaces_frames_exactly() {
    let topology = two_to_two();
    let until = Time::ZERO + Span::from_ms(2);
    let frames = captured(&greedy(Some(lasting())), &[port(&topology, "l0", "left")], until);
    let times: Vec<u64> = frames.iter().map(|frame| frame.time.0).collect();
    let last = times.windows(2).last().map(|pair| pair[1] - pair[0]);
    // 1538 bytes at 10 Gb/s cut by 4, once or several times: 1230.4 ns times a power of four.
    let last = last.expect("frames were captured");
    assert!((1..6).any(|cuts| last == 1_230_400 * 4u64.pow(cuts)), "{last} ps between frames");
}

/// TCP is not told, but limited: a SYN of the same flow queue waits for its turn at the limited rate, and is paid for.
#[test]
fn the_syn_of_a_limited_queue_is_limited() {
    let topology = two_to_two();
    let until = Time::ZERO + Span::from_ms(5);
    let tcp = pauseframe_transport::TcpConfig { handshake: true, ..config() };
    let tcp = TransportSettings::of_tcp(Arc::new(tcp), priority(0));
    let mut settings = Settings { nic_buffer: 100_000, ..greedy(Some(lasting())) };
    settings.transports.push(tcp);
    let late = Time::ZERO + Span::from_ms(1);
    let mut flows = sources(&topology, until);
    flows.push(FlowSpec { transport: 1, start: late, ..flow(&topology, "l0", "r0", MSS) });
    let mut network = build(&topology, &settings, &flows);
    network.enable_frame_capture(&[port(&topology, "l0", "left")], 1_000_000);
    proceed(&mut network, until);
    let frames = network.take_captured_frames();
    let syn = frames.iter().position(|frame| matches!(frame.content, CapturedFrameContent::Segment(..)));
    let syn = syn.expect("the SYN was sent");
    assert!(frames[syn].time > late + Span::from_us(100), "{}", frames[syn].time);
    let before = (frames[syn].time - frames[syn - 1].time).0;
    let after = (frames[syn + 1].time - frames[syn].time).0;
    // A datagram has 1538 bytes on the wire, the SYN 84 (at least); the rate is 10 Gb/s cut by four, once or more often.
    let syn_bytes = after * 1538 / before;
    assert!((1..6).any(|cuts| before == 1_230_400 * 4u64.pow(cuts)), "{before} ps");
    assert!((84..100).contains(&syn_bytes), "{syn_bytes} bytes were paid for the SYN");
}

#[test]
fn a_run_with_qcn_repeats_itself() {
    let topology = two_to_two();
    let until = Time::ZERO + Span::from_ms(5);
    let print = |seed| {
        let settings = Settings { seed, ..greedy(Some(qcn66())) };
        run_until(&topology, &settings, &sources(&topology, until), until).1.fingerprint
    };
    assert_eq!(print(3), print(3));
    assert_ne!(print(3), print(4));
}
