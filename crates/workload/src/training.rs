//! Training steps: layers that compute and communicate, from a file of SimAI or AICB or from keys.

use super::application::{
    ApplicationSource, ApplicationSpec, PlacementName, check_places, hosts_of_ranks, placement,
    warn_of_scale_without_compute,
};
use super::collectives::{CollectivesSpec, Library, Slice};
use super::context::{Context, SIZE_MAX, SIZES, TIMES, known_host, remedy_of_file};
use super::maker::{Maker, Source};
use super::random::shuffle;
use super::trace::{digest, keep};
use pauseframe_apps::read::Bundle;
use pauseframe_apps::training::{Checkpoints, ContextComm, ExpertLoads, Model, Overlap, Parameters, shards, Parallelism, Plan, Schedule, Step, Unfit, application, simai};
use pauseframe_apps::{Application, Choices};
use pauseframe_fabric::Workload;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_units::limits::Limit;
use pauseframe_units::{Bytes, Span, counted};
use std::ops::RangeInclusive;
use std::sync::Arc;

table! {
    /// Training steps of a model on GPUs: from a workload file of SimAI or AICB, or from keys
    pub struct TrainingSpec {
        /// SimAI's own rules: groups span all stages, stages exchange nothing, a forward collective has at least 4096 B, a message is a whole step of a ring
        as_simai: bool = or(false);
        /// Checkpoints that GPUs write to storage, or false
        checkpoint: Option<CheckpointSpec> = by(checkpoint, context);
        /// The steps of the ranks, with equal loads of experts
        steps: Steps = try_from(plan(t, context, as_simai, checkpoint.as_ref()));
        /// Factor for all compute times
        compute_scale: f64 = or_in(1.0, 0.0..=1e6);
        /// The library of collective operations, and what its messages cost
        collectives: CollectivesSpec = section(|t| {
            let slice = if as_simai { Slice::Step } else { Slice::DEFAULT };
            CollectivesSpec::read(t, Library::Nccl, slice)
        }) => {
            let message = || "training steps use NCCL's collectives".to_owned();
            t.check(collectives.library == Library::Nccl, "collectives.library", message, "remove it");
            if let Some(steps) = &steps {
                let slice = if as_simai { Slice::Step } else { Slice::DEFAULT };
                collectives.warn_of_idle_keys(t, &steps.application, (slice, context.gpus_per_server.is_some()));
                warn_of_scale_without_compute(t, compute_scale, &steps.application);
            }
        };
        /// Placement of ranks: hosts in order, racks in turn, at random, or as in hosts; with topology.scale_up the same of servers, which stay whole
        placement: PlacementName = by(placement);
        /// Host of each rank
        hosts: Option<Vec<String>> = by(hosts_of_ranks, context) => {
            let ranks = steps.as_ref().map(|steps: &Steps| steps.application.workers());
            check_places(t, context, ranks, 1, placement, hosts.as_deref(), targets(checkpoint.as_ref()));
            refuse_targets_with_ranks(t, targets(checkpoint.as_ref()), hosts.as_deref().unwrap_or_default());
        };
        /// Start of the first iteration
        start: Span = or_in(Span::ZERO, TIMES);
        /// Also run the steps without the other workloads, and report the slowdown through them
        alone: bool = or(false);
        /// Record the activities of each rank in the table timeline, which the report draws
        timeline: bool = or(false);
        /// The same as an application.
        job: ApplicationSpec = try_from(steps.clone().map(|steps| ApplicationSpec {
            application: ApplicationSource(steps.application),
            compute_scale,
            eager_limit: SIZE_MAX,
            envelope: Bytes::ZERO,
            algorithms: Vec::new(),
            choices: Choices::default(),
            collectives: collectives.clone(),
            ranks_per_host: 1,
            placement,
            hosts: hosts.clone(),
            start,
            alone,
            timeline,
            storage: targets(checkpoint.as_ref()).to_vec(),
        }));
    }
    pub fn try_read(t, context: &Context);
}

choices! {
    /// The order in which stages work on micro-batches
    pub enum ScheduleName {
        /// All forward passes, then all backward passes
        AsSimai = "as_simai",
        /// One forward, one backward
        OneForwardOneBackward = "1f1b",
        /// The same with several chunks of layers on each stage
        Interleaved = "interleaved",
    }
}

