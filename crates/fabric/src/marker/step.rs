//! DCTCP's rule (SIGCOMM 2010 §3.1): the instantaneous backlog against one threshold.

use super::{Arrival, Asked, BUFFER_MAX, ByPort, Departure, MarkAt, Marking, NotEct, Queue, Threshold};
use pauseframe_schema::table;
use pauseframe_schema::value::Setting;
use pauseframe_units::{BitRate, Bytes};

table! {
    /// CE when the backlog exceeds `k`
    pub struct Step {
        /// Mark while the backlog of the queue exceeds this: a size, or "20 packets"
        #[source = "DCTCP (Alizadeh et al. 2010) §3.1; bolt §IV-A2"]
        k: ByPort<Threshold> = or(ByPort::All(Threshold::Bytes(Bytes(22_500)))) => {
            let fits = |k: &Threshold| match k {
                Threshold::Bytes(bytes) => (Bytes(1)..=BUFFER_MAX).contains(bytes),
                Threshold::Packets(count) => *count >= 1,
            };
            t.check(k.values().all(fits), "k", || format!("it is outside 1 B to {BUFFER_MAX}, and 1 packet or more"), "");
        };
        /// When the backlog is looked at
        at: MarkAt = or(MarkAt::Enqueue);
        /// What happens there to lossy packets that are not ECN-capable
        not_ect: NotEct = or(NotEct::Drop);
    }
    pub fn read(t);
}

impl Marking for Step {
    type Memory = ();

    fn memory(&self, _queue: &Queue) {}

    fn asked(&self) -> Asked {
        let counts = self.k.values().any(|k| matches!(k, Threshold::Packets(_)));
        match (self.at, self.k.value()) {
            (MarkAt::Enqueue, Threshold::Bytes(k)) if !counts => Asked::Backlog(k.0),
            (MarkAt::Enqueue, _) => Asked::Waiting,
            (MarkAt::Dequeue, _) if counts => Asked::CountedDepartures,
            (MarkAt::Dequeue, _) => Asked::Departures,
        }
    }

    fn on_arrival(&self, _memory: &mut (), arrival: &Arrival) -> bool {
        self.at == MarkAt::Enqueue && self.k.value().is_exceeded(arrival.backlog, arrival.waiting)
    }

    fn on_departure(&self, _memory: &mut (), departure: &Departure) -> bool {
        self.at == MarkAt::Dequeue && self.k.value().is_exceeded(departure.backlog, departure.waiting)
    }

    fn not_ect(&self) -> NotEct {
        self.not_ect
    }

    fn begins(&self) -> Option<String> {
        Some(format!("a backlog of {}", self.k.plain()))
    }

    fn least(&self) -> Option<(&'static str, Bytes)> {
        let bytes = |k: &Threshold| match k {
            Threshold::Bytes(k) => Some(*k),
            Threshold::Packets(_) => None,
        };
        self.k.values().map(bytes).min().flatten().map(|k| ("k", k))
    }

    fn varies(&self) -> bool {
        self.k.varies()
    }

    fn unused(&self, ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
        self.k.unused(ports).into_iter().map(|selector| ("k", selector)).collect()
    }

    fn at(&self, port: &str, rate: BitRate) -> Result<Step, (&'static str, String)> {
        let k = self.k.at(port, rate).map_err(|why| ("k", why))?;
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
