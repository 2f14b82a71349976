"""Applications in the report: times of jobs beside their reference times, and activities of ranks.

A rank computes, waits for other ranks, or waits until its own messages have left; before its job and after its last
step it is idle. Activities are drawn as shares of small intervals, and many ranks are grouped, so that a page has the
same size for a thousand ranks as for fifty; `pauseframe export perfetto` has every activity.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, cast

import polars as pl

from pauseframe import steps
from pauseframe.report import figures
from pauseframe.terminal.text import ACTIVITIES, activity_shares, format_bytes, format_count, format_number, format_us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Axis, Figure, Layout, Trace
    from pauseframe.steps import Table

TIMES = ("job", "application", "ranks", "start", "took", "ideal", "slowdown", "alone", "interference")
DEEDS = ("job", *ACTIVITIES, "messages", "bytes", "connections")
COLUMNS = 400
"""Number of intervals of a timeline."""
ROWS = 128
"""Maximum number of ranks, or groups of them, in a figure."""
SHOWN = 12
"""Maximum number of jobs with a figure; the others are in the tables."""
BARS = 40
STUCK = 6
Reference = Literal["slowdown", "interference"]
REFERENCES: tuple[tuple[Literal["ideal_us", "alone_us"], str, str], ...] = (
    ("ideal_us", "on ideal hardware", "line-ns-open"),
    ("alone_us", "alone", "diamond"),
)
"""Times of a job beside its own run time: column, label, and marker symbol."""
SPREAD = 4.0
"""Ratio of job times above which jobs get separate axes."""


class JobRow(TypedDict):
    """The columns of `jobs` that the report reads (docs/reference/results.md)."""

    job: str
    application: str
    ranks: int
    start_us: float
    finish_us: float | None
    time_us: float | None
    ideal_us: float | None
    slowdown: float | None
    alone_us: float | None
    interference: float | None
    compute_us: float
    waiting_us: float
    sending_us: float
    messages: int
    message_bytes: int
    connections: int
    waits_for: str


@dataclass(frozen=True)
class Job:
    """An application of a run: its row of `jobs`, and the ranks."""

    run: int
    label: str
    row: JobRow
    ranks: pl.DataFrame
    timeline: pl.DataFrame
    """The job's timeline; empty if the scenario did not record one."""
    end_us: float
    """End of the job, or of the run if the job did not finish."""

    @property
    def name(self) -> str:
        """Name of the job's workload."""
        return self.row["job"]

    @property
    def start_us(self) -> float:
        """Start of the job's ranks."""
        return self.row["start_us"]

    @property
    def per_row(self) -> int:
        """Number of ranks that one row of a figure shows."""
        return -(-self.row["ranks"] // ROWS)


@dataclass(frozen=True)
class JobTable:
    """A table with some columns about jobs."""

    columns: Sequence[str]
    rows: list[tuple[int, str, list[str]]]
    """Number and label of the run, and a text for each column."""


@dataclass(frozen=True)
class Steps:
    """Training steps and collectives of a run: tables, and critical paths with their causes as sentences."""

    run: int
    label: str
    tables: list[Table]
    paths: list[list[str]]


@dataclass(frozen=True)
class Section:
    """The template's data about applications: numbers of figures in the page, with their headings."""

    alone: bool
    """True if some job also ran alone."""
    tables: list[JobTable]
    steps: list[Steps]
    stuck: list[tuple[Job, list[str]]]
    """Unfinished jobs, with the operations that their ranks wait for."""
    references: list[tuple[str, int]]
    clocks: list[tuple[str, int]]
    lines: list[tuple[str, int, int]]
    """Figures of the ranks' activities over time, and of their shares."""
    ranks: list[tuple[str, int]]
    left: int
    """Number of jobs that appear only in tables."""
    unrecorded: list[str]
    """Names of jobs without a timeline."""


def jobs(runs: Sequence[RunData]) -> list[Job]:
    """The applications of all runs, in the order of the runs and of their workloads."""
    found = []
    for number, run in enumerate(runs):
        rows = _collected(run.jobs)
        ranks, timeline = _collected(run.ranks), _collected(run.timeline)
        end_us = float(run.summary["sim_time_s"]) * 1e6
        for row in rows.iter_rows(named=True):
            end = end_us if row["finish_us"] is None else row["finish_us"]
            mine = _of(ranks, row["job"]), _of(timeline, row["job"])
            found.append(Job(number, run.label, cast("JobRow", row), *mine, max(end, row["start_us"])))
    return found


def _of(table: pl.DataFrame, job: str) -> pl.DataFrame:
    return table.filter(pl.col("job") == job) if len(table) else table


def _collected(table: pl.LazyFrame | None) -> pl.DataFrame:
    if table is None:
        return pl.DataFrame()
    frame = table.collect()
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def section(runs: Sequence[RunData], add: Callable[[Figure], int]) -> Section | None:
    """The template's data about applications, or None without any application. `add` assigns a number to a figure."""
    found = jobs(runs)
    if not found:
        return None
    references: list[tuple[str, Reference]] = [
        ("Slowdown: time over that on ideal hardware", "slowdown"),
        ("Interference: time over that of the job alone", "interference"),
    ]
    # A job may have a reference that is later than its own end.
    ends = [job.start_us + (job.row[key] or 0.0) for job in found for key, _, _ in REFERENCES]
    drawn, until_us = found[:SHOWN], 1.02 * max(*(job.end_us for job in found), *ends)
    return Section(
        alone=any(job.row["alone_us"] is not None for job in found),
        tables=_tables(found),
        steps=[_steps(number, run) for number, run in enumerate(runs) if any(job.run == number for job in found)],
        stuck=[(job, _stuck(job)) for job in found if job.row["waits_for"]],
        references=[
            (title, add(figure)) for title, key in references if (figure := reference_figure(found, key)) is not None
        ],
        clocks=[
            (run.label, add(clock_figure(mine, until_us) | {"run": number}))
            for number, run in enumerate(runs)
            if (mine := [job for job in found if job.run == number])
        ],
        lines=[
            (
                f"{job.name} in {job.label}",
                add(_bands(job, drawn) | {"run": job.run}),
                add(_shares(job, drawn) | {"run": job.run}),
            )
            for job in drawn
            if len(job.timeline)
        ],
        ranks=[(f"{job.name} in {job.label}", add(rank_figure(job))) for job in drawn if len(job.ranks)],
        left=len(found) - len(drawn),
        unrecorded=sorted({job.name for job in drawn if not len(job.timeline)}),
    )


def _steps(number: int, run: RunData) -> Steps:
    return Steps(number, run.label, steps.tables(run), [one.lines() for one in steps.explain(run)])


def _tables(found: Sequence[Job]) -> list[JobTable]:
    """Two tables, so that all columns fit on a screen: one of times, one of activities of ranks and connections."""
    cells = [(job.run, job.label, _cells(job)) for job in found]
    return [
        JobTable(names, [(run, label, [texts[name] for name in names]) for run, label, texts in cells])
        for names in (TIMES, DEEDS)
    ]


def _cells(job: Job) -> dict[str, str]:
    """The cells of the tables of jobs, by column."""
    row = job.row
    return {
        "job": job.name,
        "application": row["application"],
        "ranks": format_count(row["ranks"]),
        "start": format_us(row["start_us"]),
        "took": format_us(row["time_us"]) if row["time_us"] is not None else "not finished",
        "ideal": format_us(row["ideal_us"]),
        "slowdown": format_number(row["slowdown"]),
        "alone": format_us(row["alone_us"]),
        "interference": format_number(row["interference"]),
        **dict(zip(ACTIVITIES, activity_shares(row, job.end_us), strict=True)),
        "messages": format_count(row["messages"]),
        "bytes": format_bytes(row["message_bytes"]),
        "connections": format_count(row["connections"]),
    }


def _stuck(job: Job) -> list[str]:
    waits = job.row["waits_for"].split("; rank ")
    lines = [waits[0], *(f"rank {wait}" for wait in waits[1:])]
    return lines if len(lines) <= STUCK else [*lines[:STUCK], f"and {len(lines) - STUCK} more ranks"]


def reference_figure(found: Sequence[Job], key: Reference) -> Figure | None:
    """Bars of `slowdown` or `interference`: a group per job, a bar per run; None if no job has a value."""
    names = list(dict.fromkeys(job.name for job in found))[:BARS]
    traces: list[Trace] = []
    for number, label in dict.fromkeys((job.run, job.label) for job in found):
        known = {job.name: job.row[key] for job in found if job.run == number and job.row[key] is not None}
        shown = [name for name in names if name in known]
        traces.append(
            {
                "type": "bar",
                "name": label,
                "x": shown,
                "y": [known[name] for name in shown],
                "meta": {"run": number},
                "hovertemplate": "%{y:.4~g}<extra>%{fullData.name}</extra>",
            }
        )
    if not any(trace["y"] for trace in traces):
        return None
    one = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": {"width": 1, "dash": "dot"}}
    x_axis: Axis = {"type": "category", "categoryorder": "array", "categoryarray": names}
    layout: Layout = {"barmode": "group", "shapes": [one]}
    return figures.plot(traces, x_axis, {"rangemode": "tozero", "title": f"{key} (×)"}, layout, 300)


def clock_figure(mine: Sequence[Job], until_us: float) -> Figure:
    """The jobs of one run on a common time axis: one bar per job, with marks for its end alone and on ideal hardware.

    `until_us`, the end of the axis, is the same for all runs of a page.
    """
    mine = mine[:BARS]
    x_axis, per_us = figures.time_axis(until_us / 1e6), 1e-6
    names = [job.name for job in mine]
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "name": "in this run",
        "y": names,
        "base": [job.start_us * per_us for job in mine],
        "x": [(job.end_us - job.start_us) * per_us for job in mine],
        "text": ["" if job.row["time_us"] is not None else "not finished" for job in mine],
        "textposition": "inside",
        "customdata": [_times(job) for job in mine],
        "meta": {"run": mine[0].run},
        "hovertemplate": "%{customdata}<extra>%{y}</extra>",
    }
    traces: list[Trace] = [bars]
    for key, name, symbol in REFERENCES:
        known = [(job, time) for job in mine if (time := job.row[key]) is not None]
        if known:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "y": [job.name for job, _ in known],
                    "x": [(job.start_us + time) * per_us for job, time in known],
                    "marker": {"symbol": symbol, "size": 22 if symbol == "line-ns-open" else 9, "line": {"width": 3}},
                    "meta": {"paint": "ink"},
                    "hovertemplate": f"{name}: ends at %{{x}}<extra>%{{y}}</extra>",
                }
            )
    y_axis: Axis = {"autorange": "reversed", "automargin": True, "type": "category"}
    return figures.plot(traces, x_axis, y_axis, {"showlegend": True, "bargap": 0.35}, 120 + 34 * len(mine))


