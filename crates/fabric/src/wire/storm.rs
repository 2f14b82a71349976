//! Pause storms: a port sends pause frames without congestion, as a broken NIC or a wedged switch does.
//!
//! Each frame pauses one priority and takes link time like any pause frame. A frame that still waits for the frame in service is not queued twice, so
//! the backlog of pause frames stays bounded.

use super::Ports;
use super::own::{NodePorts, OwnPort};
use crate::context::Context;
use crate::event::Event;
use crate::headroom::pause_quanta_time;
use crate::observers::notes::{NoteKind, PauseNote};
use crate::settings::PauseStorm;
use pauseframe_units::PortId;

impl NodePorts<'_> {
    /// Sends the next frames of a storm.
    pub(crate) fn on_pause_storm(
        &mut self,
        number: u32,
        storm: &PauseStorm,
        port: OwnPort,
        ctx: &mut Context,
    ) {
        let now = ctx.now();
        if storm.stop.is_some_and(|stop| stop <= now) {
            return;
        }
        let in_use = ctx.plan.priorities.len() as u8;
        let obeyed = ctx.plan.obeyed_pause_classes(port.peer());
        let mask = ctx.hot.account_mask;
        for class in (0..in_use).filter(|class| class & mask == *class) {
            let is_named = storm.priorities.contains(&ctx.plan.priorities[usize::from(class)]);
            if (is_named || mask == 0) && obeyed & 1 << class != 0 {
                if now == storm.start && storm.quanta > 0 && ctx.notes.is_recording() {
                    let slot = port.ingress_slot(class, &ctx.hot).id();
                    let what = NoteKind::PauseRequested { fullest: None, parents: Vec::new() };
                    ctx.notes.list.push(PauseNote { at: now, slot, what });
                }
                self.send_pause_frame(port, class, storm.quanta, ctx);
            }
        }
        let rate = ctx.plan.rate_from(port.peer());
        let every = storm.every.unwrap_or_else(|| pause_quanta_time(rate, storm.quanta.max(2)) / 2);
        ctx.schedule(now + every, Event::PauseStorm(number));
    }
}

impl Ports {
    /// Whether any storm is configured at `port`.
    pub(crate) fn has_storm(&self, port: PortId) -> bool {
        self.storms.iter().any(|storm| storm.port == port)
    }
}
