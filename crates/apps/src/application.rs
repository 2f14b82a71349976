//! An application: what each of its ranks does, as a trace or a generator tells it.

use crate::algorithm::{Algorithm, Kind};
use crate::replay::Fault;
use pauseframe_units::Span;

/// A request of a rank: the number that `isend` and `irecv` give and `wait` takes. Numbers are reused.
pub type Slot = u32;

/// One step of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Works without the network.
    Compute(Span),
    /// Sends a message. Without a request, the rank goes on when its buffer is free again.
    Send {
        /// World rank of the receiver.
        to: u32,
        /// Message tag.
        tag: i32,
        /// Position of the communicator in [`Application::comms`].
        comm: u32,
        /// For a send that does not block.
        request: Option<Slot>,
        /// Payload.
        bytes: u64,
    },
    /// Receives a message. Without a request, the rank goes on when it is complete.
    Receive {
        /// World rank of the sender; any, if `None`.
        from: Option<u32>,
        /// Message tag; any, if `None`.
        tag: Option<i32>,
        /// Position of the communicator in [`Application::comms`].
        comm: u32,
        /// For a receive that does not block.
        request: Option<Slot>,
        /// Size of the buffer; `u64::MAX` where the trace does not say.
        limit: u64,
    },
    /// Goes on when this request is complete.
    Wait(Slot),
    /// Goes on when `count` requests are, from `first` on in [`Program::waits`].
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
        /// For one that does not block.
        request: Option<Slot>,
    },
}

/// A collective operation, as one rank calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// What it does.
    pub kind: Kind,
    /// Position of the communicator in [`Application::comms`].
    pub comm: u32,
    /// World rank of the root, where there is one.
    pub root: u32,
    /// Payload: of the whole vector (bcast, reduce, allreduce, scan), of the block of one rank (gather,
    /// scatter, allgather, reduce-scatter), for one rank (all-to-all). What the rank itself has, for the
    /// variants with counts.
    pub bytes: u64,
    /// A size for each member: what it gets (all-to-all-v, scatter-v at the root, reduce-scatter) or gives
    /// (allgather-v); empty otherwise.
    pub counts: Box<[u64]>,
    /// The how-many-eth it is on its communicator, where the steps of a rank have no order of their own.
    pub number: Option<u32>,
    /// How it is carried out, where the application says so; by size otherwise.
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
    /// Where each stands in its file, from 1; empty where there is no file.
    pub lines: Vec<u32>,
    /// The requests of all `WaitAll`.
    pub waits: Vec<Slot>,
    /// The collective operations.
    pub calls: Vec<Call>,
    /// What must come before what; `None` for one after the other.
    pub order: Option<Dependences>,
}

/// Steps that are ordered by what they need, not by their place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dependences {
    /// The compute unit that a `Compute` occupies; one entry a step.
    pub units: Vec<u16>,
    /// Pairs (earlier, later): the later step begins when the earlier one is complete.
    pub after_end: Vec<(u32, u32)>,
    /// Pairs (earlier, later): the later step begins when the earlier one has begun.
    pub after_start: Vec<(u32, u32)>,
    /// Sends of any size leave at once and are complete when their last byte has left, whether or not a receive is posted.
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
    /// What it is called in tables: the name of its file or generator.
    pub name: String,
    /// One for each rank.
    pub programs: Vec<Program>,
    /// Communicators; the first has all ranks.
    pub comms: Vec<Communicator>,
    /// Names of its files, without their folders: one, or one for each rank; none where there is no file.
    pub files: Vec<String>,
    /// What the reader took note of: things it left out or understood in one of several ways.
    pub notes: Vec<String>,
}

impl Program {
    /// Appends a step that stands in `line` of its file (0: in none).
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

    /// The requests that a `WaitAll` names.
    pub(crate) fn waited(&self, first: u32, count: u32) -> &[Slot] {
        &self.waits[first as usize..(first + count) as usize]
    }

    /// Where a step stands in its file; 0 if in none.
    pub fn line(&self, step: usize) -> u32 {
        self.lines.get(step).copied().unwrap_or(0)
    }

    /// A step in a few words, for time lines.
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
    /// With these programs and the one communicator of all ranks.
    pub fn new(name: impl Into<String>, programs: Vec<Program>) -> Application {
        let world = Communicator::new((0..programs.len() as u32).collect());
        Application { name: name.into(), programs, comms: vec![world], files: Vec::new(), notes: Vec::new() }
    }

    /// A fault, with the file and the line in which it is.
    pub fn describe(&self, fault: &Fault) -> String {
        let file =
            if self.files.len() > 1 { self.files.get(fault.rank as usize) } else { self.files.first() };
        match (file, fault.line) {
            (None, _) => fault.to_string(),
            (Some(file), 0) => format!("{file}: {fault}"),
            (Some(file), line) => format!("{file}:{line}: rank {}: {}", fault.rank, fault.reason),
        }
    }

    /// How many ranks it has.
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
