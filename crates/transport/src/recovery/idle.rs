//! Unused congestion windows, which say nothing about the path: restart after idle (RFC 5681 §4.1; Linux `tcp_cwnd_restart`) and congestion window
//! validation (RFC 2861, Linux `tcp_cwnd_application_limited`). An unfilled window does not grow (RFC 7661 §4.1), unless `window_validation` is off;
//! see `Sender::is_cwnd_limited`.
//!
//! Left out: RFC 7661's pipeACK, which Linux does not have either.

use crate::config::RtoConfig;
use pauseframe_units::{Span, Time};

/// Recent usage of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CwndUsageHistory {
    /// When data were last sent; [`Time::MAX`]: never.
    last_sent: Time,
    /// When the window was last full, or adapted.
    since: Time,
    /// Maximum bytes in flight since then.
    used: u64,
}

impl Default for CwndUsageHistory {
    fn default() -> Self {
        CwndUsageHistory { last_sent: Time::MAX, since: Time::ZERO, used: 0 }
    }
}

impl CwndUsageHistory {
    /// The idle time, if it exceeds `rto`; restarts the measurement.
    pub(super) fn take_idle(&mut self, rto: Span, now: Time, clock: &RtoConfig) -> Option<Span> {
        let idle = clock.elapsed_in_ticks(self.last_sent, now);
        if idle <= rto {
            return None;
        }
        *self = CwndUsageHistory { last_sent: now, since: now, used: 0 };
        Some(idle)
    }

    /// Data were sent.
    pub(super) fn record_sent(&mut self, now: Time) {
        self.last_sent = now;
    }

    /// The window is full.
    pub(super) fn record_full(&mut self, now: Time) {
        (self.since, self.used) = (now, 0);
    }

    /// Records `flight` bytes in use; returns the maximum of each period of `rto` when it ends.
    pub(super) fn record_partly_used(
        &mut self,
        flight: u64,
        rto: Span,
        now: Time,
        clock: &RtoConfig,
    ) -> Option<u64> {
        self.used = self.used.max(flight);
        if clock.elapsed_in_ticks(self.since, now) < rto {
            return None;
        }
        let used = self.used;
        self.record_full(now);
        Some(used)
    }
}
