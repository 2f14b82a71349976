"""The answer on a terminal."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from pauseframe.sweep.spec import label as plain_label
from pauseframe.terminal.text import (
    MISSING,
    counted,
    format_change,
    format_count,
    format_duration,
    format_number,
    terminal_table,
)
from pauseframe.tune.answer import KEEP_DEFAULT, NOTHING_KEEPS, NOTHING_MEASURED
from pauseframe.tune.metrics import format_metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

SHOWN_FRONT = 8
LARGE_RATIO = 3.0
"""Ratio above which ratios replace percentages."""


def objective_form(record: dict[str, Any], number: int) -> Any:
    """The number format of an objective, which is a ratio if there are several scenarios."""
    if len(record["scenarios"]) > 1:
        return lambda value: MISSING if value is None else f"× {format_number(value)}"
    return format_metric(record["objectives"][number]["metric"])


def objective_title(record: dict[str, Any], number: int) -> str:
    """Direction and metric of an objective, as text."""
    one = record["objectives"][number]
    ratio = ", worst ratio over the scenarios" if len(record["scenarios"]) > 1 else ""
    return f"{'highest' if one['maximize'] else 'lowest'} {one['metric']}{ratio}"


def with_interval(one: dict[str, Any], form: Any) -> str:
    """A value with its interval: '1.2 ms [1.1 ms, 1.3 ms]'."""
    if one["median"] is None:
        return "none"
    low, high = one["confidence"]["low"], one["confidence"]["high"]
    ends = "" if low is None or high is None else f" [{form(low)}, {form(high)}]"
    return f"{form(one['median'])}{ends}"


def prediction_text(one: dict[str, Any], form: Any) -> str:
    """A prediction interval: '1 ms to 1.4 ms'."""
    low, high = one["prediction"]["low"], one["prediction"]["high"]
    if low is None or high is None:  # a run without a value counts as infinitely bad
        return "none" if low is high else f"{form(low)} or more" if high is None else f"{form(high)} or less"
    return form(low) if form(low) == form(high) else f"{form(low)} to {form(high)}"


def relative(one: dict[str, Any] | None) -> str:
    """A relative difference: '+12 % [+9 %, +15 %]', or for large ratios '× 34 [× 27, × 57]'."""
    if one is None or one["median"] is None:
        return MISSING

    large = max(one["median"], one["confidence"]["high"] or 0) >= LARGE_RATIO

    def percent(ratio: float) -> str:
        return f"× {ratio:.3g}" if large else format_change(ratio)

    low, high = one["confidence"]["low"], one["confidence"]["high"]
    ends = "" if low is None else f" [{percent(low)}, {percent(high)}]"
    return percent(one["median"]) + ends


def label(value: Any) -> str:
    """A value as in a scenario; of one segment or packet in the singular, which scenarios take too."""
    return re.sub(r"^(1 (?:segment|packet))s$", r"\1", plain_label(value))


def settings_text(settings: dict[str, Any]) -> str:
    """Settings as text: 'switch.marker.k = 22.5 KB, ...'."""
    return ", ".join(f"{path} = {label(value)}" for path, value in settings.items()) or "as in the file"


def kept_text(one: dict[str, Any]) -> str:
    """States whether a setting meets the constraints, and in how many seeds."""
    if one["refused"]:
        return f"refused: {one['refused']}"
    failed = [f"{counted(one['failed'], 'run')} failed"] if one["failed"] else []
    broken = [f"{entry['constraint']}: broken in {entry['broken']}" for entry in one["constraints"] if entry["broken"]]
    seeds = f" of {counted(one['seeds'], 'seed')}" if broken else ""
    return "; ".join([*failed, *broken]) + seeds or f"kept in {counted(one['seeds'], 'seed')}"


def verdict_text(record: dict[str, Any]) -> str:
    """The answer in a sentence or two."""
    verdict, share = record["verdict"], record["constraint_share"]
    if verdict == NOTHING_MEASURED:
        why: str = record["notes"][0]
        return f"{why[:1].upper()}{why[1:]}."
    if verdict == NOTHING_KEEPS:
        limits = " and ".join(record["constraints"]) or "the end of its runs"
        found = f"No setting was shown to keep {limits} in {share * 100:g} % of all seeds."
        if nearest := record["nearest"]:
            kept = 1 - nearest["broken"] / nearest["seeds"]
            worst = [f"{one['constraint']}: {_plain(one['worst'])} at worst" for one in nearest["constraints"]]
            found += (
                f" The nearest, {settings_text(nearest['settings'])}, keeps it in {kept * 100:.3g} % of "
                f"{counted(nearest['seeds'], 'seed')} ({', '.join(worst)}). Widen the ranges or relax the constraint."
            )
        return found
    if verdict == KEEP_DEFAULT:
        found = "Keep the default: no setting is clearly better."
        best = next((one for one in record["references"] if one["name"] == "best found"), None)
        if best is not None:
            parts = [f"{relative(one['ratio'])} in {one['metric']}" for one in best["objectives"]]
            found += f" The best other one, {settings_text(best['settings'])}, differs by {', '.join(parts)}."
        return found
    return f"Recommended: {settings_text(record['recommended']['settings'])}."


def _plain(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def interval_text(record: dict[str, Any]) -> str:
    """A sentence that explains the numbers in brackets."""
    seeds = record["seeds"]["held_out"]
    objectives = record["recommended"]["objectives"]
    level = max(one["confidence"]["level"] for one in objectives)
    brackets = f", [with the {level * 100:.3g} % confidence interval of the median]" if level else ""
    prediction = objectives[0]["prediction"]
    return (
        f"Medians over {len(seeds)} held-out seeds ({seeds[0]} to {seeds[-1]}), which the search has not used"
        f"{brackets}. The prediction interval is the range of the held-out seeds: one further seed lies in it with a "
        f"probability of {prediction['covers_one'] * 100:.3g} %, at least 18 of 20 with "
        f"{prediction['covers_18_of_20'] * 100:.3g} %."
    )


def safety_text(record: dict[str, Any]) -> str:
    """A sentence about the constraints on held-out seeds, with the share of all seeds that they show."""
    chosen = record["recommended"]
    count, broken, shown = chosen["seeds"], chosen["broken"], chosen["shown_share"]
    limits = ", ".join(record["constraints"]) or "no constraint on a metric"
    checks = "; ".join(record["checked_before_runs"])
    kept = "every run came to its end"
    if record["constraints"] or broken:
        kept = (
            f"kept in {count - broken} of {count} held-out seeds: with 95 % confidence at least "
            f"{math.floor(shown * 1000) / 10:g} % of seeds keep it ({record['constraint_share'] * 100:g} % are wanted)"
        )
    return f"{limits}: {kept}. Checked before every run: {checks}."


def cost_text(record: dict[str, Any]) -> str:
    """A sentence about the cost of the search."""
    cost = record["cost"]
    states = [trial["state"] for trial in record["trials"]]
    by_state = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return (
        f"{counted(len(states), 'setting')} ({by_state}), {counted(round(cost['runs']), 'run')}, "
        f"{format_count(round(cost['computed']))} of them computed now; "
        f"{format_duration(cost['wall_s'])}, of which {format_duration(cost['search_s'])} for the search itself"
    )


def slack_text(one: dict[str, Any]) -> str:
    """The range of a parameter, as text."""
    if one["low"] is None:
        return " or ".join(label(value) for value in one["good"])
    low = f"{label(one['low'])}{' or less' if one['open_low'] else ''}"
    high = f"{label(one['high'])}{' or more' if one['open_high'] else ''}"
    return f"{low} to {high}"


def answer_text(record: dict[str, Any]) -> str:
    """The sentence above a page with a recommendation: the setting, and what it gives for the first objective."""
    best = record["recommended"]
    if record["verdict"] == KEEP_DEFAULT:
        return verdict_text(record)
    form = objective_form(record, 0)
    default = next((one for one in record["references"] if one["name"] == "default" and one["objectives"]), None)
    beside = "" if default is None else f", and {with_interval(default['objectives'][0], form)} as the scenario stands"
    ratio = "the worst ratio of " if len(record["scenarios"]) > 1 else ""
    gives = f"{ratio}{record['objectives'][0]['metric']} is {with_interval(best['objectives'][0], form)}"
    return f"Set {settings_text(best['settings'])}: {gives}{beside}."


def short_name(record: dict[str, Any]) -> str:
    """The name of the setting that others are compared with: "recommended" or "default"."""
    return "default" if record["verdict"] == KEEP_DEFAULT else "recommended"


def ranges(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The ranges of the parameters around the recommended setting; none if they were measured around another."""
    shown = record["recommended"]["settings"]
    return [one for one in record["sensitivity"] if shown.get(one["path"]) == one["value"]]


