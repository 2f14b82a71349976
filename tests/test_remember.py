"""Memory of steps: a training step whose collectives repeat, and what hinders a replay."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pauseframe as pf
import polars as pl
import pytest
from pauseframe import _core
from pauseframe.cli.simulate import BOUND

table = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "tools" / "remembered.py")))

MOE = """
name = "moe"
stop = {{ when_finished = true }}
topology = {{ kind = "star", hosts = 4, link = {{ rate = "400 Gbps", delay = "500 ns" }} }}
transport = {{ preset = "{preset}" }}
{host}
[[workload]]
name = "train"
kind = "training"
ep = 4
micro_batches = 8
layers = 3
hidden = 256
sequence = 128
experts = 4
top_k = 2
forward = "20 us"
"""


def moe(preset: str = "roce_dcqcn", host: str = "") -> str:
    return MOE.format(preset=preset, host=host)


def numbers(run: pf.Run) -> dict[str, float]:
    ports = run.ports.to_polars()
    columns = ("tx_packets", "tx_bytes", "ecn_marks", "pauses_sent")
    flows = run.flows.to_polars()
    return {name: float(ports[name].sum()) for name in columns} | {"delivered": float(flows["delivered_bytes"].sum())}


@pytest.mark.parametrize("preset", ["roce_dcqcn", "roce_hpcc", "dctcp"])
@pytest.mark.parametrize("clocks", ["ideal", "real"])
def test_most_steps_are_replayed_and_times_agree(preset: str, clocks: str) -> None:
    full = pf.run(moe(preset), set={"clocks": clocks}, progress=False)
    assert full.summary["remembered"] is None
    run = pf.run(moe(preset), set={"clocks": clocks, "remember.steps": "bound", "remember.bound": 0.02}, progress=False)
    remembered = run.summary["remembered"]
    assert remembered is not None
    assert remembered["steps"] > 80
    assert run.summary["sim_time_s"] == pytest.approx(full.summary["sim_time_s"], rel=0.02)
    assert numbers(run)["delivered"] == numbers(full)["delivered"]
    assert numbers(run)["tx_packets"] == pytest.approx(numbers(full)["tx_packets"], rel=0.02)
    if preset == "roce_dcqcn":
        # With ideal clocks members begin at times that drift apart.
        assert remembered["replayed"] > remembered["steps"] / (2 if clocks == "real" else 10)
        assert run.summary["events"] < full.summary["events"]
    assert run.collectives.to_polars().height == full.collectives.to_polars().height


def test_a_check_changes_nothing_and_counts() -> None:
    full, checked = (pf.run(moe(), set={"remember.steps": steps}, progress=False) for steps in ("off", "check"))
    assert checked.summary["fingerprint"] == full.summary["fingerprint"]
    assert checked.ports.to_polars().equals(full.ports.to_polars())
    remembered = checked.summary["remembered"]
    assert remembered is not None
    assert remembered["compared"] == remembered["replayed"] > 0
    assert remembered["compared_hops"][0] == pytest.approx(remembered["compared_hops"][1], rel=0.01)


RING = """
name = "gradients"
stop = {{ when_finished = true }}
clocks = "ideal"
transport = {{ preset = "{preset}" }}
topology = {{ kind = "star", hosts = 8, link = {{ rate = "100 Gbps", delay = "500 ns" }}{servers} }}
[[workload]]
name = "train"
kind = "training"
gpus = 8
layers = 1
hidden = 1024
sequence = 512
parameters = {parameters}
forward = "20 us"
{more}
"""


def ring(preset: str = "roce_dcqcn", servers: str = "", more: str = "", parameters: int = 40_000_000) -> str:
    """One reduce-scatter and one all-gather of gradients among eight GPUs, in slices of 128 KiB."""
    more = more or 'collectives = { slice = "128 KiB" }'
    return RING.format(preset=preset, servers=servers, more=more, parameters=parameters)


SECOND_JOB = """collectives = { slice = "128 KiB" }
[[workload]]
name = "second"
kind = "training"
gpus = 4
layers = 1
hidden = 1024
sequence = 512
parameters = 60_000_000
forward = "30 us"
collectives = { slice = "128 KiB" }
"""


@pytest.mark.parametrize(
    "text",
    [
        *(ring(preset) for preset in ("roce_dcqcn", "dctcp", "uec_nscc")),
        ring(more='collectives = { slice = "128 KiB", algorithm = "ring" }\ndistributed_optimizer = false'),
        ring().replace(
            'preset = "roce_dcqcn"', 'preset = "roce_dcqcn", rdma_qps_per_connection = 4, rdma_split_data_on_qps = true'
        ),
        ring(servers=', scale_up = { gpus_per_server = 2, gpu = "H100" }'),
        ring(more=SECOND_JOB).replace("gpus = 8", "gpus = 4"),
        ring(more='collectives = { slice = "64 KiB" }\niterations = 2'),
    ],
    ids=["dcqcn", "dctcp", "nscc", "all-reduce", "queue pairs", "servers", "two jobs", "iterations"],
)
def test_rounds_of_a_long_ring_are_left_out(text: str) -> None:
    bound = 0.001
    full = pf.run(text, progress=False)
    run, checked = (
        pf.run(text, set={"remember.steps": steps, "remember.bound": bound}, progress=False)
        for steps in ("bound", "check")
    )
    remembered, expected = run.summary["remembered"], checked.summary["remembered"]
    assert remembered is not None
    assert expected is not None
    assert remembered["rounds"] >= 4
    assert remembered["replayed_share"] > 0.1
    assert run.summary["events"] < 0.9 * full.summary["events"]
    assert checked.summary["fingerprint"] == full.summary["fingerprint"]
    assert expected["rounds"] >= 4
    # Rates vary a little from window to window, so the sum of a long leap can be off by more than each of two windows.
    assert expected["largest_difference"] is not None
    assert expected["largest_difference"] < 10 * bound
    ends = [one.collectives.to_polars()["end_us"].max() for one in (full, run)]
    assert ends[1] == pytest.approx(ends[0], rel=bound)
    # Bytes are counted message by message, packets by the round.
    for table, column in (("flows", "delivered_bytes"), ("flows", "size_bytes"), ("throughput", "received_bytes")):
        sums = [getattr(one, table).to_polars()[column].sum() for one in (full, run)]
        assert sums[0] == sums[1], (table, column)
    for name, count in numbers(full).items():
        assert numbers(run)[name] == pytest.approx(count, rel=bound), name


def test_rounds_do_not_depend_on_threads() -> None:
    text = ring().replace(
        'kind = "star", hosts = 8,', 'kind = "leaf_spine", leaves = 2, spines = 1, hosts_per_leaf = 4,'
    )
    settings = {"remember.steps": "bound", "remember.bound": 0.002, "host.reaction": "2 us"}
    one, two = (pf.run(text, set=settings, threads=threads, progress=False) for threads in (1, 2))
    assert two.summary["threads"] == 2
    assert one.summary["remembered"] == two.summary["remembered"]
    assert one.summary["remembered"] is not None
    assert one.summary["remembered"]["rounds"] >= 4
    assert one.summary["fingerprint"] == two.summary["fingerprint"]
    assert one.flows.to_polars().equals(two.flows.to_polars())


def test_no_round_is_left_out_across_a_failure() -> None:
    failure = '[[failure]]\nlink = ["host3", "switch"]\ndown = "5 ms"\nup = "5.2 ms"\n'
    text = ring("dctcp") + failure
    full, run = (pf.run(text, set={"remember.steps": steps}, progress=False) for steps in ("off", "bound"))
    assert run.summary["remembered"] is not None
    assert run.summary["remembered"]["rounds"] > 0
    assert full.summary["drops"] > 0
    assert run.summary["sim_time_s"] == pytest.approx(full.summary["sim_time_s"], rel=0.02)
    assert numbers(run)["delivered"] == numbers(full)["delivered"]


def test_threads_do_not_matter() -> None:
    text = moe(host='host = { reaction = "2 us" }').replace(
        'kind = "star", hosts = 4,', 'kind = "leaf_spine", leaves = 2, spines = 1, hosts_per_leaf = 2,'
    )
    settings = {"remember.steps": "bound"}
    one, two = (pf.run(text, set=settings, threads=threads, progress=False) for threads in (1, 2))
    assert two.summary["threads"] == 2
    for summary in (one.summary, two.summary):
        assert summary["remembered"] is not None
        assert summary["remembered"]["replayed"] > 0
    assert one.summary["remembered"] == two.summary["remembered"]
    assert one.summary["fingerprint"] == two.summary["fingerprint"]
    assert one.ports.to_polars().drop("backlog_mean_bytes").equals(two.ports.to_polars().drop("backlog_mean_bytes"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"record.series": True}, "record.series samples every instant"),
        ({"record.states": True}, "record.states logs every change"),
        ({"record.paths": True}, "record.paths counts every packet"),
    ],
)
def test_what_hinders_a_replay_is_said(change: dict[str, object], reason: str) -> None:
    run = pf.run(moe(), set={"remember.steps": "bound", **change}, progress=False)
    assert run.summary["remembered"] is None
    assert any(reason in warning for warning in run.summary["warnings"])


def test_a_workload_without_messages_hinders_too() -> None:
    text = """
    workload = [{ kind = "n_to_1", senders = 2, size = "1 MB" }]
    topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
    """
    run = pf.run(text, set={"remember": "bound"}, progress=False)
    assert any("neither an application nor training" in warning for warning in run.summary["warnings"])


def test_the_command_says_what_was_replayed(tmp_path: Path) -> None:
    (tmp_path / "moe.toml").write_text(moe(), encoding="utf-8")
    command = [sys.executable, "-m", "pauseframe", "run", "moe.toml", "-o", "out", "--force"]

    def ran(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)

    shown = ran("--remember", "1%")
    assert shown.returncode == 0, shown.stderr
    assert "steps replayed" in shown.stdout
    assert "within 0.01" in shown.stdout
    assert "share of packet hops" in shown.stdout
    summary = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["summary"]
    assert summary["remembered"]["replayed"] > 0
    assert pl.read_parquet(tmp_path / "out" / "collectives.parquet").height > 0
    for wrong in ("much", "0.1"):
        refused = ran("--remember", wrong)
        assert refused.returncode == 2
        assert "neither off, check nor a bound" in " ".join(refused.stderr.split())


def test_the_page_has_the_numbers_of_today() -> None:
    """A row of docs/models/memory-of-steps.md; `make remembered` fills in the table."""
    row = table.ROWS[1]
    assert table.line(table.cells(row)) in table.PAGE.read_text(encoding="utf-8")
    assert all(f"| {one.name} |" in table.PAGE.read_text(encoding="utf-8") for one in table.ROWS)


def test_the_highest_bound_of_the_option_is_that_of_the_key() -> None:
    highest = next(option["doc"] for option in _core.options() if option["path"] == "remember.bound")
    assert highest.endswith(f"to {BOUND})")


def test_rates_go_on_while_steps_are_replayed() -> None:
    """Pipelines whose exchanges mark each other: rates that stood still in replays made later steps slower, by 13 %."""
    scenario = """
name = "experts"
stop = { when_finished = true }
topology = { kind = "star", hosts = 16, link = { rate = "400 Gbps", delay = "500 ns" } }
transport = { preset = "roce_dcqcn" }
[[workload]]
kind = "training"
gpus = 16
tp = 2
pp = 2
ep = 4
layers = 4
micro_batches = 4
hidden = 1024
sequence = 1024
experts = 8
top_k = 2
forward = "100 us"
"""
    for seed, bound in ((4, 0.001), (5, 0.01)):
        full = pf.run(scenario, set={"seed": seed}, progress=False)
        memory = {"remember.steps": "bound", "remember.bound": bound}
        run = pf.run(scenario, set={"seed": seed, **memory}, progress=False)
        remembered = run.summary["remembered"]
        assert remembered is not None
        assert remembered["replayed"] >= 8
        assert run.summary["sim_time_s"] == pytest.approx(full.summary["sim_time_s"], rel=0.01)
        marks = [numbers(one)["ecn_marks"] for one in (full, run)]
        assert marks[1] == pytest.approx(marks[0], rel=0.3)
        told = [text for text in run.summary["warnings"] if "differed from" in text or "differ from" in text]
        assert bool(told) == (remembered["beyond_bound"] > 0)
