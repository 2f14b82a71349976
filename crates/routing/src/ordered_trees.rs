//! In-trees under the turn rule of a lane ([`super::turn_order`]). In one VLAN each switch has one next hop
//! for a destination, so the routes to the destination form an in-tree.

use super::reach::depths;
use super::turn_order::TurnOrder;
use crate::ecmp::mix;
use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;

/// The method by which a tree grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// Every switch joins the tree as near to the destination as the turn rule allows; some switches may find
    /// no place.
    Nearest,
    /// A switch with a downward route takes it even if an upward route is shorter. If every switch except one
    /// has a neighbour of higher rank, all switches join the tree.
    DownFirst,
}

/// Grows trees one after the other and balances them by the number of routes on each port.
#[derive(Debug)]
pub(crate) struct TreeGrower<'a> {
    graph: &'a SwitchGraph,
    /// For each port, the number of host pairs whose route uses the port, over all trees, times [`WHOLE`].
    load: Vec<u64>,
    routes: Vec<u64>,
    /// For each switch outside of the tree, the best port found: whether the port leads up, the load of the
    /// route, the port.
    best: Vec<Option<(bool, u64, PortId)>>,
    /// For each switch in the tree, the total load of the ports on its route.
    cost: Vec<u64>,
    levels: Vec<Vec<u32>>,
    /// The routes that senders will use; if absent, all routes.
    uses: Option<Uses>,
    /// Number of switches that are not in the tree yet.
    waiting: usize,
}

impl<'a> TreeGrower<'a> {
    pub(crate) fn new(graph: &'a SwitchGraph) -> TreeGrower<'a> {
        TreeGrower {
            graph,
            load: vec![0; graph.port_count()],
            routes: vec![0; graph.len()],
            best: vec![None; graph.len()],
            cost: vec![0; graph.len()],
            levels: Vec::new(),
            uses: None,
            waiting: 0,
        }
    }

    /// Weights each route by how often senders will use it.
    pub(crate) fn counting(mut self, uses: Uses) -> TreeGrower<'a> {
        self.uses = Some(uses);
        self
    }

    /// Writes the next hops towards switch `to`, over links for which `may_use` is true, into `tree`, which
    /// must be empty. `salt` breaks ties.
    pub(crate) fn grow(
        &mut self,
        order: &TurnOrder,
        to: u32,
        growth: Growth,
        may_use: impl Fn(PortId) -> bool,
        salt: u64,
        tree: &mut [PortId],
    ) {
        self.levels.clear();
        self.levels.push(vec![to]);
        self.waiting = self.graph.len() - 1;
        let legal = |port: PortId, next: PortId| next == PortId::NONE || order.allows(port, next);
        match growth {
            Growth::Nearest => self.expand(to, order, legal, &may_use, salt, tree),
            Growth::DownFirst => {
                self.expand(to, order, |port, _| order.is_down(port), &may_use, salt, tree);
                self.expand(to, order, legal, &may_use, salt, tree);
            }
        }
        self.count_routes(to, tree);
    }

    /// Adds switches to the tree, level by level, over links for which `legal(link, next hop of its head)` is
    /// true. Of equally short routes a downward route is preferred, because later routes can join it from
    /// above and from below.
    fn expand(
        &mut self,
        to: u32,
        order: &TurnOrder,
        legal: impl Fn(PortId, PortId) -> bool,
        may_use: impl Fn(PortId) -> bool,
        salt: u64,
        tree: &mut [PortId],
    ) {
        self.cost[to as usize] = 0;
        let mut level = 0;
        let mut found: Vec<u32> = Vec::new();
        while level < self.levels.len() && self.waiting > 0 {
            for at in &self.levels[level] {
                let next = if *at == to { PortId::NONE } else { tree[*at as usize] };
                for arc in self.graph.arcs(*at) {
                    let (from, port) = (arc.to, arc.port.reverse());
                    if tree[from as usize] != PortId::NONE
                        || from == to
                        || !legal(port, next)
                        || !may_use(port)
                    {
                        continue;
                    }
                    let up = !order.is_down(port);
                    let load = self.load[port.0 as usize] + self.cost[*at as usize];
                    let best = &mut self.best[from as usize];
                    if best.is_none() {
                        found.push(from);
                    }
                    let is_better = best.is_none_or(|(up_there, load_there, other)| {
                        let compared = (up, load).cmp(&(up_there, load_there));
                        compared.then_with(|| tie_break(salt, port).cmp(&tie_break(salt, other))).is_lt()
                    });
                    if is_better {
                        *best = Some((up, load, port));
                    }
                }
            }
            if !found.is_empty() && level + 1 == self.levels.len() {
                self.levels.push(Vec::new());
            }
            self.waiting -= found.len();
            for from in found.drain(..) {
                if let Some((_, cost, port)) = self.best[from as usize].take() {
                    self.cost[from as usize] = cost;
                    tree[from as usize] = port;
                    self.levels[level + 1].push(from);
                }
            }
            level += 1;
        }
    }

