"""Drawings of topologies: SVG, and HTML that shows names when pointed at.

Switches stand in rows by their levels where all have one (fat trees), else on a circle; `spring` asks NetworkX for a
force-directed layout. With more than a few hundred hosts only the switches are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from pauseframe import _core

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Layout = Literal["auto", "levels", "circle", "spring"]
HOSTS_DRAWN = 300
SIZE = 1000
LINK, MARKED, HOST, SWITCH = "#8a94a6", "#d62728", "#9bbcdb", "#1f4e79"


@dataclass(frozen=True)
class Drawing:
    """Where everything stands; coordinates 0 to 1, y upwards."""

    places: dict[str, tuple[float, float]]
    kinds: dict[str, str]
    links: list[tuple[str, str, str]]
    """Two ends and what is said about the link."""
    hosts_at: dict[str, int]
    """Hosts that are not drawn, by their switch."""
    marked: set[int]
    """Positions in `links` of those to stand out."""


def draw(
    topology: _core.Topology, path: Path, *, layout: Layout = "auto", mark: Iterable[str] = (), title: str = ""
) -> None:
    """Draws into a .svg or .html file. `mark` are names of ports ("leaf0:eth3", as reports have them) whose links stand out."""
    drawing = arrange(topology, layout, mark)
    suffix = path.suffix.lower()
    if suffix == ".svg":
        path.write_text(to_svg(drawing, title), encoding="utf-8")
    elif suffix in {".html", ".htm"}:
        path.write_text(to_html(drawing, title), encoding="utf-8")
    else:
        raise _core.FabricError(f"{path}: drawings are .svg or .html")


def arrange(topology: _core.Topology, layout: Layout, mark: Iterable[str] = ()) -> Drawing:
    """Chooses what is drawn and where."""
    from pauseframe._text import format_rate

    nodes = topology.nodes()
    kinds = {name: kind for name, kind, _ in nodes}
    levels = {name: level for name, _, level in nodes}
    with_hosts = sum(kind == "host" for kind in kinds.values()) <= HOSTS_DRAWN
    links: list[tuple[str, str, str]] = []
    hosts_at, marked = dict.fromkeys(kinds, 0), set()
    wanted = set(mark)
    for (a, b, rate, delay), ports in zip(topology.links(), topology.ports(), strict=True):
        if not with_hosts and "host" in {kinds[a], kinds[b]}:
            hosts_at[a if kinds[a] == "switch" else b] += 1
            continue
        if wanted.intersection(ports):
            marked.add(len(links))
        links.append((a, b, f"{' – '.join(ports)}: {format_rate(rate)}, {delay:g} µs"))
    drawn = {name: kind for name, kind in kinds.items() if with_hosts or kind == "switch"}
    places = _places(drawn, {name: levels[name] for name in drawn}, links, layout)
    return Drawing(places, drawn, links, hosts_at, marked)


def _places(
    kinds: dict[str, str], levels: dict[str, int | None], links: list[tuple[str, str, str]], layout: Layout
) -> dict[str, tuple[float, float]]:
    leveled = all(level is not None for name, level in levels.items() if kinds[name] == "switch")
    if layout == "levels" and not leveled:
        raise _core.FabricError("this topology has no levels: use the layout circle or spring")
    if layout == "levels" or (layout == "auto" and leveled):
        return _rows(
            {name: level if kinds[name] == "switch" and level is not None else 0 for name, level in levels.items()}
        )
    if layout == "spring":
        return _spring(kinds, links)
    return _circle(kinds, links)


def _rows(levels: dict[str, int]) -> dict[str, tuple[float, float]]:
    rows: dict[int, list[str]] = {}
    for name, level in levels.items():
        rows.setdefault(level, []).append(name)
    order = sorted(rows)
    height = max(len(order) - 1, 1)
    return {
        name: ((place + 0.5) / len(rows[level]), row / height)
        for row, level in enumerate(order)
        for place, name in enumerate(rows[level])
    }


def _circle(kinds: dict[str, str], links: list[tuple[str, str, str]]) -> dict[str, tuple[float, float]]:
    switches = [name for name, kind in kinds.items() if kind == "switch"]
    angle = {name: 2 * math.pi * place / max(len(switches), 1) for place, name in enumerate(switches)}
    hosts: dict[str, list[str]] = {}
    for a, b, _ in links:
        for host, switch in ((a, b), (b, a)):
            if kinds[host] == "host":
                hosts.setdefault(switch, []).append(host)
    radius = 0.5 if len(switches) == len(kinds) else 0.36
    places = {name: _polar(angle[name], radius if len(switches) > 1 else 0.0) for name in switches}
    share = 2 * math.pi / max(len(switches), 1)
    for switch, own in hosts.items():
        for place, host in enumerate(own):
            places[host] = _polar(angle.get(switch, 0.0) + share * 0.9 * ((place + 0.5) / len(own) - 0.5), 0.5)
    return {name: places.get(name, (0.5, 0.5)) for name in kinds}


def _polar(angle: float, radius: float) -> tuple[float, float]:
    return 0.5 + radius * math.sin(angle), 0.5 + radius * math.cos(angle)


def _spring(kinds: dict[str, str], links: list[tuple[str, str, str]]) -> dict[str, tuple[float, float]]:
    try:
        import networkx as nx
    except ImportError as error:
        raise _core.FabricError("the layout spring needs NetworkX: pip install networkx numpy scipy") from error
    graph = nx.Graph()
    graph.add_nodes_from(kinds)
    graph.add_edges_from((a, b) for a, b, _ in links)
    found = nx.spring_layout(graph, seed=1)
    return {name: (0.5 + float(x) / 2, 0.5 + float(y) / 2) for name, (x, y) in found.items()}


def _tooltip(drawing: Drawing, name: str) -> str:
    hosts = drawing.hosts_at.get(name, 0)
    return f"{name} ({hosts} hosts)" if hosts else name


def to_svg(drawing: Drawing, title: str = "") -> str:
    """A drawing that browsers, LaTeX and word processors take."""
    root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"-20 -20 {SIZE + 40} {SIZE + 40}", role="img")
    ET.SubElement(root, "title").text = title or "topology"
    at = {name: (f"{x * SIZE:.1f}", f"{(1 - y) * SIZE:.1f}") for name, (x, y) in drawing.places.items()}
    width = max(0.3, min(1.5, 400 / max(len(drawing.links), 1)))
    lines = ET.SubElement(root, "g", {"stroke": LINK, "stroke-width": f"{width:.2f}"})
    for number in sorted(range(len(drawing.links)), key=lambda link: link in drawing.marked):
        a, b, text = drawing.links[number]
        (x1, y1), (x2, y2) = at[a], at[b]
        style = {"stroke": MARKED, "stroke-width": "3"} if number in drawing.marked else {}
        line = ET.SubElement(lines, "line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2} | style)
        ET.SubElement(line, "title").text = text
    radius = max(2.0, min(9.0, 250 / max(len(at), 1) ** 0.75))
    for name, (x, y) in at.items():
        switch = drawing.kinds[name] == "switch"
        dot = ET.SubElement(
            root, "circle", cx=x, cy=y, r=f"{radius if switch else radius * 0.7:.1f}", fill=SWITCH if switch else HOST
        )
        ET.SubElement(dot, "title").text = _tooltip(drawing, name)
    if len(at) <= 60:
        style = {"fill": "#222", "font-family": "sans-serif", "font-size": "11", "text-anchor": "middle"}
        labels = ET.SubElement(root, "g", style)
        for name, (x, y) in at.items():
            ET.SubElement(labels, "text", x=x, y=f"{float(y) - radius - 3:.1f}").text = name
    return ET.tostring(root, encoding="unicode") + "\n"


def to_html(drawing: Drawing, title: str = "") -> str:
    """One self-contained page, to zoom and point at."""
    import plotly.graph_objects as go

    def lines(numbers: Iterable[int], colour: str, width: float) -> go.Scattergl:
        xs: list[float | None] = []
        ys: list[float | None] = []
        for number in numbers:
            a, b, _ = drawing.links[number]
            (x1, y1), (x2, y2) = drawing.places[a], drawing.places[b]
            xs += [x1, x2, None]
            ys += [y1, y2, None]
        return go.Scattergl(x=xs, y=ys, mode="lines", line={"color": colour, "width": width}, hoverinfo="skip")

    plain = [number for number in range(len(drawing.links)) if number not in drawing.marked]
    figure = go.Figure([lines(plain, LINK, 0.6), lines(sorted(drawing.marked), MARKED, 3)])
    for kind, colour, size in (("host", HOST, 6), ("switch", SWITCH, 10)):
        names = [name for name, own in drawing.kinds.items() if own == kind]
        if names:
            figure.add_scattergl(
                x=[drawing.places[name][0] for name in names],
                y=[drawing.places[name][1] for name in names],
                mode="markers",
                marker={"color": colour, "size": size},
                text=[_tooltip(drawing, name) for name in names],
                hoverinfo="text",
            )
    hidden = {"visible": False}
    figure.update_layout(title=title, showlegend=False, xaxis=hidden, yaxis=hidden, plot_bgcolor="white")
    return str(figure.to_html(include_plotlyjs=True, full_html=True))
