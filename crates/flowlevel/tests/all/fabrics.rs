//! Tests of demands, routes, bounds and reports on small fabrics.

use pauseframe_flowlevel::demand::{self, DemandError, Pair};
use pauseframe_flowlevel::routes::{self, Chooser, NoVlan, VlanChoice};
use pauseframe_flowlevel::{ConcurrentFlow, Flows, MaxMin, Paths, Report, capacities};
use pauseframe_routing::verify::{RouteLengths, Tables};
use pauseframe_routing::watch::Unwatched;
use pauseframe_routing::{ForwardingTables, NextHops, OrderPair, Packing, RoutingEngine, SpanningTrees};
use pauseframe_topology::generate::{Jellyfish, jellyfish, leaf_spine};
use pauseframe_topology::{Channel, NodeKind, SwitchGraph, Topology};
use pauseframe_units::{BitRate, NodeId, PortId, Span};

fn gbps(rate: u64) -> Channel {
    Channel { rate: BitRate::gbps(rate), delay: Span::ZERO }
}

fn small_jellyfish() -> Topology {
    let size = Jellyfish { switches: 30, network_ports: 6, hosts_per_switch: 4 };
    jellyfish(size, 3, gbps(1), gbps(1)).expect("a graph of this size exists")
}

fn hosts(topology: &Topology) -> Vec<NodeId> {
    topology.hosts().collect()
}

/// Checks that each path begins at its sender, ends at its receiver and has no gap.
fn check_paths(topology: &Topology, demand: &[Pair], paths: &Paths) {
    assert_eq!(paths.len(), demand.len());
    for (pair, path) in demand.iter().zip(paths.iter()) {
        let end = path.iter().fold(pair.from, |at, port| {
            assert_eq!(topology.owner(*port), at);
            topology.peer(*port)
        });
        assert_eq!(end, pair.to);
    }
}

#[test]
fn demands_are_what_they_say() {
    let topology = small_jellyfish();
    let (all, graph) = (hosts(&topology), SwitchGraph::new(&topology).unwrap());
    for seed in 0..20 {
        let pairs = demand::permutation(&all, seed).unwrap();
        assert!(pairs.iter().all(|pair| pair.from != pair.to));
        let mut receivers: Vec<NodeId> = pairs.iter().map(|pair| pair.to).collect();
        receivers.sort_unstable();
        assert_eq!(receivers, all);

        let pairs = demand::rack_permutation(&graph, seed).unwrap();
        assert_eq!(pairs.len(), all.len());
        for rack in pairs.chunks(4) {
            let ends = |pair: &Pair| (graph.attachment(pair.from), graph.attachment(pair.to));
            assert!(rack.iter().all(|pair| ends(pair) == ends(&rack[0])));
            assert_ne!(ends(&rack[0]).0, ends(&rack[0]).1);
        }

        let pairs = demand::n_to_1(&all, 7, seed).unwrap();
        assert_eq!(pairs.len(), 7);
        assert!(pairs.iter().all(|pair| pair.to == pairs[0].to && pair.from != pair.to));
    }
    assert_eq!(demand::all_to_all(&all).unwrap().len(), 120 * 119);
    let too_few = DemandError::TooFew { what: "hosts", needed: 121, given: 120 };
    assert_eq!(demand::n_to_1(&all, 120, 1), Err(too_few));
    let nobody = DemandError::TooFew { what: "senders", needed: 1, given: 0 };
    assert_eq!(demand::n_to_1(&all, 0, 1), Err(nobody));
    assert!(demand::permutation(&all[..1], 1).is_err());
    assert!(matches!(demand::skewed(&all, f64::NAN, 1), Err(DemandError::Exponent(_))));
}

#[test]
fn a_skewed_demand_follows_zipf() {
    let topology = small_jellyfish();
    let all = hosts(&topology);
    let mut most = [0.0; 2];
    for (exponent, most) in [0.0, 1.0].into_iter().zip(&mut most) {
        for seed in 0..200 {
            let pairs = demand::skewed(&all, exponent, seed).unwrap();
            assert!(pairs.iter().all(|pair| pair.from != pair.to));
            let count = |host: &NodeId| pairs.iter().filter(|pair| pair.to == *host).count();
            *most += all.iter().map(count).max().unwrap_or(0) as f64 / 200.0;
        }
    }
    // With exponent one, the most popular host receives from a fraction 1 / H(120) = 0.1864 of 119 senders,
    // 22.2 on average; draws of the sender itself raise this number slightly; the standard deviation of the
    // mean is 0.3.
    assert!((21.0..24.5).contains(&most[1]), "{most:?}");
    assert!((3.5..5.5).contains(&most[0]), "{most:?}");
}

