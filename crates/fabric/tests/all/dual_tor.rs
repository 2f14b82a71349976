//! Pairs of switches that share hosts: tunnels from the standby ToR of a mux cable to the active one, and peer links of MLAG.

use crate::common::*;
use crate::host_ports::sent_by_ports;
use crate::rdma::{NO_CONTROL, roce};
use pauseframe_fabric::path_hash::{HashFields, HashFunction, PathHashSettings};
use pauseframe_fabric::{
    ClassSettings, DualTorSettings, FailedElement, FlowSpec, FlowStatus, HostPortSettings, MlagSettings,
    Network, PortChoice, ScheduledFailure, Settings, TunnelCounts,
};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::{Homes, leaf_spine};
use pauseframe_topology::interchange::Labels;
use pauseframe_units::{NodeId, PortId, Priority, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

const WIRE_DELAY: Span = Span::from_us(1);
/// The only packet of a WRITE, with its RETH, in buffers, with a tag.
const DATA: u64 = 1024 + 44 + 16 + 18 + 4;
/// The outer IPv4 header (RFC 2003).
const OUTER: u64 = 20;
const GAP: u64 = 20;

/// Four leaves in two pairs, `hosts` hosts at each leaf with a port at both of its pair.
fn pairs(spines: u32, hosts: u32, peer_links: u32) -> Topology {
    let wire = link(100, WIRE_DELAY);
    let homes = Homes { ports_per_host: 2, planes: 1, peer_links };
    let graph = homes.apply_with_peer_links(leaf_spine(4, spines, hosts, wire, wire).unwrap(), wire).unwrap();
    Labels::default().split_hosts(&graph).unwrap().0
}

/// Mux cables whose active ports are the first ones, but those of `second`.
fn mux(topology: &Topology, second: &[&str], remap: Option<[u8; 2]>) -> Settings {
    let port = |host: &&str| topology.ports_of_hosts()[&topology.find(host).unwrap()][1];
    let mut dual_tor =
        DualTorSettings { active: second.iter().map(port).collect(), ..DualTorSettings::new() };
    let base = roce(NO_CONTROL);
    let mut pfc = pfc();
    if let Some([own, outer]) = remap {
        dual_tor.outer[usize::from(own)] = priority(outer);
        pfc.priorities.push(priority(outer));
        pfc.priorities.sort_unstable();
    }
    Settings {
        host_ports: HostPortSettings { choice: PortChoice::Mux, ..HostPortSettings::DEFAULT },
        dual_tor: Some(dual_tor),
        pfc: Some(pfc),
        ..base
    }
}

fn tunnels(network: &Network, topology: &Topology, switch: &str) -> TunnelCounts {
    network.tunnel_counts().get(&topology.find(switch).unwrap()).copied().unwrap_or_default()
}

fn names(topology: &Topology, path: &[PortId]) -> Vec<String> {
    let name = |port: &PortId| topology.nodes()[topology.owner(*port)].name.clone();
    path.iter().map(name).collect()
}

/// The first flow number at which a message from host4 to host0 enters by this leaf.
fn flow_that_enters_by(topology: &Topology, settings: &Settings, leaf: &str) -> (Vec<FlowSpec>, Vec<PortId>) {
    for count in 1..32 {
        // Flows of one packet, one after the other, differ in their numbers alone.
        let at = |number: usize| Time::ZERO + Span::from_us(100) * number as u64;
        let one = flow(topology, "host4", "host0", 1024);
        let flows: Vec<FlowSpec> = (0..count).map(|number| FlowSpec { start: at(number), ..one }).collect();
        let (network, _) = run(topology, settings, &flows);
        let path = network.path_of_flow(count as u32 - 1);
        let path = path.unwrap_or_else(|| open_path(topology, settings, &flows));
        if names(topology, &path)[3] == leaf {
            return (flows, path);
        }
    }
    panic!("no flow enters by {leaf}")
}

/// The path of the last flow while it is open.
fn open_path(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> Vec<PortId> {
    let last = flows.last().unwrap();
    let (network, _) = run_until(topology, settings, flows, last.start + Span(1));
    network.path_of_flow(flows.len() as u32 - 1).unwrap()
}

/// A message of one packet that comes to the standby ToR takes two links more, on which it is 20 bytes longer; one that comes to the active ToR
/// takes the ideal time.
#[test]
fn a_tunnel_costs_two_links_with_an_outer_header() {
    let topology = pairs(1, 2, 0);
    for remap in [None, Some([LOSSLESS, 2])] {
        let settings = mux(&topology, &[], remap);
        let direct = ["host4", "leaf2", "spine0", "leaf0"];
        let (flows, path) = flow_that_enters_by(&topology, &settings, "leaf0");
        assert_eq!(names(&topology, &path), direct);
        let (mut network, ending) = run(&topology, &settings, &flows);
        let record = network.flow_records(ending.now).pop().unwrap();
        assert_eq!(fct(&record), record.ideal);

        let (flows, path) = flow_that_enters_by(&topology, &settings, "leaf1");
        assert_eq!(names(&topology, &path), ["host4", "leaf2", "spine0", "leaf1", "spine0", "leaf0"]);
        let (mut network, ending) = run(&topology, &settings, &flows);
        let record = network.flow_records(ending.now).pop().unwrap();
        let extra = WIRE_DELAY + Span((DATA + OUTER + GAP) * 80);
        assert_eq!(fct(&record), record.ideal + extra * 2, "{remap:?}");
        let standby = tunnels(&network, &topology, "leaf1");
        assert_eq!(standby.encapsulated_bytes, standby.encapsulated * (DATA + OUTER));
        assert_eq!(standby.encapsulated, tunnels(&network, &topology, "leaf0").decapsulated);
        // In the tunnel the packets have the class of the outer header, before and behind it their own.
        let outer = remap.map_or(LOSSLESS, |[_, outer]| outer);
        for (from, to, class) in
            [("spine0", "leaf1", LOSSLESS), ("leaf1", "spine0", outer), ("leaf0", "host0", LOSSLESS)]
        {
            let reports = network.port_reports(ending.now);
            let of_port = reports.iter().filter(|report| report.port == port(&topology, from, to));
            let data = of_port.filter(|report| report.priority == priority(class) && report.tx_packets > 0);
            assert_eq!(data.count(), 1, "{from} to {to}");
        }
    }
}

/// Hosts of one rack whose active ToRs differ reach each other through the tunnel alone, over the layer above.
#[test]
fn neighbours_with_other_active_tors_use_the_tunnel() {
    let topology = pairs(2, 2, 0);
    let settings = mux(&topology, &["host1"], None);
    let flows = [flow(&topology, "host0", "host1", 100 * 1024)];
    let (mut network, ending) = run(&topology, &settings, &flows);
    assert_eq!(network.flow_records(ending.now)[0].status, FlowStatus::Finished);
    assert_eq!(tunnels(&network, &topology, "leaf0").encapsulated, 100);
    assert_eq!(tunnels(&network, &topology, "leaf1").decapsulated, 100);
    // Acknowledgements come back in another tunnel; 66 bytes and a tag, which need no padding.
    let back = tunnels(&network, &topology, "leaf1");
    assert_eq!(back.encapsulated_bytes, back.encapsulated * (66 + 4 + OUTER));
}

/// An acknowledgement of TCP without timestamps is padded to 64 bytes outside of the tunnel, and not in it.
#[test]
fn padding_is_no_part_of_a_tunnelled_packet() {
    let topology = pairs(2, 2, 0);
    let tcp = pauseframe_fabric::TransportSettings::of_tcp(Arc::new(config()), priority(0));
    let settings = Settings { transports: vec![tcp], pfc: None, ..mux(&topology, &["host1"], None) };
    let (network, _) = run(&topology, &settings, &[flow(&topology, "host0", "host1", 100 * MSS)]);
    let acknowledgements = tunnels(&network, &topology, "leaf1");
    assert!(acknowledgements.encapsulated >= 50);
    assert_eq!(acknowledgements.encapsulated_bytes, acknowledgements.encapsulated * (40 + 18 + OUTER));
}

/// RFC 6040: CE that a switch sets on the outer header arrives at the host; what is not ECN-capable stays so.
#[test]
fn marks_in_the_tunnel_arrive() {
    let topology = pairs(1, 4, 0);
    let mut settings = mux(&topology, &[], Some([LOSSLESS, 2]));
    // Packets in tunnels alone are marked; those outside have the higher priority, so that the others wait.
    let class = ClassSettings {
        priorities: vec![priority(2)],
        marker: Some(step(0)),
        queue: None,
        codel: None,
        alpha: None,
        reserved: None,
    };
    settings.classes = vec![class];
    let flows: Vec<FlowSpec> = (0..16)
        .map(|number| {
            flow(&topology, &format!("host{}", 8 + number % 8), &format!("host{}", number % 4), 200 * 1024)
        })
        .collect();
    let (mut network, ending) = run(&topology, &settings, &flows);
    let records = network.flow_records(ending.now);
    assert!(records.iter().all(|record| record.status == FlowStatus::Finished));
    let marked: u64 = records.iter().map(|record| record.ce_packets).sum();
    let of_switches: u64 = network.port_reports(ending.now).iter().map(|report| report.ecn_marks).sum();
    assert!(marked > 0);
    assert_eq!(marked, of_switches, "each mark of a switch reaches its host");
}

fn failure(what: FailedElement, down: Span, up: Option<Span>) -> ScheduledFailure {
    ScheduledFailure { what, down: Time::ZERO + down, up: up.map(|up| Time::ZERO + up), is_silent: false }
}

fn link_of(topology: &Topology, host: &str, number: usize) -> FailedElement {
    let node = topology.ports_of_hosts()[&topology.find(host).unwrap()][number];
    FailedElement::Link(topology.nodes()[node].ports[0].link())
}

/// The link prober misses its probes: after 200 to 300 ms the standby ToR is active, and stays so when the link is back.
#[test]
fn the_standby_becomes_active_after_the_probes_are_missed() {
    let probes = DualTorSettings::new();
    let at = Time::ZERO + Span::from_secs(3);
    let delays: Vec<Span> = (0..500).map(|host| probes.notices_loss(NodeId(host), at, 1) - at).collect();
    assert!(delays.iter().all(|delay| (Span::from_ms(200)..=Span::from_ms(300)).contains(delay)));
    let mean = delays.iter().map(|delay| delay.0 as f64 / 1e9).sum::<f64>() / delays.len() as f64;
    assert!((mean - 250.0).abs() < 5.0, "{mean} ms");

    let topology = pairs(2, 2, 0);
    for is_silent in [false, true] {
        let mut settings = mux(&topology, &[], None);
        settings.dual_tor.as_mut().unwrap().probe_interval = Span::from_us(100);
        let flows =
            [flow(&topology, "host0", "host4", 20 << 20), flow(&topology, "host4", "host0", 20 << 20)];
        let mut network = build(&topology, &settings, &flows);
        let down = Span::from_us(500);
        let failed = failure(link_of(&topology, "host0", 0), down, Some(Span::from_ms(1)));
        network.schedule_failures(vec![ScheduledFailure { is_silent, ..failed }], Span::from_us(50));
        let ending = proceed(&mut network, Time::ZERO + Span::from_secs(10));
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|record| record.status == FlowStatus::Finished), "{records:?}");
        let sent = sent_by_ports(&network, &topology, "host0", ending.now);
        assert!(sent[1] > 12 << 20, "the other port carries the rest, also with the link back: {sent:?}");
        assert_eq!(drops(&network, &ending), [0; 6]);
    }
}

