"""Goodput and fairness of long flows, which have no size and therefore no completion time, by transport."""

from __future__ import annotations

from typing import Any

import polars as pl

from pauseframe.terminal.text import format_count, format_number, format_rate

COLUMNS = ("flows", "goodput", "per flow, mean", "slowest", "fastest", "fairness")
"""Headings of `cells`."""
ALL = "all together"
"""Name of the row over all transports."""
NOTE = (
    "Goodput: application bytes per second, of all flows from the first start to the last end, of one from its start "
    "to its end. Fairness: Jain's index of the flows' goodput without UDP, which sends at a given rate; 1 if all are "
    "equal, 1/n if one of n flows has all."
)


def long_flows(flows: pl.LazyFrame, end_us: float) -> pl.DataFrame:
    """One row per transport of the long flows in a table of flows, and one over all if several transports have some.

    Columns: transport, flows, goodput_bps (of all, from the first start to the last end), mean_bps, min_bps and
    max_bps (each flow from its start to its end), fairness: Jain's index of the flows' rates (Jain, Chiu and Hawe,
    DEC-TR-301, 1984) without UDP flows, which never adapt; null for fewer than two. `end_us` is the end of the run.
    """
    start, end, bits = pl.col("start_us"), pl.col("end_us"), 8 * pl.col("delivered_bytes")
    is_udp = pl.col("datagrams_sent") > 0 if "datagrams_sent" in flows.collect_schema().names() else pl.lit(False)
    rates = (
        flows.filter(pl.col("size_bytes").is_null() & (start < end_us))
        .with_columns(pl.col("transport").cast(pl.String), pl.col("finish_us").fill_null(end_us).alias("end_us"))
        .with_columns((bits / (end - start) * 1e6).alias("rate"))
        .with_columns(pl.when(~is_udp).then("rate").alias("adaptive"))
        .collect()
    )
    rate, adaptive = pl.col("rate"), pl.col("adaptive")
    compared = (adaptive.count() > 1) & (adaptive.max() > 0)
    jain = pl.when(compared).then(adaptive.sum() ** 2 / (adaptive.count() * (adaptive**2).sum()))
    statistics = [
        pl.len().alias("flows"),
        (bits.sum() / (end.max() - start.min()) * 1e6).alias("goodput_bps"),
        rate.mean().alias("mean_bps"),
        rate.min().alias("min_bps"),
        rate.max().alias("max_bps"),
        jain.alias("fairness"),
    ]
    rows = rates.group_by("transport", maintain_order=True).agg(statistics)
    if len(rows) < 2:
        return rows
    return pl.concat([rows, rates.select(pl.lit(ALL).alias("transport"), *statistics)])


def cells(row: dict[str, Any]) -> list[str]:
    """The texts of a row of `long_flows`, below `COLUMNS`."""
    rates = [format_rate(row[name]) for name in ("goodput_bps", "mean_bps", "min_bps", "max_bps")]
    return [format_count(row["flows"]), *rates, format_number(row["fairness"])]
