//! Updates tables in use for another topology such that packets never deadlock, loop or get lost.
//!
//! The new tables stay close to the old ones: a row changes only if its path is gone, and new paths take only turns
//! that close no cycle with those of all old routes in the same lane. So packets in old and new VLANs can wait for each
//! other in any mixture. Rows in use never change: a VLAN with changed rows gets a new number, senders move when all
//! its rows exist, and the rows of the old number go when no sender is left (make before break). Hence switches and
//! hosts may carry out a step in any order. An acyclic union of old and new rows would not suffice for rows changed in
//! place, because a half-updated table mixes routes of both.

mod repair;
mod union;

pub use union::Union;

use super::verify::{Tables, Vlan, dependency_graph};
use super::{RoutingError, SwitchGraph};
use crate::Topology;
use crate::interchange::Labels;
use crate::watch::Watch;
use pauseframe_units::NodeId;
use repair::Repair;
use std::collections::{BTreeMap, BTreeSet};

/// Limits of an update.
#[derive(Clone, Copy, Debug)]
pub struct UpdateSettings {
    /// Maximum number of lanes including those of the old tables: a further lane is used only for pairs that fit into
    /// none.
    pub lanes: usize,
    /// Whether links missing in the new topology are down already. If not, they carry packets until the old rows are
    /// gone.
    pub failed: bool,
}

/// A differing row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowChange {
    /// The switch.
    pub switch: String,
    /// The switch of the destinations.
    pub destination: String,
    /// VLAN and port before.
    pub before: Option<(u16, String)>,
    /// VLAN and port after.
    pub after: Option<(u16, String)>,
}

/// Old tables, new tables and their relation.
#[derive(Clone, Debug)]
pub struct Update {
    /// The union of both graphs.
    pub union: Union,
    /// The old tables on it.
    pub before: Tables,
    /// The new tables on it.
    pub after: Tables,
    /// VLANs that keep their number: rows for common destinations are equal.
    pub kept: Vec<u16>,
    /// The numbers of the others: old, new. A VLAN of only one of them has no counterpart.
    pub renumbered: Vec<(Option<u16>, Option<u16>)>,
    /// Ordered pairs of hosts whose routes all used failed links.
    pub lost_before: u64,
    /// Notes on unusual measures.
    pub notes: Vec<String>,
}

impl Update {
    /// Plans tables for `new` close to `tables`, which are for `old`.
    ///
    /// # Errors
    /// If the old tables can deadlock or rewrite lanes, a pair of the new topology has no path, or its route closes a
    /// cycle in every allowed lane.
    pub fn plan(
        old: (&Topology, &Labels),
        tables: &Tables,
        new: (&Topology, &Labels),
        settings: UpdateSettings,
        watch: &mut dyn Watch,
    ) -> Result<Update, RoutingError> {
        super::plannable(new.0)?;
        let target = SwitchGraph::new(new.0)?;
        super::reachable_switches(new.0, &target)?;
        let union = Union::of(old, new)?;
        let graph = SwitchGraph::new(&union.topology)?;
        let mut before = repair::carried_over(tables, &union, &graph);
        let lost_before = if settings.failed { repair::cut_failed(&mut before, &union) } else { 0 };
        let mut repair = Repair::new(&union, &graph, &before, settings.lanes)?;
        let after = repair.run(watch)?;
        let (notes, mut update) = (
            repair.into_notes(),
            Update {
                union,
                before,
                after,
                kept: Vec::new(),
                renumbered: Vec::new(),
                lost_before,
                notes: Vec::new(),
            },
        );
        update.notes = notes;
        update.number()?;
        Ok(update)
    }

    /// Gives new numbers to the VLANs whose rows in use change.
    fn number(&mut self) -> Result<(), RoutingError> {
        let taken: BTreeSet<u16> = self.before.vlans().iter().map(|vlan| vlan.id).collect();
        let mut free = (1..=4094_u16).filter(|id| !taken.contains(id));
        // Higher numbers first, so that a plan stays sorted.
        let highest = taken.last().copied().unwrap_or(0);
        let mut fresh =
            (highest.saturating_add(1).max(1)..=4094).chain(free.by_ref().filter(|id| *id < highest));
        let old: BTreeMap<u16, usize> =
            self.before.vlans().iter().enumerate().map(|(position, vlan)| (vlan.id, position)).collect();
        let mut vlans: Vec<Vlan> = self.after.vlans().to_vec();
        for (position, vlan) in vlans.iter_mut().enumerate() {
            let before = old.get(&vlan.id).copied();
            if before.is_some_and(|before| self.agrees(before, position)) {
                self.kept.push(vlan.id);
                continue;
            }
            let id = fresh.next().ok_or(RoutingError::Nothing("there are no VLAN numbers left"))?;
            self.renumbered.push((before.map(|_| vlan.id), Some(id)));
            vlan.id = id;
        }
        let after: BTreeSet<u16> =
            self.kept.iter().copied().chain(self.renumbered.iter().filter_map(|r| r.0)).collect();
        self.renumbered.extend(taken.difference(&after).map(|id| (Some(*id), None)));
        let trees = self.after.trees.clone();
        self.after = Tables::new(self.after.graph.clone(), self.after.nodes(), vlans, trees).in_order();
        Ok(())
    }