fn planned(
    topology: &Topology,
    tables: &Tables,
    pairs: &[Pair],
    choice: VlanChoice,
    seed: u64,
) -> Result<Paths, NoVlan> {
    Ok(Chooser::new(topology, tables, 0, choice, 0).choose_all(pairs, seed)?.paths)
}

fn plans(topology: &Topology, graph: &SwitchGraph) -> [Tables; 2] {
    let trees = SpanningTrees { lanes: 2, trees_per_lane: None, packing: Packing::Exact, seed: 1 };
    let orders = OrderPair { lanes: 2, vlans: 8, seed: 1, ..OrderPair::default() };
    let plan = |engine: &dyn RoutingEngine| {
        Tables::of_plan(&engine.plan(topology, graph).expect("the graph is connected"), 1)
    };
    [plan(&trees), plan(&orders)]
}

#[test]
fn paths_lead_from_sender_to_receiver() {
    let topology = small_jellyfish();
    let graph = SwitchGraph::new(&topology).unwrap();
    let hops = NextHops::shortest(&topology).unwrap();
    let pairs = demand::skewed(&hosts(&topology), 0.5, 2).unwrap();
    let shortest = routes::ecmp(&topology, &hops, &pairs, 1);
    check_paths(&topology, &pairs, &shortest);
    for (pair, path) in pairs.iter().zip(shortest.iter()) {
        assert_eq!(path.len() as u32, hops.distance(pair.from, pair.to));
    }
    assert_eq!(shortest, routes::ecmp(&topology, &hops, &pairs, 1));
    for tables in plans(&topology, &graph) {
        let lengths = RouteLengths::new(&tables);
        for choice in [VlanChoice::Random, VlanChoice::BestOfTwo, VlanChoice::LeastLoaded { passes: 2 }] {
            let paths = planned(&topology, &tables, &pairs, choice, 1).unwrap();
            check_paths(&topology, &pairs, &paths);
            for (pair, path) in pairs.iter().zip(paths.iter()) {
                let all = (0..tables.vlans().len()).filter_map(|v| lengths.length(v, pair.from, pair.to));
                assert_eq!(path.len(), usize::from(all.min().unwrap()) + 2);
            }
        }
    }
}

#[test]
fn a_plan_without_rows_serves_nobody() {
    let topology = small_jellyfish();
    let graph = SwitchGraph::new(&topology).unwrap();
    let tables = Tables::of_plan(&ForwardingTables::new(&graph, vec![0]).unwrap(), 1);
    let pair = Pair { from: topology.find("host0").unwrap(), to: topology.find("host119").unwrap() };
    let error = planned(&topology, &tables, &[pair], VlanChoice::Random, 1).unwrap_err();
    assert_eq!(error, NoVlan { from: "host0".to_owned(), to: "host119".to_owned() });
}

#[test]
fn choosing_by_load_beats_chance() {
    let topology = small_jellyfish();
    let graph = SwitchGraph::new(&topology).unwrap();
    let [_, tables] = plans(&topology, &graph);
    let mut sums = [0.0; 3];
    let choices = [VlanChoice::Random, VlanChoice::BestOfTwo, VlanChoice::LeastLoaded { passes: 2 }];
    for seed in 0..10 {
        let pairs = demand::permutation(&hosts(&topology), seed).unwrap();
        for (choice, sum) in choices.into_iter().zip(&mut sums) {
            let paths = planned(&topology, &tables, &pairs, choice, seed).unwrap();
            let rates = MaxMin::default().solve(&capacities(&topology), Flows::equal(&paths)).unwrap();
            *sum += rates.iter().sum::<f64>();
        }
    }
    assert!(sums[0] * 1.02 < sums[1] && sums[1] * 1.02 < sums[2], "{sums:?}");
}

#[test]
fn the_lightest_of_two_parallel_spines_is_taken() {
    // Two leaves, four spines and four hosts per leaf: choosing by load gives each of four flows a different
    // spine.
    let topology = leaf_spine(2, 4, 4, gbps(1), gbps(1)).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let plan = OrderPair { lanes: 2, vlans: 16, seed: 1, ..OrderPair::default() };
    let tables = Tables::of_plan(&plan.plan(&topology, &graph).unwrap(), 1);
    let all = hosts(&topology);
    let pairs: Vec<Pair> = (0..4).map(|i| Pair { from: all[i], to: all[i + 4] }).collect();
    let choice = VlanChoice::LeastLoaded { passes: 2 };
    let paths = planned(&topology, &tables, &pairs, choice, 1).unwrap();
    let rates = MaxMin::default().solve(&capacities(&topology), Flows::equal(&paths)).unwrap();
    assert_eq!(rates, [1e9; 4]);
}

