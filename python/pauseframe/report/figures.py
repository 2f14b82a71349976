"""Figures as JSON: traces and axes only, in seconds, bytes and bits per second.

Colours, fonts and grid lines follow the reader's theme and are set in the page (templates/figures.js); a trace refers
to its run by the number `meta.run`.
"""

from __future__ import annotations

import base64
import re
import sys
import zlib
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from pauseframe.report import data
from pauseframe.results import flow_sizes
from pauseframe.results.percentiles import SHARES, is_unsure
from pauseframe.terminal.text import format_bytes, format_duration, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from pauseframe.report.data import RunData
    from pauseframe.sweep.statistics import Estimate


class ErrorBars(TypedDict):
    """Error bars of a trace."""

    type: str
    symmetric: bool
    array: list[float]
    arrayminus: list[float]
    thickness: float
    width: float


class Meta(TypedDict, total=False):
    """Data from which figures.js chooses colours."""

    run: int
    paint: str
    """The name of an activity, or "ink"."""
    bands: str
    """Shares of the activities, one byte each, in base64."""
    columns: int
    names: list[str]


class Trace(TypedDict, total=False):
    """A line, bars or a heat map in a figure, or the samples of a time line.

    Samples stand in the figure's `blob` from the value number `at` on: `size` values, or with `per` > 1 the `size`
    means, minima and maxima of `per` samples each; `count` is the number of samples. Their times are `times`, or
    `first` and multiples of `step` later.
    """

    type: str
    mode: str
    name: str
    x: Sequence[Any]
    y: Sequence[Any]
    z: Sequence[Sequence[Any]]
    x0: float
    dx: float
    y0: float
    dy: float
    zmin: float
    zmax: float
    text: Sequence[Any]
    texttemplate: str
    textposition: str
    base: Sequence[float]
    width: float | Sequence[float]
    customdata: Sequence[Any]
    links: Sequence[str]
    """Pages that points open; "" for none."""
    meta: Meta
    line: dict[str, Any]
    marker: dict[str, Any]
    fill: str
    fillcolor: str
    stackgroup: str
    orientation: str
    error_y: ErrorBars
    visible: bool | str
    showscale: bool
    showlegend: bool
    legendgroup: str
    cliponaxis: bool
    hoverinfo: str
    hovertemplate: str
    at: int
    size: int
    per: int
    count: int
    first: float
    step: float
    times: Sequence[float]


class Axis(TypedDict, total=False):
    """Properties of an axis that do not depend on the theme."""

    title: str
    """With the unit in parentheses, but where ticks have theirs (`ticksuffix`): "10 ms" is no number of seconds."""
    type: str
    time: bool
    """True for simulated time in seconds; all such axes of a page have one range and one crosshair."""
    end: float
    """The end of the run, beyond the range that a time axis shows at first."""
    unit: str
    """The unit of values whose ticks have none, for the legend."""
    overhang: bool
    """True if texts may extend beyond the right end."""
    range: list[float]
    rangemode: str
    autorange: str
    automargin: bool
    tickformat: str
    ticksuffix: str
    tickvals: Sequence[float]
    ticktext: Sequence[str]
    dtick: float
    categoryorder: str
    categoryarray: Sequence[str]
    visible: bool
    zeroline: bool
    showgrid: bool
    scaleanchor: bool
    span: list[float]
    """Lowest and highest value of a logarithmic axis."""


class Layout(TypedDict, total=False):
    """The layout around the traces."""

    xaxis: Axis
    yaxis: Axis
    showlegend: bool
    barmode: str
    bargap: float
    hovermode: str
    ends: bool
    """True to write the names of lines beside their ends where they fit, in place of a legend."""
    shapes: list[dict[str, Any]]


class Figure(TypedDict):
    """A figure of a page."""

    data: list[Trace]
    layout: Layout
    height: NotRequired[int]
    run: NotRequired[int]
    """Number of the run, in a figure of one run whose traces are not runs; a click opens its player."""
    blob: NotRequired[str]
    """Samples: Float32 values, their first bytes first, then their second bytes and so on; deflated, in base64."""


class Figures(list[Figure]):
    """The figures of a page; the template refers to a figure by its number."""

    def add(self, figure: Figure) -> int:
        """Adds a figure and returns its number."""
        self.append(figure)
        return len(self) - 1


@dataclass(frozen=True)
class TimeLines:
    """The figures of a metric that runs sampled."""

    title: str
    note: str
    parts: list[tuple[str, Figure]]
    """Label and figure of each run that has samples of the metric."""


