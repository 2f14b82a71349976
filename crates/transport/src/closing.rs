//! The end of a connection (RFC 9293 §3.6): FIN both ways, refusal and reset.
//!
//! A FIN counts as one byte after the data. It leaves with the last unsent segment, or immediately after the data (Linux `tcp_send_fin`), regardless
//! of the congestion window (`tcp_cwnd_test`). It can be lost, reported by SACK and retransmitted like data. Left out: TIME-WAIT (no pair of ports is used
//! twice), urgent closing, SYN cookies.

use crate::config::TcpConfig;
use crate::connection::{Connection, ConnectionFailure, ConnectionState};
use crate::mechanisms::Mechanism;
use crate::segment::{EcnCodepoint, SackBlocks, Segment, TcpFlags};
use crate::sender::{OutgoingSegment, SegmentKindForEcn, Sender};
use pauseframe_units::Time;

/// State of this side's FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FinState {
    /// The application has not closed.
    #[default]
    Open,
    /// The application has closed; the FIN follows the data that are still to be written.
    Due,
    /// The FIN is the last byte that waits or is in flight.
    Queued,
    /// Acknowledged.
    Acked,
}

/// State that only the beginning and the end of a connection need.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpeningAndClosingState {
    pub(crate) fin: FinState,
    /// The peer has closed.
    pub(crate) peer_fin: bool,
    /// Sequence number of the peer's FIN, if it arrived above a gap.
    peer_fin_at: Option<u32>,
}

impl Connection {
    pub(crate) fn life_mut(&mut self) -> &mut OpeningAndClosingState {
        self.life.get_or_insert_default()
    }

    /// The application closes: the FIN follows its data. Without `fin` in the settings a pending ACK leaves at once, as it would with the FIN (Linux
    /// `tcp_send_fin`), so no timer keeps the connection open.
    pub fn close(&mut self, _now: Time) {
        if self.state != ConnectionState::Established {
            return;
        }
        if self.config.fin {
            self.state = ConnectionState::Closing;
            self.life_mut().fin = FinState::Due;
        } else if self.receiver.has_unacked_data() {
            self.receiver.request_ack();
        }
    }

    /// No application listens here: a SYN is answered with RST (RFC 9293 §3.10.7.1).
    #[must_use]
    pub fn without_listener(mut self) -> Connection {
        self.state = ConnectionState::Refusing;
        self.syn_due = false;
        self
    }

    /// The host is down or unreachable: nothing is answered.
    #[must_use]
    pub fn without_answers(mut self) -> Connection {
        self.state = ConnectionState::Silent;
        self.syn_due = false;
        self
    }

