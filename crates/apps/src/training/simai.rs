//! The workload text of SimAI and AICB (SimAI `Workload.cc`, `initialize_workload`).
//!
//! Line 1 has the policy and keys, line 2 the number of layers, then each layer has 12 fields. What SimAI reads
//! wrongly without a word is refused or noted here, with the line.

use super::{Collective, Group, Layer, Pass, Step};
use crate::algorithm::Kind;
use crate::read::ReadError;
use crate::read::text::Line;
use pauseframe_units::{Span, counted};
use std::collections::BTreeSet;

/// Policies whose loop is that of training steps.
const TRANSFORMERS: [&str; 2] = ["HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER"];
/// Policies of SimAI that are not modelled.
const OTHERS: [&str; 8] = [
    "DATA",
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED",
    "HYBRID_CUSTOMIZED",
    "DISTRIBUTED_INFERENCE",
];
const KEYS: [&str; 8] = [
    "model_parallel_NPU_group:",
    "ep:",
    "pp:",
    "vpp:",
    "ga:",
    "all_gpus:",
    "checkpoints:",
    "checkpoint_initiates:",
];
/// Names of layers before and after those of micro-batches, in files of AICB.
const HEAD: [&str; 10] = [
    "norm",
    "grad_norm",
    "grad_gather",
    "grad_param_comm",
    "grad_param_compute",
    "layernorm",
    "embedding_grads",
    "moe_grad_norm1",
    "moe_grad_norm2",
    "moe_norm",
];
const TAIL: [&str; 2] = ["cross_entropy", "optimizer"];
/// SimAI raises smaller collectives of the forward pass to this.
const FORWARD_MIN: u64 = 4096;
const BYTES_MAX: f64 = 1e12;
const COMPUTE_MAX_NS: u64 = 1_000_000_000_000_000;

/// A file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workload {
    /// The layers, and the micro-batches among them.
    pub step: Step,
    /// Nothing but collectives (policy MICRO).
    pub is_micro: bool,
    /// TP; `None`: all GPUs.
    pub tensor: Option<u32>,
    /// EP, PP, number of GPUs, if the header tells them.
    pub expert: Option<u32>,
    /// See `expert`.
    pub pipeline: Option<u32>,
    /// See `expert`.
    pub ranks: Option<u32>,
    /// `vpp` of the header.
    pub chunks: Option<u32>,
    /// What was skipped or changed.
    pub notes: Vec<String>,
}

/// Reads a workload. With `as_simai`, sizes are those that SimAI makes of them.
///
/// # Errors
/// File, line, reason.
pub fn read(file: &str, text: &str, as_simai: bool) -> Result<Workload, ReadError> {
    let mut lines = (1..).zip(text.lines());
    let mut line = |what: &str| {
        let (number, content) = lines.next().ok_or_else(|| ReadError {
            file: file.to_owned(),
            line: text.lines().count() as u32,
            reason: format!("ends before {what}"),
        })?;
        Ok(Line::new(file, number, content))
    };
    let mut workload = Workload::default();
    header(&mut line("the policy")?, &mut workload)?;
    let mut layers = line("the number of layers")?;
    let count: u32 = layers.number("the number of layers")?;
    layers.end()?;
    if count == 0 {
        return Err(layers.error("has no layers"));
    }
    let mut notes = Notes::default();
    for index in 0..count {
        let what = format!("layer {} of {count}", index + 1);
        let layer = layer(&mut line(&what)?, index + 1 == count, as_simai, &mut notes)?;
        workload.step.layers.push(layer);
    }
    if let Some((number, _)) = lines.find(|(_, content)| !content.trim().is_empty()) {
        let note = format!("{file}:{number}: not read: line 2 announces {}", counted(count, "layer"));
        workload.notes.push(note);
    }
    notes.of_micro(&workload);
    workload.notes.extend(notes.texts(file));
    divide(&mut workload, file);
    Ok(workload)
}

