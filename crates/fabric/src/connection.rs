//! Connections: opening and ending flows, segments in and out of TCP, timers.
//!
//! A flow has two connection ends, side 0 at its source and side 1 at its destination. The fabric sees TCP only
//! through its sans-IO verbs: `send`, `on_segment`, `poll_transmit`, `deadline`, `on_timeout`, `close`. A kept connection
//! carries several flows; its packets and timers go by the number of the flow that opened it.

use crate::event::Event;
use crate::flow::{Datagrams, FlowRecord, FlowSpec, FlowStatus};
use crate::messages::Boundaries;
use crate::network::Network;
use crate::packet::{Kind, NIL, Packet};
use crate::vlan::Picked;
use pauseframe_engine::{EventQueue, mix};
use pauseframe_transport::{CachePolicy, Connection, Ecn, Flags, Segment};
use pauseframe_units::{NodeId, PortId, Priority, Span, Time};

/// IPv4 header, bytes.
const IP_HEADER: u32 = 20;

/// Whose metrics: source, destination, transport.
fn metrics_key(spec: &FlowSpec) -> (NodeId, NodeId, u16) {
    (spec.source, spec.destination, spec.transport)
}

/// One end of a connection at its host.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Connection,
    /// When the pending `Timer` event fires; `Time::MAX` if none is pending.
    timer_at: Time,
    /// The application writes `writes` bytes then; `Time::MAX`: nothing is due.
    write_at: Time,
    writes: u64,
    /// Delivered bytes at which the application does something: answers, or has all it wants.
    pub(crate) expects: u64,
    /// Flow * 2 + side of the other end, by the flow that opened the connection.
    peer: u32,
    /// The flow that it carries now.
    pub(crate) flow: u32,
    /// What it had counted when the flow before that ended.
    before: Counts,
    host: u32,
    nic_queue: u32,
    /// Path of its packets, or the destination node where switches look up the next hop.
    route: u32,
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
    /// Bytes sent at which the application wants to know.
    pub(crate) tells: u64,
    /// Where messages end, on a connection that carries some.
    pub(crate) messages: Option<Box<Boundaries>>,
    /// Counted as load of its VLAN.
    is_load: bool,
}

/// What a connection end counts for its flow.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    delivered: u64,
    retransmits: u32,
    timeouts: u32,
    ce_packets: u64,
    loss_probes: u32,
    undone: u32,
}

impl End {
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

    /// Bytes that TCP has sent at least once.
    pub(crate) fn sent(&self) -> u64 {
        self.connection.acked() + self.connection.flight_size()
    }

    /// In-order bytes since its flow began.
    fn delivered(&self) -> u64 {
        self.connection.delivered() - self.before.delivered
    }
}

/// What a connection has left to be acknowledged, as 32 bits hold it.
#[inline(never)]
fn rank(connection: &Connection) -> u32 {
    u32::try_from(connection.remaining()).unwrap_or(u32::MAX)
}

impl Network {
    /// A workload's next flows are due.
    pub(crate) fn on_flow_start(&mut self, workload: u32, now: Time, queue: &mut EventQueue) {
        let index = workload as usize;
        if self.workload_at[index] == Some(now) {
            self.workload_at[index] = None;
        }
        self.workloads[index].wake(now);
        self.serve(workload as u16, now, queue);
        self.end_connections(workload as u16, now, queue);
        while self.workloads[index].next_start().is_some_and(|start| start <= now) {
            let spec = self.workloads[index].next_flow();
            self.open_flow(spec, now, queue);
        }
        self.schedule_workload(workload, now, queue);
        self.check_finished();
    }

    /// Keeps one pending event for the next start of a workload.
    pub(crate) fn schedule_workload(&mut self, workload: u32, now: Time, queue: &mut EventQueue) {
        let index = workload as usize;
        let Some(start) = self.workloads[index].next_start() else { return };
        let start = start.max(now);
        if self.workload_at[index].is_none_or(|pending| start < pending) {
            self.workload_at[index] = Some(start);
            queue.push(start, Event::FlowStart(workload).code());
        }
    }

