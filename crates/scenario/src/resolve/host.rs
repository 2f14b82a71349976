//! `[routing]` and `[host]`.

use super::reader::Table;
use crate::spec::{HostSpec, NicQueue, RoutingKind, RoutingSpec, WireOverhead};
use pauseframe_units::{Bytes, Span};

pub(crate) fn routing(t: &mut Table) -> RoutingSpec {
    let doc =
        "Next hop among the shortest: by a hash of the flow (ecmp), or at random for every packet (spray)";
    RoutingSpec { kind: t.or("kind", RoutingKind::Ecmp, doc) }
}

pub(crate) fn host(t: &mut Table) -> HostSpec {
    let second = Span::from_secs(1);
    HostSpec {
        mtu: t.or_in("mtu", Bytes(1500), Bytes(576)..=Bytes(9216), "Largest IP packet"),
        tx_delay: t.or_in(
            "tx_delay",
            Span::ZERO,
            Span::ZERO..=second,
            "Time that a segment spends in the stack before the NIC has it",
        ),
        tx_jitter: t.or_in(
            "tx_jitter",
            Span::ZERO,
            Span::ZERO..=second,
            "Up to this much more, at random for each segment, in order: keeps flows from locking in phase",
        ),
        rx_delay: t.or_in(
            "rx_delay",
            Span::ZERO,
            Span::ZERO..=second,
            "Time from the last bit at the NIC to TCP",
        ),
        // cee Table I: 512 KB a NIC.
        nic_buffer: t.or_in(
            "nic_buffer",
            Bytes::kb(512),
            Bytes(1)..=Bytes(4_000_000_000),
            "Bytes that the stack and the NIC hold; sockets wait for room, nothing is dropped",
        ),
        nic_queue: t.or(
            "nic_queue",
            NicQueue::PerDestination,
            "Queues of the NIC: one for each destination, served in turn, or a single one",
        ),
        wire_overhead: t.or(
            "wire_overhead",
            WireOverhead::Ethernet,
            "Header, FCS, preamble and gap of a frame, or none of them, as the papers' simulators have it",
        ),
        refusing: t.or("refusing", Vec::new(), "Hosts where nobody listens: they answer a SYN with RST"),
        silent: t.or("silent", Vec::new(), "Hosts that answer nothing, as if down"),
    }
}
