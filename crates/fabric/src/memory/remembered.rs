//! A step that was simulated before, and the search for it among the orders of a new one.

use super::step::{Ask, OrderSequence, StepInstance, StepOrder, StepReport};
use crate::order::{EndpointEvent, EndpointOrder, EndpointReport, TimedEndpointOrder};
use pauseframe_units::{Span, Time};
use std::collections::{HashMap, VecDeque};

/// A step with its last simulated instance.
#[derive(Debug)]
pub(super) struct RememberedStep {
    pub(super) instance: StepInstance,
    /// The places of the orders of each sequence.
    places_by_sequence: HashMap<OrderSequence, Vec<usize>>,
    /// The times of the orders, ascending.
    times: Vec<Span>,
    /// Messages that arrive: time, endpoint, bytes.
    pub(super) arrivals: Vec<(Span, u32, u64)>,
    /// Times of orders may differ by this much.
    pub(super) tolerance: Span,
    /// Two instances in a row have agreed, and the counts of the second are known.
    pub(super) is_trusted: bool,
    /// How often it was replayed.
    pub(super) replays: u64,
}

impl RememberedStep {
    pub(super) fn new(instance: StepInstance, tolerance: Span, is_trusted: bool) -> RememberedStep {
        let mut places_by_sequence: HashMap<OrderSequence, Vec<usize>> = HashMap::new();
        for (place, order) in instance.orders.iter().enumerate() {
            places_by_sequence.entry(order.sequence()).or_default().push(place);
        }
        let mut times: Vec<Span> = instance.orders.iter().map(|order| order.after).collect();
        times.sort_unstable();
        let arrivals = if is_trusted { arrivals(&instance) } else { Vec::new() };
        RememberedStep { instance, places_by_sequence, times, arrivals, tolerance, is_trusted, replays: 0 }
    }

    /// Whether the n-th order of its sequence, from 0 on, is this one.
    fn has_nth_order(&self, n: usize, endpoint_key: u32, ask: Ask, after: Span) -> bool {
        let sequence = ask.sequence_of(endpoint_key);
        let place = self.places_by_sequence.get(&sequence).and_then(|places| places.get(n));
        place.is_some_and(|place| {
            let StepOrder { after: remembered, ask: asked, .. } = self.instance.orders[*place];
            asked == ask && remembered.0.abs_diff(after.0) <= self.tolerance.0
        })
    }

    /// Whether the first order of its sequence was this one, at about the begin.
    pub(super) fn begins_with(&self, first: &TimedEndpointOrder) -> bool {
        let ask = Ask::of_order(&first.order);
        ask.is_some_and(|ask| self.has_nth_order(0, first.endpoint_key, ask, Span::ZERO))
    }

    /// Whether another instance began alike: a replay would have been tried.
    pub(super) fn begins_alike(&self, other: &StepInstance) -> bool {
        let difference = self.instance.first_order_difference(other);
        difference.is_some_and(|difference| difference <= self.tolerance)
    }

    /// Number of orders that must have come before a report at this time can come.
    fn orders_before(&self, after: Span) -> usize {
        self.times.partition_point(|time| time.saturating_add(self.tolerance) < after)
    }
}

/// The messages of a step in the order in which they arrive.
fn arrivals(instance: &StepInstance) -> Vec<(Span, u32, u64)> {
    let mut expected: HashMap<u32, VecDeque<u64>> = HashMap::new();
    for order in &instance.orders {
        if let Ask::Await { bytes } = order.ask {
            expected.entry(order.endpoint_key).or_default().push_back(bytes);
        }
    }
    let arrived = instance.reports.iter().filter(|report| !report.is_sent);
    let bytes = |report: &StepReport| {
        let bytes = expected.get_mut(&report.endpoint_key)?.pop_front()?;
        Some((report.after, report.endpoint_key, bytes))
    };
    arrived.filter_map(bytes).collect()
}

