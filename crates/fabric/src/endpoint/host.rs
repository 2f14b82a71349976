//! A host: stack delays, a NIC that serves queues round robin in front of a short ring, and sockets that wait for room.
//!
//! The ring is the egress queue of the port. With a queue for each flow, a socket passes segments down while its queue holds less than its share
//! (TCP small queues), whatever other sockets do. With a queue for each destination or a single one, sockets share `nic_buffer` bytes; once they
//! are full, sockets send one segment each in round robin, as under a qdisc with back-pressure.

use super::limiter::LimiterIndex;
use super::nic_limits::NicLimits;
use super::node::BorrowedHost;
use super::qdisc::HostQdisc;
use super::several_ports::WayOut;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{Cnm, FrameContent, PacketFifo, PacketId, PacketPool};
use crate::hot::PrefetchDistance;
use crate::ids::{EndpointId, NicQueueId};
use crate::settings::NicQueue;
use crate::wire::counters::DropReason;
use pauseframe_engine::Rng;
use pauseframe_engine::memory::{prefetch_all_lines, prefetch_first_line};
use pauseframe_rdma::CnpLimiter;
use pauseframe_units::{IndexVec, NodeId, PortId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) port: PortId,
    /// Bytes in the stack's send side and in the NIC, without the ring if each flow has a queue.
    pub(crate) held: u64,
    limits: NicLimits,
    /// Packets in the receive and send sides of the stack. Each side has a constant delay, so packets keep their order.
    pub(crate) receiving: PacketFifo,
    pub(crate) sending: PacketFifo,
    /// The NIC queues of the packets in `sending`, in the same order.
    bound_for: VecDeque<NicQueueId>,
    queues: IndexVec<NicQueueId, HostQueue>,
    free_queues: Vec<NicQueueId>,
    /// By endpoint key or destination, and class.
    queue_of: BTreeMap<(u32, u8), NicQueueId>,
    /// By class. Empty until a packet first had to wait.
    turns: Vec<ClassTurns>,
    /// Sockets that may send: all that found the NIC buffer full, or those whose own queue has room again.
    blocked: VecDeque<BlockedSocket>,
    /// When the last segment leaves the stack.
    last_through: Time,
    /// The last segment is a frame of a super-packet that has more: they leave the stack with it.
    pub(super) has_more_frames: bool,
    /// CNPs of all queue pairs of the port.
    pub(super) cnp_limiter: CnpLimiter,
    jitter: Rng,
}

/// A socket that waits for NIC buffer space.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockedSocket {
    Endpoint(EndpointId),
    /// All sockets of a stack outside of the simulator.
    External,
}

/// Packets in a NIC of one flow or for one destination, and of one class.
#[derive(Debug)]
struct HostQueue {
    packets: PacketFifo,
    /// Its QCN rate limiter, created by the first CNM.
    limiter: Option<LimiterIndex>,
    /// Of a flow: its bytes in the stack and here.
    held: u64,
    /// Of a flow: its share when a packet last asked for room beyond two frames.
    share: u64,
    /// The socket of the flow, if it waits for room here.
    blocked: Option<BlockedSocket>,
    /// The flow is over: nobody else gets the queue before it is empty.
    is_closed: bool,
    /// Of a flow: it is in a list of turns.
    in_line: bool,
}

impl HostQueue {
    const EMPTY: HostQueue = HostQueue {
        packets: PacketFifo::EMPTY,
        limiter: None,
        held: 0,
        share: 0,
        blocked: None,
        is_closed: false,
        in_line: false,
    };
}

/// The queues of a class in round-robin order, and the bytes in its ring if the NIC bounds those.
#[derive(Debug, Default)]
pub(super) struct ClassTurns {
    /// Flows that had nothing to send for a round: they go first, once (`new_flows` of `fq_codel_dequeue`).
    new: VecDeque<NicQueueId>,
    queues: VecDeque<NicQueueId>,
    ring: u64,
    /// CoDel in place of the turns, once a packet had to wait.
    pub(super) qdisc: Option<Box<HostQdisc>>,
}

