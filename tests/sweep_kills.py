"""Kills a sweep twenty times at random: `python tests/sweep_kills.py [KILLS] [SEED]`.

The script takes three minutes and is not part of the test suite. Each round resumes the sweep, on this machine or on a
Dask cluster, and after a random time sends SIGKILL to the sweep, a worker or the scheduler. After each kill, every
finished run is still there and was not computed again (its record is unchanged). At the end every run exists once, with
the same bytes as in an undisturbed sweep.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import pauseframe as pf
from test_cli import cli
from test_sweep import LONGER, computed, finished, popen
from test_sweep_cluster import processes, scheduler, tables, worker

RUNS = 1000


def main(kills: int = 20, seed: int = 1) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, out = folder / "longer.toml", folder / "disturbed" / "out"
        file.write_text(LONGER)
        before: dict[object, object] = {}
        for number in range(kills):
            victim = rng.choice(["sweep", "worker", "sweep on the cluster", "worker of the cluster", "scheduler"])
            if victim in ("sweep", "worker"):
                kill_here(victim, file, out, rng)
            else:
                kill_on_cluster(victim, file, out, folder, rng)
            now = finished(out)
            assert before.items() <= now.items(), "a finished run was lost or computed again"
            print(
                f"{number + 1:2}  killed the {victim}: {len(now)} of {RUNS} runs, {len(now) - len(before)} new",
                flush=True,
            )
            before = now
        done = cli("sweep", file, "--seeds", RUNS, "--out", out, "--resume")
        assert done.returncode == 0, done.stderr
        assert before.items() <= finished(out).items()
        calm = pf.sweep(file, seeds=RUNS, out=folder / "calm" / "out")
        assert len(finished(out)) == RUNS == len(calm.finished)
        assert computed(out) == RUNS, "a run was computed twice"
        assert tables(out) == tables(calm.folder)
        assert pf.load_sweep(out).flows.collect().height == 2 * RUNS
    print(f"{kills} kills: no finished run lost, none computed twice, the same bytes as undisturbed")


def pause(out, rng):
    """Waits until the sweep has made progress, and then for a random time."""
    begun, count = time.monotonic(), len(finished(out))
    while len(finished(out)) == count and time.monotonic() - begun < 15:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.6))


def kill_here(victim, file, out, rng):
    with popen("sweep", file, "--seeds", RUNS, "--out", out, "--resume") as process:
        pause(out, rng)
        if victim == "worker":
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not (workers := children.read_text().split()):  # The sweep is still reading runs from the store.
                time.sleep(0.01)
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
            time.sleep(rng.uniform(0, 0.5))
        assert process.poll() is None, "the sweep ended by itself"
        process.kill()


def kill_on_cluster(victim, file, out, folder, rng):
    with processes() as start:
        boss, address = scheduler(start, folder)
        workers = [worker(start, address, folder) for _ in range(2)]
        with popen("sweep", file, "--seeds", RUNS, "--out", out, "--resume", "--on", address) as process:
            pause(out, rng)
            {"scheduler": boss, "worker of the cluster": workers[0]}.get(victim, process).kill()
            time.sleep(rng.uniform(0, 0.5))
            process.kill()
        time.sleep(0.3)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
