"""The answer of a search: a recommended setting and its evidence, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING

from pauseframe.results.percentiles import ENOUGH_BEYOND
from pauseframe.sweep.statistics import Estimate, estimate
from pauseframe.tune.trials import broken_seeds, per_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.scenario.plain import Settings, Value
    from pauseframe.tune.search import Trial
    from pauseframe.tune.spec import Objective, Spec
    from pauseframe.tune.trials import Scale, Setting

RECOMMENDED, KEEP_DEFAULT = "recommended", "keep_default"
NOTHING_KEEPS, NOTHING_MEASURED = "nothing_keeps_the_constraints", "nothing_was_measured"
"""The four verdicts of a search."""


@dataclass(frozen=True)
class PredictionInterval:
    """Prediction interval: the range of n values, valid for further values from the same continuous distribution.

    Of the n + 1 gaps between n values, n - 1 lie inside the range, and a further value falls into each with the same
    probability (Wilks, "Statistical prediction with special reference to the problem of tolerance limits", 1942).
    """

    n: int
    low: float
    high: float

    def covers(self, least: int = 1, of: int = 1) -> float:
        """The probability that at least `least` of `of` further values lie in the interval.

        >>> PredictionInterval(60, 1.0, 2.0).covers() == 59 / 61
        True
        """
        ways = sum(comb(self.n - 2 + inside, inside) * (of - inside + 1) for inside in range(least, of + 1))
        return ways / comb(self.n + of, of)


@dataclass
class Judged:
    """The results of a setting on held-out seeds."""

    name: str
    source: str
    setting: Setting
    estimates: list[Estimate]
    """The median of each objective over the seeds."""
    predictions: list[PredictionInterval]
    """The prediction interval of each objective."""
    ratios: list[Estimate | None] = field(default_factory=list)
    """Ratio of each objective to the recommended setting, seed by seed; None if a ratio is undefined."""
    changes: Settings = field(default_factory=dict)
    """The setting as it is shown: of the default, the values that the scenario has."""
    broken: dict[str, int] = field(default_factory=dict)
    """Number of seeds with a violation, by constraint."""
    worst: dict[str, float] = field(default_factory=dict)
    """Value closest to the bound, or farthest beyond it, by constraint."""
    seeds: int = 0
    """Number of seeds that judge the constraints, at least those of the estimates."""
    any_broken: int = 0
    """Number of those seeds that break any constraint or fail."""
    unfinished: int = 0
    """Number of unfinished samples of completion times in all runs."""
    samples: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Smallest and largest number of samples of a run, by metric."""


@dataclass
class Point:
    """A changed value of one parameter, with its results."""

    value: Value
    position: float
    ratios: list[float]
    """Ratio of each objective to the recommended setting; above 1 is worse."""
    kept: bool
    """True if the value is valid and meets all constraints."""
    why: str = ""


@dataclass
class Slack:
    """The range of a parameter without a loss above the tolerance and without a violated constraint."""

    path: str
    value: Value
    low: Value | None
    high: Value | None
    """Ends of the tolerated range; None for choices."""
    open_low: bool
    open_high: bool
    """True if the upper end is the end of the search's range, beyond which no value was tried."""
    good: list[Value]
    """Choices whose loss is within the tolerance."""
    points: list[Point]


@dataclass
class Answer:
    """The result of a search and its evidence."""

    verdict: str
    trials: list[Trial]
    scale: Scale
    seeds: dict[str, list[int]]
    recommended: Judged | None = None
    """The setting to use: the best one, or the default if none is clearly better."""
    nearest: Judged | None = None
    """If no setting keeps the constraints, the one that keeps them in most seeds."""
    front: list[Judged] = field(default_factory=list)
    """Settings that no other setting dominates; a single setting for a single objective."""
    references: list[Judged] = field(default_factory=list)
    sensitivity: list[Slack] = field(default_factory=list)
    around: str = "the recommended setting"
    """The setting around which the sensitivity was measured."""
    rejected: list[Judged] = field(default_factory=list)
    """Settings that broke the constraints in too many held-out seeds."""
    runner_up: Judged | None = None
    notes: list[str] = field(default_factory=list)
    cost: dict[str, float] = field(default_factory=dict)


