"""The table of operations on storage: rates and latencies by workload, of reads and of writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pauseframe._percentiles import SHARES, TITLES, marked
from pauseframe._text import format_count, format_rate, format_us
from pauseframe.report.summary import SummaryTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.report.data import RunData

QUANTILES = ("p50", "p99", "p999")


def operations(run: RunData) -> pl.DataFrame:
    """One row per workload and operation of the finished operations.

    Columns: workload, operation, count, per_second, bits_per_second (application bytes in both directions), mean_us,
    p50_us, p99_us, p999_us. Rates are over the time from the first start to the last end of the workload's operations.
    """
    if "operation" not in run.flows.collect_schema().names():
        return pl.DataFrame()
    flows = run.flows.with_columns(pl.col("workload", "operation").cast(pl.String))
    flows = flows.filter((pl.col("operation") != "") & pl.col("fct_us").is_not_null())
    seconds = (pl.col("finish_us").max() - pl.col("start_us").min()).over("workload") / 1e6
    quantiles = [pl.col("fct_us").quantile(SHARES[name]).alias(f"{name}_us") for name in QUANTILES]
    return (
        flows.with_columns(seconds.alias("seconds"))
        .group_by("workload", "operation")
        .agg(
            pl.len().alias("count"),
            (pl.len() / pl.col("seconds").first()).alias("per_second"),
            (8 * (pl.col("size_bytes") + pl.col("reply_bytes")).sum() / pl.col("seconds").first()).alias(
                "bits_per_second"
            ),
            pl.col("fct_us").mean().alias("mean_us"),
            *quantiles,
        )
        .sort("workload", "operation")
        .collect()
    )


def operations_table(runs: Sequence[RunData]) -> SummaryTable | None:
    """The table of a report; None if no run has operations."""
    rows: list[tuple[str, list[str], list[tuple[str, str]]]] = []
    for run in runs:
        for row in operations(run).iter_rows(named=True):
            cells = [
                format_count(row["count"]),
                format_count(row["per_second"]),
                format_rate(row["bits_per_second"]),
                format_us(row["mean_us"]),
                *(marked(format_us(row[f"{name}_us"]), row["count"], SHARES[name]) for name in QUANTILES),
            ]
            rows.append((f"{run.label}: {row['workload']}, {row['operation']}", [], [(text, "") for text in cells]))
    if not rows:
        return None
    columns = ["finished", "per second", "throughput", "mean", *(TITLES[name] for name in QUANTILES)]
    return SummaryTable([("operations", 3), ("latency", 4)], columns, rows)
