//! Entropy values of packets, by which switches spread the packets of one queue pair: the choices of htsim (ultraethernet/uet-htsim 40ccb05,
//! `uec_mp.cpp`).

use pauseframe_schema::choices;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;

/// A value's largest penalty, and what each sign of trouble adds.
const PENALTY_MAX: u8 = 15;
const PENALTY_OF_MARK: u8 = 1;
const PENALTY_OF_NAK: u8 = 4;
/// Values that REPS remembers.
const RING: usize = 8;
/// How long REPS uses its values again and again after a timeout, and packets that then explore.
const FROZEN: Span = Span::from_ms(10);
const EXPLORERS: u32 = 16;

choices! {
    /// How a queue pair chooses the entropy value of each packet
    pub enum EntropyChoice {
        /// One value: all packets take one path
        None = "none",
        /// All values in turn, in a random order for each round
        Oblivious = "oblivious",
        /// The same, but values with marks, trimmed or lost packets are skipped for a while
        Bitmap = "bitmap",
        /// Values that came back without a mark, otherwise random ones
        Reps = "reps",
        /// A value that came back without a mark if there is one, otherwise as bitmap
        Mixed = "mixed",
    }
}

/// What happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feedback {
    Good,
    Marked,
    Trimmed,
    TimedOut,
}

/// A round through all values: each number of the round, combined with a random value by exclusive or.
#[derive(Clone, Debug)]
struct Round {
    index: u16,
    xor: u16,
}

/// The values that REPS has seen come back.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// Up to [`RING`], and whether each is still unused.
    values: Vec<(u8, bool)>,
    /// Place of the next value that comes back.
    head: usize,
    /// While frozen: until when, and the place of the next value to use again.
    frozen: Option<(Time, usize)>,
    explorers: u32,
}

impl Ring {
    /// A value has come back: it replaces the oldest one.
    fn add(&mut self, value: u8) {
        match self.values.get_mut(self.head) {
            Some(oldest) => *oldest = (value, true),
            None => self.values.push((value, true)),
        }
        self.head = (self.head + 1) % RING;
    }

    /// The oldest unused value; while frozen the next one, used or not.
    fn take(&mut self) -> Option<u8> {
        let count = self.values.len();
        let place = match &mut self.frozen {
            Some(_) if count == 0 => return None,
            Some((_, next)) => {
                let place = *next;
                *next = (place + 1) % count;
                place
            }
            None => (0..count).map(|age| (self.head + age) % count).find(|place| self.values[*place].1)?,
        };
        self.values[place].1 = false;
        Some(self.values[place].0)
    }
}

/// The choice of one queue pair.
#[derive(Clone, Debug)]
pub(crate) struct Entropy {
    choice: EntropyChoice,
    values: u16,
    random: u64,
    round: Round,
    penalties: Vec<u8>,
    ring: Ring,
    /// Of `mixed`: values that came back without a mark, oldest first.
    good: VecDeque<u8>,
    /// The values of packets that are not acknowledged, and the number of the first of them.
    sent: VecDeque<u8>,
    first: u64,
}

impl Entropy {
    /// `values`: a power of two up to 256. `None` if all packets take one path.
    pub(crate) fn new(choice: EntropyChoice, values: u16, seed: u64) -> Option<Box<Entropy>> {
        if choice == EntropyChoice::None {
            return None;
        }
        let mut entropy = Entropy {
            choice,
            values,
            random: seed,
            round: Round { index: 0, xor: 0 },
            penalties: vec![0; usize::from(values)],
            ring: Ring::default(),
            good: VecDeque::new(),
            sent: VecDeque::new(),
            first: 0,
        };
        entropy.round.xor = u16::from(entropy.any());
        Some(Box::new(entropy))
    }

