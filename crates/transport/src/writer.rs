//! What the application writes, and where it pushes: Linux's send buffer and Nagle's algorithm.
//!
//! The buffer holds what was written and is not acknowledged, each segment with its overhead (`sk_wmem_queued`). An application that
//! has more to write fills it, waits until a third is free (`sk_stream_write_space`), and fills it again. Whenever it waits,
//! and when it is done, the last segment that is still there unsent gets PSH (`tcp_push`); so does one that lies half of the peer's largest window
//! behind the last PSH (`forced_push`). The receiver acknowledges pushed data at once, which is why the kernel's flows do not march in step.
//! The buffer grows with the window while it is the buffer that holds the flow back (`tcp_should_expand_sndbuf`). All as in Linux
//! 6.1, one call of `send` being one `write`. Left out: `tcp_notsent_lowat`, memory pressure, automatic corking.

use crate::config::{SendBuffer, SmallSegments, TcpConfig};
use crate::mechanisms::Mechanism;
use std::collections::VecDeque;

/// `SKB_TRUESIZE(MAX_TCP_HEADER)`: what a segment takes beside its data. 21 segments of 1448 bytes fill 46,080 bytes.
pub(crate) const SKB_OVERHEAD: u64 = 192 + 576;
/// `tcp_sndbuf_expand`: headers and `skb_shared_info` in the power of two that `kmalloc` gives, and the `sk_buff`.
const SKB_HEADER_BYTES: u64 = 192 + 320;
const SK_BUFF_BYTES: u64 = 256;
/// An option that takes its place in every segment: the timestamps.
const TIMESTAMPS_OPTION_BYTES: u64 = 12;
/// `TCP_INIT_CWND`.
const MIN_BUFFER_SEGMENTS: u64 = 10;

/// What a socket holds when the application writes: the end of its data and what its buffer is charged for them, what is in the last
/// segment (or buffer of segments) and in a full one, and the peer's window. Bytes.
pub(crate) struct SendBufferSnapshot {
    pub(crate) end: u64,
    pub(crate) queued: u64,
    pub(crate) last: u64,
    pub(crate) goal: u64,
    pub(crate) snd_una: u64,
    pub(crate) snd_wnd: u64,
    pub(crate) mss: u64,
}

