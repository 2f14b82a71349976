"""The fabric without one finding: with its patch, or, where no patch is safe to apply, as the finding says.

Such a change is for the simulation only, because nothing tells which of two ends is right.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.devices.model import End
from pauseframe.devices.read import reread
from pauseframe.fabric.headroom import FRAME, annex_o
from pauseframe.lint.finding import PatchOperation
from pauseframe.lint.fix import patched

if TYPE_CHECKING:
    from collections.abc import Callable

    from pauseframe.devices.model import Host, Place
    from pauseframe.devices.read import Reading
    from pauseframe.lint.engine import Report
    from pauseframe.lint.finding import Finding

MOST_LISTED = 4
TWO_ENDS = ("PF050", "PF054", "PF056")
"""Findings whose cure needs the other end."""
LARGEST = 9000
"""MTU in bytes if no file gives that of the lossless hosts."""
RTO_MIN_MS = 5.0
"""Judd, NSDI 2015, §6."""


def mended(report: Report, finding: Finding) -> tuple[Reading, str] | None:
    """The reading without the finding, and what was changed; None if no cure is known."""
    if finding.patch and (reading := patched(report, finding)) is not report.reading:
        return reading, "with the patch"
    reading = report.reading
    if finding.place.device in reading.fabric.hosts:
        return _host(reading, finding) or _patched_switch(report, finding)
    if {finding.place.device, *([finding.other.device] if finding.other else [])} - reading.databases.keys():
        return None
    for operations in (
        _by_rule(reading, finding),
        _usual(reading, finding.place),
        _of_device(report, finding.place.device),
    ):
        if operations and (after := patched(report, replace(finding, patch=operations))) is not reading:
            listed = [f"{o.device} {o.table} {o.key} {o.field} = {o.value}" for o in operations]
            more = [f"{len(listed) - 1} more changes"] if len(listed) > MOST_LISTED else listed[1:]
            return after, f"with {', '.join([listed[0], *more])}"
    return None


def _patched_switch(report: Report, finding: Finding) -> tuple[Reading, str] | None:
    """The reading with all patches of the switch of a host: its fault is often the host's finding too."""
    device = finding.other.device if finding.other is not None else ""
    operations = _of_device(report, device)
    after = patched(report, replace(finding, patch=operations)) if operations else report.reading
    return None if after is report.reading else (after, f"with the patches of {device}")


def _of_device(report: Report, device: str) -> tuple[PatchOperation, ...]:
    """The patches of all findings about the device: one fault often has two findings, and one of them the patch."""
    every = [replace(o, device=o.device or f.place.device) for f in report.findings for o in f.patch]
    return tuple(operation for operation in every if operation.device == device)


