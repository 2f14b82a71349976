//! Ports: the queues at one end of each link, by priority, and the links that they send on.
//!
//! This code dominates the cost of a hop (docs/performance.md). A port belongs to the switch or host that sends by it. The port decides when its next
//! frame is due; its node (`switching`, `endpoint`) chooses the frame.

pub(crate) mod boundary;
pub(crate) mod capture;
mod causes;
pub(crate) mod counters;
mod crossing;
pub(crate) mod damage;
mod failing;
pub(crate) mod ingress;
mod jitter;
pub(crate) mod own;
mod pause;
pub(crate) mod paused;
pub(crate) mod port;
pub(crate) mod scheduler;
pub(crate) mod sent;
mod service;
pub(crate) mod slot;
mod slow_path;
mod storm;
mod turn;
pub(crate) mod watched;

use self::boundary::PartitionOutboxes;
use self::capture::FrameCapture;
use self::counters::{DropReason, LossReason, PacketsAndBytes, QueueCounterTable, SwitchCounters};
use self::damage::LinkErrorStates;
use self::ingress::IngressAccounts;
use self::jitter::JitterStateOfHostLinks;
use self::own::{BorrowedNodePorts, EgressQueueToken, PortToken};
use self::paused::{PauseFrameInReactionTime, PauseState};
use self::port::{ExtraLinkWork, LOCAL_PARTITION, Port};
use self::scheduler::{DrrState, EtsScheduler};
use self::slot::EgressQueue;
use self::watched::QueueWatchdogs;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{FrameContent, PacketFifo, PacketId};
use crate::ids::{SlotId, SwitchId};
use crate::plan::NetworkPlan;
use crate::settings::PauseStorm;
use pauseframe_units::{IndexVec, LineRate, PortId, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// The ports of a partition. Arrays are indexed by numbers of the whole network; a partition uses only the entries of its nodes. Arrays of
/// disabled features are empty.
#[derive(Debug)]
pub(crate) struct PartitionPorts {
    pub(crate) ports: IndexVec<PortId, Port>,
    pub(crate) slots: IndexVec<SlotId, EgressQueue>,
    pub(crate) counters: QueueCounterTable,
    /// Pause state of each slot, if any class can be paused.
    pub(crate) pauses: IndexVec<SlotId, PauseState>,
    pub(crate) pending_pauses: IndexVec<PortId, VecDeque<PauseFrameInReactionTime>>,
    /// Pause frames that wait for the frame in service, if any class can be paused.
    pub(crate) waiting_pauses: IndexVec<PortId, PacketFifo>,
    /// Ingress accounts, and the pauses requested for them.
    pub(crate) ingress: IngressAccounts,
    /// Queued and lost bytes of each switch.
    pub(crate) by_switch: IndexVec<SwitchId, SwitchCounters>,
    ets: Option<EtsScheduler>,
    /// With ETS.
    turns: IndexVec<PortId, DrrState>,
    pub(crate) watchdogs: QueueWatchdogs,
    /// Pause storms of the whole network.
    pub(crate) storms: Arc<[PauseStorm]>,
    /// Jitter of hosts' links, if any has some.
    jittered_link: JitterStateOfHostLinks,
    pub(crate) capture: FrameCapture,
    pub(crate) errors: LinkErrorStates,
    pub(crate) boundary: PartitionOutboxes,
    /// SYNs among the packets that were dropped for [`DropReason::NotEct`].
    pub(crate) syn_drops_not_ect: u64,
}

impl PartitionPorts {
    /// Idle ports. `accounted`: switches, and slow receivers of lossless classes, keep ingress accounts.
    pub(crate) fn from_plan(plan: &NetworkPlan, accounted: bool) -> PartitionPorts {
        let (slots, ports) = (plan.slot_count(), plan.topology.port_count());
        let jittered_link = JitterStateOfHostLinks::from_plan(plan);
        let [paused_slots, paused_ports] = if plan.can_pause() { [slots, ports] } else { [0, 0] };
        PartitionPorts {
            ports: create_idle_ports(plan, &jittered_link),
            slots: create_idle_queues(plan),
            counters: QueueCounterTable::new(slots),
            pauses: IndexVec::filled(PauseState::default(), paused_slots),
            pending_pauses: (0..paused_ports).map(|_| VecDeque::new()).collect(),
            waiting_pauses: IndexVec::filled(PacketFifo::EMPTY, paused_ports),
            ingress: IngressAccounts::from_plan(plan, accounted),
            by_switch: IndexVec::filled(SwitchCounters::default(), plan.switches.len()),
            ets: EtsScheduler::from_settings(&plan.settings, &plan.priorities),
            turns: DrrState::by_port(&plan.settings, &plan.priorities, ports),
            watchdogs: QueueWatchdogs::default(),
            storms: Arc::default(),
            jittered_link,
            capture: FrameCapture::default(),
            errors: LinkErrorStates::default(),
            boundary: PartitionOutboxes::default(),
            syn_drops_not_ect: 0,
        }
    }
}

impl BorrowedNodePorts<'_> {
    /// Appends a packet to its slot at `port`; true if no transmission is scheduled, so the caller must start the port.
    #[inline(always)]
    pub(crate) fn enqueue_packet(
        &mut self,
        port: PortToken,
        slot: EgressQueueToken,
        index: PacketId,
        ctx: &mut Context,
    ) -> bool {
        let now = ctx.now();
        // Read before the first write, so that the compiler loads it only once.
        let ((state, slot), packet) = (self.port_and_queue(port, slot), &mut ctx.packets[index]);
        let (class, size) = (packet.class, u64::from(packet.size));
        packet.at = now;
        slot.queue.push_back(&mut ctx.packets, index);
        slot.add_to_backlog(size, now);
        state.ready |= 1 << class;
        let is_free = !state.tx_pending;
        if let Some(switch) = self.switch_counters_mut() {
            switch.add_queued(size);
        }
        is_free
    }

    /// Whether the next frame is due now. If a frame is in service, schedules the next one for its end.
    #[inline]
    pub(crate) fn is_idle_else_schedule(&mut self, port: PortToken, ctx: &mut Context) -> bool {
        let state = self.port_state_mut(port);
        if state.tx_pending || !state.has_eligible_frames() {
            return false;
        }
        if state.busy_until > ctx.now() {
            state.tx_pending = true;
            ctx.schedule_event(state.busy_until, Event::TxDone(port.port_id()));
            return false;
        }
        true
    }

    /// Whether the next frame is due, after the frame in service ended.
    #[inline(always)]
    pub(crate) fn finish_service(&mut self, port: PortToken, ctx: &mut Context) -> bool {
        let state = self.port_state_mut(port);
        if state.busy_until > ctx.now() {
            // The link has been down meanwhile, and waits until the cut-off transmission would have ended.
            return self.reborrow().is_idle_else_schedule(port, ctx);
        }
        state.tx_pending = false;
        state.has_eligible_frames()
    }

    /// Transmits a waiting pause frame, which precedes all packets; false if none waits.
    #[inline(always)]
    pub(crate) fn transmit_pause_frame(&mut self, port: PortToken, ctx: &mut Context) -> bool {
        let waits = self.port_state(port).pauses_wait;
        if waits {
            self.reborrow().transmit_first_pause(port, ctx);
        }
        waits
    }

    #[inline(never)]
    fn transmit_first_pause(&mut self, port: PortToken, ctx: &mut Context) {
        let waiting = self.unsent_pauses_mut(port);
        let index = waiting.pop_front(&ctx.packets).expect("a pause frame waits");
        let more = !waiting.is_empty();
        self.port_state_mut(port).pauses_wait = more;
        if let FrameContent::Pause { classes, quanta: 1.. } = ctx.packets[index].content {
            // With link pause only class 0 counts pause frames.
            let asked = port.ingress_token(classes.trailing_zeros() as u8, &ctx.hot);
            self.counters_for_peer_mut(asked).pauses_sent += 1;
        }
        self.put_on_wire(port, index, ctx);
    }

    /// Queues a pause frame at `port`, to leave after the frame in service.
    pub(crate) fn enqueue_pause_frame(&mut self, port: PortToken, index: PacketId, ctx: &mut Context) {
        self.unsent_pauses_mut(port).push_back(&mut ctx.packets, index);
        self.port_state_mut(port).pauses_wait = true;
        if self.is_idle_else_schedule(port, ctx) {
            self.transmit_first_pause(port, ctx);
        }
    }

    /// Dequeues the first packet of a class and counts it.
    #[inline(always)]
    pub(crate) fn dequeue_first(&mut self, port: PortToken, class: u8, ctx: &Context) -> PacketId {
        self.dequeue_with_port(port, class, ctx).0
    }

    /// Dequeues the first packet of a class, counts it and puts it on the wire.
    #[inline(always)]
    pub(crate) fn transmit_first(&mut self, port: PortToken, class: u8, ctx: &mut Context) {
        let (index, state) = self.dequeue_with_port(port, class, ctx);
        if state.extra == ExtraLinkWork::None {
            state.begin_transmission(port.port_id(), index, state.delay, ctx);
        } else {
            self.reborrow().put_stamped_on_wire(port, index, ctx);
        }
    }

    /// Dequeues and counts the first packet of a class; also returns the port.
    #[inline(always)]
    fn dequeue_with_port(&mut self, port: PortToken, class: u8, ctx: &Context) -> (PacketId, &mut Port) {
        let (state, slot, switch) = self.split_mut(port, port.egress_token(class, &ctx.hot));
        let index = slot.queue.head().expect("a ready class has a packet");
        let packet = &ctx.packets[index];
        slot.queue.remove_head(packet.next);
        if slot.queue.is_empty() {
            state.ready &= !(1 << class);
        }
        let size = u32::from(packet.size);
        state.count_sent(size);
        if class > 0 {
            slot.sent += PacketsAndBytes::of_packet(size);
        }
        let waited = slot.remove_from_backlog(u64::from(size), ctx.now());
        if let Some(switch) = switch {
            switch.remove_queued(u64::from(size));
        }
        if !waited {
            ctx.plan.panic_account_underflow("backlog", port.port_id());
        }
        (index, state)
    }

    /// Removes a waiting packet from the middle of its queue.
    pub(crate) fn remove_from_middle(&mut self, port: PortToken, index: PacketId, ctx: &Context) {
        let (class, size) = (ctx.packets[index].class, u64::from(ctx.packets[index].size));
        self.shrink_backlog(port, class, size, ctx);
        let (state, slot) = self.port_and_queue(port, port.egress_token(class, &ctx.hot));
        if slot.queue.is_empty() {
            state.ready &= !(1 << class);
        }
        self.uncount_waiting(port, class, ctx);
    }

    /// Takes bytes that no longer wait out of the backlogs of a queue and of its switch.
    pub(crate) fn shrink_backlog(&mut self, port: PortToken, class: u8, bytes: u64, ctx: &Context) {
        let slot = self.egress_queue_mut(port.egress_token(class, &ctx.hot));
        if !slot.remove_from_backlog(bytes, ctx.now()) {
            ctx.plan.panic_account_underflow("backlog", port.port_id());
        }
        if let Some(switch) = self.switch_counters_mut() {
            switch.remove_queued(bytes);
        }
    }

    /// Decrements the number of waiting packets, if the marker counts packets.
    pub(crate) fn uncount_waiting(&mut self, port: PortToken, class: u8, ctx: &Context) {
        if ctx.hot.watched_arrivals & 1 << class != 0 {
            let slot = self.egress_queue_mut(port.egress_token(class, &ctx.hot));
            let Some(waiting) = slot.waiting.checked_sub(1) else {
                ctx.plan.panic_account_underflow("packet count", port.port_id())
            };
            slot.waiting = waiting;
        }
    }

    /// Puts a frame on the wire.
    #[inline(always)]
    pub(crate) fn put_on_wire(&mut self, port: PortToken, index: PacketId, ctx: &mut Context) {
        let state = self.port_state_mut(port);
        if state.extra == ExtraLinkWork::None {
            state.begin_transmission(port.port_id(), index, state.delay, ctx);
        } else {
            self.reborrow().put_stamped_on_wire(port, index, ctx);
        }
    }

    /// Transmits a packet at an idle port. It never waits and never counts as backlog.
    #[inline(always)]
    pub(crate) fn transmit_unqueued(
        &mut self,
        port: PortToken,
        index: PacketId,
        class: u8,
        ctx: &mut Context,
    ) {
        let size = u32::from(ctx.packets[index].size);
        if class > 0 {
            self.egress_queue_mut(port.egress_token(class, &ctx.hot)).sent +=
                PacketsAndBytes::of_packet(size);
        }
        let state = self.port_state_mut(port);
        state.count_sent(size);
        if state.extra != ExtraLinkWork::None {
            // The token bucket needs the start of its waiting time.
            ctx.packets[index].at = ctx.now();
            self.reborrow().put_stamped_on_wire(port, index, ctx);
            return;
        }
        debug_assert!(!state.has_eligible_frames(), "an idle port has nothing to send");
        state.begin_last_transmission(port.port_id(), index, state.delay, ctx);
    }

    /// Drops a packet and counts the reason at its egress port.
    #[cold]
    pub(crate) fn drop_packet(
        &mut self,
        index: PacketId,
        egress: PortToken,
        reason: DropReason,
        ctx: &mut Context,
    ) {
        let packet = ctx.packets[index];
        self.rare_counters_mut(egress.egress_token(packet.class, &ctx.hot)).drops[reason as usize] += 1;
        self.count_discarded(index, ctx);
        if reason == DropReason::NotEct && packet.is_syn() {
            self.count_not_ect_syn();
        }
        if reason == DropReason::HeadroomExceeded {
            ctx.check_headroom_drop(&packet);
        }
        ctx.report_datagram_loss(index);
        ctx.packets.remove(index);
    }

    /// Counts a packet that was dropped or lost in this node, if it is a switch.
    pub(crate) fn count_discarded(&mut self, index: PacketId, ctx: &Context) {
        if let Some(switch) = self.switch_counters_mut() {
            switch.discarded += PacketsAndBytes::sum_of_packets(std::iter::once(&ctx.packets[index]));
        }
    }

    /// Counts a packet that this switch holds outside of its queues.
    pub(crate) fn count_held(&mut self, size: u64) {
        if let Some(switch) = self.switch_counters_mut() {
            switch.add_queued(size);
        }
    }

    /// Such a packet leaves.
    pub(crate) fn uncount_held(&mut self, size: u64) {
        if let Some(switch) = self.switch_counters_mut() {
            switch.remove_queued(size);
        }
    }

    /// Counts a packet whose payload of `cut` bytes was cut off instead of waiting in a queue.
    pub(crate) fn count_trimmed(&mut self, slot: EgressQueueToken, cut: u16) {
        self.rare_counters_mut(slot).trims += 1;
        if let Some(switch) = self.switch_counters_mut() {
            switch.discarded += PacketsAndBytes { packets: 0, bytes: u64::from(cut) };
        }
    }

    /// Counts a packet lost at its egress port.
    pub(crate) fn count_egress_loss(
        &mut self,
        port: PortToken,
        class: u8,
        reason: LossReason,
        ctx: &Context,
    ) {
        self.rare_counters_mut(port.egress_token(class, &ctx.hot)).lost[reason as usize] += 1;
    }
}

