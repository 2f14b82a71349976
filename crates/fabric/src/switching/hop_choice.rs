//! How a switch chooses among equal next hops when packets do not carry their path: for every packet, or for every flowlet.

use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::{Packet, PacketId};
use crate::settings::HopChoice;
use pauseframe_engine::Rng;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::collections::BTreeMap;

/// Flowlets that a switch remembers before it forgets those that are over.
const FLOWLETS_MAX: usize = 4_096;

/// What a switch remembers of its choices.
#[derive(Debug)]
pub(crate) struct HopChoiceState {
    rng: Rng,
    /// By endpoint key of the receiver: the port of its flowlet, and when its last packet came.
    flowlets: BTreeMap<u32, (PortId, Time)>,
    /// By destination: the last choice.
    chosen: BTreeMap<NodeId, PortId>,
    /// Flowlets that took another port than the one before.
    pub(crate) moves: u64,
}

impl HopChoiceState {
    pub(super) fn new(rng: Rng) -> HopChoiceState {
        HopChoiceState { rng, flowlets: BTreeMap::new(), chosen: BTreeMap::new(), moves: 0 }
    }

    fn any(&mut self, among: &[PortId]) -> PortId {
        among[self.rng.uniform_below(among.len() as u64) as usize]
    }

    /// The port of a packet's flowlet.
    fn of_flowlet(&mut self, flow: u32, gap: Span, among: &[PortId], now: Time) -> PortId {
        if self.flowlets.len() >= FLOWLETS_MAX {
            self.flowlets.retain(|_, (_, last)| *last + gap >= now);
        }
        let before = self.flowlets.get(&flow).copied();
        let same = before.filter(|(port, last)| *last + gap >= now && among.contains(port));
        let port = same.map_or_else(|| self.any(among), |(port, _)| port);
        self.moves += u64::from(before.is_some_and(|(before, _)| before != port));
        self.flowlets.insert(flow, (port, now));
        port
    }
}

impl BorrowedSwitch<'_> {
    /// The next hop of a packet that carries no path.
    pub(super) fn choose_next_hop(&mut self, index: PacketId, ctx: &Context) -> PortId {
        let packet = &ctx.packets[index];
        let to = NodeId(packet.route);
        let (routes, switch) = self.routes_and_switch_mut();
        let among = routes.ports(switch.node, to);
        if let [only] = among {
            return *only;
        }
        let (state, now) = (&mut switch.hops, ctx.now());
        match ctx.settings.hop_choice {
            None | Some(HopChoice::Spray) => state.any(among),
            Some(HopChoice::LetFlow { gap }) => {
                state.of_flowlet(packet.destination_endpoint_key().unwrap_or(packet.route), gap, among, now)
            }
            Some(HopChoice::Drill { samples }) => {
                let mut drawn: Vec<PortId> = (0..samples).map(|_| state.any(among)).collect();
                drawn.extend(state.chosen.get(&to).filter(|port| among.contains(port)));
                let best = self.shortest_queue(&drawn, packet, ctx);
                self.routes_and_switch_mut().1.hops.chosen.insert(to, best);
                best
            }
            Some(HopChoice::Adaptive) => {
                let among = among.to_vec();
                let start = state.rng.uniform_below(among.len() as u64) as usize;
                let turned: Vec<PortId> = among[start..].iter().chain(&among[..start]).copied().collect();
                self.shortest_queue(&turned, packet, ctx)
            }
        }
    }

    /// The first port with the smallest backlog in the class of a packet.
    fn shortest_queue(&self, among: &[PortId], packet: &Packet, ctx: &Context) -> PortId {
        let backlog = |port: &&PortId| {
            let port = self.ports.port_token(**port, ctx);
            let queued = self.ports.egress_queue(port.egress_queue_token(packet.class, &ctx.hot)).backlog;
            // What is in service waits too.
            (queued, !self.ports.port_state(port).is_idle(ctx.now()))
        };
        *among.iter().min_by_key(backlog).expect("a choice among some")
    }
}
