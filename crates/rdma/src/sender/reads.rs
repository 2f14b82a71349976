//! READs at the requester: which responses have arrived, and which are requested again.
//!
//! The response to a READ takes as many PSNs as it has packets, from the PSN of the request on (InfiniBand Architecture
//! Specification, chapter 9). A response is never acknowledged: a requester that sees a gap requests the rest of the READ again, from the
//! first missing PSN, or with selective repeat the missing packets only.

use super::{Cause, Message, Sender, Verb};
use crate::any_order::GapWatch;
use crate::cc::Controller;
use crate::cc::hpcc::Telemetry;
use crate::packet::{Packet, psn, unwrap_psn};
use crate::queue_pair::{QueuePairSettings, Stats};
use pauseframe_units::Time;
use std::collections::{BTreeSet, VecDeque};
use std::mem::offset_of;

/// PSNs under way at once, at most: half of what tells an old packet from a new one.
const PSNS_UNDER_WAY: u64 = 1 << 22;

/// State of the READs of a requester.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(super) struct Reads {
    /// READs that are not complete.
    pub(super) posted: usize,
    /// Bytes that responses have delivered in order.
    pub(super) delivered: u64,
    /// Selective repeat: missing packets to request, as first packet and one past the last; all missing packets below `examined`
    /// have been in this list.
    holes: VecDeque<(u64, u64)>,
    pub(super) examined: u64,
    /// Packets of responses that have arrived beyond a gap.
    pub(super) early: BTreeSet<u64>,
    /// Go-back-N: the missing packet that has been requested again.
    pub(super) requested_again: Option<u64>,
    /// The packet of the last response.
    last: u64,
    /// In any order: what an answer has acknowledged if all responses before it come.
    pub(super) answered: u64,
    gap: GapWatch,
}

impl Reads {
    pub(super) const TOUCHED_BY_EACH_PACKET: usize = offset_of!(Reads, holes);

    /// Whether a READ has been posted that is not complete, or responses have come.
    pub(super) fn has_been_used(&self) -> bool {
        self.posted > 0 || self.delivered > 0
    }

    /// Adds a missing packet to the holes.
    pub(super) fn add_hole(&mut self, number: u64, is_first_of_message: bool) {
        match self.holes.back_mut() {
            Some((_, end)) if *end == number && !is_first_of_message => *end += 1,
            _ => self.holes.push_back((number, number + 1)),
        }
    }

    /// The packets to request next, none of which has arrived when a packet from `unacknowledged` on is missing.
    pub(super) fn next_hole(&mut self, unacknowledged: u64) -> Option<(u64, u64)> {
        while self.holes.front().is_some_and(|(_, end)| *end <= unacknowledged) {
            self.holes.pop_front();
        }
        self.holes.front().map(|(first, end)| ((*first).max(unacknowledged), *end))
    }

    /// The first hole has been requested.
    pub(super) fn fill_hole(&mut self) {
        self.holes.pop_front();
    }

    #[inline]
    pub(super) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// A timeout: everything is requested again.
    pub(super) fn forget_requests(&mut self) {
        self.holes.clear();
        (self.requested_again, self.examined) = (None, 0);
    }
}

impl Sender {
    /// Requests the response packets from `first` to `end`, of one READ.
    pub(super) fn request(
        &mut self,
        first: u64,
        end: u64,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) -> Packet {
        let bytes = self.message(first).payload(first..end, settings.mtu);
        let packet = Packet::read_request(psn(first), bytes as u32);
        self.on_sent(first..end, &packet, settings, stats, now);
        self.pace(&packet, cc, settings, now);
        packet
    }

    /// Whether another READ may be under way.
    pub(super) fn may_read(&self, message: Message, settings: &QueuePairSettings) -> bool {
        let (under_way, _) = self.reads_under_way();
        let psns = message.end - self.unacknowledged;
        under_way < settings.max_reads as usize && (psns <= PSNS_UNDER_WAY || self.is_all_acknowledged())
    }

    pub(super) fn is_all_acknowledged(&self) -> bool {
        self.unacknowledged == self.next
    }

