"""Turns a scenario and its axes into the list of runs, all validated before the first run.

The core resolves every combination once, and one error reports all mistakes. A run has two names: its folder within the
sweep (`transport.preset=dctcp/seed=3`), and its key, a digest of all inputs of the run.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote

from pauseframe import _core
from pauseframe.results.run_key import run_key
from pauseframe.scenario.plain import Settings, Value, to_plain, toml_value
from pauseframe.scenario.text import resolve_text, source_of
from pauseframe.sweep.spec import Spec, covers, label, meant_rule, set_rule, spec_from_table, split_file
from pauseframe.terminal.problems import failure, placed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pauseframe.plugins.load import LoadedFile
    from pauseframe.scenario.document import Scenario
    from pauseframe.sweep.spec import Values
    from pauseframe.types import Problem

NAME_BYTES = 240
"""Maximum length of a folder's name; common file systems allow 255."""


class PlannedRow(TypedDict):
    """A run in `sweep.json`."""

    path: str
    """Path of the run's folder, relative to the sweep's folder."""
    key: str
    axes: Settings
    seed: int


class SweepManifest(TypedDict):
    """The content of `sweep.json`."""

    program: str
    version: str
    name: str
    axes: dict[str, list[Value]]
    seeds: list[int]
    runs: list[PlannedRow]


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep."""

    axes: Mapping[str, Value]
    seed: int
    path: str
    """Path of the run's folder, relative to the sweep's folder."""
    key: str
    toml: str
    """The resolved scenario without the seed; runs that differ only in their seed share this text."""


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep."""

    name: str
    axes: dict[str, list[Value]]
    seeds: list[int]
    runs: list[PlannedRun]
    warnings: list[str]
    plugins: tuple[LoadedFile, ...] = ()
    """The plug-ins that runs use."""

    def shard(self, index: int, count: int) -> list[PlannedRun]:
        """The runs of a shard: every `count`-th run, starting with number `index` (from 1)."""
        return self.runs[index - 1 :: count]

    def manifest(self) -> SweepManifest:
        """The content of `sweep.json` for this plan."""
        rows = [PlannedRow(path=run.path, key=run.key, axes=dict(run.axes), seed=run.seed) for run in self.runs]
        return {
            "program": "pauseframe sweep",
            "version": _core.__version__,
            "name": self.name,
            "axes": self.axes,
            "seeds": self.seeds,
            "runs": rows,
        }


