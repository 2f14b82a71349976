"""The report of a sweep or comparison: a sentence and a table, small multiples over an axis, pages of single runs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pauseframe.files.atomic import write_text
from pauseframe.report import figures
from pauseframe.report.html import render
from pauseframe.report.inline import in_frame
from pauseframe.report.sweep_answer import decisive, sentence
from pauseframe.sweep import tables
from pauseframe.sweep.compare import SOURCE, compare
from pauseframe.sweep.results import MANIFEST, load_sweep
from pauseframe.sweep.spec import label
from pauseframe.terminal.text import is_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Figure, Trace
    from pauseframe.report.inline import InlinePage
    from pauseframe.sweep.compare import Cell, Comparison

MULTIPLE = 210
"""Height of a figure among others of its kind, in pixels."""
FEW = 6
"""Number of values of an axis up to which each has its tick."""
LOG_FROM = 30
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""

PAGES = 24
"""Settings whose runs get a page; beyond, a report would take minutes and hundreds of megabytes."""

Setting = tuple[str, ...]


def build_sweep_report(comparison: Comparison, out: Path) -> Path:
    """Writes the report of a comparison to the file `out` and returns its path.

    The report is one file that works offline. Its points open pages of their runs, which stand beside it.
    """
    links = write_pages(comparison, out)
    items = figures.Figures()
    main = decisive(comparison)
    metrics = [_metric(comparison, metric, links, items.add) for metric in comparison.metrics]
    sweeps = [load_sweep(folder) for folder in comparison.folders if (folder / MANIFEST).is_file()]
    html = render(
        "sweep.html.j2",
        items,
        title=", ".join(folder.resolve().name for folder in comparison.folders[:3]),
        comparison=comparison,
        sentence=sentence(comparison),
        main=next((one for one in metrics if one["name"] == main), None),
        heads=tables.heads(comparison),
        together=None if comparison.axes else tables.rows_by_metric(comparison),
        note=tables.note(comparison),
        caution=tables.caution(comparison),
        parts=_parts(comparison),
        metrics=metrics,
        sweeps=sweeps,
        opened=len(links),
        settings=len(comparison.settings),
    )
    return write_text(out, html)


def _parts(comparison: Comparison) -> str:
    """How figures show variants that left work unfinished, if one did."""
    if not any(outcome.left for outcome in comparison.outcomes.values()):
        return ""
    return "Hollow points are times of a part, beside unfinished flows, queries or jobs; such a variant has no bar."


def _metric(
    comparison: Comparison, metric: str, links: dict[tuple[str, ...], str], add: Callable[[Figure], int]
) -> dict[str, Any]:
    """What a page shows of a metric: titles and numbers of figures, and the rows of its table."""
    values = multiples(comparison, metric, relative=False, links=links)
    for _, figure in values:
        figure["height"] = MULTIPLE
    return {
        "name": metric,
        "title": tables.title(metric),
        "values": [(name, add(figure)) for name, figure in values],
        "heat": [(name, add(figure)) for name, figure in heat_maps(comparison, metric)],
        "ratios": [(name, add(figure)) for name, figure in multiples(comparison, metric, relative=True)],
        "rows": tables.rows(comparison, metric),
    }


def plot_sweep(folder: Path, metric: str) -> InlinePage:
    """The medians of a metric over the axes of a sweep."""
    comparison = compare([folder], metrics=[metric])
    panels = multiples(comparison, metric, relative=False)
    return in_frame(panels, ". ".join([tables.title(metric), *comparison.missing]))


def multiples(
    comparison: Comparison, metric: str, *, relative: bool, links: dict[tuple[str, ...], str] | None = None
) -> list[tuple[str, Figure]]:
    """A figure for every setting of the axes other than the x axis, all with the same y axis.

    `relative` shows ratios to the first variant, if available. `links` are the pages that points open, by setting.
    """
    x_name = _x_axis(comparison)
    others = [axis for axis in comparison.axes if axis != x_name]
    names = list(comparison.axes)
    panels: dict[tuple[str, ...], list[Cell]] = {}
    for cell in comparison.cells:
        if cell.metric == metric and (not relative or cell.ratio is not None):
            key = tuple(cell.setting[names.index(axis)] for axis in others)
            panels.setdefault(key, []).append(cell)
    result = []
    for key, cells in panels.items():
        caption = ", ".join(f"{axis} = {value}" for axis, value in zip(others, key, strict=True))
        result.append((caption, _panel(comparison, metric, cells, x_name, relative, links or {})))
    _share_range([figure for _, figure in result], relative)
    return result


def _x_axis(comparison: Comparison) -> str | None:
    """The axis with the most values; numeric axes take precedence."""
    axes = comparison.axes
    return max(axes, key=lambda axis: (all(map(is_number, axes[axis])), len(axes[axis])), default=None)


def _panel(
    comparison: Comparison,
    metric: str,
    cells: list[Cell],
    x_name: str | None,
    relative: bool,
    links: dict[tuple[str, ...], str],
) -> Figure:
    if x_name is None or len(comparison.axes[x_name]) == 1:
        return _bars(comparison, metric, cells, relative, links)
    categories, place = comparison.axes[x_name], list(comparison.axes).index(x_name)
    numeric = all(map(is_number, categories))
    _, suffix = _unit(metric, relative)
    places = [float(one) for one in categories] if numeric else list(map(float, range(len(categories))))
    step = min((abs(b - a) for a, b in itertools.pairwise(sorted(places)) if a != b), default=1.0)
    traces: list[Trace] = []
    for number, variant in enumerate(comparison.variants):
        mine = [cell for cell in cells if cell.variant == variant]
        if not mine:
            continue
        x = [cell.setting[place] for cell in mine]
        # Points are shifted sideways, so that no interval hides another.
        aside = (number - (len(comparison.variants) - 1) / 2) * min(0.08, 0.6 / len(comparison.variants)) * step
        trace = _trace(
            number, variant, [places[categories.index(value)] + aside for value in x], mine, metric, relative
        )
        traces.append(trace | {"customdata": x, "links": [links.get(cell.setting, "") for cell in mine]})
    x_axis: figures.Axis = {"title": x_name}
    if numeric and len(places) <= FEW:
        x_axis |= {"tickvals": places, "ticktext": categories}
    elif not numeric:
        x_axis |= {"tickvals": places, "ticktext": categories, "range": [-0.5, len(categories) - 0.5]}
    return figures.plot(traces, x_axis, _y_axis(metric, suffix), {"ends": True})


def _bars(
    comparison: Comparison, metric: str, cells: list[Cell], relative: bool, links: dict[tuple[str, ...], str]
) -> Figure:
    """A bar for each variant, where the x axis would have one value: one dot a run is no figure.

    A variant that left work unfinished has no bar, which would rank it by the times of a part.
    """
    _, suffix = _unit(metric, relative)
    traces: list[Trace] = []
    outcomes = {name: comparison.outcomes.get((metric, cells[0].setting, name)) for name in comparison.variants}
    titles = {
        name: f"{name} ({one.unfinished} unfinished)" if one and one.left else name for name, one in outcomes.items()
    }
    for cell in cells:
        if cell.unfinished:
            continue
        trace = _trace(comparison.variants.index(cell.variant), cell.variant, [cell.variant], [cell], metric, relative)
        trace |= {"type": "bar", "customdata": [cell.variant], "links": [links.get(cell.setting, "")]}
        traces.append(trace)
    x_axis: figures.Axis = {"title": comparison.by, "type": "category", "categoryarray": list(titles.values())}
    return figures.plot(traces, x_axis, _y_axis(metric, suffix), {"barmode": "stack", "showlegend": False})


def _y_axis(metric: str, suffix: str) -> figures.Axis:
    return {"rangemode": "tozero", "ticksuffix": suffix, "title": tables.title(metric)}


def _unit(metric: str, relative: bool) -> tuple[float, str]:
    """Scale factor of the values in a plot, and the resulting unit."""
    if relative:
        return 1.0, "×"
    if "_us" in metric:
        return 1e-6, "s"
    return 1.0, "B" if "_bytes" in metric else "b/s" if "_bps" in metric else ""


def _trace(number: int, variant: str, x: list[Any], cells: list[Cell], metric: str, relative: bool) -> Trace:
    """The medians of a variant with their intervals."""
    scale, suffix = _unit(metric, relative)
    pairs = [(cell, one) for cell in cells if (one := cell.ratio if relative else cell.value) is not None]
    estimates = [one for _, one in pairs]
    y = figures.short([one.median * scale for one in estimates])
    hover = (f"%{{y:.4s}}{suffix}" if suffix != "×" else "× %{y:.3~g}") + "<br>at %{customdata}"
    trace = figures._line(number, variant, x, y, hover)
    return trace | {
        "mode": "lines+markers",
        "marker": figures.greyed([cell.is_unsure for cell, _ in pairs]) | _hollow([cell for cell, _ in pairs]),
        "cliponaxis": False,  # draws the whole dot of a median of 0
        "error_y": figures.error_bars(estimates, scale),
    }


def _hollow(cells: list[Cell]) -> dict[str, Any]:
    """Hollow points for times of a part."""
    symbols = ["circle-open" if cell.unfinished else "" for cell in cells]
    return {"symbol": symbols} if any(symbols) else {}


def heat_maps(comparison: Comparison, metric: str) -> list[tuple[str, Figure]]:
    """Heat maps of medians over the two longest axes, one for each variant and setting of the other axes."""
    names = list(comparison.axes)
    x_name = _x_axis(comparison)
    others = [axis for axis in names if axis != x_name and len(comparison.axes[axis]) > 1]
    if x_name is None or not others:
        return []
    y_name = max(others, key=lambda axis: len(comparison.axes[axis]))
    rest = [axis for axis in names if axis not in (x_name, y_name)]
    panels: dict[tuple[str, ...], dict[tuple[str, str], Cell]] = {}
    for cell in comparison.cells:
        if cell.metric == metric:
            at = dict(zip(names, cell.setting, strict=True))
            key = (cell.variant, *(at[axis] for axis in rest))
            panels.setdefault(key, {})[at[x_name], at[y_name]] = cell
    top = max((cell.value.median for grid in panels.values() for cell in grid.values()), default=0.0)
    return [
        (
            ", ".join([key[0], *(f"{axis} = {value}" for axis, value in zip(rest, key[1:], strict=True))]),
            _heat_map(comparison, metric, (x_name, y_name), grid, top),
        )
        for key, grid in panels.items()
    ]


def _heat_map(
    comparison: Comparison, metric: str, axes: tuple[str, str], grid: dict[tuple[str, str], Cell], top: float
) -> Figure:
    columns, rows = (comparison.axes[axis] for axis in axes)
    form = tables.format_value(metric)
    cells = [[grid.get((x, y)) for x in columns] for y in rows]
    trace: Trace = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": [figures.short([None if cell is None else cell.value.median for cell in row]) for row in cells],
        "text": [[form(None) if cell is None else tables.median_text(cell) for cell in row] for row in cells],
        "texttemplate": "%{text}",
        "zmin": 0,
        "zmax": top or 1,
        "showscale": False,
        "hovertemplate": f"{axes[0]} = %{{x}}<br>{axes[1]} = %{{y}}<br>%{{text}}<extra></extra>",
    }
    y_axis: figures.Axis = {"title": axes[1], "type": "category", "automargin": True}
    return figures.plot([trace], {"title": axes[0], "type": "category"}, y_axis, height=110 + 34 * len(rows))


def _share_range(panels: list[Figure], relative: bool) -> None:
    """Gives all figures the same y axis, which is logarithmic if one interval would flatten the others."""
    lines = [(trace["y"], trace["error_y"]) for panel in panels for trace in panel["data"]]
    tops = [y + error for values, errors in lines for y, error in zip(values, errors["array"], strict=True)]
    lows = [y - error for values, errors in lines for y, error in zip(values, errors["arrayminus"], strict=True)]
    top, low = max([*tops, 1.0 if relative else 0.0], default=0), min(lows, default=0)
    for panel in panels:
        has_bars = any(trace["type"] == "bar" for trace in panel["data"])  # a bar begins at zero
        if 0 < LOG_FROM * low < top and not has_bars:
            panel["layout"]["yaxis"] |= {"type": "log", "span": [low, top]}
        elif top > 0:
            panel["layout"]["yaxis"]["range"] = [0, top * 1.05]


def write_pages(comparison: Comparison, out: Path) -> dict[Setting, str]:
    """Writes a report of the runs of each setting beside the report `out`, all variants of the first common seed.

    Returns their paths relative to the folder of `out`; at most `PAGES` settings have one.
    """
    from pauseframe.report.build import Group, build_report

    links: dict[Setting, str] = {}
    for number, (setting, runs) in enumerate(_runs(comparison).items()):
        if number == PAGES:
            break
        at = ", ".join(f"{axis} = {value}" for axis, value in zip(comparison.axes, setting, strict=True))
        page = out.parent / f"{out.stem}.runs" / f"{number + 1}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        build_report([Group("", runs)], page, title=f"{at or comparison.by}, seed {runs[0].summary['seed']}")
        links[setting] = quote(f"{page.parent.name}/{page.name}")
    return links


def _runs(comparison: Comparison) -> dict[Setting, list[RunData]]:
    """For each setting the runs of its variants with the smallest seed that all of them have."""
    from dataclasses import replace

    from pauseframe.report.data import from_run

    found: dict[Setting, dict[int, dict[str, tuple[int, int]]]] = {}
    sweeps = [load_sweep(folder) for folder in comparison.folders if (folder / MANIFEST).is_file()]
    for which, sweep in enumerate(sweeps):
        for place, row in enumerate(sweep.finished):
            at = {axis: label(value) for axis, value in row["axes"].items()} | {SOURCE: sweep.folder.name}
            setting = tuple(at[axis] for axis in comparison.axes)
            found.setdefault(setting, {}).setdefault(row["seed"], {})[at[comparison.by]] = (which, place)
    result: dict[Setting, list[RunData]] = {}
    for setting, seeds in found.items():
        most = max(map(len, seeds.values()))
        runs = next(runs for _, runs in sorted(seeds.items()) if len(runs) == most)
        ordered = [variant for variant in comparison.variants if variant in runs]
        loaded = [
            (variant, sweeps[which].load(sweeps[which].finished[place]))
            for variant in ordered
            for which, place in [runs[variant]]
        ]
        result[setting] = [replace(from_run(run), label=variant) for variant, run in loaded]
    return result
