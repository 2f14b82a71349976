"""How long the network segments of a critical path would take on an idle fabric.

A collective takes as long as its bytes need on the NICs of a server, and its steps on the paths: the larger part of
S * 2(n-1)/n (all-reduce) or S * (n-1)/n has to pass the NICs. The fastest call of the same kind, group and size in the
run is an upper bound. A message of a pipeline or of a ring of context parallelism takes its bytes on one NIC, a
checkpoint those of the busiest NIC. What stays inside of a server uses no frames, so what it takes is expected.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.steps.idle import Idle
    from pauseframe.steps.path import Segment
    from pauseframe.steps.schedule import Schedule

Row = dict[str, object]
STORAGE = "receive from storage "


class Recorded(NamedTuple):
    """What a run recorded about a job: timeline, calls of collectives, and the path through both."""

    rows: pl.DataFrame
    calls: pl.DataFrame | None
    path: list[Segment]


class Delayed(NamedTuple):
    """A part of a path that takes longer than on an idle fabric, by so many microseconds."""

    longer: float
    places: frozenset[int | str]
    """Its ranks, and storage by name."""


class Excess(NamedTuple):
    """How the network part of a path compares with an idle fabric; times in microseconds."""

    longer: float
    expected: float
    parts: list[Delayed]
    """The parts that take longer; empty if they are not known."""


def least_us(call: Mapping[str, object], idle: Idle, load: float | None = None) -> float | None:
    """Time of a call on an idle fabric; None if it stays inside of a server, or is not known.

    `load` is the share of an uneven exchange that the busiest member receives or sends.
    """
    ranks, size = int(str(call["ranks"])), float(str(call["bytes"]))
    local, servers = idle.spread(str(call["group"]), int(str(call["group_number"])), ranks)
    if servers < 2 or not idle.rate:
        return None
    if call["kind"] == "alltoallv" and load is None:
        return None
    if call["kind"] in ("alltoall", "alltoallv"):
        return idle.exchange_us(size * (load if load is not None else 1 / ranks), ranks - local)
    rounds = 2 if call["kind"] == "allreduce" else 1
    nics = min(idle.collectives.channels or local, local)
    if call["algorithm"] == "tree":
        depth = rounds * (math.log2(servers) + local)
        return rounds * size / nics * idle.flow_us + depth * idle.step_us + rounds * math.log2(servers) * idle.delay
    steps = rounds * (ranks - 1)
    return idle.ring_us(size / ranks / nics, steps, math.ceil(steps * servers / ranks))


@dataclass(frozen=True)
class Expectation:
    """The expected times of a job's calls and messages."""

    recorded: Recorded
    schedule: Schedule

    @property
    def idle(self) -> Idle:
        """The idle network."""
        return self.schedule.idle

    @cached_property
    def _calls(self) -> list[Row]:
        calls = self.recorded.calls
        return [] if calls is None else calls.to_dicts()

    @cached_property
    def _waits(self) -> Counter[tuple[int, str]]:
        """Number of waits of a rank in a step."""
        waits = self.recorded.rows.filter(pl.col("activity") == "waiting")
        return Counter(waits.select("rank", "step").rows())

    @cached_property
    def _ends(self) -> list[float | None]:
        """When each call would have ended on an idle fabric: calls of a group go one after the other."""
        fastest: dict[tuple[object, ...], float] = {}
        keys = ("kind", "group", "ranks", "bytes")
        for call in self._calls:
            if call["end_us"] is not None and call["kind"] != "alltoallv":
                key = tuple(call[one] for one in keys)
                fastest[key] = min(fastest.get(key, math.inf), _time(call["end_us"]) - _time(call["ready_us"]))
        ends: list[float | None] = [None] * len(self._calls)
        before: dict[tuple[object, object], float] = {}
        for at in sorted(range(len(self._calls)), key=lambda at: (_time(self._calls[at]["start_us"]), at)):
            call = self._calls[at]
            least = least_us(call, self.idle, self._load(call) if call["kind"] == "alltoallv" else None)
            if least is not None:
                least = min(least, fastest.get(tuple(call[one] for one in keys), math.inf))
                group = (call["group"], call["group_number"])
                ends[at] = before[group] = max(_time(call["ready_us"]), before.get(group, 0.0)) + least
        return ends

    def _load(self, call: Row) -> float | None:
        """The largest share of an exchange of tokens: experts compute in proportion to what they receive."""
        if self.idle.sizes is None:
            return None
        is_before = (call["layer"] == "moe_dispatch") == (call["phase"] == "fp")
        ready = _time(call["ready_us"])
        loads = []
        for rank in self.idle.members(str(call["group"]), int(str(call["group_number"]))):
            rows = self.schedule.computed.get(rank, [])
            at = bisect_left(rows, (ready - 1e-3, 0.0)) if is_before else bisect_left(rows, (ready, 0.0)) - 1
            loads.append(rows[at][1] - rows[at][0] if 0 <= at < len(rows) else 0.0)
        return max(loads) / sum(loads) if sum(loads) else None

    def _beside(self, at: int) -> float:
        """Time that calls of other groups of the job, which share the NICs, take from a call."""
        call = self._calls[at]
        ready, end = _time(call["ready_us"]), _time(call["end_us"])
        least = least_us(call, self.idle, self._load(call) if call["kind"] == "alltoallv" else None) or 0.0
        shared: dict[str, dict[object, float]] = defaultdict(lambda: defaultdict(float))
        for other in self._overlapping(ready, end):
            if other["group"] != call["group"]:
                size = least_us(other, self.idle) or 0.0
                overlap = min(_time(other["end_us"]), end) - max(_time(other["ready_us"]), ready)
                shared[str(other["group"])][other["group_number"]] += min(size, overlap)
        return sum(min(max(of_kind.values()), least) for of_kind in shared.values())

    @cached_property
    def _ready(self) -> tuple[list[float], list[Row], float]:
        done = sorted(
            (call for call in self._calls if call["end_us"] is not None), key=lambda call: _time(call["ready_us"])
        )
        longest = max((_time(call["end_us"]) - _time(call["ready_us"]) for call in done), default=0.0)
        return [_time(call["ready_us"]) for call in done], done, longest

    def _overlapping(self, start: float, end: float) -> list[Row]:
        ready, calls, longest = self._ready
        some = calls[bisect_left(ready, start - longest) : bisect_right(ready, end)]
        return [call for call in some if _time(call["end_us"]) > start and _time(call["ready_us"]) < end]

    def of_call(self, part: Segment) -> float:
        """Expected time of the part of a path that waits for a collective."""
        end = self._ends[part.call]
        if end is None:
            return part.took
        return min(max(end + self._beside(part.call) - part.start, 0.0), part.took)

    def members(self, part: Segment) -> frozenset[int | str]:
        """The ranks of the collective that a part of a path waits for."""
        call = self._calls[part.call]
        return frozenset(self.idle.members(str(call["group"]), int(str(call["group_number"]))))

    def of_message(self, part: Segment, sender: int) -> float:
        """Expected time of the part of a path from the moment that a message left to the end of its receive."""
        seen = self._waits[part.rank, part.step]
        took = self.idle.message_us(sender, part.rank, seen)
        if took is None:
            return part.took
        sent = self.schedule.sent(sender, part.rank, part.number, part.end)
        # Messages of one connection follow each other.
        if sent is None:
            return min(took, part.took)
        queued = max((left + (behind + 2) * took - sent.left for behind, left in enumerate(sent.before)), default=took)
        # Two messages that leave together share a NIC, and take twice as long.
        shared = [sum(max(took - abs(left - sent.left), 0.0) for left in others) for others in sent.beside]
        return min(max(queued, took) + max(shared, default=0.0), part.took)


