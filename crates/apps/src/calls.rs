//! A log of collective operations: when their members began and ended.

use crate::algorithm;
use crate::nccl::Pattern;
use pauseframe_units::Time;

/// An operation: its communicator, and its number there.
pub type OperationId = (u32, i32);

/// The algorithm of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// One of MPI's.
    Mpi(algorithm::Algorithm),
    /// One of NCCL's.
    Nccl(Pattern),
}

impl Algorithm {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Mpi(algorithm) => algorithm.name(),
            Algorithm::Nccl(pattern) => pattern.name(),
        }
    }
}

/// One operation of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// The member that began first, and the index of the call in its program.
    pub rank: u32,
    /// See `rank`.
    pub call: u32,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// When the first member began.
    pub start: Time,
    /// When the last member that has begun did so.
    pub ready: Time,
    /// When the last member that has ended did so.
    pub end: Time,
    /// Number of members that have begun.
    pub begun: u32,
    /// Number of members that have ended.
    pub ended: u32,
}

/// Begin or end of an operation at one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    comm: u32,
    number: u32,
    at: Time,
    /// Rank, call and algorithm, if it begins.
    begins: Option<(u32, u32, Algorithm)>,
}

impl Step {
    pub(crate) fn begin(rank: u32, comm: u32, number: i32, call: u32, made: Algorithm, at: Time) -> Step {
        Step { comm, number: number as u32, at, begins: Some((rank, call, made)) }
    }

    pub(crate) fn end(comm: u32, number: i32, at: Time) -> Step {
        Step { comm, number: number as u32, at, begins: None }
    }

    pub(crate) fn operation(&self) -> OperationId {
        (self.comm, self.number as i32)
    }

    /// The rank that begins it, unless it ends.
    pub(crate) fn begins_at(&self) -> Option<u32> {
        self.begins.map(|(rank, ..)| rank)
    }
}

/// All operations, by communicator and number.
#[derive(Debug)]
pub(crate) struct CallLog(Vec<Vec<Option<CallRecord>>>);

impl CallLog {
    pub(crate) fn new(comms: usize) -> CallLog {
        CallLog(vec![Vec::new(); comms])
    }

    /// Steps come in the order of time.
    pub(crate) fn add(&mut self, step: Step) {
        let Step { comm, number, at, begins } = step;
        let of_comm = &mut self.0[comm as usize];
        if of_comm.len() <= number as usize {
            of_comm.resize(number as usize + 1, None);
        }
        let record = &mut of_comm[number as usize];
        if let Some((rank, call, algorithm)) = begins {
            let record = record.get_or_insert(CallRecord {
                rank,
                call,
                algorithm,
                start: at,
                ready: at,
                end: at,
                begun: 0,
                ended: 0,
            });
            (record.ready, record.begun) = (at, record.begun + 1);
        } else if let Some(record) = record {
            (record.end, record.ended) = (at, record.ended + 1);
        }
    }

    /// Communicator, number and record of each operation that has begun.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, CallRecord)> + '_ {
        (0_u32..).zip(&self.0).flat_map(|(comm, calls)| {
            let record = move |(number, call): (u32, &'_ Option<CallRecord>)| (comm, number, *call);
            (0_u32..).zip(calls).map(record).filter_map(|(comm, number, call)| Some((comm, number, call?)))
        })
    }
}
