//! A port: the queues of one end of a link, by priority, and the frames on their way to the other end.
//!
//! What a hop costs is decided here (docs/performance.md). Frames on a link arrive in order, so only the first has an
//! event; an idle port needs no "transmission done", it remembers until when it is busy.

use crate::cell::Cell;
use crate::event::Event;
use crate::packet::{Fifo, Kind, NIL, Packet, PacketPool};
use pauseframe_engine::EventQueue;
use pauseframe_units::{Bytes, LineRate, PortId, Span, Time};

/// The state of a port that every hop touches: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// The frame in service ends here.
    pub(crate) busy_until: Time,
    /// Propagation delay to the other end.
    pub(crate) delay: Span,
    pub(crate) rate: LineRate,
    /// Frames on the link.
    pub(crate) in_flight: Fifo,
    /// Pause frames that wait for the frame in service.
    pub(crate) control: Fifo,
    /// The switch at the other end, or NIL if a host is; and the other way round.
    pub(crate) to_switch: u32,
    pub(crate) to_host: u32,
    /// The host at this end, or NIL if a switch is.
    pub(crate) from_host: u32,
    /// Classes with waiting packets, and classes that may not send: a bit each.
    pub(crate) ready: u8,
    pub(crate) paused: u8,
    /// A `TxDone` is pending for `busy_until`.
    pub(crate) tx_pending: bool,
    /// A `TxDone` is pending for when a packet is through the forwarding latency.
    pub(crate) in_pipeline: bool,
}

/// What is still to be sent of a packet in service.
pub(crate) struct InService {
    pub(crate) class: u8,
    pub(crate) left: Span,
    /// That part of its bytes.
    pub(crate) bytes_left: f64,
}

/// One class of a port: its egress queue, and what it has sent. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    pub(crate) queue: Fifo,
    /// Bytes that wait, in a NIC those behind the queues of other destinations too.
    pub(crate) backlog: u64,
    pub(crate) backlog_max: u64,
    /// Packets in `queue`, where the marker counts packets.
    pub(crate) waiting: u32,
    /// The switch whose queue this is, or NIL in a NIC.
    pub(crate) switch: u32,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// Sum over packets of bytes times time, plus when they left and minus when they joined, modulo 2^128, in
    /// byte * ps: what [`Lane::backlog_time`] is made of.
    moments: u128,
}

impl Lane {
    /// Of `switch`, or in a NIC (NIL).
    pub(crate) const fn idle(switch: u32) -> Lane {
        Lane {
            queue: Fifo::EMPTY,
            backlog: 0,
            backlog_max: 0,
            waiting: 0,
            switch,
            tx_packets: 0,
            tx_bytes: 0,
            moments: 0,
        }
    }

    /// A packet has begun to wait.
    #[inline(always)]
    pub(crate) fn join(&mut self, size: u64, now: Time) {
        self.backlog += size;
        self.backlog_max = self.backlog_max.max(self.backlog);
        self.moments = self.moments.wrapping_sub(u128::from(size) * u128::from(now.0));
    }

    /// A packet waits no longer; false if so much did not wait.
    #[inline(always)]
    #[must_use]
    pub(crate) fn leave(&mut self, size: u64, now: Time) -> bool {
        let (left, overdrawn) = self.backlog.overflowing_sub(size);
        self.backlog = left;
        self.moments = self.moments.wrapping_add(u128::from(size) * u128::from(now.0));
        !overdrawn
    }

    /// The backlog summed over time up to `now`, in byte * ps: that of the packets that still wait included.
    pub(crate) fn backlog_time(&self, now: Time) -> u128 {
        self.moments.wrapping_add(u128::from(self.backlog) * u128::from(now.0))
    }

    /// The largest backlog since this was asked last.
    pub(crate) fn take_peak(&mut self) -> u64 {
        std::mem::replace(&mut self.backlog_max, self.backlog)
    }

    #[inline(always)]
    pub(crate) fn count_sent(&mut self, size: u32) {
        self.tx_packets += 1;
        self.tx_bytes += u64::from(size);
    }
}

impl Port {
    /// Classes that could send now.
    #[inline(always)]
    pub(crate) fn eligible(&self) -> u8 {
        self.ready & !self.paused
    }

