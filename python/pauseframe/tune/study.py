"""Runs a search from its file to its answer: specification, start points, folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe.files.atomic import read_object, refuse_file, write_text
from pauseframe.files.lock import locked
from pauseframe.files.reading import parse_toml
from pauseframe.results.places import RESULTS, first_that
from pauseframe.scenario.plain import to_plain
from pauseframe.sweep.incremental import IncrementalSweep
from pauseframe.sweep.plan import Source
from pauseframe.sweep.spec import label
from pauseframe.terminal.problems import failure
from pauseframe.terminal.standard import shows_errors_on_terminal, write_note
from pauseframe.terminal.text import counted
from pauseframe.tune.finals import Finals
from pauseframe.tune.formulas import Facts, Suggestion, facts_of, suggestions
from pauseframe.tune.limits import refusal
from pauseframe.tune.search import Search, need_numpy
from pauseframe.tune.spec import Situation, Spec, spec_from_table
from pauseframe.tune.trials import Simulations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from distributed import Client

    from pauseframe.run import Plugins
    from pauseframe.scenario.document import Scenario
    from pauseframe.scenario.plain import Settings
    from pauseframe.sweep.task import Outcome as RunOutcome
    from pauseframe.tune.answer import Answer
    from pauseframe.tune.finals import Named
    from pauseframe.tune.parameters import Parameter
    from pauseframe.tune.search import Trial
    from pauseframe.tune.trials import Laboratory

SEARCH = "search.json"
RUNS = "runs"
ALONE = "scenario"
"""Name of the only scenario of a search without named ones."""
SAY_EVERY_S = 10.0
RANDOM = "random search"


@dataclass
class Study:
    """A search that is ready to run: checked, with start points."""

    source: Source
    spec: Spec
    name: str
    parameters: list[Parameter]
    """The parameters, with ranges that formulas may have narrowed."""
    starts: list[tuple[str, Settings]]
    """Start points and their origins."""
    default: Settings
    """The scenario's own values of the parameters."""
    bounds: list[Suggestion]
    """Formulas that narrowed ranges."""
    seeds: dict[str, list[int]]
    """Seeds of the search, of the choice among finalists ("check"), and of the answer ("held_out")."""

    def digest(self) -> str:
        """A digest of the specification without the number of trials, so that more trials continue a search."""
        table = self.spec.as_table()
        del table["trials"]
        text = json.dumps([_core.__version__, self.source.resolve().toml, table], default=label)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def prepare(source: Source, spec: Spec) -> Study:
    """Checks a search against its scenario. Raises ScenarioError with every mistake."""
    spec.check()
    if spec.problems:
        raise failure(spec.problems)
    spec.situations = spec.situations or [Situation(ALONE, {})]
    base = source.resolve()
    _check_situations(source, spec)
    if spec.problems:
        raise failure(spec.problems)
    facts = facts_of(base)
    found = {path: _suggestions(facts, path, spec) for path in spec.parameters}
    parameters, bounds = _bounded(spec, found)
    _check_values(source, spec, parameters)
    _check_safety(source, spec)
    if spec.problems:
        raise failure(spec.problems)
    default = _default(facts, parameters)
    return Study(
        source,
        spec,
        base.name,
        parameters,
        _starts(parameters, found, default, facts),
        default,
        bounds,
        _seeds(spec, base.seed),
    )


def _seeds(spec: Spec, first: int) -> dict[str, list[int]]:
    seeds, begin = {}, first
    for name, count in (("search", spec.seeds), ("check", spec.check_seeds), ("held_out", spec.held_out)):
        seeds[name] = list(range(begin, begin + count))
        begin += count
    return seeds


def _suggestions(facts: Facts, path: str, spec: Spec) -> list[Suggestion]:
    from pauseframe.fabric.calculator import parse_length

    return suggestions(facts, path, parse_length(spec.cable.replace(" m", "m")) if spec.cable else None)


def _check_situations(source: Source, spec: Spec) -> None:
    """Resolves every scenario and every reference with the file's values of the parameters."""
    named = [(f"scenarios.{one.name}", one.changes) for one in spec.situations]
    named += [(f"references.{one.name}", one.changes) for one in spec.references]
    for place, changes in named:
        for path in set(changes) & set(spec.parameters) if place.startswith("scenarios") else ():
            spec.complain(place, path, "sets a key that is tuned", "leave it out of the scenario or of the parameters")
        try:
            source.resolve_with(changes)
        except _core.ScenarioError as error:
            for item in error.problems:
                spec.complain(f"{place}.{item['path']}", item["value"], item["message"], item["hint"])


