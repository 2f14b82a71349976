"""The choice of the answer among the settings of a search.

Disjoint seeds keep the answer honest. Those of the search and the check seeds select, because the best of many noisy
values looks better than it is. Held-out seeds judge the selected setting; one that fails there is given up, and the
next is judged on further held-out seeds. The default, and references that set only tuned keys, are candidates too.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from pauseframe.tune.answer import (
    KEEP_DEFAULT,
    NOTHING_KEEPS,
    NOTHING_MEASURED,
    RECOMMENDED,
    Answer,
    Judged,
    Point,
    differences,
    judge,
    shown_notes,
)
from pauseframe.tune.chance import FIRST, MAX_BROKEN, is_hopeless, seeds_needed
from pauseframe.tune.neighbours import slack, values_around, worse_by
from pauseframe.tune.search import median
from pauseframe.tune.trials import broken_seeds, per_seed, seed_violations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pauseframe.scenario.plain import Settings, Value
    from pauseframe.tune.answer import Slack
    from pauseframe.tune.parameters import Parameter
    from pauseframe.tune.search import Search
    from pauseframe.tune.trials import Setting

FRONT = 8
"""Number of points of the Pareto front that are run with the check seeds."""
ROUNDS, NEW = 3, 2
"""Rounds in which the model proposes so many further finalists."""
MOVES = 6
"""Number of moves to a better neighbour."""
MORE_CAUTION = 0.25
"""Growth of the caution for each setting that held-out seeds reject: the model was too confident."""
ATTEMPTS = 8
"""Number of settings that held-out seeds may reject."""
CHALLENGES = 3
"""Number of better finalists, which the model thinks too close to a bound, that held-out seeds test."""
NEAREST = 8
"""Number of settings that get the check seeds to find the one nearest to the constraints."""
LIKELY = 0.5
"""Probability to keep the constraints, by the model, from which a setting is a candidate."""
KEPT = " (keep it)"
"""What follows the name of the default where it is the answer."""
Named = tuple[str, str, "Setting"]
"""Name, source and setting."""


class Finals:
    """Finds the answer of a search that has tried its settings."""

    def __init__(
        self, search: Search, default: Settings, references: Sequence[Named], seeds: dict[str, list[int]]
    ) -> None:
        """`default` are the scenario's own values of the parameters."""
        self._search, self._lab, self._spec, self._seeds = search, search.lab, search.spec, seeds
        self._known = [*seeds["search"], *seeds["check"]]
        self._first_held_out = seeds["held_out"][0]
        needed = seeds_needed(MAX_BROKEN, self._spec.constraint_share)
        self._block_length = max(len(seeds["held_out"]), needed)
        self._default_values = default
        self._default = self._lab.prepare({})
        self._references = list(references)
        self._finalists: dict[str, Setting] = {}
        self._failed: dict[str, Setting] = {}
        """Settings that held-out seeds rejected."""
        self._judging: dict[str, list[int]] = {}
        """The held-out seeds of each judged setting."""
        self._random: Named | None = None

    def find(self, random: Callable[[int], Named | None]) -> Answer:
        """The answer; `random` runs a random search with as many runs, or returns None."""
        answer = Answer(NOTHING_MEASURED, self._search.trials, self._search.scale, self._seeds)
        tunable = [one for _, _, one in self._references if set(one.changes) <= set(self._spec.parameters)]
        self._measure_known([self._default, *tunable])
        if why := self._unmeasured():
            answer.notes.append(why)
            return answer
        chosen = self._choose(random)
        if chosen is None:
            return self._nothing_keeps(answer)
        self._compare(answer, chosen)
        answer.notes += shown_notes(answer, self._spec)
        return answer

    # --- selection, on the seeds of search and check

    def _measure_known(self, settings: Sequence[Setting]) -> None:
        runnable = [one for one in settings if not one.refused]
        self._lab.measure([(one, self._known) for one in runnable])
        self._finalists |= {one.name: one for one in runnable}

    def _unmeasured(self) -> str:
        """The reason why nothing was measured; empty if every objective has a value in some setting."""
        settings = [one.setting for one in self._search.trials if not one.setting.refused]
        if not settings and not self._finalists:
            why = next((one.setting.refused for one in self._search.trials), "no setting exists")
            return f"nothing was measured: every setting was refused, such as {why}"
        everything = [*settings, *self._finalists.values()]
        failures = [text for one in everything for text in one.failures.values()]
        if failures and not any(one.readings for one in everything):
            return f"nothing was measured: every run failed, such as {failures[0]}"
        for number, objective in enumerate(self._spec.objectives):
            if any(math.isfinite(self._median(one, number, one.seeds)) for one in everything):
                continue
            text = objective.metric.text
            left = sum(run[text].unfinished for one in everything for run in one.readings.values())
            ends = f": {left:,} samples had not finished when the runs ended; raise stop.time" if left else ""
            return f"nothing was measured: {text} has no value in most runs of any setting{ends}"
        return ""

    def _median(self, setting: Setting, number: int, seeds: Sequence[int]) -> float:
        return median(setting, self._search, number, seeds)

    def _scores(self, setting: Setting, seeds: Sequence[int]) -> list[float]:
        return [self._median(setting, number, seeds) for number in range(len(self._spec.objectives))]

    def _broken(self, setting: Setting, seeds: Sequence[int]) -> int:
        return len(broken_seeds(setting, self._spec) & set(seeds))

    def _missing(self, setting: Setting, seeds: Sequence[int]) -> int:
        """Number of seeds without a value of an objective."""
        rows = [per_seed(setting, one, self._search.scale, self._spec) for one in self._spec.objectives]
        return sum(any(math.isinf(row.get(seed, 0.0)) for row in rows) for seed in seeds)

    def _lacking(self, setting: Setting, seeds: Sequence[int]) -> int:
        """Number of seeds that break a constraint or lack a value; seeds with both count twice."""
        return self._broken(setting, seeds) + self._missing(setting, seeds)

    def _choose(self, random: Callable[[int], Named | None]) -> Setting | None:
        """The best setting that keeps the constraints on held-out seeds."""
        for attempt in range(ATTEMPTS):
            self._confirm()
            leader = self._leader()
            if leader is None:
                return None
            leader = self._refined(leader)
            if attempt == 0 and (found := random(self._spent())) is not None:
                self._random = found
                self._references.append(found)
                self._measure_known([found[2]])
                if (other := self._leader()) is not None and other is not leader and self._beats(other, leader):
                    leader = self._refined(other)
            if self._holds(leader, attempt):
                return self._challenged(leader, attempt + 1) if self._spec.limits else leader
            self._failed[leader.name] = leader
            self._search.caution += MORE_CAUTION
        return None

    def _challenged(self, leader: Setting, attempt: int) -> Setting:
        """Judges better finalists that the model thinks too close to a constraint: it may be wrong."""
        for number in range(CHALLENGES if len(self._spec.objectives) == 1 else 0):
            left = [one for one in self._finalists.values() if one.name not in self._failed and not one.failures]
            better = [one for one in left if self._beats(one, leader) and not self._missing(one, self._known)]
            share, count = self._spec.constraint_share, len(self._known)
            better = [one for one in better if not is_hopeless(self._broken(one, self._known), count, share)]
            placed = [one for one in better if self._search.space.point(one.changes) is not None]
            if not placed:
                break
            one = self._refined(self._safest(placed)[0])
            if self._holds(one, attempt + number, spare=1):  # several tries find lucky seeds
                leader = one
            else:
                self._failed[one.name] = one
        return leader

    def _spent(self) -> int:
        """Number of runs with one scenario that the search has used."""
        return sum(len(one.seeds) for one in {id(t.setting): t.setting for t in self._search.trials}.values())

    def _confirm(self) -> None:
        """Runs the best settings of the search with the check seeds, and further settings that the model proposes."""
        tried = [one.setting for one in self._search.trials if one.setting.readings and not one.setting.failures]
        tried = [one for one in {id(one): one for one in tried}.values() if one.name not in self._failed]
        if len(self._spec.objectives) > 1:
            kept = [one for one in tried if not self._broken(one, one.seeds)] or tried
            front = self._nondominated(kept, self._seeds["search"])
            self._measure_known(self._spread(front, FRONT))
            return
        if tried:
            seeds = self._seeds["search"]
            seen = sorted(tried, key=lambda one: (self._broken(one, seeds), self._scores(one, seeds)))
            self._measure_known([*self._safest(tried)[: self._spec.finalists], *seen[: self._spec.finalists // 2]])
        for _ in range(1 if self._failed else ROUNDS if self._spec.finalists > 1 else 0):
            proposed = self._search.propose(NEW, wide=True)
            self._search.measure(proposed)
            self._measure_known([one for _, one in proposed if not self._broken(one, self._known)])

    def _safest(self, settings: Sequence[Setting]) -> list[Setting]:
        """Settings by value and probability to keep the constraints, as the model sees them."""
        beliefs = self._search.beliefs()
        points = [self._search.space.point(one.changes) for one in settings]
        placed = [(one, point) for one, point in zip(settings, points, strict=True) if point is not None]
        if not beliefs.ready or not placed:
            known = self._seeds["search"]
            return sorted(settings, key=lambda one: (self._broken(one, known), self._scores(one, known)))
        beliefs.weigh([1.0])
        gains = beliefs.gain([point for _, point in placed], wide=True)
        return [placed[n][0] for n in sorted(range(len(placed)), key=lambda n: -float(gains[n]))]

    def _likely(self, settings: Sequence[Setting]) -> dict[str, bool]:
        """By name, whether the model expects a setting to keep the constraints."""
        beliefs = self._search.beliefs()
        points = {one.name: self._search.space.point(self._values(one)) for one in settings}
        placed = {name: point for name, point in points.items() if point is not None}
        if not beliefs.ready or not placed:
            return dict.fromkeys(points, True)
        found = beliefs.passing(list(placed.values()))
        return dict.fromkeys(points, True) | {name: float(p) >= LIKELY for name, p in zip(placed, found, strict=True)}

    def _leader(self) -> Setting | None:
        """The best finalist that may keep the constraints in enough seeds; None if none may."""
        left = [one for one in self._finalists.values() if one.name not in self._failed and not one.failures]
        share, count = self._spec.constraint_share, len(self._known)
        left = [one for one in left if not is_hopeless(self._broken(one, self._known), count, share)]
        if not left:
            return None
        lacking = {one.name: self._lacking(one, self._known) for one in left}
        left = [one for one in left if lacking[one.name] == min(lacking.values())]
        likely = self._likely(left)
        left = [one for one in left if likely[one.name]] or left
        if len(self._spec.objectives) > 1:
            left = self._nondominated(left, self._known)
            return min(left, key=lambda one: self._regret(one, left, self._known))
        return min(left, key=lambda one: self._scores(one, self._known))

    def _beats(self, one: Setting, other: Setting) -> bool:
        """True if a setting is at least as good in all objectives and better in one, on the known seeds."""
        mine, theirs = self._scores(one, self._known), self._scores(other, self._known)
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))

    def _refined(self, leader: Setting) -> Setting:
        """Moves to the best neighbour as long as one is better."""
        for _ in range(MOVES if self._spec.sensitivity else 0):
            better = self._better_neighbours(leader)
            if not better:
                break
            leader = min(better, key=lambda one: self._scores(one, self._known))
        return leader

    def _better_neighbours(self, center: Setting) -> list[Setting]:
        """The neighbours that are better on the known seeds and seem to keep the constraints."""
        if not self._spec.sensitivity:
            return []
        around = [one for parameter in self._search.space.parameters for _, _, one in self._around(center, parameter)]
        self._run_around(center, around)
        likely = self._likely(around)
        fine = [one for one in around if likely[one.name] and one.name not in self._failed]
        fine = [one for one in fine if self._finalists.get(one.name) is one and self._beats(one, center)]
        return [one for one in fine if self._lacking(one, self._known) <= self._lacking(center, self._known)]

    def _run_around(self, center: Setting, around: Sequence[Setting]) -> None:
        """Runs neighbours with the seeds of the search, and those that look better with the check seeds."""
        tried = {one.setting.name for one in self._search.trials}
        new = {one.name: ("neighbour", one) for one in around if one.name not in tried}
        self._search.measure(list(new.values()))
        seeds = self._seeds["search"]
        goal = self._scores(center, seeds)
        runnable = [one for one in around if not one.refused and not one.failures]
        better = [one for one in runnable if any(a < b for a, b in zip(self._scores(one, seeds), goal, strict=True))]
        self._measure_known([one for one in better if not self._broken(one, seeds)])

    def _values(self, setting: Setting) -> Settings:
        return setting.changes or self._default_values

    def _around(self, center: Setting, parameter: Parameter) -> list[tuple[float, Value, Setting]]:
        """Position, value and setting of each neighbour along one parameter."""
        values = self._values(center)
        if parameter.path not in values:
            return []
        if parameter.is_range and parameter.number(values[parameter.path]) is None:
            return []
        tried = values_around(parameter, values[parameter.path])
        return [(where, value, self._lab.prepare(values | {parameter.path: value})) for where, value in tried]

    # --- judgement, on held-out seeds

    def _block(self, attempt: int) -> list[int]:
        """The held-out seeds of an attempt; no two attempts share one."""
        begin = self._first_held_out + attempt * self._block_length
        return list(range(begin, begin + self._block_length))

    def _holds(self, setting: Setting, attempt: int, spare: int = 0) -> bool:
        """True if held-out seeds show that a setting keeps the constraints in the declared share of all seeds.

        They must show it even if `spare` further seeds were broken.
        """
        block, share, least = self._block(attempt), self._spec.constraint_share, len(self._seeds["held_out"])
        count = min(FIRST, least) if self._spec.limits else least
        while True:
            self._judging[setting.name] = block[:count]
            self._lab.measure([(setting, block[:count])])
            broken = self._broken(setting, block[:count])
            needed = max(least, seeds_needed(broken + spare, share) if self._spec.limits or broken else 0)
            if is_hopeless(broken, count, share) or broken + spare > MAX_BROKEN:
                return False
            if count >= needed:
                self._seeds["held_out"] = block[:least]
                # Missing values reject a setting, unless the best ones lack some too.
                missing = self._missing(setting, block[:least])
                allowed = self._missing(setting, self._known) > 0 and 2 * missing < least
                return allowed or not is_hopeless(missing, least, share)
            count = min(needed, count + FIRST)

    def _compare(self, answer: Answer, chosen: Setting) -> None:
        """Compares the best setting with default and references on the same seeds, and gives the verdict."""
        held = self._seeds["held_out"]
        attempt = (held[0] - self._first_held_out) // self._block_length
        self._lab.measure([(one, held) for _, _, one in self._references if not one.refused])
        chosen = self._best_held_out(chosen, attempt)
        default = self._default
        keep = False
        if not default.refused:
            self._lab.measure([(default, held)])
            measured = all(map(math.isfinite, self._scores(default, held)))
            keep = _same(default, chosen)
            keep = keep or (measured and not self._is_clearly_better(chosen) and self._holds(default, attempt))
        answer.verdict = KEEP_DEFAULT if keep else RECOMMENDED
        best = default if keep else chosen
        judging = self._judging.get(best.name, held)
        title = f"default{KEPT}" if keep else "recommended"
        answer.recommended = self._judge(title, "the scenario as it stands" if keep else "", best, None)
        others: list[Named] = []
        if not keep:
            others.append(("default", "the scenario as it stands", default))
        elif not _same(default, chosen):
            others.append(("best found", "the best other setting; not clearly better than the default", chosen))
        answer.references = [self._judge(*one, best) for one in [*others, *self._references]]
        answer.rejected = [self._judge("rejected", "", one, None) for one in self._failed.values()]
        answer.seeds = self._seeds | {"constraints": judging}
        self._add_alternatives(answer, chosen)
        self._note_outside(answer)

    def _best_held_out(self, chosen: Setting, attempt: int) -> Setting:
        """The best setting on the held-out seeds: the chosen one, a reference, or a better neighbour of that."""
        keys = set(self._spec.parameters)
        rivals = [one for _, _, one in self._references if set(one.changes) <= keys and not one.refused]
        tried = {chosen.name}
        while True:
            better = [one for one in rivals if one.name not in tried and self._is_better(one, chosen)]
            better = [one for one in better if self._holds(one, attempt)]
            if not better:
                return chosen
            chosen = min(better, key=lambda one: self._scores(one, self._seeds["held_out"]))
            tried |= {one.name for one in rivals}
            rivals = self._better_neighbours(chosen)
            self._lab.measure([(one, self._seeds["held_out"]) for one in rivals])

    def _judge(self, name: str, source: str, setting: Setting, against: Setting | None) -> Judged:
        judging = self._judging.get(setting.name, [])
        seeds = self._seeds["held_out"] if name != "rejected" else judging
        found = judge(name, source, setting, seeds, self._search.scale, self._spec, against, judging)
        if setting is self._default:
            found.changes = self._default_values
        return found

    def _gains(self, setting: Setting, other: Setting) -> list[tuple[float, float]]:
        """By objective, median difference and the end of its interval nearest to worse; below 0 is better."""
        seeds = self._seeds["held_out"]
        found = [
            differences(setting, other, one, seeds, self._search.scale, self._spec) for one in self._spec.objectives
        ]
        return [(one.median, one.median if one.high is None else one.high) for one in found]

    def _is_better(self, setting: Setting, other: Setting) -> bool:
        gains = self._gains(setting, other)
        return all(gain <= 0 for gain, _ in gains) and any(gain < 0 for gain, _ in gains)

    def _is_clearly_better(self, setting: Setting) -> bool:
        """True if an objective is better than with the default beyond the interval of the differences."""
        return any(high < 0 for _, high in self._gains(setting, self._default))

    def _add_alternatives(self, answer: Answer, chosen: Setting) -> None:
        spec, known, scale = self._spec, self._known, self._search.scale
        kept = [one for one in self._finalists.values() if one.name not in self._failed and not one.failures]
        kept = [one for one in kept if one is chosen or not (self._broken(one, known) or _same(one, self._default))]
        others = sorted((one for one in kept if one is not chosen), key=lambda one: self._scores(one, known))
        if others and not _same(others[0], chosen):
            answer.runner_up = judge("runner-up", "", others[0], known, scale, spec)
        front = self._nondominated([chosen, *others], known) if len(spec.objectives) > 1 else [chosen]
        answer.front = [judge(f"front {n}", "", one, known, scale, spec) for n, one in enumerate(front, 1)]
        if spec.sensitivity:
            if answer.verdict == KEEP_DEFAULT and not _same(chosen, self._default):
                answer.around = "the best setting found"
            found = [self._slack(one, chosen) for one in self._search.space.parameters]
            answer.sensitivity = [one for one in found if one is not None]

    def _slack(self, parameter: Parameter, center: Setting) -> Slack | None:
        around = self._around(center, parameter)
        self._run_around(center, [one for _, _, one in around])
        if not around:
            return None
        likely = self._likely([one for _, _, one in around])
        points = [self._point(one, value, where, center, likely[one.name]) for where, value, one in around]
        return slack(parameter, self._values(center)[parameter.path], points, self._spec.sensitivity)

    def _point(self, setting: Setting, value: Value, where: float, center: Setting, likely: bool) -> Point:
        if setting.refused:
            return Point(value, where, [], False, setting.refused)
        choices = (self._seeds["held_out"], self._known, self._seeds["search"])
        seeds = next(one for one in choices if set(one) <= set(setting.seeds))
        ratios = [
            worse_by(
                one.sign * self._median(setting, n, seeds), one.sign * self._median(center, n, seeds), one.maximize
            )
            for n, one in enumerate(self._spec.objectives)
        ]
        texts = [one.text for one in self._spec.limits]
        broken = [text for text in texts if broken_seeds(setting, self._spec, text) & set(setting.seeds)]
        if setting.failures:
            return Point(value, where, ratios, False, "a run failed")
        if broken:
            return Point(value, where, ratios, False, f"breaks {broken[0]}")
        if (missing := self._missing(setting, seeds)) > self._missing(center, seeds):
            return Point(value, where, ratios, False, f"no value in {missing} of {len(seeds)} seeds")
        return Point(value, where, ratios, likely, "" if likely else "too close to a bound")

    def _note_outside(self, answer: Answer) -> None:
        """Notes references that are better but set other keys than the search may."""
        best = answer.recommended
        assert best is not None
        for name, _, one in self._references:
            other = sorted(set(one.changes) - set(self._spec.parameters))
            if other and not one.refused and self._is_better(one, best.setting) and not self._broken(one, one.seeds):
                answer.notes.append(f"{name} is better, but sets keys that are not tuned: {', '.join(other)}")

    def _nothing_keeps(self, answer: Answer) -> Answer:
        """Names the setting that keeps the constraints in most seeds; of equal ones, the one least beyond a bound."""
        tried = {one.setting.name: one.setting for one in self._search.trials} | self._finalists
        runnable = [one for one in tried.values() if one.seeds and not one.refused and not one.failures]
        answer.verdict = NOTHING_KEEPS
        if not runnable:
            answer.notes.append("no setting can run: every one was refused or failed")
            return answer

        def excess(one: Setting) -> float:
            worst = [seed_violations(one, self._spec, limit.text) for limit in self._spec.limits]
            return statistics.median(max((row[seed] for row in worst), default=0.0) for seed in one.seeds)

        def distance(one: Setting) -> tuple[float, float]:
            return self._broken(one, one.seeds) / len(one.seeds), excess(one)

        measured = {one.name for one in runnable if set(self._known) <= set(one.seeds)}
        for _ in range(NEAREST):  # few seeds may flatter a setting, so the best is measured with all before it counts
            best = min(runnable, key=distance)
            if best.name in measured:
                break
            self._measure_known([best])
            measured.add(best.name)
            runnable = [one for one in runnable if not one.failures] or [best]
        best = min([one for one in runnable if one.name in measured] or [best], key=distance)
        seeds = best.seeds
        answer.nearest = judge("nearest", "", best, seeds, self._search.scale, self._spec)
        answer.nearest.changes = self._values(best)
        answer.rejected = [self._judge("rejected", "", one, None) for one in self._failed.values()]
        return answer

    # --- several objectives

    def _spread(self, front: Sequence[Setting], count: int) -> list[Setting]:
        """Points spread over a front: the least-regret point, then repeatedly the point farthest from all chosen."""
        seeds = self._seeds["search"]
        scores = {one.name: self._scores(one, seeds) for one in front}
        ranges = [(min(column), max(column)) for column in zip(*scores.values(), strict=True)]
        places = {
            name: [(score - low) / (high - low or 1.0) for score, (low, high) in zip(mine, ranges, strict=True)]
            for name, mine in scores.items()
        }
        left = sorted(front, key=lambda one: self._regret(one, front, seeds))
        taken, left = left[:1], left[1:]
        while left and len(taken) < count:
            distance = [min(math.dist(places[one.name], places[other.name]) for other in taken) for one in left]
            taken.append(left.pop(distance.index(max(distance))))
        return taken

    def _regret(self, setting: Setting, among: Sequence[Setting], seeds: Sequence[int]) -> float:
        """The largest distance to the best value of any objective, relative to the range over the front."""
        worst = 0.0
        columns = zip(*(self._scores(one, seeds) for one in among), strict=True)
        for mine, scores in zip(self._scores(setting, seeds), columns, strict=True):
            if max(scores) > min(scores):
                worst = max(worst, (mine - min(scores)) / (max(scores) - min(scores)))
        return worst

    def _nondominated(self, settings: Sequence[Setting], seeds: Sequence[int]) -> list[Setting]:
        """The settings that no other setting dominates (at least as good in all objectives, and better in one)."""
        scores = {one.name: self._scores(one, seeds) for one in settings}

        def beats(one: list[float], other: list[float]) -> bool:
            return one != other and all(a <= b for a, b in zip(one, other, strict=True))

        finite = [one for one in settings if all(map(math.isfinite, scores[one.name]))] or list(settings)
        return [one for one in finite if not any(beats(scores[other.name], scores[one.name]) for other in finite)]


def _same(one: Setting, other: Setting) -> bool:
    """True if two settings have the same runs."""
    return one is other or (bool(one.tomls) and one.tomls == other.tomls)
