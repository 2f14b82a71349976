//! When a queue marks packets.

use pauseframe_units::Bytes;

/// ECN marking of a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Marker {
    /// None.
    None,
    /// CE on ECT packets that find more than `k`.
    Step {
        /// Threshold.
        k: Threshold,
        /// The backlog is looked at when the packet leaves instead of when it comes.
        at_dequeue: bool,
        /// Packets that are not ECT are dropped there, lossless ones excepted.
        drop_not_ect: bool,
    },
    /// CE with a probability that grows with the average backlog.
    Red(Red),
}

/// A length of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// Bytes of frames without preamble and gap.
    Bytes(Bytes),
    /// Packets, however long.
    Packets(u32),
}

/// Random Early Detection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Red {
    /// Below this average nothing is marked.
    pub min: Bytes,
    /// From this average on everything is (from twice this on, if `gentle`).
    pub max: Bytes,
    /// Weight of a new sample in the average, above 0 to 1.
    pub w_q: f64,
    /// Marking probability as the average comes to `max`, 0 to 1.
    pub p_max: f64,
    /// From `p_max` at `max` the probability rises to 1 at twice `max`, instead of at once.
    pub gentle: bool,
    /// The packet in whose serialisation times an idle period is counted.
    pub average_packet: Bytes,
    /// Packets that are not ECT are dropped, lossless ones excepted.
    pub drop_not_ect: bool,
}

impl Red {
    /// The probability before the count since the last mark enters (`p_b`).
    pub(crate) fn probability(&self, average: f64) -> f64 {
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

impl Marker {
    /// What becomes of packets over the threshold that are not ECT.
    pub(crate) fn drops_not_ect(&self) -> bool {
        match *self {
            Marker::None => false,
            Marker::Step { drop_not_ect, .. } | Marker::Red(Red { drop_not_ect, .. }) => drop_not_ect,
        }
    }

    /// The step at enqueue in bytes, the one marker that needs to see no packet below it; `u64::MAX` for the others.
    pub(crate) fn bytes_at_enqueue(&self) -> u64 {
        match *self {
            Marker::Step { k: Threshold::Bytes(k), at_dequeue: false, .. } => k.0,
            _ => u64::MAX,
        }
    }

    /// Whether it must see every arrival, those at an idle port too.
    pub(crate) fn is_average(&self) -> bool {
        matches!(self, Marker::Red(_))
    }

    /// Whether it counts packets.
    pub(crate) fn counts_packets(&self) -> bool {
        matches!(self, Marker::Step { k: Threshold::Packets(_), .. })
    }

    /// Whether it looks at the packets that leave.
    pub(crate) fn is_at_dequeue(&self) -> bool {
        matches!(self, Marker::Step { at_dequeue: true, .. })
    }
}