def _check_values(source: Source, spec: Spec, parameters: Sequence[Parameter]) -> None:
    """Checks that each parameter is a key, and that its values are possible.

    All choices must be possible, or at least one of three values of a range.
    """
    for one in parameters:
        values = list(one.choices) or [one.value(one.at(share)) for share in (0.0, 0.5, 1.0)]
        wrong = []
        for value in values:
            try:
                source.resolve_with({one.path: value})
            except _core.ScenarioError as error:
                wrong.append(error.problems[0])
        # A range may include values that other keys forbid, such as XOFF above a small buffer; settings with such
        # values are rejected later.
        if wrong and (not one.is_range or len(wrong) == len(values)):
            item = wrong[0]
            other = "" if item["path"] == one.path else f"{item['path']}: "
            spec.complain(f"parameters.{one.path}", item["value"], f"{other}{item['message']}", item["hint"])


def _check_safety(source: Source, spec: Spec) -> None:
    """Rejects a fabric that can deadlock for any setting, once instead of for each setting."""
    if any(path.startswith(("routing", "topology", "switch.pfc", "transport.lossless")) for path in spec.parameters):
        return
    for situation in spec.situations:
        why = refusal(source.resolve_with(situation.changes), spec)
        if why.startswith("deadlock"):
            hint = 'plan routes (routing.kind = "auto"), or allow it: constraints.deadlock_risk = true'
            spec.complain("constraints", "", why, hint)
            return


def _bounded(spec: Spec, found: Mapping[str, Sequence[Suggestion]]) -> tuple[list[Parameter], list[Suggestion]]:
    """The parameters, narrowed to the bounds of formulas."""
    parameters: list[Parameter] = []
    bounds: list[Suggestion] = []
    for path, whole in spec.parameters.items():
        part = whole
        for item in found[path] if whole.is_range else ():
            number = whole.from_base_unit(item.value)
            if item.role == "at_least" and number > part.low:
                part, bounds = part.narrowed(low=number), [*bounds, item]
            elif item.role == "at_most" and number < part.high:
                part, bounds = part.narrowed(high=number), [*bounds, item]
            if not part.low < part.high:
                ends = f"{whole.value(whole.low)} to {whole.value(whole.high)}"
                needs = f"{item.role.replace('_', ' ')} {item.value:.6g} B"
                message = f"no value is safe: {item.source} needs {needs} ({item.formula})"
                spec.complain(f"parameters.{path}", ends, message, "change the range")
                break
        parameters.append(part)
    return parameters, bounds


def _default(facts: Facts, parameters: Sequence[Parameter]) -> Settings:
    found: Settings = {}
    for one in parameters:
        try:
            value = parse_toml(f"value = {facts.values.get(one.path, '')}")["value"]
        except ValueError:  # an automatic value
            continue
        if one.number(value) is not None if one.is_range else value in one.choices:
            found[one.path] = value
    return found


def _starts(
    parameters: Sequence[Parameter], found: Mapping[str, Sequence[Suggestion]], default: Settings, facts: Facts
) -> list[tuple[str, Settings]]:
    """The start points of a search.

    The start points are the scenario's own values inside the ranges, then the first formula of each key, then the
    second.
    """
    inside = {
        one.path: default[one.path] for one in parameters if one.path in default and _contains(one, default[one.path])
    }
    starts: list[tuple[str, Settings]] = [("default", inside)] if inside else []
    by_path = {one.path: one for one in parameters if one.is_range}
    starting = {path: [one for one in found[path] if one.role == "start"] for path in by_path}
    for number in range(max((len(items) for items in starting.values()), default=0)):
        # A key with fewer formulas than others repeats its last formula, so that each start point is complete.
        items = [given[min(number, len(given) - 1)] for given in starting.values() if given]
        point = inside | {
            one.path: by_path[one.path].value(_in_unit(by_path[one.path], one.value, facts)) for one in items
        }
        why = "; ".join(f"{one.path}: {one.formula} ({one.source})" for one in items)
        if point not in [changes for _, changes in starts]:
            starts.append((f"formula: {why}", point))
    return starts


def _contains(parameter: Parameter, value: Any) -> bool:
    if not parameter.is_range:
        return value in parameter.choices
    number = parameter.number(value)
    return number is not None and parameter.low <= number <= parameter.high


def _in_unit(parameter: Parameter, value: float, facts: Facts) -> float:
    """Converts bytes to segments or packets if the parameter has such a unit."""
    if parameter.unit in ("segments", "packets"):
        return max(1.0, value / (facts.mtu - 40 if parameter.unit == "segments" else facts.mtu))
    return parameter.from_base_unit(value)


