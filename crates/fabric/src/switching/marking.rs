//! ECN marking at switches. A packet that the marker selects gets CE if it is ECT. Otherwise it is dropped (RFC 3168 §7; judd §7.1, Fig. 12), unless
//! its class is lossless or configured to queue it.

use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::PacketId;
use crate::ids::SlotId;
use crate::marker::{Marker, MarkerRandomStreams, MarkerState, PacketArrival, PacketDeparture};
use crate::plan::NetworkPlan;
use crate::wire::own::{EgressQueueToken, PortToken};
use pauseframe_transport::EcnCodepoint;
use pauseframe_units::IndexVec;

/// The marker of every slot if ports differ, else empty. Hosts never mark, so ports without a value keep the default.
pub(super) fn create_markers(plan: &NetworkPlan) -> IndexVec<SlotId, Marker> {
    if !plan.policies.iter().any(|policy| policy.marker.varies_by_port()) {
        return IndexVec::new();
    }
    let of_slot = |slot| {
        let (port, class) = plan.port_and_class(slot);
        let marker = &plan.policies[usize::from(class)].marker;
        marker
            .for_port(&plan.topology.port_name(port), plan.link_rate(port))
            .unwrap_or_else(|_| marker.clone())
    };
    plan.all_slots().map(of_slot).collect()
}

/// The marker state of every slot, if any marker inspects packets; else empty.
pub(super) fn create_marker_states(plan: &NetworkPlan) -> IndexVec<SlotId, MarkerState> {
    if !plan.policies.iter().any(|policy| policy.needs_every_arrival() || policy.needs_departure_work()) {
        return IndexVec::new();
    }
    let of_slot = |slot| {
        let (port, class) = plan.port_and_class(slot);
        let priority = plan.priorities.get(usize::from(class)).copied().unwrap_or_default();
        plan.policies[usize::from(class)].marker.new_state(&MarkerRandomStreams::new(
            plan.settings.seed,
            port,
            priority,
        ))
    };
    plan.all_slots().map(of_slot).collect()
}

impl<'n> BorrowedSwitch<'n> {
    /// Whether a packet that joins a queue at `port` is marked, or dropped instead.
    #[inline]
    pub(super) fn marker_selects(&mut self, port: PortToken<'n>, class: u8, ctx: &Context) -> bool {
        if ctx.hot.watched_arrivals & 1 << class != 0 {
            return self.decide_arrival_mark(port, class, ctx);
        }
        let slot = port.egress_token(class, &ctx.hot);
        self.ports.egress_queue(slot).backlog > ctx.hot.mark_above[usize::from(class)]
    }

    /// The decision of the marker, whose state it updates.
    #[inline(never)]
    fn decide_arrival_mark(&mut self, port: PortToken<'n>, class: u8, ctx: &Context) -> bool {
        let slot = port.egress_token(class, &ctx.hot);
        let (state, rate) = (self.ports.egress_queue(slot), self.ports.port_state(port).rate);
        let arrival = PacketArrival { backlog: state.backlog, waiting: state.waiting, rate, now: ctx.now() };
        let (marker, memory) = self.marker_and_state(class, slot);
        marker.decide_arrival_mark(memory, &arrival)
    }

    /// Whether a selected packet is dropped because it is lossy and not ECT, as in a RED queue.
    pub(super) fn should_drop_not_ect(&self, index: PacketId, ctx: &Context) -> bool {
        let packet = &ctx.packets[index];
        let drops = self.class_policy(packet.class).marker.drops_not_ect();
        drops && packet.ecn_codepoint() == EcnCodepoint::NotEct && !ctx.hot.is_lossless(packet.class)
    }

    /// Marks a departing packet if the marker selects it. `backlog` and `waiting` include the packet. A packet that is not ECT is sent unmarked.
    pub(super) fn mark_at_departure(
        &mut self,
        index: PacketId,
        port: PortToken<'n>,
        (backlog, waiting): (u64, u32),
        ctx: &mut Context,
    ) {
        let (class, size) = (ctx.packets[index].class, u32::from(ctx.packets[index].size));
        let (slot, rate) = (port.egress_token(class, &ctx.hot), self.ports.port_state(port).rate);
        let departure = PacketDeparture { backlog, waiting, size, gap: ctx.hot.gap, rate, now: ctx.now() };
        let (marker, memory) = self.marker_and_state(class, slot);
        if marker.decide_departure_mark(memory, &departure) {
            self.mark_ce(index, slot, ctx);
        }
    }

    /// A packet that was marked when it joined this queue, and has lost its place there, is not sent: its mark does not count.
    pub(super) fn take_mark_back(&mut self, index: PacketId, slot: EgressQueueToken<'n>, ctx: &mut Context) {
        let packet = ctx.packets[index];
        if packet.ecn_codepoint() == EcnCodepoint::Ce
            && self.ports.take_mark_back(slot, packet.at)
            && let Some(log) = &mut ctx.paths
        {
            let (port, _) = ctx.plan.port_and_class(slot.slot_id());
            log.take_mark_back(&packet, port);
        }
    }

    /// Marks a packet if it is ECN-capable.
    #[inline]
    pub(super) fn mark_ce(&mut self, index: PacketId, slot: EgressQueueToken<'n>, ctx: &mut Context) {
        if ctx.packets[index].mark_ce() {
            self.ports.count_marked(slot, ctx.now());
            if let Some(log) = &mut ctx.paths {
                let (port, _) = ctx.plan.port_and_class(slot.slot_id());
                log.count_mark(&ctx.packets[index], port);
            }
        }
    }
}
