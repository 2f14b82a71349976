//! Forwarding tables as in real switches: a port for each (switch, VLAN, destination host), and the lane of
//! each VLAN, which a switch may rewrite.
//!
//! Hosts at the same switch that have the same table rows in a VLAN share one [`Tree`]. So a plan of ours
//! needs no more memory than in [`ForwardingTables`], and a table with a different route for each host fits
//! too. Not supported: a change of the VLAN on the way, several next hops for one row.

use crate::ForwardingTables;
use pauseframe_topology::SwitchGraph;
use pauseframe_units::{LinkId, NodeId, PortId};
use std::collections::BTreeMap;

/// Next hop at the hosts' own switch; it stands for the different ports to the hosts of one tree.
pub(crate) const DELIVER: PortId = PortId(u32::MAX - 1);

/// A VLAN and the lane (priority, virtual lane) of its packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// Number of the VLAN in files and on the wire.
    pub id: u16,
    /// The lane in which switches send the VLAN's packets.
    pub lane: u8,
    /// The switches that send the VLAN's packets in another lane, which represents a rewrite of the priority.
    pub lane_at: BTreeMap<NodeId, u8>,
}

/// The next hops to a group of hosts at one switch in one VLAN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tree {
    /// Index into [`Tables::vlans`].
    pub(crate) vlan: usize,
    /// The hosts, ascending.
    pub(crate) hosts: Vec<NodeId>,
    /// The index of the hosts' edge switch.
    pub(crate) row: u32,
    /// The port of every switch; [`PortId::NONE`] without a row, [`DELIVER`] at the hosts' switch.
    pub(crate) next: Vec<PortId>,
    /// The edge switches whose hosts may send, one bit each; without a list, all may send.
    pub(crate) senders: Option<Vec<u64>>,
}

impl Tree {
    pub(crate) fn allows(&self, from: u32) -> bool {
        let bit = |senders: &Vec<u64>| senders[from as usize / 64] >> (from % 64) & 1 == 1;
        from == self.row || self.senders.as_ref().is_none_or(bit)
    }
}

/// Forwarding tables of all switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    pub(crate) graph: SwitchGraph,
    pub(crate) vlans: Vec<Vlan>,
    pub(crate) trees: Vec<Tree>,
    /// The tree at index VLAN index x nodes + host; `u32::MAX` if no switch has a row.
    pub(super) tree_of: Vec<u32>,
    nodes: usize,
}

impl Tables {
    pub(crate) fn new(graph: SwitchGraph, nodes: usize, vlans: Vec<Vlan>, trees: Vec<Tree>) -> Tables {
        let mut tree_of = vec![u32::MAX; vlans.len() * nodes];
        for (i, tree) in trees.iter().enumerate() {
            for host in &tree.hosts {
                tree_of[tree.vlan * nodes + host.0 as usize] = i as u32;
            }
        }
        Tables { graph, vlans, trees, tree_of, nodes }
    }

    /// Converts a plan to tables; its VLANs are numbered from `first_id`.
    ///
    /// # Panics
    /// If there are more VLANs than VLAN numbers.
    pub fn of_plan(plan: &ForwardingTables, first_id: u16) -> Tables {
        let graph = plan.graph();
        let rows = graph.attachments().len() as u32;
        let id =
            |vlan: usize| u16::try_from(usize::from(first_id) + vlan).expect("a VLAN has 16 bits at most");
        let vlan = |vlan| Vlan { id: id(vlan), lane: plan.lane(vlan), lane_at: BTreeMap::new() };
        let mut trees = Vec::with_capacity(plan.vlans() * rows as usize);
        for vlan in 0..plan.vlans() {
            for row in 0..rows {
                let target = graph.attachments()[row as usize];
                let mut next = plan.tree(vlan, row).to_vec();
                next[target as usize] = DELIVER;
                let senders = restricted(plan, vlan, row, rows);
                trees.push(Tree { vlan, hosts: graph.hosts(target).to_vec(), row, next, senders });
            }
        }
        let vlans = (0..plan.vlans()).map(vlan).collect();
        let nodes = graph.attachment_rows_of_nodes().len();
        Tables::new(graph.clone(), nodes, vlans, trees)
    }