fn header(line: &mut Line, workload: &mut Workload) -> Result<(), ReadError> {
    let policy = line.word("a policy")?;
    workload.is_micro = policy == "MICRO";
    if OTHERS.contains(&policy) {
        let known = TRANSFORMERS.join(", ");
        return Err(line.error(format!("policy {policy} is not modelled; {known} and MICRO are")));
    }
    if !workload.is_micro && !TRANSFORMERS.contains(&policy) {
        return Err(line.unknown("policy", policy, &[TRANSFORMERS[0], TRANSFORMERS[1], "MICRO"]));
    }
    workload.step.micro_batches = 1;
    let mut note =
        |line: &Line, text: &str| workload.notes.push(format!("{}:{}: {text}", line.file, line.number));
    let mut seen = BTreeSet::new();
    while let Some(key) = line.next() {
        if !seen.insert(key.trim_end_matches(':').to_owned()) {
            return Err(line.error(format!("has {key} twice: keep one of them")));
        }
        match key {
            "model_parallel_NPU_group:" => workload.tensor = line.number(key).map(some)?,
            "ep:" => workload.expert = line.number(key).map(some)?,
            "pp:" => workload.pipeline = line.number(key).map(some)?,
            "ga:" => workload.step.micro_batches = line.number::<u32>(key)?.max(1),
            "all_gpus:" => workload.ranks = line.number(key).map(some)?,
            "vpp:" => {
                workload.chunks = line.number(key).map(some)?;
                let text =
                    "vpp is not taken, since AICB writes the number of layers there; set virtual_stages";
                note(line, text);
            }
            "checkpoints:" => workload.step.checkpoints[0] = list(line, key)?,
            "checkpoint_initiates:" => workload.step.checkpoints[1] = list(line, key)?,
            "pp_comm" | "pp_comm:" => workload.step.stage_bytes = bytes(line, "pp_comm")?,
            "expert_parallel_npu_group:" => {
                let _: u32 = line.number(key)?;
                note(line, "expert_parallel_npu_group is not taken, as in SimAI; set ep");
            }
            other => return Err(line.unknown("key", other, &KEYS)),
        }
    }
    Ok(())
}

/// 0 stands for a missing number.
fn some(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number > 0)
}

fn list(line: &mut Line, key: &str) -> Result<Vec<u32>, ReadError> {
    let count: u32 = line.number(key)?;
    (0..count).map(|_| line.number("a layer")).collect()
}

/// A size, which AICB may write as `25165824.0`.
fn bytes(line: &mut Line, what: &str) -> Result<u64, ReadError> {
    let value: f64 = line.number(what)?;
    if !(0.0..=BYTES_MAX).contains(&value) || value.fract() != 0.0 {
        return Err(line.error(format!("{what} cannot be {value}: whole bytes up to 1e12")));
    }
    Ok(value as u64)
}

/// What becomes of layers without an error: the number of lines and the first one.
#[derive(Default)]
struct Notes {
    broadcasts: (u32, u32),
    raised: (u32, u32),
    without_bytes: (u32, u32),
    updates: (u32, u32),
    idle_compute: (u32, u32),
    more: Option<(u32, String)>,
}

impl Notes {
    fn count((count, first): &mut (u32, u32), line: u32) {
        if *count == 0 {
            *first = line;
        }
        *count += 1;
    }

    /// Files of policy MICRO measure collectives: SimAI runs nothing between them.
    fn of_micro(&mut self, workload: &Workload) {
        let computes = |layer: &&Layer| {
            let passes = [layer.forward, layer.input_gradient, layer.weight_gradient];
            passes.iter().any(|pass| pass.compute > Span::ZERO)
        };
        for layer in workload.step.layers.iter().filter(|_| workload.is_micro).filter(computes) {
            Notes::count(&mut self.idle_compute, layer.line);
        }
    }

    fn texts(self, file: &str) -> Vec<String> {
        let counted = [
            (self.broadcasts, "BROADCAST sends nothing, as in SimAI"),
            (self.raised, "a forward collective below 4096 B has 4096 B, as in SimAI"),
            (self.without_bytes, "a collective of 0 B is left out"),
            (self.idle_compute, "compute times are not spent: policy MICRO has nothing but collectives"),
            (self.updates, "the time of the update (last field) is not spent, as in SimAI"),
        ];
        let mut texts: Vec<String> = counted
            .into_iter()
            .filter(|((count, _), _)| *count > 0)
            .map(|((count, first), text)| format!("{file}:{first}: {text} ({count} in all)"))
            .collect();
        texts.extend(self.more.map(|(line, word)| {
            format!("{file}:{line}: '{word}' after the last field is not read, as in SimAI")
        }));
        texts
    }
}

