//! A plan: forwarding tables that an engine fills, with its messages.
//!
//! The model is a lossless Ethernet with static tables from a planner: the sender selects the VLAN, the VLAN
//! determines the lane (an IEEE 802.1Q priority with its own pause), and the switches look up (VLAN,
//! destination). One row here serves all hosts at the same switch; a real table has one row per host. Not
//! supported: a change of lane or VLAN on the way.

use super::verify::{DELIVER, Tables, Tree, Vlan};
use super::walks::{Hop, links_to_go};
use super::{RoutingError, bound_rows};
use pauseframe_topology::SwitchGraph;
use pauseframe_units::PortId;
use std::collections::BTreeMap;

/// Static forwarding tables of all switches, with a tree for each VLAN and edge switch.
#[derive(Clone, Debug)]
pub struct ForwardingTables {
    /// The tables without VLAN numbers and without the rows at the destinations' own switches.
    tables: Tables,
    /// Messages of the planner.
    notes: Vec<String>,
    /// Number of budget steps that the plan took, if counted.
    steps: Option<u64>,
    was_cut: bool,
}

impl ForwardingTables {
    /// Makes empty tables for VLANs with these lanes.
    ///
    /// # Errors
    /// If the tables do not fit into memory.
    pub fn new(graph: &SwitchGraph, lanes: Vec<u8>) -> Result<ForwardingTables, RoutingError> {
        bound_rows(&[lanes.len(), graph.attachments().len(), graph.len()])?;
        let tree = |vlan: usize, row: u32| {
            let hosts = graph.hosts(graph.attachments()[row as usize]).to_vec();
            Tree { vlan, hosts, row, next: vec![PortId::NONE; graph.len()], senders: None }
        };
        let rows = 0..graph.attachments().len() as u32;
        let trees = (0..lanes.len()).flat_map(|vlan| rows.clone().map(move |row| tree(vlan, row))).collect();
        let vlans = lanes.into_iter().map(|lane| Vlan { id: 0, lane, lane_at: BTreeMap::new() }).collect();
        let tables = Tables::new(graph.clone(), vlans, trees);
        Ok(ForwardingTables { tables, notes: Vec::new(), steps: None, was_cut: false })
    }

    /// Joins the tables of the parts of `graph`, whose VLANs then count on from part to part.
    pub(crate) fn of_planes(
        graph: &SwitchGraph,
        planes: &[ForwardingTables],
    ) -> Result<ForwardingTables, RoutingError> {
        let trees: usize = planes.iter().map(|plane| plane.tables.trees.len()).sum();
        bound_rows(&[trees, graph.len()])?;
        let (mut vlans, mut trees, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (number, plane) in planes.iter().enumerate() {
            let tables = &plane.tables;
            trees.extend(tables.trees.iter().map(|tree| tree.in_whole(&tables.graph, graph, vlans.len())));
            vlans.extend(tables.vlans.iter().cloned());
            notes.extend(plane.notes.iter().map(|note| format!("plane {number}: {note}")));
        }
        let was_cut = planes.iter().any(ForwardingTables::was_cut);
        let tables = Tables::new(graph.clone(), vlans, trees);
        Ok(ForwardingTables { tables, notes, steps: None, was_cut })
    }

    /// The graph of the switches that the tables are for.
    pub fn graph(&self) -> &SwitchGraph {
        &self.tables.graph
    }

    /// Adds a message for the user who requested the plan.
    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// What the planner tried and the reasons for its choice, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of steps that the plan took. The same budget with this number as `stop_at` gives the same plan,
    /// even if the search was ended early.
    pub fn steps(&self) -> Option<u64> {
        self.steps
    }

    /// True if the search was cut short.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    pub(crate) fn set_steps(&mut self, steps: u64, was_cut: bool) {
        (self.steps, self.was_cut) = (Some(steps), was_cut);
    }

    /// Number of VLANs.
    pub fn vlans(&self) -> usize {
        self.tables.vlans.len()
    }

    /// The lane of a VLAN's packets.
    pub fn lane(&self, vlan: usize) -> u8 {
        self.tables.vlans[vlan].lane
    }

    /// Number of lanes: the highest lane plus one.
    pub fn lanes(&self) -> usize {
        self.tables.lanes()
    }

