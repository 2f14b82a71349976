//! Jellyfish: switches joined as a random regular graph (Singla, Hong, Popa, Godfrey, NSDI 2012, section 3).
//!
//! The construction follows the paper: join random pairs of switches that have a free port and no link to
//! each other; when no such pair is left, remove a random link and connect its ends to free ports. Beyond the
//! paper, crossing two links joins the parts of a graph that is not connected. If the total number of ports is
//! odd, one port stays free. Left out: the growth of an existing Jellyfish.

use super::{Family, GenerateError, add_switches_with_hosts, at_least_one, bound_links, refuse};
use crate::{Channel, Topology};
use pauseframe_schema::table;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const FAMILY: &str = "jellyfish";

table! {
    /// A random regular graph (Singla et al., NSDI 2012): each switch has `network_ports` links to others
    pub struct JellyfishSpec {
        /// Switches
        switches: u32 = required();
        /// Ports of each switch that lead to other switches
        network_ports: u32 = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = required();
        /// Draws the links
        seed: u64 = or(1);
    }
    pub fn try_read(t);
}

impl Family for JellyfishSpec {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        let &JellyfishSpec { switches, network_ports, hosts_per_switch, seed } = self;
        let size = Jellyfish { switches, network_ports, hosts_per_switch };
        jellyfish(size, seed, host, fabric)
    }
}

/// Number of attempts at a random step before the generator considers the step impossible.
const TRIES: usize = 1000;

/// The size of a Jellyfish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jellyfish {
    /// Number of switches.
    pub switches: u32,
    /// Ports of each switch that lead to other switches.
    pub network_ports: u32,
    /// Number of hosts at each switch.
    pub hosts_per_switch: u32,
}

/// Generates a connected random regular graph. Names: `s0`.. for switches; `host0`.. for hosts, in the order
/// of their switches.
///
/// # Errors
/// If a number is zero, the switches cannot have so many neighbours, or the fabric is too large.
pub fn jellyfish(
    size: Jellyfish,
    seed: u64,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    let Jellyfish { switches, network_ports, hosts_per_switch } = size;
    at_least_one(FAMILY, "switches", switches)?;
    at_least_one(FAMILY, "hosts_per_switch", hosts_per_switch)?;
    if network_ports >= switches || network_ports < switches.clamp(1, 3) - 1 {
        let allowed = "it must be at least 2 (1 for two switches) and less than the number of switches";
        return refuse(FAMILY, "network_ports", network_ports.to_string(), allowed);
    }
    let [n, r, h] = [switches, network_ports, hosts_per_switch].map(u64::from);
    bound_links(FAMILY, &[&[n, h + r.div_ceil(2)]])?;

    let mut rng = Pcg64::seed_from_u64(seed);
    let Some(graph) = (0..20).find_map(|_| RandomGraph::regular(switches, network_ports, &mut rng)) else {
        return refuse(FAMILY, "seed", seed.to_string(), "it led to no connected graph, try another one");
    };
    let mut topology = Topology::new();
    let nodes = add_switches_with_hosts(&mut topology, switches, hosts_per_switch, host_link);
    for [a, b] in graph.edges {
        topology.add_link(nodes[a as usize], nodes[b as usize], fabric_link);
    }
    Ok(topology)
}

/// A simple graph under construction.
struct RandomGraph {
    /// For each switch, its number of ports without a link.
    free: Vec<u32>,
    neighbours: Vec<Vec<u32>>,
    edges: Vec<[u32; 2]>,
}

impl RandomGraph {
    fn unlinked(switches: u32, ports: u32) -> RandomGraph {
        let count = switches as usize;
        RandomGraph { free: vec![ports; count], neighbours: vec![Vec::new(); count], edges: Vec::new() }
    }

    /// Generates a connected graph in which every switch has `ports` neighbours; if the total number of ports
    /// is odd, one switch has one neighbour less.
    fn regular(switches: u32, ports: u32, rng: &mut Pcg64) -> Option<RandomGraph> {
        let mut graph = RandomGraph::unlinked(switches, ports);
        graph.join_free_ports(rng);
        while let Some([p, q]) = graph.two_free_ports() {
            if !graph.open_link(p, q, rng) {
                return None;
            }
        }
        graph.connect(rng).then_some(graph)
    }

    fn adjacent(&self, a: u32, b: u32) -> bool {
        a == b || self.neighbours[a as usize].contains(&b)
    }

