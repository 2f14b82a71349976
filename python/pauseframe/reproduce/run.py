"""Turns experiments into verdicts: plans all runs, computes those missing in the store, measures, judges.

One store holds all runs, each under a digest of all its inputs. Interrupted work therefore resumes, and experiments
share equal runs.
"""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from pauseframe import _core
from pauseframe._core import InputError, RunError, ScenarioError
from pauseframe.files.lock import LOCK
from pauseframe.files.reading import parse_toml
from pauseframe.reproduce import expected, functions, scan, why
from pauseframe.reproduce.judge import Judgement, judge
from pauseframe.reproduce.measure import measure
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.spec import SEEDS
from pauseframe.results.places import EXPERIMENTS
from pauseframe.scenario.plain import toml_value
from pauseframe.sweep.local import core_count, run_local
from pauseframe.sweep.plan import PlannedRun, Source
from pauseframe.sweep.progress import SweepDisplay
from pauseframe.sweep.store import Store
from pauseframe.sweep.task import Target
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from pauseframe.reproduce.judge import Measured, Verdict
    from pauseframe.reproduce.spec import Experiment, Settings, Size, Stage

STORE = "runs"
"""Subfolder of the results folder that stores all runs."""
ON_KERNEL: Settings = {
    "host.stack": "kernel",
    "host.interrupt_delay": "0 s",  # The papers' round trips contain those of their cards.
    "host.tso": False,
    "host.gro": False,
}
"""What a kernel on all hosts changes: it sends in batches by itself."""


class PartRecord(TypedDict):
    """The record of one part of a claim."""

    name: str
    band: str
    theirs: float | list[float] | None
    measured: float | None
    """Median of the part over the seeds."""
    ci: list[float] | None
    samples: int
    """Number of samples beyond the least certain percentile of the part, over all seeds."""
    held: int
    """Number of seeds whose value is in the part's band."""
    at_edge: bool
    """True if five other seeds may well give another verdict."""
    verdict: Verdict
    note: str


