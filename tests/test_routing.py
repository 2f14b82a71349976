"""Graphs from NetworkX, and routes with VLANs, from Python to results."""

from typing import Any

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


@pytest.mark.parametrize(
    "source", ["fat_tree:k=4", "torus:lengths=3x3", "leaf_spine:leaves=3,spines=2,hosts_per_leaf=2"]
)
@pytest.mark.parametrize("engine", ["auto", "order_pair"])
def test_one_vlan_has_one_lane(source: str, engine: str) -> None:
    routes = pf.plan_routes(pf.load_topology(source), engine, vlans=1)
    assert [lane for _, lane in routes.vlans] == [0]
    assert routes.check()["clean"]


def test_the_lanes_of_trees_follow_the_vlans() -> None:
    routes = pf.plan_routes(pf.load_topology("fat_tree:k=4"), "edst", vlans=4)
    assert len({lane for _, lane in routes.vlans}) == 4


@pytest.mark.parametrize(
    ("engine", "settings", "message"),
    [
        ("auto", {"lanes": 2, "vlans": 1}, "vlans = 1 is not possible: 2 lanes need 2 to 4094; allow fewer lanes"),
        ("order_pair", {"vlans": 4, "sampled_vlans": 3}, "of 4 VLANs each lane needs one on all links"),
        ("order_pair", {"vlans": 8, "backup_vlans": 7}, "of 8 VLANs at most 6 can wait for failures"),
        ("auto", {"vlans": 8, "backup_vlans": 400}, "backup_vlans = 400 is not possible: of 8 VLANs at most 6"),
        ("order_pair", {"vlans": 8, "sample_percent": 9}, "give sampled_vlans, or leave it out"),
        ("edst", {"vlans": 12}, "a multiple of the number of lanes, 8"),
    ],
)
def test_too_few_vlans_are_refused_with_their_number(engine: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(pf.FabricError, match=message):
        pf.plan_routes(pf.load_topology("fat_tree:k=4"), engine, **settings)


@pytest.mark.parametrize("kind", ["auto", "order_pair"])
def test_a_scenario_with_one_vlan_has_one_lane(kind: str) -> None:
    text = f'''
        topology = {{ kind = "leaf_spine", leaves = 3, spines = 2, hosts_per_leaf = 1 }}
        routing = {{ kind = "{kind}", vlans = 1 }}
        transport.preset = "roce_dcqcn"
        workload = {{ kind = "permutation", size = "10 KB" }}
    '''
    assert pf.run(text, progress=False).summary["flows_finished"] == 3
