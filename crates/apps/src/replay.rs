//! A replay runs the ranks of an application on any network.
//!
//! The replay has no clock and no network. The owner of a replay reports events (`start`, `on_timer`,
//! `on_delivered`, `on_sent`) and carries out the requests in the [`Outbox`]. Messages from one rank to
//! another must be delivered in the order in which they were sent.

use crate::algorithm::Choices;
use crate::application::Application;
use crate::calls::{CallLog, CallRecord, OperationId, Step};
use crate::nccl::{Layout, Nccl, Sending};
use crate::pace::{OperationClock, OperationPace, SkippedSlices};
use crate::rank::{Message, Ongoing, Rank, Stretch, Totals, World};
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Options of a replay.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Factor for all compute times.
    pub compute_scale: f64,
    /// Messages of at most this many bytes are sent without announcement (Open MPI's TCP component: 64 KiB).
    pub eager_limit: u64,
    /// Number of bytes that precede each message; also the size of an announcement and of its answer.
    pub envelope: u64,
    /// Collective algorithms that the user selected.
    pub algorithms: Choices,
    /// Settings of NCCL's collectives; `None`: as in MPI.
    pub nccl: Option<Nccl>,
    /// How messages leave.
    pub sending: Sending,
    /// By rank: its server and its rail there; empty: each host is a server.
    pub places: Vec<(u32, u32)>,
    /// True if every rank records its time line.
    pub timeline: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            compute_scale: 1.0,
            eager_limit: 64 << 10,
            envelope: 32,
            algorithms: Choices::default(),
            nccl: None,
            sending: Sending::default(),
            places: Vec::new(),
            timeline: false,
        }
    }
}

impl Options {
    /// Scales a compute time of the trace, to the nearest picosecond.
    pub fn scaled(&self, span: Span) -> Span {
        if self.compute_scale.to_bits() == 1.0_f64.to_bits() {
            return span;
        }
        Span((span.0 as f64 * self.compute_scale).round() as u64)
    }
}

/// Requests of the ranks to the network and the clock.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Messages to send, in this order.
    pub messages: Vec<Message>,
    /// Timers to set.
    pub timers: Vec<Timer>,
    /// Slices that receivers have taken, for their senders.
    pub(crate) credits: Vec<Credit>,
    /// Begins and ends of collective operations.
    pub(crate) steps: Vec<Step>,
}

/// A receiver has taken a slice: its sender may send another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credit {
    /// The sender.
    pub(crate) rank: u32,
    pub(crate) comm: u32,
    /// Number of the operation on its communicator.
    pub(crate) number: i32,
    /// Number of the sender's outgoing connection.
    pub(crate) out: u32,
}

/// A request of a rank to be called at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timer {
    /// Time of the call.
    pub at: Time,
    /// The rank to call.
    pub rank: u32,
    /// Token to return to the rank.
    pub token: u32,
}

impl Outbox {
    pub(crate) fn timer(&mut self, rank: u32, at: Time, token: u32) {
        self.timers.push(Timer { at, rank, token });
    }
}

/// A mistake or a blocked step of a rank, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The rank.
    pub rank: u32,
    /// Line in the rank's file; 0 if there is no file.
    pub line: u32,
    /// Index of the step in the rank's program, from 0.
    pub step: u32,
    /// The mistake, or the event that the rank waits for.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { rank, line, step, reason } = self;
        if *line > 0 {
            write!(f, "rank {rank}, line {line}: {reason}")
        } else {
            write!(f, "rank {rank}, step {step}: {reason}")
        }
    }
}

/// The result of one rank.
#[derive(Clone, Debug)]
pub struct RankReport<'a> {
    /// Time at which the rank finished its program; `None` if it has not.
    pub finished: Option<Time>,
    /// Time in each activity, up to the last change of activity.
    pub totals: Totals,
    /// When each iteration of a training step ended.
    pub iterations: &'a [Time],
    /// Time line up to the last change of activity, if recorded.
    pub stretches: &'a [Stretch],
    /// Activity since the last change; `None` after the rank has finished.
    pub last: Option<Ongoing>,
}

fn world<'a>(application: &'a Application, options: &'a Options, layouts: &'a [Layout]) -> World<'a> {
    World { application, options, layouts }
}

/// The state of all ranks of an application.
#[derive(Debug)]
pub struct Replay {
    application: Arc<Application>,
    options: Options,
    ranks: Vec<Rank>,
    /// By communicator, if collectives are NCCL's.
    layouts: Vec<Layout>,
    log: CallLog,
    /// The operation with the most bytes in rounds, these bytes, and a rank that takes part.
    longest: Option<(u64, OperationId, u32)>,
}

impl Replay {
    /// Makes a replay that has not started.
    pub fn new(application: Arc<Application>, options: Options) -> Replay {
        let rank = |id| Rank::new(id, &application, options.timeline);
        let ranks = (0..application.ranks()).map(rank).collect();
        let place = |rank: &u32| options.places.get(*rank as usize).copied().unwrap_or((*rank, 0));
        let layouts = options.nccl.as_ref().map_or_else(Vec::new, |nccl| {
            let of = |members: &[u32]| Layout::new(&members.iter().map(place).collect::<Vec<_>>(), nccl);
            application.comms.iter().map(|comm| of(comm.members())).collect()
        });
        let log = CallLog::new(application.comms.len());
        Replay { application, options, ranks, layouts, log, longest: None }
    }

