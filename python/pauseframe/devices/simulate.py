"""A scenario of a deployed fabric: links, buffers, PFC and marking from its files, and a placeholder workload.

The simulator has one setting for all switches and all lossless priorities. Where devices differ, the scenario takes the
setting of most ports, and its first line states the differences.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from pauseframe.devices.model import DEFAULT_MTU, End, Fabric
from pauseframe.headroom import LIGHT
from pauseframe.scenario import Scenario
from pauseframe.scenario.tables import Custom, CustomLink, Permutation, Pfc, Shared, Step, Switch, Transport
from pauseframe.scenario.tables import Host as HostKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")


def scenario_of(fabric: Fabric, *, name: str = "fabric") -> str:
    """The text of a scenario file.

    ValueError if fewer than two hosts are connected to switches.
    """
    switches = {device: f"s{i}" for i, device in enumerate(sorted(fabric.switches))}
    links: list[CustomLink] = []
    hosts: dict[End, str] = {}
    for link in fabric.links:
        inner = [end.device in switches for end in (link.a, link.b)]
        if not any(inner):
            continue
        for end, is_switch in zip((link.a, link.b), inner, strict=True):
            if not is_switch:
                hosts[end] = f"h{len(hosts)}"
        ends = [switches[e.device] if e.device in switches else hosts[e] for e in (link.a, link.b)]
        links.append(_link(fabric, link.a, link.b, ends))
    if len(hosts) < 2:
        raise ValueError("fewer than two hosts are connected to switches: give LLDP, DEVICE_NEIGHBOR or a topology")
    notes: list[str] = []
    host, switch = _host_and_switch(fabric, notes)
    scenario = Scenario(
        name=name,
        stop="20 ms",
        transport=Transport(preset="tcp_bolt"),
        host=host,
        switch=switch,
        topology=Custom(hosts=list(hosts.values()), switches=list(switches.values()), links=links),
        workload=[Permutation(size="1 MB")],  # a placeholder that users replace
    )
    legend = [f"# {short}: {_plain(device)}" for device, short in switches.items()]
    legend += [f"# {short}: {_plain(str(end))}" for end, short in hosts.items()]
    of_editors, _, rest = scenario.to_toml().partition("\n")
    return "\n".join([of_editors, "", *(f"# {note}" for note in notes), *legend, rest])


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _link(fabric: Fabric, a: End, b: End, names: Sequence[str]) -> CustomLink:
    """Rate and delay of a link; 10 Gb/s and 5 m if no file gives them."""
    ports = [port for port in (fabric.port(a), fabric.port(b)) if port is not None]
    speed = next((port.speed for port in ports if port.speed), 10_000)
    cable = next((port.cable for port in ports if port.cable is not None), 5.0)
    return CustomLink(ends=names, rate=f"{speed} Mbps", delay=f"{max(1, round(cable * 1e9 / LIGHT))} ns")


def _most(values: Iterable[T], what: str, notes: list[str]) -> T | None:
    """The most frequent value; adds a note if other values occur."""
    count = Counter(values)
    if len(count) > 1:
        notes.append(f"{what} differs between ports: that of most is taken")
    return count.most_common(1)[0][0] if count else None


def _host_and_switch(fabric: Fabric, notes: list[str]) -> tuple[HostKeys, Switch]:
    """The `[host]` and `[switch]` tables with the values of the files."""
    mtus = [switch.lossless_mtu or min(port.mtu or DEFAULT_MTU, 9000) for switch, port in fabric.ports()]
    host = HostKeys(mtu=f"{max(_most(mtus, 'MTU', notes) or 1500, 576)} B")
    lossless = _most((tuple(sorted(port.lossless)) for _, port in fabric.ports()), "the paused priorities", notes)
    pools = [
        pool.size
        for s in fabric.switches.values()
        for pool in s.pools.values()
        if pool.direction != "egress" and pool.size
    ]
    size = _most(pools, "the size of pools", notes)
    buffer = None if size is None else Shared(size=f"{size} B", alpha=_alpha(fabric, notes))
    marks = [
        wred.min_threshold
        for switch, port in fabric.ports()
        for queue in port.queues.values()
        if (wred := switch.wred.get(queue.wred or ""))
        and wred.marks_green
        and "green" in wred.enabled
        and wred.min_threshold
    ]
    mark = _most(marks, "the marking threshold", notes)
    pfc = None
    if lossless:
        headrooms = [
            have
            for switch, port in fabric.ports()
            for group in port.lossless
            if (have := switch.headroom_of(port, group)[0])
        ]
        headroom = _most(headrooms, "headroom", notes)
        pfc = Pfc(priorities=list(lossless), headroom=f"{headroom} B" if headroom else None)
    return host, Switch(buffer=buffer, marker=Step(k=f"{mark} B") if mark else "none", pfc=pfc)


def _alpha(fabric: Fabric, notes: list[str]) -> float:
    profiles = [
        profile.alpha
        for switch, port in fabric.ports()
        for name in port.groups.values()
        if (profile := switch.profiles.get(name or "")) and profile.alpha and profile.has_headroom
    ]
    return _most(profiles, "alpha", notes) or 1.0
