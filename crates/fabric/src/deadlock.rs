//! Deadlocks under PFC: (port, class) pairs that wait for each other in a circle and can never send again.
//!
//! An egress queue is paused because the ingress account of the next switch is above XON; that account is held by
//! packets in the egress queues of that switch; if enough of them are paused for the same reason, and so on around, nothing
//! moves. The detector finds the largest set of paused lanes each of which would stay above its resume level even if
//! everything outside the set drained: none of the set can ever move, whatever the rest of the network does (as long
//! as pauses are renewed in time and no watchdog or failure takes packets away). The set is empty unless there is a
//! circle (Dally and Seitz 1987: a cycle of channel dependencies, here one that is full); the circles in it are what is
//! reported, and everything else in it waits for one of them.
//! Looked for only while some class has been paused for the time given, so a run without long pauses pays nothing.

use crate::class::ClassPolicy;
use crate::event::Event;
use crate::network::Network;
use crate::packet::{Kind, NIL};
use crate::settings::BufferPolicy;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Priority, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// One queue of a circle, and the next one waits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockedQueue {
    /// The egress port that is paused.
    pub port: PortId,
    /// Its priority.
    pub priority: Priority,
    /// Paused since.
    pub since: Time,
    /// Packets that wait here.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The flows that they belong to, ascending.
    pub flows: Vec<u32>,
}

/// A circle of queues of which none can move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deadlock {
    /// When it was found.
    pub found: Time,
    /// Each waits for the next, the last for the first.
    pub cycle: Vec<DeadlockedQueue>,
    /// How many further queues (hosts' included) wait for this or another circle.
    pub victims: u64,
}

impl Deadlock {
    /// When the circle closed: the last of its queues was paused.
    pub fn since(&self) -> Time {
        self.cycle.iter().map(|queue| queue.since).max().unwrap_or(self.found)
    }
}

/// The detector.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    /// Looks when something has been paused for this long; `None`: never.
    after: Option<Span>,
    stops: bool,
    is_pending: bool,
    /// The circles that stand, by their lanes.
    standing: BTreeSet<Vec<u32>>,
    found: Vec<Deadlock>,
}

/// Bytes that a queue (second) holds of what came by a lane (first).
type Held = BTreeMap<(u32, u32), u64>;

impl Network {
    /// Looks for deadlocks whenever a class has been paused for `after`; `stops`: the run ends at the first.
    pub fn detect_deadlocks(&mut self, after: Span, stops: bool) {
        self.detector = Detector { after: Some(after), stops, ..Detector::default() };
    }

