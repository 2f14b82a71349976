//! Transmission at a switch port: chooses the next packet, marks it and updates the buffer accounts.

use super::node::SwitchNode;
use crate::context::Context;
use crate::frame::PacketId;
use crate::wire::counters::LossReason;
use crate::wire::own::OwnPort;

impl<'n> SwitchNode<'n> {
    /// Starts the port now or after the frame in service, unless a transmission is already scheduled.
    #[inline]
    pub(crate) fn start_transmission(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        if self.ports.reborrow().is_next_frame_due(port, ctx) {
            self.reborrow().transmit_out_of_line(port, ctx);
        }
    }

    /// [`Self::transmit_next_frame`], not inlined into the run loop.
    #[inline(never)]
    fn transmit_out_of_line(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        self.transmit_next_frame(port, ctx);
    }

    /// Sends the next frame: a waiting pause frame, else the first packet of the scheduled class.
    #[inline(always)]
    pub(crate) fn transmit_next_frame(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        if self.ports.transmit_waiting_pause(port, ctx) {
            return;
        }
        let class = if ctx.hot.runs_scheduler {
            let Some(class) = self.reborrow().choose_class(port, ctx) else { return };
            class
        } else {
            self.ports.port(port).eligible_classes().ilog2() as u8
        };
        if ctx.hot.plain_departure & 1 << class != 0 {
            self.ports.transmit_first(port, class, ctx);
            return;
        }
        let index = self.dequeue(port, class, ctx);
        self.ports.put_on_wire(port, index, ctx);
    }

    /// Chooses the class if it is not simply the highest: with a forwarding pipeline or another scheduler.
    #[inline(never)]
    fn choose_class(&mut self, port: OwnPort<'n>, ctx: &mut Context) -> Option<u8> {
        let startable = if ctx.hot.pipelined {
            let through = self.ports.classes_past_pipeline(port, ctx);
            (through != 0).then_some(through)?
        } else {
            self.ports.port(port).eligible_classes()
        };
        if !ctx.hot.ets {
            return Some(startable.ilog2() as u8);
        }
        // The discipline chooses the packet first, so that its size is known.
        let ranked = startable & ctx.hot.ranked;
        for class in (0..8u8).filter(|class| ranked & 1 << class != 0) {
            self.move_next_to_front(port, class, ctx);
        }
        Some(self.ports.next_ets_class(port, startable, ctx))
    }

    /// Dequeues the next packet of a class whose departure has side effects.
    #[inline(always)]
    fn dequeue(&mut self, port: OwnPort<'n>, class: u8, ctx: &mut Context) -> PacketId {
        let watched = ctx.hot.watched_departures & 1 << class != 0;
        let index = if watched {
            self.reborrow().dequeue_inspected(port, class, ctx)
        } else {
            self.ports.dequeue(port, class, ctx)
        };
        if ctx.hot.accounted & 1 << class != 0 {
            // If a packet returns by its ingress link, the resume frame triggered here leaves by this port, after the packet.
            self.ports.port_mut(port).tx_pending = true;
            self.release_buffer(index, port, ctx);
            self.ports.port_mut(port).tx_pending = false;
        }
        index
    }

    /// Dequeues if the discipline is not FIFO or the marker inspects departures.
    #[inline(never)]
    fn dequeue_inspected(&mut self, port: OwnPort<'n>, class: u8, ctx: &mut Context) -> PacketId {
        self.move_next_to_front(port, class, ctx);
        let slot = self.ports.slot(port.slot(class, &ctx.hot));
        let found = (slot.backlog, slot.waiting);
        let index = self.ports.dequeue(port, class, ctx);
        self.ports.decrement_waiting(port, class, ctx);
        self.mark_if_due_at_departure(index, port, found, ctx);
        index
    }

    /// Empties the queues of a port whose link went down.
    pub(crate) fn discard_queues(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        for class in 0..ctx.plan.priorities.len() as u8 {
            self.discard_queue(port, class, LossReason::LinkDown, ctx);
        }
    }

    /// Empties a queue; its packets count as lost.
    pub(super) fn discard_queue(
        &mut self,
        port: OwnPort<'n>,
        class: u8,
        reason: LossReason,
        ctx: &mut Context,
    ) {
        while self.ports.port(port).ready & 1 << class != 0 {
            let index = self.ports.dequeue(port, class, ctx);
            let size = u32::from(ctx.packets[index].size);
            self.ports.count_unsent(port, class, size, &ctx.hot);
            self.ports.decrement_waiting(port, class, ctx);
            if ctx.hot.accounted & 1 << class != 0 {
                self.release_buffer(index, port, ctx);
            }
            self.ports.count_loss(port, class, reason, ctx);
            self.ports.count_discarded(index, ctx);
            ctx.report_packet_loss(index);
            ctx.packets.remove(index);
        }
    }
}
