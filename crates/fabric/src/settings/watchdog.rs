//! Settings of the PFC watchdog.

use pauseframe_units::Span;

/// What happens to a queue in a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchdogAction {
    /// Drops its packets and new ones.
    Drop,
    /// Ignores pauses.
    Forward,
    /// Only counts the storm.
    Alert,
}

/// Settings of the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcWatchdogSettings {
    /// A non-empty queue paused for this long is in a storm.
    pub detection: Span,
    /// Action in a storm.
    pub action: WatchdogAction,
    /// A storm ends after this time without a pause frame.
    pub restoration: Span,
    /// It checks only at multiples of this; zero: at any time.
    pub poll: Span,
}
