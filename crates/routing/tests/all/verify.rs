//! Tests of the verifier: planted cycles, correct plans, an independent search, and the effects of failures.

use crate::common::{LINK, build, connected};
use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_routing::verify::{Options, Report, Tables, dependency_graph, verify};
use pauseframe_routing::{
    Dfsssp, ForwardingTables, Lash, OrderPair, Packing, RoutingEngine, SpanningTrees, UpDown,
};
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{SwitchGraph, Topology, generate};
use pauseframe_units::{NodeId, PortId};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use proptest::prelude::*;
use std::collections::BTreeSet;

const EVERYTHING: Options<'_> = Options { rows_budget: Some(100), what_ifs: true, examples: 5, labels: None };

fn check(topology: &Topology, tables: &Tables) -> Report {
    verify(topology, tables, &EVERYTHING).unwrap()
}

fn csv(text: &str, topology: &Topology) -> Tables {
    tables_io::read("t.csv", text, TableFormat::Csv, topology, &Labels::default()).unwrap().tables
}

/// Checks that a route of the tables uses the two buffers of each arc of the cycle in sequence, and that the
/// arcs form a cycle.
fn assert_is_real(topology: &Topology, tables: &Tables, report: &Report) {
    let cycle = &report.shortest_cycle;
    for (i, arc) in cycle.iter().enumerate() {
        assert_eq!(arc.wanted, cycle[(i + 1) % cycle.len()].held);
        let pair = [&arc.held.port, &arc.wanted.port];
        assert!(arc.witness.ports.windows(2).any(|window| window.iter().eq(pair)), "{arc}");
        // The witness follows the rows of the tables, hop by hop.
        let [from, to] = [&arc.witness.from, &arc.witness.to].map(|name| topology.find(name).unwrap());
        assert_ne!(from, to);
        let mut at = from;
        for name in &arc.witness.ports {
            let port = *topology.nodes()[at].ports.iter().find(|p| topology.port_name(**p) == *name).unwrap();
            assert!(at == from || tables.port(arc.witness.vlan, at, to) == Some(port));
            at = topology.peer(port);
        }
    }
}

/// Follows all routes between hosts one by one and lets petgraph search their dependencies for cycles.
fn petgraph_says_cyclic(topology: &Topology, tables: &Tables) -> (bool, usize) {
    let mut graph: DiGraphMap<(u32, u8), ()> = DiGraphMap::new();
    let hosts: Vec<_> = topology.hosts().collect();
    for vlan in tables.vlans() {
        let lane = |port: PortId| {
            let switch = topology.owner(port);
            vlan.lane_at.get(&switch).copied().unwrap_or(vlan.lane)
        };
        for (from, to) in
            hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b)
        {
            let route = tables.route(vlan.id, from, to);
            let fabric =
                |port: &&PortId| tables.graph().head(**port).is_some() && topology.owner(**port) != from;
            let route: Vec<_> = route.iter().filter(fabric).collect();
            for pair in route.windows(2) {
                graph.add_edge((pair[0].0, lane(*pair[0])), (pair[1].0, lane(*pair[1])), ());
            }
        }
    }
    let cyclic = tarjan_scc(&graph).into_iter().filter(|c| c.len() > 1 || graph.contains_edge(c[0], c[0]));
    (cyclic.count() > 0, graph.edge_count())
}

/// Tables in which every switch sends to every destination over a random link.
fn random_tables(graph: &SwitchGraph, lanes: Vec<u8>, choices: &[usize]) -> ForwardingTables {
    let mut tables = ForwardingTables::new(graph, lanes).unwrap();
    let mut choices = choices.iter().cycle();
    for vlan in 0..tables.vlans() {
        for row in 0..graph.attachments().len() as u32 {
            for at in (0..graph.len() as u32).filter(|at| *at != graph.attachments()[row as usize]) {
                let choice = *choices.next().unwrap();
                let arcs = graph.arcs(at);
                if !choice.is_multiple_of(7) {
                    tables.tree_mut(vlan, row)[at as usize] = arcs[choice % arcs.len()].port;
                }
            }
        }
    }
    tables
}

