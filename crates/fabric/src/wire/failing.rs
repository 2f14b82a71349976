//! Links that go down and come back, and the frames on them. `failures.rs` schedules failures.

use super::PartitionPorts;
use super::counters::{LossReason, PacketsAndBytes};
use super::own::{BorrowedNodePorts, PortToken};
use crate::context::Context;
use crate::frame::{FrameContent, Packet, PacketId};
use pauseframe_units::Time;

impl PartitionPorts {
    /// Prepares the ports for link failures.
    pub(crate) fn enable_link_failures(&mut self, ctx: &mut Context) {
        self.errors.cut = vec![Time::ZERO; self.ports.len()];
        self.errors.lost_on_wire.resize(self.ports.len(), PacketsAndBytes::default());
        ctx.hot.can_refuse = true;
        ctx.allow_lossless_drops();
    }
}

impl BorrowedNodePorts<'_> {
    /// A frame that was lost on the wire reaches its arrival time.
    #[cold]
    pub(crate) fn on_lost_arrival(&mut self, port: PortToken, index: PacketId, ctx: &mut Context) {
        let packet = ctx.packets[index];
        if matches!(packet.content, FrameContent::Damaged(_)) {
            ctx.report_datagram_loss(index);
            self.count_wire_loss(port, &packet, LossReason::Corrupted, ctx);
        }
        ctx.packets.remove(index);
    }

    fn count_wire_loss(&mut self, port: PortToken, packet: &Packet, reason: LossReason, ctx: &Context) {
        self.counters_for_peer_mut(port.ingress_token(packet.class, &ctx.hot)).lost[reason as usize] += 1;
        if packet.counts_as_transmission() {
            *self.lost_on_wire(port) += PacketsAndBytes::sum_of_packets(std::iter::once(packet));
        }
    }

    /// Takes the link of `port` down at the sending end.
    pub(crate) fn take_link_down(&mut self, port: PortToken, ctx: &mut Context) {
        self.abort_frame_in_service(port, ctx);
        self.lose_frame_in_service(port, ctx);
        self.clear_pauses(port, ctx);
        *self.cut_frame_end_mut(port) = self.port_state(port).busy_until;
        let state = self.port_state_mut(port);
        // The port looks busy forever with a transmission scheduled, so nothing starts it and the hot path needs no extra check.
        state.busy_until = Time::MAX;
        state.tx_pending = true;
    }

    /// Brings the link of `port` up at the sending end.
    pub(crate) fn bring_link_up(&mut self, port: PortToken, now: Time) {
        let cut = *self.cut_frame_end_mut(port);
        let state = self.port_state_mut(port);
        // Frames leave a link in order, lost ones too, so the next one waits until the cut-off transmission would have ended.
        state.busy_until = now.max(cut);
        state.tx_pending = false;
    }

    /// Loses all frames in flight; each stays on the wire until its arrival time.
    pub(crate) fn lose_frames_in_flight(&mut self, port: PortToken, ctx: &mut Context) {
        let mut next = self.in_flight_frames(port).head();
        while let Some(index) = next {
            let packet = ctx.packets[index];
            ctx.report_datagram_loss(index);
            ctx.packets.replace_content(index, FrameContent::Lost);
            next = ctx.packets.next_in_fifo(index);
            match packet.content {
                FrameContent::Segment(_)
                | FrameContent::Datagram { .. }
                | FrameContent::Rdma(_)
                | FrameContent::Foreign { .. }
                | FrameContent::Cnm(_)
                | FrameContent::PathControl(_) => {
                    self.count_wire_loss(port, &packet, LossReason::LinkDown, ctx);
                }
                FrameContent::Damaged(_) => {
                    self.count_wire_loss(port, &packet, LossReason::Corrupted, ctx);
                }
                FrameContent::Pause { .. } | FrameContent::Lost => {}
            }
        }
    }

    /// On a cross-partition link the local copy of the last frame represents the frame in service; marks it as lost.
    fn lose_frame_in_service(&mut self, port: PortToken, ctx: &mut Context) {
        if self.is_cross_partition(port)
            && let Some(last) = self.port_state(port).in_flight.head()
        {
            ctx.packets.replace_content(last, FrameContent::Lost);
        }
    }
}
