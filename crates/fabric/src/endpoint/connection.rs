//! Connection ends: opening and closing, segments in and out of TCP, timers.
//!
//! A flow has two connection ends, side 0 at its source and side 1 at its destination; neither sees the other. The fabric sees TCP
//! only through its sans-IO verbs: `send`, `on_segment`, `poll_transmit`, `deadline`, `on_timeout`, `close`. A kept connection
//! carries several flows; its packets and timers go by the number of the flow that opened it.

use super::host::Socket;
use super::messages::Boundaries;
use super::node::{HostNode, OwnEndpoint};
use crate::context::Context;
use crate::event::Event;
use crate::frame::{Carried, Content, Packet, PacketId};
use crate::ids::{EndpointId, HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, Exchange, Opening, Order};
use pauseframe_engine::mix;
use pauseframe_transport::{CachePolicy, Connection, Ecn, Flags, Segment};
use pauseframe_units::{NodeId, Priority, Span, Time};

/// IPv4 header, bytes.
const IP_HEADER: u32 = 20;

/// One end of a connection at its host.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) connection: Connection,
    /// When the pending `Timer` event fires; `Time::MAX` if none is pending.
    timer_at: Time,
    /// The application writes `writes` bytes then; `Time::MAX`: nothing is due.
    write_at: Time,
    writes: u64,
    /// Delivered bytes at which the application does something: answers, or has all it wants.
    pub(super) expects: u64,
    /// What it answers, and how long it takes to.
    reply: u64,
    reply_delay: Span,
    /// Flow * 2 + side of the other end, by the flow that opened the connection.
    pub(super) peer: u32,
    /// The flow that it carries now, none between two.
    pub(crate) flow: Option<u32>,
    /// What has been told of what it has counted.
    told: Counts,
    connected: Option<Time>,
    pub(super) host: HostId,
    nic_queue: NicQueueId,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(super) route: u32,
    /// The hosts of this end and of the other.
    nodes: [NodeId; 2],
    transport: u16,
    workload: u16,
    class: u8,
    /// Position of the VLAN of its packets, where they have one.
    vlan: u16,
    /// The VLANs that packets choose from, where each chooses anew.
    vlans: Box<[u16]>,
    /// In the host's line for room in the NIC.
    blocked: bool,
    /// The flow is over; the end goes when nothing is on its way any more.
    closing: bool,
    /// That has been told.
    quiet: bool,
    /// Bytes sent at which the application wants to know.
    pub(super) tells: u64,
    /// Where messages end, on a connection that carries some.
    pub(super) messages: Option<Box<Boundaries>>,
}

/// What an end counts for all flows that it has carried.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    delivered: u64,
    ce_packets: u64,
    retransmits: u32,
    timeouts: u32,
    loss_probes: u32,
    undone: u32,
}

impl Endpoint {
    fn counts(&self) -> Counts {
        let stats = self.connection.stats();
        Counts {
            delivered: self.connection.delivered(),
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
            ce_packets: stats.ce_received,
            loss_probes: self.connection.loss_probes(),
            undone: self.connection.undone(),
        }
    }

