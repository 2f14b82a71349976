//! Gradients and parameters in buckets: how they are filled, what they carry, what they hide.

use super::checkpoint::WEIGHT;
use super::layers::GRADIENT;
use super::tests::{LATENCY, MODEL, RATE, assert_complete, plan, replay};
use super::{Model, Overlap, Parallelism, Plan, Schedule, application};
use crate::application::{Op, Program};
use crate::calls::CallRecord;
use pauseframe_units::{Bytes, Span, Time};

fn overlapped_model(
    replicas: u32,
    stages: u32,
    model: Model,
    overlap: Option<Overlap>,
    iterations: u32,
) -> Plan {
    let parallelism =
        Parallelism { ranks: replicas * stages, tensor: 1, context: 1, pipeline: stages, expert: 1 };
    let step = Model { overlap, ..model }.step(&parallelism).unwrap();
    Plan { iterations, ..plan(step, parallelism, Schedule::OneForwardOneBackward) }
}

/// Bytes of the data-parallel collectives of an iteration, by name of the layer, in the order of a rank.
fn buckets_of_rank(plan: &Plan, rank: usize, iteration: u32) -> Vec<(String, u64)> {
    let made = application("m", plan);
    let labels = &made.training.as_ref().unwrap().labels;
    let calls = made.programs[rank].calls.iter().filter_map(|call| call.label);
    let of_iteration =
        calls.map(|label| &labels[label as usize]).filter(|label| label.iteration == iteration);
    let buckets = of_iteration.filter(|label| label.layer.contains("_bucket"));
    buckets.map(|label| (label.layer.clone(), label.bytes)).collect()
}

/// A layer of 12 h² parameters has matrices of 3, 1, 4 and 4 h², whose gradients come in the other order.
#[test]
fn buckets_are_full_with_the_matrix_that_fills_them() {
    let square = 1024 * 1024;
    let sizes = |bucket: u64, replicas: u32, stages: u32, rank: usize| {
        let overlap = Some(Overlap { bucket, gathers: true });
        let plan =
            overlapped_model(replicas, stages, Model { layers: 4, micro_batches: 2, ..MODEL }, overlap, 2);
        let reduced =
            buckets_of_rank(&plan, rank, 0).into_iter().filter(|(name, _)| name.starts_with("grad_"));
        reduced.map(|(_, bytes)| bytes / GRADIENT / square).collect::<Vec<_>>()
    };
    assert_eq!(sizes(1, 2, 1, 0), [4, 4, 1, 3].repeat(4));
    assert_eq!(sizes(4 * square, 2, 1, 0), [4, 4, 4].repeat(4));
    assert_eq!(sizes(4 * square + 1, 2, 1, 0), [8, 8, 5, 7, 5, 7, 5, 3]);
    assert_eq!(sizes(u64::MAX, 2, 1, 1), [48]);
    // Later stages have one bucket.
    assert_eq!((sizes(1, 2, 2, 0), sizes(1, 2, 2, 2)), ([4, 4, 1, 3].repeat(2), vec![24]));
    assert_eq!(sizes(1, 1, 2, 0), [0; 0]);
}

/// Only gradients of the last micro-batch are reduced, and only parameters of an optimizer that has run are gathered: as
/// many bytes as without buckets.
#[test]
fn buckets_carry_the_bytes_of_whole_vectors() {
    let whole = 4 * 12 * 1024 * 1024;
    let interleaved = Schedule::Interleaved { chunks: 2 };
    for (schedule, stages) in
        [(Schedule::OneForwardOneBackward, 1), (Schedule::ForwardFirst, 1), (interleaved, 2)]
    {
        let overlap = Some(Overlap { bucket: 1 << 22, gathers: true });
        let model = Model { layers: 4, ..MODEL };
        let plan = Plan { schedule, ..overlapped_model(2, stages, model, overlap, 3) };
        for iteration in 0..3 {
            let sum = |what: &str| {
                let of_ranks =
                    (0..stages as usize).flat_map(|stage| buckets_of_rank(&plan, stage * 2, iteration));
                of_ranks.filter(|(name, _)| name.starts_with(what)).map(|(_, bytes)| bytes).sum::<u64>()
            };
            assert_eq!(sum("grad_"), whole * GRADIENT, "{schedule:?} {iteration}");
            // The first iteration has parameters; the last one leaves them gathered.
            let gathers = [0, 1, 2][iteration as usize] * whole * WEIGHT;
            assert_eq!(sum("param_"), gathers, "{schedule:?} {iteration}");
        }
        let replay = replay(application("m", &plan), LATENCY);
        assert_complete(&replay);
    }
}

