//! What a rank did when.

use pauseframe_units::{Span, Time};

/// What a rank does at a moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Activity {
    /// Works.
    Compute,
    /// Waits for a message or a collective operation.
    Waiting,
    /// Waits for messages of its own to be on their way.
    Sending,
}

impl Activity {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Compute => "compute",
            Activity::Waiting => "waiting",
            Activity::Sending => "sending",
        }
    }
}

/// A rank did one thing from `start` to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// What.
    pub activity: Activity,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
    /// The step of the program that took this time.
    pub step: u32,
}

/// Time of a rank by activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Worked.
    pub compute: Span,
    /// Waited for others.
    pub waiting: Span,
    /// Waited for its own messages to leave.
    pub sending: Span,
}

/// The time line of one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    stretches: Option<Vec<Stretch>>,
    totals: Totals,
    now: Option<(Activity, Time, u32)>,
}

impl Timeline {
    pub(crate) fn new(record: bool) -> Timeline {
        Timeline { stretches: record.then(Vec::new), ..Timeline::default() }
    }

    /// From now on the rank does something else, because of `step`; `None`: nothing.
    pub(crate) fn change(&mut self, activity: Option<(Activity, u32)>, now: Time) {
        if activity == self.now.map(|(activity, _, step)| (activity, step)) {
            return;
        }
        if let Some((before, start, step)) = self.now
            && start < now
        {
            let spent = now - start;
            match before {
                Activity::Compute => self.totals.compute += spent,
                Activity::Waiting => self.totals.waiting += spent,
                Activity::Sending => self.totals.sending += spent,
            }
            if let Some(stretches) = &mut self.stretches {
                stretches.push(Stretch { activity: before, start, end: now, step });
            }
        }
        self.now = activity.map(|(activity, step)| (activity, now, step));
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        self.stretches.as_deref().unwrap_or_default()
    }
}
