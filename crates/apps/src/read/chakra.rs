//! Chakra execution traces (MLCommons): for each rank a file of length-prefixed protobuf messages: one
//! `GlobalMetadata`, then `Node`s that depend on each other.
//!
//! Sizes have the meaning that ASTRA-sim gives them: the whole vector for all-reduce, reduce and broadcast;
//! the block of one rank for all-gather, gather and scatter; the data of one rank for all others in
//! all-to-all and reduce-scatter. Compute nodes take their duration; nodes with `is_cpu_op` occupy the CPU,
//! other nodes the GPU, one at a time. Memory nodes take their duration too.
//!
//! In traces of PyTorch a control dependency names the caller of a node. Control dependencies are ignored if
//! they cause a cycle that data dependencies alone do not have; ASTRA-sim's feeder ignores all of them.
//!
//! Point-to-point nodes work as in ASTRA-sim (`Workload::issue_send_comm`): a send is asynchronous and
//! complete when its data has left (`PacketSent`), a receive accepts a message of its source and tag
//! (`PacketReceived`). A collective node without `comm_type` has its kind in its name (`c10d::broadcast_`). A
//! collective node without `comm_size` is a call on the host, whose kernel communicates in a separate node;
//! the call takes its duration.

use super::text::{ReadError, at_file};
use super::{Source, rank_in_name};
use crate::algorithm::Kind;
use crate::application::{Application, Call, Communicator, Dependences, Op, Program};
use crate::check::first_in_cycle;
use pauseframe_units::Span;
use prost::Message;
use std::collections::BTreeMap;

/// The protobuf message `ChakraProtoMsg.GlobalMetadata`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GlobalMetadata {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) attributes: Vec<Attribute>,
}

/// The protobuf message `ChakraProtoMsg.Node` without inputs and outputs.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(int32, tag = "3")]
    pub(crate) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) control_dependencies: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(crate) data_dependencies: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub(crate) duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    pub(crate) attributes: Vec<Attribute>,
}

/// The protobuf message `ChakraProtoMsg.AttributeProto` without lists and floating-point values.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub(crate) value: Option<Value>,
}

/// Values of attributes: integers of all types that writers use, flags and text.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Value {
    fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::Int32(value) | Value::Sint32(value) | Value::Sfixed32(value) => value.into(),
            Value::Int64(value) | Value::Sint64(value) | Value::Sfixed64(value) => value.into(),
            Value::Uint32(value) | Value::Fixed32(value) => value.into(),
            Value::Uint64(value) | Value::Fixed64(value) => value.into(),
            Value::Bool(value) => value.into(),
            Value::Text(ref value) => value.parse().ok()?,
        })
    }
}

/// Types of nodes in the Chakra format.
const METADATA: i32 = 1;
const MEMORY: std::ops::RangeInclusive<i32> = 2..=3;
const COMPUTE: i32 = 4;
const SEND: i32 = 5;
const RECEIVE: i32 = 6;
const COLLECTIVE: i32 = 7;

/// Compute units; a node on no unit takes no time.
const CPU: u16 = 0;
const GPU: u16 = 1;
const NOTHING: u16 = 2;
const MEMORY_UNIT: u16 = 3;

/// True if the bytes begin like a Chakra trace: metadata with a version or a "schema" attribute.
pub(super) fn recognise(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    // Plain text is not metadata, although some letters would be a valid length.
    let plain = bytes.iter().take(64).all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let metadata = GlobalMetadata::decode_length_delimited(&mut rest);
    !plain && metadata.is_ok_and(|first| !first.version.is_empty() || !first.attributes.is_empty())
}

/// State that all ranks of a trace share while they are read.
#[derive(Default)]
struct Notes {
    dangling: u64,
    durations: u64,
    unknown_length: u64,
    kinds_of_names: u64,
    without_size: u64,
    callers: u64,
}

