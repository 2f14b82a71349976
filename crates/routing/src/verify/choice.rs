//! Look-ups in forwarding tables. A sender needs the VLANs to a destination, the links of their routes, and
//! the VLAN with the least load. A switch needs its port for a (VLAN, destination).
//!
//! The load of a link is the sum of the flows or bits per second assigned to it, divided by the rate of the
//! link. The links of the two hosts are the same in every VLAN and do not count. The assignment is greedy:
//! demands are assigned in descending order to the VLAN with the least loaded bottleneck link, then all
//! demands once more.

use super::lengths::nearly_shortest;
use super::tables::DELIVER;
use super::{RouteLengths, Tables};
use crate::walks::Hop;
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, PortId};

/// The demand from one host to another, in any unit that all demands share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// The amount of the demand.
    pub amount: f64,
}

impl Tables {
    /// The port of a switch (by its dense number) for `host` in the VLAN with this index; [`PortId::NONE`] if
    /// the table has no row.
    #[inline]
    pub fn look_up(&self, vlan: usize, switch: u32, host: NodeId) -> PortId {
        match self.tree_of[vlan * self.graph.node_count() + host.0 as usize] {
            u32::MAX => PortId::NONE,
            tree => match self.trees[tree as usize].next[switch as usize] {
                DELIVER => self.graph.uplink(host).reverse(),
                port => port,
            },
        }
    }

    /// Follows the route from host to host in the VLAN with this index and calls `visit` with the ports
    /// between switches; returns false if the packet does not arrive or must not be sent.
    pub fn follow(&self, vlan: usize, from: NodeId, to: NodeId, mut visit: impl FnMut(PortId)) -> bool {
        let (Some(mut at), Some(tree)) = (self.graph.attachment(from), self.tree_of(vlan, to)) else {
            return false;
        };
        let tree = &self.trees[tree as usize];
        if !self.graph.attachment_row(at).is_some_and(|row| tree.allows(row)) {
            return false;
        }
        let last = self.graph.uplink(to).reverse();
        for _ in 0..=self.graph.len() {
            let port = tree.next[at as usize];
            if port == DELIVER || port == last {
                return true;
            }
            let Hop::To(next) = Hop::over(&self.graph, port) else { return false };
            visit(port);
            at = next;
        }
        false
    }

    /// Writes the ports from host `from` to host `to` in the VLAN with this index into `out`, beginning with
    /// the sender's port; returns false if the sender must not use the VLAN or the packets do not arrive.
    pub fn carries(&self, vlan: usize, from: NodeId, to: NodeId, out: &mut Vec<PortId>) -> bool {
        out.clear();
        out.push(self.graph.uplink(from));
        let arrives = self.follow(vlan, from, to, |port| out.push(port));
        out.push(self.graph.uplink(to).reverse());
        arrives
    }

    /// Number of links between switches on the route, if the packet arrives and may be sent.
    pub fn length(&self, vlan: usize, from: NodeId, to: NodeId) -> Option<u16> {
        let mut links = 0;
        self.follow(vlan, from, to, |_| links += 1).then_some(links)
    }

    /// Writes the indices of the VLANs from `from` to `to` whose routes have at most `slack` links more than
    /// the shortest of these routes into `out`, ascending; the list is empty if no VLAN serves the pair.
    pub fn vlans_between(&self, from: NodeId, to: NodeId, slack: u16, out: &mut Vec<u16>) {
        nearly_shortest(self.vlans.len(), |vlan| self.length(vlan, from, to), slack, out);
    }

    /// Assigns a VLAN to each demand, so that the load of the busiest links is small; `None` for a pair that
    /// no VLAN serves.
    pub fn assign(&self, topology: &Topology, demands: &[Demand], slack: u16) -> Vec<Option<u16>> {
        const PASSES: usize = 2;
        let mut order: Vec<usize> = (0..demands.len()).collect();
        order.sort_by(|a, b| demands[*b].amount.total_cmp(&demands[*a].amount).then(a.cmp(b)));
        let mut chosen = vec![None; demands.len()];
        let mut load = LinkLoad::new(topology);
        let (lengths, mut vlans) = (RouteLengths::new(self), Vec::new());
        for _ in 0..PASSES {
            for index in &order {
                let Demand { from, to, amount } = demands[*index];
                if let Some(vlan) = chosen[*index] {
                    load.add(self, vlan, from, to, -amount);
                }
                lengths.vlans_between(from, to, slack, &mut vlans);
                chosen[*index] = load.least(self, &vlans, from, to);
                if let Some(vlan) = chosen[*index] {
                    load.add(self, vlan, from, to, amount);
                }
            }
        }
        chosen
    }
}

/// The load assigned to every link between switches, relative to the link's rate.
#[derive(Clone, Debug)]
pub struct LinkLoad {
    load: Vec<f64>,
    /// For each link, the load of one unit: the inverse of the link's rate in Gb/s.
    unit: Vec<f64>,
}

impl LinkLoad {
    /// Makes link loads of zero for `topology`.
    pub fn new(topology: &Topology) -> LinkLoad {
        let ports = 0..topology.port_count() as u32;
        let unit = |port| 1e9 / topology.channel(PortId(port)).rate.0 as f64;
        LinkLoad { load: vec![0.0; topology.port_count()], unit: ports.map(unit).collect() }
    }

    /// Adds `amount` to the links of a route; a negative amount removes load.
    pub fn add(&mut self, tables: &Tables, vlan: u16, from: NodeId, to: NodeId, amount: f64) {
        tables.follow(usize::from(vlan), from, to, |port| self.load[port.0 as usize] += amount);
    }

    /// The VLAN whose busiest link has the least load; ties are broken by the smaller total load, then by the
    /// order of the VLANs.
    pub fn least(&self, tables: &Tables, among: &[u16], from: NodeId, to: NodeId) -> Option<u16> {
        let cost = |vlan: u16| {
            let (mut most, mut sum) = (0.0_f64, 0.0);
            tables.follow(usize::from(vlan), from, to, |port| {
                let load = self.load[port.0 as usize] * self.unit[port.0 as usize];
                (most, sum) = (most.max(load), sum + load);
            });
            (most, sum)
        };
        let before = |a: (f64, f64), b: (f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
        let costs = among.iter().map(|vlan| (*vlan, cost(*vlan)));
        costs.min_by(|(_, a), (_, b)| before(*a, *b)).map(|(vlan, _)| vlan)
    }
}
