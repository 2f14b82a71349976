"""Ports of one host are no pair that routes must serve: in tables, proofs, failures and shortest paths."""

import json
from pathlib import Path
from typing import Any

import pauseframe as pf
import pytest

LANE = "vlan,lane\n1,0\n\nswitch,vlan,destination,port\n"
SERVED = """s2,1,a,eth3
s2,1,d,eth1
s2,1,d.eth2,eth2
s0,1,a,eth1
s0,1,d,eth2
s1,1,a,eth1
s1,1,d.eth2,eth2
"""
"""All routes between the hosts a and d, by either port of d."""
CLOCKWISE = """s0,1,a,eth1
s1,1,a,eth3
s2,1,a,eth2
s0,1,d,eth3
s1,1,d,eth2
s2,1,d,eth2
s0,1,d.eth2,eth1
s1,1,d.eth2,eth2
s2,1,d.eth2,eth3
"""
"""Only a route from d to its own other port would close the ring."""
FABRICS = {
    "served": (["s2-s0", "s2-s1", "a-s2", "d-s0", "d-s1"], SERVED),
    "clockwise": (["s0-s1", "s1-s2", "s2-s0", "a-s1", "d-s0", "d-s2"], CLOCKWISE),
}


def fabric(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of a topology and of its tables."""
    links, rows = FABRICS[name]
    nodes = [{"id": node, "kind": "switch" if node[0] == "s" else "host"} for node in ("s0", "s1", "s2", "a", "d")]
    edges = [dict(zip(("source", "target"), link.split("-"), strict=True)) for link in links]
    graph = {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": edges}
    topology, tables = folder / "fabric.json", folder / "tables.csv"
    topology.write_text(json.dumps(graph))
    tables.write_text(LANE + rows)
    return topology, tables


def what_if(report: Any) -> dict[str, Any]:
    """What failures would lose, by kind."""
    found: dict[str, Any] = report["what_if"]
    return found


@pytest.mark.parametrize("name", FABRICS)
def test_tables_need_no_route_from_a_host_to_itself(name: str, tmp_path: Path) -> None:
    topology, tables = fabric(tmp_path, name)
    single = pf.load_topology(topology).with_single_ports()
    report = pf.read_routes(tables, single).check(what_if=True)
    assert (report["clean"], report["delivered"], report["black_holes"]["count"]) == (True, 4, 0)
    assert report["unreachable"]["count"] == 0
    lost = [failure["example"] for kind in what_if(report).values() for failure in kind["worst"]]
    assert lost
    assert all("a" in (pair["from"], pair["to"]) for pair in lost)


@pytest.mark.parametrize("name", FABRICS)
def test_a_scenario_takes_such_tables(name: str, tmp_path: Path) -> None:
    fabric(tmp_path, name)
    scenario = tmp_path / "run.toml"
    scenario.write_text("""
        topology = { kind = "file", path = "fabric.json" }
        routing = { kind = "plan", path = "tables.csv" }
        transport.preset = "roce_dcqcn"
        [[workload]]
        kind = "flows"
        flows = [{ src = "a", dst = "d", size = "100 KB" }, { src = "d", dst = "a", size = "100 KB" }]
    """)
    run = pf.run(scenario, progress=False)
    assert run.summary["flows_finished"] == 2
    assert not [text for text in run.summary["warnings"] if "deadlock" in text]


def test_routes_and_losses_count_pairs_of_different_hosts() -> None:
    """In a plan that serves all pairs of ports."""
    topology = pf.load_topology("ring:switches=7,hosts_per_switch=2,ports_per_host=7").with_single_ports()
    report = pf.plan_routes(topology, "up_down", vlans=1).check(what_if=True, examples=1_000)
    ports, hosts = 14 * 7, 14
    assert report["delivered"] == ports**2 - hosts * 7**2
    for failures in what_if(report).values():
        for failure in failures["worst"]:
            pair = failure["example"]
            assert pair["from"].partition(".")[0] != pair["to"].partition(".")[0], failure


RING = """
stop = "10 us"
[topology]
kind = "custom"
hosts = ["h0", "h1", "h2", "h3"]
switches = ["s0", "s1", "s2", "s3"]
links = [LINKS]
[host]
port_choice = "802.3ad"
[transport]
preset = "roce_dcqcn"
[workload]
kind = "flows"
flows = [{ src = "h0", dst = "h1", size = "1 KB" }]
"""
BETWEEN = [f'["s{i}", "s{(i + 1) % 4}"]' for i in range(4)]
EVERYWHERE = [f'["h{i}", "s{j}"]' for i in range(4) for j in range(4)]
OPPOSITE = [f'["h{i}", "s{j % 4}"]' for i in range(4) for j in (i, i + 2)]
ONE = [f'["h{i}", "s{i}"]' for i in range(4)]


@pytest.mark.parametrize(
    ("homes", "choice", "state"),
    [
        (ONE, "802.3ad", "can deadlock under PFC ("),
        (EVERYWHERE, "802.3ad", "can deadlock under PFC once ports of hosts are dead ("),
        (EVERYWHERE, "rail", "can deadlock under PFC once ports of hosts are dead ("),
        (EVERYWHERE, "active-backup", "can deadlock under PFC once ports of hosts are dead ("),
        (OPPOSITE, "rail", "can deadlock under PFC ("),
        (OPPOSITE, "802.3ad", "can deadlock under PFC once ports of hosts are dead ("),
    ],
)
def test_shortest_paths_are_judged_by_the_ports_in_use(homes: list[str], choice: str, state: str) -> None:
    """Ports at every switch make all paths short; rails between h0 at s0 and h2 at s2 cross two links."""
    text = RING.replace("LINKS", ", ".join(BETWEEN + homes)).replace("802.3ad", choice)
    (warning,) = [text for text in pf.run(text, progress=False).summary["warnings"] if "deadlock" in text]
    assert state in warning
    start, _, end = warning.split("lane 0: ")[1].split(");")[0].partition(" to ")
    assert start.partition(".")[0] != end.partition(".")[0]
