//! Deadlocks under PFC: (port, class) pairs that wait for each other in a circle and can never send again.
//!
//! An egress queue is paused because its ingress account at the next switch is above XON; that account is held by
//! packets in the egress queues of that switch; if enough of them are paused for the same reason, and so on around, nothing
//! moves. The detector finds the largest set of paused slots each of which would stay above its resume level even if
//! everything outside the set drained: none of the set can ever move, whatever the rest of the network does (as long
//! as pauses are renewed in time and no watchdog or failure takes packets away). The set is empty unless there is a
//! circle (Dally and Seitz 1987: a cycle of channel dependencies, here one that is full); the circles in it are what is
//! reported, and everything else in it waits for one of them.
//! Looked for only while some class has been paused for the time given, so a run without long pauses pays nothing, and
//! once more at the end of the run.
//!
//! Nothing else stops a network for good. A port that is not paused sends; hosts drain what they get, slow ones too (their
//! rate is above zero), so what waits for a host moves on; a pause whose sender falls silent runs out with its quanta, one
//! whose link fails is over; what is bound for a dead link is lost and holds no buffer (that its flow does not go on is no
//! deadlock: [`crate::Network::links_down`]); and an ingress of a shared pool goes on at the latest when it is empty, so one that
//! never does holds packets in queues that never move.

use crate::frame::{Carried, Content, Packet};
use crate::ids::{SlotId, SwitchId};
use crate::observers::view::View;
use crate::partition::Partition;
use crate::switching::pool::Standing;
use crate::wire::ingress::Account;
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
#[derive(Debug)]
pub(crate) struct Detector {
    /// Looks when something has been paused for this long.
    after: Span,
    pub(crate) stops: bool,
    /// When it looks next.
    pub(crate) at: Option<Time>,
    /// The circles that stand, by their slots.
    standing: BTreeSet<Vec<SlotId>>,
    pub(crate) found: Vec<Deadlock>,
}

/// Bytes that the queue of a slot (second) holds of an ingress account, named by the slot that it is about (first).
type Holdings = BTreeMap<(SlotId, SlotId), u64>;

impl Detector {
    pub(crate) fn new(after: Span, stops: bool) -> Detector {
        Detector { after, stops, at: None, standing: BTreeSet::new(), found: Vec::new() }
    }

    /// A class was paused at `since`: look later whether it still is, and not before the traffic would `reaction`.
    pub(crate) fn observe(&mut self, since: Time, reaction: Span) {
        self.at.get_or_insert(self.check_delay(since, reaction));
    }

    /// When it looks because of a class that is paused at `since`.
    fn check_delay(&self, since: Time, reaction: Span) -> Time {
        since.saturating_add(self.after.max(reaction))
    }

    /// When it looks at the earliest if nothing is paused yet, and may be from `now` on.
    pub(crate) fn first_check(&self, now: Time, reaction: Span) -> Option<Time> {
        self.at.is_none().then(|| self.check_delay(now, reaction))
    }

    /// Time to look; true if a new deadlock was found. `is_over`: nothing but observation is pending.
    #[cold]
    pub(crate) fn look(&mut self, view: View, now: Time, is_over: bool) -> bool {
        self.at = None;
        let paused = view.paused_slots();
        let Some(oldest) = paused.iter().map(|slot| view.paused_since(*slot)).min() else {
            self.standing.clear();
            return false;
        };
        let due = oldest + self.after;
        let found = due <= now && self.look_at(view, &paused, now);
        if !is_over {
            self.at = Some(if due > now { due } else { now + self.after });
        }
        found
    }

    /// The run is over: what has stopped too late to have been found, or while nobody looked. Where a watchdog is there
    /// to break circles (`guarded`), only those that it was given the time for.
    pub(crate) fn finish_observation(&mut self, view: View, guarded: bool, now: Time) {
        let least = if guarded { self.after } else { Span::ZERO };
        let paused = view.paused_slots();
        let since = |slot: &SlotId| view.paused_since(*slot);
        if paused.iter().map(since).min().is_some_and(|oldest| oldest + least <= now) {
            self.look_at(view, &paused, now);
        }
    }

