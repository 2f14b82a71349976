//! Switch buffers: who may hold how much, by ingress for lossless classes, by egress for lossy ones (model.md §3).
//!
//! A lossless packet is accounted to the (port, class) that it came in by: in the shared part until XOFF, then in
//! the headroom. A lossy packet is accounted to the (port, class) that it leaves by. Space is taken when the
//! packet is in, whole, and given back when its transmission starts: the frame in service is not counted.

use crate::class::ClassPolicy;
use crate::network::{DropReason, Network};
use crate::packet::Packet;
use crate::settings::BufferPolicy;
use pauseframe_engine::EventQueue;
use pauseframe_units::{Bytes, PortId, Time};

/// The thresholds of one ingress (port, class), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// Pause above.
    pub xoff: u32,
    /// Resume at or below.
    pub xon: u32,
    /// Hold at most this much above XOFF.
    pub headroom: u32,
}

impl Thresholds {
    /// Of a buffer of its own: pause when no more than `headroom` is free, resume two full frames lower.
    pub(crate) fn of_buffer(buffer: Bytes, headroom: Bytes, max_frame: u32) -> Thresholds {
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX / 2);
        let xoff = buffer.0.saturating_sub(headroom.0);
        let xon = xoff.saturating_sub(2 * u64::from(max_frame));
        Thresholds { xoff: small(xoff), xon: small(xon), headroom: small(buffer.0 - xoff) }
    }

    /// A lossy ingress that owns `size`: never paused.
    pub(crate) fn of_lossy(size: Bytes) -> Thresholds {
        let size = u32::try_from(size.0).unwrap_or(u32::MAX / 2);
        Thresholds { xoff: size, xon: size, headroom: 0 }
    }
}

/// A part of a buffer that queues share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pool {
    /// Bytes of it, headroom and reserved bytes not counted.
    size: u64,
    /// Of these, in use.
    used: u64,
}

impl Pool {
    fn free(self) -> u64 {
        self.free_of(self.used)
    }

