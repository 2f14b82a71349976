"""The how-to pages about sweeps: their files and commands work as described."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.sweep.plan import Source

PAGES = Path(__file__).parent.parent / "docs" / "how-to"
LAPTOP = (PAGES / "sweep-on-a-laptop.md").read_text(encoding="utf-8")


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S)


@pytest.fixture
def shell(tmp_path):
    """Runs a command in a folder that has load.toml, with `pauseframe` on the path."""
    (tmp_path / "load.toml").write_text(blocks(LAPTOP, "toml file=load.toml")[0])
    command = tmp_path / "bin" / "pauseframe"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pauseframe "$@"\n')
    command.chmod(0o755)

    def run(script, **variables):
        paths = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env=os.environ | {"PATH": paths} | variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.folder = tmp_path  # type: ignore[attr-defined]
    return run


def test_laptop(shell, monkeypatch):
    commands = re.findall(r"^\$ (pauseframe .*)", LAPTOP, re.M)
    assert len(commands) == 5
    for command in commands:
        shell(command)
    names = {path.name for path in shell.folder.iterdir()}
    assert {"load.csv", "load.tex", "load.html"} <= names
    monkeypatch.chdir(shell.folder)
    page: dict[str, object] = {}
    for code in blocks(LAPTOP, "python"):
        exec(code, page)
    assert len(pf.load_sweep("results/load-sweep").finished) == 2 * 3 * 8
    assert set(page["frame"].columns) >= {"transport.preset", "workload.arrivals.load", "seed"}  # type: ignore[attr-defined]


def test_axes_of_the_table(tmp_path):
    text = blocks(LAPTOP, "toml file=load.toml")[0].split("[sweep]")[0]
    rules = '"transport.dup_thresh" = [3, 4]\ntransport.rto_min = ["2 ms", "5 ms"]\nswitch.pfc = [true, false]\n'
    rules += 'seeds = [3, 5]\nzip = [["transport.dup_thresh", "transport.rto_min"]]\n'
    rules += 'exclude = [{ "transport.dup_thresh" = 3, "switch.pfc" = [true] }]\n'
    plan = Source.read(f"{text}[sweep]\n{rules}").plan()
    assert [(run.axes["transport.rto_min"], run.axes["switch.pfc"], run.seed) for run in plan.runs] == [
        (rto, pfc, seed) for seed in (3, 5) for rto, pfc in (("2 ms", False), ("5 ms", True), ("5 ms", False))
    ]


def test_slurm(shell):
    (script,) = blocks((PAGES / "sweep-on-a-cluster.md").read_text(encoding="utf-8"), "bash")
    (last,) = re.findall(r"--array=1-(\d+)", script)
    for number in range(1, int(last) + 1):
        shell(script, SLURM_ARRAY_TASK_ID=str(number), SLURM_ARRAY_TASK_COUNT=last)
    sweep = pf.load_sweep(shell.folder / "results" / "load-sweep")
    assert len(sweep.finished) == len(sweep.planned)
