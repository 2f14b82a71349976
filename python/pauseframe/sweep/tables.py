"""Formats a comparison for a terminal, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from pauseframe.results.causes import lossless_caution
from pauseframe.results.ideals import ideal_caution
from pauseframe.results.percentiles import explanation, marked, share_of
from pauseframe.sweep.compare import LONG, METRICS, SIZES, long_table
from pauseframe.terminal.text import (
    MISSING,
    UNSEEN,
    format_bytes,
    format_change,
    format_count,
    format_number,
    format_rate,
    format_us,
    is_number,
    terminal_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pauseframe.sweep.compare import Cell, Comparison
    from pauseframe.sweep.statistics import Estimate

DAGGER = "†"
FEW_SEEDS = 5
"""Seeds that a note lists."""
FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\n")
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "µ": r"\textmu{}",
    "×": r"$\times$",
    "–": "--",
    "Δ": r"$\Delta$",
    "†": r"\dag{}",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
}


def title(metric: str) -> str:
    """The common name of a metric."""
    if metric.startswith(LONG) and "." in metric:
        name, _, transport = metric.partition(".")
        return f"{METRICS[name]}, {transport}"
    return METRICS.get(metric, metric)


def format_value(metric: str) -> Callable[[float | None], str]:
    """The number format of a metric."""
    if "_us" in metric:
        return format_us
    if metric.endswith("_bytes"):
        return format_bytes
    if "_bps" in metric:
        return format_rate
    return format_number if "slowdown" in metric else format_count


def format_estimate(one: Estimate | None, form: Callable[[float | None], str]) -> str:
    """An estimate as text: '12.3 ms [11.9 ms, 13 ms]'."""
    if one is None:
        return MISSING
    return form(one.median) + ("" if one.low is None else f" [{form(one.low)}, {form(one.high)}]")


def format_difference(cell: Cell) -> str:
    """The difference from the first variant: relative ('-12.3 % [-14 %, -9.8 %]'), or absolute if the first is zero.

    From a tenfold value on it is a factor ('× 18.6'), and its interval with it.
    """
    if cell.ratio is not None:
        largest = max(cell.ratio.median, cell.ratio.high or 0.0)
        return format_estimate(cell.ratio, _factor if largest >= 10 else _percent)
    form = format_value(cell.metric)
    return format_estimate(cell.difference, lambda value: MISSING if value is None else _signed(value, form))


def format_ratio(ratio: Estimate) -> str:
    """The median of a ratio to the first variant, as `format_difference` writes it."""
    return _factor(ratio.median) if ratio.median >= 10 else _percent(ratio.median)


def _percent(ratio: float | None) -> str:
    return MISSING if ratio is None else format_change(ratio)


def _factor(ratio: float | None) -> str:
    return MISSING if ratio is None else f"× {format_number(ratio)}"


def _signed(value: float, form: Callable[[float | None], str]) -> str:
    return ("+" if value > 0 else "-" if value < 0 else "") + form(abs(value))


def heads(comparison: Comparison) -> list[str]:
    """Headings of the columns of `rows`."""
    first, *others = comparison.variants
    alike = comparison.same_memory
    changes = [column for one in others for column in (one, f"Δ to {first}{'' if alike[one] else ' ' + DAGGER}")]
    return [*comparison.axes, first, *changes]


def blocks(comparison: Comparison) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows of tables: one in all; with other axes, one per metric and one for all flow sizes."""
    if not comparison.axes:
        return [("", ["", *heads(comparison)], rows_by_metric(comparison))]
    result = []
    sizes = [metric for metric in comparison.metrics if metric in SIZES]
    for metric in comparison.metrics:
        if len(sizes) < 2 or metric not in sizes:
            result.append((title(metric), heads(comparison), rows(comparison, metric)))
        elif metric == sizes[0]:
            by_size = [[SIZES[one], *row] for one in sizes for row in rows(comparison, one)]
            result.append(("FCT, p99, by flow size", ["flow size", *heads(comparison)], by_size))
    return result


def rows_by_metric(comparison: Comparison) -> list[list[str]]:
    """One row per metric of a comparison without other axes; the p99 of flow sizes have a common heading."""
    result = []
    sizes = [metric for metric in comparison.metrics if metric in SIZES]
    for metric in comparison.metrics:
        is_size = len(sizes) > 1 and metric in sizes
        if is_size and metric == sizes[0]:
            result.append(["FCT, p99, by flow size", *[""] * len(heads(comparison))])
        result += [[f"  {SIZES[metric]}" if is_size else title(metric), *row] for row in rows(comparison, metric)]
    return result


