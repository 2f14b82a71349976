//! Rounds inside a long step: a ring in its middle does the same thing again and again, and at no instant is the network quiet.
//!
//! The operation with most to do gives the period: a rank receives its slices so many at a time, twice in the same time. Then the network is
//! looked at three times, a period apart. If it did the same in both windows (slices of all operations, packet hops, marks, pauses), so many
//! rounds are left out at once: the clock of the network stands still, what is under way stays under way, and the workload's operations are
//! so many slices further. One more window is simulated and compared before the next, longer leap.

use super::step::StepCounts;
use super::{CountersBefore, StepMemorySettings};
use crate::rounds::{OperationClock, OperationId, OperationPace, Paces};
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;

/// Rounds of the first leap; the next one may have twice as many.
const FIRST_LEAP: u64 = 4;
/// Marks and pauses are few and random: they may differ by so many times the bound.
const RARE: f64 = 10.0;
/// Windows that timing and measuring take, with some to leap over and one behind them.
const WINDOWS: u32 = 8;
/// The same if the period is known.
const WINDOWS_IF_KNOWN: u32 = 4;
const ROUNDS_AT_ONCE_MAX: u32 = 1 << 10;

/// The network at an instant.
#[derive(Debug)]
pub(crate) struct RoundSnapshot {
    /// When; all events before have happened.
    pub(crate) at: Time,
    pub(crate) paces: Paces,
    pub(crate) packet_hops: u64,
    pub(crate) before: CountersBefore,
}

/// What happened between two snapshots.
#[derive(Debug)]
pub(crate) struct RoundWindow {
    /// By workload and operation: messages of each connection.
    messages: Vec<BTreeMap<OperationId, f64>>,
    pub(crate) packet_hops: u64,
    pub(crate) counts: StepCounts,
}

/// Rounds to leave out.
#[derive(Debug)]
pub(crate) struct Leap {
    pub(crate) rounds: u64,
    pub(crate) by: Span,
    /// By workload and operation: messages of each connection.
    pub(crate) messages: Vec<BTreeMap<OperationId, u32>>,
}

/// A period whose windows are alike.
#[derive(Debug)]
struct Known {
    operation: (usize, OperationId),
    period: Span,
    window: RoundWindow,
    /// Rounds that the next leap may have.
    leap: u64,
}

#[derive(Debug)]
enum State {
    /// Waits until the operation's rank has received so many slices.
    Waiting { until: u32 },
    /// Times two periods: the number of slices at the first time, and the times.
    Timing { first: u32, times: Vec<Time> },
    /// Waits for the time of the first snapshot.
    Beginning { at: Time, period: Span },
    /// Looks at the network three times, a period apart.
    Measuring { period: Span, last: Box<RoundSnapshot>, window: Option<Box<RoundWindow>> },
    /// Looks whether the network still does what is known, since the snapshot; that may follow a leap.
    Checking { last: Box<RoundSnapshot>, has_leapt: bool },
    /// Simulates what a leap would have left out, since the snapshot.
    Predicting { last: Box<RoundSnapshot>, leap: Box<Leap> },
    /// Nothing repeats in this operation.
    GivenUp,
}

/// The search for rounds in the operation with most to do.
#[derive(Debug, Default)]
pub(crate) struct RoundSearch {
    current: Option<((usize, OperationId), State)>,
    /// Rounds that are timed at once: twice as many after each window that was not alike.
    rounds_at_once: u32,
    known: Option<Box<Known>>,
}

/// A window that was compared with what a leap gives: packet hops, marks and pauses as simulated, and as remembered.
#[derive(Debug)]
pub(crate) struct RoundComparison {
    pub(crate) difference: f64,
    pub(crate) simulated: [u64; 3],
    pub(crate) remembered: [u64; 3],
    /// Rounds that a leap would have left out.
    pub(crate) predicted: u64,
}

