"""Storage: operations on queue pairs and on TCP, from the scenario to the report."""

from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report import data
from pauseframe.report.operations import operations_table
from pauseframe.results.operations import operations
from pauseframe.sweep.plan import Source

EXAMPLES = Path(__file__).parents[1] / "python/pauseframe/examples/storage"
STORAGE = """
name = "storage"
[topology]
kind = "star"
hosts = 3
link = { rate = "100 Gbps", delay = "1 us" }
[transport]
preset = "roce_dcqcn"
ecn = "off"
[transport.rdma]
rdma_control = "none"
[switch]
marker = "none"
[host]
tx_jitter = "0 s"
[[workload]]
kind = "storage"
targets = ["host0"]
initiators = ["host1"]
sizes = "64 KiB"
count = 400
"""
TCP = {"preset": "tcp_bolt", "initial_window": "1 MB", "receive_window": "4 MB"}
BYTE_US = 8e-5
"""Time of a byte at 100 Gb/s."""
FRAME = 1024 + 62 + 4 + 20
"""A full packet on the wire: headers, priority tag, preamble and gap."""
RESPONSE = 64 * FRAME + 2 * 4
"""A response of 64 KiB: its first and its last packet have an AETH."""


def run(text: str = STORAGE, **changes: str | float | bool) -> pf.Run:
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    return pf.run(Source.read(text).resolve_with(keys, seed=1), progress=False)


def flows_of(done: pf.Run) -> pl.DataFrame:
    return pl.DataFrame(done.flows).with_columns(pl.col("operation", "status").cast(pl.String))


def test_one_read_at_a_time_takes_what_its_packets_take() -> None:
    flows = flows_of(run())
    request, links = 78 + 4 + 20, 2.0
    expected = (2 * request + FRAME + 4 + RESPONSE) * BYTE_US + 2 * links
    assert flows["operation"].unique().to_list() == ["read"]
    assert flows["fct_us"].to_list() == pytest.approx([expected] * 400)
    assert flows["slowdown"].to_list() == pytest.approx([1.0] * 400)


def test_a_deep_queue_fills_the_link_to_within_its_headers() -> None:
    done = data.from_run(run(workload__queue_depth=16))
    reads = operations(done.flows).row(0, named=True)
    begin = (2 * (78 + 4 + 20) + FRAME + 4) * BYTE_US + 4.0
    seconds = (begin + 400 * RESPONSE * BYTE_US) / 1e6
    assert reads["per_second"] == pytest.approx(400 / seconds)
    assert reads["bits_per_second"] == pytest.approx(400 * 65536 * 8 / seconds)
    table = operations_table([done])
    assert table is not None
    assert table.rows[0][0].endswith(": storage, read")


