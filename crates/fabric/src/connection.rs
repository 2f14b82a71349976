//! Connection ends: opening and closing, segments in and out of TCP, timers.
//!
//! A flow has two connection ends, side 0 at its source and side 1 at its destination; neither sees the other. The fabric sees TCP
//! only through its sans-IO verbs: `send`, `on_segment`, `poll_transmit`, `deadline`, `on_timeout`, `close`. A kept connection
//! carries several flows; its packets and timers go by the number of the flow that opened it.

use crate::cell::Cell;
use crate::event::Event;
use crate::messages::Boundaries;
use crate::order::{Exchange, Half, News, Opening, Order};
use crate::packet::{Kind, NIL, Packet};
use crate::vlan::Picked;
use pauseframe_engine::{EventQueue, mix};
use pauseframe_transport::{CachePolicy, Connection, Ecn, Flags, Segment};
use pauseframe_units::{NodeId, PortId, Priority, Span, Time};

/// IPv4 header, bytes.
const IP_HEADER: u32 = 20;

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
    /// What it answers, and how long it takes to.
    reply: u64,
    reply_delay: Span,
    /// Flow * 2 + side of the other end, by the flow that opened the connection.
    pub(crate) peer: u32,
    /// The flow that it carries now, NIL between two.
    pub(crate) flow: u32,
    /// What has been told of what it has counted.
    told: Half,
    connected: Option<Time>,
    host: u32,
    nic_queue: u32,
    /// Path of its packets, or the destination node where switches look up the next hop.
    pub(crate) route: u32,
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
    pub(crate) tells: u64,
    /// Where messages end, on a connection that carries some.
    pub(crate) messages: Option<Box<Boundaries>>,
}

impl End {
    fn counts(&self) -> Half {
        let stats = self.connection.stats();
        Half {
            delivered: self.connection.delivered(),
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
            ce_packets: stats.ce_received,
            loss_probes: self.connection.loss_probes(),
            undone: self.connection.undone(),
            ..Half::default()
        }
    }

    /// What it has counted since this was asked last, for the flow that it carries; nothing between two.
    pub(crate) fn take_half(&mut self) -> Option<Half> {
        if self.flow == NIL {
            return None;
        }
        let (all, told) = (self.counts(), self.told);
        self.told = all;
        Some(Half {
            flow: self.flow,
            delivered: all.delivered - told.delivered,
            retransmits: all.retransmits - told.retransmits,
            timeouts: all.timeouts - told.timeouts,
            ce_packets: all.ce_packets - told.ce_packets,
            loss_probes: all.loss_probes - told.loss_probes,
            undone: all.undone - told.undone,
            connected: self.connected.take(),
            ..Half::default()
        })
    }

    /// Bytes that TCP has sent at least once.
    pub(crate) fn sent(&self) -> u64 {
        self.connection.acked() + self.connection.flight_size()
    }

    /// In-order bytes that have not been told of.
    pub(crate) fn delivered(&self) -> u64 {
        self.connection.delivered() - self.told.delivered
    }

    /// Its own address.
    fn address(&self) -> u32 {
        self.peer ^ 1
    }

    fn begin(&mut self, exchange: &Exchange) {
        self.flow = exchange.flow;
        self.expects = self.connection.delivered().saturating_add(exchange.expects);
        (self.reply, self.reply_delay) = (exchange.reply, exchange.reply_delay);
    }
}

/// What a connection has left to be acknowledged, as 32 bits hold it.
#[inline(never)]
fn rank(connection: &Connection) -> u32 {
    u32::try_from(connection.remaining()).unwrap_or(u32::MAX)
}

