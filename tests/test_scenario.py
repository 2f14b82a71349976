"""Dataclasses and TOML: round trips, the same keys as the core, every mistake reported."""

import json
import tomllib
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import pauseframe as pf
import pytest
import tomli_w
from conftest import SCENARIO
from hypothesis import given, settings
from hypothesis import strategies as st
from pauseframe.scenario.plain import Part, part_from_plain, to_plain, toml_value
from test_cli import cli

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)


def parts(part: type[Part]):
    """Any value of a dataclass: optional fields may be None, and all alternatives of a union occur."""
    hints = get_type_hints(part)
    plain = {f.name: f for f in fields(part) if f.metadata.get("plain", True)}
    return st.builds(
        part, **{name: keyed(f) if "keys" in f.metadata else values(hints[name]) for name, f in plain.items()}
    )


def keyed(field):
    """A mapping of additional keys in the same table."""
    return st.none() | st.dictionaries(st.sampled_from(sorted(field.metadata["keys"]())), values(float), min_size=1)


def values(hint):
    if get_args(hint) and get_origin(hint) not in (None,) and get_origin(hint).__name__ in ("Sequence", "Mapping"):
        args = get_args(hint)
        if get_origin(hint).__name__ == "Mapping":
            return st.dictionaries(TEXTS, values(args[1]), max_size=2)
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_args(hint):
        return st.one_of([values(choice) for choice in get_args(hint)])
    if isinstance(hint, type) and issubclass(hint, Part):
        return parts(hint)
    simple = {
        NoneType: st.none(),
        bool: st.booleans(),
        str: TEXTS,
        int: st.integers(0, 2**40),
        float: st.floats(0, 1e6),
    }
    return simple[hint]


@settings(max_examples=64, deadline=None)
@given(parts(pf.Scenario))
def test_any_scenario_there_and_back(scenario):
    assert part_from_plain(pf.Scenario, tomllib.loads(scenario.to_toml())) == scenario


@given(st.recursive(TEXTS | st.booleans() | st.integers(-(2**50), 2**50), lambda inner: st.lists(inner, max_size=3)))
def test_values_on_one_line(value):
    text = toml_value(value)
    assert "\n" not in text
    assert tomllib.loads(f"x = {text}")["x"] == value


def test_file_there_and_back():
    scenario = pf.Scenario.from_toml(SCENARIO)
    assert tomllib.loads(scenario.to_toml()) == tomllib.loads(SCENARIO)
    assert scenario.workload[0] == pf.NToOne(name="many", senders=3, size="200 KB")
    assert scenario.topology == pf.Star(4, link=pf.Link("10 Gbps", "1 us"))
    resolved = scenario.resolve(seed=9, set={"transport.rto_min": "5 ms"})
    assert (resolved.name, resolved.seed) == ("small", 9)
    assert ("transport.rto_min", '"5 ms"', "--set") in resolved.explain()


def test_resolved_scenario_is_a_scenario():
    """The dataclasses have every key that the core writes, and the round trip preserves its value."""
    resolved = pf.Scenario.from_toml(SCENARIO).resolve()
    assert pf.Scenario.from_toml(resolved.toml).resolve().toml == resolved.toml


def test_short_forms():
    table = {
        "topology": {"kind": "custom", "hosts": ["A", "B"], "switches": ["S"], "links": [["A", "S"], ["B", "S"]]},
        "switch": {"buffer": {"size": "1 MB"}, "marker": {"k": "30 KB"}, "pfc": True},
        "record": {"series": True},
        "workload": {"kind": "permutation", "size": "1 MB"},
    }
    scenario = part_from_plain(pf.Scenario, table)
    assert scenario.switch == pf.Switch(buffer=pf.PerPort("1 MB"), marker=pf.Step("30 KB"), pfc=True)
    assert scenario.workload == (pf.Permutation(size="1 MB"),)
    assert pf.Scenario.from_toml(tomli_w.dumps(table)) == scenario


