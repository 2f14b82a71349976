//! When a queue is in a storm of pauses.

use pauseframe_units::Span;

/// What happens to a queue in a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchdogAction {
    /// Its packets are dropped, and those that come.
    Drop,
    /// It sends in spite of pauses.
    Forward,
    /// The storm is counted, and nothing is done.
    Alert,
}

/// Settings of the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watchdog {
    /// Paused for this long with packets waiting: a storm.
    pub detection: Span,
    /// What is done then.
    pub action: WatchdogAction,
    /// Without a pause frame for this long: over.
    pub restoration: Span,
    /// It looks at multiples of this alone; zero: at any time.
    pub poll: Span,
}