    pub(crate) fn open_flow(&mut self, spec: FlowSpec, now: Time, queue: &mut EventQueue) {
        if self.is_stream(spec.transport) {
            self.open_stream(spec, now, queue);
            return;
        }
        let flow = self.records.len() as u32;
        let ideal = self.ideal_completion(&spec);
        self.records.push(FlowRecord {
            spec,
            status: FlowStatus::Running,
            end: now,
            delivered: 0,
            ideal,
            retransmits: 0,
            timeouts: 0,
            loss_probes: 0,
            undone: 0,
            ce_packets: 0,
            datagrams: Datagrams::default(),
            connected: None,
            failure: None,
        });
        self.active_flows += 1;
        let kept = spec.kept.and_then(|kept| self.kept.get(&(spec.workload, kept.number)).copied());
        if let Some(opener) = kept {
            self.continue_on(opener, flow, now, queue);
            return;
        }
        let iss = |side: u64| mix(self.settings.seed ^ mix(u64::from(flow) * 2 + side)) as u32;
        let (iss0, iss1) = (iss(0), iss(1));
        let mut source = Connection::open(self.config_at(spec.source, spec.transport), iss0, iss1, now);
        if spec.start <= now {
            source.send(spec.size, now);
        }
        let mut sink = Connection::accept(self.config_at(spec.destination, spec.transport), iss1, iss0);
        if self.settings.refusing.contains(&spec.destination) {
            sink = sink.refusing();
        } else if self.settings.silent.contains(&spec.destination) {
            sink = sink.silent();
        }
        if let Some(metrics) = self.metrics.get(&metrics_key(&spec)) {
            source.inherit(metrics);
        }
        if let Some(kept) = spec.kept.filter(|kept| !kept.last) {
            self.kept.insert((spec.workload, kept.number), flow);
        }
        // The source waits for a reply, if there is one; the destination for the request, or for all.
        let reply = if spec.reply > 0 { spec.reply } else { u64::MAX };
        let source = self.add_end(flow, 0, &spec, source, reply);
        let sink = self.add_end(flow, 1, &spec, sink, spec.size);
        self.slots.push([source, sink]);
        if spec.start > now {
            self.write_later(source, spec.size, spec.start);
        }
        if let Some(stop) = spec.stop {
            queue.push(stop.max(now), Event::FlowStop(flow).code());
        }
        self.pump(source, now, queue);
        self.arm_timer(source, now, queue);
    }

    /// The next exchange on a connection that flow `opener` opened.
    fn continue_on(&mut self, opener: u32, flow: u32, now: Time, queue: &mut EventQueue) {
        let slots = self.slots[opener as usize];
        self.slots.push(slots);
        let spec = self.records[flow as usize].spec;
        let reply = if spec.reply > 0 { spec.reply } else { u64::MAX };
        for (slot, expects) in slots.into_iter().zip([reply, spec.size]) {
            let end = self.end(slot);
            end.flow = flow;
            end.expects = end.before.delivered.saturating_add(expects);
        }
        if spec.kept.is_some_and(|kept| kept.last) {
            self.forget_kept(opener);
        }
        self.end(slots[0]).connection.send(spec.size, now);
        self.pump(slots[0], now, queue);
        self.arm_timer(slots[0], now, queue);
    }

    /// The connection that `opener` opened takes no further flow.
    pub(crate) fn forget_kept(&mut self, opener: u32) {
        self.kept.retain(|_, open| *open != opener);
    }

    fn add_end(
        &mut self,
        flow: u32,
        side: u32,
        spec: &FlowSpec,
        mut connection: Connection,
        expects: u64,
    ) -> u32 {
        let nodes = [spec.source, spec.destination];
        let (here, there) = (nodes[side as usize], nodes[1 - side as usize]);
        let host = self.host_of(here);
        let frame = self.settings.overhead.frame_size(self.settings.mtu, Priority::default()) + self.hot.gap;
        connection.set_frame_time(self.ports[self.hosts[host as usize].port].rate.serialise(frame));
        let class = self.class_of_transport[usize::from(spec.transport)];
        let picked = self.pick_vlan(spec, side, class);
        let Picked { vlan, class, among, is_load } =
            picked.unwrap_or(Picked { vlan: 0, class, among: Box::default(), is_load: false });
        let end = End {
            connection,
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects,
            peer: flow * 2 + 1 - side,
            flow,
            before: Counts::default(),
            host,
            nic_queue: self.hosts[host as usize].queue_for(there, class),
            route: self.find_route(here, there, flow),
            transport: spec.transport,
            workload: spec.workload,
            class,
            vlan,
            vlans: among,
            blocked: false,
            closing: false,
            tells: u64::MAX,
            messages: None,
            is_load,
        };
        if let Some(slot) = self.free_ends.pop() {
            self.ends[slot as usize] = Some(end);
            slot
        } else {
            self.ends.push(Some(end));
            (self.ends.len() - 1) as u32
        }
    }