def test_lists_are_frozen():
    scenario = pf.Scenario(topology=pf.Xgft(m=[8, 2], w=[1, 2]), workload=[pf.Permutation(size="1 MB")])
    assert scenario.topology == pf.Xgft(m=(8, 2), w=(1, 2))
    with pytest.raises(AttributeError):
        scenario.name = "x"  # type: ignore[misc]


def test_wrong_scenarios_name_every_mistake():
    text = SCENARIO.replace("senders", "sendrs").replace('"200 KB"', "200").replace('"1 us"', '"-1 us"')
    with pytest.raises(pf.ScenarioError) as raised:
        pf.Scenario.from_toml(text)
    paths = [problem["path"] for problem in raised.value.problems]
    assert {"topology.link.delay", "workload.0.sendrs", "workload.0.size"} <= set(paths)
    assert all(set(problem) >= {"path", "value", "message", "hint"} for problem in raised.value.problems)


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"name = \xff\xfe")
    with pytest.raises(pf.ScenarioError, match="not UTF-8") as raised:
        pf.Scenario.from_file(path)
    assert raised.value.problems[0]["path"] == str(path)


def keys(hint, path: str):
    """Every path that the dataclass can write, in the form of `options()`."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Part):
        if hint._tag:
            yield f"{path}.{hint._tag[0]}"
        hints = get_type_hints(hint)
        for field in fields(hint):
            further = field.metadata.get("keys", tuple)()
            yield from (f"{path}.{key}" for key in further)
            if not further and field.metadata.get("plain", True):
                yield from keys(hints[field.name], f"{path}.{field.name}".lstrip("."))
    elif origin is not None and origin.__name__ == "Mapping" and is_dataclass(args[1]):
        yield from keys(args[1], f"{path}.NAME")
    elif origin is not None and origin.__name__ == "Sequence" and any(map(is_dataclass, get_args(args[0]) or args)):
        element = path if path == "workload" else f"{path}[]"
        for choice in get_args(args[0]) or args:
            yield from keys(choice, element)
    elif any(map(is_dataclass, args)) or any(get_origin(arg) not in (None, Literal) for arg in args):
        for choice in args:
            yield from keys(choice, path)
    else:
        yield path


def test_the_same_keys_as_the_core():
    """A new process lists the keys, because this process may have loaded plug-ins, whose constants are also keys."""
    ours = leaves({"transports" if key.startswith("transports.") else key for key in keys(pf.Scenario, "")})
    assert ours == leaves({row["path"] for row in json.loads(cli("options", "--json").stdout)})


def leaves(paths: set[str]) -> set[str]:
    """Paths without the tables that only hold other keys; short forms (`switch.pfc = true`) stand for the table."""
    return {path for path in paths if not any(other.startswith((f"{path}.", f"{path}[]")) for other in paths)}


def test_constants_of_congestion_controls():
    transport = pf.Transport(preset="cubic", constants={"cubic_hystart": False, "cubic_beta": 0.8})
    workload = [pf.Permutation(size="1 MB")]
    scenario = pf.Scenario(topology=pf.Star(2), transport=transport, workload=workload)
    text = scenario.to_toml()
    assert "cubic_hystart = false" in text
    assert "constants" not in text
    assert pf.Scenario.from_toml(text).transport == transport
    transport = pf.Transport(constants={"cubic_hystrat": False})
    wrong = pf.Scenario(topology=pf.Star(2), transport=transport, workload=workload)
    with pytest.raises(pf.ScenarioError, match=r"cubic_hystrat.*did you mean \"cubic_hystart\"") as raised:
        wrong.resolve()
    assert raised.value.problems[0]["path"] == "transport.cubic_hystrat"


def test_plain_leaves_out_what_is_unset():
    assert to_plain(pf.Link(rate="1 Gbps")) == {"rate": "1 Gbps"}
    assert to_plain(pf.NoMarker()) == {"kind": "none"}
    with pytest.raises(ValueError, match=r"switch: unknown key 'bufer'"):
        part_from_plain(pf.Scenario, {"topology": {"kind": "star", "hosts": 2}, "switch": {"bufer": 1}})
    with pytest.raises(ValueError, match="not one of fat_tree"):
        part_from_plain(pf.Scenario, {"topology": {"kind": "klein_bottle"}})
