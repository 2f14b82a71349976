//! One endpoint of a TCP connection (RFC 9293), sans-IO.
//!
//! Segments enter by [`Connection::on_segment`] and leave by [`Connection::poll_transmit`]; time is an argument. The host polls after every call
//! until it returns `None`, and calls [`Connection::on_timeout`] at [`Connection::deadline`].
//!
//! This file joins the two directions: ACKs are piggybacked on data where possible. `handshake.rs` has the handshake, `closing.rs` the end. Left out:
//! urgent data, simultaneous open.

use crate::cc::CongestionAlgorithm;
use crate::closing::OpeningAndClosingState;
use crate::config::{EcnMode, TcpConfig};
use crate::mechanisms::Mechanism;
use crate::receiver::{GroResult, MergedSegment, Receiver};
use crate::segment::{EcnCodepoint, Segment, TcpFlags, TcpOptions, Timestamps, timestamp_at};
use crate::sender::{OutgoingSegment, SegmentKindForEcn, Sender};
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};
use std::sync::Arc;

/// Why a connection failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionFailure {
    /// No answer to the SYN or the SYN-ACK after `syn_retries` retransmissions.
    SynTimeout,
    /// No acknowledgement of data (or a FIN) after `retries` consecutive timeouts.
    DataTimeout,
    /// The SYN was answered with RST: no application listens.
    Refused,
    /// The peer sent RST.
    Reset,
    /// A queue pair: no acknowledgement after `retry_count` timeouts in a row.
    RetriesExhausted,
    /// A queue pair: the receiver was still not ready after `rnr_retry` retries.
    RnrRetriesExhausted,
}

/// Connection states (RFC 9293 §3.3.2); [`OpeningAndClosingState`] has those after FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionState {
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// The application has closed; data, FIN or the peer's FIN are still outstanding.
    Closing,
    /// No application listens.
    Refusing,
    /// The host is down: it answers nothing.
    Silent,
    Failed(ConnectionFailure),
}

/// One endpoint of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) config: Arc<TcpConfig>,
    pub(crate) state: ConnectionState,
    /// The negotiated (or offered) ECN mode.
    pub(crate) ecn: EcnMode,
    /// A SYN or SYN-ACK is to be sent.
    pub(crate) syn_due: bool,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// State for the beginning and the end of the connection.
    pub(crate) life: Option<Box<OpeningAndClosingState>>,
    /// The peer's clock as last seen (RFC 7323 `TS.Recent`).
    ts_recent: u32,
    pub(crate) stats: ConnectionStats,
}

impl Connection {
    /// Active open with initial sequence number `iss`: the SYN comes from [`Self::poll_transmit`]. Without handshake
    /// the connection is established at once, with a peer that numbers from `peer_iss` (else unused).
    pub fn open(config: Arc<TcpConfig>, iss: u32, peer_iss: u32, _now: Time) -> Connection {
        let state = if config.handshake { ConnectionState::SynSent } else { ConnectionState::Established };
        Connection::new(config, iss, peer_iss, state)
    }

    /// Passive open: waits for a SYN. Without handshake: established at once with a peer that numbers from
    /// `peer_iss` (else unused).
    pub fn accept(config: Arc<TcpConfig>, iss: u32, peer_iss: u32) -> Connection {
        let state = if config.handshake { ConnectionState::Listen } else { ConnectionState::Established };
        Connection::new(config, iss, peer_iss, state)
    }

    fn new(config: Arc<TcpConfig>, iss: u32, peer_iss: u32, state: ConnectionState) -> Connection {
        let mut sender = Sender::new(&config, iss);
        let opens = state == ConnectionState::SynSent;
        let receiver = Receiver::new(&config, config.ecn, peer_iss, sender.window.mss, opens);
        // Replaced by the peer's value; without a handshake both endpoints have the same settings.
        sender.set_peer_window(receiver.syn_window());
        if state == ConnectionState::Established {
            sender.begin_delivery_samples(Time::ZERO, &config);
            sender.begin_writes(&config);
        }
        Connection {
            state,
            ecn: config.ecn,
            syn_due: state == ConnectionState::SynSent,
            receiver,
            sender,
            life: None,
            ts_recent: 0,
            stats: ConnectionStats::default(),
            config,
        }
    }

