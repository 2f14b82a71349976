//! Forwarding by (VLAN, destination) with lanes: exact times, what is on the wire, lanes that change on the way, the choice of
//! VLANs; and that routes which the verifier calls free of cycles never get stuck, whatever the graph and the engine.

use crate::common::*;
use pauseframe_engine::{Rng, random_stream};
use pauseframe_fabric::{
    CapturedFrameContent, FlowSpec, FlowStatus, FrameOverhead, PfcSettings, Settings, TransportSettings,
    VlanChoice, VlanRoutes,
};
use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_routing::verify::{Options, Tables, verify};
use pauseframe_routing::{
    Dfsssp, Lash, OrderPair, Packing, RoutingEngine, ShortestPath, SpanningTrees, UpDown,
};
use pauseframe_topology::generate::{Jellyfish, jellyfish, line, ring, torus};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

fn plan(topology: &Topology, engine: &dyn RoutingEngine) -> Tables {
    let graph = SwitchGraph::new(topology).unwrap();
    Tables::of_plan(&engine.plan(topology, &graph).unwrap(), 1)
}

fn from_csv(topology: &Topology, text: &str) -> Tables {
    tables_io::read("tables.csv", text, TableFormat::Csv, topology, &Labels::default()).unwrap().tables
}

pub(crate) fn routes(tables: Tables) -> VlanRoutes {
    let lanes = (1..=tables.lanes() as u8).map(priority).collect();
    VlanRoutes { tables, lanes, choice: VlanChoice::Random, per_packet: false, slack: 0 }
}

/// Every lane lossless, and all packets in lanes.
fn in_lanes(routes: VlanRoutes, buffer: u64) -> Settings {
    let base = lossless(config(), buffer);
    Settings {
        overhead: FrameOverhead::ETHERNET.with_vlan_tag(),
        pfc: Some(PfcSettings { priorities: routes.lanes.clone(), ..pfc() }),
        transports: vec![TransportSettings { priority: routes.lanes[0], ..base.transports[0].clone() }],
        vlans: Some(Arc::new(routes)),
        ..base
    }
}

fn wire() -> pauseframe_topology::Channel {
    link(10, Span::from_ns(500))
}

/// Three links of 10 Gb/s and two switches: n tagged frames of 1522 bytes and 20 of gap, one after the other.
#[test]
fn a_flow_in_a_vlan_takes_the_time_of_its_tagged_frames() {
    let topology = line(2, 1, wire(), wire()).unwrap();
    let flows = [flow(&topology, "host0", "host1", 100 * MSS)];
    let lossy = Settings {
        overhead: FrameOverhead::ETHERNET.with_vlan_tag(),
        vlans: Some(Arc::new(routes(plan(&topology, &UpDown { vlans: 1, root: None, seed: 1 })))),
        ..settings(config())
    };
    let (mut network, ending) = run(&topology, &lossy, &flows);
    let record = network.flow_records(ending.now)[0];
    let frame = Span((TAGGED + 20) * 800);
    let expected = Span(frame.0 * 102) + Span::from_ns(1500);
    assert_eq!((fct(&record), record.ideal), (expected, expected));
}

/// A detour: the tables send packets the long way round a ring, and the ideal time is that of the detour.
#[test]
fn switches_obey_their_tables_even_where_they_are_not_shortest() {
    let topology = ring(4, 1, wire(), wire()).unwrap();
    let towards = |from: &str, to: &str| topology.port_name(port(&topology, from, to));
    let rows: Vec<String> = [("s0", "s3"), ("s3", "s2"), ("s2", "s1"), ("s1", "host1")]
        .iter()
        .map(|(at, next)| format!("{at},7,host1,{}\n", towards(at, next)))
        .collect();
    let back: Vec<String> = [("s1", "s0"), ("s0", "host0")]
        .iter()
        .map(|(at, next)| format!("{at},7,host0,{}\n", towards(at, next)))
        .collect();
    let text = format!("switch,vlan,destination,port\n{}{}", rows.concat(), back.concat());
    let settings = in_lanes(routes(from_csv(&topology, &text)), 100_000);
    let flows = [flow(&topology, "host0", "host1", 10 * MSS)];
    let mut network = build(&topology, &settings, &flows);
    network.enable_frame_capture(&[port(&topology, "s3", "s2")], 100);
    let ending = proceed(&mut network, Time::MAX);
    let record = network.flow_records(ending.now)[0];
    assert_eq!(record.status, FlowStatus::Finished);
    // Five links, ten frames: 14 serialisations.
    assert_eq!(fct(&record), Span((TAGGED + 20) * 800 * 14) + Span::from_ns(2500));
    assert_eq!(fct(&record), record.ideal);
    let vlans: Vec<_> = network.take_captured_frames().iter().filter_map(vlan_of).collect();
    assert_eq!(vlans, [(7, 1); 10]);
}

