//! Decisions of the queue discipline: which packet is sent next, and which is evicted for another.

use super::node::BorrowedSwitch;
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::frame::{Packet, PacketId};
use crate::settings::BufferPolicy;
use crate::wire::counters::DropReason;
use crate::wire::ingress::PacketAccountFields;
use crate::wire::own::PortToken;

impl<'n> BorrowedSwitch<'n> {
    /// Moves the packet that `class` sends next to the front.
    pub(super) fn choose_next(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) {
        if ctx.hot.timed & 1 << class != 0 {
            self.choose_timed(port, class, ctx);
            return;
        }
        let (slot, discipline) = (port.egress_token(class, &ctx.hot), self.class_policy(class).queue);
        discipline.choose_next(&mut self.ports.egress_queue_mut(slot).queue, &mut ctx.packets);
    }

    /// Evicts a packet from the queue that `index` is to join, if the discipline prefers `index`; false if it does not.
    #[cold]
    pub(super) fn evict_for(&mut self, index: PacketId, port: PortToken<'n>, ctx: &mut Context) -> bool {
        let class = ctx.packets[index].class;
        if ctx.hot.timed & 1 << class != 0 {
            return self.evict_timed(port, class, ctx);
        }
        let slot = port.egress_token(class, &ctx.hot);
        let discipline = self.class_policy(class).queue;
        let victim =
            discipline.evict_for(&mut self.ports.egress_queue_mut(slot).queue, &mut ctx.packets, index);
        let Some(victim) = victim else { return false };
        self.drop_queued(victim, port, DropReason::BufferFull, ctx);
        true
    }

    /// Drops a packet that has been taken out of its queue.
    pub(super) fn drop_queued(
        &mut self,
        index: PacketId,
        port: PortToken<'n>,
        reason: DropReason,
        ctx: &mut Context,
    ) {
        let class = ctx.packets[index].class;
        self.ports.remove_from_middle(port, index, ctx);
        if ctx.hot.accounted & 1 << class != 0 {
            self.release_buffer(index, port, ctx);
        }
        self.ports.drop_packet(index, port, reason, ctx);
    }

    /// Frames of several ports that arrive within one frame time compete for the last place in a full queue. `ties.rs` chooses among them, because
    /// the order of arrival would always favour the same phase. If `index` wins, it replaces the last frame, which must be as large at least, and the
    /// function returns the winner's place; the loser is then in that of `index`. Ports with separate buffers do not compete.
    #[cold]
    pub(super) fn compete_for_space(
        &mut self,
        index: PacketId,
        port: PortToken<'n>,
        ctx: &mut Context,
    ) -> Option<PacketId> {
        let (newcomer, now) = (ctx.packets[index], ctx.now());
        let by_ingress = ctx.hot.is_lossless(newcomer.class)
            || matches!(ctx.settings.buffer, BufferPolicy::IdealOutputQueued(_));
        let ClassPolicy { queue, trim_to, .. } = self.class_policy(newcomer.class);
        if by_ingress || queue.reorders_packets() || trim_to.is_some() {
            return None;
        }
        let tail = self.ports.egress_queue(port.egress_token(newcomer.class, &ctx.hot)).queue.tail()?;
        let last = ctx.packets[tail];
        let frame_time = self.ports.port_state(port).rate.serialise(u32::from(last.size) + ctx.hot.gap);
        let competes =
            last.size >= newcomer.size && last.ingress != newcomer.ingress && now < last.at + frame_time;
        if !competes || ctx.ties.tie_bits(now, newcomer.ingress) >= ctx.ties.tie_bits(last.at, last.ingress) {
            return None;
        }
        ctx.packets[tail] = Packet { at: now, next: last.next, ..newcomer };
        ctx.packets[index] = last;
        ctx.packets.swap_path_tags(tail, index);
        self.shrink_lossy_queue(port, tail, last.size - newcomer.size, ctx);
        Some(tail)
    }

    /// Takes the bytes by which a packet is smaller than the one whose place in a lossy queue it has got out of all accounts.
    fn shrink_lossy_queue(&mut self, port: PortToken<'n>, index: PacketId, bytes: u16, ctx: &mut Context) {
        if bytes == 0 {
            return;
        }
        let fields = PacketAccountFields::of_packet(&ctx.packets[index], ctx.hot.account_mask);
        self.ports.shrink_backlog(port, fields.class, u64::from(bytes), ctx);
        if ctx.hot.shared {
            self.reborrow().release_shared_buffer(PacketAccountFields { size: bytes, ..fields }, port, ctx);
        }
    }
}
