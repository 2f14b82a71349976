//! A step that was simulated before, and the search for it among the orders of a new one.

use super::step::{
    Ask, OrderSequence, StepInstance, StepOrder, StepReport, TimesBySequence, largest_time_difference,
};
use crate::order::{EndpointEvent, EndpointOrder, EndpointReport, TimedEndpointOrder};
use pauseframe_units::{Span, Time};
use std::collections::{HashMap, VecDeque};

/// A step with its last simulated instance.
#[derive(Debug)]
pub(super) struct RememberedStep {
    pub(super) instance: StepInstance,
    /// The places of the orders of each sequence, ascending.
    places_by_sequence: HashMap<OrderSequence, Vec<u32>>,
    first_orders: TimesBySequence,
    /// The times of the orders, ascending.
    times: Vec<Span>,
    /// By report: the place of the order that it answers.
    answered: Vec<Option<u32>>,
    /// Messages that arrive: time, endpoint, bytes.
    pub(super) arrivals: Vec<(Span, u32, u64)>,
    /// Times of orders may differ by this much.
    pub(super) tolerance: Span,
    /// Two instances in a row have agreed, and the counts of the second are known.
    pub(super) is_trusted: bool,
    /// How often it was replayed.
    pub(super) replays: u64,
    /// When the last replay began, if the network has simulated no step since.
    pub(super) last_replay: Option<Time>,
}

impl RememberedStep {
    pub(super) fn new(instance: StepInstance, tolerance: Span, is_trusted: bool) -> RememberedStep {
        let mut places_by_sequence: HashMap<OrderSequence, Vec<u32>> = HashMap::new();
        for (place, order) in (0..).zip(&instance.orders) {
            places_by_sequence.entry(order.sequence()).or_default().push(place);
        }
        let mut times: Vec<Span> = instance.orders.iter().map(|order| order.after).collect();
        times.sort_unstable();
        // What is simulated again is not replayed.
        let answered = if is_trusted { answered(&instance) } else { Vec::new() };
        let arrivals = arrivals(&instance, &answered);
        RememberedStep {
            first_orders: instance.first_orders(),
            instance,
            places_by_sequence,
            times,
            answered,
            arrivals,
            tolerance,
            is_trusted,
            replays: 0,
            last_replay: None,
        }
    }

    /// Whether the order at this place was this one.
    fn has_at(&self, place: u32, endpoint_key: u32, ask: Ask, after: Span) -> bool {
        let StepOrder { after: remembered, endpoint_key: of, ask: asked } =
            self.instance.orders[place as usize];
        (of, asked) == (endpoint_key, ask) && remembered.0.abs_diff(after.0) <= self.tolerance.0
    }

    /// Whether the first order of its sequence was this one, at about the begin.
    pub(super) fn begins_with(&self, first: &TimedEndpointOrder) -> bool {
        Ask::of_order(&first.order).is_some_and(|ask| {
            let places = self.places_by_sequence.get(&ask.sequence_of(first.endpoint_key));
            places.is_some_and(|places| self.has_at(places[0], first.endpoint_key, ask, Span::ZERO))
        })
    }

    /// Whether an instance with these first orders began alike: a replay would have been tried.
    pub(super) fn begins_alike(&self, first_orders: &TimesBySequence) -> bool {
        let difference = largest_time_difference(&self.first_orders, first_orders);
        difference.is_some_and(|difference| difference <= self.tolerance)
    }

    /// The numbers of the reports that follow if these have been given, at about the times of this step; `None` if it had others.
    fn reports_after(&self, given: &[StepReport]) -> Option<VecDeque<u32>> {
        let mut given_of: HashMap<OrderSequence, VecDeque<Span>> = HashMap::new();
        for StepReport { after, endpoint_key, is_sent } in given {
            given_of.entry((*endpoint_key, *is_sent)).or_default().push_back(*after);
        }
        let last = given.last().map_or(Span::ZERO, |report| report.after);
        let mut left = VecDeque::new();
        for (number, report) in (0..).zip(&self.instance.reports) {
            let times = given_of.get_mut(&(report.endpoint_key, report.is_sent));
            let difference = if let Some(time) = times.and_then(VecDeque::pop_front) {
                time.0.abs_diff(report.after.0)
            } else {
                left.push_back(number);
                last.0.saturating_sub(report.after.0)
            };
            if difference > self.tolerance.0 {
                return None;
            }
        }
        given_of.values().all(VecDeque::is_empty).then_some(left)
    }

    /// Number of orders that must have come before a report at this time can come.
    fn orders_before(&self, after: Span) -> usize {
        self.times.partition_point(|time| time.saturating_add(self.tolerance) < after)
    }
}

