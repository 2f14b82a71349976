"""What a scenario decides about devices: its wiring, its classes of traffic, and where each of its keys is written."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.deploy import bonds, quantities
from pauseframe.deploy.inventory import DeployError
from pauseframe.deploy.plan import Plan, Settings, add_lanes, check_macs, wire
from pauseframe.deploy.traffic import CONTROL, TrafficClass
from pauseframe.devices.files import shown
from pauseframe.devices.model import PRIORITIES, End
from pauseframe.fabric.headroom import LIGHT
from pauseframe.tune.formulas import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.deploy.inventory import Inventory
    from pauseframe.deploy.plan import PlannedHost

ROUTED = ("ecmp", "spray", "letflow", "drill", "adaptive", "ars", "conweave")
"""Kinds of routing whose switches know all shortest paths, as routers with BGP do; the others are plans of VLANs."""
SHARES = {0: 16, 1: 16, 2: 16, 3: 18, 4: 18, 5: 16}
"""The simulator's default bandwidth groups; priorities 6 and 7 are strict (docs/reference/scenario.md)."""
Table = dict[str, Any]


@dataclass
class Design:
    """A scenario with the names of real devices."""

    plan: Plan
    """Switches, hosts and links; no VLANs."""
    settings: Settings
    scenario: Table
    """The resolved scenario."""
    origins: dict[str, tuple[str, str]]
    """Value and origin of each key, as text."""
    cables: dict[End, int]
    """Length of the cable at each end of a link, in metres."""
    names: dict[End, str]
    """Name of each port in the scenario."""
    classes: list[TrafficClass] = field(default_factory=list)
    best_effort: int = 0
    """Priority of all code points that no class has."""
    notifications: tuple[int, int] | None = None
    """DSCP and priority of CNPs; None without DCQCN."""
    bdp: float = 0.0
    """Bandwidth-delay product of a host's link in bytes."""
    notes: list[str] = field(default_factory=list)

    @property
    def mtu(self) -> int:
        """MTU of the hosts in bytes."""
        return quantities.whole(self.scenario["host"]["mtu"])

    @property
    def switch(self) -> Table:
        """The scenario's table `switch`."""
        found: Table = self.scenario["switch"]
        return found

    @property
    def lossless(self) -> tuple[int, ...]:
        """The priorities that switches pause."""
        pfc = self.switch["pfc"]
        return tuple(sorted(pfc["priorities"])) if pfc else ()

    @property
    def dscp_map(self) -> dict[int, int]:
        """The priority of each of the 64 code points. BGP (CS6, RFC 4594) does not wait behind data."""
        found = dict.fromkeys(range(64), self.best_effort)
        if CONTROL[1] not in {*self.lossless, *(one.priority for one in self.classes)}:
            found |= dict([CONTROL])
        found |= dict(self.switch["priority_of_dscp"])
        if self.notifications:
            found |= dict([self.notifications])
        return found | {one.dscp: one.priority for one in self.classes}

    def setting(self, priority: int, key: str) -> Any:
        """A key of the class of a priority (`switch.classes.NAME`), else of the switch; None without a value."""
        for own in self.switch.get("classes", {}).values():
            if priority in own["priorities"] and key in own:
                return own[key]
        if key in {"alpha", "reserved"}:
            return self.switch["buffer"].get(key)
        return self.switch.get(key)

    @property
    def machines(self) -> dict[str, list[PlannedHost]]:
        """The ports of each host, in the order of its links."""
        found: dict[str, list[PlannedHost]] = {}
        for host in self.plan.hosts:
            found.setdefault(host.name, []).append(host)
        return found

    def speed(self, end: End) -> int:
        """Speed of a switch port in Mb/s."""
        return self.plan.ports(end.device)[end.port][1]

    def ends(self, switch: str) -> Iterator[End]:
        """The ports of a switch."""
        return (End(switch, port) for port in self.plan.ports(switch))


