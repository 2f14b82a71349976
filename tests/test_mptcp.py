"""Connections over several subflows, from the file to the tables."""

from __future__ import annotations

import pauseframe as pf
import pytest

FABRIC = """
stop = "50 ms"
[topology]
kind = "leaf_spine"
leaves = 2
spines = 4
hosts_per_leaf = 4
link = { rate = "10 Gbps", delay = "2 us" }
[transport]
preset = "dctcp"
[workload]
"""
PERMUTATION = FABRIC + 'kind = "permutation"\nsize = "4 MB"\n'


def run(text: str, **keys: object) -> pf.Run:
    return pf.run(text, set={f"transport.{key}": value for key, value in keys.items()}, progress=False)


def test_subflows_pass_a_collision_of_hashes() -> None:
    slowest = {}
    for subflows in (1, 4):
        done = run(PERMUTATION, subflows=subflows)
        rows = list(done.flows)
        assert [row["status"] for row in rows] == ["finished"] * 8
        assert all(row["delivered_bytes"] == 4_000_000 and row["slowdown"] >= 1 for row in rows)
        slowest[subflows] = max(row["fct_us"] for row in rows)
    assert slowest[4] < 0.6 * slowest[1]


def test_counts_of_subflows_are_those_of_their_flow() -> None:
    """Marks that switches set are those that flows count, and bytes of flows those of ports."""
    marker = {"switch.marker": {"kind": "step", "k": "20 KB"}, "transport.subflows": 3}
    # Marks of the packets that open further subflows, which come behind a queue, count for no flow.
    marker |= {"transport.handshake": False, "switch.buffer": {"policy": "per_port", "size": "4 MB"}}
    done = pf.run(
        FABRIC + 'kind = "n_to_1"\nsenders = 7\nreceiver = "host0"\nsize = "1 MB"\n', set=marker, progress=False
    )
    flows, ports = list(done.flows), list(done.ports)
    assert sum(row["ce_packets"] for row in flows) == sum(row["ecn_marks"] for row in ports) > 0
    goodput = sum(row["delivered_bytes"] for row in flows)
    received = sum(row["tx_bytes"] for row in ports if row["peer"].startswith("host"))
    # Data with headers, and acknowledgements with theirs: 66 B of Ethernet, IP, TCP and timestamps, and DSS.
    assert 1.06 * goodput < received < 1.15 * goodput


@pytest.mark.parametrize(
    "workload",
    [
        'kind = "requests"\nclient = "host0"\nserver = "host4"\nresponse = "1 MB"\ncount = 3',
        'kind = "storage"\ninitiators = ["host0"]\ntargets = ["host4"]\nsizes = "256 KB"\ncount = 5',
        'kind = "incast"\nfan_in = 3\nresponse = ["100 KB"]\nrequest = "1 KB"\nrate = 1000\nstop = "3 ms"',
        'kind = "application"\npattern = "all_to_all"\nranks = 4\nsize = "100 KB"',
    ],
)
def test_every_workload_of_tcp_runs_over_subflows(workload: str) -> None:
    plain, multipath = (run(FABRIC + workload, subflows=subflows, stack="linux") for subflows in (1, 3))
    for done in (plain, multipath):
        assert all(row["status"] == "finished" for row in done.flows)
    total = [sum(row["delivered_bytes"] for row in done.flows) for done in (plain, multipath)]
    assert total[0] == total[1] > 0
    assert len(list(plain.flows)) == len(list(multipath.flows))


def test_a_way_of_each_subflow_is_recorded() -> None:
    done = pf.run(PERMUTATION, set={"transport.subflows": 8, "record.paths": True}, progress=False)
    spines = {row["node"] for row in done.paths if row["node"].startswith("spine") and row["flow"] == 0}
    assert len(spines) >= 3, "eight subflows over four spines"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transport.read_rate": "1 Gbps"}, "each subflow would be read at read_rate"),
        ({"record.packets": {"limit": 100}}, "captures do not show MPTCP's options yet"),
        ({"host.stack": "kernel"}, "hosts with a kernel open TCP connections"),
        ({"transport.subflows": 33}, "32"),
        ({"transport.kind": "rdma", "transport.preset": "roce_dcqcn"}, "subflows"),
    ],
)
def test_what_subflows_cannot_do_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(pf.ScenarioError, match=message):
        pf.run(PERMUTATION, set={"transport.subflows": 2} | change, progress=False)


def test_lia_without_subflows_is_warned_of() -> None:
    [text] = [text for text in run(PERMUTATION, congestion_control="lia").summary["warnings"] if "lia" in text]
    assert "a connection has one" in text
