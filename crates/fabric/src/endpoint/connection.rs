//! TCP endpoints: opening and closing, segments into and out of TCP, timers.
//!
//! A flow has two endpoints, side 0 at its source and side 1 at its destination; neither reads the other's state. The fabric sees TCP only through
//! its sans-IO verbs: `send`, `on_segment`, `poll_transmit`, `deadline`, `on_timeout`, `close`. A kept connection carries several flows; its packets
//! and timers carry the number of the flow that opened it.

use super::host::BlockedSocket;
use super::messages::MessageBoundaries;
use super::node::{BorrowedHost, EndpointToken};
use super::operations::PendingStorageOperation;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{CompactTcpSegment, FrameContent, Packet, PacketId};
use crate::ids::{EndpointId, HostId, NicQueueId};
use crate::order::{
    EndpointCounters, EndpointEvent, EndpointExchange, EndpointOpeningParameters, EndpointOrder,
};
use crate::settings::NicQueue;
use pauseframe_engine::mix_bits;
use pauseframe_transport::{CachePolicy, Connection, EcnCodepoint, Segment, TcpFlags};
use pauseframe_units::{NodeId, Priority, Span, Time};

/// IPv4 header, bytes.
const IPV4_HEADER_BYTES: u32 = 20;

/// One end of a connection at its host.
#[derive(Debug)]
pub(crate) struct TcpEndpoint {
    pub(crate) connection: Connection,
    /// When the pending `Timer` event fires; `Time::MAX` if none is pending.
    timer_at: Time,
    /// When the application writes `writes` bytes; `Time::MAX`: no write is due.
    write_at: Time,
    writes: u64,
    /// Number of delivered bytes at which the application replies or completes.
    pub(super) expects: u64,
    /// Size of the application's reply, and the time before it.
    reply: u64,
    reply_delay: Span,
    /// Address (flow * 2 + side) of the peer endpoint, with the flow that opened the connection.
    pub(super) peer: u32,
    /// The flow that the connection carries now; `None` between two flows.
    pub(crate) flow: Option<u32>,
    /// Counters at the last report to the traffic.
    told: EndpointLifetimeCounters,
    connected: Option<Time>,
    pub(super) host: HostId,
    nic_queue: NicQueueId,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(super) route: u32,
    /// The hosts of this endpoint and of its peer.
    nodes: [NodeId; 2],
    transport: u16,
    workload: u16,
    class: u8,
    /// Index of the VLAN of its packets, if VLANs are used.
    vlan: u16,
    /// The VLANs to choose from for each packet; empty if the flow keeps one VLAN.
    vlans: Box<[u16]>,
    /// Waits in the host's round robin for NIC buffer space.
    blocked: bool,
    /// The flow has ended; the endpoint is removed when nothing is in flight.
    closing: bool,
    /// The traffic knows that nothing is in flight.
    quiet: bool,
    /// Number of sent bytes at which the application is notified.
    pub(super) tells: u64,
    /// Message boundaries, if the connection carries messages.
    pub(super) messages: Option<Box<MessageBoundaries>>,
}

/// Counters of an endpoint over all flows that it has carried.
#[derive(Clone, Copy, Default, Debug)]
struct EndpointLifetimeCounters {
    delivered: u64,
    ce_packets: u64,
    retransmits: u32,
    timeouts: u32,
    loss_probes: u32,
    undone: u32,
}

impl TcpEndpoint {
    fn lifetime_counters(&self) -> EndpointLifetimeCounters {
        let stats = self.connection.connection_stats();
        EndpointLifetimeCounters {
            delivered: self.connection.delivered_bytes(),
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
            ce_packets: stats.ce_received,
            loss_probes: self.connection.tail_loss_probes_sent(),
            undone: self.connection.undone_reduction_count(),
        }
    }

