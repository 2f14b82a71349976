"""What all runs of a search together say about any setting: its objectives, and whether it keeps the constraints.

Every run counts, also those of settings that were given up. Values are compressed before a Gaussian process smooths
them, so that a few very bad settings do not hide the differences between good ones.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pauseframe.tune.chance import seeds_needed
from pauseframe.tune.surrogate import Surrogate
from pauseframe.tune.trials import per_seed, seed_violations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.tune.parameters import Space
    from pauseframe.tune.spec import Spec
    from pauseframe.tune.trials import Scale, Setting

PASS_TARGET = 0.5
"""Probability of passing the held-out seeds at which a setting counts as safe in the model."""
NORMAL = statistics.NormalDist()
PHI = np.vectorize(NORMAL.cdf, otypes=[float])


@dataclass
class Constraint:
    """The model of a constraint: mean violation, and its spread over seeds where that is known."""

    model: Surrogate
    threshold: float
    """Mean below which the constraint holds, without a spread."""
    unsure: float
    """Smallest standard deviation of the mean."""
    squares: Any = None
    freedom: Any = None
    """Sum of squares over seeds, and its degrees of freedom, by measured setting."""
    pooled: float = 0.0
    """Variance over seeds of all settings together."""

    def passing(self, points: Any, deep: float) -> Any:
        """The probability that the mean lies `deep` standard deviations of a seed below the threshold."""
        mean, unsure = self.model.predict(points)
        goal = self.threshold
        if self.squares is not None:
            weights = self.model.weights(points)
            spread = (weights @ self.squares + 0.5 * self.pooled) / (weights @ self.freedom + 0.5)
            goal = self.threshold - deep * np.sqrt(spread)
        return PHI((goal - mean) / np.hypot(unsure, self.unsure))


class Beliefs:
    """The model of a search at one moment."""

    def __init__(
        self,
        space: Space,
        spec: Spec,
        settings: Sequence[Setting],
        scale: Scale,
        kept: dict[str, Any],
        caution: float = 1.0,
    ) -> None:
        """`kept` carries the lengths of the last fit to the next one; `caution` widens the distance to constraints."""
        self._space, self._spec, self._kept, self._caution = space, spec, kept, caution
        known = [one for one in {id(one): one for one in settings}.values() if space.point(one.changes) is not None]
        self._measured = [one for one in known if one.readings or one.failures]
        self._known = [one for one in known if one.readings or one.failures or one.refused]
        tables = [[per_seed(one, o, scale, spec) for one in self._measured] for o in spec.objectives]
        signs = [one.sign for one in spec.objectives]
        self._rows = [
            row_effects([{seed: sign * v for seed, v in row.items()} for row in table])
            for sign, table in zip(signs, tables, strict=True)
        ]
        self._counts = np.array([float(len(row)) for row in (tables[0] if tables else [])])
        self._limits = [self._limit(one.text) for one in spec.limits if self._measured] + self._refusals()
        self._objective: Surrogate | None = None
        self._weights: Any = None

    @property
    def ready(self) -> bool:
        """True if enough settings have values for a model."""
        return len(self._measured) >= 3

    @property
    def weighed(self) -> bool:
        """True once the objectives have a model."""
        return self._objective is not None

    def best(self, count: int) -> list[list[float]]:
        """The points of the best settings, by value and safety."""
        points = [point for one in self._measured if (point := self._space.point(one.changes)) is not None]
        gains = self.gain(points, wide=True)
        return [points[place] for place in np.argsort(-gains, kind="stable")[:count]]

    def weigh(self, weights: Sequence[float]) -> None:
        """Fits the model of the objectives; `weights` combine several (Knowles, "ParEGO", 2006)."""
        rows = self._rows
        if len(rows) == 1:
            target = rows[0]
        else:
            scaled = np.array([weight * _unit(row) for weight, row in zip(weights, rows, strict=True)])
            target = scaled.max(axis=0) + 0.05 * scaled.sum(axis=0)
        self._weights = tuple(weights)
        self._objective = self._fit("objective", self._measured, target, 1.0 / self._counts)

    def _fit(self, name: str, settings: Sequence[Setting], values: Any, noise: Any) -> Surrogate:
        points = [self._space.point(one.changes) for one in settings]
        found = Surrogate(points, values, noise, self._space.categorical, self._kept.get(name))
        self._kept[name] = found.logs
        return found

    def _limit(self, text: str) -> Constraint:
        """The model of a constraint from the violations of all runs."""
        tables = [list(seed_violations(one, self._spec, text).values()) for one in self._measured]
        counts, excess = compressed_excess([value for row in tables for value in row])
        rows = [[excess(value) for value in row] for row in tables]
        means = np.array([statistics.fmean(row) for row in rows])
        model = self._fit(text, self._measured, means, 1.0 / np.array([float(len(row)) for row in rows]))
        share = 1.0 - self._spec.constraint_share
        if counts:  # the mean is -1 + 2 times the broken share
            return Constraint(model, 1.5 * share / self._caution - 1.0, 0.8 * share)
        squares = np.array([sum((one - mean) ** 2 for one in row) for row, mean in zip(rows, means, strict=True)])
        freedom = np.array([len(row) - 1.0 for row in rows])
        return Constraint(model, 0.0, 1e-9, squares, freedom, float(squares.sum() / max(freedom.sum(), 1.0)))

    def _refusals(self) -> list[Constraint]:
        """The model of settings that are refused or fail, if any did."""
        wrong = [1.0 if one.refused or one.failures else -1.0 for one in self._known]
        if max(wrong, default=-1.0) < 0:
            return []
        return [Constraint(self._fit("runs", self._known, wrong, np.ones(len(wrong))), 0.0, 1e-9)]

    def passing(self, points: Any) -> Any:
        """The probability that a setting keeps the constraints in enough seeds to be recommended."""
        deep = NORMAL.inv_cdf(PASS_TARGET ** (1.0 / seeds_needed(0, self._spec.constraint_share))) * self._caution
        found = np.ones(len(points))
        for limit in self._limits:
            found *= limit.passing(points, deep)
        return found

    def gain(self, points: Any, *, wide: bool = False) -> Any:
        """Expected improvement over the best setting that passes (Jones et al., 1998), times the probability to pass.

        `wide` compares with a middling setting instead, which orders settings by value and safety.
        """
        assert self._objective is not None
        mean, unsure = self._objective.predict(points)
        passes = self.passing(points)
        here = [self._space.point(one.changes) for one in self._measured]
        tried, _ = self._objective.predict(here)
        fine = self.passing(here) >= 0.5
        if wide:
            level = float(np.quantile(tried[fine] if fine.any() else tried, 0.75))
            return (level + 1e-9 - mean).clip(min=1e-12) * passes
        if not fine.any():
            return passes
        best = float(tried[fine].min())
        z = (best - mean) / np.maximum(unsure, 1e-12)
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        return ((best - mean) * PHI(z) + unsure * density) * passes

    def believe(self, point: Sequence[float]) -> None:
        """Counts a proposed setting as measured with the predicted result."""
        assert self._objective is not None
        self._objective.believe(point)


def _unit(row: Any) -> Any:
    return (row - row.min()) / (float(np.ptp(row)) or 1.0)


def row_effects(tables: Sequence[dict[int, float]]) -> Any:
    """One number for each setting, from values by seed: the mean without the effects of the seeds.

    Settings have different numbers of seeds; a seed that is bad for all settings must not count against a few.
    """
    compress = compressed([value for row in tables for value in row.values()])
    seeds = sorted({seed for row in tables for seed in row})
    place = {seed: number for number, seed in enumerate(seeds)}
    values = np.zeros((len(tables), len(seeds)))
    there = np.zeros_like(values)
    for number, row in enumerate(tables):
        for seed, value in row.items():
            values[number, place[seed]], there[number, place[seed]] = compress(value), 1.0
    effects = np.zeros(len(seeds))
    rows = (values * there).sum(axis=1) / there.sum(axis=1)
    for _ in range(8):
        effects = ((values - rows[:, None]) * there).sum(axis=0) / there.sum(axis=0)
        rows = ((values - effects) * there).sum(axis=1) / there.sum(axis=1)
    return rows


def compressed(values: Sequence[float]) -> Any:
    """A scale on which values better than the median differ linearly, worse ones by their logarithm.

    >>> scale = compressed([1.0, 2.0, 3.0, 1e9, math.inf])
    >>> scale(1.0), scale(2.0), scale(3.0)
    (0.0, 0.5, 1.0)
    """
    finite = sorted(value for value in values if math.isfinite(value)) or [0.0]
    best, middle, worst = finite[0], finite[len(finite) // 2], finite[-1]
    span = middle - best or worst - best or 1.0

    def scale(value: float) -> float:
        share = (min(max(value, best), worst + (worst - best or 1.0)) - best) / span
        return share if share <= 1 else 1 + math.log(share)

    return scale


def compressed_excess(values: Sequence[float]) -> tuple[bool, Any]:
    """Whether a constraint counts, and a scale for its violations (above 0): linear near the bound, then logarithmic.

    Counts such as drops keep a bound exactly, so that a kept seed does not tell how close the bound is: -1 and 1.
    """
    kept = [value for value in values if value <= 0]
    if kept and 2 * kept.count(0.0) > len(kept):
        return True, lambda value: -1.0 if value <= 0 else 1.0
    sizes = [abs(value) for value in values if math.isfinite(value)] or [1.0]
    unit, most = statistics.median(sizes) or 1.0, 2 * max(sizes) or 1.0

    def scale(value: float) -> float:
        return math.copysign(math.log1p(min(abs(value), most) / unit), value)

    return False, scale