@dataclass
class Source:
    """A scenario as text, and its axes."""

    text: str
    base_dir: str
    file_name: str
    spec: Spec
    fixed: Settings
    """Settings that all runs share."""
    is_sweep: bool = False
    """True if the file has a `[sweep]` table."""
    tune: Settings = field(default_factory=dict)
    """The `[tune]` table of the file, for `pauseframe tune`."""
    original: str = ""
    """The whole text, in which mistakes of these tables have their lines."""
    varied: set[str] = field(default_factory=set)
    """Axes and rules that were not given by the file, or not by it alone."""

    @classmethod
    def read(cls, scenario: Scenario | _core.Resolved | str | Path) -> Source:
        """Reads any input of `pauseframe.run`, including its `[sweep]` table."""
        text, base_dir, name = source_of(scenario)
        if not isinstance(scenario, str | PathLike):
            return cls(text, base_dir, name, Spec(), {})
        original = text
        text, search = split_file(text, name, "tune")
        text, table = split_file(text, name)
        return cls(text, base_dir, name, spec_from_table(table), {}, bool(table), search, original)

    def vary(self, axes: Mapping[str, Values] | None, **rules: Any) -> None:
        """Adds axes, and replaces seeds, zip and exclude if given."""
        for path, values in (axes or {}).items():
            replaced = f"sweep.{path}"
            self.varied.add(replaced)
            self.spec.problems = [one for one in self.spec.problems if one["path"] != replaced]
            self.spec.add_axis(path, values)
        for name, value in rules.items():
            if value is not None:
                self.varied.add(f"sweep.{name}")
                set_rule(self.spec, name, value)

    def set(self, settings: Mapping[str, Any]) -> None:
        """Fixes keys for all runs."""
        for path, value in settings.items():
            self.fixed[path] = to_plain(value)

    def plan(self) -> Plan:
        """Plans all runs. Raises ScenarioError with every mistake in any run."""
        spec = self.spec
        for path in self.fixed:
            if path in spec.axes:
                spec.complain(path, "", "is set for all runs and an axis")
            elif axis := next((axis for axis in spec.axes if covers(axis, path)), None):
                spec.complain(axis, "", f"replaces {path}, which is set for all runs: set it in the values of the axis")
        spec.check()
        if spec.problems:
            raise failure(self._placed(spec.problems))
        combinations = spec.combinations()
        try:
            first = self.resolve_with(combinations[0])  # with its own seed
            texts, warnings = self._resolve_all(combinations)
        except _core.ScenarioError as error:
            raise failure(self._of_axes(self._mistakes(combinations)) or error.problems) from None
        for path, value, twin in spec.twins(combinations, texts):
            spec.complain(path, value, f"gives the same scenario as {twin}: remove one")
        if spec.problems:
            raise failure(self._placed(spec.problems))
        seeds = spec.seeds_from(first.seed)
        runs = [
            PlannedRun(combination, seed, run_folder(combination, seed), run_key(text, seed), text)
            for seed in seeds
            for combination, text in zip(combinations, texts, strict=True)
        ]
        return Plan(first.name, spec.axes, seeds, runs, warnings, _plugins_of(texts))

    def _placed(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems with their lines in the file, unless something else than the file gave the axis or rule."""
        in_file = placed(problems, self.original, self.file_name)
        return [one if one["path"] in self.varied else two for one, two in zip(problems, in_file, strict=True)]

    def _of_axes(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems of runs; those of axes in the file with their lines, and with a hint for an unknown key."""
        axes = {_bare(path): f"sweep.{path}" for path in self.spec.axes}
        found = []
        for one in problems:
            if one["place"] == "sweep":
                one["hint"] = one["hint"] or _meant_axis(one)
                path = axes[_bare(one["path"])]
                (in_file,) = placed([one | {"path": path, "place": ""}], self.original, self.file_name)
                one = in_file if in_file["place"] and path not in self.varied else one  # noqa: PLW2901
            found.append(one)
        return found

    def resolve(self) -> _core.Resolved:
        """Resolves the scenario without the axes. Raises ScenarioError with every mistake."""
        return self.resolve_with({})

    def resolve_with(self, combination: Mapping[str, Any], seed: int | None = None) -> _core.Resolved:
        """Resolves the scenario with further settings. Raises ScenarioError with every mistake."""
        pairs = [(path, toml_value(value)) for path, value in (self.fixed | dict(combination)).items()]
        return resolve_text(self.text, base_dir=self.base_dir, file_name=self.file_name, overrides=pairs, seed=seed)

    def _resolve_all(self, combinations: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
        """The text of each resolved scenario with seed 0, and the warnings of all.

        The resolved scenarios are not kept, because each holds a fabric in memory.
        """
        texts = []
        warnings: dict[str, None] = {}
        for combination in combinations:
            resolved = self.resolve_with(combination, seed=0)
            texts.append(resolved.toml)
            warnings |= dict.fromkeys(resolved.warnings)
        return texts, list(warnings)

    def _mistakes(self, combinations: Sequence[Mapping[str, Any]]) -> list[Problem]:
        """Every mistake in any run, also in the scenario's own seed."""
        wrong = []
        for combination in combinations:
            try:
                self.resolve_with(combination)
            except _core.ScenarioError as error:
                wrong.append((combination, error.problems))
        return _merged(wrong, combinations)


def _plugins_of(texts: Sequence[str]) -> tuple[LoadedFile, ...]:
    """The loaded plug-ins whose digests the scenario names.

    Raises InputError for a plug-in that other processes cannot load.
    """
    if not any("[plugins]" in text for text in texts):
        return ()
    from pauseframe.plugins.load import loaded_files

    used = tuple(one for one in loaded_files() if any(one.sha256 in text for text in texts))
    for one in used:
        if not one.is_file:
            raise _core.InputError(
                f"{', '.join(one.names)} is defined in a notebook, and a sweep runs in other processes: write the "
                "class into a file, and name that in plugins"
            )
    return used


def run_folder(combination: Mapping[str, Any], seed: int) -> str:
    """Path of a run's folder, relative to the sweep's folder."""
    parts = [f"{quote(path)}={_quoted(label(value), NAME_BYTES - len(path))}" for path, value in combination.items()]
    return "/".join([*parts, f"seed={seed}"])


def _quoted(text: str, room: int) -> str:
    """A value in Hive's partition format, which readers of partitioned data understand; long values end in a digest."""
    quoted = quote(text, safe=",+")
    if len(quoted) <= room:
        return quoted
    return f"{quoted[: room - 20]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _merged(
    wrong: Sequence[tuple[Mapping[str, Any], list[Problem]]], combinations: Sequence[Mapping[str, Any]]
) -> list[Problem]:
    """Merges equal problems, each with the values that all of its combinations share."""
    having: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    entries: dict[tuple[str, str, str], Problem] = {}
    for combination, problems in wrong:
        for item in problems:
            identity = item["path"], item["value"], item["message"]
            having.setdefault(identity, []).append(combination)
            entries.setdefault(identity, item.copy())
    for identity, entry in entries.items():
        if entry["place"] == "--set" and _bare(entry["path"]) in map(_bare, combinations[0]):
            entry["place"] = "sweep"
        entry["message"] += _circumstances(having[identity], combinations, entry)
    return list(entries.values())


def _meant_axis(problem: Problem) -> str:
    """A hint for an unknown key: an axis in a table inside of [sweep], or almost a rule."""
    if not problem["message"].startswith("unknown key"):
        return ""
    table, _, path = problem["path"].partition(".")
    tables = {row["path"].partition(".")[0] for row in _core.options()} | {"transports"}
    if table not in tables and path.partition(".")[0] in tables:
        return f'axes stand in [sweep] itself: write "{path}" = [...] there'
    return meant_rule(problem["path"])


def _circumstances(
    having: Sequence[Mapping[str, Any]], combinations: Sequence[Mapping[str, Any]], entry: Problem
) -> str:
    """A text such as ' (with switch.pfc.xoff = "96 KB")' for a problem that depends on further values."""
    common = {path: value for path, value in having[0].items() if all(other[path] == value for other in having)}
    matching = sum(all(one[path] == value for path, value in common.items()) for one in combinations)
    more = ""
    if matching > len(having):  # some combinations with equal values are valid
        common, more = dict(having[0]), f" and {len(having) - 1} more" if len(having) > 1 else ""
    shown = {path: toml_value(value) for path, value in common.items() if _bare(path) != _bare(entry["path"])}
    text = ", ".join(f"{path} = {value}" for path, value in shown.items())
    return f" (with {text}{more})" if text else ""


def _bare(path: str) -> str:
    """Paths without numbers: "workload.size" and "workload.0.size" may be the same key."""
    return re.sub(r"\.\d+(?=\.)", "", path)
