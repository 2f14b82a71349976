"""The summary of compared runs: flows with their times, and the network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pauseframe.report import data
from pauseframe.results.causes import other_causes
from pauseframe.results.percentiles import SHARES, marked
from pauseframe.terminal.text import (
    format_bytes,
    format_count,
    format_number,
    format_rate,
    format_times,
    format_us,
    unfinished_flows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pauseframe.report.data import RunData

    Column = tuple[str, str, Callable[[RunData], float | None], Callable[[Any], str]]
    """Heading, name, function from a run to a number, and function from that number to a text."""
    Row = tuple[str, list[str], list[tuple[str, str]]]
    """Label, other causes of its difference, and (text, ratio to the first run) by column."""

COLUMNS: tuple[Column, ...] = (
    ("flows", "finished", lambda run: run.summary["flows_finished"], format_count),
    ("flows", "unfinished", lambda run: unfinished_flows(run.summary), format_count),
    ("FCT", "mean", lambda run: run.summary["fct_us"]["mean"], format_us),
    ("FCT", "p50", lambda run: run.summary["fct_us"]["p50"], format_us),
    ("FCT", "p99", lambda run: run.summary["fct_us"]["p99"], format_us),
    ("FCT", "p99.9", lambda run: run.summary["fct_us"]["p999"], format_us),
    ("slowdown", "p50", lambda run: run.summary["slowdown"]["p50"], format_number),
    ("slowdown", "p99", lambda run: run.summary["slowdown"]["p99"], format_number),
    ("queries", "p50", lambda run: run.summary["query_fct_us"]["p50"], format_us),
    ("queries", "p99", lambda run: run.summary["query_fct_us"]["p99"], format_us),
    ("queries", "p99.9", lambda run: run.summary["query_fct_us"]["p999"], format_us),
    ("network", "throughput", data.mean_throughput, format_rate),
    ("network", "drops", lambda run: run.summary["drops"], format_count),
    ("network", "trimmed", data.trims, format_count),
    ("network", "sent again", lambda run: run.summary["retransmits"], format_count),
    ("network", "timeouts", lambda run: run.summary["timeouts"], format_count),
    ("network", "CE marks", lambda run: run.summary["ecn_marks"], format_count),
    ("network", "pause frames", lambda run: run.summary["pfc_pauses"], format_count),
    ("network", "fullest switch held", lambda run: run.summary.get("switch_held_max_bytes"), format_bytes),
    ("RoCE", "CNPs", lambda run: data.flow_sum(run, "cnps_received"), format_count),
    ("RoCE", "sent again after a NAK", lambda run: data.flow_sum(run, "repeats_by_nak"), format_count),
    ("RoCE", "after a timeout", lambda run: data.flow_sum(run, "repeats_by_timeout"), format_count),
)

SAMPLES: dict[str, Callable[[RunData], int]] = {
    "FCT": data.completed_flows,
    "slowdown": data.completed_flows,
    "queries": lambda run: run.summary["queries_finished"],
}
"""Function from a run to the number of samples behind the percentiles below a heading."""


@dataclass(frozen=True)
class SummaryTable:
    """A table with one row per run."""

    heads: list[tuple[str, int]]
    """Headings, and the number of columns of each."""
    columns: list[str]
    rows: list[Row]
    runs: list[int]
    """The number of each row's run, which gives its colour."""
    note: str = ""


def tables(runs: Sequence[RunData]) -> list[SummaryTable]:
    """Two tables, so that all columns fit on a screen: flows with their times, and the network."""
    columns = list(COLUMNS)
    if not any(run.summary["queries_total"] for run in runs):
        columns = [column for column in columns if column[0] != "queries"]
    if not any(unfinished_flows(run.summary) for run in runs):
        columns = [column for column in columns if column[1] != "unfinished"]
    if not any(get(run) for head, _, get, _ in columns if head == "RoCE" for run in runs):
        columns = [column for column in columns if column[0] != "RoCE"]
    if not any(map(data.trims, runs)):
        columns = [column for column in columns if column[1] != "trimmed"]
    network = [column for column in columns if column[0] in {"network", "RoCE"}]
    return [_table(runs, [column for column in columns if column not in network]), _table(runs, network)]


def _table(runs: Sequence[RunData], columns: Sequence[Column]) -> SummaryTable:
    values = [[get(run) for run in runs] for _, _, get, _ in columns]
    heads = Counter(head for head, _, _, _ in columns)
    conditions = [data.conditions_of(run) for run in runs]
    has_times = any(head in SAMPLES for head, _, _, _ in columns)
    rows = []
    for index, run in enumerate(runs):
        cells = [
            (
                _marked(form(column[index]), run, head, name),
                "" if head in SAMPLES and (_left(run, head) or _left(runs[0], head)) else ratio(column, index),
            )
            for column, (head, name, _, form) in zip(values, columns, strict=True)
        ]
        causes = other_causes(conditions[0], conditions[index]) if index and has_times else []
        rows.append((run.label, causes, cells))
    return SummaryTable(list(heads.items()), [name for _, name, _, _ in columns], rows, list(range(len(runs))))


def _left(run: RunData, head: str) -> int:
    """What is unfinished of the flows or queries below a heading: times of the others are not compared."""
    if head == "queries":
        return run.summary["queries_total"] - run.summary["queries_finished"]
    return unfinished_flows(run.summary)


def _marked(text: str, run: RunData, head: str, name: str) -> str:
    """The text, with a mark if it is a percentile of too few samples."""
    key = name.replace(".", "")
    if head not in SAMPLES or key not in SHARES:
        return text
    return marked(text, SAMPLES[head](run), SHARES[key])


def ratio(values: Sequence[float | None], index: int) -> str:
    """Ratio to the first run's value; empty for the first run and where it has no meaning."""
    first, value = values[0], values[index]
    if index == 0 or not first or not value:
        return ""
    text = format_times(value / first)
    return "" if text == "1" else f"× {text}"