    /// Takes the counters since the last call, for the current flow; `None` between two flows.
    pub(super) fn take_unreported_counters(&mut self) -> Option<EndpointCounters> {
        let flow = self.flow?;
        let (all, told) = (self.lifetime_counters(), self.told);
        self.told = all;
        Some(EndpointCounters {
            flow,
            replies: self.own_endpoint_key() & 1 == 1,
            delivered: all.delivered - told.delivered,
            retransmits: all.retransmits - told.retransmits,
            timeouts: all.timeouts - told.timeouts,
            ce_packets: all.ce_packets - told.ce_packets,
            loss_probes: all.loss_probes - told.loss_probes,
            undone: all.undone - told.undone,
            connected: self.connected.take(),
            ..EndpointCounters::default()
        })
    }

    /// Bytes that TCP has sent at least once.
    fn bytes_sent_at_least_once(&self) -> u64 {
        self.connection.acked_bytes() + self.connection.flight_size()
    }

    /// In-order bytes that have not been reported yet.
    pub(crate) fn unreported_delivered_bytes(&self) -> u64 {
        self.connection.delivered_bytes() - self.told.delivered
    }

    /// Its own endpoint key (flow * 2 + side).
    pub(super) fn own_endpoint_key(&self) -> u32 {
        self.peer ^ 1
    }

    fn begin_endpoint_exchange(&mut self, exchange: &EndpointExchange) {
        if exchange.operation.is_some() {
            let EndpointExchange { flow, expects, reply, .. } = *exchange;
            let bytes = if expects == u64::MAX { 0 } else { expects };
            let operations = &mut self.messages.get_or_insert_default().operations;
            operations.push_storage_operation(flow, bytes, bytes, reply);
            self.await_bytes_of_oldest_operation();
            return;
        }
        self.flow = Some(exchange.flow);
        self.expects = self.connection.delivered_bytes().saturating_add(exchange.expects);
        (self.reply, self.reply_delay) = (exchange.reply, exchange.reply_delay);
    }
}

/// Operations.
impl<'n> BorrowedHost<'n> {
    /// Bytes that an application expects have arrived.
    fn on_expected_bytes_received(&mut self, place: EndpointToken<'n>, endpoint_key: u32, ctx: &mut Context) {
        let end = self.endpoint_mut(place);
        if end.has_pending_operations() {
            while let Some(operation) = self.endpoint_mut(place).finish_oldest_operation_if_complete(ctx) {
                self.unregister_flow_of_operation(operation.flow, place);
            }
        } else {
            end.on_expected_bytes_received(endpoint_key, ctx);
        }
    }

    /// An operation is complete here. The last one keeps the counts that come before the next.
    fn unregister_flow_of_operation(&mut self, flow: u32, place: EndpointToken<'n>) {
        let end = self.endpoint_mut(place);
        let (endpoint_key, is_over) = (end.own_endpoint_key(), end.flow != Some(flow));
        if is_over && flow != endpoint_key / 2 {
            self.unregister_endpoint_key(flow * 2 + (endpoint_key & 1));
        }
    }
}

impl TcpEndpoint {
    fn has_pending_operations(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| !messages.operations.has_no_storage_operations())
    }

    /// Waits for the oldest operation.
    fn await_bytes_of_oldest_operation(&mut self) {
        let oldest = self.messages.as_ref().and_then(|messages| messages.operations.oldest_operation());
        self.expects = oldest.map_or(u64::MAX, |operation| operation.end);
        self.flow = oldest.map(|operation| operation.flow).or(self.flow);
    }

    /// Ends the oldest operation if it is complete here: sends the reply or reports completion.
    fn finish_oldest_operation_if_complete(&mut self, ctx: &mut Context) -> Option<PendingStorageOperation> {
        let delivered = self.connection.delivered_bytes();
        let operation = self.messages.as_mut()?.operations.take_oldest_operation_if_complete(delivered)?;
        let later = delivered - operation.arrived;
        if let Some(counters) = self.take_unreported_counters() {
            self.told.delivered -= later;
            let delivered = counters.delivered - later;
            let counters = EndpointCounters { delivered, ..counters };
            ctx.report_endpoint_event(self.own_endpoint_key(), EndpointEvent::Counted(counters));
        }
        if operation.reply > 0 {
            self.connection.send_application_data(operation.reply, ctx.now());
        } else {
            ctx.report_endpoint_event(self.own_endpoint_key(), EndpointEvent::Complete);
        }
        self.await_bytes_of_oldest_operation();
        Some(operation)
    }
}

