//! One rank: its program, its requests, and the messages that reach it.
//!
//! The owner tells a rank when a timer expires or a message has arrived or been sent; the rank answers with
//! messages and timers. A rank accesses only its own state, so ranks of different hosts can run in different
//! threads.
//!
//! Protocols: a message of at most `eager_limit` bytes is sent at once with its envelope, and its sender
//! continues. A larger message is announced; when its receive is posted, the receiver requests the data, and
//! the sender continues when the data has been sent (rendezvous). Programs with asynchronous sends announce
//! nothing: a message of any size leaves at once. Messages of a rank to itself take no time.

mod cursor;
mod lanes;
mod matching;
mod messaging;
mod rounds;
mod run;
mod status;
mod timeline;

pub(crate) use run::part;
pub use timeline::{Activity, Ongoing, Stretch, Totals};

use crate::algorithm::{Algorithm, Round};
use crate::application::{Application, Op, Program, Slot};
use crate::nccl::Layout;
use crate::replay::{Fault, Options, Outbox};
use cursor::{ByDependence, InTurn};
use lanes::{EarlySlice, LaneRun, Waiting};
use matching::{Matching, Wanted};
use pauseframe_units::Time;
use std::collections::VecDeque;
use timeline::Timeline;

/// A message between two ranks on the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// World rank of the sender.
    pub from: u32,
    /// World rank of the receiver.
    pub to: u32,
    /// Bytes on the connection, including the envelope.
    pub bytes: u64,
    /// The request of the sender that is complete when this message has been sent.
    pub notify: Option<u32>,
    /// When the rank sent it.
    pub(crate) left: Time,
    pub(crate) part: Part,
}

/// The role of a message in its protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A whole message without announcement.
    Eager(Envelope),
    /// The announcement of a large message.
    Announce { envelope: Envelope, sender: u32 },
    /// The answer that the receiver is ready for the message.
    Clear { sender: u32, receiver: u32 },
    /// The data of an announced message.
    Data { receiver: u32 },
    /// A slice of a collective operation of NCCL.
    Slice(Slice),
}

/// The place of a slice in its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    pub(crate) comm: u32,
    /// Number of the operation on its communicator.
    pub(crate) number: i32,
    /// Connection between both ranks.
    pub(crate) lane: u16,
    /// The last one on its connection.
    pub(crate) is_last: bool,
    /// The sender's and the receiver's number of the connection.
    pub(crate) out: u32,
    pub(crate) slot: u32,
}

impl Message {
    /// The connection between both ranks that carries the message.
    pub(crate) fn lane(&self) -> u16 {
        match self.part {
            Part::Slice(slice) => slice.lane,
            _ => 0,
        }
    }
}

/// The properties of a message that matching compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    pub(crate) context: u32,
    pub(crate) tag: i32,
    pub(crate) bytes: u64,
}

/// The party that waits for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// The program, which blocks at its current step.
    Block,
    /// The program, which will wait for this request later.
    Slot(Slot),
    /// A step of a program with dependences.
    Step(u32),
    /// A collective operation in progress.
    Run(u32),
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Free { next: u32 },
    Send { owner: Owner, to: u32, bytes: u64 },
    Receive { owner: Owner, from: Option<u32>, tag: Option<i32>, limit: u64, step: u32 },
}

/// A message or an announcement that arrived before its receive was posted.
#[derive(Clone, Copy, Debug)]
struct Early {
    envelope: Envelope,
    from: u32,
    /// The sender's request, if the message is announced.
    announced: Option<u32>,
    /// When it left.
    left: Time,
}

/// A collective operation in progress.
#[derive(Clone, Copy, Debug)]
struct Run {
    owner: Owner,
    call: u32,
    step: u32,
    algorithm: Algorithm,
    /// The sequence number of the operation on its communicator.
    number: i32,
    round: u32,
    /// Number of incomplete messages of the round.
    open: u32,
}

#[derive(Debug)]
enum Cursor {
    InTurn(InTurn),
    ByDependence(ByDependence),
}

/// The context of point-to-point or collective messages on a communicator.
pub(crate) fn context(comm: u32, collective: bool) -> u32 {
    comm * 2 + u32::from(collective)
}

/// Read-only data that all ranks share.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub(crate) application: &'a Application,
    pub(crate) options: &'a Options,
    /// By communicator, if collectives are NCCL's.
    pub(crate) layouts: &'a [Layout],
}