/// What the backward pass hides of a bucket's reduction is not exposed: with a bucket a matrix, the rest is the last bucket's
/// time if no other one is late.
#[test]
fn the_backward_pass_hides_all_buckets_but_the_last() {
    let model =
        Model { layers: 2, micro_batches: 1, backward: Span::from_ms(40), optimizer: Span::ZERO, ..MODEL };
    let half = |bytes: u64| LATENCY + RATE.serialise(Bytes(bytes / 2));
    let end = |overlap| {
        let replay = replay(application("m", &overlapped_model(2, 1, model, overlap, 1)), LATENCY);
        assert_complete(&replay);
        replay.finish().unwrap() - Time::ZERO
    };
    let square = 1024 * 1024;
    let compute = Span((model.forward + model.backward).0 * 2);
    let (gradients, weights) = (24 * square * GRADIENT, 24 * square * WEIGHT);
    assert_eq!(end(None), compute + half(gradients) + half(weights));
    let reduces = end(Some(Overlap { bucket: 1, gathers: false }));
    assert_eq!(reduces, compute + half(3 * square * GRADIENT) + half(weights));
    assert_eq!(end(Some(Overlap { bucket: u64::MAX, gathers: false })), end(None));
}

/// The first gather of an iteration is exposed; each other one begins when the one before has come, and hides behind the
/// layers of that.
#[test]
fn the_forward_pass_hides_all_gathers_but_the_first() {
    let model = Model {
        layers: 3,
        micro_batches: 2,
        forward: Span::from_ms(4),
        backward: Span::from_ms(40),
        optimizer: Span::ZERO,
        ..MODEL
    };
    let square = 1024 * 1024;
    let half = |bytes: u64| LATENCY + RATE.serialise(Bytes(bytes / 2));
    let end = |iterations: u32, gathers: bool| {
        let overlap = Some(Overlap { bucket: 12 * square, gathers });
        let replay = replay(application("m", &overlapped_model(2, 1, model, overlap, iterations)), LATENCY);
        assert_complete(&replay);
        replay.finish().unwrap() - Time::ZERO
    };
    let compute = Span((model.forward + model.backward).0 * 6);
    let reduced = half(12 * square * GRADIENT);
    let layer = half(12 * square * WEIGHT);
    for iterations in [1, 4] {
        let all = |gathers: Span| Span((compute + reduced + gathers).0 * u64::from(iterations));
        assert_eq!(end(iterations, false), all(half(36 * square * WEIGHT)));
        // At the end of the job all are gathered at once.
        let last = Span(layer.0 * 3);
        let between = Span(layer.0 * u64::from(iterations - 1));
        assert_eq!(end(iterations, true), all(Span::ZERO) + between + last);
    }
}

