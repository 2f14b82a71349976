"""The sentence at the top of the report of a sweep or comparison: which variant is best, and what did not finish.

Variants that left work unfinished under a setting have no rank there. Whether seeds tell two variants apart follows
from the differences of exactly these two, seed by seed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pauseframe.results.ranking import Outcome
from pauseframe.sweep import tables
from pauseframe.sweep.compare import LONG, is_time
from pauseframe.terminal.text import format_count, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pauseframe.sweep.compare import Cell, Comparison
    from pauseframe.sweep.statistics import Estimate

Setting = tuple[str, ...]

DECISIVE = ("job_time_us", "query_fct_us.p99", "fct_us.p99", "fct_us.mean", "slowdown.p99", "long_goodput_bps")
"""The metrics that answer, best first; without any, the first of the comparison does."""


def decisive(comparison: Comparison) -> str | None:
    """The metric that answers; None if none is different from zero."""
    known = comparison.metrics
    return next((metric for metric in DECISIVE if metric in known), known[0] if known else None)


def sentence(comparison: Comparison) -> str:
    """Which variant has the best decisive metric how often, where variants differ most, and what is unfinished."""
    metric = decisive(comparison)
    if metric is None:
        return "No metric is different from zero."
    settings = list(dict.fromkeys(setting for name, setting, _ in comparison.outcomes if name == metric))
    rows = [_row(comparison, metric, setting) for setting in settings]
    if not any(rows):
        lead = f"{tables.title(metric)} ranks no variant: none finished everything{_in_any(settings)}."
    elif len(comparison.variants) == 1:
        lead = _span(comparison, metric, rows)
    elif len(rows) == 1:
        lead = _one_setting(comparison, metric, rows[0])
    else:
        lead = _many_settings(comparison, metric, rows)
    return " ".join([lead, *_without_rank(comparison, metric, settings)])


def _row(comparison: Comparison, metric: str, setting: Setting) -> list[Cell]:
    """The cells of variants that finished everything under a setting, or nearly so."""
    keys = [(metric, setting, variant) for variant in comparison.variants]
    ranked = [key for key in keys if (outcome := comparison.outcomes.get(key)) is None or outcome.is_ranked]
    return [cell for key in ranked if (cell := comparison.cell(*key)) is not None]


def _in_any(settings: Sequence[Setting]) -> str:
    return " under any setting" if len(settings) > 1 else ""


def _without_rank(comparison: Comparison, metric: str, settings: Sequence[Setting]) -> list[str]:
    """Sentences about variants that left work unfinished, or have no value, under some of the settings."""
    result = []
    every = comparison.runs > len({key[1:] for key in comparison.outcomes if key[0] == metric})
    for variant in comparison.variants:
        found = [comparison.outcomes.get((metric, setting, variant)) for setting in settings]
        lacking = [one for one in found if one is not None and not one.is_ranked]
        few = [one for one in found if one is not None and one.is_ranked and one.left]
        if few and not lacking:
            total = Outcome(None, sum(one.done for one in few), sum(one.left for one in few), few[0].what)
            result.append(f"{_named(comparison, variant)} left {total.unfinished} unfinished.")
        if not lacking:
            continue
        where = f", in {format_count(len(lacking))} of {format_count(len(settings))} settings" if settings[1:] else ""
        if is_time(metric) and any(one.left for one in lacking):
            name = _named(comparison, variant)
            total = Outcome(None, sum(one.done for one in lacking), sum(one.left for one in lacking), lacking[0].what)
            result.append(f"{name} {total.finished}{' of all seeds' if every else ''}{where}.")
        else:
            result.append(f"{_named(comparison, variant)} has no value{where}.")
    return result


def _span(comparison: Comparison, metric: str, rows: list[list[Cell]]) -> str:
    """The lowest and the highest median of the only variant."""
    form, cells = tables.format_value(metric), sorted((cell for row in rows for cell in row), key=_median)
    low, high = (f"{form(_median(one))}{_where(comparison, one)}" for one in (cells[0], cells[-1]))
    return f"{tables.title(metric)}: {low} to {high}."


def _one_setting(comparison: Comparison, metric: str, cells: list[Cell]) -> str:
    """The best and the worst variant of the only setting."""
    title, value = tables.title(metric), tables.format_value(metric)(_median(cells[0]))
    names = [_named(comparison, cell.variant) for cell in cells]
    if len(cells) == 1:
        only = "that finished everything" if is_time(metric) else "with a value"
        return f"{title} is {value} with {names[0]}, the only variant {only}."
    if _equal(cells):
        return (
            f"{title} is {value} with {'all variants' if len(cells) == len(comparison.variants) else _listed(names)}."
        )
    return f"{title} is {_beside(comparison, cells)}."


def _many_settings(comparison: Comparison, metric: str, rows: list[list[Cell]]) -> str:
    """Which variant is best how often; the only variant that finished everything is the best of its setting."""
    best_of, extreme = (max, "highest") if metric.startswith(LONG) else (min, "lowest")
    told_apart = [cells for cells in rows if cells and not _equal(cells)]
    wins = Counter(_winners(comparison, cells, best_of(map(_median, cells))) for cells in told_apart)
    parts = [f"{variant} in {format_count(count)}" for variant, count in wins.most_common(3)]
    title, count = tables.title(metric), format_count(len(rows))
    lead = f"{title} is {extreme} with {', '.join(parts)} of {count} settings" if parts else title
    lead += _surely(comparison, rows, best_of)
    same, none = sum(map(_equal, rows)), sum(not cells for cells in rows)
    equal = f"; in {format_count(same)} the variants are equal" if same else ""
    equal += f"; in {format_count(none)} no variant finished everything" if none else ""
    compared = [cells for cells in rows if len(cells) > 1]
    return " ".join([f"{lead}{equal}.", *([_largest(comparison, metric, compared)] if compared else [])])


def _surely(comparison: Comparison, rows: list[list[Cell]], best_of: Callable[..., Cell]) -> str:
    """In how many settings the seeds tell the best variant from all others, if not in all; "" for single seeds."""
    if any(cell.value.low is None for cells in rows for cell in cells):
        return ""
    bests = [(best_of(cells, key=_median), cells) for cells in rows if cells and not _equal(cells)]
    clear = sum(
        all(_differ(one, other, comparison.level) for other in cells if other is not one) for one, cells in bests
    )
    return "" if clear == len(bests) else f"; the seeds confirm {format_count(clear)} of them"


def _differ(one: Cell, other: Cell, level: float) -> bool:
    """True if the differences seed by seed exclude zero; without a common seed, if the two intervals do not overlap."""
    difference, _ = one.beside(other, level)
    if difference is None:
        return _apart(*sorted((one, other), key=_median))
    if difference.low is None or difference.high is None:
        return difference.median != 0
    return not difference.low <= 0 <= difference.high


def _beside(comparison: Comparison, cells: list[Cell]) -> str:
    """The lowest and highest median, their variants, and whether seeds tell them apart."""
    form, (best, worst) = tables.format_value(cells[0].metric), _extremes(cells)
    low, high = (f"{form(_median(one))} with {_named(comparison, one.variant)}" for one in (best, worst))
    if best.value.low is None or worst.value.low is None:
        sure = "" if best.seedless and worst.seedless else ", with one seed, which shows no interval"
    else:
        sure = "" if _differ(best, worst, comparison.level) else ", and the seeds do not tell them apart"
    ratio, base = _ratio(comparison, best, worst)
    to = "" if base == comparison.variants[0] else f" to {base}"
    by_seed = "" if ratio is None or ratio.low is None else f" ({tables.format_ratio(ratio)}{to} seed by seed)"
    return f"{low}, {high}{by_seed}{sure}"


def _extremes(cells: list[Cell]) -> tuple[Cell, Cell]:
    """The cells with the lowest and the highest median, two different ones."""
    ordered = sorted(cells, key=_median)
    return ordered[0], ordered[-1]


def _ratio(comparison: Comparison, one: Cell, other: Cell) -> tuple[Estimate | None, str]:
    """The ratio of two cells seed by seed to the one whose variant comes first, and that variant."""
    base, later = sorted((one, other), key=lambda cell: comparison.variants.index(cell.variant))
    return later.beside(base, comparison.level)[1], base.variant


def _named(comparison: Comparison, variant: str) -> str:
    """The variant; a bare number has the name of its axis."""
    return f"{comparison.by} = {variant}" if is_number(variant) else variant


def _winners(comparison: Comparison, cells: list[Cell], best: float) -> str:
    """The variants that have the best median."""
    return _listed([_named(comparison, cell.variant) for cell in cells if _median(cell) == best])


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _median(cell: Cell) -> float:
    return cell.value.median


def _equal(cells: list[Cell]) -> bool:
    """True if several variants have one median."""
    return len(cells) > 1 and min(map(_median, cells)) == max(map(_median, cells))


def _where(comparison: Comparison, cell: Cell) -> str:
    at = ", ".join(f"{axis} = {value}" for axis, value in zip(comparison.axes, cell.setting, strict=True))
    return f" at {at}" if at else ""


def _largest(comparison: Comparison, metric: str, rows: list[list[Cell]]) -> str:
    """The setting in which the best and the worst variant differ most, by ratios seed by seed where they are known."""

    def factor(cells: list[Cell]) -> float:
        best, worst = _extremes(cells)
        ratio, _ = _ratio(comparison, best, worst)
        if ratio is not None and ratio.median > 0:
            return max(ratio.median, 1 / ratio.median)
        low, high = _median(best), _median(worst)
        return high / low if low > 0 else (float("inf") if high else 1.0)

    cells = max(rows, key=factor)
    if all(map(_equal, rows)):
        return f"All variants have {tables.format_value(metric)(_median(cells[0]))}."
    return f"They differ most{_where(comparison, cells[0])}: {_beside(comparison, cells)}."


def _apart(best: Cell, worst: Cell) -> bool:
    """True unless the intervals of two cells overlap, or one has none."""
    high, low = best.value.high, worst.value.low
    return high is not None and low is not None and high < low
