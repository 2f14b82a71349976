//! Pacing as in Linux sockets: after each burst the next one waits for the burst's duration at the pacing rate, cwnd / srtt times 2 while cwnd is
//! below half of ssthresh, else times 1.2.
//!
//! A congestion control that sets a pacing rate replaces that rate (`sk_pacing_rate` of BBR). The first ten segments of a
//! connection, unless a plug-in sets the rate, fast retransmits without BBR, and probes do not wait. A burst that leaves late (after a pause, or because
//! the window was full) takes up to half of its duration back from the delay.

use pauseframe_units::{Span, Time};

/// Segments before pacing begins (Linux).
pub(super) const UNPACED_SEGMENTS: u64 = 10;

/// When the next segment may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pacer {
    /// When all segments so far would have left at the pacing rate (`tcp_wstamp_ns`).
    busy_until: Time,
    /// The next burst may begin.
    pub(super) next: Time,
    /// Segments left in the current burst.
    left: u32,
    /// How late the current burst left, as far as its segments have not made use of it.
    credit: Span,
}

impl Pacer {
    /// When all segments so far will have left.
    pub(super) fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// A segment was sent that takes `span` at the pacing rate, in bursts of `burst`. `ends`: whether a super-packet, which is
    /// a burst, ends with it; `None` without such segments.
    pub(super) fn charge(&mut self, span: Span, burst: u32, ends: Option<bool>, now: Time) {
        let begins = self.left == 0;
        if begins || now > self.busy_until {
            self.credit = now.saturating_since(self.busy_until);
        }
        // `tcp_update_skb_after_send`
        let late = self.credit.min(span / 2);
        self.credit -= late;
        self.busy_until = self.busy_until.max(now).saturating_add(span - late);
        let left = if begins { burst.max(1) - 1 } else { self.left - 1 };
        self.left = ends.map_or(left, |ends| u32::from(!ends));
        if self.left == 0 {
            self.next = self.busy_until;
        }
    }
}
