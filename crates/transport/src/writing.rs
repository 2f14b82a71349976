//! What the application writes, and where it pushes: Linux's send buffer and Nagle's algorithm.
//!
//! The buffer holds what was written and is not acknowledged, each segment with its overhead (`sk_wmem_queued`). An application that
//! has more to write fills it, waits until a third is free (`sk_stream_write_space`), and fills it again. Whenever it waits,
//! and when it is done, the last segment that is still there unsent gets PSH (`tcp_push`); so does one that lies half of the peer's largest window
//! behind the last PSH (`forced_push`). The receiver acknowledges pushed data at once, which is why the kernel's flows do not march in step.
//! The buffer grows with the window while it is the buffer that holds the flow back (`tcp_should_expand_sndbuf`). All as in Linux
//! 6.1, one call of `send` being one `write`. Left out: `tcp_notsent_lowat`, memory pressure, automatic corking.

use crate::config::{Config, SendBuffer, SmallSegments};
use crate::mechanisms::Mechanism;
use crate::sender::Sender;
use std::collections::VecDeque;

/// `SKB_TRUESIZE(MAX_TCP_HEADER)`: what a segment takes beside its data. 21 segments of 1448 bytes fill 46,080 bytes.
pub(crate) const SKB_OVERHEAD: u64 = 192 + 576;
/// `tcp_sndbuf_expand`: headers and `skb_shared_info` in the power of two that `kmalloc` gives, and the `sk_buff`.
const HEADERS: u64 = 192 + 320;
const SK_BUFF: u64 = 256;
/// An option that takes its place in every segment: the timestamps.
const TIMESTAMPS: u64 = 12;
/// `TCP_INIT_CWND`.
const LEAST_SEGMENTS: u64 = 10;

/// The socket's side of writing.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// `sk_sndbuf`; 0: the connection is not established yet.
    size: u64,
    max: u64,
    /// What the application wants to write and there is no room for.
    waiting: u64,
    /// It waits for room (`SOCK_NOSPACE`), which there may be once the buffer holds no more than `room_at` bytes of data.
    full: bool,
    room_at: u64,
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

impl Writer {
    /// The state that `config` needs.
    pub(crate) fn new(config: &Config) -> Option<Box<Writer>> {
        let (size, max) = match config.send_buffer {
            SendBuffer::Unlimited if config.small_segments == SmallSegments::AtOnce => return None,
            SendBuffer::Unlimited => (u64::MAX, u64::MAX),
            SendBuffer::Linux { initial, max } => (0, u64::from(max.max(initial))),
        };
        Some(Box::new(Writer {
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
            pushes: config.has(Mechanism::PushOfFullBuffer),
        }))
    }

    /// Whether the writer, having waited, is woken with `queued` bytes in the buffer.
    fn has_room(&self, queued: u64) -> bool {
        queued < self.size && self.size - queued >= queued / 2
    }

    /// The writer waits. In full segments the buffer holds the most data for its room, so with more than this it cannot be woken.
    fn wait(&mut self, mss: u64) {
        self.full = true;
        self.room_at = self.size / 3 * 2 / (mss + SKB_OVERHEAD) * mss + mss;
    }

    /// `tcp_mark_push` for the segment that ends at `end`.
    fn mark(&mut self, end: u64, snd_una: u64) {
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
    pub(crate) fn passes(&mut self, end: u64) -> bool {
        let passes = end >= self.due;
        if passes {
            self.due = self.marks.iter().copied().find(|mark| *mark > end).unwrap_or(u64::MAX);
        }
        passes
    }

    /// Whether the segment of `len` bytes at `offset`, which goes out again, has a mark.
    pub(crate) fn has_mark(&self, offset: u64, len: u32) -> bool {
        let end = offset + u64::from(len);
        self.marks.iter().any(|mark| (offset + 1..=end).contains(mark))
    }
}

impl Sender {
    fn writer(&self) -> Option<&Writer> {
        self.refined.as_deref()?.writer.as_deref()
    }

