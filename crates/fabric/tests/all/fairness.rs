//! What the TCP-Bolt paper found of pauses between flows (Stephens et al. 2014, §II-A3, §II-A4, §V-A): PFC
//! shares by port, not by flow, and blocks what waits behind the paused; DCTCP keeps queues short and so does away
//! with both.
//!
//! Bands are of goodput, with 10 Gb/s links and a base RTT of about 26 us; the paper's testbed had 240 us.

use crate::common::*;
use pauseframe_fabric::{FlowSpec, Settings};
use pauseframe_topology::generate::dumbbell;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{Span, Time};

const MS: u64 = 1_000_000_000;
/// What a 10 Gb/s link carries of 1460-byte payloads in 1542-byte packets.
const GOODPUT: f64 = 10.0 * 1460.0 / 1542.0;

/// Plain `NewReno` whose window is far larger than the path, in a lossless class.
fn tcp_dcb() -> Settings {
    let config = TcpConfig { initial_window: 100 * MSS, receive_window: 1 << 20, ..config() };
    Settings {
        tx_delay: Span::from_us(5),
        rx_delay: Span::from_us(5),
        nic_buffer: 100_000,
        ..lossless(config, 225_000)
    }
}

/// DCTCP with a window of a BDP at the start, in the same class.
fn tcp_bolt() -> Settings {
    let bdp = 10_000 / 8 * 26;
    let transports = lossless(TcpConfig { receive_window: 1 << 20, ..dctcp(bdp) }, 0).transports;
    Settings { transports, marker: step(22_500), ..tcp_dcb() }
}

/// Fig. 3: A and B at one switch, H1 to H4 at another, one link between them; flows to A.
fn port_fairness() -> (Topology, Vec<FlowSpec>) {
    let wire = link(10, Span::from_us(1));
    let topology = dumbbell(2, 4, wire, wire).unwrap();
    let flows = ["l1", "r0", "r1", "r2", "r3"].map(|from| flow(&topology, from, "l0", u64::MAX));
    (topology, flows.to_vec())
}

/// B-M07: B gets half of A's link, the four that come by the other port an eighth each.
#[test]
fn pfc_shares_a_link_by_ports() {
    let (topology, flows) = port_fairness();
    let rows = goodputs(&topology, &tcp_dcb(), &flows, Span::from_ms(5), Time(60 * MS));
    let shares = mean(&rows, 2, 12);
    let all: f64 = shares.iter().sum();
    assert!(all > 0.99 * GOODPUT, "{shares:?}");
    assert!((shares[0] / all - 0.5).abs() <= 0.03, "B: {shares:?}");
    for share in &shares[1..] {
        assert!((share / all - 0.125).abs() <= 0.02, "{shares:?}");
    }
}

/// Shares of Fig. 9, a second of the paper being `second`: `[epoch][flow]`, 2, 3, 4, 5, 4, 3, 2 flows in turn. The first
/// tenth of an epoch, the join itself, is left out.
fn epochs(second: u64, settings: &Settings) -> Vec<Vec<f64>> {
    let (topology, mut flows) = port_fairness();
    for (flow, (start, stop)) in flows.iter_mut().zip([(0, 14), (0, 14), (2, 12), (4, 10), (6, 8)]) {
        flow.start = Time(start * second);
        flow.stop = Some(Time(stop * second));
    }
    let rows = goodputs(&topology, settings, &flows, Span(second / 10), Time(14 * second));
    (0..7).map(|epoch| mean(&rows, epoch * 20 + 2, epoch * 20 + 20)).collect()
}

const FLOWS: [usize; 7] = [2, 3, 4, 5, 4, 3, 2];

/// With TCP-Bolt the port does not matter any more: the link stays full without pauses, and those that come by one
/// port are equal.
#[test]
fn tcp_bolt_does_without_pauses_and_so_without_shares_by_port() {
    let (topology, flows) = port_fairness();
    let (network, ending) = run_until(&topology, &tcp_bolt(), &flows, Time(60 * MS));
    let pauses: u64 = network.port_reports(ending.now).iter().map(|report| report.pauses_sent).sum();
    // Five initial windows at once exceed the buffer; no later packet is dropped.
    let start = run_until(&topology, &tcp_bolt(), &flows, Time(MS));
    let at_start: u64 = start.0.port_reports(start.1.now).iter().map(|report| report.pauses_sent).sum();
    assert_eq!(pauses, at_start);
    for (shares, n) in epochs(60 * MS, &tcp_bolt()).iter().zip(FLOWS) {
        let all: f64 = shares.iter().sum();
        assert!(all > 0.99 * GOODPUT, "{shares:?}");
        assert!(shares[0] / all < 0.5 - 0.03 || n == 2, "B: {shares:?}");
        let others = &shares[1..n];
        let mean = others.iter().sum::<f64>() / (n - 1) as f64;
        assert!(others.iter().all(|share| (share / mean - 1.0).abs() < 0.15), "{shares:?}");
    }
}

