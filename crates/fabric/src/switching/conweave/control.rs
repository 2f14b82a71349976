//! Replies and notices between leaves.

use super::settings_of;
use crate::context::Context;
use crate::frame::path_tag::{LeafPath, PathTag};
use crate::frame::{FrameContent, Packet, PacketId, PathControl, PathControlKind};
use crate::plan::NetworkPlan;
use crate::switching::node::BorrowedSwitch;
use crate::wire::own::PortToken;
use pauseframe_units::{Bytes, NodeId, PortId, Span};

/// Size of a control frame in buffers, including the FCS.
pub(crate) const PATH_CONTROL_BYTES: u16 = 64;

/// The time of a full frame along a path and of a control frame back, if nothing else is on the way.
pub(super) fn round_trip_time(plan: &NetworkPlan, path: &LeafPath) -> Span {
    let overhead = &plan.settings.overhead;
    let data = overhead.wire_size(plan.settings.mtu, plan.priorities[0]);
    let control = u32::from(PATH_CONTROL_BYTES) + overhead.gap;
    let time = |port: PortId, bytes: u32| {
        let channel = plan.topology.channel(port);
        channel.rate.serialise(Bytes(u64::from(bytes))) + channel.delay + plan.settings.switch_latency
    };
    let ports = path.iter().filter(|port| **port != PortId::NONE);
    ports.fold(Span::ZERO, |sum, port| sum + time(*port, data) + time(port.reverse(), control))
}

impl<'n> BorrowedSwitch<'n> {
    /// Tells the leaf that has written `tag` on a packet to the endpoint `about`.
    pub(super) fn send_path_control(
        &mut self,
        about: u32,
        kind: PathControlKind,
        tag: PathTag,
        ctx: &mut Context,
    ) {
        let class = ctx.plan.class_index(settings_of(ctx).control_priority);
        let egress = self.hashed_next_hop(Some(about), tag.from, ctx);
        let egress = self.ports.port_token(egress, ctx);
        let content = FrameContent::PathControl(PathControl { about, kind });
        let frame =
            Packet { at: ctx.now(), route: tag.from.0, ..Packet::new(content, PATH_CONTROL_BYTES, class) };
        let index = ctx.packets.insert(frame);
        ctx.packets.set_path_tag(index, tag);
        self.conweave_mut().counts.control_frames += 1;
        self.send_own_frame(index, egress, ctx);
    }

    /// A control frame has arrived by `ingress`: the leaf that it is for takes it, others forward it.
    #[inline(never)]
    pub(crate) fn on_path_control(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let Packet { route, class, content: FrameContent::PathControl(control), .. } = ctx.packets[index]
        else {
            return;
        };
        let (to, PathControl { about, kind }) = (NodeId(route), control);
        let first = self.current_routes().ports(self.switch_state().node, to)[0];
        if ctx.plan.topology.peer(first) != to {
            let egress = self.hashed_next_hop(Some(about), to, ctx);
            let egress = self.ports.port_token(egress, ctx);
            self.transmit_or_enqueue(ingress, index, (egress, class), ctx);
            return;
        }
        let (now, tag, path_busy) = (ctx.now(), ctx.packets.path_tag(index), settings_of(ctx).path_busy);
        ctx.packets.remove(index);
        let state = self.conweave_mut();
        state.control_frames_received += 1;
        if kind == PathControlKind::Busy {
            state.busy.insert(tag.path, now + path_busy);
        } else if let Some(flow) = state.sources.get_mut(&about) {
            flow.on_control(kind, &tag, now);
        }
    }
}
