//! Memory of steps: what applications ask of a quiet network again and again is simulated until it repeats, and then replayed.
//!
//! A step lasts from one quiet instant (no message under way, no frame anywhere) to the next. It is the messages that applications send meanwhile,
//! and what the network reports of them. If a step begins like a remembered one, the network stands still and the traffic gets the remembered reports
//! at their times, as long as its orders are the remembered ones too. If they are not, the network simulates the step after all, from its begin: what
//! was reported until then is what it would have reported.
//!
//! Between two steps the network idles: timers run, rates recover. Queue pairs recover during replayed steps, too, and those that got notifications in
//! one are left in the state in which the remembered instance left them. TCP and plug-ins would take replayed steps for idle time; with these a replayed
//! step takes no time on the network's clock, which goes on where the last simulated step has ended: `Network::clock_offset` is what the clock lacks.

mod remembered;
mod rounds;
mod step;

use crate::observers::pause_tree::RepeatedPauses;
use crate::observers::ports::PortPriorityReport;
use crate::order::{EndpointCounters, EndpointEvent, EndpointOrder, EndpointReport, TimedEndpointOrder};
use crate::rounds::OperationClock;
use pauseframe_engine::mix_bits;
use pauseframe_units::{PortId, Priority, Span, Time};
use remembered::{FailedReplay, RememberedStep, Replay};
use rounds::RoundComparison;
pub(crate) use rounds::{Leap, RoundSearch, RoundSnapshot, RoundWindow};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
pub(crate) use step::{StatesLeft, StepCounts};
use step::{StepInstance, StepReport, add_port_counts, has_counts, subtract_reports};

/// One of so many steps that could be replayed is simulated again; later fewer, one in as many as there were.
const SIMULATED_AGAIN: u64 = 16;
/// Orders of all remembered steps: half a gigabyte.
const ORDERS_KEPT_MAX: usize = 1 << 23;
/// Kinds of steps: each is compared with the first order of every step.
const KINDS_MAX: usize = 1000;
/// Steps with equal orders whose first ones come at other times.
const VARIANTS_MAX: usize = 16;

/// How repeated steps are treated.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepMemorySettings {
    /// Two instances of a step agree if no report differs by more than this share of the step's length.
    pub bound: f64,
    /// Simulates everything, and compares steps that would have been replayed.
    pub checks: bool,
    /// Draws the steps that are simulated again.
    pub seed: u64,
}

/// What the memory of steps has done.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepMemoryReport {
    /// How it treated them.
    pub settings: StepMemorySettings,
    /// Steps from one quiet instant to the next.
    pub steps: u64,
    /// Different ones among these that are remembered.
    pub kinds: u64,
    /// Steps beyond what it keeps.
    pub not_kept: u64,
    /// Steps replayed; with `checks`, steps that would have been.
    pub replayed: u64,
    /// Rounds inside steps that were left out, or would have been.
    pub rounds: u64,
    /// Packet hops of these steps and rounds, as remembered.
    pub replayed_hops: u64,
    /// Replays that ended because an order differed.
    pub failed: u64,
    /// Simulated steps, and windows of rounds, that were compared with what a replay would have given.
    pub compared: u64,
    /// Of these, steps beyond the bound.
    pub beyond_bound: u64,
    /// The largest difference of a time, as a share of the step's length.
    pub largest_difference: f64,
    /// Sums over the compared steps: packet hops, marks and pauses as simulated, and as a replay would have had them.
    pub simulated: [u64; 3],
    /// See `simulated`.
    pub remembered: [u64; 3],
}

/// The counters of the network before a step.
#[derive(Debug)]
pub(crate) struct CountersBefore {
    /// On the network's clock.
    pub(crate) now: Time,
    pub(crate) ports: Vec<PortPriorityReport>,
    /// Number of recorded pauses.
    pub(crate) pauses: usize,
}

/// The memory of steps of a network.
#[derive(Debug)]
pub(crate) struct StepMemory {
    settings: StepMemorySettings,
    /// Times of orders may differ by at most this, so that no report precedes its order.
    shortest_delay: Span,
    steps: Vec<RememberedStep>,
    /// By hash of the orders: steps that differ in the times of the first ones.
    by_hash: HashMap<u64, Vec<usize>>,
    /// Orders of all remembered steps.
    orders_kept: usize,
    /// The step that the network simulates now, or has simulated last.
    current: Option<StepInstance>,
    before: Option<CountersBefore>,
    replay: Option<Replay>,
    pub(crate) rounds: RoundSearch,
    /// Messages whose arrival or departure has not been reported.
    under_way: u64,
    /// What a failed replay has reported, and the network will report again: by endpoint and kind, their number.
    reported: HashMap<(u32, bool), u32>,
    /// No further report of a step whose replay has failed precedes this.
    earliest: Time,
    /// By port and priority: what replayed steps would have counted.
    ports: BTreeMap<(PortId, Priority), PortPriorityReport>,
    report: StepMemoryReport,
}

