//! The requester of a queue pair: cuts messages into packets; go-back-N or selective repeat, timer and retry counts.

mod entropy;
mod invariants;
mod reads;
mod unordered;

use crate::cc::hpcc::Telemetry;
use crate::cc::{Acknowledgement, Controller};
use crate::packet::{Opcode, Packet, Syndrome, psn, rnr_delay, unwrap_psn};
use crate::queue_pair::{QueuePairSettings, RetransmissionTimer, Stats};
pub use entropy::EntropyChoice;
pub(crate) use entropy::{Entropy, Feedback};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use reads::Reads;
use std::collections::{BTreeSet, VecDeque};
use std::mem::offset_of;
use std::ops::Range;
use unordered::Unordered;

/// Why a queue pair has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No progress during `retry_count` ACK timeouts and one more.
    RetriesExhausted,
    /// The receiver was still not ready after `rnr_retry` retries.
    RnrRetriesExhausted,
}

/// The operation of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Write,
    Send,
    Read,
}

/// What a packet is sent again for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Nak,
    Timeout,
}

/// A message that is not completely acknowledged.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Number of the first packet of the message, and one past its last.
    first: u64,
    end: u64,
    bytes: u64,
    verb: Verb,
}

impl Message {
    /// Payload bytes of a range of packets, which are all of this message.
    #[inline]
    fn payload(&self, Range { start, end }: Range<u64>, mtu: u32) -> u64 {
        let mtu = u64::from(mtu);
        self.bytes.min((end - self.first) * mtu) - (start - self.first) * mtu
    }
}

/// The sending side. Packets are numbered from 0; the low 24 bits of a number are its PSN. What every packet touches comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Sender {
    /// The first unacknowledged packet, the next to send, one past the last ever sent, and one past all messages.
    unacknowledged: u64,
    next: u64,
    highest: u64,
    end: u64,
    /// Bytes acknowledged; bytes sent at least once.
    acked_bytes: u64,
    sent_bytes: u64,
    /// Time at which pacing releases the next packet.
    pace_at: Time,
    /// Bytes of the last packet that was paced, and the time that they take at the current rate.
    paced_bytes: Bytes,
    pacing_gap: Span,
    /// When the retransmission timer expires; `Time::MAX` if it does not run.
    timer_at: Time,
    /// Selective repeat: the end of this recovery, and the next hole to fill.
    recover: u64,
    hole: u64,
    /// When the last sent of the packets that have arrived beyond a gap was sent.
    evidence: Time,
    /// Expiries of the timer without progress, and the time that they took.
    retries: u32,
    waited: Span,
    rnr_retries: u32,
    /// Why the requester has gone back.
    cause: Cause,
    /// For packets from `unacknowledged` on: the time of their last transmission.
    sent_at: VecDeque<Time>,
    messages: VecDeque<Message>,
    pub(crate) failure: Option<Failure>,
    reads: Reads,
    /// Selective repeat and unordered delivery: packets known to have arrived.
    selected: BTreeSet<u64>,
    unordered: Unordered,
    /// Entropy values of packets, if they take several paths.
    pub(crate) entropy: Option<Box<Entropy>>,
}

impl Sender {
    pub(crate) const TOUCHED_BY_EACH_PACKET: usize =
        offset_of!(Sender, reads) + Reads::TOUCHED_BY_EACH_PACKET;

    pub(crate) fn new() -> Sender {
        Sender {
            messages: VecDeque::new(),
            unacknowledged: 0,
            next: 0,
            highest: 0,
            end: 0,
            acked_bytes: 0,
            sent_bytes: 0,
            sent_at: VecDeque::new(),
            pace_at: Time::ZERO,
            paced_bytes: Bytes::ZERO,
            pacing_gap: Span::ZERO,
            timer_at: Time::MAX,
            retries: 0,
            waited: Span::ZERO,
            rnr_retries: 0,
            cause: Cause::Nak,
            selected: BTreeSet::new(),
            recover: 0,
            hole: 0,
            evidence: Time::ZERO,
            unordered: Unordered::default(),
            entropy: None,
            reads: Reads::default(),
            failure: None,
        }
    }

    pub(crate) fn post(&mut self, bytes: u64, verb: Verb, mtu: u32) {
        self.reads.posted += usize::from(verb == Verb::Read);
        let packets = bytes.div_ceil(u64::from(mtu)).max(1);
        self.messages.push_back(Message {
            first: self.end,
            end: self.end.saturating_add(packets),
            bytes,
            verb,
        });
        self.end = self.end.saturating_add(packets);
    }