impl Host {
    pub(super) fn new(port: PortId, limits: NicLimits, jitter: Rng) -> Host {
        Host {
            port,
            held: 0,
            limits,
            receiving: PacketFifo::EMPTY,
            sending: PacketFifo::EMPTY,
            bound_for: VecDeque::new(),
            queues: IndexVec::new(),
            free_queues: Vec::new(),
            queue_of: BTreeMap::new(),
            turns: Vec::new(),
            blocked: VecDeque::new(),
            last_through: Time::ZERO,
            has_more_frames: false,
            cnp_limiter: CnpLimiter::default(),
            jitter,
        }
    }

    /// The NIC queue of a flow's end, or of its destination, in `class`; created on first use.
    pub(super) fn nic_queue_for(&mut self, endpoint_key: u32, destination: NodeId, class: u8) -> NicQueueId {
        let owner = if self.limits.per_flow { endpoint_key } else { destination.0 };
        let (queues, free) = (&mut self.queues, &mut self.free_queues);
        *self
            .queue_of
            .entry((owner, class))
            .or_insert_with(|| free.pop().unwrap_or_else(|| queues.push(HostQueue::EMPTY)))
    }

    /// Gives back the queues of a flow's end once they are empty.
    pub(super) fn close_flow_queues(&mut self, endpoint_key: u32) {
        if !self.limits.per_flow {
            return;
        }
        let range = (endpoint_key, 0)..=(endpoint_key, u8::MAX);
        while let Some((&key, &queue)) = self.queue_of.range(range.clone()).next() {
            self.queue_of.remove(&key);
            self.queues[queue].is_closed = true;
            self.free_if_over(queue);
        }
    }

    fn free_if_over(&mut self, queue: NicQueueId) {
        let state = &mut self.queues[queue];
        if state.is_closed && state.held == 0 && !state.in_line {
            *state = HostQueue::EMPTY;
            self.free_queues.push(queue);
        }
    }

    /// The rate limiter of traffic to `destination` in `class`, if one exists.
    pub(super) fn find_limiter(&self, destination: NodeId, class: u8) -> Option<LimiterIndex> {
        self.queues[*self.queue_of.get(&(destination.0, class))?].limiter
    }

    /// The rate limiter of a NIC queue, if one exists.
    #[inline]
    pub(super) fn limiter_of_queue(&self, queue: NicQueueId) -> Option<LimiterIndex> {
        self.queues[queue].limiter
    }

    /// Attaches a rate limiter to a NIC queue that has none.
    pub(super) fn attach_limiter(&mut self, queue: NicQueueId, new: impl FnOnce() -> LimiterIndex) {
        self.queues[queue].limiter.get_or_insert_with(new);
    }

    /// The queues of flows or destinations: packets in the NIC behind the ring.
    pub(crate) fn nic_fifos(&self) -> impl Iterator<Item = PacketFifo> {
        let of_qdiscs =
            self.turns.iter().filter_map(|turns| turns.qdisc.as_deref()).flat_map(HostQdisc::fifos);
        self.queues.iter().map(|queue| queue.packets).chain(of_qdiscs)
    }

    /// Bytes that the queues of flows count as held; `None` if flows have none.
    pub(crate) fn flow_queue_bytes(&self) -> Option<u64> {
        self.limits.per_flow.then(|| self.queues.iter().map(|queue| queue.held).sum())
    }

    pub(super) fn class_turns(&mut self, class: u8) -> &mut ClassTurns {
        let class = usize::from(class);
        if self.turns.len() <= class {
            self.turns.resize_with(class + 1, ClassTurns::default);
        }
        &mut self.turns[class]
    }

    /// Whether the ring of a class takes more; `is_empty`: whether it holds nothing.
    #[inline(always)]
    pub(super) fn has_ring_space(&self, class: u8, is_empty: bool) -> bool {
        is_empty
            || self.limits.ring > 0
                && self.turns.get(usize::from(class)).is_some_and(|turns| turns.ring <= self.limits.ring)
    }

    /// Counts a packet that enters the ring from its queue.
    #[inline(always)]
    pub(super) fn enter_ring(&mut self, queue: NicQueueId, class: u8, size: u32, ctx: &Context) {
        if self.limits.per_flow {
            self.leave_queue(queue, size, ctx);
            if self.limits.ring > 0 {
                self.class_turns(class).ring += u64::from(size);
            }
        }
    }

