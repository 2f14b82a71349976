//! Which timer runs: a connection has one, for the probe, for RACK's reordering window, or for the timeout, as in Linux (and here
//! for the pacer, in between).
//!
//! The probe timeout (RFC 8985 §7.2) is 2 srtt + slack; with one segment in flight `rto_min` takes the place of the slack (Linux;
//! the RFC allows for the peer's delayed ACK in the same way), so there `rto_min` decides what a lost last segment costs.

use super::Phase;
use super::refined::Special;
use super::tlp::Probe;
use crate::config::Config;
use crate::sender::Sender;
use crate::stats::Stats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// Whether a probe may be armed: nothing odd is in sight (Linux: Open or CWR).
    fn may_probe(&self, config: &Config) -> bool {
        config.recovery.tlp
            && self.sack
            && matches!(self.phase, Phase::Open | Phase::Cwr)
            && !self.probing
            && self.snd_una < self.snd_nxt
            && self.scoreboard.absent() == 0
    }

    /// RFC 8985 §7.2, at most `rto_at`.
    fn probe_deadline(&self, now: Time, rto_at: Time, config: &Config) -> Time {
        let Some(srtt) = self.rtt.srtt() else { return rto_at };
        let slack = if self.scoreboard.is_single() { config.rto.min } else { config.recovery.timer_slack };
        config.rto.expiry(now, srtt * 2 + slack).min(rto_at)
    }

    fn set_special(&mut self, kind: Special, at: Time) {
        self.rto_deadline = at;
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.special = Some((kind, at));
        }
    }

    /// What the timer stands for now, if not for the timeout: whoever sets it to another time takes it over.
    fn special(&self) -> Option<Special> {
        let (kind, at) = self.refined.as_deref()?.special?;
        (at == self.rto_deadline && at != Time::MAX).then_some(kind)
    }

    /// The pacer, or who waits for room in the host, asks to be woken before the timer expires.
    pub(crate) fn wake_at(&mut self, at: Time) {
        let deadline = self.rto_deadline;
        let Some(refined) = self.refined.as_deref_mut() else { return };
        if at < deadline {
            refined.behind_pacing = (deadline, refined.special.take());
            self.set_special(Special::Pacing, at);
        }
    }

    /// The timer stands again for what it did before the pacer took it.
    pub(crate) fn end_pacing_wait(&mut self) {
        if self.special() == Some(Special::Pacing)
            && let Some(refined) = self.refined.as_deref_mut()
        {
            (self.rto_deadline, refined.special) = refined.behind_pacing;
        }
    }

    /// When the timeout is due, counted from when the oldest segment was last sent (Linux `tcp_rearm_rto`).
    fn rto_from_head(&self, now: Time, config: &Config) -> Time {
        let sent_at = self.scoreboard.head_sent_at().unwrap_or(now);
        self.rtt.deadline_of(sent_at, now, &config.rto)
    }

    /// Sets the timer after an ACK. `advanced`: it acknowledged new data, and the timer was restarted for it.
    /// `was`: what the timer stood for before.
    pub(super) fn arm_after_ack(
        &mut self,
        advanced: bool,
        wait: Option<Span>,
        was: Option<Special>,
        now: Time,
        config: &Config,
    ) {
        if self.snd_una == self.snd_nxt {
            return;
        }
        if let Some(wait) = wait {
            let at = config.rto.expiry(now, wait + config.recovery.timer_slack);
            self.set_special(Special::Reordering, at.min(self.rtt.deadline(now, &config.rto)));
        } else if advanced && self.may_probe(config) {
            let at = self.probe_deadline(now, self.rtt.deadline(now, &config.rto), config);
            self.set_special(Special::Probe, at);
        } else if (advanced && was.is_some()) || self.special() == Some(Special::Reordering) {
            self.rto_deadline = self.rto_from_head(now, config);
        }
    }

    /// Sets the timer after new data went out.
    #[inline]
    pub(crate) fn arm_after_sending(&mut self, now: Time, config: &Config) {
        if self.may_probe(config) {
            let at = self.probe_deadline(now, self.rto_from_head(now, config), config);
            self.set_special(Special::Probe, at);
        }
    }

    /// Forgets what the timer stands for, at the start of an ACK; returns what that was.
    pub(super) fn take_special(&mut self) -> Option<Special> {
        let was = self.special();
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.special = None;
        }
        was
    }

    /// Puts back what [`Self::take_special`] took, where the ACK did not move the timer.
    pub(super) fn restore_special(&mut self, was: Option<Special>) {
        if let (Some(kind), Some(refined)) = (was, self.refined.as_deref_mut()) {
            refined.special = Some((kind, self.rto_deadline));
        }
    }

    /// The timer expired. False: it stood for the timeout.
    pub(crate) fn on_special_timer(&mut self, now: Time, config: &Config, stats: &mut Stats) -> bool {
        if self.special() == Some(Special::Pacing) {
            self.end_pacing_wait();
            if now < self.rto_deadline {
                return true;
            }
        }
        let Some(kind) = self.take_special().filter(|_| self.snd_una < self.snd_nxt) else { return false };
        match kind {
            Special::Pacing => {}
            Special::Probe => {
                let Some(refined) = self.refined.as_deref_mut() else { return false };
                self.rto_deadline = if refined.probe.ask() {
                    self.rtt.deadline(now, &config.rto)
                } else {
                    self.rto_from_head(now, config)
                };
            }
            Special::Reordering => {
                self.rto_deadline = self.rto_from_head(now, config);
                self.on_reordering_timeout(now, config, stats);
            }
        }
        if self.rto_deadline <= now {
            // The timeout was due as well; it comes a tick later.
            self.rto_deadline = config.rto.tick(Time(now.0 + 1));
        }
        true
    }

    /// RFC 8985 §6.3: what was waited for has not come.
    fn on_reordering_timeout(&mut self, now: Time, config: &Config, stats: &mut Stats) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.loss = false;
        }
        if !self.detect_by_time(now, config).loss {
            return;
        }
        if self.phase != Phase::Recovery {
            self.enter_recovery(config, stats);
            if config.recovery.prr {
                self.reduce_proportionally(u64::from(self.window.mss), false);
            }
        }
    }

    /// A reduction begins, or a timeout: the episode is over.
    pub(super) fn end_probe(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.probe = Probe::default();
        }
    }
}
