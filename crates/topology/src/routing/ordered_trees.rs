//! In-trees under the rule of a lane ([`super::turn_order`]). Under one VLAN each switch has one next hop for a
//! destination, so the routes to it form an in-tree.

use super::SwitchGraph;
use super::reach::depths;
use super::turn_order::TurnOrder;
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
    /// Pairs of hosts whose route uses a port, over all trees grown, times [`WHOLE`].
    load: Vec<u64>,
    routes: Vec<u64>,
    /// For a switch without a place, the best port so far: whether it leads up, the load of the way, the port.
    best: Vec<Option<(bool, u64, PortId)>>,
    /// What the ports on the way of a placed switch carry, in sum.
    cost: Vec<u64>,
    levels: Vec<Vec<u32>>,
    /// Which routes senders will use; without, all.
    uses: Option<Uses>,
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
            cost: vec![0; graph.len()],
            levels: Vec::new(),
            uses: None,
            waiting: 0,
        }
    }

    /// Counts routes as often as senders will use them.
    pub(crate) fn counting(mut self, uses: Uses) -> TreeGrower<'a> {
        self.uses = Some(uses);
        self
    }

    /// Writes into `tree`, which holds no port yet, the next hops towards switch `to` over the links that
    /// `may_use`. Equal choices are made by `salt`.
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

    /// Hangs switches on, level by level, by links that are `legal(link, next hop of its head)`. Of equally short ways one
    /// down is better: others may then come from above as well as from below.
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

    /// The load of each port: pairs of hosts, each by the part of its packets that take the port.
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

/// Which of two equal ports is taken: the lesser.
fn tie_break(salt: u64, port: PortId) -> (u64, PortId) {
    (mix(salt ^ u64::from(port.0)), port)
}

/// What a route counts that all packets of a pair take.
const WHOLE: u64 = 1 << 12;

/// Which trees senders use: those of the lanes where the route of the pair is shortest, one as often as another.
#[derive(Debug)]
pub(crate) struct Uses {
    switches: usize,
    /// The row of every switch with hosts.
    rows: Vec<u32>,
    /// The depth of a switch, and how many VLANs have it there: row x switches + switch.
    shortest: Vec<(u16, u16)>,
}

impl Uses {
    /// Of lanes with these ranks and so many VLANs each.
    pub(crate) fn of(graph: &SwitchGraph, lanes: &[(&[u32], u16)]) -> Uses {
        let switches = graph.len();
        let mut shortest = vec![(u16::MAX, 0); graph.attachments().len() * switches];
        for (rank, vlans) in lanes {
            depths(graph, rank, |row, switch, depth| {
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
        Uses { switches, rows, shortest }
    }

    /// The part of a pair's packets in one tree that has its source at this level.
    fn part(&self, to: u32, from: u32, level: usize) -> u64 {
        let (depth, vlans) = self.shortest[self.rows[to as usize] as usize * self.switches + from as usize];
        if level <= usize::from(depth) { WHOLE / u64::from(vlans.max(1)) } else { 0 }
    }
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
