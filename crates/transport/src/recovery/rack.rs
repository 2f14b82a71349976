//! RACK (RFC 8985 §5 and §6): a segment is lost if one sent later was delivered and a round trip and the reordering
//! window have passed since it was sent. Also finds lost retransmissions.
//!
//! As in Linux the reordering window is a quarter of the minimum RTT, zero while no reordering was seen and three
//! segments are sacked or recovery is on, and D-SACK widens it only where reordering was seen before (RFC 8985: always). Left out: the minimum RTT forgets nothing (Linux: five minutes).

use super::delivery::NewlyDelivered;
use pauseframe_units::{Span, Time};

/// RFC 8985 §6.2 step 4: so many recoveries without D-SACK shrink the reordering window again.
const REO_WND_PERSIST_MAX: u8 = 16;

/// RFC 8985 §5.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rack {
    /// When the segment sent last among all delivered ones was sent, and its end.
    pub(super) latest: (Time, u64),
    pub(super) rtt: Span,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u8,
    /// The window was widened; not again before this is acknowledged.
    dsack_round: Option<u64>,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            latest: (Time::ZERO, 0),
            rtt: Span::ZERO,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
        }
    }
}

impl Rack {
    /// §6.2 steps 1 to 3, and the adaptation of the window to D-SACK of step 4.
    pub(super) fn update_from_delivery(
        &mut self,
        news: &NewlyDelivered,
        now: Time,
        snd_una: u64,
        snd_nxt: u64,
    ) {
        if let Some(sent_at) = news.last {
            // The segment looked at last, not the one sent last (RFC 8985 §6.2 step 2, Linux `tcp_rack_advance`).
            self.rtt = now.saturating_since(sent_at);
        }
        if let Some((sent_at, end)) = news.latest
            && (sent_at > self.latest.0 || (sent_at == self.latest.0 && end > self.latest.1))
        {
            self.latest = (sent_at, end);
        }
        // Linux `tcp_dsack_seen`: a copy that was needless for another reason than reordering widens nothing.
        let dsack = news.dsack && self.reordering_seen;
        self.reordering_seen |= news.reordered;
        if self.dsack_round.is_some_and(|round| snd_una >= round) {
            self.dsack_round = None;
        }
        if dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(snd_nxt);
            self.reo_wnd_mult = (self.reo_wnd_mult + 1).min(0xff);
            self.reo_wnd_persist = REO_WND_PERSIST_MAX;
        }
    }

    /// Whether any reordering was seen.
    pub(super) fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }

    /// A recovery ends (§6.2 step 4).
    pub(super) fn end_recovery(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Age at which a segment counts as lost (§6.2 steps 4 and 5). `srtt`: `None` before the first sample.
    pub(super) fn loss_threshold(
        &self,
        in_recovery_or_dup_thresh: bool,
        min_rtt: Span,
        srtt: Option<Span>,
    ) -> Span {
        self.rtt + self.reo_wnd(in_recovery_or_dup_thresh, min_rtt, srtt.unwrap_or(self.rtt))
    }

    /// §6.2 step 4. `in_recovery_or_dup_thresh`: in recovery, or `DupThresh` segments are sacked.
    fn reo_wnd(&self, in_recovery_or_dup_thresh: bool, min_rtt: Span, srtt: Span) -> Span {
        if in_recovery_or_dup_thresh && !self.reordering_seen {
            return Span::ZERO;
        }
        (min_rtt / 4 * u64::from(self.reo_wnd_mult)).min(srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of the minimum RTT, once more for each round with D-SACK, at most srtt; back after 16 recoveries.
    #[test]
    fn the_window_widens_with_dsack_and_persists_for_sixteen_recoveries() {
        let (min_rtt, srtt) = (Span::from_us(100), Span::from_us(110));
        let mut rack = Rack { reordering_seen: true, ..Rack::default() };
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), Span::from_us(25));
        let news = NewlyDelivered { dsack: true, ..NewlyDelivered::default() };
        // Twice in one round counts once.
        rack.update_from_delivery(&news, Time::ZERO, 1000, 9000);
        rack.update_from_delivery(&news, Time::ZERO, 8000, 12_000);
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), Span::from_us(50));
        for round in 1..5 {
            rack.update_from_delivery(&news, Time::ZERO, 20_000 * round, 20_000 * round + 5_000);
        }
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), srtt);
        for _ in 0..15 {
            rack.end_recovery();
        }
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), srtt);
        rack.end_recovery();
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), Span::from_us(25));
    }

    /// Linux `tcp_dsack_seen` asks for `reord_seen`, as it was before this ACK.
    #[test]
    fn without_reordering_dsack_widens_nothing() {
        let (min_rtt, srtt) = (Span::from_us(100), Span::from_us(110));
        let mut rack = Rack::default();
        let news = NewlyDelivered { dsack: true, reordered: true, ..NewlyDelivered::default() };
        rack.update_from_delivery(&news, Time::ZERO, 1000, 9000);
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), Span::from_us(25));
        rack.update_from_delivery(&news, Time::ZERO, 9000, 12_000);
        assert_eq!(rack.reo_wnd(true, min_rtt, srtt), Span::from_us(50));
    }

    #[test]
    fn without_reordering_recovery_does_not_wait() {
        let rack = Rack::default();
        assert_eq!(rack.reo_wnd(true, Span::from_us(100), Span::from_us(100)), Span::ZERO);
        assert_eq!(rack.reo_wnd(false, Span::from_us(100), Span::from_us(100)), Span::from_us(25));
    }
}
