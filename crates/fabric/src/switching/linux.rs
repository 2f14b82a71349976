//! A Linux machine as a switch (docs/models/linux-switch.md): receive rings, interrupts, GRO, one CPU, and egress queues of super-packets.
//!
//! A frame waits in the ring of its port until a poll of the network card takes it (`net/core/dev.c`: `napi_schedule`, `net_rx_action`). The poll
//! merges frames (`napi_gro_receive`, `tcp_gro_receive`, by the rules of `ForwardingGro`) and flushes what it holds at its end (`napi_gro_flush`; the
//! flush after a full budget is that of kernels with HZ < 1000). The CPU then forwards one super-packet after the other. The qdisc admits, drops and
//! marks each as one packet of all its bytes (`pfifo_enqueue`, `red_enqueue`, `qdisc_pkt_len`), and hands it whole to the network card, which cuts it
//! into the frames that arrived. Frames keep their identity here: a super-packet is a run of frames that are handled together.

use super::linux_state::{LinuxSwitchState, QueuedSuperPacket};
use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::event::Event;
use crate::frame::PacketId;
use crate::marker::PacketArrival;
use crate::settings::LinuxSwitchSettings;
use crate::wire::counters::DropReason;
use crate::wire::own::{EgressQueueToken, PortToken};
use pauseframe_units::PortId;

impl<'n> BorrowedSwitch<'n> {
    fn linux_mut(&mut self) -> &mut LinuxSwitchState {
        self.routes_and_switch().1.linux.as_mut().expect("the plan makes every switch a Linux machine")
    }

    /// A frame arrives: the network card writes it into the ring, and interrupts the CPU if that is not at work for this port.
    #[inline(never)]
    pub(super) fn receive_into_ring(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let (port, now) = (ingress.port_id(), ctx.now());
        let packet = &mut ctx.packets[index];
        (packet.at, packet.ingress) = (now, ingress.peer_port_id());
        let state = self.linux_mut();
        let LinuxSwitchSettings { ring: limit, interrupt_delay, .. } = state.settings;
        let ring = state.rings.entry(port).or_default();
        if ring.count >= limit {
            self.ports.reborrow().drop_packet(index, ingress, DropReason::RingFull, ctx);
            return;
        }
        ring.frames.push_back(&mut ctx.packets, index);
        ring.count += 1;
        if std::mem::replace(&mut ring.is_scheduled, true) {
            return;
        }
        if interrupt_delay.0 > 0 {
            ctx.schedule_event(now + interrupt_delay, Event::Interrupt(port));
        } else {
            self.on_interrupt(port, ctx);
        }
    }

    /// The network card of `port` interrupts the CPU.
    pub(crate) fn on_interrupt(&mut self, port: PortId, ctx: &mut Context) {
        let state = self.linux_mut();
        state.poll_list.push_back(port);
        if state.poll.is_none() {
            self.run_cpu(ctx);
        }
    }

    /// The CPU has forwarded the first super-packet of its poll.
    pub(crate) fn on_super_packet_forwarded(&mut self, ctx: &mut Context) {
        self.forward_super_packet(ctx);
        self.run_cpu(ctx);
    }

    /// Goes on with the current poll or begins the next, until the CPU must take its time for a super-packet or nothing is left.
    fn run_cpu(&mut self, ctx: &mut Context) {
        loop {
            let state = self.linux_mut();
            if !state.forwarding.is_empty() {
                let time = state.settings.forwarding_time();
                if time.0 > 0 {
                    let (at, switch) = (ctx.now() + time, self.switch_id());
                    ctx.schedule_event(at, Event::SuperPacketForwarded(switch));
                    return;
                }
                self.forward_super_packet(ctx);
                continue;
            }
            if let Some(poll) = state.poll.take() {
                state.finish_poll(poll, ctx);
            }
            let Some(port) = state.poll_list.pop_front() else { return };
            state.begin_poll(port, ctx);
        }
    }

    fn forward_super_packet(&mut self, ctx: &mut Context) {
        let Some(packet) = self.linux_mut().forwarding.pop_front() else { return };
        let frames: Vec<PacketId> = packet.frames.iter(&ctx.packets).collect();
        // Frames of a super-packet take one way, unless the path of their flow changed between them.
        let ways: Vec<(PortId, u8)> =
            frames.iter().map(|index| self.reborrow().look_up_next_hop(*index, ctx)).collect();
        let mut from = 0;
        for run in ways.chunk_by(|first, next| first == next) {
            let egress = self.ports.port_token(run[0].0, ctx);
            self.enqueue_or_drop(&frames[from..from + run.len()], (egress, run[0].1), ctx);
            from += run.len();
        }
    }

