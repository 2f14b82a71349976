//! Pause frames beyond the rule that an account above XOFF sends them: storms, and ports that flow control works at in one direction.

use pauseframe_units::{PortId, Priority, Span, Time};

/// A port that sends pause frames although nothing asks for them, as a broken NIC does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseStorm {
    /// The port that sends them.
    pub port: PortId,
    /// Of these priorities, a frame each; whatever they are with PAUSE of whole links.
    pub priorities: Vec<Priority>,
    /// From one frame of a priority to the next; `None`: half of the pause time, so the pause never ends.
    pub every: Option<Span>,
    /// Pause time; 0 resumes.
    pub quanta: u16,
    /// The first frame.
    pub start: Time,
    /// No frame from here on; `None`: never.
    pub stop: Option<Time>,
}

/// Which pause frames a port sends and obeys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseRule {
    /// The port sends pause frames.
    pub sends: bool,
    /// Whose pause frames stop it.
    pub obeys: Obeys,
}

/// The classes in which a port obeys pause frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obeys {
    /// The lossless ones.
    Lossless,
    /// All of them.
    All,
    /// None.
    None,
}

impl PauseRule {
    /// Of a port that no rule is about.
    pub const BOTH_WAYS: PauseRule = PauseRule { sends: true, obeys: Obeys::Lossless };
}

/// Headroom that all (port, priority) of a switch share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum HeadroomPool {
    /// So many bytes a switch.
    Bytes(pauseframe_units::Bytes),
    /// The sum of all headrooms of a switch, divided by this.
    OverSubscription(f64),
}