fn create_idle_ports(plan: &NetworkPlan, jittered_link: &JitterStateOfHostLinks) -> IndexVec<PortId, Port> {
    let topology = &plan.topology;
    let port = |port| {
        let channel = topology.channel(port);
        let (from, to) = (plan.packed_id(topology.owner(port)), plan.packed_id(topology.peer(port)));
        Port {
            busy_until: Time::ZERO,
            delay: channel.delay,
            rate: LineRate::new(channel.rate),
            in_flight: PacketFifo::EMPTY,
            tx_packets: 0,
            tx_bytes: 0,
            from,
            to,
            ready: 0,
            paused: 0,
            tx_pending: false,
            pauses_wait: false,
            extra: if jittered_link.has_link_between(from, to, plan) {
                ExtraLinkWork::SlowPath
            } else if plan.telemetry.is_some() && from.is_switch() {
                ExtraLinkWork::Telemetry
            } else {
                ExtraLinkWork::None
            },
            peer_partition: LOCAL_PARTITION,
        }
    };
    plan.all_ports().map(port).collect()
}

/// The slots of all ports.
fn create_idle_queues(plan: &NetworkPlan) -> IndexVec<SlotId, EgressQueue> {
    (0..plan.slot_count()).map(|_| EgressQueue::IDLE).collect()
}
