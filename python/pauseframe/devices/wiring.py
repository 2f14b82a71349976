"""Cabling of devices from DEVICE_NEIGHBOR, LLDP and topology files, combined into links."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pauseframe.devices.files import Json, as_list, as_rows, as_text
from pauseframe.devices.model import End, Fabric, Host, Link, Switch, TwoCables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_EOS_MAC = re.compile(r"[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2}")
_FORWARD = ("bridge", "router")
_SWITCH_PORT = re.compile(r"(Ethernet|Eth|Et|swp)[0-9]+(/[0-9]+)*(s[0-9]+)?")


class Wire(NamedTuple):
    """A cable in a file: the ports at both ends."""

    device: str
    port: str
    other: str
    other_port: str
    source: str = ""
    """The file; empty for a table of CONFIG_DB."""
    metres: float | None = None
    """Length of the cable, if the file of the wiring gives it."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """LLDP data of one link end; `far` is the neighbour's announced port, `mac` that port if it is a MAC address."""

    port: str
    device: str
    far: str
    mac: str = ""
    description: str = ""
    forwards: bool | None = None
    """False if the neighbour says that it neither bridges nor routes, None if it says nothing."""


def wires_of(found: list[Neighbour], device: str, source: str) -> list[Wire]:
    """The cables that a device's LLDP shows."""
    return [Wire(device, item.port, item.device, item.far, source) for item in found]


def roles_of(found: list[Neighbour]) -> dict[str, Literal["switch", "host"]]:
    """The neighbours that say they forward nothing. A bridge may be one for containers, so it tells nothing."""
    return {item.device: "host" for item in found if item.forwards is False}


def lldp_neighbours(value: Json) -> list[Neighbour] | None:
    """Neighbours in the output of `lldpctl -f json0` (or `-f json`), or EOS's `show lldp neighbors [detail] | json`.

    None for any other value.
    """
    rows = as_rows(value)
    if "lldpNeighbors" in rows:
        return list(_of_eos(rows["lldpNeighbors"]))
    return list(_neighbours(rows["lldp"])) if "lldp" in rows else None


def _of_eos(top: Json) -> Iterator[Neighbour]:
    """EOS lists names and ports; with `detail` it has a table by port, with capabilities. No management ports.

    Ids of ports are quoted in `interfaceId`, bare in `interfaceId_v2`; MAC addresses are in groups of four digits.
    """
    named = [(as_text(row.get("port")), row) for row in map(as_rows, as_list(top))]
    for port, about in as_rows(top).items():
        named += [(port, as_rows(row)) for row in as_list(as_rows(about).get("lldpNeighborInfo"))]
    for port, row in named:
        far = as_rows(row.get("neighborInterfaceInfo"))
        peer = as_text(row.get("neighborPort")) or as_text(far.get("interfaceId_v2")) or as_text(far.get("interfaceId"))
        device = as_text(row.get("neighborDevice")) or as_text(row.get("systemName")) or as_text(row.get("chassisId"))
        peer = peer.strip('"')
        mac = ":".join(re.findall("..", peer.replace(".", "").lower())) if _EOS_MAC.fullmatch(peer) else ""
        enabled = [value is True for name, value in as_rows(row.get("systemCapabilities")).items() if name in _FORWARD]
        if port and device and peer and not port.startswith("Management"):
            description = as_text(far.get("interfaceDescription"))
            yield Neighbour(port, device, mac or peer, mac, description, any(enabled) if enabled else None)


def _neighbours(top: Json) -> Iterator[Neighbour]:
    for interface, about in _lldp_interfaces(top):
        chassis, port = _first(about.get("chassis")), _first(about.get("port"))
        if not any(key in chassis for key in ("name", "id")) and len(chassis) == 1:
            name, inner = next(iter(chassis.items()))  # `-f json` keys the chassis by its name
            chassis = dict(as_rows(inner))
        else:
            name = _lldp_value(chassis.get("name")) or _lldp_value(chassis.get("id"))
        peer, kind = _lldp_value(port.get("id")), as_text(_first(port.get("id")).get("type"))
        if interface and name and peer:
            mac = peer.lower() if kind == "mac" else ""
            yield Neighbour(interface, name, peer, mac, _lldp_value(port.get("descr")), _forwards(chassis))


def _forwards(chassis: Mapping[str, Json]) -> bool | None:
    """What the capabilities of a chassis say (IEEE 802.1AB, 8.5.8); None if it announces none of those that tell."""
    rows = [as_rows(row) for row in as_list(chassis.get("capability")) or [chassis.get("capability")]]
    enabled = {as_text(row.get("type")): as_text(row.get("enabled")) in {"true", "on"} for row in rows}
    known = [enabled[name] for name in ("Bridge", "Router") if name in enabled]
    return any(known) if known or enabled.get("Station") else None


