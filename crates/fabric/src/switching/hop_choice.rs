//! How a switch chooses among equal next hops when packets do not carry their path: for every packet, or for every flowlet.

use super::node::BorrowedSwitch;
use super::port_quality::{PortNow, PortQualities};
use crate::context::Context;
use crate::frame::{FrameContent, Packet, PacketId};
use crate::path_hash::PathHash;
use crate::settings::{ArsMode, ArsSettings, HopChoice};
use pauseframe_engine::{Rng, mix_bits};
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::collections::BTreeMap;

/// Flowlets that a switch remembers before it forgets those that are over.
const FLOWLETS_MAX: usize = 4_096;

/// What a switch remembers of its choices.
#[derive(Debug)]
pub(crate) struct HopChoiceState {
    rng: Rng,
    /// By endpoint key of the receiver, or group of next hops and place in its table: the port of its flowlet, and when its last packet came.
    flowlets: BTreeMap<(PortId, u32), (PortId, Time)>,
    /// By destination and place in its table: the port of its flows.
    assigned: BTreeMap<(NodeId, u32), PortId>,
    /// By destination: the last choice.
    chosen: BTreeMap<NodeId, PortId>,
    /// Flowlets that took another port than the one before.
    pub(crate) moves: u64,
    /// By group of next hops: the place of the next one in turn.
    turns: BTreeMap<Vec<PortId>, usize>,
    /// By next hop: the port that names its group, also while others of the group are down.
    groups: BTreeMap<PortId, PortId>,
    qualities: PortQualities,
}

impl HopChoiceState {
    pub(super) fn new(rng: Rng) -> HopChoiceState {
        HopChoiceState {
            rng,
            flowlets: BTreeMap::new(),
            assigned: BTreeMap::new(),
            chosen: BTreeMap::new(),
            moves: 0,
            turns: BTreeMap::new(),
            groups: BTreeMap::new(),
            qualities: PortQualities::default(),
        }
    }

    pub(super) fn any(&mut self, among: &[PortId]) -> PortId {
        among[self.rng.uniform_below(among.len() as u64) as usize]
    }

    /// The next of a group in turn; the first one is drawn.
    fn in_turn(&mut self, among: &[PortId]) -> PortId {
        let Some(turn) = self.turns.get_mut(among) else {
            let first = self.rng.uniform_below(among.len() as u64) as usize;
            self.turns.insert(among.to_vec(), (first + 1) % among.len());
            return among[first];
        };
        let port = among[*turn];
        *turn = (*turn + 1) % among.len();
        port
    }

    /// The port that names the group of these next hops.
    fn group_of(&mut self, among: &[PortId]) -> PortId {
        if let Some(group) = self.groups.get(&among[0]) {
            return *group;
        }
        for port in among {
            self.groups.entry(*port).or_insert(among[0]);
        }
        among[0]
    }

    /// A packet takes the only next hop that failures have left: its flowlet goes on there.
    fn keep_flowlet(&mut self, choice: HopChoice, only: PortId, packet: &Packet, now: Time) {
        match choice {
            HopChoice::LetFlow { gap } => self.set_flowlet_port(letflow_key(packet), only, gap, now),
            HopChoice::Ars(ars) if ars.mode.keeps_flowlets() => {
                let key = (self.group_of(&[only]), ars_place(&ars, packet));
                self.set_flowlet_port(key, only, ars.idle, now);
            }
            HopChoice::Ars(ars) if ars.mode == ArsMode::Fixed => {
                let before = self.assigned.insert((NodeId(packet.route), ars_place(&ars, packet)), only);
                self.moves += u64::from(before.is_some_and(|before| before != only));
            }
            _ => {}
        }
    }

    /// The port of a packet's flowlet, if that goes on.
    fn flowlet_port(&self, key: (PortId, u32), gap: Span, among: &[PortId], now: Time) -> Option<PortId> {
        let before = self.flowlets.get(&key).copied();
        before.filter(|(port, last)| *last + gap >= now && among.contains(port)).map(|(port, _)| port)
    }

