"""Faults that users found: names that point elsewhere, damaged files, two runs in one folder, endless records."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe import _core
from pauseframe.types import RunProgress
from test_fabrics import cli

STAR = 'stop = "1 ms"\ntopology = { kind = "star", hosts = 4 }\n'
PLAIN = STAR + 'workload = { kind = "permutation", size = "10 KB" }\n'
ENDLESS = 'stop = "1000 s"\ntopology = { kind = "star", hosts = 4 }\nworkload = { kind = "incast", fan_in = 2 }\n'


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return cli(*arguments, cwd=cwd)


def write(folder: Path, text: str, name: str = "small.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "..", "a\\\\b", "a\\u0000b", "x" * 201])
def test_a_name_stays_in_the_results(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    done = command("run", write(inside, f'name = "{name}"\n{PLAIN}'), cwd=inside)
    assert done.returncode == 2
    assert "name" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b", "small.toml"]
    with pytest.raises(pf.ScenarioError, match="name"):
        pf.run(PLAIN, set={"name": name.replace("\\\\", "\\").replace("\\u0000", "\0")}, progress=False)


@pytest.mark.parametrize("damage", ["magic", "middle", "empty"])
def test_damaged_parquet_is_an_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "bad.parquet"
    pl.DataFrame({"src": ["host0"], "dst": ["host1"], "size_bytes": [10], "start_us": [0.0]}).write_parquet(path)
    good = path.read_bytes()
    path.write_bytes({"magic": b"PAR1PAR1", "middle": good[:8] + b"\xff" * 60 + good[68:], "empty": b""}[damage])
    done = command(
        "validate", write(tmp_path, STAR + 'workload = { kind = "flows", file = "bad.parquet" }'), cwd=tmp_path
    )
    assert done.returncode == 2
    assert "workload.0.file" in done.stderr
    assert "panicked" not in done.stderr
    assert "Traceback" not in done.stderr
    if damage != "middle":
        with pytest.raises(pf.RunError, match=r"bad\.parquet"):
            _core.read_table(str(path))


def test_one_run_at_a_time_writes_a_folder(tmp_path: Path) -> None:
    scenario, out = write(tmp_path, ENDLESS), tmp_path / "out"
    line = [sys.executable, "-m", "pauseframe", "run", str(scenario), "--out", str(out), "--quiet"]
    first = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    try:
        while not (out / "scenario.resolved.toml").exists():
            assert first.poll() is None
        with pytest.raises(pf.RunError, match=f"process {first.pid}.*is writing"):
            pf.run(PLAIN, out=out, force=True, progress=False)
        for reader in ("report", "view", "compare", "export csv", "export perfetto"):
            done = command(*reader.split(), out, cwd=tmp_path)
            assert done.returncode == 2
            assert f"out: process {first.pid} on {os.uname().nodename} is still writing this run: wait" in done.stderr
        # A killed process blocks no other process.
        first.kill()
        first.wait()
        with pytest.raises(pf.InputError, match=r"did not come to its end .*; run the scenario again"):
            pf.load(out)
        pf.run(PLAIN, out=out, force=True, progress=False)
    finally:
        first.kill()
        first.communicate()
    assert json.loads((out / "manifest.json").read_text())["status"] == "complete"
    assert not (out / ".lock").exists()


def test_force_leaves_no_report_of_the_old_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pf.run(PLAIN, out=out, progress=False)
    assert command("report", out, cwd=tmp_path).returncode == 0
    (out / "notes.txt").write_text("mine")
    assert (out / "report.html").exists()
    pf.run(PLAIN, out=out, force=True, progress=False)
    assert not (out / "report.html").exists()
    assert (out / "notes.txt").read_text() == "mine"


def test_a_series_without_bounds_needs_a_word(tmp_path: Path) -> None:
    scenario = write(tmp_path, PLAIN.replace("1 ms", "100 ms") + '[record.series]\nevery = "1 ns"\n')
    for command_ in ("validate", "run"):
        done = command(command_, scenario, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "record.series.every" in done.stderr
        assert "1600 million rows" in done.stderr
        assert "--force-large" in done.stderr
    assert not (tmp_path / "results").exists()
    assert command("validate", "--force-large", scenario, cwd=tmp_path).returncode == 0
    with pytest.raises(pf.ScenarioError, match="force_large=True") as caught:
        pf.run(scenario, progress=False)
    assert caught.value.problems[0]["path"] == "record.series.every"
    assert pf.run(scenario, force_large=True, progress=False).series.num_rows > 100_000


def interrupted_by(timer_s: float, work: Callable[[], object]) -> object:
    """Runs `work`, and simulates Ctrl-C after the given number of seconds."""
    timer = threading.Timer(timer_s, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        return work()
    finally:
        timer.join()


def test_ctrl_c_ends_a_search_and_keeps_its_plan() -> None:
    fabric = pf.load_topology("jellyfish:switches=100,network_ports=3,hosts_per_switch=1")

    def plan(**settings: Any) -> _core.Routes:
        return _core.plan_routes(fabric, "order_pair", effort="best", budget=600, **settings)

    routes = interrupted_by(0.3, plan)
    assert isinstance(routes, _core.Routes)
    assert routes.interrupted
    assert routes.check()["clean"]
    assert any(f"--steps {routes.steps}" in note for note in routes.notes)
    again = plan(steps=routes.steps)
    assert (again.steps, again.write("csv")) == (routes.steps, routes.write("csv"))


def test_a_second_ctrl_c_ends_a_plan() -> None:
    fabric = pf.load_topology("jellyfish:switches=900,network_ports=16,hosts_per_switch=1")
    with pytest.raises(KeyboardInterrupt):
        interrupted_by(0.3, lambda: interrupted_by(0.6, lambda: _core.plan_routes(fabric, "order_pair", vlans=64)))


def test_ctrl_c_ends_an_import(tmp_path: Path) -> None:
    ring = "".join(f'{{"source": "s{i}", "target": "s{(i * 7 + 1) % 150_000}"}},' for i in range(400_000))
    nodes = "".join(f'{{"id": "s{i}", "kind": "switch"}},' for i in range(150_000))
    path = write(tmp_path, f'{{"nodes": [{nodes[:-1]}], "links": [{ring[:-1]}]}}', "large.json")
    with pytest.raises((KeyboardInterrupt, pf.FabricError)) as caught:
        interrupted_by(0.1, lambda: [_core.Topology.read(str(path)).statistics() for _ in range(1000)])
    assert caught.type is KeyboardInterrupt


@pytest.mark.parametrize("times", [1, 1000])
def test_ctrl_c_once_keeps_what_there_is_and_again_leaves_it(tmp_path: Path, times: int) -> None:
    out = tmp_path / "out"
    stop = 'stop = { time = "2 ms", when_finished = false }'
    scenario = PLAIN.replace('stop = "1 ms"', stop) + '[record.series]\nevery = "2 ns"\nflows = ["*"]\n'
    left = times

    def press(now: RunProgress) -> None:
        nonlocal left
        if now["sim_time_s"] > 1e-4 and left > 0:
            left -= 1
            # Longer than the interval between two checks, so the next check is due at once, however fast the results
            # are written.
            time.sleep(0.15)
            raise KeyboardInterrupt

    if times == 1:
        run = pf.run(scenario, out=out, progress=press, force_large=True)
        assert run.interrupted
        assert pf.load(out).series.num_rows == run.series.num_rows > 100_000
        # The last packet was sent long before the interrupt; the run is as long as its recordings.
        assert run.summary["sim_time_s"] > 1e-4
        return
    # Ctrl-C while the results are being written leaves complete files, and a folder marked as incomplete.
    with pytest.raises(KeyboardInterrupt, match="while the results were written"):
        pf.run(scenario, out=out, progress=press, force_large=True)
    assert json.loads((out / "manifest.json").read_text())["status"] == "running"
    assert _core.read_table(str(out / "series.parquet")).num_rows > 100_000
    assert not (out / ".lock").exists()
