"""The top of a report of runs: one sentence with the answer, one chart, one table; everything else is detail below."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from pauseframe.report import data, figures, long_flows
from pauseframe.report.page import Answer, Bar
from pauseframe.report.summary import ratio
from pauseframe.results.causes import other_causes
from pauseframe.results.percentiles import ENOUGH_BEYOND, SHARES, explanation, marked
from pauseframe.terminal.text import (
    MISSING,
    counted,
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_rate,
    format_times,
    format_us,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Figure
    from pauseframe.results.causes import Conditions

HEADS = {
    "run": True,
    "finished": False,
    "median": False,
    "time": True,
    "throughput": False,
    "dropped": True,
    "timeouts": False,
    "pauses": True,
    "fullest switch": False,
}
"""Columns of the table, and whether a phone shows them; "time" gets the name of the measure."""
ALL_FLOWS = "times of all flows"
"""Title of the chart that shows the times of all flows of one run."""
ENOUGH = ENOUGH_BEYOND / (1 - SHARES["p99"])
"""Number of times from which p99 answers; of fewer the slowest does, which is a fact and not an estimate."""


@dataclass(frozen=True)
class Measure:
    """The times that decide: of jobs, queries or flows, in microseconds."""

    what: str
    """One of what is timed: "job", "query", "flow"."""
    name: str
    """Name of the statistic, such as "slowest flow"."""
    times: list[pl.Series]
    """Times by run."""
    left: list[int]
    """Number of those without a time, by run."""

    @property
    def is_p99(self) -> bool:
        """True if p99 decides, False if the slowest does."""
        return self.name.startswith("p99")

    def value(self, run: int) -> float | None:
        """The statistic of a run; None if nothing has a time."""
        times = self.times[run]
        if times.is_empty():
            return None
        share = SHARES["p99"] if self.is_p99 else 1.0
        return float(times.quantile(share, "linear"))  # type: ignore[arg-type]

    def median(self, run: int) -> float | None:
        """The median of a run; None if nothing has a time."""
        times = self.times[run]
        return None if times.is_empty() else float(times.median())  # type: ignore[arg-type]


def answer(runs: Sequence[RunData], add: Callable[[Figure], int]) -> Answer:
    """The answer of one run, or of several that are compared with the first; `add` adds a figure to the page."""
    measure = _measure(runs)
    values = [measure.value(run) for run in range(len(runs))]
    by_time = any(value is not None for value in values)
    chart, bars, figure = "", [], None
    if len(runs) > 1:
        rates = None if by_time else [data.mean_throughput(run) for run in runs]
        chart = measure.name if by_time else "throughput of all flows together"
        bars = _bars(runs, rates or values, format_rate if rates else format_us)
    elif (drawn := _chart(runs[0], measure)) is not None:
        chart, figure = drawn[0], add(drawn[1])
    return Answer(
        sentence=_single(runs[0], measure) if len(runs) == 1 else _several(runs, measure, values),
        chart=chart,
        bars=bars,
        heads=[(measure.name if head == "time" else head, narrow) for head, narrow in HEADS.items()],
        rows=[(run.label, _cells(runs, number, measure, values)) for number, run in enumerate(runs)],
        note=f"× n: so many times the value of {runs[0].label}." if len(runs) > 1 else "",
        figure=figure,
        wide_note=_wide_note(measure),
    )


def of_scenarios(lead: str, groups: Mapping[str, Sequence[RunData]]) -> Answer:
    """The answer for runs of several scenarios: `groups` has the same contenders for each; the first is compared.

    The sentence begins with `lead`. Bars of one scenario have one scale.
    """
    measures = {title: _measure(runs) for title, runs in groups.items()}
    bars: list[Bar] = []
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    colours: list[int] = []
    for title, runs in groups.items():
        measure = measures[title]
        values = [measure.value(run) for run in range(len(runs))]
        rates = None if any(value is not None for value in values) else [data.mean_throughput(run) for run in runs]
        drawn = _bars(runs, rates or values, format_rate if rates else format_us)
        bars += [replace(bar, label=f"{title}: {bar.label}") for bar in drawn]
        rows += [(f"{title}: {run.label}", _cells(runs, number, measure, values)) for number, run in enumerate(runs)]
        colours += range(len(runs))
    names = sorted({measure.name for measure in measures.values()})
    heads = [("scenario" if head == "run" else " or ".join(names) if head == "time" else head, narrow)
             for head, narrow in HEADS.items()]  # fmt: skip
    first = next(iter(groups.values()))
    note = f"× n: so many times the value of {first[0].label}. Where nothing finished, bars show throughput."
    sentence = " ".join([lead, *_beside(measures, first)])
    return Answer(
        sentence, f"{' or '.join(names)}, each scenario on its own scale", bars, heads, rows, note, None, colours
    )


def _beside(measures: Mapping[str, Measure], contenders: Sequence[RunData]) -> list[str]:
    """How often the first contender is faster or slower than each other."""
    names = " or ".join(sorted({measure.name for measure in measures.values()}))
    result = []
    for number, rival in enumerate(contenders[1:], start=1):
        pairs = [(measure.value(0), measure.value(number)) for measure in measures.values()]
        known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
        faster = sum(mine < 0.99 * theirs for mine, theirs in known)
        slower = sum(mine > 1.01 * theirs for mine, theirs in known)
        less = f" ({len(measures) - len(known)} have no times)" if len(known) < len(measures) else ""
        result.append(
            f"By {names} it is faster than {rival.label} in {faster} of {len(known)} scenarios{less} and slower in "
            f"{slower}."
        )
    return result


def _measure(runs: Sequence[RunData]) -> Measure:
    """Jobs, else queries, else flows: what every run has, with the most to say about the workload first."""
    for what, times in (("job", _job_times), ("query", _query_times)):
        found = [times(run) for run in runs]
        if all(len(one) > one.null_count() for one in found):
            return _measured(what, found)
    return _measured("flow", [_flow_times(run) for run in runs])


def _measured(what: str, found: list[pl.Series]) -> Measure:
    times = [one.drop_nulls() for one in found]
    is_sure = min(map(len, times)) >= ENOUGH
    return Measure(what, f"p99, {what}" if is_sure else f"slowest {what}", times, [one.null_count() for one in found])


def _job_times(run: RunData) -> pl.Series:
    empty = pl.Series("time_us", [], dtype=pl.Float64)
    return empty if run.jobs is None else run.jobs.select("time_us").collect()["time_us"]


def _query_times(run: RunData) -> pl.Series:
    return run.queries.select("fct_us").collect()["fct_us"]


def _flow_times(run: RunData) -> pl.Series:
    """Of flows that finish or should have finished, without those that never have a completion time."""
    timed = pl.col("fct_us").is_not_null() | data.is_unfinished()
    return run.flows.filter(timed).select("fct_us").collect()["fct_us"]


def _single(run: RunData, measure: Measure) -> str:
    if run.summary["deadlocks"]:
        queues = 0 if run.deadlocks is None else int(run.deadlocks.filter(deadlock=0).select(pl.len()).collect().item())
        return f"Deadlock: {format_count(queues)} queues wait for each other and can never send again. {_happened(run)}"
    value, times = measure.value(0), measure.times[0]
    row = long_flows.row_of_all(run)
    long = f"{_long(row)} within {format_duration(run.summary['sim_time_s'])}. " if row else ""
    if value is None and long and not measure.left[0]:
        return f"{long}{_happened(run)}"
    if value is None:
        rate, within = format_rate(data.mean_throughput(run)), f"within {format_duration(run.summary['sim_time_s'])}"
        stopped = 0 if measure.left[0] else data.stopped_flows(run)
        what = f"{counted(stopped, 'UDP flow')} ended" if stopped else f"No {measure.what} finished"
        return f"{what} {within}. {_happened(run, rate)}"
    count, every = len(times), len(times) + measure.left[0]
    done = f"{'All ' if count == every and count > 1 else ''}{format_count(count)}"
    of_all = "" if count == every else f" of {format_count(every)}"
    name = "the p99 is" if measure.is_p99 else "the slowest took" if every > 1 else "it took"
    took = f"{name} {format_us(value)}"
    return f"{done}{of_all} {plural(measure.what, every)} finished; {took}. {long}{_happened(run)}"


def _long(row: Mapping[str, Any]) -> str:
    """What long flows received."""
    count, rate = row["flows"], format_rate(row["goodput_bps"])
    if count == 1:
        return f"The long flow received {rate}"
    fair = "" if row["fairness"] is None else f" with a fairness of {format_number(row['fairness'])} (Jain's index)"
    return f"{format_count(count)} long flows together received {rate}{fair}"


def _happened(run: RunData, rate: str = "") -> str:
    """What the network did: losses, timeouts, pauses."""
    said = run.summary
    parts = [f"all flows together received {rate}"] if rate else []
    parts.append("no packet was dropped" if not said["drops"] else f"{_number(said['drops'], 'packet')} dropped")
    if said["timeouts"]:
        parts.append(f"{_number(said['timeouts'], 'retransmission timer', be=False)} expired")
    if said["pfc_pauses"]:
        parts.append(f"{_number(said['pfc_pauses'], 'pause frame')} sent")
    text = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{text[0].upper()}{text[1:]}."


def _number(count: int, what: str, be: bool = True) -> str:
    verb = (" was" if count == 1 else " were") if be else ""
    return f"{counted(count, what)}{verb}"


def _several(runs: Sequence[RunData], measure: Measure, values: Sequence[float | None]) -> str:
    known = [(value, number) for number, value in enumerate(values) if value is not None]
    stuck = [run.label for run in runs if run.summary["deadlocks"]]
    dead = f" {', '.join(stuck)} had a deadlock." if stuck else ""
    drops = [run.summary["drops"] for run in runs]
    if not known:
        rates = sorted((data.mean_throughput(run), number) for number, run in enumerate(runs))
        (low, last), (high, first) = rates[0], rates[-1]
        none = f"; no {measure.what} finished" if any(measure.left) else ""
        if any(drops):
            none += f"; dropped packets: {format_count(min(drops))} to {format_count(max(drops))}"
        if high < 1.01 * low:
            return f"{_names(runs)} differ by less than 1 % in throughput, {format_rate(high)}{none}.{dead}"
        return (
            f"{runs[first].label} carries most, {format_rate(high)} of all flows together, {runs[last].label} least, "
            f"{format_rate(low)}{none}.{dead}"
        )
    (best, first), (worst, last) = min(known), max(known)
    what = f"p99 of {plural(measure.what)}" if measure.is_p99 else f"the {measure.name}"
    same = worst < 1.01 * best
    lead = (
        f"{_names(runs)} differ by less than 1 % in {what}, {format_us(best)}"
        if same
        else f"{what[0].upper()}{what[1:]} takes {format_us(best)} in {runs[first].label}, {format_us(worst)} in "
        f"{runs[last].label}, {format_times(worst / best)} times as long"
    )
    lost = (
        "no run dropped a packet"
        if not any(drops)
        else f"{runs[first].label} dropped {_none_or(drops[first])}, {runs[last].label} {_none_or(drops[last])}"
        if not same
        else f"dropped packets: {format_count(min(drops))} to {format_count(max(drops))}"
    )
    left = [
        f"{run.label} left {format_count(count)} unfinished"
        for run, count in zip(runs, measure.left, strict=True)
        if count
    ]
    return f"{lead}; {lost}.{' ' + ', '.join(left) + '.' if left else ''}{dead}"


def _names(runs: Sequence[RunData]) -> str:
    return " and ".join(run.label for run in runs) if len(runs) == 2 else f"All {len(runs)} runs"


def _none_or(count: int) -> str:
    return "no packet" if not count else counted(count, "packet")


def _bars(runs: Sequence[RunData], values: Sequence[float | None], form: Callable[[float | None], str]) -> list[Bar]:
    longest = max((value or 0.0 for value in values), default=0.0)
    return [
        Bar(run.label, (value or 0.0) / longest if longest else 0.0, form(value), number)
        for number, (run, value) in enumerate(zip(runs, values, strict=True))
    ]


def _chart(run: RunData, measure: Measure) -> tuple[str, Figure] | None:
    """Of one run the distribution of its times, or where they say nothing its throughput."""
    if measure.times[0].n_unique() > 1:
        title = ALL_FLOWS if measure.what == "flow" else f"times of all {plural(measure.what)}"
        return title, figures.cdf_figure([(0, run.label, measure.times[0])], measure.what)
    return next(iter(figures.throughput_figures([run])), None)


def _cells(
    runs: Sequence[RunData], number: int, measure: Measure, values: Sequence[float | None]
) -> list[tuple[str, str]]:
    run, said = runs[number], runs[number].summary
    done, left = len(measure.times[number]), measure.left[number]
    times = ratio(values, number)
    is_compared = number and values[number] is not None
    causes = other_causes(_conditions(runs, 0, measure), _conditions(runs, number, measure)) if is_compared else []
    medians = [measure.median(other) for other in range(len(runs))]
    return [
        (f"{format_count(done)} of {format_count(done + left)}" if left else format_count(done), ""),
        (marked(format_us(medians[number]), done, SHARES["p50"]), ratio(medians, number)),
        (format_us(values[number]), ", ".join([*([times] if times else []), *causes])),
        (format_rate(data.mean_throughput(run)), ""),
        (format_count(said["drops"]), ""),
        (format_count(said["timeouts"]), ""),
        (format_count(said["pfc_pauses"]), ""),
        (MISSING if (held := said.get("switch_held_max_bytes")) is None else format_bytes(held), ""),
    ]


def _conditions(runs: Sequence[RunData], number: int, measure: Measure) -> Conditions:
    """The conditions of a run, with what is unfinished of the things whose times are shown."""
    done, left = len(measure.times[number]), measure.left[number]
    return data.conditions_of(runs[number]).counting(measure.what, done + left, left)


def _wide_note(measure: Measure) -> str:
    parts = [
        f"Finished, median, {measure.name}: times of {plural(measure.what)}.",
        "Throughput: of all flows together, the mean until 99.5 % of all bytes had come.",
    ]
    medians = [
        marked(format_us(measure.median(run)), len(times), SHARES["p50"]) for run, times in enumerate(measure.times)
    ]
    return " ".join([*parts, *filter(None, [explanation(medians)])])