    /// Drops unsent packets. The current message ends with the last packet sent, or if that is not acknowledged with the
    /// next one, because the last packet of a message requests an acknowledgement.
    pub(crate) fn stop(&mut self) {
        let highest = self.highest;
        self.messages.retain(|message| message.first < highest);
        self.end = highest;
        if let Some(last) = self.messages.back_mut().filter(|last| last.end > highest) {
            self.end = if self.unacknowledged < highest { highest + 1 } else { highest };
            last.end = self.end;
        }
    }

    /// Nothing is sent before this time.
    pub(crate) fn connect_at(&mut self, at: Time) {
        self.pace_at = self.pace_at.max(at);
    }

    #[inline]
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    #[inline]
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes that READs have delivered in order.
    #[inline]
    pub(crate) fn read_bytes(&self) -> u64 {
        self.reads.delivered
    }

    /// When the oldest packet in flight was sent, and the first packet of its message.
    #[inline]
    pub(crate) fn oldest_in_flight(&self) -> [Option<&u64>; 2] {
        [self.sent_at.front().map(|at| &at.0), self.messages.front().map(|message| &message.first)]
    }

    /// Whether packets are left to send, whatever the window and pacing.
    #[inline]
    pub(crate) fn has_work(&self, settings: &QueuePairSettings) -> bool {
        self.next < self.end || self.has_repairs(settings)
    }

    /// Whether packets before the next one may have to be sent again.
    #[inline]
    fn has_repairs(&self, settings: &QueuePairSettings) -> bool {
        self.hole < self.recover
            || settings.unordered && !self.unordered.lost.is_empty()
            || self.reads.posted > 0 && self.reads.has_holes()
    }