/// Unacknowledged bytes of a connection, capped to 32 bits: its rank in a pFabric queue.
#[inline(never)]
fn pfabric_rank_of_connection(connection: &Connection) -> u32 {
    u32::try_from(connection.bytes_not_yet_acked()).unwrap_or(u32::MAX)
}

/// Opening, closing and application orders.
impl<'n> BorrowedHost<'n> {
    /// Creates an endpoint.
    pub(super) fn open_tcp_endpoint(
        &mut self,
        endpoint_key: u32,
        opening: EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let EndpointOpeningParameters { spec, route, picked, exchange, .. } = opening;
        let (flow, side, now) = (endpoint_key / 2, endpoint_key & 1, ctx.now());
        let iss =
            |side: u32| mix_bits(ctx.settings.seed ^ mix_bits(u64::from(flow) * 2 + u64::from(side))) as u32;
        let nodes = if side == 0 { [spec.source, spec.destination] } else { [spec.destination, spec.source] };
        let config = ctx.tcp_config_with_host_clock_phase(nodes[0], spec.transport);
        let mut connection = if side == 0 {
            Connection::open(config, iss(0), iss(1), now)
        } else {
            Connection::accept(config, iss(1), iss(0))
        };
        if side == 1 && ctx.settings.refusing.contains(&nodes[0]) {
            connection = connection.with_connections_refused();
        } else if side == 1 && ctx.settings.silent.contains(&nodes[0]) {
            connection = connection.with_segments_unanswered();
        }
        connection.set_flow_number_for_plugin_messages(flow);
        let at_once = side == 0 && spec.start <= now;
        if at_once {
            connection.send_application_data(exchange.writes, now);
        }
        if side == 0
            && let Some(metrics) = self.find_cached_tcp_metrics(nodes[1], spec.transport, ctx)
        {
            connection.inherit_cached_metrics(metrics);
        }
        let host = self.own_host_id();
        let frame = ctx.settings.overhead.frame_size_of_ip_packet(ctx.settings.mtu, Priority::default())
            + ctx.hot.gap;
        connection
            .set_transmission_time_of_full_segment(self.ports.port_state(self.port).rate.serialise(frame));
        let nic_queue = self.host_mut().nic_queue_of_flow(endpoint_key, nodes[1], picked.class);
        let mut end = TcpEndpoint::new(connection, endpoint_key, host, nodes, nic_queue);
        (end.transport, end.workload, end.route) = (spec.transport, spec.workload, route);
        (end.vlan, end.class, end.vlans) = (picked.vlan, picked.class, picked.among);
        end.begin_endpoint_exchange(&exchange);
        if side == 0 && !at_once {
            (end.write_at, end.writes) = (spec.start, exchange.writes);
        }
        let place = self.add_endpoint(end);
        if side == 0 {
            self.send_available_segments(place, ctx);
            self.endpoint_mut(place).schedule_endpoint_timer(ctx);
        }
    }

