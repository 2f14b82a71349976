//! A host: its stack delays, its NIC with a queue for each destination, and the sockets that wait for room.
//!
//! A socket hands over segments while the host holds less than `nic_buffer` bytes of its own (in the stack and in
//! the NIC); after that it waits its turn, one segment a socket round robin, as a qdisc with back-pressure does.

use super::limiter::LimiterNumber;
use super::node::HostNode;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{Cnm, Content, Fifo, PacketId, PacketPool};
use crate::ids::{EndpointId, NicQueueId};
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
    Connection(EndpointId),
    Datagrams(EndpointId),
    QueuePair(EndpointId),
    /// All sockets of a stack outside of the simulator.
    External,
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
    pub(super) fn has_room(&self, ctx: &Context) -> bool {
        self.held < ctx.settings.nic_buffer
    }

    /// Bytes have gone to the wire.
    #[inline]
    fn give_room(&mut self, size: u32, ctx: &Context) {
        let Some(held) = self.held.checked_sub(u64::from(size)) else {
            ctx.plan.accounting_underflow("NIC", self.port)
        };
        self.held = held;
    }
}

/// What goes out.
impl HostNode<'_> {
    /// A segment leaves its socket: through the stack to the NIC.
    #[inline(always)]
    pub(super) fn send_from(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        let state = self.host();
        state.held += u64::from(ctx.packets[index].size);
        if ctx.hot.stackless {
            self.enter_nic(nic_queue, index, ctx);
            return;
        }
        let jitter = self.stack_jitter(index, ctx);
        let is_empty = self.host().sending.is_empty();
        if ctx.settings.tx_jitter.is_auto() && ctx.settings.tx_delay + jitter == Span::ZERO && is_empty {
            self.enter_nic(nic_queue, index, ctx);
            return;
        }
        let earliest = ctx.now() + ctx.settings.tx_delay;
        let (id, state) = (self.id(), self.host());
        let through = state.through_stack(earliest, jitter);
        ctx.packets[index].at = through;
        state.bound_for.push_back(nic_queue);
        if state.sending.push(&mut ctx.packets, index) {
            ctx.schedule(through, Event::HostSend(id));
        }
    }

    /// The most by which a segment is late in the stack. Automatic jitter is for segments of lossless classes that find others in stack or
    /// NIC, while flows contend.
    fn stack_jitter(&mut self, index: PacketId, ctx: &mut Context) -> Span {
        let (now, jitter) = (ctx.now(), ctx.plan.tx_jitter);
        if !ctx.settings.tx_jitter.is_auto() {
            return jitter;
        }
        let is_behind = !self.host().sending.is_empty() || !self.ports.port(self.port).is_idle(now);
        let is_lossless = ctx.hot.is_lossless(ctx.packets[index].class);
        if is_behind && is_lossless && ctx.contention.is_on(now) { jitter } else { Span::ZERO }
    }

    /// The send side of the stack is through with its first packet.
    pub(crate) fn on_host_send(&mut self, ctx: &mut Context) {
        let (id, state) = (self.id(), self.host());
        let index = state.sending.pop(&ctx.packets).expect("the stack has a packet to send");
        if let Some(next) = state.sending.head() {
            ctx.schedule(ctx.packets[next].at, Event::HostSend(id));
        }
        let nic_queue = state.bound_for.pop_front().expect("every packet is bound for a queue");
        self.enter_nic(nic_queue, index, ctx);
        // An idle NIC has put it on the wire at once, which makes room too.
        self.unblock(ctx);
    }

    /// The NIC gets a packet: a limiter may keep it back.
    #[inline(always)]
    fn enter_nic(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        if ctx.hot.qcn
            && let Some((limiter, _)) = self.limiter(nic_queue)
            && limiter.holds(index, ctx)
        {
            return;
        }
        self.pass_to_port(nic_queue, index, ctx);
    }

    /// A packet goes on in the NIC: to the port if nothing of its class waits, else to its destination's queue.
    #[inline(always)]
    pub(super) fn pass_to_port(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        let (now, packet, port) = (ctx.now(), &ctx.packets[index], self.port);
        let (class, size) = (packet.class, packet.size);
        if self.ports.port(port).is_idle(now) {
            self.host().give_room(u32::from(size), ctx);
            self.ports.send_directly(port, index, class, ctx);
            return;
        }
        let slot = port.slot(class, &ctx.hot);
        if ctx.settings.nic_fifo || self.ports.slot(slot).queue.is_empty() {
            if self.ports.enqueue(port, slot, index, ctx) {
                self.start_transmission(ctx);
            }
            return;
        }
        ctx.packets[index].at = now;
        self.ports.slot_mut(slot).join(u64::from(size), now);
        self.host().wait_for_turn(nic_queue, class, index, &mut ctx.packets);
    }

    /// Starts the NIC, at once or when its frame in service ends, unless it is already bound to go on.
    pub(crate) fn start_transmission(&mut self, ctx: &mut Context) {
        if self.ports.schedule_or_is_due(self.port, ctx) {
            self.transmit(ctx);
        }
    }

    /// Puts the next frame on the wire: a pause frame, else the first packet of the class whose turn it is. The next destination's
    /// first packet takes its place, and who waits for room gets it.
    #[inline]
    pub(crate) fn transmit(&mut self, ctx: &mut Context) {
        let port = self.port;
        if self.ports.transmit_waiting_pause(port, ctx) {
            return;
        }
        let eligible = self.ports.port(port).eligible();
        let class =
            if ctx.hot.ets { self.ports.class_in_turn(port, eligible, ctx) } else { eligible.ilog2() as u8 };
        let index = self.ports.dequeue(port, class, ctx);
        let state = self.host();
        state.give_room(u32::from(ctx.packets[index].size), ctx);
        if let Some(next) = state.next_in_turn(class, &ctx.packets) {
            let (state, slot) = self.ports.port_and_slot(port, port.slot(class, &ctx.hot));
            slot.queue.push(&mut ctx.packets, next);
            state.ready |= 1 << class;
        }
        self.ports.put_on_wire(port, index, ctx);
        self.unblock(ctx);
    }

    /// Sockets that wait for room in the NIC get it, one segment each in turn.
    #[inline]
    pub(super) fn unblock(&mut self, ctx: &mut Context) {
        while self.host().has_room(ctx) {
            let Some(socket) = self.host().blocked.pop_front() else { return };
            match socket {
                Socket::Connection(place) => {
                    if self.send_one_blocked(place, ctx) {
                        self.host().blocked.push_back(socket);
                    }
                }
                Socket::Datagrams(place) => self.send_waiting_datagram(self.source_in(place), ctx),
                Socket::QueuePair(place) => {
                    if self.send_one_blocked_pair(place, ctx) {
                        self.host().blocked.push_back(socket);
                    }
                }
                Socket::External => {
                    self.host().blocked.push_back(socket);
                    if !self.pull_frame(ctx) {
                        return;
                    }
                }
            }
        }
    }
}