    /// The qdisc of `egress` takes a super-packet or drops it.
    fn enqueue_or_drop(
        &mut self,
        frames: &[PacketId],
        (egress, class): (PortToken<'n>, u8),
        ctx: &mut Context,
    ) {
        if ctx.hot.can_refuse && self.refusal(egress, class, ctx).is_some() {
            for index in frames {
                self.reborrow().drop_if_refused(*index, egress, ctx);
            }
            return;
        }
        let slot = egress.egress_token(class, &ctx.hot);
        let bytes: u64 = frames.iter().map(|index| u64::from(ctx.packets[*index].size)).sum();
        let mut queued = QueuedSuperPacket { frames: frames.len() as u32, bytes, is_dequeued: false };
        let mut waiting = frames;
        if self.ports.port_state(egress).is_idle(ctx.now()) && ctx.hot.direct & 1 << class != 0 {
            // An empty queue takes every super-packet.
            waiting = &frames[1..];
            queued.frames -= 1;
            queued.bytes -= u64::from(ctx.packets[frames[0]].size);
            queued.is_dequeued = true;
            self.ports.transmit_unqueued(egress, frames[0], class, ctx);
        } else {
            match self.judge_super_packet(frames[0], bytes, (egress, slot), ctx) {
                Ok(false) => {}
                Ok(true) => {
                    for index in frames {
                        self.mark_ce(*index, slot, ctx);
                    }
                }
                Err(reason) => {
                    for index in frames {
                        self.ports.reborrow().drop_packet(*index, egress, reason, ctx);
                    }
                    return;
                }
            }
            self.ports.egress_queue_mut(slot).waiting += 1;
        }
        if waiting.is_empty() {
            return;
        }
        self.linux_mut().queued.entry(slot.slot_id()).or_default().push_back(queued);
        for index in waiting {
            self.enqueue_and_start(egress, slot, *index, ctx);
        }
    }

    /// Whether a super-packet of `bytes` that begins with `first` is marked, or the reason why it is dropped.
    fn judge_super_packet(
        &mut self,
        first: PacketId,
        bytes: u64,
        (egress, slot): (PortToken<'n>, EgressQueueToken<'n>),
        ctx: &Context,
    ) -> Result<bool, DropReason> {
        let (class, rate) = (ctx.packets[first].class & 7, self.ports.port_state(egress).rate);
        let dequeued = self.linux_mut().dequeued_bytes(slot.slot_id());
        let queue = self.ports.egress_queue(slot);
        let (backlog, waiting) = (queue.backlog - dequeued, queue.waiting);
        let arrival = PacketArrival { backlog, waiting, rate, now: ctx.now() };
        let (marker, memory) = self.marker_and_state(class, slot);
        let is_selected = marker.decide_arrival_mark(memory, &arrival);
        if is_selected && self.should_drop_not_ect(first, ctx) {
            return Err(DropReason::NotEct);
        }
        let policy = self.class_policy(class);
        let fits = waiting < policy.packets && backlog + bytes <= policy.limit;
        if fits { Ok(is_selected) } else { Err(DropReason::BufferFull) }
    }

    /// A frame has left the queue of a class. With its first frame a super-packet has left the qdisc.
    #[cold]
    #[inline(never)]
    pub(super) fn count_departure(&mut self, port: PortToken<'n>, class: u8, index: PacketId, ctx: &Context) {
        let size = u64::from(ctx.packets[index].size);
        let slot = port.egress_token(class, &ctx.hot).slot_id();
        let queued = self.linux_mut().queued.get_mut(&slot);
        let Some((queued, packet)) = queued.and_then(|queued| {
            let first = queued.pop_front()?;
            Some((queued, first))
        }) else {
            ctx.plan.panic_account_underflow("super-packets", port.port_id())
        };
        if packet.frames > 1 {
            let left = packet.bytes - size;
            queued.push_front(QueuedSuperPacket {
                frames: packet.frames - 1,
                bytes: left,
                is_dequeued: true,
            });
        }
        if !packet.is_dequeued {
            self.ports.uncount_waiting(port, class, ctx);
        }
    }
}
