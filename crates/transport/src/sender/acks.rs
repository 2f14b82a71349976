//! What an ACK does to the sender (RFC 9293 §3.10.7.4, RFC 5681 §3.1): the ordinary path; what is odd about it goes to `recovery`.

use super::{MAX_WINDOW, MUST_RETRANSMIT, REFINED, Sender};
use crate::cc::{AckSample, Algorithm};
use crate::config::Config;
use crate::recovery::Phase;
use crate::segment::{Options, Segment};
use crate::stats::Stats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// Takes in the acknowledgement of a segment. False: it acknowledges what was never sent.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) -> bool {
        if self.detour & REFINED != 0 {
            return self.on_ack_refined(segment, ece, now, config, stats);
        }
        self.on_ack_as::<false>(segment, ece, now, config, stats)
    }

    #[cold]
    fn on_ack_refined(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) -> bool {
        let valid = self.on_ack_as::<true>(segment, ece, now, config, stats);
        self.write_on();
        valid
    }

    /// `REFINES`: refinements of recovery are on, and every ACK is looked at closely.
    #[inline]
    fn on_ack_as<const REFINES: bool>(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) -> bool {
        let acked = i64::from(self.space.distance(segment.ack, self.snd_una));
        if acked <= 0 {
            if acked == 0 {
                self.on_same_ack::<REFINES>(segment, ece, now, config, stats);
            }
            return true;
        }
        let acked = acked as u64;
        if acked > self.flight_size() {
            return false;
        }
        let una = self.snd_una;
        if REFINES {
            self.begin_ack(una + acked, now);
        }
        self.snd_una = una + acked;
        self.snd_wnd = segment.window.min(MAX_WINDOW);
        let mut rtt = Span::ZERO;
        if let Some((oldest, newest)) = self.scoreboard.acknowledge(una, self.snd_una) {
            self.rtt.sample(now.saturating_since(oldest), &config.rto);
            // As Linux (`ca_rtt_us`): what congestion control is told has no delay of the ACK in it.
            rtt = now.saturating_since(newest);
        }
        self.retries = 0;
        self.probing = false;
        self.probing_path = false;
        // RFC 6298 §5.2, §5.3.
        self.rto_deadline =
            if self.snd_una == self.snd_nxt { Time::MAX } else { self.rtt.deadline(now, &config.rto) };
        let sample = AckSample {
            acked: if REFINES { self.newly_delivered(acked) } else { acked },
            ece,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            now,
            rtt,
            srtt: self.rtt.srtt().unwrap_or(Span::ZERO),
            open: self.phase == Phase::Open,
        };
        self.cc.on_ack(&mut self.window, &sample);
        let eventful = REFINES || ece || self.dup_acks > 0 || matches!(segment.options, Options::Sack(_));
        if self.phase == Phase::Open && !eventful {
            if self.is_cwnd_limited() {
                self.cc.increase(&mut self.window, &sample);
            }
        } else {
            self.on_eventful_ack(segment, &sample, now, config, stats);
        }
        if self.snd_una == self.snd_end {
            self.scoreboard.release();
        }
        debug_assert!(self.window.cwnd >= u64::from(self.window.mss), "cwnd below one segment");
        debug_assert!(self.scoreboard.is_consistent(self.snd_una, self.snd_nxt));
        true
    }

    /// An ACK that acknowledges nothing new: a duplicate, a window update, or the ACK field of the peer's data.
    #[inline]
    fn on_same_ack<const REFINES: bool>(
        &mut self,
        segment: &Segment,
        ece: bool,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) {
        let window = segment.window.min(MAX_WINDOW);
        let changed = window != self.snd_wnd;
        if changed {
            self.on_window_update(window);
        }
        if self.snd_una == self.snd_nxt {
            if REFINES {
                self.begin_ack(self.snd_una, now);
                self.weigh_evidence(segment, false, ece, now, config, stats);
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
    fn on_window_update(&mut self, window: u32) {
        let opened = self.snd_wnd == 0 && window > 0;
        self.snd_wnd = window;
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
}
