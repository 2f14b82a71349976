//! A shared buffer: who may hold how much of it, and when who was paused may go on.

use crate::class::ClassPolicy;
use crate::headroom::Thresholds;
use crate::ids::SlotId;
use crate::wire::ingress::Account;

/// How an ingress stands in a shared pool: what says whether it may go on.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) bytes: u64,
    pub(crate) in_headroom: u64,
}

impl Standing {
    pub(crate) fn of(account: &Account) -> Standing {
        Standing { bytes: account.bytes, in_headroom: account.in_headroom }
    }
}

/// The rule of a shared pool for one ingress.
#[derive(Clone, Copy)]
pub(crate) struct SharedLimits {
    pub(crate) alpha: f64,
    pub(crate) reserved: u64,
    pub(crate) limits: Thresholds,
}

impl SharedLimits {
    pub(crate) fn of(policy: &ClassPolicy, account: &Account) -> SharedLimits {
        SharedLimits { alpha: policy.alpha, reserved: policy.reserved, limits: account.limits }
    }

    /// Below the threshold of the moment by the hysteresis, two full frames by default (`SAI_BUFFER_PROFILE_ATTR_XON_OFFSET_TH`;
    /// DCQCN, SIGCOMM 2015, §4), and nothing in the headroom.
    pub(crate) fn may_go_on(&self, standing: Standing, free: u64) -> bool {
        let threshold = dynamic_threshold(self.alpha, free).min(self.limits.xoff);
        let resumes_at = threshold.saturating_sub(self.hysteresis());
        standing.in_headroom == 0 && standing.bytes.saturating_sub(self.reserved) <= resumes_at
    }

    /// With less than this free it may not go on; `u64::MAX`: with no matter how much.
    pub(crate) fn needs_free(&self, standing: Standing) -> u64 {
        let excess = standing.bytes.saturating_sub(self.reserved);
        if standing.in_headroom > 0 || excess > self.limits.xon {
            return u64::MAX;
        }
        if excess == 0 {
            return 0;
        }
        // One less, as `dynamic_threshold` rounds; an alpha of 0 makes it infinite, which is `u64::MAX` again.
        (((excess + self.hysteresis()) as f64 / self.alpha) as u64).saturating_sub(1)
    }

    fn hysteresis(&self) -> u64 {
        self.limits.xoff - self.limits.xon
    }
}

/// A part of a buffer that queues share.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Bytes of it, headroom and reserved bytes not counted.
    size: u64,
    /// Of these, in use.
    pub(crate) used: u64,
    /// Slots of ingresses that share in it and have been asked to pause.
    pub(crate) paused: Vec<SlotId>,
    /// With less than this free none of them may go on.
    pub(super) wake_at: u64,
}

impl Pool {
    pub(crate) fn new(size: u64) -> Pool {
        Pool { size, used: 0, paused: Vec::new(), wake_at: u64::MAX }
    }

    pub(crate) fn free(&self) -> u64 {
        self.free_of(self.used)
    }

    /// What would be free with so many bytes in use.
    pub(crate) fn free_of(&self, used: u64) -> u64 {
        self.size.saturating_sub(used)
    }
}

/// The headroom of a switch, where all (port, class) share it; without a pool it has no end, as each account has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedHeadroom {
    pub(crate) size: u64,
    pub(crate) used: u64,
}

impl SharedHeadroom {
    /// Takes so many bytes; false if there are fewer.
    #[must_use]
    pub(super) fn take(&mut self, bytes: u64) -> bool {
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
        /// A pool that is not woken misses nobody: whoever may go on needs no more than is free.
        #[test]
        fn who_may_go_on_needs_no_more_than_is_free(
            bytes in 0u64..6_000_000_000, in_headroom in 0u64..2, free in 0u64..6_000_000_000,
            alpha in 0.0f64..16.0, reserved in 0u64..10_000, xoff in 0u64..6_000_000_000, below in 0u64..20_000,
        ) {
            let limits = Thresholds { xoff, xon: xoff.saturating_sub(below), headroom: 0 };
            let (rule, standing) = (SharedLimits { alpha, reserved, limits }, Standing { bytes, in_headroom });
            if rule.may_go_on(standing, free) {
                prop_assert!(rule.needs_free(standing) <= free);
            }
        }
    }
}
