//! Tests of the dependency graph: known cycles, known proofs, and comparison with a plain search.

use crate::common::{LINK, build, connected};
use pauseframe_routing::verify::{Options, Tables, dependency_graph, verify};
use pauseframe_routing::{Dependency, DependencyGraph, ForwardingTables, NextHops};
use pauseframe_topology::SwitchGraph;
use pauseframe_topology::generate::{self, Jellyfish};
use pauseframe_topology::interchange::Labels;
use pauseframe_units::PortId;
use proptest::prelude::*;

/// Each dependency waits for the channel that the next dependency holds, cyclically.
fn assert_is_cycle(cycle: &[Dependency]) {
    for (i, dependency) in cycle.iter().enumerate() {
        assert_eq!(dependency.to, cycle[(i + 1) % cycle.len()].from);
    }
}

#[test]
fn shortest_paths_on_rings_deadlock_from_four_switches_on() {
    for (switches, length) in [(3, None), (4, Some(4)), (5, Some(5)), (6, Some(6)), (9, Some(9))] {
        let topology = generate::ring(switches, 1, LINK, LINK).unwrap();
        let hops = NextHops::shortest(&topology).unwrap();
        let dependencies = DependencyGraph::of_next_hops(&hops).unwrap();
        let cycle = dependencies.shortest_cycle();
        assert_eq!(cycle.as_ref().map(Vec::len), length);
        assert_eq!(dependencies.is_acyclic(), length.is_none());
        if let Some(cycle) = cycle {
            assert_is_cycle(&cycle);
            // One cyclic component for each direction of the ring.
            assert_eq!(dependencies.cyclic_components().len(), 2);
            for dependency in cycle {
                let (from, to) = (dependency.witness.from, dependency.witness.to);
                assert!(dependency.describe(&topology, &Labels::default()).contains("waits for"));
                let held = dependency.from.port;
                assert!(hops.ports(topology.owner(held), to).contains(&held));
                assert!(hops.ports(topology.peer(held), to).contains(&dependency.to.port));
                let before = hops.distance(from, to);
                assert!(
                    before >= 4,
                    "a witness of length {before} goes through no two links between switches"
                );
            }
        }
    }
}

#[test]
fn shortest_paths_on_fat_trees_can_not_deadlock_but_on_jellyfish_they_can() {
    for topology in [
        generate::fat_tree(6, LINK, LINK).unwrap(),
        generate::leaf_spine(6, 4, 2, LINK, LINK).unwrap(),
        generate::pgft(&[2, 2, 2], &[1, 2, 2], &[1, 2, 1], LINK, LINK).unwrap(),
    ] {
        assert!(DependencyGraph::of_next_hops(&NextHops::shortest(&topology).unwrap()).unwrap().is_acyclic());
    }
    let size = Jellyfish { switches: 30, network_ports: 6, hosts_per_switch: 1 };
    let topology = generate::jellyfish(size, 1, LINK, LINK).unwrap();
    let dependencies = DependencyGraph::of_next_hops(&NextHops::shortest(&topology).unwrap()).unwrap();
    assert_is_cycle(&dependencies.shortest_cycle().unwrap());
}

/// Tables of one VLAN on a ring of four switches that send everything clockwise.
fn clockwise() -> (pauseframe_topology::Topology, ForwardingTables) {
    let topology = generate::ring(4, 1, LINK, LINK).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let mut tables = ForwardingTables::new(&graph, vec![0]).unwrap();
    for row in 0..4 {
        for at in (0..4).filter(|at| *at != row) {
            let arc = graph.arcs(at).iter().find(|arc| arc.to == (at + 1) % 4).unwrap();
            tables.tree_mut(0, row)[at as usize] = arc.port;
        }
    }
    (topology, tables)
}

#[test]
fn a_plan_with_a_cycle_is_caught_with_its_witnesses() {
    let (topology, plan) = clockwise();
    let tables = Tables::of_plan(&plan, 1);
    let cycle = dependency_graph(&topology, &[&tables]).unwrap().shortest_cycle().unwrap();
    assert_is_cycle(&cycle);
    assert_eq!(cycle.len(), 4);
    for dependency in cycle {
        let route = tables.route(1, dependency.witness.from, dependency.witness.to);
        let pair = [dependency.from.port, dependency.to.port];
        assert!(route.windows(2).any(|window| window == pair), "{route:?} {pair:?}");
    }
}