pub(super) fn read(sources: &[Source]) -> Result<Application, ReadError> {
    for (rank, source) in (0..).zip(sources) {
        if let Some(other) = rank_in_name(&source.name).filter(|&other| other != rank && sources.len() > 1) {
            return Err(at_file(&source.name, format!("is the file of rank {other}, taken for rank {rank}")));
        }
    }
    let ranks: Vec<Vec<Node>> = sources.iter().map(decode).collect::<Result<_, _>>()?;
    let groups = groups(&ranks);
    let mut notes = Notes::default();
    let programs = (0..).zip(&ranks).zip(sources).map(|((rank, nodes), source)| {
        program(rank, nodes, ranks.len(), &groups, &mut notes).map_err(|reason| at_file(&source.name, reason))
    });
    let programs = programs.collect::<Result<Vec<Program>, ReadError>>()?;
    let mut application = Application::new("", programs);
    application.comms.extend(groups.into_values().map(|(_, members)| Communicator::new(members)));
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            application.notes.push(format!("{count} {text}"));
        }
    };
    note(notes.dangling, "control dependencies name nodes that are not there; they are left out");
    note(
        notes.callers,
        "control dependencies name callers, which end after what they call; they are left out",
    );
    note(notes.durations, "compute nodes take their duration_micros");
    note(notes.unknown_length, "compute nodes have no duration and take no time");
    note(notes.kinds_of_names, "collective nodes have no comm_type; their names say what they do");
    note(notes.without_size, "collective nodes have no comm_size; they take their duration and send nothing");
    Ok(application)
}

/// Decodes the nodes of a file.
fn decode(source: &Source) -> Result<Vec<Node>, ReadError> {
    let mut rest = source.bytes.as_slice();
    let total = rest.len();
    GlobalMetadata::decode_length_delimited(&mut rest)
        .map_err(|error| at_file(&source.name, format!("is not a Chakra trace, or cut short: {error}")))?;
    let mut nodes = Vec::new();
    while !rest.is_empty() {
        let at = total - rest.len();
        let node = Node::decode_length_delimited(&mut rest).map_err(|error| {
            let reason = format!("node {} (from byte {at} of {total}): {error}", nodes.len() + 1);
            at_file(&source.name, format!("is cut short or no Chakra trace: {reason}"))
        })?;
        nodes.push(node);
    }
    Ok(nodes)
}

impl Node {
    fn value(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|attribute| attribute.name == name)?.value.as_ref()
    }

    /// The value of the first attribute with one of these names, as a number.
    fn number<T: TryFrom<i128>>(&self, names: &[&str]) -> Result<Option<T>, String> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.value(name)?))) else {
            return Ok(None);
        };
        let number = value.integer().and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.error(&format!("{name} is {value:?}")))
    }

    fn required<T: TryFrom<i128>>(&self, name: &str) -> Result<T, String> {
        self.number(&[name])?.ok_or_else(|| self.error(&format!("has no {name}")))
    }

    fn error(&self, reason: &str) -> String {
        format!("node {} ({}): {reason}", self.id, self.name)
    }

    /// True if a collective node sends data.
    fn communicates(&self) -> bool {
        let barrier = || match self.value("comm_type") {
            Some(value) => value.integer() == Some(9),
            None => kind_in_name(&self.name) == Some(Kind::Barrier),
        };
        self.kind == COLLECTIVE && (self.value("comm_size").is_some() || barrier())
    }

    /// The compute unit that the node occupies.
    fn unit(&self) -> Result<u16, String> {
        let cpu = self.number::<u8>(&["is_cpu_op"])?.is_some_and(|flag| flag != 0);
        Ok(if cpu { CPU } else { GPU })
    }

    fn group(&self) -> Option<&str> {
        let value = self.value("pg_name").or_else(|| self.value("comm_group"))?;
        match value {
            Value::Text(name) if !name.is_empty() => Some(name),
            _ => None,
        }
    }
}

/// Process groups by name: their index, and the ranks that call a collective operation in the group. A group
/// of all ranks is the world communicator.
fn groups(ranks: &[Vec<Node>]) -> BTreeMap<String, (u32, Vec<u32>)> {
    let mut groups: BTreeMap<String, (u32, Vec<u32>)> = BTreeMap::new();
    for (rank, nodes) in (0..).zip(ranks) {
        for name in nodes.iter().filter(|node| node.communicates()).filter_map(Node::group) {
            let (_, members) = groups.entry(name.to_owned()).or_default();
            if members.last() != Some(&rank) {
                members.push(rank);
            }
        }
    }
    for (position, group) in (1..).zip(groups.values_mut()) {
        group.0 = position;
    }
    groups
}