/// Of two links between the switches each has a VLAN: the ideal is that of the fast one, and a flow there takes just as long.
#[test]
fn no_route_of_a_vlan_is_faster_than_the_ideal() {
    let mut topology = Topology::new();
    let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
    let [s, t] = ["s", "t"].map(|name| topology.add_node(name, NodeKind::Switch, None));
    topology.add_link(a, s, wire());
    let [slow, fast] =
        [1, 10].map(|rate| PortId::of_link(topology.add_link(s, t, link(rate, Span::from_ns(500))), 0));
    topology.add_link(t, b, wire());
    let name = |port| topology.port_name(port);
    let (to_a, to_b) = (name(port(&topology, "s", "a")), name(port(&topology, "t", "b")));
    let mut text = "switch,vlan,destination,port\n".to_owned();
    for (vlan, way) in [(1, slow), (2, fast)] {
        let [there, back] = [way, way.reverse()].map(name);
        write!(text, "s,{vlan},b,{there}\nt,{vlan},b,{to_b}\nt,{vlan},a,{back}\ns,{vlan},a,{to_a}\n")
            .unwrap();
    }
    let tables = from_csv(&topology, &text);
    let flows = [flow(&topology, "a", "b", 20 * MSS)];
    for (vlan, as_ideal) in [(0, false), (1, true)] {
        let choice = VlanChoice::Assigned(BTreeMap::from([((a, b), vlan), ((b, a), vlan)]));
        let settings = in_lanes(VlanRoutes { choice, ..routes(tables.clone()) }, 100_000);
        let (mut network, ending) = run(&topology, &settings, &flows);
        let record = network.flow_records(ending.now)[0];
        // Three links of 10 Gb/s: 22 serialisations and three delays.
        assert_eq!(record.ideal, Span((TAGGED + 20) * 800 * 22) + Span::from_ns(1500));
        assert_eq!(fct(&record) == record.ideal, as_ideal, "{vlan}");
    }
}

/// VLAN and priority of a captured segment.
fn vlan_of(frame: &pauseframe_fabric::CapturedFrame) -> Option<(u16, u8)> {
    match frame.content {
        CapturedFrameContent::Segment(headers, _) => Some((headers.vlan?, headers.priority.code_point())),
        _ => None,
    }
}

/// s1 sends VLAN 1 on in lane 1. Behind it is a slow link: s2 stops lane 1 of s1, and s1 stops lane 0 of s0.
#[test]
fn a_switch_that_changes_the_lane_pauses_the_lane_that_packets_came_by() {
    let mut topology = Topology::new();
    let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
    let [s0, s1, s2] = ["s0", "s1", "s2"].map(|name| topology.add_node(name, NodeKind::Switch, None));
    for (one, other) in [(a, s0), (s0, s1), (s1, s2)] {
        topology.add_link(one, other, wire());
    }
    topology.add_link(s2, b, link(1, Span::from_ns(500)));
    let tables = plan(&topology, &UpDown { vlans: 1, root: None, seed: 1 });
    let text = tables_io::write(&tables, TableFormat::Csv, &topology, &Labels::default()).unwrap();
    let tables = from_csv(&topology, &format!("{text}\nswitch,vlan,lane\ns1,1,1\n"));
    assert_eq!(tables.lanes(), 2);
    let settings = in_lanes(routes(tables), 60_000);
    let (mut network, ending) = run(&topology, &settings, &[flow(&topology, "a", "b", 1_000_000)]);
    assert_eq!(network.flow_records(ending.now)[0].status, FlowStatus::Finished);
    assert_eq!((drops(&network, &ending), network.packets_in_network()), ([0; 6], 0));
    let reports = network.port_reports(ending.now);
    let by = |from, to| {
        let reports = reports.iter().filter(|report| report.port == port(&topology, from, to));
        reports.map(|r| (r.priority.code_point(), r.tx_packets > 0, r.pauses_sent > 0)).collect::<Vec<_>>()
    };
    assert_eq!(by("a", "s0"), [(1, true, true)]);
    assert_eq!(by("s0", "s1"), [(1, true, true)]);
    assert_eq!(by("s1", "s2"), [(2, true, true)]);
    assert_eq!(by("s2", "b"), [(1, true, false)]);
}

