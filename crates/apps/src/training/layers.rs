//! Layers of a transformer from what a person knows of it, by the rules of AICB's generator.

use super::checkpoint::WEIGHT;
use super::{
    Collective, ExpertPart, ExpertRole, Group, Layer, Overlap, Parallelism, Parameters, Pass, Reduction,
    STEPS_OF_LAYER, Step, Unfit,
};
use crate::algorithm::Kind;
use pauseframe_units::Span;
use pauseframe_units::limits::Limit;

const MULTIPLE: &str = "choose a multiple, or change what divides it";
const SMALLER: &str = "choose a smaller one";

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
    /// Values of K, and of V, of a token: fewer than `hidden` with grouped-query attention.
    pub kv_hidden: u64,
    /// Share of the core attention, softmax(QKᵀ)V, in the compute times of a layer.
    pub attention_share: f64,
    /// How the ranks that share a sequence exchange K and V.
    pub context_comm: ContextComm,
    /// Forward compute time of a layer and micro-batch with all tokens.
    pub forward: Span,
    /// Backward compute time of a layer and micro-batch with all tokens. Half of it is for inputs, half for weights, apart
    /// from the core attention, which has no weights.
    pub backward: Span,
    /// Compute time of the optimizer.
    pub optimizer: Span,
    /// The optimizer's state is divided among the ranks with the same parameters: gradients are reduced and scattered, and parameters
    /// gathered. Otherwise all ranks get all gradients.
    pub distributed_optimizer: bool,
    /// Gradients and parameters go in buckets, beside compute.
    pub overlap: Option<Overlap>,
}

/// How ranks that share the tokens of a sequence get what attention needs (`cp_comm_type` of Megatron-LM). Messages are those
/// of Transformer Engine 2.20 (`pytorch/attention/dot_product_attention/context_parallel.py`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextComm {
    /// Ring attention: K and V go around the group while ranks compute.
    PointToPoint,
    /// K and V are gathered before the core attention, in both directions.
    AllGather,
    /// Ulysses: ranks exchange tokens of all heads for all tokens of their heads.
    AllToAll,
}

/// Bytes of a gradient that is reduced: fp32.
pub(super) const GRADIENT: u64 = 4;

/// The largest collective of a model: counts of its messages cannot overflow.
const BYTES_MAX: u64 = 100_000_000_000_000;

impl Model {
    /// Bytes of the activations of a micro-batch between layers.
    fn activations(&self, parallelism: &Parallelism) -> u64 {
        self.bytes_of_rank(parallelism, self.hidden)
    }

    /// Bytes of so many values of each token of a micro-batch that a rank has.
    fn bytes_of_rank(&self, parallelism: &Parallelism, values: u64) -> u64 {
        let tokens = self.sequence / u64::from(parallelism.context);
        [self.micro_batch, tokens, values].into_iter().fold(self.value_bytes, u64::saturating_mul)
    }

    /// Checks that ranks can share sequences, and heads if they exchange these.
    fn check_context(&self, parallelism: &Parallelism) -> Result<(), Unfit> {
        let Parallelism { context, tensor, .. } = *parallelism;
        // Megatron gives each rank an early and a late chunk, so that causal masks leave all of them the same work.
        if context > 1 && !self.sequence.is_multiple_of(u64::from(context) * 2) {
            let why = format!("{} is not a multiple of 2 cp = {}", self.sequence, context * 2);
            return Err(Unfit { key: "sequence", why, cure: MULTIPLE });
        }
        let parts = u64::from(context) * u64::from(tensor);
        let has_heads = context > 1 && self.context_comm == ContextComm::AllToAll;
        let widths = [("hidden", self.hidden), ("kv_hidden", self.kv_hidden)];
        match widths.into_iter().find(|(_, width)| has_heads && !width.is_multiple_of(parts)) {
            None => Ok(()),
            Some((key, width)) => {
                let heads = "ranks of cp_comm = \"a2a\" have whole heads";
                let why = format!("{width} is not a multiple of tp · cp = {parts}: {heads}");
                Err(Unfit { key, why, cure: "choose a multiple, or cp_comm = \"p2p\"" })
            }
        }
    }

