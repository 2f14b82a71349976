//! Wires that are captured, damaged or unsteady: the way of a frame where it needs more than its time.
//!
//! Jitter makes what a host has sent reach its switch up to `wire_jitter` later, uniformly at random and in order: the noise of
//! NICs, drivers and interrupts that comes after the host's queue, so that a host which sends at line rate has it too (jitter of
//! the stack, `tx_jitter`, is lost in that queue). Without noise a full drop-tail queue shows phase effects (Floyd and
//! Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992): which of two hosts of one rate always finds the
//! free place is decided for good. `wire_jitters` says it host by host, for each direction. Left out: jitter of links between switches, and in lossless classes, whose headroom
//! would have to cover it.

use crate::cell::Cell;
use crate::packet::NIL;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Span, Time};

impl Cell {
    /// Puts a frame on a wire that is looked at, bad or unsteady.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_on_tapped_wire(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        let delay = self.unsteady_delay(port, index, now);
        self.ports[port].serve(port, &mut self.packets, index, self.hot.gap, delay, now, queue);
        self.tap(port, index, now);
    }

    /// The propagation delay of this frame: that of the link, more with jitter, and never so little that it overtakes.
    fn unsteady_delay(&mut self, port: PortId, index: u32, now: Time) -> Span {
        let state = &self.ports[port];
        let wire = match (state.from_host, state.to_host) {
            (NIL, NIL) => return state.delay,
            (NIL, to) => &mut self.hosts[to as usize].wire[1],
            (from, _) => &mut self.hosts[from as usize].wire[0],
        };
        let packet = &self.packets[index];
        let over = now + state.rate.serialise(u32::from(packet.size) + self.hot.gap);
        let mut late = Span::ZERO;
        if self.settings.wire_burst > 0 {
            // A token bucket has let a frame pass once the line could have sent it and the bucket's fill before it: with all frames
            // later by that fill, none passes in less.
            late = (packet.at + state.rate.serialise(self.settings.wire_burst)).saturating_since(over);
        } else if wire.jitter == Span::ZERO {
            return state.delay;
        }
        if wire.jitter > Span::ZERO {
            late += Span(wire.draws.below(wire.jitter.0 + 1));
        }
        let after_last = state.in_flight.tail().map_or(Time::ZERO, |last| self.packets[last].at + Span(1));
        (state.delay + late).max(after_last.saturating_since(over))
    }
}
