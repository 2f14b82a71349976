"""Drawings of topologies: SVG, and HTML that shows names on hover.

Switches form rows by their levels, which names or the graph give (Clos networks), or else a circle; `spring` uses
NetworkX for a force-directed layout. With more than a few hundred hosts, only switches are drawn, and a line states the
number of hidden hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from pauseframe import _core
from pauseframe.fabric.topology import back_channels, networkx
from pauseframe.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


Layout = Literal["auto", "levels", "circle", "spring"]
HOSTS_DRAWN = 300
SIZE = 1000
# A white outline keeps text legible where it crosses a line.
HALO = {"paint-order": "stroke", "stroke": "white", "stroke-width": "3", "stroke-linejoin": "round"}
LINK, MARKED, HOST, SWITCH = "#8a94a6", "#d62728", "#7fa8cc", "#3a78b5"
NAMES_DRAWN = 60
STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; display: flex; flex-direction: column; height: 100vh; }
h1 { font: 600 1.1rem system-ui, sans-serif; margin: 1rem 1.25rem 0; overflow-wrap: anywhere; }
svg { flex: 1; min-height: 0; cursor: grab; touch-action: none; }
svg :is(line, circle) { pointer-events: all; }
@media (prefers-color-scheme: dark) { h1 { color: #e8eaed; } }
"""
ZOOM = """
"use strict";
// The wheel zooms about the pointer, dragging moves, a double click shows everything.
const svg = document.querySelector("svg"), whole = svg.getAttribute("viewBox");
const box = () => svg.getAttribute("viewBox").split(" ").map(Number);
const at = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
svg.addEventListener("wheel", event => {
  event.preventDefault();
  const [x, y, width, height] = box(), point = at(event), scale = event.deltaY < 0 ? 0.8 : 1.25;
  const [left, top] = [point.x + (x - point.x) * scale, point.y + (y - point.y) * scale];
  svg.setAttribute("viewBox", [left, top, width * scale, height * scale].join(" "));
}, { passive: false });
svg.addEventListener("pointermove", event => {
  if (!event.buttons) return;
  const [x, y, width, height] = box(), scale = svg.getScreenCTM().a;
  svg.setAttribute("viewBox", [x - event.movementX / scale, y - event.movementY / scale, width, height].join(" "));
});
svg.addEventListener("dblclick", () => svg.setAttribute("viewBox", whole));
"""
DARK = """
@media (prefers-color-scheme: dark) {
  :root { background: #14171c; }
  text { fill: #e8eaed !important; }
  text { paint-order: stroke; stroke: #14171c; stroke-width: 3; }
  .arrows { fill: #ff7b72; }
}
"""
"""Dark-mode colours; LaTeX and word processors ignore them."""


@dataclass(frozen=True)
class Arrow:
    """A direction in which packets cross a link."""

    backwards: bool
    """True for the direction from the second end of the link to the first."""
    caption: str


@dataclass(frozen=True)
class Drawing:
    """Positions of all nodes; coordinates from 0 to 1, y upwards."""

    places: dict[str, tuple[float, float]]
    kinds: dict[str, str]
    links: list[tuple[str, str, str]]
    """Two end nodes and the description of the link."""
    hosts_at: dict[str, int]
    """Number of hidden hosts by switch."""
    marked: dict[int, list[Arrow]]
    """Indices in `links` of highlighted links, with the directions of their packets."""


def draw(
    topology: _core.Topology,
    path: Path,
    *,
    layout: Layout = "auto",
    mark: Iterable[str] | Mapping[str, str] = (),
    title: str = "",
) -> None:
    """Draws a topology into a .svg or .html file.

    `mark` lists port names as in reports ("leaf0:eth3"): an arrow shows the direction in which such a port transmits,
    with a caption if `mark` is a mapping.
    """
    drawing = arrange(topology, layout, mark)
    suffix = path.suffix.lower()
    if suffix == ".svg":
        write_text(path, to_svg(drawing, title))
    elif suffix in {".html", ".htm"}:
        write_text(path, to_html(drawing, title))
    else:
        raise _core.FabricError(f"{path}: drawings are .svg or .html")


def picture(topology: _core.Topology) -> str:
    """The drawing for a notebook, as an image, so that its style does not affect the notebook."""
    from base64 import b64encode

    svg = b64encode(to_svg(arrange(topology, "auto"), repr(topology)).encode()).decode()
    return f'<img alt="{escape(repr(topology))}" style="max-width: 40em" src="data:image/svg+xml;base64,{svg}">'


def arrange(topology: _core.Topology, layout: Layout, mark: Iterable[str] | Mapping[str, str] = ()) -> Drawing:
    """Chooses the drawn nodes and their positions."""
    from pauseframe.terminal.text import format_rate

    nodes = topology.nodes()
    kinds = {name: kind for name, kind, _ in nodes}
    levels: Mapping[str, int | None] = topology.levels() or {name: level for name, _, level in nodes}
    with_hosts = sum(kind == "host" for kind in kinds.values()) <= HOSTS_DRAWN
    links: list[tuple[str, str, str]] = []
    hosts_at: dict[str, int] = dict.fromkeys(kinds, 0)
    marked: dict[int, list[Arrow]] = {}
    captions = dict(mark) if isinstance(mark, Mapping) else dict.fromkeys(mark, "")
    back = back_channels(topology)
    for number, ((a, b, *channel), ports) in enumerate(zip(topology.links(), topology.ports(), strict=True)):
        if not with_hosts and "host" in {kinds[a], kinds[b]}:
            hosts_at[a if kinds[a] == "switch" else b] += 1
            continue
        arrows = [Arrow(bool(back), captions[port]) for back, port in enumerate(ports) if port in captions]
        if arrows:
            marked[len(links)] = arrows
        ways = [channel] if number not in back else [channel, back[number]]
        shown = "; back ".join(f"{format_rate(rate)}, {delay:g} us" for rate, delay in ways)
        links.append((a, b, f"{' – '.join(ports)}: {shown}"))
    drawn = {name: kind for name, kind in kinds.items() if with_hosts or kind == "switch"}
    places = _places(drawn, {name: levels[name] for name in drawn}, links, layout)
    return Drawing(places, drawn, links, hosts_at, marked)


