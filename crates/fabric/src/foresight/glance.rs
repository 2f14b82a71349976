//! A look at a few events that come, where what they touch is not near but not far either.
//!
//! Departures and arrivals come in no order that a processor could foresee, and each time it goes the wrong way costs more than a step does.
//! So there are no branches between the two: a step does the same for both, and for other events, or where a packet is not known,
//! something that is of no use and does no harm.

use crate::event::Event;
use crate::frame::{Packet, PacketId};
use crate::partition::Partition;
use pauseframe_engine::memory::{bring_guess, guess};
use pauseframe_units::{Id, PortId};
use std::hint::select_unpredictable;

/// How many events before its turn the first two steps are taken; the third comes [`SEEN`] events after the second.
const STEPS: [usize; 2] = [10, 6];
const SEEN: usize = 3;
/// So many events stand in line for that.
pub(crate) const GLANCE: usize = STEPS[0] + 1;

/// What the glances before have found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The frame that was seen last first.
    frames: [Frame; SEEN],
    /// The connection end that a frame comes to.
    end: Option<u32>,
}

impl Seen {
    pub(crate) const NOTHING: Seen = Seen { frames: [Frame::NONE; SEEN], end: None };
}

/// A port, and the first packet on the wire from there if that arrives.
#[derive(Clone, Copy, Debug)]
struct Frame {
    port: PortId,
    packet: PacketId,
}

impl Frame {
    const NONE: Frame = Frame { port: PortId::NONE, packet: PacketId::NONE };
}

/// Where a packet goes.
struct Onward<'c> {
    packet: &'c Packet,
    /// The port that it leaves a switch by, or that of its host for the answer; the first of all if nothing is known.
    egress: PortId,
    to_host: bool,
}

impl Partition {
    /// The port of one event, the first packet of another, and where a frame goes that was seen some events ago.
    #[inline(always)]
    pub(crate) fn glance(&self, seen: Seen) -> Option<Seen> {
        let [first, second] = self.ctx.queue.coming(STEPS)?;
        self.bring_port(first);
        let frame = self.bring_frame(second)?;
        if let Some(end) = seen.end {
            self.endpoints.bring_first_in_flight(end);
        }
        let [last, before, earlier] = seen.frames;
        let onward = self.onward(earlier)?;
        let end = self.bring_onward(&onward);
        Some(Seen { frames: [frame, last, before], end })
    }

    /// The port, and what it sends from or accounts by.
    #[inline(always)]
    fn bring_port(&self, code: u64) {
        let (departs, _, port) = Event::guess(code);
        let slot = self.ctx.hot.slot(port, 0).index();
        bring_guess(self.ports.ports.as_slice(), port.index());
        bring_guess(self.ports.slots.as_slice(), select_unpredictable(departs, slot, 0));
        let accounts = self.ports.ingress.accounts.as_slice();
        if !accounts.is_empty() {
            bring_guess(accounts, slot);
        }
    }

    /// The first packet of the highest class that waits, or the first on the wire, which is told.
    #[inline(always)]
    fn bring_frame(&self, code: u64) -> Option<Frame> {
        let (departs, arrives, port) = Event::guess(code);
        let state = guess(self.ports.ports.as_slice(), port.index())?;
        let class = (state.ready | 1).ilog2() as u8;
        let slot = self.ctx.hot.slot(port, class).index();
        let slot = guess(self.ports.slots.as_slice(), select_unpredictable(departs, slot, 0))?;
        let (waits, comes) = (slot.queue.first(), state.in_flight.first());
        bring_guess(self.ctx.packets.as_slice(), select_unpredictable(departs, waits, comes).index());
        Some(Frame { port, packet: select_unpredictable(arrives, comes, PacketId::NONE) })
    }

    /// Where a frame goes.
    #[inline(always)]
    fn onward(&self, frame: Frame) -> Option<Onward<'_>> {
        let packets = self.ctx.packets.as_slice();
        let is_known = frame.packet.index() < packets.len();
        let to_switch = guess(self.ports.ports.as_slice(), frame.port.index())?.to.is_switch();
        let packet = guess(packets, frame.packet.index())?;
        let (route, hop) = (packet.route, packet.hop);
        // Where each switch looks the way up, packets don't know it.
        let onward = if self.ctx.hot.look_up { PortId(0) } else { self.switching.paths.guess(route, hop)? };
        let egress = select_unpredictable(to_switch, onward, frame.port.reverse());
        let egress = select_unpredictable(is_known, egress, PortId(0));
        Some(Onward { packet, egress, to_host: select_unpredictable(to_switch, false, is_known) })
    }

    /// The port that a packet or its answer leaves by; the connection end that it is for, which is told.
    #[inline(always)]
    fn bring_onward(&self, onward: &Onward<'_>) -> Option<u32> {
        let Onward { packet, egress, to_host } = *onward;
        bring_guess(self.ports.ports.as_slice(), egress.index());
        bring_guess(self.ports.slots.as_slice(), self.ctx.hot.slot(egress, packet.class).index());
        let end = if to_host { packet.to()? } else { return None };
        self.endpoints.bring_end(end);
        Some(end)
    }
}