/// A cycle of switches with a host at each switch, plus chords. The routes from each switch to the second
/// next switch follow the cycle, so its links wait for each other, whatever the other routes are.
fn planted(
    length: usize,
    chords: &[(usize, usize)],
    choices: &[usize],
) -> (Topology, Tables, BTreeSet<PortId>) {
    let ring = (0..length).map(|i| (i, (i + 1) % length));
    let edges: Vec<_> = ring.chain(chords.iter().copied().filter(|(a, b)| a != b)).collect();
    let at: Vec<_> = (0..length).collect();
    let drawn = build(length, &edges, &at);
    let graph = SwitchGraph::new(&drawn.topology).unwrap();
    let mut tables = random_tables(&graph, vec![0, 1], choices);
    let forward = |at: usize| PortId::of_link(drawn.fabric[at], 0);
    for from in 0..length {
        let to = (from + 2) % length;
        let number = |switch: usize| graph.number(NodeId(switch as u32)).unwrap();
        let row = graph.attachment_row(number(to)).unwrap();
        for at in [from, (from + 1) % length] {
            tables.tree_mut(0, row)[number(at) as usize] = forward(at);
        }
    }
    let tables = Tables::of_plan(&tables, 100);
    (drawn.topology, tables, (0..length).map(forward).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn planted_cycles_are_always_found(
        length in 3_usize..9,
        chords in prop::collection::vec((0_usize..3, 0_usize..3), 0..6),
        choices in prop::collection::vec(0_usize..64, 150),
    ) {
        let (topology, tables, planted) = planted(length, &chords, &choices);
        let report = check(&topology, &tables);
        prop_assert!(report.can_deadlock() && !report.is_clean());
        prop_assert!(!report.shortest_cycle.is_empty() && report.shortest_cycle.len() <= planted.len());
        assert_is_real(&topology, &tables, &report);
    }

    #[test]
    fn random_tables_are_judged_as_petgraph_judges_them(
        drawn in connected(7),
        lanes in prop::collection::vec(0_u8..3, 1..4),
        choices in prop::collection::vec(0_usize..64, 150),
        rewrites in prop::collection::btree_map(0_usize..7, 0_u8..3, 0..3),
    ) {
        let graph = SwitchGraph::new(&drawn.topology).unwrap();
        let tables = Tables::of_plan(&random_tables(&graph, lanes, &choices), 1);
        let labels = Labels::default();
        let text = tables_io::write(&tables, TableFormat::Csv, &drawn.topology, &labels).unwrap();
        let rewrites = rewrites.iter().filter(|(switch, _)| **switch < graph.len());
        let rewrites: Vec<_> = rewrites.map(|(switch, lane)| format!("s{switch},1,{lane}\n")).collect();
        let tables = csv(&format!("{text}switch,vlan,lane\n{}", rewrites.concat()), &drawn.topology);
        let report = check(&drawn.topology, &tables);
        let (cyclic, dependencies) = petgraph_says_cyclic(&drawn.topology, &tables);
        prop_assert_eq!((report.can_deadlock(), report.dependencies), (cyclic, dependencies));
        assert_is_real(&drawn.topology, &tables, &report);
        assert_failures_are_right(&drawn.topology, &tables, &report);
        let routes = report.delivered + report.loops.count + report.black_holes.count;
        let hosts = drawn.hosts.len() as u64;
        prop_assert!(routes <= hosts * (hosts - 1) * tables.vlans().len() as u64);
    }

    #[test]
    fn plans_of_all_engines_pass(drawn in connected(8), seed in 0_u64..1000) {
        let topology = &drawn.topology;
        let graph = SwitchGraph::new(topology).unwrap();
        let engines: [Box<dyn RoutingEngine>; 3] = [
            Box::new(UpDown { vlans: 2, root: None, seed }),
            Box::new(OrderPair { seed, ..OrderPair::default() }),
            Box::new(SpanningTrees { lanes: 2, trees_per_lane: None, packing: Packing::Exact, seed }),
        ];
        for engine in engines {
            let plan = engine.plan(topology, &graph).unwrap();
            let report = check(topology, &Tables::of_plan(&plan, 100));
            prop_assert!(!report.can_deadlock(), "{engine:?}: {report}");
            prop_assert_eq!((report.unreachable.count, report.loops.count), (0, 0));
        }
    }
}

/// Tries every link and switch separately: a pair is lost if each of its routes uses the failed part.
fn assert_failures_are_right(topology: &Topology, tables: &Tables, report: &Report) {
    let what_if = report.what_if.as_ref().unwrap();
    let hosts: Vec<_> = topology.hosts().collect();
    let (mut links, mut switches) = (0, 0);
    let mut unreachable = 0;
    for (from, to) in hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b) {
        let routes = tables.vlans().iter().map(|vlan| tables.route(vlan.id, from, to));
        let arriving: Vec<_> =
            routes.filter(|route| route.last().is_some_and(|p| topology.peer(*p) == to)).collect();
        unreachable += u64::from(arriving.is_empty());
        let Some(first) = arriving.first() else { continue };
        let fabric = |port: &&PortId| tables.graph().head(**port).is_some() && topology.owner(**port) != from;
        let common =
            |port: &&PortId| arriving.iter().all(|route| route.iter().any(|p| p.link() == port.link()));
        links += first.iter().filter(fabric).filter(common).count() as u64;
        let inner = first[1..first.len() - 1].iter().map(|port| topology.peer(*port));
        let ends = [from, to].map(|host| tables.graph().node(tables.graph().attachment(host).unwrap()));
        let passes =
            |switch: &NodeId| arriving.iter().all(|r| r.iter().any(|p| topology.peer(*p) == *switch));
        switches += inner.filter(|switch| !ends.contains(switch)).filter(passes).count() as u64;
    }
    assert_eq!((what_if.links.pairs_lost, what_if.switches.pairs_lost), (links, switches));
    assert_eq!(report.unreachable.count, unreachable);
}

