//! A host: its stack delays, its NIC with a queue for each destination, and the sockets that wait for room.
//!
//! A socket hands over segments while the host holds less than `nic_buffer` bytes of its own (in the stack and in
//! the NIC); after that it waits its turn, one segment a socket round robin, as a qdisc with back-pressure does.

use super::Endpoints;
use super::limiter::LimiterNumber;
use crate::event::{Event, LimiterId};
use crate::frame::{Cnm, Content, Fifo, PacketId, PacketPool};
use crate::ids::{EndId, HostId, NicQueueId};
use crate::near::Near;
use crate::wire::Ports;
use crate::wire::counters::DropReason;
use pauseframe_engine::Rng;
use pauseframe_units::{IndexVec, NodeId, PortId, Span, Time};
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
    /// The NIC queues that those which are sent are bound for.
    bound_for: VecDeque<NicQueueId>,
    queues: IndexVec<NicQueueId, DestinationQueue>,
    queue_of: BTreeMap<(NodeId, u8), NicQueueId>,
    /// By class: destination queues with packets, in the order of their turns. Empty until one had to wait.
    turns: Vec<VecDeque<NicQueueId>>,
    /// Sockets that found the NIC full.
    blocked: VecDeque<Socket>,
    /// When the last segment is through the stack.
    last_through: Time,
    jitter: Rng,
}

/// Who waits for room in a NIC.
#[derive(Clone, Copy, Debug)]
pub(super) enum Socket {
    Connection(EndId),
    Datagrams(EndId),
}

/// What waits in a NIC for one destination and class.
#[derive(Debug)]
struct DestinationQueue {
    packets: Fifo,
    /// Its QCN limiter, once a CNM has made one.
    limiter: Option<LimiterNumber>,
}

impl Host {
    pub(super) fn new(port: PortId, jitter: Rng) -> Host {
        Host {
            port,
            held: 0,
            receiving: Fifo::EMPTY,
            sending: Fifo::EMPTY,
            bound_for: VecDeque::new(),
            queues: IndexVec::new(),
            queue_of: BTreeMap::new(),
            turns: Vec::new(),
            blocked: VecDeque::new(),
            last_through: Time::ZERO,
            jitter,
        }
    }

    /// The NIC queue for `destination` and `class`, made when first asked for.
    pub(super) fn queue_for(&mut self, destination: NodeId, class: u8) -> NicQueueId {
        let queues = &mut self.queues;
        *self
            .queue_of
            .entry((destination, class))
            .or_insert_with(|| queues.push(DestinationQueue { packets: Fifo::EMPTY, limiter: None }))
    }

    /// The limiter of what goes to `destination` in `class`, if there is one.
    pub(super) fn known_limiter(&self, destination: NodeId, class: u8) -> Option<LimiterNumber> {
        self.queues[*self.queue_of.get(&(destination, class))?].limiter
    }

    /// What waits in the NIC behind the first packet of each class.
    pub(crate) fn destination_queues(&self) -> impl Iterator<Item = Fifo> {
        self.queues.iter().map(|queue| queue.packets)
    }

    /// The next packet of `class`, from the destination whose turn it is.
    #[inline]
    fn next_in_turn(&mut self, class: u8, pool: &PacketPool) -> Option<PacketId> {
        let turns = self.turns.get_mut(usize::from(class))?;
        let queue = turns.pop_front()?;
        let packets = &mut self.queues[queue].packets;
        let index = packets.pop(pool)?;
        if !packets.is_empty() {
            turns.push_back(queue);
        }
        Some(index)
    }

    /// A packet waits behind others, in the queue for its destination.
    fn wait_for_turn(&mut self, nic_queue: NicQueueId, class: u8, index: PacketId, pool: &mut PacketPool) {
        if self.queues[nic_queue].packets.push(pool, index) {
            let class = usize::from(class);
            if self.turns.len() <= class {
                self.turns.resize_with(class + 1, VecDeque::new);
            }
            self.turns[class].push_back(nic_queue);
        }
    }

    /// When a segment is through the stack that would be at `earliest`, and up to `jitter` later.
    fn through_stack(&mut self, earliest: Time, jitter: Span) -> Time {
        let late = if jitter == Span::ZERO { Span::ZERO } else { Span(self.jitter.below(jitter.0 + 1)) };
        self.last_through = self.last_through.max(earliest + late);
        self.last_through
    }

    /// A socket that found no room takes its place in the line.
    pub(super) fn wait_for_room(&mut self, socket: Socket) {
        self.blocked.push_back(socket);
    }

    /// The first in the line of sockets.
    #[inline]
    pub(super) fn first_in_line(&self) -> Option<Socket> {
        self.blocked.front().copied()
    }

    /// Whether it may take another segment from its sockets.
    #[inline]
    pub(super) fn has_room(&self, near: &Near) -> bool {
        self.held < near.settings.nic_buffer
    }

    /// Bytes have gone to the wire.
    #[inline]
    fn give_room(&mut self, size: u32, near: &Near) {
        let Some(held) = self.held.checked_sub(u64::from(size)) else {
            near.plan.overdrawn("NIC", self.port)
        };
        self.held = held;
    }
}

