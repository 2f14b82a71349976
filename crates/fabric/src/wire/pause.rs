//! Priority flow control, IEEE 802.1Qbb: pause frames on the wire, pause timers. PAUSE of a whole link (IEEE 802.3
//! Annex 31B) is the same with one account, that of class 0, and frames that stop all classes.
//!
//! The receiver of a lossless class asks its upstream port to pause when its ingress account passes XOFF. The
//! pause frame waits for the frame in service on the reverse port, takes the link's time, and acts after the
//! reaction time; the frame that is in service then is finished. A pause lasts for its quanta (512 bit times
//! each) and is renewed at half of that while the account stays above XON; a frame with quanta 0 resumes.

//!
//! This file is the side that obeys pauses; `ingress.rs` requests them.

use super::PartitionPorts;
use super::own::{BorrowedNodePorts, EgressQueueToken, PortToken};
use super::paused::PauseFrameInReactionTime;
use super::watched::QueueWatchdog;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{FrameContent, PacketId};
use crate::headroom::quanta_duration;
use crate::ids::SlotId;
use crate::settings::{PfcSettings, PfcWatchdogSettings, WatchdogAction};
use pauseframe_units::{Span, Time};

impl<'n> BorrowedNodePorts<'n> {
    /// Handles a pause frame that arrived by `port`. Returns the port if the pause takes effect at once.
    #[cold]
    pub(crate) fn on_pause_frame(
        &mut self,
        port: PortToken<'n>,
        index: PacketId,
        ctx: &mut Context,
    ) -> Option<PortToken<'n>> {
        let FrameContent::Pause { classes, quanta } = ctx.packets[index].content else { return None };
        ctx.packets.remove(index);
        let reaction = ctx.settings.pfc.as_ref().map_or(Span::ZERO, |pfc| {
            PfcSettings::reaction_time(Some(pfc), self.port_state(port).rate.rate())
        });
        let pause = PauseFrameInReactionTime { effect_at: ctx.now() + reaction, classes, quanta };
        if reaction == Span::ZERO {
            self.apply_pause(port, pause, ctx);
            return Some(port);
        }
        let waiting = self.pauses_in_reaction_mut(port);
        waiting.push_back(pause);
        if waiting.len() == 1 {
            ctx.schedule_event(pause.effect_at, Event::PauseEffect(port.port_id()));
        }
        None
    }

    /// The reaction time of the first pause frame at `port` is over.
    pub(crate) fn on_pause_effect(&mut self, port: PortToken, ctx: &mut Context) {
        let pause = self.pauses_in_reaction_mut(port).pop_front().expect("a pause effect has a pause frame");
        if let Some(next) = self.pauses_in_reaction_mut(port).front() {
            ctx.schedule_event(next.effect_at, Event::PauseEffect(port.port_id()));
        }
        self.apply_pause(port, pause, ctx);
    }

    fn apply_pause(&mut self, port: PortToken, pause: PauseFrameInReactionTime, ctx: &mut Context) {
        let in_use = ctx.plan.priorities.len() as u8;
        let classes = pause.classes & ctx.plan.obeyed_classes(port.port_id());
        for class in (0..in_use).filter(|class| classes & 1 << class != 0) {
            if pause.quanta == 0 {
                let slot = port.egress_token(class, &ctx.hot);
                self.pause_state_mut(slot).resumes_received +=
                    u64::from(class & ctx.hot.account_mask == class);
                self.end_pause(port, class, ctx);
            } else {
                let until = ctx.now() + quanta_duration(self.port_state(port).rate.rate(), pause.quanta);
                self.begin_pause(port, class, until, ctx);
            }
        }
    }

    fn begin_pause(&mut self, port: PortToken, class: u8, until: Time, ctx: &mut Context) {
        let (slot, now) = (port.egress_token(class, &ctx.hot), ctx.now());
        let bit = 1 << class;
        self.pause_state_mut(slot).pauses_received += u64::from(class & ctx.hot.account_mask == class);
        if self.notify_watchdog(port, class, ctx) {
            return;
        }
        let is_new = self.port_state(port).paused & bit == 0;
        self.port_state_mut(port).paused |= bit;
        let state = self.pause_state_mut(slot);
        if is_new {
            state.since = now;
            ctx.notes.record_start(slot.slot_id(), now);
        }
        state.until = until;
        if state.expiry_at.is_none() {
            state.expiry_at = Some(until);
            ctx.schedule_event(until, Event::PauseExpiry(slot.slot_id()));
        }
    }

    /// Ends the pause of a class, unless a watchdog blocks the queue.
    pub(crate) fn end_pause(&mut self, port: PortToken, class: u8, ctx: &mut Context) {
        let (slot, now) = (port.egress_token(class, &ctx.hot), ctx.now());
        let bit = 1 << class;
        if self.port_state(port).paused & bit != 0 && !self.ignores_pauses(slot) {
            self.port_state_mut(port).paused &= !bit;
            ctx.notes.record_end(slot.slot_id(), now);
            let state = self.pause_state_mut(slot);
            let length = now - state.since;
            state.total += length;
            state.longest = state.longest.max(length);
        }
    }

    /// Clears all pauses after the link of `port` went down: active, pending and waiting to be sent.
    pub(super) fn clear_pauses(&mut self, port: PortToken, ctx: &mut Context) {
        if self.can_pause() {
            self.discard_unsent_pauses(port, ctx);
            // Events of pauses that wait for the reaction time stay scheduled but have no effect.
            for pause in self.pauses_in_reaction_mut(port) {
                pause.classes = 0;
            }
            for class in 0..ctx.plan.priorities.len() as u8 {
                self.clear_storm(port.egress_token(class, &ctx.hot));
                self.end_pause(port, class, ctx);
            }
        }
    }

    /// Discards the waiting pause frames.
    fn discard_unsent_pauses(&mut self, port: PortToken, ctx: &mut Context) {
        while let Some(index) = self.unsent_pauses_mut(port).pop_front(&ctx.packets) {
            ctx.packets.remove(index);
        }
        self.port_state_mut(port).pauses_wait = false;
    }

    /// Whether the pause timer has expired. If the pause was renewed meanwhile, schedules a new check.
    pub(crate) fn end_pause_if_expired(&mut self, port: PortToken, class: u8, ctx: &mut Context) -> bool {
        let slot = port.egress_token(class, &ctx.hot);
        let is_paused = self.port_state(port).paused & 1 << class != 0;
        let state = self.pause_state_mut(slot);
        state.expiry_at = None;
        if !is_paused {
            return false;
        }
        if state.until > ctx.now() {
            state.expiry_at = Some(state.until);
            ctx.schedule_event(state.until, Event::PauseExpiry(slot.slot_id()));
            return false;
        }
        self.end_pause(port, class, ctx);
        true
    }

    /// Informs the watchdog of a pause frame; true if the watchdog ignores it.
    fn notify_watchdog(&mut self, port: PortToken, class: u8, ctx: &mut Context) -> bool {
        let slot = port.egress_token(class, &ctx.hot);
        let is_exempt = ctx.plan.pfc_rule(port.port_id()).is_some_and(|rule| rule.watchdog == Some(false));
        if !self.owner_node().is_switch() || is_exempt {
            return false;
        }
        self.queue_watchdog_mut(slot)
            .is_some_and(|(settings, watched)| watched.record_pause_frame(slot.slot_id(), settings, ctx))
    }

    /// Whether the watchdog has taken the queue out of flow control, so pauses have no effect.
    pub(super) fn ignores_pauses(&mut self, slot: EgressQueueToken) -> bool {
        self.queue_watchdog_mut(slot).is_some_and(|(settings, watched)| watched.ignores_pauses(settings))
    }

    /// Whether the watchdog drops packets for the queue.
    pub(crate) fn drops_in_storm(&mut self, slot: EgressQueueToken) -> bool {
        let drops = |(settings, watched): (PfcWatchdogSettings, &mut QueueWatchdog)| {
            settings.action == WatchdogAction::Drop && watched.in_storm
        };
        self.queue_watchdog_mut(slot).is_some_and(drops)
    }

    /// Clears a storm after its end or a link failure.
    pub(crate) fn clear_storm(&mut self, slot: EgressQueueToken) {
        if let Some((_, watched)) = self.queue_watchdog_mut(slot) {
            watched.in_storm = false;
        }
    }
}

impl PartitionPorts {
    /// Total paused time of a slot up to `now`, including a current pause, and the longest pause.
    pub(crate) fn pause_times(&self, slot: SlotId, is_paused: bool, now: Time) -> (Span, Span) {
        let state = self.pauses.get(slot).copied().unwrap_or_default();
        if !is_paused {
            return (state.total, state.longest);
        }
        let current = now.saturating_since(state.since);
        (state.total + current, state.longest.max(current))
    }
}