    /// Counts a packet that leaves the ring for the wire.
    #[inline(always)]
    fn leave_ring(&mut self, class: u8, size: u32, ctx: &Context) {
        if !self.limits.per_flow {
            self.release_buffer(size, ctx);
        } else if self.limits.ring > 0 {
            self.class_turns(class).ring -= u64::from(size);
        }
    }

    /// The queue of `class` that has the next turn. A flow's queue that has stayed empty for a round leaves the line.
    #[inline(always)]
    fn first_turn(&mut self, class: u8) -> Option<NicQueueId> {
        loop {
            let turns = self.turns.get_mut(usize::from(class))?;
            let queue = *turns.new.front().or_else(|| turns.queues.front())?;
            if !self.queues[queue].packets.is_empty() {
                return Some(queue);
            }
            turns.new.pop_front().or_else(|| turns.queues.pop_front());
            self.queues[queue].in_line = false;
            self.free_if_over(queue);
        }
    }

    /// Ends the turn of the first queue of `class`: it lines up again, and its socket may send if it waits and has room.
    #[inline(always)]
    fn end_turn(&mut self, class: u8) {
        let turns = &mut self.turns[usize::from(class)];
        let Some(queue) = turns.new.pop_front().or_else(|| turns.queues.pop_front()) else { return };
        // A flow's queue that is empty now lines up too, so that it does not count as new within the round.
        if self.limits.per_flow || !self.queues[queue].packets.is_empty() {
            turns.queues.push_back(queue);
        }
        self.wake_or_free(queue);
    }

    /// Appends a packet to its NIC queue.
    fn enqueue(&mut self, nic_queue: NicQueueId, class: u8, index: PacketId, pool: &mut PacketPool) {
        let per_flow = self.limits.per_flow;
        let state = &mut self.queues[nic_queue];
        let was_empty = state.packets.push_back(pool, index);
        if per_flow && !std::mem::replace(&mut state.in_line, true) {
            self.class_turns(class).new.push_back(nic_queue);
        } else if !per_flow && was_empty {
            self.class_turns(class).queues.push_back(nic_queue);
        }
    }

    /// When a segment leaves the stack: at `earliest` plus up to `jitter`, never before the segment ahead. The stack handles a super-packet once.
    fn assign_stack_exit(&mut self, earliest: Time, jitter: Span) -> Time {
        let is_drawn = jitter > Span::ZERO && !self.has_more_frames;
        let late = if is_drawn { Span(self.jitter.uniform_below(jitter.0 + 1)) } else { Span::ZERO };
        self.last_through = self.last_through.max(earliest + late);
        self.last_through
    }

    /// Puts a packet into the send side of the stack; returns when the side is done with it, if it was empty.
    pub(super) fn enter_stack(
        &mut self,
        nic_queue: NicQueueId,
        index: PacketId,
        (earliest, jitter): (Time, Span),
        pool: &mut PacketPool,
    ) -> Option<Time> {
        let through = self.assign_stack_exit(earliest, jitter);
        pool[index].at = through;
        self.bound_for.push_back(nic_queue);
        self.sending.push_back(pool, index).then_some(through)
    }

    /// Appends a socket that found no room to the round robin, or to its own queue.
    pub(super) fn append_blocked(&mut self, queue: NicQueueId, socket: BlockedSocket) {
        if self.limits.per_flow {
            self.queues[queue].blocked = Some(socket);
        } else {
            self.blocked.push_back(socket);
        }
    }

    /// Removes a socket that is `gone` from where it waits.
    pub(super) fn forget_socket(&mut self, gone: impl Fn(&BlockedSocket) -> bool) {
        self.blocked.retain(|socket| !gone(socket));
        for queue in &mut self.queues {
            queue.blocked = queue.blocked.take().filter(|socket| !gone(socket));
        }
    }

    /// A stack outside of the simulator stays in the round robin.
    pub(super) fn append_external_stack(&mut self) {
        self.blocked.push_back(BlockedSocket::External);
    }

    /// The first blocked socket, for prefetching.
    #[inline]
    pub(super) fn first_blocked(&self) -> Option<BlockedSocket> {
        if !self.limits.per_flow {
            return self.blocked.front().copied();
        }
        let next = self.turns.iter().rev().find_map(|turns| turns.new.front().or(turns.queues.front()))?;
        self.queues[*next].blocked
    }