    /// Nothing is in service, waits, or must not be sent: a packet can go straight to the wire.
    #[inline(always)]
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.busy_until <= now
            && (self.ready | self.paused | u8::from(self.tx_pending)) == 0
            && self.control.is_empty()
    }

    /// The frame in service: it is over at `busy_until` and reaches the other end `delay` later.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "in line, and the arenas are separate fields of the network"
    )]
    pub(crate) fn serve(
        &mut self,
        port: PortId,
        packets: &mut PacketPool,
        index: u32,
        gap: u32,
        delay: Span,
        now: Time,
        queue: &mut EventQueue,
    ) {
        debug_assert!(self.busy_until <= now, "two frames on one wire");
        let packet = &mut packets[index];
        let over = now + self.rate.serialise(u32::from(packet.size) + gap);
        let arrival = over + delay;
        packet.at = arrival;
        self.busy_until = over;
        if self.eligible() != 0 || !self.control.is_empty() {
            self.tx_pending = true;
            queue.push(over, Event::TxDone(port).code());
        }
        if self.in_flight.push(packets, index) {
            queue.push(arrival, Event::Arrive(port).code());
        }
    }
}

impl Cell {
    /// Index of the lane of `class` at `port`.
    #[inline(always)]
    pub(crate) fn lane_index(&self, port: PortId, class: u8) -> usize {
        ((port.0 << self.class_bits) | u32::from(class)) as usize
    }

