//! Sources of datagrams (RFC 768) that do not react: nothing is acknowledged, sent again or slowed down (docs/models/udp.md).
//!
//! A stream sends datagrams of one size, the last one shorter, at a constant rate from its start until its bytes are
//! out or its stop has come. Random on and off is a workload of many such streams. Where the host has no room the next
//! datagram waits for its turn among the sockets, as in a blocking send; those that fall due meanwhile are lost there.
//! Left out: fragmentation (a datagram fits the MTU), checksums, ICMP.

use crate::cell::Cell;
use crate::counters::DropReason;
use crate::event::Event;
use crate::flow::Datagrams;
use crate::order::{Half, News, Opening};
use crate::packet::{Kind, NIL, Packet};
use pauseframe_engine::EventQueue;
use pauseframe_transport::{Ecn, Flags, Stamps};
use pauseframe_units::{BitRate, Bytes, PortId, Time};

/// IPv4 and UDP headers, bytes.
const HEADERS: u32 = 28;

/// What a transport without a connection sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramSettings {
    /// Rate on the wire, with all that the scenario counts there.
    pub rate: BitRate,
    /// Application bytes of a datagram.
    pub payload: u32,
}

/// A stream under way, at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) flow: u32,
    host: u32,
    nic_queue: u32,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(crate) route: u32,
    class: u8,
    vlan: u16,
    transport: u16,
    /// Bytes that are not sent; `u64::MAX` for a stream that ends at its stop.
    remaining: u64,
    stop: Option<Time>,
    /// Bytes of the datagram that waits for room in the NIC; 0 if none does.
    waiting: u32,
    /// Datagrams that were not lost here.
    left: u64,
    /// Sent, and lost here, since that was told last.
    counted: Datagrams,
}

/// A stream at its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sink {
    flow: u32,
    workload: u16,
    /// Datagrams received so far, when the last one was, and how many there will be.
    received: u64,
    last: Time,
    awaited: u64,
    /// Received since that was told last: datagrams and bytes.
    counted: (u64, u64),
}

impl Stream {
    pub(crate) fn take_half(&mut self) -> Half {
        let datagrams = std::mem::take(&mut self.counted);
        Half { flow: self.flow, datagrams, ..Half::default() }
    }
}

impl Sink {
    pub(crate) fn take_half(&mut self) -> Half {
        let (delivered, bytes) = std::mem::take(&mut self.counted);
        let datagrams = Datagrams { delivered, ..Datagrams::default() };
        Half { flow: self.flow, delivered: bytes, datagrams, ..Half::default() }
    }
}

/// The line of the sockets holds connection ends and, with this bit, streams.
const STREAM: u32 = 1 << 31;

/// A place for `item`.
fn place<T>(item: T, places: &mut Vec<T>, free: &mut Vec<u32>) -> u32 {
    if let Some(slot) = free.pop() {
        places[slot as usize] = item;
        return slot;
    }
    places.push(item);
    (places.len() - 1) as u32
}

