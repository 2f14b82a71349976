//! What one ACK newly reports as delivered, for RACK, F-RTO and PRR: collected from the scoreboard, acknowledged
//! segments first, then those sacked.

use pauseframe_units::{Span, Time};

/// What one ACK newly reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one ACK")]
pub(crate) struct NewlyDelivered {
    pub(super) now: Time,
    /// End of the highest data reported before this ACK.
    pub(super) high_ack: u64,
    /// End of the data in flight at the last timeout.
    pub(super) recover: u64,
    /// The smallest round-trip time so far; `Span::ZERO`: none yet.
    pub(crate) min_rtt: Span,
    /// Send time and end of the most recently sent delivered segment.
    pub(crate) latest: Option<(Time, u64)>,
    /// Send time of the delivered segment that was looked at last: sacked ones first, then acknowledged ones, by sequence number.
    pub(crate) last: Option<Time>,
    /// A cumulatively acknowledged segment has set [`Self::last`].
    pub(super) last_is_acked: bool,
    /// Send time of the first newly sacked segment that was sent only once (Linux `first_sackt`).
    pub(crate) first_sacked: Option<Time>,
    /// Send time of the last one (Linux `last_sackt`).
    pub(crate) last_sacked: Option<Time>,
    /// Whether newly sacked data restart the timer.
    pub(crate) restarts_timer: bool,
    /// Bytes delivered, duplicates (by D-SACK) included.
    pub(crate) bytes: u64,
    /// A segment sent once, before the last timeout, was delivered.
    pub(crate) original: bool,
    /// A segment sent once was delivered after one above it.
    pub(crate) reordered: bool,
    /// A segment was marked as lost.
    pub(crate) loss: bool,
    /// A D-SACK block arrived that is not for a probe.
    pub(crate) dsack: bool,
    /// A D-SACK block arrived for a tail loss probe.
    pub(crate) probe_dsack: bool,
}

impl NewlyDelivered {
    /// Resets for the next ACK. `high_ack`: the highest byte reported so far.
    pub(crate) fn reset(&mut self, now: Time, high_ack: u64, recover: u64) {
        (self.now, self.high_ack, self.recover) = (now, high_ack, recover);
        (self.latest, self.bytes) = (None, 0);
        (self.last, self.last_is_acked) = (None, false);
        (self.first_sacked, self.last_sacked, self.restarts_timer) = (None, None, false);
        (self.original, self.reordered, self.loss, self.dsack, self.probe_dsack) =
            (false, false, false, false, false);
    }

    /// A segment is acknowledged; `ambiguous`: it was sent more than once.
    #[inline]
    pub(crate) fn record_acked(&mut self, sent_at: Time, start: u64, end: u64, ambiguous: bool) {
        if self.record_delivered(sent_at, start, end, ambiguous) {
            (self.last, self.last_is_acked) = (Some(sent_at), true);
        }
    }

    /// False: the ACK is too early for the segment's retransmission.
    #[inline]
    fn record_delivered(&mut self, sent_at: Time, start: u64, end: u64, ambiguous: bool) -> bool {
        let rtt = self.now.saturating_since(sent_at);
        if ambiguous {
            // RFC 8985 §6.2 step 2: the ACK is too early to acknowledge the retransmission.
            if rtt < self.min_rtt {
                return false;
            }
        } else {
            self.original |= end <= self.recover;
            self.reordered |= start < self.high_ack;
            if self.min_rtt == Span::ZERO || rtt < self.min_rtt {
                self.min_rtt = rtt;
            }
        }
        if self.latest.is_none_or(|(at, highest)| sent_at > at || (sent_at == at && end > highest)) {
            self.latest = Some((sent_at, end));
        }
        true
    }

    /// SACK newly reports a segment; see [`Self::record_acked`].
    #[inline]
    pub(crate) fn record_sacked(&mut self, sent_at: Time, start: u64, end: u64, ambiguous: bool) {
        if !ambiguous {
            self.first_sacked = Some(self.first_sacked.map_or(sent_at, |first| first.min(sent_at)));
            self.last_sacked = self.last_sacked.max(Some(sent_at));
        }
        if self.record_delivered(sent_at, start, end, ambiguous) && !self.last_is_acked {
            self.last = Some(sent_at);
        }
    }
}

