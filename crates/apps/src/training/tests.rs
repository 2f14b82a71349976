use super::simai::{self, Workload};
use super::{
    Checkpoints, Collective, ContextComm, ExpertLoads, Group, Layer, Model, Overlap, Parallelism, Parameters,
    Pass, Phase, Plan, Schedule, Step, application, shards,
};
use crate::algorithm::Kind;
use crate::application::Application;
use crate::ideal::{IdealNetwork, Sharing, run};
use crate::nccl::Nccl;
use crate::rank::Totals;
use crate::replay::{Options, Replay};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::ops::Range;
use std::sync::Arc;

pub(super) const RATE: BitRate = BitRate::gbps(400);
pub(super) const LATENCY: Span = Span::from_us(2);

pub(super) fn replay(application: Application, latency: Span) -> Replay {
    crate::check(&application).unwrap();
    let nccl = Some(Nccl { slice: None, ..Nccl::default() });
    let options = Options { nccl, envelope: 0, eager_limit: u64::MAX, ..Options::default() };
    run(Arc::new(application), options, IdealNetwork { latency, rate: RATE, sharing: Sharing::Nics }).unwrap()
}

pub(super) fn plan(step: Step, parallelism: Parallelism, schedule: Schedule) -> Plan {
    let plan = Plan {
        step,
        parallelism,
        schedule,
        iterations: 1,
        ignores_stages: false,
        is_micro: false,
        loads: None,
        saves: None,
    };
    plan.check().unwrap();
    plan
}

/// Compute, exposed and bubble of each rank; the rest of the time until the last rank's end is bubble too.
fn parts(replay: &Replay) -> Vec<(Totals, Span)> {
    let end = replay.finish().unwrap();
    let part = |rank: crate::RankReport| (rank.totals, rank.totals.bubble + (end - rank.finished.unwrap()));
    replay.ranks().take(replay.application().workers() as usize).map(part).collect()
}

/// Compute, exposed times and bubble are the time of the job, on every rank.
pub(super) fn assert_complete(replay: &Replay) {
    let end = replay.finish().unwrap() - Time::ZERO;
    for (totals, bubble) in parts(replay) {
        let exposed = totals.exposed.iter().fold(Span::ZERO, |sum, span| sum + *span);
        assert_eq!(totals.compute + exposed + bubble, end);
    }
}

/// Equal stages without communication of layers; forward takes `f`, backward `b` for all layers of a stage.
fn stages(stages: u32, micro_batches: u32, schedule: Schedule, f: Span, b: Span) -> Replay {
    let pass = |compute| Pass { compute, call: None };
    let chunks = if let Schedule::Interleaved { chunks } = schedule { chunks } else { 1 };
    let layer = Layer {
        forward: pass(Span(f.0 / u64::from(chunks))),
        input_gradient: pass(Span(b.0 / u64::from(chunks))),
        ..Layer::default()
    };
    let layers = vec![layer; (micro_batches * chunks) as usize];
    let step = Step { body: 0..layers.len(), layers, micro_batches, ..Step::default() };
    let parallelism = Parallelism { ranks: stages, tensor: 1, context: 1, pipeline: stages, expert: 1 };
    replay(application("stages", &plan(step, parallelism, schedule)), Span::ZERO)
}

#[test]
fn pipelines_of_equal_stages_have_the_bubble_of_the_closed_form() {
    let (f, b) = (Span::from_us(40), Span::from_us(80));
    let both = f + b;
    for p in [2, 4, 8] {
        for m in [p, 4 * p] {
            for schedule in [Schedule::OneForwardOneBackward, Schedule::ForwardFirst] {
                let replay = stages(p, m, schedule, f, b);
                assert_eq!(replay.finish().unwrap() - Time::ZERO, Span(both.0 * u64::from(m + p - 1)));
                assert_complete(&replay);
                let bubble = Span(both.0 * u64::from(p - 1));
                assert!(parts(&replay).iter().all(|(_, own)| *own == bubble), "{p} {m} {schedule:?}");
            }
            let replay = stages(p, m, Schedule::Interleaved { chunks: 2 }, f, b);
            let bubble = both.0 * u64::from(p - 1) / 2;
            assert_eq!(
                replay.finish().unwrap() - Time::ZERO,
                Span(both.0 * u64::from(m) + bubble),
                "{p} {m}"
            );
            assert_complete(&replay);
        }
    }
}

