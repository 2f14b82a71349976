//! What a handler of a switch might try: this is compiled as a part of `switching/`, by `all/reach.rs` alone, which expects the marked lines
//! to be refused, and no other.

use super::node::SwitchNode;
use crate::context::Context;
use pauseframe_units::PortId;

/// Whatever port it is led to: its own, or the run ends.
pub(super) fn reaches_its_own(mut node: SwitchNode<'_>, port: PortId, ctx: &mut Context) {
    let own = node.ports.own_port(port, ctx);
    node.ports.port_mut(own).tx_pending = true;
    node.ports.slot_mut(own.slot(0, &ctx.hot)).waiting += 1;
    node.pool(0, ctx).used += 1;
}

#[cfg(trespass = "types")]
mod types {
    use super::SwitchNode;
    use crate::context::Context;
    use crate::ids::{PackedNode, SlotId, SwitchId};
    use crate::wire::own::NodePorts;
    use pauseframe_units::PortId;

    fn names_a_port(mut node: SwitchNode<'_>, other: PortId) {
        node.ports.port_mut(other).tx_pending = true; //~ E0308
    }

    fn names_a_queue(mut node: SwitchNode<'_>, other: SlotId) {
        node.ports.slot_mut(other).waiting += 1; //~ E0308
    }

    fn names_an_account(mut node: SwitchNode<'_>, other: SlotId) {
        node.ports.ingress_account_mut(other).bytes += 1; //~ E0308
    }

    fn reads_a_port(node: SwitchNode<'_>, other: PortId) -> bool {
        node.ports.port(other).tx_pending //~ E0308
    }

    fn takes_the_arenas(node: SwitchNode<'_>, other: PortId) {
        node.ports.all.ports[other].tx_pending = true; //~ E0616
    }

    fn takes_another_switch(node: SwitchNode<'_>, other: SwitchId) {
        node.all.switches[other].pools[0].used = 0; //~ E0616
    }

    fn becomes_another(node: &mut SwitchNode<'_>, other: PackedNode) {
        node.ports.node = other; //~ E0616
    }

    fn takes_what_it_sends_by_for_what_comes(mut node: SwitchNode<'_>, port: PortId, ctx: &Context) {
        let sends = node.ports.own_port(port, ctx);
        node.ports.ingress_account_mut(sends.slot(0, &ctx.hot)).bytes += 1; //~ E0308
    }

    fn borrows_another(node: SwitchNode<'_>, other: PortId) {
        NodePorts::sending_by(node.ports, other); //~ E0308
    }
}

#[cfg(trespass = "borrows")]
mod borrows {
    use crate::context::Context;
    use crate::wire::Ports;
    use crate::wire::own::{NodePorts, OwnPort};
    use pauseframe_units::PortId;

    fn takes_a_port_along_to_the_next(ports: &mut Ports, [first, next]: [PortId; 2]) {
        let (_, port) = NodePorts::sending_by(ports, first);
        let (mut node, _) = NodePorts::sending_by(ports, next); //~ E0499
        node.port_mut(port).tx_pending = true;
    }

    fn keeps_a_port(node: &NodePorts<'_>, port: PortId, ctx: &Context) -> OwnPort<'static> {
        node.own_port(port, ctx) //~ lifetime
    }
}
