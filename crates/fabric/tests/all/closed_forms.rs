//! What can be worked out by hand, to the picosecond: serialisation plus delays, queues that drain, shares of a link.
//!
//! Times are computed here from bytes and bits per second alone, by a recursion over packets and links that shares
//! nothing with `IdealFctCalculator`.

use crate::common::*;
use pauseframe_engine::random_stream;
use pauseframe_fabric::{FlowSpec, FlowStatus, FrameOverhead, LinuxSwitchSettings, Settings};
use pauseframe_topology::generate::{dumbbell, star};
use pauseframe_topology::{Channel, NodeKind, Topology};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{BitRate, Span, Time};

const US: u64 = 1_000_000;
/// 1538 bytes (1460 + 40 + 18 + 20) at 10 Gb/s, 0.8 ns a byte.
const FULL: u64 = 1_230_400;

/// Picoseconds that `bytes` take at `rate`, rounded up.
fn wire_time(bytes: u64, rate: BitRate) -> u64 {
    (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate.0)) as u64
}

/// When the last of `packets` (bytes on the wire) is over `path`, all of them there at time zero: packet p leaves
/// link i when it has come over link i - 1 and packet p - 1 is out of the way.
fn train_time(packets: &[u64], path: &[Channel], latency: u64) -> u64 {
    let mut out = vec![0; path.len()];
    let mut there = 0;
    for bytes in packets {
        there = 0;
        for (i, (link, out)) in path.iter().zip(&mut out).enumerate() {
            let ready = if i == 0 { 0 } else { there + latency };
            *out = ready.max(*out) + wire_time(*bytes, link.rate);
            there = *out + link.delay.0;
        }
    }
    there
}

/// Bytes on the wire of each packet of a message, `header` bytes of TCP, IP, frame, preamble and gap each.
fn packets(size: u64, header: u64, least: u64) -> Vec<u64> {
    let full = vec![MSS; (size / MSS) as usize];
    let payloads = full.into_iter().chain((!size.is_multiple_of(MSS)).then_some(size % MSS));
    payloads.map(|payload| (payload + header).max(least)).collect()
}

fn one(topology: &Topology, settings: &Settings, spec: FlowSpec) -> u64 {
    let (mut network, ending) = run(topology, settings, &[spec]);
    let record = network.flow_records(ending.now)[0];
    assert_eq!(record.status, FlowStatus::Finished);
    assert_eq!(record.delivered, spec.size + spec.reply);
    assert_eq!((record.retransmits, record.timeouts), (0, 0));
    assert_eq!(record.ideal, fct(&record), "an unlimited window on an idle path is the ideal");
    fct(&record).0
}

fn star_10g() -> Topology {
    star(3, link(10, Span::from_us(1))).unwrap()
}

#[test]
fn one_packet_is_two_serialisations_and_two_delays() {
    let topology = star_10g();
    let fct = one(&topology, &settings(config()), flow(&topology, "host0", "host1", MSS));
    assert_eq!(fct, 2 * FULL + 2 * US);
}

#[test]
fn many_packets_are_one_pipeline() {
    let topology = star_10g();
    let fct = one(&topology, &settings(config()), flow(&topology, "host0", "host1", 1000 * MSS));
    assert_eq!(fct, 1001 * FULL + 2 * US);
}

#[test]
fn a_short_last_packet_follows_behind_the_full_ones() {
    let topology = star_10g();
    let fct = one(&topology, &settings(config()), flow(&topology, "host0", "host1", 9 * MSS + 100));
    // 100 + 40 + 18 + 20 = 178 bytes. It waits at the switch for the ninth packet.
    assert_eq!(fct, 10 * FULL + 142_400 + 2 * US);
}

#[test]
fn a_tiny_packet_is_padded_to_the_smallest_frame() {
    let topology = star_10g();
    let fct = one(&topology, &settings(config()), flow(&topology, "host0", "host1", 1));
    // 64 + 20 bytes.
    assert_eq!(fct, 2 * 67_200 + 2 * US);
}

