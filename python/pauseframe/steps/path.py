"""The critical path of a job: from its last rank back to its start, over computations and waits.

Source: the recorded timeline of the ranks and, where the run has them, the calls of collectives. A wait of a
collective leads to the rank that began it last; a receive leads to its sender.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from pauseframe.steps.schedule import Schedule

EPSILON = 1e-6
"""Microseconds: times in tables are whole picoseconds."""
ENDS_WITH = 0.01
"""Microseconds between the end of a call and that of the wait for it, at most."""
MOST_AT_ONCE = 4096
"""Number of calls that may end at the same time."""
MOST = 2_000_000
"""Maximum number of activities of a job whose path is computed."""


class Activity(NamedTuple):
    """A row of the timeline."""

    start: float
    end: float
    kind: str
    step: str


@dataclass(frozen=True)
class Segment:
    """A part of the path; times in microseconds."""

    kind: Literal["compute", "network", "idle"]
    rank: int
    start: float
    end: float
    step: str
    number: int = -1
    """How many computations its rank had before, of a computation or a wait."""
    call: int = -1
    """For a wait of a collective: its row in `collectives`."""

    @property
    def took(self) -> float:
        """Duration."""
        return self.end - self.start


class Timeline:
    """The activities of a job's ranks, and the calls of its collectives."""

    def __init__(self, timeline: pl.DataFrame, calls: pl.DataFrame | None, schedule: Schedule | None) -> None:
        """Takes the rows of one job of `timeline`, and of `collectives` if the run has it."""
        self.schedule = schedule
        self.of_rank: dict[int, list[Activity]] = defaultdict(list)
        columns = ("rank", "start_us", "end_us", "activity", "step")
        for rank, start, end, kind, step in timeline.sort("rank", "start_us").select(columns).iter_rows():
            self.of_rank[rank].append(Activity(start, end, kind, step))
        self.starts = {rank: [row.start for row in rows] for rank, rows in self.of_rank.items()}
        self.numbers: dict[tuple[int, float], int] = {}
        """How many computations a rank had before an activity, by rank and start."""
        self.by_start: dict[float, list[int]] = defaultdict(list)
        self.by_step: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
        """When each rank began a wait of a step behind a number of computations."""
        for rank, rows in self.of_rank.items():
            self._number(rank, rows)
        self.calls: list[tuple[float, float, float, int]] = []
        if calls is not None and not calls.is_empty():
            done = calls.with_row_index("row").drop_nulls("end_us").sort("end_us")
            self.calls = list(done.select("end_us", "start_us", "ready_us", "row").iter_rows())
        self.ends = [call[0] for call in self.calls]

    def _number(self, rank: int, rows: list[Activity]) -> None:
        count = 0
        for row in rows:
            self.numbers[rank, row.start] = count
            if row.kind == "compute":
                count += 1
            else:
                self.by_start[row.start].append(rank)
                self.by_step[row.step, count].setdefault(rank, row.start)

    def before(self, rank: int, time: float) -> Activity | None:
        """The last activity of a rank that begins before `time`."""
        place = bisect_left(self.starts[rank], time - EPSILON) - 1
        return self.of_rank[rank][place] if place >= 0 else None

    def began(self, rank: int, wait: Activity, time: float) -> tuple[int, float, int]:
        """The rank, and the time, from which on the network alone delayed the end of a wait; the row of its call."""
        if wait.step.startswith("receive from storage "):
            return rank, wait.start, -1  # storage answers as soon as it has what the rank wrote
        if found := re.search(r"\bfrom (\d+)", wait.step):
            return (*self._sender(int(found[1]), rank, wait, time), -1)
        if self.calls:
            return self._call(rank, wait, time)
        others = self.by_step[wait.step, self.numbers[rank, wait.start]]
        start, last_rank = max((start, -other) for other, start in others.items())
        return (-last_rank, start, -1) if wait.start < start < time else (rank, wait.start, -1)

    def _sender(self, sender: int, rank: int, wait: Activity, time: float) -> tuple[int, float]:
        # In older results storage has the number of a rank, and no activities.
        if sender not in self.of_rank or sender == rank:
            return rank, wait.start
        if self.schedule and (sent := self.schedule.sent(sender, rank, self.numbers[rank, wait.start], time)):
            return sender, sent.left
        place = bisect_left(self.starts[sender], time - EPSILON)
        ends = [row.end for row in self.of_rank[sender][max(place - 2, 0) : place] if row.end < time - EPSILON]
        return sender, max(ends, default=self.of_rank[sender][0].start)

    def _call(self, rank: int, wait: Activity, time: float) -> tuple[int, float, int]:
        """The last rank that begins the collective of a wait: of the calls that fit, the one that ends first."""
        after = self.calls[bisect_left(self.ends, time - EPSILON) :][:MOST_AT_ONCE]
        for end, start, ready, row in after:
            if start <= wait.start + EPSILON and wait.start <= end and ready < time:
                ranks = self.by_start.get(ready)
                return (min(ranks), ready, row) if ranks and ready > wait.start else (rank, wait.start, row)
        # A wait for several calls, one after the other: the last of them begins within it.
        for end, _, ready, row in after:
            if end <= time + ENDS_WITH and wait.start < ready < time:
                return rank, ready, row
        return rank, wait.start, -1


def critical_path(
    timeline: pl.DataFrame, calls: pl.DataFrame | None = None, schedule: Schedule | None = None
) -> list[Segment]:
    """The segments of a job's critical path in order of time; empty if there are too many activities.

    `timeline` has the rows of one job of that table, `calls` those of `collectives`; `schedule` tells when messages
    left.
    """
    if timeline.is_empty() or len(timeline) > MOST:
        return []
    times = Timeline(timeline, calls, schedule)
    rank = max(times.of_rank, key=lambda one: (times.of_rank[one][-1].end, -one))
    time = times.of_rank[rank][-1].end
    path: list[Segment] = []
    for _ in range(len(timeline) + 1):
        row = times.before(rank, time)
        if row is None:
            break
        if row.end < time - EPSILON:
            path.append(Segment("idle", rank, row.end, time, ""))
            time = row.end
        elif row.kind == "compute":
            number = times.numbers[rank, row.start]
            path.append(Segment("compute", rank, row.start, time, row.step, number))
            time = row.start
        else:
            other, start, call = times.began(rank, row, time)
            start = min(start, time)
            number = times.numbers[rank, row.start]
            path.append(Segment("network", rank, start, time, row.step, number, call))
            rank, time = other, start
    return path[::-1]
