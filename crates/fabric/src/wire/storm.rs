//! Pause storms: a port sends pause frames without congestion, as a broken NIC or a wedged switch does.
//!
//! Each frame pauses one priority and takes link time like any pause frame. A frame that still waits for the frame in service is not queued twice, so
//! the backlog of pause frames stays bounded.

use super::PartitionPorts;
use super::own::{BorrowedNodePorts, PortToken};
use crate::context::Context;
use crate::event::Event;
use crate::headroom::quanta_duration;
use crate::observers::notes::{PauseChange, PauseChangeKind};
use crate::settings::PauseStorm;
use pauseframe_units::PortId;

impl BorrowedNodePorts<'_> {
    /// Sends the next frames of a storm.
    pub(crate) fn send_storm_frames(
        &mut self,
        number: u32,
        storm: &PauseStorm,
        port: PortToken,
        ctx: &mut Context,
    ) {
        let now = ctx.now();
        if storm.stop.is_some_and(|stop| stop <= now) {
            return;
        }
        let in_use = ctx.plan.priorities.len() as u8;
        let obeyed = ctx.plan.obeyed_classes(port.peer_port_id());
        let mask = ctx.hot.account_mask;
        for class in (0..in_use).filter(|class| class & mask == *class) {
            let is_named = storm.priorities.contains(&ctx.plan.priorities[usize::from(class)]);
            if (is_named || mask == 0) && obeyed & 1 << class != 0 {
                if now == storm.start && storm.quanta > 0 && ctx.notes.is_recording() {
                    let slot = port.ingress_token(class, &ctx.hot).slot_id();
                    let what = PauseChangeKind::PauseRequested { fullest: None, parents: Vec::new() };
                    ctx.notes.list.push(PauseChange { at: now, slot, what });
                }
                self.send_pause_frame(port, class, storm.quanta, ctx);
            }
        }
        let rate = ctx.plan.link_rate(port.peer_port_id());
        let every = storm.every.unwrap_or_else(|| quanta_duration(rate, storm.quanta.max(2)) / 2);
        ctx.schedule_event(now + every, Event::PauseStorm(number));
    }
}

impl PartitionPorts {
    /// Whether any storm is configured at `port`.
    pub(crate) fn has_pause_storm(&self, port: PortId) -> bool {
        self.storms.iter().any(|storm| storm.port == port)
    }
}
