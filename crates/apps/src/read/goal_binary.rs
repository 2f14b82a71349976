//! Binary GOAL, as `LogGOPSim`'s `txt2bin` and ATLAHS write it (`Parser.hpp`): little endian, without padding.
//!
//! A cookie, the number of ranks, the highest CPU and NIC, then for each rank where its nodes begin and end, counted
//! from after the cookie. A rank has its number of nodes, its roots, its nodes of 39 bytes, and a list of successors
//! to which nodes point.

use super::Source;
use super::text::{RANKS_MAX, ReadError, at_file};
use crate::application::{Application, Dependences, Op, Program};
use pauseframe_units::limits::Limit;
use pauseframe_units::{Span, counted};

const COOKIE: u64 = 4223;
/// The cookie of a file whose writer has not finished.
const UNFINISHED: u64 = 2342;
const NODE_BYTES: usize = 39;

/// True if the bytes begin with one of the cookies.
pub(super) fn recognise(bytes: &[u8]) -> bool {
    let cookie = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    cookie.is_some_and(|cookie| [COOKIE, UNFINISHED].contains(&cookie))
}

/// Reads little-endian numbers from a place on.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.all.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let bytes = *bytes.ok_or_else(|| format!("is cut short: it ends before byte {}", self.at + N))?;
        self.at += N;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }
}

pub(super) fn read(source: &Source) -> Result<Application, ReadError> {
    programs(&source.bytes).map_err(|reason| at_file(&source.name, reason))
}

fn programs(all: &[u8]) -> Result<Application, String> {
    let mut header = Bytes { all, at: 0 };
    if header.long()? == UNFINISHED {
        return Err("is marked as invalid: its writer has not finished it".to_owned());
    }
    let ranks = header.word()? as usize;
    if ranks == 0 || ranks > RANKS_MAX {
        return Err(format!("tells of {ranks} ranks; 1 to {RANKS_MAX} are possible"));
    }
    let (_, highest_nic) = (header.byte()?, header.byte()?);
    let (mut programs, mut steps) = (Vec::with_capacity(ranks), 0);
    for rank in 0..ranks {
        let (begin, end) = (header.long()?, header.long()?);
        let place = |offset: u64| usize::try_from(offset).ok()?.checked_add(size_of::<u64>());
        let part = place(begin).zip(place(end)).and_then(|(begin, end)| all.get(begin..end));
        let part = part.ok_or_else(|| format!("is cut short: rank {rank} has bytes {begin} to {end}"))?;
        let program = program(part).map_err(|reason| format!("rank {rank} (from byte {begin}): {reason}"))?;
        steps += program.ops.len() as u64;
        Limit::Steps.check(steps, "steps")?;
        programs.push(program);
    }
    let mut application = Application::new("", programs);
    if highest_nic > 0 {
        let note = format!(
            "NICs 0 to {highest_nic} are not told apart: a host chooses its port by host.port_choice"
        );
        application.notes.push(note);
    }
    Ok(application)
}

/// The steps of a rank. `dependencies` of its nodes must be those that the lists give.
fn program(part: &[u8]) -> Result<Program, String> {
    let mut bytes = Bytes { all: part, at: 0 };
    let (nodes, roots) = (bytes.word()?, bytes.word()?);
    let after = bytes.at + 4 * roots as usize;
    let list = after.checked_add(nodes as usize * NODE_BYTES).filter(|list| *list <= part.len());
    let list = list.ok_or_else(|| format!("is cut short: {nodes} nodes need {NODE_BYTES} bytes each"))?;
    bytes.at = after;
    let (mut program, mut order) = (Program::default(), Dependences::default());
    let mut needs = Vec::with_capacity(nodes as usize);
    for node in 0..nodes {
        let wrong = |reason: String| format!("node {node}: {reason}");
        needs.push(bytes.word()?);
        let (kind, peer, size) = (bytes.byte()?, bytes.word()?, bytes.long()?);
        let tag = i32::try_from(bytes.word()?).map_err(|_| wrong("has a negative tag".to_owned()))?;
        program.push(operation(kind, peer, size, tag).map_err(wrong)?, 0);
        order.units.push(u16::from(bytes.byte()?));
        let _nic = bytes.byte()?;
        for pairs in [&mut order.after_end, &mut order.after_start] {
            let (count, first) = (bytes.word()?, bytes.word()?);
            successors(part, list, (node, nodes), (count, first), pairs).map_err(wrong)?;
        }
    }
    let mut given = vec![0; nodes as usize];
    for (_, later) in order.after_end.iter().chain(&order.after_start) {
        given[*later as usize] += 1;
    }
    if let Some(node) = (0..needs.len()).find(|node| needs[*node] != given[*node]) {
        let (needs, given) = (needs[node], given[node]);
        return Err(format!("node {node}: has {needs} dependences, and the lists name {given}"));
    }
    let free = needs.iter().filter(|needs| **needs == 0).count();
    if free != roots as usize {
        return Err(format!(
            "has {}, and {} without dependences",
            counted(roots, "root"),
            counted(free, "node")
        ));
    }
    program.order = Some(order);
    Ok(program)
}

fn operation(kind: u8, peer: u32, size: u64, tag: i32) -> Result<Op, String> {
    Ok(match kind {
        1 => Op::Send { to: peer, tag, comm: 0, request: None, bytes: size },
        2 => Op::Receive { from: Some(peer), tag: Some(tag), comm: 0, request: None, limit: size },
        3 => Op::Compute(Span(size.saturating_mul(1000))),
        other => return Err(format!("has type {other}; known are 1 (send), 2 (recv), 3 (calc)")),
    })
}

