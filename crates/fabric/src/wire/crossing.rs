//! Frames that leave a partition and frames that arrive: see `boundary.rs`.

use super::PartitionPorts;
use super::boundary::CrossPartitionFrameBuffer;
use super::port::ExtraLinkWork;
use crate::context::Context;
use crate::frame::{FrameContent, Packet};
use pauseframe_engine::memory::{prefetch_element, prefetch_first_line};
use pauseframe_units::PortId;

/// How many frames ahead each prefetch step runs.
const INBOX_PREFETCH_DISTANCES: [usize; 2] = [24, 12];

impl PartitionPorts {
    /// Marks the link from `port` as cross-partition; it ends in partition `to`.
    pub(crate) fn set_cross_partition(&mut self, port: PortId, to: u16, ctx: &mut Context) {
        let stays = ctx.packets.insert(Packet::new(FrameContent::Lost, 64, 0));
        let state = &mut self.ports[port];
        state.in_flight.push_back(&mut ctx.packets, stays);
        (state.peer_partition, state.extra) = (to, ExtraLinkWork::SlowPath);
        self.boundary.cut += 1;
    }

    /// Receives the frames of an inbox and empties it.
    pub(crate) fn receive_frames(&mut self, inbox: &mut CrossPartitionFrameBuffer, ctx: &mut Context) {
        for turn in 0..inbox.ports.len() {
            self.prefetch_next_frames(inbox, turn, ctx);
            ctx.packets.prefetch_free_entry(INBOX_PREFETCH_DISTANCES[1]);
            let (port, packet) = (inbox.ports[turn], inbox.packets[turn]);
            let index = ctx.packets.import_packet(packet, &inbox.options, &inbox.telemetries);
            if let Some(tag) = inbox.path_tags.get(turn) {
                ctx.packets.set_path_tag(index, *tag);
            }
            self.capture.set_captured(index, inbox.written.get(turn).copied().unwrap_or(false));
            self.ports[port].append_to_wire(port, index, packet.at, ctx);
        }
        inbox.clear();
    }

    /// Prefetches for the frames behind the current one: first their link, then the last frame on it.
    #[inline(always)]
    fn prefetch_next_frames(&self, inbox: &CrossPartitionFrameBuffer, turn: usize, ctx: &Context) {
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
