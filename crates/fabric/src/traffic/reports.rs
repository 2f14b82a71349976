//! Reports that wait until the traffic acts on them.

use crate::order::EndpointReport;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// Reports in the order of time, each acted on `delay` after it was made.
#[derive(Debug)]
pub(super) struct EndpointReportDelayLine {
    pub(super) delay: Span,
    list: VecDeque<EndpointReport>,
    /// Number of leading reports that are already in the records.
    learnt: usize,
}

impl EndpointReportDelayLine {
    /// An empty list with this delay.
    pub(super) fn new(delay: Span) -> EndpointReportDelayLine {
        EndpointReportDelayLine { delay, list: VecDeque::new(), learnt: 0 }
    }

    /// When the first report is due.
    pub(super) fn next_report_time(&self) -> Option<Time> {
        self.list.front().map(|report| report.at + self.delay)
    }

    /// Appends a report that is no earlier than the previous ones.
    pub(super) fn push(&mut self, report: EndpointReport) {
        debug_assert!(
            self.list.back().is_none_or(|last| last.at <= report.at),
            "reports come in the order of time"
        );
        self.list.push_back(report);
    }

    /// All reports come later by so much.
    pub(super) fn delay_reports(&mut self, by: Span) {
        self.list.iter_mut().for_each(|report| report.at += by);
    }

    /// Takes a report that is due at `now`, and whether it is in the records already.
    pub(super) fn take_due(&mut self, now: Time) -> Option<(EndpointReport, bool)> {
        if self.next_report_time()? != now {
            return None;
        }
        let report = self.list.pop_front()?;
        let is_learnt = self.learnt > 0;
        self.learnt = self.learnt.saturating_sub(1);
        Some((report, is_learnt))
    }

    /// The reports that are not in the records yet, each with its due time; marks them as recorded.
    pub(super) fn take_unrecorded(&mut self) -> impl Iterator<Item = (Time, EndpointReport)> {
        let learnt = std::mem::replace(&mut self.learnt, self.list.len());
        self.list.iter().skip(learnt).map(|report| (report.at + self.delay, *report))
    }
}
