//! State of the PFC watchdog for each queue; its actions are in `switching/watchdog.rs`.

use crate::context::Context;
use crate::event::Event;
use crate::ids::SlotId;
use crate::settings::{PfcWatchdogSettings, WatchdogAction};
use pauseframe_units::{IndexVec, Time};

/// The watchdog of one (port, class).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueWatchdog {
    /// A `Watchdog` event is pending.
    armed: bool,
    pub(super) in_storm: bool,
    /// When the last pause frame took effect.
    last_pause: Time,
    /// Storms so far.
    pub(crate) storms: u64,
}

/// The watchdogs of all queues.
#[derive(Debug, Default)]
pub(crate) struct QueueWatchdogs {
    pub(super) settings: Option<PfcWatchdogSettings>,
    /// None without settings.
    pub(super) slots: IndexVec<SlotId, QueueWatchdog>,
}

/// Result of a watchdog check.
pub(crate) enum WatchdogCheckResult {
    Storm(WatchdogAction),
    StormOver,
}

impl QueueWatchdogs {
    /// Creates the watchdogs for `slots` slots.
    pub(crate) fn new(settings: PfcWatchdogSettings, slots: usize) -> QueueWatchdogs {
        QueueWatchdogs { settings: Some(settings), slots: IndexVec::filled(QueueWatchdog::default(), slots) }
    }

    /// Storms of a slot so far.
    pub(crate) fn storm_count(&self, slot: SlotId) -> u64 {
        self.slots.get(slot).map_or(0, |watched| watched.storms)
    }
}

impl PfcWatchdogSettings {
    /// The first poll at or after `time`.
    fn next_poll(&self, time: Time) -> Time {
        if self.poll.0 == 0 { time } else { Time(time.0.next_multiple_of(self.poll.0)) }
    }
}

impl QueueWatchdog {
    /// Whether the queue is in a storm whose action is more than an alert.
    pub(super) fn ignores_pauses(&self, settings: PfcWatchdogSettings) -> bool {
        self.in_storm && settings.action != WatchdogAction::Alert
    }

    /// Checks whether the detection or restoration time has passed. `since`: start of the current pause, if any.
    pub(crate) fn check_timers(
        &mut self,
        slot: SlotId,
        settings: PfcWatchdogSettings,
        paused_since: Option<Time>,
        waits: bool,
        ctx: &mut Context,
    ) -> Option<WatchdogCheckResult> {
        let now = ctx.now();
        self.armed = false;
        let (look_again, verdict) = if self.in_storm {
            let over = self.last_pause + settings.restoration;
            if over <= now {
                return Some(WatchdogCheckResult::StormOver);
            }
            (over, None)
        } else {
            let due = paused_since? + settings.detection;
            if due <= now && waits {
                (now + settings.restoration, Some(WatchdogCheckResult::Storm(settings.action)))
            } else if due <= now {
                (now + settings.detection, None)
            } else {
                (due, None)
            }
        };
        self.armed = true;
        ctx.schedule_event(settings.next_poll(look_again), Event::Watchdog(slot));
        verdict
    }

    /// Marks the beginning of a storm.
    pub(crate) fn begin_storm(&mut self) {
        self.in_storm = true;
        self.storms += 1;
    }

    /// Records a pause frame; true if the watchdog ignores it.
    pub(super) fn record_pause_frame(
        &mut self,
        slot: SlotId,
        settings: PfcWatchdogSettings,
        ctx: &mut Context,
    ) -> bool {
        let now = ctx.now();
        self.last_pause = now;
        if !self.armed {
            self.armed = true;
            ctx.schedule_event(settings.next_poll(now + settings.detection), Event::Watchdog(slot));
        }
        self.ignores_pauses(settings)
    }
}
