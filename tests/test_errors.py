"""Errors for impossible requests: each names the file or the intended name, and follows one rule of exit codes."""

import json
from pathlib import Path

import pauseframe as pf
import pytest
from conftest import SCENARIO
from pauseframe.terminal.text import nearest
from test_fabrics import cli
from test_sweep import SWEEP, TINY

EXPERIMENTS = Path(__file__).parent.parent / "python/pauseframe/experiments"


@pytest.fixture
def folder(tmp_path):
    """A folder with a scenario, a sweep, and results of the scenario."""
    (tmp_path / "incast.toml").write_text(SCENARIO)
    (tmp_path / "sweep.toml").write_text(TINY + SWEEP)
    pf.run(tmp_path / "incast.toml", out=tmp_path / "out", progress=False)
    return tmp_path


BOTH = {
    "topology": '{ kind = "star", hosts = 2 }',
    "workload": '[{ kind = "permutation", size = "1 KB" }]',
}
MISTAKES = {
    "a file that is not there": ("run incats.toml", "incats.toml: there is no such file; did you mean incast.toml?"),
    "nothing like it": ("run zzz.toml", "zzz.toml: there is no such file"),
    "results for a scenario": (
        "run out",
        "out is a folder, not a scenario file: did you mean out/scenario.resolved.toml",
    ),
    "a sweep to run": ("run sweep.toml", "it is for `pauseframe sweep`"),
    "a sweep to show": ("show sweep.toml", "it is for `pauseframe sweep`"),
    "a preset": ("presets bolt", "did you mean tcp_bolt?"),
    "nearly a preset": ("presets dtcp", "did you mean dctcp"),
    "a stack": ("presets dctcp --stack linus", "did you mean linux"),
    "a key": ("run incast.toml --set transport.prest=dctcp", 'did you mean "preset"?'),
    "a preset in a part": ("run incast.toml --set transport.preset=bolt", 'did you mean "tcp_bolt"?'),
    "a queue as a marker": ("run incast.toml --set switch.marker.kind=codel", 'write switch.queue = "codel"'),
    "a bound of steps": ("run incast.toml --remember 150%", "at most 10 %"),
    "a negative size": ("run incast.toml --set switch.buffer=-5", "-5 has no unit; expected a size such as"),
    "it says so": ("run incast.toml --set switch.buffer=-5", "it cannot be negative"),
    "a seed in words": ("run incast.toml --seed abc", "'abc' must be a whole number from 0 to 2^64 - 1"),
    "half a seed": ("run incast.toml --seed 1.5", "'1.5' must be a whole number from 0 to 2^64 - 1"),
    "a negative seed": ("run incast.toml --seed=-1", "'-1' must be a whole number from 0 to 2^64 - 1"),
    "a gigantic seed": ("run incast.toml --seed=18446744073709551616", "from 0 to 2^64 - 1"),
    "options": ("options xyzzy", "no key has 'xyzzy' in its path, meaning or condition"),
    "nearly options": ("options tranport", "did you mean transport"),
    "a metric": ("compare out --metric p9999", "did you mean fct_us.p999"),
    "an axis": ("compare out --by seed", "--by seed is no axis: runs that are no sweep have none"),
    "a folder that is taken": ("run incast.toml --seed 9 --out out", "--force"),
    "a folder of others": ("run incast.toml --out . --force", "no manifest of pauseframe"),
    "a report of nothing": ("report nothing", "not a results folder"),
    "an experiment": (f"reproduce bolt/fig122 --experiments {EXPERIMENTS}", "did you mean bolt/fig12"),
    "an experiment of the package": ("reproduce bolt/fig122", "did you mean bolt/fig12"),
    "a claim": ("reproduce B-M177", "did you mean"),
    "an export that is there": (
        "topo export fat_tree:k=4 -o incast.toml --format graphml",
        "overwrite it with --force",
    ),
    "a plan for a folder of others": ("route plan ring:switches=5,hosts_per_switch=1 --lanes 2 -o .", "no plan.json"),
    "a stack beneath nothing": ("presets --stack linux", "say beneath which preset"),
    "headroom of nothing": ("headroom --rate 100G", "give --rate and --cable, or a scenario file"),
    "headroom of both": ("headroom incast.toml --rate 100G", "leave the scenario file out"),
    "an axis that is none": ("compare out --by transport.preset", "is no axis"),
    "a shard": ("sweep sweep.toml --shard 3/2", "must be I/N"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_input_is_2_and_says_what_was_meant(mistake, folder):
    command, said = MISTAKES[mistake]
    before = sorted(folder.rglob("*"))
    done = cli(*command.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Errno" not in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(folder.rglob("*")) == before


FILES = {
    'workload = [{ kind = "flows", flows = "a.csv" }]': ['write file = "a.csv" instead'],
    'workload = [{ kind = "flows", flows = ["a.csv"] }]': ['write file = "a.csv" instead'],
    'workload = [{ kind = "training", collectives = "steps.txt" }]': [],
    'topology = "a.json"': ['write [topology] with kind = "file" and path = "a.json"'],
    'topology = { path = "a.json" }': ["path is there: it goes with kind = file"],
    'topology = { file = "a.json" }': ["did you mean path? it goes with kind = file"],
    "topology = { spines = 2 }": ["spines is there: it goes with kind = leaf_spine"],
}


@pytest.mark.parametrize("line", FILES)
def test_a_file_in_place_of_a_table_is_said(line):
    text = "".join(f"{key} = {value}\n" for key, value in BOTH.items() if not line.startswith(key))
    with pytest.raises(pf.ScenarioError) as caught:
        pf.run(f"{text}{line}\n", progress=False)
    said = str(caught.value)
    assert all(hint in said for hint in FILES[line]), said
    if "a." in line:
        assert said.count("is required") <= 1, said


def test_what_the_system_refuses_is_1(folder):
    (folder / "locked").write_text("")
    done = cli("report", "out", "--out", "locked/report.html", cwd=folder)
    assert done.returncode == 1
    assert "locked" in done.stderr
    assert "Errno" not in done.stderr


def test_sweeps_are_validated(folder):
    done = cli("validate", "sweep.toml", "incast.toml", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "sweep.toml: ok, a sweep of 12 runs\nincast.toml: ok\n")
    (folder / "wrong.toml").write_text(TINY + '[sweep]\ntransport.preset = ["dctcp", "bolt"]\n')
    wrong = cli("validate", "wrong.toml", cwd=folder)
    assert wrong.returncode == 2
    assert "bolt" in wrong.stderr


def test_arguments_in_python(folder):
    file = folder / "incast.toml"
    for seed in (-1, 2**64, 1.5, True, "7"):
        with pytest.raises(pf.ScenarioError, match=r"seed = .*must be a whole number from 0 to 2\^64 - 1"):
            pf.run(file, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"keys and their values are needed"):
        pf.run(file, set="transport.preset=dctcp")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"3 is no scenario: give a Scenario, the path of a scenario file, or the text"):
        pf.run(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"is no scenario: give") as long:
        pf.run({"workload": [{"kind": "flows", "flows": [{"src": "host0"}] * 1000}]})  # type: ignore[arg-type]
    assert len(str(long.value)) < 300
    with pytest.raises(TypeError, match=r"3 is no scenario: give a Scenario, the path"):
        pf.sweep(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'set: 3 is no key: it must be a text such as "switch.pfc.xoff"'):
        pf.run(file, set={3: 4})  # type: ignore[dict-item]
    with pytest.raises(FileNotFoundError, match=r"did you mean .*incast\.toml"):
        pf.run(folder / "incats.toml")
    with pytest.raises(pf.ScenarioError, match="pauseframe sweep"):
        pf.run(folder / "sweep.toml")
    with pytest.raises(pf.InputError, match="--force"):
        pf.run(file, seed=9, out=folder / "out")
    assert issubclass(pf.InputError, pf.RunError)


def test_names_that_are_meant():
    known = ["fct_us.p50", "fct_us.p99", "drops", "tcp_bolt"]
    assert nearest("p99", known) == ["fct_us.p99"]
    assert nearest("tcp-bolt", known) == ["tcp_bolt"]
    assert nearest("p99", [*known, *known]) == ["fct_us.p99"], "each name once"
    assert nearest("xyzzy", known) == nearest("", known) == []


@pytest.fixture(scope="module")
def deadlock(tmp_path_factory):
    """The scenario of docs/models/deadlock.md."""
    from test_lossless import example

    path = tmp_path_factory.mktemp("deadlock") / "circle.toml"
    path.write_text(example("deadlock"))
    return path


@pytest.mark.parametrize("options", [[], ["--json"], ["--quiet"]])
def test_a_deadlock_is_said_and_has_an_exit_code(deadlock, options, tmp_path):
    done = cli("run", deadlock, "--out", tmp_path / "out", *options)
    assert done.returncode == 3
    assert "DEADLOCK: 1 cycle of queues that wait for each other; the run ended there" in done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["status"], manifest["summary"]["status"]) == ("deadlock", "deadlock")
    run = pf.load(tmp_path / "out")
    assert (run.deadlocked, run.interrupted, run.status) == (True, False, "deadlock")
    assert cli("report", tmp_path / "out").returncode == 0
    assert "ended in a deadlock after" in (tmp_path / "out" / "report.html").read_text()
    assert cli("compare", tmp_path / "out").returncode == 0


def test_a_deadlock_that_does_not_end_the_run(deadlock, tmp_path):
    settings = ["--set", "stop.on_deadlock=false", "--set", "stop.time=20 ms"]
    done = cli("run", deadlock, "--out", tmp_path / "out", *settings)
    assert "the run went on after it" in done.stderr, done.stderr
    assert done.returncode == 3
    assert pf.load(tmp_path / "out").deadlocked
    assert pf.load(tmp_path / "out").status == "complete"


def test_a_deadlock_that_the_watchdog_broke(deadlock, tmp_path):
    """The deadlock forms again and again in this cycle, so nothing finishes; it is over only where all flows finish."""
    settings = {f"switch.pfc.watchdog.{key}": "5 ms" for key in ("detection", "restoration")} | {"stop": "100 ms"}
    run = pf.run(deadlock, set=settings, progress=False)
    assert run.summary["deadlocks"] > 0
    assert run.summary["watchdog_storms"] > 0
    assert run.deadlocked
    run.summary["flows_finished"] = run.summary["flows_total"]
    assert not run.deadlocked


def test_sweeps_keep_runs_with_a_deadlock(deadlock, tmp_path):
    sweep = pf.sweep(deadlock, seeds=2, out=tmp_path / "out", progress=False)
    assert len(sweep.finished) == 2
    assert sweep.failures == []
    assert sweep.run(1).deadlocked
    assert len(sweep.deadlocked) == 2
    done = cli("sweep", deadlock, "--seeds", 2, "--out", tmp_path / "out", "--resume")
    assert (done.returncode, "DEADLOCK: 2 of 2 runs have one" in done.stderr) == (0, True)


def test_no_deadlock(folder):
    assert not pf.load(folder / "out").deadlocked


def test_results_that_change_under_a_report(folder, monkeypatch):
    from pauseframe.report import Group, build_report, from_folder

    run = from_folder(folder / "out")
    pf.run(folder / "incast.toml", seed=2, out=folder / "out", force=True, progress=False)
    with pytest.raises(pf.RunError, match="was overwritten while the report was being built"):
        build_report([Group("", [run])], folder / "report.html")
    assert not (folder / "report.html").exists()
