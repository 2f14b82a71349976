//! Writes of the application and PSH: Linux's send buffer and Nagle's algorithm.
//!
//! The buffer holds written, unacknowledged data, each segment with its overhead (`sk_wmem_queued`). An application with more data fills it, waits
//! until a third is free (`sk_stream_write_space`), and fills it again. Whenever the application waits or has finished, the last unsent segment gets
//! PSH (`tcp_push`); so does a segment half of the peer's largest window after the last PSH (`forced_push`). The receiver acknowledges pushed data at
//! once, which keeps flows of the kernel from synchronising. The buffer grows with the window while the buffer limits the flow
//! (`tcp_should_expand_sndbuf`). All as in Linux 6.1, one call of `send` being one `write`. Left out: `tcp_notsent_lowat`, memory pressure, automatic
//! corking.

use crate::config::{SendBuffer, SmallSegments, TcpConfig};
use crate::mechanisms::Mechanism;
use crate::segment::TIMESTAMPS_OPTION_BYTES;
use std::collections::VecDeque;

/// `SKB_TRUESIZE(MAX_TCP_HEADER)`: overhead of a segment. 21 segments of 1448 bytes fill 46,080 bytes.
pub(crate) const SKB_OVERHEAD: u64 = 192 + 576;
/// `tcp_sndbuf_expand`: headers and `skb_shared_info` in the power of two that `kmalloc` gives, and the `sk_buff`.
const SKB_HEADER_BYTES: u64 = 192 + 320;
const SK_BUFF_BYTES: u64 = 256;
/// `TCP_INIT_CWND`.
const MIN_BUFFER_SEGMENTS: u64 = 10;

/// State of a socket at a write: end of its data, charged buffer bytes, bytes in the last segment (or buffer of segments) and in a full one, where the
/// write is interrupted, and the peer's window. In bytes.
pub(crate) struct SendBufferState {
    pub(crate) end: u64,
    pub(crate) queued: u64,
    pub(crate) last: u64,
    pub(crate) goal: u64,
    pub(crate) until: u64,
    pub(crate) snd_una: u64,
    pub(crate) snd_wnd: u64,
}

/// The socket's side of writing.
#[derive(Clone, Debug)]
pub(crate) struct SocketWriter {
    /// `sk_sndbuf`; 0: the connection is not established yet.
    size: u64,
    max: u64,
    /// The largest congestion window that the buffer was expanded for.
    expanded_for: u64,
    /// Bytes that the application wants to write but that do not fit.
    pub(crate) waiting: u64,
    /// The application waits for room (`SOCK_NOSPACE`).
    pub(crate) full: bool,
    /// A write has been interrupted to send what it has filled.
    pub(crate) writing: bool,
    /// End of what the windows allowed when that write was interrupted first: so much it sends itself.
    pub(crate) sends_until: u64,
    /// The largest window that the peer has announced, as far as the writer has seen.
    max_window: u64,
    /// End of the data last marked with PSH (`pushed_seq`).
    pushed: u64,
    /// Ends of unacknowledged segments with PSH.
    marks: VecDeque<u64>,
    /// The first PSH mark that was not sent; `u64::MAX`: none.
    due: u64,
    /// End of the last segment below full size (`snd_sml`).
    small_end: u64,
    small: SmallSegments,
    /// A write that fills the buffer pushes.
    pushes: bool,
}

impl SocketWriter {
    /// The state that `config` needs.
    pub(crate) fn new(config: &TcpConfig) -> Option<Box<SocketWriter>> {
        let (size, max) = match config.send_buffer {
            SendBuffer::Unlimited if config.small_segments == SmallSegments::AtOnce => return None,
            SendBuffer::Unlimited => (u64::MAX, u64::MAX),
            SendBuffer::Linux => (0, u64::from(config.send_buffer_max.max(config.send_buffer_initial))),
        };
        Some(Box::new(SocketWriter {
            size,
            max,
            expanded_for: 0,
            waiting: 0,
            full: false,
            writing: false,
            sends_until: 0,
            max_window: 0,
            pushed: 0,
            marks: VecDeque::new(),
            due: u64::MAX,
            small_end: 0,
            small: config.small_segments,
            pushes: config.is_enabled(Mechanism::PushOfFullBuffer),
        }))
    }

