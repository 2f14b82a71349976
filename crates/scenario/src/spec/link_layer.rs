//! `host.slow_receivers`, `[qcn]` and the `udp` workload.

use super::SizesSpec;
use pauseframe_units::{BitRate, Bytes, Span};
use serde::Serialize;

/// A row of `host.slow_receivers`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SlowReceiver {
    /// The host.
    pub host: String,
    /// Bytes of frames that it takes from the buffer, in bits per second.
    pub rate: BitRate,
    /// The receive buffer: lossless classes pause the link before it is full, lossy ones are dropped.
    pub buffer: Bytes,
}

/// `[qcn]` (IEEE 802.1Qau): a preset's row with what the file changes in it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QcnSpec {
    /// The row that the defaults came from.
    pub preset: String,
    /// Priorities whose egress queues are watched; `None`: all but that of the CNMs.
    pub priorities: Option<Vec<u8>>,
    /// Priority of the CNMs.
    pub cnm_priority: u8,
    /// The queue that a congestion point aims at.
    pub q_eq: Bytes,
    /// Weight of the queue's growth in the feedback.
    pub w: f64,
    /// Bytes between two samples of a queue without congestion.
    pub sample: Bytes,
    /// Spread of intervals and cycles: uniform within this share of their mean, either way.
    pub jitter: f64,
    /// Share of its rate that a limiter gives up for each step of the six-bit feedback.
    pub g_d: f64,
    /// Least factor of one cut.
    pub min_decrease: f64,
    /// Cycles of fast recovery.
    pub fast_recovery: u32,
    /// Growth of the target rate a cycle after that.
    pub active_increase: BitRate,
    /// The same when byte counter and timer are both beyond fast recovery, for each cycle beyond.
    pub hyper_active_increase: BitRate,
    /// Bytes of a cycle of the byte counter.
    pub byte_counter: Bytes,
    /// Cycle of the timer.
    pub timer: Span,
    /// A target rate beyond ten times the current one falls to an eighth after the first cycle.
    pub extra_fast_recovery: bool,
    /// Least rate of a limiter.
    pub min_rate: BitRate,
}

/// A `udp` workload: sources of datagrams that do not react.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UdpSpec {
    /// Hosts that send; `None`: all.
    pub sources: Option<Vec<String>>,
    /// Hosts that they send to; `None`: all. A source takes one at random, never itself.
    pub destinations: Option<Vec<String>>,
    /// Rate of a source while it sends, with all that the scenario counts on the wire.
    pub rate: BitRate,
    /// Application bytes of a datagram.
    pub datagram: Bytes,
    /// The 802.1p priority of the datagrams.
    pub priority: u8,
    /// Random on and off; `None`: each source sends all the time.
    pub burst: Option<BurstSpec>,
    /// Application bytes that each source sends in all; `None`: until `stop`.
    pub size: Option<Bytes>,
    /// First possible start.
    pub start: Span,
    /// Nothing is sent from here on.
    pub stop: Span,
}

/// Random on and off: bursts at the rate of the workload, and pauses between them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BurstSpec {
    /// Application bytes of a burst.
    pub sizes: SizesSpec,
    /// Mean of the pause between the end of a burst and the start of the next; exponential.
    pub idle: Span,
}
