//! The PFC watchdog of a switch: a lossless queue that has been paused for too long is taken out of flow control.
//!
//! After `SONiC`'s pfcwd. A non-empty switch queue that has been paused continuously for the detection time is in a storm. Until no pause frame has
//! arrived for the restoration time, it drops its packets and new ones (`Drop`), ignores pauses (`Forward`), or stays paused (`Alert`). Times are
//! exact, or rounded up to the next poll. Deviates from `SONiC`: a pause that ends between two polls ends the detection time; `Drop` works on the
//! stormed egress queue alone, `SONiC` also drops what arrives by the port in that priority.

use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::settings::WatchdogAction;
use crate::wire::counters::LossReason;
use crate::wire::own::PortToken;
use crate::wire::watched::WatchdogCheckResult;

impl<'n> BorrowedSwitch<'n> {
    /// Checks whether the detection or restoration time has passed.
    #[cold]
    pub(crate) fn on_watchdog_check(&mut self, port: PortToken<'n>, class: u8, ctx: &mut Context) {
        let slot = port.egress_token(class, &ctx.hot);
        let is_paused = self.ports.port_state(port).paused & 1 << class != 0;
        let since = is_paused.then(|| self.ports.pause_state_mut(slot).since);
        let waits = self.ports.port_state(port).ready & 1 << class != 0;
        let Some((settings, watched)) = self.ports.queue_watchdog_mut(slot) else { return };
        match watched.check_timers(slot.slot_id(), settings, since, waits, ctx) {
            Some(WatchdogCheckResult::Storm(action)) => self.begin_storm(port, class, action, ctx),
            Some(WatchdogCheckResult::StormOver) => {
                self.ports.clear_storm(slot);
                if settings.action != WatchdogAction::Alert {
                    self.ports.end_pause(port, class, ctx);
                    self.start_or_schedule(port, ctx);
                }
            }
            None => {}
        }
    }

    fn begin_storm(&mut self, port: PortToken<'n>, class: u8, action: WatchdogAction, ctx: &mut Context) {
        if action == WatchdogAction::Forward {
            self.ports.end_pause(port, class, ctx);
        }
        if let Some((_, watched)) = self.ports.queue_watchdog_mut(port.egress_token(class, &ctx.hot)) {
            watched.begin_storm();
        }
        match action {
            // The class stays paused, so every new packet takes the slow path, where it is dropped.
            WatchdogAction::Drop => self.discard_queue(port, class, LossReason::Watchdog, ctx),
            WatchdogAction::Forward => self.start_or_schedule(port, ctx),
            WatchdogAction::Alert => {}
        }
    }
}
