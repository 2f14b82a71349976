//! A host: its stack delays, its NIC with a queue for each destination, and the sockets that wait for room.
//!
//! A socket hands over segments while the host holds less than `nic_buffer` bytes of its own (in the stack and in
//! the NIC); after that it waits its turn, one segment a socket round robin, as a qdisc with back-pressure does.

use crate::cell::Cell;
use crate::event::Event;
use crate::packet::{Fifo, NIL, PacketPool};
use pauseframe_engine::{EventQueue, Rng};
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) port: PortId,
    /// Bytes in the stack's send side and in the NIC.
    pub(crate) held: u64,
    /// Packets in the two halves of the stack; each takes the same time, so they keep their order.
    pub(crate) receiving: Fifo,
    pub(crate) sending: Fifo,
    queues: Vec<DestinationQueue>,
    queue_of: BTreeMap<(NodeId, u8), u32>,
    /// By class: destination queues with packets, in the order of their turns.
    turns: [VecDeque<u32>; 8],
    /// Connection ends that found the NIC full.
    blocked: VecDeque<u32>,
    /// When the last segment is through the stack.
    last_through: Time,
    jitter: Rng,
    /// How unsteady its link is to the switch and from there.
    pub(crate) wire: [Unsteady; 2],
}

/// One direction of an unsteady link.
#[derive(Debug)]
pub(crate) struct Unsteady {
    pub(crate) jitter: Span,
    pub(crate) draws: Rng,
}

/// What waits in a NIC for one destination and class.
#[derive(Debug)]
struct DestinationQueue {
    packets: Fifo,
    /// Its QCN limiter, NIL until a CNM makes one.
    limiter: u32,
}

impl Host {
    pub(crate) fn new(port: PortId, jitter: Rng, wire: [Unsteady; 2]) -> Host {
        Host {
            port,
            held: 0,
            receiving: Fifo::EMPTY,
            sending: Fifo::EMPTY,
            queues: Vec::new(),
            queue_of: BTreeMap::new(),
            turns: Default::default(),
            blocked: VecDeque::new(),
            last_through: Time::ZERO,
            jitter,
            wire,
        }
    }

    /// The NIC queue for `destination` and `class`, made when first asked for.
    pub(crate) fn queue_for(&mut self, destination: NodeId, class: u8) -> u32 {
        let next = self.queues.len() as u32;
        let queue = *self.queue_of.entry((destination, class)).or_insert(next);
        if queue == next {
            self.queues.push(DestinationQueue { packets: Fifo::EMPTY, limiter: NIL });
        }
        queue
    }

    /// The NIC queue for `destination` and `class`, if there is one.
    pub(crate) fn known_queue(&self, destination: NodeId, class: u8) -> Option<u32> {
        self.queue_of.get(&(destination, class)).copied()
    }

    /// What waits in the NIC behind the first packet of each class.
    pub(crate) fn destination_queues(&self) -> impl Iterator<Item = Fifo> {
        self.queues.iter().map(|queue| queue.packets)
    }

    /// The QCN limiter of a NIC queue, if it has had one.
    pub(crate) fn limiter(&self, nic_queue: u32) -> Option<u32> {
        let limiter = self.queues[nic_queue as usize].limiter;
        (limiter != NIL).then_some(limiter)
    }

    pub(crate) fn set_limiter(&mut self, nic_queue: u32, limiter: u32) {
        self.queues[nic_queue as usize].limiter = limiter;
    }

    /// The next packet of `class`, from the destination whose turn it is.
    #[inline]
    fn next_in_turn(&mut self, class: u8, pool: &PacketPool) -> Option<u32> {
        let turns = &mut self.turns[usize::from(class)];
        let queue = turns.pop_front()?;
        let packets = &mut self.queues[queue as usize].packets;
        let index = packets.pop(pool)?;
        if !packets.is_empty() {
            turns.push_back(queue);
        }
        Some(index)
    }

    /// When a segment is through the stack that would be at `earliest`, and up to `jitter` later.
    fn through_stack(&mut self, earliest: Time, jitter: Span) -> Time {
        let late = if jitter == Span::ZERO { Span::ZERO } else { Span(self.jitter.below(jitter.0 + 1)) };
        self.last_through = self.last_through.max(earliest + late);
        self.last_through
    }

    /// The first in the line of sockets.
    #[inline]
    pub(crate) fn first_in_line(&self) -> Option<u32> {
        self.blocked.front().copied()
    }

    /// A socket that found no room takes its place in the line.
    pub(crate) fn wait_for_room(&mut self, end: u32) {
        self.blocked.push_back(end);
    }
}

impl Cell {
    /// Whether a host may take another segment from its sockets.
    #[inline]
    pub(crate) fn has_room(&self, host: u32) -> bool {
        self.hosts[host as usize].held < self.settings.nic_buffer
    }

    /// Bytes have gone from a host to the wire.
    #[inline]
    fn give_room(&mut self, host: u32, size: u32) {
        let state = &mut self.hosts[host as usize];
        let port = state.port;
        let Some(held) = state.held.checked_sub(u64::from(size)) else { self.overdrawn("NIC", port) };
        state.held = held;
    }

