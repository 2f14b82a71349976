//! A host: stack delays, a NIC with a queue per destination, and sockets blocked on a full NIC buffer.
//!
//! A socket passes segments down while the host holds less than `nic_buffer` bytes in its stack and NIC. After that sockets send one segment each in
//! round robin, as under a qdisc with back-pressure.

use super::limiter::LimiterIndex;
use super::node::BorrowedHost;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{Cnm, FrameContent, PacketFifo, PacketId, PacketPool};
use crate::ids::{EndpointId, NicQueueId};
use crate::wire::counters::DropReason;
use pauseframe_engine::Rng;
use pauseframe_rdma::CnpLimiter;
use pauseframe_units::{IndexVec, NodeId, PortId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) port: PortId,
    /// Bytes in the stack's send side and in the NIC.
    pub(crate) held: u64,
    /// Packets in the receive and send sides of the stack. Each side has a constant delay, so packets keep their order.
    pub(crate) receiving: PacketFifo,
    pub(crate) sending: PacketFifo,
    /// The NIC queues of the packets in `sending`, in the same order.
    bound_for: VecDeque<NicQueueId>,
    queues: IndexVec<NicQueueId, NicDestinationQueue>,
    queue_of: BTreeMap<(NodeId, u8), NicQueueId>,
    /// By class: backlogged destination queues in round-robin order. Empty until a packet first had to wait.
    turns: Vec<VecDeque<NicQueueId>>,
    /// Sockets that found the NIC buffer full.
    blocked: VecDeque<BlockedSocket>,
    /// When the last segment leaves the stack.
    last_through: Time,
    /// CNPs of all queue pairs of the port.
    pub(super) cnp_limiter: CnpLimiter,
    jitter: Rng,
}

/// A socket that waits for NIC buffer space.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockedSocket {
    Connection(EndpointId),
    Datagrams(EndpointId),
    QueuePair(EndpointId),
    /// All sockets of a stack outside of the simulator.
    External,
}

/// Packets in a NIC for one destination and class.
#[derive(Debug)]
struct NicDestinationQueue {
    packets: PacketFifo,
    /// Its QCN rate limiter, created by the first CNM.
    limiter: Option<LimiterIndex>,
}

impl Host {
    pub(super) fn new(port: PortId, jitter: Rng) -> Host {
        Host {
            port,
            held: 0,
            receiving: PacketFifo::EMPTY,
            sending: PacketFifo::EMPTY,
            bound_for: VecDeque::new(),
            queues: IndexVec::new(),
            queue_of: BTreeMap::new(),
            turns: Vec::new(),
            blocked: VecDeque::new(),
            last_through: Time::ZERO,
            cnp_limiter: CnpLimiter::default(),
            jitter,
        }
    }

    /// The NIC queue for `destination` and `class`, created on first use.
    pub(super) fn nic_queue_for_destination(&mut self, destination: NodeId, class: u8) -> NicQueueId {
        let queues = &mut self.queues;
        *self
            .queue_of
            .entry((destination, class))
            .or_insert_with(|| queues.push(NicDestinationQueue { packets: PacketFifo::EMPTY, limiter: None }))
    }

    /// The rate limiter of traffic to `destination` in `class`, if one exists.
    pub(super) fn find_rate_limiter(&self, destination: NodeId, class: u8) -> Option<LimiterIndex> {
        self.queues[*self.queue_of.get(&(destination, class))?].limiter
    }

    /// The rate limiter of a NIC queue, if one exists.
    #[inline]
    pub(super) fn rate_limiter_of_nic_queue(&self, queue: NicQueueId) -> Option<LimiterIndex> {
        self.queues[queue].limiter
    }

    /// Attaches a rate limiter to a NIC queue that has none.
    pub(super) fn attach_rate_limiter(&mut self, queue: NicQueueId, new: impl FnOnce() -> LimiterIndex) {
        self.queues[queue].limiter.get_or_insert_with(new);
    }

    /// The destination queues: packets in the NIC behind the first of each class.
    pub(crate) fn iter_fifos_of_destination_queues(&self) -> impl Iterator<Item = PacketFifo> {
        self.queues.iter().map(|queue| queue.packets)
    }

    /// Takes the next packet of `class`, round robin over destinations.
    #[inline]
    fn dequeue_round_robin_over_destinations(&mut self, class: u8, pool: &PacketPool) -> Option<PacketId> {
        let turns = self.turns.get_mut(usize::from(class))?;
        let queue = turns.pop_front()?;
        let packets = &mut self.queues[queue].packets;
        let index = packets.pop_front(pool)?;
        if !packets.is_empty() {
            turns.push_back(queue);
        }
        Some(index)
    }