/// Result of RACK's loss detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RackLossDetectionResult {
    /// A segment was newly marked as lost.
    pub(crate) loss: bool,
    /// Whether such a segment had been retransmitted.
    pub(crate) retransmission: bool,
    /// The longest time until a further segment counts as lost.
    pub(crate) wait: Option<Span>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985 §6.2 step 2: `RACK.segment` was sent last of what the ACK reports; of those sent at once it ends last.
    #[test]
    fn the_latest_delivered_segment_was_sent_last_and_ends_last() {
        for (segments, latest) in [
            (&[(5, 1000), (7, 2000)][..], (7, 2000)),
            (&[(7, 1000), (5, 2000)], (7, 1000)),
            (&[(7, 1000), (7, 2000)], (7, 2000)),
            (&[(7, 2000), (7, 1000)], (7, 2000)),
            (&[(7, 2000), (8, 1000), (6, 3000)], (8, 1000)),
        ] {
            let mut delivery = NewlyDelivered::default();
            delivery.reset(Time(10), 0, 0);
            for (sent_at, end) in segments {
                delivery.record_sacked(Time(*sent_at), end - 1000, *end, false);
            }
            assert_eq!(delivery.latest, Some((Time(latest.0), latest.1)), "{segments:?}");
        }
    }

    /// RFC 8985 §6.2 step 2: an ACK that comes earlier than the smallest round trip after a retransmission is of the original.
    #[test]
    fn an_ack_earlier_than_the_smallest_round_trip_is_not_of_the_retransmission() {
        for (rtt, is_delivered) in [(99, false), (100, true), (101, true)] {
            let mut delivery = NewlyDelivered { min_rtt: Span(100), ..NewlyDelivered::default() };
            delivery.reset(Time(1000), 5000, 5000);
            delivery.record_acked(Time(1000 - rtt), 0, 1000, true);
            assert_eq!((delivery.latest.is_some(), delivery.last.is_some()), (is_delivered, is_delivered));
            // No sample of the round trip, no proof of a spurious timeout, and no reordering either (Karn's rule).
            assert_eq!(
                (delivery.min_rtt, delivery.original, delivery.reordered),
                (Span(100), false, false),
                "{rtt}"
            );
        }
    }

    /// RFC 5682 §3.1 step 3b: a segment of before the timeout, sent once, arrives. RFC 8985 §6.2 step 3: so does one below what arrived before.
    #[test]
    fn a_segment_sent_once_shows_a_spurious_timeout_and_reordering() {
        for (start, is_original, is_reordered) in
            [(1000, true, true), (1999, true, true), (2000, true, false), (2001, false, false)]
        {
            let mut delivery = NewlyDelivered::default();
            delivery.reset(Time(10), 2000, 3000);
            delivery.record_acked(Time(5), start, start + 1000, false);
            assert_eq!((delivery.original, delivery.reordered), (is_original, is_reordered), "{start}");
        }
    }

    /// The smallest round trip is that of segments sent once.
    #[test]
    fn the_smallest_round_trip_only_falls() {
        let mut delivery = NewlyDelivered::default();
        for (rtt, min_rtt) in [(50, 50), (60, 50), (40, 40)] {
            delivery.reset(Time(1000), 0, 0);
            delivery.record_acked(Time(1000 - rtt), 0, 1000, false);
            assert_eq!(delivery.min_rtt, Span(min_rtt));
        }
    }

    /// Linux `first_sackt` and `last_sackt` are of segments sent once; `tcp_rack_advance` sees acknowledged ones last.
    #[test]
    fn sacked_segments_are_timed_if_sent_once() {
        let mut delivery = NewlyDelivered::default();
        delivery.reset(Time(100), 0, 0);
        for (sent_at, is_ambiguous) in [(30, false), (20, false), (10, true)] {
            delivery.record_sacked(Time(sent_at), 1000, 2000, is_ambiguous);
        }
        assert_eq!((delivery.first_sacked, delivery.last_sacked), (Some(Time(20)), Some(Time(30))));
        assert_eq!(delivery.last, Some(Time(10)));
        delivery.record_acked(Time(15), 0, 1000, false);
        delivery.record_sacked(Time(50), 2000, 3000, false);
        assert_eq!(delivery.last, Some(Time(15)));
    }
}
