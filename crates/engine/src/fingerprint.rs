//! The trajectory fingerprint: one number that changes when any event of a run changes its time or its place.

use pauseframe_units::Time;
use std::fmt;

/// A hash over the set of all (time, event). It is a sum, so it does not depend on the order in which partitions ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The hash as an integer.
    pub fn as_u64(self) -> u64 {
        crate::mix_bits(self.0)
    }

    /// Adds one event.
    #[inline]
    pub fn add_event(&mut self, time: Time, event: u64) {
        let product = u128::from(time.0 ^ 0x6a09_e667_f3bc_c908) * u128::from(event ^ 0x9e37_79b9_7f4a_7c15);
        self.0 = self.0.wrapping_add(product as u64 ^ (product >> 64) as u64);
    }

    /// Adds the events of another part of the run.
    pub fn merge(&mut self, other: Fingerprint) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.as_u64())
    }
}
