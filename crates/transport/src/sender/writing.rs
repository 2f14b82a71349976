//! Writes of the application to the sender. The send buffer is in `writer.rs`.

use super::Sender;
use crate::cc::CongestionAlgorithm;
use crate::config::{SendBuffer, TcpConfig};
use crate::writer::{SKB_OVERHEAD, SendBufferState, SocketWriter};

impl Sender {
    fn socket_writer(&self) -> Option<&SocketWriter> {
        self.refined.as_deref()?.writer.as_deref()
    }

    fn socket_writer_mut(&mut self) -> Option<&mut SocketWriter> {
        self.refined.as_deref_mut()?.writer.as_deref_mut()
    }

    /// The application writes `bytes`.
    pub(crate) fn write(&mut self, bytes: u64) {
        let (unsent, end, mss) = (self.snd_end - self.snd_nxt, self.snd_end, u64::from(self.window.mss));
        let (last, goal, _) = self.last_waiting_skb().unwrap_or((unsent % mss, mss, false));
        let Some(writer) = self.socket_writer_mut() else {
            self.snd_end = self.snd_end.saturating_add(bytes);
            return;
        };
        writer.request_write(bytes, last % goal != 0, end, unsent);
        if !writer.full {
            self.fill_buffer(false);
        }
    }

    /// Whether the application, with super-packets, is in the middle of a write: the first `sk_buff` is full and the last.
    pub(super) fn is_writer_writing(&self) -> bool {
        self.socket_writer().is_some_and(|writer| writer.writing)
    }

    /// Whether the application has filled the send buffer and waits for room.
    pub(crate) fn is_writer_waiting(&self) -> bool {
        self.socket_writer().is_some_and(|writer| writer.full)
    }

