"""Rules PF025 and PF026: congestion notification packets (CNPs) have a queue without data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import CNP_DSCP, Place
from pauseframe.lint.finding import HOSTS, VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import lossless_code_points, lossless_queues

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pauseframe.devices.model import Fabric, Host, Port, Switch
    from pauseframe.devices.read import Reading


@rule(
    "PF025",
    "cnp-in-lossless-class",
    "Zhu et al., SIGCOMM 2015 §3.3: CNPs have a separate high priority",
    "NVIDIA: mlxconfig CNP_DSCP (48) and CNP_802P_PRIO (6)",
    severity=Severity.warning,
    devices=(*VENDORS, *HOSTS),
)
def check_notifications(reading: Reading) -> Iterator[Finding]:
    """The code point of congestion notification packets maps to a paused priority.

    The code point is the CNP_DSCP of the hosts' cards, if their `mlxconfig.txt`, `setup.sh` or `roce.txt` gives it,
    else 48. The cards are at fault if data of hosts have the same DSCP, or if the switches have a queue for 48.

    A CNP tells a RoCE sender to slow down. In a paused class it waits behind the data that it should slow down, and a
    pause stops it. CNPs belong into a lossy class that is served before the lossless ones.

    No incident is known. `rdma_cnp_priority` shows the effect in a simulation.
    """
    for cnp, hosts in _code_points(reading.fabric).items():
        found = list(_in_lossless_class(reading.fabric, cnp))
        if found and _are_at_fault(reading.fabric, cnp, hosts):
            yield from _of_cards(reading.fabric, cnp, hosts, "a paused priority")
        else:
            yield from found


def _code_points(fabric: Fabric) -> dict[int, list[Host]]:
    """The DSCPs of CNPs, and the hosts whose cards have each; 48 and none if no file tells."""
    found: dict[int, list[Host]] = {}
    for host in fabric.hosts.values():
        if (cnp := host.registers.get("CNP_DSCP")) is not None:
            found.setdefault(cnp, []).append(host)
    return dict(sorted(found.items())) or {CNP_DSCP: []}


def _are_at_fault(fabric: Fabric, cnp: int, hosts: list[Host]) -> bool:
    """True if the DSCP of the cards is that of data, or if all switches have a queue for CNPs with the usual DSCP."""
    return bool(hosts) and (cnp in _of_data(fabric) or (cnp != CNP_DSCP and _is_prepared(fabric)))


def _of_data(fabric: Fabric) -> set[int]:
    """The DSCPs of best effort, RoCE, TCP classes, and the priorities that NICs pause."""
    found = {0}
    for host in fabric.hosts.values():
        found |= {*host.code_points.values(), *([] if host.roce_dscp is None else [host.roce_dscp])}
        for nic in host.nics.values():
            found |= {dscp for dscp, priority in nic.dscp_to_priority.items() if priority in (nic.pfc or ())}
    return found


def _is_prepared(fabric: Fabric) -> bool:
    """True if CNPs with DSCP 48 have a queue without lossless or best-effort traffic at every port that pauses."""
    own = [(s, p, _queues(s, p, CNP_DSCP)) for s, p in fabric.ports() if p.lossless]
    known = [(s, p, queues) for s, p, queues in own if queues is not None]
    return bool(known) and all(q[0] not in {q[1], *lossless_queues(s, p)} for s, p, q in known)


def _queues(switch: Switch, port: Port, cnp: int) -> tuple[int, int | None] | None:
    """The queues of CNPs and of DSCP 0; None if the maps of the port are unknown."""
    points, queues = (
        switch.mapped(kind, name) if (name := getattr(port.qos, kind)) else None
        for kind in ("dscp_to_tc", "tc_to_queue")
    )
    # SAI: a code point that the map lacks has class 0
    if not points or queues is None or points.get(cnp, 0) not in queues:
        return None
    return queues[points.get(cnp, 0)], queues.get(points.get(0, -1))


def _of_cards(fabric: Fabric, cnp: int, hosts: Iterable[Host], where: str) -> Iterator[Finding]:
    instead = f"{CNP_DSCP}, for which the switches have a queue" if _is_prepared(fabric) else "a DSCP without data"
    for host in hosts:
        yield Finding(
            Place(host.name, "card", "CNP_DSCP", "register"),
            f"CNPs have DSCP {cnp}, which leads into {where}",
            instead,
        )


def _in_lossless_class(fabric: Fabric, cnp: int) -> Iterator[Finding]:
    seen: set[tuple[str, str | None]] = set()
    for switch, port in fabric.ports():
        key = (switch.name, port.qos.dscp_to_tc)
        points = lossless_code_points(switch, port, "dscp_to_tc")
        if points is None or cnp not in points or key in seen or port.qos.dscp_to_tc is None:
            continue
        seen.add(key)
        yield Finding(
            Place(switch.name, "DSCP_TO_TC_MAP", port.qos.dscp_to_tc, str(cnp)),
            f"DSCP {cnp}, which NICs give to CNPs, gets into a paused priority (port {shown(port.name)} and those "
            "with the same map)",
            '"6", or another class of a lossy queue with a strict scheduler',
            patch=_to_class_6(fabric, switch, port, cnp),
        )


def _to_class_6(fabric: Fabric, switch: Switch, port: Port, cnp: int) -> tuple[PatchOperation, ...]:
    """CNPs to class 6, if its queue has neither lossless nor best-effort traffic, and no data have their DSCP."""
    queues = switch.mapped("tc_to_queue", port.qos.tc_to_queue) or {}
    points = switch.mapped("dscp_to_tc", port.qos.dscp_to_tc) or {}
    taken = {None, queues.get(points.get(0, -1)), *lossless_queues(switch, port)}
    if cnp in _of_data(fabric) or queues.get(6) in taken:
        return ()
    return (PatchOperation("DSCP_TO_TC_MAP", port.qos.dscp_to_tc or "", str(cnp), "6"),)


@rule(
    "PF026",
    "cnp-waits-behind-data",
    "NVIDIA Cumulus Linux and Onyx, RoCE: traffic class 6 (CNP) is strict, RoCE and other traffic share by weight",
    "Zhu et al., SIGCOMM 2015 §3.3: CNPs have a separate high priority",
    severity=Severity.warning,
    devices=(*VENDORS, *HOSTS),
)
def check_queue_of_notifications(reading: Reading) -> Iterator[Finding]:
    """CNPs share the queue of best-effort traffic (DSCP 0), or wait behind a strict queue of data.

    In the queue of best-effort traffic, a CNP waits behind bulk transfers and is dropped with them when the queue is
    full. Behind a strict queue, it can wait as long as that queue has packets. A weighted queue for CNPs beside
    weighted queues of data is fine: it has its share. As in PF025, the cards of hosts are at fault if data have their
    CNP_DSCP, or if the switches have a queue for DSCP 48.

    No incident is known.
    """
    for cnp, hosts in _code_points(reading.fabric).items():
        found = list(_behind_data(reading.fabric, cnp))
        shares = [finding for shared, finding in found if shared]
        if shares and _are_at_fault(reading.fabric, cnp, hosts):
            yield from _of_cards(reading.fabric, cnp, hosts, "the queue of best effort")
        else:
            yield from shares
        yield from (finding for shared, finding in found if not shared)


def _behind_data(fabric: Fabric, cnp: int) -> Iterator[tuple[bool, Finding]]:
    """The findings about switches; True for a queue that CNPs share with best effort."""
    seen: set[tuple[object, ...]] = set()
    for switch, port in fabric.ports():
        queues = _queues(switch, port, cnp) if port.lossless else None
        if queues is None or queues[0] in lossless_queues(switch, port):
            continue  # PF025
        (queue, bulk), table, row = queues, "DSCP_TO_TC_MAP", port.qos.dscp_to_tc or ""
        strict = _strict_data_queue(switch, port, queue, bulk)
        key = (switch.name, row, port.qos.tc_to_queue, strict)
        if key in seen:
            continue
        seen.add(key)
        ports = f"(port {shown(port.name)} and those with the same maps)"
        if queue == bulk:
            yield (
                True,
                Finding(
                    Place(switch.name, table, row, str(cnp)),
                    f"DSCP {cnp}, which NICs give to CNPs, shares queue {queue} with DSCP 0 {ports}",
                    '"6", or another class whose queue has no bulk traffic',
                    patch=_to_class_6(fabric, switch, port, cnp),
                ),
            )
        elif strict is not None:
            yield (
                False,
                Finding(
                    Place(switch.name, "QUEUE", f"{port.name}|{queue}", "scheduler"),
                    f"queue {queue} of the CNPs has a share, and queue {strict} of data is strict {ports}",
                    "a scheduler of type STRICT",
                    patch=(
                        PatchOperation("QUEUE", f"{port.name}|{queue}", "scheduler", port.queues[strict].scheduler),
                    ),
                ),
            )


def _strict_data_queue(switch: Switch, port: Port, of_notifications: int, bulk: int | None) -> int | None:
    """A strict queue of a paused priority or of best-effort traffic, if that of CNPs is not strict."""

    def is_strict(number: int) -> bool:
        queue = port.queues.get(number)
        scheduler = switch.schedulers.get(queue.scheduler) if queue and queue.scheduler else None
        return scheduler is not None and scheduler.kind == "STRICT"

    data = sorted(lossless_queues(switch, port) | ({bulk} if bulk is not None else set()))
    return None if is_strict(of_notifications) else next((number for number in data if is_strict(number)), None)
