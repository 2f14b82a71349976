//! When the sender sends a super-packet, and its size. `super_packets.rs` has those that wait or are in flight.

use super::{OutgoingSegment, SegmentKindForEcn, Sender};
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::recovery::RecoveryPhase;
use crate::super_packets::{SuperPacketState, WaitingSkbs};
use pauseframe_units::{Span, Time};

/// `tcp_tso_win_divisor`: a super-packet of 1/divisor of the window is never deferred.
const TSO_WINDOW_DIVISOR: u64 = 3;
/// `tcp_tso_should_defer`: no deferral after a pause longer than this.
const MAX_PAUSE_TO_DEFER: Span = Span::from_ms(1);
/// No deferral for an ACK that is further away than this, or than half a round trip.
const MAX_ACK_WAIT_TO_DEFER: Span = Span::from_ms(1);

impl Sender {
    fn super_packets(&self) -> Option<&SuperPacketState> {
        self.refined.as_deref()?.supers.as_deref()
    }

    fn super_packets_mut(&mut self) -> Option<&mut SuperPacketState> {
        self.refined.as_deref_mut()?.supers.as_deref_mut()
    }

    /// Whether frames of a super-packet are still to be sent: no other frame goes between them.
    pub(crate) fn is_mid_super_packet(&self) -> bool {
        self.super_packets().is_some_and(|supers| self.snd_nxt < supers.current_end)
    }

    /// End of the data that leave now: those of the current super-packet, or all that were sent.
    pub(crate) fn departing_end(&self) -> u64 {
        self.super_packets().map_or(0, |supers| supers.current_end).max(self.snd_nxt)
    }

    /// Ends the current super-packet; its unsent part remains unsent data.
    pub(super) fn end_super_packet(&mut self) {
        let nxt = self.snd_nxt;
        if let Some(supers) = self.super_packets_mut() {
            supers.truncate(nxt);
        }
    }

    /// The waiting `sk_buff`s.
    fn update_waiting_skbs(&mut self) -> Option<WaitingSkbs> {
        let (nxt, end) = (self.snd_nxt, self.data_end());
        let (mss, window) = (u64::from(self.window.mss), u64::from(self.snd_wnd));
        Some(self.super_packets_mut()?.update_waiting_skbs(nxt, end, mss, window))
    }

    /// Bytes in the last waiting `sk_buff`, and in a full one, and whether the last is the first; for the writer.
    pub(super) fn last_waiting_skb(&mut self) -> Option<(u64, u64, bool)> {
        let WaitingSkbs { first_end, end, goal, last } = self.update_waiting_skbs()?;
        Some((last, goal, first_end == end))
    }

    /// The `sk_buff`s that hold data, in flight or waiting.
    pub(super) fn count_skbs(&mut self) -> Option<u64> {
        let una = self.snd_una;
        self.update_waiting_skbs()?;
        let supers = self.super_packets_mut()?;
        Some(supers.count_in_flight(una) + supers.waiting_skb_count())
    }

    /// Records that new data were sent.
    pub(crate) fn record_frame_sent(&mut self) {
        let nxt = self.snd_nxt;
        if let Some(supers) = self.super_packets_mut() {
            supers.record_sent(nxt);
        }
    }

    /// Whether the frame that ends with the byte before `end` is the last of several.
    #[cold]
    pub(super) fn is_last_frame(&self, end: u64) -> bool {
        self.super_packets().is_some_and(|supers| supers.has_push_at(end))
    }

    /// The next segment of the current super-packet, or of a new one if it may leave now. Requires data to send.
    #[cold]
    pub(crate) fn next_frame(&mut self, now: Time, config: &TcpConfig) -> Option<OutgoingSegment> {
        let mss = u64::from(self.window.mss);
        let supers = self.super_packets()?;
        let (leaving, began) = (supers.current_end, supers.began);
        if self.snd_nxt < leaving {
            let len = (leaving - self.snd_nxt).min(mss);
            return Some(self.transmit_new_segment::<true>(
                len,
                SegmentKindForEcn::New,
                self.pipe(),
                began,
                config,
            ));
        }
        let room = (self.snd_una + u64::from(self.snd_wnd)).saturating_sub(self.snd_nxt);
        let (flight, pipe) = (self.scoreboard.flight_space(self.flight_size()), self.pipe());
        let (in_flight, cwnd) = (pipe.div_ceil(mss), (self.window.cwnd / mss).max(1));
        if in_flight >= cwnd {
            self.record_window_usage(true, flight);
            return None;
        }
        if (self.snd_end - self.snd_nxt).min(mss) > room {
            return self.next_in_small_window(room, now, config);
        }
        let len = self.next_super_packet_size(room, in_flight, cwnd, now, config)?;
        let single = self.super_packets().is_none_or(|supers| supers.is_empty_or_single(self.snd_una));
        if self.wait_for_small_queue(len, single, now, config) {
            return None;
        }
        let mut end = self.snd_nxt + len;
        if self.fin && end == self.data_end() {
            end = self.snd_end;
        }
        self.super_packets_mut()?.begin(end, len > mss && config.is_enabled(Mechanism::TsoPush), now);
        Some(self.transmit_new_segment::<true>(
            (end - self.snd_nxt).min(mss),
            SegmentKindForEcn::New,
            pipe,
            now,
            config,
        ))
    }

