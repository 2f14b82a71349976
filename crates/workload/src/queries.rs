//! The active queries of a workload; a query ends with its last flow.

use pauseframe_fabric::{FlowRecord, FlowStatus, QueryRecord};
use pauseframe_units::Time;
use std::collections::BTreeMap;

/// Queries by number. `T` is the workload's data for a query.
#[derive(Debug)]
pub(crate) struct Queries<T> {
    open: BTreeMap<u32, Open<T>>,
    /// Finished queries that have not been taken.
    ended: Vec<QueryRecord>,
}

#[derive(Debug)]
struct Open<T> {
    record: QueryRecord,
    /// Number of flows that have not ended.
    flows: u32,
    /// A flow was given up, so the query cannot finish.
    failed: bool,
    own: T,
}

impl<T> Queries<T> {
    pub(crate) fn new() -> Queries<T> {
        Queries { open: BTreeMap::new(), ended: Vec::new() }
    }

    /// A query begins with this many flows.
    pub(crate) fn begin(&mut self, record: QueryRecord, flows: u32, own: T) {
        self.open.insert(record.query, Open { record, flows, failed: false, own });
    }

    /// An active query.
    pub(crate) fn get_mut(&mut self, query: u32) -> Option<(&QueryRecord, &mut T)> {
        self.open.get_mut(&query).map(|open| (&open.record, &mut open.own))
    }

    /// Adds flows to an active query.
    pub(crate) fn add_flows(&mut self, query: u32, flows: u32) {
        if let Some(open) = self.open.get_mut(&query) {
            open.flows += flows;
        }
    }

    /// Records that a flow of a query has ended.
    ///
    /// # Panics
    /// If the flow belongs to no active query.
    pub(crate) fn end_flow(&mut self, flow: &FlowRecord, now: Time) {
        let query = flow.spec.query.expect("every flow of this workload is a part of a query");
        let open = self.open.get_mut(&query).expect("a query is open until its last flow has ended");
        open.flows -= 1;
        open.failed |= flow.status != FlowStatus::Finished;
        if open.flows == 0 {
            open.record.finish = (!open.failed).then_some(now);
            self.ended.extend(self.open.remove(&query).map(|open| open.record));
        }
    }

    /// The queries that have ended since the last call.
    pub(crate) fn take(&mut self) -> Vec<QueryRecord> {
        std::mem::take(&mut self.ended)
    }

    /// The active queries.
    pub(crate) fn unfinished(&self) -> Vec<QueryRecord> {
        self.open.values().map(|open| open.record).collect()
    }
}
