"""The network of ASTRA-sim: `network.yml` of its analytical backend, or the config of its ns-3 backend.

In network.yml a dimension has a shape, a number of NPUs, a bandwidth in GiB/s (2^30 bytes, though named GB/s) and a
latency of a link in ns. One dimension is a switch with all NPUs. Of two, the first is the inside of servers
(`topology.scale_up`), and the second joins NPUs of equal index, as rails do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.imports.astra.system import repeated
from pauseframe.imports.config_file import Config, read_entries
from pauseframe.imports.fates import Fate
from pauseframe.imports.hpcc import fabric_of, topology_file
from pauseframe.imports.ns3_conf import DEFAULT, Network, read_conf
from pauseframe.scenario.plain import decimal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GIB = 2**30 * 8
"""Bits of a GiB."""
FABRIC = "fabric.json"
SHAPES = ("Ring", "FullyConnected", "Switch")
KEYS = ("topology", "npus_count", "bandwidth", "latency")


@dataclass
class AstraNetwork:
    """The parts of a scenario that a network gives: first lines, topology, other tables, and files."""

    npus: int
    names: list[str] = field(default_factory=list)
    """Hosts in the order of ranks; empty if that is the order in which jobs are placed."""
    first: list[str] = field(default_factory=list)
    topology: list[str] = field(default_factory=list)
    tables: list[list[str]] = field(default_factory=list)
    has_servers: bool = False
    files: dict[str, str] = field(default_factory=dict)
    copies: dict[str, Path] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)


def read_network(path: Path, name: str, *, topology: Path | None, without: Sequence[str]) -> AstraNetwork:
    """Reads a network. `topology` replaces the TOPOLOGY_FILE of an ns-3 config; `without` leaves its keys out.

    Raises InputError with the key of a mistake, or of a shape that Ethernet does not have.
    """
    if path.suffix in {".yml", ".yaml"}:
        if topology is not None or without:
            option = "--topology" if topology is not None else f"--without {without[0]}"
            raise InputError(
                f"{path}: {option} is for the config of the ns-3 backend, and this file has no such key: leave it out"
            )
        return _analytical(path, name)
    return _ns3(path, name, topology, without)


def _ns3(path: Path, name: str, topology: Path | None, without: Sequence[str]) -> AstraNetwork:
    wiring = topology_file(Config(path, read_entries(path)), topology)
    fabric, read = fabric_of(wiring)
    first, tables, fates = read_conf(path, Network(name, fabric, read), without)
    fates.append(Fate(wiring.name, "all lines", "", "used", "topology.txt, unchanged: a rank is a host, in order"))
    hosts = sum(kind == "host" for _, kind in fabric.nodes)
    lines = ["", "[topology]", 'kind = "file"', 'path = "topology.txt"', 'format = "hpcc"']
    names = [name for name, kind in fabric.nodes if kind == "host"]
    return AstraNetwork(hosts, names, first, lines, tables, copies={"topology.txt": wiring}, fates=fates)


def _analytical(path: Path, name: str) -> AstraNetwork:
    try:
        text = read_bytes(path, share=16)
        found = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or "topology" not in found:
        raise InputError(f"{path}: a network of ASTRA-sim has the keys {', '.join(KEYS)}")
    keys = root.value if isinstance(root, yaml.MappingNode) else []
    if twice := repeated(key.value for key, _ in keys):
        raise InputError(f"{path}: {twice[0]} is there twice: keep one of them")
    if unknown := next((key for key in found if key not in KEYS), None):
        raise InputError(f"{path}: {unknown}: this key is not known; known are {', '.join(KEYS)}")
    shapes, counts, rates, latencies = (_list(path, found, key) for key in KEYS)
    if wrong := next((shape for shape in shapes if shape not in SHAPES), None):
        raise InputError(f"{path}: topology {wrong}: give {', '.join(SHAPES)}")
    if not len(shapes) == len(counts) == len(rates) == len(latencies):
        found_counts = ", ".join(f"{key} {len(_list(path, found, key))}" for key in KEYS)
        raise InputError(f"{path}: lists have an entry for each dimension, and here they have {found_counts}")
    if len(shapes) > 2:
        raise InputError(
            f"{path}: {len(shapes)} dimensions: simulated are one (a switch), and two, of which the first is the "
            "inside of servers; for other fabrics write a topology and name it in the scenario"
        )
    numbers = [_numbers(path, key, values) for key, values in zip(KEYS[1:], (counts, rates, latencies), strict=True)]
    network = AstraNetwork(int(numbers[0][0]))
    network.first = [f"name = {json.dumps(name)}", "stop = { when_finished = true }"]
    network.tables = [DEFAULT]
    if len(shapes) == 1:
        _one_dimension(path, network, shapes[0], numbers)
    else:
        _two_dimensions(path, network, shapes, numbers)
    return network


def _list(path: Path, found: dict[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if not isinstance(value, list) or not value:
        raise InputError(f"{path}: {key} is a list with an entry for each dimension: {key}: [ ... ]")
    return value


def _numbers(path: Path, key: str, values: list[Any]) -> list[float]:
    is_count = key == "npus_count"
    for value in values:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_fine = is_number and (2 <= value <= 65_536 and value == int(value) if is_count else 0 <= value < 1e6)
        if not is_fine or (key == "bandwidth" and value == 0):
            wanted = "whole numbers from 2 on" if is_count else "GB/s above 0" if key == "bandwidth" else "ns"
            raise InputError(f"{path}: {key} {value}: give {wanted}")
    return [float(value) for value in values]


def _rate(gib_per_second: float) -> str:
    return f"{gib_per_second * GIB / 1e9:.12g} Gbps"


def _one_dimension(path: Path, network: AstraNetwork, shape: str, numbers: list[list[float]]) -> None:
    (npus,), (rate,), (latency,) = numbers
    if shape != "Switch":
        raise InputError(
            f"{path}: topology [ {shape} ]: NPUs wired to each other forward for each other, which hosts on Ethernet "
            "do not: give [ Switch ]"
        )
    network.topology = ["", "[topology]", 'kind = "star"', f"hosts = {int(npus)}"]
    network.topology.append(f'link = {{ rate = "{_rate(rate)}", delay = "{decimal(latency)} ns" }}')
    file = path.name
    network.fates += [
        Fate(file, "topology", "Switch", "used", f"a star of {int(npus)} hosts"),
        Fate(file, "npus_count", f"{npus:g}", "used", "topology.hosts"),
        _bandwidth(file, rate),
        Fate(file, "latency", f"{latency:g}", "used", "ns: the delay of each of the two links of a path, as there"),
    ]


def _bandwidth(file: str, rate: float) -> Fate:
    how = f"{_rate(rate)}: GB/s are GiB/s (2^30 bytes) in ASTRA-sim"
    return Fate(file, "bandwidth", f"{rate:g}", "used", how)


def _two_dimensions(path: Path, network: AstraNetwork, shapes: list[str], numbers: list[list[float]]) -> None:
    (inside, servers), (fast, slow), (near, far) = numbers
    gpus, count = int(inside), int(servers)
    network.npus, network.has_servers = gpus * count, True
    network.names = [f"gpu{number}" for number in range(gpus * count)]
    hops = {"Switch": 1.0}.get(shapes[1], 0.5)
    network.files[FABRIC] = _rails(gpus, count, slow, f"{far * hops:.12g} ns")
    network.topology = [
        "",
        "[topology]",
        'kind = "file"',
        f'path = "{FABRIC}"',
        'format = "node-link"',
        "",
        "[topology.scale_up] # the first dimension",
        f"gpus_per_server = {gpus}",
        f'rate = "{_rate(fast)}"',
        f'latency = "{near * (2 if shapes[0] == "Switch" else 1):.12g} ns"',
    ]
    file = path.name
    way = "a switch for each rail" + ("" if shapes[1] == "Switch" else ", with half the latency on each of two links")
    joined = "a switch core joins the rails, for messages between GPUs of other servers and another index"
    network.fates += [
        Fate(file, "topology", "", "assumed", joined),
        Fate(file, "topology", shapes[0], "mapped", "topology.scale_up: GPUs of a server share max-min fairly"),
        Fate(file, "topology", shapes[1], "used" if shapes[1] == "Switch" else "mapped", way),
        Fate(file, "npus_count", f"{gpus}, {count}", "used", f"{count} servers of {gpus} GPUs"),
        _bandwidth(file, fast),
        _bandwidth(file, slow),
        Fate(file, "latency", f"{near:g}, {far:g}", "used", "ns, of a link"),
    ]


def _rails(gpus: int, servers: int, rate: float, delay: str) -> str:
    """Node-link JSON: GPU r of each server is at the switch rail r, and the switch core joins the rails."""
    names = [f"gpu{number}" for number in range(gpus * servers)]
    rails = [f"rail{rail}" for rail in range(gpus)]
    nodes = [{"id": name, "kind": "host"} for name in names] + [{"id": name, "kind": "switch"} for name in rails]
    wires = [(name, rails[number % gpus], _rate(rate)) for number, name in enumerate(names)]
    if gpus > 1:
        nodes.append({"id": "core", "kind": "switch"})
        wires += [(rail, "core", _rate(rate * servers)) for rail in rails]
    edges = [
        {"source": a, "target": b, "from": a, "rate": speed, "delay": delay, "link": number}
        for number, (a, b, speed) in enumerate(wires)
    ]
    graph = {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges}
    return json.dumps(graph, indent=1) + "\n"
