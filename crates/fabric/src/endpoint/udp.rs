//! Unresponsive UDP sources (RFC 768): no acknowledgements, retransmissions or rate control (docs/models/udp.md).
//!
//! A source sends datagrams of one size, the last one shorter, at a constant rate from its start until all bytes are sent or its stop time. A random
//! on-off source is a workload of many such flows. If the socket has no room in its NIC queue or the NIC buffer, the next datagram waits, as in a blocking
//! send; datagrams that become due meanwhile are lost. Left out: fragmentation (a datagram fits the MTU), checksums, ICMP.

use super::PartitionHosts;
use super::host::BlockedSocket;
use super::node::{BorrowedHost, DatagramSourceToken};
use crate::context::Context;
use crate::event::Event;
use crate::flow::DatagramCounts;
use crate::frame::{FrameContent, Packet};
use crate::ids::{HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, EndpointOpeningParameters};
use crate::settings::UdpSettings;
use crate::wire::counters::DropReason;
use pauseframe_transport::EcnCodepoint;
use pauseframe_units::{Bytes, Time};

/// IPv4 and UDP headers, bytes.
const IPV4_UDP_HEADER_BYTES: u32 = 28;

/// Share of a datagram flow in its NIC queue (Linux: `net.core.wmem_default`).
const SEND_BUFFER: u64 = 212_992;

/// The sending side of a datagram flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramSource {
    pub(super) flow: u32,
    pub(super) host: HostId,
    nic_queue: NicQueueId,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(super) route: u32,
    class: u8,
    vlan: u16,
    transport: u16,
    /// Bytes left to send; `u64::MAX` for a flow that ends at its stop time.
    remaining: u64,
    stop: Option<Time>,
    /// Bytes of the datagram that waits for NIC buffer space; 0 if none does.
    waiting: u32,
    /// Datagrams that were not dropped at this host.
    left: u64,
    /// Datagrams sent and dropped at this host since the last report.
    counted: DatagramCounts,
}

/// The receiving side of a datagram flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramSink {
    flow: u32,
    pub(super) host: HostId,
    workload: u16,
    /// Number of datagrams received, time of the last one, and the expected total.
    received: u64,
    last: Time,
    awaited: u64,
    /// Datagrams and bytes received since the last report.
    counted: (u64, u64),
    /// Datagrams with CE since the last report.
    ce: u64,
}

impl DatagramSource {
    pub(super) fn take_unreported_counters(&mut self) -> EndpointCounters {
        let datagrams = std::mem::take(&mut self.counted);
        EndpointCounters { flow: self.flow, datagrams, ..EndpointCounters::default() }
    }
}

impl DatagramSink {
    pub(super) fn take_unreported_counters(&mut self) -> EndpointCounters {
        let (delivered, bytes) = std::mem::take(&mut self.counted);
        let datagrams = DatagramCounts { delivered, ..DatagramCounts::default() };
        let ce_packets = std::mem::take(&mut self.ce);
        EndpointCounters {
            flow: self.flow,
            delivered: bytes,
            ce_packets,
            datagrams,
            ..EndpointCounters::default()
        }
    }
}

impl<'n> BorrowedHost<'n> {
    /// Opens the source or the sink of a datagram flow.
    pub(super) fn open_datagram_endpoint(
        &mut self,
        endpoint_key: u32,
        opening: EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let EndpointOpeningParameters { spec, route, picked, .. } = opening;
        let (flow, side) = (endpoint_key / 2, endpoint_key & 1);
        if side == 1 {
            let workload = spec.workload;
            let (host, last) = (self.own_host_id(), ctx.now());
            let sink = DatagramSink {
                flow,
                host,
                workload,
                received: 0,
                last,
                awaited: u64::MAX,
                counted: (0, 0),
                ce: 0,
            };
            self.add_datagram_sink(endpoint_key, sink);
            return;
        }
        let source = DatagramSource {
            flow,
            host: self.own_host_id(),
            nic_queue: self.host_mut().nic_queue_of_flow(endpoint_key, spec.destination, picked.class),
            route,
            class: picked.class,
            vlan: picked.vlan,
            transport: spec.transport,
            remaining: spec.size,
            stop: spec.stop,
            waiting: 0,
            left: 0,
            counted: DatagramCounts::default(),
        };
        self.add_datagram_source(endpoint_key, source);
        self.on_datagram_send_due(flow, ctx);
    }

    /// The next datagram of a source is due.
    pub(crate) fn on_datagram_send_due(&mut self, flow: u32, ctx: &mut Context) {
        let Some(place) = self.find_datagram_source_by_key(flow * 2) else { return };
        let source = *self.datagram_source_mut(place);
        if source.stop.is_some_and(|stop| stop <= ctx.now()) {
            self.finish_datagram_source(place, ctx);
            return;
        }
        let transport = &ctx.settings.transports[usize::from(source.transport)];
        let Some(UdpSettings { rate, payload, .. }) = transport.datagrams else { return };
        let len = source.remaining.min(u64::from(payload)) as u32;
        let wire =
            ctx.settings.overhead.frame_size_of_ip_packet(len + IPV4_UDP_HEADER_BYTES, transport.priority)
                + ctx.hot.gap;
        let state = self.datagram_source_mut(place);
        if state.remaining != u64::MAX {
            state.remaining -= u64::from(len);
        }
        let is_last = state.remaining == 0;
        if !is_last {
            ctx.schedule_event(ctx.now() + rate.serialise(Bytes(u64::from(wire))), Event::DatagramDue(flow));
        }
        self.send_or_drop_datagram(place, len, ctx);
        if is_last {
            self.finish_datagram_source(place, ctx);
        }
    }