    /// Appends a packet to its class at `port` and starts the port if it is idle.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        let packet = &mut self.packets[index];
        packet.at = now;
        let (class, size) = (packet.class, u64::from(packet.size));
        let lane = &mut self.lanes[((port.0 << self.class_bits) | u32::from(class)) as usize];
        lane.queue.push(&mut self.packets, index);
        lane.join(size, now);
        if let Some(held) = self.held.get_mut(lane.switch as usize) {
            held.bytes += size;
            held.most = held.most.max(held.bytes);
        }
        let state = &mut self.ports[port];
        state.ready |= 1 << class;
        if !state.tx_pending {
            self.kick(port, now, queue);
        }
    }

    /// Starts the port, at once or when its frame in service ends, unless it is already bound to go on.
    pub(crate) fn kick(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        let state = &mut self.ports[port];
        if state.tx_pending || (state.eligible() == 0 && state.control.is_empty()) {
            return;
        }
        if state.busy_until > now {
            state.tx_pending = true;
            queue.push(state.busy_until, Event::TxDone(port).code());
        } else {
            self.transmit(port, now, queue);
        }
    }

    /// The port has finished its frame and has more to send.
    #[inline(always)]
    pub(crate) fn on_tx_done(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        let state = &mut self.ports[port];
        if state.busy_until > now {
            // A packet is out of the pipeline, but a pause frame is in service.
            state.in_pipeline = false;
            self.kick(port, now, queue);
            return;
        }
        if state.tx_pending {
            state.tx_pending = false;
        } else {
            state.in_pipeline = false;
        }
        if state.eligible() != 0 || !state.control.is_empty() {
            self.transmit(port, now, queue);
        }
    }

    /// Puts the next frame on the wire: a pause frame, else the first packet of the highest class that may send.
    fn transmit(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        let state = &mut self.ports[port];
        if !state.control.is_empty() {
            self.transmit_control(port, now, queue);
            return;
        }
        let host = state.from_host;
        let startable = state.eligible();
        let class = if self.hot.deliberate {
            let Some(class) = self.choose_class(port, startable, now, queue) else { return };
            class
        } else {
            startable.ilog2() as u8
        };
        let index = if host == NIL {
            self.dequeue_at_switch(port, class, now, queue)
        } else {
            self.dequeue_at_host(host, port, class, now)
        };
        self.put_on_wire(port, index, now, queue);
        if host != NIL {
            self.unblock(host, now, queue);
        }
    }

    /// The class to serve where that is not just the highest: its packets may still be in the pipeline of the switch, and
    /// the scheduler may be another.
    #[inline(never)]
    fn choose_class(&mut self, port: PortId, eligible: u8, now: Time, queue: &mut EventQueue) -> Option<u8> {
        let mut startable = eligible;
        if self.hot.pipelined && self.ports[port].from_host == NIL {
            startable = self.through_pipeline(port, startable, now);
            if startable == 0 {
                self.wait_for_pipeline(port, now, queue);
                return None;
            }
        }
        Some(if self.hot.ets { self.class_in_turn(port, startable, now) } else { startable.ilog2() as u8 })
    }

    #[inline(never)]
    fn transmit_control(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        let index = self.ports[port].control.pop(&self.packets).expect("a pause frame waits");
        let frame = self.packets[index];
        if frame.len > 0 {
            // Of a whole link class 0 alone counts frames.
            let lane = self.lane_index(port.reverse(), frame.seq.trailing_zeros() as u8);
            self.askers[lane].pauses_sent += 1;
        }
        self.put_on_wire(port, index, now, queue);
    }

    /// Of `classes`, those whose first packet is through the forwarding latency of its switch.
    fn through_pipeline(&self, port: PortId, classes: u8, now: Time) -> u8 {
        let through = |class: &u8| {
            let head = self.lanes[self.lane_index(port, *class)].queue.head();
            head.is_some_and(|head| self.packets[head].at + self.hot.switch_latency <= now)
        };
        (0..8u8)
            .filter(|class| classes & 1 << class != 0)
            .filter(through)
            .fold(0, |set, class| set | 1 << class)
    }

    /// Everything that could be sent is still in the pipeline of the switch: the port starts when the first is out.
    fn wait_for_pipeline(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        if std::mem::replace(&mut self.ports[port].in_pipeline, true) {
            return;
        }
        let eligible = self.ports[port].eligible();
        let classes = (0..8u8).filter(|class| eligible & 1 << class != 0);
        let heads = classes.filter_map(|class| self.lanes[self.lane_index(port, class)].queue.head());
        let first = heads.map(|head| self.packets[head].at + self.hot.switch_latency).min();
        queue.push(first.unwrap_or(now), Event::TxDone(port).code());
    }

    /// Takes the next packet of a class at a switch, with the marking and buffer accounting that it means.
    #[inline(always)]
    fn dequeue_at_switch(&mut self, port: PortId, class: u8, now: Time, queue: &mut EventQueue) -> u32 {
        if self.hot.plain & 1 << class != 0 {
            return self.dequeue(port, class, now);
        }
        let watched = self.hot.watched_departures & 1 << class != 0;
        let index =
            if watched { self.dequeue_watched(port, class, now) } else { self.dequeue(port, class, now) };
        if self.hot.accounted & 1 << class != 0 {
            // Where a packet goes back the way it came, the resume frame that this may send is for this very port: it has
            // its turn after the packet.
            self.ports[port].tx_pending = true;
            self.release(index, port, now, queue);
            self.ports[port].tx_pending = false;
        }
        index
    }

    /// The same where the queue is not first in, first out, or the marker looks at what leaves.
    #[inline(never)]
    fn dequeue_watched(&mut self, port: PortId, class: u8, now: Time) -> u32 {
        self.bring_forward(port, class, now);
        let lane = self.lane_index(port, class);
        let found = (self.lanes[lane].backlog, self.lanes[lane].waiting);
        let index = self.dequeue(port, class, now);
        self.forget_waiting(port, class);
        self.marks_departure(index, port, found, now);
        index
    }

    /// A packet has left a queue; where the marker counts packets, one waits less.
    pub(crate) fn forget_waiting(&mut self, port: PortId, class: u8) {
        if self.hot.watched_arrivals & 1 << class != 0 {
            let lane = &mut self.lanes[((port.0 << self.class_bits) | u32::from(class)) as usize];
            let Some(waiting) = lane.waiting.checked_sub(1) else { self.overdrawn("packet count", port) };
            lane.waiting = waiting;
        }
    }

    #[inline(always)]
    fn dequeue_at_host(&mut self, host: u32, port: PortId, class: u8, now: Time) -> u32 {
        let index = self.dequeue(port, class, now);
        let size = u32::from(self.packets[index].size);
        self.on_nic_dequeue(host, port, class, size);
        index
    }

    /// Takes the first packet of a class, and counts it.
    #[inline(always)]
    pub(crate) fn dequeue(&mut self, port: PortId, class: u8, now: Time) -> u32 {
        let lane = &mut self.lanes[((port.0 << self.class_bits) | u32::from(class)) as usize];
        let index = lane.queue.head().expect("a ready class has a packet");
        let packet = &self.packets[index];
        lane.queue.advance(packet.next);
        let size = u32::from(packet.size);
        lane.count_sent(size);
        let waited = lane.leave(u64::from(size), now);
        if let Some(held) = self.held.get_mut(lane.switch as usize) {
            held.bytes = held.bytes.wrapping_sub(u64::from(size));
        }
        if lane.queue.is_empty() {
            self.ports[port].ready &= !(1 << class);
        }
        if !waited {
            self.overdrawn("backlog", port);
        }
        index
    }

    /// Puts a frame on the wire; who taps it keeps a copy, damages it, or makes it late.
    #[inline(always)]
    pub(crate) fn put_on_wire(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        if self.hot.tapped {
            self.put_on_tapped_wire(port, index, now, queue);
            return;
        }
        let state = &mut self.ports[port];
        state.serve(port, &mut self.packets, index, self.hot.gap, state.delay, now, queue);
    }

    /// A packet that meets an idle port goes straight to the wire: it never waits and is in no backlog.
    #[inline(always)]
    pub(crate) fn send_at_once(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        let packet = &self.packets[index];
        let lane = ((port.0 << self.class_bits) | u32::from(packet.class)) as usize;
        self.lanes[lane].count_sent(u32::from(packet.size));
        self.put_on_wire(port, index, now, queue);
    }

    /// What is left at `now` of the packet in service at `port`: its class, and the time it takes. `None` if none is: of
    /// pause frames nobody counts the time, and what is cut off by a failure has been ([`Network::cut_service`]).
    pub(crate) fn left_in_service(&self, port: PortId, now: Time) -> Option<InService> {
        let state = &self.ports[port];
        if state.busy_until <= now || self.is_down(port) {
            return None;
        }
        // It has not arrived, and nothing has been sent after it.
        let packet = &self.packets[state.in_flight.tail()?];
        // A damaged pause frame is known by having no connection.
        let counts = packet.to != NIL && packet.kind != Kind::Lost;
        let (left, size) = (state.busy_until - now, u32::from(packet.size));
        let share = left.0 as f64 / state.rate.serialise(size + self.hot.gap).0 as f64;
        counts.then(|| InService { class: packet.class, left, bytes_left: share * f64::from(size) })
    }

    /// The link of `port` goes down: the frame in service is sent no further.
    pub(crate) fn cut_service(&mut self, port: PortId, now: Time) {
        if let Some(InService { class, left, .. }) = self.left_in_service(port, now) {
            let lane = self.lane_index(port, class);
            self.counters[lane].cut_off += left;
        }
    }

    /// Time up to `now` in which `port` was sending packets of `class`, preambles and gaps included.
    pub(crate) fn busy_time(&self, port: PortId, class: u8, now: Time) -> Span {
        let lane = self.lane_index(port, class);
        let Lane { tx_packets, tx_bytes, .. } = self.lanes[lane];
        let wire_bytes = tx_bytes + tx_packets * u64::from(self.hot.gap);
        let begun = self.ports[port].rate.rate().serialise(Bytes(wire_bytes));
        let in_service = self.left_in_service(port, now).filter(|service| service.class == class);
        // A frame takes whole picoseconds, rounded up; their sum does so once.
        let ahead = in_service.map_or(Span::ZERO, |service| service.left) + self.counters[lane].cut_off;
        Span(begun.0.saturating_sub(ahead.0))
    }

    /// A frame that is no packet of a flow has arrived, or would have.
    #[cold]
    fn on_other_frame(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        match self.packets[index].kind {
            Kind::Pause => self.on_pause_frame(port, index, now, queue),
            Kind::Cnm => {
                self.packet_hops += 1;
                if self.ports[port].to_switch == NIL {
                    self.on_cnm(port, index, now, queue);
                } else {
                    self.forward_cnm(port, index, now, queue);
                }
            }
            _ => self.on_lost_frame(port, index),
        }
    }

    /// The first frame on a link has arrived, whole.
    #[inline(always)]
    pub(crate) fn on_arrive(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        let packets = &self.packets;
        let state = &mut self.ports[port];
        let index = state.in_flight.head().expect("an arrival has a frame");
        let Packet { kind, next, .. } = packets[index];
        state.in_flight.advance(next);
        let to_switch = state.to_switch;
        if next != NIL {
            queue.push(packets[next].at, Event::Arrive(port).code());
        }
        if !matches!(kind, Kind::Data | Kind::Datagram) {
            self.on_other_frame(port, index, now, queue);
            return;
        }
        self.packet_hops += 1;
        if to_switch == NIL {
            self.on_nic_receive(port, index, now, queue);
        } else {
            self.forward(to_switch, port, index, now, queue);
        }
    }
}
