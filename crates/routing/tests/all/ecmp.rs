//! Tests of next hops on shortest paths against closed forms, a plain search, and the chi-square test.

use crate::common::{LINK, build, connected};
use pauseframe_routing::{NextHops, RoutingError, ecmp_index};
use pauseframe_topology::{Topology, generate};
use pauseframe_units::{Id, NodeId, PortId};
use proptest::prelude::*;

/// Counts the shortest paths by following all next hops.
fn paths(topology: &Topology, hops: &NextHops, at: NodeId, to: NodeId) -> u64 {
    if at == to {
        return 1;
    }
    hops.ports(at, to).iter().map(|port| paths(topology, hops, topology.peer(*port), to)).sum()
}

/// Distances in links over the whole graph, including hosts.
fn search(topology: &Topology, to: NodeId) -> Vec<u32> {
    let mut distance = vec![u32::MAX; topology.nodes().len()];
    let mut queue = std::collections::VecDeque::from([to]);
    distance[to.index()] = 0;
    while let Some(at) = queue.pop_front() {
        for port in &topology.nodes()[at].ports {
            let next = topology.peer(*port);
            if distance[next.index()] == u32::MAX {
                distance[next.index()] = distance[at.index()] + 1;
                queue.push_back(next);
            }
        }
    }
    distance
}

#[test]
fn a_fat_tree_has_a_quarter_k_squared_paths_between_pods() {
    for k in [2_u32, 4, 6] {
        let topology = generate::fat_tree(k, LINK, LINK).unwrap();
        let hops = NextHops::shortest(&topology).unwrap();
        let hosts: Vec<_> = topology.hosts().collect();
        let (per_edge, per_pod) = (k as usize / 2, (k * k / 4) as usize);
        for (i, from) in hosts.iter().enumerate() {
            for (j, to) in hosts.iter().enumerate() {
                let expected = match () {
                    () if i == j => (0, 1),
                    () if i / per_edge == j / per_edge => (2, 1),
                    () if i / per_pod == j / per_pod => (4, u64::from(k / 2)),
                    () => (6, u64::from(k * k / 4)),
                };
                assert_eq!((hops.distance(*from, *to), paths(&topology, &hops, *from, *to)), expected);
            }
        }
    }
}

#[test]
fn parallel_links_are_paths_of_their_own() {
    let topology = generate::pgft(&[2, 2], &[1, 2], &[1, 3], LINK, LINK).unwrap();
    let hops = NextHops::shortest(&topology).unwrap();
    let hosts: Vec<_> = topology.hosts().collect();
    assert_eq!(paths(&topology, &hops, hosts[0], hosts[3]), 2 * 3 * 3);
}

#[test]
fn hosts_back_to_back_have_one_path() {
    let mut topology = Topology::new();
    let kind = pauseframe_topology::NodeKind::Host;
    let (a, b) = (topology.add_node("a", kind, None), topology.add_node("b", kind, None));
    let link = topology.add_link(a, b, LINK);
    let hops = NextHops::shortest(&topology).unwrap();
    let mut path = Vec::new();
    hops.ecmp_path(&topology, b, a, 7, |_| 0, &mut path);
    assert_eq!((path, hops.distance(a, b)), (vec![PortId::of_link(link, 1)], 1));
}

#[test]
fn a_large_fat_tree_has_six_links_between_pods() {
    let topology = generate::fat_tree(16, LINK, LINK).unwrap();
    let hops = NextHops::shortest(&topology).unwrap();
    assert_eq!(hops.distance(NodeId(0), NodeId(1023)), 6);
}

#[test]
fn errors_name_the_nodes() {
    let drawn = build(3, &[(0, 1)], &[0, 2]);
    let error = NextHops::shortest(&drawn.topology).unwrap_err();
    assert_eq!(error, RoutingError::Unreachable { from: "h1".to_owned(), to: "h0".to_owned() });
    let mut topology = generate::star(2, LINK).unwrap();
    topology.add_link(NodeId(0), NodeId(2), LINK);
    let error = NextHops::shortest(&topology).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("host \"host0\" has 2 working links; routing needs exactly one: use topology.")
    );
}

