//! A worker runs one partition up to the end of a window.

use crate::order::{Addressed, Report, SharedUpdate};
use crate::partition::Partition;
use crate::wire::boundary::CrossingFrames;
use pauseframe_engine::{Tally, run};
use pauseframe_units::Time;
use std::sync::Arc;

/// A partition with its event tally, orders and inboxes.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) partition: Partition,
    pub(crate) tally: Tally,
    /// What the traffic has handed out: to this partition, and to all.
    pub(crate) orders: Vec<Addressed>,
    pub(crate) updates: Vec<Arc<SharedUpdate>>,
    /// By partition: what has come from it.
    inboxes: Vec<CrossingFrames>,
    pub(crate) status: WorkerStatus,
}

/// What a partition tells at the end of a window. Between two windows the network reads this and not the partition, which lies in the
/// caches of the core that ran it and would have to be fetched from there, and back again. (Two cache lines of its own: some processors
/// fetch pairs.)
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerStatus {
    /// The time of what happens there next, or where what has left arrives.
    pub(crate) next: Option<Time>,
    /// Events so far.
    pub(crate) events: u64,
    /// The window ended here.
    pub(crate) end: Time,
    /// Reports from hosts.
    pub(crate) reports: Vec<Report>,
}

impl Worker {
    pub(crate) fn new(mut partition: Partition, partitions: usize) -> Worker {
        let inboxes = (0..partitions).map(|_| CrossingFrames::default()).collect();
        partition.ports.boundary.open(partitions);
        let (tally, orders, updates) = (Tally::default(), Vec::new(), Vec::new());
        Worker { partition, tally, orders, updates, inboxes, status: WorkerStatus::default() }
    }

    /// Runs all events before `end`.
    pub(crate) fn run(&mut self, end: Time) {
        self.partition.ports.boundary.prefetch_push();
        self.take_in();
        self.partition.ctx.outgoing.end = end;
        run(&mut self.partition, &mut self.tally);
        self.publish_status();
    }

    /// Updates the status that the network reads between windows.
    pub(crate) fn publish_status(&mut self) {
        let first_arrival = self.partition.ports.boundary.take_first();
        let next = [self.next_time(), first_arrival].into_iter().flatten().min();
        let outgoing = &mut self.partition.ctx.outgoing;
        let WorkerStatus { reports, .. } = &mut self.status;
        reports.append(&mut outgoing.reports);
        (self.status.next, self.status.events, self.status.end) = (next, self.tally.events, outgoing.end);
    }

    /// Takes in what has come, so that nothing is between partitions, nor between the traffic and this one.
    pub(crate) fn take_in(&mut self) {
        let Partition { endpoints, switching, ctx, .. } = &mut self.partition;
        for update in self.updates.drain(..) {
            update.rows.iter().for_each(|(row, path)| switching.paths.copy(*row, path));
            ctx.hosts_of_flow.extend(&update.hosts);
            ctx.contention.expect(&update.contention);
        }
        for Addressed { at, host, address, order } in self.orders.drain(..) {
            endpoints.take_order(at, ctx.plan.host_number(host), address, order, ctx);
        }
        for inbox in &mut self.inboxes {
            self.partition.ports.take_in(inbox, &mut self.partition.ctx);
        }
    }

    /// The time of the next event.
    pub(crate) fn next_time(&mut self) -> Option<Time> {
        self.partition.ctx.queue.next_time()
    }
}

/// Swaps outboxes and inboxes between workers.
pub(crate) fn exchange(workers: &mut [Box<Worker>]) {
    for from in 1..workers.len() {
        let (before, after) = workers.split_at_mut(from);
        let from_worker = &mut after[0];
        for (to, to_worker) in before.iter_mut().enumerate() {
            std::mem::swap(from_worker.partition.ports.boundary.outbox(to), &mut to_worker.inboxes[from]);
            std::mem::swap(to_worker.partition.ports.boundary.outbox(from), &mut from_worker.inboxes[to]);
        }
    }
}
