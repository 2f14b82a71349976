//! One endpoint of a TCP connection (RFC 9293), without input and output of its own.
//!
//! Segments go in by [`Connection::on_segment`] and come out of [`Connection::poll_transmit`]; time is an argument. The
//! host that owns the connection polls after every call until nothing comes, and calls
//! [`Connection::on_timeout`] at [`Connection::deadline`].
//!
//! The two directions are joined here: ACKs travel with data where they can. The handshake stands in `handshake.rs`, the
//! end in `closing.rs`. Left out: urgent data, simultaneous open.

use crate::cc::Algorithm;
use crate::closing::Life;
use crate::config::{Config, EcnMode};
use crate::mechanisms::Mechanism;
use crate::receiver::{Merged, Receiver, Taken};
use crate::segment::{Ecn, Flags, Options, Segment, Stamps, clock};
use crate::sender::{Kind, Outgoing, Sender};
use crate::stats::Stats;
use pauseframe_units::{Span, Time};
use std::sync::Arc;

/// Why a connection was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No answer to the SYN or the SYN-ACK after `syn_retries` retransmissions.
    SynTimeout,
    /// No acknowledgement of data (or a FIN) after `retries` consecutive timeouts.
    DataTimeout,
    /// The SYN was answered with RST: nobody listens.
    Refused,
    /// The peer sent RST.
    Reset,
    /// A queue pair: no acknowledgement after `retry_count` timeouts in a row.
    RetriesExhausted,
    /// A queue pair: the receiver was still not ready after `rnr_retry` retries.
    RnrRetriesExhausted,
}

/// RFC 9293 §3.3.2; what FIN leads to is in [`Life`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// The application has closed: data and FIN are still to be acknowledged, and the peer's FIN to come.
    Closing,
    /// Nobody listens.
    Refusing,
    /// Nobody is there.
    Silent,
    Failed(Failure),
}

/// One endpoint of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) config: Arc<Config>,
    pub(crate) state: State,
    /// What was negotiated (or is offered).
    pub(crate) ecn: EcnMode,
    /// A SYN or SYN-ACK is to be sent.
    pub(crate) syn_due: bool,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// For the beginning and the end.
    pub(crate) life: Option<Box<Life>>,
    /// The peer's clock as last seen (RFC 7323 `TS.Recent`).
    ts_recent: u32,
    pub(crate) stats: Stats,
}

impl Connection {
    /// Active open with initial sequence number `iss`: the SYN comes from [`Self::poll_transmit`]. Without handshake
    /// the connection is established at once, with a peer that numbers from `peer_iss` (else unused).
    pub fn open(config: Arc<Config>, iss: u32, peer_iss: u32, _now: Time) -> Connection {
        let state = if config.handshake { State::SynSent } else { State::Established };
        Connection::new(config, iss, peer_iss, state)
    }

    /// Passive open: waits for a SYN. Without handshake: established at once with a peer that numbers from
    /// `peer_iss` (else unused).
    pub fn accept(config: Arc<Config>, iss: u32, peer_iss: u32) -> Connection {
        let state = if config.handshake { State::Listen } else { State::Established };
        Connection::new(config, iss, peer_iss, state)
    }

    fn new(config: Arc<Config>, iss: u32, peer_iss: u32, state: State) -> Connection {
        let mut sender = Sender::new(&config, iss);
        let receiver = Receiver::new(&config, config.ecn, peer_iss, sender.window.mss);
        // Replaced by the peer's; without a handshake both ends have the same settings.
        sender.set_peer_window(receiver.syn_window());
        if state == State::Established {
            sender.begin_writing(&config);
        }
        Connection {
            state,
            ecn: config.ecn,
            syn_due: state == State::SynSent,
            receiver,
            sender,
            life: None,
            ts_recent: 0,
            stats: Stats::default(),
            config,
        }
    }

