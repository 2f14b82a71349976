//! Packets of queue pairs.

use super::QueuePairEnd;
use crate::context::Context;
use crate::endpoint::life::SendReliable;
use crate::endpoint::node::{BorrowedHost, EndpointToken};
use crate::endpoint::several_ports::WayOut;
use crate::endpoint::state::Reliable;
use crate::frame::{FrameContent, Packet, PacketId, RdmaFrame, TelemetryId};
use crate::settings::RdmaSettings;
use pauseframe_rdma::{Opcode, Packet as RdmaPacket, QueuePair};
use pauseframe_transport::EcnCodepoint;
use pauseframe_units::PortId;

impl<'n> BorrowedHost<'n> {
    /// A packet has come through the stack.
    #[inline(never)]
    pub(in crate::endpoint) fn deliver_rdma_packet(
        &mut self,
        index: PacketId,
        frame: &RdmaFrame,
        ctx: &mut Context,
    ) {
        let Some(end) = self.find_endpoint(frame.to) else {
            ctx.packets.remove(index);
            return; // A late duplicate of a flow that is over.
        };
        if frame.packet.opcode == Opcode::Cnp {
            self.count_cnp(end, 1);
        }
        if self.is_silent(frame.to, ctx) {
            ctx.packets.remove(index);
            return;
        }
        if frame.packet.opcode.is_data() {
            self.watch_input(end, ctx.packets[index].ingress, ctx);
        }
        let (state, host) = self.endpoint_and_host(end);
        let (workload, rdma) = (state.workload, QueuePairEnd::of_mut(&mut state.protocol));
        let before = rdma.pair.delivered();
        let telemetry = ctx.packets.telemetry(frame.telemetry);
        let is_marked = frame.ecn == EcnCodepoint::Ce;
        rdma.pair.on_packet_with(&frame.packet, telemetry, is_marked, &mut host.cnp_limiter, ctx.now());
        if frame.packet.opcode == Opcode::Acknowledge {
            rdma.window.on_ack(rdma.pair.window(), ctx.now());
        }
        if frame.telemetry != TelemetryId::NONE && frame.packet.opcode.is_data() {
            ctx.packets.swap_telemetry(index, &mut rdma.telemetry);
        }
        ctx.packets.remove(index);
        let received = rdma.pair.delivered() - before;
        if received > 0 {
            self.count_goodput(workload, received, ctx);
        }
        self.update_endpoint::<QueuePairEnd>(end, ctx);
    }

    fn queue_pair_mut(&mut self, end: EndpointToken<'n>) -> &mut QueuePair {
        &mut QueuePairEnd::of_mut(&mut self.endpoint_mut(end).protocol).pair
    }

    /// Counts a congestion notification: 0 sent, 1 received.
    fn count_cnp(&mut self, end: EndpointToken<'n>, direction: usize) {
        let class = QueuePairEnd::of(&self.endpoint_mut(end).protocol).control_class;
        let key = (self.host_id(), class);
        self.rdma_cards_mut().notifications.entry(key).or_default()[direction] += 1;
    }

    /// Whether a packet is for the passive end of a host that never answers.
    fn is_silent(&self, endpoint_key: u32, ctx: &Context) -> bool {
        !ctx.settings.silent.is_empty()
            && endpoint_key & 1 == 1
            && ctx.settings.silent.contains(&self.node_id(ctx))
    }

    /// Counts a frame of any flow at the input by which it has come.
    #[cold]
    pub(in crate::endpoint) fn meter_input(&mut self, index: PacketId, ctx: &mut Context) {
        let came_by = self.port.peer_port_id();
        ctx.packets[index].ingress = came_by;
        let bytes = u64::from(ctx.packets[index].size) + u64::from(ctx.hot.gap);
        self.rdma_cards_mut().inputs.entry(came_by).or_default().count(bytes, ctx.now());
    }

    /// A data packet may find the input by which it has come congested.
    fn watch_input(&mut self, end: EndpointToken<'n>, came_by: PortId, ctx: &Context) {
        let Some(limit) = self.queue_pair_mut(end).input_limit() else { return };
        let (line, now) = (ctx.plan.link_rate(came_by).0 as f64, ctx.now());
        if self.rdma_cards_mut().inputs.entry(came_by).or_default().load(now) >= limit * line {
            let (state, host) = self.endpoint_and_host(end);
            QueuePairEnd::of_mut(&mut state.protocol).pair.on_congested_input(&mut host.cnp_limiter, now);
        }
    }

