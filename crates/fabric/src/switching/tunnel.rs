//! Tunnels between the two ToRs of mux cables: IP in IP (RFC 2003), from the standby ToR, over the layer above, to the active one.
//!
//! A path names the switches at which a packet enters and leaves a tunnel ([`TUNNEL_BEGINS`], [`TUNNEL_ENDS`]). In the tunnel a packet is longer by the
//! outer header and has the class that this gets from the remap; pauses act on that class. ECN is that of RFC 6040: the outer header begins with a
//! copy of the inner field (normal mode, §4.1), and at the end CE of the outer one is kept (§4.2). Switches mark only what is ECN-capable, so one
//! field can stand for both headers.

use super::node::BorrowedSwitch;
use super::paths::{TUNNEL_BEGINS, TUNNEL_ENDS};
use crate::context::Context;
use crate::frame::{FrameContent, PacketId};
use crate::settings::{DualTorSettings, IPV4_UDP_HEADER_BYTES};
use pauseframe_units::PortId;

const IPV4_HEADER_BYTES: u32 = 20;

impl BorrowedSwitch<'_> {
    /// The next hop of a packet on its path, and its class there; it may enter or leave a tunnel here.
    pub(super) fn hop_through_tunnel(&mut self, index: PacketId, ctx: &mut Context) -> (PortId, u8) {
        let packet = &mut ctx.packets[index];
        packet.ingress_class = packet.class;
        let (route, hop) = (packet.route, packet.hop);
        packet.hop += 1;
        let port = self.path_table().port_at(route, hop);
        if port != TUNNEL_BEGINS && port != TUNNEL_ENDS {
            return (port, packet.class);
        }
        packet.hop += 1;
        if port == TUNNEL_BEGINS {
            self.encapsulate(index, ctx);
        } else {
            self.decapsulate(index, ctx);
        }
        (self.path_table().port_at(route, hop + 1), ctx.packets[index].class)
    }

    fn encapsulate(&mut self, index: PacketId, ctx: &mut Context) {
        let id = self.switch_id();
        let (_, tunnels) = self.paths_and_tunnels();
        let tunnels = tunnels.expect("a path leads into a tunnel");
        let ip = ip_bytes(index, ctx) + DualTorSettings::HEADER_BYTES;
        let inner = ctx.packets[index].class;
        let outer = tunnels.outer[usize::from(inner)];
        let packet = &mut ctx.packets[index];
        assert!(packet.outer_class().is_none(), "a packet enters a second tunnel");
        packet.set_outer_class(Some(inner));
        packet.class = outer;
        let priority = ctx.plan.priorities[usize::from(outer)];
        let before = packet.size;
        packet.size = ctx.settings.overhead.frame_size(ip, priority) as u16;
        tunnels.growth[id] += i64::from(packet.size) - i64::from(before);
        let counts = &mut tunnels.counts[id];
        counts.encapsulated += 1;
        counts.encapsulated_bytes += u64::from(packet.size);
    }

    fn decapsulate(&mut self, index: PacketId, ctx: &mut Context) {
        let id = self.switch_id();
        let (_, tunnels) = self.paths_and_tunnels();
        let tunnels = tunnels.expect("a path leads out of a tunnel");
        tunnels.counts[id].decapsulated += 1;
        let ip = ip_bytes(index, ctx) - DualTorSettings::HEADER_BYTES;
        let packet = &mut ctx.packets[index];
        packet.class = packet.outer_class().expect("a packet leaves the tunnel that it is in");
        packet.set_outer_class(None);
        if !ctx.hot.is_lossless(packet.ingress_class) {
            // A lossless packet counts in the account of its inner class if the outer class has none.
            packet.ingress_class = packet.class;
        }
        let priority = ctx.plan.priorities[usize::from(packet.class)];
        let before = packet.size;
        packet.size = ctx.settings.overhead.frame_size(ip, priority) as u16;
        tunnels.growth[id] += i64::from(packet.size) - i64::from(before);
    }
}

/// Bytes of the IP packet in a frame.
fn ip_bytes(index: PacketId, ctx: &Context) -> u32 {
    let (packet, overhead) = (&ctx.packets[index], ctx.settings.overhead);
    let size = u32::from(packet.size);
    if size > overhead.min_frame {
        let priority = ctx.plan.priorities[usize::from(packet.class)];
        return size - (overhead.frame_size(overhead.min_frame, priority) - overhead.min_frame);
    }
    // The frame may be padded. A TCP header with timestamps needs no padding.
    match &packet.content {
        FrameContent::Segment(carried) => {
            let segment = ctx.packets.unpack_segment(carried);
            IPV4_HEADER_BYTES + segment.header_len(false) + segment.len
        }
        FrameContent::Datagram { len, .. } => IPV4_UDP_HEADER_BYTES + u32::from(*len),
        FrameContent::Rdma(frame) => frame.packet.ip_size(),
        other => unreachable!("no host with two ports sends {other:?}"),
    }
}
