//! Datagrams are sent and received.

use super::{DatagramSink, DatagramSource};
use crate::context::Context;
use crate::endpoint::node::{BorrowedHost, EndpointToken};
use crate::endpoint::state::{Endpoint, Protocol};
use crate::flow::DatagramCounts;
use crate::frame::{FrameContent, Packet};
use crate::order::{EndpointEvent, EndpointOpeningParameters};
use crate::settings::{IPV4_UDP_HEADER_BYTES, UdpSettings};
use crate::wire::counters::DropReason;
use pauseframe_transport::EcnCodepoint;
use pauseframe_units::Bytes;

/// Share of a datagram flow in its NIC queue (Linux: `net.core.wmem_default`).
const SEND_BUFFER: u64 = 212_992;

impl Endpoint {
    fn datagram_source_mut(&mut self) -> &mut DatagramSource {
        let Protocol::DatagramSource(source) = &mut self.protocol else {
            unreachable!("the endpoint sends datagrams")
        };
        source
    }

    fn datagram_sink_mut(&mut self) -> &mut DatagramSink {
        let Protocol::DatagramSink(sink) = &mut self.protocol else {
            unreachable!("the endpoint receives datagrams")
        };
        sink
    }
}

impl<'n> BorrowedHost<'n> {
    /// Opens the source or the sink of a datagram flow.
    pub(in crate::endpoint) fn open_datagrams(
        &mut self,
        endpoint_key: u32,
        settings: UdpSettings,
        opening: EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let spec = opening.spec;
        let is_source = endpoint_key & 1 == 0;
        let protocol = if is_source {
            let (remaining, stop, counted) = (spec.size, spec.stop, DatagramCounts::default());
            Protocol::DatagramSource(DatagramSource {
                settings,
                remaining,
                stop,
                waiting: 0,
                left: 0,
                counted,
            })
        } else {
            let (last, awaited) = (ctx.now(), u64::MAX);
            Protocol::DatagramSink(DatagramSink { received: 0, bytes: 0, last, awaited, counted: 0, ce: 0 })
        };
        let mut end = self.new_endpoint(protocol, endpoint_key, opening);
        end.flow = Some(endpoint_key / 2);
        let end = self.add_endpoint(end);
        if is_source {
            self.on_datagram_due(end, ctx);
        }
    }

    /// The next datagram of a source is due.
    pub(in crate::endpoint) fn on_datagram_due(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        let now = ctx.now();
        let state = self.endpoint_mut(end);
        let priority = ctx.settings.transports[usize::from(state.transport)].priority;
        let source = state.datagram_source_mut();
        if source.is_over_at(now) {
            self.finish_datagram_source(end, ctx);
            return;
        }
        let len = source.next_datagram();
        let wire = ctx.settings.overhead.datagram_wire_size(len, priority);
        let due = now + source.settings.rate.serialise(Bytes(u64::from(wire)));
        let is_last = source.is_over_at(due);
        if !is_last {
            state.schedule_timer_at(due, ctx);
        }
        self.send_or_drop(end, len, ctx);
        if is_last {
            self.finish_datagram_source(end, ctx);
        }
    }

    fn finish_datagram_source(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        let state = self.endpoint_mut(end);
        let (endpoint_key, left) = (state.key(), state.datagram_source_mut().left);
        if let Some(counters) = state.take_counters() {
            ctx.report_event(endpoint_key, EndpointEvent::Counted(counters));
        }
        ctx.report_event(endpoint_key, EndpointEvent::DatagramsOver(left));
    }

    /// The application sends a datagram: it goes to the NIC, waits for buffer space, or is dropped here.
    fn send_or_drop(&mut self, end: EndpointToken<'n>, len: u32, ctx: &mut Context) {
        let way = self.way_out(end, ctx);
        let (state, port) = self.endpoint_and_port(end, way);
        let (class, is_blocked) = (state.class, state.blocked);
        let source = state.datagram_source_mut();
        if is_blocked {
            source.counted.count_lost(len);
            let slot = self.port.egress_token(class, &ctx.hot);
            self.ports.rare_counters_mut(slot).drops[DropReason::BufferFull as usize] += 1;
            return;
        }
        source.left += 1;
        if port.has_room(way.nic_queue, ctx, || SEND_BUFFER) {
            self.send_datagram(end, len, ctx);
        } else {
            source.waiting = len;
            self.block_endpoint(end, way);
        }
    }

    /// A blocked source sends its waiting datagram and leaves the round robin.
    pub(in crate::endpoint) fn send_waiting(&mut self, end: EndpointToken<'n>, ctx: &mut Context) -> bool {
        let state = self.endpoint_mut(end);
        state.blocked = false;
        let len = state.datagram_source_mut().waiting;
        self.send_datagram(end, len, ctx);
        false
    }

    fn send_datagram(&mut self, end: EndpointToken<'n>, len: u32, ctx: &mut Context) {
        let way = self.way_out(end, ctx);
        let state = self.endpoint_mut(end);
        let priority = ctx.settings.transports[usize::from(state.transport)].priority;
        let is_capable = state.datagram_source_mut().settings.ecn;
        let ecn = if is_capable { EcnCodepoint::Ect0 } else { EcnCodepoint::NotEct };
        let size = ctx.settings.overhead.frame_size(len + IPV4_UDP_HEADER_BYTES, priority) as u16;
        let content = FrameContent::Datagram { to: state.peer, len: len as u16, ecn };
        let (route, vlan) = (way.route, state.vlan);
        let packet = Packet { at: ctx.now(), route, vlan, ..Packet::new(content, size, state.class) };
        let index = ctx.packets.insert(packet);
        self.send_through_stack(way, index, ctx);
        self.count_turn(ctx);
    }

    /// Delivers a datagram of `len` bytes from the stack to the sink at an endpoint key.
    #[inline(never)]
    pub(in crate::endpoint) fn deliver_datagram(
        &mut self,
        to: u32,
        len: u16,
        ecn: EcnCodepoint,
        ctx: &mut Context,
    ) {
        let Some(end) = self.find_endpoint(to) else { return };
        let (now, bytes) = (ctx.now(), u64::from(len));
        let state = self.endpoint_mut(end);
        let workload = state.workload;
        let sink = state.datagram_sink_mut();
        sink.received += 1;
        sink.bytes += bytes;
        sink.ce += u64::from(ecn == EcnCodepoint::Ce);
        sink.last = now;
        sink.counted += 1;
        let is_last = sink.received == sink.awaited;
        self.count_goodput(workload, bytes, ctx);
        if is_last {
            ctx.report_event(to, EndpointEvent::DatagramsReceived(now));
        }
    }

    /// The source has finished: the sink expects `count` datagrams in total.
    pub(in crate::endpoint) fn await_datagrams(
        &mut self,
        end: EndpointToken<'n>,
        count: u64,
        ctx: &mut Context,
    ) {
        let state = self.endpoint_mut(end);
        let (endpoint_key, sink) = (state.key(), state.datagram_sink_mut());
        sink.awaited = count;
        if sink.received == count {
            ctx.report_event(endpoint_key, EndpointEvent::DatagramsReceived(sink.last));
        }
    }
}
