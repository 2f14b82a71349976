"""The nodes, ports and links of an imported scenario, under the devices' own names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pauseframe.devices.files import shown
from pauseframe.devices.model import End, Link
from pauseframe.devices.wiring import resolve_end
from pauseframe.imports.fabric import missing
from pauseframe.imports.fabric.account import Account

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pauseframe.devices.bundles import Channel
    from pauseframe.devices.model import Fabric, Port, Switch

T = TypeVar("T")
SPEED, CABLE = 10_000, 5.0
"""Speed (Mb/s) and length (m) of a link for which no file gives them."""


@dataclass(frozen=True)
class Cable:
    """A link of the scenario: its ends in the files, its nodes and ports in the scenario, Mb/s and metres."""

    ends: tuple[End, End]
    nodes: tuple[str, str]
    ports: tuple[str, str]
    speed: int
    metres: float
    down: str
    """The reason why the link does not come up, or empty."""


@dataclass
class Scope:
    """The part of a fabric that a scenario has: some switches, and what is wired to them.

    `focus` is the port whose values count where the simulator has one value for all switches.
    """

    fabric: Fabric
    switches: dict[str, str]
    """The node of each switch, by device."""
    focus: End | None = None
    hosts: dict[End, str] = field(default_factory=dict)
    """The node at the far end of each link to a device that does not forward; a host with several ports is one node."""
    assumed: dict[str, str] = field(default_factory=dict)
    """The node of each switch whose files are not there."""
    twins: dict[str, str] = field(default_factory=dict)
    """For a ToR of a pair without files, the other one."""
    cables: list[Cable] = field(default_factory=list)
    account: Account = field(default_factory=Account)
    by_end: dict[End, Cable] = field(default_factory=dict)

    def known(self) -> dict[str, str]:
        """The nodes of all switches, with and without files."""
        return self.switches | self.assumed

    def ports(self) -> Iterator[tuple[End, Switch, Port]]:
        """The wired ports of the switches in the scope."""
        for cable in self.cables:
            for end in cable.ends:
                port = self.fabric.port(end)
                if end.device in self.switches and port is not None:
                    yield end, self.fabric.switches[end.device], port

    def file_port(self, end: End) -> Port | None:
        """The port of an end in the files; that of the other ToR for one without files."""
        return self.fabric.port(End(self.twins.get(end.device, end.device), end.port))

    def host_nodes(self) -> list[str]:
        """The nodes that are hosts."""
        return list(dict.fromkeys(self.hosts.values()))

    def far(self, end: End) -> End:
        """The other end of the cable of an end."""
        cable = self.by_end[end]
        return cable.ends[1 - cable.ends.index(end)]

    def port_name(self, end: End) -> str:
        """The name of a port in the scenario: node, colon, the device's own name of the port."""
        cable = self.by_end[end]
        return cable.ports[cable.ends.index(end)]

    def _is_focus(self, end: End) -> bool:
        """True for the port of the focus, and for its device if the value is one of a device."""
        focus = self.focus
        return focus is not None and (end == focus or (not end.port and end.device == focus.device))

    def choose(
        self, key: str, values: Iterable[tuple[End, T]], *, noted: bool = True, focused: bool = True
    ) -> T | None:
        """The value at the focus if `focused`, else the most frequent one; if `noted`, the account has other places."""
        found = list(values)
        if not found:
            return None
        at_focus = [value for end, value in found if focused and self._is_focus(end)]
        count = Counter(value for _, value in found)
        chosen = at_focus[0] if at_focus else min(count, key=lambda value: (-count[value], str(value)))
        if noted:
            self.hold(key, found, chosen)
        return chosen

    def hold(self, key: str, found: list[tuple[End, T]], chosen: T) -> None:
        """Notes that the scenario has one value for all: the account has the places with another one."""
        self.account.chosen[key] = _text(chosen)
        self.account.values[key] = {(end.device, end.port): _text(value) for end, value in found}
        for end, value in found:
            if value != chosen:
                self.account.differs(end.device, end.port, key, _text(value), _text(chosen))


