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
    pub(super) fn reduce_buckets(&mut self, chunk: usize, layer: usize) {
        for number in self.buckets_from(chunk, layer) {
            self.call_of_bucket((chunk, number), Phase::WeightGradient);
        }
    }

    /// Waits for the parameters of a layer, and begins to gather the bucket that follows (`finish_param_sync` of Megatron).
    pub(super) fn gather_buckets(&mut self, chunk: usize, layer: usize) {
        for number in self.buckets_from(chunk, layer) {
            let bucket = (chunk, number);
            if !self.stale.contains(&bucket) {
                continue;
            }
            self.gather(bucket);
            self.wait(self.request(bucket));
            self.stale.remove(&bucket);
            // Layers come in the other order than gradients.
            let next = number.checked_sub(1).map(|next| (chunk, next));
            let group = |(chunk, number): (usize, usize)| self.buckets[chunk][number].group;
            if let Some(next) = next.filter(|next| group(*next) == group(bucket)) {
                self.gather(next);
            }
        }
    }

    /// Numbers of the buckets whose first layer this is.
    fn buckets_from(&self, chunk: usize, layer: usize) -> Vec<usize> {
        let of_chunk = self.buckets.get(chunk).into_iter().flatten().enumerate();
        of_chunk.filter(|(_, bucket)| bucket.layer == layer).map(|(number, _)| number).collect()
    }

    pub(super) fn gather_all(&mut self) {
        while let Some(bucket) = self.stale.pop_last() {
            self.gather(bucket);
        }
    }

    /// Begins to gather a bucket, if nobody has.
    fn gather(&mut self, bucket: (usize, usize)) {
        if !self.pending.contains_key(&self.request(bucket)) {
            self.call_of_bucket(bucket, Phase::Forward);
        }
    }

    /// What waits name for the collective of a bucket: a number behind those of layers.
    fn request(&self, (chunk, number): (usize, usize)) -> usize {
        let before: usize = self.buckets[..chunk].iter().map(Vec::len).sum();
        self.plan.step.layers.len() + before + number
    }

    fn call_of_bucket(&mut self, bucket: (usize, usize), phase: Phase) {
        let Bucket { group, parameters, .. } = self.buckets[bucket.0][bucket.1];
        let is_reduced = phase == Phase::WeightGradient;
        let (kind, size) =
            if is_reduced { (Kind::ReduceScatter, GRADIENT) } else { (Kind::Allgather, WEIGHT) };
        let collective = Collective { kind, group, bytes: parameters * size };
        if self.groups.size(self.groups.comm(group, self.rank)) < 2 {
            return;
        }
        let request = self.request(bucket);
        let what = if is_reduced { "grad" } else { "param" };
        let name = format!("{what}_bucket{}", request - self.plan.step.layers.len());
        // Stages have other buckets.
        let place = request + self.stage as usize * 2 * self.plan.step.layers.len();
        let label = self.labels.of(self.iteration, place, phase, &name, collective.bytes);
        let call = Call { label: Some(label), ..self.plain(collective) };
        self.collective(call, group, Some(request), 0);
    }
}
