//! The tables of `[record]`.

use pauseframe_units::Span;
use serde::Serialize;

/// `[record.series]`: what is sampled.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeriesSpec {
    /// Interval.
    pub every: Span,
    /// Globs over port names ("edge0:*"): backlog, throughput, time paused.
    pub ports: Vec<String>,
    /// Globs over workload names: goodput of each flow, and its sender's cwnd, ssthresh, srtt, alpha.
    pub flows: Vec<String>,
}

/// `[record.packets]`: a pcapng file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PacketsSpec {
    /// Globs over port names; both directions of their links are captured.
    pub ports: Vec<String>,
    /// A packet is written at every such port that it crosses, not at the first only.
    pub every_hop: bool,
    /// Stop capturing after this many packets.
    pub limit: u64,
}

/// `[record.states]`: what a run is played back from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StatesSpec {
    /// Interval in which queues and links are looked at.
    pub every: Span,
    /// Stop recording after this many changes.
    pub limit: u64,
}

/// `[record.pause_tree]`: every pause, with what caused it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PauseTreeSpec {
    /// Stop recording after this many pauses.
    pub limit: u64,
}