/// Two parallel two-hop ways from s0 to s3; VLANs 1 and 2 take one each.
pub(crate) fn diamond() -> (Topology, Tables) {
    let mut topology = Topology::new();
    let hosts: Vec<NodeId> =
        (0..4).map(|i| topology.add_node(format!("h{i}"), NodeKind::Host, None)).collect();
    let s: Vec<NodeId> = (0..4).map(|i| topology.add_node(format!("s{i}"), NodeKind::Switch, None)).collect();
    for (host, switch) in hosts.iter().zip([0, 0, 3, 3]) {
        topology.add_link(*host, s[switch], wire());
    }
    for (a, b) in [(0, 1), (1, 3), (0, 2), (2, 3)] {
        topology.add_link(s[a], s[b], wire());
    }
    let mut text = "switch,vlan,destination,port\n".to_owned();
    for (vlan, middle) in [(1, "s1"), (2, "s2")] {
        for (from, to) in [("s0", "s3"), ("s3", "s0")] {
            for (at, next) in [(from, middle), (middle, to)] {
                writeln!(text, "{at},{vlan},{to},{}", topology.port_name(port(&topology, at, next))).unwrap();
            }
        }
    }
    let tables = from_csv(&topology, &text);
    (topology, tables)
}

/// Packets over each of the two ways, of two flows side by side.
fn over_the_diamond(change: impl Fn(&Topology, VlanRoutes) -> VlanRoutes, seed: u64) -> [u64; 2] {
    let (topology, tables) = diamond();
    let settings = Settings { seed, ..in_lanes(change(&topology, routes(tables)), 200_000) };
    let flows = [flow(&topology, "h0", "h2", 100 * MSS), flow(&topology, "h1", "h3", 100 * MSS)];
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert!(network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished));
    let reports = network.port_reports(ending.now);
    ["s1", "s2"].map(|middle| {
        let sent = |r: &&pauseframe_fabric::PortPriorityReport| r.port == port(&topology, "s0", middle);
        reports.iter().filter(sent).map(|report| report.tx_packets).sum()
    })
}

#[test]
fn hosts_choose_vlans_as_told() {
    let choosing =
        |choice: VlanChoice| move |_: &Topology, routes| VlanRoutes { choice: choice.clone(), ..routes };
    let random: Vec<_> = (0..16).map(|seed| over_the_diamond(choosing(VlanChoice::Random), seed)).collect();
    assert!(random.contains(&[200, 0]) && random.contains(&[0, 200]) && random.contains(&[100, 100]));
    for seed in 0..16 {
        assert_eq!(over_the_diamond(choosing(VlanChoice::LeastLoaded), seed), [100, 100]);
    }
    // Two draws of two: only if both draws of the second flow are what the first has is there no choice, one time in four.
    let even = |choice: VlanChoice| {
        (0..64).filter(|seed| over_the_diamond(choosing(choice.clone()), *seed) == [100, 100]).count()
    };
    let (one, two) = (even(VlanChoice::Random), even(VlanChoice::BestOfTwo));
    assert!((20..=44).contains(&one) && (38..=58).contains(&two), "{one} and {two} of 64");
    let fixed = |topology: &Topology, routes| {
        let node = |name| topology.find(name).unwrap();
        let pairs = [("h0", "h2"), ("h1", "h3")].map(|(a, b)| ((node(a), node(b)), 1));
        VlanRoutes { choice: VlanChoice::Assigned(BTreeMap::from(pairs)), ..routes }
    };
    assert_eq!(over_the_diamond(fixed, 1), [0, 200]);
    let packets = over_the_diamond(|_, routes| VlanRoutes { per_packet: true, ..routes }, 1);
    assert!(packets[0] + packets[1] >= 200 && packets.iter().all(|count| *count > 60), "{packets:?}");
}

