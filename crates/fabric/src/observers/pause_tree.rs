//! Who pauses whom, and because of what: the record from which the spreading of congestion is drawn.
//!
//! A pause interval is the time in which one (port, class) may not send. Its causes are the intervals that stood at the
//! egress queues of the pausing switch while packets from the paused port waited there: without them the account
//! would not have passed XOFF. An interval without a cause is a root: a queue that was simply too full. Causes are
//! looked up when the pause is first asked for, so a cause has always begun before, and there are no cycles here; cyclic
//! waits are the business of [`crate::deadlock`]. Observation only: nothing in the network reads it back.

use crate::ids::SlotId;
use crate::observers::notes::{Note, Noted, PauseName};
use crate::plan::Plan;
use pauseframe_units::{IndexVec, PortId, Priority, Time};
use std::collections::BTreeMap;

/// One pause: the raw row of the `pause_tree` table. Its number is its position in [`crate::Network::pause_intervals`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseInterval {
    /// The port that may not send.
    pub port: PortId,
    /// The priority.
    pub priority: Priority,
    /// When its peer first asked for the pause.
    pub asked: Time,
    /// When the pause took effect.
    pub start: Time,
    /// When the port might send again; `None`: it still stands.
    pub end: Option<Time>,
    /// 0 for a root, else one more than the largest of its causes.
    pub depth: u32,
    /// The numbers of the intervals that caused it, ascending.
    pub parents: Vec<u32>,
}

/// What the peer of a slot knew when it asked for the pause.
#[derive(Clone, Debug)]
struct Asked {
    at: Time,
    parents: Vec<u32>,
}

/// The record while it grows.
#[derive(Debug)]
pub(crate) struct PauseLog {
    pub(crate) intervals: Vec<PauseInterval>,
    limit: usize,
    pub(crate) unrecorded: u64,
    /// By slot: the last interval, if it is recorded, and how many pauses there were.
    last: IndexVec<SlotId, (Option<u32>, u32)>,
    /// By slot: the request that the next interval answers to.
    asked: IndexVec<SlotId, Option<Asked>>,
    /// The numbers of the intervals that are recorded.
    numbers: BTreeMap<PauseName, u32>,
}

impl PauseLog {
    /// Up to `limit` intervals of so many slots.
    pub(crate) fn new(limit: usize, slots: usize) -> PauseLog {
        PauseLog {
            intervals: Vec::new(),
            limit,
            unrecorded: 0,
            last: IndexVec::filled((None, 0), slots),
            asked: IndexVec::filled(None, slots),
            numbers: BTreeMap::new(),
        }
    }

    pub(crate) fn read(&mut self, note: &Note, plan: &Plan) {
        let slot = note.slot;
        match &note.what {
            Noted::Asked { parents, .. } => {
                let number = |name: &PauseName| self.numbers.get(name).copied();
                let mut parents: Vec<u32> = parents.iter().filter_map(number).collect();
                parents.sort_unstable();
                self.asked[slot] = Some(Asked { at: note.at, parents });
            }
            Noted::Paused => self.begin(note, plan),
            Noted::Resumed => {
                if let Some(last) = self.last[slot].0 {
                    self.intervals[last as usize].end = Some(note.at);
                }
            }
        }
    }

    fn begin(&mut self, note: &Note, plan: &Plan) {
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
        let asked = self.asked[note.slot].clone();
        let Asked { at: asked, parents } = asked.unwrap_or(Asked { at: note.at, parents: Vec::new() });
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
