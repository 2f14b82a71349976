//! Queue pairs of `RoCEv2` at their hosts: opening and closing, packets in and out, timers.
//!
//! A flow has two ends, as a connection has (`connection.rs`), and what applications do with them is the same: the bytes of an exchange
//! or of a message are a message of the queue pair. No handshake takes place. Acknowledgements, NAKs and CNPs come from the NIC itself,
//! so they wait for no room in its buffer.

use super::host::BlockedSocket;
use super::messages::MessageBoundaries;
use super::node::HostNode;
use crate::context::Context;
use crate::event::Event;
use crate::flow::{Operation, RdmaCounts};
use crate::frame::{FrameKind, Packet, PacketId, RdmaFrame, TelemetryId};
use crate::ids::{EndpointId, HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, EndpointOpening, EndpointOrder, Exchange};
use pauseframe_rdma::cc::hpcc::{Quantum, Telemetry};
use pauseframe_rdma::{Failure, Opcode, QueuePair, QueuePairSettings, Stats};
use pauseframe_transport::{ConnectionFailure as FlowFailure, Ecn};
use pauseframe_units::{IndexVec, Priority, Span, Time};
use std::collections::BTreeMap;

/// The ends of queue pairs of all hosts of a partition.
#[derive(Debug, Default)]
pub(crate) struct QueuePairs {
    ends: IndexVec<EndpointId, Option<PairEnd>>,
    free: Vec<EndpointId>,
    /// By flow: the places of its two ends.
    places: Vec<[EndpointId; 2]>,
    /// Congestion notifications sent and received, by host and class.
    notifications: BTreeMap<(HostId, u8), [u64; 2]>,
}

/// One end of a queue pair.
#[derive(Debug)]
pub(crate) struct PairEnd {
    pub(crate) pair: QueuePair,
    /// When the pending event fires; `Time::MAX` if none is pending.
    timer_at: Time,
    /// The application posts `writes` bytes then; `Time::MAX`: nothing is due.
    write_at: Time,
    writes: u64,
    /// Delivered bytes at which the application answers, or has all it wants.
    expects: u64,
    reply: u64,
    reply_delay: Span,
    /// Flow * 2 + side of the other end, by the flow that opened the queue pair.
    peer: u32,
    /// The flow that it carries now, none between two.
    pub(crate) flow: Option<u32>,
    told: (u64, Stats),
    host: HostId,
    /// NIC queues of its data and of its CNPs; with unordered delivery all answers go with the CNPs.
    nic_queues: [NicQueueId; 2],
    classes: [u8; 2],
    route: u32,
    vlan: u16,
    transport: u16,
    workload: u16,
    /// In the host's line for room in the NIC.
    blocked: bool,
    closing: bool,
    quiet: bool,
    /// Bytes sent at which the application is notified.
    tells: u64,
    messages: Option<Box<MessageBoundaries>>,
}

impl QueuePairs {
    fn index_at(&self, address: u32) -> Option<EndpointId> {
        self.places.get((address / 2) as usize)?[(address & 1) as usize].to_option()
    }

    /// The end at an address, if it is open here.
    pub(crate) fn at(&self, address: u32) -> Option<&PairEnd> {
        self.ends[self.index_at(address)?].as_ref()
    }

    fn at_mut(&mut self, address: u32) -> Option<&mut PairEnd> {
        let place = self.index_at(address)?;
        self.ends[place].as_mut()
    }

    /// The host of the end at an address.
    pub(crate) fn host_at(&self, address: u32) -> Option<HostId> {
        Some(self.at(address)?.host)
    }

    pub(super) fn take_path(&mut self, address: u32, row: u32) {
        if let Some(end) = self.at_mut(address).filter(|end| end.address() == address) {
            end.route = row;
        }
    }

    pub(super) fn drain_counters(&mut self, take: impl FnMut(EndpointCounters)) {
        self.ends.iter_mut().flatten().filter_map(PairEnd::take_counters).for_each(take);
    }

    fn list(&mut self, address: u32, place: EndpointId) {
        let (flow, side) = ((address / 2) as usize, (address & 1) as usize);
        if self.places.len() <= flow {
            self.places.resize(flow + 1, [EndpointId::NONE; 2]);
        }
        self.places[flow][side] = place;
    }

    /// Congestion notifications that a host has sent and received in a class.
    pub(crate) fn notifications(&self, host: HostId, class: u8) -> [u64; 2] {
        self.notifications.get(&(host, class)).copied().unwrap_or_default()
    }

    fn add(&mut self, end: PairEnd) -> EndpointId {
        let address = end.address();
        let place = match self.free.pop() {
            Some(place) => {
                self.ends[place] = Some(end);
                place
            }
            None => self.ends.push(Some(end)),
        };
        self.list(address, place);
        place
    }
}

