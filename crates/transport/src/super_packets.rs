//! Segmentation offload at the sender (TSO): the stack sends super-packets, up to 64 KB at a time, which the NIC cuts into frames.
//!
//! Offload changes when segments leave: a flow waits until a super-packet is large enough (`tcp_tso_should_defer`), sends half a window at most in
//! one (`tcp_cwnd_test`) and about a millisecond of its rate (`tcp_tso_autosize`), and its segments meet the network back to back. All as in Linux
//! 6.1. A super-packet never spans two of the buffers that the application's writes have filled (`sk_buff`s of the write queue). Of its frames only
//! the first has CWR and only the last PSH and FIN (`tcp_gso_segment`). The last of several has PSH whether or not the application pushed
//! (`__tcp_transmit_skb`: GRO need not wait for more), so the receiver acknowledges every super-packet at once. All frames of a super-packet have the
//! same send time, so an ACK of a part gives the RTT of the whole; the NIC sends them at line rate. Retransmissions need no super-packets, because
//! all eligible segments are sent at the same time anyway.

use crate::config::TcpConfig;
use crate::small_queue::PACING_SHIFT;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// `tcp_min_tso_segs`.
const MIN_TSO_SEGMENTS: u64 = 2;
/// `tcp_tso_rtt_log`: larger super-packets for short round trips.
const TSO_RTT_LOG: u32 = 9;

/// The state of offload at a sender. Offsets and sizes in bytes.
#[derive(Clone, Debug)]
pub(crate) struct SuperPacketState {
    /// Largest super-packet (`sk_gso_max_size`).
    max: u64,
    /// The waiting `sk_buff`s (`sk_write_queue`), as far as data were written at the last update.
    waiting: VecDeque<EqualSkbs>,
    /// End of all data written at the last update.
    written: u64,
    /// Super-packets in flight (`tcp_rtx_queue`).
    sent: VecDeque<SentSuperPacket>,
    /// End of the super-packet that is being sent.
    pub(crate) current_end: u64,
    /// Its last frame has PSH, because it is larger than a segment.
    pushed: bool,
    /// When it started to leave.
    pub(crate) began: Time,
    /// The largest window that the peer has announced (`max_window`).
    max_window: u64,
}

/// Waiting `sk_buff`s that were filled to the same size but for the first, of which a part may have left, and the last.
#[derive(Clone, Copy, Debug)]
struct EqualSkbs {
    first_end: u64,
    end: u64,
    goal: u64,
}

impl EqualSkbs {
    /// Their number.
    fn count(self) -> u64 {
        1 + (self.end - self.first_end).div_ceil(self.goal)
    }

    /// Where the last one begins, if the first begins at `start`.
    fn start_of_last(self, start: u64) -> u64 {
        match self.count() {
            1 => start,
            count => self.first_end + (count - 2) * self.goal,
        }
    }
}

/// A super-packet in flight: its end, and whether its last frame has PSH because it was larger than a segment.
#[derive(Clone, Copy, Debug)]
struct SentSuperPacket {
    end: u64,
    pushed: bool,
}

impl SuperPacketState {
    /// The state that `config` needs.
    pub(crate) fn new(config: &TcpConfig) -> Option<Box<SuperPacketState>> {
        (config.offload.tso > 0).then(|| {
            Box::new(SuperPacketState {
                max: u64::from(config.offload.tso),
                waiting: VecDeque::new(),
                written: 0,
                sent: VecDeque::new(),
                current_end: 0,
                pushed: false,
                began: Time::ZERO,
                max_window: 0,
            })
        })
    }

    /// `tcp_xmit_size_goal`: size to which a write fills an `sk_buff`, in whole segments, at most half of the peer's window.
    fn size_goal(&self, mss: u64) -> u64 {
        // `tcp_bound_to_half_wnd`: a tiny window bounds it whole, and none that was announced does not bound it.
        let bound = match self.max_window {
            0 => u64::MAX,
            tiny @ 1..=536 => tiny,
            window => window / 2,
        };
        (self.max.min(bound) / mss).max(1) * mss
    }

    /// Ends the current super-packet at `snd_nxt`; the rest remains unsent.
    pub(crate) fn truncate(&mut self, snd_nxt: u64) {
        self.current_end = self.current_end.min(snd_nxt);
    }

    /// Starts a super-packet at `now` that ends at `end`. `pushed`: its last frame has PSH.
    pub(crate) fn begin(&mut self, end: u64, pushed: bool, now: Time) {
        (self.current_end, self.pushed, self.began) = (end, pushed, now);
    }

