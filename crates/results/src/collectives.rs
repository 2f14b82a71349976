//! The table `collectives`: each collective operation of applications, with the bandwidths of nccl-tests.

use super::column::{Columns, dictionary, f64s, optional, u32s, u64s};
use super::jobs::JobResult;
use super::rows::Names;
use crate::columns;
use pauseframe_apps::{CallRecord, Kind};
use pauseframe_units::{Span, Time};

/// One operation.
struct Row<'a> {
    job: &'a JobResult,
    comm: u32,
    record: CallRecord,
}

impl<'a> Row<'a> {
    fn call(&self) -> &'a pauseframe_apps::Call {
        &self.job.application.programs[self.record.rank as usize].calls[self.record.call as usize]
    }

    fn label(&self) -> Option<&'a pauseframe_apps::training::Label> {
        let training = self.job.application.training.as_ref()?;
        training.labels.get(self.call().label? as usize)
    }

    fn ranks(&self) -> u32 {
        self.job.application.comms[self.comm as usize].members().len() as u32
    }

    /// The kind of groups and the number of the group; other communicators are numbered.
    fn group(&self) -> (&'static str, u32) {
        let training = self.job.application.training.as_ref();
        let group = training.and_then(|training| training.groups.get(self.comm as usize).copied().flatten());
        match (group, self.comm) {
            (Some((group, number)), _) => (group.name(), number),
            (None, 0) => ("all", 0),
            (None, comm) => ("comm", comm),
        }
    }

    /// Bytes of the whole vector: the size of nccl-tests' tables.
    fn bytes(&self) -> u64 {
        let ranks = self.ranks();
        self.label().map_or_else(|| self.call().vector_bytes(ranks), |label| label.bytes)
    }

    fn is_ended(&self) -> bool {
        self.record.ended == self.ranks()
    }

    fn end(&self) -> Option<Time> {
        self.is_ended().then_some(self.record.end)
    }

    /// From the last member's begin to the last member's end.
    fn time(&self) -> Option<Span> {
        self.end().map(|end| end.saturating_since(self.record.ready)).filter(|time| *time > Span::ZERO)
    }

    fn algbw(&self) -> Option<f64> {
        // Bytes per picosecond are 10^12 bytes per second.
        self.time().map(|time| self.bytes() as f64 / time.0 as f64 * 1e3)
    }

    /// nccl-tests, `PERFORMANCE.md`.
    fn busbw(&self) -> Option<f64> {
        let ranks = f64::from(self.ranks());
        let factor = match self.call().kind {
            Kind::Allreduce => 2.0 * (ranks - 1.0) / ranks,
            Kind::Allgather
            | Kind::Allgatherv
            | Kind::ReduceScatter
            | Kind::Alltoall
            | Kind::Alltoallv
            | Kind::Gather
            | Kind::Gatherv
            | Kind::Scatter
            | Kind::Scatterv => (ranks - 1.0) / ranks,
            Kind::Barrier | Kind::Bcast | Kind::Reduce | Kind::Scan => 1.0,
        };
        self.algbw().map(|algbw| algbw * factor)
    }
}

/// The `collectives` table, with one row for each operation and group, in the order of their begins.
pub fn collectives(jobs: &[JobResult], names: &Names) -> Columns {
    let mut rows: Vec<Row> = jobs
        .iter()
        .flat_map(|job| {
            job.calls.iter().map(move |(comm, _, record)| Row { job, comm: *comm, record: *record })
        })
        .filter(|row| row.ranks() > 1)
        .collect();
    rows.sort_by_key(|row| (row.job.workload, row.record.start, row.comm));
    columns! {
        /// Name of the workload
        job = dictionary(&rows, |row| row.job.workload, |w| names.workloads[w as usize].clone());
        /// Iteration of a training step, from 0; 0 for other applications
        iteration = u32s(rows.iter().map(|row| row.label().map_or(0, |label| label.iteration)));
        /// Layer of a training step; "" for other applications
        layer = dictionary(&rows, |row| row.label().map_or("", |label| label.layer.as_str()), str::to_owned);
        /// Pass over the layer: fp forward, ig gradient of the input, wg gradient of the weights; checkpoint; "" for other applications
        phase = dictionary(&rows, |row| row.label().map_or("", |label| label.phase.name()), str::to_owned);
        /// Kind of group: TP, CP, DP, EP, DP_EP of training steps, CHECKPOINT for the barrier after one; all, comm
        group = dictionary(&rows, |row| row.group().0, str::to_owned);
        /// Number among the groups of this kind
        group_number = u32s(rows.iter().map(|row| row.group().1));
        /// Kind of operation: allreduce, allgather, reduce_scatter, alltoall ..
        kind = dictionary(&rows, |row| row.call().kind.name(), str::to_owned);
        /// Algorithm: ring, tree, send_recv of NCCL; MPI's by their names
        algorithm = dictionary(&rows, |row| row.record.algorithm.name(), str::to_owned);
        /// Members of the group
        ranks = u32s(rows.iter().map(Row::ranks));
        /// Bytes of the whole vector, as in nccl-tests: of all blocks (allgather, reduce_scatter), of the blocks for all (alltoall)
        bytes = u64s(rows.iter().map(Row::bytes));
        /// When the first member began
        start_us = f64s(rows.iter().map(|row| row.record.start.as_us_f64()));
        /// When the last member began
        ready_us = f64s(rows.iter().map(|row| row.record.ready.as_us_f64()));
        /// When the last member ended; null if it did not
        end_us or null = optional(rows.iter().map(|row| row.end().map(Time::as_us_f64)));
        /// bytes / (end - ready) in 10^9 bytes/s
        algbw_gb_per_s or null = optional(rows.iter().map(Row::algbw));
        /// algbw times 2(n-1)/n for allreduce, (n-1)/n where each member has a block, 1 for others: comparable with the rate of a link
        busbw_gb_per_s or null = optional(rows.iter().map(Row::busbw));
    }
}