def rows(comparison: Comparison, metric: str) -> list[list[str]]:
    """One row per setting of the other axes: medians and differences of the variants with their intervals."""
    form = format_value(metric)
    result = []
    for setting in comparison.settings:
        row = list(setting)
        for number, variant in enumerate(comparison.variants):
            cell = comparison.cell(metric, setting, variant)
            row.append(_without_value(comparison, metric, setting, variant) if cell is None else _value(cell, form))
            if number:
                row.append(MISSING if cell is None else _difference(cell))
        result.append(row)
    return result


def _without_value(comparison: Comparison, metric: str, setting: tuple[str, ...], variant: str) -> str:
    """The place of a value that no run has, with the number of unfinished flows, queries or jobs."""
    outcome = comparison.outcomes.get((metric, setting, variant))
    return f"{MISSING} ({format_count(outcome.left)} unfinished)" if outcome is not None and outcome.left else MISSING


def median_text(cell: Cell) -> str:
    """A median without its interval, and the number of unfinished flows."""
    text = format_value(cell.metric)(cell.value.median)
    return f"{text} ({format_count(cell.unfinished)} unfinished)" if cell.unfinished else text


def _value(cell: Cell, form: Callable[[float | None], str]) -> str:
    """A median, marked if it is a percentile with too few samples, and the number of unfinished flows."""
    text = marked(format_estimate(cell.value, form), cell.samples, share_of(cell.metric) or 0.5)
    return f"{text} ({format_count(cell.unfinished)} unfinished)" if cell.unfinished else text


def _difference(cell: Cell) -> str:
    """A difference, with its other possible causes."""
    text = format_difference(cell)
    return f"{text} ({', '.join(cell.causes)})" if cell.causes and cell.difference else text


def note(comparison: Comparison) -> str:
    """Explains the numbers, and the mark of percentiles if one is marked."""
    cells = [cell for metric in comparison.metrics for row in rows(comparison, metric) for cell in row]
    unseen = f"{UNSEEN}: less than 0.05 %." if any(UNSEEN in cell for cell in cells) else ""
    ideals = ideal_caution(comparison.ideals) if any("slowdown" in metric for metric in comparison.metrics) else ""
    parts = [_about_medians(comparison), *_about_seeds(comparison), explanation(cells), unseen, ideals]
    return " ".join(filter(None, parts))


def _about_medians(comparison: Comparison) -> str:
    estimates = [one for cell in comparison.cells for one in (cell.value, cell.difference) if one is not None]
    seeds = _span({cell.value.n for cell in comparison.cells}) if comparison.cells else "0"
    text = f"Medians over {seeds} seed{'' if seeds == '1' else 's'}"
    if comparison.cut_short:
        text = (
            f"{comparison.cut_short} of {comparison.runs} runs left flows unfinished: "
            f"their FCTs look better than they are. {text}"
        )
    if comparison.syns_dropped:
        text = (
            f"SYNs that a marker dropped, not being ECN-capable, in all runs: {comparison.syns_dropped}. Each is sent "
            f"again only after the initial RTO; the warnings of the runs say how to spare them. {text}"
        )
    seedless = {(cell.setting, cell.variant) for cell in comparison.cells if cell.seedless}
    if seedless:
        every = len({(cell.setting, cell.variant) for cell in comparison.cells})
        which = "every row" if len(seedless) == every else f"{len(seedless)} of {every} combinations"
        text = (
            f"The seed changes nothing in {which}: all runs have the same fingerprint, so there is no interval to "
            f"give, and one seed is enough. {text}"
        )
    coverages = [one.coverage for one in estimates if one.low is not None]
    if not coverages:
        return f"{text}." if seedless else f"{text}; an interval needs several."
    wide = f", {min(coverages) * 100:.3g} % where seeds are few" if min(coverages) < comparison.level else ""
    return (
        f"{text} [with the interval of order statistics that has the median with a probability of "
        f"{comparison.level * 100:g} % or more{wide}]. Δ: the same of "
        "the differences between runs of one seed, relative to the first where that is not zero."
    )


def _about_seeds(comparison: Comparison) -> list[str]:
    """Which seeds Δ is over, if not all that the medians are over, and why cells are empty."""
    first, *others = comparison.variants
    apart: dict[str, list[str]] = {}
    part: dict[str, list[str]] = {}
    for variant in others:
        cells = [cell for cell in comparison.cells if cell.variant == variant and cell.first_seeds]
        differ = [cell for cell in cells if set(cell.seeds) != set(cell.first_seeds)]
        where = "" if len(differ) == len(cells) else ", where their seeds differ,"
        if shared := [cell for cell in differ if cell.difference is not None]:
            both = _span({len(set(cell.seeds) & set(cell.first_seeds)) for cell in shared})
            mine, theirs = (_span({len(one) for one in side}) for side in zip(*map(_sides, shared), strict=True))
            text = f"{where} is over the {both} seed{'' if both == '1' else 's'} that both have; the medians are over"
            part.setdefault(f"{text} {theirs} and {mine}", []).append(variant)
        if alone := [cell for cell in differ if cell.difference is None]:
            mine, theirs = map(_seeds, _sides(alone[0]))
            apart.setdefault(f"{where} is empty ({MISSING}): no seed is common (seeds {theirs} and {mine})", []).append(
                variant
            )
    texts = [f"Δ of {_listed(names)} to {first}{text}." for text, names in part.items()]
    texts += [
        f"Δ of {_listed(names)} to {first}{text}, and differences are between runs of one seed: run both with the same "
        "seeds."
        for text, names in apart.items()
    ]
    if any(not cell.first_seeds for cell in comparison.cells if cell.variant != first):
        texts.append(f"Δ is empty ({MISSING}) where {first} has no value.")
    if len(comparison.cells) < len(comparison.metrics) * len(comparison.settings) * len(comparison.variants):
        texts.append(f"A value is missing ({MISSING}) where no finished run has one.")
    return texts


