"""Tests of the JSON Schema in a standard validator, of the generated files, and of the number of files per addition."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pauseframe as pf
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pauseframe import _core

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads(_core.schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

GOOD = """
name = "base"
stop = "10 ms"
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
link = { rate = "10 Gbps", delay = "1 us" }
[switch]
buffer = { policy = "shared", size = "9 MB", alpha = 1.0 }
marker = { kind = "step", k = "30 KB" }
pfc = { priorities = [3] }
[transport]
preset = "dctcp"
rto_min = "2 ms"
[[workload]]
kind = "background"
sizes = "web_search"
arrivals = { kind = "load", load = 0.4 }
[[workload]]
kind = "incast"
fan_in = 3
"""

# The replaced key, and its replacement: a wrong type, unit, range or name.
WRONG = [
    ("leaves = 2", 'leaves = "2"'),
    ("leaves = 2", "leaves = -2"),
    ("leaves = 2", "leaves = 2.5"),
    ("leaves = 2", "leafs = 2"),
    ("leaves = 2\n", ""),
    ("leaves = 2", "leaves = true"),
    ('kind = "leaf_spine"', 'kind = "leafspine"'),
    ('kind = "leaf_spine"', "kind = 3"),
    ('rate = "10 Gbps"', 'rate = "10 Gb"'),
    ('rate = "10 Gbps"', "rate = 10"),
    ('delay = "1 us"', 'delay = "-1 us"'),
    ('delay = "1 us"', 'delay = "1"'),
    ('delay = "1 us"', 'dealy = "1 us"'),
    ('stop = "10 ms"', 'stop = "10 msec"'),
    ('stop = "10 ms"', "stop = 10"),
    ('stop = "10 ms"', "stop = { when_finished = 1 }"),
    ('name = "base"', "name = 1"),
    ('name = "base"', 'nam = "base"'),
    ('policy = "shared"', 'policy = "share"'),
    ('size = "9 MB"', 'size = "9 mb"'),
    ('size = "9 MB"', 'size = "0 B"'),
    ("alpha = 1.0", "alpha = 0.0"),
    ("alpha = 1.0", 'alpha = "1"'),
    ('k = "30 KB"', 'k = "30 cells"'),
    ('k = "30 KB"', 'K = "30 KB"'),
    ("priorities = [3]", "priorities = [8]"),
    ("priorities = [3]", "priorities = 3"),
    ("priorities = [3]", 'priorities = ["3"]'),
    ("pfc = { priorities = [3] }", 'pfc = "on"'),
    ('preset = "dctcp"', 'preset = "dctpc"'),
    ('rto_min = "2 ms"', 'rto_min = "2 m"'),
    ('rto_min = "2 ms"', "dup_thresh = 0"),
    ('rto_min = "2 ms"', "dscp = 64"),
    ('rto_min = "2 ms"', 'ecn = "on"'),
    ('rto_min = "2 ms"', "sack = 1"),
    ('rto_min = "2 ms"', 'initial_window = "ten segments"'),
    ('rto_min = "2 ms"', "dctcp_g = 2.0"),
    ("load = 0.4", "load = 40"),
    ("load = 0.4", "load = 0"),
    ("load = 0.4", 'load = "40 %"'),
    ('kind = "load"', 'kind = "laod"'),
    ("fan_in = 3", 'fan_in = "3"'),
    ("fan_in = 3", "fanin = 3"),
    ("fan_in = 3", 'response = "2 KB"'),
    ("fan_in = 3", 'size = "2 KB"'),
]


def scenario_files():
    """Every scenario file of the repository."""
    for path in sorted(ROOT.glob("**/*.toml")):
        parts = set(path.relative_to(ROOT).parts)
        if parts & {"target", ".venv", "results", "node_modules"} or path.name in {"Cargo.toml", "pyproject.toml"}:
            continue
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if "topology" in table and "workload" in table:
            yield path, table


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_it_accepts_every_scenario_of_the_repository():
    found = list(scenario_files())
    assert len(found) >= 55
    wrong = {
        str(path.relative_to(ROOT)): [f"{error.json_path}: {error.message[:200]}" for error in errors]
        for path, table in found
        if (errors := list(VALIDATOR.iter_errors(table)))
    }
    assert wrong == {}


def test_it_accepts_what_the_core_writes():
    """The resolved form, which has every key, is valid."""
    for path, _ in scenario_files():
        try:
            resolved = pf.Scenario.from_file(path).resolve().toml
        except (pf.ScenarioError, ValueError):
            continue  # A sweep, or the base file of a sweep, which lacks the keys that the sweep sets.
        assert list(VALIDATOR.iter_errors(tomllib.loads(resolved))) == [], path


def test_the_base_of_the_wrong_ones_is_right():
    assert list(VALIDATOR.iter_errors(tomllib.loads(GOOD))) == []
    _core.resolve(GOOD)


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_it_refuses_what_the_core_refuses(old, new):
    assert GOOD.count(old) == 1, "the change is ambiguous"
    text = GOOD.replace(old, new)
    with pytest.raises(pf.ScenarioError):
        _core.resolve(text)
    assert list(VALIDATOR.iter_errors(tomllib.loads(text))) != []


def test_editors_see_what_a_key_means():
    transport = SCHEMA["$defs"]["Transport"]["properties"]
    assert transport["rto_min"]["description"].startswith("Lower bound of the RTO")
    assert transport["rto_min"]["default"] == "200 ms"
    assert transport["ecn"]["enum"] == ["off", "classic", "dctcp"]
    assert transport["rto_min"]["x-source"] == "Linux: HZ/5"
    assert SCHEMA["$defs"]["Qcn"]["properties"]["g_d"]["x-source"] == "IEEE 802.1Qau", "the table's"
    assert transport["dscp"] | {"description": ""} == {
        "type": "integer",
        "minimum": 0,
        "maximum": 63,
        "default": 0,
        "description": "",
        "x-source": "RFC 2474",
    }


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_what_is_generated_is_up_to_date():
    made = run("generate.py", "--check")
    assert made.returncode == 0, made.stderr


def test_keys_are_said_once():
    """At most one key in eight is named in more than three files; no import cycle has more than six files."""
    counted = run("count_keys.py")
    assert counted.returncode == 0, counted.stdout
    above = re.match(r"(\d+) of (\d+) keys are named in more than 3 files", counted.stdout)
    assert above is not None
    assert 8 * int(above[1]) <= int(above[2]) > 100
    circles = {name: int(count) for count, name in re.findall(r"^(\d+)  circle in (\w+)", counted.stdout, re.MULTILINE)}
    assert max(circles.values()) <= 6


def test_columns_are_those_of_a_run(tmp_path):
    """The reference is made from empty tables; tables of runs have the same columns with the same types."""
    text = """
    topology = { kind = "star", hosts = 4 }
    stop = "2 ms"
    record = { pause_tree = true, states = true, series = { every = "10 us", ports = ["*"] } }
    [[workload]]
    kind = "permutation"
    size = "100 KB"
    """
    pf.run(text, out=tmp_path / "run")
    pf.run_flows(text, out=tmp_path / "flows")
    declared: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in _core.columns():
        table = {"flows of workloads": "flows"}.get(row["table"], row["table"])
        declared.setdefault((row["page"], table), []).append((row["name"], row["type"].partition(",")[0]))
    seen = set()
    for page, folder in (("results", "run"), ("flow-level", "flows")):
        for path in sorted((tmp_path / folder).glob("*.parquet")):
            found = [(field.name, arrow_name(field.type)) for field in pq.read_schema(path)]
            assert found == declared[page, path.stem], path
            seen.add((page, path.stem))
    assert {("results", name) for name in ("flows", "queries", "ports", "series", "pause_tree", "states")} <= seen


def arrow_name(kind):
    """The name of a type in the reference."""
    if isinstance(kind, pa.DictionaryType):
        return f"dictionary({kind.value_type})"
    if isinstance(kind, pa.ListType):
        return f"list({kind.value_type})"
    return {"double": "float64"}.get(str(kind), str(kind))


@pytest.mark.parametrize(
    ("word", "places"),
    [
        (r"\bconnect_us\b", ["crates/results/src/tables.rs"]),
        (
            r'"ring" => |\bpub struct Ring\b',
            ["crates/topology/src/generate/mod.rs", "crates/topology/src/generate/ring.rs"],
        ),
        (r'"aimd" => |\bAimdConfig for\b', ["crates/transport/src/cc/aimd.rs", "crates/transport/src/cc/mod.rs"]),
    ],
)
def test_worked_examples_are_in_one_file_and_a_line(word, places):
    """All hand-written files that contain the example's name: the addition needed no other file."""
    sources = [*(ROOT / "crates").glob("*/src/**/*.rs"), *(ROOT / "python/pauseframe").glob("**/*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    found = [path for path, text in texts.items() if "Generated by" not in text[:400] and re.search(word, text)]
    assert sorted(str(path.relative_to(ROOT)) for path in found) == places


def test_a_family_is_known_everywhere_by_its_line():
    """The how-to's promises for a family: scenario files, Python, and the texts of `topo` and `route`."""
    families = set(_core.families())
    kinds = next(row for row in _core.options() if row["path"] == "topology.kind")["type"]
    assert families == set(kinds.removeprefix("one of ").split(", ")) - {"file", "custom"}
    ring = pf.load_topology("ring:switches=6,hosts_per_switch=2")
    scenario = pf.Scenario(topology=pf.Ring(6, 2), routing=pf.Routing("up_down"), workload=[pf.Permutation("1 MB")])
    assert pf.Topology.of_scenario(scenario.resolve()).links() == ring.links()


def test_worked_examples_are_what_is_there():
    """Each Rust snippet on the page is part of a file that the page names; test_docs.py runs the Python examples."""
    text = (ROOT / "docs/how-to/extend-the-core.md").read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```rust\n(.*?)^```", text, re.M | re.S))
    assert examples
    for example in examples:
        files = re.findall(r"`(crates/[\w/.]+\.rs)`", text[: example.start()])
        assert any(example[1] in (ROOT / name).read_text(encoding="utf-8") for name in files), example[1]