    /// The step of one stage.
    ///
    /// # Errors
    /// The key that does not fit.
    pub fn step(&self, parallelism: &Parallelism) -> Result<Step, Unfit> {
        parallelism.check()?;
        let Parallelism { pipeline, tensor, expert, .. } = *parallelism;
        if self.layers == 0 || !self.layers.is_multiple_of(pipeline) {
            let why = format!("{} is not a multiple of pp = {pipeline}", self.layers);
            return Err(Unfit { key: "layers", why, cure: MULTIPLE });
        }
        if self.experts > 0 && !self.experts.is_multiple_of(expert) {
            let why = format!("{} is not a multiple of ep = {expert}", self.experts);
            return Err(Unfit { key: "experts", why, cure: MULTIPLE });
        }
        if self.experts == 0 && expert > 1 {
            let why = format!("{expert}, but the layers have no experts");
            return Err(Unfit { key: "ep", why, cure: "set experts, or remove it" });
        }
        self.check_context(parallelism)?;
        let own = self.layers / pipeline;
        let of_layer = STEPS_OF_LAYER + Layer::steps_of_ring(parallelism);
        let steps = u64::from(own) * u64::from(self.micro_batches) * of_layer;
        Limit::Steps.check(steps, "steps of a rank").map_err(|why| Unfit {
            key: "micro_batches",
            why,
            cure: "",
        })?;
        let mut layers = self.gradients(parallelism, u64::from(own));
        let start = layers.len();
        for micro_batch in 0..self.micro_batches {
            (0..own).for_each(|layer| self.layer(parallelism, micro_batch * own + layer, &mut layers));
        }
        if let Some(layer) = layers.iter().find(|layer| layer.largest_call() > BYTES_MAX) {
            let why = format!("{} would exchange more than 100 TB at once", layer.name);
            return Err(Unfit { key: "hidden", why, cure: SMALLER });
        }
        let parameters = self.parameters(parallelism);
        if parameters.dense.max(parameters.experts) > BYTES_MAX / GRADIENT {
            let why = "gradients of a rank are more than 100 TB".to_owned();
            return Err(Unfit { key: "hidden", why, cure: SMALLER });
        }
        let whole = if self.sequence_parallel { u64::from(tensor) } else { 1 };
        Ok(Step {
            body: start..layers.len(),
            layers,
            micro_batches: self.micro_batches,
            stage_bytes: self.activations(parallelism) / whole,
            expert_blocks: if self.experts > 0 { self.micro_batches * own } else { 0 },
            reduction: self.reduction(),
            overlap: self.overlap,
            ..Step::default()
        })
    }

    /// Parameters of a rank, for so many layers of its stage.
    fn parameters_of_rank(&self, parallelism: &Parallelism, own: u64) -> Parameters {
        let tensor = u64::from(parallelism.tensor);
        let per_rank = u64::from(self.experts / parallelism.expert.max(1));
        let experts = own.saturating_mul(self.expert_parameters).saturating_mul(per_rank) / tensor;
        Parameters { dense: own.saturating_mul(self.parameters) / tensor, experts }
    }

    /// How gradients are reduced.
    fn reduction(&self) -> Reduction {
        if self.distributed_optimizer { Reduction::Scattered } else { Reduction::ForAll }
    }

    /// The parameters of a rank.
    pub fn parameters(&self, parallelism: &Parallelism) -> Parameters {
        self.parameters_of_rank(parallelism, u64::from(self.layers / parallelism.pipeline))
    }