    /// What would be free with so many bytes in use.
    pub(crate) fn free_of(self, used: u64) -> u64 {
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

impl Network {
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

    /// The pools of a shared buffer of `size` bytes, of which headroom and reserved bytes have `taken` some, by switch
    /// and pool.
    pub(crate) fn set_pools(&mut self, size: Bytes, taken: &[[u64; 2]]) {
        let egress = self.settings.egress_pool.unwrap_or(Bytes::ZERO).0.min(size.0);
        let sizes = [size.0 - egress, egress];
        for (switch, taken) in self.switches.iter_mut().zip(taken) {
            for ((pool, size), taken) in switch.pools.iter_mut().zip(sizes).zip(taken) {
                pool.size = size.saturating_sub(*taken);
                if pool.size == 0 && *taken > 0 {
                    let name = &self.topology.nodes()[switch.node].name;
                    self.warnings.push(format!(
                        "{name}: headroom and reserved bytes take {} of a buffer of {}: nothing is left to share",
                        Bytes(*taken),
                        Bytes(size)
                    ));
                }
            }
        }
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
        match self.settings.buffer {
            BufferPolicy::PerPort(_) if !lossless => {
                let backlog = self.lanes[self.lane_index(egress, packet.class)].backlog;
                let limit = self.policies[usize::from(packet.class)].limit;
                let fits = backlog + u32::from(packet.size) <= limit;
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
        let backlog = u64::from(self.lanes[lane].backlog) + u64::from(packet.size);
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
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let limits = self.thresholds[lane_index];
        let lane = &mut self.lanes[lane_index];
        let ingress = lane.ingress + u32::from(packet.size);
        if ingress > limits.xoff + limits.headroom {
            let lossless = self.is_lossless(packet.class);
            return Err(if lossless { DropReason::HeadroomExceeded } else { DropReason::BufferFull });
        }
        lane.ingress = ingress;
        lane.ingress_max = lane.ingress_max.max(ingress);
        if ingress > limits.xoff && !lane.pause_sent {
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
        let pool = self.pool_of(packet.class);
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(packet.class)];
        let limits = self.thresholds[lane_index];
        let size = u32::from(packet.size);
        let pool = &mut self.switches[switch as usize].pools[pool];
        let lane = &mut self.lanes[lane_index];
        let beyond = u64::from(lane.ingress - lane.in_headroom + size).saturating_sub(reserved);
        let free = pool.free();
        let threshold = dynamic_threshold(alpha, free).min(u64::from(limits.xoff));
        let taken = beyond.min(u64::from(size));
        if lane.in_headroom == 0 && beyond <= threshold && taken <= free {
            pool.used += taken;
        } else if lane.in_headroom + size <= limits.headroom {
            lane.in_headroom += size;
        } else {
            return Err(DropReason::HeadroomExceeded);
        }
        lane.ingress += size;
        lane.ingress_max = lane.ingress_max.max(lane.ingress);
        if lane.in_headroom > 0 && !lane.pause_sent {
            self.send_pause(packet.ingress, packet.ingress_class, now, queue);
        }
        Ok(())
    }

    /// Gives back the space of a packet that leaves by `egress`, whose backlog has already been lowered by it.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: u32, egress: PortId, now: Time, queue: &mut EventQueue) {
        let packet = Held::of(&self.packets[index], self.hot.account_mask);
        let shared = self.hot.shared;
        if self.is_lossless(packet.class) {
            if packet.ingress == PortId::NONE {
                return; // A CNM of this switch: it came by no port.
            }
            if shared {
                self.release_shared_ingress(packet, egress);
            } else {
                let lane = self.lane_index(packet.ingress, packet.ingress_class);
                self.give_back_ingress(lane, packet.ingress, u32::from(packet.size));
            }
            self.resume_if_low(packet, egress, now, queue);
        } else if shared {
            self.release_shared_egress(packet, egress);
        } else if packet.ingress != PortId::NONE {
            let lane = self.lane_index(packet.ingress, packet.ingress_class);
            self.give_back_ingress(lane, packet.ingress, u32::from(packet.size));
        }
    }

    /// Lowers an ingress account.
    #[inline(always)]
    pub(crate) fn give_back_ingress(&mut self, lane: usize, ingress: PortId, size: u32) {
        let Some(left) = self.lanes[lane].ingress.checked_sub(size) else {
            self.overdrawn("ingress account", ingress.reverse());
        };
        self.lanes[lane].ingress = left;
    }

    /// Lowers the use of a pool of the switch that `egress` belongs to.
    fn give_back_shared(&mut self, egress: PortId, pool: usize, bytes: u64) {
        let pool = &mut self.switch_of(egress).pools[pool];
        let Some(used) = pool.used.checked_sub(bytes) else { self.overdrawn("shared pool", egress) };
        pool.used = used;
    }

    fn release_shared_egress(&mut self, packet: Held, egress: PortId) {
        let reserved = self.policies[usize::from(packet.class)].reserved;
        let (lane, pool) = (self.lane_index(egress, packet.class), self.pool_of(packet.class));
        let before = u64::from(self.lanes[lane].backlog + u32::from(packet.size));
        let beyond = before.saturating_sub(reserved).min(u64::from(packet.size));
        self.give_back_shared(egress, pool, beyond);
    }

    /// The headroom empties first, as the last to have been filled.
    fn release_shared_ingress(&mut self, packet: Held, egress: PortId) {
        let reserved = self.policies[usize::from(packet.class)].reserved;
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let pool = self.pool_of(packet.class);
        let lane = &mut self.lanes[lane_index];
        let size = u32::from(packet.size);
        let from_headroom = lane.in_headroom.min(size);
        let shared_before = u64::from(lane.ingress - lane.in_headroom);
        lane.in_headroom -= from_headroom;
        self.give_back_ingress(lane_index, packet.ingress, size);
        let beyond = shared_before.saturating_sub(reserved).min(u64::from(size - from_headroom));
        self.give_back_shared(egress, pool, beyond);
    }

    #[inline(always)]
    fn resume_if_low(&mut self, packet: Held, egress: PortId, now: Time, queue: &mut EventQueue) {
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let lane = &self.lanes[lane_index];
        if !lane.pause_sent {
            return;
        }
        let limits = self.thresholds[lane_index];
        let low = match self.settings.buffer {
            BufferPolicy::PerPort(_) | BufferPolicy::IdealOutputQueued(_) => lane.ingress <= limits.xon,
            BufferPolicy::Shared { .. } => {
                let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(packet.class)];
                let pool = self.pool_of(packet.class);
                let (ingress, in_headroom) = (u64::from(lane.ingress), lane.in_headroom);
                let hysteresis = u64::from(limits.xoff - limits.xon);
                let free = self.switch_of(egress).pools[pool].free();
                let threshold = dynamic_threshold(alpha, free);
                let threshold = threshold.min(u64::from(limits.xoff)).saturating_sub(hysteresis);
                in_headroom == 0 && ingress.saturating_sub(reserved) <= threshold
            }
        };
        if low {
            self.send_resume(packet.ingress, packet.ingress_class, now, queue);
        }
    }
}

/// Choudhury and Hahne 1998: a queue may hold alpha times what is free.
#[inline]
fn dynamic_threshold(alpha: f64, free: u64) -> u64 {
    (alpha * free as f64) as u64
}