impl RoundWindow {
    /// `None` if operations began, ended or did not go on evenly, or something was lost.
    fn between(before: &RoundSnapshot, after: &RoundSnapshot, counts: StepCounts) -> Option<RoundWindow> {
        let mut messages = Vec::new();
        for (before, after) in before.paces.iter().zip(&after.paces) {
            if !before.keys().eq(after.keys()) {
                return None;
            }
            let pairs = before.iter().zip(after.values());
            let even = |((operation, before), after): ((&OperationId, &OperationPace), &OperationPace)| {
                let each = (after.arrived - before.arrived) / f64::from(after.connections.max(1));
                let is_even = (0..2).all(|end| {
                    let more = f64::from(after.extremes[end]) - f64::from(before.extremes[end]);
                    (more - each).abs() < 1.5
                });
                is_even.then_some((*operation, each))
            };
            messages.push(pairs.map(even).collect::<Option<_>>()?);
        }
        let packet_hops = after.packet_hops - before.packet_hops;
        counts.is_without_loss().then_some(RoundWindow { messages, packet_hops, counts })
    }

    /// The largest difference from another window, as a share of what happened there.
    fn difference(&self, other: &RoundWindow) -> f64 {
        let share = |one: f64, other: f64| (one - other).abs() / one.max(other).max(1.0);
        let mut largest = share(self.packet_hops as f64, other.packet_hops as f64);
        for (one, other) in self.messages.iter().zip(&other.messages) {
            if !one.keys().eq(other.keys()) {
                return f64::INFINITY;
            }
            for (one, other) in one.values().zip(other.values()) {
                largest = largest.max(share(*one, *other));
            }
        }
        for count in [StepCounts::marks, StepCounts::pauses_sent] {
            largest = largest.max(share(count(&self.counts) as f64, count(&other.counts) as f64) / RARE);
        }
        largest
    }

    /// Packet hops, marks and pauses.
    fn sums(&self) -> [u64; 3] {
        [self.packet_hops, self.counts.marks(), self.counts.pauses_sent()]
    }

    /// The largest difference of what was simulated from a leap of rounds with so many packet hops each.
    fn difference_from(&self, leap: &Leap, packet_hops: u64) -> f64 {
        let share = |one: f64, other: f64| (one - other).abs() / other.max(1.0);
        let hops = share(self.packet_hops as f64, (packet_hops * leap.rounds) as f64);
        let simulated = self.messages.iter().flat_map(BTreeMap::values);
        let predicted = leap.messages.iter().flat_map(BTreeMap::values);
        simulated.zip(predicted).map(|(one, other)| share(*one, f64::from(*other))).fold(hops, f64::max)
    }

    /// As many rounds as may follow a snapshot before anything else happens, `most` at most. Each operation gets whole messages, which may be
    /// off by `bound` of them.
    fn leap(&self, period: Span, from: &RoundSnapshot, horizon: Time, most: u64, bound: f64) -> Option<Leap> {
        let until_horizon = horizon.saturating_since(from.at).0 / period.0.max(1);
        let of_operation = |(operation, pace): (&OperationId, &OperationPace),
                            each: &BTreeMap<OperationId, f64>| {
            let each = each.get(operation).copied().filter(|each| *each > 0.0)?;
            let spread = f64::from(pace.extremes[1].saturating_sub(pace.extremes[0]));
            // A window to compare, and one before the end.
            let room = f64::from(pace.room) - spread - 2.0 * each - 2.0;
            Some((room / each).max(0.0) as u64)
        };
        let rooms = from.paces.iter().zip(&self.messages);
        let rooms = rooms.flat_map(|(paces, each)| paces.iter().filter_map(|pace| of_operation(pace, each)));
        let most = rooms.fold(most.min(until_horizon.saturating_sub(2)), u64::min);
        let is_whole = |rounds: &u64| {
            let mut each = self.messages.iter().flat_map(BTreeMap::values).map(|each| each * *rounds as f64);
            each.all(|sum| (sum - sum.round()).abs() <= bound * sum)
        };
        let rounds = (1..=most).rev().find(is_whole)?;
        let whole =
            |(operation, each): (&OperationId, &f64)| (*operation, (each * rounds as f64).round() as u32);
        let messages = self.messages.iter().map(|messages| messages.iter().map(whole).collect()).collect();
        Some(Leap { rounds, by: Span(period.0 * rounds), messages })
    }
}

