//! What the PFC watchdog of a switch knows of each queue; what it does is in `switching/watchdog.rs`.

use crate::context::Context;
use crate::event::Event;
use crate::ids::SlotId;
use crate::settings::{Watchdog, WatchdogAction};
use pauseframe_units::{IndexVec, Time};

/// The watchdog of one (port, class).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// A `Watchdog` event is pending.
    armed: bool,
    pub(super) in_storm: bool,
    /// When the last pause frame took effect.
    last_pause: Time,
    /// Storms so far.
    pub(crate) storms: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Watchdogs {
    pub(super) settings: Option<Watchdog>,
    /// None without settings.
    pub(super) slots: IndexVec<SlotId, Watched>,
}

/// What the watchdog does with a queue that it has looked at.
pub(crate) enum Verdict {
    Storm(WatchdogAction),
    StormOver,
}

impl Watchdogs {
    /// Guards lossless queues, of so many slots.
    pub(crate) fn new(settings: Watchdog, slots: usize) -> Watchdogs {
        Watchdogs { settings: Some(settings), slots: IndexVec::filled(Watched::default(), slots) }
    }

    /// Storms of a slot so far.
    pub(crate) fn storms(&self, slot: SlotId) -> u64 {
        self.slots.get(slot).map_or(0, |watched| watched.storms)
    }
}

impl Watchdog {
    /// The first poll at or after `time`.
    fn next_poll(&self, time: Time) -> Time {
        if self.poll.0 == 0 { time } else { Time(time.0.next_multiple_of(self.poll.0)) }
    }
}

impl Watched {
    /// In a storm in which more is done than to count it.
    pub(super) fn is_taken_out(&self, settings: Watchdog) -> bool {
        self.in_storm && settings.action != WatchdogAction::Alert
    }

    /// The detection or the restoration time may be over, of a slot that has been paused since then (if it is) and in which
    /// packets wait or not: what is to be done.
    pub(crate) fn look(
        &mut self,
        slot: SlotId,
        settings: Watchdog,
        paused_since: Option<Time>,
        waits: bool,
        ctx: &mut Context,
    ) -> Option<Verdict> {
        let now = ctx.now();
        self.armed = false;
        let (look_again, verdict) = if self.in_storm {
            let over = self.last_pause + settings.restoration;
            if over <= now {
                return Some(Verdict::StormOver);
            }
            (over, None)
        } else {
            let due = paused_since? + settings.detection;
            if due <= now && waits {
                (now + settings.restoration, Some(Verdict::Storm(settings.action)))
            } else if due <= now {
                (now + settings.detection, None)
            } else {
                (due, None)
            }
        };
        self.armed = true;
        ctx.schedule(settings.next_poll(look_again), Event::Watchdog(slot));
        verdict
    }

    /// A storm begins, after what has to be done before.
    pub(crate) fn begin_storm(&mut self) {
        self.in_storm = true;
        self.storms += 1;
    }

    /// A pause frame takes effect; true if the watchdog has it ignored.
    pub(super) fn see_pause(&mut self, slot: SlotId, settings: Watchdog, ctx: &mut Context) -> bool {
        let now = ctx.now();
        self.last_pause = now;
        if !self.armed {
            self.armed = true;
            ctx.schedule(settings.next_poll(now + settings.detection), Event::Watchdog(slot));
        }
        self.is_taken_out(settings)
    }
}
