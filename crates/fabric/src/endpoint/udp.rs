//! Sources of datagrams (RFC 768) that do not react: nothing is acknowledged, sent again or slowed down (docs/models/udp.md).
//!
//! A source sends datagrams of one size, the last one shorter, at a constant rate from its start until its bytes are
//! out or its stop has come. Random on and off is a workload of many such flows. Where the host has no room the next
//! datagram waits for its turn among the sockets, as in a blocking send; those that fall due meanwhile are lost there.
//! Left out: fragmentation (a datagram fits the MTU), checksums, ICMP.

use super::Endpoints;
use super::host::Socket;
use super::node::{HostNode, OwnSource};
use crate::context::Context;
use crate::event::Event;
use crate::flow::Datagrams;
use crate::frame::{Content, Packet};
use crate::ids::{HostId, NicQueueId};
use crate::order::{EndpointCounters, EndpointEvent, Opening};
use crate::settings::DatagramSettings;
use crate::wire::counters::DropReason;
use pauseframe_transport::Ecn;
use pauseframe_units::{Bytes, Time};

/// IPv4 and UDP headers, bytes.
const HEADERS: u32 = 28;

/// A flow of datagrams under way, where they come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) flow: u32,
    pub(super) host: HostId,
    nic_queue: NicQueueId,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(super) route: u32,
    class: u8,
    vlan: u16,
    transport: u16,
    /// Bytes that are not sent; `u64::MAX` for one that ends at its stop.
    remaining: u64,
    stop: Option<Time>,
    /// Bytes of the datagram that waits for room in the NIC; 0 if none does.
    waiting: u32,
    /// Datagrams that were not lost here.
    left: u64,
    /// Sent, and lost here, since that was told last.
    counted: Datagrams,
}

/// The same flow where they go to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sink {
    flow: u32,
    pub(super) host: HostId,
    workload: u16,
    /// Datagrams received so far, when the last one was, and how many there will be.
    received: u64,
    last: Time,
    awaited: u64,
    /// Received since that was told last: datagrams and bytes.
    counted: (u64, u64),
    /// Of these, those with CE.
    ce: u64,
}

impl Source {
    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        let datagrams = std::mem::take(&mut self.counted);
        EndpointCounters { flow: self.flow, datagrams, ..EndpointCounters::default() }
    }
}

impl Sink {
    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        let (delivered, bytes) = std::mem::take(&mut self.counted);
        let datagrams = Datagrams { delivered, ..Datagrams::default() };
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

impl<'n> HostNode<'n> {
    /// Begins to send datagrams, or to receive them.
    pub(super) fn open_datagrams(&mut self, address: u32, opening: Opening, ctx: &mut Context) {
        let Opening { spec, route, picked, .. } = opening;
        let (flow, side) = (address / 2, address & 1);
        if side == 1 {
            let workload = spec.workload;
            let (host, last) = (self.id(), ctx.now());
            let sink =
                Sink { flow, host, workload, received: 0, last, awaited: u64::MAX, counted: (0, 0), ce: 0 };
            self.add_sink(address, sink);
            return;
        }
        let source = Source {
            flow,
            host: self.id(),
            nic_queue: self.host().queue_for(spec.destination, picked.class),
            route,
            class: picked.class,
            vlan: picked.vlan,
            transport: spec.transport,
            remaining: spec.size,
            stop: spec.stop,
            waiting: 0,
            left: 0,
            counted: Datagrams::default(),
        };
        self.add_source(address, source);
        self.on_datagram_due(flow, ctx);
    }

    /// A source's next datagram is due.
    pub(crate) fn on_datagram_due(&mut self, flow: u32, ctx: &mut Context) {
        let Some(place) = self.source_at(flow * 2) else { return };
        let source = *self.source(place);
        if source.stop.is_some_and(|stop| stop <= ctx.now()) {
            self.end_datagrams(place, ctx);
            return;
        }
        let transport = &ctx.settings.transports[usize::from(source.transport)];
        let Some(DatagramSettings { rate, payload, .. }) = transport.datagrams else { return };
        let len = source.remaining.min(u64::from(payload)) as u32;
        let wire = ctx.settings.overhead.frame_size(len + HEADERS, transport.priority) + ctx.hot.gap;
        let state = self.source(place);
        if state.remaining != u64::MAX {
            state.remaining -= u64::from(len);
        }
        let is_last = state.remaining == 0;
        if !is_last {
            ctx.schedule(ctx.now() + rate.serialise(Bytes(u64::from(wire))), Event::DatagramDue(flow));
        }
        self.offer_datagram(place, len, ctx);
        if is_last {
            self.end_datagrams(place, ctx);
        }
    }

