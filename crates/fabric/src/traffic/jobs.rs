//! Jobs of several flows on kept connections: what an end counts after its own flow is over (the probe of a tail whose ACK is delayed)
//! belongs to the flow until the whole job is, as who reads a server's counters when a job is over would have it.

use super::Traffic;
use crate::order::Order;
use pauseframe_units::Time;

/// The flows of a job that are on kept connections.
#[derive(Debug, Default)]
pub(super) struct Job {
    /// Those under way.
    running: u32,
    /// Those that are over, each with the flow that opened its connection.
    done: Vec<(u32, u32)>,
}

impl Traffic {
    /// The job that `flow` is a part of, if it is on a kept connection.
    fn job_of(&self, flow: u32) -> Option<(u16, u32)> {
        let spec = self.records.get(flow).spec;
        spec.kept?;
        Some((spec.workload, spec.query?))
    }

    /// The flow that the connection of `opener` carries now, or carried last.
    pub(super) fn carried_by(&self, opener: u32) -> u32 {
        self.open.get(&opener).map_or(opener, |open| open.current)
    }

    /// `flow` begins.
    pub(super) fn begin_part(&mut self, flow: u32) {
        if let Some(job) = self.job_of(flow) {
            self.jobs.entry(job).or_default().running += 1;
        }
    }

    /// The exchange that the connection of `opener` carries is over; with the last of its job all of them end.
    pub(super) fn end_exchange(&mut self, opener: u32, now: Time) {
        let current = self.carried_by(opener);
        let Some(job) = self.job_of(current) else {
            self.order_end_of_exchange(opener, current, now);
            return;
        };
        self.jobs.entry(job).or_default().done.push((opener, current));
        self.end_part(current, now);
    }

    /// `flow` is over, whatever becomes of its connection.
    pub(super) fn end_part(&mut self, flow: u32, now: Time) {
        let Some(key) = self.job_of(flow) else { return };
        let Some(job) = self.jobs.get_mut(&key) else { return };
        job.running = job.running.saturating_sub(1);
        if job.running > 0 {
            return;
        }
        for (opener, flow) in self.jobs.remove(&key).map_or_else(Vec::new, |job| job.done) {
            self.order_end_of_exchange(opener, flow, now);
        }
    }

    /// Unless the connection carries another flow by now.
    fn order_end_of_exchange(&mut self, opener: u32, flow: u32, now: Time) {
        if self.open.get(&opener).is_some_and(|open| open.current == flow) {
            self.order(opener * 2, Order::EndExchange, now);
            self.order(opener * 2 + 1, Order::EndExchange, now);
        }
    }
}
