//! The number of links on the routes of tables. Each tree is followed once, from all switches with hosts,
//! when the first pair needs it: choosing VLANs for thousands of flows needs all routes of each pair.

use super::Tables;
use super::tables::{DELIVER, Tree};
use crate::walks::{Hop, links_to_go};
use pauseframe_units::{NodeId, PortId};
use std::cell::{Cell, OnceCell};

/// Length of a route on which no packet arrives.
const NEVER: u16 = u16::MAX;

/// The lengths of the routes in tables.
#[derive(Debug)]
pub struct RouteLengths<'a> {
    tables: &'a Tables,
    /// For each tree, the number of links between switches from each edge switch; none for a tree that uses
    /// the port of one host for several hosts: there, the routes of the hosts differ.
    of_tree: Vec<OnceCell<Option<Box<[u16]>>>>,
}

impl<'a> RouteLengths<'a> {
    /// Makes an empty cache of lengths.
    pub fn new(tables: &'a Tables) -> RouteLengths<'a> {
        RouteLengths { tables, of_tree: tables.trees.iter().map(|_| OnceCell::new()).collect() }
    }

    /// Like [`Tables::length`], with a cache.
    pub fn length(&self, vlan: usize, from: NodeId, to: NodeId) -> Option<u16> {
        let number = self.tables.tree_of(vlan, to)? as usize;
        let tree = &self.tables.trees[number];
        let row = self.tables.graph.attachment_row(self.tables.graph.attachment(from)?)?;
        match self.of_tree[number].get_or_init(|| lengths(self.tables, tree)) {
            Some(lengths) => Some(lengths[row as usize]).filter(|l| *l != NEVER && tree.allows(row)),
            None => self.tables.length(vlan, from, to),
        }
    }

    /// Like [`Tables::vlans_between`], with a cache.
    pub fn vlans_between(&self, from: NodeId, to: NodeId, slack: u16, out: &mut Vec<u16>) {
        nearly_shortest(self.tables.vlans.len(), |vlan| self.length(vlan, from, to), slack, out);
    }
}

/// Writes the VLANs (of `count`) whose length is at most `slack` above the shortest length into `out`,
/// ascending.
pub(super) fn nearly_shortest(
    count: usize,
    length: impl Fn(usize) -> Option<u16>,
    slack: u16,
    out: &mut Vec<u16>,
) {
    out.clear();
    let mut shortest = u16::MAX;
    for vlan in 0..count {
        let Some(length_here) = length(vlan) else { continue };
        if length_here < shortest {
            let limit = length_here.saturating_add(slack);
            shortest = length_here;
            out.retain(|other| length(usize::from(*other)).is_some_and(|l| l <= limit));
        }
        if length_here <= shortest.saturating_add(slack) {
            out.push(vlan as u16);
        }
    }
}

/// Number of links between switches from every edge switch; none if the hosts of the tree have different
/// routes.
fn lengths(tables: &Tables, tree: &Tree) -> Option<Box<[u16]>> {
    let graph = &tables.graph;
    let own_port = match tree.hosts[..] {
        [host] => graph.uplink(host).reverse(),
        _ => DELIVER,
    };
    let differ = Cell::new(false);
    let next = |at: u32| match tree.next[at as usize] {
        port if port == DELIVER || port == own_port => Hop::Arrives,
        port => {
            let hop = Hop::over(graph, port);
            // The port of one of several hosts.
            differ.set(differ.get() || (hop == Hop::Lost && port != PortId::NONE && tree.hosts.len() > 1));
            hop
        }
    };
    let links = links_to_go(graph, graph.attachments().iter().copied(), next);
    let of_row = |switch: &u32| links[*switch as usize].unwrap_or(NEVER);
    (!differ.get()).then(|| graph.attachments().iter().map(of_row).collect())
}

#[cfg(test)]
mod tests {
    use super::nearly_shortest;

    /// Whether the shortest route is found first or last.
    #[test]
    fn routes_of_the_shortest_length_and_the_slack_count() {
        for (lengths, slack, expected) in [
            (&[Some(5), Some(4), None, Some(6)][..], 0, &[1][..]),
            (&[Some(5), Some(4), None, Some(6)], 1, &[0, 1]),
            (&[Some(4), Some(6), Some(5)], 1, &[0, 2]),
            (&[Some(6), Some(5), Some(4)], 2, &[0, 1, 2]),
            (&[None, None], 9, &[]),
        ] {
            let mut out = vec![7];
            nearly_shortest(lengths.len(), |vlan| lengths[vlan], slack, &mut out);
            assert_eq!(out, expected, "{lengths:?} {slack}");
        }
    }
}
