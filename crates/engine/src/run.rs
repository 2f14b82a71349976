//! The run loop: takes events in order up to a time and keeps the fingerprint. Who drives it says when a run is over.

use crate::{EventQueue, Fingerprint};
use pauseframe_units::Time;

/// What the loop drives.
pub trait Model {
    /// Up to when it may run; asked before each event.
    fn end(&self) -> Time;
    /// What is to happen, and the time of what happens.
    fn queue(&mut self) -> &mut EventQueue;
    /// Does what `event` says.
    fn handle(&mut self, event: u64);
    /// Whether it wants to see what comes.
    fn prefetches(&self) -> bool {
        false
    }
    /// Has a look at what comes: a hint to the memory, which no result depends on.
    fn prefetch(&mut self) {}
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Events so far, observation not counted.
    pub events: u64,
}

/// What the watcher of a run wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Go on.
    Continue,
    /// Stop here and keep what was recorded.
    Stop,
}

/// When a run ends, whatever the model says.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Simulated time; events at this time still happen.
    pub time: Time,
    /// The watcher is called about once in so many events.
    pub watch_every: u64,
}

/// Why and where a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Simulated time: the limit, unless the run was over before; without a limit and with nothing left to happen, the time of
    /// the last event.
    pub now: Time,
    /// Events, observation not counted.
    pub events: u64,
    /// Over all of them.
    pub fingerprint: Fingerprint,
    /// The watcher stopped it.
    pub interrupted: bool,
}

/// What happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Events.
    pub events: u64,
    /// Over all of them.
    pub fingerprint: Fingerprint,
}

/// Lets `model` handle its events up to its end, those at the end not.
pub fn run<M: Model>(model: &mut M, tally: &mut Tally) {
    if model.prefetches() {
        run_prefetching(model, tally);
        return;
    }
    // Both are kept where they lie, and counted apart. Side by side the compiler adds to both as to a vector, which takes more instructions than it
    // saves; and what it keeps itself it puts by and takes up again each time.
    while let Some((now, event)) = next(model) {
        tally.fingerprint.add(now, event);
        model.handle(event);
        tally.events += 1;
    }
}

/// The same with a look at what comes.
#[inline(never)]
fn run_prefetching<M: Model>(model: &mut M, tally: &mut Tally) {
    loop {
        let end = model.end();
        let Some((now, event)) = model.queue().pop_lookahead(end) else { break };
        tally.fingerprint.add(now, event);
        model.prefetch();
        model.handle(event);
        tally.events += 1;
    }
}

#[inline(always)]
fn next<M: Model>(model: &mut M) -> Option<(Time, u64)> {
    let end = model.end();
    model.queue().pop_before(end)
}