    /// Prefetches the queue of the third turn of `class` from now, and the packet of the second; returns the sockets of the first two.
    pub(super) fn prefetch_turns(
        &self,
        class: u8,
        packets: &PacketPool,
    ) -> Option<[Option<BlockedSocket>; 2]> {
        let turns = &self.turns.get(usize::from(class))?.queues;
        let queue = |turn: usize| self.queues.get(*turns.get(turn)?);
        prefetch_all_lines(queue(2));
        let (first, second) = (queue(0)?, queue(1)?);
        prefetch_first_line(packets.get(second.packets.head_or_none()));
        Some([first.blocked, second.blocked])
    }

    /// Whether a socket may pass a segment to `queue`. `share` gives the bytes that a flow may hold there, at least two frames or super-packets.
    #[inline(always)]
    pub(super) fn has_room(&mut self, queue: NicQueueId, ctx: &Context, share: impl FnOnce() -> u64) -> bool {
        if !self.limits.per_flow {
            return self.has_buffer_space(ctx);
        }
        if self.held < self.limits.always {
            return true;
        }
        let NicLimits { always, most, in_stack, .. } = self.limits;
        let state = &mut self.queues[queue];
        if state.held < always {
            return true;
        }
        state.share = share().max(always).min(most).saturating_add(in_stack);
        state.held < state.share
    }

    /// Whether the buffer that sockets share has space; flows with queues never wait for it.
    #[inline]
    fn has_buffer_space(&self, ctx: &Context) -> bool {
        self.limits.per_flow || self.held < ctx.settings.nic_buffer
    }

    /// Counts a packet that comes from its socket.
    #[inline(always)]
    pub(super) fn hold(&mut self, queue: NicQueueId, size: u16) {
        self.held += u64::from(size);
        if self.limits.per_flow {
            self.queues[queue].held += u64::from(size);
        }
    }

    /// Releases the buffer space of a packet.
    #[inline(always)]
    fn release_buffer(&mut self, size: u32, ctx: &Context) {
        let Some(held) = self.held.checked_sub(u64::from(size)) else {
            ctx.plan.panic_account_underflow("NIC", self.port)
        };
        self.held = held;
    }

    /// The same, and that of its flow's queue, if flows have one.
    #[inline(always)]
    pub(super) fn leave_queue(&mut self, queue: NicQueueId, size: u32, ctx: &Context) {
        self.release_buffer(size, ctx);
        if self.limits.per_flow {
            let Some(held) = self.queues[queue].held.checked_sub(u64::from(size)) else {
                ctx.plan.panic_account_underflow("NIC queue", self.port)
            };
            self.queues[queue].held = held;
        }
    }

    /// Packets have left a queue: its socket may send again, or it is over. Queues of destinations have neither.
    #[inline(always)]
    pub(super) fn wake_or_free(&mut self, queue: NicQueueId) {
        let state = &mut self.queues[queue];
        if state.held < state.share
            && let Some(socket) = state.blocked.take()
        {
            self.blocked.push_back(socket);
        }
        if state.is_closed {
            self.free_if_over(queue);
        }
    }
}