/// What comes in.
impl HostNode<'_> {
    /// A packet is in at the NIC, whole.
    #[inline(always)]
    pub(crate) fn on_nic_receive(&mut self, index: PacketId, ctx: &mut Context) {
        if ctx.hot.slow_receivers && self.is_buffered(index, ctx) {
            return;
        }
        self.receive_in_stack(index, ctx);
    }

    /// Whether a slow receiver has put a frame into its buffer, or dropped it.
    #[cold]
    fn is_buffered(&mut self, index: PacketId, ctx: &mut Context) -> bool {
        let (id, came_by) = (self.id(), self.port.reverse().id());
        let Some(receiver) = self.receiver() else { return false };
        let packet = &mut ctx.packets[index];
        (packet.ingress, packet.ingress_class) = (came_by, packet.class);
        let (class, size) = (packet.class, packet.size);
        let admitted = if ctx.hot.is_lossless(class) {
            self.ports.admit(index, ctx)
        } else if receiver.admit(u64::from(size)) {
            Ok(())
        } else {
            Err(DropReason::BufferFull)
        };
        match (admitted, self.receiver()) {
            (Ok(()), Some(receiver)) => receiver.take(id, index, ctx.plan.rate_from(came_by), ctx),
            (Err(reason), _) => self.ports.drop_packet(index, self.port, reason, ctx),
            (Ok(()), None) => unreachable!("a receiver stays slow"),
        }
        true
    }

    /// A slow receiver is through with the first frame of its buffer: it goes on up the stack.
    pub(crate) fn on_host_drain(&mut self, ctx: &mut Context) {
        let (id, line) = (self.id(), ctx.plan.rate_from(self.port.reverse().id()));
        let Some(receiver) = self.receiver() else { return };
        let index = receiver.drain(id, line, ctx);
        let packet = ctx.packets[index];
        let size = u64::from(packet.size);
        if ctx.hot.is_lossless(packet.class) {
            let class = packet.class & ctx.hot.account_mask;
            let slot = self.port.reverse().slot(class, &ctx.hot);
            self.ports.give_back(slot, size, ctx);
            if self.ports.account(slot).is_low() {
                self.ports.send_resume(slot, ctx);
            }
        } else if !receiver.release(size) {
            ctx.plan.accounting_underflow("receive buffer", packet.ingress.reverse());
        }
        self.receive_in_stack(index, ctx);
    }

    /// A packet enters the receive side of the stack.
    #[inline(always)]
    fn receive_in_stack(&mut self, index: PacketId, ctx: &mut Context) {
        if ctx.settings.rx_delay == Span::ZERO {
            self.deliver(index, ctx);
            return;
        }
        let through = ctx.now() + ctx.settings.rx_delay;
        ctx.packets[index].at = through;
        if self.host().receiving.push(&mut ctx.packets, index) {
            ctx.schedule(through, Event::HostReceive(self.id()));
        }
    }

    /// The receive side of the stack is through with its first packet.
    pub(crate) fn on_host_receive(&mut self, ctx: &mut Context) {
        let (id, state) = (self.id(), self.host());
        let index = state.receiving.pop(&ctx.packets).expect("the stack has received a packet");
        if let Some(next) = state.receiving.head() {
            ctx.schedule(ctx.packets[next].at, Event::HostReceive(id));
        }
        self.deliver(index, ctx);
    }
}

