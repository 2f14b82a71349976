//! Computes statistics of a topology: counts, rates, distances and bisection bandwidth.
//!
//! The bisection bandwidth is the smallest capacity between two parts with half of the hosts each. Finding
//! the smallest cut is NP-hard; the local search used here (Fiduccia and Mattheyses, DAC 1982, with a few
//! starts) gives an upper bound, which is exact for common trees and rings.

use crate::check::joined;
use crate::interchange::Labels;
use crate::{NodeKind, SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Number of random starts of the search for a narrow cut, besides the starts that grow a part from one
/// switch.
const STARTS: usize = 4;
/// Maximum number of passes; a pass moves every switch once.
const PASSES: usize = 20;

/// Counts, rates, distances and bisection of a topology.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Statistics {
    /// Number of hosts.
    pub hosts: usize,
    /// Number of switches.
    pub switches: usize,
    /// Number of links between switches.
    pub fabric_links: usize,
    /// Number of links between hosts and switches.
    pub host_links: usize,
    /// The rates, fastest first, and the number of channels (two per link) with each rate.
    pub rates: Vec<Rate>,
    /// Smallest and largest number of links of a switch.
    pub switch_ports: Option<[usize; 2]>,
    /// Smallest and largest number of hosts at a switch that has hosts.
    pub hosts_per_switch: Option<[usize; 2]>,
    /// Number of links between switches on the longest of all shortest paths between hosts; null if a pair of
    /// hosts has no path.
    pub diameter: Option<u32>,
    /// Mean distance over all pairs of different hosts, of their nearest ports; null if a pair has no path.
    pub distance_mean: Option<f64>,
    /// The narrowest bisection found; null if fewer than two switches have hosts.
    pub bisection: Option<Bisection>,
    /// The mistakes that [`check()`] reports.
    pub problems: Vec<String>,
}

/// The channels with one rate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Rate {
    /// Rate in bits per second.
    pub bps: u64,
    /// Number of channels with this rate.
    pub channels: usize,
}

/// A cut that divides the hosts into two halves.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bisection {
    /// Capacity of the cut in each direction in bits per second; an upper bound of the bisection bandwidth.
    pub at_most_bps: u64,
    /// Capacity of the cut divided by the total rate of the hosts in the smaller part.
    pub per_host_rate: f64,
    /// Number of hosts in the smaller part.
    pub hosts: usize,
}

impl Statistics {
    /// Computes the statistics of `topology`. For a graph in which hosts would have to forward, only
    /// counts and problems are set. The bisection is not computed where hosts have several ports.
    pub fn of(topology: &Topology) -> Statistics {
        Statistics::of_labelled(topology, &Labels::default())
    }

    /// The same, with the problems that `labels` add.
    pub fn of_labelled(topology: &Topology, labels: &Labels) -> Statistics {
        let problems = labels.problems(topology);
        let topology = &*joined(topology);
        let mut rates: BTreeMap<u64, usize> = BTreeMap::new();
        for channel in topology.links().iter().flat_map(|link| link.channels) {
            *rates.entry(channel.rate.0).or_default() += 1;
        }
        let switch_degrees = topology.switches().map(|switch| topology.nodes()[switch].ports.len());
        let is_host = |node: &NodeId| topology.nodes()[*node].kind == NodeKind::Host;
        let host_links = topology.links().iter().filter(|link| link.ends.iter().any(is_host)).count();
        let mut statistics = Statistics {
            hosts: topology.hosts().count(),
            switches: topology.switches().count(),
            fabric_links: topology.links().len() - host_links,
            host_links,
            rates: rates.into_iter().rev().map(|(bps, channels)| Rate { bps, channels }).collect(),
            switch_ports: range(switch_degrees),
            hosts_per_switch: None,
            diameter: None,
            distance_mean: None,
            bisection: None,
            problems,
        };
        let Ok((split, _)) = Labels::default().split_hosts(topology) else { return statistics };
        if let Ok(graph) = SwitchGraph::new(&split) {
            statistics.add_distances(&split, &graph);
            statistics.bisection = if split.has_port_nodes() { None } else { bisection(topology, &graph) };
        }
        statistics
    }

