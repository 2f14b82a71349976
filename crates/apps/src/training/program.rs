//! Programs of ranks from the layers of a step.
//!
//! Rank = ((stage · DP + d) · CP + c) · TP + t (Megatron's order tp-cp-ep-dp-pp; without CP, SimAI's `MockNcclGroup`). TP
//! shares stage, d and c; CP shares stage, d and t; DP shares stage and t, over d and c; EP are consecutive members of a DP
//! group (Megatron's groups of experts know no CP); `DP_EP` those with the same place in their EP groups.

mod overlap;

use super::buckets::{Bucket, buckets};
use super::checkpoint::cut;
use super::schedule::{Schedule, Turn};
use super::{
    Checkpoints, Collective, ExpertLoads, ExpertRole, Group, Label, Layer, Parallelism, Pass, Phase,
    STEPS_OF_LAYER, Step, Training, Unfit,
};
use crate::algorithm::Kind;
use crate::application::{Application, Call, Communicator, Op, Program};
use pauseframe_units::{Span, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of the number that ranks reduce in a barrier.
const BARRIER: u64 = 4;

/// How to run files whose micro-batches are no equal passes, on one stage.
const AS_SIMAI: &str = "set schedule = \"as_simai\"";
/// The same on several stages, which exchange the results of each micro-batch.
const OTHER_COUNT: &str = "change micro_batches, or set as_simai = true";

/// How a step is carried out.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The layers.
    pub step: Step,
    /// The groups.
    pub parallelism: Parallelism,
    /// The order of micro-batches.
    pub schedule: Schedule,
    /// Number of iterations.
    pub iterations: u32,
    /// SimAI's own rule: groups span all stages, and stages exchange nothing.
    pub ignores_stages: bool,
    /// A file of policy MICRO: nothing but the communication of its layers, one after the other.
    pub is_micro: bool,
    /// Loads of experts, if they differ.
    pub loads: Option<ExpertLoads>,
    /// Checkpoints to storage.
    pub saves: Option<Checkpoints>,
}

impl Plan {
    /// Checks what the schedule needs.
    ///
    /// # Errors
    /// The key that does not fit.
    pub fn check(&self) -> Result<(), Unfit> {
        self.parallelism.check()?;
        let Step { body, micro_batches, checkpoints, .. } = &self.step;
        let pieces = micro_batches * self.schedule.chunks();
        if self.step.overlap.is_some() && self.ignores_stages {
            let cure = "remove it, or choose schedule = \"1f1b\" or \"interleaved\"";
            return Err(Unfit { key: "overlap_grad_reduce", why: "SimAI knows no buckets".to_owned(), cure });
        }
        if self.schedule == Schedule::ForwardFirst && self.is_one_stage() {
            return Ok(());
        }
        let cure = if self.is_one_stage() { AS_SIMAI } else { OTHER_COUNT };
        if body.is_empty() || !body.len().is_multiple_of(pieces.max(1) as usize) {
            let (lines, chunks) = (counted(body.len(), "line"), self.schedule.chunks());
            let of_chunks = if chunks > 1 { format!(" · virtual_stages {chunks}") } else { String::new() };
            let why = format!(
                "needs micro-batches of equal size: {lines} with their layers do not divide by micro_batches {micro_batches}{of_chunks}"
            );
            return Err(Unfit { key: "schedule", why, cure });
        }
        if checkpoints.iter().any(|list| !list.is_empty()) {
            let why = "cannot repeat forward passes from checkpoints".to_owned();
            let cure = if self.is_one_stage() { AS_SIMAI } else { "set as_simai = true, or pp = 1" };
            return Err(Unfit { key: "schedule", why, cure });
        }
        if self.schedule.chunks() > 1 && !micro_batches.is_multiple_of(self.stages()) {
            let stages = self.stages();
            let why = format!("{micro_batches} is not a multiple of pp = {stages}, as interleaved needs");
            let cure = "choose a multiple, or another schedule";
            return Err(Unfit { key: "micro_batches", why, cure });
        }
        Ok(())
    }

    /// No message goes between stages.
    pub fn is_one_stage(&self) -> bool {
        self.stages() == 1
    }

    /// Number of stages that exchange messages.
    pub fn stages(&self) -> u32 {
        if self.ignores_stages { 1 } else { self.parallelism.pipeline }
    }

