//! A replay: the ranks of an application, on any transport of messages.
//!
//! The replay has no clock and no network. Its owner reports events (`start`, `on_timer`, `on_delivered`, `on_sent`)
//! and executes the requests in the [`Outbox`]. Messages between two ranks must be delivered in the order of sending.

use crate::algorithm::Choices;
use crate::application::Application;
use crate::rank::{Message, Ongoing, Rank, Stretch, Totals, World};
use pauseframe_units::{Span, Time};
use std::fmt;
use std::sync::Arc;

/// Settings of a replay.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Factor for all compute times.
    pub compute_scale: f64,
    /// Largest message that is sent without an announcement (Open MPI's TCP component: 64 KiB).
    pub eager_limit: u64,
    /// Bytes before each message, and of an announcement and its answer.
    pub envelope: u64,
    /// Collective algorithms that replace the choice by size.
    pub algorithms: Choices,
    /// Whether every rank records its timeline.
    pub timeline: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            compute_scale: 1.0,
            eager_limit: 64 << 10,
            envelope: 32,
            algorithms: Choices::default(),
            timeline: false,
        }
    }
}

impl Options {
    /// A compute time of the trace in this replay, to the nearest picosecond.
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
}

/// A rank's request to be called at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timer {
    /// When.
    pub at: Time,
    /// Which rank.
    pub rank: u32,
    /// Returned with the completion.
    pub token: u32,
}

impl Outbox {
    pub(crate) fn timer(&mut self, rank: u32, at: Time, token: u32) {
        self.timers.push(Timer { at, rank, token });
    }
}

/// A problem of a rank and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The rank.
    pub rank: u32,
    /// The line of its file, or 0.
    pub line: u32,
    /// The step of its program, from 0.
    pub step: u32,
    /// The problem, or what the rank waits for.
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
    /// When it finished its program; `None` if it did not.
    pub finished: Option<Time>,
    /// Time by activity, up to its last change.
    pub totals: Totals,
    /// The timeline up to its last change, if one is recorded.
    pub stretches: &'a [Stretch],
    /// The rank's activity since the last change; `None` when the rank has finished.
    pub last: Option<Ongoing>,
}

/// The ranks of an application.
#[derive(Debug)]
pub struct Replay {
    application: Arc<Application>,
    options: Options,
    ranks: Vec<Rank>,
}

impl Replay {
    /// Before the start of the rank.
    pub fn new(application: Arc<Application>, options: Options) -> Replay {
        let rank = |id| Rank::new(id, &application, options.timeline);
        let ranks = (0..application.ranks()).map(rank).collect();
        Replay { application, options, ranks }
    }

    /// The application.
    pub fn application(&self) -> &Arc<Application> {
        &self.application
    }

    /// Starts all ranks.
    pub fn start(&mut self, now: Time, out: &mut Outbox) {
        let world = World { application: &self.application, options: &self.options };
        for rank in &mut self.ranks {
            rank.drive(now, world, out);
        }
    }

    /// A timer has expired.
    pub fn on_timer(&mut self, timer: Timer, now: Time, out: &mut Outbox) {
        let world = World { application: &self.application, options: &self.options };
        self.ranks[timer.rank as usize].on_timer(timer.token, now, world, out);
    }

    /// The last byte of a message has reached its rank.
    pub fn on_delivered(&mut self, message: &Message, now: Time, out: &mut Outbox) {
        let world = World { application: &self.application, options: &self.options };
        self.ranks[message.to as usize].on_message(message, now, world, out);
    }

    /// The last byte of a message with a `notify` has left its rank.
    pub fn on_sent(&mut self, message: &Message, now: Time, out: &mut Outbox) {
        let world = World { application: &self.application, options: &self.options };
        if let Some(request) = message.notify {
            self.ranks[message.from as usize].on_sent(request, now, world, out);
        }
    }

    /// Whether all ranks have finished.
    pub fn is_finished(&self) -> bool {
        self.ranks.iter().all(|rank| rank.finished.is_some())
    }

    /// When the last rank finished, if all have.
    pub fn finish(&self) -> Option<Time> {
        let finished: Option<Vec<Time>> = self.ranks.iter().map(|rank| rank.finished).collect();
        finished.map(|times| times.into_iter().max().unwrap_or(Time::ZERO))
    }

    /// What each unfinished rank waits for.
    pub fn stuck(&self) -> Vec<Fault> {
        let world = World { application: &self.application, options: &self.options };
        self.ranks.iter().filter_map(|rank| rank.stuck(world)).collect()
    }

    /// Violations of MPI's rules.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.ranks.iter().flat_map(|rank| &rank.faults)
    }

    /// Ranks that did not receive all messages sent to them.
    pub fn unreceived(&self) -> Vec<Fault> {
        let world = World { application: &self.application, options: &self.options };
        self.ranks.iter().filter_map(|rank| rank.unreceived(world)).collect()
    }

    /// The result of each rank.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = RankReport<'_>> {
        self.ranks.iter().map(|rank| RankReport {
            finished: rank.finished,
            totals: rank.timeline.totals(),
            stretches: rank.timeline.stretches(),
            last: rank.timeline.ongoing(),
        })
    }
}
