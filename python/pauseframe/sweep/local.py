"""Runs of a sweep on this machine: one worker process per core, each serving many runs.

Workers are told tasks and give answers over pipes (worker.py), so that a worker that is killed costs one run's work
and not the sweep, and none outlives it. No run is started that would not fit into memory by the measure of the
largest so far; the start of the first ones is spread, since nothing is known about them.

Neither `concurrent.futures` nor loky: where a worker is killed both break, and all runs that are under way or waiting
fail with it (loky 3.7: one of two workers killed, six of six jobs lost). What the pool promises beyond theirs is what
is tested: `test_a_run_that_kills_its_workers_fails_alone`, `test_idle_workers_may_be_killed`,
`test_kills_lose_and_duplicate_nothing`, `test_one_at_a_time_where_memory_is_short`, and `tests/sweep_kills.py`.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from pauseframe.sweep.memory import available_bytes, resident_bytes
from pauseframe.sweep.task import Outcome, task_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pauseframe.sweep.plan import PlannedRun

FIRST_STARTS_S = 0.1
"""Between the first starts, until one run has ended and its memory is known."""
MEMORY_SHARE = 0.9
"""How much of what the system calls available is given to runs."""
TRIES = 2


def core_count() -> int:
    """The cores this process may use; batch systems grant fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_local(runs: Sequence[PlannedRun], store: Path, jobs: int) -> Iterator[Outcome]:
    """Computes the runs into the store, `jobs` at a time; yields the outcome of each as it comes.

    Closing the iterator kills the workers. A run whose worker dies is done once more, by itself when all others are
    through: most likely the system was out of memory.
    """
    pool = _Pool(store, jobs)
    try:
        yield from pool.outcomes(runs)
    finally:
        pool.close()


class _Worker:
    """A worker process and the run that it is busy with."""

    def __init__(self) -> None:
        package_root = str(Path(__file__).parents[2])
        paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pauseframe.sweep.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            process_group=0,  # Ctrl-C on the terminal is for the sweep alone
        )
        self.run: PlannedRun | None = None

    @property
    def answers(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdout)

    def begin(self, run: PlannedRun, store: Path) -> bool:
        """Hands out a run; false if the worker is dead."""
        line = json.dumps(task_for(run, store)) + "\n"
        pipe = cast("IO[bytes]", self.process.stdin)
        try:
            pipe.write(line.encode())
            pipe.flush()
        except OSError:
            return False
        self.run = run
        return True

    def take(self) -> PlannedRun:
        """The run that it was busy with, which is through."""
        run, self.run = self.run, None
        assert run is not None  # only a worker with a run is asked
        return run

    def resident(self) -> int:
        return resident_bytes(self.process.pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()
        with suppress(OSError):  # a task that was in the pipe's buffer
            cast("IO[bytes]", self.process.stdin).close()

    def death(self) -> str:
        """Why it died, as a message."""
        code = self.process.wait()
        if code >= 0:
            return f"the worker process ended with exit code {code}"
        memory = "; was the system out of memory?" if -code == signal.SIGKILL else ""
        return f"the worker process was ended by {signal.Signals(-code).name}{memory}"


class _Pool:
    def __init__(self, store: Path, jobs: int) -> None:
        self._store = store
        self._jobs = jobs
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._largest = 0
        self._next_start = 0.0
        self._again: deque[PlannedRun] = deque()
        self._deaths: dict[str, int] = {}
        self._selector = selectors.DefaultSelector()

    def outcomes(self, runs: Sequence[PlannedRun]) -> Iterator[Outcome]:
        """Until every run has one."""
        waiting = deque(runs)
        while waiting or self._again or self._busy:
            while waiting and self._may_start():
                self._start(waiting)
            if self._again and not waiting and not self._busy:
                self._start(self._again)
            for worker in self._answering(bool(waiting)):
                outcome = self._end(worker)
                if outcome is not None:
                    yield outcome

    def close(self) -> None:
        """Kills all workers, with what they are doing."""
        for worker in self._idle + self._busy:
            worker.kill()
        self._idle, self._busy = [], []
        self._selector.close()

    def _may_start(self) -> bool:
        if not self._busy:
            return True  # one run at least, or there would be no end
        if len(self._busy) >= self._jobs:
            return False
        if not self._largest and time.monotonic() < self._next_start:
            return False
        sizes = [worker.resident() for worker in self._busy]
        idle = self._idle[-1].resident() if self._idle else 0
        return fits(self._largest, sizes, idle, available_bytes())

    def _start(self, waiting: deque[PlannedRun]) -> None:
        run = waiting.popleft()
        worker = self._idle.pop() if self._idle else self._new_worker()
        while not worker.begin(run, self._store):  # it was killed while it was idle
            self._forget(worker)
            worker = self._idle.pop() if self._idle else self._new_worker()
        self._busy.append(worker)
        self._next_start = time.monotonic() + FIRST_STARTS_S

    def _new_worker(self) -> _Worker:
        worker = _Worker()
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        return worker

    def _forget(self, worker: _Worker) -> None:
        self._selector.unregister(worker.answers)
        worker.kill()

    def _answering(self, more_waiting: bool) -> list[_Worker]:
        """The workers that have something to say, or died. Waits for one, or until another start may be tried."""
        pause = None
        if more_waiting and len(self._busy) < self._jobs:
            pause = 0.5 if self._largest else FIRST_STARTS_S
        return [key.data for key, _ in self._selector.select(pause)]

    def _end(self, worker: _Worker) -> Outcome | None:
        """The outcome of the worker's run; None if there is none: the run is to be done again, or there was no run."""
        line = worker.answers.readline()
        if not line.endswith(b"\n"):
            return self._died(worker)
        answer = json.loads(line)
        self._busy.remove(worker)
        self._idle.append(worker)
        self._largest = max(self._largest, answer.get("peak_rss_bytes") or 0, worker.resident())
        return Outcome(worker.take(), answer.get("error"))

    def _died(self, worker: _Worker) -> Outcome | None:
        message = worker.death()
        self._forget(worker)
        if worker in self._idle:
            self._idle.remove(worker)
            return None
        self._busy.remove(worker)
        run = worker.take()
        self._deaths[run.key] = self._deaths.get(run.key, 0) + 1
        if self._deaths[run.key] >= TRIES:
            return Outcome(run, message)
        self._again.append(run)
        return None


def fits(largest: int, busy: Sequence[int], idle: int, available: int) -> bool:
    """Whether one more run fits beside those under way.

    A run will need what the largest needed so far (`largest`, or the largest of those under way); what its worker
    holds already, `busy` of those under way and `idle` of the one to be used, is no longer among the `available`.
    """
    need = max(largest, *busy, 0)
    promised = sum(need - size for size in busy)
    return promised + max(0, need - idle) <= MEMORY_SHARE * available
