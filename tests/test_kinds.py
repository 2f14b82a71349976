"""A transport is TCP, queue pairs or datagrams: keys of one kind are errors for others."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema
import pytest
from pauseframe import _core

STAR = '[topology]\nkind = "star"\nhosts = 3\nlink = { rate = "10 Gbps", delay = "1 us" }\n'
FLOWS = '[[workload]]\nkind = "n_to_1"\nsize = "1 MB"\n'
PRESETS = {"tcp": "dctcp", "rdma": "roce_dcqcn", "udp": "udp"}
KEYS = {row["path"].removeprefix("transport."): row for row in _core.options() if row["path"].startswith("transport.")}


def kinds_of(key: str) -> set[str]:
    """The kinds that have a key; all if it needs none."""
    rows = [row["when"] for row in _core.options() if row["path"] == f"transport.{key}"]
    named = {when.split(" and ")[0].removeprefix("transport.kind = ") for when in rows if when}
    return named or set(PRESETS)


def shown(kind: str) -> dict[str, str]:
    """Every key of a kind with its value as TOML; one without a value gets some number."""
    workload = '[[workload]]\nkind = "udp"\nrate = "1 Gbps"\nstop = "1 ms"\n' if kind == "udp" else FLOWS
    text = f'{STAR}[transport]\npreset = "{PRESETS[kind]}"\n{workload}'
    rows = _core.resolve(text).explain()
    written = tomllib.loads(_core.resolve(text).toml)["transport"]
    keys = {path.removeprefix("transport."): value for path, value, _ in rows if path.startswith("transport.")}
    return {key: value if key in written else "3" for key, value in keys.items()}


def problems(text: str) -> list[dict[str, Any]]:
    with pytest.raises(_core.ScenarioError) as error:
        _core.resolve(text)
    return [dict(one) for one in error.value.problems]


SHOWN = {kind: shown(kind) for kind in PRESETS}
FOREIGN = [
    (kind, other, key)
    for kind in PRESETS
    for other in PRESETS
    if other != kind
    for key in SHOWN[other]
    if kind not in kinds_of(key)
]


def test_most_keys_belong_to_one_kind():
    assert len(FOREIGN) > 150


def test_keys_of_another_kind_are_errors():
    for kind, other, key in FOREIGN:
        value = SHOWN[other][key]
        text = f'{STAR}[transport]\npreset = "{PRESETS[kind]}"\n{key} = {value}\n{FLOWS}'
        found = [one for one in problems(text) if one["path"] == f"transport.{key}"]
        assert found, (kind, key)
        assert f'is a key of kind "{other}"' in found[0]["message"], found
        assert f"[transport.{other}]" in found[0]["hint"], found


@pytest.mark.parametrize(
    ("preset", "key", "instead"),
    [
        ("roce_dcqcn", "rto_min", "rdma_timeout"),
        ("roce_dcqcn", "congestion_control", "rdma_control"),
        ("roce_hpcc", "delayed_ack_segments", "rdma_ack_every"),
        ("dctcp", "rdma_timeout", "rto_min"),
        ("cubic", "rdma_control", "congestion_control"),
    ],
)
def test_errors_name_the_key_that_does_the_same(preset, key, instead):
    (problem,) = problems(f'{STAR}[transport]\npreset = "{preset}"\n{key} = 1\n{FLOWS}')
    assert f"use {instead}" in problem["hint"]


def explain(transport: str, *overrides: tuple[str, str]) -> dict[str, tuple[str, str]]:
    rows = _core.resolve(f"{STAR}{transport}{FLOWS}", overrides=overrides).explain()
    return {path: (value, origin) for path, value, origin in rows}


def both(preset: str, table: str = "transport") -> str:
    """A transport with keys of two kinds in their tables."""
    return f'[{table}]\npreset = "{preset}"\n[{table}.tcp]\nrto_min = "5 ms"\n[{table}.rdma]\nrdma_timeout = "3 ms"\n'


def test_a_table_of_a_kind_acts_for_that_kind():
    tcp = explain(both("dctcp"))
    assert tcp["transport.rto_min"] == ('"5 ms"', "file")
    assert tcp["transport.rdma.rdma_timeout"] == ('"3 ms"', "file")
    assert "transport.rdma_timeout" not in tcp
    rdma = explain(both("dctcp"), ("transport.preset", "roce_hpcc"))
    assert rdma["transport.rdma_timeout"] == ('"3 ms"', "file")
    assert rdma["transport.tcp.rto_min"] == ('"5 ms"', "file")
    assert explain(both("uec_nscc", "transports.other"))["transports.other.rdma_timeout"] == ('"3 ms"', "file")


def test_what_is_written_resolves_to_itself():
    for preset in ("dctcp", "roce_dcqcn"):
        first = _core.resolve(f"{STAR}{both(preset)}{FLOWS}")
        assert _core.resolve(first.toml).toml == first.toml


def test_values_of_the_other_kind_are_checked():
    text = f'{STAR}[transport]\npreset = "dctcp"\n[transport.rdma]\nrdma_timeout = "3 KB"\nrto_min = "1 ms"\n{FLOWS}'
    assert [one["path"] for one in problems(text)] == ["transport.rdma.rdma_timeout", "transport.rdma.rto_min"]


def test_a_key_stands_in_one_place():
    text = f'{STAR}[transport]\nrto_min = "2 ms"\n[transport.tcp]\nrto_min = "5 ms"\n{FLOWS}'
    (problem,) = problems(text)
    assert problem["path"] == "transport.rto_min"
    assert "too" in problem["message"]


def test_kind_and_preset_agree():
    (problem,) = problems(f'{STAR}[transport]\npreset = "dctcp"\nkind = "rdma"\n{FLOWS}')
    assert problem["path"] == "transport.kind"
    assert 'preset "dctcp" is of kind "tcp"' in problem["message"]
    assert explain('[transport]\nkind = "rdma"\n')["transport.preset"][0] == '"roce_dcqcn"'


UDP = """
[[workload]]
kind = "udp"
rate = "2 Gbps"
sources = ["host1"]
destinations = ["host0"]
size = "100 KB"
stop = "1 ms"
"""


def test_datagrams_have_a_transport():
    text = f'{STAR}[transports.video]\npreset = "udp"\necn = "classic"\npriority = 2\n{UDP}transport = "video"\n'
    resolved = _core.resolve(text)
    rows = {path: value for path, value, _ in resolved.explain()}
    assert (rows["workload.0.priority"], rows["workload.0.ecn"]) == ("2", "true")
    assert _core.resolve(resolved.toml).toml == resolved.toml
    run = _core.run(resolved)
    assert run.summary["datagrams_sent"] == 68
    plain = _core.run(_core.resolve(f"{STAR}{UDP}priority = 2\necn = true\n"))
    assert run.summary["fingerprint"] == plain.summary["fingerprint"]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (f'{STAR}{UDP}transport = "default"\n', "workload.0.transport", 'kind "udp"'),
        (f'{STAR}[transport]\npreset = "udp"\n{FLOWS}', "workload.0.transport", "udp"),
        (
            f'{STAR}[transports.video]\npreset = "udp"\npriority = 2\n{UDP}transport = "video"\npriority = 4\n',
            "workload.0.priority",
            "its transport has 2",
        ),
    ],
)
def test_datagrams_and_flows_keep_apart(text, path, words):
    found = {one["path"]: one["message"] + one["hint"] for one in problems(text)}
    assert words in found[path]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ('[switch]\nqueue = "pfabric"\n', "switch.queue"),
        ('[switch.classes.data]\npriorities = [3]\nqueue = "pfabric"\n', "switch.classes.data.queue"),
    ],
)
def test_pfabric_needs_tcp(tables, words):
    found = problems(f'{STAR}{tables}[transport]\npreset = "roce_dcqcn"\n{FLOWS}')
    assert [one["path"] for one in found] == [words]


def test_vlans_per_packet_need_tcp():
    fabric = STAR.replace("star", "leaf_spine").replace("hosts = 3", "leaves = 2\nspines = 2\nhosts_per_leaf = 2")
    text = fabric + '[routing]\nkind = "order_pair"\nvlans = 4\nper = "packet"\n'
    for kind in ("rdma", "udp"):
        workload = UDP if kind == "udp" else f'[transport]\npreset = "{PRESETS[kind]}"\n{FLOWS}'
        assert [one["path"] for one in problems(text + workload)] == ["routing.per"]
    _core.resolve(text + FLOWS)


@pytest.mark.parametrize("key", ["tso = true", "gro = true", 'refusing = ["host0"]', "ticks_apart = true"])
def test_keys_of_hosts_that_act_on_tcp_alone_are_warned_of(key):
    host = f"[host]\n{key}\n"
    name = f"host.{key.split()[0]}"
    rdma = _core.resolve(f'{STAR}{host}[transport]\npreset = "roce_dcqcn"\n{FLOWS}')
    assert any(warning.startswith(name) for warning in rdma.warnings)
    tcp = _core.resolve(f"{STAR}{host}{FLOWS}")
    assert not any(warning.startswith(name) for warning in tcp.warnings)


def test_queue_pairs_to_a_silent_host_fail():
    text = f'stop = "2 s"\n{STAR}[host]\nsilent = ["host0"]\n[transport]\npreset = "roce_dcqcn"\n{FLOWS}'
    summary = _core.run(_core.resolve(text)).summary
    assert (summary["flows_finished"], summary["flows_failed"]) == (0, 2)


def valid(schema: dict[str, Any], transport: dict[str, Any]) -> bool:
    document = {
        "topology": {"kind": "star", "hosts": 3},
        "workload": [{"kind": "n_to_1", "size": "1 MB"}],
        "transport": transport,
    }
    return bool(jsonschema.Draft202012Validator(schema).is_valid(document))


def test_the_schema_has_the_same_rule():
    schema = json.loads(_core.schema())
    assert valid(schema, {"rto_min": "5 ms"})
    assert valid(schema, {"preset": "dctcp", "rto_min": "5 ms", "rdma": {"rdma_timeout": "3 ms"}})
    assert valid(schema, {"preset": "roce_hpcc", "rdma_timeout": "5 ms", "tcp": {"rto_min": "3 ms"}})
    assert valid(schema, {"kind": "rdma", "rdma_timeout": "5 ms"})
    assert not valid(schema, {"preset": "roce_hpcc", "rto_min": "5 ms"})
    assert not valid(schema, {"rdma_timeout": "5 ms"})
    assert not valid(schema, {"preset": "dctcp", "rdma": {"rto_min": "5 ms"}})
