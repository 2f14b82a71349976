//! Plans the transition from tables in use to tables for another topology, without a moment in which packets
//! deadlock, loop or are lost.
//!
//! The new tables stay close to the old tables: a table row changes only if its route is gone, and new routes
//! take only turns that close no cycle with the turns of all old routes in the same lane. So packets in old
//! VLANs and packets in new VLANs can wait for each other in any mixture without deadlock. Table rows in use
//! never change: a VLAN whose rows change gets a new number, senders move to the new VLAN once all its rows
//! are installed, and the rows of the old VLAN are removed when no sender uses them (make before break).
//! Hence the order in which switches or hosts carry out a step does not matter. Changing rows in place would
//! be unsafe, even if the union of old and new rows is acyclic: a half-updated table mixes routes that
//! neither table contains.

mod repair;
mod union;

pub use union::Union;

use super::RoutingError;
use super::verify::{Tables, Vlan, dependency_graph};
use crate::watch::Watch;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::NodeId;
use repair::Repair;
use std::collections::{BTreeMap, BTreeSet};

/// Settings of an update.
#[derive(Clone, Copy, Debug)]
pub struct UpdateSettings {
    /// Maximum number of lanes, including the lanes of the old tables. A further lane is used only for pairs
    /// that fit into no other lane.
    pub lanes: usize,
    /// True if the links that are absent from the new topology are down already; if false, these links carry
    /// packets until the old rows are removed.
    pub failed: bool,
}

/// A table row that an update changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowChange {
    /// The switch.
    pub switch: String,
    /// The switch that the destination hosts are attached to.
    pub destination: String,
    /// VLAN and port before.
    pub before: Option<(u16, String)>,
    /// VLAN and port after.
    pub after: Option<(u16, String)>,
}

/// The old tables, the new tables and the union of their topologies.
#[derive(Clone, Debug)]
pub struct Update {
    /// The union of the old and the new topology.
    pub union: Union,
    /// The old tables, as tables of the union.
    pub before: Tables,
    /// The new tables, as tables of the union.
    pub after: Tables,
    /// VLANs that keep their number, because their old and new rows for common destinations are equal.
    pub kept: Vec<u16>,
    /// The old and the new number of each other VLAN; one number if the VLAN exists on one side only.
    pub renumbered: Vec<(Option<u16>, Option<u16>)>,
    /// Number of ordered pairs of hosts whose routes all crossed failed links.
    pub lost_before: u64,
    /// Messages on unusual decisions of the planner.
    pub notes: Vec<String>,
}

impl Update {
    /// Plans tables for the topology `new` that stay close to `tables`, the tables of `old`.
    ///
    /// # Errors
    /// If the old tables can deadlock or rewrite lanes, a pair of the new topology has no path, or its route
    /// closes a cycle in every allowed lane.
    pub fn plan(
        old: (&Topology, &Labels),
        tables: &Tables,
        new: (&Topology, &Labels),
        settings: UpdateSettings,
        watch: &mut dyn Watch,
    ) -> Result<Update, RoutingError> {
        super::plannable(new.0)?;
        let target = SwitchGraph::new(new.0)?;
        super::planes::check(new.0, &target)?;
        let union = Union::of(old, new)?;
        let graph = SwitchGraph::new(&union.topology)?;
        let mut before = repair::carried_over(tables, &union, &graph);
        let served = repair::served(&before);
        let lost_before = if settings.failed { repair::cut_failed(&mut before, &union) } else { 0 };
        let mut repair = Repair::new(&union, [&graph, &target], (&before, &served), settings.lanes)?;
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

    /// Gives new numbers to VLANs in which table rows in use change.
    fn number(&mut self) -> Result<(), RoutingError> {
        let taken: BTreeSet<u16> = self.before.vlans().iter().map(|vlan| vlan.id).collect();
        let mut free = (1..=4094_u16).filter(|id| !taken.contains(id));
        // Prefer higher numbers, so that the VLAN numbers of a plan ascend.
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
        self.after = Tables::new(self.after.graph.clone(), vlans, trees).in_order();
        Ok(())
    }

    /// True if all table rows for hosts in both tables are equal.
    fn agrees(&self, before: usize, after: usize) -> bool {
        // A host that moves has rows in the tables for two switches, which one VLAN cannot contain at the
        // same time.
        self.union.moved.is_empty()
            && self.union.topology.host_ports().all(|host| {
                match (self.before.tree_of(before, host), self.after.tree_of(after, host)) {
                    (Some(old), Some(new)) => {
                        self.before.trees[old as usize].next == self.after.trees[new as usize].next
                    }
                    _ => true,
                }
            })
    }

    /// The old and the new tables together, as the switches hold them between the first and the last step.
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
        Tables::new(self.after.graph.clone(), vlans.into_values().collect(), trees)
    }

    /// True if no mixture of packets on old and on new routes can deadlock.
    ///
    /// # Errors
    /// If there are too many pairs of buffers to store.
    pub fn mixes(&self) -> Result<bool, RoutingError> {
        Ok(dependency_graph(&self.union.topology, &[&self.before, &self.after])?.is_acyclic())
    }

    /// The port names of the new topology; ports that also exist in the old topology have their old names.
    pub fn labels(&self, new: &Labels) -> Labels {
        self.union.labels_of_new(new)
    }

    /// The new tables as tables of the new topology alone.
    ///
    /// # Errors
    /// If a host does not have exactly one link.
    pub fn on_new(&self, new: &Topology) -> Result<Tables, RoutingError> {
        repair::carried_to_new(&self.after, &self.union, new)
    }

    /// The table rows that the update changes.
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