/// By report of a step, the place of the order that it answers.
fn answered(instance: &StepInstance) -> Vec<Option<u32>> {
    let mut places: HashMap<OrderSequence, VecDeque<u32>> = HashMap::new();
    for (place, order) in (0..).zip(&instance.orders) {
        if order.ask.is_answered() {
            places.entry(order.sequence()).or_default().push_back(place);
        }
    }
    let place = |report: &StepReport| places.get_mut(&(report.endpoint_key, report.is_sent))?.pop_front();
    instance.reports.iter().map(place).collect()
}

/// The messages of a step in the order in which they arrive.
fn arrivals(instance: &StepInstance, answered: &[Option<u32>]) -> Vec<(Span, u32, u64)> {
    let arrival = |(report, place): (&StepReport, &Option<u32>)| match instance.orders[(*place)? as usize].ask
    {
        Ask::Await { bytes } => Some((report.after, report.endpoint_key, bytes)),
        Ask::Write { .. } => None,
    };
    instance.reports.iter().zip(answered).filter_map(arrival).collect()
}

/// An order of a remembered step in a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Came {
    NotYet,
    /// No report answers it.
    Silent,
    /// With the token of its message.
    With(u32),
}

/// How far a replay has followed a remembered step.
#[derive(Debug)]
struct Follower {
    step: usize,
    /// All orders before this place have come.
    next: u32,
    /// By place.
    came: Vec<Came>,
}

impl Follower {
    fn new(step: usize, steps: &[RememberedStep]) -> Follower {
        Follower { step, next: 0, came: vec![Came::NotYet; steps[step].instance.orders.len()] }
    }

    /// Takes the next order of its sequence; false if the step had another one there.
    fn take(&mut self, order: &TimedEndpointOrder, begin: Time, steps: &[RememberedStep]) -> bool {
        let (step, endpoint_key) = (&steps[self.step], order.endpoint_key);
        let (Some(ask), after) = (Ask::of_order(&order.order), order.at.saturating_since(begin)) else {
            return false;
        };
        let sequence = ask.sequence_of(endpoint_key);
        // As a rule orders come as they came before.
        let is_next =
            step.instance.orders.get(self.next as usize).is_some_and(|next| next.sequence() == sequence);
        let place = if is_next { Some(self.next) } else { self.first_left(step, sequence) };
        let Some(place) = place.filter(|place| step.has_at(*place, endpoint_key, ask, after)) else {
            return false;
        };
        self.came[place as usize] = match order.order {
            EndpointOrder::Write { token: Some(token), .. } | EndpointOrder::Await { token, .. } => {
                Came::With(token)
            }
            _ => Came::Silent,
        };
        while self.came.get(self.next as usize).is_some_and(|came| *came != Came::NotYet) {
            self.next += 1;
        }
        true
    }

    /// The first order of a sequence that has not come.
    fn first_left(&self, step: &RememberedStep, sequence: OrderSequence) -> Option<u32> {
        let places = step.places_by_sequence.get(&sequence)?;
        let after = &places[places.partition_point(|place| *place < self.next)..];
        after.iter().copied().find(|place| self.came[*place as usize] == Came::NotYet)
    }
}

/// A step whose orders are compared with those of remembered ones, while the network stands still.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) begin: Time,
    /// Remembered steps that agree with all orders so far; once there are reports, the one that gives them.
    candidates: Vec<Follower>,
    /// Those that agreed until the first report. If the one that gives the reports ends to agree, another may go on in its place: of two
    /// steps that begin alike, one is longer.
    others: Vec<usize>,
    /// All orders so far: the network gets them if no remembered step agrees any more.
    held: Vec<TimedEndpointOrder>,
    /// What has been reported.
    given: Vec<StepReport>,
    /// What the remembered step that gives the reports is still to report: their numbers there.
    left: Option<VecDeque<u32>>,
}

/// A replay that no remembered step agrees with any more.
#[derive(Debug)]
pub(super) struct FailedReplay {
    /// The orders that the network needs.
    pub(super) held: Vec<TimedEndpointOrder>,
    /// What has been reported already.
    pub(super) given: Vec<StepReport>,
}

impl Replay {
    pub(super) fn new(begin: Time, candidates: &[usize], steps: &[RememberedStep]) -> Replay {
        Replay {
            begin,
            candidates: candidates.iter().map(|step| Follower::new(*step, steps)).collect(),
            others: Vec::new(),
            held: Vec::new(),
            given: Vec::new(),
            left: None,
        }
    }

