//! Marking: which packets a queue answers with CE, and which it drops because they cannot be marked.
//!
//! `Step` is DCTCP's rule (SIGCOMM 2010 §3.1): the instantaneous backlog against one threshold. `Red` is Random Early
//! Detection as Floyd and Jacobson give it (Transactions on Networking 1993, Fig. 2), with Floyd's `gentle` slope above the
//! maximum; another row of values for each class makes it WRED. A packet over the threshold gets CE if it is ECT, and
//! is dropped if it is not (RFC 3168 §7; judd §7.1, Fig. 12), unless its class is lossless or told to queue it.
//! Left out: RED's byte mode (probability in proportion to the packet's size), self-tuning (Adaptive RED). Where
//! RED would drop even ECT packets above its maximum, this one marks all of them.

use super::Switching;
use crate::frame::{Carried, Content, PacketId};
use crate::ids::LaneId;
use crate::near::Near;
use crate::plan::Plan;
use crate::settings::{Marker, Red, Threshold};
use crate::wire::Ports;
use pauseframe_engine::{Rng, stream};
use pauseframe_transport::Ecn;
use pauseframe_units::{IndexVec, PortId, Priority, Span, Time};

/// What RED remembers of one queue.
#[derive(Clone, Debug)]
pub(crate) struct RedQueue {
    /// Exponentially weighted average of the backlog, bytes.
    average: f64,
    /// Packets since the last mark; -1 while the average is below the minimum.
    count: i64,
    /// When the last packet of a queue that is empty has left the wire.
    idle_since: Time,
    rng: Rng,
}

impl RedQueue {
    /// An empty queue that has its own random stream.
    pub(crate) fn new(seed: u64, port: PortId, priority: Priority) -> RedQueue {
        let index = u64::from(port.0) * Priority::COUNT as u64 + u64::from(priority.code_point());
        RedQueue { average: 0.0, count: -1, idle_since: Time::ZERO, rng: stream(seed, "red", index) }
    }

    /// A packet comes to a queue of `backlog` bytes: whether it is to be marked. `slot`: time to send an average packet.
    pub(crate) fn on_arrival(&mut self, red: &Red, backlog: u64, slot: Span, now: Time) -> bool {
        self.update_average(red, backlog, slot, now);
        let p_b = red.probability(self.average);
        if self.average < red.min.0 as f64 {
            self.count = -1;
            return false;
        }
        self.count += 1;
        // Marks are spread evenly: the gap between two is uniform.
        let rest = 1.0 - self.count as f64 * p_b;
        let p_a = if rest > p_b { p_b / rest } else { 1.0 };
        let marked = p_b >= 1.0 || self.rng.unit() < p_a;
        if marked {
            self.count = 0;
        }
        marked
    }

    fn update_average(&mut self, red: &Red, backlog: u64, slot: Span, now: Time) {
        if backlog == 0 && now > self.idle_since {
            // As if so many packets had come to an empty queue meanwhile.
            let slots = (now - self.idle_since).0 as f64 / slot.0.max(1) as f64;
            self.average *= libm::pow(1.0 - red.w_q, slots);
        } else {
            self.average += red.w_q * (backlog as f64 - self.average);
        }
    }

    /// The queue is empty, and its last packet will have left at `at`.
    pub(crate) fn on_empty(&mut self, at: Time) {
        self.idle_since = at;
    }
}

/// The RED state of every lane, if any class has RED; else nothing.
pub(super) fn red_queues(plan: &Plan) -> IndexVec<LaneId, RedQueue> {
    if !plan.policies.iter().any(|policy| policy.marker.is_average()) {
        return IndexVec::new();
    }
    let of_lane = |lane| {
        let (port, class) = plan.port_and_class(lane);
        let priority = plan.priorities.get(usize::from(class)).copied().unwrap_or_default();
        RedQueue::new(plan.settings.seed, port, priority)
    };
    plan.all_lanes().map(of_lane).collect()
}

