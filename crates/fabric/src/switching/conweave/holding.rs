//! Packets at the leaf of their receiver: passed on, or held for an earlier one.
//!
//! A held packet occupies the buffer from its arrival on. If its class is accounted by ingress, it is in the account of its ingress and may cause a
//! pause there; otherwise the queue of held packets has the limit of an egress queue. It is marked when it joins the egress queue.

use super::settings_of;
use super::sink::{Arrival, SinkFlow};
use super::state::ConWeaveState;
use crate::context::Context;
use crate::event::{Event, HeldFlowId};
use crate::frame::path_tag::{PathMark, PathTag};
use crate::frame::{PacketFifo, PacketId, PathControlKind};
use crate::settings::BufferPolicy;
use crate::switching::node::BorrowedSwitch;
use crate::switching::pool::dynamic_threshold;
use crate::wire::counters::DropReason;
use crate::wire::own::{EgressQueueToken, PortToken};
use pauseframe_transport::EcnCodepoint;
use pauseframe_units::{PortId, Time};

/// Why held packets go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Release {
    Tail,
    Timer,
    Epoch,
}

impl ConWeaveState {
    fn count_release(&mut self, why: Release) {
        match why {
            Release::Tail => self.counts.releases_by_tail += 1,
            Release::Timer => self.counts.releases_by_timer += 1,
            Release::Epoch => self.counts.releases_by_epoch += 1,
        }
    }

    /// Packets of a flow are held from now on; false if the port holds those of too many.
    fn begin_hold(&mut self, port: PortId, queues: u32) -> bool {
        let held = self.hold_queues.entry(port).or_default();
        if *held >= queues {
            self.counts.overflows += 1;
            return false;
        }
        *held += 1;
        self.counts.hold_queues_max = self.counts.hold_queues_max.max(u64::from(*held));
        true
    }

    fn add_held_bytes(&mut self, bytes: u64) {
        self.held_bytes += bytes;
        self.counts.held_packets += 1;
        self.counts.held_bytes_max = self.counts.held_bytes_max.max(self.held_bytes);
    }
}

impl<'n> BorrowedSwitch<'n> {
    /// A tagged packet has come to the leaf of its receiver, which is behind `port`.
    pub(super) fn arrive_at_sink(
        &mut self,
        ingress: PortToken<'n>,
        index: PacketId,
        port: PortId,
        ctx: &mut Context,
    ) {
        let (now, settings) = (ctx.now(), settings_of(ctx));
        let (packet, tag) = (&ctx.packets[index], ctx.packets.path_tag(index));
        let key = packet.destination_endpoint_key().unwrap_or(packet.route);
        let is_marked = packet.ecn_codepoint() == EcnCodepoint::Ce;
        let state = self.conweave_mut();
        state.forget_idle_flows(now);
        let sink = state.sinks.entry(key).or_insert_with(|| SinkFlow::new(port));
        if sink.holds_earlier_epoch(&tag) {
            self.release_held(key, Release::Epoch, ctx);
        }
        let Some(sink) = self.conweave_mut().sinks.get_mut(&key) else { return };
        let is_first = !sink.holds_packets();
        if is_first {
            sink.held.port = port;
        }
        let mut arrival = sink.on_packet(&tag, now, &settings);
        self.answer(key, is_marked, &tag, arrival, ctx);
        if arrival == Arrival::Hold && is_first && !self.conweave_mut().begin_hold(port, settings.hold_queues)
        {
            arrival = Arrival::Pass;
            self.conweave_mut().sinks.entry(key).and_modify(SinkFlow::give_up_tail);
        }
        match arrival {
            Arrival::Hold => self.hold(ingress, index, key, ctx),
            Arrival::Pass | Arrival::Tail => {
                self.count_late(key, &tag);
                self.send_to_port(ingress, index, port, ctx);
            }
        }
        if arrival == Arrival::Tail && !is_first {
            self.release_held(key, Release::Tail, ctx);
        }
        self.schedule_hold_timer(key, ctx);
    }

