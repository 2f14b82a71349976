//! Forwarding tables as in real switches: a port for each (switch, VLAN, destination host), and the lane of
//! each VLAN, which a switch may rewrite.
//!
//! Hosts at the same switch that have the same table rows in a VLAN share one [`Tree`]. So a plan of ours needs
//! one tree for each switch with hosts, and a table with a different route for each host fits too. Not
//! supported: a change of the VLAN on the way, several next hops for one row.

use crate::walks::{Hop, links_to_go};
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
    /// This tree of one part of a graph as a tree of the whole graph; `vlans`: number of VLANs of the parts before.
    pub(crate) fn in_whole(&self, part: &SwitchGraph, whole: &SwitchGraph, vlans: usize) -> Tree {
        let number = |switch: u32| whole.number(part.node(switch)).expect("the part lies in the whole");
        let row_of = |row: u32| whole.attachment_row(number(part.attachments()[row as usize]));
        let row_of = |row: u32| row_of(row).expect("switches with hosts keep them");
        let mut next = vec![PortId::NONE; whole.len()];
        for (switch, port) in (0..).zip(&self.next) {
            next[number(switch) as usize] = *port;
        }
        let senders = self.senders.as_ref().map(|_| {
            let mut senders = vec![0_u64; whole.attachments().len().div_ceil(64)];
            for row in (0..part.attachments().len() as u32).filter(|row| self.allows(*row)).map(row_of) {
                senders[row as usize / 64] |= 1 << (row % 64);
            }
            senders
        });
        Tree { vlan: vlans + self.vlan, hosts: self.hosts.clone(), row: row_of(self.row), next, senders }
    }

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
}

impl Tables {
    pub(crate) fn new(graph: SwitchGraph, vlans: Vec<Vlan>, trees: Vec<Tree>) -> Tables {
        let nodes = graph.node_count();
        let mut tree_of = vec![u32::MAX; vlans.len() * nodes];
        for (i, tree) in trees.iter().enumerate() {
            for host in &tree.hosts {
                tree_of[tree.vlan * nodes + host.0 as usize] = i as u32;
            }
        }
        Tables { graph, vlans, trees, tree_of }
    }

    /// Sorts VLANs by number and trees by VLAN and destination, as in a file: a plan based on tables must not
    /// depend on how the tables were made.
    #[must_use]
    pub(crate) fn in_order(self) -> Tables {
        let Tables { graph, vlans, mut trees, .. } = self;
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
        Tables::new(graph, vlans, trees)
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
        Some(self.tree_of[vlan * self.graph.node_count() + host.0 as usize]).filter(|tree| *tree != u32::MAX)
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

    /// Number of ordered pairs of switches with different hosts that no VLAN serves if the links in `failed` are down
    /// and the tables are unchanged; and the number of all pairs, each within a plane.
    pub fn pairs_lost(&self, failed: &[LinkId]) -> (u64, u64) {
        let attachments = self.graph.attachments();
        let mut down = vec![false; self.graph.port_count() / 2];
        for link in failed {
            down[link.0 as usize] = true;
        }
        let mut served = vec![false; attachments.len().pow(2)];
        for tree in &self.trees {
            let to_host = |port| tree.hosts.iter().any(|host| self.graph.uplink(*host).reverse() == port);
            let next = |at: u32| match tree.next[at as usize] {
                DELIVER => Hop::Arrives,
                port if port == PortId::NONE || down[port.link().0 as usize] => Hop::Lost,
                port => match Hop::over(&self.graph, port) {
                    Hop::Lost if to_host(port) => Hop::Arrives,
                    hop => hop,
                },
            };
            let links = links_to_go(&self.graph, attachments.iter().copied(), next);
            for (from, switch) in attachments.iter().enumerate() {
                let fine = links[*switch as usize].is_some() && tree.allows(from as u32);
                served[from * attachments.len() + tree.row as usize] |= fine;
            }
        }
        let others = (0..served.len()).filter(|pair| {
            let rows = [pair / attachments.len(), pair % attachments.len()];
            let hosts = |row: usize| self.graph.hosts(attachments[row]);
            rows[0] != rows[1]
                && self.graph.joins(rows.map(|row| row as u32))
                && self.graph.pair_of_hosts(hosts(rows[0]), hosts(rows[1])).is_some()
        });
        let (all, served) =
            others.fold((0, 0), |(all, fine), pair| (all + 1, fine + u64::from(served[pair])));
        (all - served, all)
    }

    /// The size of every switch's table, with `rows_of` rows for each VLAN and group of hosts at a switch that
    /// share their rows.
    pub(crate) fn rows(&self, rows_of: impl Fn(&[NodeId]) -> u64) -> Vec<u64> {
        let mut rows = vec![0; self.graph.len()];
        for tree in &self.trees {
            for (rows, next) in rows.iter_mut().zip(&tree.next) {
                *rows += if *next == PortId::NONE { 0 } else { rows_of(&tree.hosts) };
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
