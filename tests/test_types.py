"""The dicts that the core gives have the keys and the types that `pauseframe.types` tells, no more and no less."""

import importlib
import typing
from types import NoneType, UnionType

import pauseframe as pf
import pytest
from conftest import SCENARIO
from pauseframe import _core, types
from pauseframe._manifest import read_manifest
from pauseframe.routing import update_routes, what_ifs, write_plan, write_update

RING = "ring:switches=4,hosts_per_switch=1"
Hint = typing.Any


def flaws(value: object, hint: Hint, path: str = "") -> list[str]:
    """Where a value is not what a type says."""
    origin: Hint = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if typing.is_typeddict(hint):
        return flaws_of_keys(value, hint, path)
    if origin in {typing.Union, UnionType}:
        found = [flaws(value, one, path) for one in arguments]
        return [] if [] in found else found[0]
    if origin is typing.Literal:
        return [] if value in arguments else [f"{path}: {value!r} is not one of {arguments}"]
    wanted: Hint = (float, int) if hint is float else (list, tuple) if origin is tuple else origin or hint
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        return [f"{path}: {value!r} is no {hint}"]
    parts: list[tuple[object, Hint]] = []
    if isinstance(value, dict):
        parts = [(item, arguments[1]) for item in value.values()]
    elif isinstance(value, list | tuple):
        parts = list(zip(value, arguments if origin is tuple else [arguments[0]] * len(value), strict=True))
    return [flaw for item, one in parts for flaw in flaws(item, one, f"{path}[]")]


def flaws_of_keys(value: object, hint: Hint, path: str) -> list[str]:
    """A dict has all keys that must be there, and none that is not known."""
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no dict"]
    names = {"Routes": _core.Routes, "Topology": _core.Topology}
    known = typing.get_type_hints(hint, localns=names)
    marked = typing.get_type_hints(hint, localns=names, include_extras=True)
    optional = {key for key, one in marked.items() if typing.get_origin(one) is typing.NotRequired}
    required = hint.__required_keys__ - optional
    lacking = [f"{path}: lacks {key}" for key in sorted(required - set(value))]
    extra = [f"{path}: {key} is not known" for key in sorted(set(value) - set(known))]
    inner = [flaw for key, item in value.items() if key in known for flaw in flaws(item, known[key], f"{path}.{key}")]
    return lacking + extra + inner


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
    assert flaws(read_manifest(tmp_path / "out"), types.Manifest) == []
    assert flaws(_core.resolve(SCENARIO, overrides=[("transport.preset", "tcp_bolt")]).headroom(),
                 list[types.HeadroomRow]) == []  # fmt: skip


def test_progress():
    seen: list[types.RunProgress] = []
    # Told ten times a second: some ten million packet hops take longer on any machine.
    long = 'topology = {kind = "fat_tree", k = 8}\nworkload = {kind = "permutation", size = "20 MB"}'
    pf.run(long, progress=seen.append)
    assert seen
    assert flaws(seen, list[types.RunProgress]) == []


def test_a_run_of_a_sweep_is_sealed(tmp_path):
    swept = pf.sweep(SCENARIO, axes={"transport.preset": ["dctcp"]}, seeds=1, out=tmp_path / "sweep", keep_runs=True)
    (row,) = swept.finished
    manifest = read_manifest(tmp_path / "sweep" / row["path"])
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
    # Around a ring of four, shortest paths wait for each other.
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
    """Public functions of the modules that others build on: what they take and give is told by a type."""
    for name in ("run", "flow", "results", "routing", "topology", "progress"):
        module = importlib.import_module(f"pauseframe.{name}")
        source = module.__loader__.get_source(module.__name__)  # type: ignore[union-attr]
        assert "dict[str, Any]" not in source, name
