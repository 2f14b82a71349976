//! An application: the steps of each of its ranks, from a trace or a generator.

use crate::algorithm::{Algorithm, Kind, Part};
use crate::nccl;
use crate::replay::Fault;
use crate::training::{Group, Training};
use pauseframe_units::Span;
use std::sync::Arc;

/// Number of a request of a rank: `isend` and `irecv` return it and `wait` takes it. Numbers are reused.
pub type Slot = u32;

/// One step of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Computes for this time, without using the network.
    Compute(Span),
    /// Sends a message. Without a request, the rank continues when its buffer is free again.
    Send {
        /// World rank of the receiver.
        to: u32,
        /// Tag of the message.
        tag: i32,
        /// Index of the communicator in [`Application::comms`].
        comm: u32,
        /// The request of a non-blocking send.
        request: Option<Slot>,
        /// Size of the payload in bytes.
        bytes: u64,
    },
    /// Receives a message. Without a request, the rank continues when the message is complete.
    Receive {
        /// World rank of the sender; `None` for any sender.
        from: Option<u32>,
        /// Tag of the message; `None` for any tag.
        tag: Option<i32>,
        /// Index of the communicator in [`Application::comms`].
        comm: u32,
        /// The request of a non-blocking receive.
        request: Option<Slot>,
        /// Size of the buffer in bytes; `u64::MAX` if the trace does not contain it.
        limit: u64,
    },
    /// Waits until this request is complete.
    Wait(Slot),
    /// Waits until `count` requests are complete; [`Program::waits`] lists them from index `first`.
    WaitAll {
        /// Index of the first request.
        first: u32,
        /// Number of requests.
        count: u32,
    },
    /// Takes part in a collective operation.
    Collective {
        /// Index of the call in [`Program::calls`].
        call: u32,
        /// The request of a non-blocking operation.
        request: Option<Slot>,
    },
    /// Ends an iteration of a training step.
    Mark,
}

/// A call of a collective operation by one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The kind of the operation.
    pub kind: Kind,
    /// Index of the communicator in [`Application::comms`].
    pub comm: u32,
    /// World rank of the root, if the operation has a root.
    pub root: u32,
    /// Payload in bytes: the whole vector (bcast, reduce, allreduce, scan), the block of one rank (gather,
    /// scatter, allgather, reduce-scatter), or the data for one rank (all-to-all); for variants with counts,
    /// the rank's own data.
    pub bytes: u64,
    /// For each member, the size that it receives (all-to-all-v, scatter-v at the root, reduce-scatter) or
    /// sends (allgather-v); empty otherwise.
    pub counts: Arc<[u64]>,
    /// Sequence number of the operation on its communicator, if the rank's steps have no fixed order.
    pub number: Option<u32>,
    /// The algorithm, if the application specifies one; otherwise the message size decides.
    pub algorithm: Option<Algorithm>,
    /// Index of its label in [`Training::labels`].
    pub label: Option<u32>,
}

impl Call {
    /// Makes a call on the communicator of all ranks, with rank 0 as root.
    pub fn new(kind: Kind, bytes: u64) -> Call {
        Call {
            kind,
            comm: 0,
            root: 0,
            bytes,
            counts: Arc::default(),
            number: None,
            algorithm: None,
            label: None,
        }
    }

    /// Bytes of the whole vector of all blocks, for `ranks` members: the size of nccl-tests' tables.
    pub fn vector_bytes(&self, ranks: u32) -> u64 {
        let Call { kind, bytes, counts, .. } = self;
        nccl::vector_bytes(*kind, &Part { size: ranks, me: 0, root: 0, bytes: *bytes, counts })
    }
}

/// The steps of one rank.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// The steps in the order of the trace.
    pub ops: Vec<Op>,
    /// Line number of each step in its file, counted from 1; empty if there is no file.
    pub lines: Vec<u32>,
    /// The requests of all `WaitAll` steps.
    pub waits: Vec<Slot>,
    /// The calls of collective operations.
    pub calls: Vec<Call>,
    /// The dependences between the steps; `None` if the steps run in sequence.
    pub order: Option<Dependences>,
    /// For each step of a training step, the group whose communication it waits for; otherwise empty.
    pub groups: Vec<Option<Group>>,
}

/// Dependences between steps that do not run in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dependences {
    /// For each step, the compute unit that a `Compute` step occupies.
    pub units: Vec<u16>,
    /// Pairs (earlier, later): the later step begins when the earlier step is complete.
    pub after_end: Vec<(u32, u32)>,
    /// Pairs (earlier, later): the later step begins when the earlier step has begun.
    pub after_start: Vec<(u32, u32)>,
    /// True if sends of any size leave at once and are complete when their last byte has left, whether or not
    /// a receive is posted; if false, a send above the eager limit waits for its receive, as in MPI.
    pub asynchronous_sends: bool,
}

/// The members of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Communicator {
    members: Vec<u32>,
    /// Pairs (world rank, position), sorted.
    positions: Vec<(u32, u32)>,
}

impl Communicator {
    /// Makes a communicator of these world ranks, in this order.
    pub fn new(members: Vec<u32>) -> Communicator {
        let mut positions: Vec<(u32, u32)> = members.iter().copied().zip(0..).collect();
        positions.sort_unstable();
        Communicator { members, positions }
    }

