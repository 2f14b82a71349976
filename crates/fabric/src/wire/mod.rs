//! Ports: the queues of one end of each link, by priority, and the wires that they send on.
//!
//! What a hop costs is decided here (docs/performance.md). A port belongs to the node that sends by it, a switch or a host; what they do
//! when a packet leaves is theirs (`switching`, `endpoint`), so a port says when its next frame is due and they give it.

pub(crate) mod border;
pub(crate) mod capture;
mod causes;
pub(crate) mod counters;
mod crossing;
pub(crate) mod damage;
mod failing;
pub(crate) mod ingress;
mod jitter;
mod pause;
pub(crate) mod paused;
pub(crate) mod port;
pub(crate) mod scheduler;
mod service;
pub(crate) mod slot;
mod turn;
pub(crate) mod watched;

use self::border::Border;
use self::capture::Capture;
use self::counters::{AllCounters, DropReason, Gone, LossReason, SwitchCounters};
use self::damage::Errors;
use self::jitter::Jitter;
use self::paused::{PauseState, PendingPause};
use self::port::Port;
use self::scheduler::{Ets, Turns};
use self::slot::Slot;
use self::watched::Watchdogs;
use crate::event::Event;
use crate::frame::{Content, Fifo, PacketId};
use crate::ids::{HostId, SlotId, SwitchId};
use crate::near::Near;
use crate::plan::Plan;
use pauseframe_engine::memory::arena;
use pauseframe_units::{IndexVec, LineRate, PortId, Time};
use std::collections::VecDeque;

/// The ports of a cell. Arenas have the numbers of the whole network; a cell touches those of its nodes alone, and what is off has none.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the ports themselves, beside what belongs to them")]
pub(crate) struct Ports {
    pub(crate) ports: IndexVec<PortId, Port>,
    pub(crate) slots: IndexVec<SlotId, Slot>,
    pub(crate) counters: AllCounters,
    /// What each slot was asked, where any class is lossless.
    pub(crate) pauses: IndexVec<SlotId, PauseState>,
    pub(crate) pending_pauses: IndexVec<PortId, VecDeque<PendingPause>>,
    /// What waits in each switch, and what was lost there.
    pub(crate) by_switch: IndexVec<SwitchId, SwitchCounters>,
    ets: Option<Ets>,
    /// With ETS.
    turns: IndexVec<PortId, Turns>,
    pub(crate) watchdogs: Watchdogs,
    /// How unsteady the links of hosts are, where any is.
    unsteady: Jitter,
    pub(crate) capture: Capture,
    pub(crate) errors: Errors,
    pub(crate) border: Border,
    /// SYNs among the packets that were dropped for [`DropReason::NotEct`].
    pub(crate) syn_drops_not_ect: u64,
}

impl Ports {
    pub(crate) fn of(plan: &Plan) -> Ports {
        let (slots, ports) = (plan.slots(), plan.topology.port_count());
        let [paused_slots, paused_ports] = if plan.lossless == 0 { [0, 0] } else { [slots, ports] };
        Ports {
            ports: idle_ports(plan),
            slots: idle_slots(plan),
            counters: AllCounters::new(slots),
            pauses: IndexVec::filled(PauseState::default(), paused_slots),
            pending_pauses: (0..paused_ports).map(|_| VecDeque::new()).collect(),
            by_switch: IndexVec::filled(SwitchCounters::default(), plan.switches.len()),
            ets: Ets::of(&plan.settings, &plan.priorities),
            turns: Turns::of(&plan.settings, ports),
            watchdogs: Watchdogs::default(),
            unsteady: Jitter::of(plan),
            capture: Capture::default(),
            errors: Errors::default(),
            border: Border::default(),
            syn_drops_not_ect: 0,
        }
    }

