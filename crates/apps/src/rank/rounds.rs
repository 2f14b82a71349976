//! What repeats inside long operations of NCCL: how far all of their connections have come, and leaving out slices of each.
//!
//! A ring in its middle does the same thing slice after slice. If all connections go on at the same pace, so many slices of each can be
//! left out: what is under way stays, and what waits for it does not notice.

use super::lanes::LaneRun;
use super::{Rank, World};
use crate::calls::OperationId;
use crate::nccl::Pattern;
use crate::pace::{OperationClock, OperationPace, SkippedSlices};
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;

/// An operation with fewer rounds is simulated.
const ROUNDS_MIN: u32 = 12;

impl LaneRun {
    fn operation(&self) -> OperationId {
        (self.of.comm, self.of.number)
    }

    /// Slices received by incoming connection, without those that carry nothing.
    fn arrived_by_connection(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.received).filter(|(slot, _)| !self.plan.idle.contains(slot)).map(|(_, count)| *count)
    }

    fn add_pace(&self, now: Time, pace: &mut OperationPace) {
        let (mut arrived, mut connections) = (0, 0);
        for count in self.arrived_by_connection() {
            arrived += count;
            connections += 1;
            pace.extremes = [pace.extremes[0].min(count), pace.extremes[1].max(count)];
        }
        let [earlier, last] = self.arrived;
        let (since, between) = (now.saturating_since(last).0, last.saturating_since(earlier).0);
        let part = if between == 0 { 0.0 } else { (since as f64 / between as f64).min(1.0) };
        pace.arrived += f64::from(arrived) + part;
        pace.connections += connections;
        for (out, (sent, _)) in self.plan.outs.iter().zip(&self.sent) {
            pace.room = pace.room.min(out.left_alike(*sent));
        }
    }
}

impl Rank {
    fn run_of(&self, operation: OperationId) -> Option<&LaneRun> {
        self.lane_runs.iter().find(|run| run.operation() == operation)
    }

    /// Bytes of an operation that has many rounds, on one connection; 0 of others. All-to-alls have none: their connections go on as they like.
    pub(crate) fn bytes_in_rounds(&self, operation: OperationId) -> u64 {
        let Some(run) = self.run_of(operation).filter(|run| run.plan.pattern != Pattern::SendRecv) else {
            return 0;
        };
        let Some(out) = run.plan.outs.first() else { return 0 };
        let has_rounds =
            out.left_alike(0) / out.round() >= ROUNDS_MIN && run.arrived_by_connection().next().is_some();
        if has_rounds { out.bytes(0) * u64::from(out.total) } else { 0 }
    }

    /// The operation with the most bytes in rounds.
    pub(crate) fn longest_operation(&self) -> Option<(u64, OperationId)> {
        let runs = self.lane_runs.iter().map(|run| (self.bytes_in_rounds(run.operation()), run.operation()));
        runs.filter(|(bytes, _)| *bytes > 0).max()
    }

    pub(crate) fn operation_clock(&self, operation: OperationId) -> Option<OperationClock> {
        let run = self.run_of(operation)?;
        let (out, (sent, _)) = run.plan.outs.first().zip(run.sent.first())?;
        Some(OperationClock {
            operation,
            arrived: run.arrived_by_connection().sum(),
            last: run.arrived[1],
            connections: run.arrived_by_connection().count() as u32,
            round: out.round(),
            room: out.left_alike(*sent),
            left: out.total - sent,
        })
    }

    /// Adds how far its operations have come; false if it holds slices of one that it has not begun.
    pub(crate) fn add_paces(&self, now: Time, paces: &mut BTreeMap<OperationId, OperationPace>) -> bool {
        for run in &self.lane_runs {
            run.add_pace(now, paces.entry(run.operation()).or_default());
        }
        self.early_slices.is_empty()
    }

    /// Leaves out so many slices of each connection of these operations, which takes `by`.
    pub(crate) fn skip_slices(
        &mut self,
        slices: &BTreeMap<OperationId, u32>,
        by: Span,
        world: World,
        skipped: &mut Vec<SkippedSlices>,
    ) {
        for run in &mut self.lane_runs {
            run.arrived = run.arrived.map(|time| time + by);
            let Some(&messages) = slices.get(&run.operation()) else { continue };
            let LaneRun { of, plan, sent, received, .. } = run;
            let members = world.application.comms[of.comm as usize].members();
            for (out, (sent, taken)) in plan.outs.iter().zip(sent) {
                debug_assert!(messages < out.total - *sent, "the last slice is never left out");
                let bytes = (*sent..*sent + messages).map(|message| out.bytes(message)).sum();
                (*sent, *taken) = (*sent + messages, *taken + messages);
                let to = members[out.to as usize];
                skipped.push(SkippedSlices { from: self.id, to, lane: out.lane, messages, bytes });
            }
            for (slot, count) in (0..).zip(received) {
                *count += if plan.idle.contains(&slot) { 0 } else { messages };
            }
        }
    }
}
