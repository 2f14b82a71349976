//! What the queues of a switch are like: buffer, marker, discipline, scheduler, and what differs by class.

use super::SwitchSpec;
use pauseframe_units::Bytes;
use serde::Serialize;

/// `[switch.buffer]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "policy", rename_all = "snake_case")]
pub enum BufferSpec {
    /// Each egress port owns `size` for lossy traffic; each ingress (port, priority) owns `size` for lossless.
    PerPort {
        /// Bytes a port.
        size: Bytes,
    },
    /// One pool for the switch; a queue may hold alpha times what is free.
    Shared {
        /// Bytes a switch, headroom and reserved bytes included.
        size: Bytes,
        /// Dynamic threshold factor (Choudhury and Hahne 1998).
        alpha: f64,
        /// Bytes that each (port, priority) owns beyond the pool.
        reserved: Bytes,
        /// Bytes that lossy traffic alone uses, the rest being for lossless traffic; `None`: one pool for all.
        egress_pool: Option<Bytes>,
    },
    /// N-fold speed-up: each ingress (port, priority) owns `size`, an egress queue may hold what all of them hold.
    IdealOutputQueued {
        /// Bytes an input.
        size: Bytes,
    },
}

/// `[switch.marker]`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MarkerSpec {
    /// No marking.
    None,
    /// CE when the backlog exceeds `k`.
    Step {
        /// Threshold.
        k: LengthSpec,
        /// When the backlog is looked at.
        at: MarkAt,
        /// What happens there to packets that are not ECN-capable.
        not_ect: NotEct,
    },
    /// Random Early Detection (Floyd and Jacobson 1993).
    Red {
        /// Below this average backlog nothing is marked.
        min: Bytes,
        /// From this average on everything is; from twice this on if `gentle`.
        max: Bytes,
        /// Weight of a new sample in the average.
        w_q: f64,
        /// Probability of a mark as the average comes to `max`.
        p_max: f64,
        /// Above `max` the probability rises to 1 at twice `max`.
        gentle: bool,
        /// The packet in whose serialisation times an idle period counts.
        average_packet: Bytes,
        /// What happens to packets that are not ECN-capable.
        not_ect: NotEct,
    },
}

/// A length of a queue: `"30 KB"` or `"20 packets"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LengthSpec {
    /// Bytes.
    Bytes(Bytes),
    /// Packets.
    Packets(u32),
}

impl Serialize for LengthSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            LengthSpec::Bytes(bytes) => bytes.serialize(serializer),
            LengthSpec::Packets(count) => serializer.collect_str(&format_args!("{count} packets")),
        }
    }
}

/// What happens above the marking threshold to packets that are not ECN-capable; lossless ones are always queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotEct {
    /// Dropped, as a RED queue does (judd §7.1, Fig. 12).
    Drop,
    /// Queued like the others, up to the buffer.
    Queue,
}

/// When the backlog is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkAt {
    /// When the packet joins the queue.
    Enqueue,
    /// When it leaves.
    Dequeue,
}

/// Order of service within a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueName {
    /// First in, first out.
    Fifo,
    /// The flow with the least left first; the packet with the most left is dropped (pFabric).
    Pfabric,
}

/// `[switch.scheduler]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SchedulerSpec {
    /// The highest priority first.
    Strict,
    /// Enhanced transmission selection (IEEE 802.1Qaz); priorities in no group are strict, above all groups.
    Ets {
        /// The bandwidth groups.
        groups: Vec<EtsGroupSpec>,
    },
}

/// A bandwidth group: `{ priorities = [0, 1], share = 40 }`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EtsGroupSpec {
    /// Its priorities.
    pub priorities: Vec<u8>,
    /// Percent of what the strict priorities leave.
    pub share: u8,
}

/// `[switch.classes.NAME]`: what is `None` is as for all priorities.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassSpec {
    /// The priorities that it is about.
    pub priorities: Vec<u8>,
    /// ECN marking.
    pub marker: Option<MarkerSpec>,
    /// Order of service.
    pub queue: Option<QueueName>,
    /// Dynamic threshold factor, with a shared buffer.
    pub alpha: Option<f64>,
    /// Bytes that each (port, priority) owns beyond the pool, with a shared buffer.
    pub reserved: Option<Bytes>,
}

impl SwitchSpec {
    /// The class that a priority belongs to.
    pub(crate) fn class_of(&self, priority: u8) -> Option<&ClassSpec> {
        self.classes.iter().map(|(_, class)| class).find(|class| class.priorities.contains(&priority))
    }

    /// How packets of a priority are marked.
    pub(crate) fn marker_of(&self, priority: u8) -> MarkerSpec {
        self.class_of(priority).and_then(|class| class.marker).unwrap_or(self.marker)
    }
}
