//! PAUSE of a whole link, slow receivers, flows of datagrams, jumbo frames: closed forms and conservation.

use crate::common::*;
use pauseframe_fabric::{
    CapturedFrameContent, FlowSpec, FlowStatus, LinkHeadroom, PfcSettings, ProtocolSettings, Settings,
    SlowReceiverSettings, TransportSettings, UdpSettings,
};
use pauseframe_topology::Topology;
use pauseframe_transport::TcpConfig;
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::sync::Arc;

fn star(hosts: usize) -> Topology {
    let names = ["a", "b", "c", "d", "e"];
    let wires: Vec<_> = names[..hosts].iter().map(|name| (*name, link(10, Span::from_us(1)))).collect();
    star_of(&wires)
}

fn datagrams(gbps: u64, payload: u32, code_point: u8) -> TransportSettings {
    let datagrams = UdpSettings { rate: BitRate::gbps(gbps), payload, ecn: false };
    TransportSettings { protocol: ProtocolSettings::Udp(datagrams), priority: priority(code_point) }
}

/// A flow of n full datagrams alone takes n times the serialisation, then one more on the second link, and two delays.
#[test]
fn a_flow_of_datagrams_to_the_picosecond() {
    let topology = star(2);
    let settings = Settings { transports: vec![datagrams(10, 1472, 0)], ..settings(config()) };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", 1472 * 100)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.delivered), (FlowStatus::Stopped, 147_200));
    assert_eq!((record.datagrams.sent, record.datagrams.delivered, record.datagrams.lost), (100, 100, 0));
    // 1538 bytes on the wire at 10 Gb/s: 1230.4 ns.
    assert_eq!(record.end, Time::ZERO + Span(101 * 1_230_400) + Span::from_us(2));
    assert_eq!(network.packets_in_network(), 0);
}

/// Two flows of datagrams at line rate into one link: half is lost, all is accounted for.
#[test]
fn what_a_full_queue_drops_is_lost() {
    let topology = star(3);
    let settings = Settings {
        buffer: per_port(100_000),
        transports: vec![datagrams(10, 1472, 0)],
        ..settings(config())
    };
    let flows = [flow(&topology, "a", "c", 14_720_000), flow(&topology, "b", "c", 14_720_000)];
    let (mut network, ending) = run(&topology, &settings, &flows);
    let dropped = drops(&network, &ending)[0];
    let records = network.flow_records(ending.now);
    let lost: u64 = records.iter().map(|record| record.datagrams.lost).sum();
    assert_eq!(lost, dropped);
    for record in &records {
        let count = record.datagrams;
        assert_eq!(count.sent, 10_000);
        assert_eq!(count.sent, count.delivered + count.lost);
        assert_eq!(count.sent_bytes, record.delivered + count.lost_bytes);
    }
    // What got through: 10,000 datagram times, and what the queue of 65 frames held.
    let delivered: u64 = records.iter().map(|record| record.datagrams.delivered).sum();
    assert!((10_000..=10_070).contains(&delivered), "{delivered}");
}

/// Datagrams faster than their host's link: the NIC fills, what finds one datagram waiting already is lost at the source.
#[test]
fn a_source_faster_than_its_link_loses_at_the_host() {
    let topology = star(2);
    let settings =
        Settings { nic_buffer: 15_180, transports: vec![datagrams(20, 1472, 0)], ..settings(config()) };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", 1472 * 1000)]);
    let count = network.flow_records(ending.now)[0].datagrams;
    assert_eq!(count.sent, count.delivered + count.lost);
    assert!((480..=490).contains(&count.lost), "{count:?}");
    let host = report(&network, &ending, port(&topology, "a", "s"));
    assert_eq!(host.drops[0], count.lost);
}

fn pause() -> PfcSettings {
    PfcSettings { whole_link: true, quanta: 1000, ..pfc() }
}

