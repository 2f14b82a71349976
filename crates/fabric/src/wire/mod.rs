//! Ports: the queues of one end of each link, by priority, and the wires that they send on.
//!
//! What a hop costs is decided here (docs/performance.md). A port belongs to the node that sends by it, a switch or a host; what they do
//! when a packet leaves is theirs (`switching`, `endpoint`), so a port says when its next frame is due and they give it.

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

use self::boundary::Boundary;
use self::capture::Capture;
use self::counters::{AllCounters, Amount, DropReason, LossReason, SwitchCounters};
use self::damage::Errors;
use self::ingress::Ingress;
use self::jitter::Jitter;
use self::own::{NodePorts, OwnPort, OwnSlot};
use self::paused::{PauseState, PendingPause};
use self::port::{LOCAL, Port};
use self::scheduler::{Ets, Turns};
use self::slot::Slot;
use self::watched::Watchdogs;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{Content, Fifo, PacketId};
use crate::ids::{SlotId, SwitchId};
use crate::plan::Plan;
use crate::settings::PauseStorm;
use pauseframe_engine::memory::arena;
use pauseframe_units::{IndexVec, LineRate, PortId, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// The ports of a partition. Arenas have the numbers of the whole network; a partition touches those of its nodes alone, and what is off has none.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the ports themselves, beside what belongs to them")]
pub(crate) struct Ports {
    pub(crate) ports: IndexVec<PortId, Port>,
    pub(crate) slots: IndexVec<SlotId, Slot>,
    pub(crate) counters: AllCounters,
    /// What each slot was asked, where any class can be paused.
    pub(crate) pauses: IndexVec<SlotId, PauseState>,
    pub(crate) pending_pauses: IndexVec<PortId, VecDeque<PendingPause>>,
    /// Pause frames that wait for the frame in service, there too.
    pub(crate) waiting_pauses: IndexVec<PortId, Fifo>,
    /// What is held at the other ends of slots, and the pauses that are asked for there.
    pub(crate) ingress: Ingress,
    /// What waits in each switch, and what was lost there.
    pub(crate) by_switch: IndexVec<SwitchId, SwitchCounters>,
    ets: Option<Ets>,
    /// With ETS.
    turns: IndexVec<PortId, Turns>,
    pub(crate) watchdogs: Watchdogs,
    /// Ports that send pause frames unasked; those of the whole network.
    pub(crate) storms: Arc<[PauseStorm]>,
    /// How unsteady the links of hosts are, where any is.
    jittered_link: Jitter,
    pub(crate) capture: Capture,
    pub(crate) errors: Errors,
    pub(crate) boundary: Boundary,
    /// SYNs among the packets that were dropped for [`DropReason::NotEct`].
    pub(crate) syn_drops_not_ect: u64,
}

impl Ports {
    /// `accounted`: switches account by ingress.
    pub(crate) fn of(plan: &Plan, accounted: bool) -> Ports {
        let (slots, ports) = (plan.slots(), plan.topology.port_count());
        let jittered_link = Jitter::of(plan);
        let [paused_slots, paused_ports] = if plan.can_pause() { [slots, ports] } else { [0, 0] };
        Ports {
            ports: idle_ports(plan, &jittered_link),
            slots: idle_slots(plan),
            counters: AllCounters::new(slots),
            pauses: IndexVec::filled(PauseState::default(), paused_slots),
            pending_pauses: (0..paused_ports).map(|_| VecDeque::new()).collect(),
            waiting_pauses: IndexVec::filled(Fifo::EMPTY, paused_ports),
            ingress: Ingress::of(plan, accounted || !plan.settings.receivers.is_empty()),
            by_switch: IndexVec::filled(SwitchCounters::default(), plan.switches.len()),
            ets: Ets::of(&plan.settings, &plan.priorities),
            turns: Turns::of(&plan.settings, ports),
            watchdogs: Watchdogs::default(),
            storms: Arc::default(),
            jittered_link,
            capture: Capture::default(),
            errors: Errors::default(),
            boundary: Boundary::default(),
            syn_drops_not_ect: 0,
        }
    }
}

impl NodePorts<'_> {
    /// Appends a packet to its slot at `port`; true if the port has to be looked after, as it is not bound to go on.
    #[inline(always)]
    pub(crate) fn enqueue(
        &mut self,
        port: OwnPort,
        slot: OwnSlot,
        index: PacketId,
        ctx: &mut Context,
    ) -> bool {
        let now = ctx.now();
        // Looked up before anything is written, and so once.
        let ((state, slot), packet) = (self.port_and_slot(port, slot), &mut ctx.packets[index]);
        let (class, size) = (packet.class, u64::from(packet.size));
        packet.at = now;
        slot.queue.push(&mut ctx.packets, index);
        slot.join(size, now);
        state.ready |= 1 << class;
        let is_free = !state.tx_pending;
        if let Some(switch) = self.of_switch() {
            switch.join(size);
        }
        is_free
    }

    /// Whether the port's next frame is due now; if it comes when the frame in service is over, that is planned.
    #[inline]
    pub(crate) fn schedule_or_is_due(&mut self, port: OwnPort, ctx: &mut Context) -> bool {
        let state = self.port_mut(port);
        if state.tx_pending || !state.has_work() {
            return false;
        }
        if state.busy_until > ctx.now() {
            state.tx_pending = true;
            ctx.schedule(state.busy_until, Event::TxDone(port.id()));
            return false;
        }
        true
    }

    /// The port has finished its frame, or a packet is out of the pipeline: whether the next frame is due.
    #[inline(always)]
    pub(crate) fn finish_frame(&mut self, port: OwnPort, ctx: &mut Context) -> bool {
        let state = self.port_mut(port);
        if state.busy_until > ctx.now() {
            // A packet is out of the pipeline, but a pause frame is in service.
            state.in_pipeline = false;
            return self.reborrow().schedule_or_is_due(port, ctx);
        }
        if state.tx_pending {
            state.tx_pending = false;
        } else {
            state.in_pipeline = false;
        }
        state.has_work()
    }

    /// Puts a pause frame that waits on the wire: it goes before all packets.
    #[inline(always)]
    pub(crate) fn transmit_waiting_pause(&mut self, port: OwnPort, ctx: &mut Context) -> bool {
        let waits = self.port(port).pauses_wait;
        if waits {
            self.reborrow().transmit_pause(port, ctx);
        }
        waits
    }

    #[inline(never)]
    fn transmit_pause(&mut self, port: OwnPort, ctx: &mut Context) {
        let waiting = self.waiting_pauses(port);
        let index = waiting.pop(&ctx.packets).expect("a pause frame waits");
        let more = !waiting.is_empty();
        self.port_mut(port).pauses_wait = more;
        if let Content::Pause { classes, quanta: 1.. } = ctx.packets[index].content {
            // Of a whole link class 0 alone counts frames.
            let asked = port.reverse().slot(classes.trailing_zeros() as u8, &ctx.hot);
            self.received(asked).pauses_sent += 1;
        }
        self.put_on_wire(port, index, ctx);
    }

    /// A pause frame is to leave by `port`, as soon as the frame in service is over.
    pub(crate) fn enqueue_pause_frame(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        self.waiting_pauses(port).push(&mut ctx.packets, index);
        self.port_mut(port).pauses_wait = true;
        if self.schedule_or_is_due(port, ctx) {
            self.transmit_pause(port, ctx);
        }
    }

    /// Takes the first packet of a class, and counts it.
    #[inline(always)]
    pub(crate) fn dequeue(&mut self, port: OwnPort, class: u8, ctx: &Context) -> PacketId {
        self.take_first(port, class, ctx).0
    }

    /// The same, and puts it on the wire.
    #[inline(always)]
    pub(crate) fn send_first(&mut self, port: OwnPort, class: u8, ctx: &mut Context) {
        let (index, state) = self.take_first(port, class, ctx);
        if state.slow_path {
            self.reborrow().put_on_wire_slow_path(port, index, ctx);
        } else {
            state.serve(port.id(), index, state.delay, ctx);
        }
    }

    /// Takes the first packet of a class from its port, and counts it.
    #[inline(always)]
    fn take_first(&mut self, port: OwnPort, class: u8, ctx: &Context) -> (PacketId, &mut Port) {
        let (state, slot, switch) = self.queue(port, port.slot(class, &ctx.hot));
        let index = slot.queue.head().expect("a ready class has a packet");
        let packet = &ctx.packets[index];
        slot.queue.advance(packet.next);
        if slot.queue.is_empty() {
            state.ready &= !(1 << class);
        }
        let size = u32::from(packet.size);
        state.count_sent(size);
        if class > 0 {
            slot.sent += Amount::packet(size);
        }
        let waited = slot.leave(u64::from(size), ctx.now());
        if let Some(switch) = switch {
            switch.leave(u64::from(size));
        }
        if !waited {
            ctx.plan.accounting_underflow("backlog", port.id());
        }
        (index, state)
    }

    /// A packet that waited is taken out from amid its queue.
    pub(crate) fn leave_queue(&mut self, port: OwnPort, index: PacketId, ctx: &Context) {
        let (class, size) = (ctx.packets[index].class, u64::from(ctx.packets[index].size));
        let (state, slot) = self.port_and_slot(port, port.slot(class, &ctx.hot));
        if !slot.leave(size, ctx.now()) {
            ctx.plan.accounting_underflow("backlog", port.id());
        }
        if slot.queue.is_empty() {
            state.ready &= !(1 << class);
        }
        if let Some(switch) = self.of_switch() {
            switch.leave(size);
        }
        self.forget_waiting(port, class, ctx);
    }

    /// A packet has left a queue; where the marker counts packets, one waits less.
    pub(crate) fn forget_waiting(&mut self, port: OwnPort, class: u8, ctx: &Context) {
        if ctx.hot.watched_arrivals & 1 << class != 0 {
            let slot = self.slot_mut(port.slot(class, &ctx.hot));
            let Some(waiting) = slot.waiting.checked_sub(1) else {
                ctx.plan.accounting_underflow("packet count", port.id())
            };
            slot.waiting = waiting;
        }
    }

    /// Puts a frame on the wire.
    #[inline(always)]
    pub(crate) fn put_on_wire(&mut self, port: OwnPort, index: PacketId, ctx: &mut Context) {
        let state = self.port_mut(port);
        if state.slow_path {
            self.reborrow().put_on_wire_slow_path(port, index, ctx);
        } else {
            state.serve(port.id(), index, state.delay, ctx);
        }
    }

    /// A packet that meets an idle port goes straight to the wire: it never waits and is in no backlog.
    #[inline(always)]
    pub(crate) fn send_directly(&mut self, port: OwnPort, index: PacketId, class: u8, ctx: &mut Context) {
        let size = u32::from(ctx.packets[index].size);
        if class > 0 {
            self.slot_mut(port.slot(class, &ctx.hot)).sent += Amount::packet(size);
        }
        let state = self.port_mut(port);
        state.count_sent(size);
        if state.slow_path {
            // A token bucket asks since when it waits.
            ctx.packets[index].at = ctx.now();
            self.reborrow().put_on_wire_slow_path(port, index, ctx);
            return;
        }
        debug_assert!(!state.has_work(), "an idle port has nothing to send");
        state.serve_last(port.id(), index, state.delay, ctx);
    }

    /// A packet ends here; the reason is counted at the egress that it was bound for.
    #[cold]
    pub(crate) fn drop_packet(
        &mut self,
        index: PacketId,
        egress: OwnPort,
        reason: DropReason,
        ctx: &mut Context,
    ) {
        let packet = ctx.packets[index];
        self.counters(egress.slot(packet.class, &ctx.hot)).drops[reason as usize] += 1;
        self.count_gone(index, ctx);
        if reason == DropReason::NotEct && packet.is_syn() {
            self.count_syn_drop();
        }
        if reason == DropReason::HeadroomExceeded {
            ctx.check_headroom_drop(&packet);
        }
        ctx.report_lost(index);
        ctx.packets.remove(index);
    }

    /// A packet ends in this node, if it is a switch.
    pub(crate) fn count_gone(&mut self, index: PacketId, ctx: &Context) {
        if let Some(switch) = self.of_switch() {
            switch.gone += Amount::sum(std::iter::once(&ctx.packets[index]));
        }
    }

    /// A packet that was to wait in a queue has lost so many bytes.
    pub(crate) fn count_trim(&mut self, slot: OwnSlot, cut: u16) {
        self.counters(slot).trims += 1;
        if let Some(switch) = self.of_switch() {
            switch.gone += Amount { packets: 0, bytes: u64::from(cut) };
        }
    }

    /// A packet is lost at `port`, which it was to leave by.
    pub(crate) fn count_loss(&mut self, port: OwnPort, class: u8, reason: LossReason, ctx: &Context) {
        self.counters(port.slot(class, &ctx.hot)).lost[reason as usize] += 1;
    }
}

fn idle_ports(plan: &Plan, jittered_link: &Jitter) -> IndexVec<PortId, Port> {
    let topology = &plan.topology;
    let port = |port| {
        let channel = topology.channel(port);
        let (from, to) = (plan.owner(topology.owner(port)), plan.owner(topology.peer(port)));
        Port {
            busy_until: Time::ZERO,
            delay: channel.delay,
            rate: LineRate::new(channel.rate),
            in_flight: Fifo::EMPTY,
            tx_packets: 0,
            tx_bytes: 0,
            from,
            to,
            ready: 0,
            paused: 0,
            tx_pending: false,
            in_pipeline: false,
            pauses_wait: false,
            slow_path: jittered_link.is_between(from, to, plan)
                || plan.telemetry.is_some() && from.is_switch(),
            remote: LOCAL,
        }
    };
    let mut ports = arena(topology.port_count());
    ports.extend(plan.ports().map(port));
    ports.into_iter().collect()
}

/// The slots of all ports.
fn idle_slots(plan: &Plan) -> IndexVec<SlotId, Slot> {
    let mut slots = arena(plan.slots());
    slots.resize(plan.slots(), Slot::IDLE);
    slots.into_iter().collect()
}
