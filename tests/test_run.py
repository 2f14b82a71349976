"""`pauseframe.run` and `load`: every kind of input, Arrow tables, folders, progress, Ctrl-C."""

import doctest
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import duckdb
import pandas as pd
import pauseframe as pf
import polars as pl
import pyarrow as pa
import pytest
from conftest import SCENARIO
from pauseframe.report import Group, build_report, from_folder
from pauseframe.reproduce.measure import measure
from pauseframe.reproduce.spec import Metric
from pauseframe.results import TableName
from pauseframe.results.folder import open_results

if TYPE_CHECKING:
    from pauseframe.types import RunProgress

COLUMNS = {"flows": 34, "queries": 11, "ports": 33, "series": 4}


@pytest.fixture(scope="module")
def run():
    return pf.run(SCENARIO, progress=False)


def test_every_kind_of_scenario(scenario_file, run):
    scenario = pf.Scenario.from_file(scenario_file)
    for given in (scenario_file, str(scenario_file), scenario, scenario.resolve()):
        again = pf.run(given, progress=False)
        assert again.summary["fingerprint"] == run.summary["fingerprint"]


def test_what_record_asks_for_in_vain_is_said():
    wanted = {"record.packets.ports": ["*"], "record.series.every": "10 us", "record.series.ports": ["nowhere*"]}
    warnings = pf.run(SCENARIO, set=wanted, progress=False).summary["warnings"]
    assert any("results folder" in warning for warning in warnings)
    assert any("nowhere*" in warning for warning in warnings)


def test_seed_and_set_change_the_run(run):
    seeded = pf.run(SCENARIO, seed=99, progress=False)
    assert seeded.summary["seed"] == 99
    assert seeded.summary["fingerprint"] != run.summary["fingerprint"]
    slower = pf.run(SCENARIO, set={"topology.link.rate": "1 Gbps"}, progress=False)
    assert slower.summary["fct_us"]["p50"] > 5 * run.summary["fct_us"]["p50"]
    from_resolved = pf.run(pf.Scenario.from_toml(SCENARIO).resolve(), seed=99, progress=False)
    assert from_resolved.summary["fingerprint"] == seeded.summary["fingerprint"]


@pytest.mark.parametrize("name", COLUMNS)
def test_tables_go_to_everybody(run, name):
    given = getattr(run, name)
    rows = given.num_rows
    assert len(given.column_names) == COLUMNS[name]
    assert pl.DataFrame(given).shape == (rows, COLUMNS[name])
    assert pa.table(given).num_rows == rows
    assert pa.schema(given).names == given.column_names
    assert pd.DataFrame.from_arrow(given).shape == (rows, COLUMNS[name])
    counted = duckdb.sql("from given select count(*)")
    assert counted is not None
    assert counted.fetchall() == [(rows,)]
    assert pl.DataFrame(given).equals(pl.DataFrame(given)), "a table can be taken twice"


def test_summary_agrees_with_the_tables(run):
    flows = pl.DataFrame(run.flows)
    fct = flows["fct_us"].drop_nulls()
    assert run.summary["flows_total"] == len(flows)
    assert run.summary["flows_finished"] == len(fct) == 3 + 2 * run.queries.num_rows
    assert run.summary["fct_us"]["p99"] == pytest.approx(fct.quantile(0.99, "linear"))
    assert (flows["slowdown"].drop_nulls() >= 1.0).all()
    ports = pl.DataFrame(run.ports)
    drops = sum(ports[f"drops_{reason}"].sum() for reason in run.summary["drops_by_reason"])
    assert run.summary["drops"] == drops


def test_folder_there_and_back(run, tmp_path):
    out = tmp_path / "out"
    written = pf.run(SCENARIO, out=out, progress=False)
    back = pf.load(out)
    assert back.status == "complete"
    assert not back.interrupted
    for name in COLUMNS:
        assert pl.DataFrame(getattr(back, name)).equals(pl.DataFrame(getattr(run, name)))
    assert json.loads((out / "manifest.json").read_text())["summary"] == back.summary
    assert back.summary["fingerprint"] == written.summary["fingerprint"]
    assert pf.run(back.scenario_toml, progress=False).summary["fingerprint"] == run.summary["fingerprint"]


