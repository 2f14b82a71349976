"""Metrics of a run: a number, its number of samples, and how many flows or queries were unfinished.

A metric is an entry of the summary (`drops`), one of `SPECIAL`, or a statistic of a column with an optional filter:
`flows.fct_us.p50 where size_bytes > 1e6`. Completion times include flows unfinished at the end of the run: percentiles
use the Kaplan-Meier estimate (Kaplan and Meier, 1958), in which such a flow took longer than its age; means use the age
and are lower bounds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints, is_typeddict

from pauseframe import _core
from pauseframe.sweep.results import flat
from pauseframe.terminal.text import (
    format_bytes,
    format_count,
    format_number,
    format_rate,
    format_us,
    none_of,
    unfinished_flows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl

TABLES = ("flows", "queries", "ports", "jobs", "ranks", "throughput", "deadlocks")
STATISTIC = re.compile(r"mean|min|max|sum|count|p\d{1,2}(?:\.\d+)?|p999")
COMPLETION = {"fct_us": ("flows", "queries"), "slowdown": ("flows", "queries"), "time_us": ("jobs",)}
"""Columns that are null for unfinished flows, queries and jobs, and their tables."""
ALIASES = {"fct_us": "flows.fct_us", "slowdown": "flows.slowdown", "query_fct_us": "queries.fct_us"}
"""Entries of the summary that count only finished flows, and their replacements that include all flows."""
SPECIAL = {
    "goodput_bps": "application bytes received, per second of the run",
    "unfinished": "flows and queries that had not finished when the run ended",
    "pause_frames_per_s_port": "pause frames per second that stopped a port, of the port with the most",
}
LEAVE_OUT = {
    "seed",
    "wall_s",
    "threads",
    "packet_hops_per_s",
    "peak_rss_bytes",
    "flows_total",
    "flows_long",
    "flows_stopped",
    "queries_total",
}


@dataclass(frozen=True)
class Metric:
    """A metric that is read from each run."""

    text: str
    """The metric's text in the file."""
    table: str
    column: str
    statistic: str
    where: str = ""

    @property
    def quantity(self) -> tuple[str, str, float | str, str]:
        """What the metric measures, the same for all texts of it: `fct_us.p99` is `flows.fct_us.p99`."""
        statistic = self.statistic if self.quantile is None else round(self.quantile, 9)
        return self.table, self.column, statistic, " ".join(self.where.split())

    @property
    def quantile(self) -> float | None:
        """The quantile of a percentile metric, or None; p999 means p99.9, as in the summary."""
        if not self.statistic.startswith("p"):
            return None
        return 0.999 if self.statistic == "p999" else float(self.statistic[1:]) / 100

    @property
    def counts_unfinished(self) -> bool:
        """True if the metric is a completion time, which includes unfinished flows."""
        return self.table in COMPLETION.get(self.column, ())


@dataclass(frozen=True)
class Reading:
    """A metric's value for one run."""

    value: float
    """Infinite if no sample finished, or too few finished to reach the percentile."""
    samples: int | None = None
    """Number of rows that the statistic is computed from."""
    unfinished: int = 0
    """Number of unfinished rows."""


def parse_metric(text: str) -> Metric:
    """Parses a metric. Raises ValueError that suggests similar names."""
    name, _, where = (part.strip() for part in text.partition(" where "))
    base, _, last = name.rpartition(".")
    full = f"{ALIASES[base]}.{last}" if base in ALIASES else name
    table, _, rest = full.partition(".")
    if table not in TABLES or not rest:
        if where:
            raise ValueError("where filters the rows of a table, as in flows.fct_us.p99 where size_bytes > 1e6")
        if name not in (*SPECIAL, *summary_names()):
            raise ValueError(none_of(name, names()))
        return Metric(text, "", name, "")
    column, _, statistic = rest.partition(".")
    if column not in (columns := _numeric_columns(table)) and statistic != "count":
        raise ValueError(f"table {table}: {none_of(column, columns)}")
    if not STATISTIC.fullmatch(statistic):
        raise ValueError(f"{statistic!r} is no statistic: write mean, min, max, sum, count or a percentile such as p99")
    metric = Metric(text, table, column, statistic, where)
    _check_filter(metric)
    return metric


def names() -> list[str]:
    """Names of metrics: entries of the summary, and common statistics of the tables."""
    times = [f"{alias}.{one}" for alias in ALIASES for one in ("p50", "p99", "mean")]
    return [*SPECIAL, *times, *summary_names()]


@cache
def summary_names() -> tuple[str, ...]:
    """Names of numbers in the summary, nested ones as dotted paths, except those that `ALIASES` replaces."""
    from pauseframe import types

    found = _flat_names(types.Summary)
    return tuple(name for name in found if name not in LEAVE_OUT and name.partition(".")[0] not in ALIASES)


def _flat_names(kind: Any, prefix: str = "") -> Iterable[str]:
    for name, hint in get_type_hints(kind).items():
        if is_typeddict(hint):
            yield from _flat_names(hint, f"{prefix}{name}.")
        elif hint in (int, float):
            yield prefix + name