    /// Updates and returns the waiting `sk_buff`s after writes up to `end`. A write fills the last one first, then new ones. `window`: the peer's
    /// window.
    pub(crate) fn update_waiting_skbs(
        &mut self,
        snd_nxt: u64,
        end: u64,
        mss: u64,
        window: u64,
    ) -> WaitingSkbs {
        self.max_window = self.max_window.max(window);
        while self.waiting.front().is_some_and(|skbs| skbs.end <= snd_nxt) {
            self.waiting.pop_front();
        }
        if let Some(first) = self.waiting.front_mut().filter(|skbs| skbs.first_end <= snd_nxt) {
            first.first_end = snd_nxt.saturating_add(first.goal).min(first.end);
        }
        let goal = self.size_goal(mss);
        if end > self.written.max(snd_nxt) {
            self.append_skbs(snd_nxt, end, goal);
        }
        self.written = end;
        let first_end = self.waiting.front().map_or(end.max(snd_nxt), |skbs| skbs.first_end);
        let last = end.saturating_sub(self.start_of_last(snd_nxt));
        WaitingSkbs { first_end, end, goal, last }
    }

    /// Where the last waiting `sk_buff` begins; `snd_nxt` without one.
    fn start_of_last(&self, snd_nxt: u64) -> u64 {
        let before = self.waiting.iter().rev().nth(1).map_or(snd_nxt, |skbs| skbs.end);
        self.waiting.back().map_or(snd_nxt, |skbs| skbs.start_of_last(before))
    }

    /// Writes up to `end`, which fills `sk_buff`s to `goal`.
    fn append_skbs(&mut self, snd_nxt: u64, end: u64, goal: u64) {
        let start = self.start_of_last(snd_nxt);
        if let Some(last) = self.waiting.back_mut() {
            if last.end - start >= goal {
                if last.goal == goal {
                    last.end = end;
                } else {
                    let first_end = last.end.saturating_add(goal).min(end);
                    self.waiting.push_back(EqualSkbs { first_end, end, goal });
                }
                return;
            }
            // The last one is filled up.
            if last.goal == goal && last.count() > 1 {
                last.end = end;
                return;
            }
            last.end = start;
            if last.first_end > start {
                self.waiting.pop_back();
            }
        }
        self.waiting.push_back(EqualSkbs { first_end: start.saturating_add(goal).min(end), end, goal });
    }

    /// Number of waiting `sk_buff`s.
    pub(crate) fn waiting_skb_count(&self) -> u64 {
        self.waiting.iter().map(|skbs| skbs.count()).sum()
    }

    /// Number of super-packets in flight.
    pub(crate) fn count_in_flight(&mut self, snd_una: u64) -> u64 {
        while self.sent.front().is_some_and(|sent| sent.end <= snd_una) {
            self.sent.pop_front();
        }
        self.sent.len() as u64
    }

    /// `tcp_rtx_queue_empty_or_single_skb`.
    pub(crate) fn is_empty_or_single(&self, snd_una: u64) -> bool {
        self.sent.iter().rev().nth(1).is_none_or(|sent| sent.end <= snd_una)
    }

    /// Records sent data: a super-packet is in flight once its last frame has been sent.
    pub(crate) fn record_sent(&mut self, snd_nxt: u64) {
        if self.current_end <= snd_nxt {
            self.sent.push_back(SentSuperPacket { end: snd_nxt, pushed: self.pushed });
        }
    }

    /// Whether the frame that ends before `end` is the last of several and so has PSH, also when retransmitted.
    pub(crate) fn has_push_at(&self, end: u64) -> bool {
        self.sent.iter().rev().any(|sent| sent.end == end && sent.pushed)
    }

    /// `tcp_tso_autosize` in segments: the data of one millisecond, more for short round trips. `rate`: bytes per second; `None`: the maximum.
    pub(crate) fn autosize(&self, rate: Option<u64>, least_rtt: Span, mss: u64) -> u64 {
        let mut bytes = self.max;
        if let Some(rate) = rate {
            let rounds = (least_rtt.0 / Span::from_us(1).0) >> TSO_RTT_LOG;
            let near = least_rtt > Span::ZERO && rounds < 32;
            bytes = (rate >> PACING_SHIFT) + if near { self.max >> rounds } else { 0 };
        }
        (bytes.min(self.max) / mss).max(MIN_TSO_SEGMENTS)
    }
}