/// A layer whose gradients of weights are reduced while the layer before it computes.
fn overlapped(compute: Span, bytes: u64, is_blocking: bool) -> Replay {
    let reduce = Some(Collective { kind: Kind::Allreduce, group: Group::Dp, bytes });
    let pass = |compute, call| Pass { compute, call };
    let (blocking, background) = if is_blocking { (reduce, None) } else { (None, reduce) };
    let last = Layer {
        input_gradient: pass(Span::ZERO, blocking),
        weight_gradient: pass(Span::ZERO, background),
        ..Layer::default()
    };
    let first = Layer { input_gradient: pass(compute, None), ..Layer::default() };
    let step = Step { layers: vec![first, last], body: 0..0, micro_batches: 1, ..Step::default() };
    let parallelism = Parallelism { ranks: 2, tensor: 1, context: 1, pipeline: 1, expert: 1 };
    replay(application("overlap", &plan(step, parallelism, Schedule::ForwardFirst)), LATENCY)
}

#[test]
fn what_compute_does_not_hide_is_exposed() {
    let bytes = 1_000_000;
    let time = Span((LATENCY + RATE.serialise(Bytes(bytes / 2))).0 * 2);
    for compute in [Span::from_us(5), Span::from_us(100)] {
        for is_blocking in [false, true] {
            let replay = overlapped(compute, bytes, is_blocking);
            assert_complete(&replay);
            let expected = if is_blocking { time } else { Span(time.0.saturating_sub(compute.0)) };
            for (totals, bubble) in parts(&replay) {
                assert_eq!(totals.exposed[Group::Dp.exposed()], expected);
                assert_eq!((totals.compute, bubble), (compute, Span::ZERO));
            }
        }
    }
}

pub(super) const MODEL: Model = Model {
    layers: 4,
    hidden: 1024,
    sequence: 512,
    micro_batch: 1,
    micro_batches: 4,
    value_bytes: 2,
    parameters: 12 * 1024 * 1024,
    experts: 0,
    top_k: 1,
    expert_parameters: 8 * 1024 * 1024,
    sequence_parallel: true,
    kv_hidden: 1024,
    attention_share: 0.25,
    context_comm: ContextComm::PointToPoint,
    forward: Span::from_us(100),
    backward: Span::from_us(200),
    optimizer: Span::from_us(50),
    distributed_optimizer: true,
    overlap: None,
};

/// The optimizer needs the reduced gradients, and what is gathered needs the optimizer: nothing of the three overlaps.
#[test]
fn the_optimizer_waits_for_the_gradients() {
    for (experts, per_layer) in [(0, 12_582_912), (2, 12_582_912 + 8 * 1024 * 1024)] {
        let model = Model { layers: 1, micro_batches: 1, experts, optimizer: Span::from_ms(8), ..MODEL };
        let parallelism =
            Parallelism { ranks: 2, tensor: 1, context: 1, pipeline: 1, expert: experts.max(1) };
        let step = model.step(&parallelism).unwrap();
        let calls = |at: Range<usize>| step.layers[at].iter().filter_map(|layer| layer.weight_gradient.call);
        let gathered: u64 = calls(0..2).map(|call| call.bytes).sum();
        let reduced: u64 = calls(3..5).map(|call| call.bytes).sum();
        assert_eq!((reduced, gathered), (4 * per_layer, 2 * per_layer), "{experts} experts");
        let replay =
            replay(application("m", &plan(step, parallelism, Schedule::OneForwardOneBackward)), LATENCY);
        assert_complete(&replay);
        if experts == 0 {
            // Two ranks: half of the vector goes each way.
            let half = |bytes: u64| LATENCY + RATE.serialise(Bytes(bytes / 2));
            let compute = Span::from_us(300) + Span::from_ms(8);
            assert_eq!(replay.finish().unwrap() - Time::ZERO, compute + half(reduced) + half(gathered));
        }
    }
}

/// Sizes that no network carries are refused instead of wrapping to small ones.
#[test]
fn a_model_whose_sizes_overflow_is_refused() {
    let parallelism = Parallelism { ranks: 2, tensor: 2, context: 1, pipeline: 1, expert: 1 };
    for micro_batch in [1 << 19, (1 << 19) + 1, 1 << 60] {
        let model = Model { micro_batch, hidden: 1 << 23, sequence: 1 << 29, value_bytes: 8, ..MODEL };
        assert_eq!(model.step(&parallelism).unwrap_err().key, "hidden");
    }
    let model = Model { parameters: u64::MAX / 2, ..MODEL };
    assert!(model.step(&parallelism).unwrap_err().why.contains("grad_"));
}

