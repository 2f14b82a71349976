//! Training steps: layers that compute and communicate in groups of ranks, as programs of ranks.
//!
//! A rank has a compute stream, whose steps are its program, and a communication stream for each of its groups.
//! Blocking operations stop the compute stream; the gradients of weights do not.

#[cfg(test)]
mod bucket_tests;
mod buckets;
mod checkpoint;
mod layers;
mod program;
mod schedule;
pub mod simai;
#[cfg(test)]
mod tests;

pub use buckets::{Overlap, Reduction};
pub use checkpoint::{Checkpoints, Parameters, shards};
pub use layers::{ContextComm, Model};
pub use program::{Plan, application};
pub use schedule::Schedule;

use crate::algorithm::Kind;
use pauseframe_units::{Span, counted};
use std::ops::Range;

/// Upper bound of the steps of a rank for one layer of one micro-batch: compute, call and wait of each of its three passes.
const STEPS_OF_LAYER: u64 = 9;

/// A kind of groups of ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// Tensor parallel: the ranks that share the layers' matrices.
    Tp,
    /// Context parallel: the ranks that share the tokens of a sequence.
    Cp,
    /// Data parallel: the ranks with the same part of the model, also those that share sequences (Megatron's `dp-cp` groups).
    Dp,
    /// Expert parallel: the ranks that share the experts.
    Ep,
    /// Data parallel among ranks with the same experts.
    DpEp,
    /// Pipeline parallel: the stages.
    Pp,
    /// All ranks and the storage to which they write checkpoints.
    Checkpoint,
}

impl Group {
    /// Number of sums of exposed time.
    pub const EXPOSED: usize = 6;
    /// The names of these sums.
    pub const EXPOSED_NAMES: [&'static str; Self::EXPOSED] = ["tp", "cp", "dp", "ep", "pp", "checkpoint"];

    /// The sum of exposed time to which waiting for this group belongs.
    pub fn exposed(self) -> usize {
        match self {
            Group::Tp => 0,
            Group::Cp => 1,
            Group::Dp | Group::DpEp => 2,
            Group::Ep => 3,
            Group::Pp => 4,
            Group::Checkpoint => 5,
        }
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Group::Tp => "TP",
            Group::Cp => "CP",
            Group::Dp => "DP",
            Group::Ep => "EP",
            Group::DpEp => "DP_EP",
            Group::Pp => "PP",
            Group::Checkpoint => "CHECKPOINT",
        }
    }
}

/// A pass over a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Forward.
    Forward,
    /// Backward: gradient of the input.
    InputGradient,
    /// Backward: gradient of the weights.
    WeightGradient,
    /// After an iteration: a checkpoint.
    Checkpoint,
}

impl Phase {
    /// The name in tables: that of SimAI's columns.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Forward => "fp",
            Phase::InputGradient => "ig",
            Phase::WeightGradient => "wg",
            Phase::Checkpoint => "checkpoint",
        }
    }
}

/// What the calls of a training step are for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Training {
    /// By [`crate::Call::label`].
    pub labels: Vec<Label>,
    /// By communicator: its kind of groups, and its number among them.
    pub groups: Vec<Option<(Group, u32)>>,
    /// Number of the last ranks that are storage targets.
    pub storage: u32,
}

/// What a call is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// From 0.
    pub iteration: u32,
    /// Name of the layer.
    pub layer: String,
    /// The pass.
    pub phase: Phase,
    /// Bytes of the whole vector.
    pub bytes: u64,
}

/// Compute time and communication of a pass over a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pass {
    /// Compute time, before the communication.
    pub compute: Span,
    /// The collective operation, if there is one.
    pub call: Option<Collective>,
}

/// A collective operation of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collective {
    /// All-reduce, all-gather, reduce-scatter or all-to-all.
    pub kind: Kind,
    /// Among which ranks.
    pub group: Group,
    /// Bytes of the whole vector; for an all-to-all, those that one rank sends in all, its own share included.
    pub bytes: u64,
}

/// A layer of a step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layer {
    /// Name.
    pub name: String,
    /// Line of its file; 0 if there is none.
    pub line: u32,
    /// Forward; its communication blocks.
    pub forward: Pass,
    /// Gradient of the input; its communication blocks.
    pub input_gradient: Pass,
    /// Gradient of the weights; its communication does not block, unless `is_synchronous`.
    pub weight_gradient: Pass,
    /// Its collective of weights blocks too, as those of Megatron-LM without overlap (`async_op` of `start_grad_sync` and `start_param_sync`).
    pub is_synchronous: bool,
    /// Its backward pass waits for the gradients of all layers' weights: the optimizer.
    pub needs_gradients: bool,
    /// Its part in the work of experts, if it has one.
    pub experts: Option<ExpertPart>,
    /// Ring attention: bytes of the K and V of a rank, which go around its context-parallel group while it computes.
    pub ring: Option<u64>,
    /// Parameters of a rank in it, which buckets divide.
    pub parameters: Parameters,
}

