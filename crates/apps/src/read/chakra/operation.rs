//! The operation of a node: what it computes, sends or receives, and on which unit.

use super::Notes;
use super::format::{COLLECTIVE, COMPUTE, MEMORY, METADATA, Node, RECEIVE, SEND};
use crate::algorithm::Kind;
use crate::application::{Call, Op};
use pauseframe_units::Span;
use std::collections::BTreeMap;

/// Compute units; a node on no unit takes no time.
pub(super) const CPU: u16 = 0;
const GPU: u16 = 1;
const NOTHING: u16 = 2;
const MEMORY_UNIT: u16 = 3;

impl Node {
    /// True if a collective node sends data.
    pub(super) fn communicates(&self) -> bool {
        let barrier = || match self.value("comm_type") {
            Ok(Some(value)) => value.integer() == Some(9),
            // The reader of the operation reports the mistake.
            Err(_) => true,
            Ok(None) => kind_in_name(&self.name) == Some(Kind::Barrier),
        };
        self.kind == COLLECTIVE && (self.has("comm_size") || barrier())
    }

    /// The compute unit that the node occupies.
    fn unit(&self) -> Result<u16, String> {
        let cpu = self.number::<u8>(&["is_cpu_op"])?.is_some_and(|flag| flag != 0);
        Ok(if cpu { CPU } else { GPU })
    }
}

/// The operation of a node; `None` for a collective operation.
pub(super) fn operation(rank: u32, node: &Node, notes: &mut Notes) -> Result<(Option<Op>, u16), String> {
    let own = |name: &str| -> Result<(), String> {
        match node.number::<u32>(&[name])? {
            Some(other) if other != rank => {
                Err(node.error(&format!("has {name} {other} in the file of rank {rank}")))
            }
            _ => Ok(()),
        }
    };
    let op = match node.kind {
        SEND => {
            own("comm_src")?;
            let tag = node.number(&["comm_tag"])?.unwrap_or(0);
            let (to, bytes) = (node.required("comm_dst")?, node.required("comm_size")?);
            Op::Send { to, tag, comm: 0, request: None, bytes }
        }
        RECEIVE => {
            own("comm_dst")?;
            let (tag, from) =
                (Some(node.number(&["comm_tag"])?.unwrap_or(0)), Some(node.required("comm_src")?));
            let limit = node.number(&["comm_size"])?.unwrap_or(u64::MAX);
            Op::Receive { from, tag, comm: 0, request: None, limit }
        }
        COLLECTIVE if node.communicates() => return Ok((None, NOTHING)),
        COLLECTIVE => {
            notes.without_size += 1;
            let span = duration(node, &mut Notes::default())?;
            return Ok((Some(Op::Compute(span)), node.unit()?));
        }
        COMPUTE => return Ok((Some(Op::Compute(duration(node, notes)?)), node.unit()?)),
        kind if MEMORY.contains(&kind) => {
            return Ok((Some(Op::Compute(duration(node, notes)?)), MEMORY_UNIT));
        }
        0 | METADATA => Op::Compute(Span::ZERO),
        other => return Err(node.error(&format!("has type {other}; known are 0 to 7"))),
    };
    Ok((Some(op), NOTHING))
}

/// The duration of a node: `duration_micros`, or the attribute `runtime` of older traces.
fn duration(node: &Node, notes: &mut Notes) -> Result<Span, String> {
    let micros = if node.duration_micros > 0 {
        notes.durations += 1;
        node.duration_micros
    } else {
        node.number(&["runtime"])?.unwrap_or_else(|| {
            notes.unknown_length += 1;
            0
        })
    };
    if micros > 1_000_000_000_000 {
        return Err(node.error(&format!("takes {micros} us; at most 1e12")));
    }
    Ok(Span::from_us(micros))
}

/// The call of a collective operation.
pub(super) fn collective(
    node: &Node,
    ranks: usize,
    groups: &BTreeMap<String, (u32, Vec<u32>)>,
    notes: &mut Notes,
) -> Result<Call, String> {
    let group = node.group()?.and_then(|name| groups.get(&name));
    let (comm, size) = group.map_or((0, ranks), |(position, members)| (*position, members.len()));
    let kind = match node.number::<i64>(&["comm_type"])? {
        Some(0) => Kind::Allreduce,
        Some(1) => Kind::Reduce,
        Some(2) => Kind::Allgather,
        Some(3) => Kind::Gather,
        Some(4) => Kind::Scatter,
        Some(5) => Kind::Bcast,
        Some(6) => Kind::Alltoall,
        Some(7 | 8) => Kind::ReduceScatter,
        Some(9) => Kind::Barrier,
        Some(other) => return Err(node.error(&format!("has comm_type {other}; known are 0 to 9"))),
        None => {
            notes.kinds_of_names += 1;
            kind_in_name(&node.name).ok_or_else(|| {
                let known: Vec<&str> = KINDS_IN_NAMES.iter().map(|(name, _)| *name).collect();
                node.error(&format!("has no comm_type, and its name has none of {}", known.join(", ")))
            })?
        }
    };
    let given: u64 = if kind == Kind::Barrier { 0 } else { node.required("comm_size")? };
    // astra-sim/astra-sim pull request 102: a collective operation of size zero is an error.
    if given == 0 && kind != Kind::Barrier {
        let reason = "has comm_size 0, which a collective operation cannot have: a converter wrote it for a size that \
                      it did not know; remove the node, or set its size";
        return Err(node.error(reason));
    }
    let whole = matches!(kind, Kind::Alltoall | Kind::ReduceScatter);
    let bytes = if whole { given / size.max(1) as u64 } else { given };
    let root = node.number(&["root", "comm_root"])?.unwrap_or(0);
    Ok(Call { comm, root, ..Call::new(kind, bytes) })
}

/// Names of collective operations in PyTorch and NCCL, without separators. Longer names come before names
/// that they contain.
const KINDS_IN_NAMES: [(&str, Kind); 11] = [
    ("reducescatter", Kind::ReduceScatter),
    ("allreduce", Kind::Allreduce),
    ("allgather", Kind::Allgather),
    ("alltoall", Kind::Alltoall),
    ("broadcast", Kind::Bcast),
    ("barrier", Kind::Barrier),
    ("reduce", Kind::Reduce),
    ("gather", Kind::Gather),
    ("scatter", Kind::Scatter),
    // NCCL's kernel of grouped sends and receives: as a collective node it is an all-to-all (Chakra's converter,
    // mlcommons/chakra pull request 185).
    ("sendrecv", Kind::Alltoall),
    // PyTorch's record of a group of sends and receives (`ProcessGroupNCCL::endCoalescing`).
    ("coalesced", Kind::Alltoall),
];

/// The operation that a name such as `c10d::broadcast_` or `nccl:all_reduce` denotes.
fn kind_in_name(name: &str) -> Option<Kind> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    KINDS_IN_NAMES.into_iter().find(|(known, _)| plain.contains(known)).map(|(_, kind)| kind)
}