    /// Bytes of the application that wait for room in the buffer.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.socket_writer().map_or(0, |writer| writer.waiting)
    }

    /// Cancels data that the application has not written yet.
    pub(super) fn cancel_unwritten(&mut self) {
        if let Some(writer) = self.socket_writer_mut() {
            writer.cancel_write();
        }
    }

    /// Starts writing after the handshake.
    pub(crate) fn begin_writes(&mut self, config: &TcpConfig) {
        if config.send_buffer == SendBuffer::Unlimited {
            return;
        }
        if let Some(writer) = self.socket_writer_mut() {
            writer.set_initial_size(u64::from(config.send_buffer_initial));
        }
        self.expand_buffer();
        self.fill_buffer(false);
    }

    /// Continues writing after an ACK, which may have made room in the buffer.
    #[inline]
    pub(super) fn continue_writes(&mut self) {
        // With super-packets it continues after what may leave has left: `continue_super_packet_writes`.
        if !self.uses_super_packets() && self.is_writer_waiting() {
            self.wake_writer();
        }
    }

    /// In the middle of a write with super-packets: fills up the first `sk_buff`, of which a part may have left, and ends
    /// the write when as much has left as the windows allowed when it began. ACKs that came since open them for
    /// `tcp_write_xmit`, which may defer.
    #[cold]
    pub(crate) fn fill_first_skb(&mut self) {
        if !self.is_writer_writing() {
            return;
        }
        self.fill_buffer(false);
        let next_end = self.snd_nxt + u64::from(self.window.mss);
        let sent = |writer: &SocketWriter| writer.writing && next_end > writer.sends_until;
        if self.socket_writer().is_some_and(sent) {
            self.fill_buffer(true);
        }
    }

    /// End of what the congestion window and the peer's allow.
    fn sendable_end(&self) -> u64 {
        let mss = u64::from(self.window.mss);
        let segments = (self.window.cwnd / mss).saturating_sub(self.pipe().div_ceil(mss));
        (self.snd_nxt + segments * mss).min(self.snd_una + u64::from(self.snd_wnd))
    }

    /// Continues writing with super-packets, when nothing more may leave now. True: new data were written.
    #[cold]
    pub(crate) fn continue_super_packet_writes(&mut self) -> bool {
        let end = self.snd_end;
        if self.is_writer_writing() {
            self.fill_buffer(true);
        } else if self.is_writer_waiting() {
            self.wake_writer();
        }
        self.snd_end > end
    }

    /// A super-packet has left (`tcp_event_new_data_sent`).
    pub(crate) fn on_super_packet_sent(&mut self) {
        if self.may_expand_buffer() && !self.is_mid_super_packet() && self.pipe() < self.window.cwnd {
            self.expand_buffer();
        }
    }

    fn may_expand_buffer(&self) -> bool {
        self.socket_writer().is_some_and(|writer| writer.waits_for_expansion(self.window.cwnd))
    }

    /// `tcp_new_space`, each time that something new has left and when no more may (`tcp_check_space`): the buffer
    /// expands if the window has room left, be it only until the next segment leaves.
    fn wake_writer(&mut self) {
        if self.may_expand_buffer() && self.next_flight_size() < self.window.cwnd {
            self.expand_buffer();
        }
        let queued = self.buffer_usage();
        if let Some(writer) = self.socket_writer_mut().filter(|writer| writer.has_room_to_wake(queued)) {
            writer.full = false;
            self.fill_buffer(false);
        }
    }

    fn expand_buffer(&mut self) {
        let (cwnd, mss) = (self.window.cwnd, u64::from(self.window.mss));
        let windows = self.cc.send_buffer_windows();
        if let Some(writer) = self.socket_writer_mut() {
            writer.expand_buffer(windows, cwnd, mss);
        }
    }

    /// `sk_wmem_queued`.
    fn buffer_usage(&mut self) -> u64 {
        let count = self.count_skbs().unwrap_or_else(|| {
            let unsent = (self.snd_end - self.snd_nxt).div_ceil(u64::from(self.window.mss));
            self.scoreboard.len() as u64 + unsent
        });
        self.snd_end - self.snd_una + count * SKB_OVERHEAD
    }

    /// Bytes that the send buffer holds, with overhead, and bytes of data until it is full. Without a limit it counts as full with as many windows as
    /// Linux's holds.
    pub(crate) fn buffer_usage_and_room(&mut self) -> (u64, u64) {
        let (queued, mss) = (self.buffer_usage(), u64::from(self.window.mss));
        let limit = self.socket_writer().map_or(u64::MAX, SocketWriter::buffer_size);
        if limit == u64::MAX {
            let (held, full) =
                (self.snd_end - self.snd_una, self.cc.send_buffer_windows() * self.window.cwnd);
            return (queued, full.saturating_sub(held).div_ceil(mss) * mss);
        }
        // A segment more than fits makes the writer wait, so that the buffer grows.
        let has_room = self.unwritten_bytes() == 0 && queued < limit;
        (queued, if has_room { ((limit - queued).div_ceil(mss + SKB_OVERHEAD) + 1) * mss } else { 0 })
    }

    /// The flight size when the next new segment that the peer's window allows has left, if one does; with super-packets:
    /// now.
    fn next_flight_size(&self) -> u64 {
        if self.uses_super_packets() {
            return self.pipe();
        }
        self.flight_size_if_sent(u64::from(self.window.mss))
    }

    /// The flight size after sending at most `most` bytes of what the peer's window allows.
    fn flight_size_if_sent(&self, most: u64) -> u64 {
        let sendable = self.snd_end.min(self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        let mss = u64::from(self.window.mss);
        let charge = if self.scoreboard.counts_packets() { sendable.div_ceil(mss) * mss } else { sendable };
        self.pipe() + self.scoreboard.bytes_to_retransmit() + charge.min(most)
    }

    /// Whether the windows have room for all written data: these are then sent as they are written, and no segment is left to be marked with PSH.
    fn fits_in_windows(&self) -> bool {
        !self.uses_super_packets()
            && self.flight_size_if_sent(u64::MAX) <= self.window.cwnd
            && self.snd_end <= self.snd_una + u64::from(self.snd_wnd)
    }

    /// Writes as much application data as fits the buffer; with super-packets, unless `behind`, only as much as fills the first `sk_buff` if that is
    /// the last, because a full one leaves before the next is begun (`tcp_push_one`).
    fn fill_buffer(&mut self, behind: bool) {
        let (mss, unsent) = (u64::from(self.window.mss), self.snd_end - self.snd_nxt);
        let queued = self.buffer_usage();
        let (last, goal, is_first) = self.last_waiting_skb().unwrap_or((unsent % mss, mss, false));
        let until = if is_first && !behind { self.snd_nxt + goal } else { u64::MAX };
        let (snd_una, snd_wnd) = (self.snd_una, u64::from(self.snd_wnd));
        let buffer = SendBufferState { end: self.snd_end, queued, last, goal, until, snd_una, snd_wnd };
        let sends_until = if self.uses_super_packets() { self.sendable_end() } else { 0 };
        let Some(writer) = self.socket_writer_mut().filter(|writer| writer.can_write()) else {
            return;
        };
        if !writer.writing {
            writer.sends_until = sends_until;
        }
        let end = writer.fill_by_segments(&buffer);
        self.snd_end = end;
        let whole = self.is_writer_waiting() && self.fits_in_windows();
        if let Some(writer) = self.socket_writer_mut().filter(|writer| !writer.writing) {
            writer.push_last(end, snd_una, whole);
        }
    }

    /// Whether the last unsent bytes, less than a full segment, are delayed (`tcp_nagle_test`).
    #[cold]
    pub(super) fn delays_small_segment(&self) -> bool {
        !self.fin && self.socket_writer().is_some_and(|writer| writer.delays_small_segment(self.snd_una))
    }

    /// The next `len` bytes leave with PSH, to probe a small window (`tcp_write_wakeup`).
    pub(super) fn push_next(&mut self, len: u64) {
        let end = self.snd_nxt + len;
        if let Some(writer) = self.socket_writer_mut() {
            writer.push_before(end);
        }
    }

    /// Records that a segment below full size was sent.
    pub(crate) fn record_small_segment(&mut self) {
        let end = self.snd_nxt;
        if let Some(writer) = self.socket_writer_mut() {
            writer.record_small_segment(end);
        }
    }
}
