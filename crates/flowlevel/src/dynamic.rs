//! Computes completion times of flows that arrive and end, with a fluid model instead of packets.
//!
//! At any time the rates are max-min fair among the active flows. Rates change only when a flow starts or
//! ends, and only for the flows affected ([`Shares`]). Between two changes a flow drains at a constant rate,
//! so its end is known. Not modelled: propagation delay, and the convergence time of rates.

use crate::{FlowError, Paths, Shares};
use pauseframe_routing::watch::Watch;
use pauseframe_units::{BitRate, Bytes, PortId, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flow that starts at a given time and ends when all bytes are sent, or at its stop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// Start time of the flow.
    pub start: Time,
    /// Number of bytes to send.
    pub size: Bytes,
    /// Weight of the flow relative to other flows.
    pub weight: f64,
    /// Maximum rate of the flow, if limited.
    pub cap: Option<BitRate>,
    /// Time at which the flow ends even if bytes are left.
    pub stop: Option<Time>,
}

/// Minimum size of the end queue before outdated entries are removed.
const ENDS_MIN: usize = 1024;
/// Further entries of the end queue per active flow before outdated entries are removed.
const ENDS_MOST: usize = 4;

/// A source of flows in the order of their starts; the source may react to the end of flows.
pub trait Source {
    /// Start of the next flow, if known; called again after every end of a flow.
    fn next_start(&self) -> Option<Time>;
    /// Returns the next flow; flows are numbered from 0. Writes the ports of the flow into `path`, which is
    /// empty.
    fn next_flow(&mut self, path: &mut Vec<PortId>) -> Arrival;
    /// Reports that flow `flow` with path `path` has ended at time `at` (seconds).
    fn ended(&mut self, _flow: usize, _path: &[PortId], _at: f64) {}
}

/// The result for all flows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// For each flow, its end in seconds since the start of the run; [`f64::INFINITY`] if it has not ended.
    pub finish: Vec<f64>,
    /// For each flow, the number of bits left to send.
    pub left: Vec<f64>,
    /// For each flow, its ports.
    pub paths: Paths,
    /// For each flow, its size.
    pub sizes: Vec<Bytes>,
    /// Simulated time of this result in seconds.
    pub end: f64,
    /// True if the caller stopped the computation.
    pub stopped: bool,
}

/// Simulates the flows of `source` until all have ended, or until time `until`. `capacity` is in bits per second,
/// indexed by port. Ends that differ by rounding errors alone count as simultaneous.
///
/// # Errors
/// If a number is out of bounds.
pub fn simulate(
    capacity: &[f64],
    source: &mut dyn Source,
    until: Option<Time>,
    watch: &mut dyn Watch,
) -> Result<Outcome, FlowError> {
    let until = until.map_or(f64::INFINITY, Time::as_secs_f64);
    if let Some(port) = capacity.iter().position(|value| !(value.is_finite() && *value >= 0.0)) {
        return Err(FlowError::Capacity { port, value: capacity[port] });
    }
    let mut fluid = Fluid::new(capacity);
    let mut now: f64 = 0.0;
    loop {
        let start = source.next_start().map(Time::as_secs_f64);
        let next = [fluid.next_end(), fluid.next_stop(), start].into_iter().flatten().reduce(f64::min);
        let Some(next) = next.filter(|next| *next <= until) else { break };
        now = now.max(next);
        if watch.step("following flows", fluid.ended, fluid.sizes.len() as u64).is_err() {
            return Ok(fluid.outcome(now, true));
        }
        fluid.end_until(now, source);
        fluid.stop_until(now, source);
        while source.next_start().is_some_and(|start| start.as_secs_f64() <= now) {
            fluid.start(source, now)?;
        }
        fluid.share_again(now);
    }
    let end = if until.is_finite() && fluid.under_way() > 0 { until } else { now };
    Ok(fluid.outcome(end, false))
}

/// An active flow.
#[derive(Clone, Copy, Debug)]
struct Progress {
    flow: u32,
    /// Number of bits left at time `since`.
    left: f64,
    rate: f64,
    since: f64,
    /// Time at which the flow ends at this rate; infinite for a slot without a flow.
    due: f64,
}

/// Tuples (seconds, flow, slot), the earliest first. Seconds are not negative, so comparing their bits
/// compares the seconds.
type Queue = BinaryHeap<Reverse<(u64, u32, u32)>>;

#[derive(Debug)]
struct Fluid {
    shares: Shares,
    /// Progress of the flow in each slot of `shares`.
    progress: Vec<Progress>,
    /// Path of each flow.
    paths: Paths,
    sizes: Vec<Bytes>,
    finish: Vec<f64>,
    left: Vec<f64>,
    /// Number of flows that have ended.
    ended: u64,
    /// Stop times of flows; some flows may have ended before.
    stops: Queue,
    /// End times of flows; an entry is outdated if it differs from the flow's `due`.
    ends: Queue,
    path: Vec<PortId>,
}

impl Fluid {
    fn new(capacity: &[f64]) -> Fluid {
        Fluid {
            shares: Shares::new(capacity),
            progress: Vec::new(),
            paths: Paths::new(),
            sizes: Vec::new(),
            finish: Vec::new(),
            left: Vec::new(),
            ended: 0,
            stops: BinaryHeap::new(),
            ends: BinaryHeap::new(),
            path: Vec::new(),
        }
    }

    fn under_way(&self) -> usize {
        self.sizes.len() - self.ended as usize
    }

