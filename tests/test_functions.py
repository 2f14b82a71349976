"""Experiments that measure with a Python function: `pauseframe.reproduce.functions`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pauseframe import RunError
from pauseframe.reproduce.functions import measured
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.spec import Size


def noted(size: Size, seeds: Sequence[int]) -> list[Point]:
    """Returns a point for each seed, and records each computation as a line in a file."""
    with Path(os.environ["NOTED"]).open("a") as file:
        file.writelines(f"{seed}\n" for seed in seeds)
    return [Point("a", seed, "metric", seed / 3, {"size": size}) for seed in seeds]


def failing_on_two(size: Size, seeds: Sequence[int]) -> list[Point]:
    if 2 in seeds:
        raise ValueError("two is wrong")
    return noted(size, seeds)


def slow_on_two(size: Size, seeds: Sequence[int]) -> list[Point]:
    points = noted(size, seeds)
    if 2 in seeds:
        time.sleep(60)
    return points


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """The seeds that the function has computed, in the order of the computations."""
    path = tmp_path / "noted"
    monkeypatch.setenv("NOTED", str(path))
    return lambda: [int(line) for line in path.read_text().split()]


def test_what_a_seed_gave_is_not_computed_again(tmp_path: Path, computed: Callable[[], list[int]]) -> None:
    first = measured("test_functions:noted", "quick", [1, 2], tmp_path, jobs=1, progress=False)
    assert first == [Point("a", seed, "metric", seed / 3, {"size": "quick"}) for seed in (1, 2)]
    assert measured("test_functions:noted", "quick", [2, 3, 1], tmp_path, jobs=1, progress=False)[-1] == first[0]
    measured("test_functions:noted", "full", [1], tmp_path, jobs=1, progress=False)
    assert computed() == [1, 2, 3, 1]


def test_a_seed_that_fails_says_why_and_takes_no_other_with_it(
    tmp_path: Path, computed: Callable[[], list[int]]
) -> None:
    with pytest.raises(RunError, match="seed 2: ValueError: two is wrong"):
        measured("test_functions:failing_on_two", "quick", [1, 2], tmp_path, jobs=1, progress=False)
    measured("test_functions:failing_on_two", "quick", [1], tmp_path, jobs=1, progress=False)
    assert computed() == [1]


# Polars, which the package loads, restarts waits after SIGINT. In the background of a shell, SIGINT is ignored.
SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from pauseframe.reproduce.functions import measured
measured("test_functions:slow_on_two", "quick", [1, 2], Path(FOLDER), jobs=1, progress=False)
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_what_is_over_survives_who_is_interrupted_and_nothing_goes_on(
    tmp_path: Path, computed: Callable[[], list[int]], sign: signal.Signals
) -> None:
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    script = SCRIPT.replace("FOLDER", repr(str(tmp_path)))
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL) as process:
        while not (tmp_path / "noted").is_file() or computed() != [1, 2]:
            time.sleep(0.05)
        process.send_signal(sign)
        assert process.wait() != 0
    while str(tmp_path).encode() in b"".join(_command(path) for path in Path("/proc").glob("[0-9]*/cmdline")):
        time.sleep(0.05)
    measured("test_functions:slow_on_two", "quick", [1], tmp_path, jobs=1, progress=False)
    assert computed() == [1, 2]


def _command(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
