"""When the message left that a rank of training waits for.

A timeline names the sender of a message, not the moment at which it left. Both ends follow the same schedule: a rank
that has computed so many times waits for the message of one block of computations of its sender. Where the schedule is
not known, the message left at the end of an activity, and early enough to arrive on an idle fabric.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from pauseframe.steps.links import group_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.steps.idle import Idle, Messages

EPSILON = 1e-3
"""Microseconds."""


class Sent(NamedTuple):
    """A message as sent, and those beside it; times in microseconds."""

    left: float
    """When the message left."""
    before: Sequence[float] = ()
    """When those before it on the connection left, the last one first."""
    beside: Sequence[Sequence[float]] = ()
    """When others left that share the NIC of its receiver, and of its sender."""


class Turn(NamedTuple):
    """A micro-batch passes a chunk of layers of a stage."""

    is_forward: bool
    batch: int
    chunk: int


class Blocks(NamedTuple):
    """Computations of a rank in a turn, and in an iteration."""

    forward: int
    backward: int
    of_iteration: int


def turns(messages: Messages, stage: int, stages: int) -> list[Turn]:
    """The turns of a stage in an iteration, as the simulator's `Schedule::turns` orders them."""
    chunks, batches = messages.chunks, messages.batches
    whole = batches * chunks
    is_forward_first = messages.schedule not in {"1f1b", "interleaved"}
    if is_forward_first or (messages.schedule == "interleaved" and batches == stages):
        ahead = whole
    elif messages.schedule == "interleaved":
        ahead = (stages - stage - 1) * 2 + (chunks - 1) * stages
    else:
        ahead = stages - stage - 1
    ahead = min(ahead, whole)

    def turn(index: int, *, is_forward: bool) -> Turn:
        if chunks == 1:
            return Turn(is_forward, whole - 1 - index if is_forward_first and not is_forward else index, 0)
        chunk = index % (stages * chunks) // stages
        batch = index // (stages * chunks) * stages + index % stages
        return Turn(is_forward, batch, chunk if is_forward else chunks - 1 - chunk)

    found = [turn(index, is_forward=True) for index in range(ahead)]
    for index in range(whole):
        if ahead + index < whole:
            found.append(turn(ahead + index, is_forward=True))
        found.append(turn(index, is_forward=False))
    return found