    /// A random value (splitmix64: Steele, Lea, Flood, OOPSLA 2014).
    fn any(&mut self) -> u8 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) & u64::from(self.values - 1)) as u8
    }

    /// The value of the next packet.
    pub(crate) fn next(&mut self) -> u8 {
        match self.choice {
            EntropyChoice::None => 0,
            EntropyChoice::Oblivious => self.next_of_round(),
            EntropyChoice::Bitmap => self.next_without_penalty(),
            EntropyChoice::Reps => self.next_of_ring(),
            EntropyChoice::Mixed => self.good.pop_front().unwrap_or_else(|| self.next_without_penalty()),
        }
    }

    fn current(&self) -> u8 {
        (self.round.index ^ self.round.xor) as u8
    }

    fn advance_round(&mut self) {
        self.round.index += 1;
        if self.round.index == self.values {
            self.round = Round { index: 0, xor: u16::from(self.any()) };
        }
    }

    fn next_of_round(&mut self) -> u8 {
        let value = self.current();
        self.advance_round();
        value
    }

    /// Skips values with a penalty; the first one skipped for each packet loses one.
    fn next_without_penalty(&mut self) -> u8 {
        for skipped in 0..=self.values {
            let value = self.current();
            let penalty = &mut self.penalties[usize::from(value)];
            if *penalty == 0 {
                break;
            }
            if skipped == 0 {
                *penalty -= 1;
            }
            self.advance_round();
        }
        self.next_of_round()
    }

    fn next_of_ring(&mut self) -> u8 {
        if self.ring.explorers > 0 {
            self.ring.explorers -= 1;
            return self.any();
        }
        self.ring.take().unwrap_or_else(|| self.any())
    }

    /// What became of a packet with this value.
    pub(crate) fn learn(&mut self, value: u8, feedback: Feedback, now: Time) {
        let penalty = match feedback {
            Feedback::Good => 0,
            Feedback::Marked => PENALTY_OF_MARK,
            Feedback::Trimmed => PENALTY_OF_NAK,
            Feedback::TimedOut => PENALTY_MAX,
        };
        if let Some(of_value) = self.penalties.get_mut(usize::from(value)) {
            *of_value = (*of_value + penalty).min(PENALTY_MAX);
        }
        match self.choice {
            EntropyChoice::Mixed if feedback == Feedback::Good => self.good.push_back(value),
            EntropyChoice::Reps => self.learn_for_ring(value, feedback, now),
            _ => {}
        }
    }

    /// A timeout freezes the ring; what comes back goes on to replace its values.
    fn learn_for_ring(&mut self, value: u8, feedback: Feedback, now: Time) {
        if feedback == Feedback::TimedOut && self.ring.frozen.is_none() && self.ring.explorers == 0 {
            self.ring.frozen = Some((now + FROZEN, 0));
        }
        if self.ring.frozen.is_some_and(|(until, _)| now > until) {
            self.ring = Ring { explorers: EXPLORERS, ..Ring::default() };
        }
        if feedback == Feedback::Good {
            self.ring.add(value);
        }
    }

    /// A packet leaves with the value that it got.
    pub(super) fn remember(&mut self, number: u64, value: u8) {
        let place = (number - self.first) as usize;
        if place >= self.sent.len() {
            self.sent.resize(place + 1, value);
        }
        self.sent[place] = value;
    }

    /// Packets before this one are acknowledged.
    pub(super) fn forget_before(&mut self, number: u64) {
        self.sent.drain(..self.sent.len().min((number - self.first) as usize));
        self.first = number;
    }

    /// A packet has timed out.
    pub(super) fn learn_timeout(&mut self, number: u64, now: Time) {
        if let Some(value) = self.sent.get((number - self.first) as usize).copied() {
            self.learn(value, Feedback::TimedOut, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(choice: EntropyChoice) -> Box<Entropy> {
        Entropy::new(choice, 64, 7).expect("a choice")
    }

    /// Each round has all values once, each in another order.
    #[test]
    fn oblivious_walks_all_values() {
        let mut entropy = of(EntropyChoice::Oblivious);
        let rounds: Vec<Vec<u8>> = (0..3).map(|_| (0..64).map(|_| entropy.next()).collect()).collect();
        for round in &rounds {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 64);
        }
        assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2]);
    }

    /// A value with a penalty of n is skipped n times, one for each packet that meets it first.
    #[test]
    fn bitmap_skips_values_until_their_penalty_is_gone() {
        for (feedback, skips) in [(Feedback::Marked, 1), (Feedback::Trimmed, 4), (Feedback::TimedOut, 15)] {
            let mut entropy = of(EntropyChoice::Bitmap);
            entropy.learn(5, feedback, Time::ZERO);
            let values: Vec<u8> = (0..64 * 20).map(|_| entropy.next()).collect();
            // 64 values a round, of which a skipped one makes room for the next.
            let first = values.iter().position(|value| *value == 5).expect("it comes back");
            assert!(first > 63 * skips && first <= 64 * (skips + 1), "{feedback:?}: {first}");
        }
        // If all have a penalty, packets still go.
        let mut entropy = of(EntropyChoice::Bitmap);
        (0..64).for_each(|value| entropy.learn(value, Feedback::TimedOut, Time::ZERO));
        assert!((0..100).all(|_| entropy.next() < 64));
    }

    #[test]
    fn reps_uses_values_that_came_back_once_each() {
        let mut entropy = of(EntropyChoice::Reps);
        (10..20).for_each(|value| entropy.learn(value, Feedback::Good, Time::ZERO));
        entropy.learn(30, Feedback::Marked, Time::ZERO);
        let values: Vec<u8> = (0..8).map(|_| entropy.next()).collect();
        assert_eq!(values, (12..20).collect::<Vec<u8>>(), "the last eight, oldest first");
        let random: BTreeSet<u8> = (0..200).map(|_| entropy.next()).collect();
        assert!(random.len() > 40, "then random ones");
    }

    /// After a timeout the values in the ring serve again and again, and new ones replace the oldest. The first answer after 10 ms ends this: 16
    /// packets explore.
    #[test]
    fn a_timeout_freezes_the_ring_of_reps() {
        let mut entropy = of(EntropyChoice::Reps);
        (1..4).for_each(|value| entropy.learn(value, Feedback::Good, Time::ZERO));
        entropy.learn(9, Feedback::TimedOut, Time::ZERO);
        let end = Time::ZERO + Span::from_ms(10);
        let next = |entropy: &mut Entropy, count| (0..count).map(|_| entropy.next()).collect::<Vec<_>>();
        assert_eq!(next(&mut entropy, 7), [1, 2, 3, 1, 2, 3, 1]);
        (4..10).for_each(|value| entropy.learn(value, Feedback::Good, end));
        assert_eq!(next(&mut entropy, 9), [2, 3, 4, 5, 6, 7, 8, 9, 2], "9 has replaced 1");
        entropy.learn(50, Feedback::Marked, end);
        assert_eq!(next(&mut entropy, 2), [3, 4], "until an answer after 10 ms");
        entropy.learn(50, Feedback::Good, Time(end.0 + 1));
        let explored: BTreeSet<u8> = next(&mut entropy, EXPLORERS).into_iter().collect();
        assert!(explored.len() > 8, "they explore: {explored:?}");
        assert_eq!(next(&mut entropy, 1), [50], "then what came back");
    }

    #[test]
    fn mixed_prefers_values_that_came_back() {
        let mut entropy = of(EntropyChoice::Mixed);
        for value in [3, 4, 3] {
            entropy.learn(value, Feedback::Good, Time::ZERO);
        }
        entropy.learn(5, Feedback::TimedOut, Time::ZERO);
        assert_eq!([0, 1, 2].map(|_| entropy.next()), [3, 4, 3]);
        let round: BTreeSet<u8> = (0..63).map(|_| entropy.next()).collect();
        assert!(!round.contains(&5));
    }

    #[test]
    fn values_of_acknowledged_packets_are_forgotten() {
        let mut entropy = of(EntropyChoice::Bitmap);
        (0..4).for_each(|number| entropy.remember(number, 10 + number as u8));
        entropy.forget_before(2);
        assert_eq!((entropy.first, entropy.sent), (2, VecDeque::from([12, 13])));
    }
}
