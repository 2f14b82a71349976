"""Gives the ports of hosts the names that they have in a plan.

A topology names the first port of a host after the host, and further ones "NAME.PORT". Which port is the first depends
on the links that a file lists: after the loss of a host's first link another port would get its name.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pauseframe import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Graph = dict[str, Any]


@dataclass
class _Port:
    """A port of a host, which is a node of the graph, and its link."""

    node: str
    switch: str
    label: str | None
    """The name that a file gives the port."""
    switch_label: str | None
    implied: str
    """The port's name as the node's name or the label has it."""


def with_planned_names(topology: _core.Topology, planned: _core.Topology) -> tuple[_core.Topology, list[str]]:
    """`topology` with the names of `planned` for ports of hosts, and the ports of its hosts that only `planned` has.

    Both topologies have single ports. Ports are the same if their links lead to the same switch by ports of the same
    names; ports without a name match in their order.
    """
    new, old = (json.loads(one.write("node-link")) for one in (topology, planned))
    before, after = _ports(old, _hosts(new)), _ports(new, _hosts(new))
    names: dict[str, str] = {}
    gone: list[str] = []
    for host, ports in after.items():
        known = before.get(host, [])
        if not known:
            continue
        pairs = _pairs(known, ports)
        names |= {port.node: pairs.get(port.node, "") for port in ports}
        gone += [port.node for port in known if port.node not in pairs.values()]
    taken = {node["id"] for node in new["nodes"] if node["id"] not in names} | set(names.values())
    for host, ports in after.items():
        for port in ports:
            if names.get(port.node) == "":
                names[port.node] = _free_name(host, port, taken, single=len(ports) == 1)
                taken.add(names[port.node])
    # A port without a link has a node still, if the file has the ports as nodes.
    gone = [node for node in gone if node not in taken]
    if all(node == name for node, name in names.items()):
        return topology, gone
    numbers = {node["id"]: node["port"] for node in old["nodes"] if "port" in node}
    return _core.Topology.parse(json.dumps(_renamed(new, names, after, numbers)), "node-link"), gone


def _hosts(graph: Graph) -> set[str]:
    return {node["id"] for node in graph["nodes"] if node.get("kind") == "host" and "port_of" not in node}


def _ports(graph: Graph, hosts: set[str]) -> dict[str, list[_Port]]:
    """The ports of each host, in the order of their nodes. A host whose first port is gone is named after another."""
    owner: dict[str, str] = {}
    for node in graph["nodes"]:
        if node.get("kind") == "host":
            name = owner.get(node.get("port_of", ""), node.get("port_of", node["id"]))
            above = name.rpartition(".")[0]
            owner[node["id"]] = above if above in hosts and name not in hosts else name
    linked: dict[str, _Port] = {}
    for edge in graph["edges"]:
        ends = ("source", "target")
        for here, there in (ends, ends[::-1]):
            if (node := edge[here]) in owner and edge[there] not in owner:
                own, label = owner[node], edge.get(f"{here}_port")
                suffix = node.removeprefix(f"{own}.") if node.startswith(f"{own}.") else None
                label = label if suffix in (None, label) else None
                linked[node] = _Port(node, edge[there], label, edge.get(f"{there}_port"), suffix or label or "eth1")
    ports: dict[str, list[_Port]] = defaultdict(list)
    for node, host in owner.items():
        if node in linked:
            ports[host].append(linked[node])
    return ports


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def _pairs(known: list[_Port], ports: list[_Port]) -> dict[str, str]:
    """The node in the plan for nodes of one host, by the strongest rule that finds one."""

    def same_place(old: _Port, new: _Port) -> bool:
        at_switch = old.switch == new.switch and _agree(old.switch_label, new.switch_label)
        return at_switch and _agree(old.label, new.label)

    rules: list[Callable[[_Port, _Port], bool]] = [
        lambda old, new: new.label is not None and old.implied == new.label and same_place(old, new),
        lambda old, new: old.node == new.node and same_place(old, new),
        same_place,
        lambda old, new: new.label is not None and old.implied == new.label,
        lambda old, new: _agree(old.label, new.label),
    ]
    found: dict[str, str] = {}
    for rule in rules:
        for new in ports:
            free = [old for old in known if old.node not in found.values()]
            match = next((old for old in free if new.node not in found and rule(old, new)), None)
            if match is not None:
                found[new.node] = match.node
    return found


def _free_name(host: str, port: _Port, taken: set[str], *, single: bool) -> str:
    """A name for a port that the plan does not have."""
    if single and host not in taken:
        return host
    name = f"{host}.{port.label or port.implied}"
    number = 1
    while name in taken:
        number += 1
        name = f"{host}.eth{number}"
    return name


def _renamed(
    graph: Graph, names: Mapping[str, str], ports: Mapping[str, list[_Port]], numbers: Mapping[str, int]
) -> Graph:
    """The graph with these names of nodes, and the numbers of ports in the plan; hosts precede their further ports."""
    above = max(numbers.values(), default=0)
    nodes = {node["id"]: node for node in graph["nodes"]}
    of_host = {port.node: host for host, own in ports.items() for port in own if port.node in names}
    made: list[dict[str, Any]] = []
    done: set[str] = set()
    for node in graph["nodes"]:
        host = of_host.get(node["id"])
        if host is None:
            made.append(node)
        elif host not in done:
            done.add(host)
            own = [names[port.node] for port in ports[host]]
            own.sort(key=lambda name: (name != host, numbers.get(name, above + 1)))
            first = own[0]
            bare = {key: value for key, value in nodes[ports[host][0].node].items() if key not in ("port", "port_of")}
            made.append({**bare, "id": first})
            made += [
                {**bare, "id": name, "port": numbers.get(name, above + at), "port_of": first}
                for at, name in enumerate(own[1:], 1)
            ]
    edges = [
        {
            key: names.get(value, value) if key in ("source", "target", "from") and isinstance(value, str) else value
            for key, value in edge.items()
        }
        for edge in graph["edges"]
    ]
    return {**graph, "nodes": made, "edges": edges}
