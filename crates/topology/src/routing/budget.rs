//! How much work a plan may take.
//!
//! Work is counted in steps, not in seconds, so the same settings give the same plan on every machine. A step is about a
//! nanosecond of one core. What a plan cannot do without (trees, their proof) is set aside first; orders, detours and further
//! engines share the rest.

use crate::watch::{Stopped, Watch};

/// Steps in a second, about.
pub const STEPS_A_SECOND: f64 = 1e9;

/// Counts the steps of a plan.
pub(crate) struct Ledger<'w> {
    watch: &'w mut dyn Watch,
    budget: u64,
    done: u64,
    /// From this many steps on nothing is begun that can be left out.
    cut: u64,
    /// The least mean detour so far.
    best: f64,
}

impl<'w> Ledger<'w> {
    pub(crate) fn new(budget: u64, cut: Option<u64>, watch: &'w mut dyn Watch) -> Ledger<'w> {
        Ledger { watch, budget, done: 0, cut: cut.unwrap_or(u64::MAX), best: f64::INFINITY }
    }

    /// All the time in the world.
    pub(crate) fn unlimited(watch: &'w mut dyn Watch) -> Ledger<'w> {
        Ledger::new(u64::MAX >> 8, None, watch)
    }

    pub(crate) fn spend(&mut self, steps: u64) {
        self.done += steps;
    }

    /// Where a part of the budget ends that begins here: one of `parts`.
    pub(crate) fn part(&self, parts: u64) -> u64 {
        self.done + self.budget / parts
    }

    /// Where work that can be left out ends if `needed` steps come after it, a third of the budget for backups and other
    /// engines beside them; it gets a tenth in any case.
    pub(crate) fn before(&self, needed: u64) -> u64 {
        let rest = self.budget.saturating_sub(needed + self.budget / 3);
        rest.max(self.done + self.budget / 10)
    }

    /// Where work ends that leaves `needed` steps, and one of so many parts of the budget.
    pub(crate) fn leaving(&self, needed: u64, parts: u64) -> u64 {
        self.budget.saturating_sub(needed + self.budget / parts)
    }

    /// The steps so far, those after a cut included.
    pub(crate) fn spent(&self) -> u64 {
        self.done
    }

    /// Where the first of so many equal rounds up to `end` ends.
    pub(crate) fn round(&self, rounds: usize, end: u64) -> u64 {
        self.done + end.saturating_sub(self.done) / rounds as u64
    }

    /// Steps until `end`. A cut is none of it: how a search cools must not depend on where it is cut short.
    pub(crate) fn left(&self, end: u64) -> u64 {
        end.saturating_sub(self.done)
    }

    /// Whether what can be left out may go on, up to `end`. Whoever looks on may say that it is enough.
    pub(crate) fn goes_on(&mut self, end: u64) -> bool {
        if self.watch.enough() {
            self.cut = self.cut.min(self.done);
        }
        self.done < end.min(self.cut)
    }

    /// Whether what would better not be left out may go on, up to `end`.
    pub(crate) fn may(&self, end: u64) -> bool {
        self.done < end
    }

    /// The steps so far; where the work was cut short, those at the cut.
    pub(crate) fn steps(&self) -> u64 {
        self.done.min(self.cut)
    }

    /// Whether the work was cut short.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut < self.done
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// Tells how far a stage is.
    pub(crate) fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped> {
        self.watch.step(stage, done, of)
    }

    /// Tells the mean detour of the best orders so far.
    pub(crate) fn best(&mut self, detour: f64) {
        if detour < self.best {
            self.best = detour;
            self.watch.best(detour);
        }
    }
}
