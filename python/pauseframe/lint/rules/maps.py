"""Rules PF02x: lossless traffic must reach a lossless class."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import PRIORITIES, QOS_MAPS, End, Place, Port, Switch
from pauseframe.lint.finding import EVERY, VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import (
    best_effort_queues,
    classes_of,
    group_of,
    lossless_code_points,
    lossless_queues,
    queue_of,
)
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Fabric, Host, Nic
    from pauseframe.devices.read import Reading

BYTES_PER_MBPS = 125_000
_OF_CLASSES = ("tc_to_pg", "tc_to_queue", "pfc_to_queue", "pfc_to_pg")
"""Maps of classes and priorities, not of code points."""


def _maps_known(switch: Switch, port: Port) -> bool:
    return all(switch.mapped(kind, getattr(port.qos, kind)) is not None for kind in _OF_CLASSES)


@rule(
    "PF020",
    "priority-into-lossy-group",
    "https://github.com/sonic-net/SONiC/wiki (AZURE maps)",
    "https://github.com/sonic-net/SONiC/issues/480",
)
def check_groups(reading: Reading) -> Iterator[Finding]:
    """A traffic class of a paused priority is put into the buffer group of another.

    The queue stops when the peer pauses, as it should, but the packets behind it fill a group without headroom that
    never sends a pause, or the group of another paused priority, which stops that one at the peer and not the sender of
    these packets. All three maps of a port must agree: TC to queue, TC to group, pause to queue.

    No incident is known. PF021 has an incident of a wrong map.
    """
    seen: dict[tuple[object, ...], Finding] = {}
    for switch, port in reading.fabric.ports():
        if not port.lossless or not _maps_known(switch, port):
            continue
        groups = switch.mapped("tc_to_pg", port.qos.tc_to_pg) or {}
        for priority in sorted(port.lossless):
            group, classes = group_of(switch, port, priority), classes_of(switch, port, priority) or set()
            for tc in sorted(classes):
                into = groups.get(tc)
                if into is None or into == group or into in _groups_of_class(switch, port, tc):
                    continue
                stops = "which pauses nobody"
                if into in _paused_groups(switch, port):
                    stops = "which pauses another priority"
                key = (switch.name, port.qos.tc_to_pg, port.qos.tc_to_queue, priority, tc)
                if key in seen:
                    continue
                table, row = ("TC_TO_PRIORITY_GROUP_MAP", port.qos.tc_to_pg or "")
                seen[key] = Finding(
                    Place(switch.name, table, row, str(tc)),
                    f"class {tc} leaves by the queue of paused priority {priority} and is buffered in group {into}, "
                    f"{stops} (port {shown(port.name)} and those with the same maps)",
                    f'"{tc}": "{group}"',
                    patch=(PatchOperation(table, row, str(tc), str(group)),) if row else (),
                )
    yield from seen.values()


def _paused_groups(switch: Switch, port: Port) -> set[int]:
    return {group_of(switch, port, priority) for priority in port.lossless}


def _groups_of_class(switch: Switch, port: Port, tc: int) -> set[int]:
    """The groups of the paused priorities that stop the queue of a class."""
    stopping = (p for p in port.lossless if tc in (classes_of(switch, port, p) or set()))
    return {group_of(switch, port, priority) for priority in stopping}


@rule("PF024", "map-not-bound", "SONiC: PORT_QOS_MAP", "SONiC: orchagent qosorch.cpp")
def check_bound(reading: Reading) -> Iterator[Finding]:
    """A port lacks a map that the other ports of the switch have, or a map lacks a class.

    Without its own maps a port uses the hardware's defaults: every DSCP in class 0, every class in group 0 or queue 0.
    Traffic that is lossless on other ports is then lossy when it arrives here. The same holds for a class that is
    missing in a map. Where as many ports of the switch have the map as lack it, those of the other switches decide. A
    *warning* if the port pauses nothing, or if the missing class is lossy; also if a connected port has no row at all.

    No incident is known. PF021 has an incident of a wrong map.
    """
    connected = {end for link in reading.fabric.links for end in (link.a, link.b)}
    for switch in reading.fabric.switches.values():
        ports = _with_maps(switch, pausing=True)
        for kind in QOS_MAPS:
            yield from _unbound(reading.fabric, switch, kind, pausing=True)
        for kind in ("dscp_to_tc", "tc_to_queue", "tc_to_pg"):
            yield from _unbound(reading.fabric, switch, kind, pausing=False)
        yield from _lacking_classes(switch, ports)
        yield from _without_queue(switch)
        yield from _without_maps(reading, switch, connected)


def _without_maps(reading: Reading, switch: Switch, connected: set[End]) -> Iterator[Finding]:
    """Connected ports without a row, where most connected ports have one; those with pauses have findings of PF052."""
    rows = reading.rows(switch.name, "PORT_QOS_MAP")
    ports = [port for port in switch.ports.values() if port.up and End(switch.name, port.name) in connected]
    lacking = [port for port in ports if not port.qos.key]
    if not lacking or len(lacking) * 2 > len(ports) or switch.global_qos is not None or not switch.whole:
        return
    usual = Counter(tuple(sorted(rows[port.qos.key].items())) for port in ports if port.qos.key in rows)
    row = usual.most_common(1)[0][0] if len(usual) == 1 else ()
    for port in lacking:
        yield Finding(
            Place(switch.name, "PORT_QOS_MAP", port.name),
            f"no row: every packet is in class 0, {counted(len(ports) - len(lacking), 'connected port')} of the switch "
            f"{'have' if len(ports) - len(lacking) > 1 else 'has'} maps",
            ", ".join(f'"{name}": "{shown(value)}"' for name, value in row),
            severity=Severity.warning,
            patch=tuple(PatchOperation("PORT_QOS_MAP", port.name, name, value) for name, value in row),
        )


def _with_maps(switch: Switch, *, pausing: bool) -> list[Port]:
    """The ports of a SONiC switch that have a row of PORT_QOS_MAP and pause a priority, or none."""
    own = switch.ports.values() if switch.kind == "sonic" else ()
    return [port for port in own if port.qos.key and bool(port.lossless) == pausing]


def _has(port: Port, kind: str) -> bool:
    """True if a port has a map; of the two kinds of code points, one suffices where nothing is paused."""
    other = port.qos.dot1p_to_tc if kind == "dscp_to_tc" and not port.lossless else None
    return getattr(port.qos, kind) is not None or other is not None


def _unbound(fabric: Fabric, switch: Switch, kind: str, *, pausing: bool) -> Iterator[Finding]:
    ports, field = _with_maps(switch, pausing=pausing), f"{kind}_map"
    lacking = [port for port in ports if not _has(port, kind)]
    named = Counter(name for port in ports if (name := getattr(port.qos, kind)))
    have = len(ports) - len(lacking)
    if not lacking or not named or have < len(lacking):
        return
    if have == len(lacking):
        everywhere = [_has(p, kind) for other in fabric.switches.values() for p in _with_maps(other, pausing=pausing)]
        if sum(everywhere) * 2 <= len(everywhere):
            return
    usual = named.most_common(1)[0][0]
    for port in lacking:
        yield Finding(
            Place(switch.name, "PORT_QOS_MAP", port.qos.key, field),
            f"no {field}, {counted(have, 'other port')} {'have' if have > 1 else 'has'} one",
            f'"{shown(usual)}"',
            severity=None if pausing else Severity.warning,
            patch=(PatchOperation("PORT_QOS_MAP", port.qos.key, field, usual),),
        )


def _lacking_classes(switch: Switch, ports: list[Port]) -> Iterator[Finding]:
    """Classes and priorities of lossless traffic that are missing in a map."""
    for kind in _OF_CLASSES:
        seen: set[tuple[str, int]] = set()
        for port in ports:
            name = getattr(port.qos, kind)
            found = switch.mapped(kind, name) if name else None
            for priority in sorted(port.lossless) if found else ():
                wanted = (classes_of(switch, port, priority) or {priority}) if kind == "tc_to_pg" else {priority}
                for number in sorted(wanted - set(found or {})):
                    if (name, number) not in seen:
                        seen.add((name, number))
                        what = "class" if kind.startswith("tc") else "priority"
                        yield Finding(
                            Place(switch.name, QOS_MAPS[kind], name, str(number)),
                            f"{what} {number} is lossless at {shown(port.name)} and is not in this map",
                            f'"{number}": "{number}"',
                            patch=(PatchOperation(QOS_MAPS[kind], name, str(number), str(number)),),
                        )


def _without_queue(switch: Switch) -> Iterator[Finding]:
    """Lossy classes of code points that the map of classes to queues of the same port lacks."""
    seen: set[tuple[str, int]] = set()
    for port in switch.ports.values() if switch.kind == "sonic" else ():
        name = port.qos.tc_to_queue
        queues = switch.mapped("tc_to_queue", name) if name else None
        if not queues or name is None:
            continue
        for kind in ("dscp_to_tc", "dot1p_to_tc"):
            own = getattr(port.qos, kind)
            for point, tc in sorted((switch.mapped(kind, own) or {}).items()) if own else ():
                if tc not in queues and tc not in port.lossless and (name, tc) not in seen:
                    seen.add((name, tc))
                    fits = tc in PRIORITIES
                    yield Finding(
                        Place(switch.name, QOS_MAPS["tc_to_queue"], name, str(tc)),
                        f"class {tc} of {kind[:-6].upper()} {point} is not in this map: the hardware chooses its queue",
                        f'"{tc}": "{tc}"' if fits else f"a class from 0 to 7 in {QOS_MAPS[kind]} {shown(own)}",
                        severity=Severity.warning,
                        patch=(PatchOperation(QOS_MAPS["tc_to_queue"], name, str(tc), str(tc)),) if fits else (),
                    )


@rule("PF021", "nothing-gets-in", "SONiC: AZURE map (DSCP 3 and 4); NIC guides (DSCP 24–31, 26)", devices=VENDORS)
def check_reachable(reading: Reading) -> Iterator[Finding]:
    """A priority is paused, but no code point maps to it: its intended traffic is dropped.

    It is an *error* if no paused priority of the port has a code point, and a *warning* if another one has.

    Incident: two correct documents contradict each other. SONiC's AZURE map puts only DSCP 3 and 4 into lossless
    groups, while guides of NIC vendors mark 24 to 31, or 26. A fabric that follows both documents treats all RDMA
    traffic as lossy.
    """
    seen: set[tuple[object, ...]] = set()
    for switch, port in reading.fabric.ports():
        for priority in sorted(port.lossless):
            classes = classes_of(switch, port, priority)
            key = (switch.name, port.qos.dscp_to_tc, port.qos.dot1p_to_tc, port.qos.tc_to_queue, priority)
            if classes is None or key in seen:
                continue
            seen.add(key)
            place = Place(switch.name, "PORT_QOS_MAP", port.qos.key or port.name)
            severity = Severity.warning if _gets_something(switch, port) else Severity.error
            if not classes:
                message = f"priority {priority} stops queue {queue_of(switch, port, priority)}, no class uses that"
                yield Finding(place, message, severity=severity)
                continue
            maps = [
                switch.mapped(kind, name) for kind in ("dscp_to_tc", "dot1p_to_tc") if (name := getattr(port.qos, kind))
            ]
            if not maps or None in maps:
                continue
            if not any(tc in classes for found in maps if found is not None for tc in found.values()):
                kind = "dscp_to_tc" if port.qos.dscp_to_tc else "dot1p_to_tc"
                row, tc = getattr(port.qos, kind) or "", min(classes)
                yield Finding(
                    Place(switch.name, QOS_MAPS[kind], row),
                    f"no code point maps to class {tc}, so none gets into paused priority {priority}",
                    f'"{priority}": "{tc}" for the code points of lossless traffic',
                    severity=severity,
                    patch=tuple(_points_of_most_maps(reading, kind, row, tc)),
                )


def _points_of_most_maps(reading: Reading, kind: str, row: str, tc: int) -> Iterator[PatchOperation]:
    """Maps to a class the code points that most maps of the fabric map to it."""
    maps = [of_one for switch in reading.fabric.switches.values() for of_one in getattr(switch.maps, kind).values()]
    points = Counter(point for of_one in maps for point, to in of_one.items() if to == tc)
    for point, count in sorted(points.items()):
        if count * 2 > len(maps):
            yield PatchOperation(QOS_MAPS[kind], row, str(point), str(tc))


def _gets_something(switch: Switch, port: Port) -> bool:
    """True if some code point (or some class, if no map of code points is known) maps to a paused priority."""
    points = [lossless_code_points(switch, port, kind) for kind in ("dscp_to_tc", "dot1p_to_tc")]
    if any(found is not None for found in points):
        return any(points)
    return any(classes_of(switch, port, priority) for priority in port.lossless)


@rule("PF022", "host-into-lossy-class", "SONiC: AZURE map (DSCP 3 and 4); NIC guides (DSCP 24–31, 26)", devices=EVERY)
def check_hosts(reading: Reading) -> Iterator[Finding]:
    """A host marks its lossless traffic with a code point that its switch puts into a lossy class.

    The host's NIC pauses for priority 3 and sends DSCP 26, or 802.1p 3 in a VLAN; the switch must map exactly that to a
    paused priority. Where files give the traffic class of RoCE packets (`setup.sh`, `roce.txt`), its DSCP must be
    lossless too, unless TCP of the host uses the lossless class.

    Incident: the two documents of PF021: the NIC's guide marks 26, which SONiC's AZURE map makes lossy.
    """
    for a, b in ((a, b) for link in reading.fabric.links for a, b in link.ends()):
        nic, port = reading.fabric.nic(a), reading.fabric.port(b)
        if nic is None or port is None or not nic.pfc or not port.lossless:
            continue
        switch = reading.fabric.switches[b.device]
        yield from _lossy_dscps(reading.fabric.hosts[a.device], nic, switch, port)
        tagged = lossless_code_points(switch, port, "dot1p_to_tc")
        if tagged is None:
            continue
        other = Place(b.device, "PORT_QOS_MAP", b.port)
        for vlan in nic.vlans.values():
            points = set(vlan.egress.values())
            if points & nic.pfc and not points & nic.pfc <= tagged:
                yield Finding(
                    Place(a.device, "vlan", vlan.interface),
                    f"802.1p {sorted(points & nic.pfc - tagged)[0]} in VLAN {vlan.id} is lossy at {shown(str(b))}",
                    other=other,
                )


def _lossy_dscps(host: Host, nic: Nic, switch: Switch, port: Port) -> Iterator[Finding]:
    """DSCPs of a NIC's paused priorities, and of RoCE, that are lossy at the switch; alike for all ports of a map."""
    safe = lossless_code_points(switch, port, "dscp_to_tc")
    if safe is None:
        return
    at_map = Place(switch.name, "DSCP_TO_TC_MAP", port.qos.dscp_to_tc or "")
    other = at_map if switch.kind == "sonic" else Place(switch.name, "PORT_QOS_MAP", port.name)
    lossless = f"one of DSCP {', '.join(map(str, sorted(safe)[:8]))}, or " if safe else ""
    instead = f"{lossless}another map at the switch"
    sent = {dscp for dscp, priority in nic.dscp_to_priority.items() if priority in (nic.pfc or ())}
    if nic.trust == "dscp" and sent - safe:
        listed = ", ".join(map(str, sorted(sent - safe)[:8]))
        message = f"DSCP {listed}: lossless at the host, lossy at {shown(switch.name)}"
        yield Finding(Place(host.name, "dcb", nic.name), message, instead, other)
    own = host.roce_dscp
    # TCP in the lossless class: that class may be for it, and RoCE lossy by intention.
    if own is None or own in safe or own in sent or safe & set(host.code_points.values()):
        return
    message = f"RoCE packets have DSCP {own}, which is lossy at {shown(switch.name)}: the NIC pauses for none of them"
    yield Finding(Place(host.name, "card", "RoCE", "traffic_class"), message, instead, other)


