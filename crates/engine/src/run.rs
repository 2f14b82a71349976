//! The run loop: handles events in order up to a time and keeps the fingerprint. Its caller decides when a run ends.

use crate::{EventQueue, Fingerprint};
use pauseframe_units::Time;

/// A simulated system that the run loop drives.
pub trait Model {
    /// The time up to which events may run; read before each event.
    fn end_time(&self) -> Time;
    /// The pending events and the clock.
    fn event_queue(&mut self) -> &mut EventQueue;
    /// Handles the event with code `event`.
    fn handle_event(&mut self, event: u64);
    /// Whether the model prefetches for upcoming events.
    fn prefetches(&self) -> bool {
        false
    }
    /// Prefetches memory for upcoming events; never changes a result.
    fn prefetch_upcoming(&mut self) {}
}

/// Progress of a run, for a callback.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Simulated time.
    pub now: Time,
    /// Events so far, without observation.
    pub events: u64,
}

/// What the progress callback of a run requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunCallbackDecision {
    /// Go on.
    Continue,
    /// Stop here and keep what was recorded.
    Stop,
}

/// Limits that end a run even if the model has more to do.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Largest simulated time; events at this time still run.
    pub time: Time,
    /// Events between two calls of the progress callback, about.
    pub watch_every: u64,
}

/// Why and where a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEnding {
    /// Simulated time at the end: the limit, or the time of the last event if the run ended earlier.
    pub now: Time,
    /// Events, observation not counted.
    pub events: u64,
    /// Fingerprint of all these events.
    pub fingerprint: Fingerprint,
    /// The progress callback stopped the run.
    pub interrupted: bool,
}

/// Number and fingerprint of the events handled so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventTally {
    /// Events.
    pub events: u64,
    /// Fingerprint of all these events.
    pub fingerprint: Fingerprint,
}

/// Handles the events of `model` before its end time.
pub fn run_events<M: Model>(model: &mut M, tally: &mut EventTally) {
    if model.prefetches() {
        run_prefetching(model, tally);
        return;
    }
    // Both counters stay in memory and are updated separately. Side by side the compiler would vectorise the additions, which takes more
    // instructions; held in registers it would spill and reload them for each event.
    while let Some((now, event)) = pop_before_end(model) {
        tally.fingerprint.add_event(now, event);
        model.handle_event(event);
        tally.events += 1;
    }
}

/// [`run_events`] with prefetching.
#[inline(never)]
fn run_prefetching<M: Model>(model: &mut M, tally: &mut EventTally) {
    loop {
        let end = model.end_time();
        let Some((now, event)) = model.event_queue().pop_lookahead_before(end) else { break };
        tally.fingerprint.add_event(now, event);
        model.prefetch_upcoming();
        model.handle_event(event);
        tally.events += 1;
    }
}

#[inline(always)]
fn pop_before_end<M: Model>(model: &mut M) -> Option<(Time, u64)> {
    let end = model.end_time();
    model.event_queue().pop_before(end)
}
