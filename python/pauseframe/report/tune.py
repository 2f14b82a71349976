"""The page of a search: the recommendation and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.files.atomic import write_text
from pauseframe.report import figures
from pauseframe.report.html import render
from pauseframe.report.sweep import LOG_FROM, _unit
from pauseframe.sweep.spec import split_unit
from pauseframe.tune import text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pauseframe.report.figures import Figure, Trace

INTERVALS = {"prediction interval": "prediction", "confidence interval": "confidence"}
STATES = {"complete": "keeps the constraints", "violates": "breaks a constraint"}


def build_tune_report(record: dict[str, Any], out: Path) -> Path:
    """Writes the page of an answer (`Tuning.record`) to the file `out` and returns its path."""
    items = figures.Figures()
    add = items.add
    beside = [
        (text.objective_title(record, n), add(_beside(record, n)))
        for n in range(len(record["objectives"]) if record["recommended"] else 0)
    ]
    slices = [(one["path"], add(_slice(one, record))) for one in record["sensitivity"] if one["points"]]
    progress = [(text.objective_title(record, n), add(_progress(record, n))) for n in range(len(record["objectives"]))]
    scatter = [
        (one["path"], add(_scatter(one["path"], record)))
        for one in record["parameters"]
        if any(_has_value(trial, 0) for trial in record["trials"])
    ]
    front = [("Pareto front", add(_front(record)))] if len(record["objectives"]) == 2 else []
    parts = {"beside": beside, "slices": slices, "progress": progress, "scatter": scatter, "front": front}
    html = render("tune.html.j2", items, title=record["name"], record=record, text=text, label=text.label, **parts)
    return write_text(out, html)


def _number(value: Any) -> float | None:
    """The number in a value with a unit."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = split_unit(value)
    return None if found is None else found[0]


def _has_value(trial: dict[str, Any], number: int) -> bool:
    return bool(trial["values"]) and trial["values"][number] is not None


def _values(record: dict[str, Any], number: int) -> list[float]:
    return [one["values"][number] for one in record["trials"] if _has_value(one, number)]


def _x_axis(path: str, record: dict[str, Any]) -> figures.Axis:
    entry = next(one for one in record["parameters"] if one["path"] == path)
    if "choices" in entry:
        names = [text.label(value) for value in entry["choices"]]
        return {"title": path, "type": "category", "categoryorder": "array", "categoryarray": names}
    found = split_unit(entry["low"])
    axis: figures.Axis = {"title": path if found is None else f"{path} ({found[1]})"}
    return axis | {"type": "log"} if entry["log"] else axis


def _x(value: Any, axis: figures.Axis) -> Any:
    if value is None:  # a setting that leaves this key as it is
        return None
    return text.label(value) if axis.get("type") == "category" else _number(value)


def _beside(record: dict[str, Any], number: int) -> Figure:
    """An objective of the recommended setting and of the references: median and both intervals."""
    judged = [record["recommended"], *record["references"]]
    shown = [(one["name"], one["objectives"][number]) for one in judged if one["objectives"]]
    shown = [(name, entry) for name, entry in shown if entry["median"] is not None]
    known = [
        value
        for _, entry in shown
        for value in (entry["median"], *(entry[key][end] for key in INTERVALS.values() for end in ("low", "high")))
        if value is not None
    ]
    scale, axis = _value_axis(record, number, known)
    traces: list[Trace] = []
    for width, (title, key) in zip((2, 8), INTERVALS.items(), strict=True):
        ends: list[Any] = []
        names: list[Any] = []
        for name, entry in shown:
            low, high = entry[key]["low"], entry[key]["high"]
            if low is not None or high is not None:  # intervals with an infinite end are not drawn
                ends += [(min(known) if low is None else low) * scale, (max(known) if high is None else high) * scale]
                ends, names = [*ends, None], [*names, *[name] * 3]
        line = figures._line(0, title, figures.short(ends), names, "%{x:.4s}" + axis["ticksuffix"])
        traces.append(line | {"line": {"width": width}, "cliponaxis": False})
    medians = figures.short([entry["median"] * scale for _, entry in shown])
    dots = figures._line(1, "median", medians, [name for name, _ in shown], "%{customdata}")
    form = text.objective_form(record, number)
    texts = [text.with_interval(entry, form) for _, entry in shown]
    traces.append(dots | {"mode": "markers", "customdata": texts, "cliponaxis": False})
    y_axis: figures.Axis = {"type": "category", "autorange": "reversed"}
    return figures.plot(traces, axis, y_axis, height=110 + 34 * len(shown))


def _log_or_zero(values: Sequence[float]) -> figures.Axis:
    """A logarithmic axis if values are far apart, else one from zero."""
    far = min(values, default=0) > 0 and max(values) > LOG_FROM * min(values)
    return {"type": "log"} if far else {"rangemode": "tozero"}


