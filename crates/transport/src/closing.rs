//! The end of a connection (RFC 9293 §3.6): FIN both ways, refusal and reset.
//!
//! FIN is a segment of its own, sent when all data are acknowledged, and repeated like data until it is acknowledged.
//! Left out: FIN on a segment with data, TIME-WAIT (no pair of ports is used twice), urgent closing, SYN cookies.

use crate::cache::Metrics;
use crate::connection::{Connection, Failure, State};
use crate::segment::{Ecn, Flags, Options, Segment};
use pauseframe_units::Time;

/// Where this side's FIN is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fin {
    /// The application has not closed.
    #[default]
    Open,
    /// It has; the FIN follows the data.
    Due,
    /// In flight.
    Sent,
    /// It got lost and goes out again.
    Again,
    /// Acknowledged.
    Acked,
}

/// What only the beginning and the end of a connection need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) fin: Fin,
    /// The peer has closed.
    pub(crate) peer_fin: bool,
    /// For the end of the handshake.
    pub(crate) inherited: Option<Metrics>,
}

impl Connection {
    pub(crate) fn life_mut(&mut self) -> &mut Life {
        self.life.get_or_insert_default()
    }

    /// The application has nothing more to send: after its data the FIN goes out. Without `fin` in the settings nothing
    /// happens.
    pub fn close(&mut self, _now: Time) {
        if self.config.fin && self.state == State::Established {
            self.state = State::Closing;
            self.life_mut().fin = Fin::Due;
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
        if let Some(life) = &mut self.life
            && matches!(life.fin, Fin::Sent | Fin::Again)
            && segment.flags.has(Flags::ACK)
            && segment.ack == self.sender.space.wire(self.sender.snd_nxt)
        {
            life.fin = Fin::Acked;
            self.sender.retries = 0;
            self.sender.rto_deadline = Time::MAX;
        }
        self.on_open_segment(segment, codepoint, now);
        if segment.flags.has(Flags::FIN) && segment.flags.has(Flags::ACK) {
            self.on_fin(segment.seq.wrapping_add(segment.len));
        }
    }

    /// The peer's FIN has number `seq`; it counts once all before it has come (RFC 9293 §3.10.7.4).
    fn on_fin(&mut self, seq: u32) {
        self.receiver.request_ack();
        let life = self.life.get_or_insert_default();
        if !life.peer_fin && self.receiver.ahead(seq) == 0 {
            life.peer_fin = true;
            self.receiver.on_fin();
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

    /// What goes out while closing: data first, then the FIN.
    #[cold]
    pub(crate) fn poll_closing(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        match self.life.as_ref().map_or(Fin::Open, |life| life.fin) {
            Fin::Due if self.sender.is_done() => self.sender.space = self.sender.space.after_fin(),
            Fin::Again => self.stats.retransmits += 1,
            _ => return self.poll_open(now),
        }
        self.life_mut().fin = Fin::Sent;
        self.sender.rto_deadline = self.sender.rtt.deadline(now, &self.config.rto);
        let ack = self.receiver.take_ack();
        let flags = Flags::ACK.with(Flags::FIN);
        let segment = Segment {
            seq: self.sender.space.wire(self.sender.snd_nxt).wrapping_sub(1),
            ack: self.receiver.wire(ack.offset),
            len: 0,
            window: self.receiver.window_beside(ack),
            flags: if ack.ece { flags.with(Flags::ECE) } else { flags },
            options: Options::None,
            stamps: self.stamps(now),
        };
        Some((segment, self.ack_codepoint()))
    }

    /// The timer of a FIN expired.
    pub(crate) fn on_fin_timeout(&mut self, now: Time) {
        if self.sender.retries >= self.config.retries {
            self.fail(Failure::DataTimeout);
            return;
        }
        self.sender.retries += 1;
        self.stats.timeouts += 1;
        self.sender.rtt.back_off();
        self.sender.rto_deadline = self.sender.rtt.deadline(now, &self.config.rto);
        self.life_mut().fin = Fin::Again;
    }
}
