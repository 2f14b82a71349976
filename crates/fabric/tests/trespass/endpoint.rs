//! What a handler of a host might try: this is compiled as a part of `endpoint/`, by `all/reach.rs` alone, which expects the marked lines
//! to be refused, and no other.

use super::node::BorrowedHost;
use crate::context::Context;
use crate::ids::EndpointId;

/// Whatever end it is led to: its own, or the run ends.
pub(super) fn reaches_its_own(mut node: BorrowedHost<'_>, place: EndpointId, ctx: &Context) {
    node.ports.port_state_mut(node.port).tx_pending = true;
    if let Some(end) = node.endpoint_at(place) {
        node.endpoint_mut(end).expects = 0;
    }
    node.count_goodput(0, 1, ctx);
}

#[cfg(trespass = "types")]
mod types {
    use super::BorrowedHost;
    use crate::ids::{EndpointId, HostId};
    use pauseframe_units::PortId;

    fn names_a_port(mut node: BorrowedHost<'_>, other: PortId) {
        node.ports.port_state_mut(other).tx_pending = true; //~ E0308
    }

    fn takes_another_host(node: BorrowedHost<'_>, other: HostId) {
        node.all.hosts[other].held = 0; //~ E0616
    }

    fn names_an_end(mut node: BorrowedHost<'_>, other: EndpointId) {
        node.endpoint_mut(other).expects = 0; //~ E0308
    }

    fn takes_an_end(node: BorrowedHost<'_>, other: EndpointId) {
        let _ = &node.all.ends[other]; //~ E0616
    }
}

#[cfg(trespass = "borrows")]
mod borrows {
    use super::BorrowedHost;
    use crate::endpoint::node::EndpointToken;
    use crate::ids::EndpointId;

    fn takes_an_end_along_to_the_next<'n>(
        node: &BorrowedHost<'_>,
        next: &mut BorrowedHost<'n>,
        place: EndpointId,
    ) {
        let end = node.endpoint_at(place).expect("it is open");
        next.endpoint_mut(end).expects = 0; //~ E0621
    }

    fn keeps_an_end(node: &BorrowedHost<'_>, place: EndpointId) -> Option<EndpointToken<'static>> {
        node.endpoint_at(place) //~ lifetime
    }
}
