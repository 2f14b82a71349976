"""Settings and their measurements; all runs of a search are runs of a sweep.

A setting assigns values to the parameters. A setting has one run per scenario and seed; each run is computed once,
stored in the search's folder, and reused when the search resumes.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pauseframe import _core
from pauseframe.results.run_key import run_key
from pauseframe.sweep.batch import BATCHES, Batches
from pauseframe.sweep.plan import PlannedRun, run_folder
from pauseframe.sweep.spec import label
from pauseframe.terminal.text import printable
from pauseframe.tune.limits import refusal
from pauseframe.tune.metrics import Reading, read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pauseframe.scenario.plain import Settings, Value
    from pauseframe.sweep.incremental import IncrementalSweep
    from pauseframe.sweep.plan import Source
    from pauseframe.tune.spec import Objective, Situation, Spec

SITUATION = "scenario"
"""The axis of scenarios in the tables of the search."""


@dataclass
class Setting:
    """A setting: values of keys, and the metrics of its runs."""

    changes: Settings
    """Values of the setting by the path of the key; empty for the unchanged scenario."""
    refused: str = ""
    """The reason why the setting is refused; empty if it may run."""
    readings: dict[tuple[str, int], dict[str, Reading]] = field(default_factory=dict)
    """Metrics of the setting's runs by scenario and seed."""
    sim_time_s: float = 0.0
    """Simulated duration of the setting's longest run, in seconds."""
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    tomls: dict[str, str] = field(default_factory=dict)
    """The resolved scenario without its seed, by scenario name."""

    @property
    def name(self) -> str:
        """Name that identifies the setting."""
        return json.dumps(self.changes, sort_keys=True)

    @property
    def seeds(self) -> list[int]:
        """The seeds with a run, or with a failed one."""
        return sorted({seed for _, seed in [*self.readings, *self.failures]})


@dataclass
class Wanted:
    """A run, and the settings that need its metrics, because equal values may be written in two ways."""

    run: PlannedRun
    by: list[tuple[Setting, tuple[str, int]]] = field(default_factory=list)


class Laboratory(Protocol):
    """Evaluates settings, by the simulator or by a stand-in with a known answer."""

    spec: Spec

    def prepare(self, changes: Settings) -> Setting:
        """The setting with the given changes, refused if it cannot run; equal changes return the same object."""
        ...

    def measure(self, wanted: Iterable[tuple[Setting, Sequence[int]]]) -> None:
        """Measures settings for the given seeds."""
        ...


class Simulations:
    """Measures settings by running the simulator."""

    def __init__(self, source: Source, spec: Spec, runs: IncrementalSweep, tell: Any = None) -> None:
        self.spec = spec
        self.waited_s = 0.0
        """Wall-clock time spent waiting for runs, in seconds."""
        self.run_s = 0.0
        """Sum of the wall-clock times of all runs in seconds, including runs before a resume."""
        self._source = source
        self._runs = runs
        self._settings: dict[str, Setting] = {}
        self._tell = tell or (lambda _: None)

    @property
    def sweep(self) -> IncrementalSweep:
        """The sweep that holds all runs of the search."""
        return self._runs

    def prepare(self, changes: Settings) -> Setting:
        """Resolves a setting in every scenario, and checks it without a run."""
        setting = Setting(changes)
        known = self._settings.setdefault(setting.name, setting)
        if known is setting:
            for situation in self.spec.situations:
                setting.refused = setting.refused or self._resolve(setting, situation)
        return known

    def _resolve(self, setting: Setting, situation: Situation) -> str:
        try:
            resolved = self._source.resolve_with(setting.changes | situation.changes, seed=0)
        except _core.ScenarioError as error:
            first = error.problems[0]
            return printable(f"{first['path']}: {first['message']}")
        setting.tomls[situation.name] = resolved.toml
        return refusal(resolved, self.spec)

    def measure(self, wanted: Iterable[tuple[Setting, Sequence[int]]]) -> None:
        """Computes missing runs, and reads the metrics of each."""
        missing: dict[str, Wanted] = {}
        for setting, seeds in wanted:
            for situation in self.spec.situations:
                for seed in seeds:
                    place = situation.name, seed
                    if place in setting.readings or place in setting.failures or setting.refused:
                        continue
                    run = self._planned(setting, situation, seed)
                    missing.setdefault(run.key, Wanted(run)).by.append((setting, place))
        begun = time.perf_counter()
        failures = {}
        for outcome in self._runs.compute([one.run for one in missing.values()]):
            if outcome.error is not None:
                failures[outcome.run.key] = outcome.error
            self._tell(outcome)
        self.waited_s += time.perf_counter() - begun
        self._read(missing, failures)

    def _read(self, runs: Mapping[str, Wanted], failures: Mapping[str, str]) -> None:
        batches = Batches(self._runs.folder / BATCHES)
        for key, wanted in runs.items():
            if key in failures:
                for setting, place in wanted.by:
                    setting.failures[place] = failures[key]
                continue
            record = batches.read(key)
            summary = record.manifest["summary"]
            self.run_s += float(summary["wall_s"])
            readings = read_metrics(self.spec.metrics, summary, record.section)
            for setting, place in wanted.by:
                setting.readings[place] = readings
                setting.sim_time_s = max(setting.sim_time_s, float(summary["sim_time_s"]))

    def _planned(self, setting: Setting, situation: Situation, seed: int) -> PlannedRun:
        toml = setting.tomls[situation.name]
        axes: dict[str, Value] = {path: label(setting.changes.get(path, "default")) for path in self.spec.parameters}
        named = situation.name
        if extra := {path: value for path, value in setting.changes.items() if path not in axes}:
            named += f", {label(extra)}"
        axes[SITUATION] = named
        return PlannedRun(axes, seed, run_folder(axes, seed), run_key(toml, seed), toml)

    def axes(self) -> dict[str, list[Value]]:
        """The values of each axis of all runs so far."""
        found: dict[str, list[Value]] = {path: [] for path in [*self.spec.parameters, SITUATION]}
        for run in self._runs.runs.values():
            for path, values in found.items():
                if run.axes[path] not in values:
                    values.append(run.axes[path])
        return found


