"""The JSON Schema in an off-the-shelf validator; what is generated is up to date; what adding costs."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pauseframe as pf
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

# What is replaced, and what by: a wrong type, unit, range or name.
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
    """Every scenario of the repository."""
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
    """The resolved form has every key."""
    for path, _ in scenario_files():
        try:
            resolved = pf.Scenario.from_file(path).resolve().toml
        except (pf.ScenarioError, ValueError):
            continue  # a sweep, or the base of one, which lacks what the sweep gives
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
    command = [sys.executable, str(ROOT / ".ci" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_what_is_generated_is_up_to_date():
    made = run("generate.py", "--check")
    assert made.returncode == 0, made.stderr


def test_keys_are_said_once():
    """Twenty keys drawn by lot, each named in at most three files; no circle of more than five files."""
    counted = run("count-keys.py")
    assert counted.returncode == 0, counted.stdout
    rows = [line.split("  ", 1) for line in counted.stdout.splitlines() if "(seed" not in line]
    keys = {what.split(":")[0]: int(count) for count, what in rows if not what.startswith("circle")}
    assert len(keys) == 20
    assert {key: count for key, count in keys.items() if count > 3} == {}
    circles = {what.split()[2].rstrip(":"): int(count) for count, what in rows if what.startswith("circle")}
    assert max(circles.values()) <= 5


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("add-a-*.md")), ids=lambda page: page.stem)
def test_worked_examples_are_what_is_there(page):
    """Each piece of Rust on a page stands in a file that was named before it; test_docs.py runs the scenarios."""
    text = page.read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```rust\n(.*?)^```", text, re.M | re.S))
    assert examples
    for example in examples:
        files = re.findall(r"`(crates/[\w/.]+\.rs)`", text[: example.start()])
        assert any(example[1] in (ROOT / name).read_text(encoding="utf-8") for name in files), example[1]