impl Cell {
    /// A connection end comes to be.
    pub(crate) fn open(&mut self, address: u32, opening: Opening, now: Time, queue: &mut EventQueue) {
        let Opening { spec, route, picked, exchange } = opening;
        let (flow, side) = (address / 2, address & 1);
        let iss = |side: u32| mix(self.settings.seed ^ mix(u64::from(flow) * 2 + u64::from(side))) as u32;
        let nodes = if side == 0 { [spec.source, spec.destination] } else { [spec.destination, spec.source] };
        let config = self.config_at(nodes[0], spec.transport);
        let mut connection = if side == 0 {
            Connection::open(config, iss(0), iss(1), now)
        } else {
            Connection::accept(config, iss(1), iss(0))
        };
        if side == 1 && self.settings.refusing.contains(&nodes[0]) {
            connection = connection.refusing();
        } else if side == 1 && self.settings.silent.contains(&nodes[0]) {
            connection = connection.silent();
        }
        let at_once = side == 0 && spec.start <= now;
        if at_once {
            connection.send(exchange.writes, now);
        }
        if side == 0
            && let Some(metrics) = self.metrics.get(&(nodes[0], nodes[1], spec.transport))
        {
            connection.inherit(metrics);
        }
        let slot = self.add_end(address, nodes, spec.transport, spec.workload, route, picked, connection);
        self.end(slot).begin(&exchange);
        self.remember_slot(flow, side, slot);
        if side == 0 {
            if !at_once {
                self.write_later(slot, exchange.writes, spec.start);
            }
            self.pump(slot, now, queue);
            self.arm_timer(slot, now, queue);
        }
    }

    pub(crate) fn remember_slot(&mut self, flow: u32, side: u32, slot: u32) {
        let flow = flow as usize;
        if self.slots.len() <= flow {
            self.slots.resize(flow + 1, [NIL; 2]);
        }
        self.slots[flow][side as usize] = slot;
    }

    /// The end at an address, if it is here and has not gone.
    fn slot_at(&self, address: u32) -> Option<u32> {
        let slot = self.slots.get((address / 2) as usize)?[(address & 1) as usize];
        (slot != NIL).then_some(slot)
    }

    /// What the application at an end that is open does. One that has failed meanwhile does nothing.
    pub(crate) fn order_end(&mut self, address: u32, order: &Order, now: Time, queue: &mut EventQueue) {
        let Some(slot) = self.slot_at(address) else { return };
        match order {
            Order::Continue(exchange) => self.continue_with(slot, exchange, now),
            Order::EndExchange => {
                self.tell_counts(slot, now);
                self.end(slot).flow = NIL;
                return;
            }
            &Order::Write { bytes, token, written } => {
                // That it has gone is told with what happens next, not now.
                self.write_message(slot, bytes, token, written, now);
                self.pump(slot, now, queue);
                self.arm_timer(slot, now, queue);
                return;
            }
            &Order::Await { bytes, token } => {
                self.await_message(slot, bytes, token);
                return;
            }
            Order::Close | Order::Stop => {
                let end = self.end(slot);
                end.closing = true;
                if matches!(order, Order::Stop) {
                    end.connection.stop_sending();
                }
                end.connection.close(now);
            }
            Order::Free => {
                self.free_end(slot, now);
                return;
            }
            Order::Open(_) | Order::OpenStream(_) | Order::AwaitDatagrams(_) | Order::FreeStream => {
                unreachable!("what opens an end or is for a stream has its own way")
            }
        }
        self.settle(slot, address, now, queue);
    }

    /// The next exchange on a kept connection.
    fn continue_with(&mut self, slot: u32, exchange: &Exchange, now: Time) {
        let end = self.end(slot);
        let side = end.address() & 1;
        end.begin(exchange);
        if exchange.writes > 0 {
            end.connection.send(exchange.writes, now);
        }
        self.remember_slot(exchange.flow, side, slot);
    }

