//! The three-way handshake (RFC 9293 §3.5) with the negotiation of ECN (RFC 3168 §6.1.1), SACK and MSS.
//!
//! The ACK that ends the handshake travels with the first data, if there are any (RFC 9293 §3.10.7.3). A SYN is a
//! segment without data in the scoreboard, so its RTT sample obeys Karn's rule like any other. A SYN that is
//! sent again still asks for ECN. Left out: simultaneous open, SYN cookies, Fast Open.
// Deviates from RFC 7323 §2.2: the window of a SYN is not held to 64 KiB, so that a flow can begin at line rate.

use crate::config::EcnMode;
use crate::connection::{Connection, Failure, State};
use crate::receiver::Receiver;
use crate::segment::{Ecn, Flags, Options, Segment, SynOptions};
use pauseframe_units::Time;

const ECN_SETUP_SYN: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

impl Connection {
    /// A segment with SYN, or one that arrives before the connection is established.
    #[cold]
    pub(crate) fn on_handshake_segment(&mut self, segment: &Segment, now: Time) {
        let syn = segment.flags.has(Flags::SYN);
        let ack = segment.flags.has(Flags::ACK);
        match self.state {
            State::Listen if syn && !ack => {
                self.negotiate(segment, segment.flags.has(ECN_SETUP_SYN));
                self.state = State::SynReceived;
                self.syn_due = true;
            }
            State::SynSent if syn && ack && self.acknowledges_syn(segment) => {
                // ECE without CWR: an ECN-setup SYN-ACK.
                self.negotiate(segment, segment.flags.0 & ECN_SETUP_SYN.0 == Flags::ECE.0);
                self.establish(now);
                self.receiver.request_ack();
            }
            State::SynReceived if syn && !ack => {
                // The peer has not heard us.
                self.syn_due = true;
            }
            State::SynReceived if !syn && ack && self.acknowledges_syn(segment) => {
                self.sender.set_peer_window(segment.window);
                self.establish(now);
            }
            // The ACK of the SYN-ACK was lost.
            State::Established | State::Closing if syn && ack => self.receiver.request_ack(),
            State::Refusing if syn && !ack => {
                self.receiver = Receiver::new(&self.config, EcnMode::Off, segment.seq, self.config.mss);
                self.syn_due = true;
            }
            _ => {}
        }
    }

    fn acknowledges_syn(&self, segment: &Segment) -> bool {
        segment.ack == self.sender.space.wire(0)
    }

    /// Takes over what the peer's SYN offers, as far as this side offers it too.
    fn negotiate(&mut self, syn: &Segment, ecn: bool) {
        if !ecn {
            self.ecn = EcnMode::Off;
        }
        if let Options::Syn(options) = syn.options {
            self.sender.sack &= options.sack;
            self.sender.window.mss = self.sender.window.mss.min(u32::from(options.mss).max(1));
            self.sender.scoreboard.set_mss(self.sender.window.mss);
        } else {
            self.sender.sack = false;
        }
        self.sender.set_peer_window(syn.window);
        self.receiver = Receiver::new(&self.config, self.ecn, syn.seq, self.sender.window.mss);
        if self.config.timestamps {
            self.note_stamp(syn);
        }
    }

    fn establish(&mut self, now: Time) {
        self.state = State::Established;
        self.syn_due = false;
        if let Some((sent_at, _)) = self.sender.scoreboard.acknowledge(0, 0) {
            let rtt = now.saturating_since(sent_at);
            self.sender.rtt.sample(rtt, &self.config.rto);
            self.sender.note_handshake_rtt(rtt);
        }
        if self.sender.is_done() {
            self.sender.scoreboard.release();
        }
        self.sender.rtt.end_back_off();
        self.sender.retries = 0;
        self.sender.rto_deadline = Time::MAX;
        self.receiver.established(now);
        self.sender.begin_writing(&self.config);
        self.apply_inheritance();
    }

    /// The SYN or SYN-ACK, if it is due.
    #[cold]
    pub(crate) fn poll_handshake(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if !self.syn_due {
            return None;
        }
        self.syn_due = false;
        if self.state == State::Refusing {
            // RFC 9293 §3.10.7.1: the SYN has no ACK, so the RST has number 0.
            let flags = Flags::RST.with(Flags::ACK);
            let segment = Segment { ack: self.receiver.wire(0), flags, ..Segment::default() };
            return Some((segment, Ecn::NotEct));
        }
        if self.sender.scoreboard.is_empty() {
            self.sender.scoreboard.sent(0, now);
        } else {
            self.sender.scoreboard.syn_retransmitted();
            self.stats.retransmits += 1;
        }
        self.sender.rto_deadline = self.sender.rtt.deadline(now, &self.config.rto);
        let wants_ecn = self.ecn != EcnMode::Off;
        let (flags, ack) = if self.state == State::SynSent {
            (if wants_ecn { Flags::SYN.with(ECN_SETUP_SYN) } else { Flags::SYN }, 0)
        } else {
            let flags = Flags::SYN.with(Flags::ACK);
            (if wants_ecn { flags.with(Flags::ECE) } else { flags }, self.receiver.wire(0))
        };
        let window = self.receiver.syn_window();
        let options = SynOptions {
            mss: self.config.mss.min(u32::from(u16::MAX)) as u16,
            sack: self.sender.sack,
            timestamps: self.config.timestamps,
            window_scale: self.receiver.window_scale(),
        };
        let seq = self.sender.space.iss();
        let options = Options::Syn(options);
        let segment = Segment { seq, ack, len: 0, window, flags, options, stamps: self.stamps(now) };
        Some((segment, self.syn_codepoint()))
    }

    /// The timer of the SYN or SYN-ACK expired.
    pub(crate) fn on_syn_timeout(&mut self, now: Time) {
        if self.sender.retries >= self.config.syn_retries {
            self.fail(Failure::SynTimeout);
            return;
        }
        self.sender.retries += 1;
        self.stats.timeouts += 1;
        self.sender.rtt.back_off();
        self.sender.rto_deadline = self.sender.rtt.deadline(now, &self.config.rto);
        self.syn_due = true;
    }
}