def tune(
    scenario: Scenario | _core.Resolved | str | Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    objectives: Sequence[Mapping[str, str]] | None = None,
    constraints: Mapping[str, Any] | None = None,
    scenarios: Sequence[Mapping[str, Any]] | None = None,
    references: Sequence[Mapping[str, Any]] | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    store: str | Path | None = None,
    resume: bool = True,
    jobs: int | None = None,
    on: str | Client | None = None,
    shard: tuple[int, int] | None = None,
    threads: int | None = None,
    beside_random: bool = False,
    play: bool = True,
    plugins: Plugins = (),
    progress: bool | None = None,
    **rules: Any,
) -> Tuning:
    """Implements `pauseframe.tune`; `rules` are the other keys of the `[tune]` table."""
    if plugins:
        from pauseframe.run import load_for

        load_for(scenario, plugins)
    source = Source.read(scenario)
    source.set(set or {})
    given = {
        "parameters": parameters,
        "objectives": objectives,
        "constraints": constraints,
        "scenarios": scenarios,
        "references": references,
        **rules,
    }
    table = source.tune | {name: to_plain(value) for name, value in given.items() if value is not None}
    study = prepare(source, spec_from_table(table))
    return carry_out(
        study, out=out, store=store, resume=resume, jobs=jobs, on=on, shard=shard, threads=threads,
        beside_random=beside_random, play=play, progress=progress,
    )  # fmt: skip


@dataclass
class Tuning:
    """A finished search: its folder and its answer."""

    folder: Path
    study: Study
    answer: Answer
    record: dict[str, Any]
    """The content of `answer.json` (docs/how-to/tune.md)."""

    @property
    def recommended(self) -> Settings | None:
        """The recommended values by key, those of the scenario if it is best; None without an answer."""
        chosen = self.answer.recommended
        return None if chosen is None else chosen.changes

    @property
    def verdict(self) -> str:
        """One of "recommended", "keep_default", "nothing_keeps_the_constraints" and "nothing_was_measured"."""
        return self.answer.verdict

    def __repr__(self) -> str:
        tried = counted(len(self.answer.trials), "setting")
        return f"<pauseframe.Tuning {self.study.name!r}: {tried} tried, {self.recommended}>"


def carry_out(
    study: Study,
    *,
    out: str | Path | None = None,
    store: str | Path | None = None,
    resume: bool = True,
    jobs: int | None = None,
    on: str | Client | None = None,
    shard: tuple[int, int] | None = None,
    threads: int | None = None,
    beside_random: bool = False,
    play: bool = True,
    progress: bool | None = None,
) -> Tuning:
    """Runs a search; the arguments are those of `tune`. Workers load the plug-ins that this process has loaded."""
    from pauseframe.plugins.load import loaded_files

    need_numpy()
    folder = Path(out) if out is not None else _folder_for(study)
    refuse_file(folder)
    _check_folder(folder, study, resume or shard is not None)
    with locked(folder, shared=shard is not None):
        _open(folder, study, resume or shard is not None)
        display = Display(progress, study.spec.trials)
        plugins = tuple(one for one in loaded_files() if one.is_file)
        runs = IncrementalSweep(
            folder / RUNS, store=store, jobs=jobs, on=on, threads=threads, shard=shard, plugins=plugins
        )
        return _carry_out(study, folder, runs, display, shard, beside_random, play)


def _carry_out(
    study: Study,
    folder: Path,
    runs: IncrementalSweep,
    display: Display,
    shard: tuple[int, int] | None,
    beside_random: bool,
    play: bool,
) -> Tuning:
    from pauseframe.tune.record import ANSWER, as_record
    from pauseframe.tune.replay import record_decisive

    begun = time.perf_counter()
    lab = Simulations(study.source, study.spec, runs, display.run_ended)
    first = writes_answer(shard)
    try:
        answer = search(study, lab, beside_random, display.trial_ended)
        runs.finish(study.name, lab.axes())
    except KeyboardInterrupt:
        write_note(f"interrupted; runs kept in {folder}: {len(runs.runs)}; the same command goes on")
        raise
    finally:
        runs.close()
        display.close()
    answer.cost |= {
        "runs": len(runs.runs),
        "computed": runs.computed,
        "run_s": lab.run_s,
        "waited_s": lab.waited_s,
        "wall_s": time.perf_counter() - begun,
    }
    record = as_record(study, answer) | {"decisive": record_decisive(study, answer, folder) if first and play else []}
    if first:
        write_text(folder / ANSWER, json.dumps(record, indent=1, default=label) + "\n")
        from pauseframe.report.tune import build_tune_report

        build_tune_report(record, folder / "report.html")
    return Tuning(folder, study, answer, record)


def writes_answer(shard: tuple[int, int] | None) -> bool:
    """True if this shard writes the answer: all shards find the same answer, and the first one writes it."""
    return shard is None or shard[0] == 1


