//! What a cell writes down about pauses for those who watch: who was asked to pause and why, who paused, who went on.
//!
//! Observation only: nothing in a cell reads the notes back but to name the pauses that a request follows from.
//! Who watches (`pause_tree.rs`, `states.rs`, `deadlock.rs`) gets the notes of all cells in the order of time.

use crate::cell::Cell;
use pauseframe_units::{PortId, Time};

/// A pause of a lane: the lane, and how many it had before.
pub(crate) type PauseName = (u32, u32);

/// Something about a lane.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) at: Time,
    pub(crate) lane: u32,
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
    pub(crate) fn key(&self) -> (Time, bool, u32) {
        (self.at, matches!(self.what, Noted::Asked { .. }), self.lane)
    }
}

/// The notes of a cell.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    /// Somebody draws the pause tree: by lane, its pauses so far and when the last one was over; else empty.
    pauses: Vec<(u32, Option<Time>)>,
    /// Somebody keeps the log of states.
    fullest: bool,
    /// When a pause began first since that was asked last.
    first_pause: Option<Time>,
}

impl Notes {
    /// For the pause tree.
    pub(crate) fn name_pauses(&mut self, lanes: usize) {
        self.pauses = vec![(0, None); lanes];
    }

    /// For the log of states.
    pub(crate) fn find_fullest(&mut self) {
        self.fullest = true;
    }

    pub(crate) fn take_first_pause(&mut self) -> Option<Time> {
        self.first_pause.take()
    }

    fn is_on(&self) -> bool {
        self.fullest || !self.pauses.is_empty()
    }
}

impl Cell {
    /// The peer of a lane asks it to pause, for the first time or again.
    pub(crate) fn note_request(&mut self, port: PortId, class: u8, now: Time) {
        let lane = self.lane_index(port, class);
        if !self.notes.is_on() || self.accounts[lane].pause_sent {
            return;
        }
        let fullest = if self.notes.fullest { self.fullest_with(port, class) } else { None };
        let parents = if self.notes.pauses.is_empty() { Vec::new() } else { self.causes(port, class) };
        self.notes.list.push(Note { at: now, lane: lane as u32, what: Noted::Asked { fullest, parents } });
    }

    /// A pause has taken effect at a port that could send before.
    pub(crate) fn note_pause(&mut self, lane: usize, now: Time) {
        self.notes.first_pause.get_or_insert(now);
        if !self.notes.is_on() {
            return;
        }
        if let Some((count, end)) = self.notes.pauses.get_mut(lane) {
            *count += 1;
            *end = None;
        }
        self.notes.list.push(Note { at: now, lane: lane as u32, what: Noted::Paused });
    }

    /// The port may send again.
    pub(crate) fn note_resume(&mut self, lane: usize, now: Time) {
        if !self.notes.is_on() {
            return;
        }
        if let Some((_, end)) = self.notes.pauses.get_mut(lane) {
            *end = Some(now);
        }
        self.notes.list.push(Note { at: now, lane: lane as u32, what: Noted::Resumed });
    }

    /// The pauses that held back packets which came by `port`, at the queues of the switch that holds them.
    fn causes(&self, port: PortId, class: u8) -> Vec<PauseName> {
        let mut causes = Vec::new();
        for egress in &self.plan.topology.nodes()[self.plan.topology.peer(port)].ports {
            let lane = self.lane_index(*egress, class);
            let (count, end) = self.notes.pauses[lane];
            if count == 0 {
                continue;
            }
            let held = self.packets.chain(self.lanes[lane].queue);
            let oldest = held.map(|index| &self.packets[index]).find(|packet| packet.ingress == port);
            if oldest.is_some_and(|packet| end.is_none_or(|end| end > packet.at)) {
                causes.push((lane as u32, count - 1));
            }
        }
        causes
    }

    /// Of the egress queues at the other end of `port`, the one that holds most of what came from it in `class`.
    fn fullest_with(&self, port: PortId, class: u8) -> Option<PortId> {
        let held = |egress: &PortId| -> u64 {
            let lanes = (0..self.priorities.len() as u8).map(|out| self.lane_index(*egress, out));
            let waiting = lanes.flat_map(|lane| self.packets.chain(self.lanes[lane].queue));
            let came = |index: u32| {
                let packet = &self.packets[index];
                let same_account = packet.ingress_class & self.hot.account_mask == class;
                if packet.ingress == port && same_account { u64::from(packet.size) } else { 0 }
            };
            waiting.map(came).sum()
        };
        let egresses = self.plan.topology.nodes()[self.plan.topology.peer(port)].ports.iter();
        let held = egresses.map(|egress| (held(egress), *egress)).filter(|(bytes, _)| *bytes > 0);
        held.max_by_key(|(bytes, egress)| (*bytes, std::cmp::Reverse(*egress))).map(|(_, egress)| egress)
    }
}