    /// The path of a flow's packets from `here` to `there`, by ECMP; packets that switches look up name their destination.
    pub(crate) fn find_route(&mut self, here: NodeId, there: NodeId, flow: u32) -> u32 {
        if self.hot.look_up {
            return there.0;
        }
        self.find_path(here, there, flow, None)
    }

    /// The row of the path that the routes give now: the `known` one if that is it, which else is retired.
    pub(crate) fn find_path(&mut self, here: NodeId, there: NodeId, flow: u32, known: Option<u32>) -> u32 {
        // The 5-tuple of a flow: its hosts, and ports that differ from flow to flow.
        let tuple = mix(u64::from(here.0) << 32 | u64::from(there.0)) ^ mix(u64::from(flow));
        let seed = self.settings.seed;
        let salt = |switch: NodeId| mix(seed ^ mix(u64::from(switch.0)));
        let mut path = std::mem::take(&mut self.path_scratch);
        self.routes.ecmp_path(&self.topology, here, there, mix(tuple), salt, &mut path);
        let route = match known {
            Some(known) if self.paths.is(known, &path) => known,
            _ => self.add_path(&path),
        };
        if let Some(known) = known.filter(|known| *known != route) {
            self.paths.retire(known);
        }
        self.path_scratch = path;
        route
    }

    /// A row of its own for a path; before the array grows, those that only packets of old had are looked for.
    pub(crate) fn add_path(&mut self, path: &[PortId]) -> u32 {
        if self.paths.wants_rows() {
            self.paths.reclaim(self.packets.under_way().map(|packet| packet.route), self.packets.places());
        }
        self.paths.add(path)
    }

    /// Routes have changed: every open flow takes its path anew. Packets under way keep theirs.
    pub(crate) fn reroute_flows(&mut self) {
        if self.hot.look_up {
            return;
        }
        for flow in 0..self.slots.len() as u32 {
            let [source, sink] = self.slots[flow as usize];
            if source == NIL {
                self.reroute_stream(sink, flow);
                continue;
            }
            let FlowSpec { source: from, destination: to, .. } = self.records[flow as usize].spec;
            for (slot, here, there) in [(source, from, to), (sink, to, from)] {
                let route = self.end(slot).route;
                self.end(slot).route = self.find_path(here, there, flow, Some(route));
            }
        }
    }

    #[inline]
    pub(crate) fn end(&mut self, slot: u32) -> &mut End {
        self.ends[slot as usize].as_mut().expect("the slot of an open flow holds a connection end")
    }

    /// A packet has come through the stack: to TCP, and on with what TCP makes of it.
    #[inline]
    pub(crate) fn deliver(&mut self, index: u32, now: Time, queue: &mut EventQueue) {
        if self.packets[index].kind == Kind::Datagram {
            self.deliver_datagram(index, now, queue);
            return;
        }
        let packet = self.packets[index];
        let segment = self.packets.segment(&packet);
        self.packets.remove(index);
        let slot = self.slots[(packet.to / 2) as usize][(packet.to & 1) as usize];
        if slot == NIL {
            return; // A late duplicate of a flow that is over.
        }
        let end = self.end(slot);
        let before = end.connection.received();
        end.connection.on_segment(&segment, packet.ecn, now);
        // A limited reassembly list may give bytes up: they will be received again.
        let (received, workload) = (end.connection.received().saturating_sub(before), end.workload);
        if received > 0 {
            self.throughput.add(workload, received, now);
        }
        if segment.flags.has(Flags::SYN) && packet.to & 1 == 0 {
            self.records[(packet.to / 2) as usize].connected.get_or_insert(now);
        }
        self.settle(slot, packet.to, now, queue);
    }

