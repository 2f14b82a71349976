//! The state of an endpoint: one end of a flow at its host, with what all protocols share.

use super::messages::MessageBoundaries;
use super::multipath::MultipathEnd;
use super::operations::PendingStorageOperation;
use super::queue_pair::QueuePairEnd;
use super::tcp::TcpEnd;
use super::udp::{DatagramSink, DatagramSource};
use crate::context::Context;
use crate::event::Event;
use crate::flow::StorageOperation;
use crate::ids::{HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, EndpointExchange, PacketWay};
use pauseframe_engine::mix_bits;
use pauseframe_rdma::QueuePair;
use pauseframe_transport::{Connection, ConnectionFailure};
use pauseframe_units::{NodeId, Span, Time};
use std::mem::offset_of;

/// One end of a flow at its host. What every packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Endpoint {
    /// When the pending `Timer` event fires; `Time::MAX` if none is pending.
    timer_at: Time,
    /// When the application writes `writes` bytes; `Time::MAX`: no write is due.
    write_at: Time,
    /// Number of delivered bytes at which the application replies or completes.
    pub(super) expects: u64,
    /// Number of sent bytes at which the application is notified.
    pub(super) tells: u64,
    pub(crate) host: HostId,
    /// Address (flow * 2 + side) of the peer endpoint, with the flow that opened the connection.
    pub(super) peer: u32,
    pub(super) nic_queue: NicQueueId,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(super) route: u32,
    pub(super) transport: u16,
    pub(super) workload: u16,
    /// Index of the VLAN of its packets, if VLANs are used.
    pub(super) vlan: u16,
    pub(super) class: u8,
    /// Waits in the host's round robin for NIC buffer space.
    pub(super) blocked: bool,
    /// The flow has ended; the endpoint is removed when nothing is in flight.
    closing: bool,
    /// The traffic knows that nothing is in flight.
    quiet: bool,
    /// It is a subflow of an MPTCP connection, which learns of each event.
    pub(super) is_subflow: bool,
    /// Message boundaries, if it carries messages.
    pub(super) messages: Option<Box<MessageBoundaries>>,
    pub(crate) protocol: Protocol,
    /// When the `Timer` event fires that was pending before a deadline came forward; `Time::MAX`: none.
    later_timer_at: Time,
    writes: u64,
    /// Size of the application's reply, and the time before it.
    reply: u64,
    reply_delay: Span,
    /// The flow that it carries now; `None` between two flows.
    pub(crate) flow: Option<u32>,
    /// Delivered bytes at the last report to the traffic.
    told: u64,
    /// The nodes of the ports that its packets leave and reach.
    pub(super) nodes: [NodeId; 2],
    /// The ways that its packets take in turn; empty if all leave by one port.
    pub(super) ways: Vec<PacketWay>,
    /// The VLANs to choose from for each packet; empty if the flow keeps one VLAN.
    pub(super) vlans: Box<[u16]>,
}

/// The protocol of an endpoint and its state.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost a cache miss for each packet")]
pub(crate) enum Protocol {
    /// No endpoint is open at this place of the arena.
    Free,
    Tcp(TcpEnd),
    Rdma(QueuePairEnd),
    /// A connection over several subflows.
    Multipath(Box<MultipathEnd>),
    DatagramSource(DatagramSource),
    DatagramSink(DatagramSink),
}

/// What TCP connections and queue pairs have in common: they carry bytes in order, in both directions.
pub(super) trait Reliable: Sized {
    /// Reads and writes of storage are the protocol's own operations; otherwise they are requests and replies.
    const HAS_OPERATIONS: bool;
    /// What is counted between two flows (TCP's probes after a delayed last ACK) belongs to neither, not to the next one.
    const DISCARDS_COUNTS_BETWEEN_FLOWS: bool;
    /// A failure is reported after the last flow has ended, too.
    const FAILS_WHILE_CLOSING: bool;

    /// The state in a protocol, which is of this kind.
    fn of(protocol: &Protocol) -> &Self;
    /// The same.
    fn of_mut(protocol: &mut Protocol) -> &mut Self;
    /// Bytes delivered in order.
    fn delivered(&self) -> u64;
    /// Bytes sent at least once.
    fn sent(&self) -> u64;
    /// Bytes that the peer has acknowledged.
    fn acked(&self) -> u64;
    /// The application sends bytes.
    fn write(&mut self, bytes: u64, now: Time);
    /// The application reads bytes of the peer's memory.
    fn read(&mut self, bytes: u64);
    /// Nothing more is sent; `discards`: not even what is written.
    fn close(&mut self, discards: bool, now: Time);
    /// When [`Reliable::on_timeout`] is due, or pacing lets the next packet go; `Time::MAX`: never. One that is blocked sends in its turn, not by
    /// a timer.
    fn deadline(&self, is_blocked: bool, now: Time) -> Time;
    /// A timer may have expired; `is_idle`: no flow is under way, so nobody has waited for it.
    fn on_timeout(&mut self, now: Time, is_idle: bool);
    /// Nothing is in flight.
    fn is_quiescent(&self) -> bool;
    fn failure(&self) -> Option<ConnectionFailure>;
}

