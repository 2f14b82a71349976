//! The sending half of a connection: its variables and the window (RFC 9293 §3.3.1, RFC 5681 §2). `acks.rs` processes ACKs, `transmission.rs` (for
//! super-packets `offload.rs`) sends, `writing.rs` takes data from the application, and `recovery` has loss recovery, restart after idle and pacing.
//!
//! Left out: SND.WL1 and WL2 (the newest ACK's window counts).

mod acks;
mod offload;
mod transmission;
mod writing;

use crate::cc::{CongestionAlgorithm, CongestionControl, CongestionWindow};
use crate::config::TcpConfig;
use crate::recovery::{RecoveryPhase, RecoveryRefinementState};
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::sequence::SequenceSpace;
use pauseframe_units::Time;

/// RFC 7323 §2.3: the largest window for which old and new sequence numbers can be distinguished.
const MAX_PEER_WINDOW: u32 = 1 << 30;

/// Bit of `detour`: the next retransmission does not wait for room in the window.
pub(crate) const MUST_RETRANSMIT: u8 = 1;
/// Bit of `detour`: refinements of recovery are on.
const REFINED: u8 = 2;
/// Bit of `detour`, always together with `REFINED`: data leave in super-packets.
const OFFLOADED: u8 = 4;

/// A segment of data to put on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutgoingSegment {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) kind: SegmentKindForEcn,
}

/// Kinds of segments that ECN treats differently (RFC 3168 §6.1.5, §6.1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentKindForEcn {
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
    pub(crate) window: CongestionWindow,
    pub(crate) snd_wnd: u32,
    pub(crate) dup_acks: u32,
    pub(crate) space: SequenceSpace,
    pub(crate) phase: RecoveryPhase,
    /// SACK was negotiated.
    pub(crate) sack: bool,
    /// The last byte stands for the FIN.
    pub(crate) fin: bool,
    /// The next new segment carries CWR.
    pub(crate) cwr_due: bool,
    /// Reasons for the slow path, as bits, so that one test suffices: [`MUST_RETRANSMIT`], [`REFINED`], [`OFFLOADED`].
    pub(crate) detour: u8,
    /// RFC 6675 rule 4 has been used in this recovery.
    pub(crate) rescued: bool,
    /// A probe of a closed window is in flight.
    pub(crate) probing: bool,
    probe_due: bool,
    /// pFabric's probe mode after too many timeouts: only single-byte probes until an ACK arrives.
    pub(crate) probing_path: bool,
    /// The next probe of probe mode is due.
    pub(crate) probe_path_due: bool,
    /// Whether cwnd limited the flow in the last window.
    cwnd_limited: bool,
    /// The window grows up to the peer's window even if unfilled ([`crate::RecoveryConfig::window_validation`]).
    unvalidated: bool,
    /// Consecutive timeouts without progress.
    pub(crate) retries: u32,
    /// When the retransmission (or persist, or SYN) timer expires; [`Time::MAX`]: it is off.
    pub(crate) rto_deadline: Time,
    pub(crate) rtt: RttEstimator,
    pub(crate) cc: CongestionControl,
    pub(crate) scoreboard: Scoreboard,
    /// Bytes that have left the network according to duplicate ACKs alone, or that limited transmit may send beyond the window.
    pub(crate) inflation: u64,
    /// End of the data in flight when recovery (or the phase after a timeout) began.
    pub(crate) recover: u64,
    /// End of the data in flight when ECE last reduced the window.
    pub(crate) cwr_end: u64,
    /// cwnd before ECE last reduced it.
    pub(crate) prior_cwnd: u64,
    /// Maximum bytes in flight since `snd_una` passed the last `usage_end`.
    flight_max: u64,
    /// `snd_una` at which the measurement of the usage restarts.
    usage_end: u64,
    /// When new data were last sent.
    last_sent: Time,
    /// State of the enabled recovery refinements, if any.
    pub(crate) refined: Option<Box<RecoveryRefinementState>>,
}

impl Sender {
    /// When the timer of the congestion control expires. It stands still while nothing is left to send or to acknowledge.
    #[inline]
    pub(crate) fn control_deadline(&self) -> Time {
        if self.snd_una < self.snd_end { self.cc.deadline() } else { Time::MAX }
    }

    /// Runs that timer if it has expired.
    pub(crate) fn run_control_timer(&mut self, now: Time) {
        if self.control_deadline() <= now {
            self.cc.on_timer(&mut self.window, now);
        }
    }

