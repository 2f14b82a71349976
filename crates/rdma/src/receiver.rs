//! The responder of a queue pair: in-order delivery, acknowledgements, NAKs, responses to READs, and DCQCN's notification point.

use crate::any_order::GapWatch;
use crate::packet::{HALF_OF_PSNS, NamedPsn, Opcode, Packet, Syndrome, psn, unwrap_psn};
use crate::queue_pair::{CnpScope, NotificationPoint, QueuePairSettings, Stats};
use pauseframe_units::{Span, Time, first_broken};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

/// Bytes for one acknowledgement of unordered delivery (htsim `uec.cpp`).
pub const UNORDERED_ACK_BYTES: u32 = 16_384;

/// A slow sender gets its acknowledgements this often, so that coalescing never lets its timer expire: an eighth of the first one.
pub(crate) const ACK_INTERVAL: Span = Span::from_us(250);

/// A packet that has arrived beyond a gap.
#[derive(Clone, Copy, Debug)]
enum Early {
    /// With this payload; whether it begins and ends a SEND, and requests an acknowledgement.
    Data(u16, [bool; 3]),
    /// A READ of this length.
    Read(u32),
}

/// When the last CNP of a queue pair or a port was due.
#[derive(Clone, Copy, Default, Debug)]
pub struct CnpLimiter(Option<Time>);

impl CnpLimiter {
    /// Whether a CNP may be sent now, which then counts as sent.
    fn admits(&mut self, interval: Span, now: Time) -> bool {
        let may = self.0.is_none_or(|last| now.0 >= last.0 + interval.0);
        if may {
            self.0 = Some(now);
        }
        may
    }
}

/// What a responder returns, in the order of PSNs.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// An acknowledgement or a NAK.
    Answer(Packet),
    /// The packets of a response that are still to be sent: the first, one past the last, and their bytes.
    Response { next: u64, end: u64, bytes: u32, is_begun: bool },
}

/// The receiving side. What every packet touches comes first.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Receiver {
    expected: u64,
    delivered: u64,
    replies: VecDeque<Reply>,
    /// Whether a NAK for the expected packet has been sent.
    nak_sent: bool,
    /// The number of the last packet beyond the gap.
    last_beyond: u64,
    /// When the last acknowledgement was sent, and the last NAK.
    acked_at: Time,
    nak_at: Time,
    /// Packets since the last acknowledgement; bytes with unordered delivery.
    unacknowledged: u32,
    /// With unordered delivery: packets that have arrived, modulo 2^16.
    received: u16,
    /// With unordered delivery: an acknowledgement is due when nothing is missing.
    is_ack_due: bool,
    /// CNPs that wait for their delay.
    pub(crate) cnps: VecDeque<Time>,
    /// With selective repeat and in any order: packets beyond the gap, and their payload.
    early: BTreeMap<u64, Early>,
    limiter: CnpLimiter,
    gap: GapWatch,
    /// Receives available to SENDs, and when others are posted again; `None`: unlimited.
    receives: Option<u32>,
    reposts: VecDeque<Time>,
    /// One past the last packet of all responses so far; before it a response is a retransmission.
    responded: u64,
}

impl Early {
    fn of(packet: &Packet) -> Early {
        match packet.opcode {
            Opcode::ReadRequest => Early::Read(packet.length()),
            opcode => {
                Early::Data(packet.payload, [opcode.begins_send(), opcode.ends_send(), packet.ack_request])
            }
        }
    }

    fn requests_ack(self) -> bool {
        matches!(self, Early::Data(_, [_, _, true]))
    }
}

/// Packets of the response to a READ of this length.
fn response_packets(bytes: u32, mtu: u32) -> u64 {
    u64::from(bytes.div_ceil(mtu).max(1))
}

impl Receiver {
    pub(crate) fn new(settings: &QueuePairSettings) -> Receiver {
        Receiver { receives: settings.receives, ..Receiver::default() }
    }