    /// After anything that happened to a connection end: the application, what may be sent, the timer, the end.
    #[inline]
    fn settle(&mut self, slot: u32, address: u32, now: Time, queue: &mut EventQueue) {
        let end = self.end(slot);
        if end.connection.delivered() >= end.expects {
            self.on_expected(slot, address, now, queue);
        }
        let end = self.end(slot);
        if end.sent() >= end.tells {
            self.on_sent(slot, now, queue);
        }
        self.pump(slot, now, queue);
        self.arm_timer(slot, now, queue);
        let end = self.end(slot);
        if end.closing {
            self.close_if_quiet(address / 2);
        } else if end.connection.failure().is_some() {
            let flow = end.flow;
            self.forget_kept(address / 2);
            self.end_flow(flow, FlowStatus::Failed, now, queue);
            self.close(address / 2);
        }
    }

    /// All bytes that this end waited for are in: the request is answered, or the flow is complete.
    fn on_expected(&mut self, slot: u32, address: u32, now: Time, queue: &mut EventQueue) {
        if self.end(slot).messages.is_some() {
            self.on_messages(slot, now, queue);
            return;
        }
        let side = address & 1;
        let flow = self.end(slot).flow;
        let spec = self.records[flow as usize].spec;
        let end = self.end(slot);
        end.expects = u64::MAX;
        if side == 1 && spec.reply > 0 && spec.reply_delay > Span::ZERO {
            self.write_later(slot, spec.reply, now + spec.reply_delay);
        } else if side == 1 && spec.reply > 0 {
            end.connection.send(spec.reply, now);
        } else {
            self.end_flow(flow, FlowStatus::Finished, now, queue);
        }
    }

    /// The application of this end writes `bytes` at `at`.
    #[cold]
    fn write_later(&mut self, slot: u32, bytes: u64, at: Time) {
        let end = self.end(slot);
        (end.write_at, end.writes) = (at, bytes);
    }

    /// Hands segments to the host while TCP has some and the host has room.
    #[inline]
    pub(crate) fn pump(&mut self, slot: u32, now: Time, queue: &mut EventQueue) {
        if self.end(slot).blocked {
            return;
        }
        loop {
            let host = self.end(slot).host;
            if !self.has_room(host) && !self.end(slot).connection.is_in_super_packet() {
                self.end(slot).blocked = true;
                self.hosts[host as usize].wait_for_room(slot);
                return;
            }
            let Some((segment, ecn)) = self.end(slot).connection.poll_transmit(now) else { return };
            self.send_segment(slot, &segment, ecn, now, queue);
        }
    }

    /// A socket in the line for the NIC sends one segment; false if it had none and left the line.
    pub(crate) fn send_one_blocked(&mut self, slot: u32, now: Time, queue: &mut EventQueue) -> bool {
        if self.send_waiting_datagram(slot, now, queue).is_some() {
            return false;
        }
        let Some(end) = &mut self.ends[slot as usize] else {
            // It was closed in the line; now nothing names its place any more.
            self.free_ends.push(slot);
            return false;
        };
        let Some((segment, ecn)) = end.connection.poll_transmit(now) else {
            end.blocked = false;
            self.arm_timer(slot, now, queue);
            return false;
        };
        self.send_segment(slot, &segment, ecn, now, queue);
        while self.end(slot).connection.is_in_super_packet() {
            let Some((segment, ecn)) = self.end(slot).connection.poll_transmit(now) else { break };
            self.send_segment(slot, &segment, ecn, now, queue);
        }
        self.arm_timer(slot, now, queue);
        true
    }

    /// The next packet of a connection end takes another VLAN.
    #[cold]
    fn change_vlan(&mut self, slot: u32) {
        let end = self.end(slot);
        let (among, host, class) = (std::mem::take(&mut end.vlans), end.host, end.class);
        let there = NodeId(end.route);
        let (vlan, class) = self.pick_again(host, &among, class);
        let nic_queue = self.hosts[host as usize].queue_for(there, class);
        let end = self.end(slot);
        (end.vlans, end.vlan, end.class, end.nic_queue) = (among, vlan, class, nic_queue);
    }

