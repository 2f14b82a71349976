//! Tests of the dependency graph: known cycles, known proofs, and comparison with a plain search.

use crate::common::{LINK, build, connected};
use pauseframe_routing::{Dependencies, Dependency, DependencyGraph, ForwardingTables, NextHops, UpDown};
use pauseframe_routing::{RouteError, RoutingEngine, VlanSets};
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
    let (topology, tables) = clockwise();
    let cycle = DependencyGraph::of_tables(&tables).unwrap().shortest_cycle().unwrap();
    assert_is_cycle(&cycle);
    assert_eq!(cycle.len(), 4);
    let mut route = Vec::new();
    for dependency in cycle {
        let witness = dependency.witness;
        tables.route(&topology, 0, witness.from, witness.to, &mut route).unwrap();
        let pair = [dependency.from.port, dependency.to.port];
        assert!(route.windows(2).any(|window| window == pair), "{route:?} {pair:?}");
    }
}

#[test]
fn routes_that_may_not_be_sent_do_not_count() {
    let (topology, mut tables) = clockwise();
    tables.forbid_all();
    for from in 0..3 {
        tables.allow(0, from, from + 1);
    }
    tables.allow(0, 0, 2);
    let dependencies = DependencyGraph::of_tables(&tables).unwrap();
    assert_eq!((dependencies.len(), dependencies.is_acyclic()), (1, true));
    let hosts: Vec<_> = topology.hosts().collect();
    let mut route = Vec::new();
    assert!(tables.route(&topology, 0, hosts[0], hosts[2], &mut route).is_ok());
    let error = tables.route(&topology, 0, hosts[1], hosts[3], &mut route).unwrap_err();
    assert_eq!(error.to_string(), "the plan does not let \"host1\" send to \"host3\" in VLAN 0");
    assert_eq!(tables.audit().unreachable.len(), 12 - 4);
}

#[test]
fn loops_and_black_holes_are_told_apart() {
    let (topology, mut tables) = clockwise();
    assert_eq!(tables.audit().delivered, 16);
    let hosts: Vec<_> = topology.hosts().collect();
    // s1 sends packets for the host at s3 back to s0, and s2 has no table row for the host at s0.
    let back = tables.graph().arcs(1).iter().find(|arc| arc.to == 0).unwrap().port;
    tables.tree_mut(0, 3)[1] = back;
    tables.tree_mut(0, 0)[2] = PortId::NONE;
    let mut route = Vec::new();
    let looped = tables.route(&topology, 0, hosts[0], hosts[3], &mut route).unwrap_err();
    assert!(matches!(looped, RouteError::Loop { .. }), "{looped}");
    let lost = tables.route(&topology, 0, hosts[1], hosts[0], &mut route).unwrap_err();
    assert_eq!(lost.to_string(), "\"s2\" has no row for \"host0\" in VLAN 0");
    let audit = tables.audit();
    assert_eq!((audit.delivered, audit.loops, audit.black_holes), (12, 2, 2));
    assert_eq!((audit.unreachable.len(), audit.rows_max), (4, 4));
    assert!(!DependencyGraph::of_tables(&tables).unwrap().is_acyclic());
}

#[test]
fn two_plans_beside_each_other_use_different_lanes() {
    let topology = generate::ring(5, 1, LINK, LINK).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let engine = UpDown { vlans: 2, root: None, seed: 1 };
    let one = engine.plan(&topology, &graph).unwrap();
    let mut other = engine.plan(&topology, &graph).unwrap();
    other.forbid_all();
    other.allow(1, 0, 2);
    let both = one.clone().beside(&other).unwrap();
    assert_eq!((both.vlans(), both.lanes(), both.lane(1), both.lane(2)), (4, 2, 0, 1));
    assert_eq!(both.tree(3, 2), other.tree(1, 2));
    assert!(both.allows(1, 3, 4) && both.allows(3, 0, 2) && !both.allows(2, 0, 2) && !both.allows(3, 2, 0));
    let hosts: Vec<_> = topology.hosts().collect();
    assert!(VlanSets::of(&both, 0).between(hosts[0], hosts[2]).contains(&3));
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
        let mut dependencies = Dependencies::new(hops.graph(), 2).unwrap();
        dependencies.add_next_hops(&hops, 1);
        let dependencies = dependencies.finish();
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
        let mut tables = ForwardingTables::new(&graph, vec![0, 1, 0]).unwrap();
        let mut choices = choices.into_iter().cycle();
        for vlan in 0..3 {
            for row in 0..graph.attachments().len() as u32 {
                for at in (0..graph.len() as u32).filter(|at| *at != graph.attachments()[row as usize]) {
                    let arcs = graph.arcs(at);
                    tables.tree_mut(vlan, row)[at as usize] = arcs[choices.next().unwrap_or(0) % arcs.len()].port;
                }
            }
        }
        let dependencies = DependencyGraph::of_tables(&tables).unwrap();
        prop_assert_eq!(dependencies.is_acyclic(), !cyclic_by_peeling(dependencies.dependencies()));
        // All dependencies of all allowed routes, and no others.
        let mut expected = std::collections::BTreeSet::new();
        let mut route = Vec::new();
        for vlan in 0..3 {
            for (from, to) in drawn.hosts.iter().flat_map(|a| drawn.hosts.iter().map(move |b| (*a, *b))) {
                if tables.row_of(from) != tables.row_of(to) {
                    let end = tables.route(&drawn.topology, vlan, from, to, &mut route);
                    let lost = matches!(end, Err(RouteError::BlackHole { .. }));
                    prop_assert!(!lost);
                    let fabric = |port: &PortId| graph.head(*port).is_some();
                    let pairs = route.windows(2).filter(|w| w.iter().all(fabric) && from_switch(&drawn, w[0]));
                    expected.extend(pairs.map(|w| (tables.lane(vlan), w[0], w[1])));
                }
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