impl Cell {
    /// Begins a stream at its source, or to receive one.
    pub(crate) fn open_stream(&mut self, address: u32, opening: Opening, now: Time, queue: &mut EventQueue) {
        let Opening { spec, route, picked, .. } = opening;
        let (flow, side) = (address / 2, address & 1);
        if side == 1 {
            let workload = spec.workload;
            let sink = Sink { flow, workload, received: 0, last: now, awaited: u64::MAX, counted: (0, 0) };
            let slot = place(sink, &mut self.sinks, &mut self.free_sinks);
            self.remember_slot(flow, side, slot);
            return;
        }
        let host = self.host_of(spec.source);
        let stream = Stream {
            flow,
            host,
            nic_queue: self.hosts[host as usize].queue_for(spec.destination, picked.class),
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
        let slot = place(stream, &mut self.streams, &mut self.free_streams);
        self.remember_slot(flow, side, slot);
        self.on_datagram_due(flow, now, queue);
    }

    /// Bytes that came for `flow` and have not been told of.
    pub(crate) fn untold_of_sink(&self, flow: u32) -> u64 {
        let slot = self.slots.get(flow as usize).map_or(NIL, |slots| slots[1]);
        self.sinks.get(slot as usize).map_or(0, |sink| sink.counted.1)
    }

    /// A stream's next datagram is due.
    pub(crate) fn on_datagram_due(&mut self, flow: u32, now: Time, queue: &mut EventQueue) {
        let slot = self.slots[flow as usize][0];
        let stream = self.streams[slot as usize];
        if stream.stop.is_some_and(|stop| stop <= now) {
            self.end_stream(slot, now);
            return;
        }
        let transport = &self.settings.transports[usize::from(stream.transport)];
        let Some(DatagramSettings { rate, payload }) = transport.datagrams else { return };
        let len = stream.remaining.min(u64::from(payload)) as u32;
        let wire = self.settings.overhead.frame_size(len + HEADERS, transport.priority) + self.hot.gap;
        let state = &mut self.streams[slot as usize];
        if state.remaining != u64::MAX {
            state.remaining -= u64::from(len);
        }
        let is_last = state.remaining == 0;
        if !is_last {
            queue.push(now + rate.serialise(Bytes(u64::from(wire))), Event::DatagramDue(flow).code());
        }
        self.offer_datagram(slot, len, now, queue);
        if is_last {
            self.end_stream(slot, now);
        }
    }

    fn end_stream(&mut self, slot: u32, now: Time) {
        let stream = &mut self.streams[slot as usize];
        let (address, left, half) = (stream.flow * 2, stream.left, stream.take_half());
        self.report(address, News::Counted(half), now);
        self.report(address, News::StreamOver(left), now);
    }

    /// A datagram leaves the application: to the NIC, or into the line for it, or it is lost here.
    fn offer_datagram(&mut self, slot: u32, len: u32, now: Time, queue: &mut EventQueue) {
        let stream = &mut self.streams[slot as usize];
        stream.counted.sent += 1;
        stream.counted.sent_bytes += u64::from(len);
        if stream.waiting > 0 {
            stream.counted.lose(len);
            let (host, class) = (stream.host, stream.class);
            let lane = self.lane_index(self.hosts[host as usize].port, class);
            self.counters[lane].drops[DropReason::BufferFull as usize] += 1;
            return;
        }
        stream.left += 1;
        let host = stream.host;
        if self.has_room(host) {
            self.send_datagram(slot, len, now, queue);
        } else {
            self.streams[slot as usize].waiting = len;
            self.hosts[host as usize].wait_for_room(slot | STREAM);
        }
    }

    /// A stream in the line for the NIC has its turn; `None` if `slot` is a connection end.
    pub(crate) fn send_waiting_datagram(
        &mut self,
        slot: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> Option<()> {
        if slot & STREAM == 0 {
            return None;
        }
        let slot = slot & !STREAM;
        let len = std::mem::take(&mut self.streams[slot as usize].waiting);
        self.send_datagram(slot, len, now, queue);
        Some(())
    }

    fn send_datagram(&mut self, slot: u32, len: u32, now: Time, queue: &mut EventQueue) {
        let stream = self.streams[slot as usize];
        let priority = self.settings.transports[usize::from(stream.transport)].priority;
        let packet = Packet {
            at: now,
            next: NIL,
            ingress: PortId::NONE,
            route: stream.route,
            to: stream.flow * 2 + 1,
            seq: 0,
            ack: 0,
            len: len as u16,
            window: 0,
            remaining: 0,
            options: NIL,
            stamps: Stamps::default(),
            size: self.settings.overhead.frame_size(len + HEADERS, priority) as u16,
            hop: 1,
            class: stream.class,
            ingress_class: stream.class,
            vlan: stream.vlan,
            ecn: Ecn::NotEct,
            flags: Flags::default(),
            kind: Kind::Datagram,
        };
        let index = self.packets.add(packet);
        self.send_from(stream.host, stream.nic_queue, index, now, queue);
    }

    /// A datagram has come through the stack of its destination.
    #[inline(never)]
    pub(crate) fn deliver_datagram(&mut self, index: u32, now: Time) {
        let packet = self.packets[index];
        self.packets.remove(index);
        let slot = self.slots[(packet.to / 2) as usize][1];
        let Some(sink) = self.sinks.get_mut(slot as usize) else { return };
        let bytes = u64::from(packet.len);
        sink.received += 1;
        sink.last = now;
        sink.counted = (sink.counted.0 + 1, sink.counted.1 + bytes);
        self.throughput.add(sink.workload, bytes, now);
        if sink.received == sink.awaited {
            self.report(packet.to, News::StreamReceived(now), now);
        }
    }

    /// The stream sends no more: so many of its datagrams have come or will.
    pub(crate) fn await_datagrams(&mut self, address: u32, count: u64, now: Time) {
        let slot = self.slots[(address / 2) as usize][1];
        let Some(sink) = self.sinks.get_mut(slot as usize) else { return };
        sink.awaited = count;
        if sink.received == count {
            let last = sink.last;
            self.report(address, News::StreamReceived(last), now);
        }
    }

    /// The stream is over at this side, and none of its datagrams under way.
    pub(crate) fn free_stream(&mut self, address: u32, now: Time) {
        let (flow, side) = ((address / 2) as usize, (address & 1) as usize);
        let slot = std::mem::replace(&mut self.slots[flow][side], NIL);
        let half = if side == 0 {
            self.free_streams.push(slot);
            self.streams[slot as usize].take_half()
        } else {
            self.free_sinks.push(slot);
            self.sinks[slot as usize].take_half()
        };
        self.report(address, News::Counted(half), now);
    }
}
