"""The judge of claims: one for all papers.

A claim has parts; each gives a number for each seed and a band. Verdicts: `reproduced` if the median over seeds is in
the band, `shape only` if it lies on the claimed side (the order is right and the size is not, or the wider band
`shape_low`..`shape_high` has it), else `differs`. The verdict of a claim is its worst part's.

| kind | number | band |
|---|---|---|
| within | the metric of `variant` | `low`..`high` |
| factor | the metric of `of` over that of `over` (`best`: the smallest of all variants) | `low`..`high` |
| order | the smallest ratio of neighbours in `order`, ascending | at least 1 - `slack` |
| share | the share of points at which `of` is below `factor` times `over` | at least `least` |
| zero | the metric of `variant` | 0 |
| crossover | where along the axis `along` `of` crosses `over` | `low`..`high` |
| monotone | Spearman's rank correlation of the metric with `along` (`direction` rising or falling) | at least `least` |
"""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pauseframe.sweep.statistics import estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pauseframe.reproduce.spec import Claim

Part = dict[str, Any]
Point = dict[str, Any]
"""variant, seed, axes (dict), metric, at (dict), value."""

VERDICTS = ("reproduced", "shape only", "differs", "not run")
ACROSS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min, "max": max, "mean": statistics.fmean, "median": statistics.median,
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What came out for one part of a claim."""

    part: Part
    values: list[float]
    """One a seed."""
    verdict: str
    note: str = ""


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict."""

    claim: Claim
    parts: list[Measured]

    @property
    def verdict(self) -> str:
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


def judge(claim: Claim, points: list[Point]) -> Judgement:
    """The verdict on a claim, from all points that its experiment measured."""
    return Judgement(claim, [_judge_part(part, points) for part in claim.parts])


def _judge_part(part: Part, points: list[Point]) -> Measured:
    chosen = [point for point in points if point["metric"] == part["metric"] and _matches(point, part.get("at", {}))]
    values, note = [], ""
    for seed in sorted({point["seed"] for point in chosen}):
        value = NUMBERS[part["kind"]](part, [point for point in chosen if point["seed"] == seed])
        if value is not None and not math.isnan(value):
            values.append(value)
        else:
            note = "no value in some seeds"
    if not values:
        return Measured(part, [], "not run", "nothing was measured")
    return Measured(part, values, _verdict(part, statistics.median(values)), note)


def _verdict(part: Part, value: float) -> str:
    low, high = _band(part)
    if low <= value <= high:
        return "reproduced"
    shape_low, shape_high = _shape(part)
    return "shape only" if shape_low <= value <= shape_high else "differs"


def _band(part: Part) -> tuple[float, float]:
    if part["kind"] == "zero":
        return 0.0, 0.0
    if part["kind"] == "order":
        return 1.0 - part.get("slack", 0.0), math.inf
    if part["kind"] in ("share", "monotone"):
        return part.get("least", 1.0), math.inf
    return part.get("low", -math.inf), part.get("high", math.inf)


def _shape(part: Part) -> tuple[float, float]:
    """The wider band: as the part says; for factors, on the claimed side of 1; for the rest none."""
    if "shape_low" in part or "shape_high" in part:
        return part.get("shape_low", -math.inf), part.get("shape_high", math.inf)
    if part["kind"] == "factor":
        low, high = _band(part)
        return (1.0, math.inf) if low > 1 else (0.0, 1.0) if high < 1 else (math.inf, -math.inf)
    if part["kind"] == "monotone":
        return 1e-9, math.inf
    return math.inf, -math.inf


def _matches(point: Point, wanted: dict[str, Any]) -> bool:
    keys = point["axes"] | point["at"]
    return all(keys.get(key) == value for key, value in wanted.items())


def _keys(point: Point, without: str = "") -> tuple[tuple[str, str], ...]:
    keys = point["axes"] | point["at"]
    return tuple(sorted((key, str(value)) for key, value in keys.items() if key != without))


def _curve(points: list[Point], who: Any) -> dict[tuple[tuple[str, str], ...], float]:
    """Values by key of one variant; `who` is its name, or a table with `variant` and keys `at` which it is.

    Of a list of those, the values of all, by place in the list too.
    """
    if isinstance(who, list):
        curves = enumerate(_curve(points, one) for one in who)
        return {(*key, ("", str(place))): value for place, curve in curves for key, value in curve.items()}
    if isinstance(who, dict):
        at = who.get("at", {})
        mine = [one for one in points if one["variant"] == who.get("variant", one["variant"]) and _matches(one, at)]
        return {_without(_keys(one), at): one["value"] for one in mine if one["value"] is not None}
    return {_keys(one): one["value"] for one in points if one["variant"] == who and one["value"] is not None}


