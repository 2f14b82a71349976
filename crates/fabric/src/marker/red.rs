//! Random Early Detection as Floyd and Jacobson give it (Transactions on Networking 1993, Fig. 2), with Floyd's `gentle` slope above
//! the maximum; another row of values for each class makes it WRED.
//!
//! The defaults are those of switches (`SONiC`): the queue itself (`w_q = 1`) decides as a packet leaves, by an independent draw that marks a fraction p
//! of packets (`spacing = "geometric"`). Floyd and Jacobson judge arrivals by an average of weight 0.002; their count makes gaps uniform on 1 to 1/p,
//! which marks about 2p.
//!
//! Left out: RED's byte mode (probability in proportion to the packet's size), self-tuning (Adaptive RED). Where
//! RED would drop even ECT packets above its maximum, this one marks all of them.

use super::by_port::PerPortBounds;
use super::{PacketArrival, PASSES, InspectedPackets, BUFFER_MAX, ValueByPort, PacketDeparture, MarkAt, Marking, NotEctAction, MarkerRandomStreams};
use pauseframe_engine::Rng;
use pauseframe_schema::bounds::Above;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::value::Setting;
use pauseframe_schema::{choices, table};
use pauseframe_units::{BitRate, Bytes, Span, Time};

/// What happens by default to packets that are not ECN-capable.
pub(super) const fn not_ect_by(at: MarkAt) -> NotEctAction {
    match at {
        MarkAt::Enqueue => NotEctAction::Drop,
        MarkAt::Dequeue => NotEctAction::Queue,
    }
}

table! {
    /// Random Early Detection (Floyd and Jacobson 1993): CE with a probability that grows with the average backlog
    // The defaults are those of cee Table I.
    pub struct Red {
        /// Below this average backlog nothing is marked
        min: ValueByPort<Bytes> = or_in(ValueByPort::All(Bytes(25_600)), PerPortBounds(Bytes::ZERO..=BUFFER_MAX));
        /// From this average backlog on everything is marked (gentle: from twice this on); min = max is a step
        max: ValueByPort<Bytes> = or_in(ValueByPort::All(Bytes(76_800)), PerPortBounds(Bytes(1)..=BUFFER_MAX)) => {
            if let (ValueByPort::All(min), ValueByPort::All(max)) = (&min, &max) {
                t.check(min <= max, "min", || format!("{min} is above max ({max})"), "lower it, or raise max");
            }
        };
        /// When a packet is judged: on arrival, or on departure by the queue behind it
        at: MarkAt = or(MarkAt::Dequeue);
        /// Weight of a new sample in the average (Floyd and Jacobson 1993: 0.002); 1: the queue itself
        #[source = "SONiC: SAI_WRED_ATTR_WEIGHT 0, a weight of 1"]
        w_q: f64 = or_in(1.0, Above(0.0, 1.0, ""));
        /// Probability of a mark as the average comes to max
        p_max: ValueByPort<f64> = or_in(ValueByPort::All(0.02), PerPortBounds(0.0..=1.0));
        /// Above max the probability rises to 1 at twice max, instead of at once (Floyd 2000)
        gentle: bool = or(false);
        /// An idle period lowers the average as if so many packets of this size had met an empty queue
        average_packet: Bytes = or_in(Bytes::kb(1), Bytes(1)..=BUFFER_MAX) => {
            t.warn_if_idle("average_packet", w_q >= 1.0 && average_packet != Bytes::kb(1), "w_q is 1, so nothing is averaged");
        };
        /// Distribution of the gaps between marks
        #[source = "SONiC's test plan of ECN: p (q - min) / (max - min) of the packets"]
        spacing: MarkSpacing = or(MarkSpacing::Geometric);
        /// What happens to lossy packets above the threshold that are not ECN-capable; at dequeue they pass
        not_ect: NotEctAction = or_because(not_ect_by(at), Origin::Default, "\"drop\"; \"queue\" at dequeue") => {
            t.warn_if_idle("not_ect", at == MarkAt::Dequeue && not_ect == NotEctAction::Drop, PASSES);
        };
    }
    pub fn read(t);
}