@dataclass(frozen=True)
class Schedule:
    """The computations of a job's ranks, in the order of its schedule."""

    rows: pl.DataFrame
    """The timeline of the job."""
    idle: Idle

    @cached_property
    def computed(self) -> dict[int, list[tuple[float, float]]]:
        """Start and end of the computations of each rank."""
        computed = self.rows.filter(pl.col("activity") == "compute").sort("rank", "start_us")
        found: dict[int, list[tuple[float, float]]] = {}
        for rank, start, end in computed.select("rank", "start_us", "end_us").iter_rows():
            found.setdefault(rank, []).append((start, end))
        return found

    @cached_property
    def _ends(self) -> dict[int, list[float]]:
        """Ends of all activities of each rank."""
        found: dict[int, list[float]] = {}
        for rank, end in self.rows.sort("rank", "end_us").select("rank", "end_us").iter_rows():
            found.setdefault(rank, []).append(end)
        return found

    @cached_property
    def _turns(self) -> dict[int, list[Turn]]:
        """The turns of each stage."""
        sizes, messages = self.idle.sizes, self.idle.messages
        if sizes is None or sizes.pp < 2 or not messages.batches:
            return {}
        return {stage: turns(messages, stage, sizes.pp) for stage in range(sizes.pp)}

    @cached_property
    def _blocks(self) -> Blocks | None:
        """The computations of a turn, from those of rank 0 before it waits for another stage."""
        messages = self.idle.messages
        waits = self.rows.filter((pl.col("rank") == 0) & pl.col("step").str.starts_with("receive from "))["start_us"]
        if not self._turns or waits.is_empty():
            return None
        computed = self.computed.get(0, [])
        first = list(takewhile(lambda turn: turn.is_forward and turn.chunk == 0, self._turns[0]))
        before = sum(end <= float(waits.min()) + EPSILON for _, end in computed)  # type: ignore[arg-type]
        forward, rest = divmod(before, len(first))
        of_iteration = len(computed) // messages.iterations
        backward = of_iteration // (messages.batches * messages.chunks) - forward
        return None if rest or forward < 1 or backward < 1 else Blocks(forward, backward, of_iteration)

    @cached_property
    def _turn_ends(self) -> dict[int, dict[tuple[int, Turn], float]]:
        return {}

    def _ends_of(self, rank: int) -> dict[tuple[int, Turn], float]:
        """When a rank ended each turn of each iteration, in order of time."""
        sizes, blocks = self.idle.sizes, self._blocks
        if rank not in self._turn_ends:
            found = self._turn_ends[rank] = {}
            computed = self.computed.get(rank, [])
            for iteration in range(self.idle.messages.iterations if sizes and blocks else 0):
                at = iteration * blocks.of_iteration  # type: ignore[union-attr]
                for turn in self._turns[sizes.stage(rank)]:  # type: ignore[union-attr]
                    at += blocks.forward if turn.is_forward else blocks.backward  # type: ignore[union-attr]
                    if at <= len(computed):
                        found[iteration, turn] = computed[at - 1][1]
        return self._turn_ends[rank]

    def sent(self, sender: int, rank: int, computations: int, arrived: float) -> Sent | None:
        """The message that ends a wait of `rank` after so many computations; None for a sender without activities."""
        if sender not in self._ends or sender == rank:
            return None
        found = None
        if self.idle.sizes is not None and group_of(sender, rank, self.idle.sizes) == "PP":
            found = self._of_pipeline(sender, rank, computations)
        elif self.idle.sizes is not None:
            found = self._of_ring(sender, computations)
        if found is not None and found.left < arrived - EPSILON:
            return found
        least = self.idle.message_us(sender, rank, 0) or 0.0
        ends = self._ends[sender]
        at = bisect_right(ends, arrived - max(least, EPSILON)) - 1
        return Sent(ends[at]) if at >= 0 else Sent(self._first(sender))

    def _first(self, rank: int) -> float:
        return float(self.rows.filter(pl.col("rank") == rank)["start_us"].min() or 0.0)  # type: ignore[arg-type]

    def _of_ring(self, sender: int, computations: int) -> Sent | None:
        """A step of a ring passes on what it computes with, so the message leaves when the computation begins."""
        computed = self.computed.get(sender, [])
        return Sent(computed[computations - 1][0]) if 0 < computations <= len(computed) else None

    def _of_pipeline(self, sender: int, rank: int, computations: int) -> Sent | None:
        """The message that a turn waits for, of the same chunk of a neighbour, or at the ends of the next chunk."""
        sizes, blocks = self.idle.sizes, self._blocks
        if sizes is None or blocks is None:
            return None
        iteration, place = divmod(computations, blocks.of_iteration)
        awaited = None
        for turn in self._turns[sizes.stage(rank)]:
            if place == 0:
                awaited = self._cause(sizes.stage(rank), turn)
                break
            place -= blocks.forward if turn.is_forward else blocks.backward
        if awaited is None or awaited[0] != sizes.stage(sender):
            return None
        left = self._ends_of(sender).get((iteration, awaited[1]))
        if left is None:
            return None
        other = [time for end in (0, 1) for time in self._others(sender, rank, end)]
        before = sorted((time for time in self._between(sender, rank) if time < left), reverse=True)
        return Sent(left, before, (self._others(sender, rank, 1), self._others(sender, rank, 0)) if other else ())

    def _cause(self, stage: int, turn: Turn) -> tuple[int, Turn] | None:
        """The stage and its turn that send what a turn needs; None for the first and the last layers."""
        stages, chunks = self.idle.sizes.pp if self.idle.sizes else 1, self.idle.messages.chunks
        place = turn.chunk * stages + stage + (-1 if turn.is_forward else 1)
        if not 0 <= place < stages * chunks:
            return None
        return place % stages, Turn(turn.is_forward, turn.batch, place // stages)

    def _messages(self, sender: int) -> list[tuple[int, float]]:
        """The stage that each message of a rank goes to, and when it left."""
        sizes = self.idle.sizes
        stages, chunks = sizes.pp if sizes else 1, self.idle.messages.chunks
        found = []
        for (_, turn), end in self._ends_of(sender).items():
            place = turn.chunk * stages + (sizes.stage(sender) if sizes else 0) + (1 if turn.is_forward else -1)
            if 0 <= place < stages * chunks:
                found.append((place % stages, end))
        return found

    def _between(self, sender: int, rank: int) -> list[float]:
        """When the messages of a rank to another left."""
        stage = self.idle.sizes.stage(rank) if self.idle.sizes else 0
        return [end for target, end in self._messages(sender) if target == stage]

    def _others(self, sender: int, rank: int, end: int) -> list[float]:
        """When messages left to other stages from the same sender (0), or from other stages to the same rank (1)."""
        sizes = self.idle.sizes
        if sizes is None:
            return []
        if end == 0:
            return [time for target, time in self._messages(sender) if target != sizes.stage(rank)]
        step = sizes.tp * sizes.dp
        others = [rank % step + stage * step for stage in range(sizes.pp)]
        return [time for one in others if one not in (sender, rank) for time in self._between(one, rank)]