    /// READs that have been requested and are not complete, and their PSNs that are missing.
    pub(super) fn reads_under_way(&self) -> (usize, u64) {
        if self.reads.posted == 0 {
            return (0, 0);
        }
        let requested = self.messages.iter().take_while(|message| message.first < self.next);
        let psns = |message: &Message| message.end.min(self.next) - message.first.max(self.unacknowledged);
        let reads = requested.filter(|message| message.verb == Verb::Read).map(psns);
        reads.fold((0, 0), |(count, sum), psns| (count + 1, sum + psns))
    }

    /// The READ that a packet belongs to.
    pub(super) fn read_of(&self, number: u64) -> Option<Message> {
        Some(self.message(number)).filter(|message| message.verb == Verb::Read)
    }

    /// The first packet before `end` of a response that has not arrived; `end` if there is none.
    pub(super) fn first_missing_response(&self, end: u64) -> u64 {
        if self.reads.posted == 0 {
            return end;
        }
        let reads = self.messages.iter().take_while(|message| message.first < end);
        let reads = reads.filter(|message| message.verb == Verb::Read);
        let mut numbers = reads.flat_map(|read| read.first.max(self.unacknowledged)..read.end.min(end));
        numbers.find(|number| !self.reads.early.contains(number)).unwrap_or(end)
    }

    /// A packet of the response to a READ; it also acknowledges all requests before it. Returns whether responses before it are missing.
    pub(crate) fn on_response(
        &mut self,
        packet: &Packet,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) -> bool {
        let number = unwrap_psn(packet.psn, self.unacknowledged);
        let any_order = settings.places_any_order();
        // The responder has gone back, and the packet that it went back to is lost again.
        if number <= std::mem::replace(&mut self.reads.last, number) && !any_order {
            self.reads.requested_again = None;
        }
        let is_known = number < self.unacknowledged || self.reads.early.contains(&number);
        if is_known || number >= self.highest || self.read_of(number).is_none() {
            stats.duplicates += 1;
            return any_order && number > self.unacknowledged && self.request_lost_responses(false, settings);
        }
        let is_next = self.first_missing_response(number + 1) == number;
        let keeps = any_order && self.reads.early.len() < settings.ooo_window as usize;
        if is_next || keeps || settings.selective_repeat && !any_order {
            self.reads.early.insert(number);
        }
        let last = self.reads.early.last().map_or(number, |last| last + 1).max(self.reads.answered);
        let reached = self.first_missing_response(last);
        if reached > self.unacknowledged {
            self.advance(reached, &Telemetry::EMPTY, cc, settings, now);
        }
        if any_order {
            return self.request_lost_responses(true, settings);
        }
        if !is_next {
            self.on_missing_responses(number, settings);
        }
        !is_next
    }

    /// Requests the first missing response again if it counts as lost after the last one, which was new or not. Returns whether it does.
    fn request_lost_responses(&mut self, is_new: bool, settings: &QueuePairSettings) -> bool {
        let early = &self.reads.early;
        let (first, last) = (early.first().copied(), early.last().copied());
        let (kept, by) = ((early.len(), first, last), (settings.ooo_window, settings.selective_repeat));
        let is_lost = self.reads.gap.is_lost(self.unacknowledged, kept, is_new, by);
        if let Some(first) = first.filter(|_| is_lost) {
            (self.reads.requested_again, self.reads.examined) = (None, 0);
            self.on_missing_responses(first, settings);
        }
        is_lost
    }

    /// Responses before `end` are missing, which is an implied NAK: requests the rest again, or with selective repeat the missing packets.
    pub(super) fn on_missing_responses(&mut self, end: u64, settings: &QueuePairSettings) {
        if !settings.selective_repeat {
            if self.reads.requested_again != Some(self.unacknowledged) {
                self.reads.requested_again = Some(self.unacknowledged);
                self.go_back(Cause::Nak);
            }
            return;
        }
        let from = self.reads.examined.max(self.unacknowledged);
        self.reads.examined = self.reads.examined.max(end);
        for number in from..end {
            if let Some(read) = self.read_of(number).filter(|_| !self.reads.early.contains(&number)) {
                self.reads.add_hole(number, read.first == number);
            }
        }
    }
}
