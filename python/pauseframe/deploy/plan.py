"""What is deployed: the plan's topology and tables, with names, ports and addresses of real devices."""

from __future__ import annotations

import csv
import ipaddress
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe.devices.files import DeviceFileError, Json, as_list, as_rows, as_text, parse_json, read_text, shown
from pauseframe.devices.model import End

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")


class DeployError(ValueError):
    """A plan cannot be deployed as asked: what is in the way, what would do."""


@dataclass(frozen=True)
class Settings:
    """What is asked for. `mtu` of hosts in bytes, `cable` in metres, `buffer` in bytes."""

    target: str = "sonic"
    hosts: str = "tcp_bolt"
    priorities: tuple[int, ...] = (3, 4)
    cable: float = 5.0
    mtu: int = 9000
    buffer: int = 32_000_000

    @property
    def port_mtu(self) -> int:
        """Of switch ports: room for tags."""
        return min(self.mtu + 100, 9216)


@dataclass
class PlannedHost:
    """A host of the plan."""

    name: str
    nic: str
    mac: str
    switch: str
    port: str
    speed: int
    number: int

    def address(self, vlan_index: int) -> str:
        """Its address in the VLAN of this index: 10.x.y.z."""
        return str(ipaddress.ip_address("10.0.0.0") + ((vlan_index + 1) << 16) + self.number + 1)


@dataclass
class Plan:
    """A plan for devices: ports have the devices' names."""

    switches: list[str] = field(default_factory=list)
    hosts: list[PlannedHost] = field(default_factory=list)
    links: list[tuple[End, End, int]] = field(default_factory=list)
    """Between switches: both ends, Mb/s."""
    vlans: dict[int, int] = field(default_factory=dict)
    """VLAN to lane."""
    rows: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    """By switch: (VLAN, host, port)."""
    senders: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    """VLAN to pairs of switches between which it may be used; a VLAN that is not there may be by all."""
    used: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    """VLAN to (switch, host) where frames from that switch arrive and may be sent."""
    notes: list[str] = field(default_factory=list)

    def uses(self, vlan: int, source: PlannedHost, target: PlannedHost) -> bool:
        """Whether a host sends to another in a VLAN."""
        return source.name != target.name and (source.switch, target.name) in self.used[vlan]

    def ports(self, switch: str) -> dict[str, tuple[End, int]]:
        """Ports of a switch: the other end, and Mb/s."""
        return self._ports[switch]

    def __post_init__(self) -> None:
        self._ports: dict[str, dict[str, tuple[End, int]]] = defaultdict(dict)

    def index(self) -> None:
        """Fills in what `ports` and `uses` look up."""
        for a, b, speed in self.links:
            self._ports[a.device][a.port] = (b, speed)
            self._ports[b.device][b.port] = (a, speed)
        for host in self.hosts:
            self._ports[host.switch][host.port] = (End(host.name, host.nic), host.speed)
        self.used = {vlan: set() for vlan in self.vlans}
        onward: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        for switch, rows in self.rows.items():
            for vlan, to, port in rows:
                onward[vlan, to][switch] = self._ports[switch][port][0].device
        at = {host.name: host.switch for host in self.hosts}
        racks = set(at.values())
        for (vlan, to), following in onward.items():
            allowed = self.senders.get(vlan)
            for switch in _arriving(following, to) & racks:
                if allowed is None or (switch, at[to]) in allowed:
                    self.used[vlan].add((switch, to))
        self._keep_used_rows(onward)

    def _keep_used_rows(self, onward: dict[tuple[int, str], dict[str, str]]) -> None:
        """Drops rows on no allowed way: the rest cannot deadlock whoever sends, for any other way is a part of one."""
        kept: set[tuple[int, str, str]] = set()
        for vlan in self.senders.keys() & self.vlans.keys():
            for start, to in self.used[vlan]:
                following, place = onward[vlan, to], start
                while place in following and (vlan, to, place) not in kept:
                    kept.add((vlan, to, place))
                    place = following[place]
        for switch, rows in self.rows.items():
            self.rows[switch] = [
                (vlan, to, port) for vlan, to, port in rows if vlan not in self.senders or (vlan, to, switch) in kept
            ]


def _arriving(onward: dict[str, str], to: str) -> set[str]:
    """The switches from which following the next devices ends at a host."""
    arrives: dict[str, bool] = {}
    for start in onward:
        way, at = [], start
        while at in onward and at not in arrives and at not in way:
            way.append(at)
            at = onward[at]
        good = at == to or arrives.get(at, False)
        arrives |= dict.fromkeys(way, good)
    return {switch for switch, good in arrives.items() if good}


