"""Queue pairs from scenario to report: keys of DCQCN, trimming, and what tables and reports tell of them."""

import re
import shutil
import statistics
import subprocess
import tomllib
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe._core import Resolved, ScenarioError, resolve
from pauseframe.report import data, summary
from pauseframe.sweep.plan import Source
from pauseframe.tune.formulas import facts_of, suggestions

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "python/pauseframe/examples/roce"
INCAST = """
name = "incast"
[topology]
kind = "star"
hosts = 5
link = { rate = "40 Gbps", delay = "1 us" }
[switch]
marker = { kind = "red", min = "5 KB", max = "200 KB", p_max = 0.01, at = "dequeue", not_ect = "queue" }
[transport]
preset = "roce_dcqcn"
[transport.rdma]
rdma_control = "dcqcn_paper"
[[workload]]
kind = "n_to_1"
senders = 4
receiver = "host0"
size = "4 MB"
[record]
series = { every = "50 us", flows = ["*"] }
"""


def run(text: str, **changes: str | float) -> pf.Run:
    return pf.run(Source.read(text).resolve_with(changes, seed=1), progress=False)


def last_flow(done: pf.Run) -> float:
    return float(pl.DataFrame(done.flows)["finish_us"].to_numpy().max())


def test_nics_serve_flows_in_turn_and_switches_mark_by_the_queue_itself() -> None:
    def of(text: str) -> tuple[str, float]:
        resolved = tomllib.loads(resolve(text).toml)
        return resolved["host"]["nic_queue"], resolved["switch"]["marker"]["w_q"]

    assert of(INCAST) == ("per_flow", 1.0)
    assert of(INCAST + '[host]\nnic_queue = "fifo"\n') == ("fifo", 1.0)
    assert of(INCAST.replace("roce_dcqcn", "dctcp").replace('at = "dequeue"', 'at = "enqueue"')) == ("per_flow", 1.0)


@pytest.mark.parametrize(
    ("key", "value", "least", "most"),
    [
        ("dcqcn_additive_increase", "4 Gbps", 0.0, 0.9),
        ("dcqcn_rise_interval", "5 ms", 2.0, 99.0),
        ("dcqcn_alpha_interval", "500 ns", 0.0, 0.9),
        ("dcqcn_minimum_rate", "10 Gbps", 0.0, 0.9),
        ("dcqcn_byte_counter", "10 KB", 0.0, 0.6),
        ("dcqcn_recovery_steps", 1, 0.0, 0.99),
    ],
)
def test_constants_of_dcqcn_change_what_the_flows_take(key: str, value: str | float, least: float, most: float) -> None:
    changed = run(INCAST, **{f"transport.{key}": value})
    assert least < last_flow(changed) / last_flow(run(INCAST)) < most


def test_a_report_counts_notifications() -> None:
    done = data.from_run(run(INCAST))
    tables = summary.tables([done])
    assert ("RoCE", 3) in tables[1].heads
    sent = int(done.flows.select(pl.col("cnps_sent").sum()).collect().item())
    assert 0 < data.flow_sum(done, "cnps_received") <= sent
    tcp = data.from_run(run(INCAST.replace("roce_dcqcn", "dctcp")))
    assert "RoCE" not in dict(summary.tables([tcp])[1].heads)


def test_trimmed_packets_are_sent_again_and_nothing_is_dropped() -> None:
    done = pf.run(Source.read((EXAMPLES / "nscc.toml").read_text()).resolve_with({}, seed=1), progress=False)
    trims = int(pl.DataFrame(done.ports)["trims"].sum())
    flows = pl.DataFrame(done.flows)
    assert trims > 0
    assert (done.summary["drops"], int(flows["repeats_by_nak"].sum())) == (0, trims)
    assert flows["status"].cast(pl.String).unique().to_list() == ["finished"]


def test_tune_starts_with_published_constants_of_dcqcn() -> None:
    facts = facts_of(Source.read(INCAST).resolve())
    for key, paper, card in (
        ("rdma_cnp_interval", 50e-6, 4e-6),
        ("dcqcn_rise_interval", 55e-6, 300e-6),
        ("dcqcn_additive_increase", 40e6, 5e6),
    ):
        for path in (f"transport.{key}", f"transports.roce.{key}"):
            found = [(suggestion.path, suggestion.value) for suggestion in suggestions(facts, path)]
            assert [name for name, _ in found] == [path, path]
            assert [value for _, value in found] == pytest.approx([paper, card])


