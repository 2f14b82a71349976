"""Rule PF055: files must agree about the cables."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Fabric, Host, Place, Switch
from pauseframe.devices.wiring import resolve_end
from pauseframe.lint.finding import EVERY, Finding, PatchOperation, Severity, rule
from pauseframe.lint.rules.schema import is_typo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import TwoCables
    from pauseframe.devices.read import Reading


@rule("PF055", "wiring-contradicts", "SONiC: DEVICE_NEIGHBOR; IEEE 802.1AB", severity=Severity.warning, devices=EVERY)
def check_wiring(reading: Reading) -> Iterator[Finding]:
    """Two files name different neighbours for the same link: one of the two is out of date, or a cable is misplugged.

    Files are DEVICE_NEIGHBOR, LLDP, minigraphs, cables of NetBox and `--topology`; links are taken from the others
    before DEVICE_NEIGHBOR. Or files wire a port to two others; only the first is used. Or no link leads to a host that
    has files, and a switch names one that has none. Other findings about this link may then be wrong or missing.

    No incident is known.
    """
    fabric = reading.fabric
    rows = list(_rows(fabric))
    yield from rows
    yield from _named_twice(fabric)
    yield from _lost_hosts(fabric)
    judged = {End(place.device, place.key) for one in rows for place in (one.place, one.other) if place is not None}
    seen = set()
    for twice in fabric.wired_twice:
        cable = frozenset((twice.end, twice.second))
        if twice.first_source == twice.source:
            yield _one_file(twice)
        elif cable not in seen and not cable & judged:
            seen.add(cable)
            yield _two_files(twice)


def _rows(fabric: Fabric) -> Iterator[Finding]:
    """Rows of DEVICE_NEIGHBOR that the files of the other end contradict."""
    devices: list[Switch | Host] = [*fabric.switches.values(), *fabric.hosts.values()]
    for device in devices:
        for port, (other, far) in device.neighbours.items():
            peer = fabric.switches.get(other) or fabric.hosts.get(other)
            if peer is None:
                continue
            end = resolve_end(fabric, other, far)
            if end == End(device.name, port):
                yield Finding(Place(device.name, "DEVICE_NEIGHBOR", port), "to this port itself", "what LLDP shows")
                continue
            if isinstance(peer, Host) and isinstance(device, Switch) and peer.nics and end.port not in peer.nics:
                yield _no_interface(fabric, device, port, end)
            back = peer.neighbours.get(end.port)
            if isinstance(peer, Switch) and _lacks(peer, end.port):
                yield Finding(
                    Place(device.name, "DEVICE_NEIGHBOR", port),
                    f"to {shown(str(end))}, a port that the files of {shown(peer.name)} do not have",
                    "what LLDP shows, or the missing port",
                )
            elif back is None and peer.neighbours and isinstance(peer, Switch):
                yield Finding(
                    Place(other, "DEVICE_NEIGHBOR", end.port),
                    f"{shown(device.name)}:{shown(port)} says it is connected to this port, which names no neighbour",
                    f'"name": "{shown(device.name)}", "port": "{shown(port)}"',
                    Place(device.name, "DEVICE_NEIGHBOR", port),
                    patch=tuple(
                        PatchOperation("DEVICE_NEIGHBOR", end.port, field, value)
                        for field, value in (("name", device.name), ("port", port))
                    ),
                )
            if back is not None and resolve_end(fabric, *back) != End(device.name, port):
                yield Finding(
                    Place(device.name, "DEVICE_NEIGHBOR", port),
                    f"to {shown(str(end))}, which says it is connected to {shown(':'.join(back))}",
                    _claim(rows)
                    if (rows := _outvoted(fabric, End(device.name, port), end))
                    else "what LLDP shows at both",
                    Place(other, "DEVICE_NEIGHBOR", end.port),
                    patch=rows,
                )


def _one_file(twice: TwoCables) -> Finding:
    return Finding(
        Place(twice.end.device, "", twice.end.port),
        f"wired to {shown(str(twice.first))} and to {shown(str(twice.second))}: a port has one cable",
        "the one that is plugged in",
        source=twice.source,
    )


def _two_files(twice: TwoCables) -> Finding:
    """The finding about a cable that another file, or the table DEVICE_NEIGHBOR, contradicts."""
    known = shown(twice.first_source) if twice.first_source else "DEVICE_NEIGHBOR"
    row = twice.row or twice.end
    if row == twice.end:
        message = f"to {shown(str(twice.second))} here, to {shown(str(twice.first))} by {known}"
    else:
        message = f"to {shown(str(twice.end))}, which is connected to {shown(str(twice.first))} by {known}"
    place = Place(row.device, "DEVICE_NEIGHBOR" if twice.row else "", row.port)
    return Finding(place, message, "the cable that is plugged in, in both", source=twice.source)


def _named_twice(fabric: Fabric) -> Iterator[Finding]:
    """Ports that two rows name, and whose own files name no neighbour.

    Devices without files may have a name that several switches use, as the servers of minigraphs: of these, the rows of
    each switch are judged by themselves.
    """
    claims: dict[tuple[End, str], list[End]] = {}
    for switch in fabric.switches.values():
        for port, (other, far) in sorted(switch.neighbours.items()):
            end, peer = resolve_end(fabric, other, far), fabric.switches.get(other) or fabric.hosts.get(other)
            # The two ToRs of a mux cable name one port, and so may the members of a channel: that of a bond.
            bond = peer is None or (isinstance(peer, Host) and end.port in peer.bonds)
            named_so = port in switch.mux or (switch.channel_of(port) is not None and bond)
            if not named_so and (peer is None or end.port not in peer.neighbours):
                claims.setdefault((end, "" if peer else switch.name), []).append(End(switch.name, port))
    for (end, _), (first, *others) in claims.items():
        for second in others:
            yield Finding(
                Place(first.device, "DEVICE_NEIGHBOR", first.port),
                f"to {shown(str(end))}, and so is {shown(str(second))}: a port has one cable",
                "what LLDP shows",
                Place(second.device, "DEVICE_NEIGHBOR", second.port),
            )


def _no_interface(fabric: Fabric, switch: Switch, port: str, end: End) -> Finding:
    """The finding about a neighbour's interface that the files of the host do not have."""
    wired = {link_end.port for link in fabric.links for link_end in (link.a, link.b) if link_end.device == end.device}
    free = sorted({name for name, nic in fabric.hosts[end.device].nics.items() if nic.mtu or nic.pfc} - wired)
    known = free[0] if len(free) == 1 else ""
    return Finding(
        Place(switch.name, "DEVICE_NEIGHBOR", port, "port"),
        f"to {shown(str(end))}, an interface that the files of {shown(end.device)} do not have",
        f'"{shown(known)}"' if known else "what LLDP shows",
        patch=(PatchOperation("DEVICE_NEIGHBOR", port, "port", known),) if known else (),
    )


