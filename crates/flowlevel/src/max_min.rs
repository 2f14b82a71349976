//! Max-min fair rates by water-filling (Bertsekas and Gallager, Data Networks, 1987, chapter 6).
//!
//! The rates of all flows rise together, each in proportion to its weight, until a link is full or a flow
//! reaches its cap. The flows on that link, or the capped flow, keep their rates; the other rates rise on.
//! The link that fills next has the smallest share: its remaining capacity divided by the sum of the weights
//! of its rising flows. Shares only grow while flows stop, so the heap may contain outdated shares: a link
//! with an outdated share is reinserted with its current share.
//!
//! The result is exact except for rounding: a link's share loses digits if the weights of its flows differ by
//! a factor above 10^6.

use crate::{FlowError, Paths};
use pauseframe_units::PortId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Flows that always have data to send.
#[derive(Clone, Copy, Debug)]
pub struct Flows<'a> {
    /// The ports of each flow. A flow that crosses a port twice loads the port twice.
    pub paths: &'a Paths,
    /// The weight of each flow; without a list, all weights are equal.
    pub weights: Option<&'a [f64]>,
    /// The maximum rate of each flow in bits per second, [`f64::INFINITY`] for no cap; without a list, no
    /// flow has a cap.
    pub caps: Option<&'a [f64]>,
}

impl<'a> Flows<'a> {
    /// Makes flows of equal weight without caps.
    pub fn equal(paths: &'a Paths) -> Flows<'a> {
        Flows { paths, weights: None, caps: None }
    }

    fn weight(&self, flow: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[flow])
    }

    fn cap(&self, flow: usize) -> f64 {
        self.caps.map_or(f64::INFINITY, |caps| caps[flow])
    }

    fn check(&self, capacity: &[f64]) -> Result<(), FlowError> {
        let flows = self.paths.len();
        for (what, list) in [("weights", self.weights), ("rate caps", self.caps)] {
            if let Some(given) = list.map(<[f64]>::len).filter(|given| *given != flows) {
                return Err(FlowError::Length { what, given, flows });
            }
        }
        let wrong = |list: &[f64], right: fn(f64) -> bool| {
            list.iter().position(|value| !right(*value)).map(|place| (place, list[place]))
        };
        if let Some((port, value)) = wrong(capacity, |c| c.is_finite() && c >= 0.0) {
            return Err(FlowError::Capacity { port, value });
        }
        if let Some((flow, value)) = wrong(self.weights.unwrap_or(&[]), |w| w.is_finite() && w > 0.0) {
            return Err(FlowError::Weight { flow, value });
        }
        if let Some((flow, value)) = wrong(self.caps.unwrap_or(&[]), |cap| cap >= 0.0) {
            return Err(FlowError::Cap { flow, value });
        }
        for (flow, path) in self.paths.iter().enumerate() {
            if let Some(PortId(port)) = path.iter().copied().find(|port| port.0 as usize >= capacity.len()) {
                return Err(FlowError::UnknownPort { flow, port, ports: capacity.len() });
            }
        }
        Ok(())
    }
}

/// The state of a link while rates rise.
#[derive(Clone, Copy, Debug)]
struct Link {
    left: f64,
    /// The sum of the weights of the link's rising flows, and the number of times that these flows cross the
    /// link.
    weight: f64,
    rising: u32,
}

impl Link {
    /// The water level (rate divided by weight) at which the link is full.
    #[inline]
    fn share(&self) -> f64 {
        self.left.max(0.0) / self.weight
    }
}

/// The solver; it reuses its memory between calls.
#[derive(Clone, Debug, Default)]
pub struct MaxMin {
    links: Vec<Link>,
    /// The flows that cross link `l` are `flows[first[l]..first[l + 1]]`.
    first: Vec<u32>,
    flows: Vec<u32>,
    /// Pairs (share, link), the smallest share first. Shares are not negative, so comparing their bits
    /// compares the shares.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Pairs (water level at which the cap is reached, flow), in descending order, so that the last pair
    /// comes next.
    caps: Vec<(u64, u32)>,
    stopped: Vec<bool>,
}

/// The flow or link that stops next; a link with its water level.
enum Stop {
    Link(u32, f64),
    Flow(u32),
}

