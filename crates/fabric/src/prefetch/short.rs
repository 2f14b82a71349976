//! Prefetching a few events ahead, for networks of medium size.
//!
//! The order of departures and arrivals is unpredictable, and a branch misprediction costs more than a step. So a step has no branch between the two.
//! For other events, or if the packet is unknown, the prefetch is useless but harmless.

use crate::event::Event;
use crate::frame::{Packet, PacketId};
use crate::partition::Partition;
use pauseframe_engine::memory::{element_or_first, prefetch_element_or_first};
use pauseframe_units::{Id, PortId};
use std::hint::select_unpredictable;

/// How many events ahead the first two steps run; the third runs [`DESTINATION_STEP_DISTANCE`] events after the second.
const SHORT_STEP_DISTANCES: [usize; 2] = [10, 6];
const DESTINATION_STEP_DISTANCE: usize = 3;
/// Length of the lookahead buffer that the steps need.
pub(crate) const SHORT_LOOKAHEAD: usize = SHORT_STEP_DISTANCES[0] + 1;

/// Results of earlier steps, for later ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortPrefetchState {
    /// Frames found by the second step, latest first.
    frames: [PrefetchedFrame; DESTINATION_STEP_DISTANCE],
    /// The destination endpoint of a frame.
    end: Option<u32>,
}

impl ShortPrefetchState {
    pub(crate) const EMPTY: ShortPrefetchState =
        ShortPrefetchState { frames: [PrefetchedFrame::NONE; DESTINATION_STEP_DISTANCE], end: None };
}

/// A port, and the first packet on its wire if the event is an arrival.
#[derive(Clone, Copy, Debug)]
struct PrefetchedFrame {
    port: PortId,
    packet: PacketId,
}

impl PrefetchedFrame {
    const NONE: PrefetchedFrame = PrefetchedFrame { port: PortId::NONE, packet: PacketId::NONE };
}

/// Destination of a packet at its next node.
struct PacketDestination<'c> {
    packet: &'c Packet,
    /// Its egress port at a switch, or the host's port for the answer; port 0 if unknown.
    egress: PortId,
    to_host: bool,
}

impl Partition {
    /// Runs the three steps: the port of one event, the first packet of another, and the destination of a frame found earlier.
    #[inline(always)]
    pub(crate) fn prefetch_short(&self, seen: ShortPrefetchState) -> Option<ShortPrefetchState> {
        let [first, second] = self.ctx.queue.upcoming_codes(SHORT_STEP_DISTANCES)?;
        self.prefetch_event_port(first);
        let frame = self.prefetch_event_frame(second)?;
        // Rare enough for a branch.
        if let Some(endpoint_key) = Event::decode_timer(first) {
            self.endpoints.prefetch_endpoint(endpoint_key);
        }
        if let Some(end) = Event::decode_timer(second).or(seen.end) {
            self.endpoints.prefetch_oldest_packet(end);
        }
        let [last, before, earlier] = seen.frames;
        let destination = self.find_destination(earlier)?;
        let end = self.prefetch_destination(&destination);
        Some(ShortPrefetchState { frames: [frame, last, before], end })
    }

    /// Prefetches the port of an event, and its slot or ingress account.
    #[inline(always)]
    fn prefetch_event_port(&self, code: u64) {
        let (departs, _, port) = Event::decode_port_branchless(code);
        let slot = self.ctx.hot.slot(port, 0).index();
        prefetch_element_or_first(self.ports.ports.as_slice(), port.index());
        prefetch_element_or_first(self.ports.slots.as_slice(), select_unpredictable(departs, slot, 0));
        let accounts = self.ports.ingress.accounts.as_slice();
        if !accounts.is_empty() {
            prefetch_element_or_first(accounts, slot);
        }
    }

    /// Prefetches the first packet of the highest waiting class, or the first on the wire, which it returns.
    #[inline(always)]
    fn prefetch_event_frame(&self, code: u64) -> Option<PrefetchedFrame> {
        let (departs, arrives, port) = Event::decode_port_branchless(code);
        let state = element_or_first(self.ports.ports.as_slice(), port.index())?;
        let class = (state.ready | 1).ilog2() as u8;
        let slot = self.ctx.hot.slot(port, class).index();
        let slot = element_or_first(self.ports.slots.as_slice(), select_unpredictable(departs, slot, 0))?;
        let (waits, comes) = (slot.queue.head_or_none(), state.in_flight.head_or_none());
        prefetch_element_or_first(
            self.ctx.packets.entries(),
            select_unpredictable(departs, waits, comes).index(),
        );
        Some(PrefetchedFrame { port, packet: select_unpredictable(arrives, comes, PacketId::NONE) })
    }

    /// The destination of a frame.
    #[inline(always)]
    fn find_destination(&self, frame: PrefetchedFrame) -> Option<PacketDestination<'_>> {
        let packets = self.ctx.packets.entries();
        let is_known = frame.packet.index() < packets.len();
        let to_switch = element_or_first(self.ports.ports.as_slice(), frame.port.index())?.to.is_switch();
        let packet = element_or_first(packets, frame.packet.index())?;
        let (route, hop) = (packet.route, packet.hop);
        // With lookups in switches, packets do not carry their path.
        let looked_up = if self.ctx.hot.look_up {
            PortId(0)
        } else {
            self.switching.paths.port_at_or_first(route, hop)?
        };
        let egress = select_unpredictable(to_switch, looked_up, frame.port.reverse());
        let egress = select_unpredictable(is_known, egress, PortId(0));
        Some(PacketDestination { packet, egress, to_host: select_unpredictable(to_switch, false, is_known) })
    }

    /// Prefetches the port by which a packet or its answer leaves; returns its destination endpoint.
    #[inline(always)]
    fn prefetch_destination(&self, destination: &PacketDestination<'_>) -> Option<u32> {
        let PacketDestination { packet, egress, to_host } = *destination;
        self.ctx.packets.prefetch_telemetry(packet, to_host);
        prefetch_element_or_first(self.ports.ports.as_slice(), egress.index());
        prefetch_element_or_first(
            self.ports.slots.as_slice(),
            self.ctx.hot.slot(egress, packet.class).index(),
        );
        let end = if to_host { packet.destination_endpoint_key()? } else { return None };
        self.endpoints.prefetch_endpoint(end);
        Some(end)
    }
}
