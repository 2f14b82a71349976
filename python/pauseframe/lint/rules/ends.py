"""Rules PF05x: the two ends of a link must agree."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.devices.files import shown
from pauseframe.devices.model import (
    DEFAULT_MTU,
    PRIORITIES,
    QOS_MAPS,
    End,
    Link,
    Nic,
    Place,
    Port,
    Switch,
)
from pauseframe.lint.finding import EVERY, Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import lossless_code_points
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.read import Reading


MOST_OF_RDMA = 4096
"""Bytes of data of the largest packet of RoCE (InfiniBand's largest MTU)."""
_LIKELY = 10
"""Largest ratio of two lengths of one cable that are both plausible."""


def switch_links(reading: Reading) -> Iterator[tuple[Link, Switch, Port, Switch, Port]]:
    """Links between two switches that both have device files."""
    fabric = reading.fabric
    for link in fabric.links:
        a, b = fabric.port(link.a), fabric.port(link.b)
        if a is not None and b is not None:
            yield link, fabric.switches[link.a.device], a, fabric.switches[link.b.device], b


def _places(link: Link, table: str, field: str = "") -> tuple[Place, Place]:
    return Place(link.a.device, table, link.a.port, field), Place(link.b.device, table, link.b.port, field)


@rule("PF050", "speeds-differ", "IEEE 802.3", devices=EVERY)
def check_speeds(reading: Reading) -> Iterator[Finding]:
    """The two ends of a link have different speeds: it stays down, or negotiates another speed than planned.

    A *warning* if one end of two SONiC switches has no speed: it then has the default of its platform.

    No incident is known.
    """
    for link, _, a, _, b in switch_links(reading):
        if a.speed and b.speed and a.speed != b.speed:
            place, other = _places(link, "PORT", "speed")
            patch = _usual_speed(reading, link, a.speed, b.speed)
            yield Finding(
                place,
                f"{a.speed} Mb/s here, {b.speed} Mb/s at {shown(str(link.b))}",
                "one speed at both ends"
                + ("" if patch else ": that of the optics and cable, which no majority of such links tells"),
                other,
                patch=patch,
            )
        for end, far, own, known in ((link.a, link.b, a.speed, b.speed), (link.b, link.a, b.speed, a.speed)):
            if own is None and known and end.port in reading.rows(end.device, "PORT"):
                yield Finding(
                    Place(end.device, "PORT", end.port, "speed"),
                    f"no speed here, {known} Mb/s at {shown(str(far))}",
                    f'"{known}"',
                    Place(far.device, "PORT", far.port, "speed"),
                    severity=Severity.warning,
                    patch=(PatchOperation("PORT", end.port, "speed", str(known)),),
                )
    for link, nic, port, end in host_links(reading):
        if nic.speed and port.speed and nic.speed != port.speed:
            yield Finding(
                Place(end.device, "link", end.port),
                f"{nic.speed} Mb/s here, {port.speed} at the switch",
                other=_other(link, end, "PORT"),
            )


def _usual_speed(reading: Reading, link: Link, here: int, there: int) -> tuple[PatchOperation, ...]:
    """The speed of the other end, where most links between switches with as many lanes have it at this device."""
    fits = []
    for end, far, speed in ((link.a, link.b, there), (link.b, link.a, here)):
        rows = reading.rows(end.device, "PORT")
        lanes = {port: row.get("lanes", "").count(",") for port, row in rows.items()}
        alike = [
            port.speed
            for _, switch, a, other, b in switch_links(reading)
            for port, owner in ((a, switch), (b, other))
            if owner.name == end.device and port.name != end.port and lanes.get(port.name) == lanes.get(end.port)
        ]
        if alike.count(speed) * 2 > len(alike):
            fits.append((end, far, speed))
    return tuple(PatchOperation("PORT", end.port, "speed", str(v), end.device) for end, _, v in fits * (len(fits) == 1))


def host_links(reading: Reading) -> Iterator[tuple[Link, Nic, Port, End]]:
    """Links of hosts: (link, NIC of the host, port of the switch, the host's end)."""
    for link in reading.fabric.links:
        for end, far in link.ends():
            nic, port = reading.fabric.nic(end), reading.fabric.port(far)
            if nic is not None and port is not None:
                yield link, nic, port, end


def _other(link: Link, end: End, table: str) -> Place:
    far = link.b if link.a == end else link.a
    return Place(far.device, table, far.port)


@rule("PF051", "mtus-differ", "IEEE 802.3 (no fragmentation at layer 2)", severity=Severity.warning, devices=EVERY)
def check_mtus(reading: Reading) -> Iterator[Finding]:
    """The two ends of a link have different MTUs: the larger frames of one are counted as errors by the other.

    Also: LOSSLESS_TRAFFIC_PATTERN has a smaller `mtu` than the lossless packets of a host at the switch, so that its
    headroom is computed for too small packets. Packets of RoCE have at most 4096 bytes of data (InfiniBand), those of
    TCP the MTU of the host.

    No incident is known.
    """
    for link, one, a, two, b in switch_links(reading):
        has = "PORT" in one.tables and "PORT" in two.tables
        mtus = [a.mtu or DEFAULT_MTU, b.mtu or DEFAULT_MTU]
        if has and (a.mtu or b.mtu) and mtus[0] != mtus[1]:
            place, other = _places(link, "PORT", "mtu")
            low = link.a if mtus[0] < mtus[1] else link.b
            yield Finding(
                place,
                f"MTU {mtus[0]} here, {mtus[1]} at {shown(str(link.b))}",
                "one MTU at both ends",
                other,
                patch=(PatchOperation("PORT", low.port, "mtu", str(max(mtus)), low.device),),
            )
    for link, nic, port, end in host_links(reading):
        if nic.mtu and nic.mtu > (port.mtu or DEFAULT_MTU):
            yield Finding(
                Place(end.device, "link", end.port, "mtu"),
                f"MTU {nic.mtu} here, {port.mtu or DEFAULT_MTU} at the switch",
                f"at most {port.mtu or DEFAULT_MTU}",
                _other(link, end, "PORT"),
            )
    yield from _patterns(reading)


def _patterns(reading: Reading) -> Iterator[Finding]:
    """Switches whose pattern of lossless traffic is smaller than the lossless packets of a host."""
    largest: dict[str, tuple[int, End]] = {}
    for link, nic, _, end in host_links(reading):
        routes = reading.fabric.hosts[end.device].routes
        lossless = {v.interface for v in nic.vlans.values() if nic.pfc and nic.pfc & {*v.egress.values()}}
        mtu = nic.mtu or 0
        most = mtu if any(route.interface in lossless for route in routes) else min(mtu, MOST_OF_RDMA)
        far = (link.b if link.a == end else link.a).device
        if nic.pfc and most > largest.get(far, (0, end))[0]:
            largest[far] = most, end
    for name, (most, end) in sorted(largest.items()):
        known, rows = reading.fabric.switches[name].lossless_mtu, reading.rows(name, "LOSSLESS_TRAFFIC_PATTERN")
        if known is not None and known < most and rows:
            place = Place(name, "LOSSLESS_TRAFFIC_PATTERN", min(rows), "mtu")
            yield Finding(
                place,
                f"headroom is for packets of {known} B, {shown(str(end))} sends lossless ones of {most} B",
                f'"{most}"',
                Place(end.device, "link", end.port, "mtu"),
                patch=(PatchOperation(place.table, place.key, "mtu", str(most)),),
            )


@rule("PF052", "pauses-differ", "IEEE 802.1Qbb", "https://github.com/sonic-net/SONiC/issues/480", devices=EVERY)
def check_pauses(reading: Reading) -> Iterator[Finding]:
    """One end of a link pauses a priority and the other does not.

    The end without PFC ignores the pause frames of the other end and keeps sending, so its packets are lost. Or the end
    without PFC sends no pause frames, so the lossless hosts at the other end lose packets at this switch. A *warning*:
    asymmetric PFC at one end of a link between switches; that port stops every priority whose pause it gets.

    No incident is known.
    """
    usual = _usually_paused(reading)
    for link, one, a, two, b in switch_links(reading):
        known = "PORT_QOS_MAP" in one.tables and "PORT_QOS_MAP" in two.tables
        if known and a.lossless != b.lossless and a.up and b.up:
            place, other = _places(link, "PORT_QOS_MAP", "pfc_enable")
            here, there = (",".join(map(str, sorted(p.lossless))) or "none" for p in (a, b))
            both = ",".join(map(str, sorted(a.lossless | b.lossless)))
            lacking = link.a if a.lossless != a.lossless | b.lossless else link.b
            yield Finding(
                place,
                f"pauses {here} here, {there} at {shown(str(link.b))}",
                f'"{both}" at both ends (missing at {shown(str(lacking))})',
                other,
                patch=_paused_alike(link, (a, b), usual),
            )
    yield from _asymmetric(reading)
    for link, nic, port, end in host_links(reading):
        if nic.pfc is not None and nic.pfc != port.lossless:
            here, there = (",".join(map(str, sorted(p))) or "none" for p in (nic.pfc, port.lossless))
            yield Finding(
                Place(end.device, "dcb", end.port),
                f"the NIC pauses {here}, the switch {there}",
                "the same priorities at both ends",
                _other(link, end, "PORT_QOS_MAP"),
            )


def _asymmetric(reading: Reading) -> Iterator[Finding]:
    """A port with asymmetric PFC obeys pauses of all priorities, which no watchdog guards (SONiC: pfc_asym)."""
    for link, _, a, _, b in switch_links(reading):
        on = [reading.rows(end.device, "PORT").get(end.port, {}).get("pfc_asym") == "on" for end in (link.a, link.b)]
        if on[0] != on[1]:
            end, far, port = (link.a, link.b, a) if on[0] else (link.b, link.a, b)
            paused = ",".join(map(str, sorted(port.lossless))) or "none"
            yield Finding(
                Place(end.device, "PORT", end.port, "pfc_asym"),
                f"asymmetric PFC: obeys pauses of all priorities and sends those of {paused}; not so at "
                f"{shown(str(far))}",
                '"off" between switches',
                Place(far.device, "PORT", far.port),
                severity=Severity.warning,
                patch=(PatchOperation("PORT", end.port, "pfc_asym", "off"),),
            )


def _usually_paused(reading: Reading) -> frozenset[int]:
    """The priorities that more than half of the pausing ports pause."""
    pausing = [port.lossless for _, port in reading.fabric.ports() if port.lossless]
    return frozenset(p for p in PRIORITIES if sum(p in own for own in pausing) * 2 > len(pausing))


def _paused_alike(link: Link, ports: tuple[Port, Port], usual: frozenset[int]) -> tuple[PatchOperation, ...]:
    """Both ends pause what both pause now, and of the other priorities those that most ports pause."""
    a, b = ports
    wanted = (a.lossless & b.lossless) | ((a.lossless | b.lossless) & usual)
    text = ",".join(map(str, sorted(wanted)))
    return tuple(
        PatchOperation("PORT_QOS_MAP", port.name, "pfc_enable", text, end.device)
        for end, port in zip((link.a, link.b), ports, strict=True)
        if port.lossless != wanted and port.qos.key in {port.name, ""}
    )


@rule("PF053", "maps-differ", "SONiC: DSCP_TO_TC_MAP, DOT1P_TO_TC_MAP", devices=EVERY)
def check_maps(reading: Reading) -> Iterator[Finding]:
    """A code point is lossless at one end of a link and lossy at the other.

    Packets keep their DSCP and 802.1p priority from switch to switch; each switch looks them up in its own maps. Or one
    end has lossless traffic by DSCP and the other by 802.1p alone: packets without a tag, as on every routed link, have
    no priority there.

    No incident is known. PF021 is the same case between a host and its switch.
    """
    yield from _other_trust(reading)
    every = list(_looked_up(reading))
    pairs = [pair for pair in every if pair.ends[0].lossless != pair.ends[1].lossless]
    maps = {(pair.kind, end.switch.name, end.name): end.lossless for pair in every for end in pair.ends}
    usual = {kind: Counter(of for (other, *_), of in maps.items() if other == kind) for kind in QOS_MAPS}
    found: dict[tuple[str, str, str, frozenset[int]], dict[str, _Looked]] = {}
    for pair in pairs:
        # The map that few have is the odd one, whatever the order of the link's ends.
        odd, other = sorted(pair.ends, key=lambda end: usual[pair.kind][end.lossless])
        key = (pair.kind, odd.switch.name, odd.name, odd.lossless ^ other.lossless)
        found.setdefault(key, {}).setdefault(other.switch.name, pair)
    for (kind, device, name, points), by_neighbour in found.items():
        pair = next(iter(by_neighbour.values()))
        odd, other = pair.ends if pair.ends[0].switch.name == device else pair.ends[::-1]
        differing = sorted(points)
        code, more = differing[0], len(by_neighbour) - 1
        yield Finding(
            Place(device, QOS_MAPS[kind], name, str(code)),
            f"{kind[:-6].upper()} {', '.join(map(str, differing[:8]))}: lossless at one end of "
            f"{shown(str(pair.link.a))} to {shown(str(pair.link.b))}{f' and to {more} more neighbours' * (more > 0)}, "
            "lossy at the other",
            f"map it in {shown(device)} {QOS_MAPS[kind]} {shown(name)} as the other does",
            Place(other.switch.name, QOS_MAPS[kind], other.name, str(code)),
            patch=tuple(_as_most_map(reading, kind, (odd.switch, odd.name), (other.switch, other.name), differing)),
        )


def _other_trust(reading: Reading) -> Iterator[Finding]:
    """Links with lossless traffic by DSCP at one end, and by 802.1p alone at the other."""
    for link, one, a, two, b in switch_links(reading):
        tagged = any(vlan.members.get(p.name) == "tagged" for s, p in ((one, a), (two, b)) for vlan in s.vlans.values())
        for (end, switch, port), (far, other, there) in (
            ((link.a, one, a), (link.b, two, b)),
            ((link.b, two, b), (link.a, one, a)),
        ):
            if not port.lossless or port.lossless != there.lossless or port.qos.dscp_to_tc or tagged:
                continue
            own, theirs = (
                lossless_code_points(switch, port, "dot1p_to_tc"),
                lossless_code_points(other, there, "dscp_to_tc"),
            )
            if own and theirs:
                yield Finding(
                    Place(end.device, "PORT_QOS_MAP", port.qos.key or port.name),
                    f"lossless by 802.1p alone, by DSCP at {shown(str(far))}: packets without a tag are lossy here",
                    "trust of DSCP at both ends",
                    Place(far.device, "PORT_QOS_MAP", there.qos.key or there.name),
                )


class _MapEnd(NamedTuple):
    """The map of one end of a link, and the code points that it makes lossless there."""

    switch: Switch
    name: str
    lossless: frozenset[int]


class _Looked(NamedTuple):
    """A link between switches that pause the same priorities at both ends, and the maps of one kind there."""

    link: Link
    kind: str
    ends: tuple[_MapEnd, _MapEnd]


def _looked_up(reading: Reading) -> Iterator[_Looked]:
    known: dict[tuple[object, ...], frozenset[int] | None] = {}

    def points(switch: Switch, port: Port, kind: str) -> frozenset[int] | None:
        qos = port.qos
        own = switch.name, kind, port.lossless, getattr(qos, kind), qos.tc_to_queue, qos.pfc_to_queue
        if own not in known:
            known[own] = lossless_code_points(switch, port, kind)
        return known[own]

    for link, one, a, two, b in switch_links(reading):
        if not a.lossless or a.lossless != b.lossless:
            continue
        for kind in ("dscp_to_tc", "dot1p_to_tc"):
            here, there = points(one, a, kind), points(two, b, kind)
            if here is not None and there is not None:
                names = [getattr(port.qos, kind) or "" for port in (a, b)]
                yield _Looked(link, kind, (_MapEnd(one, names[0], here), _MapEnd(two, names[1], there)))


def _as_most_map(
    reading: Reading, kind: str, here: tuple[Switch, str], there: tuple[Switch, str], points: list[int]
) -> Iterator[PatchOperation]:
    """Changes the code points at the end that most maps of the fabric contradict; none if no value has a majority."""
    maps = [of_one for switch in reading.fabric.switches.values() for of_one in getattr(switch.maps, kind).values()]
    for point in points:
        (usual, count), *_ = Counter(of_one.get(point) for of_one in maps).most_common(1)
        for switch, name in (here, there) if count * 2 > len(maps) and usual is not None else ():
            if name and (switch.mapped(kind, name) or {}).get(point) != usual:
                yield PatchOperation(QOS_MAPS[kind], name, str(point), str(usual), switch.name)


@rule("PF054", "cables-differ", "SONiC: CABLE_LENGTH", severity=Severity.warning, devices=EVERY)
def check_cables(reading: Reading) -> Iterator[Finding]:
    """The two ends of a cable are configured with different lengths: the shorter one makes its headroom too small.

    No incident is known.
    """
    for link, one, a, two, b in switch_links(reading):
        has = "CABLE_LENGTH" in one.tables and "CABLE_LENGTH" in two.tables
        if has and (a.cable is None) != (b.cable is None):
            lacking, known = (link.a, b.cable) if a.cable is None else (link.b, a.cable)
            yield Finding(
                Place(lacking.device, "CABLE_LENGTH", lacking.port),
                f"no length here, {known:g} m at {shown(str(link.b if lacking == link.a else link.a))}",
                f"{known:g}m",
                patch=_cable(reading, lacking, known or 0.0),
            )
        if a.cable is not None and b.cable is not None and a.cable != b.cable:
            place, other = _places(link, "CABLE_LENGTH")
            yield Finding(
                place,
                f"{a.cable:g} m here, {b.cable:g} m at {shown(str(link.b))}",
                f"{max(a.cable, b.cable):g}m until somebody has measured it",
                other,
                patch=_longer(reading, link, a.cable, b.cable),
            )


def _longer(reading: Reading, link: Link, here: float, there: float) -> tuple[PatchOperation, ...]:
    """The longer of two lengths at the other end, unless one is so much longer that it may be a typing mistake."""
    if max(here, there) > _LIKELY * min(here, there):
        return ()
    return _cable(reading, link.a if here < there else link.b, max(here, there))


def _cable(reading: Reading, end: End, metres: float) -> tuple[PatchOperation, ...]:
    """Sets a length in the row of CABLE_LENGTH that has the port, or in the only row."""
    rows = reading.rows(end.device, "CABLE_LENGTH")
    key = next((key for key, row in rows.items() if end.port in row), min(rows) if len(rows) == 1 else None)
    return () if key is None else (PatchOperation("CABLE_LENGTH", key, end.port, f"{metres:g}m", end.device),)


@rule("PF056", "fec-differs", "IEEE 802.3 clauses 73, 74, 91, 108", devices=EVERY)
def check_fec(reading: Reading) -> Iterator[Finding]:
    """The two ends of a link differ in forward error correction, autonegotiation or link training: it stays down.

    A *warning* if only one end sets the value, because the other end then has the default of its platform.

    No incident is known.
    """
    for link, one, a, two, b in switch_links(reading):
        for field in ("fec", "autoneg", "link_training"):
            here, there = getattr(a, field), getattr(b, field)
            if here == there or "auto" in {here, there} or not {"PORT"} <= one.tables & two.tables:
                continue
            place, other = _places(link, "PORT", field)
            if here and there:
                yield Finding(place, f"{field} {here} here, {there} at {shown(str(link.b))}", "the same at both", other)
            elif "off" not in {here, there}:
                (lacking, other), value = ((place, other), there) if here is None else ((other, place), here)
                yield Finding(
                    lacking,
                    f"no {field} here, {value} at {shown(f'{other.device}:{other.key}')}",
                    f'"{value}"',
                    other,
                    severity=Severity.warning,
                    patch=(PatchOperation("PORT", lacking.key, field, value),),
                )


@rule(
    "PF059",
    "down-at-one-end",
    "SONiC: PORT admin_status (portmgrd, YANG: down by default)",
    severity=Severity.warning,
    devices=EVERY,
)
def check_state(reading: Reading) -> Iterator[Finding]:
    """A port is shut down at one end of a link only: the link is down, although plans use it.

    A port of SONiC without `admin_status` is down as well (its default), if other ports of the switch have one. The
    same holds for hosts: a port or port channel is down that leads to an interface in use, or the interface is down, or
    had no carrier when its files were collected. And a VLAN is shut down that has members and an address.

    No incident is known.
    """
    yield from _host_states(reading)
    yield from _vlans_down(reading)
    for link, one, a, two, b in switch_links(reading):
        known = all("PORT" in switch.tables or switch.kind == "linux" for switch in (one, two))
        if a.up != b.up and known:
            low, high = (link.a, link.b) if not a.up else (link.b, link.a)
            tables = {switch.name: "link" if switch.kind == "linux" else "PORT" for switch in (one, two)}
            yield Finding(
                Place(low.device, tables[low.device], low.port, "admin_status"),
                f"down here, up at {shown(str(high))}",
                '"up", or "down" at both ends',
                Place(high.device, tables[high.device], high.port, "admin_status"),
                patch=(PatchOperation("PORT", low.port, "admin_status", "up"),),
            )
    for link in reading.fabric.links:
        for end, far in link.ends():
            rows = reading.rows(end.device, "PORT")
            if "admin_status" in rows.get(end.port, {"admin_status": ""}):
                continue
            if sum(row.get("admin_status") == "up" for row in rows.values()) * 2 > len(rows):
                place = Place(end.device, "PORT", end.port, "admin_status")
                message = f"no admin_status: the default is down, and {shown(str(far))} is connected"
                patch = (PatchOperation("PORT", end.port, "admin_status", "up"),)
                yield Finding(place, message, '"up"', patch=patch)


def _vlans_down(reading: Reading) -> Iterator[Finding]:
    """VLANs of SONiC that are shut down although the switch is a gateway in them."""
    for switch in reading.fabric.switches.values():
        for key, row in reading.rows(switch.name, "VLAN").items():
            vlan = next((one for one in switch.vlans.values() if f"Vlan{one.id}" == key), None)
            if row.get("admin_status") == "down" and vlan is not None and vlan.members and switch.addresses.get(key):
                yield Finding(
                    Place(switch.name, "VLAN", key, "admin_status"),
                    f"down, and {switch.addresses[key][0]} is the gateway of {counted(len(vlan.members), 'member')}",
                    '"up"',
                    patch=(PatchOperation("VLAN", key, "admin_status", "up"),),
                )


def _host_states(reading: Reading) -> Iterator[Finding]:
    """Links of hosts that are shut down at one end only."""
    for link, nic, port, end in host_links(reading):
        far = link.b if link.a == end else link.a
        host, switch = reading.fabric.hosts[end.device], reading.fabric.switches[far.device]
        channel = switch.channel_of(far.port)
        logical = host.logical(end.port) or nic
        used = nic.up or (nic.up is None and bool(nic.mtu or nic.pfc or logical.addresses or logical.vlans))
        off = far.port if not port.up else channel.name if channel is not None and not channel.up else ""
        table = "PORTCHANNEL" if port.up else "link" if switch.kind == "linux" else "PORT"
        if off and (table in switch.tables or switch.kind == "linux") and used:
            yield Finding(
                Place(far.device, table, off, "admin_status"),
                f"down here, and {shown(str(end))} is in use",
                '"up", or "down" at both ends',
                Place(end.device, "link", end.port),
                patch=(PatchOperation(table, off, "admin_status", "up"),),
            )
        elif not off and (nic.up is False or nic.carrier is False):
            yield Finding(
                Place(end.device, "link", end.port),
                f"{'down' if nic.up is False else 'no carrier when it was collected'}, up at {shown(str(far))}",
                "up at both ends, and a cable that is plugged in",
                Place(far.device, "PORT", far.port, "admin_status"),
            )
