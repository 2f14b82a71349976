"""Converts a `config.txt` of the HPCC simulator (Li et al., SIGCOMM 2019) and its forks to a scenario.

Forks are ConWeave, PowerTCP, SimAI and astra-network-ns3. A line is a key and its values. Every key is used, has no
effect here for a stated reason, or is refused, so that nobody assumes equal runs; `without` leaves a key out.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes
from pauseframe.imports.config_file import Config, read_entries
from pauseframe.imports.ns3_fabric import Fabric, faults, hosts, routing, switches
from pauseframe.imports.ns3_run import SILENT, judge_rest, opening
from pauseframe.imports.ns3_transport import DCQCN, FLAGS_OF_HPCC, transport

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Imported:
    """A scenario as TOML, and one note on what became of each key."""

    toml: str
    notes: list[str]


def read_config(
    path: Path,
    *,
    folder: Path | None = None,
    without: Sequence[str] = (),
    topology: Path | None = None,
    flows: Path | None = None,
) -> Imported:
    """The scenario of a `config.txt`, for a file in `folder` (beside it if not given).

    `without` names keys to leave out; `topology` and `flows` replace the files that the config names.

    Raises:
        InputError: a line is damaged, a file or key is missing, or a key cannot be followed.

    """
    if path.is_file() and not KNOWN & set(read_bytes(path, share=16).decode("utf-8", "replace").split()):
        raise InputError(f"{path} is no config.txt of the HPCC simulator: it has none of its keys, such as CC_MODE")
    config = Config(path, read_entries(path))
    if unknown := next((key for key in without if key not in config.entries), None):
        raise InputError(f"--without {unknown}: {path} has no such key")
    left = {key: f"left out, as --without asks: {key} {config.entries.pop(key).text}" for key in without}
    base = folder or path.parent
    wiring = topology_file(config, topology)
    fabric, graph = fabric_of(wiring)
    parts = [
        opening(config, path.stem),
        [
            "",
            "[topology]",
            'kind = "file"',
            f"path = {json.dumps(os.path.relpath(wiring, base))}",
            'format = "hpcc"',
        ],
        hosts(config, fabric),
        routing(config, fabric),
        switches(config, fabric),
        transport(config),
        faults(config, fabric, graph),
        _flows(config, flows, base),
    ]
    judge_rest(config)
    notes = [f"{key} {config.entries[key].text}: {fate}" for key, fate in config.fates.items() if key in config.entries]
    notes += left.values()
    head = [
        f"# From {path.name} of the HPCC simulator or a fork; what became of each key:",
        *(f"#   {n}" for n in notes),
    ]
    return Imported("\n".join([*head, *(line for part in parts for line in part), ""]), notes)


def _file(config: Config, key: str, given: Path | None) -> Path:
    """The file of a key: the simulator's names begin at the folder that it runs in, which is one above the config's."""
    if given is not None:
        if not given.is_file():
            raise InputError(f"{given}: there is no such file")
        if key in config.entries:
            config.used(key, f"replaced by {given}")
        return given
    option = "--topology" if key == "TOPOLOGY_FILE" else "--flows"
    try:
        name = config.one(key)
    except InputError as error:
        raise InputError(f"{error}: name the file with {option}") from None
    here = config.path.resolve().parent
    places = [here, *list(here.parents)[:6], Path.cwd()]
    for candidate in [*(folder / name for folder in places), here / Path(name).name]:
        if candidate.is_file():
            config.used(key, str(os.path.relpath(candidate, here)))
            return candidate
    raise config.error(key, f"{name}: no such file beside the config or in a folder above it; name it with {option}")


def topology_file(config: Config, given: Path | None) -> Path:
    """The file of TOPOLOGY_FILE, or `given`. Raises InputError if there is none."""
    return _file(config, "TOPOLOGY_FILE", given)


def fabric_of(path: Path) -> tuple[Fabric, _core.Topology]:
    """The fabric and the graph of a topology file. Raises InputError if a line is damaged."""
    read = _core.Topology.read(str(path), format="hpcc")
    # Refuses NVSwitches and hosts that are wired to hosts, with the message of all other commands.
    read.with_single_ports()
    nodes = [(name, kind) for name, kind, _ in read.nodes()]
    links = [(a, b, rate) for a, b, rate, _ in read.links()]
    return Fabric(nodes, links), read


def _flows(config: Config, given: Path | None, base: Path) -> list[str]:
    path = _file(config, "FLOW_FILE", given)
    return ["", "[[workload]]", 'kind = "flows"', f"file = {json.dumps(os.path.relpath(path, base))}"]


KNOWN = (
    SILENT.keys()
    | DCQCN.keys()
    | FLAGS_OF_HPCC.keys()
    | {
        "ACK_HIGH_PRIO",
        "BUFFER_SIZE",
        "CC_MODE",
        "CLAMP_TARGET_RATE",
        "DCTCP_RATE_AI",
        "ENABLE_IRN",
        "ENABLE_PFC",
        "ENABLE_QCN",
        "ERROR_RATE_PER_LINK",
        "FLOWGEN_STOP_TIME",
        "FLOW_FILE",
        "GLOBAL_T",
        "KMAX_MAP",
        "KMIN_MAP",
        "L2_ACK_INTERVAL",
        "L2_BACK_TO_ZERO",
        "LB_MODE",
        "LINK_DOWN",
        "MI_THRESH",
        "PACKET_PAYLOAD_SIZE",
        "PMAX_MAP",
        "RANDOM_SEED",
        "RATE_BOUND",
        "RATE_DECREASE_INTERVAL",
        "SIMULATOR_STOP_TIME",
        "TOPOLOGY_FILE",
    }
)
"""Keys of the HPCC simulator and its forks."""
