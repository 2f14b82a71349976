//! Why a pause is asked for: the queues of a switch that hold what came by a port. Noted for those who watch.

use super::Ports;
use crate::near::Near;
use crate::watch::notes::{Note, Noted, PauseName};
use pauseframe_units::PortId;

impl Ports {
    /// The peer of a slot asks it to pause, for the first time or again.
    pub(super) fn note_request(&self, port: PortId, class: u8, near: &mut Near) {
        if !near.notes.is_on() {
            return;
        }
        let fullest = if near.notes.wants_fullest() { self.fullest_with(port, class, near) } else { None };
        let what = Noted::Asked { fullest, parents: self.causes(port, class, near) };
        near.notes.list.push(Note { at: near.now(), slot: near.hot.slot(port, class), what });
    }

    /// The pauses that held back packets which came by `port`, at the queues of the switch that holds them.
    fn causes(&self, port: PortId, class: u8, near: &Near) -> Vec<PauseName> {
        let mut causes = Vec::new();
        for egress in &near.plan.topology.nodes()[near.plan.topology.peer(port)].ports {
            let slot = near.hot.slot(*egress, class);
            let Some((count @ 1.., end)) = near.notes.last_pause(slot) else { continue };
            let held = self.slots[slot].queue.iter(&near.packets);
            let oldest = held.map(|index| &near.packets[index]).find(|packet| packet.ingress == port);
            if oldest.is_some_and(|packet| end.is_none_or(|end| end > packet.at)) {
                causes.push((slot, count - 1));
            }
        }
        causes
    }

    /// Of the egress queues at the other end of `port`, the one that holds most of what came from it in `class`.
    fn fullest_with(&self, port: PortId, class: u8, near: &Near) -> Option<PortId> {
        let held = |egress: &PortId| -> u64 {
            let slots = (0..near.plan.priorities.len() as u8).map(|out| near.hot.slot(*egress, out));
            let waiting = slots.flat_map(|slot| self.slots[slot].queue.iter(&near.packets));
            let came = |index| {
                let packet = &near.packets[index];
                let same_account = packet.ingress_class & near.hot.account_mask == class;
                if packet.ingress == port && same_account { u64::from(packet.size) } else { 0 }
            };
            waiting.map(came).sum()
        };
        let egresses = near.plan.topology.nodes()[near.plan.topology.peer(port)].ports.iter();
        let held = egresses.map(|egress| (held(egress), *egress)).filter(|(bytes, _)| *bytes > 0);
        held.max_by_key(|(bytes, egress)| (*bytes, std::cmp::Reverse(*egress))).map(|(_, egress)| egress)
    }
}
