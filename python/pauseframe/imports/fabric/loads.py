"""The loads of an imported scenario: who sends what to whom, with which transport.

The hosts' own TCP settings count where their files give them; every load has a fixed size, so that a run ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pauseframe.imports.fabric.transports import name_of, of_host, roce, tcp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes

LoadName = Literal["auto", "roce", "storage", "tcp", "incast", "all-to-all"]
SIZE = 1_000_000
"""Bytes of a flow."""
BLOCK = 64_000
"""Bytes of a block of storage, and of a block of all-to-all."""
MOST_RANKS = 64
MOST_SENDERS = 32
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


def flows(name: str, transport: str, pairs: Iterable[Flow], start: str = "0 s") -> dict[str, Any]:
    """A workload of single flows."""
    rows = [
        {"src": a, "dst": b, "size": f"{size} B"} | ({"start": start} if start != "0 s" else {}) for a, b, size in pairs
    ]
    return {"kind": "flows", "name": name, "transport": transport, "flows": rows}


def tcp_flows(scope: Scope, classes: Classes, pairs: list[Flow]) -> Load:
    """TCP flows, each with the settings of its source; hosts with equal settings share a transport."""
    return _by_transport((tcp(scope, classes, pair[0]), pair) for pair in pairs)


def _by_transport(sent: Iterable[tuple[dict[str, Any], Flow]]) -> Load:
    """A workload for each transport, which has the name of its preset; the first is the default."""
    kinds: dict[str, tuple[dict[str, Any], list[Flow]]] = {}
    for own, flow in sent:
        kinds.setdefault(str(own), (own, []))[1].append(flow)
    transports: dict[str, dict[str, Any]] = {}
    works = []
    for own, some in kinds.values():
        preset = str(own["preset"])
        number = 1 + sum(known["preset"] == preset for known in transports.values())
        name = "default" if not transports else preset if number == 1 else f"{preset}{number}"
        transports[name] = own
        works.append(flows(preset if number == 1 else f"{preset}{number}", name, some))
    return Load(transports, works)


def half_across(hosts: list[str]) -> list[Flow]:
    """One flow from each host to the host half of all further."""
    half = max(1, len(hosts) // 2)
    return [(host, hosts[(at + half) % len(hosts)], SIZE) for at, host in enumerate(hosts)]


def _auto(scope: Scope, classes: Classes) -> Load:
    pairs = half_across(rack_by_rack(scope))
    return _assumed(scope, "auto", [(own, pair) for pair in pairs for own in of_host(scope, classes, pair[0])])


def _assumed(scope: Scope, load: LoadName, sent: list[tuple[dict[str, Any], Flow]]) -> Load:
    found = _by_transport(sent)
    _assume(scope, load, list(found.transports.values()))
    return found


def _assume(scope: Scope, load: LoadName, sent: list[dict[str, Any]]) -> None:
    scope.account.assume(f"load {load}: {', '.join(dict.fromkeys(map(name_of, sent)))}; --load chooses another")


def _of_most(scope: Scope, classes: Classes, hosts: list[str], load: LoadName) -> dict[str, Any]:
    """The first transport of most hosts, for a workload that has one."""
    sent = [of_host(scope, classes, host, load)[0] for host in hosts]
    count = Counter(map(str, sent))
    most = max(sent, key=lambda own: count[str(own)])
    _assume(scope, load, [most])
    return most


def _roce(scope: Scope, classes: Classes) -> Load:
    own = roce(classes)
    if not classes.lossless:
        scope.account.assume(f"load roce: {name_of(own)}, though no queue of it is lossless")
    return Load({"default": own}, [flows("roce", "default", half_across(rack_by_rack(scope)))])


def _tcp(scope: Scope, classes: Classes) -> Load:
    return tcp_flows(scope, classes, half_across(rack_by_rack(scope)))


def _incast(scope: Scope, classes: Classes) -> Load:
    receiver, *senders = rack_by_rack(scope)
    pairs = [(sender, receiver, SIZE) for sender in senders[:MOST_SENDERS]]
    return _assumed(scope, "incast", [(of_host(scope, classes, pair[0], "incast")[0], pair) for pair in pairs])


def _storage(scope: Scope, classes: Classes) -> Load:
    hosts = rack_by_rack(scope)
    targets = hosts[:: max(2, min(4, len(hosts) - 1))]
    work = {"kind": "storage", "targets": targets, "queue_depth": 4, "read_share": 0.7, "count": 50}
    own = _of_most(scope, classes, hosts, "storage")
    return Load({"default": own}, [{**work, "sizes": {"kind": "fixed", "size": f"{BLOCK} B"}}])


def _all_to_all(scope: Scope, classes: Classes) -> Load:
    hosts = rack_by_rack(scope)[:MOST_RANKS]
    work = {"kind": "application", "pattern": "all_to_all", "ranks": len(hosts), "size": f"{BLOCK} B"}
    own = _of_most(scope, classes, hosts, "all-to-all")
    return Load({"default": own}, [{**work, "placement": "hosts", "hosts": hosts}])


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
    "auto": _auto,
    "roce": _roce,
    "storage": _storage,
    "tcp": _tcp,
    "incast": _incast,
    "all-to-all": _all_to_all,
}
"""The loads by name."""
