//! Segmentation offload at the sender (TSO): the stack sends super-packets, up to 64 KB at a time, which the NIC cuts into frames.
//!
//! What offload changes is when segments leave, and with whom: a flow waits until a super-packet is worth it
//! (`tcp_tso_should_defer`), sends half a window at most in one (`tcp_cwnd_test`) and about a millisecond of its rate
//! (`tcp_tso_autosize`), and its segments meet the network back to back. All as in Linux 6.1. A super-packet never spans two of the
//! buffers that the application's writes have filled (`sk_buff`s of the write queue). Of its frames only the first has CWR and only the last PSH and FIN
//! (`tcp_gso_segment`). The last of several has PSH whether or not the application pushed (`__tcp_transmit_skb`: GRO need not wait for more), so the
//! receiver acknowledges every super-packet at once. They leave at one moment, so an ACK of a part of them gives the RTT of
//! the whole; the NIC sends them at its line rate. Retransmissions need nothing of this: what may be sent again at one moment is sent at one moment.

use crate::config::Config;
use crate::mechanisms::Mechanism;
use crate::recovery::Phase;
use crate::sender::{Kind, Outgoing, Sender};
use crate::small_queue::PACING_SHIFT;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// `tcp_min_tso_segs`.
const LEAST_SEGMENTS: u64 = 2;
/// `tcp_tso_rtt_log`: ... and more where the round trip is short.
const RTT_LOG: u32 = 9;
/// `tcp_tso_win_divisor`: so much of a window is worth sending.
const WINDOW_DIVISOR: u64 = 3;
/// `tcp_tso_should_defer`: nobody waits after a pause.
const RECENT: Span = Span::from_ms(1);

/// ... nor for an ACK that is further away than this, or half a round trip.
const FAR: Span = Span::from_ms(1);

/// The state of offload at a sender. Offsets and sizes in bytes.
#[derive(Clone, Debug)]
pub(crate) struct SuperPackets {
    /// The largest (`sk_gso_max_size`).
    max: u64,
    /// End of the first `sk_buff` that waits, and of all that was written when this was looked at last. Those behind it are full.
    first_end: u64,
    written: u64,
    /// Those in flight (`tcp_rtx_queue`).
    sent: VecDeque<Sent>,
    /// The one that leaves now ends here, with PSH because it is larger than a segment, and began to leave then.
    leaving: u64,
    pushed: bool,
    began: Time,
    /// The largest window that the peer has announced (`max_window`).
    max_window: u64,
}

/// A super-packet in flight: where it ends, and whether its last frame has PSH because it was larger than a segment.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    pushed: bool,
}

impl SuperPackets {
    /// The state that `config` needs.
    pub(crate) fn new(config: &Config) -> Option<Box<SuperPackets>> {
        (config.offload.tso > 0).then(|| {
            Box::new(SuperPackets {
                max: u64::from(config.offload.tso),
                first_end: 0,
                written: 0,
                sent: VecDeque::new(),
                leaving: 0,
                pushed: false,
                began: Time::ZERO,
                max_window: 0,
            })
        })
    }

    /// `tcp_xmit_size_goal`: what a write fills before it begins another, in whole segments, at most half of the peer's window.
    fn goal(&self, mss: u64) -> u64 {
        let bound = if self.max_window > 536 { self.max_window / 2 } else { u64::MAX };
        (self.max.min(bound) / mss).max(1) * mss
    }
}

impl Sender {
    fn supers(&self) -> Option<&SuperPackets> {
        self.refined.as_deref()?.supers.as_deref()
    }

    fn supers_mut(&mut self) -> Option<&mut SuperPackets> {
        self.refined.as_deref_mut()?.supers.as_deref_mut()
    }

    /// Whether frames of a super-packet are still to leave: nothing goes between them.
    pub(crate) fn is_leaving(&self) -> bool {
        self.supers().is_some_and(|supers| self.snd_nxt < supers.leaving)
    }

    /// What has not left stays.
    pub(crate) fn end_super_packet(&mut self) {
        let nxt = self.snd_nxt;
        if let Some(supers) = self.supers_mut() {
            supers.leaving = supers.leaving.min(nxt);
        }
    }

