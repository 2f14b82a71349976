//! The log from which a run is played back: how full queues are, how busy links are, who is asked to pause and why, what
//! is marked and dropped.
//!
//! Pauses are written down as they happen. The rest is looked at once an interval, and a row is kept only where something
//! has changed by enough, so that the log of a large fabric stays small: a queue where its largest backlog of the interval is
//! twice what the log says, or half of it; a link where its load is two tenths of its capacity off, or has become nothing or
//! all; marks and drops by how many there were. Observation only: nothing in the network reads it back, no hop pays for it.

use crate::event::Event;
use crate::network::Network;
use crate::port::Lane;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Priority, Span, Time};

/// What is less than this is no queue, bytes: the packets of every day.
const QUEUE_LEAST: u64 = 4096;
/// Tenths of a link's capacity.
const WHOLE: u8 = 10;

/// What has changed at a port and priority.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State {
    /// Largest backlog of the interval that ends now, bytes.
    Backlog(u64),
    /// Share of the interval that ends now in which the port was sending packets of the priority.
    Load(f64),
    /// Packets marked in it.
    Marked(u64),
    /// Packets dropped or lost in it.
    Dropped(u64),
    /// The other end asks it to stop, because of the egress queue there that holds most of what came from here: none where
    /// a host asks, whose receive buffer is full.
    Asked(Option<PortId>),
    /// It may not send.
    Paused,
    /// It may send again.
    Resumed,
}

/// One row of the `states` table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StateChange {
    /// When.
    pub time: Time,
    /// Where.
    pub port: PortId,
    /// Of which priority.
    pub priority: Priority,
    /// What.
    pub state: State,
}

/// What the log knows of a port and class.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    tx_bytes: u64,
    tx_packets: u64,
    /// What was left of the frame in service at the end of the last interval, ps.
    left: f64,
    marks: u64,
    losses: u64,
    /// Largest backlog of the run before this interval.
    backlog_max: u64,
    /// What stands in the log: bytes, tenths.
    depth: u64,
    load: u8,
}

impl Seen {
    /// Whether the log must say that the largest backlog is now another.
    fn is_another_depth(&self, peak: u64) -> bool {
        if peak == 0 || self.depth == 0 {
            peak != self.depth
        } else {
            peak >= 2 * self.depth || 2 * peak <= self.depth
        }
    }

    /// The same of the load.
    fn is_another_load(&self, load: u8) -> bool {
        let is_end = load == 0 || load == WHOLE;
        load != self.load && (is_end || load.abs_diff(self.load) > 1)
    }
}

/// The log while it grows.
#[derive(Debug, Default)]
pub(crate) struct StateLog {
    every: Span,
    /// The last interval ended here.
    last: Time,
    limit: usize,
    changes: Vec<StateChange>,
    full: Option<Time>,
    /// By lane; empty when nothing is recorded.
    seen: Vec<Seen>,
    pub(crate) is_pending: bool,
}

impl StateLog {
    #[inline]
    fn is_on(&self) -> bool {
        !self.seen.is_empty()
    }

    fn add(&mut self, time: Time, port: PortId, priority: Priority, state: State) {
        if self.changes.len() < self.limit {
            self.changes.push(StateChange { time, port, priority, state });
        } else {
            self.full.get_or_insert(time);
        }
    }

    /// The largest backlog of a lane before the interval that goes on.
    pub(crate) fn backlog_max(&self, lane: usize) -> u64 {
        self.seen.get(lane).map_or(0, |seen| seen.backlog_max)
    }
}

impl Network {
    /// Records up to `limit` changes, looking at queues and links once in `every`.
    pub fn record_states(&mut self, every: Span, limit: usize, queue: &mut EventQueue) {
        let seen = vec![Seen::default(); self.lanes.len()];
        self.state_log = StateLog { every, limit, seen, is_pending: true, ..StateLog::default() };
        queue.push(Time::ZERO + every, Event::States.code());
    }

    /// What has changed so far, in the order of time.
    pub fn state_changes(&self) -> &[StateChange] {
        &self.state_log.changes
    }

    /// When the log was full: later changes are not in it.
    pub fn states_full_at(&self) -> Option<Time> {
        self.state_log.full
    }

    /// The run is over: what has changed since the last interval ended.
    pub fn end_states(&mut self, now: Time) {
        if self.state_log.is_on() && now > self.state_log.last {
            self.look_at_states(now);
        }
    }

    #[cold]
    pub(crate) fn on_states(&mut self, now: Time, queue: &mut EventQueue) {
        self.look_at_states(now);
        self.state_log.is_pending = false;
        if self.state_log.full.is_none() && self.has_more(queue) {
            self.state_log.is_pending = true;
            queue.push(now + self.state_log.every, Event::States.code());
        }
    }

    fn look_at_states(&mut self, now: Time) {
        let mut log = std::mem::take(&mut self.state_log);
        let interval = now - log.last;
        for (lane, seen) in log.seen.iter_mut().enumerate() {
            let (state, counters) = (&mut self.lanes[lane], &self.counters[lane]);
            let peak = std::mem::replace(&mut state.backlog_max, state.backlog);
            seen.backlog_max = seen.backlog_max.max(peak);
            let peak = if peak < QUEUE_LEAST { 0 } else { peak };
            let losses: u64 = counters.drops.iter().chain(&counters.lost).sum();
            let idle = state.tx_packets == seen.tx_packets && seen.load == 0;
            if idle
                && (losses, counters.ecn_marks) == (seen.losses, seen.marks)
                && !seen.is_another_depth(peak)
            {
                continue;
            }
            self.note_changes(lane, seen, peak, losses, interval, now, &mut log.changes);
        }
        if log.changes.len() > log.limit {
            log.changes.truncate(log.limit);
            log.full.get_or_insert(now);
        }
        log.last = now;
        self.state_log = log;
    }

