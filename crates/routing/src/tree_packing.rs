//! Packs edge-disjoint spanning trees into a graph.
//!
//! Exact packing follows Roskind and Tarjan ("A note on finding minimum-cost edge-disjoint spanning trees",
//! Mathematics of Operations Research 1985). The algorithm adds links one by one to k forests. A link that
//! closes a cycle in every forest may still fit after a chain of exchanges, which a breadth-first search over
//! fundamental cycles finds. If no such chain exists, the link lies in a part of the graph that the forests
//! already exhaust.

use super::disjoint_sets::DisjointSets;
use super::{RoutingError, reachable_switches};
use pauseframe_topology::{SwitchGraph, Topology};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use std::collections::VecDeque;

/// The algorithm that finds the trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// Kruskal's algorithm on links in random order, repeated on the remaining links as long as they connect
    /// the switches; finds fewer trees than possible.
    RandomKruskal,
    /// As many trees as the graph allows.
    Exact,
}

/// Finds at most `most` edge-disjoint spanning trees over the switches that hosts can reach; each tree is a
/// list of ascending indices into [`SwitchGraph::edges`].
///
/// # Errors
/// If a pair of hosts has no path.
pub fn pack_spanning_trees(
    topology: &Topology,
    graph: &SwitchGraph,
    packing: Packing,
    most: usize,
    seed: u64,
) -> Result<Vec<Vec<u32>>, RoutingError> {
    let reached = reachable_switches(topology, graph)?;
    let count = reached.iter().filter(|reached| **reached).count();
    let mut rng = Pcg64::seed_from_u64(seed);
    let edges = graph.edges().iter().enumerate().filter(|(_, edge)| reached[edge.ends[0] as usize]);
    let mut order: Vec<u32> = edges.map(|(place, _)| place as u32).collect();
    order.shuffle(&mut rng);
    if count <= 1 {
        return Ok(vec![Vec::new(); most.min(1)]);
    }
    if packing == Packing::RandomKruskal {
        return Ok(random_kruskal(graph, order, count - 1, most, &mut rng));
    }
    let degrees = (0..graph.len() as u32).filter(|s| reached[*s as usize]).map(|s| graph.arcs(s).len());
    let bound = (order.len() / (count - 1)).min(degrees.min().unwrap_or(0)).min(most);
    for trees in (1..=bound).rev() {
        let mut forests = Forests::new(graph, trees);
        if forests.complete(&order, count - 1) {
            return Ok(forests.trees());
        }
    }
    Ok(Vec::new())
}

fn random_kruskal(
    graph: &SwitchGraph,
    mut left: Vec<u32>,
    size: usize,
    most: usize,
    rng: &mut Pcg64,
) -> Vec<Vec<u32>> {
    let mut trees = Vec::new();
    while trees.len() < most {
        left.shuffle(rng);
        let mut sets = DisjointSets::new(graph.len());
        let ends = |edge: &u32| graph.edges()[*edge as usize].ends;
        let (mut tree, rest): (Vec<u32>, Vec<u32>) =
            left.iter().partition(|edge| sets.join(ends(edge)[0], ends(edge)[1]));
        if tree.len() < size {
            break;
        }
        tree.sort_unstable();
        trees.push(tree);
        left = rest;
    }
    trees
}

const NONE: u32 = u32::MAX;

/// Edge-disjoint forests; the "slot" (f, v) denotes switch v in forest f.
#[derive(Debug)]
struct Forests<'a> {
    graph: &'a SwitchGraph,
    count: usize,
    /// The forest of each edge.
    forest: Vec<u32>,
    /// For each slot, the edges at its switch in its forest.
    incident: Vec<Vec<u32>>,
    /// For each slot, the edge to its parent in the rooted forest, and its depth.
    parent_edge: Vec<u32>,
    depth: Vec<u32>,
    parts: Vec<DisjointSets>,
    size: usize,
    search: Search,
}

