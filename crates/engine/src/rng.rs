//! Named random streams: one for each purpose, so that a new host or probe shifts no other draw.
//!
//! The generator is PCG XSL 128/64 (MCG), O'Neill 2014, from `rand_pcg`: a fixed published algorithm, the same
//! numbers on every machine. The samplers here are our own because their draws are part of our results.

use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

/// The stream for purpose `label` and thing `index` of a run with master seed `seed`: `("ecmp", switch)`.
pub fn random_stream(seed: u64, label: &str, index: u64) -> Rng {
    // FNV-1a over the label, then two rounds of the finaliser: near-by seeds and indices give unrelated states.
    let label = label
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let low = mix_bits(mix_bits(seed ^ label).wrapping_add(index));
    let high = mix_bits(low ^ label.rotate_left(32));
    Rng(Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low)))
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014): a bijection of 64-bit words that scatters them well.
#[inline]
pub fn mix_bits(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Rng {
    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform over `0..n`, without bias (Lemire 2019). `n` must not be zero.
    #[inline]
    pub fn uniform_below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform over [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn uniform_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_unrelated() {
        let draw = |seed, label, index| random_stream(seed, label, index).next_u64();
        assert_eq!(draw(7, "ecmp", 3), draw(7, "ecmp", 3));
        let words = [draw(7, "ecmp", 3), draw(8, "ecmp", 3), draw(7, "ecmq", 3), draw(7, "ecmp", 4)];
        for (i, a) in words.iter().enumerate() {
            for b in &words[..i] {
                assert!((a ^ b).count_ones() > 12, "{a:x} and {b:x} look alike");
            }
        }
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = random_stream(1, "test", 0);
        let mut seen = [0u32; 5];
        for _ in 0..50_000 {
            seen[rng.uniform_below(5) as usize] += 1;
        }
        // 10,000 expected, standard deviation 89: five deviations.
        assert!(seen.iter().all(|n| n.abs_diff(10_000) < 450), "{seen:?}");
    }
}