    /// The first line of a file whose collectives are of an expert group of one GPU, or with policy MICRO of a tensor group of one, and what gives it
    /// a larger group: they send nothing.
    pub fn line_without_a_group(&self) -> Option<(u32, &'static str)> {
        let remedy = |pass: &Pass| match pass.call?.group {
            Group::Ep if self.parallelism.expert == 1 => Some("give ep"),
            Group::Tp if self.is_micro && self.parallelism.tensor == 1 => {
                Some("give tp, or the weight column")
            }
            _ => None,
        };
        self.step.layers.iter().find_map(|layer| {
            let passes = [layer.forward, layer.input_gradient, layer.weight_gradient];
            Some((layer.line, passes.iter().find_map(remedy)?))
        })
    }

    /// Layers of a chunk that a micro-batch passes at once.
    fn layers_of_chunk(&self) -> usize {
        self.step.body.len() / (self.step.micro_batches * self.schedule.chunks()) as usize
    }

    /// The buckets of a stage: Megatron divides those of the first chunk of the first stage alone, whose gradients are the last.
    fn buckets(&self, stage: u32) -> Vec<Bucket> {
        let Some(overlap) = self.step.overlap else { return Vec::new() };
        let layers = self.step.layers[self.step.body.start..].chunks(self.layers_of_chunk());
        let of_chunk = |(chunk, layers): (u32, &[Layer])| {
            let full = (stage == 0 && chunk == 0).then_some(overlap.bucket);
            buckets(layers, chunk, full)
        };
        (0..self.schedule.chunks()).zip(layers).flat_map(of_chunk).collect()
    }

    /// Upper bound of the steps of all ranks.
    pub fn steps(&self) -> u64 {
        let rings = self.step.layers.iter().filter(|layer| layer.ring.is_some()).count() as u64;
        // Calls and waits of both collectives of a bucket.
        let buckets = self.buckets(0).len() as u64 * 4;
        let of_rank = self.step.layers.len() as u64 * STEPS_OF_LAYER
            + rings * Layer::steps_of_ring(&self.parallelism)
            + buckets
            + u64::from(self.step.micro_batches) * 4 * 64;
        let of_saves = self.saves.as_ref().map_or(0, |saves| saves.steps(self.iterations));
        let of_ranks = of_rank.saturating_mul(u64::from(self.iterations));
        of_ranks.saturating_mul(u64::from(self.parallelism.ranks)).saturating_add(of_saves)
    }
}

/// The communicators of all groups, and where a rank finds its own.
struct Groups {
    tensor: u32,
    context: u32,
    /// Ranks of a data-parallel group.
    data: u32,
    expert: u32,
    comms: Vec<Communicator>,
    kinds: Vec<Option<(Group, u32)>>,
    /// By kind and by rank: the index of the communicator.
    of_rank: BTreeMap<Group, Vec<u32>>,
}

impl Groups {
    fn new(plan: &Plan) -> Groups {
        let Parallelism { ranks, tensor, context, expert, .. } = plan.parallelism;
        let data = ranks / tensor / plan.stages();
        let targets = plan.saves.as_ref().map_or(0, |saves| saves.targets);
        let world = Communicator::new((0..ranks + targets).collect());
        let (comms, kinds, of_rank) = (vec![world], vec![None], BTreeMap::new());
        let mut groups = Groups { tensor, context, data, expert, comms, kinds, of_rank };
        for kind in [Group::Tp, Group::Dp, Group::Ep, Group::DpEp] {
            groups.add(kind, ranks);
        }
        if context > 1 {
            groups.add(Group::Cp, ranks);
        }
        if targets > 0 {
            groups.add(Group::Checkpoint, ranks);
        }
        groups
    }

    /// The rank's number among the groups of a kind; ranks of a group are in order.
    fn number(&self, kind: Group, rank: u32) -> u32 {
        let (place, tensor) = (rank / self.tensor, rank % self.tensor);
        let (stage, data) = (place / self.data, place % self.data);
        let sets = self.data / self.expert;
        match kind {
            Group::Tp => place,
            Group::Cp => place / self.context * self.tensor + tensor,
            Group::Dp => stage * self.tensor + tensor,
            Group::Ep => (stage * sets + data / self.expert) * self.tensor + tensor,
            Group::DpEp => (stage * self.expert + data % self.expert) * self.tensor + tensor,
            Group::Pp | Group::Checkpoint => 0,
        }
    }

