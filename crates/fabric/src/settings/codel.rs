//! `[switch.codel]` and `[switch.classes.NAME.codel]`: the parameters of CoDel and FQ-CoDel, named as in `tc`.

use crate::marker::BUFFER_MAX;
use crate::queue::QueueDiscipline;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_units::{Bytes, Span};
use std::ops::RangeInclusive;

const TIMES: RangeInclusive<Span> = Span::from_us(1)..=Span::from_secs(10);
const PACKETS_MAX: u32 = 10_000_000;
const FLOWS: u32 = 1024;
const MEMORY: Bytes = Bytes(32 << 20);
const DROP_BATCH: u32 = 64;

table! {
    /// CoDel (RFC 8289) or FQ-CoDel (RFC 8290), with the names and defaults of Linux
    #[source = "Linux: sch_codel, sch_fq_codel"]
    #[derive(Copy)]
    pub struct CodelSettings as "Codel" {
        /// Sojourn time of packets that is acceptable for good
        target: Span = or_in(Span::from_ms(5), TIMES);
        /// CoDel acts once the sojourn time has exceeded target for so long: about the largest round trip
        interval: Span = or_in(Span::from_ms(100), TIMES) => {
            t.check(target < interval, "interval", || format!("{interval} is not above target ({target})"), "raise it");
        };
        /// ECN-capable packets are marked CE instead of dropped
        ecn: bool = or_because(is_fair, Origin::Default, "true with queue = \"fq_codel\", else false");
        /// ECN-capable packets that have waited longer are marked CE, whatever CoDel's state
        ce_threshold: Option<Span> = optional_in(TIMES, "none");
        /// Most packets of a queue. One more drops itself (codel), or packets of the flow with the most bytes (fq_codel)
        limit: u32 = by(limit, is_fair);
        /// Queues that flows are hashed to (fq_codel)
        flows: u32 = or_in(FLOWS, 1..=65_536);
        /// Bytes that a flow may send in a turn (fq_codel)
        quantum: Option<Bytes> = optional_in(Bytes(64)..=Bytes(1_000_000), "a frame of the largest packet");
        /// Most bytes of a queue, as with limit (fq_codel). Linux counts its buffers, here frames count
        memory_limit: Bytes = or_in(MEMORY, Bytes(64)..=BUFFER_MAX);
        /// Most packets that a full queue drops at once (fq_codel)
        drop_batch: u32 = or_in(DROP_BATCH, 1..=PACKETS_MAX) => {
            let changed = [
                ("flows", flows != FLOWS),
                ("quantum", quantum.is_some()),
                ("memory_limit", memory_limit != MEMORY),
                ("drop_batch", drop_batch != DROP_BATCH),
            ];
            for (key, is_changed) in changed {
                t.warn_if_idle(key, is_changed && !is_fair, "queue is \"codel\", which has no flows");
            }
        };
    }
    pub fn read(t, is_fair: bool);
}

fn limit(t: &mut Table, key: &'static str, doc: &str, is_fair: bool) -> u32 {
    let default = (if is_fair { 10_240 } else { 1000 }, Origin::Default);
    t.or_because_in(key, default, 1..=PACKETS_MAX, "10240 with queue = \"fq_codel\", else 1000", doc)
}

impl CodelSettings {
    /// The defaults of a discipline.
    pub fn of(queue: QueueDiscipline) -> CodelSettings {
        pauseframe_schema::reader::defaults(|t| CodelSettings::read(t, queue == QueueDiscipline::FqCodel))
    }

    /// Whether it ever marks packets.
    pub fn marks(&self) -> bool {
        self.ecn || self.ce_threshold.is_some()
    }

    /// Reads `codel` of a table whose `queue` has CoDel; refuses it otherwise.
    pub fn read_for(
        t: &mut Table,
        key: &'static str,
        _: &str,
        queue: Option<QueueDiscipline>,
    ) -> Option<CodelSettings> {
        let queue = queue.filter(|queue| queue.has_codel());
        if t.is_documenting() {
            return Some(t.section(key, |t| CodelSettings::read(t, false)));
        }
        let hint = "write queue = \"codel\" or \"fq_codel\" in the same table";
        t.check(queue.is_some() || !t.has(key), key, || "the queue has no CoDel".to_owned(), hint);
        let queue = queue.or(t.has(key).then_some(QueueDiscipline::Codel))?;
        Some(t.section(key, |t| CodelSettings::read(t, queue == QueueDiscipline::FqCodel)))
    }
}
