//! The sending half of a connection: the window, and what may be sent now (RFC 9293 §3.8, RFC 5681 §3).
//!
//! A segment goes out if pipe + its length is at most cwnd, and always if the pipe is empty. A short last segment is
//! sent at once, unless `writing.rs` holds it back. Where the peer's window has room for a part of a segment
//! only, that part is sent when nothing is in flight, else the sender waits (RFC 9293 §3.8.6.2.1). A window
//! of zero is probed (§3.8.6.1). Retransmissions do not look at the peer's window, which may have shrunk.
//! Restart after idle and pacing are options of `recovery`. Left out: SND.WL1 and WL2 (the newest ACK's window counts).

use crate::cc::{AckSample, Algorithm, CongestionControl, Window};
use crate::config::Config;
use crate::recovery::{Phase, Refined};
use crate::rtt::Rtt;
use crate::scoreboard::{Retransmission, Scoreboard};
use crate::segment::{Options, Segment};
use crate::sequence::SequenceSpace;
use crate::stats::Stats;
use pauseframe_units::{Span, Time};

/// RFC 7323 §2.3: no window is larger, so that old and new sequence numbers can be told apart.
const MAX_WINDOW: u32 = 1 << 30;

/// Bit of `detour`: the next retransmission does not wait for room in the window.
pub(crate) const MUST_RETRANSMIT: u8 = 1;
/// Bit of `detour`: refinements of recovery are on.
const REFINED: u8 = 2;
/// Bit of `detour`, with the one before: data leave in super-packets.
const OFFLOADED: u8 = 4;

/// A segment of data to put on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) kind: Kind,
}

/// What ECN treats differently (RFC 3168 §6.1.5, §6.1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    New,
    Retransmission,
    WindowProbe,
}

/// The sending half. Offsets and sizes in bytes.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts; the states that exclude each other are `phase`"
)]
pub(crate) struct Sender {
    pub(crate) snd_una: u64,
    pub(crate) snd_nxt: u64,
    /// End of what the application has written.
    pub(crate) snd_end: u64,
    pub(crate) window: Window,
    pub(crate) snd_wnd: u32,
    pub(crate) dup_acks: u32,
    pub(crate) space: SequenceSpace,
    pub(crate) phase: Phase,
    /// SACK was negotiated.
    pub(crate) sack: bool,
    /// The last byte stands for the FIN.
    pub(crate) fin: bool,
    /// The next new segment says that the window was reduced.
    pub(crate) cwr_due: bool,
    /// Why the next segment is not simply a new one: [`MUST_RETRANSMIT`], [`REFINED`]. One test for both.
    pub(crate) detour: u8,
    /// RFC 6675 rule 4 has been used in this recovery.
    pub(crate) rescued: bool,
    /// A probe of a closed window is in flight.
    pub(crate) probing: bool,
    probe_due: bool,
    /// After too many timeouts (pFabric's probe mode): nothing but single bytes until an ACK comes, and the next one.
    pub(crate) probing_path: bool,
    pub(crate) probe_path_due: bool,
    cwnd_limited: bool,
    /// The window grows up to the peer's although it is not filled ([`crate::RecoveryConfig::window_validation`]).
    unvalidated: bool,
    /// Consecutive timeouts without progress.
    pub(crate) retries: u32,
    /// When the retransmission (or persist, or SYN) timer expires; [`Time::MAX`]: it is off.
    pub(crate) rto_deadline: Time,
    pub(crate) rtt: Rtt,
    pub(crate) cc: CongestionControl,
    pub(crate) scoreboard: Scoreboard,
    /// What the sender takes to have left the network on the strength of duplicate ACKs alone, or may send beyond
    /// the window by limited transmit.
    pub(crate) inflation: u64,
    /// End of the data in flight when recovery (or the phase after a timeout) began.
    pub(crate) recover: u64,
    /// End of the data in flight when ECE last reduced the window.
    pub(crate) cwr_end: u64,
    /// cwnd before ECE last reduced it.
    pub(crate) prior_cwnd: u64,
    /// The most in flight since `snd_una` passed the last `usage_end`, and whether cwnd held the flow back.
    flight_max: u64,
    usage_end: u64,
    /// When new data were last sent.
    last_sent: Time,
    /// State of the refinements of recovery that are on; a plain connection has none.
    pub(crate) refined: Option<Box<Refined>>,
}

impl Sender {
    pub(crate) fn new(config: &Config, iss: u32) -> Sender {
        let mss = config.mss.max(1);
        Sender {
            snd_una: 0,
            snd_nxt: 0,
            snd_end: 0,
            window: Window { cwnd: config.initial_window.max(u64::from(mss)), ssthresh: u64::MAX, mss },
            // Replaced by the peer's; without a handshake both ends have the same settings.
            snd_wnd: config.receive_window.min(MAX_WINDOW),
            dup_acks: 0,
            space: SequenceSpace::after_syn(iss),
            phase: Phase::Open,
            sack: config.sack,
            fin: false,
            cwr_due: false,
            detour: (if Refined::is_needed(config) { REFINED } else { 0 })
                | if config.offload.tso > 0 { OFFLOADED } else { 0 },
            rescued: false,
            probing: false,
            probe_due: false,
            probing_path: false,
            probe_path_due: false,
            cwnd_limited: false,
            unvalidated: !config.recovery.window_validation,
            retries: 0,
            rto_deadline: Time::MAX,
            rtt: Rtt::new(&config.rto),
            cc: CongestionControl::new(&config.congestion_control),
            scoreboard: if config.recovery.count_packets {
                Scoreboard::counting_packets(mss)
            } else {
                Scoreboard::default()
            },
            inflation: 0,
            recover: 0,
            cwr_end: 0,
            prior_cwnd: 0,
            flight_max: 0,
            usage_end: 0,
            last_sent: Time::ZERO,
            refined: Refined::new(config),
        }
    }