    /// The first packet that has not arrived.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// What contradicts itself here (`invariants.rs`).
    pub(crate) fn contradiction(&self) -> Option<String> {
        let [first, last] = [self.early.first_key_value(), self.early.last_key_value()];
        let is_near = |number: u64| number.saturating_sub(self.expected) <= HALF_OF_PSNS;
        first_broken(&[
            (first.is_none_or(|(first, _)| *first > self.expected), "it keeps packets that it has delivered"),
            (
                last.is_none_or(|(last, _)| is_near(*last)),
                "it keeps a packet that PSNs cannot tell from an old one",
            ),
            (self.responded <= self.expected, "it has responded to what was not requested"),
        ])
    }

    /// When the last acknowledgement was sent.
    pub(crate) fn acked_at(&self) -> Time {
        self.acked_at
    }

    /// Sets when the last acknowledgement was sent.
    pub(crate) fn set_acked_at(&mut self, at: Time) {
        self.acked_at = at;
    }

    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Handles a data packet.
    pub(crate) fn on_data(
        &mut self,
        packet: &Packet,
        is_marked: bool,
        port: &mut CnpLimiter,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let number = unwrap_psn(packet.psn, self.expected);
        if settings.unordered {
            self.take_unordered(number, packet, is_marked, settings, stats);
            return;
        }
        match number.cmp(&self.expected) {
            Ordering::Less => {
                stats.duplicates += 1;
                if packet.opcode == Opcode::ReadRequest {
                    self.respond_again(number, packet.length(), settings);
                } else {
                    // Its acknowledgement may have been lost.
                    self.acknowledge(now);
                }
            }
            Ordering::Greater if settings.places_any_order() => {
                self.place(number, packet, port, settings, stats, now);
            }
            Ordering::Greater => {
                if settings.slow_restart {
                    self.notify(port, settings, now);
                }
                self.on_gap(number, packet, settings, stats, now);
            }
            Ordering::Equal => {
                let is_behind_gap = self.take(packet, settings, stats, now);
                if is_behind_gap && settings.places_any_order() {
                    self.gap.on_progress();
                    self.request_lost(false, port, settings, stats, now);
                }
            }
        }
    }

    /// Keeps a packet beyond the expected one, which may only be late.
    fn place(
        &mut self,
        number: u64,
        packet: &Packet,
        port: &mut CnpLimiter,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let is_new = !self.early.contains_key(&number);
        if !is_new {
            stats.duplicates += 1;
        } else if self.early.len() < settings.ooo_window as usize {
            self.early.insert(number, Early::of(packet));
        }
        self.request_lost(is_new, port, settings, stats, now);
    }

    /// Sends a NAK if the expected packet counts as lost after the last one, which was new or not. With selective repeat it names the next packet that
    /// has come.
    fn request_lost(
        &mut self,
        is_new: bool,
        port: &mut CnpLimiter,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let [first, last] = [self.early.first_key_value(), self.early.last_key_value()]
            .map(|entry| entry.map(|(number, _)| *number));
        let kept = (self.early.len(), first, last);
        if !self.gap.is_lost(self.expected, kept, is_new, (settings.ooo_window, settings.selective_repeat)) {
            return;
        }
        if settings.slow_restart {
            self.notify(port, settings, now);
        }
        stats.naks_sent += 1;
        let selective = first.filter(|_| settings.selective_repeat).map(NamedPsn::of);
        self.reply(Syndrome::SequenceError, selective);
    }

    /// Handles a packet beyond the expected one.
    fn on_gap(
        &mut self,
        number: u64,
        packet: &Packet,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let early = Early::of(packet);
        let is_new = settings.selective_repeat && self.early.insert(number, early).is_none();
        // The requester has gone back, and the packet that it went back to is lost again.
        let has_gone_back = number <= self.last_beyond;
        self.last_beyond = number;
        let is_due = match settings.nak_interval {
            Some(interval) => now >= self.nak_at + interval,
            None => has_gone_back,
        };
        if !self.nak_sent || is_new || is_due {
            (self.nak_sent, self.nak_at) = (true, now);
            stats.naks_sent += 1;
            let selective = (settings.selective_repeat && is_new).then(|| NamedPsn::of(number));
            self.reply(Syndrome::SequenceError, selective);
        }
    }