    /// Takes an order, and drops the remembered steps that have another one in its place.
    pub(super) fn take_order(&mut self, order: TimedEndpointOrder, steps: &[RememberedStep]) {
        let begin = self.begin;
        self.candidates.retain_mut(|follower| follower.take(&order, begin, steps));
        self.held.push(order);
        self.go_on_with_another(steps);
    }

    /// Time of the next report, of the remembered step that has it first.
    pub(super) fn next_report_time(&self, steps: &[RememberedStep]) -> Option<Time> {
        self.next_report(steps).map(|(_, after)| self.begin + after)
    }

    /// Of steps that have it at about the same time, the shortest one gives it: what follows may be another step.
    fn next_report(&self, steps: &[RememberedStep]) -> Option<(usize, Span)> {
        if let Some(left) = &self.left {
            let step = self.candidates.first()?.step;
            return Some((step, steps[step].instance.reports[*left.front()? as usize].after));
        }
        let first =
            |follower: &Follower| Some((follower.step, steps[follower.step].instance.reports.first()?.after));
        let (step, earliest) = self.candidates.iter().filter_map(first).min_by_key(|(_, after)| *after)?;
        let latest = earliest.saturating_add(steps[step].tolerance);
        let at_once = self.candidates.iter().filter_map(first).filter(|(_, after)| *after <= latest);
        at_once.min_by_key(|(step, _)| steps[*step].instance.orders.len())
    }

    /// The next reports before `end`: those of one time, and of `reaction` after it. Empty if there are none, or no remembered step is left
    /// ([`Self::has_failed`]).
    pub(super) fn give_reports(
        &mut self,
        steps: &[RememberedStep],
        end: Time,
        reaction: Span,
    ) -> Vec<EndpointReport> {
        while let Some((step, first)) = self.next_report(steps).filter(|(_, after)| self.begin + *after < end)
        {
            // Otherwise an order that this step had by now has not come.
            if self.held.len() >= steps[step].orders_before(first) {
                if self.left.is_none() {
                    self.choose(step, steps);
                }
                let due = self.take_reports(end.min(self.begin + first + reaction), steps);
                if !due.is_empty() {
                    return due;
                }
            }
            self.candidates.retain(|candidate| candidate.step != step);
            self.go_on_with_another(steps);
        }
        Vec::new()
    }

    /// From now on this step gives the reports.
    fn choose(&mut self, step: usize, steps: &[RememberedStep]) {
        let others = self.candidates.iter().map(|follower| follower.step).filter(|other| *other != step);
        self.others = others.collect();
        self.candidates.retain(|follower| follower.step == step);
        self.left = Some((0..steps[step].instance.reports.len() as u32).collect());
    }

    /// The reports before `until`, with the tokens that the messages have now.
    fn take_reports(&mut self, until: Time, steps: &[RememberedStep]) -> Vec<EndpointReport> {
        let mut due = Vec::new();
        let (Some(follower), Some(left)) = (self.candidates.first(), &mut self.left) else { return due };
        let step = &steps[follower.step];
        while let Some(&number) = left.front() {
            let report = step.instance.reports[number as usize];
            let StepReport { after, endpoint_key, is_sent } = report;
            let came = step.answered[number as usize].map(|place| follower.came[place as usize]);
            let Some(Came::With(token)) = came.filter(|_| self.begin + after < until) else { break };
            left.pop_front();
            self.given.push(report);
            let event = if is_sent { EndpointEvent::Sent(token) } else { EndpointEvent::Delivered(token) };
            due.push(EndpointReport { at: self.begin + after, endpoint_key, event });
        }
        due
    }

    /// If the step that gave the reports agrees no more: goes on with another one that agrees with everything so far.
    fn go_on_with_another(&mut self, steps: &[RememberedStep]) {
        while self.candidates.is_empty()
            && let Some(other) = self.others.pop()
        {
            let (begin, mut follower) = (self.begin, Follower::new(other, steps));
            if self.held.iter().all(|order| follower.take(order, begin, steps))
                && let Some(left) = steps[other].reports_after(&self.given)
            {
                self.candidates = vec![follower];
                self.left = Some(left);
            }
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Gives up: the network has to simulate the step.
    pub(super) fn give_up(self) -> FailedReplay {
        FailedReplay { held: self.held, given: self.given }
    }

    /// The remembered step, if all of its orders have come and all of its reports have been given.
    pub(super) fn complete_step(&self, steps: &[RememberedStep]) -> Option<usize> {
        let [Follower { step, .. }] = self.candidates[..] else { return None };
        let is_reported = self.left.as_ref().is_some_and(VecDeque::is_empty);
        (is_reported && self.held.len() == steps[step].instance.orders.len()).then_some(step)
    }
}
