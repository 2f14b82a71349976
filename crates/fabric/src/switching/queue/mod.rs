//! Queue disciplines: in which order a queue gives its packets, and which it gives up when there is no room.
//!
//! Every queue is a chain of packets in the order of their arrival (`packet.rs`); first in, first out needs nothing
//! else and is what `port.rs` does by itself. Another discipline says two things about the chain: which packet is to
//! be first when one leaves, and which is to go when there is no room for a new one. Adding one: its file here, a
//! variant, and its arm in the two matches.

mod pfabric;

use super::Switching;
use crate::frame::PacketId;
use crate::near::Near;
use crate::settings::QueueDiscipline;
use crate::wire::Ports;
use crate::wire::counters::DropReason;
use pauseframe_units::PortId;

impl Switching {
    /// Puts the packet first that `class` is to send next. Packets that are still in the pipeline of the switch
    /// are not among the choice.
    pub(super) fn bring_forward(&self, port: PortId, class: u8, ports: &mut Ports, near: &mut Near) {
        let (lane, latency) = (near.hot.lane(port, class), near.hot.switch_latency);
        match self.policies[usize::from(class)].queue {
            QueueDiscipline::Fifo => {}
            QueueDiscipline::Pfabric => {
                let now = near.now();
                pfabric::bring_forward(&mut ports.lanes[lane].queue, &mut near.packets, |packet| {
                    packet.at + latency <= now
                });
            }
        }
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
        let lane = near.hot.lane(port, class);
        let victim = match self.policies[usize::from(class)].queue {
            QueueDiscipline::Fifo => None,
            QueueDiscipline::Pfabric => {
                pfabric::take_victim(&mut ports.lanes[lane].queue, &mut near.packets, index)
            }
        };
        let Some(victim) = victim else { return false };
        ports.leave_queue(port, victim, near);
        if near.hot.accounted & 1 << class != 0 {
            self.release(victim, port, ports, near);
        }
        ports.drop_packet(victim, port, DropReason::BufferFull, near);
        true
    }
}
