//! A worker runs one partition up to the end of a window.

use crate::order::{EndpointReport, PartitionUpdate, TimedEndpointOrder};
use crate::partition::Partition;
use crate::wire::boundary::CrossPartitionFrameBuffer;
use pauseframe_engine::{EventTally, run_events};
use pauseframe_units::Time;
use std::sync::Arc;

/// A partition with its event tally, orders and inboxes.
#[derive(Debug)]
pub(crate) struct PartitionWorker {
    pub(crate) partition: Partition,
    pub(crate) tally: EventTally,
    /// Orders of the traffic for this partition.
    pub(crate) orders: Vec<TimedEndpointOrder>,
    /// Updates of the traffic for all partitions.
    pub(crate) updates: Vec<Arc<PartitionUpdate>>,
    /// Crossing frames by sending partition.
    inboxes: Vec<CrossPartitionFrameBuffer>,
    pub(crate) status: WorkerStatus,
}

/// Status of a partition at the end of a window. Between windows the network reads only this, because the partition is in the cache of the core that
/// ran it. (It fills two cache lines alone, because some processors fetch pairs of lines.)
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerStatus {
    /// Time of the next event there, or of the first arrival of a frame that has left.
    pub(crate) next: Option<Time>,
    /// Number of events so far.
    pub(crate) events: u64,
    /// End of the window.
    pub(crate) end: Time,
    /// Reports from hosts.
    pub(crate) reports: Vec<EndpointReport>,
}

impl PartitionWorker {
    pub(crate) fn new(mut partition: Partition, partitions: usize) -> PartitionWorker {
        let inboxes = (0..partitions).map(|_| CrossPartitionFrameBuffer::default()).collect();
        partition.ports.boundary.set_partition_count(partitions);
        let (tally, orders, updates) = (EventTally::default(), Vec::new(), Vec::new());
        PartitionWorker { partition, tally, orders, updates, inboxes, status: WorkerStatus::default() }
    }

    /// Runs all events before `end`.
    pub(crate) fn run_until(&mut self, end: Time) {
        self.partition.ports.boundary.prefetch_outboxes();
        self.receive_orders_and_frames();
        self.partition.ctx.outgoing.end = end;
        self.partition.raise_prefetch_distance();
        run_events(&mut self.partition, &mut self.tally);
        self.publish_status();
    }

    /// Updates the status that the network reads between windows.
    pub(crate) fn publish_status(&mut self) {
        let first_arrival = self.partition.ports.boundary.take_first_arrival();
        let next = [self.next_event_time(), first_arrival].into_iter().flatten().min();
        let outgoing = &mut self.partition.ctx.outgoing;
        let WorkerStatus { reports, .. } = &mut self.status;
        reports.append(&mut outgoing.reports);
        (self.status.next, self.status.events, self.status.end) = (next, self.tally.events, outgoing.end);
    }

    /// Processes orders, updates and inboxes, so that nothing is in transit to this partition.
    pub(crate) fn receive_orders_and_frames(&mut self) {
        let Partition { endpoints, switching, ctx, .. } = &mut self.partition;
        for update in self.updates.drain(..) {
            update.rows.iter().for_each(|(row, path)| switching.paths.store_path(*row, path));
            ctx.hosts_of_flow.extend(&update.hosts);
            ctx.hosts_of_parts.extend(&update.hosts_of_parts);
        }
        for TimedEndpointOrder { at, host, endpoint_key, order } in self.orders.drain(..) {
            endpoints.schedule_order(at, ctx.plan.host_id(host), endpoint_key, order, ctx);
        }
        for inbox in &mut self.inboxes {
            self.partition.ports.receive_frames(inbox, &mut self.partition.ctx);
        }
    }

    /// The time of the next event.
    pub(crate) fn next_event_time(&mut self) -> Option<Time> {
        self.partition.ctx.queue.next_event_time()
    }
}

/// Swaps outboxes and inboxes between workers.
pub(crate) fn swap_outboxes_and_inboxes(workers: &mut [Box<PartitionWorker>]) {
    for from in 1..workers.len() {
        let (before, after) = workers.split_at_mut(from);
        let from_worker = &mut after[0];
        for (to, to_worker) in before.iter_mut().enumerate() {
            std::mem::swap(from_worker.partition.ports.boundary.outbox_to(to), &mut to_worker.inboxes[from]);
            std::mem::swap(to_worker.partition.ports.boundary.outbox_to(from), &mut from_worker.inboxes[to]);
        }
    }
}