def _times(job: Job) -> str:
    row = job.row
    lines = [f"took {format_us(row['time_us'])}" if row["time_us"] is not None else "not finished"]
    times = {"alone": row["alone_us"], "ideal": row["ideal_us"]}
    lines += [f"{name} {format_us(time)}" for name, time in times.items() if time]
    return "<br>".join(lines)


def rank_figure(job: Job) -> Figure:
    """Total compute, waiting and sending time of each rank; means of neighbours if there are many ranks."""
    group = pl.col("rank") // job.per_row
    means = job.ranks.group_by(group.alias("row")).agg([pl.col(f"{it}_us").mean() for it in ACTIVITIES]).sort("row")
    scale, unit = figures.time_unit(job.row["compute_us"] / 1e6 + (job.end_us - job.start_us) / 1e6)
    names = _row_names(job)
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": activity,
            "x": [row * job.per_row + (job.per_row - 1) / 2 for row in means["row"].to_list()],
            "y": figures.short([value / 1e6 * scale for value in means[f"{activity}_us"].to_list()]),
            "customdata": [names[row] for row in means["row"].to_list()],
            "width": job.per_row,
            "meta": {"paint": activity},
            "hovertemplate": f"%{{customdata}}<br>{activity} %{{y:.4~g}} {unit}<extra></extra>",
        }
        for activity in ACTIVITIES
    ]
    title = "rank" if job.per_row == 1 else f"rank (means of {job.per_row})"
    y_axis: Axis = {"rangemode": "tozero", "title": f"time ({unit})"}
    return figures.plot(traces, {"title": title}, y_axis, {"barmode": "stack", "bargap": 0, "showlegend": True}, 260)