    /// Executes an order of the application at an open endpoint. An endpoint that has failed ignores it.
    pub(super) fn execute_tcp_application_order(
        &mut self,
        endpoint_key: u32,
        order: &EndpointOrder,
        ctx: &mut Context,
    ) {
        let Some(place) = self.find_endpoint_by_key(endpoint_key) else { return };
        let now = ctx.now();
        match order {
            EndpointOrder::Continue(exchange) => self.begin_exchange_on_kept_connection(place, exchange, ctx),
            EndpointOrder::EndExchange => {
                self.report_endpoint_counters(place, ctx);
                self.endpoint_mut(place).flow = None;
                return;
            }
            &EndpointOrder::Write { bytes, token, written } => {
                // The failure is reported with the next event, not now.
                self.endpoint_mut(place).write_application_message(bytes, token, written, now);
                self.send_available_segments(place, ctx);
                self.endpoint_mut(place).schedule_endpoint_timer(ctx);
                return;
            }
            &EndpointOrder::Await { bytes, token } => {
                let end = self.endpoint_mut(place);
                end.expects = end.messages.get_or_insert_default().append_expected_message(bytes, token);
                return;
            }
            EndpointOrder::Close | EndpointOrder::Stop => {
                let end = self.endpoint_mut(place);
                end.closing = true;
                if matches!(order, EndpointOrder::Stop) {
                    end.connection.discard_unsent_application_data();
                }
                end.connection.close(now);
            }
            EndpointOrder::Free => {
                self.free_tcp_endpoint(place, ctx);
                return;
            }
            EndpointOrder::Open(_)
            | EndpointOrder::OpenDatagrams(_)
            | EndpointOrder::AwaitDatagrams(_)
            | EndpointOrder::FreeDatagrams => {
                unreachable!("what opens an end or is for datagrams has its own way")
            }
        }
        self.update_endpoint_after_event(place, endpoint_key, ctx);
    }

    /// Starts the next exchange on a kept connection.
    fn begin_exchange_on_kept_connection(
        &mut self,
        place: EndpointToken<'n>,
        exchange: &EndpointExchange,
        ctx: &mut Context,
    ) {
        if !self.endpoint_mut(place).has_pending_operations() {
            self.report_endpoint_counters(place, ctx);
            let end = self.endpoint_mut(place);
            // Probes between two flows (after a delayed last ACK) belong to neither: their counters are discarded.
            end.told = end.lifetime_counters();
        }
        let end = self.endpoint_mut(place);
        let side = end.own_endpoint_key() & 1;
        end.begin_endpoint_exchange(exchange);
        if exchange.writes > 0 {
            end.connection.send_application_data(exchange.writes, ctx.now());
        }
        self.register_endpoint_key(exchange.flow * 2 + side, place);
    }

    fn report_endpoint_counters(&mut self, place: EndpointToken<'n>, ctx: &mut Context) {
        let end = self.endpoint_mut(place);
        let (endpoint_key, flow) = (end.own_endpoint_key(), end.flow);
        if let Some(counters) = end.take_unreported_counters() {
            ctx.report_endpoint_event(endpoint_key, EndpointEvent::Counted(counters));
        }
        // Late segments count for the flow that opened the connection.
        if let Some(flow) = flow.filter(|flow| *flow != endpoint_key / 2) {
            self.unregister_endpoint_key(flow * 2 + (endpoint_key & 1));
        }
    }

    /// Frees an endpoint and its index.
    fn free_tcp_endpoint(&mut self, place: EndpointToken<'n>, ctx: &mut Context) {
        self.cache_tcp_metrics(place, ctx);
        self.report_endpoint_counters(place, ctx);
        let Some(TcpEndpoint { peer, blocked, .. }) = self.remove_endpoint(place) else { return };
        self.unregister_endpoint_key(peer ^ 1);
        self.host_mut().close_queues_of_flow(peer ^ 1);
        // The round robin of blocked sockets still holds this index, so the index is freed only when its turn has come.
        if !blocked {
            self.release_endpoint_index(place.endpoint_arena_index());
        }
    }