    /// Whether nothing is left to send or to acknowledge.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.unacknowledged >= self.end
    }

    #[inline]
    fn message(&self, number: u64) -> Message {
        if let Some(first) = self.messages.front().filter(|first| number < first.end) {
            return *first;
        }
        let found = self.messages.partition_point(|message| message.end <= number);
        self.messages[found]
    }

    /// The next packet to send now; pacing must have released it ([`Self::pace_at`]).
    pub(crate) fn poll(
        &mut self,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) -> Option<Packet> {
        if self.failure.is_some() {
            return None;
        }
        if self.reads.posted > 0
            && let Some((first, end)) = self.reads.next_hole(self.unacknowledged)
        {
            self.reads.fill_hole();
            return Some(self.request(first, end, cc, settings, stats, now));
        }
        let number = self.next_number(settings)?;
        let message = self.message(number);
        if message.verb == Verb::Read {
            let may_go = number < self.highest || self.may_read(message, settings);
            return may_go.then(|| self.request(number, message.end, cc, settings, stats, now));
        }
        let is_new = number >= self.highest;
        if !self.is_open(number, cc, settings) {
            return None;
        }
        // A window opens with acknowledgements only and may shrink below the data in flight, so every packet requests
        // one, unless unordered delivery answers by bytes.
        let asks = cc.window(settings).is_some()
            && (!settings.unordered || !is_new || self.fills_window(cc, settings))
            || settings.flight_limit().is_some_and(|window| self.asks_for_quarter(number, window, settings))
            || settings.is_slower_than_acks(cc.rate());
        let (is_first, is_last) = (number == message.first, number + 1 == message.end);
        let of = if message.verb == Verb::Send { Opcode::of_send } else { Opcode::of_write };
        let length = u32::try_from(message.bytes).unwrap_or(u32::MAX);
        let packet = Packet {
            payload: message.payload(number..number + 1, settings.mtu) as u16,
            ack_request: is_last
                || asks
                || (number + 1).is_multiple_of(u64::from(settings.ack_request_every)),
            ..Packet::new(of(is_first, is_last), psn(number)).with_length(length)
        };
        let packet = Packet { entropy: self.next_entropy(number, settings), ..packet };
        self.on_sent(number..number + 1, &packet, settings, stats, now);
        self.pace(&packet, cc, settings, now);
        Some(packet)
    }

    /// The entropy value of a packet that leaves.
    fn next_entropy(&mut self, number: u64, settings: &QueuePairSettings) -> u8 {
        let Some(entropy) = &mut self.entropy else { return 0 };
        let value = entropy.next();
        if settings.unordered {
            entropy.remember(number, value);
        }
        value
    }

    /// When pacing releases the next packet.
    #[inline]
    pub(crate) fn pace_at(&self) -> Time {
        self.pace_at
    }

    /// A packet of this queue pair leaves.
    pub(crate) fn pace(
        &mut self,
        packet: &Packet,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        now: Time,
    ) {
        let bytes = u64::from(settings.ip_size(packet) + settings.link_overhead);
        cc.on_sent(bytes, now);
        self.paced_bytes = Bytes(bytes);
        self.pacing_gap = self.pacing_gap_at_rate(cc.rate());
        self.pace_at = self.pace_at.max(now) + self.pacing_gap;
        // A rounded rate must not fall behind its link for ever.
        self.pace_at.0 = self.pace_at.0.saturating_sub(1);
    }

    /// Whether a packet requests an acknowledgement because of a constant window: the last of each quarter of it does, and the one that closes
    /// it.
    fn asks_for_quarter(&self, number: u64, window: Bytes, settings: &QueuePairSettings) -> bool {
        let mtu = u64::from(settings.mtu);
        let quarter = (window.0 / mtu / 4).max(1);
        (number + 1).is_multiple_of(quarter) || (number + 1 - self.unacknowledged) * mtu >= window.0
    }

    /// Whether the window lets a packet go.
    #[inline]
    fn is_open(&self, number: u64, cc: &Controller, settings: &QueuePairSettings) -> bool {
        let limit = settings.flight_limit().map(|window| window.0);
        let Some(window) =
            cc.window(settings).map_or(limit, |window| Some(window.min(limit.unwrap_or(window))))
        else {
            return true;
        };
        if settings.unordered {
            let in_flight = self.unordered.count_in_flight();
            return in_flight == 0 || (in_flight + 1) * settings.full_packet() <= window;
        }
        let psns_of_reads = if self.reads.posted > 0 { self.reads_under_way().1 } else { 0 };
        let flight = (self.next - self.unacknowledged - psns_of_reads) * u64::from(settings.mtu);
        number != self.next || flight == 0 || flight < window
    }

    /// Unordered delivery: no packet may follow the next one before an acknowledgement comes.
    fn fills_window(&self, cc: &Controller, settings: &QueuePairSettings) -> bool {
        let behind = (self.unordered.count_in_flight() + 2) * settings.full_packet();
        cc.window(settings).is_some_and(|window| behind > window)
    }

    /// What was lost of unordered delivery, the hole that selective repeat fills next, or the next packet in order.
    fn next_number(&mut self, settings: &QueuePairSettings) -> Option<u64> {
        if settings.unordered
            && let Some((lost, _)) = self.unordered.lost.first_key_value()
        {
            return Some(*lost);
        }
        while self.hole < self.recover {
            let (hole, last) = (self.hole, self.selected.last().copied().unwrap_or(0));
            if hole >= last {
                break;
            }
            let is_lost = hole >= self.unacknowledged
                && !self.selected.contains(&hole)
                && self.sent_at(hole) <= self.evidence;
            let read = Some(hole).filter(|_| self.reads.posted > 0).and_then(|hole| self.read_of(hole));
            if is_lost && read.is_none_or(|read| read.first == hole) {
                return Some(hole);
            }
            self.hole = read.map_or(hole + 1, |read| read.end);
        }
        (self.next < self.end).then_some(self.next)
    }

    /// A packet has been sent that accounts for these numbers: its own, or those of the response to a READ.
    fn on_sent(
        &mut self,
        numbers: Range<u64>,
        packet: &Packet,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let Range { start: number, end } = numbers;
        if number >= self.highest {
            self.highest = end;
            self.sent_bytes += u64::from(packet.payload);
        } else {
            let cause = self.cause_of(number, settings);
            stats.retransmits += 1;
            stats.retransmits_by_nak += u64::from(cause == Cause::Nak);
            stats.retransmits_by_timeout += u64::from(cause == Cause::Timeout);
        }
        let place = (number - self.unacknowledged) as usize;
        if self.sent_at.len() == place {
            self.sent_at.push_back(now);
        } else {
            self.sent_at.resize(self.sent_at.len().max(place + 1), now);
            self.sent_at[place] = now;
        }
        if settings.unordered {
            self.unordered.on_packet_sent(number);
        }
        if number == self.next {
            self.next = end;
        } else if number == self.hole {
            self.hole = end;
        }
        if self.timer_at == Time::MAX || settings.timer_depends_on_flight() {
            self.start_timer(settings, now);
        }
    }

    /// Why a packet is sent again: holes are filled because of NAKs, the rest because of what the requester went back for.
    fn cause_of(&self, number: u64, settings: &QueuePairSettings) -> Cause {
        if settings.unordered {
            return self.unordered.lost.get(&number).copied().unwrap_or(Cause::Timeout);
        }
        if number == self.next { self.cause } else { Cause::Nak }
    }

    fn start_timer(&mut self, settings: &QueuePairSettings, now: Time) {
        let left = Span(settings.patience().0.saturating_sub(self.waited.0));
        self.timer_at = now + self.timer(settings).min(left.max(Span(1)));
    }

    fn timer(&self, settings: &QueuePairSettings) -> Span {
        settings.timer_after(self.retries, self.highest - self.unacknowledged)
    }

    fn go_back(&mut self, cause: Cause) {
        (self.next, self.cause) = (self.unacknowledged, cause);
    }

    /// Handles an acknowledgement or a NAK.
    pub(crate) fn on_ack(
        &mut self,
        (packet, telemetry): (&Packet, &Telemetry),
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        // An ACK names the last packet that has arrived, a NAK the first missing one.
        let named = unwrap_psn(packet.psn, self.unacknowledged);
        let answered = if packet.syndrome == Syndrome::Ack {
            unwrap_psn(packet.psn, self.unacknowledged.max(1)) + 1
        } else {
            named
        };
        if answered > self.highest {
            return;
        }
        // The responder has sent all responses before this answer.
        let reached = self.first_missing_response(answered);
        if reached > self.unacknowledged {
            self.advance(reached, telemetry, cc, settings, now);
        }
        if reached < answered && settings.places_any_order() {
            // They may be late.
            self.reads.answered = self.reads.answered.max(answered);
        } else if reached < answered {
            self.on_missing_responses(answered, settings);
        }
        match packet.syndrome {
            Syndrome::Ack => {}
            // A later answer has overtaken it.
            Syndrome::SequenceError if named < self.unacknowledged && settings.places_any_order() => {}
            Syndrome::SequenceError => {
                self.on_gap(packet, named.max(self.unacknowledged), cc, settings, stats, now);
            }
            Syndrome::ReceiverNotReady => {
                stats.rnr_naks_received += 1;
                self.rnr_retries += 1;
                if settings.rnr_retry < 7 && self.rnr_retries > settings.rnr_retry {
                    self.failure = Some(Failure::RnrRetriesExhausted);
                }
                self.go_back(Cause::Nak);
                self.recover = 0;
                self.hole = 0;
                self.pace_at = self.pace_at.max(now + rnr_delay(settings.rnr_timer));
                self.timer_at = Time::MAX;
            }
        }
    }

    fn advance(
        &mut self,
        reached: u64,
        telemetry: &Telemetry,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        now: Time,
    ) {
        let before = self.unacknowledged;
        let sent_at = self.retire_row(reached, settings, now);
        let mtu = u64::from(settings.mtu);
        let rate = cc.rate();
        cc.on_ack(&Acknowledgement {
            now,
            packets: reached - before,
            acked: self.unacknowledged * mtu,
            next: self.next * mtu,
            acked_bytes: self.acked_bytes - self.reads.delivered,
            sent_bytes: self.sent_bytes,
            rtt: sent_at.map(|sent| now - sent),
            telemetry,
        });
        // The new rate holds from the last packet on: waiting for the old one would delay the reaction by up to a round trip.
        if cc.rate() != rate {
            let gap = self.pacing_gap_at_rate(cc.rate());
            self.pace_at.0 = (self.pace_at.0 + gap.0).saturating_sub(self.pacing_gap.0);
            self.pacing_gap = gap;
        }
    }

    /// Forgets packets that have arrived, all up to `reached`; the last time at which one of them was sent: that one has caused the answer, while
    /// those behind a gap have waited for it.
    fn retire_row(&mut self, reached: u64, settings: &QueuePairSettings, now: Time) -> Option<Time> {
        let mut sent_at = None;
        let has_reads = self.reads.posted > 0;
        while self.unacknowledged < reached {
            let message = self.message(self.unacknowledged);
            let arrived = self.unacknowledged..message.end.min(reached);
            let bytes = message.payload(arrived.clone(), settings.mtu);
            self.acked_bytes += bytes;
            if message.verb == Verb::Read {
                self.reads.delivered += bytes;
            }
            self.unacknowledged = arrived.end;
            for _ in arrived {
                sent_at = sent_at.max(self.sent_at.pop_front());
            }
            if message.end == self.unacknowledged {
                self.reads.posted -= usize::from(message.verb == Verb::Read);
                self.messages.pop_front();
            }
        }
        if has_reads && !self.reads.early.is_empty() {
            self.reads.early = self.reads.early.split_off(&self.unacknowledged);
        }
        self.next = self.next.max(self.unacknowledged);
        if (settings.selective_repeat || settings.unordered) && !self.selected.is_empty() {
            self.selected = self.selected.split_off(&self.unacknowledged);
        }
        (self.retries, self.waited, self.rnr_retries) = (0, Span::ZERO, 0);
        // The timer of unordered delivery is that of its oldest packet: it runs on, and looks for it when it expires.
        if self.unacknowledged == self.next {
            self.timer_at = Time::MAX;
        } else if !settings.unordered || self.timer_at == Time::MAX {
            self.start_timer(settings, now);
        }
        sent_at
    }

    /// The time between the last packet and the next at a rate in bits per second.
    fn pacing_gap_at_rate(&self, rate: u64) -> Span {
        BitRate(rate.max(1)).serialise(self.paced_bytes)
    }

    /// Packets from `missing` on are missing: goes back to the first, or fills the holes.
    fn on_gap(
        &mut self,
        packet: &Packet,
        missing: u64,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        stats.naks_received += 1;
        cc.on_loss(now);
        if !settings.selective_repeat {
            self.go_back(Cause::Nak);
            return;
        }
        if let Some(selective) = packet.selective {
            let number = unwrap_psn(selective.psn(), self.unacknowledged);
            if number >= self.unacknowledged && number < self.highest {
                self.selected.insert(number);
                self.evidence = self.evidence.max(self.sent_at(number));
            }
        }
        if settings.places_any_order() {
            (self.hole, self.recover, self.evidence) = (missing, self.next, now);
            return;
        }
        // What was sent again before a packet that has arrived since is lost again.
        if missing >= self.recover || missing < self.hole && self.sent_at(missing) <= self.evidence {
            (self.hole, self.recover) = (missing, self.next);
        }
    }

    /// When a packet that is not acknowledged was last sent.
    fn sent_at(&self, number: u64) -> Time {
        let place = number.checked_sub(self.unacknowledged);
        place.and_then(|place| self.sent_at.get(place as usize)).copied().unwrap_or(Time::MAX)
    }

    /// When the retransmission timer expires; `Time::MAX` if it does not run.
    #[inline]
    pub(crate) fn timer_at(&self) -> Time {
        self.timer_at
    }

    /// Whether a packet may go once pacing releases it.
    #[inline]
    pub(crate) fn may_send(&self, cc: &Controller, settings: &QueuePairSettings) -> bool {
        self.has_repairs(settings) || self.next < self.end && self.is_open(self.next, cc, settings)
    }

    /// Counts an interval without progress; true if the queue pair fails because of it.
    fn count_retry(&mut self, interval: Span, settings: &QueuePairSettings, stats: &mut Stats) -> bool {
        self.waited += interval;
        stats.waited += interval;
        self.retries += 1;
        let fails = self.waited >= settings.patience();
        if fails {
            self.timer_at = Time::MAX;
            self.failure = Some(Failure::RetriesExhausted);
        }
        fails
    }

    pub(crate) fn on_timeout(
        &mut self,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        if now < self.timer_at {
            return;
        }
        if settings.unordered {
            self.on_unordered_timeout(cc, settings, stats, now);
            return;
        }
        stats.timeouts += 1;
        self.timer_at = Time::MAX;
        if self.count_retry(self.timer(settings), settings, stats) {
            return;
        }
        cc.on_loss(now);
        if settings.timer == RetransmissionTimer::Adaptive {
            cc.on_cnp(now);
        }
        self.reads.forget_requests();
        self.go_back(Cause::Timeout);
        self.selected.clear();
        self.recover = 0;
        self.hole = 0;
    }
}

#[cfg(test)]
mod tests;
