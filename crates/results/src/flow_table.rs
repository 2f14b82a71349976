//! The `flows` table of a run, built only when a caller reads it, because the table takes three times the
//! memory of the flow records.

use super::rows::Names;
use super::tables::flows;
use arrow_array::RecordBatch;
use pauseframe_fabric::FlowRecords;
use pauseframe_topology::Topology;
use std::ops::Range;
use std::sync::Arc;

/// The records of all flows, and the names for the text columns.
#[derive(Clone, Debug)]
pub struct FlowTable {
    records: Arc<FlowRecords>,
    topology: Arc<Topology>,
    workloads: Arc<[String]>,
    transports: Arc<[String]>,
}

impl FlowTable {
    /// Makes the `flows` table of `records`.
    pub fn new(
        records: FlowRecords,
        topology: &Arc<Topology>,
        workloads: &[String],
        transports: &[String],
    ) -> FlowTable {
        FlowTable {
            records: Arc::new(records),
            topology: Arc::clone(topology),
            workloads: workloads.into(),
            transports: transports.into(),
        }
    }

    /// Number of flows.
    pub fn num_rows(&self) -> usize {
        self.records.len()
    }

    /// The table with all rows.
    pub fn batch(&self) -> RecordBatch {
        self.part(0..self.num_rows())
    }

    /// The rows of the table in the given range.
    ///
    /// # Panics
    /// If the table has fewer rows.
    pub fn part(&self, rows: Range<usize>) -> RecordBatch {
        let FlowTable { records, topology, workloads, transports } = self;
        flows(records, rows, &Names { topology, workloads, transports }).batch()
    }
}
