"""Mux cables and peer links of MLAG in scenarios: keys, errors, warnings of the proof, tables."""

import pauseframe as pf
import pytest
from pauseframe import _core

MUX = """
name = "mux"
stop = "300 ms"
[topology]
kind = "leaf_spine"
leaves = 4
spines = 1
hosts_per_leaf = 8
ports_per_host = 2
link = { rate = "25 Gbps", delay = "500 ns" }
[routing]
kind = "ecmp"
REMAP
[host]
port_choice = "mux"
mux_active = ["host*1:1", "host*3:1", "host*5:1", "host*7:1", "host*9:1"]
[switch]
buffer = { policy = "per_port", size = "300 KB" }
pfc = { priorities = [3, 4] }
[transport]
preset = "roce_dcqcn"
rdma_control = "none"
[workload]
kind = "flows"
flows = [FLOWS]
"""
REMAP = "tunnel_remap = [{ priority = 3, outer = 4 }]"


def mux(remap: str = "", **changes: str) -> str:
    """Hosts of the second rack send to those of the first; neighbours there with other active ToRs, to each other."""
    pairs = [(f"host{16 + (5 * host + turn) % 16}", f"host{host}") for host in range(16) for turn in range(4)]
    pairs += [(f"host{host}", f"host{(host + turn) % 16}") for host in range(16) for turn in (1, 3)]
    flows = ", ".join(f'{{ src = "{src}", dst = "{dst}", size = "2 MB" }}' for src, dst in pairs)
    text = MUX.replace("REMAP", remap).replace("FLOWS", flows)
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def test_a_bounce_in_its_own_class_deadlocks_as_the_proof_says() -> None:
    run = pf.run(mux(), progress=False)
    assert run.status == "deadlock"
    assert any("tunnels between ToRs can deadlock" in text for text in run.summary["warnings"])
    queues = list(run.deadlocks)
    leaves = {row["node"] for row in queues if row["node"] in {"leaf0", "leaf1"}}
    assert leaves == {"leaf0", "leaf1"}


def test_a_class_for_tunnels_has_no_deadlock() -> None:
    run = pf.run(mux(REMAP), progress=False)
    assert run.status == "complete"
    assert run.summary["flows_finished"] == 96
    assert not any("deadlock" in text for text in run.summary["warnings"])
    counts = {row["node"]: row for row in run.tunnels}
    assert set(counts) == {"leaf0", "leaf1", "leaf2", "leaf3"}
    sent = sum(row["encapsulated_packets"] for row in counts.values())
    assert sent == sum(row["decapsulated_packets"] for row in counts.values()) > 0
    up = [row for row in run.ports if row["node"] == "leaf0" and row["peer"] == "spine0" and row["tx_packets"]]
    assert {row["priority"] for row in up} >= {3, 4}


