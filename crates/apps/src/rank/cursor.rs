//! The position of a rank in its program: at one step, or at several steps that depend on each other.

use crate::application::{Dependences, Program, Slot};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The state of a request of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Pending { awaited: bool, send: bool },
    Done,
}

/// The position in a program whose steps run in sequence.
#[derive(Debug)]
pub(super) struct InTurn {
    /// The next step.
    pub(super) at: usize,
    slots: Vec<State>,
    /// Number of requests that the rank waits for.
    awaited: u32,
    /// Number of awaited requests that are not sends.
    awaited_receives: u32,
}

impl InTurn {
    pub(super) fn new(program: &Program) -> InTurn {
        InTurn { at: 0, slots: vec![State::Free; program.slots()], awaited: 0, awaited_receives: 0 }
    }

    /// Starts a request; returns false if its number is still in use.
    pub(super) fn begin(&mut self, slot: Slot, send: bool) -> bool {
        let state = &mut self.slots[slot as usize];
        let free = !matches!(state, State::Pending { .. });
        *state = State::Pending { awaited: false, send };
        free
    }

    /// Makes the rank wait for a request without a number.
    pub(super) fn block(&mut self, send: bool) {
        self.awaited += 1;
        self.awaited_receives += u32::from(!send);
    }

    /// Completes the request without a number.
    pub(super) fn unblock(&mut self, send: bool) {
        self.awaited -= 1;
        self.awaited_receives -= u32::from(!send);
    }

    /// Makes the rank wait for a request; returns false if the request was not started.
    pub(super) fn wait(&mut self, slot: Slot) -> bool {
        let state = &mut self.slots[slot as usize];
        let known = *state != State::Free;
        if let State::Pending { awaited: awaited @ false, send } = state {
            *awaited = true;
            let send = *send;
            self.block(send);
        } else {
            *state = State::Free;
        }
        known
    }

    /// Completes a request.
    pub(super) fn complete(&mut self, slot: Slot) {
        let state = &mut self.slots[slot as usize];
        match *state {
            State::Pending { awaited: true, send } => {
                *state = State::Free;
                self.unblock(send);
            }
            _ => *state = State::Done,
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.awaited > 0
    }

    /// True if the rank waits for sends only.
    pub(super) fn waits_for_sends(&self) -> bool {
        self.awaited > 0 && self.awaited_receives == 0
    }

    /// True if the rank waits for this request and the request is open.
    pub(super) fn is_awaited(&self, slot: Slot) -> bool {
        matches!(self.slots[slot as usize], State::Pending { awaited: true, .. })
    }
}

/// The positions in a program whose steps follow their dependences.
#[derive(Debug)]
pub(super) struct ByDependence {
    /// For each step, the number of unmet dependences.
    needs: Vec<u32>,
    after_end: Edges,
    after_start: Edges,
    /// Steps that can begin now.
    ready: BinaryHeap<Reverse<u32>>,
    /// For each compute unit, its current step and its waiting steps.
    units: Vec<Unit>,
    /// Number of steps that are not complete.
    pub(super) left: u32,
    /// Number of open steps: sends, and all other steps.
    pub(super) open_sends: u32,
    pub(super) open: u32,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    busy: bool,
    waiting: BinaryHeap<Reverse<u32>>,
}

/// The successors of step i are `to[first[i]..first[i + 1]]`.
#[derive(Debug)]
struct Edges {
    first: Vec<u32>,
    to: Vec<u32>,
}

impl Edges {
    fn new(steps: usize, pairs: &[(u32, u32)]) -> Edges {
        let mut first = vec![0; steps + 1];
        for &(from, _) in pairs {
            first[from as usize + 1] += 1;
        }
        for step in 0..steps {
            first[step + 1] += first[step];
        }
        let mut place = first.clone();
        let mut to = vec![0; pairs.len()];
        for &(from, later) in pairs {
            let place = &mut place[from as usize];
            to[*place as usize] = later;
            *place += 1;
        }
        Edges { first, to }
    }

    fn of(&self, step: u32) -> std::ops::Range<usize> {
        self.first[step as usize] as usize..self.first[step as usize + 1] as usize
    }
}

impl ByDependence {
    pub(super) fn new(program: &Program, order: &Dependences) -> ByDependence {
        let steps = program.ops.len();
        let mut needs = vec![0; steps];
        for &(_, later) in order.after_end.iter().chain(&order.after_start) {
            needs[later as usize] += 1;
        }
        let ready = (0..steps as u32).filter(|&step| needs[step as usize] == 0).map(Reverse).collect();
        let units = order.units.iter().max().map_or(0, |&unit| usize::from(unit) + 1);
        ByDependence {
            needs,
            after_end: Edges::new(steps, &order.after_end),
            after_start: Edges::new(steps, &order.after_start),
            ready,
            units: vec![Unit::default(); units],
            left: steps as u32,
            open_sends: 0,
            open: 0,
        }
    }

    /// Returns the next step that can begin, in the order of the file.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.ready.pop().map(|Reverse(step)| step)
    }

    /// Marks a step as begun.
    pub(super) fn begin(&mut self, step: u32, send: bool) {
        self.open += 1;
        self.open_sends += u32::from(send);
        for at in self.after_start.of(step) {
            self.relieve(self.after_start.to[at]);
        }
    }

    /// Marks a step as complete.
    pub(super) fn complete(&mut self, step: u32, send: bool) {
        self.left -= 1;
        self.open -= 1;
        self.open_sends -= u32::from(send);
        for at in self.after_end.of(step) {
            self.relieve(self.after_end.to[at]);
        }
    }

    fn relieve(&mut self, step: u32) {
        let needs = &mut self.needs[step as usize];
        *needs -= 1;
        if *needs == 0 {
            self.ready.push(Reverse(step));
        }
    }

    /// Reserves a compute unit for a step; returns false if the unit is busy, and then lets the step wait for
    /// the unit.
    pub(super) fn occupy(&mut self, unit: u16, step: u32) -> bool {
        let unit = &mut self.units[usize::from(unit)];
        if unit.busy {
            unit.waiting.push(Reverse(step));
            return false;
        }
        unit.busy = true;
        true
    }

    /// Frees a compute unit, so that the step that waits for the unit can begin.
    pub(super) fn vacate(&mut self, unit: u16) {
        let unit = &mut self.units[usize::from(unit)];
        unit.busy = false;
        if let Some(step) = unit.waiting.pop() {
            self.ready.push(step);
        }
    }

    pub(super) fn is_computing(&self) -> bool {
        self.units.iter().any(|unit| unit.busy)
    }

    /// Steps that can never begin, each with its number of unmet dependences.
    pub(super) fn unmet(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(self.needs.iter().copied()).filter(|&(_, needs)| needs > 0)
    }
}
