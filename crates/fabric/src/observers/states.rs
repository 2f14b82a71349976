//! The state log, from which a run can be played back: backlogs, link loads, pause requests with causes, marks and drops.
//!
//! Pauses are logged when they occur. Other values are sampled once per interval, and only significant changes are logged, so the log of a large
//! fabric stays small: a queue whose maximum backlog changed by an eighth, and by a packet or two; a link whose load changed by two tenths of its capacity or became zero or
//! full; numbers of marks and drops. Observation only: nothing in the simulation reads the log, and hops pay nothing for it.

use crate::ids::SlotId;
use crate::observers::notes::{PauseChange, PauseChangeKind};
use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::plan::NetworkPlan;
use crate::wire::counters::PacketsAndBytes;
use pauseframe_units::{IndexVec, PortId, Priority, Span, Time};

/// Smallest backlog, and smallest change of one, that is logged, bytes: less is normal traffic.
const MIN_LOGGED_BACKLOG: u64 = 4096;
/// A part of the last logged backlog: a smaller change is not logged.
const PARTS_OF_BACKLOG: u64 = 8;
/// Full load, in tenths of a link's capacity.
const FULL_LOAD_TENTHS: u8 = 10;

/// A state change of a port and priority.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PortStateChange {
    /// Largest backlog of the interval that ends now, bytes.
    Backlog(u64),
    /// Share of the interval that ends now in which the port was sending packets of the priority.
    Load(f64),
    /// Packets marked in it.
    Marked(u64),
    /// Packets dropped or lost in it.
    Dropped(u64),
    /// Congestion notifications that the host of the port sent in it.
    NotificationsSent(u64),
    /// Congestion notifications that the host of the port received in it.
    NotificationsReceived(u64),
    /// The peer requests a pause. Holds the peer's egress queue with most bytes from here; `None` if the peer is a host with a full receive buffer.
    PauseRequested(Option<PortId>),
    /// It may not send.
    Paused,
    /// It may send again.
    Resumed,
}

/// One row of the `states` table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StateLogRow {
    /// When.
    pub time: Time,
    /// Where.
    pub port: PortId,
    /// Of which priority.
    pub priority: Priority,
    /// What.
    pub state: PortStateChange,
}

/// The last logged values of a port and class.
#[derive(Clone, Copy, Debug, Default)]
struct LoggedQueueState {
    sent: PacketsAndBytes,
    /// Remaining time of the frame in service at the end of the last interval, ps.
    left: f64,
    marks: u64,
    losses: u64,
    /// Congestion notifications sent and received.
    notifications: [u64; 2],
    /// Largest backlog of the run before this interval.
    backlog_max: u64,
    /// The last logged backlog, bytes.
    depth: u64,
    /// The last logged load, in tenths.
    load: u8,
}

impl LoggedQueueState {
    /// Whether the maximum backlog has changed enough to be logged.
    fn has_backlog_changed(&self, peak: u64) -> bool {
        if peak == 0 || self.depth == 0 {
            peak != self.depth
        } else {
            peak.abs_diff(self.depth) >= MIN_LOGGED_BACKLOG.max(self.depth / PARTS_OF_BACKLOG)
        }
    }

    /// Whether the load has changed enough to be logged.
    fn has_load_changed(&self, load: u8) -> bool {
        let is_end = load == 0 || load == FULL_LOAD_TENTHS;
        load != self.load && (is_end || load.abs_diff(self.load) > 1)
    }
}

/// Records the state log.
#[derive(Debug)]
pub(crate) struct StateLog {
    pub(crate) every: Span,
    /// When it looks next.
    pub(crate) at: Option<Time>,
    /// End of the last interval.
    pub(crate) last: Time,
    limit: usize,
    pub(crate) changes: Vec<StateLogRow>,
    pub(crate) full: Option<Time>,
    /// By slot.
    seen: IndexVec<SlotId, LoggedQueueState>,
}

impl StateLog {
    pub(crate) fn new(every: Span, limit: usize, slots: usize) -> StateLog {
        let seen = IndexVec::filled(LoggedQueueState::default(), slots);
        let (at, last) = (Some(Time::ZERO + every), Time::ZERO);
        StateLog { every, at, last, limit, changes: Vec::new(), full: None, seen }
    }

    /// Maximum backlog of a slot before the current interval.
    pub(crate) fn previous_backlog_max(&self, slot: SlotId) -> u64 {
        self.seen[slot].backlog_max
    }

    /// Logs a pause request, or the start or end of a pause.
    pub(crate) fn record_pause_change(&mut self, note: &PauseChange, plan: &NetworkPlan) {
        let (port, class) = plan.port_and_class(note.slot);
        let state = match note.what {
            PauseChangeKind::PauseRequested { fullest, .. } => PortStateChange::PauseRequested(fullest),
            PauseChangeKind::Paused => PortStateChange::Paused,
            PauseChangeKind::Resumed => PortStateChange::Resumed,
        };
        if self.changes.len() < self.limit {
            let priority = plan.priorities[usize::from(class)];
            self.changes.push(StateLogRow { time: note.at, port, priority, state });
        } else {
            self.full.get_or_insert(note.at);
        }
    }

