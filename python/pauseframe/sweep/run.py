"""A planned sweep carried out: what is missing is computed, what a store has is taken from there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe._core import InputError, RunError
from pauseframe._files import write_text
from pauseframe.sweep.progress import SweepDisplay
from pauseframe.sweep.results import MANIFEST, Sweep, load_sweep, read_plan
from pauseframe.sweep.store import MANIFEST as RUN_MANIFEST
from pauseframe.sweep.store import STORE_NAME, Store, flaw, is_disk_full, is_whole, record_failure
from pauseframe.sweep.task import scenario_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from distributed import Client

    from pauseframe.sweep.plan import Plan, PlannedRun
    from pauseframe.sweep.task import Outcome

REPORT = "report.html"


def carry_out(
    plan: Plan,
    *,
    out: str | Path | None = None,
    store: str | Path | None = None,
    resume: bool = True,
    jobs: int | None = None,
    on: str | Client | None = None,
    shard: tuple[int, int] | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Computes what is missing of a plan; the arguments are those of `sweep`."""
    folder = Path(out) if out is not None else Path("results") / f"{plan.name}-sweep"
    index, count = shard or (1, 1)
    if not 1 <= index <= count:
        raise InputError(f"shard {index}/{count}: the first number is from 1 to the second")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs}: at least one")
    _open(folder, plan, resume or shard is not None)
    keep = Store(Path(store) if store is not None else folder.absolute().parent / STORE_NAME)
    keep.clean()
    runs = plan.shard(index, count)
    missing, reused = _reuse(runs, folder, keep)
    display = SweepDisplay(progress, plan.name, len(runs), len(missing), reused)
    outcomes = _compute(missing, keep.root, jobs, on)
    try:
        for outcome in outcomes:
            display.step(_settle(outcome, folder, keep))
    except KeyboardInterrupt:
        done = sum(is_whole(folder / run.path, run.key) for run in runs)
        sys.stderr.write(f"interrupted; {done} of {len(runs)} runs are kept in {folder}, --resume does the others\n")
        raise
    finally:
        outcomes.close()
        keep.clean()
        display.close()
    if (missing or reused) and (folder / REPORT).exists():
        sys.stderr.write(f"{folder / REPORT} is of before: pauseframe report {folder} writes it anew\n")
    return load_sweep(folder)


def _open(folder: Path, plan: Plan, may_exist: bool) -> None:
    """Writes `sweep.json`, unless the folder has a sweep that cannot go on with this plan."""
    old = read_plan(folder)
    if old is None:
        if folder.is_dir() and any(entry.name != MANIFEST for entry in folder.iterdir() if entry.name[0] != "."):
            raise InputError(f"{folder} exists and is not a sweep; choose another --out")
    elif not may_exist:
        raise InputError(f"{folder} has a sweep; --resume does what is missing in it")
    elif old.get("version") != plan.manifest()["version"]:
        raise InputError(f"{folder} was begun with pauseframe {old.get('version')}; choose another --out")
    else:
        now = {run.path: run.key for run in plan.runs}
        lost = [row["path"] for row in load_sweep(folder).planned if now.get(row["path"]) != row["key"]]
        if lost:
            raise InputError(
                f"{folder} has another sweep: {len(lost)} of its runs, such as {lost[0]}, are different or not in this "
                "one; choose another --out (what was computed is taken from the store)"
            )
    if old != plan.manifest():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / MANIFEST, json.dumps(plan.manifest(), indent=1) + "\n", sync=True)


def _reuse(runs: Sequence[PlannedRun], folder: Path, store: Store) -> tuple[list[PlannedRun], int]:
    """The runs that have to be computed, and how many were taken from the store."""
    missing, reused = [], 0
    for run in runs:
        here = flaw(folder / run.path, run.key)
        if here is None:
            continue
        _tell(folder / run.path, here)
        there = flaw(store.folder(run.key), run.key)
        if there is None:
            store.place(run.key, folder / run.path)
            reused += 1
        else:
            _tell(store.folder(run.key), there)
            missing.append(run)
    return missing, reused


def _tell(folder: Path, damage: str | None) -> None:
    """Says that what is there is not taken; that nothing is there needs no words."""
    if damage is not None and (folder / RUN_MANIFEST).exists():
        sys.stderr.write(f"{folder}: {damage}; it is replaced\n")


def _compute(
    runs: Sequence[PlannedRun], store: Path, jobs: int | None, on: str | Client | None
) -> Generator[Outcome, None, None]:
    if not runs:
        return
    if on is not None:
        from pauseframe.sweep.cluster import run_on

        yield from run_on(on, runs, store)
    else:
        from pauseframe.sweep.local import core_count, run_local

        yield from run_local(runs, store, min(jobs or core_count(), len(runs)))


def _settle(outcome: Outcome, folder: Path, store: Store) -> str | None:
    """Puts a finished run into the sweep's folder, or the error there; returns what is to be said of it."""
    run, error = outcome.run, outcome.error
    try:
        if error is None:
            store.place(run.key, folder / run.path)
            return None
        if is_disk_full(error):
            raise RunError(f"no room left for results: {error}; what is finished is kept, --resume does the rest")
        entry = record_failure(folder / run.path, scenario_of(run), run, error)
    except OSError as problem:
        text = f"{folder / run.path}: {problem}; what is finished is kept, --resume does the rest"
        raise RunError(text) from problem
    return f"{run.path} failed: {error}\n  to see it again: {entry['command']}"