def test_a_folder_with_wildcards_is_that_folder(tmp_path):
    """polars takes [, * and ? in paths for patterns: here, those of another run, or of no file."""
    other = pf.run(SCENARIO, seed=2, out=tmp_path / "run1", progress=False)
    for name in ("run[1]", "run*", "run?"):
        written = pf.run(SCENARIO, out=tmp_path / name, progress=False)
        read = open_results(tmp_path / name).scan("flows").collect()
        assert read.equals(written.flows.to_polars())
        assert not read.equals(other.flows.to_polars())
        (row,) = measure(tmp_path / name, {"n": Metric(sql="SELECT SUM(fct_us) FROM flows")})
        assert row.value == pytest.approx(read["fct_us"].sum())
        page = build_report([Group("", [from_folder(tmp_path / name)])], tmp_path / "page.html")
        assert page.stat().st_size > 100_000


def test_a_table_that_was_not_recorded_is_empty_in_memory_and_in_a_folder(tmp_path):
    run = pf.run(SCENARIO, set={"record.flows": False}, out=tmp_path / "out", progress=False)
    back = pf.load(tmp_path / "out")
    for name in get_args(TableName):
        kept, found = getattr(run, name), getattr(back, name)
        assert (len(found), found.column_names) == (len(kept), kept.column_names), name
    assert len(back.flows) == len(back.collectives) == 0
    (tmp_path / "out" / "queries.parquet").unlink()
    with pytest.raises(pf.DamagedResultsError, match=r"queries\.parquet is damaged"):
        len(pf.load(tmp_path / "out").queries)


def test_tables_of_the_flow_level_are_those_of_packets():
    run = pf.run_flows(SCENARIO, progress=False)
    for table in (run.flows, run.links):
        assert len(list(table)) == table.num_rows == len(table) > 0
        assert table[0] == next(iter(table))
    assert run.flows["size_bytes"].sum() == sum(row["size_bytes"] for row in run.flows)
    assert isinstance(run, pf.FlowRun)
    assert pl.DataFrame(run.links).height == len(run.links)


def test_results_are_not_overwritten(tmp_path):
    out = tmp_path / "out"
    pf.run(SCENARIO, out=out, progress=False)
    before = (out / "manifest.json").read_bytes()
    assert pf.run(SCENARIO, out=out, progress=False).summary == pf.load(out).summary
    assert (out / "manifest.json").read_bytes() == before
    with pytest.raises(pf.RunError):
        pf.run(SCENARIO, seed=5, out=out, progress=False)
    assert (out / "manifest.json").read_bytes() == before
    pf.run(SCENARIO, seed=5, out=out, force=True, progress=False)
    assert pf.load(out).summary["seed"] == 5


