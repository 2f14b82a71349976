//! Long computations tell how far they are, and can be stopped there.

use thiserror::Error;

/// Hears how far a computation is.
pub trait Watch {
    /// `done` of `of` steps of `stage` are behind us. Called often: it should return at once most of the time.
    ///
    /// # Errors
    /// [`Stopped`] ends the computation.
    fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped>;

    /// Whether what there is by now is enough: a computation that gets better as it goes on leaves it at that.
    fn enough(&self) -> bool {
        false
    }

    /// The best orders that a planner has by now cost this mean detour, as a part of the mean distance.
    fn best(&mut self, _detour: f64) {}
}

/// Somebody did not want to wait for the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Nobody looks, nobody stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn step(&mut self, _: &'static str, _: u64, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
}