    pub(crate) fn new(config: &TcpConfig, iss: u32) -> Sender {
        let mss = config.mss.max(1);
        Sender {
            snd_una: 0,
            snd_nxt: 0,
            snd_end: 0,
            window: CongestionWindow {
                cwnd: config.initial_window.max(u64::from(mss)),
                ssthresh: u64::MAX,
                mss,
            },
            // Replaced by the peer's; without a handshake both ends have the same settings.
            snd_wnd: config.receive_window.min(MAX_PEER_WINDOW),
            dup_acks: 0,
            space: SequenceSpace::after_syn(iss),
            phase: RecoveryPhase::Open,
            sack: config.sack,
            fin: false,
            cwr_due: false,
            detour: (if RecoveryRefinementState::is_needed(config) { REFINED } else { 0 })
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
            rtt: RttEstimator::new(&config.rto),
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
            refined: RecoveryRefinementState::new(config),
        }
    }

    /// Discards data that were never sent.
    pub(crate) fn discard_unsent(&mut self) {
        self.cancel_unwritten();
        self.end_super_packet();
        self.snd_end = self.snd_nxt;
        self.probe_due = false;
        if self.scoreboard.is_empty() {
            self.rto_deadline = Time::MAX;
        }
    }

    /// Sets the state as if `offset` bytes had been sent and acknowledged.
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
    pub(crate) fn unacked_bytes(&self) -> u64 {
        self.data_end().saturating_add(self.unwritten_bytes()).saturating_sub(self.snd_una)
    }

    /// Whether all data are sent and acknowledged.
    #[inline]
    pub(crate) fn is_all_acked(&self) -> bool {
        self.snd_una == self.snd_end
    }

    /// Whether a segment has PSH.
    #[inline]
    pub(crate) fn take_push(&mut self, what: OutgoingSegment) -> bool {
        let end = what.offset + u64::from(what.len);
        let forced = self.uses_super_packets() && self.is_last_frame(end);
        let written = match self.refined.as_deref_mut().and_then(|refined| refined.writer.as_deref_mut()) {
            None => self.empties_buffer(end),
            Some(writer) if what.kind == SegmentKindForEcn::Retransmission => {
                writer.has_push_mark(what.offset, what.len)
            }
            Some(writer) => writer.take_push_before(end),
        };
        written || forced
    }

    /// Whether the send buffer empties with the byte before `end`.
    #[inline]
    pub(crate) fn empties_buffer(&self, end: u64) -> bool {
        end >= self.data_end()
    }

    /// End of the data, without the FIN.
    #[inline]
    pub(crate) fn data_end(&self) -> u64 {
        self.snd_end - u64::from(self.fin)
    }

    /// Whether all data of the application have been sent.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.snd_nxt == self.snd_end && self.unwritten_bytes() == 0
    }

    /// The length of the next new segment, if there is one and the peer's window holds it.
    pub(crate) fn next_sendable_len(&self) -> Option<u64> {
        let len = (self.snd_end - self.snd_nxt).min(u64::from(self.window.mss));
        let room = (self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        (len > 0 && len <= room).then_some(len)
    }

    /// Takes over the window field of a segment.
    pub(crate) fn set_peer_window(&mut self, window: u32) {
        self.snd_wnd = window.min(MAX_PEER_WINDOW);
    }

    /// Estimate of the bytes in the network (RFC 6675 `pipe`). Outside recovery it is the flight size, regardless of SACK, so that limited transmit
    /// remains a separate setting.
    #[inline]
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe_of(self.scoreboard.flight_space(self.flight_size()))
    }

    #[inline]
    fn pipe_of(&self, flight: u64) -> u64 {
        let absent = match self.phase {
            RecoveryPhase::Open | RecoveryPhase::Cwr => self.inflation,
            RecoveryPhase::Recovery | RecoveryPhase::Loss => {
                self.inflation + self.scoreboard.bytes_not_in_network()
            }
        };
        flight.saturating_sub(absent)
    }

    /// Whether cwnd limits the flow, so that it may grow (RFC 7661 §4.1 in Linux's form): the last window was filled or, in slow start, more than
    /// half of it was used.
    #[inline]
    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            || (self.window.cwnd < self.window.ssthresh && self.window.cwnd < 2 * self.flight_max)
            || (self.unvalidated && self.window.cwnd <= u64::from(self.snd_wnd))
    }

    /// Records the window usage for [`Self::is_cwnd_limited`]: once per window, or when it increases.
    #[inline]
    pub(crate) fn record_window_usage(&mut self, limited: bool, flight: u64) {
        if limited || self.snd_una >= self.usage_end || (!self.cwnd_limited && flight > self.flight_max) {
            self.cwnd_limited = limited;
            self.flight_max = flight;
            self.usage_end = self.snd_nxt;
        }
    }

    /// Whether the next retransmission does not wait for room in the window.
    pub(crate) fn must_retransmit(&self) -> bool {
        self.detour & MUST_RETRANSMIT != 0
    }

    /// Whether data leave in super-packets.
    #[inline]
    pub(crate) fn uses_super_packets(&self) -> bool {
        self.detour & OFFLOADED != 0
    }

    /// Records that data are sent now.
    pub(crate) fn record_sent(&mut self, now: Time) {
        self.last_sent = now;
    }
}

#[cfg(test)]
mod tests;
