"""The search: Optuna proposes settings, runs evaluate them, and constraints and successive halving end bad ones early.

A search depends only on the scenario, the specification and the versions, because batches have a fixed size, and
results are reported in the order of trials. A resumed search is replayed: Optuna proposes the same settings again, and
their runs are found in the folder. The journal in the folder is for other programs, such as optuna-dashboard.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.tune.trials import Scale, Setting, keeps_all, per_seed, scale_from, violations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pauseframe._plain import Settings
    from pauseframe.tune.parameters import Parameter
    from pauseframe.tune.spec import Spec
    from pauseframe.tune.trials import Laboratory

STARTUP = 10
"""Number of random settings before TPE's model is used (Optuna's default)."""
REFINE_FROM = 0.4
"""Share of the trials after which three of four trials modify the best setting so far (with one objective)."""
STEP_FIRST, STEP_LAST = 0.1, 0.01
"""Standard deviation of a step from the best setting, as a share of each range, at the first and the last step."""
POPULATION = 16
"""Population of NSGA-II, small because a search of this size has few generations.

With one parameter, NSGA-II is a random search.
"""
UNKNOWN = 1e18
"""Finite value that replaces infinity for Optuna, because a journal cannot store infinity."""


@dataclass
class Trial:
    """A setting that the search tried."""

    number: int
    setting: Setting
    origin: str
    """"search", or the origin of a start point such as a formula."""
    state: str = ""
    """"complete", "pruned" (halving), "violates" (a constraint), "failed", or "refused" before any run."""
    values: list[float] = field(default_factory=list)
    """Median of each objective over the trial's seeds."""
    seeds: int = 0
    shortened: bool = False
    """True if the trial ended after the run shortened by `first_stop`; its values then belong to that run."""


@dataclass
class Outcome:
    """The result of a search."""

    trials: list[Trial]
    scale: Scale
    search_s: float
    """Wall-clock time of proposing and evaluating settings, without the runs."""

    @property
    def complete(self) -> list[Trial]:
        """Trials with all seeds that meet all constraints, one per setting."""
        return list({id(one.setting): one for one in reversed(self.trials) if one.state == "complete"}.values())[::-1]


def optuna() -> Any:
    """Imports Optuna when a search begins."""
    try:
        found = import_module("optuna")
    except ImportError:
        raise InputError("a search needs Optuna: pip install 'pauseframe[tune]'") from None
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def rungs(seeds: int, factor: int) -> list[int]:
    """Numbers of seeds of a setting at the steps of successive halving.

    >>> rungs(9, 3), rungs(4, 3), rungs(5, 1)
    ([1, 3, 9], [1, 3, 4], [5])
    """
    steps, count = [], 1
    while factor > 1 and count < seeds:
        steps.append(count)
        count *= factor
    return [*steps, seeds]