/// Of four VLANs over a spine each, the first and the third have a flow. One of these is taken only if both are drawn, which
/// happens to one of six pairs.
#[test]
fn any_two_vlans_may_be_compared() {
    let topology = leaf_spine(2, 4, 1, gbps(1), gbps(1)).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let plan = OrderPair { lanes: 2, vlans: 4, seed: 1, ..OrderPair::default() };
    let tables = Tables::of_plan(&plan.plan(&topology, &graph).unwrap(), 1);
    let all = hosts(&topology);
    let pair = Pair { from: all[0], to: all[1] };
    let mut chooser = Chooser::new(&topology, &tables, 0, VlanChoice::BestOfTwo, 1);
    let mut choose = |is_kept: &mut dyn FnMut(u16) -> bool| {
        let (vlan, path) = chooser.choose(pair).expect("all VLANs serve it");
        let path = path.to_vec();
        let is_kept = is_kept(vlan);
        if !is_kept {
            chooser.leave(&path);
        }
        (vlan, path)
    };
    let mut free = vec![0, 2];
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let (_, path) = choose(&mut |vlan| {
            free.iter().position(|other| *other == vlan).map(|i| free.remove(i)).is_some()
        });
        seen.insert(path);
    }
    assert!(free.is_empty() && seen.len() == 4, "{free:?} {}", seen.len());
    let loaded = (0..600).filter(|_| choose(&mut |_| false).0 % 2 == 0).count();
    assert!((70..130).contains(&loaded), "{loaded}");
}

#[test]
fn bounds_of_a_ring_and_of_hosts() {
    // Four switches in a ring; both hosts of switch 0 send to the hosts of switch 2, one flow in each
    // direction of the ring.
    let mut topology = Topology::new();
    let switches: Vec<NodeId> =
        (0..4).map(|i| topology.add_node(format!("s{i}"), NodeKind::Switch, None)).collect();
    for i in 0..4 {
        topology.add_link(switches[i], switches[(i + 1) % 4], gbps(1));
    }
    let mut host = |name: &str, switch: usize, rate: u64| {
        let host = topology.add_node(name, NodeKind::Host, None);
        topology.add_link(host, switches[switch], gbps(rate));
        host
    };
    let [a, b, far, other, e] = [("a", 0, 10), ("b", 0, 10), ("c", 2, 10), ("d", 2, 10), ("e", 0, 10)]
        .map(|(name, switch, rate)| host(name, switch, rate));
    let slow = host("slow", 2, 1);
    let graph = SwitchGraph::new(&topology).unwrap();
    let bounds = ConcurrentFlow { gap: 0.02, phases_max: 5000 };
    let solve = |pairs: &[Pair]| bounds.solve(&topology, &graph, pairs, &mut Unwatched);
    let pair = |from, to| Pair { from, to };

    let two = solve(&[pair(a, far), pair(b, other)]);
    assert!(two.lower <= 1.0001e9 && two.upper >= 0.9999e9 && two.upper <= 1.02 * two.lower, "{two:?}");
    let three = solve(&[pair(a, far), pair(b, other), pair(e, far)]);
    assert!(
        three.lower <= 0.6667e9 && three.upper >= 0.6666e9 && three.upper <= 1.02 * three.lower,
        "{three:?}"
    );
    // The downlink of the slow host limits both flows to one half; within a switch no other link matters.
    let hosts = solve(&[pair(a, slow), pair(b, slow)]);
    assert!((hosts.upper - 0.5e9).abs() < 1.0 && hosts.upper <= 1.02 * hosts.lower, "{hosts:?}");
    let near = solve(&[pair(a, b)]);
    assert_eq!((near.lower, near.upper, near.phases), (10e9, 10e9, 0));
    assert!(solve(&[]).lower.is_infinite());
}

/// Without a phase the upper bound is that of the first lengths, the inverse capacities (Garg and Könemann): the number of arcs between switches, divided by
/// the distance of the pair. Here two links of 1 and 4 Gb/s in a row: 4 / (1 + 1/4) = 3.2 Gb/s.
#[test]
fn first_lengths_are_inverse_capacities() {
    let mut topology = Topology::new();
    let switches = [0, 1, 2].map(|i| topology.add_node(format!("s{i}"), NodeKind::Switch, None));
    topology.add_link(switches[0], switches[1], gbps(1));
    topology.add_link(switches[1], switches[2], gbps(4));
    let [from, to] = [0, 2].map(|i| {
        let host = topology.add_node(format!("h{i}"), NodeKind::Host, None);
        topology.add_link(host, switches[i], gbps(100));
        host
    });
    let graph = SwitchGraph::new(&topology).unwrap();
    let none = ConcurrentFlow { gap: 0.05, phases_max: 0 };
    let bounds = none.solve(&topology, &graph, &[Pair { from, to }], &mut Unwatched);
    assert!(bounds.lower == 0.0 && (bounds.upper - 3.2e9).abs() < 1.0, "{bounds:?}");
}