def _natural(end: End) -> tuple[object, ...]:
    """Sorts Ethernet4 before Ethernet12."""
    return (end.device, [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", end.port)])


def _in_order(link: Link) -> Link:
    return link if _natural(link.a) <= _natural(link.b) else Link(link.b, link.a, link.metres)


def _text(value: object) -> str:
    if isinstance(value, tuple | frozenset | set):
        return ",".join(map(str, sorted(value) if not isinstance(value, tuple) else value)) or "none"
    return "none" if value is None else str(value)


def scope_of(fabric: Fabric, *, device: str = "", focus: End | None = None) -> Scope:
    """The whole fabric, or one device with its neighbours as hosts, one for each link.

    ValueError if fewer than two hosts are wired to switches.
    """
    taken: set[str] = set()
    chosen = [device] if device else _connected(fabric)
    scope = Scope(fabric, {name: _node(name, taken) for name in chosen}, focus)
    for name in () if device else sorted(fabric.switches.keys() - scope.switches.keys()):
        scope.account.differs(name, "", "switch", "without a path to most others", "not this switch")
    every = [*fabric.links] if device else [*fabric.links, *missing.links_of_peers(scope)]
    if not device:
        scope.assumed = {name: _node(name, taken) for name in missing.switches_of(scope, every)}
    links = [_in_order(link) for link in every if {link.a.device, link.b.device} & scope.known().keys()]
    links.sort(key=lambda link: (_natural(link.a), _natural(link.b)))
    _name_hosts(scope, links, taken, apart=bool(device))
    count: Counter[str] = Counter()
    for link in links:
        _add(scope, link, count, _down(fabric, link))
    if len(scope.host_nodes()) < 2:
        _assume_hosts(scope, taken, count)
    if len(scope.host_nodes()) < 2:
        raise ValueError("fewer than two hosts are connected to switches: give LLDP, DEVICE_NEIGHBOR or a topology")
    return scope


def _connected(fabric: Fabric) -> list[str]:
    """The switches of the largest part of the fabric in which each has a path to each."""
    near: dict[str, set[str]] = {name: set() for name in fabric.switches}
    for link in fabric.links:
        for end, far in link.ends():
            near.setdefault(end.device, set()).add(far.device)
    best: set[str] = set()
    left = dict.fromkeys(sorted(near))
    while left:
        found, todo = set[str](), [next(iter(left))]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += near[name]
        left = {name: None for name in left if name not in found}
        best = max(best, found & fabric.switches.keys(), key=len)
    return sorted(best)


def _node(name: str, taken: set[str]) -> str:
    """A name that the simulator accepts: letters, digits, '_', '-' and '.'."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip("-.") or "device"
    node, count = plain, 2
    while node in taken:
        node, count = f"{plain}.{count}", count + 1
    taken.add(node)
    return node


def _port(name: str) -> str:
    """A name that the simulator accepts for a port, which begins with a letter; empty if there is none."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return plain if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", plain) else ""


def _name_hosts(scope: Scope, links: list[Link], taken: set[str], *, apart: bool) -> None:
    """Names the far ends by their devices; if several links are kept apart, by device and port."""
    far = [end for link in links for end in (link.a, link.b) if end.device not in scope.known()]
    count = Counter(end.device for end in far)
    nodes: dict[str, str] = {}
    for end in far:
        name = f"{end.device}.{end.port}" if apart and count[end.device] > 1 else end.device
        scope.hosts[end] = nodes[name] if name in nodes else nodes.setdefault(name, _node(name, taken))


def _add(scope: Scope, link: Link, count: Counter[str], down: str) -> None:
    a, b = link.a, link.b
    nodes = tuple(scope.known().get(end.device) or scope.hosts[end] for end in (a, b))
    ports = []
    for node, end in zip(nodes, (a, b), strict=True):
        ports.append(f"{node}:{_port(end.port) or f'port{count[node]}'}")
        count[node] += 1
    known = [port for port in (scope.file_port(a), scope.file_port(b)) if port is not None]
    nics = [nic for nic in (scope.fabric.nic(a), scope.fabric.nic(b)) if nic is not None]
    speed = next((one for one in (*(port.speed for port in known), *(nic.speed for nic in nics)) if one), None)
    lengths = [port.cable for port in known if port.cable is not None] if link.metres is None else [link.metres]
    if speed is None:
        scope.account.assume(f"{shown(f'{a} - {b}')}: no file gives the speed: {SPEED // 1000} Gb/s")
    if not lengths:
        scope.account.assume(f"{shown(f'{a} - {b}')}: no file gives the cable: {CABLE:g} m")
    for end, far in link.ends():
        _note_end(scope, end, far, max(lengths, default=CABLE))
    cable = Cable((a, b), (nodes[0], nodes[1]), (ports[0], ports[1]), speed or SPEED, max(lengths, default=CABLE), down)
    scope.cables.append(cable)
    scope.by_end |= {a: cable, b: cable}


def _note_end(scope: Scope, end: End, far: End, metres: float) -> None:
    """Notes an end that has another length or neighbour than the link, of which the other end's count."""
    switch, port = scope.fabric.switches.get(end.device), scope.file_port(end)
    if port is not None and port.cable is not None and port.cable < metres:
        scope.account.differs(end.device, end.port, "cable", f"{port.cable:g} m", f"{metres:g} m")
    claim = switch.neighbours.get(end.port) if switch is not None else None
    if claim is not None and far.port:
        other = resolve_end(scope.fabric, *claim)
        if other.device != far.device or (other.port != far.port and far.device in scope.fabric.switches):
            scope.account.differs(end.device, end.port, "neighbour", str(other), str(far))


def _assume_hosts(scope: Scope, taken: set[str], count: Counter[str]) -> None:
    """Gives a host to each port that is up and has no neighbour."""
    for device in scope.switches:
        for port in scope.fabric.switches[device].ports.values():
            end = End(device, port.name)
            if end in scope.by_end or not port.up or (port.speed is None and not port.lossless):
                continue
            far = End(f"at-{device}-{port.name}", "")
            scope.hosts[far] = _node(far.device, taken)
            scope.account.assume(f"{shown(str(end))}: no file names its neighbour: host {scope.hosts[far]}")
            _add(scope, Link(end, far), count, "")


def _down(fabric: Fabric, link: Link) -> str:
    """The reason why a link does not come up, or empty."""
    a, b = fabric.port(link.a), fabric.port(link.b)
    for end, port in ((link.a, a), (link.b, b)):
        if port is not None and not port.up:
            return f"{end} is down"
    found = [fabric.port(end) or fabric.nic(end) for end in (link.a, link.b)]
    speeds = [one.speed for one in found if one is not None and one.speed]
    if len(set(speeds)) > 1:
        return f"{speeds[0]} Mb/s at {link.a}, {speeds[1]} Mb/s at {link.b}"
    if a is not None and b is not None:
        for name in ("fec", "autoneg", "link_training"):
            here, there = getattr(a, name), getattr(b, name)
            if here and there and here != there and "auto" not in {here, there}:
                return f"{name} {here} at {link.a}, {there} at {link.b}"
    return _down_in_channel(fabric, link)


def _down_in_channel(fabric: Fabric, link: Link) -> str:
    """The reason why a link carries nothing in its port channel (IEEE 802.1AX), or empty."""
    inside = [_channel(fabric, end) for end in (link.a, link.b)]
    both = all(end.device in fabric.switches and fabric.switches[end.device].whole for end in (link.a, link.b))
    if both and (inside[0] is None) != (inside[1] is None):
        return "a member of a port channel at one end only"
    for end, channel in zip((link.a, link.b), inside, strict=True):
        if channel is None:
            continue
        switch = fabric.switches[end.device]
        members = [switch.ports[name] for name in channel.members if name in switch.ports]
        if not channel.up:
            return f"{end.device} {channel.name} is down"
        if channel.min_links and channel.min_links > sum(member.up for member in members):
            return f"{end.device} {channel.name} needs {channel.min_links} links"
        usual = Counter(member.speed for member in members).most_common(1)[0][0] if members else None
        if switch.ports[end.port].speed != usual:
            return f"{end} has another speed than {channel.name}"
    return ""


def _channel(fabric: Fabric, end: End) -> Channel | None:
    switch = fabric.switches.get(end.device)
    return switch.channel_of(end.port) if switch and end.port in switch.ports else None
