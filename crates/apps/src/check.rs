//! Checks an application before it runs.

use crate::algorithm::Kind;
use crate::application::{Application, Op, Program, Slot};
use crate::replay::Fault;
use pauseframe_units::Span;

/// Limits on message sizes and computation times, below which sums cannot overflow.
const BYTES_MAX: u64 = 1_000_000_000_000;
const COMPUTE_MAX: Span = Span::from_secs(1_000_000);

/// Finds the first mistake: a rank, communicator or request that does not exist; a request that is started
/// twice, awaited twice or never awaited; an unreasonable size; a collective operation on which its members
/// disagree; steps that depend on each other in a cycle.
///
/// # Errors
/// The rank, the line and the reason of the mistake.
pub fn check(application: &Application) -> Result<(), Fault> {
    for (rank, program) in (0..).zip(&application.programs) {
        check_steps(application, rank, program)?;
        check_dependences(rank, program)?;
    }
    check_collectives(application)
}

fn fault(rank: u32, program: &Program, step: usize, reason: String) -> Fault {
    Fault { rank, line: program.line(step), step: step as u32, reason }
}

fn check_steps(application: &Application, rank: u32, program: &Program) -> Result<(), Fault> {
    let ranks = application.ranks();
    let mut requests = Requests(vec![State::New; program.slots()]);
    for (step, op) in program.ops.iter().enumerate() {
        let wrong = |reason: String| Err(fault(rank, program, step, reason));
        let member = |comm: u32, who: u32| {
            application.comms.get(comm as usize).is_some_and(|comm| comm.position(who).is_some())
        };
        let (peer, comm, request) = match *op {
            Op::Send { to, comm, request, .. } => (Some(to), comm, request),
            Op::Receive { from, comm, request, .. } => (from, comm, request),
            Op::Collective { call, request } => {
                let call = &program.calls[call as usize];
                let size = application.comms.get(call.comm as usize).map_or(0, |comm| comm.members().len());
                if !call.counts.is_empty() && call.counts.len() != size {
                    let given = call.counts.len();
                    return wrong(format!("{} has {given} sizes for {size} members", call.kind));
                }
                (has_root(call.kind).then_some(call.root), call.comm, request)
            }
            Op::Compute(span) if span > COMPUTE_MAX => {
                return wrong(format!("computes for {span}; at most {COMPUTE_MAX}"));
            }
            Op::Compute(_) | Op::Mark => continue,
            Op::Wait(slot) => {
                requests.wait(program, step, &[slot]).or_else(wrong)?;
                continue;
            }
            Op::WaitAll { first, count } => {
                requests.wait(program, step, program.waited(first, count)).or_else(wrong)?;
                continue;
            }
        };
        if let Some(peer) = peer.filter(|&peer| peer >= ranks) {
            return wrong(format!("names rank {peer}; there are ranks 0 to {}", ranks - 1));
        }
        if let Some(who) = [Some(rank), peer].into_iter().flatten().find(|&who| !member(comm, who)) {
            return wrong(format!("rank {who} is not in communicator {comm}"));
        }
        if let Some(bytes) = bytes_of(program, op).filter(|&bytes| bytes > BYTES_MAX) {
            return wrong(format!("has {bytes} bytes; at most {BYTES_MAX}"));
        }
        if let Some(slot) = request {
            requests.begin(program, step, slot).or_else(wrong)?;
        }
    }
    match requests.open() {
        Some((slot, step)) => {
            let reason = format!("begins request {slot}, for which nothing waits");
            Err(fault(rank, program, step, reason))
        }
        None => Ok(()),
    }
}

/// The largest size that a step sends; receive buffers do not count.
fn bytes_of(program: &Program, op: &Op) -> Option<u64> {
    match *op {
        Op::Send { bytes, .. } => Some(bytes),
        Op::Collective { call, .. } => {
            let call = &program.calls[call as usize];
            call.counts.iter().copied().chain([call.bytes]).max()
        }
        _ => None,
    }
}

/// The state of each request, with the step that started or awaited it last.
struct Requests(Vec<State>);

#[derive(Clone, Copy)]
enum State {
    New,
    Open(usize),
    Awaited(usize),
}

/// Describes the place of a step, for messages that name two steps.
fn place(program: &Program, step: usize) -> String {
    match program.line(step) {
        0 => format!("step {step}"),
        line => format!("line {line}"),
    }
}

impl Requests {
    fn begin(&mut self, program: &Program, step: usize, slot: Slot) -> Result<(), String> {
        match std::mem::replace(&mut self.0[slot as usize], State::Open(step)) {
            State::Open(before) => {
                let before = place(program, before);
                Err(format!("begins request {slot} again: nothing has waited for that of {before}"))
            }
            State::New | State::Awaited(_) => Ok(()),
        }
    }

    fn wait(&mut self, program: &Program, step: usize, slots: &[Slot]) -> Result<(), String> {
        for &slot in slots {
            match std::mem::replace(&mut self.0[slot as usize], State::Awaited(step)) {
                State::New => return Err(format!("waits for request {slot}, which nothing has begun")),
                State::Awaited(before) => {
                    let before = place(program, before);
                    return Err(format!("waits for request {slot} again: {before} has done so"));
                }
                State::Open(_) => {}
            }
        }
        Ok(())
    }

