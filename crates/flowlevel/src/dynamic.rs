//! Flows that come and go: completion times of a fluid model without packets.
//!
//! At any moment the rates are max-min fair among the flows under way. They change only when a flow starts or
//! ends, and only for flows that are joined to it by shared links: that component alone is solved again.
//! Between two changes a flow drains at a constant rate, so its end is known. Left out: propagation delay,
//! the time that rates need to settle.

use crate::{FlowError, Flows, MaxMin, Paths};
use pauseframe_units::{BitRate, Bytes, PortId, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flow that starts at some time and ends when all is sent.
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
    let mut fluid = Fluid::new(capacity, paths, arrivals);
    let mut starting = order.into_iter().peekable();
    loop {
        let start = starting.peek().map(|flow| arrivals[*flow as usize].start.as_secs_f64());
        let now = match (fluid.next_end(), start) {
            (Some(end), Some(start)) => end.min(start),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return Ok(fluid.finish),
        };
        fluid.end_until(now);
        while let Some(flow) = starting.next_if(|f| arrivals[*f as usize].start.as_secs_f64() <= now) {
            fluid.start(flow, now);
        }
        fluid.share_again(now)?;
    }
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
    paths: &'a Paths,
    arrivals: &'a [Arrival],
    finish: Vec<f64>,
    progress: Vec<Progress>,
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
    fn new(capacity: &'a [f64], paths: &'a Paths, arrivals: &'a [Arrival]) -> Fluid<'a> {
        let idle = Progress { left: 0.0, rate: 0.0, since: 0.0, due: f64::INFINITY };
        Fluid {
            capacity,
            paths,
            arrivals,
            finish: vec![f64::INFINITY; arrivals.len()],
            progress: vec![idle; arrivals.len()],
            at_port: vec![Vec::new(); capacity.len()],
            ends: BinaryHeap::new(),
            component: Component {
                ports: Vec::new(),
                number: vec![NONE; capacity.len()],
                flows: Vec::new(),
                member: vec![false; arrivals.len()],
            },
            solver: MaxMin::default(),
        }
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

    fn end_until(&mut self, now: f64) {
        while let Some(due) = self.next_end()
            && due <= now * (1.0 + 1e-12)
        {
            let Some(Reverse((_, flow))) = self.ends.pop() else { return };
            self.finish[flow as usize] = due;
            self.progress[flow as usize].due = f64::INFINITY;
            for port in self.paths.of(flow as usize) {
                let here = &mut self.at_port[port.0 as usize];
                if let Some(place) = here.iter().position(|other| *other == flow) {
                    here.swap_remove(place);
                }
                self.component.add_port(*port);
            }
        }
    }

    fn start(&mut self, flow: u32, now: f64) {
        let left = self.arrivals[flow as usize].size.0 as f64 * 8.0;
        self.progress[flow as usize] = Progress { left, rate: 0.0, since: now, due: f64::INFINITY };
        for port in self.paths.of(flow as usize) {
            self.at_port[port.0 as usize].push(flow);
        }
        self.component.add_flow(flow, self.paths);
    }

    /// Gives new rates to all flows that what started and ended can reach.
    fn share_again(&mut self, now: f64) -> Result<(), FlowError> {
        self.component.grow(&self.at_port, self.paths);
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
