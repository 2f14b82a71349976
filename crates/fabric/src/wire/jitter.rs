//! Jittered links: frames that arrive later than their link alone would have it.
//!
//! Jitter makes what a host has sent reach its switch up to `wire_jitter` later, uniformly at random and in order: the noise of
//! NICs, drivers and interrupts that comes after the host's queue, so that a host which sends at line rate has it too (jitter of
//! the stack, `tx_jitter`, is lost in that queue). Without noise a full drop-tail queue shows phase effects (Floyd and
//! Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992): which of two hosts of one rate always finds the
//! free place is decided for good. Automatic jitter is drawn for frames of lossy classes that leave right behind another, while flows contend
//! (`contention.rs`). `wire_jitters` says it host by host, for each direction. The headroom covers all of it (`headroom.rs`). Left out:
//! jitter of links between switches.

use super::own::{NodePorts, OwnPort};
use crate::context::Context;
use crate::frame::{Content, PacketId};
use crate::ids::{HostId, Node, Owner};
use crate::plan::Plan;
use pauseframe_engine::{Rng, stream};
use pauseframe_units::{IndexVec, NodeId, Span, Time};

/// One direction of an unsteady link.
#[derive(Debug)]
pub(super) struct JitteredLink {
    jitter: Span,
    /// Only frames that contend are late.
    is_auto: bool,
    draws: Rng,
}

/// The links of all hosts to their switches and back; none if all are steady.
#[derive(Debug)]
pub(super) struct Jitter(IndexVec<HostId, [JitteredLink; 2]>);

impl Jitter {
    pub(super) fn of(plan: &Plan) -> Jitter {
        let settings = &plan.settings;
        let wire = |id: &NodeId| {
            let out = plan.topology.nodes()[*id].ports[0];
            let draws = |label| stream(settings.seed, label, u64::from(id.0));
            let is_own = settings.wire_jitters.iter().any(|own| own.host == *id);
            let is_auto = settings.wire_jitter.is_auto() && !is_own;
            [
                JitteredLink { jitter: plan.jitter_from(out), is_auto, draws: draws("wire jitter") },
                JitteredLink {
                    jitter: plan.jitter_from(out.reverse()),
                    is_auto: false,
                    draws: draws("wire jitter to host"),
                },
            ]
        };
        let wires: IndexVec<HostId, _> = plan.hosts.iter().map(wire).collect();
        let is_steady = wires.iter().flatten().all(|wire: &JitteredLink| wire.jitter == Span::ZERO);
        Jitter(if is_steady { IndexVec::new() } else { wires })
    }

    /// That of the wire between two nodes; none between switches, or where all are steady.
    pub(super) fn between(&mut self, from: Owner, to: Owner) -> Option<&mut JitteredLink> {
        let (host, direction) = direction(from, to)?;
        if self.0.is_empty() { None } else { Some(&mut self.0[host][direction]) }
    }

    /// Whether frames between two nodes may be late.
    pub(super) fn is_between(&self, from: Owner, to: Owner, plan: &Plan) -> bool {
        let jitters = |(host, direction): (HostId, usize)| {
            !self.0.is_empty() && self.0[host][direction].jitter > Span::ZERO
        };
        direction(from, to).is_some_and(|way| plan.settings.wire_burst > 0 || jitters(way))
    }
}

/// The host at a link, and the direction: from it, or to it. None between switches.
fn direction(from: Owner, to: Owner) -> Option<(HostId, usize)> {
    match (from.node(), to.node()) {
        (Node::Host(host), _) => Some((host, 0)),
        (Node::Switch(_), Node::Host(host)) => Some((host, 1)),
        (Node::Switch(_), Node::Switch(_)) => None,
    }
}

impl NodePorts<'_> {
    /// The propagation delay of this frame: that of the link, more with jitter, and never so little that it overtakes.
    pub(super) fn jittered_delay(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) -> Span {
        let state = *self.port(port);
        if state.from.is_switch() && state.to.is_switch() {
            return state.delay;
        }
        let (now, burst) = (ctx.now(), ctx.settings.wire_burst);
        let wire = self.jittered_link(port).filter(|wire| wire.jitter > Span::ZERO);
        if wire.is_none() && burst == 0 {
            return state.delay;
        }
        let packet = &ctx.packets[index];
        let over = now + state.rate.serialise(u32::from(packet.size) + ctx.hot.gap);
        let mut late = Span::ZERO;
        if burst > 0 {
            // A token bucket has let a frame pass once the line could have sent it and the bucket's fill before it: with all frames
            // later by that fill, none passes in less.
            late = (packet.at + state.rate.serialise(burst)).saturating_since(over);
        }
        let contends = |ctx: &mut Context| {
            let packet = &ctx.packets[index];
            // It began as the frame before it ended.
            let is_behind = state.busy_until == now && now > Time::ZERO;
            // No congestion control answers to when datagrams are lost, and `ties.rs` splits their losses.
            let answers = packet.is_data() && !matches!(packet.content, Content::Datagram { .. });
            is_behind && answers && !ctx.hot.is_lossless(packet.class) && ctx.contention.is_on(now)
        };
        if let Some(wire) = wire
            && (!wire.is_auto || contends(ctx))
        {
            late += Span(wire.draws.below(wire.jitter.0 + 1));
        }
        let after_last = state.in_flight.tail().map_or(Time::ZERO, |last| ctx.packets[last].at + Span(1));
        (state.delay + late).max(after_last.saturating_since(over))
    }
}