/// Both priorities of a sender stop together, nothing is lost in either, and the frames are those of Annex 31B.
#[test]
fn a_paused_link_stops_all_priorities() {
    let topology = star(3);
    let transport = |p| {
        TransportSettings::of_tcp(Arc::new(TcpConfig { initial_window: 1 << 22, ..config() }), priority(p))
    };
    let settings = Settings {
        buffer: per_port(60_000),
        pfc: Some(pause()),
        transports: vec![transport(0), transport(5)],
        ..settings(config())
    };
    let flows: Vec<FlowSpec> = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
        .map(|(from, transport)| FlowSpec { transport, ..flow(&topology, from, "c", 1_000_000) })
        .to_vec();
    let mut network = build(&topology, &settings, &flows);
    let down = [port(&topology, "s", "a"), port(&topology, "s", "b")];
    network.enable_frame_capture(&down, 1_000_000);
    let ending = proceed(&mut network, Time::MAX);
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
    let frames = network.take_captured_frames();
    let quanta: Vec<u16> = frames
        .iter()
        .filter_map(|frame| match frame.content {
            CapturedFrameContent::LinkPause { quanta } => Some(quanta),
            CapturedFrameContent::Pause { .. } => panic!("a PFC frame on a link with PAUSE"),
            _ => None,
        })
        .collect();
    let reports = network.port_reports(ending.now);
    let of = |p: u8| reports.iter().filter(move |r| r.priority == priority(p) && r.paused > Span::ZERO);
    let (low, high): (Vec<_>, Vec<_>) = (of(0).collect(), of(5).collect());
    assert_eq!(low.len(), 2);
    for (low, high) in low.iter().zip(&high) {
        assert_eq!((low.port, low.paused, low.paused_longest), (high.port, high.paused, high.paused_longest));
        // One account a port, that of the lowest priority in use, and one count of frames.
        assert!(low.pauses_received > 0 && low.pauses_sent == low.pauses_received, "{low:?}");
        assert_eq!((high.pauses_sent, high.ingress_max), (0, 0));
    }
    let sent = low.iter().map(|report| report.pauses_sent).sum::<u64>();
    assert_eq!(quanta.iter().filter(|quanta| **quanta > 0).count() as u64, sent);
    assert_eq!(network.packets_in_network(), 0);
}

fn slow(topology: &Topology, rate: BitRate, buffer: u64) -> SlowReceiverSettings {
    SlowReceiverSettings {
        host: topology.find("b").expect("a host"),
        rate,
        buffer: Bytes(buffer),
        stop: None,
    }
}

/// A lossless flow to a receiver of 1 Gb/s: paced by the host's pauses to the drain of the last byte.
#[test]
fn a_slow_receiver_pauses_its_link() {
    let topology = star(2);
    let base = lossless(TcpConfig { initial_window: 1 << 40, ..config() }, 400_000);
    let settings = Settings { receivers: vec![slow(&topology, BitRate::gbps(1), 100_000)], ..base };
    let packets = 1000u64;
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", packets * MSS)]);
    assert_eq!(drops(&network, &ending), [0; 6]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, record.retransmits), (FlowStatus::Finished, 0));
    // The buffer never runs empty: two serialisations and delays, then 1000 frames of 1522 bytes at 8 ns a byte.
    let first = Span(2 * 1542 * 800) + Span::from_us(2);
    assert_eq!(fct(&record), first + Span(packets * TAGGED * 8000));
    let last_link = report(&network, &ending, port(&topology, "s", "b"));
    assert!(last_link.pauses_received > 0 && last_link.ingress_max <= 100_000, "{last_link:?}");
    // The switch passes it on to the sender.
    assert!(report(&network, &ending, port(&topology, "a", "s")).pauses_received > 0);
}

/// The frame in service at its stop is finished at the rate of the link, and does not wait for the slow rate.
#[test]
fn a_slow_receiver_finishes_the_frame_in_service_at_the_rate_of_its_link() {
    let topology = star(2);
    let slow_for = Span::from_ms(5);
    let receiver = SlowReceiverSettings {
        stop: Some(Time::ZERO + slow_for),
        ..slow(&topology, BitRate(1_000_000), 100_000)
    };
    let base = lossless(config(), 400_000);
    let settings = Settings { receivers: vec![receiver], ..base };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", MSS)]);
    let record = network.flow_records(ending.now)[0];
    // The drain begins after two serialisations and delays; 8 us a byte until the stop, 0.8 ns a byte for the rest.
    let first = Span(2 * 1542 * 800) + Span::from_us(2);
    let left = Span(TAGGED * 8_000_000) - (slow_for - first);
    assert_eq!(fct(&record), slow_for + Span(left.0.div_ceil(10_000)));
}

/// After its stop it takes what waits, and what comes, at the rate of its link.
#[test]
fn a_slow_receiver_recovers() {
    let topology = star(2);
    let base = lossless(TcpConfig { initial_window: 1 << 40, ..config() }, 400_000);
    let (packets, slow_for) = (1000u64, Span::from_ms(5));
    let receiver = SlowReceiverSettings {
        stop: Some(Time::ZERO + slow_for),
        ..slow(&topology, BitRate::gbps(1), 100_000)
    };
    let settings = Settings { receivers: vec![receiver], ..base };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", packets * MSS)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!((record.status, drops(&network, &ending)), (FlowStatus::Finished, [0; 6]));
    // 410 frames in the slow time; the others take 1522 bytes each in the host, 1542 on the wire, and the host sends XON to the switch.
    let rest = packets - slow_for.0 / (TAGGED * 8000);
    // What is left of the frame in service at the stop takes less than a frame.
    let least = slow_for + Span((rest - 1) * TAGGED * 800);
    let most = slow_for + Span(rest * (TAGGED + 20) * 800) + Span::from_us(20);
    assert!((least..=most).contains(&fct(&record)), "{} to {least} to {most}", fct(&record));
}

