//! Packets that take the ports of their hosts in turn (`balance-rr`), where these differ in rate.

use super::IdealFctCalculator;
use super::train::{PathHop, shared_link_time};
use crate::flow::FlowSpec;
use crate::settings::PortChoice;
use pauseframe_units::{NodeId, Span};
use std::collections::BTreeSet;

/// Packets that take ports of unequal rates in turn: the slowest port has as many as the others.
pub(super) struct Turns {
    /// The links; those of hosts carry together what the slowest port does, times their number.
    hops: Vec<PathHop>,
    ports: u64,
    /// Packets after which each port has had equally many.
    cycle: u64,
}

impl Turns {
    /// Lower bound of the time of a packet train: the slowest port gets its part of each whole cycle, at worst all small packets.
    pub(super) fn transfer_time(&self, train: &[(u64, u32)]) -> Span {
        let Some((full, size)) = train.iter().copied().max_by_key(|(_, size)| *size) else {
            return Span::ZERO;
        };
        let all = train.iter().map(|(count, _)| count).sum::<u64>();
        let least = (all / self.cycle * self.cycle).saturating_sub((all - full).saturating_mul(self.ports));
        if least == 0 { Span::ZERO } else { shared_link_time(&self.hops, &[(least, size)]) }
    }
}

impl IdealFctCalculator {
    /// Whether each packet takes the next port of its host (`balance-rr`).
    pub(super) fn packets_take_turns(&self) -> bool {
        self.settings.host_ports.choice == PortChoice::RoundRobin
    }

    /// The rate of a host's port.
    pub(super) fn rate_of_port(&self, node: NodeId) -> u64 {
        self.topology.channel(self.topology.nodes()[node].ports[0]).rate.0
    }

    /// The links of packets that take ports of unequal rates in turn; `None` where the ports are no slower together than `hops`.
    pub(super) fn turns(
        &self,
        spec: &FlowSpec,
        choices: &[Vec<(NodeId, NodeId)>],
        hops: &[PathHop],
    ) -> Option<Turns> {
        // The super-packets of a card differ in size, so nothing is known of what a port gets.
        if !self.packets_take_turns() || self.transport(spec).offload_bytes() > 0 {
            return None;
        }
        let rates = |ways: &Vec<(NodeId, NodeId)>| {
            let own: BTreeSet<NodeId> = ways.iter().map(|way| way.0).collect();
            let count = own.len() as u64;
            let sent = own.iter().map(|port| self.rate_of_port(*port)).min()?.saturating_mul(count);
            let received = ways.iter().map(|(_, port)| {
                let packets = ways.iter().filter(|way| way.1 == *port).count() as u64;
                self.rate_of_port(*port).saturating_mul(count) / packets
            });
            // If several ports are equally near, each packet may reach any.
            let is_known = ways.len() == own.len();
            Some(([sent, received.min().filter(|_| is_known).unwrap_or(u64::MAX)], count))
        };
        let rates: Vec<_> = choices.iter().filter_map(rates).collect();
        let most = |side: usize| rates.iter().map(|(rates, _)| rates[side]).max();
        let (ports, mut hops) = (rates.first()?.1, hops.to_vec());
        let slower = [hops.first()?.total_rate > most(0)?, hops.last()?.total_rate > most(1)?];
        let first = hops.first_mut()?;
        first.total_rate = first.total_rate.min(most(0)?);
        let last = hops.last_mut()?;
        last.total_rate = last.total_rate.min(most(1)?);
        let cycle = ports * u64::from(self.settings.host_ports.packets_per_slave);
        slower.contains(&true).then_some(Turns { hops, ports, cycle })
    }
}