    /// Sends what the first leaf wants to know of a packet.
    fn answer(&mut self, key: u32, is_marked: bool, tag: &PathTag, arrival: Arrival, ctx: &mut Context) {
        if is_marked {
            self.send_path_control(key, PathControlKind::Busy, *tag, ctx);
        }
        if tag.mark == PathMark::Request {
            self.send_path_control(key, PathControlKind::Reply, *tag, ctx);
        }
        if arrival == Arrival::Tail {
            self.send_path_control(key, PathControlKind::Clear, *tag, ctx);
        }
    }

    fn count_late(&mut self, key: u32, tag: &PathTag) {
        let state = self.conweave_mut();
        let late = state.sinks.get_mut(&key).is_some_and(|sink| sink.passes_late(tag));
        state.counts.late_packets += u64::from(late);
    }

    /// Holds a packet, or drops it if it has no room.
    fn hold(&mut self, ingress: PortToken<'n>, index: PacketId, key: u32, ctx: &mut Context) {
        let Some(port) = self.conweave_mut().sinks.get(&key).map(|sink| sink.held.port) else { return };
        let egress = self.ports.port_token(port, ctx);
        ctx.packets[index].ingress = ingress.peer_port_id();
        if let Err(reason) = self.admit_held(index, egress, ctx) {
            self.ports.reborrow().drop_packet(index, egress, reason, ctx);
            self.end_hold_if_empty(key);
            return;
        }
        let size = u64::from(ctx.packets[index].size);
        self.ports.count_held(size);
        let state = self.conweave_mut();
        state.add_held_bytes(size);
        let Some(sink) = state.sinks.get_mut(&key) else { return };
        sink.held.fifo.push_back(&mut ctx.packets, index);
        sink.held.packets += 1;
        state.counts.hold_packets_max = state.counts.hold_packets_max.max(sink.held.packets);
    }

    /// Gives the place of a flow among those held back, if nothing of it is held.
    fn end_hold_if_empty(&mut self, key: u32) {
        let state = self.conweave_mut();
        if let Some(sink) = state.sinks.get(&key).filter(|sink| !sink.holds_packets())
            && let Some(queues) = state.hold_queues.get_mut(&sink.held.port)
        {
            *queues -= 1;
        }
    }

    /// Reserves buffer for a packet that is to be held.
    fn admit_held(
        &mut self,
        index: PacketId,
        egress: PortToken<'n>,
        ctx: &mut Context,
    ) -> Result<(), DropReason> {
        let (class, size) = (ctx.packets[index].class & 7, u64::from(ctx.packets[index].size));
        if is_ingress_accounted(class, ctx) {
            return self.admit_to_buffer(index, egress, ctx);
        }
        let slot = egress.egress_token(class, &ctx.hot).slot_id();
        let (alpha, limit) = (self.class_policy(class).alpha, self.class_policy(class).limit);
        let held = self.conweave_mut().held_lossy.get(&slot).copied().unwrap_or_default() + size;
        let fits = if ctx.hot.shared {
            let pool = self.shared_pool_mut(class, ctx);
            let free = pool.free_bytes();
            let fits = held <= dynamic_threshold(alpha, free) && size <= free;
            pool.used += if fits { size } else { 0 };
            fits
        } else {
            held <= limit
        };
        if fits {
            self.conweave_mut().held_lossy.insert(slot, held);
        }
        if fits { Ok(()) } else { Err(DropReason::BufferFull) }
    }

    /// Passes all held packets of a flow on.
    fn release_held(&mut self, key: u32, why: Release, ctx: &mut Context) {
        let now = ctx.now();
        let state = self.conweave_mut();
        state.count_release(why);
        let Some(sink) = state.sinks.get_mut(&key) else { return };
        let mut fifo = std::mem::replace(&mut sink.held.fifo, PacketFifo::EMPTY);
        (sink.held.packets, state.counts.hold_time_max) =
            (0, state.counts.hold_time_max.max(now.saturating_since(sink.held.since)));
        let port = sink.held.port;
        self.end_hold_if_empty(key);
        let egress = self.ports.port_token(port, ctx);
        while let Some(index) = fifo.pop_front(&ctx.packets) {
            let tag = ctx.packets.path_tag(index);
            self.count_late(key, &tag);
            self.pass_held_on(index, egress, ctx);
        }
    }