fn program(
    rank: u32,
    nodes: &[Node],
    ranks: usize,
    groups: &BTreeMap<String, (u32, Vec<u32>)>,
    notes: &mut Notes,
) -> Result<Program, String> {
    let mut steps = BTreeMap::new();
    for (step, node) in (0_u32..).zip(nodes) {
        if steps.insert(node.id, step).is_some() {
            return Err(node.error("has the number of another node"));
        }
    }
    let mut program = Program::default();
    let mut order = Dependences { asynchronous_sends: true, ..Dependences::default() };
    let mut control = Vec::new();
    let mut collectives: Vec<(u64, usize)> = Vec::new();
    for (step, node) in (0..).zip(nodes) {
        let (op, unit) = operation(rank, node, notes)?;
        if let Some(op) = op {
            program.push(op, 0);
        } else {
            collectives.push((node.id, program.calls.len()));
            let call = collective(node, ranks, groups, notes)?;
            program.push_call(call, None, 0);
        }
        order.units.push(unit);
        for needed in &node.data_dependencies {
            let earlier = steps
                .get(needed)
                .ok_or_else(|| node.error(&format!("needs data of node {needed}, which is not there")))?;
            if !order.after_end.ends_with(&[(*earlier, step)]) {
                order.after_end.push((*earlier, step));
            }
        }
        for needed in &node.control_dependencies {
            match steps.get(needed) {
                Some(&earlier) => control.push((earlier, step)),
                None => notes.dangling += 1,
            }
        }
    }
    let data = order.after_end.len();
    order.after_end.extend(&control);
    let in_cycle = |pairs: &[(u32, u32)]| first_in_cycle(nodes.len(), pairs.iter()).is_some();
    if in_cycle(&order.after_end) && !in_cycle(&order.after_end[..data]) {
        order.after_end.truncate(data);
        notes.callers += control.len() as u64;
    }
    // Ranks may become ready for operations in different orders; the sequence numbers tell which calls belong
    // together.
    collectives.sort_unstable();
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for (_, call) in collectives {
        let count = counts.entry(program.calls[call].comm).or_default();
        program.calls[call].number = Some(*count);
        *count += 1;
    }
    program.order = Some(order);
    Ok(program)
}