    /// Appends a packet to the queue of its destination.
    fn enqueue_in_destination_queue(
        &mut self,
        nic_queue: NicQueueId,
        class: u8,
        index: PacketId,
        pool: &mut PacketPool,
    ) {
        if self.queues[nic_queue].packets.push_back(pool, index) {
            let class = usize::from(class);
            if self.turns.len() <= class {
                self.turns.resize_with(class + 1, VecDeque::new);
            }
            self.turns[class].push_back(nic_queue);
        }
    }

    /// When a segment leaves the stack: at `earliest` plus up to `jitter`, never before the segment ahead.
    fn assign_stack_exit_time(&mut self, earliest: Time, jitter: Span) -> Time {
        let late =
            if jitter == Span::ZERO { Span::ZERO } else { Span(self.jitter.uniform_below(jitter.0 + 1)) };
        self.last_through = self.last_through.max(earliest + late);
        self.last_through
    }

    /// Appends a socket that found no buffer space to the round robin.
    pub(super) fn append_blocked_socket(&mut self, socket: BlockedSocket) {
        self.blocked.push_back(socket);
    }

    /// The first blocked socket.
    #[inline]
    pub(super) fn first_blocked_socket(&self) -> Option<BlockedSocket> {
        self.blocked.front().copied()
    }

    /// Whether the NIC buffer can take another segment from a socket.
    #[inline]
    pub(super) fn has_nic_buffer_space(&self, ctx: &Context) -> bool {
        self.held < ctx.settings.nic_buffer
    }

    /// Releases the buffer space of a packet that went to the wire.
    #[inline]
    fn release_nic_buffer(&mut self, size: u32, ctx: &Context) {
        let Some(held) = self.held.checked_sub(u64::from(size)) else {
            ctx.plan.panic_account_underflow("NIC", self.port)
        };
        self.held = held;
    }
}