    /// Appends a packet to its slot at `port`; true if the port has to be looked after, as it is not bound to go on.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, port: PortId, slot: SlotId, index: PacketId, near: &mut Near) -> bool {
        let now = near.now();
        // Looked up before anything is written, and so once.
        let (state, slot, packet) = (&mut self.ports[port], &mut self.slots[slot], &mut near.packets[index]);
        let (class, size) = (packet.class, u64::from(packet.size));
        packet.at = now;
        slot.queue.push(&mut near.packets, index);
        slot.join(size, now);
        state.ready |= 1 << class;
        if slot.switch != SwitchId::NONE {
            self.by_switch[slot.switch].join(size);
        }
        !state.tx_pending
    }

    /// Whether the port's next frame is due now; if it comes when the frame in service is over, that is planned.
    #[inline]
    pub(crate) fn is_due(&mut self, port: PortId, near: &mut Near) -> bool {
        let state = &mut self.ports[port];
        if state.tx_pending || (state.eligible() == 0 && state.control.is_empty()) {
            return false;
        }
        if state.busy_until > near.now() {
            state.tx_pending = true;
            near.schedule(state.busy_until, Event::TxDone(port));
            return false;
        }
        true
    }

    /// The port has finished its frame, or a packet is out of the pipeline: whether the next frame is due.
    #[inline(always)]
    pub(crate) fn has_finished(&mut self, port: PortId, near: &mut Near) -> bool {
        let state = &mut self.ports[port];
        if state.busy_until > near.now() {
            // A packet is out of the pipeline, but a pause frame is in service.
            state.in_pipeline = false;
            return self.is_due(port, near);
        }
        if state.tx_pending {
            state.tx_pending = false;
        } else {
            state.in_pipeline = false;
        }
        state.eligible() != 0 || !state.control.is_empty()
    }

    /// Puts a pause frame that waits on the wire: it goes before all packets.
    #[inline(always)]
    pub(crate) fn transmit_control(&mut self, port: PortId, near: &mut Near) -> bool {
        let waits = !self.ports[port].control.is_empty();
        if waits {
            self.transmit_pause(port, near);
        }
        waits
    }

    #[inline(never)]
    fn transmit_pause(&mut self, port: PortId, near: &mut Near) {
        let index = self.ports[port].control.pop(&near.packets).expect("a pause frame waits");
        if let Content::Pause { classes, quanta: 1.. } = near.packets[index].content {
            // Of a whole link class 0 alone counts frames.
            let asked = near.hot.slot(port.reverse(), classes.trailing_zeros() as u8);
            self.counters.rare(asked).pauses_sent += 1;
        }
        self.put_on_wire(port, index, near);
    }

    /// A pause frame is to leave by `port`, as soon as the frame in service is over.
    pub(crate) fn send_control(&mut self, port: PortId, index: PacketId, near: &mut Near) {
        self.ports[port].control.push(&mut near.packets, index);
        if self.is_due(port, near) {
            self.transmit_pause(port, near);
        }
    }

    /// Takes the first packet of a class, and counts it.
    #[inline(always)]
    pub(crate) fn dequeue(&mut self, port: PortId, class: u8, near: &Near) -> PacketId {
        self.take_first(port, class, near).0
    }

    /// The same, and puts it on the wire.
    #[inline(always)]
    pub(crate) fn send_first(&mut self, port: PortId, class: u8, near: &mut Near) {
        let (index, state) = self.take_first(port, class, near);
        if near.hot.tapped {
            self.put_on_tapped_wire(port, index, near);
        } else {
            state.serve(port, index, state.delay, near);
        }
    }

    /// Takes the first packet of a class from its port, and counts it.
    #[inline(always)]
    fn take_first(&mut self, port: PortId, class: u8, near: &Near) -> (PacketId, &mut Port) {
        let (state, slot) = (&mut self.ports[port], &mut self.slots[near.hot.slot(port, class)]);
        let index = slot.queue.head().expect("a ready class has a packet");
        let packet = &near.packets[index];
        slot.queue.advance(packet.next);
        if slot.queue.is_empty() {
            state.ready &= !(1 << class);
        }
        let size = u32::from(packet.size);
        slot.count_sent(size);
        let waited = slot.leave(u64::from(size), near.now());
        if slot.switch != SwitchId::NONE {
            self.by_switch[slot.switch].leave(u64::from(size));
        }
        if !waited {
            near.plan.overdrawn("backlog", port);
        }
        (index, state)
    }

    /// A packet that waited is taken out from amid its queue.
    pub(crate) fn leave_queue(&mut self, port: PortId, index: PacketId, near: &Near) {
        let (class, size) = (near.packets[index].class, u64::from(near.packets[index].size));
        let slot = &mut self.slots[near.hot.slot(port, class)];
        if !slot.leave(size, near.now()) {
            near.plan.overdrawn("backlog", port);
        }
        if slot.switch != SwitchId::NONE {
            self.by_switch[slot.switch].leave(size);
        }
        if slot.queue.is_empty() {
            self.ports[port].ready &= !(1 << class);
        }
        self.forget_waiting(port, class, near);
    }

    /// A packet has left a queue; where the marker counts packets, one waits less.
    pub(crate) fn forget_waiting(&mut self, port: PortId, class: u8, near: &Near) {
        if near.hot.watched_arrivals & 1 << class != 0 {
            let slot = &mut self.slots[near.hot.slot(port, class)];
            let Some(waiting) = slot.waiting.checked_sub(1) else {
                near.plan.overdrawn("packet count", port)
            };
            slot.waiting = waiting;
        }
    }

    /// Puts a frame on the wire; who taps it keeps a copy, damages it, or makes it late.
    #[inline(always)]
    pub(crate) fn put_on_wire(&mut self, port: PortId, index: PacketId, near: &mut Near) {
        if near.hot.tapped {
            self.put_on_tapped_wire(port, index, near);
            return;
        }
        let state = &mut self.ports[port];
        state.serve(port, index, state.delay, near);
    }

    /// The same on a wire that is looked at, bad or unsteady.
    #[cold]
    #[inline(never)]
    fn put_on_tapped_wire(&mut self, port: PortId, index: PacketId, near: &mut Near) {
        let state = &mut self.ports[port];
        let delay = self.unsteady.delay(state, index, near);
        state.serve(port, index, delay, near);
        self.capture.take(port, state.from_host != HostId::NONE, index, near);
        self.errors.damage(port, index, near);
    }

    /// A packet that meets an idle port goes straight to the wire: it never waits and is in no backlog.
    #[inline(always)]
    pub(crate) fn send_at_once(&mut self, port: PortId, index: PacketId, class: u8, near: &mut Near) {
        let size = u32::from(near.packets[index].size);
        self.slots[near.hot.slot(port, class)].count_sent(size);
        if near.hot.tapped {
            self.put_on_tapped_wire(port, index, near);
            return;
        }
        let state = &mut self.ports[port];
        debug_assert!(state.ready == 0 && state.control.is_empty(), "an idle port has nothing to send");
        state.serve_last(port, index, state.delay, near);
    }

    /// A packet ends here; the reason is counted at the egress that it was bound for.
    #[cold]
    pub(crate) fn drop_packet(
        &mut self,
        index: PacketId,
        egress: PortId,
        reason: DropReason,
        near: &mut Near,
    ) {
        let packet = near.packets[index];
        self.counters.rare(near.hot.slot(egress, packet.class)).drops[reason as usize] += 1;
        self.count_gone(egress, index, near);
        if reason == DropReason::NotEct && packet.is_syn() {
            self.syn_drops_not_ect += 1;
        }
        if reason == DropReason::HeadroomExceeded {
            near.check_headroom_drop(&packet);
        }
        near.give_up(index);
        near.packets.remove(index);
    }

    /// A packet ends in the switch that would have sent it by `egress`.
    pub(crate) fn count_gone(&mut self, egress: PortId, index: PacketId, near: &Near) {
        let packet = &near.packets[index];
        let switch = self.slots[near.hot.slot(egress, packet.class)].switch;
        if switch != SwitchId::NONE {
            self.by_switch[switch].gone += Gone::sum(std::iter::once(packet));
        }
    }

    pub(crate) fn count_loss(&mut self, port: PortId, class: u8, reason: LossReason, near: &Near) {
        self.counters.rare(near.hot.slot(port, class)).lost[reason as usize] += 1;
    }
}