def excess_of(recorded: Recorded, schedule: Schedule) -> Excess:
    """Time by which the network segments of a path take longer than on an idle fabric."""
    expectation = Expectation(recorded, schedule)
    parts: list[Delayed] = []
    network = [part for part in recorded.path if part.kind == "network"]
    stored = [part for part in network if part.step.startswith(STORAGE)]
    for part in network:
        if part.step.startswith(STORAGE):
            continue
        sender = re.match(r"receive from (\d+)$", part.step)
        if part.call >= 0:
            parts.append(Delayed(part.took - expectation.of_call(part), expectation.members(part)))
        elif sender:
            places = frozenset({part.rank, int(sender[1])})
            parts.append(Delayed(part.took - expectation.of_message(part, int(sender[1])), places))
    checkpoints, waited = schedule.idle.checkpoints_us, sum(part.took for part in stored)
    # Writes that no rank waits for go beside the steps, and share NICs with them.
    beside = max(checkpoints - waited, 0.0)
    delayed = sum(part.longer for part in parts)
    share = max(1 - beside / delayed, 0.0) if delayed else 0.0
    parts = [part._replace(longer=part.longer * share) for part in parts]
    if stored:
        ranks, storage = {part.rank for part in stored}, {part.step.removeprefix(STORAGE) for part in stored}
        parts.append(Delayed(max(waited - checkpoints, 0.0), frozenset(ranks | storage)))
    longer = sum(part.longer for part in parts)
    return Excess(longer, sum(part.took for part in network) - longer, [part for part in parts if part.longer > 0])


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
