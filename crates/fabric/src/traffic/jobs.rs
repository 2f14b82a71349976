//! Jobs of several flows on kept connections. Counts after the end of a flow (such as a tail loss probe before a delayed ACK) still belong to the
//! flow until the whole job ends, as if a server's counters were read at the end of the job.

use super::Traffic;
use crate::order::EndpointOrder;
use pauseframe_units::Time;

/// The flows of a job on kept connections.
#[derive(Debug, Default)]
pub(super) struct JobOnKeptConnections {
    /// Number of running flows.
    running: u32,
    /// Finished flows, each with the flow that opened its connection.
    done: Vec<(u32, u32)>,
}

impl Traffic {
    /// The job of `flow`, if it is on a kept connection.
    fn kept_connection_job(&self, flow: u32) -> Option<(u16, u32)> {
        let spec = self.records.flow_record(flow).spec;
        spec.kept?;
        Some((spec.workload, spec.query?))
    }

    /// The current or last flow of the connection that `opener` opened.
    pub(super) fn current_flow(&self, opener: u32) -> u32 {
        self.open.get(&opener).map_or(opener, |open| open.current)
    }

    /// Registers the start of `flow` with its job.
    pub(super) fn register_flow_start(&mut self, flow: u32) {
        if let Some(job) = self.kept_connection_job(flow) {
            self.jobs.entry(job).or_default().running += 1;
        }
    }

    /// Ends the exchange on the connection of `opener`; all exchanges of a job end with its last flow.
    pub(super) fn end_exchange(&mut self, opener: u32, now: Time) {
        let current = self.current_flow(opener);
        let Some(job) = self.kept_connection_job(current) else {
            self.order_exchange_end(opener, current, now);
            return;
        };
        self.jobs.entry(job).or_default().done.push((opener, current));
        self.register_flow_end(current, now);
    }

    /// Registers the end of `flow` with its job.
    pub(super) fn register_flow_end(&mut self, flow: u32, now: Time) {
        let Some(key) = self.kept_connection_job(flow) else { return };
        let Some(job) = self.jobs.get_mut(&key) else { return };
        job.running = job.running.saturating_sub(1);
        if job.running > 0 {
            return;
        }
        for (opener, flow) in self.jobs.remove(&key).map_or_else(Vec::new, |job| job.done) {
            self.order_exchange_end(opener, flow, now);
        }
    }

    /// Orders the end of an exchange, unless the connection carries another flow by now.
    fn order_exchange_end(&mut self, opener: u32, flow: u32, now: Time) {
        if self.open.get(&opener).is_some_and(|open| open.current == flow) {
            self.send_order(opener * 2, EndpointOrder::EndExchange, now);
            self.send_order(opener * 2 + 1, EndpointOrder::EndExchange, now);
        }
    }
}
