//! Reproduces Fig. 14 of the TCP-Bolt paper (Stephens et al., INFOCOM 2014): throughput of deadlock-free
//! routes on a Jellyfish of 64-port switches, relative to ECMP, for random permutations of all hosts.
//!
//! The paper does not state how many ports of a switch lead to hosts. Reading B gives network and host ports
//! the ratio of the bisection (1:1 means 32 and 32); reading A uses Bollobás' bound for the bisection of a
//! random regular graph, n (r / 4 - sqrt(r ln 2) / 2) = n h / 2 / ratio. Both readings have about 7,200
//! hosts.
//!
//! Usage: `fig14 [PERMUTATIONS [SWITCHES NETWORK_PORTS HOST_PORTS]]`, by default 20 permutations and all six
//! settings; the other three numbers select one Jellyfish instead. The output is CSV. `relative` is the
//! throughput relative to ECMP with the same permutation; `seconds` is the total time of a row: plan, choice
//! of routes and rates of all permutations.

use pauseframe_flowlevel::demand::{self, Pair};
use pauseframe_flowlevel::routes::{self, VlanChoice};
use pauseframe_flowlevel::{Flows, MaxMin, Paths, Report, capacities};
use pauseframe_routing::{
    ForwardingTables, NextHops, OrderPair, Packing, RoutingEngine, SpanningTrees, UpDown, VlanSets,
};
use pauseframe_topology::generate::{Jellyfish, jellyfish};
use pauseframe_topology::{Channel, SwitchGraph, Topology};
use pauseframe_units::{BitRate, NodeId, Span};
use std::error::Error;
use std::time::Instant;

/// Settings: (reading of the paper, split, network ports, host ports, switches).
const SETTINGS: [(&str, &str, u32, u32, u32); 6] = [
    ("B", "1:1", 32, 32, 225),
    ("B", "1:2", 21, 43, 167),
    ("B", "1:5", 11, 53, 136),
    ("A", "1:1", 46, 18, 400),
    ("A", "1:2", 37, 27, 267),
    ("A", "1:5", 24, 40, 180),
];

const GRAPH_SEED: u64 = 1;
const PLAN_SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let permutations: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let size: Vec<u32> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    let settings = match size[..] {
        [] => SETTINGS.to_vec(),
        [switches, network, host] => vec![("", "", network, host, switches)],
        _ => return Err("usage: fig14 [PERMUTATIONS [SWITCHES NETWORK_PORTS HOST_PORTS]]".into()),
    };
    let mut out = csv::Writer::from_writer(std::io::stdout());
    out.write_record([
        "reading",
        "split",
        "hosts",
        "engine",
        "choice",
        "lanes",
        "vlans",
        "permutations",
        "throughput_mean",
        "relative_mean",
        "relative_min",
        "relative_max",
        "seconds",
    ])?;
    for (reading, split, network_ports, hosts_per_switch, switches) in settings {
        let size = Jellyfish { switches, network_ports, hosts_per_switch };
        let setting = Setting::new(size, permutations)?;
        let start = Instant::now();
        let ecmp = setting.ecmp()?;
        let labels = [reading, split];
        out.write_record(setting.row(labels, ["ecmp", ""], None, &ecmp, &ecmp, start))?;
        for (name, engine, choices) in engines() {
            let planning = Instant::now();
            let tables = engine.plan(&setting.topology, &setting.graph)?;
            let sets = VlanSets::of(&tables, 0);
            let planned = planning.elapsed();
            for (choice, how) in choices {
                // The time of every row includes the plan that it shares.
                let start = Instant::now().checked_sub(planned).ok_or("the clock starts too late")?;
                let throughput = setting.planned(&tables, &sets, *how)?;
                out.write_record(setting.row(
                    labels,
                    [name, choice],
                    Some(&tables),
                    &throughput,
                    &ecmp,
                    start,
                ))?;
                out.flush()?;
            }
        }
    }
    Ok(())
}

type Choices = &'static [(&'static str, VlanChoice)];