/// What is left after a time in which everything should be long over.
struct Rest {
    unfinished: usize,
    delivered: u64,
    paused: usize,
}

/// All hosts send to all others at once; what stands at `until`.
fn all_to_all(topology: &Topology, settings: &Settings, size: u64, until: Time) -> Rest {
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let pairs = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
    let template = FlowSpec { size, ..flow(topology, "host0", "host1", size) };
    let flows: Vec<_> =
        pairs.map(|(source, destination)| FlowSpec { source, destination, ..template }).collect();
    let (mut network, ending) = run_until(topology, settings, &flows, until);
    let lost = drops(&network, &ending);
    assert_eq!(lost, [0; 6], "a lossless network lost something");
    let paused = network.port_reports(ending.now);
    let paused = paused.iter().filter(|report| report.pauses_received > report.resumes_received).count();
    let records = network.flow_records(ending.now);
    Rest {
        unfinished: records.iter().filter(|record| record.status != FlowStatus::Finished).count(),
        delivered: records.iter().map(|record| record.delivered).sum(),
        paused,
    }
}

/// Nothing has been delivered for a long time although flows are unfinished, and ports are paused: a deadlock.
fn is_stuck(topology: &Topology, settings: &Settings, size: u64) -> bool {
    let early = all_to_all(topology, settings, size, Time::ZERO + Span::from_ms(100));
    let late = all_to_all(topology, settings, size, Time::ZERO + Span::from_ms(400));
    let stuck = late.unfinished > 0 && late.delivered == early.delivered;
    assert!(!stuck || late.paused > 1);
    assert_eq!(stuck, late.unfinished > 0, "unfinished, but not stuck");
    stuck
}

/// Rings and Jellyfish: shortest paths under PFC deadlock, plans do not.
#[test]
fn ecmp_deadlocks_where_plans_do_not() {
    let size = Jellyfish { switches: 12, network_ports: 3, hosts_per_switch: 3 };
    let fabrics = [("ring", ring(6, 3, wire(), wire())), ("jellyfish", jellyfish(size, 1, wire(), wire()))];
    for (name, topology) in fabrics {
        let topology = topology.unwrap();
        assert!(is_stuck(&topology, &lossless(config(), 20_000), 60_000), "{name}: ECMP should deadlock");
        let engines: [&dyn RoutingEngine; 4] = [
            &OrderPair::default(),
            &UpDown { vlans: 4, root: None, seed: 1 },
            &SpanningTrees { lanes: 2, trees_per_lane: None, packing: Packing::Exact, seed: 1 },
            &Dfsssp { lanes_max: 8, seed: 1 },
        ];
        for engine in engines {
            let settings = in_lanes(routes(plan(&topology, engine)), 20_000);
            assert!(!is_stuck(&topology, &settings, 60_000), "{name}: {engine:?} got stuck");
        }
    }
}