def _lost_hosts(fabric: Fabric) -> Iterator[Finding]:
    """Hosts with files to which no link leads, where a switch names a similar host that has no files."""
    wired = {end.device for link in fabric.links for end in (link.a, link.b)}
    lost = sorted(fabric.hosts.keys() - wired) if fabric.hosts.keys() & wired else []
    for switch in fabric.switches.values() if lost else ():
        for port, (other, _) in switch.neighbours.items():
            near = get_close_matches(other, lost, 1, 0.8)
            if near and is_typo(other, near[0]) and other not in fabric.switches and other not in fabric.hosts:
                yield Finding(
                    Place(switch.name, "DEVICE_NEIGHBOR", port, "name"),
                    f"{shown(other)} has no files, and no link leads to {shown(near[0])}: its rules do not run",
                    f'"{shown(near[0])}"',
                    patch=(PatchOperation("DEVICE_NEIGHBOR", port, "name", near[0]),),
                )


def _lacks(switch: Switch, port: str) -> bool:
    """True if a whole configuration has ports and not this one; Linux bridges have names that LLDP does not know."""
    return switch.whole and switch.kind != "linux" and bool(switch.ports) and port not in switch.ports


def _outvoted(fabric: Fabric, here: End, there: End) -> tuple[PatchOperation, ...]:
    """The row that stands alone: its other end agrees with a third port, and one port says that it leads here.

    `here` names `there`, which names another port.
    """
    back = _named(fabric, there)
    if back is None:
        return ()
    # Of the three ports of a contradiction, one is named by a port that nobody contradicts.
    for alone, taken in ((here, there), (there, back)):
        claims = [end for end in _all_ends(fabric) if _named(fabric, end) == alone and end != taken]
        agreed = _named(fabric, taken)
        if agreed not in (None, alone) and _named(fabric, agreed) == taken and len(claims) == 1:
            values = (("name", claims[0].device), ("port", claims[0].port))
            return tuple(PatchOperation("DEVICE_NEIGHBOR", alone.port, f, v, alone.device) for f, v in values)
    return ()


def _all_ends(fabric: Fabric) -> Iterator[End]:
    for switch in fabric.switches.values():
        yield from (End(switch.name, port) for port in switch.neighbours)


def _named(fabric: Fabric, end: End | None) -> End | None:
    """The end that the file of this one names."""
    switch = fabric.switches.get(end.device) if end is not None else None
    found = switch.neighbours.get(end.port) if switch is not None and end is not None else None
    return resolve_end(fabric, *found) if found is not None else None


def _claim(rows: tuple[PatchOperation, ...]) -> str:
    """What an outvoted row should name."""
    return f"{shown(rows[0].device)} {shown(rows[0].key)}: {shown(rows[0].value)} {shown(rows[1].value)}"
