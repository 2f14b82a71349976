//! Processing of ACKs by the sender (RFC 9293 §3.10.7.4, RFC 5681 §3.1): the common path. Unusual ACKs go to `recovery`.

use super::{MAX_PEER_WINDOW, MUST_RETRANSMIT, REFINED, Sender};
use crate::cc::{AckSample, CongestionAlgorithm};
use crate::config::TcpConfig;
use crate::recovery::{AckKind, RecoveryPhase};
use crate::segment::{Segment, TcpOptions};
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// Processes an acknowledgement. False: it acknowledges unsent data.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> bool {
        if self.detour & REFINED != 0 {
            return self.on_ack_refined(segment, ece, now, config, stats);
        }
        self.on_ack_specialized::<false>(segment, ece, now, config, stats)
    }

    #[cold]
    fn on_ack_refined(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> bool {
        let valid = self.on_ack_specialized::<true>(segment, ece, now, config, stats);
        self.continue_writes();
        valid
    }

    /// `REFINES`: recovery refinements are on, so every ACK needs more work.
    #[inline]
    fn on_ack_specialized<const REFINES: bool>(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> bool {
        let acked = i64::from(self.space.distance(segment.ack, self.snd_una));
        if acked <= 0 {
            if acked == 0 {
                self.on_ack_without_progress::<REFINES>(segment, ece, now, config, stats);
            } else if REFINES && self.sack && matches!(segment.options, TcpOptions::Sack(_)) {
                self.on_old_ack(segment, ece, now, config, stats);
            }
            return true;
        }
        let acked = acked as u64;
        if acked > self.flight_size() {
            return false;
        }
        let una = self.snd_una;
        if REFINES {
            self.prepare_for_ack(una + acked, now);
        }
        self.snd_una = una + acked;
        self.snd_wnd = segment.window.min(MAX_PEER_WINDOW);
        let mut rtt = Span::ZERO;
        if let Some((oldest, newest)) = self.scoreboard.remove_acked(una, self.snd_una) {
            self.rtt.add_sample(now.saturating_since(oldest), &config.rto);
            // As Linux (`ca_rtt_us`): the RTT for congestion control excludes the delay of the ACK.
            rtt = now.saturating_since(newest);
        }
        if REFINES && self.counts_duplicates() {
            self.remove_reno_sacks(config);
        }
        self.retries = 0;
        self.probing = false;
        self.probing_path = false;
        // RFC 6298 §5.2, §5.3.
        self.rto_deadline =
            if self.snd_una == self.snd_nxt { Time::MAX } else { self.rtt.rto_deadline(now, &config.rto) };
        // As Linux: what SACK newly reports is delivered by this ACK too.
        let sacked = if REFINES { self.on_sack(segment) } else { 0 };
        let sample = AckSample {
            acked: if REFINES { self.newly_delivered(acked) } else { acked },
            ece,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            now,
            rtt,
            srtt: self.rtt.srtt().unwrap_or(Span::ZERO),
            open: self.phase == RecoveryPhase::Open,
        };
        self.cc.on_ack(&mut self.window, &sample);
        let eventful = REFINES || ece || self.dup_acks > 0 || matches!(segment.options, TcpOptions::Sack(_));
        if self.phase == RecoveryPhase::Open && !eventful {
            if self.is_cwnd_limited() {
                self.cc.increase_window(&mut self.window, &sample);
            }
        } else {
            let news = if REFINES { sacked } else { self.on_sack(segment) };
            self.on_ack_slow_path(segment, &sample, news, now, config, stats);
        }
        if self.snd_una == self.snd_end {
            self.scoreboard.release_memory();
        }
        true
    }

    /// Processes an ACK of nothing new: a duplicate, a window update, or the ACK field of the peer's data.
    #[inline]
    fn on_ack_without_progress<const REFINES: bool>(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) {
        let window = segment.window.min(MAX_PEER_WINDOW);
        let changed = window != self.snd_wnd;
        if changed {
            self.on_window_update(window, config);
        }
        if self.snd_una == self.snd_nxt {
            if self.snd_nxt < self.snd_end {
                self.on_probe_ack(now, config);
            }
            if REFINES {
                self.prepare_for_ack(self.snd_una, now);
                self.record_ack_without_progress(ece, now, config);
                let kind = AckKind::without_progress(segment, changed);
                self.process_sack_evidence(segment, kind, ece, now, config, stats);
            }
            return;
        }
        if self.snd_wnd == 0 {
            // The peer is there, so the retry limit does not run (RFC 9293 §3.8.6.1). An answer to a probe is no
            // duplicate ACK.
            self.retries = 0;
            if self.probing {
                return;
            }
        }
        self.on_duplicate_ack(segment, changed, ece, now, config, stats);
    }

    #[cold]
    fn on_window_update(&mut self, window: u32, config: &TcpConfig) {
        let empty = config.sends_empty_probes();
        let closed = if empty { !self.is_window_open() } else { self.snd_wnd == 0 };
        self.snd_wnd = window;
        let opened = closed && window > 0 && (!empty || self.is_window_open());
        if !opened {
            return;
        }
        self.rtt.end_back_off();
        self.probe_due = false;
        if self.probing {
            // The byte of the probe was refused; it goes first.
            self.probing = false;
            self.scoreboard.mark_head_lost(self.snd_una);
            self.detour |= MUST_RETRANSMIT;
        } else if self.scoreboard.is_empty() {
            self.rto_deadline = Time::MAX;
        }
    }

    /// Whether the peer's window holds the next segment, or nothing waits.
    fn is_window_open(&self) -> bool {
        self.snd_una < self.snd_nxt || self.snd_nxt == self.snd_end || self.next_sendable_len().is_some()
    }
}
