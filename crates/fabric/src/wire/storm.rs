//! A storm of pause frames: a port that sends them although nothing asks for them, as a broken NIC or a wedged switch does.
//!
//! Each frame is about one priority and takes the link's time as any other pause frame. One that still waits for the frame in service is
//! not sent twice, so a port never has more of them than it can send.

use super::Ports;
use super::own::{NodePorts, OwnPort};
use crate::event::Event;
use crate::headroom::pause_time;
use crate::near::Near;
use crate::settings::PauseStorm;
use crate::watch::notes::{Note, Noted};
use pauseframe_units::PortId;

impl NodePorts<'_> {
    /// A port of the node sends the next frames of its storm.
    pub(crate) fn on_pause_storm(&mut self, number: u32, storm: &PauseStorm, port: OwnPort, near: &mut Near) {
        let now = near.now();
        if storm.stop.is_some_and(|stop| stop <= now) {
            return;
        }
        let in_use = near.plan.priorities.len() as u8;
        let obeyed = near.plan.obeyed(port.reverse().id());
        let mask = near.hot.account_mask;
        for class in (0..in_use).filter(|class| class & mask == *class) {
            let is_named = storm.priorities.contains(&near.plan.priorities[usize::from(class)]);
            if (is_named || mask == 0) && obeyed & 1 << class != 0 {
                if now == storm.start && storm.quanta > 0 && near.notes.is_on() {
                    let slot = port.reverse().slot(class, &near.hot).id();
                    let what = Noted::Asked { fullest: None, parents: Vec::new() };
                    near.notes.list.push(Note { at: now, slot, what });
                }
                self.send_pause_frame(port, class, storm.quanta, near);
            }
        }
        let rate = near.plan.rate_from(port.reverse().id());
        let every = storm.every.unwrap_or_else(|| pause_time(rate, storm.quanta.max(2)) / 2);
        near.schedule(now + every, Event::PauseStorm(number));
    }
}

impl Ports {
    /// Whether a storm leaves by `port`, at whatever time.
    pub(crate) fn has_storm(&self, port: PortId) -> bool {
        self.storms.iter().any(|storm| storm.port == port)
    }
}