choices! {
    /// Distribution of the gaps between marks
    pub enum MarkSpacing {
        /// Evenly: gaps are uniform on 1 to 1/p, which marks about 2p of the packets (Floyd and Jacobson 1993 §7)
        Uniform = "uniform",
        /// Each packet is marked with probability p, whatever came before
        Geometric = "geometric",
    }
}

impl Marking for Red {
    type QueueState = RedQueueState;

    fn new_state(&self, queue: &MarkerRandomStreams) -> RedQueueState {
        RedQueueState { average: 0.0, count: -1, is_empty: true, idle_since: Time::ZERO, rng: queue.stream("red") }
    }

    fn inspected_packets(&self) -> InspectedPackets {
        // Without memory a packet at an idle port changes nothing and is never marked.
        match (self.at, self.has_memory()) {
            (MarkAt::Enqueue, true) => InspectedPackets::All,
            (MarkAt::Enqueue, false) => InspectedPackets::Waiting,
            (MarkAt::Dequeue, true) => InspectedPackets::AllDepartures,
            (MarkAt::Dequeue, false) => InspectedPackets::Departures,
        }
    }

    fn decide_arrival_mark(&self, queue: &mut RedQueueState, arrival: &PacketArrival) -> bool {
        if self.at == MarkAt::Dequeue {
            return false;
        }
        if !self.has_memory() {
            return queue.draw_mark(self, arrival.backlog);
        }
        let packet_time = arrival.rate.rate().serialise(self.average_packet);
        queue.is_empty = arrival.backlog == 0;
        queue.decide_mark(self, arrival.backlog, packet_time, arrival.now)
    }

    fn decide_departure_mark(&self, queue: &mut RedQueueState, departure: &PacketDeparture) -> bool {
        let behind = departure.backlog - u64::from(departure.size);
        if !self.has_memory() {
            return self.at == MarkAt::Dequeue && queue.draw_mark(self, behind);
        }
        let packet_time = departure.rate.rate().serialise(self.average_packet);
        let marked = self.at == MarkAt::Dequeue && queue.decide_mark(self, behind, packet_time, departure.now);
        queue.is_empty = departure.leaves_queue_empty();
        if queue.is_empty {
            queue.on_queue_emptied(departure.transmission_end());
        }
        marked
    }

    fn not_ect_action(&self) -> NotEctAction {
        self.not_ect
    }

    fn threshold_text(&self) -> Option<String> {
        Some(format!("an average backlog of {}", self.min.plain()))
    }

    fn varies_by_port(&self) -> bool {
        self.min.varies_by_port() || self.max.varies_by_port() || self.p_max.varies_by_port()
    }

    fn unmatched_selectors(&self, ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
        let sizes = [("min", &self.min), ("max", &self.max)]
            .into_iter()
            .flat_map(|(key, values)| values.unmatched_selectors(ports).into_iter().map(move |s| (key, s)));
        sizes.chain(self.p_max.unmatched_selectors(ports).into_iter().map(|s| ("p_max", s))).collect()
    }

    fn for_port(&self, port: &str, rate: BitRate) -> Result<Red, (&'static str, String)> {
        let min = self.min.for_port(port, rate).map_err(|why| ("min", why))?;
        let max = self.max.for_port(port, rate).map_err(|why| ("max", why))?;
        if min.single_value() > max.single_value() {
            return Err(("min", format!("{} is above max ({}) at port {port}", min.single_value(), max.single_value())));
        }
        let p_max = self.p_max.for_port(port, rate).map_err(|why| ("p_max", why))?;
        Ok(Red { min, max, p_max, ..self.clone() })
    }
}

impl Red {
    /// Whether a decision depends on earlier packets: not if the average is the backlog itself, and the count is not used.
    fn has_memory(&self) -> bool {
        self.w_q < 1.0 || self.spacing == MarkSpacing::Uniform
    }

    /// The marking probability `p_b`, before the count since the last mark is applied.
    fn marking_probability(&self, average: f64) -> f64 {
        let (min, max) = (self.min.single_value().0 as f64, self.max.single_value().0 as f64);
        let p_max = self.p_max.single_value();
        if average < min {
            0.0
        } else if average < max {
            p_max * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            p_max + (1.0 - p_max) * (average - max) / max
        } else {
            1.0
        }
    }
}

