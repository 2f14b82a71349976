"""Runs a planned sweep: computes missing runs and takes existing ones from a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe._core import InputError, RunError
from pauseframe.files.atomic import is_disk_full, read_object, write_text
from pauseframe.files.lock import locked
from pauseframe.results.places import RESULTS, first_that
from pauseframe.scenario.plain import native
from pauseframe.sweep.batch import BATCHES, Batches, batch_files, link_batches, remove_runs
from pauseframe.sweep.progress import SweepDisplay
from pauseframe.sweep.results import MANIFEST, TABLES, Sweep, damage_of_list, load_sweep, write_tables
from pauseframe.sweep.store import (
    ERROR_FILE,
    STORE_NAME,
    Store,
    flaw,
    forget_failure,
    record_failure,
)
from pauseframe.sweep.store import MANIFEST as RUN_MANIFEST
from pauseframe.sweep.task import Target, scenario_of
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from distributed import Client

    from pauseframe.sweep.plan import Plan, PlannedRun
    from pauseframe.sweep.task import Outcome

REPORT = "report.html"
CAPTURE = "[record.packets]"
"""A scenario with the table [record.packets] captures packets into a file, so its runs keep their folders."""


def carry_out(
    plan: Plan,
    *,
    out: str | Path | None = None,
    store: str | Path | None = None,
    resume: bool = True,
    jobs: int | None = None,
    on: str | Client | None = None,
    shard: tuple[int, int] | None = None,
    keep_runs: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Computes the missing runs of a plan; the arguments are those of `sweep`."""
    jobs, threads = native(jobs), native(threads)
    folder = Path(out) if out is not None else _folder_for(plan)
    index, count = shard or (1, 1)
    if not 1 <= index <= count:
        raise InputError(f"shard {index}/{count}: the first number is from 1 to the second")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs}: at least one")
    _check(folder, plan, resume or shard is not None)
    with locked(folder, shared=shard is not None):
        _open(folder, plan, resume or shard is not None)
        return _fill(plan, folder, store, jobs, on, (index, count), keep_runs, threads, progress)


def _fill(
    plan: Plan,
    folder: Path,
    store: str | Path | None,
    jobs: int | None,
    on: str | Client | None,
    shard: tuple[int, int],
    keep_runs: bool,
    threads: int | None,
    progress: bool | None,
) -> Sweep:
    """Computes the missing runs of a plan in its folder."""
    keep = Store(Path(store) if store is not None else folder.absolute().parent / STORE_NAME)
    keep.clean()
    runs = plan.shard(*shard)
    as_folders = keep_runs or any(CAPTURE in run.toml for run in runs)
    target = Target(
        keep.root if as_folders else None, None if as_folders else folder / BATCHES, threads or 1, plan.plugins
    )
    missing, reused = _reuse_folders(runs, folder, keep) if as_folders else reuse_batches(runs, folder, keep)
    failed = {run.path for run in missing if (folder / run.path / ERROR_FILE).exists()}
    display = SweepDisplay(progress, plan.name, len(runs), len(missing), reused)
    outcomes = _compute(missing, target, jobs, on)
    try:
        for outcome in outcomes:
            display.step(settle(outcome, folder, target, failed))
    except KeyboardInterrupt:
        done = len(load_sweep(folder).finished)
        write_note(
            f"interrupted; {done} of {len(plan.runs)} runs are kept in {folder}; the same command does the others"
        )
        raise
    finally:
        outcomes.close()
        share(folder, keep)
        keep.clean()
        display.close()
    if (missing or reused) and (folder / REPORT).exists():
        write_note(f"{folder / REPORT} is out of date: pauseframe report {folder} rewrites it")
    sweep = load_sweep(folder)
    if missing or reused or not (folder / TABLES[0]).exists():
        sweep = write_tables(sweep)
    return sweep


def _folder_for(plan: Plan) -> Path:
    """The folder of a sweep whose command names none: results/NAME-sweep, or a numbered one if others are there."""
    wanted = RESULTS / f"{plan.name}-sweep"
    folder = first_that(wanted, lambda folder: _obstacle(folder, plan) is None)
    if folder != wanted:
        write_note(f"note: {wanted} has another sweep, so this one goes to {folder}")
    return folder


def _open(folder: Path, plan: Plan, may_exist: bool) -> None:
    """Writes `sweep.json`, unless the folder has a sweep with another plan."""
    _check(folder, plan, may_exist)  # another process may have been quicker
    if damage_of_list(folder) is not None:
        write_note(f"note: {folder / MANIFEST} is damaged; it is replaced, and runs of this sweep are kept")
    if read_object(folder / MANIFEST) != plan.manifest():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TABLES[0]).unlink(missing_ok=True)  # the tables may have runs of a larger sweep, whose list was lost
        write_text(folder / MANIFEST, json.dumps(plan.manifest()) + "\n")
    else:
        (folder / MANIFEST).touch()  # the last sweep


def _check(folder: Path, plan: Plan, may_exist: bool) -> None:
    """Refuses a folder that has something else, another sweep, or without `may_exist` any sweep."""
    if not may_exist and (folder / MANIFEST).exists():
        raise InputError(f"{folder} has a sweep; resume=True does what is missing in it")
    if (why := _obstacle(folder, plan)) is not None:
        raise InputError(f"{folder} {why}")


