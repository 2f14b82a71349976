//! Forwarding tables: the egress port of a switch for a (VLAN, destination) pair, and the lane of each VLAN.
//!
//! The model is a lossless Ethernet with static tables from a planner: the sender selects the VLAN, the VLAN
//! determines the lane (an IEEE 802.1Q priority with its own pause), and the switches look up (VLAN,
//! destination). One row here serves all hosts at the same switch; a real table has one row per host. Not
//! supported: a change of lane or VLAN on the way.

use super::{RoutingError, bound_rows};
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};
use thiserror::Error;

/// Static forwarding tables of all switches.
#[derive(Clone, Debug)]
pub struct ForwardingTables {
    graph: SwitchGraph,
    /// The lane of each VLAN.
    lanes: Vec<u8>,
    /// The next hop; the index is (VLAN x edge switches + destination) x switches + switch.
    next: Vec<PortId>,
    /// One bit for each (VLAN, destination, source) of edge switches: set if the source may send; without
    /// this list, all sources may send.
    usable: Option<Vec<u64>>,
    /// Messages of the planner.
    notes: Vec<String>,
    /// Number of budget steps that the plan took, if counted.
    steps: Option<u64>,
    was_cut: bool,
}

/// Reasons why a packet does not arrive.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RouteError {
    /// A switch on the route has no table row for the destination.
    #[error("{at:?} has no row for {to:?} in VLAN {vlan}")]
    BlackHole {
        /// The switch.
        at: String,
        /// The destination.
        to: String,
        /// The VLAN.
        vlan: usize,
    },
    /// The packet returns to a switch that it visited before.
    #[error("VLAN {vlan} sends packets for {to:?} round in a circle through {at:?}")]
    Loop {
        /// A switch of the loop.
        at: String,
        /// The destination.
        to: String,
        /// The VLAN.
        vlan: usize,
    },
    /// The plan does not allow this source to use this VLAN.
    #[error("the plan does not let {from:?} send to {to:?} in VLAN {vlan}")]
    NotPlanned {
        /// The source.
        from: String,
        /// The destination.
        to: String,
        /// The VLAN.
        vlan: usize,
    },
}

/// Number of allowed (VLAN, source switch, destination switch) triples by outcome.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Number of (VLAN, source, destination) triples whose packets arrive.
    pub delivered: u64,
    /// Number of (VLAN, source, destination) triples whose packets meet a switch without a row.
    pub black_holes: u64,
    /// Number of (VLAN, source, destination) triples whose packets loop.
    pub loops: u64,
    /// Pairs (source switch, destination switch) that no VLAN serves.
    pub unreachable: Vec<(NodeId, NodeId)>,
    /// Size of the largest table, with one row for each VLAN and destination host.
    pub rows_max: u64,
}

/// The end of a walk along next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Arrives(u32),
    BlackHole,
    Loop,
}

impl ForwardingTables {
    /// Makes empty tables for VLANs with these lanes.
    ///
    /// # Errors
    /// If the tables do not fit into memory.
    pub fn new(graph: &SwitchGraph, lanes: Vec<u8>) -> Result<ForwardingTables, RoutingError> {
        bound_rows(&[lanes.len(), graph.attachments().len(), graph.len()])?;
        let rows = lanes.len() * graph.attachments().len() * graph.len();
        Ok(ForwardingTables {
            graph: graph.clone(),
            lanes,
            next: vec![PortId::NONE; rows],
            usable: None,
            notes: Vec::new(),
            steps: None,
            was_cut: false,
        })
    }

    /// The graph of the switches that the tables are for.
    pub fn graph(&self) -> &SwitchGraph {
        &self.graph
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
        self.lanes.len()
    }

    /// The lane of a VLAN's packets.
    pub fn lane(&self, vlan: usize) -> u8 {
        self.lanes[vlan]
    }

    /// Number of lanes: the highest lane plus one.
    pub fn lanes(&self) -> usize {
        self.lanes.iter().max().map_or(0, |lane| usize::from(*lane) + 1)
    }

    /// The next hops of all switches for one VLAN and one destination, indexed by the dense numbers of the
    /// switches. `row` is an index into [`SwitchGraph::attachments`].
    #[inline]
    pub fn tree(&self, vlan: usize, row: u32) -> &[PortId] {
        let start = (vlan * self.graph.attachments().len() + row as usize) * self.graph.len();
        &self.next[start..start + self.graph.len()]
    }

