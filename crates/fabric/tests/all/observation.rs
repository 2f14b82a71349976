//! What the tables say is what happened, whenever a run stops and whatever is recorded: mean backlogs are the integral of what
//! samples see, no port is busier than time passes, and an observer changes nothing, the end of the run included.

use crate::common::*;
use crate::properties::draw;
use pauseframe_engine::random_stream;
use pauseframe_fabric::{
    FailedElement, FlowRecord, FlowSpec, FlowStatus, PortPriorityReport, PortStateChange, ProtocolSettings,
    SamplePlan, SampledEntity, SampledMetric, ScheduledFailure, Settings, StateLogRow, TransportSettings,
    UdpSettings,
};
use pauseframe_topology::generate::{dumbbell, star};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{BitRate, LinkId, PortId, Span, Time};
use std::collections::BTreeMap;

/// The integral of dense samples misses at most a frame for one interval at each change of a queue.
#[test]
fn the_mean_backlog_is_the_integral_of_dense_samples() {
    let every = Span::from_ns(20);
    let mut compared = 0;
    for seed in 0..24 {
        let scenario = draw(seed);
        let until = Time(every.0 * (500 + random_stream(seed, "stop", 0).uniform_below(6_000)));
        let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
        let ports: Vec<PortId> = (0..scenario.topology.port_count() as u32).map(PortId).collect();
        network.enable_sampling(SamplePlan { every, ports, workloads: vec![] });
        // Samples at the end of each interval: those of the last one are taken, as time ends after them.
        let ending = proceed(&mut network, until);
        let mut sums: BTreeMap<(PortId, u8), f64> = BTreeMap::new();
        for sample in network.take_metric_samples() {
            if let (SampledMetric::Backlog, SampledEntity::PortPriority(port, priority)) =
                (sample.metric, sample.entity)
            {
                *sums.entry((port, priority.code_point())).or_default() += sample.value * every.0 as f64;
            }
        }
        for report in network.port_reports(ending.now) {
            let lost = report.lost.iter().chain(&report.drops).sum::<u64>() * FRAME;
            let changed = 2 * (report.tx_bytes + lost) + report.backlog_max;
            let sampled = sums[&(report.port, report.priority.code_point())];
            let exact = report.backlog_mean * ending.now.0 as f64;
            let bound = (changed * every.0) as f64;
            assert!((sampled - exact).abs() <= bound, "seed {seed}: {sampled} {exact} +- {bound} {report:?}");
            compared += u64::from(exact > 20.0 * bound);
        }
    }
    assert!(compared >= 50, "{compared} queues were long enough to tell");
}

/// A port that is never idle sends frames of 1518 bytes with 20 bytes between them, at 10 Gb/s 9.87 Gb/s of frames, in each interval.
#[test]
fn the_throughput_of_a_full_port_is_its_rate_less_the_gaps() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let flows = [flow(&topology, "host0", "host1", 1_000 * MSS)];
    let mut network =
        build(&topology, &settings(TcpConfig { initial_window: 1_000 * MSS, ..config() }), &flows);
    let ports = vec![port(&topology, "host0", "switch")];
    network.enable_sampling(SamplePlan { every: Span::from_us(7), ports, workloads: vec![] });
    proceed(&mut network, Time(700_000_000));
    let samples = network.take_metric_samples();
    let rates: Vec<f64> =
        samples.iter().filter(|one| one.metric == SampledMetric::Throughput).map(|one| one.value).collect();
    assert_eq!(rates.len(), 100);
    let exact = 10.0 * FRAME as f64 / (FRAME + 20) as f64;
    // A frame in service counts as far as it is sent, its gap with it.
    assert!(rates.iter().all(|rate| (rate - exact).abs() < 0.01), "{rates:?}, not {exact}");
}

/// Each sample shows how much of its interval the class was paused.
#[test]
fn paused_fractions_add_up_to_the_time_of_pauses() {
    let topology = star(3, link(10, Span::from_us(1))).unwrap();
    let flows = ["host0", "host1"].map(|from| flow(&topology, from, "host2", 1_000 * MSS));
    let config = TcpConfig { initial_window: 1_000 * MSS, ..config() };
    let mut network = build(&topology, &lossless(config, 50_000), &flows);
    let of_host = port(&topology, "host0", "switch");
    let every = Span::from_us(7);
    network.enable_sampling(SamplePlan { every, ports: vec![of_host], workloads: vec![] });
    let ending = proceed(&mut network, Time::ZERO + every * 100);
    let samples = network.take_metric_samples();
    let fractions: Vec<f64> = samples
        .iter()
        .filter(|one| one.metric == SampledMetric::PausedFraction)
        .map(|one| one.value)
        .collect();
    assert_eq!(fractions.len(), 100);
    assert!(fractions.iter().all(|part| (0.0..=1.0).contains(part)), "{fractions:?}");
    let reports = network.port_reports(ending.now);
    let paused: f64 =
        reports.iter().filter(|row| row.port == of_host).map(|row| row.paused.as_secs_f64()).sum();
    let sampled = fractions.iter().sum::<f64>() * every.as_secs_f64();
    assert!(paused > 1e-4 && (sampled - paused).abs() < 1e-9, "{sampled} {paused}");
}

