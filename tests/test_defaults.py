"""Misleading defaults: a warning recommends a change, and the summary counts the affected packets."""

import re
import shutil
import subprocess
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe import _core

DOCS = Path(__file__).parent.parent / "docs"
MARKING = DOCS / "models" / "marking.md"
SWEEP = DOCS / "how-to" / "sweep-on-a-laptop.md"


def test_dropped_syns_are_counted_and_said():
    (text,) = re.findall(r'^```toml\n(name = "syn"\n.*?)^```', MARKING.read_text(encoding="utf-8"), re.M | re.S)
    run = pf.run(text)
    dropped = run.summary["syn_drops_not_ect"]
    assert 0 < dropped <= run.summary["drops_by_reason"]["not_ect"]
    p99 = run.summary["fct_us"]["p99"]
    assert p99 is not None
    assert p99 >= 1e6
    (warning,) = [warning for warning in run.summary["warnings"] if "SYN" in warning]
    assert warning.startswith(f"transport.ect_on_syn: {dropped} SYNs")
    capable = pf.run(text, set={"transport.ect_on_syn": True})
    assert (capable.summary["syn_drops_not_ect"], capable.summary["drops"], capable.summary["warnings"]) == (0, 0, [])


def test_syns_of_the_default_host_pass_markers():
    """The sweep of the how-to: dropped SYNs gave DCTCP a p99 of one second, and made TCP-Bolt look good."""
    (text,) = re.findall(r"^```toml file=load.toml\n(.*?)^```", SWEEP.read_text(encoding="utf-8"), re.M | re.S)
    text = text.partition("[sweep]")[0]
    settings = {"transport.preset": "dctcp", "workload.0.arrivals.load": 0.8}
    run = pf.run(text, set=settings)
    assert run.summary["syn_drops_not_ect"] == 0
    p99 = run.summary["fct_us"]["p99"]
    assert p99 is not None
    assert p99 < 100_000
    drops = {"transport.ect_on_syn": False, "switch.marker.not_ect": "drop"}
    without = pf.run(text, set=settings | drops)
    assert without.summary["syn_drops_not_ect"] > 0
    p99 = without.summary["fct_us"]["p99"]
    assert p99 is not None
    assert p99 > 1_000_000


@pytest.mark.parametrize("preset", ["tcp_bolt", "tcp_dcb"])
def test_bolt_starts_at_line_rate_on_the_default_stack(preset):
    """Linux's first window of 64 KB would limit a line-rate start: a flow of 500 KB on an idle path is one burst."""
    text = """
    topology = { kind = "star", hosts = 2, link = { rate = "10 Gbps", delay = "100 us" } }
    workload = [{ kind = "flows", flows = [{ src = "host0", dst = "host1", size = "400 KB" }] }]
    """
    settings = {"transport.preset": preset, "host.tx_jitter": "0 s"}
    (row,) = pf.run(text, set=settings).flows.rows()
    assert row["slowdown"] == pytest.approx(1.0, abs=1e-9)
    (slow,) = pf.run(text, set=settings | {"transport.receive_buffer": "linux"}).flows.rows()
    assert slow["slowdown"] > 1.5


def test_a_shared_buffer_without_anything_to_share_is_refused():
    text = """
    topology = { kind = "star", hosts = 4 }
    transport = { preset = "tcp_bolt" }
    switch = { buffer = { policy = "shared", size = "10 KB" } }
    workload = [{ kind = "n_to_1", size = "100 KB" }]
    """
    with pytest.raises(pf.ScenarioError, match="nothing is left to share") as raised:
        pf.run(text)
    assert raised.value.problems[0]["path"] == "switch.buffer.size"


@pytest.mark.parametrize("preset", ["newreno", "tcp_bolt"])
def test_what_the_fullest_switch_held(preset):
    """With one congested queue, the switch's peak occupancy is at least the largest backlog, and close to it."""
    import polars as pl

    text = """
    topology = { kind = "star", hosts = 9 }
    switch = { buffer = "100 KB" }
    workload = [{ kind = "n_to_1", size = "200 KB" }]
    """
    run = pf.run(text, set={"transport.preset": preset})
    of_switch = pl.DataFrame(run.ports).filter(pl.col("node").cast(pl.String) == run.summary["fullest_switch"])
    backlogs = of_switch["backlog_max_bytes"].to_list()
    assert max(backlogs) <= run.summary["switch_held_max_bytes"] <= sum(backlogs)
    assert run.summary["nic_queue"] == "per_flow"