#[test]
fn groups_and_sizes_of_a_model_are_those_of_the_generator() {
    let parallelism = Parallelism { ranks: 16, tensor: 2, context: 1, pipeline: 2, expert: 1 };
    let step = MODEL.step(&parallelism).unwrap();
    let made = application("m", &plan(step, parallelism, Schedule::OneForwardOneBackward));
    let training = made.training.as_ref().unwrap();
    // Rank = (stage · DP + d) · TP + t with DP = 4.
    let of = |kind: Group, number: u32| {
        let at = training.groups.iter().position(|group| *group == Some((kind, number))).unwrap();
        made.comms[at].members().to_vec()
    };
    assert_eq!((of(Group::Tp, 5), of(Group::Dp, 3)), (vec![10, 11], vec![9, 11, 13, 15]));
    let label = |layer: &str, phase| {
        let found = training.labels.iter().find(|label| label.layer == layer && label.phase == phase);
        found.unwrap().bytes
    };
    assert_eq!(label("attention_column", Phase::Forward), 2 * 512 * 1024);
    // Two layers of a stage, divided between two ranks.
    assert_eq!(label("grad_gather", Phase::WeightGradient), 2 * 12 * 1024 * 1024);
    let replay = replay(made, LATENCY);
    assert_complete(&replay);
    for (totals, bubble) in parts(&replay) {
        assert_eq!(totals.compute, Span::from_us(4 * 2 * 300 + 50));
        assert!(
            totals
                .exposed
                .iter()
                .zip([true, false, true, false, true, false])
                .all(|(time, is)| (*time > Span::ZERO) == is)
                || bubble > Span::ZERO
        );
    }
}

#[test]
fn experts_exchange_tokens_in_their_groups() {
    let parallelism = Parallelism { ranks: 16, tensor: 2, context: 1, pipeline: 1, expert: 4 };
    let model = Model { experts: 8, top_k: 2, ..MODEL };
    let made = application(
        "moe",
        &plan(model.step(&parallelism).unwrap(), parallelism, Schedule::OneForwardOneBackward),
    );
    let training = made.training.as_ref().unwrap();
    let members = |kind: Group, number: u32| {
        let at = training.groups.iter().position(|group| *group == Some((kind, number))).unwrap();
        made.comms[at].members().to_vec()
    };
    assert_eq!(members(Group::Ep, 1), [1, 3, 5, 7]);
    assert_eq!(members(Group::DpEp, 3), [3, 11]);
    let label = training.labels.iter().find(|label| label.layer == "moe_dispatch").unwrap();
    assert_eq!(label.bytes, 2 * 512 * 1024 * 2 / 2);
    let replay = replay(made, LATENCY);
    assert_complete(&replay);
    assert!(parts(&replay).iter().all(|(totals, _)| totals.exposed[Group::Ep.exposed()] > Span::ZERO));
    let wrong = Model { experts: 6, ..model }.step(&parallelism).unwrap_err();
    assert_eq!(wrong.key, "experts");
}

const HEADER: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 8 ga: 1 all_gpus: 4 checkpoints: 0 checkpoint_initiates: 0";

fn read(header: &str, layers: &[&str]) -> Result<Workload, String> {
    let text = format!("{header}\n{}\n{}\n", layers.len(), layers.join("\n"));
    simai::read("w.txt", &text, false).map_err(|error| error.to_string())
}

#[test]
fn a_file_becomes_layers_with_groups_by_column() {
    let layers = [
        "norm -1 0 BROADCAST 16384 1 NONE 0 1 NONE 0 100",
        "grad_gather\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER\t8192\t100",
        "attention -1 500 ALLGATHER 4096 600 REDUCESCATTER 4096.0 700 NONE 0 100",
        "mlp_moelayer -1 1 ALLTOALL_EP 100 1 NONE 0 1 REDUCESCATTER_DP_EP 200 100",
        "optimizer1 -1 1 ALLREDUCE 4 1 NONE 0 1 NONE 0 100 test",
    ];
    let read = read(HEADER, &layers).unwrap();
    let ids = (read.tensor, read.expert, read.pipeline, read.ranks, read.chunks);
    assert_eq!(ids, (Some(2), Some(1), Some(1), Some(4), Some(8)));
    let calls: Vec<Vec<(Kind, Group, u64)>> = read
        .step
        .layers
        .iter()
        .map(|layer| {
            let passes = [layer.forward, layer.input_gradient, layer.weight_gradient];
            passes
                .iter()
                .filter_map(|pass| pass.call.map(|call| (call.kind, call.group, call.bytes)))
                .collect()
        })
        .collect();
    assert_eq!(calls[0], []);
    assert_eq!(calls[1], [(Kind::Allgather, Group::Dp, 8192)]);
    assert_eq!(calls[2], [(Kind::Allgather, Group::Tp, 4096), (Kind::ReduceScatter, Group::Tp, 4096)]);
    assert_eq!(calls[3], [(Kind::Alltoall, Group::Ep, 100), (Kind::ReduceScatter, Group::DpEp, 200)]);
    assert_eq!(read.step.layers[2].input_gradient.compute, Span::from_ns(600));
    assert_eq!((read.step.body.clone(), read.step.micro_batches), (2..4, 1));
    let notes = [
        "w.txt:1: vpp is not taken, since AICB writes the number of layers there; set virtual_stages",
        "w.txt:3: BROADCAST sends nothing, as in SimAI (1 in all)",
        "w.txt:3: the time of the update (last field) is not spent, as in SimAI (5 in all)",
        "w.txt:7: 'test' after the last field is not read, as in SimAI",
    ];
    assert_eq!(read.notes, notes);
}

