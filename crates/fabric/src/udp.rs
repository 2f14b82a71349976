//! Sources of datagrams (RFC 768) that do not react: nothing is acknowledged, sent again or slowed down (docs/models/udp.md).
//!
//! A stream sends datagrams of one size, the last one shorter, at a constant rate from its start until its bytes are
//! out or its stop has come. Random on and off is a workload of many such streams. Where the host has no room the next
//! datagram waits for its turn among the sockets, as in a blocking send; those that fall due meanwhile are lost there.
//! Left out: fragmentation (a datagram fits the MTU), checksums, ICMP.

use crate::event::Event;
use crate::flow::{Datagrams, FlowRecord, FlowSpec, FlowStatus};
use crate::network::{DropReason, Network};
use crate::packet::{Kind, NIL, Packet};
use pauseframe_engine::EventQueue;
use pauseframe_transport::{Ecn, Flags, Stamps};
use pauseframe_units::{BitRate, Bytes, NodeId, PortId, Span, Time};

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

/// A stream under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    flow: u32,
    host: u32,
    nic_queue: u32,
    /// Path of its packets, or the destination node where switches look up the next hop.
    route: u32,
    class: u8,
    vlan: u16,
    /// Bytes that are not sent; `u64::MAX` for a stream that ends at its stop.
    remaining: u64,
    /// Bytes of the datagram that waits for room in the NIC; 0 if none does.
    waiting: u32,
    /// No datagram follows.
    over: bool,
    /// Counted as load of its VLAN.
    is_load: bool,
}

/// The line of the sockets holds connection ends and, with this bit, streams.
const STREAM: u32 = 1 << 31;

impl Network {
    /// Whether the flows of a transport are streams of datagrams.
    pub(crate) fn is_stream(&self, transport: u16) -> bool {
        self.settings.transports[usize::from(transport)].datagrams.is_some()
    }

    /// Begins a stream. Its flow ends when the last datagram has arrived or is lost.
    pub(crate) fn open_stream(&mut self, spec: FlowSpec, now: Time, queue: &mut EventQueue) {
        let flow = self.records.len() as u32;
        self.records.push(FlowRecord {
            spec,
            status: FlowStatus::Running,
            end: now,
            delivered: 0,
            ideal: Span::ZERO,
            retransmits: 0,
            timeouts: 0,
            ce_packets: 0,
            loss_probes: 0,
            undone: 0,
            datagrams: Datagrams::default(),
            connected: None,
            failure: None,
        });
        self.active_flows += 1;
        let class = self.class_of_transport[usize::from(spec.transport)];
        let host = self.host_of(spec.source);
        let picked = self.pick_vlan(&spec, 0, class);
        let (vlan, class, is_load) =
            picked.map_or((0, class, false), |picked| (picked.vlan, picked.class, picked.is_load));
        let stream = Stream {
            flow,
            host,
            nic_queue: self.hosts[host as usize].queue_for(spec.destination, class),
            route: self.find_route(spec.source, spec.destination, flow),
            class,
            vlan,
            remaining: spec.size,
            waiting: 0,
            over: false,
            is_load,
        };
        let slot = if let Some(slot) = self.free_streams.pop() {
            self.streams[slot as usize] = stream;
            slot
        } else {
            self.streams.push(stream);
            (self.streams.len() - 1) as u32
        };
        self.slots.push([NIL, slot]);
        self.on_datagram_due(slot, now, queue);
    }

    /// Routes have changed: the stream in this slot, if there is one, takes its path anew.
    pub(crate) fn reroute_stream(&mut self, slot: u32, flow: u32) {
        if slot != NIL {
            let FlowSpec { source, destination, .. } = self.records[flow as usize].spec;
            let route = self.streams[slot as usize].route;
            self.streams[slot as usize].route = self.find_path(source, destination, flow, Some(route));
        }
    }

