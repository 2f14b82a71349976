//! Flow sizes: drawing one, and the exact mean that an offered load is computed from.

use crate::spec::SizesSpec;
use pauseframe_engine::Rng;

impl SizesSpec {
    /// A size in bytes, at least 1. Continuous distributions are rounded to the nearest byte.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let size = match self {
            SizesSpec::Fixed { size } => size.0,
            SizesSpec::Uniform { min, max } => min.0 + rng.below((max.0 - min.0).saturating_add(1)),
            SizesSpec::LogUniform { min, max } => {
                let (low, high) = (libm::log(min.0 as f64), libm::log(max.0 as f64));
                (libm::exp(low + rng.unit() * (high - low)).round() as u64).clamp(min.0, max.0)
            }
            SizesSpec::Cdf { points, .. } => inverse(points, rng.unit()).round() as u64,
        };
        size.max(1)
    }

    /// The mean in bytes, in closed form.
    pub(super) fn mean(&self) -> f64 {
        match self {
            SizesSpec::Fixed { size } => size.0 as f64,
            SizesSpec::Uniform { min, max } => f64::midpoint(min.0 as f64, max.0 as f64),
            SizesSpec::LogUniform { min, max } if min == max => min.0 as f64,
            SizesSpec::LogUniform { min, max } => {
                let (min, max) = (min.0 as f64, max.0 as f64);
                (max - min) / libm::log(max / min)
            }
            SizesSpec::Cdf { points, .. } => cdf_mean(points),
        }
    }
}

/// The size at probability `u`, linear between the points. A first point with a probability above 0 is an
/// atom; so are two points of one size.
fn inverse(points: &[(f64, f64)], u: f64) -> f64 {
    let above = points.partition_point(|(_, p)| *p <= u).min(points.len() - 1);
    let (x1, p1) = points[above];
    if above == 0 {
        return x1;
    }
    let (x0, p0) = points[above - 1];
    x0 + (x1 - x0) * ((u - p0) / (p1 - p0))
}

/// The mean of the distribution that `inverse` draws from: each piece weighs its middle.
fn cdf_mean(points: &[(f64, f64)]) -> f64 {
    let atom = points[0].0 * points[0].1;
    let piece = |w: &[(f64, f64)]| (w[1].1 - w[0].1) * f64::midpoint(w[0].0, w[1].0);
    atom + points.windows(2).map(piece).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, rng};
    use super::super::{builtin, builtin_names};
    use super::*;
    use pauseframe_units::Bytes;
    use proptest::prelude::*;

    const DRAWS: usize = 200_000;

    fn draws(sizes: &SizesSpec) -> Vec<f64> {
        let mut rng = rng("sizes");
        (0..DRAWS).map(|_| sizes.draw(&mut rng) as f64).collect()
    }

    fn empirical(points: &[(f64, f64)]) -> SizesSpec {
        SizesSpec::Cdf { source: "test".into(), points: points.to_vec() }
    }

    /// The sample mean lies within four standard errors of the mean, given the second moment.
    fn assert_mean(sizes: &SizesSpec, second_moment: f64) {
        let mean = draws(sizes).iter().sum::<f64>() / DRAWS as f64;
        let error = ((second_moment - sizes.mean().powi(2)).max(0.0) / DRAWS as f64).sqrt();
        assert_within(mean, sizes.mean(), 4.0 * error + 1e-9);
    }

    /// The share of draws up to `x` is `p`, within four standard errors.
    fn assert_quantile(sizes: &SizesSpec, x: f64, p: f64) {
        let share = draws(sizes).iter().filter(|size| **size <= x).count() as f64 / DRAWS as f64;
        assert_within(share, p, 4.0 * (p * (1.0 - p) / DRAWS as f64).sqrt() + 1e-9);
    }

    #[test]
    fn uniform_sizes_include_both_ends_and_have_the_mean_between() {
        let sizes = SizesSpec::Uniform { min: Bytes(3), max: Bytes(6) };
        for (x, p) in [(2.0, 0.0), (3.0, 0.25), (4.0, 0.5), (5.0, 0.75), (6.0, 1.0)] {
            assert_quantile(&sizes, x, p);
        }
        assert_mean(&sizes, (9.0 + 16.0 + 25.0 + 36.0) / 4.0);
    }

    #[test]
    fn the_logarithm_is_uniform() {
        // 64 KB to 32 MB: bolt §IV-A3.
        let sizes = SizesSpec::LogUniform { min: Bytes::kb(64), max: Bytes::kb(32_000) };
        let (min, max) = (64e3f64, 32e6f64);
        for p in [0.1, 0.5, 0.9] {
            assert_quantile(&sizes, min * (max / min).powf(p), p);
        }
        assert_mean(&sizes, (max * max - min * min) / (2.0 * (max / min).ln()));
    }

    #[test]
    fn the_built_in_distributions_have_their_means_and_points() {
        for name in builtin_names() {
            let points = builtin(name).unwrap();
            let sizes = empirical(points);
            let second = |w: &[(f64, f64)]| {
                let ((a, p), (b, q)) = (w[0], w[1]);
                (q - p) * (a * a + a * b + b * b) / 3.0
            };
            assert_mean(&sizes, points.windows(2).map(second).sum());
            for (x, p) in points.iter().filter(|(x, _)| *x > 1000.0) {
                // Rounding to a byte moves at most half a byte's probability.
                assert_quantile(&sizes, *x, *p);
            }
        }
    }

    #[test]
    fn atoms_keep_their_weight() {
        let sizes = empirical(&[(10.0, 0.25), (20.0, 0.25), (20.0, 0.75), (30.0, 1.0)]);
        assert_quantile(&sizes, 10.0, 0.25);
        assert_quantile(&sizes, 19.0, 0.25);
        assert_quantile(&sizes, 20.4, 0.75 + 0.25 * 0.05);
        assert_within(sizes.mean(), 0.25 * 10.0 + 0.5 * 20.0 + 0.25 * 25.0, 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sizes_are_within_the_range_and_at_least_one(min in 0u64..5000, more in 0u64..1 << 40, seed: u64) {
            let (min, max) = (Bytes(min), Bytes(min + more));
            let points = vec![(min.0 as f64, 0.0), (max.0 as f64, 1.0)];
            let mut rng = pauseframe_engine::stream(seed, "range", 0);
            for sizes in [
                SizesSpec::Uniform { min, max },
                SizesSpec::LogUniform { min: min.max(Bytes(1)), max: max.max(Bytes(1)) },
                empirical(&points),
            ] {
                for _ in 0..20 {
                    let size = sizes.draw(&mut rng);
                    prop_assert!(size >= min.0.max(1) && size <= max.0.max(1), "{sizes:?}: {size}");
                }
            }
        }
    }
}