    /// Whether both directions have ended with an acknowledged FIN.
    pub fn is_closed(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.fin == FinState::Acked && life.peer_fin)
    }

    /// Whether the peer has closed and all of its data have arrived.
    pub fn has_peer_closed(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.peer_fin)
    }

    /// The state after `close` (Linux `tcp_states.h`).
    pub(crate) fn linux_closing_state(&self) -> i64 {
        let life = self.life.as_deref();
        let acked = life.is_some_and(|life| life.fin == FinState::Acked);
        match (acked, life.is_some_and(|life| life.peer_fin)) {
            (false, false) => 4, // FIN-WAIT-1
            (true, false) => 5,  // FIN-WAIT-2
            (false, true) => 9,  // LAST-ACK, or CLOSING
            (true, true) => 7,   // CLOSED
        }
    }

    /// Processes a segment with SYN, FIN or RST, or any segment outside the established state.
    #[cold]
    pub(crate) fn on_control_segment(&mut self, segment: &Segment, codepoint: EcnCodepoint, now: Time) {
        if segment.flags.contains(TcpFlags::RST) {
            self.on_rst(segment);
            return;
        }
        if segment.flags.contains(TcpFlags::SYN) || !self.is_open() {
            self.on_handshake(segment, now);
        }
        if segment.flags.contains(TcpFlags::SYN) || !self.is_open() {
            return;
        }
        if !self.on_established_segment(segment, codepoint, now) {
            return;
        }
        if let Some(life) = &mut self.life
            && life.fin == FinState::Queued
            && self.sender.is_all_acked()
        {
            life.fin = FinState::Acked;
        }
        if segment.flags.contains(TcpFlags::FIN) && segment.flags.contains(TcpFlags::ACK) {
            self.record_peer_fin(segment.seq.wrapping_add(segment.len));
        }
    }

    /// Notes the peer's FIN with number `seq`; it takes effect when all data before it have arrived (RFC 9293 §3.10.7.4).
    fn record_peer_fin(&mut self, seq: u32) {
        self.receiver.request_ack();
        let life = self.life_mut();
        if !life.peer_fin {
            life.peer_fin_at = Some(seq);
            self.process_peer_fin();
        }
    }

    /// Processes the peer's FIN when nothing before it is missing.
    #[cold]
    pub(crate) fn process_peer_fin(&mut self) {
        let Some(life) = &mut self.life else { return };
        if life.peer_fin_at.is_some_and(|seq| self.receiver.distance_ahead(seq) == 0) {
            (life.peer_fin, life.peer_fin_at) = (true, None);
            self.receiver.consume_fin();
            self.receiver.request_ack();
        }
    }

    /// Adds a FIN above a gap to the SACK blocks.
    pub(crate) fn sack_fin(&self, blocks: &mut SackBlocks) {
        let Some(seq) = self.life.as_ref().and_then(|life| life.peer_fin_at) else { return };
        for (_, right) in blocks.blocks.iter_mut().take(usize::from(blocks.count)) {
            if *right == seq {
                *right = seq.wrapping_add(1);
            }
        }
    }

    /// Processes a RST (RFC 9293 §3.10.7.3); in a synchronised state only with exactly the next number (RFC 5961 §3.2).
    fn on_rst(&mut self, segment: &Segment) {
        match self.state {
            ConnectionState::SynSent => {
                if segment.flags.contains(TcpFlags::ACK) && segment.ack == self.sender.space.wire_seq(0) {
                    self.fail(ConnectionFailure::Refused);
                }
            }
            ConnectionState::SynReceived | ConnectionState::Established | ConnectionState::Closing => {
                match self.receiver.distance_ahead(segment.seq) {
                    0 => self.fail(ConnectionFailure::Reset),
                    _ => self.receiver.request_ack(),
                }
            }
            ConnectionState::Listen
            | ConnectionState::Refusing
            | ConnectionState::Silent
            | ConnectionState::Failed(_) => {}
        }
    }

    /// The next segment while closing: data, and the FIN with or after the last data.
    #[cold]
    pub(crate) fn poll_closing(&mut self, now: Time) -> Option<(Segment, EcnCodepoint)> {
        let due = self.life.as_ref().is_some_and(|life| life.fin == FinState::Due);
        let may_go = self.config.is_enabled(Mechanism::FinWithData) || self.sender.is_all_acked();
        if due && may_go && self.sender.unwritten_bytes() == 0 {
            self.sender.append_fin();
            self.life_mut().fin = FinState::Queued;
        }
        let unsent = self.sender.snd_nxt;
        let polled = self.poll_established(now);
        if !self.sender.fin {
            return polled;
        }
        let sends_data = polled.is_some_and(|(segment, _)| segment.len > 0);
        if sends_data && self.sender.snd_nxt > unsent && self.sender.piggyback_fin() {
            return polled.map(|(segment, ecn)| {
                let flags = segment.flags.with(TcpFlags::FIN).with(TcpFlags::PSH);
                (Segment { flags, ..segment }, ecn)
            });
        }
        let (segment, ecn) = if let Some(polled) = polled {
            polled
        } else {
            let fin = self.sender.next_fin(now, &self.config)?;
            self.build_data(fin, now)
        };
        Some((self.fin_to_flag(segment), ecn))
    }

    /// Converts the FIN's byte at the end of a segment to the FIN flag.
    fn fin_to_flag(&self, segment: Segment) -> Segment {
        let end = segment.seq.wrapping_add(segment.len);
        if segment.len == 0 || end != self.sender.space.wire_seq(self.sender.snd_end) {
            return segment;
        }
        let len = segment.len - 1;
        let flags = if len == 0 { segment.flags.without(TcpFlags::PSH) } else { segment.flags };
        Segment { len, flags: flags.with(TcpFlags::FIN), ..segment }
    }
}

impl Sender {
    /// Appends the FIN after the data.
    fn append_fin(&mut self) {
        self.snd_end += 1;
        self.fin = true;
    }

    /// Adds the FIN to a full segment with the last data that is just leaving. False: more data follow, or the segment has the FIN.
    fn piggyback_fin(&mut self) -> bool {
        let alone = self.snd_nxt + 1 == self.snd_end;
        if alone {
            self.snd_nxt = self.snd_end;
            self.scoreboard.extend_by_fin(self.snd_end);
        }
        alone
    }

    /// Sends the FIN when all data are sent and the peer's window has room, regardless of the congestion window.
    fn next_fin(&mut self, now: Time, config: &TcpConfig) -> Option<OutgoingSegment> {
        let last = self.snd_nxt + 1 == self.snd_end && self.snd_end <= self.snd_una + u64::from(self.snd_wnd);
        if !last {
            return None;
        }
        self.restore_timer();
        let fin = self.transmit_new_segment::<true>(1, SegmentKindForEcn::New, self.pipe(), now, config);
        self.schedule_tlp(now, config);
        Some(fin)
    }
}
