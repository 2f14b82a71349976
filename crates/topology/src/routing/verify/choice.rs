//! Look-ups for senders (which VLANs lead to a destination, along which links, with which load) and for switches (the
//! port for a VLAN and destination).
//!
//! The load of a link is a sum of flows or bits per second relative to its rate. The links of the two hosts are the
//! same in every VLAN and do not count. The planner's assignment is greedy: the largest demand first, each to the VLAN
//! whose busiest link is least busy, in two passes.

use super::lengths::nearly_shortest;
use super::tables::DELIVER;
use super::{RouteLengths, Tables};
use crate::Topology;
use pauseframe_units::{NodeId, PortId};

/// Traffic between two hosts, in any common unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// How much.
    pub amount: f64,
}

impl Tables {
    /// The port of a switch (by its dense number) for `host` in the VLAN at this position; [`PortId::NONE`] without a
    /// row.
    #[inline]
    pub fn look_up(&self, vlan: usize, switch: u32, host: NodeId) -> PortId {
        match self.tree_of[vlan * self.nodes() + host.0 as usize] {
            u32::MAX => PortId::NONE,
            tree => match self.trees[tree as usize].next[switch as usize] {
                DELIVER => self.graph.uplink(host).reverse(),
                port => port,
            },
        }
    }

    /// Follows the route between two hosts in the VLAN at this position and calls `visit` with the ports between
    /// switches. False if the packet does not arrive or is not allowed.
    pub fn follow(&self, vlan: usize, from: NodeId, to: NodeId, mut visit: impl FnMut(PortId)) -> bool {
        let (Some(mut at), Some(tree)) = (self.graph.attachment(from), self.tree_of(vlan, to)) else {
            return false;
        };
        let row = self.graph.attachment_row(at);
        if !row.is_some_and(|row| self.trees[tree as usize].allows(row)) {
            return false;
        }
        let last = self.graph.uplink(to).reverse();
        for _ in 0..=self.graph.len() {
            let port = self.look_up(vlan, at, to);
            if port == last {
                return true;
            }
            let Some(next) = Some(port).filter(|port| *port != PortId::NONE).and_then(|p| self.graph.head(p))
            else {
                return false;
            };
            visit(port);
            at = next;
        }
        false
    }

    /// Links between switches on the route, if the packet arrives and is allowed.
    pub fn length(&self, vlan: usize, from: NodeId, to: NodeId) -> Option<u16> {
        let mut links = 0;
        self.follow(vlan, from, to, |_| links += 1).then_some(links)
    }

    /// Puts the positions of the VLANs whose routes have at most `slack` links more than the shortest into `out`,
    /// ascending. None if no VLAN connects the pair.
    pub fn vlans_between(&self, from: NodeId, to: NodeId, slack: u16, out: &mut Vec<u16>) {
        nearly_shortest(self.vlans.len(), |vlan| self.length(vlan, from, to), slack, out);
    }

    /// The VLAN of each demand, chosen so that the busiest links are least busy; `None` for a pair without a VLAN.
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

/// The load of every link between switches, relative to its rate.
#[derive(Clone, Debug)]
pub struct LinkLoad {
    load: Vec<f64>,
    /// The load of one unit: the inverse of the link's rate in Gb/s.
    unit: Vec<f64>,
}

impl LinkLoad {
    /// No load on the links of `topology`.
    pub fn new(topology: &Topology) -> LinkLoad {
        let ports = 0..topology.port_count() as u32;
        let unit = |port| 1e9 / topology.channel(PortId(port)).rate.0 as f64;
        LinkLoad { load: vec![0.0; topology.port_count()], unit: ports.map(unit).collect() }
    }

    /// Adds `amount` to the links of a route; a negative amount removes it.
    pub fn add(&mut self, tables: &Tables, vlan: u16, from: NodeId, to: NodeId, amount: f64) {
        tables.follow(usize::from(vlan), from, to, |port| self.load[port.0 as usize] += amount);
    }

    /// The VLAN whose busiest link has the least load; ties go to the smallest total, then to the first.
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
