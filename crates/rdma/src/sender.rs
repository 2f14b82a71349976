//! The requester of a queue pair: cuts messages into packets; go-back-N or selective repeat, timer and retry counts.

use crate::cc::hpcc::Telemetry;
use crate::cc::nscc::Sample;
use crate::cc::{Acknowledgement, Controller};
use crate::packet::{NamedPsn, Opcode, Packet, Syndrome, psn, rnr_delay, unwrap_psn};
use crate::queue_pair::{QueuePairSettings, Stats};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// Why a queue pair has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No acknowledgement after `retry_count` timeouts in a row.
    RetriesExhausted,
    /// The receiver was still not ready after `rnr_retry` retries.
    RnrRetriesExhausted,
}

/// A message that is not completely acknowledged.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Number of the first packet of the message, and one past its last.
    first: u64,
    end: u64,
    bytes: u64,
    is_send: bool,
}

/// What unordered delivery keeps beside [`Sender::selected`].
#[derive(Clone, Debug, Default)]
struct Unordered {
    /// Packets to send again, and packets that were, which give no round trip.
    lost: BTreeSet<u64>,
    resent: BTreeSet<u64>,
    /// Packets that the receiver has, modulo 2^16; packets under way.
    received: u16,
    in_flight: u64,
    /// After a timeout a packet goes whatever the window: what it counts as under way may be lost.
    is_forced: bool,
}

/// The sending side. Packets are numbered from 0; the low 24 bits of a number are its PSN.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    messages: VecDeque<Message>,
    /// The first unacknowledged packet, the next to send, one past the last ever sent, and one past all messages.
    unacknowledged: u64,
    next: u64,
    highest: u64,
    end: u64,
    /// Bytes acknowledged; bytes sent at least once.
    acked_bytes: u64,
    sent_bytes: u64,
    /// For packets from `unacknowledged` on: the time of their last transmission.
    sent_at: VecDeque<Time>,
    /// Time at which pacing releases the next packet.
    pace_at: Time,
    /// Bytes of the last packet that was paced.
    paced_bytes: Bytes,
    /// When the retransmission timer expires; `Time::MAX` if it does not run.
    timer_at: Time,
    retries: u32,
    rnr_retries: u32,
    /// Selective repeat: packets known to have arrived, the end of this recovery, and the next hole to fill.
    selected: BTreeSet<u64>,
    recover: u64,
    hole: u64,
    unordered: Unordered,
    pub(crate) failure: Option<Failure>,
}