    /// What it has counted since this was asked last, for the flow that it carries; nothing between two.
    pub(super) fn take_counters(&mut self) -> Option<EndpointCounters> {
        let flow = self.flow?;
        let (all, told) = (self.counts(), self.told);
        self.told = all;
        Some(EndpointCounters {
            flow,
            replies: self.address() & 1 == 1,
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
    fn sent(&self) -> u64 {
        self.connection.acked() + self.connection.flight_size()
    }

    /// In-order bytes that have not been told of.
    pub(crate) fn delivered(&self) -> u64 {
        self.connection.delivered() - self.told.delivered
    }

    /// Its own address.
    pub(super) fn address(&self) -> u32 {
        self.peer ^ 1
    }

    fn begin(&mut self, exchange: &Exchange) {
        self.flow = Some(exchange.flow);
        self.expects = self.connection.delivered().saturating_add(exchange.expects);
        (self.reply, self.reply_delay) = (exchange.reply, exchange.reply_delay);
    }
}

/// What a connection has left to be acknowledged, as 32 bits hold it.
#[inline(never)]
fn rank(connection: &Connection) -> u32 {
    u32::try_from(connection.remaining()).unwrap_or(u32::MAX)
}

/// Opening and closing, and what applications do.
impl<'n> HostNode<'n> {
    /// A connection end comes to be.
    pub(super) fn open(&mut self, address: u32, opening: Opening, ctx: &mut Context) {
        let Opening { spec, route, picked, exchange } = opening;
        let (flow, side, now) = (address / 2, address & 1, ctx.now());
        let iss = |side: u32| mix(ctx.settings.seed ^ mix(u64::from(flow) * 2 + u64::from(side))) as u32;
        let nodes = if side == 0 { [spec.source, spec.destination] } else { [spec.destination, spec.source] };
        let config = ctx.config_at(nodes[0], spec.transport);
        let mut connection = if side == 0 {
            Connection::open(config, iss(0), iss(1), now)
        } else {
            Connection::accept(config, iss(1), iss(0))
        };
        if side == 1 && ctx.settings.refusing.contains(&nodes[0]) {
            connection = connection.refusing();
        } else if side == 1 && ctx.settings.silent.contains(&nodes[0]) {
            connection = connection.silent();
        }
        connection.set_flow(flow);
        let at_once = side == 0 && spec.start <= now;
        if at_once {
            connection.send(exchange.writes, now);
        }
        if side == 0
            && let Some(metrics) = self.metrics(nodes[1], spec.transport, ctx)
        {
            connection.inherit(metrics);
        }
        let host = self.id();
        let frame = ctx.settings.overhead.frame_size(ctx.settings.mtu, Priority::default()) + ctx.hot.gap;
        connection.set_frame_time(self.ports.port(self.port).rate.serialise(frame));
        let nic_queue = self.host().queue_for(nodes[1], picked.class);
        let mut end = Endpoint::new(connection, address, host, nodes, nic_queue);
        (end.transport, end.workload, end.route) = (spec.transport, spec.workload, route);
        (end.vlan, end.class, end.vlans) = (picked.vlan, picked.class, picked.among);
        end.begin(&exchange);
        if side == 0 && !at_once {
            (end.write_at, end.writes) = (spec.start, exchange.writes);
        }
        let place = self.add_endpoint(end);
        if side == 0 {
            self.send_available(place, ctx);
            self.end(place).arm_timer(ctx);
        }
    }

    /// What the application at an end that is open does. One that has failed meanwhile does nothing.
    pub(super) fn execute_order(&mut self, address: u32, order: &Order, ctx: &mut Context) {
        let Some(place) = self.endpoint_at(address) else { return };
        let now = ctx.now();
        match order {
            Order::Continue(exchange) => self.continue_with(place, exchange, ctx),
            Order::EndExchange => {
                self.report_counters(place, ctx);
                self.end(place).flow = None;
                return;
            }
            &Order::Write { bytes, token, written } => {
                // That it has gone is told with what happens next, not now.
                self.end(place).write_message(bytes, token, written, now);
                self.send_available(place, ctx);
                self.end(place).arm_timer(ctx);
                return;
            }
            &Order::Await { bytes, token } => {
                let end = self.end(place);
                end.expects = end.messages.get_or_insert_default().wait_for(bytes, token);
                return;
            }
            Order::Close | Order::Stop => {
                let end = self.end(place);
                end.closing = true;
                if matches!(order, Order::Stop) {
                    end.connection.stop_sending();
                }
                end.connection.close(now);
            }
            Order::Free => {
                self.free_endpoint(place, ctx);
                return;
            }
            Order::Open(_) | Order::OpenDatagrams(_) | Order::AwaitDatagrams(_) | Order::FreeDatagrams => {
                unreachable!("what opens an end or is for datagrams has its own way")
            }
        }
        self.after_change(place, address, ctx);
    }

    /// The next exchange on a kept connection.
    fn continue_with(&mut self, place: OwnEndpoint<'n>, exchange: &Exchange, ctx: &mut Context) {
        self.report_counters(place, ctx);
        let end = self.end(place);
        let side = end.address() & 1;
        // Probes after a job whose last ACK was delayed are of no flow: the one before was over, and this one begins.
        end.told = end.counts();
        end.begin(exchange);
        if exchange.writes > 0 {
            end.connection.send(exchange.writes, ctx.now());
        }
        self.list_endpoint(exchange.flow * 2 + side, place);
    }

    fn report_counters(&mut self, place: OwnEndpoint<'n>, ctx: &mut Context) {
        let end = self.end(place);
        let (address, flow) = (end.address(), end.flow);
        if let Some(counters) = end.take_counters() {
            ctx.report(address, EndpointEvent::Counted(counters));
        }
        // Late segments belong to the connection, which goes by the flow that opened it.
        if let Some(flow) = flow.filter(|flow| *flow != address / 2) {
            self.unlist(flow * 2 + (address & 1));
        }
    }

    /// Gives back the place of an end.
    fn free_endpoint(&mut self, place: OwnEndpoint<'n>, ctx: &mut Context) {
        self.cache_metrics(place, ctx);
        self.report_counters(place, ctx);
        let Some(Endpoint { peer, blocked, .. }) = self.take_endpoint(place) else { return };
        self.unlist(peer ^ 1);
        // The line for the NIC knows an end by its place: nobody else gets it before its turn has come.
        if !blocked {
            self.release_index(place.place());
        }
    }

    /// What the source's end has learnt goes to the next connection between the two.
    fn cache_metrics(&mut self, place: OwnEndpoint<'n>, ctx: &Context) {
        let end = self.end(place);
        let caches = ctx.settings.transports[usize::from(end.transport)].config.cache != CachePolicy::Off;
        if caches && end.address() & 1 == 0 {
            let (to, transport) = (end.nodes[1], end.transport);
            let (end, metrics) = self.endpoint_and_metrics(place, to, transport, ctx);
            end.connection.remember(metrics);
        }
    }
}

/// Segments and timers.
impl<'n> HostNode<'n> {
    /// A packet has come through the stack: to TCP, and on with what TCP makes of it.
    #[inline]
    pub(super) fn deliver(&mut self, index: PacketId, ctx: &mut Context) {
        let carried = match ctx.packets[index].content {
            Content::Segment(carried) => carried,
            Content::Datagram { to, len, ecn } => {
                ctx.packets.remove(index);
                self.deliver_datagram(to, len, ecn, ctx);
                return;
            }
            Content::Rdma(_) => {
                self.deliver_rdma(index, ctx);
                return;
            }
            Content::Foreign { bytes, ecn, .. } => {
                self.deliver_to_stack(index, bytes, ecn, ctx);
                return;
            }
            _ => unreachable!("what is no packet of a flow goes another way"),
        };
        let (segment, to) = (ctx.packets.segment(&carried), carried.to);
        ctx.packets.remove(index);
        let Some(place) = self.endpoint_at(to) else {
            return; // A late duplicate of a flow that is over.
        };
        let now = ctx.now();
        let end = self.end(place);
        let before = end.connection.received();
        if segment.flags.has(Flags::SYN) && to & 1 == 0 && !end.connection.is_established() {
            end.connected.get_or_insert(now);
        }
        end.connection.on_segment(&segment, carried.ecn, now);
        // A limited reassembly list may give bytes up: they will be received again.
        let (received, workload) = (end.connection.received().saturating_sub(before), end.workload);
        if received > 0 {
            self.count_received(workload, received, ctx);
        }
        self.after_change(place, to, ctx);
    }

    /// After anything that happened to a connection end: the application, what may be sent, the timer, the end.
    #[inline(always)]
    fn after_change(&mut self, place: OwnEndpoint<'n>, address: u32, ctx: &mut Context) {
        let end = self.end(place);
        if end.connection.delivered() >= end.expects {
            end.on_expected(address, ctx);
        }
        if end.sent() >= end.tells {
            end.on_sent(ctx);
        }
        self.send_available(place, ctx);
        let end = self.end(place);
        end.arm_timer(ctx);
        if end.closing {
            if !end.quiet && end.connection.is_quiescent() {
                end.quiet = true;
                ctx.report(address, EndpointEvent::Drained);
            }
        } else if let Some(failure) = end.connection.failure() {
            ctx.report(address, EndpointEvent::Failed(failure));
            self.free_endpoint(place, ctx);
        }
    }

    /// Hands segments to the host while TCP has some and the host has room.
    #[inline(always)]
    fn send_available(&mut self, place: OwnEndpoint<'n>, ctx: &mut Context) {
        if self.end(place).blocked {
            return;
        }
        loop {
            let (end, host) = self.endpoint_and_host(place);
            if !host.has_room(ctx) && !end.connection.is_in_super_packet() {
                end.blocked = true;
                host.wait_for_room(Socket::Connection(place.place()));
                return;
            }
            // Looked at where it is: to take it apart would be to copy it.
            let Some(sent) = &end.connection.poll_transmit(ctx.now()) else { return };
            self.send_segment(place, sent, ctx);
        }
    }

    /// A socket in the line for the NIC sends one segment; false if it had none and left the line.
    pub(super) fn send_one_blocked(&mut self, place: EndpointId, ctx: &mut Context) -> bool {
        let now = ctx.now();
        let Some(place) = self.endpoint_in(place) else {
            // It was closed in the line; now nothing names its place any more.
            self.release_index(place);
            return false;
        };
        let end = self.end(place);
        let Some(sent) = &end.connection.poll_transmit(now) else {
            end.blocked = false;
            end.arm_timer(ctx);
            return false;
        };
        self.send_segment(place, sent, ctx);
        while self.end(place).connection.is_in_super_packet() {
            let Some(sent) = &self.end(place).connection.poll_transmit(now) else { break };
            self.send_segment(place, sent, ctx);
        }
        self.end(place).arm_timer(ctx);
        true
    }

    /// The next packet of a connection end takes another VLAN.
    #[cold]
    fn change_vlan(&mut self, place: OwnEndpoint<'n>, ctx: &Context) {
        let end = self.end(place);
        let (among, class) = (std::mem::take(&mut end.vlans), end.class);
        let Some((draws, id)) = self.vlan_draws() else { return };
        let (vlan, class) = draws.pick(id, &among, class, ctx);
        let (end, host) = self.endpoint_and_host(place);
        (end.vlan, end.class, end.vlans) = (vlan, class, among);
        end.nic_queue = host.queue_for(NodeId(end.route), class);
    }

    #[inline(always)]
    fn send_segment(&mut self, place: OwnEndpoint<'n>, (segment, ecn): &(Segment, Ecn), ctx: &mut Context) {
        if ctx.hot.vlan_per_packet {
            self.change_vlan(place, ctx);
        }
        let end = self.end(place);
        let transport = &ctx.settings.transports[usize::from(end.transport)];
        let ip = IP_HEADER + segment.header_len(transport.config.timestamps) + segment.len;
        let nic_queue = end.nic_queue;
        // A packet without data (SYN, ACK) has nothing behind it: it goes before all others.
        let ranked = ctx.hot.ranked != 0 && segment.len > 0;
        let carried = Carried {
            to: end.peer,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            remaining: if ranked { rank(&end.connection) } else { 0 },
            options: ctx.packets.add_options(segment.options),
            stamps: segment.stamps,
            len: segment.len as u16,
            ecn: *ecn,
            flags: segment.flags,
        };
        let size = ctx.settings.overhead.frame_size(ip, transport.priority) as u16;
        let packet = Packet {
            at: ctx.now(),
            route: end.route,
            vlan: end.vlan,
            ..Packet::new(Content::Segment(carried), size, end.class)
        };
        let index = ctx.packets.add(packet);
        self.send_from(nic_queue, index, ctx);
    }

    /// A timer event. The deadline may have moved on since it was set: then only the event is renewed.
    pub(crate) fn on_timer(&mut self, address: u32, ctx: &mut Context) {
        let now = ctx.now();
        let Some(place) = self.endpoint_at(address) else { return };
        let end = self.end(place);
        if end.timer_at != now {
            return;
        }
        end.timer_at = Time::MAX;
        if end.write_at <= now {
            end.write_at = Time::MAX;
            end.connection.send(end.writes, now);
        }
        if end.connection.deadline().is_some_and(|deadline| deadline <= now) {
            end.connection.on_timeout(now);
        }
        self.after_change(place, address, ctx);
    }
}

impl Endpoint {
    /// An end that carries nothing yet.
    fn new(
        connection: Connection,
        address: u32,
        host: HostId,
        nodes: [NodeId; 2],
        nic_queue: NicQueueId,
    ) -> Endpoint {
        Endpoint {
            connection,
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            peer: address ^ 1,
            flow: None,
            told: Counts::default(),
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

    /// Keeps a `Timer` event pending that is not later than the deadline.
    #[inline]
    fn arm_timer(&mut self, ctx: &mut Context) {
        let deadline = self.connection.deadline().unwrap_or(Time::MAX).min(self.write_at);
        if deadline < self.timer_at {
            let at = deadline.max(ctx.now());
            self.timer_at = at;
            ctx.schedule(at, Event::Timer(self.address()));
        }
    }

    /// All bytes that this end waited for are in: the request is answered, or the flow is complete.
    fn on_expected(&mut self, address: u32, ctx: &mut Context) {
        let now = ctx.now();
        if let Some(messages) = &mut self.messages {
            let delivered = self.connection.delivered();
            let to = self.peer ^ 1;
            self.expects =
                messages.on_delivered(delivered, |token| ctx.report(to, EndpointEvent::Delivered(token)));
            return;
        }
        self.expects = u64::MAX;
        let reply = std::mem::take(&mut self.reply);
        if reply > 0 && self.reply_delay > Span::ZERO {
            (self.write_at, self.writes) = (now + self.reply_delay, reply);
        } else if reply > 0 {
            self.connection.send(reply, now);
        } else {
            ctx.report(address, EndpointEvent::Complete);
        }
    }

    /// Messages of this end have been sent.
    #[cold]
    fn on_sent(&mut self, ctx: &mut Context) {
        let (address, sent) = (self.peer ^ 1, self.sent());
        if let Some(messages) = &mut self.messages {
            self.tells = messages.on_sent(sent, |token| ctx.report(address, EndpointEvent::Sent(token)));
        }
    }

    /// The application of an end writes a message.
    fn write_message(&mut self, bytes: u64, token: Option<u32>, written: bool, now: Time) {
        if let Some(tells) = self.messages.get_or_insert_default().write(bytes, token) {
            self.tells = tells;
        }
        if !written {
            self.connection.send(bytes, now);
        }
    }
}