#[test]
fn what_simai_reads_wrongly_is_refused_with_its_line() {
    let good = "a -1 1 NONE 0 1 NONE 0 1 NONE 0 1";
    let cases = [
        (
            HEADER,
            vec![good, "b -1 1 NONE 0 1 NONE 0 1 NONE 0 1 test", good],
            "w.txt:4: has 'test' after its 12 fields: SimAI would shift all that follows",
        ),
        (
            HEADER,
            vec!["a -1 1 NONE 0 1 NONE 0 1 NONE 0"],
            "w.txt:3: ends before the time of the update in ns",
        ),
        (
            HEADER,
            vec!["a -1 1 ALLREDUCEALLTOALL_EP 8 1 NONE 0 1 NONE 0 1"],
            "w.txt:3: 'ALLREDUCEALLTOALL_EP' names two operations; SimAI makes it an all-reduce of all GPUs: write one of them",
        ),
        (
            HEADER,
            vec!["a -1 1 ALREDUCE 8 1 NONE 0 1 NONE 0 1"],
            "w.txt:3: knows no communication 'ALREDUCE'; did you mean 'ALLREDUCE'?",
        ),
        (
            HEADER,
            vec!["a -1 1 ALLREDUCE 8.5 1 NONE 0 1 NONE 0 1"],
            "w.txt:3: forward bytes cannot be 8.5: whole bytes up to 1e12",
        ),
        (
            HEADER,
            vec!["a -1 -1 NONE 0 1 NONE 0 1 NONE 0 1"],
            "w.txt:3: forward compute time in ns cannot be '-1'",
        ),
        (
            "HYBRID_CUSTOMIZED ga: 1",
            vec![good],
            "w.txt:1: policy HYBRID_CUSTOMIZED is not modelled; HYBRID_TRANSFORMER_FWD_IN_BCKWD, HYBRID_TRANSFORMER and MICRO are",
        ),
        (
            "HYBRID_TRANSFORMR",
            vec![good],
            "w.txt:1: knows no policy 'HYBRID_TRANSFORMR'; did you mean 'HYBRID_TRANSFORMER'?",
        ),
        ("MICRO gaa: 1", vec![good], "w.txt:1: knows no key 'gaa:'; did you mean 'ga:'?"),
    ];
    for (header, layers, expected) in cases {
        assert_eq!(read(header, &layers).unwrap_err(), expected);
    }
    let short = simai::read("w.txt", &format!("{HEADER}\n3\n{good}\n"), false).unwrap_err().to_string();
    assert_eq!(short, "w.txt:3: ends before layer 2 of 3");
    let more = simai::read("w.txt", &format!("{HEADER}\n1\n{good}\n{good}\n"), false).unwrap();
    assert!(more.notes.iter().any(|note| note.starts_with("w.txt:4: not read")), "{:?}", more.notes);
    let group = read("HYBRID_TRANSFORMER expert_parallel_npu_group: 4", &[good]).unwrap();
    assert!(group.notes[0].contains("expert_parallel_npu_group is not taken"), "{:?}", group.notes);
    // SimAI raises small collectives of the forward pass.
    let small = "a -1 1 ALLREDUCE 4 1 ALLREDUCE 4 1 NONE 0 1";
    let raised = simai::read("w.txt", &format!("{HEADER}\n1\n{small}\n"), true).unwrap();
    let bytes = |pass: Pass| pass.call.unwrap().bytes;
    let layer = &raised.step.layers[0];
    assert_eq!((bytes(layer.forward), bytes(layer.input_gradient)), (4096, 4));
}

#[test]
fn forward_passes_are_repeated_from_checkpoints() {
    let layer = "a -1 1000 NONE 0 10000 NONE 0 0 NONE 0 0";
    let header = HEADER
        .replace("checkpoints: 0 checkpoint_initiates: 0", "checkpoints: 1 0 checkpoint_initiates: 1 2");
    let read = read(&header, &[layer; 3]).unwrap();
    let parallelism = Parallelism { ranks: 4, tensor: 2, context: 1, pipeline: 1, expert: 1 };
    let replay = replay(application("c", &plan(read.step, parallelism, Schedule::ForwardFirst)), LATENCY);
    // Three forward passes, two again before the backward pass of layer 2, three backward passes.
    assert_eq!(replay.finish().unwrap() - Time::ZERO, Span::from_us(3 + 2 + 30));
}