/// A step whose orders are compared with those of remembered ones, while the network stands still.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) begin: Time,
    /// Remembered steps that agree with all orders so far.
    candidates: Vec<usize>,
    /// All orders so far: the network gets them if no remembered step agrees any more.
    held: Vec<TimedEndpointOrder>,
    /// By sequence, the number of its orders so far.
    orders_of_sequence: HashMap<OrderSequence, usize>,
    /// Tokens of messages that will arrive (false) or have been sent (true), by endpoint.
    tokens: HashMap<(u32, bool), VecDeque<u32>>,
    /// The remembered step whose reports are given, once there are any, and their number.
    chosen: Option<usize>,
    given: usize,
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
    pub(super) fn new(begin: Time, candidates: Vec<usize>) -> Replay {
        Replay {
            begin,
            candidates,
            held: Vec::new(),
            orders_of_sequence: HashMap::new(),
            tokens: HashMap::new(),
            chosen: None,
            given: 0,
        }
    }

    /// Takes an order, and drops the remembered steps that have another one in its place.
    pub(super) fn take_order(&mut self, order: TimedEndpointOrder, steps: &[RememberedStep]) {
        let endpoint_key = order.endpoint_key;
        match Ask::of_order(&order.order) {
            Some(ask) => {
                let n = self.orders_of_sequence.entry(ask.sequence_of(endpoint_key)).or_default();
                let after = order.at.saturating_since(self.begin);
                self.candidates.retain(|step| steps[*step].has_nth_order(*n, endpoint_key, ask, after));
                *n += 1;
            }
            None => self.candidates.clear(),
        }
        match order.order {
            EndpointOrder::Write { token: Some(token), .. } => {
                self.tokens.entry((endpoint_key, true)).or_default().push_back(token);
            }
            EndpointOrder::Await { token, .. } => {
                self.tokens.entry((endpoint_key, false)).or_default().push_back(token);
            }
            _ => {}
        }
        self.held.push(order);
    }

    /// Time of the next report, of the remembered step that has it first.
    pub(super) fn next_report_time(&self, steps: &[RememberedStep]) -> Option<Time> {
        self.next_report(steps).map(|(_, after)| self.begin + after)
    }

    fn next_report(&self, steps: &[RememberedStep]) -> Option<(usize, Span)> {
        let next = |step: &usize| Some((*step, steps[*step].instance.reports.get(self.given)?.after));
        self.candidates.iter().filter_map(next).min_by_key(|(_, after)| *after)
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
            let until = end.min(self.begin + first + reaction);
            let due = if self.held.len() < steps[step].orders_before(first) {
                // An order that this step had by now has not come.
                Vec::new()
            } else {
                self.take_reports(&steps[step].instance.reports[self.given..], until)
            };
            if !due.is_empty() {
                self.given += due.len();
                self.chosen = Some(step);
                self.candidates = vec![step];
                return due;
            }
            self.candidates.retain(|candidate| *candidate != step);
        }
        Vec::new()
    }

    /// The reports before `until`, with the tokens that the messages have now.
    fn take_reports(&mut self, reports: &[StepReport], until: Time) -> Vec<EndpointReport> {
        let mut due = Vec::new();
        for &StepReport { after, endpoint_key, is_sent } in reports {
            let at = self.begin + after;
            if at >= until {
                break;
            }
            let tokens = self.tokens.get_mut(&(endpoint_key, is_sent));
            let Some(token) = tokens.and_then(VecDeque::pop_front) else { break };
            let event = if is_sent { EndpointEvent::Sent(token) } else { EndpointEvent::Delivered(token) };
            due.push(EndpointReport { at, endpoint_key, event });
        }
        due
    }

    pub(super) fn has_failed(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Gives up: the network has to simulate the step.
    pub(super) fn give_up(self, steps: &[RememberedStep]) -> FailedReplay {
        let given = self.chosen.map_or(&[][..], |step| &steps[step].instance.reports[..self.given]);
        FailedReplay { held: self.held, given: given.to_vec() }
    }

    /// The remembered step, if all of its orders have come and all of its reports have been given.
    pub(super) fn complete_step(&self, steps: &[RememberedStep]) -> Option<usize> {
        let [step] = self.candidates[..] else { return None };
        let StepInstance { orders, reports, .. } = &steps[step].instance;
        (self.given == reports.len() && self.held.len() == orders.len()).then_some(step)
    }
}
