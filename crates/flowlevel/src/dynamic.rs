//! Flows that come and go: completion times of a fluid model without packets.
//!
//! At any moment the rates are max-min fair among the flows under way. They change only when a flow starts or
//! ends, and only for flows that are joined to it by shared links: that component alone is solved again.
//! Between two changes a flow drains at a constant rate, so its end is known. Left out: propagation delay,
//! the time that rates need to settle.

use crate::{FlowError, Flows, MaxMin, Paths};
use pauseframe_topology::watch::{Unwatched, Watch};
use pauseframe_units::{BitRate, Bytes, PortId, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flow that starts at some time and ends when all is sent, or at its stop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// When it starts.
    pub start: Time,
    /// What it sends.
    pub size: Bytes,
    /// Its weight among others.
    pub weight: f64,
    /// The highest rate it can send at, if there is one.
    pub cap: Option<BitRate>,
    /// When it ends in any case, if it does.
    pub stop: Option<Time>,
}

/// Where flows come from, in the order of their starts; it may react to their ends.
pub trait Source {
    /// When the next flow starts, if one is known. Asked again after every end.
    fn next_start(&self) -> Option<Time>;
    /// The next flow, numbered on from 0; writes its ports into `path`, which is empty.
    fn next_flow(&mut self, path: &mut Vec<PortId>) -> Arrival;
    /// Flow `flow`, which took `path`, has ended at time `at` (seconds).
    fn ended(&mut self, _flow: usize, _path: &[PortId], _at: f64) {}
}

/// What came of all flows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// When each has ended, in seconds since the start of the run; [`f64::INFINITY`] for one that has not.
    pub finish: Vec<f64>,
    /// What each has left to send, in bits.
    pub left: Vec<f64>,
    /// The ports of each.
    pub paths: Paths,
    /// The flows themselves.
    pub arrivals: Vec<Arrival>,
    /// When all this was so, in seconds.
    pub end: f64,
    /// Whether somebody stopped it.
    pub stopped: bool,
}

/// When each flow has sent all, in seconds since the start of the run; [`f64::INFINITY`] for one whose way is
/// closed by a port without capacity.
///
/// `capacity` is bits per second by port. Ends within a part in 10^12 of each other count as one moment.
///
/// # Errors
/// If a number is out of its bounds, or there is not one path for each arrival.
pub fn completion_times(
    capacity: &[f64],
    paths: &Paths,
    arrivals: &[Arrival],
) -> Result<Vec<f64>, FlowError> {
    if paths.len() != arrivals.len() {
        return Err(FlowError::Length { what: "arrivals", given: arrivals.len(), flows: paths.len() });
    }
    let weights: Vec<f64> = arrivals.iter().map(|arrival| arrival.weight).collect();
    // All mistakes are found here, so that none turns up in the middle.
    Flows { paths, weights: Some(&weights), caps: None }.check(capacity)?;
    let mut order: Vec<u32> = (0..arrivals.len() as u32).collect();
    order.sort_by_key(|flow| arrivals[*flow as usize].start);
    let mut listed = Listed { paths, arrivals, order: &order, next: 0 };
    let outcome = simulate(capacity, &mut listed, None, &mut Unwatched)?;
    let mut finish = vec![f64::INFINITY; arrivals.len()];
    for (flow, at) in order.iter().zip(outcome.finish) {
        finish[*flow as usize] = at;
    }
    Ok(finish)
}

/// Flows that are known in full.
struct Listed<'a> {
    paths: &'a Paths,
    arrivals: &'a [Arrival],
    order: &'a [u32],
    next: usize,
}

impl Source for Listed<'_> {
    fn next_start(&self) -> Option<Time> {
        self.order.get(self.next).map(|flow| self.arrivals[*flow as usize].start)
    }

    fn next_flow(&mut self, path: &mut Vec<PortId>) -> Arrival {
        let flow = self.order[self.next] as usize;
        self.next += 1;
        path.extend_from_slice(self.paths.of(flow));
        self.arrivals[flow]
    }
}

