"""A command that gets a file of another kind says what it is, and which command takes it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.cli import app
from pauseframe.examples import write_example
from pauseframe.files.kinds import CONTENTS, DEVICES, FOLDERS, SUFFIXES, TABLES, kind_of
from typer.testing import CliRunner

TEXTS = {
    "plat.xml": '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform/>\n',
    "net.gml": 'Creator "me"\ngraph [\n  node [ id 0 ]\n]\n',
    "pairs.cm": "Nodes 16\nConnections 2\n0->1 id 1 start 0 size 2000\n",
    "abilene.xml": '<?xml version="1.0"?>\n<network xmlns="http://sndlib.zib.de/network" version="1.0"></network>\n',
    "topology.yml": "provider: clab\nnodes: [ r1, r2 ]\nlinks: [ r1-r2 ]\n",
    "graph.json": '{"nodes": [{"id": "a"}], "edges": []}',
    "page.html": "<!doctype html><title>x</title>",
    "rows.csv": "switch,vlan,destination,port\ns0,1,s1,eth2\n",
    "small.topo": "Nodes 4\n",
    "mine.so": "",
    "step.txt": "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 2\n1\n"
    "layer -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n",
    "simai.txt": "4 2 1 1 4 H100\n2 3\n0 2 2880Gbps 0.000025ms 0\n1 2 2880Gbps 0.000025ms 0\n"
    "0 3 400Gbps 0.0005ms 0\n1 3 400Gbps 0.0005ms 0\n",
}
BYTES = {
    "one.toml.gz": gzip.compress(b"name = 1"),
    "one.toml.zst": b"(\xb5/\xfd\x24\x08",
    "one.toml.bz2": bz2.compress(b"name = 1"),
    "one.toml.xz": lzma.compress(b"name = 1"),
    "one.zip": b"PK\x03\x04\x14\x00\x00\x00\x08\x00",
}
KINDS = {
    "run": "the results folder of a run",
    "flow": "the results folder of a run at flow level",
    "sweep": "the folder of a sweep",
    "plan": "the folder of a route plan",
    "deployed": "the folder of a deployment",
    "tune/dctcp_threshold.toml": "a search for settings",
    "sweep.toml": "a sweep of scenarios",
    "one.toml": "a scenario",
    "plugin/swift.py": "a Python file",
    "packetdrill/handshake.pkt": "a packetdrill script",
    "flows/flows.csv": "a list of flows",
    "flows/fabric.graphml": "a topology in GraphML",
    "sonic/configs/leaf0/config_db.json": "a CONFIG_DB of SONiC",
    "sonic/configs": "a folder of device configurations",
    "sonic/configs/leaf0": "a folder of device configurations",
    "run/flows.parquet": "a Parquet table",
    "plat.xml": "a platform of SimGrid",
    "net.gml": "a graph in GML",
    "pairs.cm": "a connection matrix of htsim",
    "abilene.xml": "a network of SNDlib",
    "topology.yml": "a lab of netlab",
    "graph.json": "a topology in node-link JSON",
    "page.html": "a web page",
    "rows.csv": "a file of forwarding tables",
    "small.topo": "a topology of htsim",
    "step.txt": "a workload text of SimAI",
    "simai.txt": "a topology of SimAI",
    "mine.so": "a shared library",
    "one.toml.gz": "a file compressed by gzip",
    "one.toml.zst": "a file compressed by Zstandard",
    "one.toml.bz2": "a file compressed by bzip2",
    "one.toml.xz": "a file compressed by xz",
    "one.zip": "a file compressed by zip",
}
SCENARIO = 'workload = [{ kind = "n_to_1", size = "1 KB" }]\n[topology]\nkind = "star"\nhosts = 2\n'
TAKE = {
    "run": {"a scenario"},
    "show": {"a scenario"},
    "report": {KINDS["run"], KINDS["sweep"]},
    "view": {KINDS["run"]},
    "compare": {KINDS["run"], KINDS["sweep"]},
    "topo show": {name for name in KINDS.values() if "topology" in name or name == "a scenario"},
    "lint": {KINDS["deployed"], "a CONFIG_DB of SONiC", "a folder of device configurations"},
    "deploy -o out": {KINDS["plan"], "a scenario"},
    "cc check --contract": {"a Python file", "a shared library"},
    "packetdrill": {"a packetdrill script"},
    "import pcap -o out": set(),
}
"""Commands, and the kinds that each takes."""
OTHERWISE = {
    ("run", "run"): "run is a folder, not a scenario file: did you mean run/scenario.resolved.toml",
    ("show", "run"): "run is a folder, not a scenario file: did you mean run/scenario.resolved.toml",
    **{(command, "flow"): "" for command in ("report", "view", "compare")},
    **{(command, "run/flows.parquet"): "did you mean its folder run?" for command in ("report", "view", "compare")},
}
"""Answers in other words; "": tests/test_damaged_results.py has them."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    for name in ("tune", "plugin", "packetdrill", "flows", "sonic"):
        write_example(name, folder / name)
    for name, text in {**TEXTS, "one.toml": SCENARIO, "sweep.toml": f"{SCENARIO}[sweep]\nseeds = 2\n"}.items():
        (folder / name).write_text(text)
    for name, content in BYTES.items():
        (folder / name).write_bytes(content)
    pf.run(folder / "one.toml", out=folder / "run", progress=False)
    fabric = str(folder / "flows/fabric.graphml")
    for command in (
        ["flow", str(folder / "one.toml"), "--out", str(folder / "flow"), "-q"],
        ["sweep", str(folder / "sweep.toml"), "--out", str(folder / "sweep"), "-q"],
        ["route", "plan", fabric, "--first-vlan", "100", "--vlans", "4", "-o", str(folder / "plan")],
        ["deploy", str(folder / "plan"), "-o", str(folder / "deployed")],
    ):
        assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    return folder


