"""UDP flows with a size stop and have no completion time; they are no unfinished flows, wherever these are counted."""

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.flow import summary_rows as flow_rows
from pauseframe.report import Group, data, from_folder
from pauseframe.report.build import render_report
from pauseframe.reproduce.measure import measure
from pauseframe.reproduce.spec import Metric
from pauseframe.sweep.compare import compare
from pauseframe.sweep.tables import note
from pauseframe.terminal.text import summary_rows, unfinished_flows
from pauseframe.tune.metrics import parse_metric, read_metrics

BASE = """
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
"""
UDP = """
[[workload]]
kind = "udp"
sources = ["host2"]
destinations = ["host3"]
rate = "1 Gbps"
size = "100 KB"
[[workload]]
kind = "udp"
name = "bursts"
sources = ["host2"]
destinations = ["host3"]
rate = "1 Gbps"
burst = { sizes = "28 KB", idle = "100 us" }
stop = "1 ms"
"""
TCP = """
[[workload]]
kind = "flows"
flows = [{ src = "host1", dst = "host0", size = "1 MB" }]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("stopped") / "run"
    run = pf.run(BASE + TCP + UDP, out=path, progress=False)
    stopped = run.flows.to_polars().filter(pl.col("status") == "stopped").height
    assert run.summary["flows_stopped"] == stopped > 2
    return path


def test_a_run_counts_them_by_themselves(folder):
    summary = pf.load(folder).summary
    assert unfinished_flows(summary) == 0
    rows = dict(summary_rows(summary))
    assert (rows["flows finished"], rows["UDP flows ended"]) == ("1 of 1", str(summary["flows_stopped"]))
    assert not [text for text in rows.values() if "unfinished" in text]
    assert "1 of 1 flows" in repr(pf.load(folder))


def test_results_of_old_versions_count_as_they_did(folder):
    summary = pf.load(folder).summary
    stopped = summary.pop("flows_stopped")
    assert unfinished_flows(summary) == stopped


def test_a_report_leaves_none_unfinished(folder):
    run = from_folder(folder)
    assert data.unfinished_flows(run) == {}
    html = render_report([Group("", [run])])
    assert "1 flow finished; it took" in html
    assert "unfinished" not in html.partition("<script")[0]


def test_a_report_of_udp_alone_says_that_it_ended(tmp_path):
    pf.run(BASE + UDP, out=tmp_path / "run", progress=False)
    html = render_report([Group("", [from_folder(tmp_path / "run")])])
    assert "UDP flows ended within" in html
    assert "No flow finished within" not in html


def test_flows_are_unfinished_if_they_have_a_size_and_did_not_end():
    flows = pl.DataFrame({
        "fct_us": [5.0, None, None, None, None],
        "size_bytes": [1, 1, 1, None, 1],
        "reply_bytes": [0] * 5,
        "status": ["finished", "finished", "stopped", "stopped", "running"],
    })  # fmt: skip
    assert flows.select(data.is_unfinished()).to_series().to_list() == [False] * 4 + [True]


def test_compare_and_tune_know_them(folder):
    comparison = compare([folder], metrics=["fct_us.p50"])
    assert comparison.cut_short == 0
    assert "unfinished" not in note(comparison)
    summary = pf.load(folder).summary
    (found,) = read_metrics([parse_metric("unfinished")], summary, lambda name: None).values()
    assert found.value == 0


def test_their_age_is_no_completion_time(folder):
    ages = {name: Metric(sql=f"SELECT {name} AS value FROM flows") for name in ("age_us", "slowdown_or_age")}
    rows = measure(folder, ages)
    assert [row.metric for row in rows if row.value is not None] == ["age_us", "slowdown_or_age"]


def test_flow_level_counts_them_by_themselves():
    summary = pf.run_flows(BASE + TCP + UDP, progress=False).summary
    assert unfinished_flows(summary) == 0
    rows = dict(flow_rows(summary))
    assert (rows["flows finished"], rows["UDP flows ended"]) == ("1 of 1", str(summary["flows_total"] - 1))
