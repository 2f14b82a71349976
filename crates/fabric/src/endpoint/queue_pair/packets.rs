//! Packets and timers of queue pairs.

use super::PairEnd;
use crate::context::Context;
use crate::endpoint::host::BlockedSocket;
use crate::endpoint::node::HostNode;
use crate::frame::{FrameKind, Packet, PacketId, RdmaFrame, TelemetryId};
use crate::ids::EndpointId;
use crate::order::EndpointEvent;
use pauseframe_rdma::{Failure, Opcode};
use pauseframe_transport::{ConnectionFailure as FlowFailure, Ecn};
use pauseframe_units::{Priority, Time};

impl HostNode<'_> {
    /// A packet has come through the stack.
    #[inline(never)]
    pub(in crate::endpoint) fn deliver_rdma(&mut self, index: PacketId, ctx: &mut Context) {
        let FrameKind::Rdma(frame) = ctx.packets[index].content else { return };
        let Some(place) = self.queue_pairs().index_at(frame.to) else {
            ctx.packets.remove(index);
            return; // A late duplicate of a flow that is over.
        };
        if frame.packet.opcode == Opcode::Cnp {
            let key = (self.id(), self.pair(place).classes[1]);
            self.queue_pairs().notifications.entry(key).or_default()[1] += 1;
        }
        let end = self.pair(place);
        let before = end.pair.delivered();
        let telemetry = ctx.packets.telemetry(frame.telemetry);
        end.pair.on_packet_with(&frame.packet, telemetry, frame.ecn == Ecn::Ce, ctx.now());
        if frame.telemetry != TelemetryId::NONE && frame.packet.opcode.is_data() {
            ctx.packets.swap_telemetry(index, &mut end.telemetry);
        }
        ctx.packets.remove(index);
        let (received, workload) = (end.pair.delivered() - before, end.workload);
        if received > 0 {
            self.count_received(workload, received, ctx);
        }
        self.settle_pair(place, ctx);
    }

    /// A deadline. It may have moved on since the event was planned: then only the event is renewed.
    pub(crate) fn on_pair_timer(&mut self, place: EndpointId, ctx: &mut Context) {
        let now = ctx.now();
        let end = self.pair(place);
        if end.timer_at != now {
            return;
        }
        end.timer_at = Time::MAX;
        if end.write_at <= now {
            end.write_at = Time::MAX;
            end.pair.send(end.writes);
        }
        end.pair.on_timeout(now);
        self.settle_pair(place, ctx);
    }

    /// After anything that happened to an end: the application, what may be sent, the timer, the end.
    pub(super) fn settle_pair(&mut self, place: EndpointId, ctx: &mut Context) {
        let end = self.pair(place);
        if end.progress() >= end.expects {
            self.on_expected_bytes(place, ctx);
        }
        self.pump_pair(place, ctx);
        let end = self.pair(place);
        if end.pair.sent() >= end.tells {
            end.on_sent(ctx);
        }
        end.arm_timer(ctx);
        let address = end.address();
        if let Some(failure) = end.pair.failure() {
            let failure = match failure {
                Failure::RetriesExhausted => FlowFailure::RetriesExhausted,
                Failure::RnrRetriesExhausted => FlowFailure::RnrRetriesExhausted,
            };
            ctx.send_report(address, EndpointEvent::Failed(failure));
            self.free_pair(place, ctx);
        } else if end.closing && !end.quiet && end.pair.is_quiescent() {
            end.quiet = true;
            ctx.send_report(address, EndpointEvent::Drained);
        }
    }

    fn on_expected_bytes(&mut self, place: EndpointId, ctx: &mut Context) {
        if !self.pair(place).has_operations() {
            self.pair(place).on_expected(ctx);
            return;
        }
        while self.pair(place).end_complete_operation(ctx) {}
    }

    fn send_replies(&mut self, place: EndpointId, ctx: &mut Context) {
        while let Some(packet) = self.pair(place).pair.poll_reply(ctx.now()) {
            self.send_rdma(place, packet, ctx);
        }
    }

    /// Hands packets to the host: replies always, data while it has room.
    fn pump_pair(&mut self, place: EndpointId, ctx: &mut Context) {
        loop {
            // An answer may have waited for the last packet of a response.
            self.send_replies(place, ctx);
            let (end, host) = self.pair_and_host(place);
            if end.blocked {
                return;
            }
            if !host.has_nic_buffer_space(ctx) {
                end.blocked = true;
                host.block_socket(BlockedSocket::QueuePair(place));
                return;
            }
            let Some(packet) = end.pair.poll_data(ctx.now()) else { return };
            self.send_rdma(place, packet, ctx);
        }
    }

    /// A queue pair in the line for the NIC sends one packet; false if it had none and left the line.
    pub(in crate::endpoint) fn send_one_blocked_pair(
        &mut self,
        place: EndpointId,
        ctx: &mut Context,
    ) -> bool {
        if self.queue_pairs().ends[place].is_none() {
            // It was closed in the line; now nothing names its place any more.
            self.queue_pairs().free.push(place);
            return false;
        }
        let packet = self.pair(place).pair.poll_data(ctx.now());
        if let Some(packet) = packet {
            self.send_rdma(place, packet, ctx);
            self.send_replies(place, ctx);
        }
        let end = self.pair(place);
        end.blocked = packet.is_some();
        if end.pair.sent() >= end.tells {
            end.on_sent(ctx);
        }
        end.arm_timer(ctx);
        packet.is_some()
    }

    fn send_rdma(&mut self, place: EndpointId, packet: pauseframe_rdma::Packet, ctx: &mut Context) {
        let PairEnd { nic_queues, classes, route, vlan, transport, peer, .. } = *self.pair(place);
        let settings = &ctx.settings.transports[usize::from(transport)];
        let Some(rdma) = &settings.rdma else { return };
        if packet.opcode == Opcode::Cnp {
            let key = (self.id(), classes[1]);
            self.queue_pairs().notifications.entry(key).or_default()[0] += 1;
        }
        let is_control = packet.opcode == Opcode::Cnp || rdma.pair.unordered && !packet.opcode.is_data();
        let which = usize::from(is_control);
        let priority: Priority = if which == 1 { rdma.cnp_priority } else { settings.priority };
        let ecn = if rdma.ecn && packet.opcode.is_data() { Ecn::Ect0 } else { Ecn::NotEct };
        let size = ctx.settings.overhead.frame_size(rdma.pair.ip_size(&packet), priority) as u16;
        let telemetry = if rdma.pair.telemetry_bytes == 0 || packet.opcode == Opcode::Cnp {
            TelemetryId::NONE
        } else if packet.opcode.is_data() {
            ctx.packets.add_telemetry()
        } else {
            std::mem::replace(&mut self.pair(place).telemetry, TelemetryId::NONE)
        };
        let content = FrameKind::Rdma(RdmaFrame { to: peer, packet, telemetry, ecn });
        let frame = Packet { at: ctx.now(), route, vlan, ..Packet::new(content, size, classes[which]) };
        let index = ctx.packets.insert(frame);
        self.send_through_stack(nic_queues[which], index, ctx);
    }
}
