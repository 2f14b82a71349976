//! DCTCP's rule (SIGCOMM 2010 §3.1): the instantaneous backlog against one threshold.

use super::{PacketArrival, PASSES, InspectedPackets, BUFFER_MAX, ValueByPort, PacketDeparture, MarkAt, Marking, NotEctAction, MarkerRandomStreams, QueueLengthThreshold};
use pauseframe_schema::table;
use pauseframe_schema::value::Setting;
use pauseframe_units::{BitRate, Bytes};

table! {
    /// CE when the backlog exceeds `k`
    pub struct StepMarker as "Step" {
        /// Mark while the backlog of the queue exceeds this: a size, or "20 packets". Default: 22.5 KB up to 10 Gb/s, above in proportion to the rate of the port
        #[source = "DCTCP (Alizadeh et al. 2010) §3.1; bolt §IV-A2"]
        k: ValueByPort<QueueLengthThreshold> = or(ValueByPort::All(QueueLengthThreshold::Bytes(Bytes(22_500)))) => {
            let fits = |k: &QueueLengthThreshold| match k {
                QueueLengthThreshold::Bytes(bytes) => (Bytes(1)..=BUFFER_MAX).contains(bytes),
                QueueLengthThreshold::Packets(count) => *count >= 1,
            };
            t.check(k.iter_values().all(fits), "k", || format!("it is outside 1 B to {BUFFER_MAX}, and 1 packet or more"), "");
        };
        /// When a packet is judged: on arrival or on departure
        at: MarkAt = or(MarkAt::Enqueue);
        /// What happens to lossy packets above the threshold that are not ECN-capable
        not_ect: NotEctAction = or(NotEctAction::Queue) => {
            t.warn_if_idle("not_ect", at == MarkAt::Dequeue && not_ect == NotEctAction::Drop, PASSES);
        };
    }
    pub fn read(t);
}

impl Marking for StepMarker {
    type QueueState = ();

    fn new_state(&self, _queue: &MarkerRandomStreams) {}

    fn inspected_packets(&self) -> InspectedPackets {
        let counts = self.k.iter_values().any(|k| matches!(k, QueueLengthThreshold::Packets(_)));
        match (self.at, self.k.single_value()) {
            (MarkAt::Enqueue, QueueLengthThreshold::Bytes(k)) if !counts => InspectedPackets::Backlog(k.0),
            (MarkAt::Enqueue, _) => InspectedPackets::Waiting,
            (MarkAt::Dequeue, _) if counts => InspectedPackets::CountedDepartures,
            (MarkAt::Dequeue, _) => InspectedPackets::Departures,
        }
    }

    fn decide_arrival_mark(&self, _memory: &mut (), arrival: &PacketArrival) -> bool {
        self.at == MarkAt::Enqueue && self.k.single_value().is_exceeded(arrival.backlog, arrival.waiting)
    }

    fn decide_departure_mark(&self, _memory: &mut (), departure: &PacketDeparture) -> bool {
        self.at == MarkAt::Dequeue && self.k.single_value().is_exceeded(departure.backlog, departure.waiting)
    }

    fn not_ect_action(&self) -> NotEctAction {
        self.not_ect
    }

    fn threshold_text(&self) -> Option<String> {
        Some(format!("a backlog of {}", self.k.plain()))
    }

    fn byte_threshold(&self) -> Option<(&'static str, Bytes)> {
        let bytes = |k: &QueueLengthThreshold| match k {
            QueueLengthThreshold::Bytes(k) => Some(*k),
            QueueLengthThreshold::Packets(_) => None,
        };
        self.k.iter_values().map(bytes).min().flatten().map(|k| ("k", k))
    }

    fn varies_by_port(&self) -> bool {
        self.k.varies_by_port()
    }

    fn unmatched_selectors(&self, ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
        self.k.unmatched_selectors(ports).into_iter().map(|selector| ("k", selector)).collect()
    }

    fn for_port(&self, port: &str, rate: BitRate) -> Result<StepMarker, (&'static str, String)> {
        let k = self.k.for_port(port, rate).map_err(|why| ("k", why))?;
        Ok(StepMarker { k, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_exceeded_and_not_met() {
        let three = |k| QueueLengthThreshold::Bytes(Bytes(k)).is_exceeded(3000, 9);
        assert!(!three(3000) && three(2999));
        let twenty = |waiting| QueueLengthThreshold::Packets(20).is_exceeded(1 << 20, waiting);
        assert!(!twenty(20) && twenty(21));
    }
}