class Record(TypedDict):
    """The verdict on a claim, as --json prints it."""

    id: str
    paper: str
    experiment: str
    size: Size
    text: str
    claimed: str
    measured: list[float | None]
    """Median over the seeds, for each part."""
    ci: list[list[float] | None]
    verdict: Verdict
    holds_in: int
    seeds: int
    parts: list[PartRecord]
    why: str
    changes: Settings
    """Keys that the user or the kernel changed: not the paper's settings."""


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment."""

    experiment: Experiment
    size: Size
    seeds: list[int]
    points: list[Point]
    judgements: list[Judgement]
    failures: list[str]
    told: dict[str, str]
    """The reason for the verdict of each claim, with its numbers."""
    scan: list[scan.Row]
    """One row per setting of a joint scan."""
    changes: Settings = field(default_factory=dict)
    """Keys that the user or the kernel changed."""
    command: str = ""
    """The command that repeats it."""

    @property
    def is_provisional(self) -> bool:
        """True if verdicts have fewer seeds than they need."""
        return bool(self.judgements) and len(self.seeds) < SEEDS

    def records(self) -> list[Record]:
        """The records of the claims, one for each."""
        return [self._record(judgement) for judgement in self.judgements]

    def _record(self, judgement: Judgement) -> Record:
        right, seeds = judgement.holds_in
        parts = [_part_record(part) for part in judgement.parts]
        return {
            "id": judgement.claim.id,
            "paper": self.experiment.key,
            "experiment": f"{self.experiment.id}@{self.experiment.spec.revision}",
            "size": self.size,
            "text": judgement.claim.text,
            "claimed": judgement.claim.claimed,
            "measured": [part["measured"] for part in parts],
            "ci": [part["ci"] for part in parts],
            "verdict": judgement.verdict,
            "holds_in": right,
            "seeds": seeds,
            "parts": parts,
            "why": self.told[judgement.claim.id],
            "changes": self.changes,
        }


def _part_record(measured: Measured) -> PartRecord:
    return {
        "name": measured.part.title,
        "band": measured.part.band_text,
        "theirs": measured.part.theirs,
        "measured": measured.median,
        "ci": measured.interval,
        "samples": measured.samples,
        "held": measured.held,
        "at_edge": measured.at_edge,
        "verdict": measured.verdict,
        "note": measured.note,
    }


@dataclass(frozen=True)
class Cell:
    """One run of one experiment."""

    experiment: Experiment
    variant: str
    run: PlannedRun


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    size: Size = "quick",
    seed: int = 1,
    seeds: int | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    changes: Settings | None = None,
    kernel: Path | None = None,
) -> list[Outcome]:
    """Runs the experiments into `out` and judges their claims; existing runs are reused.

    `seed` is the first seed; `seeds` is the number of seeds (default: that of the size); `changes` are keys of all
    scenarios, with precedence over experiment and variant. `kernel` is the folder of the kernel that all hosts have; an
    experiment that needs more than it has does not run, and its failures say why.

    Raises ScenarioError with every mistake of all scenarios before the first run, InputError if `out` holds something
    else or no run can have a seed, KeyboardInterrupt on Ctrl-C; finished runs are kept.
    """
    refuse_foreign(out)
    given = changes
    if kernel is not None:
        changes = ON_KERNEL | (changes or {})
    if changes:
        _tell_unchanged(experiments)
    drawn = {one.id: seeds_of(one, size, seed, seeds) for one in experiments}
    cells, refused = dict[str, list[Cell]](), dict[str, list[str]]()
    for one in experiments:
        try:
            cells[one.id] = plan(one, size, drawn[one.id], changes) if one.runs_a_scenario else []
        except ScenarioError as error:
            if kernel is None:
                raise
            cells[one.id], refused[one.id] = [], [f"does not run with a kernel: {error}"]
    if kernel is not None:
        for line in _unreached(cell for of_one in cells.values() for cell in of_one):
            write_note(line)
    store = Store(out / STORE)
    store.root.mkdir(parents=True, exist_ok=True)  # the folder identifies the store
    failed = _compute([cell for of_one in cells.values() for cell in of_one], store, jobs, progress, kernel)
    found = [
        _halved(one, size, store, jobs, progress)
        if one.spec.stages
        else _measured(one, size, drawn[one.id], cells[one.id], store, failed, jobs=jobs, progress=progress)
        for one in experiments
    ]
    judgements = {claim.claim.id: claim for outcome in found for claim in outcome.judgements}
    return [
        replace(
            outcome,
            told=_told(outcome, judgements),
            command=command_of(outcome.experiment, size, outcome.seeds, given, kernel),
            changes=(changes or {}) if outcome.experiment.runs_a_scenario else {},
            failures=refused.get(outcome.experiment.id, outcome.failures),
        )
        for outcome in found
    ]


def seeds_of(experiment: Experiment, size: Size, first: int, count: int | None) -> list[int]:
    """The seeds of an experiment, which a joint scan has of itself. Raises InputError if a run cannot have them."""
    if experiment.spec.stages:
        return list(range(1, 1 + max(stage.seeds for stage in experiment.spec.stages)))
    count = experiment.size(size).seeds if count is None else count
    last = first + count - 1
    if count < 1:
        raise InputError(f"seeds = {count}: at least one")
    if first < 0 or last >= 2**64:
        raise InputError(f"seed = {first}: the seeds {first} to {last} must be whole numbers from 0 to 2^64 - 1")
    return list(range(first, last + 1))


def command_of(
    experiment: Experiment, size: Size, seeds: Sequence[int], changes: Settings | None, kernel: Path | None
) -> str:
    """The command that makes the outcome of an experiment, with every option that decides about it."""
    folder = experiment.source.parents[1]
    words = ["pauseframe", "reproduce", experiment.id, f"--{size}", "--seed", str(seeds[0]), "--seeds", str(len(seeds))]
    if folder.resolve() != EXPERIMENTS.resolve():
        words += ["--experiments", str(folder)]
    if kernel is not None:
        words += ["--stack", "kernel", "--kernel", str(kernel)]
    of_scenario = (changes or {}) if experiment.runs_a_scenario else {}
    words += [word for path, value in of_scenario.items() for word in ("--set", f"{path}={toml_value(value)}")]
    return shlex.join(words)


def refuse_foreign(out: Path) -> None:
    """Raises InputError if a folder holds something else than runs of experiments."""
    if out.is_dir() and any(entry.name != LOCK for entry in out.iterdir()) and not (out / STORE).is_dir():
        raise InputError(f"the folder {out} holds files and no runs of experiments: name another one")


def _unreached(cells: Iterable[Cell]) -> list[str]:
    """The warnings of keys that do not reach the kernel, each once."""
    scenarios = dict.fromkeys(cell.run.toml for cell in cells)
    warnings = [warning for toml in scenarios for warning in _core.resolve(toml).warnings]
    return [warning for warning in dict.fromkeys(warnings) if "reach kernel hosts" in warning]


def _tell_unchanged(experiments: Sequence[Experiment]) -> None:
    """Raises InputError if no selected experiment has a scenario that the changes could affect."""
    names = ", ".join(one.id for one in experiments if not one.runs_a_scenario)
    if not any(one.runs_a_scenario for one in experiments):
        raise InputError(f"{names}: no runs of one scenario, so that --set has nothing to change")
    if names:
        write_note(f"{names}: no runs of one scenario, --set changes nothing there")


def plan(experiment: Experiment, size: Size, seeds: Sequence[int], changes: Settings | None = None) -> list[Cell]:
    """Plans all runs of an experiment. Raises ScenarioError with every mistake in any run.

    Omits `changes` below a table that a variant has switched off: QCN's timer does not enable QCN. Raises InputError
    for a change that applies to no variant.
    """
    cells, idle = [], set(changes or {})
    for variant in experiment.spec.variants:
        source = Source.read(experiment.scenario)
        source.set(experiment.settings_of(variant, size))
        try:
            apt = _apt(changes, source)
            source.set(apt)
            idle -= set(apt)
            source.vary(experiment.axes_of(size), seeds=list(seeds))
            cells += [Cell(experiment, variant, run) for run in source.plan().runs]
        except ScenarioError as error:
            write_note(f"{experiment.source}: variant {variant}")
            raise error from None
    if idle:
        raise InputError(f"{', '.join(sorted(idle))}: its table is switched off in all variants of {experiment.id}")
    return cells


def _apt(changes: Settings | None, source: Source) -> Settings:
    """Drops keys below a table that the variant switches off (`qcn = false`)."""
    if not changes:
        return {}
    resolved = parse_toml(source.resolve().toml)
    return {path: value for path, value in changes.items() if not _is_off(resolved, path)}


def _is_off(resolved: JsonValue, path: str) -> bool:
    for key in path.split(".")[:-1]:
        match resolved:
            case dict():
                resolved = resolved.get(key)
            case list() if key.isdecimal() and int(key) < len(resolved):
                resolved = resolved[int(key)]
            case _:
                return False
    return resolved is False


def plan_stage(experiment: Experiment, stage: Stage, settings: Sequence[Settings]) -> list[Cell]:
    """The runs of some settings of a joint scan."""
    cells = []
    for variant, setting in itertools.product(experiment.spec.variants, settings):
        source = Source.read(experiment.scenario)
        source.set(experiment.spec.set | stage.set | experiment.spec.variants[variant] | setting)
        source.vary({}, seeds=list(range(1, 1 + stage.seeds)))
        cells += [Cell(experiment, variant, replace(run, axes=setting)) for run in source.plan().runs]
    return cells


def _halved(experiment: Experiment, size: Size, store: Store, jobs: int | None, progress: bool | None) -> Outcome:
    """Runs and stores all stages of a joint scan; at the reduced size, reads the recorded results."""
    stages, rows, failures = experiment.spec.stages, scan.read(experiment.known_scan), list[str]()
    settings = scan.settings(experiment.spec)
    claims = [claim for one in experiment.scored for claim in one.claims]
    for number, stage in enumerate(stages if size == "full" else [], start=1):
        cells = plan_stage(experiment, stage, settings)
        failed = _compute(cells, store, jobs, progress)
        failures += _failures(cells, failed)
        points = [point for cell in cells if cell.run.key not in failed for point in _points(cell, store, stage.take)]
        found = scan.table(claims, points, number)
        rows = scan.merged(rows if number > 1 else [], found)
        scan.write(store.root.parent / f"{experiment.key}-{experiment.name}.json", rows)
        settings = [row["axes"] for row in found[: stage.keep]]
        if experiment.spec.present and experiment.spec.present not in settings:
            settings.append(experiment.spec.present)  # the present setting is measured like the best settings
    return Outcome(experiment, size, seeds_of(experiment, size, 1, None), [], [], failures, {}, rows)


def _failures(cells: Sequence[Cell], failed: dict[str, str]) -> list[str]:
    return [f"{cell.variant}, seed {cell.run.seed}: {failed[cell.run.key]}" for cell in cells if cell.run.key in failed]


def _compute(
    cells: Sequence[Cell], store: Store, jobs: int | None, progress: bool | None, kernel: Path | None = None
) -> dict[str, str]:
    """The errors of failed runs, by key."""
    store.clean()
    wanted = {cell.run.key: cell.run for cell in cells}
    missing = [run for key, run in wanted.items() if not store.has(key)]
    display = SweepDisplay(progress, "reproduce", len(wanted), len(missing), 0)
    failed: dict[str, str] = {}
    target = Target(store=store.root, kernel=kernel)
    outcomes = run_local(missing, target, min(jobs or core_count(), max(len(missing), 1)))
    try:
        for outcome in outcomes:
            if outcome.error is not None:
                failed[outcome.run.key] = outcome.error
            display.step(outcome.error)
    finally:
        outcomes.close()  # type: ignore[attr-defined]
        store.clean()
        display.close()
    return failed


def _measured(
    experiment: Experiment,
    size: Size,
    seeds: list[int],
    cells: Sequence[Cell],
    store: Store,
    failed: dict[str, str],
    *,
    jobs: int | None,
    progress: bool | None,
) -> Outcome:
    failures = _failures(cells, failed)
    if experiment.spec.function:
        points = functions.measured(experiment.spec.function, size, seeds, store.root, jobs, progress)
    else:
        points = [point for cell in cells if cell.run.key not in failed for point in _points(cell, store, size)]
    try:
        judgements = [judge(claim, points) for claim in experiment.spec.claims]
    except (ValueError, KeyError) as error:
        raise RunError(f"{experiment.source}: a claim cannot be judged: {error}") from error
    scanned = (
        scan.table([claim for one in experiment.scored for claim in one.claims], points) if experiment.scored else []
    )
    return Outcome(experiment, size, seeds, points, judgements, failures, {}, scanned)


def _told(outcome: Outcome, judgements: dict[str, Judgement]) -> dict[str, str]:
    known = expected.read(outcome.experiment.source.parents[1])
    numbers = why.Numbers(judgements, known, outcome.size, outcome.points)
    return {one.id: numbers.fill(one.why) for one in outcome.experiment.spec.claims}


def _points(cell: Cell, store: Store, size: Size) -> list[Point]:
    try:
        rows = measure(store.folder(cell.run.key), cell.experiment.spec.metrics, size)
    except RunError as error:
        raise RunError(f"{cell.experiment.source}: {error}") from error
    return [
        Point(cell.variant, cell.run.seed, one.metric, one.value, one.at, cell.run.axes, one.samples, one.beyond)
        for one in rows
    ]
