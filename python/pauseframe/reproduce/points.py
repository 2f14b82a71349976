"""Measured points, and how claims and plots select them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, JsonValue

Keys = Mapping[str, JsonValue]


class Model(BaseModel):
    """A table of an experiment's file; keys other than its fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Selected(Model):
    """Selects points of a variant, or of any variant, by keys: `{ variant = "a", at = { cc = "x" } }`."""

    variant: str | None = None
    at: dict[str, JsonValue] = {}


BEST = "best"
"""The best of all variants, at each place."""
Who = str | Selected | list[str | Selected]
"""A variant, a selection of points, or a list of selections, which is paired with another list."""


@dataclass(frozen=True)
class Point:
    """One measured number of one run."""

    variant: str
    seed: int
    metric: str
    value: float | None
    at: Keys = field(default_factory=dict)
    """The key columns of the metric's row."""
    axes: Keys = field(default_factory=dict)
    """Values of the experiment's axes for this run."""
    samples: int = 1
    """Number of samples behind the value."""
    beyond: float | None = None
    """Number of samples beyond the percentile; None if the value is not a percentile."""

    @property
    def keys(self) -> dict[str, JsonValue]:
        """The axes and the key columns together."""
        return {**self.axes, **self.at}

    def has(self, wanted: Keys) -> bool:
        """True if all of the wanted keys have the wanted values."""
        keys = self.keys
        return all(keys.get(name) == value for name, value in wanted.items())


Place = tuple[tuple[str, str], ...]
"""A position on a curve: keys and their values as sorted text."""


def curve(points: Sequence[Point], who: Who) -> dict[Place, float]:
    """Values by place; for a list of selections, the place includes the position in the list."""
    if isinstance(who, list):
        curves = enumerate(curve(points, one) for one in who)
        return {(*place, ("", str(index))): value for index, one in curves for place, value in one.items()}
    if isinstance(who, str):
        who = Selected(variant=who)
    mine = [one for one in points if who.variant in (None, one.variant) and one.has(who.at)]
    return {_place(one, who.at): one.value for one in mine if one.value is not None}


def tails(points: Sequence[Point], who: Sequence[Who]) -> tuple[int, float | None]:
    """The smallest number of samples, and of samples beyond a percentile, in a group of numbers.

    The samples of all seeds are added up.
    """
    samples: dict[tuple[str, Place], int] = {}
    beyond: dict[tuple[str, Place], float] = {}
    for point in points:
        if point.value is not None and any(_is_of(point, one) for one in who):
            place = (point.variant, _place(point, {}))
            samples[place] = samples.get(place, 0) + point.samples
            if point.beyond is not None:
                beyond[place] = beyond.get(place, 0.0) + point.beyond
    return min(samples.values(), default=0), min(beyond.values(), default=None)


def _is_of(point: Point, who: Who) -> bool:
    if isinstance(who, list):
        return any(_is_of(point, one) for one in who)
    if isinstance(who, str):
        return who in (point.variant, BEST)
    return who.variant in (None, point.variant) and point.has(who.at)


def along(points: Sequence[Point], who: str, axis: str) -> list[tuple[float, float]]:
    """(position on the axis, value) pairs of a variant, in the order of the axis."""
    mine = [point for point in points if point.variant == who]
    return sorted((number(point.keys[axis]), point.value) for point in mine if point.value is not None)


def number(value: JsonValue) -> float:
    """An axis value as a number; texts with a unit are converted, so that "10 KB" is less than "2 MB"."""
    if isinstance(value, (int, float)):
        return float(value)
    digits, _, unit = str(value).partition(" ")
    scale = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "us": 1, "ms": 1e3, "s": 1e6, "Gbps": 1e9, "Mbps": 1e6, "": 1}
    return float(digits) * scale[unit]


def _place(point: Point, without: Keys) -> Place:
    return tuple(sorted((key, str(value)) for key, value in point.keys.items() if key not in without))