impl State {
    /// Waits until each connection has received so many messages more.
    fn wait(clock: &OperationClock, messages: u32) -> State {
        State::Waiting { until: clock.arrived + messages * clock.connections }
    }

    fn snapshot(&self) -> Option<&RoundSnapshot> {
        match self {
            State::Measuring { last, .. } | State::Checking { last, .. } | State::Predicting { last, .. } => {
                Some(last)
            }
            State::Waiting { .. } | State::Timing { .. } | State::Beginning { .. } | State::GivenUp => None,
        }
    }
}

impl RoundSearch {
    /// When the next snapshot is due.
    pub(crate) fn snapshot_due(&self) -> Option<Time> {
        let (_, state) = self.current.as_ref()?;
        let after = match state {
            State::Beginning { at, .. } => return Some(*at),
            State::Measuring { period, .. } => *period,
            State::Checking { .. } => self.known.as_ref()?.period,
            State::Predicting { leap, .. } => leap.by,
            State::Waiting { .. } | State::Timing { .. } | State::GivenUp => return None,
        };
        state.snapshot().map(|last| last.at + after)
    }

    /// The last snapshot, from which on the network is watched.
    pub(crate) fn last_snapshot(&self) -> Option<&RoundSnapshot> {
        self.current.as_ref()?.1.snapshot()
    }

    /// Gives up what has been seen so far.
    pub(crate) fn reset(&mut self) {
        self.current = None;
    }

