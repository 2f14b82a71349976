"""The view of a deployed fabric for the core's verifier: switches, links, static forwarding rows, lanes.

The core sees numbers instead of device and port names, and its reports are translated back, so that no name in a file
can be mistaken for anything else.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe.devices.model import End, Fabric, FdbRow, Switch
from pauseframe.fabric.topology import topology_of
from pauseframe.files.atomic import write_text
from pauseframe.lint.subject import group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pauseframe._core import Topology
    from pauseframe.types import RouteReport


@dataclass(frozen=True)
class Checked:
    """The verifier's report on forwarding rows, and the rows that it cannot check."""

    report: RouteReport
    dangling: list[tuple[int, str, str, str]]
    """Rows (VLAN, switch, MAC, port) whose next device is unknown."""
    vlan_of: dict[int, int]
    """VLANs by the numbers in the report, which has one number for each lane of a VLAN."""


@dataclass
class Forwarding:
    """Static layer-2 forwarding of a fabric, with names translated for the core."""

    switches: list[str]
    hosts: list[tuple[End, str]]
    """Destination hosts as (switch port, MAC address)."""
    edges: list[tuple[End, End]]
    rates: dict[End, int]
    rows: dict[int, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Forwarding rows by VLAN, as (switch, MAC address, port)."""
    outside: list[str] = field(default_factory=list)
    """Devices without files that rows lead to and that have several addresses behind them, so presumably switches."""

    @classmethod
    def of(cls, fabric: Fabric) -> Forwarding:
        """The rows of all switches; a MAC address is at the end of a row whose port leads to no switch."""
        peers = fabric.peers()
        between = {
            e
            for link in fabric.links
            for e in (link.a, link.b)
            if link.a.device in fabric.switches and link.b.device in fabric.switches
        }
        rows: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
        homes: dict[str, End] = {}
        for switch in fabric.switches.values():
            for row in _last_rows(switch):
                port = _link_of(switch, row.port)
                rows[row.vlan].append((switch.name, row.mac, port))
                end = End(switch.name, port)
                if end not in between:
                    homes.setdefault(row.mac, end)
        behind: dict[End, set[str]] = defaultdict(set)
        for switch in fabric.switches.values():
            for row in _last_rows(switch):
                behind[End(switch.name, _link_of(switch, row.port))].add(row.mac)
        named = {peers[e].device for e, macs in behind.items() if e in peers and len(macs) > 1}
        outside = sorted(named - fabric.switches.keys() - fabric.hosts.keys())
        edges = [(e, peers[e]) for e in sorted(between, key=str) if str(e) < str(peers[e])]
        rates = {End(s.name, p.name): p.speed or 10_000 for s, p in fabric.ports()}
        hosts = sorted(((end, mac) for mac, end in homes.items()), key=lambda host: (str(host[0]), host[1]))
        return cls(sorted(fabric.switches), hosts, edges, rates, dict(rows), outside)

    def __post_init__(self) -> None:
        self._switch = {name: f"s{i}" for i, name in enumerate(self.switches)}
        self._names = {short: name for name, short in self._switch.items()}
        self._host = {mac: f"h{i}" for i, (_, mac) in enumerate(self.hosts)}
        self._names |= {f"h{i}": f"{mac} at {end}" for i, (end, mac) in enumerate(self.hosts)}
        self._ports: dict[str, list[str]] = defaultdict(list)
        self._number: dict[tuple[str, str], str] = {}

    def _port(self, device: str, port: str) -> str:
        key = (device, port)
        if key not in self._number:
            self._ports[device].append(port)
            self._number[key] = f"p{len(self._ports[device])}"
        return self._number[key]

    def topology(self) -> Topology:
        """The core's topology: the switches, and for each MAC address a host on its own port."""
        edges = [self._edge(self._host[mac], "p1", end, f"{end.port}\0{mac}") for end, mac in self.hosts]
        edges += [self._edge(self._switch[a.device], self._port(a.device, a.port), b, b.port) for a, b in self.edges]
        return topology_of(self._switch.values(), self._host.values(), edges)

    def _edge(self, source: str, source_port: str, target: End, target_port: str) -> dict[str, str]:
        number = self._port(target.device, target_port)
        return edge(source, source_port, self._switch[target.device], number, self.rates.get(target))

    def check(self, lanes: dict[int, set[int]], senders: dict[int, set[tuple[str, str]]]) -> Checked:
        """The verifier's report on the VLANs in `lanes`.

        `lanes` maps a VLAN to its lanes; `senders` maps a VLAN to the pairs of switches whose hosts use it (all pairs
        for a VLAN without an entry).
        """
        from pauseframe import _core

        topology = self.topology()
        known = {(name, port) for name, ports in self._ports.items() for port in ports}
        homes = {mac: end for end, mac in self.hosts}
        lines, of_lane, dangling = ["switch,vlan,destination,port"], ["vlan,lane"], []
        of_sender = ["vlan,from,to"]
        number, real = 0, {}
        for vlan, used in sorted(lanes.items()):
            for lane in sorted(used):
                number += 1
                real[number] = vlan
                of_lane.append(f"{number},{lane}")
                for one, other in sorted(senders.get(vlan, set())):
                    of_sender.append(f"{number},{self._switch[one]},{self._switch[other]}")
                for switch, mac, port in self.rows.get(vlan, []):
                    here = port if homes.get(mac) != End(switch, port) else f"{port}\0{mac}"
                    if mac not in self._host or (switch, here) not in known:
                        dangling.append((vlan, switch, mac, port))
                        continue
                    lines.append(f"{self._switch[switch]},{number},{self._host[mac]},{self._port(switch, here)}")
        with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
            parts = [*of_lane, "", *dict.fromkeys(lines), "", *(of_sender if len(of_sender) > 1 else []), ""]
            file = write_text(Path(folder) / "tables.csv", "\n".join(parts))
            try:
                routes = _core.read_routes(str(file), topology)
            except _core.FabricError as error:
                raise _core.FabricError(self._in_own_words(str(error))) from None
            return Checked(routes.check(), dangling, real)

    def _in_own_words(self, message: str) -> str:
        """A message of the core about the rows, with the names of the files and without places in the table."""

        def own(found: re.Match[str]) -> str:
            node, port = found[1], found[2]
            return ":".join(self.name(f"{node}{port}")) if port else self.who(node)

        message = re.sub(r"^.*tables\.csv(, line [0-9]+)?: | in line [0-9]+", "", message)
        return re.sub(r'"?\b([sh][0-9]+)(:p[0-9]+)?\b"?', own, message)

    def name(self, port: str) -> tuple[str, str]:
        """(device, port) of a core's port, given by table name ("s3:p3") or by number ("s3:2")."""
        node, _, number = port.rpartition(":")
        device = self._names.get(node, node)
        ports = self._ports.get(device, [])
        position = int(number[1:]) - 1 if number.startswith("p") else int(number)
        if device in self._switch and position < len(ports):
            return device, ports[position].partition("\0")[0]
        return device, number

    def who(self, node: str) -> str:
        """Name of a node in the device files."""
        return self._names.get(node, node)


def edge(source: str, source_port: str, target: str, target_port: str, rate: int | None) -> dict[str, str]:
    """A link of a node-link document. `rate` is in Mb/s; a port without a speed counts as 10 Gb/s."""
    return {
        "source": source,
        "source_port": source_port,
        "target": target,
        "target_port": target_port,
        "rate": f"{rate or 10_000} Mbps",
    }


def senders_of(fabric: Fabric, forwarding: Forwarding) -> dict[int, set[tuple[str, str]]]:
    """For each VLAN, pairs of switches between which hosts send, since they have static neighbour entries.

    VLANs in which no host has static neighbour entries are left out, because their senders are unknown, and so are
    switches that have no row to a host of theirs.
    """
    homes = {mac: end.device for end, mac in forwarding.hosts}
    with_hosts = set(homes.values())
    peers = fabric.peers()
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for host in fabric.hosts.values():
        for nic in host.nics.values():
            far = peers.get(End(host.name, nic.name))
            for vlan in nic.vlans.values():
                for mac in vlan.neighbours.values():
                    if far is not None and far.device in with_hosts and mac in homes:
                        found[vlan.id].add((far.device, homes[mac]))
    return dict(found)


def lanes_of(fabric: Fabric) -> tuple[dict[int, set[int]], bool]:
    """Priorities of each VLAN, and whether any is known.

    The priorities come from the hosts, or else from descriptions, or else are all paused priorities.
    """
    priorities: dict[int, set[int]] = defaultdict(set)
    for host in fabric.hosts.values():
        for vlan in host.vlans():
            priorities[vlan.id] |= set(vlan.egress.values()) or {0}
    for switch in fabric.switches.values():
        for vlan_id, own in switch.vlans.items():
            if own.priority is not None and vlan_id not in priorities:
                priorities[vlan_id] = {own.priority}
    known = bool(priorities)
    lossless = {p for _, port in fabric.ports() for p in port.lossless}
    for switch in fabric.switches.values():
        for row in switch.fdb:
            if row.vlan not in priorities:
                priorities[row.vlan] = set(lossless)
    return dict(priorities), known


def coupled(switches: Iterable[Switch], lossless: Sequence[int]) -> dict[int, int]:
    """Lane of each paused priority; priorities that share a group somewhere wait for each other and form one lane."""
    lane = {priority: priority for priority in lossless}
    for switch in switches:
        for port in switch.ports.values():
            groups: dict[int, int] = {}
            for priority in sorted(port.lossless):
                first = groups.setdefault(group_of(switch, port, priority), priority)
                joined = lane[priority]
                if joined != lane[first]:
                    lane = {p: lane[first] if q == joined else q for p, q in lane.items()}
    numbers = {found: i for i, found in enumerate(sorted(set(lane.values())))}
    return {priority: numbers[found] for priority, found in lane.items()}


def _last_rows(switch: Switch) -> Iterable[FdbRow]:
    """One row for each VLAN and address: of several the last, as a switch has it."""
    return {(row.vlan, row.mac): row for row in switch.fdb}.values()


def _link_of(switch: Switch, port: str) -> str:
    """The port itself, or the first member of a port channel: all members lead to the same device."""
    channel = switch.channels.get(port)
    return channel.members[0] if channel and channel.members else port