/// `name dep fp_ns fp_comm fp_bytes ig_ns ig_comm ig_bytes wg_ns wg_comm wg_bytes update_ns`.
fn layer(line: &mut Line, is_last: bool, as_simai: bool, notes: &mut Notes) -> Result<Layer, ReadError> {
    let name = line.word("the name of a layer")?.to_owned();
    let _: i64 = line.number("a dependence (-1)")?;
    let mut forward = pass(line, "forward", Group::Tp, notes)?;
    let input_gradient = pass(line, "input gradient", Group::Tp, notes)?;
    let weight_gradient = pass(line, "weight gradient", Group::Dp, notes)?;
    let update: u64 = line.number("the time of the update in ns")?;
    if update > 0 {
        Notes::count(&mut notes.updates, line.number);
    }
    if let Some(call) = forward.call.as_mut().filter(|call| as_simai && call.bytes < FORWARD_MIN) {
        call.bytes = FORWARD_MIN;
        Notes::count(&mut notes.raised, line.number);
    }
    if let Some(word) = line.next() {
        if !is_last {
            return Err(
                line.error(format!("has '{word}' after its 12 fields: SimAI would shift all that follows"))
            );
        }
        notes.more = Some((line.number, word.to_owned()));
    }
    let is_synchronous = !as_simai && HEAD.contains(&name.as_str());
    let passes = Layer { forward, input_gradient, weight_gradient, ..Layer::default() };
    Ok(Layer { name, line: line.number, is_synchronous, ..passes })
}

fn pass(line: &mut Line, what: &str, bare: Group, notes: &mut Notes) -> Result<Pass, ReadError> {
    let nanoseconds: u64 = line.number(&format!("{what} compute time in ns"))?;
    if nanoseconds > COMPUTE_MAX_NS {
        return Err(line.error(format!("{what} compute time {nanoseconds} ns is more than 1e15")));
    }
    let word = line.word(&format!("{what} communication"))?;
    let bytes = bytes(line, &format!("{what} bytes"))?;
    let kind = operation(line, word, bare)?;
    if word == "BROADCAST" {
        Notes::count(&mut notes.broadcasts, line.number);
    }
    if kind.is_some() && bytes == 0 {
        Notes::count(&mut notes.without_bytes, line.number);
    }
    let call = kind.filter(|_| bytes > 0).map(|(kind, group)| Collective { kind, group, bytes });
    Ok(Pass { compute: Span::from_ns(nanoseconds), call })
}

/// `ALLREDUCE`, `ALLGATHER`, `REDUCESCATTER`, `ALLTOALL`, each bare or for the groups `_EP` or `_DP_EP`.
fn operation(line: &Line, word: &str, bare: Group) -> Result<Option<(Kind, Group)>, ReadError> {
    const WORDS: [(&str, Kind); 4] = [
        ("ALLREDUCE", Kind::Allreduce),
        ("ALLGATHER", Kind::Allgather),
        ("REDUCESCATTER", Kind::ReduceScatter),
        ("ALLTOALL", Kind::Alltoall),
    ];
    if ["NONE", "BROADCAST"].contains(&word) {
        return Ok(None);
    }
    let (name, group) = match (word.strip_suffix("_DP_EP"), word.strip_suffix("_EP")) {
        (Some(name), _) => (name, Group::DpEp),
        (_, Some(name)) => (name, Group::Ep),
        _ => (word, bare),
    };
    if let Some((_, kind)) = WORDS.into_iter().find(|(known, _)| *known == name) {
        return Ok(Some((kind, group)));
    }
    if name.starts_with("ALLREDUCEALLTOALL") {
        let reason = "names two operations; SimAI makes it an all-reduce of all GPUs: write one of them";
        return Err(line.error(format!("'{word}' {reason}")));
    }
    let known =
        ["NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "ALLTOALL_EP", "ALLGATHER_DP_EP"];
    Err(line.unknown("communication", word, &known))
}

/// Finds the layers of micro-batches: those between head and tail.
fn divide(workload: &mut Workload, file: &str) {
    let layers = &workload.step.layers;
    let is_head = |layer: &&Layer| HEAD.contains(&layer.name.as_str());
    let is_tail = |layer: &&Layer| TAIL.iter().any(|name| layer.name.starts_with(name));
    let start = layers.iter().take_while(is_head).count();
    let end = layers.len() - layers[start..].iter().rev().take_while(is_tail).count();
    workload.step.body = start..end;
    let [from, by] = &workload.step.checkpoints;
    if from.len() > 1 || by.len() > 1 {
        let note = "several checkpoints are taken; SimAI reads the first one again and again";
        workload.notes.push(format!("{file}:1: {note}"));
    }
}
