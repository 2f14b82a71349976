"""The answer of a search: a recommended setting and its evidence.

Three disjoint sets of seeds are used. The first serves the search. The second selects among the best settings of the
search, because the best of many noisy values looks better than it is. The third serves only the answer.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING

from pauseframe._percentiles import ENOUGH_BEYOND
from pauseframe.sweep.statistics import Estimate, estimate
from pauseframe.tune.trials import keeps_all, per_seed, violations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe._plain import Value
    from pauseframe.tune.parameters import Parameter
    from pauseframe.tune.search import Outcome, Trial
    from pauseframe.tune.spec import Objective, Spec
    from pauseframe.tune.trials import Laboratory, Scale, Setting

OFFSETS = (0.03, 0.08, 0.2, 0.4)
"""Distances from the recommended value at which the sensitivity is measured, as shares of the parameter's range."""
FRONT = 8
"""Number of points of the Pareto front that are run with the check seeds."""


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
    broken: dict[str, int] = field(default_factory=dict)
    """Number of seeds with a violation, by constraint."""
    worst: dict[str, float] = field(default_factory=dict)
    """Value closest to the bound, or farthest beyond it, by constraint."""
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

    trials: list[Trial]
    scale: Scale
    recommended: Judged | None
    front: list[Judged]
    """Settings that no other setting dominates; a single setting for a single objective."""
    references: list[Judged]
    sensitivity: list[Slack]
    rejected: list[Judged]
    """Settings with better search results that violated a constraint on a held-out seed."""
    runner_up: Judged | None
    seeds: dict[str, list[int]]
    notes: list[str] = field(default_factory=list)
    cost: dict[str, float] = field(default_factory=dict)


def find_answer(
    lab: Laboratory,
    found: Outcome,
    parameters: Sequence[Parameter],
    references: Sequence[tuple[str, str, Setting]],
    seeds: dict[str, list[int]],
) -> Answer:
    """Evaluates the best settings of a search. `references` are (name, source, setting)."""
    spec, scale = lab.spec, found.scale
    known = [*seeds["search"], *seeds["check"]]
    finalists = _finalists(lab, found, known, seeds["check"])
    chosen, rejected = None, []
    for setting in finalists:
        lab.measure([(setting, seeds["held_out"])])
        judged = judge("recommended", "", setting, seeds["held_out"], scale, spec)
        if keeps_all(setting, spec):
            chosen = judged
            break
        rejected.append(judged)
    answer = Answer(found.trials, scale, chosen, [], [], [], rejected, None, seeds)
    lab.measure([(setting, seeds["held_out"]) for _, _, setting in references if not setting.refused])
    for name, source, setting in references:
        answer.references.append(judge(name, source, setting, seeds["held_out"], scale, spec, chosen))
    if chosen is None:
        answer.notes.append(_nothing_found(found, rejected))
        return answer
    others = [one for one in finalists if one is not chosen.setting and keeps_all(one, spec, known)]
    if others:
        answer.runner_up = judge("runner-up", "", others[0], known, scale, spec, None)
    if len(spec.objectives) > 1:
        front = _nondominated([chosen.setting, *others], known, scale, spec)
        answer.front = [judge(f"front {n}", "", one, known, scale, spec) for n, one in enumerate(front, 1)]
    else:
        answer.front = [chosen]
    if spec.sensitivity:
        answer.sensitivity = [_slack(lab, one, chosen.setting, seeds["search"], scale) for one in parameters]
    answer.notes += _notes(answer, spec)
    return answer


def _finalists(lab: Laboratory, found: Outcome, known: Sequence[int], check: Sequence[int]) -> list[Setting]:
    """The best settings of the search, sorted by their results on the check seeds."""
    spec, scale = lab.spec, found.scale
    complete = [one.setting for one in found.complete]
    search = [seed for seed in known if seed not in check]
    if len(spec.objectives) > 1:
        front = _nondominated(complete, search, scale, spec)
        best = _spread(front, FRONT, search, scale, spec)
    else:
        best = sorted(complete, key=lambda one: _score(one, spec.objectives[0], search, scale, spec))[: spec.finalists]
    lab.measure([(one, check) for one in best])
    kept = [one for one in best if keeps_all(one, spec, known)]
    if len(spec.objectives) > 1:
        return sorted(kept, key=lambda one: _regret(one, kept, known, scale, spec))
    return sorted(kept, key=lambda one: _score(one, spec.objectives[0], known, scale, spec))


