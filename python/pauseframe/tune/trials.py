"""Settings and what they measured: every run of a search, through the machinery of sweeps.

A setting is a set of values of the parameters. Its runs are one for each situation and seed; each is computed once,
kept in the search's folder, and taken from there when the search is resumed.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pauseframe import _core
from pauseframe._text import printable
from pauseframe.sweep.batch import BATCHES, Batches
from pauseframe.sweep.plan import PlannedRun, run_folder, run_key
from pauseframe.sweep.spec import label
from pauseframe.tune.limits import refusal
from pauseframe.tune.metrics import Reading, read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pauseframe._plain import Settings, Value
    from pauseframe.sweep.incremental import IncrementalSweep
    from pauseframe.sweep.plan import Source
    from pauseframe.tune.spec import Objective, Situation, Spec

SITUATION = "scenario"
"""The axis of the situations in the tables of the search."""


@dataclass
class Setting:
    """Values of keys, and the readings of the runs that had them."""

    changes: Settings
    """Values by the path of their key; empty for the scenario as it stands."""
    refused: str = ""
    """Why it is not run."""
    readings: dict[tuple[str, int], dict[str, Reading]] = field(default_factory=dict)
    """By situation and seed, then by metric."""
    first_readings: dict[tuple[str, int], dict[str, Reading]] = field(default_factory=dict)
    """Of the runs that `first_stop` has shortened."""
    sim_time_s: float = 0.0
    """Of its longest run."""
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    tomls: dict[str, str] = field(default_factory=dict)
    """The resolved scenario, without its seed, by situation."""

    @property
    def name(self) -> str:
        """What tells it apart."""
        return json.dumps(self.changes, sort_keys=True)

    def readings_of(self, short: bool) -> dict[tuple[str, int], dict[str, Reading]]:
        """Of the shortened runs, or of the others."""
        return self.first_readings if short else self.readings


@dataclass
class Wanted:
    """A run, and the settings that wait for its readings: equal values may be written in two ways."""

    run: PlannedRun
    by: list[tuple[Setting, tuple[str, int]]] = field(default_factory=list)


class Laboratory(Protocol):
    """Whoever measures settings: the simulator, or a stand-in with a known answer."""

    spec: Spec

    def prepare(self, changes: Settings) -> Setting:
        """The setting with these changes, refused if it cannot be run; the same object for the same changes."""
        ...

    def measure(self, wanted: Iterable[tuple[Setting, Sequence[int]]], short: bool = False) -> None:
        """Fills in the readings of settings for these seeds."""
        ...


class Simulations:
    """Measures settings by running the simulator."""

    def __init__(self, source: Source, spec: Spec, runs: IncrementalSweep, tell: Any = None) -> None:
        self.spec = spec
        self.waited_s = 0.0
        """Wall time until runs had ended."""
        self.run_s = 0.0
        """Sum of the wall times of the runs themselves, those of before a resume included."""
        self._source = source
        self._runs = runs
        self._settings: dict[str, Setting] = {}
        self._tell = tell or (lambda _: None)

    @property
    def sweep(self) -> IncrementalSweep:
        """The runs."""
        return self._runs

    def prepare(self, changes: Settings) -> Setting:
        """Resolves the setting in every situation, and checks what can be checked without a run."""
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

    def measure(self, wanted: Iterable[tuple[Setting, Sequence[int]]], short: bool = False) -> None:
        """Runs what has not been run, and reads the metrics of each run as it ends."""
        missing: dict[str, Wanted] = {}
        for setting, seeds in wanted:
            for situation in self.spec.situations:
                for seed in seeds:
                    place = situation.name, seed
                    if place in setting.readings_of(short) or place in setting.failures or setting.refused:
                        continue
                    run = self._planned(setting, situation, seed, short)
                    missing.setdefault(run.key, Wanted(run)).by.append((setting, place))
        begun = time.perf_counter()
        failures = {}
        for outcome in self._runs.compute([one.run for one in missing.values()]):
            if outcome.error is not None:
                failures[outcome.run.key] = outcome.error
            self._tell(outcome)
        self.waited_s += time.perf_counter() - begun
        self._read(missing, failures, short)

    def _read(self, runs: Mapping[str, Wanted], failures: Mapping[str, str], short: bool) -> None:
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
                setting.readings_of(short)[place] = readings
                setting.sim_time_s = max(setting.sim_time_s, float(summary["sim_time_s"]))

    def _planned(self, setting: Setting, situation: Situation, seed: int, short: bool) -> PlannedRun:
        changes = setting.changes | situation.changes
        toml = setting.tomls[situation.name]
        if short:
            toml = self._source.resolve_with(changes | {"stop.time": self.spec.first_stop}, seed=0).toml
        axes: dict[str, Value] = {path: label(setting.changes.get(path, "default")) for path in self.spec.parameters}
        named = situation.name + (" (short)" if short else "")
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
    """What objectives of several situations are divided by: the values of the first setting that has any."""

    of: Mapping[tuple[str, str], float]
    """By situation and metric; empty with one situation, whose values stand as they are."""

    def combined(self, objective: Objective, by_situation: Mapping[str, float]) -> float:
        """One number for all situations: the value, or the worst ratio."""
        if not self.of:
            return next(iter(by_situation.values()))
        text = objective.metric.text
        ratios = [value / self.of[situation, text] for situation, value in by_situation.items()]
        return min(ratios) if objective.maximize else max(ratios)


def scale_from(settings: Iterable[Setting], spec: Spec, short: bool = False) -> Scale:
    """The medians of the first setting that has a finite value other than zero in a situation."""
    if len(spec.situations) < 2:
        return Scale({})
    found: dict[tuple[str, str], float] = {}
    for setting in settings:
        for situation in spec.situations:
            for objective in spec.objectives:
                place = (situation.name, objective.metric.text)
                values = [
                    one[objective.metric.text].value
                    for (where, _), one in setting.readings_of(short).items()
                    if where == situation.name
                ]
                if place not in found and values and 0 < (middle := statistics.median(values)) < math.inf:
                    found[place] = middle
    wanted = {(one.name, objective.metric.text) for one in spec.situations for objective in spec.objectives}
    return Scale(found | dict.fromkeys(wanted - set(found), 1.0))


def per_seed(setting: Setting, objective: Objective, scale: Scale, spec: Spec, short: bool = False) -> dict[int, float]:
    """An objective by seed, all situations together; infinitely bad for a run that failed or has no value."""
    found: dict[int, float] = {}
    readings, names = setting.readings_of(short), [one.name for one in spec.situations]
    for seed in sorted({seed for _, seed in [*readings, *setting.failures]}):
        if not all((name, seed) in readings or (name, seed) in setting.failures for name in names):
            continue
        values = {
            name: readings[name, seed][objective.metric.text].value if (name, seed) in readings else math.inf
            for name in names
        }
        value = math.inf if math.inf in values.values() else scale.combined(objective, values)
        found[seed] = -value if value == math.inf and objective.maximize else value
    return found


def violations(setting: Setting, spec: Spec, seeds: Sequence[int] | None = None) -> dict[str, float]:
    """The worst violation of each constraint over the runs, 0 or less where it is kept; a failed run breaks all."""
    worst: dict[str, float] = {}
    for limit in spec.limits:
        found = [
            limit.violation(one[limit.metric.text].value)
            for (_, seed), one in setting.readings.items()
            if seeds is None or seed in seeds
        ]
        failed = any(seeds is None or seed in seeds for _, seed in setting.failures)
        worst[limit.text] = math.inf if failed else max(found, default=0.0)
    return worst


def keeps_all(setting: Setting, spec: Spec, seeds: Sequence[int] | None = None) -> bool:
    """Whether a setting may be run, and no run breaks a constraint or failed."""
    kept = all(worst <= 0 for worst in violations(setting, spec, seeds).values())
    return not setting.refused and not setting.failures and kept