/// The waiting `sk_buff`s: end of the first, end of the last, size to which a write fills one now, and bytes in the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingSkbs {
    pub(crate) first_end: u64,
    pub(crate) end: u64,
    pub(crate) goal: u64,
    pub(crate) last: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OffloadConfig;

    /// `tcp_xmit_size_goal`: whole segments, at least one, of the largest super-packet and of half of the largest window
    /// that the peer announced.
    #[test]
    fn a_write_fills_whole_segments_of_half_the_window() {
        for (window, goal) in [
            (1 << 24, 44 * 1460),
            // Half of it is 13.7 segments.
            (40_000, 13 * 1460),
            (1000, 1460),
            // A tiny window counts whole; a larger one that follows is its half.
            (500, 1460),
        ] {
            let offload = OffloadConfig { tso: 65_536, ..OffloadConfig::NONE };
            let mut supers = SuperPacketState::new(&TcpConfig { offload, ..TcpConfig::PLAIN }).expect("TSO");
            let waiting = supers.update_waiting_skbs(0, 1 << 20, 1460, window);
            assert_eq!((waiting.goal, waiting.first_end), (goal, goal), "{window}");
            assert_eq!(supers.update_waiting_skbs(0, 1 << 20, 1460, 536).goal, goal, "the largest counts");
        }
    }
    /// Every `sk_buff` behind the first is filled to the size of its time, but for the last, which the next write fills up. With segments of 10
    /// bytes, a window of 60 fills 30, and one of 100 fills 50.
    #[test]
    fn a_write_fills_the_last_buffer_first() {
        const SMALL: u64 = 60;
        const LARGE: u64 = 100;
        for (writes, expected) in [
            // Window, sent, written; then the end of the first, bytes in the last, number.
            (&[(SMALL, 0, 30)][..], (30, 30, 1)),
            (&[(SMALL, 0, 31)], (30, 1, 2)),
            (&[(SMALL, 0, 91)], (30, 1, 4)),
            // What is left of the first and last is filled up: from 20 to 50.
            (&[(SMALL, 0, 30), (SMALL, 20, 90)], (50, 10, 3)),
            // A first that is not the last stays as it is.
            (&[(SMALL, 0, 40), (SMALL, 20, 90)], (30, 30, 3)),
            (&[(SMALL, 0, 40), (SMALL, 30, 90)], (60, 30, 2)),
            // The size grows: the last grows with it, those before stay.
            (&[(SMALL, 0, 80), (LARGE, 0, 200)], (30, 40, 5)),
            (&[(SMALL, 0, 50), (LARGE, 0, 200)], (30, 20, 5)),
            (&[(SMALL, 0, 90), (LARGE, 0, 200)], (30, 40, 5)),
            (&[(SMALL, 0, 90), (LARGE, 60, 200)], (110, 40, 3)),
            (&[(SMALL, 0, 40), (LARGE, 35, 200)], (85, 15, 4)),
            (&[(SMALL, 0, 40), (LARGE, 40, 40)], (40, 0, 0)),
        ] {
            let offload = OffloadConfig { tso: 65_536, ..OffloadConfig::NONE };
            let mut supers = SuperPacketState::new(&TcpConfig { offload, ..TcpConfig::PLAIN }).expect("TSO");
            let mut seen = (0, 0, 0);
            for (window, sent, end) in writes {
                // A window below 536 bytes bounds an `sk_buff` whole, so half of it is given here.
                let waiting = supers.update_waiting_skbs(*sent, *end, 10, *window / 2);
                seen = (waiting.first_end, waiting.last, supers.waiting_skb_count());
            }
            assert_eq!(seen, expected, "{writes:?}");
        }
    }
    /// The handshake may lower the size of segments: a full `sk_buff` of before stays as it is, and new ones have the new size.
    #[test]
    fn a_full_buffer_of_another_size_stays() {
        let offload = OffloadConfig { tso: 65_536, ..OffloadConfig::NONE };
        let mut supers = SuperPacketState::new(&TcpConfig { offload, ..TcpConfig::PLAIN }).expect("TSO");
        // Two segments of 30 bytes, then ones of 50.
        supers.update_waiting_skbs(0, 60, 30, 60);
        let waiting = supers.update_waiting_skbs(0, 200, 25, 60);
        assert_eq!((waiting.first_end, waiting.last, supers.waiting_skb_count()), (60, 40, 4));
    }

    /// `tcp_tso_autosize`: a millisecond (2^-10 s) of the rate, and 64 KB halved every 512 us of the round trip; at least two segments, at most the
    /// largest.
    #[test]
    fn a_super_packet_has_a_millisecond_of_the_rate() {
        let offload = OffloadConfig { tso: 64_000, ..OffloadConfig::NONE };
        let supers = SuperPacketState::new(&TcpConfig { offload, ..TcpConfig::PLAIN }).expect("TSO");
        for (rate, rtt, segments) in [
            (None, 100_000, 64),
            // None was measured.
            (Some(10_240_000), 0, 10),
            (Some(10_240_000), 511, 64),
            (Some(10_240_000), 512, 42),
            (Some(10_240_000), 1024, 26),
            (Some(10_240_000), 100_000, 10),
            (Some(1_024_000), 100_000, 2),
            (Some(102_400_000), 100_000, 64),
        ] {
            let size = supers.autosize(rate, Span::from_us(rtt), 1000);
            assert_eq!(size, segments, "{rate:?} {rtt}");
        }
    }

    /// Of super-packets that were sent whole, those are in flight that are not acknowledged to their end.
    #[test]
    fn super_packets_are_in_flight_until_their_end_is_acknowledged() {
        let offload = OffloadConfig { tso: 65_536, ..OffloadConfig::NONE };
        let mut supers = SuperPacketState::new(&TcpConfig { offload, ..TcpConfig::PLAIN }).expect("TSO");
        supers.record_sent(1000);
        supers.record_sent(3000);
        for (acknowledged, in_flight) in [(0, 2), (999, 2), (1000, 1), (2999, 1), (3000, 0)] {
            assert_eq!(supers.is_empty_or_single(acknowledged), in_flight < 2);
            assert_eq!(supers.count_in_flight(acknowledged), in_flight, "{acknowledged}");
        }
    }
}
