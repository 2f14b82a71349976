"""Metrics of runs: SQL over the tables of one results folder, executed by polars.

`flows` and `queries` have two additional columns: `age_us` and `slowdown_or_age`. These columns hold the completion
time and slowdown of finished rows, and the time so far of rows that had not finished when the run ended. Excluding
unfinished rows would favour the slowest transport. UDP flows that ended have neither. `summary` is one row; nested
names are joined by an underscore.

The SQL query selects samples, and `take` reduces the samples with equal keys to one number. Each number therefore
carries its number of samples, and a percentile the number of samples beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pauseframe._core import RunError
from pauseframe.results import load
from pauseframe.results.percentiles import beyond
from pauseframe.sweep.results import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from pauseframe.reproduce.spec import Metric, Size

TABLES = ("flows", "queries", "ports", "series", "jobs", "ranks", "deadlocks")
"""Tables that SQL queries may use."""


@dataclass(frozen=True)
class Row:
    """A number from a run."""

    metric: str
    at: dict[str, JsonValue]
    """The key columns of the number's row."""
    value: float | None
    samples: int = 1
    beyond: float | None = None
    """Number of samples beyond a percentile; None for other reductions."""


def measure(folder: Path, metrics: Mapping[str, Metric], size: Size = "full") -> list[Row]:
    """All metrics of a run, by name. Raises RunError that names the metric whose SQL fails."""
    run = load(folder)
    summary = pl.DataFrame([{key.replace(".", "_"): value for key, value in flat(run.summary).items()}])
    end = float(run.summary["sim_time_s"]) * 1e6
    tables = {name: pl.scan_parquet(folder / f"{name}.parquet", glob=False) for name in TABLES}
    for name in ("flows", "queries"):
        tables[name] = _with_age(tables[name], end)
    tables["flows"] = _without_stopped_ages(tables["flows"])
    context = pl.SQLContext(frames={**tables, "summary": summary.lazy()})
    rows = []
    for name, metric in metrics.items():
        try:
            frame = context.execute(metric.sql).collect()
        except pl.exceptions.PolarsError as error:
            raise RunError(f"metric {name}: {error}") from error
        rows += _rows(name, frame, metric.taken(size))
    return rows


def _with_age(frame: pl.LazyFrame, end: float) -> pl.LazyFrame:
    age = pl.coalesce("fct_us", pl.max_horizontal(pl.lit(end) - pl.col("start_us"), 0.0))
    return frame.with_columns(age.alias("age_us"), (age / pl.col("ideal_fct_us")).alias("slowdown_or_age"))


def _without_stopped_ages(flows: pl.LazyFrame) -> pl.LazyFrame:
    """UDP flows with a size stop when their last datagram has arrived or is lost: they are no unfinished rows."""
    is_stopped = pl.col("size_bytes").is_not_null() & (pl.col("status").cast(pl.String) == "stopped")
    return flows.with_columns(pl.when(~is_stopped).then(name).alias(name) for name in ("age_us", "slowdown_or_age"))


def _rows(metric: str, frame: pl.DataFrame, take: str) -> list[Row]:
    if "value" not in frame.columns:
        if len(frame.columns) != 1:
            raise RunError(f"metric {metric}: name the column that is its value `value`")
        frame = frame.rename({frame.columns[0]: "value"})
    keys = [column for column in frame.columns if column != "value"]
    if take == "value":
        return [
            Row(metric, {key: row[key] for key in keys}, _number(row["value"])) for row in frame.iter_rows(named=True)
        ]
    groups = frame.group_by(keys, maintain_order=True) if keys else [((), frame)]
    return [_taken(metric, dict(zip(keys, key, strict=True)), group["value"], take) for key, group in groups]


def _taken(metric: str, at: dict[str, JsonValue], values: pl.Series, take: str) -> Row:
    values = values.drop_nulls().cast(pl.Float64)
    if values.is_empty():
        return Row(metric, at, None, 0)
    if take in TAKEN:
        return Row(metric, at, _number(TAKEN[take](values)), values.len())
    share = float(take.removeprefix("p")) / 100
    return Row(
        metric,
        at,
        _number(values.quantile(share, "linear")),
        values.len(),
        beyond=beyond(values.len(), share),
    )


def _std(values: pl.Series) -> Any:
    return values.std() if values.len() > 1 else 0.0


TAKEN: dict[str, Callable[[pl.Series], Any]] = {
    "mean": pl.Series.mean,
    "median": pl.Series.median,
    "min": pl.Series.min,
    "max": pl.Series.max,
    "sum": pl.Series.sum,
    "std": _std,
    "cov": lambda values: _std(values) / values.mean(),
    "geometric_mean": lambda values: math.exp(float(values.log().sum()) / values.len()),
}
"""Reductions of samples; percentiles are also allowed, interpolated between the two nearest samples."""


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
