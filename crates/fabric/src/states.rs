//! The log from which a run is played back: how full queues are, how busy links are, who is asked to pause and why, what
//! is marked and dropped.
//!
//! Pauses are written down as they happen. The rest is looked at once an interval, and a row is kept only where something
//! has changed by a step, so that the log of a large fabric stays small: a queue by its largest backlog of the interval,
//! in steps of half a doubling (1, 1.5, 2, 3, 4, 6, ...); a link by the tenth of its capacity that was in use; marks and drops
//! by how many there were. Observation only: nothing in the network reads it back, no hop pays for it.

use crate::event::Event;
use crate::network::Network;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Priority, Span, Time};

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
    busy: Span,
    marks: u64,
    losses: u64,
    /// Largest backlog of the run before this interval.
    backlog_max: u64,
    /// Steps that stand in the log.
    depth: u8,
    load: u8,
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

/// The step of a backlog: two to a doubling.
fn depth_step(bytes: u64) -> u8 {
    match bytes.checked_ilog2() {
        None => 0,
        Some(0) => 1,
        Some(log) => (2 * log) as u8 + u8::from(bytes >> (log - 1) & 1 == 1),
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
            let losses: u64 = counters.drops.iter().chain(&counters.lost).sum();
            let idle = state.tx_bytes == seen.tx_bytes && seen.load == 0;
            if idle
                && (losses, counters.ecn_marks) == (seen.losses, seen.marks)
                && seen.depth == depth_step(peak)
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
        let depth = depth_step(peak);
        if std::mem::replace(&mut seen.depth, depth) != depth {
            add(State::Backlog(peak));
        }
        let marks = self.counters[lane].ecn_marks;
        if marks > seen.marks {
            add(State::Marked(marks - seen.marks));
        }
        if losses > seen.losses {
            add(State::Dropped(losses - seen.losses));
        }
        let busy = self.busy_time(port, class, now);
        let share = (busy.0.saturating_sub(seen.busy.0) as f64 / interval.0 as f64).min(1.0);
        let load = (share * 10.0).round() as u8;
        if std::mem::replace(&mut seen.load, load) != load {
            add(State::Load(f64::from(load) / 10.0));
        }
        *seen = Seen { tx_bytes: self.lanes[lane].tx_bytes, busy, marks, losses, ..*seen };
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
    use super::depth_step;

    #[test]
    fn steps_are_half_a_doubling() {
        let steps: Vec<u8> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16].map(depth_step).to_vec();
        assert_eq!(steps, [0, 1, 2, 3, 4, 4, 5, 5, 6, 7, 8]);
        assert!(depth_step(u64::MAX) > depth_step(u64::MAX / 2));
    }
}
