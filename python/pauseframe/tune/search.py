"""The search: first settings spread over the ranges, then those of which a model of all runs expects most.

A search depends only on the scenario, the specification and the versions, because batches have a fixed size, and
results are read in the order of trials. A resumed search is replayed: it proposes the same settings again, and their
runs are found in the folder. It keeps no other state, so a kill loses only the runs that were going on.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.tune.parameters import Space
from pauseframe.tune.trials import Scale, Setting, broken_seeds, per_seed, scale_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pauseframe.scenario.plain import Settings
    from pauseframe.tune.beliefs import Beliefs
    from pauseframe.tune.parameters import Parameter
    from pauseframe.tune.spec import Spec
    from pauseframe.tune.trials import Laboratory

FIRST = 6
"""Number of settings spread over the ranges before the model proposes, plus `FIRST_PER_KEY` for each parameter."""
FIRST_PER_KEY = 3
SPREAD_EVERY, SPREAD_UNTIL = 3, 0.75
"""One of so many settings is spread over the ranges, up to this share of the trials: for optima far from the best."""
POOL = 400
"""Number of random points among which the model chooses."""
NEAR, NEAR_STEPS = 40, (0.2, 0.05, 0.015)
"""Number of points around each of the `BEST` best settings, for each standard deviation, as a share of the range."""
BEST = 3
SAME = 9
"""Digits to which expected gains are rounded, so that machines with other arithmetic units choose the same."""


@dataclass
class Trial:
    """A setting that the search tried."""

    number: int
    setting: Setting
    origin: str
    """"search", or the origin of a start point such as a formula."""
    state: str = ""
    """"complete", "violates" (a constraint, in a seed of the search), "failed", or "refused" before any run."""
    values: list[float] = field(default_factory=list)
    """Median of each objective over the seeds of the search."""


def need_numpy() -> None:
    """Refuses a search without NumPy."""
    if find_spec("numpy") is None:
        raise InputError("a search needs NumPy: pip install 'pauseframe[tune]'")


class Search:
    """One search with one laboratory."""

    def __init__(
        self,
        lab: Laboratory,
        parameters: Sequence[Parameter],
        starts: Sequence[tuple[str, Settings]],
        seeds: Sequence[int],
        *,
        trials: int | None = None,
        random: bool = False,
        told: Callable[[Trial], None] | None = None,
    ) -> None:
        """With `random`, all settings are drawn at random: the search to compare with."""
        need_numpy()
        self.lab = lab
        self.spec: Spec = lab.spec
        self.space = Space(parameters)
        self.seeds = list(seeds)
        self.trials: list[Trial] = []
        self.scale = Scale({})
        self.caution = 1.0
        """Factor on the distance that the model keeps to constraints; it grows with each setting that fails."""
        self._starts = list(starts)
        self._count = self.spec.trials if trials is None else trials
        self._told = told or (lambda _: None)
        self._random = Random(self.spec.search_seed)
        self._is_random = random
        self._offset = [self._random.random() for _ in parameters]
        self._spread = 0
        self._fits: dict[str, Any] = {}

    def run(self) -> None:
        """Tries as many settings as the search may have trials, or all that exist."""
        while len(self.trials) < self._count:
            size = min(self.spec.at_once, self._count - len(self.trials))
            proposed = self._starting(size) or self.propose(size)
            if not proposed:
                return
            self.measure(proposed)

    def _starting(self, size: int) -> list[tuple[str, Setting]]:
        now, self._starts = self._starts[:size], self._starts[size:]
        known = self._names()
        found = {setting.name: (origin, setting) for origin, changes in now for setting in [self._prepared(changes)]}
        return [pair for name, pair in found.items() if name not in known]

    def _prepared(self, changes: Settings) -> Setting:
        """A start point inside the ranges; missing values are drawn."""
        drawn = self.space.changes(self.space.spread(self._next_spread())) if changes else {}
        found: Settings = {}
        for one in self.space.parameters if changes else ():
            value = changes.get(one.path, drawn[one.path])
            number = None if one.choices else one.number(value)
            found[one.path] = value if number is None else one.value(one.at(one.position(max(number, one.low))))
        return self.lab.prepare(found)

    def _names(self) -> set[str]:
        return {one.setting.name for one in self.trials}

    def measure(self, proposed: Sequence[tuple[str, Setting]]) -> None:
        """Runs settings with the seeds of the search, and records them as trials."""
        self.lab.measure([(setting, self.seeds) for _, setting in proposed if not setting.refused])
        new = [Trial(len(self.trials) + n, setting, origin) for n, (origin, setting) in enumerate(proposed)]
        self.trials += new
        if not self.scale.of:
            self.scale = scale_from([one.setting for one in self.trials], self.spec)
        for trial in new:
            self._conclude(trial)
            self._told(trial)

    def _conclude(self, trial: Trial) -> None:
        setting = trial.setting
        if setting.refused:
            trial.state = "refused"
            return
        for objective in self.spec.objectives:
            values = per_seed(setting, objective, self.scale, self.spec)
            trial.values.append(statistics.median(values[seed] for seed in self.seeds))
        broken = broken_seeds(setting, self.spec) & set(self.seeds)
        trial.state = "failed" if setting.failures else "violates" if broken else "complete"

    def beliefs(self) -> Beliefs:
        """The model of all runs so far."""
        from pauseframe.tune.beliefs import Beliefs

        settings = [one.setting for one in self.trials]
        return Beliefs(self.space, self.spec, settings, self.scale, self._fits, self.caution)

    def propose(self, size: int, *, wide: bool = False) -> list[tuple[str, Setting]]:
        """The next settings to try; fewer if no others exist. `wide` orders by value and safety, without curiosity."""
        taken = self._names()
        proposed: list[tuple[str, Setting]] = []
        beliefs = None
        for _ in range(size):
            number = len(self.trials) + len(proposed)
            curious = number % SPREAD_EVERY == SPREAD_EVERY - 1 and number < SPREAD_UNTIL * self._count
            first = number < FIRST + FIRST_PER_KEY * len(self.space.parameters)
            if beliefs is None and not self._is_random and not (not wide and (first or curious)):
                beliefs = self.beliefs()
                beliefs = beliefs if beliefs.ready else None
            by_model = beliefs is not None and (wide or not (first or curious))
            found = self._by_model(beliefs, taken, wide) if beliefs is not None and by_model else None
            setting = found or self._by_spread(taken)
            if setting is None:
                break
            taken.add(setting.name)
            proposed.append(("search", setting))
        return proposed

    def _by_spread(self, taken: set[str]) -> Setting | None:
        """The next setting of a sequence that fills the ranges evenly; None if all settings were taken."""
        for _ in range(200):
            point = [self._random.random() for _ in self._offset] if self._is_random else self._next_spread()
            setting = self.lab.prepare(self.space.changes(self.space.spread(point)))
            if setting.name not in taken or self._is_random:
                return setting
        return None

    def _next_spread(self) -> list[float]:
        """A point of the additive recurrence with the generalised golden ratio (Roberts, 2018)."""
        ratio, dimensions = 1.5, len(self._offset)
        for _ in range(40):
            ratio = (1 + ratio) ** (1 / (dimensions + 1))
        self._spread += 1
        return [(offset + self._spread * ratio ** -(n + 1)) % 1.0 for n, offset in enumerate(self._offset)]

    def _by_model(self, beliefs: Beliefs, taken: set[str], wide: bool) -> Setting | None:
        weights = [self._random.expovariate(1.0) for _ in self.spec.objectives]
        if len(weights) > 1 or not beliefs.weighed:
            beliefs.weigh([one / sum(weights) for one in weights])
        pool = self._pool(beliefs)
        gains = beliefs.gain(pool, wide=wide)
        for place in sorted(range(len(pool)), key=lambda n: -float(f"{gains[n]:.{SAME}g}")):
            setting = self.lab.prepare(self.space.changes(pool[place]))
            if setting.name not in taken:
                beliefs.believe(self.space.point(setting.changes) or pool[place])
                return setting
        return None

    def _pool(self, beliefs: Beliefs) -> list[list[float]]:
        """Random points, and points around the best settings."""
        draw = self._random
        found = [self.space.spread([draw.random() for _ in self._offset]) for _ in range(POOL)]
        for center in beliefs.best(BEST):
            for deviation in NEAR_STEPS:
                for _ in range(NEAR):
                    moved = [one + draw.gauss(0.0, deviation) * (draw.random() < 0.7) for one in center]
                    found.append(self._inside(moved))
        return found

    def _inside(self, point: Sequence[float]) -> list[float]:
        inside = [min(max(one, 0.0), 1.0) for one in point]
        return [
            round(one * (len(p.choices) - 1)) / (len(p.choices) - 1) if p.choices else one
            for one, p in zip(inside, self.space.parameters, strict=True)
        ]


def median(setting: Setting, search: Search, number: int, seeds: Sequence[int]) -> float:
    """Median of an objective over seeds; smaller is better, infinite without values."""
    objective = search.spec.objectives[number]
    values = per_seed(setting, objective, search.scale, search.spec)
    found = [values[seed] for seed in seeds if seed in values]
    return objective.sign * statistics.median(found) if found else math.inf
