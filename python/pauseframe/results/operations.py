"""Operations on storage: rates and latencies by workload, of reads and of writes."""

from __future__ import annotations

from typing import Any

import polars as pl

from pauseframe.results.percentiles import SHARES, TITLES, marked
from pauseframe.terminal.text import format_count, format_rate, format_us

QUANTILES = ("p50", "p99", "p999")
COLUMNS = ("finished", "per second", "throughput", "mean", *(TITLES[name] for name in QUANTILES))
"""Headings of `cells`."""


def operations(flows: pl.LazyFrame) -> pl.DataFrame:
    """One row per workload and operation of the finished operations in a table of flows.

    Columns: workload, operation, count, per_second, bits_per_second (application bytes in both directions), mean_us,
    p50_us, p99_us, p999_us. Rates are over the time from the first start to the last end of the workload's operations.
    """
    if "operation" not in flows.collect_schema().names():
        return pl.DataFrame()
    flows = flows.with_columns(pl.col("workload", "operation").cast(pl.String))
    flows = flows.filter((pl.col("operation") != "") & pl.col("fct_us").is_not_null())
    seconds = (pl.col("finish_us").max() - pl.col("start_us").min()).over("workload") / 1e6
    quantiles = [pl.col("fct_us").quantile(SHARES[name], "linear").alias(f"{name}_us") for name in QUANTILES]
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


def cells(row: dict[str, Any]) -> list[str]:
    """The texts of a row of `operations`, below `COLUMNS`."""
    return [
        format_count(row["count"]),
        format_count(row["per_second"]),
        format_rate(row["bits_per_second"]),
        format_us(row["mean_us"]),
        *(marked(format_us(row[f"{name}_us"]), row["count"], SHARES[name]) for name in QUANTILES),
    ]
