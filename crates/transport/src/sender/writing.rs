//! The sender and its application: when it writes, and what of that waits. The buffer itself is in `writer.rs`.

use super::Sender;
use crate::config::{Config, SendBuffer};
use crate::writer::{Buffered, SKB_OVERHEAD, Writer};

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
        writer.want(bytes, last % goal != 0, end, unsent);
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
    pub(super) fn stop_writing(&mut self) {
        if let Some(writer) = self.writer_mut() {
            writer.stop();
        }
    }

    /// The handshake is over, and the application may write.
    pub(crate) fn begin_writing(&mut self, config: &Config) {
        let SendBuffer::Linux { initial, .. } = config.send_buffer else { return };
        if let Some(writer) = self.writer_mut() {
            writer.open(u64::from(initial));
        }
        self.expand_buffer();
        self.write();
    }

    /// After an ACK has been taken in: the buffer may have room for more, and the writer waits for it.
    #[inline]
    pub(super) fn write_on(&mut self) {
        if self.offloads() {
            return; // After what may leave has left: `writes_more`.
        }
        let held = self.snd_end - self.snd_una;
        let Some(writer) = self.writer() else { return };
        if writer.full && (held <= writer.room_at || held < self.window.cwnd + self.scoreboard.absent()) {
            self.wake_writer();
        }
    }

    /// The same with super-packets, of which not all leave that could: nothing more leaves now. True: there is more.
    #[cold]
    pub(crate) fn writes_more(&mut self) -> bool {
        let end = self.snd_end;
        if self.is_writer_waiting() {
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

    fn expand_buffer(&mut self) {
        let (cwnd, mss) = (self.window.cwnd, u64::from(self.window.mss));
        if let Some(writer) = self.writer_mut() {
            writer.expand(cwnd, mss);
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

    /// The application writes what the buffer has room for.
    fn write(&mut self) {
        let mss = u64::from(self.window.mss);
        let (queued, last) = (self.queued(), self.last_waiting());
        let (last, goal) = last.unwrap_or(((self.snd_end - self.snd_nxt) % mss, mss));
        let (snd_una, snd_wnd) = (self.snd_una, u64::from(self.snd_wnd));
        let buffer = Buffered { end: self.snd_end, queued, last, goal, snd_una, snd_wnd, mss };
        let Some(writer) = self.writer_mut().filter(|writer| writer.is_ready()) else { return };
        let end = writer.fill(&buffer);
        self.snd_end = end;
        let whole = self.is_writer_waiting() && self.goes_out_whole();
        if let Some(writer) = self.writer_mut() {
            writer.push(end, snd_una, whole);
        }
    }

    /// Whether the last `unsent` bytes, less than a full segment, wait for more (`tcp_nagle_test`).
    #[cold]
    pub(super) fn holds_back(&self, unsent: u64) -> bool {
        unsent < u64::from(self.window.mss)
            && !self.fin
            && self.writer().is_some_and(|writer| writer.holds_small(self.snd_una, self.snd_nxt))
    }

    /// New data went out, less than a full segment.
    pub(crate) fn note_small(&mut self) {
        let end = self.snd_nxt;
        if let Some(writer) = self.writer_mut() {
            writer.note_small(end);
        }
    }
}