    /// Drops what was never sent.
    pub(crate) fn truncate(&mut self) {
        self.stop_writing();
        self.end_super_packet();
        self.snd_end = self.snd_nxt;
        self.probe_due = false;
        if self.scoreboard.is_empty() {
            self.rto_deadline = Time::MAX;
        }
    }

    /// As if `offset` bytes had been sent and acknowledged.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.snd_una = offset;
        self.snd_nxt = offset;
        self.snd_end = offset;
    }

    /// RFC 5681 §2: sent and not acknowledged.
    #[inline]
    pub(crate) fn flight_size(&self) -> u64 {
        self.snd_nxt - self.snd_una
    }

    /// Bytes that the peer has yet to acknowledge.
    pub(crate) fn remaining(&self) -> u64 {
        self.data_end().saturating_add(self.waiting()).saturating_sub(self.snd_una)
    }

    /// Whether all data are sent and acknowledged.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.snd_una == self.snd_end
    }

    /// Whether a segment has PSH.
    #[inline]
    pub(crate) fn is_pushed(&mut self, what: Outgoing) -> bool {
        let end = what.offset + u64::from(what.len);
        let forced = self.offloads() && self.ends_super_packet(end);
        let written = match self.refined.as_deref_mut().and_then(|refined| refined.writer.as_deref_mut()) {
            None => self.is_last(end),
            Some(writer) if what.kind == Kind::Retransmission => writer.has_mark(what.offset, what.len),
            Some(writer) => writer.passes(end),
        };
        written || forced
    }

    /// Whether the send buffer empties with the byte before `end`.
    #[inline]
    pub(crate) fn is_last(&self, end: u64) -> bool {
        end >= self.data_end()
    }

    /// End of the data, without the FIN.
    #[inline]
    pub(crate) fn data_end(&self) -> u64 {
        self.snd_end - u64::from(self.fin)
    }

    /// Whether everything that the application handed over was sent.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.snd_nxt == self.snd_end && self.waiting() == 0
    }

    /// The length of the next new segment, if there is one and the peer's window holds it.
    pub(crate) fn fits_peer(&self) -> Option<u64> {
        let len = (self.snd_end - self.snd_nxt).min(u64::from(self.window.mss));
        let room = (self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        (len > 0 && len <= room).then_some(len)
    }

    /// Takes over the window field of a segment.
    pub(crate) fn set_peer_window(&mut self, window: u32) {
        self.snd_wnd = window.min(MAX_WINDOW);
    }

    /// What is thought to be in the network (RFC 6675 `pipe`). Outside recovery that is the flight size, whatever
    /// SACK says, so limited transmit stays a setting of its own.
    #[inline]
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe_of(self.scoreboard.flight(self.flight_size()))
    }

    #[inline]
    fn pipe_of(&self, flight: u64) -> u64 {
        let absent = match self.phase {
            Phase::Open | Phase::Cwr => self.inflation,
            Phase::Recovery | Phase::Loss => self.inflation + self.scoreboard.absent(),
        };
        flight.saturating_sub(absent)
    }

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

    /// Whether cwnd is what holds the flow back, so that it may grow (RFC 7661 §4.1 in Linux's form): the last
    /// window was filled or, in slow start, more than half of it was used.
    #[inline]
    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            || (self.window.cwnd < self.window.ssthresh && self.window.cwnd < 2 * self.flight_max)
            || (self.unvalidated && self.window.cwnd <= u64::from(self.snd_wnd))
    }

    /// Keeps the evidence for [`Self::is_cwnd_limited`]: once a window, unless it gets stronger.
    #[inline]
    pub(crate) fn note_usage(&mut self, limited: bool, flight: u64) {
        if limited || self.snd_una >= self.usage_end || (!self.cwnd_limited && flight > self.flight_max) {
            self.cwnd_limited = limited;
            self.flight_max = flight;
            self.usage_end = self.snd_nxt;
        }
    }

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

    /// Whether the next retransmission does not wait for room in the window.
    pub(crate) fn must_retransmit(&self) -> bool {
        self.detour & MUST_RETRANSMIT != 0
    }

    /// Whether data leave in super-packets.
    #[inline]
    pub(crate) fn offloads(&self) -> bool {
        self.detour & OFFLOADED != 0
    }

    /// When data were last sent: new ones, or with refinements any (Linux `lsndtime`).
    pub(crate) fn last_sent(&self) -> Time {
        self.last_sent
    }

    /// Data are sent now.
    pub(crate) fn note_sent(&mut self, now: Time) {
        self.last_sent = now;
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
    pub(crate) fn transmit_new(
        &mut self,
        len: u64,
        kind: Kind,
        pipe: u64,
        now: Time,
        config: &Config,
    ) -> Outgoing {
        self.transmit_as::<true>(len, kind, pipe, now, config)
    }

    #[inline]
    fn transmit_as<const PACKETS: bool>(
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
            return Some(self.transmit_new(len, Kind::New, 0, now, config));
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
            return Some(self.transmit_new(room, Kind::New, 0, now, config));
        }
        if self.probe_due {
            self.probe_due = false;
            self.probing = true;
            self.rto_deadline = Time::MAX;
            return Some(self.transmit_new(1, Kind::WindowProbe, 0, now, config));
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
