//! Max-min fair rates of a static demand.

use super::source::Ports;
use super::{Demand, Ways};
use pauseframe_fabric::HostPortSettings;
use pauseframe_fabric::host_ports::bond::{FlowAddresses, FlowKind};
use pauseframe_fabric::path_hash::{PathHash, PathHashSettings};
use pauseframe_flowlevel::demand::Pair;
use pauseframe_flowlevel::routes::{self, Chooser};
use pauseframe_flowlevel::{Bounds, ConcurrentFlow, Flows, MaxMin, Paths, Report, capacities};
use pauseframe_results::RunError;
use pauseframe_routing::watch::Watch;
use pauseframe_routing::{FlowsByNextHop, NextHops};
use pauseframe_topology::{SwitchGraph, Topology};

/// Rates of all pairs of a static demand, and the bound over all routings.
#[derive(Clone, Debug, Default)]
pub struct Steady {
    /// The seed for drawing demand and routes.
    pub seed: u64,
    /// The sending and receiving host of each pair, or the nodes of the ports that it uses.
    pub pairs: Vec<Pair>,
    /// The ports on the path of each pair.
    pub paths: Paths,
    /// The VLAN of each pair by index, if forwarding tables are used.
    pub vlans: Option<Vec<u16>>,
    /// The rates of the pairs, and the utilisation of the links.
    pub report: Report,
    /// The largest rate that any routing could give every pair at once, if requested.
    pub bounds: Option<Bounds>,
}

impl Steady {
    /// By switch and its equal next hops: the pairs that take each; empty with forwarding tables.
    ///
    /// # Errors
    /// If some pairs of hosts have no path.
    pub(super) fn flows_by_next_hop(&self, topology: &Topology) -> Result<FlowsByNextHop, RunError> {
        let mut flows = FlowsByNextHop::new();
        if self.vlans.is_none() {
            let hops = NextHops::shortest(topology).map_err(|error| RunError::Build(error.to_string()))?;
            self.paths.iter().for_each(|path| hops.count_choices(topology, path, &mut flows));
        }
        Ok(flows)
    }
}

/// What hosts and switches choose by.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    /// Ports of hosts that have several.
    pub ports: HostPortSettings,
    /// Next hops of equal cost.
    pub hash: &'a PathHashSettings,
}

/// Routing state that is computed once for all seeds.
enum Router<'a> {
    Ecmp(Box<NextHops>),
    Tables(Box<Chooser<'a>>),
}

/// The paths of pairs of hosts by the hash of the switches; `pairs` are the ports that they use.
fn hashed(graph: (&Topology, &NextHops), hash: &PathHash, hosts: &[Pair], pairs: &[Pair]) -> Paths {
    let (mut paths, mut path) = (Paths::new(), Vec::new());
    for (flow, (hosts, pair)) in (0..).zip(hosts.iter().zip(pairs)) {
        let addresses = FlowAddresses::of_flow([hosts.from, hosts.to], flow, true, FlowKind::Tcp);
        hash.path(graph, [pair.from, pair.to], flow, &addresses, &mut path);
        paths.push(path.iter().copied());
    }
    paths
}

/// Computes the rates for each of `seeds`; a seed draws the demand and the routes. With `bound`, also
/// computes bounds on the rate of the best routing; `bound` is their relative gap.
///
/// # Errors
/// If the routing or the demand does not fit the topology, or `watch` stops the computation.
pub fn steady(
    topology: &Topology,
    ways: Ways,
    choices: Choices,
    demand: Demand,
    seeds: &[u64],
    bound: Option<f64>,
    watch: &mut dyn Watch,
) -> Result<Vec<Steady>, RunError> {
    let wrong = |error: &dyn std::error::Error| RunError::Build(error.to_string());
    let graph = SwitchGraph::new(topology).map_err(|error| wrong(&error))?;
    let mut router = match ways {
        Ways::Ecmp => Router::Ecmp(Box::new(NextHops::shortest(topology).map_err(|error| wrong(&error))?)),
        Ways::Tables { tables, choice, slack, assigned } => {
            let chooser = Chooser::new(topology, tables, slack, choice, 0).with_assigned(assigned);
            Router::Tables(Box::new(chooser))
        }
    };
    let capacity = capacities(topology);
    let hosts = topology.hosts().count();
    let mut solver = MaxMin::default();
    let mut all = Vec::with_capacity(seeds.len());
    for (done, seed) in seeds.iter().enumerate() {
        watch.step("sharing links", done as u64, seeds.len() as u64).map_err(|error| wrong(&error))?;
        let of_hosts =
            demand.pairs(topology, &graph, *seed).map_err(|error| RunError::Input(error.to_string()))?;
        let mut pairs = of_hosts.clone();
        if let Some(mut ports) = Ports::new(topology, choices.ports, *seed)? {
            let flows = (0..).zip(&of_hosts);
            pairs =
                flows.map(|(flow, pair)| ports.open(*pair, flow, FlowKind::Tcp, [true, false])[0]).collect();
        }
        let (paths, vlans) = match &mut router {
            Router::Ecmp(hops) if choices.hash.is_ideal() => {
                (routes::ecmp(topology, hops, &pairs, *seed), None)
            }
            Router::Ecmp(hops) => {
                let hash = PathHash::new(topology, hops, choices.hash.clone(), *seed);
                (hashed((topology, hops), &hash, &of_hosts, &pairs), None)
            }
            Router::Tables(chooser) => {
                let chosen = chooser.choose_all(&pairs, *seed).map_err(|error| wrong(&error))?;
                (chosen.paths, Some(chosen.vlans))
            }
        };
        let rates = solver.solve(&capacity, Flows::equal(&paths)).map_err(|error| wrong(&error))?;
        let report = Report::new(&capacity, &paths, rates, hosts);
        let bounds = bound.map(|gap| ConcurrentFlow::within(gap).solve(topology, &graph, &pairs, watch));
        all.push(Steady { seed: *seed, pairs, paths, vlans, report, bounds });
    }
    Ok(all)
}