    /// The tree of a VLAN to the hosts of an edge switch, which lies in the VLAN's plane.
    #[inline]
    fn place(&self, vlan: usize, row: u32) -> usize {
        let graph = self.graph();
        if graph.part_count() < 2 {
            return vlan * graph.attachments().len() + row as usize;
        }
        let host = graph.hosts(graph.attachments()[row as usize])[0];
        self.tables.tree_of(vlan, host).expect("a VLAN has trees to all switches of its plane") as usize
    }

    /// The next hops of all switches for one VLAN and one destination, indexed by the dense numbers of the
    /// switches. `row` is an index into [`SwitchGraph::attachments`].
    #[inline]
    pub fn tree(&self, vlan: usize, row: u32) -> &[PortId] {
        &self.tables.trees[self.place(vlan, row)].next
    }

    /// Like [`Self::tree`], but mutable.
    pub fn tree_mut(&mut self, vlan: usize, row: u32) -> &mut [PortId] {
        let place = self.place(vlan, row);
        &mut self.tables.trees[place].next
    }

    /// Forbids all (VLAN, source, destination) triples that [`ForwardingTables::allow`] does not allow later.
    /// Plans that are proved for selected routes only, not for all routes that the tables could carry, need
    /// this (DFSSSP, LASH).
    pub fn forbid_all(&mut self) {
        let words = self.graph().attachments().len().div_ceil(64);
        for place in 0..self.tables.trees.len() {
            self.tables.trees[place].senders = Some(vec![0; words]);
            let Tree { vlan, row, .. } = self.tables.trees[place];
            self.allow(vlan, row, row);
        }
    }

    /// Allows the hosts of edge switch `from` to send to the hosts of edge switch `to` in `vlan`.
    pub fn allow(&mut self, vlan: usize, from: u32, to: u32) {
        let place = self.place(vlan, to);
        if let Some(senders) = &mut self.tables.trees[place].senders {
            senders[from as usize / 64] |= 1 << (from % 64);
        }
    }

    /// True if hosts of edge switch `from` may send to hosts of edge switch `to` in `vlan`; always true
    /// within a switch.
    pub fn allows(&self, vlan: usize, from: u32, to: u32) -> bool {
        self.tables.trees[self.place(vlan, to)].allows(from)
    }

    /// Number of links between switches on the shortest route of any VLAN; the index is destination x edge
    /// switches + source. `u16::MAX` means that no VLAN serves the pair.
    pub fn shortest(&self) -> Vec<u16> {
        let sources = self.graph().attachments();
        let mut shortest = vec![u16::MAX; sources.len().pow(2)];
        for vlan in 0..self.vlans() {
            for (to, target) in sources.iter().enumerate() {
                let tree = self.tree(vlan, to as u32);
                let next = |at| {
                    if at == *target { Hop::Arrives } else { Hop::over(self.graph(), tree[at as usize]) }
                };
                let links = links_to_go(self.graph(), sources.iter().copied(), next);
                for (from, switch) in sources.iter().enumerate() {
                    if let Some(links) =
                        links[*switch as usize].filter(|_| self.allows(vlan, from as u32, to as u32))
                    {
                        let least = &mut shortest[to * sources.len() + from];
                        *least = (*least).min(links);
                    }
                }
            }
        }
        shortest
    }

    /// The pairs (source, destination) of edge switches that no VLAN serves.
    pub(crate) fn unserved(&self) -> Vec<(u32, u32)> {
        let sources = self.graph().attachments().len();
        let missing = self.shortest().into_iter().enumerate().filter(|(_, links)| *links == u16::MAX);
        missing.map(|(pair, _)| ((pair % sources) as u32, (pair / sources) as u32)).collect()
    }
}

impl Tables {
    /// The tables of a plan, with VLANs numbered from `first_id`.
    ///
    /// # Panics
    /// If there are more VLANs than VLAN numbers.
    pub fn of_plan(plan: &ForwardingTables, first_id: u16) -> Tables {
        let mut tables = plan.tables.clone();
        for (vlan, place) in tables.vlans.iter_mut().zip(0..) {
            vlan.id = first_id.checked_add(place).expect("a VLAN has 16 bits at most");
        }
        let attachments = tables.graph.attachments();
        for tree in &mut tables.trees {
            tree.next[attachments[tree.row as usize] as usize] = DELIVER;
            if (0..attachments.len() as u32).all(|from| tree.allows(from)) {
                tree.senders = None;
            }
        }
        tables
    }
}
