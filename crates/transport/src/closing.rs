//! The end of a connection (RFC 9293 §3.6): FIN both ways, refusal and reset.
//!
//! A FIN is the byte after the last of the data: it goes out with the last segment that was not sent yet, or at once behind the data (Linux
//! `tcp_send_fin`), whatever the congestion window says (`tcp_cwnd_test`), and is lost, reported and repeated as data are.
//! Left out: TIME-WAIT (no pair of ports is used twice), urgent closing, SYN cookies.

use crate::cache::Metrics;
use crate::config::Config;
use crate::connection::{Connection, Failure, State};
use crate::mechanisms::Mechanism;
use crate::segment::{Ecn, Flags, SackBlocks, Segment};
use crate::sender::{Kind, Outgoing, Sender};
use pauseframe_units::Time;

/// Where this side's FIN is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fin {
    /// The application has not closed.
    #[default]
    Open,
    /// It has; the FIN follows what it has still to write.
    Due,
    /// It is the last byte that waits or is in flight.
    Queued,
    /// Acknowledged.
    Acked,
}

/// What only the beginning and the end of a connection need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) fin: Fin,
    /// The peer has closed.
    pub(crate) peer_fin: bool,
    /// The number of the peer's FIN, where it came above a gap.
    peer_fin_at: Option<u32>,
    /// For the end of the handshake.
    pub(crate) inherited: Option<Metrics>,
}

impl Connection {
    pub(crate) fn life_mut(&mut self) -> &mut Life {
        self.life.get_or_insert_default()
    }

    /// The application has nothing more to send or to wait for: after its data the FIN goes out. Without `fin` in the settings an ACK that
    /// is owed goes out at once, as it would beside the FIN (Linux `tcp_send_fin`), so no timer keeps the connection.
    pub fn close(&mut self, _now: Time) {
        if self.state != State::Established {
            return;
        }
        if self.config.fin {
            self.state = State::Closing;
            self.life_mut().fin = Fin::Due;
        } else if self.receiver.is_behind() {
            self.receiver.request_ack();
        }
    }

    /// No application listens here: a SYN is answered with RST (RFC 9293 §3.10.7.1).
    #[must_use]
    pub fn refusing(mut self) -> Connection {
        self.state = State::Refusing;
        self.syn_due = false;
        self
    }

    /// The host is down, or cut off: nothing is answered.
    #[must_use]
    pub fn silent(mut self) -> Connection {
        self.state = State::Silent;
        self.syn_due = false;
        self
    }