#[test]
fn restricted_plans_pass_too() {
    let topology = generate::torus(&[4, 4], 2, LINK, LINK).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let dfsssp = Dfsssp { lanes_max: 8, seed: 1 };
    let lash = Lash { lanes_max: 8, seed: 1 };
    for plan in [dfsssp.plan(&topology, &graph).unwrap(), lash.plan(&topology, &graph).unwrap()] {
        let tables = Tables::of_plan(&plan, 1);
        let report = check(&topology, &tables);
        assert!(!report.can_deadlock() && report.unreachable.count == 0 && report.lanes > 1, "{report}");
        assert_eq!(report.dependencies, dependency_graph(&topology, &[&tables]).unwrap().len());
    }
}

/// Four switches in a ring with a host at each switch; all packets travel clockwise.
fn clockwise(rewrite: &str) -> (Topology, Tables) {
    let topology = generate::ring(4, 1, LINK, LINK).unwrap();
    let row = |(at, to): (usize, usize)| {
        let next = topology.find(&format!("s{}", (at + 1) % 4)).unwrap();
        let node = &topology.nodes()[topology.find(&format!("s{at}")).unwrap()];
        let port = node.ports.iter().position(|port| topology.peer(*port) == next).unwrap();
        format!("s{at},7,s{to},{port}\n")
    };
    let pairs = (0..4).flat_map(|at| (0..4).map(move |to| (at, to))).filter(|(at, to)| at != to);
    let rows: String = pairs.map(row).collect();
    let text = format!("vlan,lane\n7,1\n{rewrite}\nswitch,vlan,destination,port\n{rows}");
    let tables = csv(&text, &topology);
    (topology, tables)
}

#[test]
fn a_ring_is_caught_and_a_rewrite_at_one_switch_does_not_mend_it() {
    let (topology, tables) = clockwise("");
    let report = check(&topology, &tables);
    assert_eq!((report.can_deadlock(), report.shortest_cycle.len()), (true, 4));
    assert_eq!((report.cyclic_components.as_slice(), report.delivered), (&[4][..], 12));
    assert_is_real(&topology, &tables, &report);
    assert!(report.to_string().contains("CAN DEADLOCK: 4 dependencies, 1 cyclic component"), "{report}");
    let what_if = report.what_if.as_ref().unwrap();
    // A link carries the routes of 1 + 2 + 3 pairs, and a switch is an inner switch for 1 + 2 pairs.
    assert_eq!((what_if.links.pairs_lost, what_if.switches.pairs_lost), (4 * 6, 4 * 3));
    assert_eq!((what_if.links.tried, what_if.links.harmless), (4, 0));

    // Switch s0 sends in lane 0, whatever the ingress lane is; the next switch sends in lane 1 again, so the
    // cycle remains and contains both lanes.
    let (topology, tables) = clockwise("\nswitch,vlan,lane\ns0,7,0\n");
    let report = check(&topology, &tables);
    assert!(report.can_deadlock());
    assert_eq!(report.shortest_cycle.iter().filter(|arc| arc.held.lane == 0).count(), 1);
    assert_eq!(report.lane_violations.len(), 1);
    assert_eq!((report.lane_violations[0].vlan, &report.lane_violations[0].lanes), (7, &vec![0, 1]));
    assert_eq!(report.lane_violations[0].switches, ["s0"]);
    assert_is_real(&topology, &tables, &report);
}

