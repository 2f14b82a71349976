"""Figures of the spread of pauses: their number at each depth over time, and the tree of causes at the worst instant.

Depth 0 is a root: a queue that was simply too full. A pause at depth n was requested because a pause at depth n - 1
held back packets (docs/reference/results.md, pause_tree).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe.report import figures
from pauseframe.report.data import natural

if TYPE_CHECKING:
    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Axis, Figure, Layout, Trace

POINTS = 300
TREE_NODES = 200
LABELLED = 80
"""Maximum number of ports with names in the tree."""
FIRST_DEPTH_COLOUR = 5  # the colour differs from those of the first runs


def intervals(run: RunData) -> pl.DataFrame:
    """The recorded pauses: interval, port, by_node, start and end in seconds, depth, parents; empty without any."""
    if run.pause_tree is None:
        return pl.DataFrame()
    end: float = run.summary["sim_time_s"]
    return run.pause_tree.select(
        "interval",
        pl.col("port", "by_node").cast(pl.String),
        (pl.col("start_us") / 1e6).alias("start"),
        (pl.col("end_us") / 1e6).fill_null(end).alias("end"),
        "depth",
        "parents",
    ).collect()


def depths_over_time(pauses: pl.DataFrame, until: float) -> tuple[list[float], dict[int, list[int]]]:
    """The instants, and for each depth the number of pauses at each instant."""
    edges = [until * i / POINTS for i in range(POINTS + 1)]
    grid = pl.DataFrame({"t": edges})
    counts = {}
    for depth in sorted(pauses["depth"].unique().to_list()):
        part = pauses.filter(pl.col("depth") == depth)
        steps = pl.concat(
            [
                part.select(pl.col("start").alias("t"), pl.lit(1).alias("step")),
                part.select(pl.col("end").alias("t"), pl.lit(-1).alias("step")),
            ]
        ).sort("t")
        standing = steps.with_columns(pl.col("step").cum_sum())
        counts[depth] = grid.join_asof(standing, on="t", strategy="backward")["step"].fill_null(0).to_list()
    return edges, counts


def worst_instant(pauses: pl.DataFrame) -> float:
    """The instant at which pauses have spread furthest.

    It is the instant with the largest sum of depths, then the one with the most pauses, then the earliest.
    """
    depth = pl.col("depth").cast(pl.Int64)
    steps = pl.concat(
        [
            pauses.select(pl.col("start").alias("t"), pl.lit(1, pl.Int64).alias("step"), depth.alias("deep")),
            pauses.select(pl.col("end").alias("t"), pl.lit(-1, pl.Int64).alias("step"), -depth.alias("deep")),
        ]
    ).sort("t", "step")
    sums = steps.select("t", pl.col("step", "deep").cum_sum())
    # All pauses that end or begin at one instant are counted before the instant is evaluated.
    sums = sums.group_by("t", maintain_order=True).last()
    return float(sums.sort("deep", "step", "t", descending=[True, True, False])["t"][0])


def depth_figure(run: RunData, until: float) -> Figure | None:
    """Stacked areas of the number of pauses at each depth over time; None without any pause."""
    pauses = intervals(run)
    if pauses.is_empty():
        return None
    times, counts = depths_over_time(pauses, until)
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "depth",
            "line": {"shape": "hv"},
            "name": f"depth {depth}",
            "x": figures.short(times, 6),
            "y": values,
            "meta": {"run": FIRST_DEPTH_COLOUR + depth},
            "hovertemplate": f"%{{y}} paused at depth {depth}, at %{{x}}",
        }
        for depth, values in counts.items()
    ]
    y_axis: Axis = {"rangemode": "tozero", "title": "ports paused"}
    return figures.plot(traces, figures.time_axis(until), y_axis, {"showlegend": True})


def tree_figure(run: RunData) -> Figure | None:
    """The pauses at their widest spread: a row per port, its depth on the x axis, an edge for each cause.

    A cause may have ended before the pause that it caused; the tree still shows the cause.
    """
    pauses = intervals(run)
    if pauses.is_empty():
        return None
    at = worst_instant(pauses)
    nodes, edges = tree(pauses, at)
    row = rows_of(nodes, edges)
    x: list[float | None] = []
    y: list[float | None] = []
    for cause, effect in edges:
        x += [nodes[cause].depth, nodes[effect].depth, None]
        y += [row[cause], row[effect], None]
    labelled = len(nodes) <= LABELLED
    points: Trace = {
        "type": "scatter",
        "mode": "markers+text" if labelled else "markers",
        "x": [node.depth for node in nodes.values()],
        "y": [row[port] for port in nodes],
        "text": list(nodes),
        "textposition": "middle right",
        "marker": {"symbol": ["circle" if node.stands else "circle-open" for node in nodes.values()]},
        "customdata": [f"{node.by}{'' if node.stands else ', over by then'}" for node in nodes.values()],
        "hovertemplate": "%{text} paused by %{customdata}<extra>depth %{x}</extra>",
        "meta": {"run": 0},
    }
    links: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "hoverinfo": "skip",
        "meta": {"run": 7},
        "line": {"width": 1},
    }
    deepest = max(node.depth for node in nodes.values())
    layout: Layout = {
        # Space for names to the right of the last depth.
        "xaxis": {
            "title": f"depth, at {at * 1e3:.6g} ms",
            "dtick": 1,
            "range": [-0.15, deepest + 0.9],
            "overhang": True,
        },
        "yaxis": {"visible": False, "range": [len(nodes) - 0.3, -0.7]},
        "showlegend": False,
    }
    return {"data": [links, points], "layout": layout, "height": 110 + (19 if labelled else 5) * len(nodes)}


@dataclass(frozen=True)
class Node:
    """A port in the tree of pauses."""

    depth: int
    by: str
    """The node that sent the pause."""
    stands: bool
    """True if the port was paused at the displayed instant."""


def tree(pauses: pl.DataFrame, at: float) -> tuple[dict[str, Node], list[tuple[str, str]]]:
    """The ports paused at a time with all their causes, and (cause, effect) pairs; at most `TREE_NODES` ports."""
    pauses = pauses.filter(pl.col("start") <= at)
    rows = pauses.select("interval", "port", "by_node", "depth", "parents").rows()
    known = {number: (port, by, depth, parents) for number, port, by, depth, parents in rows}
    standing = pauses.filter(pl.col("end") > at).sort("depth", "interval")
    stands = set(standing["port"])
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str], None] = {}
    waiting = standing["interval"].to_list()
    for number in waiting:
        port, by, depth, parents = known[number]
        if port not in nodes and len(nodes) >= TREE_NODES:
            continue
        if port not in nodes or depth < nodes[port].depth:
            nodes[port] = Node(depth, by, port in stands)
        for parent in parents:
            cause = known[parent][0]
            if cause not in nodes:
                waiting.append(parent)
            if cause != port:
                edges[cause, port] = None
    return nodes, [(cause, effect) for cause, effect in edges if cause in nodes and effect in nodes]


def rows_of(nodes: dict[str, Node], edges: list[tuple[str, str]]) -> dict[str, int]:
    """A row for each port, below its first cause, like files in a folder listing."""
    effects: dict[str, list[str]] = {}
    caused = set()
    for cause, effect in edges:
        if nodes[cause].depth < nodes[effect].depth and effect not in caused:
            caused.add(effect)
            effects.setdefault(cause, []).append(effect)
    row: dict[str, int] = {}
    waiting = sorted(
        (port for port in nodes if port not in caused), key=lambda port: (nodes[port].depth, natural(port))
    )
    waiting.reverse()
    while waiting:
        port = waiting.pop()
        row[port] = len(row)
        waiting += sorted(effects.get(port, []), key=natural, reverse=True)
    return row
