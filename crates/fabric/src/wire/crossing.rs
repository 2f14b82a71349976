//! Frames that leave a partition and frames that arrive: see `boundary.rs`.

use super::Ports;
use super::boundary::CrossingFrames;
use super::port::ExtraWork;
use crate::context::Context;
use crate::frame::{FrameKind, Packet};
use pauseframe_engine::memory::{prefetch_element, prefetch_first_line};
use pauseframe_units::PortId;

/// How many frames ahead each prefetch step runs.
const INBOX_PREFETCH_DISTANCES: [usize; 2] = [24, 12];

impl Ports {
    /// Marks the link from `port` as cross-partition; it ends in partition `to`.
    pub(crate) fn set_cross_partition(&mut self, port: PortId, to: u16, ctx: &mut Context) {
        let stays = ctx.packets.insert(Packet::new(FrameKind::Lost, 64, 0));
        let state = &mut self.ports[port];
        state.in_flight.push_back(&mut ctx.packets, stays);
        (state.remote, state.extra) = (to, ExtraWork::SlowPath);
        self.boundary.cut += 1;
    }

    /// Receives the frames of an inbox and empties it.
    pub(crate) fn receive_crossing_frames(&mut self, inbox: &mut CrossingFrames, ctx: &mut Context) {
        for turn in 0..inbox.ports.len() {
            self.prefetch_next_arrivals(inbox, turn, ctx);
            ctx.packets.prefetch_free_slot(INBOX_PREFETCH_DISTANCES[1]);
            let (port, packet) = (inbox.ports[turn], inbox.packets[turn]);
            let index = ctx.packets.import_packet(packet, &inbox.options, &inbox.telemetries);
            self.capture.set_captured(index, inbox.written.get(turn).copied().unwrap_or(false));
            self.ports[port].append_in_flight(port, index, packet.at, ctx);
        }
        inbox.clear();
    }

    /// Prefetches for the frames behind the current one: first their link, then the last frame on it.
    #[inline(always)]
    fn prefetch_next_arrivals(&self, inbox: &CrossingFrames, turn: usize, ctx: &Context) {
        prefetch_element(&inbox.packets, turn + INBOX_PREFETCH_DISTANCES[1]);
        prefetch_first_line(
            inbox.ports.get(turn + INBOX_PREFETCH_DISTANCES[0]).and_then(|port| self.ports.get(*port)),
        );
        let chain = |ahead: usize| Some(self.ports[*inbox.ports.get(turn + ahead)?].in_flight);
        prefetch_first_line(
            chain(INBOX_PREFETCH_DISTANCES[1]).and_then(|chain| ctx.packets.get(chain.tail()?)),
        );
    }
}
