//! Who pauses whom, and because of what: the record from which the spreading of congestion is drawn.
//!
//! A pause interval is the time in which one (port, class) may not send. Its causes are the intervals that stood at the
//! egress queues of the pausing switch while packets from the paused port waited there: without them the account
//! would not have passed XOFF. An interval without a cause is a root: a queue that was simply too full. Causes are
//! looked up when the pause is first asked for, so a cause has always begun before, and there are no cycles here; cyclic
//! waits are the business of [`crate::deadlock`]. Observation only: nothing in the network reads it back.

use crate::network::Network;
use crate::packet::NIL;
use pauseframe_units::{PortId, Priority, Time};

/// One pause: the raw row of the `pause_tree` table. Its number is its position in [`Network::pause_intervals`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseInterval {
    /// The port that may not send.
    pub port: PortId,
    /// The priority.
    pub priority: Priority,
    /// When its peer first asked for the pause.
    pub asked: Time,
    /// When the pause took effect.
    pub start: Time,
    /// When the port might send again; `None`: it still stands.
    pub end: Option<Time>,
    /// 0 for a root, else one more than the largest of its causes.
    pub depth: u32,
    /// The numbers of the intervals that caused it, ascending.
    pub parents: Vec<u32>,
}

/// What the peer of a lane knew when it asked for the pause.
#[derive(Clone, Debug)]
struct Asked {
    at: Time,
    parents: Vec<u32>,
}

/// The record while it grows.
#[derive(Debug, Default)]
pub(crate) struct PauseLog {
    intervals: Vec<PauseInterval>,
    limit: usize,
    unrecorded: u64,
    /// By lane: the last interval, or NIL; empty when nothing is recorded.
    last: Vec<u32>,
    /// By lane: the request that the next interval answers to.
    asked: Vec<Option<Asked>>,
}

impl PauseLog {
    #[inline]
    fn is_on(&self) -> bool {
        !self.last.is_empty()
    }
}

impl Network {
    /// Records up to `limit` pause intervals.
    pub fn record_pauses(&mut self, limit: usize) {
        let lanes = self.lanes.len();
        self.pause_log =
            PauseLog { limit, last: vec![NIL; lanes], asked: vec![None; lanes], ..PauseLog::default() };
    }

    /// The pause intervals so far, in the order in which they began.
    pub fn pause_intervals(&self) -> &[PauseInterval] {
        &self.pause_log.intervals
    }

    /// How many pause intervals were not recorded because of the limit.
    pub fn unrecorded_pauses(&self) -> u64 {
        self.pause_log.unrecorded
    }

    /// The peer of a lane asks it to pause, for the first time or again.
    pub(crate) fn log_request(&mut self, port: PortId, class: u8, now: Time) {
        let lane = self.lane_index(port, class);
        if !self.pause_log.is_on() || self.accounts[lane].pause_sent {
            return;
        }
        let parents = self.causes(port, class);
        self.pause_log.asked[lane] = Some(Asked { at: now, parents });
    }

    /// The intervals that held back packets which came by `port`, at the queues of the switch that holds them.
    fn causes(&self, port: PortId, class: u8) -> Vec<u32> {
        let mut causes = Vec::new();
        for egress in &self.topology.nodes()[self.topology.peer(port)].ports {
            let lane = self.lane_index(*egress, class);
            let last = self.pause_log.last[lane];
            let Some(interval) = self.pause_log.intervals.get(last as usize) else { continue };
            let held = self.packets.chain(self.lanes[lane].queue);
            let oldest = held.map(|index| &self.packets[index]).find(|packet| packet.ingress == port);
            if oldest.is_some_and(|packet| interval.end.is_none_or(|end| end > packet.at)) {
                causes.push(last);
            }
        }
        causes.sort_unstable();
        causes
    }

    /// A pause has taken effect at a port that could send before.
    pub(crate) fn log_pause(&mut self, port: PortId, class: u8, now: Time) {
        if !self.pause_log.is_on() {
            return;
        }
        let (lane, priority) = (self.lane_index(port, class), self.priorities[usize::from(class)]);
        let log = &mut self.pause_log;
        if log.intervals.len() >= log.limit {
            log.unrecorded += 1;
            log.last[lane] = NIL;
            return;
        }
        let Asked { at: asked, parents } =
            log.asked[lane].clone().unwrap_or(Asked { at: now, parents: Vec::new() });
        let depth = parents.iter().map(|parent| log.intervals[*parent as usize].depth + 1).max().unwrap_or(0);
        log.last[lane] = log.intervals.len() as u32;
        log.intervals.push(PauseInterval { port, priority, asked, start: now, end: None, depth, parents });
    }

    /// The port may send again.
    pub(crate) fn log_resume(&mut self, port: PortId, class: u8, now: Time) {
        if !self.pause_log.is_on() {
            return;
        }
        let last = self.pause_log.last[self.lane_index(port, class)];
        if let Some(interval) = self.pause_log.intervals.get_mut(last as usize) {
            interval.end = Some(now);
        }
    }
}
