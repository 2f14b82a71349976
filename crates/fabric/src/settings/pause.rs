//! Pause storms.

use pauseframe_units::{PortId, Priority, Span, Time};

/// A pause storm: a port sends pause frames without congestion, as a broken NIC does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseStorm {
    /// The port that sends them.
    pub port: PortId,
    /// Priorities to pause, one frame each; irrelevant with link pause.
    pub priorities: Vec<Priority>,
    /// Interval between frames of a priority; `None`: half of the pause time, so the pause never ends.
    pub every: Option<Span>,
    /// Pause time; 0 resumes.
    pub quanta: u16,
    /// Time of the first frame.
    pub start: Time,
    /// No frames from here on; `None`: the storm never ends.
    pub stop: Option<Time>,
}
