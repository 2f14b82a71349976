//! Checkpoints to storage: ranks write their shards in parts, and storage targets answer each part.
//!
//! Targets are the last ranks of the application. Who writes what follows Megatron-LM: with its distributed optimizer each rank
//! has a shard of the optimizer's state, over all ranks with the same parameters; otherwise all of these have all of it, as of the values of parameters.

use super::Parallelism;
use crate::application::{Dependences, Op, Program};
use std::sync::Arc;

/// Bytes of a parameter: its value in bf16.
pub(super) const WEIGHT: u64 = 2;
/// In fp32 the value and Adam's two moments: the 12 of Megatron's 6 + 12/d bytes, of whose 6 four are gradients.
const STATE: u64 = 12;
/// Answer of a target to a part: a response capsule of NVMe/TCP and its header.
const ANSWER: u64 = 24;

/// When and what ranks write to storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoints {
    /// A checkpoint follows each so many iterations.
    pub every: u32,
    /// Number of storage targets.
    pub targets: u32,
    /// Bytes of the largest message.
    pub part: u64,
    /// The next iteration begins when all parts have arrived.
    pub is_blocking: bool,
    /// By rank: bytes that it writes.
    pub bytes: Arc<[u64]>,
}

/// Parameters of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parameters {
    /// Those that all ranks of a data-parallel group have.
    pub dense: u64,
    /// Those of experts.
    pub experts: u64,
}

impl Checkpoints {
    /// Number of checkpoints.
    fn count(&self, iterations: u32) -> u32 {
        iterations / self.every
    }

    /// The number of the checkpoint that follows an iteration, if one does.
    pub(super) fn after(&self, iteration: u32) -> Option<u32> {
        let ended = iteration + 1;
        ended.is_multiple_of(self.every).then(|| self.count(ended) - 1)
    }

    /// The parts of a rank: target and bytes of each. Ranks begin with different targets.
    pub(super) fn parts(&self, rank: u32) -> impl Iterator<Item = (u32, u64)> + use<> {
        let (bytes, part, targets) = (self.bytes[rank as usize], self.part, u64::from(self.targets));
        (0..bytes.div_ceil(part)).map(move |at| {
            let target = (u64::from(rank) + at) % targets;
            (target as u32, part.min(bytes - at * part))
        })
    }

    /// Upper bound of the steps of all ranks and targets: send, receive and answer of each part, and what a barrier takes.
    pub(super) fn steps(&self, iterations: u32) -> u64 {
        let parts: u64 = self.bytes.iter().map(|bytes| bytes.div_ceil(self.part)).sum();
        let of_one = parts.saturating_mul(4).saturating_add(self.bytes.len() as u64);
        of_one.saturating_mul(u64::from(self.count(iterations)))
    }

    /// The program of a target, which answers a part when it has arrived.
    pub(super) fn program(&self, target: u32, iterations: u32) -> Program {
        let (mut program, mut order) = (Program::default(), Dependences::default());
        for tag in 0..self.count(iterations) as i32 {
            for rank in 0..self.bytes.len() as u32 {
                let parts = self.parts(rank).filter(|part| part.0 == target).count();
                for _ in 0..parts {
                    let at = program.ops.len() as u32;
                    let (from, limit, request) = (Some(rank), u64::MAX, None);
                    program.push(Op::Receive { from, tag: Some(tag), comm: 0, request, limit }, 0);
                    program.push(Op::Send { to: rank, tag, comm: 0, request, bytes: ANSWER }, 0);
                    order.after_end.push((at, at + 1));
                }
            }
        }
        order.units = vec![0; program.ops.len()];
        program.order = Some(order);
        program
    }
}

/// The part number `at` of `parts` of a number; all parts together are the whole.
pub(super) fn cut(whole: u64, parts: u32, at: u32) -> u64 {
    let edge = |part: u32| (u128::from(whole) * u128::from(part) / u128::from(parts)) as u64;
    edge(at + 1) - edge(at)
}

/// Bytes that each rank writes. Without `parallel_weights` the first rank with some parameters writes what all of these have: their
/// values, and the optimizer's state unless that is distributed. A given size of the whole checkpoint is divided in proportion.
pub fn shards(
    parallelism: &Parallelism,
    parameters: Parameters,
    [distributed_optimizer, parallel_weights]: [bool; 2],
    whole: Option<u64>,
) -> Arc<[u64]> {
    let (replicas, expert) = (parallelism.replicas(), parallelism.expert);
    let of_all = WEIGHT + if distributed_optimizer { 0 } else { STATE };
    let shared = if parallel_weights { WEIGHT + STATE } else { WEIGHT + STATE - of_all };
    let of_rank = |rank: u32| {
        let place = rank / parallelism.tensor % replicas;
        let dense = cut(parameters.dense.saturating_mul(shared), replicas, place);
        let experts = cut(parameters.experts.saturating_mul(shared), replicas / expert, place / expert);
        let values = |count: u64, is_first: bool| {
            if is_first && !parallel_weights { count.saturating_mul(of_all) } else { 0 }
        };
        let values = values(parameters.dense, place == 0) + values(parameters.experts, place < expert);
        dense.saturating_add(experts).saturating_add(values)
    };
    let mut bytes: Vec<u64> = (0..parallelism.ranks).map(of_rank).collect();
    if let Some(whole) = whole {
        scale(&mut bytes, whole);
    }
    bytes.into()
}

/// Makes `bytes` add up to `whole`, in proportion; equal ones if all are 0.
fn scale(bytes: &mut [u64], whole: u64) {
    if bytes.iter().all(|bytes| *bytes == 0) {
        bytes.fill(1);
    }
    let sum: u128 = bytes.iter().copied().map(u128::from).sum();
    let (mut before, mut given) = (0_u128, 0_u64);
    for bytes in bytes {
        before += u128::from(*bytes);
        let edge = (u128::from(whole) * before / sum) as u64;
        *bytes = edge - given;
        given = edge;
    }
}
