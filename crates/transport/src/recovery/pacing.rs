//! Pacing as in Linux sockets: after each burst the next one waits for the burst's duration at the pacing rate, cwnd / srtt times 2 while cwnd is
//! below half of ssthresh, else times 1.2.
//!
//! A congestion control that sets a pacing rate replaces that rate (`sk_pacing_rate` of BBR). The first ten segments of a
//! connection, unless a plug-in sets the rate, fast retransmits without BBR, and probes do not wait. Left out: the credit for late timers.

use pauseframe_units::{Span, Time};

/// Segments before pacing begins (Linux).
pub(super) const UNPACED_SEGMENTS: u64 = 10;

/// When the next segment may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pacer {
    /// When all segments so far would have left at the pacing rate.
    busy_until: Time,
    /// The next burst may begin.
    pub(super) next: Time,
    /// Segments left in the current burst.
    left: u32,
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer { busy_until: Time::ZERO, next: Time::ZERO, left: 0 }
    }
}

impl Pacer {
    /// When all segments so far will have left.
    pub(super) fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// A segment was sent that takes `span` at the pacing rate, in bursts of `burst`. `ends`: whether a super-packet, which is
    /// a burst, ends with it; `None` without such segments.
    pub(super) fn delay_next_by_segment_time(
        &mut self,
        span: Span,
        burst: u32,
        ends: Option<bool>,
        now: Time,
    ) {
        if self.left == 0 {
            self.left = burst.max(1);
        }
        self.busy_until = self.busy_until.max(now).saturating_add(span);
        self.left -= 1;
        if ends.unwrap_or(self.left == 0) {
            self.next = self.busy_until;
        }
    }
}