    fn outcome(mut self, end: f64, stopped: bool) -> Outcome {
        for progress in &mut self.progress {
            let flow = progress.flow as usize;
            if self.finish[flow].is_infinite() {
                progress.drain_until(end);
                self.left[flow] = progress.left;
            }
        }
        let Fluid { finish, left, paths, sizes, .. } = self;
        Outcome { finish, left, paths, sizes, end, stopped }
    }

    fn next_end(&mut self) -> Option<f64> {
        while let Some(Reverse((due, flow, slot))) = self.ends.peek() {
            let progress = &self.progress[*slot as usize];
            if progress.due.to_bits() == *due && progress.flow == *flow {
                return Some(f64::from_bits(*due));
            }
            self.ends.pop();
        }
        None
    }

    fn end_until(&mut self, now: f64, source: &mut dyn Source) {
        while self.next_end().is_some() {
            let Some(&Reverse((_, _, slot))) = self.ends.peek() else { return };
            let Progress { due, since, .. } = self.progress[slot as usize];
            if due > now + rounding_error(since, due) {
                return;
            }
            self.ends.pop();
            self.progress[slot as usize].left = 0.0;
            self.end(slot, due, source);
        }
    }

    fn next_stop(&mut self) -> Option<f64> {
        while let Some(Reverse((stop, flow, _))) = self.stops.peek() {
            if self.finish[*flow as usize].is_infinite() {
                return Some(f64::from_bits(*stop));
            }
            self.stops.pop();
        }
        None
    }

    fn stop_until(&mut self, now: f64, source: &mut dyn Source) {
        while self.next_stop().is_some_and(|stop| stop <= now) {
            let Some(Reverse((stop, _, slot))) = self.stops.pop() else { return };
            self.progress[slot as usize].drain_until(now);
            self.end(slot, f64::from_bits(stop), source);
        }
    }

    fn end(&mut self, slot: u32, at: f64, source: &mut dyn Source) {
        let progress = &mut self.progress[slot as usize];
        progress.due = f64::INFINITY;
        let flow = progress.flow as usize;
        self.ended += 1;
        self.finish[flow] = at;
        self.left[flow] = progress.left;
        self.shares.remove(slot);
        source.ended(flow, self.paths.of(flow), at);
    }

    fn start(&mut self, source: &mut dyn Source, now: f64) -> Result<(), FlowError> {
        let flow = self.sizes.len();
        self.path.clear();
        let arrival = source.next_flow(&mut self.path);
        debug_assert!(arrival.start.as_secs_f64() <= now, "flow {flow} comes before its start");
        let ports = self.shares.ports();
        if let Some(PortId(port)) = self.path.iter().copied().find(|port| port.0 as usize >= ports) {
            return Err(FlowError::UnknownPort { flow, port, ports });
        }
        if !(arrival.weight.is_finite() && arrival.weight > 0.0) {
            return Err(FlowError::Weight { flow, value: arrival.weight });
        }
        self.paths.push(self.path.iter().copied());
        self.sizes.push(arrival.size);
        self.finish.push(f64::INFINITY);
        let left = arrival.size.0 as f64 * 8.0;
        self.left.push(left);
        let cap = arrival.cap.map_or(f64::INFINITY, |cap| cap.0 as f64);
        let slot = self.shares.add(&self.path, arrival.weight, cap);
        let progress = Progress { flow: flow as u32, left, rate: 0.0, since: now, due: f64::INFINITY };
        match self.progress.get_mut(slot as usize) {
            Some(free) => *free = progress,
            None => self.progress.push(progress),
        }
        if let Some(stop) = arrival.stop {
            self.stops.push(Reverse((stop.as_secs_f64().to_bits(), flow as u32, slot)));
        }
        Ok(())
    }

    /// Computes new rates for all flows that the started and ended flows affect.
    fn share_again(&mut self, now: f64) {
        let Fluid { shares, progress, ends, .. } = self;
        shares.settle(|slot, rate| {
            let progress = &mut progress[slot as usize];
            if progress.change_rate(rate, now).is_finite() {
                ends.push(Reverse((progress.due.to_bits(), progress.flow, slot)));
            }
        });
        if self.ends.len() > ENDS_MIN + ENDS_MOST * self.under_way() {
            let progress = &self.progress;
            self.ends.retain(|Reverse((due, flow, slot))| {
                let progress = &progress[*slot as usize];
                progress.due.to_bits() == *due && progress.flow == *flow
            });
        }
    }
}

/// Bound of the rounding error of an end at `due` (seconds) that was computed at `since`: that of the time to drain, and
/// that of a clock far from zero.
fn rounding_error(since: f64, due: f64) -> f64 {
    const OF_DRAINING: f64 = 1e-12;
    const OF_CLOCK: f64 = 4.0 * f64::EPSILON;
    OF_DRAINING * (due - since) + OF_CLOCK * due
}

impl Progress {
    /// Nothing is left of a flow without a limit: `max` ignores NaN, infinity times zero seconds.
    fn drain_until(&mut self, now: f64) {
        self.left = (self.left - self.rate * (now - self.since)).max(0.0);
        self.since = now;
    }

    /// Sets the rate from `now` on; returns the time at which the flow ends.
    fn change_rate(&mut self, rate: f64, now: f64) -> f64 {
        self.drain_until(now);
        self.rate = rate;
        self.due = if self.left == 0.0 || rate == f64::INFINITY { now } else { now + self.left / rate };
        self.due
    }
}
