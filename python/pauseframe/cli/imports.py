"""The commands `import`: input files of other simulators become scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pauseframe._core import InputError
from pauseframe.cli._common import AsJson, Force, name_file, out_option, say
from pauseframe.cli._options import PlainTyper

commands = PlainTyper()
imports = commands.group("import", "Turn inputs of other simulators into scenarios.")


@imports.command(epilog="Example: pauseframe import hpcc mix/config.txt && pauseframe run mix/config.toml")
def hpcc(
    config: Annotated[Path, typer.Argument(help="The simulator's config.txt.")],
    out: Annotated[Path | None, out_option("The scenario file; beside the config if left out.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Leave a key of the config out, which is refused otherwise. Repeatable."),
    ] = None,
    topology: Annotated[Path | None, typer.Option(help="Topology file, in place of TOPOLOGY_FILE.")] = None,
    flows: Annotated[Path | None, typer.Option(help="Flow file, in place of FLOW_FILE.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the scenario of a config.txt of the HPCC simulator or a fork: ConWeave, PowerTCP, SimAI.

    Each key is used, shows why it changes nothing, or is refused; the scenario file lists them. The topology and flow
    files are read unchanged.
    """
    from pauseframe.imports.hpcc import read_config

    target = out or config.with_suffix(".toml")
    if target.exists() and not force:
        raise InputError(f"{target} exists: name another file, or replace it with --force")
    imported = read_config(config, folder=target.parent, without=without or (), topology=topology, flows=flows)
    target.write_text(imported.toml, encoding="utf-8")
    for note in imported.notes:
        say(f"note: {note}")
    name_file(target, as_json)