impl Protocol {
    fn delivered(&self) -> u64 {
        match self {
            Protocol::Tcp(tcp) => tcp.delivered(),
            Protocol::Rdma(pair) => pair.delivered(),
            Protocol::Multipath(multipath) => Reliable::delivered(&**multipath),
            Protocol::DatagramSink(sink) => sink.delivered(),
            Protocol::Free | Protocol::DatagramSource(_) => 0,
        }
    }

    /// The protocol's own counters since this was last asked.
    fn take_counters(&mut self) -> EndpointCounters {
        match self {
            Protocol::Tcp(tcp) => tcp.take_counters(),
            Protocol::Rdma(pair) => pair.take_counters(),
            Protocol::Multipath(multipath) => multipath.take_counters(),
            Protocol::DatagramSource(source) => source.take_counters(),
            Protocol::DatagramSink(sink) => sink.take_counters(),
            Protocol::Free => EndpointCounters::default(),
        }
    }
}

impl Endpoint {
    /// Bytes at its start that packets touch, for prefetching.
    pub(super) const TOUCHED_BY_EACH_PACKET: usize = offset_of!(Endpoint, protocol)
        + if size_of::<TcpEnd>() > QueuePair::TOUCHED_BY_EACH_PACKET {
            size_of::<TcpEnd>()
        } else {
            QueuePair::TOUCHED_BY_EACH_PACKET
        };

    /// An endpoint without data.
    pub(super) fn new(
        protocol: Protocol,
        endpoint_key: u32,
        host: HostId,
        nodes: [NodeId; 2],
        nic_queue: NicQueueId,
    ) -> Endpoint {
        Endpoint {
            timer_at: Time::MAX,
            write_at: Time::MAX,
            expects: u64::MAX,
            tells: u64::MAX,
            host,
            peer: endpoint_key ^ 1,
            nic_queue,
            route: 0,
            transport: 0,
            workload: 0,
            vlan: 0,
            class: 0,
            blocked: false,
            closing: false,
            quiet: false,
            is_subflow: false,
            messages: None,
            protocol,
            later_timer_at: Time::MAX,
            writes: 0,
            reply: 0,
            reply_delay: Span::ZERO,
            flow: None,
            told: 0,
            nodes,
            ways: Vec::new(),
            vlans: Box::default(),
        }
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self.protocol, Protocol::Free)
    }

    /// What contradicts itself in the state of its protocol; `None`: nothing.
    pub(crate) fn contradiction(&self) -> Option<String> {
        match &self.protocol {
            Protocol::Tcp(tcp) => tcp.connection.contradiction(),
            Protocol::Rdma(end) => end.pair.contradiction(),
            Protocol::Free
            | Protocol::Multipath(_)
            | Protocol::DatagramSource(_)
            | Protocol::DatagramSink(_) => None,
        }
    }

    /// Up to where the peer has acknowledged what it sent, and up to where it has all that the peer sent: bytes, or packets of a queue pair.
    pub(crate) fn acknowledged_and_received(&self) -> Option<[u64; 2]> {
        match &self.protocol {
            Protocol::Tcp(tcp) => Some(tcp.connection.acknowledged_and_received()),
            Protocol::Rdma(end) => Some(end.pair.acknowledged_and_received()),
            Protocol::Free
            | Protocol::Multipath(_)
            | Protocol::DatagramSource(_)
            | Protocol::DatagramSink(_) => None,
        }
    }

    /// Its own endpoint key (flow * 2 + side).
    pub(crate) fn key(&self) -> u32 {
        self.peer ^ 1
    }

    pub(super) fn is_source(&self) -> bool {
        self.key() & 1 == 0
    }

    /// The connection, if it is one of TCP.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        let Protocol::Tcp(tcp) = &self.protocol else { return None };
        Some(&tcp.connection)
    }

    /// The queue pair, if it is one.
    pub(crate) fn queue_pair(&self) -> Option<&QueuePair> {
        let Protocol::Rdma(end) = &self.protocol else { return None };
        Some(&end.pair)
    }

    /// Delivered bytes that have not been reported.
    pub(crate) fn unreported_delivered(&self) -> u64 {
        self.protocol.delivered() - self.told
    }

    /// Takes the counters since the last call, for the current flow; `None` between two flows.
    pub(super) fn take_counters(&mut self) -> Option<EndpointCounters> {
        let flow = self.flow?;
        let delivered = self.unreported_delivered();
        self.told += delivered;
        let replies = !self.is_source();
        Some(EndpointCounters { flow, replies, delivered, ..self.protocol.take_counters() })
    }

    /// Forgets what was counted since the last report.
    pub(super) fn discard_counters(&mut self) {
        self.told = self.protocol.delivered();
        self.protocol.take_counters();
    }

    /// Ensures that a `Timer` event is pending no later than `deadline`.
    #[inline]
    pub(super) fn schedule_timer_at(&mut self, deadline: Time, ctx: &mut Context) {
        if deadline < self.timer_at {
            let at = deadline.max(ctx.now());
            // Of several later events the last is kept: the others fire soon, and for nothing.
            if self.later_timer_at == Time::MAX {
                self.later_timer_at = self.timer_at;
            }
            self.timer_at = at;
            ctx.schedule_event(at, Event::Timer(self.key()));
        }
    }

    /// Whether the `Timer` event that fires at `now` is the pending one; the one behind it is pending then. A retransmission timer stays while
    /// nearer deadlines of pacing come and go, instead of being scheduled again after each.
    pub(super) fn take_timer(&mut self, now: Time) -> bool {
        let is_pending = self.timer_at == now;
        if is_pending {
            self.timer_at = std::mem::replace(&mut self.later_timer_at, Time::MAX);
        }
        is_pending
    }
}

