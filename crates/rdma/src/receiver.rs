//! The responder of a queue pair: in-order delivery, acknowledgements, NAKs, and DCQCN's notification point.

use crate::packet::{NamedPsn, Opcode, Packet, Syndrome, psn, unwrap_psn};
use crate::queue_pair::{NotificationPoint, QueuePairSettings, Stats};
use pauseframe_units::Time;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

/// Bytes for one acknowledgement of unordered delivery (htsim `uec.cpp`).
const UNORDERED_ACK_BYTES: u32 = 16_384;

/// The receiving side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    expected: u64,
    delivered: u64,
    /// Whether a NAK for the expected packet has been sent.
    nak_sent: bool,
    /// Packets since the last acknowledgement; bytes with unordered delivery.
    unacknowledged: u32,
    /// With unordered delivery: packets that have arrived, modulo 2^16.
    received: u16,
    /// With unordered delivery: an acknowledgement is due when nothing is missing.
    is_ack_due: bool,
    /// With selective repeat and unordered delivery: packets beyond the gap, and their payload.
    early: BTreeMap<u64, u16>,
    /// Receives available to SENDs; `None`: unlimited.
    pub(crate) receives: Option<u64>,
    last_cnp: Option<Time>,
    /// CNPs that wait for their delay.
    pub(crate) cnps: VecDeque<Time>,
    pub(crate) replies: VecDeque<Packet>,
}

impl Receiver {
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Handles a data packet.
    pub(crate) fn on_data(
        &mut self,
        packet: &Packet,
        is_marked: bool,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        if is_marked {
            stats.marked_received += 1;
            self.notify(settings, now);
        }
        let number = unwrap_psn(packet.psn, self.expected);
        if settings.unordered {
            self.take_unordered(number, packet, is_marked, stats);
            return;
        }
        match number.cmp(&self.expected) {
            Ordering::Less => {
                // A duplicate is acknowledged again, because its acknowledgement may have been lost.
                stats.duplicates += 1;
                self.reply(Syndrome::Ack, None);
            }
            Ordering::Greater => {
                let is_new = settings.selective_repeat && self.early.insert(number, packet.payload).is_none();
                if !self.nak_sent || is_new {
                    self.nak_sent = true;
                    stats.naks_sent += 1;
                    self.reply(
                        Syndrome::SequenceError,
                        settings.selective_repeat.then(|| NamedPsn::of(number)),
                    );
                }
            }
            Ordering::Equal => self.take(packet, settings, stats),
        }
    }

    /// Handles the expected packet.
    fn take(&mut self, packet: &Packet, settings: &QueuePairSettings, stats: &mut Stats) {
        if packet.opcode.begins_send()
            && let Some(receives) = &mut self.receives
        {
            if *receives == 0 {
                stats.rnr_naks_sent += 1;
                self.reply(Syndrome::ReceiverNotReady, None);
                return;
            }
            *receives -= 1;
        }
        (self.nak_sent, self.expected) = (false, self.expected + 1);
        self.delivered += u64::from(packet.payload);
        let mut filled = false;
        while let Some(payload) = self.early.remove(&self.expected) {
            (filled, self.expected) = (true, self.expected + 1);
            self.delivered += u64::from(payload);
        }
        self.unacknowledged += 1;
        if filled || packet.ack_request || self.unacknowledged >= settings.ack_every {
            self.reply(Syndrome::Ack, None);
        }
    }

    /// A packet that may have overtaken others. A trimmed one is requested again. Acknowledged are the first packet, every
    /// [`UNORDERED_ACK_BYTES`], marked packets, duplicates, and packets that request it: at once, and when nothing is missing before them.
    fn take_unordered(&mut self, number: u64, packet: &Packet, is_marked: bool, stats: &mut Stats) {
        let is_new = number >= self.expected && !self.early.contains_key(&number);
        if packet.is_trimmed && is_new {
            stats.naks_sent += 1;
            self.reply_unordered(Syndrome::SequenceError, number, is_marked);
            return;
        }
        let is_first = self.received == 0;
        self.is_ack_due |= packet.ack_request;
        if is_new {
            self.early.insert(number, packet.payload);
            self.received = self.received.wrapping_add(1);
            self.unacknowledged += u32::from(packet.payload);
        } else {
            stats.duplicates += 1;
        }
        while let Some(payload) = self.early.remove(&self.expected) {
            self.expected += 1;
            self.delivered += u64::from(payload);
        }
        let is_complete = self.is_ack_due && self.early.is_empty();
        self.is_ack_due &= !is_complete;
        let is_full = self.unacknowledged >= UNORDERED_ACK_BYTES;
        if !is_new || is_first || is_marked || packet.ack_request || is_complete || is_full {
            self.unacknowledged = 0;
            self.reply_unordered(Syndrome::Ack, number, is_marked);
        }
    }

    fn reply_unordered(&mut self, syndrome: Syndrome, number: u64, echoes_ce: bool) {
        let (selective, received) = (Some(NamedPsn::of(number)), self.received);
        let reply = Packet::new(Opcode::Acknowledge, psn(self.expected));
        let has_arrived = |before: &u64| {
            number.checked_sub(*before).is_some_and(|n| n < self.expected || self.early.contains_key(&n))
        };
        let arrived = (1..=16).filter(has_arrived).fold(0, |bits, before| bits | 1 << (before - 1));
        self.replies.push_back(Packet { syndrome, selective, received, arrived, echoes_ce, ..reply });
    }

    fn reply(&mut self, syndrome: Syndrome, selective: Option<NamedPsn>) {
        if syndrome == Syndrome::Ack {
            self.unacknowledged = 0;
        }
        let number = if syndrome == Syndrome::Ack { self.expected.wrapping_sub(1) } else { self.expected };
        self.replies.push_back(Packet {
            syndrome,
            selective,
            ..Packet::new(Opcode::Acknowledge, psn(number))
        });
    }

    fn notify(&mut self, settings: &QueuePairSettings, now: Time) {
        let Some(NotificationPoint { interval, delay }) = settings.notification else { return };
        if self.last_cnp.is_none_or(|last| now.0 >= last.0 + interval.0) {
            self.last_cnp = Some(now);
            self.cnps.push_back(now + delay);
        }
    }

    /// The next acknowledgement, NAK or CNP.
    pub(crate) fn poll(&mut self, stats: &mut Stats, now: Time) -> Option<Packet> {
        if self.cnps.front().is_some_and(|due| *due <= now) {
            self.cnps.pop_front();
            stats.cnps_sent += 1;
            return Some(Packet::new(Opcode::Cnp, 0));
        }
        self.replies.pop_front()
    }
}