@dataclass(frozen=True)
class Scale:
    """Divisors that make an objective comparable across scenarios: the values of the first valid setting."""

    of: Mapping[tuple[str, str], float]
    """Divisors by scenario and metric; empty for a single scenario, whose values are used directly."""

    def combined(self, objective: Objective, by_situation: Mapping[str, float]) -> float:
        """One number for all scenarios: the value of a single scenario, or the worst ratio."""
        if not self.of:
            return next(iter(by_situation.values()))
        text = objective.metric.text
        ratios = [value / self.of[situation, text] for situation, value in by_situation.items()]
        return min(ratios) if objective.maximize else max(ratios)


def scale_from(settings: Iterable[Setting], spec: Spec) -> Scale:
    """Divisors from the medians of the first setting with finite, non-zero values."""
    if len(spec.situations) < 2:
        return Scale({})
    found: dict[tuple[str, str], float] = {}
    for setting in settings:
        for situation in spec.situations:
            for objective in spec.objectives:
                place = (situation.name, objective.metric.text)
                values = [
                    one[objective.metric.text].value
                    for (where, _), one in setting.readings.items()
                    if where == situation.name
                ]
                if place not in found and values and 0 < (middle := statistics.median(values)) < math.inf:
                    found[place] = middle
    wanted = {(one.name, objective.metric.text) for one in spec.situations for objective in spec.objectives}
    return Scale(found | dict.fromkeys(wanted - set(found), 1.0))


def per_seed(setting: Setting, objective: Objective, scale: Scale, spec: Spec) -> dict[int, float]:
    """An objective by seed over all scenarios; infinitely bad if a run failed or has no value."""
    found: dict[int, float] = {}
    for seed in setting.seeds:
        runs = [(one.name, seed) for one in spec.situations]
        if not all(run in setting.readings or run in setting.failures for run in runs):
            continue
        values = {
            name: setting.readings[name, seed][objective.metric.text].value
            if (name, seed) in setting.readings
            else math.inf
            for name, _ in runs
        }
        value = math.inf if math.inf in values.values() else scale.combined(objective, values)
        found[seed] = -value if value == math.inf and objective.maximize else value
    return found


def seed_violations(setting: Setting, spec: Spec, text: str) -> dict[int, float]:
    """A constraint's worst violation over the scenarios, by seed: at most 0 where it holds."""
    limit = next(one for one in spec.limits if one.text == text)
    worst = dict.fromkeys(setting.seeds, -math.inf)
    for (_, seed), one in setting.readings.items():
        worst[seed] = max(worst[seed], limit.violation(one[limit.metric.text].value))
    return worst | {seed: math.inf for _, seed in setting.failures}


def broken_seeds(setting: Setting, spec: Spec, text: str = "") -> set[int]:
    """The seeds in which a setting breaks the constraint with this text, or any constraint, or fails."""
    texts = [text] if text else [one.text for one in spec.limits]
    broken = {seed for one in texts for seed, worst in seed_violations(setting, spec, one).items() if worst > 0}
    return broken | {seed for _, seed in setting.failures}