/// The socket's side of writing.
#[derive(Clone, Debug)]
pub(crate) struct SocketWriter {
    /// `sk_sndbuf`; 0: the connection is not established yet.
    size: u64,
    max: u64,
    /// What the application wants to write and there is no room for.
    pub(crate) waiting: u64,
    /// It waits for room (`SOCK_NOSPACE`), which there may be once the buffer holds no more than `room_at` bytes of data.
    pub(crate) full: bool,
    pub(crate) room_at: u64,
    /// The largest window that the peer has announced, as far as the writer has seen.
    max_window: u64,
    /// End of what was last marked (`pushed_seq`).
    pushed: u64,
    /// Ends of segments with PSH that are not acknowledged, and the first of those that were not sent; `u64::MAX`: none.
    marks: VecDeque<u64>,
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
            SendBuffer::Linux { initial, max } => (0, u64::from(max.max(initial))),
        };
        Some(Box::new(SocketWriter {
            size,
            max,
            waiting: 0,
            full: false,
            room_at: 0,
            max_window: 0,
            pushed: 0,
            marks: VecDeque::new(),
            due: u64::MAX,
            small_end: 0,
            small: config.small_segments,
            pushes: config.has_mechanism(Mechanism::PushOfFullBuffer),
        }))
    }

    /// Whether the writer, having waited, is woken with `queued` bytes in the buffer.
    pub(crate) fn has_room(&self, queued: u64) -> bool {
        queued < self.size && self.size - queued >= queued / 2
    }

    /// The writer waits. In full segments the buffer holds the most data for its room, so with more than this it cannot be woken.
    fn wait_for_room(&mut self, mss: u64) {
        self.full = true;
        self.room_at = self.size / 3 * 2 / (mss + SKB_OVERHEAD) * mss + mss;
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

    /// New data up to `end` go out: whether a mark is among them.
    #[inline]
    pub(crate) fn take_push_mark_before(&mut self, end: u64) -> bool {
        let passes = end >= self.due;
        if passes {
            self.due = self.marks.iter().copied().find(|mark| *mark > end).unwrap_or(u64::MAX);
        }
        passes
    }

    /// Whether the segment of `len` bytes at `offset`, which goes out again, has a mark.
    pub(crate) fn has_push_mark(&self, offset: u64, len: u32) -> bool {
        let end = offset + u64::from(len);
        self.marks.iter().any(|mark| (offset + 1..=end).contains(mark))
    }

    /// The application writes `bytes` more than it has, of which `unsent` up to `end` have not gone out. `open`: the last segment (or
    /// buffer of segments) has room, so more goes into it and it loses its mark.
    pub(crate) fn request_write(&mut self, bytes: u64, open: bool, end: u64, unsent: u64) {
        self.waiting = self.waiting.saturating_add(bytes);
        if open && self.marks.back() == Some(&end) {
            self.marks.pop_back();
            self.due = self.due.min(end.saturating_sub(unsent));
            self.take_push_mark_before(end - unsent);
        }
    }

    /// The application takes back what it could not write.
    pub(crate) fn cancel_write(&mut self) {
        (self.waiting, self.full, self.due) = (0, false, u64::MAX);
    }

    /// `tcp_init_buffer_space`: the handshake is over, and the buffer holds `size` bytes.
    pub(crate) fn set_initial_size(&mut self, size: u64) {
        self.size = size;
    }

    /// `tcp_sndbuf_expand`: twice the window of `cwnd` bytes, each segment with what it can cost at worst.
    pub(crate) fn expand_buffer(&mut self, cwnd: u64, mss: u64) {
        let segments = (cwnd / mss).max(MIN_BUFFER_SEGMENTS);
        let cost = (mss + TIMESTAMPS_OPTION_BYTES + SKB_HEADER_BYTES).next_power_of_two() + SK_BUFF_BYTES;
        self.size = self.size.max((2 * segments * cost).min(self.max));
        if self.full {
            self.wait_for_room(mss);
        }
    }

    /// Whether there is anything to write, and where.
    pub(crate) fn has_data_to_write(&self) -> bool {
        self.size > 0 && self.waiting > 0
    }

    /// `tcp_sendmsg`: writes until all is in the buffer or there is no more room, segment by segment. `queued`: what it holds, with
    /// overhead. `last` of `goal` bytes are in the last segment (or buffer of segments). Returns the new end.
    pub(crate) fn fill_buffer(&mut self, buffer: &SendBufferSnapshot) -> u64 {
        let &SendBufferSnapshot { mut end, mut queued, last, goal, snd_una, snd_wnd, mss } = buffer;
        self.max_window = self.max_window.max(snd_wnd);
        if self.max == u64::MAX {
            let end = end.saturating_add(std::mem::take(&mut self.waiting));
            self.marks.clear();
            return end;
        }
        let mut take = (goal - last.min(goal)) % goal;
        if last > 0 && take > 0 && self.marks.back() == Some(&end) {
            // Its mark moves with its end (`tso_fragment` left it to what remained).
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
            if take > 0 && self.waiting > 0 && end > self.pushed + self.max_window / 2 {
                self.mark_push(end, snd_una);
            }
            if self.waiting == 0 || queued >= self.size {
                break;
            }
            take = goal;
            queued += SKB_OVERHEAD;
        }
        if self.waiting > 0 {
            self.wait_for_room(mss);
        }
        end
    }

    /// After [`Self::fill_buffer`]: `tcp_push`, when all is written or the writer waits. `whole`: everything leaves at once, so there is no
    /// segment left to be marked.
    pub(crate) fn push_last_segment(&mut self, end: u64, snd_una: u64, whole: bool) {
        if self.waiting == 0 || (self.pushes && !whole) {
            self.mark_push(end, snd_una);
        }
    }

    /// Whether the last of the data, less than a full segment, waits for more (`tcp_nagle_test`).
    pub(crate) fn delays_small_segment(&self, snd_una: u64, snd_nxt: u64) -> bool {
        match self.small {
            SmallSegments::AtOnce => false,
            // Minshall's form: only while another small one is not acknowledged.
            SmallSegments::Nagle => snd_una < snd_nxt && self.small_end > snd_una,
            SmallSegments::Cork => true,
        }
    }

    /// Less than a full segment, up to `end`, went out.
    pub(crate) fn note_small_segment_sent(&mut self, end: u64) {
        self.small_end = end;
    }
}
