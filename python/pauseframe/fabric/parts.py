"""Finds what is cut off from the rest of a topology: hosts without a path to the others, and switches without hosts.

Hosts do not forward. The ports of a host count together, so hosts that share one plane reach each other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAMED = 8
"""Nodes that a message names."""


@dataclass(frozen=True)
class CutOff:
    """The nodes without a path to the rest of a topology, and that rest."""

    nodes: list[str]
    """Switches, hosts, and further ports of hosts ("NAME.PORT"), in the order of the topology."""
    rest: _core.Topology
    switches: set[str] = field(default_factory=set)

    @property
    def named(self) -> str:
        """The nodes as text, at most `NAMED` of them."""
        more = len(self.nodes) - NAMED
        return ", ".join(self.nodes[:NAMED]) + (f" and {more} more" if more > 0 else "")


def cut_off(topology: _core.Topology) -> CutOff | None:
    """What has no path to the largest part of a topology; None if every pair of hosts has a path.

    None also if paths exist, but lead through hosts: then nothing is cut off, but the topology cannot be planned for.
    """
    graph = json.loads(topology.write("node-link"))
    owner = {node["id"]: node.get("port_of", node["id"]) for node in graph["nodes"] if node.get("kind") == "host"}
    part = _parts(graph, hosts=set(owner))
    if len(set(_joined(graph, owner).values())) == 1 and all(node in part for node in owner):
        return None
    kept = _largest(part, owner)
    alive = {part[node] for node, host in owner.items() if host in kept and node in part}
    gone = [
        node["id"]
        for node in graph["nodes"]
        if part.get(node["id"]) not in alive or owner.get(node["id"], "") not in {"", *kept}
    ]
    if not gone or not kept:
        return None
    switches = {name for name in gone if name not in owner}
    return CutOff(gone, _without(graph, set(gone)), switches)


def reachable_ports(topology: _core.Topology, to: str) -> list[str]:
    """The ports of other hosts from which links lead to `to`: a host, or "NAME.PORT" for a further port of one."""
    graph = json.loads(topology.write("node-link"))
    owner = {node["id"]: node.get("port_of", node["id"]) for node in graph["nodes"] if node.get("kind") == "host"}
    if to not in owner:
        raise _core.FabricError(f'"{to}" is not a host of the topology')
    part = _parts(graph, hosts=set(owner))
    return [node for node, host in owner.items() if host != owner[to] and part.get(node) == part.get(to)]


@contextmanager
def naming_cut_off(topology: _core.Topology, *, remedy: str = "") -> Iterator[None]:
    """If no routes exist because nodes are cut off, names these in the error."""
    try:
        yield
    except _core.FabricError as error:
        cut = cut_off(topology)
        if cut is None:
            raise
        hosts = counted(sum(kind == "host" for _, kind, _ in cut.rest.nodes()), "host")
        raise _core.FabricError(
            f"no path joins {cut.named} to the other {hosts}: link the parts, or take the smaller one out of the "
            f"topology{remedy}"
        ) from error


def single_ports(topology: _core.Topology) -> _core.Topology:
    """`with_single_ports`, also for a topology with hosts that have lost their only link."""
    linked = {end for a, b, *_ in topology.links() for end in (a, b)}
    bare = {name for name, kind, _ in topology.nodes() if kind == "host" and name not in linked}
    if not bare:
        return topology.with_single_ports()
    graph = json.loads(topology.write("node-link"))
    single = json.loads(_without(graph, bare).with_single_ports().write("node-link"))
    nodes = [*single["nodes"], *(node for node in graph["nodes"] if node["id"] in bare)]
    return _core.Topology.parse(json.dumps({**single, "nodes": nodes}), "node-link")


def _parts(graph: Mapping[str, Any], hosts: set[str]) -> dict[str, int]:
    """The number of the connected part of each node with a link; paths do not lead through hosts."""
    near: dict[str, list[str]] = defaultdict(list)
    for edge in graph["edges"]:
        near[edge["source"]].append(edge["target"])
        near[edge["target"]].append(edge["source"])
    switches = [name for name in near if name not in hosts]
    part = _flooded(switches, {name: [one for one in near[name] if one not in hosts] for name in switches})
    for host in hosts & near.keys():
        beside = next((part[one] for one in near[host] if one in part), None)
        part[host] = len(near) + len(part) if beside is None else beside
    return part


def _joined(graph: Mapping[str, Any], owner: Mapping[str, str]) -> dict[str, int]:
    """The number of the part of each host, with paths through hosts."""
    near: dict[str, list[str]] = {owner.get(node["id"], node["id"]): [] for node in graph["nodes"]}
    for edge in graph["edges"]:
        one, other = (owner.get(edge[end], edge[end]) for end in ("source", "target"))
        near[one].append(other)
        near[other].append(one)
    part = _flooded(near, near)
    return {host: part[host] for host in set(owner.values())}


def _flooded(nodes: Iterable[str], near: Mapping[str, Iterable[str]]) -> dict[str, int]:
    part: dict[str, int] = {}
    for number, first in enumerate(nodes):
        if first in part:
            continue
        part[first] = number
        waiting = [first]
        while waiting:
            for other in near[waiting.pop()]:
                if other not in part:
                    part[other] = number
                    waiting.append(other)
    return part


def _largest(part: Mapping[str, int], owner: Mapping[str, str]) -> set[str]:
    """Hosts of which each two have ports in a common part: drops those that reach the fewest others until all do."""
    parts: dict[str, set[int]] = defaultdict(set)
    for node, host in owner.items():
        if node in part:
            parts[host].add(part[node])
    groups: dict[frozenset[int], set[str]] = defaultdict(set)
    for host, own in parts.items():
        groups[frozenset(own)].add(host)
    while True:
        reached = {own: sum(len(hosts) for other, hosts in groups.items() if own & other) for own in groups}
        if all(own & other for own in groups for other in groups):
            return {host for hosts in groups.values() for host in hosts}
        del groups[min(groups, key=lambda own: (reached[own], len(groups[own])))]


def _without(graph: Mapping[str, Any], gone: set[str]) -> _core.Topology:
    """The topology without these nodes. If the first port of a host is gone, the next one becomes the host."""
    nodes: list[dict[str, Any]] = []
    heirs: dict[str, str] = {}
    for node in (node for node in graph["nodes"] if node["id"] not in gone):
        first = node.get("port_of")
        if first in heirs:
            nodes.append({**node, "port_of": heirs[first]})
        elif first in gone:
            heirs[first] = node["id"]
            nodes.append({key: value for key, value in node.items() if key not in ("port", "port_of")})
        else:
            nodes.append(node)
    edges = [edge for edge in graph["edges"] if not {edge["source"], edge["target"]} & gone]
    return _core.Topology.parse(json.dumps({**graph, "nodes": nodes, "edges": edges}), "node-link")