    /// `sk_sndbuf`; 0: the connection is not established yet.
    pub(crate) fn buffer_size(&self) -> u64 {
        self.size
    }

    /// Whether the writer, having waited, is woken with `queued` bytes in the buffer.
    pub(crate) fn has_room_to_wake(&self, queued: u64) -> bool {
        queued < self.size && self.size - queued >= queued / 2
    }

    /// `tcp_mark_push` for the segment that ends at `end`.
    fn mark_push(&mut self, end: u64, snd_una: u64) {
        self.pushed = end;
        while self.marks.front().is_some_and(|mark| *mark <= snd_una) {
            self.marks.pop_front();
        }
        if self.marks.back() != Some(&end) {
            self.marks.push_back(end);
            self.due = self.due.min(end);
        }
    }

    /// New data up to `end` leave with PSH, once.
    pub(crate) fn push_before(&mut self, end: u64) {
        self.due = self.due.min(end);
    }

    /// Whether new data up to `end`, which are being sent, include a PSH mark.
    #[inline]
    pub(crate) fn take_push_before(&mut self, end: u64) -> bool {
        let passes = end >= self.due;
        if passes {
            self.due = self.marks.iter().copied().find(|mark| *mark > end).unwrap_or(u64::MAX);
        }
        passes
    }

    /// Whether the retransmitted segment of `len` bytes at `offset` has a PSH mark.
    pub(crate) fn has_push_mark(&self, offset: u64, len: u32) -> bool {
        let end = offset + u64::from(len);
        self.marks.iter().any(|mark| (offset + 1..=end).contains(mark))
    }

    /// The application requests to write `bytes` more. `unsent` bytes up to `end` have not been sent. `open`: the last segment (or buffer of
    /// segments) has room, so it is extended and loses its PSH mark.
    pub(crate) fn request_write(&mut self, bytes: u64, open: bool, end: u64, unsent: u64) {
        self.waiting = self.waiting.saturating_add(bytes);
        if open && self.marks.back() == Some(&end) {
            self.marks.pop_back();
            self.due = self.due.min(end.saturating_sub(unsent));
            self.take_push_before(end - unsent);
        }
    }

    /// The application takes back what it could not write.
    pub(crate) fn cancel_write(&mut self) {
        (self.waiting, self.full, self.writing, self.due) = (0, false, false, u64::MAX);
    }

    /// `tcp_init_buffer_space`: sets the buffer size after the handshake.
    pub(crate) fn set_initial_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Whether the application waits and a window of `cwnd` bytes would expand the buffer.
    pub(crate) fn waits_for_expansion(&self, cwnd: u64) -> bool {
        self.full && cwnd > self.expanded_for
    }

    /// `tcp_sndbuf_expand`: so many windows of `cwnd` bytes, with the worst-case overhead of each segment.
    pub(crate) fn expand_buffer(&mut self, windows: u64, cwnd: u64, mss: u64) {
        let segments = (cwnd / mss).max(MIN_BUFFER_SEGMENTS);
        let cost =
            (mss + u64::from(TIMESTAMPS_OPTION_BYTES) + SKB_HEADER_BYTES).next_power_of_two() + SK_BUFF_BYTES;
        self.size = self.size.max((windows * segments * cost).min(self.max));
        self.expanded_for = self.expanded_for.max(cwnd);
    }

    /// Whether there are data to write and room for them.
    pub(crate) fn can_write(&self) -> bool {
        self.size > 0 && self.waiting > 0
    }

