//! Textual GOAL, the group operation assembly language of `LogGOPSim` (Hoefler, Schneider, Lumsdaine 2010)
//! and ATLAHS.
//!
//! The file contains `num_ranks N`, then for each rank `rank R { … }` with labelled steps `l1: send 8b to 3
//! tag 0`, `recv 8b from 3 tag 0`, `calc 100` (nanoseconds), each with optional `cpu` and `nic`, and
//! dependences: `l2 requires l1` (after the end of l1) or `l2 irequires l1` (after its start).

use super::Source;
use super::text::{Line, ReadError, at_file, text};
use crate::application::{Application, Dependences, Op, Program};
use pauseframe_units::Span;
use std::collections::BTreeMap;

/// A rank while it is read.
struct Reading {
    id: u32,
    program: Program,
    order: Dependences,
    labels: BTreeMap<String, u32>,
    /// Dependences as (line, later step, earlier step, whether it waits for the end): labels may be defined
    /// after their use.
    needs: Vec<(u32, String, String, bool)>,
}

pub(super) fn read(source: &Source) -> Result<Application, ReadError> {
    let mut programs: Vec<Option<Program>> = Vec::new();
    let mut reading: Option<Reading> = None;
    let mut last = 0;
    let mut comment = false;
    for (number, content) in (1..).zip(text(source)?.lines()) {
        last = number;
        let content = without_comments(content, &mut comment);
        // Treat braces as separate words.
        let content = content.replace('{', " { ").replace('}', " } ");
        let mut line = Line::new(&source.name, number, &content);
        let Some(first) = line.next() else { continue };
        match (&mut reading, first) {
            (None, "num_ranks") => {
                let ranks = line.ranks()?;
                if !programs.is_empty() {
                    return Err(line.error("gives the number of ranks for the second time"));
                }
                programs.resize(ranks, None);
                line.end()?;
            }
            (None, "rank") => reading = Some(begin(&mut line, &programs)?),
            (None, other) => {
                return Err(line.unknown("line that begins with", other, &["num_ranks", "rank"]));
            }
            (Some(_), "}") => {
                line.end()?;
                if let Some(rank) = reading.take() {
                    let id = rank.id as usize;
                    programs[id] = Some(rank.close(&source.name)?);
                }
            }
            (Some(rank), "rank") => {
                return Err(line.error(format!("begins a rank before rank {} has its '}}'", rank.id)));
            }
            (Some(rank), first) => rank.line(first, &mut line)?,
        }
    }
    if let Some(rank) = reading {
        let reason = format!("ends within rank {}, which has no '}}': it is cut short", rank.id);
        return Err(ReadError { file: source.name.clone(), line: last, reason });
    }
    if let Some(missing) = programs.iter().position(Option::is_none).or(programs.is_empty().then_some(0)) {
        return Err(at_file(&source.name, format!("has no rank {missing}: it is cut short")));
    }
    Ok(Application::new("", programs.into_iter().flatten().collect()))
}

/// Removes `/* … */`, `// …` and `# …` from a line; `within` is true inside of a comment that began on an
/// earlier line.
fn without_comments(line: &str, within: &mut bool) -> String {
    let mut kept = String::new();
    let mut rest = line;
    loop {
        if *within {
            let Some(end) = rest.find("*/") else { return kept };
            rest = &rest[end + 2..];
            *within = false;
        }
        let ends = [rest.find("//"), rest.find('#')].into_iter().flatten().min().unwrap_or(rest.len());
        match rest.find("/*").filter(|&start| start < ends) {
            Some(start) => {
                kept += &rest[..start];
                rest = &rest[start + 2..];
                *within = true;
            }
            None => return kept + &rest[..ends],
        }
    }
}

/// Reads `rank R {`.
fn begin(line: &mut Line, programs: &[Option<Program>]) -> Result<Reading, ReadError> {
    let id: u32 = line.number("a rank")?;
    if line.word("'{'")? != "{" {
        return Err(line.error("should be 'rank R {'"));
    }
    line.end()?;
    match programs.get(id as usize) {
        None => Err(line.error(format!("is rank {id}; 'num_ranks' says {}", programs.len()))),
        Some(Some(_)) => Err(line.error(format!("begins rank {id} for the second time"))),
        Some(None) => Ok(Reading {
            id,
            program: Program::default(),
            order: Dependences::default(),
            labels: BTreeMap::new(),
            needs: Vec::new(),
        }),
    }
}

impl Reading {
    fn line(&mut self, first: &str, line: &mut Line) -> Result<(), ReadError> {
        let operation = match first.strip_suffix(':') {
            None => {
                if let Some(relation @ ("requires" | "irequires")) = line.next() {
                    let earlier = line.word("a label")?.to_owned();
                    let need = (line.number, first.to_owned(), earlier, relation == "requires");
                    self.needs.push(need);
                    return line.end();
                }
                return Err(line.error(format!("should be '{first}: …' or '{first} requires …'")));
            }
            Some(label) => {
                let step = self.program.ops.len() as u32;
                if self.labels.insert(label.to_owned(), step).is_some() {
                    return Err(line.error(format!("gives label {label} for the second time")));
                }
                line.word("an operation")?
            }
        };
        let op = match operation {
            "calc" => Op::Compute(Span(line.number::<u64>("nanoseconds")?.saturating_mul(1000))),
            "send" | "recv" => {
                let size = line.word("a size")?;
                let size = size.strip_suffix('b').unwrap_or(size);
                let bytes = line.parse(size, "a size in bytes")?;
                let (link, send) = if operation == "send" { ("to", true) } else { ("from", false) };
                if line.word(link)? != link {
                    return Err(line.error(format!("should be '{operation} SIZEb {link} RANK'")));
                }
                let peer = line.number("a rank")?;
                if send {
                    Op::Send { to: peer, tag: 0, comm: 0, request: None, bytes }
                } else {
                    Op::Receive { from: Some(peer), tag: Some(0), comm: 0, request: None, limit: bytes }
                }
            }
            other => return Err(line.unknown("operation", other, &["calc", "send", "recv"])),
        };
        self.attributes(op, line)
    }

    /// Reads `tag T`, `cpu C`, `nic N`; hosts have a single NIC, so `nic` is ignored.
    fn attributes(&mut self, mut op: Op, line: &mut Line) -> Result<(), ReadError> {
        let mut unit = 0;
        while let Some(word) = line.next() {
            match (word, &mut op) {
                ("tag", Op::Send { tag, .. }) => *tag = line.tag()?,
                ("tag", Op::Receive { tag, .. }) => *tag = Some(line.tag()?),
                ("cpu", _) => unit = line.number("a cpu")?,
                ("nic", _) => {
                    let _: u32 = line.number("a nic")?;
                }
                (other, _) => return Err(line.unknown("attribute", other, &["tag", "cpu", "nic"])),
            }
        }
        self.program.push(op, line.number);
        self.order.units.push(unit);
        Ok(())
    }

    /// Ends the program of a rank and resolves the labels of its steps.
    fn close(mut self, file: &str) -> Result<Program, ReadError> {
        for (line, later, earlier, after_end) in std::mem::take(&mut self.needs) {
            let find = |label: &str| {
                self.labels.get(label).copied().ok_or_else(|| {
                    let reason = format!("names label {label}, which rank {} has not", self.id);
                    ReadError { file: file.to_owned(), line, reason }
                })
            };
            let pair = (find(&earlier)?, find(&later)?);
            let list = if after_end { &mut self.order.after_end } else { &mut self.order.after_start };
            list.push(pair);
        }
        self.program.order = Some(self.order);
        Ok(self.program)
    }
}