def _sides(cell: Cell) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return cell.seeds, cell.first_seeds


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _span(counts: Collection[int]) -> str:
    """A number, or the range of several."""
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _seeds(seeds: Sequence[int]) -> str:
    """Seeds as text: "1 to 7", or a list of a few.

    >>> _seeds([3, 1, 2]), _seeds([1, 5])
    ('1 to 3', '1, 5')
    """
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered[:FEW_SEEDS])) + (" ..." if len(ordered) > FEW_SEEDS else "")


def caution(comparison: Comparison) -> str:
    """A caution for differences between lossless and lossy variants whose switches have unequal memory, or ""."""
    text = lossless_caution(comparison.conditions)
    return f"{DAGGER} {text}" if text else ""


def effective(comparison: Comparison) -> list[str]:
    """One line per setting of the network that differs between the variants and that no axis sets.

    A table that only some variants have is one line.
    """
    lines: dict[str, list[str]] = {}
    for key, values in comparison.effective:
        table = key.rpartition(".")[0]
        if "" in values and "." in table:
            lines.setdefault(table, ["off" if value == "" else "on" for value in values])
        else:
            lines[key] = [value or "none" for value in values]
    # A table that is off is `false` under its own name.
    lines = {key: values for key, values in lines.items() if not set(values) <= {"none", "false"}}
    return [
        f"{key}: " + ", ".join(f"{value} ({name})" for name, value in zip(comparison.variants, values, strict=True))
        for key, values in lines.items()
    ]


def terminal_tables(comparison: Comparison) -> list[Any]:
    """The tables of `blocks`."""
    tables = []
    for name, columns, lines in blocks(comparison):
        left = len(columns) - len(heads(comparison)) + len(comparison.axes)
        justified = zip(columns, ["left"] * left + ["right"] * (len(columns) - left), strict=True)
        described = [{"header": head, "justify": side, "overflow": "fold"} for head, side in justified]
        tables.append(terminal_table(*described, title=name or None, rows=lines))
    return tables


def csv_text(comparison: Comparison) -> str:
    """Every cell in full precision, one per row; texts are escaped so that no spreadsheet runs them as formulas."""
    table = long_table(comparison)
    text = io.StringIO(newline="")
    heads = list(table[0]) if table else ["metric"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(as_text, heads))
    writer.writerows([as_text(row[head]) for head in heads] for row in table)
    return text.getvalue()


def as_text(value: Any) -> Any:
    """Puts an apostrophe before a text that a spreadsheet would run as a formula; numbers stay unchanged.

    OWASP, "CSV Injection": texts that begin with =, +, -, @, a tab or a line break.

    >>> as_text("=1+2"), as_text("-5"), as_text(-5.0), as_text("10 KB")
    ("'=1+2", '-5', -5.0, '10 KB')
    """
    if not isinstance(value, str) or is_number(value):
        return value
    text = value.replace("\r", "\n")  # the csv module quotes line feeds, but a lone \r only since Python 3.13
    return f"'{text}" if text.startswith(FORMULA_BEGINS) else text


def latex_text(comparison: Comparison) -> str:
    """The tables of `blocks`; the document needs the package booktabs."""
    right = len(heads(comparison)) - len(comparison.axes)
    remarks = "\n".join([*comparison.missing, note(comparison), caution(comparison)]).strip()
    parts = [f"% {line}" for line in remarks.splitlines()]
    for name, names, cells in blocks(comparison):
        parts += [
            rf"\begin{{tabular}}{{{'l' * (len(names) - right)}{'r' * right}}}",
            *([rf"\multicolumn{{{len(names)}}}{{l}}{{{_latex(name)}}} \\"] if name else []),
            r"\toprule",
            " & ".join(map(_latex, names)) + r" \\",
            r"\midrule",
            *(" & ".join(map(_latex, line)) + r" \\" for line in cells),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    return "\n".join(parts)


def _latex(text: str) -> str:
    return "".join(LATEX_SPECIAL.get(character, character) for character in text)
