//! Maximum concurrent flow: a lower and an upper bound of the largest rate that all pairs can have
//! simultaneously if every flow may be split over all paths.
//!
//! The algorithm is by Garg and Könemann (FOCS 1998), in the form of Fleischer (SIAM Journal on Discrete
//! Mathematics 2000): links have lengths, flow is sent along shortest paths, and flow on a link increases the
//! length of the link by a small factor. All demands of one source are sent along one shortest-path tree
//! (Karakostas, SODA 2002). Hosts count as part of their switch, because their own links bound the rate
//! separately and exactly.
//!
//! The bounds are valid after any number of phases. The lower bound is the flow sent up to now, divided by
//! the largest overload of a link. By duality, the upper bound is the sum of capacity times length, divided
//! by the sum of demand times distance; lengths only grow, so distances from any time of a phase are valid
//! for the lengths at its end. The papers choose a fixed step, which depends on the wanted gap. This
//! implementation starts with a large step, which is halved repeatedly, each step for twice as many phases.
//! Halving keeps the lengths and discards the flow, because it was sent under worse lengths. On a Jellyfish
//! of 7,200 hosts a gap of 5 % took 171 phases; with a fixed step of 0.5 the gap was still 11 % after 500
//! phases.
//!
//! The optimum bounds the rate of the *slowest* flow under any routing, and therefore the mean rate if all
//! rates are equal. Unequal rates can have a higher mean.

use crate::demand::Pair;
use pauseframe_routing::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::PortId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Termination criteria for the bounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConcurrentFlow {
    /// Stop when the relative difference of the upper and the lower bound is at most this value, such as
    /// 0.05.
    pub gap: f64,
    /// Stop after this number of phases. A phase computes at least one shortest-path tree for each source.
    pub phases_max: usize,
}

impl Default for ConcurrentFlow {
    /// A gap of five percent, and at most 10,000 phases.
    fn default() -> ConcurrentFlow {
        ConcurrentFlow { gap: 0.05, phases_max: 10_000 }
    }
}

impl ConcurrentFlow {
    /// Stops at this gap. The number of phases grows with the square of the inverse gap, and so does the
    /// limit.
    pub fn within(gap: f64) -> ConcurrentFlow {
        let usual = ConcurrentFlow::default();
        let more = (usual.gap / gap).powi(2).max(1.0);
        ConcurrentFlow { gap, phases_max: (usual.phases_max as f64 * more) as usize }
    }
}

/// Bounds of the rate that all pairs can have simultaneously, in bits per second for each pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Lower bound of the rate: this rate is possible.
    pub lower: f64,
    /// Upper bound of the rate: no higher rate is possible.
    pub upper: f64,
    /// Number of phases; zero if the hosts' links alone determine the rate.
    pub phases: usize,
}

impl ConcurrentFlow {
    /// Computes bounds of the rate that every pair can have simultaneously. If a pair has no path the rate is
    /// zero; without pairs it is infinite. Reports the progress to `watch`; if `watch` stops the computation,
    /// the result contains the bounds reached.
    ///
    /// # Panics
    /// If a pair names a node that is not a host of `graph`.
    pub fn solve(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        demand: &[Pair],
        watch: &mut dyn Watch,
    ) -> Bounds {
        let hosts = host_bound(topology, graph, demand);
        let sources = by_source(graph, demand);
        if sources.is_empty() || hosts == 0.0 {
            return Bounds { lower: hosts, upper: hosts, phases: 0 };
        }
        let mut lengths = Lengths::new(topology, graph);
        let Some(scale) = lengths.rough_bound(&sources) else {
            return Bounds { lower: 0.0, upper: 0.0, phases: 0 };
        };
        let mut bounds = Bounds { lower: 0.0, upper: scale.min(hosts), phases: 0 };
        let (mut step, mut since, mut window) = (0.5, 0_u32, 16);
        while bounds.upper > bounds.lower * (1.0 + self.gap) && bounds.phases < self.phases_max {
            if watch.step("bounding", bounds.phases as u64, 0).is_err() {
                break;
            }
            let distance = lengths.phase(&sources, scale, step);
            since += 1;
            bounds.phases += 1;
            bounds.upper = bounds.upper.min(lengths.volume() / distance);
            bounds.lower = bounds.lower.max((f64::from(since) * scale / lengths.overload()).min(hosts));
            if since == window {
                (since, window, step) = (0, window.saturating_mul(2), step / 2.0);
                lengths.forget_flow();
            }
        }
        bounds.lower = bounds.lower.min(bounds.upper);
        bounds
    }
}

/// The bound that the links of the hosts impose.
fn host_bound(topology: &Topology, graph: &SwitchGraph, demand: &[Pair]) -> f64 {
    let mut flows = BTreeMap::<PortId, u32>::new();
    for pair in demand.iter().filter(|pair| pair.from != pair.to) {
        *flows.entry(graph.uplink(pair.from)).or_default() += 1;
        *flows.entry(graph.uplink(pair.to).reverse()).or_default() += 1;
    }
    let shares =
        flows.into_iter().map(|(port, flows)| topology.channel(port).rate.0 as f64 / f64::from(flows));
    shares.fold(f64::INFINITY, f64::min)
}

/// The demands from one switch.
#[derive(Clone, Debug)]
struct Source {
    switch: u32,
    /// Pairs (destination switch, number of host pairs).
    to: Vec<(u32, f64)>,
}