/// The operation of a node; `None` for a collective operation.
fn operation(rank: u32, node: &Node, notes: &mut Notes) -> Result<(Option<Op>, u16), String> {
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

fn collective(
    node: &Node,
    ranks: usize,
    groups: &BTreeMap<String, (u32, Vec<u32>)>,
    notes: &mut Notes,
) -> Result<Call, String> {
    let group = node.group().and_then(|name| groups.get(name));
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
    let whole = matches!(kind, Kind::Alltoall | Kind::ReduceScatter);
    let bytes = if whole { given / size.max(1) as u64 } else { given };
    let root = node.number(&["root", "comm_root"])?.unwrap_or(0);
    Ok(Call { comm, root, ..Call::new(kind, bytes) })
}

/// Names of collective operations in PyTorch and NCCL, without separators. Longer names come before names
/// that they contain.
const KINDS_IN_NAMES: [(&str, Kind); 9] = [
    ("reducescatter", Kind::ReduceScatter),
    ("allreduce", Kind::Allreduce),
    ("allgather", Kind::Allgather),
    ("alltoall", Kind::Alltoall),
    ("broadcast", Kind::Bcast),
    ("barrier", Kind::Barrier),
    ("reduce", Kind::Reduce),
    ("gather", Kind::Gather),
    ("scatter", Kind::Scatter),
];

/// The operation that a name such as `c10d::broadcast_` or `nccl:all_reduce` denotes.
fn kind_in_name(name: &str) -> Option<Kind> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    KINDS_IN_NAMES.into_iter().find(|(known, _)| plain.contains(known)).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal::{IdealNetwork, Sharing, run};
    use crate::read::{ReadOptions, parse};
    use crate::{Options, critical_path};
    use pauseframe_units::{BitRate, Time};
    use std::sync::Arc;

    fn attribute(name: &str, value: Value) -> Attribute {
        Attribute { name: name.to_owned(), value: Some(value) }
    }

    fn node(id: u64, kind: i32, needs: &[u64], attributes: Vec<Attribute>) -> Node {
        let name = format!("n{id}");
        Node { id, name, kind, data_dependencies: needs.to_vec(), attributes, ..Node::default() }
    }

    fn all_reduce(id: u64, needs: &[u64], size: Value) -> Node {
        let attributes = vec![attribute("comm_type", Value::Int64(0)), attribute("comm_size", size)];
        node(id, COLLECTIVE, needs, attributes)
    }

    fn encode(name: &str, nodes: &[Node]) -> Source {
        let metadata = GlobalMetadata { version: "0.0.4".to_owned(), attributes: Vec::new() };
        let mut bytes = metadata.encode_length_delimited_to_vec();
        for node in nodes {
            bytes.extend(node.encode_length_delimited_to_vec());
        }
        Source { name: name.to_owned(), bytes }
    }

    const NETWORK: IdealNetwork =
        IdealNetwork { latency: Span::from_us(1), rate: BitRate::gbps(100), sharing: Sharing::Nothing };

    #[test]
    fn all_reduces_take_the_time_of_the_closed_form_whatever_integer_their_size_is() {
        // The file of rank 1 contains the second node first, has a computation before it, and stores sizes as
        // uint64.
        let ours = [all_reduce(1, &[], Value::Int64(8000)), all_reduce(2, &[1], Value::Int64(4000))];
        let mut compute = node(9, COMPUTE, &[], vec![attribute("is_cpu_op", Value::Bool(false))]);
        compute.duration_micros = 50;
        let mut theirs =
            vec![all_reduce(2, &[1], Value::Uint64(4000)), all_reduce(1, &[9], Value::Uint64(8000)), compute];
        theirs[0].control_dependencies = vec![77];
        let sources: Vec<Source> = (0..4)
            .map(|rank| encode(&format!("a.{rank}.et"), if rank == 1 { &theirs } else { &ours }))
            .collect();
        let application = read(&sources).unwrap();
        assert_eq!(application.notes.len(), 2, "{:?}", application.notes);
        assert!(application.notes[0].starts_with("1 control dependencies name nodes"));
        assert!(application.notes[1].starts_with("1 compute nodes take their duration_micros"));
        let options = Options { eager_limit: u64::MAX, envelope: 0, ..Options::default() };
        let path = critical_path(&application, &options, NETWORK).unwrap();
        let replay = run(Arc::new(application), options, NETWORK).unwrap();
        // Rabenseifner's algorithm with four ranks takes 4 latencies and sends 1.5 times the vector; the
        // program runs it twice.
        let beta = NETWORK.rate.serialise(pauseframe_units::Bytes(12_000 * 3 / 2));
        assert_eq!(replay.finish(), Some(Time::ZERO + Span::from_us(50 + 8) + beta));
        assert_eq!(Time::ZERO + path.length, replay.finish().unwrap());
    }

    /// A rank of a ring all-reduce as separate nodes: seven rounds of send, receive and reduce, then seven
    /// rounds of send and receive.
    fn ring(rank: i64, ranks: i64, part: i64) -> Vec<Node> {
        let message = |id, kind, peer: &str, other: i64| {
            let needs: Vec<u64> = if id == 0 { vec![] } else { vec![id - 1] };
            let attributes = vec![
                attribute("comm_size", Value::Int64(part)),
                attribute(peer, Value::Int32(other.rem_euclid(ranks) as i32)),
                attribute("comm_tag", Value::Int32(0)),
            ];
            node(id, kind, &needs, attributes)
        };
        let mut nodes = Vec::new();
        for round in 0..2 * (ranks - 1) {
            nodes.push(message(nodes.len() as u64, SEND, "comm_dst", rank + 1));
            nodes.push(message(nodes.len() as u64, RECEIVE, "comm_src", rank - 1));
            if round < ranks - 1 {
                let id = nodes.len() as u64;
                let mut reduce = node(id, COMPUTE, &[id - 1], Vec::new());
                reduce.duration_micros = 7;
                nodes.push(reduce);
            }
        }
        nodes
    }

    #[test]
    fn a_ring_of_sends_and_receives_takes_the_time_of_the_closed_form() {
        // The size of ASTRA-sim's custom ring of 8 NPUs and 1 MiB.
        let part = (1 << 20) / 8;
        let sources: Vec<Source> =
            (0..8).map(|rank| encode(&format!("ring.{rank}.et"), &ring(rank, 8, part))).collect();
        let application = read(&sources).unwrap();
        let options = Options { eager_limit: u64::MAX, envelope: 0, ..Options::default() };
        let path = critical_path(&application, &options, NETWORK).unwrap();
        let replay = run(Arc::new(application), options, NETWORK).unwrap();
        let round = Span::from_us(1) + NETWORK.rate.serialise(pauseframe_units::Bytes(part as u64));
        let closed_form = Span(round.0 * 14) + Span::from_us(7 * 7);
        assert_eq!(replay.finish(), Some(Time::ZERO + closed_form));
        assert_eq!(path.length, closed_form);
        // Two files of eight are an incomplete trace.
        let error = crate::check(&read(&sources[..2]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("names rank 7; there are ranks 0 to 1"), "{error}");
    }

    /// All ranks send 128 KiB before they receive: with MPI's rendezvous protocol they would deadlock.
    #[test]
    fn sends_are_asynchronous_at_any_size() {
        let part = (1 << 20) / 8;
        let sources: Vec<Source> =
            (0..8).map(|rank| encode(&format!("ring.{rank}.et"), &ring(rank, 8, part))).collect();
        let application = parse("ring", &sources, None, ReadOptions::default()).unwrap();
        let options = Options { envelope: 0, ..Options::default() };
        assert!(options.eager_limit < part as u64);
        let path = critical_path(&application, &options, NETWORK).unwrap();
        let replay = run(Arc::new(application.clone()), options.clone(), NETWORK).unwrap();
        // Each receive depends on the preceding send, which is complete before the message of the left
        // neighbour arrives.
        let round = Span::from_us(1) + NETWORK.rate.serialise(pauseframe_units::Bytes(part as u64));
        let closed_form = Span(round.0 * 14) + Span::from_us(7 * 7);
        assert_eq!((replay.finish(), path.length), (Some(Time::ZERO + closed_form), closed_form));
        // The same steps with MPI's sends deadlock.
        let mut blocking = application;
        for order in blocking.programs.iter_mut().filter_map(|program| program.order.as_mut()) {
            order.asynchronous_sends = false;
        }
        assert!(run(Arc::new(blocking), options, NETWORK).is_err());
    }

    /// In traces of PyTorch a caller waits for the data of the nodes that it calls.
    #[test]
    fn control_dependencies_on_callers_are_left_out() {
        let mut called = node(2, COMPUTE, &[], Vec::new());
        called.control_dependencies = vec![1];
        called.duration_micros = 3;
        let mut caller = node(1, COMPUTE, &[2], Vec::new());
        caller.duration_micros = 4;
        let application =
            parse("a", &[encode("a.0.et", &[caller, called.clone()])], None, ReadOptions::default()).unwrap();
        assert!(
            application.notes[0].starts_with("1 control dependencies name callers"),
            "{:?}",
            application.notes
        );
        let replay = run(Arc::new(application), Options::default(), NETWORK).unwrap();
        assert_eq!(replay.finish(), Some(Time::ZERO + Span::from_us(7)));
        // Control dependencies that form no cycle apply.
        let application = parse(
            "a",
            &[encode("a.0.et", &[node(1, COMPUTE, &[], Vec::new()), called])],
            None,
            ReadOptions::default(),
        );
        assert_eq!(application.unwrap().programs[0].order.as_ref().unwrap().after_end, [(0, 1)]);
    }

    /// A node that depends on a send begins when the data has left, neither when the data arrives nor when
    /// the send begins.
    #[test]
    fn a_send_is_complete_when_its_data_has_left() {
        let bytes = 1_250_000; // 100 us at 100 Gbps
        let message = |id, kind, peer: &str| {
            let attributes = vec![
                attribute("comm_size", Value::Int64(bytes)),
                attribute(peer, Value::Int32(i32::from(kind == SEND))),
            ];
            node(id, kind, &[], attributes)
        };
        let mut compute = node(2, COMPUTE, &[1], Vec::new());
        compute.duration_micros = 50;
        let mut late = node(1, COMPUTE, &[], Vec::new());
        late.duration_micros = 300;
        let mut receive = message(2, RECEIVE, "comm_src");
        receive.data_dependencies = vec![1];
        let sources =
            [encode("a.0.et", &[message(1, SEND, "comm_dst"), compute]), encode("a.1.et", &[late, receive])];
        let application = parse("a", &sources, None, ReadOptions::default()).unwrap();
        let options = Options { envelope: 0, ..Options::default() };
        let replay = run(Arc::new(application), options, NETWORK).unwrap();
        let finished: Vec<_> = replay.ranks().map(|rank| rank.finished.unwrap()).collect();
        assert_eq!(finished, [150, 300].map(|us| Time::ZERO + Span::from_us(us)));
    }

    #[test]
    fn collectives_without_a_type_do_what_their_names_say() {
        let named = |id, name: &str, needs: &[u64], size: Option<i64>| {
            let mut node = node(id, COLLECTIVE, needs, Vec::new());
            node.name = name.to_owned();
            node.attributes.extend(size.map(|size| attribute("comm_size", Value::Int64(size))));
            node
        };
        // The call on the host, which has no size, and the kernel that the call starts.
        let mut call = named(1, "c10d::broadcast_(0)", &[], None);
        call.duration_micros = 85;
        call.attributes.push(attribute("is_cpu_op", Value::Bool(true)));
        let nodes = [
            call,
            named(2, "ncclKernel_Broadcast_RING_LL_Sum_int8_t", &[1], Some(12_500)),
            named(3, "nccl:reduce_scatter", &[2], Some(800)),
            named(4, "c10d::barrier", &[3], None),
        ];
        let sources: Vec<Source> = (0..2).map(|rank| encode(&format!("a.{rank}.et"), &nodes)).collect();
        let application = parse("a", &sources, None, ReadOptions::default()).unwrap();
        let program = &application.programs[0];
        assert_eq!(program.ops[0], Op::Compute(Span::from_us(85)));
        let kinds: Vec<(Kind, u64)> = program.calls.iter().map(|call| (call.kind, call.bytes)).collect();
        assert_eq!(kinds, [(Kind::Bcast, 12_500), (Kind::ReduceScatter, 400), (Kind::Barrier, 0)]);
        assert_eq!(
            application.notes,
            [
                "6 collective nodes have no comm_type; their names say what they do",
                "2 collective nodes have no comm_size; they take their duration and send nothing",
            ]
        );
        let error =
            read(&[encode("a.0.et", &[named(1, "aten::mul", &[], Some(8))])]).unwrap_err().to_string();
        assert!(
            error.starts_with("a.0.et: node 1 (aten::mul): has no comm_type, and its name has none of"),
            "{error}"
        );
    }

    #[test]
    fn mistakes_name_file_and_node() {
        let good = encode("a.0.et", &[all_reduce(1, &[], Value::Int64(8000))]);
        let cut = Source { name: "a.0.et".to_owned(), bytes: good.bytes[..good.bytes.len() - 3].to_vec() };
        let error = read(&[cut]).unwrap_err().to_string();
        assert!(
            error.starts_with("a.0.et: is cut short or no Chakra trace: node 1 (from byte 8 of"),
            "{error}"
        );
        let missing = encode("a.0.et", &[all_reduce(1, &[5], Value::Int64(8))]);
        let error = read(&[missing]).unwrap_err().to_string();
        assert_eq!(error, "a.0.et: node 1 (n1): needs data of node 5, which is not there");
        let text = encode("a.0.et", &[all_reduce(1, &[], Value::Text("much".to_owned()))]);
        let error = read(&[text]).unwrap_err().to_string();
        assert_eq!(error, "a.0.et: node 1 (n1): comm_size is Text(\"much\")");
        let error = read(&[encode("a.0.et", &[]), encode("a.2.et", &[])]).unwrap_err().to_string();
        assert_eq!(error, "a.2.et: is the file of rank 2, taken for rank 1");
    }

    fn refused(ranks: &[&[Node]]) -> String {
        let sources: Vec<Source> =
            (0..).zip(ranks).map(|(rank, nodes)| encode(&format!("a.{rank}.et"), nodes)).collect();
        parse("a", &sources, None, ReadOptions::default()).unwrap_err().to_string()
    }

    #[test]
    fn damaged_files_name_file_and_node() {
        let sum = |id, needs: &[u64]| all_reduce(id, needs, Value::Int64(8));
        let receive = |from| {
            let attributes =
                vec![attribute("comm_src", Value::Int32(from)), attribute("comm_size", Value::Uint64(8))];
            node(2, RECEIVE, &[], attributes)
        };
        let mut wrong_call = sum(1, &[]);
        wrong_call.attributes[0] = attribute("comm_type", Value::Int64(42));
        let mut long = node(1, COMPUTE, &[], Vec::new());
        long.duration_micros = u64::MAX;
        let negative = all_reduce(1, &[], Value::Int64(-8));
        let cases: [(&[&[Node]], &str); 9] = [
            (&[&[negative]], "a.0.et: node 1 (n1): comm_size is Int64(-8)"),
            (&[&[sum(1, &[]), sum(1, &[])]], "a.0.et: node 1 (n1): has the number of another node"),
            (&[&[node(1, 99, &[], Vec::new())]], "a.0.et: node 1 (n1): has type 99; known are 0 to 7"),
            (&[&[wrong_call]], "a.0.et: node 1 (n1): has comm_type 42; known are 0 to 9"),
            (&[&[node(1, SEND, &[], Vec::new())]], "a.0.et: node 1 (n1): has no comm_dst"),
            (&[&[long]], "a.0.et: node 1 (n1): takes 18446744073709551615 us; at most 1e12"),
            (
                &[&[sum(1, &[]), receive(7)], &[sum(1, &[])]],
                "a.0.et: rank 0: node 2 of the file: names rank 7; there are ranks 0 to 1",
            ),
            (
                &[&[sum(1, &[2]), sum(2, &[1])]],
                "a.0.et: rank 0: node 1 of the file: depends on itself, through other steps",
            ),
            (
                &[&[sum(1, &[]), sum(2, &[1])], &[sum(1, &[])]],
                "a.1.et: rank 1: node 1 of the file: calls 1 collective operations on communicator 0, rank 0 calls 2",
            ),
        ];
        for (ranks, expected) in cases {
            assert_eq!(refused(ranks), expected);
        }
        // A node number of type text instead of integer, which has another wire type.
        let mut bytes = encode("a.0.et", &[]).bytes;
        bytes.extend([2, 0x0a, 0]);
        let error = read(&[Source { name: "a.0.et".to_owned(), bytes }]).unwrap_err().to_string();
        assert!(
            error.starts_with("a.0.et: is cut short or no Chakra trace: node 1 (from byte 8 of 11)"),
            "{error}"
        );
        let empty = Source { name: "a.0.et".to_owned(), bytes: Vec::new() };
        let error = parse("a", &[empty], None, ReadOptions::default()).unwrap_err().to_string();
        assert_eq!(error, "a.0.et: is empty");
    }

    #[test]
    fn a_trace_that_cannot_finish_says_which_rank_waits_for_what() {
        let attributes = vec![attribute("comm_src", Value::Int32(1))];
        let sources = [
            encode("a.0.et", &[node(1, RECEIVE, &[], attributes)]),
            encode("a.1.et", &[node(1, 1, &[], Vec::new())]),
        ];
        let application = parse("a", &sources, None, ReadOptions::default()).unwrap();
        let error = run(Arc::new(application.clone()), Options::default(), NETWORK).unwrap_err();
        let told: Vec<String> = error.faults().iter().map(|fault| application.describe(fault)).collect();
        assert_eq!(told, ["a.0.et: rank 0, step 0: waits for a message from rank 1 with tag 0"]);
    }

    #[test]
    fn groups_have_the_ranks_that_use_them() {
        let half = |id, group: &str| {
            let mut node = all_reduce(id, &[], Value::Int64(800));
            node.attributes.push(attribute("pg_name", Value::Text(group.to_owned())));
            node
        };
        let sources: Vec<Source> = (0..4)
            .map(|rank| encode(&format!("{rank}.et"), &[half(1, if rank < 2 { "low" } else { "high" })]))
            .collect();
        let application = read(&sources).unwrap();
        let members: Vec<&[u32]> = application.comms.iter().map(Communicator::members).collect();
        assert_eq!(members, [&[0, 1, 2, 3][..], &[2, 3], &[0, 1]]);
        let options = Options { eager_limit: u64::MAX, envelope: 0, ..Options::default() };
        let replay = run(Arc::new(application), options, NETWORK).unwrap();
        // The replay uses recursive doubling with two ranks.
        assert_eq!(replay.finish(), Some(Time::ZERO + Span::from_us(1) + Span::from_ns(64)));
    }
}
