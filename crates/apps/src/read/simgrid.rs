//! `SimGrid`'s time-independent traces: lines `RANK ACTION ARGUMENTS`, in one file for all ranks or one file
//! per rank.
//!
//! Computations count floating-point operations; sizes count elements of a data type. The data type is the
//! last argument; without it, elements are bytes after a plain `init`, and doubles after `init` with an
//! argument. A wait names (source, destination, tag), not a request. The reader skips tests: a later wait
//! completes their requests.
//!
//! Traces before `SimGrid` 3.20 have capitals in their names (`allReduce`, `Isend`, `waitAll`), no tags, and a `wait`
//! without arguments for the request that began last. One such name makes the whole trace an old one.

use super::text::{Line, ReadError, at_file, text};
use super::{ReadOptions, Source};
use crate::algorithm::Kind;
use crate::application::{Application, Call, Op, Program, Slot};
use pauseframe_units::Span;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const ACTIONS: [&str; 27] = [
    "init",
    "finalize",
    "comm_size",
    "comm_split",
    "comm_dup",
    "send",
    "isend",
    "recv",
    "irecv",
    "wait",
    "waitall",
    "test",
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "alltoall",
    "alltoallv",
    "gather",
    "allgather",
    "gatherv",
    "allgatherv",
    "scatter",
    "scatterv",
    "reducescatter",
    "compute",
    "sleep",
];

/// Size in bytes of each data type, indexed by its number in a trace (double, int, char, short, long, float,
/// byte, …).
const TYPES: [u64; 30] =
    [8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8];

/// `MPI_ANY_SOURCE` and `MPI_ANY_TAG` in `SimGrid`'s `smpi.h`, in current and in early versions.
const ANY_SOURCE: [i64; 2] = [-555, -1];
const ANY_TAG: [i32; 2] = [-444, -1];

/// A rank while it is read.
#[derive(Default)]
struct Reading {
    program: Program,
    /// Default size of an element in bytes; `None` before `init`.
    element: Option<u64>,
    finished: bool,
    /// Open requests by (source, destination, tag).
    open: BTreeMap<(u32, u32, i32), VecDeque<Slot>>,
    free: Vec<Slot>,
    slots: u32,
    /// The trace is older than `SimGrid` 3.20.
    is_old: bool,
    /// Keys of open requests of an old trace, in the order of their beginnings.
    begun: Vec<(u32, u32, i32)>,
}

pub(super) fn read(sources: &[Source], options: ReadOptions) -> Result<Application, ReadError> {
    if !(options.flops.is_finite() && options.flops > 0.0) {
        return Err(at_file(&sources[0].name, format!("needs a positive flops, not {}", options.flops)));
    }
    let mut ranks: BTreeMap<u32, Reading> = BTreeMap::new();
    let size = count_ranks(sources)?;
    let is_old = has_old_names(sources)?;
    let mut ignored = false;
    for source in sources {
        for (number, content) in (1..).zip(text(source)?.lines()) {
            let mut line = Line::new(&source.name, number, content);
            let Some(word) = line.next().filter(|word| !word.starts_with('#')) else { continue };
            let rank = rank_of(&line, word)?;
            let reading = ranks.entry(rank).or_insert_with(|| Reading { is_old, ..Reading::default() });
            let action = line.word("an action")?.to_ascii_lowercase();
            if reading.finished {
                return Err(line.error(format!("is an action of rank {rank} after its 'finalize'")));
            }
            if reading.element.is_none() && action != "init" {
                return Err(line.error(format!("is an action of rank {rank} before its 'init'")));
            }
            ignored |= action == "comm_split" || action == "comm_dup";
            reading.action(&action, rank, size, options.flops, &mut line)?;
        }
    }
    let cut = ranks.iter().find(|(_, reading)| !reading.finished);
    if let Some((rank, _)) = cut {
        let file = sources.get(*rank as usize).filter(|_| sources.len() > 1).unwrap_or(&sources[0]);
        return Err(at_file(&file.name, format!("has no 'finalize' of rank {rank}: it is cut short")));
    }
    let mut application = Application::new("", ranks.into_values().map(|reading| reading.program).collect());
    let flops = options.flops;
    application.notes.push(format!("computation counts flops; a rank does {flops:e} a second"));
    if ignored {
        application
            .notes
            .push("comm_split and comm_dup do nothing, as in SimGrid: all is on the world".to_owned());
    }
    Ok(application)
}

