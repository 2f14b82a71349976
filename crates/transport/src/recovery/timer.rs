//! The retransmission timer. As in Linux a connection has one timer for the tail loss probe, RACK's reordering window or the timeout (here also for
//! the pacer).
//!
//! The probe timeout (RFC 8985 §7.2) is 2 srtt + slack; with one segment in flight `rto_min` takes the place of the slack (Linux; the RFC allows for
//! the peer's delayed ACK in the same way), so `rto_min` determines the cost of a lost last segment.

use super::RecoveryPhase;
use super::refined::NonRtoTimerPurpose;
use super::tlp::TailLossProbe;
use crate::config::TcpConfig;
use crate::sender::Sender;
use crate::stats::ConnectionStats;
use pauseframe_units::{Span, Time};

impl Sender {
    /// Whether a probe may be armed: no sign of loss (Linux: Open or CWR).
    fn may_arm_tlp(&self, config: &TcpConfig) -> bool {
        config.recovery.tlp
            && self.sack
            && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Cwr)
            && !self.probing
            && self.snd_una < self.snd_nxt
            && self.scoreboard.bytes_not_in_network() == 0
    }

    /// RFC 8985 §7.2, at most `rto_at`.
    fn tlp_deadline(&self, now: Time, rto_at: Time, config: &TcpConfig) -> Time {
        let Some(srtt) = self.rtt.srtt() else { return rto_at };
        let slack =
            if self.scoreboard.is_single_segment() { config.rto.min } else { config.recovery.timer_slack };
        config.rto.timer_expiry(now, srtt * 2 + slack).min(rto_at)
    }

    fn arm_timer(&mut self, kind: NonRtoTimerPurpose, at: Time) {
        self.rto_deadline = at;
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.special = Some((kind, at));
        }
    }

    /// The current purpose of the timer, if it is not the timeout. Setting the timer to another time ends the purpose.
    fn timer_purpose(&self) -> Option<NonRtoTimerPurpose> {
        let (kind, at) = self.refined.as_deref()?.special?;
        (at == self.rto_deadline && at != Time::MAX).then_some(kind)
    }

    /// Sets the timer for the pacer or for host queue space, unless it waits for one of them until then already.
    pub(crate) fn arm_wakeup(&mut self, at: Time) {
        if at < self.rto_deadline {
            self.restore_timer();
            let deadline = self.rto_deadline;
            let Some(refined) = self.refined.as_deref_mut() else { return };
            refined.behind_pacing = (deadline, refined.special.take());
            self.arm_timer(NonRtoTimerPurpose::Pacing, at);
        }
    }

    /// Restores the timer that the pacer replaced.
    pub(crate) fn restore_timer(&mut self) {
        if self.timer_purpose() == Some(NonRtoTimerPurpose::Pacing)
            && let Some(refined) = self.refined.as_deref_mut()
        {
            (self.rto_deadline, refined.special) = refined.behind_pacing;
        }
    }

    /// The timeout's deadline, counted from the last transmission of the oldest segment (Linux `tcp_rearm_rto`).
    fn head_rto_deadline(&self, now: Time, config: &TcpConfig) -> Time {
        let sent_at = self.scoreboard.head_sent_at().unwrap_or(now);
        self.rtt.rto_deadline_since(sent_at, now, &config.rto)
    }

    /// Sets the timer after an ACK. `advanced`: it acknowledged new data, and the timer was restarted for it.
    /// `was`: what the timer stood for before.
    pub(super) fn rearm_after_ack(
        &mut self,
        advanced: bool,
        wait: Option<Span>,
        was: Option<NonRtoTimerPurpose>,
        now: Time,
        config: &TcpConfig,
    ) {
        if self.snd_una == self.snd_nxt {
            return;
        }
        if let Some(wait) = wait {
            let at = config.rto.timer_expiry(now, wait + config.recovery.timer_slack);
            self.arm_timer(NonRtoTimerPurpose::Reordering, at.min(self.rtt.rto_deadline(now, &config.rto)));
        } else if advanced && self.may_arm_tlp(config) {
            let at = self.tlp_deadline(now, self.rtt.rto_deadline(now, &config.rto), config);
            self.arm_timer(NonRtoTimerPurpose::Probe, at);
        } else if (advanced && was.is_some()) || self.timer_purpose() == Some(NonRtoTimerPurpose::Reordering)
        {
            self.rto_deadline = self.head_rto_deadline(now, config);
        }
    }

    /// Sets the timer after new data went out.
    #[inline]
    pub(crate) fn schedule_tlp(&mut self, now: Time, config: &TcpConfig) {
        if self.may_arm_tlp(config) {
            let at = self.tlp_deadline(now, self.head_rto_deadline(now, config), config);
            self.arm_timer(NonRtoTimerPurpose::Probe, at);
        }
    }

    /// Takes the purpose of the timer at the start of an ACK.
    pub(super) fn take_timer_purpose(&mut self) -> Option<NonRtoTimerPurpose> {
        let was = self.timer_purpose();
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.special = None;
        }
        was
    }

    /// Puts back what [`Self::take_timer_purpose`] took, where the ACK did not move the timer.
    pub(super) fn restore_timer_purpose(&mut self, was: Option<NonRtoTimerPurpose>) {
        if let (Some(kind), Some(refined)) = (was, self.refined.as_deref_mut()) {
            refined.special = Some((kind, self.rto_deadline));
        }
    }

    /// Handles an expired timer. False: it was the retransmission timeout.
    pub(crate) fn on_non_rto_timer(
        &mut self,
        now: Time,
        config: &TcpConfig,
        stats: &mut ConnectionStats,
    ) -> bool {
        if self.timer_purpose() == Some(NonRtoTimerPurpose::Pacing) {
            self.restore_timer();
            if now < self.rto_deadline {
                return true;
            }
        }
        let Some(kind) = self.take_timer_purpose().filter(|_| self.snd_una < self.snd_nxt) else {
            return false;
        };
        match kind {
            NonRtoTimerPurpose::Pacing => {}
            NonRtoTimerPurpose::Probe => {
                let Some(refined) = self.refined.as_deref_mut() else { return false };
                self.rto_deadline = if refined.probe.request() {
                    self.rtt.rto_deadline(now, &config.rto)
                } else {
                    self.head_rto_deadline(now, config)
                };
            }
            NonRtoTimerPurpose::Reordering => {
                self.rto_deadline = self.head_rto_deadline(now, config);
                self.on_reordering_timeout(now, config, stats);
            }
        }
        if self.rto_deadline <= now {
            // The timeout was due as well; it comes a tick later.
            self.rto_deadline = config.rto.round_up_to_tick(Time(now.0 + 1));
        }
        true
    }

    /// RFC 8985 §6.3: the reordering window ended without an ACK.
    fn on_reordering_timeout(&mut self, now: Time, config: &TcpConfig, stats: &mut ConnectionStats) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.delivery.loss = false;
        }
        if !self.detect_losses(now, config).loss {
            return;
        }
        if self.phase != RecoveryPhase::Recovery {
            self.enter_recovery(config, stats);
            if self.reduces_by_prr(config) {
                self.apply_prr(u64::from(self.window.mss), false);
            }
        }
    }

    /// Ends the probe episode at a reduction or a timeout.
    pub(super) fn end_tlp(&mut self) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.probe = TailLossProbe::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::RecoveryConfig;

    /// The pacer and a full queue of the host may ask in turn, for an earlier time than the one that is set.
    #[test]
    fn the_timeout_stays_behind_two_wakeups() {
        let config = TcpConfig { recovery: RecoveryConfig::LINUX, ..TcpConfig::PLAIN };
        let mut sender = Sender::new(&config, 0);
        sender.rto_deadline = Time(9000);
        for (at, next) in [(500, 500), (300, 300), (400, 300)] {
            sender.arm_wakeup(Time(at));
            assert_eq!(sender.rto_deadline, Time(next));
        }
        sender.restore_timer();
        assert_eq!((sender.rto_deadline, sender.timer_purpose()), (Time(9000), None));
    }
}