    /// A packet of a flowlet takes this port.
    fn set_flowlet_port(&mut self, key: (PortId, u32), port: PortId, gap: Span, now: Time) {
        if self.flowlets.len() >= FLOWLETS_MAX {
            self.flowlets.retain(|_, (_, last)| *last + gap >= now);
        }
        let before = self.flowlets.insert(key, (port, now));
        self.moves += u64::from(before.is_some_and(|(before, _)| before != port));
    }
}

/// Place of the state of a flow in the table of `LetFlow`.
fn letflow_key(packet: &Packet) -> (PortId, u32) {
    (PortId::NONE, packet.destination_endpoint_key().unwrap_or(packet.route))
}

/// Place of the state of a flow in a table of ARS.
fn ars_place(ars: &ArsSettings, packet: &Packet) -> u32 {
    let flow = u64::from(packet.destination_endpoint_key().unwrap_or(packet.route));
    (mix_bits(flow) % u64::from(ars.flow_states)) as u32
}

impl BorrowedSwitch<'_> {
    /// The next hop of a packet that carries no path.
    pub(super) fn choose_next_hop(&mut self, index: PacketId, ctx: &Context) -> PortId {
        let packet = &ctx.packets[index];
        let to = NodeId(packet.route);
        let (routes, switch) = self.routes_and_switch();
        let among = routes.ports(switch.node, to);
        let (state, now) = (&mut switch.hops, ctx.now());
        if let [only] = among {
            if ctx.hot.can_refuse
                && let Some(choice) = ctx.settings.hop_choice
            {
                state.keep_flowlet(choice, *only, packet, now);
            }
            return *only;
        }
        match ctx.settings.hop_choice {
            // With ConWeave only congestion notification messages come here.
            None | Some(HopChoice::Spray | HopChoice::ConWeave(_)) => state.any(among),
            Some(HopChoice::RoundRobin) => state.in_turn(among),
            Some(HopChoice::LetFlow { gap }) => {
                let key = letflow_key(packet);
                let port = state.flowlet_port(key, gap, among, now).unwrap_or_else(|| state.any(among));
                state.set_flowlet_port(key, port, gap, now);
                port
            }
            Some(HopChoice::Drill { samples }) => {
                let mut drawn: Vec<PortId> = (0..samples).map(|_| state.any(among)).collect();
                drawn.extend(state.chosen.get(&to).filter(|port| among.contains(port)));
                let best = self.shortest_queue(&drawn, packet, ctx);
                self.routes_and_switch().1.hops.chosen.insert(to, best);
                best
            }
            Some(HopChoice::Adaptive) => {
                let among = among.to_vec();
                let start = state.rng.uniform_below(among.len() as u64) as usize;
                let turned: Vec<PortId> = among[start..].iter().chain(&among[..start]).copied().collect();
                self.shortest_queue(&turned, packet, ctx)
            }
            Some(HopChoice::PacketHash) => {
                let (routes, at) = (self.current_routes(), self.switch_state().node);
                let entropy =
                    if let FrameContent::Rdma(frame) = &packet.content { frame.packet.entropy } else { 0 };
                let key = packet.destination_endpoint_key().unwrap_or(packet.route);
                let choose = |hash: &PathHash| {
                    hash.next_hop_index((&ctx.plan.topology, routes), [at, to], key, entropy)
                };
                routes.ports(at, to)[self.packet_hash().map_or(0, choose)]
            }
            Some(HopChoice::Ars(ars)) => {
                let among = among.to_vec();
                self.choose_by_quality(&ars, &among, packet, ctx)
            }
        }
    }

    /// The next hop of SAI ARS: that of the flowlet if it goes on, otherwise one of the best quality or any.
    fn choose_by_quality(
        &mut self,
        ars: &ArsSettings,
        among: &[PortId],
        packet: &Packet,
        ctx: &Context,
    ) -> PortId {
        let now = ctx.now();
        if ars.mode == ArsMode::Fixed {
            return self.assigned_port(ars, (NodeId(packet.route), ars_place(ars, packet)), among, ctx);
        }
        let state = &mut self.routes_and_switch().1.hops;
        let key = (state.group_of(among), ars_place(ars, packet));
        let kept = ars.mode.keeps_flowlets().then(|| state.flowlet_port(key, ars.idle, among, now)).flatten();
        let port = kept.unwrap_or_else(|| {
            let best = if ars.mode.takes_best() { self.best_ports(ars, among, ctx) } else { among.to_vec() };
            self.routes_and_switch().1.hops.any(&best)
        });
        if ars.mode.keeps_flowlets() {
            self.routes_and_switch().1.hops.set_flowlet_port(key, port, ars.idle, now);
        }
        port
    }

    /// The port that a flow has had since its first packet, or since that was lost.
    fn assigned_port(
        &mut self,
        ars: &ArsSettings,
        key: (NodeId, u32),
        among: &[PortId],
        ctx: &Context,
    ) -> PortId {
        let before = self.routes_and_switch().1.hops.assigned.get(&key).copied();
        if let Some(port) = before.filter(|port| among.contains(port)) {
            return port;
        }
        let best = self.best_ports(ars, among, ctx);
        let state = &mut self.routes_and_switch().1.hops;
        let port = state.any(&best);
        state.assigned.insert(key, port);
        state.moves += u64::from(before.is_some());
        port
    }

    fn best_ports(&mut self, ars: &ArsSettings, among: &[PortId], ctx: &Context) -> Vec<PortId> {
        let mut qualities = std::mem::take(&mut self.routes_and_switch().1.hops.qualities);
        let bands: Vec<u64> = among
            .iter()
            .map(|port| qualities.band(*port, ars, ctx.now(), || self.look_at_port(*port, ctx)))
            .collect();
        self.routes_and_switch().1.hops.qualities = qualities;
        let best = bands.iter().max().copied().unwrap_or_default();
        among.iter().zip(&bands).filter(|(_, band)| **band == best).map(|(port, _)| *port).collect()
    }

    fn look_at_port(&self, port: PortId, ctx: &Context) -> PortNow {
        let port = self.ports.port_token(port, ctx);
        let of_class =
            |class: usize| self.ports.egress_queue(port.egress_token(class as u8, &ctx.hot)).backlog;
        let state = self.ports.port_state(port);
        let classes = ctx.plan.priorities.len();
        PortNow {
            rate: state.rate.rate().0,
            sent: self.ports.bytes_sent(port),
            queued: (0..classes).map(of_class).sum(),
        }
    }

    /// The first port with the smallest backlog in the class of a packet.
    fn shortest_queue(&self, among: &[PortId], packet: &Packet, ctx: &Context) -> PortId {
        let backlog = |port: &&PortId| {
            let port = self.ports.port_token(**port, ctx);
            let queued = self.ports.egress_queue(port.egress_token(packet.class, &ctx.hot)).backlog;
            // What is in service waits too.
            (queued, !self.ports.port_state(port).is_idle(ctx.now()))
        };
        *among.iter().min_by_key(backlog).expect("a choice among some")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_engine::random_stream;

    #[test]
    fn flowlets_that_are_over_are_forgotten_once_there_are_many() {
        const OVER: u32 = 96;
        let (gap, port) = (Span::from_us(100), PortId(3));
        let now = Time::ZERO + gap + Span(1);
        let key = |number| (PortId::NONE, number);
        let mut state = HopChoiceState::new(random_stream(1, "flowlets", 0));
        for number in 0..FLOWLETS_MAX as u32 {
            // The first are over, the others last until now.
            let last = if number < OVER { Time::ZERO } else { Time::ZERO + Span(1) };
            state.set_flowlet_port(key(number), port, gap, last);
        }
        assert_eq!(state.flowlets.len(), FLOWLETS_MAX);
        state.set_flowlet_port(key(FLOWLETS_MAX as u32), port, gap, now);
        assert_eq!(state.flowlets.len(), FLOWLETS_MAX + 1 - OVER as usize);
        assert_eq!(state.flowlet_port(key(OVER), gap, &[port], now), Some(port));
    }
}