#[test]
fn routes_that_may_not_be_sent_do_not_count() {
    let (topology, mut plan) = clockwise();
    plan.forbid_all();
    for from in 0..3 {
        plan.allow(0, from, from + 1);
    }
    plan.allow(0, 0, 2);
    let tables = Tables::of_plan(&plan, 1);
    let dependencies = dependency_graph(&topology, &[&tables]).unwrap();
    assert_eq!((dependencies.len(), dependencies.is_acyclic()), (1, true));
    let hosts: Vec<_> = topology.hosts().collect();
    assert!(tables.length(0, hosts[0], hosts[2]).is_some());
    assert!(tables.length(0, hosts[1], hosts[3]).is_none());
    let report = verify(&topology, &tables, &Options::default()).unwrap();
    assert_eq!(report.unreachable.count, 12 - 4);
}

#[test]
fn loops_and_black_holes_are_told_apart() {
    let (topology, mut plan) = clockwise();
    // s1 sends packets for the host at s3 back to s0, and s2 has no table row for the host at s0.
    let back = plan.graph().arcs(1).iter().find(|arc| arc.to == 0).unwrap().port;
    plan.tree_mut(0, 3)[1] = back;
    plan.tree_mut(0, 0)[2] = PortId::NONE;
    let report = verify(&topology, &Tables::of_plan(&plan, 1), &Options::default()).unwrap();
    assert_eq!((report.delivered, report.loops.count, report.black_holes.count), (8, 2, 2));
    assert_eq!((report.unreachable.count, report.can_deadlock), (4, true));
}

/// Second opinion: repeatedly removes channels that nobody waits for; a cycle exists if some channels remain.
fn cyclic_by_peeling(dependencies: &[Dependency]) -> bool {
    let mut left = dependencies.to_vec();
    loop {
        let before = left.len();
        let held: Vec<_> = left.iter().map(|d| d.from).collect();
        left.retain(|d| held.contains(&d.to));
        if left.len() == before {
            return before > 0;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_proof_agrees_with_a_plain_search(drawn in connected(8)) {
        let hops = NextHops::shortest(&drawn.topology).unwrap();
        let dependencies = DependencyGraph::of_next_hops(&hops).unwrap();
        let cycle = dependencies.shortest_cycle();
        prop_assert_eq!(dependencies.is_acyclic(), !cyclic_by_peeling(dependencies.dependencies()));
        prop_assert_eq!(cycle.is_none(), dependencies.is_acyclic());
        if let Some(cycle) = cycle {
            assert_is_cycle(&cycle);
        }
    }

    #[test]
    fn random_tables_are_judged_alike(
        drawn in connected(7),
        choices in prop::collection::vec(0_usize..64, 7 * 7 * 3),
    ) {
        let graph = SwitchGraph::new(&drawn.topology).unwrap();
        let mut plan = ForwardingTables::new(&graph, vec![0, 1, 0]).unwrap();
        let mut choices = choices.into_iter().cycle();
        for vlan in 0..3 {
            for row in 0..graph.attachments().len() as u32 {
                for at in (0..graph.len() as u32).filter(|at| *at != graph.attachments()[row as usize]) {
                    let arcs = graph.arcs(at);
                    plan.tree_mut(vlan, row)[at as usize] = arcs[choices.next().unwrap_or(0) % arcs.len()].port;
                }
            }
        }
        let tables = Tables::of_plan(&plan, 0);
        let dependencies = dependency_graph(&drawn.topology, &[&tables]).unwrap();
        prop_assert_eq!(dependencies.is_acyclic(), !cyclic_by_peeling(dependencies.dependencies()));
        // All dependencies of all routes, and no others.
        let mut expected = std::collections::BTreeSet::new();
        for vlan in 0..3 {
            for (from, to) in drawn.hosts.iter().flat_map(|a| drawn.hosts.iter().map(move |b| (*a, *b))) {
                let route = tables.route(vlan, from, to);
                let fabric = |port: &PortId| graph.head(*port).is_some();
                let pairs = route.windows(2).filter(|w| w.iter().all(fabric) && from_switch(&drawn, w[0]));
                expected.extend(pairs.map(|w| (plan.lane(usize::from(vlan)), w[0], w[1])));
            }
        }
        let found = dependencies.dependencies().iter().map(|d| (d.from.lane, d.from.port, d.to.port));
        prop_assert_eq!(found.collect::<std::collections::BTreeSet<_>>(), expected);
    }
}

/// True if a switch transmits from this port.
fn from_switch(drawn: &crate::common::Drawn, port: PortId) -> bool {
    !drawn.hosts.contains(&drawn.topology.owner(port))
}

#[test]
fn a_single_switch_has_no_dependencies() {
    let drawn = build(1, &[], &[0, 0]);
    let hops = NextHops::shortest(&drawn.topology).unwrap();
    assert!(DependencyGraph::of_next_hops(&hops).unwrap().is_empty());
}
