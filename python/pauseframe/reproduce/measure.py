"""Metrics of runs: SQL over the tables of one results folder, read by polars.

`flows` and `queries` have two columns more than on disk: `age_us` and `slowdown_or_age`, the completion time and
slowdown of what finished and the time so far of what had not when the run ended. Leaving out what was cut off would
flatter the slowest transport. `summary` is one row, nested names joined by an underscore.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from pauseframe import RunError
from pauseframe.results import load
from pauseframe.sweep.results import flat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from pauseframe.reproduce.spec import Metric

TABLES = ("flows", "queries", "ports", "series", "jobs", "ranks")
"""What SQL may name."""


@dataclass(frozen=True)
class Row:
    """A number of a run."""

    metric: str
    at: dict[str, JsonValue]
    """The other columns of its row."""
    value: float | None


def measure(folder: Path, metrics: Mapping[str, Metric]) -> list[Row]:
    """All metrics of a run, by name. Raises RunError that names the metric whose SQL fails."""
    run = load(folder)
    summary = pl.DataFrame([{key.replace(".", "_"): value for key, value in flat(run.summary).items()}])
    end = float(run.summary["sim_time_s"]) * 1e6
    tables = {name: pl.scan_parquet(folder / f"{name}.parquet") for name in TABLES}
    for name in ("flows", "queries"):
        tables[name] = _with_age(tables[name], end)
    context = pl.SQLContext(frames={**tables, "summary": summary.lazy()})
    rows = []
    for name, metric in metrics.items():
        try:
            frame = context.execute(metric.sql).collect()
        except pl.exceptions.PolarsError as error:
            raise RunError(f"metric {name}: {error}") from error
        rows += _rows(name, frame)
    return rows


def _with_age(frame: pl.LazyFrame, end: float) -> pl.LazyFrame:
    age = pl.coalesce("fct_us", pl.max_horizontal(pl.lit(end) - pl.col("start_us"), 0.0))
    return frame.with_columns(age.alias("age_us"), (age / pl.col("ideal_fct_us")).alias("slowdown_or_age"))


def _rows(metric: str, frame: pl.DataFrame) -> list[Row]:
    if "value" not in frame.columns:
        if len(frame.columns) != 1:
            raise RunError(f"metric {metric}: name the column that is its value `value`")
        frame = frame.rename({frame.columns[0]: "value"})
    keys = [column for column in frame.columns if column != "value"]
    return [Row(metric, {key: row[key] for key in keys}, _number(row["value"])) for row in frame.iter_rows(named=True)]


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