/// What goes out.
impl Endpoints {
    /// A segment leaves its socket: through the stack to the NIC.
    #[inline(always)]
    pub(super) fn send_from(
        &mut self,
        host: HostId,
        nic_queue: NicQueueId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let state = &mut self.hosts[host];
        state.held += u64::from(near.packets[index].size);
        if near.hot.stackless {
            self.enter_nic(host, nic_queue, index, ports, near);
            return;
        }
        let earliest = near.now() + near.settings.tx_delay;
        let through = state.through_stack(earliest, near.settings.tx_jitter);
        near.packets[index].at = through;
        state.bound_for.push_back(nic_queue);
        if state.sending.push(&mut near.packets, index) {
            near.schedule(through, Event::HostSend(host));
        }
    }

    /// The send side of the stack is through with its first packet.
    pub(crate) fn on_host_send(&mut self, host: HostId, ports: &mut Ports, near: &mut Near) {
        let state = &mut self.hosts[host];
        let index = state.sending.pop(&near.packets).expect("the stack has a packet to send");
        if let Some(next) = state.sending.head() {
            near.schedule(near.packets[next].at, Event::HostSend(host));
        }
        let nic_queue = state.bound_for.pop_front().expect("every packet is bound for a queue");
        self.enter_nic(host, nic_queue, index, ports, near);
        // An idle NIC has put it on the wire at once, which makes room too.
        self.unblock(host, ports, near);
    }

    /// The NIC gets a packet: a limiter may keep it back.
    #[inline(always)]
    fn enter_nic(
        &mut self,
        host: HostId,
        nic_queue: NicQueueId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        if let Some(limiters) = self.limiters.as_deref_mut()
            && let Some(limiter) = self.hosts[host].queues[nic_queue].limiter
            && limiters.holds(limiter, index, near)
        {
            return;
        }
        self.pass_to_port(host, nic_queue, index, ports, near);
    }

    /// A packet goes on in the NIC: to the port if nothing of its class waits, else to its destination's queue.
    #[inline(always)]
    fn pass_to_port(
        &mut self,
        host: HostId,
        nic_queue: NicQueueId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let (now, state) = (near.now(), &mut self.hosts[host]);
        let (packet, port) = (&near.packets[index], state.port);
        let (class, size) = (packet.class, packet.size);
        if ports.ports[port].is_idle(now) {
            state.give_room(u32::from(size), near);
            ports.send_at_once(port, index, class, near);
            return;
        }
        let slot = near.hot.slot(port, class);
        if near.settings.nic_fifo || ports.slots[slot].queue.is_empty() {
            if ports.enqueue(port, slot, index, near) {
                self.kick(host, port, ports, near);
            }
            return;
        }
        near.packets[index].at = now;
        ports.slots[slot].join(u64::from(size), now);
        state.wait_for_turn(nic_queue, class, index, &mut near.packets);
    }

    /// Starts the NIC, at once or when its frame in service ends, unless it is already bound to go on.
    pub(crate) fn kick(&mut self, host: HostId, port: PortId, ports: &mut Ports, near: &mut Near) {
        if ports.is_due(port, near) {
            self.transmit(host, port, ports, near);
        }
    }

    /// Puts the next frame on the wire: a pause frame, else the first packet of the class whose turn it is. The next destination's
    /// first packet takes its place, and who waits for room gets it.
    #[inline]
    pub(crate) fn transmit(&mut self, host: HostId, port: PortId, ports: &mut Ports, near: &mut Near) {
        if ports.transmit_control(port, near) {
            return;
        }
        let eligible = ports.ports[port].eligible();
        let class =
            if near.hot.ets { ports.class_in_turn(port, eligible, near) } else { eligible.ilog2() as u8 };
        let index = ports.dequeue(port, class, near);
        let state = &mut self.hosts[host];
        state.give_room(u32::from(near.packets[index].size), near);
        if let Some(next) = state.next_in_turn(class, &near.packets) {
            ports.slots[near.hot.slot(port, class)].queue.push(&mut near.packets, next);
            ports.ports[port].ready |= 1 << class;
        }
        ports.put_on_wire(port, index, near);
        self.unblock(host, ports, near);
    }

    /// Sockets that wait for room in the NIC get it, one segment each in turn.
    #[inline]
    fn unblock(&mut self, host: HostId, ports: &mut Ports, near: &mut Near) {
        while self.hosts[host].has_room(near) {
            let Some(socket) = self.hosts[host].blocked.pop_front() else { return };
            match socket {
                Socket::Connection(place) => {
                    if self.send_one_blocked(place, ports, near) {
                        self.hosts[host].blocked.push_back(socket);
                    }
                }
                Socket::Datagrams(place) => self.send_waiting_datagram(place, ports, near),
            }
        }
    }
}

/// What comes in.
impl Endpoints {
    /// A packet is in at the NIC, whole.
    #[inline(always)]
    pub(crate) fn on_nic_receive(
        &mut self,
        host: HostId,
        port: PortId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        if near.hot.slow_receivers && self.is_buffered(host, port, index, ports, near) {
            return;
        }
        self.receive_in_stack(host, index, ports, near);
    }

