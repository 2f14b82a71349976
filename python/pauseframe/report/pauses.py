"""How pauses spread: how many stand at each depth over time, and the tree of causes at the worst instant.

Depth 0 is a root: a queue that was simply too full. A pause at depth n was asked for because one at depth n - 1 held
its packets back (docs/reference/results.md, pause_tree).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from pauseframe.report.data import RunData

POINTS = 300
TREE_NODES = 200
FIRST_DEPTH_COLOUR = 5  # apart from the colours of the first runs


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
    """The instants, and for each depth how many pauses stand at each of them."""
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
    """When most pauses stood; the first such instant."""
    steps = pl.concat(
        [
            pauses.select(pl.col("start").alias("t"), pl.lit(1).alias("step")),
            pauses.select(pl.col("end").alias("t"), pl.lit(-1).alias("step")),
        ]
    ).sort("t", "step")
    standing = steps.with_columns(pl.col("step").cum_sum())
    return float(standing["t"].to_list()[standing["step"].arg_max() or 0])


def depth_figure(run: RunData, until: float) -> dict[str, Any] | None:
    """Pauses that stand, by depth, as stacked areas over time; None without any."""
    pauses = intervals(run)
    if pauses.is_empty():
        return None
    times, counts = depths_over_time(pauses, until)
    scale, unit = next((row for row in ((1.0, "s"), (1e3, "ms")) if until * row[0] >= 2), (1e6, "µs"))
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "depth",
            "line": {"shape": "hv"},
            "name": f"depth {depth}",
            "x": [float(f"{t * scale:.6g}") for t in times],
            "y": values,
            "meta": {"run": FIRST_DEPTH_COLOUR + depth},
            "hovertemplate": f"%{{y}} paused at depth {depth}<extra></extra>",
        }
        for depth, values in counts.items()
    ]
    layout = {
        "xaxis": {"title": f"simulated time ({unit})"},
        "yaxis": {"rangemode": "tozero", "title": "ports paused"},
        "showlegend": True,
    }
    return {"data": traces, "layout": layout, "height": 300}


def tree_figure(run: RunData) -> dict[str, Any] | None:
    """The pauses that stand when most do: a point each, by depth, a line to each of its causes that still stands."""
    pauses = intervals(run)
    if pauses.is_empty():
        return None
    at = worst_instant(pauses)
    standing = pauses.filter((pl.col("start") <= at) & (pl.col("end") > at)).sort("depth", "interval").head(TREE_NODES)
    rank: dict[int, int] = {}
    place: dict[int, tuple[int, int]] = {}
    for number, depth in standing.select("interval", "depth").iter_rows():
        rank[depth] = rank.get(depth, -1) + 1
        place[number] = (depth, rank[depth])
    x: list[int | None] = []
    y: list[int | None] = []
    for number, parents in standing.select("interval", "parents").iter_rows():
        for parent in parents:
            if parent in place:
                x += [place[parent][0], place[number][0], None]
                y += [place[parent][1], place[number][1], None]
    rows = standing.select("interval", "port", "by_node").rows()
    links = {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "meta": {"run": 0}}
    points = {
        "type": "scatter",
        "mode": "markers+text" if len(rows) <= 40 else "markers",
        "x": [place[number][0] for number, _, _ in rows],
        "y": [place[number][1] for number, _, _ in rows],
        "text": [port for _, port, _ in rows],
        "textposition": "top center",
        "customdata": [by for _, _, by in rows],
        "hovertemplate": "%{text} paused by %{customdata}<extra>depth %{x}</extra>",
        "meta": {"run": 0},
    }
    layout = {
        "xaxis": {"title": f"depth, at {at * 1e3:.6g} ms", "dtick": 1},
        "yaxis": {"visible": False},
        "showlegend": False,
    }
    return {"data": [links, points], "layout": layout, "height": 360}
