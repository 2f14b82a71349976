//! Wires that are captured, damaged or unsteady: the way of a frame where it needs more than its time.
//!
//! Jitter makes what a host has sent reach its switch up to `wire_jitter` later, uniformly at random and in order: the noise of
//! NICs, drivers and interrupts that comes after the host's queue, so that a host which sends at line rate has it too (jitter of
//! the stack, `tx_jitter`, is lost in that queue). Without noise a full drop-tail queue shows phase effects (Floyd and
//! Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992): which of two hosts of one rate always finds the
//! free place is decided for good. `wire_jitters` says it host by host, for each direction. Left out: jitter of links between switches, and in lossless classes, whose headroom
//! would have to cover it.

use super::own::{NodePorts, OwnPort};
use crate::frame::PacketId;
use crate::ids::{HostId, Node, Owner};
use crate::near::Near;
use crate::plan::Plan;
use pauseframe_engine::{Rng, stream};
use pauseframe_units::{IndexVec, NodeId, Span, Time};

/// One direction of an unsteady link.
#[derive(Debug)]
pub(super) struct Unsteady {
    jitter: Span,
    draws: Rng,
}

/// The links of all hosts to their switches and back; none if all are steady.
#[derive(Debug)]
pub(super) struct Jitter(IndexVec<HostId, [Unsteady; 2]>);

impl Jitter {
    pub(super) fn of(plan: &Plan) -> Jitter {
        let settings = &plan.settings;
        if settings.wire_jitter == Span::ZERO && settings.wire_jitters.is_empty() {
            return Jitter(IndexVec::new());
        }
        let of_host = |id: &NodeId| {
            let draws = |label| stream(settings.seed, label, u64::from(id.0));
            let own = settings.wire_jitters.iter().find(|own| own.host == *id);
            let [out, back] =
                own.map_or([settings.wire_jitter, Span::ZERO], |own| [own.to_switch, own.to_host]);
            [
                Unsteady { jitter: out, draws: draws("wire jitter") },
                Unsteady { jitter: back, draws: draws("wire jitter to host") },
            ]
        };
        Jitter(plan.hosts.iter().map(of_host).collect())
    }

    /// That of the wire between two nodes; none between switches, or where all are steady.
    pub(super) fn between(&mut self, from: Owner, to: Owner) -> Option<&mut Unsteady> {
        let (host, direction) = match (from.node(), to.node()) {
            (Node::Host(host), _) => (host, 0),
            (Node::Switch(_), Node::Host(host)) => (host, 1),
            (Node::Switch(_), Node::Switch(_)) => return None,
        };
        if self.0.is_empty() { None } else { Some(&mut self.0[host][direction]) }
    }
}

impl NodePorts<'_> {
    /// The propagation delay of this frame: that of the link, more with jitter, and never so little that it overtakes.
    pub(super) fn unsteady_delay(&mut self, port: OwnPort, index: PacketId, near: &Near) -> Span {
        let state = *self.port(port);
        if state.from.is_switch() && state.to.is_switch() {
            return state.delay;
        }
        let unsteady = self.unsteady(port);
        let (packet, now) = (&near.packets[index], near.now());
        let over = now + state.rate.serialise(u32::from(packet.size) + near.hot.gap);
        let jitter = unsteady.as_ref().map_or(Span::ZERO, |wire| wire.jitter);
        let mut late = Span::ZERO;
        if near.settings.wire_burst > 0 {
            // A token bucket has let a frame pass once the line could have sent it and the bucket's fill before it: with all frames
            // later by that fill, none passes in less.
            late = (packet.at + state.rate.serialise(near.settings.wire_burst)).saturating_since(over);
        } else if jitter == Span::ZERO {
            return state.delay;
        }
        if let Some(wire) = unsteady.filter(|wire| wire.jitter > Span::ZERO) {
            late += Span(wire.draws.below(jitter.0 + 1));
        }
        let after_last = state.in_flight.tail().map_or(Time::ZERO, |last| near.packets[last].at + Span(1));
        (state.delay + late).max(after_last.saturating_since(over))
    }
}