def _without(keys: tuple[tuple[str, str], ...], names: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in keys if pair[0] not in names)


def _pairs(part: Part, points: list[Point]) -> list[tuple[float, float]]:
    """Values of `of` and `over` at the keys that both have."""
    of = _curve(points, part["of"])
    if part["over"] == "best":
        among = part.get("only") or sorted({point["variant"] for point in points})
        curves = [_curve(points, name) for name in among]
        shared = set.intersection(*(set(curve) for curve in curves)) if curves else set()
        over = {key: min(curve[key] for curve in curves) for key in shared}
    else:
        over = _curve(points, part["over"])
    return [(of[key], over[key]) for key in sorted(of.keys() & over.keys())]


def _reduce(part: Part, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if len(values) > 1 and "across" not in part:
        raise ValueError(f"{len(values)} values: say `across` (min, max, mean, median) or pick one with `at`")
    return ACROSS[part.get("across", "mean")](values)


def _within(part: Part, points: list[Point]) -> float | None:
    return _reduce(part, list(_curve(points, part["variant"]).values()))


def _factor(part: Part, points: list[Point]) -> float | None:
    return _reduce(part, [a / b if b else math.inf for a, b in _pairs(part, points)])


def _order(part: Part, points: list[Point]) -> float | None:
    means = []
    for who in part["order"]:
        value = _reduce(part, list(_curve(points, who).values()))
        if value is None:
            return None
        means.append(value)
    steps = itertools.pairwise(means)
    return min(b / a if a else math.inf if b else 1.0 for a, b in steps)


def _share(part: Part, points: list[Point]) -> float | None:
    pairs = _pairs(part, points)
    below = [a <= part.get("factor", 1.0) * b for a, b in pairs]
    return statistics.fmean(below) if below else None


def _along(part: Part, points: list[Point], who: Any) -> list[tuple[float, float]]:
    """(place on the axis, value) in the order of the axis."""
    axis = part["along"]
    mine = [point for point in points if point["variant"] == who and point["value"] is not None]
    return sorted((number(_place(point, axis)), point["value"]) for point in mine)


def _place(point: Point, axis: str) -> Any:
    return (point["axes"] | point["at"])[axis]


def number(value: Any) -> float:
    """A value of an axis as a number; a text with a unit by its leading digits ("10 KB" and "2 MB" differ by unit)."""
    if isinstance(value, (int, float)):
        return float(value)
    digits, _, unit = str(value).partition(" ")
    scale = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "us": 1, "ms": 1e3, "s": 1e6, "Gbps": 1e9, "Mbps": 1e6, "": 1}
    return float(digits) * scale[unit]


def _crossover(part: Part, points: list[Point]) -> float | None:
    of, over = dict(_along(part, points, part["of"])), dict(_along(part, points, part["over"]))
    places = sorted(of.keys() & over.keys())
    signs = [(place, of[place] - over[place]) for place in places]
    for (a, before), (b, after) in itertools.pairwise(signs):
        if before * after <= 0 and before != after:
            return a + (b - a) * before / (before - after)
    return None


def _monotone(part: Part, points: list[Point]) -> float | None:
    curve = _along(part, points, part["variant"])
    if len(curve) < 3:
        return None
    sign = -1.0 if part.get("direction") == "falling" else 1.0
    ranks = [_ranks([pair[0] for pair in curve]), _ranks([pair[1] for pair in curve])]
    if len(set(ranks[1])) == 1:
        return 0.0
    return sign * statistics.correlation(*ranks)


def _ranks(values: Sequence[float]) -> list[float]:
    """Average ranks."""
    return [sum(other < one for other in values) + (values.count(one) - 1) / 2 for one in values]


NUMBERS: dict[str, Callable[[Part, list[Point]], float | None]] = {
    "within": _within, "factor": _factor, "order": _order, "share": _share, "zero": _within,
    "crossover": _crossover, "monotone": _monotone,
}  # fmt: skip


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The confidence interval of the median, None for one seed."""
    guess = estimate(values)
    return None if guess.low is None or guess.high is None else (guess.low, guess.high)


def median(values: Sequence[float]) -> float | None:
    """None of no values."""
    return statistics.median(values) if values else None
