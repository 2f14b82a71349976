"""Runs of a sweep on this machine: one worker process per core, each serving many runs.

Workers receive tasks and answer over pipes (worker.py), so killing a worker loses the work of one run and not the
sweep, and no worker outlives the sweep. A run starts only if it fits into memory, estimated by the largest run so far;
the first starts are staggered, since no estimate exists yet. Short runs are sent in groups, and short sweeps use fewer
workers than cores, because starting a process would cost more than it saves.

`concurrent.futures` and loky are unsuitable: if a worker is killed, both break, and all running and waiting runs fail
(loky 3.7: one of two workers killed, six of six jobs lost). The tests of this pool's guarantees are
`test_a_run_that_kills_its_workers_fails_alone`, `test_idle_workers_may_be_killed`,
`test_kills_lose_and_duplicate_nothing`, `test_one_at_a_time_where_memory_is_short`, and `tests/sweep_kills.py`.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from pauseframe.sweep.batch import finished_in
from pauseframe.sweep.fork import Fork, can_fork
from pauseframe.sweep.memory import available_bytes, resident_bytes
from pauseframe.sweep.task import Outcome, task_for

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

    from pauseframe.sweep.plan import PlannedRun
    from pauseframe.sweep.task import Answer, Target, Task

FIRST_STARTS_S = 0.1
"""Seconds between the first starts, until one run has ended and its memory is known."""
MEMORY_SHARE = 0.9
"""Share of the available memory that runs may use in total."""
TRIES = 2
HANDED_OUT_S = 0.05
"""Seconds of work that a worker gets in one message."""
HANDED_OUT_MAX = 64
WORKER_PAYS_S = 0.2
"""Minimum reduction of the sweep's duration, in seconds, that justifies starting another worker."""


def core_count() -> int:
    """Number of cores that this process may use; batch systems and containers grant fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota = cores_of_quota(Path("/proc/self/cgroup").read_text(), Path("/sys/fs/cgroup"))
    except OSError:
        return cores
    return cores if quota is None else min(cores, quota)


def cores_of_quota(groups: str, root: Path) -> int | None:
    """Number of cores that the quotas of control groups (v2) in /proc/self/cgroup allow; None without a quota."""
    path = next((line.removeprefix("0::/") for line in groups.splitlines() if line.startswith("0::/")), None)
    if path is None:
        return None
    cores = []
    for folder in (root / path, *(root / path).parents):
        if not folder.is_relative_to(root):
            break
        try:
            quota, _, period = (folder / "cpu.max").read_text().partition(" ")
            cores.append(max(int(quota) // int(period), 1))
        except (OSError, ValueError):  # without a quota, the root has no file and other groups have "max"
            continue
    return min(cores, default=None)


def run_local(runs: Sequence[PlannedRun], target: Target, jobs: int) -> Iterator[Outcome]:
    """Computes the runs into the target, `jobs` at a time; yields each outcome when it arrives.

    Closing the iterator kills the workers. A run whose worker dies is repeated alone at the end, because the most
    likely cause is a lack of memory.
    """
    pool = Pool(target, jobs)
    try:
        yield from pool.outcomes(runs)
    finally:
        pool.close()


def _spawned(needs_packages: bool) -> subprocess.Popen[bytes]:
    """Starts a worker in a new interpreter."""
    import subprocess

    package_root = str(Path(__file__).parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P" if needs_packages else "-SP", "-m", "pauseframe.sweep.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        process_group=0,  # Ctrl-C goes only to the sweep
    )


class _Worker:
    """A worker process and its runs."""

    def __init__(self, needs_packages: bool) -> None:
        self.process = Fork() if can_fork() else _spawned(needs_packages)
        self.runs: deque[PlannedRun] = deque()
        """Runs without an answer yet; the worker computes the first."""
        self.ready = False
        """True if the worker has loaded the package."""
        self._scenarios: set[str] = set()
        self._has_plugins = False
        self._answer = b""

    @property
    def answers(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdout)

    def begin(self, runs: Sequence[PlannedRun], target: Target) -> bool:
        """Sends runs to the worker; False if the worker is dead."""
        pipe = cast("IO[bytes]", self.process.stdin)
        try:
            pipe.write("".join(self._line(task_for(run, target)) for run in runs).encode())
            pipe.flush()
        except OSError:
            return False
        self.runs.extend(runs)
        return True

    def _line(self, task: Task) -> str:
        """A task as a line of JSON; scenarios and plug-ins are sent only once."""
        if self._has_plugins:
            task.pop("plugins", None)
        self._has_plugins = True
        if task["scenario"] in self._scenarios:
            del task["toml"]
        self._scenarios.add(task["scenario"])
        return json.dumps(task) + "\n"

    def read(self) -> tuple[list[Answer], bool]:
        """The answers so far, and whether the worker is alive."""
        part = os.read(self.answers.fileno(), 1 << 16)
        *lines, self._answer = (self._answer + part).split(b"\n")
        return [json.loads(line) for line in lines], bool(part)

    def resident(self) -> int:
        return resident_bytes(self.process.pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()
        with suppress(OSError):  # a task may remain in the pipe's buffer
            cast("IO[bytes]", self.process.stdin).close()

    def death(self) -> str:
        """The cause of the worker's death, as a message."""
        code = self.process.wait()
        if code >= 0:
            return f"the worker process ended with exit code {code}"
        memory = "; was the system out of memory?" if -code == signal.SIGKILL else ""
        return f"the worker process was ended by {signal.Signals(-code).name}{memory}"


