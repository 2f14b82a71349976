//! What a partition writes down about pauses for those who watch: who was asked to pause and why, who paused, who went on.
//!
//! Observation only: nothing in a partition reads the notes back but to name the pauses that a request follows from.
//! Who watches (`pause_tree.rs`, `states.rs`, `deadlock.rs`) gets the notes of all partitions in the order of time.

use crate::ids::SlotId;
use pauseframe_units::{IndexVec, PortId, Time};

/// A pause of a slot: the slot, and how many it had before.
pub(crate) type PauseName = (SlotId, u32);

/// Something about a slot.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) at: Time,
    pub(crate) slot: SlotId,
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
    /// The order of notes, whatever the partition: those of an instant by slot, requests last, as they name pauses.
    pub(crate) fn key(&self) -> (Time, bool, SlotId) {
        (self.at, matches!(self.what, Noted::Asked { .. }), self.slot)
    }
}

/// The notes of a partition.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    /// Somebody draws the pause tree: by slot, its pauses so far and when the last one was over; else empty.
    pauses: IndexVec<SlotId, (u32, Option<Time>)>,
    /// Somebody keeps the log of states.
    fullest: bool,
    /// When a pause began first since that was asked last.
    first_pause: Option<Time>,
}

impl Notes {
    /// For the pause tree.
    pub(crate) fn name_pauses(&mut self, slots: usize) {
        self.pauses = IndexVec::filled((0, None), slots);
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

    /// The latest pause of a slot, by its number, and when it ended if it has; `None` if pauses have no names.
    pub(crate) fn last_pause(&self, slot: SlotId) -> Option<(u32, Option<Time>)> {
        self.pauses.get(slot).copied()
    }

    /// A class of a port may not send any more.
    pub(crate) fn note_pause(&mut self, slot: SlotId, now: Time) {
        self.first_pause.get_or_insert(now);
        if !self.is_on() {
            return;
        }
        if !self.pauses.is_empty() {
            let (count, end) = &mut self.pauses[slot];
            *count += 1;
            *end = None;
        }
        self.list.push(Note { at: now, slot, what: Noted::Paused });
    }

    /// It may send again.
    pub(crate) fn note_resume(&mut self, slot: SlotId, now: Time) {
        if !self.is_on() {
            return;
        }
        if !self.pauses.is_empty() {
            self.pauses[slot].1 = Some(now);
        }
        self.list.push(Note { at: now, slot, what: Noted::Resumed });
    }
}
