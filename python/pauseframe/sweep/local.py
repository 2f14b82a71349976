"""Runs of a sweep on this machine: one worker process per core, each serving many runs.

Workers are told tasks and give answers over pipes (worker.py), so that a worker that is killed costs one run's work
and not the sweep, and none outlives it. No run is started that would not fit into memory by the measure of the
largest so far; the start of the first ones is spread, since nothing is known about them. Short runs are handed out
several at a time, and where they all are soon over there are fewer workers than cores: a process costs more to start
than it would save.

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
"""Between the first starts, until one run has ended and its memory is known."""
MEMORY_SHARE = 0.9
"""How much of what the system calls available is given to runs."""
TRIES = 2
HANDED_OUT_S = 0.05
"""So much work a worker gets at a time."""
HANDED_OUT_MAX = 64
WORKER_PAYS_S = 0.2
"""Another worker is started if the sweep is over so much sooner with it."""


def core_count() -> int:
    """The cores this process may use; batch systems and containers grant fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota = cores_of_quota(Path("/proc/self/cgroup").read_text(), Path("/sys/fs/cgroup"))
    except OSError:
        return cores
    return cores if quota is None else min(cores, quota)


def cores_of_quota(groups: str, root: Path) -> int | None:
    """The cores that the quotas of control groups (version 2) amount to, by /proc/self/cgroup; None without a quota."""
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
        except (OSError, ValueError):  # no file in the root, and "max" where there is no quota
            continue
    return min(cores, default=None)


def run_local(runs: Sequence[PlannedRun], target: Target, jobs: int) -> Iterator[Outcome]:
    """Computes the runs into the target, `jobs` at a time; yields the outcome of each as it comes.

    Closing the iterator kills the workers. A run whose worker dies is done once more, by itself when all others are
    through: most likely the system was out of memory.
    """
    pool = Pool(target, jobs)
    try:
        yield from pool.outcomes(runs)
    finally:
        pool.close()


def _spawned(needs_packages: bool) -> subprocess.Popen[bytes]:
    """A worker in a new interpreter."""
    import subprocess

    package_root = str(Path(__file__).parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P" if needs_packages else "-SP", "-m", "pauseframe.sweep.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        process_group=0,  # Ctrl-C on the terminal is for the sweep alone
    )


class _Worker:
    """A worker process and the runs that it has been given."""

    def __init__(self, needs_packages: bool) -> None:
        self.process = Fork() if can_fork() else _spawned(needs_packages)
        self.runs: deque[PlannedRun] = deque()
        """What it has been given and has not answered; it is busy with the first."""
        self.ready = False
        """Whether it has loaded what it needs."""
        self._scenarios: set[str] = set()
        self._has_plugins = False
        self._answer = b""

    @property
    def answers(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdout)

    def begin(self, runs: Sequence[PlannedRun], target: Target) -> bool:
        """Hands out runs; false if the worker is dead."""
        pipe = cast("IO[bytes]", self.process.stdin)
        try:
            pipe.write("".join(self._line(task_for(run, target)) for run in runs).encode())
            pipe.flush()
        except OSError:
            return False
        self.runs.extend(runs)
        return True

    def _line(self, task: Task) -> str:
        """A task; each scenario is told once, and so are the plug-ins."""
        if self._has_plugins:
            task.pop("plugins", None)
        self._has_plugins = True
        if task["scenario"] in self._scenarios:
            del task["toml"]
        self._scenarios.add(task["scenario"])
        return json.dumps(task) + "\n"

    def read(self) -> tuple[list[Answer], bool]:
        """The answers that are there, and whether the worker is alive."""
        part = os.read(self.answers.fileno(), 1 << 16)
        *lines, self._answer = (self._answer + part).split(b"\n")
        return [json.loads(line) for line in lines], bool(part)

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
        """Until every run has one."""
        waiting = self._waiting = deque(runs)
        while waiting or self._again or self._busy:
            while waiting and self._may_start():
                self._start(waiting, self._portion())
            if self._again and not waiting and not self._busy:
                self._start(self._again, 1)
            for worker in self._answering(bool(waiting)):
                yield from self._take(worker)

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
        """Whether all is over notably sooner with one more worker; as long as no run has ended, it is."""
        if not self._ended:
            return True
        left, workers = len(self._waiting) * self._spent_s / self._ended, len(self._busy)
        return left / workers - left / (workers + 1) > WORKER_PAYS_S

    def _portion(self) -> int:
        """How many runs a worker gets at a time: one as long as none has ended."""
        if not self._ended:
            return 1
        mean = max(self._spent_s / self._ended, 1e-6)
        fair = len(self._waiting) // (2 * self._jobs)  # the last ones are not all with one worker
        return max(1, min(HANDED_OUT_MAX, int(HANDED_OUT_S / mean), fair))

    def _start(self, waiting: deque[PlannedRun], count: int) -> None:
        runs = [waiting.popleft() for _ in range(min(count, len(waiting)))]
        worker = self._idle.pop() if self._idle else self._new_worker()
        while not worker.begin(runs, self._target):  # it was killed while it was idle
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
        """The workers that have something to say, or died. Waits for one, or until another start may be tried."""
        pause = None
        if more_waiting and len(self._busy) < self._jobs:
            pause = 0.5 if self._largest else FIRST_STARTS_S
        return [key.data for key, _ in self._selector.select(pause)]

    def _take(self, worker: _Worker) -> Iterator[Outcome]:
        """The outcomes of the runs that a worker has answered; of one that died, what is to be said at once."""
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
        while worker.runs and worker.runs[0].key in kept:  # it had yet to say so
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
    """Whether one more run fits beside those under way.

    A run will need what the largest needed so far (`largest`, or the largest of those under way); what its worker
    holds already, `busy` of those under way and `idle` of the one to be used, is no longer among the `available`.
    """
    need = max(largest, *busy, 0)
    promised = sum(need - size for size in busy)
    return promised + max(0, need - idle) <= MEMORY_SHARE * available