#[test]
fn flows_spread_evenly_over_paths_and_over_next_hops() {
    // 32 flows from every host of one pod to every host of another pod, over the (k/2)^2 = 16 core switches.
    let topology = generate::fat_tree(8, LINK, LINK).unwrap();
    let hops = NextHops::shortest(&topology).unwrap();
    let cores: Vec<_> = (0..16).map(|i| topology.find(&format!("core{i}")).unwrap()).collect();
    let mut counts = vec![0_u32; cores.len()];
    let mut path = Vec::new();
    for flow in 0..8192_u64 {
        let (from, to) = (NodeId((flow % 16) as u32), NodeId((16 + flow / 16 % 16) as u32));
        hops.ecmp_path(&topology, from, to, flow, |node| u64::from(node.0), &mut path);
        let core = topology.owner(path[3]);
        counts[cores.iter().position(|c| *c == core).unwrap()] += 1;
    }
    // Chi-square with 15 degrees of freedom: uniform choices exceed 37.7 once in a thousand tests.
    let expected = 8192.0 / 16.0;
    let chi_square: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
    assert!(chi_square < 37.7, "{chi_square}: {counts:?}");

    let mut counts = [0_u32; 3];
    (0..30_000).for_each(|flow| counts[ecmp_index(flow, 5, 3)] += 1);
    let chi_square: f64 = counts.iter().map(|n| (f64::from(*n) - 1e4).powi(2) / 1e4).sum();
    assert!(chi_square < 13.8, "{chi_square}: {counts:?}");
}

#[test]
fn switches_with_different_salts_choose_independently() {
    // Without independent hashes ("hash polarisation") the second switch would see only one value.
    let first_zero: Vec<u64> = (0..4096).filter(|flow| ecmp_index(*flow, 1, 2) == 0).collect();
    let second_zero = first_zero.iter().filter(|flow| ecmp_index(**flow, 2, 2) == 0).count();
    let half = first_zero.len() as f64 / 2.0;
    assert!(
        (second_zero as f64 - half).abs() < 4.0 * (half / 2.0).sqrt(),
        "{second_zero} of {}",
        first_zero.len()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn next_hops_are_exactly_the_ports_that_come_closer(drawn in connected(12)) {
        let topology = &drawn.topology;
        let hops = NextHops::shortest(topology).unwrap();
        for to in &drawn.hosts {
            let distance = search(topology, *to);
            for from in &drawn.hosts {
                prop_assert_eq!(hops.distance(*from, *to), distance[from.index()]);
            }
            for at in topology.nodes().ids() {
                let mut closer = topology.nodes()[at].ports.clone();
                closer.retain(|port| distance[topology.peer(*port).index()] < distance[at.index()]);
                closer.sort();
                prop_assert_eq!(hops.ports(at, *to), &closer[..]);
            }
        }
    }

    #[test]
    fn failed_links_are_never_used(
        drawn in connected(10),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let failed: Vec<_> = picks.iter().map(|pick| *pick.get(&drawn.fabric)).collect();
        let mut left = Topology::new();
        for node in drawn.topology.nodes() {
            left.add_node(node.name.clone(), node.kind, None);
        }
        let works = drawn.topology.links().iter_enumerated().filter(|(link, _)| !failed.contains(link));
        works.for_each(|(_, link)| {
            left.add_link(link.ends[0], link.ends[1], LINK);
        });
        let hops = NextHops::shortest_without(&drawn.topology, &failed);
        let expected = NextHops::shortest(&left);
        prop_assert_eq!(hops.as_ref().err(), expected.as_ref().err());
        if let (Ok(hops), Ok(expected)) = (hops, expected) {
            for (from, to) in drawn.hosts.iter().flat_map(|a| drawn.hosts.iter().map(move |b| (*a, *b))) {
                prop_assert_eq!(hops.distance(from, to), expected.distance(from, to));
                for at in drawn.topology.nodes().ids() {
                    prop_assert_eq!(hops.ports(at, to).len(), expected.ports(at, to).len());
                    prop_assert!(hops.ports(at, to).iter().all(|port| !failed.contains(&port.link())));
                }
            }
        }
    }

    #[test]
    fn paths_join_and_have_the_shortest_length(drawn in connected(12), flow: u64) {
        let topology = &drawn.topology;
        let hops = NextHops::shortest(topology).unwrap();
        let mut path = Vec::new();
        for (from, to) in drawn.hosts.iter().flat_map(|a| drawn.hosts.iter().map(move |b| (*a, *b))) {
            hops.ecmp_path(topology, from, to, flow, |node| u64::from(node.0), &mut path);
            let mut at = from;
            for (place, port) in path.iter().enumerate() {
                prop_assert_eq!(topology.owner(*port), at);
                prop_assert_eq!(hops.distance(at, to) as usize, path.len() - place);
                at = topology.peer(*port);
            }
            prop_assert_eq!((at, path.len()), (to, hops.distance(from, to) as usize));
        }
    }
}
