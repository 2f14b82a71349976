//! Pause state of the egress side.

use pauseframe_units::{Span, Time};

/// Pause state of one class of an egress port; only pauses access it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseState {
    /// Paused until here, unless renewed or resumed.
    pub(crate) until: Time,
    /// Paused since.
    pub(crate) since: Time,
    /// A `PauseExpiry` is pending for this time.
    pub(super) expiry_at: Option<Time>,
    pub(crate) pauses_received: u64,
    pub(crate) resumes_received: u64,
    pub(crate) total: Span,
    pub(crate) longest: Span,
}

/// A pause frame that has arrived and waits for the reaction time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseFrameInReactionTime {
    pub(super) effect_at: Time,
    pub(crate) classes: u8,
    pub(super) quanta: u16,
}