@pytest.mark.parametrize("every_hop", [False, True])
def test_a_captured_packet_is_no_retransmission(tmp_path, every_hop):
    """A capture on all ports has each packet once; with `every_hop`, the interface distinguishes the copies."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed, so nobody judges the capture")
    text = """
    topology = { kind = "leaf_spine", leaves = 2, spines = 1, hosts_per_leaf = 2 }
    workload = [{ kind = "permutation", size = "50 KB" }]
    """
    folder = tmp_path / "out"
    packets = {"record.packets.ports": ["*"], "record.packets.every_hop": every_hop}
    run = pf.run(text, set=packets, out=folder)
    assert run.summary["drops"] == run.summary["retransmits"] == 0

    def lines(*more):
        command = ["tshark", "-r", folder / "packets.pcapng", *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert (lines("-Y", "tcp.analysis.retransmission") == []) != every_hop
    fields = lines(
        "-N", "n", "-T", "fields", "-e", "ip.src_host", "-e", "frame.interface_name", "-e", "frame.packet_flags"
    )
    hosts, interfaces, flags = zip(*(line.split("\t") for line in fields), strict=True)
    assert set(hosts) == {f"host{n}" for n in range(4)}, "hosts have names"
    assert {int(flag, 16) & 3 for flag in flags} == {2}, "outbound"
    assert ("leaf0:2" in interfaces) == every_hop


INCAST = """
stop = { time = "20 ms", when_finished = true }
topology = { kind = "star", hosts = 5, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = "60 KB" }
[[workload]]
kind = "n_to_1"
size = "200 KB"
receiver = "host0"
"""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("receive_window", "3 KB"),
        ("receive_buffer_initial", "20 KB"),
        ("receive_buffer_max", "800 KB"),
    ],
)
def test_sizes_of_another_kind_of_receive_buffer_are_said(key, value):
    """The window of a Linux host follows its buffer, and that of a fixed one is `receive_window`."""
    kind = "linux" if key == "receive_window" else "fixed"
    other = "fixed" if kind == "linux" else "linux"
    said = [f"transport.{key}: receive_buffer is {kind!r}, so it changes nothing".replace("'", '"')]
    settings = {"transport.preset": "cubic", f"transport.{key}": value}
    of_kind: dict[str, list[str]] = {kind: [], other: []}
    for name, warnings in of_kind.items():
        run = pf.run(INCAST, set=settings | {"transport.receive_buffer": name})
        warnings += [warning for warning in run.summary["warnings"] if key in warning]
    assert of_kind == {kind: said, other: []}


def test_the_adaptive_timer_knows_no_second_timeout():
    runs = [
        pf.run(INCAST, set={"transport.preset": "roce_cx5"} | more)
        for more in ({}, {"transport.rdma_timeout_low": "10 us"})
    ]
    assert runs[0].summary["fingerprint"] == runs[1].summary["fingerprint"]
    assert any("rdma_timeout_low" in warning for warning in runs[1].summary["warnings"])


def test_nscc_is_told_of_the_timeout_that_it_has():
    """Windows below two packets queue for longer than htsim's least timeout, and nothing is lost."""
    star = INCAST.replace("hosts = 5", "hosts = 9").replace('"10 Gbps"', '"1 Gbps"').replace('"60 KB"', '"4 MB"')
    run = pf.run(star, set={"transport.preset": "uec_nscc", "workload.0.size": "1 MB"})
    advice = [warning for warning in run.summary["warnings"] if "again" in warning or "timeouts" in warning]
    assert (run.summary["drops"], len(advice)) == (0, 2)
    assert all("rdma_timeout" in warning and "ibta" not in warning for warning in advice)


def test_servers_of_queries_are_the_hosts_that_are_not_aggregators():
    """The reference named all hosts, which include the aggregator."""
    text = """
    stop = "1 s"
    topology = { kind = "star", hosts = 5 }
    workload = { kind = "scatter_gather", aggregators = ["host1"], gaps = { mean = "2 ms" }, stop = "10 ms" }
    """
    run, named = pf.run(text), pf.run(text, set={"workload.0.servers": ["host0", "host2", "host3", "host4"]})
    # One of the four servers asks the three others.
    assert {row["fan_in"] for row in run.queries} == {3}
    assert run.summary["fingerprint"] == named.summary["fingerprint"]
    (default,) = (
        option["default"]
        for option in _core.options()
        if option["path"] == "workload.servers" and option["when"].endswith("scatter_gather")
    )
    assert default == "all hosts that are not aggregators"
