"""Tables of a run with applications: iterations, collectives, stragglers, and the hottest links.

The terminal and the report show the same tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from pauseframe.steps.links import hottest
from pauseframe.terminal.text import MISSING, OF_JOB, format_bytes, format_count, format_number, format_us

if TYPE_CHECKING:
    from pauseframe.report.data import RunData

SHOWN = 12
"""Maximum number of rows of a table."""
GROUPS = ("tp", "cp", "dp", "ep", "pp", "checkpoint")
"""Kinds of groups whose exposed communication `jobs` has, and checkpoints to storage."""
LATE = 1.01
"""Ratio of a rank's compute time to the median above which it is a straggler."""


class Table(NamedTuple):
    """A title, headings and rows of texts; the first column is text, the others are numbers."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def frame_of(table: pl.LazyFrame | None) -> pl.DataFrame:
    """A table of a run with texts in place of categories; empty if the run does not have it."""
    frame = pl.DataFrame() if table is None else table.collect()
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)) if frame.columns else frame


def tables(run: RunData) -> list[Table]:
    """The tables of a run; none without applications."""
    jobs = frame_of(run.jobs)
    if jobs.is_empty():
        return []
    found = [iterations(jobs), collectives(frame_of(run.collectives)), stragglers(frame_of(run.ranks)), links(run)]
    return [table for table in found if table is not None]


def iterations(jobs: pl.DataFrame) -> Table | None:
    """Iteration time, and what ranks spend it on; None without a job of training."""
    if "iteration_us" not in jobs.columns:
        return None
    jobs = jobs.filter(pl.col("iteration_us").is_not_null())
    # Results of earlier versions have fewer kinds of groups.
    groups = [group for group in GROUPS if f"exposed_{group}_us" in jobs.columns]
    rows = []
    for job in jobs.iter_rows(named=True):
        parts = [job["compute_us"], *(job[f"exposed_{group}_us"] for group in groups), job["bubble_us"]]
        whole = sum(part or 0.0 for part in parts)
        shares = [f"{part / whole:.1%}" if part is not None and whole else MISSING for part in parts]
        rows.append([job["job"], format_us(job["iteration_us"]), *shares])
    if not rows:
        return None
    heads = ["job", "iteration", "compute", *(f"exposed {_heading(group)}" for group in groups), "bubble"]
    exposed = "Exposed: a rank waits for communication of this kind of group, or for checkpoints."
    bubble = "Bubble: it waits for another stage, or has finished before the last rank."
    note = f"{exposed} {bubble} Compute, exposed and bubble: {OF_JOB}."
    return Table("training steps", heads, rows, note)


def _heading(group: str) -> str:
    """Kinds of groups are abbreviations."""
    return group.upper() if len(group) == 2 else f"{group}s"


def summary_of_collectives(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls of the same kind, group and size together: count, mean and worst time, mean bandwidths."""
    took = pl.col("end_us") - pl.col("ready_us")
    keys = ["job", "kind", "group", "ranks", "bytes", "algorithm"]
    return (
        calls.with_columns(took.alias("took"))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.len().alias("calls"),
            pl.col("took").is_null().sum().alias("unfinished"),
            pl.col("took").mean().alias("mean_us"),
            pl.col("took").max().alias("worst_us"),
            pl.col("algbw_gb_per_s").mean().alias("algbw"),
            pl.col("busbw_gb_per_s").mean().alias("busbw"),
            pl.col("took").sum().alias("all_us"),
        )
        .sort("all_us", descending=True, maintain_order=True)
    )


def collectives(calls: pl.DataFrame) -> Table | None:
    """Collectives by kind, group and size, the longest in all first."""
    if calls.is_empty():
        return None
    summary = summary_of_collectives(calls)
    rows = [
        [
            f"{row['kind']} {row['group']}".strip(),
            row["algorithm"],
            format_count(row["ranks"]),
            format_bytes(row["bytes"]),
            format_count(row["calls"]) + (f" ({row['unfinished']} unfinished)" if row["unfinished"] else ""),
            format_us(row["mean_us"]),
            format_us(row["worst_us"]),
            format_number(row["algbw"]),
            format_number(row["busbw"]),
        ]
        for row in summary.head(SHOWN).iter_rows(named=True)
    ]
    left = len(summary) - len(rows)
    note = "Times from the last rank that begins to the last that ends; GB/s of 10^9 bytes, as nccl-tests counts them."
    more = f" {left} more kinds and sizes are in the table collectives." if left > 0 else ""
    heads = ["collective", "algorithm", "ranks", "size", "calls", "mean", "worst", "algbw GB/s", "busbw GB/s"]
    return Table("collectives", heads, rows, note + more)


def stragglers(ranks: pl.DataFrame) -> Table | None:
    """Ranks that compute longer than the median of their job."""
    if ranks.is_empty():
        return None
    median = pl.col("compute_us").median().over("job")
    late = ranks.with_columns(median.alias("median")).filter(
        (pl.col("median") > 0) & (pl.col("compute_us") > LATE * pl.col("median"))
    )
    late = late.sort(pl.col("compute_us") - pl.col("median"), descending=True).head(5)
    rows = [
        [
            f"{row['job']}, rank {row['rank']} on {row['host']}",
            format_us(row["compute_us"]),
            format_us(row["median"]),
            f"{row['compute_us'] / row['median'] - 1:+.1%}",
        ]
        for row in late.iter_rows(named=True)
    ]
    heads = ["rank", "compute", "median of its job", "more"]
    return Table("stragglers", heads, rows) if rows else None


def links(run: RunData) -> Table | None:
    """The five hottest links, with the kinds of traffic on them."""
    rows = [
        [
            f"{link.port} → {link.peer}",
            f"{link.utilisation:.0%}",
            format_bytes(link.backlog_max),
            format_us(link.paused_us) if link.paused_us else "0",
            format_count(link.marks),
            link.traffic,
        ]
        for link in hottest(run)
    ]
    heads = ["link", "utilisation", "longest queue", "paused", "marks", "traffic"]
    return Table("hottest links", heads, rows) if rows else None
