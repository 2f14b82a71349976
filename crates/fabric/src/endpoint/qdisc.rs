//! The queueing discipline of a host (`host.nic_queue` = "codel" or "`fq_codel`"): CoDel between the sockets and the ring, with the defaults of Linux.
//!
//! Sockets have the shares of flows (TCP small queues) as with a queue for each flow, so a packet that leaves or is dropped gives its room back to its
//! socket. Left out: super-packets take turns frame by frame.

use super::host::Host;
use super::node::BorrowedHost;
use crate::context::Context;
use crate::frame::{PacketFifo, PacketId};
use crate::ids::NicQueueId;
use crate::queue::{Decision, Departure, TimedDiscipline, TimedQueue};
use crate::settings::CodelSettings;
use crate::wire::counters::DropReason;
use crate::wire::own::EgressQueueToken;
use pauseframe_engine::mix_bits;
use std::collections::BTreeMap;

/// The packets of a class that wait for the ring.
#[derive(Debug)]
pub(super) struct HostQdisc {
    /// Arrivals that the discipline has not sorted.
    queue: PacketFifo,
    discipline: TimedQueue,
    /// The queue that counts the bytes of each packet's flow.
    owners: BTreeMap<PacketId, NicQueueId>,
    bytes: u64,
    limit: usize,
    memory: u64,
}

impl HostQdisc {
    /// All packets.
    pub(super) fn fifos(&self) -> Vec<PacketFifo> {
        let mut fifos = self.discipline.discipline().map_or_else(Vec::new, TimedDiscipline::fifos);
        fifos.push(self.queue);
        fifos
    }

    fn new(host: &Host, class: u8, ctx: &Context) -> Option<HostQdisc> {
        let queue = ctx.settings.nic_queue.discipline()?;
        let codel = CodelSettings::of(queue);
        let priority = ctx.plan.priorities.get(usize::from(class)).copied().unwrap_or_default();
        let mtu = ctx.settings.overhead.frame_size(ctx.settings.mtu, priority);
        let seed = mix_bits(ctx.settings.seed ^ u64::from(ctx.hot.slot(host.port, class).0));
        Some(HostQdisc {
            queue: PacketFifo::EMPTY,
            discipline: TimedQueue::new(queue, codel, mtu, seed),
            owners: BTreeMap::new(),
            bytes: 0,
            limit: codel.limit as usize,
            memory: codel.memory_limit.0,
        })
    }
}