    /// Whether a slow receiver has put a frame from `port` into its buffer, or dropped it.
    #[cold]
    fn is_buffered(
        &mut self,
        host: HostId,
        port: PortId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) -> bool {
        let Some(receiver) = self.receivers[host].as_mut() else { return false };
        let packet = &mut near.packets[index];
        (packet.ingress, packet.ingress_class) = (port, packet.class);
        let (class, size) = (packet.class, packet.size);
        let admitted = if near.hot.is_lossless(class) {
            self.ingress.admit(index, ports, near)
        } else if receiver.admit(u64::from(size)) {
            Ok(())
        } else {
            Err(DropReason::BufferFull)
        };
        match admitted {
            Ok(()) => receiver.take(host, index, ports.ports[port].rate.rate(), near),
            Err(reason) => ports.drop_packet(index, port.reverse(), reason, near),
        }
        true
    }

    /// A slow receiver is through with the first frame of its buffer: it goes on up the stack.
    pub(crate) fn on_host_drain(&mut self, host: HostId, ports: &mut Ports, near: &mut Near) {
        let Some(receiver) = self.receivers[host].as_mut() else { return };
        let line = ports.ports[self.hosts[host].port.reverse()].rate.rate();
        let index = receiver.drain(host, line, near);
        let packet = near.packets[index];
        let size = u64::from(packet.size);
        if near.hot.is_lossless(packet.class) {
            let class = packet.class & near.hot.account_mask;
            let slot = near.hot.slot(packet.ingress, class);
            self.ingress.give_back(slot, packet.ingress, size, near);
            if self.ingress.accounts[slot].is_low() {
                self.ingress.send_resume(packet.ingress, class, ports, near);
            }
        } else if !receiver.release(size) {
            near.plan.overdrawn("receive buffer", packet.ingress.reverse());
        }
        self.receive_in_stack(host, index, ports, near);
    }

    /// A packet enters the receive side of the stack.
    #[inline(always)]
    fn receive_in_stack(&mut self, host: HostId, index: PacketId, ports: &mut Ports, near: &mut Near) {
        if near.settings.rx_delay == Span::ZERO {
            self.deliver(index, ports, near);
            return;
        }
        let through = near.now() + near.settings.rx_delay;
        near.packets[index].at = through;
        if self.hosts[host].receiving.push(&mut near.packets, index) {
            near.schedule(through, Event::HostReceive(host));
        }
    }

    /// The receive side of the stack is through with its first packet.
    pub(crate) fn on_host_receive(&mut self, host: HostId, ports: &mut Ports, near: &mut Near) {
        let state = &mut self.hosts[host];
        let index = state.receiving.pop(&near.packets).expect("the stack has received a packet");
        if let Some(next) = state.receiving.head() {
            near.schedule(near.packets[next].at, Event::HostReceive(host));
        }
        self.deliver(index, ports, near);
    }
}

/// The limiters of QCN.
impl Endpoints {
    /// A CNM has come to the NIC of the source by `port`, or ends on the way there.
    #[cold]
    pub(crate) fn on_cnm(
        &mut self,
        host: HostId,
        port: PortId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let Content::Cnm(cnm) = near.packets[index].content else { return };
        near.packets.remove(index);
        let Cnm { sampled_class: class, to, .. } = cnm;
        ports.counters.rare(near.hot.slot(port.reverse(), class)).cnms_received += 1;
        let Some(limiters) = self.limiters.as_deref_mut() else { return };
        // It is about what goes to the other host of the flow.
        let (state, destination) = (&mut self.hosts[host], near.host_at(to ^ 1));
        let nic_queue = state.queue_for(destination, class);
        let line = ports.ports[port.reverse()].rate.rate();
        let limiter = *state.queues[nic_queue]
            .limiter
            .get_or_insert_with(|| limiters.add(LimiterId { host, nic_queue }, line, near.now()));
        limiters.on_cnm(limiter, &cnm, near);
    }

    /// The first packet of a limited flow queue may go on into the NIC.
    pub(crate) fn on_rate_release(&mut self, id: LimiterId, ports: &mut Ports, near: &mut Near) {
        let LimiterId { host, nic_queue } = id;
        let Some(limiter) = self.hosts[host].queues[nic_queue].limiter else { return };
        let released = self.limiters.as_deref_mut().and_then(|limiters| limiters.release(limiter, near));
        if let Some(index) = released {
            self.pass_to_port(host, nic_queue, index, ports, near);
            self.unblock(host, ports, near);
        }
    }

    /// A cycle of a limiter's timer is over.
    pub(crate) fn on_rate_timer(&mut self, id: LimiterId, near: &mut Near) {
        let Some(limiter) = self.hosts[id.host].queues[id.nic_queue].limiter else { return };
        if let Some(limiters) = self.limiters.as_deref_mut() {
            limiters.on_timer(limiter, near);
        }
    }
}
