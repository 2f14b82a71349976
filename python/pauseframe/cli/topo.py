"""The commands `topo`: show, draw and convert topologies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pauseframe.cli._common import (
    AsJson,
    Force,
    name_file,
    out_option,
    print_json,
    print_known,
    print_pairs,
    refuse_existing,
    say,
)
from pauseframe.cli._errors import NOT_DONE
from pauseframe.cli._fabric import Arranged, Delay, Drawn, Format, Rate, Source, load
from pauseframe.cli._options import PlainTyper

commands = PlainTyper()
topo = commands.group("topo", "Inspect, draw and convert topologies.")


@topo.command(epilog="Examples: pauseframe topo show jellyfish:switches=225,ports=64,hosts_per_switch=32 | "
              "pauseframe topo show lab.clab.yml --json")  # fmt: skip
def show(
    source: Source, from_: Format = None, rate: Rate = "10 Gbps", delay: Delay = "1 us", as_json: AsJson = False
) -> None:
    """Show counts, rates, diameter, bisection, and problems.

    The exit code is 1 if the topology has a problem.
    """
    from pauseframe.fabric.topology import statistics_lines

    topology = load(source, from_, rate, delay)
    statistics = topology.statistics()
    if as_json:
        print_json(statistics | {"notes": topology.notes})
    else:
        print_pairs(statistics_lines(statistics, topology), source)
        for problem in statistics["problems"]:
            say(f"problem: {problem}")
    if statistics["problems"]:
        raise typer.Exit(NOT_DONE)


@topo.command(epilog="Example: pauseframe topo draw leaf_spine:leaves=4,spines=2,hosts_per_leaf=4 -o fabric.svg")
def draw(
    source: Source,
    out: Drawn,
    layout: Arranged = "auto",
    from_: Format = None,
    rate: Rate = "10 Gbps",
    delay: Delay = "1 us",
    as_json: AsJson = False,
) -> None:
    """Draw a topology."""
    from pauseframe.fabric.draw import draw as draw_topology

    draw_topology(load(source, from_, rate, delay), out, layout=layout, title=source)
    name_file(out, as_json)


@topo.command(epilog="Examples: pauseframe topo export fat_tree:k=4 -o fat_tree.graphml | "
              "pauseframe topo export fabric.ibnetdiscover -o fabric.clab.yml")  # fmt: skip
def export(
    source: Source,
    out: Annotated[Path, out_option("The file; its extension says which format.")],
    format: Annotated[str | None, typer.Option(help="graphml, node-link, hpcc, htsim or containerlab.")] = None,
    from_: Format = None,
    rate: Rate = "10 Gbps",
    delay: Delay = "1 us",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Convert a topology to another format.

    Keeps names, rates, delays and ports if the format supports them.
    """
    from pauseframe.fabric.topology import format_of
    from pauseframe.files.atomic import write_text

    text = load(source, from_, rate, delay).write(format or format_of(out))
    refuse_existing(out, force)
    name_file(write_text(out, text, replace=force), as_json)


@topo.command(epilog="Example: pauseframe topo families")
def families(as_json: AsJson = False) -> None:
    """List the topology families and their parameters."""
    from pauseframe import _core

    others = "rate, delay, fabric_rate, fabric_delay, ports_per_host and planes"
    print_known(_core.families(), as_json, f"each also takes {others}")