impl PairEnd {
    fn address(&self) -> u32 {
        self.peer ^ 1
    }

    fn begin(&mut self, exchange: &Exchange) {
        if exchange.operation.is_some() {
            self.begin_operation(exchange);
            return;
        }
        self.flow = Some(exchange.flow);
        self.expects = self.pair.delivered().saturating_add(exchange.expects);
        (self.reply, self.reply_delay) = (exchange.reply, exchange.reply_delay);
    }

    /// Posts an operation at its source; its destination only learns to whose flow its counts belong.
    fn begin_operation(&mut self, exchange: &Exchange) {
        let is_source = self.address() & 1 == 0;
        let (bytes, arriving) = match exchange.operation {
            Some(Operation::Read) if is_source => {
                self.pair.read(exchange.expects);
                (exchange.expects, exchange.expects)
            }
            Some(Operation::Write) if is_source => {
                self.pair.send(exchange.writes);
                (exchange.writes, 0)
            }
            Some(Operation::Write) => (exchange.expects, exchange.expects),
            _ => (0, 0),
        };
        self.messages.get_or_insert_default().operations.push(exchange.flow, bytes, arriving, 0);
        self.await_operation();
    }

    /// Waits for the oldest operation.
    fn await_operation(&mut self) {
        let oldest = self.messages.as_ref().and_then(|messages| messages.operations.first());
        self.expects = oldest.map_or(u64::MAX, |operation| operation.end);
        self.flow = oldest.map(|operation| operation.flow).or(self.flow);
    }

    fn has_operations(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| !messages.operations.is_empty())
    }

    /// Bytes that bring an operation or exchange to its end: at the source of operations those that are complete, otherwise those that have
    /// arrived.
    fn progress(&self) -> u64 {
        let is_source = self.address() & 1 == 0;
        if is_source && self.has_operations() { self.pair.acked() } else { self.pair.delivered() }
    }

    /// Ends the oldest operation if it is complete here.
    fn end_complete_operation(&mut self, ctx: &mut Context) -> bool {
        let progress = self.progress();
        let operations = self.messages.as_mut().map(|messages| &mut messages.operations);
        let Some(operation) = operations.and_then(|line| line.take_complete(progress)) else { return false };
        let later = self.pair.delivered() - operation.arrived;
        if let Some(counters) = self.take_counters() {
            self.told.0 -= later;
            let delivered = counters.delivered - later;
            let counters = EndpointCounters { delivered, ..counters };
            ctx.send_report(self.address(), EndpointEvent::Counted(counters));
        }
        if self.address() & 1 == 0 {
            ctx.send_report(self.address(), EndpointEvent::Complete);
        }
        self.await_operation();
        true
    }

    /// Bytes delivered that have not been told of.
    pub(crate) fn delivered(&self) -> u64 {
        self.pair.delivered() - self.told.0
    }

    /// What it has counted since this was asked last, for the flow that it carries.
    fn take_counters(&mut self) -> Option<EndpointCounters> {
        let flow = self.flow?;
        let (delivered, stats) = (self.pair.delivered(), *self.pair.stats());
        let (delivered_before, before) = std::mem::replace(&mut self.told, (delivered, stats));
        Some(EndpointCounters {
            flow,
            replies: self.address() & 1 == 1,
            delivered: delivered - delivered_before,
            retransmits: stats.retransmits - before.retransmits,
            timeouts: stats.timeouts - before.timeouts,
            ce_packets: stats.marked_received - before.marked_received,
            rdma: RdmaCounts {
                cnps_sent: stats.cnps_sent - before.cnps_sent,
                cnps_received: stats.cnps_received - before.cnps_received,
                repeats_by_nak: stats.retransmits_by_nak - before.retransmits_by_nak,
                repeats_by_timeout: stats.retransmits_by_timeout - before.retransmits_by_timeout,
            },
            ..EndpointCounters::default()
        })
    }

    fn tell_counts(&mut self, ctx: &mut Context) {
        if let Some(counters) = self.take_counters() {
            ctx.send_report(self.address(), EndpointEvent::Counted(counters));
        }
    }

    /// Keeps an event pending that is not later than the next deadline.
    fn arm_timer(&mut self, ctx: &mut Context) {
        let now = ctx.now();
        // Who waits for room goes on when it is there, not when pacing lets it.
        let deadline = self.pair.deadline(now).min(self.write_at);
        if deadline < self.timer_at {
            self.timer_at = deadline.max(now);
            ctx.schedule(self.timer_at, Event::QueuePair(self.address()));
        }
    }

    /// All bytes that this end waited for are in: the request is answered, or the flow is complete.
    fn on_expected(&mut self, ctx: &mut Context) {
        let (now, to) = (ctx.now(), self.address());
        if let Some(messages) = &mut self.messages {
            let delivered = self.pair.delivered();
            self.expects = messages
                .on_bytes_delivered(delivered, |token| ctx.send_report(to, EndpointEvent::Delivered(token)));
            return;
        }
        self.expects = u64::MAX;
        let reply = std::mem::take(&mut self.reply);
        if reply > 0 && self.reply_delay > Span::ZERO {
            (self.write_at, self.writes) = (now + self.reply_delay, reply);
        } else if reply > 0 {
            self.pair.send(reply);
        } else {
            ctx.send_report(to, EndpointEvent::Complete);
        }
    }

    fn on_sent(&mut self, ctx: &mut Context) {
        let (address, sent) = (self.address(), self.pair.sent());
        if let Some(messages) = &mut self.messages {
            self.tells =
                messages.on_bytes_sent(sent, |token| ctx.send_report(address, EndpointEvent::Sent(token)));
        }
    }
}

