//! Lets long computations report their progress, and lets a caller stop them.

use thiserror::Error;

/// Receives the progress of a computation.
pub trait Watch {
    /// Reports that `done` of `of` steps of `stage` are complete. The computation calls this method often, so
    /// it should be fast.
    ///
    /// # Errors
    /// [`Stopped`] ends the computation early.
    fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped>;

    /// True if the current result is good enough; a computation that improves its result step by step then
    /// stops.
    fn enough(&self) -> bool {
        false
    }

    /// Reports the mean detour of the best orders found up to now, as a fraction of the mean distance.
    fn best(&mut self, _detour: f64) {}
}

/// The caller stopped the computation before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Ignores the progress and never stops a computation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn step(&mut self, _: &'static str, _: u64, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
}
