//! Switch buffers: who may hold how much, by ingress for lossless classes, by egress for lossy ones.
//!
//! A lossless packet is accounted to the (port, class) that it came in by: in the shared part until XOFF, then in
//! the headroom. A lossy packet is accounted to the (port, class) that it leaves by. Space is taken when the
//! packet is in, whole, and given back when its transmission starts: the frame in service is not counted.
//!
//! In a shared buffer the threshold of an ingress moves with the free pool, so what others give back can lower an
//! ingress below it that has itself sent nothing: every release looks whether a paused ingress may go on. A pool
//! knows its paused ingresses and from which free space on the first of them may, so most releases look at one number.

use super::node::SwitchNode;
use super::pool::{SharedLimits, Standing, dynamic_threshold};
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::frame::PacketId;
use crate::settings::BufferPolicy;
use crate::wire::counters::DropReason;
use crate::wire::ingress::{Account, Accounted};
use crate::wire::own::{InSlot, OwnPort};
use pauseframe_units::PortId;

impl<'n> SwitchNode<'n> {
    /// Takes space for a packet that is to leave by `egress`, or says why there is none.
    ///
    /// Of lossy classes with a fixed limit the backlog is the account.
    pub(super) fn admit(
        &mut self,
        index: PacketId,
        egress: OwnPort<'n>,
        ctx: &mut Context,
    ) -> Result<(), DropReason> {
        let packet = Accounted::of(&ctx.packets[index], ctx.hot.account_mask);
        let lossless = ctx.hot.is_lossless(packet.class);
        let policy = self.policy(packet.class);
        let slot = self.ports.slot(egress.slot(packet.class, &ctx.hot));
        if !lossless && slot.waiting >= policy.packets {
            return Err(DropReason::BufferFull);
        }
        match ctx.settings.buffer {
            BufferPolicy::PerPort(_) if !lossless => {
                let fits = slot.backlog + u64::from(packet.size) <= policy.limit;
                if fits { Ok(()) } else { Err(DropReason::BufferFull) }
            }
            BufferPolicy::PerPort(_) | BufferPolicy::IdealOutputQueued(_) => self.ports.admit(index, ctx),
            BufferPolicy::Shared { .. } if lossless => self.admit_to_shared_ingress(packet, ctx),
            BufferPolicy::Shared { .. } => {
                let backlog = slot.backlog;
                self.admit_to_shared_egress(packet, backlog, ctx)
            }
        }
    }

    /// Dynamic threshold of a lossy egress queue with so much in it.
    fn admit_to_shared_egress(
        &mut self,
        packet: Accounted,
        backlog: u64,
        ctx: &Context,
    ) -> Result<(), DropReason> {
        let ClassPolicy { alpha, reserved, .. } = *self.policy(packet.class);
        let backlog = backlog + u64::from(packet.size);
        let pool = self.pool(packet.class, ctx);
        let excess = backlog.saturating_sub(reserved);
        let taken = excess.min(u64::from(packet.size));
        if excess > dynamic_threshold(alpha, pool.free()) || taken > pool.free() {
            return Err(DropReason::BufferFull);
        }
        pool.used += taken;
        Ok(())
    }

    /// Dynamic threshold: the shared part may grow to alpha times the free pool; what comes after that goes to
    /// the headroom of its own (port, class), which may come from a pool of the switch.
    fn admit_to_shared_ingress(&mut self, packet: Accounted, ctx: &mut Context) -> Result<(), DropReason> {
        let ClassPolicy { alpha, reserved, .. } = *self.policy(packet.ingress_class);
        let size = u64::from(packet.size);
        let free = self.pool(packet.ingress_class, ctx).free();
        let slot = self.ports.account_of(packet.ingress, packet.ingress_class, ctx);
        let Account { bytes, in_headroom, limits, .. } = *self.ports.account(slot);
        let excess = (bytes - in_headroom + size).saturating_sub(reserved);
        let threshold = dynamic_threshold(alpha, free).min(limits.xoff);
        let shared = excess.min(size);
        let fits = in_headroom == 0 && excess <= threshold && shared <= free;
        if !fits && in_headroom + size > limits.headroom {
            return Err(DropReason::HeadroomExceeded);
        }
        if !fits && !self.headroom().take(size) {
            return Err(DropReason::HeadroomPool);
        }
        let account = self.ports.account_mut(slot);
        account.in_headroom += if fits { 0 } else { size };
        account.bytes += size;
        account.most = account.most.max(account.bytes);
        let must_pause = account.in_headroom > 0 && !account.pause_sent;
        if fits {
            self.pool(packet.ingress_class, ctx).used += shared;
        }
        if must_pause && self.ports.send_pause(slot, ctx) {
            self.add_to_paused(slot, packet.ingress_class, ctx);
        }
        Ok(())
    }