    /// The application hands over `bytes` more to send; also before the connection is established.
    pub fn send(&mut self, bytes: u64, _now: Time) {
        if self.sender.is_all_sent() && self.config.has(Mechanism::AckOfRequest) {
            self.receiver.part_ack();
        }
        self.sender.append(bytes);
    }

    /// The application takes back what was not sent even once. What was sent is still delivered.
    pub fn stop_sending(&mut self) {
        self.sender.truncate();
    }

    /// A segment arrives with the ECN field `codepoint`.
    #[inline]
    pub fn on_segment(&mut self, segment: &Segment, codepoint: Ecn, now: Time) {
        if self.receiver.merges() {
            self.merge(segment, codepoint, now);
        } else {
            self.take_in(segment, codepoint, now);
        }
    }

    /// The frames of a poll before they are taken in.
    #[cold]
    fn merge(&mut self, segment: &Segment, codepoint: Ecn, now: Time) {
        match self.receiver.merge(segment, codepoint, now) {
            Taken::Held => {}
            Taken::Due(merged) => self.take_merged(merged, now),
            Taken::Passed(before) => {
                if let Some(merged) = before {
                    self.take_merged(merged, now);
                }
                self.take_in(segment, codepoint, now);
            }
        }
    }

    fn take_merged(&mut self, merged: Merged, now: Time) {
        self.stats.ce_received += u64::from(merged.codepoint == Ecn::Ce) * u64::from(merged.frames - 1);
        self.take_in(&merged.segment, merged.codepoint, now);
    }

    #[inline]
    fn take_in(&mut self, segment: &Segment, codepoint: Ecn, now: Time) {
        if self.state != State::Established || segment.flags.0 & Flags::CONTROL.0 != 0 {
            self.on_control_segment(segment, codepoint, now);
        } else {
            self.on_open_segment(segment, codepoint, now);
        }
    }

    /// A segment for an established connection.
    #[inline]
    pub(crate) fn on_open_segment(&mut self, segment: &Segment, codepoint: Ecn, now: Time) {
        // RFC 9293 §3.10.7.4: a segment without ACK is dropped, one that acknowledges what was never sent is answered.
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let ece = segment.flags.has(Flags::ECE) && self.ecn != EcnMode::Off;
        if !self.sender.on_ack(segment, ece, now, &self.config, &mut self.stats) {
            self.receiver.request_ack();
            return;
        }
        if self.config.timestamps {
            self.note_stamp(segment);
        }
        if segment.len > 0 {
            self.stats.ce_received += u64::from(codepoint == Ecn::Ce);
            self.receiver.on_data(segment, codepoint, now, &self.config, &self.sender.rtt);
            if self.life.is_some() {
                self.take_fin();
            }
        }
    }

    /// RFC 7323 §4.3: of segments that begin at or before the last ACK sent.
    pub(crate) fn note_stamp(&mut self, segment: &Segment) {
        if segment.stamps.value != 0 && self.receiver.is_at_last_ack(segment.seq) {
            self.ts_recent = segment.stamps.value;
        }
    }

    /// The timestamps of a segment that leaves at `now`.
    #[inline]
    pub(crate) fn stamps(&mut self, now: Time) -> Stamps {
        if !self.config.timestamps {
            return Stamps::default();
        }
        let value = clock(now);
        self.receiver.ack_stamped(value);
        Stamps { value, echo: self.ts_recent }
    }

