"""The top of a sweep's report, one sentence and one table, and the pages of single runs that its points open."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from pauseframe._text import format_count
from pauseframe.sweep import tables
from pauseframe.sweep.compare import SOURCE
from pauseframe.sweep.results import MANIFEST, load_sweep
from pauseframe.sweep.spec import label

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pauseframe.report.data import RunData
    from pauseframe.sweep.compare import Cell, Comparison

DECISIVE = ("query_fct_us.p99", "fct_us.p99", "fct_us.mean", "slowdown.p99")
"""The metrics that answer, best first; without any, the first of the comparison does."""
PAGES = 24
"""Settings whose runs get a page; beyond, a report would take minutes and hundreds of megabytes."""

Setting = tuple[str, ...]


def decisive(comparison: Comparison) -> str | None:
    """The metric that answers; None if none is different from zero."""
    known = comparison.metrics
    return next((metric for metric in DECISIVE if metric in known), known[0] if known else None)


def sentence(comparison: Comparison) -> str:
    """Which variant has the lowest decisive metric how often, and where variants differ most."""
    metric = decisive(comparison)
    if metric is None:
        return "No metric is different from zero."
    rows = [cells for setting in comparison.settings if (cells := _row(comparison, metric, setting))]
    title, form = tables.title(metric), tables.format_value(metric)
    if len(comparison.variants) == 1:
        values = [(one.value.median, one) for cells in rows for one in cells]
        (low, least), (high, most) = min(values, key=_first), max(values, key=_first)
        return f"{title}: {form(low)}{_where(comparison, least)} to {form(high)}{_where(comparison, most)}."
    if len(rows) == 1:
        best, worst = min(rows[0], key=_median), max(rows[0], key=_median)
        if _equal(rows[0]):
            return f"{title} is {form(best.value.median)} with all variants."
        return f"{title} is {_beside(best, worst, form)}."
    wins = Counter(min(cells, key=_median).variant for cells in rows if not _equal(cells))
    same = sum(map(_equal, rows))
    parts = [f"{variant} in {format_count(count)}" for variant, count in wins.most_common(3)]
    lead = f"{title} is lowest with {', '.join(parts)} of {format_count(len(rows))} settings" if parts else title
    equal = f"; in {same} the variants are equal" if same else ""
    return f"{lead}{equal}. {_largest(comparison, metric, rows)}"


def _beside(best: Cell, worst: Cell, form: Callable[[float | None], str]) -> str:
    """The medians of two variants, and whether seeds tell them apart."""
    sure = "" if _apart(best, worst) else ", and their intervals overlap"
    return f"{form(best.value.median)} with {best.variant}, {form(worst.value.median)} with {worst.variant}{sure}"


def _row(comparison: Comparison, metric: str, setting: Setting) -> list[Cell]:
    cells = [comparison.cell(metric, setting, variant) for variant in comparison.variants]
    return [cell for cell in cells if cell is not None]


def _median(cell: Cell) -> float:
    return cell.value.median


def _first(pair: tuple[float, Cell]) -> float:
    return pair[0]


def _equal(cells: list[Cell]) -> bool:
    return min(map(_median, cells)) == max(map(_median, cells))


def _where(comparison: Comparison, cell: Cell) -> str:
    at = ", ".join(f"{axis} = {value}" for axis, value in zip(comparison.axes, cell.setting, strict=True))
    return f" at {at}" if at else ""


def _largest(comparison: Comparison, metric: str, rows: list[list[Cell]]) -> str:
    """The setting in which the variants differ most, by ratio."""

    def factor(cells: list[Cell]) -> float:
        low, high = min(map(_median, cells)), max(map(_median, cells))
        return high / low if low > 0 else (float("inf") if high else 1.0)

    form, cells = tables.format_value(metric), max(rows, key=factor)
    best, worst = min(cells, key=_median), max(cells, key=_median)
    if _equal(cells):
        return f"All variants have {form(best.value.median)}."
    return f"They differ most{_where(comparison, best)}: {_beside(best, worst, form)}."


def _apart(best: Cell, worst: Cell) -> bool:
    """True unless the intervals of two cells overlap, or one has none."""
    high, low = best.value.high, worst.value.low
    return high is not None and low is not None and high < low


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