def read_design(resolved: _core.Resolved, settings: Settings, known: Inventory, cable: float | None) -> Design:
    """The design of a scenario; `cable` in metres replaces the lengths that the delays of links imply.

    Raises DeployError for a scenario that has no counterpart on devices.
    """
    scenario = tomllib.loads(resolved.toml)
    _check(scenario, settings)
    settings = replace(settings, mtu=quantities.whole(scenario["host"]["mtu"]))
    topology = _core.Topology.of_scenario(resolved)
    plan = Plan()
    kinds = {name: kind for name, kind, _ in topology.nodes()}
    plan.switches = [name for name, kind in kinds.items() if kind == "switch"]
    _check_hosts(topology, kinds)
    wire(plan, kinds, _edges(topology), known, settings)
    check_macs(plan, known)
    origins = {path: (value, origin) for path, value, origin in resolved.explain()}
    design = Design(plan, settings, scenario, origins, {}, {}, bdp=facts_of(resolved).bdp)
    bonds.add_peer_links(design, known)
    plan.index()
    add_lanes(plan, known)
    _place(design, topology, cable)
    design.classes = list(_classes(scenario))
    _check_classes(design)
    design.notifications = _notifications(design)
    design.best_effort = _best_effort(design)
    design.notes += plan.notes
    _warn(design)
    return design


def _check(scenario: Table, settings: Settings) -> None:
    if settings.target != "sonic":
        raise DeployError("a scenario is deployed to SONiC: leave --target linux out, or deploy a plan of routes")
    kind = scenario["routing"]["kind"]
    if kind not in ROUTED:
        how = f"pauseframe route plan SCENARIO --engine {kind} --first-vlan 100 -o plan/"
        raise DeployError(f"routing.kind {kind} is a plan of VLANs: write it with `{how}`, then deploy that folder")
    pfc = scenario["switch"]["pfc"]
    if pfc and pfc["whole_link"]:
        raise DeployError("switch.pfc.whole_link: SONiC pauses priorities, not links: set it to false")
    if scenario["switch"]["buffer"]["policy"] == "ideal_output_queued":
        raise DeployError('switch.buffer.policy ideal_output_queued is no real switch: set "shared" and a size')


def _edges(topology: _core.Topology) -> list[dict[str, str]]:
    """The links as `wire` reads them, with the port names that the scenario gives."""
    edges: list[dict[str, str]] = json.loads(topology.write("node-link"))["edges"]
    names = topology.port_names()
    for number, edge in enumerate(edges):
        for side, name in zip(("source", "target"), names[2 * number : 2 * number + 2], strict=True):
            port = name.rpartition(":")[2]
            if not port.isdecimal():
                edge[f"{side}_port"] = port
    return edges


def _check_hosts(topology: _core.Topology, kinds: Mapping[str, str]) -> None:
    for one, other, _, _ in topology.links():
        if kinds[one] == kinds[other] == "host":
            raise DeployError(f"{shown(one)} and {shown(other)} are hosts without a switch between them")