choices! {
    /// Whether iterations wait for checkpoints
    pub enum CheckpointMode {
        /// The next iteration begins when all GPUs have written
        Blocking = "blocking",
        /// It begins at once, and the next checkpoint waits for the one before
        Async = "async",
    }
}

table! {
    /// Checkpoints that GPUs write to storage; messages of the job's transport
    pub struct CheckpointSpec {
        /// A checkpoint follows each so many iterations
        every: u32 = or_in(1, 1..=100_000);
        /// Hosts that store checkpoints, without ranks of the job: the parts of a GPU go to them in turn
        targets: Vec<String> = try_by(storage_hosts, context);
        /// Bytes of a checkpoint of all GPUs, in proportion to their parameters
        #[source = "Megatron-LM, theoretical_memory_usage.py: bf16 values, and an fp32 copy and two moments of Adam"]
        bytes: Option<Bytes> = optional_in(SIZES, "14 B for each parameter; a file needs it");
        /// Whether iterations wait for checkpoints
        mode: CheckpointMode = or(CheckpointMode::Blocking);
        /// Bytes of the largest message
        part: Bytes = or_in(PART, PARTS);
        /// GPUs with the same parameters share the writing of what they all have, as Megatron does by default; false: the first of them writes it
        parallel_weights: bool = or(true);
    }
    pub fn try_read(t, context: &Context);
}

/// Default of the largest message: the largest RPC of Lustre.
const PART: Bytes = Bytes(16 << 20);
const PARTS: RangeInclusive<Bytes> = Bytes(4096)..=Bytes(1 << 30);

