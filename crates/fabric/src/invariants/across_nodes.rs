//! Invariants across nodes: no packet disappears between them, and both ends of a link agree on pauses.

use crate::frame::{FrameContent, Packet, PacketFifo};
use crate::ids::SlotId;
use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::switching::cnm::CNM_FRAME_BYTES;
use crate::switching::conweave::PATH_CONTROL_BYTES;
use crate::switching::pool::IngressOccupancy;
use crate::wire::counters::PacketsAndBytes;
use pauseframe_units::{NodeId, PortId};

/// Conservation: packets and bytes that entered or originated at a switch have left it, wait in it, or were lost there.
pub(super) fn check_packet_conservation(view: ObserverView<'_>, switch: NodeId) {
    let node = &view.plan.topology.nodes()[switch];
    let mut came = PacketsAndBytes::default();
    let number = view.plan.switch_id(switch).expect("a switch has a number among them");
    let mut went = view.partition_of_node(switch).ports.by_switch[number].discarded;
    for egress in &node.ports {
        let ingress = egress.reverse();
        came += sent_by_port(view, ingress);
        went += packets_on_wire(view, ingress);
        went += view.peer_partition(ingress).ports.errors.lost_on_wire(ingress);
        went += sent_by_port(view, *egress);
        for slot in iter_slots(view, *egress) {
            let here = view.owner_partition(*egress);
            let cnms = here.ports.counters.merged_counters(slot).cnms_sent;
            came += PacketsAndBytes { packets: cnms, bytes: cnms * u64::from(CNM_FRAME_BYTES) };
            went += PacketsAndBytes::sum_of_packets(fifo_packets(here, here.ports.slots[slot].queue));
            for fifo in here.switching.timed_fifos(slot) {
                went += PacketsAndBytes::sum_of_packets(fifo_packets(here, fifo));
            }
        }
    }
    let here = view.partition_of_node(switch);
    for inside in here.switching.switches[number].pipeline.values() {
        went += PacketsAndBytes::sum_of_packets(fifo_packets(here, *inside));
    }
    if let Some(state) = &here.switching.switches[number].conweave {
        let frames = |packets| PacketsAndBytes { packets, bytes: packets * u64::from(PATH_CONTROL_BYTES) };
        came += frames(state.counts.control_frames);
        went += frames(state.control_frames_received);
        for (_, fifo) in state.held_fifos() {
            went += PacketsAndBytes::sum_of_packets(fifo_packets(here, fifo));
        }
    }
    if let Some(linux) = &here.switching.switches[number].linux {
        for (_, fifo) in linux.unforwarded_fifos() {
            went += PacketsAndBytes::sum_of_packets(fifo_packets(here, fifo));
        }
    }
    if let Some(tunnels) = &here.switching.tunnels {
        came.bytes = came.bytes.saturating_add_signed(tunnels.growth[number]);
    }
    let PacketsAndBytes { packets, bytes } = went;
    assert!(
        came == went,
        "{} packets ({} bytes) have come to {}, and of {packets} ({bytes} bytes) it is known what became of them",
        came.packets,
        came.bytes,
        node.name
    );
}

fn iter_slots(view: ObserverView<'_>, port: PortId) -> impl Iterator<Item = SlotId> {
    (0..view.plan.priorities.len() as u8).map(move |class| view.plan.slot(port, class))
}

/// Packets that a port has transmitted, without pause frames.
fn sent_by_port(view: ObserverView<'_>, port: PortId) -> PacketsAndBytes {
    view.owner_partition(port).ports.sent_by_port(port)
}

/// Packets in flight. Frames lost to a failure stay on the wire but are already counted as lost.
fn packets_on_wire(view: ObserverView<'_>, port: PortId) -> PacketsAndBytes {
    PacketsAndBytes::sum_of_packets(
        frames_on_wire(view, port).filter(|packet| packet.counts_as_transmission()),
    )
}

