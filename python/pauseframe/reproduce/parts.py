"""The kinds of claims: each a class with its keys, the number that it computes from points, and its band.

| kind | number | band |
|---|---|---|
| within | the metric of `variant` | `low`..`high` |
| factor | the metric of `of` over that of `over` (`best`: the smallest of all variants, or of `only`) | `low`..`high` |
| change | the number of `factor` minus 1: -0.27 is 27 % less, 1.31 is 131 % more | `low`..`high` |
| explained | (`of` - `without`) / (`of` - `over`): the explained share of a difference | `low`..`high` |
| order | the smallest ratio of neighbours in `order`, ascending | at least 1 - `slack` |
| share | the share of points at which `of` is at most `over`, but for a tie | at least `least` |
| zero | the metric of `variant` | 0 |
| crossover | where along the axis `along` `of` crosses `over` | `low`..`high` |
| monotone | Spearman's rank correlation of the metric with `along` (`direction` rising or falling) | at least `least` |

`across` reduces several values to one number; `at` selects points by their keys. "Best" and "never worse" hold in a
tie (`TIES`); an order states a difference, so that a tie does not have it. `theirs` is the paper's number, or its
range: outside the band, the shape is right if the number is within a factor of 2 of it, with the same sign (a change)
and on the same side of 1 (a factor). Without a number of the paper only the band counts.
"""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, JsonValue

from pauseframe.reproduce.points import BEST, Model, Point, Selected, Who, along, curve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ACROSS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min, "max": max, "mean": statistics.fmean, "median": statistics.median,
}  # fmt: skip
Band = tuple[float, float]
NOWHERE: Band = (math.inf, -math.inf)
TIES = 0.02
"""Values this close are a tie: the best of a tie is among the best, and neither is worse than the other."""
SHAPE = 2.0
"""Maximum ratio between the measured and the paper's number at which the shape is right."""


