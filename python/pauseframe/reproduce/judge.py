"""The judge of claims, the same for all papers and for the demo.

A claim has parts (`parts.py`), each with a number per seed and a band. Verdicts: `reproduced` if the median over seeds
is in the band (of an even number of seeds: both values in the middle); `shape only` if the paper's order, sign and best
configuration hold and the number is within a factor of 2 of the paper's; else `differs`. An order must hold in nine
tenths of the seeds. Of a chance event that the paper shows in a single run, the share of our runs decides: a half is
`reproduced`, a tenth `shape only`. A claim about a percentile with too few samples beyond it is `not run`. A claim has
the verdict of its worst part.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pauseframe.reproduce.points import tails
from pauseframe.results.percentiles import is_few, too_few
from pauseframe.sweep.statistics import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.reproduce.parts import Part
    from pauseframe.reproduce.points import Point
    from pauseframe.reproduce.spec import Claim

Verdict = Literal["reproduced", "shape only", "differs", "not run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "shape only", "differs", "not run")


def tally(verdict: Verdict, count: int) -> str:
    """A number of claims with their verdict.

    >>> tally("differs", 1), tally("differs", 3), tally("shape only", 2)
    ('1 differs', '3 differ', '2 shape only')
    """
    return f"{count} {'differ' if verdict == 'differs' and count != 1 else verdict}"


EDGE = 0.83
"""Maximum distance between medians of two groups of five seeds, as a fraction of one group's range.

For normal samples, the distance stays below this limit 19 times out of 20; a range is the largest less the smallest
value.
"""

ORDER_HOLDS = 0.9
"""Share of the seeds in which an order must hold, because a median ranks two nearly equal values by chance."""

SINGLE_RUN_HOLDS = 0.5
"""Share of our runs that must show what the paper shows in a single run."""

SINGLE_RUN_HAPPENS = 0.1
"""Share of our runs below which the paper's single run would be a surprise."""

ORDER_EDGE = 1.09
"""The corresponding limit for the smallest of five values, which decides an order."""


@dataclass(frozen=True)
class Measured:
    """The result of one part of a claim."""

    part: Part
    by_seed: dict[int, float]
    verdict: Verdict
    note: str = ""
    samples: int = 0
    """Number of samples beyond the least certain percentile of the part, over all seeds."""

    @property
    def values(self) -> list[float]:
        """The values of the part, one per seed."""
        return list(self.by_seed.values())

    @property
    def median(self) -> float | None:
        """The median over the seeds; None without a value."""
        return statistics.median(self.values) if self.by_seed else None

    @property
    def interval(self) -> list[float] | None:
        """The confidence interval of the median; None for fewer than two seeds."""
        guess = estimate(self.values) if self.by_seed else None
        return None if guess is None or guess.low is None or guess.high is None else [guess.low, guess.high]

    @property
    def held(self) -> int:
        """Number of seeds whose value is in the part's band."""
        return sum(verdict_of(self.part, value) == "reproduced" for value in self.values)

    @property
    def at_edge(self) -> bool:
        """True if five other seeds may well give another verdict.

        The median is near an end of a band, or the seed that decides an order is near its edge.
        """
        if len(self.values) < 2:
            return False
        if self.part.single_run:
            near = (self.held - 1, self.held, self.held + 1)
            return len({_of_single_run(count, len(self.values)) for count in near}) > 1
        spread = max(self.values) - min(self.values)
        middle, reach = statistics.median(self.values), EDGE * spread
        if len({verdict_of(self.part, value) for value in (middle - reach, middle, middle + reach)}) > 1:
            return True
        return self.part.is_order and self._order_at_edge(ORDER_EDGE * spread)

    def _order_at_edge(self, reach: float) -> bool:
        wanted, (low, high) = math.ceil(ORDER_HOLDS * len(self.values)), self.part.band
        ordered = sorted(self.values)
        return abs(ordered[-wanted] - low) < reach or abs(ordered[wanted - 1] - high) < reach


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict."""

    claim: Claim
    parts: list[Measured]

    @property
    def verdict(self) -> Verdict:
        """The verdict of the claim's worst part."""
        return max((part.verdict for part in self.parts), key=VERDICTS.index)

    @property
    def holds_in(self) -> tuple[int, int]:
        """Number of seeds in which every part is in its band, and number of seeds."""
        seeds = sorted({seed for part in self.parts for seed in part.by_seed})
        right = sum(
            all(verdict_of(one.part, one.by_seed[seed]) == "reproduced" for one in self.parts if seed in one.by_seed)
            for seed in seeds
        )
        return right, len(seeds)


def judge(claim: Claim, points: Sequence[Point]) -> Judgement:
    """The verdict on a claim, from all points that its experiment measured."""
    return Judgement(claim, [_judge_part(part, points) for part in claim.parts])


def _judge_part(part: Part, points: Sequence[Point]) -> Measured:
    chosen = [point for point in points if point.metric == part.metric and point.has(part.at)]
    by_seed, note = {}, ""
    for seed in sorted({point.seed for point in chosen}):
        value = part.number([point for point in chosen if point.seed == seed])
        if value is not None and not math.isnan(value):
            by_seed[seed] = value
        else:
            note = "no value in some seeds"
    if not by_seed:
        return Measured(part, {}, "not run", "nothing was measured")
    samples, beyond = tails(chosen, part.who())
    if beyond is not None and is_few(beyond):
        note = f"refused: {too_few(samples, beyond)}"
        return Measured(part, by_seed, "not run", note, samples)
    measured = Measured(part, by_seed, _in_the_middle(part, list(by_seed.values())), note, samples)
    if part.single_run:
        note = f"in {measured.held} of {len(by_seed)} runs; the paper shows one"
        return replace(measured, verdict=_of_single_run(measured.held, len(by_seed)), note=note)
    if measured.verdict == "reproduced" and part.is_order and measured.held < ORDER_HOLDS * len(by_seed):
        note = f"in this order in {measured.held} of {len(by_seed)} seeds, {ORDER_HOLDS:.0%} are wanted"
        return replace(measured, verdict="differs", note=note)
    return measured


def _in_the_middle(part: Part, values: Sequence[float]) -> Verdict:
    """The verdict on the median; the mean of two values in the middle may be like neither, so the worse one decides."""
    middle = statistics.median_low(values), statistics.median_high(values)
    return max((verdict_of(part, value) for value in middle), key=VERDICTS.index)


def _of_single_run(held: int, runs: int) -> Verdict:
    if held >= SINGLE_RUN_HOLDS * runs:
        return "reproduced"
    return "shape only" if held >= SINGLE_RUN_HAPPENS * runs else "differs"


def verdict_of(part: Part, value: float) -> Verdict:
    """The verdict on a single number."""
    low, high = part.band
    if low <= value <= high:
        return "reproduced"
    shape_low, shape_high = part.shape
    return "shape only" if shape_low <= value <= shape_high else "differs"
