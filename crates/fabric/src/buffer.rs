//! Switch buffers: who may hold how much, by ingress for lossless classes, by egress for lossy ones.
//!
//! A lossless packet is accounted to the (port, class) that it came in by: in the shared part until XOFF, then in
//! the headroom. A lossy packet is accounted to the (port, class) that it leaves by. Space is taken when the
//! packet is in, whole, and given back when its transmission starts: the frame in service is not counted.
//!
//! In a shared buffer the threshold of an ingress moves with the free pool, so what others give back can lower an
//! ingress below it that has itself sent nothing: every release looks whether a paused ingress may go on. A pool
//! knows its paused ingresses and from which free space on the first of them may, so most releases look at one number.

use crate::cell::Cell;
use crate::class::ClassPolicy;
use crate::counters::DropReason;
use crate::packet::{NIL, Packet};
use crate::settings::BufferPolicy;
use pauseframe_engine::EventQueue;
use pauseframe_units::{Bytes, PortId, Time};

/// The thresholds of one ingress (port, class), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// Pause above.
    pub xoff: u64,
    /// Resume at or below.
    pub xon: u64,
    /// Hold at most this much above XOFF.
    pub headroom: u64,
}

impl Thresholds {
    /// Of a buffer of its own: pause when no more than `headroom` is free, resume two full frames lower.
    pub(crate) fn of_buffer(buffer: Bytes, headroom: Bytes, max_frame: u32) -> Thresholds {
        let xoff = buffer.0.saturating_sub(headroom.0);
        let xon = xoff.saturating_sub(2 * u64::from(max_frame));
        Thresholds { xoff, xon, headroom: buffer.0 - xoff }
    }

    /// A lossy ingress that owns `size`: never paused.
    pub(crate) fn of_lossy(size: Bytes) -> Thresholds {
        Thresholds { xoff: size.0, xon: size.0, headroom: 0 }
    }
}

/// What the switch or slow receiver at the other end of a lane holds of what came by it: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Account {
    /// Bytes held.
    pub(crate) bytes: u64,
    /// Of these, those in the headroom (shared buffers).
    pub(crate) in_headroom: u64,
    /// The most that were held.
    pub(crate) most: u64,
    pub(crate) limits: Thresholds,
    /// The lane has been asked to pause.
    pub(crate) pause_sent: bool,
}

impl Account {
    /// It has been asked to pause, and holds no more than XON.
    #[inline(always)]
    pub(crate) fn is_low(&self) -> bool {
        self.pause_sent && self.bytes <= self.limits.xon
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing { bytes: self.bytes, in_headroom: self.in_headroom }
    }
}

/// How an ingress stands in a shared pool: what says whether it may go on.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) bytes: u64,
    pub(crate) in_headroom: u64,
}

/// The rule of a shared pool for one ingress.
#[derive(Clone, Copy)]
pub(crate) struct SharedLimits {
    alpha: f64,
    reserved: u64,
    limits: Thresholds,
}

impl SharedLimits {
    /// Below the threshold of the moment by the hysteresis, two full frames by default (`SAI_BUFFER_PROFILE_ATTR_XON_OFFSET_TH`;
    /// DCQCN, SIGCOMM 2015, §4), and nothing in the headroom.
    pub(crate) fn may_go_on(&self, standing: Standing, free: u64) -> bool {
        let threshold = dynamic_threshold(self.alpha, free).min(self.limits.xoff);
        let resumes_at = threshold.saturating_sub(self.hysteresis());
        standing.in_headroom == 0 && standing.bytes.saturating_sub(self.reserved) <= resumes_at
    }

    /// With less than this free it may not go on; `u64::MAX`: with no matter how much.
    fn needs_free(&self, standing: Standing) -> u64 {
        let beyond = standing.bytes.saturating_sub(self.reserved);
        if standing.in_headroom > 0 || beyond > self.limits.xon {
            return u64::MAX;
        }
        if beyond == 0 {
            return 0;
        }
        // One less, as `dynamic_threshold` rounds; an alpha of 0 makes it infinite, which is `u64::MAX` again.
        (((beyond + self.hysteresis()) as f64 / self.alpha) as u64).saturating_sub(1)
    }