/// Towards B-M10 (n flows get 10/n Gb/s each): real hosts take now more, now less time for a segment. Without that
/// jitter the flows lock in phase, and B, alone on its port, falls below two thirds of its share; with it every
/// flow is near. The claim's own band of 10 % is missed by a hair (B has 2.12 of 2.37 Gb/s with four flows).
#[test]
fn jitter_keeps_flows_from_locking_in_phase() {
    let share_of_b = |settings: &Settings| {
        let all = epochs(60 * MS, settings);
        let shares = all.iter().zip(FLOWS).map(|(shares, n)| shares[0] / (GOODPUT / n as f64));
        shares.fold(f64::INFINITY, f64::min)
    };
    let without = share_of_b(&tcp_bolt());
    let with = share_of_b(&Settings { tx_jitter: Span::from_us(10), ..tcp_bolt() });
    assert!(without < 2.0 / 3.0, "{without}");
    assert!((0.85..1.1).contains(&with), "{with}");
}

/// Fig. 6 as far as Fig. 7 tells it: A sends to C and to D over one link between two switches, H1 to H3, at C's
/// switch, send to C. The flow from A to C (the first) ends half way. `uplink`: rate of A's own link.
fn head_of_line(uplink: u64, settings: &Settings) -> [Vec<f64>; 2] {
    let mut topology = Topology::new();
    let hosts = ["a", "h1", "h2", "h3", "c", "d"].map(|name| topology.add_node(name, NodeKind::Host, None));
    let [ctx, far] = ["near", "far"].map(|name| topology.add_node(name, NodeKind::Switch, None));
    let wire = |gbps| link(gbps, Span::from_us(1));
    topology.add_link(hosts[0], ctx, wire(uplink));
    for host in &hosts[1..] {
        topology.add_link(*host, far, wire(10));
    }
    topology.add_link(ctx, far, wire(10));
    let pairs = [("a", "c"), ("a", "d"), ("h1", "c"), ("h2", "c"), ("h3", "c")];
    let mut flows = pairs.map(|(from, to)| flow(&topology, from, to, u64::MAX));
    flows[0].stop = Some(Time(100 * MS));
    let rows = goodputs(&topology, settings, &flows, Span::from_ms(10), Time(200 * MS));
    [mean(&rows, 2, 10), mean(&rows, 11, 20)]
}

/// B-M11: the flow to the idle D gets no more than the one to the crowded C that it shares a link with, a quarter of
/// C's, until that one ends.
#[test]
fn pfc_blocks_what_waits_behind_the_paused() {
    let [before, after] = head_of_line(10, &tcp_dcb());
    assert!(before.iter().all(|share| (share - 2.5).abs() <= 0.3), "{before:.2?}");
    assert!(after[1] >= 9.3, "{after:.2?}");
    assert!(after[2..].iter().all(|share| (share / (10.0 / 3.0) - 1.0).abs() <= 0.1), "{after:.2?}");
}

/// B-M12: with TCP-Bolt the flow to D uses what the one to C leaves. Where A can send more than the link between the
/// switches carries, the one to C is marked twice and gets about half of its share (with A's link as fast as that
/// one nothing queues there, and it gets all of it).
#[test]
fn tcp_bolt_unblocks_it() {
    let [before, after] = head_of_line(10, &tcp_bolt());
    assert!(before[0] + before[1] >= 9.0, "{before:.2?}");
    assert!((before[0] / (GOODPUT / 4.0) - 1.0).abs() <= 0.15, "{before:.2?}");
    assert!(after[1] >= 9.3, "{after:.2?}");

    let [before, _] = head_of_line(40, &tcp_bolt());
    assert!(before[0] + before[1] >= 9.0, "{before:.2?}");
    assert!((before[0] / (GOODPUT / 4.0) - 0.5).abs() <= 0.15, "{before:.2?}");
}