    fn writer_mut(&mut self) -> Option<&mut Writer> {
        self.refined.as_deref_mut()?.writer.as_deref_mut()
    }

    /// The application writes `bytes`.
    pub(crate) fn append(&mut self, bytes: u64) {
        let (unsent, end, mss) = (self.snd_end - self.snd_nxt, self.snd_end, u64::from(self.window.mss));
        let (last, goal) = self.last_waiting().unwrap_or((unsent % mss, mss));
        let Some(writer) = self.writer_mut() else {
            self.snd_end = self.snd_end.saturating_add(bytes);
            return;
        };
        writer.waiting = writer.waiting.saturating_add(bytes);
        if last % goal != 0 && writer.marks.back() == Some(&end) {
            // More goes into the last segment (or buffer of segments), which loses its mark.
            writer.marks.pop_back();
            writer.due = writer.due.min(end.saturating_sub(unsent));
            writer.passes(end - unsent);
        }
        if !writer.full {
            self.write();
        }
    }

    /// Whether the application has filled the send buffer and waits for room.
    pub(crate) fn is_writer_waiting(&self) -> bool {
        self.writer().is_some_and(|writer| writer.full)
    }

    /// Bytes of the application that wait for room in the buffer.
    pub(crate) fn waiting(&self) -> u64 {
        self.writer().map_or(0, |writer| writer.waiting)
    }

    /// The application takes back what it could not write.
    pub(crate) fn stop_writing(&mut self) {
        if let Some(writer) = self.writer_mut() {
            (writer.waiting, writer.full, writer.due) = (0, false, u64::MAX);
        }
    }

    /// The handshake is over: `tcp_init_buffer_space`, and the application may write.
    pub(crate) fn begin_writing(&mut self, config: &Config) {
        let SendBuffer::Linux { initial, .. } = config.send_buffer else { return };
        if let Some(writer) = self.writer_mut() {
            writer.size = u64::from(initial);
        }
        self.expand_buffer();
        self.write();
    }

    /// After an ACK has been taken in: the buffer may have room for more, and the writer waits for it.
    #[inline]
    pub(crate) fn write_on(&mut self) {
        if self.offloads() {
            return; // After what may leave has left: `writes_more`.
        }
        let held = self.snd_end - self.snd_una;
        let Some(writer) = self.refined.as_deref().and_then(|refined| refined.writer.as_deref()) else {
            return;
        };
        if writer.full && (held <= writer.room_at || held < self.window.cwnd + self.scoreboard.absent()) {
            self.wake_writer();
        }
    }

    /// The same with super-packets, of which not all leave that could: nothing more leaves now. True: there is more.
    #[cold]
    pub(crate) fn writes_more(&mut self) -> bool {
        let end = self.snd_end;
        if self.writer().is_some_and(|writer| writer.full) {
            self.wake_writer();
        }
        self.snd_end > end
    }

    /// `tcp_new_space`, after what the window allows has gone out.
    fn wake_writer(&mut self) {
        if self.in_flight_soon() < self.window.cwnd {
            self.expand_buffer();
        }
        let queued = self.queued();
        if let Some(writer) = self.writer_mut().filter(|writer| writer.has_room(queued)) {
            writer.full = false;
            self.write();
        }
    }

    /// `tcp_sndbuf_expand`: twice the window, each segment with what it can cost at worst.
    fn expand_buffer(&mut self) {
        let mss = u64::from(self.window.mss);
        let segments = (self.window.cwnd / mss).max(LEAST_SEGMENTS);
        let cost = (mss + TIMESTAMPS + HEADERS).next_power_of_two() + SK_BUFF;
        if let Some(writer) = self.writer_mut() {
            writer.size = writer.size.max((2 * segments * cost).min(writer.max));
            if writer.full {
                writer.wait(mss);
            }
        }
    }

