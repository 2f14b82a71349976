//! What a queue's discipline decides: the packet that is sent next, and the one that makes room for another.

use super::node::SwitchNode;
use crate::frame::{Packet, PacketId};
use crate::near::Near;
use crate::wire::counters::DropReason;
use crate::wire::own::OwnPort;

impl<'n> SwitchNode<'n> {
    /// Puts the packet first that `class` is to send next. Packets that are still in the pipeline of the switch
    /// are not among the choice.
    pub(super) fn bring_forward(&mut self, port: OwnPort<'n>, class: u8, near: &mut Near) {
        let (slot, latency, now) = (port.slot(class, &near.hot), near.hot.switch_latency, near.now());
        let through = |packet: &Packet| packet.at + latency <= now;
        let discipline = self.policy(class).queue;
        discipline.bring_forward(&mut self.ports.slot_mut(slot).queue, &mut near.packets, through);
    }

    /// Gives up a packet of the queue that `index` is to join, if the discipline would rather have `index`; false if
    /// there is none.
    #[cold]
    pub(super) fn displace(&mut self, index: PacketId, port: OwnPort<'n>, near: &mut Near) -> bool {
        let class = near.packets[index].class;
        let slot = port.slot(class, &near.hot);
        let discipline = self.policy(class).queue;
        let victim = discipline.take_victim(&mut self.ports.slot_mut(slot).queue, &mut near.packets, index);
        let Some(victim) = victim else { return false };
        self.ports.leave_queue(port, victim, near);
        if near.hot.accounted & 1 << class != 0 {
            self.release(victim, port, near);
        }
        self.ports.drop_packet(victim, port, DropReason::BufferFull, near);
        true
    }
}