#[test]
fn bounds_hold_the_worst_rate_of_every_routing() {
    let topology = small_jellyfish();
    let graph = SwitchGraph::new(&topology).unwrap();
    let hops = NextHops::shortest(&topology).unwrap();
    for seed in 0..3 {
        let pairs = demand::permutation(&hosts(&topology), seed).unwrap();
        let bounds =
            ConcurrentFlow { gap: 0.1, phases_max: 5000 }.solve(&topology, &graph, &pairs, &mut Unwatched);
        assert!(bounds.upper <= 1.1 * bounds.lower && bounds.upper <= 1e9, "{bounds:?}");
        let short = ConcurrentFlow { gap: 1e-6, phases_max: 3 };
        let short = short.solve(&topology, &graph, &pairs, &mut Unwatched);
        assert!(short.phases == 3 && short.upper > 1.01 * short.lower, "{short:?}");
        assert!(short.lower <= bounds.upper && bounds.lower <= short.upper, "{short:?} and {bounds:?}");
        let paths = routes::ecmp(&topology, &hops, &pairs, seed);
        let rates = MaxMin::default().solve(&capacities(&topology), Flows::equal(&paths)).unwrap();
        assert!(rates.iter().copied().fold(f64::INFINITY, f64::min) <= bounds.upper);
    }
}

#[test]
fn a_pair_without_a_path_has_no_rate() {
    let mut topology = Topology::new();
    let ends: Vec<NodeId> = (0..2)
        .map(|i| {
            let switch = topology.add_node(format!("s{i}"), NodeKind::Switch, None);
            let host = topology.add_node(format!("h{i}"), NodeKind::Host, None);
            topology.add_link(host, switch, gbps(1));
            host
        })
        .collect();
    let graph = SwitchGraph::new(&topology).unwrap();
    let bounds = ConcurrentFlow::default().solve(
        &topology,
        &graph,
        &[Pair { from: ends[0], to: ends[1] }],
        &mut Unwatched,
    );
    assert_eq!((bounds.lower, bounds.upper), (0.0, 0.0));
}

#[test]
fn a_report_sums_up() {
    let paths: Paths = [vec![PortId(0)], vec![PortId(0), PortId(1)], vec![PortId(1)]].into_iter().collect();
    let report = Report::new(&[10.0, 8.0, 0.0], &paths, vec![2.0, 4.0, 3.0], 6);
    assert_eq!(report.utilisation, [0.6, 0.875, 0.0]);
    assert!((report.throughput - 1.5).abs() < 1e-12);
}

#[test]
fn all_to_all_through_one_switch_is_fair() {
    let topology = leaf_spine(1, 1, 10, gbps(1), gbps(1)).unwrap();
    let pairs = demand::all_to_all(&hosts(&topology)).unwrap();
    let paths = routes::ecmp(&topology, &NextHops::shortest(&topology).unwrap(), &pairs, 1);
    let rates = MaxMin::default().solve(&capacities(&topology), Flows::equal(&paths)).unwrap();
    assert!(rates.iter().all(|rate| (rate - 1e9 / 9.0).abs() < 1e-3), "{rates:?}");
}

/// Longer routes are offered too; a chooser forgets earlier demands.
#[test]
fn slack_offers_longer_routes() {
    let topology = small_jellyfish();
    let graph = SwitchGraph::new(&topology).unwrap();
    let pairs = demand::skewed(&hosts(&topology), 0.5, 2).unwrap();
    for tables in plans(&topology, &graph) {
        for choice in [VlanChoice::Random, VlanChoice::BestOfTwo, VlanChoice::LeastLoaded { passes: 2 }] {
            let [short, long] = [0, 1].map(|slack| {
                let mut chooser = Chooser::new(&topology, &tables, slack, choice, 0);
                let first = chooser.choose_all(&pairs, 3).unwrap();
                assert_eq!(first.paths, chooser.choose_all(&pairs, 3).unwrap().paths);
                assert!(first.vlans.iter().all(|vlan| usize::from(*vlan) < tables.vlans().len()));
                first.paths
            });
            check_paths(&topology, &pairs, &long);
            let longer = |(short, long): (&[PortId], &[PortId])| long.len() - short.len();
            let longer: Vec<usize> = short.iter().zip(long.iter()).map(longer).collect();
            assert!(longer.iter().max() == Some(&1), "{longer:?}");
        }
    }
}
