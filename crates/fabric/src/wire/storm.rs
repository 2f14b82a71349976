//! A storm of pause frames: a port that sends them although nothing asks for them, as a broken NIC or a wedged switch does.
//!
//! Each frame is about one priority and takes the link's time as any other pause frame. One that still waits for the frame in service is
//! not sent twice, so a port never has more of them than it can send.

use super::Ports;
use super::own::{NodePorts, OwnPort};
use crate::context::Context;
use crate::event::Event;
use crate::headroom::pause_time;
use crate::observers::notes::{Note, Noted};
use crate::settings::PauseStorm;
use pauseframe_units::PortId;

impl NodePorts<'_> {
    /// A port of the node sends the next frames of its storm.
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
        let obeyed = ctx.plan.obeyed(port.reverse().id());
        let mask = ctx.hot.account_mask;
        for class in (0..in_use).filter(|class| class & mask == *class) {
            let is_named = storm.priorities.contains(&ctx.plan.priorities[usize::from(class)]);
            if (is_named || mask == 0) && obeyed & 1 << class != 0 {
                if now == storm.start && storm.quanta > 0 && ctx.notes.is_on() {
                    let slot = port.reverse().slot(class, &ctx.hot).id();
                    let what = Noted::Asked { fullest: None, parents: Vec::new() };
                    ctx.notes.list.push(Note { at: now, slot, what });
                }
                self.send_pause_frame(port, class, storm.quanta, ctx);
            }
        }
        let rate = ctx.plan.rate_from(port.reverse().id());
        let every = storm.every.unwrap_or_else(|| pause_time(rate, storm.quanta.max(2)) / 2);
        ctx.schedule(now + every, Event::PauseStorm(number));
    }
}

impl Ports {
    /// Whether a storm leaves by `port`, at whatever time.
    pub(crate) fn has_storm(&self, port: PortId) -> bool {
        self.storms.iter().any(|storm| storm.port == port)
    }
}