impl MaxMin {
    /// Computes the rate of each flow in bits per second for the given capacities of the ports. A flow
    /// without any limit has the rate [`f64::INFINITY`].
    ///
    /// # Errors
    /// If a number is out of bounds or a path uses a port without a capacity.
    pub fn solve(&mut self, capacity: &[f64], flows: Flows) -> Result<Vec<f64>, FlowError> {
        flows.check(capacity)?;
        self.index(capacity, flows);
        let mut rates = vec![f64::INFINITY; flows.paths.len()];
        while let Some(stop) = self.next_stop() {
            match stop {
                Stop::Flow(flow) => self.stop(flow, flows.cap(flow as usize), flows, &mut rates),
                Stop::Link(link, level) => {
                    let on_link = self.first[link as usize] as usize..self.first[link as usize + 1] as usize;
                    for place in on_link {
                        let flow = self.flows[place];
                        if !self.stopped[flow as usize] {
                            self.stop(flow, level * flows.weight(flow as usize), flows, &mut rates);
                        }
                    }
                }
            }
        }
        Ok(rates)
    }

    /// Initialises the links, the flows of each link, the caps and the heap.
    fn index(&mut self, capacity: &[f64], flows: Flows) {
        self.links.clear();
        self.links.extend(capacity.iter().map(|left| Link { left: *left, weight: 0.0, rising: 0 }));
        for (flow, path) in flows.paths.iter().enumerate() {
            let weight = flows.weight(flow);
            for port in path {
                let link = &mut self.links[port.0 as usize];
                link.weight += weight;
                link.rising += 1;
            }
        }
        // Each row of flow indices is filled from its end, so that `first` finally contains the starts of the
        // rows.
        self.first.clear();
        let ends = self.links.iter().scan(0, |end, link| {
            *end += link.rising;
            Some(*end)
        });
        self.first.extend(ends);
        self.first.push(flows.paths.hops() as u32);
        self.flows.clear();
        self.flows.resize(flows.paths.hops(), 0);
        for (flow, path) in flows.paths.iter().enumerate().rev() {
            for port in path {
                let place = &mut self.first[port.0 as usize];
                *place -= 1;
                self.flows[*place as usize] = flow as u32;
            }
        }
        let used = self.links.iter().enumerate().filter(|(_, link)| link.rising > 0);
        self.heap = used.map(|(at, link)| Reverse((link.share().to_bits(), at as u32))).collect();
        self.stopped.clear();
        self.stopped.resize(flows.paths.len(), false);
        self.caps.clear();
        let caps = flows.caps.unwrap_or(&[]).iter().enumerate().filter(|(_, cap)| cap.is_finite());
        // Adding zero converts -0 to 0, whose bits compare correctly.
        self.caps.extend(caps.map(|(flow, cap)| ((cap / flows.weight(flow) + 0.0).to_bits(), flow as u32)));
        self.caps.sort_unstable_by_key(|cap| Reverse(*cap));
    }

    /// The link or capped flow that stops at the lowest level; none if all flows have stopped.
    fn next_stop(&mut self) -> Option<Stop> {
        while self.caps.last().is_some_and(|(_, flow)| self.stopped[*flow as usize]) {
            self.caps.pop();
        }
        loop {
            let Some(mut top) = self.heap.peek_mut() else {
                return self.caps.pop().map(|(_, flow)| Stop::Flow(flow));
            };
            let Reverse((key, at)) = *top;
            // The heap key does not exceed the link's share, so no link fills below the key.
            if let Some((_, flow)) = self.caps.pop_if(|(level, _)| *level <= key) {
                return Some(Stop::Flow(flow));
            }
            let link = &self.links[at as usize];
            let share = if link.rising == 0 { f64::INFINITY } else { link.share() };
            if link.rising > 0 && share.to_bits() > key {
                *top = Reverse((share.to_bits(), at));
                continue;
            }
            std::collections::binary_heap::PeekMut::pop(top);
            if link.rising > 0 {
                return Some(Stop::Link(at, f64::from_bits(key)));
            }
        }
    }

    #[inline]
    fn stop(&mut self, flow: u32, rate: f64, flows: Flows, rates: &mut [f64]) {
        let flow = flow as usize;
        let weight = flows.weight(flow);
        self.stopped[flow] = true;
        rates[flow] = rate;
        for port in flows.paths.of(flow) {
            let link = &mut self.links[port.0 as usize];
            link.left -= rate;
            link.weight -= weight;
            link.rising -= 1;
        }
    }
}
