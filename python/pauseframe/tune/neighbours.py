"""The neighbourhood of a setting: one parameter changes, the others stay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pauseframe.tune.answer import Point, Slack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.scenario.plain import Value
    from pauseframe.tune.parameters import Parameter

OFFSETS = (0.03, 0.08, 0.2, 0.4)
"""Distances from a value at which the sensitivity is measured, as shares of the parameter's range."""


def values_around(parameter: Parameter, value: Value) -> list[tuple[float, Value]]:
    """Positions and values to try around a value, each once and without the value itself."""
    if not parameter.is_range:
        return [(float(number), one) for number, one in enumerate(parameter.choices) if one != value]
    here = parameter.position(parameter.number(value) or 0.0)
    places = sorted({min(max(here + side * offset, 0.0), 1.0) for offset in OFFSETS for side in (-1, 1)})
    found: dict[str, tuple[float, Value]] = {}
    for place in places:
        other = parameter.value(parameter.at(place))
        if other != value:
            found.setdefault(str(other), (parameter.position(parameter.number(other) or 0.0), other))
    return list(found.values())


def slack(parameter: Parameter, value: Value, points: list[Point], tolerance: float) -> Slack:
    """The range of a parameter in which no objective worsens by more than the tolerance."""
    within = [one.kept and all(ratio <= 1 + tolerance for ratio in one.ratios) for one in points]
    if not parameter.is_range:
        fine = [value, *(one.value for one, kept in zip(points, within, strict=True) if kept)]
        good = [one for one in parameter.choices if one in fine]
        return Slack(parameter.path, value, None, None, False, False, good, points)
    here = parameter.position(parameter.number(value) or 0.0)
    low, open_low = _edge(points, within, here, tolerance, side=-1)
    high, open_high = _edge(points, within, here, tolerance, side=1)
    ends = parameter.value(parameter.at(low)), parameter.value(parameter.at(high))
    return Slack(parameter.path, value, *ends, open_low, open_high, [], points)


def worse_by(one: float, other: float, maximize: bool) -> float:
    """1 and the loss of `one` as a share of `other`; above 1 is worse. Half of a maximized metric is a loss of 50 %."""
    if one == other:
        return 1.0
    if math.isinf(one) or math.isinf(other):
        return math.inf if math.isinf(one) else 0.0
    if not other:
        return 0.0 if maximize else math.inf
    return 2 - one / other if maximize else one / other


def _edge(
    points: Sequence[Point], within: Sequence[bool], here: float, tolerance: float, side: int
) -> tuple[float, bool]:
    """The end of the tolerated range on one side, interpolated between the last tolerated point and the next."""
    beside = [(one, fine) for one, fine in zip(points, within, strict=True) if side * (one.position - here) > 0]
    last, excess = here, 0.0
    for one, fine in sorted(beside, key=lambda pair: side * pair[0].position):
        worst = max(one.ratios, default=math.inf) - 1
        if not fine:
            if not one.kept or not math.isfinite(worst):
                return last, False  # interpolation is impossible, so the last good point counts
            return last + (one.position - last) * (tolerance - excess) / (worst - excess), False
        last, excess = one.position, worst
    return last, last in (0.0, 1.0) or bool(beside)
