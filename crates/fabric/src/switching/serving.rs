//! What a queue's discipline decides: the packet that is sent next, and the one that makes room for another.

use super::Switching;
use crate::frame::{Packet, PacketId};
use crate::near::Near;
use crate::wire::Ports;
use crate::wire::counters::DropReason;
use pauseframe_units::PortId;

impl Switching {
    /// Puts the packet first that `class` is to send next. Packets that are still in the pipeline of the switch
    /// are not among the choice.
    pub(super) fn bring_forward(&self, port: PortId, class: u8, ports: &mut Ports, near: &mut Near) {
        let (slot, latency, now) = (near.hot.slot(port, class), near.hot.switch_latency, near.now());
        let through = |packet: &Packet| packet.at + latency <= now;
        let discipline = self.policies[usize::from(class)].queue;
        discipline.bring_forward(&mut ports.slots[slot].queue, &mut near.packets, through);
    }

    /// Gives up a packet of the queue that `index` is to join, if the discipline would rather have `index`; false if
    /// there is none.
    #[cold]
    pub(super) fn displace(
        &mut self,
        index: PacketId,
        port: PortId,
        ports: &mut Ports,
        near: &mut Near,
    ) -> bool {
        let class = near.packets[index].class;
        let slot = near.hot.slot(port, class);
        let discipline = self.policies[usize::from(class)].queue;
        let victim = discipline.take_victim(&mut ports.slots[slot].queue, &mut near.packets, index);
        let Some(victim) = victim else { return false };
        ports.leave_queue(port, victim, near);
        if near.hot.accounted & 1 << class != 0 {
            self.release(victim, port, ports, near);
        }
        ports.drop_packet(victim, port, DropReason::BufferFull, near);
        true
    }
}