    /// Handles the expected packet. Returns whether others had come before it.
    fn take(&mut self, packet: &Packet, settings: &QueuePairSettings, stats: &mut Stats, now: Time) -> bool {
        if !self.may_accept(Early::of(packet), settings, stats, now) {
            return false;
        }
        self.nak_sent = false;
        self.accept(Early::of(packet), settings.mtu);
        let (mut taken, mut requests_ack) = (1, packet.ack_request);
        while let Some(early) = self.early.remove(&self.expected) {
            taken += 1;
            requests_ack |= early.requests_ack();
            if !self.may_accept(early, settings, stats, now) {
                self.early.clear();
                return true;
            }
            self.accept(early, settings.mtu);
        }
        let filled = taken > 1;
        if packet.opcode == Opcode::ReadRequest && !filled {
            // The response acknowledges all requests before it.
            self.unacknowledged = 0;
            return false;
        }
        self.unacknowledged += taken;
        let is_due = self.unacknowledged >= settings.ack_every || now >= self.acked_at + ACK_INTERVAL;
        let fills_lost = filled && !settings.places_any_order();
        if fills_lost || requests_ack || is_due {
            self.acknowledge(now);
        }
        filled
    }

    /// Whether a receive is posted for the expected packet, if it begins a SEND; otherwise the requester learns that none is.
    fn may_accept(
        &mut self,
        early: Early,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) -> bool {
        let (Early::Data(_, [begins, ends, _]), Some(receives)) = (early, &mut self.receives) else {
            return true;
        };
        if begins {
            while self.reposts.pop_front_if(|at| *at <= now).is_some() {
                *receives += 1;
            }
            if *receives == 0 {
                stats.rnr_naks_sent += 1;
                // What follows is dropped without a word until the requester has gone back.
                (self.nak_sent, self.nak_at, self.last_beyond) = (true, now, self.expected);
                self.reply(Syndrome::ReceiverNotReady, None);
                return false;
            }
            *receives -= 1;
        }
        if ends {
            self.reposts.push_back(now + settings.repost);
        }
        true
    }

    /// A packet that may have overtaken others. A trimmed one is requested again. Acknowledged are the first packet, every
    /// [`UNORDERED_ACK_BYTES`], marked packets, duplicates, and packets that request it: at once, and when nothing is missing before them.
    fn take_unordered(
        &mut self,
        number: u64,
        packet: &Packet,
        is_marked: bool,
        settings: &QueuePairSettings,
        stats: &mut Stats,
    ) {
        let is_new = number >= self.expected && !self.early.contains_key(&number);
        if packet.is_trimmed && is_new {
            stats.naks_sent += 1;
            self.reply_unordered(Syndrome::SequenceError, number, is_marked, packet.entropy);
            return;
        }
        let is_first = self.received == 0;
        self.is_ack_due |= packet.ack_request;
        if is_new {
            if number == self.expected {
                self.accept(Early::of(packet), settings.mtu);
            } else {
                self.early.insert(number, Early::of(packet));
            }
            self.received = self.received.wrapping_add(1);
            self.unacknowledged += u32::from(packet.payload);
        } else {
            stats.duplicates += 1;
        }
        while let Some(early) = self.early.remove(&self.expected) {
            self.accept(early, settings.mtu);
        }
        let is_complete = self.is_ack_due && self.early.is_empty();
        self.is_ack_due &= !is_complete;
        let is_full = self.unacknowledged >= UNORDERED_ACK_BYTES;
        if !is_new || is_first || is_marked || packet.ack_request || is_complete || is_full {
            self.unacknowledged = 0;
            self.reply_unordered(Syndrome::Ack, number, is_marked, packet.entropy);
        }
    }

