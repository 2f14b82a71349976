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
    /// End of the first waiting `sk_buff`; later ones except the last are full.
    first_end: u64,
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
                first_end: 0,
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
    fn super_packet_size_goal(&self, mss: u64) -> u64 {
        // `tcp_bound_to_half_wnd`: a tiny window bounds it whole, and none that was announced does not bound it.
        let bound = match self.max_window {
            0 => u64::MAX,
            tiny @ 1..=536 => tiny,
            window => window / 2,
        };
        (self.max.min(bound) / mss).max(1) * mss
    }

    /// Ends the current super-packet at `snd_nxt`; the rest remains unsent.
    pub(crate) fn truncate_current_super_packet(&mut self, snd_nxt: u64) {
        self.current_end = self.current_end.min(snd_nxt);
    }

    /// Starts a super-packet at `now` that ends at `end`. `pushed`: its last frame has PSH.
    pub(crate) fn begin_super_packet(&mut self, end: u64, pushed: bool, now: Time) {
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
        let goal = self.super_packet_size_goal(mss);
        if self.first_end <= snd_nxt {
            self.first_end = snd_nxt.saturating_add(goal).min(end);
        } else if self.first_end >= self.written {
            // The first is the last.
            self.first_end = self.first_end.max(snd_nxt.saturating_add(goal)).min(end);
        }
        self.first_end = self.first_end.min(end.max(snd_nxt));
        self.written = end;
        WaitingSkbs { first_end: self.first_end, end, goal }
    }

    /// Number of super-packets in flight.
    pub(crate) fn count_super_packets_in_flight(&mut self, snd_una: u64) -> u64 {
        while self.sent.front().is_some_and(|sent| sent.end <= snd_una) {
            self.sent.pop_front();
        }
        self.sent.len() as u64
    }

    /// `tcp_rtx_queue_empty_or_single_skb`.
    pub(crate) fn is_at_most_one_super_packet_in_flight(&self, snd_una: u64) -> bool {
        self.sent.iter().rev().nth(1).is_none_or(|sent| sent.end <= snd_una)
    }

    /// Records sent data: a super-packet is in flight once its last frame has been sent.
    pub(crate) fn record_super_packet_sent(&mut self, snd_nxt: u64) {
        if self.current_end <= snd_nxt {
            self.sent.push_back(SentSuperPacket { end: snd_nxt, pushed: self.pushed });
        }
    }

    /// Whether the frame that ends before `end` is the last of several and so has PSH, also when retransmitted.
    pub(crate) fn super_packet_end_has_push(&self, end: u64) -> bool {
        self.sent.iter().rev().any(|sent| sent.end == end && sent.pushed)
    }

    /// `tcp_tso_autosize` in segments: the data of one millisecond, more for short round trips. `rate`: bytes per second; `None`: the maximum.
    pub(crate) fn autosize_super_packet(&self, rate: Option<u64>, least_rtt: Span, mss: u64) -> u64 {
        let mut bytes = self.max;
        if let Some(rate) = rate {
            let rounds = (least_rtt.0 / Span::from_us(1).0) >> TSO_RTT_LOG;
            let near = least_rtt > Span::ZERO && rounds < 32;
            bytes = (rate >> PACING_SHIFT) + if near { self.max >> rounds } else { 0 };
        }
        (bytes.min(self.max) / mss).max(MIN_TSO_SEGMENTS)
    }
}

/// The waiting `sk_buff`s: end of the first, end of the last, and size of a full one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingSkbs {
    pub(crate) first_end: u64,
    pub(crate) end: u64,
    pub(crate) goal: u64,
}

impl WaitingSkbs {
    /// Bytes in the last `sk_buff`.
    pub(crate) fn bytes_in_last_skb(self, snd_nxt: u64) -> u64 {
        match self.end.saturating_sub(self.first_end) {
            0 => self.end.saturating_sub(snd_nxt),
            behind => (behind - 1) % self.goal + 1,
        }
    }

    /// Number of waiting `sk_buff`s.
    pub(crate) fn waiting_skb_count(self, snd_nxt: u64) -> u64 {
        if self.end > snd_nxt { 1 + self.end.saturating_sub(self.first_end).div_ceil(self.goal) } else { 0 }
    }
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
    /// Every `sk_buff` behind the first is full, but for the last.
    #[test]
    fn the_last_waiting_buffer_has_the_rest() {
        let of = |first_end, end| WaitingSkbs { first_end, end, goal: 50 };
        for (waiting, last, count) in [
            (of(100, 100), 30, 1),
            (of(100, 70), 0, 0),
            (of(100, 101), 1, 2),
            (of(100, 160), 10, 3),
            (of(100, 200), 50, 3),
        ] {
            assert_eq!(
                (waiting.bytes_in_last_skb(70), waiting.waiting_skb_count(70)),
                (last, count),
                "{waiting:?}"
            );
        }
    }
    /// Of super-packets that were sent whole, those are in flight that are not acknowledged to their end.
    #[test]
    fn super_packets_are_in_flight_until_their_end_is_acknowledged() {
        let offload = OffloadConfig { tso: 65_536, ..OffloadConfig::NONE };
        let mut supers = SuperPacketState::new(&TcpConfig { offload, ..TcpConfig::PLAIN }).expect("TSO");
        supers.record_super_packet_sent(1000);
        supers.record_super_packet_sent(3000);
        for (acknowledged, in_flight) in [(0, 2), (999, 2), (1000, 1), (2999, 1), (3000, 0)] {
            assert_eq!(supers.is_at_most_one_super_packet_in_flight(acknowledged), in_flight < 2);
            assert_eq!(supers.count_super_packets_in_flight(acknowledged), in_flight, "{acknowledged}");
        }
    }
}
