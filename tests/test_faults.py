"""Calls of the system that fail on purpose: `tests/faults.py`, here a sample of its points, in `make night` all."""

from __future__ import annotations

import json
import subprocess
import sys

import faults
import pytest

POINTS = 40


def tried(*arguments: str) -> dict[str, dict[str, int]]:
    """Runs the harness, which prints one line of JSON if it finds no defect."""
    line = [sys.executable, faults.__file__, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(faults.compiler() is None, reason="no C compiler here")
def test_a_command_survives_the_failure_of_any_call() -> None:
    found = tried("--points", str(POINTS))
    assert sum(found["ended"].values()) == POINTS
    # The faults are met: some end a command, and some are absorbed.
    assert {"kill reported", "ENOSPC reported", "short absorbed", "pause absorbed"} <= set(found["ended"])
    assert all(calls > 3 for calls in found["calls"].values())
