//! Layers of a transformer from what a person knows of it, by the rules of AICB's generator.

use super::{Collective, ExpertPart, ExpertRole, Group, Layer, Parallelism, Pass, STEPS_OF_LAYER, Step};
use crate::algorithm::Kind;
use pauseframe_units::Span;
use pauseframe_units::limits::Limit;

/// A transformer and its batches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Layers of the whole model.
    pub layers: u32,
    /// Values of a token between layers.
    pub hidden: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
    /// Micro-batches of an iteration and data-parallel rank.
    pub micro_batches: u32,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Parameters of a layer, without experts.
    pub parameters: u64,
    /// Experts of a layer; 0: a dense layer.
    pub experts: u32,
    /// Experts of a token.
    pub top_k: u32,
    /// Parameters of an expert.
    pub expert_parameters: u64,
    /// Activations between tensor-parallel blocks are divided by tokens.
    pub sequence_parallel: bool,
    /// Forward compute time of a layer and micro-batch.
    pub forward: Span,
    /// Backward compute time of a layer and micro-batch: half for inputs, half for weights.
    pub backward: Span,
    /// Compute time of the optimizer.
    pub optimizer: Span,
}

/// The largest collective of a model: counts of its messages cannot overflow.
const BYTES_MAX: u64 = 100_000_000_000_000;

impl Model {
    /// Bytes of the activations of a micro-batch between layers.
    fn activations(&self) -> u64 {
        [self.micro_batch, self.sequence, self.hidden].into_iter().fold(self.value_bytes, u64::saturating_mul)
    }

    /// The step of one stage.
    ///
    /// # Errors
    /// The key that does not fit, and why.
    pub fn step(&self, parallelism: &Parallelism) -> Result<Step, (&'static str, String)> {
        let Parallelism { pipeline, tensor, expert, .. } = *parallelism;
        if self.layers == 0 || !self.layers.is_multiple_of(pipeline) {
            return Err(("layers", format!("{} is not a multiple of pp = {pipeline}", self.layers)));
        }
        if self.experts > 0 && !self.experts.is_multiple_of(expert) {
            return Err(("experts", format!("{} is not a multiple of ep = {expert}", self.experts)));
        }
        if self.experts == 0 && expert > 1 {
            return Err(("ep", format!("{expert}, but the layers have no experts")));
        }
        let own = self.layers / pipeline;
        let steps = u64::from(own) * u64::from(self.micro_batches) * STEPS_OF_LAYER;
        Limit::Steps.check(steps, "steps of a rank").map_err(|message| ("micro_batches", message))?;
        let mut layers = self.gradients(parallelism, u64::from(own));
        let start = layers.len();
        for micro_batch in 0..self.micro_batches {
            (0..own).for_each(|layer| self.layer(parallelism, micro_batch * own + layer, &mut layers));
        }
        if let Some(layer) = layers.iter().find(|layer| layer.largest_call() > BYTES_MAX) {
            return Err(("hidden", format!("{} would exchange more than 100 TB at once", layer.name)));
        }
        let whole = if self.sequence_parallel { u64::from(tensor) } else { 1 };
        Ok(Step {
            body: start..layers.len(),
            layers,
            micro_batches: self.micro_batches,
            stage_bytes: self.activations() / whole,
            expert_blocks: if self.experts > 0 { self.micro_batches * own } else { 0 },
            ..Step::default()
        })
    }

