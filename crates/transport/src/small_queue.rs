//! TCP small queues (Linux 6.1 `tcp_small_queue_check`): a socket keeps no more in the queues of its host than it sends in about a
//! millisecond, two segments at least, so the rest waits where it can still be decided upon, and a window that the path does not need is not filled and does
//! not grow. Without it a flow whose own link is the bottleneck fills the NIC with its window.
//!
//! The kernel counts the bytes of the socket that have not left the host. Here the socket reckons them: what it has sent leaves at the rate of
//! the line. Frames of other sockets of the host, and pauses, it does not see. Left out: the check before retransmissions (twice the limit).

use crate::config::Config;
use crate::sender::Sender;
use crate::writing::SKB_OVERHEAD;
use pauseframe_units::{Span, Time};

/// `sk_pacing_shift`: so much of a second's data.
pub(crate) const PACING_SHIFT: u32 = 10;
/// `tcp_limit_output_bytes`.
const MOST: u64 = 1 << 20;
/// IPv4 and TCP with timestamps.
const HEADERS: u64 = 52;

/// What a socket has in its host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmallQueue {
    /// A full segment takes so long on the line; zero: the limit is off.
    frame: Span,
    /// When all that was sent has left.
    busy_until: Time,
}

impl Sender {
    /// A full segment takes `frame` on the line of this host.
    pub(crate) fn set_frame_time(&mut self, frame: Span, config: &Config) {
        if let Some(refined) = self.refined.as_deref_mut().filter(|_| config.small_queues) {
            refined.small_queue.frame = frame;
        }
    }

    /// `len` bytes of data went out.
    #[inline]
    pub(crate) fn note_on_line(&mut self, len: u32, now: Time) {
        let mss = u64::from(self.window.mss);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let queue = &mut refined.small_queue;
        if queue.frame > Span::ZERO {
            let time = if u64::from(len) == mss {
                queue.frame
            } else {
                queue.frame * (u64::from(len) + HEADERS) / (mss + HEADERS)
            };
            queue.busy_until = queue.busy_until.max(now).saturating_add(time);
        }
    }

    /// Whether `len` new bytes wait until less of the socket is in the host; then the timer is set for that. With nothing or one buffer
    /// in flight (`single`) nothing waits.
    #[inline]
    pub(crate) fn is_throttled(&mut self, len: u64, single: bool, now: Time, config: &Config) -> bool {
        let Some(refined) = self.refined.as_deref() else { return false };
        let queue = refined.small_queue;
        // Two segments are always allowed.
        queue.busy_until > now + queue.frame * 2 && !single && self.is_over_limit(queue, len, now, config)
    }

    #[cold]
    fn is_over_limit(&mut self, queue: SmallQueue, len: u64, now: Time, config: &Config) -> bool {
        let rate = self.pacing_rate(config).map_or(u64::MAX, |rate| rate >> PACING_SHIFT);
        let bytes = rate.max(2 * (len + SKB_OVERHEAD)).min(MOST);
        let limit = queue.frame * bytes / (u64::from(self.window.mss) + SKB_OVERHEAD);
        let over = queue.busy_until.saturating_since(now) > limit;
        if over {
            self.wake_at(Time(queue.busy_until.0 - limit.0));
        }
        over
    }
}