/// RED's state for one queue.
#[derive(Debug)]
pub(crate) struct RedQueueState {
    /// Exponentially weighted average of the backlog, bytes.
    average: f64,
    /// Packets since the last mark; -1 while the average is below the minimum.
    count: i64,
    /// The queue has been empty since the last inspected packet.
    is_empty: bool,
    /// When the last packet of an empty queue left the wire.
    idle_since: Time,
    rng: Rng,
}

impl RedQueueState {
    /// Whether to mark a packet that finds, or leaves behind, `backlog` bytes, by a marker without memory.
    fn draw_mark(&mut self, red: &Red, backlog: u64) -> bool {
        let p_b = red.marking_probability(backlog as f64);
        p_b >= 1.0 || p_b > 0.0 && self.rng.uniform_unit() < p_b
    }

    /// Whether to mark a packet that finds, or leaves behind, `backlog` bytes. `packet_time`: transmission time of an average packet.
    fn decide_mark(&mut self, red: &Red, backlog: u64, packet_time: Span, now: Time) -> bool {
        self.update_average(red, backlog, packet_time, now);
        let p_b = red.marking_probability(self.average);
        if self.average < red.min.single_value().0 as f64 {
            self.count = -1;
            return false;
        }
        self.count += 1;
        // Marks are spread evenly: the gap between two is uniform.
        let rest = 1.0 - self.count as f64 * p_b;
        let p_a = match red.spacing {
            MarkSpacing::Geometric => p_b,
            MarkSpacing::Uniform => if rest > p_b { p_b / rest } else { 1.0 },
        };
        let marked = p_b >= 1.0 || self.rng.uniform_unit() < p_a;
        if marked {
            self.count = 0;
        }
        marked
    }

    fn update_average(&mut self, red: &Red, backlog: u64, packet_time: Span, now: Time) {
        let was_idle = self.is_empty && now > self.idle_since;
        if was_idle {
            // As if `idle / packet_time` packets had arrived at an empty queue.
            let packets = (now - self.idle_since).0 as f64 / packet_time.0.max(1) as f64;
            self.average *= libm::pow(1.0 - red.w_q, packets);
        }
        if !was_idle || backlog > 0 {
            self.average += red.w_q * (backlog as f64 - self.average);
        }
    }

    /// The queue is empty; its last packet leaves the wire at `at`.
    fn on_queue_emptied(&mut self, at: Time) {
        self.idle_since = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::{LineRate, PortId, Priority};

    /// cee Table I.
    const CEE: Red = Red {
        min: ValueByPort::All(Bytes(25_600)),
        max: ValueByPort::All(Bytes(76_800)),
        w_q: 0.002,
        p_max: ValueByPort::All(0.02),
        gentle: false,
        average_packet: Bytes(1000),
        at: MarkAt::Enqueue,
        spacing: MarkSpacing::Uniform,
        not_ect: NotEctAction::Drop,
    };
    const PACKET_TIME: Span = Span(1_000_000);

    fn queue() -> RedQueueState {
        CEE.new_state(&MarkerRandomStreams::new(1, PortId(0), Priority::default()))
    }

    /// A packet comes to so many bytes.
    fn update(queue: &mut RedQueueState, red: &Red, backlog: u64, packet_time: Span, now: Time) {
        queue.is_empty = backlog == 0;
        queue.update_average(red, backlog, packet_time, now);
    }

    fn find(queue: &mut RedQueueState, red: &Red, backlog: u64, packet_time: Span, now: Time) -> bool {
        queue.is_empty = backlog == 0;
        queue.decide_mark(red, backlog, packet_time, now)
    }

    #[test]
    fn the_average_of_a_constant_backlog_is_a_geometric_series() {
        let mut queue = queue();
        for arrivals in 1..=2000 {
            update(&mut queue, &CEE, 40_000, PACKET_TIME, Time::ZERO);
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
            update(&mut queue, &red, backlog, PACKET_TIME, Time(1));
            queue.on_queue_emptied(Time(1_000_000));
            assert_eq!((queue.average, backlog), (average, backlog));
        }
        // Idle for the time of two packets: 2250 * 0.75^2.
        update(&mut queue, &red, 0, PACKET_TIME, Time(3_000_000));
        assert!((queue.average - 1265.625).abs() < 1e-9);
        // And of half a packet more.
        queue.on_queue_emptied(Time(3_000_000));
        update(&mut queue, &red, 0, PACKET_TIME, Time(3_500_000));
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
            assert!((CEE.marking_probability(average) - plain).abs() < 1e-12, "{average}");
            assert!((gentle.marking_probability(average) - gently).abs() < 1e-12, "{average}, gentle");
        }
    }