    /// The deadlocks found so far.
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.detector.found
    }

    /// A class has just been paused: look later whether it still is.
    pub(crate) fn watch_for_deadlock(&mut self, now: Time, queue: &mut EventQueue) {
        if let (Some(after), false) = (self.detector.after, self.detector.is_pending) {
            self.detector.is_pending = true;
            queue.push(now + after, Event::Detect.code());
        }
    }

    /// Time to look.
    #[cold]
    pub(crate) fn on_detect(&mut self, now: Time, queue: &mut EventQueue) {
        self.detector.is_pending = false;
        let Some(after) = self.detector.after else { return };
        let paused = self.paused_lanes();
        let Some(oldest) = paused.iter().map(|lane| self.pauses[*lane as usize].since).min() else {
            self.detector.standing.clear();
            return;
        };
        let due = oldest + after;
        if due <= now {
            self.look_for_deadlocks(&paused, now);
        }
        self.detector.is_pending = true;
        queue.push(if due > now { due } else { now + after }, Event::Detect.code());
    }

    /// The lanes that a switch has asked to pause, and that obey.
    fn paused_lanes(&self) -> Vec<u32> {
        let all = self.ports.ids().filter(|port| self.ports[*port].paused != 0);
        let lanes = all.flat_map(|port| (0..self.priorities.len() as u8).map(move |class| (port, class)));
        lanes
            .filter(|(port, class)| {
                let state = &self.ports[*port];
                state.paused & 1 << class != 0
                    && state.to_switch != NIL
                    && self.lanes[self.lane_index(*port, *class)].pause_sent
            })
            .map(|(port, class)| self.lane_index(port, class) as u32)
            .collect()
    }

    fn look_for_deadlocks(&mut self, paused: &[u32], now: Time) {
        let held = self.held_in(paused);
        let stuck = self.stuck(paused, &held);
        let cycles = cycles(&stuck, &held);
        for cycle in &cycles {
            if !self.detector.standing.contains(cycle) {
                let victims = (stuck.len() - cycle.len()) as u64;
                let cycle = cycle.iter().map(|lane| self.deadlocked_queue(*lane)).collect();
                self.detector.found.push(Deadlock { found: now, cycle, victims });
                if self.detector.stops {
                    self.stop();
                }
            }
        }
        self.detector.standing = cycles.into_iter().collect();
    }

    /// What the queues of switches among `lanes` hold, by the lanes that it came by.
    fn held_in(&self, lanes: &[u32]) -> Held {
        let mut held = Held::new();
        for lane in lanes {
            let (port, class) = self.port_and_class(*lane);
            if self.ports[port].from_host != NIL {
                continue;
            }
            for index in self.packets.chain(self.lanes[*lane as usize].queue) {
                let packet = &self.packets[index];
                let from = self.lane_index(packet.ingress, class) as u32;
                *held.entry((from, *lane)).or_default() += u64::from(packet.size);
            }
        }
        held
    }

    /// The largest set of lanes that stay above their resume level when all outside of it has drained.
    fn stuck(&self, paused: &[u32], held: &Held) -> BTreeSet<u32> {
        let mut set: BTreeSet<u32> = paused.iter().copied().collect();
        loop {
            let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
            for ((from, at), size) in held {
                if set.contains(at) {
                    *bytes.entry(*from).or_default() += size;
                }
            }
            let resumes = |lane: &u32| !self.stays_paused(*lane, &bytes);
            let free: Vec<u32> = set.iter().copied().filter(resumes).collect();
            if free.is_empty() {
                return set;
            }
            for lane in free {
                set.remove(&lane);
            }
        }
    }

    /// Whether a lane's account stays above its resume level when only `bytes` are left in the accounts.
    fn stays_paused(&self, lane: u32, bytes: &BTreeMap<u32, u64>) -> bool {
        let left = |lane: u32| bytes.get(&lane).copied().unwrap_or(0);
        let limits = self.thresholds[lane as usize];
        if !matches!(self.settings.buffer, BufferPolicy::Shared { .. }) {
            return left(lane) > u64::from(limits.xon);
        }
        let (port, class) = self.port_and_class(lane);
        let ClassPolicy { alpha, reserved, .. } = self.policies[usize::from(class)];
        // As in `resume_if_low`; the headroom empties first.
        let in_headroom = |lane: u32| {
            let account = &self.lanes[lane as usize];
            let gone = u64::from(account.ingress).saturating_sub(left(lane));
            u64::from(account.in_headroom).saturating_sub(gone)
        };
        let beyond = |lane: u32| (left(lane) - in_headroom(lane)).saturating_sub(reserved);
        let switch = self.topology.peer(port);
        let same_switch = |other: &&u32| self.topology.peer(self.port_and_class(**other).0) == switch;
        let used: u64 = bytes.keys().filter(same_switch).map(|other| beyond(*other)).sum();
        let pools = &self.switches[self.ports[port].to_switch as usize].pools;
        let free = pools[self.pool_of(class)].free_of(used);
        let hysteresis = u64::from(limits.xoff - limits.xon);
        let threshold = ((alpha * free as f64) as u64).min(u64::from(limits.xoff)).saturating_sub(hysteresis);
        in_headroom(lane) > 0 || left(lane).saturating_sub(reserved) > threshold
    }

    fn deadlocked_queue(&self, lane: u32) -> DeadlockedQueue {
        let (port, class) = self.port_and_class(lane);
        let packets: Vec<_> = self.packets.chain(self.lanes[lane as usize].queue).collect();
        let data = packets.iter().map(|index| &self.packets[*index]).filter(|p| p.kind == Kind::Data);
        let flows: BTreeSet<u32> = data.map(|packet| packet.to / 2).collect();
        DeadlockedQueue {
            port,
            priority: self.priorities[usize::from(class)],
            since: self.pauses[lane as usize].since,
            packets: packets.len() as u64,
            bytes: packets.iter().map(|index| u64::from(self.packets[*index].size)).sum(),
            flows: flows.into_iter().collect(),
        }
    }
}

/// The circles that appear when each lane of `stuck` waits for the lane of it that holds most of its bytes. Each
/// lane of `stuck` has one, so there is a circle unless it is empty. Each begins with its smallest lane.
fn cycles(stuck: &BTreeSet<u32>, held: &Held) -> Vec<Vec<u32>> {
    let mut next: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for ((from, at), bytes) in
        held.iter().filter(|((from, at), _)| stuck.contains(from) && stuck.contains(at))
    {
        let most = next.entry(*from).or_insert((*bytes, *at));
        if *bytes > most.0 {
            *most = (*bytes, *at);
        }
    }
    let (mut seen, mut cycles) = (BTreeSet::new(), Vec::new());
    for start in stuck {
        let (mut walk, mut lane) = (Vec::new(), *start);
        while seen.insert(lane) {
            walk.push(lane);
            match next.get(&lane) {
                Some((_, at)) => lane = *at,
                None => break,
            }
        }
        if let Some(first) = walk.iter().position(|walked| *walked == lane)
            && next.contains_key(&lane)
        {
            let mut cycle = walk.split_off(first);
            let smallest = (0..cycle.len()).min_by_key(|i| cycle[*i]).unwrap_or(0);
            cycle.rotate_left(smallest);
            cycles.push(cycle);
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_from_anywhere_and_once() {
        // 9 → 4 → 7 → 2 → 4 and, apart, 5 → 6 → 5; 4 also waits for 5, for fewer bytes.
        let held: Held =
            [((9, 4), 10), ((4, 7), 10), ((4, 5), 3), ((7, 2), 1), ((2, 4), 1), ((5, 6), 8), ((6, 5), 8)]
                .into_iter()
                .collect();
        let stuck = [2, 4, 5, 6, 7, 9].into_iter().collect();
        assert_eq!(cycles(&stuck, &held), [vec![2, 4, 7], vec![5, 6]]);
        assert!(cycles(&BTreeSet::new(), &held).is_empty());
    }
}
