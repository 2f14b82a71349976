//! ECN marking at switches. A packet that the marker selects gets CE if it is ECT. Otherwise it is dropped (RFC 3168 §7; judd §7.1, Fig. 12), unless
//! its class is lossless or configured to queue it.

use super::node::SwitchNode;
use crate::context::Context;
use crate::frame::{CompactSegment, FrameKind, PacketId, RdmaFrame};
use crate::ids::SlotId;
use crate::marker::{Marker, MarkerState, MarkerStreams, PacketArrival, PacketDeparture};
use crate::plan::Plan;
use crate::wire::own::{OwnPort, OwnSlot};
use pauseframe_transport::Ecn;
use pauseframe_units::IndexVec;

/// The marker of every slot if ports differ, else empty. Hosts never mark, so ports without a value keep the default.
pub(super) fn markers_by_slot(plan: &Plan) -> IndexVec<SlotId, Marker> {
    if !plan.policies.iter().any(|policy| policy.marker.varies_by_port()) {
        return IndexVec::new();
    }
    let of_slot = |slot| {
        let (port, class) = plan.port_and_class(slot);
        let marker = &plan.policies[usize::from(class)].marker;
        marker
            .for_port(&plan.topology.port_name(port), plan.rate_from(port))
            .unwrap_or_else(|_| marker.clone())
    };
    plan.all_slots().map(of_slot).collect()
}

/// The marker state of every slot, if any marker inspects packets; else empty.
pub(super) fn marker_states_by_slot(plan: &Plan) -> IndexVec<SlotId, MarkerState> {
    if !plan.policies.iter().any(|policy| policy.inspects_all_arrivals() || policy.inspects_departures()) {
        return IndexVec::new();
    }
    let of_slot = |slot| {
        let (port, class) = plan.port_and_class(slot);
        let priority = plan.priorities.get(usize::from(class)).copied().unwrap_or_default();
        plan.policies[usize::from(class)].marker.new_queue_state(&MarkerStreams::new(
            plan.settings.seed,
            port,
            priority,
        ))
    };
    plan.all_slots().map(of_slot).collect()
}

impl<'n> SwitchNode<'n> {
    /// Whether the marker selects a packet that arrives at `port`. Updates the marker's state.
    #[inline(never)]
    pub(super) fn should_mark_arrival(&mut self, port: OwnPort<'n>, class: u8, ctx: &Context) -> bool {
        let slot = port.slot(class, &ctx.hot);
        let (state, rate) = (self.ports.slot(slot), self.ports.port(port).rate);
        let arrival = PacketArrival { backlog: state.backlog, waiting: state.waiting, rate, now: ctx.now() };
        let (marker, memory) = self.marker_and_state(class, slot);
        marker.should_mark_arrival(memory, &arrival)
    }

    /// Whether a selected packet is dropped because it is lossy and not ECT, as in a RED queue.
    pub(super) fn drops_not_ect(&self, index: PacketId, ctx: &Context) -> bool {
        let packet = &ctx.packets[index];
        let drops = self.policy(packet.class).marker.drops_not_ect();
        drops && packet.ecn() == Ecn::NotEct && !ctx.hot.is_lossless(packet.class)
    }

    /// Marks a departing packet if the marker selects it. `backlog` and `waiting` include the packet. A packet that is not ECT is sent unmarked.
    pub(super) fn mark_if_due_at_departure(
        &mut self,
        index: PacketId,
        port: OwnPort<'n>,
        (backlog, waiting): (u64, u32),
        ctx: &mut Context,
    ) {
        let (class, size) = (ctx.packets[index].class, u32::from(ctx.packets[index].size));
        let (slot, rate) = (port.slot(class, &ctx.hot), self.ports.port(port).rate);
        let departure = PacketDeparture { backlog, waiting, size, gap: ctx.hot.gap, rate, now: ctx.now() };
        let (marker, memory) = self.marker_and_state(class, slot);
        if marker.should_mark_departure(memory, &departure) {
            self.mark_congestion_experienced(index, slot, ctx);
        }
    }

    /// Marks a packet if it is ECN-capable.
    #[inline]
    pub(super) fn mark_congestion_experienced(
        &mut self,
        index: PacketId,
        slot: OwnSlot<'n>,
        ctx: &mut Context,
    ) {
        if let FrameKind::Segment(CompactSegment { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. })
        | FrameKind::Datagram { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }
        | FrameKind::Foreign { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }
        | FrameKind::Rdma(RdmaFrame { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }) =
            &mut ctx.packets[index].content
        {
            *ecn = Ecn::Ce;
            self.ports.count_mark(slot);
        }
    }
}
