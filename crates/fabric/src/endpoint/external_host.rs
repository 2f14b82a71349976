//! A host of a stack outside of the simulator: its NIC takes frames from the stack's transmit ring and hands received frames up.

use super::external::round_up_to_nanosecond;
use super::node::BorrowedHost;
use crate::context::Context;
use crate::external::{ExternalStackFrame, mark_ce_in_ipv4_frame};
use crate::frame::{FrameBytesId, FrameContent, Packet, PacketId};
use pauseframe_transport::EcnCodepoint;

impl BorrowedHost<'_> {
    /// The NIC takes the next frame from the transmit ring, unless another one waits for the port; true if there was one.
    pub(super) fn send_frame_of_transmit_ring(&mut self, ctx: &mut Context) -> bool {
        if self.ports.port_state(self.port).ready != 0 {
            return false;
        }
        let node = self.own_topology_host(ctx);
        let Some(external) = self.external_stack_state_mut() else { return false };
        let sent = external.external_stack_mut().take_frame_of_transmit_ring(node, ctx.now());
        let frame = external.end_window_if_stack_failed(sent, ctx).flatten();
        // The stack hears of the transmit buffer that it may use again.
        external.schedule_external_stack_event(ctx);
        let Some(frame) = frame else { return false };
        let Some((to, route, class)) = external.find_path_of_frame(node, &frame, ctx) else {
            external.discarded += 1;
            return true;
        };
        let ExternalStackFrame { bytes, ip_size, ecn, .. } = frame;
        let priority = ctx.plan.priorities[usize::from(class)];
        let size = ctx.settings.overhead.frame_size_of_ip_packet(ip_size, priority) as u16;
        let bytes = ctx.packets.add_frame_bytes(bytes);
        let content = FrameContent::Foreign { to, bytes, ecn };
        let packet = Packet { at: ctx.now(), route, ..Packet::new(content, size, class) };
        let index = ctx.packets.insert_packet(packet);
        let state = self.host_mut();
        let nic_queue = state.nic_queue_of_flow(node.0, node, class);
        state.hold(nic_queue, size);
        self.transmit_or_enqueue_in_nic(nic_queue, index, ctx);
        true
    }

    /// The stack has put frames into a ring that was empty.
    pub(crate) fn on_transmit_ring_filled(&mut self, ctx: &mut Context) {
        self.unblock_sockets(ctx);
    }

    /// A frame goes up to the stack.
    #[cold]
    pub(super) fn deliver_frame_to_external_stack(
        &mut self,
        index: PacketId,
        bytes: FrameBytesId,
        ecn: EcnCodepoint,
        ctx: &mut Context,
    ) {
        let to = ctx.packets[index].destination_endpoint_key();
        let mut frame = ctx.packets.remove_frame_and_take_bytes(index, bytes);
        let (now, node) = (round_up_to_nanosecond(ctx.now()), self.own_topology_host(ctx));
        let Some(external) = self.external_stack_state_mut() else { return };
        if ecn == EcnCodepoint::Ce {
            mark_ce_in_ipv4_frame(&mut frame);
            if let Some(end) = to.and_then(|to| external.ends.get_mut(&to)) {
                end.ce_packets += 1;
            }
        }
        let received = external.external_stack_mut().put_frame_into_receive_ring(node, &frame, now);
        external.end_window_if_stack_failed(received, ctx);
        external.schedule_external_stack_event(ctx);
    }

    /// Its sockets join the line for room in the NIC, where they stay.
    pub(crate) fn add_external_stack_to_blocked_sockets(&mut self) {
        self.host_mut().append_external_stack();
    }
}
