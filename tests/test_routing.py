"""Graphs from NetworkX, and routes with VLANs, from Python to results."""

import networkx_stand_in as nx
import pauseframe as pf
import pytest


def triangle(kind: str = "host") -> nx.Graph:
    graph = nx.Graph()
    for i in range(3):
        graph.add_node(("s", i), kind="switch")
        graph.add_node(f"h{i}", kind=kind)
    for i in range(3):
        graph.add_edge(f"h{i}", ("s", i), rate="25 Gbps")
        graph.add_edge(("s", i), ("s", (i + 1) % 3))
    return graph


def scenario(graph: nx.Graph) -> pf.Scenario:
    return pf.Scenario(
        topology=pf.File.from_networkx(graph, link=pf.Link("100 Gbps", "500 ns")),
        routing=pf.Routing("up_down", choice="least_loaded"),
        workload=[pf.Permutation(size="100 KB")],
    )


def test_a_networkx_graph_is_a_topology() -> None:
    run = pf.run(scenario(triangle()), progress=False)
    assert run.summary["flows_finished"] == 3
    assert pf.Scenario.from_toml(scenario(triangle()).to_toml()) == scenario(triangle())


def test_a_bad_graph_is_named_by_its_node() -> None:
    with pytest.raises(pf.ScenarioError, match=r"nodes\[1\]"):
        scenario(triangle(kind="hots")).resolve()