@pytest.mark.parametrize("selective", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_losses_are_repaired(selective: bool, share: float) -> None:
    changes: dict[str, str | float | bool] = {
        "transport__lossless": False,
        "transport__priority": 3,
        "switch__buffer": "60 KB",
    }
    changes |= {"transport__rdma_selective_repeat": selective, "transport__rdma_timeout": "1 ms"}
    # Reads collide at the initiator, writes at the target.
    several = STORAGE.replace('targets = ["host0"]', 'targets = ["host0", "host2"]') if share else STORAGE
    several = several.replace('initiators = ["host1"]\n', "") if not share else several
    done = run(several, workload__queue_depth=4, workload__read_share=share, **changes)
    flows = flows_of(done)
    assert done.summary["drops"] > 0
    assert flows["status"].unique().to_list() == ["finished"]
    assert flows["delivered_bytes"].unique().to_list() == [65536]
    assert int(flows["retransmits"].sum()) >= done.summary["drops"]


def test_pauses_keep_responses_from_being_lost() -> None:
    two = STORAGE.replace('targets = ["host0"]', 'targets = ["host0", "host2"]')
    done = run(two, workload__queue_depth=16, switch__buffer="1 MB")
    flows = flows_of(done)
    assert (done.summary["drops"], int(flows["retransmits"].sum())) == (0, 0)
    assert done.summary["pfc_pauses"] > 0
    last = float(flows["finish_us"].to_numpy().max())
    assert last == pytest.approx(800 * RESPONSE * BYTE_US, rel=0.01)


def test_the_same_keys_run_over_tcp() -> None:
    keys = {f"transport__{key}": value for key, value in TCP.items()}
    flows = flows_of(run(workload__read_share=0.5, **keys))
    # A command waits for at most two ACKs of the data before it, frames of 94 bytes that the ideal time leaves out.
    late = flows["fct_us"] - flows["ideal_fct_us"]
    assert (late > -1e-6).all()
    assert (late < 2 * 94 * BYTE_US + 1e-6).all()
    sizes = flows.select("operation", "size_bytes", "reply_bytes").unique().sort("operation").rows()
    assert sizes == [("read", 72, 65536 + 24), ("write", 65536 + 72, 24)]
    deep = flows_of(run(workload__read_share=0.5, workload__queue_depth=8, **keys))
    assert deep["finish_us"].is_sorted()
    assert (deep["delivered_bytes"] == deep["size_bytes"] + deep["reply_bytes"]).all()
    assert float(deep["finish_us"].to_numpy().max()) < 0.6 * float(flows["finish_us"].to_numpy().max())


def test_the_responder_is_slowed_down() -> None:
    red = 'marker = { kind = "red", min = "5 KB", max = "200 KB", p_max = 0.01, at = "dequeue", not_ect = "queue" }'
    two = STORAGE.replace('marker = "none"', red).replace('targets = ["host0"]', 'targets = ["host0", "host2"]')
    two += '[record]\nstates = true\nseries = { every = "20 us", flows = ["*"] }\n'
    changes: dict[str, str | float | bool] = {
        "transport__rdma_control": "dcqcn_connectx",
        "transport__ecn": "classic",
        "workload__queue_depth": 1,
    }
    done = run(two, **changes)
    rates = pl.DataFrame(done.series).filter(pl.col("metric").cast(pl.String) == "rdma_rate_gbps")
    assert float(rates["value"].to_numpy().min()) < 99
    # CNPs are sent by the initiator and received by the targets.
    states = pl.DataFrame(done.states).with_columns(pl.col("kind", "port").cast(pl.String))
    ports = {kind: set(states.filter(pl.col("kind") == kind)["port"]) for kind in ("cnps_sent", "cnps_received")}
    assert ports == {"cnps_sent": {"host1:0"}, "cnps_received": {"host0:0", "host2:0"}}
    counted = int(states.filter(pl.col("kind") == "cnps_received")["value"].to_numpy().sum())
    assert 0 < counted <= int(flows_of(done)["cnps_received"].sum())


@pytest.mark.parametrize("control", ["hpcc", "timely", "swift"])
def test_reads_are_refused_where_acknowledgements_steer(control: str) -> None:
    with pytest.raises(pf.ScenarioError, match=r"needs acknowledgements.*use kind = .requests."):
        run(transport__rdma_control=control)
    flows = flows_of(run(transport__rdma_control=control, workload__read_share=0.0, workload__count=5))
    assert flows["status"].unique().to_list() == ["finished"]


def test_the_example_has_reads_and_writes() -> None:
    done = data.from_run(
        pf.run(Source.read((EXAMPLES / "storage.toml").read_text()).resolve_with({}, seed=1), progress=False)
    )
    found = operations(done.flows)
    assert found["operation"].to_list() == ["read", "write"]
    reads, writes = found["count"].to_list()
    assert reads / (reads + writes) == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("preset", ["cubic", "dctcp", "tcp_bolt"])
def test_reads_over_tcp_do_not_wait_for_each_other(preset: str) -> None:
    """At a depth that the link carries a read takes as long as alone: NVMe over TCP sets TCP_NODELAY."""
    text = f"""
stop = {{ time = "2 ms", when_finished = false }}
transport = {{ preset = "{preset}" }}
topology = {{ kind = "star", hosts = 2, link = {{ rate = "100 Gbps", delay = "1 us" }} }}
[[workload]]
kind = "storage"
targets = ["host0"]
initiators = ["host1"]
sizes = "4096 B"
"""
    medians = [flows_of(run(text, workload__0__queue_depth=depth))["fct_us"].median() for depth in (1, 2, 4, 8)]
    assert medians == pytest.approx([medians[0]] * 4, rel=1e-3)
