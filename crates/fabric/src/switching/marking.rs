//! What becomes of the packets that a marker picks. One gets CE if it is ECT, and is dropped if it is not (RFC 3168 §7; judd §7.1,
//! Fig. 12), unless its class is lossless or told to queue it.

use super::node::SwitchNode;
use crate::context::Context;
use crate::frame::{Carried, Content, PacketId, RdmaFrame};
use crate::ids::SlotId;
use crate::marker::{Arrival, Departure, Marker, Memory, Queue};
use crate::plan::Plan;
use crate::wire::own::{OwnPort, OwnSlot};
use pauseframe_transport::Ecn;
use pauseframe_units::IndexVec;

/// The marker of every slot, if ports differ; else nothing. Hosts mark nothing, so what no value is for stays as it is.
pub(super) fn markers(plan: &Plan) -> IndexVec<SlotId, Marker> {
    if !plan.policies.iter().any(|policy| policy.marker.varies()) {
        return IndexVec::new();
    }
    let of_slot = |slot| {
        let (port, class) = plan.port_and_class(slot);
        let marker = &plan.policies[usize::from(class)].marker;
        marker.at(&plan.topology.port_name(port), plan.rate_from(port)).unwrap_or_else(|_| marker.clone())
    };
    plan.all_slots().map(of_slot).collect()
}

/// What the markers remember of every slot, if any is asked about packets; else nothing.
pub(super) fn memories(plan: &Plan) -> IndexVec<SlotId, Memory> {
    if !plan.policies.iter().any(|policy| policy.watches_arrivals() || policy.watches_departures()) {
        return IndexVec::new();
    }
    let of_slot = |slot| {
        let (port, class) = plan.port_and_class(slot);
        let priority = plan.priorities.get(usize::from(class)).copied().unwrap_or_default();
        plan.policies[usize::from(class)].marker.memory(&Queue::new(plan.settings.seed, port, priority))
    };
    plan.all_slots().map(of_slot).collect()
}

impl<'n> SwitchNode<'n> {
    /// Whether the marker of the class wants a packet marked that comes to `port`. A marker learns from being asked.
    #[inline(never)]
    pub(super) fn marks_arrival(&mut self, port: OwnPort<'n>, class: u8, ctx: &Context) -> bool {
        let slot = port.slot(class, &ctx.hot);
        let (state, rate) = (self.ports.slot(slot), self.ports.port(port).rate);
        let arrival = Arrival { backlog: state.backlog, waiting: state.waiting, rate, now: ctx.now() };
        let (marker, memory) = self.marker(class, slot);
        marker.on_arrival(memory, &arrival)
    }

    /// A packet that was picked cannot be marked and is not worth a lossless promise: it is dropped, as a RED
    /// queue does with what is not ECT.
    pub(super) fn drops_not_ect(&self, index: PacketId, ctx: &Context) -> bool {
        let packet = &ctx.packets[index];
        let drops = self.policy(packet.class).marker.drops_not_ect();
        drops && packet.ecn() == Ecn::NotEct && !ctx.hot.is_lossless(packet.class)
    }

    /// What the marker does when a packet has left a queue of `backlog` bytes and `waiting` packets, itself included.
    /// What is not ECT goes on, it has had its wait.
    pub(super) fn marks_departure(
        &mut self,
        index: PacketId,
        port: OwnPort<'n>,
        (backlog, waiting): (u64, u32),
        ctx: &mut Context,
    ) {
        let (class, size) = (ctx.packets[index].class, u32::from(ctx.packets[index].size));
        let (slot, rate) = (port.slot(class, &ctx.hot), self.ports.port(port).rate);
        let departure = Departure { backlog, waiting, size, gap: ctx.hot.gap, rate, now: ctx.now() };
        let (marker, memory) = self.marker(class, slot);
        if marker.on_departure(memory, &departure) {
            self.mark(index, slot, ctx);
        }
    }

    /// Marks a packet if it is ECN-capable.
    #[inline]
    pub(super) fn mark(&mut self, index: PacketId, slot: OwnSlot<'n>, ctx: &mut Context) {
        if let Content::Segment(Carried { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. })
        | Content::Datagram { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }
        | Content::Foreign { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }
        | Content::Rdma(RdmaFrame { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }) =
            &mut ctx.packets[index].content
        {
            *ecn = Ecn::Ce;
            self.ports.count_mark(slot);
        }
    }
}
