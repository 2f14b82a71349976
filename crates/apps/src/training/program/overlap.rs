//! When a rank reduces and gathers its buckets.

use super::Writer;
use crate::algorithm::Kind;
use crate::application::Call;
use crate::training::buckets::Bucket;
use crate::training::checkpoint::WEIGHT;
use crate::training::layers::GRADIENT;
use crate::training::schedule::Turn;
use crate::training::{Collective, Phase};
use std::collections::BTreeSet;

impl Writer<'_> {
    /// Takes the turns of a stage whose chunks interleave. The collectives of a chunk begin on all stages at once, since they
    /// slow down compute (`--align-grad-reduce` and `--align-param-gather` of Megatron, both on by default): gathers of
    /// the first two chunks at once, of each later one when the last stage begins with the chunk before; reductions when the
    /// first stage has the last gradients.
    pub(super) fn take_aligned_turns(&mut self, turns: &[Turn]) {
        let (stage, last) = (self.stage as usize, self.plan.step.micro_batches - 1);
        let (forward, backward): (Vec<&Turn>, Vec<&Turn>) = turns.iter().partition(|turn| turn.is_forward);
        let mut unreduced: BTreeSet<u32> = (0..self.plan.schedule.chunks()).collect();
        let [mut forwards, mut backwards] = [0, 0];
        self.gather_chunk(0);
        self.gather_chunk(1);
        for turn in turns {
            let mut reduced = None;
            if turn.is_forward {
                // A stage is as many turns behind the first one as its number.
                let aligned = forward.get(forwards + stage).filter(|turn| turn.micro_batch == 0);
                if let Some(turn) = aligned {
                    self.gather_chunk(turn.chunk + 1);
                }
                forwards += 1;
            } else {
                let aligned = backwards.checked_sub(stage).map(|index: usize| backward[index]);
                reduced = aligned.filter(|turn| turn.micro_batch == last).map(|turn| turn.chunk);
                unreduced.retain(|chunk| reduced != Some(*chunk));
                backwards += 1;
            }
            self.turn(*turn, reduced);
        }
        for chunk in unreduced {
            self.reduce_chunk(chunk);
        }
    }

    /// Reduces all buckets of a chunk.
    pub(super) fn reduce_chunk(&mut self, chunk: u32) {
        for bucket in self.buckets_where(|bucket| bucket.chunk == chunk) {
            self.call_of_bucket(bucket, Phase::WeightGradient);
        }
    }

    /// Begins to gather all stale buckets of a chunk.
    fn gather_chunk(&mut self, chunk: u32) {
        for bucket in self.buckets_where(|bucket| bucket.chunk == chunk) {
            if self.stale.contains(&bucket) {
                self.gather(bucket);
            }
        }
    }

    /// Reduces the buckets whose last gradients are those of a layer.
    pub(super) fn reduce_buckets(&mut self, layer: usize) {
        for bucket in self.buckets_where(|bucket| bucket.layer == layer) {
            self.call_of_bucket(bucket, Phase::WeightGradient);
        }
    }

    /// Waits for the parameters of a layer of a chunk, and, unless stages align, begins to gather the bucket that follows
    /// (`finish_param_sync` of Megatron).
    pub(super) fn gather_buckets(&mut self, chunk: u32, layer: usize) {
        for bucket in self.buckets_where(|bucket| bucket.layer == layer && bucket.chunk == chunk) {
            if !self.stale.contains(&bucket) {
                continue;
            }
            self.gather(bucket);
            self.wait(self.request(bucket));
            self.stale.remove(&bucket);
            if self.plan.schedule.chunks() > 1 {
                continue;
            }
            // Layers come in the other order than gradients.
            let next = bucket.checked_sub(1);
            if let Some(next) = next.filter(|next| self.buckets[*next].group == self.buckets[bucket].group) {
                self.gather(next);
            }
        }
    }

    /// Numbers of some buckets.
    fn buckets_where(&self, holds: impl Fn(&Bucket) -> bool) -> Vec<usize> {
        (0..self.buckets.len()).filter(|number| holds(&self.buckets[*number])).collect()
    }

    /// Begins to gather what no forward pass of this job will need any more, or a checkpoint needs.
    pub(super) fn gather_all(&mut self) {
        while let Some(bucket) = self.stale.pop_last() {
            self.gather(bucket);
        }
    }

    /// Begins to gather a bucket, if nobody has.
    fn gather(&mut self, bucket: usize) {
        if !self.pending.contains_key(&self.request(bucket)) {
            self.call_of_bucket(bucket, Phase::Forward);
        }
    }

    /// What waits name for the collective of a bucket: a number behind those of layers.
    fn request(&self, bucket: usize) -> usize {
        self.plan.step.layers.len() + bucket
    }

    fn call_of_bucket(&mut self, bucket: usize, phase: Phase) {
        let Bucket { group, parameters, .. } = self.buckets[bucket];
        let is_reduced = phase == Phase::WeightGradient;
        let (kind, size) =
            if is_reduced { (self.plan.step.reduction.kind(), GRADIENT) } else { (Kind::Allgather, WEIGHT) };
        let collective = Collective { kind, group, bytes: parameters * size };
        if self.groups.size(self.groups.comm(group, self.rank)) < 2 {
            return;
        }
        let request = self.request(bucket);
        let what = if is_reduced { "grad" } else { "param" };
        let name = format!("{what}_bucket{bucket}");
        // Stages have other buckets.
        let place = request + self.stage as usize * 2 * self.plan.step.layers.len();
        let label = self.labels.of(self.iteration, place, phase, &name, collective.bytes);
        let call = Call { label: Some(label), ..self.plain(collective) };
        self.collective(call, group, Some(request), 0);
    }
}