/// The same with datagrams of a lossy class: the buffer fills and the rest is dropped at the NIC.
#[test]
fn a_slow_receiver_drops_what_is_lossy() {
    let topology = star(2);
    let settings = Settings {
        receivers: vec![slow(&topology, BitRate::gbps(1), 100_000)],
        transports: vec![datagrams(10, 1472, 0)],
        ..settings(config())
    };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", 1472 * 1000)]);
    let host = report(&network, &ending, port(&topology, "b", "s"));
    let record = network.flow_records(ending.now)[0];
    assert_eq!(host.drops[0], record.datagrams.lost);
    // 1000 arrive in 1230.4 us; at 12.144 us a frame 101 are drained meanwhile, and 65 fill the buffer.
    let delivered = record.datagrams.delivered;
    assert!((164..=168).contains(&delivered), "{delivered}");
}

/// With a paused class, a slow receiver and PAUSE together nothing is lost either.
#[test]
fn a_slow_receiver_pauses_the_whole_link() {
    let topology = star(3);
    let transport = |p| TransportSettings::of_tcp(Arc::new(config()), priority(p));
    let settings = Settings {
        buffer: per_port(300_000),
        pfc: Some(pause()),
        receivers: vec![slow(&topology, BitRate::gbps(2), 80_000)],
        transports: vec![transport(0), transport(5)],
        nic_buffer: 100_000,
        ..settings(config())
    };
    let flows: Vec<FlowSpec> = [("a", 0), ("c", 1)]
        .map(|(from, transport)| FlowSpec { transport, ..flow(&topology, from, "b", 500_000) })
        .to_vec();
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
}

const JUMBO_MSS: u64 = 8960;

/// A flow of jumbo frames: n serialisations of 9038 bytes on the wire, one more, two delays.
#[test]
fn jumbo_frames_to_the_picosecond() {
    let topology = star(2);
    let jumbo = TcpConfig { mss: JUMBO_MSS as u32, ..config() };
    let settings = Settings { mtu: 9000, ..settings(jumbo) };
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", 50 * JUMBO_MSS)]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!(fct(&record), Span(51 * 9038 * 800) + Span::from_us(2));
    assert_eq!(record.ideal, fct(&record));
}

/// The headroom of jumbo frames covers them and is what the formula says, with jumbo frames on the way back too.
#[test]
fn jumbo_frames_need_and_have_their_headroom() {
    let topology = star(3);
    let jumbo = TcpConfig { mss: JUMBO_MSS as u32, initial_window: 1 << 40, ..config() };
    let settings = Settings { mtu: 9000, ..lossless(jumbo, 150_000) };
    let ends = [("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")];
    let flows = ends.map(|(from, to)| flow(&topology, from, to, 200 * JUMBO_MSS));
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
    let wire = link(10, Span::from_us(1));
    let needed = LinkHeadroom::new(wire, wire, 9022, settings.overhead, Span::ZERO, 1).headroom_bytes();
    // Wire bytes: 9042 in service, a pause frame of 84, 9042 that had begun, 2500 of two delays; 20 of 9042 do not count;
    // and the frame that crossed XOFF, less one byte.
    assert_eq!(needed, Bytes((20_669u64 * 9022).div_ceil(9042) + 9021));
    let limits = network
        .network_plan()
        .pause_thresholds(port(&topology, "a", "s"), priority(LOSSLESS))
        .expect("a lossless ingress");
    assert_eq!(limits.headroom, needed.0);
    let most = report(&network, &ending, port(&topology, "a", "s")).ingress_max;
    assert!(most > limits.xoff && most <= 150_000, "{most}");
}

/// Step marking counts bytes: with K just above two jumbo frames the packet that finds three is the first marked.
#[test]
fn jumbo_frames_are_marked_by_bytes() {
    let topology = star(3);
    let jumbo = TcpConfig { mss: JUMBO_MSS as u32, ..dctcp(6 * JUMBO_MSS) };
    let marked = |k: u64| {
        let settings = Settings { mtu: 9000, marker: step(k), ..settings(jumbo.clone()) };
        let flows = [flow(&topology, "a", "c", 3 * JUMBO_MSS), flow(&topology, "b", "c", 3 * JUMBO_MSS)];
        let (network, ending) = run(&topology, &settings, &flows);
        report(&network, &ending, port(&topology, "s", "c")).ecn_marks
    };
    // Six frames of 9018 bytes, two at a time: the backlog found is 0 (wire), 0, 0 or 1, 1, 1 or 2, 2 frames.
    assert_eq!((marked(2 * 9018), marked(3 * 9018)), (0, 0));
    assert!(marked(9018 - 1) > marked(9018), "{} {}", marked(9017), marked(9018));
}