    fn add(&mut self, kind: Group, ranks: u32) {
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in 0..ranks {
            members.entry(self.number(kind, rank)).or_default().push(rank);
        }
        let first = self.comms.len() as u32;
        self.of_rank.insert(kind, (0..ranks).map(|rank| first + self.number(kind, rank)).collect());
        for (number, members) in members {
            self.comms.push(Communicator::new(members));
            self.kinds.push(Some((kind, number)));
        }
    }

    fn comm(&self, kind: Group, rank: u32) -> u32 {
        self.of_rank.get(&kind).map_or(0, |comms| comms[rank as usize])
    }

    fn size(&self, comm: u32) -> u64 {
        self.comms[comm as usize].members().len() as u64
    }
}

/// The application of a step. [`Plan::check`] must have found it sound.
pub fn application(name: &str, plan: &Plan) -> Application {
    let groups = Groups::new(plan);
    let mut labels = Labels::default();
    let ranks = plan.parallelism.ranks;
    let mut programs: Vec<Program> =
        (0..ranks).map(|rank| Writer::new(plan, &groups, rank, &mut labels).write()).collect();
    let storage = plan.saves.as_ref().map_or(0, |saves| saves.targets);
    if let Some(saves) = &plan.saves {
        programs.extend((0..storage).map(|target| saves.program(target, plan.iterations)));
    }
    let mut application = Application::new(name, programs);
    application.training = Some(Training { labels: labels.list, groups: groups.kinds, storage });
    application.comms = groups.comms;
    application
}

/// What the calls of all ranks share.
#[derive(Default)]
struct Labels {
    list: Vec<Label>,
    known: BTreeMap<(u32, usize, u8), u32>,
    /// Sizes of exchanges to experts, which all ranks of all groups share: by number of the block, and bytes.
    counts: BTreeMap<(u32, u64), Arc<[u64]>>,
}

impl Labels {
    fn of(&mut self, iteration: u32, at: usize, phase: Phase, layer: &str, bytes: u64) -> u32 {
        *self.known.entry((iteration, at, phase as u8)).or_insert_with(|| {
            self.list.push(Label { iteration, layer: layer.to_owned(), phase, bytes });
            self.list.len() as u32 - 1
        })
    }
}

/// Writes the program of a rank.
struct Writer<'a> {
    plan: &'a Plan,
    groups: &'a Groups,
    labels: &'a mut Labels,
    rank: u32,
    stage: u32,
    iteration: u32,
    program: Program,
    /// Layers, or buckets behind them, whose data-parallel collective is under way, and its group.
    pending: BTreeMap<usize, Group>,
    /// Those of the stage; empty if nothing goes in buckets.
    buckets: Vec<Bucket>,
    /// Numbers of the buckets whose parameters are to be gathered before a forward pass needs them.
    stale: BTreeSet<usize>,
    /// The checkpoint under way.
    unfinished: Option<u32>,
}

