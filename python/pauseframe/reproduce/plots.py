"""Plots of an experiment from its points, as figures for the page and as PDF or SVG for a paper.

A `[[plots]]` table names a metric and its kind: `bars` and `line` over the key or axis `x`, `time` over the key
`time_us`, `cdf` of all values. Each variant (and each value of the key `line`) has one trace: the median over seeds
with its interval. `theirs` has points read off the published figure, by variant; `at` selects points by keys; `over`
divides every other variant by that one; `single` uses the first seed only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pauseframe.files.atomic import write_bytes
from pauseframe.report import figures
from pauseframe.reproduce.points import number
from pauseframe.results.percentiles import EXPLANATION, is_few
from pauseframe.sweep.statistics import estimate
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from pauseframe.report.figures import Axis, Figure, Trace
    from pauseframe.reproduce.points import Point
    from pauseframe.reproduce.spec import Experiment, Plot

CDF_POINTS = 200
MICROSECONDS = 1e-6


def figure(experiment: Experiment, plot: Plot, points: Sequence[Point]) -> Figure:
    """Makes one plot of an experiment."""
    mine = _chosen(plot, points)
    traces: list[Trace] = []
    variants = plot.variants or list(experiment.spec.variants)
    for variant in variants:
        of_variant = [point for point in mine if point.variant == variant]
        for line in dict.fromkeys(_key(point, "line") for point in of_variant):
            chosen = [point for point in of_variant if _key(point, "line") == line]
            name = "" if line is not None and len(variants) == 1 else variant
            label = " ".join(str(part) for part in (name, line) if part not in ("", None))
            traces.append(_trace(len(traces), label, plot, chosen))
    for variant, pairs in plot.theirs.items():
        trace = figures._line(len(traces), f"{variant}, paper", [x for x, _ in pairs], [y for _, y in pairs], "%{y}")
        traces.append(trace | {"mode": "markers"})
    return figures.plot(traces, _x_axis(plot, mine), _y_axis(plot, traces))


def counts(plot: Plot, points: Sequence[Point]) -> str:
    """The caption of a plot: what its points are, and the number of seeds and samples."""
    mine = _chosen(plot, points)
    if not mine:
        return ""
    seeds = len({point.seed for point in mine})
    text = counted(seeds, "seed")
    if plot.kind == "cdf":
        return f"{text}, {counted(len(mine), 'sample')}"
    text = f"medians of {text}" if seeds > 1 else text
    low, high = min(point.samples for point in mine), max(point.samples for point in mine)
    if high == 1:
        return text
    text += f"; {low if low == high else f'{low} to {high}'} samples per number and seed"
    places = {(point.variant, str(sorted(point.keys.items()))) for point in mine}
    unsure = any(
        _is_unsure(one for one in mine if (one.variant, str(sorted(one.keys.items()))) == place) for place in places
    )
    return f"{text}. {EXPLANATION} It is pale in the plot" if unsure else text


def _chosen(plot: Plot, points: Sequence[Point]) -> list[Point]:
    mine = [one for one in points if one.metric == plot.metric and one.value is not None and one.has(plot.at)]
    if plot.single:
        mine = [one for one in mine if one.seed == min(other.seed for other in points)]
    if not plot.over:
        return mine
    base = {(one.seed, str(sorted(one.keys.items()))): one.value for one in mine if one.variant == plot.over}
    return [
        replace(one, value=one.value / other)
        for one in mine
        if one.variant != plot.over
        and one.value is not None
        and (other := base.get((one.seed, str(sorted(one.keys.items())))))
    ]


def _trace(index: int, label: str, plot: Plot, points: Sequence[Point]) -> Trace:
    if plot.kind == "cdf":
        return _cdf(index, label, [value * plot.scale for value in _values(points)])
    key = _x(plot)
    places = dict.fromkeys(_key(point, key) for point in points)
    by_place = {place: estimate(_values(one for one in points if _key(one, key) == place)) for place in places}
    if plot.kind != "bars":
        by_place = dict(sorted(by_place.items(), key=lambda pair: _sortable(pair[0])))
    x = [_shown_x(place, plot) for place in by_place]
    y = figures.short([one.median * plot.scale for one in by_place.values()])
    trace = figures._line(index, label, x, y, "%{y:.4~g}")
    if plot.kind == "time":
        return trace
    trace["error_y"] = figures.error_bars(list(by_place.values()), plot.scale)
    trace["marker"] = figures.greyed(
        [_is_unsure(one for one in points if _key(one, key) == place) for place in by_place]
    )
    trace |= {"type": "bar"} if plot.kind == "bars" else {"mode": "lines+markers"}
    return trace


def _is_unsure(points: Iterable[Point]) -> bool:
    """True if too few samples of a seed lie beyond its percentile: plots show medians of one percentile per seed."""
    beyond = [point.beyond for point in points if point.beyond is not None]
    return bool(beyond) and is_few(min(beyond))


def _cdf(index: int, label: str, values: list[float]) -> Trace:
    values.sort()
    n = len(values)
    ranks = range(n) if n <= CDF_POINTS else [round(i * (n - 1) / (CDF_POINTS - 1)) for i in range(CDF_POINTS)]
    x = figures.short([values[rank] for rank in ranks])
    return figures._line(index, label, x, figures.short([(rank + 1) / n for rank in ranks]), "%{x:.4~g}: %{y:.1%}")


def _values(points: Iterable[Point]) -> list[float]:
    return [point.value for point in points if point.value is not None]


def _x(plot: Plot) -> str:
    return "time_us" if plot.kind == "time" else plot.x


def _key(point: Point, name: str) -> Any:
    return point.keys.get(name)


def _sortable(place: JsonValue) -> float:
    return number(place) if place is not None else 0.0


def _shown_x(place: Any, plot: Plot, *, as_category: bool = False) -> Any:
    if plot.kind == "time" and not as_category:
        return float(f"{place * MICROSECONDS:.6g}")
    if plot.kind == "line" and not plot.categories and not as_category:
        return number(place)
    return "all" if place is None else str(place)


def _x_axis(plot: Plot, points: Sequence[Point]) -> Axis:
    title = ("simulated time (s)" if plot.kind == "time" else "") if plot.x_label is None else plot.x_label
    if plot.kind == "bars" or plot.categories:
        places = dict.fromkeys(_key(point, _x(plot)) for point in points)
        order = plot.order or [_shown_x(place, plot, as_category=True) for place in places]
        return {"type": "category", "categoryorder": "array", "categoryarray": order, "title": title}
    if plot.kind == "time":
        return {"title": title.removesuffix(" (s)"), "time": True, "rangemode": "tozero"}
    axis: Axis = {"type": "log"} if plot.log_x else {"rangemode": "tozero"}
    # Ticks write bytes as 1 MB, as in reports.
    return axis | (
        {"title": title} if (name := title.removesuffix(" (B)")) == title else {"title": name, "ticksuffix": "B"}
    )


def _y_axis(plot: Plot, traces: Sequence[Trace]) -> Axis:
    if plot.kind == "cdf":
        return {"range": [0, 1.02], "tickformat": ".0%", "title": plot.y_label}
    axis: Axis = _log(traces) if plot.log_y else {"rangemode": "tozero"}
    return {"title": plot.y_label, **axis}


def _log(traces: Sequence[Trace]) -> Axis:
    """A logarithmic axis over all intervals; an interval that reaches 0 has no lower end on this axis."""
    ends = [value for trace in traces for value in trace["y"]]
    for trace in traces:
        if "error_y" in trace:
            spread = trace["error_y"]
            ends += [value + up for value, up in zip(trace["y"], spread["array"], strict=False)]
            ends += [value - down for value, down in zip(trace["y"], spread["arrayminus"], strict=False)]
    known = [end for end in ends if end > 0]
    return {"type": "log", "span": [min(known), max(known)]} if known else {"type": "log"}


def save(drawn: Figure, title: str, path: Path) -> None:
    """Saves the figure as a vector file, one column wide; the extension sets the format (.pdf, .svg)."""
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
        (drawn["layout"]["xaxis"], axes.set_xscale, axes.set_xlabel),
        (drawn["layout"]["yaxis"], axes.set_yscale, axes.set_ylabel),
    ):
        if axis.get("type") == "log":
            set_scale("log")
        # Here ticks are plain numbers, of seconds on an axis of time.
        unit = "s" if axis.get("time") else axis.get("ticksuffix")
        set_label(axis.get("title", "") + (f" ({unit})" if unit else ""), fontsize=7)
    axes.tick_params(labelsize=6)
    axes.set_title(title, fontsize=8)
    axes.legend(fontsize=6, frameon=False)
    about = {"Date": None, "Description": digest(drawn)} if path.suffix == ".svg" else None
    content = BytesIO()
    canvas.savefig(content, format=path.suffix.removeprefix("."), metadata=about)
    write_bytes(path, content.getvalue())


def digest(drawn: Figure) -> str:
    """A digest of the figure's data, stored in the SVG file to detect an outdated file."""
    shown = [[trace["name"], trace["x"], trace["y"]] for trace in drawn["data"]]
    return hashlib.blake2b(json.dumps(shown).encode(), digest_size=16).hexdigest()
