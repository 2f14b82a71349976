"""The ns-3 config of SimAI and ASTRA-sim: a config of the HPCC simulator, read as `pauseframe import hpcc` reads it.

They differ in three points: packets of up to 9,000 bytes, flows that the workload makes, and names of files that the
command line gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.imports.config_file import Config, Entry, read_entries
from pauseframe.imports.fates import Fate
from pauseframe.imports.ns3_fabric import faults, hosts, routing, switches
from pauseframe.imports.ns3_run import judge_rest, opening
from pauseframe.imports.ns3_transport import transport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe import _core
    from pauseframe.imports.fates import State
    from pauseframe.imports.ns3_fabric import Fabric

LARGEST = 4096
"""Largest path MTU of a queue pair, in bytes (InfiniBand Architecture Specification, section 5.2.1)."""
FILES = {
    "FLOW_FILE": "the workload makes the flows",
    "TOPOLOGY_FILE": "the topology is in the scenario's folder",
}
"""Names of files that the command line replaces."""
DEFAULT = ["", "[host]", 'mtu = "4200 B"', "", "[transport]", 'preset = "roce_dcqcn"']
"""Tables without a config."""


@dataclass(frozen=True)
class Network:
    """The Ethernet that a config refers to: nodes by the ids of its file, the graph, and the name of the scenario."""

    name: str
    fabric: Fabric
    ethernet: _core.Topology


def read_conf(path: Path, network: Network, without: Sequence[str]) -> tuple[list[str], list[list[str]], list[Fate]]:
    """The first lines and the tables of a scenario, and what became of each key of the config.

    Raises InputError for a damaged line, an unknown key and a key that cannot be followed.
    """
    entries = read_entries(path)
    if "CC_MODE" not in entries:
        read_bytes(path, share=16)
        raise InputError(f"{path} is no ns-3 config of SimAI or ASTRA-sim: it has no CC_MODE")
    config = Config(path, entries)
    if unknown := next((key for key in without if key not in entries), None):
        raise InputError(f"--without {unknown}: {path} has no such key")
    left = [Fate(path.name, key, entries.pop(key).text, "no effect", "left out, as --without asks") for key in without]
    given = {key: entry.text for key, entry in entries.items()}
    mapped = _shorter_packets(config)
    first, fabric = opening(config, network.name), network.fabric
    tables = [hosts(config, fabric), routing(config, fabric), switches(config, fabric), transport(config)]
    tables.append(faults(config, fabric, network.ethernet))
    for key in FILES.keys() & entries.keys():
        config.idle(key, FILES[key])
    if config.refusals.pop("GLOBAL_T", None) is not None:
        mapped["GLOBAL_T"] = "windows follow from the longest path, in the simulator from the path of each pair"
    for key, how in mapped.items():
        config.fates[key] = f"mapped: {how}"
    judge_rest(config)
    return (
        first,
        tables,
        [*(_fate(path, key, given[key], text) for key, text in config.fates.items() if key in given), *left],
    )


def _fate(path: Path, key: str, value: str, text: str) -> Fate:
    state, _, how = text.partition(": ")
    states: dict[str, State] = {"used": "used", "mapped": "mapped", "no effect": "no effect"}
    return Fate(path.name, key, value, states[state], how)


def _shorter_packets(config: Config) -> dict[str, str]:
    """Packets above 4,096 bytes, which no queue pair sends, become packets of 4,096 bytes."""
    key = "PACKET_PAYLOAD_SIZE"
    entry = config.entries.get(key)
    if entry is None or config.whole(key, "") <= LARGEST:
        return {}
    size = config.whole(key, "")
    config.entries[key] = Entry([str(LARGEST)], entry.line)
    headers = 100 * (102 / (LARGEST + 102) - 102 / (size + 102))
    return {key: f"{LARGEST:,} B, the largest path MTU of RoCEv2; headers take {headers:.1f} % more of a link"}
