//! What only several nodes together know: that nothing is lost between them, and that both ends of a link see the same pause.

use crate::frame::{Content, Fifo, Packet};
use crate::ids::SlotId;
use crate::observers::view::View;
use crate::partition::Partition;
use crate::switching::cnm::CNM_FRAME;
use crate::switching::pool::Standing;
use crate::wire::counters::Amount;
use pauseframe_units::{NodeId, PortId};

/// What has come to a switch, or came to be there, has left it, waits in it, or was lost there: packets and bytes.
pub(super) fn check_flow(view: View<'_>, switch: NodeId) {
    let node = &view.plan.topology.nodes()[switch];
    let mut came = Amount::default();
    let number = view.plan.switch(switch).expect("a switch has a number among them");
    let mut went = view.partition(switch).ports.by_switch[number].gone;
    for egress in &node.ports {
        let ingress = egress.reverse();
        came += sent(view, ingress);
        went += in_flight_frames(view, ingress);
        went += view.receiver(ingress).ports.errors.lost_on_wire(ingress);
        went += sent(view, *egress);
        for slot in slots(view, *egress) {
            let here = view.sender(*egress);
            let cnms = here.ports.counters.of(slot).cnms_sent;
            came += Amount { packets: cnms, bytes: cnms * u64::from(CNM_FRAME) };
            went += Amount::sum(chain(here, here.ports.slots[slot].queue));
        }
    }
    let Amount { packets, bytes } = went;
    assert!(
        came == went,
        "{} packets ({} bytes) have come to {}, and of {packets} ({bytes} bytes) it is known what became of them",
        came.packets,
        came.bytes,
        node.name
    );
}

fn slots(view: View<'_>, port: PortId) -> impl Iterator<Item = SlotId> {
    (0..view.plan.priorities.len() as u8).map(move |class| view.plan.slot(port, class))
}

/// What a port has put on its wire, pause frames not counted.
fn sent(view: View<'_>, port: PortId) -> Amount {
    view.sender(port).ports.sent_by(port)
}

/// What is still there. What a failure has taken has been counted as lost, and keeps its place only.
fn in_flight_frames(view: View<'_>, port: PortId) -> Amount {
    Amount::sum(frames(view, port).filter(|packet| packet.is_counted()))
}

/// The frames on a wire. Where it ends in another partition, the first one here has left (`boundary.rs`).
fn frames(view: View<'_>, port: PortId) -> impl Iterator<Item = &Packet> {
    let (from, to) = (view.sender(port), view.receiver(port));
    let leaving = if std::ptr::eq(from, to) { Fifo::EMPTY } else { from.ports.ports[port].in_flight };
    chain(to, to.ports.ports[port].in_flight).chain(chain(from, leaving).skip(1))
}

fn chain(partition: &Partition, packets: Fifo) -> impl Iterator<Item = &Packet> {
    packets.iter(&partition.ctx.packets).map(|index| &partition.ctx.packets[index])
}

/// Who may send by `port` and who keeps what comes by it agree on which classes are paused, but while a pause frame is under way.
pub(super) fn check_pauses(view: View<'_>, port: PortId) {
    let (pause_requester, obeyer) = (view.receiver(port), view.sender(port));
    if view.plan.lossless == 0 || !view.plan.has_ingress_account(port) || obeyer.ports.ports[port].is_down() {
        return;
    }
    if !view.plan.sends_pauses(port.reverse()) {
        return;
    }
    let name = || view.plan.topology.port_name(port);
    for class in (0..view.plan.priorities.len() as u8).filter(|class| view.plan.is_lossless(*class)) {
        let requested = check_request(view, port, class & view.plan.account_mask);
        let paused = obeyer.ports.ports[port].paused & 1 << class != 0;
        let obeys = view.plan.obeyed(port) & 1 << class != 0;
        if requested == paused
            || !obeys
            || pause_requester.ports.has_storm(port.reverse())
            || obeyer.ports.watchdogs.storms(view.plan.slot(port, class)) > 0
        {
            continue;
        }
        let may_be_lost = pause_requester.ports.errors.can_damage(port.reverse());
        assert!(
            may_be_lost || is_under_way(view, port, class),
            "class {class} of {} is {}, its peer has asked for {}, and no pause frame is under way",
            name(),
            if paused { "paused" } else { "not paused" },
            if requested { "a pause" } else { "none" },
        );
    }
}

/// Whether the peer of `port` has asked for a pause: exactly when its account says so.
fn check_request(view: View<'_>, port: PortId, class: u8) -> bool {
    let pause_requester = view.receiver(port);
    let slot = view.plan.slot(port, class);
    let account = &view.account(port, slot);
    let pool = view.plan.switch(view.plan.topology.peer(port)).filter(|_| pause_requester.ctx.hot.shared);
    let agrees = if let Some(switch) = pool {
        let pool = &pause_requester.switching.switches[switch].pools[pause_requester.ctx.hot.pool_of(class)];
        let waits = pool.paused.contains(&slot);
        let may_go_on = view.shared_limits(port, slot).may_go_on(Standing::of(account), pool.free());
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

/// A pause frame for `port` waits at its peer, is on the wire, or waits for the reaction time.
fn is_under_way(view: View<'_>, port: PortId, class: u8) -> bool {
    let (pause_requester, obeyer) = (view.receiver(port), view.sender(port));
    let waiting = chain(pause_requester, pause_requester.ports.waiting_pauses[port.reverse()]);
    let mut frames = waiting.chain(frames(view, port.reverse()));
    frames.any(|frame| matches!(frame.content, Content::Pause { classes, .. } if classes & 1 << class != 0))
        || obeyer.ports.pending_pauses[port].iter().any(|pause| pause.classes & 1 << class != 0)
}
