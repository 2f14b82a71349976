//! Choice of the next segment with recovery refinements: tail loss probe, pacing, host queue limit, F-RTO; and the accounting of each transmission.

use super::RecoveryPhase;
use super::frto::FrtoState;
use super::pacing::UNPACED_SEGMENTS;
use super::settings::IdleRestart;
use crate::cc::CongestionAlgorithm;
use crate::config::TcpConfig;
use crate::sender::{OutgoingSegment, SegmentKindForEcn, Sender};
use crate::small_queue::PACING_SHIFT;
use crate::stats::ConnectionStats;
use pauseframe_units::{BitRate, Bytes, Span, Time};

/// A hundredth of the time of a share, in ps: 2^-10 of a second.
const PERCENT_OF_SHARE: u64 = (1_000_000_000_000 / 100) >> PACING_SHIFT;

impl Sender {
    /// The next segment with refinements on: a probe, or a segment that the pacer admits, with their accounting.
    #[cold]
    pub(crate) fn next_refined_segment(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<OutgoingSegment> {
        self.restore_timer();
        self.shrink_after_idle(now, config);
        let offloads = self.uses_super_packets();
        let (outgoing, probes) = if offloads {
            self.next_super_packet_segment(now, config, stats)?
        } else {
            self.next_probe_or_segment(now, config, stats)?
        };
        if outgoing.len == 0 {
            return Some(outgoing); // The probe of a closed window.
        }
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.prr.out += self.scoreboard.segment_space(u64::from(outgoing.len));
            if outgoing.kind == SegmentKindForEcn::Retransmission && !probes {
                refined.undo.count_retransmission();
            }
        }
        if outgoing.kind == SegmentKindForEcn::New {
            if outgoing.len < self.window.mss {
                self.record_small_segment();
            }
            if offloads {
                self.record_frame_sent();
            }
            if !probes {
                // After a probe runs the timeout, in full (Linux: `tcp_write_xmit` schedules no probe if `push_one` is 2).
                self.schedule_tlp(now, config);
            }
        }
        self.record_departure(outgoing, now, config);
        self.record_sent(now);
        self.charge_small_queue(outgoing.len, now);
        self.charge_pacer(outgoing.len, now, config);
        self.validate_cwnd(now, config);
        if offloads && outgoing.kind == SegmentKindForEcn::New {
            self.on_super_packet_sent();
        }
        Some(outgoing)
    }

