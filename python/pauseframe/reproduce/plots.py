"""Plots of an experiment from its points, as plotly figures for the page and as PDF or SVG for a paper.

A `[[plots]]` table names a metric and its kind: `bars` and `line` over the key or axis `x`, `time` over the key
`time_us`, `cdf` of all values. One trace a variant (and a value of the key `line`, if there is one): the median over
seeds, with its interval. `theirs` has points read off the published figure, by variant;
`at` picks points by keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.report import figures
from pauseframe.reproduce.judge import number
from pauseframe.sweep.statistics import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.report.figures import Figure
    from pauseframe.reproduce.judge import Point
    from pauseframe.reproduce.spec import Experiment

CDF_POINTS = 200
MICROSECONDS = 1e-6


def figure(experiment: Experiment, plot: dict[str, Any], points: Sequence[Point]) -> Figure:
    """One plot of an experiment."""
    variants = plot.get("variants") or list(experiment.variants)
    mine = [point for point in points if point["metric"] == plot["metric"] and point["value"] is not None]
    mine = [point for point in mine if all(_key(point, key) == value for key, value in plot.get("at", {}).items())]
    kind = plot.get("kind", "bars")
    traces: list[dict[str, Any]] = []
    for variant in variants:
        of_variant = [point for point in mine if point["variant"] == variant]
        for line in dict.fromkeys(_key(point, "line") for point in of_variant):
            chosen = [point for point in of_variant if _key(point, "line") == line]
            label = f"{variant} {line}" if line is not None else variant
            traces.append(_trace(len(traces), label, plot, kind, chosen))
    for variant, pairs in plot.get("theirs", {}).items():
        trace = figures._line(len(traces), f"{variant}, paper", [x for x, _ in pairs], [y for _, y in pairs], "%{y}")
        traces.append(trace | {"mode": "markers"})
    return figures._figure(traces, _x_axis(plot, kind, mine), _y_axis(plot, kind))


def _trace(index: int, label: str, plot: dict[str, Any], kind: str, points: Sequence[Point]) -> dict[str, Any]:
    if kind == "cdf":
        return _cdf(index, label, [point["value"] * plot.get("scale", 1.0) for point in points])
    places = {_key(point, _x(plot, kind)): point for point in points}
    by_place = {
        place: estimate([one["value"] for one in points if _key(one, _x(plot, kind)) == place]) for place in places
    }
    if kind != "bars":
        by_place = dict(sorted(by_place.items(), key=lambda pair: _sortable(pair[0])))
    scale = plot.get("scale", 1.0)
    x = [_shown_x(place, kind, plot) for place in by_place]
    y = figures.short([one.median * scale for one in by_place.values()])
    trace = figures._line(index, label, x, y, "%{y:.4~g}")
    if kind == "time":
        return trace
    spread = {
        "type": "data",
        "symmetric": False,
        "array": [0 if one.high is None else (one.high - one.median) * scale for one in by_place.values()],
        "arrayminus": [0 if one.low is None else (one.median - one.low) * scale for one in by_place.values()],
        "thickness": 1.2,
        "width": 3,
    }
    if kind == "bars":
        return trace | {"type": "bar", "error_y": spread}
    return trace | {"mode": "lines+markers", "error_y": spread}


def _cdf(index: int, label: str, values: list[float]) -> dict[str, Any]:
    values.sort()
    n = len(values)
    ranks = range(n) if n <= CDF_POINTS else [round(i * (n - 1) / (CDF_POINTS - 1)) for i in range(CDF_POINTS)]
    x = figures.short([values[rank] for rank in ranks])
    return figures._line(index, label, x, figures.short([(rank + 1) / n for rank in ranks]), "%{x:.4~g}: %{y:.1%}")


def _x(plot: dict[str, Any], kind: str) -> str:
    return "time_us" if kind == "time" else str(plot.get("x", ""))


def _key(point: Point, name: str) -> Any:
    return (point["axes"] | point["at"]).get(name)


def _sortable(place: Any) -> float:
    return number(place) if place is not None else 0.0


def _shown_x(place: Any, kind: str, plot: dict[str, Any]) -> Any:
    if kind == "time":
        return float(f"{place * MICROSECONDS:.6g}")
    if kind == "line" and not plot.get("categories", False):
        return number(place)
    return "all" if place is None else str(place)


def _x_axis(plot: dict[str, Any], kind: str, points: Sequence[Point]) -> dict[str, Any]:
    title = plot.get("x_label", "simulated time (s)" if kind == "time" else "")
    if kind == "bars" or plot.get("categories", False):
        order = plot.get("order") or [
            _shown_x(place, "bars", plot) for place in dict.fromkeys(_key(point, _x(plot, kind)) for point in points)
        ]
        return {"type": "category", "categoryorder": "array", "categoryarray": order, "title": title}
    return {"title": title} | ({"type": "log"} if plot.get("log_x", False) else {"rangemode": "tozero"})


def _y_axis(plot: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind == "cdf":
        return {"range": [0, 1.02], "tickformat": ".0%", "title": plot.get("y_label", "")}
    return {"title": plot.get("y_label", "")} | (
        {"type": "log"} if plot.get("log_y", False) else {"rangemode": "tozero"}
    )


def save(drawn: Figure, title: str, path: Path) -> None:
    """The figure as a vector file of one column's width; the format is that of the path's ending (.pdf, .svg)."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(3.5, 2.4), layout="constrained")
    axes = canvas.subplots()
    bars = [trace for trace in drawn["data"] if trace.get("type") == "bar"]
    for index, trace in enumerate(drawn["data"]):
        if trace.get("type") == "bar":
            width = 0.8 / len(bars)
            places = drawn["layout"]["xaxis"]["categoryarray"]
            x = [places.index(place) - 0.4 + width * (index + 0.5) for place in trace["x"]]
            spread = trace["error_y"]
            axes.bar(x, trace["y"], width, yerr=[spread["arrayminus"], spread["array"]], label=trace["name"])
            axes.set_xticks(range(len(places)), places, fontsize=6)
        else:
            style = "o" if trace["mode"] == "markers" else "o-" if "markers" in trace["mode"] else "-"
            axes.plot(trace["x"], trace["y"], style, markersize=3, linewidth=1, label=trace["name"])
    for axis, set_scale, set_label in (
        ("xaxis", axes.set_xscale, axes.set_xlabel),
        ("yaxis", axes.set_yscale, axes.set_ylabel),
    ):
        settings = drawn["layout"][axis]
        if settings.get("type") == "log":
            set_scale("log")
        set_label(settings.get("title", ""), fontsize=7)
    axes.tick_params(labelsize=6)
    axes.set_title(title, fontsize=8)
    axes.legend(fontsize=6, frameon=False)
    canvas.savefig(path)
