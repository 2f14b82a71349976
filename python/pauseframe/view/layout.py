"""Positions of nodes in the player: rows by distance from the hosts, grouped by pod, or a circle for a single row.

Coordinates are 0 to 1, y downwards. A pod is a connected component without the topmost row; hosts are in a small block
under their switch, so that a thousand hosts stay distinguishable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

TOP, ROWS, GAP, BOTTOM = 0.04, 0.78, 0.12, 0.95
"""Heights of the topmost row, from there to the hosts, between the lowest switches and hosts, and of the last hosts."""


@dataclass
class Graph:
    """Nodes by number, and their links."""

    is_host: list[bool]
    links: list[tuple[int, int]]
    neighbours: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.neighbours = [[] for _ in self.is_host]
        for a, b in self.links:
            self.neighbours[a].append(b)
            self.neighbours[b].append(a)

    def levels(self) -> list[int]:
        """Distance of each node from the nearest host: 0 for hosts; without hosts, all nodes are on level 1."""
        level = [0 if host else -1 for host in self.is_host]
        front = [node for node, host in enumerate(self.is_host) if host]
        while front:
            following = []
            for node in front:
                for other in self.neighbours[node]:
                    if level[other] < 0:
                        level[other] = level[node] + 1
                        following.append(other)
            front = following
        return [max(1, value) if not host else 0 for value, host in zip(level, self.is_host, strict=True)]


@dataclass(frozen=True)
class Layout:
    """Positions of nodes, and boxes around pods."""

    places: list[tuple[float, float]]
    pods: list[tuple[float, float, float, float]]
    """Boxes around pods as (x, y, width, height)."""


def arrange(graph: Graph) -> Layout:
    """Arranges the nodes in rows or on a circle."""
    levels = graph.levels()
    switches = [node for node, level in enumerate(levels) if level > 0]
    if max(levels, default=0) <= 1 and len(switches) > 2:
        return Layout(_circle(graph, switches), [])
    return _rows(graph, levels)


def _rows(graph: Graph, levels: list[int]) -> Layout:
    top = max(levels, default=1)
    pods = _pods(graph, levels, top)
    order = {level: [node for pod in pods for node in pod if levels[node] == level] for level in range(top)}
    order[top] = [node for node, level in enumerate(levels) if level == top]
    places = [(0.5, TOP)] * len(levels)
    for level in range(1, top + 1):
        y = TOP + ROWS * (top - level) / max(top, 1)
        for position, node in enumerate(order[level]):
            places[node] = ((position + 0.5) / len(order[level]), y)
    floor = TOP + ROWS * (top - 1) / max(top, 1)
    _place_hosts(graph, places, max(len(order[1]), 1), floor + GAP)
    boxes = []
    for pod in pods if 1 < len(pods) <= 128 else []:
        xs = [places[node][0] for node in pod]
        ys = [places[node][1] for node in pod]
        margin = 0.2 / max(len(order[1]), 1)
        boxes.append((min(xs) - margin, min(ys) - 0.035, max(xs) - min(xs) + 2 * margin, max(ys) - min(ys) + 0.075))
    return Layout(places, boxes)


def _pods(graph: Graph, levels: list[int], top: int) -> list[list[int]]:
    """Connected components below the topmost row, in the order of their first node."""
    seen, pods = [level == top for level in levels], []
    for start in range(len(levels)):
        if seen[start]:
            continue
        seen[start] = True
        pod, waiting = [], [start]
        while waiting:
            node = waiting.pop()
            pod.append(node)
            for other in graph.neighbours[node]:
                if not seen[other]:
                    seen[other] = True
                    waiting.append(other)
        pods.append(sorted(pod))
    return pods


def _place_hosts(graph: Graph, places: list[tuple[float, float]], columns: int, begin: float) -> None:
    """Places hosts in a block under the switch of their first link."""
    own: dict[int, list[int]] = {}
    for node, is_host in enumerate(graph.is_host):
        if is_host and graph.neighbours[node]:
            own.setdefault(graph.neighbours[node][0], []).append(node)
    width, height = 0.8 / columns, BOTTOM - begin
    for switch, hosts in own.items():
        across = len(hosts) if width / len(hosts) > 0.012 else max(1, math.ceil(math.sqrt(len(hosts) * width / height)))
        down = math.ceil(len(hosts) / across)
        for number, host in enumerate(hosts):
            column, row = number % across, number // across
            x = places[switch][0] + width * ((column + 0.5) / across - 0.5)
            places[host] = (x, BOTTOM - height * (down - 1 - row) / max(down - 1, 3))


def _circle(graph: Graph, switches: list[int]) -> list[tuple[float, float]]:
    places = [(0.5, 0.5)] * len(graph.is_host)
    share = 2 * math.pi / len(switches)
    for number, switch in enumerate(switches):
        places[switch] = _polar(share * number, 0.3)
        hosts = [node for node in graph.neighbours[switch] if graph.is_host[node]]
        for position, host in enumerate(hosts):
            places[host] = _polar(share * (number + 0.8 * ((position + 0.5) / len(hosts) - 0.5)), 0.45)
    return places


def _polar(angle: float, radius: float) -> tuple[float, float]:
    return 0.5 + radius * math.sin(angle), 0.5 - radius * math.cos(angle)
