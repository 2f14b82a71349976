use super::layout::double_tree;
use super::plan::Plan;
use super::{Layout, Nccl, Pattern, model};
use crate::algorithm::{Kind, Part};
use crate::application::{Application, Call, Communicator, Op, Program};
use crate::ideal::{IdealNetwork, Sharing, run};
use crate::replay::{Options, Replay};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::sync::Arc;

const RATE: BitRate = BitRate::gbps(400);
const LATENCY: Span = Span::from_us(2);

fn network(sharing: Sharing) -> IdealNetwork {
    IdealNetwork { latency: LATENCY, rate: RATE, sharing }
}

fn whole_steps(pattern: Pattern) -> Nccl {
    Nccl { pattern: Some(pattern), slice: None, ..Nccl::default() }
}

fn replay(application: Application, nccl: Nccl, sharing: Sharing, places: &[(u32, u32)]) -> Replay {
    crate::check(&application).unwrap();
    let options = Options { nccl: Some(nccl), envelope: 0, places: places.to_vec(), ..Options::default() };
    run(Arc::new(application), options, network(sharing)).unwrap()
}

fn one_call(ranks: u32, kind: Kind, bytes: u64) -> Application {
    let program = |_| {
        let mut program = Program::default();
        program.push_call(Call::new(kind, bytes), None, 0);
        program
    };
    Application::new("call", (0..ranks).map(program).collect())
}

fn finish(ranks: u32, kind: Kind, bytes: u64, nccl: Nccl, sharing: Sharing) -> Span {
    replay(one_call(ranks, kind, bytes), nccl, sharing, &[]).finish().unwrap() - Time::ZERO
}

fn times(count: u64, bytes: u64) -> Span {
    Span((LATENCY + RATE.serialise(Bytes(bytes))).0 * count)
}

#[test]
fn rings_with_one_message_a_step_take_the_closed_form() {
    let ring = || whole_steps(Pattern::Ring);
    for ranks in [2, 3, 8, 32] {
        let steps = u64::from(ranks - 1);
        let block = 1 << 16;
        let bytes = block * u64::from(ranks);
        assert_eq!(finish(ranks, Kind::Allreduce, bytes, ring(), Sharing::Nics), times(2 * steps, block));
        assert_eq!(finish(ranks, Kind::Allgather, block, ring(), Sharing::Nics), times(steps, block));
        assert_eq!(finish(ranks, Kind::ReduceScatter, block, ring(), Sharing::Nics), times(steps, block));
    }
}

#[test]
fn slices_hide_the_latency_of_steps() {
    // Two slices of a step are under way at once, so the second needs only its time on the wire.
    let nccl = Nccl { slice: Some(1 << 20), ..Nccl::default() };
    let bytes = 8 * (2 << 20);
    let wire = RATE.serialise(Bytes(1 << 20));
    let expected = Span((wire.0 * 2).max(wire.0 + LATENCY.0) * 13) + wire + wire + LATENCY;
    assert_eq!(finish(8, Kind::Allreduce, bytes, nccl.clone(), Sharing::Nics), expected);
    // With one slice under way each waits for the one before.
    let single = Nccl { in_flight: 1, ..nccl };
    assert_eq!(finish(8, Kind::Allreduce, bytes, single, Sharing::Nics), times(28, 1 << 20));
}

#[test]
fn chains_pipeline_steps() {
    let nccl = Nccl { slice: Some(2000), in_flight: 64, ..Nccl::default() };
    // A step is half a slice: each of 5 links passes 10 on.
    let expected = times(5, 1000) + Span(RATE.serialise(Bytes(1000)).0 * 9);
    for kind in [Kind::Bcast, Kind::Reduce] {
        assert_eq!(finish(6, kind, 10_000, nccl.clone(), Sharing::Nics), expected, "{kind}");
    }
}

#[test]
fn trees_take_two_ways_of_their_depth() {
    let bytes = 1 << 20;
    for (ranks, depth) in [(2, 1), (4, 2), (8, 3), (16, 4)] {
        let time = finish(ranks, Kind::Allreduce, bytes, whole_steps(Pattern::Tree), Sharing::Nothing);
        // Half of the vector goes up each tree and down again.
        assert_eq!(time, times(2 * depth, bytes / 2), "{ranks} ranks");
    }
}

