//! Whether flows contend: at least two are under way in the network.
//!
//! Automatic jitter stands for what keeps flows from locking in phase. A lone flow has none to lock with, so it is left as exact as it is without jitter.
//! The traffic counts flows and hands out each change with its time, before the window in which that lies; so what a partition sees does not depend on windows.

use pauseframe_units::Time;
use std::collections::VecDeque;

/// The flows that must be under way.
const TWO: u64 = 2;

/// What a partition knows of it.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// To come, in the order of time.
    changes: VecDeque<(Time, bool)>,
    is_on: bool,
}

impl Contention {
    /// From each time on it is so, or is not.
    pub(crate) fn expect(&mut self, changes: &[(Time, bool)]) {
        self.changes.extend(changes);
    }

    /// Whether it is so at `now`, which never goes back.
    #[inline]
    pub(crate) fn is_on(&mut self, now: Time) -> bool {
        while let Some((_, is_on)) = self.changes.front().copied().filter(|(at, _)| *at <= now) {
            self.is_on = is_on;
            self.changes.pop_front();
        }
        self.is_on
    }
}

/// What the traffic knows of it.
#[derive(Debug, Default)]
pub(crate) struct Count {
    is_on: bool,
    /// Not handed out yet.
    pub(crate) changes: Vec<(Time, bool)>,
}

impl Count {
    /// So many flows are under way from `now` on.
    pub(crate) fn set(&mut self, flows: u64, now: Time) {
        if self.is_on != (flows >= TWO) {
            self.is_on = !self.is_on;
            self.changes.push((now, self.is_on));
        }
    }
}
