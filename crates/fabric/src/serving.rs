//! What a queue's discipline decides: the packet that is sent next, and the one that makes room for another.

use crate::cell::Cell;
use crate::counters::DropReason;
use crate::packet::Packet;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Time};

impl Cell {
    /// Puts the packet first that `class` is to send next. Packets that are still in the pipeline of the switch
    /// are not among the choice.
    pub(crate) fn bring_forward(&mut self, port: PortId, class: u8, now: Time) {
        let lane = self.lane_index(port, class);
        let latency = self.hot.switch_latency;
        let through = |packet: &Packet| packet.at + latency <= now;
        let discipline = self.policies[usize::from(class)].queue;
        discipline.bring_forward(&mut self.lanes[lane].queue, &mut self.packets, through);
    }

    /// Gives up a packet of the queue that `index` is to join, if the discipline would rather have `index`; false if
    /// there is none.
    #[cold]
    pub(crate) fn displace(&mut self, index: u32, port: PortId, now: Time, queue: &mut EventQueue) -> bool {
        let class = self.packets[index].class;
        let lane = self.lane_index(port, class);
        let discipline = self.policies[usize::from(class)].queue;
        let victim = discipline.take_victim(&mut self.lanes[lane].queue, &mut self.packets, index);
        let Some(victim) = victim else { return false };
        let size = u64::from(self.packets[victim].size);
        let state = &mut self.lanes[lane];
        if !state.leave(size, now) {
            self.overdrawn("backlog", port);
        }
        if let Some(held) = self.held.get_mut(self.lanes[lane].switch as usize) {
            held.bytes = held.bytes.wrapping_sub(size);
        }
        if self.lanes[lane].queue.is_empty() {
            self.ports[port].ready &= !(1 << class);
        }
        self.forget_waiting(port, class);
        if self.hot.accounted & 1 << class != 0 {
            self.release(victim, port, now, queue);
        }
        self.drop_packet(victim, port, DropReason::BufferFull, now);
        true
    }
}