def test_every_kind_is_recognised(desk: Path) -> None:
    found = {name: kind_of(desk / name) for name in KINDS}
    assert {name: kind and kind.name for name, kind in found.items()} == KINDS
    known = (
        {kind.name for _, kind in (*CONTENTS, *TABLES)}
        | {kind.name for kind in (FOLDERS | SUFFIXES).values()}
        | {DEVICES.name}
    )
    assert known <= set(KINDS.values()), "each kind has a file here"


@pytest.mark.parametrize("command", TAKE)
def test_other_kinds_are_named_with_the_command_for_them(
    command: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    for name, kind in KINDS.items():
        if kind in TAKE[command] or OTHERWISE.get((command, name)) == "":
            continue
        if command in ("run", "show", "topo show") and name.endswith(".toml"):
            continue  # tests/test_scenario.py
        done = CliRunner().invoke(app, [*command.split(), name])
        said = str(done.exception) if done.exit_code == 1 else done.stderr
        expected = OTHERWISE.get((command, name), f"{name} is {kind}, not a")
        assert expected in said.replace("not the", "not a"), (command, name, said)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("mine.so", "small.topo", "graph.json")])
def test_the_advice_is_a_command_that_takes_it(name: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    kind = kind_of(Path(name))
    assert kind is not None
    advice = kind.advice.format(path=name)
    words = advice.split()
    if (
        words[0] != "pauseframe"
        or "TOPOLOGY" in words
        or kind.name in ("a sweep of scenarios", "a search for settings")
    ):
        return
    end = next(
        (n for n, word in enumerate(words) if word in ("checks", "shows", "or", "simulates", "writes")), len(words)
    )
    done = CliRunner().invoke(app, words[1:end])
    assert done.exit_code in ((0, 1) if words[1] == "lint" else (0,)), (words[1:end], done.output, done.exception)


def test_lint_does_not_pass_a_topology(desk: Path) -> None:
    """It counted 0 switches and found nothing wrong."""
    done = CliRunner().invoke(app, ["lint", str(desk / "flows/fabric.graphml")])
    assert (done.exit_code, "is a topology in GraphML, not a device file" in done.stderr) == (2, True)


def test_device_files_that_look_like_little_are_read(tmp_path: Path) -> None:
    file = tmp_path / "config_db.json"
    file.write_text(json.dumps({"PORT": {"Ethernet0": {"lanes": "0", "speed": "100000"}}}))
    assert CliRunner().invoke(app, ["lint", str(file)]).exit_code in (0, 1)
