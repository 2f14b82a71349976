//! The pause tree: pause intervals with their causes, from which the spread of congestion is drawn.
//!
//! A pause interval is a time in which one (port, class) may not send. Its causes are the pauses of egress queues of the pausing switch that held
//! packets from the paused port: without them the account would not have exceeded XOFF. An interval without a cause is a root: its queue was simply
//! too full. Causes are determined when the pause is first requested, so a cause always begins earlier and the graph has no cycles;
//! [`crate::deadlock`] handles cyclic waits. Observation only: nothing in the network reads it back.

use crate::ids::SlotId;
use crate::observers::notes::{PauseChange, PauseChangeKind, PauseNumber};
use crate::plan::NetworkPlan;
use pauseframe_units::{IndexVec, PortId, Priority, Time};
use std::collections::BTreeMap;

/// One pause: the raw row of the `pause_tree` table. Its number is its position in [`crate::Network::pause_intervals`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseInterval {
    /// The port that may not send.
    pub port: PortId,
    /// The priority.
    pub priority: Priority,
    /// When its peer first requested the pause.
    pub asked: Time,
    /// When the pause took effect.
    pub start: Time,
    /// When the port could send again; `None`: the pause still holds.
    pub end: Option<Time>,
    /// 0 for a root, else one more than the largest of its causes.
    pub depth: u32,
    /// The numbers of the intervals that caused it, ascending.
    pub parents: Vec<u32>,
}

/// The pauses of a step or of a round in it, as they were recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedPauses {
    /// When the step began.
    pub(crate) begin: Time,
    /// Number of the first interval.
    pub(crate) first: u32,
    pub(crate) intervals: Vec<PauseInterval>,
}

/// A pause request with its causes.
#[derive(Clone, Debug)]
struct PauseRequestWithCauses {
    at: Time,
    parents: Vec<u32>,
}

/// Records pause intervals.
#[derive(Debug)]
pub(crate) struct PauseIntervalLog {
    pub(crate) intervals: Vec<PauseInterval>,
    limit: usize,
    pub(crate) unrecorded: u64,
    /// By slot: the last interval, if recorded, and the number of pauses.
    last: IndexVec<SlotId, (Option<u32>, u32)>,
    /// By slot: the request for the next interval.
    last_requests: IndexVec<SlotId, Option<PauseRequestWithCauses>>,
    /// Numbers of the recorded intervals.
    numbers: BTreeMap<PauseNumber, u32>,
}

impl PauseIntervalLog {
    /// Up to `limit` intervals of so many slots.
    pub(crate) fn new(limit: usize, slots: usize) -> PauseIntervalLog {
        PauseIntervalLog {
            intervals: Vec::new(),
            limit,
            unrecorded: 0,
            last: IndexVec::filled((None, 0), slots),
            last_requests: IndexVec::filled(None, slots),
            numbers: BTreeMap::new(),
        }
    }

    pub(crate) fn record_pause_change(&mut self, note: &PauseChange, plan: &NetworkPlan) {
        let slot = note.slot;
        match &note.what {
            PauseChangeKind::PauseRequested { parents, .. } => {
                let number = |name: &PauseNumber| self.numbers.get(name).copied();
                let mut parents: Vec<u32> = parents.iter().filter_map(number).collect();
                parents.sort_unstable();
                self.last_requests[slot] = Some(PauseRequestWithCauses { at: note.at, parents });
            }
            PauseChangeKind::Paused => self.begin_interval(note, plan),
            PauseChangeKind::Resumed => {
                if let Some(last) = self.last[slot].0 {
                    self.intervals[last as usize].end = Some(note.at);
                }
            }
        }
    }

    /// Records the pauses of a step once more, for another that begins at `begin`.
    pub(crate) fn repeat_pause_intervals(&mut self, pauses: &RepeatedPauses, begin: Time) {
        let first = self.intervals.len() as u32;
        let later = |time: Time| begin + time.saturating_since(pauses.begin);
        // What came before keeps its number.
        let repeated =
            |parent: &u32| parent.checked_sub(pauses.first).map_or(*parent, |number| number + first);
        for pause in &pauses.intervals {
            if self.intervals.len() >= self.limit {
                self.unrecorded += 1;
                continue;
            }
            self.intervals.push(PauseInterval {
                asked: later(pause.asked),
                start: later(pause.start),
                end: pause.end.map(later),
                parents: pause.parents.iter().map(repeated).collect(),
                ..pause.clone()
            });
        }
    }

    fn begin_interval(&mut self, note: &PauseChange, plan: &NetworkPlan) {
        let (last, count) = &mut self.last[note.slot];
        *count += 1;
        if self.intervals.len() >= self.limit {
            self.unrecorded += 1;
            *last = None;
            return;
        }
        let number = self.intervals.len() as u32;
        *last = Some(number);
        self.numbers.insert((note.slot, *count - 1), number);
        let (port, class) = plan.port_and_class(note.slot);
        let asked = self.last_requests[note.slot].clone();
        let PauseRequestWithCauses { at: asked, parents } =
            asked.unwrap_or(PauseRequestWithCauses { at: note.at, parents: Vec::new() });
        let depth = parents.iter().map(|parent| self.intervals[*parent as usize].depth + 1).max();
        self.intervals.push(PauseInterval {
            port,
            priority: plan.priorities[usize::from(class)],
            asked,
            start: note.at,
            end: None,
            depth: depth.unwrap_or(0),
            parents,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of two pauses, the second because of the first, comes again twice. Three intervals are recorded.
    #[test]
    fn a_repeated_step_has_its_pauses_again_up_to_the_limit() {
        let pause = |asked: u64, end: Option<u64>, parents: &[u32]| PauseInterval {
            port: PortId(0),
            priority: Priority::default(),
            asked: Time(asked),
            start: Time(asked + 1),
            end: end.map(Time),
            depth: parents.len() as u32,
            parents: parents.to_vec(),
        };
        let intervals = vec![pause(1010, Some(1020), &[]), pause(1012, None, &[7])];
        let step = RepeatedPauses { begin: Time(1000), first: 7, intervals };
        let mut log = PauseIntervalLog::new(3, 1);
        log.repeat_pause_intervals(&step, Time(2000));
        log.repeat_pause_intervals(&step, Time(3000));
        let expected = [pause(2010, Some(2020), &[]), pause(2012, None, &[0]), pause(3010, Some(3020), &[])];
        assert_eq!((&log.intervals[..], log.unrecorded), (&expected[..], 1));
    }
}