    /// Size of the next super-packet; `None` if it is better to wait (`tcp_write_xmit`). `room`: space in the peer's window; `in_flight` and `cwnd`
    /// in segments.
    fn next_super_packet_size(
        &mut self,
        room: u64,
        in_flight: u64,
        cwnd: u64,
        now: Time,
        config: &TcpConfig,
    ) -> Option<u64> {
        let mss = u64::from(self.window.mss);
        let WaitingSkbs { first_end, end, .. } = self.update_waiting_skbs()?;
        // A full one that the application writes behind leaves at once (`tcp_push_one`).
        let is_pushed = self.is_writer_writing();
        let waiting = first_end.saturating_sub(self.snd_nxt);
        if waiting <= mss {
            return Some(waiting);
        }
        let most = self.max_tso_segments(config);
        let cong_win = (cwnd - in_flight) * mss;
        let may_wait = config.is_enabled(Mechanism::TsoDefer) && !is_pushed;
        if may_wait && self.should_defer(waiting, first_end == end, [cong_win, room, most * mss], now) {
            if cong_win < room && cong_win <= waiting {
                self.record_window_usage(true, self.scoreboard.flight_space(self.flight_size()));
            }
            return None;
        }
        // `tcp_cwnd_test`: at most half of cwnd, so that two super-packets are in flight. `tcp_mss_split_point`: whole segments.
        let half = if config.is_enabled(Mechanism::TsoHalfWindow) { (cwnd / 2).max(1) } else { cwnd };
        let quota = half.min(cwnd - in_flight);
        let allowed = quota.min(most) * mss;
        let needed = waiting.min(room);
        if allowed <= needed {
            return Some(allowed);
        }
        let partial = needed % mss;
        // `tcp_mss_split_point`: Nagle's rule holds for what the peer's window cuts off too.
        let is_cut = first_end == end || room < allowed;
        let held = partial > 0 && is_cut && !is_pushed && self.delays_small_segment();
        Some(if held { needed - partial } else { needed })
    }

    /// `tcp_tso_should_defer`: whether the windows allow only a small super-packet, and an ACK that will open them is expected soon. `waiting`: bytes
    /// of the `sk_buff`; `last`: no other waits behind it.
    fn should_defer(
        &self,
        waiting: u64,
        last: bool,
        [cong_win, send_win, full]: [u64; 3],
        now: Time,
    ) -> bool {
        if matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss)
            || now.saturating_since(self.last_sent.max(self.paced_until())) > MAX_PAUSE_TO_DEFER
        {
            return false;
        }
        let limit = cong_win.min(send_win);
        let enough = u64::from(self.snd_wnd).min(self.window.cwnd) / TSO_WINDOW_DIVISOR;
        if limit >= full || (!last && limit >= waiting) || limit >= enough {
            return false;
        }
        let Some(head) = self.scoreboard.head_sent_at() else { return false };
        let srtt = self.rtt.srtt().unwrap_or(Span::ZERO);
        if head.saturating_add(srtt).saturating_since(now) > (srtt / 2).min(MAX_ACK_WAIT_TO_DEFER) {
            // The next ACK is probably far away.
            return false;
        }
        limit <= waiting || !(last && self.fin)
    }

    /// Maximum number of segments of a super-packet.
    fn max_tso_segments(&self, config: &TcpConfig) -> u64 {
        let Some(supers) = self.super_packets() else { return 1 };
        let least_rtt = self.refined.as_ref().map_or(Span::ZERO, |refined| refined.min_rtt());
        let rate = self.pacing_rate(config).filter(|_| config.is_enabled(Mechanism::TsoAutosize));
        supers.autosize(rate, least_rtt, u64::from(self.window.mss))
    }
}