/// Forward and backward turns of a rank of each stage before the collectives of its buckets, in the second of three iterations.
fn turns_before_buckets(stages: u32, chunks: u32, micro_batches: u32) -> Vec<Vec<(String, u64, u64)>> {
    const FORWARD: u64 = 1_200;
    const BACKWARD: u64 = 1_000_000 * FORWARD;
    let model = Model {
        layers: stages * chunks,
        micro_batches,
        forward: Span(FORWARD),
        backward: Span(BACKWARD),
        optimizer: Span::ZERO,
        ..MODEL
    };
    let overlap = Some(Overlap { bucket: u64::MAX, gathers: true });
    let schedule = Schedule::Interleaved { chunks };
    let plan = Plan { schedule, ..overlapped_model(2, stages, model, overlap, 3) };
    assert_eq!(plan.check(), Ok(()));
    let made = application("m", &plan);
    assert_complete(&replay(made.clone(), LATENCY));
    let labels = &made.training.as_ref().unwrap().labels;
    let of_rank = |program: &Program| {
        let (mut computed, mut found) = (0, Vec::new());
        for op in &program.ops {
            match op {
                Op::Compute(span) => computed += span.0,
                Op::Collective { call, .. } => {
                    let label = program.calls[*call as usize].label.map(|label| &labels[label as usize]);
                    let bucket =
                        label.filter(|label| label.iteration == 1 && label.layer.contains("_bucket"));
                    let iteration = u64::from(micro_batches * chunks) * (BACKWARD + FORWARD);
                    let turns = computed.saturating_sub(iteration);
                    let [forward, backward] = [turns % BACKWARD / FORWARD, turns / BACKWARD];
                    found.extend(bucket.map(|label| (label.layer.clone(), forward, backward)));
                }
                _ => (),
            }
        }
        found
    };
    made.programs.iter().step_by(2).map(of_rank).collect()
}

/// Megatron's own example of alignment: a stage reduces a chunk as many backward turns after its last gradients as the
/// number of the stage, and gathers a chunk as many forward turns before the chunk before begins.
#[test]
fn stages_that_interleave_align_their_buckets() {
    let expected = |stage: u64| {
        // Forward: chunks 0, 0, 1, 1, 2, 2, and again; backward: 2, 2, 1, 1, 0, 0, and again.
        let gathers = [("param_bucket0", 0, 0), ("param_bucket1", 0, 0), ("param_bucket2", 2 - stage, 0)];
        let reductions = [("grad_bucket2", 8 + stage), ("grad_bucket1", 10 + stage), ("grad_bucket0", 12)];
        let reductions = reductions.map(|(name, turn)| (name, 12, turn));
        [gathers, reductions].concat()
    };
    for (stage, found) in (0..).zip(turns_before_buckets(2, 3, 4)) {
        let gathers = found.iter().filter(|(name, ..)| name.starts_with("param"));
        let reductions = found.iter().filter(|(name, ..)| name.starts_with("grad"));
        let found: Vec<_> = gathers.chain(reductions).map(|(name, f, b)| (name.as_str(), *f, *b)).collect();
        assert_eq!(found, expected(stage), "stage {stage}");
    }
}

/// Without overlap dense gradients are reduced before those of experts, and parameters are gathered in this order, one after the other
/// (`finish_grad_sync` of Megatron-LM).
#[test]
fn dense_gradients_precede_experts() {
    let parallelism = Parallelism { ranks: 8, tensor: 1, context: 1, pipeline: 1, expert: 4 };
    let step = Model { experts: 4, ..MODEL }.step(&parallelism).unwrap();
    let made = application("m", &plan(step, parallelism, Schedule::OneForwardOneBackward));
    let replay = replay(made.clone(), LATENCY);
    assert_complete(&replay);
    let labels = &made.training.as_ref().unwrap().labels;
    let span_of = |layer: &str| {
        let is_of_layer = |record: &CallRecord| {
            let label = made.programs[record.rank as usize].calls[record.call as usize].label;
            label.is_some_and(|label| labels[label as usize].layer == layer)
        };
        let calls = || replay.calls().map(|(.., record)| record).filter(is_of_layer);
        (calls().map(|call| call.start).min().unwrap(), calls().map(|call| call.end).max().unwrap())
    };
    let order = ["grad_param_comm", "moe_grad_norm2", "grad_gather", "moe_grad_norm1"].map(span_of);
    for pair in order.windows(2) {
        assert!(pair[0].0 < pair[0].1 && pair[0].1 <= pair[1].0, "{order:?}");
    }
}
