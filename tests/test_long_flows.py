"""Goodput and fairness of flows without a size, in the summary, `run`, `report` and `compare`."""

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.cli import app
from pauseframe.flow import summary_rows
from pauseframe.report import from_folder
from pauseframe.report.build import Group, render_report
from pauseframe.results.long_flows import ALL, long_flows
from pauseframe.sweep.compare import compare
from pauseframe.sweep.tables import format_value, title
from typer.testing import CliRunner

TWO_TRANSPORTS = """name = "shared"
stop = "10 ms"
topology = { kind = "star", hosts = 5, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = "200 KB" }
transports = { marked = { preset = "dctcp" }, plain = { preset = "newreno" } }

[[workload]]
kind = "long_flows"
transport = "marked"
flows = [{ src = "host1", dst = "host0", stop = "4 ms" }, { src = "host2", dst = "host0" }]

[[workload]]
kind = "long_flows"
transport = "plain"
flows = [{ src = "host3", dst = "host0", start = "2 ms" }]

[[workload]]
kind = "flows"
transport = "plain"
flows = [{ src = "host4", dst = "host0", size = "10 KB" }]
"""


def table(rows):
    columns = ("transport", "size_bytes", "delivered_bytes", "start_us", "finish_us")
    return pl.DataFrame(rows, schema=columns, orient="row", schema_overrides={"finish_us": pl.Float64}).lazy()


def test_rates_are_of_each_flow_from_its_start_to_its_end():
    flows = table([
        ("a", None, 1000, 0.0, 10.0),
        ("a", None, 1000, 15.0, None),
        ("b", None, 4000, 0.0, None),
        ("b", None, 0, 20.0, None),
        ("b", 500, 500, 0.0, 1.0),
    ])  # fmt: skip
    first, second, both = long_flows(flows, 20.0).to_dicts()
    assert (first["transport"], first["flows"]) == ("a", 2)
    assert first["goodput_bps"] == pytest.approx(8 * 2000 / 20e-6)
    assert (first["min_bps"], first["max_bps"]) == pytest.approx((8 * 1000 / 10e-6, 8 * 1000 / 5e-6))
    # Rates as 1 to 2: (1 + 2)^2 / (2 * (1 + 4)).
    assert first["fairness"] == pytest.approx(0.9)
    assert (second["flows"], second["fairness"]) == (1, None)
    assert (both["transport"], both["flows"]) == (ALL, 3)
    assert both["goodput_bps"] == pytest.approx(8 * 6000 / 20e-6)


def test_fairness_leaves_out_udp():
    """A source of datagrams takes its rate whatever the others get; its goodput counts in that of all."""
    rows = [("a", None, 1000, 0.0, None), ("a", None, 2000, 0.0, None), ("udp", None, 90, 0.0, None)]
    flows = table(rows).with_columns(pl.Series("datagrams_sent", [0, 0, 3]))
    adapting, udp, both = long_flows(flows, 10.0).to_dicts()
    assert adapting["fairness"] == both["fairness"] == pytest.approx(0.9)
    assert (udp["fairness"], both["flows"]) == (None, 3)
    assert both["goodput_bps"] == pytest.approx(8 * 3090 / 10e-6)
    beside = '[[workload]]\nkind = "udp"\nsources = ["host2"]\ndestinations = ["host3"]\nrate = "1 Gbps"\n'
    text = TWO_TRANSPORTS.partition("[[workload]]")[0].replace("10 ms", "1 ms") + beside
    text += '[[workload]]\nkind = "long_flows"\ntransport = "plain"\nflows = [{ src = "host1", dst = "host0" }]\n'
    run = pf.run(text, progress=False)
    found = long_flows(pl.DataFrame(run.flows).lazy(), 1000.0)
    assert found["fairness"].to_list() == [None] * 3, "one flow adapts"


def test_no_flow_without_a_size_gives_no_row():
    assert long_flows(table([("a", 500, 500, 0.0, 1.0)]), 20.0).is_empty()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("long")
    (here / "shared.toml").write_text(TWO_TRANSPORTS)
    result = CliRunner().invoke(app, ["run", str(here / "shared.toml"), "--out", str(here / "run")])
    assert result.exit_code == 0, result.output
    (here / "printed").write_text(result.output)
    return here


def test_run_prints_goodput_in_place_of_unfinished_flows(folder):
    lines = [line.split() for line in (folder / "printed").read_text().splitlines()]
    assert ["flows", "finished", "1", "of", "1"] in lines
    assert ["long", "flows", "3"] in lines
    rows = {line[0]: line for line in lines if line and line[0] in {"marked", "plain", "all"}}
    assert rows["marked"][1] == "2"
    assert rows["plain"][-1] == "–"
    assert rows["all"][2] == "3"


def test_compare_has_goodput_and_fairness_by_transport(folder):
    found = compare([folder / "run"])
    names = [name for name in found.metrics if name.startswith("long_")]
    parts = ["", ".marked", ".plain"]
    assert names == [f"long_goodput_bps{part}" for part in parts] + ["long_fairness", "long_fairness.marked"]
    assert "unfinished" not in found.metrics
    assert title("long_goodput_bps.plain") == "goodput of long flows, plain"
    goodput = found.cell("long_goodput_bps", (), found.variants[0])
    assert goodput is not None
    assert 8e9 < goodput.value.median < 10e9
    assert format_value("long_goodput_bps.plain")(9.4e9) == "9.4 Gb/s"


def test_a_report_has_the_table_with_the_colours_of_its_runs(folder):
    run = from_folder(folder / "run")
    html = render_report([Group("both", [run, run])])
    assert html.count("shared: all together") == 0, "two runs have distinct labels"
    assert "#2: all together" in html
    assert "Jain's index" in html or "Jain&#39;s index" in html


def test_flow_level_counts_long_flows_by_themselves():
    summary = pf.run_flows(TWO_TRANSPORTS, progress=False).summary
    assert (summary["flows_total"], summary["flows_finished"], summary["flows_long"]) == (4, 1, 3)
    rows = dict(summary_rows(summary))
    assert (rows["flows finished"], rows["long flows"]) == ("1 of 1", "3")


@pytest.mark.parametrize(("finished", "deadlocked"), [(5, False), (4, True)])
def test_a_deadlock_that_the_watchdog_broke_counts_by_flows_with_a_size(finished, deadlocked):
    run = pf.run(TWO_TRANSPORTS, progress=False)
    run.summary.update({"flows_total": 8, "flows_finished": finished, "flows_long": 3})
    run.summary.update({"deadlocks": 1, "watchdog_storms": 2})
    assert run.deadlocked == deadlocked
    run.summary["watchdog_storms"] = 0
    assert run.deadlocked