    fn join(&mut self, a: u32, b: u32) {
        for (one, other) in [(a, b), (b, a)] {
            self.free[one as usize] = self.free[one as usize].saturating_sub(1);
            self.neighbours[one as usize].push(other);
        }
        self.edges.push([a, b]);
    }

    fn cut(&mut self, edge: usize) -> [u32; 2] {
        let [a, b] = self.edges.swap_remove(edge);
        for (one, other) in [(a, b), (b, a)] {
            self.free[one as usize] += 1;
            let list = &mut self.neighbours[one as usize];
            let place =
                list.iter().position(|n| *n == other).expect("an edge is in both lists of neighbours");
            list.swap_remove(place);
        }
        [a, b]
    }

    /// Joins random pairs of switches until no two switches that have free ports lack a link to each other.
    fn join_free_ports(&mut self, rng: &mut Pcg64) {
        let mut open: Vec<u32> = (0..self.free.len() as u32).filter(|s| self.free[*s as usize] > 0).collect();
        while open.len() > 1 {
            let Some([a, b]) = self.pair_to_join(&open, rng) else { return };
            self.join(a, b);
            open.retain(|switch| self.free[*switch as usize] > 0);
        }
    }

    /// Draws a random pair of switches from `open` that have no link to each other.
    fn pair_to_join(&self, open: &[u32], rng: &mut Pcg64) -> Option<[u32; 2]> {
        for _ in 0..32 {
            let pair = [0; 2].map(|_: u32| open[rng.random_range(0..open.len())]);
            if !self.adjacent(pair[0], pair[1]) {
                return Some(pair);
            }
        }
        let pairs = open.iter().enumerate().flat_map(|(i, a)| open[i + 1..].iter().map(move |b| [*a, *b]));
        pairs.filter(|[a, b]| !self.adjacent(*a, *b)).collect::<Vec<_>>().choose(rng).copied()
    }

    fn two_free_ports(&self) -> Option<[u32; 2]> {
        let mut ports =
            (0..self.free.len() as u32).flat_map(|s| (0..self.free[s as usize].min(2)).map(move |_| s));
        Some([ports.next()?, ports.next()?])
    }

    /// Replaces a random link x-y by the links p-x and q-y; returns false if no suitable link was found.
    fn open_link(&mut self, p: u32, q: u32, rng: &mut Pcg64) -> bool {
        for _ in 0..TRIES {
            if self.edges.is_empty() {
                return false;
            }
            let edge = rng.random_range(0..self.edges.len());
            let [x, y] = self.edges[edge];
            if ![x, y].contains(&p) && ![x, y].contains(&q) && !self.adjacent(p, x) && !self.adjacent(q, y) {
                self.cut(edge);
                self.join(p, x);
                self.join(q, y);
                return true;
            }
        }
        false
    }

    /// Joins the connected parts of the graph by crossing links: a-b and c-d become a-c and b-d; returns
    /// false if the graph stays disconnected.
    fn connect(&mut self, rng: &mut Pcg64) -> bool {
        let mut parts = self.parts();
        for _ in 0..TRIES {
            if parts.0 == 1 {
                return true;
            }
            if self.edges.is_empty() {
                return false;
            }
            let [one, other] = [0; 2].map(|_: usize| rng.random_range(0..self.edges.len()));
            if parts.1[self.edges[one][0] as usize] == parts.1[self.edges[other][0] as usize] {
                continue;
            }
            let [a, b] = self.cut(one.max(other));
            let [c, d] = self.cut(one.min(other));
            self.join(a, c);
            self.join(b, d);
            let now = self.parts();
            if now.0 < parts.0 {
                parts = now;
            } else {
                self.cut(self.edges.len() - 1);
                self.cut(self.edges.len() - 1);
                self.join(a, b);
                self.join(c, d);
            }
        }
        parts.0 == 1
    }

    /// Returns the number of connected parts, and the part of each switch.
    fn parts(&self) -> (u32, Vec<u32>) {
        let mut part = vec![u32::MAX; self.free.len()];
        let mut count = 0;
        for start in 0..part.len() {
            if part[start] != u32::MAX {
                continue;
            }
            part[start] = count;
            let mut waiting = vec![start];
            while let Some(at) = waiting.pop() {
                for next in &self.neighbours[at] {
                    if part[*next as usize] == u32::MAX {
                        part[*next as usize] = count;
                        waiting.push(*next as usize);
                    }
                }
            }
            count += 1;
        }
        (count, part)
    }
}