    /// A segment leaves its socket: through the stack to the NIC.
    #[inline]
    pub(crate) fn send_from(
        &mut self,
        host: u32,
        nic_queue: u32,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let state = &mut self.hosts[host as usize];
        state.held += u64::from(self.packets[index].size);
        if self.hot.stackless {
            self.enter_nic(host, nic_queue, index, now, queue);
            return;
        }
        let through = state.through_stack(now + self.settings.tx_delay, self.settings.tx_jitter);
        self.packets[index].at = through;
        // The stack needs no account of ingress: the field carries the NIC queue until the NIC has the packet.
        self.packets[index].ingress = PortId(nic_queue);
        if state.sending.push(&mut self.packets, index) {
            queue.push(through, Event::HostSend(host).code());
        }
    }

    /// The send side of the stack is through with its first packet.
    pub(crate) fn on_host_send(&mut self, host: u32, now: Time, queue: &mut EventQueue) {
        let state = &mut self.hosts[host as usize];
        let index = state.sending.pop(&self.packets).expect("the stack has a packet to send");
        if let Some(next) = state.sending.head() {
            queue.push(self.packets[next].at, Event::HostSend(host).code());
        }
        let nic_queue = std::mem::replace(&mut self.packets[index].ingress, PortId::NONE);
        self.enter_nic(host, nic_queue.0, index, now, queue);
        // An idle NIC has put it on the wire at once, which makes room too.
        self.unblock(host, now, queue);
    }

    /// The NIC gets a packet: a limiter may keep it back.
    #[inline]
    fn enter_nic(&mut self, host: u32, nic_queue: u32, index: u32, now: Time, queue: &mut EventQueue) {
        if self.hot.qcn && self.is_held(host, nic_queue, index, now, queue) {
            return;
        }
        self.pass_to_port(host, nic_queue, index, now, queue);
    }

    /// A packet goes on in the NIC: to the port if nothing of its class waits, else to its destination's queue.
    #[inline]
    pub(crate) fn pass_to_port(
        &mut self,
        host: u32,
        nic_queue: u32,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let class = self.packets[index].class;
        let port = self.hosts[host as usize].port;
        if self.ports[port].is_idle(now) {
            self.give_room(host, u32::from(self.packets[index].size));
            self.send_at_once(port, index, now, queue);
            return;
        }
        let lane = self.lane_index(port, class);
        if self.settings.nic_fifo || self.lanes[lane].queue.is_empty() {
            self.enqueue(port, index, now, queue);
            return;
        }
        let packet = &mut self.packets[index];
        packet.at = now;
        let state = &mut self.hosts[host as usize];
        let lane = &mut self.lanes[lane];
        lane.join(u64::from(packet.size), now);
        if state.queues[nic_queue as usize].packets.push(&mut self.packets, index) {
            state.turns[usize::from(class)].push_back(nic_queue);
        }
    }

    /// A packet goes from the NIC to the wire: the next destination's first packet takes its place at the port.
    #[inline]
    pub(crate) fn on_nic_dequeue(&mut self, host: u32, port: PortId, class: u8, size: u32) {
        self.give_room(host, size);
        let state = &mut self.hosts[host as usize];
        if let Some(next) = state.next_in_turn(class, &self.packets) {
            let lane = self.lane_index(port, class);
            self.lanes[lane].queue.push(&mut self.packets, next);
            self.ports[port].ready |= 1 << class;
        }
    }

    /// Sockets that wait for room in the NIC get it, one segment each in turn.
    #[inline]
    pub(crate) fn unblock(&mut self, host: u32, now: Time, queue: &mut EventQueue) {
        while self.has_room(host) {
            let Some(end) = self.hosts[host as usize].blocked.pop_front() else { return };
            if self.send_one_blocked(end, now, queue) {
                self.hosts[host as usize].blocked.push_back(end);
            }
        }
    }

    /// A packet is in at the NIC, whole.
    #[inline]
    pub(crate) fn on_nic_receive(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        if self.hot.slow_receivers && self.is_buffered(port, index, now, queue) {
            return;
        }
        self.receive_in_stack(self.ports[port].to_host, index, now, queue);
    }

    /// A packet enters the receive side of the stack.
    #[inline]
    pub(crate) fn receive_in_stack(&mut self, host: u32, index: u32, now: Time, queue: &mut EventQueue) {
        if self.settings.rx_delay == Span::ZERO {
            self.deliver(index, now, queue);
            return;
        }
        let through = now + self.settings.rx_delay;
        self.packets[index].at = through;
        if self.hosts[host as usize].receiving.push(&mut self.packets, index) {
            queue.push(through, Event::HostReceive(host).code());
        }
    }

    /// The receive side of the stack is through with its first packet.
    pub(crate) fn on_host_receive(&mut self, host: u32, now: Time, queue: &mut EventQueue) {
        let state = &mut self.hosts[host as usize];
        let index = state.receiving.pop(&self.packets).expect("the stack has received a packet");
        if let Some(next) = state.receiving.head() {
            queue.push(self.packets[next].at, Event::HostReceive(host).code());
        }
        self.deliver(index, now, queue);
    }
}