/// Opening and closing, and what applications do.
impl HostNode<'_> {
    /// Whether a queue pair is open at an address.
    pub(super) fn has_pair(&mut self, address: u32) -> bool {
        self.queue_pairs().index_at(address).is_some()
    }

    /// The end at a place.
    ///
    /// # Panics
    /// If it is another host's, or none.
    fn pair(&mut self, place: EndpointId) -> &mut PairEnd {
        let host = self.id();
        let end =
            self.queue_pairs().ends[place].as_mut().expect("the place of an open flow holds a queue pair");
        assert!(end.host == host, "a host was led to a queue pair of another");
        end
    }

    /// An end of a queue pair comes to be.
    pub(super) fn open_pair(&mut self, address: u32, opening: &EndpointOpening, ctx: &mut Context) {
        let EndpointOpening { spec, route, picked, exchange } = opening;
        let (side, now) = (address & 1, ctx.now());
        let Some(rdma) = ctx.settings.transports[usize::from(spec.transport)].rdma else { return };
        let priority = ctx.settings.transports[usize::from(spec.transport)].priority;
        let line = self.ports.port(self.port).rate.rate().0;
        let to = if side == 0 { spec.destination } else { spec.source };
        let overhead = ctx.settings.overhead;
        let settings = QueuePairSettings {
            line,
            link_overhead: overhead.frame_size(rdma.pair.mtu, priority) - rdma.pair.mtu + overhead.gap,
            control: rdma.control.resolve(line, ctx.plan.telemetry.unwrap_or(Quantum(1))),
            ..rdma.pair
        };
        let classes = [picked.class, ctx.plan.class_of_priority(rdma.cnp_priority)];
        let nic_queues = classes.map(|class| self.host().nic_queue_for(to, class));
        let mut end = PairEnd {
            pair: QueuePair::new(settings),
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            peer: address ^ 1,
            flow: None,
            told: (0, Stats::default()),
            host: self.id(),
            nic_queues,
            classes,
            route: *route,
            vlan: picked.vlan,
            transport: spec.transport,
            workload: spec.workload,
            blocked: false,
            closing: false,
            quiet: false,
            tells: u64::MAX,
            messages: None,
        };
        end.begin(exchange);
        // An operation is posted by now.
        let writes = if exchange.operation.is_some() { 0 } else { exchange.writes };
        if writes > 0 && spec.start <= now {
            end.pair.send(writes);
        } else if writes > 0 {
            (end.write_at, end.writes) = (spec.start, writes);
        }
        let place = self.queue_pairs().add(end);
        self.settle_pair(place, ctx);
    }

    /// What the application at an end does.
    pub(super) fn order_pair(&mut self, address: u32, order: &EndpointOrder, ctx: &mut Context) {
        let Some(place) = self.queue_pairs().index_at(address) else { return };
        match order {
            EndpointOrder::Continue(exchange) => {
                if exchange.operation.is_none() {
                    self.tell_pair_counts(place, ctx);
                } else if !self.pair(place).has_operations() {
                    self.pair(place).tell_counts(ctx);
                }
                let end = self.pair(place);
                end.begin(exchange);
                if exchange.writes > 0 && exchange.operation.is_none() {
                    end.pair.send(exchange.writes);
                }
                let side = end.address() & 1;
                self.queue_pairs().list(exchange.flow * 2 + side, place);
            }
            EndpointOrder::EndExchange => {
                self.tell_pair_counts(place, ctx);
                self.pair(place).flow = None;
                return;
            }
            &EndpointOrder::Write { bytes, token, written } => {
                let end = self.pair(place);
                if let Some(tells) = end.messages.get_or_insert_default().append_message(bytes, token) {
                    end.tells = tells;
                }
                if !written {
                    end.pair.send(bytes);
                }
            }
            &EndpointOrder::Await { bytes, token } => {
                let end = self.pair(place);
                end.expects = end.messages.get_or_insert_default().expect_message(bytes, token);
            }
            EndpointOrder::Close | EndpointOrder::Stop => {
                let end = self.pair(place);
                end.closing = true;
                if matches!(order, EndpointOrder::Stop) {
                    end.pair.stop_sending();
                }
            }
            EndpointOrder::Free => {
                self.free_pair(place, ctx);
                return;
            }
            EndpointOrder::Open(_)
            | EndpointOrder::OpenDatagrams(_)
            | EndpointOrder::AwaitDatagrams(_)
            | EndpointOrder::FreeDatagrams => {
                unreachable!("what opens an end or is for datagrams goes another way")
            }
        }
        self.settle_pair(place, ctx);
    }

    fn tell_pair_counts(&mut self, place: EndpointId, ctx: &mut Context) {
        let end = self.pair(place);
        let (address, flow) = (end.address(), end.flow);
        end.tell_counts(ctx);
        // Late packets belong to the queue pair, which goes by the flow that opened it.
        if let Some(flow) = flow.filter(|flow| *flow != address / 2) {
            self.queue_pairs().list(flow * 2 + (address & 1), EndpointId::NONE);
        }
    }

    fn free_pair(&mut self, place: EndpointId, ctx: &mut Context) {
        self.tell_pair_counts(place, ctx);
        let pairs = self.queue_pairs();
        let Some(end) = pairs.ends[place].take() else { return };
        pairs.list(end.address(), EndpointId::NONE);
        // The line for the NIC knows an end by its place: nobody else gets it before its turn has come.
        if !end.blocked {
            pairs.free.push(place);
        }
    }
}

