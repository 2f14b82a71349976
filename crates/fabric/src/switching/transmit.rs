//! What a switch does when a port of its may send: which packet is next, with the marking and the accounts that its departure means.

use super::Switching;
use crate::frame::PacketId;
use crate::near::Near;
use crate::wire::Ports;
use crate::wire::counters::LossReason;
use pauseframe_units::PortId;

impl Switching {
    /// Starts the port, at once or when its frame in service ends, unless it is already bound to go on.
    #[inline]
    pub(crate) fn kick(&mut self, port: PortId, ports: &mut Ports, near: &mut Near) {
        if ports.is_due(port, near) {
            self.transmit_next(port, ports, near);
        }
    }

    /// [`Self::transmit`], out of the run loop's way.
    #[inline(never)]
    fn transmit_next(&mut self, port: PortId, ports: &mut Ports, near: &mut Near) {
        self.transmit(port, ports, near);
    }

    /// Puts the next frame on the wire: a pause frame, else the first packet of the class whose turn it is.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, port: PortId, ports: &mut Ports, near: &mut Near) {
        if ports.transmit_control(port, near) {
            return;
        }
        let class = if near.hot.deliberate {
            let Some(class) = self.choose_class(port, ports, near) else { return };
            class
        } else {
            ports.ports[port].eligible().ilog2() as u8
        };
        if near.hot.plain & 1 << class != 0 {
            ports.send_first(port, class, near);
            return;
        }
        let index = self.dequeue(port, class, ports, near);
        ports.put_on_wire(port, index, near);
    }

    /// The class to serve where that is not just the highest: its packets may still be in the pipeline of the switch, and
    /// the scheduler may be another.
    #[inline(never)]
    fn choose_class(&mut self, port: PortId, ports: &mut Ports, near: &mut Near) -> Option<u8> {
        let startable = if near.hot.pipelined {
            let through = ports.through_pipeline(port, near);
            (through != 0).then_some(through)?
        } else {
            ports.ports[port].eligible()
        };
        if !near.hot.ets {
            return Some(startable.ilog2() as u8);
        }
        // The size of the next packet is that of the one that its queue will give.
        let ranked = startable & near.hot.ranked;
        for class in (0..8u8).filter(|class| ranked & 1 << class != 0) {
            self.bring_forward(port, class, ports, near);
        }
        Some(ports.class_in_turn(port, startable, near))
    }

    /// Takes the next packet of a class whose departure means something.
    #[inline(always)]
    fn dequeue(&mut self, port: PortId, class: u8, ports: &mut Ports, near: &mut Near) -> PacketId {
        let watched = near.hot.watched_departures & 1 << class != 0;
        let index = if watched {
            self.dequeue_watched(port, class, ports, near)
        } else {
            ports.dequeue(port, class, near)
        };
        if near.hot.accounted & 1 << class != 0 {
            // Where a packet goes back the way it came, the resume frame that this may send is for this very port: it has
            // its turn after the packet.
            ports.ports[port].tx_pending = true;
            self.release(index, port, ports, near);
            ports.ports[port].tx_pending = false;
        }
        index
    }

    /// The same where the queue is not first in, first out, or the marker looks at what leaves.
    #[inline(never)]
    fn dequeue_watched(&mut self, port: PortId, class: u8, ports: &mut Ports, near: &mut Near) -> PacketId {
        self.bring_forward(port, class, ports, near);
        let slot = &ports.slots[near.hot.slot(port, class)];
        let found = (slot.backlog, slot.waiting);
        let index = ports.dequeue(port, class, near);
        ports.forget_waiting(port, class, near);
        self.marks_departure(index, port, found, ports, near);
        index
    }

    /// A port has lost its link: its queues are emptied.
    pub(crate) fn discard_queues(&mut self, port: PortId, ports: &mut Ports, near: &mut Near) {
        for class in 0..near.plan.priorities.len() as u8 {
            self.discard_queue(port, class, LossReason::LinkDown, ports, near);
        }
    }

    /// Empties a queue; what was in it counts as lost, not as sent.
    pub(super) fn discard_queue(
        &mut self,
        port: PortId,
        class: u8,
        reason: LossReason,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let slot = near.hot.slot(port, class);
        while ports.ports[port].ready & 1 << class != 0 {
            let index = ports.dequeue(port, class, near);
            let size = u64::from(near.packets[index].size);
            ports.slots[slot].tx_packets -= 1;
            ports.slots[slot].tx_bytes -= size;
            ports.forget_waiting(port, class, near);
            if near.hot.accounted & 1 << class != 0 {
                self.release(index, port, ports, near);
            }
            ports.count_loss(port, class, reason, near);
            ports.count_gone(port, index, near);
            near.give_up(index);
            near.packets.remove(index);
        }
    }
}