/// A ToR that fails whole attracts nothing once routing knows, and the other becomes active.
#[test]
fn flows_outlive_a_tor() {
    let topology = pairs(2, 2, 0);
    let mut settings = mux(&topology, &["host1", "host3"], Some([LOSSLESS, 2]));
    settings.dual_tor.as_mut().unwrap().probe_interval = Span::from_us(100);
    let flows: Vec<FlowSpec> = (0..4)
        .flat_map(|host| {
            let (here, there) = (format!("host{host}"), format!("host{}", 4 + host));
            [flow(&topology, &here, &there, 4 << 20), flow(&topology, &there, &here, 4 << 20)]
        })
        .collect();
    let mut network = build(&topology, &settings, &flows);
    let leaf0 = FailedElement::Node(topology.find("leaf0").unwrap());
    network.schedule_failures(vec![failure(leaf0, Span::from_us(200), None)], Span::from_us(50));
    let ending = proceed(&mut network, Time::ZERO + Span::from_secs(10));
    let records = network.flow_records(ending.now);
    assert!(records.iter().all(|record| record.status == FlowStatus::Finished), "{records:?}");
}

/// Two ToRs that bounce in the class of the traffic wait for each other over their spine; with a class for tunnels they do not.
#[test]
fn a_bounce_in_its_own_class_deadlocks_and_a_remapped_one_does_not() {
    let topology = pairs(1, 8, 0);
    let second: Vec<String> =
        (0..32).filter(|host| host % 2 == 1).map(|host| format!("host{host}")).collect();
    let second: Vec<&str> = second.iter().map(String::as_str).collect();
    let name = |host: u32| format!("host{host}");
    // From the other rack, and from neighbours whose active ToR is the other one.
    let from_far = (0..16).flat_map(|host| (0..4).map(move |turn| (16 + (host * 5 + turn) % 16, host)));
    let from_near = (0..16).flat_map(|host| [1, 3].map(|turn| (host, (host + turn) % 16)));
    let flows: Vec<FlowSpec> = from_far
        .chain(from_near)
        .map(|(from, to)| flow(&topology, &name(from), &name(to), 2 << 20))
        .collect();
    for (remap, is_stuck) in [(None, true), (Some([LOSSLESS, 4]), false)] {
        let settings = mux(&topology, &second, remap);
        let mut network = build(&topology, &settings, &flows);
        network.enable_deadlock_detection(Span::from_us(500), true);
        let ending = proceed(&mut network, Time::ZERO + Span::from_ms(500));
        assert_eq!(!network.detected_deadlocks().is_empty(), is_stuck, "{remap:?}");
        let done =
            network.flow_records(ending.now).iter().all(|record| record.status == FlowStatus::Finished);
        assert_eq!(done, !is_stuck, "{remap:?} at {}", ending.now);
    }
}

