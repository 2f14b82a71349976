//! Traces written here, with closed forms and mistakes.

use super::format::{Attribute, COLLECTIVE, COMPUTE, GlobalMetadata, Node, RECEIVE, SEND, Value};
use super::read;
use crate::algorithm::Kind;
use crate::application::{Communicator, Op};
use crate::ideal::{IdealNetwork, Sharing, run};
use crate::read::{ReadOptions, Source, parse};
use crate::{Options, critical_path};
use pauseframe_units::{BitRate, Span, Time};
use prost::Message;
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
    let sources: Vec<Source> =
        (0..4).map(|rank| encode(&format!("a.{rank}.et"), if rank == 1 { &theirs } else { &ours })).collect();
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
    let kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    let kernels: Vec<Source> =
        (0..2).map(|rank| encode(&format!("a.{rank}.et"), &[named(1, kernel, &[], Some(64))])).collect();
    let application = read(&kernels).unwrap();
    let call = &application.programs[0].calls[0];
    assert_eq!((call.kind, call.bytes), (Kind::Alltoall, 32));
    let error = read(&[encode("a.0.et", &[named(1, "aten::mul", &[], Some(8))])]).unwrap_err().to_string();
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
    assert!(error.starts_with("a.0.et: is cut short or no Chakra trace: node 1 (from byte 8 of"), "{error}");
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
    let empty = all_reduce(1, &[], Value::Int64(0));
    let cases: [(&[&[Node]], &str); 10] = [
        (
            &[&[empty]],
            "a.0.et: node 1 (n1): has comm_size 0, which a collective operation cannot have: a converter wrote it for a size \
             that it did not know; remove the node, or set its size",
        ),
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
            "a.0.et: rank 0: node 1 of the file: depends on itself: node 1 needs node 2 needs node 1",
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
    assert_eq!(
        told,
        ["a.0.et: rank 0, step 0: waits for a message from rank 1 with tag 0, which rank 1 never sends"]
    );
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

/// Kernels that depend on their launchers only, as in linked traces of PyTorch (mlcommons/chakra issue 215).
#[test]
fn kernels_of_a_stream_run_one_after_the_other() {
    let kernel = |id, start, stream, micros| {
        let mut kernel = node(id, COMPUTE, &[1], vec![attribute("stream", Value::Int64(stream))]);
        (kernel.start_time_micros, kernel.duration_micros) = (start, micros);
        kernel
    };
    let mut launcher = node(1, COMPUTE, &[], vec![attribute("is_cpu_op", Value::Bool(true))]);
    launcher.duration_micros = 10;
    let mut reduce = all_reduce(4, &[1], Value::Int64(8000));
    reduce.start_time_micros = 30;
    reduce.attributes.push(attribute("stream", Value::Int64(7)));
    // The kernel that starts first stands last in the file.
    let nodes = [launcher, reduce, kernel(3, 20, 7, 100), kernel(5, 10, 7, 50)];
    let sources: Vec<Source> = (0..2).map(|rank| encode(&format!("a.{rank}.et"), &nodes)).collect();
    let application = parse("a", &sources, None, ReadOptions::default()).unwrap();
    let chained = "4 kernels wait for the one before them on their stream, though no dependency says so";
    assert!(application.notes.iter().any(|note| note == chained), "{:?}", application.notes);
    let options = Options { eager_limit: u64::MAX, envelope: 0, ..Options::default() };
    let finish = run(Arc::new(application), options, NETWORK).unwrap().finish();
    // Two ranks exchange halves of 8000 bytes twice, after all kernels.
    let beta = NETWORK.rate.serialise(pauseframe_units::Bytes(8_000));
    assert_eq!(finish, Some(Time::ZERO + Span::from_us(10 + 50 + 100 + 2) + beta));
    // A kernel that needs a later one keeps the order of its dependencies.
    let mut early = kernel(6, 5, 7, 1);
    early.data_dependencies = vec![1, 3];
    let nodes = [nodes[0].clone(), nodes[2].clone(), early];
    let application = parse("a", &[encode("a.0.et", &nodes)], None, ReadOptions::default()).unwrap();
    assert!(application.notes.iter().any(|note| note.starts_with("1 streams have kernels")));
}
