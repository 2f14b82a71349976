//! Whether flows contend: at least two are under way in the network.
//!
//! Automatic jitter models the noise that keeps flows from locking in phase. A single flow cannot lock in phase with another, so it gets no jitter.
//! The traffic counts active flows and announces each change with its time before the window that contains it. So results do not depend on windows.

use pauseframe_units::Time;
use std::collections::VecDeque;

/// Active flows from which on flows contend.
const MIN_CONTENDING_FLOWS: u64 = 2;

/// The changes of contention that a partition knows.
#[derive(Debug, Default)]
pub(crate) struct ConcurrentFlowSchedule {
    /// Future changes, in the order of time.
    changes: VecDeque<(Time, bool)>,
    is_on: bool,
}

impl ConcurrentFlowSchedule {
    /// Appends changes: from each time on flows contend (true) or do not.
    pub(crate) fn append_contention_changes(&mut self, changes: &[(Time, bool)]) {
        self.changes.extend(changes);
    }

    /// Whether flows contend at `now`, which must not decrease between calls.
    #[inline]
    pub(crate) fn advance_and_check_contention(&mut self, now: Time) -> bool {
        while let Some((_, is_on)) = self.changes.front().copied().filter(|(at, _)| *at <= now) {
            self.is_on = is_on;
            self.changes.pop_front();
        }
        self.is_on
    }
}

/// The traffic's view of contention.
#[derive(Debug, Default)]
pub(crate) struct ConcurrentFlowTracker {
    is_on: bool,
    /// Changes that partitions have not received yet.
    pub(crate) changes: Vec<(Time, bool)>,
}

impl ConcurrentFlowTracker {
    /// Sets the number of active flows from `now` on.
    pub(crate) fn set_active_flow_count(&mut self, flows: u64, now: Time) {
        if self.is_on != (flows >= MIN_CONTENDING_FLOWS) {
            self.is_on = !self.is_on;
            self.changes.push((now, self.is_on));
        }
    }
}
