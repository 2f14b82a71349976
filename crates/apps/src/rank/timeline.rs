//! Records the activities of a rank over time.

use crate::training::Group;
use pauseframe_units::{Span, Time};

/// The activity of a rank at one time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Activity {
    /// Works.
    Compute,
    /// Waits for a message or a collective operation of other ranks.
    Waiting,
    /// Waits until its own messages are sent.
    Sending,
}

impl Activity {
    /// The name of the activity in tables.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Compute => "compute",
            Activity::Waiting => "waiting",
            Activity::Sending => "sending",
        }
    }
}

/// A period from `start` to `end` in which a rank had one activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The activity in this period.
    pub activity: Activity,
    /// Start of the period.
    pub start: Time,
    /// End of the period.
    pub end: Time,
    /// The step of the program that caused the activity.
    pub step: u32,
}

/// The current activity of a rank, with its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ongoing {
    /// The current activity.
    pub activity: Activity,
    /// Start of the activity.
    pub start: Time,
    /// The step of the program that causes the activity.
    pub step: u32,
}

impl Ongoing {
    /// The period from the start of this activity to `now`.
    pub fn until(self, now: Time) -> Stretch {
        let Ongoing { activity, start, step } = self;
        Stretch { activity, start, end: now.max(start), step }
    }
}

/// Time of a rank in each activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Time spent computing.
    pub compute: Span,
    /// Time spent waiting for other ranks.
    pub waiting: Span,
    /// Time spent waiting until the rank's own messages were sent.
    pub sending: Span,
    /// Of the waiting time of a training step: for communication of each group ([`Group::exposed`]).
    pub exposed: [Span; Group::EXPOSED],
    /// Of the waiting time of a training step: for messages between stages that have not left yet.
    pub bubble: Span,
}

/// What a rank waited for: the group, and when the message left that ended the wait.
pub(crate) type Cause = (Group, Time);

impl Totals {
    /// Divides waiting time of a training step.
    fn add_cause(&mut self, stretch: Stretch, (group, left): Cause) {
        let spent = stretch.end - stretch.start;
        let late =
            if group == Group::Pp { left.saturating_since(stretch.start).min(spent) } else { Span::ZERO };
        self.bubble += late;
        self.exposed[group.exposed()] += spent - late;
    }

    /// Adds a period to the totals.
    pub fn add(&mut self, stretch: Stretch) {
        let spent = stretch.end - stretch.start;
        match stretch.activity {
            Activity::Compute => self.compute += spent,
            Activity::Waiting => self.waiting += spent,
            Activity::Sending => self.sending += spent,
        }
    }
}

/// The time line of one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    stretches: Option<Vec<Stretch>>,
    totals: Totals,
    now: Option<Ongoing>,
}

impl Timeline {
    pub(crate) fn new(record: bool) -> Timeline {
        Timeline { stretches: record.then(Vec::new), ..Timeline::default() }
    }

    /// Changes the rank's activity at `now` because of `step`; `None` ends the activity. `cause` tells what a step
    /// waited for.
    pub(crate) fn change(
        &mut self,
        activity: Option<(Activity, u32)>,
        now: Time,
        cause: impl FnOnce(u32) -> Option<Cause>,
    ) {
        if activity == self.now.map(|now| (now.activity, now.step)) {
            return;
        }
        if let Some(before) = self.now.filter(|before| before.start < now) {
            let stretch = before.until(now);
            self.totals.add(stretch);
            if let Some(cause) =
                Some(stretch.step).filter(|_| stretch.activity == Activity::Waiting).and_then(cause)
            {
                self.totals.add_cause(stretch, cause);
            }
            if let Some(stretches) = &mut self.stretches {
                stretches.push(stretch);
            }
        }
        self.now = activity.map(|(activity, step)| Ongoing { activity, start: now, step });
    }

    pub(crate) fn ongoing(&self) -> Option<Ongoing> {
        self.now
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        self.stretches.as_deref().unwrap_or_default()
    }
}
