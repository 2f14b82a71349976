//! TCP small queues (Linux 6.1 `tcp_small_queue_check`): a socket keeps at most about one millisecond of data (at least two segments) in its host's
//! queues. The rest waits in the socket, so an unneeded window is neither filled nor grows. Without this limit a flow whose bottleneck is its own
//! link fills the NIC with its window.
//!
//! The kernel counts the socket's bytes that have not left the host. Here the socket estimates them, assuming that its data leave at line rate; it
//! ignores other sockets and pauses. Left out: the check before retransmissions (twice the limit).

use crate::writer::SKB_OVERHEAD;
use pauseframe_units::{Span, Time};

/// `sk_pacing_shift`: the limit is 2^-10 of the data of a second.
pub(crate) const PACING_SHIFT: u32 = 10;
/// `tcp_limit_output_bytes`.
const MAX_QUEUED_BYTES: u64 = 1 << 20;
/// IPv4 and TCP with timestamps.
const IPV4_TCP_HEADER_BYTES: u64 = 52;

/// The data of a socket in its host's queues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpSmallQueue {
    /// Transmission time of a full segment; zero: no limit.
    frame: Span,
    /// When all sent data will have left.
    busy_until: Time,
}

impl TcpSmallQueue {
    /// Enables the limit; `frame` is the transmission time of a full segment.
    pub(crate) fn set_frame_time(&mut self, frame: Span) {
        self.frame = frame;
    }

    /// Adds `len` sent bytes; a full segment has `mss`.
    #[inline]
    pub(crate) fn add_sent(&mut self, len: u64, mss: u64, now: Time) {
        if self.frame > Span::ZERO {
            let time = if len == mss {
                self.frame
            } else {
                self.frame * (len + IPV4_TCP_HEADER_BYTES) / (mss + IPV4_TCP_HEADER_BYTES)
            };
            self.busy_until = self.busy_until.max(now).saturating_add(time);
        }
    }

    /// Whether more than the two segments that are always allowed are in the host's queues.
    #[inline]
    pub(crate) fn exceeds_two_segments(&self, now: Time) -> bool {
        self.busy_until > now + self.frame * 2
    }

    /// Whether all sent data have left the host.
    pub(crate) fn is_empty(&self, now: Time) -> bool {
        self.busy_until <= now
    }

    /// When `len` more bytes fit; `None`: now. `rate`: bytes that the pacing rate allows in the host's queues.
    pub(crate) fn blocked_until(&self, rate: u64, len: u64, mss: u64, now: Time) -> Option<Time> {
        let bytes = rate.max(2 * (len + SKB_OVERHEAD)).min(MAX_QUEUED_BYTES);
        let limit = self.frame * bytes / (mss + SKB_OVERHEAD);
        (self.busy_until.saturating_since(now) > limit).then(|| Time(self.busy_until.0 - limit.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;
    const FRAME: Span = Span::from_us(12);

    fn after(frames: u32) -> TcpSmallQueue {
        let mut queue = TcpSmallQueue::default();
        queue.set_frame_time(FRAME);
        for _ in 0..frames {
            queue.add_sent(MSS, MSS, Time::ZERO);
        }
        queue
    }

    #[test]
    fn two_segments_may_always_wait_in_the_host() {
        assert!(!after(2).exceeds_two_segments(Time::ZERO));
        assert!(after(3).exceeds_two_segments(Time::ZERO));
        assert!(!after(3).exceeds_two_segments(Time::ZERO + FRAME));
        let mut more = after(2);
        more.add_sent(1, MSS, Time::ZERO);
        assert!(more.exceeds_two_segments(Time::ZERO));
    }

    /// A segment of 698 bytes is half as long on the wire: 750 of 1500 bytes.
    #[test]
    fn short_segments_take_their_share_of_the_time() {
        let mut queue = after(1);
        queue.add_sent(698, MSS, Time::ZERO);
        assert!(!queue.is_empty(Time::ZERO + FRAME + Span(FRAME.0 / 2 - 1)));
        assert!(queue.is_empty(Time::ZERO + FRAME + FRAME / 2));
    }

    #[test]
    fn what_exceeds_the_share_of_the_rate_waits() {
        let truesize = MSS + SKB_OVERHEAD;
        let room = |queue: TcpSmallQueue, rate, len| queue.blocked_until(rate, len, MSS, Time::ZERO);
        assert_eq!(room(after(2), 0, MSS), None);
        assert_eq!(room(after(5), 0, MSS), Some(Time::ZERO + FRAME * 3));
        assert_eq!(room(after(5), 4 * truesize, MSS), Some(Time::ZERO + FRAME));
        assert_eq!(room(after(5), 5 * truesize, MSS), None);
        // A megabyte at most.
        let most = MAX_QUEUED_BYTES / truesize;
        assert!(room(after(most as u32 + 1), u64::MAX, MSS).is_some());
        assert_eq!(room(after(most as u32), u64::MAX, MSS), None);
    }

    #[test]
    fn without_a_link_rate_nothing_waits() {
        let mut queue = TcpSmallQueue::default();
        queue.add_sent(1 << 40, MSS, Time::ZERO);
        assert!(queue.is_empty(Time::ZERO) && !queue.exceeds_two_segments(Time::ZERO));
    }
}
