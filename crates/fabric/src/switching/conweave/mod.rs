//! `ConWeave` (Song et al., SIGCOMM 2023): the leaf of the sender measures the round trip of each flow and leaves a slow path; the leaf of the
//! receiver holds what overtakes on the new path. Written after the description in the paper and the behaviour of its simulator.
//!
//! An epoch begins with a packet that asks for a reply. If the reply is late, the next packet is the tail of the old path and all later ones take the
//! new path. The last leaf holds them until the tail has come or should have come, and tells the first leaf, whose next packet begins an epoch.

pub(crate) use self::control::PATH_CONTROL_BYTES;
mod control;
mod holding;
mod sink;
mod source;
pub(crate) mod state;

use self::source::SourceFlow;
use self::state::ConWeaveState;
use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::PacketId;
use crate::frame::path_tag::{LeafPath, PATH_PORTS_MAX, PathMark};
use crate::settings::{ConWeaveSettings, HopChoice};
use crate::wire::own::PortToken;
use pauseframe_engine::mix_bits;
use pauseframe_routing::ecmp_index;
use pauseframe_topology::NodeKind;
use pauseframe_units::{NodeId, PortId};

/// The settings in use.
fn settings_of(ctx: &Context) -> ConWeaveSettings {
    match ctx.settings.hop_choice {
        Some(HopChoice::ConWeave(settings)) => settings,
        _ => unreachable!("only called with ConWeave"),
    }
}

impl<'n> BorrowedSwitch<'n> {
    /// Forwards a packet that arrived by `ingress`.
    #[inline(never)]
    pub(super) fn forward_by_conweave(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let (here, packet) = (self.switch_state().node, &ctx.packets[index]);
        let (to, topology) = (NodeId(packet.route), &ctx.plan.topology);
        let first = self.current_routes().ports(here, to)[0];
        let sender = topology.owner(ingress.peer_port_id());
        let from_host = topology.nodes()[sender].kind != NodeKind::Switch;
        let to_host = topology.peer(first) == to;
        let port = match (packet.carries_data_or_requests(), from_host, to_host) {
            (true, true, false) => self.tag_at_source(index, sender, ctx),
            (true, false, true) => {
                self.arrive_at_sink(ingress, index, first, ctx);
                return;
            }
            (true, false, false) => self.path_next_hop(index, to, ctx),
            (_, _, true) => first,
            (false, _, false) => self.hashed_next_hop(packet.destination_endpoint_key(), to, ctx),
        };
        self.send_to_port(ingress, index, port, ctx);
    }

    /// Sends, queues or drops a packet at `port`.
    fn send_to_port(&mut self, ingress: PortToken<'n>, index: PacketId, port: PortId, ctx: &mut Context) {
        self.log_path(index, port, ctx);
        let class = ctx.packets[index].class;
        let egress = self.ports.port_token(port, ctx);
        self.transmit_or_enqueue(ingress, index, (egress, class), ctx);
    }

    fn log_path(&self, index: PacketId, port: PortId, ctx: &mut Context) {
        if let Some(log) = &mut ctx.paths {
            log.count_packet(&ctx.packets[index], self.switch_state().node, port);
        }
    }

    /// The port of a tagged packet between leaves; if its path is gone, another.
    fn path_next_hop(&self, index: PacketId, to: NodeId, ctx: &Context) -> PortId {
        let among = self.current_routes().ports(self.switch_state().node, to);
        let own = ctx.packets.path_tag(index).path.into_iter().find(|port| among.contains(port));
        own.unwrap_or_else(|| self.hashed_next_hop(ctx.packets[index].destination_endpoint_key(), to, ctx))
    }

    /// The next hop of what has no path: by a hash of its flow.
    fn hashed_next_hop(&self, key: Option<u32>, to: NodeId, ctx: &Context) -> PortId {
        let here = self.switch_state().node;
        let among = self.current_routes().ports(here, to);
        let salt = mix_bits(ctx.settings.seed ^ mix_bits(u64::from(here.0)));
        among[ecmp_index(mix_bits(u64::from(key.unwrap_or(to.0))), salt, among.len())]
    }

    /// Tags a packet at the leaf of its sender, and returns the port that it takes.
    fn tag_at_source(&mut self, index: PacketId, sender: NodeId, ctx: &mut Context) -> PortId {
        let (now, settings, to) = (ctx.now(), settings_of(ctx), NodeId(ctx.packets[index].route));
        let key = ctx.packets[index].destination_endpoint_key().unwrap_or(to.0);
        self.conweave_mut().forget_idle_flows(now);
        let known = self.conweave_mut().sources.remove(&key);
        let (mut flow, moved) = self.flow_at_source(known, to, &settings, ctx);
        let reply_time =
            |path: &LeafPath| control::round_trip_time(&ctx.plan, path).saturating_add(settings.reply_slack);
        let (tag, rerouted) = flow.tag_packet(now, sender, || self.draw_good_path(to, ctx), reply_time);
        let state = self.conweave_mut();
        state.counts.probes += u64::from(tag.mark == PathMark::Request);
        state.counts.moves += u64::from(moved);
        state.counts.reroutes += u64::from(rerouted);
        state.sources.insert(key, flow);
        ctx.packets.set_path_tag(index, tag);
        self.path_next_hop(index, to, ctx)
    }

    /// The flow of a packet at the leaf of its sender, and whether it has moved: after a gap, or because its path is gone.
    fn flow_at_source(
        &mut self,
        known: Option<SourceFlow>,
        to: NodeId,
        settings: &ConWeaveSettings,
        ctx: &Context,
    ) -> (SourceFlow, bool) {
        let Some(mut flow) = known else {
            let path = self.draw_good_path(to, ctx).unwrap_or_else(|| self.draw_path(to, ctx));
            return (SourceFlow::new(path), false);
        };
        let routes = self.current_routes();
        let exists = |port: &PortId| routes.ports(ctx.plan.topology.owner(*port), to).contains(port);
        let is_gone = !flow.path().iter().filter(|port| **port != PortId::NONE).all(exists);
        if !is_gone && !flow.is_idle(ctx.now(), settings.idle) {
            return (flow, false);
        }
        let path = match self.draw_good_path(to, ctx) {
            Some(path) => path,
            None if is_gone => self.draw_path(to, ctx),
            None => *flow.path(),
        };
        let moved = flow.move_to(path);
        (flow, moved)
    }

    /// The first of two random paths of which no notice says that it is busy.
    fn draw_good_path(&mut self, to: NodeId, ctx: &Context) -> Option<LeafPath> {
        let drawn = [self.draw_path(to, ctx), self.draw_path(to, ctx)];
        let busy = &self.conweave_mut().busy;
        drawn.into_iter().find(|path| busy.get(path).is_none_or(|until| *until <= ctx.now()))
    }

    /// A random shortest path from this leaf to that of `to`.
    fn draw_path(&mut self, to: NodeId, ctx: &Context) -> LeafPath {
        let topology = &ctx.plan.topology;
        let (routes, switch) = self.routes_and_switch();
        let (mut path, mut at) = ([PortId::NONE; PATH_PORTS_MAX], switch.node);
        for place in &mut path {
            let among = routes.ports(at, to);
            if topology.peer(among[0]) == to {
                break;
            }
            *place = switch.hops.any(among);
            at = topology.peer(*place);
        }
        path
    }

    fn conweave_mut(&mut self) -> &mut ConWeaveState {
        self.routes_and_switch().1.conweave.get_or_insert_default()
    }
}
