//! Queues whose discipline has a state ([`TimedDiscipline`](crate::queue::TimedDiscipline)): what it decides, done.

use super::PartitionSwitches;
use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::{PacketFifo, PacketId};
use crate::ids::SlotId;
use crate::plan::NetworkPlan;
use crate::queue::{Decision, Departure, TimedDiscipline, TimedQueue};
use crate::wire::counters::DropReason;
use crate::wire::own::PortToken;
use pauseframe_engine::mix_bits;
use pauseframe_units::IndexVec;

/// The state of every slot if any discipline has one, else empty.
pub(super) fn create_timed_queues(plan: &NetworkPlan) -> IndexVec<SlotId, TimedQueue> {
    if plan.policies.iter().all(|policy| policy.codel.is_none()) {
        return IndexVec::new();
    }
    let of_slot = |slot: SlotId| {
        let (port, class) = plan.port_and_class(slot);
        let policy = &plan.policies[usize::from(class)];
        let (Some(codel), Some(_)) = (policy.codel, plan.switch_id(plan.topology.owner(port))) else {
            return TimedQueue::None;
        };
        assert!(!plan.is_lossless(class), "CoDel drops packets, and class {class} is lossless");
        let priority = plan.priorities.get(usize::from(class)).copied().unwrap_or_default();
        let mtu = plan.settings.overhead.frame_size(plan.settings.mtu, priority);
        TimedQueue::new(policy.queue, codel, mtu, mix_bits(plan.settings.seed ^ u64::from(slot.0)))
    };
    plan.all_slots().map(of_slot).collect()
}

impl PartitionSwitches {
    /// The packets of a queue that its discipline keeps.
    pub(crate) fn timed_fifos(&self, slot: SlotId) -> Vec<PacketFifo> {
        let discipline = self.timed.get(slot).and_then(TimedQueue::discipline);
        discipline.map_or_else(Vec::new, TimedDiscipline::fifos)
    }
}

impl<'n> BorrowedSwitch<'n> {
    /// The discipline chooses the packet that `class` sends next, and drops those before it that are due.
    #[inline(never)]
    pub(super) fn choose_timed(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) {
        let decided = self.ask_discipline(port, class, ctx, |discipline, leaving| {
            discipline.choose_next(leaving);
        });
        let Some(Decision { dropped, mark, sojourn, new_flows, .. }) = decided else { return };
        let slot = port.egress_token(class, &ctx.hot);
        let counters = self.ports.rare_counters_mut(slot);
        counters.sojourn_max = counters.sojourn_max.max(sojourn);
        counters.new_flows += new_flows;
        // As in `dequeue_and_release`: a resume frame that leaves by this port leaves after the packet.
        let pending = std::mem::replace(&mut self.ports.port_state_mut(port).tx_pending, true);
        self.drop_taken_out(dropped, DropReason::Codel, port, class, ctx);
        self.ports.port_state_mut(port).tx_pending = pending;
        if let Some(head) = self.ports.egress_queue(slot).queue.head().filter(|_| mark) {
            self.mark_ce(head, slot, ctx);
        }
    }

    /// The discipline makes room for a packet of `class`; false if it does not.
    pub(super) fn evict_timed(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) -> bool {
        let decided = self.ask_discipline(port, class, ctx, |discipline, leaving| discipline.evict(leaving));
        let Some(Decision { dropped, new_flows, .. }) = decided else { return false };
        let has_room = !dropped.is_empty();
        self.ports.rare_counters_mut(port.egress_token(class, &ctx.hot)).new_flows += new_flows;
        self.drop_taken_out(dropped, DropReason::BufferFull, port, class, ctx);
        has_room
    }

    fn ask_discipline(
        &mut self,
        port: PortToken<'n>,
        class: u8,
        ctx: &mut Context,
        ask: impl FnOnce(&mut dyn TimedDiscipline, &mut Departure),
    ) -> Option<Decision> {
        let now = ctx.now();
        let (queue, discipline) = self.queue_and_discipline(port.egress_token(class, &ctx.hot))?;
        let mut leaving = Departure {
            backlog: queue.backlog,
            queue: &mut queue.queue,
            packets: &mut ctx.packets,
            now,
            decision: Decision::default(),
        };
        ask(discipline, &mut leaving);
        Some(leaving.decision)
    }

    fn drop_taken_out(
        &mut self,
        dropped: Vec<PacketId>,
        reason: DropReason,
        port: PortToken<'n>,
        class: u8,
        ctx: &mut Context,
    ) {
        for index in dropped {
            self.drop_queued(index, port, reason, ctx);
        }
        self.update_ready_bit(port, class, ctx);
    }

    /// The chosen packet has left.
    pub(super) fn finish_timed_departure(&mut self, port: PortToken<'n>, class: u8, ctx: &Context) {
        if let Some((_, discipline)) = self.queue_and_discipline(port.egress_token(class, &ctx.hot)) {
            discipline.on_departure();
        }
        self.update_ready_bit(port, class, ctx);
    }

    /// A class is ready while packets wait, in the queue of the port or in those of the discipline.
    fn update_ready_bit(&mut self, port: PortToken<'n>, class: u8, ctx: &Context) {
        if self.ports.egress_queue(port.egress_token(class, &ctx.hot)).backlog > 0 {
            self.ports.port_state_mut(port).ready |= 1 << class;
        }
    }

    /// Puts all packets of a queue back into it, and forgets the state of its discipline.
    pub(super) fn reset_timed_queue(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) {
        if let Some((queue, discipline)) = self.queue_and_discipline(port.egress_token(class, &ctx.hot)) {
            discipline.reset(&mut queue.queue, &mut ctx.packets);
        }
    }
}
