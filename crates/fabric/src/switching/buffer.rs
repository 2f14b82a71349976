//! Switch buffers: who may hold how much, by ingress for lossless classes, by egress for lossy ones.
//!
//! A lossless packet is accounted to the (port, class) that it came in by: in the shared part until XOFF, then in
//! the headroom. A lossy packet is accounted to the (port, class) that it leaves by. Space is taken when the
//! packet is in, whole, and given back when its transmission starts: the frame in service is not counted.
//!
//! In a shared buffer the threshold of an ingress moves with the free pool, so what others give back can lower an
//! ingress below it that has itself sent nothing: every release looks whether a paused ingress may go on. A pool
//! knows its paused ingresses and from which free space on the first of them may, so most releases look at one number.

use super::Switching;
use super::pool::{SharedLimits, Standing, dynamic_threshold};
use crate::class::ClassPolicy;
use crate::frame::PacketId;
use crate::ids::{SlotId, SwitchId};
use crate::near::Near;
use crate::settings::BufferPolicy;
use crate::wire::Ports;
use crate::wire::counters::DropReason;
use crate::wire::ingress::Accounted;
use pauseframe_units::PortId;

impl Switching {
    /// Takes space for a packet that is to leave by `egress`, or says why there is none.
    ///
    /// Of lossy classes with a fixed limit the backlog is the account.
    pub(super) fn admit(
        &mut self,
        switch: SwitchId,
        index: PacketId,
        egress: PortId,
        ports: &mut Ports,
        near: &mut Near,
    ) -> Result<(), DropReason> {
        let packet = Accounted::of(&near.packets[index], near.hot.account_mask);
        let lossless = near.hot.is_lossless(packet.class);
        let policy = &self.policies[usize::from(packet.class)];
        let slot = &ports.slots[near.hot.slot(egress, packet.class)];
        if !lossless && slot.waiting >= policy.packets {
            return Err(DropReason::BufferFull);
        }
        match near.settings.buffer {
            BufferPolicy::PerPort(_) if !lossless => {
                let fits = slot.backlog + u64::from(packet.size) <= policy.limit;
                if fits { Ok(()) } else { Err(DropReason::BufferFull) }
            }
            BufferPolicy::PerPort(_) | BufferPolicy::IdealOutputQueued(_) => {
                self.ingress.admit(index, ports, near)
            }
            BufferPolicy::Shared { .. } if lossless => {
                self.admit_to_shared_ingress(switch, packet, ports, near)
            }
            BufferPolicy::Shared { .. } => self.admit_to_shared_egress(switch, packet, slot.backlog, near),
        }
    }

