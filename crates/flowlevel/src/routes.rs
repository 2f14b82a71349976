//! Assigns a path on a topology to each flow: by equal-cost multi-path, or by the VLANs of a plan.

use crate::Paths;
use crate::demand::Pair;
use pauseframe_routing::NextHops;
use pauseframe_routing::verify::{RouteLengths, Tables};
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, PortId};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;
use thiserror::Error;

/// The rule that chooses a flow's VLAN among the VLANs offered to its pair of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VlanChoice {
    /// A random VLAN, with equal probability.
    Random,
    /// The less loaded of two random VLANs, flow by flow.
    BestOfTwo,
    /// The least loaded VLAN, flow by flow; in each further pass every flow chooses again, given the choices
    /// of all other flows.
    LeastLoaded {
        /// Number of passes, at least one.
        passes: usize,
    },
}

/// No VLAN serves a pair of hosts.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no VLAN of the plan serves packets from {from:?} to {to:?}")]
pub struct NoVlan {
    /// The name of the source.
    pub from: String,
    /// The name of the destination.
    pub to: String,
}

/// Assigns one shortest path to each flow, with a random next hop at every switch, as a perfect hash of the
/// flow's headers would choose (RFC 2992).
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

/// The path of each flow, and the VLAN (by index) of the path.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The paths.
    pub paths: Paths,
    /// The VLANs.
    pub vlans: Vec<u16>,
}

/// By sender and receiver: a VLAN by its index.
pub type Assigned = BTreeMap<(NodeId, NodeId), u16>;

/// Chooses VLANs flow by flow and keeps track of the load.
///
/// The load of a port is its number of flows divided by its rate. The load of a path is the largest load of
/// its ports between switches; of two paths with equal load, the path with the smaller sum of loads is
/// preferred.
#[derive(Debug)]
pub struct Chooser<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    lengths: RouteLengths<'a>,
    slack: u16,
    choice: VlanChoice,
    /// The VLANs of pairs that do not choose.
    assigned: Option<&'a Assigned>,
    rng: Pcg64,
    /// The load that one flow adds to each port.
    per_flow: Vec<f64>,
    load: Vec<f64>,
    offered: Vec<u16>,
    /// The path chosen last, and a path to compare with it.
    best: Vec<PortId>,
    path: Vec<PortId>,
}

impl<'a> Chooser<'a> {
    /// Makes a chooser without load among the VLANs of `tables` whose routes have up to `slack` links more than
    /// the shortest route of any VLAN. Passes of `choice` after the first pass require calls of
    /// [`Chooser::leave`].
    pub fn new(
        topology: &'a Topology,
        tables: &'a Tables,
        slack: usize,
        choice: VlanChoice,
        seed: u64,
    ) -> Chooser<'a> {
        Chooser {
            topology,
            tables,
            lengths: RouteLengths::new(tables),
            slack: u16::try_from(slack).unwrap_or(u16::MAX),
            choice,
            assigned: None,
            rng: Pcg64::seed_from_u64(seed),
            per_flow: crate::capacities(topology).into_iter().map(|rate| 1.0 / rate).collect(),
            load: vec![0.0; topology.port_count()],
            offered: Vec::new(),
            best: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The same with the VLANs of some pairs; only other pairs choose.
    #[must_use]
    pub fn with_assigned(self, assigned: Option<&'a Assigned>) -> Chooser<'a> {
        Chooser { assigned, ..self }
    }

    /// Assigns one path to each flow of a demand, without the load of earlier flows.
    ///
    /// # Errors
    /// If no VLAN serves a pair.
    ///
    /// # Panics
    /// If a pair names a node that is not a host.
    pub fn choose_all(&mut self, demand: &[Pair], seed: u64) -> Result<Chosen, NoVlan> {
        self.rng = Pcg64::seed_from_u64(seed);
        self.load.fill(0.0);
        let passes = if let VlanChoice::LeastLoaded { passes } = self.choice { passes.max(1) } else { 1 };
        let mut chosen = Chosen::default();
        for pass in 0..passes {
            let before = std::mem::take(&mut chosen).paths;
            for (flow, pair) in demand.iter().enumerate() {
                if pass > 0 {
                    self.leave(before.of(flow));
                }
                let (vlan, path) = self.choose(*pair)?;
                chosen.paths.push(path.iter().copied());
                chosen.vlans.push(vlan);
            }
        }
        Ok(chosen)
    }

    /// Chooses VLAN and path of a new flow, and adds the flow to the load of the path.
    ///
    /// # Errors
    /// If no VLAN serves the pair.
    pub fn choose(&mut self, pair: Pair) -> Result<(u16, &[PortId]), NoVlan> {
        let assigned = self.assigned.and_then(|assigned| assigned.get(&(pair.from, pair.to)).copied());
        if let Some(vlan) = assigned
            && self.tables.carries(usize::from(vlan), pair.from, pair.to, &mut self.best)
        {
            for port in &self.best {
                self.load[port.0 as usize] += self.per_flow[port.0 as usize];
            }
            return Ok((vlan, &self.best));
        }
        self.lengths.vlans_between(pair.from, pair.to, self.slack, &mut self.offered);
        if self.offered.is_empty() {
            return Err(self.no_vlan(pair));
        }
        let count = self.offered.len();
        let drawn = self.rng.random_range(0..count);
        // The VLANs to compare, as steps from the VLAN that was drawn.
        let (tries, step) = match self.choice {
            VlanChoice::LeastLoaded { .. } => (count, 1),
            VlanChoice::BestOfTwo if count > 1 => (2, self.rng.random_range(1..count)),
            _ => (1, 0),
        };
        let mut least = None;
        for place in 0..tries {
            let vlan = self.offered[(drawn + place * step) % count];
            if !self.tables.carries(usize::from(vlan), pair.from, pair.to, &mut self.path) {
                return Err(self.no_vlan(pair));
            }
            let load = self.load_of(&self.path);
            if least.is_none_or(|(least, _)| load < least) {
                least = Some((load, vlan));
                std::mem::swap(&mut self.path, &mut self.best);
            }
            // Between hosts at the same switch, all VLANs are equivalent.
            if self.best.len() <= 2 {
                break;
            }
        }
        for port in &self.best {
            self.load[port.0 as usize] += self.per_flow[port.0 as usize];
        }
        Ok((least.map_or(0, |(_, vlan)| vlan), &self.best))
    }

    fn no_vlan(&self, pair: Pair) -> NoVlan {
        let [from, to] = [pair.from, pair.to].map(|host| self.topology.nodes()[host].name.clone());
        NoVlan { from, to }
    }

    /// Removes a flow on `path` from the load, when the flow ends or chooses again.
    pub fn leave(&mut self, path: &[PortId]) {
        for port in path {
            self.load[port.0 as usize] -= self.per_flow[port.0 as usize];
        }
    }

    /// The largest load of a port between switches if this flow is added, and the sum of these loads. The
    /// links of the hosts are the same in every VLAN.
    fn load_of(&self, path: &[PortId]) -> (f64, f64) {
        let fabric = path.get(1..path.len().saturating_sub(1)).unwrap_or(&[]);
        let loads = fabric.iter().map(|port| {
            let port = port.0 as usize;
            self.load[port] + self.per_flow[port]
        });
        loads.fold((0.0, 0.0), |(worst, sum), load| (load.max(worst), sum + load))
    }
}