/// The send path.
impl BorrowedHost<'_> {
    /// Sends a segment from its socket through the stack to the NIC.
    #[inline(always)]
    pub(super) fn send_through_stack(&mut self, way: WayOut, index: PacketId, ctx: &mut Context) {
        if way.host != self.host_id() {
            self.send_by_other_port(way, index, ctx);
            return;
        }
        let nic_queue = way.nic_queue;
        let packet = &ctx.packets[index];
        let (class, size) = (packet.class, packet.size);
        if ctx.hot.stackless && !ctx.hot.qcn && self.ports.port_state(self.port).is_idle(ctx.now()) {
            self.ports.transmit_unqueued(self.port, index, class, ctx);
            return;
        }
        self.host_mut().hold(nic_queue, size);
        if ctx.hot.stackless {
            self.pass_to_nic(nic_queue, index, ctx);
            return;
        }
        let earliest = ctx.now() + ctx.settings.tx_delay;
        let (id, jitter) = (self.host_id(), ctx.settings.tx_jitter);
        let entered = self.host_mut().enter_stack(nic_queue, index, (earliest, jitter), &mut ctx.packets);
        if let Some(through) = entered {
            ctx.schedule_event(through, Event::HostSend(id));
        }
    }

    /// The send side of the stack has processed its first packet.
    pub(crate) fn on_tx_stack_done(&mut self, ctx: &mut Context) {
        let (id, state) = (self.host_id(), self.host_mut());
        let index = state.sending.pop_front(&ctx.packets).expect("the stack has a packet to send");
        if let Some(next) = state.sending.head() {
            ctx.schedule_event(ctx.packets[next].at, Event::HostSend(id));
        }
        let nic_queue = state.bound_for.pop_front().expect("every packet is bound for a queue");
        self.pass_to_nic(nic_queue, index, ctx);
        // An idle NIC has already sent it, which also freed buffer space.
        self.unblock_sockets(ctx);
    }

    /// Passes a packet to the NIC, where a rate limiter may hold it.
    #[inline(always)]
    fn pass_to_nic(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        if ctx.hot.qcn
            && let Some((limiter, _)) = self.find_limiter_mut(nic_queue)
            && limiter.hold_if_limited(index, ctx)
        {
            return;
        }
        self.transmit_or_enqueue(nic_queue, index, ctx);
    }

    /// Sends a packet at once if the NIC is idle; else it enters the ring, or waits for its turn in its queue.
    #[inline(always)]
    pub(super) fn transmit_or_enqueue(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        let (now, packet, port) = (ctx.now(), &ctx.packets[index], self.port);
        let (class, size) = (packet.class, packet.size);
        if self.ports.port_state(port).is_idle(now) {
            let state = self.host_mut();
            state.leave_queue(nic_queue, u32::from(size), ctx);
            state.wake_or_free(nic_queue);
            self.ports.transmit_unqueued(port, index, class, ctx);
            return;
        }
        let slot = port.egress_token(class, &ctx.hot);
        let is_empty = self.ports.egress_queue(slot).queue.is_empty();
        if ctx.settings.nic_queue == NicQueue::Fifo || self.host_mut().has_ring_space(class, is_empty) {
            let state = self.host_mut();
            state.enter_ring(nic_queue, class, u32::from(size), ctx);
            state.wake_or_free(nic_queue);
            if self.ports.enqueue_packet(port, slot, index, ctx) {
                self.start_or_schedule(ctx);
            }
            return;
        }
        if ctx.settings.nic_queue.discipline().is_some() {
            self.enqueue_in_qdisc(nic_queue, (class, slot), index, ctx);
            return;
        }
        ctx.packets[index].at = now;
        self.ports.egress_queue_mut(slot).add_to_backlog(u64::from(size), now);
        self.host_mut().enqueue(nic_queue, class, index, &mut ctx.packets);
    }

    /// Moves one turn after the other into the ring of `class` while it takes more.
    #[inline(always)]
    fn refill_ring(&mut self, class: u8, ctx: &mut Context) {
        if ctx.settings.nic_queue.discipline().is_some() {
            self.refill_from_qdisc(class, ctx);
            return;
        }
        let port = self.port;
        let slot = port.egress_token(class, &ctx.hot);
        while let Some(queue) = self.host_mut().first_turn(class) {
            let is_empty = self.ports.egress_queue(slot).queue.is_empty();
            let state = self.host_mut();
            if !state.has_ring_space(class, is_empty) {
                return;
            }
            let mut left = state.limits.turn;
            while left > 0
                && let Some(index) = self.host_mut().queues[queue].packets.pop_front(&ctx.packets)
            {
                let size = u32::from(ctx.packets[index].size);
                left = left.saturating_sub(u64::from(size));
                self.host_mut().enter_ring(queue, class, size, ctx);
                let (state, slot) = self.ports.port_and_queue(port, slot);
                slot.queue.push_back(&mut ctx.packets, index);
                state.ready |= 1 << class;
            }
            self.host_mut().end_turn(class);
            if ctx.hot.prefetch != PrefetchDistance::None {
                self.prefetch_next_turns(class, &ctx.packets);
            }
        }
    }

    /// Starts the NIC now or after the frame in service, unless a transmission is already scheduled.
    pub(crate) fn start_or_schedule(&mut self, ctx: &mut Context) {
        if self.ports.is_idle_else_schedule(self.port, ctx) {
            self.transmit_next(ctx);
        }
    }

    /// Sends the next frame: a waiting pause frame, else the first packet of the scheduled class. The next turn refills the ring, and blocked
    /// sockets get the freed space.
    #[inline]
    pub(crate) fn transmit_next(&mut self, ctx: &mut Context) {
        let port = self.port;
        if self.ports.transmit_pause_frame(port, ctx) {
            return;
        }
        let eligible = self.ports.port_state(port).eligible_classes();
        let class = if ctx.hot.ets {
            self.ports.choose_ets_class(port, eligible, ctx)
        } else {
            eligible.ilog2() as u8
        };
        let index = self.ports.dequeue_first(port, class, ctx);
        let size = u32::from(ctx.packets[index].size);
        self.host_mut().leave_ring(class, size, ctx);
        self.refill_ring(class, ctx);
        self.ports.put_on_wire(port, index, ctx);
        self.unblock_sockets(ctx);
    }

    /// Lets blocked sockets send one segment each in turn while there is buffer space, or, with a queue for each flow, all that their queues have room for.
    #[inline]
    pub(super) fn unblock_sockets(&mut self, ctx: &mut Context) {
        while self.host_mut().has_buffer_space(ctx) {
            let Some(socket) = self.host_mut().blocked.pop_front() else { return };
            match socket {
                BlockedSocket::Endpoint(place) => {
                    if self.send_in_turn(place, ctx) {
                        self.host_mut().blocked.push_back(socket);
                    }
                }
                BlockedSocket::External => {
                    self.host_mut().blocked.push_back(socket);
                    if !self.send_external_frame(ctx) {
                        return;
                    }
                }
            }
        }
    }
}

