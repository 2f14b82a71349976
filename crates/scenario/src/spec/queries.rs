//! The `scatter_gather` and `hotspot` workloads of cee.

use pauseframe_units::{Bytes, Span};
use serde::Serialize;

/// A `scatter_gather` workload (cee §III-C1).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScatterGatherSpec {
    /// Hosts that launch queries (high-level aggregators).
    pub aggregators: Vec<String>,
    /// Hosts that answer, and of which one in each rack collects; `None`: all that are no aggregators.
    pub servers: Option<Vec<String>>,
    /// Times between the queries of an aggregator.
    pub gaps: GapsSpec,
    /// Bytes of a request, at both levels.
    pub request: Bytes,
    /// Bytes of a response, at both levels.
    pub response: Bytes,
    /// First possible start.
    pub start: Span,
    /// No new query from here on.
    pub stop: Span,
}

/// Times between events.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GapsSpec {
    /// A Poisson process.
    Exponential {
        /// Mean gap.
        mean: Span,
    },
    /// The logarithm is normal: long silences and clusters.
    LogNormal {
        /// Mean gap.
        mean: Span,
        /// Standard deviation of the logarithm; the coefficient of variation is sqrt(exp(sigma^2) - 1).
        sigma: f64,
    },
}

/// A `hotspot` workload (cee Fig. 3).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HotspotSpec {
    /// How many senders: the first hosts that are not the receiver.
    pub senders: u32,
    /// Name of the receiver.
    pub receiver: String,
    /// What all senders together offer before and after the burst, as a share of the receiver's link.
    pub load: f64,
    /// Bytes that an application writes at a time then.
    pub message: Bytes,
    /// What they offer together in the burst, in link rates of the receiver.
    pub overload: f64,
    /// When the burst begins.
    pub burst_start: Span,
    /// How long it lasts.
    pub burst: Span,
    /// First possible start.
    pub start: Span,
    /// Nothing is written from here on.
    pub stop: Span,
}
