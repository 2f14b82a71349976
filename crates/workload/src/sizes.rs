//! Flow sizes: random draws, and the exact mean for the offered load.

use super::cdf::{builtin, builtin_names, read_cdf};
use super::context::{Context, SIZE_MAX, SIZES};
use pauseframe_engine::Rng;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::{Setting, did_you_mean};
use pauseframe_schema::{kinds, table};
use pauseframe_units::Bytes;
use std::path::Path;

kinds! {
    /// Distribution of flow sizes
    pub enum SizesSpec {
        "fixed" => Fixed(Fixed);
        "uniform" => Uniform(Uniform);
        "log_uniform" => LogUniform(LogUniform);
        "list" => List(List);
        "cdf" => Cdf(Cdf);
    }
    pub fn read(t, context: &Context);
}

table! {
    /// Flows of one size
    pub struct Fixed {
        /// Size of every flow
        size: Bytes = required_in(SIZES);
    }
    pub fn try_read(t, _context: &Context);
}

table! {
    /// Sizes with a uniform distribution from min to max, inclusive
    pub struct Uniform {
        /// Smallest flow
        min: Bytes = required_in(SIZES);
        /// Largest flow
        max: Bytes = required_in(SIZES) => { in_order(t, min, max); };
    }
    pub fn try_read(t, _context: &Context);
}

table! {
    /// Sizes whose logarithm has a uniform distribution from min to max
    pub struct LogUniform {
        /// Smallest flow
        min: Bytes = required_in(SIZES);
        /// Largest flow
        max: Bytes = required_in(SIZES) => { in_order(t, min, max); };
    }
    pub fn try_read(t, _context: &Context);
}

table! {
    /// Sizes from a list, each entry with the same probability
    pub struct List {
        /// The sizes; an entry that is there twice has twice the probability
        sizes: Vec<Bytes> = try_by(list);
    }
    pub fn try_read(t, _context: &Context);
}

fn list(t: &mut Table, key: &'static str, doc: &str) -> Option<Vec<Bytes>> {
    let sizes: Vec<Bytes> = t.required(key, doc)?;
    t.check(!sizes.is_empty(), key, || "[] has no size".to_owned(), "as in [\"4 KiB\", \"64 KiB\"]");
    let wrong = sizes.iter().find(|size| !SIZES.contains(size));
    let message = || format!("{} is not between 1 B and {SIZE_MAX}", wrong.unwrap_or(&Bytes::ZERO));
    t.check(wrong.is_none(), key, message, "");
    Some(sizes)
}

fn in_order(t: &mut Table, min: Option<Bytes>, max: Option<Bytes>) {
    if let (Some(min), Some(max)) = (min, max) {
        t.check(min <= max, "min", || format!("{min} is above max ({max})"), "swap them");
    }
}

type Points = Vec<(f64, f64)>;

/// An empirical distribution, linear between its points: a built-in distribution by name, or a CDF file.
#[derive(Clone, PartialEq, Debug)]
pub struct Cdf {
    /// The built-in name, or the path as written by the user.
    pub source: String,
    /// Pairs (bytes, cumulative probability), ascending, ending at 1.
    pub points: Points,
}

