//! The turns that the routes of a lane take, and further routes that close no cycle with these turns.
//!
//! The turn rule of a lane ([`super::turn_order`]) forbids more than necessary: a lane is deadlock-free if
//! the turns in use form no cycle. So routes that the rule forbids may still fit (as in LASH: Skeie, Lysne,
//! Theiss 2002). Backups and updates add such routes one by one, each as a path through a tree of next hops
//! that begins at a switch without a row.

use super::growing_order::GrowingOrder;
use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of paths that are tried for a route.
const TRIES: usize = 8;

/// The turns in use in one lane.
#[derive(Debug)]
pub(crate) struct UsedTurns {
    order: GrowingOrder,
    /// Number of links that searches visited.
    looked: u64,
}

/// Number of budget steps for a link in a search, or for a node of the order.
const STEPS_A_LINK: u64 = 16;
const STEPS_A_NODE: u64 = 32;

impl UsedTurns {
    /// Makes the set of turns from routes whose turns contain no cycle; none if they do.
    pub(crate) fn of(ports: usize, turns: impl Iterator<Item = (PortId, PortId)>) -> Option<UsedTurns> {
        let turns = turns.map(|(first, second)| [first.0, second.0]).collect();
        GrowingOrder::of(ports, turns).map(|order| UsedTurns { order, looked: 0 })
    }

    /// Number of budget steps since the last call.
    pub(crate) fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.looked) * STEPS_A_LINK + self.order.take_looked() * STEPS_A_NODE
    }

    /// Adds the turns of the route that `tree` defines; returns false and changes nothing if a turn closes a
    /// cycle or the route does not end at `to`.
    pub(crate) fn add_walk(&mut self, graph: &SwitchGraph, tree: &[PortId], [from, to]: [u32; 2]) -> bool {
        let before = self.order.edges();
        let (mut at, mut held) = (from, PortId::NONE);
        for _ in 0..graph.len() {
            if at == to {
                return true;
            }
            let port = tree[at as usize];
            let Some(next) = (port != PortId::NONE).then(|| graph.head(port)).flatten() else { break };
            if held != PortId::NONE && !self.order.add(held.0, port.0) {
                break;
            }
            (at, held) = (next, port);
        }
        self.order.take_back(before);
        at == to
    }

    /// Adds the turns of all next hops in `tree`. Removes each next hop whose turn closes a cycle, and every
    /// next hop that leads to a removed one.
    pub(crate) fn add_tree(&mut self, graph: &SwitchGraph, tree: &mut [PortId], to: u32) {
        let mut served = vec![false; graph.len()];
        served[to as usize] = true;
        let mut queue = VecDeque::from([to]);
        // Process the tree from the destination outwards, so that the next hop of `at` is decided before its
        // neighbours are checked.
        while let Some(at) = queue.pop_front() {
            self.looked += graph.arcs(at).len() as u64;
            for arc in graph.arcs(at) {
                let port = arc.port.reverse();
                let leads_here = tree[arc.to as usize] == port && !served[arc.to as usize];
                if leads_here && (at == to || self.order.add(port.0, tree[at as usize].0)) {
                    served[arc.to as usize] = true;
                    queue.push_back(arc.to);
                }
            }
        }
        for (row, served) in tree.iter_mut().zip(served) {
            if !served {
                *row = PortId::NONE;
            }
        }
    }

    /// Adds next hops to `tree`, without changing existing ones, so that packets from `from` arrive at `to`
    /// over links for which `may_use` is true; returns false and changes nothing if no such route was found.
    pub(crate) fn add_route(
        &mut self,
        graph: &SwitchGraph,
        tree: &mut [PortId],
        [from, to]: [u32; 2],
        may_use: impl Fn(PortId) -> bool,
    ) -> bool {
        if tree[from as usize] != PortId::NONE {
            return false;
        }
        let mut refused = BTreeSet::new();
        for attempt in 0..TRIES {
            // First try only turns that agree with the current order.
            let fits = |a: PortId, b: PortId| {
                if attempt == 0 { self.order.rises(a.0, b.0) } else { !refused.contains(&(a, b)) }
            };
            let mut looked = graph.len() as u64;
            let route = search(graph, tree, [from, to], &may_use, fits, &mut looked);
            self.looked += looked;
            let Some(route) = route else {
                if attempt == 0 {
                    continue;
                }
                return false;
            };
            let before = self.order.edges();
            match route.windows(2).find(|turn| !self.order.add(turn[0].0, turn[1].0)) {
                None => {
                    let mut at = from;
                    for port in route {
                        tree[at as usize] = port;
                        at = graph.head(port).unwrap_or(to);
                    }
                    return true;
                }
                Some(turn) => drop(refused.insert((turn[0], turn[1]))),
            }
            self.order.take_back(before);
        }
        false
    }
}