    /// Sorts VLANs by number and trees by VLAN and destination, as in a file: a plan based on tables must not
    /// depend on how the tables were made.
    #[must_use]
    pub(crate) fn in_order(self) -> Tables {
        let Tables { graph, vlans, mut trees, nodes, .. } = self;
        let mut order: Vec<usize> = (0..vlans.len()).collect();
        order.sort_by_key(|old| vlans[*old].id);
        let mut place = vec![0; vlans.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        for tree in &mut *trees {
            tree.vlan = place[tree.vlan];
        }
        trees.sort_by(|one, other| {
            (one.vlan, one.row, &one.hosts).cmp(&(other.vlan, other.row, &other.hosts))
        });
        let vlans = order.iter().map(|old| vlans[*old].clone()).collect();
        Tables::new(graph, nodes, vlans, trees)
    }

    /// Number of nodes in the topology.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// The switches and links that the tables are for.
    pub fn graph(&self) -> &SwitchGraph {
        &self.graph
    }

    /// The VLANs, ascending by number.
    pub fn vlans(&self) -> &[Vlan] {
        &self.vlans
    }

    /// Number of lanes: the highest lane plus one.
    pub fn lanes(&self) -> usize {
        let lanes = self.vlans.iter().flat_map(|vlan| vlan.lane_at.values().chain([&vlan.lane]));
        lanes.max().map_or(0, |lane| usize::from(*lane) + 1)
    }

    /// Assigns lanes to the VLANs of tables that have no lanes.
    ///
    /// # Errors
    /// The number of a VLAN that is not in `lanes`.
    pub fn assign_lanes(&mut self, lanes: &BTreeMap<u16, u8>) -> Result<(), u16> {
        for vlan in &mut self.vlans {
            vlan.lane = *lanes.get(&vlan.id).ok_or(vlan.id)?;
        }
        Ok(())
    }

    /// The same routes with all VLANs in one lane, as in networks where PAUSE stops whole links (IEEE 802.3
    /// Annex 31B).
    #[must_use]
    pub fn in_one_lane(&self) -> Tables {
        let mut merged = self.clone();
        for vlan in &mut merged.vlans {
            vlan.lane = 0;
            vlan.lane_at.clear();
        }
        merged
    }

    /// The tree of a host in the VLAN with this index.
    pub(crate) fn tree_of(&self, vlan: usize, host: NodeId) -> Option<u32> {
        Some(self.tree_of[vlan * self.nodes + host.0 as usize]).filter(|tree| *tree != u32::MAX)
    }

    /// The port of `switch` for `host` in the VLAN with this number.
    pub fn port(&self, vlan: u16, switch: NodeId, host: NodeId) -> Option<PortId> {
        let vlan = self.vlans.iter().position(|v| v.id == vlan)?;
        let tree = &self.trees[self.tree_of(vlan, host)? as usize];
        match tree.next[self.graph.number(switch)? as usize] {
            PortId::NONE => None,
            DELIVER => Some(self.graph.uplink(host).reverse()),
            port => Some(port),
        }
    }

    /// The egress ports from host `from` to host `to`, up to the point where the packet arrives, is lost, or
    /// comes to a port for the second time (the list then ends with this port again).
    pub fn route(&self, vlan: u16, from: NodeId, to: NodeId) -> Vec<PortId> {
        let mut route = vec![self.graph.uplink(from)];
        let mut at = self.graph.attachment(from);
        while let Some(switch) = at {
            let Some(port) = self.port(vlan, self.graph.node(switch), to) else { break };
            let again = route.contains(&port);
            route.push(port);
            at = self.graph.head(port).filter(|_| !again);
        }
        route
    }

    /// Writes the ports from host `from` to host `to` in the VLAN with this index into `out`, beginning with
    /// the sender's port; returns false if the sender must not use the VLAN or the packets do not arrive.
    pub fn carries(&self, vlan: usize, from: NodeId, to: NodeId, out: &mut Vec<PortId>) -> bool {
        out.clear();
        let Some(tree) = self.tree_of(vlan, to).map(|tree| &self.trees[tree as usize]) else { return false };
        let row = self.graph.attachment(from).and_then(|switch| self.graph.attachment_row(switch));
        if !row.is_some_and(|row| tree.allows(row)) {
            return false;
        }
        out.push(self.graph.uplink(from));
        let mut at = self.graph.attachment(from);
        while let Some(switch) = at.filter(|_| out.len() <= self.graph.len() + 1) {
            match tree.next[switch as usize] {
                PortId::NONE => return false,
                port if port == DELIVER || port == self.graph.uplink(to).reverse() => {
                    out.push(self.graph.uplink(to).reverse());
                    return true;
                }
                port => {
                    out.push(port);
                    at = self.graph.head(port);
                }
            }
        }
        false
    }

    /// Number of ordered pairs of switches with hosts that no VLAN serves if the links in `failed` are down
    /// and the tables are unchanged; and the number of all pairs.
    pub fn pairs_lost(&self, failed: &[LinkId]) -> (u64, u64) {
        let attachments = self.graph.attachments();
        let mut down = vec![false; self.graph.port_count() / 2];
        for link in failed {
            down[link.0 as usize] = true;
        }
        let mut served = vec![false; attachments.len().pow(2)];
        let (mut order, mut arrives) = (Vec::new(), Vec::new());
        for tree in &self.trees {
            self.arrivals(tree, &down, &mut order, &mut arrives);
            for (from, switch) in attachments.iter().enumerate() {
                let fine = arrives[*switch as usize] == Some(true) && tree.allows(from as u32);
                served[from * attachments.len() + tree.row as usize] |= fine;
            }
        }
        let others = (0..served.len()).filter(|pair| pair / attachments.len() != pair % attachments.len());
        let (all, served) =
            others.fold((0, 0), |(all, fine), pair| (all + 1, fine + u64::from(served[pair])));
        (all - served, all)
    }

    /// For each switch, whether packets arrive on `tree` without crossing a link that is `down`.
    fn arrivals(&self, tree: &Tree, down: &[bool], walk: &mut Vec<u32>, arrives: &mut Vec<Option<bool>>) {
        arrives.clear();
        arrives.resize(self.graph.len(), None);
        for start in 0..self.graph.len() as u32 {
            let mut at = start;
            let end = loop {
                if let Some(end) = arrives[at as usize] {
                    break end;
                }
                // Packets in a loop never arrive.
                arrives[at as usize] = Some(false);
                walk.push(at);
                match tree.next[at as usize] {
                    DELIVER => break true,
                    port if port == PortId::NONE || down[port.link().0 as usize] => break false,
                    port => match self.graph.head(port) {
                        Some(next) => at = next,
                        None => break tree.hosts.iter().any(|h| self.graph.uplink(*h).reverse() == port),
                    },
                }
            };
            for switch in walk.drain(..) {
                arrives[switch as usize] = Some(end);
            }
        }
    }

    /// The size of every switch's table, with one row for each VLAN and group of hosts at a switch that share
    /// their rows.
    pub(crate) fn rows_by_tree(&self) -> Vec<u64> {
        let mut rows = vec![0; self.graph.len()];
        for tree in &self.trees {
            for (rows, next) in rows.iter_mut().zip(&tree.next) {
                *rows += u64::from(*next != PortId::NONE);
            }
        }
        rows
    }

    /// The size of every switch's table, with one row for each VLAN and host.
    pub(crate) fn rows(&self) -> Vec<u64> {
        let mut rows = vec![0; self.graph.len()];
        for tree in &self.trees {
            for (rows, next) in rows.iter_mut().zip(&tree.next) {
                *rows += if *next == PortId::NONE { 0 } else { tree.hosts.len() as u64 };
            }
        }
        rows
    }

    /// The lane in which every switch sends the packets of a VLAN; the index is VLAN index x switches +
    /// switch.
    pub fn lane_table(&self) -> Vec<u8> {
        let lane = |vlan: &Vlan, switch: u32| {
            vlan.lane_at.get(&self.graph.node(switch)).copied().unwrap_or(vlan.lane)
        };
        let switches = 0..self.graph.len() as u32;
        self.vlans.iter().flat_map(|vlan| switches.clone().map(move |switch| lane(vlan, switch))).collect()
    }
}

/// The edge switches that may send, unless all may send.
fn restricted(plan: &ForwardingTables, vlan: usize, row: u32, rows: u32) -> Option<Vec<u64>> {
    let mut senders = vec![0_u64; (rows as usize).div_ceil(64)];
    let mut all = true;
    for from in 0..rows {
        if plan.allows(vlan, from, row) {
            senders[from as usize / 64] |= 1 << (from % 64);
        } else {
            all = false;
        }
    }
    (!all).then_some(senders)
}