class HeatMap(TypedDict):
    """Ports of a group of nodes: a column per node, a row per port number."""

    nodes: list[str]
    numbers: list[str]
    peers: list[list[str]]
    z: dict[str, list[list[float | None]]]
    """Values of the cells by metric."""


class HeatMetric(TypedDict):
    """A metric of a heat map."""

    key: str
    label: str
    format: str
    max: float


class HeatRun(TypedDict):
    """The heat maps of a run."""

    label: str
    groups: list[HeatMap]


class HeatMaps(TypedDict):
    """The heat maps of all runs, which templates/report.js draws."""

    metrics: list[HeatMetric]
    groups: list[str]
    runs: list[HeatRun]


HEAT_METRICS: dict[str, tuple[str, str]] = {
    # label and number format of each column
    "utilisation": ("utilisation", ".0%"),
    "backlog_max_bytes": ("largest backlog (bytes)", ".3s"),
    "paused": ("share of time paused", ".1%"),
    "drops": ("drops", ",d"),
    "trims": ("trimmed packets", ",d"),
    "ecn_marks": ("packets marked CE", ",d"),
}
HEAT_NODES = 400
LINES = {
    "throughput_gbps": ("Throughput", "Gb/s"),
    "backlog_bytes": ("Backlog (egress queues)", "B"),
    "paused_fraction": ("Paused share of each interval", ""),
    "ingress_bytes": ("Ingress accounts (PFC)", "B"),
    "goodput_gbps": ("Goodput of flows", "Gb/s"),
    "qcn_rate_gbps": ("Rate allowed by QCN", "Gb/s"),
    "rdma_rate_gbps": ("Rate allowed by the congestion control of queue pairs", "Gb/s"),
    "cwnd_bytes": ("Congestion window", "B"),
    "ssthresh_bytes": ("Slow start threshold", "B"),
    "srtt_us": ("Smoothed round-trip time", "s"),
    "alpha": ("DCTCP alpha", ""),
}
LINES_A_FIGURE = 8
"""Number of ports or flows shown at first; the others of a figure are one click away."""
LINES_IN_FIGURE = 64
MUCH_LONGER = 4
SLOWDOWN: Axis = {"type": "log", "title": "slowdown (× ideal)"}
PALE = 0.35
"""Opacity of values from too few samples."""
DISTINCT = 32
"""Number of lines that figures.js tells apart, by eight hues and four dashes."""
FIRST_KIND_COLOUR = 5  # the colour differs from those of the first runs
SAMPLES_IN_PAGE = 8_000_000
SAMPLE_BYTES_IN_PAGE = 4_000_000
"""Samples of time lines in a page, and their size when compressed; beyond, the page has groups of samples."""


def cdf_figure(columns: Sequence[tuple[int, str, pl.Series]], what: str = "flow") -> Figure:
    """Distribution functions of times (us) of flows, queries or jobs, one line per run, on a logarithmic axis."""
    many = plural(what)
    traces: list[Trace] = []
    for number, label, values in columns:
        x, y = data.cdf(values / 1e6)
        if len(x) > 1:
            x, y = [x[0], *x], [0.0, *y]  # from 0: of two flows one half is faster than the other, not "50 % at once"
        traces.append(_line(number, label, short(x), short(y), f"%{{x:.4s}}s<br>%{{y:.1%}} of {many}"))
        traces[-1]["line"] = {"shape": "hv"}
        if len(x) == 1:
            traces[-1]["mode"] = "markers"
    x_axis: Axis = {"type": "log", "title": "FCT" if what == "flow" else f"time of a {what}", "ticksuffix": "s"}
    return plot(traces, x_axis, {"range": [0, 1.02], "tickformat": ".0%", "title": f"{many} (share)"})


def percentile_figure(
    columns: Sequence[tuple[int, str, dict[Any, dict[str, float]]]],
    statistic: str,
    name: Callable[[Any], str],
    over: str,
) -> Figure:
    """One statistic over bins of `over`, one line per run; `name` returns a bin's label."""
    is_time = not statistic.endswith("_slowdown")
    hover, scale = ("%{y:.4s}s", 1e-6) if is_time else ("%{y:.4~g}× ideal", 1.0)
    bins = sorted({key for _, _, table in columns for key in table})
    traces: list[Trace] = []
    for number, label, table in columns:
        known = [key for key in bins if key in table and table[key][statistic] is not None]
        y = [table[key][statistic] * scale for key in known]
        trace = _line(number, label, [name(key) for key in known], short(y), hover)
        share = SHARES[statistic.removesuffix("_slowdown")]
        unsure = [is_unsure(table[key]["n"], share) for key in known]
        traces.append(trace | _dots(number, len(columns), unsure))
    categories = [name(key) for key in bins]
    x_axis: Axis = {"type": "category", "categoryorder": "array", "categoryarray": categories, "title": over}
    y_axis: Axis = {"type": "log", "ticksuffix": "s", "title": "time"} if is_time else SLOWDOWN
    return plot(traces, x_axis, y_axis, {"ends": True})


