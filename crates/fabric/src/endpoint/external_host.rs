//! A host of a stack outside of the simulator: its NIC takes frames from the stack's transmit ring and hands received frames up.

use super::external::round_up;
use super::host::BlockedSocket;
use super::node::HostNode;
use crate::context::Context;
use crate::external::{StackFrame, mark_ce};
use crate::frame::{BytesId, FrameKind, Packet, PacketId};
use pauseframe_transport::Ecn;

impl HostNode<'_> {
    /// The NIC takes the next frame from the transmit ring, unless another one waits for the port; true if there was one.
    pub(super) fn pull_frame(&mut self, ctx: &mut Context) -> bool {
        if self.ports.port(self.port).ready != 0 {
            return false;
        }
        let node = self.topology_node(ctx);
        let Some(external) = self.external() else { return false };
        let sent = external.stack().transmit(node, ctx.now());
        let frame = external.check(sent, ctx).flatten();
        // The stack hears of the transmit buffer that it may use again.
        external.arm(ctx);
        let Some(frame) = frame else { return false };
        let Some((to, route, class)) = external.path_of(node, &frame, ctx) else {
            external.discarded += 1;
            return true;
        };
        let StackFrame { bytes, ip_size, ecn, .. } = frame;
        let priority = ctx.plan.priorities[usize::from(class)];
        let size = ctx.settings.overhead.frame_size(ip_size, priority) as u16;
        let bytes = ctx.packets.add_bytes(bytes);
        let content = FrameKind::Foreign { to, bytes, ecn };
        let packet = Packet { at: ctx.now(), route, ..Packet::new(content, size, class) };
        let index = ctx.packets.insert(packet);
        let nic_queue = self.host().nic_queue_for(node, class);
        self.host().held += u64::from(size);
        self.enqueue_at_port(nic_queue, index, ctx);
        true
    }

    /// The stack has put frames into a ring that was empty.
    pub(crate) fn on_frames_ready(&mut self, ctx: &mut Context) {
        self.unblock_sockets(ctx);
    }

    /// A frame goes up to the stack.
    #[cold]
    pub(super) fn deliver_to_stack(&mut self, index: PacketId, bytes: BytesId, ecn: Ecn, ctx: &mut Context) {
        let to = ctx.packets[index].destination_address();
        let mut frame = ctx.packets.remove_bytes(index, bytes);
        let (now, node) = (round_up(ctx.now()), self.topology_node(ctx));
        let Some(external) = self.external() else { return };
        if ecn == Ecn::Ce {
            mark_ce(&mut frame);
            if let Some(end) = to.and_then(|to| external.ends.get_mut(&to)) {
                end.ce_packets += 1;
            }
        }
        let received = external.stack().receive(node, &frame, now);
        external.check(received, ctx);
        external.arm(ctx);
    }

    /// Its sockets join the line for room in the NIC, where they stay.
    pub(crate) fn join_stack(&mut self) {
        self.host().block_socket(BlockedSocket::External);
    }
}