    /// Gives back the space of a packet that leaves by `egress`, whose backlog has already been lowered by it.
    #[inline(always)]
    pub(super) fn release(&mut self, index: PacketId, egress: OwnPort<'n>, ctx: &mut Context) {
        let packet = Accounted::of(&ctx.packets[index], ctx.hot.account_mask);
        if ctx.hot.shared {
            self.reborrow().release_shared(packet, egress, ctx);
        } else if packet.ingress != PortId::NONE {
            let slot = self.ports.account_of(packet.ingress, packet.ingress_class, ctx);
            self.ports.give_back(slot, u64::from(packet.size), ctx);
            if self.ports.account(slot).is_low() {
                self.ports.reborrow().send_resume(slot, ctx);
            }
        }
    }

    #[inline(never)]
    fn release_shared(&mut self, packet: Accounted, egress: OwnPort<'n>, ctx: &mut Context) {
        let given_back = if !ctx.hot.is_lossless(packet.class) {
            let backlog = self.ports.slot(egress.slot(packet.class, &ctx.hot)).backlog;
            self.leave_shared_egress(packet, backlog)
        } else if packet.ingress != PortId::NONE {
            self.leave_shared_ingress(packet, ctx)
        } else {
            return; // A CNM of this switch: it came by no port and is in no account.
        };
        let pool = self.pool(packet.class, ctx);
        let Some(used) = pool.used.checked_sub(given_back) else {
            ctx.plan.accounting_underflow("shared pool", egress.id())
        };
        pool.used = used;
        if pool.free() >= pool.wake_at {
            self.wake_paused(packet.class, ctx);
        }
    }

    /// What a lossy packet has had of the pool, when so much is left behind it.
    fn leave_shared_egress(&self, packet: Accounted, backlog: u64) -> u64 {
        let size = u64::from(packet.size);
        (backlog + size).saturating_sub(self.policy(packet.class).reserved).min(size)
    }

    /// What a lossless packet has had of the pool: the headroom empties first, as the last to have been filled.
    fn leave_shared_ingress(&mut self, packet: Accounted, ctx: &Context) -> u64 {
        let reserved = self.policy(packet.ingress_class).reserved;
        let slot = self.ports.account_of(packet.ingress, packet.ingress_class, ctx);
        let account = self.ports.account_mut(slot);
        let size = u64::from(packet.size);
        let from_headroom = account.in_headroom.min(size);
        let shared_before = account.bytes - account.in_headroom;
        account.in_headroom -= from_headroom;
        self.ports.give_back(slot, size, ctx);
        if from_headroom > 0 {
            self.headroom().used -= from_headroom;
        }
        if self.ports.account(slot).pause_sent {
            self.expect_to_go_on(slot, packet.ingress_class, ctx);
        }
        shared_before.saturating_sub(reserved).min(size - from_headroom)
    }

    /// How an ingress of `class` stands in its shared pool, and the rule for it.
    fn standing(&self, slot: InSlot<'n>, class: u8) -> (Standing, SharedLimits) {
        let account = self.ports.account(slot);
        (Standing::of(account), SharedLimits::of(self.policy(class), account))
    }

    /// A paused ingress stands lower, or is new among the paused: it may need less free space than all others.
    fn expect_to_go_on(&mut self, slot: InSlot<'n>, class: u8, ctx: &Context) {
        let (standing, limits) = self.standing(slot, class);
        let pool = self.pool(class, ctx);
        pool.wake_at = pool.wake_at.min(limits.needs_free(standing));
    }

    /// An ingress is asked to pause: its pool will say when it may go on.
    fn add_to_paused(&mut self, slot: InSlot<'n>, class: u8, ctx: &Context) {
        self.pool(class, ctx).paused.push(slot.id());
        self.expect_to_go_on(slot, class, ctx);
    }

    /// So much of a pool is free that a paused ingress may go on: all that may are told so.
    #[cold]
    fn wake_paused(&mut self, class: u8, ctx: &mut Context) {
        let pool = self.pool(class, ctx);
        let (free, paused) = (pool.free(), pool.paused.clone());
        let mut wake_at = u64::MAX;
        for id in paused {
            let (port, its) = ctx.hot.port_and_class(id);
            let slot = self.ports.account_of(port, its, ctx);
            let (standing, limits) = self.standing(slot, its);
            if limits.may_go_on(standing, free) {
                self.pool(class, ctx).paused.retain(|paused| *paused != id);
                self.ports.send_resume(slot, ctx);
            } else {
                wake_at = wake_at.min(limits.needs_free(standing));
            }
        }
        self.pool(class, ctx).wake_at = wake_at;
    }
}
