"""The dicts that the core returns have exactly the keys and types that `pauseframe.types` declares."""

import importlib
from types import NoneType

import pauseframe as pf
import pytest
from conftest import SCENARIO
from pauseframe import _core, types
from pauseframe.fabric.routing import update_routes, what_ifs, write_plan, write_update
from pauseframe.results.folder import open_results
from pauseframe.results.typed import flaws

RING = "ring:switches=4,hosts_per_switch=1"


def test_the_checker_finds_what_is_wrong():
    right = {"mean": 1.0, "p50": None, "p99": 2.0, "p999": 3}
    assert flaws(right, types.CompletionTimes) == []
    assert flaws(right | {"p50": "x"}, types.CompletionTimes) != []
    assert flaws(right | {"p51": 1.0}, types.CompletionTimes) == [": p51 is not known"]
    assert flaws({"mean": 1.0}, types.CompletionTimes) != []
    assert flaws([[1, True]], list[tuple[int, int]]) != []
    assert flaws([[1, 2]], list[tuple[int, int]]) == []
    assert flaws(None, NoneType) == []


@pytest.mark.parametrize("changes", [{}, {"transport.preset": "tcp_bolt"}, {"stop": "1 ns"}], ids=str)
def test_runs(changes, tmp_path):
    run = pf.run(SCENARIO, set=changes, out=tmp_path / "out", progress=False)
    assert flaws(run.summary, types.Summary) == []
    assert flaws(open_results(tmp_path / "out").manifest, types.Manifest) == []
    assert flaws(_core.resolve(SCENARIO, overrides=[("transport.preset", "tcp_bolt")]).headroom(),
                 list[types.HeadroomRow]) == []  # fmt: skip


def test_progress():
    seen: list[types.RunProgress] = []
    # Progress is reported ten times a second, and some ten million packet hops take longer on any machine.
    long = 'topology = {kind = "fat_tree", k = 8}\nworkload = {kind = "permutation", size = "20 MB"}'
    pf.run(long, progress=seen.append)
    assert seen
    assert flaws(seen, list[types.RunProgress]) == []


def test_a_run_of_a_sweep_is_sealed(tmp_path):
    swept = pf.sweep(SCENARIO, axes={"transport.preset": ["dctcp"]}, seeds=1, out=tmp_path / "sweep", keep_runs=True)
    (row,) = swept.finished
    manifest = open_results(tmp_path / "sweep" / row["path"]).manifest
    assert flaws(manifest, types.Manifest) == []
    assert "seal" in manifest


@pytest.mark.parametrize("demand", [None, "permutation"])
def test_flow_level(demand):
    assert flaws(pf.run_flows(SCENARIO, demand=demand, bound=0.2 if demand else None).summary, types.FlowSummary) == []


def test_rates():
    topology = pf.load_topology(RING)
    for bound in (None, 0.1):
        assert flaws(pf.flow_rates(topology, bound=bound), list[types.SteadyRates]) == []


@pytest.mark.parametrize("source", [RING, "fat_tree:k=4", "star:hosts=2"])
def test_topologies(source):
    assert flaws(pf.load_topology(source).statistics(), types.TopologyStatistics) == []


def test_mistakes():
    with pytest.raises(pf.ScenarioError) as caught:
        pf.run(SCENARIO, set={"transport.presett": "x", "switch.latency": 3})
    assert len(caught.value.problems) == 2
    assert flaws(caught.value.problems, list[types.Problem]) == []


def test_routes(tmp_path):
    topology = pf.load_topology(RING)
    seen: list[types.StageProgress] = []
    good = pf.plan_routes(topology, "order_pair", lanes=2, vlans=4, progress=seen.append)
    assert flaws(seen, list[types.StageProgress]) == []
    # Around a ring of four switches, shortest paths form a cyclic buffer dependency.
    bad = pf.plan_routes(topology, "shortest_path")
    for routes in (good, bad):
        report = routes.check(what_if=True, rows_budget=1)
        assert flaws(report, types.RouteReport) == []
        assert flaws(routes.table_use(), types.TableUse) == []
    assert flaws(what_ifs(good, topology, pairs=3), dict[str, types.SeveralFailures]) == []
    summary = write_plan(good, topology, tmp_path / "plan", about={"engine": "order_pair", "lanes": 2})
    assert flaws(summary, types.PlanSummary) == []
    update = update_routes(good, pf.load_topology("ring:switches=5,hosts_per_switch=1"))
    assert flaws(update, types.Update) == []
    assert flaws(write_update(update, tmp_path / "update"), types.UpdateSummary) == []


def test_the_package_has_no_untyped_dict_at_its_borders():
    """Public functions that other code builds on declare a type for each argument and result."""
    for name in ("run", "flow", "results", "fabric.routing", "fabric.topology", "terminal.progress"):
        module = importlib.import_module(f"pauseframe.{name}")
        source = module.__loader__.get_source(module.__name__)  # type: ignore[union-attr]
        assert "dict[str, Any]" not in source, name