/// Whether an action has a name with capitals.
fn has_old_names(sources: &[Source]) -> Result<bool, ReadError> {
    for source in sources {
        let actions = text(source)?.lines().filter(|line| !line.trim_start().starts_with('#'));
        let actions = actions.filter_map(|line| line.split_ascii_whitespace().nth(1));
        if actions.into_iter().any(|action| {
            action.chars().any(|c| c.is_ascii_uppercase())
                && ACTIONS.contains(&action.to_ascii_lowercase().as_str())
        }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts the ranks of the trace, which must be numbered from 0 without gaps.
fn count_ranks(sources: &[Source]) -> Result<u32, ReadError> {
    let mut ranks = BTreeSet::new();
    for source in sources {
        for (number, content) in (1..).zip(text(source)?.lines()) {
            let mut line = Line::new(&source.name, number, content);
            if let Some(word) = line.next().filter(|word| !word.starts_with('#')) {
                ranks.insert(rank_of(&line, word)?);
            }
        }
    }
    for (expected, &rank) in (0..).zip(&ranks) {
        if rank != expected {
            return Err(at_file(&sources[0].name, format!("has a rank {rank} and no rank {expected}")));
        }
    }
    if ranks.is_empty() {
        Err(at_file(&sources[0].name, "is empty".to_owned()))
    } else {
        Ok(ranks.len() as u32)
    }
}

/// Parses a rank: `3`, `p3` or `rank-3`.
fn rank_of(line: &Line, word: &str) -> Result<u32, ReadError> {
    line.parse(word.trim_start_matches("rank-").trim_start_matches('p'), "a rank")
}

/// Parses a count and returns `WIDTH * COUNT` bytes; counts such as 1e6 are allowed.
fn bytes(line: &Line, word: &str, width: u64) -> Result<u64, ReadError> {
    let count: f64 = line.parse(word, "a size")?;
    if !(0.0..1e18).contains(&count) || count.fract() != 0.0 {
        return Err(line.error(format!("a size cannot be '{word}'")));
    }
    Ok((count as u64).saturating_mul(width))
}

impl Reading {
    fn action(
        &mut self,
        action: &str,
        me: u32,
        size: u32,
        flops: f64,
        line: &mut Line,
    ) -> Result<(), ReadError> {
        match action {
            "init" => {
                if self.element.is_some() {
                    return Err(line.error(format!("begins rank {me} for the second time")));
                }
                self.element = Some(if line.next().is_some() { TYPES[0] } else { 1 });
                return Ok(());
            }
            // MPI_Finalize returns when all communication is complete, so requests that only tests checked
            // are awaited here.
            "finalize" => {
                self.finished = true;
                self.wait_all(line.number);
            }
            "compute" => self.compute(line.number("flops")?, flops, line)?,
            "sleep" => self.compute(line.number("seconds")?, 1.0, line)?,
            "send" | "isend" | "recv" | "irecv" => self.point(action, me, line)?,
            "wait" if self.is_old => self.wait_last(line)?,
            "wait" => self.wait(line)?,
            "waitall" => self.wait_all(line.number),
            // These SimGrid actions do not affect the network.
            "comm_size" | "comm_split" | "comm_dup" | "test" | "location" => return Ok(()),
            _ => return self.collective(action, me, size, flops, line),
        }
        line.end()
    }

    /// Waits for all open requests.
    fn wait_all(&mut self, line: u32) {
        let slots: Vec<Slot> = std::mem::take(&mut self.open).into_values().flatten().collect();
        self.begun.clear();
        if !slots.is_empty() {
            self.program.push_waits(&slots, line);
            self.free.extend(slots);
        }
    }

    fn compute(&mut self, amount: f64, rate: f64, line: &Line) -> Result<(), ReadError> {
        let seconds = amount / rate;
        if !(0.0..1e6).contains(&seconds) {
            return Err(line.error(format!("takes {seconds} s; it must be from 0 to 1e6")));
        }
        if seconds > 0.0 {
            self.program.push(Op::Compute(Span::from_secs_f64(seconds)), line.number);
        }
        Ok(())
    }

    fn point(&mut self, action: &str, me: u32, line: &mut Line) -> Result<(), ReadError> {
        let peer: i64 = line.number("a rank")?;
        let tag: i32 = if self.is_old { 0 } else { line.number("a tag")? };
        let word = line.word("a size")?;
        let width = self.width(line)?;
        let send = action.ends_with("send");
        // SimGrid writes a size that is not positive for receives of unknown size.
        let unknown = !send && line.parse::<f64>(word, "a size")? <= 0.0;
        let size = if unknown { u64::MAX } else { bytes(line, word, width)? };
        let named = u32::try_from(peer).ok();
        let wild_tag = !send && ANY_TAG.contains(&tag);
        if named.is_none() && (send || !ANY_SOURCE.contains(&peer)) {
            return Err(line.error(format!("a rank cannot be '{peer}'")));
        }
        if tag < 0 && !wild_tag {
            return Err(line.error(format!("a tag cannot be '{tag}'")));
        }
        let ends = if send { (me, named.unwrap_or(0)) } else { (named.unwrap_or(u32::MAX), me) };
        let request = action.starts_with('i').then(|| self.begin((ends.0, ends.1, tag)));
        self.program.push(
            if send {
                Op::Send { to: ends.1, tag, comm: 0, request, bytes: size }
            } else {
                Op::Receive { from: named, tag: (!wild_tag).then_some(tag), comm: 0, request, limit: size }
            },
            line.number,
        );
        Ok(())
    }

    fn begin(&mut self, key: (u32, u32, i32)) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.open.entry(key).or_default().push_back(slot);
        if self.is_old {
            self.begun.push(key);
        }
        slot
    }

    /// Waits for the request that began last, as old traces do.
    fn wait_last(&mut self, line: &Line) -> Result<(), ReadError> {
        let slot = self.begun.pop().and_then(|key| self.open.get_mut(&key)?.pop_back());
        let slot = slot.ok_or_else(|| line.error("waits, but no isend or irecv is open".to_owned()))?;
        self.program.push(Op::Wait(slot), line.number);
        self.free.push(slot);
        Ok(())
    }

    /// Reads `wait SOURCE DESTINATION TAG`.
    fn wait(&mut self, line: &mut Line) -> Result<(), ReadError> {
        let (from, to) = (line.number("a source")?, line.number("a destination")?);
        let tag = line.number("a tag")?;
        let slot = self.open.get_mut(&(from, to, tag)).and_then(VecDeque::pop_front);
        let Some(slot) = slot else {
            let reason = format!(
                "waits for a message from {from} to {to} with tag {tag}, which no isend or irecv began"
            );
            return Err(line.error(reason));
        };
        self.program.push(Op::Wait(slot), line.number);
        self.free.push(slot);
        Ok(())
    }

    /// Size of an element in bytes: from the type at the end of the line, or else from `init`.
    fn width(&self, line: &mut Line) -> Result<u64, ReadError> {
        match line.optional::<usize>("a data type")? {
            None => Ok(self.element.unwrap_or(1)),
            Some(number) => {
                TYPES.get(number).copied().ok_or_else(|| line.error(format!("knows no data type {number}")))
            }
        }
    }

    fn collective(
        &mut self,
        action: &str,
        me: u32,
        size: u32,
        flops: f64,
        line: &mut Line,
    ) -> Result<(), ReadError> {
        let words: Vec<&str> = std::iter::from_fn(|| line.next()).collect();
        let arguments = Arguments { words, size: size as usize, element: self.element.unwrap_or(1) };
        let (call, work) = match action {
            "barrier" => (Call::new(Kind::Barrier, 0), None),
            "bcast" => (arguments.call(line, Kind::Bcast, 1, Some(1), 2)?, None),
            "reduce" => (arguments.call(line, Kind::Reduce, 2, Some(2), 3)?, Some(1)),
            "allreduce" => (arguments.call(line, Kind::Allreduce, 2, None, 2)?, Some(1)),
            "scan" | "exscan" => (arguments.call(line, Kind::Scan, 2, None, 2)?, Some(1)),
            "alltoall" => (arguments.call(line, Kind::Alltoall, 2, None, 2)?, None),
            "allgather" => (arguments.call(line, Kind::Allgather, 2, None, 2)?, None),
            "gather" => (arguments.call(line, Kind::Gather, 2, Some(2), 3)?, None),
            "scatter" => (arguments.scatter(line)?, None),
            "gatherv" => (arguments.gatherv(line)?, None),
            "allgatherv" => (arguments.counted(line, Kind::Allgatherv, 1, 1 + size as usize)?, None),
            "scatterv" => (arguments.scatterv(line)?, None),
            "alltoallv" => (arguments.counted(line, Kind::Alltoallv, 1, 2 + 2 * size as usize)?, None),
            "reducescatter" => {
                let call = arguments.counted(line, Kind::ReduceScatter, 0, 1 + size as usize)?;
                (call, Some(size as usize))
            }
            other => return Err(line.unknown("action", other, &ACTIONS)),
        };
        debug_assert!(me < size);
        arguments.end(line, action)?;
        self.program.push_call(call, None, line.number);
        if let Some(word) = work.and_then(|at| arguments.words.get(at)) {
            let amount = line.parse(word, "flops")?;
            self.compute(amount, flops, line)?;
        }
        Ok(())
    }
}

/// The words after the name of a collective action.
struct Arguments<'a> {
    words: Vec<&'a str>,
    size: usize,
    element: u64,
}

impl Arguments<'_> {
    /// Size of an element in bytes: from the type at this position, if the line is long enough.
    fn width(&self, line: &Line, at: usize) -> Result<u64, ReadError> {
        match self.words.get(at) {
            None => Ok(self.element),
            Some(word) => {
                let number: usize = line.parse(word, "a data type")?;
                TYPES.get(number).copied().ok_or_else(|| line.error(format!("knows no data type {number}")))
            }
        }
    }

    fn sizes(&self, line: &Line, from: usize, count: usize, width: u64) -> Result<Box<[u64]>, ReadError> {
        let Some(words) = self.words.get(from..from + count) else {
            let (given, needed) = (self.words.len(), from + count);
            return Err(line.error(format!("has {given} arguments; {} ranks need {needed}", self.size)));
        };
        words.iter().map(|word| bytes(line, word, width)).collect()
    }

    /// Reads a call whose first word is the size; the arguments give the positions of root and type.
    fn call(
        &self,
        line: &Line,
        kind: Kind,
        least: usize,
        root: Option<usize>,
        width: usize,
    ) -> Result<Call, ReadError> {
        if self.words.len() < least {
            return Err(line.error(format!("has {} arguments; {kind} needs {least}", self.words.len())));
        }
        let width = self.width(line, width)?;
        let bytes = bytes(line, self.words[0], width)?;
        Ok(Call { root: self.root(line, root)?, ..Call::new(kind, bytes) })
    }

    /// Checks that nothing follows the types at the end of an action.
    fn end(&self, line: &Line, action: &str) -> Result<(), ReadError> {
        let most = match action {
            "barrier" => 0,
            "allreduce" | "scan" | "exscan" | "bcast" => 3,
            "reduce" | "alltoall" | "allgather" => 4,
            "gather" | "scatter" => 5,
            "reducescatter" => self.size + 2,
            "allgatherv" => self.size + 3,
            "gatherv" | "scatterv" => self.size + 4,
            _ => 2 * self.size + 4,
        };
        match self.words.get(most) {
            Some(word) => Err(line.error(format!("has '{word}' where it should end"))),
            None => Ok(()),
        }
    }

    fn root(&self, line: &Line, at: Option<usize>) -> Result<u32, ReadError> {
        match at.and_then(|at| self.words.get(at)) {
            Some(word) => line.parse(word, "a root"),
            None => Ok(0),
        }
    }

    /// Reads `SEND RECEIVE [ROOT [TYPE TYPE]]`; the receive size counts, because the root states it too.
    fn scatter(&self, line: &Line) -> Result<Call, ReadError> {
        let call = self.call(line, Kind::Scatter, 2, Some(2), 3)?;
        let width = self.width(line, 4.min(self.words.len()))?;
        Ok(Call { bytes: bytes(line, self.words[1], width)?, ..call })
    }

    /// Reads sizes for all ranks from position `from`, and the type at position `width`.
    fn counted(&self, line: &Line, kind: Kind, from: usize, width: usize) -> Result<Call, ReadError> {
        let width = self.width(line, width)?;
        let counts = self.sizes(line, from, self.size, width)?;
        let mean = counts.iter().fold(0_u64, |sum, &count| sum.saturating_add(count)) / self.size as u64;
        Ok(Call { counts: counts.into(), ..Call::new(kind, if kind == Kind::Alltoallv { 0 } else { mean }) })
    }

    /// Reads `SEND COUNTS… [ROOT [TYPE TYPE]]`: each rank knows the size that it sends.
    fn gatherv(&self, line: &Line) -> Result<Call, ReadError> {
        let root = self.root(line, Some(1 + self.size))?;
        let width = self.width(line, 2 + self.size)?;
        let _ = self.sizes(line, 0, 1 + self.size, width)?;
        Ok(Call { root, ..Call::new(Kind::Gatherv, bytes(line, self.words[0], width)?) })
    }

    /// Reads `COUNTS… RECEIVE [ROOT [TYPE TYPE]]`.
    fn scatterv(&self, line: &Line) -> Result<Call, ReadError> {
        let root = self.root(line, Some(1 + self.size))?;
        let width = self.width(line, 2 + self.size)?;
        let counts = self.sizes(line, 0, self.size, width)?;
        Ok(Call { root, counts: counts.into(), ..Call::new(Kind::Scatterv, 0) })
    }
}
