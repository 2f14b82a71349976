//! PFC deadlocks: (port, class) pairs that wait for each other in a cycle and can never send again.
//!
//! An egress queue is paused because its ingress account at the next switch is above XON. Packets in the egress queues of that switch hold this
//! account. If enough of these queues are paused for the same reason, around a cycle, nothing moves. The detector finds the largest set of paused
//! slots each of which would stay above its resume level even if everything outside the set drained: none of the set can ever move, whatever the rest
//! of the network does (as long as pauses are renewed in time and no watchdog or failure takes packets away). The set is empty unless the network has a
//! cycle (Dally and Seitz 1987: a cycle of channel dependencies, here one with full buffers). The detector reports the cycles; everything else in the
//! set waits for one of them. It runs only while some class has been paused for a configured time, so runs without long pauses pay nothing, and once
//! at the end of the run.
//!
//! Nothing else stops a network for good. A port that is not paused sends; hosts drain what they get, slow ones too (their
//! rate is above zero), so what waits for a host moves on; a pause whose sender falls silent runs out with its quanta, one
//! whose link fails is over; what is bound for a dead link is lost and holds no buffer (that its flow does not go on is no
//! deadlock: [`crate::Network::failed_links`]); and an ingress of a shared pool goes on at the latest when it is empty, so one that
//! never does holds packets in queues that never move.

use crate::frame::{CompactTcpSegment, FrameContent, Packet};
use crate::ids::{SlotId, SwitchId};
use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::switching::pool::IngressOccupancy;
use crate::wire::ingress::IngressAccount;
use pauseframe_units::{PortId, Priority, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// One queue of a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockedQueue {
    /// The egress port that is paused.
    pub port: PortId,
    /// Its priority.
    pub priority: Priority,
    /// Start of its current pause.
    pub since: Time,
    /// Waiting packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flows of these packets, ascending.
    pub flows: Vec<u32>,
}

/// A cycle of queues of which none can ever send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deadlock {
    /// When it was detected.
    pub found: Time,
    /// Each waits for the next, the last for the first.
    pub cycle: Vec<DeadlockedQueue>,
    /// Number of further queues (including hosts') that wait for this or another cycle.
    pub victims: u64,
}

impl Deadlock {
    /// When the cycle closed: the start of its last pause.
    pub fn cycle_closed_at(&self) -> Time {
        self.cycle.iter().map(|queue| queue.since).max().unwrap_or(self.found)
    }
}

/// Detects deadlocks.
#[derive(Debug)]
pub(crate) struct DeadlockDetector {
    /// Checks when a class has been paused for this long.
    after: Span,
    pub(crate) stops: bool,
    /// Time of the next check.
    pub(crate) at: Option<Time>,
    /// Current cycles, by their slots.
    standing: BTreeSet<Vec<SlotId>>,
    pub(crate) found: Vec<Deadlock>,
}

/// Bytes of an ingress account (first slot) that an egress queue (second slot) holds.
type HeldBytes = BTreeMap<(SlotId, SlotId), u64>;

impl DeadlockDetector {
    pub(crate) fn new(after: Span, stops: bool) -> DeadlockDetector {
        DeadlockDetector { after, stops, at: None, standing: BTreeSet::new(), found: Vec::new() }
    }

    /// Schedules a check for a class paused at `since`, at least `reaction` later.
    pub(crate) fn schedule_check(&mut self, since: Time, reaction: Span) {
        self.at.get_or_insert(self.check_time(since, reaction));
    }

    /// Time of the check for a class paused at `since`.
    fn check_time(&self, since: Time, reaction: Span) -> Time {
        since.saturating_add(self.after.max(reaction))
    }

    /// The earliest check for a pause that begins at `now` or later, if none is scheduled.
    pub(crate) fn earliest_check_time(&self, now: Time, reaction: Span) -> Option<Time> {
        self.at.is_none().then(|| self.check_time(now, reaction))
    }

    /// Checks for deadlocks if due; true if it found a new one. `now` is on the partitions' clock, which lacks `offset`. `is_over`: only observation is
    /// pending.
    #[cold]
    pub(crate) fn detect_if_due(
        &mut self,
        view: ObserverView,
        now: Time,
        offset: Span,
        is_over: bool,
    ) -> bool {
        self.at = None;
        let paused = view.switch_paused_queues();
        let Some(oldest) = paused.iter().map(|slot| view.pause_start(*slot)).min() else {
            self.standing.clear();
            return false;
        };
        let due = oldest + self.after;
        let found = due <= now && self.detect_among(view, &paused, now, offset);
        if !is_over {
            self.at = Some(if due > now { due } else { now + self.after });
        }
        found
    }