    fn finish_datagram_source(&mut self, place: DatagramSourceToken<'n>, ctx: &mut Context) {
        let source = self.datagram_source_mut(place);
        let (endpoint_key, left, counters) =
            (source.flow * 2, source.left, source.take_unreported_counters());
        ctx.report_endpoint_event(endpoint_key, EndpointEvent::Counted(counters));
        ctx.report_endpoint_event(endpoint_key, EndpointEvent::DatagramsOver(left));
    }

    /// The application sends a datagram: it goes to the NIC, waits for buffer space, or is dropped here.
    fn send_or_drop_datagram(&mut self, place: DatagramSourceToken<'n>, len: u32, ctx: &mut Context) {
        let source = self.datagram_source_mut(place);
        source.counted.sent += 1;
        source.counted.sent_bytes += u64::from(len);
        if source.waiting > 0 {
            source.counted.count_lost_datagram(len);
            let class = source.class;
            let slot = self.port.egress_queue_token(class, &ctx.hot);
            self.ports.rare_event_counters_mut(slot).drops[DropReason::BufferFull as usize] += 1;
            return;
        }
        source.left += 1;
        let nic_queue = source.nic_queue;
        if self.host_mut().has_room(nic_queue, ctx, || SEND_BUFFER) {
            self.send_datagram(place, len, ctx);
        } else {
            self.datagram_source_mut(place).waiting = len;
            let socket = BlockedSocket::Datagrams(place.endpoint_arena_index());
            self.host_mut().append_blocked_socket(nic_queue, socket);
        }
    }

    /// A blocked source sends its waiting datagram.
    pub(super) fn send_waiting_datagram(&mut self, place: DatagramSourceToken<'n>, ctx: &mut Context) {
        let len = std::mem::take(&mut self.datagram_source_mut(place).waiting);
        self.send_datagram(place, len, ctx);
    }

    fn send_datagram(&mut self, place: DatagramSourceToken<'n>, len: u32, ctx: &mut Context) {
        let DatagramSource { flow, nic_queue, route, class, vlan, transport, .. } =
            *self.datagram_source_mut(place);
        let priority = ctx.settings.transports[usize::from(transport)].priority;
        let size =
            ctx.settings.overhead.frame_size_of_ip_packet(len + IPV4_UDP_HEADER_BYTES, priority) as u16;
        let is_capable = ctx.settings.transports[usize::from(transport)].datagrams.is_some_and(|udp| udp.ecn);
        let ecn = if is_capable { EcnCodepoint::Ect0 } else { EcnCodepoint::NotEct };
        let content = FrameContent::Datagram { to: flow * 2 + 1, len: len as u16, ecn };
        let packet = Packet { at: ctx.now(), route, vlan, ..Packet::new(content, size, class) };
        let index = ctx.packets.insert_packet(packet);
        self.send_through_stack(nic_queue, index, ctx);
    }

    /// Delivers a datagram of `len` bytes from the stack to the sink at an endpoint key.
    #[inline(never)]
    pub(super) fn deliver_datagram(&mut self, to: u32, len: u16, ecn: EcnCodepoint, ctx: &mut Context) {
        let Some(sink) = self.find_datagram_sink_by_key(to | 1) else { return };
        let (now, bytes) = (ctx.now(), u64::from(len));
        sink.received += 1;
        sink.ce += u64::from(ecn == EcnCodepoint::Ce);
        sink.last = now;
        sink.counted = (sink.counted.0 + 1, sink.counted.1 + bytes);
        let (workload, is_last) = (sink.workload, sink.received == sink.awaited);
        self.count_goodput(workload, bytes, ctx);
        if is_last {
            ctx.report_endpoint_event(to, EndpointEvent::DatagramsReceived(now));
        }
    }

    /// The source has finished: the sink expects `count` datagrams in total.
    pub(super) fn set_expected_datagram_count(&mut self, endpoint_key: u32, count: u64, ctx: &mut Context) {
        let Some(sink) = self.find_datagram_sink_by_key(endpoint_key | 1) else { return };
        sink.awaited = count;
        if sink.received == count {
            ctx.report_endpoint_event(endpoint_key, EndpointEvent::DatagramsReceived(sink.last));
        }
    }

    /// Frees this side of a datagram flow that has ended and has nothing in flight.
    pub(super) fn free_datagram_endpoint(&mut self, endpoint_key: u32, ctx: &mut Context) {
        let counters = if endpoint_key & 1 == 0 {
            self.find_datagram_source_by_key(endpoint_key)
                .map(|source| self.datagram_source_mut(source).take_unreported_counters())
        } else {
            self.find_datagram_sink_by_key(endpoint_key).map(DatagramSink::take_unreported_counters)
        };
        let Some(counters) = counters else { return };
        self.host_mut().close_queues_of_flow(endpoint_key);
        self.free_datagram_endpoint_index(endpoint_key);
        ctx.report_endpoint_event(endpoint_key, EndpointEvent::Counted(counters));
    }
}

impl PartitionHosts {
    /// Received bytes of `flow` that have not been reported.
    pub(crate) fn unreported_datagram_bytes(&self, flow: u32) -> u64 {
        self.find_endpoint_index_by_key(flow * 2 + 1)
            .and_then(|place| self.sinks.get(place))
            .map_or(0, |sink| sink.counted.1)
    }
}
