//! The forwarding pipeline: a packet joins its egress queue, and counts in accounts and marks, a constant time after its arrival.

use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{PacketFifo, PacketId};
use crate::wire::own::PortToken;

impl<'n> BorrowedSwitch<'n> {
    #[inline(never)]
    pub(super) fn enter_pipeline(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let (from, out) = (ingress.peer_port_id(), ctx.now() + ctx.hot.switch_latency);
        let inside = self.routes_and_switch().1.pipeline.entry(from).or_insert(PacketFifo::EMPTY);
        let is_first = inside.is_empty();
        inside.push_back(&mut ctx.packets, index);
        ctx.packets[index].at = out;
        if is_first {
            ctx.schedule_event(out, Event::Forward(from));
        }
    }

    /// The first packet that came by `ingress` has passed the pipeline.
    pub(crate) fn leave_pipeline(&mut self, ingress: PortToken<'n>, ctx: &mut Context) {
        let from = ingress.peer_port_id();
        let inside = self.routes_and_switch().1.pipeline.entry(from).or_insert(PacketFifo::EMPTY);
        let index = inside.pop_front(&ctx.packets).expect("a packet is in the pipeline");
        if let Some(next) = inside.head() {
            let out = ctx.packets[next].at;
            ctx.schedule_event(out, Event::Forward(from));
        }
        self.look_up_and_send(ingress, index, ctx);
    }
}