    /// Gradients and parameters of a stage at the end of the step, which goes through these layers from the last to the first: gradients of 4
    /// bytes are reduced, the distributed optimizer waits for them, and parameters of 2 bytes are gathered.
    fn gradients(&self, parallelism: &Parallelism, own: u64) -> Vec<Layer> {
        let tensor = u64::from(parallelism.tensor);
        let dense = own.saturating_mul(self.parameters) / tensor;
        let per_rank = u64::from(self.experts / parallelism.expert.max(1));
        let experts = own.saturating_mul(self.expert_parameters).saturating_mul(per_rank) / tensor;
        let reduce = |name: &str, group, kind, bytes| Layer {
            name: name.to_owned(),
            weight_gradient: pass(Span::ZERO, call(kind, group, bytes)),
            ..Layer::default()
        };
        let optimizer = Layer {
            name: "grad_param_compute".to_owned(),
            input_gradient: pass(self.optimizer, None),
            needs_gradients: true,
            ..Layer::default()
        };
        vec![
            reduce("grad_gather", Group::Dp, Kind::Allgather, dense.saturating_mul(2)),
            reduce("moe_grad_norm1", Group::DpEp, Kind::Allgather, experts.saturating_mul(2)),
            optimizer,
            reduce("grad_param_comm", Group::Dp, Kind::ReduceScatter, dense.saturating_mul(4)),
            reduce("moe_grad_norm2", Group::DpEp, Kind::ReduceScatter, experts.saturating_mul(4)),
        ]
    }

    /// Attention, then a dense block or experts; each half of the compute time.
    fn layer(&self, parallelism: &Parallelism, number: u32, into: &mut Vec<Layer>) {
        self.block("attention", into);
        if self.experts == 0 {
            self.block("mlp", into);
        } else {
            self.expert_block(parallelism, number, into);
        }
    }

    fn compute(&self, part: u64) -> [Span; 3] {
        let half = Span(self.backward.0 / 2);
        [self.forward, half, Span(self.backward.0 - half.0)].map(|span| Span(span.0 / part))
    }

    /// Two matrices: the first divided by columns, the second by rows.
    fn block(&self, name: &str, into: &mut Vec<Layer>) {
        let bytes = self.activations();
        let [gather, scatter] =
            [Kind::Allgather, Kind::ReduceScatter].map(|kind| call(kind, Group::Tp, bytes));
        let reduce = call(Kind::Allreduce, Group::Tp, bytes);
        let ways = if self.sequence_parallel {
            [[gather, scatter], [scatter, gather]]
        } else {
            [[None, reduce], [reduce, None]]
        };
        let [forward, input, weight] = self.compute(4);
        for (part, [there, back]) in ["column", "row"].into_iter().zip(ways) {
            into.push(Layer {
                name: format!("{name}_{part}"),
                forward: pass(forward, there),
                input_gradient: pass(input, back),
                weight_gradient: pass(weight, None),
                ..Layer::default()
            });
        }
    }

    /// Dispatch to experts, their work, and the way back.
    fn expert_block(&self, parallelism: &Parallelism, block: u32, into: &mut Vec<Layer>) {
        let tensor = u64::from(parallelism.tensor);
        let tokens = self.activations().saturating_mul(u64::from(self.top_k));
        let exchange = call(Kind::Alltoall, Group::Ep, tokens / tensor);
        let [gather, scatter] =
            [Kind::Allgather, Kind::ReduceScatter].map(|kind| call(kind, Group::Tp, tokens));
        let [forward, input, weight] = self.compute(2);
        let none = Span::ZERO;
        let mut push = |name: &str, role: ExpertRole, there: Pass, back: Pass, weights: Span| {
            into.push(Layer {
                name: name.to_owned(),
                forward: there,
                input_gradient: back,
                weight_gradient: pass(weights, None),
                experts: Some(ExpertPart { block, role }),
                ..Layer::default()
            });
        };
        push("moe_dispatch", ExpertRole::Dispatch, pass(none, exchange), pass(none, exchange), none);
        push("moe_gather", ExpertRole::Work, pass(none, gather), pass(none, scatter), none);
        push("moe_experts", ExpertRole::Work, pass(forward, scatter), pass(input, gather), weight);
        push("moe_combine", ExpertRole::Combine, pass(none, exchange), pass(none, exchange), none);
    }
}

fn pass(compute: Span, call: Option<Collective>) -> Pass {
    Pass { compute, call }
}

fn call(kind: Kind, group: Group, bytes: u64) -> Option<Collective> {
    (bytes > 0).then_some(Collective { kind, group, bytes })
}
