"""Code that `topo` and `route` share: reading and drawing of topologies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pauseframe.cli._common import out_option, say

if TYPE_CHECKING:
    from pauseframe._core import Topology

Source = Annotated[
    str,
    typer.Argument(
        metavar="TOPOLOGY", help="Scenario (.toml), file of an interchange format, or family: fat_tree:k=6."
    ),
]
Format = Annotated[
    str | None, typer.Option("--from", metavar="FORMAT", help="Format of the topology file [default: by its name].")
]
Rate = Annotated[str, typer.Option("--rate", help="Rate of the links for which the file gives none.")]
Delay = Annotated[str, typer.Option("--delay", help="Delay of the links for which the file gives none.")]
HostsPerSwitch = Annotated[
    int, typer.Option("--hosts-per-switch", min=0, help="Hosts to give every switch, if the topology has none.")
]


Layout = Literal["auto", "levels", "circle", "spring"]
"""Layouts of switches in drawings."""
Drawn = Annotated[Path, out_option("A .svg or .html file.")]
Arranged = Annotated[
    Layout, typer.Option("--layout", help="auto: rows by level where there are levels, else a circle.")
]


def load(source: str, format: str | None, rate: str, delay: str) -> Topology:
    from pauseframe.fabric.topology import load_topology

    topology = load_topology(source, format=format, rate=rate, delay=delay)
    for note in topology.notes:
        say(f"note: {note}")
    return topology


def prepared(source: str, format: str | None, rate: str, delay: str, hosts_per_switch: int) -> Topology:
    """Reads a topology for route planning: every host must have one port, and no link may join a switch to itself."""
    from pauseframe.fabric.parts import single_ports
    from pauseframe.fabric.topology import load_topology, loops

    topology = load_topology(source, format=format, rate=rate, delay=delay)
    notes = topology.notes
    if circular := loops(topology):
        notes += [f"links from a switch to itself were left out: {', '.join(name for _, name in circular)}"]
        topology = topology.without([link for link, _ in circular])
    topology = topology.with_hosts(hosts_per_switch) if hosts_per_switch else single_ports(topology)
    for note in dict.fromkeys([*notes, *topology.notes]):
        say(f"note: {note}")
    return topology


class Display:
    """A progress bar for a long computation; shows nothing if stderr is not a terminal."""

    def __init__(self, name: str, quiet: bool) -> None:
        from pauseframe.terminal.progress import stage_display

        self._display = None if quiet else stage_display(name)

    def __enter__(self) -> Any:
        return self._display

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.close()