    /// Whether both directions have ended with an acknowledged FIN.
    pub fn is_closed(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.fin == Fin::Acked && life.peer_fin)
    }

    /// A segment with SYN, FIN or RST, or one for a connection that is not plainly established.
    #[cold]
    pub(crate) fn on_control_segment(&mut self, segment: &Segment, codepoint: Ecn, now: Time) {
        if segment.flags.has(Flags::RST) {
            self.on_reset(segment);
            return;
        }
        if segment.flags.has(Flags::SYN) || !self.is_open() {
            self.on_handshake_segment(segment, now);
        }
        if segment.flags.has(Flags::SYN) || !self.is_open() {
            return;
        }
        self.on_open_segment(segment, codepoint, now);
        if let Some(life) = &mut self.life
            && life.fin == Fin::Queued
            && self.sender.is_done()
        {
            life.fin = Fin::Acked;
        }
        if segment.flags.has(Flags::FIN) && segment.flags.has(Flags::ACK) {
            self.on_fin(segment.seq.wrapping_add(segment.len));
        }
    }

    /// The peer's FIN has number `seq`; it counts once all before it has come (RFC 9293 §3.10.7.4).
    fn on_fin(&mut self, seq: u32) {
        self.receiver.request_ack();
        let life = self.life_mut();
        if !life.peer_fin {
            life.peer_fin_at = Some(seq);
            self.take_fin();
        }
    }

    /// The peer's FIN counts once nothing before it is missing.
    #[cold]
    pub(crate) fn take_fin(&mut self) {
        let Some(life) = &mut self.life else { return };
        if life.peer_fin_at.is_some_and(|seq| self.receiver.ahead(seq) == 0) {
            (life.peer_fin, life.peer_fin_at) = (true, None);
            self.receiver.on_fin();
            self.receiver.request_ack();
        }
    }

    /// A FIN that waits above a gap is part of what SACK reports.
    pub(crate) fn report_fin(&self, blocks: &mut SackBlocks) {
        let Some(seq) = self.life.as_ref().and_then(|life| life.peer_fin_at) else { return };
        for (_, right) in blocks.blocks.iter_mut().take(usize::from(blocks.count)) {
            if *right == seq {
                *right = seq.wrapping_add(1);
            }
        }
    }

    /// RFC 9293 §3.10.7.3; in a synchronised state only with exactly the next number (RFC 5961 §3.2).
    fn on_reset(&mut self, segment: &Segment) {
        match self.state {
            State::SynSent => {
                if segment.flags.has(Flags::ACK) && segment.ack == self.sender.space.wire(0) {
                    self.fail(Failure::Refused);
                }
            }
            State::SynReceived | State::Established | State::Closing => {
                match self.receiver.ahead(segment.seq) {
                    0 => self.fail(Failure::Reset),
                    _ => self.receiver.request_ack(),
                }
            }
            State::Listen | State::Refusing | State::Silent | State::Failed(_) => {}
        }
    }

    /// What goes out while closing: data, the FIN with the last of them or behind them.
    #[cold]
    pub(crate) fn poll_closing(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        let due = self.life.as_ref().is_some_and(|life| life.fin == Fin::Due);
        let may_go = self.config.has(Mechanism::FinWithData) || self.sender.is_done();
        if due && may_go && self.sender.waiting() == 0 {
            self.sender.append_fin();
            self.life_mut().fin = Fin::Queued;
        }
        let unsent = self.sender.snd_nxt;
        let polled = self.poll_open(now);
        if !self.sender.fin {
            return polled;
        }
        let sends_data = polled.is_some_and(|(segment, _)| segment.len > 0);
        if sends_data && self.sender.snd_nxt > unsent && self.sender.extend_to_fin() {
            return polled.map(|(segment, ecn)| {
                let flags = segment.flags.with(Flags::FIN).with(Flags::PSH);
                (Segment { flags, ..segment }, ecn)
            });
        }
        let (segment, ecn) = if let Some(polled) = polled {
            polled
        } else {
            let fin = self.sender.send_fin(now, &self.config)?;
            self.data_segment(fin, now)
        };
        Some((self.with_fin(segment), ecn))
    }

    /// Takes the byte of the FIN out of a segment that has it.
    fn with_fin(&self, segment: Segment) -> Segment {
        let end = segment.seq.wrapping_add(segment.len);
        if segment.len == 0 || end != self.sender.space.wire(self.sender.snd_end) {
            return segment;
        }
        let len = segment.len - 1;
        let flags = if len == 0 { segment.flags.without(Flags::PSH) } else { segment.flags };
        Segment { len, flags: flags.with(Flags::FIN), ..segment }
    }
}

impl Sender {
    /// The FIN takes the number after the data.
    fn append_fin(&mut self) {
        self.snd_end += 1;
        self.fin = true;
    }

    /// The last data have just gone out, in a full segment: the FIN goes with them. False: there is more, or the FIN is in it.
    fn extend_to_fin(&mut self) -> bool {
        let alone = self.snd_nxt + 1 == self.snd_end;
        if alone {
            self.snd_nxt = self.snd_end;
            self.scoreboard.extend_last(self.snd_end);
        }
        alone
    }

    /// The FIN, when all data are sent and the peer's window has room; the congestion window is not asked.
    fn send_fin(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        let last = self.snd_nxt + 1 == self.snd_end && self.snd_end <= self.snd_una + u64::from(self.snd_wnd);
        if !last {
            return None;
        }
        self.end_pacing_wait();
        let fin = self.transmit_as::<true>(1, Kind::New, self.pipe(), now, config);
        self.arm_after_sending(now, config);
        Some(fin)
    }
}