impl Switching {
    /// Whether the marker of the class wants a packet marked that comes to `port`. RED learns from being asked.
    #[inline(never)]
    pub(super) fn marks_arrival(&mut self, port: PortId, class: u8, ports: &Ports, near: &Near) -> bool {
        let lane = near.hot.lane(port, class);
        let state = &ports.lanes[lane];
        match &self.policies[usize::from(class)].marker {
            Marker::Step { k, at_dequeue: false, .. } => exceeds(*k, state.backlog, state.waiting),
            Marker::Red(red) => {
                let slot = ports.ports[port].rate.rate().serialise(red.average_packet);
                self.red[lane].on_arrival(red, state.backlog, slot, near.now())
            }
            Marker::None | Marker::Step { .. } => false,
        }
    }

    /// A packet over the threshold cannot be marked and is not worth a lossless promise: it is dropped, as a RED
    /// queue does with what is not ECT.
    pub(super) fn drops_not_ect(&self, index: PacketId, near: &Near) -> bool {
        let packet = &near.packets[index];
        let drops = self.policies[usize::from(packet.class)].marker.drops_not_ect();
        drops && packet.ecn() == Ecn::NotEct && !near.hot.is_lossless(packet.class)
    }

    /// What the marker does when a packet has left a queue of `backlog` bytes and `waiting` packets, itself included.
    /// What is not ECT goes on, it has had its wait.
    pub(super) fn marks_departure(
        &mut self,
        index: PacketId,
        port: PortId,
        (backlog, waiting): (u64, u32),
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let (class, size) = (near.packets[index].class, u32::from(near.packets[index].size));
        let lane = near.hot.lane(port, class);
        match self.policies[usize::from(class)].marker {
            Marker::Step { k, at_dequeue: true, .. } if exceeds(k, backlog, waiting) => {
                ports.mark(index, lane, near);
            }
            Marker::Red(_) if backlog == u64::from(size) => {
                let left = near.now() + ports.ports[port].rate.serialise(size + near.hot.gap);
                self.red[lane].on_empty(left);
            }
            _ => {}
        }
    }
}

impl Ports {
    /// Marks a packet if it is ECN-capable.
    #[inline]
    pub(super) fn mark(&mut self, index: PacketId, lane: LaneId, near: &mut Near) {
        if let Content::Segment(Carried { ecn: ecn @ (Ecn::Ect0 | Ecn::Ect1), .. }) =
            &mut near.packets[index].content
        {
            *ecn = Ecn::Ce;
            self.counters.mark(lane);
        }
    }
}

