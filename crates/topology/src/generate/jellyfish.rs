//! Jellyfish: switches joined as a random regular graph (Singla, Hong, Popa, Godfrey, NSDI 2012, section 3).
//!
//! The construction follows the paper: join random pairs of switches that have a free port and no link to
//! each other; when no such pair is left, remove a random link and connect its ends to free ports. Growth
//! uses the same link swap: each new switch is inserted into random links. Beyond the paper, crossing two
//! links joins the parts of a graph that is not connected. If the total number of ports is odd, one port
//! stays free.

use super::{Family, GenerateError, add_switches_with_hosts, at_least_one, bound_links, refuse};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;
use pauseframe_units::{IndexVec, NodeId};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, BTreeSet};

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

/// The size of a Jellyfish, or of an extension to one.
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

/// Returns a Jellyfish grown by `added.switches` switches. Each new switch is inserted into random links
/// between other switches: a link takes two of its ports, and an odd port stays free.
///
/// Old nodes keep their ids; new nodes follow, with names that count on from the highest number. Removed
/// links leave no gap in the link ids, so all links get new ids.
///
/// # Errors
/// If a number is zero, a new switch finds too few links to insert itself into, two switches have parallel
/// links, a name is in use, or the fabric gets too large.
pub fn expand_jellyfish(
    topology: &Topology,
    added: Jellyfish,
    seed: u64,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    let Jellyfish { switches, network_ports, hosts_per_switch } = added;
    at_least_one(FAMILY, "switches", switches)?;
    at_least_one(FAMILY, "hosts_per_switch", hosts_per_switch)?;
    if network_ports < 2 {
        return refuse(
            FAMILY,
            "network_ports",
            network_ports.to_string(),
            "a switch to add needs at least 2",
        );
    }
    let [n, r, h] = [switches, network_ports, hosts_per_switch].map(u64::from);
    bound_links(FAMILY, &[&[n, h + r], &[topology.links().len() as u64]])?;

    let mut grown = Topology::new();
    for node in topology.nodes() {
        grown.add_node(node.name.clone(), node.kind, node.level);
    }
    let mut fabric = copy_host_links(topology, &mut grown)?;
    let mut nodes: Vec<NodeId> = topology.switches().collect();
    let new = add_named_on(&mut grown, topology, added, host_link)?;
    let mut rng = Pcg64::seed_from_u64(seed);
    for node in new {
        let number = nodes.len() as u32;
        nodes.push(node);
        fabric.graph.free.push(network_ports);
        fabric.graph.neighbours.push(Vec::new());
        for _ in 0..network_ports / 2 {
            if !fabric.graph.open_link(number, number, &mut rng) {
                let allowed = "a new switch needs that many neighbours whose links it can open";
                return refuse(FAMILY, "network_ports", network_ports.to_string(), allowed);
            }
        }
    }
    for [a, b] in fabric.graph.edges {
        let ends = [nodes[a as usize], nodes[b as usize]];
        let channels = fabric.channels.get(&ends).map_or([fabric_link; 2], |channels| *channels);
        grown.add_asymmetric_link(ends[0], ends[1], channels);
    }
    Ok(grown)
}

/// The links between switches of a fabric before its growth.
struct Fabric {
    graph: RandomGraph,
    channels: BTreeMap<[NodeId; 2], [Channel; 2]>,
}

/// Copies the links between hosts and switches to `grown`; returns the links between switches.
fn copy_host_links(topology: &Topology, grown: &mut Topology) -> Result<Fabric, GenerateError> {
    let mut number = IndexVec::filled(u32::MAX, topology.nodes().len());
    let mut count = 0;
    for switch in topology.switches() {
        number[switch] = count;
        count += 1;
    }
    let mut fabric = Fabric { graph: RandomGraph::unlinked(count, 0), channels: BTreeMap::new() };
    for link in topology.links() {
        if link.ends.iter().all(|end| topology.nodes()[*end].kind == NodeKind::Switch) {
            let [a, b] = link.ends.map(|end| number[end]);
            if fabric.graph.adjacent(a, b) {
                let ends = link.ends.map(|end| topology.nodes()[end].name.as_str()).join(" - ");
                return refuse(FAMILY, "topology", ends, "it must have no parallel links and no loops");
            }
            fabric.graph.join(a, b);
            fabric.channels.insert(link.ends, link.channels);
        } else {
            grown.add_asymmetric_link(link.ends[0], link.ends[1], link.channels);
        }
    }
    Ok(fabric)
}

/// Adds new switches with their hosts, with names that continue the existing numbers; returns the new
/// switches.
fn add_named_on(
    grown: &mut Topology,
    old: &Topology,
    added: Jellyfish,
    host_link: Channel,
) -> Result<Vec<NodeId>, GenerateError> {
    let (hosts, switches) = (old.hosts().count() as u32, old.switches().count() as u32);
    let taken: BTreeSet<&str> = old.nodes().iter().map(|node| node.name.as_str()).collect();
    let mut new = Vec::new();
    for i in 0..added.switches {
        let name = format!("s{}", switches + i);
        let host_names =
            (0..added.hosts_per_switch).map(|j| format!("host{}", hosts + i * added.hosts_per_switch + j));
        let host_names: Vec<String> = host_names.collect();
        if let Some(name) = host_names.iter().chain([&name]).find(|name| taken.contains(name.as_str())) {
            return refuse(FAMILY, "topology", name.clone(), "its nodes must be named host0.. and s0..");
        }
        let switch = grown.add_node(name, NodeKind::Switch, None);
        for name in host_names {
            let host = grown.add_node(name, NodeKind::Host, Some(0));
            grown.add_link(host, switch, host_link);
        }
        new.push(switch);
    }
    Ok(new)
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