def judge(
    name: str,
    source: str,
    setting: Setting,
    seeds: Sequence[int],
    scale: Scale,
    spec: Spec,
    against: Setting | None = None,
    judging: Sequence[int] = (),
) -> Judged:
    """The results of a setting over seeds, with ratios to the recommended setting.

    `judging` are the seeds for the constraints if they are more than `seeds`.
    """
    judged = Judged(name, source, setting, [], [], changes=setting.changes)
    if setting.refused:
        return judged
    for objective in spec.objectives:
        values = per_seed(setting, objective, scale, spec)
        mine = [values[seed] for seed in seeds]
        judged.estimates.append(estimate(mine, varies=len(set(mine)) > 1))
        judged.predictions.append(PredictionInterval(len(mine), min(mine), max(mine)))
        if against is not None:
            theirs = per_seed(against, objective, scale, spec)
            ratios = [_ratio(values[seed], theirs[seed]) for seed in seeds]
            judged.ratios.append(estimate([one for one in ratios if one is not None]) if None not in ratios else None)
    counting = set(judging or seeds)
    judged.seeds = len(counting)
    judged.any_broken = len(broken_seeds(setting, spec) & counting)
    for limit in spec.limits:
        judged.broken[limit.text] = len(broken_seeds(setting, spec, limit.text) & counting)
        found = [one[limit.metric.text].value for (_, seed), one in setting.readings.items() if seed in counting]
        if found:
            judged.worst[limit.text] = min(found) if limit.at_least else max(found)
    _count_samples(judged, setting, seeds, spec)
    return judged


def _ratio(one: float, other: float) -> float | None:
    """A ratio of two values of one seed; None if it has no meaning."""
    if one == other:
        return 1.0
    if math.isinf(one) or math.isinf(other):
        return math.inf if math.isinf(one) else 0.0
    return one / other if other else None


def differences(
    setting: Setting, other: Setting, objective: Objective, seeds: Sequence[int], scale: Scale, spec: Spec
) -> Estimate:
    """Median of an objective's differences, seed by seed; below 0 where `setting` is better than `other`."""
    mine, theirs = (per_seed(one, objective, scale, spec) for one in (setting, other))
    pairs = [(objective.sign * mine[seed], objective.sign * theirs[seed]) for seed in seeds]
    return estimate([0.0 if one == other else one - other for one, other in pairs])


def _count_samples(judged: Judged, setting: Setting, seeds: Sequence[int], spec: Spec) -> None:
    for metric in spec.metrics:
        found = [one[metric.text] for (_, seed), one in setting.readings.items() if seed in seeds]
        counts = [one.samples for one in found if one.samples is not None]
        if counts:
            judged.samples[metric.text] = min(counts), max(counts)
        judged.unfinished += sum(one.unfinished for one in found)


def shown_notes(answer: Answer, spec: Spec) -> list[str]:
    """Notes on a recommended setting: too few samples, unfinished flows, missing values, ends of ranges."""
    notes = []
    chosen = answer.recommended
    assert chosen is not None
    for metric in spec.metrics:
        least, _ = chosen.samples.get(metric.text, (0, 0))
        share = metric.quantile
        if share is not None and least * (1 - share) < ENOUGH_BEYOND:
            notes.append(
                f"{metric.text}: {least:,} samples in a run are too few for p{100 * share:g}: only about "
                f"{least * (1 - share):.2g} lie above it, and {ENOUGH_BEYOND} are needed"
            )
    for objective in spec.objectives:
        values = per_seed(chosen.setting, objective, answer.scale, spec)
        missing = sum(math.isinf(values[seed]) for seed in answer.seeds["held_out"])
        if missing:
            notes.append(
                f"{objective.metric.text}: no value in {missing} of {len(answer.seeds['held_out'])} held-out seeds, "
                "which count as infinitely bad"
            )
    if chosen.unfinished:
        notes.append(
            f"{chosen.unfinished:,} flows or queries of the recommended setting had not finished when their run ended: "
            "percentiles count them as longer than their age (Kaplan-Meier), means are lower bounds"
        )
    notes += [
        f"{one.path}: the recommended value is an end of its range; widen it if the key allows"
        for one in answer.sensitivity
        if answer.verdict == RECOMMENDED
        and one.low is not None
        and ((one.value == one.low and one.open_low) or (one.value == one.high and one.open_high))
    ]
    if answer.rejected:
        notes.append(
            f"{len(answer.rejected)} other settings broke the constraints in too many held-out seeds and were rejected"
        )
    return notes