/// Counts the pairs of hosts by their switches, without pairs at the same switch.
fn by_source(graph: &SwitchGraph, demand: &[Pair]) -> Vec<Source> {
    let mut counts = BTreeMap::<u32, BTreeMap<u32, f64>>::new();
    for pair in demand {
        let [from, to] =
            [pair.from, pair.to].map(|host| graph.attachment(host).expect("demands are between hosts"));
        if from != to {
            *counts.entry(from).or_default().entry(to).or_default() += 1.0;
        }
    }
    counts.into_iter().map(|(switch, to)| Source { switch, to: to.into_iter().collect() }).collect()
}

/// An arc with a capacity above zero.
#[derive(Clone, Copy, Debug)]
struct Arc {
    from: u32,
    to: u32,
    capacity: f64,
    length: f64,
    flow: f64,
}

#[derive(Clone, Debug)]
struct Lengths {
    /// The arcs from switch `s` are `arcs[first[s]..first[s + 1]]`.
    first: Vec<u32>,
    arcs: Vec<Arc>,
    distance: Vec<f64>,
    /// For each switch, the arc over which it was reached.
    via: Vec<u32>,
    /// Switches in the order in which they were reached.
    order: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// For each switch, the flow that ends at the switch or continues from there.
    through: Vec<f64>,
}

impl Lengths {
    fn new(topology: &Topology, graph: &SwitchGraph) -> Lengths {
        let (mut first, mut arcs) = (vec![0], Vec::new());
        for from in 0..graph.len() as u32 {
            for arc in graph.arcs(from) {
                let capacity = topology.channel(arc.port).rate.0 as f64;
                if capacity > 0.0 {
                    arcs.push(Arc { from, to: arc.to, capacity, length: 1.0 / capacity, flow: 0.0 });
                }
            }
            first.push(arcs.len() as u32);
        }
        Lengths {
            first,
            arcs,
            distance: vec![f64::INFINITY; graph.len()],
            via: vec![0; graph.len()],
            order: Vec::with_capacity(graph.len()),
            heap: BinaryHeap::new(),
            through: vec![0.0; graph.len()],
        }
    }

    /// The upper bound for the initial lengths; none if a pair has no path.
    fn rough_bound(&mut self, sources: &[Source]) -> Option<f64> {
        let distance: f64 = sources.iter().map(|source| self.distances(source)).sum();
        Some(self.volume() / distance).filter(|_| distance.is_finite())
    }

    /// Sum over all arcs of capacity times length.
    fn volume(&self) -> f64 {
        self.arcs.iter().map(|arc| arc.capacity * arc.length).sum()
    }

    /// The largest ratio of flow to capacity of an arc.
    fn overload(&self) -> f64 {
        self.arcs.iter().map(|arc| arc.flow / arc.capacity).fold(0.0, f64::max)
    }

    /// Sends `scale` for every pair; returns the sum of demand times distance, with lower bounds of the
    /// distances at the end of the phase.
    fn phase(&mut self, sources: &[Source], scale: f64, step: f64) -> f64 {
        // Only ratios of lengths matter; scaling keeps the lengths within the range of `f64`.
        let longest = self.arcs.iter().map(|arc| arc.length * arc.capacity).fold(0.0, f64::max);
        for arc in &mut self.arcs {
            arc.length /= longest;
        }
        sources.iter().map(|source| self.send(source, scale, step)).sum()
    }

    fn send(&mut self, source: &Source, scale: f64, step: f64) -> f64 {
        let demand_distance = self.distances(source);
        let mut left = scale;
        loop {
            self.through.fill(0.0);
            for (to, pairs) in &source.to {
                self.through[*to as usize] = pairs * left;
            }
            let mut part: f64 = 1.0;
            for at in self.order[1..].iter().rev() {
                let (flow, arc) = (self.through[*at as usize], &self.arcs[self.via[*at as usize] as usize]);
                self.through[arc.from as usize] += flow;
                if flow > arc.capacity {
                    part = part.min(arc.capacity / flow);
                }
            }
            for at in &self.order[1..] {
                let flow = self.through[*at as usize] * part;
                let arc = &mut self.arcs[self.via[*at as usize] as usize];
                arc.flow += flow;
                arc.length *= 1.0 + step * flow / arc.capacity;
            }
            left *= 1.0 - part;
            if part >= 1.0 {
                return demand_distance;
            }
            self.distances(source);
        }
    }

    /// Computes shortest paths from a source to all switches (Dijkstra); returns the sum of demand times
    /// distance.
    fn distances(&mut self, source: &Source) -> f64 {
        self.distance.fill(f64::INFINITY);
        self.order.clear();
        self.heap.clear();
        self.distance[source.switch as usize] = 0.0;
        self.heap.push(Reverse((0, source.switch)));
        while let Some(Reverse((key, at))) = self.heap.pop() {
            let here = f64::from_bits(key);
            if here > self.distance[at as usize] {
                continue;
            }
            self.order.push(at);
            for arc in self.first[at as usize]..self.first[at as usize + 1] {
                let Arc { to, length, .. } = self.arcs[arc as usize];
                let there = here + length;
                if there < self.distance[to as usize] {
                    self.distance[to as usize] = there;
                    self.via[to as usize] = arc;
                    self.heap.push(Reverse((there.to_bits(), to)));
                }
            }
        }
        source.to.iter().map(|(to, pairs)| pairs * self.distance[*to as usize]).sum()
    }

    fn forget_flow(&mut self) {
        for arc in &mut self.arcs {
            arc.flow = 0.0;
        }
    }
}
