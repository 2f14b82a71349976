"""Kills searches at random moments and resumes each: `python tests/tune_kills.py [KILLS] [SEED]`.

The script takes some minutes and is not part of the test suite. Each round begins a search, sends SIGKILL to it after a
random time, with or without its workers, and resumes it: no resume waits for a dead process, no finished run is lost or
computed again, and the answer is that of an undisturbed search.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pauseframe.sweep.batch import Batches
from test_sweep import computed
from test_tune import SMALL, answer_of

QUICK = SMALL.replace("trials = 12", "trials = 6").replace("finalists = 2", "finalists = 1")
QUICK = QUICK.replace("held_out = 8", "held_out = 4").replace("constraints = { drops = 0 }", "sensitivity = false")
LIMIT_S = 300
"""Seconds after which a resume counts as hanging."""


def command(file: Path, out: Path) -> list[str]:
    """The command of a search, begun or resumed."""
    return [
        sys.executable,
        "-m",
        "pauseframe",
        "tune",
        str(file),
        "--out",
        str(out),
        "--no-play",
        "--quiet",
        "--resume",
    ]


def round_of(file: Path, out: Path, rng: random.Random, longest: float) -> tuple[bool, int]:
    """Kills and resumes one search; returns whether the kill met it, and the number of runs that it left."""
    process = subprocess.Popen(command(file, out), start_new_session=True)
    time.sleep(rng.uniform(0.0, longest))
    met = process.poll() is None
    with suppress(ProcessLookupError):
        (os.killpg if rng.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    before = set(Batches(out / "runs" / "batches").runs)
    subprocess.run(command(file, out), check=True, timeout=LIMIT_S)
    assert before <= set(Batches(out / "runs" / "batches").runs), "a finished run was lost"
    return met, len(before)


def main(kills: int = 50, seed: int = 1) -> None:
    """Prints one line for each kill."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "small.toml"
        file.write_text(QUICK)
        begun = time.monotonic()
        subprocess.run(command(file, folder / "calm" / "out"), check=True)
        longest = 0.8 * (time.monotonic() - begun)
        calm = answer_of(folder / "calm" / "out")
        runs = computed(folder / "calm" / "out" / "runs")
        met = 0
        while met < kills:
            out = folder / f"round {met}" / "out"
            hit, left = round_of(file, out, rng, longest)
            met += hit
            assert answer_of(out) == calm, "another answer"
            assert computed(out / "runs") <= runs + 2, "runs were computed twice"
            print(f"{met:2} kills, {left} of {runs} runs survived, resumed", flush=True)
            if not hit:
                subprocess.run(["rm", "-rf", str(out.parent)], check=True)
    print(json.dumps({"kills": kills, "resumes": kills, "hangs": 0}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