    fn reply_unordered(&mut self, syndrome: Syndrome, number: u64, echoes_ce: bool, entropy: u8) {
        let (selective, received) = (Some(NamedPsn::of(number)), self.received);
        let reply = Packet::new(Opcode::Acknowledge, psn(self.expected));
        let has_arrived = |before: &u64| {
            number.checked_sub(*before).is_some_and(|n| n < self.expected || self.early.contains_key(&n))
        };
        let arrived = (1..=16).filter(has_arrived).fold(0, |bits, before| bits | 1 << (before - 1));
        let answer = Packet { syndrome, selective, received, arrived, echoes_ce, entropy, ..reply };
        self.replies.push_back(Reply::Answer(answer));
    }

    fn acknowledge(&mut self, now: Time) {
        (self.unacknowledged, self.acked_at) = (0, now);
        self.reply(Syndrome::Ack, None);
    }

    fn reply(&mut self, syndrome: Syndrome, selective: Option<NamedPsn>) {
        let number = if syndrome == Syndrome::Ack { self.expected.wrapping_sub(1) } else { self.expected };
        let answer = Packet { syndrome, selective, ..Packet::new(Opcode::Acknowledge, psn(number)) };
        self.replies.push_back(Reply::Answer(answer));
    }

    /// A data packet has come, also one of a response.
    pub(crate) fn on_mark(
        &mut self,
        is_marked: bool,
        port: &mut CnpLimiter,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        if is_marked {
            stats.marked_received += 1;
            self.notify(port, settings, now);
        }
    }

    /// The expected packet is in.
    fn accept(&mut self, early: Early, mtu: u32) {
        match early {
            Early::Data(payload, _) => {
                self.expected += 1;
                self.delivered += u64::from(payload);
            }
            Early::Read(bytes) => {
                let next = self.expected;
                self.expected += response_packets(bytes, mtu);
                let end = self.expected;
                self.replies.push_back(Reply::Response { next, end, bytes, is_begun: false });
            }
        }
    }

    /// A READ was requested again, from a packet on that its requester misses. With go-back-N the requester drops what follows that
    /// packet, and requests later READs again too; with selective repeat only what it misses goes first.
    fn respond_again(&mut self, next: u64, bytes: u32, settings: &QueuePairSettings) {
        let end = next + response_packets(bytes, settings.mtu);
        let again = Reply::Response { next, end, bytes, is_begun: false };
        if settings.selective_repeat {
            self.replies.push_front(again);
        } else {
            // Requests that overtake each other leave the other's response.
            let first_after = if settings.places_any_order() { end } else { u64::MAX };
            let is_dropped = |reply: &Reply| matches!(reply, Reply::Response { next: first, end, .. } if *end > next && *first < first_after);
            self.replies.retain(|reply| !is_dropped(reply));
            self.replies.push_back(again);
        }
    }

