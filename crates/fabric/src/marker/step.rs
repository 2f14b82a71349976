//! DCTCP's rule (SIGCOMM 2010 §3.1): the instantaneous backlog against one threshold.

use super::{Arrival, Asked, BUFFER_MAX, Departure, Marking, NotEct, Queue, Threshold};
use pauseframe_schema::value::Setting;
use pauseframe_schema::{choices, table};
use pauseframe_units::Bytes;

table! {
    /// CE when the backlog exceeds `k`
    #[derive(Copy)]
    pub struct Step {
        /// Mark while the backlog of the queue exceeds this: a size, or "20 packets"
        #[source = "DCTCP (Alizadeh et al. 2010) §3.1; bolt §IV-A2"]
        k: Threshold = or(Threshold::Bytes(Bytes(22_500))) => {
            let fits = match k {
                Threshold::Bytes(bytes) => (Bytes(1)..=BUFFER_MAX).contains(&bytes),
                Threshold::Packets(count) => count >= 1,
            };
            t.check(fits, "k", || format!("it is outside 1 B to {BUFFER_MAX}, and 1 packet or more"), "");
        };
        /// When the backlog is looked at
        at: MarkAt = or(MarkAt::Enqueue);
        /// What happens there to lossy packets that are not ECN-capable
        not_ect: NotEct = or(NotEct::Drop);
    }
    pub fn read(t);
}

choices! {
    /// When the backlog is looked at
    pub enum MarkAt {
        /// When the packet joins the queue
        Enqueue = "enqueue",
        /// When it leaves
        Dequeue = "dequeue",
    }
}

impl Marking for Step {
    type Memory = ();

    fn memory(&self, _queue: &Queue) {}

    fn asked(&self) -> Asked {
        match (self.at, self.k) {
            (MarkAt::Enqueue, Threshold::Bytes(k)) => Asked::Backlog(k.0),
            (MarkAt::Enqueue, Threshold::Packets(_)) => Asked::Waiting,
            (MarkAt::Dequeue, Threshold::Bytes(_)) => Asked::Departures,
            (MarkAt::Dequeue, Threshold::Packets(_)) => Asked::CountedDepartures,
        }
    }

    fn on_arrival(&self, _memory: &mut (), arrival: &Arrival) -> bool {
        self.at == MarkAt::Enqueue && self.k.is_exceeded(arrival.backlog, arrival.waiting)
    }

    fn on_departure(&self, _memory: &mut (), departure: &Departure) -> bool {
        self.at == MarkAt::Dequeue && self.k.is_exceeded(departure.backlog, departure.waiting)
    }

    fn not_ect(&self) -> NotEct {
        self.not_ect
    }

    fn begins(&self) -> Option<String> {
        Some(format!("a backlog of {}", self.k.plain()))
    }

    fn least(&self) -> Option<(&'static str, Bytes)> {
        match self.k {
            Threshold::Bytes(k) => Some(("k", k)),
            Threshold::Packets(_) => None,
        }
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
