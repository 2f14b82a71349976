//! The activities of a rank over time.

use pauseframe_units::{Span, Time};

/// An activity of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Activity {
    /// Works.
    Compute,
    /// Waits for a message or a collective operation.
    Waiting,
    /// Waits for its own messages to leave.
    Sending,
}

impl Activity {
    /// Name of the activity in tables.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Compute => "compute",
            Activity::Waiting => "waiting",
            Activity::Sending => "sending",
        }
    }
}

/// An activity from `start` to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// What.
    pub activity: Activity,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
    /// The step of the program that caused the activity.
    pub step: u32,
}

/// The current activity and its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ongoing {
    /// What.
    pub activity: Activity,
    /// Since when.
    pub start: Time,
    /// The step of the program that causes the activity.
    pub step: u32,
}

impl Ongoing {
    /// The activity until `now`.
    pub fn until(self, now: Time) -> Stretch {
        let Ongoing { activity, start, step } = self;
        Stretch { activity, start, end: now.max(start), step }
    }
}

/// Time of a rank by activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Worked.
    pub compute: Span,
    /// Waited for other ranks.
    pub waiting: Span,
    /// Waited for its own messages to leave.
    pub sending: Span,
}

impl Totals {
    /// Adds an activity.
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

    /// Changes the activity, because of `step`; `None`: idle.
    pub(crate) fn change(&mut self, activity: Option<(Activity, u32)>, now: Time) {
        if activity == self.now.map(|now| (now.activity, now.step)) {
            return;
        }
        if let Some(before) = self.now.filter(|before| before.start < now) {
            let stretch = before.until(now);
            self.totals.add(stretch);
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
