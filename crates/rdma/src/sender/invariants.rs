//! The rules of the requester that a recount checks (`crate::invariants`).

use super::Sender;
use crate::packet::HALF_OF_PSNS;
use crate::queue_pair::QueuePairSettings;
use pauseframe_units::{Time, first_broken};

impl Sender {
    /// The first packet that is not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// What contradicts itself here.
    pub(crate) fn contradiction(&self, settings: &QueuePairSettings) -> Option<String> {
        let Sender { unacknowledged, next, highest, end, .. } = *self;
        let in_flight = unacknowledged..highest;
        let sent = self.sent_at.len() as u64;
        first_broken(&[
            (unacknowledged <= next, "the next packet is acknowledged"),
            (next <= highest, "the next packet is beyond the last one sent"),
            (highest <= end, "more is sent than was posted"),
            (
                highest.saturating_sub(unacknowledged) <= HALF_OF_PSNS,
                "more is in flight than PSNs can tell apart",
            ),
            // The response to a READ has the time of its first packet alone.
            (
                sent == highest.saturating_sub(unacknowledged)
                    || self.reads.has_been_used() && sent <= highest.saturating_sub(unacknowledged),
                "the times of packets differ from those in flight",
            ),
            (
                self.has_row_of_messages(),
                "the messages are no row from the first unacknowledged packet to the last",
            ),
            (
                self.selected.iter().all(|number| in_flight.contains(number)),
                "a packet that has arrived beyond a gap is not in flight",
            ),
            (
                self.reads.early.iter().all(|number| in_flight.contains(number)),
                "a response that has arrived beyond a gap is not under way",
            ),
            (
                self.unordered
                    .lost
                    .keys()
                    .all(|number| in_flight.contains(number) && !self.selected.contains(number)),
                "a packet is lost that is not in flight",
            ),
            (
                self.failure.is_some() || unacknowledged >= next || self.timer_at != Time::MAX,
                "packets are in flight without a timer",
            ),
            (settings.unordered || self.unordered.in_flight == 0, "it counts packets of unordered delivery"),
        ])
    }

    fn has_row_of_messages(&self) -> bool {
        let Some(first) = self.messages.front() else { return self.unacknowledged == self.end };
        let in_row = self.messages.iter().zip(self.messages.iter().skip(1)).all(|(a, b)| a.end == b.first);
        let last = self.messages.back().is_some_and(|last| last.end == self.end);
        in_row && last && (first.first..=first.end).contains(&self.unacknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cause;
    use super::*;
    use crate::queue_pair::QueuePair;

    /// A requester with four packets in flight, the second of which is known to have arrived.
    fn half_way() -> (Sender, QueuePairSettings) {
        let settings = QueuePairSettings {
            mtu: 1000,
            line: 100_000_000_000,
            selective_repeat: true,
            ..QueuePairSettings::default()
        };
        let mut pair = QueuePair::new(settings);
        pair.send(10 * u64::from(settings.mtu));
        let mut now = Time(1);
        for _ in 0..4 {
            while pair.poll_data(now).is_none() {
                now = Time(now.0 + 1_000_000);
            }
        }
        let mut sender = pair.into_sender();
        sender.selected.insert(1);
        (sender, settings)
    }

    type Falsify = fn(&mut Sender);

    #[test]
    fn each_rule_finds_its_contradiction() {
        let break_it: [(&str, Falsify); 12] = [
            ("the next packet is acknowledged", |sender| sender.unacknowledged = sender.next + 1),
            ("beyond the last one sent", |sender| sender.next = sender.highest + 1),
            ("more is sent than was posted", |sender| sender.end = sender.highest - 1),
            ("PSNs can tell apart", |sender| {
                (sender.highest, sender.end) = (HALF_OF_PSNS + 1, HALF_OF_PSNS + 2);
            }),
            ("the times of packets", |sender| sender.sent_at.truncate(2)),
            ("the messages are no row", |sender| sender.messages[0].end -= 1),
            ("the messages are no row", |sender| sender.messages.clear()),
            ("beyond a gap is not in flight", |sender| {
                sender.selected.insert(4);
            }),
            ("beyond a gap is not under way", |sender| {
                sender.reads.early.insert(4);
            }),
            ("a packet is lost", |sender| {
                sender.unordered.lost.insert(1, Cause::Nak);
            }),
            ("without a timer", |sender| sender.timer_at = Time::MAX),
            ("unordered delivery", |sender| sender.unordered.in_flight = 1),
        ];
        for (rule, falsify) in break_it {
            let (mut sender, settings) = half_way();
            assert_eq!(sender.contradiction(&settings), None);
            falsify(&mut sender);
            let found = sender.contradiction(&settings).expect(rule);
            assert!(found.contains(rule), "{rule}: {found}");
        }
    }
}
