//! A host of a stack outside of the simulator: its NIC takes frames from the stack's transmit ring and hands received frames up.

use super::external::ceil_to_nanosecond;
use super::node::BorrowedHost;
use crate::context::Context;
use crate::external::{ExternalStackFrame, mark_ce};
use crate::frame::{FrameBytesId, FrameContent, Packet, PacketId};
use pauseframe_transport::EcnCodepoint;

impl BorrowedHost<'_> {
    /// The NIC takes the next frame from the transmit ring, unless another one waits for the port; true if there was one.
    pub(super) fn send_external_frame(&mut self, ctx: &mut Context) -> bool {
        if self.ports.port_state(self.port).ready != 0 {
            return false;
        }
        let node = self.node_id(ctx);
        let Some(external) = self.external_mut() else { return false };
        let sent = external.stack_mut().take_frame(node, ctx.now());
        let frame = external.ok_or_end_window(sent, ctx).flatten();
        // The stack hears of the transmit buffer that it may use again.
        external.schedule_next_event(ctx);
        let Some(frame) = frame else { return false };
        let Some((to, route, class)) = external.find_path(node, &frame, ctx) else {
            external.discarded += 1;
            return true;
        };
        let ExternalStackFrame { bytes, ip_size, ecn, .. } = frame;
        let priority = ctx.plan.priorities[usize::from(class)];
        let size = ctx.settings.overhead.frame_size(ip_size, priority) as u16;
        let bytes = ctx.packets.add_frame_bytes(bytes);
        let content = FrameContent::Foreign { to, bytes, ecn };
        let packet = Packet { at: ctx.now(), route, ..Packet::new(content, size, class) };
        let index = ctx.packets.insert(packet);
        let state = self.host_mut();
        let nic_queue = state.nic_queue_for(node.0, node, class);
        state.hold(nic_queue, size);
        self.transmit_or_enqueue(nic_queue, index, ctx);
        true
    }

    /// The stack has put frames into a ring that was empty.
    pub(crate) fn on_transmit_ring_filled(&mut self, ctx: &mut Context) {
        self.unblock_sockets(ctx);
    }

    /// A frame goes up to the stack.
    #[cold]
    pub(super) fn deliver_external_frame(
        &mut self,
        index: PacketId,
        bytes: FrameBytesId,
        ecn: EcnCodepoint,
        ctx: &mut Context,
    ) {
        let to = ctx.packets[index].destination_endpoint_key();
        let mut frame = ctx.packets.remove_frame(index, bytes);
        let (now, node) = (ceil_to_nanosecond(ctx.now()), self.node_id(ctx));
        let Some(external) = self.external_mut() else { return };
        if ecn == EcnCodepoint::Ce {
            mark_ce(&mut frame);
            if let Some(end) = to.and_then(|to| external.ends.get_mut(&to)) {
                end.ce_packets += 1;
            }
        }
        let received = external.stack_mut().receive_frame(node, &frame, now);
        external.ok_or_end_window(received, ctx);
        external.schedule_next_event(ctx);
    }

    /// Its sockets join the line for room in the NIC, where they stay.
    pub(crate) fn block_external_stack(&mut self) {
        self.host_mut().append_external_stack();
    }
}
