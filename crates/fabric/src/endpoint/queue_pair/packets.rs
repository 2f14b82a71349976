//! Packets and timers of queue pairs.

use super::QueuePairEnd;
use crate::context::Context;
use crate::endpoint::host::BlockedSocket;
use crate::endpoint::node::BorrowedHost;
use crate::frame::{FrameContent, Packet, PacketId, RdmaFrame, TelemetryId};
use crate::ids::EndpointId;
use crate::order::EndpointEvent;
use crate::settings::NicQueue;
use pauseframe_rdma::{Failure, Opcode, Packet as RdmaPacket};
use pauseframe_transport::{ConnectionFailure as FlowFailure, EcnCodepoint};
use pauseframe_units::{Priority, Time};

impl BorrowedHost<'_> {
    /// A packet has come through the stack.
    #[inline(never)]
    pub(in crate::endpoint) fn deliver_rdma_packet(&mut self, index: PacketId, ctx: &mut Context) {
        let FrameContent::Rdma(frame) = ctx.packets[index].content else { return };
        let Some(place) = self.queue_pairs_mut().find_pair_end_index_by_key(frame.to) else {
            ctx.packets.remove_packet(index);
            return; // A late duplicate of a flow that is over.
        };
        if frame.packet.opcode == Opcode::Cnp {
            let key = (self.own_host_id(), self.pair_end_mut(place).classes[1]);
            self.queue_pairs_mut().notifications.entry(key).or_default()[1] += 1;
        }
        if self.is_silent(frame.to, ctx) {
            ctx.packets.remove_packet(index);
            return;
        }
        if frame.packet.opcode.is_data() {
            self.watch_input(place, index, ctx);
        }
        let (end, host) = self.pair_end_and_host_mut(place);
        let before = end.pair.delivered();
        let telemetry = ctx.packets.telemetry_of_packet(frame.telemetry);
        let is_marked = frame.ecn == EcnCodepoint::Ce;
        end.pair.on_packet_with(&frame.packet, telemetry, is_marked, &mut host.cnp_limiter, ctx.now());
        if frame.telemetry != TelemetryId::NONE && frame.packet.opcode.is_data() {
            ctx.packets.swap_packet_telemetry(index, &mut end.telemetry);
        }
        ctx.packets.remove_packet(index);
        let (received, workload) = (end.pair.delivered() - before, end.workload);
        if received > 0 {
            self.count_goodput(workload, received, ctx);
        }
        self.update_queue_pair_after_event(place, ctx);
    }

    /// Whether a packet is for the passive end of a host that never answers.
    fn is_silent(&self, endpoint_key: u32, ctx: &Context) -> bool {
        !ctx.settings.silent.is_empty()
            && endpoint_key & 1 == 1
            && ctx.settings.silent.contains(&self.own_topology_node(ctx))
    }

    /// A data packet may find the input of this card congested.
    fn watch_input(&mut self, place: EndpointId, index: PacketId, ctx: &Context) {
        let Some(limit) = self.pair_end_mut(place).pair.input_limit() else { return };
        let (host, now) = (self.own_host_id(), ctx.now());
        let line = self.ports.port_state(self.port).rate.rate().0 as f64;
        let bytes = u64::from(ctx.packets[index].size) + u64::from(ctx.hot.gap);
        if self.queue_pairs_mut().inputs.entry(host).or_default().count(bytes, now) >= limit * line {
            let (end, host) = self.pair_end_and_host_mut(place);
            end.pair.on_congested_input(&mut host.cnp_limiter, now);
        }
    }

    /// A deadline. It may have moved on since the event was planned: then only the event is renewed.
    pub(crate) fn on_queue_pair_timer(&mut self, place: EndpointId, ctx: &mut Context) {
        let now = ctx.now();
        let end = self.pair_end_mut(place);
        if end.timer_at != now {
            return;
        }
        end.timer_at = Time::MAX;
        if end.write_at <= now {
            end.write_at = Time::MAX;
            end.pair.send(end.writes);
        }
        end.pair.on_timeout(now);
        self.update_queue_pair_after_event(place, ctx);
    }

    /// After anything that happened to an end: the application, what may be sent, the timer, the end.
    pub(super) fn update_queue_pair_after_event(&mut self, place: EndpointId, ctx: &mut Context) {
        let end = self.pair_end_mut(place);
        if end.bytes_towards_completion() >= end.expects {
            self.on_expected_pair_bytes_received(place, ctx);
        }
        while let Some(packet) = self.poll_next_rdma_packet(place, ctx) {
            self.send_rdma_packet(place, packet, ctx);
        }
        let end = self.pair_end_mut(place);
        if end.pair.sent() >= end.tells {
            end.notify_of_sent_messages(ctx);
        }
        end.schedule_queue_pair_timer(ctx);
        let endpoint_key = end.own_endpoint_key();
        if let Some(failure) = end.pair.failure() {
            let failure = match failure {
                Failure::RetriesExhausted => FlowFailure::RetriesExhausted,
                Failure::RnrRetriesExhausted => FlowFailure::RnrRetriesExhausted,
            };
            ctx.report_endpoint_event(endpoint_key, EndpointEvent::Failed(failure));
            self.free_queue_pair_end(place, ctx);
        } else if end.closing && !end.quiet && end.pair.is_quiescent() {
            end.quiet = true;
            ctx.report_endpoint_event(endpoint_key, EndpointEvent::Drained);
        }
    }

    fn on_expected_pair_bytes_received(&mut self, place: EndpointId, ctx: &mut Context) {
        if !self.pair_end_mut(place).has_pending_operations() {
            self.pair_end_mut(place).reply_or_report_completion(ctx);
            return;
        }
        while self.pair_end_mut(place).finish_oldest_operation_if_complete(ctx) {}
    }

    fn send_pending_replies(&mut self, place: EndpointId, ctx: &mut Context) {
        while let Some(packet) = self.pair_end_mut(place).pair.poll_reply(ctx.now()) {
            self.send_rdma_packet(place, packet, ctx);
        }
    }

    /// The next packet for the host: replies always, data while it has room.
    #[inline(always)]
    fn poll_next_rdma_packet(&mut self, place: EndpointId, ctx: &Context) -> Option<RdmaPacket> {
        let (end, host) = self.pair_end_and_host_mut(place);
        let reply = end.pair.poll_reply(ctx.now());
        if reply.is_some() || end.blocked {
            return reply;
        }
        // A card takes packets from a queue pair when it is its turn: two frames keep its queue filled.
        if !host.has_room(end.nic_queues[0], ctx, || 0) {
            end.blocked = true;
            host.append_blocked_socket(end.nic_queues[0], BlockedSocket::QueuePair(place));
            return None;
        }
        end.pair.poll_data(ctx.now())
    }

    /// A queue pair in the line for the NIC sends one packet; false if it had none and left the line. With a queue for each flow it
    /// sends all that has room and leaves the line.
    pub(in crate::endpoint) fn send_packet_of_blocked_queue_pair(
        &mut self,
        place: EndpointId,
        ctx: &mut Context,
    ) -> bool {
        if self.queue_pairs_mut().ends[place].is_none() {
            // It was closed in the line; now nothing names its place any more.
            self.queue_pairs_mut().free.push(place);
            return false;
        }
        let stays = ctx.settings.nic_queue != NicQueue::PerFlow && self.send_one_data_packet(place, ctx);
        self.pair_end_mut(place).blocked = stays;
        if ctx.settings.nic_queue == NicQueue::PerFlow {
            while let Some(packet) = self.poll_next_rdma_packet(place, ctx) {
                self.send_rdma_packet(place, packet, ctx);
            }
        }
        let end = self.pair_end_mut(place);
        if end.pair.sent() >= end.tells {
            end.notify_of_sent_messages(ctx);
        }
        end.schedule_queue_pair_timer(ctx);
        stays
    }

    /// Sends one data packet and the replies that wait; false if there was no data.
    fn send_one_data_packet(&mut self, place: EndpointId, ctx: &mut Context) -> bool {
        let Some(packet) = self.pair_end_mut(place).pair.poll_data(ctx.now()) else { return false };
        self.send_rdma_packet(place, packet, ctx);
        self.send_pending_replies(place, ctx);
        true
    }

    fn send_rdma_packet(&mut self, place: EndpointId, packet: RdmaPacket, ctx: &mut Context) {
        let QueuePairEnd { nic_queues, classes, route, vlan, transport, peer, .. } =
            *self.pair_end_mut(place);
        let settings = &ctx.settings.transports[usize::from(transport)];
        let Some(rdma) = &settings.rdma else { return };
        if packet.opcode == Opcode::Cnp {
            let key = (self.own_host_id(), classes[1]);
            self.queue_pairs_mut().notifications.entry(key).or_default()[0] += 1;
        }
        let is_control = match packet.opcode {
            Opcode::Cnp => true,
            Opcode::Acknowledge => rdma.pair.unordered || rdma.pair.ack_as_cnp,
            opcode => rdma.pair.unordered && !opcode.is_data(),
        };
        let which = usize::from(is_control);
        let priority: Priority = if which == 1 { rdma.cnp_priority } else { settings.priority };
        let ecn = if rdma.ecn && packet.opcode.is_data() { EcnCodepoint::Ect0 } else { EcnCodepoint::NotEct };
        let size = ctx.settings.overhead.frame_size_of_ip_packet(rdma.pair.ip_size(&packet), priority) as u16;
        let telemetry = if rdma.pair.telemetry_bytes == 0 || packet.opcode == Opcode::Cnp {
            TelemetryId::NONE
        } else if packet.opcode.is_data() {
            ctx.packets.add_empty_packet_telemetry()
        } else {
            std::mem::replace(&mut self.pair_end_mut(place).telemetry, TelemetryId::NONE)
        };
        let content = FrameContent::Rdma(RdmaFrame { to: peer, packet, telemetry, ecn });
        let frame = Packet { at: ctx.now(), route, vlan, ..Packet::new(content, size, classes[which]) };
        let index = ctx.packets.insert_packet(frame);
        self.send_through_stack(nic_queues[which], index, ctx);
    }
}
