//! Switch buffer admission: by ingress for lossless classes, by egress for lossy ones.
//!
//! A lossless packet counts for its ingress (port, class): in the shared part up to XOFF, then in the headroom. A lossy packet counts for its egress
//! (port, class). Space is reserved when the packet has arrived completely and released when its transmission starts, so the frame in service is not
//! counted.
//!
//! In a shared buffer the threshold of an ingress moves with the free pool, so a release by one ingress can let another paused ingress resume. A pool
//! keeps its paused ingresses and the smallest free space at which one of them may resume, so most releases check one number.

use super::node::BorrowedSwitch;
use super::pool::{IngressOccupancy, SharedPoolLimits, dynamic_threshold};
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::frame::PacketId;
use crate::settings::BufferPolicy;
use crate::wire::counters::DropReason;
use crate::wire::ingress::{IngressAccount, PacketAccountFields};
use crate::wire::own::{IngressQueueToken, PortToken};
use pauseframe_units::PortId;

impl<'n> BorrowedSwitch<'n> {
    /// Reserves space for a packet to `egress`, or returns the reason for a drop.
    ///
    /// For lossy classes with a fixed limit, the backlog serves as the account.
    pub(super) fn admit_to_buffer(
        &mut self,
        index: PacketId,
        egress: PortToken<'n>,
        ctx: &mut Context,
    ) -> Result<(), DropReason> {
        let packet = PacketAccountFields::of_packet(&ctx.packets[index], ctx.hot.account_mask);
        let lossless = ctx.hot.is_lossless(packet.class);
        let policy = self.class_policy(packet.class);
        let slot = self.ports.egress_queue(egress.egress_token(packet.class, &ctx.hot));
        if !lossless
            && (slot.waiting >= policy.packets || slot.backlog + u64::from(packet.size) > policy.memory)
        {
            return Err(DropReason::BufferFull);
        }
        match ctx.settings.buffer {
            BufferPolicy::PerPort(_) if !lossless => {
                let fits = slot.backlog + u64::from(packet.size) <= policy.limit;
                if fits { Ok(()) } else { Err(DropReason::BufferFull) }
            }
            BufferPolicy::PerPort(_) | BufferPolicy::IdealOutputQueued(_) => {
                self.ports.admit_fixed_ingress(index, ctx)
            }
            BufferPolicy::Shared(_) if lossless => self.admit_shared_ingress(packet, ctx),
            BufferPolicy::Shared(_) => {
                let backlog = slot.backlog;
                self.admit_shared_egress(packet, backlog, ctx)
            }
        }
    }

    /// Applies the dynamic threshold to a lossy egress queue.
    fn admit_shared_egress(
        &mut self,
        packet: PacketAccountFields,
        backlog: u64,
        ctx: &Context,
    ) -> Result<(), DropReason> {
        let ClassPolicy { alpha, reserved, .. } = *self.class_policy(packet.class);
        let backlog = backlog + u64::from(packet.size);
        let pool = self.shared_pool_mut(packet.class, ctx);
        let excess = backlog.saturating_sub(reserved);
        let taken = excess.min(u64::from(packet.size));
        if excess > dynamic_threshold(alpha, pool.free_bytes()) || taken > pool.free_bytes() {
            return Err(DropReason::BufferFull);
        }
        pool.used += taken;
        Ok(())
    }

    /// Dynamic threshold: the shared part may grow to alpha times the free pool. Further packets use the headroom of the (port, class), which may
    /// come from a shared headroom pool.
    fn admit_shared_ingress(
        &mut self,
        packet: PacketAccountFields,
        ctx: &mut Context,
    ) -> Result<(), DropReason> {
        let reserved = self.class_policy(packet.ingress_class).reserved;
        let size = u64::from(packet.size);
        let free = self.shared_pool_mut(packet.ingress_class, ctx).free_bytes();
        let slot = self.ports.checked_ingress_token(packet.ingress, packet.ingress_class, ctx);
        let IngressAccount { bytes, in_headroom, limits, alpha, .. } = *self.ports.ingress_account(slot);
        let excess = (bytes - in_headroom + size).saturating_sub(reserved);
        let threshold = dynamic_threshold(alpha, free).min(limits.xoff);
        let shared = excess.min(size);
        let fits = in_headroom == 0 && excess <= threshold && shared <= free;
        if !fits && in_headroom + size > limits.headroom {
            return Err(DropReason::HeadroomExceeded);
        }
        if !fits && !self.shared_headroom_mut().reserve(size) {
            return Err(DropReason::HeadroomPool);
        }
        let account = self.ports.ingress_account_mut(slot);
        account.in_headroom += if fits { 0 } else { size };
        account.bytes += size;
        account.most = account.most.max(account.bytes);
        let must_pause = account.in_headroom > 0 && !account.pause_sent;
        if fits {
            self.shared_pool_mut(packet.ingress_class, ctx).used += shared;
        }
        if must_pause && self.ports.request_pause(slot, ctx) {
            self.register_paused_ingress(slot, packet.ingress_class, ctx);
        }
        Ok(())
    }