#[test]
fn the_next_iteration_waits_for_gradients() {
    let step = |iterations| {
        let reduce = Some(Collective { kind: Kind::Allreduce, group: Group::Dp, bytes: 1_000_000 });
        let layer = Layer {
            forward: Pass { compute: Span::from_us(10), call: None },
            weight_gradient: Pass { compute: Span::from_us(10), call: reduce },
            ..Layer::default()
        };
        let step = Step { layers: vec![layer], body: 0..1, micro_batches: 1, ..Step::default() };
        let parallelism = Parallelism { ranks: 2, tensor: 1, context: 1, pipeline: 1, expert: 1 };
        Plan { iterations, ..plan(step, parallelism, Schedule::ForwardFirst) }
    };
    let run = |iterations| replay(application("i", &step(iterations)), LATENCY);
    let one = run(1).finish().unwrap() - Time::ZERO;
    let three = run(3);
    assert_eq!(three.finish().unwrap() - Time::ZERO, Span(one.0 * 3));
    assert_eq!(three.ranks().next().unwrap().iterations.len(), 3);
    assert_complete(&three);
}

#[test]
fn what_does_not_divide_is_refused_at_its_key() {
    let check = |ranks, tensor, pipeline, expert| {
        Parallelism { ranks, tensor, context: 1, pipeline, expert }.check().unwrap_err().key
    };
    assert_eq!([check(8, 3, 1, 1), check(8, 2, 3, 1), check(8, 2, 2, 4)], ["tp", "pp", "ep"]);
    let parallelism = Parallelism { ranks: 4, tensor: 1, context: 1, pipeline: 2, expert: 1 };
    let step = Step { layers: vec![Layer::default(); 5], body: 0..5, micro_batches: 2, ..Step::default() };
    let schedule = Schedule::OneForwardOneBackward;
    let plan = Plan {
        step,
        parallelism,
        schedule,
        iterations: 1,
        ignores_stages: false,
        is_micro: false,
        loads: None,
        saves: None,
    };
    assert_eq!(plan.check().unwrap_err().key, "schedule");
}

/// Two GPUs with an expert each, which have three quarters and a quarter of the tokens.
#[test]
fn unequal_loads_of_experts_divide_bytes_and_work() {
    let model = Model {
        layers: 1,
        hidden: 1000,
        sequence: 1000,
        micro_batch: 1,
        micro_batches: 1,
        value_bytes: 2,
        parameters: 0,
        experts: 2,
        top_k: 1,
        expert_parameters: 0,
        sequence_parallel: true,
        kv_hidden: 1000,
        attention_share: 0.25,
        context_comm: ContextComm::PointToPoint,
        forward: Span::from_us(200),
        backward: Span::from_us(400),
        optimizer: Span::ZERO,
        distributed_optimizer: true,
        overlap: None,
    };
    let parallelism = Parallelism { ranks: 2, tensor: 1, context: 1, pipeline: 1, expert: 2 };
    let equal = plan(model.step(&parallelism).unwrap(), parallelism, Schedule::OneForwardOneBackward);
    let loaded = |first: f64| {
        let loads = ExpertLoads { blocks: 1, shares: vec![Box::new([first, 1.0 - first])] };
        application("e", &Plan { loads: Some(loads), ..equal.clone() })
    };
    let even = replay(application("e", &equal), LATENCY);
    assert_eq!(replay(loaded(0.5), LATENCY).finish(), even.finish());
    // Dispatch and combine forward, combine and dispatch backward: to the experts, back, to the experts, back.
    let counts = |application: &Application, rank: usize| -> Vec<Vec<u64>> {
        application.programs[rank].calls.iter().map(|call| call.counts.to_vec()).collect()
    };
    let uneven = loaded(0.75);
    // Ranks share a list of what goes there; what goes back is the same for each of them, and has none.
    let [first, second] = [0, 1].map(|rank| &uneven.programs[rank as usize].calls[0].counts);
    assert!(Arc::ptr_eq(first, second));
    let (to, back) = (vec![1_500_000, 500_000], Vec::new());
    for (rank, own) in [1_500_000, 500_000].into_iter().enumerate() {
        assert_eq!(counts(&uneven, rank), [&to, &back, &to, &back].map(Clone::clone));
        let blocks: Vec<u64> = uneven.programs[rank].calls.iter().map(|call| call.bytes).collect();
        assert_eq!(blocks, [0, own, 0, own]);
    }
    // Half of the compute time is that of attention; the other half grows and shrinks with the tokens.
    let compute: Vec<u64> =
        replay(uneven, LATENCY).ranks().map(|rank| rank.totals.compute.0 / 1_000_000).collect();
    assert_eq!(compute, [300 + 450, 300 + 150]);
}

