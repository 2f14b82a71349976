"""The loads of an imported scenario: who sends what to whom, with which transport.

The hosts' own TCP settings count where their files give them; every load has a fixed size, so that a run ends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pauseframe.imports.fabric.traffic import CNP_DSCP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pauseframe.devices.model import Host
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes

LoadName = Literal["roce", "storage", "tcp", "incast", "all-to-all"]
SIZE = 1_000_000
"""Bytes of a flow."""
BLOCK = 64_000
"""Bytes of a block of storage, and of a block of all-to-all."""
MOST_RANKS = 64
MOST_SENDERS = 32
CONTROLS = {"dctcp": "dctcp", "cubic": "cubic", "reno": "newreno", "vegas": "vegas", "bbr": "bbr"}
"""Preset of each congestion control of Linux that the simulator has."""
Flow = tuple[str, str, int]
"""Source, destination and bytes."""


@dataclass
class Load:
    """Transports by name ("default" is [transport]), workloads, and the time limit of the run."""

    transports: dict[str, dict[str, Any]]
    workloads: list[dict[str, Any]]
    stop: str = "100 ms"
    storms: list[dict[str, Any]] = field(default_factory=list)
    slow: list[dict[str, Any]] = field(default_factory=list)
    """Rows of host.slow_receivers."""


def roce(classes: Classes, *, control: str | None = None) -> dict[str, Any]:
    """The transport of RoCE traffic; `control` replaces DCQCN."""
    own: dict[str, Any] = {"preset": "roce_dcqcn", **_class(classes, classes.data)}
    if control is not None:
        return own | {"rdma_control": control}
    return own | {"rdma_cnp_dscp": CNP_DSCP, "rdma_cnp_priority": classes.notifications}


def tcp(scope: Scope, classes: Classes, node: str) -> dict[str, Any]:
    """The transport of a host's TCP: congestion control, ECN, least RTO and class, as far as its files give them."""
    host = _host(scope, node)
    if host is None:
        return {"preset": "cubic", **_class(classes, classes.best_effort)}
    routes = [route for route in host.routes if route.congctl] or host.routes
    route = routes[0] if routes else None
    name = (route and route.congctl) or host.sysctl.get("net.ipv4.tcp_congestion_control", "cubic")
    sent = [point for vlan in host.vlans() for point in vlan.egress.values() if point in classes.paused]
    own: dict[str, Any] = {"preset": CONTROLS.get(name, "cubic"), **_class(classes, (sent or [classes.best_effort])[0])}
    if name not in CONTROLS:
        scope.account.differs(host.name, "", "congestion control", name, "cubic")
    ecn = host.sysctl.get("net.ipv4.tcp_ecn")
    if ecn == "0" and not (route and route.ecn):
        # Linux without ECN: dctcp_init in net/ipv4/tcp_dctcp.c falls back to Reno.
        own |= {"preset": "newreno"} if name == "dctcp" else {"ecn": "off"}
    elif own["preset"] != "dctcp" and (ecn == "1" or (route and route.ecn)):
        own["ecn"] = "classic"
    if route and route.rto_min_ms is not None:
        own["rto_min"] = f"{route.rto_min_ms:g} ms"
    if route and route.initcwnd is not None:
        own["initial_window"] = f"{route.initcwnd} segments"
    return own


def best_effort(classes: Classes) -> dict[str, Any]:
    """The keys of a transport of best-effort traffic."""
    return _class(classes, classes.best_effort)


def _class(classes: Classes, priority: int) -> dict[str, Any]:
    """The keys that put packets into a priority: a DSCP that has it, if the switches look DSCPs up."""
    dscp = [point for point, to in classes.of_dscp if to == priority and point != CNP_DSCP]
    own: dict[str, Any] = {"lossless": priority in classes.paused}
    if not classes.of_dscp:
        return own | {"priority": priority}
    return own | {"dscp": classes.code.value if priority == classes.data and classes.code else min(dscp, default=0)}


def _host(scope: Scope, node: str) -> Host | None:
    return next((scope.fabric.hosts.get(end.device) for end, name in scope.hosts.items() if name == node), None)


def flows(name: str, transport: str, pairs: Iterable[Flow], start: str = "0 s") -> dict[str, Any]:
    """A workload of single flows."""
    rows = [
        {"src": a, "dst": b, "size": f"{size} B"} | ({"start": start} if start != "0 s" else {}) for a, b, size in pairs
    ]
    return {"kind": "flows", "name": name, "transport": transport, "flows": rows}


def tcp_flows(scope: Scope, classes: Classes, pairs: list[Flow]) -> Load:
    """TCP flows, each with the settings of its source; hosts with equal settings share a transport."""
    kinds: dict[str, tuple[dict[str, Any], list[Flow]]] = {}
    names: dict[str, str] = {}
    for pair in pairs:
        own = tcp(scope, classes, pair[0])
        key = names.setdefault(str(own), "default" if not names else f"tcp{len(names) + 1}")
        kinds.setdefault(key, (own, []))[1].append(pair)
    transports = {name: own for name, (own, _) in kinds.items()}
    return Load(transports, [flows(f"tcp {name}", name, some) for name, (_, some) in kinds.items()])


def half_across(hosts: list[str]) -> list[Flow]:
    """One flow from each host to the host half of all further."""
    half = max(1, len(hosts) // 2)
    return [(host, hosts[(at + half) % len(hosts)], SIZE) for at, host in enumerate(hosts)]


def _roce(scope: Scope, classes: Classes) -> Load:
    return Load({"default": roce(classes)}, [flows("roce", "default", half_across(rack_by_rack(scope)))])


def _tcp(scope: Scope, classes: Classes) -> Load:
    return tcp_flows(scope, classes, half_across(rack_by_rack(scope)))


def _incast(scope: Scope, classes: Classes) -> Load:
    receiver, *senders = rack_by_rack(scope)
    pairs = [(sender, receiver, SIZE) for sender in senders[:MOST_SENDERS]]
    return Load({"default": roce(classes)}, [flows("incast", "default", pairs)])


def _storage(scope: Scope, classes: Classes) -> Load:
    hosts = rack_by_rack(scope)
    targets = hosts[:: max(2, min(4, len(hosts) - 1))]
    work = {"kind": "storage", "targets": targets, "queue_depth": 4, "read_share": 0.7, "count": 50}
    return Load({"default": roce(classes)}, [{**work, "sizes": {"kind": "fixed", "size": f"{BLOCK} B"}}])


def _all_to_all(scope: Scope, classes: Classes) -> Load:
    hosts = rack_by_rack(scope)[:MOST_RANKS]
    work = {"kind": "application", "pattern": "all_to_all", "ranks": len(hosts), "size": f"{BLOCK} B"}
    return Load({"default": roce(classes)}, [{**work, "placement": "hosts", "hosts": hosts}])


def rack_by_rack(scope: Scope) -> list[str]:
    """The hosts, rack by rack; also those whose link is down, so that one port does not change the whole load."""
    racks: dict[str, list[str]] = defaultdict(list)
    placed = set[str]()
    for end, node in scope.hosts.items():
        cable = scope.by_end[end]
        if node not in placed:
            racks[cable.nodes[1 - cable.ends.index(end)]].append(node)
        placed.add(node)
    return [host for rack in sorted(racks) for host in sorted(racks[rack])]


LOADS: dict[LoadName, Callable[[Scope, Classes], Load]] = {
    "roce": _roce,
    "storage": _storage,
    "tcp": _tcp,
    "incast": _incast,
    "all-to-all": _all_to_all,
}
"""The loads by name."""