/// The limiters of QCN.
impl HostNode<'_> {
    /// A CNM has come to the NIC of the source, or ends on the way there.
    #[cold]
    pub(crate) fn on_cnm(&mut self, index: PacketId, ctx: &mut Context) {
        let Content::Cnm(cnm) = ctx.packets[index].content else { return };
        ctx.packets.remove(index);
        let Cnm { sampled_class: class, to, .. } = cnm;
        self.ports.counters(self.port.slot(class, &ctx.hot)).cnms_received += 1;
        if !ctx.hot.qcn {
            return;
        }
        // It is about what goes to the other host of the flow.
        let nic_queue = self.host().queue_for(ctx.host_at(to ^ 1), class);
        let line = self.ports.port(self.port).rate.rate();
        if let Some((limiter, settings)) = self.limiter_for(nic_queue, line, ctx) {
            limiter.on_cnm(&cnm, settings, ctx);
        }
    }

    /// The first packet of a limited flow queue may go on into the NIC.
    pub(crate) fn on_rate_release(&mut self, nic_queue: NicQueueId, ctx: &mut Context) {
        let Some((limiter, settings)) = self.limiter(nic_queue) else { return };
        if let Some(index) = limiter.release(settings, ctx) {
            self.pass_to_port(nic_queue, index, ctx);
            self.unblock(ctx);
        }
    }

    /// A cycle of a limiter's timer is over.
    pub(crate) fn on_rate_timer(&mut self, nic_queue: NicQueueId, ctx: &mut Context) {
        if let Some((limiter, settings)) = self.limiter(nic_queue) {
            limiter.on_timer(settings, ctx);
        }
    }
}
