"""From experiments to verdicts: plans all runs, computes what the store does not have, measures, judges.

Runs go to one store and are named by all that decides their results, so what was interrupted goes on where it was, and
experiments that share runs share them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypedDict

from pauseframe import RunError, ScenarioError
from pauseframe.reproduce.judge import Judgement, interval, judge, median
from pauseframe.reproduce.measure import measure
from pauseframe.reproduce.points import Point
from pauseframe.sweep.local import core_count, run_local
from pauseframe.sweep.plan import PlannedRun, Source
from pauseframe.sweep.progress import SweepDisplay
from pauseframe.sweep.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pauseframe.reproduce.judge import Verdict
    from pauseframe.reproduce.spec import Experiment, Size

STORE = "runs"
"""Beneath the folder of results."""


class Record(TypedDict):
    """The verdict on a claim, as --json prints it."""

    id: str
    paper: str
    experiment: str
    text: str
    claimed: str
    measured: list[float | None]
    """The median over seeds, a part."""
    ci: list[list[float] | None]
    verdict: Verdict
    holds_in: int
    seeds: int
    why: str


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment."""

    experiment: Experiment
    size: Size
    points: list[Point]
    judgements: list[Judgement]
    failures: list[str]

    def records(self) -> list[Record]:
        """One a claim."""
        return [self._record(judgement) for judgement in self.judgements]

    def _record(self, judgement: Judgement) -> Record:
        right, seeds = judgement.holds_in
        estimates = [interval(part.values) if part.values else None for part in judgement.parts]
        return {
            "id": judgement.claim.id,
            "paper": self.experiment.key,
            "experiment": f"{self.experiment.id}@{self.experiment.spec.revision}",
            "text": judgement.claim.text,
            "claimed": judgement.claim.claimed,
            "measured": [median(part.values) for part in judgement.parts],
            "ci": [None if pair is None else list(pair) for pair in estimates],
            "verdict": judgement.verdict,
            "holds_in": right,
            "seeds": seeds,
            "why": judgement.claim.why,
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
    jobs: int | None = None,
    progress: bool | None = None,
) -> list[Outcome]:
    """Runs the experiments into `out` and judges their claims; what is there already is not run again.

    `seed` is the first of the seeds. Raises ScenarioError with every mistake of all scenarios before anything runs;
    KeyboardInterrupt on Ctrl-C, finished runs are kept.
    """
    cells = [cell for one in experiments if not one.spec.function for cell in plan(one, size, seed)]
    store = Store(out / STORE)
    failed = _compute(cells, store, jobs, progress)
    return [
        _outcome(one, size, seed, [cell for cell in cells if cell.experiment is one], store, failed)
        for one in experiments
    ]


def plan(experiment: Experiment, size: Size, seed: int) -> list[Cell]:
    """All runs of an experiment. Raises ScenarioError with every mistake in any of them."""
    seeds = list(range(seed, seed + experiment.size(size).seeds))
    cells = []
    for variant in experiment.spec.variants:
        source = Source.read(experiment.scenario)
        source.set(experiment.settings_of(variant, size))
        source.vary(experiment.axes_of(size), seeds=seeds)
        try:
            cells += [Cell(experiment, variant, run) for run in source.plan().runs]
        except ScenarioError as error:
            sys.stderr.write(f"{experiment.source}: variant {variant}\n")
            raise error from None
    return cells


def _compute(cells: Sequence[Cell], store: Store, jobs: int | None, progress: bool | None) -> dict[str, str]:
    """What failed, by key."""
    store.clean()
    wanted = {cell.run.key: cell.run for cell in cells}
    missing = [run for key, run in wanted.items() if not store.has(key)]
    display = SweepDisplay(progress, "reproduce", len(wanted), len(missing), 0)
    failed: dict[str, str] = {}
    outcomes = run_local(missing, store.root, min(jobs or core_count(), max(len(missing), 1)))
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


def _outcome(
    experiment: Experiment, size: Size, seed: int, cells: Sequence[Cell], store: Store, failed: dict[str, str]
) -> Outcome:
    failures = [
        f"{cell.variant}, seed {cell.run.seed}: {failed[cell.run.key]}" for cell in cells if cell.run.key in failed
    ]
    if experiment.spec.function:
        points = _function(experiment)(size, seed)
    else:
        points = [point for cell in cells if cell.run.key not in failed for point in _points(cell, store)]
    try:
        judgements = [judge(claim, points) for claim in experiment.spec.claims]
    except (ValueError, KeyError) as error:
        raise RunError(f"{experiment.source}: a claim cannot be judged: {error}") from error
    return Outcome(experiment, size, points, judgements, failures)


def _points(cell: Cell, store: Store) -> list[Point]:
    try:
        rows = measure(store.folder(cell.run.key), cell.experiment.spec.metrics)
    except RunError as error:
        raise RunError(f"{cell.experiment.source}: {error}") from error
    return [Point(cell.variant, cell.run.seed, one.metric, one.value, one.at, cell.run.axes) for one in rows]


def _function(experiment: Experiment) -> Callable[[Size, int], list[Point]]:
    module, _, name = experiment.spec.function.partition(":")
    function: Callable[[Size, int], list[Point]] = getattr(import_module(module), name)
    return function