/// Exchanges, operations and messages of reliable protocols.
impl Endpoint {
    /// Begins an exchange; its bytes are written at `start` or now.
    pub(super) fn begin_exchange<S: Reliable>(
        &mut self,
        exchange: &EndpointExchange,
        start: Time,
        now: Time,
    ) {
        let EndpointExchange { flow, writes, expects, reply, reply_delay, operation } = *exchange;
        if let Some(operation) = operation {
            self.post_operation::<S>(exchange, operation, now);
        } else {
            self.flow = Some(flow);
            self.expects = S::of(&self.protocol).delivered().saturating_add(expects);
            (self.reply, self.reply_delay) = (reply, reply_delay);
        }
        if writes == 0 || S::HAS_OPERATIONS && operation.is_some() {
            return;
        }
        if start <= now {
            S::of_mut(&mut self.protocol).write(writes, now);
        } else {
            (self.write_at, self.writes) = (start, writes);
        }
    }

    /// Posts an operation. With a protocol that has them, its destination only learns to whose flow its counts belong.
    fn post_operation<S: Reliable>(
        &mut self,
        exchange: &EndpointExchange,
        operation: StorageOperation,
        now: Time,
    ) {
        let EndpointExchange { flow, writes, expects, reply, .. } = *exchange;
        let (bytes, arriving, reply) = if S::HAS_OPERATIONS {
            let (is_source, inner) = (self.is_source(), S::of_mut(&mut self.protocol));
            match operation {
                StorageOperation::Read if is_source => {
                    inner.read(expects);
                    (expects, expects, 0)
                }
                StorageOperation::Write if is_source => {
                    inner.write(writes, now);
                    (writes, 0, 0)
                }
                StorageOperation::Write => (expects, expects, 0),
                StorageOperation::Read => (0, 0, 0),
            }
        } else {
            let bytes = if expects == u64::MAX { 0 } else { expects };
            (bytes, bytes, reply)
        };
        let operations = &mut self.messages.get_or_insert_default().operations;
        operations.push(flow, bytes, arriving, reply);
        self.await_operation();
    }

