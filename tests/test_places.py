"""Runs never collide: equal inputs are found again, others get another folder, and the last results are known."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.results.places import LABEL_LENGTH, label
from test_fabrics import cli

SCENARIO = """name = "two"
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", size = "64 KB" }]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "two.toml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str, code: int = 0) -> str:
    """Runs a command; returns stdout and stderr."""
    done = cli(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results() -> set[str]:
    return {path.name for path in Path("results").iterdir() if path.name[0] != "."}


def wall(name: str) -> float:
    """A number that differs between two runs of the same inputs."""
    return float(json.loads(Path("results", name, "manifest.json").read_text())["summary"]["wall_s"])


def test_equal_inputs_run_once(folder: Path) -> None:
    command("run", "two.toml")
    first = wall("two-1")
    said = command("run", "two.toml")
    assert "results/two-1 has the results of these inputs already; --force (in Python: force=True) runs again" in said
    assert "flows finished" in said, "the answer is shown again"
    command("run", "two.toml", "--set", "transport.preset=cubic")  # what the file has by default
    command("run", "two.toml", "--out", "results/two-1")
    assert (wall("two-1"), results()) == (first, {"two-1"})
    assert json.loads(command("run", "two.toml", "--json").partition("\n")[0])["flows_finished"] == 2
    command("run", "two.toml", "--force")
    assert wall("two-1") != first


def test_other_inputs_get_a_folder_that_names_them(folder: Path) -> None:
    command("run", "two.toml")
    command("run", "two.toml", "--set", "transport.preset=dctcp", "--set", "switch.buffer=96 KB")
    command("run", "two.toml", "--set", "name=three", "--set", "seed=2")
    assert results() == {"two-1", "two-1-preset=dctcp-buffer=96KB", "three-2"}
    Path("two.toml").write_text(SCENARIO.replace("64 KB", "65 KB"))
    assert "results in results/two-1-run2" in command("run", "two.toml")
    assert "results/two-1-run2 has the results" in command("run", "two.toml")
    Path("two.toml").write_text(SCENARIO)
    assert "results/two-1 has the results" in command("run", "two.toml")
    assert "is not empty" in command("run", "two.toml", "--seed", "9", "--out", "results/two-1", code=2)


def test_a_file_that_a_scenario_reads_is_an_input(folder: Path) -> None:
    Path("flows.csv").write_text("src,dst,size_bytes,start_us\nhost0,host1,64000,0\n")
    Path("two.toml").write_text(
        SCENARIO.replace('kind = "n_to_1", size = "64 KB"', 'kind = "flows", file = "flows.csv"')
    )
    for size in (64000, 65000, 64000):
        Path("flows.csv").write_text(f"src,dst,size_bytes,start_us\nhost0,host1,{size},0\n")
        command("run", "two.toml", "-q")
    assert results() == {"two-1", "two-1-run2"}


def test_another_version_is_another_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder / "out"
    pf.run(SCENARIO, out=out)
    pf.run(SCENARIO, out=out)
    monkeypatch.setattr("pauseframe._core.__version__", "99.0")
    with pytest.raises(pf.InputError, match="is not empty"):
        pf.run(SCENARIO, out=out)


def test_python_returns_the_results_that_are_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = pf.run(SCENARIO, out="out")
    again = pf.run(SCENARIO, out="out")
    assert again.summary == first.summary
    assert "out has the results of these inputs already" in capsys.readouterr().err
    assert pf.run(SCENARIO, out="out", force=True).summary["wall_s"] != first.summary["wall_s"]
    with pytest.raises(pf.InputError, match="is not empty"):
        pf.run(SCENARIO, out="out", seed=2)


@pytest.mark.parametrize("damage", ["a table is gone", "interrupted", "killed"])
def test_a_partial_run_is_replaced(folder: Path, damage: str) -> None:
    command("run", "two.toml", "-q")
    manifest = Path("results/two-1/manifest.json")
    value = json.loads(manifest.read_text())
    if damage == "a table is gone":
        Path("results/two-1/flows.parquet").unlink()
    elif damage == "interrupted":
        manifest.write_text(json.dumps(value | {"status": "interrupted"}))
    else:
        manifest.write_text(json.dumps({"program": "pauseframe", "status": "running"}))
    said = command("run", "two.toml", "-q")
    assert ("is replaced" in said) == (damage != "killed"), said
    assert pf.load("results/two-1").status == "complete"
    assert len(pf.load("results/two-1").flows) == 2
    assert results() == {"two-1"}


def test_two_processes_do_not_mix(folder: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    running = Path("results/two-1")
    running.mkdir(parents=True)
    (running / "manifest.json").write_text(json.dumps({"program": "pauseframe", "status": "running"}))
    with (running / ".lock").open("w") as lock:
        lock.write("process 7 on here")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "process 7 on here is writing results to the folder results/two-1" in command("run", "two.toml", code=1)
        assert json.loads((running / "manifest.json").read_text())["status"] == "running"


def test_flow_level_runs_once(folder: Path) -> None:
    command("flow", "two.toml")
    assert "already" in command("flow", "two.toml")
    command("flow", "two.toml", "--demand", "all_to_all")
    assert results() == {"two-1-flow", "two-1-flow-demand=all_to_all"}


def test_a_sweep_grows_or_moves(folder: Path) -> None:
    axis = ("--set", "transport.preset=cubic,dctcp")
    command("sweep", "two.toml", *axis, "--seeds", "1")
    assert "2 of 2 runs are there already" in command("sweep", "two.toml", *axis, "--seeds", "1")
    command("sweep", "two.toml", *axis, "--seeds", "2")
    assert results() == {"two-sweep"}
    other = ("sweep", "two.toml", "--set", "transport.preset=newreno", "--seeds", "2")
    assert "so this one goes to results/two-sweep-run2" in command(*other)
    assert "has another sweep" in command(*other, "--resume", code=2)
    assert results() == {"two-sweep", "two-sweep-run2"}


def test_the_last_results(folder: Path) -> None:
    assert "no results in this folder" in command("report", code=2)
    command("run", "two.toml", "-q", "--out", "first")
    command("run", "two.toml", "-q", "--seed", "2")
    command("flow", "two.toml", "-q")
    assert "results/two-2/report.html" in command("report")
    assert "first/report.html" in command("report", "--last", "2")
    command("run", "two.toml", "-q", "--out", "first")
    assert "first/report.html" in command("report"), "a run that is found again is the last one"
    assert "taking results/two-2, first" in command("compare")
    command("sweep", "two.toml", "-q", "--seeds", "2")
    assert "taking results/two-sweep" in command("compare")
    assert "only 3 results" in command("report", "--last", "4", code=2)
    assert "not both" in command("report", "first", "--last", "1", code=2)
    assert "has no log to play back" in command("view", code=2), "of the last run, not of the sweep"
    command("run", "two.toml", "-q", "--set", "record.states=true")
    assert "results/two-1-states=true/view.html" in command("view")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (["transport.preset=dctcp", "switch.pfc.xoff = '96 KB'"], "preset=dctcp-xoff=96KB"),
        (['record.series.flows=["*"]'], "flows=all"),
        (["a.path=../../../etc/passwd"], "path=......etcpasswd"),
    ],
)
def test_labels_are_safe(settings: list[str], wanted: str) -> None:
    assert label(settings) == wanted
    assert os.sep not in label(settings)


def test_long_labels_differ() -> None:
    long = [label([f"a.k={'x' * 200}{number}"]) for number in (1, 2)]
    assert long[0] != long[1]
    assert {len(one) for one in long} == {LABEL_LENGTH}
