"""What a file or folder is that a command cannot use, and which command takes it.

Readers know only their own format, so their messages about a file of another kind are about its first character. They
ask `refuse_other_kinds` first, which recognises files by their first bytes and folders by a file in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.atomic import read_object

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "manifest.json"
FLOW_LEVEL = "flow_level"
"""Kind of the manifest of a run without packets, whose tables have other columns."""
HEAD = 4096
"""Number of first bytes that decide about a file."""
TOML = 1 << 20
"""Number of bytes of a TOML file in which the table of a sweep or of a search is looked for."""


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder."""

    key: str
    name: str
    """What it is, as in "this is ..."."""
    advice: str
    """Which command takes it; {path} is its path."""

    def message(self, path: Path, wanted: str) -> str:
        """The message of a reader that wants something else."""
        return f"{path} is {self.name}, not {wanted}; {self.advice.format(path=path)}"


GRAPH = 'pauseframe topo show {path} shows it, and a scenario names it: [topology] kind = "file", path = "{path}"'
NOT_READ = "no command reads it: convert it to GraphML, "
FOLDERS = {
    "sweep.json": Kind("sweep folder", "the folder of a sweep", "pauseframe report {path} or compare {path}"),
    "plan.json": Kind(
        "plan",
        "the folder of a route plan",
        "pauseframe route check {path}/topology.graphml {path} checks it, and {path}/topology.graphml is its topology",
    ),
    "deploy.json": Kind("deployment", "the folder of a deployment", "pauseframe lint {path}"),
}
"""Kinds of folders, by a file that only they have."""
DEVICES = Kind("device", "a folder of device configurations", "pauseframe lint {path} checks them")
RUN = Kind("run", "the results folder of a run", "pauseframe report {path}")
FLOW_RUN = Kind(
    "flow run", "the results folder of a run at flow level", "docs/reference/flow-level.md has its tables (Parquet)"
)
SUFFIXES = {
    ".py": Kind(
        "plug-in", "a Python file", "pauseframe cc check {path} checks a plug-in; other programs run in python"
    ),
    ".so": Kind("plug-in", "a shared library", "pauseframe cc check {path} checks a plug-in"),
    ".pkt": Kind("packetdrill", "a packetdrill script", "pauseframe packetdrill {path}"),
    ".topo": Kind("topology", "a topology of htsim", GRAPH),
}


def _compressed(tool: str, by: str) -> Kind:
    return Kind("compressed", f"a file compressed by {by}", f"unpack it first: {tool} {{path}}")


