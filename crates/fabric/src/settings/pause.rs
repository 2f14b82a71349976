//! Exceptions of flow control: pause storms, and ports with one-way flow control.

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

/// Which pause frames a port sends and obeys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseRule {
    /// Whether the port sends pause frames.
    pub sends: bool,
    /// Which pause frames it obeys.
    pub obeys: ObeyedPauses,
}

/// The classes in which a port obeys pause frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObeyedPauses {
    /// Lossless classes.
    Lossless,
    /// All classes.
    All,
    /// None.
    None,
}

impl PauseRule {
    /// The rule of ports without an explicit one.
    pub const BOTH_WAYS: PauseRule = PauseRule { sends: true, obeys: ObeyedPauses::Lossless };
}

/// Headroom pool that all (port, priority) pairs of a switch share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum HeadroomPool {
    /// Bytes per switch.
    Bytes(pauseframe_units::Bytes),
    /// The sum of all headrooms of a switch, divided by this.
    OverSubscription(f64),
}
