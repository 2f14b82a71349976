//! `npb-pmpi-trace 1`: the output of a PMPI wrapper, one text file for all ranks.
//!
//! The line `rank R of N` begins a rank. Each MPI call has one line: nanoseconds of CPU time since the
//! previous call, the operation, its arguments. Peers and roots are world ranks; numbers of communicators and
//! requests are local to the rank. `end` ends the rank. Programs written in Python use the same lines; `any`
//! stands for any source, any tag, or a buffer of any size.

use super::Source;
use super::text::{Line, ReadError, at_file, text};
use crate::algorithm::Kind;
use crate::application::{Application, Call, Communicator, Op, Program, Slot};
use pauseframe_units::Span;
use pauseframe_units::limits::Limit;
use std::collections::{BTreeMap, BTreeSet};

const OPERATIONS: [&str; 21] = [
    "send",
    "recv",
    "isend",
    "irecv",
    "wait",
    "waitall",
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "alltoall",
    "alltoallv",
    "comm_split",
    "comm_dup",
    "comm",
    "end",
    "allgather",
    "gather",
    "scatter",
    "reduce_scatter",
    "scan",
];

/// Communicators by members and number of earlier communicators with the same members; if both agree on all
/// members, it is the same communicator.
type Known = BTreeMap<(Vec<u32>, u32), u32>;

/// A rank while it is read.
struct Reading {
    id: u32,
    program: Program,
    /// Maps the rank's communicator numbers to indices in the application.
    comms: BTreeMap<u32, u32>,
    /// Number of communicators seen for each list of members.
    seen: BTreeMap<Vec<u32>, u32>,
}

pub(super) fn read(source: &Source) -> Result<Application, ReadError> {
    let mut programs: Vec<Option<Program>> = Vec::new();
    let mut comms = Vec::new();
    let mut known = Known::new();
    let mut reading: Option<Reading> = None;
    let (mut last, mut with_totals, mut members, mut slots) = (0, None, 0, 0);
    for (number, content) in (1..).zip(text(source)?.lines()) {
        last = number;
        let mut line = Line::new(&source.name, number, before_comment(content));
        let Some(first) = line.next() else { continue };
        match (&mut reading, first) {
            (None, "rank") => reading = Some(begin(&mut line, &mut programs)?),
            (None, other) => return Err(line.error(format!("has '{other}' where 'rank R of N' should be"))),
            (Some(rank), "rank") => {
                return Err(line.error(format!("begins a rank before rank {} has its 'end' line", rank.id)));
            }
            (Some(rank), "comm") => {
                let before = comms.len();
                rank.comm(&mut line, programs.len() as u32, &mut known, &mut comms)?;
                members += comms[before..].iter().map(|comm| comm.members().len() as u64).sum::<u64>();
                Limit::Steps
                    .check(members, "members of communicators")
                    .map_err(|reason| line.error(reason))?;
            }
            (Some(rank), "end") => {
                rank.compute(line.number("nanoseconds")?, number);
                let told = totals(&mut line)?;
                if *with_totals.get_or_insert(told) != told {
                    return Err(line.error("ends before 'compute_ns', which ranks before have here"));
                }
                slots += rank.program.slots() as u64;
                Limit::Steps.check(slots, "requests").map_err(|reason| line.error(reason))?;
                programs[rank.id as usize] = Some(std::mem::take(&mut rank.program));
                reading = None;
            }
            (Some(rank), nanoseconds) => {
                rank.compute(line.parse(nanoseconds, "nanoseconds")?, number);
                rank.operation(&mut line)?;
            }
        }
    }
    if let Some(rank) = reading {
        let reason = format!("ends within rank {}, which has no 'end' line: it is cut short", rank.id);
        return Err(ReadError { file: source.name.clone(), line: last, reason });
    }
    let ranks = programs.len();
    let missing = programs.iter().position(Option::is_none);
    if let Some(missing) = missing.or((ranks == 0).then_some(0)) {
        return Err(at_file(&source.name, format!("has no rank {missing}: it is cut short")));
    }
    let mut application = Application::new("", programs.into_iter().flatten().collect());
    application.comms.extend(comms);
    Ok(application)
}