/// A step that has been replayed to its end.
#[derive(Debug)]
pub(crate) struct ReplayedStep<'m> {
    pub(crate) begin: Time,
    pub(crate) end: Time,
    pub(crate) counts: &'m StepCounts,
    /// Messages that arrived: time since the begin, endpoint, bytes.
    pub(crate) arrivals: &'m [(Span, u32, u64)],
}

impl StepMemory {
    pub(crate) fn new(settings: StepMemorySettings, shortest_delay: Span) -> StepMemory {
        StepMemory {
            settings,
            shortest_delay,
            steps: Vec::new(),
            by_hash: HashMap::new(),
            orders_kept: 0,
            current: None,
            before: None,
            replay: None,
            rounds: RoundSearch::default(),
            under_way: 0,
            reported: HashMap::new(),
            earliest: Time::ZERO,
            ports: BTreeMap::new(),
            report: StepMemoryReport::default(),
        }
    }

    pub(crate) fn bound(&self) -> f64 {
        self.settings.bound
    }

    pub(crate) fn step_memory_report(&self) -> StepMemoryReport {
        StepMemoryReport { settings: self.settings, kinds: self.steps.len() as u64, ..self.report }
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// Whether the next order begins a step, if no frame is anywhere.
    pub(crate) fn is_between_steps(&self) -> bool {
        self.under_way == 0 && self.replay.is_none()
    }

    /// Packet hops of replayed steps.
    pub(crate) fn replayed_packet_hops(&self) -> u64 {
        if self.settings.checks { 0 } else { self.report.replayed_hops }
    }

    /// Ends the step that the network has simulated, which `count` counts if counters were read before it. Returns the time of its last report.
    pub(crate) fn end_step(
        &mut self,
        packet_hops: u64,
        count: impl FnOnce(&CountersBefore, Time) -> StepCounts,
    ) -> Option<Time> {
        let mut step = self.current.take()?;
        step.packet_hops = packet_hops - step.packet_hops;
        step.counts = self.before.take().map(|before| count(&before, step.begin));
        self.reported.clear();
        self.report.steps += 1;
        let end = step.begin + step.length();
        if step.is_of_messages && !step.reports.is_empty() {
            self.compare_and_remember(step);
        }
        Some(end)
    }

    /// Compares a simulated step with the remembered one, and keeps it instead.
    fn compare_and_remember(&mut self, step: StepInstance) {
        let tolerance =
            Span((self.settings.bound * step.length().0 as f64) as u64).0.min(self.shortest_delay.0);
        let (hash, first_orders) = (step.order_hash(), step.first_orders());
        let alike = self.by_hash.entry(hash).or_default();
        let known = alike.iter().copied().find(|place| self.steps[*place].begins_alike(&first_orders));
        let Some(place) = known.or_else(|| (alike.len() >= VARIANTS_MAX).then(|| alike[0])) else {
            if self.orders_kept + step.orders.len() > ORDERS_KEPT_MAX || self.steps.len() >= KINDS_MAX {
                self.report.not_kept += 1;
            } else {
                self.orders_kept += step.orders.len();
                alike.push(self.steps.len());
                self.steps.push(RememberedStep::new(step, Span(tolerance), false));
            }
            return;
        };
        let known = &self.steps[place];
        let (bound, was_trusted) = (self.settings.bound, known.is_trusted);
        let difference = known.instance.relative_difference(&step);
        let agrees = difference.is_some_and(|difference| difference <= bound);
        let replays = known.replays;
        if was_trusted && known.begins_alike(&first_orders) {
            self.report.beyond_bound += u64::from(!agrees);
            self.count_comparison(&step, place, difference.unwrap_or(f64::INFINITY));
        }
        // A replay repeats the last instance: so does a check.
        if !(was_trusted && agrees && self.settings.checks) {
            let is_trusted = agrees && step.counts.is_some();
            let mut remembered = RememberedStep::new(step, Span(tolerance), is_trusted);
            remembered.replays = replays;
            self.steps[place] = remembered;
        }
    }

    /// Counts a simulated step and what a replay would have given, or did give before.
    fn count_comparison(&mut self, step: &StepInstance, place: usize, difference: f64) {
        let known = &self.steps[place].instance;
        let counts = |step: &StepInstance| {
            let [marks, pauses] =
                step.counts.as_ref().map_or([0; 2], |counts| [counts.marks(), counts.pauses_sent()]);
            [step.packet_hops, marks, pauses]
        };
        let report = &mut self.report;
        report.compared += 1;
        report.largest_difference = report.largest_difference.max(difference);
        report.simulated.iter_mut().zip(counts(step)).for_each(|(sum, more)| *sum += more);
        report.remembered.iter_mut().zip(counts(known)).for_each(|(sum, more)| *sum += more);
        if self.settings.checks {
            report.replayed += 1;
            report.replayed_hops += known.packet_hops;
        }
    }

    /// Takes the snapshot of rounds that is due; returns those that are left out now.
    pub(crate) fn look_at_rounds(
        &mut self,
        snapshot: RoundSnapshot,
        counts: StepCounts,
        longest: Option<(usize, OperationClock)>,
        horizon: Time,
    ) -> Option<Leap> {
        let (leap, comparison) =
            self.rounds.take_snapshot(snapshot, counts, longest, horizon, &self.settings);
        if let Some(RoundComparison { difference, simulated, remembered, predicted }) = comparison {
            let report = &mut self.report;
            report.compared += 1;
            report.beyond_bound += u64::from(difference > self.settings.bound);
            report.largest_difference = report.largest_difference.max(difference);
            report.simulated.iter_mut().zip(simulated).for_each(|(sum, more)| *sum += more);
            report.remembered.iter_mut().zip(remembered).for_each(|(sum, more)| *sum += more);
            if predicted > 0 {
                report.rounds += predicted;
                report.replayed_hops += remembered[0];
            }
        }
        leap
    }

    /// Adds what rounds count that are left out. The step that has them is not remembered as a whole.
    pub(crate) fn count_leap(&mut self, leap: &Leap) {
        let Some(window) = self.rounds.known_window() else { return };
        self.report.rounds += leap.rounds;
        self.report.replayed_hops += window.packet_hops * leap.rounds;
        for _ in 0..leap.rounds {
            add_counts(&mut self.ports, &window.counts.ports);
        }
        if let Some(step) = &mut self.current {
            step.is_of_messages = false;
        }
    }

    /// Whether the counters are to be read before a step that begins with this order: a remembered one began so too.
    pub(crate) fn needs_counters(&self, first: &TimedEndpointOrder) -> bool {
        self.steps.iter().any(|step| step.begins_with(first))
    }

    /// Begins a step: replays it if it may be one that is known and would end before `horizon`; true if so.
    pub(crate) fn begin_step(&mut self, first: &TimedEndpointOrder, horizon: Time) -> bool {
        let begin = first.at;
        let may_be = |(place, step): (usize, &RememberedStep)| {
            let ends = begin + step.instance.length() + step.tolerance;
            (step.is_trusted && step.begins_with(first) && ends < horizon).then_some(place)
        };
        let candidates: Vec<usize> = self.steps.iter().enumerate().filter_map(may_be).collect();
        let replays = candidates.iter().map(|place| self.steps[*place].replays).max().unwrap_or(0);
        let draw = mix_bits(self.settings.seed ^ mix_bits(self.report.steps));
        let is_drawn = draw.is_multiple_of(SIMULATED_AGAIN.max(replays));
        if candidates.is_empty() || is_drawn || self.settings.checks {
            return false;
        }
        self.replay = Some(Replay::new(begin, &candidates, &self.steps));
        true
    }

    /// The steps that were replayed since the network has last simulated one: when each began last, oldest first, and the queue pairs as it leaves them.
    pub(crate) fn take_replayed(&mut self) -> Vec<(Time, &StatesLeft)> {
        let mut replayed = Vec::new();
        for RememberedStep { last_replay, instance, .. } in &mut self.steps {
            if let (Some(begin), Some(counts)) = (last_replay.take(), &instance.counts) {
                replayed.push((begin, &counts.left));
            }
        }
        replayed.sort_unstable_by_key(|(begin, _)| *begin);
        replayed
    }

    /// The network is going to simulate a step from `begin` on; `before` are its counters, if they are needed.
    pub(crate) fn simulate_step(&mut self, begin: Time, packet_hops: u64, before: Option<CountersBefore>) {
        self.current = Some(StepInstance { packet_hops, ..StepInstance::new(begin) });
        self.before = before;
    }

    /// Takes the orders of the traffic; returns them if the network simulates the step.
    pub(crate) fn take_orders(&mut self, orders: Vec<TimedEndpointOrder>) -> Vec<TimedEndpointOrder> {
        self.under_way += orders.iter().filter(|order| is_answered(order)).count() as u64;
        let Some(replay) = &mut self.replay else {
            self.record_orders(&orders);
            return orders;
        };
        for order in orders {
            replay.take_order(order, &self.steps);
        }
        Vec::new()
    }

    /// Time of the next report of a replay.
    pub(crate) fn next_report_time(&self) -> Option<Time> {
        self.replay.as_ref()?.next_report_time(&self.steps)
    }

    /// The next reports of a replay before `end`.
    pub(crate) fn give_reports(&mut self, end: Time, reaction: Span) -> Vec<EndpointReport> {
        let Some(replay) = &mut self.replay else { return Vec::new() };
        let reports = replay.give_reports(&self.steps, end, reaction);
        self.under_way -= reports.len() as u64;
        reports
    }

    /// If no remembered step agrees any more: when the step began, and the orders that the network needs now.
    pub(crate) fn take_failed_replay(&mut self, now: Time) -> Option<(Time, Vec<TimedEndpointOrder>)> {
        let replay = self.replay.take_if(|replay| replay.has_failed())?;
        let begin = replay.begin;
        let FailedReplay { held, given } = replay.give_up();
        self.report.failed += 1;
        for StepReport { endpoint_key, is_sent, .. } in given {
            *self.reported.entry((endpoint_key, is_sent)).or_default() += 1;
        }
        self.earliest = now;
        Some((begin, held))
    }

    /// Records orders in the step that the network simulates, also those of a replay that has failed.
    pub(crate) fn record_orders(&mut self, orders: &[TimedEndpointOrder]) {
        let Some(step) = &mut self.current else { return };
        for order in orders {
            step.record_order(order);
        }
    }

    /// If a replay is over: the step.
    pub(crate) fn take_complete_replay(&mut self) -> Option<ReplayedStep<'_>> {
        let place = self.replay.as_ref()?.complete_step(&self.steps)?;
        let begin = self.replay.take()?.begin;
        self.steps[place].replays += 1;
        self.steps[place].last_replay = Some(begin);
        let RememberedStep { instance, arrivals, .. } = &self.steps[place];
        self.report.steps += 1;
        self.report.replayed += 1;
        self.report.replayed_hops += instance.packet_hops;
        let counts = instance.counts.as_ref()?;
        add_counts(&mut self.ports, &counts.ports);
        Some(ReplayedStep { begin, end: begin + instance.length(), counts, arrivals })
    }

