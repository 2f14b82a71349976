//! Gradients and parameters in buckets, whose collectives run beside compute (`DistributedDataParallel` of Megatron-LM,
//! `megatron/core/distributed`).
//!
//! Parameters fill buckets in the order in which their gradients come, from the last layer to the first. A bucket is
//! reduced as soon as the last micro-batch has its gradients, and gathered before the next iteration computes with it.

use super::{Group, Layer};
use crate::algorithm::Kind;

/// Collectives of data parallelism beside compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// Parameters with which a bucket is full (`--ddp-bucket-size`).
    pub bucket: u64,
    /// Parameters are gathered during the forward pass too (`--overlap-param-gather`), not only gradients reduced during the
    /// backward pass (`--overlap-grad-reduce`).
    pub gathers: bool,
}

/// Who gets the sums of gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Each rank its part (`--use-distributed-optimizer`).
    #[default]
    Scattered,
    /// All ranks.
    ForAll,
}

impl Reduction {
    /// The collective.
    pub fn kind(self) -> Kind {
        match self {
            Reduction::Scattered => Kind::ReduceScatter,
            Reduction::ForAll => Kind::Allreduce,
        }
    }
}

/// Parameters whose gradients are reduced at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket {
    /// The ranks that have these parameters.
    pub(super) group: Group,
    /// The chunk of the stage.
    pub(super) chunk: u32,
    /// The first layer of the chunk that has some of them: the last one whose gradients come.
    pub(super) layer: usize,
    pub(super) parameters: u64,
}

/// The buckets of the layers of a chunk, in the order in which their gradients come; those of experts apart. Without `full` each
/// kind has one bucket.
pub(super) fn buckets(layers: &[Layer], chunk: u32, full: Option<u64>) -> Vec<Bucket> {
    let empty = |group| Bucket { group, chunk, layer: 0, parameters: 0 };
    let mut buckets = fill(layers, full, empty(Group::Dp), |layer| layer.parameters.dense);
    buckets.extend(fill(layers, full, empty(Group::DpEp), |layer| layer.parameters.experts));
    buckets
}

fn fill(
    layers: &[Layer],
    full: Option<u64>,
    empty: Bucket,
    parameters: impl Fn(&Layer) -> u64,
) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut is_open = false;
    for (at, layer) in layers.iter().enumerate().rev().filter(|(_, layer)| parameters(layer) > 0) {
        if !is_open {
            buckets.push(empty);
        }
        if let Some(bucket) = buckets.last_mut() {
            bucket.layer = at;
            bucket.parameters += parameters(layer);
            is_open = full.is_none_or(|full| bucket.parameters < full);
        }
    }
    buckets
}
