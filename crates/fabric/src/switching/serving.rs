//! What a queue's discipline decides: the packet that is sent next, and the one that makes room for another.

use super::node::SwitchNode;
use crate::context::Context;
use crate::frame::{Packet, PacketId};
use crate::settings::BufferPolicy;
use crate::wire::counters::DropReason;
use crate::wire::own::OwnPort;

impl<'n> SwitchNode<'n> {
    /// Puts the packet first that `class` is to send next. Packets that are still in the pipeline of the switch
    /// are not among the choice.
    pub(super) fn bring_forward(&mut self, port: OwnPort<'n>, class: u8, ctx: &mut Context) {
        let (slot, latency, now) = (port.slot(class, &ctx.hot), ctx.hot.switch_latency, ctx.now());
        let through = |packet: &Packet| packet.at + latency <= now;
        let discipline = self.policy(class).queue;
        discipline.bring_forward(&mut self.ports.slot_mut(slot).queue, &mut ctx.packets, through);
    }

    /// Gives up a packet of the queue that `index` is to join, if the discipline would rather have `index`; false if
    /// there is none.
    #[cold]
    pub(super) fn displace(&mut self, index: PacketId, port: OwnPort<'n>, ctx: &mut Context) -> bool {
        let class = ctx.packets[index].class;
        let slot = port.slot(class, &ctx.hot);
        let discipline = self.policy(class).queue;
        let victim = discipline.take_victim(&mut self.ports.slot_mut(slot).queue, &mut ctx.packets, index);
        let Some(victim) = victim else { return false };
        self.ports.leave_queue(port, victim, ctx);
        if ctx.hot.accounted & 1 << class != 0 {
            self.release(victim, port, ctx);
        }
        self.ports.drop_packet(victim, port, DropReason::BufferFull, ctx);
        true
    }

    /// Frames of several ports that arrive within one frame time compete for the same place in a full queue, and `ties.rs` chooses among them: by arrival
    /// alone, a phase that never changes would decide for good. If `index` wins, it changes places with the last frame, whose place is returned; `index` is
    /// then the loser. Ports do not compete where each has a buffer of its own.
    #[cold]
    pub(super) fn take_last_place(
        &mut self,
        index: PacketId,
        port: OwnPort<'n>,
        ctx: &mut Context,
    ) -> Option<PacketId> {
        let (newcomer, now) = (ctx.packets[index], ctx.now());
        let by_ingress = ctx.hot.is_lossless(newcomer.class)
            || matches!(ctx.settings.buffer, BufferPolicy::IdealOutputQueued(_));
        if by_ingress || self.policy(newcomer.class).queue.is_ranked() {
            return None;
        }
        let tail = self.ports.slot(port.slot(newcomer.class, &ctx.hot)).queue.tail()?;
        let last = ctx.packets[tail];
        let frame_time = self.ports.port(port).rate.serialise(u32::from(last.size) + ctx.hot.gap);
        let competes =
            last.size == newcomer.size && last.ingress != newcomer.ingress && now < last.at + frame_time;
        if !competes || ctx.ties.of(now, newcomer.ingress) >= ctx.ties.of(last.at, last.ingress) {
            return None;
        }
        ctx.packets[tail] = Packet { at: now, next: last.next, ..newcomer };
        ctx.packets[index] = last;
        Some(tail)
    }
}
