//! Chakra execution traces (MLCommons): for each rank a file of length-prefixed protobuf messages: one
//! `GlobalMetadata`, then `Node`s that depend on each other.
//!
//! Sizes have the meaning that ASTRA-sim gives them: the whole vector for all-reduce, reduce and broadcast;
//! the block of one rank for all-gather, gather and scatter; the data of one rank for all others in
//! all-to-all and reduce-scatter. Compute nodes take their duration; nodes with `is_cpu_op` occupy the CPU,
//! other nodes the GPU, one at a time. Memory nodes take their duration too.
//!
//! Kernels of a stream (attribute `stream`, not `is_cpu_op`) run one after the other by their start times, as on a GPU,
//! although no dependency may say so (mlcommons/chakra issue 215, pull request 221).
//!
//! In traces of PyTorch a control dependency names the caller of a node. Control dependencies are ignored if
//! they cause a cycle that data dependencies alone do not have; ASTRA-sim's feeder ignores all of them.
//!
//! Point-to-point nodes work as in ASTRA-sim (`Workload::issue_send_comm`): a send is asynchronous and
//! complete when its data has left (`PacketSent`), a receive accepts a message of its source and tag
//! (`PacketReceived`). A collective node without `comm_type` has its kind in its name (`c10d::broadcast_`). A
//! collective node without `comm_size` is a call on the host, whose kernel communicates in a separate node;
//! the call takes its duration.

mod format;
mod operation;
#[cfg(test)]
mod tests;

pub(super) use format::recognise;

use super::text::{ReadError, at_file};
use super::{Source, rank_in_name};
use crate::application::{Application, Communicator, Dependences, Program};
use crate::check::circle;
use format::{Node, decode};
use operation::{collective, operation};
use std::collections::BTreeMap;

/// State that all ranks of a trace share while they are read.
#[derive(Default)]
struct Notes {
    dangling: u64,
    durations: u64,
    unknown_length: u64,
    kinds_of_names: u64,
    without_size: u64,
    callers: u64,
    chained: u64,
    unchained: u64,
}

pub(super) fn read(sources: &[Source]) -> Result<Application, ReadError> {
    for (rank, source) in (0..).zip(sources) {
        if let Some(other) = rank_in_name(&source.name).filter(|&other| other != rank && sources.len() > 1) {
            return Err(at_file(&source.name, format!("is the file of rank {other}, taken for rank {rank}")));
        }
    }
    let (mut ranks, mut count) = (Vec::new(), 0);
    for source in sources {
        let nodes = decode(source, count)?;
        count += nodes.len();
        ranks.push(nodes);
    }
    let groups = groups(&ranks, sources)?;
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
    note(notes.chained, "kernels wait for the one before them on their stream, though no dependency says so");
    note(notes.unchained, "streams have kernels that depend on later ones; these streams are not chained");
    note(notes.durations, "compute nodes take their duration_micros");
    note(notes.unknown_length, "compute nodes have no duration and take no time");
    note(notes.kinds_of_names, "collective nodes have no comm_type; their names say what they do");
    note(notes.without_size, "collective nodes have no comm_size; they take their duration and send nothing");
    Ok(application)
}

/// Process groups by name: their index, and the ranks that call a collective operation in the group.
type Groups = BTreeMap<String, (u32, Vec<u32>)>;

/// The process groups. A group of all ranks is the world communicator.
fn groups(ranks: &[Vec<Node>], sources: &[Source]) -> Result<Groups, ReadError> {
    let mut groups = Groups::new();
    for ((rank, nodes), source) in (0..).zip(ranks).zip(sources) {
        for node in nodes.iter().filter(|node| node.communicates()) {
            let name = node.group().map_err(|reason| at_file(&source.name, reason))?;
            let Some(name) = name else { continue };
            let (_, members) = groups.entry(name).or_default();
            if members.last() != Some(&rank) {
                members.push(rank);
            }
        }
    }
    for (position, group) in (1..).zip(groups.values_mut()) {
        group.0 = position;
    }
    Ok(groups)
}

/// Lets each kernel wait for the one before it on its stream, unless dependencies say the contrary.
fn chain_streams(nodes: &[Node], order: &mut Dependences, notes: &mut Notes) -> Result<(), String> {
    let mut streams: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (step, node) in (0..).zip(nodes) {
        if let Some(stream) =
            node.number(&["stream"])?.filter(|_| order.units[step as usize] != operation::CPU)
        {
            streams.entry(stream).or_default().push(step);
        }
    }
    for mut kernels in streams.into_values() {
        kernels.sort_by_key(|step| nodes[*step as usize].start_time_micros);
        let before = order.after_end.len();
        let pairs = kernels.windows(2).map(|pair| (pair[0], pair[1]));
        let known: std::collections::BTreeSet<(u32, u32)> = order.after_end.iter().copied().collect();
        order.after_end.extend(pairs.filter(|pair| !known.contains(pair)));
        if circle(nodes.len(), order.after_end.iter()).is_some() {
            order.after_end.truncate(before);
            notes.unchained += 1;
        } else {
            notes.chained += (order.after_end.len() - before) as u64;
        }
    }
    Ok(())
}

fn program(
    rank: u32,
    nodes: &[Node],
    ranks: usize,
    groups: &Groups,
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
    let in_cycle = |pairs: &[(u32, u32)]| circle(nodes.len(), pairs.iter()).is_some();
    if in_cycle(&order.after_end) && !in_cycle(&order.after_end[..data]) {
        order.after_end.truncate(data);
        notes.callers += control.len() as u64;
    }
    chain_streams(nodes, &mut order, notes)?;
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