    /// Looks how far the longest operation has come. Periods shorter than `shortest` are not looked at.
    pub(crate) fn watch(&mut self, longest: Option<(usize, OperationClock)>, bound: f64, shortest: Span) {
        let Some((workload, clock)) = longest else {
            self.current = None;
            return;
        };
        let operation = (workload, clock.operation);
        if self.current.as_ref().is_none_or(|(current, _)| *current != operation) {
            self.known.take_if(|known| known.operation != operation);
            self.rounds_at_once = 1;
            self.current = Some((operation, State::wait(&clock, 2 * clock.round)));
        }
        let Some((_, state)) = &mut self.current else { return };
        let each = clock.round * self.rounds_at_once;
        // The time of a snapshot follows from an arrival, so that it does not depend on windows or threads.
        let begin = |period: Span| State::Beginning { at: clock.last + period, period };
        match state {
            State::Waiting { until } if clock.arrived >= *until => {
                let needed = each * if self.known.is_some() { WINDOWS_IF_KNOWN } else { WINDOWS };
                *state = if clock.room >= needed {
                    let timing = || State::Timing { first: clock.arrived, times: vec![clock.last] };
                    self.known.as_ref().map_or_else(timing, |known| begin(known.period))
                } else if clock.left > clock.room && self.rounds_at_once < ROUNDS_AT_ONCE_MAX {
                    // A long loop ends soon: the next one begins behind that.
                    State::wait(&clock, clock.room + 2 * clock.round)
                } else {
                    State::GivenUp
                };
            }
            State::Timing { first, times } => {
                let unit = each * clock.connections;
                match &times[..] {
                    &[first, second, third] => {
                        let [one, two] = [second.saturating_since(first), third.saturating_since(second)];
                        if two >= shortest && one.0.abs_diff(two.0) as f64 <= bound * two.0 as f64 {
                            *state = begin(two);
                        } else {
                            self.widen(&clock);
                        }
                    }
                    _ if clock.arrived == *first + unit * times.len() as u32 => times.push(clock.last),
                    _ if clock.arrived > *first + unit * times.len() as u32 => {
                        *state = State::wait(&clock, 0);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Whether the snapshot that is due is the first one ([`Self::begin`]).
    pub(crate) fn is_first_due(&self) -> bool {
        matches!(self.current, Some((_, State::Beginning { .. })))
    }

    /// Begins to watch the network from a snapshot on, the first one or one that follows a leap.
    pub(crate) fn begin(&mut self, snapshot: RoundSnapshot, has_leapt: bool) {
        let Some((_, state)) = &mut self.current else { return };
        let last = Box::new(snapshot);
        *state = match state {
            State::Beginning { period, .. } if self.known.is_none() => {
                State::Measuring { period: *period, last, window: None }
            }
            _ => State::Checking { last, has_leapt },
        };
    }

    /// So many rounds were not alike: tries twice as many.
    fn widen(&mut self, clock: &OperationClock) {
        self.known = None;
        self.rounds_at_once *= 2;
        if let Some((_, state)) = &mut self.current {
            *state = State::wait(clock, 0);
        }
    }

    /// Takes the snapshot that is due. Returns the rounds that are left out now ([`Self::begin`] follows), and what was compared.
    pub(crate) fn take_snapshot(
        &mut self,
        snapshot: RoundSnapshot,
        counts: StepCounts,
        longest: Option<(usize, OperationClock)>,
        horizon: Time,
        settings: &StepMemorySettings,
    ) -> (Option<Leap>, Option<RoundComparison>) {
        let Some((operation, state)) = self.current.take() else { return (None, None) };
        let Some((_, clock)) = longest.filter(|(workload, clock)| (*workload, clock.operation) == operation)
        else {
            return (None, None);
        };
        self.current = Some((operation, State::wait(&clock, 0)));
        let Some(last) = state.snapshot() else { return (None, None) };
        let window = RoundWindow::between(last, &snapshot, counts);
        let mut comparison = None;
        match (state, window) {
            (State::Measuring { period, window: None, .. }, Some(window)) => {
                let (last, window) = (Box::new(snapshot), Some(Box::new(window)));
                self.current = Some((operation, State::Measuring { period, last, window }));
                return (None, None);
            }
            (State::Measuring { period, window: Some(before), .. }, Some(window))
                if before.difference(&window) <= settings.bound =>
            {
                self.known = Some(Box::new(Known { operation, period, window, leap: FIRST_LEAP }));
            }
            (State::Checking { has_leapt, .. }, Some(window)) => {
                let Some(known) = &mut self.known else { return (None, None) };
                let difference = known.window.difference(&window);
                let [simulated, remembered] = [&window, &known.window].map(RoundWindow::sums);
                comparison =
                    has_leapt.then_some(RoundComparison { difference, simulated, remembered, predicted: 0 });
                (known.window, known.leap) = (window, known.leap * 2);
                if difference > settings.bound {
                    self.widen(&clock);
                    return (None, comparison);
                }
            }
            (State::Predicting { leap, .. }, Some(window)) => {
                let Some(known) = &self.known else { return (None, None) };
                let (rounds, simulated) = (leap.rounds, window.sums());
                let remembered = known.window.sums().map(|sum| sum * rounds);
                let difference = window.difference_from(&leap, known.window.packet_hops);
                comparison = Some(RoundComparison { difference, simulated, remembered, predicted: rounds });
                let last = Box::new(snapshot);
                self.current = Some((operation, State::Checking { last, has_leapt: false }));
                return (None, comparison);
            }
            _ => {
                self.widen(&clock);
                return (None, None);
            }
        }
        let Some(known) = &self.known else { return (None, comparison) };
        let Some(leap) = known.window.leap(known.period, &snapshot, horizon, known.leap, settings.bound)
        else {
            let rest = clock.round * self.rounds_at_once * WINDOWS_IF_KNOWN;
            self.current = Some((operation, State::wait(&clock, rest)));
            return (None, comparison);
        };
        if settings.checks {
            let (last, leap) = (Box::new(snapshot), Box::new(leap));
            self.current = Some((operation, State::Predicting { last, leap }));
            return (None, comparison);
        }
        (Some(leap), comparison)
    }

    /// What a round does that is left out.
    pub(crate) fn known_window(&self) -> Option<&RoundWindow> {
        self.known.as_ref().map(|known| &known.window)
    }
}
