//! Transmission at a switch port: chooses the next packet, marks it and updates the buffer accounts.

use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::PacketId;
use crate::wire::counters::LossReason;
use crate::wire::own::PortToken;

impl<'n> BorrowedSwitch<'n> {
    /// Starts the port now or after the frame in service, unless a transmission is already scheduled.
    #[inline]
    pub(crate) fn start_or_schedule(&mut self, port: PortToken<'n>, ctx: &mut Context) {
        if self.ports.reborrow().is_idle_else_schedule(port, ctx) {
            self.reborrow().transmit_next_outlined(port, ctx);
        }
    }

    /// [`Self::transmit_next`], not inlined into the run loop.
    #[inline(never)]
    fn transmit_next_outlined(&mut self, port: PortToken<'n>, ctx: &mut Context) {
        self.transmit_next(port, ctx);
    }

    /// Sends the next frame: a waiting pause frame, else the first packet of the scheduled class.
    #[inline(always)]
    pub(crate) fn transmit_next(&mut self, port: PortToken<'n>, ctx: &mut Context) {
        if self.ports.transmit_pause_frame(port, ctx) {
            return;
        }
        let class = if ctx.hot.ets {
            self.reborrow().choose_class(port, ctx)
        } else {
            self.ports.port_state(port).eligible_classes().ilog2() as u8
        };
        if ctx.hot.plain_departure & 1 << class != 0 {
            self.ports.transmit_first(port, class, ctx);
            return;
        }
        let index = self.dequeue_and_release(port, class, ctx);
        self.ports.put_on_wire(port, index, ctx);
    }

    /// The class that ETS serves next.
    #[inline(never)]
    fn choose_class(&mut self, port: PortToken<'n>, ctx: &mut Context) -> u8 {
        let startable = self.ports.port_state(port).eligible_classes();
        // The discipline chooses the packet first, so that its size is known.
        let ranked = startable & ctx.hot.ranked;
        for class in (0..8u8).filter(|class| ranked & 1 << class != 0) {
            self.choose_next(port, class, ctx);
        }
        self.ports.choose_ets_class(port, startable, ctx)
    }

    /// Dequeues the next packet of a class whose departure has side effects.
    #[inline(always)]
    fn dequeue_and_release(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) -> PacketId {
        let watched = ctx.hot.watched_departures & 1 << class != 0;
        let index = if watched {
            self.reborrow().dequeue_watched(port, class, ctx)
        } else {
            self.ports.dequeue_first(port, class, ctx)
        };
        if ctx.hot.accounted & 1 << class != 0 {
            // If a packet returns by its ingress link, the resume frame triggered here leaves by this port, after the packet.
            self.ports.port_state_mut(port).tx_pending = true;
            self.release_buffer(index, port, ctx);
            self.ports.port_state_mut(port).tx_pending = false;
        }
        index
    }

    /// Dequeues if the discipline is not FIFO or the marker inspects departures.
    #[inline(never)]
    fn dequeue_watched(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) -> PacketId {
        self.choose_next(port, class, ctx);
        let slot = self.ports.egress_queue(port.egress_token(class, &ctx.hot));
        let found = (slot.backlog, slot.waiting);
        let index = self.ports.dequeue_first(port, class, ctx);
        self.uncount_waiting(port, class, index, ctx);
        if ctx.hot.timed & 1 << class != 0 {
            self.finish_timed_departure(port, class, ctx);
        }
        self.mark_at_departure(index, port, found, ctx);
        index
    }

    /// A packet has left its queue: decrements the number of waiting packets, which are super-packets in a Linux machine.
    #[inline(always)]
    fn uncount_waiting(&mut self, port: PortToken<'n>, class: u8, index: PacketId, ctx: &Context) {
        if ctx.hot.linux_switch {
            self.count_departure(port, class, index, ctx);
        } else {
            self.ports.uncount_waiting(port, class, ctx);
        }
    }

    /// Empties the queues of a port whose link went down.
    pub(crate) fn discard_queued_packets(&mut self, port: PortToken<'n>, ctx: &mut Context) {
        for class in 0..ctx.plan.priorities.len() as u8 {
            self.discard_queue(port, class, LossReason::LinkDown, ctx);
        }
    }

    /// Empties a queue; its packets count as lost.
    pub(super) fn discard_queue(
        &mut self,
        port: PortToken<'n>,
        class: u8,
        reason: LossReason,
        ctx: &mut Context,
    ) {
        if ctx.hot.timed & 1 << class != 0 {
            self.reset_timed_queue(port, class, ctx);
        }
        while self.ports.port_state(port).ready & 1 << class != 0 {
            let index = self.ports.dequeue_first(port, class, ctx);
            let size = u32::from(ctx.packets[index].size);
            self.ports.uncount_dequeued(port, class, size, &ctx.hot);
            self.uncount_waiting(port, class, index, ctx);
            if ctx.hot.accounted & 1 << class != 0 {
                self.release_buffer(index, port, ctx);
            }
            self.ports.count_egress_loss(port, class, reason, ctx);
            self.ports.count_discarded(index, ctx);
            ctx.report_datagram_loss(index);
            ctx.packets.remove(index);
        }
    }
}