    /// Releases the space of a packet that leaves by `egress`; the backlog there no longer includes it.
    #[inline(always)]
    pub(super) fn release_buffer(&mut self, index: PacketId, egress: PortToken<'n>, ctx: &mut Context) {
        let packet = PacketAccountFields::of_packet(&ctx.packets[index], ctx.hot.account_mask);
        if ctx.hot.shared {
            self.reborrow().release_shared_buffer(packet, egress, ctx);
        } else if packet.ingress != PortId::NONE {
            let slot = self.ports.checked_ingress_token(packet.ingress, packet.ingress_class, ctx);
            self.ports.release_ingress(slot, u64::from(packet.size), ctx);
            if self.ports.ingress_account(slot).may_resume() {
                self.ports.reborrow().send_resume_frame(slot, ctx);
            }
        }
    }

    #[inline(never)]
    pub(super) fn release_shared_buffer(
        &mut self,
        packet: PacketAccountFields,
        egress: PortToken<'n>,
        ctx: &mut Context,
    ) {
        let given_back = if !ctx.hot.is_lossless(packet.class) {
            let backlog = self.ports.egress_queue(egress.egress_token(packet.class, &ctx.hot)).backlog;
            self.lossy_shared_bytes(packet, backlog)
        } else if packet.ingress != PortId::NONE {
            self.release_shared_ingress(packet, ctx)
        } else {
            return; // A CNM of this switch: it came by no port and is in no account.
        };
        self.return_to_pool(given_back, egress.port_id(), packet.class, ctx);
    }

    /// Returns bytes of a class to its shared pool.
    pub(super) fn return_to_pool(&mut self, bytes: u64, egress: PortId, class: u8, ctx: &mut Context) {
        let pool = self.shared_pool_mut(class, ctx);
        let Some(used) = pool.used.checked_sub(bytes) else {
            ctx.plan.panic_account_underflow("shared pool", egress)
        };
        pool.used = used;
        if pool.free_bytes() >= pool.min_free_bytes_to_resume {
            self.resume_paused_ingresses(class, ctx);
        }
    }

    /// Pool bytes that a lossy packet occupied, given the backlog left behind it.
    fn lossy_shared_bytes(&self, packet: PacketAccountFields, backlog: u64) -> u64 {
        let size = u64::from(packet.size);
        (backlog + size).saturating_sub(self.class_policy(packet.class).reserved).min(size)
    }

    /// Releases the account of a lossless packet; returns its pool bytes. The headroom, filled last, empties first.
    fn release_shared_ingress(&mut self, packet: PacketAccountFields, ctx: &Context) -> u64 {
        let reserved = self.class_policy(packet.ingress_class).reserved;
        let slot = self.ports.checked_ingress_token(packet.ingress, packet.ingress_class, ctx);
        let account = self.ports.ingress_account_mut(slot);
        let size = u64::from(packet.size);
        let from_headroom = account.in_headroom.min(size);
        let shared_before = account.bytes - account.in_headroom;
        account.in_headroom -= from_headroom;
        self.ports.release_ingress(slot, size, ctx);
        if from_headroom > 0 {
            self.shared_headroom_mut().used -= from_headroom;
        }
        if self.ports.ingress_account(slot).pause_sent {
            self.lower_resume_threshold(slot, packet.ingress_class, ctx);
        }
        shared_before.saturating_sub(reserved).min(size - from_headroom)
    }

    /// The occupancy of an ingress in its shared pool, and its limits.
    fn occupancy_and_limits(
        &self,
        slot: IngressQueueToken<'n>,
        class: u8,
    ) -> (IngressOccupancy, SharedPoolLimits) {
        let account = self.ports.ingress_account(slot);
        (
            IngressOccupancy::of_account(account),
            SharedPoolLimits::of_account(self.class_policy(class), account),
        )
    }

    /// Lowers the free bytes at which the pool resumes ingresses if this paused ingress needs less free space than all others.
    fn lower_resume_threshold(&mut self, slot: IngressQueueToken<'n>, class: u8, ctx: &Context) {
        let (standing, limits) = self.occupancy_and_limits(slot, class);
        let pool = self.shared_pool_mut(class, ctx);
        pool.min_free_bytes_to_resume = pool.min_free_bytes_to_resume.min(limits.resume_threshold(standing));
    }

    /// Registers a paused ingress with its pool, which will resume it.
    fn register_paused_ingress(&mut self, slot: IngressQueueToken<'n>, class: u8, ctx: &Context) {
        self.shared_pool_mut(class, ctx).paused.push(slot.slot_id());
        self.lower_resume_threshold(slot, class, ctx);
    }

    /// Resumes all paused ingresses of a pool that may send again.
    #[cold]
    fn resume_paused_ingresses(&mut self, class: u8, ctx: &mut Context) {
        let pool = self.shared_pool_mut(class, ctx);
        let (free, paused) = (pool.free_bytes(), pool.paused.clone());
        let mut min_free_bytes_to_resume = u64::MAX;
        for id in paused {
            let (port, its) = ctx.hot.port_and_class(id);
            let slot = self.ports.checked_ingress_token(port, its, ctx);
            let (standing, limits) = self.occupancy_and_limits(slot, its);
            if limits.may_resume(standing, free) {
                self.shared_pool_mut(class, ctx).paused.retain(|paused| *paused != id);
                self.ports.send_resume_frame(slot, ctx);
            } else {
                min_free_bytes_to_resume = min_free_bytes_to_resume.min(limits.resume_threshold(standing));
            }
        }
        self.shared_pool_mut(class, ctx).min_free_bytes_to_resume = min_free_bytes_to_resume;
    }
}
