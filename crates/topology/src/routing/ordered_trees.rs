//! In-trees under the turn rule of an order of the switches.
//!
//! Every switch has a rank. A route may go up in rank and then down, never down and then up: the turn a, m, b
//! is forbidden if m is ranked below both. Along a legal route the ranks rise and then fall, so the
//! dependencies of all legal routes form no cycle, whatever the order (up*/down*, Autonet: Schroeder et al.
//! 1991). Under one VLAN each switch has one next hop for a destination, so the routes to it form an in-tree.

use super::SwitchGraph;
use crate::routing::ecmp::mix;
use pauseframe_units::PortId;

/// Which moves a tree may be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// Every switch hangs on as near to the destination as the rule lets it; some may find no place.
    Nearest,
    /// A switch that has a way down takes it even if a way up were shorter. If every switch but one has a
    /// higher neighbour, all switches find a place.
    DownFirst,
}

/// Grows trees one after the other and balances them by the routes that the ports carry already.
#[derive(Debug)]
pub(crate) struct TreeGrower<'a> {
    graph: &'a SwitchGraph,
    /// Pairs of hosts whose route uses a port, over all trees grown.
    load: Vec<u64>,
    routes: Vec<u64>,
    /// For a switch without a place, the best port so far: (load, tie break, port).
    best: Vec<Option<(u64, u64, PortId)>>,
    levels: Vec<Vec<u32>>,
    /// How many switches have no place yet.
    waiting: usize,
}

impl<'a> TreeGrower<'a> {
    pub(crate) fn new(graph: &'a SwitchGraph) -> TreeGrower<'a> {
        TreeGrower {
            graph,
            load: vec![0; graph.port_count()],
            routes: vec![0; graph.len()],
            best: vec![None; graph.len()],
            levels: Vec::new(),
            waiting: 0,
        }
    }

    /// Writes into `tree`, which holds no port yet, the next hops towards switch `to` over the links that
    /// `may_use`. Equal choices are made by `salt`.
    pub(crate) fn grow(
        &mut self,
        rank: &[u32],
        to: u32,
        growth: Growth,
        may_use: impl Fn(PortId) -> bool,
        salt: u64,
        tree: &mut [PortId],
    ) {
        self.levels.clear();
        self.levels.push(vec![to]);
        self.waiting = self.graph.len() - 1;
        let above = |a: u32, b: u32| rank[a as usize] > rank[b as usize];
        match growth {
            Growth::Nearest => {
                // What hangs on `at` must not come from above if the next hop of `at` goes up.
                let legal = |from: u32, at: u32, next: Option<u32>| {
                    next.is_none_or(|next| above(at, from) || above(at, next))
                };
                self.expand(to, legal, &may_use, salt, tree);
            }
            Growth::DownFirst => {
                self.expand(to, |from, at, _| above(from, at), &may_use, salt, tree);
                self.expand(to, |from, at, _| above(at, from), &may_use, salt, tree);
            }
        }
        self.count_routes(to, tree);
    }

    /// Hangs switches on, level by level: `legal(from, at, next hop of at)`.
    fn expand(
        &mut self,
        to: u32,
        legal: impl Fn(u32, u32, Option<u32>) -> bool,
        may_use: impl Fn(PortId) -> bool,
        salt: u64,
        tree: &mut [PortId],
    ) {
        let mut level = 0;
        let mut found: Vec<u32> = Vec::new();
        while level < self.levels.len() && self.waiting > 0 {
            for at in &self.levels[level] {
                let next = if *at == to { None } else { self.graph.head(tree[*at as usize]) };
                for arc in self.graph.arcs(*at) {
                    let (from, port) = (arc.to, arc.port.reverse());
                    if tree[from as usize] != PortId::NONE
                        || from == to
                        || !legal(from, *at, next)
                        || !may_use(port)
                    {
                        continue;
                    }
                    let place = (self.load[port.0 as usize], mix(salt ^ u64::from(port.0)), port);
                    let best = &mut self.best[from as usize];
                    if best.is_none() {
                        found.push(from);
                    }
                    if best.is_none_or(|best| place < best) {
                        *best = Some(place);
                    }
                }
            }
            if !found.is_empty() && level + 1 == self.levels.len() {
                self.levels.push(Vec::new());
            }
            self.waiting -= found.len();
            for from in found.drain(..) {
                if let Some((_, _, port)) = self.best[from as usize].take() {
                    tree[from as usize] = port;
                    self.levels[level + 1].push(from);
                }
            }
            level += 1;
        }
    }

    /// Adds the routes of a finished tree to the load of its ports.
    fn count_routes(&mut self, to: u32, tree: &[PortId]) {
        let targets = self.graph.hosts(to).len() as u64;
        for at in self.levels.iter().flatten() {
            self.routes[*at as usize] = self.graph.hosts(*at).len() as u64 * targets;
        }
        for at in self.levels[1..].iter().rev().flatten() {
            let (port, routes) = (tree[*at as usize], self.routes[*at as usize]);
            self.load[port.0 as usize] += routes;
            if let Some(next) = self.graph.head(port) {
                self.routes[next as usize] += routes;
            }
        }
    }
}

/// The lengths of the shortest legal routes to switch `to` under an order, `u32::MAX` where there is none.
pub(crate) fn legal_distances(graph: &SwitchGraph, rank: &[u32], to: u32) -> Vec<u32> {
    let above = |a: u32, b: u32| rank[a as usize] > rank[b as usize];
    let mut levels = vec![vec![to]];
    let mut down = vec![u32::MAX; graph.len()];
    down[to as usize] = 0;
    let mut level = 0;
    while level < levels.len() {
        let mut next = Vec::new();
        for at in &levels[level] {
            for arc in graph.arcs(*at).iter().filter(|arc| above(arc.to, *at)) {
                if down[arc.to as usize] == u32::MAX {
                    down[arc.to as usize] = level as u32 + 1;
                    next.push(arc.to);
                }
            }
        }
        if !next.is_empty() {
            levels.push(next);
        }
        level += 1;
    }
    // A switch may stand in two levels: that of its way down, and a nearer one that begins with a way up.
    let mut distance = vec![u32::MAX; graph.len()];
    let mut level = 0;
    while level < levels.len() {
        let mut next = Vec::new();
        for at in &levels[level] {
            if distance[*at as usize] != u32::MAX {
                continue;
            }
            distance[*at as usize] = level as u32;
            let below = graph.arcs(*at).iter().map(|arc| arc.to).filter(|from| above(*at, *from));
            next.extend(below.filter(|from| distance[*from as usize] == u32::MAX));
        }
        match levels.get_mut(level + 1) {
            Some(later) => later.extend(next),
            None if !next.is_empty() => levels.push(next),
            None => {}
        }
        level += 1;
    }
    distance
}

/// Ranks by distance from `root`, nearer ranked higher: every other switch has a higher neighbour. Switches
/// without a path to it are all ranked 0, which forbids every route through them.
pub(crate) fn rank_from_root(graph: &SwitchGraph, root: u32) -> Vec<u32> {
    let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
    graph.distances(root, &mut distance, &mut queue);
    let mut rank = vec![0; graph.len()];
    for (place, switch) in queue.iter().enumerate() {
        rank[*switch as usize] = (graph.len() - place) as u32;
    }
    rank
}