def test_the_page_on_who_pays_tells_what_the_runs_give() -> None:
    page = (ROOT / "docs/how-to/tcp-and-roce.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (yes|no) \| (one|two) \| (DCTCP|CUBIC) \| (.*) \|$", page, re.M)
    assert len(rows) == 8
    for pfc, classes, tcp, figures in rows:
        assert figures.split(" | ") == who_pays(pfc == "yes", classes == "one", tcp.lower()), (pfc, classes, tcp)


def who_pays(has_pfc: bool, shares_class: bool, tcp: str) -> list[str]:
    """Medians of five seeds: Gb/s of RoCE and of TCP, drops, pause frames, and the mean queue of the link in KB."""
    changes = {"transports.tcp.preset": tcp, "transports.roce.lossless": has_pfc, "transports.roce.priority": 3}
    if shares_class:
        changes |= {"transports.tcp.lossless": has_pfc, "transports.tcp.priority": 3}
    text = (EXAMPLES / "roce_and_tcp.toml").read_text(encoding="utf-8")
    runs = [measured(Source.read(text).resolve_with(changes, seed=seed)) for seed in range(1, 6)]
    roce, tcp_rate, drops, pauses, queue = (statistics.median(values) for values in zip(*runs, strict=True))
    return [f"{roce:.1f}", f"{tcp_rate:.1f}", f"{drops:,}", f"{pauses:,}", f"{queue:,.0f}"]


def measured(scenario: Resolved) -> tuple[float, float, int, int, float]:
    done = pf.run(scenario, progress=False)
    flows, ports = pl.DataFrame(done.flows), pl.DataFrame(done.ports)
    bits = 8 / done.summary["sim_time_s"] / 1e9
    roce, tcp = (
        float(flows.filter(pl.col("transport").cast(pl.String) == name)["delivered_bytes"].to_numpy().sum()) * bits
        for name in ("roce", "tcp")
    )
    queue = float(ports.filter(pl.col("port").cast(pl.String) == "switch:0")["backlog_mean_bytes"].to_numpy().sum())
    return roce, tcp, done.summary["drops"], done.summary["pfc_pauses"], queue / 1e3


BIG_INCAST = """
stop = { time = "40 ms", when_finished = true }
topology = { kind = "star", hosts = 9, link = { rate = "100 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", senders = 8, size = "1 MB" }]
[switch]
buffer = { policy = "shared", size = "4 MB", alpha = 1.0 }
marker = { kind = "red", min = "100 KB", max = "400 KB", p_max = 0.2, w_q = 1.0, at = "dequeue", not_ect = "queue" }
[transport]
preset = "roce_dcqcn"
"""


@pytest.mark.parametrize("rate", [25, 100, 400])
def test_an_incast_with_the_cards_registers_ends_within_twice_the_time_of_pfc_alone(rate: int) -> None:
    link = {"topology.link.rate": f"{rate} Gbps"}
    alone = last_flow(run(BIG_INCAST, **link, **{"transport.rdma_control": "none"}))
    assert last_flow(run(BIG_INCAST, **link)) < 2 * alone


def test_cnps_are_limited_as_the_control_has_it() -> None:
    def limit(control: str) -> tuple[str, str]:
        text = f'{BIG_INCAST}rdma_control = "{control}"\n'
        transport = tomllib.loads(resolve(text).toml)["transport"]
        return transport["rdma_cnp_interval"], transport["rdma_cnp_scope"]

    assert limit("dcqcn_connectx") == limit("dcqcn_cx5_measured") == ("4 us", "port")
    assert limit("dcqcn_hpcc") == ("0 s", "queue_pair")
    assert limit("dcqcn_paper") == ("50 us", "queue_pair")


