//! The log from which a run is played back: how full queues are, how busy links are, who is asked to pause and why, what
//! is marked and dropped.
//!
//! Pauses are written down as they happen. The rest is looked at once an interval, and a row is kept only where something
//! has changed by enough, so that the log of a large fabric stays small: a queue where its largest backlog of the interval is
//! twice what the log says, or half of it; a link where its load is two tenths of its capacity off, or has become nothing or
//! all; marks and drops by how many there were. Observation only: nothing in the network reads it back, no hop pays for it.

use crate::ids::SlotId;
use crate::observers::notes::{Note, Noted};
use crate::observers::view::View;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::wire::counters::Amount;
use pauseframe_units::{IndexVec, PortId, Priority, Span, Time};

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
    sent: Amount,
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
#[derive(Debug)]
pub(crate) struct StateLog {
    pub(crate) every: Span,
    /// When it looks next.
    pub(crate) at: Option<Time>,
    /// The last interval ended here.
    pub(crate) last: Time,
    limit: usize,
    pub(crate) changes: Vec<StateChange>,
    pub(crate) full: Option<Time>,
    /// By slot.
    seen: IndexVec<SlotId, Seen>,
}

impl StateLog {
    pub(crate) fn new(every: Span, limit: usize, slots: usize) -> StateLog {
        let seen = IndexVec::filled(Seen::default(), slots);
        let (at, last) = (Some(Time::ZERO + every), Time::ZERO);
        StateLog { every, at, last, limit, changes: Vec::new(), full: None, seen }
    }

    /// The largest backlog of a slot before the interval that goes on.
    pub(crate) fn backlog_max(&self, slot: SlotId) -> u64 {
        self.seen[slot].backlog_max
    }

    /// A pause is asked for, begins or ends.
    pub(crate) fn read(&mut self, note: &Note, plan: &Plan) {
        let (port, class) = plan.port_and_class(note.slot);
        let state = match note.what {
            Noted::Asked { fullest, .. } => State::Asked(fullest),
            Noted::Paused => State::Paused,
            Noted::Resumed => State::Resumed,
        };
        if self.changes.len() < self.limit {
            let priority = plan.priorities[usize::from(class)];
            self.changes.push(StateChange { time: note.at, port, priority, state });
        } else {
            self.full.get_or_insert(note.at);
        }
    }

    /// An interval is over, in which queues were as full as `peaks` say, by slot.
    pub(crate) fn look(&mut self, view: View, peaks: &IndexVec<SlotId, u64>, now: Time) {
        let (interval, plan) = (now - self.last, view.plan);
        for (slot, seen) in plan.all_slots().zip(&mut self.seen) {
            let (port, class) = plan.port_and_class(slot);
            let Some(&priority) = plan.priorities.get(usize::from(class)) else { continue };
            seen.backlog_max = seen.backlog_max.max(peaks[slot]);
            let peak = peaks[slot];
            let peak = if peak < QUEUE_LEAST { 0 } else { peak };
            let Partition { ports, ctx, .. } = view.sender(port);
            let (sent, counters) = (ports.sent(port, class, &ctx.hot), view.counters(port, slot));
            let losses: u64 = counters.drops.iter().chain(&counters.lost).sum();
            let idle = sent == seen.sent && seen.load == 0;
            let unchanged = (losses, counters.ecn_marks) == (seen.losses, seen.marks);
            if idle && unchanged && !seen.is_another_depth(peak) {
                continue;
            }
            let mut add = |state| self.changes.push(StateChange { time: now, port, priority, state });
            if seen.is_another_depth(peak) {
                seen.depth = peak;
                add(State::Backlog(peak));
            }
            if counters.ecn_marks > seen.marks {
                add(State::Marked(counters.ecn_marks - seen.marks));
            }
            if losses > seen.losses {
                add(State::Dropped(losses - seen.losses));
            }
            let share = share_since(view.sender(port), seen, (port, class), interval, now);
            let load = (share * f64::from(WHOLE)).round() as u8;
            if seen.is_another_load(load) {
                seen.load = load;
                add(State::Load(f64::from(load) / f64::from(WHOLE)));
            }
            (seen.marks, seen.losses) = (counters.ecn_marks, losses);
        }
        if self.changes.len() > self.limit {
            self.changes.truncate(self.limit);
            self.full.get_or_insert(now);
        }
        self.last = now;
    }
}

/// The share of the interval in which a port was sending a class: what was begun, less what is still to be sent of it.
/// As `busy_time`, without a division of large integers for every interval.
fn share_since(
    partition: &Partition,
    seen: &mut Seen,
    (port, class): (PortId, u8),
    interval: Span,
    now: Time,
) -> f64 {
    let Partition { ports, ctx, .. } = partition;
    let sent = ports.sent(port, class, &ctx.hot);
    let new = sent - seen.sent;
    let gaps = new.packets * u64::from(ctx.hot.gap);
    let ps_per_byte = 8e3 / ports.ports[port].rate.rate().as_gbps_f64();
    let begun = (new.bytes + gaps) as f64 * ps_per_byte;
    let in_service = ports.ports[port].left_in_service(ctx, now).filter(|service| service.class == class);
    let left = in_service.map_or(0.0, |service| service.left.0 as f64);
    let share = (begun + seen.left - left) / interval.0 as f64;
    *seen = Seen { sent, left, ..*seen };
    share.clamp(0.0, 1.0)
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
