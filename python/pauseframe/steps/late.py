"""Ranks that compute longer than others, of the computations on a critical path.

Like is compared with like. Ranks of one stage of a training job, and ranks of a job that exchanges no messages beside
its collectives, compute the same things in the same order: the n-th computation of one is that of the others. Stages
of a pipeline go forward and back at different times, so there the longest computations of all ranks are compared,
then the second longest, and so on.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pauseframe.steps.links import Parallelism
    from pauseframe.steps.path import Segment

LATE = 1.05
"""Ratio of a computation to the median of the other ranks above which it is late."""
ENOUGH = 3
"""Smallest number of ranks with a median that one late rank does not move."""


class Late(NamedTuple):
    """Computations of a rank that take longer than those of others; times in microseconds."""

    rank: int
    cost: float
    own: float
    """The latest of them."""
    usual: float
    """The median rank."""
    times: int


def late_ranks(rows: pl.DataFrame, path: Sequence[Segment], sizes: Parallelism | None) -> list[Late]:
    """The ranks that compute longer on the path than others do, the costliest first."""
    times = _durations(rows)
    usual = _usual(times, sizes, has_messages=_has_messages(rows))
    longer: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for part in path:
        if part.kind != "compute":
            continue
        expected = usual[part.rank][part.number]
        if expected and part.took > LATE * expected:
            longer[part.rank].append((part.took, expected))
    found = []
    for rank, pairs in longer.items():
        own, expected = max(pairs, key=lambda pair: pair[0] - pair[1])
        found.append(Late(rank, sum(one - other for one, other in pairs), own, expected, len(pairs)))
    return sorted(found, key=lambda late: -late.cost)


def _durations(rows: pl.DataFrame) -> dict[int, list[float]]:
    """Durations of the computations of each rank, in order of time."""
    times: dict[int, list[float]] = defaultdict(list)
    computed = rows.filter(pl.col("activity") == "compute").sort("rank", "start_us")
    for rank, start, end in computed.select("rank", "start_us", "end_us").iter_rows():
        times[rank].append(end - start)
    return times


def _has_messages(rows: pl.DataFrame) -> bool:
    """True if ranks wait for messages of other ranks, not of storage."""
    return bool(rows["step"].str.contains(r"^receive from (\d+|any)$").any())


def _usual(
    times: Mapping[int, list[float]], sizes: Parallelism | None, *, has_messages: bool
) -> dict[int, list[float]]:
    """For each computation of each rank the median duration of its counterparts; 0 if too few ranks have one."""
    stages: dict[int, list[int]] = defaultdict(list)
    for rank in times:
        stages[sizes.stage(rank) if sizes else 0].append(rank)
    found: dict[int, list[float]] = {}
    by_length = _medians(sorted(one, reverse=True) for one in times.values())
    for ranks in stages.values():
        in_turn = _medians(times[rank] for rank in ranks)
        for rank in ranks:
            if len(ranks) >= ENOUGH and (sizes is not None or not has_messages):
                found[rank] = in_turn[: len(times[rank])]
            else:
                found[rank] = _by_length(times[rank], by_length)
    return found


def _medians(sequences: Iterable[list[float]]) -> list[float]:
    """The median of the n-th elements, for each n; 0 where too few sequences have one."""
    columns: list[list[float]] = []
    for sequence in sequences:
        for at, value in enumerate(sequence):
            if at == len(columns):
                columns.append([])
            columns[at].append(value)
    return [median(column) if len(column) >= ENOUGH else 0.0 for column in columns]


def _by_length(own: list[float], medians: list[float]) -> list[float]:
    """The median of the computations with the same place by length, in order of time."""
    order = sorted(range(len(own)), key=lambda at: -own[at])
    found = [0.0] * len(own)
    for place, at in enumerate(order):
        found[at] = medians[place]
    return found
