//! What the PFC watchdog of a switch knows of each queue; what it does is in `switching/watchdog.rs`.

use crate::event::Event;
use crate::ids::LaneId;
use crate::near::Near;
use crate::settings::{Watchdog, WatchdogAction};
use pauseframe_units::{IndexVec, Time};

/// The watchdog of one (port, class).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// A `Watchdog` event is pending.
    armed: bool,
    in_storm: bool,
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
    pub(super) lanes: IndexVec<LaneId, Watched>,
}

/// What the watchdog does with a queue that it has looked at.
pub(crate) enum Verdict {
    Storm(WatchdogAction),
    StormOver,
}

impl Watchdogs {
    /// Guards lossless queues, of so many lanes.
    pub(crate) fn new(settings: Watchdog, lanes: usize) -> Watchdogs {
        Watchdogs { settings: Some(settings), lanes: IndexVec::filled(Watched::default(), lanes) }
    }

    /// Whether the queue is in a storm, so that the end of a pause changes nothing.
    pub(crate) fn in_storm(&self, lane: LaneId) -> bool {
        self.lanes.get(lane).is_some_and(|watched| watched.in_storm)
    }

    /// Whether packets for the queue are dropped.
    pub(crate) fn drops(&self, lane: LaneId) -> bool {
        let drops = |settings: Watchdog| settings.action == WatchdogAction::Drop;
        self.settings.is_some_and(drops) && self.in_storm(lane)
    }

    /// Storms of a lane so far.
    pub(crate) fn storms(&self, lane: LaneId) -> u64 {
        self.lanes.get(lane).map_or(0, |watched| watched.storms)
    }

    /// The link of a lane has gone, or its storm is over.
    pub(crate) fn forget_storm(&mut self, lane: LaneId) {
        if self.settings.is_some() {
            self.lanes[lane].in_storm = false;
        }
    }

    /// The detection or the restoration time may be over, of a lane that has been paused since then (if it is) and in which
    /// packets wait or not: what is to be done.
    pub(crate) fn look(
        &mut self,
        lane: LaneId,
        paused_since: Option<Time>,
        waits: bool,
        near: &mut Near,
    ) -> Option<Verdict> {
        let (settings, now) = (self.settings?, near.now());
        let watched = &mut self.lanes[lane];
        watched.armed = false;
        let (look_again, verdict) = if watched.in_storm {
            let over = watched.last_pause + settings.restoration;
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
        watched.armed = true;
        near.schedule(look_again, Event::Watchdog(lane));
        verdict
    }

    /// A storm begins, after what has to be done before.
    pub(crate) fn begin_storm(&mut self, lane: LaneId) {
        let watched = &mut self.lanes[lane];
        watched.in_storm = true;
        watched.storms += 1;
    }
}

impl Watched {
    /// A pause frame takes effect; true if the watchdog has it ignored.
    pub(super) fn see_pause(&mut self, lane: LaneId, settings: Watchdog, near: &mut Near) -> bool {
        let now = near.now();
        self.last_pause = now;
        if !self.armed {
            self.armed = true;
            near.schedule(now + settings.detection, Event::Watchdog(lane));
        }
        self.in_storm
    }
}
