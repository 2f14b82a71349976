//! What the sender puts on the wire: new data as far as the windows have room, probes of a closed window, retransmissions in
//! their order; and what the timer lets out.
//!
//! A segment goes out if pipe + its length is at most cwnd, and always if the pipe is empty. A short last segment is
//! sent at once, unless `writing.rs` holds it back. Where the peer's window has room for a part of a segment
//! only, that part is sent when nothing is in flight, else the sender waits (RFC 9293 §3.8.6.2.1). A window
//! of zero is probed (§3.8.6.1). Retransmissions do not look at the peer's window, which may have shrunk.

use super::{Kind, MUST_RETRANSMIT, Outgoing, REFINED, Sender};
use crate::cc::Algorithm;
use crate::config::Config;
use crate::recovery::Phase;
use crate::scoreboard::Retransmission;
use crate::stats::Stats;
use pauseframe_units::Time;

impl Sender {
    /// Whether the next segment is not simply a new one ([`Self::next_new`]) but comes from [`Self::next_by_detour`].
    #[inline]
    pub(crate) fn is_on_detour(&self) -> bool {
        self.detour != 0 || matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    /// The next segment with data, if one may be sent now.
    #[cold]
    pub(crate) fn next_by_detour(
        &mut self,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) -> Option<Outgoing> {
        if self.detour & REFINED != 0 {
            return self.next_refined(now, config, stats);
        }
        self.next_in_recovery(now, config, stats)
    }

    /// The next segment without what [`Self::next_refined`] adds.
    #[inline]
    pub(crate) fn next_plain(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Option<Outgoing> {
        if self.must_retransmit() || matches!(self.phase, Phase::Recovery | Phase::Loss) {
            return self.next_in_recovery(now, config, stats);
        }
        self.next_new(now, config)
    }

    /// What is in flight takes so much of the window.
    #[inline]
    fn flight_as<const PACKETS: bool>(&self) -> u64 {
        let bytes = self.flight_size();
        if PACKETS { self.scoreboard.flight(bytes) } else { bytes }
    }

    #[inline]
    fn charge_as<const PACKETS: bool>(&self, len: u64) -> u64 {
        if PACKETS { self.scoreboard.weigh(len) } else { len }
    }

    /// A new segment, if the windows have room.
    #[inline]
    pub(crate) fn next_new(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        self.next_new_as::<true>(now, config)
    }

    /// The same; `PACKETS`: refinements may be on, and windows count packets.
    #[inline]
    pub(crate) fn next_new_as<const PACKETS: bool>(
        &mut self,
        now: Time,
        config: &Config,
    ) -> Option<Outgoing> {
        let unsent = self.snd_end - self.snd_nxt;
        if unsent == 0 {
            return None;
        }
        let len = unsent.min(u64::from(self.window.mss));
        if PACKETS && len < u64::from(self.window.mss) && self.holds_back(len) {
            return self.next_held_back(len, now, config);
        }
        if PACKETS && self.offloads() {
            return self.next_of_super_packet(now, config);
        }
        let flight = self.flight_as::<PACKETS>();
        let pipe = self.pipe_of(flight);
        if pipe + self.charge_as::<PACKETS>(len) > self.window.cwnd && pipe > 0 {
            self.note_usage(true, flight);
            return None;
        }
        let room = (self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        if len > room {
            return self.next_in_small_window(room, now, config);
        }
        if PACKETS && self.is_throttled(len, self.scoreboard.len() < 2, now, config) {
            return None;
        }
        Some(self.transmit_as::<PACKETS>(len, Kind::New, pipe, now, config))
    }

    /// Sends `len` new bytes with `pipe` in flight.
    #[inline]
    pub(crate) fn transmit_as<const PACKETS: bool>(
        &mut self,
        len: u64,
        kind: Kind,
        pipe: u64,
        now: Time,
        config: &Config,
    ) -> Outgoing {
        let offset = self.snd_nxt;
        if self.snd_una == offset && offset > 0 {
            self.cc.on_restart(now.saturating_since(self.last_sent));
        }
        self.last_sent = now;
        self.snd_nxt += len;
        self.scoreboard.sent(self.snd_nxt, now);
        if self.rto_deadline == Time::MAX {
            self.rto_deadline = self.rtt.deadline(now, &config.rto);
        }
        let pipe = pipe + self.charge_as::<PACKETS>(len);
        let flight = self.flight_as::<PACKETS>();
        self.note_usage(pipe + u64::from(self.window.mss) > self.window.cwnd, flight);
        Outgoing { offset, len: len as u32, kind }
    }

    /// The rest of the data waits for more to come; at the latest the probe timer sends it, as a closed window is probed.
    #[cold]
    fn next_held_back(&mut self, len: u64, now: Time, config: &Config) -> Option<Outgoing> {
        if self.snd_una < self.snd_nxt {
            return None;
        }
        if std::mem::take(&mut self.probe_due) {
            self.rto_deadline = Time::MAX;
            return Some(self.transmit_as::<true>(len, Kind::New, 0, now, config));
        }
        if self.rto_deadline == Time::MAX {
            self.rto_deadline = self.rtt.deadline(now, &config.rto);
        }
        None
    }

    /// The peer's window holds less than a segment: `room` bytes.
    #[cold]
    pub(crate) fn next_in_small_window(&mut self, room: u64, now: Time, config: &Config) -> Option<Outgoing> {
        if self.snd_una < self.snd_nxt {
            return None;
        }
        if room > 0 {
            return Some(self.transmit_as::<true>(room, Kind::New, 0, now, config));
        }
        if self.probe_due {
            self.probe_due = false;
            self.probing = true;
            self.rto_deadline = Time::MAX;
            return Some(self.transmit_as::<true>(1, Kind::WindowProbe, 0, now, config));
        }
        if self.rto_deadline == Time::MAX {
            // The persist timer.
            self.rto_deadline = self.rtt.deadline(now, &config.rto);
        }
        None
    }

    /// What goes out in recovery: lost segments before new ones (RFC 6675 §4 `NextSeg`).
    #[cold]
    #[inline(never)]
    fn next_in_recovery(&mut self, now: Time, config: &Config, stats: &mut Stats) -> Option<Outgoing> {
        if self.probe_path_due {
            self.probe_path_due = false;
            stats.retransmits += 1;
            return Some(Outgoing { offset: self.snd_una, len: 1, kind: Kind::Retransmission });
        }
        if self.probing_path {
            return None;
        }
        if let Some(lost) = self.scoreboard.next_lost(self.snd_una) {
            let pipe = self.pipe();
            let len = self.scoreboard.weigh(u64::from(lost.len));
            let fits = pipe == 0 || pipe + len <= self.window.cwnd;
            if !fits && !self.must_retransmit() {
                return None;
            }
            self.detour &= !MUST_RETRANSMIT;
            return Some(self.retransmit(lost, now, config, stats));
        }
        self.detour &= !MUST_RETRANSMIT;
        if self.snd_nxt < self.snd_end || !self.sack || self.phase != Phase::Recovery {
            return self.next_new(now, config);
        }
        if self.pipe() + u64::from(self.window.mss) > self.window.cwnd {
            return None;
        }
        let hole = self.next_speculative(config)?;
        Some(self.retransmit(hole, now, config, stats))
    }

    fn retransmit(
        &mut self,
        what: Retransmission,
        now: Time,
        config: &Config,
        stats: &mut Stats,
    ) -> Outgoing {
        self.scoreboard.retransmitted(what, now);
        if what.offset == self.snd_una {
            // As Linux: the copy that must arrive next gets a full timeout.
            self.rto_deadline = self.rtt.deadline(now, &config.rto);
        }
        stats.retransmits += 1;
        Outgoing { offset: what.offset, len: what.len, kind: Kind::Retransmission }
    }

    /// The timer of the sending half expired. False: the retry limit is reached.
    pub(crate) fn on_timeout(&mut self, now: Time, config: &Config, stats: &mut Stats) -> bool {
        if self.refined.is_some() && self.on_special_timer(now, config, stats) {
            return true;
        }
        if self.retries >= config.retries && !self.probing_path {
            return false;
        }
        self.retries = self.retries.saturating_add(1);
        if self.snd_una < self.snd_nxt {
            self.on_retransmission_timeout(now, config, stats);
        } else {
            // Nothing in flight: the persist timer.
            self.probe_due = self.snd_nxt < self.snd_end;
            self.rtt.back_off();
            self.rto_deadline = if self.probe_due { self.rtt.deadline(now, &config.rto) } else { Time::MAX };
        }
        true
    }
}