    /// Saves the source's TCP metrics for the next connection between the two hosts.
    fn cache_tcp_metrics(&mut self, place: EndpointToken<'n>, ctx: &Context) {
        let end = self.endpoint_mut(place);
        let caches = ctx.settings.transports[usize::from(end.transport)].config.cache != CachePolicy::None;
        if caches && end.own_endpoint_key() & 1 == 0 {
            let (to, transport) = (end.nodes[1], end.transport);
            let (end, metrics) = self.endpoint_and_cached_metrics_mut(place, to, transport, ctx);
            end.connection.cache_connection_metrics(metrics);
        }
    }
}

/// Segments and timers.
impl<'n> BorrowedHost<'n> {
    /// Passes a packet from the stack to TCP and handles the results.
    #[inline]
    pub(super) fn deliver_to_tcp(&mut self, index: PacketId, ctx: &mut Context) {
        let carried = match ctx.packets[index].content {
            FrameContent::Segment(carried) => carried,
            FrameContent::Datagram { to, len, ecn } => {
                ctx.packets.remove_packet(index);
                self.deliver_datagram(to, len, ecn, ctx);
                return;
            }
            FrameContent::Rdma(_) => {
                self.deliver_rdma_packet(index, ctx);
                return;
            }
            FrameContent::Foreign { bytes, ecn, .. } => {
                self.deliver_frame_to_external_stack(index, bytes, ecn, ctx);
                return;
            }
            _ => unreachable!("what is no packet of a flow goes another way"),
        };
        let (segment, to) = (ctx.packets.unpack_tcp_segment(&carried), carried.to);
        ctx.packets.remove_packet(index);
        let Some(place) = self.find_endpoint_by_key(to) else {
            return; // A late duplicate of a flow that is over.
        };
        let now = ctx.now();
        let end = self.endpoint_mut(place);
        let before = end.connection.received_bytes();
        if segment.flags.contains_flags(TcpFlags::SYN) && to & 1 == 0 && !end.connection.is_established() {
            end.connected.get_or_insert(now);
        }
        end.connection.on_segment(&segment, carried.ecn, now);
        // A limited reassembly list may discard bytes that are then received again.
        let (received, workload) = (end.connection.received_bytes().saturating_sub(before), end.workload);
        if received > 0 {
            self.count_goodput(workload, received, ctx);
        }
        self.update_endpoint_after_event(place, to, ctx);
    }

    /// Runs after every event of an endpoint: notifies the application, sends what is allowed, sets the timer, reports the end.
    #[inline(always)]
    fn update_endpoint_after_event(
        &mut self,
        place: EndpointToken<'n>,
        endpoint_key: u32,
        ctx: &mut Context,
    ) {
        let end = self.endpoint_mut(place);
        // Rarely taken: otherwise the endpoint need not be found again.
        let end = if end.connection.delivered_bytes() >= end.expects {
            self.on_expected_bytes_received(place, endpoint_key, ctx);
            self.endpoint_mut(place)
        } else {
            end
        };
        if end.bytes_sent_at_least_once() >= end.tells {
            end.notify_of_sent_messages(ctx);
        }
        self.send_available_segments(place, ctx);
        let end = self.endpoint_mut(place);
        end.schedule_endpoint_timer(ctx);
        if end.closing {
            if !end.quiet && end.connection.is_quiescent() {
                end.quiet = true;
                ctx.report_endpoint_event(endpoint_key, EndpointEvent::Drained);
            }
        } else if let Some(failure) = end.connection.connection_failure() {
            ctx.report_endpoint_event(endpoint_key, EndpointEvent::Failed(failure));
            self.free_tcp_endpoint(place, ctx);
        }
    }

