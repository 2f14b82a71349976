//! An application: the steps of its ranks, from a trace or a generator.

use crate::algorithm::{Algorithm, Kind};
use crate::replay::Fault;
use pauseframe_units::Span;

/// A request of a rank: `isend` and `irecv` return it, `wait` takes it. Numbers are reused.
pub type Slot = u32;

/// One step of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Computes.
    Compute(Span),
    /// Sends a message. Without a request, the rank continues when its buffer is free again.
    Send {
        /// World rank of the receiver.
        to: u32,
        /// Message tag.
        tag: i32,
        /// Position of the communicator in [`Application::comms`].
        comm: u32,
        /// For a non-blocking send.
        request: Option<Slot>,
        /// Payload.
        bytes: u64,
    },
    /// Receives a message. Without a request, the rank continues when it is complete.
    Receive {
        /// World rank of the sender; any, if `None`.
        from: Option<u32>,
        /// Message tag; any, if `None`.
        tag: Option<i32>,
        /// Position of the communicator in [`Application::comms`].
        comm: u32,
        /// For a non-blocking receive.
        request: Option<Slot>,
        /// Size of the buffer; `u64::MAX` if the trace does not contain it.
        limit: u64,
    },
    /// Waits until this request is complete.
    Wait(Slot),
    /// Waits until `count` requests are complete, from `first` on in [`Program::waits`].
    WaitAll {
        /// Position of the first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Takes part in a collective operation.
    Collective {
        /// Position in [`Program::calls`].
        call: u32,
        /// For a non-blocking operation.
        request: Option<Slot>,
    },
}

/// A call of a collective operation by one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The operation.
    pub kind: Kind,
    /// Position of the communicator in [`Application::comms`].
    pub comm: u32,
    /// World rank of the root, if the operation has one.
    pub root: u32,
    /// Payload: of the whole vector (bcast, reduce, allreduce, scan), of the block of one rank (gather, scatter,
    /// allgather, reduce-scatter), or for one rank (all-to-all). For variants with counts, the rank's own block.
    pub bytes: u64,
    /// A size per member that it receives (all-to-all-v, scatter-v at the root, reduce-scatter) or contributes
    /// (allgather-v); empty otherwise.
    pub counts: Box<[u64]>,
    /// Number of the call on its communicator, if the steps of a rank have no order.
    pub number: Option<u32>,
    /// The algorithm that the application prescribes; otherwise chosen by size.
    pub algorithm: Option<Algorithm>,
}

impl Call {
    /// On all ranks, with rank 0 as root.
    pub fn new(kind: Kind, bytes: u64) -> Call {
        Call { kind, comm: 0, root: 0, bytes, counts: Box::default(), number: None, algorithm: None }
    }
}

/// The steps of one rank.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// In the order of the trace.
    pub ops: Vec<Op>,
    /// Line of each step in its file, from 1; empty without a file.
    pub lines: Vec<u32>,
    /// The requests of all `WaitAll` steps.
    pub waits: Vec<Slot>,
    /// The collective operations.
    pub calls: Vec<Call>,
    /// Dependences of steps; `None` for sequential steps.
    pub order: Option<Dependences>,
}

/// Steps ordered by their dependences, not by their place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dependences {
    /// The compute unit that a `Compute` occupies; one entry per step.
    pub units: Vec<u16>,
    /// Pairs (earlier, later): the later step begins when the earlier one is complete.
    pub after_end: Vec<(u32, u32)>,
    /// Pairs (earlier, later): the later step begins when the earlier one has begun.
    pub after_start: Vec<(u32, u32)>,
    /// Sends of any size leave at once and are complete when their last byte has left, even if no receive is posted.
    /// `false`: above the eager limit a send waits for its receive, as in MPI.
    pub asynchronous_sends: bool,
}

/// The members of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Communicator {
    members: Vec<u32>,
    /// (world rank, position), sorted.
    positions: Vec<(u32, u32)>,
}

impl Communicator {
    /// Of these world ranks, in their order.
    pub fn new(members: Vec<u32>) -> Communicator {
        let mut positions: Vec<(u32, u32)> = members.iter().copied().zip(0..).collect();
        positions.sort_unstable();
        Communicator { members, positions }
    }

    /// World ranks, in the order of the communicator.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The rank in this communicator of a world rank.
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
    /// One for each rank.
    pub programs: Vec<Program>,
    /// Communicators; the first has all ranks.
    pub comms: Vec<Communicator>,
    /// Names of its files without folders: one, or one per rank; empty without files.
    pub files: Vec<String>,
    /// Notes of the reader: what it ignored, or interpreted among several possibilities.
    pub notes: Vec<String>,
}

impl Program {
    /// Appends a step from `line` of its file (0: from none).
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

    /// Appends the wait for these requests.
    pub fn push_waits(&mut self, slots: &[Slot], line: u32) {
        let first = self.waits.len() as u32;
        self.waits.extend_from_slice(slots);
        self.push(Op::WaitAll { first, count: slots.len() as u32 }, line);
    }

    /// The requests of a `WaitAll`.
    pub(crate) fn waited(&self, first: u32, count: u32) -> &[Slot] {
        &self.waits[first as usize..(first + count) as usize]
    }

    /// Line of a step in its file; 0 if none.
    pub fn line(&self, step: usize) -> u32 {
        self.lines.get(step).copied().unwrap_or(0)
    }

    /// A short description of a step, for timelines.
    pub fn describe(&self, step: u32) -> String {
        match self.ops[step as usize] {
            Op::Compute(_) => "compute".to_owned(),
            Op::Send { to, bytes, .. } => format!("send {bytes} B to {to}"),
            Op::Receive { from: Some(from), .. } => format!("receive from {from}"),
            Op::Receive { from: None, .. } => "receive from any".to_owned(),
            Op::Wait(_) | Op::WaitAll { .. } => "wait".to_owned(),
            Op::Collective { call, .. } => self.calls[call as usize].kind.to_string(),
        }
    }

    /// One more than the largest request number.
    pub(crate) fn slots(&self) -> usize {
        let named = |op: &Op| match *op {
            Op::Send { request, .. } | Op::Receive { request, .. } | Op::Collective { request, .. } => {
                request
            }
            Op::Wait(slot) => Some(slot),
            Op::Compute(_) | Op::WaitAll { .. } => None,
        };
        let largest = self.ops.iter().filter_map(named).chain(self.waits.iter().copied()).max();
        largest.map_or(0, |slot| slot as usize + 1)
    }
}

impl Application {
    /// An application with these programs and one communicator of all ranks.
    pub fn new(name: impl Into<String>, programs: Vec<Program>) -> Application {
        let world = Communicator::new((0..programs.len() as u32).collect());
        Application { name: name.into(), programs, comms: vec![world], files: Vec::new(), notes: Vec::new() }
    }

    /// A fault with its file and line.
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

    /// Steps of all ranks.
    pub fn steps(&self) -> usize {
        self.programs.iter().map(|program| program.ops.len()).sum()
    }

    /// Whether some receive takes a message from any source or with any tag.
    pub fn has_wildcards(&self) -> bool {
        let wild = |op: &Op| matches!(op, Op::Receive { from, tag, .. } if from.is_none() || tag.is_none());
        self.programs.iter().any(|program| program.ops.iter().any(wild))
    }
}