def _by_rule(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    if finding.code == "PF080" and finding.place.field != "speed":
        return ()
    if finding.code in TWO_ENDS and finding.other is None:
        return ()
    return _RULES[finding.code](reading, finding) if finding.code in _RULES else ()


def _enough_headroom(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    """The profile with what its longest and fastest link needs."""
    switch = reading.fabric.switches[finding.place.device]
    name, _, group = finding.place.key.partition("|")
    port = switch.ports.get(name)
    profile = port.groups.get(int(group[:1])) if port is not None and group[:1].isdecimal() else None
    ports = [p for p in switch.ports.values() if p.speed and p.cable is not None and profile in p.groups.values()]
    needs = [annex_o(p.speed or 0, p.cable or 0.0, max_frame=LARGEST + FRAME, lossless=len(p.lossless)) for p in ports]
    if profile is None or not needs:
        return ()
    most = str(max(need.total for need in needs))
    return (PatchOperation("BUFFER_PROFILE", profile, "xoff", most, switch.name),)


def _earlier_marks(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    """Marks begin at an eighth of what the group may hold, and are certain at a quarter."""
    reach = int(finding.instead.rpartition(" ")[2])
    place = finding.place
    row = reading.rows(place.device, place.table).get(place.key, {})
    values = {"green_min_threshold": reach // 8, "green_max_threshold": reach // 4}
    return tuple(PatchOperation(place.table, place.key, n, str(v), place.device) for n, v in values.items() if n in row)


def _other_role(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    """A role whose hash SONiC rotates, or does not rotate if it rotates that of the tier below."""
    rotated = reading.fabric.switches[finding.place.device].hashing.offset
    role = "SpineRouter" if rotated else "LeafRouter"
    devices = dict.fromkeys(place.device for place in finding.places)
    return tuple(PatchOperation("DEVICE_METADATA", "localhost", "type", role, device) for device in devices)


def _as_other_end(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    """The larger of two numbers, or the word of the other end, at both ends."""
    assert finding.other is not None
    place, other = finding.place, finding.other
    rows = [reading.rows(p.device, "PORT").get(p.key, {}) for p in (place, other)]
    values = [row.get(place.field, "") for row in rows]
    best = max(values, key=lambda value: (value.isdecimal(), int(value) if value.isdecimal() else 0))
    best = best if best.isdecimal() else values[1]
    return tuple(PatchOperation("PORT", p.key, place.field, best, p.device) for p in (place, other))


def _speeds_of_peers(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    """Each member of the port channel with the speed of the port at its other end."""
    place = finding.place
    switch = reading.fabric.switches[place.device]
    channel, peers = switch.channel_of(place.key), reading.fabric.peers()
    found = []
    for name in channel.members if channel is not None else ():
        far = peers.get(End(switch.name, name))
        port = reading.fabric.port(far) if far is not None else None
        if port is not None and port.speed is not None:
            found.append(PatchOperation("PORT", name, "speed", str(port.speed), switch.name))
    return tuple(found)


def _longer_cable(reading: Reading, finding: Finding) -> tuple[PatchOperation, ...]:
    ends = [
        End(place.device, place.key or place.field) for place in (finding.place, finding.other) if place is not None
    ]
    lengths = [port.cable for end in ends if (port := reading.fabric.port(end)) is not None and port.cable is not None]
    found = []
    for end in ends:
        rows = reading.rows(end.device, "CABLE_LENGTH")
        keys = [key for key, row in rows.items() if end.port in row]
        found += [PatchOperation("CABLE_LENGTH", key, end.port, f"{max(lengths):g}m", end.device) for key in keys]
    return tuple(found)


def _usual(reading: Reading, place: Place) -> tuple[PatchOperation, ...]:
    """The value that most other devices have in the same place."""
    own = reading.databases.get(place.device)
    if own is None or not place.field:
        return ()
    here = own.rows(place.table).get(place.key, {}).get(place.field)
    others = [
        row.get(place.field)
        for name, database in reading.databases.items()
        for key, row in database.rows(place.table).items()
        if name != place.device and key == place.key
    ]
    count = Counter(value for value in others if value is not None)
    if not count or (value := count.most_common(1)[0][0]) == here:
        return ()
    return (PatchOperation(place.table, place.key, place.field, value, place.device),)


def _host(reading: Reading, finding: Finding) -> tuple[Reading, str] | None:
    """The reading with another value at a host."""
    host = deepcopy(reading.fabric.hosts[finding.place.device])
    if finding.code in _HOSTS:
        what = _HOSTS[finding.code](host)
    else:
        what = _as_switch(reading, host, finding) if finding.code in {"PF050", "PF052"} else ""
    if not what:
        return None
    fabric = reading.fabric
    hosts = {**fabric.hosts, host.name: host}
    changed = replace(reading, fabric=replace(fabric, hosts=hosts, links=[], notes=[]))
    return reread(changed, {}), f"with {host.name} {what}"


def _ecn(host: Host) -> str:
    host.sysctl["net.ipv4.tcp_ecn"] = "1"
    return "net.ipv4.tcp_ecn = 1"


def _rto(host: Host) -> str:
    host.routes = [replace(r, rto_min_ms=RTO_MIN_MS) if r.congctl == "dctcp" else r for r in host.routes]
    return f"rto_min {RTO_MIN_MS:g}ms"


def _as_switch(reading: Reading, host: Host, finding: Finding) -> str:
    """Speed and paused priorities of a NIC as its switch has them."""
    far = reading.fabric.peers().get(End(host.name, finding.place.key))
    port = reading.fabric.port(far) if far is not None else None
    nic = host.nics.get(finding.place.key)
    if port is None or nic is None:
        return ""
    if finding.code == "PF050":
        nic.speed = port.speed
        return f"{nic.name} at {port.speed} Mb/s"
    nic.pfc = port.lossless
    return f"{nic.name} pausing {','.join(map(str, sorted(port.lossless))) or 'nothing'}"


_RULES: dict[str, Callable[[Reading, Finding], tuple[PatchOperation, ...]]] = {
    "PF011": _enough_headroom,
    "PF031": _earlier_marks,
    "PF050": _as_other_end,
    "PF054": _longer_cable,
    "PF056": _as_other_end,
    "PF080": _speeds_of_peers,
    "PF087": _other_role,
}
_HOSTS: dict[str, Callable[[Host], str]] = {"PF070": _ecn, "PF071": _rto}