#[test]
fn two_hosts_back_to_back_need_no_switch() {
    let mut topology = Topology::new();
    let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
    topology.add_link(a, b, link(10, Span::from_us(1)));
    let fct = one(&topology, &settings(config()), flow(&topology, "a", "b", 10 * MSS));
    assert_eq!(fct, 10 * FULL + US);
}

/// The CPU takes 10 us for each packet, while the next ones wait in the receive ring.
#[test]
fn packets_wait_for_the_cpu_of_a_linux_switch() {
    let topology = star_10g();
    for (packets, rate) in [(1, None), (1, Some(100_000)), (3, Some(100_000))] {
        let machine = LinuxSwitchSettings {
            gro: false,
            interrupt_delay: Span::ZERO,
            ring: 256,
            packets_per_second: rate,
        };
        let settings =
            Settings { linux_switch: Some(machine), queue_packets: Some(1_000), ..settings(config()) };
        let spec = flow(&topology, "host0", "host1", packets * MSS);
        let (mut network, ending) = run(&topology, &settings, &[spec]);
        let forwarding = if rate.is_some() { 10 * US * packets } else { 0 };
        let taken = fct(&network.flow_records(ending.now)[0]);
        assert_eq!(taken.0, 2 * FULL + 2 * US + forwarding, "{packets} {rate:?}");
    }
}

#[test]
fn a_handshake_costs_a_round_trip_of_syns() {
    let topology = star_10g();
    let spec = flow(&topology, "host0", "host1", 5 * MSS);
    let data = 6 * FULL + 2 * US;
    // (SACK, timestamps, bytes on the wire of a SYN): 20 + 20 + options padded to four + 18 + 20.
    for (sack, timestamps, syn) in [(false, false, 86), (true, false, 90), (true, true, 98)] {
        let config = TcpConfig { handshake: true, sack, timestamps, ..config() };
        let stamps = if timestamps { 5 + 1 } else { 0 } * 12 * 800;
        let one_way = 2 * syn * 800 + 2 * US;
        assert_eq!(one(&topology, &settings(config), spec), 2 * one_way + data + stamps, "{syn}");
    }
}

#[test]
fn the_stack_is_passed_once_on_each_side_and_latency_once_a_switch() {
    let host = link(10, Span::from_us(1));
    let topology = dumbbell(1, 1, host, host).unwrap();
    let stack = Settings { tx_delay: Span(9_500_000), rx_delay: Span(24_000_001), ..settings(config()) };
    let spec = flow(&topology, "l0", "r0", 5 * MSS);
    let bare = 7 * FULL + 3 * US;
    assert_eq!(one(&topology, &stack, spec), bare + 33_500_001);
    let latency = Settings { switch_latency: Span(300_003), ..stack.clone() };
    assert_eq!(one(&topology, &latency, spec), bare + 33_500_001 + 2 * 300_003);
    let handshake = TcpConfig { handshake: true, ..config() };
    let latency = Settings { transports: settings(handshake).transports, ..latency };
    let one_way = |wire: u64| wire + 3 * US + 33_500_001 + 2 * 300_003;
    assert_eq!(one(&topology, &latency, spec), 2 * one_way(3 * 72_000) + one_way(7 * FULL));
}

#[test]
fn a_tag_costs_four_bytes_a_frame_on_priority_three() {
    let topology = star_10g();
    let spec = flow(&topology, "host0", "host1", 10 * MSS);
    let mut tagged = settings(config());
    tagged.transports[0].priority = priority(3);
    assert_eq!(one(&topology, &tagged, spec), 11 * (FULL + 4 * 800) + 2 * US);
    // In a padded frame the tag is free.
    let tiny = flow(&topology, "host0", "host1", 1);
    assert_eq!(one(&topology, &tagged, tiny), 2 * 67_200 + 2 * US);
}

#[test]
fn without_overhead_the_ip_packet_is_all() {
    let topology = star_10g();
    let bare = Settings { overhead: FrameOverhead::NONE, ..settings(config()) };
    let fct = one(&topology, &bare, flow(&topology, "host0", "host1", 10 * MSS));
    assert_eq!(fct, 11 * 1_200_000 + 2 * US);
    assert_eq!(one(&topology, &bare, flow(&topology, "host0", "host1", 1)), 2 * 32_800 + 2 * US);
}

