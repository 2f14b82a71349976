//! Which class a port serves next: strict priorities, or enhanced transmission selection (IEEE 802.1Qaz, now IEEE 802.1Q
//! clause 37).
//!
//! ETS: the priorities that belong to no group are strict and go first, the highest before the others. What they leave is shared by the groups
//! (traffic classes) in proportion to their percentages, by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): a group whose turn begins
//! gets its quantum, sends while its deficit covers the next packet, and keeps the rest; an empty group keeps nothing. A paused priority counts as
//! empty: it is skipped, and a group whose priorities are all paused loses its deficit. Within a group the packet that has waited longest goes first,
//! as in the single queue of a traffic class. Non-preemptive. Left out: the credit-based shaper (802.1Qav), and the 802.1Qaz tolerance of 10 %:
//! shares are exact over whole rounds.

use crate::settings::DualTorSettings;
use crate::settings::EtsGroup;
use crate::settings::Settings;
use pauseframe_units::{IndexVec, PortId, Priority, Time};

/// The ETS configuration that all ports share.
#[derive(Clone, Debug)]
pub(crate) struct EtsScheduler {
    groups: Vec<EtsBandwidthGroup>,
    /// Classes above the groups, a bit each.
    strict: u8,
}

#[derive(Clone, Copy, Debug)]
struct EtsBandwidthGroup {
    /// A bit for each class.
    classes: u8,
    /// Bytes that a turn adds to the deficit.
    quantum: u32,
}

/// Deficit round robin state of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DrrState {
    /// Deficit by group, bytes.
    deficit: [u32; Priority::COUNT],
    current: u8,
    /// The current group has had its quantum.
    begun: bool,
}

/// The next packet of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NextPacketOfClass {
    /// Bytes on the wire.
    pub(super) size: u32,
    /// When it started to wait.
    pub(super) since: Time,
    /// It is the only waiting packet of its class.
    pub(super) is_last: bool,
}

impl DrrState {
    /// The state of every port; empty without ETS.
    pub(crate) fn by_port(
        settings: &Settings,
        priorities: &[Priority],
        ports: usize,
    ) -> IndexVec<PortId, DrrState> {
        let needed = !settings.scheduler.groups_in_use(priorities).is_empty();
        IndexVec::filled(DrrState::default(), if needed { ports } else { 0 })
    }
}

impl EtsScheduler {
    /// The ETS scheduler of `settings` for the classes of `priorities`; `None` without ETS.
    pub(crate) fn from_settings(settings: &Settings, priorities: &[Priority]) -> Option<EtsScheduler> {
        let groups = settings.scheduler.groups_in_use(priorities);
        if groups.is_empty() {
            return None;
        }
        let frames = priorities.iter().map(|priority| settings.overhead.frame_size(settings.mtu, *priority));
        let tunnel = settings.dual_tor.as_ref().map_or(0, |_| DualTorSettings::HEADER_BYTES);
        let max_frame = frames.max().unwrap_or(settings.mtu) + settings.overhead.gap + tunnel;
        Some(EtsScheduler::new(&groups, priorities, max_frame))
    }

    /// The shares of `groups` among the classes of `priorities`, for frames of at most `max_frame` bytes on the wire.
    fn new(groups: &[&EtsGroup], priorities: &[Priority], max_frame: u32) -> EtsScheduler {
        // The smallest quantum is a full frame: then a turn never passes without one (Shreedhar and Varghese, §3).
        let least = groups.iter().map(|group| u32::from(group.share.max(1))).min().unwrap_or(1);
        let unit = max_frame.div_ceil(least);
        let bit = |priority: &Priority| {
            priorities.iter().position(|known| known == priority).map_or(0, |class| 1u8 << class)
        };
        let group = |group: &&EtsGroup| EtsBandwidthGroup {
            classes: group.priorities.iter().map(bit).fold(0, |set, bit| set | bit),
            quantum: u32::from(group.share.max(1)) * unit,
        };
        let groups: Vec<EtsBandwidthGroup> =
            groups.iter().map(group).filter(|group| group.classes != 0).collect();
        let grouped = groups.iter().fold(0, |set, group| set | group.classes);
        EtsScheduler { groups, strict: !grouped }
    }

    /// The class to serve among `startable` (a bit each, at least one). `candidate` returns the next packet of a class.
    pub(crate) fn choose_class(
        &self,
        turns: &mut DrrState,
        startable: u8,
        candidate: impl Fn(u8) -> NextPacketOfClass,
    ) -> u8 {
        for (group, deficit) in self.groups.iter().zip(&mut turns.deficit) {
            if group.classes & startable == 0 {
                *deficit = 0;
            }
        }
        let strict = startable & self.strict;
        if strict != 0 {
            return strict.ilog2() as u8;
        }
        loop {
            let number = usize::from(turns.current);
            let group = self.groups[number];
            let waiting = group.classes & startable;
            if waiting != 0 {
                if !turns.begun {
                    turns.begun = true;
                    turns.deficit[number] += group.quantum;
                }
                let class = longest_waiting_class(waiting, &candidate);
                let NextPacketOfClass { size, is_last, .. } = candidate(class);
                if size <= turns.deficit[number] {
                    turns.deficit[number] -= size;
                    if is_last && waiting == 1 << class {
                        turns.deficit[number] = 0;
                        self.pass_turn(turns);
                    }
                    return class;
                }
            }
            self.pass_turn(turns);
        }
    }