/// The receive path.
impl BorrowedHost<'_> {
    /// A packet has completely arrived at the NIC.
    #[inline(always)]
    pub(crate) fn on_nic_receive(&mut self, index: PacketId, ctx: &mut Context) {
        if ctx.hot.meters_inputs {
            self.meter_input(index, ctx);
        }
        if ctx.hot.slow_receivers && self.enqueue_if_slow(index, ctx) {
            return;
        }
        self.enter_rx_stack(index, ctx);
    }

    /// Puts a frame into the buffer of a slow receiver or drops it; false if the host is not slow.
    #[cold]
    fn enqueue_if_slow(&mut self, index: PacketId, ctx: &mut Context) -> bool {
        let (id, came_by) = (self.receiver_id(), self.port.peer_port_id());
        let Some(receiver) = self.slow_receiver_mut() else { return false };
        let packet = &mut ctx.packets[index];
        (packet.ingress, packet.ingress_class) = (came_by, packet.class);
        let (class, size) = (packet.class, packet.size);
        let admitted = if ctx.hot.is_lossless(class) {
            self.ports.admit_fixed_ingress(index, ctx)
        } else if receiver.reserve_lossy(u64::from(size)) {
            Ok(())
        } else {
            Err(DropReason::BufferFull)
        };
        match (admitted, self.slow_receiver_mut()) {
            (Ok(()), Some(receiver)) => {
                receiver.enqueue(id, index, ctx.plan.link_rate(came_by), ctx);
            }
            (Err(reason), _) => self.ports.drop_packet(index, self.port, reason, ctx),
            (Ok(()), None) => unreachable!("a receiver stays slow"),
        }
        true
    }

    /// A slow receiver has drained the first frame of its buffer, which goes up the stack.
    pub(crate) fn on_frame_drained(&mut self, ctx: &mut Context) {
        let (id, line) = (self.receiver_id(), ctx.plan.link_rate(self.port.peer_port_id()));
        let Some(receiver) = self.slow_receiver_mut() else { return };
        let index = receiver.dequeue_drained(id, line, ctx);
        let packet = ctx.packets[index];
        let size = u64::from(packet.size);
        if ctx.hot.is_lossless(packet.class) {
            let class = packet.class & ctx.hot.account_mask;
            let slot = self.port.ingress_token(class, &ctx.hot);
            self.ports.release_ingress(slot, size, ctx);
            if self.ports.ingress_account(slot).may_resume() {
                self.ports.send_resume_frame(slot, ctx);
            }
        } else if !receiver.release_lossy(size) {
            ctx.plan.panic_account_underflow("receive buffer", packet.ingress.reverse());
        }
        self.enter_rx_stack(index, ctx);
    }

    /// A packet enters the receive side of the stack.
    #[inline(always)]
    fn enter_rx_stack(&mut self, index: PacketId, ctx: &mut Context) {
        if ctx.settings.rx_delay == Span::ZERO {
            self.deliver_packet(index, ctx);
            return;
        }
        let through = ctx.now() + ctx.settings.rx_delay;
        ctx.packets[index].at = through;
        if self.host_mut().receiving.push_back(&mut ctx.packets, index) {
            ctx.schedule_event(through, Event::HostReceive(self.host_id()));
        }
    }

    /// The receive side of the stack has processed its first packet.
    pub(crate) fn on_rx_stack_done(&mut self, ctx: &mut Context) {
        let (id, state) = (self.host_id(), self.host_mut());
        let index = state.receiving.pop_front(&ctx.packets).expect("the stack has received a packet");
        if let Some(next) = state.receiving.head() {
            ctx.schedule_event(ctx.packets[next].at, Event::HostReceive(id));
        }
        self.deliver_packet(index, ctx);
    }

    /// Passes a packet from the stack to the protocol that it belongs to.
    #[inline]
    pub(crate) fn deliver_packet(&mut self, index: PacketId, ctx: &mut Context) {
        if ctx.hot.several_ports && self.is_for_other_port(index, ctx) {
            ctx.handed_over = Some(index);
            return;
        }
        match ctx.packets[index].content {
            FrameContent::Segment(carried) => self.deliver_segment(index, &carried, ctx),
            FrameContent::Datagram { to, len, ecn } => {
                ctx.packets.remove(index);
                self.deliver_datagram(to, len, ecn, ctx);
            }
            FrameContent::Rdma(frame) => self.deliver_rdma_packet(index, &frame, ctx),
            FrameContent::Foreign { bytes, ecn, .. } => {
                self.deliver_external_frame(index, bytes, ecn, ctx);
            }
            _ => unreachable!("what is no packet of a flow goes another way"),
        }
    }
}