    /// Logs the changes of an interval. `peaks`: maximum backlogs by slot.
    pub(crate) fn log_interval(&mut self, view: ObserverView, peaks: &IndexVec<SlotId, u64>, now: Time) {
        let (interval, plan) = (now - self.last, view.plan);
        for (slot, seen) in plan.all_slots().zip(&mut self.seen) {
            let (port, class) = plan.port_and_class(slot);
            let Some(&priority) = plan.priorities.get(usize::from(class)) else { continue };
            seen.backlog_max = seen.backlog_max.max(peaks[slot]);
            let peak = peaks[slot];
            let peak = if peak < MIN_LOGGED_BACKLOG { 0 } else { peak };
            let Partition { ports, ctx, .. } = view.owner_partition(port);
            let (sent, counters) =
                (ports.sent_in_class(port, class, &ctx.hot), view.merged_queue_counters(port, slot));
            let losses: u64 = counters.drops.iter().chain(&counters.lost).sum();
            let idle = sent == seen.sent && seen.load == 0 && seen.left <= 0.0;
            let notifications = view.cnp_counts(port, class);
            let unchanged =
                (losses, counters.ecn_marks, notifications) == (seen.losses, seen.marks, seen.notifications);
            if idle && unchanged && !seen.has_backlog_changed(peak) {
                continue;
            }
            let mut add = |state| self.changes.push(StateLogRow { time: now, port, priority, state });
            if seen.has_backlog_changed(peak) {
                seen.depth = peak;
                add(PortStateChange::Backlog(peak));
            }
            if counters.ecn_marks > seen.marks {
                add(PortStateChange::Marked(counters.ecn_marks - seen.marks));
            }
            if losses > seen.losses {
                add(PortStateChange::Dropped(losses - seen.losses));
            }
            let [sent, received] = [0, 1].map(|way| notifications[way] - seen.notifications[way]);
            if sent > 0 {
                add(PortStateChange::NotificationsSent(sent));
            }
            if received > 0 {
                add(PortStateChange::NotificationsReceived(received));
            }
            let share = update_busy_share(view.owner_partition(port), seen, (port, class), interval, now);
            let load = (share * f64::from(FULL_LOAD_TENTHS)).round() as u8;
            if seen.has_load_changed(load) {
                seen.load = load;
                add(PortStateChange::Load(f64::from(load) / f64::from(FULL_LOAD_TENTHS)));
            }
            (seen.marks, seen.losses, seen.notifications) = (counters.ecn_marks, losses, notifications);
        }
        if self.changes.len() > self.limit {
            self.changes.truncate(self.limit);
            self.full.get_or_insert(now);
        }
        self.last = now;
    }
}

/// Fraction of the interval in which a port transmitted a class: started transmissions less their remaining part. Like `busy_time`, but without a
/// division of large integers.
fn update_busy_share(
    partition: &Partition,
    seen: &mut LoggedQueueState,
    (port, class): (PortId, u8),
    interval: Span,
    now: Time,
) -> f64 {
    let Partition { ports, ctx, .. } = partition;
    let sent = ports.sent_in_class(port, class, &ctx.hot);
    let new = sent - seen.sent;
    let gaps = new.packets * u64::from(ctx.hot.gap);
    let ps_per_byte = 8e3 / ports.ports[port].rate.rate().as_gbps_f64();
    let begun = (new.bytes + gaps) as f64 * ps_per_byte;
    let in_service = ports.ports[port].remaining_service(ctx, now).filter(|service| service.class == class);
    let left = in_service.map_or(0.0, |service| service.left.0 as f64);
    let share = (begun + seen.left - left) / interval.0 as f64;
    *seen = LoggedQueueState { sent, left, ..*seen };
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::LoggedQueueState;

    #[test]
    fn small_changes_are_none() {
        let queue = |depth| LoggedQueueState { depth, ..LoggedQueueState::default() };
        assert!(
            queue(0).has_backlog_changed(5000)
                && queue(5000).has_backlog_changed(0)
                && !queue(0).has_backlog_changed(0)
        );
        assert!(!queue(5000).has_backlog_changed(9095) && queue(5000).has_backlog_changed(9096));
        assert!(
            !queue(80_000).has_backlog_changed(89_999)
                && queue(80_000).has_backlog_changed(90_000)
                && queue(80_000).has_backlog_changed(70_000)
        );
        let link = |load| LoggedQueueState { load, ..LoggedQueueState::default() };
        assert!(!link(0).has_load_changed(1) && link(1).has_load_changed(0) && link(0).has_load_changed(2));
        assert!(
            link(9).has_load_changed(10) && !link(10).has_load_changed(9) && link(10).has_load_changed(8)
        );
        assert!(!link(4).has_load_changed(5) && !link(10).has_load_changed(10));
    }
}
