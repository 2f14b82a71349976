//! The number of links on the routes of tables. Each tree is followed once, from all switches with hosts,
//! when the first pair needs it: choosing VLANs for thousands of flows needs all routes of each pair.

use super::Tables;
use super::tables::{DELIVER, Tree};
use pauseframe_units::{NodeId, PortId};
use std::cell::OnceCell;

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
    // For each switch: whether it was visited, and the number of links from the switch if packets arrive.
    let mut of_switch: Vec<Option<Option<u16>>> = vec![None; graph.len()];
    let mut walk = Vec::new();
    for start in graph.attachments() {
        let mut at = *start;
        let mut links = loop {
            if let Some(known) = of_switch[at as usize] {
                break known;
            }
            let port = tree.next[at as usize];
            if port == DELIVER || port == own_port {
                of_switch[at as usize] = Some(Some(0));
                break Some(0);
            }
            // Assume a loop until the walk ends elsewhere: packets in a loop never arrive.
            of_switch[at as usize] = Some(None);
            walk.push(at);
            if port == PortId::NONE {
                break None;
            }
            match graph.head(port) {
                Some(next) => at = next,
                None if tree.hosts.len() > 1 => return None,
                None => break None,
            }
        };
        for switch in walk.drain(..).rev() {
            links = links.and_then(|links| links.checked_add(1));
            of_switch[switch as usize] = Some(links);
        }
    }
    let rows = graph.attachments().iter();
    Some(rows.map(|switch| of_switch[*switch as usize].flatten().unwrap_or(NEVER)).collect())
}
