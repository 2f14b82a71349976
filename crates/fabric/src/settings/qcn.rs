//! Quantized congestion notification, IEEE 802.1Qau (IEEE 802.1Q clauses 30 to 33): congestion points at the egress
//! queues of switches, CNMs on the wire, reaction points in the NICs (docs/models/qcn.md).
//!
//! A CNM is a 64-byte frame of the highest priority that the switch sends to the source of the sampled frame. There it
//! acts on the flow queue (destination, class) of the NIC, never on TCP: everything in that queue is limited, SYNs and
//! ACKs too. A queue without a limit is as if there were no QCN. Left out: CN-TAGs (a NIC knows its queues by the
//! encapsulated destination), defence against priorities without QCN, limits on the rate of CNMs.

use pauseframe_engine::Rng;
use pauseframe_schema::bounds::Each;
use pauseframe_schema::reader::defaults;
use pauseframe_schema::row::{Row, RowValue, set};
use pauseframe_schema::table;
use pauseframe_units::{BitRate, Bytes, Priority, Span};
use std::ops::RangeInclusive;

const RATES: RangeInclusive<BitRate> = BitRate(1000)..=BitRate::gbps(10_000);
const SIZES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(1_000_000_000);
const CNM_PRIORITY: Priority = Priority::new(7).expect("below 8");
const MIN_RATE: RowValue = set("min_rate", "100 Kbps", "cee Table I");

/// The presets of `[qcn]`, which the file's own values override. Values that cee Table I does not give follow
/// the standard: w 2, samples and byte counter 150 KB, timer 15 ms, five cycles, 5 and 50 Mb/s, factor 0.5,
/// extra fast recovery. "Gd 0.5" in the table is read as the largest rate cut, `g_d` times 63
/// (docs/models/qcn.md).
const PRESETS: &[Row] = &[
    Row { name: "standard", doc: "Defaults of IEEE 802.1Q", row: &[] },
    Row {
        name: "qcn20",
        doc: "cee Table I, Q_eq 20 KB",
        row: &[set("q_eq", "20 KB", "cee Table I"), MIN_RATE],
    },
    Row {
        name: "qcn66",
        doc: "cee Table I, Q_eq 66 KB",
        row: &[set("q_eq", "66 KB", "cee Table I"), MIN_RATE],
    },
];

table! {
    /// Quantized congestion notification (IEEE 802.1Qau): a preset's values with the changes of the file
    #[source = "IEEE 802.1Qau"]
    pub struct QcnSettings as "Qcn" {
        /// Source of this table's defaults: IEEE 802.1Q (standard), or cee Table I with Q_eq 20 KB (qcn20) or 66 KB
        /// (qcn66)
        preset: String = or_row(PRESETS, "standard");
        /// Priorities whose egress queues are congestion points
        priorities: Option<Vec<Priority>> = optional_in(Each(Priority::ALL), "all but cnm_priority");
        /// Priority of the CNMs
        cnm_priority: Priority = or_in(CNM_PRIORITY, Priority::ALL) => {
            let itself = priorities.as_ref().is_some_and(|list: &Vec<Priority>| list.contains(&cnm_priority));
            t.check(!itself, "priorities", || format!("{cnm_priority} is that of the CNMs"), "CNMs are not sampled");
        };
        /// Set point of the queue at a congestion point
        q_eq: Bytes = or_in(Bytes::kb(26), SIZES);
        /// Weight of the queue's growth in the feedback
        w: f64 = or_in(2.0, 0.0..=64.0);
        /// Bytes between two samples without congestion
        sample: Bytes = or_in(Bytes::kb(150), SIZES);
        /// Intervals and cycles are uniform within this share of their mean
        jitter: f64 = or_in(0.15, 0.0..=0.9);
        /// Decrease of a limiter's rate per step of the six-bit feedback, as a fraction
        g_d: f64 = or_in(1.0 / 128.0, 0.0..=1.0);
        /// Smallest factor of one rate decrease
        min_decrease: f64 = or_in(0.5, 0.0..=1.0);
        /// Cycles of fast recovery
        fast_recovery: u32 = or_in(5, 1..=1000);
        /// Growth of the target rate per cycle after fast recovery
        active_increase: BitRate = or_in(BitRate(5_000_000), RATES);
        /// Growth of the target rate when byte counter and timer are both past fast recovery, per cycle beyond
        hyper_active_increase: BitRate = or_in(BitRate(50_000_000), RATES);
        /// Bytes per cycle of the byte counter
        byte_counter: Bytes = or_in(Bytes::kb(150), SIZES);
        /// Duration of a cycle of the timer
        timer: Span = or_in(Span::from_ms(15), Span::from_ns(1)..=Span::from_secs(10));
        /// Divide a target rate above ten times the current rate by eight after the first cycle
        extra_fast_recovery: bool = or(true);
        /// Minimum rate of a limiter
        min_rate: BitRate = or_in(BitRate(5_000_000), RATES);
    }
    pub fn read(t);
}

impl Default for QcnSettings {
    fn default() -> Self {
        defaults(QcnSettings::read)
    }
}

impl QcnSettings {
    /// `mean`, randomised by `jitter`.
    pub(crate) fn apply_jitter(&self, mean: f64, rng: &mut Rng) -> f64 {
        if self.jitter == 0.0 { mean } else { mean * (1.0 + self.jitter * (2.0 * rng.uniform_unit() - 1.0)) }
    }
}

/// The largest quantised feedback, 6 bits.
pub(crate) const MAX_QUANTIZED_FEEDBACK: u8 = 63;