    #[inline]
    fn send_segment(&mut self, slot: u32, segment: &Segment, ecn: Ecn, now: Time, queue: &mut EventQueue) {
        if self.hot.vlan_per_packet {
            self.change_vlan(slot);
        }
        let end = self.ends[slot as usize].as_ref().expect("a sender is open");
        let transport = &self.settings.transports[usize::from(end.transport)];
        let ip = IP_HEADER + segment.header_len(transport.config.timestamps) + segment.len;
        let (host, nic_queue) = (end.host, end.nic_queue);
        // A packet without data (SYN, ACK) has nothing behind it: it goes before all others.
        let ranked = self.hot.ranked != 0 && segment.len > 0;
        let remaining = if ranked { rank(&end.connection) } else { 0 };
        let packet = Packet {
            at: now,
            next: NIL,
            ingress: PortId::NONE,
            route: end.route,
            to: end.peer,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.len as u16,
            window: segment.window,
            remaining,
            options: self.packets.add_options(segment.options),
            stamps: segment.stamps,
            size: self.settings.overhead.frame_size(ip, transport.priority) as u16,
            hop: 1,
            class: end.class,
            ingress_class: end.class,
            vlan: end.vlan,
            ecn,
            flags: segment.flags,
            kind: Kind::Data,
        };
        let index = self.packets.add(packet);
        self.send_from(host, nic_queue, index, now, queue);
    }

    /// Keeps a `Timer` event pending that is not later than the deadline.
    #[inline]
    pub(crate) fn arm_timer(&mut self, slot: u32, now: Time, queue: &mut EventQueue) {
        let end = self.end(slot);
        let deadline = end.connection.deadline().unwrap_or(Time::MAX).min(end.write_at);
        if deadline < end.timer_at {
            let at = deadline.max(now);
            end.timer_at = at;
            queue.push(at, Event::Timer(end.peer ^ 1).code());
        }
    }

    /// A timer event. The deadline may have moved on since it was set: then only the event is renewed.
    pub(crate) fn on_timer(&mut self, address: u32, now: Time, queue: &mut EventQueue) {
        let slot = self.slots[(address / 2) as usize][(address & 1) as usize];
        if slot == NIL || self.end(slot).timer_at != now {
            return;
        }
        let end = self.end(slot);
        end.timer_at = Time::MAX;
        if end.write_at <= now {
            end.write_at = Time::MAX;
            end.connection.send(end.writes, now);
        }
        if end.connection.deadline().is_some_and(|deadline| deadline <= now) {
            end.connection.on_timeout(now);
        }
        self.settle(slot, address, now, queue);
    }

    /// A long flow stops: nothing new is sent, what is under way arrives.
    pub(crate) fn on_flow_stop(&mut self, flow: u32, now: Time, queue: &mut EventQueue) {
        let slot = self.slots[flow as usize][0];
        if slot == NIL {
            return;
        }
        self.end(slot).connection.stop_sending();
        self.end_flow(flow, FlowStatus::Stopped, now, queue);
        self.close_if_quiet(flow);
    }

    /// The flow is over for its applications; its connection may still have ACKs to exchange.
    pub(crate) fn end_flow(&mut self, flow: u32, status: FlowStatus, now: Time, queue: &mut EventQueue) {
        self.collect(flow);
        let record = &mut self.records[flow as usize];
        if record.status != FlowStatus::Running {
            return;
        }
        record.status = status;
        record.end = now;
        let record = *record;
        self.active_flows = self.active_flows.checked_sub(1).expect("a flow ended twice");
        self.finished_flows += u64::from(status == FlowStatus::Finished);
        let slots = self.slots[flow as usize];
        if self.is_kept(flow) {
            // What its connection does before the next flow counts there (a probe for an ACK that is delayed).
            for slot in slots {
                let end = self.end(slot);
                end.before = end.counts();
            }
            // Its place in the records stays; late segments belong to the connection.
            if self.end(slots[0]).peer / 2 != flow {
                self.slots[flow as usize] = [NIL; 2];
            }
        } else {
            for (side, slot) in (0..).zip(slots) {
                self.relieve_vlan(&record.spec, side, slot);
            }
            self.close_ends(slots, now, queue);
        }
        let workload = record.spec.workload;
        self.workloads[usize::from(workload)].on_finished(&record, now);
        self.schedule_workload(u32::from(workload), now, queue);
        self.check_finished();
    }

    /// A connection end is no load of its VLAN any more.
    fn relieve_vlan(&mut self, spec: &FlowSpec, side: u32, slot: u32) {
        let end = self.end(slot);
        let vlan = end.vlan;
        if std::mem::take(&mut end.is_load) {
            self.leave_vlan(spec, side, vlan);
        }
    }

