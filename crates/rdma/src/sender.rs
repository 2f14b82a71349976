//! The requester of a queue pair: cuts messages into packets; go-back-N or selective repeat, timer and retry counts.

use crate::cc::hpcc::Telemetry;
use crate::cc::{Acknowledgement, Controller};
use crate::packet::{Opcode, Packet, Syndrome, psn, rnr_delay, unwrap_psn};
use crate::queue_pair::{QueuePairSettings, Stats};
use pauseframe_units::{BitRate, Bytes, Time};
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
    /// Number of its first packet, and one past its last.
    first: u64,
    end: u64,
    bytes: u64,
    is_send: bool,
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
    /// When pacing releases the next packet.
    pace_at: Time,
    /// When the retransmission timer expires; `Time::MAX` if it does not run.
    timer_at: Time,
    retries: u32,
    rnr_retries: u32,
    /// Selective repeat: packets known to have arrived, the end of this recovery, and the next hole to fill.
    selected: BTreeSet<u64>,
    recover: u64,
    hole: u64,
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
            timer_at: Time::MAX,
            retries: 0,
            rnr_retries: 0,
            selected: BTreeSet::new(),
            recover: 0,
            hole: 0,
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
        let flight = (self.next - self.unacknowledged) * u64::from(settings.mtu);
        if number == self.next && cc.window().is_some_and(|window| flight > 0 && flight >= window) {
            return None;
        }
        // A window opens with acknowledgements only and may shrink below the data in flight, so every packet requests
        // one.
        let has_window = cc.window().is_some();
        let message = self.message(number);
        let (is_first, is_last) = (number == message.first, number + 1 == message.end);
        let of = if message.is_send { Opcode::of_send } else { Opcode::of_write };
        let packet = Packet {
            opcode: of(is_first, is_last),
            psn: psn(number),
            payload: payload as u16,
            ack_request: is_last
                || has_window
                || (number + 1).is_multiple_of(u64::from(settings.ack_request_every)),
            syndrome: Syndrome::Ack,
            selective: None,
        };
        self.on_sent(number, &packet, is_new, settings, stats, now);
        let bytes = u64::from(settings.ip_size(&packet) + settings.link_overhead);
        cc.on_sent(bytes, now);
        self.pace_at = self.pace_at.max(now) + BitRate(cc.rate().max(1)).serialise(Bytes(bytes));
        // A rounded rate must not fall behind its link for ever.
        self.pace_at.0 = self.pace_at.0.saturating_sub(1);
        Some(packet)
    }

    /// The hole that selective repeat fills next, or the next packet in order.
    fn next_number(&mut self) -> Option<u64> {
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
        let mtu = u64::from(settings.mtu);
        cc.on_ack(&Acknowledgement {
            now,
            packets: reached - before,
            acked: self.unacknowledged * mtu,
            next: self.next * mtu,
            rtt: sent_at.map(|sent| now - sent),
            telemetry: *telemetry,
        });
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
            let number = unwrap_psn(selective, self.unacknowledged);
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
        let flight = (self.next - self.unacknowledged) * u64::from(settings.mtu);
        let open = self.next < self.end && cc.window().is_none_or(|window| flight == 0 || flight < window);
        let holes = self.hole < self.recover;
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
        stats.retransmits_by_timeout += self.next - self.unacknowledged;
        cc.on_loss(now);
        self.next = self.unacknowledged;
        self.selected.clear();
        self.recover = 0;
        self.hole = 0;
    }
}
