//! Progress reports of long computations, and a way to stop them.

use thiserror::Error;

/// Receives the progress of a computation.
pub trait Watch {
    /// Reports that `done` of `of` steps of `stage` are complete. It is called often, so it should usually return at
    /// once.
    ///
    /// # Errors
    /// [`Stopped`] ends the computation.
    fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped>;

    /// Whether the current result is good enough; an improving computation then ends with it.
    fn enough(&self) -> bool {
        false
    }

    /// The mean detour of the planner's best orders so far, relative to the mean distance.
    fn best(&mut self, _detour: f64) {}
}

/// The computation was stopped by the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Ignores progress and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn step(&mut self, _: &'static str, _: u64, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
}
