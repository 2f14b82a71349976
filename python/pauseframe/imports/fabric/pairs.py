"""Pairs of switches that share hosts: the classes of tunnels between ToRs of mux cables, and peer links of MCLAG."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pauseframe.devices.files import whole_number
from pauseframe.devices.tunnels import buffer_maps, outer_dscp, tunnel_of, uplinks_of
from pauseframe.imports.fabric.traffic import CodePoint, treatment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import End, Switch
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes


def routing_of(scope: Scope, reading: Reading, classes: Classes, host: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of [routing] about pairs of switches."""
    if host.get("port_choice") == "mux":
        rows = _remap(scope, reading, classes)
        return {"tunnel_remap": rows} if rows else {}
    return {"mlag": True} if _has_peer_links(scope) else {}


PROBER = "LINK_PROBER"
_TIMES = (  # field of MUX_LINKMGR, key of [host], SONiC's default, and the limits of the key
    ("interval_v4", "link_prober_interval", 100, (1, 10_000)),
    ("negative_signal_count", "negative_signal_count", 3, (1, 100)),
)


def mux_times(scope: Scope, reading: Reading) -> dict[str, Any]:
    """The keys of [host] about the probes of mux cables: what most ToRs have."""
    found: dict[str, Any] = {}
    tors = [name for name in scope.switches if scope.fabric.switches[name].mux and name in reading.databases]
    for name, key, usual, (low, high) in _TIMES:
        own = {}
        for tor in tors:
            value = whole_number(reading.databases[tor].rows("MUX_LINKMGR").get(PROBER, {}).get(name))
            own[tor] = usual if value is None else value
        votes = Counter(value for value in own.values() if low <= value <= high)
        chosen = max(votes, key=lambda value: (votes[value], -value), default=usual)
        for tor, value in own.items():
            if value != chosen:
                scope.account.differs(tor, "", f"MUX_LINKMGR {PROBER} {name}", str(value), str(chosen))
        if chosen != usual:
            found[key] = f"{chosen} ms" if name == "interval_v4" else chosen
    return found


def _has_peer_links(scope: Scope) -> bool:
    """True if a link joins two switches of an MCLAG domain that share hosts; notes peer links beside those."""
    at: dict[str, set[str]] = {}
    for end, node in scope.hosts.items():
        at.setdefault(node, set()).add(scope.far(end).device)
    pairs = {frozenset(own) for own in at.values() if len(own) == 2}
    joined = {frozenset({cable.ends[0].device, cable.ends[1].device}) for cable in scope.cables}
    found = False
    for name in scope.switches:
        domain = scope.fabric.switches[name].mclag
        if domain is None or not domain.peer_link:
            continue
        own = [pair for pair in pairs & joined if name in pair]
        found |= bool(own)
        if not own:
            scope.account.differs(name, domain.peer_link, "peer_link", "of MCLAG", "an ordinary link or none")
    return found


def _remap(scope: Scope, reading: Reading, classes: Classes) -> list[dict[str, int]]:
    """The priority of the outer header, by that of the packet: what most uplinks of ToRs give."""
    votes: dict[int, Counter[int]] = {}
    places: list[tuple[End, int, int]] = []
    for name in scope.switches:
        switch, database = scope.fabric.switches[name], reading.databases.get(name)
        if not switch.mux or database is None or (tunnel := tunnel_of(database)) is None:
            continue
        for own, traffic_class, priority, outer in _outer(scope, switch, tunnel[2]):
            votes.setdefault(priority, Counter())[outer] += 1
            places.append((own, priority, outer))
            if priority in classes.paused:
                _buffers(scope, database, tunnel, (name, traffic_class, outer))
    rows = []
    for priority, count in sorted(votes.items()):
        chosen = min(count, key=lambda outer: (-count[outer], outer))
        for own, at, outer in places:
            if at == priority and outer != chosen:
                scope.account.differs(own.device, own.port, f"outer class of {priority}", str(outer), str(chosen))
        if chosen in classes.paused and priority not in classes.paused:
            scope.account.differs(places[0][0].device, "", f"outer class of {priority}", str(chosen), "its own class")
        elif chosen != priority:
            rows.append({"priority": priority, "outer": chosen})
    return rows


def _buffers(
    scope: Scope, database: ConfigDb, tunnel: tuple[str, Mapping[str, str], object], at: tuple[str, int, int]
) -> None:
    """Notes a class that the maps of a tunnel put into other buffers than those of its outer class."""
    name, traffic_class, outer = at
    for field, rows in buffer_maps(database, tunnel[1]):
        number = rows.get(str(traffic_class))
        if number is not None and number != str(outer):
            instead = f"{outer}, that of the outer class"
            scope.account.differs(name, f"TUNNEL {tunnel[0]}", f"{field} of class {traffic_class}", number, instead)


def _outer(scope: Scope, switch: Switch, remap: Mapping[str, str] | None) -> Iterator[tuple[End, int, int, int]]:
    """For each uplink and class: both, and the queues of a packet and of its outer header at the T1."""
    for own, up, far in uplinks_of(scope.fabric, switch):
        points = switch.mapped("dscp_to_tc", up.qos.dscp_to_tc) if up.qos.dscp_to_tc else None
        there, port = scope.fabric.switches.get(far.device), scope.fabric.port(far)
        judge, at = (there, port) if there is not None and port is not None and port.qos.dscp_to_tc else (switch, up)
        for traffic_class in sorted({*(points or {}).values()}):
            inner, outer = outer_dscp(points, remap, traffic_class)
            if inner is not None and outer is not None:
                before, inside = (treatment(judge, at, CodePoint("dscp", one)).queue for one in (inner, outer))
                yield own, traffic_class, before, inside