fn with_peer_links(topology: &Topology) -> (Settings, Arc<NextHops>) {
    let peer_links = topology.links_between_homes();
    let routes = NextHops::shortest_with_last_resort(topology, &peer_links).unwrap();
    let host_ports =
        HostPortSettings { choice: PortChoice::Xor, carrier: Span::from_us(20), ..HostPortSettings::DEFAULT };
    let settings = Settings { mlag: Some(MlagSettings { peer_links }), host_ports, ..roce(NO_CONTROL) };
    (settings, Arc::new(routes))
}

fn mlag(topology: &Topology, flows: &[FlowSpec]) -> Network {
    let (settings, routes) = with_peer_links(topology);
    let workload = Box::new(FlowList(flows.to_vec().into()));
    Network::new(Arc::new(topology.clone()), routes, Arc::new(settings), vec![workload], false)
}

fn sent(network: &Network, now: Time, port: PortId) -> u64 {
    let reports = network.port_reports(now);
    reports.iter().filter(|report| report.port == port).map(|report| report.tx_packets).sum()
}

/// Peer links carry nothing while all links are up. A leaf that has lost its link to a host sends on over the peer link.
#[test]
fn a_peer_link_carries_what_a_leaf_cannot_deliver() {
    let topology = pairs(2, 2, 1);
    let flows: Vec<FlowSpec> = (0..16).map(|_| flow(&topology, "host4", "host0", 1 << 20)).collect();
    let peer = |from, to| port(&topology, from, to);
    for fails in [false, true] {
        let mut network = mlag(&topology, &flows);
        if fails {
            let failed = failure(link_of(&topology, "host0", 0), Span::from_us(50), None);
            network.schedule_failures(vec![failed], Span::from_us(10));
        }
        let ending = proceed(&mut network, Time::ZERO + Span::from_secs(10));
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|record| record.status == FlowStatus::Finished));
        let across =
            [peer("leaf0", "leaf1"), peer("leaf1", "leaf0")].map(|port| sent(&network, ending.now, port));
        assert_eq!(across[1], 0, "leaf1 has its link");
        assert_eq!(across[0] > 1_000, fails, "{across:?}");
        assert_eq!(drops(&network, &ending), [0; 6]);
    }
}