impl Sender {
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
            timer_at: Time::MAX,
            retries: 0,
            rnr_retries: 0,
            selected: BTreeSet::new(),
            recover: 0,
            hole: 0,
            unordered: Unordered::default(),
            failure: None,
        }
    }

    pub(crate) fn post(&mut self, bytes: u64, is_send: bool, mtu: u32) {
        let packets = bytes.div_ceil(u64::from(mtu)).max(1);
        self.messages.push_back(Message {
            first: self.end,
            end: self.end.saturating_add(packets),
            bytes,
            is_send,
        });
        self.end = self.end.saturating_add(packets);
    }

    /// Drops unsent packets; the current message ends with the last packet sent.
    pub(crate) fn stop(&mut self, mtu: u32) {
        let highest = self.highest;
        self.messages.retain(|message| message.first < highest);
        if let Some(last) = self.messages.back_mut().filter(|last| last.end > highest) {
            (last.bytes, last.end) = ((highest - last.first) * u64::from(mtu), highest);
        }
        self.end = highest;
    }

    pub(crate) fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Whether nothing is left to send or to acknowledge.
    pub(crate) fn is_idle(&self) -> bool {
        self.unacknowledged >= self.end
    }

    fn message(&self, number: u64) -> Message {
        let found = self.messages.partition_point(|message| message.end <= number);
        self.messages[found]
    }

    fn payload(&self, number: u64, mtu: u32) -> u64 {
        let Message { first, bytes, .. } = self.message(number);
        let mtu = u64::from(mtu);
        (bytes - (number - first) * mtu).min(mtu)
    }

    /// The next packet to send now, and the earliest time of the following one.
    pub(crate) fn poll(
        &mut self,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) -> Option<Packet> {
        let number = self.next_number()?;
        if self.failure.is_some() || now < self.pace_at {
            return None;
        }
        let is_new = number >= self.highest;
        let payload = self.payload(number, settings.mtu);
        if !self.is_open(number, cc, settings) {
            return None;
        }
        // A window opens with acknowledgements only and may shrink below the data in flight, so every packet requests
        // one, unless unordered delivery answers by bytes.
        let asks =
            cc.window().is_some() && (!settings.unordered || !is_new || self.fills_window(cc, settings));
        let message = self.message(number);
        let (is_first, is_last) = (number == message.first, number + 1 == message.end);
        let of = if message.is_send { Opcode::of_send } else { Opcode::of_write };
        let packet = Packet {
            payload: payload as u16,
            ack_request: is_last
                || asks
                || (number + 1).is_multiple_of(u64::from(settings.ack_request_every)),
            ..Packet::new(of(is_first, is_last), psn(number))
        };
        self.on_sent(number, &packet, is_new, settings, stats, now);
        let bytes = u64::from(settings.ip_size(&packet) + settings.link_overhead);
        cc.on_sent(bytes, now);
        self.paced_bytes = Bytes(bytes);
        self.pace_at = self.pace_at.max(now) + self.pacing_gap(cc);
        // A rounded rate must not fall behind its link for ever.
        self.pace_at.0 = self.pace_at.0.saturating_sub(1);
        Some(packet)
    }

    /// Whether the window lets a packet go.
    fn is_open(&self, number: u64, cc: &Controller, settings: &QueuePairSettings) -> bool {
        let Some(window) = cc.window() else { return true };
        if settings.unordered {
            let Unordered { in_flight, is_forced, .. } = self.unordered;
            return in_flight == 0 || is_forced || (in_flight + 1) * settings.full_packet() <= window;
        }
        let flight = (self.next - self.unacknowledged) * u64::from(settings.mtu);
        number != self.next || flight == 0 || flight < window
    }

    /// Unordered delivery: no packet may follow the next one before an acknowledgement comes.
    fn fills_window(&self, cc: &Controller, settings: &QueuePairSettings) -> bool {
        let behind = (self.unordered.in_flight + 2) * settings.full_packet();
        cc.window().is_some_and(|window| behind > window)
    }

    /// What was lost of unordered delivery, the hole that selective repeat fills next, or the next packet in order.
    fn next_number(&mut self) -> Option<u64> {
        if let Some(lost) = self.unordered.lost.first() {
            return Some(*lost);
        }
        while self.hole < self.recover {
            let (hole, last) = (self.hole, self.selected.last().copied().unwrap_or(0));
            if hole >= last {
                break;
            }
            if hole >= self.unacknowledged && !self.selected.contains(&hole) {
                return Some(hole);
            }
            self.hole += 1;
        }
        (self.next < self.end).then_some(self.next)
    }

    fn on_sent(
        &mut self,
        number: u64,
        packet: &Packet,
        is_new: bool,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        if is_new {
            self.highest = number + 1;
            self.sent_bytes += u64::from(packet.payload);
        } else {
            stats.retransmits += 1;
        }
        let place = (number - self.unacknowledged) as usize;
        if self.sent_at.len() <= place {
            self.sent_at.resize(place + 1, now);
        }
        self.sent_at[place] = now;
        if settings.unordered {
            self.unordered.in_flight += 1;
            self.unordered.is_forced = false;
            if self.unordered.lost.remove(&number) {
                self.unordered.resent.insert(number);
            }
        }
        if number == self.next {
            self.next += 1;
        } else {
            self.hole = number + 1;
        }
        if self.timer_at == Time::MAX {
            self.timer_at = now + settings.timeout;
        }
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
        let reached = if packet.syndrome == Syndrome::Ack {
            unwrap_psn(packet.psn, self.unacknowledged.max(1)) + 1
        } else {
            named
        };
        if reached > self.highest {
            return;
        }
        if reached > self.unacknowledged {
            self.advance(reached, telemetry, cc, settings, now);
        }
        match packet.syndrome {
            Syndrome::Ack => {}
            Syndrome::SequenceError => self.on_gap(packet, cc, settings, stats, now),
            Syndrome::ReceiverNotReady => {
                stats.rnr_naks_received += 1;
                self.rnr_retries += 1;
                if settings.rnr_retry < 7 && self.rnr_retries > settings.rnr_retry {
                    self.failure = Some(Failure::RnrRetriesExhausted);
                }
                self.next = self.unacknowledged;
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
        let gap = self.pacing_gap(cc);
        cc.on_ack(&Acknowledgement {
            now,
            packets: reached - before,
            acked: self.unacknowledged * mtu,
            next: self.next * mtu,
            rtt: sent_at.map(|sent| now - sent),
            telemetry: *telemetry,
        });
        // The new rate holds from the last packet on: waiting for the old one would delay the reaction by up to a round trip.
        self.pace_at.0 = (self.pace_at.0 + self.pacing_gap(cc).0).saturating_sub(gap.0);
    }

    /// Forgets packets that have arrived, all up to `reached`; when the last of them was sent.
    fn retire_row(&mut self, reached: u64, settings: &QueuePairSettings, now: Time) -> Option<Time> {
        let mut bytes = 0;
        let mut sent_at = None;
        while self.unacknowledged < reached {
            bytes += self.payload(self.unacknowledged, settings.mtu);
            sent_at = self.sent_at.pop_front();
            self.unacknowledged += 1;
            if self.messages.front().is_some_and(|message| message.end <= self.unacknowledged) {
                self.messages.pop_front();
            }
        }
        self.acked_bytes += bytes;
        self.next = self.next.max(self.unacknowledged);
        self.selected = self.selected.split_off(&self.unacknowledged);
        (self.retries, self.rnr_retries) = (0, 0);
        self.timer_at = if self.unacknowledged < self.next { now + settings.timeout } else { Time::MAX };
        sent_at
    }

    /// The time between the last packet and the next at the rate of now.
    fn pacing_gap(&self, cc: &Controller) -> Span {
        BitRate(cc.rate().max(1)).serialise(self.paced_bytes)
    }

    /// The answer to a packet of unordered delivery: it has arrived, or was trimmed.
    pub(crate) fn on_unordered_ack(
        &mut self,
        packet: &Packet,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let reached = unwrap_psn(packet.psn, self.unacknowledged);
        let answered = unwrap_psn(packet.selective.map_or(packet.psn, NamedPsn::psn), self.unacknowledged);
        if reached > self.highest || answered >= self.highest {
            return;
        }
        let (full, is_known) = (settings.full_packet(), self.is_arrived(answered));
        let arrived = packet.received.wrapping_sub(self.unordered.received);
        // Of two answers that overtook each other the older one counts for nothing.
        let arrived = if arrived < u16::MAX / 2 { u64::from(arrived) } else { 0 };
        self.unordered.received = self.unordered.received.wrapping_add(arrived as u16);
        self.unordered.in_flight = self.unordered.in_flight.saturating_sub(arrived);
        let mut sample = Sample {
            now,
            bytes: arrived * full,
            rtt: self.round_trip(answered, now),
            marked: packet.echoes_ce,
            in_flight: self.unordered.in_flight * full,
        };
        if packet.syndrome == Syndrome::Ack {
            self.selected.insert(answered);
            let before = (0..16).filter(|bit| packet.arrived & 1 << bit != 0);
            self.selected.extend(before.filter_map(|bit| answered.checked_sub(bit + 1)));
            if reached > self.unacknowledged {
                self.retire_row(reached, settings, now);
            }
            self.forget_arrived();
            cc.on_unordered_ack(&sample);
        } else if !is_known && self.unordered.lost.insert(answered) {
            (stats.naks_received, stats.retransmits_by_nak) =
                (stats.naks_received + 1, stats.retransmits_by_nak + 1);
            sample.bytes = full;
            cc.on_trimmed(&sample);
            self.unordered.in_flight = self.unordered.in_flight.saturating_sub(1);
        }
    }

    fn is_arrived(&self, number: u64) -> bool {
        number < self.unacknowledged || self.selected.contains(&number)
    }

    /// Since a packet of unordered delivery was sent, if it was sent once and has not been forgotten.
    fn round_trip(&self, number: u64, now: Time) -> Option<Span> {
        let place =
            number.checked_sub(self.unacknowledged).filter(|_| !self.unordered.resent.contains(&number))?;
        self.sent_at.get(place as usize).map(|sent| now - *sent)
    }

    /// Drops what has arrived from the lists of unordered delivery, and bounds the count under way by what can be.
    fn forget_arrived(&mut self) {
        let Unordered { lost, resent, in_flight, .. } = &mut self.unordered;
        *resent = resent.split_off(&self.unacknowledged);
        self.selected = self.selected.split_off(&self.unacknowledged);
        lost.retain(|number| *number >= self.unacknowledged && !self.selected.contains(number));
        *in_flight = (*in_flight).min(self.next - self.unacknowledged - lost.len() as u64);
    }

    /// Packets are missing: goes back to the first, or fills the holes.
    fn on_gap(
        &mut self,
        packet: &Packet,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        stats.naks_received += 1;
        cc.on_loss(now);
        if !settings.selective_repeat {
            stats.retransmits_by_nak += self.next - self.unacknowledged;
            self.next = self.unacknowledged;
            return;
        }
        if let Some(selective) = packet.selective {
            let number = unwrap_psn(selective.psn(), self.unacknowledged);
            if number >= self.unacknowledged && number < self.highest {
                self.selected.insert(number);
            }
        }
        if self.unacknowledged >= self.recover {
            (self.hole, self.recover) = (self.unacknowledged, self.next);
        }
    }

    /// The earliest time with work to do.
    pub(crate) fn deadline(&self, cc: &Controller, settings: &QueuePairSettings, now: Time) -> Time {
        let open = self.next < self.end && self.is_open(self.next, cc, settings);
        let holes = self.hole < self.recover || !self.unordered.lost.is_empty();
        let paced = if (open || holes) && self.pace_at > now { self.pace_at } else { Time::MAX };
        self.timer_at.min(paced)
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
        stats.timeouts += 1;
        self.retries += 1;
        self.timer_at = Time::MAX;
        if self.retries > settings.retry_count {
            self.failure = Some(Failure::RetriesExhausted);
            return;
        }
        if settings.unordered {
            self.on_unordered_timeout(cc, settings, stats, now);
            return;
        }
        stats.retransmits_by_timeout += self.next - self.unacknowledged;
        cc.on_loss(now);
        self.next = self.unacknowledged;
        self.selected.clear();
        self.recover = 0;
        self.hole = 0;
    }

    /// Packets that were sent a timeout ago and have not arrived, as far as answers say, are sent again.
    fn on_unordered_timeout(
        &mut self,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let under_way = |number: &u64| !self.is_arrived(*number) && !self.unordered.lost.contains(number);
        let sent = self.sent_at.iter().map(|sent| *sent + settings.timeout);
        let waits = (self.unacknowledged..).zip(sent).filter(|(number, _)| under_way(number));
        let (expired, waits): (Vec<_>, Vec<_>) = waits.partition(|(_, until)| *until <= now);
        let next = waits.iter().map(|(_, until)| *until).min();
        self.timer_at = next.unwrap_or(now + settings.timeout);
        self.unordered.is_forced = true;
        self.unordered.lost.extend(expired.iter().map(|(number, _)| number));
        let count = expired.len() as u64;
        stats.retransmits_by_timeout += count;
        self.unordered.in_flight = self.unordered.in_flight.saturating_sub(count);
        cc.on_unordered_timeout(count * settings.full_packet());
    }
}
