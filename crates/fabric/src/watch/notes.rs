//! What a cell writes down about pauses for those who watch: who was asked to pause and why, who paused, who went on.
//!
//! Observation only: nothing in a cell reads the notes back but to name the pauses that a request follows from.
//! Who watches (`pause_tree.rs`, `states.rs`, `deadlock.rs`) gets the notes of all cells in the order of time.

use crate::ids::LaneId;
use pauseframe_units::{IndexVec, PortId, Time};

/// A pause of a lane: the lane, and how many it had before.
pub(crate) type PauseName = (LaneId, u32);

/// Something about a lane.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) at: Time,
    pub(crate) lane: LaneId,
    pub(crate) what: Noted,
}

#[derive(Clone, Debug)]
pub(crate) enum Noted {
    /// It may not send.
    Paused,
    /// It may send again.
    Resumed,
    /// Its peer asks it to pause: the egress queue that holds most of what came from it, and the pauses that hold that back.
    Asked { fullest: Option<PortId>, parents: Vec<PauseName> },
}

impl Note {
    /// The order of notes, whatever the cell: those of an instant by lane, requests last, as they name pauses.
    pub(crate) fn key(&self) -> (Time, bool, LaneId) {
        (self.at, matches!(self.what, Noted::Asked { .. }), self.lane)
    }
}

/// The notes of a cell.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    /// Somebody draws the pause tree: by lane, its pauses so far and when the last one was over; else empty.
    pauses: IndexVec<LaneId, (u32, Option<Time>)>,
    /// Somebody keeps the log of states.
    fullest: bool,
    /// When a pause began first since that was asked last.
    first_pause: Option<Time>,
}

impl Notes {
    /// For the pause tree.
    pub(crate) fn name_pauses(&mut self, lanes: usize) {
        self.pauses = IndexVec::filled((0, None), lanes);
    }

    /// For the log of states.
    pub(crate) fn find_fullest(&mut self) {
        self.fullest = true;
    }

    pub(crate) fn take_first_pause(&mut self) -> Option<Time> {
        self.first_pause.take()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.fullest || !self.pauses.is_empty()
    }

    /// Whether asked pauses come with the queue that holds most.
    pub(crate) fn wants_fullest(&self) -> bool {
        self.fullest
    }

    /// The latest pause of a lane, by its number, and when it ended if it has; `None` if pauses have no names.
    pub(crate) fn last_pause(&self, lane: LaneId) -> Option<(u32, Option<Time>)> {
        self.pauses.get(lane).copied()
    }

    /// A class of a port may not send any more.
    pub(crate) fn note_pause(&mut self, lane: LaneId, now: Time) {
        self.first_pause.get_or_insert(now);
        if !self.is_on() {
            return;
        }
        if !self.pauses.is_empty() {
            let (count, end) = &mut self.pauses[lane];
            *count += 1;
            *end = None;
        }
        self.list.push(Note { at: now, lane, what: Noted::Paused });
    }

    /// It may send again.
    pub(crate) fn note_resume(&mut self, lane: LaneId, now: Time) {
        if !self.is_on() {
            return;
        }
        if !self.pauses.is_empty() {
            self.pauses[lane].1 = Some(now);
        }
        self.list.push(Note { at: now, lane, what: Noted::Resumed });
    }
}
