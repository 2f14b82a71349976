//! Dependencies of detours: tunnels between the ToRs of mux cables, peer links of MLAG.

use pauseframe_routing::{DependencyGraph, Detours, LaneChange, NextHops};
use pauseframe_topology::generate::{Homes, leaf_spine};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{Channel, Topology};
use pauseframe_units::{BitRate, LinkId, NodeId, PortId, Span};

fn pairs(leaves: u32, peer_links: u32) -> Topology {
    let wire = Channel { rate: BitRate::gbps(100), delay: Span::from_us(1) };
    let homes = Homes { ports_per_host: 2, planes: 1, peer_links };
    let graph = homes.apply_with_peer_links(leaf_spine(leaves, 2, 2, wire, wire).unwrap(), wire).unwrap();
    Labels::default().split_hosts(&graph).unwrap().0
}

fn both_ways(topology: &Topology) -> Vec<[NodeId; 2]> {
    let pairs = topology.switches_with_common_hosts();
    pairs.iter().flat_map(|[one, other]| [[*one, *other], [*other, *one]]).collect()
}

/// Down to one ToR, up, down to the other, up: four buffers wait for each other if both ToRs bounce in the class in which packets came.
#[test]
fn a_bounce_in_its_own_class_is_a_circle_of_four() {
    let topology = pairs(4, 0);
    let hops = NextHops::shortest(&topology).unwrap();
    assert!(DependencyGraph::of_next_hops(&hops).unwrap().is_acyclic());
    let tunnels = both_ways(&topology);
    let detours = |tunnels: &[[NodeId; 2]]| Detours { tunnels: tunnels.to_vec(), peer_ports: vec![] };
    let graph = |tunnels: &[[NodeId; 2]], lanes: &[LaneChange]| {
        DependencyGraph::with_detours(&topology, &hops, &detours(tunnels), lanes).unwrap()
    };
    let own = [LaneChange { own: 3, outer: Some(3) }];
    let cycle = graph(&tunnels, &own).shortest_cycle().unwrap();
    assert_eq!(cycle.len(), 4);
    let names: Vec<String> =
        cycle.iter().map(|arc| topology.nodes()[topology.owner(arc.from.port)].name.clone()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("leaf")).count(), 2, "{names:?}");
    // One direction alone closes no circle, nor does another class, nor one that drops.
    assert!(graph(&tunnels[..1], &own).is_acyclic());
    assert!(graph(&tunnels, &[LaneChange { own: 3, outer: Some(2) }]).is_acyclic());
    assert!(graph(&tunnels, &[LaneChange { own: 3, outer: None }]).is_acyclic());
    // Two classes that take each other's place in tunnels are as bad as one.
    let swapped = [LaneChange { own: 3, outer: Some(4) }, LaneChange { own: 4, outer: Some(3) }];
    assert_eq!(graph(&tunnels, &swapped).shortest_cycle().unwrap().len(), 4);
    // So is one that another class of traffic has as its own and bounces in.
    let shared = [LaneChange { own: 3, outer: Some(4) }, LaneChange { own: 4, outer: Some(4) }];
    assert!(!graph(&tunnels, &shared).is_acyclic());
}

/// Nothing follows a peer link, whichever links of hosts have failed. With one leaf cut off from the spines its peer carries all, without a circle.
#[test]
fn peer_links_close_no_circle() {
    let topology = pairs(4, 1);
    let links = topology.links_between_homes();
    assert_eq!(links.len(), 2);
    let peer_ports: Vec<PortId> =
        links.iter().flat_map(|link| [0, 1].map(|end| PortId::of_link(*link, end))).collect();
    let detours = Detours { tunnels: vec![], peer_ports };
    let lane = [LaneChange { own: 0, outer: None }];
    let hops = NextHops::shortest_with_last_resort(&topology, &links).unwrap();
    let all_up = DependencyGraph::with_detours(&topology, &hops, &detours, &lane).unwrap();
    assert!(all_up.is_acyclic());
    let over = all_up.dependencies().iter().filter(|arc| links.contains(&arc.to.port.link())).count();
    assert_eq!(over, 8, "from two spines over each direction of each peer link");
    let leaf0 = topology.find("leaf0").unwrap();
    let is_spine = |port: &&PortId| topology.nodes()[topology.peer(**port)].name.starts_with("spine");
    let failed: Vec<LinkId> =
        topology.nodes()[leaf0].ports.iter().filter(is_spine).map(|port| port.link()).collect();
    let whole = NextHops::shortest(&topology).unwrap();
    let otherwise = NextHops::shortest_despite(&topology, &failed, &whole);
    let failed: Vec<LinkId> = failed.iter().chain(&links).copied().collect();
    let cut = NextHops::shortest_despite(&topology, &failed, &otherwise);
    let cut = DependencyGraph::with_detours(&topology, &cut, &detours, &lane).unwrap();
    assert!(cut.is_acyclic());
    let to_leaf0 = |arc: &&pauseframe_routing::Dependency| topology.peer(arc.to.port) == leaf0;
    assert!(cut.dependencies().iter().filter(to_leaf0).all(|arc| links.contains(&arc.to.port.link())));
}
