//! Why a pause is asked for: the queues of a switch that hold what came by a port. Noted for those who watch.

use super::own::{InPort, NodePorts, OwnPort};
use crate::context::Context;
use crate::observers::notes::{Note, Noted, PauseName};
use pauseframe_units::PortId;

impl<'n> NodePorts<'n> {
    /// The peer of a slot asks it to pause, for the first time or again.
    pub(super) fn note_request(&self, port: InPort, class: u8, ctx: &mut Context) {
        if !ctx.notes.is_on() {
            return;
        }
        let fullest = if ctx.notes.wants_fullest() { self.fullest_with(port, class, ctx) } else { None };
        let what = Noted::Asked { fullest, parents: self.causes(port, class, ctx) };
        ctx.notes.list.push(Note { at: ctx.now(), slot: port.slot(class, &ctx.hot).id(), what });
    }

    /// The pauses that held back packets which came by `port`, at the queues of the switch that holds them.
    fn causes(&self, port: InPort, class: u8, ctx: &Context) -> Vec<PauseName> {
        let mut causes = Vec::new();
        for egress in self.beside(port, ctx) {
            let slot = egress.slot(class, &ctx.hot);
            let Some((count @ 1.., end)) = ctx.notes.last_pause(slot.id()) else { continue };
            let held = self.slot(slot).queue.iter(&ctx.packets);
            let oldest = held.map(|index| &ctx.packets[index]).find(|packet| packet.ingress == port.id());
            if oldest.is_some_and(|packet| end.is_none_or(|end| end > packet.at)) {
                causes.push((slot.id(), count - 1));
            }
        }
        causes
    }

    /// Of the egress queues at the other end of `port`, the one that holds most of what came from it in `class`.
    fn fullest_with(&self, port: InPort, class: u8, ctx: &Context) -> Option<PortId> {
        let held = |egress: OwnPort| -> u64 {
            let slots = (0..ctx.plan.priorities.len() as u8).map(|out| egress.slot(out, &ctx.hot));
            let waiting = slots.flat_map(|slot| self.slot(slot).queue.iter(&ctx.packets));
            let came = |index| {
                let packet = &ctx.packets[index];
                let same_account = packet.ingress_class & ctx.hot.account_mask == class;
                if packet.ingress == port.id() && same_account { u64::from(packet.size) } else { 0 }
            };
            waiting.map(came).sum()
        };
        let egresses = self.beside(port, ctx);
        let held = egresses.map(|egress| (held(egress), egress.id())).filter(|(bytes, _)| *bytes > 0);
        held.max_by_key(|(bytes, egress)| (*bytes, std::cmp::Reverse(*egress))).map(|(_, egress)| egress)
    }

    /// All ports of the node, the one that answers to `port` among them.
    fn beside(&self, port: InPort, ctx: &Context) -> impl Iterator<Item = OwnPort<'n>> {
        let topology = &ctx.plan.topology;
        topology.nodes()[topology.peer(port.id())].ports.iter().map(|port| self.own(*port, ctx))
    }
}