    /// Takes the reports of the network: records them, and drops those that a failed replay has given.
    pub(crate) fn take_reports(&mut self, reports: &mut Vec<EndpointReport>) {
        let Some(step) = &mut self.current else { return };
        let (reported, earliest) = (&mut self.reported, self.earliest);
        let under_way = &mut self.under_way;
        reports.retain_mut(|report| {
            step.record_report(report);
            let Some(is_sent) = is_about_message(report) else { return true };
            if let Some(count) = reported.get_mut(&(report.endpoint_key, is_sent)).filter(|count| **count > 0)
            {
                *count -= 1;
                return false;
            }
            *under_way -= 1;
            report.at = report.at.max(earliest);
            true
        });
    }

    /// Adds what replayed steps counted to a port's report up to `now`; `clock` is the network's.
    pub(crate) fn add_to_reports(&self, reports: &mut [PortPriorityReport], now: Time, clock: Time) {
        let mut left: BTreeMap<_, _> = self.ports.clone();
        for report in reports.iter_mut() {
            report.backlog_mean *= clock.0 as f64;
            if let Some(more) = left.remove(&(report.port, report.priority)) {
                add_port_counts(report, &more);
            }
            report.backlog_mean /= (now.0 as f64).max(1.0);
        }
        debug_assert!(left.is_empty(), "a replayed step was simulated before, on the same ports");
    }
}

