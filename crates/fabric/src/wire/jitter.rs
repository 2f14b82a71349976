//! Jittered links, whose frames arrive later than the propagation delay.
//!
//! Jitter makes what a host has sent reach its switch up to `wire_jitter` later, uniformly at random and in order: the noise of NICs, drivers and
//! interrupts that comes after the host's queue, so a host that sends at line rate has it too (its queue hides stack jitter, `tx_jitter`).
//! `wire_jitters` says it host by host, for each direction; by default no link has it, because `ties.rs` ends phase effects where flows meet.
//! The headroom covers all of it (`headroom.rs`). Left out: jitter of links between switches.

use super::own::{BorrowedNodePorts, PortToken};
use crate::context::Context;
use crate::frame::PacketId;
use crate::ids::{HostId, PackedNodeId, SwitchOrHost};
use crate::plan::NetworkPlan;
use pauseframe_engine::{Rng, random_stream};
use pauseframe_units::{IndexVec, NodeId, Span, Time};

/// One direction of a link with jitter.
#[derive(Debug)]
pub(super) struct JitteredLink {
    jitter: Span,
    draws: Rng,
}

/// Jitter of the links between hosts and their switches, both directions; empty without jitter.
#[derive(Debug)]
pub(super) struct JitterStateOfHostLinks(IndexVec<HostId, [JitteredLink; 2]>);

impl JitterStateOfHostLinks {
    pub(super) fn from_plan(plan: &NetworkPlan) -> JitterStateOfHostLinks {
        let settings = &plan.settings;
        let wire = |id: &NodeId| {
            let out = plan.topology.nodes()[*id].ports[0];
            let draws = |label| random_stream(settings.seed, label, u64::from(id.0));
            [(out, "wire jitter"), (out.reverse(), "wire jitter to host")]
                .map(|(port, label)| JitteredLink { jitter: plan.max_wire_jitter(port), draws: draws(label) })
        };
        let wires: IndexVec<HostId, _> = plan.hosts.iter().map(wire).collect();
        let is_steady = wires.iter().flatten().all(|wire: &JitteredLink| wire.jitter == Span::ZERO);
        JitterStateOfHostLinks(if is_steady { IndexVec::new() } else { wires })
    }

    /// The jittered link between two nodes; `None` between switches or without jitter.
    pub(super) fn link_between(&mut self, from: PackedNodeId, to: PackedNodeId) -> Option<&mut JitteredLink> {
        let (host, direction) = host_and_direction(from, to)?;
        if self.0.is_empty() { None } else { Some(&mut self.0[host][direction]) }
    }

    /// Whether frames between two nodes can have jitter.
    pub(super) fn has_link_between(&self, from: PackedNodeId, to: PackedNodeId, plan: &NetworkPlan) -> bool {
        let jitters = |(host, direction): (HostId, usize)| {
            !self.0.is_empty() && self.0[host][direction].jitter > Span::ZERO
        };
        host_and_direction(from, to).is_some_and(|way| plan.settings.wire_burst > 0 || jitters(way))
    }
}

/// The host of a link and the direction from or to it; `None` between switches.
fn host_and_direction(from: PackedNodeId, to: PackedNodeId) -> Option<(HostId, usize)> {
    match (from.unpack(), to.unpack()) {
        (SwitchOrHost::Host(host), _) => Some((host, 0)),
        (SwitchOrHost::Switch(_), SwitchOrHost::Host(host)) => Some((host, 1)),
        (SwitchOrHost::Switch(_), SwitchOrHost::Switch(_)) => None,
    }
}

impl BorrowedNodePorts<'_> {
    /// The propagation delay of this frame with jitter, large enough that frames stay in order.
    pub(super) fn draw_jittered_delay(
        &mut self,
        port: PortToken,
        index: PacketId,
        ctx: &mut Context,
    ) -> Span {
        let state = *self.port_state(port);
        if state.from.is_switch() && state.to.is_switch() {
            return state.delay;
        }
        let (now, burst) = (ctx.now(), ctx.settings.wire_burst);
        let wire = self.jittered_link_mut(port);
        if wire.is_none() && burst == 0 {
            return state.delay;
        }
        let packet = &ctx.packets[index];
        let over = now + state.rate.serialise(u32::from(packet.size) + ctx.hot.gap);
        let mut late = Span::ZERO;
        if burst > 0 {
            // A token bucket lets a frame pass once the line could have sent it and the bucket's fill before it. All frames are delayed by that fill,
            // so none needs less.
            late = (packet.at + state.rate.serialise(burst)).saturating_since(over);
        }
        if let Some(wire) = wire {
            late += Span(wire.draws.uniform_below(wire.jitter.0 + 1));
        }
        let after_last = state.in_flight.tail().map_or(Time::ZERO, |last| ctx.packets[last].at + Span(1));
        (state.delay + late).max(after_last.saturating_since(over))
    }
}