def tables(record: dict[str, Any]) -> list[Table]:
    """The recommended setting, the references, the sensitivity, and the front."""
    found = [_recommended(record), *(_beside(record, number) for number in range(len(record["objectives"])))]
    if record["sensitivity"]:
        found.append(_sensitivity(record))
    if len(record["front"]) > 1:
        found.append(_front(record))
    return found


def lines(record: dict[str, Any]) -> list[str]:
    """Notes below the tables."""
    found = [
        verdict_text(record),
        interval_text(record),
        safety_text(record),
        *(f"note: {note}" for note in record["notes"]),
    ]
    if record["decisive"]:
        found.append("Runs that decided:")
        found += [f"  {one['command']}   # {one['why']}, seed {one['seed']}" for one in record["decisive"]]
    return [*found, cost_text(record)]


def _table(title: str, heads: list[str], rows: Iterable[Sequence[str]]) -> Table:
    sides = ["left", *["right"] * (len(heads) - 1)]
    columns = [{"header": head, "justify": side, "overflow": "fold"} for head, side in zip(heads, sides, strict=True)]
    return terminal_table(*columns, title=title, rows=rows)


def _recommended(record: dict[str, Any]) -> Table:
    chosen = record["recommended"]
    starts = {one["path"]: one for one in ranges(record)}
    bounds = {one["path"]: f"{one['role'].replace('_', ' ')}: {one['source']}" for one in record["bounds"]}
    rows = [
        (path, label(value), slack_text(starts[path]) if path in starts else MISSING, bounds.get(path, MISSING))
        for path, value in chosen["settings"].items()
    ]
    title = "Keep the default" if record["verdict"] == KEEP_DEFAULT else "Recommended"
    return _table(title, ["key", "value", f"within {record['tolerance'] * 100:g} % from", "bounded by"], rows)