impl Cdf {
    fn read(t: &mut Table, context: &Context) -> Option<Cdf> {
        const POINTS: &str =
            "[[bytes, probability up to it], ...], ascending, to 1; instead of reading the source";
        t.about("Cdf", "An empirical distribution: built in, or a CDF file beside the scenario");
        let builtin = builtin_names().collect::<Vec<_>>().join(", ");
        let doc = format!("{builtin}, or a CDF file, relative to the scenario");
        if t.has("points") {
            let source: String = t.or("source", "points".to_owned(), &doc);
            let points = t.required::<Points>("points", POINTS)?;
            let wrong = wrong_cdf(&points);
            let message = || wrong.clone().unwrap_or_default();
            t.check(wrong.is_none(), "points", message, "as in [[1460, 0.0], [30000, 1.0]]");
            return Some(Cdf { source, points });
        }
        t.source::<Points>("points", "those of the source", POINTS);
        // With explicit points it needs no source.
        let source: String = t.needed_unless("source", "required, unless there are points", &doc)?;
        let points = points_of(t, &source, context.base_dir)?;
        // Sizes are limited like those of listed flows.
        let largest = points.last().map_or(0.0, |(bytes, _)| *bytes);
        let message = || format!("its largest size is above {SIZE_MAX}");
        t.check(largest <= SIZE_MAX.0 as f64, "source", message, "");
        let origin = Origin::Computed(format!("read from {source}"));
        t.ledger.entry(t.at("points"), points.toml(), origin);
        Some(Cdf { source, points })
    }
}

impl SizesSpec {
    /// Draws a size in bytes, at least 1. Continuous distributions are rounded to the nearest byte.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        let size = match self {
            SizesSpec::Fixed(Fixed { size }) => size.0,
            SizesSpec::Uniform(Uniform { min, max }) => {
                min.0 + rng.uniform_below((max.0 - min.0).saturating_add(1))
            }
            SizesSpec::LogUniform(LogUniform { min, max }) => {
                let (low, high) = (libm::log(min.0 as f64), libm::log(max.0 as f64));
                (libm::exp(low + rng.uniform_unit() * (high - low)).round() as u64).clamp(min.0, max.0)
            }
            SizesSpec::List(List { sizes }) => sizes[rng.uniform_below(sizes.len() as u64) as usize].0,
            SizesSpec::Cdf(Cdf { points, .. }) => inverse(points, rng.uniform_unit()).round() as u64,
        };
        size.max(1)
    }

    /// The mean in bytes, in closed form.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            SizesSpec::Fixed(Fixed { size }) => size.0 as f64,
            SizesSpec::Uniform(Uniform { min, max }) => f64::midpoint(min.0 as f64, max.0 as f64),
            SizesSpec::LogUniform(LogUniform { min, max }) if min == max => min.0 as f64,
            SizesSpec::LogUniform(LogUniform { min, max }) => {
                let (min, max) = (min.0 as f64, max.0 as f64);
                (max - min) / libm::log(max / min)
            }
            SizesSpec::List(List { sizes }) => {
                sizes.iter().map(|size| size.0 as f64).sum::<f64>() / sizes.len() as f64
            }
            SizesSpec::Cdf(Cdf { points, .. }) => cdf_mean(points),
        }
    }

    /// The largest size in bytes.
    pub(crate) fn largest(&self) -> u64 {
        match self {
            SizesSpec::Fixed(Fixed { size }) => size.0,
            SizesSpec::Uniform(Uniform { max, .. }) | SizesSpec::LogUniform(LogUniform { max, .. }) => max.0,
            SizesSpec::List(List { sizes }) => sizes.iter().map(|size| size.0).max().unwrap_or(0),
            SizesSpec::Cdf(Cdf { points, .. }) => points.last().map_or(0, |(bytes, _)| bytes.round() as u64),
        }
    }
}

/// The size at cumulative probability `u`, interpolated linearly between the points. A first point with a
/// probability above 0 is an atom, as are two points with the same size.
fn inverse(points: &[(f64, f64)], u: f64) -> f64 {
    let above = points.partition_point(|(_, p)| *p <= u).min(points.len() - 1);
    let (x1, p1) = points[above];
    if above == 0 {
        return x1;
    }
    let (x0, p0) = points[above - 1];
    x0 + (x1 - x0) * ((u - p0) / (p1 - p0))
}

/// The mean of the distribution that `inverse` draws from: the sum of the pieces' middles, weighted by probability.
fn cdf_mean(points: &[(f64, f64)]) -> f64 {
    let atom = points[0].0 * points[0].1;
    let piece = |w: &[(f64, f64)]| (w[1].1 - w[0].1) * f64::midpoint(w[0].0, w[1].0);
    atom + points.windows(2).map(piece).sum::<f64>()
}

