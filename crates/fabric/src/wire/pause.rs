//! Priority flow control, IEEE 802.1Qbb: pause frames on the wire, pause timers. PAUSE of a whole link (IEEE 802.3
//! Annex 31B) is the same with one account, that of class 0, and frames that stop all classes.
//!
//! The receiver of a lossless class asks its upstream port to pause when its ingress account passes XOFF. The
//! pause frame waits for the frame in service on the reverse port, takes the link's time, and acts after the
//! reaction time; the frame that is in service then is finished. A pause lasts for its quanta (512 bit times
//! each) and is renewed at half of that while the account stays above XON; a frame with quanta 0 resumes.

//!
//! This file is the side that obeys pauses; `ingress.rs` requests them.

use super::Ports;
use super::own::{NodePorts, OwnPort, OwnSlot};
use super::paused::PendingPause;
use super::watched::QueueWatchdog;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{FrameKind, PacketId};
use crate::headroom::pause_quanta_time;
use crate::ids::SlotId;
use crate::settings::{PfcWatchdogSettings, WatchdogAction};
use pauseframe_units::{Span, Time};

impl<'n> NodePorts<'n> {
    /// Handles a pause frame that arrived by `port`. Returns the port if the pause takes effect at once.
    #[cold]
    pub(crate) fn on_pause_frame(
        &mut self,
        port: OwnPort<'n>,
        index: PacketId,
        ctx: &mut Context,
    ) -> Option<OwnPort<'n>> {
        let FrameKind::Pause { classes, quanta } = ctx.packets[index].content else { return None };
        ctx.packets.remove(index);
        let reaction = ctx.settings.pfc.as_ref().map_or(Span::ZERO, |pfc| pfc.reaction);
        let pause = PendingPause { effect_at: ctx.now() + reaction, classes, quanta };
        if reaction == Span::ZERO {
            self.apply_pause(port, pause, ctx);
            return Some(port);
        }
        let waiting = self.pending_pauses(port);
        waiting.push_back(pause);
        if waiting.len() == 1 {
            ctx.schedule(pause.effect_at, Event::PauseEffect(port.id()));
        }
        None
    }

    /// The reaction time of the first pause frame at `port` is over.
    pub(crate) fn on_pause_effect(&mut self, port: OwnPort, ctx: &mut Context) {
        let pause = self.pending_pauses(port).pop_front().expect("a pause effect has a pause frame");
        if let Some(next) = self.pending_pauses(port).front() {
            ctx.schedule(next.effect_at, Event::PauseEffect(port.id()));
        }
        self.apply_pause(port, pause, ctx);
    }

    fn apply_pause(&mut self, port: OwnPort, pause: PendingPause, ctx: &mut Context) {
        let in_use = ctx.plan.priorities.len() as u8;
        let classes = pause.classes & ctx.plan.obeyed_pause_classes(port.id());
        for class in (0..in_use).filter(|class| classes & 1 << class != 0) {
            if pause.quanta == 0 {
                let slot = port.slot(class, &ctx.hot);
                self.pause_state(slot).resumes_received += u64::from(class & ctx.hot.account_mask == class);
                self.end_pause(port, class, ctx);
            } else {
                let until = ctx.now() + pause_quanta_time(self.port(port).rate.rate(), pause.quanta);
                self.begin_pause(port, class, until, ctx);
            }
        }
    }

    fn begin_pause(&mut self, port: OwnPort, class: u8, until: Time, ctx: &mut Context) {
        let (slot, now) = (port.slot(class, &ctx.hot), ctx.now());
        let bit = 1 << class;
        self.pause_state(slot).pauses_received += u64::from(class & ctx.hot.account_mask == class);
        if self.watchdog_ignores_pause(port, class, ctx) {
            return;
        }
        let is_new = self.port(port).paused & bit == 0;
        self.port_mut(port).paused |= bit;
        let state = self.pause_state(slot);
        if is_new {
            state.since = now;
            ctx.notes.note_pause(slot.id(), now);
        }
        state.until = until;
        if state.expiry_at.is_none() {
            state.expiry_at = Some(until);
            ctx.schedule(until, Event::PauseExpiry(slot.id()));
        }
    }

    /// Ends the pause of a class, unless a watchdog blocks the queue.
    pub(crate) fn end_pause(&mut self, port: OwnPort, class: u8, ctx: &mut Context) {
        let (slot, now) = (port.slot(class, &ctx.hot), ctx.now());
        let bit = 1 << class;
        if self.port(port).paused & bit != 0 && !self.is_out_of_flow_control(slot) {
            self.port_mut(port).paused &= !bit;
            ctx.notes.note_resume(slot.id(), now);
            let state = self.pause_state(slot);
            let length = now - state.since;
            state.total += length;
            state.longest = state.longest.max(length);
        }
    }

    /// Clears all pauses after the link of `port` went down: active, pending and waiting to be sent.
    pub(super) fn reset_pauses(&mut self, port: OwnPort, ctx: &mut Context) {
        if self.can_pause() {
            self.discard_waiting_pauses(port, ctx);
            // Events of pauses that wait for the reaction time stay scheduled but have no effect.
            for pause in self.pending_pauses(port) {
                pause.classes = 0;
            }
            for class in 0..ctx.plan.priorities.len() as u8 {
                self.clear_storm(port.slot(class, &ctx.hot));
                self.end_pause(port, class, ctx);
            }
        }
    }

    /// Discards the waiting pause frames.
    fn discard_waiting_pauses(&mut self, port: OwnPort, ctx: &mut Context) {
        while let Some(index) = self.waiting_pauses(port).pop_front(&ctx.packets) {
            ctx.packets.remove(index);
        }
        self.port_mut(port).pauses_wait = false;
    }

    /// Whether the pause timer has expired. If the pause was renewed meanwhile, schedules a new check.
    pub(crate) fn has_pause_expired(&mut self, port: OwnPort, class: u8, ctx: &mut Context) -> bool {
        let slot = port.slot(class, &ctx.hot);
        let is_paused = self.port(port).paused & 1 << class != 0;
        let state = self.pause_state(slot);
        state.expiry_at = None;
        if !is_paused {
            return false;
        }
        if state.until > ctx.now() {
            state.expiry_at = Some(state.until);
            ctx.schedule(state.until, Event::PauseExpiry(slot.id()));
            return false;
        }
        self.end_pause(port, class, ctx);
        true
    }

    /// Informs the watchdog of a pause frame; true if the watchdog ignores it.
    fn watchdog_ignores_pause(&mut self, port: OwnPort, class: u8, ctx: &mut Context) -> bool {
        let slot = port.slot(class, &ctx.hot);
        if !self.node().is_switch() {
            return false;
        }
        self.watchdog(slot)
            .is_some_and(|(settings, watched)| watched.on_pause_frame(slot.id(), settings, ctx))
    }

    /// Whether the watchdog has taken the queue out of flow control, so pauses have no effect.
    pub(super) fn is_out_of_flow_control(&mut self, slot: OwnSlot) -> bool {
        self.watchdog(slot).is_some_and(|(settings, watched)| watched.is_out_of_flow_control(settings))
    }

    /// Whether the watchdog drops packets for the queue.
    pub(crate) fn drops_in_storm(&mut self, slot: OwnSlot) -> bool {
        let drops = |(settings, watched): (PfcWatchdogSettings, &mut QueueWatchdog)| {
            settings.action == WatchdogAction::Drop && watched.in_storm
        };
        self.watchdog(slot).is_some_and(drops)
    }

    /// Clears a storm after its end or a link failure.
    pub(crate) fn clear_storm(&mut self, slot: OwnSlot) {
        if let Some((_, watched)) = self.watchdog(slot) {
            watched.in_storm = false;
        }
    }
}

impl Ports {
    /// Total paused time of a slot up to `now`, including a current pause, and the longest pause.
    pub(crate) fn paused_time(&self, slot: SlotId, is_paused: bool, now: Time) -> (Span, Span) {
        let state = self.pauses.get(slot).copied().unwrap_or_default();
        if !is_paused {
            return (state.total, state.longest);
        }
        let current = now.saturating_since(state.since);
        (state.total + current, state.longest.max(current))
    }
}