    /// Whether segments carry timestamps.
    #[inline(always)]
    pub fn has_timestamps(&self) -> bool {
        self.config.timestamps
    }

    /// Bytes of MPTCP's option on a segment with `len` bytes of data.
    #[inline(always)]
    pub fn dss_bytes(&self, len: u32) -> u32 {
        self.config.dss_bytes(len)
    }

    /// Queues `bytes` of application data; allowed before the connection is established.
    pub fn write(&mut self, bytes: u64, now: Time) {
        self.sender.check_application_limit(now);
        if self.sender.is_all_sent() && self.config.is_enabled(Mechanism::AckOfRequest) {
            self.receiver.send_due_ack();
        }
        self.sender.write(bytes);
    }

    /// Discards data that were never sent. Data already sent are still delivered.
    pub fn discard_unsent(&mut self) {
        self.sender.discard_unsent();
    }

    /// Processes a segment with the ECN field `codepoint`.
    #[inline]
    pub fn on_segment(&mut self, segment: &Segment, codepoint: EcnCodepoint, now: Time) {
        if self.receiver.is_gro_enabled() {
            self.gro_receive(segment, codepoint, now);
        } else {
            self.process_segment(segment, codepoint, now);
        }
        self.debug_check();
    }

    /// Merges frames of a NIC poll before processing (GRO).
    #[cold]
    fn gro_receive(&mut self, segment: &Segment, codepoint: EcnCodepoint, now: Time) {
        match self.receiver.gro_receive(segment, codepoint, now) {
            GroResult::Held => {}
            GroResult::Due(merged) => self.process_merged(merged, now),
            GroResult::Passed(before) => {
                if let Some(merged) = before {
                    self.process_merged(merged, now);
                }
                self.process_segment(segment, codepoint, now);
            }
        }
    }

    fn process_merged(&mut self, merged: MergedSegment, now: Time) {
        self.stats.ce_received +=
            u64::from(merged.codepoint == EcnCodepoint::Ce) * u64::from(merged.frames - 1);
        self.process_segment(&merged.segment, merged.codepoint, now);
    }

    #[inline]
    fn process_segment(&mut self, segment: &Segment, codepoint: EcnCodepoint, now: Time) {
        if self.state != ConnectionState::Established || segment.flags.0 & TcpFlags::CONTROL_FLAGS.0 != 0 {
            self.on_control_segment(segment, codepoint, now);
        } else {
            self.on_established_segment(segment, codepoint, now);
        }
    }

    /// Processes a segment for an established connection. False: it was dropped.
    #[inline]
    pub(crate) fn on_established_segment(
        &mut self,
        segment: &Segment,
        codepoint: EcnCodepoint,
        now: Time,
    ) -> bool {
        // RFC 9293 §3.10.7.4: a segment without ACK is dropped; an old one without data, such as Linux's window probe, and an ACK of unsent data
        // are answered.
        if !segment.flags.contains(TcpFlags::ACK) {
            return false;
        }
        if segment.len == 0
            && segment.flags.0 & TcpFlags::CONTROL_FLAGS.0 == 0
            && self.receiver.begins_before_last_ack(segment.seq)
        {
            self.receiver.answer_old_segment(now);
            return false;
        }
        let ece = segment.flags.contains(TcpFlags::ECE) && self.ecn != EcnMode::Off;
        if !self.sender.on_ack(segment, ece, now, &self.config, &mut self.stats) {
            // Linux drops it without a word (`tcp_ack`).
            if !self.config.recovery.count_packets {
                self.receiver.request_ack();
            }
            return false;
        }
        if self.config.timestamps {
            self.update_ts_recent(segment);
        }
        if segment.len > 0 {
            self.stats.ce_received += u64::from(codepoint == EcnCodepoint::Ce);
            self.receiver.on_data(segment, codepoint, now, &self.config, &self.sender.rtt);
            if self.life.is_some() {
                self.process_peer_fin();
            }
        }
        true
    }

