"""One run of a sweep, wherever it is computed: in a worker process here or on a cluster."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from pauseframe import _core
from pauseframe._results_folder import open_results
from pauseframe.sweep.store import Store

if TYPE_CHECKING:
    from pauseframe.sweep.plan import PlannedRun


class Task(TypedDict):
    """What a worker is told, as JSON."""

    key: str
    toml: str
    seed: int
    store: str


class Answer(TypedDict, total=False):
    """What a worker says of a run: what went wrong, or how much memory it took."""

    error: str
    peak_rss_bytes: int | None
    files: dict[str, bytes]
    """The results, by a worker on a machine that does not see the store."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run: it is in the store, or `error` says why not."""

    run: PlannedRun
    error: str | None = None


def task_for(run: PlannedRun, store: Path) -> Task:
    """What a worker needs for a run."""
    return {"key": run.key, "toml": run.toml, "seed": run.seed, "store": str(store)}


def compute(task: Task) -> Answer:
    """Computes a run into the store, unless it is there."""
    store, key = Store(Path(task["store"])), task["key"]
    try:
        if not store.has(key):
            scratch = store.scratch()
            try:
                # Cores go to runs first: one thread each.
                run = _core.run(_core.resolve(task["toml"], seed=task["seed"]), out=str(scratch), threads=1)
                if run.interrupted:
                    return {"error": "interrupted"}
                store.add(scratch, key)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return {"peak_rss_bytes": open_results(store.folder(key)).summary["peak_rss_bytes"]}
    except Exception as error:  # noqa: BLE001 (whatever it is, it must not stop the other runs)
        return {"error": f"{type(error).__name__}: {error}"}


def scenario_of(run: PlannedRun) -> str:
    """The complete scenario of a run, with its seed."""
    try:
        return _core.resolve(run.toml, seed=run.seed).toml
    except _core.ScenarioError:  # the plan resolved it, so this is a fault worth looking at as it is
        return run.toml
