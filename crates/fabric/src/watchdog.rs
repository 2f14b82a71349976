//! The PFC watchdog of a switch: a lossless queue that has been paused for too long is taken out of flow control.
//!
//! After `SONiC`'s pfcwd. A queue of a switch with packets in it that has been paused without a break for the detection
//! time is in a storm. Until no pause frame for it has come for the restoration time it then either drops what it
//! holds and gets (`Drop`), or sends in spite of pauses (`Forward`).
//! Deviates from `SONiC`: the times are exact, where `SONiC` polls (every 100 ms or more); `Drop` works on the
//! stormed egress queue alone, `SONiC` also drops what arrives by the port in that priority.

use crate::cell::Cell;
use crate::event::Event;
use crate::failures::LossReason;
use crate::packet::NIL;
use pauseframe_engine::EventQueue;
use pauseframe_units::{PortId, Span, Time};

/// What happens to a queue in a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchdogAction {
    /// Its packets are dropped, and those that come.
    Drop,
    /// It sends in spite of pauses.
    Forward,
}

/// Settings of the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watchdog {
    /// Paused for this long with packets waiting: a storm.
    pub detection: Span,
    /// What is done then.
    pub action: WatchdogAction,
    /// Without a pause frame for this long: over.
    pub restoration: Span,
}

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
    settings: Option<Watchdog>,
    /// By lane; empty without settings.
    pub(crate) lanes: Vec<Watched>,
}

impl Cell {
    /// Guards the lossless queues of all switches.
    pub(crate) fn guard(&mut self, watchdog: Watchdog) {
        self.watchdogs =
            Watchdogs { settings: Some(watchdog), lanes: vec![Watched::default(); self.lanes.len()] };
        self.hot.can_refuse = true;
        self.expect_losses();
    }

    /// A pause frame takes effect; true if the watchdog has it ignored.
    pub(crate) fn watchdog_ignores(
        &mut self,
        port: PortId,
        class: u8,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        let Some(settings) = self.watchdogs.settings else { return false };
        if self.ports[port].from_host != NIL {
            return false;
        }
        let lane = self.lane_index(port, class);
        let watched = &mut self.watchdogs.lanes[lane];
        watched.last_pause = now;
        if !watched.armed {
            watched.armed = true;
            queue.push(now + settings.detection, Event::Watchdog(lane as u32).code());
        }
        watched.in_storm
    }

    /// Whether the queue is in a storm, so that the end of a pause changes nothing.
    pub(crate) fn in_storm(&self, lane: usize) -> bool {
        self.watchdogs.lanes.get(lane).is_some_and(|watched| watched.in_storm)
    }

    /// Whether packets for the queue are dropped.
    pub(crate) fn watchdog_drops(&self, port: PortId, class: u8) -> bool {
        let drops = |settings: Watchdog| settings.action == WatchdogAction::Drop;
        self.watchdogs.settings.is_some_and(drops) && self.in_storm(self.lane_index(port, class))
    }

    /// The detection or the restoration time may be over.
    #[cold]
    pub(crate) fn on_watchdog(&mut self, lane: u32, now: Time, queue: &mut EventQueue) {
        let Some(settings) = self.watchdogs.settings else { return };
        let (port, class) = self.port_and_class(lane);
        let is_paused = self.ports[port].paused & 1 << class != 0;
        let watched = &mut self.watchdogs.lanes[lane as usize];
        watched.armed = false;
        let look_again = if watched.in_storm {
            let over = watched.last_pause + settings.restoration;
            if over <= now {
                self.end_storm(port, class, now, queue);
                return;
            }
            over
        } else if !is_paused {
            return;
        } else {
            let due = self.pauses[lane as usize].since + settings.detection;
            let waits = self.ports[port].ready & 1 << class != 0;
            if due <= now && waits {
                self.begin_storm(port, class, settings.action, now, queue);
                now + settings.restoration
            } else if due <= now {
                now + settings.detection
            } else {
                due
            }
        };
        self.watchdogs.lanes[lane as usize].armed = true;
        queue.push(look_again, Event::Watchdog(lane).code());
    }

    fn begin_storm(
        &mut self,
        port: PortId,
        class: u8,
        action: WatchdogAction,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let lane = self.lane_index(port, class);
        if action == WatchdogAction::Forward {
            self.end_pause(port, class, now);
        }
        let watched = &mut self.watchdogs.lanes[lane];
        watched.in_storm = true;
        watched.storms += 1;
        match action {
            // The class stays paused, so that every packet for it comes the long way and is refused.
            WatchdogAction::Drop => self.discard_queue(port, class, LossReason::Watchdog, now, queue),
            WatchdogAction::Forward => self.kick(port, now, queue),
        }
    }

    pub(crate) fn end_storm(&mut self, port: PortId, class: u8, now: Time, queue: &mut EventQueue) {
        let lane = self.lane_index(port, class);
        self.watchdogs.lanes[lane].in_storm = false;
        self.end_pause(port, class, now);
        self.kick(port, now, queue);
    }

    /// Storms of a lane so far.
    pub(crate) fn storms(&self, lane: usize) -> u64 {
        self.watchdogs.lanes.get(lane).map_or(0, |watched| watched.storms)
    }

    /// The link of `port` has gone: a storm on it is over.
    pub(crate) fn forget_storm(&mut self, lane: usize) {
        if let Some(watched) = self.watchdogs.lanes.get_mut(lane) {
            watched.in_storm = false;
        }
    }
}
