//! Max-min fair rates of flows that arrive and end; a change costs time only for the flows and ports that it
//! affects.
//!
//! Rates are max-min fair if every flow has a bottleneck: its own cap, or a full port on which no other flow
//! has a larger ratio of rate to weight (Bertsekas and Gallager, Data Networks, 1987, chapter 6). So between
//! changes every port has a level: the ratio of rate to weight of the flows that it limits, infinite if the
//! port is not full. The level of a flow is the lowest level on its path.
//!
//! A change opens the ports of the flows that arrived or ended. After a change the water level rises again
//! from zero, but only in open ports; all other ports keep their level. A flow that stops below its former
//! level opens the ports that were full with the flow. A flow whose bottleneck is no longer full at the
//! former level rises on, and opens the ports of its path. Ports and flows that are reached later can change
//! only above the present water level, so one pass with rising level is enough, and it visits only what
//! changes (the bottleneck structure of Ros-Giralt et al., POMACS 3(3), 2019).
//!
//! Levels with a relative difference below 10^-12 count as equal; otherwise rounding errors would propagate
//! through the whole network.

use pauseframe_units::PortId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Relative difference below which two levels count as equal.
const TIE: f64 = 1e-12;
/// Relative difference below which a flow counts as limited by a port.
const NEAR: f64 = 4.0 * TIE;

/// The active flows on a network, and their rates.
///
/// Slots identify flows; the slot of an ended flow is reused.
#[derive(Debug)]
pub struct Shares {
    ports: Vec<Port>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    /// Ports whose fill level must be recomputed, because a flow arrived, ended or began to rise.
    due: Vec<u32>,
    /// Flows whose state is not `Kept`.
    touched: Vec<u32>,
    /// Ports whose state is not `Settled`.
    opened: Vec<u32>,
    /// Events while the water level rises, the lowest level first.
    events: Events,
}

/// Events sorted by the bits of their levels; levels are not negative, so comparing their bits compares the
/// levels.
type Events = BinaryHeap<Reverse<(u64, Event)>>;

/// Events at a water level; at equal levels they occur in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A port may be full at this level.
    Fill(u32),
    /// A rising flow has reached its cap.
    Cap(u32),
    /// An open port is not full at its former level.
    Release(u32),
}

#[derive(Clone, Debug)]
struct Port {
    capacity: f64,
    /// The level of the flows that the port limits, [`f64::INFINITY`] if it limits no flow.
    level: f64,
    state: PortState,
    is_due: bool,
    /// The level of the port's valid `Fill` event, at most the level where the port fills; other events are
    /// outdated.
    fill: u64,
    /// The flows that cross the port; a flow that crosses it twice is listed twice.
    flows: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PortState {
    /// The port has not changed.
    Settled,
    /// The port may fill at another level; its former level, if any, is above the water level.
    Open,
    /// The port is open and not full at its former level.
    Released,
    /// The port is full at its new level.
    Full,
}

#[derive(Clone, Debug)]
struct Flow {
    path: Vec<PortId>,
    weight: f64,
    /// The level at which the flow reaches its cap.
    cap: f64,
    level: f64,
    /// The level before this change; negative for a new flow.
    before: f64,
    state: FlowState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlowState {
    /// The flow keeps its former level, unless an event changes it.
    Kept,
    /// The rate of the flow rises with the water level.
    Rising,
    /// The flow has its new level.
    Fixed,
}

impl Shares {
    /// Makes a network without flows; `capacity` is in bits per second, indexed by port.
    pub fn new(capacity: &[f64]) -> Shares {
        let port = |capacity: &f64| Port {
            capacity: *capacity,
            level: f64::INFINITY,
            state: PortState::Settled,
            is_due: false,
            fill: 0,
            flows: Vec::new(),
        };
        Shares {
            ports: capacity.iter().map(port).collect(),
            flows: Vec::new(),
            free: Vec::new(),
            due: Vec::new(),
            touched: Vec::new(),
            opened: Vec::new(),
            events: BinaryHeap::new(),
        }
    }