#[test]
fn two_vlans_in_lanes_of_their_own_break_the_cycle_that_one_lane_has() {
    let topology = generate::ring(4, 1, LINK, LINK).unwrap();
    let toward = |at: usize, to: usize| {
        let next = topology.find(&format!("s{to}")).unwrap();
        let node = &topology.nodes()[topology.find(&format!("s{at}")).unwrap()];
        node.ports.iter().position(|port| topology.peer(*port) == next).unwrap()
    };
    let text = |lanes: [u8; 2]| {
        let rows = [(1, 0), (1, 1), (2, 2), (2, 3)].map(|(vlan, at)| {
            let [next, to] = [(at + 1) % 4, (at + 2) % 4];
            let (first, second) = (toward(at, next), toward(next, to));
            format!("s{at},{vlan},s{to},{first}\ns{next},{vlan},s{to},{second}\n")
        });
        let [one, two] = lanes;
        format!("vlan,lane\n1,{one}\n2,{two}\nswitch,vlan,destination,port\n{}", rows.concat())
    };
    assert!(check(&topology, &csv(&text([0, 0]), &topology)).can_deadlock());
    let apart = csv(&text([0, 1]), &topology);
    assert!(!check(&topology, &apart).can_deadlock());
    // Old and new tables together can deadlock although each alone cannot.
    let other = csv(&text([1, 0]), &topology);
    assert!(dependency_graph(&topology, &[&apart]).unwrap().is_acyclic());
    assert!(!dependency_graph(&topology, &[&apart, &other]).unwrap().is_acyclic());
}

#[test]
fn loops_black_holes_and_wrong_hosts_are_told_apart() {
    let drawn = build(3, &[(0, 1), (1, 2)], &[0, 0, 2]);
    // Ports of switch s0: 0 to h0, 1 to h1, 2 to s1; of s1: 0 to s0, 1 to s2; of s2: 0 to h2, 1 to s1.
    let text = "switch,vlan,destination,port\n\
                s0,1,h2,2\ns1,1,h2,0\ns2,1,h2,0\n\
                s0,1,h0,0\ns0,1,h1,0\ns2,1,h0,1\n";
    let report = check(&drawn.topology, &csv(text, &drawn.topology));
    // Packets from h0 and h1 to h2 loop; packets from h2 to h0 are lost at s1, packets from h0 to h1 end at
    // the port of h0, and h2 has no row for h1.
    assert_eq!((report.loops.count, report.black_holes.count, report.delivered), (2, 3, 1));
    assert_eq!(report.loops.examples[0].to_string(), "h0 to h2 in VLAN 1 by h0:0, s0:2, s1:0, s0:2");
    assert_eq!(report.unreachable.count, 5);
    assert!(report.can_deadlock());
    assert_eq!(report.shortest_cycle.len(), 2);
    let largest = report.tables.largest.as_ref().unwrap();
    assert_eq!((largest.switch.as_str(), largest.rows, report.tables.rows_mean), ("s0", 3, 2.0));
}

#[test]
fn tables_larger_than_the_switches_are_named() {
    let topology = generate::leaf_spine(2, 2, 30, LINK, LINK).unwrap();
    let plan = UpDown { vlans: 2, root: None, seed: 1 };
    let plan = plan.plan(&topology, &SwitchGraph::new(&topology).unwrap()).unwrap();
    let tables = Tables::of_plan(&plan, 1);
    let report = check(&topology, &tables);
    assert_eq!(
        (report.tables.largest.as_ref().unwrap().rows, report.tables.over_budget.count > 0),
        (120, true)
    );
    assert!(!report.is_clean());
    let roomy = Options { rows_budget: Some(120), ..EVERYTHING };
    let report = verify(&topology, &tables, &roomy).unwrap();
    assert!(report.is_clean(), "{report}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["can_deadlock"], &json["tables"]["budget"]), (&false.into(), &120.into()));
}