    fn hysteresis(&self) -> u64 {
        self.limits.xoff - self.limits.xon
    }
}

/// A part of a buffer that queues share.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Bytes of it, headroom and reserved bytes not counted.
    size: u64,
    /// Of these, in use.
    pub(crate) used: u64,
    /// Lanes of ingresses that share in it and have been asked to pause.
    pub(crate) paused: Vec<u32>,
    /// With less than this free none of them may go on.
    wake_at: u64,
}

impl Pool {
    pub(crate) fn new(size: u64) -> Pool {
        Pool { size, used: 0, paused: Vec::new(), wake_at: u64::MAX }
    }

    pub(crate) fn free(&self) -> u64 {
        self.free_of(self.used)
    }

    /// What would be free with so many bytes in use.
    pub(crate) fn free_of(&self, used: u64) -> u64 {
        self.size.saturating_sub(used)
    }
}

/// What the accounts need of a packet.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    ingress: PortId,
    /// Of the lane that it came in by, and of the one that it leaves by.
    ingress_class: u8,
    class: u8,
    size: u16,
}

impl Held {
    /// `account_mask`: see [`crate::hot::Hot`].
    #[inline]
    pub(crate) fn of(packet: &Packet, account_mask: u8) -> Held {
        Held {
            ingress: packet.ingress,
            ingress_class: packet.ingress_class & account_mask,
            class: packet.class & account_mask,
            size: packet.size,
        }
    }
}

impl Cell {
    /// Whether `class` is flow-controlled.
    #[inline]
    pub(crate) fn is_lossless(&self, class: u8) -> bool {
        self.lossless & 1 << class != 0
    }

    /// Which of a switch's pools a class shares in: lossy classes have one of their own if there are two.
    #[inline]
    pub(crate) fn pool_of(&self, class: u8) -> usize {
        usize::from(self.settings.egress_pool.is_some() && !self.is_lossless(class))
    }

    /// Takes space for a packet that is to leave by `egress`, or says why there is none.
    ///
    /// Of lossy classes with a fixed limit the backlog is the account.
    pub(crate) fn admit(
        &mut self,
        switch: u32,
        index: u32,
        egress: PortId,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let packet = Held::of(&self.packets[index], self.hot.account_mask);
        let lossless = self.is_lossless(packet.class);
        let policy = &self.policies[usize::from(packet.class)];
        if !lossless && self.lanes[self.lane_index(egress, packet.class)].waiting >= policy.packets {
            return Err(DropReason::BufferFull);
        }
        match self.settings.buffer {
            BufferPolicy::PerPort(_) if !lossless => {
                let backlog = self.lanes[self.lane_index(egress, packet.class)].backlog;
                let limit = self.policies[usize::from(packet.class)].limit;
                let fits = backlog + u64::from(packet.size) <= limit;
                if fits { Ok(()) } else { Err(DropReason::BufferFull) }
            }
            BufferPolicy::PerPort(_) | BufferPolicy::IdealOutputQueued(_) => {
                self.admit_to_ingress(index, now, queue)
            }
            BufferPolicy::Shared { .. } if lossless => {
                self.admit_to_shared_ingress(switch, packet, now, queue)
            }
            BufferPolicy::Shared { .. } => self.admit_to_shared_egress(switch, packet, egress),
        }
    }

