//! A cell with its clock: what runs on a thread of its own up to the end of a window.

use crate::cell::Cell;
use crate::order::{Addressed, Handout};
use crate::wire::border::Crossing;
use pauseframe_engine::{Tally, run};
use pauseframe_units::Time;
use std::sync::Arc;

/// A cell, its events, and what came and goes by its border.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) cell: Cell,
    pub(crate) tally: Tally,
    /// What the traffic has handed out: to this cell, and to all.
    pub(crate) orders: Vec<Addressed>,
    pub(crate) handouts: Vec<Arc<Handout>>,
    /// By cell: what has come from it.
    inboxes: Vec<Vec<Crossing>>,
    /// The first arrival of what goes.
    first_crossing: Option<Time>,
}

impl Room {
    pub(crate) fn new(mut cell: Cell, cells: usize) -> Room {
        let inboxes = (0..cells).map(|_| Vec::new()).collect();
        cell.ports.border.open(cells);
        let (tally, orders, handouts) = (Tally::default(), Vec::new(), Vec::new());
        Room { cell, tally, orders, handouts, inboxes, first_crossing: None }
    }

    /// Lets happen what happens before `end`.
    pub(crate) fn run(&mut self, end: Time) {
        self.take_in();
        self.cell.near.mail.end = end;
        run(&mut self.cell, &mut self.tally);
        self.first_crossing = self.cell.ports.border.take_first();
    }

    /// Takes in what has come, so that nothing is between cells, nor between the traffic and this one.
    pub(crate) fn take_in(&mut self) {
        let Cell { endpoints, switching, near, .. } = &mut self.cell;
        for handout in self.handouts.drain(..) {
            handout.rows.iter().for_each(|(row, path)| switching.paths.copy(*row, path));
            near.hosts_of_flow.extend(&handout.hosts);
        }
        for Addressed { at, host, address, order } in self.orders.drain(..) {
            endpoints.take_order(at, near.plan.host_number(host), address, order, near);
        }
        for inbox in &mut self.inboxes {
            self.cell.ports.take_in(inbox, &mut self.cell.near);
        }
    }

    /// The time of what happens here next, or where what has left arrives.
    pub(crate) fn next_time(&mut self) -> Option<Time> {
        [self.cell.near.queue.next_time(), self.first_crossing].into_iter().flatten().min()
    }
}

/// Brings what has left each room to the next.
pub(crate) fn exchange(rooms: &mut [Box<Room>]) {
    for from in 1..rooms.len() {
        let (before, after) = rooms.split_at_mut(from);
        let from_room = &mut after[0];
        for (to, to_room) in before.iter_mut().enumerate() {
            std::mem::swap(from_room.cell.ports.border.outbox(to), &mut to_room.inboxes[from]);
            std::mem::swap(to_room.cell.ports.border.outbox(from), &mut from_room.inboxes[to]);
        }
    }
}