/// Messages and messages under way of the connections of rank 1, without those that carry nothing.
fn counts(kind: Kind, bytes: u64, pattern: Pattern) -> Vec<(u32, u32)> {
    counts_with(&Nccl { pattern: Some(pattern), ..Nccl::default() }, kind, bytes)
}

fn counts_with(nccl: &Nccl, kind: Kind, bytes: u64) -> Vec<(u32, u32)> {
    let layout = Layout::new(&places(8, 8), nccl);
    let part = Part { size: 64, me: 1, root: 0, bytes, counts: &[] };
    Plan::new(kind, &part, &layout, nccl).outs.iter().map(|out| (out.total, out.window)).collect()
}

#[test]
fn trees_halve_their_messages() {
    // Both trees of eight channels, with ten levels: below 80 messages of a vector they halve to 128 KiB, below 40 to 64 KiB, below 10 to 32 KiB.
    let mib = [1024, 512, 256, 64, 8, 1];
    for (mib, kib) in mib.into_iter().zip([512, 256, 128, 64, 32, 32]) {
        let counts = counts(Kind::Allreduce, mib << 20, Pattern::Tree);
        let expected = (mib << 20) / 16 / (kib << 10);
        assert!(counts.iter().all(|count| *count == (expected as u32, 8)), "{mib} MiB: {counts:?}");
    }
}

/// Bytes that come in over the network at each rank.
fn received_by_nics(bytes: u64, pattern: Pattern) -> Vec<u64> {
    let nccl = Nccl { pattern: Some(pattern), ..Nccl::default() };
    let layout = Layout::new(&places(8, 8), &nccl);
    let mut received = vec![0; 64];
    for me in 0..64 {
        let part = Part { size: 64, me, root: 0, bytes, counts: &[] };
        for out in Plan::new(Kind::Allreduce, &part, &layout, &nccl).outs {
            if out.to / 8 != me / 8 {
                received[out.to as usize] += (0..out.total).map(|at| out.bytes(at)).sum::<u64>();
            }
        }
    }
    received
}

#[test]
fn double_trees_share_nics() {
    let bytes = 1 << 30;
    // An inner node of one tree (two children and a parent) is a leaf of the other.
    let most = |pattern| received_by_nics(bytes, pattern).into_iter().max().unwrap();
    assert_eq!(most(Pattern::Tree), 4 * bytes / 16);
    assert_eq!(most(Pattern::Ring), 2 * bytes / 8 * 63 / 64);
}

#[test]
fn sends_depend_on_servers() {
    let counts = counts(Kind::Alltoall, 1 << 20, Pattern::SendRecv);
    assert_eq!(counts.iter().filter(|count| **count == (2, 8)).count(), 7);
    assert_eq!(counts.iter().filter(|count| **count == (8, 8)).count(), 56);
    // Sends to another server have messages of a chunk, or of a step of the buffer if that is less.
    for (slice, p2p_chunk, far) in [(1 << 20, 64 << 10, 16), (1 << 20, 1 << 20, 2), (2 << 20, 1 << 20, 1)] {
        let nccl = Nccl { slice: Some(slice), p2p_chunk, ..Nccl::default() };
        let counts = counts_with(&nccl, Kind::Alltoall, 1 << 20);
        let of_step = (2 << 20) / slice as u32;
        let expected = if far == of_step { 63 } else { 56 };
        assert_eq!(counts.iter().filter(|count| **count == (far, 8)).count(), expected);
    }
}

#[test]
fn an_exchange_between_all_pairs_sends_everything_at_once() {
    let nccl = Nccl { slice: None, ..Nccl::default() };
    assert_eq!(finish(8, Kind::Alltoall, 70_000, nccl.clone(), Sharing::Nothing), times(1, 70_000));
    // Slices of a connection follow each other where NICs send one message after the other.
    let sliced = Nccl { slice: Some(35_000), ..nccl };
    assert_eq!(finish(2, Kind::Alltoall, 70_000, sliced, Sharing::Nics), times(1, 70_000));
}

