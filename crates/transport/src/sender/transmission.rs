//! Transmission by the sender: new data within the windows, probes of a closed window, retransmissions in order, and timeouts.
//!
//! A segment goes out if pipe + its length is at most cwnd, and always if the pipe is empty. A short last segment is sent at once, unless
//! `writing.rs` delays it. If the peer's window has room for only a part of a segment, that part is sent when nothing is in flight, else the sender
//! waits (RFC 9293 §3.8.6.2.1). A zero window is probed with a byte (§3.8.6.1). Retransmissions ignore the peer's window, which may have shrunk.
//!
//! Linux waits with that part for the probe timer too, and probes a zero window without data, one number below what is acknowledged
//! (`tcp_write_wakeup`). Its interval does not follow a smaller `rto_min` (`tcp_probe0_base`).

use super::{MUST_RETRANSMIT, OutgoingSegment, REFINED, SegmentKindForEcn, Sender};
use crate::cc::CongestionAlgorithm;
use crate::config::TcpConfig;
use crate::recovery::RecoveryPhase;
use crate::scoreboard::Retransmission;
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};

/// Linux `TCP_RTO_MIN`: the shortest interval of window probes.
const MIN_PROBE_INTERVAL: Span = Span::from_ms(200);

impl Sender {
    /// Whether the next segment is not simply a new one ([`Self::next_new_segment`]) but comes from [`Self::next_on_slow_path`].
    #[inline]
    pub(crate) fn needs_slow_path(&self) -> bool {
        self.detour != 0 || matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss)
    }

    /// The next data segment, if one may be sent now.
    #[cold]
    pub(crate) fn next_on_slow_path(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<OutgoingSegment> {
        if self.detour & REFINED != 0 {
            return self.next_refined_segment(now, config, stats);
        }
        self.next_in_recovery(now, config, stats)
    }

    /// The next segment without the refinements of [`Self::next_refined_segment`].
    #[inline]
    pub(crate) fn next_plain_segment(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<OutgoingSegment> {
        if self.must_retransmit() || matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss) {
            return self.next_in_recovery(now, config, stats);
        }
        self.next_new_segment(now, config)
    }

    /// The flight size as it counts in the window.
    #[inline]
    fn flight_space<const PACKETS: bool>(&self) -> u64 {
        let bytes = self.flight_size();
        if PACKETS { self.scoreboard.flight_space(bytes) } else { bytes }
    }

    #[inline]
    fn segment_space<const PACKETS: bool>(&self, len: u64) -> u64 {
        if PACKETS { self.scoreboard.segment_space(len) } else { len }
    }

    /// A new segment, if the windows have room.
    #[inline]
    pub(crate) fn next_new_segment(&mut self, now: Time, config: &TcpConfig) -> Option<OutgoingSegment> {
        self.next_new_segment_weighted::<true>(now, config)
    }

    /// The next new segment. `PACKETS`: refinements may be on, and windows count packets.
    #[inline]
    pub(crate) fn next_new_segment_weighted<const PACKETS: bool>(
        &mut self,
        now: Time,
        config: &TcpConfig,
    ) -> Option<OutgoingSegment> {
        let unsent = self.snd_end - self.snd_nxt;
        if unsent == 0 {
            return None;
        }
        let len = unsent.min(u64::from(self.window.mss));
        if PACKETS && len < u64::from(self.window.mss) && self.delays_small_segment() {
            return self.delay_small_segment(len, now, config);
        }
        if PACKETS && self.uses_super_packets() {
            return self.next_frame(now, config);
        }
        let flight = self.flight_space::<PACKETS>();
        let pipe = self.pipe_of(flight);
        if pipe + self.segment_space::<PACKETS>(len) > self.window.cwnd && pipe > 0 {
            self.record_window_usage(true, flight);
            return None;
        }
        let room = (self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        if len > room {
            return self.next_in_small_window(room, now, config);
        }
        if PACKETS && self.wait_for_small_queue(len, self.scoreboard.len() < 2, now, config) {
            return None;
        }
        Some(self.transmit_new_segment::<PACKETS>(len, SegmentKindForEcn::New, pipe, now, config))
    }

    /// Sends `len` new bytes with `pipe` in flight.
    #[inline]
    pub(crate) fn transmit_new_segment<const PACKETS: bool>(
        &mut self,
        len: u64,
        kind: SegmentKindForEcn,
        pipe: u64,
        now: Time,
        config: &TcpConfig,
    ) -> OutgoingSegment {
        let offset = self.snd_nxt;
        if self.snd_una == offset && offset > 0 {
            self.cc.on_idle_restart(now.saturating_since(self.last_sent));
        }
        self.last_sent = now;
        self.snd_nxt += len;
        self.scoreboard.record_sent(self.snd_nxt, now);
        if self.rto_deadline == Time::MAX {
            self.rto_deadline = self.rtt.rto_deadline(now, &config.rto);
        }
        let pipe = pipe + self.segment_space::<PACKETS>(len);
        let flight = self.flight_space::<PACKETS>();
        self.record_window_usage(pipe + u64::from(self.window.mss) > self.window.cwnd, flight);
        OutgoingSegment { offset, len: len as u32, kind }
    }

    /// Delays the rest of the data until more arrive; at the latest the probe timer sends it.
    #[cold]
    fn delay_small_segment(&mut self, len: u64, now: Time, config: &TcpConfig) -> Option<OutgoingSegment> {
        if self.snd_una < self.snd_nxt {
            return None;
        }
        if std::mem::take(&mut self.probe_due) {
            self.rto_deadline = Time::MAX;
            return Some(self.transmit_new_segment::<true>(len, SegmentKindForEcn::New, 0, now, config));
        }
        if self.rto_deadline == Time::MAX {
            self.rto_deadline = self.rtt.rto_deadline(now, &config.rto);
        }
        None
    }

    /// The peer's window holds less than a segment: `room` bytes.
    #[cold]
    pub(crate) fn next_in_small_window(
        &mut self,
        room: u64,
        now: Time,
        config: &TcpConfig,
    ) -> Option<OutgoingSegment> {
        if self.snd_una < self.snd_nxt {
            return None;
        }
        if config.sends_empty_probes() {
            return self.next_linux_probe(room, now, config);
        }
        if room > 0 {
            return Some(self.transmit_new_segment::<true>(room, SegmentKindForEcn::New, 0, now, config));
        }
        if self.probe_due {
            self.probe_due = false;
            self.probing = true;
            self.rto_deadline = Time::MAX;
            return Some(self.transmit_new_segment::<true>(
                1,
                SegmentKindForEcn::WindowProbe,
                0,
                now,
                config,
            ));
        }
        if self.rto_deadline == Time::MAX {
            // The persist timer.
            self.rto_deadline = self.rtt.rto_deadline(now, &config.rto);
        }
        None
    }

    /// `tcp_write_wakeup`: the part of a segment that fits, else an empty probe; both when the timer has expired.
    fn next_linux_probe(&mut self, room: u64, now: Time, config: &TcpConfig) -> Option<OutgoingSegment> {
        if !std::mem::take(&mut self.probe_due) {
            if self.rto_deadline == Time::MAX {
                self.rto_deadline = self.window_probe_deadline(now, config);
            }
            return None;
        }
        if room == 0 {
            return Some(OutgoingSegment {
                offset: self.snd_una,
                len: 0,
                kind: SegmentKindForEcn::WindowProbe,
            });
        }
        self.retries = 0;
        self.rtt.end_back_off();
        self.rto_deadline = Time::MAX;
        self.push_next(room);
        Some(self.transmit_new_segment::<true>(room, SegmentKindForEcn::New, 0, now, config))
    }

    /// `tcp_probe0_when`
    fn window_probe_deadline(&self, now: Time, config: &TcpConfig) -> Time {
        let interval = self.rtt.rto_at_least(MIN_PROBE_INTERVAL, &config.rto);
        config.rto.timer_expiry(now, interval)
    }

    /// `tcp_ack_probe`: the peer answers, so probing continues without limit, and the interval restarts.
    pub(super) fn on_probe_ack(&mut self, now: Time, config: &TcpConfig) {
        if self.next_sendable_len().is_some() {
            return;
        }
        self.retries = 0;
        if self.rto_deadline != Time::MAX && config.sends_empty_probes() {
            self.rto_deadline = self.window_probe_deadline(now, config);
        }
    }

    /// The next segment in recovery: lost segments before new ones (RFC 6675 §4 `NextSeg`).
    #[cold]
    #[inline(never)]
    fn next_in_recovery(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<OutgoingSegment> {
        if self.probe_path_due {
            self.probe_path_due = false;
            stats.retransmits += 1;
            return Some(OutgoingSegment {
                offset: self.snd_una,
                len: 1,
                kind: SegmentKindForEcn::Retransmission,
            });
        }
        if self.probing_path {
            return None;
        }
        if let Some(lost) = self.scoreboard.take_next_lost(self.snd_una) {
            let pipe = self.pipe();
            let len = self.scoreboard.segment_space(u64::from(lost.len));
            let fits = pipe == 0 || pipe + len <= self.window.cwnd;
            if !fits && !self.must_retransmit() {
                return None;
            }
            self.detour &= !MUST_RETRANSMIT;
            return Some(self.retransmit(lost, now, config, stats));
        }
        self.detour &= !MUST_RETRANSMIT;
        if self.snd_nxt < self.snd_end || !self.sack || self.phase != RecoveryPhase::Recovery {
            return self.next_new_segment(now, config);
        }
        if self.pipe() + u64::from(self.window.mss) > self.window.cwnd {
            return None;
        }
        let hole = self.next_speculative_retransmission(config)?;
        Some(self.retransmit(hole, now, config, stats))
    }

    fn retransmit(
        &mut self,
        what: Retransmission,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> OutgoingSegment {
        self.scoreboard.record_retransmission(what, now);
        if what.offset == self.snd_una {
            // As Linux: the retransmission of the first segment restarts the timer.
            self.rto_deadline = self.rtt.rto_deadline(now, &config.rto);
        }
        stats.retransmits += 1;
        OutgoingSegment { offset: what.offset, len: what.len, kind: SegmentKindForEcn::Retransmission }
    }

    /// Whether the retry limit is reached. Linux counts probes of a closed window, but measures time where data are in flight
    /// (`retransmits_timed_out`).
    fn is_given_up(&self, now: Time, config: &TcpConfig) -> bool {
        match self.refined.as_deref() {
            Some(refined) if config.recovery.count_packets && self.snd_una < self.snd_nxt => {
                self.retries > 0 && now.saturating_since(refined.first_timeout) >= config.time_of_retries()
            }
            _ => self.retries >= config.retries,
        }
    }

    /// Handles the sender's timer. False: the retry limit is reached.
    pub(crate) fn on_timeout(&mut self, now: Time, config: &TcpConfig, stats: &mut ConnectionStats) -> bool {
        if self.refined.is_some() && self.on_non_rto_timer(now, config, stats) {
            return true;
        }
        if self.is_given_up(now, config) && !self.probing_path {
            return false;
        }
        if let (0, Some(refined)) = (self.retries, self.refined.as_deref_mut()) {
            refined.first_timeout = now;
        }
        self.retries = self.retries.saturating_add(1);
        if self.snd_una < self.snd_nxt {
            self.on_rto(now, config, stats);
        } else {
            // Nothing in flight: the persist timer.
            self.probe_due = self.snd_nxt < self.snd_end;
            self.rtt.double_rto();
            self.rto_deadline = match (self.probe_due, config.sends_empty_probes()) {
                (false, _) => Time::MAX,
                (true, false) => self.rtt.rto_deadline(now, &config.rto),
                (true, true) => self.window_probe_deadline(now, config),
            };
        }
        true
    }
}