/// The ports of a shortest path over free links and along existing next hops of the tree.
fn search(
    graph: &SwitchGraph,
    tree: &[PortId],
    [from, to]: [u32; 2],
    may_use: impl Fn(PortId) -> bool,
    fits: impl Fn(PortId, PortId) -> bool,
    looked: &mut u64,
) -> Option<Vec<PortId>> {
    let mut came: Vec<PortId> = vec![PortId::NONE; graph.len()];
    let mut queue = VecDeque::from([from]);
    let mut seen = vec![false; graph.len()];
    seen[from as usize] = true;
    while let Some(at) = queue.pop_front() {
        let row = tree[at as usize];
        let only = (row != PortId::NONE).then_some(row);
        *looked += graph.arcs(at).len() as u64;
        for arc in graph.arcs(at) {
            let held = came[at as usize];
            let open = !seen[arc.to as usize]
                && only.is_none_or(|row| row == arc.port)
                && (only.is_some() || may_use(arc.port))
                && (held == PortId::NONE || fits(held, arc.port));
            if !open {
                continue;
            }
            seen[arc.to as usize] = true;
            came[arc.to as usize] = arc.port;
            if arc.to == to {
                return Some(way_back(graph, &came, [from, to]));
            }
            queue.push_back(arc.to);
        }
    }
    None
}

fn way_back(graph: &SwitchGraph, came: &[PortId], [from, to]: [u32; 2]) -> Vec<PortId> {
    let (mut route, mut at) = (Vec::new(), to);
    while at != from {
        let port = came[at as usize];
        route.push(port);
        let Some(before) = graph.head(port.reverse()) else { break };
        at = before;
    }
    route.reverse();
    route
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_topology::generate;
    use pauseframe_units::Id;

    /// A ring of four switches: the turns of one lane cover three quarters of the ring, and a tree needs the
    /// last quarter.
    #[test]
    fn a_tree_loses_the_rows_whose_turns_close_a_cycle() {
        let topology = generate::named("ring:switches=4,hosts_per_switch=1").unwrap();
        let graph = SwitchGraph::new(&topology).unwrap();
        let next = |at: u32| {
            let arc = graph.arcs(at).iter().find(|arc| arc.to == (at + 1) % 4).unwrap();
            arc.port
        };
        let ports = [next(0), next(1), next(2), next(3)];
        let turns = [(ports[0], ports[1]), (ports[1], ports[2]), (ports[2], ports[3])];
        let count = graph.port_count().max(1 + ports.iter().map(|port| port.index()).max().unwrap());
        let mut lane = UsedTurns::of(count, turns.into_iter()).unwrap();
        // The tree to switch 1, clockwise: 2 → 3 → 0 → 1. The turn from 3 → 0 to 0 → 1 closes the cycle.
        let mut tree = vec![ports[0], PortId::NONE, ports[2], ports[3]];
        lane.add_tree(&graph, &mut tree, 1);
        assert_eq!(tree, [ports[0], PortId::NONE, PortId::NONE, PortId::NONE], "switch 3, and 2 behind it");
        // All turns of the tree to switch 3 are in use already.
        let mut tree = vec![ports[0], ports[1], ports[2], PortId::NONE];
        lane.add_tree(&graph, &mut tree, 3);
        assert_eq!(tree, [ports[0], ports[1], ports[2], PortId::NONE]);
    }
}