    /// Floyd and Jacobson 1993 §7: with the count, the number of packets from one mark to the next is uniform. Their
    /// Fig. 2 counts a packet before it asks, so that after a mark the bound is 1 / `p_b` - 1; ns-2 does the same.
    #[test]
    fn gaps_between_marks_are_uniform() {
        // An average that stays half way: p_b = 1/8.
        let red = Red { w_q: 1.0, p_max: ValueByPort::All(0.25), ..CEE };
        let mut queue = queue();
        let (mut gaps, mut gap) = ([0u32; 9], 0);
        while !find(&mut queue, &red, 51_200, PACKET_TIME, Time::ZERO) {}
        while gaps.iter().sum::<u32>() < 14_000 {
            gap += 1;
            if find(&mut queue, &red, 51_200, PACKET_TIME, Time::ZERO) {
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
        assert!(!find(&mut queue, &red, 25_599, PACKET_TIME, Time::ZERO));
        assert_eq!(queue.count, -1);
        // At the minimum itself the probability is 0: counted, never marked.
        assert!((0..100).all(|_| !find(&mut queue, &red, 25_600, PACKET_TIME, Time::ZERO)));
        assert_eq!(queue.count, 99);
        assert!((0..100).all(|_| find(&mut queue, &red, 76_800, PACKET_TIME, Time::ZERO)));
        assert_eq!(queue.count, 0);
        assert!(!find(&mut queue, &red, 0, PACKET_TIME, Time::ZERO));
        assert_eq!(queue.count, -1);
    }

    fn departure(waiting: u32, now: Time) -> PacketDeparture {
        let rate = pauseframe_units::LineRate::new(BitRate::gbps(10));
        PacketDeparture { backlog: u64::from(waiting) * 1000, waiting, size: 1000, gap: 20, rate, now }
    }

    /// The closed form of a queue that stays as long: a share `p_max (q - min) / (max - min)`, independently.
    #[test]
    fn at_dequeue_the_share_of_marks_is_that_of_the_queue_left_behind() {
        let red = Red { at: MarkAt::Dequeue, spacing: MarkSpacing::Geometric, w_q: 1.0, p_max: ValueByPort::All(0.5), ..CEE };
        let mut queue = queue();
        for (waiting, p) in [(26, 0.0), (27, 0.5 * 400.0 / 51_200.0), (65, 0.5 * 38_400.0 / 51_200.0), (78, 1.0)] {
            const PACKETS: u32 = 40_000;
            let marks = (0..PACKETS).filter(|_| red.decide_departure_mark(&mut queue, &departure(waiting, Time::ZERO))).count();
            let (mean, deviation) = (f64::from(PACKETS) * p, (f64::from(PACKETS) * p * (1.0 - p)).sqrt());
            assert!((marks as f64 - mean).abs() <= 5.0 * deviation, "{waiting}: {marks}, not {mean}");
        }
        let arrival = PacketArrival { backlog: 1 << 20, waiting: 999, rate: departure(1, Time(0)).rate, now: Time(1) };
        assert!(!red.decide_arrival_mark(&mut queue, &arrival));
    }

    #[test]
    fn at_dequeue_a_busy_queue_is_not_idle_and_an_empty_one_is() {
        let red = Red { at: MarkAt::Dequeue, w_q: 0.5, ..CEE };
        let mut queue = queue();
        // 0 -> 4 behind: idle from 0 on, then (0 + 4000) / 2; then 0 behind: 1000, whatever the time since.
        red.decide_departure_mark(&mut queue, &departure(5, Time(1_000_000_000)));
        assert!((queue.average - 2000.0).abs() < 1e-9, "{}", queue.average);
        red.decide_departure_mark(&mut queue, &departure(1, Time(2_000_000_000)));
        assert!((queue.average - 1000.0).abs() < 1e-9, "{}", queue.average);
        // Idle for the time of two average packets of 1000 B (800 ns each) after that frame (816 ns).
        red.decide_departure_mark(&mut queue, &departure(1, Time(2_000_000_000 + 816_000 + 1_600_000)));
        assert!((queue.average - 250.0).abs() < 1e-9, "{}", queue.average);
    }

    /// Why such a marker need not inspect packets that find their port idle.
    #[test]
    fn with_a_weight_of_1_packets_at_an_idle_port_change_no_mark() {
        let red = Red { at: MarkAt::Dequeue, spacing: MarkSpacing::Geometric, w_q: 1.0, p_max: ValueByPort::All(0.5), ..CEE };
        let (mut all, mut queued) = (queue(), queue());
        let mut marks = 0;
        for number in 1..4000_u64 {
            let (now, waiting) = (Time(number * 50_000_000), (number * 7919 % 90) as u32 + 2);
            assert!(!red.decide_departure_mark(&mut all, &departure(1, now)));
            let [marked, same] = [&mut all, &mut queued]
                .map(|queue| red.decide_departure_mark(queue, &departure(waiting, now + Span(20_000_000))));
            assert_eq!(marked, same);
            marks += u32::from(marked);
        }
        assert!((500..3500).contains(&marks), "{marks}");
        for (marker, inspected) in [
            (Red { spacing: MarkSpacing::Uniform, ..red.clone() }, InspectedPackets::AllDepartures),
            (Red { w_q: 0.5, ..red.clone() }, InspectedPackets::AllDepartures),
            (red, InspectedPackets::Departures),
        ] {
            assert_eq!(marker.inspected_packets(), inspected);
        }
    }

    /// One threshold for both ends of the slope is a step: HPCC's 100 Gb/s ports in a file with max = 400 KB.
    #[test]
    fn min_and_max_in_one_are_a_step() {
        let step = ValueByPort::All(Bytes(400_000));
        let red = Red { min: step.clone(), max: step, w_q: 1.0, ..CEE };
        assert!(red.marking_probability(399_999.0) < 1e-12 && red.marking_probability(400_000.0) > 1.0 - 1e-12);
    }

    /// A queue that still holds packets is not idle, however long ago the last one left; an empty one forgets.
    #[test]
    fn only_an_arrival_at_an_empty_queue_ends_an_idle_time() {
        let rate = LineRate::new(BitRate(10_000_000_000));
        for (backlog, average) in [(40_000, 40_000.0), (0, 0.0)] {
            let mut queue = queue();
            (queue.average, queue.is_empty) = (40_000.0, false);
            let arrival = PacketArrival { backlog, waiting: 1, rate, now: Time::ZERO + Span::from_secs(1) };
            CEE.decide_arrival_mark(&mut queue, &arrival);
            assert!((queue.average - average).abs() < 1e-6, "{backlog}: {}", queue.average);
        }
    }

    #[test]
    fn each_value_may_vary_by_port() {
        use crate::marker::by_port::PortSelector;
        assert!(!CEE.varies_by_port());
        let selector = PortSelector::Name("*".into());
        let bytes = || ValueByPort::Rows([(selector.clone(), Bytes(50_000))].into());
        let p_max = ValueByPort::Rows([(selector.clone(), 0.5)].into());
        for red in [Red { min: bytes(), ..CEE }, Red { max: bytes(), ..CEE }, Red { p_max, ..CEE }] {
            assert!(red.varies_by_port(), "{red:?}");
            let of_port = red.for_port("s:1", BitRate::gbps(10)).expect("it has a value");
            assert!(!of_port.varies_by_port(), "{of_port:?}");
        }
    }
}