def _dots(number: int, runs: int, unsure: Sequence[bool]) -> Trace:
    """A trace of lines with dots; the first runs have larger dots, so that equal values of two runs stay visible."""
    size = {"size": 7 + 3 * max(0, min(runs, 4) - 1 - number)}
    return {"mode": "lines+markers", "marker": size | greyed(unsure)}


def greyed(unsure: Sequence[bool]) -> dict[str, Any]:
    """Points or bars of percentiles with too few samples beyond them are pale."""
    return {"opacity": [PALE if one else 1.0 for one in unsure]} if any(unsure) else {}


def slowdown_figure(columns: Sequence[tuple[int, str, pl.DataFrame]], statistic: str) -> Figure:
    """Slowdown over flow size, both logarithmic, one line per run."""
    traces: list[Trace] = []
    for number, label, table in columns:
        hover = "%{y:.3~g}× ideal<br>around %{x:.3s}B, %{customdata} flows"
        trace = _line(number, label, short(table["size"].to_list()), short(table[statistic].to_list()), hover)
        counts = table["n"].to_list()
        unsure = [is_unsure(count, SHARES[statistic]) for count in counts]
        traces.append(trace | _dots(number, len(columns), unsure) | {"customdata": counts})
    return plot(traces, {"type": "log", "title": "flow size", "ticksuffix": "B"}, SLOWDOWN, {"ends": True})


def throughput_figures(runs: Sequence[RunData]) -> list[tuple[str, Figure]]:
    """Throughput in bits per second, one line per run; if one run is much longer, also a figure of the beginning."""
    whole = max(map(data.busy_until, runs))
    if not any(map(data.mean_throughput, runs)):
        return []
    title = "Application bytes that reached their hosts, all flows together"
    figures = [(title, _throughput_figure(runs, whole))]
    if (begin := view(runs)) < whole:
        figures.append((f"{title}: the first {format_duration(begin)}", _throughput_figure(runs, begin)))
    return figures


def _throughput_figure(runs: Sequence[RunData], until: float) -> Figure:
    traces: list[Trace] = []
    steps: list[float] = []
    for number, run in enumerate(runs):
        x, y = data.throughput(run, until)
        steps += [x[1] - x[0]] if x else []
        trace = _line(number, run.label, short(x, 6), short(y), "%{y:.4s}b/s<br>at %{x}")
        traces.append(trace | {"line": {"shape": "hv"}})
    each = " or ".join(dict.fromkeys(map(format_duration, sorted(steps))))
    y_axis: Axis = {"rangemode": "tozero", "ticksuffix": "b/s", "title": f"throughput, mean of each {each}"}
    return plot(traces, time_axis(until), y_axis)


def view(runs: Sequence[RunData]) -> float:
    """The time span that figures show at first: everything, unless one run would be too short to be visible."""
    ends = [end for run in runs if (end := data.busy_until(run)) > 0]
    longest, shortest = max(ends, default=0.0), min(ends, default=0.0)
    return longest if shortest > longest / MUCH_LONGER else 1.2 * shortest


def time_unit(seconds: float) -> tuple[float, str]:
    """A factor for seconds, and a unit that gives values of a convenient size."""
    return next((row for row in ((1.0, "s"), (1e3, "ms"), (1e6, "us")) if seconds * row[0] >= 2), (1e6, "us"))


def time_axis(end: float) -> Axis:
    """The axis of simulated time; the page adds the unit."""
    return {"title": "simulated time", "time": True, "range": [0, end]}


def counts_figure(runs: Sequence[RunData], kinds: dict[str, list[int]], kind: str) -> Figure:
    """Stacked bars of counts of a `kind`, one bar per run; `kinds` has one list per colour."""
    labels = [run.label for run in runs]
    traces: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name.replace("_", " "),
            "y": labels,
            "x": counts,
            "meta": {"run": FIRST_KIND_COLOUR + index},
            "hovertemplate": "%{x:,d}",
        }
        for index, (name, counts) in enumerate(kinds.items())
    ]
    y_axis: Axis = {"autorange": "reversed", "automargin": True, "type": "category"}
    layout: Layout = {"barmode": "stack", "showlegend": True}
    # A legend needs two entries: the axis names a single kind.
    title = f"{kind}: {traces[0]['name']}" if len(traces) == 1 and traces[0]["name"] != kind else kind
    return plot(traces, {"rangemode": "tozero", "title": f"{title} (number)"}, y_axis, layout, 130 + 34 * len(runs))