/// Layers without parameters, on `context` GPUs that share sequences of 1024 tokens; half of the compute time is attention.
fn of_sequences(context: u32, comm: ContextComm, forward: Span) -> (Model, Parallelism) {
    let model = Model {
        layers: 1,
        sequence: 1024,
        micro_batches: 1,
        parameters: 0,
        kv_hidden: 256,
        attention_share: 0.5,
        context_comm: comm,
        forward,
        backward: Span(forward.0 * 2),
        optimizer: Span::ZERO,
        ..MODEL
    };
    (model, Parallelism { ranks: context, tensor: 1, context, pipeline: 1, expert: 1 })
}

fn run_sequences(context: u32, comm: ContextComm, forward: Span) -> Replay {
    let (model, parallelism) = of_sequences(context, comm, forward);
    let step = model.step(&parallelism).unwrap();
    let replay = replay(application("s", &plan(step, parallelism, Schedule::OneForwardOneBackward)), LATENCY);
    assert_complete(&replay);
    replay
}

/// A step of a ring takes as long as its compute or its transfer, whichever is longer.
#[test]
fn ring_attention_takes_its_closed_form() {
    for context in [2, 4, 8] {
        let part = u64::from(context);
        // K and V of a rank's tokens.
        let block = 1024 / part * 256 * 2 * 2;
        let transfer = |blocks: u64| LATENCY + RATE.serialise(Bytes(block * blocks));
        // Transfers of a block take 4.6 to 12.5 us.
        for (us, hides) in [(1600, true), (32, false)] {
            let forward = Span::from_us(us);
            let [ahead, back] = [1, 2].map(|factor| Span(forward.0 * factor / part / 2 / part));
            let longer = |compute: Span, blocks: u64| compute.max(transfer(blocks)).0;
            let ring = longer(ahead, 1) * (part - 1) + ahead.0;
            let ring_back = longer(back, 1) * 2 + longer(back, 2) * (part - 2);
            let others = forward.0 * 3 / part / 2;
            let replay = run_sequences(context, ContextComm::PointToPoint, forward);
            assert_eq!(replay.finish().unwrap() - Time::ZERO, Span(others + ring + ring_back));
            for (totals, bubble) in parts(&replay) {
                assert_eq!((totals.compute, bubble), (Span(forward.0 * 3 / part), Span::ZERO));
                assert_eq!(totals.exposed[Group::Cp.exposed()] == Span::ZERO, hides, "{context}");
                assert_eq!(totals.waiting, totals.exposed[Group::Cp.exposed()]);
            }
            assert_eq!(replay.calls().count(), 0);
        }
    }
}

/// Two all-gathers forward; two more and two reduce-scatters backward, each of which sends what a rank has to each other.
#[test]
fn gathered_keys_and_values_take_their_closed_form() {
    for context in [2, 4] {
        let (part, forward) = (u64::from(context), Span::from_us(80));
        let step = LATENCY + RATE.serialise(Bytes(1024 / part * 256 * 2));
        let replay = run_sequences(context, ContextComm::AllGather, forward);
        let exposed = Span(step.0 * (part - 1) * 6);
        assert_eq!(replay.finish().unwrap() - Time::ZERO, Span(forward.0 * 3 / part) + exposed);
        assert!(parts(&replay).iter().all(|(totals, _)| totals.exposed[Group::Cp.exposed()] == exposed));
        assert_eq!(replay.calls().count(), 6);
    }
}

/// All-to-alls of q, k, v and the output in each direction: two ranks send each other half of what they have.
#[test]
fn exchanged_heads_take_their_closed_form() {
    let forward = Span::from_us(80);
    let replay = run_sequences(2, ContextComm::AllToAll, forward);
    let half = |values: u64| (LATENCY + RATE.serialise(Bytes(512 * values * 2 / 2))).0;
    let exposed = Span((half(1024) + half(256)) * 2 * 2);
    assert_eq!(replay.finish().unwrap() - Time::ZERO, Span(forward.0 * 3 / 2) + exposed);
    let sizes: Vec<u64> = replay.application().programs[0].calls.iter().map(|call| call.bytes).collect();
    assert_eq!(sizes, [1024, 256, 256, 1024, 1024, 256, 256, 1024].map(|values: u64| 512 * values * 2 / 2));
}