CONTENTS = (
    # Bytes that are no UTF-8 are replaced (`_begin`).
    (r"\x1f\ufffd\x08", _compressed("gunzip -k", "gzip")),
    (r"\(\ufffd/\ufffd", _compressed("zstd -d", "Zstandard")),
    (r"BZh[1-9]1AY&SY", _compressed("bunzip2 -k", "bzip2")),
    (r"\ufffd7zXZ\x00", _compressed("unxz -k", "xz")),
    (r"PK\x03\x04", _compressed("unzip", "zip")),
    (r"PAR1", Kind("table", "a Parquet table", "polars.read_parquet reads it; commands take results folders whole")),
    (r"\s*(<\?xml.*?\?>\s*)?<!doctype html|\s*<html", Kind("page", "a web page", "a browser opens it")),
    (
        r".*(simgrid\.dtd|<platform\b)",
        Kind("simgrid", "a platform of SimGrid", NOT_READ + "or write its hosts and links as [topology] of a scenario"),
    ),
    (
        r".*sndlib\.zib\.de",
        Kind("sndlib", "a network of SNDlib", NOT_READ + 'or write its links as [topology] kind = "custom"'),
    ),
    (r".*<graphml\b", Kind("topology", "a topology in GraphML", GRAPH)),
    (
        r"(\s*(#|Creator|Version|comment).*\n)*\s*graph\s*\[",
        Kind(
            "gml", "a graph in GML", NOT_READ + "networkx.write_graphml(networkx.read_gml('{path}'), 'graph.graphml')"
        ),
    ),
    (
        r"\s*Nodes\s+\d+\s+Connections\s+\d+",
        Kind(
            "connections",
            "a connection matrix of htsim",
            "no command reads it: write its connections as CSV (src,dst,size_bytes,start_us), which a scenario names: "
            'kind = "flows" and file = "flows.csv" in [[workload]]',
        ),
    ),
    (
        r"(?=.*^nodes:)(?=.*^links:)(?!.*^topology:)",
        Kind("netlab", "a lab of netlab", "netlab create writes clab.yml, which pauseframe topo show takes"),
    ),
    (
        r'\s*\{.*"(DEVICE_METADATA|DEVICE_NEIGHBOR|BUFFER_\w+|CABLE_LENGTH|PORT_QOS_MAP|PORT|VLAN)"\s*:\s*\{',
        Kind("device", "a CONFIG_DB of SONiC", "pauseframe lint {path}"),
    ),
    (r'\s*\{.*"nodes"\s*:\s*\[', Kind("topology", "a topology in node-link JSON", GRAPH)),
    (
        r"(\ufeff)?\s*(HYBRID_\w+|MICRO)[ \t\r]*([A-Za-z_]+:|\n)",
        Kind(
            "simai workload",
            "a workload text of SimAI",
            "pauseframe import simai -w {path} -n TOPOLOGY -c SimAI.conf writes its scenario",
        ),
    ),
    (
        r"(\ufeff)?\s*(\d+[ \t]+){5}[A-Za-z]\w*[ \t\r]*\n",
        Kind("topology", "a topology of SimAI", "pauseframe import simai -n {path} --out simai writes its scenario"),
    ),
    (
        r"src,dst,",
        Kind(
            "flow list",
            "a list of flows",
            'a scenario names it: kind = "flows" and file = "{path}" in [[workload]]; pauseframe example flows has one',
        ),
    ),
    (
        r"(vlan,lane|switch,vlan,destination,port)\s*$",
        Kind("tables", "a file of forwarding tables", "pauseframe route check TOPOLOGY {path}"),
    ),
)
"""Kinds of files by their first bytes, the more special ones first."""


TABLES = (
    (r"^\[+sweep\b", Kind("scenario", "a sweep of scenarios", "pauseframe sweep {path} runs it")),
    (r"^\[+tune\b", Kind("scenario", "a search for settings", "pauseframe tune {path} runs it")),
    (r"", Kind("scenario", "a scenario", "pauseframe run {path} simulates it")),
)
"""Kinds of TOML files by a table in them."""


def kind_of(path: Path) -> Kind | None:
    """The kind of a file or folder; None if it does not exist or is of an unknown kind."""
    if path.is_dir():
        return _kind_of_folder(path)
    if not path.is_file():
        return None
    if path.suffix in SUFFIXES:
        return SUFFIXES[path.suffix]
    if path.suffix == ".toml":
        return next(kind for pattern, kind in TABLES if re.search(pattern, _begin(path, TOML), re.MULTILINE))
    flags = re.DOTALL | re.MULTILINE
    return next((kind for pattern, kind in CONTENTS if re.match(pattern, _begin(path, HEAD), flags)), None)


def _begin(path: Path, size: int) -> str:
    """The first bytes of a file as text; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


def _kind_of_folder(path: Path) -> Kind | None:
    if (path / MANIFEST).is_file():
        return FLOW_RUN if (read_object(path / MANIFEST) or {}).get("kind") == FLOW_LEVEL else RUN
    if kind := next((kind for name, kind in FOLDERS.items() if (path / name).is_file()), None):
        return kind
    of_sonic = "config_db.json"
    return DEVICES if (path / of_sonic).is_file() or next(path.glob(f"*/{of_sonic}"), None) else None


def refuse_other_kinds(path: Path, wanted: str, *keys: str) -> None:
    """Raises InputError for a file or folder of a known kind that is none of `keys`."""
    kind = kind_of(path)
    if kind is not None and kind.key not in keys:
        raise InputError(kind.message(path, wanted))