def line_figures(
    runs: Sequence[RunData], pattern: str | None = None, metrics: Iterable[str] = LINES
) -> list[TimeLines]:
    """The figures of each of the `metrics` that the runs sampled.

    All runs show the same entities with the same colours and axes: those with the highest peaks in any run, among names
    that match the glob `pattern`. All but a few are hidden at first. The page holds all samples, or where they are too
    many the mean, minimum and maximum of groups of them, which the note states.
    """
    sampled = [data.metrics(run) for run in runs]
    chosen = {}
    for metric in metrics:
        if mine := [run for run, table in zip(runs, sampled, strict=True) if metric in table]:
            chosen[metric] = mine, data.highest(mine, metric, LINES_IN_FIGURE, pattern)
    notes = {
        metric: _line_note(len(names), max(table.get(metric, 0) for table in sampled), pattern)
        for metric, (_, names) in chosen.items()
    }
    total = sum(data.sample_count(run, metric, names) for metric, (mine, names) in chosen.items() for run in mine)
    per = -(-total // SAMPLES_IN_PAGE)
    while True:
        result = [_time_lines(metric, *chosen[metric], notes[metric], per, runs) for metric in chosen]
        size = sum(len(figure["blob"]) for lines in result for _, figure in lines.parts)
        if size <= SAMPLE_BYTES_IN_PAGE or per > total:
            return result
        per *= 2


def _time_lines(
    metric: str, mine: Sequence[RunData], entities: Sequence[str], note: str, per: int, runs: Sequence[RunData]
) -> TimeLines:
    """The figures of a metric, with groups of `per` samples."""
    shown, end = view(runs), max(run.summary["sim_time_s"] for run in runs)
    lines = [data.lines(run, metric, entities, per) for run in mine]
    peak = max((line.peak for of_run in lines for line in of_run.values()), default=0.0)
    numbers = {id(run): number for number, run in enumerate(runs)}
    parts = [
        (run.label, _line_figure(metric, entities, of_run, peak, (shown, end)) | {"run": numbers[id(run)]})
        for run, of_run in zip(mine, lines, strict=True)
    ]
    if shown < max(map(data.busy_until, runs)):
        note = f"the first {format_duration(shown)}: drag or double-click a figure for more. {note}"
    if per > 1:
        note = f"a point stands for up to {per} samples, the band for their range. {note}"
    return TimeLines(LINES[metric][0], note, parts)


def _line_note(kept: int, there: int, pattern: str | None) -> str:
    if pattern is not None:
        return f"{kept} of {there} lines: those like {pattern}"
    if kept < there:
        return f"the {kept} of {there} lines that peak highest; pauseframe report --lines 'PATTERN' takes others"
    return f"{kept} lines" if kept > LINES_A_FIGURE else ""


def _line_figure(
    metric: str, entities: Sequence[str], lines: dict[str, data.Line], peak: float, ends: tuple[float, float]
) -> Figure:
    """The lines of one run; `peak` is the highest value of all runs, `ends` the ends of the first view and the run."""
    name, unit = LINES[metric]
    scale = 1e-6 if metric.endswith("_us") else 1.0
    places = {one: place for place, one in enumerate(dict.fromkeys(map(data.whose, entities)))}
    traces: list[Trace] = []
    values: list[array[float]] = []
    earlier: Counter[str] = Counter()
    most = max(Counter(map(data.whose, lines)).values(), default=1)
    # Further priorities of a port have colours and dashes that no port has, or if there are too few, its own dashes.
    step = len(places) if len(places) * most <= DISTINCT else LINES_A_FIGURE
    for entity, line in lines.items():
        port = data.whose(entity)
        number = places[port]
        colour = number + earlier[port] * step
        earlier[port] += 1
        trace: Trace = {
            "type": "samples",
            "name": entity,
            "meta": {"run": colour},
            "visible": True if number < LINES_A_FIGURE else "legendonly",
            "at": sum(map(len, values)),
            "size": len(line.times),
            "per": line.per,
            "count": line.count,
        }
        trace.update(line.grid())  # type: ignore[typeddict-item]
        traces.append(trace)
        values += [array("f", part * scale) for part in line.parts]
    y_axis: Axis = {"title": name, "rangemode": "tozero"}
    y_axis |= {"title": f"{name} ({unit})", "unit": unit} if unit == "Gb/s" else {"ticksuffix": unit}
    if peak > 0:
        y_axis["range"] = [0, peak * scale * 1.05]
    figure = plot(traces, time_axis(ends[0]) | {"end": ends[1]}, y_axis, {"showlegend": True})
    return figure | {"blob": _packed(values)}


def _packed(parts: Sequence[array[float]]) -> str:
    """The `blob` of a figure."""
    for part in parts:
        if sys.byteorder == "big":
            part.byteswap()
    values = b"".join(part.tobytes() for part in parts)
    planes = b"".join(values[plane::4] for plane in range(4))
    return base64.b64encode(zlib.compress(planes, 9)).decode("ascii")


def heat_maps(runs: Sequence[RunData]) -> HeatMaps | None:
    """The ports of every run by node, for heat maps of templates/report.js; None without any port."""
    frames = [data.ports_by_number(run) for run in runs]
    if all(frame.is_empty() for frame in frames):
        return None
    groups = _node_groups([node for frame in frames for node in frame["node"].unique().to_list()])
    peaks = {
        metric: max((value for frame in frames for value in frame[metric].to_list()), default=0)
        for metric in HEAT_METRICS
    }
    return {
        "metrics": [
            {"key": key, "label": label, "format": form, "max": peaks[key]}
            for key, (label, form) in HEAT_METRICS.items()
        ],
        "groups": list(groups),
        "runs": [
            {"label": run.label, "groups": [_heat_map(frame, nodes) for nodes in groups.values()]}
            for run, frame in zip(runs, frames, strict=True)
        ],
    }


def _node_groups(nodes: list[str]) -> dict[str, list[str]]:
    """Groups nodes by name without the number ("edge1_2": "edge"); one group if there would be too many."""
    groups: dict[str, list[str]] = {}
    for node in sorted(set(nodes), key=data.natural):
        groups.setdefault(re.split(r"\d", node, maxsplit=1)[0] or "nodes", []).append(node)
    if len(groups) > 6:
        groups = {"nodes": [node for group in groups.values() for node in group]}
    return {f"{name} ({len(group)})": group for name, group in groups.items()}


def _heat_map(frame: pl.DataFrame, nodes: list[str]) -> HeatMap:
    import polars as pl

    part = frame.filter(pl.col("node").is_in(nodes))
    if len(nodes) > HEAT_NODES:
        top = part.group_by("node").agg(pl.col("utilisation").sum()).sort("utilisation", "node", descending=True)
        keep = set(top.head(HEAT_NODES)["node"].to_list())
        nodes = [node for node in nodes if node in keep]
    column = {node: index for index, node in enumerate(nodes)}
    numbers = sorted(part["number"].unique().to_list())
    row = {number: index for index, number in enumerate(numbers)}
    grids: dict[str, list[list[float | None]]] = {
        metric: [[None] * len(nodes) for _ in numbers] for metric in HEAT_METRICS
    }
    peers = [[""] * len(nodes) for _ in numbers]
    for port in part.filter(pl.col("node").is_in(nodes)).iter_rows(named=True):
        y, x = row[port["number"]], column[port["node"]]
        peers[y][x] = port["peer"]
        for metric, grid in grids.items():
            grid[y][x] = short([port[metric]])[0]
    return {"nodes": nodes, "numbers": [str(number) for number in numbers], "peers": peers, "z": grids}


def size_label(size: float) -> str:
    """A response size as the label of a category."""
    return format_bytes(size)


def bin_label(index: int) -> str:
    """A size bin as the label of a category."""
    return flow_sizes.NAMES[index]


def _line(number: int, label: str, x: Sequence[Any], y: Sequence[Any], hover: str) -> Trace:
    hover = f"{hover}<extra>%{{fullData.name}}</extra>"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": x,
        "y": y,
        "meta": {"run": number},
        "hovertemplate": hover,
    }


def plot(traces: list[Trace], x_axis: Axis, y_axis: Axis, layout: Layout | None = None, height: int = 300) -> Figure:
    """A figure of traces over two axes, `height` pixels high."""
    return {"data": traces, "layout": (layout or {}) | {"xaxis": x_axis, "yaxis": y_axis}, "height": height}


def error_bars(estimates: Sequence[Estimate], scale: float) -> ErrorBars:
    """The intervals of estimates, relative to their medians."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if one.high is None else (one.high - one.median) * scale for one in estimates],
        "arrayminus": [0 if one.low is None else (one.median - one.low) * scale for one in estimates],
        "thickness": 1.2,
        "width": 3,
    }


def short(values: Sequence[float | int | None], digits: int = 4) -> list[float | int | None]:
    """Values with as few digits as a figure can show, which keeps the page small."""
    return [value if value is None or isinstance(value, int) else float(f"{value:.{digits}g}") for value in values]