    /// Distances between hosts: the shortest between any of their ports. `split` has a node for each port.
    fn add_distances(&mut self, split: &Topology, graph: &SwitchGraph) {
        let switch_at = |port: &NodeId| graph.attachment(*port);
        let several = split.ports_of_hosts();
        // Hosts at the same switches are alike.
        let mut homes: BTreeMap<BTreeSet<u32>, usize> = BTreeMap::new();
        let mut hosts_at: BTreeMap<u32, usize> = BTreeMap::new();
        for host in split.hosts() {
            let ports = several.get(&host).map_or_else(|| vec![host], Clone::clone);
            let switches: BTreeSet<u32> = ports.iter().filter_map(switch_at).collect();
            for switch in &switches {
                *hosts_at.entry(*switch).or_default() += 1;
            }
            *homes.entry(switches).or_default() += 1;
        }
        self.hosts_per_switch = range(hosts_at.into_values());
        let (mut distance, mut order) = (vec![0; graph.len()], Vec::new());
        let (mut longest, mut sum, mut pairs) = (0, 0_u64, 0_u64);
        for (from, senders) in &homes {
            let switches: Vec<u32> = from.iter().copied().collect();
            graph.distances_to_any(&switches, &mut distance, &mut order);
            for (to, receivers) in &homes {
                let links = to.iter().map(|switch| distance[*switch as usize]).min().unwrap_or(u32::MAX);
                if links == u32::MAX {
                    return;
                }
                let all = (senders * (receivers - usize::from(from == to))) as u64;
                (sum, pairs, longest) = (sum + all * u64::from(links), pairs + all, longest.max(links));
            }
        }
        self.diameter = (!homes.is_empty()).then_some(longest);
        self.distance_mean = (pairs > 0).then(|| sum as f64 / pairs as f64);
    }
}

fn range(values: impl Iterator<Item = usize>) -> Option<[usize; 2]> {
    values.fold(None, |range: Option<[usize; 2]>, value| {
        Some(range.map_or([value; 2], |[least, most]| [least.min(value), most.max(value)]))
    })
}

/// The narrowest cut found from a few starts of the search.
fn bisection(topology: &Topology, graph: &SwitchGraph) -> Option<Bisection> {
    let first = *graph.attachments().first()?;
    if graph.attachments().len() < 2 {
        return None;
    }
    let mut rng = Pcg64::seed_from_u64(1);
    let last = graph.attachments()[graph.attachments().len() - 1];
    let mut orders =
        vec![breadth_first(graph, first), breadth_first(graph, last), (0..graph.len() as u32).collect()];
    for _ in 0..STARTS {
        let mut order: Vec<u32> = (0..graph.len() as u32).collect();
        order.shuffle(&mut rng);
        orders.push(order);
        let root = graph.attachments()[rng.random_range(0..graph.attachments().len())];
        orders.push(breadth_first(graph, root));
    }
    let cuts = orders.iter().map(|order| {
        let mut cut = Cut::new(topology, graph, order);
        cut.improve();
        cut
    });
    let best = cuts.min_by_key(Cut::capacity)?;
    let (smaller, hosts) =
        if best.weight[0] <= best.weight[1] { (0, best.weight[0]) } else { (1, best.weight[1]) };
    let uplink = |host| topology.channel(graph.uplink(host)).rate.0;
    let inside = graph.attachments().iter().filter(|switch| best.side[**switch as usize] == smaller);
    let rate =
        inside.flat_map(|switch| graph.hosts(*switch)).map(|host| uplink(*host)).fold(0, u64::saturating_add);
    let at_most_bps = best.capacity();
    Some(Bisection { at_most_bps, per_host_rate: at_most_bps as f64 / rate as f64, hosts })
}

/// All switches in breadth-first order from `root`; switches without a path come last.
fn breadth_first(graph: &SwitchGraph, root: u32) -> Vec<u32> {
    let (mut distance, mut order) = (vec![0; graph.len()], Vec::new());
    graph.distances(root, &mut distance, &mut order);
    order.extend((0..graph.len() as u32).filter(|switch| distance[*switch as usize] == u32::MAX));
    order
}

/// A cut that the local search improves.
struct Cut<'a> {
    graph: &'a SwitchGraph,
    /// For each port, the smaller of the rates of the two directions of its link.
    rate: Vec<u64>,
    side: Vec<u8>,
    /// Number of hosts on each side.
    weight: [usize; 2],
    /// Maximum difference between the weights of both sides of the result.
    apart: usize,
}

