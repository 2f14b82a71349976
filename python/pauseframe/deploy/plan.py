"""The deployed plan: its topology and tables, with names, ports and addresses of real devices."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe.deploy.inventory import INTERFACE, DeployError, Inventory
from pauseframe.deploy.traffic import CONTROL
from pauseframe.devices.files import DeviceFileError, Json, as_list, as_rows, as_text, parse_json, shown
from pauseframe.devices.model import FASTEST_LANE, End
from pauseframe.files.kinds import kind_of
from pauseframe.files.reading import read_text
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from pathlib import Path


_NIC_OF = re.compile(r".+\.eth[0-9]+")
"""Name that planning gives a NIC of a host with several NICs."""


SONIC_RELEASES = ("202311", "202405", "202411", "202505", "202511", "202605", "master", "next")
"""SONiC images that the files support; "next" has static layer 2 in CONFIG_DB (SONiC#2468, under review)."""
NEWEST_RELEASE = "202605"
FIRST_VLAN, LAST_VLAN = 100, 4094
"""The VLAN that a plan's VLAN 1 is deployed as, and the last VLAN (IEEE 802.1Q)."""


@dataclass(frozen=True)
class Tuned:
    """Values of `pauseframe tune` that replace the usual values; None keeps the usual value."""

    mark_min: int | None = None
    """Queue length in bytes at which marking begins."""
    mark_max: int | None = None
    """Queue length in bytes above which every packet is marked; equal to `mark_min` for a step."""
    mark_percent: int | None = None
    """Percentage of packets marked just below `mark_max`."""
    alpha_exponent: int | None = None
    """The power of 2 that, times the free bytes of the pool, limits a priority group (exponent of alpha)."""
    headroom: int | None = None
    """Headroom of each lossless priority group in bytes, never below the need of the link."""
    rto_min: str | None = None
    """Minimum RTO in the syntax of ip-route(8), such as "5ms"."""
    initial_window: int | None = None
    """Initial window in segments."""
    immediate_acks: bool | None = None


@dataclass(frozen=True)
class Settings:
    """Settings of the deployment: `mtu` of hosts in bytes, `cable` in metres, `buffer` in bytes."""

    target: str = "sonic"
    hosts: str = "tcp_bolt"
    priorities: tuple[int, ...] = (3, 4)
    cable: float = 5.0
    mtu: int = 9000
    buffer: int = 32_000_000
    sonic_release: str = NEWEST_RELEASE
    """A member of `SONIC_RELEASES`; decides which tables the image's YANG models support."""
    tuned: Tuned = Tuned()

    @property
    def port_mtu(self) -> int:
        """MTU of switch ports in bytes, with room for VLAN tags."""
        return min(self.mtu + 100, 9216)


@dataclass
class PlannedHost:
    """A host of the plan, or an interface of a host with several: a port, or the bond of its ports."""

    name: str
    nic: str
    mac: str
    switch: str
    port: str
    speed: int
    number: int

    def address(self, vlan_index: int) -> str:
        """Address of the host in the VLAN with this index: 10.x.y.z."""
        return f"10.{vlan_index + 1}.{(self.number + 1) >> 8}.{(self.number + 1) & 255}"


@dataclass
class Plan:
    """A plan in which ports have the devices' names."""

    switches: list[str] = field(default_factory=list)
    hosts: list[PlannedHost] = field(default_factory=list)
    links: list[tuple[End, End, int]] = field(default_factory=list)
    """Links between switches: both ends, and Mb/s."""
    vlans: dict[int, int] = field(default_factory=dict)
    """The lane of each VLAN in the plan."""
    rows: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    """Rows of each switch: (VLAN, host, port)."""
    senders: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    """Pairs of switches that may use each VLAN; all pairs may use a VLAN without an entry."""
    used: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    """For each VLAN, pairs (switch, host): frames from that switch reach the host and may be sent."""
    notes: list[str] = field(default_factory=list)
    placeholders: list[str] = field(default_factory=list)
    """Hosts whose MAC address is unknown."""
    lanes: dict[End, str] = field(default_factory=dict)
    """SerDes lanes of switch ports, from the device's own PORT table."""
    port_names: dict[tuple[str, str], str] = field(default_factory=dict)
    """Name on the device of each switch port, by (switch, port in the topology)."""
    planes: dict[str, int] = field(default_factory=dict)
    """The plane of each switch: switches that links join have one number."""
    planes_of: dict[int, set[int]] = field(default_factory=dict)
    """The planes in which each VLAN has rows; a VLAN without an entry is in all."""

    def vlans_at(self, switch: str) -> dict[int, int]:
        """The VLANs of the plane of a switch, in order, with the lane of each."""
        plane = self.planes.get(switch, 0)
        return {vlan: lane for vlan, lane in sorted(self.vlans.items()) if plane in self.planes_of.get(vlan, {plane})}

    def indexed_at(self, switch: str) -> list[tuple[int, int]]:
        """The VLANs of the plane of a switch with their places among all VLANs, which addresses contain."""
        own = self.vlans_at(switch)
        return [(index, vlan) for index, vlan in enumerate(sorted(self.vlans)) if vlan in own]

    def uses(self, vlan: int, source: PlannedHost, target: PlannedHost) -> bool:
        """True if a host sends to another host in a VLAN."""
        return source.name != target.name and (source.switch, target.name) in self.used[vlan]

    def heard(self, vlan: int, source: PlannedHost) -> list[PlannedHost]:
        """The hosts to which a host sends in a VLAN."""
        return [host for host in self._reached[vlan, source.switch] if host is not source]

    def ports(self, switch: str) -> dict[str, tuple[End, int]]:
        """Ports of a switch, with the other end and Mb/s of each."""
        return self._ports[switch]

    def __post_init__(self) -> None:
        self._ports: dict[str, dict[str, tuple[End, int]]] = defaultdict(dict)
        self._reached: dict[tuple[int, str], list[PlannedHost]] = defaultdict(list)

    def index(self) -> None:
        """Builds the indices that `ports`, `uses` and `heard` use."""
        self._index_ports()
        self._index_used()

    def _index_ports(self) -> None:
        for a, b, speed in self.links:
            self._ports[a.device][a.port] = (b, speed)
            self._ports[b.device][b.port] = (a, speed)
        for host in self.hosts:
            self._ports[host.switch][host.port] = (End(host.name, host.nic), host.speed)

    def _index_used(self) -> None:
        self.used = {vlan: set() for vlan in self.vlans}
        self._reached.clear()
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
        for host in self.hosts:
            for vlan, rack in ((vlan, rack) for vlan in self.vlans for rack in racks):
                if (rack, host.name) in self.used[vlan]:
                    self._reached[vlan, rack].append(host)
        self._keep_used_rows(onward)

    def _keep_used_rows(self, onward: dict[tuple[int, str], dict[str, str]]) -> None:
        """Drops rows that no allowed path uses; the rest cannot deadlock: any other path is part of an allowed one."""
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
    """The switches from which the chain of next devices ends at a host."""
    arrives: dict[str, bool] = {}
    for start in onward:
        way, at = [], start
        while at in onward and at not in arrives and at not in way:
            way.append(at)
            at = onward[at]
        good = at == to or arrives.get(at, False)
        arrives |= dict.fromkeys(way, good)
    return {switch for switch, good in arrives.items() if good}


def read_plan(folder: Path, settings: Settings, inventory: Inventory | None = None) -> Plan:
    """Reads a plan's folder.

    Raises DeployError for a plan that cannot be deployed, DeviceFileError for an unreadable file.
    """
    from pauseframe.fabric.topology import load_topology

    kind = kind_of(folder)
    if kind is not None and kind.key != "plan":
        raise DeployError(shown(kind.message(folder, "the folder of a route plan (pauseframe route plan)")))
    graph = folder / "topology.graphml"
    if not graph.is_file():
        raise DeployError(f"there is no {shown(graph)}: give the folder that `pauseframe route plan` wrote")
    if (summary := folder / "plan.json").is_file():
        parse_json(read_text(summary), str(summary))
    topology = load_topology(graph)
    value, moved = _moved(as_rows(_tables(folder, topology)))
    plan, known = Plan(), inventory or Inventory()
    edges = json.loads(topology.write("node-link"))
    kinds = {node["id"]: node["kind"] for node in edges["nodes"]}
    plan.notes += moved
    plan.switches = [name for name, kind in kinds.items() if kind == "switch"]
    ports = {node["id"]: (node["port_of"], int(node.get("port", 1))) for node in edges["nodes"] if "port_of" in node}
    names = wire(plan, kinds, edges["edges"], known, settings, ports=ports)
    plan.planes = joined_switches(plan)
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
    check_macs(plan, known)
    _check_nics(plan, {node: host for node, (host, _) in ports.items()})
    plan.index()
    if settings.target == "sonic":
        add_lanes(plan, known)
    return plan


def _moved(value: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """The tables with other VLAN numbers if they begin at VLAN 1, the default VLAN of switches, and a note about it.

    Raises DeployError if there is no room for them.
    """
    vlans = sorted({int(as_text(as_rows(row)["vlan"])) for row in as_list(value.get("lanes"))})
    if not vlans or vlans[0] > 1:
        return dict(value), []
    offset = FIRST_VLAN - vlans[0]
    if vlans[-1] + offset > LAST_VLAN:
        raise DeployError("VLAN 1 is the default VLAN of switches: plan again with --first-vlan 2")

    def moved(rows: Json) -> Json:
        return [{**row, "vlan": int(as_text(row["vlan"])) + offset} for row in map(as_rows, as_list(rows))]

    after = {name: moved(rows) if name in {"rows", "lanes", "senders"} else rows for name, rows in value.items()}
    note = f"VLAN 1 is the default VLAN of switches: VLAN {vlans[0]} to {vlans[-1]} of the plan are deployed as "
    return after, [f"{note}{vlans[0] + offset} to {vlans[-1] + offset}"]


def add_lanes(plan: Plan, known: Inventory) -> None:
    """Sets the lanes of all ports, because SONiC's models require them, and wrong lanes take a port down.

    Without an inventory the lanes are placeholder numbers, which serve only to inspect the files. Raises DeployError if
    an inventory lacks some lanes.
    """
    missing = []
    for switch in plan.switches:
        number = 0
        for port, (_, speed) in plan.ports(switch).items():
            lanes = known.lanes.get((switch, port))
            if lanes is None and known.given:
                missing.append(End(switch, port))
            count = max(1, -(-speed // FASTEST_LANE))
            plan.lanes[End(switch, port)] = lanes or ",".join(str(number + lane) for lane in range(count))
            number += count
    if missing:
        raise DeployError(
            f"ports without lanes: {len(missing)}, such as {shown(str(missing[0]))}: add the config_db.json of each "
            f"switch to --inventory ({shown(missing[0].device)}/config_db.json), or a column lanes to the CSV"
        )
    if not known.given:
        plan.notes.append(
            "lanes of switch ports are placeholders: add the config_db.json of each switch to --inventory before you "
            "use the files"
        )


def _tables(folder: Path, topology: _core.Topology) -> Json:
    """The tables of a plan, read by the core from `tables.json`, `tables.csv` or `tables.parquet`."""
    file = next(
        (folder / name for name in ("tables.json", "tables.csv", "tables.parquet") if (folder / name).is_file()), None
    )
    if file is None:
        raise DeployError(
            f"there is no {shown(folder / 'tables.csv')}: give the folder that `pauseframe route plan` wrote"
        )
    return parse_json(_core.read_routes(str(file), topology).write("json"), str(file))


def wire(
    plan: Plan,
    kinds: dict[str, str],
    edges: list[dict[str, str]],
    known: Inventory,
    settings: Settings,
    *,
    ports: Mapping[str, tuple[str, int]] | None = None,
) -> dict[tuple[str, str], str]:
    """Fills in hosts and links; returns a map from (switch, port in the plan) to the port name on the device.

    `ports` has the host and the number of each node that is a further port of a host.
    """
    count: dict[str, int] = defaultdict(int)
    names: dict[tuple[str, str], str] = {}
    taken: set[End] = set()
    wires = _Wires(known)
    further = ports or {}
    for edge in edges:
        ends, wire = [], wires.next(edge["source"], edge["target"])
        for side, wired in zip(("source", "target"), wire, strict=False):
            node = edge[side]
            count[node] += 1
            port = str(edge.get(f"{side}_port") or f"eth{count[node] + further.get(node, ('', 0))[1]}")
            if kinds[node] == "host":
                likely = (known.card(node, count[node] - 1, wired).name, wired, port)
                own = next((name for name in likely if name and INTERFACE.fullmatch(name)), "eth0")
            else:
                own = known.ports.get((node, port)) or wired or _device_port(port, count[node], settings.target)
            if (kinds[node] == "host" or settings.target == "linux") and not INTERFACE.fullmatch(own):
                raise DeployError(f"{shown(node)}: {shown(own)!r} is no name of a Linux interface")
            names[node, port] = own
            if kinds[node] == "switch":
                plan.port_names[node, port] = own
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
        switch, own_side = (ends[1], 0) if host is ends[0] else (ends[0], 1)
        number = len(plan.hosts)
        mac = known.card(host.device, count[host.device] - 1, wire[own_side]).mac or wire[2 + own_side]
        if not mac:
            plan.placeholders.append(host.device)
            mac = "02:00:" + ":".join(f"{number + 1:08x}"[i : i + 2] for i in range(0, 8, 2))
        plan.hosts.append(PlannedHost(host.device, host.port, mac, switch.device, switch.port, speed, number))
    plan.notes += wires.notes()
    return names


def joined_switches(plan: Plan) -> dict[str, int]:
    """For each switch, the number of the first switch that links join it with: the same in one plane."""
    joined: dict[str, set[str]] = defaultdict(set)
    for a, b, _ in plan.links:
        joined[a.device].add(b.device)
        joined[b.device].add(a.device)
    planes: dict[str, int] = {}
    for number, start in enumerate(plan.switches):
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at not in planes:
                planes[at] = number
                waiting += joined[at]
    return planes


class _Wires:
    """Assigns LLDP's data to the links of the plan, one after the other."""

    def __init__(self, known: Inventory) -> None:
        self._known = known
        self._met: dict[frozenset[str], int] = defaultdict(int)
        self._unseen: list[str] = []

    def next(self, source: str, target: str) -> tuple[str, str, str, str]:
        """The next link: (source port, target port, source MAC address, target MAC address), each "" if unknown."""
        pair = frozenset((source, target))
        number = self._met[pair]
        self._met[pair] += 1
        there, back = self._known.links(source, target), self._known.links(target, source)
        if number >= len(there):
            self._unseen.append(f"{shown(source)} to {shown(target)}")
            return "", "", "", ""
        one, other, mac = there[number]
        return one, other, next((m for p, q, m in back if (q, p) == (one, other)), ""), mac

    def notes(self) -> list[str]:
        """Notes about links that the plan has but LLDP does not show."""
        if not self._known.seen or not self._unseen:
            return []
        return [f"LLDP shows no cable for {counted(len(self._unseen), 'link')} of the plan, such as {self._unseen[0]}"]


def _device_port(port: str, number: int, target: str) -> str:
    """Guesses a port's name: SONiC numbers ports of 4-lane cages in steps of four; Linux often uses swp1, swp2, ...."""
    if target == "sonic":
        return port if re.fullmatch(r"Ethernet[0-9]+", port) else f"Ethernet{4 * (number - 1)}"
    return port if INTERFACE.fullmatch(port) and not port.startswith("eth") else f"swp{number}"


def _machine_of(host: str, known: Container[str]) -> str:
    """The machine of a host in the plan: `a` for `a.eth1`, and for `a.2` if a host `a` exists."""
    machine = host.rpartition(".")[0]
    return machine if machine in known or _NIC_OF.fullmatch(host) else host


def _check_nics(plan: Plan, machines: Mapping[str, str]) -> None:
    """Refuses NICs of one host in the same VLANs: their scripts would make the same interfaces.

    The plan has a host for each NIC. NICs in different planes have different VLANs.
    """
    names = {host.name for host in plan.hosts}
    owner: dict[tuple[str, int], str] = {}
    for host in plan.hosts:
        machine = machines.get(host.name) or _machine_of(host.name, names)
        for vlan in plan.vlans_at(host.switch):
            first = owner.setdefault((machine, vlan), host.name)
            if first != host.name:
                raise DeployError(
                    f"{shown(first)} and {shown(host.name)} are NICs of {shown(machine)}: both have VLAN {vlan}, and "
                    "one NIC of a host can be deployed in a plane; leave the host one link in each and plan again"
                )


def check_macs(plan: Plan, known: Inventory) -> None:
    """Notes placeholders and devices out of the plan. Raises DeployError if two hosts have one MAC address."""
    own = {*plan.switches, *(part for host in plan.hosts for part in (host.name, host.name.partition(".")[0]))}
    if strangers := sorted(name for name, cards in known.cards.items() if cards and name not in own):
        plan.notes.append(
            f"devices of the inventory that are not in the plan: {len(strangers)}, such as {shown(strangers[0])}"
        )
    if plan.placeholders:
        plan.notes.append(
            f"hosts with placeholders for MAC addresses (02:00:…): {len(plan.placeholders)}, such as "
            f"{shown(plan.placeholders[0])}: give --inventory before you use the files"
        )
    owner: dict[str, str] = {}
    for host in plan.hosts:
        first = owner.setdefault(host.mac, host.name)
        if first != host.name:
            raise DeployError(f"{host.mac} is the address of {shown(first)} and of {shown(host.name)}")


def _speed(rate: str) -> int:
    from pauseframe.fabric.calculator import parse_rate

    return parse_rate(rate)


def _check_size(plan: Plan, settings: Settings) -> None:
    lanes = set(plan.vlans.values())
    if lanes and max(lanes) >= len(settings.priorities):
        raise DeployError(
            f"the plan has {max(lanes) + 1} lanes, --priorities names {len(settings.priorities)}: one for each lane"
        )
    if settings.hosts == "roce_dcqcn" and CONTROL[1] in settings.priorities:
        raise DeployError(f"--priorities has {CONTROL[1]}, which CNPs of RoCE use: give its lane another priority")
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
    for row in rows:
        plan.planes_of.setdefault(int(str(row["vlan"])), set()).add(plan.planes[str(row["switch"])])
    for host in plan.hosts:
        for vlan in plan.vlans_at(host.switch):
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
    """Names with their folder names; no folder name leads out of the deployment folder."""
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
    "read_plan",
]
