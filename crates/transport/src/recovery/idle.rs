//! A window that is not used says nothing about the path: restart after idle (RFC 5681 §4.1; Linux `tcp_cwnd_restart`)
//! and congestion window validation (RFC 2861, Linux `tcp_cwnd_application_limited`). That a window which is not
//! filled does not grow (RFC 7661 §4.1) is so unless
//! `window_validation` is off, see `Sender::is_cwnd_limited`.
//!
//! Left out: RFC 7661's pipeACK, which Linux does not have either.

use super::Phase;
use super::settings::IdleRestart;
use crate::config::Config;
use crate::sender::Sender;
use pauseframe_units::Time;

/// How much of the window was used lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Usage {
    /// When data were last sent; [`Time::MAX`]: never.
    last_sent: Time,
    /// When the window was last full, or adapted.
    since: Time,
    /// The most in flight since.
    used: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { last_sent: Time::MAX, since: Time::ZERO, used: 0 }
    }
}

impl Sender {
    /// Shrinks the window if nothing was in flight and nothing sent for more than an RTO. Call before sending.
    pub(super) fn restart_after_idle(&mut self, now: Time, config: &Config) {
        let kind = config.recovery.idle_restart;
        if kind == IdleRestart::Off || self.flight_size() > 0 || self.is_done() {
            return;
        }
        let rto = self.rtt.rto(&config.rto);
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let mut idle = now.saturating_since(refined.usage.last_sent);
        if idle <= rto {
            return;
        }
        refined.usage = Usage { last_sent: now, since: now, used: 0 };
        let floor = config.initial_window.max(u64::from(self.window.mss)).min(self.window.cwnd);
        if kind == IdleRestart::Rfc5681 {
            self.window.cwnd = floor;
            return;
        }
        self.window.ssthresh = self.current_ssthresh();
        let mut cwnd = self.window.cwnd;
        while idle > rto && cwnd > floor {
            idle -= rto;
            cwnd = self.scoreboard.whole(cwnd / 2);
        }
        self.window.cwnd = cwnd.max(floor);
    }

    /// Data were sent.
    pub(super) fn validate_window(&mut self, now: Time, config: &Config) {
        let limited = self.is_cwnd_limited();
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let usage = &mut refined.usage;
        usage.last_sent = now;
        if config.recovery.idle_restart != IdleRestart::Linux {
            return;
        }
        if limited {
            (usage.since, usage.used) = (now, 0);
            return;
        }
        let flight = self.scoreboard.flight(self.snd_nxt - self.snd_una);
        let rto = self.rtt.rto(&config.rto);
        usage.used = usage.used.max(flight);
        if now.saturating_since(usage.since) < rto {
            return;
        }
        let used = usage.used.max(config.initial_window);
        (usage.since, usage.used) = (now, 0);
        // A writer that waits for room in the send buffer (SOCK_NOSPACE) is not what leaves the window unused.
        if self.phase == Phase::Open && used < self.window.cwnd && !self.is_writer_waiting() {
            self.window.ssthresh = self.current_ssthresh();
            self.window.cwnd = self.scoreboard.whole(self.window.cwnd.midpoint(used));
        }
    }
}