    /// Passes segments to the host while TCP has some and the host has room for them.
    #[inline(always)]
    fn send_available_segments(&mut self, place: EndpointToken<'n>, ctx: &mut Context) {
        if self.endpoint_mut(place).blocked {
            return;
        }
        loop {
            let (end, host) = self.endpoint_and_host_mut(place);
            let connection = &end.connection;
            if !host.has_room(end.nic_queue, ctx, || connection.small_queue_share())
                && !connection.is_super_packet_partly_sent()
            {
                end.blocked = true;
                let socket = BlockedSocket::Connection(place.endpoint_arena_index());
                host.append_blocked_socket(end.nic_queue, socket);
                return;
            }
            // Passed by reference to avoid a copy.
            let Some(sent) = &end.connection.poll_transmit(ctx.now()) else { return };
            self.send_segment(place, sent, ctx);
        }
    }

    /// A blocked socket sends one segment in its turn; false if it had none and left the round robin. With a queue for each
    /// flow it sends all that has room and leaves the round robin.
    pub(super) fn send_segment_of_blocked_endpoint(&mut self, place: EndpointId, ctx: &mut Context) -> bool {
        let now = ctx.now();
        let Some(place) = self.find_endpoint_by_index(place) else {
            // The endpoint was closed while blocked; now its index can be freed.
            self.release_endpoint_index(place);
            return false;
        };
        let end = self.endpoint_mut(place);
        if ctx.settings.nic_queue == NicQueue::PerFlow {
            end.blocked = false;
            self.send_available_segments(place, ctx);
            self.endpoint_mut(place).schedule_endpoint_timer(ctx);
            return false;
        }
        let Some(sent) = &end.connection.poll_transmit(now) else {
            end.blocked = false;
            end.schedule_endpoint_timer(ctx);
            return false;
        };
        self.send_segment(place, sent, ctx);
        while self.endpoint_mut(place).connection.is_super_packet_partly_sent() {
            let Some(sent) = &self.endpoint_mut(place).connection.poll_transmit(now) else { break };
            self.send_segment(place, sent, ctx);
        }
        self.endpoint_mut(place).schedule_endpoint_timer(ctx);
        true
    }

    /// Picks the VLAN of the endpoint's next packet.
    #[cold]
    fn pick_vlan_of_next_packet(&mut self, place: EndpointToken<'n>, ctx: &Context) {
        let end = self.endpoint_mut(place);
        let (among, class) = (std::mem::take(&mut end.vlans), end.class);
        let Some((draws, id)) = self.per_packet_vlan_picker() else { return };
        let (vlan, class) = draws.pick_vlan_for_packet(id, &among, class, ctx);
        let (end, host) = self.endpoint_and_host_mut(place);
        (end.vlan, end.class, end.vlans) = (vlan, class, among);
        end.nic_queue = host.nic_queue_of_flow(end.peer ^ 1, NodeId(end.route), class);
    }

    #[inline(always)]
    fn send_segment(
        &mut self,
        place: EndpointToken<'n>,
        (segment, ecn): &(Segment, EcnCodepoint),
        ctx: &mut Context,
    ) {
        if ctx.hot.vlan_per_packet {
            self.pick_vlan_of_next_packet(place, ctx);
        }
        let end = self.endpoint_mut(place);
        let transport = &ctx.settings.transports[usize::from(end.transport)];
        let ip = IPV4_HEADER_BYTES + segment.tcp_header_len(transport.config.timestamps) + segment.len;
        let nic_queue = end.nic_queue;
        // A packet without data (SYN, ACK) has rank 0 and precedes all others.
        let ranked = ctx.hot.ranked != 0 && segment.len > 0;
        let carried = CompactTcpSegment {
            to: end.peer,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            remaining: if ranked { pfabric_rank_of_connection(&end.connection) } else { 0 },
            options: ctx.packets.add_tcp_options(segment.options),
            stamps: segment.stamps,
            len: segment.len as u16,
            ecn: *ecn,
            flags: segment.flags,
        };
        let size = ctx.settings.overhead.frame_size_of_ip_packet(ip, transport.priority) as u16;
        let packet = Packet {
            at: ctx.now(),
            route: end.route,
            vlan: end.vlan,
            ..Packet::new(FrameContent::Segment(carried), size, end.class)
        };
        let index = ctx.packets.insert_packet(packet);
        self.send_through_stack(nic_queue, index, ctx);
    }