def _spread(front: Sequence[Setting], count: int, seeds: Sequence[int], scale: Scale, spec: Spec) -> list[Setting]:
    """Points spread over a front: first the least-regret point, then repeatedly the point farthest from all chosen."""
    scores = {id(one): [_score(one, o, seeds, scale, spec) for o in spec.objectives] for one in front}
    ranges = [(min(column), max(column)) for column in zip(*scores.values(), strict=True)]
    places = {
        one: [(score - low) / (high - low or 1.0) for score, (low, high) in zip(mine, ranges, strict=True)]
        for one, mine in scores.items()
    }
    left = sorted(front, key=lambda one: _regret(one, front, seeds, scale, spec))
    taken, left = left[:1], left[1:]
    while left and len(taken) < count:
        distance = [min(math.dist(places[id(one)], places[id(other)]) for other in taken) for one in left]
        taken.append(left.pop(distance.index(max(distance))))
    return taken


def _score(setting: Setting, objective: Objective, seeds: Sequence[int], scale: Scale, spec: Spec) -> float:
    """Median of an objective over seeds; smaller is better."""
    values = per_seed(setting, objective, scale, spec)
    return objective.sign * statistics.median(values[seed] for seed in seeds)


def _regret(setting: Setting, among: Sequence[Setting], seeds: Sequence[int], scale: Scale, spec: Spec) -> float:
    """The largest distance of a setting to the best value of any objective, relative to the range over the front."""
    worst = 0.0
    for objective in spec.objectives:
        scores = [_score(one, objective, seeds, scale, spec) for one in among]
        span = max(scores) - min(scores)
        if span > 0:
            worst = max(worst, (_score(setting, objective, seeds, scale, spec) - min(scores)) / span)
    return worst