    /// The next packet for the host: replies always, data while it has room.
    #[inline(always)]
    fn poll_rdma_packet(&mut self, end: EndpointToken<'n>, ctx: &Context) -> Option<RdmaPacket> {
        let way = self.way_out(end, ctx);
        let (state, port) = self.endpoint_and_port(end, way);
        let pair = &mut QueuePairEnd::of_mut(&mut state.protocol).pair;
        let reply = pair.poll_reply(ctx.now());
        if reply.is_some() || state.blocked {
            return reply;
        }
        // A card takes packets from a queue pair when it is its turn: two frames keep its queue filled.
        if !port.has_room(way.nic_queue, ctx, || 0) {
            self.block_endpoint(end, way);
            return None;
        }
        pair.poll_data(ctx.now())
    }

    /// Sends one data packet and the replies that wait; false if there was no data.
    fn send_data_packet(&mut self, end: EndpointToken<'n>, ctx: &mut Context) -> bool {
        let now = ctx.now();
        let Some(packet) = self.queue_pair_mut(end).poll_data(now) else { return false };
        self.send_rdma_packet(end, packet, ctx);
        while let Some(packet) = self.queue_pair_mut(end).poll_reply(now) {
            self.send_rdma_packet(end, packet, ctx);
        }
        true
    }

    fn send_rdma_packet(&mut self, end: EndpointToken<'n>, packet: RdmaPacket, ctx: &mut Context) {
        if packet.opcode == Opcode::Cnp {
            self.count_cnp(end, 0);
        }
        let settings = &ctx.settings.transports[usize::from(self.endpoint_mut(end).transport)];
        let Some(rdma) = settings.rdma() else { return };
        let is_control = goes_as_control(&packet, rdma);
        let way = if is_control { self.control_way(end, ctx) } else { self.way_out(end, ctx) };
        let state = self.endpoint_mut(end);
        let (vlan, to, class) = (state.vlan, state.peer, state.class);
        let qp = QueuePairEnd::of_mut(&mut state.protocol);
        let (class, priority) =
            if is_control { (qp.control_class, rdma.cnp_priority) } else { (class, settings.priority) };
        let ecn = if rdma.ecn && packet.opcode.is_data() { EcnCodepoint::Ect0 } else { EcnCodepoint::NotEct };
        let ip = rdma.pair.ip_size(&packet);
        let size = ctx.settings.overhead.frame_size(ip, priority) as u16;
        let telemetry = if rdma.pair.telemetry_bytes == 0 || packet.opcode == Opcode::Cnp {
            TelemetryId::NONE
        } else if packet.opcode.is_data() {
            ctx.packets.add_empty_telemetry()
        } else {
            std::mem::replace(&mut qp.telemetry, TelemetryId::NONE)
        };
        let content = FrameContent::Rdma(RdmaFrame { to, packet, telemetry, ecn });
        let frame = Packet { at: ctx.now(), route: way.route, vlan, ..Packet::new(content, size, class) };
        let index = ctx.packets.insert(frame);
        self.send_through_stack(way, index, ctx);
        self.count_turn(ctx);
    }

    /// The way of a packet in the class of CNPs.
    fn control_way(&mut self, end: EndpointToken<'n>, ctx: &Context) -> WayOut {
        let host = self.host_id();
        let state = self.endpoint_mut(end);
        let QueuePairEnd { control_queue, control_class, .. } = *QueuePairEnd::of(&state.protocol);
        if state.ways.is_empty() {
            return WayOut { host, nic_queue: control_queue, route: state.route };
        }
        self.way_in_turn(end, control_class, ctx)
    }
}

/// Whether a packet goes in the class of CNPs.
fn goes_as_control(packet: &RdmaPacket, rdma: &RdmaSettings) -> bool {
    match packet.opcode {
        Opcode::Cnp => true,
        Opcode::Acknowledge => rdma.pair.unordered || rdma.pair.ack_as_cnp,
        opcode => rdma.pair.unordered && !opcode.is_data(),
    }
}

impl SendReliable for QueuePairEnd {
    fn send_available<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context) {
        while let Some(packet) = host.poll_rdma_packet(end, ctx) {
            host.send_rdma_packet(end, packet, ctx);
        }
        // A card tells of what it has sent without waiting for the peer.
        host.endpoint_mut(end).notify_if_sent::<QueuePairEnd>(ctx);
    }

    /// Sends one packet. With a queue for each flow it sends all that has room and leaves the round robin.
    fn send_turn<'n>(host: &mut BorrowedHost<'n>, end: EndpointToken<'n>, ctx: &mut Context) -> bool {
        let stays = !ctx.settings.nic_queue.has_flow_shares() && host.send_data_packet(end, ctx);
        host.endpoint_mut(end).blocked = stays;
        if ctx.settings.nic_queue.has_flow_shares() {
            QueuePairEnd::send_available(host, end, ctx);
        }
        let state = host.endpoint_mut(end);
        state.notify_if_sent::<QueuePairEnd>(ctx);
        state.schedule_timer::<QueuePairEnd>(ctx);
        stays
    }
}
