"""Reads topologies from files of many tools, scenarios, families by name, and NetworkX graphs.

>>> import pauseframe as pf
>>> fabric = pf.load_topology("fat_tree:k=4")
>>> fabric
Topology(16 hosts, 20 switches, 48 links)
>>> fabric.statistics()["diameter"]
4
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.fabric.checked import needs_topology
from pauseframe.files.kinds import refuse_other_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pauseframe.types import TopologyStatistics

EXTENSIONS = {
    ".graphml": "graphml",
    ".json": "node-link",
    ".txt": "hpcc",
    ".topo": "htsim",
    ".yml": "containerlab",
    ".yaml": "containerlab",
}


RATE, DELAY = "10 Gbps", "1 us"
"""Rate and delay of links for which a file gives none."""


def _refuse_idle_defaults(source: Path, rate: str, delay: str) -> None:
    """Refuses a rate or delay for links without one of a scenario or family, where every link has its own."""
    given = next(
        (f"{name} {value}" for name, value, usual in (("rate", rate, RATE), ("delay", delay, DELAY)) if value != usual),
        None,
    )
    if given is not None:
        what = "a scenario" if source.suffix == ".toml" else "a family"
        raise _core.InputError(
            f"--{given}: it is for files whose links have none, and {source} is {what}: leave it out"
        )


def load_topology(
    source: str | Path, *, format: str | None = None, rate: str = RATE, delay: str = DELAY
) -> _core.Topology:
    """The topology of a scenario file (.toml), of a file in an interchange format, or of a family.

    A family is given with its parameters: "fat_tree:k=6". `rate` and `delay` apply to links for which the file gives
    none. Raises FabricError, ScenarioError, or OSError.
    """
    path = Path(source)
    if path.exists() and format is None:
        refuse_other_kinds(path, "a topology", "scenario", "topology")
    if path.suffix == ".toml":
        _refuse_idle_defaults(path, rate, delay)
        from pauseframe.scenario.text import read_scenario_file, resolve_text, without_plugins

        text, base_dir, name = read_scenario_file(path)
        return _core.Topology.of_scenario(resolve_text(without_plugins(text), base_dir=base_dir, file_name=name))
    if (path.exists() and not path.is_dir()) or format is not None:
        return _read(path, format, rate, delay)
    name = str(source).partition(":")[0].strip()
    if name not in _core.families() and path.is_dir():
        raise IsADirectoryError(f"{source}: this is a folder: name a file in it, such as topology.graphml of a plan")
    if name in _core.families() or (not path.suffix and not path.parent.name):
        _refuse_idle_defaults(path, rate, delay)
        return _core.Topology.family(str(source))
    raise FileNotFoundError(f"{source}: there is no such file, and no family of this name")


def _read(path: Path, format: str | None, rate: str, delay: str) -> _core.Topology:
    try:
        return _core.Topology.read(str(path), format=format, rate=rate, delay=delay)
    except _core.FabricError as error:
        if "missing field `edges`" not in str(error):
            raise
        remedy = 'list its links under "edges", as {"source": "a", "target": "b"}'
        remedy += '; NetworkX writes them with node_link_data(graph, edges="edges")'
        raise _core.FabricError(f"{path}: node-link JSON without edges: {remedy}") from error


def networkx(purpose: str) -> Any:
    """The module `networkx`, which `purpose` needs and a plain installation lacks."""
    try:
        import networkx as nx
    except ImportError as error:
        raise _core.FabricError(f"{purpose} needs NetworkX: pip install 'pauseframe[networkx]'") from error
    return nx


def from_networkx(graph: Any, *, rate: str = "10 Gbps", delay: str = "1 us") -> _core.Topology:
    """Makes a topology from a NetworkX graph.

    Nodes have the attribute `kind`, "host" or "switch" (default); edges may have `rate` and `delay`, such as "25 Gbps"
    and "500 ns". Parallel edges are parallel links.
    """
    if not hasattr(graph, "is_multigraph"):
        raise TypeError(f"graph = {graph!r}: a graph of NetworkX is needed; load_topology reads files and families")
    nx = networkx("a graph of NetworkX")
    text = json.dumps(nx.node_link_data(graph, edges="edges"), default=str)
    return _core.Topology.parse(text, "node-link", rate=rate, delay=delay)


def topology_of(switches: Iterable[str], hosts: Iterable[str], edges: Iterable[dict[str, str]]) -> _core.Topology:
    """Makes a topology from names of nodes, and from links with `source`, `source_port`, `target` and `target_port`."""
    nodes = [{"id": name, "kind": "switch"} for name in switches] + [{"id": name, "kind": "host"} for name in hosts]
    text = json.dumps({"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": list(edges)})
    return _core.Topology.parse(text, "node-link")


def to_networkx(topology: _core.Topology) -> Any:
    """The topology as a `networkx.MultiGraph` with names, kinds, rates, delays and ports as attributes."""
    needs_topology(topology)
    nx = networkx("a graph of NetworkX")
    return nx.node_link_graph(json.loads(topology.write("node-link")), edges="edges")


def back_channels(topology: _core.Topology) -> dict[int, tuple[int, float]]:
    """Rate and delay against the direction of `links()`, by the number of each link whose directions differ."""
    text = topology.write("node-link")
    if '_back"' not in text:
        return {}
    graph = json.loads(text)
    differ = [edge for edge in graph["edges"] if any(key.endswith("_back") for key in edge)]
    for edge in differ:
        edge |= {key: edge.get(f"{key}_back", edge[key]) for key in ("rate", "delay")}
    turned = _core.Topology.parse(json.dumps(graph), "node-link").links()
    return {edge["link"]: turned[edge["link"]][2:] for edge in differ}


def loops(topology: _core.Topology) -> list[tuple[int, str]]:
    """Self-loops, which occur in some maps of real networks, as (number of the link, name of the node)."""
    return [(number, a) for number, (a, b, *_) in enumerate(topology.links()) if a == b]


def format_of(path: Path) -> str:
    """The output format, by the extension of the file."""
    name = path.name.lower()
    found = next((kind for extension, kind in EXTENSIONS.items() if name.endswith(extension)), None)
    if found is None:
        known = ", ".join(f"{extension} ({kind})" for extension, kind in EXTENSIONS.items())
        raise _core.FabricError(f"{path}: the extension tells no format: use --format, or one of {known}")
    return found


def _links_by_rate(topology: _core.Topology) -> str:
    """The number of links with each rate, or pair of rates where the directions differ; fastest first."""
    from pauseframe.terminal.text import format_rate

    back = back_channels(topology)
    pairs = (
        (rate, back[number][0] if number in back else rate) for number, (*_, rate, _) in enumerate(topology.links())
    )
    counts = Counter((max(pair), min(pair)) for pair in pairs)
    return ", ".join(
        f"{count} × {format_rate(fast)}" + (f" one way and {format_rate(slow)} back" if slow != fast else "")
        for (fast, slow), count in sorted(counts.items(), reverse=True)
    )


def statistics_lines(statistics: TopologyStatistics, topology: _core.Topology) -> list[tuple[str, str]]:
    """Lines of text about the most important statistics of a topology."""
    from pauseframe.terminal.text import format_number, format_rate

    def span(values: tuple[int, int] | None) -> str:
        if values is None:
            return "–"
        return str(values[0]) if values[0] == values[1] else f"{values[0]} to {values[1]}"

    bisection = statistics["bisection"]
    cut = "–"
    if bisection is not None:
        share = format_number(bisection["per_host_rate"] * 100)
        cut = f"at most {format_rate(bisection['at_most_bps'])} ({share} % of what the hosts of a half send)"
    return [
        ("hosts", str(statistics["hosts"])),
        ("switches", str(statistics["switches"])),
        ("links between switches", str(statistics["fabric_links"])),
        ("links at hosts", str(statistics["host_links"])),
        ("links by rate", _links_by_rate(topology)),
        ("ports used of a switch", span(statistics["switch_ports"])),
        ("hosts at a switch", span(statistics["hosts_per_switch"])),
        (
            "diameter (links between switches)",
            str(statistics["diameter"] if statistics["diameter"] is not None else "–"),
        ),
        ("distance, mean over pairs of hosts", format_number(statistics["distance_mean"])),
        ("bisection", cut),
        ("problems", "none" if not statistics["problems"] else str(len(statistics["problems"]))),
    ]