/// A layer's part in a block of experts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpertPart {
    /// Number of the block among those of a stage in an iteration.
    pub block: u32,
    /// What the layer does.
    pub role: ExpertRole,
}

/// What a layer does for experts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpertRole {
    /// Sends tokens to their experts; on the way back gradients come from there.
    Dispatch,
    /// Works on the tokens that have come.
    Work,
    /// Sends results back; on the way back gradients go there.
    Combine,
}

/// The shares of tokens that each rank of an expert-parallel group works on, by iteration, stage and block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExpertLoads {
    /// Blocks of a stage in an iteration.
    pub blocks: u32,
    /// For each block the shares of the ranks, which add up to 1.
    pub shares: Vec<Box<[f64]>>,
}

impl Layer {
    /// Steps of a rank for a layer of ring attention: send, compute and receive of each part, in both directions.
    fn steps_of_ring(parallelism: &Parallelism) -> u64 {
        u64::from(parallelism.context) * 6
    }

    /// Bytes of its largest collective.
    fn largest_call(&self) -> u64 {
        let passes = [self.forward, self.input_gradient, self.weight_gradient];
        let calls = passes.iter().filter_map(|pass| pass.call).map(|call| call.bytes);
        calls.chain(self.ring).max().unwrap_or(0)
    }
}

/// The layers of a step, as one rank of a stage works on them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// In the order of the forward pass.
    pub layers: Vec<Layer>,
    /// Which of them are those of micro-batches: equal blocks, one for each micro-batch.
    pub body: Range<usize>,
    /// Number of micro-batches.
    pub micro_batches: u32,
    /// Layers from which the forward pass is repeated, and layers whose backward pass needs that.
    pub checkpoints: [Vec<u32>; 2],
    /// Bytes of a message from a rank of one stage to that of the next.
    pub stage_bytes: u64,
    /// Blocks of experts in an iteration of a stage.
    pub expert_blocks: u32,
    /// Who gets the sums of gradients that go in buckets.
    pub reduction: Reduction,
    /// Gradients and parameters go in buckets, beside compute.
    pub overlap: Option<Overlap>,
}

/// How ranks are divided among groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parallelism {
    /// Number of ranks.
    pub ranks: u32,
    /// Ranks of a tensor-parallel group.
    pub tensor: u32,
    /// Ranks of a context-parallel group.
    pub context: u32,
    /// Stages.
    pub pipeline: u32,
    /// Ranks of an expert-parallel group.
    pub expert: u32,
}

/// A number that does not fit the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfit {
    /// The key of the number.
    pub key: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// How to mend it; empty if `why` tells.
    pub cure: &'static str,
}

impl Parallelism {
    /// Ranks with the same part of the model: those of data and context parallelism.
    pub fn replicas(&self) -> u32 {
        self.ranks / self.tensor / self.pipeline
    }

    /// Checks that the groups divide the ranks.
    ///
    /// # Errors
    /// The key that does not fit.
    pub fn check(&self) -> Result<(), Unfit> {
        let no_divisor =
            |key, why| Err(Unfit { key, why, cure: "choose a divisor, or set gpus to another number" });
        let Parallelism { ranks, tensor, context, pipeline, expert } = *self;
        if tensor == 0 || !ranks.is_multiple_of(tensor) {
            return no_divisor("tp", format!("{tensor} does not divide {}", counted(ranks, "GPU")));
        }
        if pipeline == 0 || !(ranks / tensor).is_multiple_of(pipeline) {
            return no_divisor(
                "pp",
                format!("{pipeline} does not divide {ranks} GPUs / tp = {}", ranks / tensor),
            );
        }
        let replicas = self.replicas();
        if context == 0 || !replicas.is_multiple_of(context) {
            return no_divisor(
                "cp",
                format!("{context} does not divide {ranks} GPUs / (tp · pp) = {replicas}"),
            );
        }
        if expert == 0 || !replicas.is_multiple_of(expert) {
            let name = if context > 1 { "dp · cp" } else { "dp" };
            return no_divisor("ep", format!("{expert} does not divide {name} = {replicas}"));
        }
        Ok(())
    }
}