@rule(
    "PF023", "lossy-class-in-lossless-group", "https://github.com/sonic-net/SONiC/issues/950", severity=Severity.warning
)
def check_intruders(reading: Reading) -> Iterator[Finding]:
    """A class of a lossy queue is buffered in the group of a paused priority.

    Congestion of the class pauses the lossless traffic, but a pause does not stop the class, so the group can overflow.

    Incident: bounced traffic, which does the same by design and needs separate classes (SONiC#950).
    """
    seen: set[tuple[object, ...]] = set()
    for switch, port in reading.fabric.ports():
        if not port.lossless or not _maps_known(switch, port):
            continue
        groups = switch.mapped("tc_to_pg", port.qos.tc_to_pg) or {}
        queues = switch.mapped("tc_to_queue", port.qos.tc_to_queue) or {}
        stopped = {queue_of(switch, port, priority) for priority in port.lossless}
        for tc, group in groups.items():
            key = (switch.name, port.qos.tc_to_pg, port.qos.tc_to_queue, tc)
            lossy = tc in queues and queues[tc] not in stopped
            if not lossy or group not in _paused_groups(switch, port) or key in seen or port.qos.tc_to_pg is None:
                continue
            seen.add(key)
            instead, patch = _out_of_group(switch, port, tc)
            yield Finding(
                Place(switch.name, "TC_TO_PRIORITY_GROUP_MAP", port.qos.tc_to_pg, str(tc)),
                f"class {tc} fills lossless group {group} and leaves by queue {queues[tc]}, which no pause stops",
                instead,
                patch=patch,
            )


