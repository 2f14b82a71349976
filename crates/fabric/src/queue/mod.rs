//! Queue disciplines: in which order a queue gives its packets, and which it gives up when there is no room.
//!
//! Every queue is a chain of packets in the order of their arrival (`packet.rs`); first in, first out needs nothing
//! else and is what `port.rs` does by itself. Another discipline says two things about the chain: which packet is to
//! be first when one leaves, and which is to go when there is no room for a new one. Adding one: its file here, a
//! variant, and its arm in the two matches.

mod pfabric;

use crate::cell::Cell;
use crate::counters::DropReason;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Time};

/// The order of service within a class at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueDiscipline {
    /// First in, first out; what finds no room is dropped.
    Fifo,
    /// pFabric: the flow with the least left goes first, the packet with the most left is dropped.
    Pfabric,
}

impl Cell {
    /// Puts the packet first that `class` is to send next. Packets that are still in the pipeline of the switch
    /// are not among the choice.
    pub(crate) fn bring_forward(&mut self, port: PortId, class: u8, now: Time) {
        let lane = self.lane_index(port, class);
        let latency = self.hot.switch_latency;
        match self.policies[usize::from(class)].queue {
            QueueDiscipline::Fifo => {}
            QueueDiscipline::Pfabric => {
                pfabric::bring_forward(&mut self.lanes[lane].queue, &mut self.packets, |packet| {
                    packet.at + latency <= now
                });
            }
        }
    }

    /// Gives up a packet of the queue that `index` is to join, if the discipline would rather have `index`; false if
    /// there is none.
    #[cold]
    pub(crate) fn displace(&mut self, index: u32, port: PortId, now: Time, queue: &mut EventQueue) -> bool {
        let class = self.packets[index].class;
        let lane = self.lane_index(port, class);
        let victim = match self.policies[usize::from(class)].queue {
            QueueDiscipline::Fifo => None,
            QueueDiscipline::Pfabric => {
                pfabric::take_victim(&mut self.lanes[lane].queue, &mut self.packets, index)
            }
        };
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
