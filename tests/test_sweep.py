"""Sweeps on this machine: planning, storage, and recovery from kills, full disks and failures."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from glob import glob
from pathlib import Path

import duckdb
import pandas as pd
import pauseframe as pf
import polars as pl
import pytest
from pauseframe.files.atomic import is_disk_full
from pauseframe.sweep import local
from pauseframe.sweep import results as sweep_results
from pauseframe.sweep import store as storing
from pauseframe.sweep.batch import BATCHES, RUN, Batches, batch_files
from pauseframe.sweep.local import fits
from pauseframe.sweep.plan import Source
from pauseframe.sweep.run import carry_out
from pauseframe.sweep.spec import Spec, label, split_file, split_values
from pauseframe.sweep.store import Store, is_whole
from pauseframe.sweep.task import Target
from test_fabrics import cli
from test_lazy import HEAVY, modules_after

TINY = """
name = "tiny"
workload = [{ kind = "n_to_1", size = "10 KB" }]
[topology]
kind = "star"
hosts = 3
link = { rate = "10 Gbps", delay = "1 us" }
"""
LONGER = TINY.replace("10 KB", "3 MB")
SWEEP = """
[sweep]
transport.preset = ["dctcp", "tcp_bolt"]
"workload.size" = { from = "10 KB", to = "30 KB", steps = 3 }
seeds = 2
"""
SHARED = {"policy": "shared", "size": "9 MB"}
AXES: dict[str, list[object]] = {"transport.preset": ["dctcp", "newreno"], "switch.pfc": [True, False]}


@pytest.fixture
def sweep_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY + SWEEP)
    return path


def finished_sweep(folder, **options):
    axes: dict[str, list[object]] = {
        "transport.rto_min": ["2 ms", "5 ms"],
        "transport.dup_thresh": [3, 4],
        "switch.pfc": [True, False],
    }
    zipped = [["transport.rto_min", "transport.dup_thresh"]]
    return pf.sweep(TINY, axes=axes, seeds=2, zip=zipped, out=folder / "sweep", **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished sweep with a numeric, a text and a Boolean axis."""
    return finished_sweep(tmp_path_factory.mktemp("done"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The same sweep with a results folder for each run."""
    return finished_sweep(tmp_path_factory.mktemp("kept"), keep_runs=True)


# --- axes -------------------------------------------------------------------------------------------------------


def test_ranges():
    def values(**table):
        spec = Spec()
        spec.add_axis("x", table)
        return spec.axes["x"] if not spec.problems else spec.problems[0]["message"]

    assert values(**{"from": 0.1, "to": 0.9, "steps": 9}) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert values(**{"from": 2, "to": 8, "steps": 3}) == [2, 5, 8]
    assert values(**{"from": 1.0, "to": 2.0, "steps": 2}) == [1.0, 2.0]
    assert values(**{"from": "10 KB", "to": "1000 KB", "steps": 3, "scale": "log"}) == ["10 KB", "100 KB", "1000 KB"]
    assert "unit" in values(**{"from": "10 KB", "to": "1 MB", "steps": 3})
    assert "steps" in values(**{"from": 0, "to": 1, "steps": 1})
    assert "log" in values(**{"from": 0, "to": 1, "steps": 3, "scale": "log"})


def test_crossed_zipped_and_excluded():
    spec = Spec(seeds=[1], zip=[["a", "c"]], exclude=[{"a": 1, "b": ["x"]}])
    for path, values in {"a": [1, 2], "b": ["x", "y"], "c": ["one", "two"]}.items():
        spec.add_axis(path, values)
    spec.check()
    assert spec.problems == []
    rows = [tuple(row.values()) for row in spec.combinations()]
    assert rows == [(1, "y", "one"), (2, "x", "two"), (2, "y", "two")]


def test_values_of_the_command_line():
    assert split_values("dctcp,tcp_bolt") == ["dctcp", "tcp_bolt"]
    assert split_values("'a,b', 10 KB,1,0.5,true") == ["a,b", "10 KB", 1, 0.5, True]
    assert split_values('["2 KB", "4 KB"],["8 KB"]') == [["2 KB", "4 KB"], ["8 KB"]]
    assert split_values("{from = 1, to = 3, steps = 3}") == [{"from": 1, "to": 3, "steps": 3}]


@pytest.mark.parametrize(
    "table",
    [
        "[sweep]\nseeds = 3\n",
        'sweep = { "a.b" = [1, 2] }\n',
        "sweep.seeds = 3\n",
        "[sweep.a]\nb = [\n[1],\n[2],\n]\n",
        "[ 'sweep' ]\nseeds = 1\n[[sweep.exclude]]\na = 1\n",
    ],
)
def test_the_sweep_is_taken_off(table):
    rest = "[topology]\nkind = 'star'\n"
    text = table + rest if table.startswith("sweep") else rest + table + "[routing]\nkind = 'ecmp'\n"
    without, sweep = split_file(text, "x.toml")
    whole = tomllib.loads(text)
    assert sweep == whole.pop("sweep")
    assert tomllib.loads(without) == whole
    if "[routing]" in text:  # The files are compared line by line.
        assert without.splitlines().index("[routing]") == text.splitlines().index("[routing]")


def test_all_mistakes_before_anything_runs(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(TINY.replace("hosts", "hots") + SWEEP)
    settings = ["--set", "transport.preset=dctcp,bolt,new", "--set", "workload.size=10 KB,10,20"]
    done = cli("sweep", file, *settings, "--out", tmp_path / "out")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == len(set(lines))
    for wanted in (
        r'transport.preset = "bolt"',
        r'transport.preset = "new"',
        "size = 10:",
        "size = 20:",
        "topology.hots",
    ):
        assert sum(wanted in line for line in lines) == 1, wanted
    assert any(line.startswith(f"{file}:6") for line in lines)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["1979-05-27", "07:32:00", "1979-05-27T07:32:00Z"])
def test_dates_are_mistakes_of_the_scenario(tmp_path, value):
    with pytest.raises(pf.ScenarioError, match="is a date; expected a time"):
        pf.sweep(TINY, axes={"stop": tomllib.loads(f"values = [{value}, '1 ms']")["values"]}, out=tmp_path / "out")
    with pytest.raises(pf.ScenarioError, match="is a date; expected a time"):
        pf.run(TINY, set={"stop": tomllib.loads(f"value = {value}")["value"]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["topology.link={rate='1 Gbps'},{rate='2 Gbps'}", "topology.link.rate=3 Gbps,4 Gbps"],
         "sweep.topology.link.rate: is the same key as the axis topology.link, or a part of it"),
        (["stop.time=1 ms,2 ms", "stop=3 ms,4 ms"], "sweep.stop: is the same key as the axis stop.time"),
        (["topology.hosts=3,4", "topology.hosts=5,6"], "varies topology.hosts a second time"),
        (["workload.size=1 KB,2 KB", "workload.0.size=3 KB,4 KB"],
         "sweep.workload.0.size: is the same key as the axis workload.size"),
        (["workload.size=1 KB,2 KB", "workload.0.size=3 KB"], "replaces workload.0.size, which is set for all runs"),
        (["stop=1 ms,2 ms", "stop.time=3 ms"], "replaces stop.time, which is set for all runs"),
    ],
)  # fmt: skip
def test_two_axes_of_one_key_are_refused(tmp_path, settings, message):
    (tmp_path / "tiny.toml").write_text(TINY)
    options = [word for setting in settings for word in ("--set", setting)]
    done = cli("sweep", "tiny.toml", *options, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_problem_of_some_combinations_says_of_which(tmp_path):
    axes = {"switch.pfc.xoff": ["20 KB", "96 KB"], "switch.pfc.xon": ["10 KB", "64 KB"]}
    with pytest.raises(pf.ScenarioError) as caught:
        pf.sweep(TINY, axes=axes, out=tmp_path / "out")
    (problem,) = caught.value.problems
    assert "20 KB" in str(problem)
    assert "64 KB" in str(problem)


@pytest.mark.parametrize(
    ("rules", "mentioned"),
    [
        ({"axes": {"a.b": []}}, "no value"),
        ({"axes": {"a.b": [1, 1]}}, "twice"),
        ({"axes": {"a.b": 3}}, "list of values"),
        ({"axes": {"seed": [1, 2]}}, "seeds"),
        ({"axes": {"axes.host.mtu": ["9 KB"]}}, 'write "host.mtu" = [...] there'),
        ({"axes": {"transport": [{"preset": "dctcp"}]}}, "transport.preset"),
        ({"axes": AXES, "zip": [["transport.preset", "nothing"]]}, "nothing"),
        ({"axes": AXES, "zip": [["transport.preset"]]}, "is alone: name two axes or more"),
        ({"axes": AXES | {"host.mtu": ["9 KB"]}, "zip": [["transport.preset", "host.mtu"]]}, "equally many"),
        ({"axes": AXES, "exclude": [{"transport.preset": "bolt"}]}, "no axis has this value"),
        ({"axes": AXES, "exclude": [{"transport.preset": ["dctcp", "newreno"]}]}, "nothing to run"),
        ({"axes": AXES, "seeds": 0}, "number of seeds"),
        ({"axes": AXES, "seeds": [1, 1]}, "different"),
        ({"axes": AXES, "set": {"switch.pfc": True}}, "an axis"),
    ],
)
def test_wrong_sweeps(rules, mentioned, tmp_path):
    with pytest.raises(pf.ScenarioError) as caught:
        pf.sweep(TINY, out=tmp_path / "out", **rules)
    assert any(mentioned in " ".join(map(str, problem.values())) for problem in caught.value.problems)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("axes", "named"),
    [
        ({"stop.time": ["1 ms", "0.001 s", "1000 us", "2 ms"]}, [("0.001 s", "1 ms"), ("1000 us", "1 ms")]),
        ({"workload.size": ["64 KB", "64000 B"], "transport.preset": ["dctcp", "cubic"]}, [("64000 B", "64 KB")]),
        ({"topology.link.rate": ["10 Gbps", "40 Gbps", "10000 Mbps"]}, [("10000 Mbps", "10 Gbps")]),
        ({"switch.buffer": [SHARED, SHARED | {"size": "9000 KB"}]}, [("9000 KB", "9 MB")]),
        ({"switch.buffer": [SHARED, SHARED | {"alpha": 1.0}]}, [("1.0", "9 MB")]),  # the default
        ({"switch.buffer": [SHARED | {"alpha": 2}, SHARED | {"alpha": 2.0}]}, [("2.0", "2")]),
    ],
)
def test_equal_values_of_an_axis_are_refused(axes, named, tmp_path):
    """They would be two variants with the same results."""
    with pytest.raises(pf.ScenarioError) as caught:
        pf.sweep(TINY, axes=axes, out=tmp_path / "out")
    problems = [problem for problem in caught.value.problems if "same scenario" in problem["message"]]
    assert len(problems) == len(named)
    for problem, (value, earlier) in zip(problems, named, strict=True):
        assert value in problem["value"]
        assert earlier in problem["message"]
    assert not (tmp_path / "out").exists()


def test_equal_values_of_zipped_axes(tmp_path):
    """An axis that varies with another one may repeat a value."""
    axes = {"switch.latency": ["1 us", "0.000001 s"], "transport.preset": ["dctcp", "cubic"]}
    source = Source.read(TINY)
    source.vary(axes, zip=[list(axes)])
    assert len(source.plan().runs) == 2
    axes = {"switch.latency": ["1 us", "0.000001 s"], "stop.time": ["1 ms", "1000 us"]}
    source = Source.read(TINY)
    source.vary(axes, zip=[list(axes)])
    with pytest.raises(
        pf.ScenarioError, match=r"0\.000001 s, 1000 us: gives the same scenario as 1 us, 1 ms: remove one"
    ):
        source.plan()


def test_seeds_begin_at_that_of_the_scenario():
    source = Source.read("seed = 7\n" + TINY)
    source.vary(None, seeds=3)
    assert source.plan().seeds == [7, 8, 9]


# --- results ----------------------------------------------------------------------------------------------------


def test_file_and_command_line(sweep_file, tmp_path):
    done = cli("sweep", sweep_file, "--json", "--set", "transport.dup_thresh=4", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"out": "results/tiny-sweep", "planned": 12, "finished": 12, "failures": []}
    sweep = pf.load_sweep(tmp_path / "results" / "tiny-sweep")
    assert sweep.axes == {"transport.preset": ["dctcp", "tcp_bolt"], "workload.size": ["10 KB", "20 KB", "30 KB"]}
    run = sweep.run(2, **{"transport.preset": "tcp_bolt", "workload.size": "20 KB"})
    assert (run.summary["seed"], run.status) == (2, "complete")
    assert "dup_thresh = 4" in run.scenario_toml


def test_the_same_bytes_as_a_single_run(kept, tmp_path):
    single = tmp_path / "single"
    settings = {"transport.rto_min": "5 ms", "transport.dup_thresh": 4, "switch.pfc": True}
    pf.run(TINY, set=settings, seed=2, out=single)
    (row,) = [row for row in kept.planned if row["seed"] == 2 and row["axes"] == settings]
    folder = kept.folder / row["path"]
    names = {path.name for path in single.iterdir()} - {"manifest.json"}
    assert names >= {"flows.parquet", "scenario.resolved.toml"}
    for name in names:
        assert (folder / name).read_bytes() == (single / name).read_bytes(), name
    assert pf.load(folder).summary["fingerprint"] == pf.load(single).summary["fingerprint"]


@pytest.mark.parametrize("form", ["done", "kept"])
def test_tables_have_the_axes(form, request):
    done = request.getfixturevalue(form)
    flows = done.flows.collect()
    assert flows.height == 8 * 2
    kinds = {name: flows.schema[name] for name in ("transport.rto_min", "transport.dup_thresh", "switch.pfc", "seed")}
    assert list(kinds.values()) == [pl.String(), pl.Int64(), pl.Boolean(), pl.Int64()]
    counts = flows.group_by("transport.rto_min", "transport.dup_thresh", "switch.pfc").len()
    expected = {(rto, dup, pfc, 4) for rto, dup in (("2 ms", 3), ("5 ms", 4)) for pfc in (True, False)}
    assert set(counts.iter_rows()) == expected
    summaries = done.summaries
    assert summaries.height == 8
    assert summaries["flows_finished"].sum() == 16
    assert {"transport.rto_min", "seed", "fct_us.p99", "fingerprint"} <= set(summaries.columns)
    assert "8 of 8 runs finished" in done._repr_html_()
    assert "transport.rto_min" in done._repr_html_(), "an axis is a column"
    assert done.ports.filter(pl.col("switch.pfc")).collect().height > 0


def test_a_run_of_a_batch_is_the_run(done, kept, tmp_path):
    """Summary, scenario and all tables, even empty ones, equal those of a separate run."""
    settings = {"transport.rto_min": "5 ms", "transport.dup_thresh": 4, "switch.pfc": True}
    alone = pf.run(TINY, set=settings, seed=2, threads=1)
    run = done.run(2, **settings)
    assert run.scenario_toml == alone.scenario_toml
    assert (run.status, run.folder) == ("complete", None)
    of_the_machine = {"wall_s", "packet_hops_per_s", "peak_rss_bytes"}
    for name in run.summary.keys() - of_the_machine:
        assert run.summary[name] == alone.summary[name], name  # type: ignore[literal-required]
    for name in ("flows", "queries", "ports", "series", "throughput", "pause_tree", "states", "jobs", "ranks"):
        assert getattr(run, name).to_polars().equals(getattr(alone, name).to_polars()), name
        assert getattr(run, name).column_names == getattr(alone, name).column_names, name
    assert run.report(tmp_path / "run.html").stat().st_size > 100_000


def test_both_forms_have_the_same_tables(done, kept):
    axes = list(done.axes)
    for name in ("flows", "ports", "throughput", "queries", "pause_tree"):
        one, other = (sweep.table(name).collect() for sweep in (done, kept))
        assert one.equals(other), name
        assert one.columns[-len(axes) - 1 :] == [*axes, "seed"]
    same = [name for name in done.summaries.columns if name not in ("wall_s", "packet_hops_per_s", "peak_rss_bytes")]
    assert done.summaries.select(same).equals(kept.summaries.select(same))


@pytest.mark.parametrize("parent", ["a[1]", "a*", "a?", "rate=10", "seed=7"])
def test_a_folder_with_wildcards_or_an_equals_sign_is_that_folder(parent, kept, tmp_path):
    """polars takes [, * and ? in paths for patterns, and x=1 for a column."""
    shutil.copytree(kept.folder, tmp_path / "a1" / "out")
    shutil.copytree(kept.folder, tmp_path / parent / "out")
    if parent.startswith("a"):
        for file in (tmp_path / "a1").rglob("flows.parquet"):
            file.unlink()
    assert pf.load_sweep(tmp_path / parent / "out").flows.collect().equals(kept.flows.collect())


def test_values_longer_than_a_file_name_are_whole(tmp_path):
    """Names of folders hold them shortened."""
    values = [[f"host{number}" for number in range(80)], ["host0"]]
    sweep = pf.sweep(TINY, axes={"record.series.ports": values}, out=tmp_path / "out", keep_runs=True)
    found = sweep.flows.collect()["record.series.ports"].unique()
    assert set(found) == set(sweep.summaries["record.series.ports"]) == {label(value) for value in values}


def test_tables_are_read_in_parts(done, monkeypatch):
    """Projections, predicates and limits reach the Parquet reader, whatever fits in memory at a time."""
    whole = done.flows.collect()
    monkeypatch.setattr(sweep_results, "PART_BYTES", 1)
    assert done.flows.collect().equals(whole)
    assert done.flows.head(3).collect().equals(whole.head(3))
    wanted = pl.col("switch.pfc") & (pl.col("seed") == 2)
    assert done.flows.filter(wanted).select("src").collect().equals(whole.filter(wanted).select("src"))


def test_a_finished_sweep_has_its_tables_as_files(done):
    flows = pl.read_parquet(done.folder / "flows.parquet")
    assert flows.select("src", "fct_us", "seed").equals(done.flows.select("src", "fct_us", "seed").collect())
    runs = pl.read_parquet(done.folder / "runs.parquet")
    assert runs.equals(done.summaries)
    assert not (done.folder / "jobs.parquet").exists(), "no run has one"
    query = f"""select "transport.rto_min", count(*) from '{done.folder}/flows.parquet' group by all order by all"""
    assert duckdb.execute(query).fetchall() == [("2 ms", 8), ("5 ms", 8)]
    assert pd.read_parquet(done.folder / "flows.parquet")["switch.pfc"].sum() == 8
    assert {path.name for path in done.folder.iterdir() if path.is_dir()} == {BATCHES}


def test_a_sweep_of_folders_goes_on_as_batches(tmp_path):
    kept = pf.sweep(TINY, seeds=2, out=tmp_path / "out", keep_runs=True)
    stamp = (kept.folder / "seed=1" / "manifest.json").stat().st_mtime_ns
    both = pf.sweep(TINY, seeds=4, out=tmp_path / "out")
    assert (kept.folder / "seed=1" / "manifest.json").stat().st_mtime_ns == stamp
    assert (len(both.finished), len(both.batches.runs)) == (4, 2)
    assert both.flows.collect().height == 8
    assert both.summaries["seed"].to_list() == [1, 2, 3, 4]
    assert both.run(1).folder is not None
    assert not (both.folder / "flows.parquet").exists(), "it would lack half of the runs"


def test_runs_that_record_packets_keep_their_folders(tmp_path):
    sweep = pf.sweep(TINY, set={"record.packets.ports": ["host*"]}, out=tmp_path / "out")
    assert (sweep.folder / "seed=1" / "packets.pcapng").stat().st_size > 0


def test_other_programs_read_it_in_one_line(kept):
    pattern = f"{kept.folder}/*/*/*/*/flows.parquet"
    assert pl.scan_parquet(pattern, hive_partitioning=True).select("switch.pfc", "seed").collect().height == 16
    query = f"""select "transport.rto_min", count(*) from '{pattern}' group by all order by all"""
    assert duckdb.execute(query).fetchall() == [("2 ms", 8), ("5 ms", 8)]
    frame = pd.read_parquet(glob(pattern))  # noqa: PTH207 (as a user would write it)
    assert frame.groupby("transport.rto_min", observed=True).size().to_dict() == {"2 ms": 8, "5 ms": 8}


def test_what_was_computed_once_is_not_computed_again(tmp_path, monkeypatch):
    first = pf.sweep(TINY, axes={"transport.preset": ["dctcp", "newreno"]}, seeds=2, out=tmp_path / "first")
    monkeypatch.setattr(local, "run_local", lambda *_: pytest.fail("computes"))
    again = pf.sweep(TINY, axes={"transport.preset": ["newreno"]}, seeds=2, out=tmp_path / "second")
    assert len(again.finished) == 2
    (one,), (other,) = (batch_files(sweep.folder / BATCHES) for sweep in (first, again))
    assert one.samefile(other)
    assert again.flows.collect().height == 4, "the batch has runs of the other sweep as well"
    shutil.rmtree(tmp_path / ".pauseframe-store")
    assert len(pf.load_sweep(first.folder).finished) == 4  # Both sweeps keep their own result files.


def test_what_was_computed_as_folders_once_is_not_computed_again(tmp_path, monkeypatch):
    axes = {"transport.preset": ["dctcp", "newreno"]}
    first = pf.sweep(TINY, axes=axes, seeds=2, out=tmp_path / "first", keep_runs=True)
    monkeypatch.setattr(local, "run_local", lambda *_: pytest.fail("computes"))
    axes = {"transport.preset": ["newreno"]}
    again = pf.sweep(TINY, axes=axes, seeds=2, out=tmp_path / "second", keep_runs=True)
    assert len(again.finished) == 2
    name = "transport.preset=newreno/seed=1/flows.parquet"
    assert (again.folder / name).samefile(first.folder / name)
    shutil.rmtree(tmp_path / ".pauseframe-store")
    assert len(pf.load_sweep(first.folder).finished) == 4  # Both sweeps keep their own result files.


def test_another_seed_scenario_or_version_is_another_run(monkeypatch):
    def keys(text=TINY, seeds=1):
        source = Source.read(text)
        source.vary(None, seeds=seeds)
        return {run.key for run in source.plan().runs}

    assert keys() == keys(TINY.replace('kind = "star"', 'kind = "star"  # the same'))
    different = [keys(), keys(TINY.replace("10 KB", "11 KB")), keys(seeds=[2])]
    monkeypatch.setattr("pauseframe._core.__version__", "99.0")
    different.append(keys())
    assert len(set().union(*different)) == 4


def test_a_folder_is_not_taken_without_being_asked(sweep_file, tmp_path):
    out = tmp_path / "out"
    pf.sweep(TINY, seeds=1, out=out)
    with pytest.raises(pf.RunError, match="resume=True"):
        pf.sweep(TINY, seeds=1, out=out, resume=False)
    assert len(pf.sweep(TINY, seeds=2, out=out).finished) == 2
    with pytest.raises(pf.RunError, match="another sweep"):
        pf.sweep(TINY, seeds=2, set={"transport.dup_thresh": 5}, out=out)
    with pytest.raises(pf.RunError, match="another sweep"):
        pf.sweep(TINY, seeds=1, out=out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(pf.RunError, match="not a sweep"):
        pf.sweep(TINY, out=tmp_path / "mine")
    assert cli("sweep", sweep_file, "--out", out).returncode == 2


def test_shards_make_one_sweep(sweep_file, tmp_path):
    assert cli("sweep", sweep_file, "--shard", "2/3", "--out", tmp_path / "out").returncode == 0
    for index in (1, 3):
        sweep = pf.sweep(sweep_file, shard=(index, 3), out=tmp_path / "out")
        assert len(sweep.finished) == (8 if index == 1 else 12)
    assert len(sweep.finished) == len(sweep.planned) == 12
    assert cli("sweep", sweep_file, "--shard", "4/3", "--out", tmp_path / "out").returncode == 2


# --- failures ---------------------------------------------------------------------------------------------------


def broken_plan():
    """Four runs, one of them with a scenario that the core refuses at run time."""
    source = Source.read(TINY)
    source.vary({"transport.preset": ["dctcp", "newreno"]}, seeds=2)
    plan = source.plan()
    wrong = plan.runs[1]
    object.__setattr__(wrong, "toml", wrong.toml.replace('kind = "star"', 'kind = "sta"'))
    return plan


def test_a_failed_run_is_recorded_and_stops_no_other(tmp_path, capsys):
    sweep = carry_out(broken_plan(), out=tmp_path / "out", progress=True)
    assert (len(sweep.finished), len(sweep.failures)) == (3, 1)
    (failure,) = sweep.failures
    assert "star" in failure["message"]
    assert (failure["axes"], failure["seed"]) == ({"transport.preset": "newreno"}, 1)
    assert failure["command"] in capsys.readouterr().err
    assert sweep.flows.collect().height == 6
    scenario = failure["command"].removeprefix("pauseframe run ")
    again = cli("run", scenario, "--out", tmp_path / "again")
    assert again.returncode == 2
    assert "star" in again.stderr
    good = carry_out(plan_again(sweep), out=tmp_path / "out")
    assert (len(good.finished), good.failures) == (4, [])
    assert not (tmp_path / "out" / failure["path"]).exists(), "it is in a batch now"


def plan_again(sweep):
    source = Source.read(TINY)
    source.vary(sweep.axes, seeds=sweep.seeds)
    return source.plan()


def test_a_run_that_kills_its_workers_fails_alone(tmp_path, monkeypatch):
    plan = plan_again(pf.sweep(TINY, axes={"transport.preset": ["dctcp", "newreno"]}, seeds=2, out=tmp_path / "a"))
    killer = plan.runs[2]
    begin = local._Worker.begin

    def begin_and_kill(worker, runs, target):
        begun = begin(worker, runs, target)
        if killer in runs:
            os.kill(worker.process.pid, signal.SIGKILL)
        return begun

    monkeypatch.setattr(local._Worker, "begin", begin_and_kill)
    outcomes = list(local.run_local(plan.runs, Target(batches=tmp_path / "batches"), 2))
    assert sorted(outcome.run.path for outcome in outcomes) == sorted(run.path for run in plan.runs)
    failed = [outcome for outcome in outcomes if outcome.error]
    # The worker may have finished the run before the signal arrived.
    assert len(failed) <= 1
    assert all("SIGKILL" in str(outcome.error) and outcome.run is killer for outcome in failed)


def test_a_full_disk_is_not_a_failed_run():
    assert is_disk_full(OSError(28, "No space left on device"))
    assert is_disk_full("RunError: x/flows.parquet: No space left on device (os error 28)")
    assert not is_disk_full("RunError: os error 2")


def flip_a_byte(path):
    """Changes a byte without changing length or time stamp, so that only the contents reveal the change."""
    times = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:  # The write is in place, because the store has the same file under another name.
        file.write(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def edit_manifest(path, change):
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest, indent=2) + "\n")


DAMAGES = {
    "a byte of a table": lambda folder: flip_a_byte(folder / "flows.parquet"),
    "a byte of the scenario": lambda folder: flip_a_byte(folder / "scenario.resolved.toml"),
    "a number in the summary": lambda folder: edit_manifest(
        folder / "manifest.json", lambda manifest: manifest["summary"].update(drops=99)
    ),
    "no files": lambda folder: edit_manifest(folder / "manifest.json", lambda manifest: manifest.update(files=[])),
    "files that are none": lambda folder: edit_manifest(
        folder / "manifest.json", lambda manifest: manifest.update(files={"flows.parquet": 3})
    ),
    "no summary": lambda folder: edit_manifest(folder / "manifest.json", lambda manifest: manifest.pop("summary")),
    "no manifest at all": lambda folder: (folder / "manifest.json").write_text("[]"),
    "a table that is gone": lambda folder: (folder / "ports.parquet").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_damaged_is_computed_again_and_said(damage, tmp_path):
    first = pf.sweep(TINY, seeds=2, out=tmp_path / "out", keep_runs=True)
    folder, other = (first.folder / row["path"] for row in first.planned)
    key = first.planned[0]["key"]
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    untouched = (other / "manifest.json").stat().st_mtime_ns
    DAMAGES[damage](folder)
    assert storing.flaw(folder, key) is not None
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    again = cli("sweep", file, "--seeds", 2, "--out", tmp_path / "out", "--resume", "--keep-runs")
    assert again.returncode == 0
    assert f"{folder}: " in again.stderr
    assert "it is replaced" in again.stderr
    assert str(other) not in again.stderr
    assert storing.flaw(folder, key) is None
    assert Store(tmp_path / ".pauseframe-store").has(key)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"} == before
    assert (other / "manifest.json").stat().st_mtime_ns == untouched  # Valid runs are not computed again.
    quiet = cli("sweep", file, "--seeds", 2, "--out", tmp_path / "out", "--resume", "--quiet", "--keep-runs")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def flip(path, place):
    """Changes one byte of a file without any other trace."""
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("place", ["begin", "key", "digest", "heading", "middle", "end"])
def test_a_damaged_batch_costs_what_was_damaged(place, tmp_path, capsys):
    first = pf.sweep(TINY, seeds=5, out=tmp_path / "out")
    before, flows = first.batches.runs, first.flows.collect()
    (path,) = batch_files(first.folder / BATCHES)
    entry = before[first.planned[2]["key"]]
    places = {"begin": 0, "key": 10, "digest": 30, "heading": 60, "middle": (entry.end - entry.begin) // 2}
    flip(path, entry.end - 1 if place == "end" else entry.begin + places[place])
    capsys.readouterr()
    again = pf.sweep(TINY, seeds=5, out=tmp_path / "out")
    assert len(again.finished) == 5
    assert again.flows.collect().equals(flows)
    said = capsys.readouterr().err
    assert ("is not what was written; it is replaced" in said) == (place not in ("begin", "key"))
    assert again.batches.flaw(first.planned[2]["key"]) is None
    fresh = pf.sweep(TINY, seeds=5, out=tmp_path / "another")  # Repairing the sweep also repaired the shared store.
    assert len(fresh.finished) == 5
    assert fresh.flows.collect().equals(flows)
    capsys.readouterr()
    pf.sweep(TINY, seeds=5, out=tmp_path / "out")
    assert capsys.readouterr().err == ""


def test_every_cut_of_a_batch_leaves_whole_runs(tmp_path):
    """A truncated batch, as a kill or a full disk leaves it, has complete runs up to the cut, and none after it."""
    sweep = pf.sweep(TINY, seeds=3, out=tmp_path / "out")
    (path,) = batch_files(sweep.folder / BATCHES)
    content = path.read_bytes()
    ends = sorted(entry.end for entry in sweep.batches.runs.values())
    cut = tmp_path / "cut" / path.name
    cut.parent.mkdir()
    for length in {0, 1, *(end + more for end in ends for more in (-1, 0, 1)), *range(0, len(content), 997)}:
        cut.write_bytes(content[:length])
        batches = Batches(cut.parent)
        assert len(batches.runs) == sum(end <= length for end in ends)
        assert all(batches.flaw(key) is None for key in batches.runs)


def test_damaged_records_are_not_read(tmp_path):
    sweep = pf.sweep(TINY, out=tmp_path / "out")
    (path,) = batch_files(sweep.folder / BATCHES)
    flip(path, path.stat().st_size - 1)
    sweep = pf.load_sweep(sweep.folder)
    with pytest.raises(pf.DamagedResultsError, match=r"is not what was written.*same pauseframe sweep"):
        sweep.flows.collect()
    with pytest.raises(pf.DamagedResultsError, match=r"is not what was written.*same pauseframe sweep"):
        sweep.run(1)


def test_the_command_line_names_damaged_records(tmp_path):
    sweep = pf.sweep(TINY, out=tmp_path / "out")
    (path,) = batch_files(sweep.folder / BATCHES)
    flip(path, path.stat().st_size - 1)
    done = cli("compare", sweep.folder)
    assert done.returncode == 2, done.stderr
    assert "is not what was written: the same pauseframe sweep computes its run again" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_old_report_beside_new_runs_is_said(tmp_path, capsys):
    sweep = pf.sweep(TINY, seeds=1, out=tmp_path / "out", progress=False)
    sweep.report(sweep.folder / "report.html")
    capsys.readouterr()
    pf.sweep(TINY, seeds=1, out=tmp_path / "out", progress=False)
    assert capsys.readouterr().err == ""
    pf.sweep(TINY, seeds=2, out=tmp_path / "out", progress=False)
    assert "report.html is out of date" in capsys.readouterr().err


def test_damaged_tables_are_not_read(tmp_path):
    sweep = pf.sweep(TINY, out=tmp_path / "out", keep_runs=True)
    flip_a_byte(sweep.folder / sweep.planned[0]["path"] / "flows.parquet")
    with pytest.raises(pf.DamagedResultsError, match=r"flows\.parquet is not what was written.*same pauseframe sweep"):
        _ = pf.load_sweep(sweep.folder).flows


def test_damaged_runs_are_not_whole(tmp_path):
    sweep = pf.sweep(TINY, out=tmp_path / "out", keep_runs=True)
    (row,) = sweep.planned
    folder = sweep.folder / row["path"]
    assert is_whole(folder, row["key"])
    assert not is_whole(folder, "0" * 32)
    with (folder / "flows.parquet").open("r+b") as file:  # The state that a power cut may leave, in the store too.
        file.truncate(10)
    assert not is_whole(folder, row["key"])
    assert not Store(tmp_path / ".pauseframe-store").has(row["key"])
    assert pf.sweep(TINY, out=tmp_path / "out", keep_runs=True).flows.collect().height == 2


def test_help_has_examples_and_is_quick():
    for command in ("sweep", "compare"):
        text = cli(command, "--help").stdout
        assert re.search(rf"Example: pauseframe {command} ", text), command
    code = "from pauseframe.cli import main\nsys.argv = ['pauseframe', 'sweep', '--help']\n"
    code += (
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert modules_after(code) & (HEAVY | {"distributed", "dask"}) == set()


def test_idle_workers_may_be_killed(tmp_path):
    (run,) = Source.read(TINY).plan().runs
    pool = local.Pool(Target(batches=tmp_path / "batches"), 1)
    idle = pool._new_worker()
    pool._idle.append(idle)
    idle.process.kill()
    idle.process.wait()
    assert [outcome.error for outcome in pool.outcomes([run])] == [None]
    pool.close()


FORKS = """
import sys
sys.argv = ["pauseframe"]
from threading import Event, Thread
from pauseframe.sweep.fork import Fork, can_fork
print(can_fork())
forks = [Fork(), Fork()]
print(*[fork.stdout.readline() for fork in forks])
forks[0].stdin.close()
print(forks[0].wait())
forks[1].kill()
print(forks[1].wait())
stop = Event()
Thread(target=stop.wait).start()
print(can_fork())
stop.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how many threads there are")
def test_forks_hear_of_their_own_end_only():
    """The second fork must not keep the first fork's pipe open; a process with a second thread must not fork."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60)
    ready = "b'{\"ready\": true}\\n'"
    assert done.stdout.splitlines() == ["True", f"{ready} {ready}", "0", "-9", "False"]


def test_memory_bounds_the_runs_under_way():
    gb = 1 << 30
    assert fits(2 * gb, [2 * gb], 0, 3 * gb)
    assert not fits(2 * gb, [2 * gb], 0, 2 * gb)
    assert not fits(2 * gb, [1 * gb, 1 * gb], 0, 4 * gb)  # Memory of running runs will still grow.
    assert fits(2 * gb, [2 * gb], 2 * gb, 0)  # The idle worker already holds the memory of the next run.
    assert not fits(0, [4 * gb], 0, 3 * gb)  # No run has ended yet, so the largest running one counts.


def test_one_at_a_time_where_memory_is_short(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "available_bytes", lambda: 1)
    most = 0
    start = local.Pool._start

    def counting(pool, waiting, count):
        nonlocal most
        start(pool, waiting, count)
        most = max(most, len(pool._busy))

    monkeypatch.setattr(local.Pool, "_start", counting)
    assert len(pf.sweep(TINY, seeds=4, jobs=3, out=tmp_path / "out").finished) == 4
    assert most == 1


def popen(*arguments):
    command = [sys.executable, "-m", "pauseframe", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finished(out):
    """The place of each finished run: its offset in a batch, or its folder and the time of its manifest."""
    records = {key: (entry.path.name, entry.begin) for key, entry in Batches(Path(out) / BATCHES).runs.items()}
    return records | {path.parent: path.stat().st_mtime_ns for path in Path(out).glob("**/manifest.json")}


def computed(out):
    """Number of runs in the batches of a sweep, duplicates included."""
    batches = Batches(Path(out) / BATCHES)
    return sum(magic == RUN for path in batch_files(Path(out) / BATCHES) for magic, _ in batches._entries(path))


def wait_for(out, count):
    deadline = time.monotonic() + 120  # A loaded machine starts processes slowly.
    while len(finished(out)) < count:
        assert time.monotonic() < deadline, f"{len(finished(out))} of {count} runs after two minutes"
        time.sleep(0.01)


def test_interrupt_keeps_what_is_done(tmp_path):
    file = tmp_path / "longer.toml"
    file.write_text(LONGER)
    out = tmp_path / "out"
    with popen("sweep", file, "--seeds", 400, "--out", out) as process:
        wait_for(out, 3)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    kept = re.search(r"(\d+) of 400 runs are kept", stderr)
    assert kept
    assert int(kept[1]) == len(finished(out)) >= 3


def test_kills_lose_and_duplicate_nothing(tmp_path):
    file = tmp_path / "longer.toml"
    file.write_text(LONGER)
    out = tmp_path / "out"
    before: dict[object, object] = {}
    for count in (3, 9, 15):
        with popen("sweep", file, "--seeds", 24, "--out", out, "--resume") as process:
            wait_for(out, count)
            workers = workers_of(process)
            if count == 9:
                os.kill(int(workers[0]), signal.SIGKILL)
                wait_for(out, count + 2)
            process.kill()
        for worker in workers:
            assert gone(int(worker))
        now = finished(out)
        assert before.items() <= now.items()  # No run was lost, and none was computed again.
        before = now
    assert cli("sweep", file, "--seeds", 24, "--out", out, "--resume").returncode == 0
    assert before.items() <= finished(out).items()
    sweep = pf.load_sweep(out)
    assert sweep.flows.collect().height == 24 * 2
    assert sweep.failures == []
    assert computed(out) == 24, "no run was computed twice"


def workers_of(process):
    """Its child processes, once there are some: where enough runs are kept already, it may not have begun."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    while not (workers := children.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return workers


def gone(process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