/// A random tree of switches, some links more, and hosts at every switch.
fn draw_graph(rng: &mut Rng) -> Topology {
    match rng.uniform_below(4) {
        0 => return torus(&[3, 3], 2, wire(), wire()).unwrap(),
        1 => return ring(5 + rng.uniform_below(3) as u32, 3, wire(), wire()).unwrap(),
        _ => {}
    }
    let mut topology = Topology::new();
    let switches = 3 + rng.uniform_below(7) as usize;
    let hosts = 1 + rng.uniform_below(2) as usize;
    let hosts: Vec<NodeId> =
        (0..switches * hosts).map(|i| topology.add_node(format!("host{i}"), NodeKind::Host, None)).collect();
    let nodes: Vec<NodeId> =
        (0..switches).map(|i| topology.add_node(format!("s{i}"), NodeKind::Switch, None)).collect();
    for (i, host) in hosts.iter().enumerate() {
        topology.add_link(*host, nodes[i % switches], wire());
    }
    for i in 1..switches {
        topology.add_link(nodes[rng.uniform_below(i as u64) as usize], nodes[i], wire());
    }
    for _ in 0..rng.uniform_below(2 * switches as u64) {
        let [a, b] = [0; 2].map(|_| nodes[rng.uniform_below(switches as u64) as usize]);
        if a != b {
            topology.add_link(a, b, wire());
        }
    }
    topology
}

fn draw_engine(rng: &mut Rng) -> Box<dyn RoutingEngine> {
    let seed = rng.uniform_below(1000);
    let vlans = 1 + rng.uniform_below(4) as usize;
    match rng.uniform_below(8) {
        0 => Box::new(UpDown { vlans, root: None, seed }),
        1 => Box::new(OrderPair { seed, ..OrderPair::default() }),
        2 => Box::new(OrderPair { lanes: 4, vlans: 8, sampled_vlans: 2, seed, ..OrderPair::default() }),
        3 => Box::new(Dfsssp { lanes_max: 8, seed }),
        4 => Box::new(Lash { lanes_max: 8, seed }),
        5 => {
            let packing = [Packing::RandomKruskal, Packing::Exact][vlans % 2];
            Box::new(SpanningTrees { lanes: vlans.min(2), trees_per_lane: None, packing, seed })
        }
        _ => Box::new(ShortestPath { vlans, seed }),
    }
}

/// "The verifier says acyclic" implies "the packets never get stuck", and every pair of hosts delivers.
#[test]
fn what_the_verifier_clears_never_gets_stuck() {
    let (mut cleared, mut stuck) = (0, 0);
    for seed in 0..48 {
        let mut rng = random_stream(seed, "vlan swarm", 0);
        let (topology, engine) = (draw_graph(&mut rng), draw_engine(&mut rng));
        let tables = plan(&topology, &*engine);
        let report = verify(&topology, &tables, &Options::default()).unwrap();
        assert_eq!(report.unreachable.count, 0, "seed {seed}: {engine:?}");
        let slack = rng.uniform_below(2) as u16;
        let per_packet = rng.uniform_below(3) == 0;
        let settings = in_lanes(VlanRoutes { slack, per_packet, ..routes(tables) }, 20_000);
        let settings = Settings { seed, ..settings };
        let is_stuck = is_stuck(&topology, &settings, 60_000);
        assert!(report.can_deadlock || !is_stuck, "seed {seed}: {engine:?} got stuck: {report:?}");
        cleared += u32::from(!report.can_deadlock);
        stuck += u32::from(is_stuck);
    }
    // The draw is worth its time only if it reaches both.
    assert!(cleared >= 20 && stuck >= 1, "{cleared} cleared, {stuck} stuck");
}

/// The same plan, the same seed: the same run.
#[test]
fn runs_in_vlans_repeat() {
    let topology = torus(&[3, 3], 1, wire(), wire()).unwrap();
    let once = |choice| {
        let settings =
            in_lanes(VlanRoutes { choice, ..routes(plan(&topology, &OrderPair::default())) }, 20_000);
        let ports: Vec<PortId> = (0..topology.port_count() as u32).map(PortId).collect();
        let flows = [flow(&topology, "host0", "host5", 100_000), flow(&topology, "host3", "host7", 100_000)];
        let mut network = build(&topology, &settings, &flows);
        network.enable_frame_capture(&ports, 10);
        proceed(&mut network, Time::MAX).fingerprint
    };
    for choice in [VlanChoice::Random, VlanChoice::BestOfTwo, VlanChoice::LeastLoaded] {
        assert_eq!(once(choice.clone()), once(choice));
    }
}
