//! Reports that wait until the traffic acts on them.

use crate::order::Report;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// Reports in the order of time, each acted on `delay` after it was made.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) delay: Span,
    list: VecDeque<Report>,
    /// So many of the first are in the records already.
    learnt: usize,
}

impl Reports {
    /// None yet.
    pub(super) fn after(delay: Span) -> Reports {
        Reports { delay, list: VecDeque::new(), learnt: 0 }
    }

    /// When the first is acted on.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.list.front().map(|report| report.at + self.delay)
    }

    /// Adds a report, no earlier than those before.
    pub(super) fn push(&mut self, report: Report) {
        debug_assert!(
            self.list.back().is_none_or(|last| last.at <= report.at),
            "reports come in the order of time"
        );
        self.list.push_back(report);
    }

    /// Takes a report that is due at `now`, and whether it is in the records already.
    pub(super) fn take(&mut self, now: Time) -> Option<(Report, bool)> {
        if self.next_time()? != now {
            return None;
        }
        let report = self.list.pop_front()?;
        let is_learnt = self.learnt > 0;
        self.learnt = self.learnt.saturating_sub(1);
        Some((report, is_learnt))
    }

    /// Those that are not in the records, which they will be now, and when each is acted on.
    pub(super) fn take_unlearnt(&mut self) -> impl Iterator<Item = (Time, Report)> {
        let learnt = std::mem::replace(&mut self.learnt, self.list.len());
        self.list.iter().skip(learnt).map(|report| (report.at + self.delay, *report))
    }
}