def search(
    study: Study, lab: Laboratory, beside_random: bool = False, told: Callable[[Trial], None] | None = None
) -> Answer:
    """Runs a search in a laboratory, and a random search of as many runs if requested; returns the answer."""
    spec, seeds = study.spec, study.seeds
    begun, waited = time.perf_counter(), _waited(lab)
    mine = Search(lab, study.parameters, study.starts, seeds["search"], told=told)
    mine.run()
    spent = [0, 0]

    def random(runs: int) -> Named | None:
        spent[0] = runs
        if not beside_random:
            return None
        trials = max(1, runs // spec.seeds)
        other = Search(lab, study.parameters, [], seeds["search"], trials=trials, random=True)
        other.run()
        spent[1] = trials * spec.seeds
        complete = [one for one in other.trials if one.state == "complete"]
        best = min(complete, key=lambda one: spec.objectives[0].sign * one.values[0], default=None)
        source = f"the best of {counted(trials, 'random setting')}, {counted(spent[1], 'run')}; the search had {runs}"
        return None if best is None else (RANDOM, source, best.setting)

    named = [(one.name, one.source, lab.prepare(one.changes)) for one in spec.references]
    answer = Finals(mine, study.default, named, {name: list(found) for name, found in seeds.items()}).find(random)
    answer.cost["search_s"] = time.perf_counter() - begun - (_waited(lab) - waited)
    answer.cost["runs_of_search"], answer.cost["runs_of_random"] = spent
    return answer


def _waited(lab: Laboratory) -> float:
    return float(getattr(lab, "waited_s", 0.0))


def _folder_for(study: Study) -> Path:
    """The folder of a search whose command names none: results/NAME-tune, or a numbered one if others are there."""
    wanted = RESULTS / f"{study.name}-tune"
    digest = study.digest()
    folder = first_that(wanted, lambda folder: _obstacle(folder, digest) is None)
    if folder != wanted:
        write_note(f"note: {wanted} has another search, so this one goes to {folder}")
    return folder


def _check_folder(folder: Path, study: Study, may_exist: bool) -> None:
    """Refuses a folder that has something else, another search, or without `may_exist` any search."""
    if not may_exist and (folder / SEARCH).exists():
        raise InputError(f"{folder} has a search; resume=True goes on with it")
    if (why := _obstacle(folder, study.digest())) is not None:
        raise InputError(f"{folder} {why}")


def _obstacle(folder: Path, digest: str) -> str | None:
    """The reason why a folder cannot have the search with this digest, or None."""
    there = read_object(folder / SEARCH)
    if there is None:
        if folder.is_dir() and any(entry.name[0] != "." and entry.name != SEARCH for entry in folder.iterdir()):
            return _why_no_search(folder)
        return None
    if there.get("digest") == digest:
        return None
    return (
        "has another search: scenario, [tune] or a version differs; choose another --out (finished runs are taken from "
        "the store)"
    )


def _why_no_search(folder: Path) -> str:
    if not (folder / SEARCH).exists():
        return "exists and is not a search; choose another --out"
    return f"has a damaged {SEARCH}; choose another --out (finished runs are taken from the store)"


def _open(folder: Path, study: Study, may_exist: bool) -> None:
    """Writes `search.json`, which says what the folder's search is."""
    _check_folder(folder, study, may_exist)  # another process may have been quicker
    mine = {"program": "pauseframe tune", "name": study.name, "digest": study.digest(), "tune": study.spec.as_table()}
    write_text(folder / SEARCH, json.dumps(mine, indent=1, default=label) + "\n")


class Display:
    """Shows the progress on stderr, line by line; `wanted` None shows the progress on a terminal only."""

    def __init__(self, wanted: bool | None, trials: int) -> None:
        self._shown = shows_errors_on_terminal() if wanted is None else wanted
        self._trials = trials
        self._ended = 0
        self._runs = 0
        self._said = time.monotonic()
        self._live = self._shown and shows_errors_on_terminal()

    def run_ended(self, outcome: RunOutcome) -> None:
        """Counts a run that has ended."""
        self._runs += 1
        if outcome.error is not None and self._shown:
            self._say(f"a run failed: {outcome.error}")
        self._now_and_then()

    def trial_ended(self, _trial: Trial) -> None:
        """Counts a setting that has been evaluated."""
        self._ended += 1
        self._now_and_then()

    def _now_and_then(self) -> None:
        every = 0.2 if self._live else SAY_EVERY_S
        if self._shown and time.monotonic() - self._said > every:
            self._said = time.monotonic()
            line = f"{self._ended} of {max(self._trials, self._ended)} settings, {counted(self._runs, 'run')}"
            if self._live:
                width = shutil.get_terminal_size().columns
                write_note(f"\r{line[: width - 1]:<{width - 1}}", end="")
            else:
                self._say(line)

    def _say(self, text: str) -> None:
        write_note(("\n" if self._live else "") + text)

    def close(self) -> None:
        """Ends the progress line."""
        if self._live:
            write_note("")
