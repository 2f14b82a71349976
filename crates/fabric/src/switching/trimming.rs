//! Packet trimming as htsim's composite queue has it: of the packet that finds no room and the newest one in the queue, a fair coin picks
//! the one that loses its payload; the header goes on in the class of control packets, so that the receiver asks for the rest at once.

use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::{FrameContent, Packet, PacketId, RdmaFrame};
use crate::settings::BufferPolicy;
use crate::wire::counters::DropReason;
use crate::wire::own::PortToken;

impl<'n> BorrowedSwitch<'n> {
    /// Sends on the header of a packet that found no room at `egress`, or of the newest one there, which makes room; false if there is
    /// nothing to trim or no room for a header.
    #[cold]
    pub(super) fn trim_and_forward(
        &mut self,
        index: PacketId,
        egress: PortToken<'n>,
        reason: DropReason,
        ctx: &mut Context,
    ) -> bool {
        let class = ctx.packets[index].class & 7;
        let can = reason == DropReason::BufferFull && is_trimmable(&ctx.packets[index]);
        let Some(priority) = self.class_policy(class).trim_to.filter(|_| can) else { return false };
        self.randomly_swap_newest(index, egress, ctx);
        let packet = &mut ctx.packets[index];
        let FrameContent::Rdma(frame) = &mut packet.content else { return false };
        frame.packet = frame.packet.trimmed();
        let size = ctx.settings.overhead.frame_size(frame.packet.ip_size(), priority) as u16;
        let cut = packet.size.saturating_sub(size);
        packet.size -= cut;
        packet.class = ctx.plan.class_index(priority);
        packet.ingress_class = packet.class;
        let control = packet.class;
        self.ports.count_trimmed(egress.egress_token(class, &ctx.hot), cut);
        if self.mark_and_admit(index, egress, ctx).is_err() {
            return false;
        }
        self.enqueue_and_start(egress, egress.egress_token(control, &ctx.hot), index, ctx);
        true
    }

    /// A fair coin decides whether the newest packet of the queue and the newcomer change places; they must have equal sizes, and one ingress
    /// account if each ingress port owns its buffer: the newest packet of another port makes no room there.
    fn randomly_swap_newest(&mut self, index: PacketId, egress: PortToken<'n>, ctx: &mut Context) {
        let (newcomer, now) = (ctx.packets[index], ctx.now());
        let Some(tail) = self.ports.egress_queue(egress.egress_token(newcomer.class, &ctx.hot)).queue.tail()
        else {
            return;
        };
        let newest = ctx.packets[tail];
        let (_, switch) = self.routes_and_switch();
        if switch.trims.uniform_below(2) == 0 || newest.size != newcomer.size || !is_trimmable(&newest) {
            return;
        }
        let account = |packet: &Packet| (packet.ingress, packet.ingress_class);
        let by_ingress = matches!(ctx.settings.buffer, BufferPolicy::IdealOutputQueued(_));
        if by_ingress && account(&newest) != account(&newcomer) {
            return;
        }
        ctx.packets[tail] = Packet { at: now, next: newest.next, ..newcomer };
        ctx.packets[index] = newest;
        ctx.packets.swap_path_tags(tail, index);
    }
}

fn is_trimmable(packet: &Packet) -> bool {
    let FrameContent::Rdma(RdmaFrame { packet, .. }) = packet.content else { return false };
    packet.opcode.is_data() && !packet.is_trimmed
}