/// Packets and timers.
impl HostNode<'_> {
    /// A packet has come through the stack.
    #[inline(never)]
    pub(super) fn deliver_rdma(&mut self, index: PacketId, ctx: &mut Context) {
        let FrameKind::Rdma(frame) = ctx.packets[index].content else { return };
        let Some(place) = self.queue_pairs().index_at(frame.to) else {
            ctx.packets.remove(index);
            return; // A late duplicate of a flow that is over.
        };
        let end = self.pair(place);
        if frame.packet.opcode == Opcode::Cnp {
            let key = (end.host, end.classes[1]);
            self.queue_pairs().notifications.entry(key).or_default()[1] += 1;
        }
        let end = self.pair(place);
        let before = end.pair.delivered();
        let telemetry = ctx.packets.telemetry(&frame);
        end.pair.on_packet_with(&frame.packet, telemetry, frame.ecn == Ecn::Ce, ctx.now());
        ctx.packets.remove(index);
        let (received, workload) = (end.pair.delivered() - before, end.workload);
        if received > 0 {
            self.count_received(workload, received, ctx);
        }
        self.settle_pair(place, ctx);
    }

    /// A deadline. It may have moved on since the event was planned: then only the event is renewed.
    pub(crate) fn on_pair_timer(&mut self, address: u32, ctx: &mut Context) {
        let now = ctx.now();
        let Some(place) = self.queue_pairs().index_at(address) else { return };
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
    fn settle_pair(&mut self, place: EndpointId, ctx: &mut Context) {
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
        let now = ctx.now();
        self.send_replies(place, ctx);
        while !self.pair(place).blocked {
            if !self.host().has_nic_buffer_space(ctx) {
                self.pair(place).blocked = true;
                self.host().block_socket(BlockedSocket::QueuePair(place));
                return;
            }
            let Some(packet) = self.pair(place).pair.poll_data(now) else { return };
            self.send_rdma(place, packet, ctx);
            // An answer may have waited for the last packet of a response.
            self.send_replies(place, ctx);
        }
    }

    /// A queue pair in the line for the NIC sends one packet; false if it had none and left the line.
    pub(super) fn send_one_blocked_pair(&mut self, place: EndpointId, ctx: &mut Context) -> bool {
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
        let Some(rdma) = settings.rdma else { return };
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
        } else {
            let is_data = packet.opcode.is_data();
            ctx.packets.add_telemetry(if is_data { &Telemetry::EMPTY } else { self.pair(place).pair.echo() })
        };
        let content = FrameKind::Rdma(RdmaFrame { to: peer, packet, telemetry, ecn });
        let frame = Packet { at: ctx.now(), route, vlan, ..Packet::new(content, size, classes[which]) };
        let index = ctx.packets.insert(frame);
        self.send_through_stack(nic_queues[which], index, ctx);
    }
}
