//! Random laws beyond those of the stream: short, and with the same bits on every machine (integer arithmetic, IEEE
//! basic operations and `libm`).

use pauseframe_engine::Rng;

/// Exponential distribution with mean 1, by inversion.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(1.0 - rng.uniform_unit())
}

/// Normal distribution with mean 0 and variance 1 (Box and Muller 1958, the cosine branch).
pub(crate) fn standard_normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(std::f64::consts::TAU * rng.uniform_unit())
}

/// Brings items into a random order; every order is equally likely (Durstenfeld 1964).
pub(crate) fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.uniform_below(last as u64 + 1) as usize);
    }
}

/// Draws `count` distinct numbers of 0..n; every subset is equally likely (Floyd 1987); `count` must not
/// exceed `n`.
pub(crate) fn distinct(rng: &mut Rng, count: usize, n: usize) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(count);
    for last in n - count..n {
        let draw = rng.uniform_below(last as u64 + 1) as usize;
        chosen.push(if chosen.contains(&draw) { last } else { draw });
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, rng};
    use super::*;

    #[test]
    fn the_exponential_has_its_mean_variance_and_median() {
        let (n, mut rng) = (200_000, rng("exponential"));
        let draws: Vec<f64> = (0..n).map(|_| exponential(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| (x - 1.0).powi(2)).sum::<f64>() / n as f64;
        let below_median = draws.iter().filter(|x| **x < std::f64::consts::LN_2).count() as f64 / n as f64;
        let root = (n as f64).sqrt();
        assert_within(mean, 1.0, 4.0 / root);
        // The fourth central moment of the exponential distribution is 9.
        assert_within(variance, 1.0, 4.0 * 8f64.sqrt() / root);
        assert_within(below_median, 0.5, 4.0 * 0.5 / root);
    }

    #[test]
    fn the_normal_has_its_moments_and_quartile() {
        let (n, mut rng) = (200_000, rng("normal"));
        let draws: Vec<f64> = (0..n).map(|_| standard_normal(&mut rng)).collect();
        let root = (n as f64).sqrt();
        assert_within(draws.iter().sum::<f64>() / n as f64, 0.0, 4.0 / root);
        // The fourth moment of the normal distribution is 3.
        assert_within(draws.iter().map(|x| x * x).sum::<f64>() / n as f64, 1.0, 4.0 * 2f64.sqrt() / root);
        let inside = draws.iter().filter(|x| x.abs() < 0.674_489_75).count() as f64 / n as f64;
        assert_within(inside, 0.5, 4.0 * 0.5 / root);
    }

    #[test]
    fn every_subset_is_equally_likely() {
        let (draws, mut rng) = (60_000, rng("distinct"));
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..draws {
            let mut subset = distinct(&mut rng, 2, 4);
            subset.sort_unstable();
            *seen.entry(subset).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 6);
        let expected = f64::from(draws) / 6.0;
        let chi2: f64 = seen.values().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // Chi-square with 5 degrees of freedom: 99.99 % quantile.
        assert!(chi2 < 25.7, "chi2 {chi2}: {seen:?}");
        assert_eq!(distinct(&mut rng, 5, 5).len(), 5);
    }
}
