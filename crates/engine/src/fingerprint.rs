//! The trajectory fingerprint: one number that changes when any event of a run changes its time or its place.

use pauseframe_units::Time;
use std::fmt;

/// A running hash over (time, event) in the order of execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a run in which nothing has happened.
    pub const START: Fingerprint = Fingerprint(0x6a09_e667_f3bc_c908);

    /// The number.
    pub fn value(self) -> u64 {
        crate::mix(self.0)
    }

    /// Adds one event.
    #[inline]
    pub fn add(&mut self, time: Time, event: u64) {
        let word = time.0 ^ event.rotate_left(24);
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}