def test_wrong_scenario_leaves_nothing(tmp_path):
    with pytest.raises(pf.ScenarioError):
        pf.run(SCENARIO + "\nnonsense = 1\n", out=tmp_path / "out", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_progress_tells_the_same_story(run):
    seen: list[RunProgress] = []
    long = pf.run(SCENARIO, set={"workload.1.rate": 100_000}, progress=seen.append)
    for info in seen:
        assert set(info) >= {"sim_time_s", "stop_time_s", "wall_s", "events", "packet_hops"}
        assert info["stop_time_s"] == 0.05
        assert 0 <= info["sim_time_s"] <= 0.05
    assert [info["events"] for info in seen] == sorted(info["events"] for info in seen)
    assert not long.interrupted
    quiet = pf.run(SCENARIO, set={"workload.1.rate": 100_000}, progress=False)
    assert quiet.summary["fingerprint"] == long.summary["fingerprint"]


ENDLESS = {"stop": "1 h", "workload.1.stop": "1 h", "workload.1.rate": 20_000}


class CtrlC:
    """Sends Ctrl-C soon after the first progress report of a run, and meanwhile counts in another thread."""

    def __init__(self):
        self.under_way, self.ticks = threading.Event(), 0
        self.thread = threading.Thread(target=self._press)
        self.thread.start()

    def __call__(self, info):
        self.under_way.set()

    def _press(self):
        if self.under_way.wait(120):
            for _ in range(10):
                time.sleep(0.01)
                self.ticks += 1
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_keeps_what_was_recorded(tmp_path, capsys):
    key = CtrlC()
    run = pf.run(SCENARIO, set=ENDLESS, out=tmp_path / "out", progress=key)
    assert key.ticks == 10, "the GIL is released: other threads go on"
    assert run.interrupted
    assert "interrupted at" in capsys.readouterr().err
    assert pf.load(tmp_path / "out").status == "interrupted"
    assert 0 < pl.DataFrame(run.flows)["fct_us"].count() == run.summary["flows_finished"]
    assert not pf.run(SCENARIO, progress=False).interrupted, "the next run is not affected"


def test_ctrl_c_while_progress_is_shown():
    """Python may deliver the signal inside the callback, which ends the run in the same way."""

    def progress(info):
        signal.raise_signal(signal.SIGINT)

    assert pf.run(SCENARIO, set=ENDLESS, progress=progress).interrupted


def test_errors_of_the_callback_come_through():
    def progress(info):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pf.run(SCENARIO, set=ENDLESS, progress=progress)


def test_killed_run_is_marked(tmp_path):
    """After kill -9 the folder exists and is incomplete, and `load` reports it."""
    out = tmp_path / "out"
    code = f"import pauseframe as pf; pf.run({SCENARIO!r}, set={ENDLESS!r}, out={str(out)!r}, progress=False)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 120
        while not (out / "manifest.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    assert json.loads((out / "manifest.json").read_text())["status"] == "running"
    with pytest.raises(pf.RunError, match="did not come to its end"):
        pf.load(out)


def test_display_in_a_notebook(run):
    html = run._repr_html_()
    assert "flows finished" in html
    assert "small, seed 1" in html
    assert "small" in repr(run)


def test_report_from_memory(run, tmp_path):
    assert ">small<" in run.report(tmp_path / "r.html").read_text(encoding="utf-8")


BETWEEN = """
name = "between"
stop = { time = "2 s", when_finished = false }
[topology]
kind = "star"
hosts = 2
link = { rate = "1 Gbps", delay = "25 us" }
[transport]
preset = "cubic"
stack = "linux"
rto_min = "5 ms"
[[workload]]
kind = "requests"
client = "host0"
servers = ["host1"]
request = "16 B"
response = "1 KB"
count = 20
pause = "10 ms"
"""


def test_probes_between_two_exchanges_belong_to_neither():
    """The ACK of a response travels with the next request; a probe is sent after a response that is complete."""
    run = pf.run(BETWEEN, progress=False)
    flows, ports = pl.DataFrame(run.flows), pl.DataFrame(run.ports)
    assert flows.filter(pl.col("status") == "finished").height == 20
    assert flows.select(pl.col("loss_probes", "retransmits", "timeouts").sum()).row(0) == (0, 0, 0)
    sent = ports.filter(pl.col("port") == "host1:0")["tx_bytes"].sum()
    assert sent > 30 * 1000  # Most responses were sent twice.


def test_probes_count_until_the_job_is_complete():
    """One of two servers answers 9 ms after the other, which meanwhile sends probes because the job is not over."""
    slow = 'reply_delay = "9 ms"\nreply_law = "staggered"\n'
    text = BETWEEN.replace("hosts = 2", "hosts = 3").replace('["host1"]', '["host1", "host2"]') + slow
    flows = pl.DataFrame(pf.run(text, progress=False).flows).with_columns(pl.col("dst").cast(pl.String))
    assert flows.filter(pl.col("status") == "finished").height == 40
    first, last = (flows.filter(pl.col("dst") == name) for name in ("host1", "host2"))
    assert (first["fct_us"] < 9_000).all()
    assert (last["fct_us"] > 9_000).all()
    # In the first rounds the client sends no probe, because it sends quick ACKs.
    assert 10 < first.filter(pl.col("loss_probes") == 1).height <= 20
    assert first["loss_probes"].equals(first["reply_loss_probes"].alias("loss_probes"))
    # In this run the client sends probes: the second server acknowledges a request only with its late response.
    assert (last["loss_probes"].sum() > 10, last["reply_loss_probes"].sum()) == (True, 0)
    assert flows["reply_retransmits"].sum() == first["retransmits"].sum() == first["loss_probes"].sum()


def test_the_window_of_a_response_is_that_of_who_sends_it():
    text = (
        BETWEEN.replace('response = "1 KB"', 'response = "1 MB"')
        + '[record.series]\nevery = "1 ms"\nflows = ["requests"]\n'
    )
    series = pl.DataFrame(pf.run(text, progress=False).series)
    windows = series.filter(pl.col("metric") == "cwnd_bytes")["value"]
    # The client's own window stays at ten segments, because the client sends only 16 bytes at a time.
    assert windows.len() > 20
    assert (windows > 20 * 1448).any()


def test_load_of_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        pf.load(tmp_path)


PACKAGE = Path(pf.__file__).parent
WITH_EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_in_docstrings(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    importlib.import_module(name)
    # By name: `pauseframe.run` is a function too.
    result = doctest.testmod(sys.modules[name])
    assert result.failed == 0
    assert result.attempted > 0


def test_public_names_exist_and_have_docs():
    for name in pf.__all__:
        assert getattr(pf, name).__doc__, name
    assert (Path(pf.__file__).parent / "py.typed").exists()


def test_a_finished_flow_takes_a_hundred_bytes():
    """Additional memory per flow of 330,000 flows over 30,000; the table is built only on access."""
    code = (
        "import resource, sys\n"
        "import pauseframe as pf\n"
        "run = pf.run(sys.argv[1], threads=1, progress=False)\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "print(run.summary['flows_finished'], peak, run.flows.num_rows)"
    )
    scenario = (
        'stop = { time = "1 s", when_finished = true }\n[topology]\nkind = "fat_tree"\nk = 4\n'
        'link = { rate = "10 Gbps", delay = "1 us" }\n[[workload]]\nkind = "background"\n'
        'sizes = { kind = "fixed", size = "1 KB" }\narrivals = { kind = "load", load = 0.05 }\n'
    )

    def measured(ms: int) -> tuple[int, int]:
        text = f'{scenario}stop = "{ms} ms"\n'
        done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True, check=True)
        finished, peak, rows = map(int, done.stdout.split())
        assert finished == rows
        return finished, peak

    (few, small), (many, large) = measured(30), measured(330)
    assert few > 25_000
    assert many > 300_000
    assert (large - small) / (many - few) < 100


@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("gro", [False, True])
def test_bytes_sent_again_are_received_once(gro, sack):
    """What GRO holds until the end of a poll may have come before."""
    on, selective = str(gro).lower(), str(sack).lower()
    lossy = f"""
stop = {{ time = "5 s", when_finished = true }}
topology = {{ kind = "star", hosts = 3, link = {{ rate = "10 Gbps", delay = "10 us" }} }}
host = {{ gro = {on} }}
switch = {{ buffer = "30 KB" }}
transport = {{ preset = "cubic", fast_retransmit = {selective}, rto_min = "100 us", sack = {selective} }}
workload = [{{ kind = "n_to_1", size = "400 KB" }}]
"""
    run = pf.run(lossy)
    assert run.summary["retransmits"] > 30
    assert pl.DataFrame(run.throughput)["received_bytes"].sum() == 800_000
