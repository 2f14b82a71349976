//! A look at a few events that come, where what they touch is not near but not far either.
//!
//! Departures and arrivals come in no order that a processor could foresee, and each time it goes the wrong way costs more than a step does.
//! So there are no branches between the two: a step does the same for both, and for other events, or where a packet is not known,
//! something that is of no use and does no harm.

use crate::event::Event;
use crate::frame::{Packet, PacketId};
use crate::partition::Partition;
use pauseframe_engine::memory::{get_or_first, prefetch_or_first};
use pauseframe_units::{Id, PortId};
use std::hint::select_unpredictable;

/// How many events before its turn the first two steps are taken; the third comes [`SEEN`] events after the second.
const STEPS: [usize; 2] = [10, 6];
const SEEN: usize = 3;
/// So many events stand in line for that.
pub(crate) const SHORT_LOOKAHEAD: usize = STEPS[0] + 1;

/// What the glances before have found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The frame that was seen last first.
    frames: [Frame; SEEN],
    /// The connection end that a frame comes to.
    end: Option<u32>,
}

impl Seen {
    pub(crate) const EMPTY: Seen = Seen { frames: [Frame::NONE; SEEN], end: None };
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
struct Destination<'c> {
    packet: &'c Packet,
    /// The port that it leaves a switch by, or that of its host for the answer; the first of all if nothing is known.
    egress: PortId,
    to_host: bool,
}

impl Partition {
    /// The port of one event, the first packet of another, and where a frame goes that was seen some events ago.
    #[inline(always)]
    pub(crate) fn prefetch_short(&self, seen: Seen) -> Option<Seen> {
        let [first, second] = self.ctx.queue.upcoming(STEPS)?;
        self.prefetch_event_port(first);
        let frame = self.prefetch_frame(second)?;
        if let Some(end) = seen.end {
            self.endpoints.prefetch_oldest_segment(end);
        }
        let [last, before, earlier] = seen.frames;
        let destination = self.destination_of(earlier)?;
        let end = self.prefetch_destination(&destination);
        Some(Seen { frames: [frame, last, before], end })
    }

    /// The port, and what it sends from or accounts by.
    #[inline(always)]
    fn prefetch_event_port(&self, code: u64) {
        let (departs, _, port) = Event::get_or_first(code);
        let slot = self.ctx.hot.slot(port, 0).index();
        prefetch_or_first(self.ports.ports.as_slice(), port.index());
        prefetch_or_first(self.ports.slots.as_slice(), select_unpredictable(departs, slot, 0));
        let accounts = self.ports.ingress.accounts.as_slice();
        if !accounts.is_empty() {
            prefetch_or_first(accounts, slot);
        }
    }

    /// The first packet of the highest class that waits, or the first on the wire, which is told.
    #[inline(always)]
    fn prefetch_frame(&self, code: u64) -> Option<Frame> {
        let (departs, arrives, port) = Event::get_or_first(code);
        let state = get_or_first(self.ports.ports.as_slice(), port.index())?;
        let class = (state.ready | 1).ilog2() as u8;
        let slot = self.ctx.hot.slot(port, class).index();
        let slot = get_or_first(self.ports.slots.as_slice(), select_unpredictable(departs, slot, 0))?;
        let (waits, comes) = (slot.queue.first(), state.in_flight.first());
        prefetch_or_first(self.ctx.packets.as_slice(), select_unpredictable(departs, waits, comes).index());
        Some(Frame { port, packet: select_unpredictable(arrives, comes, PacketId::NONE) })
    }

    /// Where a frame goes.
    #[inline(always)]
    fn destination_of(&self, frame: Frame) -> Option<Destination<'_>> {
        let packets = self.ctx.packets.as_slice();
        let is_known = frame.packet.index() < packets.len();
        let to_switch = get_or_first(self.ports.ports.as_slice(), frame.port.index())?.to.is_switch();
        let packet = get_or_first(packets, frame.packet.index())?;
        let (route, hop) = (packet.route, packet.hop);
        // Where each switch looks the way up, packets don't know it.
        let looked_up =
            if self.ctx.hot.look_up { PortId(0) } else { self.switching.paths.get_or_first(route, hop)? };
        let egress = select_unpredictable(to_switch, looked_up, frame.port.reverse());
        let egress = select_unpredictable(is_known, egress, PortId(0));
        Some(Destination { packet, egress, to_host: select_unpredictable(to_switch, false, is_known) })
    }

    /// The port that a packet or its answer leaves by; the connection end that it is for, which is told.
    #[inline(always)]
    fn prefetch_destination(&self, destination: &Destination<'_>) -> Option<u32> {
        let Destination { packet, egress, to_host } = *destination;
        prefetch_or_first(self.ports.ports.as_slice(), egress.index());
        prefetch_or_first(self.ports.slots.as_slice(), self.ctx.hot.slot(egress, packet.class).index());
        let end = if to_host { packet.to()? } else { return None };
        self.endpoints.prefetch_endpoint(end);
        Some(end)
    }
}