fn points_of(t: &mut Table, source: &str, base_dir: &Path) -> Option<Points> {
    if let Some(points) = builtin(source) {
        return Some(points.to_vec());
    }
    let path = base_dir.join(source);
    if path.exists() {
        return read_cdf(&path).map_err(|message| t.check(false, "source", || message, "")).ok();
    }
    let names = builtin_names().collect::<Vec<_>>().join(", ");
    let message = || format!("{source:?} is neither a file nor one of {names}");
    t.check(false, "source", message, &did_you_mean(source, builtin_names()));
    None
}

/// The reason why points are not a distribution.
fn wrong_cdf(points: &[(f64, f64)]) -> Option<String> {
    let Some((largest, end)) = points.last() else { return Some("[] has no point".to_owned()) };
    let outside = points.iter().find(|(bytes, p)| *bytes < 0.0 || !(0.0..=1.0).contains(p));
    let falls = points.windows(2).find(|pair| pair[1].0 < pair[0].0 || pair[1].1 < pair[0].1);
    match (outside, falls) {
        (Some((bytes, p)), _) => Some(format!("[{bytes}, {p}] is not a size and a probability from 0 to 1")),
        (_, Some(pair)) => Some(format!("[{}, {}] falls below the point before it", pair[1].0, pair[1].1)),
        _ if *end < 1.0 => Some(format!("the last probability is {end}; it must be 1")),
        _ if *largest < 1.0 || *largest > SIZE_MAX.0 as f64 => {
            Some(format!("the largest size is {largest}; it must be 1 to {}", SIZE_MAX.0))
        }
        _ => None,
    }
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
        SizesSpec::Cdf(Cdf { source: "test".into(), points: points.to_vec() })
    }

    /// Asserts that the sample mean lies within four standard errors of the mean, given the second moment.
    fn assert_mean(sizes: &SizesSpec, second_moment: f64) {
        let mean = draws(sizes).iter().sum::<f64>() / DRAWS as f64;
        let error = ((second_moment - sizes.mean().powi(2)).max(0.0) / DRAWS as f64).sqrt();
        assert_within(mean, sizes.mean(), 4.0 * error + 1e-9);
    }

    /// Asserts that the share of draws up to `x` is `p`, within four standard errors.
    fn assert_quantile(sizes: &SizesSpec, x: f64, p: f64) {
        let share = draws(sizes).iter().filter(|size| **size <= x).count() as f64 / DRAWS as f64;
        assert_within(share, p, 4.0 * (p * (1.0 - p) / DRAWS as f64).sqrt() + 1e-9);
    }

    #[test]
    fn uniform_sizes_include_both_ends_and_have_the_mean_between() {
        let sizes = SizesSpec::Uniform(Uniform { min: Bytes(3), max: Bytes(6) });
        for (x, p) in [(2.0, 0.0), (3.0, 0.25), (4.0, 0.5), (5.0, 0.75), (6.0, 1.0)] {
            assert_quantile(&sizes, x, p);
        }
        assert_mean(&sizes, (9.0 + 16.0 + 25.0 + 36.0) / 4.0);
    }

    #[test]
    fn the_logarithm_is_uniform() {
        // 64 KB to 32 MB, as in bolt §IV-A3.
        let sizes = SizesSpec::LogUniform(LogUniform { min: Bytes::kb(64), max: Bytes::kb(32_000) });
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
                // Rounding to bytes shifts at most the probability of half a byte.
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
            let mut rng = pauseframe_engine::random_stream(seed, "range", 0);
            for sizes in [
                SizesSpec::Uniform(Uniform { min, max }),
                SizesSpec::LogUniform(LogUniform { min: min.max(Bytes(1)), max: max.max(Bytes(1)) }),
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