REFUSED = {
    "one port": ({"ports_per_host = 2": "", "mux_active": "# mux_active"}, "a mux cable joins a host to two ToRs"),
    "tables": ({'kind = "ecmp"': 'kind = "up_down"'}, "a tunnel is a part of a flow's path"),
    "conweave": ({'kind = "ecmp"': 'kind = "conweave"', "spines = 1": "spines = 2"}, "a tunnel is a part of a flow's"),
    "kernel": ({'port_choice = "mux"': 'port_choice = "mux"\nstack = "kernel"'}, "a kernel host has one port"),
    "planes": ({"ports_per_host = 2": "planes = 2"}, "planes that no link joins"),
    "no such port": ({'["host*1:1",': '["host*1:2",'}, "is no port of a host with two"),
    "both ToRs": ({'["host*1:1",': '["host*",'}, "names both ports of"),
    "captures": ({"[transport]": "[record]\npackets = true\n[transport]"}, "captures do not show outer headers"),
    "trimming": ({"[switch]": '[switch]\nqueue = "trim"'}, "trimmed packets are not simulated in tunnels"),
    "mlag": ({'kind = "ecmp"': 'kind = "ecmp"\nmlag = true'}, "no link joins two switches that share hosts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(name: str) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(pf.ScenarioError, match=message):
        pf.run(mux(**changes), progress=False)


def test_classes_of_tunnels_are_checked() -> None:
    with pytest.raises(pf.ScenarioError, match="in two rows"):
        pf.run(mux(REMAP.replace("]", ", { priority = 3, outer = 5 }]")), progress=False)
    with pytest.raises(pf.ScenarioError, match="priority 4 is lossless and 0 is not"):
        pf.run(mux(REMAP.replace("priority = 3", "priority = 0")), progress=False)
    run = pf.run(mux(REMAP.replace("outer = 4", "outer = 1")), progress=False)
    assert any("the tunnel can drop packets that must not be lost; add 1" in text for text in run.summary["warnings"])
    with pytest.raises(pf.ScenarioError, match="no host has a mux cable"):
        pf.run(mux(REMAP, **{'port_choice = "mux"': 'port_choice = "xor"'}), progress=False)


def test_flow_level_refuses_detours() -> None:
    with pytest.raises(pf.RunError, match="port_choice"):
        _core.run_flows(_core.resolve(mux(REMAP)))


MLAG = """
stop = "200 ms"
[topology]
kind = "leaf_spine"
leaves = 4
spines = 2
hosts_per_leaf = 2
ports_per_host = 2
peer_links = 1
link = { rate = "25 Gbps", delay = "500 ns" }
[routing]
mlag = true
convergence = "20 us"
[host]
port_choice = "xor"
miimon = "1 ms"
[transport]
preset = "roce_dcqcn"
[workload]
kind = "permutation"
size = "4 MB"
"""


BONDS = ("802.3ad", "active-backup", "queue_affinity", "least_loaded", "balance-rr")


@pytest.mark.parametrize("choice", BONDS)
@pytest.mark.parametrize("preset", ["roce_dcqcn", "dctcp"])
def test_a_peer_link_serves_every_bond(choice: str, preset: str) -> None:
    """Two hosts of different racks lose a port each, while others keep both."""
    text = MLAG.replace('"xor"', f'"{choice}"\nnic_queue = "per_flow"').replace("roce_dcqcn", preset)
    text = text.replace("200 ms", "2 s").replace("4 MB", "1 MB")
    failures = [f'[[failure]]\nport = "host{host}:0"\ndown = "50 us"\n' for host in (0, 4)]
    run = pf.run(text + "".join(failures), progress=False)
    assert run.summary["flows_finished"] == 8
    assert _across(run) > 0


def test_rails_have_no_peer_link() -> None:
    with pytest.raises(pf.ScenarioError, match="each port has its own address"):
        pf.run(MLAG.replace('"xor"', '"rail"'), progress=False)


def _across(run: pf.Run) -> int:
    pairs = {("leaf0", "leaf1"), ("leaf1", "leaf0"), ("leaf2", "leaf3"), ("leaf3", "leaf2")}
    return sum(row["tx_packets"] for row in run.ports if (row["node"], row["peer"]) in pairs)


def test_a_peer_link_carries_what_has_no_other_way() -> None:
    idle = pf.run(MLAG, progress=False)
    assert _across(idle) == 0
    failures = [f'[[failure]]\nport = "host{host}:0"\ndown = "50 us"\n' for host in (0, 4)]
    failed = pf.run(MLAG + "".join(failures), progress=False)
    assert _across(failed) > 0
    assert failed.summary["flows_finished"] == 8
    assert not any("deadlock" in text for text in failed.summary["warnings"])
    reasons = ("drops_buffer_full", "drops_headroom_exceeded", "drops_headroom_pool")
    assert all(row[reason] == 0 for row in failed.ports for reason in reasons)


def test_an_orphan_is_reached_over_the_peer_of_its_leaf() -> None:
    """A host with one port at a leaf that loses its uplinks."""
    text = """
    stop = "100 ms"
    [topology]
    kind = "custom"
    hosts = ["orphan", "dual", "far"]
    switches = ["leaf0", "leaf1", "spine"]
    links = [["orphan", "leaf0"], ["dual", "leaf0"], ["dual", "leaf1"], ["far", "spine"], ["leaf0", "spine"],
             ["leaf1", "spine"], ["leaf0", "leaf1"]]
    [routing]
    mlag = true
    convergence = "10 us"
    [transport]
    preset = "roce_dcqcn"
    [workload]
    kind = "flows"
    flows = [{ src = "far", dst = "orphan", size = "5 MB" }]
    """
    idle = pf.run(text, progress=False)
    assert _across(idle) == 0
    cut = text + '[[failure]]\nlink = ["leaf0", "spine"]\ndown = "100 us"\n'
    failed = pf.run(cut, progress=False)
    assert failed.summary["flows_finished"] == 1
    assert _across(failed) > 1000