    /// The next segment to put on the wire at `now` and its ECN field, or `None` when nothing may be sent.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if self.state != State::Established {
            return if self.state == State::Closing {
                self.poll_closing(now)
            } else {
                self.poll_handshake(now)
            };
        }
        self.poll_open(now)
    }

    #[inline]
    pub(crate) fn poll_open(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if self.receiver.owes_separate_ack() {
            return Some(self.pure_ack(now));
        }
        if self.sender.is_on_detour() {
            return self.poll_on_detour(now);
        }
        if let Some(outgoing) = self.sender.next_new_as::<false>(now, &self.config) {
            return Some(self.data_segment(outgoing, now));
        }
        if self.receiver.owes_ack() {
            return Some(self.pure_ack(now));
        }
        None
    }

    /// The same where the next segment is not simply a new one.
    #[cold]
    fn poll_on_detour(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        match self.sender.next_by_detour(now, &self.config, &mut self.stats) {
            Some(outgoing) => Some(self.data_segment(outgoing, now)),
            None => self.receiver.owes_ack().then(|| self.pure_ack(now)),
        }
    }

    #[inline]
    pub(crate) fn data_segment(&mut self, outgoing: Outgoing, now: Time) -> (Segment, Ecn) {
        let ack = self.receiver.take_ack();
        let mut flags = if ack.ece { Flags::ACK.with(Flags::ECE) } else { Flags::ACK };
        if self.sender.is_pushed(outgoing) {
            flags = flags.with(Flags::PSH);
        }
        let mut codepoint = self.data_codepoint();
        if outgoing.kind == Kind::New {
            if self.sender.cwr_due {
                // RFC 3168 §6.1.2: CWR on the first new segment after the reduction.
                self.sender.cwr_due = false;
                if self.ecn != EcnMode::Off {
                    flags = flags.with(Flags::CWR);
                }
            }
        } else {
            codepoint = self.ack_codepoint();
        }
        let segment = Segment {
            seq: self.sender.space.wire(outgoing.offset),
            ack: self.receiver.wire(ack.offset),
            len: outgoing.len,
            window: self.receiver.window_beside(ack),
            flags,
            options: Options::None,
            stamps: self.stamps(now),
        };
        self.receiver.data_sent(now, &self.config);
        (segment, codepoint)
    }

    fn pure_ack(&mut self, now: Time) -> (Segment, Ecn) {
        let ack = self.receiver.take_ack();
        let options = if self.sender.sack && self.receiver.has_news_for_sack() {
            // RFC 2018 §3: with timestamps there is room for three blocks.
            let mut blocks = self.receiver.sack_blocks(if self.config.timestamps { 3 } else { 4 });
            self.report_fin(&mut blocks);
            Options::Sack(blocks)
        } else {
            Options::None
        };
        let segment = Segment {
            seq: self.sender.space.wire(self.sender.snd_nxt),
            ack: self.receiver.wire(ack.offset),
            len: 0,
            window: self.receiver.window_beside(ack),
            flags: if ack.ece { Flags::ACK.with(Flags::ECE) } else { Flags::ACK },
            options,
            stamps: self.stamps(now),
        };
        (segment, self.ack_codepoint())
    }

    #[inline]
    fn data_codepoint(&self) -> Ecn {
        if self.ecn == EcnMode::Off { Ecn::NotEct } else { Ecn::Ect0 }
    }

    /// RFC 3168 §6.1.4 to §6.1.6: pure ACKs, retransmissions and window probes are not ECT unless the settings say
    /// so.
    #[inline]
    pub(crate) fn ack_codepoint(&self) -> Ecn {
        if self.config.ect_on_ack { self.data_codepoint() } else { Ecn::NotEct }
    }

    /// RFC 3168 §6.1.1: nor are SYN and SYN-ACK.
    pub(crate) fn syn_codepoint(&self) -> Ecn {
        if self.config.ect_on_syn { self.data_codepoint() } else { Ecn::NotEct }
    }

    /// When [`Self::on_timeout`] must be called: the earlier of the retransmission (or persist, or SYN) timer and
    /// what the receiving half waits for.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        let deadline = self.sender.rto_deadline.min(self.receiver.deadline);
        (deadline != Time::MAX).then_some(deadline)
    }

    /// Time has reached `now`; a call before the deadline changes nothing.
    pub fn on_timeout(&mut self, now: Time) {
        if now >= self.receiver.deadline
            && let Some(merged) = self.receiver.end_poll(now)
        {
            self.take_merged(merged, now);
        }
        if now >= self.receiver.deadline {
            self.receiver.on_timeout(now, &self.config, &self.sender.rtt);
        }
        if now < self.sender.rto_deadline {
            return;
        }
        match self.state {
            State::SynSent | State::SynReceived => self.on_syn_timeout(now),
            State::Established | State::Closing => {
                if !self.sender.on_timeout(now, &self.config, &mut self.stats) {
                    self.fail(Failure::DataTimeout);
                }
            }
            State::Listen | State::Refusing | State::Silent | State::Failed(_) => {}
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.state = State::Failed(failure);
        self.syn_due = false;
        self.sender.rto_deadline = Time::MAX;
        self.receiver.deadline = Time::MAX;
    }

    /// In-order bytes handed to this side's application.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Bytes that have come, each counted once, those above a gap included.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Bytes of this side's data that the peer has acknowledged.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.sender.snd_una.min(self.sender.data_end())
    }

    /// Bytes of this side's data that the peer has yet to acknowledge, sent or not: pFabric's rank of a flow.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.sender.remaining()
    }

    /// What the next ACK looks at first: a hint to the memory.
    #[inline]
    pub fn first_in_flight(&self) -> Option<&impl Sized> {
        self.sender.scoreboard.first()
    }

    /// A full segment takes `frame` on the line of this host.
    pub fn set_frame_time(&mut self, frame: Span) {
        self.sender.set_frame_time(frame, &self.config);
    }

    /// Whether frames of a super-packet are still to leave: the host takes them all before others.
    #[inline]
    pub fn is_in_super_packet(&self) -> bool {
        self.sender.offloads() && self.sender.is_leaving()
    }

    /// Whether data can flow both ways.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the handshake is over and the connection has not failed.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Established | State::Closing)
    }

    /// Whether there is nothing to do: nothing unacknowledged, nothing to send, no ACK pending. A connection that waits
    /// for a SYN or has failed is quiescent.
    pub fn is_quiescent(&self) -> bool {
        match self.state {
            State::Listen | State::Silent | State::Failed(_) => true,
            State::Refusing => !self.syn_due,
            State::Closing => self.is_closed() && self.receiver.is_quiescent(),
            State::SynSent | State::SynReceived => false,
            State::Established => self.sender.is_done() && self.receiver.is_quiescent(),
        }
    }

    /// Why the connection was given up, if it was.
    pub fn failure(&self) -> Option<Failure> {
        match self.state {
            State::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.sender.window.cwnd
    }

    /// Slow start threshold in bytes; `u64::MAX` until the first congestion.
    pub fn ssthresh(&self) -> u64 {
        self.sender.window.ssthresh
    }

    /// Smoothed round-trip time, once measured.
    pub fn srtt(&self) -> Option<Span> {
        self.sender.rtt.srtt()
    }

    /// Retransmission timeout now, back-off included.
    pub fn rto(&self) -> Span {
        self.sender.rto(&self.config)
    }

    /// The flow that it carries, for the messages of plug-ins.
    pub fn set_flow(&mut self, flow: u32) {
        self.sender.cc.set_flow(flow);
    }

    /// DCTCP's estimate of the fraction of marked bytes.
    pub fn alpha(&self) -> Option<f64> {
        self.sender.cc.alpha()
    }

    /// Tail loss probes sent.
    pub fn loss_probes(&self) -> u32 {
        self.sender.refined.as_deref().map_or(0, |refined| refined.loss_probes)
    }

    /// Window reductions taken back as needless.
    pub fn undone(&self) -> u32 {
        self.sender.refined.as_deref().map_or(0, |refined| refined.undone)
    }

    /// Bytes sent and not acknowledged.
    pub fn flight_size(&self) -> u64 {
        self.sender.flight_size()
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::{CongestionControlConfig, DctcpConfig};
    use crate::config::{DelayedAckConfig, RtoConfig, RtoForm};

    const MSS: u32 = 1000;

    fn pair() -> [Connection; 2] {
        let config = Arc::new(Config {
            congestion_control: CongestionControlConfig::Dctcp(DctcpConfig::DEFAULT),
            mss: MSS,
            initial_window: 10_000,
            ecn: EcnMode::Dctcp,
            sack: true,
            limited_transmit: true,
            handshake: true,
            rto: RtoConfig {
                initial: Span::from_ms(10),
                min: Span::from_ms(10),
                max: Span::from_secs(1),
                form: RtoForm::Linux,
                ..Config::PLAIN.rto
            },
            delayed_ack: DelayedAckConfig { segments: 2, timeout: Span::from_ms(1) },
            receive_window: 1 << 20,
            ..Config::PLAIN
        });
        [Connection::open(config.clone(), 1, 2, Time::ZERO), Connection::accept(config, 2, 1)]
    }

    /// Passes segments to and fro until both sides are silent; `lost` names data segments by their count.
    fn exchange(ends: &mut [Connection; 2], now: &mut Time, lost: &[usize]) {
        let (mut sent, mut idle) = (0, 0);
        while idle < 2 {
            idle += 1;
            for from in 0..2 {
                *now += Span::from_us(1);
                while let Some((segment, codepoint)) = ends[from].poll_transmit(*now) {
                    idle = 0;
                    sent += usize::from(segment.len > 0);
                    if segment.len == 0 || !lost.contains(&(sent - 1)) {
                        ends[1 - from].on_segment(&segment, codepoint, *now);
                    }
                }
            }
        }
    }

    /// What an application has read and that no segment will carry an ACK for is acknowledged as it closes.
    #[test]
    fn closing_sends_the_ack_that_is_owed() {
        let mut now = Time::ZERO;
        let mut ends = pair();
        exchange(&mut ends, &mut now, &[]);
        ends[0].send(u64::from(MSS), now);
        exchange(&mut ends, &mut now, &[]);
        assert!(ends.iter().all(|end| !end.is_quiescent()), "the ACK is delayed");
        for end in &mut ends {
            end.close(now);
        }
        exchange(&mut ends, &mut now, &[]);
        assert!(ends.iter().all(Connection::is_quiescent));
        assert_eq!(ends[0].acked(), u64::from(MSS));
        // Nothing is owed now.
        for end in &mut ends {
            end.close(now);
        }
        assert!(ends.iter_mut().all(|end| end.poll_transmit(now).is_none()));
    }

    /// The bound that lets a hundred thousand connections fit: 470 bytes, heap included, when idle.
    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() <= 470, "{} bytes", size_of::<Connection>());
        let mut now = Time::ZERO;
        let mut ends = pair();
        // No loss; a loss in the middle; the last but one and the first, so that a retransmission comes last.
        for lost in [&[][..], &[12], &[0, 38]] {
            let before = ends[1].delivered();
            ends[0].send(40_000, now);
            exchange(&mut ends, &mut now, lost);
            while let Some(deadline) = ends.iter().filter_map(Connection::deadline).min() {
                now = now.max(deadline);
                for end in &mut ends {
                    end.on_timeout(now);
                }
                exchange(&mut ends, &mut now, &[]);
            }
            assert_eq!(ends[1].delivered() - before, 40_000);
            for end in &ends {
                assert_eq!(end.sender.scoreboard.heap() + end.receiver.heap(), 0, "after {lost:?}");
            }
        }
        assert!(ends[0].stats().retransmits >= 3, "{:?}", ends[0].stats());
    }

    /// The wire counts modulo 2^32; a connection that has sent 12 GB goes on as before.
    #[test]
    fn offsets_go_beyond_what_the_wire_can_count() {
        let mut ends = pair();
        let mut now = Time::ZERO;
        exchange(&mut ends, &mut now, &[]);
        let far = 3 << 32;
        ends[0].sender.skip_to(far);
        ends[1].receiver.skip_to(far);
        ends[0].send(50_000, now);
        exchange(&mut ends, &mut now, &[7]);
        assert_eq!(ends[1].delivered(), far + 50_000);
        assert_eq!(ends[0].acked(), far + 50_000);
    }
}