@cache
def _empty(table: str) -> Any:
    import polars as pl

    return pl.DataFrame(_core.unpack_tables(table, [], []))


def _numeric_columns(table: str) -> list[str]:
    return [name for name, kind in _empty(table).schema.items() if kind.is_numeric()]


def _check_filter(metric: Metric) -> None:
    import polars as pl

    if not metric.where:
        return
    try:
        _empty(metric.table).filter(pl.sql_expr(metric.where))
    except pl.exceptions.PolarsError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"where {metric.where}: {first}; write a SQL condition on columns of {metric.table}") from None


def read_metrics(metrics: Iterable[Metric], summary: Any, packed: Callable[[str], bytes | None]) -> dict[str, Reading]:
    """Reads all metrics of a run, by their texts; `packed` returns a packed table, or None for an empty one."""
    import polars as pl

    frames: dict[str, pl.DataFrame] = {}

    def frame(name: str) -> pl.DataFrame:
        if name not in frames:
            part = packed(name)
            frames[name] = pl.DataFrame(_core.unpack_tables(name, [] if part is None else [part], []))
        return frames[name]

    return {metric.text: _read(metric, summary, frame) for metric in metrics}


def _read(metric: Metric, summary: Any, frame: Callable[[str], pl.DataFrame]) -> Reading:
    if metric.table:
        return _statistic(metric, frame(metric.table), summary["sim_time_s"] * 1e6)
    if metric.column == "goodput_bps":
        return Reading(float(frame("throughput")["received_bytes"].sum()) * 8 / summary["sim_time_s"])
    if metric.column == "unfinished":
        left = unfinished_flows(summary)
        return Reading(float(left + summary["queries_total"] - summary["queries_finished"]))
    if metric.column == "pause_frames_per_s_port":
        most = frame("ports")["pauses_received"].max()
        return Reading(float(most or 0) / summary["sim_time_s"])  # type: ignore[arg-type]
    value = flat(summary).get(metric.column)
    return Reading(math.inf if value is None else float(value))  # type: ignore[arg-type]


def _statistic(metric: Metric, frame: pl.DataFrame, end_us: float) -> Reading:
    import polars as pl

    if metric.where:
        frame = frame.filter(pl.sql_expr(metric.where))
    if metric.counts_unfinished:
        return _of_completions(metric, frame, end_us)
    if metric.statistic == "count":
        return Reading(float(frame.height), frame.height)
    column = frame[metric.column].drop_nulls()
    if metric.quantile is not None:
        value: Any = column.quantile(metric.quantile, "linear")
    else:
        value = getattr(column, metric.statistic)()
    return Reading(math.inf if value is None else float(value), len(column))


def _of_completions(metric: Metric, frame: pl.DataFrame, end_us: float) -> Reading:
    """A statistic of completion times or slowdowns, in which an unfinished sample exceeds its age."""
    import polars as pl

    frame = frame.filter(pl.col("start_us") <= end_us)
    if metric.table == "flows":  # excludes long flows and flows that were meant to stop
        has_end = pl.col("size_bytes").is_not_null() & (pl.col("status") != "stopped")
        frame = frame.filter(pl.col("fct_us").is_not_null() | has_end)
    age = pl.lit(end_us) - pl.col("start_us")
    if metric.column == "slowdown":
        age = age / pl.col("ideal_us" if metric.table == "jobs" else "ideal_fct_us")
    done = pl.col(metric.column).is_not_null()
    samples = frame.select(pl.coalesce(metric.column, age).alias("age"), done.alias("done"))
    unfinished = int((~samples["done"]).sum())
    if metric.statistic == "count":
        return Reading(float(samples.height), samples.height, unfinished)
    if metric.quantile is None:
        value: Any = getattr(samples["age"], metric.statistic)()
    elif unfinished:
        value = kaplan_meier(samples, metric.quantile)
    else:
        value = samples["age"].quantile(metric.quantile, "linear")
    return Reading(math.inf if value is None else float(value), samples.height, unfinished)


def kaplan_meier(samples: pl.DataFrame, quantile: float) -> float | None:
    """A quantile of the Kaplan-Meier estimate of samples (`age`, `done`); None if it lies beyond all samples."""
    import polars as pl

    at_risk = pl.lit(samples.height) - pl.int_range(pl.len())
    ordered = samples.sort("age", pl.col("done").not_()).with_columns(
        (1 - pl.col("done").cast(pl.Float64) / at_risk).cum_prod().alias("above")
    )
    reached = ordered.filter(pl.col("above") <= 1 - quantile + 1e-12)
    return None if reached.is_empty() else float(reached["age"][0])


def format_metric(text: str) -> Callable[[float | None], str]:
    """The number format of a metric."""
    name = text.partition(" where ")[0]
    forms = {"_us": format_us, "_bps": format_rate, "_bytes": format_bytes}
    form = next((form for part, form in forms.items() if part in name), None)
    if form is None:
        form = format_number if "slowdown" in name or "_per_s" in name else format_count
    return lambda value: "none" if value is not None and math.isinf(value) else form(value)
