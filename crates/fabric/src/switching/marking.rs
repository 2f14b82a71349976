//! What becomes of the packets that a marker picks. One gets CE if it is ECT, and is dropped if it is not (RFC 3168 §7; judd §7.1,
//! Fig. 12), unless its class is lossless or told to queue it.

use super::Switching;
use crate::frame::{Carried, Content, PacketId};
use crate::ids::SlotId;
use crate::marker::{Arrival, Departure, Memory, Queue};
use crate::near::Near;
use crate::plan::Plan;
use crate::wire::Ports;
use pauseframe_transport::Ecn;
use pauseframe_units::{IndexVec, PortId};

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

impl Switching {
    /// Whether the marker of the class wants a packet marked that comes to `port`. A marker learns from being asked.
    #[inline(never)]
    pub(super) fn marks_arrival(&mut self, port: PortId, class: u8, ports: &Ports, near: &Near) -> bool {
        let slot = near.hot.slot(port, class);
        let (state, rate) = (&ports.slots[slot], ports.ports[port].rate);
        let arrival = Arrival { backlog: state.backlog, waiting: state.waiting, rate, now: near.now() };
        self.policies[usize::from(class)].marker.on_arrival(&mut self.memories[slot], &arrival)
    }

    /// A packet that was picked cannot be marked and is not worth a lossless promise: it is dropped, as a RED
    /// queue does with what is not ECT.
    pub(super) fn drops_not_ect(&self, index: PacketId, near: &Near) -> bool {
        let packet = &near.packets[index];
        let drops = self.policies[usize::from(packet.class)].marker.drops_not_ect();
        drops && packet.ecn() == Ecn::NotEct && !near.hot.is_lossless(packet.class)
    }

    /// What the marker does when a packet has left a queue of `backlog` bytes and `waiting` packets, itself included.
    /// What is not ECT goes on, it has had its wait.
    pub(super) fn marks_departure(
        &mut self,
        index: PacketId,
        port: PortId,
        (backlog, waiting): (u64, u32),
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let (class, size) = (near.packets[index].class, u32::from(near.packets[index].size));
        let (slot, rate) = (near.hot.slot(port, class), ports.ports[port].rate);
        let departure = Departure { backlog, waiting, size, gap: near.hot.gap, rate, now: near.now() };
        if self.policies[usize::from(class)].marker.on_departure(&mut self.memories[slot], &departure) {
            ports.mark(index, slot, near);
        }
    }
}

impl Ports {
    /// Marks a packet if it is ECN-capable.
    #[inline]
    pub(super) fn mark(&mut self, index: PacketId, slot: SlotId, near: &mut Near) {
        if let Content::Segment(Carried { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }) =
            &mut near.packets[index].content
        {
            *ecn = Ecn::Ce;
            self.counters.mark(slot);
        }
    }
}