fn checkpoint(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<CheckpointSpec> {
    t.switchable(key, Absent::Off(Origin::Default), "false", doc, |t| CheckpointSpec::read(t, context)).flatten()
}

/// Reads the hosts that store checkpoints.
fn storage_hosts(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<Vec<String>> {
    let names: Vec<String> = t.required(key, doc)?;
    t.check(!names.is_empty(), key, || "[] names no host".to_owned(), "name one");
    for (index, name) in names.iter().enumerate() {
        let key = format!("{key}.{index}");
        known_host(t, &key, name, context);
        t.check(!names[..index].contains(name), &key, || format!("names {name:?} again"), "remove it");
    }
    Some(names).filter(|names| !names.is_empty())
}

/// Checks that no target of checkpoints has a rank of the job.
fn refuse_targets_with_ranks(t: &mut Table, targets: &[String], hosts: &[String]) {
    let list = if t.has("hosts_file") { "hosts_file" } else { "hosts" };
    for (index, name) in targets.iter().enumerate().filter(|(_, name)| hosts.contains(name)) {
        let message = || format!("{name:?} has a rank of this job ({list}), and checkpoints go to hosts without ranks");
        t.check(false, &format!("checkpoint.targets.{index}"), message, "name another target, or give the rank another host");
    }
}

/// The hosts that store checkpoints, if there are any.
fn targets(checkpoint: Option<&CheckpointSpec>) -> &[String] {
    checkpoint.map_or(&[], |checkpoint| &checkpoint.targets)
}

impl CheckpointSpec {
    /// What each rank writes; a model has parameters and perhaps a distributed optimizer, and a file has not.
    fn plan(&self, parallelism: &Parallelism, parameters: Option<(Parameters, bool)>) -> Checkpoints {
        let equal = Parameters { dense: u64::from(parallelism.replicas()), experts: 0 };
        let whole = self.bytes.map(|bytes| bytes.0);
        let (parameters, is_distributed) = parameters.unwrap_or((equal, true));
        Checkpoints {
            // Wrong values are refused, and still read.
            every: self.every.max(1),
            targets: self.targets.len() as u32,
            part: self.part.0.clamp(PARTS.start().0, PARTS.end().0),
            is_blocking: self.mode == CheckpointMode::Blocking,
            bytes: shards(parallelism, parameters, [is_distributed, self.parallel_weights], whole),
        }
    }

    /// Checks it against the job.
    fn check(&self, t: &mut Table, iterations: u32, bytes: Option<u64>) {
        let every = self.every;
        let message = || format!("{every}, but the job ends after {}: no checkpoint is written", counted(iterations, "iteration"));
        t.check(every <= iterations, "checkpoint.every", message, "lower it, or raise iterations");
        let message = || "is required: a file has no number of parameters".to_owned();
        t.check(self.bytes.is_some() || bytes.is_some(), "checkpoint.bytes", message, "give the bytes of a checkpoint of all GPUs");
        let message = || "is required: the layers have no parameters".to_owned();
        t.check(bytes != Some(0), "checkpoint.bytes", message, "give the bytes of a checkpoint of all GPUs");
    }
}

choices! {
    /// How the ranks of a context-parallel group exchange K and V
    pub enum ContextCommName {
        /// Ring attention: they go from rank to rank while ranks compute
        PointToPoint = "p2p",
        /// They are gathered before attention, and again in the backward pass
        AllGather = "all_gather",
        /// Ulysses: each rank gets all tokens of some heads
        AllToAll = "a2a",
    }
}

impl ContextCommName {
    fn comm(self) -> ContextComm {
        match self {
            ContextCommName::PointToPoint => ContextComm::PointToPoint,
            ContextCommName::AllGather => ContextComm::AllGather,
            ContextCommName::AllToAll => ContextComm::AllToAll,
        }
    }
}

/// What ranks do in a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Steps {
    /// Their programs.
    application: Arc<Application>,
    /// How to make them with unequal loads of experts, which depend on the seed.
    skewed: Option<Arc<Skewed>>,
}

/// A step whose experts have unequal loads.
#[derive(Clone, PartialEq, Debug)]
struct Skewed {
    plan: Plan,
    experts: u32,
    /// Exponent of Zipf's law.
    exponent: f64,
}

impl Skewed {
    /// Draws which experts of a block have many tokens: the k-th of them has a share in proportion to k^-exponent.
    fn application(&self, maker: &Maker) -> Application {
        let blocks = self.plan.step.expert_blocks;
        let count = self.plan.iterations * self.plan.stages() * blocks;
        let mut rng = maker.stream("experts", 0);
        let weights: Vec<f64> = (1..=self.experts).map(|k| libm::pow(f64::from(k), -self.exponent)).collect();
        let sum: f64 = weights.iter().sum();
        let mut shares_of_block = || {
            let mut drawn = weights.clone();
            shuffle(&mut rng, &mut drawn);
            let of_rank = drawn.chunks((self.experts / self.plan.parallelism.expert) as usize);
            of_rank.map(|of_experts| of_experts.iter().sum::<f64>() / sum).collect::<Box<[f64]>>()
        };
        let shares = (0..count).map(|_| shares_of_block()).collect();
        application("model", &Plan { loads: Some(ExpertLoads { blocks, shares }), ..self.plan.clone() })
    }
}

impl Source for TrainingSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        let Some(skewed) = &self.steps.skewed else { return self.job.build(maker) };
        let application = ApplicationSource(Arc::new(skewed.application(maker)));
        ApplicationSpec { application, ..self.job.clone() }.build(maker)
    }

    fn starts(&self) -> Vec<Span> {
        self.job.starts()
    }

    fn at_once(&self, hosts: u64) -> u64 {
        self.job.at_once(hosts)
    }
}

/// Reads what the steps are.
fn plan(
    t: &mut Table,
    context: &Context,
    as_simai: bool,
    checkpoint: Option<&CheckpointSpec>,
) -> Option<Steps> {
    let bundle = file(t, context);
    if t.is_documenting() {
        steps(t, context, as_simai, checkpoint, None);
        t.under("workload.training", |t| {
            let alone = Parallelism { ranks: 1, tensor: 1, context: 1, pipeline: 1, expert: 1 };
            model(t, None, &alone);
        });
        return None;
    }
    if t.has("file") || t.has("packed") {
        unused_model_keys(t);
    }
    match bundle {
        File::Absent => return steps(t, context, as_simai, checkpoint, None),
        File::Read(bundle, key) => {
            if let Some(read) = workload(t, &bundle, key, as_simai) {
                return steps(t, context, as_simai, checkpoint, Some(&read));
            }
        }
        File::Unreadable => {}
    }
    // The other keys are right or wrong whatever the file is.
    let _ = (parallelism(t, context, checkpoint, None), schedule(t, as_simai, true), iterations(t), micro_batches(t, None));
    None
}