    /// A stream's next datagram is due.
    pub(crate) fn on_datagram_due(&mut self, slot: u32, now: Time, queue: &mut EventQueue) {
        let stream = self.streams[slot as usize];
        let spec = self.records[stream.flow as usize].spec;
        if spec.stop.is_some_and(|stop| stop <= now) {
            self.streams[slot as usize].over = true;
            self.end_stream_if_quiet(stream.flow, now, queue);
            return;
        }
        let transport = &self.settings.transports[usize::from(spec.transport)];
        let Some(DatagramSettings { rate, payload }) = transport.datagrams else { return };
        let len = stream.remaining.min(u64::from(payload)) as u32;
        let wire = self.settings.overhead.frame_size(len + HEADERS, transport.priority) + self.hot.gap;
        let state = &mut self.streams[slot as usize];
        if state.remaining != u64::MAX {
            state.remaining -= u64::from(len);
        }
        if state.remaining == 0 {
            state.over = true;
        } else {
            queue.push(now + rate.serialise(Bytes(u64::from(wire))), Event::DatagramDue(slot).code());
        }
        self.offer_datagram(slot, len, now, queue);
    }

    /// A datagram leaves the application: to the NIC, or into the line for it, or it is lost here.
    fn offer_datagram(&mut self, slot: u32, len: u32, now: Time, queue: &mut EventQueue) {
        let stream = self.streams[slot as usize];
        let count = &mut self.records[stream.flow as usize].datagrams;
        count.sent += 1;
        count.sent_bytes += u64::from(len);
        if stream.waiting > 0 {
            count.lose(len);
            let port = self.hosts[stream.host as usize].port;
            let lane = self.lane_index(port, stream.class);
            self.counters[lane].drops[DropReason::BufferFull as usize] += 1;
            self.end_stream_if_quiet(stream.flow, now, queue);
        } else if self.has_room(stream.host) {
            self.send_datagram(slot, len, now, queue);
        } else {
            self.streams[slot as usize].waiting = len;
            self.hosts[stream.host as usize].wait_for_room(slot | STREAM);
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
        let transport = self.records[stream.flow as usize].spec.transport;
        let priority = self.settings.transports[usize::from(transport)].priority;
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
    pub(crate) fn deliver_datagram(&mut self, index: u32, now: Time, queue: &mut EventQueue) {
        let packet = self.packets[index];
        self.packets.remove(index);
        let record = &mut self.records[(packet.to / 2) as usize];
        record.delivered += u64::from(packet.len);
        record.datagrams.delivered += 1;
        let workload = record.spec.workload;
        self.throughput.add(workload, u64::from(packet.len), now);
        self.end_stream_if_quiet(packet.to / 2, now, queue);
    }

    /// A datagram was dropped on its way. Its flow may be over: that is seen at the next event of the workload.
    pub(crate) fn lose_datagram(&mut self, packet: &Packet, now: Time) {
        self.records[(packet.to / 2) as usize].datagrams.lose(u32::from(packet.len));
        self.end_lost_stream(packet.to / 2, now);
    }

    fn end_stream_if_quiet(&mut self, flow: u32, now: Time, queue: &mut EventQueue) {
        if self.end_lost_stream(flow, now) {
            let workload = self.records[flow as usize].spec.workload;
            self.schedule_workload(u32::from(workload), now, queue);
        }
    }

    /// Ends a flow whose stream is over when no datagram of it is under way; whether it did.
    fn end_lost_stream(&mut self, flow: u32, now: Time) -> bool {
        let slot = self.slots[flow as usize][1];
        let record = &mut self.records[flow as usize];
        if slot == NIL || !self.streams[slot as usize].over || record.datagrams.under_way() > 0 {
            return false;
        }
        record.status = FlowStatus::Stopped;
        record.end = now;
        self.slots[flow as usize][1] = NIL;
        let stream = self.streams[slot as usize];
        if !self.hot.look_up {
            self.paths.retire(stream.route);
        }
        self.free_streams.push(slot);
        self.active_flows = self.active_flows.checked_sub(1).expect("a stream ended twice");
        let record = *record;
        if stream.is_load {
            self.leave_vlan(&record.spec, 0, stream.vlan);
        }
        self.workloads[usize::from(record.spec.workload)].on_finished(&record, now);
        self.check_finished();
        true
    }

    /// The host that sent a packet.
    pub(crate) fn source_of(&self, packet: &Packet) -> NodeId {
        let spec = &self.records[(packet.to / 2) as usize].spec;
        if packet.to & 1 == 1 { spec.source } else { spec.destination }
    }
}