    /// Final check at the end of a run, for deadlocks since the last check. With a watchdog (`guarded`) it reports only cycles that the watchdog had
    /// time to break.
    pub(crate) fn detect_at_end(&mut self, view: ObserverView, guarded: bool, now: Time, offset: Span) {
        let least = if guarded { self.after } else { Span::ZERO };
        let paused = view.switch_paused_queues();
        let since = |slot: &SlotId| view.pause_start(*slot);
        if paused.iter().map(since).min().is_some_and(|oldest| oldest + least <= now) {
            self.detect_among(view, &paused, now, offset);
        }
    }

    fn detect_among(&mut self, view: ObserverView, paused: &[SlotId], now: Time, offset: Span) -> bool {
        let held = view.sum_held_bytes(paused);
        let stuck = view.find_stuck_queues(paused, &held);
        let cycles = view.find_deadlock_cycles(&stuck, &held);
        let before = self.found.len();
        for cycle in &cycles {
            if !self.standing.contains(cycle) {
                let victims = (stuck.len() - cycle.len()) as u64;
                let mut cycle: Vec<DeadlockedQueue> =
                    cycle.iter().map(|slot| view.describe_queue(*slot)).collect();
                for queue in &mut cycle {
                    queue.since += offset;
                }
                self.found.push(Deadlock { found: now + offset, cycle, victims });
            }
        }
        self.standing = cycles.into_iter().collect();
        self.found.len() > before
    }
}