/// QCN rate limiters.
impl BorrowedHost<'_> {
    /// A CNM has arrived at the NIC of the source.
    #[cold]
    pub(crate) fn on_cnm(&mut self, index: PacketId, ctx: &mut Context) {
        let FrameContent::Cnm(cnm) = ctx.packets[index].content else { return };
        ctx.packets.remove(index);
        let Cnm { sampled_class: class, to, .. } = cnm;
        self.ports.rare_counters_mut(self.port.egress_token(class, &ctx.hot)).cnms_received += 1;
        if !ctx.hot.qcn {
            return;
        }
        // The CNM concerns traffic to the other host of the flow.
        let nic_queue = self.host_mut().nic_queue_for(to, ctx.endpoint_host(to ^ 1), class);
        let line = self.ports.port_state(self.port).rate.rate();
        if let Some((limiter, settings)) = self.find_or_create_limiter(nic_queue, line, ctx) {
            limiter.on_cnm(&cnm, settings, ctx);
        }
    }

    /// The first packet of a rate-limited flow queue may enter the NIC.
    pub(crate) fn on_limiter_release(&mut self, nic_queue: NicQueueId, ctx: &mut Context) {
        let Some((limiter, settings)) = self.find_limiter_mut(nic_queue) else { return };
        if let Some(index) = limiter.release_if_due(settings, ctx) {
            self.transmit_or_enqueue(nic_queue, index, ctx);
            self.unblock_sockets(ctx);
        }
    }

    /// A timer cycle of a rate limiter has ended.
    pub(crate) fn on_limiter_timer(&mut self, nic_queue: NicQueueId, ctx: &mut Context) {
        if let Some((limiter, settings)) = self.find_limiter_mut(nic_queue) {
            limiter.on_timer_expiry(settings, ctx);
        }
    }
}
