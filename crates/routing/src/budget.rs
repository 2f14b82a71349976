//! The budget of work for a plan.
//!
//! Work is counted in steps instead of seconds, so the same settings give the same plan on every machine.
//! Work that every plan needs (trees, their proof and the tables) is reserved first; the search for orders,
//! detours and further engines share the rest.

use crate::watch::{Stopped, Watch};

/// Number of steps per second of the budget: 1.25 ns each, of which a server takes 0.6 to 1.2.
pub const STEPS_A_SECOND: f64 = 8e8;

/// Counts the steps of a plan.
pub(crate) struct Ledger<'w> {
    watch: &'w mut dyn Watch,
    budget: u64,
    done: u64,
    /// Number of steps after which no optional work starts.
    cut: u64,
    /// Optional work ended at the cut, although its budget had steps left.
    was_cut: bool,
    /// Smallest mean detour found up to now.
    best: f64,
}

impl<'w> Ledger<'w> {
    pub(crate) fn new(budget: u64, cut: Option<u64>, watch: &'w mut dyn Watch) -> Ledger<'w> {
        Ledger { watch, budget, done: 0, cut: cut.unwrap_or(u64::MAX), was_cut: false, best: f64::INFINITY }
    }

    /// A ledger without a limit.
    pub(crate) fn unlimited(watch: &'w mut dyn Watch) -> Ledger<'w> {
        Ledger::new(u64::MAX >> 8, None, watch)
    }

    pub(crate) fn spend(&mut self, steps: u64) {
        self.done += steps;
    }

    /// The number of steps at which a share of `1 / parts` of the budget ends, if it begins now.
    pub(crate) fn part(&self, parts: u64) -> u64 {
        self.done + self.budget / parts
    }

    /// The number of steps at which optional work must end: `needed` steps follow it, and a third of the
    /// budget stays free for backups and other engines. Optional work gets at least a tenth of the budget.
    pub(crate) fn before(&self, needed: u64) -> u64 {
        let rest = self.budget.saturating_sub(needed + self.budget / 3);
        rest.max(self.done + self.budget / 10)
    }

    /// The number of steps at which work must end to leave `needed` steps and a share of `1 / parts` of the
    /// budget.
    pub(crate) fn leaving(&self, needed: u64, parts: u64) -> u64 {
        self.budget.saturating_sub(needed + self.budget / parts)
    }

    /// Number of steps up to now, including steps after a cut.
    pub(crate) fn spent(&self) -> u64 {
        self.done
    }

    /// The number of steps at which the first of `rounds` equal rounds up to `end` ends.
    pub(crate) fn round(&self, rounds: usize, end: u64) -> u64 {
        self.done + end.saturating_sub(self.done) / rounds as u64
    }

    /// Number of steps left until `end`. A cut does not change this number: the cooling of a search must not
    /// depend on when the search is cut short.
    pub(crate) fn left(&self, end: u64) -> u64 {
        end.saturating_sub(self.done)
    }

    /// True if optional work may continue up to `end`. The observer can end optional work early.
    pub(crate) fn goes_on(&mut self, end: u64) -> bool {
        if self.watch.enough() {
            self.cut = self.cut.min(self.done);
        }
        self.was_cut |= (self.cut..end).contains(&self.done);
        self.done < end.min(self.cut)
    }

    /// True if important work may continue up to `end`.
    pub(crate) fn may(&self, end: u64) -> bool {
        self.done < end
    }

    /// Number of steps up to now, or up to the cut if the work was cut short.
    pub(crate) fn steps(&self) -> u64 {
        self.done.min(self.cut)
    }

    /// True if the work was cut short.
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Reports the progress of a stage.
    pub(crate) fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped> {
        self.watch.step(stage, done, of)
    }

    /// Reports the mean detour of the best orders found up to now.
    pub(crate) fn best(&mut self, detour: f64) {
        if detour < self.best {
            self.best = detour;
            self.watch.best(detour);
        }
    }
}