    pub(super) fn has_pending_operations(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| !messages.operations.is_empty())
    }

    /// Waits for the oldest operation.
    fn await_operation(&mut self) {
        let oldest = self.messages.as_ref().and_then(|messages| messages.operations.oldest());
        self.expects = oldest.map_or(u64::MAX, |operation| operation.end);
        self.flow = oldest.map(|operation| operation.flow).or(self.flow);
    }

    /// Bytes that bring an exchange or an operation to its end: at the source of a protocol's own operations those that are
    /// acknowledged, otherwise those that have arrived.
    #[inline(always)]
    pub(super) fn progress<S: Reliable>(&self) -> u64 {
        let inner = S::of(&self.protocol);
        if S::HAS_OPERATIONS && self.is_source() && self.has_pending_operations() {
            inner.acked()
        } else {
            inner.delivered()
        }
    }

    /// Ends the oldest operation if it is complete here: sends the reply or reports completion.
    pub(super) fn finish_operation<S: Reliable>(
        &mut self,
        ctx: &mut Context,
    ) -> Option<PendingStorageOperation> {
        let progress = self.progress::<S>();
        let operation = self.messages.as_mut()?.operations.take_if_complete(progress)?;
        let later = S::of(&self.protocol).delivered() - operation.arrived;
        if let Some(counters) = self.take_counters() {
            self.told -= later;
            let counters = EndpointCounters { delivered: counters.delivered - later, ..counters };
            ctx.report_event(self.key(), EndpointEvent::Counted(counters));
        }
        if operation.reply > 0 {
            S::of_mut(&mut self.protocol).write(operation.reply, ctx.now());
        } else if !S::HAS_OPERATIONS || self.is_source() {
            ctx.report_event(self.key(), EndpointEvent::Complete);
        }
        self.await_operation();
        Some(operation)
    }

    /// All expected bytes have arrived: sends the reply or reports completion.
    pub(super) fn reply_or_complete<S: Reliable>(&mut self, ctx: &mut Context) {
        let (now, key) = (ctx.now(), self.key());
        let inner = S::of_mut(&mut self.protocol);
        if let Some(messages) = &mut self.messages {
            self.expects = messages.report_delivered(inner.delivered(), |token| {
                ctx.report_event(key, EndpointEvent::Delivered(token));
            });
            return;
        }
        self.expects = u64::MAX;
        let reply = std::mem::take(&mut self.reply);
        if reply > 0 && self.reply_delay > Span::ZERO {
            (self.write_at, self.writes) = (now + self.reply_delay, reply);
        } else if reply > 0 {
            inner.write(reply, now);
        } else {
            ctx.report_event(key, EndpointEvent::Complete);
        }
    }

    /// Notifies the application of messages whose last byte has been sent.
    #[inline(always)]
    pub(super) fn notify_if_sent<S: Reliable>(&mut self, ctx: &mut Context) {
        let sent = S::of(&self.protocol).sent();
        if sent >= self.tells {
            self.notify_sent(sent, ctx);
        }
    }

    #[cold]
    fn notify_sent(&mut self, sent: u64, ctx: &mut Context) {
        let key = self.key();
        if let Some(messages) = &mut self.messages {
            self.tells = messages.report_sent(sent, |token| {
                ctx.report_event(key, EndpointEvent::Sent(token));
            });
        }
    }

    /// Writes a message of the application; `written`: its bytes were written with the opening.
    pub(super) fn write_message<S: Reliable>(
        &mut self,
        bytes: u64,
        token: Option<u32>,
        written: bool,
        now: Time,
    ) {
        if let Some(tells) = self.messages.get_or_insert_default().append_outgoing(bytes, token) {
            self.tells = tells;
        }
        if !written {
            S::of_mut(&mut self.protocol).write(bytes, now);
        }
    }

    /// Ends the flow: the endpoint is removed when nothing is in flight.
    pub(super) fn close<S: Reliable>(&mut self, discards: bool, now: Time) {
        self.closing = true;
        S::of_mut(&mut self.protocol).close(discards, now);
    }

    /// What is due at a timer event.
    pub(super) fn act_on_timer<S: Reliable>(&mut self, now: Time) {
        let is_idle = self.closing || self.flow.is_none();
        let inner = S::of_mut(&mut self.protocol);
        if self.write_at <= now {
            self.write_at = Time::MAX;
            inner.write(self.writes, now);
        }
        inner.on_timeout(now, is_idle);
    }

    #[inline]
    pub(super) fn schedule_timer<S: Reliable>(&mut self, ctx: &mut Context) {
        let deadline = S::of(&self.protocol).deadline(self.blocked, ctx.now()).min(self.write_at);
        self.schedule_timer_at(deadline, ctx);
    }

    /// The failure that ends it, if there is one to report.
    #[inline(always)]
    pub(super) fn failure_to_report<S: Reliable>(&self) -> Option<ConnectionFailure> {
        if self.closing && !S::FAILS_WHILE_CLOSING { None } else { S::of(&self.protocol).failure() }
    }

    /// Whether nothing is in flight any more after the end of its flow; true once.
    #[inline(always)]
    pub(super) fn has_drained<S: Reliable>(&mut self) -> bool {
        if !self.closing || self.quiet || !S::of(&self.protocol).is_quiescent() {
            return false;
        }
        self.quiet = true;
        true
    }
}

/// What decides the random numbers of a plug-in at an endpoint.
pub(super) fn plugin_seed(seed: u64, endpoint_key: u32) -> u64 {
    mix_bits(mix_bits(seed).wrapping_add(u64::from(endpoint_key)))
}