class Search:
    """One search with one laboratory."""

    def __init__(
        self,
        lab: Laboratory,
        parameters: Sequence[Parameter],
        starts: Sequence[tuple[str, Settings]],
        seeds: Sequence[int],
        *,
        sampler: str | None = None,
        trials: int | None = None,
        journal: Path | None = None,
        halving: bool = True,
        told: Callable[[Trial], None] | None = None,
    ) -> None:
        self._lab = lab
        self._spec: Spec = lab.spec
        self._parameters = list(parameters)
        self._starts = list(starts)
        self._seeds = list(seeds)
        halves = halving and len(self._spec.objectives) == 1
        self._rungs = [(count, False) for count in rungs(len(self._seeds), self._spec.halving if halves else 1)]
        """Number of seeds at each step of successive halving, and whether the runs of that step are shortened."""
        if halves and self._spec.first_stop:
            self._rungs.insert(0, (1, True))
        self._count = self._spec.trials if trials is None else trials
        self._told = told or (lambda _: None)
        self._trials: list[Trial] = []
        self._scale = self._first_scale = Scale({})
        self._optuna = optuna()
        self._random = Random(self._spec.search_seed)
        self._steps_from_best = False
        self._study = self._new_study(sampler or self._spec.sampler, journal)

    def _new_study(self, sampler: str, journal: Path | None) -> Any:
        library, seed = self._optuna, self._spec.search_seed
        several = len(self._spec.objectives) > 1
        if sampler == "random":
            chosen = library.samplers.RandomSampler(seed=seed)
        elif sampler == "nsga2":
            chosen = library.samplers.NSGAIISampler(seed=seed, population_size=POPULATION)
        else:
            chosen = library.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=STARTUP)
            self._steps_from_best = not several
        pruner = library.pruners.SuccessiveHalvingPruner(
            min_resource=1, reduction_factor=max(2, self._spec.halving), min_early_stopping_rate=0
        )
        storage = None
        if journal is not None:
            journal.unlink(missing_ok=True)  # the replay writes the journal again
            backend = library.storages.journal.JournalFileBackend(str(journal))
            storage = library.storages.JournalStorage(backend)
        directions = ["maximize" if one.maximize else "minimize" for one in self._spec.objectives]
        return library.create_study(directions=directions, sampler=chosen, pruner=pruner, storage=storage)

    def run(self) -> Outcome:
        """Tries as many settings as the search may have trials."""
        begun, waited = time.perf_counter(), _waited(self._lab)
        for _, changes in self._starts[: self._count]:
            self._study.enqueue_trial(self._numbers(changes))
        while len(self._trials) < self._count:
            self._batch(min(self._spec.at_once, self._count - len(self._trials)))
        spent = time.perf_counter() - begun - (_waited(self._lab) - waited)
        return Outcome(self._trials, self._scale, spent)

    def _numbers(self, changes: Settings) -> dict[str, Any]:
        """A start point in Optuna's format, inside the ranges; missing values are drawn."""
        found: dict[str, Any] = {}
        for one in self._parameters:
            if one.path not in changes:
                continue
            value = changes[one.path]
            if not one.is_range:
                if value in one.choices:
                    found[one.path] = one.choices.index(value)
            elif (number := one.number(value)) is not None:
                found[one.path] = min(max(number, one.low), one.high)
                if one.whole or one.step is not None:
                    step = one.step or 1.0
                    found[one.path] = one.low + round((found[one.path] - one.low) / step) * step
                if one.whole:
                    found[one.path] = int(found[one.path])
        return found

    def _batch(self, size: int) -> None:
        asked = [self._ask() for _ in range(size)]
        alive = []
        for trial, handle in asked:
            if trial.setting.refused:
                self._tell(trial, handle, "refused")
            else:
                alive.append((trial, handle))
        for number in range(len(self._rungs)):
            alive = self._rung(alive, number)
        for trial, handle in alive:
            self._tell(trial, handle, "complete")

    def _rung(self, alive: list[Any], number: int) -> list[Any]:
        """Evaluates settings at a step; settings that violate a constraint or fall behind end at this step."""
        count, short = self._rungs[number]
        seeds = self._seeds[:count]
        self._lab.measure([(trial.setting, seeds) for trial, _ in alive], short)
        self._find_scale(short)
        left = []
        for trial, handle in alive:
            trial.seeds, trial.shortened = count, short
            trial.values = self._values(trial.setting, seeds, short)
            if trial.setting.failures:
                self._tell(trial, handle, "failed")
            elif not short and not keeps_all(trial.setting, self._spec, seeds):
                self._tell(trial, handle, "violates")
            elif self._falls_behind(trial, handle, number):
                self._tell(trial, handle, "pruned")
            else:
                left.append((trial, handle))
        return left

    def _find_scale(self, short: bool) -> None:
        settings = [one.setting for one in self._trials]
        if short and not self._first_scale.of:
            self._first_scale = scale_from(settings, self._spec, short)
        elif not short and not self._scale.of:
            self._scale = scale_from(settings, self._spec)

    def _falls_behind(self, trial: Trial, handle: Any, number: int) -> bool:
        """True if successive halving ends a setting, after a comparison with other settings at the same step."""
        if number == len(self._rungs) - 1:
            return False
        handle.report(_finite(trial.values[0]), max(2, self._spec.halving) ** number)
        return trial.origin == "search" and bool(handle.should_prune())

    def _values(self, setting: Setting, seeds: Sequence[int], short: bool) -> list[float]:
        found = []
        for objective in self._spec.objectives:
            values = per_seed(setting, objective, self._first_scale if short else self._scale, self._spec, short)
            found.append(statistics.median(values[seed] for seed in seeds))
        return found

    def _step_from_best(self) -> None:
        """Takes a small random step from the best setting.

        TPE's model is too wide to follow the edge of a constraint or a narrow valley; small steps can.
        """
        number, begin = len(self._trials), max(len(self._starts) + STARTUP, int(REFINE_FROM * self._count))
        complete = [one for one in self._trials if one.state == "complete"]
        if not self._steps_from_best or number < begin or not number % 4 or not complete:
            return
        sign = self._spec.objectives[0].sign
        best = min(complete, key=lambda one: sign * one.values[0]).setting.changes
        share = (number - begin) / max(1, self._count - begin)
        deviation = STEP_FIRST * (STEP_LAST / STEP_FIRST) ** share
        point = dict(best)
        ranges = [one for one in self._parameters if one.is_range]
        moved = self._random.sample(ranges, self._random.randint(1, len(ranges))) if ranges else []
        for one in moved:
            here = one.position(one.number(best[one.path]) or one.low)
            point[one.path] = one.value(one.at(here + self._random.gauss(0.0, deviation)))
        self._study.enqueue_trial(self._numbers(point))

    def _ask(self) -> tuple[Trial, Any]:
        self._step_from_best()
        handle = self._study.ask()
        changes = {one.path: self._suggest(one, handle) for one in self._parameters}
        number = len(self._trials)
        origin = self._starts[number][0] if number < len(self._starts) else "search"
        trial = Trial(number, self._lab.prepare(changes), origin)
        self._trials.append(trial)
        return trial, handle

    @staticmethod
    def _suggest(one: Parameter, handle: Any) -> Any:
        if not one.is_range:
            return one.choices[handle.suggest_categorical(one.path, list(range(len(one.choices))))]
        if one.whole:
            step = max(1, int(one.step or 1))
            return one.value(
                handle.suggest_int(one.path, math.ceil(one.low), math.floor(one.high), step=step, log=one.log)
            )
        return one.value(handle.suggest_float(one.path, one.low, one.high, step=one.step, log=one.log))

    def _tell(self, trial: Trial, handle: Any, state: str) -> None:
        """Reports a trial's end. A setting that violates a constraint is complete for Optuna, and infeasible."""
        trial.state = state
        broken = violations(trial.setting, self._spec) if state in ("complete", "violates", "pruned") else {}
        handle.set_constraint("run", 1.0 if state in ("refused", "failed") else 0.0)
        for limit in self._spec.limits:
            handle.set_constraint(limit.text, _finite(broken.get(limit.text, 1.0)))
        states = self._optuna.trial.TrialState
        if state == "pruned":
            self._study.tell(handle, state=states.PRUNED)
        else:
            worst = [UNKNOWN * one.sign for one in self._spec.objectives]
            values = (
                [_finite(value) for value in trial.values] if trial.values and not trial.setting.failures else worst
            )
            self._study.tell(handle, values)
        self._told(trial)


def _finite(value: float) -> float:
    return min(max(value, -UNKNOWN), UNKNOWN)


def _waited(lab: Laboratory) -> float:
    return float(getattr(lab, "waited_s", 0.0))