    fn tell_counts(&mut self, slot: u32, now: Time) {
        let end = self.end(slot);
        let (address, flow) = (end.address(), end.flow);
        if let Some(half) = end.take_half() {
            self.report(address, News::Counted(half), now);
        }
        // Late segments belong to the connection, which goes by the flow that opened it.
        if flow != NIL && flow != address / 2 {
            self.slots[flow as usize][(address & 1) as usize] = NIL;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what makes an end, from two sources")]
    fn add_end(
        &mut self,
        address: u32,
        nodes: [NodeId; 2],
        transport: u16,
        workload: u16,
        route: u32,
        picked: Picked,
        mut connection: Connection,
    ) -> u32 {
        let host = self.host_of(nodes[0]);
        let frame = self.settings.overhead.frame_size(self.settings.mtu, Priority::default()) + self.hot.gap;
        connection.set_frame_time(self.ports[self.hosts[host as usize].port].rate.serialise(frame));
        let Picked { vlan, class, among } = picked;
        let end = End {
            connection,
            timer_at: Time::MAX,
            write_at: Time::MAX,
            writes: 0,
            expects: u64::MAX,
            reply: 0,
            reply_delay: Span::ZERO,
            peer: address ^ 1,
            flow: NIL,
            told: Half::default(),
            connected: None,
            host,
            nic_queue: self.hosts[host as usize].queue_for(nodes[1], class),
            route,
            nodes,
            transport,
            workload,
            class,
            vlan,
            vlans: among,
            blocked: false,
            closing: false,
            quiet: false,
            tells: u64::MAX,
            messages: None,
        };
        if let Some(slot) = self.free_ends.pop() {
            self.ends[slot as usize] = Some(end);
            slot
        } else {
            self.ends.push(Some(end));
            (self.ends.len() - 1) as u32
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
            self.deliver_datagram(index, now);
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
        if segment.flags.has(Flags::SYN) && packet.to & 1 == 0 && !end.connection.is_established() {
            end.connected.get_or_insert(now);
        }
        end.connection.on_segment(&segment, packet.ecn, now);
        // A limited reassembly list may give bytes up: they will be received again.
        let (received, workload) = (end.connection.received().saturating_sub(before), end.workload);
        if received > 0 {
            self.throughput.add(workload, received, now);
        }
        self.settle(slot, packet.to, now, queue);
    }

    /// After anything that happened to a connection end: the application, what may be sent, the timer, the end.
    #[inline]
    fn settle(&mut self, slot: u32, address: u32, now: Time, queue: &mut EventQueue) {
        let end = self.end(slot);
        if end.connection.delivered() >= end.expects {
            self.on_expected(slot, address, now);
        }
        let end = self.end(slot);
        if end.sent() >= end.tells {
            self.on_sent(slot, now);
        }
        self.pump(slot, now, queue);
        self.arm_timer(slot, now, queue);
        let end = self.end(slot);
        if end.closing {
            if !end.quiet && end.connection.is_quiescent() {
                end.quiet = true;
                self.report(address, News::Quiet, now);
            }
        } else if let Some(failure) = end.connection.failure() {
            self.report(address, News::Failed(failure), now);
            self.free_end(slot, now);
        }
    }

    /// All bytes that this end waited for are in: the request is answered, or the flow is complete.
    fn on_expected(&mut self, slot: u32, address: u32, now: Time) {
        let end = self.end(slot);
        if end.messages.is_some() {
            self.on_messages(slot, now);
            return;
        }
        end.expects = u64::MAX;
        let reply = std::mem::take(&mut end.reply);
        if reply > 0 && end.reply_delay > Span::ZERO {
            let at = now + end.reply_delay;
            self.write_later(slot, reply, at);
        } else if reply > 0 {
            end.connection.send(reply, now);
        } else {
            self.report(address, News::Complete, now);
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

    /// Gives back the place of an end.
    fn free_end(&mut self, slot: u32, now: Time) {
        self.remember(slot);
        self.tell_counts(slot, now);
        let Some(End { peer, blocked, .. }) = self.ends[slot as usize].take() else { return };
        self.slots[(peer / 2) as usize][(peer & 1 ^ 1) as usize] = NIL;
        // A place in the line for the NIC goes by the slot: nobody else gets it before its turn has come.
        if !blocked {
            self.free_ends.push(slot);
        }
    }

    /// What the source's end has learnt goes to the next connection between the two.
    fn remember(&mut self, slot: u32) {
        let Some(end) = &self.ends[slot as usize] else { return };
        let caches = self.settings.transports[usize::from(end.transport)].config.cache != CachePolicy::Off;
        if caches && end.address() & 1 == 0 {
            let whose = (end.nodes[0], end.nodes[1], end.transport);
            end.connection.remember(self.metrics.entry(whose).or_default());
        }
    }

    /// The paths of the end and of the stream at an address, if they are here.
    pub(crate) fn route_of(&mut self, address: u32) -> [Option<&mut u32>; 2] {
        let slot = self.slot_at(address).unwrap_or(NIL) as usize;
        let end = self.ends.get_mut(slot).and_then(Option::as_mut);
        let end = end.filter(|end| end.peer == address ^ 1).map(|end| &mut end.route);
        [
            end,
            self.streams
                .get_mut(slot)
                .filter(|stream| stream.flow * 2 == address)
                .map(|stream| &mut stream.route),
        ]
    }

    /// The end of `flow` on this `side`, if it is open here, for samples.
    pub(crate) fn known_end(&self, flow: u32, side: usize) -> Option<&End> {
        let slot = self.slots.get(flow as usize)?[side];
        self.ends.get(slot as usize)?.as_ref()
    }
}