def _obstacle(folder: Path, plan: Plan) -> str | None:
    """The reason why a folder cannot have this sweep, or None; a sweep of which this one has all runs may grow."""
    old = read_object(folder / MANIFEST)
    if old is None or damage_of_list(folder) is not None:
        return _obstacle_without_list(folder, plan)
    if old.get("version") != plan.manifest()["version"]:
        return f"was begun with pauseframe {old.get('version')}; choose another --out"
    now = {run.path: run.key for run in plan.runs}
    lost = [row["path"] for row in load_sweep(folder).planned if now.get(row["path"]) != row["key"]]
    if not lost:
        return None
    return (
        f"has another sweep: {len(lost)} of its runs, such as {lost[0]}, are different or not in this one; choose "
        "another --out (what was computed is taken from the store)"
    )


def _obstacle_without_list(folder: Path, plan: Plan) -> str | None:
    """The reason why a folder whose list of runs is absent or damaged cannot have this sweep, or None.

    A run of this sweep shows that the folder is its own; batches may contain runs of other sweeps from the store.
    """
    if not folder.is_dir() or all(entry.name == MANIFEST for entry in folder.iterdir() if entry.name[0] != "."):
        return None
    known = Batches(folder / BATCHES).runs
    if any(run.key in known or _is_folder_of(folder / run.path, run.key) for run in plan.runs):
        return None
    has_runs = (folder / BATCHES).is_dir() or next(folder.glob("**/seed=*/"), None) is not None
    if not has_runs or not (folder / MANIFEST).exists():
        return "exists and is not a sweep; choose another --out"
    return (
        f"has a damaged {MANIFEST}, and none of its runs is one of this sweep; choose another --out (what was computed "
        "is taken from the store)"
    )


def _is_folder_of(folder: Path, key: str) -> bool:
    """True if a folder has the results of a run, or the error with which it failed."""
    return any((read_object(folder / name) or {}).get("key") == key for name in (RUN_MANIFEST, ERROR_FILE))


def _reuse_folders(runs: Sequence[PlannedRun], folder: Path, store: Store) -> tuple[list[PlannedRun], int]:
    """The runs to compute as folders, and the number of runs taken from the store."""
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


def reuse_batches(runs: Sequence[PlannedRun], folder: Path, store: Store) -> tuple[list[PlannedRun], int]:
    """The runs to compute into batches, and the number of runs taken from the store."""
    missing = _without_good(_without_folders(runs, folder), folder / BATCHES)
    if not missing:
        return [], 0
    wanted = {run.key for run in missing}
    shared = _without_good(missing, store.batches)
    left = {run.key for run in shared}
    found = Batches(store.batches)
    names = {found.runs[key].path.name for key in wanted - left}
    link_batches(store.batches, folder / BATCHES, sorted(names))
    return shared, len(missing) - len(shared)


def _without_folders(runs: Sequence[PlannedRun], folder: Path) -> list[PlannedRun]:
    """The runs that have no folder in the sweep's folder, where an earlier call may have used `keep_runs`."""
    if not any(entry.is_dir() and entry.name != BATCHES for entry in folder.iterdir()):
        return list(runs)
    missing = []
    for run in runs:
        damage = flaw(folder / run.path, run.key)
        if damage is not None:
            _tell(folder / run.path, damage)
            missing.append(run)
    return missing


def _without_good(runs: Sequence[PlannedRun], folder: Path) -> list[PlannedRun]:
    """The runs that the batches of a folder lack; removes damaged runs from the batches."""
    batches = Batches(folder)
    missing, damaged = [], []
    for run in runs:
        if run.key not in batches.runs:
            missing.append(run)
        elif (damage := batches.flaw(run.key)) is not None:
            write_note(f"{damage}; it is replaced")
            missing.append(run)
            damaged.append(run.key)
    if damaged:
        remove_runs(batches, damaged)
    return missing


def share(folder: Path, store: Store) -> None:
    """Adds the batches of a sweep to the store."""
    names = [path.name for path in batch_files(folder / BATCHES)]
    if names:
        link_batches(folder / BATCHES, store.batches, names)


def _tell(folder: Path, damage: str | None) -> None:
    """Reports that existing results cannot be used."""
    if damage is not None and (folder / RUN_MANIFEST).exists():
        write_note(f"{folder}: {damage}; it is replaced")


def _compute(
    runs: Sequence[PlannedRun], target: Target, jobs: int | None, on: str | Client | None
) -> Generator[Outcome, None, None]:
    if not runs:
        return
    if on is not None:
        from pauseframe.sweep.cluster import run_on

        yield from run_on(on, runs, target)
    else:
        from pauseframe.sweep.local import core_count, run_local

        yield from run_local(runs, target, min(jobs or core_count(), len(runs)))


def settle(outcome: Outcome, folder: Path, target: Target, failed: set[str]) -> str | None:
    """Moves a finished run, or its error, into the sweep's folder; returns a message about a failure."""
    run, error = outcome.run, outcome.error
    try:
        if error is None:
            if target.store is not None:
                Store(target.store).place(run.key, folder / run.path)
            elif run.path in failed:
                forget_failure(folder, run.path)
            return None
        if is_disk_full(error):
            raise RunError(
                f"no room left for results: {error}; what is finished is kept, the same command does the rest"
            )
        entry = record_failure(folder / run.path, scenario_of(run), run, error, target.plugins)
    except OSError as problem:
        text = f"{folder / run.path}: {problem}; what is finished is kept, the same command does the rest"
        raise RunError(text) from problem
    return f"{run.path} failed: {error}\n  to see it again: {entry['command']}"