    /// The `sk_buff`s that wait: where the first ends, and what the last holds of a full one; brought up to date with what
    /// was written. A write goes into the last one first, then into new ones.
    fn survey_waiting(&mut self) -> Option<(u64, u64, u64)> {
        let (nxt, end) = (self.snd_nxt, self.data_end());
        let (mss, window) = (u64::from(self.window.mss), u64::from(self.snd_wnd));
        let supers = self.supers_mut()?;
        supers.max_window = supers.max_window.max(window);
        let goal = supers.goal(mss);
        if supers.first_end <= nxt {
            supers.first_end = nxt.saturating_add(goal).min(end);
        } else if supers.first_end >= supers.written {
            // The first is the last.
            supers.first_end = supers.first_end.max(nxt.saturating_add(goal)).min(end);
        }
        supers.first_end = supers.first_end.min(end.max(nxt));
        supers.written = end;
        Some((supers.first_end, end, goal))
    }

    /// For the writer: bytes in the last `sk_buff` that waits, and in a full one.
    pub(crate) fn last_waiting(&mut self) -> Option<(u64, u64)> {
        let nxt = self.snd_nxt;
        let (first_end, end, goal) = self.survey_waiting()?;
        let last = match end.saturating_sub(first_end) {
            0 => end.saturating_sub(nxt),
            behind => (behind - 1) % goal + 1,
        };
        Some((last, goal))
    }

    /// The `sk_buff`s that hold data, in flight or waiting.
    pub(crate) fn count_super_packets(&mut self) -> Option<u64> {
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let (first_end, end, goal) = self.survey_waiting()?;
        let waiting = if end > nxt { 1 + end.saturating_sub(first_end).div_ceil(goal) } else { 0 };
        let supers = self.supers_mut()?;
        while supers.sent.front().is_some_and(|sent| sent.end <= una) {
            supers.sent.pop_front();
        }
        Some(supers.sent.len() as u64 + waiting)
    }

    /// `tcp_rtx_queue_empty_or_single_skb`.
    fn is_single_in_flight(&self) -> bool {
        let una = self.snd_una;
        self.supers().is_none_or(|supers| supers.sent.iter().rev().nth(1).is_none_or(|sent| sent.end <= una))
    }

    /// New data went out: with its last frame a super-packet is in flight.
    pub(crate) fn note_super_packet(&mut self) {
        let nxt = self.snd_nxt;
        if let Some(supers) = self.supers_mut().filter(|supers| supers.leaving <= nxt) {
            supers.sent.push_back(Sent { end: nxt, pushed: supers.pushed });
        }
    }

    /// Whether the frame that ends with the byte before `end` is the last of several, which has PSH, also when it is sent again.
    #[cold]
    pub(crate) fn ends_super_packet(&self, end: u64) -> bool {
        let ends = |sent: &Sent| sent.end == end && sent.pushed;
        self.supers().is_some_and(|supers| supers.sent.iter().rev().any(ends))
    }

