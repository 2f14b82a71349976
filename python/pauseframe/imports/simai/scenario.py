"""Puts SimAI's files together: a folder with scenario.toml, the Ethernet as JSON, and the unchanged workload text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pauseframe._core import InputError, Topology
from pauseframe.imports.fates import Fate, ImportedFolder, comments
from pauseframe.imports.ns3_conf import DEFAULT, Network, read_conf
from pauseframe.imports.simai.environment import read_environment
from pauseframe.imports.simai.topology import SimaiTopology
from pauseframe.imports.simai.workload import fates, read_workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.imports.simai.workload import SimaiWorkload

FABRIC = "fabric.json"
RANKS = "gpus.txt"
UNIT = Fate(
    "SimAI's results",
    "GB/s",
    "",
    "assumed",
    "they are GiB/s (2^30 bytes): 46.57 there is 50 here; pauseframe prints 10^9 bytes, as nccl-tests does",
)


def import_simai(
    topology: Path,
    workload: Path | None = None,
    config: Path | None = None,
    *,
    environment: Sequence[str] = (),
    without: Sequence[str] = (),
    as_simai: bool = False,
) -> ImportedFolder:
    """Reads the files of `SimAI_simulator -n TOPOLOGY -w WORKLOAD -c CONFIG`.

    Without a workload all GPUs sum 1 MiB (all-reduce). `environment` has SimAI's variables as NAME=VALUE; `without`
    names keys of the config to leave out; `as_simai` follows SimAI's own rules for groups and sizes.

    Raises:
        InputError: a line is damaged, or a key cannot be followed.

    """
    network = SimaiTopology(topology)
    found = network.fates()
    read = read_workload(workload) if workload is not None else None
    if read is not None:
        _check_size(read, network)
        found += fates(read, network.gpus, as_simai=as_simai)
    if config is None and without:
        raise InputError(
            f"--without {without[0]}: there is no config to leave it out of; name one with --config, or remove this"
        )
    first, tables = [f"name = {json.dumps(topology.stem)}", "stop = { when_finished = true }"], [DEFAULT]
    if config is not None:
        ethernet = Topology.parse(network.node_link(), "node-link")
        first, tables, of_config = read_conf(config, Network(topology.stem, network.fabric(), ethernet), without)
        found += of_config
    else:
        found.append(Fate("SimAI.conf", "all keys", "", "assumed", "none was named: preset roce_dcqcn"))
    collectives, of_environment = read_environment(environment)
    found += [*of_environment, UNIT]
    parts = [
        ["# From files of SimAI; what became of each key:", *comments(found)],
        first,
        ["", "[topology]", 'kind = "file"', f'path = "{FABRIC}"', 'format = "node-link"'],
        network.scale_up(),
        *tables,
        _workload(read, network, collectives, as_simai),
    ]
    files = {"scenario.toml": "\n".join([*(line for part in parts for line in part), ""]), FABRIC: network.node_link()}
    ranks = (read.gpus if read is not None else None) or network.gpus
    files[RANKS] = "".join(f"{name}\n" for name in network.names[:ranks])
    if read is not None:
        files[_name(read)] = read.path.read_text(encoding="utf-8")
    return ImportedFolder(files, found, network.notes)


def _check_size(workload: SimaiWorkload, network: SimaiTopology) -> None:
    gpus = workload.gpus
    if gpus is not None and gpus > network.gpus:
        raise InputError(
            f"{workload.path}, line 1: all_gpus: {gpus}, and {network.path} has {network.gpus} GPUs: name a topology "
            f"of {gpus} GPUs"
        )


def _name(workload: SimaiWorkload) -> str:
    name = workload.path.name
    return name if name not in {"scenario.toml", FABRIC, RANKS} else f"workload-{name}"


def _workload(read: SimaiWorkload | None, network: SimaiTopology, collectives: list[str], as_simai: bool) -> list[str]:
    chosen = [*collectives, 'slice = "step"'] if as_simai else collectives
    entries = ", ".join(['library = "nccl"', *chosen])
    lines = ["", "[[workload]]", f'hosts_file = "{RANKS}" # rank r is GPU r, as in SimAI']
    if read is None:
        lines += [
            'kind = "application"',
            'pattern = "all_reduce"',
            f"ranks = {network.gpus}",
            'size = "1 MiB"',
            "timeline = true",
        ]
        return [*lines, f"collectives = {{ {entries} }}"]
    lines += ['kind = "training"', f"file = {json.dumps(_name(read))}"]
    lines += [] if read.gpus is not None else [f"gpus = {network.gpus}"]
    lines += ["as_simai = true"] if as_simai else []
    return [*lines, "timeline = true # the report draws it", f"collectives = {{ {entries} }}"]
