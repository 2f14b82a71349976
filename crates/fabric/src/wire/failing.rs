//! Links that go down and come back: what happens to what is on the wire (`failures.rs` says when).

use super::Ports;
use super::counters::{Amount, LossReason};
use super::own::{InPort, NodePorts, OwnPort};
use crate::context::Context;
use crate::frame::{Content, Packet, PacketId};
use pauseframe_units::Time;

impl Ports {
    /// Links can go down.
    pub(crate) fn expect_failures(&mut self, ctx: &mut Context) {
        self.errors.cut = vec![Time::ZERO; self.ports.len()];
        self.errors.lost_on_wire.resize(self.ports.len(), Amount::default());
        ctx.hot.can_refuse = true;
        ctx.expect_losses();
    }
}

impl NodePorts<'_> {
    /// A frame that was lost on the wire would have arrived now.
    #[cold]
    pub(crate) fn on_lost_frame(&mut self, port: InPort, index: PacketId, ctx: &mut Context) {
        let packet = ctx.packets[index];
        if matches!(packet.content, Content::Damaged { .. }) {
            self.count_loss_on_wire(port, &packet, LossReason::Corrupted, ctx);
        }
        ctx.packets.remove(index);
    }

    fn count_loss_on_wire(&mut self, port: InPort, packet: &Packet, reason: LossReason, ctx: &Context) {
        self.received(port.slot(packet.class, &ctx.hot)).lost[reason as usize] += 1;
        if packet.is_counted() {
            *self.lost_on_wire(port) += Amount::sum(std::iter::once(packet));
        }
    }

    /// The link of `port` goes down: at the end that sends, which knows nothing of the other one.
    pub(crate) fn take_down(&mut self, port: OwnPort, ctx: &mut Context) {
        self.cut_service(port, ctx);
        self.mark_last_frame_lost(port, ctx);
        self.reset_pauses(port, ctx);
        *self.cut(port) = self.port(port).busy_until;
        let state = self.port_mut(port);
        // Busy for ever and bound to go on: nothing starts this port, and no hop pays for the question.
        state.busy_until = Time::MAX;
        state.tx_pending = true;
    }

    /// The link of `port` is back, at the end that sends.
    pub(crate) fn bring_up(&mut self, port: OwnPort, now: Time) {
        let cut = *self.cut(port);
        let state = self.port_mut(port);
        // Frames leave a link in order, lost ones too: the next waits until the one cut off would be over.
        state.busy_until = now.max(cut);
        state.tx_pending = false;
        state.in_pipeline = false;
    }

    /// All frames on the wire are lost; each keeps its place until it would have arrived.
    pub(crate) fn lose_in_flight(&mut self, port: InPort, ctx: &mut Context) {
        let mut next = self.in_flight_frames(port).head();
        while let Some(index) = next {
            let packet = ctx.packets[index];
            ctx.report_lost(index);
            ctx.packets.mark_damaged(index, Content::Lost);
            next = ctx.packets.behind(index);
            match packet.content {
                Content::Segment(_)
                | Content::Datagram { .. }
                | Content::Rdma(_)
                | Content::Foreign { .. }
                | Content::Cnm(_) => {
                    self.count_loss_on_wire(port, &packet, LossReason::LinkDown, ctx);
                }
                Content::Damaged { .. } => {
                    self.count_loss_on_wire(port, &packet, LossReason::Corrupted, ctx);
                }
                Content::Pause { .. } | Content::Lost => {}
            }
        }
    }

    /// Where the wire ends in another partition, the last frame that has left says what is in service: it is lost there.
    fn mark_last_frame_lost(&mut self, port: OwnPort, ctx: &mut Context) {
        if self.is_cross_partition(port)
            && let Some(last) = self.port(port).in_flight.head()
        {
            ctx.packets.mark_damaged(last, Content::Lost);
        }
    }
}
