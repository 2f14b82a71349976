"""The answer on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe._text import MISSING, format_duration, format_number, terminal_table
from pauseframe.sweep.spec import label
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

    large = one["median"] >= LARGE_RATIO

    def percent(ratio: float) -> str:
        return f"× {ratio:.3g}" if large else f"{(ratio - 1) * 100:+.3g} %"

    low, high = one["confidence"]["low"], one["confidence"]["high"]
    ends = "" if low is None else f" [{percent(low)}, {percent(high)}]"
    return percent(one["median"]) + ends


def settings_text(settings: dict[str, Any]) -> str:
    """Settings as text: 'switch.marker.k = 22.5 KB, ...'."""
    return ", ".join(f"{path} = {label(value)}" for path, value in settings.items()) or "as in the file"


def kept_text(one: dict[str, Any]) -> str:
    """States whether a setting meets the constraints, and the number of runs that violate one."""
    if one["refused"]:
        return f"refused: {one['refused']}"
    if one["failed"]:
        return f"{one['failed']} runs failed"
    broken = [
        f"{entry['constraint']}: broken in {entry['broken']} seeds" for entry in one["constraints"] if entry["broken"]
    ]
    return "; ".join(broken) or "kept"


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
    """A sentence about the constraints on held-out seeds: at 95 % confidence, at most 3/n of all seeds violate one."""
    count = len(record["seeds"]["held_out"])
    share = 1 - 0.05 ** (1 / count)
    limits = ", ".join(record["constraints"]) or "no constraint on a metric"
    checks = "; ".join(record["checked_before_runs"])
    kept = (
        f"kept in all {count} held-out seeds: with 95 % confidence fewer than {share * 100:.2g} % of seeds break one"
        if record["constraints"]
        else "every run came to its end"
    )
    return f"{limits}: {kept}. Checked before every run: {checks}."


def cost_text(record: dict[str, Any]) -> str:
    """A sentence about the cost of the search."""
    cost = record["cost"]
    states = [trial["state"] for trial in record["trials"]]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    own = cost["search_s"] + cost["judge_s"]
    return (
        f"{len(states)} settings ({counted}), {cost['runs']:.0f} runs, {cost['computed']:.0f} of them computed now; "
        f"{format_duration(cost['wall_s'])}, of which {format_duration(own)} for the search itself"
    )


def slack_text(one: dict[str, Any]) -> str:
    """The range of a parameter, as text."""
    if one["low"] is None:
        return " or ".join(label(value) for value in one["good"])
    low = f"{label(one['low'])}{' or less' if one['open_low'] else ''}"
    high = f"{label(one['high'])}{' or more' if one['open_high'] else ''}"
    return f"{low} to {high}"


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
    found = [interval_text(record), safety_text(record), *(f"note: {note}" for note in record["notes"])]
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
    starts = {one["path"]: one for one in record["sensitivity"]}
    bounds = {one["path"]: f"{one['role'].replace('_', ' ')}: {one['source']}" for one in record["bounds"]}
    rows = [
        (path, label(value), slack_text(starts[path]) if path in starts else MISSING, bounds.get(path, MISSING))
        for path, value in chosen["settings"].items()
    ]
    return _table("Recommended", ["key", "value", f"within {record['tolerance'] * 100:g} % from", "bounded by"], rows)


def _beside(record: dict[str, Any], number: int) -> Table:
    form = objective_form(record, number)
    heads = ["setting", "median", "prediction interval", "to the recommended", "constraints"]
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
        f"Range of each parameter in which no objective worsens by {record['tolerance'] * 100:g} %, the others kept",
        ["key", "recommended", "range", "measured: value (worst objective)"],
        rows,
    )


def _point(one: dict[str, Any]) -> str:
    ratios = [ratio for ratio in one["ratios"] if ratio is not None]
    if not one["kept"] or len(ratios) < len(one["ratios"]) or not ratios:
        return f"{label(one['value'])} ({'refused' if not one['ratios'] else one['why'] or 'no value'})"
    return f"{label(one['value'])} ({(max(ratios) - 1) * 100:+.2g} %)"


def _front(record: dict[str, Any]) -> Table:
    heads = [objective_title(record, number) for number in range(len(record["objectives"]))]
    forms = [objective_form(record, number) for number in range(len(heads))]
    rows = [
        (settings_text(one["settings"]), *map(with_interval, one["objectives"], forms))
        for one in record["front"][:SHOWN_FRONT]
    ]
    return _table("Pareto front, on the seeds of search and choice", ["setting", *heads], rows)