    fn pass_turn(&self, turns: &mut DrrState) {
        turns.current = (turns.current + 1) % self.groups.len() as u8;
        turns.begun = false;
    }
}

/// Of `classes`, the one whose packet arrived first; the highest of equal ones.
fn longest_waiting_class(classes: u8, candidate: &impl Fn(u8) -> NextPacketOfClass) -> u8 {
    let among = (0..8u8).rev().filter(|class| classes & 1 << class != 0);
    among.min_by_key(|class| candidate(*class).since).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn priority(code_point: u8) -> Priority {
        Priority::new(code_point).expect("one of eight")
    }

    fn group(priorities: &[u8], share: u8) -> EtsGroup {
        EtsGroup { priorities: priorities.iter().copied().map(priority).collect(), share }
    }

    fn all() -> Vec<Priority> {
        (0..8).map(priority).collect()
    }

    /// Queues of (size, arrival) by class, and a port that serves them.
    struct Bench {
        ets: EtsScheduler,
        turns: DrrState,
        queues: [VecDeque<(u32, u64)>; 8],
        paused: u8,
    }

    impl Bench {
        fn new(groups: &[EtsGroup], max_frame: u32) -> Bench {
            let ets = EtsScheduler::new(&groups.iter().collect::<Vec<_>>(), &all(), max_frame);
            Bench { ets, turns: DrrState::default(), queues: Default::default(), paused: 0 }
        }

        fn fill(&mut self, class: usize, size: u32, count: usize) {
            self.queues[class].extend((0..count as u64).map(|i| (size, i)));
        }

        fn serve(&mut self) -> Option<(u8, u32)> {
            let ready = (0..8).filter(|class| !self.queues[*class].is_empty());
            let startable = ready.fold(0, |set, class| set | 1 << class) & !self.paused;
            if startable == 0 {
                return None;
            }
            let queues = &self.queues;
            let class = self.ets.choose_class(&mut self.turns, startable, |class| {
                let queue = &queues[usize::from(class)];
                let (size, since) = queue[0];
                NextPacketOfClass { size, since: Time(since), is_last: queue.len() == 1 }
            });
            let (size, _) = self.queues[usize::from(class)].pop_front()?;
            Some((class, size))
        }

        fn classes(&mut self, count: usize) -> Vec<u8> {
            (0..count).filter_map(|_| self.serve().map(|(class, _)| class)).collect()
        }
    }

    /// Quanta 300 and 100 of frames of at most 100: worked out by hand.
    #[test]
    fn a_sequence_by_hand() {
        let mut bench = Bench::new(&[group(&[1], 75), group(&[0], 25)], 100);
        bench.fill(1, 100, 7);
        bench.fill(0, 80, 7);
        // Group 1: 300, three packets. Group 0: 100, one of 80, keeps 20. Again; group 0 has 120, one, keeps 40. Group 1
        // has one left, and then nothing: 140, one, keeps 60; 160, two; and alone.
        assert_eq!(bench.classes(20), [1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_deficit_is_kept_for_a_packet_that_does_not_fit() {
        // Quantum 100 each; frames of 70 against frames of 100.
        let mut bench = Bench::new(&[group(&[1], 50), group(&[0], 50)], 100);
        bench.fill(1, 70, 20);
        bench.fill(0, 100, 20);
        // 1: 100 -> 30; 130 -> 60; 160 -> 90 -> 20; 120 -> 50; 150 -> 80 -> 10; 110 -> 40; 140 -> 70 -> 0; as at the start.
        assert_eq!(bench.classes(17), [1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0]);
    }

    #[test]
    fn strict_priorities_go_first_and_the_highest_of_them_before_the_others() {
        let mut bench = Bench::new(&[group(&[0], 50), group(&[7], 50)], 100);
        bench.fill(0, 100, 3);
        bench.fill(7, 100, 3);
        bench.fill(3, 100, 2);
        bench.fill(5, 100, 1);
        assert_eq!(bench.classes(9), [5, 3, 3, 0, 7, 0, 7, 0, 7]);
    }

    #[test]
    fn within_a_group_the_first_to_come_goes_first() {
        let mut bench = Bench::new(&[group(&[0, 2, 4], 100)], 100);
        bench.queues[0].extend([(50, 3), (50, 4)]);
        bench.queues[2].extend([(50, 1), (50, 5)]);
        bench.queues[4].extend([(50, 3)]);
        assert_eq!(bench.classes(9), [2, 4, 0, 0, 2]);
    }

    #[test]
    fn a_paused_group_is_skipped_and_saves_nothing() {
        let mut bench = Bench::new(&[group(&[1], 50), group(&[0], 50)], 100);
        bench.fill(1, 60, 1000);
        bench.fill(0, 60, 1000);
        bench.paused = 1 << 1;
        assert_eq!(bench.classes(100), [0; 100]);
        bench.paused = 0;
        // Had it saved its quanta, class 1 would now send a hundred packets in a row.
        let after = bench.classes(100);
        let longest = after.chunk_by(|a, b| a == b).map(<[u8]>::len).max();
        assert!(longest <= Some(2), "{after:?}");
        // Paused in the middle of its turn, it loses what is left of it.
        bench.turns = DrrState { deficit: [90, 0, 0, 0, 0, 0, 0, 0], current: 0, begun: true };
        bench.paused = 1 << 1;
        assert_eq!(bench.classes(1), [0]);
        assert_eq!(bench.turns.deficit[0], 0);
        // With everything paused nothing moves.
        bench.paused = 3;
        assert_eq!(bench.serve(), None);
    }

    #[test]
    fn an_empty_group_saves_nothing() {
        let mut bench = Bench::new(&[group(&[1], 80), group(&[0], 20)], 100);
        bench.fill(0, 100, 50);
        bench.fill(1, 100, 1);
        bench.classes(20);
        assert_eq!(bench.turns.deficit[0], 0);
        bench.fill(1, 100, 20);
        // Eight tenths of a round of five packets, not more.
        let after = bench.classes(20);
        let first: u8 = after.iter().sum();
        assert!(first <= 16, "{after:?}");
    }

    /// Shares within 1 % over 1000 packets, for random sizes and shares.
    #[test]
    fn backlogged_groups_have_their_shares() {
        let mut rng = pauseframe_engine::random_stream(1, "ets", 0);
        for round in 0..64 {
            let first = 1 + rng.uniform_below(98) as u8;
            let second = 1 + rng.uniform_below(u64::from(99 - first)) as u8;
            let shares = [first, second, 100 - first - second];
            let groups: Vec<_> =
                shares.iter().enumerate().map(|(class, share)| group(&[class as u8], *share)).collect();
            let mut bench = Bench::new(&groups, 1538);
            for class in 0..3 {
                bench.queues[class].extend((0..1000).map(|i| (84 + rng.uniform_below(1455) as u32, i)));
            }
            let (mut sent, mut packets) = ([0u64; 3], 0);
            // Whole rounds: a round is at most 100 / 1 of the smallest quantum.
            while packets < 1000 && bench.queues.iter().take(3).all(|queue| !queue.is_empty()) {
                let (class, size) = bench.serve().expect("all are backlogged");
                sent[usize::from(class)] += u64::from(size);
                packets += 1;
            }
            let total: u64 = sent.iter().sum();
            let unit = 1538_u32.div_ceil(u32::from(*shares.iter().min().expect("three")));
            for (class, share) in shares.iter().enumerate() {
                let off = sent[class] as f64 - total as f64 * f64::from(*share) / 100.0;
                // DRR's bound: less than a quantum of a round that is under way, and a frame.
                let bound = f64::from(unit * u32::from(*share) + 2 * 1538);
                assert!(off.abs() <= bound, "round {round}, {shares:?}: {sent:?}, {off} over {bound}");
                if unit * 100 < 30_000 {
                    let part = sent[class] as f64 / total as f64;
                    assert!((part - f64::from(*share) / 100.0).abs() < 0.01, "{shares:?}: {sent:?}");
                }
            }
        }
    }

    /// Shreedhar and Varghese, §3: the smallest quantum is a full frame with its tag, its gap and, with mux cables, the outer
    /// header of a tunnel, so that no turn passes without a frame.
    #[test]
    fn the_smallest_quantum_is_the_largest_frame_on_the_wire() {
        use crate::settings::{Ets, Scheduler};
        let scheduler = Scheduler::Ets(Ets { groups: vec![group(&[1], 99), group(&[0], 1)] });
        let base = Settings { scheduler, ..crate::common::settings(crate::common::config()) };
        for (dual_tor, quantum) in [(None, 1500 + 18 + 4 + 20), (Some(DualTorSettings::new()), 1542 + 20)] {
            let settings = Settings { dual_tor, ..base.clone() };
            let ets = EtsScheduler::from_settings(&settings, &all()).expect("it has groups");
            let quanta: Vec<u32> = ets.groups.iter().map(|group| group.quantum).collect();
            assert_eq!(quanta, [99 * quantum, quantum]);
        }
    }
}