def _nondominated(settings: Sequence[Setting], seeds: Sequence[int], scale: Scale, spec: Spec) -> list[Setting]:
    """The settings that no other setting dominates (at least as good in all objectives, and better in one)."""
    scores = {id(one): [_score(one, o, seeds, scale, spec) for o in spec.objectives] for one in settings}

    def beats(one: list[float], other: list[float]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return [one for one in settings if not any(beats(scores[id(other)], scores[id(one)]) for other in settings)]


def judge(
    name: str,
    source: str,
    setting: Setting,
    seeds: Sequence[int],
    scale: Scale,
    spec: Spec,
    against: Judged | None = None,
) -> Judged:
    """The results of a setting over seeds, with ratios to the recommended setting."""
    judged = Judged(name, source, setting, [], [])
    if setting.refused:
        return judged
    for objective in spec.objectives:
        values = per_seed(setting, objective, scale, spec)
        mine = [values[seed] for seed in seeds]
        varies = len(set(mine)) > 1
        judged.estimates.append(estimate(mine, varies=varies))
        judged.predictions.append(PredictionInterval(len(mine), min(mine), max(mine)))
        if against is not None:
            theirs = per_seed(against.setting, objective, scale, spec)
            pairs = [(values[seed], theirs[seed]) for seed in seeds]
            fine = all(math.isfinite(one) and math.isfinite(other) and other for one, other in pairs)
            judged.ratios.append(estimate([one / other for one, other in pairs]) if fine else None)
    for limit in spec.limits:
        per = {seed: violations(setting, spec, [seed])[limit.text] for seed in seeds}
        judged.broken[limit.text] = sum(worst > 0 for worst in per.values())
        found = [one[limit.metric.text].value for (_, seed), one in setting.readings.items() if seed in seeds]
        if found:
            judged.worst[limit.text] = min(found) if limit.at_least else max(found)
    _count_samples(judged, setting, seeds, spec)
    return judged


def _count_samples(judged: Judged, setting: Setting, seeds: Sequence[int], spec: Spec) -> None:
    for metric in spec.metrics:
        found = [one[metric.text] for (_, seed), one in setting.readings.items() if seed in seeds]
        counts = [one.samples for one in found if one.samples is not None]
        if counts:
            judged.samples[metric.text] = min(counts), max(counts)
        judged.unfinished += sum(one.unfinished for one in found)


def _slack(lab: Laboratory, parameter: Parameter, setting: Setting, seeds: Sequence[int], scale: Scale) -> Slack:
    """Varies one parameter, with all others fixed, on the seeds of the search."""
    value = setting.changes[parameter.path]
    tried = _values_around(parameter, value)
    settings = [lab.prepare(setting.changes | {parameter.path: other}) for _, other in tried]
    lab.measure([(one, seeds) for one in settings if not one.refused])
    points = [
        _point(one, other, position, setting, seeds, scale, lab.spec)
        for one, (position, other) in zip(settings, tried, strict=True)
    ]
    within = [one.kept and all(ratio <= 1 + lab.spec.sensitivity for ratio in one.ratios) for one in points]
    if not parameter.is_range:
        fine = [value, *(one.value for one, kept in zip(points, within, strict=True) if kept)]
        good = [one for one in parameter.choices if one in fine]
        return Slack(parameter.path, value, None, None, False, False, good, points)
    here = parameter.position(parameter.number(value) or 0.0)
    low, open_low = _edge(points, within, here, lab.spec.sensitivity, side=-1)
    high, open_high = _edge(points, within, here, lab.spec.sensitivity, side=1)
    ends = parameter.value(parameter.at(low)), parameter.value(parameter.at(high))
    return Slack(parameter.path, value, *ends, open_low, open_high, [], points)


def _values_around(parameter: Parameter, value: Value) -> list[tuple[float, Value]]:
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


def _point(
    setting: Setting, value: Value, position: float, best: Setting, seeds: Sequence[int], scale: Scale, spec: Spec
) -> Point:
    if setting.refused:
        return Point(value, position, [], False, setting.refused)
    ratios = []
    for objective in spec.objectives:
        mine, theirs = (per_seed(one, objective, scale, spec) for one in (setting, best))
        pairs = [(mine[seed], theirs[seed]) for seed in seeds]
        each = [_ratio(one, other, objective.maximize) for one, other in pairs]
        ratios.append(statistics.median(each))
    broken = [text for text, worst in violations(setting, spec, seeds).items() if worst > 0]
    return Point(value, position, ratios, keeps_all(setting, spec, seeds), f"breaks {broken[0]}" if broken else "")


def _ratio(one: float, other: float, maximize: bool) -> float:
    """Ratio by which `one` is worse than `other`; above 1 is worse."""
    if one == other:
        return 1.0
    above, below = (other, one) if maximize else (one, other)
    return above / below if below and math.isfinite(above) else math.inf


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


def _nothing_found(found: Outcome, rejected: Sequence[Judged]) -> str:
    if rejected:
        return f"{len(rejected)} settings kept all constraints in the search and broke one on a held-out seed"
    states = [one.state for one in found.trials]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return f"no setting kept all constraints on all seeds ({counted}): widen the ranges or relax a constraint"


def _notes(answer: Answer, spec: Spec) -> list[str]:
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
    if chosen.unfinished:
        notes.append(
            f"{chosen.unfinished:,} flows or queries of the recommended setting had not finished when their run ended: "
            "percentiles count them as longer than their age (Kaplan-Meier), means are lower bounds"
        )
    notes += [
        f"{one.path}: the recommended value is an end of its range; widen it if the key allows"
        for one in answer.sensitivity
        if one.low is not None and one.value in (one.low, one.high)
    ]
    if answer.rejected:
        notes.append(
            f"{len(answer.rejected)} better settings were rejected: each broke a constraint on a held-out seed"
        )
    return notes