def _out_of_group(switch: Switch, port: Port, tc: int) -> tuple[str, tuple[PatchOperation, ...]]:
    """Advice and patch for a class in a lossless group that leaves by a lossy queue.

    The class of a paused priority belongs into that group, so the fault is in the maps of its queue.
    """
    groups = switch.mapped("tc_to_pg", port.qos.tc_to_pg) or {}
    queues = switch.mapped("tc_to_queue", port.qos.tc_to_queue) or {}
    own = [p for p in port.lossless if group_of(switch, port, p) == groups[tc]]
    lacking = [p for p in own if p == tc or not classes_of(switch, port, p)]
    if lacking:
        priority = min(lacking, key=lambda p: p != tc)
        queue, mapped = queue_of(switch, port, priority), switch.mapped("pfc_to_queue", port.qos.pfc_to_queue) or {}
        table, row, value = "TC_TO_QUEUE_MAP", port.qos.tc_to_queue, queue
        if queue != priority and queues[tc] == priority and priority in mapped:
            table, row, value = "MAP_PFC_PRIORITY_TO_QUEUE", port.qos.pfc_to_queue, priority
        operation = PatchOperation(table, row or "", str(tc if table.startswith("TC") else priority), str(value))
        return f'"{operation.field}": "{value}" in {table}', (operation,) if row else ()
    if 0 in _paused_groups(switch, port):
        return "a lossy group", ()
    return '"0", the lossy group', (PatchOperation("TC_TO_PRIORITY_GROUP_MAP", port.qos.tc_to_pg or "", str(tc), "0"),)