/// The labels of one search for a chain of exchanges, reused by later searches to save set-up time.
#[derive(Debug)]
struct Search {
    /// For each labelled edge, the edge whose cycle contains it.
    label: Vec<u32>,
    labelled: Vec<u32>,
    /// Skips labelled edges on the way to the root: for each slot, the highest slot that it reaches over
    /// labelled edges.
    skip: Vec<u32>,
    stamp: Vec<u32>,
    now: u32,
}

impl<'a> Forests<'a> {
    fn new(graph: &'a SwitchGraph, count: usize) -> Forests<'a> {
        let (edges, slots) = (graph.edges().len(), count * graph.len());
        Forests {
            graph,
            count,
            forest: vec![NONE; edges],
            incident: vec![Vec::new(); slots],
            parent_edge: vec![NONE; slots],
            depth: vec![0; slots],
            parts: vec![DisjointSets::new(graph.len()); count],
            size: 0,
            search: Search {
                label: vec![NONE; edges],
                labelled: Vec::new(),
                skip: vec![0; slots],
                stamp: vec![0; slots],
                now: 0,
            },
        }
    }

    fn slot(&self, forest: usize, switch: u32) -> usize {
        forest * self.graph.len() + switch as usize
    }

    fn ends(&self, edge: u32) -> [u32; 2] {
        self.graph.edges()[edge as usize].ends
    }

    fn other_end(&self, edge: u32, switch: u32) -> u32 {
        let [a, b] = self.ends(edge);
        if a == switch { b } else { a }
    }

    fn joins_parts(&mut self, forest: usize, edge: u32) -> bool {
        let [a, b] = self.ends(edge);
        self.parts[forest].find(a) != self.parts[forest].find(b)
    }

    /// Inserts an edge into a forest if it joins two components; returns false if it does not.
    fn insert(&mut self, forest: usize, edge: u32) -> bool {
        if !self.joins_parts(forest, edge) {
            return false;
        }
        let [a, b] = self.ends(edge);
        let (small, large) =
            if self.parts[forest].size(a) < self.parts[forest].size(b) { (a, b) } else { (b, a) };
        self.parts[forest].join(a, b);
        self.attach(forest, edge);
        self.size += 1;
        let depth = self.depth[self.slot(forest, large)] + 1;
        self.root_part(forest, small, edge, depth);
        true
    }

    fn attach(&mut self, forest: usize, edge: u32) {
        self.forest[edge as usize] = forest as u32;
        for end in self.ends(edge) {
            let slot = self.slot(forest, end);
            self.incident[slot].push(edge);
        }
    }

    fn detach(&mut self, forest: usize, edge: u32) {
        for end in self.ends(edge) {
            let slot = self.slot(forest, end);
            self.incident[slot].retain(|other| *other != edge);
        }
    }

    /// Sets the parents and depths of the component below `switch`, whose edge to its parent is
    /// `parent_edge`.
    fn root_part(&mut self, forest: usize, switch: u32, parent_edge: u32, depth: u32) {
        let mut waiting = vec![(switch, parent_edge, depth)];
        while let Some((at, above, depth)) = waiting.pop() {
            let slot = self.slot(forest, at);
            (self.parent_edge[slot], self.depth[slot]) = (above, depth);
            for edge in &self.incident[slot] {
                if *edge != above {
                    waiting.push((self.other_end(*edge, at), *edge, depth + 1));
                }
            }
        }
    }

    /// Adds edges until all forests are trees of `size` edges; returns false if that is impossible.
    fn complete(&mut self, order: &[u32], size: usize) -> bool {
        let full = self.count * size;
        let mut left = order.to_vec();
        left.retain(|edge| !(0..self.count).any(|forest| self.insert(forest, *edge)));
        for edge in left {
            if self.size == full {
                break;
            }
            self.augment(edge);
        }
        self.size == full
    }

    /// Makes room for an edge by a chain of exchanges: the edge replaces an edge on its cycle in one forest,
    /// the replaced edge replaces an edge in the next forest, and so on, until an edge joins two components
    /// of a forest.
    ///
    /// An edge of forest f is tried against forest f + 1 only, cyclically. If no chain is found, the labelled
    /// edges span the same switches in every forest, so the edge cannot fit.
    fn augment(&mut self, edge: u32) -> bool {
        self.search.now += 1;
        self.search.label[edge as usize] = edge;
        self.search.labelled.push(edge);
        let mut queue = VecDeque::from([edge]);
        let mut joined = None;
        while let Some(at) = queue.pop_front() {
            let forest = if at == edge { 0 } else { (self.forest[at as usize] as usize + 1) % self.count };
            if self.joins_parts(forest, at) {
                joined = Some((forest, at));
                break;
            }
            self.label_cycle(forest, at, &mut queue);
        }
        if let Some((forest, last)) = joined {
            self.exchange(forest, last, edge);
        }
        for edge in std::mem::take(&mut self.search.labelled) {
            self.search.label[edge as usize] = NONE;
        }
        joined.is_some()
    }

    /// Labels the unlabelled edges on the path between the ends of `edge` in `forest`.
    fn label_cycle(&mut self, forest: usize, edge: u32, queue: &mut VecDeque<u32>) {
        let [mut a, mut b] = self.ends(edge).map(|end| self.skip_labelled(forest, end));
        while a != b {
            if self.depth[self.slot(forest, a)] < self.depth[self.slot(forest, b)] {
                std::mem::swap(&mut a, &mut b);
            }
            let slot = self.slot(forest, a);
            let above = self.parent_edge[slot];
            if self.search.label[above as usize] == NONE {
                self.search.label[above as usize] = edge;
                self.search.labelled.push(above);
                queue.push_back(above);
            }
            let parent = self.other_end(above, a);
            self.search.skip[slot] = parent;
            self.search.stamp[slot] = self.search.now;
            a = self.skip_labelled(forest, parent);
        }
    }

    /// The first switch on the path to the root, starting with `switch`, whose edge to its parent is not
    /// labelled.
    fn skip_labelled(&mut self, forest: usize, switch: u32) -> u32 {
        let mut at = switch;
        while self.search.stamp[self.slot(forest, at)] == self.search.now {
            at = self.search.skip[self.slot(forest, at)];
        }
        let (top, mut at) = (at, switch);
        while at != top {
            let slot = self.slot(forest, at);
            at = self.search.skip[slot];
            self.search.skip[slot] = top;
        }
        top
    }

    /// Carries out the chain of exchanges from `first` to `last`; `last` joins two components of `forest`.
    fn exchange(&mut self, forest: usize, last: u32, first: u32) {
        let [a, b] = self.ends(last);
        self.parts[forest].join(a, b);
        self.size += 1;
        let mut changed = Vec::new();
        let (mut edge, mut into) = (last, forest);
        loop {
            let from = self.forest[edge as usize];
            if edge != first {
                self.detach(from as usize, edge);
            }
            self.attach(into, edge);
            changed.push((into, self.ends(edge)[0]));
            if edge == first {
                break;
            }
            (edge, into) = (self.search.label[edge as usize], from as usize);
        }
        changed.sort_unstable();
        // Update each component once: two exchanges in the same component of a forest need only one update.
        changed.dedup_by_key(|(forest, switch)| (*forest, self.parts[*forest].find(*switch)));
        for (forest, switch) in changed {
            self.root_part(forest, switch, NONE, 0);
        }
    }

    fn trees(&self) -> Vec<Vec<u32>> {
        let mut trees = vec![Vec::new(); self.count];
        for (edge, forest) in self.forest.iter().enumerate().filter(|(_, forest)| **forest != NONE) {
            trees[*forest as usize].push(edge as u32);
        }
        trees
    }
}
