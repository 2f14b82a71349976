//! Random Early Detection as Floyd and Jacobson give it (Transactions on Networking 1993, Fig. 2), with Floyd's `gentle` slope above
//! the maximum; another row of values for each class makes it WRED.
//!
//! Left out: RED's byte mode (probability in proportion to the packet's size), self-tuning (Adaptive RED). Where
//! RED would drop even ECT packets above its maximum, this one marks all of them.

use super::{Arrival, Asked, BUFFER_MAX, Departure, Marking, NotEct, Queue};
use pauseframe_engine::Rng;
use pauseframe_schema::bounds::Above;
use pauseframe_schema::table;
use pauseframe_units::{Bytes, Span, Time};

table! {
    /// Random Early Detection (Floyd and Jacobson 1993): CE with a probability that grows with the average backlog
    // The defaults are those of cee Table I.
    #[derive(Copy)]
    pub struct Red {
        /// Below this average backlog nothing is marked
        min: Bytes = or_in(Bytes(25_600), Bytes::ZERO..=BUFFER_MAX);
        /// From this average backlog on everything is marked (gentle: from twice this on)
        max: Bytes = or_in(Bytes(76_800), Bytes(1)..=BUFFER_MAX) => {
            t.check(min < max, "min", || format!("{min} is not below max ({max})"), "");
        };
        /// Weight of a new sample in the average (Floyd and Jacobson 1993)
        w_q: f64 = or_in(0.002, Above(0.0, 1.0, ""));
        /// Probability of a mark as the average comes to max
        p_max: f64 = or_in(0.02, 0.0..=1.0);
        /// Above max the probability rises to 1 at twice max, instead of at once (Floyd 2000)
        gentle: bool = or(false);
        /// An idle period lowers the average as if so many packets of this size had met an empty queue
        average_packet: Bytes = or_in(Bytes::kb(1), Bytes(1)..=BUFFER_MAX);
        /// What happens there to lossy packets that are not ECN-capable
        not_ect: NotEct = or(NotEct::Drop);
    }
    pub fn read(t);
}

impl Marking for Red {
    type Memory = RedQueue;

    fn memory(&self, queue: &Queue) -> RedQueue {
        RedQueue { average: 0.0, count: -1, idle_since: Time::ZERO, rng: queue.stream("red") }
    }

    fn asked(&self) -> Asked {
        Asked::All
    }

    fn on_arrival(&self, queue: &mut RedQueue, arrival: &Arrival) -> bool {
        let packet_time = arrival.rate.rate().serialise(self.average_packet);
        queue.on_arrival(self, arrival.backlog, packet_time, arrival.now)
    }

    fn on_departure(&self, queue: &mut RedQueue, departure: &Departure) -> bool {
        if departure.is_last() {
            queue.on_empty(departure.end());
        }
        false
    }

    fn not_ect(&self) -> NotEct {
        self.not_ect
    }

    fn begins(&self) -> Option<String> {
        Some(format!("an average backlog of {}", self.min))
    }
}

impl Red {
    /// The probability before the count since the last mark enters (`p_b`).
    fn probability(&self, average: f64) -> f64 {
        let (min, max) = (self.min.0 as f64, self.max.0 as f64);
        if average < min {
            0.0
        } else if average < max {
            self.p_max * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            self.p_max + (1.0 - self.p_max) * (average - max) / max
        } else {
            1.0
        }
    }
}

/// What RED remembers of one queue.
#[derive(Debug)]
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
    /// A packet comes to a queue of `backlog` bytes: whether it is to be marked. `packet_time`: time to send an average packet.
    fn on_arrival(&mut self, red: &Red, backlog: u64, packet_time: Span, now: Time) -> bool {
        self.update_average(red, backlog, packet_time, now);
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

    fn update_average(&mut self, red: &Red, backlog: u64, packet_time: Span, now: Time) {
        if backlog == 0 && now > self.idle_since {
            // As if so many packets had come to an empty queue meanwhile.
            let packets = (now - self.idle_since).0 as f64 / packet_time.0.max(1) as f64;
            self.average *= libm::pow(1.0 - red.w_q, packets);
        } else {
            self.average += red.w_q * (backlog as f64 - self.average);
        }
    }

    /// The queue is empty, and its last packet will have left at `at`.
    fn on_empty(&mut self, at: Time) {
        self.idle_since = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::{PortId, Priority};

    /// cee Table I.
    const CEE: Red = Red {
        min: Bytes(25_600),
        max: Bytes(76_800),
        w_q: 0.002,
        p_max: 0.02,
        gentle: false,
        average_packet: Bytes(1000),
        not_ect: NotEct::Drop,
    };
    const PACKET_TIME: Span = Span(1_000_000);

    fn queue() -> RedQueue {
        CEE.memory(&Queue::new(1, PortId(0), Priority::default()))
    }

    #[test]
    fn the_average_of_a_constant_backlog_is_a_geometric_series() {
        let mut queue = queue();
        for arrivals in 1..=2000 {
            queue.update_average(&CEE, 40_000, PACKET_TIME, Time::ZERO);
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
            queue.update_average(&red, backlog, PACKET_TIME, Time(1));
            queue.on_empty(Time(1_000_000));
            assert_eq!((queue.average, backlog), (average, backlog));
        }
        // Idle for the time of two packets: 2250 * 0.75^2.
        queue.update_average(&red, 0, PACKET_TIME, Time(3_000_000));
        assert!((queue.average - 1265.625).abs() < 1e-9);
        // And of half a packet more.
        queue.on_empty(Time(3_000_000));
        queue.update_average(&red, 0, PACKET_TIME, Time(3_500_000));
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
        while !queue.on_arrival(&red, 51_200, PACKET_TIME, Time::ZERO) {}
        while gaps.iter().sum::<u32>() < 14_000 {
            gap += 1;
            if queue.on_arrival(&red, 51_200, PACKET_TIME, Time::ZERO) {
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
        assert!(!queue.on_arrival(&red, 25_599, PACKET_TIME, Time::ZERO));
        assert_eq!(queue.count, -1);
        // At the minimum itself the probability is 0: counted, never marked.
        assert!((0..100).all(|_| !queue.on_arrival(&red, 25_600, PACKET_TIME, Time::ZERO)));
        assert_eq!(queue.count, 99);
        assert!((0..100).all(|_| queue.on_arrival(&red, 76_800, PACKET_TIME, Time::ZERO)));
        assert_eq!(queue.count, 0);
        assert!(!queue.on_arrival(&red, 0, PACKET_TIME, Time::ZERO));
        assert_eq!(queue.count, -1);
    }
}
