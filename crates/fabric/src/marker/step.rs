//! DCTCP's rule (SIGCOMM 2010 §3.1): the instantaneous backlog against one threshold.

use super::{PacketArrival, InspectedPackets, BUFFER_MAX, ValueByPort, PacketDeparture, MarkAt, Marking, NotEct, MarkerStreams, Threshold};
use pauseframe_schema::table;
use pauseframe_schema::value::Setting;
use pauseframe_units::{BitRate, Bytes};

table! {
    /// CE when the backlog exceeds `k`
    pub struct Step {
        /// Mark while the backlog of the queue exceeds this: a size, or "20 packets"
        #[source = "DCTCP (Alizadeh et al. 2010) §3.1; bolt §IV-A2"]
        k: ValueByPort<Threshold> = or(ValueByPort::All(Threshold::Bytes(Bytes(22_500)))) => {
            let fits = |k: &Threshold| match k {
                Threshold::Bytes(bytes) => (Bytes(1)..=BUFFER_MAX).contains(bytes),
                Threshold::Packets(count) => *count >= 1,
            };
            t.check(k.values().all(fits), "k", || format!("it is outside 1 B to {BUFFER_MAX}, and 1 packet or more"), "");
        };
        /// When a packet is judged: on arrival or on departure
        at: MarkAt = or(MarkAt::Enqueue);
        /// What happens to lossy packets above the threshold that are not ECN-capable
        not_ect: NotEct = or(NotEct::Drop);
    }
    pub fn read(t);
}

impl Marking for Step {
    type QueueState = ();

    fn new_queue_state(&self, _queue: &MarkerStreams) {}

    fn inspected_packets(&self) -> InspectedPackets {
        let counts = self.k.values().any(|k| matches!(k, Threshold::Packets(_)));
        match (self.at, self.k.port_value()) {
            (MarkAt::Enqueue, Threshold::Bytes(k)) if !counts => InspectedPackets::Backlog(k.0),
            (MarkAt::Enqueue, _) => InspectedPackets::Waiting,
            (MarkAt::Dequeue, _) if counts => InspectedPackets::CountedDepartures,
            (MarkAt::Dequeue, _) => InspectedPackets::Departures,
        }
    }

    fn should_mark_arrival(&self, _memory: &mut (), arrival: &PacketArrival) -> bool {
        self.at == MarkAt::Enqueue && self.k.port_value().is_exceeded(arrival.backlog, arrival.waiting)
    }

    fn should_mark_departure(&self, _memory: &mut (), departure: &PacketDeparture) -> bool {
        self.at == MarkAt::Dequeue && self.k.port_value().is_exceeded(departure.backlog, departure.waiting)
    }

    fn not_ect_action(&self) -> NotEct {
        self.not_ect
    }

    fn marking_threshold_text(&self) -> Option<String> {
        Some(format!("a backlog of {}", self.k.plain()))
    }

    fn min_threshold(&self) -> Option<(&'static str, Bytes)> {
        let bytes = |k: &Threshold| match k {
            Threshold::Bytes(k) => Some(*k),
            Threshold::Packets(_) => None,
        };
        self.k.values().map(bytes).min().flatten().map(|k| ("k", k))
    }

    fn varies_by_port(&self) -> bool {
        self.k.varies_by_port()
    }

    fn unmatched_selectors(&self, ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
        self.k.unmatched_selectors(ports).into_iter().map(|selector| ("k", selector)).collect()
    }

    fn for_port(&self, port: &str, rate: BitRate) -> Result<Step, (&'static str, String)> {
        let k = self.k.for_port(port, rate).map_err(|why| ("k", why))?;
        Ok(Step { k, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_exceeded_and_not_met() {
        let three = |k| Threshold::Bytes(Bytes(k)).is_exceeded(3000, 9);
        assert!(!three(3000) && three(2999));
        let twenty = |waiting| Threshold::Packets(20).is_exceeded(1 << 20, waiting);
        assert!(!twenty(20) && twenty(21));
    }
}
