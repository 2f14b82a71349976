"""A joint scan: the claims of several experiments, judged at every point of a grid of readings.

`scores = ["fig11", "fig12"]` in an experiment's file takes variants, metrics and claims from the files beside it; its
own `axes` are the grid. What a paper does not tell is then settled by one setting for all of its claims, and not by one
for each.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pauseframe.reproduce.judge import VERDICTS, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pauseframe.reproduce.points import Point
    from pauseframe.reproduce.spec import Claim, Figure, Settings


def with_scored(spec: Figure, scored: Iterable[Figure]) -> Figure:
    """The scan with the variants and metrics of what it scores."""
    variants: dict[str, Settings] = {}
    metrics = dict(spec.metrics)
    for one in scored:
        variants |= one.variants
        metrics |= one.metrics
    return spec.model_copy(update={"variants": variants, "metrics": metrics})


def table(claims: Sequence[Claim], points: Sequence[Point]) -> list[dict[str, Any]]:
    """A row a setting: its axes, how many parts of claims have each verdict, and which; the best first."""
    settings = {str(sorted(point.axes.items(), key=str)): point.axes for point in points}
    rows = []
    for key, axes in settings.items():
        here = [point for point in points if str(sorted(point.axes.items(), key=str)) == key]
        parts = [
            (f"{claim.id}.{number}", part.verdict)
            for claim in claims
            for number, part in enumerate(judge(claim, [_without_axes(one) for one in here]).parts, start=1)
        ]
        counts = Counter(verdict for _, verdict in parts)
        rows.append({"axes": dict(axes), "counts": {one: counts[one] for one in VERDICTS}, "parts": dict(parts)})
    return sorted(rows, key=lambda row: [-row["counts"][one] for one in VERDICTS])


def _without_axes(point: Point) -> Point:
    """As the scored experiment, which has no such axes, would have measured it."""
    return type(point)(point.variant, point.seed, point.metric, point.value, point.at, {}, point.samples, point.beyond)
