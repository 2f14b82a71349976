"""Lossless Ethernet through the public interface: pauses and their drawing, headroom, deadlocks, pause frames."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.cli import app
from pauseframe.report import Group, build_report, from_folder, pauses
from typer.testing import CliRunner

MODELS = Path(__file__).parent.parent / "docs" / "models"


def example(page: str) -> str:
    """The scenario on a page of docs/models."""
    found = re.search(
        r"^```toml(?: warns)?\n(.*?)^```", (MODELS / f"{page}.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert found is not None
    return found.group(1)


@pytest.fixture(scope="module")
def spreading(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pfc") / "run"
    capture = {"record.packets.ports": ["*"], "record.packets.limit": 50_000, "stop": "2 ms"}
    return pf.run(example("pfc"), out=folder, set=capture, progress=False)


def test_pauses_have_causes_and_are_drawn(spreading):
    tree = pl.DataFrame(spreading.pause_tree)
    assert max(tree["depth"].to_list()) >= 1
    causes = tree.explode("parents").drop_nulls("parents").join(tree, left_on="parents", right_on="interval")
    # The switch that sent the pause is the switch that the parent pause had stopped.
    assert (causes["by_node"].cast(pl.String) == causes["node_right"].cast(pl.String)).all()
    assert (causes["start_us_right"] <= causes["asked_us"]).all()

    run = from_folder(spreading.folder)
    until = run.summary["sim_time_s"]
    _, counts = pauses.depths_over_time(pauses.intervals(run), until)
    assert set(counts) == set(tree["depth"].to_list())
    at = pauses.worst_instant(pauses.intervals(run))
    standing = pauses.intervals(run).filter((pl.col("start") <= at) & (pl.col("end") > at))
    figure = pauses.tree_figure(run)
    assert figure is not None
    assert len(standing) == len(figure["data"][1]["x"])
    page = build_report([Group("", [run])], spreading.folder / "report.html").read_text(encoding="utf-8")
    assert "Spreading of pauses" in page


def test_counters_agree_with_the_tree(spreading):
    tree = pl.DataFrame(spreading.pause_tree).with_columns(pl.col("port").cast(pl.String))
    end = spreading.summary["sim_time_s"] * 1e6
    sums = tree.group_by("port").agg((pl.col("end_us").fill_null(end) - pl.col("start_us")).sum().alias("sum"))
    ports = pl.DataFrame(spreading.ports).with_columns(pl.col("port").cast(pl.String))
    both = sums.join(ports, on="port")
    assert len(both) == len(sums)
    assert both.select(((pl.col("sum") - pl.col("paused_us")).abs() < 1e-3).all()).item()


def test_tshark_reads_the_pause_frames_of_a_run(spreading):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    fields = ["macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3", "eth.dst"]
    command = ["tshark", "-r", str(spreading.folder / "packets.pcapng"), "-Y", "macc", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = {tuple(line.split("\t")) for line in lines}
    # Class 3 only, with all quanta or none.
    head = ("0x0101", "0x0008")
    assert rows == {(*head, quanta, "01:80:c2:00:00:01") for quanta in ("65535", "0")}


def test_headroom_is_shown(tmp_path):
    file = tmp_path / "spreading.toml"
    file.write_text(example("pfc"))
    runner = CliRunner()
    rows = json.loads(runner.invoke(app, ["headroom", str(file), "--json"]).stdout)
    assert sum(row["ports"] for row in rows) == 18  # sixteen hosts plus two ends of the middle link
    assert all(row["needed_bytes"] == row["arriving_bytes"] + row["crossing_bytes"] for row in rows)
    assert "frame ahead" in runner.invoke(app, ["headroom", str(file)]).stdout
    short = runner.invoke(app, ["validate", str(file)]).stdout
    assert "its link needs" not in short
    file.write_text(example("pfc").replace("marker =", 'pfc = { headroom = "2 KB" }, marker ='))
    assert "its link needs" in runner.invoke(app, ["validate", str(file)]).stdout


def test_a_deadlock_is_told(tmp_path):
    file = tmp_path / "ring.toml"
    file.write_text(example("deadlock"))
    result = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "out")])
    assert result.exit_code == 3
    assert "can never send again" in result.output
    run = pf.load(tmp_path / "out")
    assert run.summary["deadlocks"] == 1
    rows = pl.DataFrame(run.deadlocks)
    assert len(rows) == 5
    assert sorted({flow for flows in rows["flows"] for flow in flows}) == [0, 1, 2, 3, 4]


def test_failures_and_damage_are_counted():
    run = pf.run(example("failures"), progress=False)
    assert run.summary["flows_finished"] == run.summary["flows_total"]
    reasons = run.summary["drops_by_reason"]
    assert reasons["link_down"] > 0
    assert reasons["link_down"] == sum(pl.DataFrame(run.ports)["drops_link_down"])


def test_a_pause_of_a_whole_link_has_a_row_for_each_priority_that_it_stops():
    text = """
    topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
    transport = { preset = "roce_dcqcn" }
    switch = { pfc = { whole_link = true } }
    pause_storm = [{ senders = ["host1"], start = "0 us", stop = "2 ms" }]
    stop = { time = "8 ms", when_finished = false }
    record = { pause_tree = true }
    workload = [{ kind = "flows", flows = [{ src = "host0", dst = "host1", size = "20 KB" }] }]
    """
    run = pf.run(text, progress=False)
    tree, ports = pl.DataFrame(run.pause_tree), pl.DataFrame(run.ports)
    keys = ["node", "port", "priority"]
    paused = ports.filter(pl.col("paused_us") > 0).select(*keys, "paused_us").sort(keys)
    lengths = (pl.col("end_us") - pl.col("start_us")).sum().alias("paused_us")
    assert len(paused) == 2
    assert paused["paused_us"].to_list() == pytest.approx(
        tree.group_by(keys).agg(lengths).sort(keys)["paused_us"].to_list(), abs=1e-3
    )