@pytest.mark.parametrize(("control", "refuses"), [("hpcc", True), ("swift", True), ("timely", False), ("none", False)])
def test_a_window_beside_a_control_that_has_one_is_refused(control: str, refuses: bool) -> None:
    text = f'{BIG_INCAST}rdma_control = "{control}"\nrdma_window = "by_rate"\n'
    if refuses:
        with pytest.raises(ScenarioError, match=f"rdma_window: {control} has a window already"):
            resolve(text)
    else:
        resolve(text)


def test_keys_of_another_control_are_warned_of() -> None:
    for key in ("dcqcn_gain = 0.5", "hpcc_flows = 3"):
        done = run(f'{BIG_INCAST}rdma_control = "timely"\n{key}\n')
        assert any("change" in warning and key.split("_")[0] in warning for warning in done.summary["warnings"])


SMALL_WINDOWS = """
stop = { time = "20 ms", when_finished = false }
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { preset = "roce_hpcc" }
workload = [{ kind = "n_to_1", senders = 3, size = "100 GB" }]
"""


def test_hpcc_is_fair_with_the_papers_increase_and_warns_of_small_windows() -> None:
    def share(done: pf.Run) -> float:
        got = pl.DataFrame(done.flows)["delivered_bytes"].to_numpy()
        return float(got.min() / got.mean())

    starved, even = run(SMALL_WINDOWS), run(SMALL_WINDOWS, **{"transport.hpcc_flows": 3})
    assert share(starved) < 0.5
    assert share(even) > 0.95
    assert any("the mean window of" in warning for warning in starved.summary["warnings"])
    assert any("max-min share" in warning for warning in starved.summary["warnings"])
    assert not any("max-min share" in warning for warning in even.summary["warnings"])


@pytest.mark.parametrize(
    ("rate", "delay", "mtu"),
    [("800 Gbps", "10 us", "1024 B"), ("100 Gbps", "100 us", "1024 B"), ("800 Gbps", "1 us", "256 B")],
)
def test_a_lone_flow_of_swift_fills_its_link(rate: str, delay: str, mtu: str) -> None:
    """htsim's limit of 1000 packets is less than the link carries in a round trip."""
    text = f"""
    topology = {{ kind = "star", hosts = 2, link = {{ rate = "{rate}", delay = "{delay}" }} }}
    transport = {{ preset = "roce_swift", rdma_mtu = "{mtu}" }}
    workload = [{{ kind = "flows", flows = [{{ src = "host0", dst = "host1", size = "20 MB" }}] }}]
    """
    assert float(pl.DataFrame(run(text).flows)["slowdown"][0]) < 1.001


def test_a_capture_shows_no_reserved_queue_pair(tmp_path: Path) -> None:
    """tshark takes packets of 256 bytes to the queue pair 1 for management datagrams."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed, so nobody judges the capture")
    text = """
    topology = { kind = "star", hosts = 2, link = { rate = "100 Gbps", delay = "1 us" } }
    transport = { preset = "roce_dcqcn", rdma_mtu = "256 B" }
    record = { packets = true }
    workload = [{ kind = "flows", flows = [{ src = "host0", dst = "host1", size = "2560 B" }] }]
    """
    pf.run(text, out=tmp_path / "out", progress=False)
    command = ["tshark", "-r", str(tmp_path / "out" / "packets.pcapng"), "-T", "fields", "-e", "_ws.malformed"]
    command += ["-e", "infiniband.bth.destqp"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split("\t")[0] for line in lines} == {""}
    assert not {int(line.split("\t")[1], 16) for line in lines} & {0, 1}


@pytest.mark.parametrize(("mtu", "size"), [("4176 B", 4096), ("4217 B", 4096), ("4218 B", None), ("4175 B", None)])
def test_a_run_warns_where_telemetry_halves_the_packets(mtu: str, size: int | None) -> None:
    text = INCAST.replace("[transport]", f'[host]\nmtu = "{mtu}"\n[transport]')
    for preset in ("roce_hpcc", "roce_swift"):
        said = [
            one
            for one in resolve(text.replace("roce_dcqcn", preset).replace('rdma_control = "dcqcn_paper"', "")).warnings
            if "rdma_mtu" in one
        ]
        assert bool(said) == (preset == "roce_hpcc" and size is not None)