def _lldp_interfaces(top: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    for item in as_list(top) or [top]:
        inner = as_rows(item).get("interface")
        for entry in as_list(inner) or [inner]:
            rows = dict(as_rows(entry))
            if "name" in rows:
                yield as_text(rows["name"]), rows
            else:
                for name, about in rows.items():
                    yield name, dict(as_rows(about))


def _first(value: Json) -> dict[str, Json]:
    items = as_list(value)
    return dict(as_rows(items[0] if items else value))


def _lldp_value(value: Json) -> str:
    item: Json = _first(value) or value
    return as_text(as_rows(item).get("value")) if isinstance(item, dict) else as_text(item)


def of_topology(path: Path) -> list[Wire]:
    """Cables of a topology file that names the ports of both ends."""
    import json

    from pauseframe.fabric.topology import load_topology

    edges = json.loads(load_topology(path).write("node-link"))["edges"]
    named = [edge for edge in edges if "source_port" in edge and "target_port" in edge]
    ends = [(e["source"], str(e["source_port"]), e["target"], str(e["target_port"])) for e in named]
    return [Wire(*end, str(path)) for end in ends]


def connect(fabric: Fabric, wires: list[Wire]) -> None:
    """Adds links to the fabric; an end belongs to one link, the first that a file names."""
    wires = [*wires]
    for switch in fabric.switches.values():
        source = _lldp_of(switch) if switch.kind == "linux" else ""
        wires += [Wire(switch.name, port, *far, source) for port, far in sorted(switch.neighbours.items())]
    for host in fabric.hosts.values():
        wires += [Wire(host.name, port, *far, _lldp_of(host)) for port, far in sorted(host.neighbours.items())]
    # A neighbour that LLDP knows by a MAC address alone takes no port from one with a name.
    wires.sort(key=lambda wire: _MAC.fullmatch(wire.other.lower()) is not None)
    used: dict[End, tuple[End, str]] = {}
    known = _Names(fabric, wires)
    for wire in wires:
        a, b = resolve_end(fabric, wire.device, wire.port), resolve_end(fabric, wire.other, wire.other_port)
        a, b = _leg(fabric, used, b, a), _leg(fabric, used, a, b)
        if a != b and a not in used and b not in used:
            used |= {a: (b, wire.source), b: (a, wire.source)}
            fabric.links.append(Link(a, b, wire.metres))
            continue
        taken = [
            (end, first, far, source)
            for end, far in ((a, b), (b, a))
            for first, source in [used.get(end, (far, ""))]
            if first != far
        ]
        for end, first, far, source in taken if wire.source else ():
            if source == wire.source:
                fabric.wired_twice.append(TwoCables(end, first, far, source, source))
        # Two rows of DEVICE_NEIGHBOR that disagree are left to rule PF055.
        other = [one for one in taken if one[3] != wire.source and known.differ(one, wire.source)]
        if other:
            end, first, far, source = other[0]
            fabric.wired_twice.append(TwoCables(end, first, far, wire.source, source, None if wire.source else a))
    fabric.wired_twice = list(dict.fromkeys(fabric.wired_twice))


def _lldp_of(device: Switch | Host) -> str:
    """The file of collect.sh with the neighbours of a Linux device."""
    return str(Path(device.source) / "lldp.json")


class _Names:
    """The devices and ports that each file names; LLDP may call a port or host by another name than DEVICE_NEIGHBOR."""

    def __init__(self, fabric: Fabric, wires: list[Wire]) -> None:
        self._fabric, self._wires = fabric, wires

    @cached_property
    def _ends(self) -> dict[str, set[End]]:
        """The ends that each file names; few fabrics need them."""
        found: dict[str, set[End]] = defaultdict(set)
        for wire in self._wires:
            ends = (wire.device, wire.port), (wire.other, wire.other_port)
            found[wire.source] |= {resolve_end(self._fabric, *end) for end in ends}
        return found

    @cached_property
    def _devices(self) -> dict[str, set[str]]:
        return {source: {_short(end.device) for end in ends} for source, ends in self._ends.items()}

    def differ(self, taken: tuple[End, End, End, str], other_source: str) -> bool:
        """True if a port has certainly two cables, by (port, first far end, second far end, file of the first).

        Not if the far ends may be two names of one, or the port is one that several devices may have: a device without
        files has in minigraphs a name such as Servers0.
        """
        end, one, other, source = taken
        if end.device not in self._fabric.switches and end.device not in self._fabric.hosts:
            return False
        devices = _short(one.device), _short(other.device)
        if devices[0] != devices[1]:
            named = devices[0] in self._devices[other_source] or devices[1] in self._devices[source]
            known = {*self._fabric.switches, *self._fabric.hosts} & {one.device, other.device}
            return bool(named or known) and not any(_MAC.fullmatch(device) for device in devices)
        has = [self._fabric.port(end) or self._fabric.nic(end) for end in (one, other)]
        return None not in has or one in self._ends[other_source] or other in self._ends[source]


def _short(device: str) -> str:
    """A device's name without its domain; hosts have names in either case."""
    return device.partition(".")[0].lower()


def _leg(fabric: Fabric, used: dict[End, tuple[End, str]], near: End, far: End) -> End:
    """The far end, or its second leg: the two ToRs of a mux cable name one port of the server."""
    switch = fabric.switches.get(near.device)
    leg = End(far.device, f"{far.port}.{near.device}")
    if switch is None or near.port not in switch.mux or far not in used:
        return far
    return leg if near not in used or used[near][0] == leg else far


def is_port_of_switch(name: str) -> bool:
    """True if a port has a name that switches give: Ethernet4 (SONiC), Ethernet1/1 (EOS), swp3s0 (Cumulus Linux)."""
    return _SWITCH_PORT.fullmatch(name) is not None


def resolve_end(fabric: Fabric, device: str, port: str) -> End:
    """A link end with the device's own port name; neighbours know only the alias (SONiC) or MAC address (Linux).

    Neighbours announce names with the domain, if the device has one.
    """
    short = device.partition(".")[0]
    if device not in fabric.switches and device not in fabric.hosts and {short} & {*fabric.switches, *fabric.hosts}:
        device = short
    host = fabric.hosts.get(device)
    if host is not None and port not in host.nics:
        return End(device, next((nic.name for nic in host.nics.values() if nic.mac and nic.mac == port.lower()), port))
    switch = fabric.switches.get(device)
    if switch is None or port in switch.ports:
        return End(device, port)
    return End(device, next((p.name for p in switch.ports.values() if p.alias == port), port))
