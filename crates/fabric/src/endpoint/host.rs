//! A host: its stack delays, its NIC with a queue for each destination, and the sockets that wait for room.
//!
//! A socket hands over segments while the host holds less than `nic_buffer` bytes of its own (in the stack and in
//! the NIC); after that it waits its turn, one segment a socket round robin, as a qdisc with back-pressure does.

use super::limiter::LimiterNumber;
use super::node::HostNode;
use crate::event::Event;
use crate::frame::{Cnm, Content, Fifo, PacketId, PacketPool};
use crate::ids::{EndId, NicQueueId};
use crate::near::Near;
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

    /// The limiter of a NIC queue, if there is one.
    #[inline]
    pub(super) fn limiter_of(&self, queue: NicQueueId) -> Option<LimiterNumber> {
        self.queues[queue].limiter
    }

    /// Gives a NIC queue a limiter, unless it has one.
    pub(super) fn limit(&mut self, queue: NicQueueId, new: impl FnOnce() -> LimiterNumber) {
        self.queues[queue].limiter.get_or_insert_with(new);
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
impl HostNode<'_> {
    /// A segment leaves its socket: through the stack to the NIC.
    #[inline(always)]
    pub(super) fn send_from(&mut self, nic_queue: NicQueueId, index: PacketId, near: &mut Near) {
        let state = self.host();
        state.held += u64::from(near.packets[index].size);
        if near.hot.stackless {
            self.enter_nic(nic_queue, index, near);
            return;
        }
        let jitter = self.stack_jitter(index, near);
        let is_empty = self.host().sending.is_empty();
        if near.settings.tx_jitter.is_auto() && near.settings.tx_delay + jitter == Span::ZERO && is_empty {
            self.enter_nic(nic_queue, index, near);
            return;
        }
        let earliest = near.now() + near.settings.tx_delay;
        let (id, state) = (self.id(), self.host());
        let through = state.through_stack(earliest, jitter);
        near.packets[index].at = through;
        state.bound_for.push_back(nic_queue);
        if state.sending.push(&mut near.packets, index) {
            near.schedule(through, Event::HostSend(id));
        }
    }

    /// The most by which a segment is late in the stack. Automatic jitter is for segments of lossless classes that find others in stack or
    /// NIC, while flows contend.
    fn stack_jitter(&mut self, index: PacketId, near: &mut Near) -> Span {
        let (now, jitter) = (near.now(), near.plan.tx_jitter);
        if !near.settings.tx_jitter.is_auto() {
            return jitter;
        }
        let is_behind = !self.host().sending.is_empty() || !self.ports.port(self.port).is_idle(now);
        let is_lossless = near.hot.is_lossless(near.packets[index].class);
        if is_behind && is_lossless && near.contention.is_on(now) { jitter } else { Span::ZERO }
    }

    /// The send side of the stack is through with its first packet.
    pub(crate) fn on_host_send(&mut self, near: &mut Near) {
        let (id, state) = (self.id(), self.host());
        let index = state.sending.pop(&near.packets).expect("the stack has a packet to send");
        if let Some(next) = state.sending.head() {
            near.schedule(near.packets[next].at, Event::HostSend(id));
        }
        let nic_queue = state.bound_for.pop_front().expect("every packet is bound for a queue");
        self.enter_nic(nic_queue, index, near);
        // An idle NIC has put it on the wire at once, which makes room too.
        self.unblock(near);
    }

    /// The NIC gets a packet: a limiter may keep it back.
    #[inline(always)]
    fn enter_nic(&mut self, nic_queue: NicQueueId, index: PacketId, near: &mut Near) {
        if near.hot.qcn
            && let Some((limiter, _)) = self.limiter(nic_queue)
            && limiter.holds(index, near)
        {
            return;
        }
        self.pass_to_port(nic_queue, index, near);
    }

    /// A packet goes on in the NIC: to the port if nothing of its class waits, else to its destination's queue.
    #[inline(always)]
    fn pass_to_port(&mut self, nic_queue: NicQueueId, index: PacketId, near: &mut Near) {
        let (now, packet, port) = (near.now(), &near.packets[index], self.port);
        let (class, size) = (packet.class, packet.size);
        if self.ports.port(port).is_idle(now) {
            self.host().give_room(u32::from(size), near);
            self.ports.send_at_once(port, index, class, near);
            return;
        }
        let slot = port.slot(class, &near.hot);
        if near.settings.nic_fifo || self.ports.slot(slot).queue.is_empty() {
            if self.ports.enqueue(port, slot, index, near) {
                self.kick(near);
            }
            return;
        }
        near.packets[index].at = now;
        self.ports.slot_mut(slot).join(u64::from(size), now);
        self.host().wait_for_turn(nic_queue, class, index, &mut near.packets);
    }

    /// Starts the NIC, at once or when its frame in service ends, unless it is already bound to go on.
    pub(crate) fn kick(&mut self, near: &mut Near) {
        if self.ports.is_due(self.port, near) {
            self.transmit(near);
        }
    }

    /// Puts the next frame on the wire: a pause frame, else the first packet of the class whose turn it is. The next destination's
    /// first packet takes its place, and who waits for room gets it.
    #[inline]
    pub(crate) fn transmit(&mut self, near: &mut Near) {
        let port = self.port;
        if self.ports.transmit_control(port, near) {
            return;
        }
        let eligible = self.ports.port(port).eligible();
        let class = if near.hot.ets {
            self.ports.class_in_turn(port, eligible, near)
        } else {
            eligible.ilog2() as u8
        };
        let index = self.ports.dequeue(port, class, near);
        let state = self.host();
        state.give_room(u32::from(near.packets[index].size), near);
        if let Some(next) = state.next_in_turn(class, &near.packets) {
            let (state, slot) = self.ports.port_and_slot(port, port.slot(class, &near.hot));
            slot.queue.push(&mut near.packets, next);
            state.ready |= 1 << class;
        }
        self.ports.put_on_wire(port, index, near);
        self.unblock(near);
    }

    /// Sockets that wait for room in the NIC get it, one segment each in turn.
    #[inline]
    fn unblock(&mut self, near: &mut Near) {
        while self.host().has_room(near) {
            let Some(socket) = self.host().blocked.pop_front() else { return };
            match socket {
                Socket::Connection(place) => {
                    if self.send_one_blocked(place, near) {
                        self.host().blocked.push_back(socket);
                    }
                }
                Socket::Datagrams(place) => self.send_waiting_datagram(self.source_in(place), near),
            }
        }
    }
}

