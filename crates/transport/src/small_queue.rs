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
    pub(crate) fn set_transmission_time_of_full_segment(&mut self, frame: Span) {
        self.frame = frame;
    }

    /// Adds `len` sent bytes; a full segment has `mss`.
    #[inline]
    pub(crate) fn add_sent_bytes_to_small_queue(&mut self, len: u64, mss: u64, now: Time) {
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
    pub(crate) fn small_queue_holds_over_two_segments(&self, now: Time) -> bool {
        self.busy_until > now + self.frame * 2
    }

    /// Whether all sent data have left the host.
    pub(crate) fn is_empty(&self, now: Time) -> bool {
        self.busy_until <= now
    }

    /// When `len` more bytes fit; `None`: now. `rate`: bytes that the pacing rate allows in the host's queues.
    pub(crate) fn time_when_small_queue_has_room(
        &self,
        rate: u64,
        len: u64,
        mss: u64,
        now: Time,
    ) -> Option<Time> {
        let bytes = rate.max(2 * (len + SKB_OVERHEAD)).min(MAX_QUEUED_BYTES);
        let limit = self.frame * bytes / (mss + SKB_OVERHEAD);
        (self.busy_until.saturating_since(now) > limit).then(|| Time(self.busy_until.0 - limit.0))
    }
}