impl BorrowedHost<'_> {
    /// A packet that finds the ring full joins the discipline; if that is full, it is dropped or displaces others.
    pub(super) fn enqueue_in_qdisc(
        &mut self,
        owner: NicQueueId,
        (class, slot): (u8, EgressQueueToken),
        index: PacketId,
        ctx: &mut Context,
    ) {
        let (now, size) = (ctx.now(), u64::from(ctx.packets[index].size));
        ctx.packets[index].at = now;
        self.ports.egress_queue_mut(slot).add_to_backlog(size, now);
        let host = self.host_mut();
        if host.class_turns(class).qdisc.is_none() {
            let made = HostQdisc::new(host, class, ctx);
            host.class_turns(class).qdisc = made.map(Box::new);
        }
        let Some(qdisc) = &mut host.class_turns(class).qdisc else { return };
        qdisc.queue.push_back(&mut ctx.packets, index);
        qdisc.owners.insert(index, owner);
        qdisc.bytes += size;
        let is_full = qdisc.owners.len() > qdisc.limit || qdisc.bytes > qdisc.memory;
        if is_full {
            self.make_room((class, slot), index, ctx);
        }
    }

    /// `fq_codel` drops packets of its longest flow, CoDel the new one.
    #[cold]
    fn make_room(&mut self, (class, slot): (u8, EgressQueueToken), newest: PacketId, ctx: &mut Context) {
        let decided = self.ask_qdisc(class, ctx, |discipline, leaving| {
            discipline.evict(leaving);
            if leaving.decision.dropped.is_empty() {
                leaving.queue.remove_tail(leaving.packets, newest);
                leaving.decision.dropped.push(newest);
            }
        });
        if let Some(Decision { dropped, new_flows, .. }) = decided {
            self.ports.rare_counters_mut(slot).new_flows += new_flows;
            self.drop_from_qdisc(dropped, (class, slot), DropReason::BufferFull, ctx);
        }
    }

    /// Moves packets into the ring while it takes more, and drops what CoDel drops.
    pub(super) fn refill_from_qdisc(&mut self, class: u8, ctx: &mut Context) {
        let slot = self.port.egress_token(class, &ctx.hot);
        loop {
            let is_empty = self.ports.egress_queue(slot).queue.is_empty();
            if !self.host_mut().has_ring_space(class, is_empty) {
                return;
            }
            let Some(decision) = self.ask_qdisc(class, ctx, |discipline, leaving| {
                discipline.choose_next(leaving);
                discipline.on_departure();
            }) else {
                return;
            };
            let Decision { dropped, chosen, mark, sojourn, new_flows } = decision;
            let counters = self.ports.rare_counters_mut(slot);
            counters.sojourn_max = counters.sojourn_max.max(sojourn);
            counters.new_flows += new_flows;
            self.drop_from_qdisc(dropped, (class, slot), DropReason::Codel, ctx);
            let Some(index) = chosen else { return };
            if mark && ctx.packets[index].mark_ce() {
                self.ports.count_marked(slot, ctx.now());
            }
            let size = u32::from(ctx.packets[index].size);
            let Some(owner) = self.host_mut().forget_in_qdisc(class, index, u64::from(size)) else { return };
            self.host_mut().enter_ring(owner, class, size, ctx);
            let (state, slot) = self.ports.port_and_queue(self.port, slot);
            slot.queue.push_back(&mut ctx.packets, index);
            state.ready |= 1 << class;
            self.host_mut().wake_or_free(owner);
        }
    }

    fn ask_qdisc(
        &mut self,
        class: u8,
        ctx: &mut Context,
        ask: impl FnOnce(&mut dyn TimedDiscipline, &mut Departure),
    ) -> Option<Decision> {
        let now = ctx.now();
        let qdisc = self.host_mut().class_turns(class).qdisc.as_deref_mut()?;
        let mut leaving = Departure {
            queue: &mut qdisc.queue,
            packets: &mut ctx.packets,
            backlog: qdisc.bytes,
            now,
            decision: Decision::default(),
        };
        ask(qdisc.discipline.discipline_mut()?, &mut leaving);
        let decision = leaving.decision;
        if decision.chosen.is_some() {
            qdisc.queue.pop_front(&ctx.packets);
        }
        Some(decision)
    }

    fn drop_from_qdisc(
        &mut self,
        dropped: Vec<PacketId>,
        (class, slot): (u8, EgressQueueToken),
        reason: DropReason,
        ctx: &mut Context,
    ) {
        for index in dropped {
            let size = ctx.packets[index].size;
            let host = self.host_mut();
            if let Some(owner) = host.forget_in_qdisc(class, index, u64::from(size)) {
                host.leave_queue(owner, u32::from(size), ctx);
                host.wake_or_free(owner);
            }
            if !self.ports.egress_queue_mut(slot).remove_from_backlog(u64::from(size), ctx.now()) {
                ctx.plan.panic_account_underflow("backlog", self.port.port_id());
            }
            self.ports.drop_packet(index, self.port, reason, ctx);
        }
    }
}

impl Host {
    /// Forgets a packet that has left the discipline; the queue that counts it.
    fn forget_in_qdisc(&mut self, class: u8, index: PacketId, size: u64) -> Option<NicQueueId> {
        let qdisc = self.class_turns(class).qdisc.as_deref_mut()?;
        qdisc.bytes -= size;
        qdisc.owners.remove(&index)
    }
}
