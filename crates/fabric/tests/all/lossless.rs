//! A lossless class loses nothing when its headroom covers its links, whatever the fabric, the rates, the delays and
//! the MTU, in buffers that have room for little else; and the arithmetic has not a byte too many.

use crate::common::*;
use pauseframe_engine::{Rng, random_stream};
use pauseframe_fabric::{
    DropReason, FlowSpec, FlowStatus, FrameOverhead, HeadroomReport, LinkHeadroom, PfcSettings, Settings,
};
use pauseframe_topology::{Channel, NodeKind, Topology};
use pauseframe_transport::{DelayedAckConfig, RtoConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use proptest::prelude::*;

/// A random tree of switches with a host or two at each: no cycles, so no deadlock. Every direction of every link has a
/// rate and its own delay.
fn random_tree(rng: &mut Rng) -> Topology {
    let mut topology = Topology::new();
    let channel = |rng: &mut Rng| Channel {
        rate: BitRate::gbps([1, 10, 25, 40, 100][rng.uniform_below(5) as usize]),
        delay: Span(rng.uniform_below(5_000_000)),
    };
    let mut switches = Vec::new();
    for number in 0..2 + rng.uniform_below(4) {
        let switch = topology.add_node(format!("s{number}"), NodeKind::Switch, None);
        if number > 0 {
            let other = switches[rng.uniform_below(number) as usize];
            let channels = [channel(rng), channel(rng)];
            topology.add_asymmetric_link(switch, other, channels);
        }
        switches.push(switch);
    }
    for (number, switch) in switches.iter().flat_map(|s| [s, s]).enumerate() {
        let host = topology.add_node(format!("h{number}"), NodeKind::Host, None);
        let channels = [channel(rng), channel(rng)];
        topology.add_asymmetric_link(host, *switch, channels);
    }
    topology
}

/// Everybody sends to a few, at line rate and again and again.
fn storm(rng: &mut Rng, topology: &Topology) -> Vec<FlowSpec> {
    let hosts: Vec<_> = topology.hosts().collect();
    let sinks = 1 + rng.uniform_below(2);
    let mut flows: Vec<FlowSpec> = hosts
        .iter()
        .filter_map(|source| {
            let destination = hosts[rng.uniform_below(sinks) as usize];
            let start = Time(rng.uniform_below(50_000_000));
            let size = 1 + rng.uniform_below(400_000);
            (destination != *source)
                .then_some(FlowSpec { start, ..FlowSpec::new(*source, destination, size) })
        })
        .collect();
    flows.sort_by_key(|flow| flow.start);
    flows
}

fn draw_settings(rng: &mut Rng, mtu: u32) -> Settings {
    let config = TcpConfig {
        mss: mtu - 40,
        rto: RtoConfig { initial: Span::from_ms(900), min: Span::from_ms(900), ..config().rto },
        ..config()
    };
    let overhead = if rng.uniform_below(2) == 0 { FrameOverhead::ETHERNET } else { FrameOverhead::NONE };
    let pfc = PfcSettings {
        // A frame or a few above which it pauses: next to nothing but headroom.
        xoff: Some(Bytes(u64::from(mtu) * (1 + rng.uniform_below(4)))),
        reaction: Some(Span(rng.uniform_below(3_000_000))),
        quanta: [2000, u16::MAX][rng.uniform_below(2) as usize],
        ..pfc()
    };
    let buffer =
        if rng.uniform_below(2) == 0 { per_port(10_000_000) } else { shared_buffer(40_000_000, 0.01, 0) };
    Settings { mtu, overhead, pfc: Some(pfc), buffer, ..lossless(config, 0) }
}

fn nothing_is_lost(seed: u64, mtu: u32) {
    let mut rng = random_stream(seed, "lossless", 0);
    let topology = random_tree(&mut rng);
    let mut settings = draw_settings(&mut rng, mtu);
    let flows = storm(&mut rng, &topology);
    if build(&topology, &settings, &[])
        .warnings()
        .iter()
        .any(|warning| warning.starts_with("switch.pfc.quanta"))
    {
        settings.pfc.as_mut().unwrap().quanta = u16::MAX;
    }
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert!(network.warnings().is_empty(), "{:?}", network.warnings());
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert!(network.port_reports(ending.now).iter().all(|report| report.lost == [0; 3]));
    for record in network.flow_records(ending.now) {
        assert_eq!(record.status, FlowStatus::Finished);
        assert_eq!((record.retransmits, record.timeouts), (0, 0));
    }
}

/// Found by the swarm below: 2000 quanta of a 25 Gb/s link, renewed by frames that wait for 5 KB ones at 1 Gb/s.
#[test]
fn a_pause_that_runs_out_before_its_renewal_is_warned_of() {
    let (seed, mtu) = (13_330_999_377_257_672_915, 5117);
    let mut rng = random_stream(seed, "lossless", 0);
    let topology = random_tree(&mut rng);
    let settings = draw_settings(&mut rng, mtu);
    let flows = storm(&mut rng, &topology);
    let (network, ending) = run(&topology, &settings, &flows);
    assert!(drops(&network, &ending)[DropReason::HeadroomExceeded as usize] > 0);
    assert!(network.warnings()[0].starts_with("switch.pfc.quanta: a pause of "), "{:?}", network.warnings());
    nothing_is_lost(seed, mtu);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_where_the_headroom_suffices(seed in any::<u64>(), mtu in 576_u32..=9216) {
        nothing_is_lost(seed, mtu);
    }

    /// Terms, total, and what the buffer holds of it fit together for any link.
    #[test]
    fn the_terms_are_the_headroom(
        gbps in prop::array::uniform2(1_u64..400),
        delays in prop::array::uniform2(0_u64..100_000_000),
        mtu in 576_u32..=9216,
        reaction in 0_u64..5_000_000,
    ) {
        let mut topology = Topology::new();
        let [a, s, b] = [("a", NodeKind::Host), ("s", NodeKind::Switch), ("b", NodeKind::Host)]
            .map(|(name, kind)| topology.add_node(name, kind, None));
        let [data, back] = [0, 1].map(|i| Channel { rate: BitRate::gbps(gbps[i]), delay: Span(delays[i]) });
        topology.add_asymmetric_link(a, s, [data, back]);
        topology.add_link(b, s, link(10, Span::ZERO));
        let pfc = PfcSettings { reaction: Some(Span(reaction)), ..pfc() };
        let settings = Settings { mtu, pfc: Some(pfc), ..lossless(config(), 1 << 30) };
        let network = build(&topology, &settings, &[]);
        let from_a = port(&topology, "a", "s");
        let reports = network.network_plan().headroom_reports();
        prop_assert_eq!(reports.len(), 2);
        let HeadroomReport { needed, limits, .. } = *reports.iter().find(|r| r.port == from_a).unwrap();
        let frame = settings.overhead.frame_size(mtu, priority(LOSSLESS));
        prop_assert_eq!(needed.headroom_bytes(), LinkHeadroom::new(data, back, frame, settings.overhead, Span(reaction), 1).headroom_bytes());
        prop_assert_eq!(Bytes(limits.headroom), needed.headroom_bytes());
        prop_assert_eq!(Some(limits), network.network_plan().pause_thresholds(from_a, priority(LOSSLESS)));
        // In the time of the terms the link carries what they say, to a frame.
        let wire = data.rate.bytes_in(needed.headroom_time()).0;
        prop_assert!(needed.arriving.0 <= wire + 1 && needed.arriving.0 + needed.arriving.0 / 25 + 20 >= wire);
    }
}

/// The worst case of `pfc::the_headroom_is_tight_to_the_byte` for other MTUs and rates: q keeps the way back busy, r is
/// blocked, everything happens at the same picosecond. With what `headroom` says nothing is lost, and all of it is used;
/// with a byte less a packet is.
#[test]
fn a_byte_less_than_the_headroom_loses_a_packet() {
    for (mtu, gbps) in [(1500_u32, 10_u64), (9000, 10), (9000, 40), (576, 10), (1500, 100)] {
        let frame = FrameOverhead::ETHERNET.frame_size(mtu, priority(LOSSLESS));
        let wire_ps = u64::from(frame + 20) * 8000 / gbps;
        let pause_ps = 84 * 8000 / gbps;
        // Frames that still come: until the pause acts, a whole number of them; the one that began in time; the crossing.
        let delay = Span(2 * wire_ps);
        let reaction = Span(wire_ps - pause_ps);
        let channel = Channel { rate: BitRate::gbps(gbps), delay };
        let mut topology = Topology::new();
        let [q, a, r] = ["q", "a", "r"].map(|name| topology.add_node(name, NodeKind::Host, None));
        let switch = topology.add_node("s", NodeKind::Switch, None);
        for host in [q, a] {
            topology.add_link(host, switch, channel);
        }
        topology.add_link(r, switch, Channel { rate: BitRate(1_000_000), delay: Span::ZERO });
        let mss = u64::from(mtu - 40);
        let config = TcpConfig {
            mss: mss as u32,
            delayed_ack: DelayedAckConfig { segments: 1 << 20, timeout: Span::from_secs(1) },
            ..config()
        };
        let settings = |headroom| {
            let pfc = PfcSettings {
                xoff: Some(Bytes(5 * u64::from(frame))),
                reaction: Some(reaction),
                headroom,
                ..pfc()
            };
            Settings { mtu, pfc: Some(pfc), ..lossless(config.clone(), 1 << 22) }
        };
        let needed = LinkHeadroom::new(
            channel,
            channel,
            frame,
            FrameOverhead::ETHERNET,
            reaction,
            1,
        )
        .headroom_bytes();
        let flows = [flow(&topology, "a", "r", 400 * mss), flow(&topology, "q", "a", 400 * mss)];
        let until = Time(60 * wire_ps);
        let (network, ending) = run_until(&topology, &settings(None), &flows, until);
        assert_eq!(drops(&network, &ending), [0; 6], "{mtu} {gbps}");
        let used = report(&network, &ending, port(&topology, "a", "s")).ingress_max - 5 * u64::from(frame);
        assert_eq!(used, needed.0, "all of the headroom is used: {mtu} {gbps}");
        let (network, ending) = run_until(&topology, &settings(Some(Bytes(needed.0 - 1))), &flows, until);
        assert_eq!(drops(&network, &ending)[DropReason::HeadroomExceeded as usize], 1, "{mtu} {gbps}");
        assert_eq!(network.warnings().len(), 1);
    }
}