#[derive(Debug)]
pub(crate) struct Rank {
    id: u32,
    cursor: Cursor,
    requests: Vec<Request>,
    free: u32,
    matching: Matching<Early>,
    runs: Vec<Option<Run>>,
    /// Operations of NCCL in progress: one for each communicator, which has a stream.
    lane_runs: Vec<LaneRun>,
    /// Operations that wait for their stream, in order.
    waiting: VecDeque<Waiting>,
    /// Slices of operations that this rank has not begun.
    early_slices: Vec<EarlySlice>,
    /// For each communicator, the number of collective operations begun.
    numbers: Vec<i32>,
    /// Completed requests whose owner has not been notified yet.
    complete: VecDeque<(Owner, bool)>,
    /// Messages of the rank to itself.
    own: VecDeque<Envelope>,
    round: Round,
    pub(crate) timeline: Timeline,
    pub(crate) finished: Option<Time>,
    /// When each iteration ended.
    pub(crate) iterations: Vec<Time>,
    /// When the message left that a receive took last.
    left: Time,
    pub(crate) faults: Vec<Fault>,
    computing: bool,
}

const NONE: u32 = u32::MAX;

impl Rank {
    pub(crate) fn new(id: u32, application: &Application, record: bool) -> Rank {
        let program = &application.programs[id as usize];
        let cursor = match &program.order {
            None => Cursor::InTurn(InTurn::new(program)),
            Some(order) => Cursor::ByDependence(ByDependence::new(program, order)),
        };
        Rank {
            id,
            cursor,
            requests: Vec::new(),
            free: NONE,
            matching: Matching::default(),
            runs: Vec::new(),
            lane_runs: Vec::new(),
            waiting: VecDeque::new(),
            early_slices: Vec::new(),
            numbers: vec![0; application.comms.len()],
            complete: VecDeque::new(),
            own: VecDeque::new(),
            round: Round::default(),
            timeline: Timeline::new(record),
            finished: None,
            iterations: Vec::new(),
            left: Time::ZERO,
            faults: Vec::new(),
            computing: false,
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Ends a computation; `token` is the token of its timer.
    pub(crate) fn on_timer(&mut self, token: u32, now: Time, world: World, out: &mut Outbox) {
        match &mut self.cursor {
            Cursor::InTurn(_) => self.computing = false,
            Cursor::ByDependence(cursor) => {
                let program = &world.application.programs[self.id as usize];
                let units = program.order.as_ref().map_or(&[][..], |order| &order.units);
                cursor.vacate(units[token as usize]);
                cursor.complete(token, false);
            }
        }
        self.drive(now, world, out);
    }

    /// Handles an arrived message.
    pub(crate) fn on_message(&mut self, message: &Message, now: Time, world: World, out: &mut Outbox) {
        match message.part {
            Part::Eager(envelope) => {
                let early = Early { envelope, from: message.from, announced: None, left: message.left };
                self.arrive(early, now, world, out);
            }
            Part::Announce { envelope, sender } => {
                let announced = Some(sender);
                let early = Early { envelope, from: message.from, announced, left: message.left };
                self.arrive(early, now, world, out);
            }
            Part::Clear { sender, receiver } => self.transfer(sender, receiver, now, out),
            Part::Data { receiver } => self.close(receiver),
            Part::Slice(slice) => self.on_slice(message.from, slice, now, world, out),
        }
        self.drive(now, world, out);
    }

    /// Handles the report that a message with `notify` has been sent.
    pub(crate) fn on_sent(&mut self, request: u32, now: Time, world: World, out: &mut Outbox) {
        self.close(request);
        self.drive(now, world, out);
    }

    /// Advances the rank as far as possible.
    pub(crate) fn drive(&mut self, now: Time, world: World, out: &mut Outbox) {
        loop {
            if let Some((owner, send)) = self.complete.pop_front() {
                self.tell(owner, send, now, world, out);
            } else if let Some(envelope) = self.own.pop_front() {
                self.arrive(Early { envelope, from: self.id, announced: None, left: now }, now, world, out);
            } else if !self.advance(now, world, out) {
                break;
            }
        }
        self.note_activity(now, world);
    }

    /// Starts one step; returns false if no step can begin now.
    fn advance(&mut self, now: Time, world: World, out: &mut Outbox) -> bool {
        let program = &world.application.programs[self.id as usize];
        let (step, by_dependence) = match &mut self.cursor {
            Cursor::InTurn(cursor) => {
                if self.computing || cursor.is_blocked() || cursor.at == program.ops.len() {
                    return false;
                }
                cursor.at += 1;
                ((cursor.at - 1) as u32, false)
            }
            Cursor::ByDependence(cursor) => match cursor.next() {
                Some(step) => (step, true),
                None => return false,
            },
        };
        self.take(step, by_dependence, program, now, world, out);
        true
    }

    fn take(&mut self, step: u32, free: bool, program: &Program, now: Time, world: World, out: &mut Outbox) {
        match program.ops[step as usize] {
            Op::Compute(span) => {
                let span = world.options.scaled(span);
                if let Cursor::ByDependence(cursor) = &mut self.cursor {
                    let units = program.order.as_ref().map_or(&[][..], |order| &order.units);
                    if !cursor.occupy(units[step as usize], step) {
                        return;
                    }
                    cursor.begin(step, false);
                }
                self.computing = !free;
                let left = self.left;
                let cause = |step| program.group(step).map(|group| (group, left));
                self.timeline.change(Some((Activity::Compute, step)), now, cause);
                out.timer(self.id, now.saturating_add(span), step);
            }
            Op::Send { to, tag, comm, request, bytes } => {
                let owner = self.begin(step, request, true, free, program);
                let envelope = Envelope { context: context(comm, false), tag, bytes };
                if program.order.as_ref().is_some_and(|order| order.asynchronous_sends) {
                    self.send_asynchronously(envelope, to, owner, now, world, out);
                } else {
                    self.send(envelope, to, owner, now, world, out);
                }
            }
            Op::Receive { from, tag, comm, request, limit } => {
                let owner = self.begin(step, request, false, free, program);
                let wanted = Wanted { from, tag, context: context(comm, false) };
                self.receive(wanted, limit, step, owner, now, world, out);
            }
            Op::Collective { call, request } => {
                let owner = self.begin(step, request, false, free, program);
                self.start_run(call, step, owner, now, world, out);
            }
            Op::Mark => self.iterations.push(now),
            Op::Wait(slot) => self.wait(&[slot], step, program),
            Op::WaitAll { first, count } => self.wait(program.waited(first, count), step, program),
        }
    }

    /// Returns the owner to notify when the request of a step is complete.
    fn begin(&mut self, step: u32, slot: Option<Slot>, send: bool, free: bool, program: &Program) -> Owner {
        match (&mut self.cursor, slot) {
            (Cursor::ByDependence(cursor), _) => {
                debug_assert!(free);
                cursor.begin(step, send);
                Owner::Step(step)
            }
            (Cursor::InTurn(cursor), None) => {
                cursor.block(send);
                Owner::Block
            }
            (Cursor::InTurn(cursor), Some(slot)) => {
                if !cursor.begin(slot, send) {
                    let reason = format!("request {slot} is begun again before it is complete");
                    self.fault(program, step, reason);
                }
                Owner::Slot(slot)
            }
        }
    }

    fn wait(&mut self, slots: &[Slot], step: u32, program: &Program) {
        let Cursor::InTurn(cursor) = &mut self.cursor else { return };
        let unknown: Vec<Slot> = slots.iter().copied().filter(|&slot| !cursor.wait(slot)).collect();
        for slot in unknown {
            self.fault(program, step, format!("waits for request {slot}, which nothing has begun"));
        }
    }

    fn fault(&mut self, program: &Program, step: u32, reason: String) {
        self.faults.push(Fault { rank: self.id, line: program.line(step as usize), step, reason });
    }

    /// Notifies the owner of a completed request.
    fn tell(&mut self, owner: Owner, send: bool, now: Time, world: World, out: &mut Outbox) {
        match (owner, &mut self.cursor) {
            (Owner::Block, Cursor::InTurn(cursor)) => cursor.unblock(send),
            (Owner::Slot(slot), Cursor::InTurn(cursor)) => cursor.complete(slot),
            (Owner::Step(step), Cursor::ByDependence(cursor)) => cursor.complete(step, send),
            (Owner::Run(run), _) => {
                if let Some(run) = self.runs[run as usize].as_mut() {
                    run.open -= 1;
                }
                self.continue_run(run, now, world, out);
            }
            _ => unreachable!("owners are made by the cursor that they are told to"),
        }
    }
}
