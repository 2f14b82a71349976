//! Frames that leave a partition, and those that come: see `boundary.rs`.

use super::Ports;
use super::boundary::CrossingFrames;
use crate::context::Context;
use crate::frame::{Content, Packet};
use pauseframe_engine::memory::{prefetch_at, prefetch_line};
use pauseframe_units::PortId;

/// How many frames before its turn each step is taken.
const AHEAD: [usize; 2] = [24, 12];

impl Ports {
    /// Cuts the wire from `port`, which ends in partition `to`.
    pub(crate) fn cut(&mut self, port: PortId, to: u16, ctx: &mut Context) {
        let stays = ctx.packets.add(Packet::new(Content::Lost, 64, 0));
        let state = &mut self.ports[port];
        state.in_flight.push(&mut ctx.packets, stays);
        (state.remote, state.slow_path) = (to, true);
        self.boundary.cut += 1;
    }

    /// Takes in what others have sent, and empties the box that it came in.
    pub(crate) fn take_in(&mut self, inbox: &mut CrossingFrames, ctx: &mut Context) {
        for turn in 0..inbox.ports.len() {
            self.prefetch_next_arrivals(inbox, turn, ctx);
            ctx.packets.prefetch_free(AHEAD[1]);
            let (port, packet) = (inbox.ports[turn], inbox.packets[turn]);
            let index = ctx.packets.adopt(packet, &inbox.options, &inbox.telemetries);
            self.capture.set_written(index, inbox.written.get(turn).copied().unwrap_or(false));
            self.ports[port].follow(port, index, packet.at, ctx);
        }
        inbox.clear();
    }

    /// Brings near what the frames behind the one whose turn it is will need: the wire, then what is last on it.
    #[inline(always)]
    fn prefetch_next_arrivals(&self, inbox: &CrossingFrames, turn: usize, ctx: &Context) {
        prefetch_at(&inbox.packets, turn + AHEAD[1]);
        prefetch_line(inbox.ports.get(turn + AHEAD[0]).and_then(|port| self.ports.get(*port)));
        let chain = |ahead: usize| Some(self.ports[*inbox.ports.get(turn + ahead)?].in_flight);
        prefetch_line(chain(AHEAD[1]).and_then(|chain| ctx.packets.at(chain.tail()?)));
    }
}