/// Megatron's order of ranks tp-cp-ep-dp-pp: 2 of TP, 2 of CP, 2 of DP, 2 stages. Groups of experts know no CP.
#[test]
fn ranks_that_share_sequences_are_in_the_order_of_megatron() {
    let parallelism = Parallelism { ranks: 16, tensor: 2, context: 2, pipeline: 2, expert: 4 };
    let model = Model { experts: 4, ..MODEL };
    let step = model.step(&parallelism).unwrap();
    // A rank has half of the tokens; tensor-parallel ranks halve them once more between stages.
    assert_eq!(step.stage_bytes, 512 * 1024 * 2 / 2 / 2);
    let made = application("m", &plan(step, parallelism, Schedule::OneForwardOneBackward));
    let training = made.training.as_ref().unwrap();
    let of = |kind: Group, number: u32| {
        let at = training.groups.iter().position(|group| *group == Some((kind, number))).unwrap();
        made.comms[at].members().to_vec()
    };
    assert_eq!((of(Group::Tp, 1), of(Group::Cp, 1), of(Group::Cp, 4)), (vec![2, 3], vec![1, 3], vec![8, 10]));
    assert_eq!((of(Group::Dp, 1), of(Group::Ep, 2)), (vec![1, 3, 5, 7], vec![8, 10, 12, 14]));
    let label = |layer: &str| training.labels.iter().find(|label| label.layer == layer).unwrap().bytes;
    assert_eq!(label("attention_column"), 512 * 1024 * 2 / 2);
    // Gradients are those of whole layers, also where ranks share sequences.
    assert_eq!(label("grad_param_comm"), 4 * 2 * MODEL.parameters / 2);
    assert_complete(&replay(made, LATENCY));
}

#[test]
fn sequences_that_cannot_be_shared_are_refused_at_their_key() {
    let refused = |model: Model, parallelism: Parallelism| model.step(&parallelism).unwrap_err().key;
    let (model, parallelism) = of_sequences(4, ContextComm::AllToAll, Span::from_us(1));
    assert_eq!(refused(Model { sequence: 1020, ..model }, parallelism), "sequence");
    assert_eq!(refused(Model { kv_hidden: 6, ..model }, parallelism), "kv_hidden");
    let ring = Model { kv_hidden: 6, context_comm: ContextComm::PointToPoint, ..model };
    assert!(ring.step(&parallelism).is_ok());
    let wrong = Parallelism { context: 3, ..parallelism }.check().unwrap_err();
    assert_eq!((wrong.key, wrong.why.as_str()), ("cp", "3 does not divide 4 GPUs / (tp · pp) = 4"));
    let wrong = Parallelism { expert: 3, ..parallelism }.check().unwrap_err();
    assert_eq!((wrong.key, wrong.why.as_str()), ("ep", "3 does not divide dp · cp = 4"));
}

/// Iterations of `compute` on `ranks` GPUs, which write `bytes` each to as many targets after every one of them.
fn saved(ranks: u32, iterations: u32, compute: Span, saves: Checkpoints) -> Replay {
    let layer = Layer { forward: Pass { compute, call: None }, ..Layer::default() };
    let step = Step { layers: vec![layer], body: 0..1, micro_batches: 1, ..Step::default() };
    let parallelism = Parallelism { ranks, tensor: 1, context: 1, pipeline: 1, expert: 1 };
    let plan = plan(step, parallelism, Schedule::ForwardFirst);
    let replay = replay(application("c", &Plan { iterations, saves: Some(saves), ..plan }), LATENCY);
    assert_complete(&replay);
    replay
}

fn saves(bytes: &[u64], targets: u32, is_blocking: bool) -> Checkpoints {
    Checkpoints { every: 1, targets, part: 1_000_000, is_blocking, bytes: bytes.into() }
}

/// All parts, then the answer to the last one.
fn write_time(bytes: u64) -> Span {
    LATENCY + RATE.serialise(Bytes(bytes)) + LATENCY + RATE.serialise(Bytes(24))
}

#[test]
fn a_checkpoint_of_one_rank_takes_its_closed_form() {
    let (compute, bytes) = (Span::from_us(50), 2_500_000);
    let write = write_time(bytes);
    let run = |iterations, compute, is_blocking| {
        let replay = saved(1, iterations, compute, saves(&[bytes], 1, is_blocking));
        let exposed = parts(&replay)[0].0.exposed[Group::Checkpoint.exposed()];
        (replay.finish().unwrap() - Time::ZERO, exposed)
    };
    assert_eq!(run(2, compute, true), (Span((compute + write).0 * 2), Span(write.0 * 2)));
    // Compute that takes longer hides all but the last one; what is shorter waits for the one before.
    assert!(Span::from_us(40) < write && write < Span::from_us(80));
    let long = Span::from_us(80);
    assert_eq!(run(3, long, false), (Span(long.0 * 3) + write, write));
    let short = Span::from_us(40);
    let waits = Span(short.0 + write.0 * 3);
    assert_eq!(run(3, short, false), (waits, Span(waits.0 - short.0 * 3)));
}

