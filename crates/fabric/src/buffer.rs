//! Switch buffers: who may hold how much, by ingress for lossless classes, by egress for lossy ones (model.md §3).
//!
//! A lossless packet is accounted to the (port, class) that it came in by: in the shared part until XOFF, then in
//! the headroom. A lossy packet is accounted to the (port, class) that it leaves by. Space is taken when the
//! packet is in, whole, and given back when its transmission starts: the frame in service is not counted.

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
    /// `account_mask`: see [`crate::network::Hot`].
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

    /// Takes space for a packet that is to leave by `egress`, or says why there is none.
    ///
    /// Lossy classes with a fixed limit do not come here: their backlog is their account ([`Network::forward`]).
    #[inline]
    pub(crate) fn admit(
        &mut self,
        switch: u32,
        index: u32,
        egress: PortId,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let packet = Held::of(&self.packets[index], self.hot.account_mask);
        match self.settings.buffer {
            BufferPolicy::PerPort(_) => self.admit_to_ingress(packet, now, queue),
            BufferPolicy::Shared { alpha, reserved, .. } if self.is_lossless(packet.class) => {
                self.admit_to_shared_ingress(switch, packet, alpha, reserved, now, queue)
            }
            BufferPolicy::Shared { alpha, reserved, .. } => {
                self.admit_to_shared_egress(switch, packet, egress, alpha, reserved)
            }
        }
    }

    /// Dynamic threshold of a lossy egress queue.
    fn admit_to_shared_egress(
        &mut self,
        switch: u32,
        packet: Held,
        egress: PortId,
        alpha: f64,
        reserved: Bytes,
    ) -> Result<(), DropReason> {
        let lane = self.lane_index(egress, packet.class);
        let backlog = u64::from(self.lanes[lane].backlog) + u64::from(packet.size);
        let switch = &mut self.switches[switch as usize];
        let beyond = backlog.saturating_sub(reserved.0);
        let taken = beyond.min(u64::from(packet.size));
        let free = switch.pool_size - switch.pool_used;
        if beyond > dynamic_threshold(alpha, free) || taken > free {
            return Err(DropReason::BufferFull);
        }
        switch.pool_used += taken;
        Ok(())
    }

    /// Fixed thresholds: everything up to XOFF plus headroom is held.
    #[inline]
    pub(crate) fn admit_to_ingress(
        &mut self,
        packet: Held,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let limits = self.thresholds[lane_index];
        let lane = &mut self.lanes[lane_index];
        let ingress = lane.ingress + u32::from(packet.size);
        if ingress > limits.xoff + limits.headroom {
            return Err(DropReason::HeadroomExceeded);
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
        alpha: f64,
        reserved: Bytes,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let limits = self.thresholds[lane_index];
        let size = u32::from(packet.size);
        let switch = &mut self.switches[switch as usize];
        let lane = &mut self.lanes[lane_index];
        let beyond = u64::from(lane.ingress - lane.in_headroom + size).saturating_sub(reserved.0);
        let free = switch.pool_size - switch.pool_used;
        let threshold = dynamic_threshold(alpha, free).min(u64::from(limits.xoff));
        let taken = beyond.min(u64::from(size));
        if lane.in_headroom == 0 && beyond <= threshold && taken <= free {
            switch.pool_used += taken;
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
    #[inline]
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
                self.lanes[lane].ingress -= u32::from(packet.size);
            }
            self.resume_if_low(packet, egress, now, queue);
        } else if shared {
            self.release_shared_egress(packet, egress);
        }
    }

    fn release_shared_egress(&mut self, packet: Held, egress: PortId) {
        let BufferPolicy::Shared { reserved, .. } = self.settings.buffer else { return };
        let lane = self.lane_index(egress, packet.class);
        let before = u64::from(self.lanes[lane].backlog + u32::from(packet.size));
        let beyond = before.saturating_sub(reserved.0).min(u64::from(packet.size));
        let switch = self.switch_of(egress);
        switch.pool_used -= beyond;
    }

    /// The headroom empties first, as the last to have been filled.
    fn release_shared_ingress(&mut self, packet: Held, egress: PortId) {
        let BufferPolicy::Shared { reserved, .. } = self.settings.buffer else { return };
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let lane = &mut self.lanes[lane_index];
        let size = u32::from(packet.size);
        let from_headroom = lane.in_headroom.min(size);
        let shared_before = u64::from(lane.ingress - lane.in_headroom);
        lane.in_headroom -= from_headroom;
        lane.ingress -= size;
        let beyond = shared_before.saturating_sub(reserved.0).min(u64::from(size - from_headroom));
        self.switch_of(egress).pool_used -= beyond;
    }

    #[inline]
    fn resume_if_low(&mut self, packet: Held, egress: PortId, now: Time, queue: &mut EventQueue) {
        let lane_index = self.lane_index(packet.ingress, packet.ingress_class);
        let lane = &self.lanes[lane_index];
        if !lane.pause_sent {
            return;
        }
        let limits = self.thresholds[lane_index];
        let low = match self.settings.buffer {
            BufferPolicy::PerPort(_) => lane.ingress <= limits.xon,
            BufferPolicy::Shared { alpha, reserved, .. } => {
                let (ingress, in_headroom) = (u64::from(lane.ingress), lane.in_headroom);
                let hysteresis = u64::from(limits.xoff - limits.xon);
                let switch = self.switch_of(egress);
                let threshold = dynamic_threshold(alpha, switch.pool_size - switch.pool_used);
                let threshold = threshold.min(u64::from(limits.xoff)).saturating_sub(hysteresis);
                in_headroom == 0 && ingress.saturating_sub(reserved.0) <= threshold
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