fn exceeds(k: Threshold, backlog: u64, waiting: u32) -> bool {
    match k {
        Threshold::Bytes(k) => backlog > k.0,
        Threshold::Packets(k) => waiting > k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::Bytes;

    /// cee Table I.
    const CEE: Red = Red {
        min: Bytes(25_600),
        max: Bytes(76_800),
        w_q: 0.002,
        p_max: 0.02,
        gentle: false,
        average_packet: Bytes(1000),
        drop_not_ect: true,
    };
    const SLOT: Span = Span(1_000_000);

    fn queue() -> RedQueue {
        RedQueue::new(1, PortId(0), Priority::default())
    }

    #[test]
    fn the_average_of_a_constant_backlog_is_a_geometric_series() {
        let mut queue = queue();
        for arrivals in 1..=2000 {
            queue.update_average(&CEE, 40_000, SLOT, Time::ZERO);
            let exact = 40_000.0 * (1.0 - libm::pow(1.0 - 0.002, f64::from(arrivals)));
            assert!((queue.average - exact).abs() < 1e-6, "{arrivals}: {} not {exact}", queue.average);
        }
    }

    #[test]
    fn averages_computed_by_hand() {
        let red = Red { w_q: 0.25, ..CEE };
        let mut queue = queue();
        // 0 + 4000/4 = 1000; + (9000 - 1000)/4 = 3000; + (0 - 3000)/4 = 2250: the wire still has the last packet.
        for (backlog, average) in [(4000, 1000.0), (9000, 3000.0), (0, 2250.0)] {
            queue.update_average(&red, backlog, SLOT, Time(1));
            queue.on_empty(Time(1_000_000));
            assert_eq!((queue.average, backlog), (average, backlog));
        }
        // Two slots idle: 2250 * 0.75^2.
        queue.update_average(&red, 0, SLOT, Time(3_000_000));
        assert!((queue.average - 1265.625).abs() < 1e-9);
        // Half a slot more.
        queue.on_empty(Time(3_000_000));
        queue.update_average(&red, 0, SLOT, Time(3_500_000));
        assert!((queue.average - 1265.625 * 0.75_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn the_slope_of_the_probability() {
        let gentle = Red { gentle: true, ..CEE };
        for (average, plain, gently) in [
            (25_599.0, 0.0, 0.0),
            (25_600.0, 0.0, 0.0),
            (51_200.0, 0.01, 0.01),
            (64_000.0, 0.015, 0.015),
            (76_800.0, 1.0, 0.02),
            (115_200.0, 1.0, 0.51),
            (153_600.0, 1.0, 1.0),
        ] {
            assert!((CEE.probability(average) - plain).abs() < 1e-12, "{average}");
            assert!((gentle.probability(average) - gently).abs() < 1e-12, "{average}, gentle");
        }
    }

    /// Floyd and Jacobson 1993 §7: with the count, the number of packets from one mark to the next is uniform. Their
    /// Fig. 2 counts a packet before it asks, so that after a mark the bound is 1 / `p_b` - 1; ns-2 does the same.
    #[test]
    fn gaps_between_marks_are_uniform() {
        // An average that stays half way: p_b = 1/8.
        let red = Red { w_q: 1.0, p_max: 0.25, ..CEE };
        let mut queue = queue();
        let (mut gaps, mut gap) = ([0u32; 9], 0);
        while !queue.on_arrival(&red, 51_200, SLOT, Time::ZERO) {}
        while gaps.iter().sum::<u32>() < 14_000 {
            gap += 1;
            if queue.on_arrival(&red, 51_200, SLOT, Time::ZERO) {
                gaps[gap] += 1;
                gap = 0;
            }
        }
        // 2000 expected of each, standard deviation 41: five deviations.
        assert!(gaps[1..8].iter().all(|n| n.abs_diff(2000) < 210), "{gaps:?}");
        assert_eq!((gaps[0], gaps[8]), (0, 0));
    }

    #[test]
    fn the_count_begins_anew_below_the_minimum_and_all_is_marked_above_the_maximum() {
        let red = Red { w_q: 1.0, ..CEE };
        let mut queue = queue();
        assert!(!queue.on_arrival(&red, 25_599, SLOT, Time::ZERO));
        assert_eq!(queue.count, -1);
        // At the minimum itself the probability is 0: counted, never marked.
        assert!((0..100).all(|_| !queue.on_arrival(&red, 25_600, SLOT, Time::ZERO)));
        assert_eq!(queue.count, 99);
        assert!((0..100).all(|_| queue.on_arrival(&red, 76_800, SLOT, Time::ZERO)));
        assert_eq!(queue.count, 0);
        assert!(!queue.on_arrival(&red, 0, SLOT, Time::ZERO));
        assert_eq!(queue.count, -1);
    }

    #[test]
    fn thresholds_are_exceeded_and_not_met() {
        assert!(
            !exceeds(Threshold::Bytes(Bytes(3000)), 3000, 9)
                && exceeds(Threshold::Bytes(Bytes(2999)), 3000, 9)
        );
        assert!(!exceeds(Threshold::Packets(20), 1 << 20, 20) && exceeds(Threshold::Packets(20), 1281, 21));
    }
}