def _places(
    kinds: dict[str, str], levels: Mapping[str, int | None], links: list[tuple[str, str, str]], layout: Layout
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
    nx = networkx("the layout spring")
    graph = nx.Graph()
    graph.add_nodes_from(kinds)
    graph.add_edges_from((a, b) for a, b, _ in links)
    found = nx.spring_layout(graph, seed=1)
    return {name: (0.5 + float(x) / 2, 0.5 + float(y) / 2) for name, (x, y) in found.items()}


def _tooltip(drawing: Drawing, name: str) -> str:
    hosts = drawing.hosts_at.get(name, 0)
    return f"{name} ({hosts} hosts)" if hosts else name


def to_svg(drawing: Drawing, title: str = "") -> str:
    """An SVG drawing that browsers, LaTeX and word processors can show."""
    # The margin leaves room for names above the top row and beside the outer columns.
    box = f"-60 -40 {SIZE + 120} {SIZE + 80}"
    root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")
    ET.SubElement(root, "title").text = title or "topology"
    ET.SubElement(root, "style").text = DARK
    at = {name: (x * SIZE, (1 - y) * SIZE) for name, (x, y) in drawing.places.items()}
    radius = max(2.0, min(9.0, 250 / max(len(at), 1) ** 0.75))
    _draw_lines(root, drawing, at, radius)
    for name, (x, y) in at.items():
        switch = drawing.kinds[name] == "switch"
        size = f"{radius if switch else radius * 0.7:.1f}"
        dot = ET.SubElement(root, "circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=size, fill=SWITCH if switch else HOST)
        ET.SubElement(dot, "title").text = _tooltip(drawing, name)
    style = {"fill": "#222", "font-family": "sans-serif", "font-size": "11", "text-anchor": "middle"}
    labels = ET.SubElement(root, "g", style | HALO)
    if len(at) <= NAMES_DRAWN:
        for name, (x, y) in at.items():
            ET.SubElement(labels, "text", x=f"{x:.1f}", y=f"{y - radius - 3:.1f}").text = name
    if hidden := _hidden(drawing):
        ET.SubElement(labels, "text", x=f"{SIZE / 2}", y=f"{SIZE + 30}").text = hidden
    return ET.tostring(root, encoding="unicode") + "\n"


def _hidden(drawing: Drawing) -> str:
    """A line that states the number of hidden hosts."""
    hosts = sum(drawing.hosts_at.values())
    return f"{hosts} hosts are not drawn; point at a switch for its number" if hosts else ""


def _draw_lines(root: ET.Element, drawing: Drawing, at: dict[str, tuple[float, float]], radius: float) -> None:
    """Draws the links, highlighted ones last, with arrows in the direction of their packets."""
    width = max(0.3, min(1.5, 400 / max(len(drawing.links), 1)))
    lines = ET.SubElement(root, "g", {"stroke": LINK, "stroke-width": f"{width:.2f}"})
    for number in sorted(range(len(drawing.links)), key=lambda link: link in drawing.marked):
        a, b, text = drawing.links[number]
        ends = {"x1": f"{at[a][0]:.1f}", "y1": f"{at[a][1]:.1f}", "x2": f"{at[b][0]:.1f}", "y2": f"{at[b][1]:.1f}"}
        style = {"stroke": MARKED, "stroke-width": "3"} if number in drawing.marked else {}
        line = ET.SubElement(lines, "line", ends | style)
        ET.SubElement(line, "title").text = text
    if not drawing.marked:
        return
    heads = ET.SubElement(root, "g", {"class": "arrows", "fill": "#8c1517"})
    captions = ET.SubElement(root, "g", {"fill": "#8c1517", "font-family": "sans-serif", "font-size": "10"} | HALO)
    for number, arrows in drawing.marked.items():
        a, b, _ = drawing.links[number]
        for arrow in arrows:
            start, end = (at[b], at[a]) if arrow.backwards else (at[a], at[b])
            _draw_arrow(heads, captions, start, end, radius, arrow.caption)


def _draw_arrow(
    heads: ET.Element,
    captions: ET.Element,
    start: tuple[float, float],
    end: tuple[float, float],
    radius: float,
    caption: str,
) -> None:
    """Draws the head at the receiving end, and the caption at two thirds of the link to separate both directions."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    tip = (x2 - dx * radius, y2 - dy * radius)
    left, right = ((tip[0] - 14 * dx - side * dy, tip[1] - 14 * dy + side * dx) for side in (5, -5))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, left, right))
    ET.SubElement(heads, "polygon", points=points)
    if caption:
        x, y = x1 + (x2 - x1) * 0.66 + 6, y1 + (y2 - y1) * 0.66 - 4
        ET.SubElement(captions, "text", x=f"{x:.1f}", y=f"{y:.1f}").text = caption


def to_html(drawing: Drawing, title: str = "") -> str:
    """One self-contained page, to zoom and point at."""
    head = escape(title or "topology")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{head}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<h1>{head}</h1>
{to_svg(drawing, title)}
<script>{ZOOM}</script>
</body>
</html>
"""