/// At whatever time a run stops, and with links that fail in the middle of a frame.
#[test]
fn no_port_is_busier_than_time_passes() {
    let mut cut = 0;
    for seed in 0..60 {
        let scenario = draw(seed);
        let mut rng = random_stream(seed, "stop", 1);
        let until = Time(1 + rng.uniform_below(300_000_000));
        let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
        let links = scenario.topology.links().len() as u64;
        let failures = (0..3).map(|_| {
            let down = Time(rng.uniform_below(until.0));
            let up = (rng.uniform_below(2) == 0).then(|| down + Span(1 + rng.uniform_below(2_000_000)));
            ScheduledFailure {
                is_silent: false,
                what: FailedElement::Link(LinkId(rng.uniform_below(links) as u32)),
                down,
                up,
            }
        });
        network.schedule_failures(failures.collect(), Span::from_us(10));
        let ending = proceed(&mut network, until);
        assert_eq!(ending.now, until);
        let mut of_port: BTreeMap<PortId, u64> = BTreeMap::new();
        for report in network.port_reports(until) {
            *of_port.entry(report.port).or_default() += report.busy.0;
            cut += u64::from(report.lost[0] > 0);
        }
        assert!(of_port.values().all(|busy| *busy <= until.0), "seed {seed}: {of_port:?} in {until}");
    }
    assert!(cut > 20, "{cut}");
}

type Outcome = (Vec<PortPriorityReport>, Vec<FlowRecord>, Time, u64, u64);

fn outcome(seed: u64, until: Time, watched: bool, failing: bool) -> Outcome {
    let scenario = draw(seed);
    let mut network = build(&scenario.topology, &scenario.settings, &scenario.flows);
    if failing {
        let down = Time(30_000_000);
        let what = FailedElement::Link(LinkId(seed as u32 % scenario.topology.links().len() as u32));
        let failure = ScheduledFailure { is_silent: false, what, down, up: Some(down + Span::from_us(200)) };
        network.schedule_failures(vec![failure], Span::from_us(50));
    }
    if watched {
        let ports: Vec<PortId> = (0..scenario.topology.port_count() as u32).map(PortId).collect();
        network.enable_frame_capture(&ports, 1_000);
        let every = Span::from_ns(777 + seed);
        network.enable_sampling(SamplePlan { every, ports, workloads: vec![true] });
        network.enable_pause_log(1_000);
        network.enable_deadlock_detection(Span::from_ns(900), false);
    }
    let ending = proceed(&mut network, until);
    network.finish_observers(ending.now);
    let records = network.flow_records(ending.now);
    (network.port_reports(ending.now), records, ending.now, ending.events, ending.fingerprint.as_u64())
}

#[test]
fn an_observer_changes_nothing() {
    for seed in 0..30 {
        // With an end and without one: then the last event of the network is the end, not that of an observer.
        for (until, failing) in
            [(Time(2_000_000_000), false), (Time(50_000_000), true), (Time::MAX, seed % 3 == 0)]
        {
            // Dense samples of the long waits after a loss would be all that this test does.
            if until == Time::MAX && outcome(seed, until, false, failing).2 > Time(2_000_000_000) {
                continue;
            }
            let [bare, watched] = [false, true].map(|watched| outcome(seed, until, watched, failing));
            assert_eq!(bare, watched, "seed {seed}, until {until}, failing {failing}");
        }
    }
}

/// Two observers and nothing else pending: neither keeps the other alive.
#[test]
fn observers_end_with_the_last_event() {
    let wire = link(10, Span::from_us(1));
    let topology = star(2, wire).unwrap();
    let flows = [flow(&topology, "host0", "host1", 10 * MSS)];
    let mut network = build(&topology, &settings(config()), &flows);
    let every = Span::from_us(7);
    network.enable_sampling(SamplePlan { every, ports: vec![PortId(0)], workloads: vec![] });
    network.enable_deadlock_detection(Span::from_us(3), false);
    let ending = proceed(&mut network, Time::MAX);
    let (_, bare) = run(&topology, &settings(config()), &flows);
    assert_eq!(ending.now, bare.now);
    assert!(network.take_metric_samples().iter().all(|sample| sample.time.0 < bare.now.0 + every.0));
    // With an end it stands there, as it is, to that end.
    let (_, late) = run_until(&topology, &settings(config()), &flows, bare.now + Span::from_secs(1));
    assert_eq!((late.now, late.fingerprint), (bare.now + Span::from_secs(1), bare.fingerprint));
}