def _place(design: Design, topology: _core.Topology, cable: float | None) -> None:
    """Cable lengths and the scenario's names of ports, in the order in which `wire` met the links."""
    ends: list[tuple[End, End]] = []
    hosts, links = iter(design.plan.hosts), iter(design.plan.links)
    machines = {host.name for host in design.plan.hosts}
    for one, other, _, _ in topology.links():
        if {one, other} & machines:
            host = next(hosts)
            pair = End(host.name, host.nic), End(host.switch, host.port)
            ends.append(pair if one == host.name else pair[::-1])
        else:
            ends.append(next(links)[:2])
    names = topology.port_names()
    for number, (pair, (_, _, _, delay_us)) in enumerate(zip(ends, topology.links(), strict=True)):
        metres = max(1, round(delay_us * 1e-6 * LIGHT)) if cable is None else max(1, -int(-cable // 1))
        design.cables |= dict.fromkeys(pair, metres)
        design.names |= dict(zip(pair, names[2 * number : 2 * number + 2], strict=True))
    for end in (end for link in links for end in link[:2]):  # peer links that deploy adds
        design.cables[end] = max(metres for known, metres in design.cables.items() if known.device == end.device)
        design.names[end] = f"{end.device}:{end.port}"


def _classes(scenario: Table) -> Iterator[TrafficClass]:
    """The classes of the transports that workloads use, in the order of the file."""
    tables = {"transport": scenario["transport"]}
    tables |= {f"transports.{name}": own for name, own in scenario.get("transports", {}).items()}
    works = scenario.get("workload", [])
    used = [work.get("transport", "default") for work in works if work["kind"] != "udp" or "transport" in work]
    paths = ["transport" if name == "default" else f"transports.{name}" for name in used]
    of_dscp = dict(scenario["switch"]["priority_of_dscp"])
    for path, keys in tables.items():
        if path not in paths:
            continue
        priority, dscp = keys["priority"], keys["dscp"]
        if dscp == 0 and priority != of_dscp.get(0, 0):
            dscp = next((point for point, own in of_dscp.items() if own == priority), usual_dscp(priority))
        yield TrafficClass(path, keys["kind"], priority, dscp, keys["lossless"], keys["ecn"] != "off", keys)
    pfc = scenario["switch"]["pfc"]
    for number, work in enumerate(scenario.get("workload", [])):
        if work["kind"] == "udp" and "transport" not in work:
            priority = work["priority"]
            dscp = next((point for point, own in of_dscp.items() if own == priority), usual_dscp(priority))
            paused = bool(pfc) and priority in pfc["priorities"]
            yield TrafficClass(f"workload.{number}", "udp", priority, dscp, paused, work["ecn"], work)


def _warn(design: Design) -> None:
    """Notes what the scenario leaves open and people regret."""
    capable = {one.priority for one in design.classes if one.ecn}
    marker = design.setting(design.best_effort, "marker") or {}
    if design.best_effort in capable and marker.get("kind", "none") != "none":
        design.notes.append(
            f"queue {design.best_effort} marks, and also has all traffic without a class (DSCP 0), of which it drops "
            "what is not ECN-capable: give the transport a dscp and a priority, as in `pauseframe example dctcp`"
        )
    if design.lossless and not design.switch["pfc"]["watchdog"]:
        design.notes.append(
            "no watchdog: a NIC that keeps pausing stops the fabric; set switch.pfc.watchdog = {} to have one"
        )


def usual_dscp(priority: int) -> int:
    """The code point of a priority for which the scenario gives none: AFn1 (RFC 2597), 26 for RoCE's priority 3."""
    return 8 * priority + 2 if priority else 0


def _check_classes(design: Design) -> None:
    if not design.classes:
        raise DeployError("the scenario has no workload: its transports decide what is written")
    by_dscp: dict[int, TrafficClass] = {}
    for one in design.classes:
        other = by_dscp.setdefault(one.dscp, one)
        if other.priority != one.priority:
            raise DeployError(
                f"{other.path} and {one.path} have DSCP {one.dscp} and priorities {other.priority} and {one.priority}: "
                "switches tell them apart by DSCP; give one another dscp"
            )
        if one.kind == "tcp" and one.keys["congestion_control"] not in CONTROLS:
            known = ", ".join(sorted(CONTROLS))
            raise DeployError(f"{one.path}: Linux has no {one.keys['congestion_control']}: set one of {known}")
        if one.kind == "tcp" and one.keys["subflows"] > 1:
            raise DeployError(
                f"{one.path}.subflows: `pauseframe deploy` writes nothing for MPTCP, whose sockets applications open: "
                "set it to 1"
            )
    for priority in PRIORITIES:
        own = [one for one in design.classes if one.priority == priority]
        kind = (design.setting(priority, "marker") or {}).get("kind", "none")
        if kind != "none" and len({one.ecn for one in own}) == 2:
            marked, lost = (next(one for one in own if one.ecn is ecn) for ecn in (True, False))
            raise DeployError(
                f"{marked.path} and {lost.path} share priority {priority}, which marks, and {lost.path} is not "
                f"ECN-capable: switches drop what they cannot mark, so it starves; give it another dscp and priority, "
                f"as in `pauseframe example dctcp`"
            )


CONTROLS = {"cubic": "cubic", "newreno": "reno", "dctcp": "dctcp", "vegas": "vegas", "bbr": "bbr"}
"""Linux's name of each congestion control."""


def _notifications(design: Design) -> tuple[int, int] | None:
    """Code point and priority of CNPs, which are one for all DCQCN traffic of a fabric."""
    found = {(one.keys["rdma_cnp_dscp"], one.keys["rdma_cnp_priority"]) for one in design.classes if uses_dcqcn(one)}
    if len(found) > 1:
        raise DeployError("transports have different rdma_cnp_dscp or rdma_cnp_priority: a card has one of each")
    return found.pop() if found else None


def uses_dcqcn(one: TrafficClass) -> bool:
    """True for queue pairs with DCQCN, whose receivers send CNPs."""
    return one.kind == "rdma" and str(one.keys["rdma_control"]).startswith("dcqcn")


def _best_effort(design: Design) -> int:
    """The priority of DSCP 0 if a class or map gives it, else the lowest that no lossless class has."""
    given = dict(design.switch["priority_of_dscp"]) | {one.dscp: one.priority for one in design.classes}
    lossy = next((n for n in PRIORITIES if n not in design.lossless), 0)
    return int(given.get(0, lossy))
