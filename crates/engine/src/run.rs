//! The run loop: takes events in order, keeps the fingerprint, stops when told to.

use crate::{EventQueue, Fingerprint};
use pauseframe_units::Time;

/// What the loop drives.
pub trait Model {
    /// Codes from here on are observation (samples): they are not part of the trajectory.
    const OBSERVATION: u64;
    /// Does what `event` says.
    fn handle(&mut self, event: u64, now: Time, queue: &mut EventQueue);
    /// Whether the run has nothing left to show; asked before the first event and after each.
    fn is_finished(&self) -> bool;
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
    /// The watcher is called after so many events.
    pub watch_every: u64,
}

/// Why and where a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The time of the event after which the model was finished or the watcher stopped the run; else the limit, which a
    /// model with nothing pending reaches as it is; without a limit the time of the last event, observation not counted.
    pub now: Time,
    /// Events, observation not counted.
    pub events: u64,
    /// Over all of them.
    pub fingerprint: Fingerprint,
    /// The watcher stopped it.
    pub interrupted: bool,
}

/// Runs `model` until it is finished, nothing is pending, a limit is reached, or `watch` says stop.
pub fn run<M: Model>(
    model: &mut M,
    queue: &mut EventQueue,
    limits: Limits,
    mut watch: impl FnMut(&mut M, Progress) -> Control,
) -> Ending {
    let mut fingerprint = Fingerprint::START;
    let mut events = 0;
    let mut until_watch = limits.watch_every;
    let mut last = queue.now();
    if model.is_finished() {
        return Ending { now: last, events, fingerprint, interrupted: false };
    }
    while let Some((now, event)) = queue.pop() {
        if now > limits.time {
            return Ending { now: limits.time, events, fingerprint, interrupted: false };
        }
        if event < M::OBSERVATION {
            fingerprint.add(now, event);
            events += 1;
            last = now;
        }
        model.handle(event, now, queue);
        if model.is_finished() {
            return Ending { now, events, fingerprint, interrupted: false };
        }
        until_watch -= 1;
        if until_watch == 0 {
            until_watch = limits.watch_every;
            if watch(model, Progress { now, events }) == Control::Stop {
                return Ending { now, events, fingerprint, interrupted: true };
            }
        }
    }
    let now = if limits.time == Time::MAX { last } else { limits.time };
    Ending { now, events, fingerprint, interrupted: false }
}
