"""Updates and plans of topologies that a failure splits: the rest is repaired, and what is cut off is named."""

import csv
import json
from collections.abc import Callable

import pauseframe as pf
import pytest
from pauseframe.fabric.parts import cut_off
from pauseframe.fabric.routing import update_routes, write_plan, write_update
from test_fabrics import cli

LEAVES = "leaf_spine:leaves=4,spines=2,hosts_per_leaf=2"
PLANES = """
name = "planes"
stop = "1 ms"
topology = { kind = "leaf_spine", leaves = 4, spines = 2, hosts_per_leaf = 2, planes = 2 }
workload = { kind = "permutation", size = "1 MB" }
"""
LEAF = ["host0", "host1", "leaf0"]
POD = ["host0", "host1", "host2", "host3", "edge0_0", "edge0_1", "agg0_0", "agg0_1"]
TWICE = ["host0", "host0.eth2", "host1", "host1.eth2", "leaf0-p0", "leaf0-p1"]
Gone = Callable[[str, str], bool]
CUTS: dict[str, tuple[str, Gone, list[str]]] = {
    "a host": (LEAVES, lambda a, _: a == "host3", ["host3"]),
    "uplinks of a leaf": (LEAVES, lambda a, _: a == "leaf0", LEAF),
    "all links of a leaf": (LEAVES, lambda a, b: "leaf0" in (a, b), LEAF),
    "uplinks of a leaf, and a host": (LEAVES, lambda a, _: a in ("leaf0", "host3"), [*LEAF, "host3"]),
    "a spine": (LEAVES, lambda _, b: b == "spine0", []),
    "a link": (LEAVES, lambda a, b: (a, b) == ("leaf0", "spine0"), []),
    "a pod": ("fat_tree:k=4", lambda a, b: a.startswith("agg0_") and b.startswith("core"), POD),
    "a port of a host": (PLANES, lambda a, b: (a, b) == ("host3", "leaf1-p0"), ["host3"]),
    "another port of a host": (PLANES, lambda a, b: (a, b) == ("host3", "leaf1-p1"), ["host3.eth2"]),
    "both ports of a host": (PLANES, lambda a, _: a == "host3", ["host3", "host3.eth2"]),
    "a leaf in one plane": (PLANES, lambda a, _: a == "leaf0-p0", []),
    "a leaf in both planes": (PLANES, lambda a, _: a.startswith("leaf0"), TWICE),
}


def topology_of(source, folder):
    if source != PLANES:
        return pf.load_topology(source)
    (folder / "planes.toml").write_text(PLANES)
    return pf.load_topology(folder / "planes.toml").with_single_ports()


def without(topology, gone):
    return topology.without([number for number, (a, b, *_) in enumerate(topology.links()) if gone(a, b)])


def rows(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


@pytest.mark.parametrize("name", CUTS)
def test_a_failure_that_cuts_nodes_off_is_repaired_for_the_others(name, tmp_path):
    source, gone, nodes = CUTS[name]
    topology = topology_of(source, tmp_path)
    routes = pf.plan_routes(topology, "order_pair", lanes=2, vlans=4)
    broken = without(topology, gone)
    update = update_routes(routes, broken, failed=True)
    assert sorted(update["cut_off"]) == sorted(nodes)
    assert update["mixes"]
    assert update["routes"].check()["clean"]
    left = {node for node, *_ in update["topology"].nodes()}
    assert left - {"host3.eth2"} == {node for node, *_ in topology.nodes()} - set(nodes)
    summary = write_update(update, tmp_path / "repair")
    assert summary["cut_off"] == update["cut_off"]
    removed = rows(tmp_path / "repair" / "3-remove-rows.csv")
    stranded = tmp_path / "repair" / "4-cut-off-rows.csv"
    assert not any(switch in nodes for switch, *_ in removed)
    has_switches = any(node.startswith(("leaf", "edge")) for node in nodes)
    assert [step["file"] for step in summary["steps"][4:]] == ["4-cut-off-rows.csv"] * has_switches
    assert stranded.is_file() == has_switches
    if has_switches:
        assert {switch for switch, *_ in rows(stranded)} <= set(nodes)
    # When the links return, the plan of the whole fabric follows from that of the rest.
    again = update_routes(update["routes"], topology)
    assert again["mixes"]
    assert again["routes"].check()["clean"]
    assert again["cut_off"] == []


@pytest.mark.parametrize("name", [name for name, (source, _, nodes) in CUTS.items() if nodes and source != PLANES])
def test_other_plans_name_what_is_cut_off(name):
    """Links that work are not taken from hosts without a word, and no plan leaves hosts out."""
    source, gone, nodes = CUTS[name]
    topology = pf.load_topology(source)
    broken = without(topology, gone)
    routes = pf.plan_routes(topology, "order_pair", lanes=2, vlans=4)
    with pytest.raises(pf.FabricError, match=r"no path joins .*: link the parts.*--failed \(failed=True\)") as refused:
        update_routes(routes, broken)
    assert all(node in str(refused.value) for node in nodes)
    with pytest.raises(pf.FabricError, match=r"no path joins .* to the other \d+ hosts: link the parts") as refused:
        pf.plan_routes(broken)
    assert "failed" not in str(refused.value)


def test_hosts_that_would_forward_are_not_cut_off():
    """Paths through hosts are another mistake, which the core explains."""
    edges = [{"source": a, "target": b} for a, b in (("a", "s"), ("b", "s"), ("b", "t"), ("c", "t"))]
    nodes = [{"id": one, "kind": "switch" if one in "st" else "host"} for one in "abcst"]
    graph = {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges}
    topology = pf.Topology.parse(json.dumps(graph), "node-link")
    assert cut_off(topology) is None
    with pytest.raises(pf.FabricError) as refused:
        pf.plan_routes(topology)
    assert "no path joins" not in str(refused.value)


@pytest.mark.parametrize("name", ["a host", "uplinks of a leaf", "all links of a leaf"])
def test_commands_about_what_is_cut_off(name, tmp_path):
    source, gone, nodes = CUTS[name]
    topology = pf.load_topology(source)
    write_plan(pf.plan_routes(topology, "order_pair", lanes=2, vlans=4), topology, tmp_path / "plan")
    broken = tmp_path / "broken.graphml"
    broken.write_text(without(topology, gone).write("graphml"))
    done = cli("route", "update", tmp_path / "plan", broken, "--failed", "-o", tmp_path / "repair")
    assert done.returncode == 0, done.stderr
    (line,) = [line.rstrip() for line in done.stdout.splitlines() if line.startswith("cut off until a link returns")]
    assert set(nodes) <= {word.strip(",") for word in line.split()}
    assert set(json.loads((tmp_path / "repair" / "update.json").read_text())["cut_off"]) == set(nodes)
    for command in (("route", "update", tmp_path / "plan"), ("route", "plan")):
        done = cli(*command, broken, "-o", tmp_path / "new")
        assert done.returncode == 2
        assert "no path joins" in done.stderr
        assert all(node in done.stderr for node in nodes)
        assert not (tmp_path / "new").exists()
