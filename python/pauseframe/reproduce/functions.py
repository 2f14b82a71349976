"""Experiments that measure with a Python function at flow level, in one process per seed.

The result of a seed is stored with the runs when it is complete, under a name with the build of the core and a digest
of the function's module. Ctrl-C or a kill loses only the seeds in progress, and nothing is computed twice.

    python -m pauseframe.reproduce.functions MODULE:FUNCTION SIZE SEED FILE
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import subprocess
import sys
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, get_args

from pauseframe._core import RunError
from pauseframe.files.atomic import write_text
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.spec import Size
from pauseframe.results.run_key import core_build
from pauseframe.sweep.local import core_count
from pauseframe.sweep.progress import SweepDisplay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLDER = "functions"
"""Subfolder of the folder of runs that stores the results of functions."""


def measured(
    name: str, size: Size, seeds: Sequence[int], runs: Path, jobs: int | None, progress: bool | None
) -> list[Point]:
    """The points of all seeds in order, from the function `name` (`module:function`), with `jobs` processes at a time.

    Raises RunError with the last output line of a failed process, KeyboardInterrupt on Ctrl-C.
    """
    files = {seed: runs / FOLDER / f"{_key(name, size, seed)}.json" for seed in seeds}
    missing = [seed for seed, file in files.items() if not file.is_file()]
    display = SweepDisplay(progress, name.rpartition(".")[2], len(files), len(missing), 0)
    at_a_time = min(jobs or core_count(), max(len(missing), 1))
    pool = ThreadPoolExecutor(at_a_time)
    children: list[subprocess.Popen[str]] = []
    try:
        pending = {pool.submit(_measure, name, size, seed, files[seed], children) for seed in missing}
        while pending:
            # Polars has a handler of SIGINT that restarts system calls: Ctrl-C would not end a wait without a timeout.
            over, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for one in over:
                one.result()
                display.step(None)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
        display.close()
    return [Point(**point) for file in files.values() for point in json.loads(file.read_text(encoding="utf-8"))]


def function(name: str) -> Callable[[Size, Sequence[int]], list[Point]]:
    """Imports the function with this name."""
    module, _, attribute = name.partition(":")
    found: Callable[[Size, Sequence[int]], list[Point]] = getattr(import_module(module), attribute)
    return found


def source(name: str) -> str:
    """The text of the module of a function."""
    return Path(inspect.getfile(function(name))).read_text(encoding="utf-8")


def _key(name: str, size: Size, seed: int) -> str:
    return hashlib.sha256("\n".join((core_build(), source(name), name, size, str(seed))).encode()).hexdigest()[:32]


def _measure(name: str, size: Size, seed: int, file: Path, children: list[subprocess.Popen[str]]) -> None:
    command = [sys.executable, "-P", "-m", "pauseframe.reproduce.functions", name, size, str(seed), str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True, env=environment) as child:
        children.append(child)
        said = child.stderr.read() if child.stderr else ""
    if child.returncode:
        last = said.strip().rpartition("\n")[2] or f"ended with {child.returncode}"
        raise RunError(f"{name}, seed {seed}: {last}")


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _serve(name: str, size: str, seed: str, file: str) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    (known,) = [one for one in get_args(Size) if one == size]
    points = function(name)(known, [int(seed)])
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    write_text(Path(file), json.dumps([asdict(point) for point in points]))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