    /// A segment of the super-packet that leaves, or of the next if it may leave now. There are data to send.
    #[cold]
    pub(crate) fn next_of_super_packet(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        let mss = u64::from(self.window.mss);
        let supers = self.supers()?;
        let (leaving, began) = (supers.leaving, supers.began);
        if self.snd_nxt < leaving {
            let len = (leaving - self.snd_nxt).min(mss);
            return Some(self.transmit_new(len, Kind::New, self.pipe(), began, config));
        }
        let room = (self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        let (flight, pipe) = (self.scoreboard.flight(self.flight_size()), self.pipe());
        let (in_flight, cwnd) = (pipe.div_ceil(mss), (self.window.cwnd / mss).max(1));
        if in_flight >= cwnd {
            self.note_usage(true, flight);
            return None;
        }
        if (self.snd_end - self.snd_nxt).min(mss) > room {
            return self.next_in_small_window(room, now, config);
        }
        let len = self.cut_super_packet(room, in_flight, cwnd, now, config)?;
        if self.is_throttled(len, self.is_single_in_flight(), now, config) {
            return None;
        }
        let mut end = self.snd_nxt + len;
        if self.fin && end == self.data_end() {
            end = self.snd_end;
        }
        let supers = self.supers_mut()?;
        (supers.leaving, supers.pushed, supers.began) =
            (end, len > mss && config.has(Mechanism::TsoPush), now);
        Some(self.transmit_new((end - self.snd_nxt).min(mss), Kind::New, pipe, now, config))
    }

    /// Bytes of the next super-packet, if it is not better to wait (`tcp_write_xmit`). `room`: in the peer's window; `in_flight` and
    /// `cwnd` in segments.
    fn cut_super_packet(
        &mut self,
        room: u64,
        in_flight: u64,
        cwnd: u64,
        now: Time,
        config: &Config,
    ) -> Option<u64> {
        let mss = u64::from(self.window.mss);
        let (first_end, end, _) = self.survey_waiting()?;
        let waiting = first_end.saturating_sub(self.snd_nxt);
        if waiting <= mss {
            return Some(waiting);
        }
        let most = self.most_segments(config);
        let cong_win = (cwnd - in_flight) * mss;
        let may_wait = config.has(Mechanism::TsoDefer);
        if may_wait && self.defers(waiting, first_end == end, [cong_win, room, most * mss], now) {
            if cong_win < room && cong_win <= waiting {
                self.note_usage(true, self.scoreboard.flight(self.flight_size()));
            }
            return None;
        }
        // `tcp_cwnd_test`: so that there are two super-packets in flight. `tcp_mss_split_point`: whole segments.
        let half = if config.has(Mechanism::TsoHalfWindow) { (cwnd / 2).max(1) } else { cwnd };
        let quota = half.min(cwnd - in_flight);
        let allowed = quota.min(most) * mss;
        let needed = waiting.min(room);
        if allowed <= needed {
            return Some(allowed);
        }
        let partial = needed % mss;
        let held = partial > 0 && first_end == end && self.holds_back(partial);
        Some(if held { needed - partial } else { needed })
    }

    /// `tcp_tso_should_defer`: whether a super-packet of what the congestion window and the peer's hold is too small to be
    /// worth it, and an ACK that will open them more is near. `waiting`: bytes of the `sk_buff`; `last`: nothing waits behind it.
    fn defers(&self, waiting: u64, last: bool, [cong_win, send_win, full]: [u64; 3], now: Time) -> bool {
        if matches!(self.phase, Phase::Recovery | Phase::Loss)
            || now.saturating_since(self.last_sent()) > RECENT
        {
            return false;
        }
        let limit = cong_win.min(send_win);
        let enough = u64::from(self.snd_wnd).min(self.window.cwnd) / WINDOW_DIVISOR;
        if limit >= full || (!last && limit >= waiting) || limit >= enough {
            return false;
        }
        let Some(head) = self.scoreboard.head_sent_at() else { return false };
        let srtt = self.rtt.srtt().unwrap_or(Span::ZERO);
        if head.saturating_add(srtt).saturating_since(now) > (srtt / 2).min(FAR) {
            // The next ACK is likely to be far.
            return false;
        }
        limit <= waiting || !(last && self.fin)
    }

    /// `tcp_tso_autosize`, segments: what the flow sends in a millisecond, more where the round trip is short.
    fn most_segments(&self, config: &Config) -> u64 {
        let Some(supers) = self.supers() else { return 1 };
        let mss = u64::from(self.window.mss);
        let least_rtt = self.refined.as_ref().map_or(Span::ZERO, |refined| refined.min_rtt());
        let mut bytes = supers.max;
        let rate = self.pacing_rate(config).filter(|_| config.has(Mechanism::TsoAutosize));
        if let Some(rate) = rate {
            let rounds = (least_rtt.0 / Span::from_us(1).0) >> RTT_LOG;
            let near = least_rtt > Span::ZERO && rounds < 32;
            bytes = (rate >> PACING_SHIFT) + if near { supers.max >> rounds } else { 0 };
        }
        (bytes.min(supers.max) / mss).max(LEAST_SEGMENTS)
    }
}