fn iterations(t: &mut Table) -> u32 {
    let doc = "Number of iterations; gradients of weights of one are awaited by the next";
    t.or_in("iterations", 1, 1..=100_000, doc)
}

/// The file of a workload.
enum File {
    /// A model by keys takes its place.
    Absent,
    /// The file, and its key.
    Read(Bundle, &'static str),
    /// It cannot be read, which the ledger knows.
    Unreadable,
}

/// Opens the file, if there is one.
fn file(t: &mut Table, context: &Context) -> File {
    let doc = "Workload file of SimAI or AICB, relative to the scenario; without it the keys layers, hidden .. describe the model";
    let path: Option<String> = t.optional("file", "none: see layers", doc);
    let doc = "The file packed into text, as in resolved scenarios";
    let packed: Option<String> = t.source("packed", "none: see file", doc);
    if t.is_documenting() {
        digest(t, None);
        return File::Absent;
    }
    let (key, bundle) = match (&path, &packed) {
        (_, Some(packed)) => ("packed", Bundle::from_text(packed)),
        (Some(path), _) => ("file", Bundle::open(&context.base_dir.join(path))),
        _ => return File::Absent,
    };
    match bundle {
        Ok(bundle) if digest(t, Some(&bundle)).is_some() => {
            keep(t, &bundle, key);
            File::Read(bundle, key)
        }
        Ok(_) => File::Unreadable,
        Err(error) => {
            let hint = path.as_deref().map_or("", |path| remedy_of_file(context, path));
            t.check(false, key, || error.to_string(), hint);
            File::Unreadable
        }
    }
}

fn workload(t: &mut Table, bundle: &Bundle, key: &'static str, as_simai: bool) -> Option<simai::Workload> {
    let read = bundle.single().and_then(|(name, text)| simai::read(name, text, as_simai));
    match read {
        Ok(read) => {
            for note in &read.notes {
                t.ledger.warn(format!("{}: {note}", t.at(key)));
            }
            Some(read)
        }
        Err(error) => {
            t.check(false, key, || error.to_string(), "");
            None
        }
    }
}

/// Reads how ranks are divided, in which order they work, and on what; makes their programs.
fn steps(
    t: &mut Table,
    context: &Context,
    as_simai: bool,
    checkpoint: Option<&CheckpointSpec>,
    read: Option<&simai::Workload>,
) -> Option<Steps> {
    let parallelism = parallelism(t, context, checkpoint, read);
    let (schedule, name) = schedule(t, as_simai, read.is_some());
    let iterations = iterations(t);
    if t.is_documenting() {
        micro_batches(t, None);
        return None;
    }
    let (mut skew, mut parameters) = ((0, 0.0), None);
    let step = if let Some(read) = read {
        Step { micro_batches: micro_batches(t, Some(read.step.micro_batches)), ..read.step.clone() }
    } else {
        let count = micro_batches(t, None);
        let (model, exponent) = model(t, Some(count), &parallelism)?;
        warn_of_keys_of_single_gpus(t, &parallelism, &model, exponent);
        skew = (model.experts, exponent);
        let message = || format!("{}, but the layers have no experts", parallelism.expert);
        t.check(model.experts > 0 || parallelism.expert == 1, "ep", message, "set experts, or remove ep");
        let step = or_problem(t, model.step(&parallelism))?;
        check_chunks(t, &model, &parallelism, schedule)?;
        parameters = Some((model.parameters(&parallelism), model.distributed_optimizer));
        step
    };
    let plan = Plan {
        step,
        parallelism,
        schedule,
        iterations,
        ignores_stages: as_simai,
        is_micro: read.is_some_and(|read| read.is_micro),
        loads: None,
        saves: None,
    };
    // A count of zero is out of range, which the ledger knows.
    if plan.step.micro_batches == 0 {
        return None;
    }
    or_problem(t, plan.check())?;
    let saves = checkpoint.map(|checkpoint| checkpoint.plan(&parallelism, parameters));
    if let (Some(checkpoint), Some(saves)) = (checkpoint, &saves) {
        checkpoint.check(t, iterations, parameters.map(|_| saves.bytes.iter().sum()));
    }
    let plan = Plan { saves, ..plan };
    let is_simai = name == ScheduleName::AsSimai;
    let is_changed = read.is_some_and(|read| read.step.micro_batches != plan.step.micro_batches);
    let is_idle = is_changed && is_simai && plan.is_one_stage();
    t.warn_if_idle("micro_batches", is_idle, "as_simai runs the layers of the file once, in their order");
    let has_one_stage = name == ScheduleName::Interleaved && plan.parallelism.pipeline == 1;
    t.warn_if_idle("schedule", has_one_stage, "pp is 1, so no stages interleave");
    let message = || "SimAI runs all forward passes first".to_owned();
    t.check(!as_simai || is_simai, "schedule", message, "remove it, or as_simai");
    if let Some((line, remedy)) = plan.line_without_a_group() {
        let text = "it has collectives of groups of one GPU, which send nothing";
        t.ledger.warn(format!("{}: line {line}: {text}; {remedy}", t.at("file")));
    }
    if as_simai && parallelism.pipeline > 1 {
        let text = "as_simai: in SimAI stages are a formula in its report, so no message goes between them and no bubble is simulated";
        t.ledger.warn(format!("{}: {text}", t.at("pp")));
    }
    if let Err(message) = Limit::Steps.check(plan.steps(), "steps of all ranks") {
        t.check(false, "iterations", || message, "");
        return None;
    }
    let name = read.map_or("model", |_| "simai");
    let (application, (experts, exponent)) = (Arc::new(application(name, &plan)), skew);
    let is_skewed = exponent > 0.0 && plan.parallelism.expert > 1;
    Some(Steps { application, skewed: is_skewed.then(|| Arc::new(Skewed { plan, experts, exponent })) })
}

/// The chunks of a model have whole layers.
fn check_chunks(t: &mut Table, model: &Model, parallelism: &Parallelism, schedule: Schedule) -> Option<()> {
    let Schedule::Interleaved { chunks } = schedule else { return Some(()) };
    let (layers, stages) = (model.layers, parallelism.pipeline);
    let fits = layers.is_multiple_of(stages.saturating_mul(chunks).max(1));
    let message =
        || format!("{layers} layers do not divide into {chunks} chunks on each of {stages} stages (pp)");
    t.check(fits, "virtual_stages", message, "choose another number of chunks or layers");
    fits.then_some(())
}

/// Warns of keys of groups that have one GPU.
fn warn_of_keys_of_single_gpus(t: &mut Table, parallelism: &Parallelism, model: &Model, exponent: f64) {
    let is_even = exponent > 0.0 && model.experts > 0 && parallelism.expert == 1;
    t.warn_if_idle("expert_skew", is_even, "ep is 1, so each GPU has all experts");
    let is_whole = !model.sequence_parallel && parallelism.tensor == 1;
    t.warn_if_idle("sequence_parallel", is_whole, "tp is 1, so each GPU has all activations");
    warn_of_idle_context_keys(t, parallelism, model);
}

fn warn_of_idle_context_keys(t: &mut Table, parallelism: &Parallelism, model: &Model) {
    const WHY: &str = "cp is 1, so each GPU has whole sequences";
    let is_idle = parallelism.context == 1;
    t.warn_if_idle("cp_comm", is_idle && model.context_comm != ContextComm::PointToPoint, WHY);
    t.warn_if_idle("kv_hidden", is_idle && model.kv_hidden != model.hidden, WHY);
    let Model { experts, top_k, parameters, expert_parameters, .. } = *model;
    let active = parameters_of_token(parameters, [experts, top_k], expert_parameters);
    let by_rule = share_of_attention(model.sequence, model.hidden, active);
    let is_changed = (model.attention_share - by_rule).abs() > 1e-9;
    t.warn_if_idle("attention_share", is_idle && is_changed, WHY);
}

fn or_problem<T>(t: &mut Table, result: Result<T, Unfit>) -> Option<T> {
    result.map_err(|Unfit { key, why, cure }| t.check(false, key, || why, cure)).ok()
}

fn parallelism(
    t: &mut Table,
    context: &Context,
    checkpoint: Option<&CheckpointSpec>,
    read: Option<&simai::Workload>,
) -> Parallelism {
    let targets = targets(checkpoint);
    let hosts = context.hosts.map_or(1, |hosts| hosts.without_servers_of(targets, context.gpus_per_server).max(1) as u32);
    let all = match (targets, context.gpus_per_server) {
        ([], _) => "all hosts",
        (_, None) => "all hosts that are not targets of checkpoints",
        (_, Some(_)) => "all hosts of servers without a target of checkpoints",
    };
    let of_file = |number: Option<u32>, otherwise: u32, why: &str| match number {
        Some(number) => (number, Origin::Computed("file".to_owned())),
        None => (otherwise, Origin::Computed(why.to_owned())),
    };
    let sizes = 1..=1_048_576;
    let (number, why) = of_file(read.and_then(|read| read.ranks), hosts, all);
    let doc = "Number of GPUs, each a host";
    let rule = "all_gpus of the file, else all hosts of servers without a target of checkpoints";
    let ranks = t.or_because_in("gpus", (number, why), sizes.clone(), rule, doc);
    // SimAI's groups of all GPUs; files of policy MICRO have one group of all.
    let all = read.map_or(1, |read| if read.is_micro { 1 } else { ranks });
    let of_groups = read.filter(|read| !read.is_micro);
    let tensor = of_groups.and_then(|read| read.tensor);
    let rule = "model_parallel_NPU_group of the file; 1 for a model";
    let doc = "GPUs of a tensor-parallel group";
    let tensor = t.or_because_in("tp", of_file(tensor, all, "no group in the file"), sizes.clone(), rule, doc);
    let doc = "GPUs of a context-parallel group, which share the tokens of a sequence: that many tensor-parallel groups in a row";
    let context = t.or_in("cp", 1, sizes.clone(), doc);
    let message = || format!("{context}, but files of SimAI and AICB know no context parallelism");
    t.check(context == 1 || read.is_none(), "cp", message, "remove it, or describe the model by keys (layers, hidden ..)");
    let rule = "pp of the file, else 1";
    let stages = of_file(of_groups.and_then(|read| read.pipeline), 1, "default");
    let pipeline = t.or_because_in("pp", stages, sizes.clone(), rule, "Stages of the pipeline");
    let rule = "ep of the file, else 1";
    let experts = of_file(of_groups.and_then(|read| read.expert), 1, "default");
    let doc = "GPUs of an expert-parallel group: that many tensor-parallel groups in a row";
    let expert = t.or_because_in("ep", experts, sizes, rule, doc);
    Parallelism { ranks, tensor, context, pipeline, expert }
}

fn schedule(t: &mut Table, as_simai: bool, is_file: bool) -> (Schedule, ScheduleName) {
    let default =
        if as_simai || is_file { ScheduleName::AsSimai } else { ScheduleName::OneForwardOneBackward };
    let rule = "\"as_simai\" for a file, else \"1f1b\"";
    let doc = "Order in which stages work on micro-batches";
    let name = t.or_because("schedule", default, Origin::Default, rule, doc);
    let doc = "Chunks of layers on a stage, for the schedule interleaved";
    let chunks: u32 = t.or_in("virtual_stages", 1, 1..=1024, doc);
    let is_interleaved = name == ScheduleName::Interleaved;
    let message = || format!("{chunks}, but the schedule is not interleaved");
    t.check(chunks == 1 || is_interleaved, "virtual_stages", message, "set schedule = \"interleaved\"");
    let schedule = match name {
        ScheduleName::AsSimai => Schedule::ForwardFirst,
        ScheduleName::OneForwardOneBackward => Schedule::OneForwardOneBackward,
        ScheduleName::Interleaved => Schedule::Interleaved { chunks },
    };
    (schedule, name)
}

fn micro_batches(t: &mut Table, of_file: Option<u32>) -> u32 {
    let origin = of_file.map_or(Origin::Default, |_| Origin::Computed("file".to_owned()));
    let doc = "Micro-batches of an iteration and data-parallel group member";
    let rule = "ga of the file; 1 for a model";
    t.or_because_in("micro_batches", (of_file.unwrap_or(1), origin), 1..=1_048_576, rule, doc)
}

/// Keys of a model beside a file act on nothing.
fn unused_model_keys(t: &mut Table) {
    const KEYS: [&str; 21] = [
        "layers",
        "hidden",
        "sequence",
        "micro_batch",
        "value_bytes",
        "parameters",
        "experts",
        "top_k",
        "expert_parameters",
        "expert_skew",
        "sequence_parallel",
        "cp_comm",
        "kv_hidden",
        "attention_share",
        "forward",
        "backward",
        "optimizer",
        "distributed_optimizer",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "bucket_size",
    ];
    for key in KEYS {
        t.excuse(key);
        let message = || "describes a model, but a file has the layers".to_owned();
        t.check(!t.has(key), key, message, "remove it, or file");
    }
}

/// The share of the core attention in the operations of a layer: 2 for each parameter and token, and with a causal mask 2 for
/// each value and pair of tokens (Megatron-LM, `num_floating_point_operations`).
fn share_of_attention(sequence: u64, hidden: u64, parameters: u64) -> f64 {
    let core = sequence as f64 * hidden as f64;
    core / (core + parameters as f64).max(1.0)
}

fn attention_share(t: &mut Table, by_rule: f64) -> f64 {
    let doc = "Share of the core attention, softmax(QKᵀ)V, in forward and backward, for context parallelism: ring attention hides transfers behind it";
    let rule = "that of the operations: sequence · hidden / (sequence · hidden + parameters of a token), causal";
    let origin = Origin::Computed("sequence, hidden and parameters".to_owned());
    t.or_because_in("attention_share", (by_rule, origin), 0.0..=1.0, rule, doc)
}

/// Parameters of a layer that work on a token.
fn parameters_of_token(dense: u64, [experts, top_k]: [u32; 2], of_expert: u64) -> u64 {
    dense + if experts > 0 { u64::from(top_k) * of_expert } else { 0 }
}

const NO_EXPERTS: &str = "experts is 0, so the layers are dense";

/// Reads a transformer, and the exponent of the loads of its experts.
fn model(t: &mut Table, micro_batches: Option<u32>, parallelism: &Parallelism) -> Option<(Model, f64)> {
    let layers = t.required_in("layers", 1..=100_000, "Layers of the model");
    let hidden = t.required_in("hidden", 1..=10_000_000_u64, "Values of a token between layers");
    let sequence = t.required_in("sequence", 1..=1_000_000_000_u64, "Tokens of a sequence");
    let micro_batch = t.or_in("micro_batch", 1, 1..=1_000_000_u64, "Sequences of a micro-batch");
    let value_bytes = t.or_in("value_bytes", 2, 1..=8_u64, "Bytes of a value: 2 for bf16");
    let experts: u32 = t.or_in("experts", 0, 0..=100_000, "Experts of a layer; 0: dense layers");
    let top_k: u32 = t.or_in("top_k", 1, 1..=1024, "Experts of a token");
    let message = || format!("a token cannot go to {top_k} of {experts} experts");
    t.check(experts == 0 || top_k <= experts, "top_k", message, "lower it, or raise experts");
    t.warn_if_idle("top_k", experts == 0 && top_k != 1, NO_EXPERTS);
    let width = hidden.unwrap_or(1);
    let dense = if experts > 0 { 4 } else { 12 } * width * width;
    let computed = Origin::Computed("hidden".to_owned());
    let sizes = 0..=1_000_000_000_000_u64;
    let rule = "12 hidden²; 4 hidden² with experts";
    let doc = "Parameters of a layer, without experts";
    let parameters = t.or_because_in("parameters", (dense, computed.clone()), sizes.clone(), rule, doc);
    let doc = "Parameters of an expert";
    let expert = (8 * width * width, computed);
    let expert_parameters = t.or_because_in("expert_parameters", expert, sizes, "8 hidden²", doc);
    let is_idle = experts == 0 && expert_parameters != 8 * width * width;
    t.warn_if_idle("expert_parameters", is_idle, NO_EXPERTS);
    let doc = "Exponent of Zipf's law for the tokens of the experts of a layer, drawn for each layer and micro-batch; 0: equal";
    let skew = t.or_in("expert_skew", 0.0, 0.0..=4.0, doc);
    t.warn_if_idle("expert_skew", experts == 0 && skew > 0.0, NO_EXPERTS);
    let doc = "Tensor-parallel groups divide activations by tokens: all-gather and reduce-scatter instead of all-reduce";
    let sequence_parallel = t.or("sequence_parallel", true, doc);
    let doc = "How GPUs of a context-parallel group exchange K and V";
    let context_comm = t.or("cp_comm", ContextCommName::PointToPoint, doc).comm();
    let doc = "Values of K, and of V, of a token: hidden times key-value heads / heads, for context parallelism";
    let origin = Origin::Computed("hidden".to_owned());
    let kv_hidden = t.or_because_in("kv_hidden", (width, origin), 1..=10_000_000_u64, "hidden", doc);
    let message = || format!("{kv_hidden} is more than hidden = {width}");
    t.check(hidden.is_none() || kv_hidden <= width, "kv_hidden", message, "lower it, or raise hidden");
    let active = parameters_of_token(parameters, [experts, top_k], expert_parameters);
    let attention_share = attention_share(t, share_of_attention(sequence.unwrap_or(1), width, active));
    let doc = "Compute time of the forward pass of a micro-batch over a layer, with all tokens: a GPU of a context-parallel group takes 1/cp of it";
    let forward = t.required_in("forward", TIMES, doc);
    let twice = Span(forward.unwrap_or_default().0.saturating_mul(2));
    let doc = "Compute time of its backward pass, half for inputs and half for weights";
    let origin = Origin::Computed("forward".to_owned());
    let backward = t.or_because_in("backward", (twice, origin), Span::ZERO..=Span(TIMES.end().0 * 2), "2 forward", doc);
    let optimizer = t.or_in("optimizer", Span::ZERO, TIMES, "Compute time at the end of an iteration");
    let doc = "Gradients are reduced and scattered, and parameters gathered (Megatron's --use-distributed-optimizer); false: all-reduce, as DDP";
    let distributed_optimizer = t.or("distributed_optimizer", true, doc);
    let overlap = overlap(t, parallelism, distributed_optimizer);
    let model = Model {
        layers: layers?,
        hidden: hidden?,
        sequence: sequence?,
        micro_batch,
        micro_batches: micro_batches?,
        value_bytes,
        parameters,
        experts,
        top_k,
        expert_parameters,
        sequence_parallel,
        kv_hidden,
        attention_share,
        context_comm,
        forward: forward?,
        backward,
        optimizer,
        distributed_optimizer,
        overlap,
    };
    Some((model, skew))
}

/// Reads which collectives of data parallelism run beside compute, by the names of Megatron-LM's options.
fn overlap(t: &mut Table, parallelism: &Parallelism, distributed_optimizer: bool) -> Option<Overlap> {
    let doc = "Reduce gradients in buckets during the backward pass of the last micro-batch (Megatron's --overlap-grad-reduce), not after it";
    let reduces = t.or("overlap_grad_reduce", false, doc);
    let doc = "Gather parameters in buckets during the forward pass of the first micro-batch (Megatron's --overlap-param-gather), not before it";
    let gathers = t.or("overlap_param_gather", false, doc);
    let message = || "parameters are gathered in the buckets of gradients".to_owned();
    t.check(reduces || !gathers, "overlap_param_gather", message, "set overlap_grad_reduce = true too");
    let message = || "parameters are gathered with a distributed optimizer alone".to_owned();
    t.check(distributed_optimizer || !gathers, "overlap_param_gather", message, "set it to false, or distributed_optimizer = true");
    // Wrong values are refused, and still read.
    let replicas = parallelism.check().map_or(1, |()| parallelism.replicas());
    let computed = Origin::Computed("dp · cp".to_owned());
    let default = u64::from(replicas).saturating_mul(1_000_000).max(40_000_000);
    let doc = "Parameters with which a bucket of the first stage is full; later stages have one bucket each, as in Megatron";
    let rule = "40 million, or 1 million for each GPU with the same parameters if that is more";
    let sizes = 1..=1_000_000_000_000;
    let bucket = t.or_because_in("bucket_size", (default, computed), sizes, rule, doc);
    t.warn_if_idle("bucket_size", bucket != default && !reduces, "overlap_grad_reduce is false");
    t.warn_if_idle("overlap_grad_reduce", reduces && replicas == 1, "no two GPUs have the same parameters");
    t.warn_if_idle("distributed_optimizer", !distributed_optimizer && replicas == 1, "no two GPUs have the same parameters");
    reduces.then_some(Overlap { bucket, gathers })
}