    /// The probe or the next segment, and whether it is the probe.
    #[inline(always)]
    fn next_probe_or_segment(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<(OutgoingSegment, bool)> {
        match self.next_tlp(now, config, stats) {
            Some(probe) => Some((probe, true)),
            None if self.wait_for_pacer(now, config) => None,
            None => self.next_segment_without_probe(now, config, stats).map(|outgoing| (outgoing, false)),
        }
    }

    /// The next segment with super-packets: the current one first; if none may leave, the application may write.
    #[cold]
    #[inline(never)]
    fn next_super_packet_segment(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<(OutgoingSegment, bool)> {
        if self.is_mid_super_packet() {
            return self.next_frame(now, config).map(|outgoing| (outgoing, false));
        }
        self.fill_first_skb();
        let mut next = self.next_probe_or_segment(now, config, stats);
        while next.is_none() && self.continue_super_packet_writes() && !self.wait_for_pacer(now, config) {
            next = self.next_segment_without_probe(now, config, stats).map(|outgoing| (outgoing, false));
        }
        next
    }

    /// The probe, if one is due (RFC 8985 §7.3): new data if the peer's window has room, else the last segment.
    #[inline(always)]
    fn next_tlp(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<OutgoingSegment> {
        let refined = self.refined.as_deref_mut()?;
        if !refined.probe.take_request() || self.snd_una == self.snd_nxt {
            return None;
        }
        let outgoing = if let Some(len) = self.next_sendable_len() {
            self.transmit_new_segment::<true>(len, SegmentKindForEcn::New, self.pipe(), now, config)
        } else {
            let last = self.scoreboard.last_unsacked(self.snd_una)?;
            self.scoreboard.record_probe(last, now);
            stats.retransmits += 1;
            OutgoingSegment { offset: last.offset, len: last.len, kind: SegmentKindForEcn::Retransmission }
        };
        let refined = self.refined.as_deref_mut()?;
        refined.probe.record_sent(self.snd_nxt, outgoing.kind == SegmentKindForEcn::Retransmission);
        refined.loss_probes += 1;
        Some(outgoing)
    }

    #[inline(always)]
    fn next_segment_without_probe(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> Option<OutgoingSegment> {
        if self.is_new_only() {
            let new = self.next_frto_segment(now, config);
            if new.is_some() || self.is_new_only() {
                return new;
            }
        }
        self.next_plain_segment(now, config, stats)
    }

    /// Whether only new data may go out now.
    fn is_new_only(&self) -> bool {
        self.phase == RecoveryPhase::Loss
            && self.refined.as_deref().is_some_and(|refined| refined.frto == FrtoState::NewOnly)
    }

    /// The next new segment of F-RTO; if there is none, normal recovery continues.
    fn next_frto_segment(&mut self, now: Time, config: &TcpConfig) -> Option<OutgoingSegment> {
        let outgoing = self.next_new_segment(now, config);
        if outgoing.is_none() && self.snd_nxt == self.recover {
            self.set_frto(FrtoState::Off);
        }
        outgoing
    }

    /// `tcp_update_pacing_rate` in bytes per second, also without pacing; `None`: no RTT sample yet.
    pub(crate) fn pacing_rate(&self, config: &TcpConfig) -> Option<u64> {
        if let Some(rate) = self.cc.pacing_rate() {
            return Some(rate / 8);
        }
        let srtt = self.rtt.srtt().filter(|srtt| *srtt > Span::ZERO)?;
        let window = self.window.cwnd.max(self.scoreboard.flight_space(self.flight_size()));
        let percent = u128::from(config.recovery.pacing.percent(&self.window));
        let second = u128::from(Span::from_secs(1).0);
        Some((u128::from(window) * percent * second / 100 / u128::from(srtt.0)) as u64)
    }

    /// A millisecond of the rate that pacing would have: that of [`Self::pacing_rate`], with one division.
    pub(crate) fn small_queue_share(&self, config: &TcpConfig) -> u64 {
        if let Some(rate) = self.cc.pacing_rate() {
            return (rate / 8) >> PACING_SHIFT;
        }
        let Some(srtt) = self.rtt.srtt().filter(|srtt| *srtt > Span::ZERO) else { return u64::MAX };
        let window = self.window.cwnd.max(self.scoreboard.flight_space(self.flight_size()));
        let percent = u64::from(config.recovery.pacing.percent(&self.window));
        let share = window.checked_mul(percent * PERCENT_OF_SHARE).map(|share| share / srtt.0);
        debug_assert!(share.is_none() || share == self.pacing_rate(config).map(|rate| rate >> PACING_SHIFT));
        share.unwrap_or(u64::MAX)
    }

    /// Whether the pacer delays the next segment; sets its timer.
    fn wait_for_pacer(&mut self, now: Time, config: &TcpConfig) -> bool {
        // Linux paces all retransmissions (`tcp_xmit_retransmit_queue`).
        let passes = self.must_retransmit() && !self.is_window_owned();
        if !config.recovery.pacing.on || passes {
            return false;
        }
        let waiting = !self.is_all_sent() || self.scoreboard.has_lost_segment();
        let Some(next) = self.refined.as_deref().map(|refined| refined.pacer.next) else { return false };
        let held = waiting && now < next;
        if held {
            self.arm_wakeup(next);
        }
        held
    }

    /// When all that was sent would have left at the pacing rate.
    pub(crate) fn paced_until(&self) -> Time {
        self.refined.as_deref().map_or(Time::ZERO, |refined| refined.pacer.busy_until())
    }

    /// Charges `len` sent bytes to the pacer.
    fn charge_pacer(&mut self, len: u32, now: Time, config: &TcpConfig) {
        let pacing = &config.recovery.pacing;
        if !pacing.on {
            return;
        }
        let paced = self.cc.pacing_rate();
        // A plug-in paces from its first segment on.
        let is_early = (paced.is_none() || self.is_window_owned())
            && self.departing_end() < UNPACED_SEGMENTS * u64::from(self.window.mss);
        let span = match paced {
            _ if is_early => 0,
            // As `tcp_update_skb_after_send`: no rate, no pacing.
            Some(0) => 0,
            Some(rate) => BitRate(rate).serialise(Bytes(len.into())).0,
            None => self.rtt.srtt().map_or(0, |srtt| {
                let window = self.window.cwnd.max(self.flight_size());
                let rate = u128::from(window) * u128::from(pacing.percent(&self.window).max(1));
                (u128::from(len) * u128::from(srtt.0) * 100 / rate.max(1)) as u64
            }),
        };
        let ends = self.uses_super_packets().then(|| !self.is_mid_super_packet());
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.pacer.charge(Span(span), pacing.burst, ends, now);
        }
    }

    /// Sets the transmission time of a full segment at this host.
    pub(crate) fn set_frame_time(&mut self, frame: Span, config: &TcpConfig) {
        if let Some(refined) = self.refined.as_deref_mut().filter(|_| config.small_queues) {
            refined.small_queue.set_frame_time(frame);
        }
    }

    /// Counts `len` bytes that entered the host's queues.
    #[inline]
    fn charge_small_queue(&mut self, len: u32, now: Time) {
        let mss = u64::from(self.window.mss);
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.small_queue.add_sent(u64::from(len), mss, now);
        }
    }

    /// Whether `len` new bytes must wait because the socket has too much in the host's queues; sets the timer. With at most one buffer in flight
    /// (`single`) nothing waits.
    #[inline]
    pub(crate) fn wait_for_small_queue(
        &mut self,
        len: u64,
        single: bool,
        now: Time,
        config: &TcpConfig,
    ) -> bool {
        let Some(refined) = self.refined.as_deref() else { return false };
        refined.small_queue.exceeds_two_segments(now)
            && !single
            && self.set_small_queue_timer(len, now, config)
    }

    #[cold]
    fn set_small_queue_timer(&mut self, len: u64, now: Time, config: &TcpConfig) -> bool {
        let rate = self.small_queue_share(config);
        let mss = u64::from(self.window.mss);
        let room = self
            .refined
            .as_deref()
            .and_then(|refined| refined.small_queue.blocked_until(rate, len, mss, now));
        if let Some(at) = room {
            self.arm_wakeup(at);
        }
        room.is_some()
    }

    /// Shrinks the window if nothing was in flight and nothing sent for more than an RTO. Call before sending.
    fn shrink_after_idle(&mut self, now: Time, config: &TcpConfig) {
        let kind = config.recovery.idle_restart;
        if kind == IdleRestart::Off || self.is_window_owned() || self.flight_size() > 0 || self.is_all_acked()
        {
            return;
        }
        let rto = self.rtt.rto(&config.rto);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let Some(mut idle) = refined.usage.take_idle(rto, now, &config.rto) else { return };
        let floor = config.initial_window.max(u64::from(self.window.mss)).min(self.window.cwnd);
        if kind == IdleRestart::Rfc5681 {
            self.window.cwnd = floor;
            return;
        }
        self.window.ssthresh = self.current_ssthresh();
        let mut cwnd = self.window.cwnd;
        while idle > rto && cwnd > floor {
            idle -= rto;
            cwnd = self.scoreboard.round_to_segments(cwnd / 2);
        }
        self.window.cwnd = cwnd.max(floor);
    }

    /// Updates window validation after sending data.
    fn validate_cwnd(&mut self, now: Time, config: &TcpConfig) {
        let (limited, owned) = (self.is_cwnd_limited(), self.is_window_owned());
        let Some(refined) = self.refined.as_deref_mut() else { return };
        refined.usage.record_sent(now);
        if config.recovery.idle_restart != IdleRestart::Linux || owned {
            return;
        }
        if limited {
            refined.usage.record_full(now);
            return;
        }
        let flight = self.scoreboard.flight_space(self.snd_nxt - self.snd_una);
        let rto = self.rtt.rto(&config.rto);
        let Some(used) = refined.usage.record_partly_used(flight, rto, now, &config.rto) else {
            return;
        };
        let used = used.max(config.initial_window);
        // A writer that waits for room in the send buffer (SOCK_NOSPACE) is not what leaves the window unused.
        if self.phase == RecoveryPhase::Open && used < self.window.cwnd && !self.is_writer_waiting() {
            self.window.ssthresh = self.current_ssthresh();
            self.window.cwnd = self.scoreboard.round_to_segments(self.window.cwnd.midpoint(used));
        }
    }
}