#[test]
fn neighbours_in_trees_know_each_other() {
    for count in 1..=33 {
        for is_second in [false, true] {
            let nodes: Vec<_> = (0..count).map(|node| double_tree(count, node, is_second)).collect();
            assert_eq!(nodes.iter().filter(|(parent, _)| parent.is_none()).count(), 1);
            for (node, (parent, children)) in (0..).zip(&nodes) {
                assert!(children.len() <= 2);
                assert!(children.iter().all(|child| nodes[*child as usize].0 == Some(node)));
                assert!(parent.is_none_or(|parent| nodes[parent as usize].1.contains(&node)));
            }
        }
        // A leaf of one tree is an inner node of the other, so that both directions of a link are used.
        if count.is_multiple_of(2) && count > 2 {
            let inner = |node, is_second| !double_tree(count, node, is_second).1.is_empty();
            assert!((0..count).all(|node| inner(node, false) || inner(node, true)));
        }
    }
}

/// Servers of `local` ranks.
fn places(servers: u32, local: u32) -> Vec<(u32, u32)> {
    (0..servers * local).map(|rank| (rank / local, rank % local)).collect()
}

#[test]
fn each_channel_enters_a_server_at_its_rail() {
    let layout = Layout::new(&places(2, 4), &Nccl::default());
    let orders: Vec<&[u32]> = layout.rings.iter().map(|(order, _)| order.as_slice()).collect();
    assert_eq!(orders[..2], [&[0, 1, 2, 3, 4, 5, 6, 7][..], &[1, 2, 3, 0, 5, 6, 7, 4]]);
    assert_eq!((orders.len(), layout.trees.len()), (4, 8));
    // Within a server all channels are alike, so one stands for them.
    assert_eq!(Layout::new(&places(1, 8), &Nccl::default()).rings.len(), 1);
    // A rank of a rail in each server has a ring alone.
    assert_eq!(Layout::new(&places(8, 1), &Nccl::default()).rings.len(), 1);
}

/// The places of servers with so many ranks each.
fn of_sizes(sizes: &[u32]) -> Vec<(u32, u32)> {
    (0..).zip(sizes).flat_map(|(server, size)| (0..*size).map(move |rail| (server, rail))).collect()
}

#[test]
fn the_smallest_server_gives_channels() {
    for (sizes, channels) in [(&[8, 7][..], 7), (&[7, 8], 7), (&[8, 4], 4), (&[3, 2, 4], 2), (&[8, 1], 1)] {
        let layout = Layout::new(&of_sizes(sizes), &Nccl::default());
        assert_eq!(layout.rings.len(), channels, "{sizes:?}");
        // Each channel enters a server at another rank, so that all of these NICs have work.
        let first = sizes[0] as usize;
        let enters: std::collections::BTreeSet<u32> =
            layout.rings.iter().map(|(order, _)| order[first]).collect();
        assert_eq!(enters.len(), channels.min(sizes[1] as usize), "{sizes:?}");
    }
}

/// Bytes that all ranks send.
fn sent(kind: Kind, bytes: u64, places: &[(u32, u32)], nccl: &Nccl) -> u64 {
    let layout = Layout::new(places, nccl);
    let size = places.len() as u32;
    let plan = |me| Plan::new(kind, &Part { size, me, root: 1, bytes, counts: &[] }, &layout, nccl);
    let plans: Vec<Plan> = (0..size).map(plan).collect();
    // What goes out comes in, at a connection that is not idle.
    for (from, plan) in plans.iter().enumerate() {
        for out in &plan.outs {
            let peer = &plans[out.to as usize];
            assert!(out.slot < peer.ins && !peer.idle.contains(&out.slot), "{kind} {from}");
        }
    }
    let outs: usize = plans.iter().map(|plan| plan.outs.len()).sum();
    let ins: usize = plans.iter().map(|plan| plan.ins as usize - plan.idle.len()).sum();
    assert_eq!(outs, ins);
    plans
        .iter()
        .flat_map(|plan| &plan.outs)
        .map(|out| (0..out.total).map(|at| out.bytes(at)).sum::<u64>())
        .sum()
}