    fn look_at(&mut self, view: View, paused: &[SlotId], now: Time) -> bool {
        let held = view.held_in(paused);
        let stuck = view.stuck(paused, &held);
        let cycles = view.circles(&stuck, &held);
        let before = self.found.len();
        for cycle in &cycles {
            if !self.standing.contains(cycle) {
                let victims = (stuck.len() - cycle.len()) as u64;
                let cycle = cycle.iter().map(|slot| view.deadlocked_queue(*slot)).collect();
                self.found.push(Deadlock { found: now, cycle, victims });
            }
        }
        self.standing = cycles.into_iter().collect();
        self.found.len() > before
    }
}

impl View<'_> {
    fn paused_since(&self, slot: SlotId) -> Time {
        self.sender(self.plan.port_and_class(slot).0).ports.pauses[slot].since
    }

    /// The account of what a slot sends.
    fn account_of_slot(&self, slot: SlotId) -> Account {
        self.account(self.plan.port_and_class(slot).0, slot)
    }

    /// The switch at the other end of a port.
    fn switch_at(&self, port: PortId) -> Option<SwitchId> {
        self.plan.switch(self.plan.topology.peer(port))
    }

    /// The slots that a switch has asked to pause, and that obey.
    fn paused_slots(&self) -> Vec<SlotId> {
        let all = self.plan.ports().filter(|port| self.sender(*port).ports.ports[*port].paused != 0);
        let slots =
            all.flat_map(|port| (0..self.plan.priorities.len() as u8).map(move |class| (port, class)));
        slots
            .filter(|(port, class)| {
                self.sender(*port).ports.ports[*port].paused & 1 << class != 0
                    && self.switch_at(*port).is_some()
                    && self.account_of_slot(self.account_of(*port, *class)).pause_sent
            })
            .map(|(port, class)| self.plan.slot(port, class))
            .collect()
    }

    /// The ingress account of what `port` sends in `class`: that of class 0 where the whole link has one.
    fn account_of(&self, port: PortId, class: u8) -> SlotId {
        self.plan.slot(port, class & self.plan.account_mask)
    }

    /// What the queues of switches among `slots` hold, by the accounts that it is in: a packet may leave in another class
    /// than it came in.
    fn held_in(&self, slots: &[SlotId]) -> Holdings {
        let mut held = Holdings::new();
        for slot in slots {
            let (port, _) = self.plan.port_and_class(*slot);
            let Partition { ports, ctx, .. } = self.sender(port);
            if !ports.ports[port].from.is_switch() {
                continue;
            }
            for index in ports.slots[*slot].queue.iter(&ctx.packets) {
                let packet = &ctx.packets[index];
                if packet.ingress == PortId::NONE {
                    continue; // A CNM of this switch is in no account.
                }
                let from = self.account_of(packet.ingress, packet.ingress_class);
                *held.entry((from, *slot)).or_default() += u64::from(packet.size);
            }
        }
        held
    }

    /// The largest set of slots that stay above their resume level when all outside of it has drained.
    fn stuck(&self, paused: &[SlotId], held: &Holdings) -> BTreeSet<SlotId> {
        let mut set: BTreeSet<SlotId> = paused.iter().copied().collect();
        loop {
            let mut bytes: BTreeMap<SlotId, u64> = BTreeMap::new();
            for ((from, at), size) in held {
                if set.contains(at) {
                    *bytes.entry(*from).or_default() += size;
                }
            }
            let resumes = |slot: &SlotId| !self.stays_paused(*slot, &bytes);
            let free: Vec<SlotId> = set.iter().copied().filter(resumes).collect();
            if free.is_empty() {
                return set;
            }
            for slot in free {
                set.remove(&slot);
            }
        }
    }

    /// Whether a slot's account stays above its resume level when only `bytes` are left in the accounts.
    fn stays_paused(&self, slot: SlotId, bytes: &BTreeMap<SlotId, u64>) -> bool {
        let (port, class) = self.plan.port_and_class(slot);
        let account = self.account_of(port, class);
        let left = |account: &SlotId| bytes.get(account).copied().unwrap_or(0);
        let partition = self.receiver(port);
        if !partition.ctx.hot.shared {
            return left(&account) > self.account_of_slot(account).limits.xon;
        }
        // The headroom empties first.
        let standing = |account: &SlotId| {
            let Account { bytes, in_headroom, .. } = self.account_of_slot(*account);
            let gone = bytes.saturating_sub(left(account));
            Standing { bytes: left(account), in_headroom: in_headroom.saturating_sub(gone) }
        };
        let from_pool = |other: &SlotId| {
            let (Standing { bytes, in_headroom }, (_, class)) =
                (standing(other), self.plan.port_and_class(*other));
            (bytes - in_headroom).saturating_sub(self.plan.policies[usize::from(class)].reserved)
        };
        let switch = self.switch_at(port);
        let same_switch = |other: &&SlotId| self.switch_at(self.plan.port_and_class(**other).0) == switch;
        let used: u64 = bytes.keys().filter(same_switch).map(from_pool).sum();
        let class = self.plan.port_and_class(account).1;
        let pool = switch.map(|switch| &partition.switching.switches[switch].pools[self.plan.pool_of(class)]);
        let rule = self.shared_limits(port, account);
        pool.is_some_and(|pool| !rule.may_go_on(standing(&account), pool.free_of(used)))
    }

    /// The circles among the slots of `stuck`. With one account for the whole link, all slots of a link wait for the same:
    /// the circle is that of those that hold most.
    fn circles(&self, stuck: &BTreeSet<SlotId>, held: &Holdings) -> Vec<Vec<SlotId>> {
        if self.plan.account_mask != 0 {
            return cycles(stuck, held);
        }
        let mut of_slots = Holdings::new();
        for slot in stuck {
            let (port, class) = self.plan.port_and_class(*slot);
            let account = self.account_of(port, class);
            for ((_, at), bytes) in held.range((account, SlotId(0))..=(account, SlotId::NONE)) {
                of_slots.insert((*slot, *at), *bytes);
            }
        }
        cycles(stuck, &of_slots)
    }

    fn deadlocked_queue(&self, slot: SlotId) -> DeadlockedQueue {
        let (port, class) = self.plan.port_and_class(slot);
        let Partition { ports, ctx, .. } = self.sender(port);
        let waiting = ports.slots[slot].queue.iter(&ctx.packets);
        let packets: Vec<&Packet> = waiting.map(|index| &ctx.packets[index]).collect();
        let flow = |packet: &&Packet| match packet.content {
            Content::Segment(Carried { to, .. }) => Some(to / 2),
            _ => None,
        };
        let flows: BTreeSet<u32> = packets.iter().filter_map(flow).collect();
        DeadlockedQueue {
            port,
            priority: self.plan.priorities[usize::from(class)],
            since: self.paused_since(slot),
            packets: packets.len() as u64,
            bytes: packets.iter().map(|packet| u64::from(packet.size)).sum(),
            flows: flows.into_iter().collect(),
        }
    }
}