    /// Gradients and parameters of a stage at the end of the step, which goes through these layers from the last to the first: gradients of 4
    /// bytes are reduced, the optimizer waits for them, and with a distributed one parameters of 2 bytes are gathered, those of experts last, one
    /// after the other as in Megatron-LM (`finish_grad_sync`). What goes in buckets is not among them.
    fn gradients(&self, parallelism: &Parallelism, own: u64) -> Vec<Layer> {
        let Parameters { dense, experts } = self.parameters_of_rank(parallelism, own);
        let reduce = |name: &str, group, kind, bytes| Layer {
            name: name.to_owned(),
            weight_gradient: pass(Span::ZERO, call(kind, group, bytes)),
            is_synchronous: true,
            ..Layer::default()
        };
        let optimizer = Layer {
            name: "grad_param_compute".to_owned(),
            input_gradient: pass(self.optimizer, None),
            needs_gradients: true,
            ..Layer::default()
        };
        let mut layers = Vec::new();
        if self.distributed_optimizer && self.overlap.is_none_or(|overlap| !overlap.gathers) {
            let [dense, experts] = [dense, experts].map(|parameters| parameters.saturating_mul(WEIGHT));
            layers.push(reduce("moe_grad_norm1", Group::DpEp, Kind::Allgather, experts));
            layers.push(reduce("grad_gather", Group::Dp, Kind::Allgather, dense));
        }
        layers.push(optimizer);
        if self.overlap.is_none() {
            let [dense, experts] = [dense, experts].map(|parameters| parameters.saturating_mul(GRADIENT));
            let kind = self.reduction().kind();
            layers.push(reduce("moe_grad_norm2", Group::DpEp, kind, experts));
            layers.push(reduce("grad_param_comm", Group::Dp, kind, dense));
        }
        layers
    }

    /// Attention, then a dense block or experts; each half of the compute time.
    fn layer(&self, parallelism: &Parallelism, number: u32, into: &mut Vec<Layer>) {
        // Q, K and V, the output, and two matrices four times as wide.
        self.block(parallelism, "attention", [0, 3, 4], into);
        if self.experts == 0 {
            self.block(parallelism, "mlp", [4, 8, 12], into);
        } else {
            self.expert_block(parallelism, number, into);
        }
    }

    /// Compute times of the core attention of a rank, forward and backward, if it is apart from other work.
    fn core_attention(&self, parallelism: &Parallelism) -> [Span; 2] {
        let context = u64::from(parallelism.context);
        let share = if context > 1 { self.attention_share } else { 0.0 };
        let part = |span: Span| Span(((span.0 / context) as f64 * share).round() as u64);
        [part(self.forward), part(self.backward)]
    }

    /// A part of the other compute times of a rank: forward, gradients of inputs, of weights.
    fn compute(&self, parallelism: &Parallelism, part: u64) -> [Span; 3] {
        let context = u64::from(parallelism.context);
        let [forward, backward] = self.core_attention(parallelism);
        let rest = |whole: Span, core: Span| Span((whole.0 / context).saturating_sub(core.0));
        let (forward, backward) = (rest(self.forward, forward), rest(self.backward, backward));
        let half = Span(backward.0 / 2);
        [forward, half, Span(backward.0 - half.0)].map(|span| Span(span.0 / part))
    }

    /// The core attention of ranks that share sequences, with what it needs from the others.
    fn attention(&self, parallelism: &Parallelism, into: &mut Vec<Layer>) {
        let tensor = u64::from(parallelism.tensor);
        let bytes = |values: u64| self.bytes_of_rank(parallelism, values).div_ceil(tensor);
        let whole = bytes(self.kv_hidden).saturating_mul(u64::from(parallelism.context));
        let exchange = |values: u64| call(Kind::Alltoall, Group::Cp, bytes(values));
        let [gather, scatter] =
            [Kind::Allgather, Kind::ReduceScatter].map(|kind| call(kind, Group::Cp, whole));
        let [forward, backward] = self.core_attention(parallelism);
        let mut push = |name: &str, there: Pass, back: Pass| {
            into.push(Layer {
                name: format!("attention_{name}"),
                forward: there,
                input_gradient: back,
                ..Layer::default()
            });
        };
        let only = |call: Option<Collective>| pass(Span::ZERO, call);
        let core = [pass(forward, None), pass(backward, None)];
        match self.context_comm {
            ContextComm::PointToPoint => {
                push("ring", core[0], core[1]);
                if let Some(layer) = into.last_mut() {
                    layer.ring = Some(bytes(self.kv_hidden).saturating_mul(2));
                }
            }
            ContextComm::AllGather => {
                for name in ["k_gather", "v_gather"] {
                    push(name, only(gather), only(scatter));
                }
                push("core", core[0], core[1]);
                for name in ["v_gather_again", "k_gather_again"] {
                    push(name, only(None), only(gather));
                }
            }
            ContextComm::AllToAll => {
                let inputs = [("q", self.hidden), ("k", self.kv_hidden), ("v", self.kv_hidden)];
                for (name, values) in inputs {
                    push(&format!("{name}_a2a"), only(exchange(values)), only(exchange(values)));
                }
                push("core", core[0], core[1]);
                push("out_a2a", only(exchange(self.hidden)), only(exchange(self.hidden)));
            }
        }
    }

