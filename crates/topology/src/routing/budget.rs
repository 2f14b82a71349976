//! The amount of work that a plan may take.
//!
//! Work is counted in steps, not in seconds, so the same settings give the same plan on every machine. A step takes
//! about a nanosecond on one core. Steps for trees and their proof are reserved first; orders, detours and further
//! engines share the rest.

use crate::watch::{Stopped, Watch};

/// Approximate number of steps per second.
pub const STEPS_A_SECOND: f64 = 1e9;

/// Counts the steps of a plan.
pub(crate) struct Ledger<'w> {
    watch: &'w mut dyn Watch,
    budget: u64,
    done: u64,
    /// From this many steps on no optional work begins.
    cut: u64,
    /// The smallest mean detour so far.
    best: f64,
}

impl<'w> Ledger<'w> {
    pub(crate) fn new(budget: u64, cut: Option<u64>, watch: &'w mut dyn Watch) -> Ledger<'w> {
        Ledger { watch, budget, done: 0, cut: cut.unwrap_or(u64::MAX), best: f64::INFINITY }
    }

    /// An unlimited budget.
    pub(crate) fn unlimited(watch: &'w mut dyn Watch) -> Ledger<'w> {
        Ledger::new(u64::MAX >> 8, None, watch)
    }

    pub(crate) fn spend(&mut self, steps: u64) {
        self.done += steps;
    }

    /// The end of a part of the budget that begins now, one of `parts`.
    pub(crate) fn part(&self, parts: u64) -> u64 {
        self.done + self.budget / parts
    }

    /// The end of optional work if `needed` steps come after it, with a third of the budget for backups and other
    /// engines; optional work gets at least a tenth.
    pub(crate) fn before(&self, needed: u64) -> u64 {
        let rest = self.budget.saturating_sub(needed + self.budget / 3);
        rest.max(self.done + self.budget / 10)
    }

    /// The end of work that leaves `needed` steps and one of several parts of the budget.
    pub(crate) fn leaving(&self, needed: u64, parts: u64) -> u64 {
        self.budget.saturating_sub(needed + self.budget / parts)
    }

    /// The steps so far, including those after a stop.
    pub(crate) fn spent(&self) -> u64 {
        self.done
    }

    /// The end of the first of several equal rounds up to `end`.
    pub(crate) fn round(&self, rounds: usize, end: u64) -> u64 {
        self.done + end.saturating_sub(self.done) / rounds as u64
    }

    /// Steps until `end`, ignoring a stop: the cooling of a search must not depend on where it is stopped.
    pub(crate) fn left(&self, end: u64) -> u64 {
        end.saturating_sub(self.done)
    }

    /// Whether optional work may continue, up to `end`. The observer may stop it.
    pub(crate) fn goes_on(&mut self, end: u64) -> bool {
        if self.watch.enough() {
            self.cut = self.cut.min(self.done);
        }
        self.done < end.min(self.cut)
    }

    /// Whether desirable work may continue, up to `end`.
    pub(crate) fn may(&self, end: u64) -> bool {
        self.done < end
    }

    /// The steps so far, or those at the stop.
    pub(crate) fn steps(&self) -> u64 {
        self.done.min(self.cut)
    }

    /// Whether the work was stopped.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut < self.done
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// Reports the progress of a stage.
    pub(crate) fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped> {
        self.watch.step(stage, done, of)
    }

    /// Reports the mean detour of the best orders so far.
    pub(crate) fn best(&mut self, detour: f64) {
        if detour < self.best {
            self.best = detour;
            self.watch.best(detour);
        }
    }
}