/// What comes in.
impl HostNode<'_> {
    /// A packet is in at the NIC, whole.
    #[inline(always)]
    pub(crate) fn on_nic_receive(&mut self, index: PacketId, near: &mut Near) {
        if near.hot.slow_receivers && self.is_buffered(index, near) {
            return;
        }
        self.receive_in_stack(index, near);
    }

    /// Whether a slow receiver has put a frame into its buffer, or dropped it.
    #[cold]
    fn is_buffered(&mut self, index: PacketId, near: &mut Near) -> bool {
        let (id, came_by) = (self.id(), self.port.reverse().id());
        let Some(receiver) = self.receiver() else { return false };
        let packet = &mut near.packets[index];
        (packet.ingress, packet.ingress_class) = (came_by, packet.class);
        let (class, size) = (packet.class, packet.size);
        let admitted = if near.hot.is_lossless(class) {
            self.ports.admit(index, near)
        } else if receiver.admit(u64::from(size)) {
            Ok(())
        } else {
            Err(DropReason::BufferFull)
        };
        match (admitted, self.receiver()) {
            (Ok(()), Some(receiver)) => receiver.take(id, index, near.plan.rate_from(came_by), near),
            (Err(reason), _) => self.ports.drop_packet(index, self.port, reason, near),
            (Ok(()), None) => unreachable!("a receiver stays slow"),
        }
        true
    }

    /// A slow receiver is through with the first frame of its buffer: it goes on up the stack.
    pub(crate) fn on_host_drain(&mut self, near: &mut Near) {
        let (id, line) = (self.id(), near.plan.rate_from(self.port.reverse().id()));
        let Some(receiver) = self.receiver() else { return };
        let index = receiver.drain(id, line, near);
        let packet = near.packets[index];
        let size = u64::from(packet.size);
        if near.hot.is_lossless(packet.class) {
            let class = packet.class & near.hot.account_mask;
            let slot = self.port.reverse().slot(class, &near.hot);
            self.ports.give_back(slot, size, near);
            if self.ports.account(slot).is_low() {
                self.ports.send_resume(slot, near);
            }
        } else if !receiver.release(size) {
            near.plan.overdrawn("receive buffer", packet.ingress.reverse());
        }
        self.receive_in_stack(index, near);
    }

    /// A packet enters the receive side of the stack.
    #[inline(always)]
    fn receive_in_stack(&mut self, index: PacketId, near: &mut Near) {
        if near.settings.rx_delay == Span::ZERO {
            self.deliver(index, near);
            return;
        }
        let through = near.now() + near.settings.rx_delay;
        near.packets[index].at = through;
        if self.host().receiving.push(&mut near.packets, index) {
            near.schedule(through, Event::HostReceive(self.id()));
        }
    }

    /// The receive side of the stack is through with its first packet.
    pub(crate) fn on_host_receive(&mut self, near: &mut Near) {
        let (id, state) = (self.id(), self.host());
        let index = state.receiving.pop(&near.packets).expect("the stack has received a packet");
        if let Some(next) = state.receiving.head() {
            near.schedule(near.packets[next].at, Event::HostReceive(id));
        }
        self.deliver(index, near);
    }
}

/// The limiters of QCN.
impl HostNode<'_> {
    /// A CNM has come to the NIC of the source, or ends on the way there.
    #[cold]
    pub(crate) fn on_cnm(&mut self, index: PacketId, near: &mut Near) {
        let Content::Cnm(cnm) = near.packets[index].content else { return };
        near.packets.remove(index);
        let Cnm { sampled_class: class, to, .. } = cnm;
        self.ports.counters(self.port.slot(class, &near.hot)).cnms_received += 1;
        if !near.hot.qcn {
            return;
        }
        // It is about what goes to the other host of the flow.
        let nic_queue = self.host().queue_for(near.host_at(to ^ 1), class);
        let line = self.ports.port(self.port).rate.rate();
        if let Some((limiter, settings)) = self.limiter_for(nic_queue, line, near) {
            limiter.on_cnm(&cnm, settings, near);
        }
    }

    /// The first packet of a limited flow queue may go on into the NIC.
    pub(crate) fn on_rate_release(&mut self, nic_queue: NicQueueId, near: &mut Near) {
        let Some((limiter, settings)) = self.limiter(nic_queue) else { return };
        if let Some(index) = limiter.release(settings, near) {
            self.pass_to_port(nic_queue, index, near);
            self.unblock(near);
        }
    }

    /// A cycle of a limiter's timer is over.
    pub(crate) fn on_rate_timer(&mut self, nic_queue: NicQueueId, near: &mut Near) {
        if let Some((limiter, settings)) = self.limiter(nic_queue) {
            limiter.on_timer(settings, near);
        }
    }
}
