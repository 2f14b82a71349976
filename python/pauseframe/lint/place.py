"""The ports that a finding concerns: that of its row, or those that use the profile, map or pool of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices.model import QOS_MAPS, End

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Fabric, Place, Port, Switch
    from pauseframe.lint.finding import Finding

MOST = 4
"""Maximum number of ports that are tried."""


def ends_of(fabric: Fabric, finding: Finding) -> list[End]:
    """The wired ports of switches that a finding concerns, those of the devices that its patch changes first.

    Of ports with the same speed and cable the first; at most four. Of a host, the switch ports that it is wired to.
    """
    peers = fabric.peers()
    patched = {operation.device or finding.place.device for operation in finding.patch}
    places = [finding.place, *([finding.other] if finding.other is not None else []), *finding.also]
    found: dict[End, None] = {}
    for place in sorted(places, key=lambda place: place.device not in patched):
        switch = fabric.switches.get(place.device)
        if switch is not None:
            found |= dict.fromkeys(End(switch.name, port.name) for port in _ports(switch, place))
        else:
            found |= dict.fromkeys(far for end, far in peers.items() if end.device == place.device)
    kinds: dict[tuple[object, ...], End] = {}
    for end in found:
        port = fabric.port(end)
        if port is not None and (end in peers or not peers):
            kinds.setdefault((end.device, port.speed, port.cable), end)
    return list(kinds.values())[:MOST]


def _ports(switch: Switch, place: Place) -> Iterator[Port]:
    parts = place.key.split("|")
    named = [switch.ports[part] for part in (*parts, place.field) if part in switch.ports]
    if named:
        yield from named
    elif any(part in switch.channels for part in parts):
        members = [name for part in parts if part in switch.channels for name in switch.channels[part].members]
        yield from (switch.ports[name] for name in members if name in switch.ports)
    else:
        using = [port for port in switch.ports.values() if _uses(switch, port, place.table, place.key)]
        yield from using or switch.ports.values()


def _uses(switch: Switch, port: Port, table: str, key: str) -> bool:
    profiles = [name for name in port.groups.values() if name]
    kinds = {name: getattr(port.qos, kind) for kind, name in QOS_MAPS.items()}
    if table == "BUFFER_PROFILE":
        return key in profiles
    if table == "BUFFER_POOL":
        return any(name in switch.profiles and switch.profiles[name].pool == key for name in profiles)
    if table in {"WRED_PROFILE", "SCHEDULER"}:
        return any(key in {queue.wred, queue.scheduler} for queue in port.queues.values())
    return kinds.get(table) == key