    /// Dynamic threshold of a lossy egress queue.
    fn admit_to_shared_egress(
        &mut self,
        switch: u32,
        packet: Held,
        egress: PortId,
    ) -> Result<(), DropReason> {
        let (lane, pool) = (self.lane_index(egress, packet.class), self.pool_of(packet.class));
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(packet.class)];
        let backlog = self.lanes[lane].backlog + u64::from(packet.size);
        let pool = &mut self.switches[switch as usize].pools[pool];
        let beyond = backlog.saturating_sub(reserved);
        let taken = beyond.min(u64::from(packet.size));
        if beyond > dynamic_threshold(alpha, pool.free()) || taken > pool.free() {
            return Err(DropReason::BufferFull);
        }
        pool.used += taken;
        Ok(())
    }

    /// Fixed thresholds: everything up to XOFF plus headroom is held.
    #[inline(always)]
    pub(crate) fn admit_to_ingress(
        &mut self,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let packet = Held::of(&self.packets[index], self.hot.account_mask);
        let lane = self.lane_index(packet.ingress, packet.ingress_class);
        let account = &mut self.accounts[lane];
        let bytes = account.bytes + u64::from(packet.size);
        if bytes > account.limits.xoff + account.limits.headroom {
            let lossless = self.is_lossless(packet.class);
            return Err(if lossless { DropReason::HeadroomExceeded } else { DropReason::BufferFull });
        }
        account.bytes = bytes;
        account.most = account.most.max(bytes);
        if bytes > account.limits.xoff && !account.pause_sent {
            self.send_pause(packet.ingress, packet.ingress_class, now, queue);
        }
        Ok(())
    }

    /// Dynamic threshold: the shared part may grow to alpha times the free pool; what comes after that goes to
    /// the headroom of its own (port, class).
    fn admit_to_shared_ingress(
        &mut self,
        switch: u32,
        packet: Held,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let pool = self.pool_of(packet.ingress_class);
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(packet.ingress_class)];
        let size = u64::from(packet.size);
        let pool = &mut self.switches[switch as usize].pools[pool];
        let account = &mut self.accounts[lane_index];
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
            self.send_pause(packet.ingress, packet.ingress_class, now, queue);
        }
        Ok(())
    }

    /// Gives back the space of a packet that leaves by `egress`, whose backlog has already been lowered by it.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: u32, egress: PortId, now: Time, queue: &mut EventQueue) {
        let packet = Held::of(&self.packets[index], self.hot.account_mask);
        let lossless = self.is_lossless(packet.class);
        if self.hot.shared {
            self.release_shared(packet, lossless, egress, now, queue);
        } else if packet.ingress != PortId::NONE {
            let lane = self.lane_index(packet.ingress, packet.ingress_class);
            self.give_back_ingress(lane, packet.ingress, u64::from(packet.size));
            if self.accounts[lane].is_low() {
                self.send_resume(packet.ingress, packet.ingress_class, now, queue);
            }
        }
    }

    #[inline(never)]
    fn release_shared(
        &mut self,
        packet: Held,
        lossless: bool,
        egress: PortId,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let (switch, pool) = (self.switch_number(egress) as usize, self.pool_of(packet.class));
        let given_back = if !lossless {
            self.leave_shared_egress(packet, egress)
        } else if packet.ingress != PortId::NONE {
            self.leave_shared_ingress(packet, switch)
        } else {
            return; // A CNM of this switch: it came by no port and is in no account.
        };
        let pool = &mut self.switches[switch].pools[pool];
        let Some(used) = pool.used.checked_sub(given_back) else { self.overdrawn("shared pool", egress) };
        pool.used = used;
        if pool.free() >= pool.wake_at {
            self.wake_paused(switch, packet.class, now, queue);
        }
    }

    /// Lowers an ingress account.
    #[inline(always)]
    pub(crate) fn give_back_ingress(&mut self, lane: usize, ingress: PortId, size: u64) {
        let Some(left) = self.accounts[lane].bytes.checked_sub(size) else {
            self.overdrawn("ingress account", ingress.reverse());
        };
        self.accounts[lane].bytes = left;
    }

    /// What a lossy packet has had of the pool.
    fn leave_shared_egress(&self, packet: Held, egress: PortId) -> u64 {
        let reserved = self.policies[usize::from(packet.class)].reserved;
        let size = u64::from(packet.size);
        let before = self.lanes[self.lane_index(egress, packet.class)].backlog + size;
        before.saturating_sub(reserved).min(size)
    }

    /// What a lossless packet has had of the pool: the headroom empties first, as the last to have been filled.
    fn leave_shared_ingress(&mut self, packet: Held, switch: usize) -> u64 {
        let reserved = self.policies[usize::from(packet.ingress_class)].reserved;
        let lane = self.lane_index(packet.ingress, packet.ingress_class);
        let account = &mut self.accounts[lane];
        let size = u64::from(packet.size);
        let from_headroom = account.in_headroom.min(size);
        let shared_before = account.bytes - account.in_headroom;
        account.in_headroom -= from_headroom;
        self.give_back_ingress(lane, packet.ingress, size);
        if self.accounts[lane].pause_sent {
            self.expect_to_go_on(lane, packet.ingress_class, switch);
        }
        shared_before.saturating_sub(reserved).min(size - from_headroom)
    }

    /// The rule for an ingress of `class` in its shared pool.
    pub(crate) fn shared_limits(&self, lane: usize, class: u8) -> SharedLimits {
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(class)];
        SharedLimits { alpha, reserved, limits: self.accounts[lane].limits }
    }

    /// A paused ingress stands lower, or is new among the paused: it may need less free space than all others.
    fn expect_to_go_on(&mut self, lane: usize, class: u8, switch: usize) {
        let needed = self.shared_limits(lane, class).needs_free(self.accounts[lane].standing());
        let pool = self.pool_of(class);
        let pool = &mut self.switches[switch].pools[pool];
        pool.wake_at = pool.wake_at.min(needed);
    }

    /// The switch whose shared pool keeps what comes by `ingress`, if one does.
    fn sharing_switch(&self, ingress: PortId) -> Option<usize> {
        let switch = self.ports[ingress].to_switch;
        (self.hot.shared && switch != NIL).then_some(switch as usize)
    }

    /// An ingress is asked to pause: its pool will say when it may go on.
    pub(crate) fn add_to_paused(&mut self, ingress: PortId, class: u8) {
        let Some(switch) = self.sharing_switch(ingress) else { return };
        let (lane, pool) = (self.lane_index(ingress, class), self.pool_of(class));
        self.switches[switch].pools[pool].paused.push(lane as u32);
        self.expect_to_go_on(lane, class, switch);
    }

    /// An ingress is told to go on.
    pub(crate) fn take_from_paused(&mut self, ingress: PortId, class: u8) {
        let Some(switch) = self.sharing_switch(ingress) else { return };
        let (lane, pool) = (self.lane_index(ingress, class) as u32, self.pool_of(class));
        self.switches[switch].pools[pool].paused.retain(|paused| *paused != lane);
    }

    /// So much of a pool is free that a paused ingress may go on: all that may are told so.
    #[cold]
    fn wake_paused(&mut self, switch: usize, class: u8, now: Time, queue: &mut EventQueue) {
        let number = self.pool_of(class);
        let pool = &self.switches[switch].pools[number];
        let (free, paused) = (pool.free(), pool.paused.clone());
        let mut wake_at = u64::MAX;
        for lane in paused {
            let (port, class) = self.port_and_class(lane);
            let (limits, standing) =
                (self.shared_limits(lane as usize, class), self.accounts[lane as usize].standing());
            if limits.may_go_on(standing, free) {
                self.send_resume(port, class, now, queue);
            } else {
                wake_at = wake_at.min(limits.needs_free(standing));
            }
        }
        self.switches[switch].pools[number].wake_at = wake_at;
    }
}

/// Choudhury and Hahne 1998: a queue may hold alpha times what is free.
#[inline]
fn dynamic_threshold(alpha: f64, free: u64) -> u64 {
    (alpha * free as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_account_fits_a_cache_line_as_a_lane_does() {
        assert_eq!((size_of::<Account>(), size_of::<crate::port::Lane>()), (64, 64));
    }

    proptest! {
        /// A pool that is not woken misses nobody: whoever may go on needs no more than is free.
        #[test]
        fn who_may_go_on_needs_no_more_than_is_free(
            bytes in 0u64..6_000_000_000, in_headroom in 0u64..2, free in 0u64..6_000_000_000,
            alpha in 0.0f64..16.0, reserved in 0u64..10_000, xoff in 0u64..6_000_000_000, below in 0u64..20_000,
        ) {
            let limits = Thresholds { xoff, xon: xoff.saturating_sub(below), headroom: 0 };
            let (rule, standing) = (SharedLimits { alpha, reserved, limits }, Standing { bytes, in_headroom });
            if rule.may_go_on(standing, free) {
                prop_assert!(rule.needs_free(standing) <= free);
            }
        }
    }
}
