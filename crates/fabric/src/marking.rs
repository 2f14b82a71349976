//! What becomes of the packets that a marker picks. One gets CE if it is ECT, and is dropped if it is not (RFC 3168 §7; judd §7.1,
//! Fig. 12), unless its class is lossless or told to queue it.

use crate::cell::Cell;
use crate::class::ClassPolicy;
use crate::marker::{Arrival, Departure, Memory, Queue};
use pauseframe_transport::Ecn;
use pauseframe_units::{PortId, Priority, Time};

/// What the markers remember of every lane, if any is asked about packets; else nothing.
pub(crate) fn memories(
    seed: u64,
    policies: &[ClassPolicy],
    priorities: &[Priority],
    ports: usize,
    class_bits: u32,
) -> Vec<Memory> {
    if !policies.iter().any(|policy| policy.watches_arrivals() || policy.watches_departures()) {
        return Vec::new();
    }
    let lanes = (0..(ports as u32) << class_bits).map(|lane| {
        let class = (lane & ((1 << class_bits) - 1)) as usize;
        let priority = priorities.get(class).copied().unwrap_or_default();
        policies[class].marker.memory(&Queue::new(seed, PortId(lane >> class_bits), priority))
    });
    lanes.collect()
}

impl Cell {
    /// Whether the marker of the class wants a packet marked that comes to `port`. A marker learns from being asked.
    #[inline(never)]
    pub(crate) fn marks_arrival(&mut self, port: PortId, class: u8, now: Time) -> bool {
        let lane_index = self.lane_index(port, class);
        let lane = &self.lanes[lane_index];
        let rate = self.ports[port].rate;
        let arrival = Arrival { backlog: lane.backlog, waiting: lane.waiting, rate, now };
        self.policies[usize::from(class)].marker.on_arrival(&mut self.memories[lane_index], &arrival)
    }

    /// A packet that was picked cannot be marked and is not worth a lossless promise: it is dropped, as a RED
    /// queue does with what is not ECT.
    pub(crate) fn drops_not_ect(&self, index: u32) -> bool {
        let packet = &self.packets[index];
        let drops = self.policies[usize::from(packet.class)].marker.drops_not_ect();
        drops && packet.ecn == Ecn::NotEct && !self.is_lossless(packet.class)
    }

    /// Marks a packet if it is ECN-capable.
    #[inline]
    pub(crate) fn mark(&mut self, index: u32, lane: usize) {
        let packet = &mut self.packets[index];
        if matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1) {
            packet.ecn = Ecn::Ce;
            self.counters[lane].ecn_marks += 1;
        }
    }

    /// What the marker does when a packet has left a queue of `backlog` bytes and `waiting` packets, itself included.
    /// What is not ECT goes on, it has had its wait.
    pub(crate) fn marks_departure(
        &mut self,
        index: u32,
        port: PortId,
        (backlog, waiting): (u64, u32),
        now: Time,
    ) {
        let (class, size) = (self.packets[index].class, u32::from(self.packets[index].size));
        let lane = self.lane_index(port, class);
        let rate = self.ports[port].rate;
        let departure = Departure { backlog, waiting, size, gap: self.hot.gap, rate, now };
        let marker = self.policies[usize::from(class)].marker;
        if marker.on_departure(&mut self.memories[lane], &departure) {
            self.mark(index, lane);
        }
    }
}