    /// The first request that is still open, and the step that started it.
    fn open(&self) -> Option<(Slot, usize)> {
        let open = (0..).zip(&self.0).filter_map(|(slot, state)| match *state {
            State::Open(step) => Some((slot, step)),
            State::New | State::Awaited(_) => None,
        });
        open.min_by_key(|&(_, step)| step)
    }
}

fn has_root(kind: Kind) -> bool {
    matches!(kind, Kind::Bcast | Kind::Reduce | Kind::Gather | Kind::Gatherv | Kind::Scatter | Kind::Scatterv)
}

/// Detects steps that depend on each other in a cycle; the fault names the first of them in the file.
fn check_dependences(rank: u32, program: &Program) -> Result<(), Fault> {
    let Some(order) = &program.order else { return Ok(()) };
    let Some(steps) = circle(program.ops.len(), order.after_end.iter().chain(&order.after_start)) else {
        return Ok(());
    };
    let name = |&step: &usize| match program.line(step) {
        0 => format!("node {}", step + 1),
        line => format!("line {line}"),
    };
    let reason = format!("depends on itself: {}", around(steps.iter().map(name), "needs"));
    Err(fault(rank, program, steps[0], reason))
}

/// A circle of steps, each of which needs the next, from its first step in the file on; given pairs (earlier, later).
pub fn circle<'a>(steps: usize, pairs: impl Iterator<Item = &'a (u32, u32)>) -> Option<Vec<usize>> {
    let mut later = vec![Vec::new(); steps];
    let mut earlier = vec![Vec::new(); steps];
    let mut needs = vec![0_u32; steps];
    for &(from, to) in pairs {
        later[from as usize].push(to);
        earlier[to as usize].push(from as usize);
        needs[to as usize] += 1;
    }
    let mut ready: Vec<usize> = (0..needs.len()).filter(|&step| needs[step] == 0).collect();
    while let Some(step) = ready.pop() {
        for &to in &later[step] {
            needs[to as usize] -= 1;
            if needs[to as usize] == 0 {
                ready.push(to as usize);
            }
        }
    }
    // A step that is left may only come after a circle, but the way back from it ends in one.
    let mut way = vec![needs.iter().position(|&needs| needs > 0)?];
    let mut place = vec![None; steps];
    loop {
        let step = way[way.len() - 1];
        if let Some(first) = place[step] {
            way.pop();
            let mut found = way.split_off(first);
            let least = (0..found.len()).min_by_key(|&index| found[index])?;
            found.rotate_left(least);
            return Some(found);
        }
        place[step] = Some(way.len() - 1);
        way.push(earlier[step].iter().copied().find(|&before| needs[before] > 0)?);
    }
}

/// A circle in words, "a needs b needs a", with at most eight names.
pub fn around(names: impl ExactSizeIterator<Item = String> + Clone, verb: &str) -> String {
    const SHOWN: usize = 8;
    let more = names.len().saturating_sub(SHOWN);
    let between = (more > 0).then(|| format!("({more} more)"));
    let all: Vec<String> = names.clone().take(SHOWN).chain(between).chain(names.take(1)).collect();
    all.join(&format!(" {verb} "))
}

/// For each communicator, the calls of a rank as (step, call).
type Calls = Vec<Vec<(usize, u32)>>;

/// Checks that all members call the same operations in the same order, with the same root and size.
fn check_collectives(application: &Application) -> Result<(), Fault> {
    let calls: Vec<Calls> = application.programs.iter().map(|program| calls(application, program)).collect();
    for (comm, communicator) in application.comms.iter().enumerate() {
        let Some((&first, others)) = communicator.members().split_first() else { continue };
        let model = &calls[first as usize][comm];
        for &rank in others {
            let program = &application.programs[rank as usize];
            let mine = &calls[rank as usize][comm];
            for (number, (&(step, call), &(_, theirs))) in mine.iter().zip(model).enumerate() {
                let call = &program.calls[call as usize];
                let theirs = &application.programs[first as usize].calls[theirs as usize];
                let sized =
                    matches!(call.kind, Kind::Bcast | Kind::Reduce | Kind::Allreduce | Kind::Alltoall);
                let same = call.kind == theirs.kind
                    && (!has_root(call.kind) || call.root == theirs.root)
                    && (!sized || call.bytes == theirs.bytes);
                if !same {
                    let describe = |call: &crate::Call| {
                        let root =
                            if has_root(call.kind) { format!(", root {}", call.root) } else { String::new() };
                        format!("{} of {} B{root}", call.kind, call.bytes)
                    };
                    let (mine, theirs) = (describe(call), describe(theirs));
                    let reason = format!(
                        "collective operation {number} on communicator {comm} is {mine} here and {theirs} on rank {first}"
                    );
                    return Err(fault(rank, program, step, reason));
                }
            }
            if mine.len() != model.len() {
                let reason = format!(
                    "calls {} collective operations on communicator {comm}, rank {first} calls {}",
                    mine.len(),
                    model.len()
                );
                return Err(fault(rank, program, program.ops.len().saturating_sub(1), reason));
            }
        }
    }
    Ok(())
}

/// Collects the calls in the order of their sequence numbers, if any.
fn calls(application: &Application, program: &Program) -> Calls {
    let mut calls: Calls = vec![Vec::new(); application.comms.len()];
    for (step, op) in program.ops.iter().enumerate() {
        if let Op::Collective { call, .. } = *op {
            calls[program.calls[call as usize].comm as usize].push((step, call));
        }
    }
    for list in &mut calls {
        list.sort_by_key(|&(_, call)| program.calls[call as usize].number);
    }
    calls
}