impl<'a> Writer<'a> {
    fn new(plan: &'a Plan, groups: &'a Groups, rank: u32, labels: &'a mut Labels) -> Writer<'a> {
        let stage = rank / (groups.tensor * groups.data);
        let (program, pending) = (Program::default(), BTreeMap::new());
        let (buckets, stale) = (plan.buckets(stage), BTreeSet::new());
        let (iteration, unfinished) = (0, None);
        Writer { plan, groups, labels, rank, stage, iteration, program, pending, buckets, stale, unfinished }
    }

    fn write(mut self) -> Program {
        for iteration in 0..self.plan.iterations {
            self.iteration = iteration;
            if self.plan.is_micro {
                self.micro();
            } else {
                self.iterate();
            }
            self.save();
            if iteration + 1 == self.plan.iterations {
                self.gather_all();
                self.wait_for_all();
                self.finish_save();
            }
            self.push(Op::Mark, None, 0);
        }
        self.program
    }

    /// Writes a checkpoint if one follows the iteration: it has the weights that are gathered at its end, and begins when the
    /// one before has been written.
    fn save(&mut self) {
        let Some(saves) = &self.plan.saves else { return };
        let Some(number) = saves.after(self.iteration) else { return };
        self.gather_all();
        self.wait_for_all();
        self.finish_save();
        let ranks = self.plan.parallelism.ranks;
        for (target, bytes) in saves.parts(self.rank) {
            let (to, tag) = (ranks + target, number as i32);
            self.push(Op::Send { to, tag, comm: 0, request: None, bytes }, None, 0);
        }
        self.unfinished = Some(number);
        if saves.is_blocking {
            self.finish_save();
        }
    }

    /// Waits for the answers to all parts, and then for the other ranks (the barrier of Megatron's `save_checkpoint`, which
    /// NCCL makes an all-reduce of one number).
    fn finish_save(&mut self) {
        let (Some(saves), Some(number)) = (&self.plan.saves, self.unfinished.take()) else { return };
        let ranks = self.plan.parallelism.ranks;
        for (target, _) in saves.parts(self.rank) {
            let (from, tag, limit) = (Some(ranks + target), Some(number as i32), u64::MAX);
            let receive = Op::Receive { from, tag, comm: 0, request: None, limit };
            self.push(receive, Some(Group::Checkpoint), 0);
        }
        if ranks < 2 {
            return;
        }
        let iteration = (number + 1) * saves.every - 1;
        let label = Some(self.labels.of(iteration, usize::MAX, Phase::Checkpoint, "checkpoint", BARRIER));
        let (comm, call) = (self.groups.comm(Group::Checkpoint, self.rank), self.program.calls.len() as u32);
        self.program.calls.push(Call { comm, label, ..Call::new(Kind::Allreduce, BARRIER) });
        self.push(Op::Collective { call, request: None }, Some(Group::Checkpoint), 0);
    }

    /// Layers before the micro-batches, micro-batches by schedule, layers after them; then backward.
    fn iterate(&mut self) {
        let Step { layers, body, .. } = &self.plan.step;
        let has_turns = self.plan.schedule != Schedule::ForwardFirst || !self.plan.is_one_stage();
        if !has_turns && self.buckets.is_empty() {
            (0..layers.len()).for_each(|at| self.forward(at));
            (0..layers.len()).rev().for_each(|at| self.backward_from_checkpoint(at));
            return;
        }
        (0..body.start).for_each(|at| self.forward(at));
        let turns = self.plan.schedule.turns(self.stage, self.plan.stages(), self.plan.step.micro_batches);
        if self.plan.schedule.chunks() > 1 {
            self.take_aligned_turns(&turns);
        } else {
            for turn in turns {
                self.turn(turn, None);
            }
        }
        (body.end..layers.len()).for_each(|at| self.forward(at));
        (body.end..layers.len()).rev().for_each(|at| self.backward(at));
        (0..body.start).rev().for_each(|at| self.backward(at));
        if self.plan.step.overlap.is_some_and(|overlap| overlap.gathers) {
            self.stale = (0..self.buckets.len()).collect();
        }
    }

    /// A micro-batch passes the layers of a chunk, between messages from and to other stages; then a chunk may be reduced.
    fn turn(&mut self, turn: Turn, reduced: Option<u32>) {
        let Step { body, micro_batches, .. } = &self.plan.step;
        let chunks = self.plan.schedule.chunks();
        let size = self.plan.layers_of_chunk();
        let first = body.start + (turn.micro_batch * chunks + turn.chunk) as usize * size;
        // Places in the order of the layers of the whole model.
        let stages = self.plan.stages();
        let (place, places) = (turn.chunk * stages + self.stage, stages * chunks);
        let (before, after) = if turn.is_forward {
            (place.checked_sub(1), Some(place + 1).filter(|next| *next < places))
        } else {
            (Some(place + 1).filter(|next| *next < places), place.checked_sub(1))
        };
        if let Some(before) = before {
            let tag = tag(turn, *micro_batches, place);
            let from = Some(self.peer(before % stages));
            let limit = u64::MAX;
            self.push(
                Op::Receive { from, tag: Some(tag), comm: 0, request: None, limit },
                Some(Group::Pp),
                0,
            );
        }
        if turn.is_forward {
            for layer in 0..size {
                self.gather_buckets(turn.chunk, layer);
                self.forward(first + layer);
            }
        } else {
            let last = self.plan.schedule.last_backward(*micro_batches);
            let is_last = chunks == 1 && turn.micro_batch == last;
            for layer in (0..size).rev() {
                self.backward(first + layer);
                if is_last {
                    self.reduce_buckets(layer);
                }
            }
        }
        if let Some(chunk) = reduced {
            self.reduce_chunk(chunk);
        }
        if let Some(after) = after {
            let (to, tag) = (self.peer(after % stages), tag(turn, *micro_batches, after));
            let bytes = self.plan.step.stage_bytes;
            self.push(Op::Send { to, tag, comm: 0, request: None, bytes }, None, 0);
        }
    }

    /// The rank of the same groups in another stage.
    fn peer(&self, stage: u32) -> u32 {
        let size = self.groups.tensor * self.groups.data;
        stage * size + self.rank % size
    }

    /// The communication of every layer, and nothing else.
    fn micro(&mut self) {
        for at in 0..self.plan.step.layers.len() {
            let layer = &self.plan.step.layers[at];
            let passes = [
                (Phase::Forward, layer.forward),
                (Phase::InputGradient, layer.input_gradient),
                (Phase::WeightGradient, layer.weight_gradient),
            ];
            for (phase, pass) in passes {
                self.call(at, phase, pass.call, false);
            }
        }
    }

    fn forward(&mut self, at: usize) {
        self.wait(at);
        let layer = &self.plan.step.layers[at];
        if let Some(bytes) = layer.ring {
            return self.ring_forward(layer.forward.compute, bytes);
        }
        self.compute(self.of_experts(layer, layer.forward.compute), layer.line);
        self.call(at, Phase::Forward, layer.forward.call, false);
    }

    fn backward(&mut self, at: usize) {
        let layer = &self.plan.step.layers[at];
        if layer.needs_gradients {
            self.wait_for_all();
        }
        if let Some(bytes) = layer.ring {
            return self.ring_backward(layer.input_gradient.compute, bytes);
        }
        self.compute(self.of_experts(layer, layer.input_gradient.compute), layer.line);
        self.call(at, Phase::InputGradient, layer.input_gradient.call, false);
        self.compute(self.of_experts(layer, layer.weight_gradient.compute), layer.line);
        self.call(at, Phase::WeightGradient, layer.weight_gradient.call, !layer.is_synchronous);
    }

    /// Ring attention (Transformer Engine's `AttnFuncWithCPAndKVP2P`): during each step but the last a rank passes the K and V
    /// that it works on to the next rank.
    fn ring_forward(&mut self, compute: Span, bytes: u64) {
        let steps = self.groups.context;
        for step in 0..steps {
            let sent = if step + 1 < steps { bytes } else { 0 };
            self.ring_step(Span(cut(compute.0, steps, step)), sent, 1);
        }
    }

    /// Backward K and V go the other way, in all steps but the last, and their gradients follow, in all steps but the first.
    fn ring_backward(&mut self, compute: Span, bytes: u64) {
        let steps = self.groups.context;
        for step in 0..steps {
            let parts = u64::from(step > 0) + u64::from(step + 1 < steps);
            self.ring_step(Span(cut(compute.0, steps, step)), bytes * parts, steps - 1);
        }
    }

    /// Computes while `bytes` go to the rank that is `by` places further in the ring, and as many come from the other side.
    fn ring_step(&mut self, compute: Span, bytes: u64, by: u32) {
        let comm = self.groups.comm(Group::Cp, self.rank);
        let context = self.groups.context;
        let members = self.groups.comms[comm as usize].members();
        let me = self.rank / self.groups.tensor % context;
        let [to, from] = [me + by, me + context - by].map(|place| members[(place % context) as usize]);
        if bytes > 0 {
            self.push(Op::Send { to, tag: 0, comm, request: None, bytes }, None, 0);
        }
        self.compute(compute, 0);
        if bytes > 0 {
            let (from, tag, limit) = (Some(from), Some(0), u64::MAX);
            self.push(Op::Receive { from, tag, comm, request: None, limit }, Some(Group::Cp), 0);
        }
    }

    /// Repeats the forward pass from the last checkpoint, if the layer needs that.
    fn backward_from_checkpoint(&mut self, at: usize) {
        let [from, needed_by] = &self.plan.step.checkpoints;
        if needed_by.contains(&(at as u32)) {
            let last = from.iter().copied().filter(|layer| *layer as usize <= at).max();
            let again = last.map_or(at, |layer| layer as usize)..at;
            again.for_each(|layer| self.forward(layer));
        }
        self.backward(at);
    }

    /// The number of a layer's block among all, the shares of the ranks that have its experts, and the place of this rank
    /// among them.
    fn loads(&self, layer: &Layer) -> Option<(u32, &'a [f64], usize)> {
        let (loads, part) = (self.plan.loads.as_ref()?, layer.experts?);
        let of_iteration = self.iteration * self.plan.stages() + self.stage;
        let number = of_iteration * loads.blocks + part.block;
        let place = self.rank / self.groups.tensor % self.groups.data % self.groups.expert;
        Some((number, &loads.shares[number as usize], place as usize))
    }

    /// The compute time of a pass: experts with more tokens work longer.
    fn of_experts(&self, layer: &Layer, span: Span) -> Span {
        let works = layer.experts.is_some_and(|part| part.role == ExpertRole::Work);
        let load = self.loads(layer).filter(|_| works);
        load.map_or(span, |(_, shares, place)| Span(times(span.0, shares[place] * shares.len() as f64)))
    }

    /// A collective whose sizes follow the loads of experts, for one rank; `None` if they are equal.
    fn by_load(&mut self, layer: &Layer, phase: Phase, call: Collective) -> Option<Call> {
        let (number, shares, place) = self.loads(layer)?;
        let role = layer.experts?.role;
        if role == ExpertRole::Work {
            let bytes = times(call.bytes, shares[place] * shares.len() as f64);
            return (call.group == Group::Tp).then(|| self.plain(Collective { bytes, ..call }));
        }
        // Tokens and gradients of results go to the experts, results and gradients of tokens back.
        if (role == ExpertRole::Dispatch) == (phase == Phase::Forward) {
            let of_ranks = || shares.iter().map(|share| times(call.bytes, *share)).collect();
            let counts = self.labels.counts.entry((number, call.bytes)).or_insert_with(of_ranks);
            return Some(Call { counts: Arc::clone(counts), ..Call::new(Kind::Alltoallv, 0) });
        }
        Some(Call::new(Kind::Alltoallv, times(call.bytes, shares[place])))
    }

    /// A collective of equal blocks.
    fn plain(&self, Collective { kind, group, bytes }: Collective) -> Call {
        let size = self.groups.size(self.groups.comm(group, self.rank));
        Call::new(kind, if kind == Kind::Allreduce { bytes } else { bytes.div_ceil(size) })
    }

    fn compute(&mut self, span: Span, line: u32) {
        if span > Span::ZERO {
            self.push(Op::Compute(span), None, line);
        }
    }

    /// Waits for the gradients of a layer's weights.
    fn wait(&mut self, at: usize) {
        if let Some(group) = self.pending.remove(&at) {
            let line = self.plan.step.layers.get(at).map_or(0, |layer| layer.line);
            self.push(Op::Wait(at as u32), Some(group), line);
        }
    }

    fn wait_for_all(&mut self) {
        let pending: Vec<usize> = self.pending.keys().copied().collect();
        for layer in pending {
            self.wait(layer);
        }
    }

    fn call(&mut self, at: usize, phase: Phase, call: Option<Collective>, is_background: bool) {
        let Some(collective @ Collective { group, bytes, .. }) = call else { return };
        if self.groups.size(self.groups.comm(group, self.rank)) < 2 {
            return;
        }
        let layer = &self.plan.step.layers[at];
        let call = self.by_load(layer, phase, collective).unwrap_or_else(|| self.plain(collective));
        let label = Some(self.labels.of(self.iteration, at, phase, &layer.name, bytes));
        self.collective(Call { label, ..call }, group, is_background.then_some(at), layer.line);
    }

    /// A collective of the rank's group; it runs beside compute if a wait names its request.
    fn collective(&mut self, call: Call, group: Group, request: Option<usize>, line: u32) {
        let comm = self.groups.comm(group, self.rank);
        let position = self.program.calls.len() as u32;
        self.program.calls.push(Call { comm, ..call });
        let waits = request.is_none().then_some(group);
        let op = Op::Collective { call: position, request: request.map(|request| request as u32) };
        self.push(op, waits, line);
        if let Some(request) = request {
            self.pending.insert(request, group);
        }
    }

    fn push(&mut self, op: Op, group: Option<Group>, line: u32) {
        self.program.push(op, line);
        self.program.groups.push(group);
    }
}

/// A number of bytes or picoseconds times a factor.
fn times(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).round() as u64
}

/// Tag of a message to the chunk at `place`.
fn tag(turn: Turn, micro_batches: u32, place: u32) -> i32 {
    ((place * micro_batches + turn.micro_batch) * 2 + u32::from(turn.is_forward)) as i32
}