#[test]
fn a_reply_comes_after_the_last_byte_of_the_request() {
    let topology = star_10g();
    let spec = FlowSpec { reply: 20 * MSS, ..flow(&topology, "host0", "host1", 1600) };
    // 1460 and 140 bytes there (218 on the wire), 20 full packets back.
    assert_eq!(
        one(&topology, &settings(config()), spec),
        (2 * FULL + 174_400 + 2 * US) + (21 * FULL + 2 * US)
    );
    let handshake = settings(TcpConfig { handshake: true, ..config() });
    assert_eq!(one(&topology, &handshake, spec), 2 * (2 * 72_000 + 2 * US) + 23 * FULL + 174_400 + 4 * US);
}

/// A row of switches between hosts `a` and `b`, with these channels there and back.
fn row(there: &[Channel], back: &[Channel]) -> Topology {
    let mut topology = Topology::new();
    let a = topology.add_node("a", NodeKind::Host, None);
    let b = topology.add_node("b", NodeKind::Host, None);
    let switches: Vec<_> =
        (1..there.len()).map(|i| topology.add_node(format!("s{i}"), NodeKind::Switch, None)).collect();
    let nodes: Vec<_> = [a].into_iter().chain(switches).chain([b]).collect();
    for (i, pair) in nodes.windows(2).enumerate() {
        topology.add_asymmetric_link(pair[0], pair[1], [there[i], back[back.len() - 1 - i]]);
    }
    topology
}

/// Rates that do and do not divide a byte into picoseconds, in any order, each direction its own.
#[test]
fn any_path_is_the_recursion_over_packets_and_links() {
    let mut rng = random_stream(7, "any path", 0);
    for case in 0..200 {
        let rates =
            [1_000_000_000, 2_500_000_000, 3_333_333_333, 7_000_000_001, 10_000_000_000, 100_000_000_000];
        let hops = 1 + rng.uniform_below(4) as usize;
        let mut channels = || {
            let mut channel = || Channel {
                rate: BitRate(rates[rng.uniform_below(6) as usize]),
                delay: Span(rng.uniform_below(3) * rng.uniform_below(5_000_000)),
            };
            (0..hops).map(|_| channel()).collect::<Vec<_>>()
        };
        let (there, back) = (channels(), channels());
        let latency = if rng.uniform_below(2) == 0 { 0 } else { rng.uniform_below(2_000_000) };
        let settings = Settings {
            tx_delay: Span(rng.uniform_below(2) * rng.uniform_below(9_000_000)),
            rx_delay: Span(rng.uniform_below(2) * rng.uniform_below(9_000_000)),
            switch_latency: Span(latency),
            ..settings(TcpConfig { handshake: rng.uniform_below(2) == 0, ..config() })
        };
        let size = 1 + rng.uniform_below(40_000);
        let topology = row(&there, &back);
        let stack = settings.tx_delay.0 + settings.rx_delay.0;
        let mut expected = stack + train_time(&packets(size, 78, 84), &there, latency);
        if settings.transports[0].tcp().is_some_and(|config| config.handshake) {
            expected += 2 * stack + train_time(&[90], &there, latency) + train_time(&[90], &back, latency);
        }
        let spec = flow(&topology, "a", "b", size);
        assert_eq!(
            one(&topology, &settings, spec),
            expected,
            "case {case}: {size} bytes, {there:?}, {back:?}"
        );
    }
}

#[test]
fn simultaneous_packets_arrive_one_serialisation_apart_in_the_order_of_their_ports() {
    let topology = star(33, link(10, Span::from_us(1))).unwrap();
    let flows: Vec<_> = (1..33).map(|i| flow(&topology, &format!("host{i}"), "host0", MSS)).collect();
    let (mut network, ending) = run(&topology, &settings(config()), &flows);
    for (k, record) in (2..).zip(network.flow_records(ending.now)) {
        assert_eq!(fct(&record).0, k * FULL + 2 * US);
    }
    let backlog = report(&network, &ending, port(&topology, "switch", "host0"));
    // The first goes straight to the wire; the k-th of the others waits k serialisations.
    assert_eq!(backlog.backlog_max, 31 * FRAME);
    let waited = (1..=31).map(|k| k * FULL).sum::<u64>() as f64;
    let mean = waited * FRAME as f64 / ending.now.0 as f64;
    assert!((backlog.backlog_mean - mean).abs() < 1e-3 * mean, "{} for {mean}", backlog.backlog_mean);
}

