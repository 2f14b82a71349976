//! What a switch does when a port of its may send: which packet is next, with the marking and the accounts that its departure means.

use super::node::SwitchNode;
use crate::context::Context;
use crate::frame::PacketId;
use crate::wire::counters::LossReason;
use crate::wire::own::OwnPort;

impl<'n> SwitchNode<'n> {
    /// Starts the port, at once or when its frame in service ends, unless it is already bound to go on.
    #[inline]
    pub(crate) fn start_transmission(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        if self.ports.reborrow().schedule_or_is_due(port, ctx) {
            self.reborrow().transmit_next(port, ctx);
        }
    }

    /// [`Self::transmit`], out of the run loop's way.
    #[inline(never)]
    fn transmit_next(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        self.transmit(port, ctx);
    }

    /// Puts the next frame on the wire: a pause frame, else the first packet of the class whose turn it is.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        if self.ports.transmit_waiting_pause(port, ctx) {
            return;
        }
        let class = if ctx.hot.runs_scheduler {
            let Some(class) = self.reborrow().choose_class(port, ctx) else { return };
            class
        } else {
            self.ports.port(port).eligible().ilog2() as u8
        };
        if ctx.hot.plain_departure & 1 << class != 0 {
            self.ports.send_first(port, class, ctx);
            return;
        }
        let index = self.dequeue(port, class, ctx);
        self.ports.put_on_wire(port, index, ctx);
    }

    /// The class to serve where that is not just the highest: its packets may still be in the pipeline of the switch, and
    /// the scheduler may be another.
    #[inline(never)]
    fn choose_class(&mut self, port: OwnPort<'n>, ctx: &mut Context) -> Option<u8> {
        let startable = if ctx.hot.pipelined {
            let through = self.ports.through_pipeline(port, ctx);
            (through != 0).then_some(through)?
        } else {
            self.ports.port(port).eligible()
        };
        if !ctx.hot.ets {
            return Some(startable.ilog2() as u8);
        }
        // The size of the next packet is that of the one that its queue will give.
        let ranked = startable & ctx.hot.ranked;
        for class in (0..8u8).filter(|class| ranked & 1 << class != 0) {
            self.bring_forward(port, class, ctx);
        }
        Some(self.ports.class_in_turn(port, startable, ctx))
    }

    /// Takes the next packet of a class whose departure means something.
    #[inline(always)]
    fn dequeue(&mut self, port: OwnPort<'n>, class: u8, ctx: &mut Context) -> PacketId {
        let watched = ctx.hot.watched_departures & 1 << class != 0;
        let index = if watched {
            self.reborrow().dequeue_watched(port, class, ctx)
        } else {
            self.ports.dequeue(port, class, ctx)
        };
        if ctx.hot.accounted & 1 << class != 0 {
            // Where a packet goes back the way it came, the resume frame that this may send is for this very port: it has
            // its turn after the packet.
            self.ports.port_mut(port).tx_pending = true;
            self.release(index, port, ctx);
            self.ports.port_mut(port).tx_pending = false;
        }
        index
    }

    /// The same where the queue is not first in, first out, or the marker looks at what leaves.
    #[inline(never)]
    fn dequeue_watched(&mut self, port: OwnPort<'n>, class: u8, ctx: &mut Context) -> PacketId {
        self.bring_forward(port, class, ctx);
        let slot = self.ports.slot(port.slot(class, &ctx.hot));
        let found = (slot.backlog, slot.waiting);
        let index = self.ports.dequeue(port, class, ctx);
        self.ports.forget_waiting(port, class, ctx);
        self.marks_departure(index, port, found, ctx);
        index
    }

    /// A port has lost its link: its queues are emptied.
    pub(crate) fn discard_queues(&mut self, port: OwnPort<'n>, ctx: &mut Context) {
        for class in 0..ctx.plan.priorities.len() as u8 {
            self.discard_queue(port, class, LossReason::LinkDown, ctx);
        }
    }

    /// Empties a queue; what was in it counts as lost, not as sent.
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
            self.ports.forget_waiting(port, class, ctx);
            if ctx.hot.accounted & 1 << class != 0 {
                self.release(index, port, ctx);
            }
            self.ports.count_loss(port, class, reason, ctx);
            self.ports.count_gone(index, ctx);
            ctx.report_lost(index);
            ctx.packets.remove(index);
        }
    }
}