/// The frames on a wire. On a cross-partition link the first local frame has already left (`boundary.rs`).
fn frames_on_wire(view: ObserverView<'_>, port: PortId) -> impl Iterator<Item = &Packet> {
    let (from, to) = (view.owner_partition(port), view.peer_partition(port));
    let leaving = if std::ptr::eq(from, to) { PacketFifo::EMPTY } else { from.ports.ports[port].in_flight };
    fifo_packets(to, to.ports.ports[port].in_flight).chain(fifo_packets(from, leaving).skip(1))
}

fn fifo_packets(partition: &Partition, packets: PacketFifo) -> impl Iterator<Item = &Packet> {
    packets.iter(&partition.ctx.packets).map(|index| &partition.ctx.packets[index])
}

/// Checks that sender and receiver of a link agree on paused classes, except while a pause frame is in flight.
pub(super) fn check_pause_agreement(view: ObserverView<'_>, port: PortId) {
    let (pause_requester, obeyer) = (view.peer_partition(port), view.owner_partition(port));
    if view.plan.lossless == 0
        || !view.plan.has_ingress_account(port)
        || obeyer.ports.ports[port].is_link_down()
    {
        return;
    }
    if !view.plan.sends_pause_frames(port.reverse()) {
        return;
    }
    let name = || view.plan.topology.port_name(port);
    for class in (0..view.plan.priorities.len() as u8).filter(|class| view.plan.is_lossless(*class)) {
        let requested = check_peer_request(view, port, class & view.plan.account_mask);
        let paused = obeyer.ports.ports[port].paused & 1 << class != 0;
        let obeys = view.plan.obeyed_classes(port) & 1 << class != 0;
        if requested == paused
            || !obeys
            || pause_requester.ports.has_pause_storm(port.reverse())
            || obeyer.ports.watchdogs.storm_count(view.plan.slot(port, class)) > 0
        {
            continue;
        }
        let may_be_lost = pause_requester.ports.errors.can_damage_frames(port.reverse());
        assert!(
            may_be_lost || is_pause_in_transit(view, port, class),
            "class {class} of {} is {}, its peer has asked for {}, and no pause frame is under way",
            name(),
            if paused { "paused" } else { "not paused" },
            if requested { "a pause" } else { "none" },
        );
    }
}

/// Whether the peer of `port` requests a pause; checks that its account agrees.
fn check_peer_request(view: ObserverView<'_>, port: PortId, class: u8) -> bool {
    let pause_requester = view.peer_partition(port);
    let slot = view.plan.slot(port, class);
    let account = &view.peer_ingress_account(port, slot);
    let pool = view.plan.switch_id(view.plan.topology.peer(port)).filter(|_| pause_requester.ctx.hot.shared);
    let agrees = if let Some(switch) = pool {
        let pool =
            &pause_requester.switching.switches[switch].pools[pause_requester.ctx.hot.pool_index(class)];
        let waits = pool.paused.contains(&slot);
        let may_go_on = view
            .peer_pool_limits(port, slot)
            .may_resume(IngressOccupancy::of_account(account), pool.free_bytes());
        if account.pause_sent { waits && !may_go_on } else { !waits && account.in_headroom == 0 }
    } else if account.pause_sent {
        account.bytes > account.limits.xon
    } else {
        account.bytes <= account.limits.xoff
    };
    assert!(
        agrees,
        "the peer of {} {} for a pause of class {class} with {} bytes in its account",
        view.plan.topology.port_name(port),
        if account.pause_sent { "asks" } else { "does not ask" },
        account.bytes
    );
    account.pause_sent
}

/// Whether a pause frame for `port` waits at its peer, is on the wire, or waits for the reaction time.
fn is_pause_in_transit(view: ObserverView<'_>, port: PortId, class: u8) -> bool {
    let (pause_requester, obeyer) = (view.peer_partition(port), view.owner_partition(port));
    let waiting = fifo_packets(pause_requester, pause_requester.ports.waiting_pauses[port.reverse()]);
    let mut frames = waiting.chain(frames_on_wire(view, port.reverse()));
    frames.any(
        |frame| matches!(frame.content, FrameContent::Pause { classes, .. } if classes & 1 << class != 0),
    ) || obeyer.ports.pending_pauses[port].iter().any(|pause| pause.classes & 1 << class != 0)
}
