//! The PFC watchdog of a switch: a lossless queue that has been paused for too long is taken out of flow control.
//!
//! After `SONiC`'s pfcwd. A queue of a switch with packets in it that has been paused without a break for the detection
//! time is in a storm. Until no pause frame for it has come for the restoration time it then either drops what it
//! holds and gets (`Drop`), or sends in spite of pauses (`Forward`).
//! Deviates from `SONiC`: the times are exact, where `SONiC` polls (every 100 ms or more); `Drop` works on the
//! stormed egress queue alone, `SONiC` also drops what arrives by the port in that priority.

use super::Switching;
use crate::ids::SlotId;
use crate::near::Near;
use crate::settings::WatchdogAction;
use crate::wire::Ports;
use crate::wire::counters::LossReason;
use crate::wire::watched::Verdict;
use pauseframe_units::PortId;

impl Switching {
    /// The detection or the restoration time may be over.
    #[cold]
    pub(crate) fn on_watchdog(&mut self, slot: SlotId, ports: &mut Ports, near: &mut Near) {
        let (port, class) = near.hot.port_and_class(slot);
        let is_paused = ports.ports[port].paused & 1 << class != 0;
        let since = is_paused.then(|| ports.pauses[slot].since);
        let waits = ports.ports[port].ready & 1 << class != 0;
        match ports.watchdogs.look(slot, since, waits, near) {
            Some(Verdict::Storm(action)) => self.begin_storm(port, class, action, ports, near),
            Some(Verdict::StormOver) => {
                ports.watchdogs.forget_storm(slot);
                ports.end_pause(port, class, near);
                self.kick(port, ports, near);
            }
            None => {}
        }
    }

    fn begin_storm(
        &mut self,
        port: PortId,
        class: u8,
        action: WatchdogAction,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        if action == WatchdogAction::Forward {
            ports.end_pause(port, class, near);
        }
        ports.watchdogs.begin_storm(near.hot.slot(port, class));
        match action {
            // The class stays paused, so that every packet for it comes the long way and is refused.
            WatchdogAction::Drop => self.discard_queue(port, class, LossReason::Watchdog, ports, near),
            WatchdogAction::Forward => self.kick(port, ports, near),
        }
    }
}
