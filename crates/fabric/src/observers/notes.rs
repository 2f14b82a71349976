//! Notes of a partition about pauses, for observers: requests with their causes, pauses and resumes.
//!
//! Observation only: a partition reads its notes back only to name the pauses that cause a request. Observers (`pause_tree.rs`, `states.rs`,
//! `deadlock.rs`) receive the notes of all partitions in the order of time.

use crate::ids::SlotId;
use pauseframe_units::{IndexVec, PortId, Time};

/// Identifies a pause: its slot and its sequence number there.
pub(crate) type PauseNumber = (SlotId, u32);

/// A note about a slot.
#[derive(Clone, Debug)]
pub(crate) struct PauseChange {
    pub(crate) at: Time,
    pub(crate) slot: SlotId,
    pub(crate) what: PauseChangeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum PauseChangeKind {
    /// The class may not send.
    Paused,
    /// The class may send again.
    Resumed,
    /// Its peer requests a pause: the egress queue that holds most bytes from it, and the pauses that cause this.
    PauseRequested { fullest: Option<PortId>, parents: Vec<PauseNumber> },
}

impl PauseChange {
    /// Sort key, independent of partitions: by time, then requests last (they refer to pauses), then by slot.
    pub(crate) fn sort_key(&self) -> (Time, bool, SlotId) {
        (self.at, matches!(self.what, PauseChangeKind::PauseRequested { .. }), self.slot)
    }
}

/// The pause notes of a partition.
#[derive(Debug, Default)]
pub(crate) struct PauseChangeLog {
    pub(crate) list: Vec<PauseChange>,
    /// For the pause tree, by slot: number of pauses and end of the last one; empty without a pause tree.
    pauses: IndexVec<SlotId, (u32, Option<Time>)>,
    /// Whether the state log is on.
    is_state_log_on: bool,
    /// Start of the first pause since the last call of `take_first_start`.
    first_pause: Option<Time>,
}

impl PauseChangeLog {
    /// Enables numbering of pauses, for the pause tree.
    pub(crate) fn enable_numbering(&mut self, slots: usize) {
        self.pauses = IndexVec::filled((0, None), slots);
    }

    /// Enables the search for the fullest queue, for the state log.
    pub(crate) fn enable_fullest_queue(&mut self) {
        self.is_state_log_on = true;
    }

    pub(crate) fn take_first_start(&mut self) -> Option<Time> {
        self.first_pause.take()
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.is_state_log_on || !self.pauses.is_empty()
    }

    /// Whether pause requests are recorded with the fullest queue.
    pub(crate) fn records_fullest_queue(&self) -> bool {
        self.is_state_log_on
    }

    /// Number of the latest pause of a slot, and its end if it has ended; `None` if pauses are not numbered.
    pub(crate) fn last_pause(&self, slot: SlotId) -> Option<(u32, Option<Time>)> {
        self.pauses.get(slot).copied()
    }

    /// Records the start of a pause.
    pub(crate) fn record_start(&mut self, slot: SlotId, now: Time) {
        self.first_pause.get_or_insert(now);
        if !self.is_recording() {
            return;
        }
        if !self.pauses.is_empty() {
            let (count, end) = &mut self.pauses[slot];
            *count += 1;
            *end = None;
        }
        self.list.push(PauseChange { at: now, slot, what: PauseChangeKind::Paused });
    }

    /// The class may send again.
    pub(crate) fn record_end(&mut self, slot: SlotId, now: Time) {
        if !self.is_recording() {
            return;
        }
        if !self.pauses.is_empty() {
            self.pauses[slot].1 = Some(now);
        }
        self.list.push(PauseChange { at: now, slot, what: PauseChangeKind::Resumed });
    }
}
