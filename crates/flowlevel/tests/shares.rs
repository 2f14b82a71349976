//! What plans of two lanes reach of ECMP: the sum of max-min fair rates, over ten random permutations.

use pauseframe_flowlevel::routes::{self, VlanChoice};
use pauseframe_flowlevel::{Flows, MaxMin, Paths, Report, capacities, demand};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::named;
use pauseframe_topology::routing::{
    Auto, Effort, ForwardingTables, NextHops, OrderPair, RoutingEngine, SwitchGraph, VlanSets,
};
use pauseframe_units::NodeId;

const PERMUTATIONS: u64 = 10;

fn planned(topology: &Topology, effort: Effort) -> ForwardingTables {
    let orders = OrderPair { effort, ..OrderPair::default() };
    Auto { orders }.plan(topology, &SwitchGraph::new(topology).unwrap()).unwrap()
}

/// The throughput under `plan` as a part of that under ECMP.
fn share(topology: &Topology, plan: &ForwardingTables) -> f64 {
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let capacity = capacities(topology);
    let throughput = |paths: &Paths| {
        let rates = MaxMin::default().solve(&capacity, Flows::equal(paths)).unwrap();
        Report::new(&capacity, paths, rates, hosts.len()).throughput
    };
    let (hops, sets) = (NextHops::shortest(topology).unwrap(), VlanSets::of(plan, 0));
    let (mut ecmp, mut ours) = (0.0, 0.0);
    for seed in 1..=PERMUTATIONS {
        let pairs = demand::permutation(&hosts, seed).unwrap();
        ecmp += throughput(&routes::ecmp(topology, &hops, &pairs, seed));
        let paths = routes::planned(topology, plan, &sets, &pairs, VlanChoice::Random, seed);
        ours += throughput(&paths.unwrap());
    }
    ours / ecmp
}

#[test]
fn balanced_trees_of_a_dragonfly_beat_ecmp() {
    // Nearly every pair has one shortest path or two, so what counts is that the trees share the links evenly.
    let topology = named("dragonfly:p=4,a=4,h=2,g=9").unwrap();
    let plan = planned(&topology, Effort::Best);
    let found = share(&topology, &plan);
    println!("dragonfly of 36 switches, effort best: {found:.4}");
    assert!(plan.lanes() == 2 && found >= 1.0, "{found}");
}
