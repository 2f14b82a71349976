//! What a handler of a switch might try: this is compiled as a part of `switching/`, by `all/reach.rs` alone, which expects the marked lines
//! to be refused, and no other.

use super::node::BorrowedSwitch;
use crate::context::Context;
use pauseframe_units::PortId;

/// Whatever port it is led to: its own, or the run ends.
pub(super) fn reaches_its_own(mut node: BorrowedSwitch<'_>, port: PortId, ctx: &mut Context) {
    let own = node.ports.port_token(port, ctx);
    node.ports.port_state_mut(own).tx_pending = true;
    node.ports.egress_queue_mut(own.egress_token(0, &ctx.hot)).waiting += 1;
    node.shared_pool_mut(0, ctx).used += 1;
}

#[cfg(trespass = "types")]
mod types {
    use super::BorrowedSwitch;
    use crate::context::Context;
    use crate::ids::{PackedNodeId, SlotId, SwitchId};
    use crate::wire::own::BorrowedNodePorts;
    use pauseframe_units::PortId;

    fn names_a_port(mut node: BorrowedSwitch<'_>, other: PortId) {
        node.ports.port_state_mut(other).tx_pending = true; //~ E0308
    }

    fn names_a_queue(mut node: BorrowedSwitch<'_>, other: SlotId) {
        node.ports.egress_queue_mut(other).waiting += 1; //~ E0308
    }

    fn names_an_account(mut node: BorrowedSwitch<'_>, other: SlotId) {
        node.ports.ingress_account_mut(other).bytes += 1; //~ E0308
    }

    fn reads_a_port(node: BorrowedSwitch<'_>, other: PortId) -> bool {
        node.ports.port_state(other).tx_pending //~ E0308
    }

    fn takes_the_arenas(node: BorrowedSwitch<'_>, other: PortId) {
        node.ports.all.ports[other].tx_pending = true; //~ E0616
    }

    fn takes_another_switch(node: BorrowedSwitch<'_>, other: SwitchId) {
        node.all.switches[other].pools[0].used = 0; //~ E0616
    }

    fn becomes_another(node: &mut BorrowedSwitch<'_>, other: PackedNodeId) {
        node.ports.node = other; //~ E0616
    }

    fn takes_what_it_sends_by_for_what_comes(mut node: BorrowedSwitch<'_>, port: PortId, ctx: &Context) {
        let sends = node.ports.port_token(port, ctx);
        node.ports.ingress_account_mut(sends.egress_token(0, &ctx.hot)).bytes += 1; //~ E0308
    }

    fn borrows_another(node: BorrowedSwitch<'_>, other: PortId) {
        BorrowedNodePorts::borrow_sender(node.ports, other); //~ E0308
    }
}

#[cfg(trespass = "borrows")]
mod borrows {
    use crate::context::Context;
    use crate::wire::PartitionPorts;
    use crate::wire::own::{BorrowedNodePorts, PortToken};
    use pauseframe_units::PortId;

    fn takes_a_port_along_to_the_next(ports: &mut PartitionPorts, [first, next]: [PortId; 2]) {
        let (_, port) = BorrowedNodePorts::borrow_sender(ports, first);
        let (mut node, _) = BorrowedNodePorts::borrow_sender(ports, next); //~ E0499
        node.port_state_mut(port).tx_pending = true;
    }

    fn keeps_a_port(node: &BorrowedNodePorts<'_>, port: PortId, ctx: &Context) -> PortToken<'static> {
        node.port_token(port, ctx) //~ lifetime
    }
}
