//! Shared buffers: dynamic thresholds, and when a paused ingress may resume.

use crate::class::ClassPolicy;
use crate::headroom::PauseThresholds;
use crate::ids::SlotId;
use crate::wire::ingress::IngressAccount;

/// Occupancy of an ingress in a shared pool.
#[derive(Clone, Copy)]
pub(crate) struct IngressOccupancy {
    pub(crate) bytes: u64,
    pub(crate) in_headroom: u64,
}

impl IngressOccupancy {
    pub(crate) fn of_account(account: &IngressAccount) -> IngressOccupancy {
        IngressOccupancy { bytes: account.bytes, in_headroom: account.in_headroom }
    }
}

/// Limits of one ingress in a shared pool.
#[derive(Clone, Copy)]
pub(crate) struct SharedPoolLimits {
    pub(crate) alpha: f64,
    pub(crate) reserved: u64,
    pub(crate) limits: PauseThresholds,
}

impl SharedPoolLimits {
    pub(crate) fn of_account(policy: &ClassPolicy, account: &IngressAccount) -> SharedPoolLimits {
        SharedPoolLimits { alpha: account.alpha, reserved: policy.reserved, limits: account.limits }
    }

    /// Whether the ingress may resume: at least the hysteresis below the current threshold, two full frames by default
    /// (`SAI_BUFFER_PROFILE_ATTR_XON_OFFSET_TH`; DCQCN, SIGCOMM 2015, §4), and nothing in the headroom.
    pub(crate) fn may_resume(&self, standing: IngressOccupancy, free: u64) -> bool {
        let threshold = dynamic_threshold(self.alpha, free).min(self.limits.xoff);
        let resumes_at = threshold.saturating_sub(self.resume_hysteresis());
        standing.in_headroom == 0 && standing.bytes.saturating_sub(self.reserved) <= resumes_at
    }

    /// Smallest free space with which it may resume; `u64::MAX`: it cannot.
    pub(crate) fn resume_threshold(&self, standing: IngressOccupancy) -> u64 {
        let excess = standing.bytes.saturating_sub(self.reserved);
        if standing.in_headroom > 0 || excess > self.limits.xon {
            return u64::MAX;
        }
        if excess == 0 {
            return 0;
        }
        // One less, because `dynamic_threshold` rounds. With an alpha of 0 the quotient is infinite, which converts to `u64::MAX`.
        (((excess + self.resume_hysteresis()) as f64 / self.alpha) as u64).saturating_sub(1)
    }

    fn resume_hysteresis(&self) -> u64 {
        self.limits.xoff - self.limits.xon
    }
}

/// A pool of buffer space that queues share.
#[derive(Clone, Debug)]
pub(crate) struct SharedBufferPool {
    /// Size without headroom and reserved bytes.
    size: u64,
    /// Bytes in use.
    pub(crate) used: u64,
    /// Slots of its paused ingresses.
    pub(crate) paused: Vec<SlotId>,
    /// With less free space than this, none of them may resume.
    pub(super) min_free_bytes_to_resume: u64,
}

impl SharedBufferPool {
    pub(crate) fn new(size: u64) -> SharedBufferPool {
        SharedBufferPool { size, used: 0, paused: Vec::new(), min_free_bytes_to_resume: u64::MAX }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes_at(self.used)
    }

    /// Free bytes if `used` bytes are in use.
    pub(crate) fn free_bytes_at(&self, used: u64) -> u64 {
        self.size.saturating_sub(used)
    }
}

/// The shared headroom of a switch. Without a headroom pool it is unlimited, because each account has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedHeadroom {
    pub(crate) size: u64,
    pub(crate) used: u64,
}

impl SharedHeadroom {
    /// Reserves `bytes`; false if fewer are free.
    #[must_use]
    pub(super) fn reserve(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.size.saturating_sub(self.used);
        self.used += if fits { bytes } else { 0 };
        fits
    }
}

/// Choudhury and Hahne 1998: a queue may hold alpha times what is free.
#[inline]
pub(super) fn dynamic_threshold(alpha: f64, free: u64) -> u64 {
    (alpha * free as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// An ingress that may resume never needs more than the free space, so no wake-up is missed.
        #[test]
        fn who_may_go_on_needs_no_more_than_is_free(
            bytes in 0u64..6_000_000_000, in_headroom in 0u64..2, free in 0u64..6_000_000_000,
            alpha in 0.0f64..16.0, reserved in 0u64..10_000, xoff in 0u64..6_000_000_000, below in 0u64..20_000,
        ) {
            let limits = PauseThresholds { xoff, xon: xoff.saturating_sub(below), headroom: 0 };
            let (rule, standing) = (SharedPoolLimits { alpha, reserved, limits }, IngressOccupancy { bytes, in_headroom });
            if rule.may_resume(standing, free) {
                prop_assert!(rule.resume_threshold(standing) <= free);
            }
        }
    }

    #[test]
    fn all_of_the_shared_headroom_can_be_reserved() {
        let mut headroom = SharedHeadroom { size: 100, used: 0 };
        let reserved = [60, 41, 40, 1, 0].map(|bytes| headroom.reserve(bytes));
        assert_eq!((reserved, headroom.used), ([true, false, true, false, true], 100));
    }
}
