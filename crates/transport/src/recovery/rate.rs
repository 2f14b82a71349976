//! Delivery-rate samples as Linux takes them (`tcp_rate.c`; draft-ietf-ccwg-ratesample), for controls that set the window from them.
//!
//! Each segment keeps what had been delivered when it was sent. When it arrives, the rate is what was delivered since, divided by the longer of the
//! times that sending and acknowledging took.

use super::refined::RecoveryRefinementState;
use crate::cc::{CongestionAlgorithm, DeliverySample};
use crate::config::TcpConfig;
use crate::sender::{OutgoingSegment, SegmentKindForEcn, Sender};
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// A segment in flight, and the state when it was last sent.
#[derive(Clone, Copy, Debug)]
struct SentState {
    start: u64,
    sent_at: Time,
    first_sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    is_app_limited: bool,
}

/// Delivery over the life of a connection. Amounts in bytes of window.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// In the order of their sequence numbers.
    sent: VecDeque<SentState>,
    delivered: u64,
    delivered_at: Time,
    /// When the newest delivered segment was sent (`first_tx_mstamp`).
    first_sent_at: Time,
    /// The application limits samples until so much is delivered; 0: it does not.
    app_limited: u64,
    /// Before the current ACK.
    prior_in_flight: u64,
    prior_lost: u64,
    /// Presumed lost, once more for each copy (`tp->lost`).
    lost: u64,
    /// RTT of the newest segment that the current ACK covers; zero: none.
    pub(super) rtt: Span,
}

/// What one ACK delivers.
struct Newly {
    bytes: u64,
    latest: Option<(Time, u64)>,
    min_rtt: Span,
}

impl DeliveryRate {
    /// `tcp_rate_skb_sent`. `is_first`: nothing else is in flight.
    fn record_sent(&mut self, start: u64, sent_at: Time, is_first: bool) {
        if is_first {
            (self.first_sent_at, self.delivered_at) = (sent_at, sent_at);
        }
        let state = SentState {
            start,
            sent_at,
            first_sent_at: self.first_sent_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            is_app_limited: self.app_limited > 0,
        };
        match self.sent.back().copied() {
            // Frames of a super-packet are one packet in Linux.
            Some(last) if start > last.start && sent_at == last.sent_at => {
                self.sent.push_back(SentState { start, ..last });
            }
            Some(last) if start <= last.start => {
                let index = self.sent.partition_point(|sent| sent.start < start);
                self.sent[index] = SentState { start: self.sent[index].start, ..state };
            }
            _ => self.sent.push_back(state),
        }
    }

    /// The state of the segment that ends at `end`.
    fn sent_state(&self, end: u64) -> Option<SentState> {
        self.sent.partition_point(|sent| sent.start < end).checked_sub(1).map(|index| self.sent[index])
    }

    fn forget_acked(&mut self, snd_una: u64, snd_nxt: u64) {
        if snd_una == snd_nxt {
            self.sent.clear();
        }
        while self.sent.get(1).is_some_and(|next| next.start <= snd_una) {
            self.sent.pop_front();
        }
    }

    /// `tcp_rate_gen`: what had been delivered before, microseconds, and whether the application has limited the sample.
    fn sample(&mut self, newly: &Newly, now: Time) -> Option<(u64, u64, bool)> {
        self.delivered += newly.bytes;
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if newly.bytes > 0 {
            self.delivered_at = now;
        }
        let sent = self.sent_state(newly.latest?.1)?;
        self.first_sent_at = sent.sent_at;
        let sending = whole_microseconds(sent.first_sent_at, sent.sent_at);
        let interval = sending.max(whole_microseconds(sent.delivered_at, now));
        let is_plausible = interval > 0 && interval >= newly.min_rtt.0 / Span::from_us(1).0;
        is_plausible.then_some((sent.delivered, interval, sent.is_app_limited))
    }
}

/// Microseconds on a clock that shows whole ones.
fn whole_microseconds(from: Time, to: Time) -> u64 {
    (to.0 / Span::from_us(1).0).saturating_sub(from.0 / Span::from_us(1).0)
}

impl Sender {
    fn delivery_rate(&self) -> Option<&DeliveryRate> {
        self.refined.as_deref()?.rate.as_deref()
    }

    fn delivery_rate_mut(&mut self) -> Option<&mut DeliveryRate> {
        self.refined.as_deref_mut()?.rate.as_deref_mut()
    }

    /// `tcp_packets_in_flight`
    fn in_network(&self) -> u64 {
        let flight = self.scoreboard.flight_space(self.flight_size());
        flight.saturating_sub(self.scoreboard.bytes_not_in_network())
    }

    /// Linux counts the SYN as delivered, and a connection as limited by its application until more is.
    pub(crate) fn begin_delivery_samples(&mut self, now: Time, config: &TcpConfig) {
        let (mss, random) = (u64::from(self.window.mss), u64::from(self.space.iss()));
        let Some(rate) = self.delivery_rate_mut() else { return };
        *rate =
            DeliveryRate { delivered: mss, delivered_at: now, app_limited: mss, ..DeliveryRate::default() };
        let least =
            self.refined.as_deref().map(RecoveryRefinementState::min_rtt).filter(|rtt| *rtt > Span::ZERO);
        if let Some(sample) = self.delivery_state(now, config) {
            self.cc.on_established(&self.window, &DeliverySample { rtt: least, ..sample }, random);
        }
    }