/// The circles that appear when each slot of `stuck` waits for the slot of it that holds most of its bytes. Each
/// slot of `stuck` has one, so there is a circle unless it is empty. Each begins with its smallest slot.
fn cycles(stuck: &BTreeSet<SlotId>, held: &Holdings) -> Vec<Vec<SlotId>> {
    let mut next: BTreeMap<SlotId, (u64, SlotId)> = BTreeMap::new();
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
        let (mut walk, mut slot) = (Vec::new(), *start);
        while seen.insert(slot) {
            walk.push(slot);
            match next.get(&slot) {
                Some((_, at)) => slot = *at,
                None => break,
            }
        }
        if let Some(first) = walk.iter().position(|walked| *walked == slot)
            && next.contains_key(&slot)
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
        let held: Holdings =
            [((9, 4), 10), ((4, 7), 10), ((4, 5), 3), ((7, 2), 1), ((2, 4), 1), ((5, 6), 8), ((6, 5), 8)]
                .into_iter()
                .map(|((from, at), bytes)| ((SlotId(from), SlotId(at)), bytes))
                .collect();
        let stuck = [2, 4, 5, 6, 7, 9].into_iter().map(SlotId).collect();
        assert_eq!(cycles(&stuck, &held), [[2, 4, 7].map(SlotId).to_vec(), [5, 6].map(SlotId).to_vec()]);
        assert!(cycles(&BTreeSet::new(), &held).is_empty());
    }
}
