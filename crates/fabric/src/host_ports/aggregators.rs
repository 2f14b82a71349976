//! Aggregators of IEEE 802.3ad: of the ports of a bond, those of one rate carry its packets.
//!
//! Linux puts ports of different speeds into different aggregators (`__get_link_speed` enters the key in `bond_3ad.c`). One is active: that of the
//! largest bandwidth at first, and it stays so until none of its ports is up (`ad_select = "stable"`, the default).

use super::HostPorts;
use crate::settings::PortChoice;
use pauseframe_units::NodeId;
use std::collections::BTreeMap;

impl HostPorts {
    /// By host whose ports differ in rate: a port of the aggregator that is active at first.
    pub(super) fn first_aggregators(&self) -> BTreeMap<NodeId, NodeId> {
        if self.settings.choice != PortChoice::Lacp {
            return BTreeMap::new();
        }
        let differ =
            |ports: &&Vec<NodeId>| ports.iter().any(|port| self.rates[port] != self.rates[&ports[0]]);
        let unequal = self.ports.iter().filter(|(_, ports)| differ(ports));
        unequal.filter_map(|(host, ports)| Some((*host, self.widest(ports)?))).collect()
    }

    /// The first port of the aggregator with the largest bandwidth; the first of equal ones.
    fn widest(&self, ports: &[NodeId]) -> Option<NodeId> {
        let bandwidth = |port: &NodeId| {
            let rate = self.rates[port];
            rate * ports.iter().filter(|other| self.rates[*other] == rate).count() as u64
        };
        let widest = ports.iter().map(bandwidth).max()?;
        ports.iter().copied().find(|port| bandwidth(port) == widest)
    }

    /// The ports of `among` that belong to the active aggregator of their host; all, if none does or the host has one aggregator.
    pub(super) fn aggregated(&self, host: NodeId, among: &[NodeId]) -> Vec<NodeId> {
        let active = self.active.get(&host).filter(|_| self.settings.choice == PortChoice::Lacp);
        let Some(rate) = active.map(|port| self.rates[port]) else { return among.to_vec() };
        let of_rate: Vec<NodeId> = among.iter().copied().filter(|port| self.rates[port] == rate).collect();
        if of_rate.is_empty() { among.to_vec() } else { of_rate }
    }

    /// Another aggregator becomes active, if the host of this port has none left in the active one.
    pub(super) fn select_aggregator(&mut self, port: NodeId) {
        let Some((host, ports)) = self.ports.iter().find(|(_, ports)| ports.contains(&port)) else { return };
        let Some(active) = self.active.get(host) else { return };
        let up: Vec<NodeId> = ports.iter().copied().filter(|port| !self.given_up.contains(port)).collect();
        if up.iter().any(|port| self.rates[port] == self.rates[active]) {
            return;
        }
        if let Some(widest) = self.widest(&up) {
            self.active.insert(*host, widest);
        }
    }
}
