//! TCP small queues (Linux 6.1 `tcp_small_queue_check`): a socket keeps no more in the queues of its host than it sends in about a
//! millisecond, two segments at least, so the rest waits where it can still be decided upon, and a window that the path does not need is not filled and does
//! not grow. Without it a flow whose own link is the bottleneck fills the NIC with its window.
//!
//! The kernel counts the bytes of the socket that have not left the host. Here the socket reckons them: what it has sent leaves at the rate of
//! the line. Frames of other sockets of the host, and pauses, it does not see. Left out: the check before retransmissions (twice the limit).

use crate::writer::SKB_OVERHEAD;
use pauseframe_units::{Span, Time};

/// `sk_pacing_shift`: so much of a second's data.
pub(crate) const PACING_SHIFT: u32 = 10;
/// `tcp_limit_output_bytes`.
const MAX_QUEUED_BYTES: u64 = 1 << 20;
/// IPv4 and TCP with timestamps.
const IPV4_TCP_HEADER_BYTES: u64 = 52;

/// What a socket has in its host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmallQueue {
    /// A full segment takes so long on the line; zero: the limit is off.
    frame: Span,
    /// When all that was sent has left.
    busy_until: Time,
}

impl SmallQueue {
    /// The limit is on: a full segment takes `frame` on the line.
    pub(crate) fn set_frame_time(&mut self, frame: Span) {
        self.frame = frame;
    }

    /// `len` bytes of data went out, a full segment being `mss`.
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

    /// Whether more than the two segments that are always allowed are in the host.
    #[inline]
    pub(crate) fn exceeds_two_segments(&self, now: Time) -> bool {
        self.busy_until > now + self.frame * 2
    }

    /// When `len` more bytes have room; `None`: now. `rate`: bytes that the socket may keep in the host by its pacing rate.
    pub(crate) fn time_when_room(&self, rate: u64, len: u64, mss: u64, now: Time) -> Option<Time> {
        let bytes = rate.max(2 * (len + SKB_OVERHEAD)).min(MAX_QUEUED_BYTES);
        let limit = self.frame * bytes / (mss + SKB_OVERHEAD);
        (self.busy_until.saturating_since(now) > limit).then(|| Time(self.busy_until.0 - limit.0))
    }
}