    /// Whether the packets of a response are next.
    #[inline]
    pub(crate) fn is_responding(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Response { .. }))
    }

    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.replies.is_empty() && self.cnps.is_empty()
    }

    /// The next packet of a response.
    pub(crate) fn poll_response(&mut self, mtu: u32, stats: &mut Stats) -> Option<Packet> {
        let Some(Reply::Response { next, end, bytes, is_begun }) = self.replies.front_mut() else {
            return None;
        };
        let (number, payload, is_last) = (*next, (*bytes).min(mtu), *next + 1 == *end);
        let opcode = Opcode::of_response(!*is_begun, is_last);
        (*next, *bytes, *is_begun) = (number + 1, *bytes - payload, true);
        if is_last {
            self.replies.pop_front();
        }
        if number < self.responded {
            stats.retransmits += 1;
            stats.retransmits_by_nak += 1;
        }
        self.responded = self.responded.max(number + 1);
        Some(Packet { payload: payload as u16, ..Packet::new(opcode, psn(number)) })
    }

    /// Sends a CNP, unless the last one was sent too short a time ago.
    pub(crate) fn notify(&mut self, port: &mut CnpLimiter, settings: &QueuePairSettings, now: Time) {
        let Some(NotificationPoint { interval, scope, delay }) = settings.notification else { return };
        let limiter = if scope == CnpScope::Port { port } else { &mut self.limiter };
        if limiter.admits(interval, now) {
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
        let Some(Reply::Answer(answer)) = self.replies.front().copied() else { return None };
        self.replies.pop_front();
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Falsify = fn(&mut Receiver);

    #[test]
    fn each_rule_finds_its_contradiction() {
        let break_it: [(&str, Falsify); 3] = [
            ("that it has delivered", |receiver| receiver.expected = 7),
            ("cannot tell from an old one", |receiver| {
                receiver.early.insert(6 + HALF_OF_PSNS, Early::Read(1));
            }),
            ("was not requested", |receiver| receiver.responded = 6),
        ];
        for (rule, falsify) in break_it {
            let mut receiver = Receiver { expected: 5, responded: 5, ..Receiver::default() };
            receiver.early.insert(7, Early::Data(1000, [false; 3]));
            assert_eq!(receiver.contradiction(), None);
            falsify(&mut receiver);
            let found = receiver.contradiction().expect(rule);
            assert!(found.contains(rule), "{rule}: {found}");
        }
    }

    /// Answers go out for the first packet, for one that requests it, and for the one that then fills the gap before it; not for others.
    #[test]
    fn unordered_delivery_answers_once_nothing_is_missing() {
        let settings = QueuePairSettings { unordered: true, ..QueuePairSettings::default() };
        let (mut receiver, mut stats) = (Receiver::new(&settings), Stats::default());
        let answers =
            [(0, false), (1, false), (3, true), (2, false), (4, false)].map(|(number, ack_request)| {
                let packet = Packet {
                    payload: 1000,
                    ack_request,
                    ..Packet::new(Opcode::of_write(false, false), number)
                };
                let mut port = CnpLimiter::default();
                receiver.on_data(&packet, false, &mut port, &settings, &mut stats, Time::ZERO);
                std::iter::from_fn(|| receiver.poll(&mut stats, Time::ZERO)).count()
            });
        assert_eq!(answers, [1, 0, 1, 1, 0]);
    }

    /// Behind a gap, a number that is not above the one before shows that the requester has gone back and that the missing packet is lost again: another
    /// NAK. One packet may be all that follows the missing one.
    #[test]
    fn each_return_of_the_requester_brings_a_nak() {
        let settings = QueuePairSettings::default();
        let (mut receiver, mut stats) = (Receiver::new(&settings), Stats::default());
        let naks = [0, 2, 3, 2, 3, 2, 2, 4].map(|number| {
            let packet = Packet { payload: 1000, ..Packet::new(Opcode::of_write(false, false), number) };
            let mut port = CnpLimiter::default();
            receiver.on_data(&packet, false, &mut port, &settings, &mut stats, Time::ZERO);
            stats.naks_sent
        });
        assert_eq!(naks, [0, 1, 1, 2, 2, 3, 4, 4]);
    }

    /// A packet that comes an interval after the last acknowledgement is acknowledged, whatever `ack_every` is.
    #[test]
    fn a_slow_packet_is_acknowledged_once_an_interval_has_passed() {
        let settings = QueuePairSettings { ack_every: 1000, ..QueuePairSettings::default() };
        let (mut receiver, mut stats) = (Receiver::new(&settings), Stats::default());
        let interval = ACK_INTERVAL.0;
        let times = [interval - 1, interval, 2 * interval - 1, 2 * interval, 2 * interval + 1, 4 * interval];
        let answers = [0, 1, 2, 3, 4, 5].map(|number| {
            let now = Time(times[number as usize]);
            let packet = Packet { payload: 1000, ..Packet::new(Opcode::of_write(false, false), number) };
            let mut port = CnpLimiter::default();
            receiver.on_data(&packet, false, &mut port, &settings, &mut stats, now);
            std::iter::from_fn(|| receiver.poll(&mut stats, now)).count()
        });
        assert_eq!(answers, [0, 1, 0, 1, 0, 1]);
    }
}