    /// The load of each port: the number of host pairs, each weighted by the fraction of its packets that use
    /// the port.
    pub(crate) fn loads(&self) -> impl Iterator<Item = f64> {
        self.load.iter().map(|load| *load as f64 / WHOLE as f64)
    }

    /// Adds the routes of a finished tree to the load of its ports.
    fn count_routes(&mut self, to: u32, tree: &[PortId]) {
        let targets = self.graph.hosts(to).len() as u64;
        for (level, switches) in self.levels.iter().enumerate() {
            for at in switches {
                let part = self.uses.as_ref().map_or(WHOLE, |uses| uses.part(to, *at, level));
                self.routes[*at as usize] = self.graph.hosts(*at).len() as u64 * targets * part;
            }
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

/// The key that decides between two equal ports; the smaller key wins.
fn tie_break(salt: u64, port: PortId) -> (u64, PortId) {
    (mix(salt ^ u64::from(port.0)), port)
}

/// Weight of a route that carries all packets of a pair.
const WHOLE: u64 = 1 << 12;

/// The trees that senders use: senders choose uniformly among the VLANs whose route is the shortest.
#[derive(Debug)]
pub(crate) struct Uses {
    switches: usize,
    /// For every switch with hosts, its index among the edge switches.
    rows: Vec<u32>,
    /// For each destination and switch, the smallest depth of the switch and the number of VLANs with this
    /// depth.
    shortest: Vec<(u16, u16)>,
    /// Number of budget steps that [`Uses::of`] took.
    pub(crate) steps: u64,
}

impl Uses {
    /// Computes the usage of trees for lanes with these ranks and numbers of VLANs.
    pub(crate) fn of(graph: &SwitchGraph, lanes: &[(&[u32], u16)]) -> Uses {
        let switches = graph.len();
        let mut shortest = vec![(u16::MAX, 0); graph.attachments().len() * switches];
        let mut steps = 0;
        for (rank, vlans) in lanes {
            steps += depths(graph, rank, |row, switch, depth| {
                let (least, count) = &mut shortest[row * switches + switch];
                if depth < *least {
                    (*least, *count) = (depth, 0);
                }
                if depth == *least {
                    *count += vlans;
                }
            });
        }
        let rows = (0..switches as u32).map(|switch| graph.attachment_row(switch).unwrap_or(0)).collect();
        Uses { switches, rows, shortest, steps }
    }

    /// The fraction of a pair's packets that use one tree, given the level of the source in this tree.
    fn part(&self, to: u32, from: u32, level: usize) -> u64 {
        let (depth, vlans) = self.shortest[self.rows[to as usize] as usize * self.switches + from as usize];
        if level <= usize::from(depth) { WHOLE / u64::from(vlans.max(1)) } else { 0 }
    }
}

/// Ranks switches by the distance from `root`; nearer switches rank higher, so every other switch has a
/// neighbour of higher rank. Switches without a path to `root` all have rank 0, which forbids every route
/// through them.
pub(crate) fn rank_from_root(graph: &SwitchGraph, root: u32) -> Vec<u32> {
    let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
    graph.distances(root, &mut distance, &mut queue);
    let mut rank = vec![0; graph.len()];
    for (place, switch) in queue.iter().enumerate() {
        rank[*switch as usize] = (graph.len() - place) as u32;
    }
    rank
}