def _value_axis(record: dict[str, Any], number: int, values: Sequence[float]) -> tuple[float, figures.Axis]:
    """Scale factor of an objective's values, and their axis."""
    metric = record["objectives"][number]["metric"]
    scale, suffix = _unit(metric.partition(" where ")[0], relative=len(record["scenarios"]) > 1)
    return scale, {"title": metric, "ticksuffix": suffix} | _log_or_zero(values)


def _slice(one: dict[str, Any], record: dict[str, Any]) -> Figure:
    """A figure of each objective's deterioration when one parameter changes and the others stay."""
    axis = _x_axis(one["path"], record)
    traces: list[Trace] = []
    for number, objective in enumerate(record["objectives"]):
        rows = [(_x(one["value"], axis), 0.0, text.label(one["value"]))]
        rows += [
            (
                _x(point["value"], axis),
                (point["ratios"][number] - 1) * 100,
                text.label(point["value"]) + ("" if point["kept"] else f", {point['why']}"),
            )
            for point in one["points"]
            if point["ratios"] and point["ratios"][number] is not None
        ]
        order = axis.get("categoryarray")
        rows.sort(key=lambda row: row[0] if order is None else order.index(row[0]))
        x, y, names = zip(*rows, strict=True)
        trace = figures._line(number, objective["metric"], list(x), figures.short(y), "%{y:.3~g} %<br>%{customdata}")
        traces.append(trace | {"mode": "lines+markers", "customdata": list(names), "cliponaxis": False})
    ends = [traces[0]["x"][0], traces[0]["x"][-1]]
    limit: Trace = figures._line(
        len(traces), f"{record['tolerance'] * 100:g} % worse", ends, [record["tolerance"] * 100] * 2, ""
    )
    traces.append(limit | {"mode": "lines", "line": {"dash": "dot"}, "hoverinfo": "skip"})
    return figures.plot(traces, axis, {"title": "worse by", "ticksuffix": " %"})


def _dots(record: dict[str, Any], number: int, scale: float, x_of: Callable[[dict[str, Any]], Any]) -> list[Trace]:
    """An objective of every setting, one trace per state."""
    traces: list[Trace] = []
    for place, (state, name) in enumerate(STATES.items()):
        mine = [one for one in record["trials"] if one["state"] == state and _has_value(one, number)]
        mine = [one for one in mine if x_of(one) is not None]
        if mine:
            y = figures.short([one["values"][number] * scale for one in mine])
            trace = figures._line(place, name, [x_of(one) for one in mine], y, "%{y:.4s}<br>%{customdata}")
            texts = [text.settings_text(one["settings"]) for one in mine]
            traces.append(trace | {"mode": "markers", "customdata": texts})
    return traces


def _progress(record: dict[str, Any], number: int) -> Figure:
    """The objective of every setting in the order of trials, and the best so far."""
    better = max if record["objectives"][number]["maximize"] else min
    scale, axis = _value_axis(record, number, _values(record, number))
    traces = _dots(record, number, scale, lambda one: one["number"])
    best: list[float] = []
    complete = [one for one in record["trials"] if one["state"] == "complete" and one["values"][number] is not None]
    for one in complete:
        best.append(better([*best[-1:], one["values"][number] * scale]))
    if best:
        line = figures._line(
            len(STATES), "best so far", [one["number"] for one in complete], figures.short(best), "%{y:.4s}"
        )
        traces.append(line | {"mode": "lines", "line": {"shape": "hv"}})
    return figures.plot(traces, {"title": "setting"}, axis)


def _scatter(path: str, record: dict[str, Any]) -> Figure:
    """The first objective over one parameter, for all settings."""
    axis = _x_axis(path, record)
    scale, y_axis = _value_axis(record, 0, _values(record, 0))
    traces = _dots(record, 0, scale, lambda one: _x(one["settings"].get(path), axis))
    return figures.plot(traces, axis, y_axis)


def _front(record: dict[str, Any]) -> Figure:
    """Both objectives of all complete settings, and of the Pareto front."""
    complete = [one for one in record["trials"] if one["state"] == "complete" and None not in one["values"]]
    names = [text.settings_text(one["settings"]) for one in complete]
    scales, axes = zip(*(_value_axis(record, n, [one["values"][n] for one in complete]) for n in (0, 1)), strict=True)
    x, y = ([one["values"][n] * scales[n] for one in complete] for n in (0, 1))
    everything = figures._line(0, "search seeds", x, figures.short(y), "%{x:.4s}, %{y:.4s}<br>%{customdata}")
    traces: list[Trace] = [everything | {"mode": "markers", "customdata": names}]
    points = sorted(
        (*(entry["median"] * scale for entry, scale in zip(one["objectives"], scales, strict=True)), name)
        for one in record["front"]
        if None not in [entry["median"] for entry in one["objectives"]]
        for name in [text.settings_text(one["settings"])]
    )
    if points:
        px, py, shown = zip(*points, strict=True)
        line = figures._line(
            1, "Pareto front, with the check seeds", list(px), figures.short(py), "%{x:.4s}, %{y:.4s}<br>%{customdata}"
        )
        traces.append(line | {"mode": "lines+markers", "customdata": list(shown)})
    return figures.plot(traces, *axes)