    /// `tcp_rate_check_app_limited`, when the application writes: what is sent next is limited if all before has left the host.
    pub(crate) fn check_application_limit(&mut self, now: Time) {
        if self.delivery_rate().is_none() {
            return;
        }
        let in_flight = self.in_network();
        let is_limited = self.snd_end - self.snd_nxt < u64::from(self.window.mss)
            && in_flight < self.window.cwnd
            && !self.scoreboard.has_lost_segment()
            && self.refined.as_deref().is_some_and(|refined| refined.small_queue.is_empty(now));
        if let Some(rate) = self.delivery_rate_mut().filter(|_| is_limited) {
            rate.app_limited = (rate.delivered + in_flight).max(1);
        }
    }

    /// A segment leaves.
    pub(super) fn record_departure(&mut self, outgoing: OutgoingSegment, now: Time, config: &TcpConfig) {
        if self.delivery_rate().is_none() {
            return;
        }
        let is_new = outgoing.kind != SegmentKindForEcn::Retransmission;
        let is_first = is_new && outgoing.offset == self.snd_una;
        let sent_at = if is_new { self.scoreboard.tail_sent_at().unwrap_or(now) } else { now };
        if is_first && let Some(sample) = self.delivery_state(now, config) {
            self.cc.on_transmission_start(&mut self.window, &sample);
        }
        if let Some(rate) = self.delivery_rate_mut() {
            rate.record_sent(outgoing.offset, sent_at, is_first);
        }
    }

    /// Before an ACK is processed.
    #[inline]
    pub(super) fn prepare_delivery_sample(&mut self) {
        if self.delivery_rate().is_none() {
            return;
        }
        let in_flight = self.in_network();
        if let Some(rate) = self.delivery_rate_mut() {
            (rate.prior_in_flight, rate.prior_lost, rate.rtt) = (in_flight, rate.lost, Span::ZERO);
        }
    }

    /// Counts what was newly marked as lost; `before`: what waited for its retransmission before.
    pub(super) fn count_losses(&mut self, before: u64) {
        let newly = self.scoreboard.bytes_to_retransmit().saturating_sub(before);
        if let Some(rate) = self.delivery_rate_mut() {
            rate.lost += newly;
        }
    }

    /// The RTT that the cumulative part of an ACK gives; zero: none.
    pub(super) fn record_delivery_rtt(&mut self, rtt: Span) {
        if let Some(rate) = self.delivery_rate_mut() {
            rate.rtt = rtt;
        }
    }

    /// The last step of an ACK: the sample and the window that the control derives from it (`tcp_rate_gen`, `tcp_cong_control`).
    pub(super) fn control_window(&mut self, now: Time, config: &TcpConfig) {
        let (snd_una, snd_nxt, mss) = (self.snd_una, self.snd_nxt, u64::from(self.window.mss));
        let Some(refined) = self.refined.as_deref_mut() else { return };
        let Some(rate) = refined.rate.as_deref_mut() else { return };
        let delivery = &refined.delivery;
        let newly = Newly { bytes: delivery.bytes, latest: delivery.latest, min_rtt: delivery.min_rtt };
        let rtt = delivery.last_sacked.map_or(rate.rtt, |sent_at| now.saturating_since(sent_at));
        let sampled = rate.sample(&newly, now);
        rate.forget_acked(snd_una, snd_nxt);
        let Some(state) = self.delivery_state(now, config) else { return };
        let (prior_delivered, is_app_limited) =
            sampled.map_or((state.delivered, false), |(before, _, limited)| (before, limited));
        let sample = DeliverySample {
            prior_delivered,
            interval: sampled.map(|(_, interval, _)| interval),
            is_app_limited,
            newly_delivered: newly.bytes,
            rtt: (rtt > Span::ZERO).then_some(rtt),
            // A lone segment, sent after everything before it was delivered (`FLAG_ACK_MAYBE_DELAYED`).
            is_ack_delayed: newly.bytes <= mss && prior_delivered + mss == state.delivered,
            ..state
        };
        if self.cc.on_delivery(&mut self.window, &sample) {
            let in_flight = self.in_network();
            if let Some(rate) = self.delivery_rate_mut() {
                rate.app_limited = (rate.delivered + in_flight).max(1);
            }
        }
    }

    /// The timer has expired and the window is cut.
    pub(super) fn notify_loss_state(&mut self, now: Time, config: &TcpConfig) {
        if let Some(sample) = self.delivery_state(now, config) {
            self.cc.on_loss_state(&self.window, &sample);
        }
    }

    /// The last reduction was needless; its last ACK stands for the time.
    pub(super) fn notify_undo(&mut self, config: &TcpConfig) {
        let now = self.delivery_rate().map_or(Time::ZERO, |rate| rate.delivered_at);
        if let Some(sample) = self.delivery_state(now, config) {
            self.cc.on_undo(&self.window, &sample);
        }
    }

    /// The state at `now`, without a sample.
    fn delivery_state(&self, now: Time, config: &TcpConfig) -> Option<DeliverySample> {
        let refined = self.refined.as_deref()?;
        let rate = refined.rate.as_deref()?;
        Some(DeliverySample {
            now,
            ticks: config.rto.clock_time(now),
            delivered: rate.delivered,
            lost: rate.lost,
            delivered_at: rate.delivered_at,
            prior_delivered: rate.delivered,
            interval: None,
            is_app_limited: rate.app_limited > 0,
            newly_delivered: 0,
            newly_lost: rate.lost - rate.prior_lost,
            prior_in_flight: rate.prior_in_flight,
            in_flight: self.in_network(),
            rtt: None,
            srtt: self.rtt.srtt(),
            is_ack_delayed: false,
            departure: self.paced_until(),
            phase: self.phase,
        })
    }

    /// Whether the control sets the window by delivery samples, so that reductions and idle times leave it alone.
    pub(super) fn is_window_owned(&self) -> bool {
        self.cc.owns_window()
    }
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
