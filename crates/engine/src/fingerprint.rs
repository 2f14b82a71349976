//! The trajectory fingerprint: one number that changes when any event of a run changes its time or its place.

use pauseframe_units::Time;
use std::fmt;

/// A hash over the set of all (time, event): a sum, so that it does not depend on the order in which the partitions of a network
/// had their turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The number.
    pub fn value(self) -> u64 {
        crate::mix(self.0)
    }

    /// Adds one event.
    #[inline]
    pub fn add(&mut self, time: Time, event: u64) {
        let product = u128::from(time.0 ^ 0x6a09_e667_f3bc_c908) * u128::from(event ^ 0x9e37_79b9_7f4a_7c15);
        self.0 = self.0.wrapping_add(product as u64 ^ (product >> 64) as u64);
    }

    /// Adds the events of another part of the run.
    pub fn join(&mut self, other: Fingerprint) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}