/// Follows the flows of `source` until all are over, or until time `until`.
///
/// # Errors
/// If a number is out of its bounds.
pub fn simulate(
    capacity: &[f64],
    source: &mut dyn Source,
    until: Option<Time>,
    watch: &mut dyn Watch,
) -> Result<Outcome, FlowError> {
    let until = until.map_or(f64::INFINITY, Time::as_secs_f64);
    let mut fluid = Fluid::new(capacity);
    let mut now: f64 = 0.0;
    loop {
        let start = source.next_start().map(Time::as_secs_f64);
        let next = [fluid.next_end(), fluid.next_stop(), start].into_iter().flatten().reduce(f64::min);
        let Some(next) = next.filter(|next| *next <= until) else { break };
        now = now.max(next);
        if watch.step("following flows", fluid.ended, fluid.arrivals.len() as u64).is_err() {
            return Ok(fluid.outcome(now, true));
        }
        fluid.end_until(now, source);
        fluid.stop_until(now, source);
        while source.next_start().is_some_and(|start| start.as_secs_f64() <= now) {
            fluid.start(source, now)?;
        }
        fluid.share_again(now)?;
    }
    let end = if until.is_finite() && fluid.is_busy() { until } else { now };
    Ok(fluid.outcome(end, false))
}

/// A flow under way.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Bits left at time `since`.
    left: f64,
    rate: f64,
    since: f64,
    /// When it ends at this rate.
    due: f64,
}

#[derive(Debug)]
struct Fluid<'a> {
    capacity: &'a [f64],
    paths: Paths,
    arrivals: Vec<Arrival>,
    finish: Vec<f64>,
    progress: Vec<Progress>,
    /// How many flows have ended.
    ended: u64,
    /// (stop, flow), the soonest first; some may have ended before.
    stops: BinaryHeap<Reverse<(u64, u32)>>,
    path: Vec<PortId>,
    /// The flows under way at each port.
    at_port: Vec<Vec<u32>>,
    /// (due, flow), the soonest first; out of date where it is not the flow's due time any more.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    component: Component,
    solver: MaxMin,
}

/// The flows and ports to solve again. Ports are numbered densely in the order in which they were found.
#[derive(Debug)]
struct Component {
    ports: Vec<PortId>,
    number: Vec<u32>,
    flows: Vec<u32>,
    member: Vec<bool>,
}

const NONE: u32 = u32::MAX;

