//! Quantized congestion notification, IEEE 802.1Qau (IEEE 802.1Q clauses 30 to 33): congestion points at the egress
//! queues of switches, CNMs on the wire, reaction points in the NICs (docs/models/qcn.md).
//!
//! A CNM is a 64-byte frame of the highest priority that the switch sends to the source of the sampled frame. There it
//! acts on the flow queue (destination, class) of the NIC, never on TCP: everything in that queue is limited, SYNs and
//! ACKs too. A queue without a limit is as if there were no QCN. Left out: CN-TAGs (a NIC knows its queues by the
//! encapsulated destination), defence against priorities without QCN, limits on the rate of CNMs.

use pauseframe_engine::Rng;
use pauseframe_units::{BitRate, Bytes, Priority, Span};

/// The parameters of QCN.
#[derive(Clone, PartialEq, Debug)]
pub struct QcnSettings {
    /// Priorities whose queues are watched; `None`: all but that of the CNMs.
    pub priorities: Option<Vec<Priority>>,
    /// Priority of the CNMs.
    pub cnm_priority: Priority,
    /// Set point of the queue, `Q_eq`.
    pub q_eq: Bytes,
    /// Weight of the queue's growth.
    pub w: f64,
    /// Bytes between two samples of a queue without congestion.
    pub sample: Bytes,
    /// Intervals and cycles are uniform within this fraction of their mean, in both directions.
    pub jitter: f64,
    /// Fraction by which each feedback step reduces the rate.
    pub g_d: f64,
    /// Smallest factor of a rate decrease.
    pub min_decrease: f64,
    /// Cycles of fast recovery.
    pub fast_recovery: u32,
    /// Growth of the target rate per cycle after fast recovery.
    pub active_increase: BitRate,
    /// Growth when byte counter and timer are both beyond fast recovery, per cycle beyond it.
    pub hyper_active_increase: BitRate,
    /// Bytes per cycle of the byte counter.
    pub byte_counter: Bytes,
    /// Duration of a timer cycle.
    pub timer: Span,
    /// A target beyond ten times the rate falls to an eighth after the first cycle.
    pub extra_fast_recovery: bool,
    /// Least rate of a limiter.
    pub min_rate: BitRate,
}

impl QcnSettings {
    /// The defaults of IEEE 802.1Q (`Q_eq` 26 KB; minimum rate 5 Mb/s), CNMs at priority 7.
    pub fn ieee_defaults() -> QcnSettings {
        QcnSettings {
            priorities: None,
            cnm_priority: Priority::new(7).unwrap_or_default(),
            q_eq: Bytes(26_000),
            w: 2.0,
            sample: Bytes(150_000),
            jitter: 0.15,
            g_d: 1.0 / 128.0,
            min_decrease: 0.5,
            fast_recovery: 5,
            active_increase: BitRate(5_000_000),
            hyper_active_increase: BitRate(50_000_000),
            byte_counter: Bytes(150_000),
            timer: Span::from_ms(15),
            extra_fast_recovery: true,
            min_rate: BitRate(5_000_000),
        }
    }

    /// `mean`, randomised by `jitter`.
    pub(crate) fn randomize_by_jitter(&self, mean: f64, rng: &mut Rng) -> f64 {
        if self.jitter == 0.0 { mean } else { mean * (1.0 + self.jitter * (2.0 * rng.uniform_unit() - 1.0)) }
    }
}

/// The largest quantised feedback, 6 bits.
pub(crate) const MAX_QUANTIZED_FEEDBACK: u8 = 63;
