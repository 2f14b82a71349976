"""A sweep that grows: each call adds runs and computes those that neither folder nor store has.

Workers and connections to a cluster are kept between calls. Runs are stored in batches, as in any sweep.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.files.atomic import write_text
from pauseframe.scenario.plain import native
from pauseframe.sweep.batch import BATCHES, Batches
from pauseframe.sweep.local import Pool, core_count
from pauseframe.sweep.results import MANIFEST, load_sweep, write_tables
from pauseframe.sweep.run import CAPTURE, reuse_batches, settle, share
from pauseframe.sweep.store import STORE_NAME, Store, read_failure
from pauseframe.sweep.task import Outcome, Target
from pauseframe.terminal.standard import write_note
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distributed import Client

    from pauseframe.plugins.load import LoadedFile
    from pauseframe.scenario.plain import Value
    from pauseframe.sweep.plan import PlannedRun
    from pauseframe.sweep.results import Sweep

LOOK_EVERY_S = 0.5
"""Seconds between two checks whether other shards have finished their runs."""
SAY_AFTER_S = 30.0
"""Seconds of waiting for other shards until a message says that they may not have started."""


class IncrementalSweep:
    """The folder of a sweep that grows."""

    def __init__(
        self,
        folder: Path,
        *,
        store: str | Path | None = None,
        jobs: int | None = None,
        on: str | Client | None = None,
        threads: int | None = None,
        shard: tuple[int, int] | None = None,
        plugins: tuple[LoadedFile, ...] = (),
    ) -> None:
        jobs, threads = native(jobs), native(threads)
        if jobs is not None and jobs < 1:
            raise InputError(f"jobs = {jobs}: at least one")
        if shard is not None and not 1 <= shard[0] <= shard[1]:
            raise InputError(f"shard {shard[0]}/{shard[1]}: the first number is from 1 to the second")
        self.folder = folder
        self.runs: dict[str, PlannedRun] = {}
        """All runs so far, by key."""
        self.computed = 0
        """Number of runs that this process computed."""
        self._store = Store(Path(store) if store is not None else folder.absolute().parents[1] / STORE_NAME)
        self._target = Target(None, folder / BATCHES, threads or 1, plugins)
        self._jobs = jobs or core_count()
        self._on = on
        self._shard = shard
        self._pool: Pool | None = None
        self._client: Any = None
        folder.mkdir(parents=True, exist_ok=True)
        self._store.clean()

    def compute(self, runs: Sequence[PlannedRun]) -> Iterator[Outcome]:
        """Yields the outcome of each run as it completes; existing runs come first."""
        fresh = {run.key: run for run in runs}
        self.runs |= fresh
        if any(CAPTURE in run.toml for run in fresh.values()):
            raise InputError("a search keeps no captures: leave out record.packets")
        missing, _ = reuse_batches(list(fresh.values()), self.folder, self._store)
        left = {run.key for run in missing}
        yield from (Outcome(run) for key, run in fresh.items() if key not in left)
        own = [run for run in missing if run.key in self._share_of(list(fresh))]
        try:
            for outcome in self._outcomes(own):
                self.computed += outcome.error is None
                settle(outcome, self.folder, self._target, set())
                yield outcome
        finally:
            share(self.folder, self._store)
        mine = {run.key for run in own}
        yield from self._of_others([run for run in missing if run.key not in mine])

    def _share_of(self, keys: list[str]) -> set[str]:
        """The runs of this shard; every shard divides the same list, even if some runs already exist."""
        return set(keys if self._shard is None else keys[self._shard[0] - 1 :: self._shard[1]])

    def _outcomes(self, runs: Sequence[PlannedRun]) -> Iterator[Outcome]:
        if not runs:
            return
        if self._on is None:
            self._pool = self._pool or Pool(self._target, self._jobs)
            yield from self._pool.outcomes(runs)
            return
        from pauseframe.sweep.cluster import connect, run_on

        if isinstance(self._on, str):
            self._client = self._client or connect(self._on)
        yield from run_on(self._client or self._on, runs, self._target)

    def _of_others(self, runs: Sequence[PlannedRun]) -> Iterator[Outcome]:
        """Waits for runs that other shards compute in this folder."""
        waiting = {run.key: run for run in runs}
        end = time.monotonic() + SAY_AFTER_S
        while waiting:
            there = Batches(self.folder / BATCHES).runs
            for key, run in list(waiting.items()):
                if key in there:
                    yield Outcome(waiting.pop(key))
                elif (failure := read_failure(self.folder / run.path)) is not None:
                    yield Outcome(waiting.pop(key), failure["message"])
            if waiting:
                if time.monotonic() > end:
                    write_note(
                        f"waiting for {counted(len(waiting), 'run')} of the other shards: are all of them running?"
                    )
                    end = math.inf
                time.sleep(LOOK_EVERY_S)

    def finish(self, name: str, axes: dict[str, list[Value]]) -> Sweep:
        """Writes the list of runs and the tables, and returns the sweep; `axes` are the values of each axis."""
        from pauseframe.sweep.plan import Plan

        runs = list(self.runs.values())
        plan = Plan(name, axes, sorted({run.seed for run in runs}), runs, [])
        write_text(self.folder / MANIFEST, json.dumps(plan.manifest()) + "\n")
        return write_tables(load_sweep(self.folder))

    def close(self) -> None:
        """Ends workers and connections."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self._client is not None:
            self._client.close()
            self._client = None