/// The nodes that begin after the end or the start of a node.
fn successors(
    part: &[u8],
    list: usize,
    (node, nodes): (u32, u32),
    (count, first): (u32, u32),
    pairs: &mut Vec<(u32, u32)>,
) -> Result<(), String> {
    let at = list.saturating_add(first as usize * 4);
    let bytes = part.get(at..at.saturating_add(count as usize * 4));
    let bytes =
        bytes.ok_or_else(|| format!("names {count} successors from {first} on, beyond the rank's end"))?;
    for word in bytes.chunks_exact(4) {
        let later = u32::from_le_bytes(*word.first_chunk().unwrap_or(&[0; 4]));
        if later >= nodes {
            return Err(format!("names successor {later} of {nodes} nodes"));
        }
        pairs.push((node, later));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{ReadOptions, parse};
    use super::*;

    /// A node: type, peer, size, tag, cpu, and its successors at the end and at the start.
    type Node = (u8, u32, u64, u32, u8, &'static [u32], &'static [u32]);

    fn rank(nodes: &[Node]) -> Vec<u8> {
        let needs = |node: u32| {
            let lists = nodes.iter().flat_map(|node| node.5.iter().chain(node.6));
            lists.filter(|later| **later == node).count() as u32
        };
        let roots: Vec<u32> = (0..nodes.len() as u32).filter(|node| needs(*node) == 0).collect();
        let mut bytes = Vec::new();
        let words = |bytes: &mut Vec<u8>, words: &[u32]| {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        words(&mut bytes, &[nodes.len() as u32, roots.len() as u32]);
        words(&mut bytes, &roots);
        let mut list = Vec::new();
        for (number, (kind, peer, size, tag, cpu, ends, starts)) in (0..).zip(nodes) {
            words(&mut bytes, &[needs(number)]);
            bytes.push(*kind);
            words(&mut bytes, &[*peer]);
            bytes.extend(size.to_le_bytes());
            words(&mut bytes, &[*tag]);
            bytes.extend([*cpu, 0]);
            for later in [ends, starts] {
                words(&mut bytes, &[later.len() as u32, list.len() as u32]);
                list.extend_from_slice(later);
            }
        }
        words(&mut bytes, &list);
        bytes
    }

    fn file(ranks: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = COOKIE.to_le_bytes().to_vec();
        bytes.extend((ranks.len() as u32).to_le_bytes());
        bytes.extend([1, 0]);
        let mut at = (4 + 2 + 16 * ranks.len()) as u64;
        for rank in ranks {
            bytes.extend(at.to_le_bytes());
            at += rank.len() as u64;
            bytes.extend(at.to_le_bytes());
        }
        bytes.extend(ranks.concat());
        bytes
    }

    fn source(bytes: Vec<u8>) -> Source {
        Source { name: "a.bin".to_owned(), bytes }
    }

    const TEXT: &str = "num_ranks 2\nrank 0 {\nl1: calc 100 cpu 1\nl2: send 8b to 1 tag 5\nl3: calc 7\nl2 requires l1\nl3 irequires l2\n}\nrank 1 {\nl1: recv 8b from 0 tag 5\n}\n";

    fn binary() -> Vec<u8> {
        let first =
            rank(&[(3, 0, 100, 0, 1, &[1], &[]), (1, 1, 8, 5, 0, &[], &[2]), (3, 0, 7, 0, 0, &[], &[])]);
        file(&[first, rank(&[(2, 0, 8, 5, 0, &[], &[])])])
    }

    #[test]
    fn a_binary_file_is_what_its_text_is() {
        let read = parse("a", &[source(binary())], None, ReadOptions::default()).unwrap();
        let text = Source { name: "a.goal".to_owned(), bytes: TEXT.as_bytes().to_vec() };
        let mut text = parse("a", &[text], None, ReadOptions::default()).unwrap();
        text.programs.iter_mut().for_each(|program| program.lines.clear());
        assert_eq!(read.programs, text.programs);
        assert!(read.notes.is_empty());
    }

    #[test]
    fn damaged_files_say_where() {
        let refused = |bytes: Vec<u8>| {
            parse("a", &[source(bytes)], None, ReadOptions::default()).unwrap_err().to_string()
        };
        let good = binary();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            refused(bytes)
        };
        let mut unfinished = good.clone();
        unfinished[..8].copy_from_slice(&UNFINISHED.to_le_bytes());
        assert_eq!(refused(unfinished), "a.bin: is marked as invalid: its writer has not finished it");
        assert!(refused(good[..20].to_vec()).starts_with("a.bin: is cut short"));
        assert!(
            refused(good[..good.len() - 1].to_vec()).starts_with("a.bin: is cut short: rank 1 has bytes")
        );
        // Header 14 bytes, two ranks of 16 bytes; nodes and roots 8 bytes, one root, then the nodes.
        let node = 14 + 32 + 8 + 4;
        assert_eq!(
            with(node, 3),
            "a.bin: rank 0 (from byte 38): node 0: has 3 dependences, and the lists name 0"
        );
        assert_eq!(
            with(node + 4, 9),
            "a.bin: rank 0 (from byte 38): node 0: has type 9; known are 1 (send), 2 (recv), 3 (calc)"
        );
        assert!(with(node + 39 + 5, 7).contains("names rank 7; there are ranks 0 to 1"));
        assert!(with(node + 27, 200).contains("names 1 successors from 200 on"), "{}", with(node + 27, 200));
    }
}