    /// The world ranks, in the order of the communicator.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The position of a world rank in this communicator.
    pub fn position(&self, rank: u32) -> Option<u32> {
        let at = self.positions.binary_search_by_key(&rank, |&(world, _)| world).ok()?;
        Some(self.positions[at].1)
    }
}

/// An application of several ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Application {
    /// Name of the application in tables: the name of its file or generator.
    pub name: String,
    /// The programs, one for each rank.
    pub programs: Vec<Program>,
    /// Communicators; the first contains all ranks.
    pub comms: Vec<Communicator>,
    /// Names of the trace's files, without folders: one file, or one per rank; empty if there is no file.
    pub files: Vec<String>,
    /// Notes of the reader on skipped or ambiguous contents of the trace.
    pub notes: Vec<String>,
    /// What the calls of a training step are for.
    pub training: Option<Training>,
}

impl Program {
    /// Appends a step from `line` of its file (0 if there is no file).
    pub fn push(&mut self, op: Op, line: u32) {
        if line > 0 || !self.lines.is_empty() {
            self.lines.resize(self.ops.len(), 0);
            self.lines.push(line);
        }
        self.ops.push(op);
    }

    /// Appends a collective operation.
    pub fn push_call(&mut self, call: Call, request: Option<Slot>, line: u32) {
        let position = self.calls.len() as u32;
        self.calls.push(call);
        self.push(Op::Collective { call: position, request }, line);
    }

    /// Appends a step that waits for these requests.
    pub fn push_waits(&mut self, slots: &[Slot], line: u32) {
        let first = self.waits.len() as u32;
        self.waits.extend_from_slice(slots);
        self.push(Op::WaitAll { first, count: slots.len() as u32 }, line);
    }

    /// The requests that a `WaitAll` step waits for.
    pub(crate) fn waited(&self, first: u32, count: u32) -> &[Slot] {
        &self.waits[first as usize..(first + count) as usize]
    }

    /// Line number of a step in its file; 0 if there is no file.
    pub fn line(&self, step: usize) -> u32 {
        self.lines.get(step).copied().unwrap_or(0)
    }

    /// Describes a step in a few words, for time lines; `name` names the other rank.
    pub fn describe(&self, step: u32, name: impl Fn(u32) -> String) -> String {
        match self.ops[step as usize] {
            Op::Compute(_) => "compute".to_owned(),
            Op::Send { to, bytes, .. } => format!("send {bytes} B to {}", name(to)),
            Op::Receive { from: Some(from), .. } => format!("receive from {}", name(from)),
            Op::Receive { from: None, .. } => "receive from any".to_owned(),
            Op::Wait(_) | Op::WaitAll { .. } => "wait".to_owned(),
            Op::Collective { call, .. } => self.calls[call as usize].kind.to_string(),
            Op::Mark => "end of iteration".to_owned(),
        }
    }

    /// The group whose communication a step waits for, if it is one of a training step.
    pub(crate) fn group(&self, step: u32) -> Option<Group> {
        self.groups.get(step as usize).copied().flatten()
    }

    /// Number of request numbers: the largest number plus one.
    pub(crate) fn slots(&self) -> usize {
        let named = |op: &Op| match *op {
            Op::Send { request, .. } | Op::Receive { request, .. } | Op::Collective { request, .. } => {
                request
            }
            Op::Wait(slot) => Some(slot),
            Op::Compute(_) | Op::WaitAll { .. } | Op::Mark => None,
        };
        let largest = self.ops.iter().filter_map(named).chain(self.waits.iter().copied()).max();
        largest.map_or(0, |slot| slot as usize + 1)
    }
}

impl Application {
    /// Makes an application of these programs, with one communicator for all ranks.
    pub fn new(name: impl Into<String>, programs: Vec<Program>) -> Application {
        let world = Communicator::new((0..programs.len() as u32).collect());
        Application {
            name: name.into(),
            programs,
            comms: vec![world],
            files: Vec::new(),
            notes: Vec::new(),
            training: None,
        }
    }

    /// Describes a fault with its file and line.
    pub fn describe(&self, fault: &Fault) -> String {
        let file =
            if self.files.len() > 1 { self.files.get(fault.rank as usize) } else { self.files.first() };
        match (file, fault.line) {
            (None, _) => fault.to_string(),
            (Some(file), 0) => format!("{file}: {fault}"),
            (Some(file), line) => format!("{file}:{line}: rank {}: {}", fault.rank, fault.reason),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.programs.len() as u32
    }

    /// Number of ranks that work: all but the storage targets of training steps, which are the last ones.
    pub fn workers(&self) -> u32 {
        self.ranks() - self.training.as_ref().map_or(0, |training| training.storage)
    }

    /// Number of steps of all ranks.
    pub fn steps(&self) -> usize {
        self.programs.iter().map(|program| program.ops.len()).sum()
    }

    /// True if a receive accepts messages from any source or with any tag.
    pub fn has_wildcards(&self) -> bool {
        let wild = |op: &Op| matches!(op, Op::Receive { from, tag, .. } if from.is_none() || tag.is_none());
        self.programs.iter().any(|program| program.ops.iter().any(wild))
    }
}
