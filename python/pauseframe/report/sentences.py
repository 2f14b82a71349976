"""The sentences at the top of a report of runs: what finished and how fast, and what the network did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from pauseframe.report import data, long_flows
from pauseframe.report.measure import other_work
from pauseframe.results.ranking import SAME
from pauseframe.terminal.text import (
    counted,
    format_count,
    format_duration,
    format_number,
    format_rate,
    format_times,
    format_us,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.report.data import RunData
    from pauseframe.report.measure import Measure
    from pauseframe.results.ranking import Outcome

BUSY = 0.99
"""Share of a run from which its busy part counts as the whole run."""


def of_one(run: RunData, measure: Measure) -> str:
    """The answer of one run."""
    if run.summary["deadlocks"]:
        queues = 0 if run.deadlocks is None else int(run.deadlocks.filter(deadlock=0).select(pl.len()).collect().item())
        return f"Deadlock: {format_count(queues)} queues wait for each other and can never send again. {_happened(run)}"
    row, within = long_flows.row_of_all(run), f"within {format_duration(run.summary['sim_time_s'])}"
    long = f"{_long(row)} {within}. " if row else ""
    outcome = measure.outcome(0)
    if outcome.value is None and long and not outcome.left:
        return f"{long}{_happened(run)}"
    if outcome.value is None:
        stopped = 0 if outcome.left else data.stopped_flows(run)
        what = f"{counted(stopped, 'UDP flow')} ended" if stopped else f"No {outcome.what} finished"
        return f"{what} {within}. {long}{_happened(run, _received(run))}"
    return f"{_finished(outcome, measure)}. {_also_left(run, outcome)}{long}{_happened(run)}"


def _finished(outcome: Outcome, measure: Measure) -> str:
    """How many finished, and the statistic of their times."""
    done = f"{'All ' if not outcome.left and outcome.done > 1 else ''}{format_count(outcome.done)}"
    of_all = f" of {format_count(outcome.every)}" if outcome.left else ""
    return f"{done}{of_all} {plural(outcome.what, outcome.every)} finished; {_took(outcome, measure)}"


def _took(outcome: Outcome, measure: Measure) -> str:
    """The statistic of the times of what finished."""
    these = " of these" if outcome.left and outcome.done > 1 else ""
    name = f"the p99{these} is" if measure.is_p99 else f"the slowest{these} took" if outcome.done > 1 else "it took"
    return f"{name} {format_us(outcome.value)}"


def _also_left(run: RunData, outcome: Outcome) -> str:
    """A sentence about unfinished work of other kinds, if all that is timed finished."""
    left = "" if outcome.left else other_work(run, outcome.what)
    return f"{left} did not finish. " if left else ""


def _long(row: Mapping[str, Any]) -> str:
    """What long flows received."""
    count, rate = row["flows"], format_rate(row["goodput_bps"])
    if count == 1:
        return f"The long flow received {rate}"
    fair = "" if row["fairness"] is None else f" with a fairness of {format_number(row['fairness'])} (Jain's index)"
    return f"{format_count(count)} long flows together received {rate}{fair}"


def _received(run: RunData) -> str:
    """The rate of all flows together over the run, or over its busy part, which it names."""
    until, end = data.busy_until(run), run.summary["sim_time_s"]
    part = f" in the first {format_duration(until)}" if until < BUSY * end else ""
    return f"{format_rate(data.mean_throughput(run))}{part}"


def _happened(run: RunData, rate: str = "") -> str:
    """What the network did: losses, timeouts, pauses."""
    said, trims = run.summary, data.trims(run)
    parts = [f"all flows together received {rate}"] if rate else []
    if said["drops"] or not trims:
        parts.append("no packet was dropped" if not said["drops"] else f"{_number(said['drops'], 'packet')} dropped")
    if trims:
        parts.append(f"{_number(trims, 'packet')} trimmed")
        parts.append(f"{counted(said['retransmits'], 'packet')} sent again")
    if said["timeouts"]:
        parts.append(f"{_number(said['timeouts'], 'retransmission timer', be=False)} expired")
    if said["pfc_pauses"]:
        parts.append(f"{_number(said['pfc_pauses'], 'pause frame')} sent")
    text = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{text[0].upper()}{text[1:]}."


def _number(count: int, what: str, be: bool = True) -> str:
    verb = (" was" if count == 1 else " were") if be else ""
    return f"{counted(count, what)}{verb}"


def of_several(runs: Sequence[RunData], measure: Measure) -> str:
    """The answer of several runs: only those that finished everything are ranked by their times."""
    outcomes = measure.outcomes()
    ranked = [number for number, outcome in enumerate(outcomes) if outcome.is_ranked]
    pair = runs if len(runs) == 2 else ()
    if len(ranked) > 1:
        parts = [_ranked(runs, measure, outcomes, ranked)]
    elif ranked:
        parts = [f"{_only(runs, measure, outcomes, ranked[0])}; {_losses(runs, pair)}."]
    elif any(outcome.done for outcome in outcomes):
        parts = [f"No run finished all its {plural(measure.what)}; {_losses(runs, pair)}."]
    else:
        parts = [_by_throughput(runs, measure)]
    if any(outcome.done for outcome in outcomes):
        rest = [number for number in range(len(runs)) if number not in ranked]
        parts += [f"{_listed([f'{runs[one].label} {outcomes[one].finished}' for one in rest])}."] if rest else []
    for run, outcome in zip(runs, outcomes, strict=True):
        if outcome.is_ranked and outcome.left:
            parts.append(f"{run.label} left {outcome.unfinished} unfinished.")
        if not outcome.left and (other := other_work(run, outcome.what)):
            parts.append(f"{run.label} left {other} unfinished.")
    stuck = [run.label for run in runs if run.summary["deadlocks"]]
    return " ".join([*parts, *([f"{', '.join(stuck)} had a deadlock."] if stuck else [])])


def _ranked(runs: Sequence[RunData], measure: Measure, outcomes: Sequence[Outcome], ranked: Sequence[int]) -> str:
    """The fastest and the slowest of the runs that finished everything."""
    known = [(value, number) for number in ranked if (value := outcomes[number].value) is not None]
    (best, first), (worst, last) = min(known), max(known)
    what = f"p99 of {plural(measure.what)}" if measure.is_p99 else f"the {measure.name}"
    if worst < SAME * best:
        names = _names(runs, ranked, measure.what)
        return f"{names} differ by less than 1 % in {what}, {format_us(best)}; {_losses(runs)}."
    lead = (
        f"{what[0].upper()}{what[1:]} takes {format_us(best)} in {runs[first].label}, {format_us(worst)} in "
        f"{runs[last].label}, {format_times(worst / best)} times as long"
    )
    return f"{lead}; {_losses(runs, [runs[first], runs[last]])}."


def _only(runs: Sequence[RunData], measure: Measure, outcomes: Sequence[Outcome], one: int) -> str:
    """The only run that finished everything, or that has times at all."""
    took = _took(outcomes[one], measure)
    if not any(outcome.left for outcome in outcomes):
        return f"Only {runs[one].label} has times of {plural(measure.what)}; {took}"
    nearly = "nearly " if outcomes[one].left else ""
    its = f"its {measure.what}" if outcomes[one].every == 1 else f"{nearly}all its {plural(measure.what)}"
    return f"Only {runs[one].label} finished {its}; {took}"


def _by_throughput(runs: Sequence[RunData], measure: Measure) -> str:
    """Runs of which none has a time, by what all their flows received."""
    rates = sorted((data.mean_throughput(run), number) for number, run in enumerate(runs))
    (low, last), (high, first) = rates[0], rates[-1]
    none = f"; no {measure.what} finished" if any(measure.left) else ""
    none += f"; {losses}" if (losses := _losses(runs)) != "no run dropped a packet" else ""
    if high < SAME * low:
        return f"{_names(runs, range(len(runs)))} differ by less than 1 % in throughput, {format_rate(high)}{none}."
    return (
        f"{runs[first].label} carries most, {format_rate(high)} of all flows together, {runs[last].label} least, "
        f"{format_rate(low)}{none}."
    )


def _losses(runs: Sequence[RunData], named: Sequence[RunData] = ()) -> str:
    """What the `named` runs dropped and trimmed; without names the range of all runs."""
    drops, trims = [run.summary["drops"] for run in runs], [data.trims(run) for run in runs]
    if not any(drops) and not any(trims):
        return "no run dropped a packet"
    if named:
        return ", ".join(
            f"{run.label} {_lost(run.summary['drops'], data.trims(run), any(trims), 'dropped ' if first else '')}"
            for first, run in zip((True, False), named, strict=True)
        )
    return "; ".join(
        f"{name} packets: {format_count(min(counts))} to {format_count(max(counts))}"
        for name, counts in (("dropped", drops), ("trimmed", trims))
        if any(counts)
    )


def _lost(drops: int, trims: int, with_trims: bool, verb: str) -> str:
    """The packets that a run dropped, and where runs trim also those that it trimmed."""
    none_or = "no packet" if not drops else counted(drops, "packet")
    return f"{verb}{none_or}" if not with_trims else f"dropped {none_or} and trimmed {format_count(trims)}"


def _names(runs: Sequence[RunData], which: Sequence[int], what: str = "") -> str:
    """The runs of these numbers: two by name, more by their count."""
    if len(which) == 2:
        return " and ".join(runs[number].label for number in which)
    if len(which) == len(runs):
        return f"All {len(runs)} runs"
    return f"The {len(which)} runs that finished all {plural(what)}"


def _listed(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def beside(measures: Mapping[str, Measure], groups: Mapping[str, Sequence[RunData]]) -> list[str]:
    """How often the first contender is faster or slower than each other one, and where one left work unfinished."""
    names = " or ".join(sorted({measure.name for measure in measures.values()}))
    contenders = next(iter(groups.values()))
    result = []
    for number, rival in enumerate(contenders[1:], start=1):
        pairs = {title: (measure.outcome(0), measure.outcome(number)) for title, measure in measures.items()}
        times = [
            (mine.value, theirs.value)
            for mine, theirs in pairs.values()
            if mine.is_ranked and theirs.is_ranked and mine.value is not None and theirs.value is not None
        ]
        faster = sum(SAME * mine < theirs for mine, theirs in times)
        slower = sum(mine > SAME * theirs for mine, theirs in times)
        result.append(
            f"By {names} it is faster than {rival.label} in {faster} and slower in {slower} of the "
            f"{counted(len(times), 'scenario')} in which both finish everything."
            if times
            else f"In no scenario both it and {rival.label} finish everything."
        )
        untimed = [title for title, pair in pairs.items() if all(one.value is None for one in pair)]
        result += _beside_in_throughput([groups[title] for title in untimed], number)
        result += [
            f"{title}: it left {mine.unfinished} unfinished, {rival.label} {theirs.unfinished}."
            for title, (mine, theirs) in pairs.items()
            if title not in untimed and (mine.left or theirs.left)
        ]
    return result


def _beside_in_throughput(untimed: Sequence[Sequence[RunData]], number: int) -> list[str]:
    """How often the first contender carries more or less than another one, where no flow has a completion time."""
    if not untimed:
        return []
    rates = [(data.mean_throughput(runs[0]), data.mean_throughput(runs[number])) for runs in untimed]
    more, less = (sum(one > SAME * other for one, other in pairs) for pairs in (rates, [pair[::-1] for pair in rates]))
    return [f"It carries more in {more} and less in {less} of the {counted(len(rates), 'scenario')} without times."]
