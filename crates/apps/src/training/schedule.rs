//! The order in which a stage works on micro-batches.

/// Which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// All forward passes, then all backward passes, as SimAI's files are written.
    ForwardFirst,
    /// One forward, one backward (`PipeDream` flush).
    OneForwardOneBackward,
    /// The same with several chunks of layers on each stage (Narayanan et al., SC'21).
    Interleaved {
        /// Chunks of a stage.
        chunks: u32,
    },
}

/// A micro-batch passes a chunk of layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) is_forward: bool,
    pub(super) micro_batch: u32,
    pub(super) chunk: u32,
}

impl Schedule {
    pub(super) fn chunks(self) -> u32 {
        if let Schedule::Interleaved { chunks } = self { chunks } else { 1 }
    }

    /// The micro-batch whose gradients are the last of an iteration, on each chunk.
    pub(super) fn last_backward(self, micro_batches: u32) -> u32 {
        if self == Schedule::ForwardFirst { 0 } else { micro_batches - 1 }
    }

    /// The turns of a stage, in order.
    pub(super) fn turns(self, stage: u32, stages: u32, micro_batches: u32) -> Vec<Turn> {
        let chunks = self.chunks();
        let all = micro_batches * chunks;
        let warm_up = match self {
            Schedule::ForwardFirst => all,
            Schedule::OneForwardOneBackward => stages - stage - 1,
            // Megatron's `num_warmup_microbatches`: with as many micro-batches as stages all forward passes come first.
            Schedule::Interleaved { .. } if micro_batches == stages => all,
            Schedule::Interleaved { .. } => (stages - stage - 1) * 2 + (chunks - 1) * stages,
        };
        let warm_up = warm_up.min(all);
        let turn = |is_forward: bool, index: u32| {
            if chunks == 1 {
                let micro_batch =
                    if self == Schedule::ForwardFirst && !is_forward { all - 1 - index } else { index };
                return Turn { is_forward, micro_batch, chunk: 0 };
            }
            // Groups of as many micro-batches as stages pass one chunk after the other.
            let of_group = stages * chunks;
            let chunk = index % of_group / stages;
            let chunk = if is_forward { chunk } else { chunks - 1 - chunk };
            Turn { is_forward, micro_batch: index / of_group * stages + index % stages, chunk }
        };
        let mut turns: Vec<Turn> = (0..warm_up).map(|index| turn(true, index)).collect();
        for index in 0..all {
            if warm_up + index < all {
                turns.push(turn(true, warm_up + index));
            }
            turns.push(turn(false, index));
        }
        turns
    }
}
