//! The position of a rank in its program: one step, or several with dependences.

use crate::application::{Dependences, Program, Slot};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// State of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Pending { awaited: bool, send: bool },
    Done,
}

/// Sequential steps.
#[derive(Debug)]
pub(super) struct InTurn {
    /// The next step.
    pub(super) at: usize,
    slots: Vec<State>,
    /// Requests for which the rank waits.
    awaited: u32,
    /// Number of these steps that are not sends.
    awaited_receives: u32,
}

impl InTurn {
    pub(super) fn new(program: &Program) -> InTurn {
        InTurn { at: 0, slots: vec![State::Free; program.slots()], awaited: 0, awaited_receives: 0 }
    }

    /// Begins a request; false if its number is still in use.
    pub(super) fn begin(&mut self, slot: Slot, send: bool) -> bool {
        let state = &mut self.slots[slot as usize];
        let free = !matches!(state, State::Pending { .. });
        *state = State::Pending { awaited: false, send };
        free
    }

    /// The rank waits for a request without a number.
    pub(super) fn block(&mut self, send: bool) {
        self.awaited += 1;
        self.awaited_receives += u32::from(!send);
    }

    /// The request without a number is complete.
    pub(super) fn unblock(&mut self, send: bool) {
        self.awaited -= 1;
        self.awaited_receives -= u32::from(!send);
    }

    /// The rank waits for a request; false if it was never begun.
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

    /// A request is complete.
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

    /// Whether the rank waits for sends only.
    pub(super) fn waits_for_sends(&self) -> bool {
        self.awaited > 0 && self.awaited_receives == 0
    }

    /// Whether a request for which the rank waits is open.
    pub(super) fn is_awaited(&self, slot: Slot) -> bool {
        matches!(self.slots[slot as usize], State::Pending { awaited: true, .. })
    }
}

/// Steps in the order of their dependences.
#[derive(Debug)]
pub(super) struct ByDependence {
    /// Number of open dependences of each step.
    needs: Vec<u32>,
    after_end: Edges,
    after_start: Edges,
    /// Steps ready to begin.
    ready: BinaryHeap<Reverse<u32>>,
    /// State of each compute unit, and the steps that wait for it.
    units: Vec<Unit>,
    /// Number of incomplete steps.
    pub(super) left: u32,
    /// Incomplete steps that do not wait for others: sends, and all others.
    pub(super) open_sends: u32,
    pub(super) open: u32,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    busy: bool,
    waiting: BinaryHeap<Reverse<u32>>,
}

/// Successors of each step: those of step i are `to[first[i]..first[i + 1]]`.
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

    /// The next step that may begin: the first in the file.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.ready.pop().map(|Reverse(step)| step)
    }

    /// A step has begun.
    pub(super) fn begin(&mut self, step: u32, send: bool) {
        self.open += 1;
        self.open_sends += u32::from(send);
        for at in self.after_start.of(step) {
            self.relieve(self.after_start.to[at]);
        }
    }

    /// A step is complete.
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

    /// Assigns a compute unit to a step; false if it is busy, then the step waits for it.
    pub(super) fn occupy(&mut self, unit: u16, step: u32) -> bool {
        let unit = &mut self.units[usize::from(unit)];
        if unit.busy {
            unit.waiting.push(Reverse(step));
            return false;
        }
        unit.busy = true;
        true
    }

    /// Releases a compute unit; the step that waited for it may begin.
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

    /// Steps that can never begin, and their open dependences.
    pub(super) fn unmet(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(self.needs.iter().copied()).filter(|&(_, needs)| needs > 0)
    }
}