    #[expect(clippy::too_many_arguments, reason = "the log is taken out of the network while it is filled")]
    fn note_changes(
        &self,
        lane: usize,
        seen: &mut Seen,
        peak: u64,
        losses: u64,
        interval: Span,
        now: Time,
        changes: &mut Vec<StateChange>,
    ) {
        let (port, class) = self.port_and_class(lane as u32);
        let Some(&priority) = self.priorities.get(usize::from(class)) else { return };
        let mut add = |state| changes.push(StateChange { time: now, port, priority, state });
        if seen.is_another_depth(peak) {
            seen.depth = peak;
            add(State::Backlog(peak));
        }
        let marks = self.counters[lane].ecn_marks;
        if marks > seen.marks {
            add(State::Marked(marks - seen.marks));
        }
        if losses > seen.losses {
            add(State::Dropped(losses - seen.losses));
        }
        let share = self.share_since(seen, lane, port, class, interval, now);
        let load = (share * f64::from(WHOLE)).round() as u8;
        if seen.is_another_load(load) {
            seen.load = load;
            add(State::Load(f64::from(load) / f64::from(WHOLE)));
        }
        (seen.marks, seen.losses) = (marks, losses);
    }

    /// The share of the interval in which a port was sending a class: what was begun, less what is still to be sent of it.
    /// As `busy_time`, without a division of large integers for every interval.
    fn share_since(
        &self,
        seen: &mut Seen,
        lane: usize,
        port: PortId,
        class: u8,
        interval: Span,
        now: Time,
    ) -> f64 {
        let Lane { tx_bytes, tx_packets, .. } = self.lanes[lane];
        let gaps = (tx_packets - seen.tx_packets) * u64::from(self.hot.gap);
        let ps_per_byte = 8e3 / self.ports[port].rate.rate().as_gbps_f64();
        let begun = (tx_bytes - seen.tx_bytes + gaps) as f64 * ps_per_byte;
        let in_service = self.left_in_service(port, now).filter(|service| service.class == class);
        let left = in_service.map_or(0.0, |service| service.left.0 as f64);
        let share = (begun + seen.left - left) / interval.0 as f64;
        *seen = Seen { tx_bytes, tx_packets, left, ..*seen };
        share.clamp(0.0, 1.0)
    }

    /// The peer of a lane asks it to pause, for the first time or again.
    pub(crate) fn note_request(&mut self, port: PortId, class: u8, now: Time) {
        let lane = self.lane_index(port, class);
        if !self.state_log.is_on() || self.accounts[lane].pause_sent {
            return;
        }
        let cause = self.fullest_with(port, class);
        self.state_log.add(now, port, self.priorities[usize::from(class)], State::Asked(cause));
    }

    /// Of the egress queues at the other end of `port`, the one that holds most of what came from it in `class`.
    fn fullest_with(&self, port: PortId, class: u8) -> Option<PortId> {
        let held = |egress: &PortId| -> u64 {
            let lanes = (0..self.priorities.len() as u8).map(|out| self.lane_index(*egress, out));
            let waiting = lanes.flat_map(|lane| self.packets.chain(self.lanes[lane].queue));
            let came = |index: u32| {
                let packet = &self.packets[index];
                let same_account = packet.ingress_class & self.hot.account_mask == class;
                if packet.ingress == port && same_account { u64::from(packet.size) } else { 0 }
            };
            waiting.map(came).sum()
        };
        let egresses = self.topology.nodes()[self.topology.peer(port)].ports.iter();
        let held = egresses.map(|egress| (held(egress), *egress)).filter(|(bytes, _)| *bytes > 0);
        held.max_by_key(|(bytes, egress)| (*bytes, std::cmp::Reverse(*egress))).map(|(_, egress)| egress)
    }

    /// A class may not send any longer, or again.
    pub(crate) fn note_pause(&mut self, port: PortId, class: u8, state: State, now: Time) {
        if self.state_log.is_on() {
            self.state_log.add(now, port, self.priorities[usize::from(class)], state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn small_changes_are_none() {
        let queue = |depth| Seen { depth, ..Seen::default() };
        assert!(
            queue(0).is_another_depth(5000)
                && queue(5000).is_another_depth(0)
                && !queue(0).is_another_depth(0)
        );
        assert!(!queue(5000).is_another_depth(9999) && queue(5000).is_another_depth(10_000));
        assert!(!queue(9999).is_another_depth(5000) && queue(10_000).is_another_depth(5000));
        let link = |load| Seen { load, ..Seen::default() };
        assert!(!link(0).is_another_load(1) && link(1).is_another_load(0) && link(0).is_another_load(2));
        assert!(link(9).is_another_load(10) && !link(10).is_another_load(9) && link(10).is_another_load(8));
        assert!(!link(4).is_another_load(5) && !link(10).is_another_load(10));
    }
}