    /// Handles a timer event. If the deadline has moved since, only a new event is scheduled.
    pub(crate) fn on_endpoint_timer(&mut self, endpoint_key: u32, ctx: &mut Context) {
        let now = ctx.now();
        let Some(place) = self.find_endpoint_by_key(endpoint_key) else { return };
        let end = self.endpoint_mut(place);
        if end.timer_at != now {
            return;
        }
        end.timer_at = Time::MAX;
        if end.write_at <= now {
            end.write_at = Time::MAX;
            end.connection.send_application_data(end.writes, now);
        }
        if end.connection.next_timer_deadline().is_some_and(|deadline| deadline <= now) {
            end.connection.on_timeout(now);
        }
        self.update_endpoint_after_event(place, endpoint_key, ctx);
    }
}

impl TcpEndpoint {
    /// An endpoint without data.
    fn new(
        connection: Connection,
        endpoint_key: u32,
        host: HostId,
        nodes: [NodeId; 2],
        nic_queue: NicQueueId,
    ) -> TcpEndpoint {
        TcpEndpoint {
            connection,
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            peer: endpoint_key ^ 1,
            flow: None,
            told: EndpointLifetimeCounters::default(),
            connected: None,
            host,
            nic_queue,
            route: 0,
            nodes,
            transport: 0,
            workload: 0,
            class: 0,
            vlan: 0,
            vlans: Box::default(),
            blocked: false,
            closing: false,
            quiet: false,
            tells: u64::MAX,
            messages: None,
        }
    }

    /// Ensures that a `Timer` event is pending no later than the deadline.
    #[inline]
    fn schedule_endpoint_timer(&mut self, ctx: &mut Context) {
        let deadline = self.connection.next_timer_deadline().unwrap_or(Time::MAX).min(self.write_at);
        if deadline < self.timer_at {
            let at = deadline.max(ctx.now());
            self.timer_at = at;
            ctx.schedule_event(at, Event::Timer(self.own_endpoint_key()));
        }
    }

    /// All expected bytes have arrived: sends the reply or reports completion.
    fn on_expected_bytes_received(&mut self, endpoint_key: u32, ctx: &mut Context) {
        let now = ctx.now();
        if let Some(messages) = &mut self.messages {
            let delivered = self.connection.delivered_bytes();
            let to = self.peer ^ 1;
            self.expects = messages.report_delivered_messages(delivered, |token| {
                ctx.report_endpoint_event(to, EndpointEvent::Delivered(token));
            });
            return;
        }
        self.expects = u64::MAX;
        let reply = std::mem::take(&mut self.reply);
        if reply > 0 && self.reply_delay > Span::ZERO {
            (self.write_at, self.writes) = (now + self.reply_delay, reply);
        } else if reply > 0 {
            self.connection.send_application_data(reply, now);
        } else {
            ctx.report_endpoint_event(endpoint_key, EndpointEvent::Complete);
        }
    }

    /// Notifies the application of sent messages.
    #[cold]
    fn notify_of_sent_messages(&mut self, ctx: &mut Context) {
        let (endpoint_key, sent) = (self.peer ^ 1, self.bytes_sent_at_least_once());
        if let Some(messages) = &mut self.messages {
            self.tells = messages.report_sent_messages(sent, |token| {
                ctx.report_endpoint_event(endpoint_key, EndpointEvent::Sent(token));
            });
        }
    }

    /// Writes a message of the application.
    fn write_application_message(&mut self, bytes: u64, token: Option<u32>, written: bool, now: Time) {
        if let Some(tells) = self.messages.get_or_insert_default().append_message_to_send(bytes, token) {
            self.tells = tells;
        }
        if !written {
            self.connection.send_application_data(bytes, now);
        }
    }
}