/// A leaf without uplinks is reached over its peer, and its hosts reach all others so.
#[test]
fn an_isolated_leaf_is_reached_over_its_peer() {
    let topology = pairs(2, 2, 1);
    let flows: Vec<FlowSpec> = (0..8)
        .flat_map(|_| {
            [flow(&topology, "host4", "host0", 1 << 19), flow(&topology, "host0", "host4", 1 << 19)]
        })
        .collect();
    let mut network = mlag(&topology, &flows);
    let uplinks = ["spine0", "spine1"].map(|spine| {
        failure(FailedElement::Link(port(&topology, "leaf0", spine).link()), Span::from_us(20), None)
    });
    network.schedule_failures(uplinks.to_vec(), Span::from_us(10));
    let ending = proceed(&mut network, Time::ZERO + Span::from_secs(10));
    let records = network.flow_records(ending.now);
    assert!(records.iter().all(|record| record.status == FlowStatus::Finished));
    let across = |from, to| sent(&network, ending.now, port(&topology, from, to));
    // What comes for its hosts enters by the nearer leaf; what they send by it crosses.
    assert!(across("leaf0", "leaf1") > 100);
    assert_eq!(across("leaf1", "leaf0"), 0);
}

#[test]
fn packets_keep_their_priority_by_default() {
    assert_eq!(DualTorSettings::new().outer.map(Priority::code_point), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// In a tunnel switches hash the addresses of its ends, so all its flows share a spine, or with inner addresses those of the packet inside.
#[test]
fn tunnels_spread_by_inner_addresses_only() {
    let topology = pairs(4, 8, 0);
    let spines = |fields| {
        let path_hash =
            PathHashSettings { function: HashFunction::Siphash, fields, ..PathHashSettings::IDEAL };
        let settings = Settings { path_hash, ..mux(&topology, &[], None) };
        let host = |number: usize| format!("host{number}");
        // Receivers at the first pair, senders at the second.
        let flows: Vec<FlowSpec> = (0..8)
            .flat_map(|to| (16..32).map(move |from| [from, to]))
            .map(|[from, to]| flow(&topology, &host(from), &host(to), 1024))
            .collect();
        let (network, _) = run_until(&topology, &settings, &flows, Time::ZERO + Span(1));
        let in_tunnels = (0..flows.len() as u32).filter_map(|flow| {
            let path = names(&topology, &network.path_of_flow(flow)?);
            (path.len() == 6 && path[3] == "leaf1").then(|| path[4].clone())
        });
        let all: Vec<String> = in_tunnels.collect();
        assert!(all.len() > 20, "{}", all.len());
        all.into_iter().collect::<BTreeSet<String>>().len()
    };
    let fields = [HashFields::Addresses, HashFields::InnerAddresses, HashFields::FiveTuple];
    assert_eq!(fields.map(spines), [1, 4, 4]);
}