    /// Two matrices: the first divided by columns, the second by rows; between those of attention its core, if ranks share
    /// sequences. `bounds` of their parameters are in squares of `hidden`.
    fn block(&self, parallelism: &Parallelism, name: &str, bounds: [u64; 3], into: &mut Vec<Layer>) {
        let bytes = self.activations(parallelism);
        let [gather, scatter] =
            [Kind::Allgather, Kind::ReduceScatter].map(|kind| call(kind, Group::Tp, bytes));
        let reduce = call(Kind::Allreduce, Group::Tp, bytes);
        let ways = if self.sequence_parallel {
            [[gather, scatter], [scatter, gather]]
        } else {
            [[None, reduce], [reduce, None]]
        };
        let [forward, input, weight] = self.compute(parallelism, 4);
        let squares = if self.experts == 0 { 12 } else { 4 };
        let below = |bound: u64| {
            let of_rank = self.parameters / u64::from(parallelism.tensor);
            (u128::from(of_rank) * u128::from(bound) / squares) as u64
        };
        for (number, (part, [there, back])) in ["column", "row"].into_iter().zip(ways).enumerate() {
            let dense = below(bounds[number + 1]) - below(bounds[number]);
            if name == "attention" && part == "row" && parallelism.context > 1 {
                self.attention(parallelism, into);
            }
            into.push(Layer {
                name: format!("{name}_{part}"),
                forward: pass(forward, there),
                input_gradient: pass(input, back),
                weight_gradient: pass(weight, None),
                parameters: Parameters { dense, experts: 0 },
                ..Layer::default()
            });
        }
    }

    /// Dispatch to experts, their work, and the way back.
    fn expert_block(&self, parallelism: &Parallelism, block: u32, into: &mut Vec<Layer>) {
        let tensor = u64::from(parallelism.tensor);
        let tokens = self.activations(parallelism).saturating_mul(u64::from(self.top_k));
        let exchange = call(Kind::Alltoall, Group::Ep, tokens / tensor);
        let [gather, scatter] =
            [Kind::Allgather, Kind::ReduceScatter].map(|kind| call(kind, Group::Tp, tokens));
        let [forward, input, weight] = self.compute(parallelism, 2);
        let none = Span::ZERO;
        let experts = self.parameters_of_rank(parallelism, 1).experts;
        let mut push =
            |name: &str, role: ExpertRole, there: Pass, back: Pass, (weights, experts): (Span, u64)| {
                into.push(Layer {
                    name: name.to_owned(),
                    forward: there,
                    input_gradient: back,
                    weight_gradient: pass(weights, None),
                    experts: Some(ExpertPart { block, role }),
                    parameters: Parameters { dense: 0, experts },
                    ..Layer::default()
                });
            };
        let no_weights = (none, 0);
        push("moe_dispatch", ExpertRole::Dispatch, pass(none, exchange), pass(none, exchange), no_weights);
        push("moe_gather", ExpertRole::Work, pass(none, gather), pass(none, scatter), no_weights);
        let weights = (weight, experts);
        push("moe_experts", ExpertRole::Work, pass(forward, scatter), pass(input, gather), weights);
        push("moe_combine", ExpertRole::Combine, pass(none, exchange), pass(none, exchange), no_weights);
    }
}

fn pass(compute: Span, call: Option<Collective>) -> Pass {
    Pass { compute, call }
}

fn call(kind: Kind, group: Group, bytes: u64) -> Option<Collective> {
    (bytes > 0).then_some(Collective { kind, group, bytes })
}