class Pool:
    """Worker processes; idle ones wait for the next runs until the pool is closed."""

    def __init__(self, target: Target, jobs: int) -> None:
        self._target = target
        self._jobs = jobs
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._largest = 0
        self._next_start = 0.0
        self._waiting: deque[PlannedRun] = deque()
        self._again: deque[PlannedRun] = deque()
        self._deaths: dict[str, int] = {}
        self._ended = 0
        self._spent_s = 0.0
        self._selector = selectors.DefaultSelector()

    def outcomes(self, runs: Sequence[PlannedRun]) -> Iterator[Outcome]:
        """Yields the outcome of every run; waits for workers."""
        waiting = self._waiting = deque(runs)
        while waiting or self._again or self._busy:
            while waiting and self._may_start():
                self._start(waiting, self._portion())
            if self._again and not waiting and not self._busy:
                self._start(self._again, 1)
            for worker in self._answering(bool(waiting)):
                yield from self._take(worker)

    def close(self) -> None:
        """Kills all workers and their runs."""
        for worker in self._idle + self._busy:
            worker.kill()
        self._idle, self._busy = [], []
        self._selector.close()

    def _may_start(self) -> bool:
        if not self._busy:
            return True  # at least one run must always proceed
        if len(self._busy) >= self._jobs:
            return False
        if not all(worker.ready for worker in self._busy):
            return False
        if not self._largest and time.monotonic() < self._next_start:
            return False
        if not self._idle and not self._another_pays():
            return False
        sizes = [worker.resident() for worker in self._busy]
        idle = self._idle[-1].resident() if self._idle else 0
        return fits(self._largest, sizes, idle, available_bytes())

    def _another_pays(self) -> bool:
        """True if one more worker ends the sweep notably sooner; assumed until a run has ended."""
        if not self._ended:
            return True
        left, workers = len(self._waiting) * self._spent_s / self._ended, len(self._busy)
        return left / workers - left / (workers + 1) > WORKER_PAYS_S

    def _portion(self) -> int:
        """Number of runs that a worker gets at a time; one until a run has ended."""
        if not self._ended:
            return 1
        mean = max(self._spent_s / self._ended, 1e-6)
        fair = len(self._waiting) // (2 * self._jobs)  # several workers share the last runs
        return max(1, min(HANDED_OUT_MAX, int(HANDED_OUT_S / mean), fair))

    def _start(self, waiting: deque[PlannedRun], count: int) -> None:
        runs = [waiting.popleft() for _ in range(min(count, len(waiting)))]
        worker = self._idle.pop() if self._idle else self._new_worker()
        while not worker.begin(runs, self._target):  # the worker was killed while idle
            self._forget(worker)
            worker = self._idle.pop() if self._idle else self._new_worker()
        self._busy.append(worker)
        self._next_start = time.monotonic() + FIRST_STARTS_S

    def _new_worker(self) -> _Worker:
        worker = _Worker(self._target.needs_packages)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        return worker

    def _forget(self, worker: _Worker) -> None:
        self._selector.unregister(worker.answers)
        worker.kill()

    def _answering(self, more_waiting: bool) -> list[_Worker]:
        """The workers that answered or died; waits for one of them, or until another start may be tried."""
        pause = None
        if more_waiting and len(self._busy) < self._jobs:
            pause = 0.5 if self._largest else FIRST_STARTS_S
        return [key.data for key, _ in self._selector.select(pause)]

    def _take(self, worker: _Worker) -> Iterator[Outcome]:
        """The outcomes of the runs that a worker has answered; for a dead worker, its errors."""
        answers, alive = worker.read()
        for answer in answers:
            if "ready" in answer:
                worker.ready, self._next_start = True, time.monotonic() + FIRST_STARTS_S
                continue
            self._spent_s += answer.get("cpu_s", 0.0)
            self._largest = max(self._largest, answer.get("peak_rss_bytes") or 0)
            self._ended += 1
            yield Outcome(worker.runs.popleft(), answer.get("error"))
        if not alive:
            yield from self._died(worker)
        elif worker in self._busy and not worker.runs:
            self._largest = max(self._largest, worker.resident())
            self._busy.remove(worker)
            self._idle.append(worker)

    def _died(self, worker: _Worker) -> Iterator[Outcome]:
        message = worker.death()
        self._forget(worker)
        if worker in self._idle:
            self._idle.remove(worker)
            return
        self._busy.remove(worker)
        kept = set() if self._target.batches is None else finished_in(self._target.batches, worker.process.pid)
        while worker.runs and worker.runs[0].key in kept:  # the worker finished the run but could not answer
            yield Outcome(worker.runs.popleft())
        if not worker.runs:
            return
        run = worker.runs.popleft()
        self._waiting.extendleft(reversed(worker.runs))
        self._deaths[run.key] = self._deaths.get(run.key, 0) + 1
        if self._deaths[run.key] >= TRIES:
            yield Outcome(run, message)
        else:
            self._again.append(run)


def fits(largest: int, busy: Sequence[int], idle: int, available: int) -> bool:
    """True if one more run fits into memory.

    A run is assumed to need as much memory as the largest so far (`largest`, or the largest running one). `available`
    excludes the memory that workers hold: `busy` of each running worker, and `idle` of the worker to use.
    """
    need = max(largest, *busy, 0)
    promised = sum(need - size for size in busy)
    return promised + max(0, need - idle) <= MEMORY_SHARE * available