@rule(
    "PF027",
    "strict-data-starves-others",
    "IEEE 802.1Q §8.6.8.1 (strict priority): a queue sends only while no queue above it has a frame",
    "SONiC: qos_config.j2 gives data queues DWRR, and strict priority to control traffic only",
    severity=Severity.warning,
    devices=VENDORS,
)
def check_strict(reading: Reading) -> Iterator[Finding]:
    """A queue of lossless data is strict, and best-effort traffic has a weighted or lower queue of the same port.

    Lossless senders fill a link for as long as they have data, so best effort gets nothing meanwhile, and its
    connections time out. Strict priority is for traffic that cannot fill a link: CNPs, routing protocols.

    No incident is known.
    """
    for switch, port in reading.fabric.ports():
        kinds = {
            n: s.kind for n, q in port.queues.items() if (s := switch.schedulers.get(q.scheduler or "")) is not None
        }
        lossless, bulk = lossless_queues(switch, port), best_effort_queues(switch, port)
        for number in sorted(n for n in lossless if kinds.get(n) == "STRICT"):
            waiting = {n for n in bulk - lossless if n in kinds and (kinds[n] != "STRICT" or n < number)}
            if waiting:
                place = Place(switch.name, "QUEUE", f"{port.name}|{number}", "scheduler")
                fair = next((port.queues[n].scheduler for n in sorted(waiting) if kinds[n] != "STRICT"), None)
                also = "is not" if fair else "is below it"
                yield Finding(
                    place,
                    f"lossless queue {number} is strict, best effort in queue {min(waiting)} {also}: it waits while "
                    "lossless traffic fills the link",
                    f'"{shown(fair)}", or another scheduler with a weight' if fair else "a scheduler with a weight",
                    patch=(PatchOperation("QUEUE", place.key, place.field, fair),) if fair else (),
                )