    /// The application.
    pub fn application(&self) -> &Arc<Application> {
        &self.application
    }

    /// Starts all ranks.
    pub fn start(&mut self, now: Time, out: &mut Outbox) {
        let world = world(&self.application, &self.options, &self.layouts);
        for rank in &mut self.ranks {
            rank.drive(now, world, out);
        }
        self.settle(now, out);
    }

    /// Reports that a timer has expired.
    pub fn on_timer(&mut self, timer: Timer, now: Time, out: &mut Outbox) {
        let world = world(&self.application, &self.options, &self.layouts);
        self.ranks[timer.rank as usize].on_timer(timer.token, now, world, out);
        self.settle(now, out);
    }

    /// Reports that the last byte of a message has reached its rank.
    pub fn on_delivered(&mut self, message: &Message, now: Time, out: &mut Outbox) {
        let world = world(&self.application, &self.options, &self.layouts);
        self.ranks[message.to as usize].on_message(message, now, world, out);
        self.settle(now, out);
    }

    /// Reports that the last byte of a message with `notify` has left its rank for the last time.
    pub fn on_sent(&mut self, message: &Message, now: Time, out: &mut Outbox) {
        let world = world(&self.application, &self.options, &self.layouts);
        if let Some(request) = message.notify {
            self.ranks[message.from as usize].on_sent(request, now, world, out);
        }
        self.settle(now, out);
    }

    /// Gives credits to their senders, and writes down what began and ended.
    fn settle(&mut self, now: Time, out: &mut Outbox) {
        while let Some(credit) = out.credits.pop() {
            let world = world(&self.application, &self.options, &self.layouts);
            self.ranks[credit.rank as usize].on_credit(credit, now, world, out);
        }
        for step in out.steps.drain(..) {
            self.log.add(step);
            self.note_longest(&step);
        }
    }

    /// Keeps the longest operation up to date.
    fn note_longest(&mut self, step: &Step) {
        let operation = step.operation();
        if let Some(rank) = step.begins_at() {
            let bytes = self.ranks[rank as usize].bytes_in_rounds(operation);
            if bytes > self.longest.map_or(0, |(bytes, ..)| bytes) {
                self.longest = Some((bytes, operation, rank));
            }
        } else if self.longest.is_some_and(|(_, longest, _)| longest == operation) {
            let of_rank =
                |rank: &Rank| rank.longest_operation().map(|(bytes, other)| (bytes, other, rank.id()));
            let others = self.ranks.iter().filter_map(of_rank);
            self.longest =
                others.filter(|(_, other, _)| *other != operation).max_by_key(|(bytes, ..)| *bytes);
        }
    }

    /// How far a rank has come in the longest operation under way that has rounds.
    pub(crate) fn operation_clock(&self) -> Option<OperationClock> {
        let (_, operation, rank) = self.longest?;
        self.ranks[rank as usize].operation_clock(operation)
    }

    /// How far all operations have come; `None` if a rank holds slices of one that it has not begun.
    pub(crate) fn operation_paces(&self, now: Time) -> Option<BTreeMap<OperationId, OperationPace>> {
        let mut paces = BTreeMap::new();
        self.ranks.iter().all(|rank| rank.add_paces(now, &mut paces)).then_some(paces)
    }

    /// Leaves out so many slices of each connection of these operations, which takes `by`.
    pub(crate) fn skip_slices(
        &mut self,
        slices: &BTreeMap<OperationId, u32>,
        by: Span,
    ) -> Vec<SkippedSlices> {
        let world = world(&self.application, &self.options, &self.layouts);
        let mut skipped = Vec::new();
        self.ranks.iter_mut().for_each(|rank| rank.skip_slices(slices, by, world, &mut skipped));
        skipped
    }

    /// The collective operations that have begun, by communicator and number.
    pub fn calls(&self) -> impl Iterator<Item = (u32, u32, CallRecord)> + '_ {
        self.log.iter()
    }

    /// True if all ranks have finished.
    pub fn is_finished(&self) -> bool {
        self.ranks.iter().all(|rank| rank.finished.is_some())
    }

    /// Time at which the last rank finished, if all ranks have.
    pub fn finish(&self) -> Option<Time> {
        let finished: Option<Vec<Time>> = self.ranks.iter().map(|rank| rank.finished).collect();
        finished.map(|times| times.into_iter().max().unwrap_or(Time::ZERO))
    }

    /// For each unfinished rank, the event that it waits for.
    pub fn stuck(&self) -> Vec<Fault> {
        let world = world(&self.application, &self.options, &self.layouts);
        self.ranks.iter().filter_map(|rank| rank.stuck(world)).collect()
    }

    /// Violations of the rules of MPI.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.ranks.iter().flat_map(|rank| &rank.faults)
    }

    /// Ranks with messages that arrived and were not received.
    pub fn unreceived(&self) -> Vec<Fault> {
        let world = world(&self.application, &self.options, &self.layouts);
        self.ranks.iter().filter_map(|rank| rank.unreceived(world)).collect()
    }

    /// The results of all ranks.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = RankReport<'_>> {
        self.ranks.iter().map(|rank| RankReport {
            finished: rank.finished,
            totals: rank.timeline.totals(),
            iterations: &rank.iterations,
            stretches: rank.timeline.stretches(),
            last: rank.timeline.ongoing(),
        })
    }
}