def _beside(record: dict[str, Any], number: int) -> Table:
    form = objective_form(record, number)
    heads = ["setting", "median", "prediction interval", f"to the {short_name(record)}", "constraints"]
    rows = []
    for one in [record["recommended"], *record["references"]]:
        row = [MISSING] * 3
        if one["objectives"]:
            entry = one["objectives"][number]
            row = [with_interval(entry, form), prediction_text(entry, form), relative(entry["ratio"])]
        rows.append((one["name"], *row, kept_text(one)))
    return _table(f"On held-out seeds: {objective_title(record, number)}", heads, rows)


def _sensitivity(record: dict[str, Any]) -> Table:
    rows = [
        (one["path"], label(one["value"]), slack_text(one), ", ".join(map(_point, one["points"])))
        for one in record["sensitivity"]
    ]
    return _table(
        f"Range of each parameter in which no objective worsens by {record['tolerance'] * 100:g} %, the others kept, "
        f"around {record['around']}",
        ["key", "value", "range", "measured: value (worst objective)"],
        rows,
    )


def _point(one: dict[str, Any]) -> str:
    ratios = [ratio for ratio in one["ratios"] if ratio is not None]
    if not one["kept"] or len(ratios) < len(one["ratios"]) or not ratios:
        why = "refused" if not one["ratios"] else one["why"] or "no value"
        return f"{label(one['value'])} ({why})"
    worst = (max(ratios) - 1) * 100
    size = f"{abs(worst):.0f}" if abs(worst) >= 10 else f"{abs(worst):.2g}"
    change = f"{size} % {'worse' if worst > 0 else 'better'}" if worst else "equal"
    return f"{label(one['value'])} ({change})"


def _front(record: dict[str, Any]) -> Table:
    heads = [objective_title(record, number) for number in range(len(record["objectives"]))]
    forms = [objective_form(record, number) for number in range(len(heads))]
    rows = [
        (settings_text(one["settings"]), *map(with_interval, one["objectives"], forms))
        for one in record["front"][:SHOWN_FRONT]
    ]
    return _table("Pareto front, on the seeds of search and choice", ["setting", *heads], rows)
