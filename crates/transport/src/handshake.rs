//! The three-way handshake (RFC 9293 §3.5) with the negotiation of ECN (RFC 3168 §6.1.1), SACK and MSS.
//!
//! The ACK that ends the handshake is piggybacked on the first data, if there are any (RFC 9293 §3.10.7.3), where Linux
//! sends it alone. The scoreboard treats a SYN as a segment
//! without data, so Karn's rule applies to its RTT sample. A retransmitted SYN still requests ECN. Left out: simultaneous open, SYN cookies, Fast
//! Open.
// Deviates from RFC 7323 §2.2: the window of a SYN is not held to 64 KiB, so that a flow can begin at line rate.

use crate::config::{EcnMode, RtoForm};
use crate::connection::{Connection, ConnectionFailure, ConnectionState};
use crate::receiver::Receiver;
use crate::segment::{EcnCodepoint, Segment, SynOptions, TcpFlags, TcpOptions, timestamp_at};
use pauseframe_units::{Span, Time};

/// The timestamps option, padded to words of four bytes (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u32 = 12;
const ECN_SETUP_SYN: TcpFlags = TcpFlags(TcpFlags::ECE.0 | TcpFlags::CWR.0);

impl Connection {
    /// Processes a segment with SYN, or one before the connection is established.
    #[cold]
    pub(crate) fn on_handshake(&mut self, segment: &Segment, now: Time) {
        let syn = segment.flags.contains(TcpFlags::SYN);
        let ack = segment.flags.contains(TcpFlags::ACK);
        match self.state {
            ConnectionState::Listen if syn && !ack => {
                self.negotiate_options(segment, segment.flags.contains(ECN_SETUP_SYN));
                self.state = ConnectionState::SynReceived;
                self.syn_due = true;
            }
            ConnectionState::SynSent if syn && ack && self.acks_syn(segment) => {
                // ECE without CWR: an ECN-setup SYN-ACK.
                self.negotiate_options(segment, segment.flags.0 & ECN_SETUP_SYN.0 == TcpFlags::ECE.0);
                self.enter_established(segment, now);
                self.receiver.request_ack();
            }
            ConnectionState::SynReceived if syn && !ack => {
                // The peer has not received our SYN.
                self.syn_due = true;
            }
            ConnectionState::SynReceived if !syn && ack && self.acks_syn(segment) => {
                self.sender.set_peer_window(segment.window);
                self.enter_established(segment, now);
            }
            // The ACK of the SYN-ACK was lost.
            ConnectionState::Established | ConnectionState::Closing if syn && ack => {
                self.receiver.request_ack();
            }
            ConnectionState::Refusing if syn && !ack => {
                self.receiver =
                    Receiver::new(&self.config, EcnMode::Off, segment.seq, self.config.mss, false);
                self.syn_due = true;
            }
            _ => {}
        }
    }

    fn acks_syn(&self, segment: &Segment) -> bool {
        segment.ack == self.sender.space.wire_seq(0)
    }

    /// Accepts the options of the peer's SYN that this side offers too.
    fn negotiate_options(&mut self, syn: &Segment, ecn: bool) {
        if !ecn {
            self.ecn = EcnMode::Off;
        }
        if let TcpOptions::Syn(options) = syn.options {
            self.sender.sack &= options.sack;
            let most = u32::from(options.mss).saturating_sub(self.option_bytes()).max(1);
            self.sender.window.mss = self.sender.window.mss.min(most);
            self.sender.scoreboard.set_mss(self.sender.window.mss);
        } else {
            self.sender.sack = false;
        }
        self.sender.set_peer_window(syn.window);
        let opens = self.state == ConnectionState::SynSent;
        self.receiver = Receiver::new(&self.config, self.ecn, syn.seq, self.sender.window.mss, opens);
        if self.config.timestamps {
            self.update_ts_recent(syn);
        }
    }

    /// Bytes of the options of each data segment, which the MSS option does not leave out (RFC 6691 §2).
    fn option_bytes(&self) -> u32 {
        let timestamps = if self.config.timestamps { TIMESTAMPS_BYTES } else { 0 };
        timestamps + self.config.dss_bytes(self.config.mss)
    }

