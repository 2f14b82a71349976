//! When a rank reduces and gathers its buckets.

use super::Writer;
use crate::algorithm::Kind;
use crate::application::Call;
use crate::training::buckets::Bucket;
use crate::training::checkpoint::WEIGHT;
use crate::training::layers::GRADIENT;
use crate::training::{Collective, Phase};

impl Writer<'_> {
    /// Reduces the buckets whose last gradients are those of a layer.
    pub(super) fn reduce_buckets(&mut self, layer: usize) {
        for bucket in self.buckets_from(layer) {
            self.call_of_bucket(bucket, Phase::WeightGradient);
        }
    }

    /// Waits for the parameters of a layer, and begins to gather the bucket that follows (`finish_param_sync` of Megatron).
    pub(super) fn gather_buckets(&mut self, layer: usize) {
        for bucket in self.buckets_from(layer) {
            if !self.stale.contains(&bucket) {
                continue;
            }
            self.gather(bucket);
            self.wait(self.request(bucket));
            self.stale.remove(&bucket);
            // Layers come in the other order than gradients.
            let next = bucket.checked_sub(1);
            if let Some(next) = next.filter(|next| self.buckets[*next].group == self.buckets[bucket].group) {
                self.gather(next);
            }
        }
    }

    /// Numbers of the buckets whose first layer this is.
    fn buckets_from(&self, layer: usize) -> Vec<usize> {
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, bucket)| bucket.layer == layer).map(|(number, _)| number).collect()
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
            if is_reduced { (Kind::ReduceScatter, GRADIENT) } else { (Kind::Allgather, WEIGHT) };
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
