//! Rounds of workloads that are left out: the traffic stands still meanwhile, and its messages are in the records.

use super::Traffic;
use crate::flow::Workload;
use crate::rounds::{OperationClock, OperationId, Paces, SkippedMessages};
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;

impl Traffic {
    /// The operation with rounds that a workload is in the middle of.
    pub(crate) fn longest_operation(&mut self) -> Option<(usize, OperationClock)> {
        let clock = |workload: &mut Box<dyn Workload>| workload.rounds()?.operation_clock();
        self.workloads
            .iter_mut()
            .map(clock)
            .enumerate()
            .find_map(|(workload, clock)| Some((workload, clock?)))
    }

    /// How far the operations of all workloads have come; `None` if anything else is under way.
    pub(crate) fn operation_paces(&mut self, now: Time) -> Option<Paces> {
        if self.other.next_report_time().is_some() {
            return None;
        }
        self.workloads.iter_mut().map(|workload| workload.rounds()?.operation_paces(now)).collect()
    }

    /// When a workload acts for another reason than a message.
    pub(crate) fn next_timer(&mut self) -> Option<Time> {
        self.workloads.iter_mut().filter_map(|workload| workload.rounds()?.next_timer()).min()
    }

    /// Leaves out so many messages of each connection, by workload and operation, which takes `by` from `now` on; returns their bytes by workload.
    pub(crate) fn skip_rounds(
        &mut self,
        messages: &[BTreeMap<OperationId, u32>],
        by: Span,
        now: Time,
    ) -> Vec<u64> {
        let mut bytes = Vec::new();
        for (workload, messages) in messages.iter().enumerate() {
            let rounds = self.workloads[workload].rounds();
            let skipped = rounds.map_or_else(Vec::new, |rounds| rounds.skip_messages(messages, by));
            bytes.push(skipped.iter().map(|skipped| skipped.bytes).sum());
            for skipped in &skipped {
                self.record_skipped(workload as u16, skipped);
            }
        }
        self.stand_still(by, now);
        bytes
    }

    fn record_skipped(&mut self, workload: u16, skipped: &SkippedMessages) {
        let SkippedMessages { connection, from, bytes } = *skipped;
        let Some(flow) = self.kept.get(&(workload, connection)) else { return };
        self.records.update(*flow, |record| {
            let is_forward = record.spec.source == from;
            *(if is_forward { &mut record.spec.size } else { &mut record.spec.reply }) += bytes;
            record.delivered += bytes;
        });
    }

    /// What is under way comes later by so much.
    fn stand_still(&mut self, by: Span, now: Time) {
        self.answered.delay_reports(by);
        if let Some(within) = &mut self.within_servers {
            within.stand_still(by);
        }
        self.due.clear();
        self.due_at.fill(None);
        for workload in 0..self.workloads.len() as u16 {
            self.schedule_next_start(workload, now);
        }
    }
}