/// A line up to the first word that begins with `#`.
fn before_comment(line: &str) -> &str {
    let is_begin = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let begin = line.match_indices('#').find(is_begin);
    begin.map_or(line, |(at, _)| &line[..at])
}

/// Reads `compute_ns T wall_ns W clock_overhead_ns C` after `end NS`; returns whether the line contains it.
fn totals(line: &mut Line) -> Result<bool, ReadError> {
    let mut told = false;
    for name in ["compute_ns", "wall_ns", "clock_overhead_ns"] {
        match line.next() {
            Some(word) if word == name => told = true,
            Some(other) => return Err(line.error(format!("has '{other}' where '{name}' should be"))),
            None if told => return Err(line.error(format!("ends before '{name}'"))),
            None => return Ok(false),
        }
        let _: u64 = line.number("nanoseconds")?;
    }
    line.end()?;
    Ok(told)
}

/// Parses the line `rank R of N`.
fn begin(line: &mut Line, programs: &mut Vec<Option<Program>>) -> Result<Reading, ReadError> {
    let id: u32 = line.number("a rank")?;
    if line.word("'of'")? != "of" {
        return Err(line.error("should be 'rank R of N'"));
    }
    let ranks = line.ranks()?;
    line.end()?;
    if programs.is_empty() {
        programs.resize(ranks, None);
    }
    if programs.len() != ranks || id as usize >= ranks {
        return Err(line.error(format!("is rank {id} of {ranks} in a trace of {} ranks", programs.len())));
    }
    if programs[id as usize].is_some() {
        return Err(line.error(format!("begins rank {id} for the second time")));
    }
    Ok(Reading { id, program: Program::default(), comms: BTreeMap::new(), seen: BTreeMap::new() })
}

impl Reading {
    fn compute(&mut self, nanoseconds: u64, line: u32) {
        if nanoseconds > 0 {
            self.program.push(Op::Compute(Span(nanoseconds.saturating_mul(1000))), line);
        }
    }

    /// Parses the line `comm ID SIZE all|r0 r1 …`.
    fn comm(
        &mut self,
        line: &mut Line,
        ranks: u32,
        known: &mut Known,
        comms: &mut Vec<Communicator>,
    ) -> Result<(), ReadError> {
        let id = line.number("the number of a communicator")?;
        let size: usize = line.number("the size of a communicator")?;
        let mut members = Vec::new();
        while let Some(word) = line.next() {
            match word {
                "all" if members.is_empty() => members.extend(0..ranks),
                word => members.push(line.parse(word, "a member")?),
            }
        }
        if members.len() != size || members.iter().any(|&member| member >= ranks) {
            let given = members.len();
            return Err(
                line.error(format!("lists {given} members of {ranks} ranks for a communicator of {size}"))
            );
        }
        let twice = members.iter().collect::<BTreeSet<_>>().len() < size;
        if twice {
            return Err(line.error("lists a member twice"));
        }
        if !members.contains(&self.id) {
            return Err(line.error(format!("is a communicator without rank {}, which tells of it", self.id)));
        }
        let seen = self.seen.entry(members.clone()).or_default();
        // The first communicator of all ranks in order is the world communicator, which every application
        // has.
        let world = *seen == 0 && members.iter().copied().eq(0..ranks);
        let position = if world {
            0
        } else {
            *known.entry((members.clone(), *seen)).or_insert_with(|| {
                comms.push(Communicator::new(members));
                comms.len() as u32
            })
        };
        *seen += 1;
        match self.comms.insert(id, position) {
            Some(_) => Err(line.error(format!("defines communicator {id} for the second time"))),
            None => Ok(()),
        }
    }