    /// Like [`Self::tree`], but mutable.
    pub fn tree_mut(&mut self, vlan: usize, row: u32) -> &mut [PortId] {
        let start = (vlan * self.graph.attachments().len() + row as usize) * self.graph.len();
        &mut self.next[start..start + self.graph.len()]
    }

    /// The port of switch `at` for the host `to`; at the switch of `to`, the port to the host.
    pub fn port(&self, vlan: usize, at: NodeId, to: NodeId) -> Option<PortId> {
        let down = self.graph.uplink(to).reverse();
        let (at, attachment) = (self.graph.number(at)?, self.graph.attachment(to)?);
        if at == attachment {
            return Some(down);
        }
        let row = self.graph.attachment_row(attachment)?;
        Some(self.tree(vlan, row)[at as usize]).filter(|port| *port != PortId::NONE)
    }

    /// Forbids all (VLAN, source, destination) triples that [`ForwardingTables::allow`] does not allow later.
    /// Plans that are proved for selected routes only, not for all routes that the tables could carry, need
    /// this (DFSSSP, LASH).
    pub fn forbid_all(&mut self) {
        let bits = self.lanes.len() * self.graph.attachments().len().pow(2);
        self.usable = Some(vec![0; bits.div_ceil(64)]);
    }

    /// Allows the hosts of edge switch `from` to send to the hosts of edge switch `to` in `vlan`.
    pub fn allow(&mut self, vlan: usize, from: u32, to: u32) {
        let bit = self.bit(vlan, from, to);
        if let Some(usable) = &mut self.usable {
            usable[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// True if hosts of edge switch `from` may send to hosts of edge switch `to` in `vlan`; always true
    /// within a switch.
    pub fn allows(&self, vlan: usize, from: u32, to: u32) -> bool {
        let bit = self.bit(vlan, from, to);
        from == to || self.usable.as_ref().is_none_or(|usable| usable[bit / 64] >> (bit % 64) & 1 == 1)
    }

    fn bit(&self, vlan: usize, from: u32, to: u32) -> usize {
        let count = self.graph.attachments().len();
        (vlan * count + to as usize) * count + from as usize
    }

    /// Writes the egress ports from host `from` to host `to` in `vlan` into `out`, starting with the host's
    /// own port; the route is empty if both hosts are the same.
    ///
    /// # Errors
    /// If the packet would not arrive or must not be sent; `out` then contains the ports up to the point of
    /// failure.
    pub fn route(
        &self,
        topology: &Topology,
        vlan: usize,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<PortId>,
    ) -> Result<(), RouteError> {
        let name = |node: NodeId| topology.nodes()[node].name.clone();
        out.clear();
        if from == to {
            return Ok(());
        }
        if let (Some(source), Some(target)) = (self.row_of(from), self.row_of(to))
            && !self.allows(vlan, source, target)
        {
            return Err(RouteError::NotPlanned { from: name(from), to: name(to), vlan });
        }
        out.push(self.graph.uplink(from));
        let mut at = topology.peer(self.graph.uplink(from));
        while at != to {
            if out.len() > self.graph.len() + 1 {
                return Err(RouteError::Loop { at: name(at), to: name(to), vlan });
            }
            let Some(port) = self.port(vlan, at, to) else {
                return Err(RouteError::BlackHole { at: name(at), to: name(to), vlan });
            };
            out.push(port);
            at = topology.peer(port);
        }
        Ok(())
    }

    /// The index of a host's edge switch.
    pub fn row_of(&self, host: NodeId) -> Option<u32> {
        self.graph.attachment(host).and_then(|switch| self.graph.attachment_row(switch))
    }

    /// Number of links between switches on each route; the index is (VLAN x edge switches + destination) x
    /// edge switches + source. `u16::MAX` means that the packet does not arrive or must not be sent.
    pub fn lengths(&self) -> Vec<u16> {
        let sources = self.graph.attachments();
        let mut lengths = Vec::with_capacity(self.lanes.len() * sources.len().pow(2));
        let mut ends = Vec::new();
        for vlan in 0..self.vlans() {
            for to in 0..sources.len() as u32 {
                self.ends(vlan, to, &mut ends);
                for (from, switch) in sources.iter().enumerate() {
                    let allowed = self.allows(vlan, from as u32, to);
                    lengths.push(match ends[*switch as usize] {
                        Some(End::Arrives(links)) if allowed => u16::try_from(links).unwrap_or(u16::MAX),
                        _ => u16::MAX,
                    });
                }
            }
        }
        lengths
    }

    /// Follows every (VLAN, source, destination) triple and counts the table rows.
    pub fn audit(&self) -> Audit {
        let sources = self.graph.attachments();
        let mut audit = Audit::default();
        let mut served = vec![false; sources.len().pow(2)];
        let mut rows = vec![0_u64; self.graph.len()];
        let mut ends = Vec::new();
        for vlan in 0..self.vlans() {
            for (to, target) in sources.iter().enumerate() {
                self.ends(vlan, to as u32, &mut ends);
                let hosts = self.graph.hosts(*target).len() as u64;
                for (switch, port) in self.tree(vlan, to as u32).iter().enumerate() {
                    rows[switch] +=
                        if *port != PortId::NONE || switch == *target as usize { hosts } else { 0 };
                }
                for (from, source) in sources.iter().enumerate() {
                    if !self.allows(vlan, from as u32, to as u32) {
                        continue;
                    }
                    match ends[*source as usize] {
                        Some(End::Arrives(_)) => {
                            audit.delivered += 1;
                            served[to * sources.len() + from] = true;
                        }
                        Some(End::Loop) => audit.loops += 1,
                        _ => audit.black_holes += 1,
                    }
                }
            }
        }
        let node = |row: usize| self.graph.node(sources[row]);
        let missing = served.iter().enumerate().filter(|(_, served)| !**served);
        audit.unreachable =
            missing.map(|(pair, _)| (node(pair % sources.len()), node(pair / sources.len()))).collect();
        audit.rows_max = rows.into_iter().max().unwrap_or(0);
        audit
    }

    /// Determines for every switch how a walk to edge switch `to` ends.
    fn ends(&self, vlan: usize, to: u32, ends: &mut Vec<Option<End>>) {
        let tree = self.tree(vlan, to);
        ends.clear();
        ends.resize(self.graph.len(), None);
        ends[self.graph.attachments()[to as usize] as usize] = Some(End::Arrives(0));
        let mut walk: Vec<u32> = Vec::new();
        for start in 0..self.graph.len() as u32 {
            let mut at = start;
            // Marks each visited switch as a loop until the walk ends elsewhere.
            let mut end = loop {
                if let Some(end) = ends[at as usize] {
                    break end;
                }
                ends[at as usize] = Some(End::Loop);
                walk.push(at);
                match tree[at as usize] {
                    PortId::NONE => break End::BlackHole,
                    port => match self.graph.head(port) {
                        Some(next) => at = next,
                        None => break End::BlackHole,
                    },
                }
            };
            while let Some(at) = walk.pop() {
                if let End::Arrives(links) = end {
                    end = End::Arrives(links + 1);
                }
                ends[at as usize] = Some(end);
            }
        }
    }

    /// Combines both plans: the VLANs of `other` follow the VLANs of this plan, in separate lanes, for
    /// example to add a protection lane.
    ///
    /// # Errors
    /// If there would be more than 256 lanes.
    ///
    /// # Panics
    /// If the plans are for different switches.
    pub fn beside(mut self, other: &ForwardingTables) -> Result<ForwardingTables, RoutingError> {
        assert!(
            self.graph.len() == other.graph.len() && self.graph.attachments() == other.graph.attachments(),
            "two plans can be joined only if they are for the same switches"
        );
        let lanes = self.lanes() + other.lanes();
        if lanes > 256 {
            return Err(RoutingError::Lanes { needed: lanes, allowed: 256, pair: None });
        }
        let (shift, vlans) = (self.lanes() as u8, self.vlans());
        let rows = self.graph.attachments().len() as u32;
        let triples = |vlans: usize| {
            (0..vlans)
                .flat_map(move |v| (0..rows).flat_map(move |from| (0..rows).map(move |to| (v, from, to))))
        };
        let restricted = self.usable.is_some() || other.usable.is_some();
        let allowed: Vec<_> = if restricted {
            let mine = triples(vlans).filter(|(v, from, to)| self.allows(*v, *from, *to));
            let theirs = triples(other.vlans()).filter(|(v, from, to)| other.allows(*v, *from, *to));
            mine.chain(theirs.map(|(v, from, to)| (v + vlans, from, to))).collect()
        } else {
            Vec::new()
        };
        self.lanes.extend(other.lanes.iter().map(|lane| lane + shift));
        self.next.extend_from_slice(&other.next);
        if restricted {
            self.forbid_all();
            for (vlan, from, to) in allowed {
                self.allow(vlan, from, to);
            }
        }
        Ok(self)
    }
}
