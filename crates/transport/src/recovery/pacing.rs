//! Pacing as Linux does it in the socket: after each burst the next waits for as long as the burst takes at the pacing
//! rate, cwnd / srtt times 2 while cwnd is below half of ssthresh, else times 1.2.
//!
//! The first ten segments of a connection, fast retransmits and probes do not wait. Left out: the rates that BBR sets,
//! the credit for late timers.

use crate::config::Config;
use crate::sender::Sender;
use pauseframe_units::{Span, Time};

/// Segments before pacing begins (Linux).
const UNPACED: u64 = 10;

/// When the next segment may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pacer {
    /// When everything so far has left at the pacing rate.
    busy_until: Time,
    /// The next burst may begin.
    next: Time,
    /// Segments that the present burst still has.
    left: u32,
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer { busy_until: Time::ZERO, next: Time::ZERO, left: 0 }
    }
}

impl Sender {
    /// `tcp_update_pacing_rate`, bytes a second, whether or not segments are paced; `None`: nothing was measured yet.
    pub(crate) fn pacing_rate(&self, config: &Config) -> Option<u64> {
        let srtt = self.rtt.srtt().filter(|srtt| *srtt > Span::ZERO)?;
        let window = self.window.cwnd.max(self.scoreboard.flight(self.flight_size()));
        let percent = u128::from(config.recovery.pacing.percent(&self.window));
        let second = u128::from(Span::from_secs(1).0);
        Some((u128::from(window) * percent * second / 100 / u128::from(srtt.0)) as u64)
    }

    /// Whether the pacer holds back what could be sent; then its timer is set.
    pub(super) fn is_held_back(&mut self, now: Time, config: &Config) -> bool {
        if !config.recovery.pacing.on || self.must_retransmit() {
            return false;
        }
        let waiting = !self.is_all_sent() || self.scoreboard.has_lost();
        let Some(next) = self.refined.as_deref().map(|refined| refined.pacer.next) else { return false };
        let held = waiting && now < next;
        if held {
            self.wake_at(next);
        }
        held
    }

    /// `len` bytes were sent.
    pub(super) fn charge_pacer(&mut self, len: u32, now: Time, config: &Config) {
        let pacing = &config.recovery.pacing;
        if !pacing.on || self.snd_nxt <= UNPACED * u64::from(self.window.mss) {
            return;
        }
        let Some(srtt) = self.rtt.srtt() else { return };
        let window = self.window.cwnd.max(self.flight_size());
        let rate = u128::from(window) * u128::from(pacing.percent(&self.window).max(1));
        let span = (u128::from(len) * u128::from(srtt.0) * 100 / rate.max(1)) as u64;
        let whole = self.offloads().then(|| !self.is_leaving());
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let pacer = &mut refined.pacer;
        if pacer.left == 0 {
            pacer.left = pacing.burst.max(1);
        }
        pacer.busy_until = pacer.busy_until.max(now).saturating_add(Span(span));
        pacer.left -= 1;
        // A super-packet is a burst.
        if whole.unwrap_or(pacer.left == 0) {
            pacer.next = pacer.busy_until;
        }
    }
}