    /// Whether all rows for common hosts are equal.
    fn agrees(&self, before: usize, after: usize) -> bool {
        // A moved host has rows under one name for two places, which no VLAN can hold at once.
        self.union.moved.is_empty()
            && self.union.topology.hosts().all(|host| {
                match (self.before.tree_of(before, host), self.after.tree_of(after, host)) {
                    (Some(old), Some(new)) => {
                        self.before.trees[old as usize].next == self.after.trees[new as usize].next
                    }
                    _ => true,
                }
            })
    }

    /// Old and new rows together, as in the switches between the first step and the last.
    pub fn during(&self) -> Tables {
        let mut vlans: BTreeMap<u16, Vlan> = BTreeMap::new();
        for vlan in self.before.vlans().iter().chain(self.after.vlans()) {
            vlans.insert(vlan.id, vlan.clone());
        }
        let position: BTreeMap<u16, usize> = vlans.keys().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut trees = Vec::new();
        let mut covered: BTreeSet<(usize, NodeId)> = BTreeSet::new();
        for tables in [&self.after, &self.before] {
            for tree in &tables.trees {
                let mut tree = tree.clone();
                tree.vlan = position[&tables.vlans()[tree.vlan].id];
                tree.hosts.retain(|host| !covered.contains(&(tree.vlan, *host)));
                covered.extend(tree.hosts.iter().map(|host| (tree.vlan, *host)));
                if !tree.hosts.is_empty() {
                    trees.push(tree);
                }
            }
        }
        trees.sort_by_key(|tree| (tree.vlan, tree.row, tree.hosts[0]));
        Tables::new(self.after.graph.clone(), self.after.nodes(), vlans.into_values().collect(), trees)
    }

    /// Whether packets on old and new routes, in any mixture, cannot wait for each other in a cycle.
    ///
    /// # Errors
    /// If there are too many pairs of buffers to keep.
    pub fn mixes(&self) -> Result<bool, RoutingError> {
        Ok(dependency_graph(&self.union.topology, &[&self.before, &self.after])?.is_acyclic())
    }

    /// Port names of the new topology; ports shared with the old one keep the names of the old tables.
    pub fn labels(&self, new: &Labels) -> Labels {
        self.union.labels_of_new(new)
    }

    /// The new tables on the new topology alone.
    ///
    /// # Errors
    /// If a host does not have exactly one link.
    pub fn on_new(&self, new: &Topology) -> Result<Tables, RoutingError> {
        repair::carried_to_new(&self.after, &self.union, new)
    }

    /// The differing rows.
    pub fn changes(&self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        let ids = self.kept.iter().map(|id| (Some(*id), Some(*id))).chain(self.renumbered.iter().copied());
        for (old, new) in ids {
            let rows = |tables: &Tables, id: Option<u16>| {
                let vlan = id.and_then(|id| tables.vlans().iter().position(|vlan| vlan.id == id));
                vlan.map_or_else(BTreeMap::new, |vlan| self.rows(tables, vlan))
            };
            let (before, after) = (rows(&self.before, old), rows(&self.after, new));
            let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
            for key in keys {
                let one = |rows: &BTreeMap<(String, String), String>, id: Option<u16>| {
                    Some((id?, rows.get(&key)?.clone()))
                };
                let (before, after) = (one(&before, old), one(&after, new));
                if before.as_ref().map(|row| &row.1) != after.as_ref().map(|row| &row.1) {
                    let (switch, destination) = key;
                    changes.push(RowChange { switch, destination, before, after });
                }
            }
        }
        changes
    }

    /// The port for each (switch, switch of the destinations) of a VLAN.
    fn rows(&self, tables: &Tables, vlan: usize) -> BTreeMap<(String, String), String> {
        let (graph, topology) = (&tables.graph, &self.union.topology);
        let name = |switch: u32| topology.nodes()[graph.node(switch)].name.clone();
        let mut rows = BTreeMap::new();
        for tree in tables.trees.iter().filter(|tree| tree.vlan == vlan) {
            let to = name(graph.attachments()[tree.row as usize]);
            for (switch, port) in tree.next.iter().enumerate() {
                if (port.0 as usize) < graph.port_count() {
                    let port = self.union.labels.port_or_default(topology, *port);
                    rows.insert((name(switch as u32), to.clone()), port);
                }
            }
        }
        rows
    }
}