#[test]
fn a_long_flow_fills_its_link_with_payload_over_wire_size() {
    let topology = star_10g();
    let spec = flow(&topology, "host0", "host1", u64::MAX);
    let until = Time(20_000 * US);
    let config = TcpConfig { receive_window: 1 << 20, ..config() };
    let (mut network, ending) = run_until(&topology, &settings(config), &[spec], until);
    let delivered = network.flow_records(ending.now)[0].delivered;
    // Packet n is in at (n + 1) serialisations and two delays.
    assert_eq!(delivered, ((until.0 - 2 * US) / FULL - 1) * MSS);
    let sent = report(&network, &ending, port(&topology, "host0", "switch"));
    // It has sent without a break, and of the frame in service what has passed counts.
    assert_eq!((sent.busy.0, sent.tx_packets), (until.0, until.0.div_ceil(FULL)));
}

/// The hosts' links are faster than the shared one: at equal rates and without any jitter, flows can lock into the
/// gaps of each other (Floyd and Jacobson 1992) and keep unequal shares for as long as one cares to look.
#[test]
fn n_long_flows_share_a_link_in_n_parts() {
    for n in [2, 4, 8] {
        let names: Vec<_> = (0..n).map(|i| format!("h{i}")).collect();
        let fast = link(100, Span::from_us(20));
        let mut hosts: Vec<_> = names.iter().map(|name| (name.as_str(), fast)).collect();
        hosts.push(("sink", link(10, Span::from_us(20))));
        let topology = star_of(&hosts);
        let flows: Vec<_> = names.iter().map(|name| flow(&topology, name, "sink", u64::MAX)).collect();
        let settings = Settings { marker: step(30_000), ..settings(dctcp(10 * MSS)) };
        let rows = goodputs(&topology, &settings, &flows, Span::from_ms(10), Time(410_000 * US));
        let shares = mean(&rows, 1, 41);
        let all = shares.iter().sum::<f64>();
        let link = 10.0 * MSS as f64 / 1538.0;
        assert!((0.995 * link..=link * 1.0001).contains(&all), "{all} Gb/s of {link}");
        for share in &shares {
            assert!((share * f64::from(n) / link - 1.0).abs() < 0.1, "{shares:?}");
        }
    }
}

/// Poisson arrivals of equal packets at a link that carries one at a time wait rho / (2 (1 - rho)) serialisations
/// on average (Pollaczek 1930, Khinchin 1932).
#[test]
fn poisson_arrivals_wait_as_long_as_in_md1() {
    const PACKETS: u64 = 40_000;
    let fast = link(400, Span::from_us(1));
    let names: Vec<_> = (0..40).map(|i| format!("h{i}")).collect();
    let mut hosts: Vec<_> = names.iter().map(|name| (name.as_str(), fast)).collect();
    hosts.push(("sink", link(10, Span::from_us(1))));
    let topology = star_of(&hosts);
    for rho in [0.5, 0.8] {
        let mut rng = random_stream(3, "md1", 0);
        let mut now = 0.0;
        let flows: Vec<_> = (0..PACKETS)
            .map(|_| {
                now -= (1.0 - rng.uniform_unit()).ln() * FULL as f64 / rho;
                let from = &names[rng.uniform_below(40) as usize];
                FlowSpec { start: Time(now as u64), ..flow(&topology, from, "sink", MSS) }
            })
            .collect();
        let (mut network, ending) = run(&topology, &settings(config()), &flows);
        let waits =
            network.flow_records(ending.now).into_iter().map(|record| fct(&record).0 - record.ideal.0);
        let mean = waits.sum::<u64>() as f64 / PACKETS as f64 / FULL as f64;
        let expected = rho / (2.0 * (1.0 - rho));
        assert!((mean / expected - 1.0).abs() < 0.08, "load {rho}: {mean} serialisations, theory {expected}");
    }
}