impl ObserverView<'_> {
    fn pause_start(&self, slot: SlotId) -> Time {
        self.owner_partition(self.plan.port_and_class(slot).0).ports.pauses[slot].since
    }

    /// The ingress account that a slot fills.
    fn filled_account(&self, slot: SlotId) -> IngressAccount {
        self.peer_ingress_account(self.plan.port_and_class(slot).0, slot)
    }

    /// The switch at the other end of a port.
    fn peer_switch(&self, port: PortId) -> Option<SwitchId> {
        self.plan.switch_id(self.plan.topology.peer(port))
    }

    /// Slots that are paused at the request of a switch.
    fn switch_paused_queues(&self) -> Vec<SlotId> {
        let all =
            self.plan.all_ports().filter(|port| self.owner_partition(*port).ports.ports[*port].paused != 0);
        let slots =
            all.flat_map(|port| (0..self.plan.priorities.len() as u8).map(move |class| (port, class)));
        slots
            .filter(|(port, class)| {
                self.owner_partition(*port).ports.ports[*port].paused & 1 << class != 0
                    && self.peer_switch(*port).is_some()
                    && self.filled_account(self.filled_account_slot(*port, *class)).pause_sent
            })
            .map(|(port, class)| self.plan.slot(port, class))
            .collect()
    }

    /// The ingress account that `port` fills in `class`; with link pause that of class 0.
    fn filled_account_slot(&self, port: PortId, class: u8) -> SlotId {
        self.plan.slot(port, class & self.plan.account_mask)
    }

    /// Bytes that the switch queues among `slots` hold, by ingress account: a packet may leave in another class than it arrived in.
    fn sum_held_bytes(&self, slots: &[SlotId]) -> HeldBytes {
        let mut held = HeldBytes::new();
        for slot in slots {
            let (port, _) = self.plan.port_and_class(*slot);
            let Partition { ports, ctx, .. } = self.owner_partition(port);
            if !ports.ports[port].from.is_switch() {
                continue;
            }
            for index in ports.slots[*slot].queue.iter(&ctx.packets) {
                let packet = &ctx.packets[index];
                if packet.ingress == PortId::NONE {
                    continue; // A CNM of this switch is in no account.
                }
                let from = self.filled_account_slot(packet.ingress, packet.ingress_class);
                *held.entry((from, *slot)).or_default() += u64::from(packet.size);
            }
        }
        held
    }

    /// The largest set of slots that stay above their resume level when everything outside the set has drained.
    fn find_stuck_queues(&self, paused: &[SlotId], held: &HeldBytes) -> BTreeSet<SlotId> {
        let mut set: BTreeSet<SlotId> = paused.iter().copied().collect();
        loop {
            let mut bytes: BTreeMap<SlotId, u64> = BTreeMap::new();
            for ((from, at), size) in held {
                if set.contains(at) {
                    *bytes.entry(*from).or_default() += size;
                }
            }
            let resumes = |slot: &SlotId| !self.stays_above_xon(*slot, &bytes);
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
    fn stays_above_xon(&self, slot: SlotId, bytes: &BTreeMap<SlotId, u64>) -> bool {
        let (port, class) = self.plan.port_and_class(slot);
        let account = self.filled_account_slot(port, class);
        let left = |account: &SlotId| bytes.get(account).copied().unwrap_or(0);
        let partition = self.peer_partition(port);
        if !partition.ctx.hot.shared {
            return left(&account) > self.filled_account(account).limits.xon;
        }
        // The headroom empties first.
        let standing = |account: &SlotId| {
            let IngressAccount { bytes, in_headroom, .. } = self.filled_account(*account);
            let gone = bytes.saturating_sub(left(account));
            IngressOccupancy { bytes: left(account), in_headroom: in_headroom.saturating_sub(gone) }
        };
        let from_pool = |other: &SlotId| {
            let (IngressOccupancy { bytes, in_headroom }, (_, class)) =
                (standing(other), self.plan.port_and_class(*other));
            (bytes - in_headroom).saturating_sub(self.plan.policies[usize::from(class)].reserved)
        };
        let switch = self.peer_switch(port);
        let same_switch = |other: &&SlotId| self.peer_switch(self.plan.port_and_class(**other).0) == switch;
        let used: u64 = bytes.keys().filter(same_switch).map(from_pool).sum();
        let class = self.plan.port_and_class(account).1;
        let pool =
            switch.map(|switch| &partition.switching.switches[switch].pools[self.plan.pool_index(class)]);
        let rule = self.peer_pool_limits(port, account);
        pool.is_some_and(|pool| !rule.may_resume(standing(&account), pool.free_bytes_at(used)))
    }

    /// The cycles among the slots of `stuck`. With link pause all slots of a link wait for the same account; the cycle then follows those that hold
    /// most bytes.
    fn find_deadlock_cycles(&self, stuck: &BTreeSet<SlotId>, held: &HeldBytes) -> Vec<Vec<SlotId>> {
        if self.plan.account_mask != 0 {
            return find_waiting_cycles(stuck, held);
        }
        let mut of_slots = HeldBytes::new();
        for slot in stuck {
            let (port, class) = self.plan.port_and_class(*slot);
            let account = self.filled_account_slot(port, class);
            for ((_, at), bytes) in held.range((account, SlotId(0))..=(account, SlotId::NONE)) {
                of_slots.insert((*slot, *at), *bytes);
            }
        }
        find_waiting_cycles(stuck, &of_slots)
    }

    fn describe_queue(&self, slot: SlotId) -> DeadlockedQueue {
        let (port, class) = self.plan.port_and_class(slot);
        let Partition { ports, ctx, .. } = self.owner_partition(port);
        let waiting = ports.slots[slot].queue.iter(&ctx.packets);
        let packets: Vec<&Packet> = waiting.map(|index| &ctx.packets[index]).collect();
        let flow = |packet: &&Packet| match packet.content {
            FrameContent::Segment(CompactTcpSegment { to, .. }) => Some(to / 2),
            _ => None,
        };
        let flows: BTreeSet<u32> = packets.iter().filter_map(flow).collect();
        DeadlockedQueue {
            port,
            priority: self.plan.priorities[usize::from(class)],
            since: self.pause_start(slot),
            packets: packets.len() as u64,
            bytes: packets.iter().map(|packet| u64::from(packet.size)).sum(),
            flows: flows.into_iter().collect(),
        }
    }
}

/// The cycles formed when each slot of `stuck` waits for the slot in `stuck` that holds most of its bytes. Each slot has one, so a non-empty set has
/// a cycle. Each cycle starts with its smallest slot.
fn find_waiting_cycles(stuck: &BTreeSet<SlotId>, held: &HeldBytes) -> Vec<Vec<SlotId>> {
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
        // 9 → 4 → 7 → 2 → 4 and, apart, 5 → 6 → 5; 4 also waits for 5, for fewer bytes, and 6 for 7, for as many: the first slot counts.
        let held: HeldBytes = [
            ((9, 4), 10),
            ((4, 7), 10),
            ((4, 5), 3),
            ((7, 2), 1),
            ((2, 4), 1),
            ((5, 6), 8),
            ((6, 5), 8),
            ((6, 7), 8),
        ]
        .into_iter()
        .map(|((from, at), bytes)| ((SlotId(from), SlotId(at)), bytes))
        .collect();
        let stuck = [2, 4, 5, 6, 7, 9].into_iter().map(SlotId).collect();
        assert_eq!(
            find_waiting_cycles(&stuck, &held),
            [[2, 4, 7].map(SlotId).to_vec(), [5, 6].map(SlotId).to_vec()]
        );
        assert!(find_waiting_cycles(&BTreeSet::new(), &held).is_empty());
    }
}
