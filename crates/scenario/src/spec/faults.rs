//! What goes wrong in a scenario, and who looks out for it.

use pauseframe_units::Span;
use serde::Serialize;

/// `[switch.pfc.watchdog]`: as `SONiC`'s pfcwd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct WatchdogSpec {
    /// Paused for this long with packets waiting: a storm.
    pub detection: Span,
    /// What happens to the queue then.
    pub action: WatchdogActionName,
    /// Without a pause frame for this long the storm is over.
    pub restoration: Span,
}

/// What happens to a queue in a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchdogActionName {
    /// What it holds and gets is dropped.
    Drop,
    /// It sends in spite of pauses.
    Forward,
}

/// `[[failure]]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FailureSpec {
    /// What fails.
    pub what: FailedSpec,
    /// When it goes down.
    pub down: Span,
    /// When it is back; `None`: never.
    pub up: Option<Span>,
}

/// What fails.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedSpec {
    /// All links between two nodes.
    Link([String; 2]),
    /// The link at a port.
    Port(String),
    /// A node, with all its links.
    Node(String),
}

/// `[[corruption]]`: a bit error ratio or a frame error ratio.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CorruptionSpec {
    /// Globs over the names of the ports that send.
    pub ports: Vec<String>,
    /// The share of bits that is damaged, each on its own.
    pub ber: Option<f64>,
    /// The share of frames that is damaged.
    pub fer: Option<f64>,
}