impl<'a> Fluid<'a> {
    fn new(capacity: &'a [f64]) -> Fluid<'a> {
        Fluid {
            capacity,
            paths: Paths::new(),
            arrivals: Vec::new(),
            finish: Vec::new(),
            progress: Vec::new(),
            ended: 0,
            stops: BinaryHeap::new(),
            path: Vec::new(),
            at_port: vec![Vec::new(); capacity.len()],
            ends: BinaryHeap::new(),
            component: Component {
                ports: Vec::new(),
                number: vec![NONE; capacity.len()],
                flows: Vec::new(),
                member: Vec::new(),
            },
            solver: MaxMin::default(),
        }
    }

    fn is_busy(&self) -> bool {
        self.ended < self.arrivals.len() as u64
    }

    fn outcome(mut self, end: f64, stopped: bool) -> Outcome {
        for (progress, finish) in self.progress.iter_mut().zip(&self.finish) {
            if finish.is_infinite() && end > progress.since {
                progress.left = (progress.left - progress.rate * (end - progress.since)).max(0.0);
            }
        }
        let left = self.progress.iter().map(|progress| progress.left).collect();
        Outcome { finish: self.finish, left, paths: self.paths, arrivals: self.arrivals, end, stopped }
    }

    fn next_end(&mut self) -> Option<f64> {
        while let Some(Reverse((due, flow))) = self.ends.peek() {
            if self.progress[*flow as usize].due.to_bits() == *due {
                return Some(f64::from_bits(*due));
            }
            self.ends.pop();
        }
        None
    }

    fn end_until(&mut self, now: f64, source: &mut dyn Source) {
        while let Some(due) = self.next_end()
            && due <= now * (1.0 + 1e-12)
        {
            let Some(Reverse((_, flow))) = self.ends.pop() else { return };
            self.progress[flow as usize].left = 0.0;
            self.end(flow, due, source);
        }
    }

    fn next_stop(&mut self) -> Option<f64> {
        while let Some(Reverse((stop, flow))) = self.stops.peek() {
            if self.finish[*flow as usize].is_infinite() {
                return Some(f64::from_bits(*stop));
            }
            self.stops.pop();
        }
        None
    }

    fn stop_until(&mut self, now: f64, source: &mut dyn Source) {
        while self.next_stop().is_some_and(|stop| stop <= now) {
            let Some(Reverse((stop, flow))) = self.stops.pop() else { return };
            let progress = &mut self.progress[flow as usize];
            progress.change_rate(0.0, now);
            self.end(flow, f64::from_bits(stop), source);
        }
    }

    fn end(&mut self, flow: u32, at: f64, source: &mut dyn Source) {
        self.ended += 1;
        self.finish[flow as usize] = at;
        self.progress[flow as usize].due = f64::INFINITY;
        for port in self.paths.of(flow as usize) {
            let here = &mut self.at_port[port.0 as usize];
            if let Some(place) = here.iter().position(|other| *other == flow) {
                here.swap_remove(place);
            }
            self.component.add_port(*port);
        }
        source.ended(flow as usize, self.paths.of(flow as usize), at);
    }

    fn start(&mut self, source: &mut dyn Source, now: f64) -> Result<(), FlowError> {
        let flow = self.arrivals.len() as u32;
        self.path.clear();
        let arrival = source.next_flow(&mut self.path);
        let ports = self.capacity.len();
        if let Some(PortId(port)) = self.path.iter().copied().find(|port| port.0 as usize >= ports) {
            return Err(FlowError::UnknownPort { flow: flow as usize, port, ports });
        }
        self.paths.push(self.path.iter().copied());
        self.arrivals.push(arrival);
        self.finish.push(f64::INFINITY);
        self.component.member.push(false);
        let left = arrival.size.0 as f64 * 8.0;
        self.progress.push(Progress { left, rate: 0.0, since: now, due: f64::INFINITY });
        if let Some(stop) = arrival.stop {
            self.stops.push(Reverse((stop.as_secs_f64().to_bits(), flow)));
        }
        for port in self.paths.of(flow as usize) {
            self.at_port[port.0 as usize].push(flow);
        }
        self.component.add_flow(flow, &self.paths);
        Ok(())
    }

    /// Gives new rates to all flows that what started and ended can reach.
    fn share_again(&mut self, now: f64) -> Result<(), FlowError> {
        self.component.grow(&self.at_port, &self.paths);
        let Component { ports, number, flows, .. } = &self.component;
        let capacity: Vec<f64> = ports.iter().map(|port| self.capacity[port.0 as usize]).collect();
        let renumbered =
            |flow: &u32| self.paths.of(*flow as usize).iter().map(|port| PortId(number[port.0 as usize]));
        let paths: Paths = flows.iter().map(renumbered).collect();
        let of = |flow: &u32| &self.arrivals[*flow as usize];
        let weights: Vec<f64> = flows.iter().map(|flow| of(flow).weight).collect();
        let caps: Vec<f64> =
            flows.iter().map(|flow| of(flow).cap.map_or(f64::INFINITY, |cap| cap.0 as f64)).collect();
        let flows = Flows { paths: &paths, weights: Some(&weights), caps: Some(&caps) };
        let rates = self.solver.solve(&capacity, flows)?;
        for (flow, rate) in self.component.flows.iter().zip(rates) {
            let progress = &mut self.progress[*flow as usize];
            let same = rate.to_bits() == progress.rate.to_bits() && progress.due.is_finite();
            if !same && progress.change_rate(rate, now).is_finite() {
                self.ends.push(Reverse((progress.due.to_bits(), *flow)));
            }
        }
        self.component.clear();
        Ok(())
    }
}

impl Progress {
    /// From `now` on at this rate; returns when the flow is due.
    fn change_rate(&mut self, rate: f64, now: f64) -> f64 {
        if self.rate > 0.0 && now > self.since {
            self.left = (self.left - self.rate * (now - self.since)).max(0.0);
        }
        (self.rate, self.since) = (rate, now);
        self.due = if self.left == 0.0 || rate == f64::INFINITY { now } else { now + self.left / rate };
        self.due
    }
}

impl Component {
    fn add_port(&mut self, port: PortId) {
        let number = &mut self.number[port.0 as usize];
        if *number == NONE {
            *number = self.ports.len() as u32;
            self.ports.push(port);
        }
    }

    fn add_flow(&mut self, flow: u32, paths: &Paths) {
        if !std::mem::replace(&mut self.member[flow as usize], true) {
            self.flows.push(flow);
            for port in paths.of(flow as usize) {
                self.add_port(*port);
            }
        }
    }

    /// Adds all flows at its ports, all ports of these flows, and so on.
    fn grow(&mut self, at_port: &[Vec<u32>], paths: &Paths) {
        let mut next = 0;
        while let Some(port) = self.ports.get(next) {
            next += 1;
            for flow in &at_port[port.0 as usize] {
                self.add_flow(*flow, paths);
            }
        }
    }

    fn clear(&mut self) {
        for port in self.ports.drain(..) {
            self.number[port.0 as usize] = NONE;
        }
        for flow in self.flows.drain(..) {
            self.member[flow as usize] = false;
        }
    }
}