    /// A held packet joins its egress queue.
    fn pass_held_on(&mut self, index: PacketId, egress: PortToken<'n>, ctx: &mut Context) {
        let (class, size) = (ctx.packets[index].class & 7, u64::from(ctx.packets[index].size));
        let by_ingress = is_ingress_accounted(class, ctx);
        self.ports.uncount_held(size);
        self.conweave_mut().held_bytes -= size;
        let slot = egress.egress_token(class, &ctx.hot);
        self.log_path(index, egress.port_id(), ctx);
        let watched = ctx.hot.watched_arrivals & 1 << class != 0;
        let over = self.marker_selects(egress, class, ctx);
        let is_refused = ctx.hot.can_refuse && self.refusal(egress, class, ctx).is_some();
        let is_dropped = is_refused || over && self.should_drop_not_ect(index, ctx);
        if !by_ingress {
            self.move_lossy_bytes(slot, size, !is_dropped, ctx);
        } else if is_dropped {
            self.release_buffer(index, egress, ctx);
        }
        if is_dropped {
            if !self.reborrow().drop_if_refused(index, egress, ctx) {
                self.ports.reborrow().drop_packet(index, egress, DropReason::NotEct, ctx);
            }
            return;
        }
        if over {
            self.mark_ce(index, slot, ctx);
        }
        if watched {
            self.ports.egress_queue_mut(slot).waiting += 1;
        }
        if ctx.hot.qcn {
            self.reborrow().sample_and_send_cnm(egress, index, ctx);
        }
        self.enqueue_and_start(egress, slot, index, ctx);
    }

    /// Bytes of a lossy packet are no longer held: they count in the egress queue, if the packet joins that.
    fn move_lossy_bytes(&mut self, slot: EgressQueueToken<'n>, size: u64, joins: bool, ctx: &mut Context) {
        let (port, class) = ctx.plan.port_and_class(slot.slot_id());
        if let Some(held) = self.conweave_mut().held_lossy.get_mut(&slot.slot_id()) {
            *held -= size;
        }
        if ctx.hot.shared {
            let reserved = self.class_policy(class).reserved;
            let backlog = self.ports.egress_queue(slot).backlog + size;
            let taken = if joins { backlog.saturating_sub(reserved).min(size) } else { 0 };
            self.return_to_pool(size - taken, port, class, ctx);
        }
    }

    /// A timer of held packets fires.
    pub(crate) fn on_hold_timer(&mut self, held: HeldFlowId, ctx: &mut Context) {
        let now = ctx.now();
        let Some(sink) = self.conweave_mut().sinks.get_mut(&held.to) else { return };
        if sink.timer != Some(now) {
            return;
        }
        sink.timer = None;
        if sink.holds_packets() && sink.held.until <= now {
            sink.give_up_tail();
            let tag = sink.held.fifo.tail().map(|last| ctx.packets.path_tag(last));
            self.release_held(held.to, Release::Timer, ctx);
            if let Some(tag) = tag {
                self.send_path_control(held.to, PathControlKind::Clear, tag, ctx);
            }
        }
        self.schedule_hold_timer(held.to, ctx);
    }

    /// Schedules the time at which held packets are due, if no earlier timer is pending.
    fn schedule_hold_timer(&mut self, key: u32, ctx: &mut Context) {
        let switch = self.switch_id();
        let Some(sink) = self.conweave_mut().sinks.get_mut(&key).filter(|sink| sink.holds_packets()) else {
            return;
        };
        let until = sink.held.until.max(ctx.now());
        if sink.timer.is_none_or(|timer: Time| until < timer) {
            sink.timer = Some(until);
            ctx.schedule_event(until, Event::HoldTimer(HeldFlowId { switch, to: key }));
        }
    }
}

/// Whether the account of packets of a class is that of their ingress.
fn is_ingress_accounted(class: u8, ctx: &Context) -> bool {
    ctx.hot.is_lossless(class & ctx.hot.account_mask)
        || matches!(ctx.settings.buffer, BufferPolicy::IdealOutputQueued(_))
}
