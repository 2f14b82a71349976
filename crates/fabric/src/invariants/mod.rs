//! Invariants checked during a run, in release builds too: incremental counters are compared with a recount.
//!
//! Every packet is in exactly one place, and backlogs, accounts and pools equal the sums over waiting packets (`recount.rs`, per partition). Connections
//! and queue pairs do not contradict themselves or their peers (`invariants.rs` of `transport` and `rdma`, which debug builds check at every call). Switches
//! conserve packets to the byte, and both ends of a link agree on pauses (`across_nodes.rs`). A recount visits all state, so it runs too rarely to
//! cost measurable time (docs/performance.md), and once at the end of the run. It changes nothing.

mod across_nodes;
mod recount;

use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::plan::NetworkPlan;
use crate::worker::PartitionWorker;
use across_nodes::{check_packet_conservation, check_pause_agreement};
use pauseframe_units::NodeId;
use recount::PartitionRecount;

/// Events between two recounts, per slot, packet index and endpoint. Tests check more often.
const CHECK_INTERVAL: u64 = if cfg!(debug_assertions) { 8 } else { 128 };

/// Factor on the interval in large networks, where cache misses make recounts more expensive.
const LARGE_NETWORK_FACTOR: u64 = 4;

/// When the next recount is due.
#[derive(Debug)]
pub(crate) struct InvariantCheckSchedule {
    due: u64,
}

impl InvariantCheckSchedule {
    /// The schedule of a network that has not started.
    pub(crate) fn new(plan: &NetworkPlan) -> InvariantCheckSchedule {
        InvariantCheckSchedule { due: events_between_checks(plan, plan.slot_count()) }
    }

    pub(crate) fn is_due(&self, events: u64) -> bool {
        self.due <= events
    }

    /// Schedules the next check after one at `events` events.
    pub(crate) fn schedule_next(&mut self, view: ObserverView<'_>, events: u64) {
        let places = |worker: &PartitionWorker| {
            let Partition { ctx, endpoints, .. } = &worker.partition;
            ctx.packets.entry_count() + endpoints.peak_endpoints()
        };
        let places: usize = view.workers.iter().map(|worker| places(worker)).sum();
        self.due =
            events + events_between_checks(view.plan, view.plan.slot_count() * view.workers.len() + places);
    }
}

/// Checks the counters of one partition, and those of its switches and ports against their neighbours. No frame may be in transit between partitions.
///
/// # Panics
/// If two counts of the same thing differ.
pub(crate) fn check_invariants(view: ObserverView<'_>, number: usize) {
    let (partition, number) = (&view.workers[number].partition, number as u16);
    let is_here = |node: NodeId| view.partition_of[node] == number;
    PartitionRecount::new(view, number, partition).check_counters();
    let ports = view.plan.all_ports().filter(|port| is_here(view.plan.topology.owner(*port)));
    ports.for_each(|port| check_pause_agreement(view, port));
    let switches = view.plan.switches.iter().filter(|switch| is_here(**switch));
    switches.for_each(|switch| check_packet_conservation(view, *switch));
}

/// Events between two recounts that visit `counted` slots and packet indices.
fn events_between_checks(plan: &NetworkPlan, counted: usize) -> u64 {
    counted as u64 * CHECK_INTERVAL * if plan.is_large_network() { LARGE_NETWORK_FACTOR } else { 1 }
}

#[cfg(test)]
mod tests;
