"""A joint scan: judges the claims of several experiments at every point of a grid.

`scores = ["fig11", "fig12"]` in an experiment's file judges the claims of these two experiments with their variants and
metrics; the scan's `axes` are the grid. One setting of an unpublished parameter must thus serve all claims of a paper.
A full run of the grid would take too long, so `[[stages]]` halve it (Jamieson and Talwalkar, "Non-stochastic best arm
identification and hyperparameter optimization", AISTATS 2016): all settings in short runs, the best in longer ones. The
results are kept beside the experiment, with the stage that each setting has reached.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict

from pauseframe.files.atomic import write_text
from pauseframe.reproduce.judge import VERDICTS, judge, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pauseframe.reproduce.judge import Measured, Verdict
    from pauseframe.reproduce.points import Point
    from pauseframe.reproduce.spec import Claim, Figure, Settings


class Row(TypedDict):
    """A setting of the scan: its values on the axes, and the results of the parts of claims."""

    stage: int
    axes: Settings
    counts: dict[str, int]
    parts: dict[str, Verdict]
    numbers: dict[str, float | None]


def with_scored(spec: Figure, scored: Iterable[Figure]) -> Figure:
    """The scan with the variants and metrics of the scored experiments."""
    variants: dict[str, Settings] = {}
    metrics = dict(spec.metrics)
    for one in scored:
        variants |= one.variants
        metrics |= one.metrics
    return spec.model_copy(update={"variants": variants, "metrics": metrics})


def settings(spec: Figure) -> list[Settings]:
    """Every point of the scan's grid."""
    return [dict(zip(spec.axes, values, strict=True)) for values in itertools.product(*spec.axes.values())]


def table(claims: Sequence[Claim], points: Sequence[Point], stage: int = 1) -> list[Row]:
    """One row per setting, best first: most parts in their bands, then most in shape."""
    found = {_key(point.axes): point.axes for point in points}
    rows = []
    for key, axes in found.items():
        here = [_without_axes(point) for point in points if _key(point.axes) == key]
        parts = {
            f"{claim.id}.{number}": part
            for claim in claims
            for number, part in enumerate(judge(claim, here).parts, start=1)
        }
        verdicts = {name: _verdict(part) for name, part in parts.items()}
        counts = Counter(verdicts.values())
        rows.append(
            Row(
                stage=stage,
                axes=dict(axes),
                counts={one: counts[one] for one in VERDICTS},
                parts=verdicts,
                numbers={name: part.median for name, part in parts.items()},
            )
        )
    return sorted(rows, key=_rank)


def merged(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Joins two tables; rows of a later stage come first."""
    reached = {_key(row["axes"]) for row in after}
    return [*after, *(row for row in before if _key(row["axes"]) not in reached)]


def read(path: Path) -> list[Row]:
    """The recorded results of a scan; empty if the scan never ran."""
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []


def write(path: Path, rows: Sequence[Row]) -> Path:
    """Writes the rows, one per line."""
    lines = ",\n".join(" " + json.dumps(_short(row)) for row in rows)
    return write_text(path, f"[\n{lines}\n]\n")


def _short(row: Row) -> Row:
    numbers = {name: None if value is None else float(f"{value:.4g}") for name, value in row["numbers"].items()}
    return {**row, "numbers": numbers}


def _rank(row: Row) -> list[int]:
    return [-row["counts"][one] for one in VERDICTS]


def _verdict(part: Measured) -> Verdict:
    """The verdict of a part; short runs are ranked even by percentiles that a verdict would reject."""
    if part.verdict != "not run" or part.median is None:
        return part.verdict
    return verdict_of(part.part, part.median)


def _key(axes: Any) -> str:
    return json.dumps(axes, sort_keys=True)


def _without_axes(point: Point) -> Point:
    """Removes the scan's axes, so that points look like those of the scored experiment."""
    return type(point)(point.variant, point.seed, point.metric, point.value, point.at, {}, point.samples, point.beyond)
