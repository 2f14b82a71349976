//! Causes of a pause request: the egress queues of a switch that hold packets from a port. Recorded for observers.

use super::own::{BorrowedNodePorts, PortToken};
use crate::context::Context;
use crate::observers::notes::{PauseChange, PauseChangeKind, PauseNumber};
use pauseframe_units::PortId;

impl<'n> BorrowedNodePorts<'n> {
    /// Records a pause request, first or repeated.
    pub(super) fn record_pause_request(&self, port: PortToken, class: u8, ctx: &mut Context) {
        if !ctx.notes.is_recording() {
            return;
        }
        let fullest =
            if ctx.notes.records_fullest_queue() { self.find_fullest_egress(port, class, ctx) } else { None };
        let what =
            PauseChangeKind::PauseRequested { fullest, parents: self.causing_pauses(port, class, ctx) };
        ctx.notes.list.push(PauseChange {
            at: ctx.now(),
            slot: port.ingress_token(class, &ctx.hot).slot_id(),
            what,
        });
    }

    /// The pauses at egress queues of the switch that hold packets from `port`.
    fn causing_pauses(&self, port: PortToken, class: u8, ctx: &Context) -> Vec<PauseNumber> {
        let mut causes = Vec::new();
        for egress in self.node_ports(port, ctx) {
            let slot = egress.egress_token(class, &ctx.hot);
            let Some((count @ 1.., end)) = ctx.notes.last_pause(slot.slot_id()) else {
                continue;
            };
            let held = self.egress_queue(slot).queue.iter(&ctx.packets);
            let oldest =
                held.map(|index| &ctx.packets[index]).find(|packet| packet.ingress == port.peer_port_id());
            if oldest.is_some_and(|packet| end.is_none_or(|end| end > packet.at)) {
                causes.push((slot.slot_id(), count - 1));
            }
        }
        causes
    }

    /// The egress queue of the switch that holds most bytes from `port` in `class`.
    fn find_fullest_egress(&self, port: PortToken, class: u8, ctx: &Context) -> Option<PortId> {
        let held = |egress: PortToken| -> u64 {
            let slots = (0..ctx.plan.priorities.len() as u8).map(|out| egress.egress_token(out, &ctx.hot));
            let waiting = slots.flat_map(|slot| self.egress_queue(slot).queue.iter(&ctx.packets));
            let came = |index| {
                let packet = &ctx.packets[index];
                let same_account = packet.ingress_class & ctx.hot.account_mask == class;
                if packet.ingress == port.peer_port_id() && same_account { u64::from(packet.size) } else { 0 }
            };
            waiting.map(came).sum()
        };
        let egresses = self.node_ports(port, ctx);
        let held = egresses.map(|egress| (held(egress), egress.port_id())).filter(|(bytes, _)| *bytes > 0);
        held.max_by_key(|(bytes, egress)| (*bytes, std::cmp::Reverse(*egress))).map(|(_, egress)| egress)
    }

    /// All ports of the node, including `port`.
    fn node_ports(&self, port: PortToken, ctx: &Context) -> impl Iterator<Item = PortToken<'n>> {
        let topology = &ctx.plan.topology;
        topology.nodes()[topology.owner(port.port_id())].ports.iter().map(|port| self.port_token(*port, ctx))
    }
}