@dataclass
class Inventory:
    """What real devices are called: MAC address and interface of hosts, ports of switches."""

    macs: dict[str, str] = field(default_factory=dict)
    nics: dict[str, str] = field(default_factory=dict)
    ports: dict[tuple[str, str], str] = field(default_factory=dict)


def read_inventory(path: Path) -> Inventory:
    """A CSV with the columns device and, as far as known, mac (of a host), port (the plan's), name (the device's)."""
    found = Inventory()
    reader = csv.DictReader(read_text(path).splitlines())
    if not reader.fieldnames or "device" not in reader.fieldnames:
        raise DeployError(f"{shown(path)}: the header needs a column device; mac, port and name as far as known")
    for line, row in enumerate(reader, 2):
        device, port = row.get("device") or "", row.get("port") or ""
        mac, name = (row.get("mac") or "").strip().lower(), (row.get("name") or "").strip()
        if mac and not _MAC.fullmatch(mac):
            raise DeployError(f"{shown(path)}: line {line}: {shown(mac)!r} is no MAC address such as 00:11:22:33:44:55")
        if mac and mac in found.macs.values():
            raise DeployError(f"{shown(path)}: line {line}: {mac} is there twice")
        if name and not re.fullmatch(r"[A-Za-z0-9_./-]{1,64}", name):
            raise DeployError(f"{shown(path)}: line {line}: {shown(name)!r} is no name of a port")
        if mac:
            found.macs[device] = mac
        if name and port:
            found.ports[device, port] = name
        elif name and not _INTERFACE.fullmatch(name):
            raise DeployError(f"{shown(path)}: line {line}: {shown(name)!r} is no name of an interface")
        elif name:
            found.nics[device] = name
    return found


def read_plan(folder: Path, settings: Settings, inventory: Inventory | None = None) -> Plan:
    """Reads a plan's folder.

    Raises DeployError for what cannot be deployed, DeviceFileError for what cannot be read.
    """
    from pauseframe.topology import load_topology

    graph = folder / "topology.graphml"
    if not graph.is_file():
        raise DeployError(f"{shown(graph)} is not there: give a folder of `pauseframe route plan`")
    topology = load_topology(graph)
    value = as_rows(_tables(folder, topology))
    plan, known = Plan(), inventory or Inventory()
    edges = json.loads(topology.write("node-link"))
    kinds = {node["id"]: node["kind"] for node in edges["nodes"]}
    plan.switches = [name for name, kind in kinds.items() if kind == "switch"]
    names = _links(plan, kinds, edges["edges"], known, settings)
    for item in map(as_rows, as_list(value.get("lanes"))):
        plan.vlans[int(as_text(item["vlan"]))] = int(as_text(item["lane"]))
    _check_size(plan, settings)
    _rows(plan, [dict(as_rows(row)) for row in as_list(value.get("rows"))], names)
    for item in map(as_rows, as_list(value.get("senders"))):
        pair = (as_text(item["from"]), as_text(item["to"]))
        plan.senders.setdefault(int(as_text(item["vlan"])), set()).add(pair)
    if value.get("rewrites"):
        raise DeployError(
            "the plan changes lanes on the way (rewrites): switches keep the 802.1p priority; plan without"
        )
    missing = [host.name for host in plan.hosts if host.name not in known.macs]
    if missing:
        plan.notes.append(
            f"{len(missing)} hosts have placeholders for MAC addresses (02:00:…), such as {shown(missing[0])}: "
            "give --inventory before you use the files"
        )
    plan.index()
    return plan


def _tables(folder: Path, topology: _core.Topology) -> Json:
    """The tables of a plan as its `tables.json` has them; made of its `tables.csv` where it has no other."""
    tables, rows = folder / "tables.json", folder / "tables.csv"
    if tables.is_file():
        return parse_json(read_text(tables), str(tables))
    if not rows.is_file():
        raise DeployError(f"{shown(rows)} is not there: give a folder of `pauseframe route plan`")
    return parse_json(_core.read_routes(str(rows), topology).write("json"), str(rows))


