//! Which path each flow takes on a topology: by equal-cost multi-path, or by the VLANs of a plan.

use crate::Paths;
use crate::demand::Pair;
use pauseframe_topology::Topology;
use pauseframe_topology::routing::{ForwardingTables, NextHops, RouteError, VlanSets};
use pauseframe_units::PortId;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thiserror::Error;

/// How a flow's VLAN is chosen among those that [`VlanSets`] offers to its pair of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VlanChoice {
    /// Any, with equal probability.
    Random,
    /// Two are drawn and the less loaded one is taken, flow by flow.
    BestOfTwo,
    /// The least loaded of all, flow by flow; in each further pass every flow chooses again, given all others.
    LeastLoaded {
        /// How many times each flow chooses, at least once.
        passes: usize,
    },
}

/// Why a flow has no path.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PathError {
    /// No VLAN serves the pair.
    #[error("no VLAN of the plan serves packets from {from:?} to {to:?}")]
    NoVlan {
        /// The name of the source.
        from: String,
        /// The name of the destination.
        to: String,
    },
    /// The tables lead nowhere.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// One shortest path for each flow, with a random next hop at every switch, as a perfect hash of its headers
/// would choose (RFC 2992).
///
/// # Panics
/// If a pair names a node that is not a host.
pub fn ecmp(topology: &Topology, hops: &NextHops, demand: &[Pair], seed: u64) -> Paths {
    let mut rng = Pcg64::seed_from_u64(seed);
    let (mut paths, mut path) = (Paths::new(), Vec::new());
    for pair in demand {
        hops.ecmp_path(topology, pair.from, pair.to, rng.next_u64(), |node| u64::from(node.0), &mut path);
        paths.push(path.iter().copied());
    }
    paths
}

/// One path for each flow through the tables of a plan, in a VLAN that `sets` offers to its pair.
///
/// The load of a port is the number of flows on it over its rate; a path is as loaded as its worst port
/// between switches, and of two alike the one with the smaller sum is better.
///
/// # Errors
/// If no VLAN serves a pair or the tables lead nowhere.
///
/// # Panics
/// If a pair names a node that is not a host.
pub fn planned(
    topology: &Topology,
    tables: &ForwardingTables,
    sets: &VlanSets,
    demand: &[Pair],
    choice: VlanChoice,
    seed: u64,
) -> Result<Paths, PathError> {
    let mut chooser = Chooser {
        topology,
        tables,
        sets,
        rng: Pcg64::seed_from_u64(seed),
        per_flow: crate::capacities(topology).into_iter().map(|rate| 1.0 / rate).collect(),
        load: vec![0.0; topology.port_count()],
        best: Vec::new(),
        path: Vec::new(),
    };
    let passes = if let VlanChoice::LeastLoaded { passes } = choice { passes.max(1) } else { 1 };
    let mut paths = Paths::new();
    for pass in 0..passes {
        let before = std::mem::take(&mut paths);
        for (flow, pair) in demand.iter().enumerate() {
            if pass > 0 {
                chooser.add_load(before.of(flow), -1.0);
            }
            chooser.choose(*pair, choice)?;
            chooser.add_load(&chooser.best.clone(), 1.0);
            paths.push(chooser.best.iter().copied());
        }
    }
    Ok(paths)
}

struct Chooser<'a> {
    topology: &'a Topology,
    tables: &'a ForwardingTables,
    sets: &'a VlanSets,
    rng: Pcg64,
    /// What one flow adds to the load of each port.
    per_flow: Vec<f64>,
    load: Vec<f64>,
    /// The path chosen last, and one to compare it with.
    best: Vec<PortId>,
    path: Vec<PortId>,
}

impl Chooser<'_> {
    /// Leaves the path of this flow in `best`.
    fn choose(&mut self, pair: Pair, choice: VlanChoice) -> Result<(), PathError> {
        let vlans = self.sets.between(pair.from, pair.to);
        if vlans.is_empty() {
            let [from, to] = [pair.from, pair.to].map(|host| self.topology.nodes()[host].name.clone());
            return Err(PathError::NoVlan { from, to });
        }
        let same_switch = self.sets.length(pair.from, pair.to) == Some(0);
        let drawn = self.rng.random_range(0..vlans.len());
        // The VLANs to compare, as places to go on from the one drawn.
        let (tries, step) = match choice {
            VlanChoice::LeastLoaded { .. } if !same_switch => (vlans.len(), 1),
            VlanChoice::BestOfTwo if vlans.len() > 1 => (2, self.rng.random_range(1..vlans.len())),
            _ => (1, 0),
        };
        let mut least = None;
        for place in 0..tries {
            let vlan = vlans[(drawn + place * step) % vlans.len()];
            self.tables.route(self.topology, usize::from(vlan), pair.from, pair.to, &mut self.path)?;
            let load = self.load_of(&self.path);
            if least.is_none_or(|least| load < least) {
                least = Some(load);
                std::mem::swap(&mut self.path, &mut self.best);
            }
        }
        Ok(())
    }

    /// The load of the worst port between switches with this flow added, and the sum of all of them. The links
    /// at the hosts are the same in every VLAN.
    fn load_of(&self, path: &[PortId]) -> (f64, f64) {
        let fabric = path.get(1..path.len().saturating_sub(1)).unwrap_or(&[]);
        let loads = fabric.iter().map(|port| {
            let port = port.0 as usize;
            self.load[port] + self.per_flow[port]
        });
        loads.fold((0.0, 0.0), |(worst, sum), load| (load.max(worst), sum + load))
    }

    fn add_load(&mut self, path: &[PortId], flows: f64) {
        for port in path {
            self.load[port.0 as usize] += flows * self.per_flow[port.0 as usize];
        }
    }
}