impl<'a> Cut<'a> {
    /// Makes a cut whose side 0 takes switches of `order` until it has half of the hosts.
    fn new(topology: &Topology, graph: &'a SwitchGraph, order: &[u32]) -> Cut<'a> {
        let rate = (0..graph.port_count() as u32).map(|port| {
            let port = PortId(port);
            topology.channel(port).rate.0.min(topology.channel(port.reverse()).rate.0)
        });
        let all: usize = graph.attachments().iter().map(|switch| graph.hosts(*switch).len()).sum();
        let mut cut =
            Cut { graph, rate: rate.collect(), side: vec![1; graph.len()], weight: [0, all], apart: 0 };
        for switch in order {
            if (cut.weight[0] + cut.hosts(*switch)) * 2 <= all {
                cut.side[*switch as usize] = 0;
                cut.weight[0] += cut.hosts(*switch);
                cut.weight[1] -= cut.hosts(*switch);
            }
        }
        cut.apart = cut.weight[0].abs_diff(cut.weight[1]);
        cut
    }

    fn hosts(&self, switch: u32) -> usize {
        self.graph.hosts(switch).len()
    }

    fn capacity(&self) -> u64 {
        let crossing = self.graph.edges().iter().filter(|edge| {
            let [a, b] = edge.ends.map(|end| self.side[end as usize]);
            a != b
        });
        crossing.map(|edge| self.rate[PortId::of_link(edge.link, 0).0 as usize]).fold(0, u64::saturating_add)
    }

    /// The decrease of the cut's capacity if `switch` changes sides.
    fn gain(&self, switch: u32) -> i128 {
        let arcs = self.graph.arcs(switch).iter();
        arcs.map(|arc| {
            let rate = i128::from(self.rate[arc.port.0 as usize]);
            if self.side[arc.to as usize] == self.side[switch as usize] { -rate } else { rate }
        })
        .sum()
    }

    fn flip(&mut self, switch: u32) {
        let (from, hosts) = (usize::from(self.side[switch as usize]), self.hosts(switch));
        self.side[switch as usize] = 1 - self.side[switch as usize];
        self.weight[from] -= hosts;
        self.weight[1 - from] += hosts;
    }

    /// Repeats passes until a pass brings no improvement.
    fn improve(&mut self) {
        for _ in 0..PASSES {
            if self.pass() == 0 {
                return;
            }
        }
    }

    /// Moves every switch once, the move with the largest gain first, then returns to the best balanced cut
    /// seen; returns the gain of the pass.
    fn pass(&mut self) -> i128 {
        let widest = self.graph.attachments().iter().map(|switch| self.hosts(*switch)).max().unwrap_or(0);
        let slack = self.apart + 2 * widest;
        let mut gains: Vec<i128> = (0..self.graph.len() as u32).map(|switch| self.gain(switch)).collect();
        let mut heaps = [BinaryHeap::new(), BinaryHeap::new()];
        for (switch, gain) in gains.iter().enumerate() {
            heaps[usize::from(self.side[switch])].push((*gain, switch as u32));
        }
        let mut moved = vec![false; self.graph.len()];
        let (mut moves, mut won) = (Vec::new(), 0_i128);
        let (mut best, mut best_moves) = (0_i128, 0);
        while let Some(switch) = self.next_move(&mut heaps, &gains, &moved, slack) {
            won += gains[switch as usize];
            moved[switch as usize] = true;
            self.flip(switch);
            moves.push(switch);
            for arc in self.graph.arcs(switch) {
                let rate = 2 * i128::from(self.rate[arc.port.0 as usize]);
                let same = self.side[arc.to as usize] == self.side[switch as usize];
                gains[arc.to as usize] += if same { -rate } else { rate };
                if !moved[arc.to as usize] {
                    heaps[usize::from(self.side[arc.to as usize])].push((gains[arc.to as usize], arc.to));
                }
            }
            if won > best && self.weight[0].abs_diff(self.weight[1]) <= self.apart {
                (best, best_moves) = (won, moves.len());
            }
        }
        for switch in moves.drain(best_moves..).rev() {
            self.flip(switch);
        }
        best
    }

    /// The switch whose move gains most and keeps the difference of the sides within `slack` hosts. Drops
    /// outdated heap entries.
    fn next_move(
        &self,
        heaps: &mut [BinaryHeap<(i128, u32)>; 2],
        gains: &[i128],
        moved: &[bool],
        slack: usize,
    ) -> Option<u32> {
        for heap in heaps.iter_mut() {
            while heap.peek().is_some_and(|(gain, s)| moved[*s as usize] || gains[*s as usize] != *gain) {
                heap.pop();
            }
        }
        let allowed = |from: usize, switch: u32| {
            let hosts = self.hosts(switch);
            (self.weight[from] - hosts).abs_diff(self.weight[1 - from] + hosts) <= slack
        };
        let tops = [0, 1].map(|side| heaps[side].peek().copied().filter(|(_, s)| allowed(side, *s)));
        let side = match tops {
            [None, None] => return None,
            [Some(_), None] => 0,
            [None, Some(_)] => 1,
            // Among equal gains, choose the move that improves the balance.
            [Some(a), Some(b)] if a.0 == b.0 => usize::from(self.weight[1] > self.weight[0]),
            [Some(a), Some(b)] => usize::from(b.0 > a.0),
        };
        heaps[side].pop().map(|(_, switch)| switch)
    }
}