    /// `tcp_sendmsg`: writes segment by segment until all data are in the buffer or it is full, or the write is interrupted. Returns the new end.
    pub(crate) fn fill_by_segments(&mut self, buffer: &SendBufferState) -> u64 {
        let &SendBufferState { mut end, mut queued, last, goal, until, snd_una, snd_wnd } = buffer;
        self.max_window = self.max_window.max(snd_wnd);
        if self.max == u64::MAX {
            let end = end.saturating_add(std::mem::take(&mut self.waiting));
            self.marks.clear();
            return end;
        }
        let mut take = (goal - last.min(goal)) % goal;
        if last > 0 && take > 0 && self.marks.back() == Some(&end) {
            // Its PSH mark moves with its end (`tso_fragment` keeps it on the remaining part).
            self.marks.pop_back();
            let moved = end + take.min(self.waiting);
            self.due = if self.due == end { u64::MAX } else { self.due };
            self.mark_push(moved, snd_una);
        }
        loop {
            take = take.min(self.waiting);
            end += take;
            queued += take;
            self.waiting -= take;
            if take > 0 && end > self.pushed + self.max_window / 2 {
                self.mark_push(end, snd_una);
            }
            self.writing = self.waiting > 0 && end >= until;
            if self.writing || self.waiting == 0 || queued >= self.size {
                break;
            }
            take = goal;
            queued += SKB_OVERHEAD;
        }
        self.full |= self.waiting > 0 && !self.writing;
        end
    }

    /// `tcp_push` after [`Self::fill_by_segments`], when all data are written or the application waits. `whole`: everything leaves at once, so no segment
    /// is left to be marked.
    pub(crate) fn push_last(&mut self, end: u64, snd_una: u64, whole: bool) {
        if self.waiting == 0 || (self.pushes && !whole) {
            self.mark_push(end, snd_una);
        }
    }

    /// Whether the last data, less than a full segment, are delayed (`tcp_nagle_test`).
    pub(crate) fn delays_small_segment(&self, snd_una: u64) -> bool {
        match self.small {
            SmallSegments::AtOnce => false,
            // Minshall's form: only while another small segment is unacknowledged.
            SmallSegments::Nagle => self.small_end > snd_una,
            SmallSegments::Cork => true,
        }
    }

    /// Records that a segment below full size, up to `end`, was sent.
    pub(crate) fn record_small_segment(&mut self, end: u64) {
        self.small_end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that is sent again has PSH if a marked byte is in it, as the mark is the last byte of what was pushed.
    #[test]
    fn marks_stay_until_they_are_acknowledged() {
        let config = TcpConfig { send_buffer: SendBuffer::Linux, ..TcpConfig::PLAIN };
        let mut writer = SocketWriter::new(&config).expect("it has a buffer");
        writer.mark_push(1000, 0);
        writer.mark_push(3000, 0);
        let pushed =
            |writer: &SocketWriter| [0, 500, 1000, 2000, 3000].map(|at| writer.has_push_mark(at, 1000));
        assert_eq!(pushed(&writer), [true, true, false, true, false]);
        assert!(!writer.has_push_mark(0, 999));
        writer.mark_push(5000, 1000);
        assert_eq!(pushed(&writer), [false, false, false, true, false]);
    }
    /// `tcp_sendmsg` extends the last segment, which loses its mark (`tcp_skb_entail`); the marks before it stay.
    #[test]
    fn an_extended_segment_loses_its_mark_only() {
        for (open, end, marks) in
            [(true, 2500, [true, false]), (false, 2500, [true, true]), (true, 2600, [true, true])]
        {
            let config = TcpConfig { send_buffer: SendBuffer::Linux, ..TcpConfig::PLAIN };
            let mut writer = SocketWriter::new(&config).expect("it has a buffer");
            for mark in [1000, 2500] {
                writer.mark_push(mark, 0);
            }
            // Nothing has been sent.
            writer.request_write(100, open, end, end);
            assert_eq!([1000, 2500].map(|end| writer.take_push_before(end)), marks, "{open} {end}");
        }
    }
}
