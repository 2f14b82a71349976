"""The judge of claims: one for all papers, and for the demo.

A claim has parts (`parts.py`); each gives a number for each seed and a band. Verdicts: `reproduced` if the median over
seeds is in the band, `shape only` if it lies on the claimed side (the order is right and the size is not, or the wider
band `shape_low`..`shape_high` has it), else `differs`. The verdict of a claim is its worst part's.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pauseframe.sweep.statistics import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.reproduce.parts import Part
    from pauseframe.reproduce.points import Point
    from pauseframe.reproduce.spec import Claim

Verdict = Literal["reproduced", "shape only", "differs", "not run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "shape only", "differs", "not run")


@dataclass(frozen=True)
class Measured:
    """What came out for one part of a claim."""

    part: Part
    values: list[float]
    """One a seed."""
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict."""

    claim: Claim
    parts: list[Measured]

    @property
    def verdict(self) -> Verdict:
        """The worst part's."""
        return max((part.verdict for part in self.parts), key=VERDICTS.index)

    @property
    def holds_in(self) -> tuple[int, int]:
        """In how many seeds every part is in its band, of how many."""
        seeds = max((len(part.values) for part in self.parts), default=0)
        right = sum(
            all(
                _verdict(part.part, part.values[seed]) == "reproduced" for part in self.parts if seed < len(part.values)
            )
            for seed in range(seeds)
        )
        return right, seeds


def judge(claim: Claim, points: Sequence[Point]) -> Judgement:
    """The verdict on a claim, from all points that its experiment measured."""
    return Judgement(claim, [_judge_part(part, points) for part in claim.parts])


def _judge_part(part: Part, points: Sequence[Point]) -> Measured:
    chosen = [point for point in points if point.metric == part.metric and point.has(part.at)]
    values, note = [], ""
    for seed in sorted({point.seed for point in chosen}):
        value = part.number([point for point in chosen if point.seed == seed])
        if value is not None and not math.isnan(value):
            values.append(value)
        else:
            note = "no value in some seeds"
    if not values:
        return Measured(part, [], "not run", "nothing was measured")
    return Measured(part, values, _verdict(part, statistics.median(values)), note)


def _verdict(part: Part, value: float) -> Verdict:
    low, high = part.band
    if low <= value <= high:
        return "reproduced"
    shape_low, shape_high = part.shape
    return "shape only" if shape_low <= value <= shape_high else "differs"


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The confidence interval of the median, None for one seed."""
    guess = estimate(values)
    return None if guess.low is None or guess.high is None else (guess.low, guess.high)


def median(values: Sequence[float]) -> float | None:
    """None of no values."""
    return statistics.median(values) if values else None