def _row_names(job: Job) -> list[str]:
    """Names of a figure's rows: the ranks of each row."""
    if job.per_row == 1:
        return [f"rank {rank} on {host}" for rank, host in job.ranks.sort("rank").select("rank", "host").rows()]
    last = job.row["ranks"] - 1
    return [f"ranks {first}–{min(first + job.per_row - 1, last)}" for first in range(0, last + 1, job.per_row)]


def occupied(job: Job, per_row: int) -> pl.DataFrame:
    """Microseconds that the ranks of each row spend on each activity in each of `COLUMNS` intervals."""
    width = max((job.end_us - job.start_us) / COLUMNS, 1e-6)
    start, end = (pl.col(name) - job.start_us for name in ("start_us", "end_us"))
    last = pl.max_horizontal(((end / width).ceil() - 1).cast(pl.Int64).clip(0, COLUMNS - 1), pl.col("first"))
    column = pl.col("column")
    inside = pl.min_horizontal(end, (column + 1) * width) - pl.max_horizontal(start, column * width)
    spent = [pl.col("spent").filter(pl.col("activity") == activity).sum().alias(activity) for activity in ACTIVITIES]
    return (
        job.timeline.lazy()
        .with_columns((start / width).floor().cast(pl.Int64).clip(0, COLUMNS - 1).alias("first"))
        .with_columns(pl.int_ranges("first", last + 1).alias("column"))
        .explode("column")
        .with_columns(inside.clip(0.0).alias("spent"), (pl.col("rank") // per_row).cast(pl.Int64).alias("row"))
        .group_by("row", "column")
        .agg(spent)
        .sort("row", "column")
        .collect()
    )


def _bands(job: Job, found: Sequence[Job]) -> Figure:
    """A row per rank, a column per interval; the colour mixes the activities. Each activity has one byte (255ths)."""
    per_row = job.per_row
    table = occupied(job, per_row)
    rows = -(-job.row["ranks"] // per_row)
    width = max((job.end_us - job.start_us) / COLUMNS, 1e-6)
    there = [min(per_row, job.row["ranks"] - row * per_row) for row in range(rows)]
    cells = bytearray(rows * COLUMNS * len(ACTIVITIES))
    for row, column, *spent in table.select("row", "column", *ACTIVITIES).iter_rows():
        at = (row * COLUMNS + column) * len(ACTIVITIES)
        cells[at : at + len(ACTIVITIES)] = bytes(min(255, round(255 * it / (width * there[row]))) for it in spent)
    per_us, x_axis = _axis(job, found)
    trace: Trace = {
        "type": "image",
        "name": job.name,
        "x0": (job.start_us + width / 2) * per_us,
        "dx": width * per_us,
        "y0": (per_row - 1) / 2,
        "dy": per_row,
        "meta": {"bands": base64.b64encode(cells).decode("ascii"), "columns": COLUMNS, "names": _row_names(job)},
        "hovertemplate": "%{text}<extra></extra>",
    }
    title = "rank" if per_row == 1 else f"rank (rows of {per_row})"
    y_axis: Axis = {"range": [job.row["ranks"] - 0.5, -0.5], "title": title, "scaleanchor": False, "showgrid": False}
    x_axis["showgrid"] = False
    return figures.plot([trace], x_axis, y_axis, {"showlegend": False}, min(460, 150 + 6 * rows))


def _shares(job: Job, found: Sequence[Job]) -> Figure:
    """Stacked areas of the number of ranks that compute, wait and send over time."""
    width = max((job.end_us - job.start_us) / COLUMNS, 1e-6)
    table = occupied(job, job.row["ranks"])
    whole = pl.DataFrame({"column": range(COLUMNS)}).join(table, on="column", how="left", maintain_order="left")
    per_us, x_axis = _axis(job, found)
    times = figures.short([(job.start_us + column * width) * per_us for column in range(COLUMNS + 1)], 6)
    traces: list[Trace] = []
    for activity in ACTIVITIES:
        values = [value / width for value in whole[activity].fill_null(0.0).to_list()]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": activity,
                "x": times,
                "y": figures.short([*values, values[-1]]),
                "stackgroup": "ranks",
                "line": {"shape": "hv", "width": 0},
                "meta": {"paint": activity},
                "hovertemplate": f"%{{y:.3~g}} {activity}<extra></extra>",
            }
        )
    y_axis: Axis = {"range": [0, job.row["ranks"]], "title": f"ranks, mean of {format_us(width)}"}
    return figures.plot(traces, x_axis, y_axis, {"showlegend": True, "hovermode": "x unified"}, 300)


def _axis(job: Job, found: Sequence[Job]) -> tuple[float, Axis]:
    """Seconds per microsecond, and the axis; equal for all runs of a job unless one run is far longer."""
    same = [other for other in found if other.name == job.name and len(other.timeline)]
    spans = [other.end_us - other.start_us for other in same]
    if max(spans) > SPREAD * max(min(spans), 1e-9):
        same = [job]
    begin, end = min(other.start_us for other in same), max(other.end_us for other in same)
    return 1e-6, figures.time_axis(end / 1e6) | {"range": [begin / 1e6, end / 1e6]}