@rule(
    "PF028",
    "shaped-lossless-queue",
    "IEEE 802.1Qbb; SONiC: SCHEDULER pir",
    severity=Severity.warning,
    devices=VENDORS,
)
def check_shaped(reading: Reading) -> Iterator[Finding]:
    """A lossless queue has a maximum rate below that of its port: it fills, and the switch pauses its senders.

    The pauses spread to all traffic of the priority behind the port, as from a slow host. A limit of lossless traffic
    belongs to its senders.

    No incident is known.
    """
    seen: set[tuple[str, str]] = set()
    shaped = {s.name for s in reading.fabric.switches.values() if any(one.most for one in s.schedulers.values())}
    for switch, port in reading.fabric.ports():
        for number in sorted(lossless_queues(switch, port)) if port.speed and switch.name in shaped else ():
            queue = port.queues.get(number)
            scheduler = switch.schedulers.get(queue.scheduler or "") if queue is not None else None
            if scheduler is None or scheduler.most is None or scheduler.most >= (port.speed or 0) * BYTES_PER_MBPS:
                continue
            if (switch.name, scheduler.name) not in seen:
                seen.add((switch.name, scheduler.name))
                place = Place(switch.name, "SCHEDULER", scheduler.name, "pir")
                yield Finding(
                    place,
                    f"at most {scheduler.most / BYTES_PER_MBPS:g} Mb/s, and lossless queue {number} of "
                    f"{shown(port.name)} is at a port of {port.speed} Mb/s",
                    "no maximum for lossless queues",
                    patch=(
                        PatchOperation("SCHEDULER", scheduler.name, "pir", None),
                        PatchOperation("SCHEDULER", scheduler.name, "pbs", None),
                    ),
                )