    /// Adds a flow and returns its slot. A flow that crosses a port twice loads the port twice. The weight
    /// must be positive; the cap is in bits per second, [`f64::INFINITY`] for none. The flow has no rate
    /// until the next call of [`Shares::settle`].
    ///
    /// # Panics
    /// If the path uses a port without a capacity.
    pub fn add(&mut self, path: &[PortId], weight: f64, cap: f64) -> u32 {
        let slot = self.free.pop().unwrap_or(self.flows.len() as u32);
        if slot as usize == self.flows.len() {
            let path = Vec::with_capacity(path.len());
            let state = FlowState::Kept;
            self.flows.push(Flow { path, weight, cap: 0.0, level: 0.0, before: -1.0, state });
        }
        let flow = &mut self.flows[slot as usize];
        flow.path.extend_from_slice(path);
        // Adding zero converts -0 to 0, whose bits compare correctly.
        (flow.weight, flow.cap, flow.before) = (weight, cap / weight + 0.0, -1.0);
        for port in path {
            self.ports[port.0 as usize].flows.push(slot);
        }
        if path.is_empty() {
            let flow = &mut self.flows[slot as usize];
            (flow.level, flow.state) = (flow.cap, FlowState::Fixed);
            self.touched.push(slot);
        } else {
            self.rise(slot);
        }
        slot
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Removes a flow; the slot of the flow may be reused.
    pub fn remove(&mut self, slot: u32) {
        let state = std::mem::replace(&mut self.flows[slot as usize].state, FlowState::Kept);
        if state != FlowState::Kept {
            self.touched.retain(|other| *other != slot);
        }
        let mut path = std::mem::take(&mut self.flows[slot as usize].path);
        for port in path.drain(..) {
            let here = &mut self.ports[port.0 as usize].flows;
            if let Some(place) = here.iter().position(|other| *other == slot) {
                here.swap_remove(place);
            }
            self.loosen(port);
        }
        self.flows[slot as usize].path = path;
        self.free.push(slot);
    }

    /// Recomputes the rates after flows arrived or ended; calls `changed(slot, rate)` for every flow with a
    /// new rate, in bits per second. A flow without any limit has the rate [`f64::INFINITY`].
    pub fn settle(&mut self, mut changed: impl FnMut(u32, f64)) {
        self.look(0.0);
        while let Some(Reverse((level, event))) = self.events.pop() {
            match event {
                Event::Fill(port) => self.fill(port, level),
                Event::Cap(flow) => self.stop_at_cap(flow, level),
                Event::Release(port) => self.release(port),
            }
            self.look(f64::from_bits(level));
        }
        for port in self.opened.drain(..) {
            let port = &mut self.ports[port as usize];
            if port.state != PortState::Full {
                port.level = f64::INFINITY;
            }
            port.state = PortState::Settled;
        }
        for slot in self.touched.drain(..) {
            let flow = &mut self.flows[slot as usize];
            flow.state = FlowState::Kept;
            if flow.level.to_bits() != flow.before.to_bits() {
                flow.before = flow.level;
                changed(slot, flow.level * flow.weight);
            }
        }
    }

    /// Lets a flow rise with the water level.
    fn rise(&mut self, slot: u32) {
        let Shares { flows, ports, .. } = self;
        let flow = &mut flows[slot as usize];
        flow.state = FlowState::Rising;
        self.touched.push(slot);
        if flow.cap.is_finite() {
            self.events.push(Reverse((flow.cap.to_bits(), Event::Cap(slot))));
        }
        for port in &flow.path {
            let entry = &mut ports[port.0 as usize];
            if entry.state == PortState::Settled {
                open(entry, port.0, &mut self.opened, &mut self.events);
            }
            if !std::mem::replace(&mut entry.is_due, true) {
                self.due.push(port.0);
            }
        }
    }

    /// Opens a port that has gained free capacity; nothing changes if the port was not full.
    fn loosen(&mut self, port: PortId) {
        let entry = &mut self.ports[port.0 as usize];
        if entry.state == PortState::Settled && entry.level.is_finite() {
            open(entry, port.0, &mut self.opened, &mut self.events);
            if !std::mem::replace(&mut entry.is_due, true) {
                self.due.push(port.0);
            }
        }
    }

    /// For ports marked as due, computes the water level at which they may fill.
    fn look(&mut self, water: f64) {
        while let Some(port) = self.due.pop() {
            let entry = &mut self.ports[port as usize];
            entry.is_due = false;
            if entry.state != PortState::Full {
                let level = fills_at(entry, &self.flows, water);
                self.expect(port, level);
            }
        }
    }

    fn expect(&mut self, port: u32, level: f64) {
        self.ports[port as usize].fill = level.to_bits();
        if level.is_finite() {
            self.events.push(Reverse((level.to_bits(), Event::Fill(port))));
        }
    }

    /// Handles the event that the water reaches the level at which this port was expected to fill.
    fn fill(&mut self, port: u32, key: u64) {
        let entry = &mut self.ports[port as usize];
        if entry.fill != key || entry.state == PortState::Full {
            return;
        }
        let water = f64::from_bits(key);
        let level = fills_at(entry, &self.flows, water);
        if level > water * (1.0 + TIE) {
            return self.expect(port, level);
        }
        entry.state = PortState::Full;
        if !near(level, entry.level, TIE) {
            entry.level = level;
        }
        let level = entry.level;
        let here = std::mem::take(&mut entry.flows);
        for slot in &here {
            let flow = &self.flows[*slot as usize];
            match flow.state {
                FlowState::Rising => self.fix(*slot, level),
                FlowState::Kept if flow.level > level * (1.0 + TIE) => self.lower(*slot, level),
                _ => {}
            }
        }
        self.ports[port as usize].flows = here;
    }

    /// Handles the event that the water reaches the former level of an open port.
    fn release(&mut self, port: u32) {
        let entry = &mut self.ports[port as usize];
        if entry.state != PortState::Open {
            return;
        }
        entry.state = PortState::Released;
        let level = std::mem::replace(&mut entry.level, f64::INFINITY);
        let here = std::mem::take(&mut entry.flows);
        for slot in &here {
            let flow = &self.flows[*slot as usize];
            if flow.state == FlowState::Kept && flow.level >= level * (1.0 - NEAR) && !self.is_held(flow) {
                self.rise(*slot);
            }
        }
        self.ports[port as usize].flows = here;
    }

    /// True if the flow's cap or an unchanged port keeps the flow at its level.
    fn is_held(&self, flow: &Flow) -> bool {
        let highest = flow.level * (1.0 + NEAR);
        let holds = |port: &PortId| {
            let port = &self.ports[port.0 as usize];
            port.state == PortState::Full || (port.state == PortState::Settled && port.level <= highest)
        };
        flow.cap <= highest || flow.path.iter().any(holds)
    }

    fn stop_at_cap(&mut self, slot: u32, cap: u64) {
        // The flow may have ended, and its slot may contain another flow.
        if self.flows[slot as usize].cap.to_bits() == cap {
            self.fix(slot, f64::from_bits(cap));
        }
    }

    fn fix(&mut self, slot: u32, level: f64) {
        let flow = &mut self.flows[slot as usize];
        if flow.state == FlowState::Rising {
            flow.state = FlowState::Fixed;
            flow.level = if near(level, flow.before, TIE) { flow.before } else { level };
        }
    }

    /// Stops a flow at a level below its former level.
    fn lower(&mut self, slot: u32, level: f64) {
        let flow = &mut self.flows[slot as usize];
        (flow.state, flow.level) = (FlowState::Fixed, level);
        self.touched.push(slot);
        for place in 0..flow.path.len() {
            self.loosen(self.flows[slot as usize].path[place]);
        }
    }
}

/// Marks a port as open, so that it may fill at another level.
fn open(port: &mut Port, number: u32, opened: &mut Vec<u32>, events: &mut Events) {
    port.state = PortState::Open;
    opened.push(number);
    if port.level.is_finite() {
        // This event comes after all ports that fill at this level.
        events.push(Reverse(((port.level * (1.0 + NEAR)).to_bits(), Event::Release(number))));
    }
}

/// The level at which a port is full if rising flows continue to rise and other flows keep their rates;
/// infinite if no flow rises. The result is at least the water level; if a kept flow becomes slower, the port
/// fills later.
fn fills_at(port: &Port, flows: &[Flow], water: f64) -> f64 {
    let mut level = water;
    loop {
        // Level of the lowest flow with unchanged rate that the rising water would reach.
        let (mut left, mut weight, mut lowest) = (port.capacity, 0.0, f64::INFINITY);
        for slot in &port.flows {
            let flow = &flows[*slot as usize];
            match flow.state {
                FlowState::Rising => weight += flow.weight,
                FlowState::Kept if flow.level > level => {
                    weight += flow.weight;
                    lowest = lowest.min(flow.level);
                }
                _ => left -= flow.level * flow.weight,
            }
        }
        if weight == 0.0 {
            return f64::INFINITY;
        }
        level = level.max(left / weight);
        if lowest > level {
            return level;
        }
    }
}

fn near(one: f64, other: f64, part: f64) -> bool {
    (one - other).abs() < part * other
}