    /// Updates TS.Recent from segments that begin at or before the last ACK sent (RFC 7323 §4.3).
    pub(crate) fn update_ts_recent(&mut self, segment: &Segment) {
        if segment.stamps.value != 0 && self.receiver.begins_by_last_ack(segment.seq) {
            self.ts_recent = segment.stamps.value;
        }
    }

    /// The timestamps of a segment that leaves at `now`.
    #[inline]
    pub(crate) fn stamp_segment(&mut self, now: Time) -> Timestamps {
        if !self.config.timestamps {
            return Timestamps::default();
        }
        let value = timestamp_at(now);
        self.receiver.on_timestamp_sent(value);
        Timestamps { value, echo: self.ts_recent }
    }

    /// The next segment to put on the wire at `now` and its ECN field, or `None` when nothing may be sent.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<(Segment, EcnCodepoint)> {
        let next = self.next_segment(now);
        self.debug_check();
        next
    }

    #[inline]
    fn next_segment(&mut self, now: Time) -> Option<(Segment, EcnCodepoint)> {
        if self.state != ConnectionState::Established {
            return if self.state == ConnectionState::Closing {
                self.poll_closing(now)
            } else {
                self.poll_handshake(now)
            };
        }
        self.poll_established(now)
    }

    #[inline]
    pub(crate) fn poll_established(&mut self, now: Time) -> Option<(Segment, EcnCodepoint)> {
        if self.receiver.needs_separate_ack() {
            return Some(self.build_pure_ack(now));
        }
        if self.sender.needs_slow_path() {
            return self.poll_slow_path(now);
        }
        if let Some(outgoing) = self.sender.next_new_segment_weighted::<false>(now, &self.config) {
            return Some(self.build_data(outgoing, now));
        }
        if self.receiver.owes_ack() {
            return Some(self.build_pure_ack(now));
        }
        None
    }

    /// [`Self::poll_established`] if the next segment is not simply a new one.
    #[cold]
    fn poll_slow_path(&mut self, now: Time) -> Option<(Segment, EcnCodepoint)> {
        match self.sender.next_on_slow_path(now, &self.config, &mut self.stats) {
            Some(outgoing) => Some(self.build_data(outgoing, now)),
            None => self.receiver.owes_ack().then(|| self.build_pure_ack(now)),
        }
    }

    #[inline]
    pub(crate) fn build_data(&mut self, outgoing: OutgoingSegment, now: Time) -> (Segment, EcnCodepoint) {
        if outgoing.len == 0 {
            return self.build_window_probe(now);
        }
        let ack = self.receiver.take_ack();
        let mut flags = if ack.ece { TcpFlags::ACK.with(TcpFlags::ECE) } else { TcpFlags::ACK };
        if self.sender.take_push(outgoing) {
            flags = flags.with(TcpFlags::PSH);
        }
        let mut codepoint = self.data_codepoint();
        if outgoing.kind == SegmentKindForEcn::New {
            if self.sender.cwr_due {
                // RFC 3168 §6.1.2: CWR on the first new segment after the reduction.
                self.sender.cwr_due = false;
                if self.ecn != EcnMode::Off {
                    flags = flags.with(TcpFlags::CWR);
                }
            }
        } else {
            codepoint = self.pure_ack_codepoint();
        }
        let segment = Segment {
            seq: self.sender.space.wire_seq(outgoing.offset),
            ack: self.receiver.wire_seq(ack.offset),
            len: outgoing.len,
            window: self.receiver.window_for_ack(ack),
            flags,
            options: TcpOptions::None,
            stamps: self.stamp_segment(now),
        };
        self.receiver.on_data_sent(now, &self.config);
        (segment, codepoint)
    }

    fn build_pure_ack(&mut self, now: Time) -> (Segment, EcnCodepoint) {
        // RFC 2018 §3: with timestamps there is room for three blocks, beside MPTCP's option for one.
        let most = match (self.config.timestamps, self.config.subflows) {
            (false, 1) => 4,
            (true, 2..) => 1,
            _ => 3,
        };
        let early = self.receiver.take_early_report(most);
        let ack = early.map_or_else(|| self.receiver.take_ack(), |(ack, _)| ack);
        let options = if self.sender.sack && (early.is_some() || self.receiver.needs_sack()) {
            let newest = || self.receiver.build_sack_blocks(most);
            let mut blocks = early.map_or_else(newest, |(_, blocks)| blocks);
            self.sack_fin(&mut blocks);
            TcpOptions::Sack(blocks)
        } else {
            TcpOptions::None
        };
        let segment = Segment {
            seq: self.sender.space.wire_seq(self.sender.snd_nxt),
            ack: self.receiver.wire_seq(ack.offset),
            len: 0,
            window: self.receiver.window_for_ack(ack),
            flags: if ack.ece { TcpFlags::ACK.with(TcpFlags::ECE) } else { TcpFlags::ACK },
            options,
            stamps: self.stamp_segment(now),
        };
        (segment, self.pure_ack_codepoint())
    }

    /// `tcp_xmit_probe_skb`: an old number, so that the peer answers.
    #[cold]
    fn build_window_probe(&mut self, now: Time) -> (Segment, EcnCodepoint) {
        let (probe, codepoint) = self.build_pure_ack(now);
        let seq = self.sender.space.wire_seq(self.sender.snd_una).wrapping_sub(1);
        (Segment { seq, ..probe }, codepoint)
    }

    #[inline]
    fn data_codepoint(&self) -> EcnCodepoint {
        if self.ecn == EcnMode::Off { EcnCodepoint::NotEct } else { EcnCodepoint::Ect0 }
    }

    /// RFC 3168 §6.1.4 to §6.1.6: pure ACKs, retransmissions and window probes are not ECT unless the settings say
    /// so.
    #[inline]
    pub(crate) fn pure_ack_codepoint(&self) -> EcnCodepoint {
        if self.config.ect_on_ack { self.data_codepoint() } else { EcnCodepoint::NotEct }
    }

    /// RFC 3168 §6.1.1: SYN and SYN-ACK are not ECT either, unless the settings say so.
    pub(crate) fn syn_codepoint(&self) -> EcnCodepoint {
        if self.config.ect_on_syn { self.data_codepoint() } else { EcnCodepoint::NotEct }
    }

    /// When [`Self::on_timeout`] must be called: the earliest of the retransmission (or persist, or SYN) timer, the receiver's timer and, while data
    /// are left to send or to acknowledge, that of the congestion control.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        let deadline =
            self.sender.rto_deadline.min(self.receiver.deadline).min(self.sender.control_deadline());
        (deadline != Time::MAX).then_some(deadline)
    }

    /// Handles the timers due at `now`; a call before the deadline has no effect.
    pub fn on_timeout(&mut self, now: Time) {
        self.process_timers(now);
        self.debug_check();
    }

    #[inline]
    fn process_timers(&mut self, now: Time) {
        if now >= self.receiver.deadline
            && let Some(merged) = self.receiver.end_gro_poll(now)
        {
            self.process_merged(merged, now);
        }
        if now >= self.receiver.deadline {
            self.receiver.on_timeout(now, &self.config, &self.sender.rtt);
        }
        self.sender.run_control_timer(now);
        if now < self.sender.rto_deadline {
            return;
        }
        match self.state {
            ConnectionState::SynSent | ConnectionState::SynReceived => self.on_syn_timeout(now),
            ConnectionState::Established | ConnectionState::Closing => {
                if !self.sender.on_timeout(now, &self.config, &mut self.stats) {
                    self.fail(ConnectionFailure::DataTimeout);
                }
            }
            ConnectionState::Listen
            | ConnectionState::Refusing
            | ConnectionState::Silent
            | ConnectionState::Failed(_) => {}
        }
    }

    pub(crate) fn fail(&mut self, failure: ConnectionFailure) {
        self.state = ConnectionState::Failed(failure);
        self.syn_due = false;
        self.sender.rto_deadline = Time::MAX;
        self.receiver.deadline = Time::MAX;
    }

    /// In-order bytes handed to this side's application.
    #[inline]
    pub fn delivered_bytes(&self) -> u64 {
        self.receiver.delivered_bytes()
    }

    /// Received bytes, each counted once, including those above a gap.
    #[inline]
    pub fn received_bytes(&self) -> u64 {
        self.receiver.received_bytes()
    }

    /// Bytes of this side's data that the peer has acknowledged.
    #[inline]
    pub fn acked_bytes(&self) -> u64 {
        self.sender.snd_una.min(self.sender.data_end())
    }

    /// Bytes of this side's data that the peer has yet to acknowledge, sent or not: pFabric's rank of a flow.
    #[inline]
    pub fn unacked_bytes(&self) -> u64 {
        self.sender.unacked_bytes()
    }

    /// The oldest segment in flight, for prefetching.
    #[inline]
    pub fn oldest_in_flight(&self) -> Option<&impl Sized> {
        self.sender.scoreboard.first_segment()
    }

    /// Sets the transmission time of a full segment at this host.
    pub fn set_frame_time(&mut self, frame: Span) {
        self.sender.set_frame_time(frame, &self.config);
    }

    /// Whether frames of a super-packet are still to be sent: the host takes all of them before other frames.
    #[inline]
    pub fn is_mid_super_packet(&self) -> bool {
        self.sender.uses_super_packets() && self.sender.is_mid_super_packet()
    }

    /// Bytes that the socket may have in its host's queues: a millisecond of its rate (Linux `tcp_small_queue_check`).
    pub fn small_queue_share(&self) -> u64 {
        self.sender.small_queue_share(&self.config)
    }

    /// Whether data can flow in both directions.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.state == ConnectionState::Established
    }

    /// Whether the handshake is over and the connection has not failed.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, ConnectionState::Established | ConnectionState::Closing)
    }

    /// Whether nothing is pending: no unacknowledged data, nothing to send, no ACK due. A connection that waits for a SYN or has failed is quiescent.
    pub fn is_quiescent(&self) -> bool {
        match self.state {
            ConnectionState::Listen | ConnectionState::Silent | ConnectionState::Failed(_) => true,
            ConnectionState::Refusing => !self.syn_due,
            ConnectionState::Closing => self.is_closed() && self.receiver.is_quiescent(),
            ConnectionState::SynSent | ConnectionState::SynReceived => false,
            ConnectionState::Established => self.sender.is_all_acked() && self.receiver.is_quiescent(),
        }
    }

    /// Why the connection failed, if it did.
    pub fn failure(&self) -> Option<ConnectionFailure> {
        match self.state {
            ConnectionState::Failed(failure) => Some(failure),
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

    /// Current retransmission timeout, including back-off.
    pub fn rto(&self) -> Span {
        self.sender.rto(&self.config)
    }

    /// Tells a plug-in the flow of its connection, and what decides its random numbers.
    pub fn identify_plugin(&mut self, flow: u32, seed: u64) {
        self.sender.cc.identify_plugin(flow, seed);
    }

    /// DCTCP's estimate of the fraction of marked bytes.
    pub fn dctcp_alpha(&self) -> Option<f64> {
        self.sender.cc.dctcp_alpha()
    }

    /// Tail loss probes sent.
    pub fn tlp_count(&self) -> u32 {
        self.sender.refined.as_deref().map_or(0, |refined| refined.loss_probes)
    }

    /// Window reductions undone as spurious.
    pub fn undo_count(&self) -> u32 {
        self.sender.refined.as_deref().map_or(0, |refined| refined.undone)
    }

    /// Bytes sent and not acknowledged.
    pub fn flight_size(&self) -> u64 {
        self.sender.flight_size()
    }

    /// The counters.
    pub fn stats(&self) -> &ConnectionStats {
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
        let config = Arc::new(TcpConfig {
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
                ..TcpConfig::PLAIN.rto
            },
            delayed_ack: DelayedAckConfig { segments: 2, timeout: Span::from_ms(1) },
            receive_window: 1 << 20,
            ..TcpConfig::PLAIN
        });
        [Connection::open(config.clone(), 1, 2, Time::ZERO), Connection::accept(config, 2, 1)]
    }

    /// Exchanges segments until both sides are silent; `lost` lists the data segments to drop, by number.
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

    /// Closing sends the ACK for data that the application has read and that no segment will acknowledge.
    #[test]
    fn closing_sends_the_ack_that_is_owed() {
        let mut now = Time::ZERO;
        let mut ends = pair();
        exchange(&mut ends, &mut now, &[]);
        ends[0].write(u64::from(MSS), now);
        exchange(&mut ends, &mut now, &[]);
        assert!(ends.iter().all(|end| !end.is_quiescent()), "the ACK is delayed");
        for end in &mut ends {
            end.close(now);
        }
        exchange(&mut ends, &mut now, &[]);
        assert!(ends.iter().all(Connection::is_quiescent));
        assert_eq!(ends[0].acked_bytes(), u64::from(MSS));
        // No ACK is due now.
        for end in &mut ends {
            end.close(now);
        }
        assert!(ends.iter_mut().all(|end| end.poll_transmit(now).is_none()));
    }

    /// An idle connection takes at most 470 bytes, heap included, so that a hundred thousand fit in memory.
    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() <= 470, "{} bytes", size_of::<Connection>());
        let mut now = Time::ZERO;
        let mut ends = pair();
        // No loss; one in the middle; the last but one and the first, so that a retransmission comes last; an early one, so that
        // new data come last.
        for lost in [&[][..], &[12], &[0, 38], &[1]] {
            let before = ends[1].delivered_bytes();
            ends[0].write(40_000, now);
            exchange(&mut ends, &mut now, lost);
            while let Some(deadline) = ends.iter().filter_map(Connection::deadline).min() {
                now = now.max(deadline);
                for end in &mut ends {
                    end.on_timeout(now);
                }
                exchange(&mut ends, &mut now, &[]);
            }
            assert_eq!(ends[1].delivered_bytes() - before, 40_000);
            for end in &ends {
                assert_eq!(
                    end.sender.scoreboard.heap_bytes() + end.receiver.heap_bytes(),
                    0,
                    "after {lost:?}"
                );
            }
        }
        assert!(ends[0].stats().retransmits >= 3, "{:?}", ends[0].stats());
    }

    /// Sequence numbers wrap at 2^32; a connection continues normally after 12 GB.
    #[test]
    fn offsets_go_beyond_what_the_wire_can_count() {
        let mut ends = pair();
        let mut now = Time::ZERO;
        exchange(&mut ends, &mut now, &[]);
        let far = 3 << 32;
        ends[0].sender.skip_to(far);
        ends[1].receiver.skip_to(far);
        ends[0].write(50_000, now);
        exchange(&mut ends, &mut now, &[7]);
        assert_eq!(ends[1].delivered_bytes(), far + 50_000);
        assert_eq!(ends[0].acked_bytes(), far + 50_000);
    }
}
