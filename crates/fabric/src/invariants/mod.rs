//! While a run goes on, in release builds too, what is counted step by step is compared with what is there.
//!
//! Every packet is in one place and one only; backlogs, accounts and pools are the sums of what waits (`recount.rs`, partition by partition).
//! What has come to a switch has left it, waits there or was lost there, to the byte, and the two ends of a link agree on whether it is
//! paused (`agreement.rs`). A recount looks at everything there is, so it comes so seldom that it costs nothing that one could measure
//! (docs/performance.md), and once more when the run is over. It reads and changes nothing.

mod across_nodes;
mod recount;

use crate::observers::view::View;
use crate::plan::Plan;
use across_nodes::{check_flow, check_pauses};
use pauseframe_units::NodeId;
use recount::Recount;

/// Events between two recounts, for each slot and each place for a packet. Tests look more closely.
const CHECK_INTERVAL: u64 = if cfg!(debug_assertions) { 8 } else { 128 };

/// So many times as many in large networks, where a look at what lies far costs more.
const LARGE_NETWORK_FACTOR: u64 = 4;

/// When the next recount is due.
#[derive(Debug)]
pub(crate) struct InvariantSchedule {
    due: u64,
}

impl InvariantSchedule {
    /// Of a network that has not begun.
    pub(crate) fn new(plan: &Plan) -> InvariantSchedule {
        InvariantSchedule { due: check_interval(plan, plan.slots()) }
    }

    pub(crate) fn is_due(&self, events: u64) -> bool {
        self.due <= events
    }

    /// After a look at all partitions at so many events.
    pub(crate) fn set_next(&mut self, view: View<'_>, events: u64) {
        let places: usize = view.workers.iter().map(|worker| worker.partition.ctx.packets.places()).sum();
        self.due = events + check_interval(view.plan, view.plan.slots() * view.workers.len() + places);
    }
}

/// The books of a partition by themselves, and what its switches and ports have in common with their neighbours, while nothing is between partitions.
///
/// # Panics
/// If two counts of the same thing differ.
pub(crate) fn check_invariants(view: View<'_>, number: usize) {
    let (partition, number) = (&view.workers[number].partition, number as u16);
    let is_here = |node: NodeId| view.partition_of[node] == number;
    Recount::new(view, number, partition).check();
    let ports = view.plan.ports().filter(|port| is_here(view.plan.topology.owner(*port)));
    ports.for_each(|port| check_pauses(view, port));
    let switches = view.plan.switches.iter().filter(|switch| is_here(**switch));
    switches.for_each(|switch| check_flow(view, *switch));
}

/// Events between two recounts of so many slots and places.
fn check_interval(plan: &Plan, counted: usize) -> u64 {
    counted as u64 * CHECK_INTERVAL * if plan.is_large() { LARGE_NETWORK_FACTOR } else { 1 }
}

#[cfg(test)]
mod tests;