class _Part(Model):
    """Keys of all kinds of claims."""

    metric: str
    name: str = ""
    """The measured quantity in words."""
    at: dict[str, JsonValue] = {}
    across: Literal["min", "max", "mean", "median"] | None = None
    theirs: float | list[float] | None = None
    """The paper's number for the quantity, or its range."""
    instead: str = ""
    """The reason for a band that differs from `claims.csv`, with the place in the paper that asks for it."""
    single_run: bool = False
    """True if the paper shows a single run of a chance event: the share of the runs in the band decides."""

    def number(self, points: Sequence[Point]) -> float | None:
        """The number from the points of one seed; None without points.

        Raises ValueError for several points without `across`.
        """
        raise NotImplementedError

    @property
    def band(self) -> Band:
        """The band in which the claim's number must lie."""
        raise NotImplementedError

    @property
    def band_text(self) -> str:
        """The band of the claim in words."""
        raise NotImplementedError

    @property
    def shape(self) -> Band:
        """The range in which the shape is right: both ends are within a factor of 2 of the paper's number."""
        if self.theirs is None:
            return NOWHERE
        ends = sorted(abs(one) for one in self._range())
        low, high = ends[0] / SHAPE, ends[-1] * SHAPE
        return (low, high) if max(self._range()) > 0 else (-high, -low)

    @property
    def is_order(self) -> bool:
        """True if the band only states which of two values is larger."""
        return False

    def _range(self) -> list[float]:
        return self.theirs if isinstance(self.theirs, list) else [self.theirs or 0.0]

    def who(self) -> list[Who]:
        """The variants that the part names."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """A title that names the measured quantity."""
        return self.name or f"{self.metric}: {' / '.join(map(_name, self.who()))}"

    def _reduce(self, values: Sequence[float]) -> float | None:
        if not values:
            return None
        if len(values) > 1 and self.across is None:
            raise ValueError(f"{len(values)} values: say `across` (min, max, mean, median) or pick one with `at`")
        return ACROSS[self.across or "mean"](values)


class _Bounded(_Part):
    low: float | None = None
    high: float | None = None

    @property
    def band(self) -> Band:
        return _open(self.low, self.high)

    @property
    def band_text(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        return f"at least {self.low:g}" if self.low is not None else f"at most {self.band[1]:g}"


class _AtLeast(_Part):
    least: float = 1.0

    @property
    def band(self) -> Band:
        return self.least, math.inf

    @property
    def band_text(self) -> str:
        return f"at least {self.least:g}"


class Within(_Bounded):
    """The metric of a variant."""

    kind: Literal["within"]
    variant: Who

    def number(self, points: Sequence[Point]) -> float | None:
        return self._reduce(list(curve(points, self.variant).values()))

    def who(self) -> list[Who]:
        return [self.variant]


class Zero(_Part):
    """The metric of a variant, which must be 0."""

    kind: Literal["zero"]
    variant: Who

    def number(self, points: Sequence[Point]) -> float | None:
        return self._reduce(list(curve(points, self.variant).values()))

    @property
    def band(self) -> Band:
        return 0.0, 0.0

    @property
    def band_text(self) -> str:
        return "0"

    def who(self) -> list[Who]:
        return [self.variant]


class Factor(_Bounded):
    """The ratio of one variant's metric to another's."""

    @property
    def is_order(self) -> bool:
        return 1.0 in (self.low, self.high)

    kind: Literal["factor"]
    of: Who
    over: Who
    only: list[str] = []
    overall: bool = False
    """True to compare the means over all points, where the paper names the best overall and not the best of each."""

    def number(self, points: Sequence[Point]) -> float | None:
        if self.overall:
            return self._overall(points)
        return self._reduce([a / b for a, b in self._pairs(points) if b])  # a ratio with denominator 0 is undefined

    def _overall(self, points: Sequence[Point]) -> float | None:
        """The mean of `of` over the smallest mean of any variant, at the points that all of them have."""
        others = self.only or sorted({point.variant for point in points}) if self.over == BEST else [self.over]
        curves = [curve(points, one) for one in (self.of, *others)]
        shared = set.intersection(*(set(one) for one in curves))
        if not shared:
            return None
        of, *over = (statistics.fmean(one[place] for place in shared) for one in curves)
        return of / min(over) if min(over) else None

    def _pairs(self, points: Sequence[Point]) -> list[tuple[float, float]]:
        if self.over != BEST:
            return _pairs(points, self.of, self.over)
        curves = [curve(points, name) for name in self.only or sorted({point.variant for point in points})]
        shared = set.intersection(*(set(one) for one in curves)) if curves else set()
        return [
            (of[place], min(one[place] for one in curves))
            for of in (curve(points, one) for one in (self.of if isinstance(self.of, list) else [self.of]))
            for place in sorted(of.keys() & shared)
        ]

    @property
    def shape(self) -> Band:
        """The range of the right shape, limited to the claimed side of 1."""
        low, high = super().shape
        ends = self._range()
        if min(ends) > 1:
            return max(low, math.nextafter(1, 2)), high
        return (low, min(high, math.nextafter(1, 0))) if max(ends) < 1 else (low, high)

    def who(self) -> list[Who]:
        return [self.of, self.over, *self.only]


class Change(_Bounded):
    """The relative difference of one variant's metric from another's; negative if it is less."""

    kind: Literal["change"]
    of: Who
    over: Who

    def number(self, points: Sequence[Point]) -> float | None:
        return self._reduce([a / b - 1 for a, b in _pairs(points, self.of, self.over) if b])

    def who(self) -> list[Who]:
        return [self.of, self.over]


class Explained(_Bounded):
    """The part of the difference between `of` and `over` that a third number explains."""

    kind: Literal["explained"]
    of: Selected
    without: Selected
    over: Selected

    def number(self, points: Sequence[Point]) -> float | None:
        of, without, over = (self._reduce(list(curve(points, one).values())) for one in self.who())
        if of is None or without is None or over is None or of == over:
            return None
        return (of - without) / (of - over)

    def who(self) -> list[Who]:
        return [self.of, self.without, self.over]


class Order(_Part):
    """Variants from the smallest metric to the largest."""

    kind: Literal["order"]
    order: list[Who]
    slack: float = 0.0

    @property
    def is_order(self) -> bool:
        return True

    def number(self, points: Sequence[Point]) -> float | None:
        means = [self._reduce(list(curve(points, who).values())) for who in self.order]
        if any(mean is None for mean in means):
            return None
        steps = list(itertools.pairwise(mean for mean in means if mean is not None))
        if (0.0, 0.0) in steps:
            return None  # two zeros have no order: the metric may be too coarse
        ratios = [b / a for a, b in steps if a]
        return min(ratios) if ratios else math.nextafter(math.inf, 0)  # all values after a zero are in order

    @property
    def band(self) -> Band:
        return 1.0 - self.slack, math.inf

    @property
    def band_text(self) -> str:
        return "in this order" + (f", within {self.slack:.0%}" if self.slack else "")

    def who(self) -> list[Who]:
        return self.order

    @property
    def title(self) -> str:
        return self.name or f"{self.metric}: {' < '.join(map(_name, self.order))}"


class Share(_AtLeast):
    """The share of points at which one variant's metric is not above the other's, ties included."""

    kind: Literal["share"]
    of: Who
    over: Who

    def number(self, points: Sequence[Point]) -> float | None:
        below = [a <= (1 + TIES) * b for a, b in _pairs(points, self.of, self.over)]
        return statistics.fmean(below) if below else None

    def who(self) -> list[Who]:
        return [self.of, self.over]


class Crossover(_Bounded):
    """The position on an axis at which one variant's metric crosses another's."""

    kind: Literal["crossover"]
    of: str
    over: str
    along: str

    def number(self, points: Sequence[Point]) -> float | None:
        of, over = dict(along(points, self.of, self.along)), dict(along(points, self.over, self.along))
        differences = [(place, of[place] - over[place]) for place in sorted(of.keys() & over.keys())]
        for (a, before), (b, after) in itertools.pairwise(differences):
            if before * after <= 0 and before != after:
                return a + (b - a) * before / (before - after)
        return None

    def who(self) -> list[Who]:
        return [self.of, self.over]


class Monotone(_AtLeast):
    """The rank correlation of a variant's metric with an axis."""

    kind: Literal["monotone"]
    variant: str
    along: str
    direction: Literal["rising", "falling"] = "rising"

    def number(self, points: Sequence[Point]) -> float | None:
        line = along(points, self.variant, self.along)
        if len(line) < 3:
            return None
        ranks = [_ranks([pair[0] for pair in line]), _ranks([pair[1] for pair in line])]
        if len(set(ranks[1])) == 1:
            return 0.0
        return (-1.0 if self.direction == "falling" else 1.0) * statistics.correlation(*ranks)

    def who(self) -> list[Who]:
        return [self.variant]


Part = Annotated[
    Within | Zero | Factor | Change | Explained | Order | Share | Crossover | Monotone,
    Field(discriminator="kind"),
]


def variants_named(part: Part) -> Iterator[str]:
    """The variants that a part names, without the placeholder `best`."""
    for who in part.who():
        for one in who if isinstance(who, list) else [who]:
            name = one.variant if isinstance(one, Selected) else one
            if name is not None and name != BEST:
                yield name


def _pairs(points: Sequence[Point], of: Who, over: Who) -> list[tuple[float, float]]:
    """Pairs of values of both selections at their common places."""
    first, second = curve(points, of), curve(points, over)
    return [(first[place], second[place]) for place in sorted(first.keys() & second.keys())]


def _open(low: float | None, high: float | None) -> Band:
    return -math.inf if low is None else low, math.inf if high is None else high


def _name(who: Who) -> str:
    if isinstance(who, list):
        return ", ".join(map(_name, who))
    return who if isinstance(who, str) else who.variant or ""


def _ranks(values: Sequence[float]) -> list[float]:
    """Average ranks."""
    return [sum(other < one for other in values) + (values.count(one) - 1) / 2 for one in values]