    /// `sk_wmem_queued`.
    fn queued(&mut self) -> u64 {
        let count = self.count_super_packets().unwrap_or_else(|| {
            let unsent = (self.snd_end - self.snd_nxt).div_ceil(u64::from(self.window.mss));
            self.scoreboard.len() as u64 + unsent
        });
        self.snd_end - self.snd_una + count * SKB_OVERHEAD
    }

    /// What takes its place in the window once everything has gone out that the peer's window lets out.
    fn in_flight_soon(&self) -> u64 {
        if self.offloads() {
            return self.pipe();
        }
        let sendable = self.snd_end.min(self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        let mss = u64::from(self.window.mss);
        let charge = if self.scoreboard.counts_packets() { sendable.div_ceil(mss) * mss } else { sendable };
        self.pipe() + self.scoreboard.lost() + charge
    }

    /// Whether the windows hold everything that was written: then it is sent as it is written, and no segment is left to be marked.
    fn goes_out_whole(&self) -> bool {
        !self.offloads()
            && self.in_flight_soon() <= self.window.cwnd
            && self.snd_end <= self.snd_una + u64::from(self.snd_wnd)
    }

    /// `tcp_sendmsg`: writes until all is in the buffer or there is no more room, segment by segment.
    fn write(&mut self) {
        let mss = u64::from(self.window.mss);
        let (mut queued, last) = (self.queued(), self.last_waiting());
        let (unsent, snd_una) = (self.snd_end - self.snd_nxt, self.snd_una);
        let snd_wnd = u64::from(self.snd_wnd);
        let mut end = self.snd_end;
        let Some(writer) = self.writer_mut() else { return };
        if writer.size == 0 || writer.waiting == 0 {
            return;
        }
        writer.max_window = writer.max_window.max(snd_wnd);
        if writer.max == u64::MAX {
            end = end.saturating_add(std::mem::take(&mut writer.waiting));
            writer.marks.clear();
            writer.mark(end, snd_una);
            self.snd_end = end;
            return;
        }
        // The last segment (or buffer of segments) may have room.
        let (last, goal) = last.unwrap_or((unsent % mss, mss));
        let mut take = (goal - last.min(goal)) % goal;
        if last > 0 && take > 0 && writer.marks.back() == Some(&end) {
            // Its mark moves with its end (`tso_fragment` left it to what remained).
            writer.marks.pop_back();
            let moved = end + take.min(writer.waiting);
            writer.due = if writer.due == end { u64::MAX } else { writer.due };
            writer.mark(moved, snd_una);
        }
        loop {
            take = take.min(writer.waiting);
            end += take;
            queued += take;
            writer.waiting -= take;
            if take > 0 && writer.waiting > 0 && end > writer.pushed + writer.max_window / 2 {
                writer.mark(end, snd_una);
            }
            if writer.waiting == 0 || queued >= writer.size {
                break;
            }
            take = goal;
            queued += SKB_OVERHEAD;
        }
        let done = writer.waiting == 0;
        if !done {
            writer.wait(mss);
        }
        self.snd_end = end;
        let whole = !done && self.goes_out_whole();
        if let Some(writer) = self.writer_mut().filter(|writer| done || (writer.pushes && !whole)) {
            writer.mark(end, snd_una);
        }
    }

    /// Whether the last `len` bytes, less than a full segment, wait for more (`tcp_nagle_test`).
    #[cold]
    pub(crate) fn holds_back(&self, unsent: u64) -> bool {
        let Some(writer) = self.writer().filter(|_| unsent < u64::from(self.window.mss) && !self.fin) else {
            return false;
        };
        match writer.small {
            SmallSegments::AtOnce => false,
            // Minshall's form: only while another small one is not acknowledged.
            SmallSegments::Nagle => self.snd_una < self.snd_nxt && writer.small_end > self.snd_una,
            SmallSegments::Cork => true,
        }
    }

    /// New data went out, less than a full segment.
    pub(crate) fn note_small(&mut self) {
        let end = self.snd_nxt;
        if let Some(writer) = self.writer_mut() {
            writer.small_end = end;
        }
    }
}