    fn enter_established(&mut self, segment: &Segment, now: Time) {
        self.state = ConnectionState::Established;
        self.syn_due = false;
        self.cut_initial_window(segment);
        match self.handshake_rtt(segment, now) {
            Some(rtt) => {
                self.sender.rtt.add_sample(rtt, &self.config.rto);
                self.sender.record_handshake_rtt(rtt);
            }
            None => self.sender.rtt.fall_back(&self.config.rto),
        }
        if self.sender.is_all_acked() {
            self.sender.scoreboard.release_memory();
        }
        self.sender.rtt.end_back_off();
        self.sender.retries = 0;
        self.sender.rto_deadline = Time::MAX;
        self.receiver.on_established(now);
        self.sender.begin_delivery_samples(now, &self.config);
        self.sender.begin_writes(&self.config);
    }

    /// The round-trip time of the SYN or SYN-ACK. After a repetition only a timestamp tells which of them was answered.
    fn handshake_rtt(&mut self, segment: &Segment, now: Time) -> Option<Span> {
        match self.sender.scoreboard.remove_acked(0, 0) {
            Some((sent_at, _)) => Some(now.saturating_since(sent_at)),
            None => segment.stamps.round_trip(now).filter(|_| self.config.times_by_stamps()),
        }
    }

    /// One segment instead of the initial window after lost SYNs (RFC 5681 §3.1): Linux after the second repetition, because it waits for 1 s only
    /// (`tcp_init_transfer`), and not if the timestamp shows that the first SYN was answered (`tcp_try_undo_spurious_syn`); FreeBSD after the
    /// first (`cc_conn_init`).
    fn cut_initial_window(&mut self, segment: &Segment) {
        let first_sent = self.sender.scoreboard.head_sent_at();
        let first_answered = first_sent.is_some_and(|at| segment.stamps.echo == timestamp_at(at));
        let is_freebsd = self.config.rto.form == RtoForm::Freebsd;
        let enough = self.stats.retransmits > 1 || is_freebsd;
        if self.sender.retries > 0 && enough && !first_answered {
            self.sender.window.cwnd = u64::from(self.sender.window.mss);
        }
    }

    /// The SYN or SYN-ACK, if it is due.
    #[cold]
    pub(crate) fn poll_handshake(&mut self, now: Time) -> Option<(Segment, EcnCodepoint)> {
        if !self.syn_due {
            return None;
        }
        self.syn_due = false;
        if self.state == ConnectionState::Refusing {
            // RFC 9293 §3.10.7.1: the SYN has no ACK, so the RST has number 0.
            let flags = TcpFlags::RST.with(TcpFlags::ACK);
            let segment = Segment { ack: self.receiver.wire_seq(0), flags, ..Segment::default() };
            return Some((segment, EcnCodepoint::NotEct));
        }
        if self.sender.scoreboard.is_empty() {
            self.sender.scoreboard.record_sent(0, now);
        } else {
            self.sender.scoreboard.record_syn_retransmission();
            self.stats.retransmits += 1;
        }
        self.sender.rto_deadline = self.sender.rtt.rto_deadline(now, &self.config.rto);
        let wants_ecn = self.ecn != EcnMode::Off;
        let (flags, ack) = if self.state == ConnectionState::SynSent {
            (if wants_ecn { TcpFlags::SYN.with(ECN_SETUP_SYN) } else { TcpFlags::SYN }, 0)
        } else {
            let flags = TcpFlags::SYN.with(TcpFlags::ACK);
            (if wants_ecn { flags.with(TcpFlags::ECE) } else { flags }, self.receiver.wire_seq(0))
        };
        let window = self.receiver.syn_window();
        let options = SynOptions {
            mss: (self.config.mss + self.option_bytes()).min(u32::from(u16::MAX)) as u16,
            sack: self.sender.sack,
            timestamps: self.config.timestamps,
            window_scale: self.receiver.window_scale(),
        };
        let seq = self.sender.space.iss();
        let options = TcpOptions::Syn(options);
        let segment = Segment { seq, ack, len: 0, window, flags, options, stamps: self.stamp_segment(now) };
        Some((segment, self.syn_codepoint()))
    }

    /// The timer of the SYN or SYN-ACK expired.
    pub(crate) fn on_syn_timeout(&mut self, now: Time) {
        if self.sender.retries >= self.config.syn_retries {
            self.fail(ConnectionFailure::SynTimeout);
            return;
        }
        self.sender.retries += 1;
        self.stats.timeouts += 1;
        if self.state == ConnectionState::SynSent {
            self.sender.rtt.back_off_syn(&self.config.rto);
        } else {
            self.sender.rtt.double_rto();
        }
        self.sender.rto_deadline = self.sender.rtt.rto_deadline(now, &self.config.rto);
        self.syn_due = true;
    }
}