    /// Whether the connection of this flow waits for another.
    fn is_kept(&self, flow: u32) -> bool {
        let spec = &self.records[flow as usize].spec;
        spec.kept.is_some_and(|kept| self.kept.contains_key(&(spec.workload, kept.number)))
    }

    /// Both applications have nothing more to send.
    fn close_ends(&mut self, slots: [u32; 2], now: Time, queue: &mut EventQueue) {
        for slot in slots {
            let end = self.end(slot);
            end.closing = true;
            end.connection.close(now);
        }
        if self.hot.fin {
            for slot in slots {
                self.pump(slot, now, queue);
                self.arm_timer(slot, now, queue);
            }
        }
    }

    /// Copies what the two ends counted into the record of their flow.
    pub(crate) fn collect(&mut self, flow: u32) {
        let slots = self.slots[flow as usize];
        let record = &mut self.records[flow as usize];
        if slots[0] == NIL || (record.spec.kept.is_some() && record.status != FlowStatus::Running) {
            return;
        }
        (record.loss_probes, record.undone) = (0, 0);
        (record.delivered, record.retransmits, record.timeouts, record.ce_packets) = (0, 0, 0, 0);
        for slot in slots {
            let Some(end) = self.ends[slot as usize].as_ref() else { continue };
            let counts = end.counts();
            record.delivered += counts.delivered - end.before.delivered;
            record.retransmits += counts.retransmits - end.before.retransmits;
            record.timeouts += counts.timeouts - end.before.timeouts;
            record.ce_packets += counts.ce_packets - end.before.ce_packets;
            record.loss_probes += counts.loss_probes - end.before.loss_probes;
            record.undone += counts.undone - end.before.undone;
            // Of a flow that is over the connection may still fail: its last ACKs were lost.
            if record.status == FlowStatus::Running {
                record.failure = record.failure.or(end.connection.failure());
            }
        }
    }

    pub(crate) fn close_if_quiet(&mut self, flow: u32) {
        let [source, sink] = self.slots[flow as usize];
        if self.end(source).connection.is_quiescent() && self.end(sink).connection.is_quiescent() {
            self.close(flow);
        }
    }

    /// Gives back the places of both ends of the connection that `flow` opened.
    fn close(&mut self, flow: u32) {
        self.remember(flow);
        let current = self.end(self.slots[flow as usize][0]).flow;
        self.collect(current);
        if current != flow {
            self.slots[current as usize] = [NIL; 2];
        }
        let spec = self.records[flow as usize].spec;
        for (side, slot) in (0..).zip(std::mem::replace(&mut self.slots[flow as usize], [NIL; 2])) {
            self.relieve_vlan(&spec, side, slot);
            let Some(End { route, blocked, .. }) = self.ends[slot as usize].take() else { continue };
            if !self.hot.look_up {
                self.paths.retire(route);
            }
            // A place in the line for the NIC goes by the slot: nobody else gets it before its turn has come.
            if !blocked {
                self.free_ends.push(slot);
            }
        }
    }

    /// What the source's end has learnt goes to the next connection between the two.
    fn remember(&mut self, flow: u32) {
        let spec = &self.records[flow as usize].spec;
        let caches = self.settings.transports[usize::from(spec.transport)].config.cache != CachePolicy::Off;
        let slot = self.slots[flow as usize][0];
        if caches && let Some(Some(end)) = self.ends.get(slot as usize) {
            end.connection.remember(self.metrics.entry(metrics_key(spec)).or_default());
        }
    }

    /// The sender's end of a flow that is open, for samples.
    pub(crate) fn sender(&self, flow: u32) -> Option<&Connection> {
        let slot = self.slots[flow as usize][0];
        self.ends.get(slot as usize)?.as_ref().map(|end| &end.connection)
    }

    /// In-order bytes delivered so far to both applications of a flow.
    pub(crate) fn delivered(&self, flow: u32) -> u64 {
        let [source, sink] = self.slots[flow as usize];
        let record = &self.records[flow as usize];
        // The opener of a kept connection has its slots while others use them.
        if source == NIL || (record.spec.kept.is_some() && record.status != FlowStatus::Running) {
            return record.delivered;
        }
        let of = |slot: u32| self.ends[slot as usize].as_ref().map_or(0, End::delivered);
        of(source) + of(sink)
    }
}