fn engines() -> Vec<(&'static str, Box<dyn RoutingEngine>, Choices)> {
    const RANDOM: Choices = &[("random", VlanChoice::Random)];
    const BY_LOAD: Choices = &[
        ("random", VlanChoice::Random),
        ("best_of_two", VlanChoice::BestOfTwo),
        ("least_loaded", VlanChoice::LeastLoaded { passes: 2 }),
    ];
    let edst = |packing| SpanningTrees { lanes: 8, trees_per_lane: None, packing, seed: PLAN_SEED };
    let pair = |vlans| OrderPair { lanes: 2, vlans, seed: PLAN_SEED, ..OrderPair::default() };
    vec![
        ("edst_heuristic", Box::new(edst(Packing::RandomKruskal)), RANDOM),
        ("edst_exact", Box::new(edst(Packing::Exact)), RANDOM),
        ("up_down", Box::new(UpDown { vlans: 8, root: None, seed: PLAN_SEED }), RANDOM),
        ("order_pair", Box::new(pair(2)), RANDOM),
        ("order_pair", Box::new(pair(16)), BY_LOAD),
    ]
}

/// One Jellyfish and the permutations on it.
struct Setting {
    topology: Topology,
    graph: SwitchGraph,
    capacity: Vec<f64>,
    hosts: usize,
    demands: Vec<Vec<Pair>>,
}

impl Setting {
    fn new(size: Jellyfish, permutations: u64) -> Result<Setting, Box<dyn Error>> {
        let channel = Channel { rate: BitRate::gbps(1), delay: Span::ZERO };
        let topology = jellyfish(size, GRAPH_SEED, channel, channel)?;
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let demands = (1..=permutations).map(|seed| demand::permutation(&hosts, seed));
        Ok(Setting {
            graph: SwitchGraph::new(&topology)?,
            capacity: capacities(&topology),
            hosts: hosts.len(),
            demands: demands.collect::<Result<_, _>>()?,
            topology,
        })
    }

    /// Throughput of each permutation, as a fraction of the hosts' line rate.
    fn throughput(&self, paths: &Paths) -> Result<f64, Box<dyn Error>> {
        let rates = MaxMin::default().solve(&self.capacity, Flows::equal(paths))?;
        Ok(Report::new(&self.capacity, paths, rates, self.hosts).throughput / 1e9)
    }

    fn ecmp(&self) -> Result<Vec<f64>, Box<dyn Error>> {
        let hops = NextHops::shortest(&self.topology)?;
        let demands = self.demands.iter().zip(1..);
        demands.map(|(d, seed)| self.throughput(&routes::ecmp(&self.topology, &hops, d, seed))).collect()
    }

    fn planned(
        &self,
        tables: &ForwardingTables,
        sets: &VlanSets,
        choice: VlanChoice,
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let demands = self.demands.iter().zip(1..);
        demands
            .map(|(d, seed)| {
                self.throughput(&routes::planned(&self.topology, tables, sets, d, choice, seed)?)
            })
            .collect()
    }

    fn row(
        &self,
        [reading, split]: [&str; 2],
        [engine, choice]: [&str; 2],
        tables: Option<&ForwardingTables>,
        throughput: &[f64],
        ecmp: &[f64],
        start: Instant,
    ) -> Vec<String> {
        let relative = || throughput.iter().zip(ecmp).map(|(ours, ecmp)| ours / ecmp);
        let count = throughput.len() as f64;
        let mean = throughput.iter().sum::<f64>() / count;
        let figures = [
            mean,
            relative().sum::<f64>() / count,
            relative().fold(f64::INFINITY, f64::min),
            relative().fold(0.0, f64::max),
            start.elapsed().as_secs_f64(),
        ];
        let counts = [tables.map_or(1, ForwardingTables::lanes), tables.map_or(0, ForwardingTables::vlans)];
        let names = [reading, split, &self.hosts.to_string(), engine, choice].map(str::to_owned);
        let counts = counts.map(|count| count.to_string());
        let figures = figures.map(|figure| format!("{figure:.4}"));
        [&names[..], &counts, &[throughput.len().to_string()], &figures].concat()
    }
}