    /// Dynamic threshold of a lossy egress queue with so much in it.
    fn admit_to_shared_egress(
        &mut self,
        switch: SwitchId,
        packet: Accounted,
        backlog: u64,
        near: &Near,
    ) -> Result<(), DropReason> {
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(packet.class)];
        let backlog = backlog + u64::from(packet.size);
        let pool = &mut self.switches[switch].pools[near.hot.pool_of(packet.class)];
        let beyond = backlog.saturating_sub(reserved);
        let taken = beyond.min(u64::from(packet.size));
        if beyond > dynamic_threshold(alpha, pool.free()) || taken > pool.free() {
            return Err(DropReason::BufferFull);
        }
        pool.used += taken;
        Ok(())
    }

    /// Dynamic threshold: the shared part may grow to alpha times the free pool; what comes after that goes to
    /// the headroom of its own (port, class).
    fn admit_to_shared_ingress(
        &mut self,
        switch: SwitchId,
        packet: Accounted,
        ports: &mut Ports,
        near: &mut Near,
    ) -> Result<(), DropReason> {
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(packet.ingress_class)];
        let size = u64::from(packet.size);
        let pool = &mut self.switches[switch].pools[near.hot.pool_of(packet.ingress_class)];
        let account = &mut self.ingress.accounts[near.hot.slot(packet.ingress, packet.ingress_class)];
        let limits = account.limits;
        let beyond = (account.bytes - account.in_headroom + size).saturating_sub(reserved);
        let free = pool.free();
        let threshold = dynamic_threshold(alpha, free).min(limits.xoff);
        let taken = beyond.min(size);
        if account.in_headroom == 0 && beyond <= threshold && taken <= free {
            pool.used += taken;
        } else if account.in_headroom + size <= limits.headroom {
            account.in_headroom += size;
        } else {
            return Err(DropReason::HeadroomExceeded);
        }
        account.bytes += size;
        account.most = account.most.max(account.bytes);
        if account.in_headroom > 0 && !account.pause_sent {
            self.ingress.send_pause(packet.ingress, packet.ingress_class, ports, near);
            self.add_to_paused(switch, packet.ingress, packet.ingress_class, near);
        }
        Ok(())
    }

    /// Gives back the space of a packet that leaves by `egress`, whose backlog has already been lowered by it.
    #[inline(always)]
    pub(super) fn release(&mut self, index: PacketId, egress: PortId, ports: &mut Ports, near: &mut Near) {
        let packet = Accounted::of(&near.packets[index], near.hot.account_mask);
        if near.hot.shared {
            self.release_shared(packet, egress, ports, near);
        } else if packet.ingress != PortId::NONE {
            let slot = near.hot.slot(packet.ingress, packet.ingress_class);
            self.ingress.give_back(slot, packet.ingress, u64::from(packet.size), near);
            if self.ingress.accounts[slot].is_low() {
                self.ingress.send_resume(packet.ingress, packet.ingress_class, ports, near);
            }
        }
    }

    #[inline(never)]
    fn release_shared(&mut self, packet: Accounted, egress: PortId, ports: &mut Ports, near: &mut Near) {
        let (slot, pool) =
            (&ports.slots[near.hot.slot(egress, packet.class)], near.hot.pool_of(packet.class));
        let switch = near.plan.switch_of(egress);
        let given_back = if !near.hot.is_lossless(packet.class) {
            self.leave_shared_egress(packet, slot.backlog)
        } else if packet.ingress != PortId::NONE {
            self.leave_shared_ingress(packet, switch, near)
        } else {
            return; // A CNM of this switch: it came by no port and is in no account.
        };
        let pool = &mut self.switches[switch].pools[pool];
        let Some(used) = pool.used.checked_sub(given_back) else {
            near.plan.overdrawn("shared pool", egress)
        };
        pool.used = used;
        if pool.free() >= pool.wake_at {
            self.wake_paused(switch, packet.class, ports, near);
        }
    }

    /// What a lossy packet has had of the pool, when so much is left behind it.
    fn leave_shared_egress(&self, packet: Accounted, backlog: u64) -> u64 {
        let reserved = self.policies[usize::from(packet.class)].reserved;
        let size = u64::from(packet.size);
        (backlog + size).saturating_sub(reserved).min(size)
    }

    /// What a lossless packet has had of the pool: the headroom empties first, as the last to have been filled.
    fn leave_shared_ingress(&mut self, packet: Accounted, switch: SwitchId, near: &Near) -> u64 {
        let reserved = self.policies[usize::from(packet.ingress_class)].reserved;
        let slot = near.hot.slot(packet.ingress, packet.ingress_class);
        let account = &mut self.ingress.accounts[slot];
        let size = u64::from(packet.size);
        let from_headroom = account.in_headroom.min(size);
        let shared_before = account.bytes - account.in_headroom;
        account.in_headroom -= from_headroom;
        self.ingress.give_back(slot, packet.ingress, size, near);
        if self.ingress.accounts[slot].pause_sent {
            self.expect_to_go_on(switch, slot, packet.ingress_class, near);
        }
        shared_before.saturating_sub(reserved).min(size - from_headroom)
    }

    /// The rule for an ingress of `class` in its shared pool.
    pub(crate) fn shared_limits(&self, slot: SlotId, class: u8) -> SharedLimits {
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(class)];
        SharedLimits { alpha, reserved, limits: self.ingress.accounts[slot].limits }
    }

    /// A paused ingress stands lower, or is new among the paused: it may need less free space than all others.
    fn expect_to_go_on(&mut self, switch: SwitchId, slot: SlotId, class: u8, near: &Near) {
        let needed = self.shared_limits(slot, class).needs_free(Standing::of(&self.ingress.accounts[slot]));
        let pool = &mut self.switches[switch].pools[near.hot.pool_of(class)];
        pool.wake_at = pool.wake_at.min(needed);
    }

    /// An ingress is asked to pause: its pool will say when it may go on.
    fn add_to_paused(&mut self, switch: SwitchId, ingress: PortId, class: u8, near: &Near) {
        let slot = near.hot.slot(ingress, class);
        self.switches[switch].pools[near.hot.pool_of(class)].paused.push(slot);
        self.expect_to_go_on(switch, slot, class, near);
    }

    /// So much of a pool is free that a paused ingress may go on: all that may are told so.
    #[cold]
    fn wake_paused(&mut self, switch: SwitchId, class: u8, ports: &mut Ports, near: &mut Near) {
        let number = near.hot.pool_of(class);
        let pool = &self.switches[switch].pools[number];
        let (free, paused) = (pool.free(), pool.paused.clone());
        let mut wake_at = u64::MAX;
        for slot in paused {
            let (port, class) = near.hot.port_and_class(slot);
            let (limits, standing) =
                (self.shared_limits(slot, class), Standing::of(&self.ingress.accounts[slot]));
            if limits.may_go_on(standing, free) {
                self.switches[switch].pools[number].paused.retain(|paused| *paused != slot);
                self.ingress.send_resume(port, class, ports, near);
            } else {
                wake_at = wake_at.min(limits.needs_free(standing));
            }
        }
        self.switches[switch].pools[number].wake_at = wake_at;
    }
}