    fn operation(&mut self, line: &mut Line) -> Result<(), ReadError> {
        let number = line.number;
        let word = line.word("an operation")?;
        match word {
            "send" => self.point(line, None, true)?,
            "recv" => self.point(line, None, false)?,
            "isend" | "irecv" => {
                let slot = slot(line)?;
                self.point(line, Some(slot), word == "isend")?;
            }
            "wait" => self.program.push(Op::Wait(slot(line)?), number),
            "waitall" => {
                let mut slots = Vec::new();
                while let Some(word) = line.next() {
                    slots.push(line.parse(word, "a request")?);
                }
                self.program.push_waits(&slots, number);
            }
            // Splitting a communicator gathers a colour and a key of each rank; duplicating it makes the
            // ranks agree on a number.
            "comm_split" => self.call(line, Kind::Allgather, Some(8))?,
            "comm_dup" => self.call(line, Kind::Allreduce, Some(4))?,
            "barrier" => self.call(line, Kind::Barrier, Some(0))?,
            "bcast" => self.call(line, Kind::Bcast, None)?,
            "reduce" => self.call(line, Kind::Reduce, None)?,
            "allreduce" => self.call(line, Kind::Allreduce, None)?,
            "alltoall" => self.call(line, Kind::Alltoall, None)?,
            "allgather" => self.call(line, Kind::Allgather, None)?,
            "gather" => self.call(line, Kind::Gather, None)?,
            "scatter" => self.call(line, Kind::Scatter, None)?,
            "reduce_scatter" => self.call(line, Kind::ReduceScatter, None)?,
            "scan" => self.call(line, Kind::Scan, None)?,
            "alltoallv" => self.call(line, Kind::Alltoallv, Some(0))?,
            other => return Err(line.unknown("operation", other, &OPERATIONS)),
        }
        line.end()
    }

    fn point(&mut self, line: &mut Line, request: Option<Slot>, send: bool) -> Result<(), ReadError> {
        let op = if send {
            let (to, bytes) = (line.number("a rank")?, line.number("a size in bytes")?);
            Op::Send { to, tag: line.tag()?, comm: 0, request, bytes }
        } else {
            let (from, limit) = (line.number_or_any("a rank")?, line.number_or_any("a size in bytes")?);
            let tag = line.tag_or_any()?;
            Op::Receive { from, tag, comm: 0, request, limit: limit.unwrap_or(u64::MAX) }
        };
        self.program.push(op, line.number);
        Ok(())
    }

    /// Reads a collective operation; the line contains the size unless `bytes` is given.
    fn call(&mut self, line: &mut Line, kind: Kind, bytes: Option<u64>) -> Result<(), ReadError> {
        let id: u32 = line.number("a communicator")?;
        let Some(&comm) = self.comms.get(&id) else {
            return Err(line.error(format!("names communicator {id}, which no 'comm' line defines")));
        };
        let has_root = matches!(kind, Kind::Bcast | Kind::Reduce | Kind::Gather | Kind::Scatter);
        let root = if has_root { line.number("a root")? } else { 0 };
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => line.number("a size in bytes")?,
        };
        let mut counts = Vec::new();
        if kind == Kind::Alltoallv {
            while let Some(word) = line.next() {
                counts.push(line.parse(word, "a size in bytes")?);
            }
        }
        let call = Call { comm, root, counts: counts.into(), ..Call::new(kind, bytes) };
        self.program.push_call(call, None, line.number);
        Ok(())
    }
}

/// Maximum number of request slots; slots are reused, so no trace needs more.
const SLOTS: u32 = 1 << 24;

fn slot(line: &mut Line) -> Result<Slot, ReadError> {
    let slot = line.number("a request")?;
    if slot >= SLOTS {
        return Err(
            line.error(format!("has request {slot}; requests are slots that are used again, below {SLOTS}"))
        );
    }
    Ok(slot)
}