/// Two ranks share a target, whose NIC receives both shards; nobody goes on before the last write and a barrier.
#[test]
fn all_ranks_wait_for_the_last_write() {
    let compute = Span::from_us(50);
    for sizes in [[800_000, 400_000], [600_000, 600_000], [1_200_000, 0]] {
        let replay = saved(2, 1, compute, saves(&sizes, 1, true));
        let barrier = Span((LATENCY + RATE.serialise(Bytes(2))).0 * 2);
        let end = replay.finish().unwrap() - Time::ZERO;
        assert_eq!(end, compute + write_time(1_200_000) + barrier, "{sizes:?}");
        let waited = |totals: Totals| totals.exposed[Group::Checkpoint.exposed()];
        assert!(parts(&replay).iter().all(|(totals, _)| waited(*totals) == end - compute));
        assert_eq!(replay.calls().count(), 1);
    }
    // With two targets each rank begins with its own one, so that both write at once.
    let replay = saved(2, 1, compute, saves(&[1_000_000, 1_000_000], 2, true));
    let barrier = Span((LATENCY + RATE.serialise(Bytes(2))).0 * 2);
    assert_eq!(replay.finish().unwrap() - Time::ZERO, compute + write_time(1_000_000) + barrier);
}

/// No checkpoint follows iterations 0, 2 and 4.
#[test]
fn checkpoints_follow_every_second_iteration() {
    let (compute, bytes) = (Span::from_us(50), 1_000_000);
    let replay = saved(1, 5, compute, Checkpoints { every: 2, ..saves(&[bytes], 1, true) });
    let ends: Vec<Span> =
        replay.ranks().next().unwrap().iterations.iter().map(|end| *end - Time::ZERO).collect();
    let expected = [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)];
    let expected =
        expected.map(|(iterations, writes)| Span(compute.0 * iterations + write_time(bytes).0 * writes));
    assert_eq!(ends, expected);
}

#[test]
fn shards_are_those_of_the_distributed_optimizer() {
    let parallelism = Parallelism { ranks: 8, tensor: 2, context: 2, pipeline: 1, expert: 2 };
    let parameters = Parameters { dense: 1000, experts: 100 };
    // 14 bytes of each parameter; those of experts have two copies, which share their state.
    let of_all = shards(&parallelism, parameters, [true, true], None);
    assert_eq!(*of_all, [14 * 1000 / 4 + 14 * 100 / 2; 8]);
    // The first data-parallel rank writes the values; of experts each of the two first ones.
    let first = shards(&parallelism, parameters, [true, false], None);
    let state = 12 * 1000 / 4 + 12 * 100 / 2;
    let (both, of_experts) = (state + 2 * 1000 + 2 * 100, state + 2 * 100);
    assert_eq!(*first, [both, both, of_experts, of_experts, state, state, state, state]);
    assert_eq!(first.iter().sum::<u64>(), of_all.iter().sum::<u64>());
    let given = shards(&parallelism, parameters, [true, true], Some(1_000_003));
    assert_eq!((given.iter().sum(), given[0]), (1_000_003_u64, 125_000));
    let none = shards(&parallelism, Parameters { dense: 0, experts: 0 }, [true, true], Some(80));
    assert_eq!(*none, [10; 8]);
    // Without it all ranks have the state too.
    assert_eq!(*shards(&parallelism, parameters, [false, true], None), *of_all);
    let first = shards(&parallelism, parameters, [false, false], None);
    assert_eq!(*first, [14 * 1100, 14 * 1100, 14 * 100, 14 * 100, 0, 0, 0, 0]);
}

/// All ranks get all gradients, in buckets or not, and no parameters are gathered.
#[test]
fn without_a_distributed_optimizer_gradients_are_all_reduced() {
    let parallelism = Parallelism { ranks: 4, tensor: 1, context: 1, pipeline: 1, expert: 2 };
    for bucket in [None, Some(1 << 22), Some(u64::MAX)] {
        let overlap = bucket.map(|bucket| Overlap { bucket, gathers: false });
        let model = Model { experts: 2, distributed_optimizer: false, overlap, ..MODEL };
        let step = model.step(&parallelism).unwrap();
        let made = application("m", &plan(step, parallelism, Schedule::OneForwardOneBackward));
        let training = made.training.as_ref().unwrap();
        let mut bytes = [0, 0];
        for call in &made.programs[0].calls {
            let of_experts = match training.groups[call.comm as usize] {
                Some((Group::Dp, _)) => false,
                Some((Group::DpEp, _)) => true,
                _ => continue,
            };
            assert_eq!(call.kind, Kind::Allreduce, "{bucket:?}");
            bytes[usize::from(of_experts)] += training.labels[call.label.unwrap() as usize].bytes;
        }
        let Parameters { dense, experts } = model.parameters(&parallelism);
        assert_eq!(bytes, [4 * dense, 4 * experts], "{bucket:?}");
        assert_complete(&replay(made, LATENCY));
    }
}
