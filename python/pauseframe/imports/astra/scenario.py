"""Puts ASTRA-sim's files together: a folder with scenario.toml, the topology, and the Chakra traces unchanged."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.imports.astra.network import read_network
from pauseframe.imports.astra.system import System, read_json, read_system
from pauseframe.imports.fates import Fate, ImportedFolder, comments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.imports.astra.network import AstraNetwork

CYCLES = Fate("ASTRA-sim's results", "cycles", "", "assumed", "they are nanoseconds; pauseframe prints microseconds")


def import_astra(
    workload: Path,
    network: Path,
    system: Path | None = None,
    *,
    logical: Path | None = None,
    groups: Path | None = None,
    memory: Path | None = None,
    topology: Path | None = None,
    without: Sequence[str] = (),
) -> ImportedFolder:
    """Reads the files of AstraSim: Chakra traces `workload` (a folder, or WORKLOAD.0.et ...), `network`, `system`.

    `logical` has logical-dims, `groups` the communicators, `memory` the remote memory. `topology` replaces the file
    that an ns-3 config names, and `without` names keys of it or of the system to leave out.

    Raises:
        InputError: a file is damaged, files disagree, or a key cannot be followed.

    """
    traces = _traces(workload)
    keys = read_json(system, "a system of ASTRA-sim").keys() if system is not None else ()
    of_system = [key for key in without if key in keys]
    name = workload.name or "astra"
    net = read_network(network, name, topology=topology, without=[key for key in without if key not in of_system])
    if system is not None:
        rules = read_system(system, nccl=net.has_servers, without=of_system)
    else:
        rules = System(['collectives = { library = "nccl" }'] if net.has_servers else [])
    if net.npus < len(traces):
        raise InputError(f"{workload}: it has {len(traces)} ranks, and {network} has {net.npus} NPUs")
    found = [Fate(workload.name, "traces", str(len(traces)), "used", "trace/: Chakra files, one for each rank")]
    found += [*net.fates, *rules.fates]
    found += _dimensions(logical, len(traces), net) if logical is not None else []
    found += _groups(groups, len(traces)) if groups is not None else []
    found += _memory(memory) if memory is not None else []
    found.append(CYCLES)
    parts = [
        ["# From files of ASTRA-sim; what became of each key:", *comments(found)],
        net.first,
        net.topology,
        *net.tables,
        ["", "[[workload]]", 'kind = "application"', 'trace = "trace"', 'format = "chakra"', "timeline = true"],
        ['hosts_file = "ranks.txt" # rank r is NPU r'] if net.names else [],
        rules.entries,
    ]
    copies = net.copies | {f"trace/rank.{rank}.et": path for rank, path in enumerate(traces)}
    text = "\n".join([*(line for part in parts for line in part), ""])
    files = {"scenario.toml": text, **net.files}
    if net.names:
        files["ranks.txt"] = "".join(f"{name}\n" for name in net.names[: len(traces)])
    return ImportedFolder(files, found, copies=copies)


def _traces(workload: Path) -> list[Path]:
    """The Chakra files by rank. Raises InputError if a rank is missing."""
    folder, prefix = (workload, "") if workload.is_dir() else (workload.parent, workload.name)
    if not folder.is_dir():
        raise InputError(f"{workload}: there is no folder {folder}")
    found: dict[int, Path] = {}
    names = set()
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(r"(.*)\.([0-9]{1,7})\.et", path.name)
        if match and (not prefix or match[1] == prefix):
            names.add(match[1])
            found[int(match[2])] = path
    if len(names) > 1:
        raise InputError(f"{folder} has traces of several names: give {folder}/{min(names)}, as ASTRA-sim does")
    if not found:
        raise InputError(f"{workload}: no Chakra trace there: files are called NAME.0.et, NAME.1.et, ...")
    missing = next((rank for rank in range(len(found)) if rank not in found), None)
    if missing is not None:
        raise InputError(f"{workload}: the trace of rank {missing} is missing; it has {len(found)} others")
    return [found[rank] for rank in range(len(found))]


def _dimensions(path: Path, ranks: int, net: AstraNetwork) -> list[Fate]:
    table = read_json(path, "a logical topology")
    words = table.get("logical-dims")
    if (
        not isinstance(words, list)
        or not words
        or not all(re.fullmatch(r"[1-9][0-9]{0,6}", str(word)) for word in words)
    ):
        raise InputError(f'{path}: it needs "logical-dims", a list of numbers as texts: ["8", "2"]')
    dims = [int(word) for word in words]
    if math.prod(dims) != ranks:
        raise InputError(f"{path}: logical-dims {dims} are {math.prod(dims)} ranks, and the workload has {ranks}")
    if len(dims) == 1:
        how = "one group of all ranks"
    elif net.has_servers:
        how = "the first dimension is a server; collectives go over servers and rails as NCCL's do"
    else:
        how = "collectives go over all ranks at once, not dimension by dimension"
    state = "used" if len(dims) == 1 else "mapped"
    rows = [Fate(path.name, "logical-dims", " ".join(map(str, dims)), "used" if state == "used" else "mapped", how)]
    return rows + _unknown(path, table, "logical-dims")


def _unknown(path: Path, table: dict[str, Any], *known: str) -> list[Fate]:
    return [Fate(path.name, key, "", "no effect", "ASTRA-sim does not read it") for key in table if key not in known]


def _groups(path: Path, ranks: int) -> list[Fate]:
    """Communicators: the trace has their names (pg_name), and ranks that call a collective in one are its members."""
    table = read_json(path, "communicators")
    for name, members in table.items():
        is_list = isinstance(members, list) and all(isinstance(m, int) and 0 <= m < ranks for m in members)
        if not is_list or len(set(members)) < len(members):
            raise InputError(f"{path}: group {name} must list different ranks from 0 to {ranks - 1}")
    how = "members of a group are the ranks whose traces call a collective with its pg_name"
    return [Fate(path.name, "groups", str(len(table)), "mapped", how)]


def _memory(path: Path) -> list[Fate]:
    table = read_json(path, "a remote memory")
    kind = table.get("memory-type")
    if kind != "NO_MEMORY_EXPANSION":
        raise InputError(f"{path}: memory-type {kind}: memory nodes take their duration_micros; leave --memory out")
    return [Fate(path.name, "memory-type", kind, "used", "no remote memory"), *_unknown(path, table, "memory-type")]