#[test]
fn all_bytes_are_sent_once() {
    for places in [places(1, 8), places(4, 2), places(3, 3), places(5, 1), of_sizes(&[3, 2, 4])] {
        let ranks = places.len() as u64;
        for slice in [None, Some(1000), Some(1 << 20)] {
            for pattern in [Pattern::Ring, Pattern::Tree] {
                let nccl = Nccl { pattern: Some(pattern), slice, ..Nccl::default() };
                for bytes in [1, 12_345, 1_000_003] {
                    let all = |kind| sent(kind, bytes, &places, &nccl);
                    assert_eq!(all(Kind::Allreduce), 2 * (ranks - 1) * bytes);
                    // Of blocks of `bytes` for each rank.
                    assert_eq!(all(Kind::Allgather), (ranks - 1) * ranks * bytes);
                    assert_eq!(all(Kind::ReduceScatter), (ranks - 1) * ranks * bytes);
                    assert_eq!(all(Kind::Alltoall), (ranks - 1) * ranks * bytes);
                    assert_eq!(all(Kind::Bcast), (ranks - 1) * bytes);
                    assert_eq!(all(Kind::Reduce), (ranks - 1) * bytes);
                }
            }
        }
    }
}

#[test]
fn every_shape_comes_to_its_end() {
    for places in [places(1, 4), places(4, 2), places(3, 3), places(5, 1), of_sizes(&[3, 2, 4])] {
        let ranks = places.len() as u32;
        for kind in [Kind::Allreduce, Kind::Allgather, Kind::Alltoall, Kind::Bcast, Kind::Reduce] {
            for pattern in [Pattern::Ring, Pattern::Tree] {
                let nccl = Nccl { pattern: Some(pattern), slice: Some(10_000), ..Nccl::default() };
                let application = one_call(ranks, kind, 99_999);
                let replay = replay(application, nccl, Sharing::Nics, &places);
                let (_, _, record) = replay.calls().next().unwrap();
                assert_eq!((record.begun, record.ended), (ranks, ranks));
            }
        }
    }
}

#[test]
fn operations_of_a_communicator_go_one_after_the_other_and_others_beside_them() {
    let mut comms = vec![Communicator::new(vec![0, 1]), Communicator::new(vec![0, 1])];
    let program = |_| {
        let mut program = Program::default();
        for (slot, comm) in [(0, 0), (1, 0), (2, 1)] {
            program.push_call(Call { comm, ..Call::new(Kind::Allreduce, 100_000) }, Some(slot), 0);
        }
        program.push_waits(&[0, 1, 2], 0);
        program.push(Op::Mark, 0);
        program
    };
    let mut application = Application::new("streams", (0..2).map(program).collect());
    application.comms = std::mem::take(&mut comms);
    let replay = replay(application, whole_steps(Pattern::Ring), Sharing::Nothing, &[]);
    let one = times(2, 50_000);
    let span = |at: Time| at - Time::ZERO;
    let ends: Vec<(u32, Span, Span)> =
        replay.calls().map(|(comm, _, record)| (comm, span(record.start), span(record.end))).collect();
    assert_eq!(ends, [(0, Span::ZERO, one), (0, one, Span(one.0 * 2)), (1, Span::ZERO, one)]);
}

#[test]
fn the_model_chooses_trees_for_small_vectors_on_many_servers() {
    let layout = Layout::new(&places(8, 8), &Nccl::default());
    // 8.4 + 112 · 3.4 + 14 · 14 us of a ring of 64 GPUs on 8 servers (Hopper, protocol Simple).
    let [ring, _] = model::times_us(&Nccl::default(), &layout, 64, 0);
    assert!((ring - 585.2).abs() < 0.1, "{ring}");
    let choose = |bytes| model::choose(&Nccl::default(), &layout, 64, bytes);
    assert_eq!([choose(8), choose(1 << 30)], [Pattern::Tree, Pattern::Ring]);
    // 16 MiB at 0.92 · 0.7 / 2 of eight rails of 50 GB/s, and 8.4 + 2 · (7 · 4 + 3 · 14) us.
    let [_, tree] = model::times_us(&Nccl::default(), &layout, 64, 16 << 20);
    assert!((tree - 148.4 - 130.26).abs() < 0.01, "{tree}");
}