/// Adds what ports counted in a step or a round.
fn add_counts(sums: &mut BTreeMap<(PortId, Priority), PortPriorityReport>, counts: &[PortPriorityReport]) {
    for more in counts {
        match sums.entry((more.port, more.priority)) {
            Entry::Vacant(entry) => {
                entry.insert(*more);
            }
            Entry::Occupied(mut entry) => add_port_counts(entry.get_mut(), more),
        }
    }
}

/// The differences of counters since `before`; `now` is the network's clock.
pub(crate) fn count_step(
    before: &CountersBefore,
    now: Time,
    ports: Vec<PortPriorityReport>,
    mut endpoints: Vec<EndpointCounters>,
    pauses: RepeatedPauses,
) -> StepCounts {
    endpoints.retain(has_counts);
    let ports = subtract_reports(ports, &before.ports, [before.now, now]);
    StepCounts { ports, endpoints, pauses, left: StatesLeft::default() }
}

/// Whether the network answers an order with a report that a message has arrived or been sent.
fn is_answered(order: &TimedEndpointOrder) -> bool {
    matches!(order.order, EndpointOrder::Write { token: Some(_), .. } | EndpointOrder::Await { .. })
}

/// Whether a report says that a message has been sent (true) or has arrived (false); `None` if it is about something else.
fn is_about_message(report: &EndpointReport) -> Option<bool> {
    match report.event {
        EndpointEvent::Delivered(_) => Some(false),
        EndpointEvent::Sent(_) => Some(true),
        _ => None,
    }
}