/// The send path.
impl BorrowedHost<'_> {
    /// Sends a segment from its socket through the stack to the NIC.
    #[inline(always)]
    pub(super) fn send_through_stack(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        let state = self.host_mut();
        state.held += u64::from(ctx.packets[index].size);
        if ctx.hot.stackless {
            self.enqueue_in_nic_or_rate_limiter(nic_queue, index, ctx);
            return;
        }
        let jitter = self.max_stack_jitter_of_segment(index, ctx);
        let is_empty = self.host_mut().sending.is_empty();
        if ctx.settings.tx_jitter.is_automatic_jitter()
            && ctx.settings.tx_delay + jitter == Span::ZERO
            && is_empty
        {
            self.enqueue_in_nic_or_rate_limiter(nic_queue, index, ctx);
            return;
        }
        let earliest = ctx.now() + ctx.settings.tx_delay;
        let (id, state) = (self.own_host_id(), self.host_mut());
        let through = state.assign_stack_exit_time(earliest, jitter);
        ctx.packets[index].at = through;
        state.bound_for.push_back(nic_queue);
        if state.sending.push_back(&mut ctx.packets, index) {
            ctx.schedule_event(through, Event::HostSend(id));
        }
    }

    /// Maximum stack jitter of a segment. Automatic jitter applies to lossless segments that queue behind others in the stack or NIC while flows
    /// contend.
    fn max_stack_jitter_of_segment(&mut self, index: PacketId, ctx: &mut Context) -> Span {
        let (now, jitter) = (ctx.now(), ctx.plan.tx_jitter);
        if !ctx.settings.tx_jitter.is_automatic_jitter() {
            return jitter;
        }
        if !ctx.hot.is_class_lossless(ctx.packets[index].class) {
            return Span::ZERO;
        }
        let is_behind = !self.host_mut().sending.is_empty() || !self.ports.port_state(self.port).is_idle(now);
        if is_behind && ctx.contention.advance_and_check_contention(now) { jitter } else { Span::ZERO }
    }

    /// The send side of the stack has processed its first packet.
    pub(crate) fn on_tx_stack_done(&mut self, ctx: &mut Context) {
        let (id, state) = (self.own_host_id(), self.host_mut());
        let index = state.sending.pop_front(&ctx.packets).expect("the stack has a packet to send");
        if let Some(next) = state.sending.head() {
            ctx.schedule_event(ctx.packets[next].at, Event::HostSend(id));
        }
        let nic_queue = state.bound_for.pop_front().expect("every packet is bound for a queue");
        self.enqueue_in_nic_or_rate_limiter(nic_queue, index, ctx);
        // An idle NIC has already sent it, which also freed buffer space.
        self.unblock_sockets(ctx);
    }

    /// Passes a packet to the NIC, where a rate limiter may hold it.
    #[inline(always)]
    fn enqueue_in_nic_or_rate_limiter(&mut self, nic_queue: NicQueueId, index: PacketId, ctx: &mut Context) {
        if ctx.hot.qcn
            && let Some((limiter, _)) = self.find_rate_limiter_mut(nic_queue)
            && limiter.hold_back_if_rate_limited(index, ctx)
        {
            return;
        }
        self.transmit_or_enqueue_in_nic(nic_queue, index, ctx);
    }

    /// Queues a packet at the port if its class is empty there, else in the queue of its destination.
    #[inline(always)]
    pub(super) fn transmit_or_enqueue_in_nic(
        &mut self,
        nic_queue: NicQueueId,
        index: PacketId,
        ctx: &mut Context,
    ) {
        let (now, packet, port) = (ctx.now(), &ctx.packets[index], self.port);
        let (class, size) = (packet.class, packet.size);
        if self.ports.port_state(port).is_idle(now) {
            self.host_mut().release_nic_buffer(u32::from(size), ctx);
            self.ports.transmit_packet_unqueued(port, index, class, ctx);
            return;
        }
        let slot = port.egress_queue_token(class, &ctx.hot);
        if ctx.settings.nic_fifo || self.ports.egress_queue(slot).queue.is_empty() {
            if self.ports.enqueue_packet(port, slot, index, ctx) {
                self.start_or_schedule_transmission(ctx);
            }
            return;
        }
        ctx.packets[index].at = now;
        self.ports.egress_queue_mut(slot).add_to_backlog(u64::from(size), now);
        self.host_mut().enqueue_in_destination_queue(nic_queue, class, index, &mut ctx.packets);
    }

    /// Starts the NIC now or after the frame in service, unless a transmission is already scheduled.
    pub(crate) fn start_or_schedule_transmission(&mut self, ctx: &mut Context) {
        if self.ports.is_idle_else_schedule_next_frame(self.port, ctx) {
            self.transmit_next_frame(ctx);
        }
    }

    /// Sends the next frame: a waiting pause frame, else the first packet of the scheduled class. The next destination's first packet takes its
    /// place, and blocked sockets get the freed space.
    #[inline]
    pub(crate) fn transmit_next_frame(&mut self, ctx: &mut Context) {
        let port = self.port;
        if self.ports.transmit_waiting_pause_frame(port, ctx) {
            return;
        }
        let eligible = self.ports.port_state(port).classes_eligible_to_send();
        let class = if ctx.hot.ets {
            self.ports.next_class_by_ets(port, eligible, ctx)
        } else {
            eligible.ilog2() as u8
        };
        let index = self.ports.dequeue_first_packet_of_class(port, class, ctx);
        let state = self.host_mut();
        state.release_nic_buffer(u32::from(ctx.packets[index].size), ctx);
        if let Some(next) = state.dequeue_round_robin_over_destinations(class, &ctx.packets) {
            let (state, slot) = self.ports.port_and_queue_mut(port, port.egress_queue_token(class, &ctx.hot));
            slot.queue.push_back(&mut ctx.packets, next);
            state.ready |= 1 << class;
        }
        self.ports.put_on_wire(port, index, ctx);
        self.unblock_sockets(ctx);
    }

    /// Lets blocked sockets send one segment each in turn while there is buffer space.
    #[inline]
    pub(super) fn unblock_sockets(&mut self, ctx: &mut Context) {
        while self.host_mut().has_nic_buffer_space(ctx) {
            let Some(socket) = self.host_mut().blocked.pop_front() else { return };
            match socket {
                BlockedSocket::Connection(place) => {
                    if self.send_segment_of_blocked_endpoint(place, ctx) {
                        self.host_mut().blocked.push_back(socket);
                    }
                }
                BlockedSocket::Datagrams(place) => {
                    self.send_waiting_datagram(self.datagram_source_by_index(place), ctx);
                }
                BlockedSocket::QueuePair(place) => {
                    if self.send_packet_of_blocked_queue_pair(place, ctx) {
                        self.host_mut().blocked.push_back(socket);
                    }
                }
                BlockedSocket::External => {
                    self.host_mut().blocked.push_back(socket);
                    if !self.send_frame_of_transmit_ring(ctx) {
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
        if ctx.hot.slow_receivers && self.enqueue_or_drop_at_slow_receiver(index, ctx) {
            return;
        }
        self.enter_rx_stack(index, ctx);
    }

    /// Puts a frame into the buffer of a slow receiver or drops it; false if the host is not slow.
    #[cold]
    fn enqueue_or_drop_at_slow_receiver(&mut self, index: PacketId, ctx: &mut Context) -> bool {
        let (id, came_by) = (self.own_host_id(), self.port.peer_port_id());
        let Some(receiver) = self.slow_receiver_mut() else { return false };
        let packet = &mut ctx.packets[index];
        (packet.ingress, packet.ingress_class) = (came_by, packet.class);
        let (class, size) = (packet.class, packet.size);
        let admitted = if ctx.hot.is_class_lossless(class) {
            self.ports.admit_by_fixed_ingress_thresholds(index, ctx)
        } else if receiver.reserve_lossy_receive_buffer(u64::from(size)) {
            Ok(())
        } else {
            Err(DropReason::BufferFull)
        };
        match (admitted, self.slow_receiver_mut()) {
            (Ok(()), Some(receiver)) => {
                receiver.enqueue_received_frame(id, index, ctx.plan.link_rate_of_port(came_by), ctx);
            }
            (Err(reason), _) => self.ports.drop_packet(index, self.port, reason, ctx),
            (Ok(()), None) => unreachable!("a receiver stays slow"),
        }
        true
    }

    /// A slow receiver has drained the first frame of its buffer, which goes up the stack.
    pub(crate) fn on_receive_buffer_frame_drained(&mut self, ctx: &mut Context) {
        let (id, line) = (self.own_host_id(), ctx.plan.link_rate_of_port(self.port.peer_port_id()));
        let Some(receiver) = self.slow_receiver_mut() else { return };
        let index = receiver.dequeue_drained_received_frame(id, line, ctx);
        let packet = ctx.packets[index];
        let size = u64::from(packet.size);
        if ctx.hot.is_class_lossless(packet.class) {
            let class = packet.class & ctx.hot.account_mask;
            let slot = self.port.ingress_queue_token(class, &ctx.hot);
            self.ports.release_from_ingress_account(slot, size, ctx);
            if self.ports.ingress_account(slot).may_resume() {
                self.ports.send_resume_frame(slot, ctx);
            }
        } else if !receiver.release_lossy_receive_buffer(size) {
            ctx.plan.panic_account_underflow("receive buffer", packet.ingress.reverse());
        }
        self.enter_rx_stack(index, ctx);
    }

    /// A packet enters the receive side of the stack.
    #[inline(always)]
    fn enter_rx_stack(&mut self, index: PacketId, ctx: &mut Context) {
        if ctx.settings.rx_delay == Span::ZERO {
            self.deliver_to_tcp(index, ctx);
            return;
        }
        let through = ctx.now() + ctx.settings.rx_delay;
        ctx.packets[index].at = through;
        if self.host_mut().receiving.push_back(&mut ctx.packets, index) {
            ctx.schedule_event(through, Event::HostReceive(self.own_host_id()));
        }
    }

    /// The receive side of the stack has processed its first packet.
    pub(crate) fn on_rx_stack_done(&mut self, ctx: &mut Context) {
        let (id, state) = (self.own_host_id(), self.host_mut());
        let index = state.receiving.pop_front(&ctx.packets).expect("the stack has received a packet");
        if let Some(next) = state.receiving.head() {
            ctx.schedule_event(ctx.packets[next].at, Event::HostReceive(id));
        }
        self.deliver_to_tcp(index, ctx);
    }
}

/// QCN rate limiters.
impl BorrowedHost<'_> {
    /// A CNM has arrived at the NIC of the source.
    #[cold]
    pub(crate) fn on_cnm(&mut self, index: PacketId, ctx: &mut Context) {
        let FrameContent::Cnm(cnm) = ctx.packets[index].content else { return };
        ctx.packets.remove_packet(index);
        let Cnm { sampled_class: class, to, .. } = cnm;
        self.ports.rare_event_counters_mut(self.port.egress_queue_token(class, &ctx.hot)).cnms_received += 1;
        if !ctx.hot.qcn {
            return;
        }
        // The CNM concerns traffic to the other host of the flow.
        let nic_queue = self.host_mut().nic_queue_for_destination(ctx.host_of_endpoint_key(to ^ 1), class);
        let line = self.ports.port_state(self.port).rate.rate();
        if let Some((limiter, settings)) = self.find_or_create_rate_limiter(nic_queue, line, ctx) {
            limiter.on_cnm(&cnm, settings, ctx);
        }
    }

    /// The first packet of a rate-limited flow queue may enter the NIC.
    pub(crate) fn on_rate_limiter_release(&mut self, nic_queue: NicQueueId, ctx: &mut Context) {
        let Some((limiter, settings)) = self.find_rate_limiter_mut(nic_queue) else { return };
        if let Some(index) = limiter.release_first_held_packet_if_due(settings, ctx) {
            self.transmit_or_enqueue_in_nic(nic_queue, index, ctx);
            self.unblock_sockets(ctx);
        }
    }

    /// A timer cycle of a rate limiter has ended.
    pub(crate) fn on_rate_limiter_timer(&mut self, nic_queue: NicQueueId, ctx: &mut Context) {
        if let Some((limiter, settings)) = self.find_rate_limiter_mut(nic_queue) {
            limiter.on_qcn_timer_cycle_end(settings, ctx);
        }
    }
}