fn idle_ports(plan: &Plan) -> IndexVec<PortId, Port> {
    let topology = &plan.topology;
    let port = |port| {
        let (channel, peer) = (topology.channel(port), topology.peer(port));
        Port {
            busy_until: Time::ZERO,
            delay: channel.delay,
            rate: LineRate::new(channel.rate),
            in_flight: Fifo::EMPTY,
            control: Fifo::EMPTY,
            to_switch: plan.switch(peer).unwrap_or(SwitchId::NONE),
            to_host: plan.host(peer).unwrap_or(HostId::NONE),
            from_host: plan.host(topology.owner(port)).unwrap_or(HostId::NONE),
            ready: 0,
            paused: 0,
            tx_pending: false,
            in_pipeline: false,
        }
    };
    let mut ports = arena(topology.port_count());
    ports.extend(plan.ports().map(port));
    ports.into_iter().collect()
}

/// The slots of all ports, each with the number of its switch.
fn idle_slots(plan: &Plan) -> IndexVec<SlotId, Slot> {
    let switch = |port: PortId| plan.switch(plan.topology.owner(port)).unwrap_or(SwitchId::NONE);
    let mut slots = arena(plan.slots());
    slots.extend(plan.all_slots().map(|slot| Slot::idle(switch(plan.port_and_class(slot).0))));
    slots.into_iter().collect()
}