/// Shared buffers with next to nothing to share: without a cycle of routes all flows still finish, because
/// a port that waits for the pool is notified when others leave it.
#[test]
fn a_tight_shared_pool_forgets_nobody() {
    let mut paused = 0;
    for seed in 0..150 {
        let mut scenario = draw(seed);
        let mut rng = random_stream(seed, "pool", 0);
        if matches!(scenario.family, "ring" | "torus") || scenario.settings.pfc.is_none() {
            continue;
        }
        let alpha = [0.125, 0.5, 1.0, 2.0, 8.0][rng.uniform_below(5) as usize];
        let shared = |size| shared_buffer(size, alpha, 0);
        scenario.settings.buffer = shared(1 << 30);
        for class in &mut scenario.settings.classes {
            class.reserved = None;
        }
        if let Some(pfc) = &mut scenario.settings.pfc {
            pfc.xoff = None;
        }
        let network = build(&scenario.topology, &scenario.settings, &scenario.flows);
        let mut headroom: BTreeMap<_, u64> = BTreeMap::new();
        for report in network.network_plan().headroom_reports() {
            *headroom.entry(scenario.topology.peer(report.port)).or_default() += report.limits.headroom;
        }
        let most = headroom.values().max().copied().unwrap_or(0);
        scenario.settings.buffer = shared(most + 10_000 + rng.uniform_below(60_000));
        let (mut network, ending) = run(&scenario.topology, &scenario.settings, &scenario.flows);
        let unfinished =
            network.flow_records(ending.now).into_iter().filter(|r| r.status != FlowStatus::Finished);
        assert_eq!(unfinished.count(), 0, "seed {seed} ({})", scenario.family);
        paused += u64::from(network.port_reports(ending.now).iter().any(|r| r.pauses_received > 0));
    }
    assert!(paused >= 20, "{paused} networks have paused");
}

/// Datagrams never wait. At half of the link's rate it has half of its load all the time, one row, also if 20 bytes of gap follow each frame of 64; at a
/// tenth, 1,538 bytes every 12.3 us, no interval of 10 us is busier than one frame of 1.23 us, which is too little for a row.
#[test]
fn the_state_log_shows_the_load_of_a_link_without_a_queue() {
    let wire = link(10, Span::from_us(1));
    let topology = star(2, wire).unwrap();
    let slow = Span::from_us(100);
    for (payload, rate, every, expected) in
        [(1472, 5, slow, Some(0.5)), (18, 5, slow, Some(0.5)), (1472, 1, Span::from_us(10), None)]
    {
        let datagrams = UdpSettings { rate: BitRate::gbps(rate), payload, ecn: false };
        let transport =
            TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(0) };
        let settings = Settings { transports: vec![transport], ..settings(config()) };
        let mut network = build(&topology, &settings, &[flow(&topology, "host0", "host1", u64::MAX)]);
        network.enable_state_log(every, 1000);
        proceed(&mut network, Time::ZERO + every * 100);
        let port = port(&topology, "host0", "switch");
        let rows: Vec<_> = network.state_log_rows().iter().filter(|row| row.port == port).collect();
        let seen: Vec<_> = rows.iter().map(|row| (row.time, row.state)).collect();
        let expected: Vec<_> =
            expected.map(|load| (Time::ZERO + every, PortStateChange::Load(load))).into_iter().collect();
        assert_eq!(seen, expected, "{payload} bytes, {rate} Gb/s");
    }
}

/// A port whose link is down sends nothing, and has nothing else to tell than what it drops.
#[test]
fn the_state_log_shows_drops_of_a_port_that_sends_nothing() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let datagrams = UdpSettings { rate: BitRate::gbps(1), payload: 1472, ecn: false };
    let transport = TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(0) };
    let settings = Settings { transports: vec![transport], ..settings(config()) };
    let mut network = build(&topology, &settings, &[flow(&topology, "host0", "host1", 100 * 1472)]);
    let to_host = port(&topology, "switch", "host1");
    let (what, down) = (FailedElement::Link(to_host.link()), Time::ZERO + Span::from_us(600));
    let failure = ScheduledFailure { is_silent: false, what, down, up: None };
    network.schedule_failures(vec![failure], Span::from_ms(100));
    network.enable_state_log(Span::from_us(10), 1000);
    let ending = proceed(&mut network, Time::ZERO + Span::from_ms(5));
    let dropped = |row: &StateLogRow| match row.state {
        PortStateChange::Dropped(packets) if row.port == to_host => packets,
        _ => 0,
    };
    let logged: u64 = network.state_log_rows().iter().map(dropped).sum();
    let report = report(&network, &ending, to_host);
    let lost: u64 = report.drops.iter().chain(&report.lost).sum();
    // A datagram each 12.3 us.
    assert!(lost > 40, "{lost}");
    assert_eq!(logged, lost);
}

