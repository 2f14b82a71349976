//! The `flows` table of a run, made when somebody reads it: its rows take three times the memory of the records.

use super::rows::Names;
use super::tables::flows;
use arrow_array::RecordBatch;
use pauseframe_fabric::FlowRecords;
use pauseframe_topology::Topology;
use std::ops::Range;
use std::sync::Arc;

/// What came of each flow, and the names that the table shows.
#[derive(Clone, Debug)]
pub struct FlowTable {
    records: Arc<FlowRecords>,
    topology: Arc<Topology>,
    workloads: Arc<[String]>,
    transports: Arc<[String]>,
}

impl FlowTable {
    /// The table of `records`.
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

    /// How many flows there are.
    pub fn num_rows(&self) -> usize {
        self.records.len()
    }

    /// All rows.
    pub fn batch(&self) -> RecordBatch {
        self.part(0..self.num_rows())
    }

    /// Some rows.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn part(&self, rows: Range<usize>) -> RecordBatch {
        let FlowTable { records, topology, workloads, transports } = self;
        flows(records, rows, &Names { topology, workloads, transports }).batch()
    }
}