def _links(
    plan: Plan, kinds: dict[str, str], edges: list[dict[str, str]], known: Inventory, settings: Settings
) -> dict[tuple[str, str], str]:
    """Fills in hosts and links; (switch, the plan's port) to the device's port."""
    count: dict[str, int] = defaultdict(int)
    names: dict[tuple[str, str], str] = {}
    taken: set[End] = set()
    for edge in edges:
        ends = []
        for side in ("source", "target"):
            node = edge[side]
            count[node] += 1
            port = str(edge.get(f"{side}_port") or f"eth{count[node]}")
            own = known.ports.get((node, port)) or _device_port(port, count[node], settings.target)
            if kinds[node] == "host":
                own = known.nics.get(node, port if _INTERFACE.fullmatch(port) else "eth0")
            names[node, port] = own
            end = End(node, own)
            if end in taken:
                raise DeployError(f"{shown(str(end))} is the port of two links: name the ports in the inventory")
            taken.add(end)
            ends.append(end)
        speed = _speed(str(edge.get("rate", "10 Gbps")))
        host = next((end for end in ends if kinds[end.device] == "host"), None)
        if host is None:
            plan.links.append((ends[0], ends[1], speed))
            continue
        switch = ends[1] if host is ends[0] else ends[0]
        number = len(plan.hosts)
        mac = known.macs.get(host.device, "02:00:" + ":".join(f"{number + 1:08x}"[i : i + 2] for i in range(0, 8, 2)))
        plan.hosts.append(PlannedHost(host.device, host.port, mac, switch.device, switch.port, speed, number))
    return names


def _device_port(port: str, number: int, target: str) -> str:
    """SONiC numbers the ports of 4-lane cages by fours; Linux switches often call them swp1 and on."""
    if target == "sonic":
        return port if re.fullmatch(r"Ethernet[0-9]+", port) else f"Ethernet{4 * (number - 1)}"
    return port if _INTERFACE.fullmatch(port) and not port.startswith("eth") else f"swp{number}"


def _speed(rate: str) -> int:
    from pauseframe.calculator import parse_rate

    return parse_rate(rate)


def _check_size(plan: Plan, settings: Settings) -> None:
    lanes = set(plan.vlans.values())
    if lanes and max(lanes) >= len(settings.priorities):
        raise DeployError(
            f"the plan has {max(lanes) + 1} lanes, --priorities names {len(settings.priorities)}: one for each lane"
        )
    if plan.vlans and min(plan.vlans) < 2:
        raise DeployError("VLAN 1 is the default VLAN of switches: plan again with --first-vlan 100")
    if len(plan.vlans) > 200 or len(plan.hosts) > 60_000:
        raise DeployError(f"{len(plan.vlans)} VLANs of {len(plan.hosts)} hosts: addresses are for 200 of 60,000")
    if not plan.hosts:
        raise DeployError("the plan has no hosts: nothing would use it")


def _rows(plan: Plan, rows: list[dict[str, object]], names: dict[tuple[str, str], str]) -> None:
    at_switch: dict[str, list[PlannedHost]] = defaultdict(list)
    by_name = {host.name: host for host in plan.hosts}
    for host in plan.hosts:
        at_switch[host.switch].append(host)
    found: dict[str, dict[tuple[int, str], str]] = {switch: {} for switch in plan.switches}
    for vlan in plan.vlans:
        for host in plan.hosts:
            found[host.switch][vlan, host.name] = host.port
    for row in rows:
        switch, to, vlan = str(row["switch"]), str(row["destination"]), int(str(row["vlan"]))
        port = names.get((switch, str(row["port"])))
        if port is None:
            raise DeployError(f"tables.json: {shown(switch)} has no port {shown(row['port'])} in topology.graphml")
        targets = [by_name[to]] if to in by_name else at_switch.get(to, [])
        for host in targets:
            if host.switch != switch:
                found[switch][vlan, host.name] = port
    plan.rows = {
        switch: [(vlan, host, port) for (vlan, host), port in sorted(own.items())] for switch, own in found.items()
    }


def folder_names(names: list[str]) -> Iterator[tuple[str, str]]:
    """(name, a folder's name for it): nothing in a name leads out of the folder."""
    used: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:100] or "_"
        unique, count = plain, 2
        while unique.lower() in used:
            unique, count = f"{plain}_{count}", count + 1
        used.add(unique.lower())
        yield name, unique


__all__ = [
    "DeployError",
    "DeviceFileError",
    "Inventory",
    "Plan",
    "PlannedHost",
    "Settings",
    "read_inventory",
    "read_plan",
]