    fn end_datagrams(&mut self, place: OwnSource<'n>, ctx: &mut Context) {
        let source = self.source(place);
        let (address, left, counters) = (source.flow * 2, source.left, source.take_counters());
        ctx.report(address, EndpointEvent::Counted(counters));
        ctx.report(address, EndpointEvent::DatagramsOver(left));
    }

    /// A datagram leaves the application: to the NIC, or into the line for it, or it is lost here.
    fn offer_datagram(&mut self, place: OwnSource<'n>, len: u32, ctx: &mut Context) {
        let source = self.source(place);
        source.counted.sent += 1;
        source.counted.sent_bytes += u64::from(len);
        if source.waiting > 0 {
            source.counted.lose(len);
            let class = source.class;
            let slot = self.port.slot(class, &ctx.hot);
            self.ports.counters(slot).drops[DropReason::BufferFull as usize] += 1;
            return;
        }
        source.left += 1;
        if self.host().has_room(ctx) {
            self.send_datagram(place, len, ctx);
        } else {
            self.source(place).waiting = len;
            self.host().wait_for_room(Socket::Datagrams(place.place()));
        }
    }

    /// A source in the line for the NIC has its turn.
    pub(super) fn send_waiting_datagram(&mut self, place: OwnSource<'n>, ctx: &mut Context) {
        let len = std::mem::take(&mut self.source(place).waiting);
        self.send_datagram(place, len, ctx);
    }

    fn send_datagram(&mut self, place: OwnSource<'n>, len: u32, ctx: &mut Context) {
        let Source { flow, nic_queue, route, class, vlan, transport, .. } = *self.source(place);
        let priority = ctx.settings.transports[usize::from(transport)].priority;
        let size = ctx.settings.overhead.frame_size(len + HEADERS, priority) as u16;
        let is_capable = ctx.settings.transports[usize::from(transport)].datagrams.is_some_and(|udp| udp.ecn);
        let ecn = if is_capable { Ecn::Ect0 } else { Ecn::NotEct };
        let content = Content::Datagram { to: flow * 2 + 1, len: len as u16, ecn };
        let packet = Packet { at: ctx.now(), route, vlan, ..Packet::new(content, size, class) };
        let index = ctx.packets.add(packet);
        self.send_from(nic_queue, index, ctx);
    }

    /// A datagram for an address, with so many bytes and this ECN field, has come through the stack of its destination.
    #[inline(never)]
    pub(super) fn deliver_datagram(&mut self, to: u32, len: u16, ecn: Ecn, ctx: &mut Context) {
        let Some(sink) = self.sink_at(to | 1) else { return };
        let (now, bytes) = (ctx.now(), u64::from(len));
        sink.received += 1;
        sink.ce += u64::from(ecn == Ecn::Ce);
        sink.last = now;
        sink.counted = (sink.counted.0 + 1, sink.counted.1 + bytes);
        let (workload, is_last) = (sink.workload, sink.received == sink.awaited);
        self.count_received(workload, bytes, ctx);
        if is_last {
            ctx.report(to, EndpointEvent::DatagramsReceived(now));
        }
    }

    /// The source sends no more: so many of its datagrams have come or will.
    pub(super) fn await_datagrams(&mut self, address: u32, count: u64, ctx: &mut Context) {
        let Some(sink) = self.sink_at(address | 1) else { return };
        sink.awaited = count;
        if sink.received == count {
            ctx.report(address, EndpointEvent::DatagramsReceived(sink.last));
        }
    }

    /// A flow of datagrams is over at this side, and none of them under way.
    pub(super) fn free_datagrams(&mut self, address: u32, ctx: &mut Context) {
        let counters = if address & 1 == 0 {
            self.source_at(address).map(|source| self.source(source).take_counters())
        } else {
            self.sink_at(address).map(Sink::take_counters)
        };
        let Some(counters) = counters else { return };
        self.free_datagrams_at(address);
        ctx.report(address, EndpointEvent::Counted(counters));
    }
}

impl Endpoints {
    /// Bytes that came for `flow` and have not been told of.
    pub(crate) fn untold_of_sink(&self, flow: u32) -> u64 {
        self.index_at(flow * 2 + 1).and_then(|place| self.sinks.get(place)).map_or(0, |sink| sink.counted.1)
    }
}