/// A pause request names the queue with most bytes of the host that it stops, though the queue of three others is longer.
#[test]
fn the_state_log_names_the_fullest_queue_of_who_is_paused() {
    let wire = link(10, Span::from_us(1));
    let topology = star_of(&["a", "b", "c", "d", "e", "x", "y"].map(|name| (name, wire)));
    let pairs = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "y")];
    let flows = pairs.map(|(from, to)| flow(&topology, from, to, 500 * MSS));
    let mut network = build(&topology, &lossless(config(), 100_000), &flows);
    network.enable_state_log(Span::from_us(10), 100_000);
    proceed(&mut network, Time::MAX);
    for (from, to) in pairs {
        let link = port(&topology, from, "s").link();
        let asked = network.state_log_rows().iter().filter(|row| row.port.link() == link);
        let named = asked.filter_map(|row| match row.state {
            PortStateChange::PauseRequested(fullest) => Some(fullest),
            _ => None,
        });
        let named: Vec<_> = named.collect();
        assert!(!named.is_empty(), "{from} is paused");
        let expected = Some(port(&topology, "s", to));
        assert!(named.iter().all(|fullest| *fullest == expected), "{from}: {named:?}, not {expected:?}");
    }
}

/// Analysers take a second copy of a packet for a retransmission.
#[test]
fn a_packet_is_captured_once_where_it_passes_first() {
    let wire = link(10, Span::from_us(1));
    let topology = dumbbell(1, 1, wire, wire).unwrap();
    let ports = [("left", "right"), ("right", "r0")].map(|(from, to)| port(&topology, from, to));
    for (once, expected) in [(false, [100, 100]), (true, [100, 0])] {
        let mut network = build(&topology, &settings(config()), &[flow(&topology, "l0", "r0", 100 * MSS)]);
        network.enable_frame_capture(&ports, 1_000);
        if once {
            network.capture_first_hop_only();
        }
        proceed(&mut network, Time::MAX);
        let frames = network.take_captured_frames();
        let captured = ports.map(|port| frames.iter().filter(|frame| frame.port == port).count());
        assert_eq!(captured, expected, "{once}");
    }
}

/// Samples show the window of the end that sends more, or that of the requester. While the request leaves, only its window grows.
#[test]
fn samples_show_the_window_of_who_sends_more() {
    let topology = star(2, link(10, Span::from_us(1))).expect("two hosts");
    let (size, initial_window) = (1_000 * MSS, 10 * MSS);
    for (reply, is_requester) in [(0, true), (size - 1, true), (size, true), (size + 1, false)] {
        let request = FlowSpec { reply, ..flow(&topology, "host0", "host1", size) };
        let settings = settings(TcpConfig { initial_window, ..config() });
        let mut network = build(&topology, &settings, &[request]);
        network.enable_sampling(SamplePlan {
            every: Span::from_us(100),
            ports: vec![],
            workloads: vec![true],
        });
        proceed(&mut network, Time::ZERO + Span::from_us(500));
        let samples = network.take_metric_samples();
        let windows = samples.iter().filter(|sample| sample.metric == SampledMetric::Cwnd);
        let largest = windows.map(|sample| sample.value as u64).max().expect("the flow has begun");
        assert_eq!(largest > initial_window, is_requester, "{reply}: {largest}");
    }
}

#[test]
fn no_samples_are_taken_once_sampling_is_off() {
    let topology = star(2, link(10, Span::from_us(1))).unwrap();
    let flows = [flow(&topology, "host1", "host0", 1_000_000)];
    let mut network = build(&topology, &settings(config()), &flows);
    network.enable_sampling(SamplePlan { every: Span::from_us(10), ports: vec![], workloads: vec![true] });
    proceed(&mut network, Time::ZERO + Span::from_us(100));
    assert!(!network.take_metric_samples().is_empty());
    network.disable_sampling();
    let ending = proceed(&mut network, Time::MAX);
    assert!(network.take_metric_samples().is_empty());
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
}
