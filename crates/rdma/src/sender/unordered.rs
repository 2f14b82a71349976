//! Unordered delivery (NSCC): packets may overtake each other, and only a trimmed packet or a timeout counts as a loss.

use super::{Cause, Feedback, Sender};
use crate::cc::Controller;
use crate::cc::nscc::Sample;
use crate::packet::{NamedPsn, Packet, Syndrome, unwrap_psn};
use crate::queue_pair::{QueuePairSettings, Stats};
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;

/// What unordered delivery keeps beside [`Sender::selected`].
#[derive(Clone, Debug, Default)]
pub(super) struct Unordered {
    /// Packets to send again.
    pub(super) lost: BTreeMap<u64, Cause>,
    /// Packets that were sent again, which give no round trip. Several copies of one that had timed out may be under way, so a NAK of one of them says
    /// nothing: if each called for another copy, their number would never fall while switches trim all of them.
    pub(super) resent: BTreeMap<u64, Cause>,
    /// Packets that the receiver has, modulo 2^16.
    pub(super) received: u16,
    /// Packets under way. Negative for a while if a packet that has timed out arrives: it counts as gone twice until it is sent again.
    pub(super) in_flight: i64,
    /// From this time on a timeout counts as another retry.
    pub(super) retry_at: Time,
}

impl Unordered {
    pub(super) fn on_packet_sent(&mut self, number: u64) {
        self.in_flight += 1;
        if let Some(cause) = self.lost.remove(&number) {
            self.resent.insert(number, cause);
        }
    }

    pub(super) fn count_in_flight(&self) -> u64 {
        self.in_flight.max(0) as u64
    }
}

impl Sender {
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
        let rtt = self.round_trip(answered, now);
        if let Some(entropy) = &mut self.entropy {
            let feedback = match (packet.syndrome, packet.echoes_ce) {
                (Syndrome::Ack, false) => Feedback::Good,
                (Syndrome::Ack, true) => Feedback::Marked,
                _ => Feedback::Trimmed,
            };
            entropy.learn(packet.entropy, feedback, now);
        }
        let mut revoked = 0;
        if packet.syndrome == Syndrome::Ack {
            if reached > self.unacknowledged {
                self.retire_row(reached, settings, now);
            }
            let before = (0..16).filter(|bit| packet.arrived & 1 << bit != 0);
            let arrived = before.filter_map(|bit| answered.checked_sub(bit + 1)).chain([answered]);
            self.selected.extend(arrived.filter(|number| *number >= self.unacknowledged));
            revoked = self.forget_arrived();
        }
        let left = self.next - self.unacknowledged - self.unordered.lost.len() as u64;
        let in_flight = self.unordered.in_flight + revoked as i64 - arrived as i64;
        self.unordered.in_flight = in_flight.min(left as i64);
        let in_flight = self.unordered.count_in_flight();
        let bytes = arrived * full;
        let mut sample = Sample { now, bytes, rtt, marked: packet.echoes_ce, in_flight: in_flight * full };
        if packet.syndrome == Syndrome::Ack {
            cc.on_unordered_ack(&sample);
        } else if !is_known
            && self.unordered.resent.get(&answered) != Some(&Cause::Timeout)
            && self.unordered.lost.insert(answered, Cause::Nak).is_none()
        {
            stats.naks_received += 1;
            sample.bytes = full;
            cc.on_trimmed(&sample);
            self.unordered.in_flight -= 1;
        }
    }

    pub(super) fn is_arrived(&self, number: u64) -> bool {
        number < self.unacknowledged || self.selected.contains(&number)
    }

    /// Since a packet of unordered delivery was sent, if it was sent once and counts as under way.
    pub(super) fn round_trip(&self, number: u64, now: Time) -> Option<Span> {
        let Unordered { lost, resent, .. } = &self.unordered;
        let is_sure = !resent.contains_key(&number) && !lost.contains_key(&number);
        let place = number.checked_sub(self.unacknowledged).filter(|_| is_sure)?;
        self.sent_at.get(place as usize).map(|sent| now - *sent)
    }

    /// Drops what has arrived from the lists of unordered delivery. Returns the number of packets that counted as lost and had not been sent again: they no
    /// longer counted as under way.
    fn forget_arrived(&mut self) -> u64 {
        if let Some(entropy) = &mut self.entropy {
            entropy.forget_before(self.unacknowledged);
        }
        let Unordered { lost, resent, .. } = &mut self.unordered;
        let before = lost.len();
        if !resent.is_empty() {
            *resent = resent.split_off(&self.unacknowledged);
        }
        lost.retain(|number, _| *number >= self.unacknowledged && !self.selected.contains(number));
        (before - lost.len()) as u64
    }

    /// Packets that were sent a timeout ago and have not arrived, as far as answers say, are sent again. The timer may have run for packets that have
    /// arrived since; then it runs on for the others.
    pub(super) fn on_unordered_timeout(
        &mut self,
        cc: &mut Controller,
        settings: &QueuePairSettings,
        stats: &mut Stats,
        now: Time,
    ) {
        let under_way = |number: &u64| !self.is_arrived(*number) && !self.unordered.lost.contains_key(number);
        let sent = self.sent_at.iter().map(|sent| *sent + settings.timeout);
        let waits = (self.unacknowledged..).zip(sent).filter(|(number, _)| under_way(number));
        let (expired, waits): (Vec<_>, Vec<_>) = waits.partition(|(_, until)| *until <= now);
        let next = waits.iter().map(|(_, until)| *until).min();
        self.timer_at = next.unwrap_or(now + settings.timeout);
        if expired.is_empty() {
            return;
        }
        stats.timeouts += 1;
        // Packets expire one by one: those of one timeout are one retry.
        if now >= self.unordered.retry_at {
            self.unordered.retry_at = now + settings.timeout;
            if self.count_retry(settings.timeout, settings, stats) {
                return;
            }
        }
        self.unordered.lost.extend(expired.iter().map(|(number, _)| (*number, Cause::Timeout)));
        if let Some(entropy) = &mut self.entropy {
            for (number, _) in &expired {
                entropy.learn_timeout(*number, now);
            }
        }
        let count = expired.len() as u64;
        self.unordered.in_flight -= count as i64;
        cc.on_unordered_timeout(count * settings.full_packet());
    }
}
